"""Segments in order, and those beyond a hole that wait for them: read by scan, all that is there at once (RFC 5044 §6).

A segment that follows what is held is read together with the part of an FPDU that is held.  One beyond a hole is
*postponed* where a CRC will tell what it holds: when the hole is filled, everything in order is read at once, and the
frames say when each FPDU was complete.  As soon as something does not fit, nothing has been changed, and the segment
goes to recovery, after those postponed, in the order in which they were captured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.receive.located import Breach
from scapy_mpa.receive.reassembly import (
    FARTHEST_POSTPONED,
    MOST_POSTPONED,
    PIECE_WEIGHT,
    Piece,
    Postponed,
    Reassembly,
)
from scapy_mpa.receive.scan import Found, FPDUReader, Scan, Unusual
from scapy_mpa.receive.settlement import Settlement
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.limits import Limits
from scapy_mpa.values.records import FPDURow
from scapy_mpa.values.segment import Segment
from scapy_mpa.watch.fpdus import FPDUWatches
from scapy_mpa.watch.opening import Opening
from scapy_mpa.watch.segments import SegmentWatches

#: Pieces of an FPDU that are read again, from its first octet, with each segment that follows.
_MOST_READ_AGAIN = 64


class InOrder:
    """The segments in order of one half connection.

    Args:
        half: the direction of the TCP connection.
        reader: reads single FPDUs of its octets.
        floor: the moment at which both startup frames were there.
        limits: how much is held back at most.
        settlement: takes what was read.
        watches: are shown FPDUs.
        segments: are shown segments.
        opening: takes the first FPDU.
        report: takes the rules that are broken.
        tell: takes the row, the frames and the octets of each FPDU, None if nobody wants them as they are placed.

    Attributes:
        next_seq: the sequence number of the segment that may be taken; -1 if none may.
    """

    __slots__ = (
        "_floor",
        "_half",
        "_limits",
        "_markers",
        "_may_postpone",
        "_need",
        "_opening",
        "_postponed",
        "_reader",
        "_reassembly",
        "_report",
        "_resumed",
        "_scan",
        "_segments",
        "_settlement",
        "_tell",
        "_wants_fpdus",
        "_watches",
        "next_seq",
    )

    def __init__(
        self,
        half: Half,
        reader: FPDUReader,
        floor: Moment,
        limits: Limits,
        settlement: Settlement,
        watches: FPDUWatches,
        segments: SegmentWatches,
        opening: Opening,
        report: Callable[[Sequence[Breach]], None],
        tell: Callable[[FPDURow, tuple[int, ...], bytes], None] | None,
    ) -> None:
        self._half = half
        self._reader = reader
        self._reassembly: Reassembly = reader.reassembly
        self._scan = Scan(reader.layout)
        self._markers = reader.layout.markers
        self._floor = floor
        self._limits = limits
        self._settlement = settlement
        self._watches = watches
        self._segments = segments
        self._opening = opening
        self._report = report
        self._tell = tell
        self._wants_fpdus = tell is not None or settlement.log is not None
        #: Without a CRC it is Markers that decide, and each one counts from the frame that brought it.  And who wants
        #: to know of each FPDU as it is placed cannot wait.
        self._may_postpone = tell is None and (reader.layout.crc or not reader.layout.markers)
        #: What was postponed, None if nothing is known to be missing.
        self._postponed: Postponed | None = None
        #: The end of the FPDU of which a part is held; 0 if its length is not known yet.
        self._need = 0
        #: Up to where segments are judged, or will be; what was taken in order since is not.
        self._resumed = 0
        self.next_seq = -1

    # --- from recovery and to it ---

    def resume(self, is_in_order: bool) -> None:
        """Recovery has taken a segment; ``is_in_order`` says that it leaves nothing out of order."""
        reassembly = self._reassembly
        self._resumed = reassembly.next
        self.next_seq = -1
        if not is_in_order or self._half.rst is not None:
            return
        extent = self._reader.extent(reassembly.base, reassembly.next)
        # Scan has no memory: what Markers of this FPDU said already must not be forgotten.
        if extent is not None and self._reader.disagreement(extent, reassembly.next) is not None:
            return
        self._watches.begin_at(reassembly.base)
        self.next_seq = reassembly.seq_of(reassembly.next)
        self._need = extent.end if extent is not None else 0

    def leave(self) -> None:
        """Recovery takes the next segment."""
        if self.next_seq >= 0:
            self._judge_later()

    def _judge_later(self) -> None:
        """Have segments judged that were taken for parts of an FPDU.

        They begin with one after all, if its length turns out to be wrong.
        """
        reassembly = self._reassembly
        for piece in reassembly.pieces[max(1, bisect_left(reassembly.starts, self._resumed)) :]:
            self._settlement.judge_later(piece.start, piece.end)

    @property
    def has_postponed(self) -> bool:
        """Whether segments wait for those before them."""
        return self._postponed is not None

    @property
    def highest(self) -> int:
        """The end of the last octet that is postponed, 0 if none is."""
        return self._postponed.highest if self._postponed is not None else 0

    @property
    def weight(self) -> int:
        """Octets of memory that what is postponed takes."""
        postponed = self._postponed
        return postponed.octets + PIECE_WEIGHT * len(postponed.starts) if postponed is not None else 0

    def stop_waiting(self) -> list[Segment]:
        """What was postponed, in the order of capture: recovery takes it."""
        postponed, self._postponed = self._postponed, None
        if postponed is None:
            return []
        self.next_seq = self._reassembly.seq_of(self._reassembly.next)
        return [seg for _, seg, _ in postponed.segments.values()]

    def release(self) -> bool:
        """The block of the capture goes; True if something is postponed."""
        if self._postponed is not None:
            self._postponed.detach()
        return self._postponed is not None

    # --- the next segment in order ---

    def take(self, seg: Segment) -> bool:
        """Take the next segment in order; False, with nothing done, if it holds a surprise."""
        reassembly, length = self._reassembly, seg.length
        begin = reassembly.next
        end = begin + length
        # What comes after a FIN or RST is looked at one by one; a Marker cut by a segment's end is left to recovery.
        if (
            self._half.fin is not None
            or self._half.rst is not None
            or seg.end - seg.start != length
            or (self._markers and (0 < begin & 511 < 4 or 0 < end & 511 < 4))
        ):
            return False
        pieces = reassembly.pieces
        if pieces:
            if self._need <= begin or ((self._markers or end >= self._need) and self._is_header_cut(pieces[0])):
                return False
            if end < self._need:
                return self._take_part(seg)
            octets = self._joined(pieces, seg)
            first, last, begin = 0, end - reassembly.base, reassembly.base
        else:
            octets, first, last = seg.buffer, seg.start, seg.end
        ends: list[int] = []
        unusual: list[Unusual] = []
        fpdus: list[int] | None = [] if self._wants_fpdus else None
        watches = self._watches
        shift = begin - first
        found = self._scan.read(octets, first, last, shift, watches.usual, watches.ddp.to, ends, fpdus, unusual)
        if found is None:
            return False
        if not ends:
            self._hold(seg, found.need)
            return True
        if unusual:
            self._show(octets, shift, found, unusual, (seg.frame, seg.time))
        elif watches.usual.writing:
            watches.ddp.write_on(found.to)
        self._settle(seg, octets, begin, shift, found, ends, fpdus)
        return True

    def _settle(
        self,
        seg: Segment,
        octets: memoryview,
        begin: int,
        shift: int,
        found: Found,
        ends: list[int],
        fpdus: list[int] | None,
    ) -> None:
        """FPDUs were read that the segment completed."""
        reassembly, settlement, pieces = self._reassembly, self._settlement, self._reassembly.pieces
        consumed, length = ends[-1], seg.length
        if length > self._segments.longest:
            self._segments.lengthen(length)
        if fpdus:
            self._record(seg, octets, begin, shift, fpdus)
        if not settlement.complete:
            first = pieces[0].seg if pieces else seg
            self._opening.begin(octets, begin - shift, max((seg.frame, seg.time), self._floor), first)
        is_whole = consumed == reassembly.next + length
        if is_whole and not pieces:
            settlement.pass_in_order(seg, begin, ends, found.ulpdu_octets, found.markers)
        else:
            settlement.pass_part(seg, begin, ends, found.ulpdu_octets, found.markers)
            if pieces:
                self._goes_on(seg)
            settlement.counts.take_segment()
            if not pieces:
                # Whether it ends with an FPDU may turn out otherwise than that length says.
                settlement.judge_later(reassembly.next, reassembly.next + length)
        reassembly.take_next(seg, consumed)
        if settlement.unjudged:
            settlement.judge(consumed, consumed)
        self._need = found.need
        self.next_seq = seg.seq + length & SEQ_MASK

    def _hold(self, seg: Segment, need: int) -> None:
        """The segment begins with an FPDU, and holds no whole one."""
        reassembly, settlement = self._reassembly, self._settlement
        self._segments.lengthen(seg.length)
        settlement.counts.take_segment()
        settlement.judge_later(reassembly.next, reassembly.next + seg.length)
        reassembly.hold_next(seg)
        settlement.judge(reassembly.base, reassembly.base)
        self._need = need
        self.next_seq = reassembly.seq_of(reassembly.next)

    def _take_part(self, seg: Segment) -> bool:
        """The segment brings a part of an FPDU, and neither begins nor ends it; False if a Marker says otherwise."""
        reassembly = self._reassembly
        if not self._scan.part_agrees(seg.buffer, seg.start, seg.end, reassembly.next - seg.start, reassembly.base):
            return False
        detail = self._segments.take_part(seg.length)
        if detail:
            breach = Breach("attack-path-mtu", reassembly.next, seg.frame, seg.time, detail)
            self._report(self._segments.explained((breach,), seg.length))
        self._goes_on(seg)
        self._settlement.counts.take_segment()
        reassembly.hold_next(seg)
        self.next_seq = reassembly.seq_of(reassembly.next)
        return True

    def _is_header_cut(self, piece: Piece) -> bool:
        """Whether ULPDU_Length and control octets are not all in the first piece held."""
        header = piece.start + 4 if self._markers and not piece.start & 511 else piece.start
        return piece.end < header + 4

    @staticmethod
    def _joined(pieces: list[Piece], seg: Segment) -> memoryview:
        parts = [piece.seg.buffer[piece.at : piece.at + piece.end - piece.start] for piece in pieces]
        parts.append(seg.buffer[seg.start : seg.end])
        return memoryview(b"".join(parts))

    def _goes_on(self, seg: Segment) -> None:
        """The segment does not begin with an FPDU: it is the first such, or nothing was under way before it."""
        alignment = self._segments.alignment
        is_acknowledged = self._half.peer.ack == seg.seq
        if is_acknowledged or alignment.first is None:
            reassembly, when = self._reassembly, (seg.frame, seg.time)
            counts = self._settlement.counts
            alignment.goes_on(reassembly.next, when, reassembly.pieces[-1], is_acknowledged, counts)

    def _show(self, octets: memoryview, shift: int, found: Found, unusual: list[Unusual], known: Moment) -> None:
        """Show the watches FPDUs that are not as usual, all of them complete at the same moment."""
        watches = self._watches
        if watches.usual.writing:
            watches.ddp.write_on(found.to)
        for one in unusual:
            breaches = watches.show(octets, one, shift, known)
            if breaches:
                self._report(breaches)

    def _record(self, seg: Segment, octets: memoryview, begin: int, shift: int, fpdus: list[int]) -> None:
        tell = self._tell
        held = self._reassembly.pieces
        for row, frames in self._settlement.record_in_order(seg, begin, fpdus, held, tell is not None):
            if tell is not None:
                index = begin - shift
                tell(row, frames, bytes(octets[index : index + row.wire_length]))
                begin += row.wire_length

    # --- segments beyond a hole ---

    @property
    def latest_postponed(self) -> int:
        """The frame of the last segment that was put aside, 0 if none is."""
        return self._postponed.latest if self._postponed is not None else 0

    def postpone_or_take(self, seg: Segment) -> bool:
        """Put a segment aside that lies beyond a hole, or take the next one and all that waited for it.

        False, with nothing done, if it must go to recovery.
        """
        reassembly, postponed = self._reassembly, self._postponed
        if (postponed is None and self.next_seq < 0) or not self._may_postpone:
            return False
        start, length = reassembly.offset_of(seg.seq), seg.length
        ahead = start - reassembly.next
        if (
            not 0 <= ahead <= FARTHEST_POSTPONED
            or self._half.rst is not None
            or len(reassembly.pieces) > _MOST_READ_AGAIN
            or seg.end - seg.start != length
            or not self._settlement.complete
        ):
            return False
        if postponed is None:
            if not ahead:
                return self._take_followers(seg, start + length, None)
            postponed = Postponed(reassembly.next)
        count, limits = len(postponed.starts) + len(reassembly.pieces) + 1, self._limits
        held = reassembly.held + postponed.octets + length + PIECE_WEIGHT * count
        if count > min(MOST_POSTPONED, limits.held_segments) or held > limits.held_octets:
            return False
        if not ahead:
            return self._take_followers(seg, start + length, postponed)
        if not postponed.add(start, start + length, seg):
            return False
        self._postponed = postponed
        self.next_seq = -1
        return True

    def _take_followers(self, seg: Segment, end: int, postponed: Postponed | None) -> bool:
        """Take the next segment in order and what waited for it; False, with nothing done, for a surprise."""
        reassembly, settlement, watches = self._reassembly, self._settlement, self._watches
        new = [Piece(reassembly.next, end, seg.start, seg)]
        followers: list[int] = []
        late = 0
        if postponed is not None:
            if postponed.starts[0] < end:
                return False
            followers = postponed.in_order_from(end)
            # The next one in order comes behind one that waits.
            late = 1
            for first in followers:
                end, follower, is_late = postponed.segments[first]
                new.append(Piece(first, end, follower.start, follower))
                late += is_late
        pieces, base = [*reassembly.pieces, *new], reassembly.base
        octets = memoryview(b"".join([p.seg.buffer[p.at : p.at + p.end - p.start] for p in pieces]))
        ends: list[int] = []
        fpdus: list[int] = []
        unusual: list[Unusual] = []
        found = self._scan.read(octets, 0, end - base, base, watches.usual, watches.ddp.to, ends, fpdus, unusual)
        if found is None:
            return False
        self._judge_later()
        for piece in new:
            self._segments.lengthen(piece.end - piece.start)
            settlement.judge_later(piece.start, piece.end)
        settlement.counts.take_segments_in_order(len(new), late)
        if ends:
            placed = settlement.pass_pieces(base, ends, fpdus, pieces)
            if watches.usual.writing:
                watches.ddp.write_on(found.to)
            for one, known in zip(unusual, placed[len(ends) - len(unusual) :], strict=True):
                breaches = watches.show(octets, one, base, known)
                if breaches:
                    self._report(breaches)
        reassembly.take_followers(new, ends[-1] if ends else base)
        self._resumed, self._need = end, found.need
        settlement.judge(reassembly.base, reassembly.base)
        if postponed is not None:
            postponed.remove(followers)
            if postponed.starts:
                return True
        self._postponed = None
        self.next_seq = reassembly.seq_of(end)
        return True
