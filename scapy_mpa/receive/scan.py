"""Reading FPDUs off octets in order: extent, Markers, CRC, PAD (RFC 5044 §4, §6).

:meth:`Scan.read` is the only loop over FPDUs.  Octets and what FPDUs usually look like go in; what was found comes out,
and whether something does not fit.  It looks at nothing else and keeps nothing, so that it may be handed the same
octets again.  :class:`FPDUReader` looks at one FPDU where it lies among captured pieces, by the same rules.

How an FPDU lies among Markers follows from two numbers, what its offset leaves modulo 512 and its ULPDU_Length (RFC
5044 §4.3).  So a *shape* is reckoned once for all FPDUs that lie alike: how long they are, and what reads all their
Markers and PAD in one step.

Offsets count from SeqStart, the first octet of Full Operation in this direction (RFC 5044 §4.3).
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, TypeAlias

from scapy_mpa.framing.crc import CRC_LENGTH, CRC_RESIDUE, crc32c
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, TERMINATE_OPCODE, UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH, MAX_ULPDU_LENGTH, pad_length
from scapy_mpa.framing.markers import (
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    Origin,
    expected_fpduptr,
    fpdu_start_of,
    header_offset,
    marker_count,
    marker_positions,
    plain_length,
    wire_length,
)
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.values.octets import Fields, crc_of, head, place, word
from scapy_mpa.values.segment import Segment

#: TO counts modulo 2^64 (RFC 5041 §4.2).
LAST_TO: Final = (1 << 64) - 1
#: Octets of ULPDU_Length and a DDP header: tagged, untagged.
TAGGED_HEAD: Final = LENGTH_FIELD_LENGTH + TAGGED_HEADER_LENGTH
UNTAGGED_HEAD: Final = LENGTH_FIELD_LENGTH + UNTAGGED_HEADER_LENGTH

_ORIGINS: tuple[Origin, Origin] = ("header", "first-octet")
#: An offset that leaves so little modulo 512 has ULPDU_Length and a tagged header before the next Marker.
_LAST_WHOLE_HEAD: Final = MARKER_INTERVAL - TAGGED_HEAD
#: Shapes that are kept, each counted once and once more for each Marker.
_MOST_SHAPES: Final = 1 << 14

#: Octets with Markers and how many Markers, both with the leading one; all Markers and PAD, from the first octet on.
#: No octets: no FPDU of this ULPDU_Length, or at this offset, is ordinary.
Shape: TypeAlias = tuple[int, int, Fields]


class Layout(NamedTuple):
    """How FPDUs lie in a half connection: whether there are Markers and CRCs, and what FPDUPTR counts from."""

    markers: bool
    crc: bool
    origin: Origin


class Usual(NamedTuple):
    """What an FPDU has to be of which nothing more is looked at: the next part of an RDMA Write, or all of one.

    Attributes:
        control: its control octets as a number; -1 if every FPDU is looked at.
        writing: whether it has to go on where the last one ended.
        stag: the STag it then has.
        shortest: the least ULPDU_Length.
        longest: the largest ULPDU_Length.
    """

    control: int = -1
    writing: bool = False
    stag: int = 0
    shortest: int = 0
    longest: int = 0


class Unusual:
    """An FPDU that is not as usual: indices of its first octet, of ULPDU_Length and of its end.

    ``fits`` says that it is no longer than FPDUs before and that PAD is zero.
    """

    __slots__ = ("begin", "end", "fits", "header", "ulpdu_length")

    def __init__(self, begin: int, header: int, ulpdu_length: int, end: int, fits: bool) -> None:
        self.begin = begin
        self.header = header
        self.ulpdu_length = ulpdu_length
        self.end = end
        self.fits = fits


def is_usual(octets: Octets, header: int, control: int, ulpdu_length: int, usual: Usual, to: int) -> bool:
    """Whether the header of an FPDU, whose ULPDU_Length is at ``header``, is as usual; ``to`` is as :meth:`Scan.read`
    has it, whose loop asks the same in place, because it asks for every FPDU."""
    return (
        control == usual.control
        and usual.shortest <= ulpdu_length <= usual.longest
        and (not usual.writing or place(octets, header + 4) == (usual.stag, to))
    )


class Extent(NamedTuple):
    """Where an FPDU lies: its first octet, its ULPDU_Length field and what that says, its end, its Markers."""

    offset: int
    header: int
    ulpdu_length: int
    end: int
    markers: int


class Found:
    """What was found in octets: whole FPDUs, one behind the other.

    Attributes:
        end: index of the first octet that belongs to none of them.
        need: the offset at which the FPDU that begins there ends, 0 if that is not known yet.
        ulpdu_octets: octets of ULPDUs.
        markers: Markers.
        to: where an RDMA Write goes on, as far as all was usual.
    """

    __slots__ = ("end", "markers", "need", "to", "ulpdu_octets")

    def __init__(self, end: int, need: int, ulpdu_octets: int, markers: int, to: int) -> None:
        self.end = end
        self.need = need
        self.ulpdu_octets = ulpdu_octets
        self.markers = markers
        self.to = to


class MarkerDisagreement(NamedTuple):
    """The first Marker of an FPDU that does not name its start from the profile's origin."""

    rule: Literal["fpduptr-origin", "marker-length"]
    marker_offset: int
    fpduptr: int
    expected: int

    def detail(self, offset: int) -> str:
        """What is wrong with it, in words; ``offset`` is that of its FPDU."""
        distance = self.marker_offset - offset
        return f"Marker {distance} octets into the FPDU: FPDUPTR {self.fpduptr}, expected {self.expected}"


