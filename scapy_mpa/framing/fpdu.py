"""FPDUs: ULPDU_Length, ULPDU, PAD and CRC, with the Markers that fall among them (RFC 5044 §4.1 to §4.4).

:func:`encode_fpdu` goes from a ULPDU to octets of the stream, :func:`decode_fpdu` back.  How a sender lays them out,
right or wrong, is a :class:`~scapy_mpa.framing.dialect.Dialect`; :func:`write_fpdu` and :func:`read_fpdu` take one.
They go from FPDU to FPDU: a *place* in the stream is an offset, octets from SeqStart, Markers included, and how many
octets are still counted before a Marker is due.  In a dialect FPDUs need not be multiples of four octets, and a Marker
may stand in the middle of any field.

The CRC covers everything of the FPDU that comes before the CRC field, Markers included: a leading Marker, and
one that falls between PAD and CRC, are both part of this FPDU (RFC 5044 §4.4).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from functools import cache

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_field, crc_from_field
from scapy_mpa.framing.dialect import CRCFunction, Dialect
from scapy_mpa.framing.markers import (
    LENGTH_FIELD_LENGTH,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    Origin,
    decode_marker,
    encode_marker,
    require_fpdu_offset,
)
from scapy_mpa.tuples import NamedTuple

#: The largest ULPDU that may be handed to MPA, in octets (RFC 5044 §3).
MAX_ULPDU_LENGTH = 64768

_MAX_FIELD = 0xFFFF
_IGNORED_BITS = 3  # the two low bits of FPDUPTR, read as zero (RFC 5044 §4.2)
_FPDUPTR_MOD = 1 << 16

_CRC_FUNCTIONS: dict[CRCFunction, Callable[[Octets], int]] = {
    "crc32c": crc32c,
    "zlib": zlib.crc32,
    "not-complemented": lambda octets: crc32c(octets) ^ 0xFFFFFFFF,
    "from-zero": lambda octets: crc32c(octets, 0xFFFFFFFF),
}


class Fpdu(NamedTuple):
    """One FPDU as it was found in the stream. Lengths are in octets."""

    ulpdu_length: int
    ulpdu: bytes
    pad: bytes
    #: The value in the CRC field.
    crc: int
    #: None if it was not checked.
    crc_good: bool | None
    #: (stream offset, RESERVED, FPDUPTR) of each Marker, as sent.
    markers: tuple[tuple[int, int, int], ...]
    #: Markers, PAD and CRC included.
    wire_length: int


class FPDUPlace(NamedTuple):
    """The position of an FPDU, in octets of the stream."""

    offset: int
    #: The first octet of its ULPDU_Length.
    header: int
    ulpdu_length: int
    pad: int
    #: The offsets of its Markers.
    markers: tuple[int, ...]
    #: The first octet of its CRC field, or of what follows it if it has none.
    crc_at: int
    end: int
    #: Octets that are counted after its end before the next Marker.
    due: int


@cache
def conformant(markers: bool, crc: bool, origin: Origin = "header") -> Dialect:
    """Return the dialect of a sender that does not deviate (RFC 5044 §4)."""
    return Dialect(markers, crc, origin)


# --- where an FPDU lies ---


def lay_out(
    dialect: Dialect, offset: int, due: int, ulpdu_length: int, pad: int, covered: int, crc_length: int
) -> FPDUPlace:
    """Return where the FPDU at a place lies: ``covered`` octets and a CRC field, its Markers not counted."""
    if not dialect.markers:
        crc_at = offset + covered
        return FPDUPlace(offset, offset, ulpdu_length, pad, (), crc_at, crc_at + crc_length, 0)
    markers: list[int] = []
    between = dialect.between
    header = offset if due else offset + MARKER_LENGTH
    crc_at, due = _over(covered, offset, due, between, markers)
    if not dialect.crc_counts:
        return FPDUPlace(offset, header, ulpdu_length, pad, tuple(markers), crc_at, crc_at + crc_length, due)
    if crc_length and not due:
        # A Marker between PAD and CRC is of the FPDU that ends (RFC 5044 §4.3).
        markers.append(crc_at)
        crc_at, due = crc_at + MARKER_LENGTH, between
    end, due = _over(crc_length, crc_at, due, between, markers)
    return FPDUPlace(offset, header, ulpdu_length, pad, tuple(markers), crc_at, end, due)


def _over(octets: int, at: int, due: int, between: int, markers: list[int]) -> tuple[int, int]:
    """Return the place after this many octets that are not Markers, and add the Markers that stand before the last."""
    while octets:
        if not due:
            markers.append(at)
            at, due = at + MARKER_LENGTH, between
        run = min(octets, due)
        at, due, octets = at + run, due - run, octets - run
    return at, due


def _length_octets(dialect: Dialect, due: int) -> tuple[int, int]:
    """Return where the two octets of ULPDU_Length stand, counted from a place."""
    if not dialect.markers or due > 1:
        return 0, 1
    return (0, 1 + MARKER_LENGTH) if due else (MARKER_LENGTH, MARKER_LENGTH + 1)


def header_octets(dialect: Dialect, due: int) -> int:
    """Return how many octets from a position on hold all of ULPDU_Length, and the Markers before and in it."""
    return _length_octets(dialect, due)[1] + 1


def read_fpdu(dialect: Dialect, octets: Octets, offset: int, due: int) -> FPDUPlace | None:
    """The FPDU at a place, where ``octets`` begin; None if they do not hold its ULPDU_Length."""
    first, second = _length_octets(dialect, due)
    if len(octets) <= second:
        return None
    ulpdu_length, pad = dialect.lengths(int.from_bytes((octets[first], octets[second]), dialect.length_order))
    covered = LENGTH_FIELD_LENGTH + ulpdu_length + pad
    return lay_out(dialect, offset, due, ulpdu_length, pad, covered, CRC_LENGTH if dialect.crc_field else 0)


def without_markers(fpdu: FPDUPlace, octets: Octets, start: int, end: int) -> bytes:
    """The octets [start, end) of the stream but for the FPDU's Markers; ``octets`` are those of the FPDU."""
    if not fpdu.markers:
        return bytes(octets[start - fpdu.offset : end - fpdu.offset])
    pieces, at = [], start
    for marker in fpdu.markers:
        if marker >= end:
            break
        if marker > at:
            pieces.append(octets[at - fpdu.offset : marker - fpdu.offset])
        at = max(at, marker + MARKER_LENGTH)
    if at < end:
        pieces.append(octets[at - fpdu.offset : end - fpdu.offset])
    return b"".join(pieces)


