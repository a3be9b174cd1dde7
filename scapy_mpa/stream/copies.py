"""The octets of one direction as the copies that were captured, and the one function that chooses between them.

In: ranges of octets, each with the frame that brought it and the :class:`DropReason` of its segment.  Out: contiguous
octets, of the copies chosen, and their frames.  Nothing is thrown away for being doubtful.

Octets lie in *pieces*, disjoint and ascending; each piece is covered by the same copies, nearly all by one.  A copy
that is equal to one held, and no better, is a retransmission: nothing is kept of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from scapy_mpa.stream.drop_reason import NO_REASON, DropReason
from scapy_mpa.stream.peer_state import NEVER, PeerState

#: Copies of the same octets that differ and are kept, and frames whose copies are tried for an FPDU that is not valid,
#: alone, two together, all, all but one: a bound of time, 91 attempts at most.
MOST_RIVALS: Final = 12
#: Pieces of a direction that several copies cover; beyond, the first copy is kept: a bound of memory, and of time,
#: since a segment is compared with each of them.
MOST_CONTESTED: Final = 1 << 7
#: FPDUs that no choice of copies made valid, of which is remembered what was tried: a bound of memory.  Chains beside
#: the main one come to theirs in turn.
MOST_FAILED: Final = 1 << 6
#: Whether the TCP checksum of a segment is right, wrong, or says nothing (offloaded, cut, no header).
UNKNOWN, RIGHT, WRONG = 0, 1, 2


class Copy:
    """Octets as one frame brought them; ``data`` is None where a snapshot length cut them off.  Nobody changes one."""

    __slots__ = ("checksum", "data", "frame", "reason", "time")

    frame: int
    time: int
    reason: DropReason
    checksum: int
    data: memoryview | None

    def with_data(self, data: memoryview | None) -> Copy:
        """Return a copy of other octets, brought by the same frame."""
        return copy_of(self.frame, self.time, self.reason, self.checksum, data)


def copy_of(frame: int, time: int, reason: DropReason, checksum: int, data: memoryview | None) -> Copy:
    """Return a :class:`Copy` of these values: a function in C takes numbers as they are, a class does not."""
    one = Copy()
    one.frame, one.time, one.reason, one.checksum, one.data = frame, time, reason, checksum, data
    return one


class Rival(NamedTuple):
    """Another copy of the octets [start, end) than the one chosen: the moments of both, frame and time.

    ``differs_at`` is the first offset at which its octets are others, None if they are the same.  ``decided_by`` is
    "acknowledged" (it came after the peer's acknowledgement), "reason" (its receiver has a stronger reason to drop it),
    "validity" (its FPDU would not be valid) or "first".  ``octets`` are its own from ``start`` on;
    ``has_right_checksums``: the TCP checksums of both segments are right; ``is_sole``: the chosen one brought octets,
    of those asked for, that nothing else did; ``is_late``: the octets had been read when the other one came.
    """

    start: int
    end: int
    chosen: tuple[int, int]
    other: tuple[int, int]
    other_reason: DropReason
    differs_at: int | None
    decided_by: str
    octets: memoryview
    has_right_checksums: bool
    is_sole: bool = False
    is_late: bool = False

    def shifted(self, origin: int) -> Rival:
        """Return it with offsets counted from what is now ``origin``."""
        at = None if self.differs_at is None else self.differs_at - origin
        return self._replace(start=self.start - origin, end=self.end - origin, differs_at=at)


def first_difference(octets: memoryview, others: memoryview) -> int | None:
    """Return the first index at which octets differ, as far as there are of both; None if they do not."""
    low, high = 0, min(len(octets), len(others))
    mine, theirs = octets[:high].tobytes(), others[:high].tobytes()
    if mine == theirs:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if mine[low:middle] == theirs[low:middle] else (low, middle)
    return low


def choose(
    copies: Sequence[Copy],
    acked_frame: int,
    is_valid: Callable[[Copy], bool] | None = None,
    window_known: int = 0,
) -> Copy:
    """Return the copy that the receiver accepted, of several that cover the same octets.

    What it had when it acknowledged them was captured before.  Of that, one that makes its FPDU valid; then the one
    with the weakest reason to be dropped; then the first.  A wrong checksum is a reason only where that of another
    copy is not wrong.  Where no copy was captured before the ACK, or none that its receiver does not discard for its
    checksum (RFC 9293 §3.1), the capture has them out of order: only checksums say anything.

    Args:
        copies: at least one.
        acked_frame: the frame in which the receiver acknowledged the octets, NEVER if it did not.
        is_valid: tells whether the FPDU would be valid with a copy; None where that is not known.
        window_known: the frame up to which OVERWINDOW says nothing, since ACKs were not captured.
    """
    had = [copy for copy in copies if copy.frame < acked_frame]
    has_right = any(copy.checksum != WRONG for copy in copies)
    if not had or (has_right and all(copy.checksum == WRONG for copy in had)):
        return min(copies, key=lambda copy: (has_right and copy.checksum == WRONG, copy.frame))
    if len(had) > 1:
        had.sort(key=lambda copy: (effective_reason(copy, has_right, window_known), copy.frame))
        if is_valid is not None:
            return next(filter(is_valid, had), had[0])
    return had[0]


def effective_reason(copy: Copy, has_right: bool, window_known: int) -> DropReason:
    """Return the reason to drop a copy, given that the checksum of another one is not wrong or all are."""
    if has_right and copy.checksum == WRONG:
        return DropReason.CHECKSUM
    is_window_unknown = copy.reason == DropReason.OVERWINDOW and copy.frame <= window_known
    return DropReason.NONE if is_window_unknown else copy.reason


class Copies:
    """All copies of the octets of a direction that are still needed.

    Args:
        peer: the receiver of the octets.

    Attributes:
        held: octets held, copies that are not chosen included.
        dropped: segments of which something was not kept, because too many copies differ.
        window_known: the frame up to which OVERWINDOW says nothing, since ACKs were not captured.
        has_doubts: False if each octet held has one copy, which was captured and has no reason to be dropped.
    """

    __slots__ = (
        "_changes", "_chosen", "_ends", "_failed", "_head", "_peer", "_rivals", "_starts", "_valid",
        "dropped", "has_doubts", "held", "window_known",
    )  # fmt: skip

    def __init__(self, peer: PeerState) -> None:
        self._peer = peer
        #: Where pieces begin and end, and the copy chosen for each.
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._chosen: list[Copy] = []
        #: The first piece: those before it were dropped, or are room for octets that come late.
        self._head = 0
        #: All copies of a piece that has several, the chosen one included, by where it starts.
        self._rivals: dict[int, list[Copy]] = {}
        #: How often a rival was added.
        self._changes = 0
        #: By where an FPDU begins that no choice made valid: where it ends, rivals added by then, and choices tried.
        self._failed: dict[int, tuple[int, int, set[tuple[int, ...]]]] = {}
        #: By where a piece begins whose copy was chosen for the validity of its FPDU: that FPDU.
        self._valid: dict[int, tuple[int, int]] = {}
        self.held = 0
        self.dropped = 0
        self.window_known = 0
        #: Once True, it is so until nothing is held.
        self.has_doubts = False

    # --- what is there ---

    def __len__(self) -> int:
        """Return how many pieces there are."""
        return len(self._starts) - self._head

    @property
    def start(self) -> int:
        """The offset of the first octet held, NEVER if there is none."""
        return self._starts[self._head] if self._head < len(self._starts) else NEVER

    @property
    def middle(self) -> int:
        """The offset of which half of the pieces, one at least, end below or at it."""
        return self._ends[(self._head + len(self._ends) - 1) // 2]

    @property
    def end(self) -> int:
        """The offset after the last octet held, -NEVER if there is none."""
        return self._ends[-1] if self._head < len(self._ends) else -NEVER

    def _index(self, at: int) -> int:
        """Return the index of the piece that holds ``at``, or of the first one after it."""
        return bisect_right(self._ends, at, self._head)

    def _indexes(self, start: int, end: int) -> Iterator[int]:
        index = self._index(start)
        while index < len(self._starts) and self._starts[index] < end:
            yield index
            index += 1

    def edge(self, at: int, enough: int = NEVER) -> int:
        """Return where the contiguous octets end that hold ``at``; ``at`` itself if it is not held.

        Where they reach ``enough``, any offset from there on to their end may be returned.
        """
        ends, starts = self._ends, self._starts
        count = len(ends)
        if count == self._head or at >= ends[-1]:
            return at
        if starts[-1] <= at:
            return ends[-1]
        index = bisect_right(ends, at, self._head)
        if index < count and starts[index] <= at:
            at = ends[index]
            index += 1
            while at < enough and index < count and starts[index] == at:
                at = ends[index]
                index += 1
        return at

    def run_start(self, at: int, enough: int = -NEVER) -> int:
        """Return where the contiguous octets begin that hold ``at``, which must be held.

        Where they begin at ``enough`` or before it, any offset from there on down may be returned.
        """
        index, starts = self._index(at), self._starts
        while index > self._head and starts[index] > enough and self._ends[index - 1] == starts[index]:
            index -= 1
        return starts[index]

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the offsets [start, end) of all contiguous octets."""
        start = self.start
        while start < NEVER:
            end = self.edge(start)
            yield start, end
            start = self.next_start(end)

    def next_start(self, at: int) -> int:
        """Return the offset of the first octet held at ``at`` or after it, NEVER if there is none."""
        index = self._index(at)
        return max(at, self._starts[index]) if index < len(self._starts) else NEVER

    def segment_starts(self, low: int, high: int, most: int) -> list[int]:
        """Return where pieces begin in [low, high), ``most`` of them: FPDUs begin there rather than elsewhere."""
        index = self._index(low)
        return [start for start in self._starts[index : index + most] if low <= start < high]

    def is_captured(self, start: int, end: int) -> bool:
        """Return True if none of the octets of [start, end), all of them held, was cut off."""
        return not self.has_doubts or all(self._chosen[index].data is not None for index in self._indexes(start, end))

    def captured_end(self, start: int, end: int) -> int:
        """Return the offset of the first octet of [start, end), all of them held, that was cut off; ``end`` if none."""
        for index in self._indexes(start, end):
            if self._chosen[index].data is None:
                return max(start, self._starts[index])
        return end

    def octets(self, start: int, end: int) -> memoryview:
        """Return the chosen octets of [start, end), all of which must be held and captured."""
        index = self._index(start)
        if self._ends[index] >= end:
            data = self._chosen[index].data
            assert data is not None
            first = start - self._starts[index]
            return data[first : first + end - start]
        parts = []
        while start < end:
            data = self._chosen[index].data
            assert data is not None
            first, stop = start - self._starts[index], min(end, self._ends[index])
            parts.append(data[first : first + stop - start])
            start = stop
            index += 1
        return memoryview(b"".join(parts))

    def piece(self, at: int) -> tuple[int, int, Copy]:
        """Return where the piece that holds ``at`` begins and ends, and the copy chosen; ``at`` must be held."""
        index = -1 if self._starts[-1] <= at else self._index(at)
        return self._starts[index], self._ends[index], self._chosen[index]

    def frames(self, start: int, end: int) -> tuple[tuple[int, ...], int, int]:
        """Return the frames of the copies chosen for [start, end), ascending, and the last one with its time."""
        index = self._index(start)
        latest = self._chosen[index]
        if self._ends[index] >= end:
            return (latest.frame,), latest.frame, latest.time
        starts, chosen = self._starts, self._chosen
        frame, time, found = latest.frame, latest.time, {latest.frame}
        index += 1
        while index < len(starts) and starts[index] < end:
            copy = chosen[index]
            found.add(copy.frame)
            if copy.frame > frame:
                frame, time = copy.frame, copy.time
            index += 1
        return tuple(sorted(found)), frame, time

    def is_settled(self, copy: Copy) -> bool:
        """Return True if a chosen copy stays chosen, whatever is captured later: nothing speaks against it."""
        return copy.checksum != WRONG and (not copy.reason or not effective_reason(copy, False, self.window_known))

    def strongest_reason(self, start: int, end: int) -> int:
        """Return the strongest reason of the copies chosen for [start, end): 0 if all of them are settled."""
        strongest = 0
        for index in self._indexes(start, end) if self.has_doubts else ():
            copy = self._chosen[index]
            if not self.is_settled(copy):
                strongest = max(strongest, DropReason.CHECKSUM if copy.checksum == WRONG else copy.reason)
        return strongest

    def weakest_reason(self, start: int, end: int, has_right: bool = False) -> DropReason:
        """Return the weakest reason of all copies of [start, end); ``has_right``: checksums are those of the wire."""
        if not self.has_doubts:
            return NO_REASON
        return min(
            effective_reason(copy, has_right, self.window_known)
            for index in self._indexes(start, end)
            for copy in self._rivals.get(self._starts[index], (self._chosen[index],))
        )

    def pieces_below(self, offset: int) -> int:
        """Return how many pieces end at or below an offset."""
        return bisect_right(self._ends, offset, self._head) - self._head

    def has_alone(self, start: int, end: int, reason: DropReason) -> bool:
        """Return True if octets of [start, end) have one copy alone, and with this reason to be dropped."""
        return self.has_doubts and any(
            self._chosen[index].reason == reason and self._starts[index] not in self._rivals
            for index in self._indexes(start, end)
        )

    # --- copies come and go ---

    def add(self, start: int, end: int, copy: Copy) -> int:
        """Hold one more copy, of octets [start, end); return how many of them no copy had brought.

        ``copy.data`` may have fewer octets than that: a snapshot length cut them off.
        """
        reason, data = copy.reason, copy.data
        starts, ends = self._starts, self._ends
        captured = start if data is None else start + len(data)
        if reason or copy.checksum == WRONG or captured < end:
            self.has_doubts = True
        elif not ends or start >= ends[-1]:
            starts.append(start)
            ends.append(end)
            self._chosen.append(copy)
            self.held += end - start
            return end - start
        if start < captured < end:
            return self.add(start, captured, copy) + self.add(captured, end, copy.with_data(None))
        if captured <= start:
            copy = copy.with_data(None)
        if not len(self) or start >= ends[-1]:
            self._insert(len(starts), start, end, copy)
            return end - start
        is_full = len(self._rivals) >= MOST_CONTESTED
        new, at, index = 0, start, self._index(start)
        while at < end:
            if index == len(starts) or at < starts[index]:
                stop = end if index == len(starts) else min(end, starts[index])
                index = self._insert(index, at, stop, _part(copy, start, at, stop)) + 1
                new += stop - at
            elif is_full:
                # No more than what is not held yet is kept.
                self.dropped += 1
                stop = min(end, self.edge(at, end))
                index = self._index(stop)
            else:
                stop = min(end, ends[index])
                index = self._compete(index, at, stop, _part(copy, start, at, stop))
            at = stop
        return new

    def _insert(self, index: int, start: int, end: int, copy: Copy) -> int:
        """Put a piece in front of the one at an index; return its own."""
        starts, ends, chosen = self._starts, self._ends, self._chosen
        self.held += end - start
        if index > self._head or index == len(starts):
            starts.insert(index, start)
            ends.insert(index, end)
            chosen.insert(index, copy)
            return index
        if not self._head:
            # Octets that come in reverse order must not move all others each time.
            room = len(starts)
            starts[:0], ends[:0], chosen[:0] = [-NEVER] * room, [-NEVER] * room, [copy] * room
            self._head = room
        self._head -= 1
        starts[self._head], ends[self._head], chosen[self._head] = start, end, copy
        return self._head

    def _compete(self, index: int, start: int, end: int, copy: Copy) -> int:
        """Compare a copy with what is held of [start, end), in the piece at an index; return the index after it."""
        first, chosen = start - self._starts[index], self._chosen[index]
        if copy.data is None or chosen.data is None:
            # Octets that were cut off equal any; who was captured whole brings them.
            if copy.data is not None:
                index = self._split(index, start, end)
                self._chosen[index] = chosen.with_data(copy.data)
            return self._index(start) + 1
        copies = self._rivals.get(self._starts[index], (chosen,))
        if any(_is_no_better(copy, one, first, end - start) for one in copies):
            return index + 1
        if len(copies) > MOST_RIVALS or (len(copies) == 1 and len(self._rivals) >= MOST_CONTESTED):
            self.dropped += 1
            return index + 1
        index = self._split(index, start, end)
        copies = self._rivals.setdefault(start, [self._chosen[index]])
        copies.append(copy)
        self.has_doubts = True
        self.held += end - start
        self._changes += 1
        if self._valid:
            # The FPDU may now be valid without copies that have a reason to be dropped.
            self._valid = {at: fpdu for at, fpdu in self._valid.items() if not fpdu[0] <= start < fpdu[1]}
        self._choose(index, copies)
        return index + 1

    def _choose(self, index: int, copies: Sequence[Copy]) -> None:
        start = self._starts[index]
        if start in self._valid:
            # Of what makes the FPDU valid there may be a better copy.
            copies = [copy for copy in copies if copy.data == self._chosen[index].data]
        acked_frame = self._peer.acked_frame(start, self._ends[index])
        self._chosen[index] = choose(copies, acked_frame, None, self.window_known)

    def _split(self, index: int, start: int, end: int) -> int:
        """Make [start, end) a piece of its own; return its index."""
        for at in (start, end):
            first, last, whole = self._starts[index], self._ends[index], self._chosen[index]
            if not first < at < last:
                continue
            rivals = self._rivals.pop(first, None)
            if rivals is not None:
                self._rivals[first] = [_part(one, first, first, at) for one in rivals]
                self._rivals[at] = [_part(one, first, at, last) for one in rivals]
                if first in self._valid:
                    self._valid[at] = self._valid[first]
            self._ends[index], self._chosen[index] = at, _part(whole, first, first, at)
            self.held -= last - at
            self._insert(index + 1, at, last, _part(whole, first, at, last))
            if at == start:
                index += 1
        return index

    def _cut(self, at: int) -> None:
        """Let a piece begin at an offset that is held."""
        index = self._index(at)
        if index < len(self._starts) and self._starts[index] < at:
            self._split(index, at, self._ends[index])

    def drop(self, below: int) -> list[tuple[int, Copy]]:
        """Let go of the pieces that end at or below an offset; return where each began, and the copy chosen."""
        ends, head = self._ends, self._head
        if head == len(ends) or ends[head] > below:
            return []
        if not self.has_doubts and ends[-1] <= below:
            # Nothing is left, as nearly always.
            starts, chosen = self._starts, self._chosen
            if len(ends) == 1:
                dropped = [(starts[0], chosen[0])]
            else:
                dropped = list(zip(starts[head:], chosen[head:], strict=True))
            starts.clear()
            ends.clear()
            chosen.clear()
            self._head = self.held = 0
            return dropped
        index = self._index(below)
        dropped = list(zip(self._starts[head:index], self._chosen[head:index], strict=True))
        for at in range(head, index):
            self.held -= ends[at] - self._starts[at]
            rivals = self._rivals.pop(self._starts[at], None) if self._rivals else None
            if rivals is not None:
                for one in rivals[1:]:
                    self.held -= len(one.data or b"")
                self._valid.pop(self._starts[at], None)
            self._chosen[at] = _GONE
        self._head = index
        if 2 * index >= len(ends):
            del self._starts[:index], ends[:index], self._chosen[:index]
            self._head = 0
        self.has_doubts = self.has_doubts and self._head < len(ends)
        return dropped

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        self._starts = [start - origin for start in self._starts]
        self._ends = [end - origin for end in self._ends]
        self._rivals = {start - origin: rivals for start, rivals in self._rivals.items()}
        self._valid = {at - origin: (start - origin, end - origin) for at, (start, end) in self._valid.items()}
        self._failed.clear()

    # --- copies that compete ---

    def has_rivals(self, start: int, end: int) -> bool:
        """Return True if several copies of octets of [start, end) are held."""
        return bool(self._rivals) and any(self._starts[i] in self._rivals for i in self._indexes(start, end))

    def settle(self, start: int, end: int) -> None:
        """Choose anew where copies of [start, end) compete: their receiver may have acknowledged octets since."""
        for index in self._indexes(start, end) if self._rivals else ():
            if copies := self._rivals.get(self._starts[index]):
                self._choose(index, copies)

    def make_valid(self, start: int, end: int, valid_end: Callable[[], int]) -> bool:
        """Choose other copies of octets of [start, end) that make their FPDU valid; False, nothing changed, if none do.

        The copies of one frame are taken together wherever it brought octets (:meth:`_combinations`).
        ``valid_end`` returns where the FPDU ends if it is valid as octets are chosen then, else 0.
        """
        before, changes, tried = self._failed.get(start, (end, -1, set()))
        if not self._rivals or (before, changes) == (end, self._changes):
            return False
        self._cut(start)
        contested = [index for index in self._indexes(start, end) if self._starts[index] in self._rivals]
        if before != end:
            tried = set()
        #: The other copies by their frames, and the pieces whose copies they may replace.
        others: dict[int, list[tuple[int, Copy]]] | None = None
        replaced: dict[int, Copy] = {}
        for frames in self._combinations(contested):
            if frames in tried:
                continue
            tried.add(frames)
            if others is None:
                others = self._others(contested)
            for index, chosen in replaced.items():
                self._chosen[index] = chosen
            replaced = {}
            # The copy of the first of these frames counts.
            for frame in reversed(frames):
                for index, copy in others.get(frame, ()):
                    replaced.setdefault(index, self._chosen[index])
                    self._chosen[index] = copy
            if last := valid_end():
                starts = [self._starts[index] for index in replaced]
                # Of a segment that is damaged in this FPDU, the next one may have accepted its part.
                self._cut(last)
                self._valid.update((at, (start, last)) for at in starts if at < last)
                self.settle(last, end)
                return True
        for index, chosen in replaced.items():
            self._chosen[index] = chosen
        if start not in self._failed and len(self._failed) >= MOST_FAILED:
            del self._failed[next(iter(self._failed))]
        self._failed[start] = end, self._changes, tried
        return False

    def _others(self, contested: list[int]) -> dict[int, list[tuple[int, Copy]]]:
        """Return by frame its copies that differ from those chosen, each with the index of its piece."""
        found: dict[int, list[tuple[int, Copy]]] = {}
        for index in contested:
            data = self._chosen[index].data
            for copy in self._rivals[self._starts[index]]:
                if copy.data != data:
                    found.setdefault(copy.frame, []).append((index, copy))
        return found

    def _combinations(self, contested: list[int]) -> Iterator[tuple[int, ...]]:
        """Yield the frames whose copies may have been accepted in place of those chosen, the likeliest first."""
        ranks: dict[int, tuple[int, int]] = {}
        for index in contested:
            at, chosen = self._starts[index], self._chosen[index]
            acked_frame = self._peer.acked_frame(at, self._ends[index])
            for copy in self._rivals[at]:
                # What came after the ACK cannot have been taken in place of what was acknowledged.
                if copy.data != chosen.data and (copy.frame < acked_frame or chosen.frame >= acked_frame):
                    rank = int(copy.reason), copy.frame
                    ranks[copy.frame] = min(ranks.get(copy.frame, rank), rank)
        frames = sorted(ranks, key=ranks.__getitem__)[:MOST_RIVALS]
        for number, frame in enumerate(frames):
            yield (frame,)
            yield from ((frame, other) for other in frames[:number])
        # What was sent again, all of it; then all but one, which may be what is damaged.
        latest = tuple(sorted(frames, reverse=True))
        yield latest
        yield from (tuple(one for one in latest if one != frame) for frame in latest)

    def chosen(self, start: int, end: int) -> Iterator[tuple[int, Copy]]:
        """Yield where each piece of [start, end) begins, and the copy chosen for it."""
        for index in self._indexes(start, end):
            yield self._starts[index], self._chosen[index]

    def rivals(self, start: int, end: int) -> list[Rival]:
        """Return the copies of [start, end) that are not those chosen, the first place of each pair of frames."""
        found: dict[tuple[int, int], Rival] = {}
        indexes = list(self._indexes(start, end)) if self._rivals and start < end else []
        sole = {self._chosen[index].frame for index in indexes if self._starts[index] not in self._rivals}
        for index in indexes:
            at, chosen = self._starts[index], self._chosen[index]
            copies = self._rivals.get(at, ())
            low, high = max(at, start), min(self._ends[index], end)
            acked_frame = self._peer.acked_frame(at, self._ends[index]) if copies else 0
            has_right = any(copy.checksum != WRONG for copy in copies)
            for copy in copies:
                pair = chosen.frame, copy.frame
                if copy.frame == chosen.frame or copy.data is None or chosen.data is None:
                    continue
                mine, theirs = copy.data[low - at :], chosen.data[low - at :]
                differs_at = first_difference(mine[: high - low], theirs[: high - low])
                if pair in found and (differs_at is None or found[pair].differs_at is not None):
                    continue
                reason = effective_reason(copy, has_right, self.window_known)
                decided_by = "reason" if reason > effective_reason(chosen, has_right, self.window_known) else "first"
                if at in self._valid and differs_at is not None:
                    decided_by = "validity"
                elif decided_by == "first" and copy.frame >= acked_frame > chosen.frame:
                    decided_by = "acknowledged"
                found[pair] = Rival(
                    low, high, (chosen.frame, chosen.time), (copy.frame, copy.time), reason,
                    None if differs_at is None else low + differs_at, decided_by, mine,
                    chosen.checksum == copy.checksum == RIGHT, chosen.frame in sole,
                )  # fmt: skip
        return list(found.values())


#: In place of copies that were dropped.
_GONE: Final = copy_of(0, 0, DropReason.NONE, UNKNOWN, None)


def _part(copy: Copy, origin: int, start: int, end: int) -> Copy:
    """Return the part [start, end) of a copy whose octets begin at ``origin``."""
    if copy.data is None or (start == origin and end - start == len(copy.data)):
        return copy
    return copy.with_data(copy.data[start - origin : end - origin])


def _is_no_better(copy: Copy, held: Copy, first: int, length: int) -> bool:
    """Return True if a copy is equal to a part of one that was captured before and has no stronger reason."""
    if copy.reason < held.reason or (held.checksum == WRONG and copy.checksum != WRONG):
        return False
    # Compared as bytes, which is far faster than octet by octet as memoryview does.
    assert copy.data is not None and held.data is not None
    return copy.data.tobytes() == held.data[first : first + length].tobytes()