class _Shapes(dict[int, Shape]):
    """Shapes by ULPDU_Length * 512 + offset modulo 512; ``origin`` is None without Markers, when the offset is 0."""

    def __init__(self, origin: Origin | None) -> None:
        super().__init__()
        self._origin: Origin | None = origin
        self._weight = 0

    def __missing__(self, key: int) -> Shape:
        """Reckon a shape, and keep it."""
        ulpdu_length, offset = divmod(key, MARKER_INTERVAL)
        origin = self._origin
        is_ordinary = 1 < ulpdu_length <= MAX_ULPDU_LENGTH and not offset % 4
        positions = range(0)
        length = plain_length(ulpdu_length) if is_ordinary else 0
        if is_ordinary and origin is not None:
            length = wire_length(ulpdu_length, offset)
            positions = marker_positions(offset, offset + length)
        pad, last = pad_length(ulpdu_length) if length else 0, offset + length - CRC_LENGTH
        if last - MARKER_LENGTH in positions:
            last -= MARKER_LENGTH  # a Marker lies between PAD and CRC
        fields = [(position - offset, "B", 0) for position in range(last - pad, last)]
        if origin is not None:
            fields += [(position - offset, "I", expected_fpduptr(position, offset, origin)) for position in positions]
        self._weight += 1 + len(positions)
        if self._weight > _MOST_SHAPES:
            self.clear()
            self._weight = 1 + len(positions)
        shape = self[key] = length, len(positions), Fields(sorted(fields))
        return shape


_SHAPES: dict[Origin | None, _Shapes] = {origin: _Shapes(origin) for origin in (None, *_ORIGINS)}


