"""The octets of one half connection, put in order: which were captured, at which frame, and where they are.

Sequence numbers become 64-bit offsets from the half connection's first octet (RFC 9293 §3.4).  Octets are held once: a
later copy never overwrites what is held.  A hole stays a hole: nothing is ever filled in.  Octets are not copied; a
*piece* says where a run of them lies in a captured packet.

What was captured without a hole ends at ``next``; ranges that lie ``beyond`` it wait.  Whoever reads FPDUs consumes
octets from the front and leaves the rest; segments that were consumed stay at hand for a while, so that a
retransmission can be compared with what it repeats.

:class:`Postponed` are segments beyond a hole that nobody has looked into yet: where a CRC tells what is an FPDU, it
makes no difference when they are read, and reading them once, when the hole is filled, is what makes captures out of
order quick to read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import chain
from typing import Final, NamedTuple

from scapy_mpa.framing.sequence import unwrap, wrap
from scapy_mpa.values.checksums import Checksums
from scapy_mpa.values.chunks import CHUNK, Chunks, chunks_within
from scapy_mpa.values.segment import Segment, small_copy


class Piece(NamedTuple):
    """Octets [start, end) of a half connection, from index ``at`` on in the buffer of a segment."""

    start: int
    end: int
    at: int
    seg: Segment


#: Octets of memory that a piece takes besides those it holds.
PIECE_WEIGHT: Final = 256
#: ``next`` and ``base`` where the first octet is not known: below every offset it can have.
UNANCHORED: Final = -(1 << 40)
#: Segments that are postponed at most, and how far beyond what is in order they may begin, in octets.
MOST_POSTPONED: Final = 4096
FARTHEST_POSTPONED: Final = 1 << 24


class Reassembly:
    """The captured octets of one half connection.

    Args:
        origin: the sequence number of offset 0.
        anchored: whether it is known where the half connection begins.
        first: the offset at which it begins.

    Attributes:
        base: the first offset not consumed.
        next: the end of what was captured without a hole.
        highest: the end of the last octet captured.
        withdrawn: the end of the last octet that was withdrawn: its sender sent it, though it came damaged.
        captured: octets captured, each counted once.
        held: octets that pieces hold.
        beyond: captured ranges beyond ``next``, sorted, neither touching nor overlapping.
        pieces: pieces from ``base`` on, sorted; ``starts`` are their first offsets.
        consumed: segments consumed since the last block of the capture, by offset.
        previously_consumed: the same of the block before.
        checksums: those of segments that were looked at.
    """

    __slots__ = (
        "_chunks",
        "_fresh",
        "base",
        "beyond",
        "captured",
        "checksums",
        "consumed",
        "first",
        "held",
        "highest",
        "next",
        "origin",
        "pieces",
        "previously_consumed",
        "starts",
        "withdrawn",
    )

    def __init__(self, origin: int, anchored: bool, first: int = 0) -> None:
        self.origin = origin
        self.first = first
        self.base = self.next = self.highest = first if anchored else UNANCHORED
        self.withdrawn = UNANCHORED
        self.captured = 0
        self.held = 0
        self.beyond: list[list[int]] = []
        self.pieces: list[Piece] = []
        self.starts: list[int] = []
        #: What is known of short pieces, None as long as there were few.
        self._chunks: Chunks | None = None
        #: The first offsets of pieces that may lie in the present block of the capture.
        self._fresh: list[int] = []
        self.consumed: list[Segment] = []
        self.previously_consumed: list[Segment] = []
        self.checksums = Checksums()

    @property
    def anchored(self) -> bool:
        """Whether it is known where the half connection begins."""
        return self.next != UNANCHORED

    def offset_of(self, seq: int) -> int:
        """The offset with this sequence number nearest to what was captured last."""
        near = self.next if self.next != UNANCHORED else max(self.highest, 0)
        return unwrap(seq, near, self.origin)

    def seq_of(self, offset: int) -> int:
        """The sequence number of an offset."""
        return wrap(offset, self.origin)

    @property
    def weight(self) -> int:
        """Octets of memory that what is held takes, near enough: small pieces weigh more than they hold."""
        return self.held + PIECE_WEIGHT * len(self.pieces)

    # --- octets in order ---

    def take_next(self, seg: Segment, consumed: int) -> None:
        """The segment that follows all that is held, nothing lying beyond a hole: consume up to offset ``consumed``.

        All that was held is consumed as well; what is left of the segment is held.
        """
        if self.pieces:
            self._consume_pieces()
        self.consumed.append(seg)
        self.base = consumed
        end = self.next = self.next + seg.length
        if consumed < end:
            self._hold(consumed, end, seg.end - end + consumed, seg)

    def hold_next(self, seg: Segment) -> None:
        """The segment that follows all that is held, nothing lying beyond a hole: hold it."""
        start = self.next
        self.next = start + seg.length
        self._hold(start, self.next, seg.start, seg)

    def pass_over(self, octets: int) -> None:
        """So many octets follow, which nobody will read; only where nothing is held."""
        self.next += octets
        self.base = self.highest = self.next

    def anchor(self, offset: int) -> None:
        """The half connection begins at ``offset``; what is held lies there or beyond it."""
        self.base = self.next = offset
        self._close_hole()

    def catch_up(self) -> None:
        """Learn that octets were captured in order."""
        if self.next > self.highest:
            self.captured += self.next - self.highest
            self.highest = self.next

    def _hold(self, start: int, end: int, index: int, seg: Segment) -> None:
        self._fresh.append(start)
        self.pieces.append(Piece(start, end, index, seg))
        self.starts.append(start)
        self.held += end - start

    def _consume_pieces(self) -> None:
        consumed = self.consumed
        for piece in self.pieces:
            if not consumed or consumed[-1] is not piece.seg:
                consumed.append(piece.seg)
        self.pieces, self.starts, self.held = [], [], 0

    # --- octets in any order ---

    def missing(self, start: int, end: int) -> list[tuple[int, int]]:
        """The parts of [start, end) not captured yet."""
        at = max(start, self.next)
        if at >= end:
            return []
        found = []
        beyond = self.beyond
        index = bisect_right(beyond, at, key=_end_of)
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
            self._insert(Piece(first, last, seg.start + first - start, seg))
            self._mark(first, last)
            self.captured += last - first
        if end > self.highest:
            self.highest = end
        return new

    def put_instead(self, piece: Piece) -> None:
        """Hold a piece in place of those that hold its octets."""
        for old in self.pieces_of(piece.start, piece.end):
            at = bisect_left(self.starts, old.start)
            del self.starts[at], self.pieces[at]
            self.held -= old.end - old.start
            if old.start < piece.start:
                self._insert(Piece(old.start, piece.start, old.at, old.seg))
            if piece.end < old.end:
                self._insert(Piece(piece.end, old.end, old.at + piece.end - old.start, old.seg))
        self._insert(piece)
        if self._chunks is not None:
            self._chunks.forget(piece.start, piece.end)

    def _insert(self, piece: Piece) -> None:
        at = bisect_left(self.starts, piece.start)
        self.starts.insert(at, piece.start)
        self._fresh.append(piece.start)
        self.pieces.insert(at, piece)
        self.held += piece.end - piece.start

    def _mark(self, start: int, end: int) -> None:
        beyond = self.beyond
        if start <= self.next:
            self.next = max(self.next, end)
            self._close_hole()
            return
        first = bisect_left(beyond, start, key=_end_of)
        last = first
        while last < len(beyond) and beyond[last][0] <= end:
            start, end = min(start, beyond[last][0]), max(end, beyond[last][1])
            last += 1
        beyond[first:last] = [[start, end]]

    def withdraw(self, segments: list[Segment]) -> None:
        """Forget the octets that these segments brought, as if they had not been captured."""
        self.withdrawn = max(self.withdrawn, self.highest)
        for seg in segments:
            start = self.offset_of(seg.seq)
            at = bisect_left(self.starts, max(start, self.base))
            end = start + seg.end - seg.start
            while at < len(self.starts) and self.starts[at] < end:
                if self.pieces[at].seg is not seg:
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
        at = bisect_right(beyond, start, key=_end_of)
        first, last = beyond[at]
        beyond[at : at + 1] = [part for part in ([first, start], [end, last]) if part[0] < part[1]]

    def skip_to(self, offset: int) -> None:
        """Give up what is missing below ``offset``, where the first range beyond the hole begins."""
        self.next = max(self.next, offset)
        self._close_hole()

    def _close_hole(self) -> None:
        """What lay beyond a hole follows what is in order, if the hole is closed."""
        beyond = self.beyond
        while beyond and beyond[0][0] <= self.next:
            self.next = max(self.next, beyond.pop(0)[1])

    # --- reading what is held ---

    def range_at(self, offset: int) -> tuple[int, int] | None:
        """The captured range that holds ``offset``; the one in order begins at ``base``."""
        if offset < self.next:
            return (self.base, self.next) if offset >= self.base else None
        index = bisect_right(self.beyond, offset, key=_end_of)
        if index < len(self.beyond) and self.beyond[index][0] <= offset:
            return self.beyond[index][0], self.beyond[index][1]
        return None

    def pieces_of(self, start: int, end: int) -> list[Piece]:
        """The pieces that hold octets of [start, end)."""
        first, last = self._places_of(start, end)
        pieces = self.pieces[first:last]
        if pieces and pieces[0].end <= start:
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
        return list({id(seg): seg for _, _, seg in self.damaged_within(start, end)}.values())

    @property
    def has_damaged_next(self) -> bool:
        """Whether octets that are held in order came in a segment whose TCP checksum is wrong."""
        return self.base < self.next and bool(self.damaged(self.base, self.next))

    def damaged_within(self, start: int, end: int) -> list[tuple[int, int, Segment]]:
        """The same, each with octets of [start, end) that it holds; one may come several times."""
        first, last = self._places_of(start, end)
        numbers = chunks_within(start, end, last - first)
        if not numbers:
            return self._damaged(start, end)
        known = self._known_chunks().damaged
        found = self._damaged(start, numbers.start * CHUNK)
        for number in numbers:
            damaged = known.get(number)
            if damaged is None:
                damaged = known[number] = self._damaged(number * CHUNK, (number + 1) * CHUNK)
            found += damaged
        return found + self._damaged(numbers.stop * CHUNK, end)

    def _damaged(self, start: int, end: int) -> list[tuple[int, int, Segment]]:
        is_wrong, pieces = self.checksums.is_wrong, self.pieces_of(start, end)
        return [(max(a, start), min(b, end), seg) for a, b, _, seg in pieces if is_wrong(seg)]

    def _known_chunks(self) -> Chunks:
        if self._chunks is None:
            self._chunks = Chunks()
        return self._chunks

    def read(self, start: int, end: int) -> bytes:
        """A copy of the octets of [start, end); all of them must be held."""
        index = bisect_right(self.starts, start) - 1
        if index >= 0 and end <= self.pieces[index].end:
            first, _, at, seg = self.pieces[index]
            return bytes(seg.buffer[at + start - first : at + max(end, start) - first])
        return b"".join(self.views(start, end))

    # --- letting go ---

    def consume(self, offset: int) -> None:
        """Let go of what lies below ``offset``."""
        count = 0
        for a, b, index, seg in self.pieces:
            if b > offset:
                if a < offset:
                    self.pieces[count] = Piece(offset, b, index + offset - a, seg)
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

    def take_followers(self, new: list[Piece], consumed: int) -> None:
        """Pieces that follow all that is held, nothing lying beyond a hole: consume up to offset ``consumed``."""
        pieces = [*self.pieces, *new]
        self.next = pieces[-1].end
        done, kept = self.consumed, 0
        for piece in pieces:
            if piece.end > consumed:
                break
            if not done or done[-1] is not piece.seg:
                done.append(piece.seg)
            kept += 1
        pieces = pieces[kept:]
        if pieces and pieces[0].start < consumed:
            a, b, index, seg = pieces[0]
            pieces[0] = Piece(consumed, b, index + consumed - a, seg)
        self.pieces = pieces
        self.starts = [piece.start for piece in pieces]
        self._fresh.extend(self.starts)
        self.base = max(self.base, consumed)
        self.held = self.next - self.base if pieces else 0

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
        if self.checksums.are_many:
            held = (piece.seg for piece in self.pieces)
            self.checksums.forget_others(chain(held, self.previously_consumed))
        if not self.pieces:
            self._chunks = None
            return
        if self._chunks is not None:
            self._chunks.release(self.base)
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
                self.pieces[at] = Piece(a, b, index - seg.start + copy.start, copy)


def _end_of(known: list[int]) -> int:
    return known[1]


def _views(pieces: list[Piece], start: int, end: int) -> list[memoryview]:
    """The octets of [start, end) that pieces hold."""
    views = [seg.buffer[index : index + b - a] for a, b, index, seg in pieces]
    if views:
        views[-1] = views[-1][: end - pieces[-1].start]
        views[0] = views[0][max(start - pieces[0].start, 0) :]
    return views


def frames_of(pieces: list[Piece]) -> tuple[int, ...]:
    """The frames that brought these pieces, ascending."""
    if len(pieces) == 1:
        return (pieces[0].seg.frame,)
    return tuple(sorted({piece.seg.frame for piece in pieces}))


def is_cut(seg: Segment) -> bool:
    """Whether the capture cut this segment's payload."""
    return seg.end - seg.start < seg.length


