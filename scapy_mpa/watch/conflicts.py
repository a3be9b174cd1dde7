"""Where a segment brings other octets than those at hand for the same places (DESIGN: rival copies).

Whoever sends one segment over many others, again and again, must not have all of them looked at each time.  So octets
are compared in long runs, and what differs is asked of only as far as somebody wants to know: is one damaged, which
is the first that may have been taken.

Segments that were consumed may overlap one another, without limit.  They are compared with a segment only if, taken
together, they hold no more than :data:`_MOST_COPIES` times its octets; of more copies nobody knows which was taken, and
nothing is said.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.values.segment import Segment

#: Segments consumed last that may have been taken in place of others.
_MOST_TAKEN: Final = 4
#: Pieces that are held whose segments may have been consumed in part: the first ones; with so many others at most.
_MOST_PARTLY: Final = 4
_FEW_OTHERS: Final = 16
#: Copies of an octet that were consumed, and the segments that brought them: a few, and one for so many octets.
_MOST_COPIES: Final = 16
_FEW_SEGMENTS: Final = 256
_OCTETS_A_SEGMENT: Final = 16
#: In more ranges with holes between them octets are compared piece by piece.
_FEW_RANGES: Final = 8
#: So many octets are compared at first, then twice as many, and so on.
_FIRST_STEP: Final = 64
_HALF: Final = 1 << 31

#: The first offset at which another segment differs, and that one.
Place = tuple[int, Segment]


class _Run(NamedTuple):
    """Octets from an offset on that differ from those that are held."""

    start: int
    mine: bytes
    held: bytes


class Conflict:
    """A segment differs from others in octets of the same places.

    It is to be asked before the octets at hand change.

    Args:
        reassembly: the octets at hand.
        consumed: what was consumed and differs.
        runs: what is held and differs, in order.
    """

    __slots__ = ("_consumed", "_found", "_reassembly", "_search")

    def __init__(self, reassembly: Reassembly, consumed: list[Place], runs: Iterator[_Run]) -> None:
        self._reassembly = reassembly
        self._consumed = consumed
        #: What was found so far; who only asks whether there is a conflict has no more looked for.
        self._found: list[_Run] = []
        self._search = runs

    def __bool__(self) -> bool:
        return bool(self._consumed) or next(self._runs(), None) is not None

    def _runs(self) -> Iterator[_Run]:
        yield from self._found
        for run in self._search:
            self._found.append(run)
            yield run

    @property
    def most_others(self) -> int:
        """How many others may differ at most, near enough."""
        pieces = (self._reassembly.pieces_of(run.start, run.start + len(run.held)) for run in self._runs())
        return len(self._consumed) + sum(map(len, pieces))

    @property
    def has_damaged(self) -> bool:
        """Whether the TCP checksum of one of the others is wrong."""
        return next(self._each_damaged(), None) is not None

    def damaged(self) -> list[Place]:
        """Those others whose TCP checksum is wrong."""
        found: dict[int, Place] = {}
        for place in self._each_damaged():
            found.setdefault(id(place[1]), place)
        return list(found.values())

    def _each_damaged(self) -> Iterator[Place]:
        """The same; one comes as often as it differs in another place."""
        is_wrong = self._reassembly.checksums.is_wrong
        yield from (place for place in self._consumed if is_wrong(place[1]))
        for start, mine, held in self._runs():
            for first, last, other in self._reassembly.damaged_within(start, start + len(held)):
                low, high = max(first - start, 0), last - start
                different = first_difference(mine[low:high], held[low:high])
                if different is not None:
                    yield start + low + different, other

    def rival(self) -> Place | None:
        """The first of the others whose TCP checksum may be right."""
        reassembly = self._reassembly
        is_wrong = reassembly.checksums.is_wrong
        consumed = [place for place in self._consumed if not is_wrong(place[1])]
        if consumed:
            return min(consumed, key=lambda place: place[0])
        for start, mine, held in self._runs():
            at: int | None = 0
            while at is not None and (at := first_difference(mine, held, at)) is not None:
                (piece,) = reassembly.pieces_of(start + at, start + at + 1)
                if not is_wrong(piece.seg):
                    return start + at, piece.seg
                at = piece.end - start
        return None


def conflict_of(reassembly: Reassembly, seg: Segment, start: int, end: int) -> Conflict | None:
    """How ``seg``, whose octets are [start, end), differs from octets at hand; None if it does not."""
    consumed: list[Place] = []
    if start < reassembly.base:
        consumed = _differing_consumed(reassembly, seg, start, end)
    runs: Iterator[_Run] = iter(())
    if start < reassembly.next or reassembly.beyond:
        runs = _differing_runs(reassembly, seg, start, max(start, reassembly.base), end)
    return Conflict(reassembly, consumed, runs) or None


def is_repeat(reassembly: Reassembly, seg: Segment) -> bool:
    """Whether ``seg`` brings only octets that were captured before, as far as is known, or came damaged."""
    start = reassembly.offset_of(seg.seq)
    end = start + seg.end - seg.start
    if start < 0 or reassembly.missing(start, end):
        return False
    conflict = conflict_of(reassembly, seg, start, end)
    return conflict is None or conflict.has_damaged


def _differing_runs(reassembly: Reassembly, seg: Segment, start: int, low: int, end: int) -> Iterator[_Run]:
    """Where [low, end) of a segment that begins at ``start`` differs from what is held, in order."""
    octets = bytes(seg.buffer[seg.start + low - start : seg.end])
    for number, (first, last) in enumerate(_captured(reassembly, low, end)):
        if number == _FEW_RANGES and _is_held(reassembly, octets[first - low :], first, end):
            # A damaged segment may come over many islands, again and again, and differ from the last of them.
            return
        held, mine = reassembly.read(first, last), octets[first - low : last - low]
        if len(held) == len(mine):
            if mine != held:
                yield _Run(first, mine, held)
            continue
        # Before a startup frame is found, a hole may have been skipped between octets that are still held.
        for a, b, _, _ in reassembly.pieces_of(first, last):
            held, mine = reassembly.read(max(a, first), min(b, last)), octets[max(a, first) - low : min(b, last) - low]
            if mine != held:
                yield _Run(max(a, first), mine, held)


def _captured(reassembly: Reassembly, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of [start, end) captured already, in order; nothing may change before the last one is taken."""
    if start < min(reassembly.next, end):
        yield start, min(reassembly.next, end)
    beyond = reassembly.beyond
    for index in range(bisect_right(beyond, start, key=itemgetter(1)), len(beyond)):
        first, last = beyond[index]
        if first >= end:
            return
        yield max(first, start), min(last, end)


