"""What Wireshark is known to miss, or to misread, and which differences that explains.

Each limit was found by running the version that is named, none is supposed. A difference that no limit explains is
worth a look: at the capture, at Wireshark, and at us.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scapy_mpa.framing.markers import MARKER_INTERVAL
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.show import startup_frames
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.wireshark.dissected import DissectedFPDU
from scapy_mpa.wireshark.ours import OurFPDU, OurFPDUs

#: The version in which the limits were found.
SEEN_IN = "4.0.17"

LIMITS: dict[str, str] = {
    "request-not-seen": "a connection whose MPA Request Wireshark has not seen is not dissected",
    "two-networks": (
        "Wireshark takes connections for one that have the same addresses and ports in two VLANs or other networks"
    ),
    "startup-in-pieces": "a startup frame that comes in several segments is not recognised",
    "shares-startup-segment": "an FPDU in the same segment as a startup frame is missed",
    "markers-shared-segment": "with Markers in use, an FPDU is missed unless it is the only one in its segment",
    "markers-segments": "with Markers in use, an FPDU of several segments, or in the middle of one, is missed",
    "markers-two": "the ULPDU of an FPDU with two or more Markers keeps some of them and loses octets; many are missed",
    "markers-behind": "a Marker right after an FPDU is taken for one of its own, so that the FPDU seems to be cut",
    "markers-both": "Markers are taken to be in use in both directions if one side asks for them",
    "markers-grid": (
        "Markers are counted from the first FPDU that is seen: after a missed one, others are missed or misread"
    ),
    "markers-misread": "with Markers in use, octets that are not an FPDU are taken for one",
    "sender-deviates": "a sender that deviates is read as one that conforms",
    "packet-cut": "an FPDU that was captured only in part is shown as a whole one",
    "behind-gap": "after octets that were not captured, FPDUs are missed",
}


class WiresharkShown(NamedTuple):
    """What Wireshark showed: the connections whose Request it dissected, the frames in which startup frames end."""

    requests: frozenset[int]
    startup_frames: frozenset[int]


def uses_markers(connection: Connection) -> bool:
    """Return True if either direction carries Markers."""
    return bool(connection.initiator.markers or connection.responder.markers)


def explain_missing(fpdus: OurFPDUs, seen: WiresharkShown) -> Iterator[tuple[OurFPDU, str | None]]:
    """Yield the FPDUs that Wireshark does not show, each with the limit that explains it, or None."""
    #: The half connections in which Wireshark has missed an FPDU.
    missed: set[tuple[int, bytes]] = set()
    for ours in fpdus.left():
        half = ours.connection.number, ours.key
        yield ours, _missing(ours, fpdus, seen, half in missed)
        missed.add(half)


def explain_missing_startup(connection: Connection, direction: Role) -> str | None:
    """The limit that explains why Wireshark does not show a startup frame of ours; or None."""
    if len(startup_frames(connection, direction)) > 1:
        return "startup-in-pieces"
    return "two-networks" if connection.foreign_paths else None


def _missing(ours: OurFPDU, fpdus: OurFPDUs, seen: WiresharkShown, missed_before: bool) -> str | None:
    connection, record = ours.connection, ours.record
    if connection.number not in seen.requests:
        return "request-not-seen"
    if record.deviation is not None:
        return "sender-deviates"
    if seen.startup_frames.intersection(record.frames):
        return "shares-startup-segment"
    if uses_markers(connection):
        if len(record.frames) > 1:
            return "markers-segments"
        if fpdus.in_frame[record.frames[0]] > 1:
            return "markers-shared-segment"
        if not connection.half(record.direction).markers:
            return "markers-both"
        if record.markers > 1:
            return "markers-two"
        if _ends_at_marker(ours):
            return "markers-behind"
        if missed_before:
            return "markers-grid"
    if ours.is_behind_gap:
        return "behind-gap"
    return "two-networks" if connection.foreign_paths else None


def _ends_at_marker(ours: OurFPDU) -> bool:
    seq_start = ours.connection.half(ours.record.direction).seq_start or 0
    return (ours.record.seq + ours.record.wire_length - seq_start & SEQ_MASK) % MARKER_INTERVAL == 0


def explain_extra(theirs: DissectedFPDU, connections: Iterable[Connection]) -> str | None:
    """The limit that explains an FPDU which only Wireshark shows, on the addresses of these connections; or None."""
    there = list(connections)
    if any(half.key == theirs.key and half.deviation for one in there for half in (one.initiator, one.responder)):
        return "sender-deviates"
    if any(map(uses_markers, there)):
        return "markers-misread"
    if not theirs.crc:
        return "packet-cut"
    return "two-networks" if any(one.foreign_paths for one in there) else None


def explain_difference(ours: OurFPDU, missed_before: bool) -> str | None:
    """The limit that explains why Wireshark shows an FPDU of ours with other contents; or None.

    ``missed_before`` says that Wireshark has not shown some earlier FPDU of the same half connection.
    """
    if ours.record.deviation is not None:
        return "sender-deviates"
    if ours.record.markers > 1:
        return "markers-two"
    if uses_markers(ours.connection) and not ours.connection.half(ours.record.direction).markers:
        return "markers-both"
    if uses_markers(ours.connection) and missed_before:
        return "markers-grid"
    return "two-networks" if ours.connection.foreign_paths else None
