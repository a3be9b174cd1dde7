"""The octets of one direction as the copies that were captured, and the one function that chooses between them.

In: ranges of octets, each with the frame that brought it and the :class:`DropReason` of its segment.  Out: contiguous
octets, of the copies chosen, and their frames.  Nothing is thrown away for being doubtful.

Octets lie in *pieces*, disjoint and ascending; each piece is covered by the same copies, nearly all by one.  A copy
that is equal to one held, and no better, is a retransmission: nothing is kept of it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from scapy_mpa.framing.markers import Octets
from scapy_mpa.stream.drop_reason import NO_REASON, DropReason
from scapy_mpa.stream.peer_state import NEVER, PeerState
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.octets import (
    append_four,
    append_number,
    cut_first,
    index_in,
    make_room,
    number_at,
    own_octets,
    put_four,
    put_number,
    put_octets,
)

#: Copies of the same octets that differ and are kept, and frames whose copies are tried for an FPDU that is not valid,
#: alone, two together, all, all but one: a bound of time, 91 attempts at most.
MOST_RIVALS: Final = 12
#: Pieces of a direction that several copies cover; beyond, the first copy is kept: a bound of memory, and of time,
#: since a segment is compared with each of them.
MOST_CONTESTED: Final = 1 << 7
#: FPDUs that no choice of copies made valid, of which is remembered what was tried: a bound of memory.  Chains beside
#: the main one come to theirs in turn.
MOST_FAILED: Final = 1 << 6
#: Pieces that were dropped and leave their room to none, so that others are moved seldom.
_FEW: Final = 32
#: Whether the TCP checksum of a segment is right, wrong, or says nothing (offloaded, cut, no header).
UNKNOWN, RIGHT, WRONG = 0, 1, 2
#: The same for this module, where it is a number of C if it is compiled.
_WRONG: Final = WRONG
_REASONS: Final = tuple(DropReason)


class Copy:
    """Octets as one frame brought them; ``data`` is None where a snapshot length cut them off.  Nobody changes one."""

    __slots__ = ("checksum", "data", "frame", "reason", "time")

    frame: int
    time: int
    reason: DropReason
    checksum: int
    data: bytes | None

    def with_data(self, data: bytes | None) -> Copy:
        """Return a copy of other octets, brought by the same frame."""
        return copy_of(self.frame, self.time, self.reason, self.checksum, data)


def copy_of(frame: int, time: int, reason: DropReason, checksum: int, data: bytes | None) -> Copy:
    """Return a :class:`Copy` of these values: a function in C takes numbers as they are, a class does not."""
    one = Copy.__new__(Copy)
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
    octets: bytes
    has_right_checksums: bool
    is_sole: bool = False
    is_late: bool = False

    def shifted(self, origin: int) -> Rival:
        """Return it with offsets counted from what is now ``origin``."""
        at = None if self.differs_at is None else self.differs_at - origin
        return self._replace(start=self.start - origin, end=self.end - origin, differs_at=at)


def first_difference(mine: bytes, theirs: bytes) -> int | None:
    """Return the first index at which octets differ, as far as there are of both; None if they do not."""
    low, high = 0, min(len(mine), len(theirs))
    if mine[:high] == theirs[:high]:
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
        is_borrowing: whether some octets may lie in what others hold (:meth:`own`).
        has_doubts: False if each octet held has one copy, which was captured and has no reason to be dropped.
        starts: where pieces begin, and ``ends`` where they end.
        sources: what holds the octets of the copy chosen for each piece, None where they were cut off.
        origins: four numbers for each piece: the frame of the copy chosen, its time, its checksum and, times 4, its
            reason, and the index of its first octet in its source.
        head: the index of the first piece: those before it were dropped, or are room for octets that come late.
    """

    __slots__ = (
        "_changes", "_failed", "_first_borrowed", "_joined", "_last_borrowed", "_peer", "_rivals", "_valid", "dropped",
        "ends", "has_doubts", "head", "held", "is_borrowing", "origins", "sources", "starts", "window_known",
    )  # fmt: skip

    def __init__(self, peer: PeerState) -> None:
        self._peer = peer
        self.starts, self.ends, self.origins = array("q"), array("q"), array("q")
        self.sources: list[Octets | None] = []
        self.head = 0
        #: The octets that were asked for last which lie in several pieces.
        self._joined = bytearray()
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
        #: Once there are doubts, there are until nothing is held.
        self.has_doubts = self.is_borrowing = False
        #: All octets that lie in what others hold are among these.
        self._first_borrowed = self._last_borrowed = 0

    # --- what is there ---

    def __len__(self) -> int:
        """Return how many pieces there are."""
        return len(self.starts) - self.head

    @property
    def start(self) -> int:
        """The offset of the first octet held, NEVER if there is none."""
        return self.starts[self.head] if self.head < len(self.starts) else NEVER

    @property
    def middle(self) -> int:
        """The offset of which half of the pieces, one at least, end below or at it."""
        return self.ends[(self.head + len(self.ends) - 1) // 2]

    @property
    def end(self) -> int:
        """The offset after the last octet held, -NEVER if there is none."""
        return self.ends[-1] if self.head < len(self.ends) else -NEVER

    def reaches_beyond(self, at: int) -> bool:
        """Return True if an octet is held at an offset or after it."""
        return self.head < len(self.ends) and number_at(self.ends, len(self.ends) - 1) > at

    def index_of(self, at: int) -> int:
        """Return the index of the piece that holds ``at``, or of the first one after it."""
        count, head, ends = len(self.ends), self.head, self.ends
        if count == head or at < number_at(ends, head):
            return head
        if number_at(self.starts, count - 1) <= at < number_at(ends, count - 1):
            return count - 1
        return index_in(ends, at + 1, head)

    def _indexes(self, start: int, end: int) -> Iterator[int]:
        index = self.index_of(start)
        while index < len(self.starts) and self.starts[index] < end:
            yield index
            index += 1

    def edge(self, at: int, enough: int = NEVER) -> int:
        """Return where the contiguous octets end that hold ``at``; ``at`` itself if it is not held.

        Where they reach ``enough``, any offset from there on to their end may be returned.
        """
        ends, starts = self.ends, self.starts
        count = len(ends)
        if count == self.head or at >= number_at(ends, count - 1):
            return at
        if at >= number_at(starts, count - 1):
            return number_at(ends, count - 1)
        index = self.index_of(at)
        if number_at(starts, index) <= at:
            at = number_at(ends, index)
            index += 1
            while at < enough and index < count and number_at(starts, index) == at:
                at = number_at(ends, index)
                index += 1
        return at

    def run_start(self, at: int, enough: int = -NEVER) -> int:
        """Return where the contiguous octets begin that hold ``at``, which must be held.

        Where they begin at ``enough`` or before it, any offset from there on down may be returned.
        """
        index, starts = self.index_of(at), self.starts
        while index > self.head and starts[index] > enough and self.ends[index - 1] == starts[index]:
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
        index = self.index_of(at)
        if index == len(self.starts):
            return NEVER
        start = number_at(self.starts, index)
        return at if at > start else start

    def segment_starts(self, low: int, high: int, most: int) -> list[int]:
        """Return where pieces begin in [low, high), ``most`` of them: FPDUs begin there rather than elsewhere."""
        index = self.index_of(low)
        return [start for start in self.starts[index : index + most] if low <= start < high]

    def is_captured(self, start: int, end: int) -> bool:
        """Return True if none of the octets of [start, end), all of them held, was cut off."""
        return self.captured_end(start, end) == end

    def captured_end(self, start: int, end: int) -> int:
        """Return the offset of the first octet of [start, end), all of them held, that was cut off; ``end`` if none."""
        for index in self._indexes(start, end) if self.has_doubts else ():
            if self.sources[index] is None:
                return max(start, self.starts[index])
        return end

    def octets(self, start: int, end: int) -> memoryview:
        """Return the chosen octets of [start, end), all of which must be held and captured."""
        index = self.index_of(start)
        if number_at(self.ends, index) < end or self.is_borrowing:
            return memoryview(self.copied(start, end))
        source = self.sources[index]
        assert source is not None
        first = number_at(self.origins, 4 * index + 3) + start - number_at(self.starts, index)
        return memoryview(source)[first : first + end - start]

    def copied(self, start: int, end: int) -> bytes:
        """Return a copy of what :meth:`octets` returns."""
        index = self.index_of(start)
        if number_at(self.ends, index) < end:
            return bytes(self.join(start, end, index)[: end - start])
        source = self.sources[index]
        assert source is not None
        first = number_at(self.origins, 4 * index + 3) + start - number_at(self.starts, index)
        return own_octets(source, first, first + end - start)

    def join(self, start: int, end: int, index: int) -> bytearray:
        """Return the chosen octets of [start, end), as :meth:`octets` does, until others are asked for; more follow.

        ``index`` is that of the piece that holds ``start``, or of one before it.
        """
        at, starts, ends, origins = start, self.starts, self.ends, self.origins
        while number_at(ends, index) <= start:
            index += 1
        while at < end:
            source, stop = self.sources[index], number_at(ends, index)
            first = number_at(origins, 4 * index + 3) + at - number_at(starts, index)
            stop = end if end < stop else stop
            assert source is not None
            put_octets(self._joined, at - start, source, first, stop - at)
            at = stop
            index += 1
        return self._joined

    def piece(self, at: int) -> tuple[int, int, bool]:
        """Return where the piece that holds ``at`` begins and ends, and whether it was captured; it must be held."""
        index = self.index_of(at)
        return self.starts[index], self.ends[index], self.sources[index] is not None

    def copy_at(self, index: int) -> Copy:
        """Return the copy that is chosen for a piece."""
        source, at = self.sources[index], 4 * index
        check, first = number_at(self.origins, at + 2), number_at(self.origins, at + 3)
        length = number_at(self.ends, index) - number_at(self.starts, index)
        data = own_octets(source, first, first + length) if source is not None else None
        frame, time = number_at(self.origins, at), number_at(self.origins, at + 1)
        return copy_of(frame, time, _REASONS[check >> 2], check & 3, data)

    def _choose_for(self, index: int, copy: Copy) -> None:
        """Let a copy be chosen for a piece, whose octets it has."""
        check: int = copy.reason
        self.sources[index] = copy.data
        put_four(self.origins, 4 * index, copy.frame, copy.time, copy.checksum | check << 2, 0)

    def moment_at(self, at: int) -> tuple[int, int]:
        """Return frame and time of the copy chosen for an octet that is held."""
        index = 4 * self.index_of(at)
        return number_at(self.origins, index), number_at(self.origins, index + 1)

    def frames(self, start: int, end: int) -> tuple[tuple[int, ...], int, int]:
        """Return the frames of the copies chosen for [start, end), ascending, and the last one with its time."""
        index = self.index_of(start)
        frame, time = number_at(self.origins, 4 * index), number_at(self.origins, 4 * index + 1)
        if number_at(self.ends, index) >= end:
            return (frame,), frame, time
        found = {frame}
        _, frame, time = self.span(index, end)
        index += 1
        while index < len(self.starts) and number_at(self.starts, index) < end:
            found.add(number_at(self.origins, 4 * index))
            index += 1
        return tuple(sorted(found)), frame, time

    def span(self, index: int, end: int) -> tuple[int, int, int]:
        """Return the first and the last frame of the copies chosen up to an offset, and the time of the last.

        ``index`` is that of the first piece.
        """
        starts, origins = self.starts, self.origins
        first = last = number_at(origins, 4 * index)
        time, count = number_at(origins, 4 * index + 1), len(starts)
        index += 1
        while index < count and number_at(starts, index) < end:
            frame = number_at(origins, 4 * index)
            if frame > last:
                last, time = frame, number_at(origins, 4 * index + 1)
            elif frame < first:
                first = frame
            index += 1
        return first, last, time

    def is_settled(self, index: int) -> bool:
        """Return True if the copy chosen for a piece stays so, whatever is captured later."""
        frame, check = number_at(self.origins, 4 * index), number_at(self.origins, 4 * index + 2)
        is_window_unknown = check >> 2 == DropReason.OVERWINDOW and frame <= self.window_known
        return check & 3 != _WRONG and (not check >> 2 or is_window_unknown)

    def strongest_reason(self, start: int, end: int) -> int:
        """Return the strongest reason of the copies chosen for [start, end): 0 if all of them are settled."""
        strongest = 0
        for index in self._indexes(start, end) if self.has_doubts else ():
            if not self.is_settled(index):
                check = number_at(self.origins, 4 * index + 2)
                strongest = max(strongest, DropReason.CHECKSUM if check & 3 == WRONG else check >> 2)
        return strongest

    def weakest_reason(self, start: int, end: int, has_right: bool = False) -> DropReason:
        """Return the weakest reason of all copies of [start, end); ``has_right``: checksums are those of the wire."""
        if not self.has_doubts:
            return NO_REASON
        return min(
            effective_reason(copy, has_right, self.window_known)
            for index in self._indexes(start, end)
            for copy in self._rivals.get(self.starts[index]) or (self.copy_at(index),)
        )

    def pieces_below(self, offset: int) -> int:
        """Return how many pieces end at or below an offset."""
        return self.index_of(offset) - self.head

    def has_alone(self, start: int, end: int, reason: DropReason) -> bool:
        """Return True if octets of [start, end) have one copy alone, and with this reason to be dropped."""
        for index in self._indexes(start, end) if self.has_doubts else ():
            if self.origins[4 * index + 2] >> 2 == reason and self.starts[index] not in self._rivals:
                return True
        return False

    # --- copies come and go ---

    def own(self) -> None:
        """Copy octets that lie in what others hold, who may want to let go of it."""
        self.is_borrowing = False
        index = self.index_of(self._first_borrowed)
        while index < len(self.starts) and number_at(self.starts, index) < self._last_borrowed:
            source = self.sources[index]
            if source is not None and not isinstance(source, bytes):
                first = number_at(self.origins, 4 * index + 3)
                last = first + number_at(self.ends, index) - number_at(self.starts, index)
                self.sources[index] = own_octets(source, first, last)
                put_number(self.origins, 4 * index + 3, 0)
            index += 1

    def borrow(self, start: int, end: int, frame: int, time: int, checksum: int, source: Octets, first: int) -> None:
        """Hold octets as :meth:`add_new` does that lie in what others hold, until :meth:`own` is called."""
        if not self.is_borrowing:
            self.is_borrowing, self._first_borrowed, self._last_borrowed = True, start, end
        if start < self._first_borrowed:
            self._first_borrowed = start
        if end > self._last_borrowed:
            self._last_borrowed = end
        self.add_new(start, end, frame, time, checksum, source, first)

    def has_room(self, start: int, end: int) -> bool:
        """Return True if none of the octets [start, end) is held."""
        index = self.index_of(start)
        return index == len(self.starts) or end <= number_at(self.starts, index)

    def add_new(
        self, start: int, end: int, frame: int, time: int, checksum: int, source: Octets | None, first: int
    ) -> None:
        """Hold the octets [start, end), for which there is room, and which have no reason to be dropped.

        They are those of ``source`` from the index ``first`` on.
        """
        count = len(self.starts)
        if count == self.head or start >= number_at(self.ends, count - 1):
            append_number(self.starts, start)
            append_number(self.ends, end)
            append_four(self.origins, frame, time, checksum, first)
            self.sources.append(source)
            self.held += end - start
        else:
            index = self._insert(self.index_of(start), start, end)
            self.sources[index] = source
            put_four(self.origins, 4 * index, frame, time, checksum, first)

    def add(self, start: int, end: int, copy: Copy) -> int:
        """Hold one more copy, of octets [start, end); return how many of them no copy had brought.

        ``copy.data`` may have fewer octets than that: a snapshot length cut them off.
        """
        reason, data = copy.reason, copy.data
        starts, ends = self.starts, self.ends
        captured = start if data is None else start + len(data)
        if reason or copy.checksum == WRONG or captured < end:
            self.has_doubts = True
        elif not ends or start >= number_at(ends, len(ends) - 1):
            self.add_new(start, end, copy.frame, copy.time, copy.checksum, data, 0)
            return end - start
        if start < captured < end:
            return self.add(start, captured, copy) + self.add(captured, end, copy.with_data(None))
        if captured <= start:
            copy = copy.with_data(None)
        if not len(self) or start >= ends[-1]:
            self._choose_for(self._insert(len(starts), start, end), copy)
            return end - start
        is_full = len(self._rivals) >= MOST_CONTESTED
        new, at, index = 0, start, self.index_of(start)
        while at < end:
            if index == len(starts) or at < starts[index]:
                stop = end if index == len(starts) else min(end, starts[index])
                index = self._insert(index, at, stop)
                self._choose_for(index, _part(copy, start, at, stop))
                index += 1
                new += stop - at
            elif is_full:
                # No more than what is not held yet is kept.
                self.dropped += 1
                stop = min(end, self.edge(at, end))
                index = self.index_of(stop)
            else:
                stop = min(end, ends[index])
                index = self._compete(index, at, stop, _part(copy, start, at, stop))
            at = stop
        return new

    def _insert(self, index: int, start: int, end: int) -> int:
        """Make room for a piece in front of the one at an index; return its own."""
        starts, ends, origins, sources = self.starts, self.ends, self.origins, self.sources
        self.held += end - start
        if index > self.head or index == len(starts):
            make_room(starts, index, 1)
            make_room(ends, index, 1)
            make_room(origins, 4 * index, 4)
            sources.insert(index, None)
        else:
            if not self.head:
                # Octets that come in reverse order must not move all others each time, nor may letting go of one.
                room = len(starts) // 2 + 1
                starts[:0], ends[:0] = array("q", [-NEVER]) * room, array("q", [-NEVER]) * room
                make_room(origins, 0, 4 * room)
                sources[:0] = [None] * room
                self.head = room
            self.head = index = self.head - 1
        put_number(starts, index, start)
        put_number(ends, index, end)
        return index

    def _compete(self, index: int, start: int, end: int, copy: Copy) -> int:
        """Compare a copy with what is held of [start, end), in the piece at an index; return the index after it."""
        first, chosen = start - self.starts[index], self.copy_at(index)
        if copy.data is None or chosen.data is None:
            # Octets that were cut off equal any; who was captured whole brings them.
            if copy.data is not None:
                index = self._split(index, start, end)
                self._choose_for(index, chosen.with_data(copy.data))
            return self.index_of(start) + 1
        copies = self._rivals.get(self.starts[index], (chosen,))
        if any(_is_no_better(copy, one, first, end - start) for one in copies):
            return index + 1
        if len(copies) > MOST_RIVALS or (len(copies) == 1 and len(self._rivals) >= MOST_CONTESTED):
            self.dropped += 1
            return index + 1
        index = self._split(index, start, end)
        copies = self._rivals.setdefault(start, [self.copy_at(index)])
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
        start = self.starts[index]
        if start in self._valid:
            # Of what makes the FPDU valid there may be a better copy.
            data = self.copy_at(index).data
            copies = [copy for copy in copies if copy.data == data]
        acked_frame = self._peer.acked_frame(start, self.ends[index])
        self._choose_for(index, choose(copies, acked_frame, None, self.window_known))

    def _split(self, index: int, start: int, end: int) -> int:
        """Make [start, end) a piece of its own; return its index."""
        for at in (start, end):
            first, last, whole = self.starts[index], self.ends[index], self.copy_at(index)
            if not first < at < last:
                continue
            rivals = self._rivals.pop(first, None)
            if rivals is not None:
                self._rivals[first] = [_part(one, first, first, at) for one in rivals]
                self._rivals[at] = [_part(one, first, at, last) for one in rivals]
                if first in self._valid:
                    self._valid[at] = self._valid[first]
            self.ends[index] = at
            self.held -= last - at
            self._choose_for(self._insert(index + 1, at, last), _part(whole, first, at, last))
            if at == start:
                index += 1
        return index

    def _cut(self, at: int) -> None:
        """Let a piece begin at an offset that is held."""
        index = self.index_of(at)
        if index < len(self.starts) and self.starts[index] < at:
            self._split(index, at, self.ends[index])

    def drop(self, index: int) -> None:
        """Let go of the pieces before the one at an index."""
        ends, starts, sources, head = self.ends, self.starts, self.sources, self.head
        count = len(ends)
        if index == head:
            return
        for at in range(head, index):
            self.held -= number_at(ends, at) - number_at(starts, at)
            sources[at] = None
        if self._rivals:
            for start in starts[head:index]:
                rivals = self._rivals.pop(start, None)
                if rivals is not None:
                    for one in rivals[1:]:
                        self.held -= len(one.data or b"")
                    self._valid.pop(start, None)
        self.head = index
        if index == count or 2 * index >= count > _FEW:
            cut_first(starts, index)
            cut_first(ends, index)
            cut_first(self.origins, 4 * index)
            del sources[:index]
            self.head = 0
        self.has_doubts = self.has_doubts and index < count

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        for numbers in (self.starts, self.ends):
            for index in range(len(numbers)):
                numbers[index] -= origin
        if self._rivals:
            self._rivals = {start - origin: rivals for start, rivals in self._rivals.items()}
        self._valid = {at - origin: (start - origin, end - origin) for at, (start, end) in self._valid.items()}
        self._failed.clear()

    # --- copies that compete ---

    def has_rivals(self, start: int, end: int) -> bool:
        """Return True if several copies of octets of [start, end) are held."""
        if not self._rivals:
            return False
        return not self._rivals.keys().isdisjoint([self.starts[index] for index in self._indexes(start, end)])

    def settle(self, start: int, end: int) -> None:
        """Choose anew where copies of [start, end) compete: their receiver may have acknowledged octets since."""
        for index in self._indexes(start, end) if self._rivals else ():
            if copies := self._rivals.get(self.starts[index]):
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
        contested = [index for index in self._indexes(start, end) if self.starts[index] in self._rivals]
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
                self._choose_for(index, chosen)
            replaced = {}
            # The copy of the first of these frames counts.
            for frame in reversed(frames):
                for index, copy in others.get(frame, ()):
                    replaced.setdefault(index, self.copy_at(index))
                    self._choose_for(index, copy)
            if last := valid_end():
                starts = [self.starts[index] for index in replaced]
                # Of a segment that is damaged in this FPDU, the next one may have accepted its part.
                self._cut(last)
                self._valid.update((at, (start, last)) for at in starts if at < last)
                self.settle(last, end)
                return True
        for index, chosen in replaced.items():
            self._choose_for(index, chosen)
        if start not in self._failed and len(self._failed) >= MOST_FAILED:
            del self._failed[next(iter(self._failed))]
        self._failed[start] = end, self._changes, tried
        return False

    def _others(self, contested: list[int]) -> dict[int, list[tuple[int, Copy]]]:
        """Return by frame its copies that differ from those chosen, each with the index of its piece."""
        found: dict[int, list[tuple[int, Copy]]] = {}
        for index in contested:
            data = self.copy_at(index).data
            for copy in self._rivals[self.starts[index]]:
                if copy.data != data:
                    found.setdefault(copy.frame, []).append((index, copy))
        return found

    def _combinations(self, contested: list[int]) -> Iterator[tuple[int, ...]]:
        """Yield the frames whose copies may have been accepted in place of those chosen, the likeliest first."""
        ranks: dict[int, tuple[int, int]] = {}
        for index in contested:
            at, chosen = self.starts[index], self.copy_at(index)
            acked_frame = self._peer.acked_frame(at, self.ends[index])
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

    def chosen_in(self, start: int, end: int) -> Iterator[tuple[int, Copy]]:
        """Yield where each piece of [start, end) begins, and the copy chosen for it."""
        for index in self._indexes(start, end):
            yield self.starts[index], self.copy_at(index)

    def rivals(self, start: int, end: int) -> list[Rival]:
        """Return the copies of [start, end) that are not those chosen, the first place of each pair of frames."""
        if not self._rivals:
            return []
        found: dict[tuple[int, int], Rival] = {}
        indexes = list(self._indexes(start, end)) if start < end else []
        sole = {self.origins[4 * index] for index in indexes if self.starts[index] not in self._rivals}
        for index in indexes:
            at, copies = self.starts[index], self._rivals.get(self.starts[index], ())
            if not copies:
                continue
            chosen = self.copy_at(index)
            low, high = max(at, start), min(self.ends[index], end)
            acked_frame = self._peer.acked_frame(at, self.ends[index])
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


def _part(copy: Copy, origin: int, start: int, end: int) -> Copy:
    """Return the part [start, end) of a copy whose octets begin at ``origin``."""
    if copy.data is None or (start == origin and end - start == len(copy.data)):
        return copy
    return copy.with_data(copy.data[start - origin : end - origin])


def _is_no_better(copy: Copy, held: Copy, first: int, length: int) -> bool:
    """Return True if a copy is equal to a part of one that was captured before and has no stronger reason."""
    if copy.reason < held.reason or (held.checksum == WRONG and copy.checksum != WRONG):
        return False
    assert copy.data is not None and held.data is not None
    return copy.data == held.data[first : first + length]