class Scan:
    """Reads whole FPDUs off octets in order, by one layout."""

    __slots__ = ("_crc", "_grid", "_lead", "_markers", "_more", "_shapes")

    def __init__(self, layout: Layout) -> None:
        self._crc = layout.crc
        self._markers = layout.markers
        self._shapes = _SHAPES[layout.origin if layout.markers else None]
        #: What of an offset tells where the next Marker is, and the octets of a leading Marker.
        self._grid = MARKER_INTERVAL - 1 if layout.markers else 0
        self._lead = MARKER_LENGTH if layout.markers else 0
        #: What the drafts count more in an FPDU that begins with a Marker.
        self._more = MARKER_LENGTH if layout.origin == "first-octet" else 0

    def read(
        self,
        octets: memoryview | bytes,
        at: int,
        end: int,
        shift: int,
        usual: Usual,
        to: int,
        ends: list[int],
        fpdus: list[int] | None,
        unusual: list[Unusual],
    ) -> Found | None:
        """Read the FPDUs in ``octets[at:end]``, the first of which begins at ``at``.

        Args:
            octets: what was captured, without a hole.
            at: index of the first octet.
            end: index behind the last one.
            shift: what an index is less than the offset.
            usual: what is not looked at further.
            to: the TO that a part of an RDMA Write then has.
            ends: takes the offset at which each FPDU ends.
            fpdus: takes ULPDU_Length + opcode * 2^16 of each, unless it is None.
            unusual: takes those that are not as usual, and all behind the first of them.

        Returns:
            What was found; None, the lists holding the FPDUs in front of it, if anything does not fit: a CRC, a
            Marker, a length, or a Terminate, of which more is to be said.
        """
        shapes, grid, lead, crc_used = self._shapes, self._grid, self._lead, self._crc
        control_usual, writing, stag, shortest, longest = usual
        # In front of a Marker a header may be cut: such an FPDU is looked at.
        last_whole = _LAST_WHOLE_HEAD if grid else MARKER_INTERVAL
        ulpdu_octets = markers_found = need = 0
        residue, terminate, tagged, last_to = CRC_RESIDUE, TERMINATE_OPCODE, TAGGED_HEADER_LENGTH, LAST_TO
        while True:
            phase = at + shift & grid
            header = at if phase else at + lead
            if end - header < 4:
                break
            ulpdu_length, control = head(octets, header)
            size, markers, fields = shapes[ulpdu_length << 9 | phase]
            after = at + size
            if after > end or not size:
                need = self._incomplete(octets, at, header, end, shift, ulpdu_length, size)
                if not need:
                    return None
                break
            if crc_used and crc_of(octets, at, after) != residue:
                return None
            fits = fields.are_in(octets, at)
            if (
                fits
                and control == control_usual
                and shortest <= ulpdu_length <= longest
                and phase <= last_whole
                and (not writing or place(octets, header + 4) == (stag, to))
            ):
                to = to + ulpdu_length - tagged & last_to
            else:
                if control & 0x0F == terminate or not (fits or self._agree(octets, at, header, after, shift)):
                    return None
                unusual.append(Unusual(at, header, ulpdu_length, after, fits and tagged <= ulpdu_length <= longest))
                control_usual = -1
            ends.append(after + shift)
            if fpdus is not None:
                fpdus.append(ulpdu_length | (control & 0x0F) << 16)
            ulpdu_octets += ulpdu_length
            markers_found += markers
            at = after
        return Found(at, need, ulpdu_octets, markers_found, to & last_to)

    def _incomplete(
        self, octets: memoryview | bytes, at: int, header: int, end: int, shift: int, ulpdu_length: int, size: int
    ) -> int:
        """The offset at which an FPDU ends that is not complete; 0 if something about it does not fit."""
        if not size and not self._markers:
            # Without Markers nothing but its CRC can tell that a length is none.
            size = plain_length(ulpdu_length)
            return at + size + shift if at + size > end else 0
        if not size or not self._agree(octets, at, header, end, shift):
            return 0
        return at + size + shift

    def _agree(self, octets: memoryview | bytes, at: int, header: int, end: int, shift: int) -> bool:
        """Whether all Markers of an FPDU, as far as they end at ``end`` or before, name its start; RESERVED is zero."""
        if not self._markers:
            return True
        counted_from = header + shift if header == at else header + shift - self._more
        return not any(octets[at:header]) and _markers_agree(octets, header, end, shift, counted_from)

    def part_agrees(self, octets: memoryview | bytes, start: int, end: int, shift: int, offset: int) -> bool:
        """Whether all Markers in ``octets[start:end]``, a part of the FPDU at ``offset``, name its start."""
        if not self._markers:
            return True
        counted_from = offset if offset & 511 else offset + MARKER_LENGTH - self._more
        return _markers_agree(octets, start, end, shift, counted_from)


def _markers_agree(octets: memoryview | bytes, start: int, end: int, shift: int, counted_from: int) -> bool:
    """Whether all Markers that lie whole in ``octets[start:end]`` count from an offset, and RESERVED is zero."""
    first = start + shift
    for marker in range(first + (-first & 511), end + shift - MARKER_LENGTH + 1, MARKER_INTERVAL):
        if word(octets, marker - shift) != marker - counted_from & 0xFFFF:
            return False
    return True


