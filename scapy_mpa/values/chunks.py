"""Octets in many short pieces: what is known about them is kept, so that each piece is examined once."""

from __future__ import annotations

from typing import Final

from scapy_mpa.values.segment import Segment

#: Octets of a chunk, which begins at a multiple of them.
CHUNK: Final = 256
#: So few pieces are as quickly examined one by one, and so are those that hold as many octets each.
_FEW: Final = 32
_SHORT: Final = CHUNK
_NONE: Final = range(0)


class Chunks:
    """What is known about octets in many short pieces, by the number of the chunk: each is examined once.

    An FPDU of 64 KiB may come in single octets, and where it begins may be guessed wrong at every one of them.

    Attributes:
        octets: the octets of a chunk.
        damaged: the octets of a chunk that came damaged, from an offset up to another, and their segments.
    """

    __slots__ = ("damaged", "octets")

    def __init__(self) -> None:
        self.octets: dict[int, bytes] = {}
        self.damaged: dict[int, list[tuple[int, int, Segment]]] = {}

    def forget(self, start: int, end: int) -> None:
        """Octets of [start, end) are no longer held, or may be different."""
        for number in range(start // CHUNK, -(-end // CHUNK)):
            self.octets.pop(number, None)
            self.damaged.pop(number, None)

    def release(self, offset: int) -> None:
        """Release what lies below ``offset``, which is not read again; segments are copied."""
        self.octets = {number: octets for number, octets in self.octets.items() if number * CHUNK >= offset}
        self.damaged = {n: damaged for n, damaged in self.damaged.items() if n * CHUNK >= offset and not damaged}


def chunks_within(start: int, end: int, pieces: int) -> range:
    """The numbers of the chunks all of which lie in [start, end), none if this many pieces are not worth it."""
    if pieces <= _FEW or end - start >= pieces * _SHORT:
        return _NONE
    return range(-(-start // CHUNK), end // CHUNK)
