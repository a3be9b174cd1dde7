"""Relations between the messages of a connection.

A Read Response and its Request have the sink in common (RFC 5040 §4.4), an Atomic Response names its Request (RFC 7306
§5.3). A call of the upper layer has its reply, and the RDMA that was done for it: :mod:`scapy_mpa.rdmap.memory`.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Iterable
from typing import TypeAlias

from scapy_mpa.framing.requests import ATOMIC_REQUEST, READ_REQUEST, ReadRequest, names_of_requests
from scapy_mpa.tuples import NamedTuple

#: Of each half connection: requests without an answer, calls without a reply that are remembered.
MOST_REQUESTS, MOST_CALLS = 1 << 16, 1 << 12
#: Different numbers of RDMA Reads under way that are distinguished, and times at the limit that are kept.
_MOST_LEVELS, MOST_TIMES = 1 << 12, 16


#: The answer to a Request: frame of its first octet, of its last, their times in nanoseconds since the epoch, octets.
AnswerValues: TypeAlias = "tuple[int, int, int, int, int]"


class Call:
    """A call of the upper layer, the memory that it named, and what RDMA was done for it.

    Attributes:
        stags: those that it named.
        is_doubtful: a call with the same identifier had no reply yet, so nobody knows which of them a reply ends.
        waits: it may stay without a reply, by design.
    """

    __slots__ = (
        "first_frame",
        "is_doubtful",
        "read_octets",
        "reads",
        "stags",
        "time",
        "waits",
        "write_octets",
        "writes",
    )

    def __init__(self, first_frame: int, time: int) -> None:
        self.first_frame = first_frame
        self.time = time
        self.writes = self.write_octets = self.reads = self.read_octets = 0
        self.stags = array("I")
        self.is_doubtful = self.waits = False

    def take_write(self, octets: int, count: int = 1) -> None:
        """An RDMA Write of this many octets into memory that it named, or several together."""
        self.writes += count
        self.write_octets += octets

    def take_read(self, octets: int) -> None:
        """An RDMA Read of this many octets from memory that it named."""
        self.reads += 1
        self.read_octets += octets

    def as_dict(self, time: int) -> dict[str, int | float]:
        """The keys that its reply has, which came at a time (nanoseconds)."""
        return {
            "call_frame": self.first_frame,
            "latency": (time - self.time) / 1_000_000_000,
            "rdma_writes": self.writes,
            "rdma_write_octets": self.write_octets,
            "rdma_reads": self.reads,
            "rdma_read_octets": self.read_octets,
        }


class Pending(NamedTuple):
    """A Request that waits for its answer: its number among all messages, and when it came."""

    number: int
    time: int


class WaitingRequests:
    """Requests in order, by what their answers say about them: the last ``most``."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._first = self._next = 0
        self._requests: dict[int, tuple[Pending, tuple[Hashable, ...]]] = {}
        #: The numbers of those with a key, the oldest first.
        self._by_key: dict[Hashable, deque[int]] = {}

    def __len__(self) -> int:
        return len(self._requests)

    def add(self, keys: tuple[Hashable, ...], pending: Pending) -> None:
        """A Request was sent; its answer has one of these keys."""
        self._requests[self._next] = pending, keys
        for key in keys:
            self._by_key.setdefault(key, deque()).append(self._next)
        self._next += 1
        if len(self._requests) > self._most:
            self._drop()

    def take(self, key: Hashable) -> Pending | None:
        """Return the oldest Request with a key; earlier ones, which were never answered, go with it."""
        numbers = self._by_key.get(key)
        if numbers is None:
            return None
        number = numbers[0]
        while self._first < number:
            self._drop()
        return self._drop()

    def _drop(self) -> Pending:
        pending, keys = self._requests.pop(self._first)
        self._first += 1
        for key in keys:
            numbers = self._by_key[key]
            numbers.popleft()
            if not numbers:
                del self._by_key[key]
        return pending


class UnderWay:
    """The number of RDMA Reads and Atomics that one side has outstanding, over time.

    Attributes:
        limit: the most that there may be, its ORD after negotiation; None if that is not known.
        now: how many there are.
        most: how many there were at most, from ``most_frame`` on.
        levels: nanoseconds for which there were that many.
        full: nanoseconds at the limit; ``full_times`` says from which frame on and for how many, the first times only.
        times: how often the limit was reached.
    """

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self.now = self.most = self.most_frame = self.full = self.times = 0
        self.levels: dict[int, int] = {}
        self.full_times: list[tuple[int, int]] = []
        self._since: int | None = None
        self._full_since: tuple[int, int] | None = None

    def change(self, now: int, frame: int, time: int) -> None:
        """Set the present number."""
        if self._since is not None:
            level = min(self.now, _MOST_LEVELS)
            self.levels[level] = self.levels.get(level, 0) + max(0, time - self._since)
        self._since, self.now = time, now
        if now > self.most:
            self.most, self.most_frame = now, frame
        if self.limit is None or not self.limit:
            return
        if now >= self.limit and self._full_since is None:
            self._full_since = frame, time
        elif now < self.limit and self._full_since is not None:
            self._leave_limit(time)

    def finish(self) -> None:
        """Finish: nothing more follows."""
        if self._full_since is not None and self._since is not None:
            self._leave_limit(self._since)

    def _leave_limit(self, time: int) -> None:
        assert self._full_since is not None
        frame, since = self._full_since
        self._full_since = None
        self.times += 1
        self.full += max(0, time - since)
        if len(self.full_times) < MOST_TIMES:
            self.full_times.append((frame, max(0, time - since)))


class Requests:
    """The Requests of one side, until their answers come: Reads and Atomics, each in their order (RFC 5040 §5.5)."""

    def __init__(self, limit: int | None, most: int = MOST_REQUESTS) -> None:
        self._reads, self._atomics = WaitingRequests(most), WaitingRequests(most)
        self.under_way = UnderWay(limit)
        self._opcodes: set[int] = set()

    @property
    def names(self) -> str:
        """Their name: RDMA Reads, Atomics or both."""
        return names_of_requests(self._opcodes)

    def ask_read(self, said: Iterable[ReadRequest], pending: Pending, frame: int) -> None:
        """Note a Read Request that was sent; ``said`` is what it may mean."""
        self._opcodes.add(READ_REQUEST)
        self._reads.add(tuple({(one.sink_stag, one.sink_to): None for one in said}), pending)
        self._count(frame, pending.time)

    def ask_atomic(self, request_id: int, pending: Pending, frame: int) -> None:
        """An Atomic Request was sent."""
        self._opcodes.add(ATOMIC_REQUEST)
        self._atomics.add((request_id,), pending)
        self._count(frame, pending.time)

    def answer_read(self, stag: int, to: int, frame: int, time: int) -> Pending | None:
        """A Read Response to this sink came; returns the Request that it answers."""
        return self._answered(self._reads.take((stag, to)), frame, time)

    def answer_atomic(self, request_id: int, frame: int, time: int) -> Pending | None:
        """An Atomic Response to this Request came; returns the Request."""
        return self._answered(self._atomics.take(request_id), frame, time)

    def _answered(self, pending: Pending | None, frame: int, time: int) -> Pending | None:
        if pending is not None:
            self._count(frame, time)
        return pending

    def _count(self, frame: int, time: int) -> None:
        self.under_way.change(len(self._reads) + len(self._atomics), frame, time)
