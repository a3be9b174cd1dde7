"""The octets of one direction as the copies that were captured, and the one function that chooses between them.

In: ranges of octets, each with the frame that brought it and the :class:`DropReason` of its segment.  Out: contiguous
octets, of the copies chosen, and their frames.  Nothing is thrown away for being doubtful.

Octets lie in *pieces*, disjoint and ascending, in parallel arrays; each piece is covered by the same copies.  Nearly all
have one copy.  A copy that is equal to one held and has no weaker reason is a retransmission: nothing is kept of it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.stream.peer_state import NEVER, PeerState

#: Copies of the same octets that differ and are kept, and frames whose copies are tried for an FPDU that is not valid,
#: alone and two together: a bound of time, 79 attempts at most.
MOST_RIVALS: Final = 12
#: Whether the TCP checksum of a segment is right, wrong, or says nothing (offloaded, cut, no header).
UNKNOWN, RIGHT, WRONG = 0, 1, 2


class Copy(NamedTuple):
    """Octets as one frame brought them; ``data`` is None where a snapshot length cut them off."""

    frame: int
    time: int
    reason: DropReason
    checksum: int
    data: memoryview | None


class Rival(NamedTuple):
    """A copy that differs from the one chosen: the offsets of the octets, and the frames of both."""

    start: int
    end: int
    chosen_frame: int
    other_frame: int
    other_reason: DropReason


def choose(
    copies: Sequence[Copy], acked_frame: int, is_valid: Callable[[Copy], bool] | None = None, window_known: int = 0
) -> Copy:
    """Return the copy that the receiver accepted, of several that cover the same octets.

    What it had when it acknowledged them was captured before.  Of that, one that makes its FPDU valid; then the one with
    the weakest reason to be dropped; then the first.  A wrong checksum is a reason only where another copy has a right
    one.  Where no copy was captured before the ACK, the capture has them out of order, and reasons say nothing.

    Args:
        copies: at least one.
        acked_frame: the frame in which the receiver acknowledged the octets, NEVER if it did not.
        is_valid: tells whether the FPDU would be valid with a copy; None where that is not known.
        window_known: the frame up to which OVERWINDOW says nothing, since ACKs were not captured.
    """
    had = [copy for copy in copies if copy.frame < acked_frame]
    has_right = any(copy.checksum == RIGHT for copy in had or copies)
    if not had:
        return min(copies, key=lambda copy: (has_right and copy.checksum == WRONG, copy.frame))
    if len(had) > 1:
        had.sort(key=lambda copy: (_reason(copy, has_right, window_known), copy.frame))
        if is_valid is not None:
            return next(filter(is_valid, had), had[0])
    return had[0]


def _reason(copy: Copy, has_right: bool, window_known: int) -> int:
    if has_right and copy.checksum == WRONG:
        return DropReason.CHECKSUM
    return 0 if copy.reason == DropReason.OVERWINDOW and copy.frame <= window_known else copy.reason


class Copies:
    """All copies of octets that are not needed no more.

    Args:
        peer: the receiver of the octets.

    Attributes:
        held: octets held, copies that are not chosen included.
        dropped: copies that were not kept, because too many differ.
        window_known: the frame up to which OVERWINDOW says nothing, since ACKs were not captured.
    """

    __slots__ = (
        "_checksums", "_data", "_ends", "_frames", "_head", "_peer", "_reasons", "_rivals", "_starts", "_times", "dropped",
        "held", "window_known",
    )  # fmt: skip

    def __init__(self, peer: PeerState) -> None:
        self._peer = peer
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._frames: list[int] = []
        self._times: list[int] = []
        self._reasons: list[int] = []
        self._checksums: list[int] = []
        self._data: list[memoryview | None] = []
        #: Pieces before this one were dropped; the lists are cut now and then.
        self._head = 0
        #: All copies of a piece that has several, the chosen one included, by where it starts.
        self._rivals: dict[int, list[Copy]] = {}
        self.held = 0
        self.dropped = 0
        self.window_known = 0

    # --- what is there ---

    def __len__(self) -> int:
        """Return how many pieces there are."""
        return len(self._starts) - self._head

    @property
    def start(self) -> int:
        """The offset of the first octet held, NEVER if there is none."""
        return self._starts[self._head] if len(self) else NEVER

    @property
    def end(self) -> int:
        """The offset after the last octet held, -NEVER if there is none."""
        return self._ends[-1] if len(self) else -NEVER

    def edge(self, at: int) -> int:
        """Return where the contiguous octets end that hold ``at``; ``at`` itself if it is not held."""
        ends, starts = self._ends, self._starts
        index, count = bisect_right(ends, at, self._head), len(ends)
        if index < count and starts[index] <= at:
            at = ends[index]
            index += 1
            while index < count and starts[index] == at:
                at = ends[index]
                index += 1
        return at

    def run_start(self, at: int) -> int:
        """Return where the contiguous octets begin that hold ``at``, which must be held."""
        index = bisect_right(self._ends, at, self._head)
        while index > self._head and self._ends[index - 1] == self._starts[index]:
            index -= 1
        return self._starts[index]

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield the offsets [start, end) of all contiguous octets."""
        start = self.start
        while start < NEVER:
            end = self.edge(start)
            yield start, end
            start = self.next_start(end)

    def next_start(self, at: int) -> int:
        """Return the offset of the first octet held at ``at`` or after it, NEVER if there is none."""
        index = bisect_right(self._ends, at, self._head)
        return max(at, self._starts[index]) if index < len(self._starts) else NEVER

    def is_captured(self, start: int, end: int) -> bool:
        """Return True if none of the octets of [start, end), all of them held, was cut off."""
        return all(self._data[index] is not None for index in self._indexes(start, end))

    def octets(self, start: int, end: int) -> memoryview:
        """Return the chosen octets of [start, end), all of which must be held and captured."""
        index = bisect_right(self._ends, start, self._head)
        data = self._data[index]
        first = start - self._starts[index]
        if self._ends[index] >= end:
            assert data is not None
            return data[first : first + end - start]
        parts = []
        while start < end:
            data = self._data[index]
            assert data is not None
            first = start - self._starts[index]
            stop = min(end, self._ends[index])
            parts.append(data[first : first + stop - start])
            start = stop
            index += 1
        return memoryview(b"".join(parts))

    def first_piece(self, at: int) -> tuple[memoryview | None, int, int, int, int, int]:
        """Return (data, start, end, frame, time, reason) of the piece that holds ``at``, which must be held.

        The reason is 0 only if nothing that is captured later can compete with the piece.
        """
        index = bisect_right(self._ends, at, self._head)
        return (
            self._data[index],
            self._starts[index],
            self._ends[index],
            self._frames[index],
            self._times[index],
            self._doubt(index),
        )

    def _indexes(self, start: int, end: int) -> Iterator[int]:
        index = bisect_right(self._ends, start, self._head)
        while index < len(self._starts) and self._starts[index] < end:
            yield index
            index += 1

    def frames(self, start: int, end: int) -> tuple[tuple[int, ...], int, int]:
        """Return the frames of the copies chosen for [start, end), ascending, and the last one with its time."""
        index = bisect_right(self._ends, start, self._head)
        frames = self._frames
        if self._ends[index] >= end:
            return (frames[index],), frames[index], self._times[index]
        found, latest = {frames[index]}, index
        index += 1
        while index < len(self._starts) and self._starts[index] < end:
            found.add(frames[index])
            if frames[index] > frames[latest]:
                latest = index
            index += 1
        return tuple(sorted(found)), frames[latest], self._times[latest]

    def worst_reason(self, start: int, end: int) -> int:
        """Return the strongest reason of the copies chosen for [start, end): 0 if what comes later cannot compete."""
        return max(map(self._doubt, self._indexes(start, end)), default=0)

    def _doubt(self, index: int) -> int:
        if self._checksums[index] == WRONG:
            return DropReason.CHECKSUM
        reason = self._reasons[index]
        return 0 if reason == DropReason.OVERWINDOW and self._frames[index] <= self.window_known else reason

    def weakest_reason(self, start: int, end: int) -> int:
        """Return the weakest reason of all copies of [start, end)."""
        return min(
            (min((c.reason for c in self._rivals.get(self._starts[i], ())), default=self._reasons[i]))
            for i in self._indexes(start, end)
        )

    def pieces_below(self, offset: int) -> int:
        """Return how many pieces end at or below an offset."""
        return bisect_right(self._ends, offset, self._head) - self._head

    def segment_starts(self, low: int, high: int, most: int) -> list[int]:
        """Return where pieces begin in [low, high), ``most`` of them: FPDUs begin there rather than elsewhere."""
        index = bisect_right(self._ends, low, self._head)
        return [start for start in self._starts[index : index + most] if low <= start < high]

    # --- copies come and go ---

    def add(self, start: int, end: int, copy: Copy) -> int:
        """Hold one more copy, of octets [start, end); return how many of them no copy had brought.

        ``copy.data`` may have fewer octets than that (a snapshot length cut them off), or be None.
        """
        data = copy.data
        captured = start + (len(data) if data is not None else 0)
        if captured < end:
            cut = self.add(captured, end, copy._replace(data=None)) if captured > start else 0
            if captured > start:
                return cut + self.add(start, captured, copy)
        if not self._ends or start >= self._ends[-1] or not len(self):
            self._append(start, end, copy)
            return end - start
        new, at = 0, start
        index = bisect_right(self._ends, start, self._head)
        while at < end:
            if index == len(self._starts) or self._starts[index] >= end:
                self._insert(index, at, end, _part(copy, start, at, end))
                new += end - at
                break
            if at < self._starts[index]:
                stop = self._starts[index]
                self._insert(index, at, stop, _part(copy, start, at, stop))
                new += stop - at
                at = stop
                index += 1
            stop = min(end, self._ends[index])
            index = self._compete(index, at, stop, _part(copy, start, at, stop))
            at = stop
        return new

    def _append(self, start: int, end: int, copy: Copy) -> None:
        self._starts.append(start)
        self._ends.append(end)
        self._frames.append(copy.frame)
        self._times.append(copy.time)
        self._reasons.append(copy.reason)
        self._checksums.append(copy.checksum)
        self._data.append(copy.data)
        self.held += end - start

    def _insert(self, index: int, start: int, end: int, copy: Copy) -> None:
        self._starts.insert(index, start)
        self._ends.insert(index, end)
        self._frames.insert(index, copy.frame)
        self._times.insert(index, copy.time)
        self._reasons.insert(index, copy.reason)
        self._checksums.insert(index, copy.checksum)
        self._data.insert(index, copy.data)
        self.held += end - start

    def _compete(self, index: int, start: int, end: int, copy: Copy) -> int:
        """Compare a copy with what is held of [start, end), which lies in one piece; return the index after it."""
        first = start - self._starts[index]
        held = self._data[index]
        if held is not None:
            held = held[first : first + end - start]
        if copy.data is None or held is None:
            # Octets that were cut off equal any; who was captured whole brings them.
            if held is None and copy.data is not None:
                index = self._split(index, start, end)
                self._data[index] = copy.data
            return bisect_right(self._ends, start, self._head) + 1
        copies = self._rivals.get(self._starts[index]) if self._rivals else None
        if copies is None:
            if _same(held, copy.data) and _is_no_better(copy, self._reasons[index], self._checksums[index]):
                return index + 1
        elif any(
            _is_no_better(copy, one.reason, one.checksum)
            and one.data is not None
            and _same(one.data[first : first + end - start], copy.data)
            for one in copies
        ):
            return index + 1
        elif len(copies) > MOST_RIVALS:
            self.dropped += 1
            return index + 1
        index = self._split(index, start, end)
        copies = self._rivals.setdefault(start, [])
        if not copies:
            copies.append(self._copy(index))
        copies.append(copy)
        self.held += end - start
        self._take(index, choose(copies, self._peer.acked_frame(start, end), None, self.window_known))
        return index + 1

    def _split(self, index: int, start: int, end: int) -> int:
        """Make [start, end) a piece of its own; return its index."""
        for at in (start, end):
            first, last = self._starts[index], self._ends[index]
            if not first < at < last:
                continue
            rivals = self._rivals.pop(first, None)
            if rivals is not None:
                self._rivals[first] = [_part(one, first, first, at) for one in rivals]
                self._rivals[at] = [_part(one, first, at, last) for one in rivals]
            whole = self._copy(index)
            self._ends[index] = at
            self._data[index] = _part(whole, first, first, at).data
            self.held -= last - at
            self._insert(index + 1, at, last, _part(whole, first, at, last))
            if at == start:
                index += 1
        return index

    def _copy(self, index: int) -> Copy:
        return Copy(
            self._frames[index],
            self._times[index],
            DropReason(self._reasons[index]),
            self._checksums[index],
            self._data[index],
        )

    def _take(self, index: int, copy: Copy) -> None:
        """Let a copy be the one chosen for a piece."""
        self._frames[index], self._times[index], self._data[index] = copy.frame, copy.time, copy.data
        self._reasons[index], self._checksums[index] = copy.reason, copy.checksum

    def drop(self, below: int) -> None:
        """Let go of the pieces that end at or below an offset."""
        ends, head = self._ends, self._head
        if head == len(ends) or ends[head] > below:
            return
        index = bisect_right(ends, below, head)
        for at in range(head, index):
            self.held -= ends[at] - self._starts[at]
            if self._rivals:
                self._drop_rivals(self._starts[at])
            self._data[at] = None
        self._head = index
        if 2 * index >= len(ends):
            for column in (
                self._starts, ends, self._frames, self._times, self._reasons, self._checksums, self._data,
            ):  # fmt: skip
                del column[:index]
            self._head = 0

    def _drop_rivals(self, start: int) -> None:
        rivals = self._rivals.pop(start, None)
        if rivals is not None:
            self.held -= sum(len(one.data or b"") for one in rivals[1:])

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        self._starts = [start - origin for start in self._starts]
        self._ends = [end - origin for end in self._ends]
        self._rivals = {start - origin: rivals for start, rivals in self._rivals.items()}

    # --- copies that compete ---

    def settle(self, start: int, end: int) -> None:
        """Choose anew where copies of [start, end) compete: their receiver may have acknowledged octets since."""
        if self._rivals:
            for index in self._indexes(start, end):
                at = self._starts[index]
                if copies := self._rivals.get(at):
                    self._take(
                        index, choose(copies, self._peer.acked_frame(at, self._ends[index]), None, self.window_known)
                    )

    def has_rivals(self, start: int, end: int) -> bool:
        """Return True if several copies of octets of [start, end) are held."""
        return bool(self._rivals) and any(self._starts[i] in self._rivals for i in self._indexes(start, end))

    def make_valid(self, start: int, end: int, is_valid: Callable[[], bool]) -> bool:
        """Choose other copies of octets of [start, end) so that their FPDU is valid; False, nothing changed, if none do.

        The copies of one frame are taken together wherever it brought octets; one frame is tried, then two.
        ``is_valid`` judges the octets as they are then chosen.
        """
        if not self._rivals:
            return False
        contested = [i for i in self._indexes(start, end) if self._starts[i] in self._rivals]
        before = [self._copy(index) for index in contested]
        others: dict[int, tuple[int, int]] = {}
        for index, chosen in zip(contested, before, strict=True):
            at = self._starts[index]
            acked = self._peer.acked_frame(at, self._ends[index])
            for one in self._rivals[at]:
                # What came after the ACK cannot have been taken in place of what was acknowledged.
                if one.data != chosen.data and (one.frame < acked or chosen.frame >= acked):
                    rank = (int(one.reason), one.frame)
                    others[one.frame] = min(others.get(one.frame, rank), rank)
        frames = sorted(others, key=others.__getitem__)[:MOST_RIVALS]
        for first, frame in enumerate(frames):
            for together in ((frame,), *((frame, other) for other in frames[:first])):
                for index, chosen in zip(contested, before, strict=True):
                    copies = [one for one in self._rivals[self._starts[index]] if one.frame in together]
                    self._take(index, copies[0] if copies else chosen)
                if is_valid():
                    return True
        for index, chosen in zip(contested, before, strict=True):
            self._take(index, chosen)
        return False

    def rivals(self, start: int, end: int) -> list[Rival]:
        """Return the copies of [start, end) that differ from those chosen."""
        found: list[Rival] = []
        if self._rivals:
            for index in self._indexes(start, end):
                at, data, frame = self._starts[index], self._data[index], self._frames[index]
                found += [
                    Rival(at, self._ends[index], frame, one.frame, one.reason)
                    for one in self._rivals.get(at, ())
                    if one.data != data
                ]
        return found


def _part(copy: Copy, origin: int, start: int, end: int) -> Copy:
    """Return the part [start, end) of a copy whose octets begin at ``origin``."""
    if copy.data is None or (start == origin and end - start == len(copy.data)):
        return copy
    return Copy(copy.frame, copy.time, copy.reason, copy.checksum, copy.data[start - origin : end - origin])


def _same(one: memoryview, other: memoryview) -> bool:
    """Compare octets: as bytes, which is far faster than octet by octet as memoryview does."""
    return len(one) == len(other) and one.tobytes() == other.tobytes()


def _is_no_better(copy: Copy, reason: int, checksum: int) -> bool:
    """Return True if an equal copy that was captured before has no stronger reason to be dropped."""
    return copy.reason >= reason and (checksum != WRONG or copy.checksum == WRONG)
