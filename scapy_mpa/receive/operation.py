"""Full Operation of one half connection: segments in, FPDU records, counts and breaches out (RFC 5044 §4, §6, §8).

A half connection in Full Operation *has* a reassembly (its octets, put in order), a scan (what reads FPDUs off octets
in order), a recovery (which goes on where scan cannot), a settlement (what came of FPDUs) and watches (what else they
break). This module hands segments and results from one to the other; each of them writes its own state alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias

from scapy_mpa.framing.ddp import UntaggedHeader, decode_ddp, decode_terminate
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.senders import Bases
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.copies import Copies, SentOctets
from scapy_mpa.receive.deviating import DeviatingChain
from scapy_mpa.receive.half import Direction, Half, Moment
from scapy_mpa.receive.inorder import InOrder
from scapy_mpa.receive.located import Breach, Diagnosis, Located, Outcome
from scapy_mpa.receive.opening import Opening
from scapy_mpa.receive.reassembly import Reassembly, is_cut
from scapy_mpa.receive.records import FPDULog, Row
from scapy_mpa.receive.recovery import DROPPED, Recovery
from scapy_mpa.receive.scan import FPDUReader, Layout
from scapy_mpa.receive.segment import Segment, checksum_is_wrong
from scapy_mpa.receive.settlement import Counts, Settlement
from scapy_mpa.receive.suspicion import Inquiry, Suspicion
from scapy_mpa.receive.watch.ddp import DDPWatch
from scapy_mpa.receive.watch.fpdus import FPDUWatches, ReadsWatch
from scapy_mpa.receive.watch.segments import SegmentWatches, names_buffer
from scapy_mpa.rules.findings import Findings


class Owner(Protocol):
    """The MPA connection that a half connection belongs to."""

    @property
    def number(self) -> int:
        """Its number in the report."""

    @property
    def profile(self) -> Profile:
        """The specification that it follows."""

    @property
    def findings(self) -> Findings:
        """What was found of it."""

    def startup_length(self, direction: Direction) -> int | None:
        """Octets of the startup frame of a direction, None if that was not captured."""


#: What is handed each FPDU when it is placed (or found bad): its row and its frames.
PlacedSink: TypeAlias = "Callable[[FullOperation, Row, tuple[int, ...]], None]"


class PlacedObserver(Protocol):
    """Who wants the octets too, as soon as they mean something."""

    def placed(self, operation: FullOperation, row: Row, octets: bytes) -> None:
        """An FPDU was placed, or found bad; ``octets`` are all of its octets, Markers included."""

    def delivered(self, operation: FullOperation, row: Row) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""


#: What a half connection may hold back whatever all others do.
_LITTLE = 4096


class FullOperation:
    """One half connection after the startup frames.

    Args:
        mpa: the MPA connection.
        half: the direction of the TCP connection.
        direction: who sends.
        context: what all half connections of the capture share.
        begins_anew: asked about each segment that is not the next one in order; True if it belongs to another
            connection and has been dealt with.
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
        inquiry: whether its sender deviates.
        is_replaced: whether another operation has taken its place.
    """

    __slots__ = (
        "_begins_anew",
        "_copies",
        "_in_order",
        "_observer",
        "_reader",
        "_report_to",
        "_segments",
        "_sent",
        "_sink",
        "_touched",
        "chain",
        "context",
        "direction",
        "floor",
        "half",
        "inquiry",
        "is_replaced",
        "layout",
        "mpa",
        "opening",
        "reassembly",
        "requests_before_error",
        "settlement",
        "watches",
    )

    def __init__(
        self,
        mpa: Owner,
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
        observer: PlacedObserver | None = None,
        deviating: DeviatingChain | None = None,
    ) -> None:
        self.mpa = mpa
        self.half = half
        self.direction: Direction = direction
        self.context = context
        self._begins_anew = begins_anew
        self.layout = layout
        self.reassembly = reassembly
        self.floor = floor
        self._sink = sink
        self._observer = observer
        self._reader = FPDUReader(reassembly, layout)
        log = FPDULog(reassembly.origin if layout.markers else None) if context.wants_log else None
        self.settlement = Settlement(reassembly, layout, log, begins_at is None)
        self.watches = FPDUWatches(begins_at == 0, half.emss, layout.markers)
        self._segments = SegmentWatches(half.key)
        self.opening = Opening(layout)
        self._sent = SentOctets(half, reassembly)
        self._copies = Copies(reassembly, layout, self.settlement)
        self.chain: Recovery | DeviatingChain = deviating or Recovery(
            reassembly, self._reader, floor, observer is not None, begins_at, may_search
        )
        self._report_to = HalfFindings(mpa.findings, direction, reassembly)
        looks_into = begins_at == 0 and deviating is None
        agreed = Dialect(layout.markers, layout.crc, mpa.profile.fpduptr_origin)
        # An observer has had the octets: none is received anew.
        may_look_again = observer is None
        self.inquiry = Inquiry(half, self._reader, self.chain, context, agreed, self._bases, looks_into, may_look_again)
        #: How many RDMA Reads and Atomics were asked for before the first error, -1 without one.
        self.requests_before_error = -1
        self.is_replaced = False
        #: Whether the receiver knows that there is something to release.
        self._touched = False
        self._in_order = InOrder(
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
        if deviating is not None and deviating.first_error is not None:
            self.settlement.take_error(deviating.first_error)
        self._in_order.resume(self.chain.in_order)

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
    def diagnosis(self) -> Diagnosis | None:
        """What its sender is known to do wrong."""
        return self.chain.diagnosis

    @property
    def deviation(self) -> str | None:
        """What its sender does wrong, by name; None if that is not known, or nothing."""
        return self.diagnosis.candidate.name if self.diagnosis is not None else None

    @property
    def dialect(self) -> Dialect | None:
        """How FPDUs of a sender that deviates are read."""
        return self.diagnosis.candidate.dialect if self.diagnosis is not None else None

    @property
    def has_hole(self) -> bool:
        """Whether octets wait for others that have not come yet."""
        return self._in_order.has_postponed or bool(self.reassembly.beyond)

    @property
    def weight(self) -> int:
        """Octets of memory that what is held back takes."""
        return self.reassembly.weight + self.inquiry.weight + self._in_order.weight

    def watch_reads(self, reads: ReadsWatch) -> None:
        """Have RDMA Reads and Atomics watched by one who knows both half connections."""
        self.watches.watch_reads(reads)

    # --- segments ---

    def take(self, seg: Segment) -> None:
        """Take any segment with payload."""
        in_order = self._in_order
        if seg.seq == in_order.next_seq and in_order.take(seg):
            if not self._touched:
                self._touch()
        elif not self._begins_anew(seg):
            self._take_out_of_order(seg)

    def replay(self, segments: list[Segment]) -> None:
        """Take the segments that waited for the startup frames: until then nothing of them was complete."""
        new: list[tuple[int, int]] = []
        waited = [seg for seg in segments if seg.frame <= self.floor[0]]
        for seg in waited:
            new += self._commit(seg)
        if new:
            self._place(self.floor, new)
        self._judge_alignment()
        self._in_order.resume(self._goes_in_order)
        for seg in segments[len(waited) :]:
            self._take_out_of_order(seg)

    def _touch(self) -> None:
        """Have :meth:`release` called when the block of the capture goes."""
        self._touched = True
        self.context.touch(self)

    def _take_out_of_order(self, seg: Segment) -> None:
        if self._in_order.postpone_or_take(seg):
            if not self._touched:
                self._touch()
            return
        self._stop_waiting()
        self._recover(seg)

    def _stop_waiting(self) -> None:
        """What was postponed goes to recovery, as if it had never been."""
        for seg in self._in_order.stop_waiting():
            self._recover(seg)

    def _recover(self, seg: Segment) -> None:
        """Take a segment by recovery, nothing being postponed."""
        self._in_order.leave()
        new = self._commit(seg)
        if new:
            self._place(max((seg.frame, seg.time), self.floor), new)
        self._judge_alignment()
        self._in_order.resume(self._goes_in_order)

    @property
    def _goes_in_order(self) -> bool:
        return self.chain.in_order

    def _commit(self, seg: Segment) -> list[tuple[int, int]]:
        """Hold what a segment brings, and count it; returns the ranges of new octets."""
        reassembly, counts, sent = self.reassembly, self.counts, self._sent
        if not self._touched:
            self._touch()
        self._catch_up()
        start = reassembly.offset_of(seg.seq)
        end = start + seg.end - seg.start
        if sent.is_outside_window(start, end):
            detail = f"{start - reassembly.next} octets from those in order"
            self.find("outside-window", start, seg.frame, seg.time, detail)
            return []
        if start + seg.length <= 0:
            return []  # the startup phase, once more
        self._segments.lengthen(seg.length)
        if is_cut(seg):
            cut = seg.length - seg.end + seg.start
            sent.cut_at(start + seg.length)
            self.find("capture-cut", end, seg.frame, seg.time, f"{cut} octets of the payload are not captured")
        highest = reassembly.highest
        if self.diagnosis is not None and start < end and checksum_is_wrong(seg):
            # So few senders deviate that each segment of theirs is checked, with or without a CRC that would tell.
            self.find("tcp-checksum", start, seg.frame, seg.time, DROPPED)
            counts.take_segment(is_repeat=False, is_late=start < highest)
            return []
        new: list[tuple[int, int]] = []
        # A keep-alive may bring one octet of anything (RFC 9293 §3.8.4).
        keep_alive = seg.length == 1 and end == reassembly.next
        if start < end and self._agrees(seg, start, end, keep_alive):
            new = reassembly.commit(seg, start, end)
        self.opening.keep_segment(reassembly)
        rst = self.half.rst
        if new and rst is not None and rst[1] < seg.frame and end > reassembly.offset_of(rst[0]):
            detail = f"{end - start} octets after the RST of frame {rst[1]}"
            self.find("attack-reset", start, seg.frame, seg.time, detail)
        if not new and not keep_alive and not self.settlement.is_boundary(start, self._next_start):
            detail = self._copies.cut_of_repeat(seg, start, end)
            if detail:
                self.find("alignment-retransmission", start, seg.frame, seg.time, detail)
        counts.take_segment(is_repeat=not new, is_late=bool(new) and new[0][0] < highest)
        if start >= 0:
            self.settlement.judge_later(start, end)
        return new

    def _agrees(self, seg: Segment, start: int, end: int, keep_alive: bool) -> bool:
        """Whether a segment may be committed; octets that differ from those at hand are looked into."""
        verdict = self._copies.judge(seg, start, end, keep_alive)
        for offset, other in verdict.dropped:
            self.chain.withdraw([other], offset)
        self.report(verdict.breaches)
        if verdict.rival is not None:
            part = self.chain.at if self.chain.is_inside_fpdu else None
            self.report(self._copies.injection(seg, verdict.rival, part))
        return verdict.takes

    def _place(self, now: Moment, new: list[tuple[int, int]]) -> None:
        reassembly = self.reassembly
        if not self.settlement.complete:
            self.opening.keep_octets(reassembly)
        self._account(self.chain.work(now, new))
        limits = self.context.limits
        while reassembly.beyond and (
            reassembly.weight > limits.held_octets or len(reassembly.pieces) > limits.held_segments
        ):
            detail = f"more than {limits.held_octets} octets held back for a gap (held_octets)"
            if reassembly.weight <= limits.held_octets:
                detail = f"more than {limits.held_segments} segments held back for a gap (held_segments)"
            self.find("limit", reassembly.next, *now, detail)
            self._skip_gap(now)

    def _catch_up(self) -> None:
        """Learn what was read in order: all octets consumed were FPDUs."""
        settlement, base = self.settlement, self.reassembly.base
        self.reassembly.catch_up()
        settlement.counts.settle()
        if self.chain.take_over((settlement.complete, 0)):
            settlement.locate(settlement.located_end, base)
            self.watches.ddp.pass_to(base)

    def _skip_gap(self, now: Moment) -> None:
        reassembly, chain = self.reassembly, self.chain
        start, end = reassembly.next, reassembly.beyond[0][0]
        beyond = reassembly.pieces_of(end, end + 1)[0].seg
        self.report(self._sent.gap(start, end, (beyond.frame, beyond.time)))
        self._know_start()
        # What is reported now lies before the gap: it can still be delivered.
        self._account(chain.give_up(now))
        self.settlement.lose_octets()
        self._account(chain.skip_gap(now))

    # --- the block of the capture, limits, the end ---

    def release(self) -> bool:
        """The block of the capture that segments lie in goes: keep only what is still needed of it.

        True if something is left that has to go with the next block.
        """
        reassembly = self.reassembly
        self._in_order.release()
        if self.inquiry.release():
            self._stop_waiting()
            if self.inquiry.look_into(at_end=False):
                return False
        self.settlement.release()
        consumed = reassembly.consumed
        if consumed:
            self._sent.keep_up()
            for seg in (consumed[0], consumed[-1]):
                detail = self._segments.path.look_at(seg)
                if detail:
                    self.find("attack-hijack", reassembly.offset_of(seg.seq), seg.frame, seg.time, detail)
        reassembly.release()
        is_left = bool(consumed)
        if consumed and not self.inquiry.is_in_doubt:
            # They go with the next block, and nothing else has to be done then.
            self.context.pass_on(consumed)
            is_left = False
        self._touched = is_left or self._in_order.has_postponed
        return self._touched

    def let_go(self) -> None:
        """The TCP connection is over: nothing that is held is read any more."""
        self.reassembly.forget()
        self.settlement.let_go()
        self.inquiry.let_go()

    def relieve(self, now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        self._stop_waiting()
        reassembly = self.reassembly
        if self.inquiry.give_up():
            return
        self._catch_up()
        detail = f"more than {self.context.limits.total_octets} octets held back in all (total_octets)"
        self.find("limit", reassembly.next, *now, detail)
        while reassembly.beyond and reassembly.weight > _LITTLE:
            self._skip_gap(now)
        if reassembly.weight > _LITTLE:
            self._account(self.chain.give_up(now))
            self.settlement.lose_octets()
            self._account(self.chain.drop(now))
        self._in_order.resume(self._goes_in_order)

    def be_replaced(self) -> None:
        """Another operation takes its place."""
        self.is_replaced = True

    @property
    def broken(self) -> set[str]:
        """The rules that were found broken."""
        return self._report_to.broken

    def _bases(self) -> Bases:
        """From where else than the first octet of Full Operation a sender may count Markers."""
        origin = self.half.origin
        # The SYN has the number before that of the first octet.
        behind_syn = (self.reassembly.origin - origin + 1) & SEQ_MASK if origin is not None else None
        return Bases(behind_syn, self.mpa.startup_length(self.direction))

    def diagnosed(self, at_end: bool) -> tuple[Diagnosis, Suspicion] | None:
        """What is known of its sender if that deviates, once: another operation has to read its octets anew.

        ``at_end`` says that nothing more comes: what does not fit is looked into.
        """
        if at_end:
            self._stop_waiting()
            self._catch_up()
            self.inquiry.finish()
        return self.inquiry.take_diagnosis()

    def finish(self, now: Moment) -> None:
        """The half connection is over, and its sender is none that deviates otherwise than is known."""
        reassembly, chain, counts, sent = self.reassembly, self.chain, self.counts, self._sent
        self._stop_waiting()
        self._catch_up()
        self.inquiry.forget_beginning()
        if not self.settlement.complete:
            self.opening.keep_octets(reassembly)
        while reassembly.beyond:
            self._skip_gap(now)
        self._know_start()
        self._account(chain.flush(now))
        self._know_start()
        self.opening.keep_segment(reassembly)
        if chain.has_rest:
            self.settlement.end_delivery()
            self._account(chain.take_rest(now))
        self._find_end(now)
        self.settlement.mark_after_error(self.floor[0])
        begun = reassembly.next - chain.at if chain.is_inside_fpdu else 0
        counts.finish(
            chain.cut,
            reassembly.captured,
            reassembly.highest - reassembly.first - reassembly.captured - sent.not_sent,
            max(0, reassembly.captured - self.settlement.located_octets - begun),
        )
        self.settlement.judge(reassembly.highest, self._next_start)
        if self.opening.octets and not self.settlement.complete:
            self._find_beginning(now)
        segments, sizes = self._segments, self.watches.sizes
        self.report(sizes.finish(self.ddp, segments.longest))
        self.report(segments.alignment.finish(counts, sizes.fits(segments.longest), now))
        located_end = self.settlement.located_end
        if not chain.is_chained and not (self.gapped or chain.cut or self.settlement.delivers_from_first_located):
            rest = reassembly.next - located_end
            if rest > 0:
                self.find("fpdu-format", located_end, *now, f"{rest} octets in which there is no FPDU")
        self.report(chain.conclusions(counts.fpdus))

    def _find_end(self, now: Moment) -> None:
        """How the half connection ended, if it ended in the middle of something."""
        reassembly, chain, closed = self.reassembly, self.chain, self.half.closed
        end = self._sent.end()
        if end > reassembly.next:
            chain.count_cut()
            self.report(self._sent.gap(reassembly.next, end, closed[1] if closed is not None else now))
        elif self._sent.has_unseen:
            # More was sent, of which no frame knows: nothing can be said of how it ended.
            chain.count_cut()
        elif closed is not None and chain.is_inside_fpdu:
            how, when = closed
            latest = max((piece.seg.frame, piece.seg.time) for piece in reassembly.pieces)
            if how == "FIN" or when >= latest:
                detail = f"{how} {reassembly.next - chain.at} octets into an FPDU"
                self.find("connection-lost", chain.at, *max(when, latest), detail)

    # --- what came of it ---

    def _account(self, outcome: Outcome) -> None:
        """Count, record and report what a frame changed."""
        self.report(outcome.breaches)
        for breach in outcome.breaches:
            if breach.rule in ("crc", "marker-length"):
                self.settlement.take_error(breach)
        delivered = {id(located): self._settle(located) for located in outcome.settled}
        if self._sink is None and self._observer is None:
            return
        for located in outcome.placed:
            row = self.settlement.row(located, delivered.get(id(located), 0))
            if self._sink is not None:
                self._sink(self, row, located.frames)
        if self._observer is None:
            return
        fresh = {id(located) for located in outcome.placed}
        for located in outcome.placed:
            row = self.settlement.row(located, delivered.get(id(located), 0))
            self._observer.placed(self, row, located.octets)
        for located in outcome.settled:
            if delivered[id(located)] and id(located) not in fresh:
                self._observer.delivered(self, self.settlement.row(located, delivered[id(located)]))

    def _settle(self, located: Located) -> int:
        """The chain passes an FPDU; returns the frame at which it is delivered, 0 if it is not."""
        settlement = self.settlement
        if located.offset == 0:
            wrong = self.opening.begin_located(located)
            if wrong is not None and self.deviation is None:
                self.find(wrong[0], 0, *located.known, wrong[1])
        error = settlement.first_error
        if error is not None and self.requests_before_error < 0 and located.offset >= error[1]:
            self.requests_before_error = self.ddp.requests
        # Records first: what is found may raise a doubt, and has no part in them.
        delivered = settlement.pass_located(located)
        self.report(self.watches.show_located(located))
        if located.terminate:
            self._find_terminate(located)
        return delivered

    def _tell(self, row: Row, frames: tuple[int, ...], octets: bytes) -> None:
        """Hand an FPDU that was read in order to whoever wants to know of each."""
        if self._sink is not None:
            self._sink(self, row, frames)
        if self._observer is not None:
            self._observer.placed(self, row, octets)

    def _find_beginning(self, when: Moment) -> None:
        """The first octets are no FPDU as was agreed on: report what they are."""
        wrong = self.opening.what_is_wrong()
        if wrong is not None and self.deviation is None:
            self.find(wrong[0], 0, *when, wrong[1])

    def _find_terminate(self, located: Located) -> None:
        terminate = decode_terminate(located.terminate)
        place = located.offset, *(located.placed or located.complete)
        if terminate is None:
            header = decode_ddp(located.terminate)
            if isinstance(header, UntaggedHeader):
                self.find("terminate-layout", *place, f"a body of {header.payload_length} octets has no control word")
            return
        detail = f"{terminate.meaning} (layer {terminate.layer}, etype {terminate.etype}, code {terminate.code:#04x})"
        self.find("terminate", *place, detail)
        if names_buffer(terminate):
            other = "responder" if self.direction == "initiator" else "initiator"
            detail = f"the peer answers by a Terminate: {terminate.meaning}"
            self.mpa.findings.add("attack-buffer", other, *place[1:], self.reassembly.seq_of(located.offset), detail)
        if terminate.layout == "siw":
            self.find("terminate-layout", *place, "control word laid out from the least significant bit, as siw does")

    def find(self, rule: str, offset: int, frame: int, time: int, detail: str) -> None:
        """Report the breach of a rule at an offset of the stream; the time is in nanoseconds."""
        self.report((Breach(rule, offset, frame, time, detail),))

    def report(self, breaches: Iterable[Breach]) -> None:
        """Report breaches of rules: each may be the first sign that the sender deviates."""
        for breach in breaches:
            self.inquiry.notice(breach)
            self._report_to.add(breach)

    # --- alignment of segments (RFC 5044 §2) ---

    @property
    def _next_start(self) -> int | None:
        """Where the next FPDU begins, None if that is not known."""
        return self.reassembly.base if self.chain.is_chained else None

    def _judge_alignment(self) -> None:
        self.settlement.judge(self.reassembly.base, self._next_start)

    def _know_start(self) -> None:
        """An FPDU begins where the chain has a part of one, though it may never be complete."""
        if self.chain.is_inside_fpdu:
            self.settlement.know_start(self.chain.at)


class HalfFindings:
    """Makes findings of the breaches of one half connection.

    Attributes:
        broken: the rules that were found broken.
    """

    __slots__ = ("_direction", "_findings", "_reassembly", "broken")

    def __init__(self, findings: Findings, direction: Direction, reassembly: Reassembly) -> None:
        self._findings = findings
        self._direction = direction
        self._reassembly = reassembly
        self.broken: set[str] = set()

    def add(self, breach: Breach) -> None:
        """Report one."""
        rule, offset, frame, time, detail = breach[:5]
        self.broken.add(rule)
        seq = self._reassembly.seq_of(offset)
        self._findings.add(rule, self._direction, frame, time, seq, detail, code=breach.code, topic=breach.topic)
