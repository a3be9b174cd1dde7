"""Which TCP connections are followed, and who gives way when there are more than may be.

What is over goes first.  SYNs that nobody has answered are no connections yet: they are kept as they came, and the
oldest goes if they are more than their share.  So does, of the connections without MPA, the one that has been idle
for longest, and else of all.  Which that is, is found in the time that the packets took that came meanwhile: a heap has
the last frame of each connection as it was when that was looked at last, and who turns out to have gone on goes back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, Protocol, TypeVar

from scapy_mpa.values.segment import STATE_FLAGS, SYN, Segment, detached, reverse_key

#: SYNs that nobody answered give way first beyond one in so many, connections without MPA beyond one in so many.
_SHARE_OF_SYNS, _SHARE_OF_PLAIN = 4, 2
#: The same SYN so often is looked into.
_MOST_COPIES = 16
#: A heap has so many entries of what is gone before it is made anew.
_FEW = 64


class FollowedLives(Protocol):
    """From when to when a TCP connection was used."""

    @property
    def last_frame(self) -> int:
        """The last frame of it that was no SYN, the first one without any."""


class FollowedConnection(Protocol):
    """A TCP connection that may have to give way."""

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be expected."""

    @property
    def lives(self) -> FollowedLives:
        """From when to when it was used."""


_Connection = TypeVar("_Connection", bound=FollowedConnection)


class ByIdleness(Generic[_Connection]):
    """Connections, and which of them has been idle for longest.

    Attributes:
        members: the connections by their id, in the order in which they came.
    """

    __slots__ = ("_heap", "members")

    def __init__(self) -> None:
        self.members: dict[int, _Connection] = {}
        #: (last frame as far as it was looked at, id), also of connections that are gone.
        self._heap: list[tuple[int, int]] = []

    def add(self, connection: _Connection) -> None:
        """One more is followed."""
        self.members[id(connection)] = connection
        heappush(self._heap, (connection.lives.last_frame, id(connection)))
        if len(self._heap) > 2 * len(self.members) + _FEW:
            self._heap = [(one.lives.last_frame, key) for key, one in self.members.items()]
            heapify(self._heap)

    def remove(self, connection: _Connection) -> bool:
        """One is not followed any more; False if it was not."""
        return self.members.pop(id(connection), None) is not None

    def longest_idle(self) -> tuple[int, _Connection] | None:
        """The one whose last frame is the earliest, and that frame; None if there is none."""
        heap = self._heap
        while heap:
            frame, key = heap[0]
            connection = self.members.get(key)
            if connection is None:
                heappop(heap)
            elif connection.lives.last_frame == frame:
                return frame, connection
            else:
                heapreplace(heap, (connection.lives.last_frame, key))
        return None


class Followed(Generic[_Connection]):
    """The TCP connections that are followed.

    ``most`` is how many are at most, SYNs that nobody answered included.
    """

    __slots__ = ("_most", "_over", "_plain", "_syns", "_with_mpa")

    def __init__(self, most: int) -> None:
        self._most = most
        #: SYNs that nobody answered yet, each with its copies, by addresses and ports; the oldest first.
        self._syns: OrderedDict[bytes, list[Segment]] = OrderedDict()
        self._plain: ByIdleness[_Connection] = ByIdleness()
        self._with_mpa: ByIdleness[_Connection] = ByIdleness()
        #: Those of both that seemed to be over when that was looked at; the oldest first.
        self._over: OrderedDict[int, _Connection] = OrderedDict()

    def __iter__(self) -> Iterator[_Connection]:
        """Those with MPA in the order in which that was found, then the others in the order in which they began."""
        return iter((*self._with_mpa.members.values(), *self._plain.members.values()))

    @property
    def is_full(self) -> bool:
        """Whether another one makes one give way."""
        return len(self._syns) + len(self._plain.members) + len(self._with_mpa.members) >= self._most

    # --- SYNs ---

    def keep(self, seg: Segment) -> bool:
        """Keep a segment that belongs to no connection, if it is a SYN and nothing else."""
        if seg.flags & STATE_FLAGS != SYN or seg.length:
            return False
        self._syns[seg.key] = [detached(seg)]
        return True

    def take_kept(self, seg: Segment) -> list[Segment]:
        """The SYN that was kept, with its copies, if ``seg`` shows that there is more to the connection than that.

        If ``seg`` is one of the copies, it is kept, and the list has it alone.
        """
        kept = self._syns.get(seg.key)
        if kept is None:
            return self._syns.pop(reverse_key(seg.key), []) if self._syns else []
        first = kept[0]
        if (seg.seq, seg.flags, seg.length) == (first.seq, first.flags, 0) and len(kept) < _MOST_COPIES:
            kept.append(detached(seg))
            return [seg]
        return self._syns.pop(seg.key)

    # --- connections ---

    def add(self, connection: _Connection) -> None:
        """One more is followed, without MPA as far as is known."""
        self._plain.add(connection)

    def find_mpa(self, connection: _Connection) -> None:
        """There is MPA on it."""
        if self._plain.remove(connection):
            self._with_mpa.add(connection)

    def end(self, connection: _Connection) -> None:
        """It seems to be over."""
        self._over[id(connection)] = connection

    def over(self) -> list[_Connection]:
        """Those that are over; the one that has been so for longest first."""
        return [connection for connection in self._over.values() if connection.is_closed]

    def remove(self, connection: _Connection) -> bool:
        """One is not followed any more; returns whether there was MPA on it."""
        self._over.pop(id(connection), None)
        self._plain.remove(connection)
        return self._with_mpa.remove(connection)

    def give_way(self) -> _Connection | None:
        """Who gives way to another one; None if it is a SYN that nobody answered, which is not kept any more."""
        connection = self._choose()
        if connection is None:
            self._syns.popitem(last=False)
        return connection

    def _choose(self) -> _Connection | None:
        while self._over:
            _, ended = self._over.popitem(last=False)
            if ended.is_closed:
                return ended
        if len(self._syns) > self._most // _SHARE_OF_SYNS:
            return None
        plain, with_mpa = self._plain.longest_idle(), self._with_mpa.longest_idle()
        if plain is not None and (
            with_mpa is None or plain[0] <= with_mpa[0] or len(self._plain.members) > self._most // _SHARE_OF_PLAIN
        ):
            idle: tuple[int, _Connection] | None = plain
        else:
            idle = with_mpa
        oldest = next(iter(self._syns.values()), None)
        if idle is None or (oldest is not None and oldest[0].frame < idle[0]):
            return None
        return idle[1]
