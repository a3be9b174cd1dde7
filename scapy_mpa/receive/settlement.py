"""What came of the FPDUs of a half connection: complete, placed, delivered, located_by; counters; records.

For FPDU k, in frames of the capture (RFC 5044 §6, appendix A.3 and A.4):

    complete(k)  = the first frame by which every octet of k, and both startup frames, have been captured
    placed(k)    = complete(k)                          if k is the first FPDU or holds a Marker
                 = max(complete(k), placed(k-1))        otherwise
    delivered(k) = max(complete(j) for all j <= k), bad ones included; none above octets never captured

FPDUs are handed over in the order of the stream, each once: those of a segment in order, all of which that segment
completed (:meth:`Settlement.pass_in_order`); those of several segments, of which each was complete at the latest of its
frames (:meth:`Settlement.pass_pieces`); and those that recovery located (:meth:`Settlement.pass_located`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from heapq import heappop, heappush

from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, plain_length
from scapy_mpa.receive.located import NEVER, Breach, Located
from scapy_mpa.receive.reassembly import Piece, Reassembly, frames_of
from scapy_mpa.receive.scan import Layout
from scapy_mpa.tcp.half import Moment
from scapy_mpa.values import records
from scapy_mpa.values.records import FPDULog, FPDURow, rows_of
from scapy_mpa.values.segment import Segment

#: A repeated segment is known to begin with an FPDU if that is among so many last ones.
REMEMBERED_BOUNDARIES = 4096
_NOWHERE = array("q")
#: Segments whose alignment is not known yet; of any beyond, it is not told.
MOST_UNJUDGED = 65536


class Counts:
    """FPDUs, octets and segments of one half connection; the names are those of the report.

    Attributes:
        delivered_late: FPDUs that were placed before they were delivered.
        undelivered: FPDUs that were placed but never delivered.
        cut_fpdus: FPDUs known to begin but cut by a gap.
        unlocated_octets: octets captured in which no FPDU was found, because it was not known where one begins.
        whole_segments: segments in order that hold nothing but whole FPDUs and are not among the other segments yet:
            see :meth:`settle`.
    """

    __slots__ = (
        "crc_errors",
        "cut_fpdus",
        "delivered_late",
        "fpdu_aligned_segments",
        "fpdus",
        "header_aligned_segments",
        "marker_count",
        "missing_octets",
        "out_of_order_segments",
        "retransmitted_segments",
        "segments",
        "stream_octets",
        "ulpdu_octets",
        "undelivered",
        "unlocated_octets",
        "whole_segments",
    )

    def __init__(self) -> None:
        self.fpdus = 0
        self.crc_errors = 0
        self.delivered_late = 0
        self.undelivered = 0
        self.cut_fpdus = 0
        self.marker_count = 0
        self.ulpdu_octets = 0
        self.stream_octets = 0
        self.missing_octets = 0
        self.segments = 0
        self.unlocated_octets = 0
        self.header_aligned_segments = 0
        self.fpdu_aligned_segments = 0
        self.out_of_order_segments = 0
        self.retransmitted_segments = 0
        self.whole_segments = 0

    def pass_in_order(self, fpdus: int, ulpdu_octets: int, markers: int, undelivered: int) -> None:
        """FPDUs were read in order."""
        self.fpdus += fpdus
        self.ulpdu_octets += ulpdu_octets
        self.marker_count += markers
        self.undelivered += undelivered

    def pass_whole_segment(self, fpdus: int, ulpdu_octets: int, markers: int, undelivered: int) -> None:
        """A segment in order held just these FPDUs."""
        self.whole_segments += 1
        self.fpdus += fpdus
        self.ulpdu_octets += ulpdu_octets
        self.marker_count += markers
        self.undelivered += undelivered

    def pass_located(self, ulpdu_octets: int, markers: int, is_bad: bool, is_late: bool, is_undelivered: bool) -> None:
        """One FPDU was passed, wherever it was placed."""
        self.fpdus += 1
        self.ulpdu_octets += ulpdu_octets
        self.marker_count += markers
        self.crc_errors += is_bad
        self.delivered_late += is_late
        self.undelivered += is_undelivered

    def take_segment(self, is_repeat: bool = False, is_late: bool = False) -> None:
        """A segment came: one that brought nothing new, or one that came later than others behind it, or neither."""
        self.segments += 1
        self.retransmitted_segments += is_repeat
        self.out_of_order_segments += is_late

    def take_segments_in_order(self, segments: int, late: int) -> None:
        """Segments came, so many of them later than others behind them."""
        self.segments += segments
        self.out_of_order_segments += late

    def align(self, holds_whole_fpdus: bool) -> None:
        """A segment began with an FPDU."""
        self.header_aligned_segments += 1
        self.fpdu_aligned_segments += holds_whole_fpdus

    def finish(self, cut_fpdus: int, stream_octets: int, missing_octets: int, unlocated_octets: int) -> None:
        """The half connection is over."""
        self.cut_fpdus = cut_fpdus
        self.stream_octets = stream_octets
        self.missing_octets = missing_octets
        self.unlocated_octets = unlocated_octets

    def settle(self) -> None:
        """Count the segments of whole FPDUs as what they are: segments, which begin and end with an FPDU."""
        whole, self.whole_segments = self.whole_segments, 0
        self.segments += whole
        self.header_aligned_segments += whole
        self.fpdu_aligned_segments += whole

    def take_segments(self, other: Counts) -> None:
        """Take over how many segments came, which does not depend on how FPDUs are read."""
        other.settle()
        self.segments = other.segments
        self.out_of_order_segments = other.out_of_order_segments
        self.retransmitted_segments = other.retransmitted_segments

    @property
    def placed(self) -> int:
        """FPDUs placed: all whose CRC is not bad."""
        return self.fpdus - self.crc_errors

    @property
    def delivered(self) -> int:
        """FPDUs delivered: placed, with nothing missing before them."""
        return self.placed - self.undelivered

    @property
    def placed_out_of_order(self) -> int:
        """FPDUs placed before they were delivered, or never delivered."""
        return self.delivered_late + self.undelivered


class Settlement:
    """What came of the FPDUs of one half connection.

    Args:
        reassembly: its octets.
        layout: how FPDUs lie in it.
        log: takes a record of each FPDU, None if records are not wanted.
        delivers_from_first_located: whether delivery counts from the first FPDU located, the beginning not having been
            captured.

    Attributes:
        counts: what was counted.
        complete: the largest complete frame of all FPDUs passed, 0 if there was none.
        complete_time: its time in nanoseconds.
        gapped: whether octets below were never captured, so that nothing more is delivered.
        first_error: (frame, offset) of the first error of code 2 or 3.
        first_frame: the frame at which the first FPDU was located.
        located_octets: octets that FPDUs hold; ``located_end`` is the end of the last one.
        unjudged: (end, start) of segments whose alignment is known when the chain has passed them.
    """

    __slots__ = (
        "_crc",
        "_ends",
        "_markers",
        "_reassembly",
        "_starts",
        "complete",
        "complete_time",
        "counts",
        "delivers_from_first_located",
        "first_error",
        "first_frame",
        "gapped",
        "located_end",
        "located_octets",
        "log",
        "unjudged",
    )

    def __init__(
        self, reassembly: Reassembly, layout: Layout, log: FPDULog | None, delivers_from_first_located: bool
    ) -> None:
        self.delivers_from_first_located = delivers_from_first_located
        self._reassembly = reassembly
        self._crc = records.GOOD if layout.crc else records.UNCHECKED
        self._markers = layout.markers
        self.log = log
        self.counts = Counts()
        self.complete = self.complete_time = 0
        self.gapped = False
        self.first_error: tuple[int, int] | None = None
        self.first_frame = NEVER
        self.located_octets = self.located_end = 0
        #: Where the last FPDUs begin, and where recovery saw one end; both ascend.
        self._starts = array("q")
        self._ends = array("q")
        self.unjudged: list[tuple[int, int]] = []

    # --- FPDUs ---

    def pass_in_order(self, seg: Segment, begin: int, ends: list[int], ulpdu_octets: int, markers: int) -> None:
        """FPDUs that a segment in order completed, the first from ``begin``; others than they it does not hold."""
        fpdus = len(ends)
        self._starts.append(begin)
        if fpdus > 1:
            self._starts.fromlist(ends[:-1])
        self.counts.pass_whole_segment(fpdus, ulpdu_octets, markers, fpdus if self.gapped else 0)
        self.complete, self.complete_time = seg.frame, seg.time

    def pass_part(self, seg: Segment, begin: int, ends: list[int], ulpdu_octets: int, markers: int) -> None:
        """FPDUs that a segment in order completed, the first from ``begin``, in front of or behind parts of others."""
        self._begin_at(begin, ends)
        fpdus = len(ends)
        self.counts.pass_in_order(fpdus, ulpdu_octets, markers, fpdus if self.gapped else 0)
        self.complete, self.complete_time = seg.frame, seg.time

    def _begin_at(self, begin: int, ends: list[int]) -> None:
        self._starts.append(begin)
        if len(ends) > 1:
            self._starts.fromlist(ends[:-1])

    def pass_pieces(self, begin: int, ends: list[int], fpdus: list[int], pieces: list[Piece]) -> list[Moment]:
        """FPDUs that several pieces hold, the first from ``begin``.

        Args:
            begin: the offset of the first.
            ends: where each ends.
            fpdus: ULPDU_Length + opcode * 2^16 of each.
            pieces: what holds them, without a hole.

        Returns:
            The moment at which each was placed.
        """
        counts, log, markers_used = self.counts, self.log, self._markers
        complete, gapped, at = self.complete, self.gapped, 0
        known: Moment = (0, 0)
        placed = []
        offset = begin
        self._begin_at(begin, ends)
        self._ends.fromlist(ends)
        for end, fpdu in zip(ends, fpdus, strict=True):
            while pieces[at].end <= offset:
                at += 1
            first = at
            latest = pieces[at].seg
            while pieces[at].end < end:
                at += 1
                seg = pieces[at].seg
                if seg.frame > latest.frame:
                    latest = seg
            ulpdu_length = fpdu & 0xFFFF
            markers = (end - offset - plain_length(ulpdu_length)) // MARKER_LENGTH if markers_used else 0
            before, known = known, (latest.frame, latest.time)
            if known[0] > complete:
                complete, self.complete_time = known
            located_by = records.LENGTH
            if not markers:
                known = max(known, before)
            elif before[0] > known[0]:
                located_by = records.MARKER
            self.first_frame = min(self.first_frame, known[0])
            counts.pass_located(ulpdu_length, markers, False, known[0] < complete and not gapped, gapped)
            if log is not None:
                frames = frames_of(pieces[first : at + 1])
                row = self._row(offset, end, fpdu, markers, located_by, known, 0 if gapped else complete, frames)
                log.add(row, frames)
            placed.append(known)
            offset = end
        self.complete = complete
        return placed

    def pass_located(self, located: Located) -> int:
        """An FPDU that recovery located; returns the frame at which it is delivered, 0 if it is not."""
        extent, is_bad = located.extent, located.placed is None
        self.locate(located.offset, located.end)
        self.first_frame = min(self.first_frame, located.known[0])
        self._starts.append(located.offset)
        self._ends.append(located.end)
        if located.complete[0] > self.complete:
            self.complete, self.complete_time = located.complete
        complete = self.complete
        delivered = 0 if is_bad or self.gapped else complete
        is_late = delivered > located.known[0]
        self.counts.pass_located(extent.ulpdu_length, extent.markers, is_bad, is_late, self.gapped and not is_bad)
        if self.log is not None:
            self.log.add(self.row(located, delivered), located.frames)
        return delivered

    def locate(self, start: int, end: int) -> None:
        """FPDUs lie in [start, end)."""
        self.located_octets += max(0, end - max(start, self.located_end))
        self.located_end = max(self.located_end, end)

    def lose_octets(self) -> None:
        """Octets were never captured: delivery ends there, unless it has not begun."""
        self.gapped = bool(self.counts.fpdus) or not self.delivers_from_first_located

    def end_delivery(self) -> None:
        """Nothing more is delivered."""
        self.gapped = True

    def take_error(self, breach: Breach) -> None:
        """An error of code 2 or 3 showed: a conforming receiver passes nothing that comes after the first."""
        place = breach.frame, breach.offset
        if self.first_error is None or place < self.first_error:
            self.first_error = place

    # --- records ---

    def row(self, located: Located, delivered: int) -> FPDURow:
        """The row of an FPDU that recovery located."""
        extent = located.extent
        frame, time = located.placed or located.complete
        return FPDURow(
            self._reassembly.seq_of(extent.offset),
            self._reassembly.seq_of(extent.header),
            extent.end - extent.offset,
            extent.ulpdu_length,
            extent.markers,
            records.flags(located.crc, located.located_by, self._is_after_error(frame, located.offset)),
            located.opcode,
            located.placed[0] if located.placed else 0,
            delivered,
            time,
            len(located.frames),
            located.frames[0],
        )

    def _row(
        self,
        offset: int,
        end: int,
        fpdu: int,
        markers: int,
        located_by: int,
        placed: Moment,
        delivered: int,
        frames: tuple[int, ...],
    ) -> FPDURow:
        has_leading_marker = self._markers and not offset % MARKER_INTERVAL
        return FPDURow(
            self._reassembly.seq_of(offset),
            self._reassembly.seq_of(offset + MARKER_LENGTH if has_leading_marker else offset),
            end - offset,
            fpdu & 0xFFFF,
            markers,
            records.flags(self._crc, located_by, self._is_after_error(placed[0], offset)),
            fpdu >> 16,
            placed[0],
            delivered,
            placed[1],
            len(frames),
            frames[0],
        )

    def _is_after_error(self, frame: int, offset: int) -> bool:
        return self.first_error is not None and (frame, offset) > self.first_error

    def record_in_order(
        self, seg: Segment, begin: int, fpdus: list[int], held: list[Piece], wants_rows: bool
    ) -> list[tuple[FPDURow, tuple[int, ...]]]:
        """Record FPDUs that a segment in order completed; ``held`` is what had come of the first, from ``begin``.

        Returns the rows and frames of all of them, if they are asked for.
        """
        log, frame, time = self.log, seg.frame, seg.time
        seq_start = self._reassembly.origin if self._markers else None
        told: list[tuple[FPDURow, tuple[int, ...]]] = []
        is_after = self.first_error is not None
        delivered = 0 if self.gapped else frame
        flag = records.flags(self._crc, records.LENGTH if begin else records.START, is_after)
        if held or not begin:
            run = _run(self._reassembly.seq_of(begin), flag, frame, delivered, time)
            (row,) = rows_of(run, fpdus[:1], seq_start)
            frames = (*sorted({piece.seg.frame for piece in held}), frame)
            row = row._replace(frame_count=len(frames), first_frame=frames[0])
            if log is not None:
                log.add(row, frames)
            told.append((row, frames))
            begin += row.wire_length
            fpdus = fpdus[1:]
            flag = records.flags(self._crc, records.LENGTH, is_after)
        if fpdus:
            seq = self._reassembly.seq_of(begin)
            if log is not None:
                log.add_run(seq, flag, frame, delivered, time, fpdus)
            if wants_rows:
                run = _run(seq, flag, frame, delivered, time)
                told += ((row, (frame,)) for row in rows_of(run, fpdus, seq_start))
        return told

    def mark_after_error(self, floor: int) -> None:
        """The half connection is over: an error may have shown later than FPDUs that its frame precedes."""
        if self.log is not None and self.first_error is not None:
            self.log.mark_after(self.first_error, self._reassembly.origin, floor)

    # --- alignment of segments (RFC 5044 §2) ---

    def judge_later(self, start: int, end: int) -> None:
        """Judge the alignment of a segment when all FPDUs up to its end are known."""
        if len(self.unjudged) < MOST_UNJUDGED:
            heappush(self.unjudged, (end, start))

    def judge(self, offset: int, at: int | None = None) -> None:
        """FPDUs are known up to an offset: judge the segments that end there or before.

        ``at`` is where the next FPDU begins, None if that is not known.
        """
        unjudged = self.unjudged
        while unjudged and unjudged[0][0] <= offset:
            end, start = heappop(unjudged)
            if _holds(self._starts, start):
                self.counts.align(self.is_boundary(end, at))

    def is_boundary(self, offset: int, at: int | None) -> bool:
        """Whether an FPDU begins or ends at an offset; ``at`` is as :meth:`judge` has it."""
        return offset == at or _holds(self._starts, offset) or _holds(self._ends, offset)

    def begins_at(self, offset: int) -> bool:
        """Whether an FPDU begins at an offset."""
        return _holds(self._starts, offset)

    def start_before(self, offset: int) -> int:
        """Where the last FPDU begins that begins at an offset or before, -1 if none does."""
        index = bisect_right(self._starts, offset) - 1
        return self._starts[index] if index >= 0 else -1

    def start_from(self, offset: int) -> int:
        """Where the first FPDU begins that begins at an offset or behind it, -1 if none is known to."""
        index = bisect_left(self._starts, offset)
        return self._starts[index] if index < len(self._starts) else -1

    def know_start(self, offset: int) -> None:
        """An FPDU begins at an offset, though it may never be complete."""
        if not self._starts or self._starts[-1] < offset:
            self._starts.append(offset)

    def release(self) -> None:
        """Forget boundaries of long ago."""
        if len(self._starts) > 2 * REMEMBERED_BOUNDARIES:
            del self._starts[:-REMEMBERED_BOUNDARIES]
        if len(self._ends) > 2 * REMEMBERED_BOUNDARIES:
            del self._ends[:-REMEMBERED_BOUNDARIES]

    def let_go(self) -> None:
        """The TCP connection is over: no alignment is judged any more."""
        self.unjudged.clear()
        self._starts = self._ends = _NOWHERE


def _run(seq: int, flag: int, frame: int, delivered: int, time: int) -> FPDURow:
    return FPDURow(seq, 0, 0, 0, 0, flag, records.NO_OPCODE, frame, delivered, time, 0, frame)


def _holds(ascending: array[int], offset: int) -> bool:
    index = bisect_left(ascending, offset)
    return index < len(ascending) and ascending[index] == offset
