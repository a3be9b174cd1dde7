"""How a sender lays FPDUs in a stream, right or wrong: a dialect, what reads it and what writes it (RFC 5044 §4).

A :class:`Dialect` holds, for each thing that senders get wrong, what one does; by default all is as RFC 5044 has it.
:class:`DialectWriter` lays ULPDUs out as such a sender does, :func:`read_fpdu` goes back. Both go from FPDU to FPDU: a
*place* in the stream is an offset and how many octets are still counted before a Marker is due. They are exact and
plain, not fast; conformant streams have :mod:`~scapy_mpa.framing.fpdu` and the receiver.

Offsets are octets from SeqStart, Markers included. In a dialect FPDUs need not be multiples of four octets, and a
Marker may stand in the middle of any field.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Literal, NamedTuple

from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_field, crc_from_field
from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH, Fpdu, pad_length
from scapy_mpa.framing.markers import (
    LONGEST_FPDU,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    Origin,
    decode_marker,
)

_IGNORED_BITS = 3  # the two low bits of FPDUPTR, read as zero (RFC 5044 §4.2)
_FPDUPTR_MOD = 1 << 16

#: What computes CRCs: CRC32c (RFC 5044 §4.4), the CRC-32 of zlib, CRC32c not complemented at the end, or begun with 0.
CRCFunction = Literal["crc32c", "zlib", "not-complemented", "from-zero"]
_CRC_FUNCTIONS: dict[CRCFunction, Callable[[Octets], int]] = {
    "crc32c": crc32c,
    "zlib": zlib.crc32,
    "not-complemented": lambda octets: crc32c(octets) ^ 0xFFFFFFFF,
    "from-zero": lambda octets: crc32c(octets, 0xFFFFFFFF),
}


class Dialect(NamedTuple):
    """What one sender does. The first two were agreed on, all others are RFC 5044's unless changed."""

    markers: bool
    #: CRCs are in use; if not, nobody looks at the field.
    crc: bool
    #: What FPDUPTR counts from: both origins were specified, so that neither is a deviation here.
    origin: Origin = "header"
    #: Octets from the place where Markers are counted from to SeqStart (§4.3).
    base: int = 0
    #: Markers count in the distance from one to the next (§4.3).
    markers_count: bool = True
    #: So do CRC fields.
    crc_counts: bool = True
    fpduptr_order: Literal["big", "little"] = "big"
    #: There is one, in use or not (§4.1).
    crc_field: bool = True
    crc_order: Literal["big", "little"] = "little"
    crc_covers_markers: bool = True
    crc_covers_pad: bool = True
    crc_covers_length: bool = True
    crc_function: CRCFunction = "crc32c"
    crc_is_zero: bool = False
    #: PAD is what is missing to a multiple of four (§4.1), or (ULPDU_Length + 2) mod 4 octets, or none.
    pad_rule: Literal["multiple", "plus-2", "none"] = "multiple"
    #: ULPDU_Length counts its own two octets.
    length_counts_itself: bool = False
    #: ULPDU_Length counts PAD.
    length_counts_pad: bool = False
    #: ULPDU_Length counts the CRC field.
    length_counts_crc: bool = False
    length_order: Literal["big", "little"] = "big"

    @property
    def has_proving_crc(self) -> bool:
        """True if a CRC proves an FPDU."""
        return self.crc and self.crc_field and not self.crc_is_zero

    @property
    def between(self) -> int:
        """Octets that are counted from the end of a Marker to the next one."""
        return MARKER_INTERVAL - MARKER_LENGTH if self.markers_count else MARKER_INTERVAL

    @property
    def alignment(self) -> int:
        """Octets of which the lengths of FPDUs are multiples (§4.1)."""
        return 4 if self.pad_rule == "multiple" else 1

    @property
    def period(self) -> int | None:
        """Octets from one Marker to the next wherever they are; None if that depends on the FPDUs between them."""
        if not self.markers or not (self.crc_counts or not self.crc_field):
            return None
        return self.between + MARKER_LENGTH

    @property
    def first_due(self) -> int:
        """Octets that are counted before the first Marker."""
        return -self.base % MARKER_INTERVAL if self.markers else 0

    def due_at(self, offset: int) -> int:
        """Octets before the next Marker from an offset on, which is not inside one; only if there is a ``period``."""
        assert self.period is not None
        return (self.first_due - offset) % self.period

    def marker_positions(self, start: int, end: int) -> range:
        """Return the offsets of all Markers that begin in [start, end); only if there is a ``period``."""
        assert self.period is not None
        return range(start + (self.first_due - start) % self.period, end, self.period)

    def start_of(self, header: int) -> int | None:
        """Return where the FPDU begins whose ULPDU_Length is at ``header``, None if that lies in a Marker.

        Only if there is a ``period``.
        """
        due = self.due_at(header)
        if due == self.between:
            return header - MARKER_LENGTH
        return header if 0 < due < self.between else None

    def starts_named_by(self, marker: int, octets: Octets) -> list[int]:
        """Return where the FPDU that holds a Marker with these octets may begin, the likeliest first.

        Only if there is a ``period`` (RFC 5044 §4.3).
        """
        distance = int.from_bytes(octets[2:MARKER_LENGTH], self.fpduptr_order) & ~_IGNORED_BITS
        starts = []
        for back in (distance, distance + _FPDUPTR_MOD):
            # Where Markers do not stand on multiples of four octets the low two bits are those that are not compared.
            for counted_from in range(marker - back, marker - back - 1 - _IGNORED_BITS, -1):
                follows_marker = self.due_at(counted_from) == self.between
                start = counted_from - (MARKER_LENGTH if follows_marker else 0)
                if start >= 0 and not start % self.alignment and marker - start < LONGEST_FPDU:
                    starts.append(start)
        return starts

    def names(self, marker: int, octets: Octets, offset: int) -> bool:
        """Return True if a Marker with these octets names the FPDU at an offset, counted from either origin.

        Only if there is a ``period``.
        """
        found = int.from_bytes(octets[2:MARKER_LENGTH], self.fpduptr_order) & ~_IGNORED_BITS
        if marker == offset:
            return not found
        distance = marker - offset
        header = distance if self.due_at(offset) else distance - MARKER_LENGTH
        return found in (distance % _FPDUPTR_MOD & ~_IGNORED_BITS, header % _FPDUPTR_MOD & ~_IGNORED_BITS)

    def due_behind(self, offset: int, fpdus: int) -> int:
        """The same behind so many FPDUs, all those before, whether or not there is a ``period``."""
        counted = offset - (0 if self.crc_counts or not self.crc_field else CRC_LENGTH * fpdus)
        return (self.first_due - counted) % (self.between + MARKER_LENGTH) if self.markers else 0

    def pad(self, ulpdu_length: int) -> int:
        """Octets of PAD after a ULPDU of so many octets."""
        if self.pad_rule == "multiple":
            return pad_length(ulpdu_length)
        return (ulpdu_length + LENGTH_FIELD_LENGTH) % 4 if self.pad_rule == "plus-2" else 0

    @property
    def _counted_too(self) -> int:
        """Octets of the FPDU, but for PAD, that ULPDU_Length counts beside the ULPDU."""
        return LENGTH_FIELD_LENGTH * self.length_counts_itself + CRC_LENGTH * self.length_counts_crc

    def length_field(self, ulpdu_length: int) -> int:
        """What is sent as ULPDU_Length, modulo 2^16."""
        sent = ulpdu_length + self._counted_too
        return sent + self.pad(ulpdu_length) * self.length_counts_pad & 0xFFFF

    def lengths(self, field: int) -> tuple[int, int]:
        """Octets of ULPDU and of PAD behind a ULPDU_Length field; of PAD that it counts the ULPDU has all."""
        ulpdu_length = max(0, field - self._counted_too)
        return ulpdu_length, 0 if self.length_counts_pad else self.pad(ulpdu_length)


