"""Which segment at one tap is which at the other: the same octets of the stream, repeated or with other boundaries.

Segments that begin at the same octet and are as long are the same transmission, if there is one of them at each tap.
Where there are several copies, those belong together whose delay is nearest the usual one. What is left was cut,
joined, lost or repeated: ranges that overlap form a group, and how many each tap has of it says what happened.
Everything is sorted once: no input takes more than n log n steps.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from statistics import median_low
from typing import Literal, TypeAlias

from scapy_mpa.tuples import NamedTuple

#: At most this many copies are weighed against each other.
_COPIES = 16
_LONGEST = 1 << 17

Way: TypeAlias = Literal["cut", "joined", "recut"]


class Passed(NamedTuple):
    """Segments of a half connection at one tap, in the order of capture: offset, length (octets) and time (ns)."""

    starts: Sequence[int]
    lengths: Sequence[int]
    times: Sequence[int]


class Group(NamedTuple):
    """Segments at both taps whose octets overlap and which are not the same segments, in the order of the stream."""

    sent: list[int]
    received: list[int]

    @property
    def way(self) -> Way:
        """What happened to those that were sent."""
        if len(self.sent) == 1:
            return "cut"
        return "joined" if len(self.received) == 1 else "recut"


class Matches(NamedTuple):
    """What became of segments.

    Attributes:
        pairs: (index at the receiver's tap, index at the sender's), in the order of the receiver's.
        recut: those cut or joined on the way.
        lost: indices at the sender's tap of those that nothing at the receiver's corresponds to.
        extra: indices at the receiver's tap that nothing at the sender's corresponds to.
    """

    pairs: list[tuple[int, int]]
    recut: list[Group]
    lost: list[int]
    extra: list[int]


def unique_delays(sent: Passed, received: Passed) -> list[int]:
    """Nanoseconds from one tap to the other, by their clocks, of segments that each tap has once."""
    return [delay for _, delay in timed_delays(sent, received)]


def timed_delays(sent: Passed, received: Passed) -> list[tuple[int, int]]:
    """The same, each with the time at the first of the taps."""
    return [
        (sent.times[here[0]], received.times[there[0]] - sent.times[here[0]])
        for here, there in _alike(sent, received)
        if len(here) == len(there) == 1
    ]


def match(sent: Passed, received: Passed, usual: int) -> Matches:
    """Find what became of segments; ``usual`` is the delay between the taps, in nanoseconds by their clocks."""
    pairs: list[tuple[int, int]] = []
    left_here: list[int] = []
    left_there: list[int] = []
    for here, there in _alike(sent, received):
        if len(here) >= len(there):
            found = _nearest([received.times[one] - usual for one in there], [sent.times[one] for one in here])
            pairs += [(there[few], here[many]) for few, many in enumerate(found)]
            left_here += _others(here, found)
        else:
            found = _nearest([sent.times[one] + usual for one in here], [received.times[one] for one in there])
            pairs += [(there[many], here[few]) for few, many in enumerate(found)]
            left_there += _others(there, found)
    pairs.sort()
    # A copy of what arrived anyway has not been cut: only octets that no pair brought can have been.
    arrived = _covered(received, [there for there, _ in pairs])
    known = _covered(sent, [here for _, here in pairs])
    recut, lost, extra = [], [], []
    for group in _groups(sent, received, left_here, left_there):
        if group.sent and group.received:
            is_lost = all(is_within(sent, one, arrived) for one in group.sent)
            is_extra = all(is_within(received, one, known) for one in group.received)
            if not (is_lost and is_extra):
                recut.append(group)
                continue
        lost += group.sent
        extra += group.received
    return Matches(pairs, recut, sorted(lost), sorted(extra))


def reordered(pairs: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the pairs that arrived after one that was sent later (RFC 4737 §3)."""
    latest = -1
    for there, here in pairs:
        if here < latest:
            yield there, here
        latest = max(latest, here)


def covered(column: Passed) -> list[tuple[int, int]]:
    """The ranges of the stream that segments hold, ascending and apart from each other."""
    return _covered(column, range(len(column.starts)))


def without(ranges: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the parts of some ranges that are in none of the others; all are ascending and disjoint."""
    found, at = [], 0
    for start, end in ranges:
        while at < len(others) and others[at][1] <= start:
            at += 1
        one = at
        while start < end and one < len(others) and others[one][0] < end:
            if others[one][0] > start:
                found.append((start, others[one][0]))
            start = max(start, others[one][1])
            one += 1
        if start < end:
            found.append((start, end))
        at = max(at, one - 1)
    return found


def _alike(sent: Passed, received: Passed) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the segments of each range, here and there, in the order of capture."""
    ahead = (_by_range(column) for column in (sent, received))
    here_all, there_all = ahead
    here, there = next(here_all, None), next(there_all, None)
    while here is not None or there is not None:
        if there is None or (here is not None and here[0] < there[0]):
            assert here is not None
            yield here[1], []
            here = next(here_all, None)
        elif here is None or there[0] < here[0]:
            yield [], there[1]
            there = next(there_all, None)
        else:
            yield here[1], there[1]
            here, there = next(here_all, None), next(there_all, None)


def _by_range(column: Passed) -> Iterator[tuple[int, list[int]]]:
    keys = [start * _LONGEST + length for start, length in zip(column.starts, column.lengths, strict=True)]
    order = sorted(range(len(keys)), key=keys.__getitem__)
    at = 0
    while at < len(order):
        end = at + 1
        while end < len(order) and keys[order[end]] == keys[order[at]]:
            end += 1
        yield keys[order[at]], order[at:end]
        at = end


def _nearest(few: Sequence[int], many: Sequence[int]) -> list[int]:
    """For each time of the few the index of one of the many: ascending, and near in time."""
    if len(few) == len(many):
        return [*range(len(few))]
    found, first = [], 0
    for number, time in enumerate(few):
        last = len(many) - (len(few) - number - 1)
        best = min(range(first, min(last, first + _COPIES)), key=lambda one: (abs(many[one] - time), one))
        found.append(best)
        first = best + 1
    return found


def _others(indices: Sequence[int], taken: Sequence[int]) -> list[int]:
    gone = set(taken)
    return [index for place, index in enumerate(indices) if place not in gone]


def _covered(column: Passed, indices: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for start, end in sorted((column.starts[one], column.starts[one] + column.lengths[one]) for one in indices):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def is_within(column: Passed, index: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Return whether one of some ranges holds all octets of a segment; they are ascending and apart from each other."""
    start = column.starts[index]
    at = bisect_right(ranges, (start, 1 << 80)) - 1
    return at >= 0 and ranges[at][1] >= start + column.lengths[index]


def _groups(sent: Passed, received: Passed, here: Sequence[int], there: Sequence[int]) -> Iterator[Group]:
    """Yield those of some segments whose octets overlap, or whose own neighbour's do."""
    ranges = [(sent.starts[one], sent.starts[one] + sent.lengths[one], 0, one) for one in here]
    ranges += [(received.starts[one], received.starts[one] + received.lengths[one], 1, one) for one in there]
    ranges.sort()
    group, reach = Group([], []), None
    for start, end, side, index in ranges:
        if reach is not None and start >= reach:
            yield group
            group, reach = Group([], []), None
        group[side].append(index)
        reach = end if reach is None else max(reach, end)
    if reach is not None:
        yield group


def middle(values: Sequence[int]) -> int:
    """The median; of an even number of values the lower of the two in the middle. 0 of none."""
    return median_low(values) if values else 0