def ulpdu_of(fpdu: FPDUPlace, octets: Octets, most: int = 1 << 16) -> bytes:
    """The first octets of the ULPDU, at most ``most``."""
    wanted = min(fpdu.ulpdu_length, most)
    inside = sum(marker >= fpdu.header for marker in fpdu.markers)
    last = min(fpdu.header + LENGTH_FIELD_LENGTH + wanted + MARKER_LENGTH * inside, fpdu.crc_at)
    plain = without_markers(fpdu, octets, fpdu.header, last)
    return plain[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + wanted]


# --- its CRC and its Markers ---


def crc_octets(fpdu: FPDUPlace, octets: Octets) -> bytes:
    """The CRC field as sent, without a Marker that stands in it; empty if there is none."""
    return without_markers(fpdu, octets, fpdu.crc_at, fpdu.end)


def crc_of(dialect: Dialect, fpdu: FPDUPlace, octets: Octets) -> bytes:
    """The CRC field that the sender computes for an FPDU with these octets (RFC 5044 §4.4)."""
    if dialect.crc_is_zero or not dialect.crc:
        return bytes(CRC_LENGTH)
    field = crc_field(_CRC_FUNCTIONS[dialect.crc_function](_covered(dialect, fpdu, octets)))
    return field if dialect.crc_order == "little" else field[::-1]


def _covered(dialect: Dialect, fpdu: FPDUPlace, octets: Octets) -> Octets:
    """Return the octets that the CRC of an FPDU with these octets covers."""
    if dialect.crc_covers_markers and dialect.crc_covers_pad:
        covered: Octets = octets[: fpdu.crc_at - fpdu.offset]
    elif not dialect.crc_covers_markers:
        plain = without_markers(fpdu, octets, fpdu.offset, fpdu.crc_at)
        covered = plain if dialect.crc_covers_pad or not fpdu.pad else plain[: -fpdu.pad]
    else:
        covered = _without_pad(fpdu, octets)
    if dialect.crc_covers_length:
        return covered
    first, second = 0, 1
    if dialect.crc_covers_markers:
        first = fpdu.header - fpdu.offset
        second = first + (1 + MARKER_LENGTH if fpdu.header + 1 in fpdu.markers else 1)
    return b"".join((covered[:first], covered[first + 1 : second], covered[second + 1 :]))


