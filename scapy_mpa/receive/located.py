"""FPDUs that were located, what one frame changed, and the FPDUs placed ahead of their turn."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from scapy_mpa.framing.senders import Candidate
from scapy_mpa.receive.scan import Extent
from scapy_mpa.tcp.half import Moment
from scapy_mpa.values.records import BAD, SCAN

#: A frame after all others.
NEVER = 1 << 62


class Located(NamedTuple):
    """An FPDU that was located: what of it a record tells.

    Attributes:
        offset: of its first octet; the FPDUs of a half connection sort by it.
        extent: where it lies.
        crc: GOOD, BAD or UNCHECKED of :mod:`~scapy_mpa.values.records`.
        frames: the frames that first brought its octets, ascending.
        complete: the moment at which its last octet was captured.
        known: the moment at which it was complete and located.
        opcode: of RDMAP, or NO_OPCODE.
        is_named: whether a Marker in it names its start.
        octets: all its octets, if somebody wants them.
        beginning: how its ULPDU begins.
        oddities: the rules that octets break at which receivers do not look, with details.
        terminate: the ULPDU of a Terminate, which findings spell out.
        located_by: a code of :mod:`~scapy_mpa.values.records`.
    """

    offset: int
    extent: Extent
    crc: int
    frames: tuple[int, ...]
    complete: Moment
    known: Moment
    opcode: int
    is_named: bool
    octets: bytes = b""
    beginning: bytes = b""
    oddities: tuple[tuple[str, str], ...] = ()
    terminate: bytes = b""
    located_by: int = SCAN

    @property
    def end(self) -> int:
        """The offset after its last octet."""
        return self.extent.end

    @property
    def placed(self) -> Moment | None:
        """The moment at which it was placed, None if its CRC is bad."""
        return None if self.crc == BAD else self.known


class Breach(NamedTuple):
    """A rule broken at an offset of the stream, and the frame and time (nanoseconds) at which it shows.

    ``code`` (RFC 5044 §8) and ``topic`` (of the clause) are given where the rule leaves them open; ``is_of_peer`` says
    that the peer broke it, to whom this half connection answers.
    """

    rule: str
    offset: int
    frame: int
    time: int
    detail: str
    code: int | None = None
    topic: str = ""
    is_of_peer: bool = False


class Doubt(NamedTuple):
    """The first sign that a half connection does not conform: where and when (nanoseconds).

    ``code`` is the error that a conforming receiver reports then (RFC 5044 §8), None if it would not notice.
    """

    offset: int
    frame: int
    time: int
    code: int | None


class Diagnosis(NamedTuple):
    """What the sender of a half connection does wrong.

    Attributes:
        candidate: the dialect that explains what it sent.
        doubt: what led to it.
        others: the names of what would explain it as well.
        opening: what its first octets break whatever the dialect: Markers that were not asked for, or none that were.
    """

    candidate: Candidate
    doubt: Doubt
    others: tuple[str, ...] = ()
    opening: tuple[Breach, ...] = ()


#: What is known of senders by an analysis of the same capture: by the addresses and ports of a half connection's
#: segments, and the sequence number of its first octet of Full Operation.
Deviations: TypeAlias = Mapping[tuple[bytes, int], Diagnosis]


class Outcome(NamedTuple):
    """What one frame changed: FPDUs placed (or found bad), FPDUs the chain passed, rules broken."""

    placed: list[Located]
    settled: list[Located]
    breaches: list[Breach]


#: So few FPDUs are quickly taken out one by one.
_FEW = 32


class Ahead:
    """FPDUs placed beyond the chain, by offset; no two overlap."""

    __slots__ = ("_first", "_fpdus")

    def __init__(self) -> None:
        self._fpdus: list[Located] = []
        #: How many at the beginning of the list have been taken out: there may be very many behind.
        self._first = 0

    def __bool__(self) -> bool:
        return self._first < len(self._fpdus)

    @property
    def first(self) -> Located | None:
        """The one that the chain will meet first."""
        return self._fpdus[self._first] if self else None

    def pop(self) -> Located:
        """Take the first one out."""
        located = self._fpdus[self._first]
        self._first += 1
        if 2 * self._first >= len(self._fpdus):
            del self._fpdus[: self._first]
            self._first = 0
        return located

    def add(self, located: Located) -> None:
        """Put one in."""
        insort(self._fpdus, located, self._first, key=offset_of)

    def remove(self, fpdus: list[Located]) -> None:
        """Take these out, as far as they are there."""
        if len(fpdus) > _FEW:
            others = {id(located) for located in fpdus}
            self._fpdus[:] = [located for located in self._fpdus[self._first :] if id(located) not in others]
            self._first = 0
            return
        for located in fpdus:
            index = bisect_left(self._fpdus, located.offset, self._first, key=offset_of)
            if index < len(self._fpdus) and self._fpdus[index] is located:
                del self._fpdus[index]

    def put_back(self, fpdus: list[Located]) -> None:
        """Put those in that were taken out last, in their order: whatever is left lies behind them."""
        self._fpdus[: self._first] = fpdus
        self._first = 0

    def before(self, offset: int) -> Located | None:
        """The last one that begins before ``offset``."""
        index = bisect_left(self._fpdus, offset, self._first, key=offset_of)
        return self._fpdus[index - 1] if index > self._first else None

    def holding(self, offset: int) -> Located | None:
        """The one that holds the octet at ``offset``."""
        found = self.before(offset + 1)
        return found if found is not None and offset < found.end else None

    def overlaps(self, extent: Extent) -> bool:
        """Whether one shares octets with ``extent``."""
        found = self.before(extent.end)
        return found is not None and found.end > extent.offset


class Suspects:
    """FPDUs with a bad CRC beyond the chain, one for each offset at most, ascending."""

    __slots__ = ("_by_offset", "_offsets")

    def __init__(self) -> None:
        self._by_offset: dict[int, Located] = {}
        self._offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._offsets)

    def get(self, offset: int) -> Located | None:
        """The one at ``offset``."""
        return self._by_offset.get(offset)

    def add(self, located: Located) -> None:
        """Put one in, unless there is one at its offset."""
        if located.offset not in self._by_offset:
            self._by_offset[located.offset] = located
            insort(self._offsets, located.offset)

    def remove(self, located: Located) -> None:
        """Take one out, if it is there."""
        if self._by_offset.get(located.offset) is located:
            del self._by_offset[located.offset]
            del self._offsets[bisect_left(self._offsets, located.offset)]

    def forget(self, offset: int) -> None:
        """Take out the one at ``offset``, if there is one."""
        located = self.get(offset)
        if located is not None:
            self.remove(located)

    def forget_below(self, offset: int) -> None:
        """Take out all that begin below ``offset``."""
        count = bisect_left(self._offsets, offset)
        for at in self._offsets[:count]:
            del self._by_offset[at]
        del self._offsets[:count]

    def within(self, start: int, end: int) -> Iterator[Located]:
        """Those that begin at ``start`` or behind and end at ``end`` or before."""
        for index in range(bisect_left(self._offsets, start), bisect_left(self._offsets, end)):
            located = self._by_offset[self._offsets[index]]
            if located.end <= end:
                yield located


def offset_of(located: Located) -> int:
    """What FPDUs are sorted by."""
    return located.offset
