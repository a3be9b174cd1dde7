"""Columns for what is too dense to draw one by one: each stands for what falls into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scapy_mpa.tuples import NamedTuple

if TYPE_CHECKING:
    from scapy_mpa.plot.view import Column

#: Columns of a picture.
COLUMNS = 240


class Grid(NamedTuple):
    """Columns of equal width between two places."""

    first: float
    width: float
    columns: int

    @property
    def edges(self) -> list[float]:
        """The boundaries of the columns: where each begins, and where the last one ends."""
        return [self.first + index * self.width for index in range(self.columns + 1)]

    def of(self, places: Column) -> Column:
        """The column of each place."""
        import numpy as np

        return np.clip(((places - self.first) / self.width).astype(np.int64), 0, self.columns - 1)

    def sums(self, places: Column, weights: Column) -> Column:
        """The sum of the weights in each column."""
        import numpy as np

        return np.bincount(self.of(places), weights=weights, minlength=self.columns)

    def spread(self, starts: Column, ends: Column, weights: Column) -> Column:
        """The sum of the weights in each column, each spread evenly from where it starts to where it ends."""
        import numpy as np

        first, last = self.of(starts), self.of(ends)
        is_one = first == last
        sums = np.bincount(first[is_one], weights=weights[is_one], minlength=self.columns).astype(float)
        if is_one.all():
            return sums
        first, last = first[~is_one], last[~is_one]
        starts, ends = starts[~is_one], ends[~is_one]
        density = weights[~is_one] / (ends - starts)
        edges = self.first + np.arange(self.columns + 1) * self.width
        sums += np.bincount(first, weights=density * (edges[first + 1] - starts), minlength=self.columns)
        sums += np.bincount(last, weights=density * (ends - edges[last]), minlength=self.columns)
        # Columns between the first and the last are full: what begins after one ends before another.
        steps = np.bincount(first + 1, weights=density, minlength=self.columns + 1)
        steps -= np.bincount(last, weights=density, minlength=self.columns + 1)
        full: Column = sums + np.maximum(np.cumsum(steps)[: self.columns], 0.0) * self.width
        return full

    def extremes(self, places: Column, low: Column, high: Column) -> tuple[Column, Column]:
        """The smallest and the largest value in each column; not a number in an empty one."""
        import numpy as np

        index = self.of(places)
        least, most = np.full(self.columns, np.inf), np.full(self.columns, -np.inf)
        np.minimum.at(least, index, low)
        np.maximum.at(most, index, high)
        empty = least > most
        least[empty] = most[empty] = np.nan
        return least, most


def grid(places: Sequence[Column], columns: int = COLUMNS) -> Grid:
    """Columns for all these places."""
    there = [column for column in places if len(column)]
    if not there:
        return Grid(0.0, 1.0, columns)
    first, last = min(float(column.min()) for column in there), max(float(column.max()) for column in there)
    return Grid(first, (last - first) / columns or 1.0, columns)
