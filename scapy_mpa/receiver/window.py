"""What contiguous octets say about FPDUs: extents, CRCs, Markers, and where an FPDU may begin (RFC 5044 §4.1 to §4.4).

A :class:`FPDUWindow` only answers questions; it changes nothing and keeps nothing.  Offsets count from the first octet
of Full Operation, where the first Marker stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from scapy_mpa.framing.crc import CRC_RESIDUE, crc32c
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH, FPDUPlace, crc_agrees, read_fpdu, ulpdu_of
from scapy_mpa.framing.markers import (
    LONGEST_FPDU,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    expected_fpduptr,
    fpdu_start_of,
    marker_count,
    marker_positions,
    remove_markers,
)
from scapy_mpa.infer.evidence import (
    HEADER_OCTETS,
    PLAUSIBLE_HEADER,
    Chain,
    header_at,
    header_chain,
    is_plausible_control,
)
from scapy_mpa.tuples import NamedTuple

#: Bad FPDUs in a row over which lengths are followed to a good one: a bound of time.
MOST_BAD_IN_A_ROW: Final = 16
#: Markers that are compared where, without CRC, one of them contradicts the lengths: the one garbled Marker is outvoted
#: by the next, and three more hold against two garbled ones.
JURY: Final = 4
#: Bits of evidence (:mod:`scapy_mpa.infer.evidence`) that DDP headers following one another must be worth, two at
#: least, where there is neither CRC nor Marker: by chance one place in 2^40 is.
ENOUGH_BITS: Final = 40
#: Bits that chance must meet in the control octets of DDP and RDMAP (RFC 5041 §4.1, RFC 5040 §4.1).
CONTROL_BITS: Final = 12
#: Octets over which CRCs are computed in one search at places where no DDP header stands: a bound of time.
MOST_CRC_OCTETS: Final = 1 << 22
#: Octets of an FPDU that hold its length and what of DDP's header is judged, and the Markers in these.
LOOKED_AT: Final = 2 + HEADER_OCTETS + 2 * MARKER_LENGTH
#: FPDUPTR's low two bits are not compared (RFC 5044 §4.3).
_COMPARED: Final = 0xFFFC


class Layout(NamedTuple):
    """How FPDUs lie in a direction.

    ``markers``: Markers tell where FPDUs begin; ``crc``: CRCs prove them.  ``dialect`` is None unless the sender
    deviates; the places of its Markers may depend on all FPDUs before, in which case ``markers`` is False.
    """

    markers: bool
    crc: bool
    dialect: Dialect | None = None

    @classmethod
    def of_dialect(cls, dialect: Dialect) -> Layout:
        """Return the layout of a sender that deviates."""
        return cls(dialect.period is not None, dialect.has_proving_crc, dialect)

    @property
    def alignment(self) -> int:
        """Octets of which the lengths of FPDUs are multiples (RFC 5044 §4.1)."""
        return 4 if self.dialect is None else self.dialect.alignment

    @property
    def is_searchable(self) -> bool:
        """False if an FPDU can be read only by who has read all before it."""
        return self.dialect is None or not self.dialect.markers or self.markers

    def marker_positions(self, start: int, end: int) -> range:
        """Return the offsets of all Markers that begin in [start, end)."""
        if self.dialect is not None:
            return self.dialect.marker_positions(start, end)
        return marker_positions(start, end)

    def start_of(self, header: int) -> int | None:
        """Return where the FPDU begins whose ULPDU_Length is at an offset, None if that lies in a Marker."""
        if not self.markers:
            return header
        if self.dialect is not None:
            return self.dialect.start_of(header)
        return header - MARKER_LENGTH if header % MARKER_INTERVAL == MARKER_LENGTH else header


class Extent(NamedTuple):
    """Where an FPDU lies by its length: its first octet, its ULPDU_Length field and value, its end, its Markers."""

    offset: int
    header: int
    ulpdu_length: int
    end: int
    markers: int
    #: Its parts, where its sender deviates.
    spoken: FPDUPlace | None = None


def extent_of(offset: int, header: int, ulpdu_length: int, markers: bool) -> Extent:
    """Return the extent of an FPDU from its ULPDU_Length (RFC 5044 §4.1, §4.3)."""
    end = offset + 4 + (ulpdu_length + 5 & ~3)
    count = marker_count(offset, end - offset) if markers else 0
    return Extent(offset, header, ulpdu_length, end + MARKER_LENGTH * count, count)


def extent_in_dialect(dialect: Dialect, octets: memoryview, at: int, due: int) -> Extent | None:
    """Return the extent of the FPDU that begins with ``octets``, None if its ULPDU_Length is not all there.

    ``due`` is how many octets are counted before the next Marker; it is needed only where the offset does not tell.
    """
    if dialect.period is not None:
        due = dialect.due_at(at)
    spoken = read_fpdu(dialect, octets, at, due)
    if spoken is None:
        return None
    return Extent(at, spoken.header, spoken.ulpdu_length, spoken.end, len(spoken.markers), spoken)


def first_ulpdu_octets(spoken: FPDUPlace, octets: memoryview) -> bytes | None:
    """Return the beginning of the ULPDU of an FPDU, None if DDP would not send it (RFC 5041 §4.1, RFC 5040 §4.1)."""
    ulpdu = ulpdu_of(spoken, octets, HEADER_OCTETS)
    header = header_at(ulpdu.ljust(HEADER_OCTETS, b"\0"), 0, spoken.ulpdu_length) if len(ulpdu) > 1 else None
    return ulpdu if header is not None else None


def is_unlike_ddp(octets: memoryview, offset: int, layout: Layout) -> bool:
    """Return True if DDP would not send the ULPDU of an FPDU that begins with ``octets`` (RFC 5041 §4, RFC 5040 §4).

    Of an FPDU without CRC and dialect; as many octets as are there are judged.
    """
    plain = remove_markers(octets[:LOOKED_AT], offset) if layout.markers else bytes(octets[:LOOKED_AT])
    if len(plain) < 4:
        return False
    ulpdu_length = plain[0] << 8 | plain[1]
    if len(plain) < 2 + HEADER_OCTETS:
        return not ulpdu_length or not is_plausible_control(plain[2:4])
    return header_at(plain, 2, ulpdu_length) is None


class FPDUWindow:
    """Contiguous octets ``data`` from offset ``start`` on, with FPDUs of a layout."""

    __slots__ = ("data", "end", "layout", "start")

    def __init__(self, data: memoryview, start: int, layout: Layout) -> None:
        self.data = data
        self.start = start
        self.end = start + len(data)
        self.layout = layout

    def extent(self, at: int) -> Extent | None:
        """Return the extent of the FPDU at an offset, None if its ULPDU_Length is not all there."""
        dialect = self.layout.dialect
        if dialect is not None:
            return extent_in_dialect(dialect, self.data[at - self.start :], at, 0) if at >= self.start else None
        header = at + MARKER_LENGTH if self.layout.markers and not at % MARKER_INTERVAL else at
        index = header - self.start
        if header + 2 > self.end or at < self.start:
            return None
        return extent_of(at, header, self.data[index] << 8 | self.data[index + 1], self.layout.markers)

    def is_valid(self, extent: Extent) -> bool:
        """Return True if a whole FPDU is what its sender sent: by its CRC, without CRC by its Markers.

        One of a dialect without CRC must have a header that DDP would send, too.
        """
        if extent.spoken is not None:
            is_spoken = self._is_spoken(extent.spoken)
            if not is_spoken or self.layout.crc or not self.layout.markers:
                return is_spoken
        if self.layout.crc:
            return bool(crc32c(self.data[extent.offset - self.start : extent.end - self.start]) == CRC_RESIDUE)
        return not extent.markers or self.contradiction(extent.offset, extent.end) is None

    def _is_spoken(self, spoken: FPDUPlace) -> bool:
        """Return True if a whole FPDU is one of the dialect, whatever its Markers name."""
        dialect = self.layout.dialect
        octets = self.data[spoken.offset - self.start : spoken.end - self.start]
        if dialect is None or not 0 < spoken.ulpdu_length <= MAX_ULPDU_LENGTH:
            return False
        if not self.layout.crc and first_ulpdu_octets(spoken, octets) is None:
            return False
        return not (dialect.crc and dialect.crc_field) or crc_agrees(dialect, spoken, octets)

    def contradiction(self, offset: int, end: int) -> int | None:
        """Return the first Marker in [offset, end) that names another start than ``offset``, None if there is none."""
        for marker in self.layout.marker_positions(offset, min(end, self.end - MARKER_LENGTH + 1)):
            if not self.names(marker, offset):
                return marker
        return None

    def names(self, marker: int, offset: int) -> bool:
        """Return True if a Marker says that it stands in the FPDU at an offset, counted from either origin."""
        index = marker - self.start
        if self.layout.dialect is not None:
            return self.layout.dialect.names(marker, self.data[index : index + MARKER_LENGTH], offset)
        found = (self.data[index + 2] << 8 | self.data[index + 3]) & _COMPARED
        return found == expected_fpduptr(marker, offset) & _COMPARED or (
            found == expected_fpduptr(marker, offset, "first-octet") & _COMPARED
        )

    def is_named(self, offset: int) -> bool:
        """Return True if a Marker in the window names an offset as the start of its FPDU."""
        markers = self.layout.marker_positions(offset, self.end - MARKER_LENGTH + 1)
        return any(self.names(marker, offset) for marker in markers)

    def is_whole_and_valid(self, at: int) -> bool:
        """Return True if a valid FPDU begins at an offset; one without ULPDU would be found anywhere in zeros."""
        extent = self.extent(at)
        return extent is not None and extent.ulpdu_length > 0 and extent.end <= self.end and self.is_valid(extent)

    def lengths_lead_to_valid(self, at: int, most: int = MOST_BAD_IN_A_ROW) -> bool:
        """Return True if lengths lead from an offset to a valid FPDU, over at most ``most`` - 1 that are not."""
        for _ in range(most):
            extent = self.extent(at)
            if extent is None or extent.end > self.end:
                return False
            if self.is_valid(extent):
                return True
            at = extent.end
        return False

    def lengths_lead(self, at: int, start: int, most: int = LONGEST_FPDU) -> bool:
        """Return True if the lengths of at most so many FPDUs lead from one offset exactly to another."""
        while at < start and most and (extent := self.extent(at)) is not None:
            at, most = extent.end, most - 1
        return at == start

    def agreeing(self, at: int, first: int) -> int:
        """Count the Markers from ``first`` on that agree with the lengths from an FPDU on, until one does not."""
        count = 0
        while count < JURY:
            extent = self.extent(at)
            if extent is None:
                break
            for marker in self.layout.marker_positions(max(at, first), min(extent.end, self.end - MARKER_LENGTH + 1)):
                if not self.names(marker, at):
                    return count
                count += 1
            at = extent.end
        return count

    def start_by_marker(self, low: int, first: int) -> int | None:
        """Return the first start, at ``low`` or after it, that a Marker at ``first`` or after it names and that proves
        right: by a CRC to which lengths lead, without CRC by two Markers that agree."""
        for marker in self.layout.marker_positions(max(first, self.start), self.end - MARKER_LENGTH + 1):
            for start in self.starts_named_by(marker):
                if start >= max(low, self.start) and self.proves_right(start, marker):
                    return start
        return None

    def starts_named_by(self, marker: int) -> list[int]:
        """Return where the FPDU that holds a Marker may begin, the likeliest first (RFC 5044 §4.3)."""
        index = marker - self.start
        if self.layout.dialect is not None:
            return self.layout.dialect.starts_named_by(marker, self.data[index : index + MARKER_LENGTH])
        named = fpdu_start_of(marker, self.data[index + 2] << 8 | self.data[index + 3])
        return [start for start, _ in named if not start % 4]

    def proves_right(self, start: int, marker: int) -> bool:
        """Return True if the FPDU of a Marker begins at a start: by CRC, without CRC by this Marker and the next."""
        extent = self.extent(start)
        if extent is None or marker >= extent.end:
            return False
        if self.layout.crc:
            return self.lengths_lead_to_valid(start)
        markers = self.layout.marker_positions(marker, self.end - MARKER_LENGTH + 1)
        return self.agreeing(start, marker) >= min(2, len(markers))

    def start_by_crc(self, low: int, high: int, near: Iterable[int]) -> int | None:
        """Return the first start in [low, high) whose FPDU has a good CRC; ``near`` is tried first (RFC 5044 §4.4).

        Starts at which a DDP header stands come next, then all others as far as MOST_CRC_OCTETS allows.
        """
        low, unit = max(low, self.start), self.layout.alignment
        low += -low % unit
        sure = next((at for at in near if low <= at < high and not at % unit and self.is_whole_and_valid(at)), None)
        high = min(high, self.end) if sure is None else sure
        octets = bytes(self.data[low - self.start : high - self.start + 4])
        for found in PLAUSIBLE_HEADER.finditer(octets):
            start = self.layout.start_of(low + found.start())
            if start is not None and not start % unit and low <= start < high and self.is_whole_and_valid(start):
                return start if self.layout.dialect is not None else self._first_before(low, start)
        if self.layout.dialect is not None:
            return sure
        budget = MOST_CRC_OCTETS
        for at in range(low, high, 4):
            extent = self.extent(at)
            if extent is None or extent.end > self.end or extent.ulpdu_length < 1:
                continue
            budget -= extent.end - at
            if budget < 0:
                break
            if self.is_valid(extent):
                return at
        return sure

    def _first_before(self, low: int, start: int) -> int:
        """Return the first of the valid FPDUs that follow one another by their lengths from ``low`` on to a start.

        DDP would not send the headers of those before it; they are looked for as far back as an FPDU is long.
        """
        for at in range(start - 4, max(low, start - LONGEST_FPDU) - 1, -4):
            extent = self.extent(at)
            if extent is not None and extent.end == start and extent.ulpdu_length > 0 and self.is_valid(extent):
                start = at
        return start

    def start_by_headers(self, low: int, near: Iterable[int]) -> int | None:
        """Return the first start from which FPDUs without Markers and CRC follow one another by DDP's headers."""
        low, unit = max(low, self.start), self.layout.alignment
        low += -low % unit
        octets = bytes(self.data[low - self.start :])
        places = (low + match.start() for match in PLAUSIBLE_HEADER.finditer(octets))
        for at in chain(near, places):
            if at >= low and not at % unit:
                if self.layout.dialect is not None:
                    found = self._plausible_chain(at)
                else:
                    found = header_chain(octets, at - low)
                if not found.broken and found.fpdus > 1 and found.bits >= ENOUGH_BITS:
                    return at
        return None

    def _plausible_chain(self, at: int) -> Chain:
        """FPDUs of a sender that deviates, judged by the control octets of DDP and RDMAP alone."""
        last, fpdus, broken = at, 0, False
        while fpdus * CONTROL_BITS < ENOUGH_BITS and not broken:
            extent = self.extent(at)
            if extent is None or extent.end > self.end:
                break
            broken = extent.ulpdu_length < HEADER_OCTETS or not self.is_plausible(extent)
            if not broken:
                last, at, fpdus = at, extent.end, fpdus + 1
        return Chain(fpdus, fpdus * CONTROL_BITS, at, last, broken)

    def is_plausible(self, extent: Extent) -> bool:
        """Return True if DDP could have sent the control octets of an FPDU (RFC 5041 §4.1, RFC 5040 §4.1)."""
        if extent.spoken is not None:
            return is_plausible_control(ulpdu_of(extent.spoken, self.data[extent.offset - self.start :], 2))
        at, control = extent.header + 2, bytearray()
        for _ in range(2):
            if self.layout.markers and not at % MARKER_INTERVAL:
                at += MARKER_LENGTH
            control += self.data[at - self.start : at - self.start + 1]
            at += 1
        return is_plausible_control(bytes(control))


__all__ = ["LONGEST_FPDU", "Extent", "FPDUWindow", "Layout", "extent_of"]