def _without_pad(fpdu: FPDUPlace, octets: Octets) -> bytes:
    """Return the octets before the CRC field, Markers included, without PAD."""
    kept, skip = bytearray(), fpdu.pad
    at = fpdu.crc_at
    # From the end: PAD is what comes last, but for Markers that stand in it or after it.
    before = [fpdu.offset - MARKER_LENGTH, *(marker for marker in fpdu.markers if marker < fpdu.crc_at)]
    for marker in reversed(before):
        low = marker + MARKER_LENGTH
        left = max(0, at - low - skip)
        skip -= at - low - left
        kept[:0] = octets[low - fpdu.offset : low + left - fpdu.offset]
        if marker >= fpdu.offset:
            kept[:0] = octets[marker - fpdu.offset : low - fpdu.offset]
        at = marker
    return bytes(kept)


def crc_agrees(dialect: Dialect, fpdu: FPDUPlace, octets: Octets) -> bool:
    """Return True if the CRC field of an FPDU with these octets is the one that the sender computes."""
    return crc_octets(fpdu, octets) == crc_of(dialect, fpdu, octets)


def fpduptr_at(dialect: Dialect, fpdu: FPDUPlace, octets: Octets, marker: int) -> int:
    """FPDUPTR of a Marker of an FPDU with these octets, its low two bits read as zero."""
    field = bytes(octets[marker + 2 - fpdu.offset : marker + MARKER_LENGTH - fpdu.offset])
    return int.from_bytes(field, dialect.fpduptr_order) & ~_IGNORED_BITS


def right_fpduptr(fpdu: FPDUPlace, marker: int, origin: Origin) -> int:
    """Return the right FPDUPTR of a Marker of an FPDU, counted from an origin, modulo 2^16; 0 in a leading Marker."""
    if marker == fpdu.offset:
        return 0
    counted_from = fpdu.header if origin == "header" else fpdu.offset
    return max(0, marker - counted_from) % _FPDUPTR_MOD


def marker_agrees(dialect: Dialect, fpdu: FPDUPlace, octets: Octets, marker: int) -> bool:
    """Return True if a Marker of an FPDU names its start, counted from either origin."""
    found = fpduptr_at(dialect, fpdu, octets, marker)
    return found in (right_fpduptr(fpdu, marker, "header") & ~3, right_fpduptr(fpdu, marker, "first-octet") & ~3)


# --- from a ULPDU to octets, and back ---


def write_fpdu(
    dialect: Dialect,
    ulpdu: Octets,
    offset: int,
    due: int,
    *,
    length_field: bytes | None = None,
    pad: Octets | None = None,
    crc: bytes | None = None,
    markers: Sequence[tuple[int, int | None]] = (),
) -> tuple[bytes, FPDUPlace]:
    """Return the octets of the FPDU at a place that carries a ULPDU, and where it lies.

    What is None is as the sender would have it; what is given is sent as it is, right or wrong.

    Args:
        dialect: what the sender does.
        ulpdu: what the FPDU carries.
        offset: octets from SeqStart to its first.
        due: octets that are counted before the next Marker.
        length_field: its first octets.
        pad: what stands after the ULPDU.
        crc: its last octets.
        markers: (RESERVED, FPDUPTR) of its first Markers; FPDUPTR None is computed.

    Raises:
        FramingError: what is given for a Marker does not fit its 16 bits.
    """
    length = len(ulpdu)
    if pad is None:
        pad = bytes(dialect.pad(length))
    if length_field is None:
        length_field = dialect.length_field(length).to_bytes(LENGTH_FIELD_LENGTH, dialect.length_order)
    covered = b"".join((length_field, ulpdu, pad))
    field = crc if crc is not None else bytes(CRC_LENGTH if dialect.crc_field else 0)
    place = lay_out(dialect, offset, due, length, len(pad), len(covered), len(field))
    octets = _with_markers(dialect, place, covered + field, markers)
    if crc is None and field and dialect.crc and not dialect.crc_is_zero:
        field = crc_of(dialect, place, octets)
        if place.end - place.crc_at == len(field):
            octets = octets[: -len(field)] + field
        else:
            octets = _with_markers(dialect, place, covered + field, markers)
    return octets, place


def _with_markers(dialect: Dialect, place: FPDUPlace, plain: bytes, given: Sequence[tuple[int, int | None]]) -> bytes:
    """Put the Markers of an FPDU into its octets: those that are given, the others computed."""
    if not place.markers:
        return plain
    pieces: list[Octets] = []
    at, taken = place.offset, 0
    for number, marker in enumerate(place.markers):
        reserved, fpduptr = given[number] if number < len(given) else (0, None)
        if fpduptr is None:
            fpduptr = right_fpduptr(place, marker, dialect.origin)
        octets = encode_marker(fpduptr, reserved)
        if dialect.fpduptr_order == "little":
            octets = octets[:2] + octets[:1:-1]
        run = marker - at
        pieces += (plain[taken : taken + run], octets)
        taken += run
        at = marker + MARKER_LENGTH
    pieces.append(plain[taken:])
    return b"".join(pieces)


