"""Full Operation of one half connection: segments in, FPDU records, counts and breaches out (RFC 5044 §4, §6, §8).

This is the whole of it, for any segment.  :mod:`~scapy_mpa.receive.inorder` adds a fast path in front.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from scapy_mpa.framing.ddp import decode_terminate
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.receive import records
from scapy_mpa.receive.counts import Counts
from scapy_mpa.receive.limits import Limits
from scapy_mpa.receive.located import NEVER, Located, Moment, Outcome
from scapy_mpa.receive.placement import CHAIN, DROPPED, Placement
from scapy_mpa.receive.reader import FPDUReader
from scapy_mpa.receive.records import FPDULog, Row
from scapy_mpa.receive.segment import END, FRAME, LENGTH, SEQ, SEQ_MASK, START, TIME, Segment, checksum_is_wrong
from scapy_mpa.receive.stream import MAX_WINDOW, Stream, is_cut

if TYPE_CHECKING:
    from scapy_mpa.receive.startup import FoundFrame
    from scapy_mpa.receive.tcp import Half, MPAConnection

Direction: TypeAlias = Literal["initiator", "responder"]
#: What is handed each FPDU when it is placed (or found bad): its row and its frames.
PlacedSink: TypeAlias = "Callable[[FullOperation, Row, tuple[int, ...]], None]"


class Observer(Protocol):
    """Who wants the octets too, as soon as they mean something."""

    def startup(self, mpa: MPAConnection, direction: Direction, found: FoundFrame) -> None:
        """A startup frame is complete."""

    def placed(self, operation: FullOperation, row: Row, octets: bytes) -> None:
        """An FPDU was placed, or found bad; ``octets`` are all of its octets, Markers included."""

    def delivered(self, operation: FullOperation, row: Row) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""


#: A repeated segment is known to begin with an FPDU if that is among so many last ones.
REMEMBERED_BOUNDARIES = 4096
#: Segments whose alignment is not known yet; of any beyond, it is not told.
MOST_UNJUDGED = 65536
#: So far behind the last octet captured an RST is believed to tell what was sent.
_MOST_UNSEEN = 1 << 24
#: So far an acknowledgement number may move before it is looked at: much less than sequence numbers can tell apart.
_UNSEEN_ACKS = 1 << 24
#: What a half connection may hold back whatever all others do.
_LITTLE = 4096


class FullOperation:
    """One half connection after the startup frames.

    ``counts`` and ``log`` grow as segments come; ``log`` is None unless records are wanted, ``sink`` unless each
    FPDU is wanted as it is placed.  Breaches go to ``findings``.  ``floor`` is (frame, nanoseconds) at which both
    startup frames were there; ``begins_at`` is the offset of the first FPDU, None if that is not known; ``may_search``
    whether one may be searched for where Markers do not help.
    """

    def __init__(
        self,
        mpa: MPAConnection,
        half: Half,
        direction: Direction,
        reader: FPDUReader,
        floor: Moment,
        limits: Limits,
        log: FPDULog | None = None,
        sink: PlacedSink | None = None,
        observer: Observer | None = None,
        begins_at: int | None = 0,
        may_search: bool = True,
    ) -> None:
        self.mpa = mpa
        self.half = half
        self.direction: Direction = direction
        self.stream: Stream = reader.stream
        self.markers = reader.markers
        self.crc = reader.crc
        self.findings = mpa.findings
        self.counts = Counts()
        self.log = log
        if log is not None and reader.markers:
            log.seq_start = reader.stream.origin
        self.sink = sink
        self.observer = observer
        #: Whether somebody wants to know of each FPDU.
        self.wants_records = log is not None or sink is not None or observer is not None
        self.floor = floor
        #: Whether octets below were never captured, so that nothing more is delivered.
        self.gapped = False
        #: The largest complete frame of all FPDUs the chain has passed.
        self.complete = 0
        #: (frame, offset) of the first error of code 2 or 3.
        self.first_error: tuple[int, int] | None = None
        #: Where the last FPDUs begin, and where the slow path saw one end; both ascend.
        self.starts = array("q")
        self._ends = array("q")
        #: (end, start) of segments whose alignment is told when the chain has passed them.
        self._unjudged: list[tuple[int, int]] = []
        self._limits = limits
        self._reader = reader
        self._placement = Placement(self.stream, reader, floor, observer is not None, begins_at, may_search)
        #: Whether delivery counts from the first FPDU located, the beginning not having been captured.
        self._from_first_located = begins_at is None
        #: The frame at which the first FPDU was located.
        self.first_frame = NEVER
        #: The first octets of the ULPDU of the FPDU with which Full Operation began, if that was captured.
        self.first_ulpdu: bytes | None = None
        #: The peer's acknowledgement number that was looked at last, and the highest offset acknowledged.
        self._last_ack = -1
        self._acked = 0
        #: Octets that FPDUs hold, and the end of the last one.
        self._located_octets = 0
        self._located_end = 0
        #: The end of the farthest packet that the capture cut.
        self._wire_end = 0
        #: Whether the receiver knows that there is something to release.
        self._touched = False
        half.next_seq = -1

    def touch(self) -> None:
        """Have :meth:`release` called when the block of the capture goes."""
        self._touched = True
        self.half.connection.receiver.touched.append(self)

    def in_order(self, seg: Segment) -> bool:
        """Take the next segment in order; False, with nothing done, if it must go to :meth:`receive`."""
        return False

    def receive(self, seg: Segment) -> None:
        """Take any segment with payload."""
        if not self.half.connection.begins_anew(self.half, seg):
            self._receive(seg)

    def _receive(self, seg: Segment) -> None:
        new = self._commit(seg)
        if new:
            self._place(max((seg[FRAME], seg[TIME]), self.floor), new)
        self._judge_passed(self.stream.base)
        self.resume()

    def replay(self, segments: list[Segment]) -> None:
        """Take the segments that waited for the startup frames: until then nothing of them was complete."""
        new: list[tuple[int, int]] = []
        waited = [seg for seg in segments if seg[FRAME] <= self.floor[0]]
        for seg in waited:
            new += self._commit(seg)
        if new:
            self._place(self.floor, new)
        self._judge_passed(self.stream.base)
        self.resume()
        for seg in segments[len(waited) :]:
            self._receive(seg)

    def _commit(self, seg: Segment) -> list[tuple[int, int]]:
        """Hold what a segment brings, and count it; returns the ranges of new octets."""
        stream, counts = self.stream, self.counts
        if not self._touched:
            self.touch()
        self._catch_up()
        start = stream.offset_of(seg[SEQ])
        end = start + seg[END] - seg[START]
        if start + seg[LENGTH] <= 0:
            return []  # the startup phase, once more
        reach = max(stream.highest, self._acknowledged())
        if start > reach + MAX_WINDOW or end < stream.next - MAX_WINDOW:
            detail = f"{start - stream.next} octets from those in order"
            self._find("outside-window", start, seg[FRAME], seg[TIME], detail)
            return []
        counts.segments += 1
        if is_cut(seg):
            cut = seg[LENGTH] - seg[END] + seg[START]
            self._wire_end = max(self._wire_end, start + seg[LENGTH])
            self._find("capture-cut", end, seg[FRAME], seg[TIME], f"{cut} octets of the payload are not captured")
        highest = stream.highest
        new: list[tuple[int, int]] = []
        # A keep-alive may bring one octet of anything (RFC 9293 §3.8.4).
        keep_alive = seg[LENGTH] == 1 and end == stream.next
        if start < end and self._agrees(seg, start, end, keep_alive):
            new = stream.commit(seg, start, end)
        if not new:
            counts.retransmitted_segments += 1
        elif new[0][0] < highest:
            counts.out_of_order_segments += 1
        if start >= 0 and len(self._unjudged) < MOST_UNJUDGED:
            heappush(self._unjudged, (end, start))
        return new

    def _place(self, now: Moment, new: list[tuple[int, int]]) -> None:
        stream = self.stream
        self._account(self._placement.work(now, new))
        limits = self._limits
        while stream.islands and (stream.weight > limits.held_octets or len(stream.pieces) > limits.held_segments):
            detail = f"more than {limits.held_octets} octets held back for a gap (held_octets)"
            if stream.weight <= limits.held_octets:
                detail = f"more than {limits.held_segments} segments held back for a gap (held_segments)"
            self._find("limit", stream.next, *now, detail)
            self._skip_gap(now)

    def resume(self) -> None:
        """Decide whether the next segment may take the fast path."""

    def release(self) -> bool:
        """The block of the capture that segments lie in goes: keep only what is still needed of it.

        True if something is left that has to go with the next block.
        """
        if len(self.starts) > 2 * REMEMBERED_BOUNDARIES:
            del self.starts[:-REMEMBERED_BOUNDARIES]
        if len(self._ends) > 2 * REMEMBERED_BOUNDARIES:
            del self._ends[:-REMEMBERED_BOUNDARIES]
        if self.half.peer.ack - self._last_ack & SEQ_MASK > _UNSEEN_ACKS:
            self._acknowledged()
        stream = self.stream
        stream.release()
        self._touched = bool(stream.previously_consumed)
        return self._touched

    def finish(self, now: Moment) -> None:
        """The half connection is over."""
        stream, placement, counts = self.stream, self._placement, self.counts
        self._catch_up()
        while stream.islands:
            self._skip_gap(now)
        self._know_start()
        self._account(placement.flush(now))
        self._know_start()
        if placement.has_rest:
            self.gapped = True
            self._account(placement.take_rest(now))
        sent, closed = self._sent_end(), self.half.closed
        if sent > stream.next:
            placement.cut += placement.is_inside_fpdu
            self._find_gap(stream.next, sent, closed[1] if closed is not None else now)
        elif stream.next + 1 < self._acknowledged() < stream.next + _MOST_UNSEEN:
            # More was sent, of which no frame knows: nothing can be said of how it ended.
            placement.cut += placement.is_inside_fpdu
        elif closed is not None and placement.is_inside_fpdu:
            how, when = closed
            latest = max((piece[3][FRAME], piece[3][TIME]) for piece in stream.pieces)
            if how == "FIN" or when >= latest:
                detail = f"{how} {stream.next - placement.at} octets into an FPDU"
                self._find("connection-lost", placement.at, *max(when, latest), detail)
        if self.log is not None and self.first_error is not None:
            # An error may have been told later than FPDUs that its frame precedes.
            self.log.mark_after(self.first_error, self.stream.origin, self.floor[0])
        counts.cut_fpdus = placement.cut
        counts.stream_octets = stream.captured
        counts.missing_octets = stream.highest - stream.first - stream.captured
        begun = stream.next - placement.at if placement.is_inside_fpdu else 0
        counts.unlocated_octets = max(0, stream.captured - self._located_octets - begun)
        self._judge_passed(stream.highest)

    def _catch_up(self) -> None:
        """Learn what the fast path has done: all octets it consumed were FPDUs."""
        if self._placement.catch_up((self.complete, 0)):
            self._note_located(self._located_end, self.stream.base)

    def _note_located(self, start: int, end: int) -> None:
        self._located_octets += max(0, end - max(start, self._located_end))
        self._located_end = max(self._located_end, end)

    def _acknowledged(self) -> int:
        """The offset up to which the peer has acknowledged, as far as was captured."""
        ack = self.half.peer.ack
        if ack > 0 and ack != self._last_ack:
            # Looked at long before it can be more than a window away.
            self._last_ack = ack
            self._acked = max(self._acked, self.stream.offset_of(ack))
        return self._acked

    def _sent_end(self) -> int:
        """The end of what this side says it sent, captured or not: by its FIN, its RST and packets that were cut."""
        stream, half = self.stream, self.half
        end = max(self._wire_end, stream.next)
        if half.fin is not None:
            return max(end, stream.offset_of(half.fin[0]))
        # A FIN takes a sequence number too, and may not have been captured.
        rst = stream.offset_of(half.rst[0]) - 1 if half.rst is not None else 0
        return max(end, rst) if rst < stream.next + _MOST_UNSEEN else end

    def row(self, located: Located) -> Row:
        """The row of an FPDU that was located."""
        extent, stream = located.extent, self.stream
        frame, time = located.placed or located.complete
        after_error = self.first_error is not None and (frame, located.offset) > self.first_error
        return (
            stream.seq_of(extent.offset),
            stream.seq_of(extent.header),
            extent.end - extent.offset,
            extent.ulpdu_length,
            extent.markers,
            records.flags(located.crc, located.located_by, after_error),
            located.opcode,
            located.placed[0] if located.placed else 0,
            located.delivered,
            time,
            len(located.frames),
            located.frames[0],
        )

    # --- octets ---

    def _agrees(self, seg: Segment, start: int, end: int, keep_alive: bool) -> bool:
        """Whether a segment may be committed; octets that differ from those at hand are looked into."""
        stream = self.stream
        if start >= stream.highest:
            return True
        differences = stream.differences(seg, start, end)
        if differences and not keep_alive and checksum_is_wrong(seg):
            self._find("tcp-checksum", start, seg[FRAME], seg[TIME], DROPPED)
            return False
        for offset, other in differences:
            if checksum_is_wrong(other):
                self._placement.withdraw([other], offset)
        differences = [place for place in differences if not checksum_is_wrong(place[1])]
        if differences and not keep_alive:
            offset, other = min(differences, key=lambda place: place[0])
            detail = f"an octet differs from what frame {other[FRAME]} brought; the first copy is kept"
            self._find("overlap", offset, seg[FRAME], seg[TIME], detail)
        return True

    def _skip_gap(self, now: Moment) -> None:
        stream, placement = self.stream, self._placement
        start, end = stream.next, stream.islands[0][0]
        beyond = stream.pieces_of(end, end + 1)[0][3]
        self._find_gap(start, end, (beyond[FRAME], beyond[TIME]))
        self._know_start()
        # What is told now lies before the gap: it can still be delivered.
        self._account(placement.give_up(now))
        self.gapped = bool(self.counts.fpdus) or not self._from_first_located
        self._account(placement.skip_gap(now))

    @property
    def weight(self) -> int:
        """Octets of memory that what is held back takes."""
        return self.stream.weight

    def relieve(self, now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        stream = self.stream
        self._catch_up()
        detail = f"more than {self._limits.total_octets} octets held back in all (total_octets)"
        self._find("limit", stream.next, *now, detail)
        while stream.islands and stream.weight > _LITTLE:
            self._skip_gap(now)
        if stream.weight > _LITTLE:
            self._account(self._placement.give_up(now))
            self.gapped = bool(self.counts.fpdus) or not self._from_first_located
            self._account(self._placement.drop(now))
        self.resume()

    def _find_gap(self, start: int, end: int, when: Moment) -> None:
        detail = f"{end - start} octets were not captured"
        acknowledged = self._acknowledged() >= end
        if acknowledged:
            detail += ", though the peer acknowledged them"
        self._find("capture-gap" if acknowledged else "gap", start, *when, detail)

    # --- what came of them ---

    def _account(self, outcome: Outcome) -> None:
        """Count, record and report what a frame changed."""
        for breach in outcome.breaches:
            self._find(breach.rule, breach.offset, breach.frame, breach.time, breach.detail)
            if breach.rule in ("crc", "marker-length"):
                place = breach.frame, breach.offset
                if self.first_error is None or place < self.first_error:
                    self.first_error = place
        for located in outcome.settled:
            self._settle(located)
        if self.sink is not None:
            for located in outcome.placed:
                self.sink(self, self.row(located), located.frames)
        if self.observer is not None:
            fresh = {id(located) for located in outcome.placed}
            for located in outcome.placed:
                self.observer.placed(self, self.row(located), located.octets)
                located.octets = b""
            for located in outcome.settled:
                if located.delivered and id(located) not in fresh:
                    self.observer.delivered(self, self.row(located))

    def _settle(self, located: Located) -> None:
        counts = self.counts
        counts.fpdus += 1
        counts.ulpdu_octets += located.extent.ulpdu_length
        counts.marker_count += located.extent.markers
        self._note_located(located.offset, located.end)
        self.first_frame = min(self.first_frame, located.known[0])
        if located.offset == 0:
            self.first_ulpdu = located.beginning
        self.starts.append(located.offset)
        self._ends.append(located.end)
        self.complete = max(self.complete, located.complete[0])
        if located.placed is None:
            counts.crc_errors += 1
        elif self.gapped:
            counts.undelivered += 1
        else:
            located.delivered = self.complete
            if located.placed[0] < located.delivered:
                counts.delivered_late += 1
        self._look_into(located)
        if self.log is not None:
            self.log.add(self.row(located), located.frames)

    def _look_into(self, located: Located) -> None:
        """Report what an FPDU says of itself; only now, since one that a Marker located may turn out to be none."""
        length = located.extent.ulpdu_length
        if located.placed is None:
            return
        if length == 0:
            self._find("ulpdu-length-zero", located.offset, *located.placed, "ULPDU_Length 0")
        elif length > MAX_ULPDU_LENGTH:
            self._find("ulpdu-length-limit", located.offset, *located.placed, f"ULPDU_Length {length}")
        if located.terminate:
            self._find_terminate(located)

    def _find(self, rule: str, offset: int, frame: int, time: int, detail: str) -> None:
        self.findings.add(rule, self.direction, frame, time, self.stream.seq_of(offset), detail)

    def _find_terminate(self, located: Located) -> None:
        terminate = decode_terminate(located.terminate)
        if terminate is None:
            return
        place = located.offset, *(located.placed or located.complete)
        detail = f"{terminate.meaning} (layer {terminate.layer}, etype {terminate.etype}, code {terminate.code:#04x})"
        self._find("terminate", *place, detail)
        if terminate.layout == "siw":
            self._find("terminate-layout", *place, "control word laid out from the least significant bit, as siw does")

    # --- alignment of segments (RFC 5044 §2) ---

    def _know_start(self) -> None:
        """An FPDU begins where the chain has a part of one, though it may never be complete."""
        at = self._placement.at
        if self._placement.is_inside_fpdu and (not self.starts or self.starts[-1] < at):
            self.starts.append(at)

    def _judge_passed(self, offset: int) -> None:
        while self._unjudged and self._unjudged[0][0] <= offset:
            end, start = heappop(self._unjudged)
            if _holds(self.starts, start):
                self.counts.header_aligned_segments += 1
                if self._is_boundary(end):
                    self.counts.fpdu_aligned_segments += 1

    def _is_boundary(self, offset: int) -> bool:
        if offset == self.stream.base and self._placement.state is CHAIN:
            return True
        return _holds(self.starts, offset) or _holds(self._ends, offset)


def _holds(ascending: array[int], offset: int) -> bool:
    index = bisect_left(ascending, offset)
    return index < len(ascending) and ascending[index] == offset
