"""Choose the TCP connections to follow, and which one gives way when there are too many.

What is over goes first.  Connections of which only one side was captured (SYNs that nobody answered) go if they are
more than their share; so do those without MPA; else the one goes that has been idle for longest.  Which that is, is
found in the time that the packets took that came meanwhile: a heap has the last frame of each connection as it was when
that was examined last, and one that turns out to have gone on goes back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

from scapy_mpa.stream.connection import TCPConnection

#: Connections that nobody answered give way first if they exceed this share, one in this many: a flood of SYNs must not
#: push out those that are looked for.
SHARE_UNANSWERED: Final = 4
#: Connections without MPA give way first if they exceed this share, one in this many: nor must other traffic.
SHARE_PLAIN: Final = 2
#: A heap has so many entries of what is gone, and twice its members, before it is rebuilt: a batch's size.
MOST_GONE: Final = 64
#: An id is an address.
_ID_BITS: Final = 64


class _ByIdleness:
    """Connections by how long they have been idle; ``members`` has them by their ID."""

    __slots__ = ("_heap", "members")

    def __init__(self) -> None:
        self.members: dict[int, TCPConnection] = {}
        #: Last frame as far as it was examined, and id, in one number, which is compared at once; also of connections
        #: that are gone.  None until somebody asks.
        self._heap: list[int] | None = None

    def add(self, connection: TCPConnection) -> None:
        self.members[id(connection)] = connection
        if self._heap is not None:
            heappush(self._heap, connection.last_frame << _ID_BITS | id(connection))
            if len(self._heap) > 2 * len(self.members) + MOST_GONE:
                self._heap = None

    def longest_idle(self) -> tuple[int, TCPConnection] | None:
        """Return the one whose last frame is the earliest, and that frame; None if there is none."""
        heap = self._heap
        if heap is None:
            heap = self._heap = [one.last_frame << _ID_BITS | key for key, one in self.members.items()]
            heapify(heap)
        while heap:
            frame, key = divmod(heap[0], 1 << _ID_BITS)
            connection = self.members.get(key)
            if connection is None:
                heappop(heap)
            elif connection.last_frame == frame:
                return frame, connection
            else:
                heapreplace(heap, connection.last_frame << _ID_BITS | key)
        return None


class Followed:
    """The TCP connections that are followed; ``most`` is how many are at most."""

    __slots__ = ("_groups", "_most", "_over")

    def __init__(self, most: int) -> None:
        self._most = most
        #: Those that nobody answered, those without MPA, those with MPA.
        self._groups = _ByIdleness(), _ByIdleness(), _ByIdleness()
        #: Those that seemed to be over when that was looked at; the oldest first.
        self._over: OrderedDict[int, TCPConnection] = OrderedDict()

    def __iter__(self) -> Iterator[TCPConnection]:
        """Yield those with MPA first, each group in order of arrival."""
        unanswered, plain, with_mpa = (group.members.values() for group in self._groups)
        return iter((*with_mpa, *plain, *unanswered))

    @property
    def is_full(self) -> bool:
        """True if another one makes one give way."""
        unanswered, plain, with_mpa = self._groups
        return len(unanswered.members) + len(plain.members) + len(with_mpa.members) >= self._most

    def add(self, connection: TCPConnection) -> None:
        """Follow a connection that nobody answered, as far as is known."""
        self._groups[0].add(connection)

    def move(self, connection: TCPConnection, has_mpa: bool) -> None:
        """A connection was answered, or there is MPA on it."""
        target = self._groups[1 + has_mpa]
        if id(connection) not in target.members:
            for group in self._groups:
                group.members.pop(id(connection), None)
            target.add(connection)

    def end(self, connection: TCPConnection) -> None:
        """A connection seems to be over."""
        self._over[id(connection)] = connection

    def over(self) -> list[TCPConnection]:
        """Return those that are over; the one that has been so for longest first."""
        return [one for one in self._over.values() if one.is_over]

    def remove(self, connection: TCPConnection) -> None:
        """Follow a connection no longer."""
        self._over.pop(id(connection), None)
        for group in self._groups:
            group.members.pop(id(connection), None)

    def give_way(self) -> TCPConnection:
        """Return which one gives way to another."""
        while self._over:
            _, ended = self._over.popitem(last=False)
            if ended.is_over:
                return ended
        idle = [group.longest_idle() for group in self._groups]
        unanswered, plain, _ = self._groups
        for one, group, share in ((idle[0], unanswered, SHARE_UNANSWERED), (idle[1], plain, SHARE_PLAIN)):
            if one is not None and len(group.members) > self._most // share:
                return one[1]
        return min((one for one in idle if one is not None), key=lambda one: one[0])[1]
