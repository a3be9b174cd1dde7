"""Full Operation of one half connection: segments in, FPDU records, counts and breaches out (RFC 5044 §4, §6, §8).

This is the whole of it, for any segment.  :mod:`~scapy_mpa.receive.inorder` adds a fast path in front.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol, TypeAlias

from scapy_mpa.framing.ddp import DDPUntagged, decode_ddp, decode_terminate
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.receive import records
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.counts import Counts
from scapy_mpa.receive.evidence import PLAUSIBLE_CONTROLS
from scapy_mpa.receive.half import Direction, Half, Moment
from scapy_mpa.receive.located import NEVER, Doubt, Located, Outcome
from scapy_mpa.receive.placement import CHAIN, DROPPED, Placement
from scapy_mpa.receive.reader import FPDUReader
from scapy_mpa.receive.reassembly import MAX_WINDOW, Reassembly, is_cut
from scapy_mpa.receive.records import FPDULog, Row
from scapy_mpa.receive.scan import Layout
from scapy_mpa.receive.segment import (
    Segment,
    bare,
    checksum_is_right,
    checksum_is_wrong,
    detached,
)
from scapy_mpa.receive.watch.alignment import AlignmentWatch
from scapy_mpa.receive.watch.attacks import (
    TinySegments,
    hop_limit,
    hop_limit_distance,
    is_good_fpdu,
    names_buffer,
)
from scapy_mpa.receive.watch.beginning import LOOKED_AT, begins_with_header, wrong_beginning
from scapy_mpa.receive.watch.ddp import DDPWatch, ReadWatch
from scapy_mpa.receive.watch.sizes import SizeWatch
from scapy_mpa.rules.findings import Findings

if TYPE_CHECKING:
    from scapy_mpa.framing.dialect import Dialect
    from scapy_mpa.receive.deviating import DialectPlacement
    from scapy_mpa.receive.diagnosis import Diagnosis
    from scapy_mpa.receive.suspicion import Suspicion

#: What is handed each FPDU when it is placed (or found bad): its row and its frames.
PlacedSink: TypeAlias = "Callable[[FullOperation, Row, tuple[int, ...]], None]"


class OperatedConnection(Protocol):
    """The MPA connection, as Full Operation knows it."""

    @property
    def number(self) -> int:
        """Its number, final when the capture is over."""

    @property
    def profile(self) -> Profile:
        """The specification that it follows."""

    @property
    def findings(self) -> Findings:
        """Where what is wrong goes."""

    def startup_length(self, direction: str) -> int | None:
        """Octets of the startup frame of a direction, None if it was not captured."""


class FPDUObserver(Protocol):
    """Who wants the octets of FPDUs too, as soon as they mean something."""

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
#: No segment is longer on the wire; a longer one was cut into several after it was captured.
LARGEST_SEGMENT = 9216
#: Octets from the first of Full Operation in which something must not fit to be looked into.
BEGINNING = 16 << 10
#: Octets of memory that a segment takes which is kept, besides those it holds.
_SEGMENT_WEIGHT = 500
#: What raises the doubt whether a sender deviates, with the error code by which a conforming receiver tells it (RFC
#: 5044 §8); and what does where no CRC would.
_DOUBTFUL: dict[str, int | None] = {"crc": 2, "marker-length": 3}
_DOUBTFUL_WITHOUT_CRC = {
    "ulpdu-length-zero", "ulpdu-length-limit", "ddp-header", "ddp-opcode", "ddp-reserved", "ddp-version", "ddp-queue",
}  # fmt: skip
#: Octets after which the peer's acknowledgement number is looked at again.
_LONG_AGO = 1 << 24
#: What a half connection may hold back whatever all others do.
_LITTLE = 4096


class FullOperation:
    """One half connection after the startup frames.

    ``counts`` and ``log`` grow as segments come; ``log`` is None unless records are wanted, ``sink`` unless each
    FPDU is wanted as it is placed.  Breaches go to ``findings``.  ``floor`` is (frame, nanoseconds) at which both
    startup frames were there; ``begins_at`` is the offset of the first FPDU, None if that is not known; ``may_search``
    whether one may be searched for where Markers do not help.
    """

    __slots__ = (
        "_acked",
        "_acked_at",
        "_begins_anew",
        "_diagnosis",
        "_ends",
        "_from_first_located",
        "_hop_limit",
        "_hop_limit_before_tcp",
        "_last_ack",
        "_limits",
        "_located_end",
        "_located_octets",
        "_not_sent",
        "_placement",
        "_reader",
        "_touched",
        "_unjudged",
        "_wire_end",
        "alignment",
        "beginning",
        "broken",
        "complete",
        "context",
        "counts",
        "crc",
        "ddp",
        "deviation",
        "dialect",
        "direction",
        "doubt",
        "findings",
        "first_end",
        "first_error",
        "first_frame",
        "first_octets",
        "first_ulpdu",
        "first_ulpdu_length",
        "floor",
        "gapped",
        "half",
        "is_replaced",
        "is_wary",
        "kept_until",
        "log",
        "longest_segment",
        "markers",
        "mpa",
        "next_seq",
        "observer",
        "opened",
        "opening",
        "reassembly",
        "requests_before_error",
        "sink",
        "sizes",
        "starts",
        "suspicion",
        "tiny",
        "wants_records",
    )

    def __init__(
        self,
        mpa: OperatedConnection,
        half: Half,
        direction: Direction,
        context: ReceiverContext,
        begins_anew: Callable[[Segment], bool],
        layout: Layout,
        reassembly: Reassembly,
        floor: Moment,
        begins_at: int | None = 0,
        may_search: bool = True,
        sink: PlacedSink | None = None,
        observer: FPDUObserver | None = None,
    ) -> None:
        reader = FPDUReader(reassembly, layout.markers, layout.crc, layout.origin)
        log = FPDULog() if context.wants_log else None
        self.mpa = mpa
        self.half = half
        self.context = context
        self._begins_anew = begins_anew
        self._diagnosis: tuple[Diagnosis, Suspicion] | None = None
        self.direction: Direction = direction
        self.reassembly: Reassembly = reader.reassembly
        self.markers = reader.markers
        self.crc = reader.crc
        self.findings = mpa.findings
        self.counts = Counts()
        self.log = log
        if log is not None and reader.markers:
            log.seq_start = reader.reassembly.origin
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
        self._limits = context.limits
        self._reader = reader
        self._placement = self._new_placement(begins_at, may_search)
        #: What its sender does wrong, by name; None if that is not known, or nothing.
        self.deviation: str | None = None
        self.dialect: Dialect | None = None
        #: Whether the first thing that does not fit is to be looked into; who wants octets at once has no time for it.
        self.is_wary = begins_at == 0 and observer is None
        self.doubt: Doubt | None = None
        #: Segments that have been let go of otherwise.
        self.beginning: list[Segment] = []
        #: The frame of the last of them.
        self.kept_until = 0
        self.suspicion: Suspicion | None = None
        #: Whether another operation has taken its place, and the rules that it found broken.
        self.is_replaced = False
        self.broken: set[str] = set()
        #: Octets of the longest segment, as far as that was looked at.
        self.longest_segment = 0
        #: The first octets of Full Operation, until the first FPDU is complete.
        self.first_octets = b""
        #: How many RDMA Reads and Atomics were asked for before the first error, -1 without one.
        self.requests_before_error = -1
        #: TTL or Hop Limit of its packets, None if that is not known, and where it is if there are no IP options.
        self._hop_limit: int | None = None
        self._hop_limit_before_tcp = hop_limit_distance(half.key)
        self.tiny = TinySegments()
        self.alignment = AlignmentWatch(self.find)
        #: Its DDP Segments.
        self.ddp = DDPWatch(self.find, begins_at == 0)
        self.sizes = SizeWatch(self.find, half.emss, self.markers)
        #: Whether delivery counts from the first FPDU located, the beginning not having been captured.
        self._from_first_located = begins_at is None
        #: The frame at which the first FPDU was located.
        self.first_frame = NEVER
        #: The first octets of the ULPDU of the FPDU with which Full Operation began, if that was captured.
        self.first_ulpdu: bytes | None = None
        #: Its ULPDU_Length and end, and the moment at which it was complete and located.
        self.first_ulpdu_length = self.first_end = 0
        self.opened: Moment | None = None
        #: The segment that brought the first octet of Full Operation, without its octets.
        self.opening: Segment | None = None
        #: The peer's acknowledgement number that was looked at last, the offset it means, and what was in order then.
        self._last_ack = -1
        self._acked = self._acked_at = 0
        #: Octets between the FIN and others that came with sequence numbers beyond it.
        self._not_sent = 0
        #: Octets that FPDUs hold, and the end of the last one.
        self._located_octets = 0
        self._located_end = 0
        #: The end of the farthest packet that the capture cut.
        self._wire_end = 0
        #: Whether the receiver knows that there is something to release.
        self._touched = False
        #: The sequence number of the next segment that may take the fast path, -1 if none may.
        self.next_seq = -1
        self._set_up()
        self.resume()

    def _set_up(self) -> None:
        """What a kind of Full Operation keeps besides."""

    def _new_placement(self, begins_at: int | None, may_search: bool) -> Placement | DialectPlacement:
        return Placement(self.reassembly, self._reader, self.floor, self.observer is not None, begins_at, may_search)

    def touch(self) -> None:
        """Have :meth:`release` called when the block of the capture goes."""
        self._touched = True
        self.context.touch(self)

    def take(self, seg: Segment) -> None:
        """Take a segment with payload, the next one in order or any other."""
        if self.half.rst is not None:
            self.next_seq = -1
        elif seg.seq == self.next_seq and self.in_order(seg):
            return
        self.receive(seg)

    def watch_reads(self, watch: ReadWatch) -> None:
        """Tell of each RDMA Read and Atomic that is asked for, or answered."""
        self.ddp.watch_reads(watch)

    def be_replaced(self) -> None:
        """Another operation takes its place: what it found was misread."""
        self.is_replaced = True

    def in_order(self, seg: Segment) -> bool:
        """Take the next segment in order; False, with nothing done, if it must go to :meth:`receive`."""
        return False

    def receive(self, seg: Segment) -> None:
        """Take any segment with payload."""
        if not self._begins_anew(seg):
            self._receive(seg)

    def _receive(self, seg: Segment) -> None:
        new = self._commit(seg)
        if new:
            self._place(max((seg.frame, seg.time), self.floor), new)
        self._judge_passed(self.reassembly.base)
        self.resume()

    def replay(self, segments: list[Segment]) -> None:
        """Take the segments that waited for the startup frames: until then nothing of them was complete."""
        new: list[tuple[int, int]] = []
        waited = [seg for seg in segments if seg.frame <= self.floor[0]]
        for seg in waited:
            new += self._commit(seg)
        if new:
            self._place(self.floor, new)
        self._judge_passed(self.reassembly.base)
        self.resume()
        for seg in segments[len(waited) :]:
            self._receive(seg)

    def _commit(self, seg: Segment) -> list[tuple[int, int]]:
        """Hold what a segment brings, and count it; returns the ranges of new octets."""
        stream, counts = self.reassembly, self.counts
        if not self._touched:
            self.touch()
        self._catch_up()
        start = stream.offset_of(seg.seq)
        end = start + seg.end - seg.start
        reach = max(stream.highest, self._acknowledged())
        if start > reach + MAX_WINDOW or end < stream.next - MAX_WINDOW:
            detail = f"{start - stream.next} octets from those in order"
            self.find("outside-window", start, seg.frame, seg.time, detail)
            return []
        if start + seg.length <= 0:
            return []  # the startup phase, once more
        counts.segments += 1
        self.longest_segment = max(self.longest_segment, seg.length)
        if is_cut(seg):
            cut = seg.length - seg.end + seg.start
            self._wire_end = max(self._wire_end, start + seg.length)
            self.find("capture-cut", end, seg.frame, seg.time, f"{cut} octets of the payload are not captured")
        highest = stream.highest
        new: list[tuple[int, int]] = []
        # A keep-alive may bring one octet of anything (RFC 9293 §3.8.4).
        keep_alive = seg.length == 1 and end == stream.next
        if start < end and self._agrees(seg, start, end, keep_alive):
            new = stream.commit(seg, start, end)
        if self.opening is None and stream.starts and stream.starts[0] == 0:
            self.opening = bare(stream.pieces[0][3])
        rst = self.half.rst
        if new and rst is not None and rst[1] < seg.frame and end > stream.offset_of(rst[0]):
            detail = f"{end - start} octets after the RST of frame {rst[1]}"
            self.find("attack-reset", start, seg.frame, seg.time, detail)
        if not new:
            counts.retransmitted_segments += 1
            if not keep_alive:
                self._look_at_boundaries(seg, start, end)
        elif new[0][0] < highest:
            counts.out_of_order_segments += 1
        if start >= 0 and len(self._unjudged) < MOST_UNJUDGED:
            heappush(self._unjudged, (end, start))
        return new

    def _place(self, now: Moment, new: list[tuple[int, int]]) -> None:
        stream = self.reassembly
        if not self.complete and stream.base == 0:
            self._keep_first_octets()
        self._account(self._placement.work(now, new))
        limits = self._limits
        while stream.beyond and (stream.weight > limits.held_octets or len(stream.pieces) > limits.held_segments):
            detail = f"more than {limits.held_octets} octets held back for a gap (held_octets)"
            if stream.weight <= limits.held_octets:
                detail = f"more than {limits.held_segments} segments held back for a gap (held_segments)"
            self.find("limit", stream.next, *now, detail)
            self._skip_gap(now)

    def _keep_first_octets(self) -> None:
        end = min(self.reassembly.next, LOOKED_AT)
        if len(self.first_octets) != end:
            self.first_octets = self.reassembly.read(0, end)

    def resume(self) -> None:
        """Decide whether the next segment may take the fast path."""

    def release(self) -> bool:
        """The block of the capture that segments lie in goes: keep only what is still needed of it.

        True if something is left that has to go with the next block.
        """
        stream = self.reassembly
        if self.is_wary:
            self._be_wary()
        if self.doubt is not None:
            self._diagnosis = self._look_into_doubt(at_end=False)
            if self._diagnosis is not None:
                return False
        if len(self.starts) > 2 * REMEMBERED_BOUNDARIES:
            del self.starts[:-REMEMBERED_BOUNDARIES]
        if len(self._ends) > 2 * REMEMBERED_BOUNDARIES:
            del self._ends[:-REMEMBERED_BOUNDARIES]
        consumed = stream.consumed
        if consumed:
            if stream.next - self._acked_at > _LONG_AGO:
                self._acknowledged()
            self._look_at_path(consumed[0])
            if len(consumed) > 1:
                self._look_at_path(consumed[-1])
        stream.release()
        if consumed and self.doubt is None:
            # They go with the next block, and nothing else has to be done then.
            self.context.pass_on(consumed)
            consumed = []
        self._touched = bool(consumed)
        return self._touched

    def finish(self, now: Moment) -> None:
        """The half connection is over."""
        stream, placement, counts = self.reassembly, self._placement, self.counts
        self._catch_up()
        self.forget_beginning()
        if not self.complete and stream.base == 0:
            self._keep_first_octets()
        while stream.beyond:
            self._skip_gap(now)
        self._know_start()
        self._account(placement.flush(now))
        self._know_start()
        if self.opening is None and stream.pieces and stream.starts[0] == 0:
            self.opening = bare(stream.pieces[0][3])
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
            latest = max((piece[3].frame, piece[3].time) for piece in stream.pieces)
            if how == "FIN" or when >= latest:
                detail = f"{how} {stream.next - placement.at} octets into an FPDU"
                self.find("connection-lost", placement.at, *max(when, latest), detail)
        if self.log is not None and self.first_error is not None:
            # An error may have been told later than FPDUs that its frame precedes.
            self.log.mark_after(self.first_error, self.reassembly.origin, self.floor[0])
        counts.cut_fpdus = placement.cut
        counts.stream_octets = stream.captured
        counts.missing_octets = stream.highest - stream.first - stream.captured - self._not_sent
        begun = stream.next - placement.at if placement.is_inside_fpdu else 0
        counts.unlocated_octets = max(0, stream.captured - self._located_octets - begun)
        self._judge_passed(stream.highest)
        if self.first_octets and not self.complete:
            self._find_beginning(now)
        self.sizes.finish(self.ddp, self.longest_segment)
        self.alignment.finish(counts, self.sizes.fits(self.longest_segment), now)
        if placement.state is not CHAIN and not (self.gapped or placement.cut or self._from_first_located):
            rest = stream.next - self._located_end
            if rest > 0:
                self.find("fpdu-format", self._located_end, *now, f"{rest} octets in which there is no FPDU")

    # --- a sender that deviates ---

    def diagnosed(self, at_end: bool = False) -> tuple[Diagnosis, Suspicion] | None:
        """What the sender does wrong, and what was kept of what it sent; None if that is not known, or nothing.

        ``at_end`` says that nothing more comes.
        """
        if at_end:
            placement = self._placement
            self._catch_up()
            if self.is_wary:
                self._look_at_part()
                if placement.is_inside_fpdu and self.half.closed is not None:
                    self.be_in_doubt(Doubt(placement.at, *self.half.closed[1], None))
            return self._look_into_doubt(at_end=True) if self.doubt is not None else None
        diagnosis, self._diagnosis = self._diagnosis, None
        return diagnosis

    def be_in_doubt(self, doubt: Doubt) -> None:
        """Something does not fit, for the first time: it is looked into when the block of the capture goes."""
        if self.is_wary and doubt.offset < BEGINNING:
            self.is_wary = False
            self.doubt = doubt

    def _look_at_part(self) -> None:
        """Look at the FPDU of which a part is there, where no CRC will tell what it is."""
        stream = self.reassembly
        if not self.crc and stream.base < stream.next and self._placement.knows_next:
            extent = self._reader.extent(stream.base, stream.next)
            control = self._reader.control(extent) if extent is not None else b""
            if len(control) == 2 and (control[0] << 8 | control[1]) not in PLAUSIBLE_CONTROLS:
                latest = stream.pieces_of(stream.base, stream.base + 1)[0][3]
                self.be_in_doubt(Doubt(stream.base, latest.frame, latest.time, None))

    def _be_wary(self) -> None:
        """Keep what is let go of when the block goes, as long as it may be read again."""
        stream = self.reassembly
        if not self.crc:
            self._look_at_part()
        if self.doubt is not None or not stream.consumed:
            return
        last, purse = stream.consumed[-1].frame, self.context.diagnosis
        weight = sum([seg.end - seg.start + _SEGMENT_WEIGHT for seg in stream.consumed])
        if stream.base < BEGINNING and purse.take_room(self, weight, last):
            self.kept_until = last
            self.beginning += map(detached, stream.consumed)
        else:
            self.keep_no_longer()

    def keep_no_longer(self) -> None:
        """What does not fit from now on is not looked into."""
        self.is_wary = False
        self.forget_beginning()

    def forget_beginning(self) -> None:
        """Nothing is read again, or all that may be has been handed on."""
        if self.beginning:
            self.beginning = []
            self.context.diagnosis.give_room(self)

    def _look_into_doubt(self, at_end: bool) -> tuple[Diagnosis, Suspicion] | None:
        """What the sender does wrong, if it is known now."""
        from scapy_mpa.receive.suspicion import look_into

        return look_into(self, at_end)

    def _catch_up(self) -> None:
        """Learn what the fast path has done: all octets it consumed were FPDUs."""
        self.reassembly.catch_up()
        self.counts.settle()
        if self._placement.catch_up((self.complete, 0)):
            self._note_located(self._located_end, self.reassembly.base)
            self.ddp.at = self.reassembly.base

    def _note_located(self, start: int, end: int) -> None:
        self._located_octets += max(0, end - max(start, self._located_end))
        self._located_end = max(self._located_end, end)

    def _acknowledged(self) -> int:
        """The offset up to which the peer has acknowledged, as far as was captured."""
        ack = self.half.peer.ack
        if ack > 0 and ack != self._last_ack:
            # Looked at long before it can be more than a window away.
            self._last_ack, self._acked = ack, self.reassembly.offset_of(ack)
        self._acked_at = self.reassembly.next
        return self._acked

    def _sent_end(self) -> int:
        """The end of what this side says it sent, captured or not: by its FIN, its RST and packets that were cut."""
        stream, half = self.reassembly, self.half
        end = max(self._wire_end, stream.next)
        if half.fin is not None:
            return max(end, stream.offset_of(half.fin[0]))
        # A FIN takes a sequence number too, and may not have been captured.
        rst = stream.offset_of(half.rst[0]) - 1 if half.rst is not None else 0
        return max(end, rst) if rst < stream.next + _MOST_UNSEEN else end

    def row(self, located: Located) -> Row:
        """The row of an FPDU that was located."""
        extent, stream = located.extent, self.reassembly
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
        stream = self.reassembly
        if start >= stream.highest:
            return True
        differences = stream.differences(seg, start, end)
        if differences and not keep_alive and checksum_is_wrong(seg):
            self.find("tcp-checksum", start, seg.frame, seg.time, DROPPED)
            return False
        if any(checksum_is_wrong(other) for _, other in differences):
            # The receiver dropped the damaged ones all, be the octets that are held of them right or not.
            around = ((piece[0], piece[3]) for piece in stream.pieces_of(max(start, stream.base), end))
            for offset, other in {id(place[1]): place for place in (*around, *differences)}.values():
                if checksum_is_wrong(other):
                    self._placement.withdraw([other], offset)
        differences = [place for place in differences if not checksum_is_wrong(place[1])]
        if differences and not keep_alive:
            offset, other = min(differences, key=lambda place: place[0])
            detail = f"an octet differs from what frame {other.frame} brought; the first copy is kept"
            self.find("overlap", offset, seg.frame, seg.time, detail)
            self._look_at_copy(seg, offset, other)
        return True

    def _look_at_copy(self, seg: Segment, offset: int, other: Segment) -> None:
        """Of two copies that differ at ``offset``, each with a TCP checksum that is right: does one fit no FPDU?"""
        if not self.crc or not (checksum_is_right(seg) and checksum_is_right(other)):
            return
        index = bisect_right(self.starts, offset) - 1
        first = self.starts[index] if index >= 0 else -1
        if self._placement.is_inside_fpdu and first < self._placement.at <= offset:
            first = self._placement.at  # what is held has not become an FPDU
        is_good = self._has_good_fpdu(seg, first)
        was_good = self._has_good_fpdu(other, first) or (not self.counts.crc_errors and offset < self.reassembly.base)
        if is_good and was_good:
            detail = f"frames {other.frame} and {seg.frame} brought different FPDUs, both with good CRCs"
        elif is_good or was_good:
            bad, good = (other, seg) if is_good else (seg, other)
            detail = f"what frame {bad.frame} brought fits TCP and no FPDU, unlike what frame {good.frame} brought"
        else:
            return
        self.find("attack-injection", offset, seg.frame, seg.time, detail)

    def _has_good_fpdu(self, seg: Segment, offset: int) -> bool:
        """Whether a segment holds, from an offset of the stream on, an FPDU whose CRC is good."""
        start = self.reassembly.offset_of(seg.seq)
        octets = seg.buffer[seg.start + max(offset - start, 0) : seg.end]
        return start <= offset and is_good_fpdu(octets, offset, self.markers)

    def _look_at_boundaries(self, seg: Segment, start: int, end: int) -> None:
        """A retransmission: does it cut an FPDU where the segment before did not?"""
        if self._is_boundary(start):
            return
        for other in self.reassembly.consumed_between(start, min(end, self.reassembly.base)):
            first = self.reassembly.offset_of(other.seq)
            if first < start < first + other.length <= first + LARGEST_SEGMENT and _holds(self.starts, first):
                detail = f"repeats frame {other.frame} from its octet {start - first} on, in the middle of an FPDU"
                self.find("alignment-retransmission", start, seg.frame, seg.time, detail)
                return

    def _look_at_path(self, seg: Segment) -> None:
        """Does a segment come the same way as the first?"""
        at = seg.tcp - self._hop_limit_before_tcp
        if at >= 0 and seg.buffer[at] == self._hop_limit:
            return
        limit = hop_limit(seg)
        if limit is None or limit == self._hop_limit:
            return
        if self._hop_limit is not None:
            detail = f"TTL or Hop Limit {limit}, where it was {self._hop_limit}"
            self.find("attack-hijack", self.reassembly.offset_of(seg.seq), seg.frame, seg.time, detail)
        self._hop_limit = limit

    def _skip_gap(self, now: Moment) -> None:
        stream, placement = self.reassembly, self._placement
        start, end = stream.next, stream.beyond[0][0]
        beyond = stream.pieces_of(end, end + 1)[0][3]
        self._find_gap(start, end, (beyond.frame, beyond.time))
        self._know_start()
        # What is told now lies before the gap: it can still be delivered.
        self._account(placement.give_up(now))
        self.gapped = bool(self.counts.fpdus) or not self._from_first_located
        self._account(placement.skip_gap(now))

    @property
    def weight(self) -> int:
        """Octets of memory that what is held back takes."""
        return self.reassembly.weight + (self.suspicion.held if self.suspicion is not None else 0)

    def let_go(self) -> None:
        """The TCP connection is over: nothing that is held is read any more."""
        self.reassembly.forget()
        self._unjudged.clear()
        self.is_wary, self.doubt, self.suspicion = False, None, None

    def relieve(self, now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        stream = self.reassembly
        if self.suspicion is not None:
            self.suspicion = self.doubt = None
            return
        self._catch_up()
        detail = f"more than {self._limits.total_octets} octets held back in all (total_octets)"
        self.find("limit", stream.next, *now, detail)
        while stream.beyond and stream.weight > _LITTLE:
            self._skip_gap(now)
        if stream.weight > _LITTLE:
            self._account(self._placement.give_up(now))
            self.gapped = bool(self.counts.fpdus) or not self._from_first_located
            self._account(self._placement.drop(now))
        self.resume()

    def _find_gap(self, start: int, end: int, when: Moment) -> None:
        fin = self.half.fin
        if fin is not None and (self._not_sent or start <= self.reassembly.offset_of(fin[0]) < end):
            # The octets beyond are none of this half connection.
            detail = f"octets behind the FIN of frame {fin[1]}, with which the half connection ends"
            self.find("outside-window", end, *when, detail)
            sent = max(start, self.reassembly.offset_of(fin[0]))
            self._not_sent += end - sent
            end = sent
            if start == end:
                return
        detail = f"{end - start} octets were not captured"
        acknowledged = self._acknowledged() >= end
        if acknowledged:
            detail += ", though the peer acknowledged them"
        self.find("capture-gap" if acknowledged else "gap", start, *when, detail)

    # --- what came of them ---

    def _account(self, outcome: Outcome) -> None:
        """Count, record and report what a frame changed."""
        for breach in outcome.breaches:
            self.find(breach.rule, breach.offset, breach.frame, breach.time, breach.detail)
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
            # Of one that is damaged nobody knows where it ends.
            end = located.end if located.placed is not None else 0
            self.begin(located.beginning, located.extent.ulpdu_length, end, located.known)
            if located.placed is None or not begins_with_header(located.beginning, located.extent.ulpdu_length):
                self._find_beginning(located.known)
            self.first_octets = b""
        if self.first_error is not None and self.requests_before_error < 0 and located.offset >= self.first_error[1]:
            self.requests_before_error = self.ddp.requests
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

    def _find_beginning(self, when: Moment) -> None:
        """The first octets are no FPDU as was agreed on: report what they are."""
        wrong = wrong_beginning(self.first_octets, self.markers, self.crc)
        if wrong is not None:
            self.find(wrong[0], 0, *when, wrong[1])

    @property
    def has_hole(self) -> bool:
        """Whether octets wait for others that have not come yet."""
        return bool(self.reassembly.beyond)

    def begin(self, ulpdu: bytes, ulpdu_length: int, end: int, opened: Moment) -> None:
        """The FPDU with which Full Operation begins is complete, and ends at ``end``."""
        self.first_ulpdu, self.first_ulpdu_length, self.first_end, self.opened = ulpdu, ulpdu_length, end, opened

    def _look_into(self, located: Located) -> None:
        """Report what an FPDU says of itself; only now, since one that a Marker located may turn out to be none."""
        length = located.extent.ulpdu_length
        if located.placed is None:
            return
        watch = self.ddp
        if located.offset != watch.at:
            watch.lose()
        watch.at = located.end
        watch.follow(located.beginning, 0, length, located.offset, *located.placed)
        if length > self.sizes.longest:
            self.sizes.grows(length, located.end - located.offset, located.offset, *located.placed)
        for rule, detail in located.oddities:
            self.find(rule, located.offset, *located.placed, detail)
        if length == 0:
            self.find("ulpdu-length-zero", located.offset, *located.placed, "ULPDU_Length 0")
        elif length > MAX_ULPDU_LENGTH:
            self.find("ulpdu-length-limit", located.offset, *located.placed, f"ULPDU_Length {length}")
        if located.terminate:
            self._find_terminate(located)

    def find(self, rule: str, offset: int, frame: int, time: int, detail: str) -> None:
        """Report the breach of a rule at an offset of the stream; the time is in nanoseconds."""
        self.broken.add(rule)
        if self.is_wary and (rule in _DOUBTFUL or (not self.crc and rule in _DOUBTFUL_WITHOUT_CRC)):
            self.be_in_doubt(Doubt(offset, frame, time, _DOUBTFUL.get(rule)))
        self.findings.add(rule, self.direction, frame, time, self.reassembly.seq_of(offset), detail)

    def _find_terminate(self, located: Located) -> None:
        terminate = decode_terminate(located.terminate)
        place = located.offset, *(located.placed or located.complete)
        if terminate is None:
            header = decode_ddp(located.terminate)
            if isinstance(header, DDPUntagged):
                self.find("terminate-layout", *place, f"a body of {header.payload_length} octets has no control word")
            return
        detail = f"{terminate.meaning} (layer {terminate.layer}, etype {terminate.etype}, code {terminate.code:#04x})"
        self.find("terminate", *place, detail)
        if names_buffer(terminate):
            other = "responder" if self.direction == "initiator" else "initiator"
            detail = f"the peer answers by a Terminate: {terminate.meaning}"
            self.findings.add("attack-buffer", other, *place[1:], self.reassembly.seq_of(located.offset), detail)
        if terminate.layout == "siw":
            self.find("terminate-layout", *place, "control word laid out from the least significant bit, as siw does")

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
        if offset == self.reassembly.base and self._placement.state is CHAIN:
            return True
        return _holds(self.starts, offset) or _holds(self._ends, offset)


def _holds(ascending: array[int], offset: int) -> bool:
    index = bisect_left(ascending, offset)
    return index < len(ascending) and ascending[index] == offset
