"""How FPDUs lie among Markers: what the fast path needs to know of one, reckoned once for all that lie alike.

It follows from two numbers, what the offset of the FPDU leaves modulo 512 and its ULPDU_Length (RFC 5044 §4.3).
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import TypeAlias

from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import (
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Origin,
    expected_fpduptr,
    marker_positions,
    wire_length,
)

#: Octets with Markers and how many Markers, both with the leading one; what reads all Markers, from its first octet,
#: and what they must be.  Without octets: no FPDU of this ULPDU_Length is ordinary.
Shape: TypeAlias = tuple[int, int, Callable[..., tuple[int, ...]], tuple[int, ...]]

#: Shapes that are kept, each counted once and once more for each Marker.
_MOST = 1 << 14


class Shapes(dict[int, Shape]):
    """Shapes by ULPDU_Length * 512 + offset modulo 512, for one origin of FPDUPTR."""

    def __init__(self, origin: Origin) -> None:
        super().__init__()
        self._origin: Origin = origin
        self._weight = 0

    def __missing__(self, key: int) -> Shape:
        """Reckon a shape, and keep it."""
        ulpdu_length, offset = divmod(key, MARKER_INTERVAL)
        length = wire_length(ulpdu_length, offset)
        positions = marker_positions(offset, offset + length)
        at, layout = offset, ">"
        for position in positions:
            layout += f"{position - at}xI"
            at = position + MARKER_LENGTH
        expected = tuple(expected_fpduptr(position, offset, self._origin) for position in positions)
        if not 1 < ulpdu_length <= MAX_ULPDU_LENGTH:
            length = 0
        self._weight += 1 + len(positions)
        if self._weight > _MOST:
            self.clear()
            self._weight = 1 + len(positions)
        shape = self[key] = length, len(positions), Struct(layout).unpack_from, expected
        return shape


#: Those of each origin.
SHAPES: dict[Origin, Shapes] = {"header": Shapes("header"), "first-octet": Shapes("first-octet")}