class SpokenFPDU(NamedTuple):
    """Where an FPDU of a dialect lies, in octets of the stream."""

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
    #: Octets that are counted behind its end before the next Marker.
    due: int


class _Way:
    """A place in the stream that moves on over octets of an FPDU, and the Markers met on the way."""

    __slots__ = ("at", "dialect", "due", "markers")

    def __init__(self, dialect: Dialect, at: int, due: int) -> None:
        self.dialect = dialect
        self.at = at
        self.due = due
        self.markers: list[int] = []

    def meet(self) -> None:
        """Pass the Marker that is due here, if one is."""
        if self.dialect.markers and not self.due:
            self.markers.append(self.at)
            self.at += MARKER_LENGTH
            self.due = self.dialect.between

    def over(self, octets: int, counted: bool = True) -> None:
        """Pass so many octets that are no Markers; one that is due behind the last of them is not passed."""
        if not self.dialect.markers or not counted:
            self.at += octets
            return
        while octets:
            self.meet()
            run = min(octets, self.due)
            self.at += run
            self.due -= run
            octets -= run


def lay_out(dialect: Dialect, offset: int, due: int, field: int) -> SpokenFPDU:
    """Where the FPDU at a place lies, whose ULPDU_Length field says ``field``."""
    way = _Way(dialect, offset, due)
    way.meet()
    header = way.at
    way.over(LENGTH_FIELD_LENGTH)
    ulpdu_length, pad = dialect.lengths(field)
    way.over(ulpdu_length + pad)
    if dialect.crc_field and dialect.crc_counts:
        way.meet()  # a Marker between PAD and CRC is of the FPDU that ends (RFC 5044 §4.3)
    crc_at = way.at
    if dialect.crc_field:
        way.over(CRC_LENGTH, dialect.crc_counts)
    return SpokenFPDU(offset, header, ulpdu_length, pad, tuple(way.markers), crc_at, way.at, way.due)


