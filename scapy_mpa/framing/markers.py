"""Markers: where they stand in the stream, what they say, taking them out; lengths of FPDUs with and without them.

Offsets are stream offsets in octets, Markers included, counted from SeqStart, the first octet of Full
Operation in that direction. The first Marker is at offset 0 and one follows at every 512th octet, so 508
octets of FPDUs lie between two of them. An FPDU's own offset is that of its first octet: of its leading
Marker, where it has one, because a Marker between two FPDUs belongs to the second (RFC 5044 §4.2, §4.3).

FPDUPTR counts back from the Marker to the FPDU it stands in. The specifications disagree about where that
begins if the FPDU has a leading Marker: ``origin`` is "header" (the ULPDU_Length field: RFC 5044) or
"first-octet" (the leading Marker: both drafts).
"""

from __future__ import annotations

from struct import Struct
from typing import Literal

from scapy_mpa.errors import FramingError
from scapy_mpa.tuples import NamedTuple

#: Anything octets are read from.
Octets = bytes | bytearray | memoryview

#: What FPDUPTR counts from.
Origin = Literal["header", "first-octet"]

#: Octets from one Marker to the next (RFC 5044 §4.3).
MARKER_INTERVAL = 512

#: Octets of a Marker (RFC 5044 §4.2).
MARKER_LENGTH = 4

#: Octets of the ULPDU_Length field (RFC 5044 §4.1).
LENGTH_FIELD_LENGTH = 2

_BETWEEN, _PHASE = MARKER_INTERVAL - MARKER_LENGTH, MARKER_INTERVAL - 1
_FPDUPTR_MOD = 1 << 16
_IGNORED_BITS = 3  # the two low bits of FPDUPTR, read as zero
# The largest FPDU there can be: ULPDU_Length 65535, PAD 3, 130 Markers. No Marker is further from its FPDU's
# start.
LONGEST_FPDU = 2 + 65535 + 3 + 4 + 130 * MARKER_LENGTH
# The smallest: ULPDU_Length, PAD 2, CRC.
SHORTEST_FPDU = 8
_MARKER = Struct(">HH")


class MarkerCheck(NamedTuple):
    """The result of comparing one Marker with the FPDU it stands in."""

    marker_offset: int
    fpduptr: int
    verdict: Literal["good", "other-origin", "bad"]
    expected: int
    reserved: int


def header_offset(offset: int) -> int:
    """The offset of ULPDU_Length in an FPDU that begins at ``offset``: past its leading Marker, if any."""
    return offset if offset % MARKER_INTERVAL else offset + MARKER_LENGTH


def marker_count(offset: int, body: int) -> int:
    """Return how many Markers an FPDU of ``body`` octets (Markers not counted) that begins at ``offset`` holds.

    A Marker right after the last octet is not one of them: it belongs to the next FPDU (RFC 5044 §4.3).
    """
    room = -offset & _PHASE
    return 1 + (body - room - 1) // _BETWEEN if body > room else 0


def pad_length(ulpdu_length: int) -> int:
    """Octets of PAD (0 to 3) after a ULPDU of ``ulpdu_length`` octets (RFC 5044 §4.1)."""
    return -(LENGTH_FIELD_LENGTH + ulpdu_length) % 4


def plain_length(ulpdu_length: int) -> int:
    """Octets of an FPDU without Markers: ULPDU_Length field, ULPDU, PAD and CRC (RFC 5044 §4.1)."""
    return 4 + (2 + ulpdu_length + 3 & ~3)


def wire_length(ulpdu_length: int, offset: int) -> int:
    """Octets of an FPDU that begins at ``offset`` of a stream with Markers, its leading Marker included."""
    body = 4 + (2 + ulpdu_length + 3 & ~3)
    return body + MARKER_LENGTH * marker_count(offset, body)


def marker_positions(start: int, end: int) -> range:
    """The offsets of all Markers whose first octet is at ``start`` or later and before ``end``."""
    return range(start + -start % MARKER_INTERVAL, end, MARKER_INTERVAL)


def expected_fpduptr(marker_offset: int, fpdu_offset: int, origin: Origin = "header") -> int:
    """The FPDUPTR of the Marker at ``marker_offset`` in the FPDU that begins at ``fpdu_offset``, modulo 2^16.

    0 in a leading Marker, whatever the origin (RFC 5044 §4.3).
    """
    if marker_offset == fpdu_offset:
        return 0
    counted_from = header_offset(fpdu_offset) if origin == "header" else fpdu_offset
    return (marker_offset - counted_from) % _FPDUPTR_MOD


