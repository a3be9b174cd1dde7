"""Least, median, 99th percentile and most of any number of values, in memory that does not follow their number.

Up to a number of values all of them are kept. Then they are counted by their leading 11 bits: a percentile is right
within one part in 1024.
"""

from __future__ import annotations

from array import array

#: Values that are kept as they are.
_EXACT = 1 << 15
_BITS = 11


class Spread:
    """Collects whole numbers, none of them negative: those below 0 count as 0."""

    __slots__ = ("_counts", "_values", "count", "least", "most", "total")

    def __init__(self) -> None:
        self.count = self.total = self.least = self.most = 0
        self._values = array("q")
        #: By the least value that has the same leading bits.
        self._counts: dict[int, int] = {}

    def add(self, value: int) -> None:
        """Take a value."""
        value = max(value, 0)
        self.least = value if not self.count else min(self.least, value)
        self.most = max(self.most, value)
        self.count += 1
        self.total += value
        self._values.append(value)
        if len(self._values) == _EXACT:
            self._fold()

    def percentile(self, percent: float) -> int:
        """The least value that this percentage of all does not exceed (nearest rank); 0 if there is none."""
        return self._at(max(1, -int(-self.count * percent // 100)))

    def median(self) -> float:
        """The middle value, of an even number of values the mean of the middle two; 0 if there is none."""
        return (self._at((self.count + 1) // 2) + self._at(self.count // 2 + 1)) / 2

    def _at(self, rank: int) -> int:
        """The value with this rank, from 1; 0 if there is none."""
        if not self._counts:
            return sorted(self._values)[rank - 1] if self.count else 0
        self._fold()
        for value in sorted(self._counts):
            rank -= self._counts[value]
            if rank <= 0:
                return min(max(value, self.least), self.most)
        return self.most

    def _fold(self) -> None:
        counts = self._counts
        for value in self._values:
            shift = max(0, value.bit_length() - _BITS)
            place = value >> shift << shift
            counts[place] = counts.get(place, 0) + 1
        del self._values[:]