# --- segments beyond a hole, to be read when it is filled ---


class Postponed:
    """Segments beyond a hole that were not looked into: none cut, none sharing an octet with another.

    Args:
        highest: the end of the last octet captured in order.
    """

    __slots__ = ("highest", "octets", "segments", "starts")

    def __init__(self, highest: int) -> None:
        #: Their first offsets, sorted, and, in the order of capture, all by those: (end, segment, out of order).
        self.starts: list[int] = []
        self.segments: dict[int, tuple[int, Segment, bool]] = {}
        #: The end of the last octet captured, and how many octets wait.
        self.highest = highest
        self.octets = 0

    def add(self, start: int, end: int, seg: Segment) -> bool:
        """Put a segment aside; False if it shares octets with one that waits."""
        starts = self.starts
        if start >= self.highest:
            starts.append(start)
            self.segments[start] = end, seg, False
            self.highest = end
        else:
            at = bisect_left(starts, start)
            if (at and self.segments[starts[at - 1]][0] > start) or (at < len(starts) and starts[at] < end):
                return False
            starts.insert(at, start)
            self.segments[start] = end, seg, True
        self.octets += end - start
        return True

    @property
    def latest(self) -> int:
        """The frame of the last one captured."""
        return self.segments[next(reversed(self.segments))][1].frame

    def in_order_from(self, at: int) -> list[int]:
        """The first offsets of those that follow ``at`` without a hole."""
        found = []
        for start in self.starts:
            if start != at:
                break
            found.append(start)
            at = self.segments[start][0]
        return found

    def remove(self, first: list[int]) -> None:
        """Let the first ones go, which begin there."""
        del self.starts[: len(first)]
        for start in first:
            self.octets -= self.segments.pop(start)[0] - start

    def detach(self) -> None:
        """Copy what lies in the capture's block."""
        copies: dict[int, Segment] = {}
        for start, (end, seg, is_late) in self.segments.items():
            self.segments[start] = end, small_copy(seg, copies), is_late
