"""How FPDUs lie: what the fast path needs to know of one, reckoned once for all that lie alike.

Among Markers it follows from two numbers, what the offset of the FPDU leaves modulo 512 and its ULPDU_Length (RFC 5044
§4.3); without them from its first octets (RFC 5044 §4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct, calcsize
from typing import TypeAlias

from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, WHOLE_WRITES
from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH, MAX_ULPDU_LENGTH, pad_length
from scapy_mpa.framing.markers import (
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Origin,
    expected_fpduptr,
    marker_positions,
    plain_length,
    wire_length,
)

#: Octets with Markers and how many Markers, both with the leading one; what reads all Markers and PAD, from its first
#: octet, and what they must be.  Without octets: no FPDU of this ULPDU_Length, or at this offset, is ordinary.
Shape: TypeAlias = tuple[int, int, Callable[..., tuple[int, ...]], tuple[int, ...]]

#: The same without Markers: ULPDU_Length, octets; what reads PAD, from the first octet, and what it must be.
Head: TypeAlias = tuple[int, int, Callable[..., tuple[int, ...]], tuple[int, ...]]

#: What of the four octets before the CRC is PAD, and how it is read, by the last two bits of ULPDU_Length.
PAD_BITS = (0xFFFF, 0xFF, 0, 0xFFFFFF)
_PAD_CODES = ("H", "B", "", "BH")
#: No FPDU is as long: what stands for one that is not quiet.
_OTHER: Head = 0, 1 << 32, Struct("").unpack_from, ()

#: Shapes that are kept, each counted once and once more for each Marker; Heads that are kept.
_MOST = 1 << 14
_MOST_HEADS = 1 << 12


class Shapes(dict[int, Shape]):
    """Shapes by ULPDU_Length * 512 + offset modulo 512, for one origin of FPDUPTR."""

    def __init__(self, origin: Origin) -> None:
        super().__init__()
        self._origin: Origin = origin
        self._weight = 0

    def __missing__(self, key: int) -> Shape:
        """Reckon a shape, and keep it."""
        ulpdu_length, offset = divmod(key, MARKER_INTERVAL)
        is_ordinary = 1 < ulpdu_length <= MAX_ULPDU_LENGTH and not offset % 4
        length = wire_length(ulpdu_length, offset) if is_ordinary else 0
        positions = marker_positions(offset, offset + length)
        pad, last = pad_length(ulpdu_length) if length else 0, offset + length - CRC_LENGTH
        if last - MARKER_LENGTH in positions:
            last -= MARKER_LENGTH  # a Marker lies between PAD and CRC
        fields = [(position, "I", expected_fpduptr(position, offset, self._origin)) for position in positions]
        fields += [(place, "B", 0) for place in range(last - pad, last)]
        at, layout = offset, ">"
        for place, code, _ in sorted(fields):
            layout += f"{place - at}x{code}"
            at = place + calcsize(f">{code}")
        expected = tuple(value for _, _, value in sorted(fields))
        self._weight += 1 + len(positions)
        if self._weight > _MOST:
            self.clear()
            self._weight = 1 + len(positions)
        shape = self[key] = length, len(positions), Struct(layout).unpack_from, expected
        return shape


#: Those of each origin.
SHAPES: dict[Origin, Shapes] = {"header": Shapes("header"), "first-octet": Shapes("first-octet")}


#: FPDUs that carry an RDMA Write of one DDP Segment, by control octets and by the first four octets as a number.  For
#: others that are known, octets are more than there can be.
HEADS: dict[int, dict[int, Head]] = {control: {} for control in WHOLE_WRITES}


def learn_head(first: int, control: int) -> None:
    """Keep in :data:`HEADS` what the first four octets of an FPDU mean where these control octets are expected."""
    heads = HEADS[control]
    ulpdu_length, found = divmod(first, 1 << 16)
    head = _OTHER
    if found == control and TAGGED_HEADER_LENGTH <= ulpdu_length <= MAX_ULPDU_LENGTH:
        codes = _PAD_CODES[ulpdu_length & 3]
        read = Struct(f">{LENGTH_FIELD_LENGTH + ulpdu_length}x{codes}").unpack_from
        head = ulpdu_length, plain_length(ulpdu_length), read, (0,) * len(codes)
    if len(heads) >= _MOST_HEADS:
        heads.clear()
    heads[first] = head
