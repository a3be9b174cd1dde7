"""Full Operation of one half connection: segments in, FPDU records, counts and breaches out (RFC 5044 §4, §6, §8).

A half connection in Full Operation *has* a reassembly (its octets, put in order), a scan (what reads FPDUs off octets
in order), a recovery (which goes on where scan cannot), a settlement (what came of FPDUs) and watches (what else they
break). This module hands segments and results from one to the other; each of them writes its own state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.infer.deviating import DeviatingChain
from scapy_mpa.infer.suspicion import Inquiry, SuspectedConnection, Suspicion
from scapy_mpa.receive.anyorder import AnyOrder, FirstFPDU
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.copies import SentOctets
from scapy_mpa.receive.inorder import InOrder
from scapy_mpa.receive.located import Breach, Diagnosis, Located
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.recovery import Recovery
from scapy_mpa.receive.scan import FPDUReader, Layout
from scapy_mpa.receive.settlement import Counts, Settlement
from scapy_mpa.receive.waiting import Waiting
from scapy_mpa.rules.findings import Findings
from scapy_mpa.tcp.acceptance import Range
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.records import FPDULog, FPDURow
from scapy_mpa.values.segment import Segment
from scapy_mpa.watch.conflicts import is_repeat
from scapy_mpa.watch.ddp import DDPWatch
from scapy_mpa.watch.findings import HalfFindings
from scapy_mpa.watch.fpdus import FirstSend, FPDUWatches, ReadsWatch
from scapy_mpa.watch.opening import Opening
from scapy_mpa.watch.segments import SegmentWatches


class Owner(SuspectedConnection, Protocol):
    """The MPA connection that a half connection belongs to."""

    @property
    def number(self) -> int:
        """Its number in the report."""

    @property
    def findings(self) -> Findings:
        """What was found of it."""

    @property
    def gso_flag(self) -> str:
        """Whose startup frame has the flag with which siw allows FPDUs that are longer than a segment, "" if none."""

    def look_at_terminate(self, direction: Direction) -> None:
        """Look for the message that the Terminate of a direction quotes, before its octets go."""


#: What is handed each FPDU when it is placed (or found bad): its row and its frames.
PlacedSink: TypeAlias = "Callable[[FullOperation, FPDURow, tuple[int, ...]], None]"


class PlacedObserver(Protocol):
    """Who wants the octets too, as soon as they mean something."""

    def placed(self, operation: FullOperation, row: FPDURow, octets: bytes) -> None:
        """An FPDU was placed, or found bad; ``octets`` are all of its octets, Markers included."""

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""


class FullOperation:
    """One half connection after the startup frames.

    Args:
        mpa: the MPA connection.
        half: the direction of the TCP connection.
        direction: who sends.
        context: what all half connections of the capture share.
        refuses: asked about each segment that is not the next one in order; True if TCP does not take it (now), or it
            belongs to another connection, and has been dealt with.
        layout: how FPDUs lie.
        reassembly: its octets.
        floor: the moment at which both startup frames were there: nothing is complete before.
        begins_at: the offset of the first FPDU, None if that is not known.
        may_search: whether an FPDU may be searched for where Markers do not help.
        sink: is handed each FPDU as it is placed.
        observer: is handed FPDUs with their octets.
        deviating: the chain of a sender that deviates, in place of recovery; its octets are read by no scan.

    Attributes:
        settlement: what came of its FPDUs.
        opening: with what it began.
        watches: what is watched of FPDUs.
        in_order: takes the segment that comes next.
        inquiry: whether its sender deviates.
        diagnosis: what its sender is known to do wrong.
        is_replaced: whether another operation has taken its place.
        is_over: whether the TCP connection is over, so that nothing is left but what came of it.
        first_send: its first Send, known when it is over.
    """

    __slots__ = (
        "_any_order",
        "_observer",
        "_reader",
        "_refuses",
        "_report_to",
        "_segments",
        "_sink",
        "_touched",
        "context",
        "diagnosis",
        "direction",
        "first_send",
        "floor",
        "half",
        "in_order",
        "inquiry",
        "is_over",
        "is_replaced",
        "layout",
        "mpa",
        "opening",
        "reassembly",
        "settlement",
        "watches",
    )

    def __init__(
        self,
        mpa: Owner,
        half: Half,
        direction: Direction,
        context: ReceiverContext,
        refuses: Callable[[Segment], bool],
        layout: Layout,
        reassembly: Reassembly,
        floor: Moment,
        begins_at: int | None = 0,
        may_search: bool = True,
        sink: PlacedSink | None = None,
        observer: PlacedObserver | None = None,
        deviating: DeviatingChain | None = None,
    ) -> None:
        self.mpa = mpa
        self.half = half
        self.direction: Direction = direction
        self.context = context
        self._refuses = refuses
        self.layout = layout
        self.reassembly = reassembly
        self.floor = floor
        self._sink = sink
        self._observer = observer
        self._reader = FPDUReader(reassembly, layout)
        log = FPDULog(reassembly.origin if layout.markers else None) if context.wants_log else None
        self.settlement = Settlement(reassembly, layout, log, begins_at is None)
        self.watches = FPDUWatches(begins_at == 0, half.emss, layout.markers, mpa.gso_flag)
        self._segments = SegmentWatches(half)
        self.opening = Opening(layout)
        self._report_to = HalfFindings(mpa.findings, direction, reassembly)
        self.diagnosis: Diagnosis | None = deviating.diagnosis if deviating is not None else None
        # An observer has had the octets: none is received anew.
        self.inquiry = Inquiry(self, self._reader, begins_at == 0 and deviating is None, observer is None)
        self.is_replaced = self.is_over = False
        self.first_send: FirstSend | None = None
        #: Whether the receiver knows that there is something to release.
        self._touched = False
        self.in_order = InOrder(
            half,
            self._reader,
            floor,
            context.limits,
            self.settlement,
            self.watches,
            self._segments,
            self.opening,
            self.report,
            self._tell if sink is not None or observer is not None else None,
        )
        self._any_order = AnyOrder(
            half,
            self._reader,
            floor,
            context.limits,
            self.settlement,
            self.watches,
            self._segments,
            self.opening,
            SentOctets(half, reassembly),
            self.report,
            self if sink is not None or observer is not None else None,
            FirstFPDU(begins_at, may_search, observer is not None),
            deviating,
        )
        if deviating is not None and deviating.first_error is not None:
            self.settlement.take_error(deviating.first_error)
        is_begun = deviating is not None or begins_at is None or bool(reassembly.pieces)
        self.in_order.resume(not is_begun or self.chain.in_order)

    # --- what others read ---

    @property
    def markers(self) -> bool:
        """Whether there are Markers."""
        return self.layout.markers

    @property
    def crc(self) -> bool:
        """Whether CRCs are in use."""
        return self.layout.crc

    @property
    def counts(self) -> Counts:
        """What was counted."""
        return self.settlement.counts

    @property
    def log(self) -> FPDULog | None:
        """The records of its FPDUs, None if they are not wanted."""
        return self.settlement.log

    @property
    def ddp(self) -> DDPWatch:
        """What its DDP Segments say."""
        return self.watches.ddp

    @property
    def gapped(self) -> bool:
        """Whether octets were never captured, so that nothing behind them is delivered."""
        return self.settlement.gapped

    @property
    def first_error(self) -> tuple[int, int] | None:
        """(frame, offset) of the first error of code 2 or 3."""
        return self.settlement.first_error

    @property
    def deviation(self) -> str | None:
        """What its sender does wrong, by name; None if that is not known, or nothing."""
        return self.diagnosis.candidate.name if self.diagnosis is not None else None

    @property
    def dialect(self) -> Dialect | None:
        """How FPDUs of a sender that deviates are read."""
        return self.diagnosis.candidate.dialect if self.diagnosis is not None else None

    @property
    def chain(self) -> Recovery | DeviatingChain:
        """Recovery, or the chain of a sender that deviates."""
        return self._any_order.chain

    @property
    def has_hole(self) -> bool:
        """Whether octets wait for others that have not come yet."""
        return self.in_order.has_postponed or bool(self.reassembly.beyond)

    @property
    def weight(self) -> int:
        """Octets of memory that what is held back takes."""
        return self.reassembly.weight + self.inquiry.weight + self.in_order.weight

    @property
    def extent(self) -> Range:
        """Up to where octets were captured, damaged or not."""
        reassembly = self.reassembly
        highest = max(reassembly.highest, reassembly.next, reassembly.withdrawn, self.in_order.highest)
        return Range(reassembly.seq_of(reassembly.next), reassembly.seq_of(highest))

    @property
    def may_have_dropped(self) -> bool:
        """Whether its receiver may have dropped a segment without a word (RFC 5044 §8)."""
        return not self.is_over and self._any_order.may_have_dropped

    def is_before(self, seg: Segment) -> bool:
        """Whether a segment has octets of the Startup Phase."""
        return self.reassembly.offset_of(seg.seq) < 0

    @property
    def last_in_order(self) -> Segment | None:
        """The last segment that came in order, None if none is at hand."""
        reassembly = self.reassembly
        if reassembly.pieces and not reassembly.beyond:
            return reassembly.pieces[-1].seg
        return reassembly.consumed[-1] if reassembly.consumed else None

    def repeats(self, seg: Segment) -> bool:
        """Whether a segment brings only octets that were captured before, as far as is known, or came damaged."""
        self._stop_waiting()
        return is_repeat(self.reassembly, seg)

    def drop_damaged(self) -> bool:
        """Drop octets of an FPDU that is not complete, and whose TCP checksum is wrong; False if there are none."""
        if not self.reassembly.has_damaged_next:
            return False
        self._stop_waiting()
        self.in_order.leave()
        self._any_order.drop_damaged()
        self.in_order.resume(self.chain.in_order)
        return True

    def keep_up(self) -> None:
        """Judge what the peer's acknowledgements make final."""
        self._any_order.keep_up()

    def watch_reads(self, reads: ReadsWatch) -> None:
        """Have RDMA Reads and Atomics watched by one who knows both half connections."""
        self.watches.watch_reads(reads)

    # --- segments ---

    def take(self, seg: Segment) -> None:
        """Take any segment with payload."""
        in_order = self.in_order
        if seg.seq == in_order.next_seq and in_order.take(seg):
            if not self._touched:
                self._touch()
        elif not self._refuses(seg):
            self.receive(seg)

    def replay(self, waiting: Waiting) -> None:
        """Take the segments that waited for the startup frames: until then nothing of them was complete."""
        # Some may have waited for the other side to be heard, too.
        segments, peer = sorted(waiting, key=lambda seg: seg.frame), self.half.peer
        waited = [seg for seg in segments if seg.frame <= self.floor[0]]
        if waited:
            self._any_order.take_waited(waited, waiting.acks)
            self.in_order.resume(self.chain.in_order)
            self._touch()
        for seg in segments[len(waited) :]:
            peer.look_back(waiting.acks.get(seg.frame, -1))
            self.receive(seg)
        peer.look_back(None)

    def _touch(self) -> None:
        """Have :meth:`release` called when the block of the capture goes."""
        if not self._touched:
            self._touched = True
            self.context.touch(self)

    def receive(self, seg: Segment) -> None:
        """Take a segment that TCP takes, whatever its place."""
        self._touch()
        # One that had to wait came before others that were taken: recovery reckons with that.
        latest = max(self.settlement.complete, self.in_order.latest_postponed)
        if seg.frame < latest or not self.in_order.postpone_or_take(seg):
            self._stop_waiting()
            self._recover(seg)

    def _stop_waiting(self) -> None:
        """What was postponed goes to recovery, as if it had never been."""
        for seg in self.in_order.stop_waiting():
            self._recover(seg)

    def _recover(self, seg: Segment) -> None:
        """Take a segment by recovery, nothing being postponed."""
        self.in_order.leave()
        if not self._any_order.take(seg):
            self.inquiry.see_repeat(seg)
        self.in_order.resume(self.chain.in_order)

    # --- the block of the capture, limits, the end ---

    def release(self) -> bool:
        """The block of the capture that segments lie in goes: keep only what is still needed of it.

        True if something is left that has to go with the next block.
        """
        if self.is_over:
            return False
        reassembly = self.reassembly
        self.in_order.release()
        self._any_order.release()
        if self.inquiry.release():
            self._stop_waiting()
            if self.inquiry.look_into(at_end=False):
                return False
        self.settlement.release()
        consumed = reassembly.consumed
        if self.watches.terminate is not None:
            self.mpa.look_at_terminate(self.direction)
        waits = self.half.peer.ack not in (self.in_order.next_seq, -1, 0)
        if waits and reassembly.previously_consumed:
            self.watches.messages.keep_passing(self, self._any_order.sent.acknowledged())
        if consumed:
            self._any_order.sent.keep_up()
            self.report(self._segments.look_at_path(consumed[0], consumed[-1], reassembly))
        reassembly.release()
        is_left = bool(consumed) and (waits or self.inquiry.is_in_doubt)
        if consumed and not is_left:
            # They go with the next block, and nothing else has to be done then.
            self.context.pass_on(consumed)
        self._touched = is_left or self.in_order.has_postponed
        return self._touched

    def let_go(self) -> None:
        """The TCP connection is over: what came of it is kept, and nothing that refers back to this operation."""
        self.is_over, self.first_send = True, self.watches.first_send
        self.reassembly.forget()
        self.settlement.let_go()
        self._any_order = self.in_order = self.inquiry = self.watches = None  # type: ignore[assignment]
        self._reader = self._refuses = self._report_to = self._segments = None  # type: ignore[assignment]

    def relieve(self, now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        self._stop_waiting()
        if not self.inquiry.give_up():
            self._any_order.relieve(now)
            self.in_order.resume(self.chain.in_order)

    def be_replaced(self) -> None:
        """Another operation takes its place."""
        self.is_replaced = True

    @property
    def broken(self) -> set[str]:
        """The rules that were found broken."""
        return set(self._report_to.broken)

    def diagnosed(self, at_end: bool) -> tuple[Diagnosis, Suspicion] | None:
        """What is known of its sender if that deviates, once: another operation has to read its octets anew.

        ``at_end`` says that nothing more comes: what does not fit is looked into.
        """
        if at_end and (self.in_order.has_postponed or self.inquiry.is_in_doubt or not self._any_order.has_all_read):
            self._stop_waiting()
            self._any_order.catch_up()
            self._any_order.end_waiting()
            self.inquiry.finish()
        return self.inquiry.take_diagnosis()

    def finish(self, now: Moment) -> None:
        """The half connection is over, and its sender is none that deviates otherwise than is known."""
        self._stop_waiting()
        self.inquiry.forget_beginning()
        self._any_order.finish(now)

    # --- what came of it ---

    @property
    def requests_before_error(self) -> int:
        """How many RDMA Reads and Atomics were asked for before the first error, -1 without one."""
        return self._any_order.requests_before_error

    def tell_placed(self, located: Located, delivered: int) -> None:
        """Hand an FPDU on that was located; it is delivered at that frame, 0 if it is not (yet)."""
        row = self.settlement.row(located, delivered)
        self._tell(row, located.frames, located.octets)

    def tell_delivered(self, located: Located, delivered: int) -> None:
        """An FPDU that was handed on is delivered at a frame."""
        if self._observer is not None:
            self._observer.delivered(self, self.settlement.row(located, delivered))

    def _tell(self, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """Hand an FPDU to whoever wants to know of each."""
        if self._sink is not None:
            self._sink(self, row, frames)
        if self._observer is not None:
            self._observer.placed(self, row, octets)

    def find(self, rule: str, offset: int, frame: int, time: int, detail: str) -> None:
        """Report the breach of a rule at an offset of the stream; the time is in nanoseconds."""
        self.report((Breach(rule, offset, frame, time, detail),))

    def report(self, breaches: Iterable[Breach]) -> None:
        """Report breaches of rules: each may be the first sign that the sender deviates."""
        for breach in breaches:
            self.inquiry.notice(breach)
            self._report_to.add(breach)
