"""The messages of an MPA connection, as a capture has them: what cases begin from.

``read_exchanges`` reads a capture by the analysis of this package: startup frames, and every FPDU in the order in which
a receiver could deliver it. How it was cut in segments, what was lost and came again is left behind; cases draw that
anew. The octets of a capture are hostile: what is taken of one is bounded (``MOST_OCTETS``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scapy_mpa.capture.index import rewind
from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.fuzz.units import Way
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.found import FoundFPDUs
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.report.said import Said, said_by, said_in

#: Octets of ULPDUs that are taken of a capture; each FPDU counts some more.
MOST_OCTETS = 64 << 20
_OCTETS_AN_FPDU = 200
_IPV4_KEY = 12


class Exchange(NamedTuple):
    """The messages of one connection, and how its two sides lay them; pairs are (Initiator's, Responder's)."""

    source: str
    connection: int
    ip_version: int
    ports: tuple[int, int]
    request: StartupFrame | None
    reply: StartupFrame | None
    ways: tuple[Way, Way]
    #: What the senders do wrong, by name.
    deviations: tuple[str | None, str | None]
    begins_with_syn: bool
    said: tuple[Said, ...]


class Exchanges(NamedTuple):
    """Those of a capture; ``is_whole``: all of its FPDUs are there; ``damage``: where it cannot be read, and why."""

    exchanges: tuple[Exchange, ...]
    is_whole: bool
    damage: tuple[str, ...] = ()


def read_exchanges(
    capture: CaptureSource | Sequence[CaptureSource], source: str, *, most_octets: int = MOST_OCTETS
) -> Exchanges:
    """What was said on the MPA connections of a capture; ``source`` is what it is called in logs.

    The capture is read twice. Raises CaptureError as ``scapy_mpa.analyze`` does, and for one that cannot be read again.
    """
    report = analyze(capture)
    halves = [half for one in report.connections for half in (one.initiator, one.responder)]
    rewind(capture)
    # Only the analysis finds out what a sender does wrong; where none does, it is bounded better.
    deviates = any(half.dialect is not None for half in halves)
    said: dict[int, list[Said]] = {}
    is_whole = True
    for number, one, octets in _recorded(report) if deviates else _found(capture):
        most_octets -= octets + _OCTETS_AN_FPDU
        if most_octets < 0:
            is_whole = False
            break
        said.setdefault(number, []).append(one)
    exchanges = tuple(_exchange(one, source, said.get(one.number, [])) for one in report.connections)
    return Exchanges(exchanges, is_whole, tuple(report.damage))


def _exchange(connection: Connection, source: str, said: list[Said]) -> Exchange:
    halves = connection.initiator, connection.responder
    key = halves[0].key
    origin = connection.profile.fpduptr_origin
    crc = bool(connection.crc)
    return Exchange(
        source,
        connection.number,
        4 if len(key) == _IPV4_KEY else 6,
        (int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")),
        connection.request,
        connection.reply,
        (Way(bool(halves[0].markers), crc, origin), Way(bool(halves[1].markers), crc, origin)),
        (halves[0].deviation, halves[1].deviation),
        connection.request is not None or not connection.profile.startup_frames,
        tuple(said),
    )


def _found(capture: CaptureSource | Sequence[CaptureSource]) -> Iterator[tuple[int, Said, int]]:
    """Number of the connection, what was said, and the octets of the FPDU, in the order of delivery."""
    with FoundFPDUs(capture, "delivered") as found:
        for fpdu in found:
            yield fpdu.connection.number, said_in(fpdu.record, fpdu.decoded), len(fpdu.octets)


def _recorded(report: Report) -> Iterator[tuple[int, Said, int]]:
    """The same by the records of an analysis that knows what the senders do wrong."""
    for connection in report.connections:
        for said, octets in said_by(connection.initiator, connection.responder):
            yield connection.number, said, octets