class FPDUReader:
    """Reads single FPDUs where they lie in a half connection."""

    __slots__ = ("_looked_at", "layout", "reassembly")

    def __init__(self, reassembly: Reassembly, layout: Layout) -> None:
        self.reassembly = reassembly
        self.layout = layout
        #: The FPDU at whose Markers was looked last, up to which offset, and what they said.
        self._looked_at: tuple[Extent | None, int, MarkerDisagreement | None] = None, 0, None

    def withdraw(self, segments: list[Segment]) -> None:
        """Forget what these segments brought."""
        self.reassembly.withdraw(segments)
        self._looked_at = None, 0, None

    def extent(self, offset: int, limit: int) -> Extent | None:
        """The extent of the FPDU at ``offset``, None if its ULPDU_Length does not lie below ``limit``."""
        header = header_offset(offset) if self.layout.markers else offset
        if header + 2 > limit:
            return None
        octets = self.reassembly.read(header, header + 2)
        return self._extent(offset, header, octets[0] << 8 | octets[1])

    def extent_in(self, octets: bytearray, offset: int) -> Extent | None:
        """The extent of the FPDU at ``offset``, with which ``octets`` begin, None if they lack its ULPDU_Length."""
        header = header_offset(offset) if self.layout.markers else offset
        index = header - offset
        if index + 2 > len(octets):
            return None
        return self._extent(offset, header, octets[index] << 8 | octets[index + 1])

    def _extent(self, offset: int, header: int, ulpdu_length: int) -> Extent:
        body = plain_length(ulpdu_length)
        markers = marker_count(offset, body) if self.layout.markers else 0
        return Extent(offset, header, ulpdu_length, offset + body + MARKER_LENGTH * markers, markers)

    def crc_is_good(self, extent: Extent) -> bool:
        """Whether the CRC field is that of the FPDU, all of whose octets must be held."""
        crc = 0
        for view in self.reassembly.views(extent.offset, extent.end):
            crc = crc32c(view, crc)
        return crc == CRC_RESIDUE

    def control(self, extent: Extent) -> bytes:
        """The first two octets of the ULPDU, as far as it has them."""
        length = min(extent.ulpdu_length, 2)
        return self.reassembly.read(extent.header + 2, extent.header + 2 + length)

    def ulpdu(self, extent: Extent, most: int) -> bytes:
        """The first octets of the ULPDU, at most ``most``, without Markers."""
        wanted = min(extent.ulpdu_length, most)
        if not self.layout.markers:
            return self.reassembly.read(extent.header + 2, extent.header + 2 + wanted)
        at, found = extent.header + 2, b""
        while len(found) < wanted:
            if at % MARKER_INTERVAL == 0:
                at += MARKER_LENGTH
            end = min(at + wanted - len(found), at + MARKER_INTERVAL - at % MARKER_INTERVAL)
            octets = self.reassembly.read(at, end)
            if not octets:
                break
            found += octets
            at = end
        return found

    def fpduptr(self, marker_offset: int) -> int:
        """FPDUPTR of a Marker whose octets are held, its low two bits read as zero."""
        octets = self.reassembly.read(marker_offset + 2, marker_offset + MARKER_LENGTH)
        return (octets[0] << 8 | octets[1]) & 0xFFFC

    def starts_named_by(self, marker_offset: int) -> list[int]:
        """Where the FPDU that holds this Marker may begin, the likeliest first (RFC 5044 §4.3)."""
        return [start for start, _ in fpdu_start_of(marker_offset, self.fpduptr(marker_offset))]

    def is_named(self, extent: Extent) -> bool:
        """Whether a Marker of this FPDU, all of whose octets are held, names its start, from either origin."""
        for marker in marker_positions(extent.offset, extent.end):
            said = self.fpduptr(marker)
            if any(said == expected_fpduptr(marker, extent.offset, origin) & 0xFFFC for origin in _ORIGINS):
                return True
        return False

    def disagreement(self, extent: Extent, limit: int) -> MarkerDisagreement | None:
        """The first Marker of this FPDU below ``limit`` that names another start, or the start by the other origin."""
        if not extent.markers:
            return None
        other: Origin = "first-octet" if self.layout.origin == "header" else "header"
        first = extent.offset
        limit = min(extent.end, limit - MARKER_LENGTH + 1)
        from_other: MarkerDisagreement | None = None
        # An FPDU of 64 KiB has 128 Markers, and may come in single octets.
        looked_at, up_to, found = self._looked_at
        if looked_at == extent and up_to <= limit:
            first, from_other = max(first, up_to), found
        for marker in marker_positions(first, limit):
            said = self.fpduptr(marker)
            expected = expected_fpduptr(marker, extent.offset, self.layout.origin)
            if said == expected & 0xFFFC:
                continue
            if said != expected_fpduptr(marker, extent.offset, other) & 0xFFFC:
                return MarkerDisagreement("marker-length", marker, said, expected)
            from_other = from_other or MarkerDisagreement("fpduptr-origin", marker, said, expected)
        self._looked_at = extent, limit, from_other
        return from_other