def encode_fpdu(
    ulpdu: Octets,
    offset: int | None = None,
    *,
    origin: Origin = "header",
    crc: bool | int = True,
    pad: Octets | None = None,
    ulpdu_length: int | None = None,
    allow_oversize: bool = False,
) -> bytes:
    """The octets of an FPDU that carries ``ulpdu`` and begins at stream ``offset`` (None: no Markers).

    What is None is computed; what is given is sent as it is, right or wrong (RFC 5044 §3, §4.1 to §4.4).

    Args:
        ulpdu: What it carries.
        offset: Octets from SeqStart to its first; None: no Markers.
        origin: What FPDUPTR counts from.
        crc: True computes it over what is sent, False leaves the field zero (CRCs not in use), a number is sent as
            the value.
        pad: In place of the right one.
        ulpdu_length: In place of the right one.
        allow_oversize: Whether a ULPDU may be above MAX_ULPDU_LENGTH, and FPDUPTR, which is then sent modulo 2^16,
            above 65535.

    Raises:
        FramingError: The ULPDU is too long or FPDUPTR too large, a length does not fit the ULPDU_Length field, or
            ``offset`` is inside a Marker.
    """
    length = len(ulpdu) if ulpdu_length is None else ulpdu_length
    if not 0 <= length <= _MAX_FIELD:
        raise FramingError(f"ULPDU_Length {length} does not fit its 16 bits")
    if len(ulpdu) > MAX_ULPDU_LENGTH and not allow_oversize:
        raise FramingError(f"a ULPDU of {len(ulpdu)} octets is above the limit of {MAX_ULPDU_LENGTH}")
    octets, place = write_fpdu(
        conformant(offset is not None, crc is not False, origin),
        ulpdu,
        *_place_at(offset),
        length_field=length.to_bytes(LENGTH_FIELD_LENGTH, "big"),
        pad=pad,
        crc=None if crc is True or crc is False else crc_field(crc),
    )
    if not allow_oversize and place.markers:
        counted_from = place.header if origin == "header" else place.offset
        if place.markers[-1] - counted_from > _MAX_FIELD:
            raise FramingError(f"FPDUPTR would pass {_MAX_FIELD}: a ULPDU of {len(ulpdu)} octets is too large")
    return octets


def _place_at(offset: int | None) -> tuple[int, int]:
    """Return the place at an offset; None: of a stream without Markers."""
    if offset is None:
        return 0, 0
    require_fpdu_offset(offset)
    return offset, -offset % MARKER_INTERVAL


def decode_fpdu(
    octets: Octets,
    offset: int | None = None,
    *,
    check_crc: bool = True,
    dialect: Dialect | None = None,
    due: int = 0,
) -> Fpdu | None:
    """The FPDU at the beginning of ``octets``, which begin at stream ``offset`` (None: no Markers).

    None if more octets are needed; octets after the FPDU are not examined. PAD, RESERVED and FPDUPTR are
    returned as sent, and judged elsewhere; a CRC is read as RFC 5044 has it. RFC 5044 §4.

    Args:
        octets: those of the stream.
        offset: octets from SeqStart to their first; None: no Markers.
        check_crc: whether its CRC is computed.
        dialect: what its sender does; None: what RFC 5044 says.
        due: in a dialect the octets that are counted before the next Marker.

    Raises:
        FramingError: no FPDU can begin at ``offset``.
    """
    if dialect is None:
        dialect = conformant(offset is not None, True)
        offset, due = _place_at(offset)
    place = read_fpdu(dialect, octets, offset or 0, due)
    if place is None or len(octets) < (length := place.end - place.offset):
        return None
    octets = memoryview(octets)[:length]
    plain = without_markers(place, octets, place.header, place.end)
    ulpdu_end = LENGTH_FIELD_LENGTH + place.ulpdu_length
    crc_at = len(plain) - (CRC_LENGTH if dialect.crc_field else 0)
    return Fpdu(
        place.ulpdu_length,
        plain[LENGTH_FIELD_LENGTH:ulpdu_end],
        plain[ulpdu_end:crc_at],
        crc_from_field(plain[crc_at:]) if dialect.crc_field else 0,
        crc_agrees(dialect, place, octets) if check_crc else None,
        tuple((marker, *decode_marker(octets[marker - place.offset :])) for marker in place.markers),
        length,
    )
