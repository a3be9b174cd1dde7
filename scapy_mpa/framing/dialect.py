"""How a sender lays FPDUs in a stream, right or wrong: a dialect (RFC 5044 §4).

A :class:`Dialect` holds, for each thing that senders get wrong, what one does; by default all is as RFC 5044 has it.
:mod:`~scapy_mpa.framing.fpdu` reads and writes FPDUs by one.
"""

from __future__ import annotations

from typing import Literal

from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.markers import (
    LENGTH_FIELD_LENGTH,
    LONGEST_FPDU,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    Origin,
    pad_length,
)
from scapy_mpa.tuples import NamedTuple

_IGNORED_BITS = 3  # the two low bits of FPDUPTR, read as zero (RFC 5044 §4.2)
_FPDUPTR_MOD = 1 << 16

#: What computes CRCs: CRC32c (RFC 5044 §4.4), the CRC-32 of zlib, CRC32c not complemented at the end, or begun with 0.
CRCFunction = Literal["crc32c", "zlib", "not-complemented", "from-zero"]


class Dialect(NamedTuple):
    """How one sender lays FPDUs. The first two fields were agreed on; all others are as in RFC 5044 unless changed."""

    markers: bool
    #: CRCs are in use; if not, nobody examines the field.
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
        """The lengths of FPDUs are multiples of this many octets (§4.1)."""
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
        """The same after this many FPDUs, all those before, whether or not there is a ``period``."""
        counted = offset - (0 if self.crc_counts or not self.crc_field else CRC_LENGTH * fpdus)
        return (self.first_due - counted) % (self.between + MARKER_LENGTH) if self.markers else 0

    def pad(self, ulpdu_length: int) -> int:
        """Octets of PAD after a ULPDU of this many octets."""
        if self.pad_rule == "multiple":
            return pad_length(ulpdu_length)
        return (ulpdu_length + LENGTH_FIELD_LENGTH) % 4 if self.pad_rule == "plus-2" else 0

    @property
    def _counted_too(self) -> int:
        """The octets of the FPDU, except PAD, that ULPDU_Length counts besides the ULPDU."""
        return LENGTH_FIELD_LENGTH * self.length_counts_itself + CRC_LENGTH * self.length_counts_crc

    def length_field(self, ulpdu_length: int) -> int:
        """Return the value sent as ULPDU_Length, modulo 2^16."""
        sent = ulpdu_length + self._counted_too
        return sent + self.pad(ulpdu_length) * self.length_counts_pad & 0xFFFF

    def lengths(self, field: int) -> tuple[int, int]:
        """Octets of ULPDU and of PAD after a ULPDU_Length field; of PAD that it counts the ULPDU has all."""
        ulpdu_length = max(0, field - self._counted_too)
        return ulpdu_length, 0 if self.length_counts_pad else self.pad(ulpdu_length)
