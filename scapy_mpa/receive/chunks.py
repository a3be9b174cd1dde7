"""What is known of octets that lie in many short pieces: each stretch of them is looked at once.

An FPDU of 64 KiB may come in single octets, and where it begins may be guessed wrong at every one of them.
"""

from __future__ import annotations

from typing import Final

#: Octets of a chunk, which begins at a multiple of them.
CHUNK: Final = 256
#: So few pieces are as quickly looked at one by one, and so are those that hold as many octets each.
_FEW: Final = 32
_SHORT: Final = CHUNK
_NONE: Final = range(0)


class Chunks:
    """Chunks of a stream, by number: their ``octets``, and those all of whose segments may have come undamaged."""

    __slots__ = ("octets", "undamaged")

    def __init__(self) -> None:
        self.octets: dict[int, bytes] = {}
        self.undamaged: set[int] = set()

    def forget(self, start: int, end: int) -> None:
        """Octets of [start, end) are not held any more, or may be others."""
        for number in range(start // CHUNK, -(-end // CHUNK)):
            self.octets.pop(number, None)
            self.undamaged.discard(number)

    def forget_below(self, offset: int) -> None:
        """What lies below ``offset`` is not read any more."""
        self.octets = {number: octets for number, octets in self.octets.items() if number * CHUNK >= offset}
        self.undamaged = {number for number in self.undamaged if number * CHUNK >= offset}


def chunks_within(start: int, end: int, pieces: int) -> range:
    """The numbers of the chunks all of which lie in [start, end), none if so many pieces are not worth it."""
    if pieces <= _FEW or end - start >= pieces * _SHORT:
        return _NONE
    return range(-(-start // CHUNK), end // CHUNK)