def _is_held(reassembly: Reassembly, octets: bytes, start: int, end: int) -> bool:
    """Whether all that is held of [start, end) is what ``octets`` are there."""
    pieces = reassembly.pieces_of(start, end)
    held = [other.buffer[at + max(start - a, 0) : at + min(b, end) - a] for a, b, at, other in pieces]
    mine = [octets[max(a - start, 0) : b - start] for a, b, _, _ in pieces]
    return b"".join(held) == b"".join(mine)


def _differing_consumed(reassembly: Reassembly, seg: Segment, start: int, end: int) -> list[Place]:
    """The segments let go of lately that differ, each with the first such offset."""
    base = reassembly.base
    consumed, are_all = consumed_between(reassembly, start, min(end, base))
    if not are_all:
        return []
    latest: list[Segment] | None = None
    found = []
    # Of a segment that holds the end of one FPDU and a part of the next, that part is still held.
    partly = _consumed_in_part(reassembly, consumed) if len(consumed) <= _FEW_OTHERS else []
    in_part = {id(other) for _, other in partly}
    for first, other in (*consumed, *partly):
        low, high = max(start, first), min(end, first + other.end - other.start)
        if low >= high:
            continue
        mine = bytes(seg.buffer[seg.start + low - start : seg.start + high - start])
        theirs = bytes(other.buffer[other.start + low - first : other.start + high - first])
        different = first_difference(mine, theirs)
        if different is None or low + different >= base:
            continue
        offset = low + different
        if latest is None:
            latest = sorted((one for _, one in consumed), key=lambda one: one.frame)[-_MOST_TAKEN:]
        octet = seg.buffer[seg.start + offset - start]
        # A segment dropped for one FPDU may have been taken for another; then a later one brought these octets.
        others = [one for one in latest if one.frame > other.frame]
        if id(other) in in_part:
            # Of this one nobody knows whether another was taken in place of the part that is consumed.
            others = [one for _, one in (*consumed, *partly)]
        if not any(_octet_at(reassembly, one, offset) == octet for one in others):
            found.append((offset, other))
    return found


def _consumed_in_part(reassembly: Reassembly, consumed: list[Place]) -> list[Place]:
    """The segments that are still held, of which a part may have been let go, by their first offsets."""
    known = {id(other) for _, other in consumed}
    partly = {id(piece.seg): piece.seg for piece in reassembly.pieces[:_MOST_PARTLY]}
    return [(reassembly.offset_of(one.seq), one) for name, one in partly.items() if name not in known]


def _octet_at(reassembly: Reassembly, seg: Segment, offset: int) -> int | None:
    """The octet of a segment at an offset, None if it has none there."""
    index = seg.start + offset - reassembly.offset_of(seg.seq)
    return seg.buffer[index] if seg.start <= index < seg.end else None


def consumed_between(reassembly: Reassembly, start: int, end: int) -> tuple[list[Place], bool]:
    """The segments let go of lately that hold octets of [start, end), and maybe some before, by their first offsets.

    Also whether these are all, or so many do that they are only the first ones.
    """
    found: dict[int, Place] = {}
    begin = reassembly.seq_of(start)
    most = _FEW_SEGMENTS + (end - start) // _OCTETS_A_SEGMENT
    octets = _MOST_COPIES * (end - start)
    for segments in (reassembly.previously_consumed, reassembly.consumed):
        index = bisect_right(segments, start, key=lambda seg: reassembly.offset_of(seg.seq))
        # Retransmissions with other boundaries overlap, so the one before may not be the first.
        for at in range(max(index - 4, 0), len(segments)):
            seg = segments[at]
            first = start + (seg.seq - begin + _HALF & SEQ_MASK) - _HALF
            if first >= end:
                break
            octets -= max(min(end, first + seg.end - seg.start) - max(start, first), 0)
            # One between whose octets others lie is there several times.
            found[id(seg)] = first, seg
            if octets < 0 or len(found) > most:
                return list(found.values()), False
    return list(found.values()), True


def first_difference(mine: bytes, theirs: bytes, start: int = 0) -> int | None:
    """The first index, from ``start`` on, at which octets of one length differ; None if they do not."""
    low, length, step = start, len(mine), _FIRST_STEP
    while mine[low : low + step] == theirs[low : low + step]:
        low += step
        step *= 2
        if low >= length:
            return None
    high = min(low + step, length)
    while high - low > 1:
        middle = (low + high) // 2
        if mine[low:middle] == theirs[low:middle]:
            low = middle
        else:
            high = middle
    return low
