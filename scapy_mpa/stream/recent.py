"""Octets that were read lately, so that a copy which comes late can be compared with them.

In: pieces that were read, in the order of the stream.  Out: a :class:`~scapy_mpa.stream.copies.Rival` for a later copy
that differs.  What was read stays read: such a copy is only reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from scapy_mpa.framing.markers import Octets
from scapy_mpa.stream.copies import RIGHT, WRONG, Copy, Rival, copy_of, effective_reason, first_difference
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.values.octets import PIECE_LENGTH, piece_in, put_piece

#: Octets that are kept of all directions together, PIECE_LENGTH for each piece included: a bound of memory.
MOST_OCTETS: Final = 4 << 20
#: Pieces that a late copy is compared with, the last ones of its direction: a bound of time.
MOST_COMPARED: Final = 64


class RecentBudget:
    """The pieces that were read last, of all directions, one behind the other: each takes the place of the oldest."""

    __slots__ = ("_at", "_most", "_octets", "_written")

    def __init__(self) -> None:
        self._octets, self._most = bytearray(), MOST_OCTETS
        #: How many octets were written in all, and that modulo _most: where the next piece is put.
        self._written = self._at = 0

    def keep(
        self, start: int, frame: int, time: int, check: int, before: int, octets: Octets, first: int, last: int
    ) -> int:
        """Keep ``octets[first:last]`` as a piece; return its place, which goes up, -1 if there is no room at all."""
        most, size, at = self._most, PIECE_LENGTH + last - first, self._at
        if size > most:
            return -1
        if at + size > most:
            self._written, at = self._written + most - at, 0
        put_piece(self._octets, at, start, frame, time, check, before, octets, first, last)
        self._written += size
        self._at = at + size
        return self._written - size

    def piece(self, place: int) -> tuple[int, int, int, int, int, bytes] | None:
        """Return a piece as it was kept: start, frame, time, check, before, octets; None if others took its place."""
        if place < 0 or place < self._written - self._most:
            return None
        return piece_in(self._octets, place % self._most)


class RecentOctets:
    """The pieces of one direction that were read last."""

    __slots__ = ("_budget", "_last", "_origin")

    def __init__(self, budget: RecentBudget) -> None:
        self._budget = budget
        #: The place of the last piece, each of which knows that of the one before; and where offsets count from now,
        #: as an offset of the first ones.
        self._last = -1
        self._origin = 0

    def keep(self, start: int, frame: int, time: int, check: int, octets: Octets, first: int, last: int) -> None:
        """Keep a piece that was read: ``octets[first:last]``, the first of which is at the offset ``start``.

        ``check`` is its checksum and, times 4, its reason.
        """
        self._last = self._budget.keep(start + self._origin, frame, time, check, self._last, octets, first, last)

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        self._origin += origin

    def _pieces(self) -> Iterator[tuple[int, Copy]]:
        """Yield the last MOST_COMPARED pieces, the last one first, each with the offset of its first octet."""
        place = self._last
        for _ in range(MOST_COMPARED):
            found = self._budget.piece(place)
            if found is None:
                return
            start, frame, time, check, place, octets = found
            yield start - self._origin, copy_of(frame, time, DropReason(check >> 2), check & 3, octets)

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
        for begin, other in (*reversed(list(held)), *self._pieces()):
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
