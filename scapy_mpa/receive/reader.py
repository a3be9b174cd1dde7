"""Looking at one FPDU where it lies in the stream: its extent, its CRC, what its Markers say.

Offsets count from SeqStart, the first octet of Full Operation in this direction (RFC 5044 §4.3).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from scapy_mpa.framing.crc import crc32c
from scapy_mpa.framing.markers import (
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Origin,
    expected_fpduptr,
    fpdu_start_of,
    header_offset,
    marker_count,
    marker_positions,
    plain_length,
)
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.segment import Segment

#: The CRC32c of any octets followed by their own CRC field, least significant octet first.
CRC_RESIDUE = 0x48674BC7
_ORIGINS: tuple[Origin, Origin] = ("header", "first-octet")


class Extent(NamedTuple):
    """Where an FPDU lies: its first octet, its ULPDU_Length field and what that says, its end, its Markers."""

    offset: int
    header: int
    ulpdu_length: int
    end: int
    markers: int


class MarkerDisagreement(NamedTuple):
    """The first Marker of an FPDU that does not name its start from the profile's origin."""

    kind: Literal["other-origin", "bad"]
    marker_offset: int
    fpduptr: int
    expected: int


class FPDUReader:
    """Reads FPDUs out of a stream with or without Markers and CRC."""

    __slots__ = ("_looked_at", "crc", "markers", "origin", "reassembly")

    def __init__(self, stream: Reassembly, markers: bool, crc: bool, origin: Origin) -> None:
        self.reassembly = stream
        self.markers = markers
        self.crc = crc
        self.origin: Origin = origin
        #: The FPDU at whose Markers was looked last, up to which offset, and what they said.
        self._looked_at: tuple[Extent | None, int, MarkerDisagreement | None] = None, 0, None

    def withdraw(self, segments: list[Segment]) -> None:
        """Forget what these segments brought."""
        self.reassembly.withdraw(segments)
        self._looked_at = None, 0, None

    def extent(self, offset: int, limit: int) -> Extent | None:
        """The extent of the FPDU at ``offset``, None if its ULPDU_Length does not lie below ``limit``."""
        header = header_offset(offset) if self.markers else offset
        if header + 2 > limit:
            return None
        octets = self.reassembly.read(header, header + 2)
        ulpdu_length = octets[0] << 8 | octets[1]
        body = plain_length(ulpdu_length)
        markers = marker_count(offset, body) if self.markers else 0
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
        if not self.markers:
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
        other: Origin = "first-octet" if self.origin == "header" else "header"
        first = extent.offset
        limit = min(extent.end, limit - MARKER_LENGTH + 1)
        from_other: MarkerDisagreement | None = None
        # An FPDU of 64 KiB has 128 Markers, and may come in single octets.
        looked_at, up_to, found = self._looked_at
        if looked_at == extent and up_to <= limit:
            first, from_other = max(first, up_to), found
        for marker in marker_positions(first, limit):
            said = self.fpduptr(marker)
            expected = expected_fpduptr(marker, extent.offset, self.origin)
            if said == expected & 0xFFFC:
                continue
            if said != expected_fpduptr(marker, extent.offset, other) & 0xFFFC:
                return MarkerDisagreement("bad", marker, said, expected)
            from_other = from_other or MarkerDisagreement("other-origin", marker, said, expected)
        self._looked_at = extent, limit, from_other
        return from_other