def header_octets(dialect: Dialect, due: int) -> int:
    """How many octets from a place on hold all of ULPDU_Length, and the Markers before and in it."""
    way = _Way(dialect, 0, due)
    way.over(LENGTH_FIELD_LENGTH)
    return way.at


def read_fpdu(dialect: Dialect, octets: Octets, offset: int, due: int) -> SpokenFPDU | None:
    """The FPDU at a place, where ``octets`` begin; None if they do not hold its ULPDU_Length."""
    if len(octets) < header_octets(dialect, due):
        return None
    way = _Way(dialect, 0, due)
    way.meet()
    first = octets[way.at]
    way.over(1)
    way.meet()
    return lay_out(dialect, offset, due, int.from_bytes((first, octets[way.at]), dialect.length_order))


def without_markers(fpdu: SpokenFPDU, octets: Octets, start: int, end: int) -> bytes:
    """The octets [start, end) of the stream but for the FPDU's Markers; ``octets`` are those of the FPDU."""
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


def ulpdu_of(fpdu: SpokenFPDU, octets: Octets, most: int = 1 << 16) -> bytes:
    """The first octets of the ULPDU, at most ``most``."""
    wanted = min(fpdu.ulpdu_length, most)
    inside = sum(marker >= fpdu.header for marker in fpdu.markers)
    last = min(fpdu.header + LENGTH_FIELD_LENGTH + wanted + MARKER_LENGTH * inside, fpdu.crc_at)
    plain = without_markers(fpdu, octets, fpdu.header, last)
    return plain[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + wanted]


def crc_octets(fpdu: SpokenFPDU, octets: Octets) -> bytes:
    """The CRC field as sent, without a Marker that stands in it; empty if there is none."""
    return without_markers(fpdu, octets, fpdu.crc_at, fpdu.end)


def decode_spoken(dialect: Dialect, octets: bytes, offset: int, due: int) -> Fpdu | None:
    """The fields of the FPDU at a place that has these octets, as :func:`~scapy_mpa.framing.fpdu.decode_fpdu` has them.

    None if the dialect has another length for it. The CRC is read as RFC 5044 has it, and not checked.
    """
    fpdu = read_fpdu(dialect, octets, offset, due)
    if fpdu is None or fpdu.end - offset != len(octets):
        return None
    ulpdu = ulpdu_of(fpdu, octets)
    behind = without_markers(fpdu, octets, fpdu.header, fpdu.crc_at)[LENGTH_FIELD_LENGTH:]
    markers = ((marker, *decode_marker(octets[marker - offset :])) for marker in fpdu.markers)
    crc = crc_from_field(crc_octets(fpdu, octets)) if dialect.crc_field else 0
    return Fpdu(fpdu.ulpdu_length, ulpdu, behind[len(ulpdu) :], crc, None, tuple(markers), len(octets))


