"""Memory that one side named to its peer: who named it, its bounds and its lifetime, and what the peer does with it.

An upper layer's header names ranges of the sender's memory to the peer, a Read Request its sink (RFC 5040 §4.4).  In:
these names, what ends them (an STag that the peer's Send invalidates, the reply to the call that named them), and the
peer's RDMA Writes, Read Requests and Read Responses.  Out: those that are outside the range that was named, before or
after its life (RFC 5041 §4.2, §7.1), and octets whose contents are indeterminate (RFC 5040 §5.5).

Nothing is said about an STag that was never named, nor of a range without a length.  If something that may have named
memory was not captured or cannot be read, nothing is said of any STag that was not invalidated since: other ranges of
it may be alive (:meth:`NamedMemories.doubt`).  The two directions need not come in the order in which they were sent:
where one waits for octets, the other goes on.  So a name has a *position*, the stream offset after its message, and
who ends memory says up to which position it had *received*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.rdmap.links import Call
from scapy_mpa.rules.findings import Quota
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import NamedMemory
from scapy_mpa.values.words import plural

#: STags of each half connection that are remembered: a bound of memory.
MOST_STAGS = 1 << 13
#: Ranges of one STag that are alive at a time; nothing is said about an STag with more: a bound of memory, and of time.
MOST_RANGES = 16
#: Ranges of one STag that are remembered although they ended, the last ones: a bound of memory, and of time.
MOST_ENDED = 8
#: Runs of octets of one STag, written since the last Send, that are remembered, the last ones: a bound of memory.
MOST_RUNS = 16
#: Findings of one rule and STag that are kept one by one, and of one half connection: a bound of memory.
MOST_FOUND, MOST_KEPT = 16, 1024
#: What a sender had received by a frame, where that is not known: beyond any stream offset.
UNKNOWN = 1 << 64
BOUNDS, LIFE, OVERLAP, EARLY = "memory-bounds", "memory-life", "placement-overlap", "placement-early"
_END = 1 << 64
#: In place of a number of doubts: which ranges are alive is not known until the STag is invalidated.
_NOT_KNOWN = -1
_WRITE, _READ_REQUEST, _READ_RESPONSE = range(3)


class MemoryAccess(NamedTuple):
    """Octets of named memory that a message writes or reads.

    ``first_frame`` brought its first octet, ``frame`` the last one that was missing; ``placed`` is the frame by which
    all of it was placed.  ``offset`` is the stream offset of its first FPDU, ``time`` that of ``frame`` (nanoseconds).
    """

    opcode: int
    stag: int
    to: int
    length: int
    first_frame: int
    frame: int
    placed: int
    offset: int = 0
    time: int = 0

    @property
    def words(self) -> str:
        """The access in words."""
        name = OPCODE_NAMES[self.opcode]
        return f"the {name} of {plural(self.length, 'octet')} at TO {self.to:#x} of STag {self.stag:#010x}"


class MemoryFinding(NamedTuple):
    """An access that breaks a rule.

    ``frame`` brought the access; ``other_frame`` named the memory, ended its life, or placed octets before; from
    ``since`` to ``until`` a program that polls the last octet reads stale data (frames, 0 where the rule has no such
    interval).  ``offset`` and ``time`` are those of the access.
    """

    rule: str
    frame: int
    other_frame: int
    since: int
    until: int
    detail: str
    offset: int = 0
    time: int = 0


class Suspect(NamedTuple):
    """An access that breaks a rule, unless its sender had received names that are not known yet."""

    memory: STagMemory
    access: MemoryAccess
    finding: MemoryFinding | None
    names: int


class _Range:
    """Octets [first, end) that one message named; ``count`` times, if others named the same."""

    __slots__ = ("call", "count", "end", "ended_frame", "first", "frame", "how", "position")

    def __init__(self, first: int, end: int, frame: int, position: int, call: Call | None) -> None:
        self.first = first
        self.end = end
        self.frame = frame
        self.position = position
        self.call = call
        self.count = 1
        self.ended_frame = 0
        self.how = ""

    @property
    def words(self) -> str:
        """What was named, in words."""
        return f"the {plural(self.end - self.first, 'octet')} at TO {self.first:#x} that frame {self.frame} names"


class _Ranges:
    """The ranges of one STag: those that are alive, and the last ones that ended.

    Attributes:
        is_open: there are more than are remembered, or one without a length, so nothing is outside.
    """

    __slots__ = ("_ended", "_live", "_position", "is_open")

    def __init__(self) -> None:
        self._live: list[_Range] = []
        self._ended: list[_Range] = []
        self._position = 0
        self.is_open = False

    @property
    def is_alive(self) -> bool:
        """True if any is alive."""
        return bool(self._live) or self.is_open

    def add(self, first: int, end: int, frame: int, position: int, call: Call | None) -> None:
        """A message names octets; none if it does not say how many."""
        self._position = max(self._position, position)
        for one in self._live:
            if one.first == first and one.end == end and one.call is call:
                one.count += 1
                one.frame, one.position = frame, position
                return
        if first == end or len(self._live) == MOST_RANGES:
            self.is_open = True
        else:
            self._live.append(_Range(first, end, frame, position, call))

    def invalidate(self, frame: int, received: int) -> None:
        """End those that were named up to a position: their STag is invalid."""
        self.is_open = self.is_open and self._position > received
        for one in self._ended:
            if one.ended_frame == frame:
                one.how = "invalidated"
        self._end([one for one in self._live if one.position <= received], frame, "invalidated")

    def answer(self, call: Call, frame: int, received: int) -> None:
        """End those that a call named up to a position."""
        self._end([one for one in self._live if one.call is call and one.position <= received], frame, "answered")

    def deliver(self, first: int, end: int, frame: int) -> None:
        """Complete one Read Response that ends at ``end``: of the ranges that hold it, the oldest has its data."""
        for one in self._live:
            if one.first <= first and end == one.end:
                one.count -= 1
                if not one.count:
                    self._end([one], frame, "answered")
                return

    def _end(self, ranges: list[_Range], frame: int, how: str) -> None:
        for one in ranges:
            one.ended_frame, one.how = frame, how
        self._ended = [*self._ended, *ranges][-MOST_ENDED:]
        self._live = [one for one in self._live if one not in ranges]

    def holds(self, first: int, end: int) -> bool:
        """Return True if one that is alive holds these octets."""
        return any(one.first <= first and end <= one.end for one in self._live)

    def judge(self, access: MemoryAccess) -> MemoryFinding | None:
        """Return what an access breaks, None if it is inside what is alive, or nobody knows."""
        live, ended = self._live, self._ended
        first, end = access.to, access.to + access.length
        if self.is_open or not (live or ended) or _covers(live, first, end):
            return None
        over = [one for one in ended if one.first < end and first < one.end] or ended
        if over and (not live or _covers([*live, *ended], first, end)):
            last = max(over, key=lambda one: one.ended_frame)
            by = "invalidates the STag" if last.how == "invalidated" else "is the answer"
            detail = f"{access.words} comes after frame {last.ended_frame}, which {by}, to {last.words}"
            return MemoryFinding(LIFE, access.frame, last.ended_frame, 0, 0, detail, access.offset, access.time)
        near = _nearest(live, first, end)
        detail = f"{access.words} {_beside(near, first, end)}"
        return MemoryFinding(BOUNDS, access.frame, near.frame, 0, 0, detail, access.offset, access.time)


class STagMemory:
    """What one side named by an STag, and what the peer did with it.

    Args:
        stag: the STag.
        quota: how many findings may still be kept.
        report: takes each finding of memory that was named, none is kept then; None to keep the first ones.

    Attributes:
        named: how often it was named: by ``first_named`` first, by ``last_named`` last (frames, 0 for never).
        call: the call that named it last, None if that is no call.
        protocol: the upper layer that named it, None if only Read Requests did.
        uses: what for: "read", "write", "reply", "sink", ...
        is_current: it was named, and no Send of the peer invalidated it since.
        low: the first octet that was ever named; ``high`` is after the last one.
        has_bounds: each name said a length.
        ended_frame: of what ended it, 0 while it is alive; ``how`` says it: "invalidated", "answered".
        doubts: how many doubts there were when all that upper layers named by it was known.
        gaps: how many gaps there were when all sinks that it names were known.
        counts: findings by rule; ``findings`` has the first of them.
    """

    __slots__ = (
        "_epoch", "_names", "_quota", "_report", "_runs", "_sinks", "_unnamed", "call", "counts", "doubts",
        "ended_frame", "findings", "first_named", "first_used", "gaps", "has_bounds", "high", "how", "is_current",
        "last_named", "last_used", "low", "named", "protocol", "read_octets", "reads", "stag", "uses", "writes",
        "written_octets",
    )  # fmt: skip

    def __init__(self, stag: int, quota: Quota, report: Callable[[MemoryFinding], None] | None = None) -> None:
        self.stag = stag
        self._quota = quota
        self._report = report
        self.named = self.first_named = self.last_named = 0
        self.call: Call | None = None
        self.protocol: str | None = None
        self.uses: list[str] = []
        self.is_current = False
        self.doubts = self.gaps = 0
        self.low, self.high = _END, 0
        self.has_bounds = True
        self.ended_frame = 0
        self.how = ""
        self.writes = self.written_octets = self.reads = self.read_octets = 0
        self.first_used = self.last_used = 0
        self.findings: list[MemoryFinding] = []
        self.counts: dict[str, int] = {}
        #: What upper layers named, and the sinks of Read Requests.
        self._names, self._sinks = _Ranges(), _Ranges()
        #: The first access to it before it was named.
        self._unnamed: MemoryAccess | None = None
        #: First octets and ends of what was written since a Send, with the first and the last frame that wrote it.
        self._runs: list[tuple[int, int, int, int]] = []
        self._epoch = 0

    @property
    def is_alive(self) -> bool:
        """True if any of its ranges is alive."""
        return self._names.is_alive or self._sinks.is_alive

    # --- its life ---

    def name(
        self, memory: NamedMemory, frame: int, position: int, call: Call | None, *, is_sink: bool, is_sure: bool
    ) -> None:
        """A message names octets of it; ``is_sure``: no name before can be missing."""
        _, to, length, use = memory
        self.first_named = self.first_named or frame
        self.last_named = frame
        self.named += 1
        self.is_current = True
        self.call = call
        self.ended_frame, self.how = 0, ""
        if use not in self.uses:
            self.uses.append(use)
        self.low, self.high = min(self.low, to), max(self.high, to + length)
        self.has_bounds = self.has_bounds and bool(length)
        (self._sinks if is_sink else self._names).add(to, to + length, frame, position, call)
        unnamed = self._unnamed
        if is_sink or unnamed is None:
            return
        self._unnamed = None
        if is_sure and to <= unnamed.to and unnamed.to + unnamed.length <= to + length:
            detail = f"{unnamed.words} comes before frame {frame}, which names it"
            self.find(MemoryFinding(LIFE, unnamed.frame, frame, 0, 0, detail, unnamed.offset, unnamed.time))

    def invalidate(self, frame: int, received: int) -> None:
        """A Send of the peer invalidates it."""
        self.is_current = False
        if received < UNKNOWN:
            self._names.invalidate(frame, received)
            self._sinks.invalidate(frame, received)
        if self.named and (not self.is_alive or received >= UNKNOWN):
            self.ended_frame, self.how = frame, "invalidated"

    def answer(self, call: Call, frame: int, received: int) -> None:
        """The call that named some of it is answered."""
        if self._names.is_alive:
            self._names.answer(call, frame, received)
            self._note_end(frame)

    def deliver(self, access: MemoryAccess) -> None:
        """A Read Response is complete."""
        if self._sinks.is_alive:
            self._sinks.deliver(access.to, access.to + access.length, access.frame)
            self._note_end(access.frame)

    def _note_end(self, frame: int) -> None:
        if not self.is_alive:
            self.ended_frame, self.how = frame, "answered"

    # --- what is done with it ---

    def use(self, access: MemoryAccess, count: int = 1) -> None:
        """Count an access, which several messages make together."""
        if access.opcode == _READ_REQUEST:
            self.reads += 1
            self.read_octets += access.length
        else:
            self.writes += count
            self.written_octets += access.length
        self.first_used = self.first_used or access.first_frame
        self.last_used = access.frame

    def judge(self, access: MemoryAccess) -> Suspect | None:
        """Return what an access breaks, None if it is inside what is alive, or nobody knows."""
        if not access.length or access.to + access.length > _END:
            return None
        if access.opcode == _READ_RESPONSE:
            finding = self._sinks.judge(access)
        elif not self.named and self._unnamed is None:
            return Suspect(self, access, None, 0)
        else:
            finding = self._names.judge(access)
        return Suspect(self, access, finding, self.named) if finding is not None else None

    def confirm(self, suspect: Suspect) -> None:
        """The sender of an access had received no name of this memory that was not known when it was judged."""
        if suspect.names != self.named:
            return
        if suspect.finding is not None:
            self.find(suspect.finding)
        elif self._unnamed is None:
            self._unnamed = suspect.access

    def write(self, access: MemoryAccess, epoch: int) -> None:
        """Octets are written; those of the same ``epoch`` without a Send between."""
        if self._epoch != epoch:
            self._epoch, self._runs = epoch, []
        first, end = access.to, access.to + access.length
        if first == end or end > _END:
            return
        runs = self._runs
        at = bisect_right(runs, (first, _END, 0, 0))
        if at and runs[at - 1][1] > first:
            at -= 1
        below = at
        kept: list[tuple[int, int, int, int]] = []
        over: tuple[int, int, int, int] | None = None
        while below < len(runs) and runs[below][0] < end:
            low, high, begun, last = runs[below]
            over = runs[below] if over is None or last > over[3] else over
            if low < first:
                kept.append((low, first, begun, last))
            if high > end:
                kept.append((end, high, begun, last))
            below += 1
        if over is not None:
            self._overlap(access, over)
        # What continues where the previous run ends is one run with it.
        new = first, end, access.first_frame, access.placed or access.frame
        if over is None and at and runs[at - 1][1] == first:
            at -= 1
            new = runs[at][0], end, runs[at][2], new[3]
        runs[at:below] = sorted([*kept, new])
        if len(runs) > MOST_RUNS:
            runs.remove(min(runs, key=lambda one: one[3]))

    def goes_on(self, first: int, end: int, placed: int, epoch: int) -> bool:
        """Return True if octets are written inside a range, right after the highest of this epoch, and note them."""
        if self._epoch != epoch or not self._runs:
            return False
        low, high, begun, _ = self._runs[-1]
        if high != first or not self._names.holds(first, end):
            return False
        self._runs[-1] = low, end, begun, placed
        return True

    def was_written(self, access: MemoryAccess, epoch: int) -> bool:
        """Return True if some of these octets were written before, in the same ``epoch``."""
        if self._epoch != epoch:
            return False
        first, end = access.to, access.to + access.length
        at = bisect_right(self._runs, (first, _END, 0, 0))
        return any(low < end and first < high for low, high, _, _ in self._runs[max(0, at - 1) : at + 1])

    def _overlap(self, access: MemoryAccess, over: tuple[int, int, int, int]) -> None:
        low, high, begun, last = over
        first, end = max(low, access.to), min(high, access.to + access.length)
        since, until = sorted((last, access.placed or access.frame))
        detail = (
            f"{access.words} overlaps {plural(end - first, 'octet')} at TO {first:#x} that {_frames(begun, last)} "
            f"wrote, without a Send in between: from frame {since} to frame {until}, whoever polls them reads stale "
            "data"
        )
        self.find(MemoryFinding(OVERLAP, access.frame, begun, since, until, detail, access.offset, access.time))

    def place_early(self, access: MemoryAccess, since: int) -> None:
        """The last octet of a message was placed at frame ``since``, before others of it."""
        detail = (
            f"the last octet of {access.words} was placed at frame {since}, others at frame {access.placed}: in "
            "between, whoever polls the last octet reads stale data"
        )
        self.find(MemoryFinding(EARLY, since, access.placed, since, access.placed, detail))

    def find(self, finding: MemoryFinding) -> None:
        """Count a finding."""
        if self._report is not None:
            if self.named:
                self._report(finding)
            return
        count = self.counts.get(finding.rule, 0)
        self.counts[finding.rule] = count + 1
        if count < MOST_FOUND and self._quota.take():
            self.findings.append(finding)


class NamedMemories:
    """The memory that one side named to its peer, by STag.

    Args:
        is_from_start: all that side sent was captured from its first octet on.

    Attributes:
        most: how many STags are remembered.
        room: how many more may be remembered by all who share it; one STag always may. None if it is not shared.
        report: takes each finding of named memory as it is made; None to keep the first ones with their STag.
        epoch: how many messages of the peer made what it wrote before them determinate.
        drop: takes an STag that is remembered no more, None if nobody wants it.
    """

    def __init__(self, is_from_start: bool = False) -> None:
        self._by_stag: OrderedDict[int, STagMemory] = OrderedDict()
        #: Where names of upper layers, and where those of sinks too, may be missing: how often, and up to where.
        self._doubts = self._gaps = 0 if is_from_start else 1
        self._doubted = 0
        self._has_dropped = False
        self._quota = Quota(MOST_KEPT)
        self.most = MOST_STAGS
        self.room: Quota | None = None
        self._is_beside_room = False
        self.report: Callable[[MemoryFinding], None] | None = None
        self.epoch = 0
        self.drop: Callable[[STagMemory], None] | None = None

    def get(self, stag: int) -> STagMemory | None:
        """Return what is known about an STag that was named and not invalidated."""
        memory = self._by_stag.get(stag)
        return memory if memory is not None and memory.is_current else None

    def at(self, stag: int) -> STagMemory:
        """Return what is known about an STag, which may be nothing yet."""
        memory = self._by_stag.get(stag)
        if memory is None:
            is_full = len(self._by_stag) >= self.most or (self.room is not None and not self.room.take())
            memory = self._by_stag[stag] = STagMemory(stag, self._quota, self.report)
            if is_full and len(self._by_stag) == 1:
                self._is_beside_room = True
            elif is_full:
                dropped = self._by_stag.popitem(last=False)[1]
                self._has_dropped = True
                if dropped.is_alive:
                    self.doubt(_END, is_gap=True)
                for _ in dropped.findings:
                    self._quota.give_back()
                if self.drop is not None:
                    self.drop(dropped)
        return memory

    def name(
        self,
        memories: Iterable[NamedMemory],
        frame: int,
        position: int,
        call: Call | None = None,
        *,
        protocol: str | None = None,
        is_sure: bool = False,
    ) -> None:
        """A message names memory.

        Args:
            memories: what it names.
            frame: the first frame of the message.
            position: the stream offset after it.
            call: the call that it is, None if it is not a call.
            protocol: the upper layer whose header names it, None if a Read Request names its sink.
            is_sure: it is known to be a header of that protocol.
        """
        for one in memories:
            memory = self.at(one.stag)
            self._by_stag.move_to_end(one.stag)
            memory.protocol = protocol or memory.protocol
            sure = is_sure and not self._doubts and not self._has_dropped
            memory.name(one, frame, position, call, is_sink=protocol is None, is_sure=sure)
            if call is not None:
                call.stags.append(one.stag)

    def invalidate(self, stag: int, frame: int, received: int) -> None:
        """The peer's Send invalidates an STag; the peer had received all up to a position."""
        memory = self._by_stag.get(stag)
        if memory is not None:
            memory.invalidate(frame, received)
            if received >= UNKNOWN:
                memory.doubts = memory.gaps = _NOT_KNOWN
            elif received >= self._doubted:
                memory.doubts, memory.gaps = self._doubts, self._gaps

    def answer(self, call: Call, frame: int, received: int) -> None:
        """The peer, which had received all up to a position, answers a call: what that named has ended."""
        if call.is_doubtful:
            return
        for stag in call.stags:
            memory = self._by_stag.get(stag)
            if memory is not None:
                memory.answer(call, frame, received)
                if received >= UNKNOWN:
                    memory.doubts = memory.gaps = _NOT_KNOWN

    def doubt(self, position: int, *, is_gap: bool) -> None:
        """Something before a position may name memory: it cannot be read, or, with a gap, was not captured."""
        self._doubts += 1
        self._gaps += is_gap
        self._doubted = max(self._doubted, position)

    def judge(self, access: MemoryAccess) -> Suspect | None:
        """Return what an access breaks, None if nothing, or if other names of the memory may be missing."""
        memory = self.at(access.stag)
        return memory.judge(access) if self._knows(memory, access) else None

    def goes_on(self, stag: int, first: int, end: int, placed: int) -> bool:
        """Return True if a Write continues where the previous one ended, and breaks nothing; and note it."""
        memory = self._by_stag.get(stag)
        return memory is not None and memory.doubts == self._doubts and memory.goes_on(first, end, placed, self.epoch)

    def confirm(self, suspect: Suspect) -> None:
        """The sender of an access had received no name that was not known when it was judged."""
        if self._knows(suspect.memory, suspect.access):
            suspect.memory.confirm(suspect)

    def _knows(self, memory: STagMemory, access: MemoryAccess) -> bool:
        """Return True if all ranges of an STag that are alive are known."""
        return memory.gaps == self._gaps if access.opcode == _READ_RESPONSE else memory.doubts == self._doubts

    def drop_all(self) -> None:
        """Finish: hand on all STags."""
        for memory in self._by_stag.values():
            if self.drop is not None:
                self.drop(memory)
        if self.room is not None:
            self.room.left += len(self._by_stag) - self._is_beside_room
        self._is_beside_room = False
        self._by_stag.clear()


def _covers(ranges: list[_Range], first: int, end: int) -> bool:
    """Return True if ranges hold all octets from ``first`` to ``end``, together."""
    for one in ranges:
        if one.first <= first and end <= one.end:
            return True
    for one in sorted(ranges, key=lambda one: one.first):
        if one.first <= first < one.end:
            first = one.end
    return first >= end


def _nearest(ranges: list[_Range], first: int, end: int) -> _Range:
    """Return the range that is least far from octets; the first of several."""
    return min(ranges, key=lambda one: max(one.first - first, 0) + max(end - one.end, 0))


def _beside(named: _Range, first: int, end: int) -> str:
    """Say how octets lie outside a range."""
    if first >= named.end:
        return f"begins {_distance(first - named.end)} after {named.words}"
    if end <= named.first:
        return f"ends {_distance(named.first - end)} before {named.words}"
    if first < named.first:
        return f"begins {plural(named.first - first, 'octet')} before {named.words}"
    return f"goes {plural(end - named.end, 'octet')} beyond {named.words}"


def _distance(octets: int) -> str:
    return plural(octets, "octet") if octets else "right"


def _frames(first: int, last: int) -> str:
    return f"frame {first}" if first == last else f"frames {min(first, last)} to {max(first, last)}"
