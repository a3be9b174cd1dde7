"""One half of a TCP connection, put in order: which octets were captured, at which frame, and where they are.

Sequence numbers become 64-bit offsets.  Octets are committed once: a later copy never overwrites what is held.
A gap stays a gap: nothing is ever filled in.  Octets are not copied; a *piece* says where a run of them lies.

The stream is ordered up to ``next``; what was captured beyond lies in ``beyond``.  Its owner consumes octets
from the front (:meth:`Reassembly.consume`) and keeps the rest; consumed segments stay at hand for a while, so that
a retransmission can be compared with what it repeats.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TypeAlias

from scapy_mpa.receive.chunks import CHUNK, Chunks, chunks_within
from scapy_mpa.receive.segment import (
    SEQ_MASK,
    Segment,
    checksum_is_wrong,
    small_copy,
)

#: (first offset, offset after the last, index of the first octet in the segment's buffer, segment)
Piece: TypeAlias = "tuple[int, int, int, Segment]"

#: No TCP window is larger (RFC 7323 §2.3), so nothing farther ahead can belong to the connection.
MAX_WINDOW = 1 << 30
#: Octets of memory that a piece takes besides those it holds.
PIECE_WEIGHT = 256
#: ``next`` and ``base`` of a stream whose first octet is not known: below every offset it can have.
UNANCHORED = -(1 << 40)


class Reassembly:
    """The captured octets of one half connection.

    ``origin`` is the sequence number of offset 0; ``first`` the offset at which it begins; ``base`` the first one not
    consumed; ``next`` the end of what was captured without a gap; ``highest`` the end of the last octet captured;
    ``captured`` counts octets, once each; ``held`` counts the octets that pieces hold.  As long as nothing is missing
    its owner may advance ``next`` alone, and has to :meth:`catch_up` before anything else is done.
    """

    __slots__ = (
        "_chunks",
        "_fresh",
        "base",
        "beyond",
        "captured",
        "consumed",
        "first",
        "held",
        "highest",
        "next",
        "origin",
        "pieces",
        "previously_consumed",
        "starts",
    )

    def __init__(self, origin: int, anchored: bool, first: int = 0) -> None:
        self.origin = origin
        self.first = first
        self.base = self.next = self.highest = first if anchored else UNANCHORED
        self.captured = 0
        self.held = 0
        #: Captured ranges beyond ``next``, sorted, neither touching nor overlapping.
        self.beyond: list[list[int]] = []
        #: Pieces from ``base`` on, sorted; ``starts`` are their first offsets.
        self.pieces: list[Piece] = []
        self.starts: list[int] = []
        #: What is known of short pieces, None as long as there were few.
        self._chunks: Chunks | None = None
        #: The first offsets of pieces that may lie in the present block of the capture.
        self._fresh: list[int] = []
        #: Segments consumed since the last block of the capture, and in the one before, by offset.
        self.consumed: list[Segment] = []
        self.previously_consumed: list[Segment] = []

    @property
    def anchored(self) -> bool:
        """Whether it is known where the stream begins."""
        return self.next != UNANCHORED

    def offset_of(self, seq: int) -> int:
        """The offset with this sequence number nearest to what was captured last."""
        near = self.next if self.next != UNANCHORED else max(self.highest, 0)
        return near + ((seq - self.origin - near + 0x80000000) & SEQ_MASK) - 0x80000000

    def seq_of(self, offset: int) -> int:
        """The sequence number of an offset."""
        return (self.origin + offset) & SEQ_MASK

    @property
    def weight(self) -> int:
        """Octets of memory that what is held takes, near enough: small pieces weigh more than they hold."""
        return self.held + PIECE_WEIGHT * len(self.pieces)

    # --- capturing ---

    def catch_up(self) -> None:
        """Learn that octets were captured in order."""
        if self.next > self.highest:
            self.captured += self.next - self.highest
            self.highest = self.next

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) not captured yet."""
        at = max(start, self.next)
        if at >= end:
            return []
        found = []
        beyond = self.beyond
        index = bisect_right(beyond, at, key=lambda island: island[1])
        while at < end and index < len(beyond):
            first, last = beyond[index]
            if first >= end:
                break
            if at < first:
                found.append((at, first))
            at = max(at, last)
            index += 1
        if at < end:
            found.append((at, end))
        return found

    def commit(self, seg: Segment, start: int, end: int) -> list[tuple[int, int]]:
        """Hold what [start, end) of ``seg``, whose first octet is at ``start``, brings that is new.

        Returns the new ranges.
        """
        new = self.missing(start, end)
        for first, last in new:
            self._insert((first, last, seg.start + first - start, seg))
            self._mark(first, last)
            self.captured += last - first
        if end > self.highest:
            self.highest = end
        return new

    def hold(self, seg: Segment, start: int, end: int, index: int) -> None:
        """Hold [start, end), which follow all that is held, from ``index`` of the segment's buffer."""
        self._fresh.append(start)
        self.pieces.append((start, end, index, seg))
        self.starts.append(start)
        self.held += end - start

    def _insert(self, piece: Piece) -> None:
        at = bisect_left(self.starts, piece[0])
        self.starts.insert(at, piece[0])
        self._fresh.append(piece[0])
        self.pieces.insert(at, piece)
        self.held += piece[1] - piece[0]

    def _mark(self, start: int, end: int) -> None:
        beyond = self.beyond
        if start <= self.next:
            self.next = max(self.next, end)
            while beyond and beyond[0][0] <= self.next:
                self.next = max(self.next, beyond.pop(0)[1])
            return
        first = bisect_left(beyond, start, key=lambda island: island[1])
        last = first
        while last < len(beyond) and beyond[last][0] <= end:
            start, end = min(start, beyond[last][0]), max(end, beyond[last][1])
            last += 1
        beyond[first:last] = [[start, end]]

    def withdraw(self, segments: list[Segment]) -> None:
        """Forget the octets that these segments brought, as if they had not been captured."""
        for seg in segments:
            start = self.offset_of(seg.seq)
            at = bisect_left(self.starts, max(start, self.base))
            end = start + seg.end - seg.start
            while at < len(self.starts) and self.starts[at] < end:
                if self.pieces[at][3] is not seg:
                    at += 1
                    continue
                a, b, _, _ = self.pieces.pop(at)
                del self.starts[at]
                self.held -= b - a
                self.captured -= b - a
                self._unmark(a, b)
                if self._chunks is not None:
                    self._chunks.forget(a, b)
        self.highest = self.beyond[-1][1] if self.beyond else self.next

    def _unmark(self, start: int, end: int) -> None:
        beyond = self.beyond
        if start < self.next:
            if end < self.next:
                beyond.insert(0, [end, self.next])
            self.next = start
            return
        at = bisect_right(beyond, start, key=lambda island: island[1])
        first, last = beyond[at]
        beyond[at : at + 1] = [part for part in ([first, start], [end, last]) if part[0] < part[1]]

    def skip_to(self, offset: int) -> None:
        """Give up what is missing below ``offset``, the start of the first island."""
        self.next = max(self.next, offset)
        while self.beyond and self.beyond[0][0] <= self.next:
            self.next = max(self.next, self.beyond.pop(0)[1])

    def anchor(self, offset: int) -> None:
        """Learn that the stream begins at an offset, no octet before which is held."""
        self.base = self.next = offset
        if self.beyond and self.beyond[0][0] == offset:
            self.skip_to(offset)

    def pass_over(self, octets: int) -> None:
        """So many octets in order were captured that nobody will read; nothing is held."""
        self.next += octets
        self.base = self.highest = self.next

    # --- reading what is held ---

    def range_at(self, offset: int) -> tuple[int, int] | None:
        """The captured range that holds ``offset``; the one in order begins at ``base``."""
        if offset < self.next:
            return (self.base, self.next) if offset >= self.base else None
        index = bisect_right(self.beyond, offset, key=lambda island: island[1])
        if index < len(self.beyond) and self.beyond[index][0] <= offset:
            return self.beyond[index][0], self.beyond[index][1]
        return None

    def pieces_of(self, start: int, end: int) -> list[Piece]:
        """The pieces that hold octets of [start, end)."""
        first, last = self._places_of(start, end)
        pieces = self.pieces[first:last]
        if pieces and pieces[0][1] <= start:
            del pieces[0]
        return pieces

    def _places_of(self, start: int, end: int) -> tuple[int, int]:
        """Among which of the pieces those are that hold octets of [start, end)."""
        return max(bisect_right(self.starts, start) - 1, 0), bisect_left(self.starts, end)

    def views(self, start: int, end: int) -> list[memoryview]:
        """The octets of [start, end), as they lie in the segments, or copies; all of them must be held."""
        first, last = self._places_of(start, end)
        numbers = chunks_within(start, end, last - first)
        if not numbers:
            return _views(self.pieces_of(start, end), start, end)
        chunks, views = self._known_chunks(), self.views(start, numbers.start * CHUNK)
        for number in numbers:
            octets = chunks.octets.get(number)
            if octets is None:
                begin, limit = number * CHUNK, (number + 1) * CHUNK
                octets = chunks.octets[number] = b"".join(_views(self.pieces_of(begin, limit), begin, limit))
            views.append(memoryview(octets))
        return views + self.views(numbers.stop * CHUNK, end)

    def damaged(self, start: int, end: int) -> list[Segment]:
        """The segments that hold octets of [start, end) and whose TCP checksum is wrong; all must be held."""
        first, last = self._places_of(start, end)
        numbers = chunks_within(start, end, last - first)
        if not numbers:
            return _damaged(self.pieces_of(start, end))
        undamaged = self._known_chunks().undamaged
        found = self.damaged(start, numbers.start * CHUNK)
        for number in numbers:
            if number not in undamaged:
                damaged = _damaged(self.pieces_of(number * CHUNK, (number + 1) * CHUNK))
                if not damaged:
                    undamaged.add(number)
                found += damaged
        found += self.damaged(numbers.stop * CHUNK, end)
        return list({id(seg): seg for seg in found}.values())

    def _known_chunks(self) -> Chunks:
        if self._chunks is None:
            self._chunks = Chunks()
        return self._chunks

    def read(self, start: int, end: int) -> bytes:
        """A copy of the octets of [start, end); all of them must be held."""
        return b"".join(self.views(start, end))

    # --- letting go ---

    def consume(self, offset: int) -> None:
        """Let go of what lies below ``offset``."""
        count = 0
        for a, b, index, seg in self.pieces:
            if b > offset:
                if a < offset:
                    self.pieces[count] = (offset, b, index + offset - a, seg)
                    self.starts[count] = offset
                    self.held -= offset - a
                break
            if not self.consumed or self.consumed[-1] is not seg:
                self.consumed.append(seg)
            self.held -= b - a
            count += 1
        if count:
            del self.pieces[:count]
            del self.starts[:count]
        self.base = max(self.base, offset)

    def consume_all(self) -> None:
        """Let go of everything that is held; only for a stream without beyond."""
        consumed = self.consumed
        for _, _, _, seg in self.pieces:
            if not consumed or consumed[-1] is not seg:
                consumed.append(seg)
        self.pieces, self.starts, self.held = [], [], 0

    def advance(self, pieces: list[Piece], offset: int) -> None:
        """Hold what lies from ``offset`` on of ``pieces``, all there is, and let go of the rest of them."""
        consumed, kept = self.consumed, 0
        for _, b, _, seg in pieces:
            if b > offset:
                break
            if not consumed or consumed[-1] is not seg:
                consumed.append(seg)
            kept += 1
        pieces = pieces[kept:]
        if pieces and pieces[0][0] < offset:
            a, b, index, seg = pieces[0]
            pieces[0] = offset, b, index + offset - a, seg
        self.pieces = pieces
        self.starts = [piece[0] for piece in pieces]
        self._fresh.extend(self.starts)
        self.base = max(self.base, offset)
        self.held = self.next - self.base if pieces else 0

    def differences(self, seg: Segment, start: int, end: int) -> list[tuple[int, Segment]]:
        """Where [start, end) of ``seg`` differs from octets at hand: for each other segment, the first such offset."""
        found: dict[int, tuple[int, Segment]] = {}
        if start < self.base:
            for other in self.consumed_between(start, min(end, self.base)):
                first = self.offset_of(other.seq)
                last = first + other.end - other.start
                difference = _first_difference(seg, start, other, first, last, other.start)
                if difference is not None and difference < self.base:
                    found.setdefault(id(other), (difference, other))
        if start < self.next or self.beyond:
            for a, b, index, other in self.pieces_of(max(start, self.base), end):
                difference = _first_difference(seg, start, other, a, b, index)
                if difference is not None:
                    found.setdefault(id(other), (difference, other))
        return list(found.values())

    def consumed_between(self, start: int, end: int) -> list[Segment]:
        """The segments let go of lately that hold octets of [start, end), and maybe some before."""
        found: dict[int, Segment] = {}
        for segments in (self.previously_consumed, self.consumed):
            index = bisect_right(segments, start, key=lambda seg: self.offset_of(seg.seq))
            # Retransmissions with other boundaries overlap, so the one before may not be the first.
            index = max(index - 4, 0)
            while index < len(segments) and self.offset_of(segments[index].seq) < end:
                # One between whose octets others lie is there several times.
                found[id(segments[index])] = segments[index]
                index += 1
        return list(found.values())

    def forget(self) -> None:
        """Let go of everything, whether in order or not."""
        self.pieces, self.starts, self.consumed, self.previously_consumed, self.held = [], [], [], [], 0
        self._fresh = []
        self._chunks = None

    def release(self, copies: dict[int, Segment] | None = None) -> None:
        """Let go of the capture's block: copy what is still held, drop what was consumed before the last one.

        ``copies`` are the segments copied already, by the identity of what they are copies of.
        """
        self.previously_consumed, self.consumed = self.consumed, []
        # Only what came since the last time lies in a block: the first piece may begin elsewhere by now.
        fresh = self._fresh
        if fresh:
            self._fresh = []
        if not self.pieces:
            self._chunks = None
            return
        if self._chunks is not None:
            self._chunks.forget_below(self.base)
        if copies is None:
            copies = {}
        places = {0}
        for start in fresh:
            at = bisect_left(self.starts, start)
            if at < len(self.starts) and self.starts[at] == start:
                places.add(at)
        for at in places:
            a, b, index, seg = self.pieces[at]
            copy = small_copy(seg, copies)
            if copy is not seg:
                self.pieces[at] = (a, b, index - seg.start + copy.start, copy)