def fpdu_start_of(marker_offset: int, fpduptr: int) -> tuple[tuple[int, int], ...]:
    """Return where the FPDU that holds this Marker begins: pairs of its offset and that of its ULPDU_Length.

    The likeliest comes first. A second one stands 65536 octets further back: FPDUPTR wraps in the few FPDUs
    that are so large. Starts before the stream, or further back than an FPDU can be long, are left out. The
    low two bits of FPDUPTR are read as zero; a pointer at a Marker position counts from the drafts' origin
    (RFC 5044 §4.2, §4.3).
    """
    distance = fpduptr & ~_IGNORED_BITS
    return tuple(
        _fpdu_at(marker_offset - back)
        for back in (distance, distance + _FPDUPTR_MOD)
        if back <= marker_offset and back < LONGEST_FPDU
    )


def _fpdu_at(target: int) -> tuple[int, int]:
    """The FPDU that a back-pointer to ``target`` means, as (offset, offset of ULPDU_Length)."""
    beyond_marker = target % MARKER_INTERVAL
    if beyond_marker == 0:
        return target, target + MARKER_LENGTH
    if beyond_marker == MARKER_LENGTH:
        return target - MARKER_LENGTH, target
    return target, target


def encode_marker(fpduptr: int, reserved: int = 0) -> bytes:
    """The 4 octets of a Marker. Raises FramingError if a value does not fit 16 bits. RFC 5044 §4.2."""
    if not (0 <= fpduptr < _FPDUPTR_MOD and 0 <= reserved < _FPDUPTR_MOD):
        raise FramingError(f"Marker: RESERVED {reserved} and FPDUPTR {fpduptr} must each fit 16 bits")
    return _MARKER.pack(reserved, fpduptr)


def decode_marker(octets: Octets) -> tuple[int, int]:
    """(RESERVED, FPDUPTR) of the Marker in the first 4 octets, as sent. FramingError if there are fewer."""
    if len(octets) < MARKER_LENGTH:
        raise FramingError(f"a Marker has {MARKER_LENGTH} octets, not {len(octets)}")
    reserved, fpduptr = _MARKER.unpack_from(octets)
    return reserved, fpduptr


def remove_markers(octets: Octets, offset: int) -> bytes:
    """Take the Markers out of any ``octets`` of the stream, the first of which is at stream offset ``offset``.

    Octets of a Marker cut by either end are taken out too.
    """
    begin = -(offset % MARKER_INTERVAL)  # index of the last Marker position not after the first octet
    if begin <= -MARKER_LENGTH and begin + MARKER_INTERVAL >= len(octets):
        return bytes(octets)
    return b"".join(
        [
            octets[max(0, marker + MARKER_LENGTH) : marker + MARKER_INTERVAL]
            for marker in range(begin, len(octets), MARKER_INTERVAL)
        ]
    )


def check_markers(octets: Octets, offset: int, origin: Origin = "header") -> tuple[MarkerCheck, ...]:
    """Compare each Marker in ``octets``, the FPDU that begins at stream offset ``offset``, with its start.

    "good": FPDUPTR counts from ``origin``; "other-origin": it is right counted from the other one; "bad":
    neither. Its low two bits are not compared, and RESERVED is only reported (RFC 5044 §4.2, §4.3).
    """
    other: Origin = "first-octet" if origin == "header" else "header"
    checks = []
    for marker_offset in marker_positions(offset, offset + len(octets) - MARKER_LENGTH + 1):
        reserved, fpduptr = _MARKER.unpack_from(octets, marker_offset - offset)
        said = fpduptr & ~_IGNORED_BITS
        expected = expected_fpduptr(marker_offset, offset, origin)
        verdict: Literal["good", "other-origin", "bad"] = "bad"
        if said == expected & ~_IGNORED_BITS:
            verdict = "good"
        elif said == expected_fpduptr(marker_offset, offset, other) & ~_IGNORED_BITS:
            verdict = "other-origin"
        checks.append(MarkerCheck(marker_offset, fpduptr, verdict, expected, reserved))
    return tuple(checks)


def require_fpdu_offset(offset: int) -> None:
    """Raise FramingError if no FPDU can begin at ``offset`` of a stream with Markers."""
    if offset < 0 or 0 < offset % MARKER_INTERVAL < MARKER_LENGTH:
        raise FramingError(f"no FPDU can begin at offset {offset}: inside a Marker, or before SeqStart")
