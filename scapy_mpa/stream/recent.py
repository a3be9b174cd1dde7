"""Octets that were read lately, so that a copy which comes late can be compared with them.

In: pieces that were read, in the order of the stream.  Out: a :class:`~scapy_mpa.stream.copies.Rival` for a later copy
that differs.  What was read stays read: such a copy is only reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from scapy_mpa.stream.copies import RIGHT, WRONG, Copy, Rival, effective_reason, first_difference
from scapy_mpa.stream.drop_reason import DropReason

#: Octets that are kept of all directions together, WEIGHT for each piece included: a bound of memory.
MOST_OCTETS: Final = 4 << 20
#: Octets that each piece takes besides its own: a part of the bound of memory.
WEIGHT: Final = 256
#: Pieces that a late copy is compared with, the last ones of its direction: a bound of time.
MOST_COMPARED: Final = 64
#: Pieces that have gone before those left are moved to the front, to move each seldom: a batch's size.
_FEW = 64


class RecentBudget:
    """How much is kept of all directions; the oldest pieces go first."""

    __slots__ = ("_gone", "_held", "_order")

    def __init__(self) -> None:
        #: Whose pieces were kept, oldest first, and how many of the first of these have gone.
        self._order: list[RecentOctets] = []
        self._gone = self._held = 0

    def keep(self, owner: RecentOctets, octets: int) -> None:
        """Make room for one more piece of a direction."""
        order, weight, most = self._order, WEIGHT, MOST_OCTETS
        order.append(owner)
        self._held += octets + weight
        while self._held > most:
            oldest = order[self._gone]
            self._held -= oldest.forget_first() + weight
            self._gone += 1
        if self._gone > _FEW and 2 * self._gone > len(self._order):
            del self._order[: self._gone]
            self._gone = 0


class RecentOctets:
    """The pieces of one direction that were read last."""

    __slots__ = ("_budget", "_gone", "_pieces")

    def __init__(self, budget: RecentBudget) -> None:
        self._budget = budget
        #: Pieces, oldest first, of which so many have gone.
        self._pieces: list[tuple[int, Copy] | None] = []
        self._gone = 0

    def keep(self, piece: tuple[int, Copy]) -> None:
        """Keep a piece that was read: an offset, and a copy whose octets begin there."""
        copy = piece[1]
        if copy.data is not None:
            self._pieces.append(piece)
            self._budget.keep(self, len(copy.data))

    def forget_first(self) -> int:
        """Let go of the oldest piece; return how many octets it has."""
        pieces, gone = self._pieces, self._gone
        first = pieces[gone]
        pieces[gone] = None
        self._gone = gone + 1
        if gone > _FEW and 2 * gone > len(pieces):
            del pieces[: gone + 1]
            self._gone = 0
        assert first is not None
        copy = first[1]
        return len(copy.data) if copy.data is not None else 0

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        left = self._pieces[self._gone :]
        self._pieces = [(one[0] - origin, one[1]) for one in left if one is not None]
        self._gone = 0

    def compare(
        self, start: int, end: int, copy: Copy, held: Iterable[tuple[int, Copy]], acknowledged: int | None
    ) -> Rival | None:
        """Return what a late copy differs from first in [start, end), None if it does not.

        Args:
            start: the offset of its first octet.
            end: the offset up to which octets were read.
            copy: its octets.
            held: pieces that were read and are held all the same, ascending.
            acknowledged: the offset up to which octets were acknowledged when it came, None without any.
        """
        assert copy.data is not None
        found: Rival | None = None
        end = min(end, start + len(copy.data))
        first = max(self._gone, len(self._pieces) - MOST_COMPARED)
        read = [one for one in self._pieces[first:] if one is not None]
        for begin, other in (*reversed(list(held)), *reversed(read)):
            if other.data is None:
                continue
            low = max(start, begin)
            if begin + len(other.data) <= start:
                break
            differs = (
                first_difference(copy.data[low - start : end - start], other.data[low - begin :]) if low < end else None
            )
            if differs is None:
                continue
            at, has_right = low + differs, not copy.checksum == other.checksum == WRONG
            reason = effective_reason(copy, has_right, 0)
            decided_by = "first"
            if reason > effective_reason(other, has_right, 0):
                decided_by = "reason"
            elif acknowledged is not None and at < acknowledged:
                decided_by = "acknowledged"
            moments = (other.frame, other.time), (copy.frame, copy.time)
            are_right = copy.checksum == other.checksum == RIGHT
            found = Rival(start, end, *moments, DropReason(reason), at, decided_by, copy.data, are_right, is_late=True)
        return found
