"""What the capture shows about the error that a Terminate names: who broke which clause, or that it is unknown.

A Terminate is the word of its sender.  A finding about the other side before it is evidence for it; where all that the
other side sent was captured and such an error would show on the wire, that there is none is evidence against it.  What
buffers a receiver has is not on the wire.  Where nothing is known, the sentence says what would show it.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.framing.ddp import Terminate
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.report.circumstances import Circumstances, who
from scapy_mpa.rules.findings import Finding
from scapy_mpa.values.lifecycle import Terminated
from scapy_mpa.values.words import plural

#: Rules of FPDUs whose error codes are 2 and 3.
BAD_FPDU: Final = ("crc", "marker-length")
_LLP = 2
_NOT_KNOWN = "cannot be known from this capture"
_FULL_CAPTURE = "a capture that has them would show it"
#: Layer, error type and code of MPA's errors of CRC and Marker (RFC 5044 §8), of an RDMAP Stream (RFC 5040 §4.8).
_CRC, _MARKER, _OF_STREAM = (2, 0, 2), (2, 0, 3), (0, 2, 7)

#: Rules of versions.
_VERSION = ("ddp-version", "rnic-version", "rnic-version-mixed")
#: The errors of a Terminate (RFC 5040 §4.8, RFC 5041 §7.2, RFC 5044 §8): the rules whose breach is one of these.
_RULES_OF: Final[dict[tuple[int, int, int], tuple[str, ...]]] = {
    (0, 1, 0x00): ("stag-invalidated", "memory-life", "read-response-differs", "rdmap-read-request"),
    (0, 1, 0x01): ("memory-bounds", "rdmap-read-request"),
    (0, 1, 0x04): ("ddp-to-wraps",),
    (0, 2, 0x05): _VERSION,
    (0, 2, 0x06): ("ddp-opcode", "ddp-queue", "atomic-opcode", "atomic-response", "read-response-unasked"),
    _OF_STREAM: (
        *("atomic-alignment", "atomic-opcode", "atomic-response", "immediate-length", "rdmap-message-changes"),
        *("rdmap-read-request", "read-response-differs", "ddp-header", "ddp-last", "ulpdu-length-limit"),
    ),
    (1, 1, 0x00): ("stag-invalidated", "memory-life", "read-response-differs"),
    (1, 1, 0x01): ("memory-bounds", "read-response-differs"),
    (1, 1, 0x03): ("ddp-to-wraps",),
    (1, 1, 0x04): _VERSION,
    (1, 2, 0x01): ("ddp-queue",),
    (1, 2, 0x02): ("ddp-msn", "ird-ord-exceeded"),
    (1, 2, 0x03): ("ddp-msn", "ddp-last"),
    (1, 2, 0x04): ("ddp-mo", "ddp-last"),
    (1, 2, 0x06): _VERSION,
}
#: Those of which the wire shows all: versions, opcodes and queues, and TO and length.
_ON_THE_WIRE: Final = frozenset(((0, 2, 5), (0, 2, 6), (1, 1, 3), (1, 1, 4), (1, 2, 1), (1, 2, 6)))
#: Layer and error type of Terminates for a tagged buffer and an untagged one (RFC 5040 §4.8, RFC 5041 §7.2), and the
#: error of an STag that cannot be invalidated.
_TAGGED, _UNTAGGED, _NOT_INVALIDATED = ((0, 1), (1, 1)), (1, 2), (0, 2, 9)
#: Rules whose breach shows that a receiver may have got other octets than those that are believed.
_IN_TWO_FORMS = ("crc-dropped", "overlap", "tcp-checksum", "attack-injection")


def weighed(known: Circumstances, found: Terminated, sender: Role) -> str:
    """Say what the capture shows about what the Terminate of ``sender`` says; "" if it says nothing of its peer."""
    said = found.said
    if said is None:
        return ""
    peer = peer_of(sender)
    unsent = known.finding("terminate-quote", direction=sender)
    if unsent is not None:
        return f"{who(sender)} broke {unsent.clause}: {who(peer)} never sent what it quotes"
    numbers = said.layer, said.etype, said.code
    if numbers == _CRC:
        return _crc(known, peer)
    if numbers == _MARKER:
        return _marker(known, peer)
    message = found.message
    if numbers == _OF_STREAM and message is not None and message.misaligned_to is not None:
        at = f" of frame {message.last_frame}" if found.header is None else ""
        to = f"TO {message.misaligned_to:#x} of its Atomic Request{at} is not 64-bit aligned"
        return f"{who(peer)} broke RFC 7306 §8.2: {to}"
    shown = evidence(known, found, sender)
    if shown is not None:
        return f"{who(peer)} broke {shown.clause}, as captured: {shown.detail} (frame {shown.frame})"
    bad = bad_before(known, found.frame, peer)
    return _came_before(bad, peer) if bad is not None else _not_shown(known, said, sender)


def evidence(known: Circumstances, found: Terminated, sender: Role) -> Finding | None:
    """Return the finding about the peer of ``sender`` that shows the error its Terminate names, None without one.

    Where the Terminate quotes a message, that is also any error in the frames of that message.
    """
    said, message, peer = found.said, found.message, peer_of(sender)
    if said is None or said.layer == _LLP:
        return None
    shown = known.finding(*_RULES_OF.get(said[:3], ()), direction=peer, until=found.frame)
    if shown is not None or message is None:
        return shown
    errors = (
        one
        for one in known.connection.findings
        if one.severity == "error" and one.direction == peer and one.rule.id not in BAD_FPDU
    )
    return next((one for one in errors if message.first_frame <= one.frame <= message.last_frame), None)


def bad_before(known: Circumstances, frame: int, direction: str) -> Finding | None:
    """Return the first CRC or Marker error of a direction, up to a frame."""
    return known.finding(*BAD_FPDU, direction=direction, until=frame)


def _came_before(bad: Finding, peer: Role) -> str:
    error = "a bad CRC" if bad.rule.id == "crc" else "a Marker that contradicts ULPDU_Length"
    return f"{error} from {who(peer)} came before it (frame {bad.frame})"


def _not_shown(known: Circumstances, said: Terminate, sender: Role) -> str:
    """Say what is known about an error of the peer of ``sender`` that no captured FPDU shows."""
    if said.layer == _LLP or not said.etype:
        return ""  # it says nothing of a message
    peer = peer_of(sender)
    lack = _lacks(known, peer)
    if said[:3] not in _ON_THE_WIRE:
        return f"who is to blame {_NOT_KNOWN}, only from {_state_of(said, sender)}"
    if not lack:
        return f"no captured FPDU of {who(peer)} shows that"
    return f"who is to blame {_NOT_KNOWN}: {lack}"


def _state_of(said: Terminate, sender: Role) -> str:
    """Return what of the sender of a Terminate, which no capture holds, shows whether its error is real."""
    if said[:2] == _UNTAGGED:
        return f"the receive buffers that {who(sender)} had posted"
    if said[:2] in _TAGGED or said[:3] == _NOT_INVALIDATED:
        return f"the memory that {who(sender)} had registered"
    return f"the logs of {who(sender)}"


def _lacks(known: Circumstances, direction: Role) -> str:
    """Say why it is not known what the receiver of a direction got, and what would show it; "" if it is known."""
    counts = known.connection.half(direction).counts
    if counts.missing_octets:
        octets = plural(counts.missing_octets, "octet", thousands=True)
        return f"{octets} of {who(direction)} are missing; {_FULL_CAPTURE}"
    if counts.cut_fpdus:
        return f"{plural(counts.cut_fpdus, 'FPDU')} of {who(direction)} were cut off; {_FULL_CAPTURE}"
    if counts.unlocated_octets:
        return f"{plural(counts.unlocated_octets, 'octet', thousands=True)} of {who(direction)} belong to no FPDU"
    if not counts.fpdus:
        return f"no FPDU of {who(direction)} was captured; {_FULL_CAPTURE}"
    forms = known.finding(*_IN_TWO_FORMS, direction=direction)
    return f"octets of {who(direction)} arrived in two versions (frame {forms.frame})" if forms is not None else ""


def _crc(known: Circumstances, peer: Role) -> str:
    """Say what the capture shows about a CRC that does not match, where no bad FPDU was captured before."""
    if not known.connection.crc:
        return "no CRC is in use, as both startup frames have C 0 (RFC 5044 §7.1.1)" if _has_both(known) else ""
    deviating = known.finding("deviating-sender", direction=peer)
    if deviating is not None:
        return _deviates(peer, deviating)
    lack = _lacks(known, peer)
    counts = known.connection.half(peer).counts
    if lack or counts.crc_errors:
        why = lack or "a bad one was captured later"
        return f"whose fault it is {_NOT_KNOWN}: {why}"
    those = f"all {counts.fpdus} FPDUs" if counts.fpdus > 1 else "the only FPDU"
    good = "were captured good here: damaged" if counts.fpdus > 1 else "was captured good here: damaged"
    return f"{those} of {who(peer)} {good} after this tap, or computed differently by its receiver; {_tap_of(peer)}"


def _marker(known: Circumstances, peer: Role) -> str:
    """Say what the capture shows about a Marker that disagrees with ULPDU_Length."""
    half = known.connection.half(peer)
    deviating = known.finding("deviating-sender", direction=peer)
    if deviating is not None:
        return _deviates(peer, deviating)
    if half.markers is False:
        return f"no Markers are in use in what {who(peer)} sends (M 0, RFC 5044 §7.1.1)"
    lack = _lacks(known, peer)
    if lack:
        return f"whose fault it is {_NOT_KNOWN}: {lack}"
    markers = plural(half.counts.marker_count, "Marker")
    agreed = "agreed with ULPDU_Length here: damaged after this tap, or misread by its receiver"
    return f"{markers} of {who(peer)} {agreed}; {_tap_of(peer)}"


def _tap_of(sender: Role) -> str:
    return f"a capture at {who(peer_of(sender))} shows which"


def _deviates(peer: Role, deviating: Finding) -> str:
    return f"{who(peer)} broke {deviating.clause}, as captured: {deviating.detail}"


def _has_both(known: Circumstances) -> bool:
    return known.connection.request is not None and known.connection.reply is not None


def went_on(known: Circumstances) -> str:
    """Say that a side went on after an error of its peer; "" if none did."""
    found = known.finding("error-went-on")
    if found is None or found.direction is None:
        return ""
    role = next(one for one in ROLES if one == found.direction)
    bad = known.finding("crc", "marker-length", direction=peer_of(role))
    if bad is None:
        return ""
    error = "a bad CRC" if bad.rule.id == "crc" else "a Marker that contradicts ULPDU_Length"
    return f"{who(role)} went on after {error} in frame {bad.frame}, which {found.clause} forbids: {found.detail}"
