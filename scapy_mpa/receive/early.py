"""The second path of Full Operation: segments that came too early, put aside until those before them are there.

Most of what a network does to the order of segments is undone a few segments later.  So a segment beyond a hole waits
here, unread.  When the hole is filled, all that is in order then is read at once, and where every octet is as it should
be, what :mod:`~scapy_mpa.receive.placement` would have said at each frame is known from the frames alone:

    complete(k)  = the first frame by which every octet of FPDU k has been captured
    placed(k)    = complete(k) if it holds a Marker, else max(complete(k), placed(k-1))
    delivered(k) = max(complete(j) for all j <= k)

Whatever else comes (octets that were there already, a bad CRC, a Marker that points elsewhere, more than may wait)
takes back the waiting: the segments go the long way, in the order of their capture, as if they had never waited.
"""

from __future__ import annotations

from bisect import bisect_left
from heapq import heappush
from typing import TYPE_CHECKING

from scapy_mpa.framing.crc import crc32c
from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, header_offset, marker_count, plain_length
from scapy_mpa.receive import records
from scapy_mpa.receive.half import Moment
from scapy_mpa.receive.operation import MOST_UNJUDGED
from scapy_mpa.receive.reader import CRC_RESIDUE, Extent
from scapy_mpa.receive.reassembly import PIECE_WEIGHT, Piece
from scapy_mpa.receive.records import Row
from scapy_mpa.receive.segment import Segment, small_copy
from scapy_mpa.receive.watched import WatchedOperation, word

if TYPE_CHECKING:
    from scapy_mpa.receive.diagnosis import Diagnosis
    from scapy_mpa.receive.suspicion import Suspicion

#: Segments that wait at most, and how far beyond what is in order they may begin, in octets.
MOST_WAITING = 4096
FARTHEST = 1 << 24
#: Pieces of an FPDU that are read again, from its first octet, with each segment that follows.
_MOST_READ_AGAIN = 64
#: Octets of an FPDU, Markers not counted, that tell its extent and what it is.
_HEADER_OCTETS = 4


def markers_agree(octets: bytes | memoryview, start: int, end: int, shift: int, counted_from: int) -> bool:
    """Whether all Markers in ``octets[start:end]``, whose offsets are ``shift`` more, count from that offset.

    RESERVED has to be zero, too.
    """
    first = start + shift
    for marker in range(first + (-first & 511), end + shift, MARKER_INTERVAL):
        if word(octets, marker - shift)[0] != marker - counted_from & 0xFFFF:
            return False
    return True


class EarlySegments:
    """Segments beyond a hole: none cut, none sharing an octet with another."""

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