def crc_of(dialect: Dialect, fpdu: SpokenFPDU, octets: Octets) -> bytes:
    """The CRC field that the sender computes for an FPDU with these octets (RFC 5044 §4.4)."""
    if dialect.crc_is_zero or not dialect.crc:
        return bytes(CRC_LENGTH)
    field = crc_field(_CRC_FUNCTIONS[dialect.crc_function](_covered(dialect, fpdu, octets)))
    return field if dialect.crc_order == "little" else field[::-1]


def _covered(dialect: Dialect, fpdu: SpokenFPDU, octets: Octets) -> Octets:
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


def _without_pad(fpdu: SpokenFPDU, octets: Octets) -> bytes:
    """What comes before the CRC field, Markers included, without PAD."""
    kept, skip = bytearray(), fpdu.pad
    at = fpdu.crc_at
    # From the end: PAD is what comes last, but for Markers that stand in it or behind it.
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


def crc_agrees(dialect: Dialect, fpdu: SpokenFPDU, octets: Octets) -> bool:
    """Whether the CRC field of an FPDU with these octets is the one that the sender computes."""
    return crc_octets(fpdu, octets) == crc_of(dialect, fpdu, octets)


def fpduptr_at(dialect: Dialect, fpdu: SpokenFPDU, octets: Octets, marker: int) -> int:
    """FPDUPTR of a Marker of an FPDU with these octets, its low two bits read as zero."""
    field = bytes(octets[marker + 2 - fpdu.offset : marker + MARKER_LENGTH - fpdu.offset])
    return int.from_bytes(field, dialect.fpduptr_order) & ~_IGNORED_BITS


def right_fpduptr(fpdu: SpokenFPDU, marker: int, origin: Origin) -> int:
    """What FPDUPTR of a Marker of an FPDU is, counted from an origin, modulo 2^16; 0 in a leading Marker."""
    if marker == fpdu.offset:
        return 0
    counted_from = fpdu.header if origin == "header" else fpdu.offset
    return max(0, marker - counted_from) % _FPDUPTR_MOD


class DialectWriter:
    """A sender of a dialect: lays one FPDU behind the other."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.offset = 0
        self._due = dialect.first_due

    def write(self, ulpdu: Octets) -> tuple[bytes, SpokenFPDU]:
        """The next FPDU: its octets, and where it lies."""
        dialect = self.dialect
        pad = dialect.pad(len(ulpdu))
        field = dialect.length_field(len(ulpdu))
        # The room is that of what is sent, whatever the length field makes of it.
        fpdu = lay_out(
            dialect._replace(length_counts_itself=False, length_counts_pad=False, length_counts_crc=False),
            self.offset,
            self._due,
            len(ulpdu),
        )
        field_octets = CRC_LENGTH if dialect.crc_field else 0
        plain = b"".join((field.to_bytes(LENGTH_FIELD_LENGTH, dialect.length_order), ulpdu, bytes(pad + field_octets)))
        octets = self._with_markers(fpdu, plain)
        if dialect.crc_field:
            crc = crc_of(dialect, fpdu, octets)
            octets = self._with_markers(fpdu, plain[:-CRC_LENGTH] + crc)
        self.offset, self._due = fpdu.end, fpdu.due
        return octets, fpdu

    def _with_markers(self, fpdu: SpokenFPDU, plain: bytes) -> bytes:
        """The octets of an FPDU with its Markers put in."""
        pieces: list[Octets] = []
        at, taken = fpdu.offset, 0
        for marker in fpdu.markers:
            fpduptr = right_fpduptr(fpdu, marker, self.dialect.origin)
            run = marker - at
            pieces += (plain[taken : taken + run], bytes(2), fpduptr.to_bytes(2, self.dialect.fpduptr_order))
            taken += run
            at = marker + MARKER_LENGTH
        return b"".join((*pieces, plain[taken:]))


def marker_agrees(dialect: Dialect, fpdu: SpokenFPDU, octets: Octets, marker: int) -> bool:
    """Return True if a Marker of an FPDU names its start, counted from either origin."""
    found = fpduptr_at(dialect, fpdu, octets, marker)
    return found in (right_fpduptr(fpdu, marker, "header") & ~3, right_fpduptr(fpdu, marker, "first-octet") & ~3)