def _views(pieces: list[Piece], start: int, end: int) -> list[memoryview]:
    """The octets of [start, end) that pieces hold."""
    views = [seg.buffer[index : index + b - a] for a, b, index, seg in pieces]
    if views:
        views[-1] = views[-1][: end - pieces[-1][0]]
        views[0] = views[0][max(start - pieces[0][0], 0) :]
    return views


def _damaged(pieces: list[Piece]) -> list[Segment]:
    """The segments that pieces lie in and whose TCP checksum is wrong."""
    return [seg for seg in {id(piece[3]): piece[3] for piece in pieces}.values() if checksum_is_wrong(seg)]


def frames_of(pieces: list[Piece]) -> tuple[int, ...]:
    """The frames that brought these pieces, ascending."""
    if len(pieces) == 1:
        return (pieces[0][3].frame,)
    return tuple(sorted({piece[3].frame for piece in pieces}))


def is_cut(seg: Segment) -> bool:
    """Whether the capture cut this segment's payload."""
    return seg.end - seg.start < seg.length


def _first_difference(seg: Segment, start: int, other: Segment, a: int, b: int, index: int) -> int | None:
    """The first offset at which ``seg``, from ``start``, differs from [a, b) of ``other``, from ``index``."""
    first = max(start, a)
    last = min(start + seg.end - seg.start, b)
    if first >= last:
        return None
    mine = bytes(seg.buffer[seg.start + first - start : seg.start + last - start])
    theirs = bytes(other.buffer[index + first - a : index + last - a])
    if mine == theirs:
        return None
    different = int.from_bytes(mine, "little") ^ int.from_bytes(theirs, "little")
    return first + ((different & -different).bit_length() - 1) // 8