class EarlyOperation(WatchedOperation):
    """Full Operation in which segments may wait for those before them."""

    __slots__ = ("_need", "_resumed", "_waiting")

    def _set_up(self) -> None:
        super()._set_up()
        #: What waits, None if nothing is known to be missing.
        self._waiting: EarlySegments | None = None
        #: The end of the FPDU of which a part is held; 0 if its length is not known yet.
        self._need = 0
        #: Up to where segments are judged, or will be; what the fast path took since is not.
        self._resumed = 0

    def _receive(self, seg: Segment) -> None:
        waiting = self._waiting
        if (waiting is not None or self.next_seq >= 0) and self._is_early_or_next(seg, waiting):
            return
        if waiting is not None:
            self._stop_waiting()
        self._receive_any(seg)

    def _receive_any(self, seg: Segment) -> None:
        """Take any segment, nothing waiting."""
        if self.next_seq >= 0:
            self._judge_later()
        super()._receive(seg)
        self._resumed = self.reassembly.next

    def _judge_later(self) -> None:
        """Have segments judged that the fast path took for parts of an FPDU.

        They begin with one after all, if its length turns out to be wrong.
        """
        stream = self.reassembly
        for start, end, _, _ in stream.pieces[max(1, bisect_left(stream.starts, self._resumed)) :]:
            heappush(self._unjudged, (end, start))

    def _stop_waiting(self) -> None:
        """Take what waits as if it had never done so."""
        waiting = self._waiting
        if waiting is not None:
            self._waiting = None
            self.next_seq = self.reassembly.seq_of(self.reassembly.next)
            for _, seg, _ in waiting.segments.values():
                self._receive_any(seg)

    def _is_early_or_next(self, seg: Segment, waiting: EarlySegments | None) -> bool:
        """Put a segment aside, or take the next one in order and what waited for it; False if it must go elsewhere."""
        stream = self.reassembly
        start, length = stream.offset_of(seg.seq), seg.length
        early = start - stream.next
        if (
            not 0 <= early <= FARTHEST
            or self.half.rst is not None
            or len(stream.pieces) > _MOST_READ_AGAIN
            or seg.end - seg.start != length
            or not self.complete
            # Without a CRC it is Markers that decide, and each one counts from the frame that brought it.
            or (self.markers and not self.crc)
            # Who wants to know of each FPDU as it is placed cannot wait.
            or self.sink is not None
            or self.observer is not None
        ):
            return False
        if waiting is None:
            if not early:
                return self._take(seg, start + length, None)
            waiting = EarlySegments(stream.next)
        count, limits = len(waiting.starts) + len(stream.pieces) + 1, self._limits
        if (
            count > min(MOST_WAITING, limits.held_segments)
            or stream.held + waiting.octets + length + PIECE_WEIGHT * count > limits.held_octets
        ):
            return False
        if not early:
            return self._take(seg, start + length, waiting)
        if not waiting.add(start, start + length, seg):
            return False
        if not self._touched:
            self.touch()
        self._waiting = waiting
        self.next_seq = -1
        return True

    def _take(self, seg: Segment, end: int, waiting: EarlySegments | None) -> bool:
        """Take the next segment in order and what waited for it; False, with nothing done, for a surprise."""
        stream = self.reassembly
        start = stream.next
        new: list[Piece] = [(start, end, seg.start, seg)]
        followers: list[int] = []
        late = 0
        if waiting is not None:
            if waiting.starts[0] < end:
                return False
            followers = waiting.in_order_from(end)
            # The next one in order comes behind one that waits.
            late = 1
            for first in followers:
                end, follower, is_late = waiting.segments[first]
                new.append((first, end, follower.start, follower))
                late += is_late
        pieces = [*stream.pieces, *new]
        octets = b"".join([seg.buffer[index : index + b - a] for a, b, index, seg in pieces])
        found = self._read(octets, end)
        if found is None:
            return False
        if not self._touched:
            self.touch()
        self._judge_later()
        counts, unjudged = self.counts, self._unjudged
        counts.segments += len(new)
        counts.out_of_order_segments += late
        for first, last, _, _ in new:
            self.longest_segment = max(self.longest_segment, last - first)
            if len(unjudged) < MOST_UNJUDGED:
                heappush(unjudged, (last, first))
        stream.next = self._resumed = end
        if found:
            self._settle_all(found, pieces, octets)
        stream.advance(pieces, found[-1].end if found else stream.base)
        self._judge_passed(stream.base)
        if waiting is not None:
            waiting.remove(followers)
            if waiting.starts:
                return True
        self._waiting = None
        self.next_seq = stream.seq_of(end)
        return True

    def _read(self, octets: bytes, end: int) -> list[Extent] | None:
        """The whole FPDUs in octets that leave no hole; None if anything in them, up to ``end``, is unusual."""
        view, base = memoryview(octets), self.reassembly.base
        with_markers, crc_used = self.markers, self.crc
        counts_from_header = self._reader.origin == "header"
        found: list[Extent] = []
        at = base
        self._need = 0
        while True:
            header = header_offset(at) if with_markers else at
            if end - header < _HEADER_OCTETS:
                return found
            index = header - base
            ulpdu_length = octets[index] << 8 | octets[index + 1]
            if octets[index + 3] & 0x0F == TERMINATE_OPCODE or not 1 < ulpdu_length <= MAX_ULPDU_LENGTH:
                return None
            body = plain_length(ulpdu_length)
            markers = marker_count(at, body) if with_markers else 0
            after = at + body + MARKER_LENGTH * markers
            if with_markers:
                if header > at and any(octets[index - MARKER_LENGTH : index]):
                    return None
                last = min(after, end - MARKER_LENGTH + 1) - base
                if not markers_agree(octets, index, last, base, header if counts_from_header else at):
                    return None
            if after > end:
                self._need = after
                return found
            if crc_used and crc32c(view[at - base : after - base]) != CRC_RESIDUE:
                return None
            found.append(Extent(at, header, ulpdu_length, after, markers))
            at = after

    def _settle_all(self, found: list[Extent], pieces: list[Piece], octets: bytes) -> None:
        """Count and record these FPDUs, which the pieces, whose octets these are, hold."""
        counts, log, base = self.counts, self.log, self.reassembly.base
        counts.fpdus += len(found)
        if self.gapped:
            counts.undelivered += len(found)
        starts, ends = self.starts, self._ends
        complete, at = self.complete, 0
        known: Moment = (0, 0)
        for extent in found:
            offset, _, ulpdu_length, end, markers = extent
            counts.ulpdu_octets += ulpdu_length
            counts.marker_count += markers
            starts.append(offset)
            ends.append(end)
            while pieces[at][1] <= offset:
                at += 1
            first = at
            latest = pieces[at][3]
            while pieces[at][1] < end:
                at += 1
                seg = pieces[at][3]
                if seg.frame > latest.frame:
                    latest = seg
            before, known = known, (latest.frame, latest.time)
            complete = max(complete, known[0])
            located_by = records.LENGTH
            if not markers:
                known = max(known, before)
            elif before[0] > known[0]:
                located_by = records.MARKER
            self.watch_whole(octets, base, extent, known)
            if known[0] < self.first_frame:
                self.first_frame = known[0]
            if known[0] < complete and not self.gapped:
                counts.delivered_late += 1
            if log is not None:
                held = pieces[first : at + 1]
                frames = tuple(sorted({piece[3].frame for piece in held}))
                opcode = octet_at(held, extent.header + 3) & 0x0F
                row = self._row(extent, opcode, located_by, known, 0 if self.gapped else complete, frames)
                log.add(row, frames)
        self.complete = complete

    def _row(
        self, extent: Extent, opcode: int, located_by: int, placed: Moment, delivered: int, frames: tuple[int, ...]
    ) -> Row:
        stream = self.reassembly
        after_error = self.first_error is not None and (placed[0], extent.offset) > self.first_error
        return (
            stream.seq_of(extent.offset),
            stream.seq_of(extent.header),
            extent.end - extent.offset,
            extent.ulpdu_length,
            extent.markers,
            records.flags(records.GOOD if self.crc else records.UNCHECKED, located_by, after_error),
            opcode,
            placed[0],
            delivered,
            placed[1],
            len(frames),
            frames[0],
        )

    # --- what must not be done while something waits ---

    @property
    def has_hole(self) -> bool:
        """As :attr:`FullOperation.has_hole`."""
        return self._waiting is not None or bool(self.reassembly.beyond)

    @property
    def weight(self) -> int:
        """As :attr:`FullOperation.weight`, reckoned in one step: it is asked for with every block."""
        stream, waiting = self.reassembly, self._waiting
        weight = stream.held + PIECE_WEIGHT * len(stream.pieces)
        if self.suspicion is not None:
            weight += self.suspicion.held
        if waiting is None:
            return weight
        return weight + waiting.octets + PIECE_WEIGHT * len(waiting.starts)

    def release(self) -> bool:
        """As :meth:`FullOperation.release`."""
        if self._waiting is not None:
            self._waiting.detach()
        is_left = super().release()
        if self._waiting is None:
            return is_left
        self._touched = True
        return True

    def diagnosed(self, at_end: bool = False) -> tuple[Diagnosis, Suspicion] | None:
        """As :meth:`FullOperation.diagnosed`."""
        if at_end:
            self._stop_waiting()
        return super().diagnosed(at_end)

    def _look_into_doubt(self, at_end: bool) -> tuple[Diagnosis, Suspicion] | None:
        """As :meth:`FullOperation._look_into_doubt`; all that was captured is looked into."""
        self._stop_waiting()
        return super()._look_into_doubt(at_end)

    def relieve(self, now: Moment) -> None:
        """As :meth:`FullOperation.relieve`."""
        self._stop_waiting()
        super().relieve(now)

    def finish(self, now: Moment) -> None:
        """As :meth:`FullOperation.finish`."""
        self._stop_waiting()
        super().finish(now)


def octet_at(pieces: list[Piece], offset: int) -> int:
    """The octet at an offset that one of the pieces holds."""
    for start, end, index, seg in pieces:
        if start <= offset < end:
            return seg.buffer[index + offset - start]
    raise IndexError(offset)
