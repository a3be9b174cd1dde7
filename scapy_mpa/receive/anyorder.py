"""Segments in any order: held, handed to recovery, and what came of them settled (RFC 5044 §6).

This is the whole of receiving for any segment; :mod:`~scapy_mpa.receive.inorder` takes those that follow what is held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from scapy_mpa.infer.deviating import DeviatingChain
from scapy_mpa.receive.copies import Copies, SentOctets
from scapy_mpa.receive.located import Breach, Located, Outcome
from scapy_mpa.receive.reassembly import Piece, is_cut
from scapy_mpa.receive.recovery import Recovery
from scapy_mpa.receive.rivals import Decided, Rival, RivalCopies, overlap
from scapy_mpa.receive.scan import FPDUReader
from scapy_mpa.receive.settlement import Settlement
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.limits import Limits
from scapy_mpa.values.segment import Segment
from scapy_mpa.watch.fpdus import FPDUWatches, terminate_breaches
from scapy_mpa.watch.opening import Opening
from scapy_mpa.watch.segments import SegmentWatches

#: Octets from an offset up to another.
Range: TypeAlias = tuple[int, int]
#: What a half connection may hold back whatever all others do.
_LITTLE = 4096


class Teller(Protocol):
    """Who hands FPDUs on as they are placed."""

    def tell_placed(self, located: Located, delivered: int) -> None:
        """An FPDU was placed, or found bad; it is delivered at that frame, 0 if not yet or never."""

    def tell_delivered(self, located: Located, delivered: int) -> None:
        """An FPDU that was placed at an earlier frame is delivered at a frame."""


class FirstFPDU(NamedTuple):
    """With what recovery begins, once it has to.

    Attributes:
        begins_at: the offset of the first FPDU, None if that is not known.
        may_search: whether one may be searched for.
        keeps_octets: whether what is located keeps its octets until it has been handed on.
    """

    begins_at: int | None
    may_search: bool
    keeps_octets: bool


class AnyOrder:
    """The segments of one half connection, whatever order they come in.

    Args:
        half: the direction of the TCP connection.
        reader: reads single FPDUs of its octets.
        floor: the moment at which both startup frames were there.
        limits: how much is held back at most.
        settlement: takes what was placed.
        watches: are shown FPDUs.
        segments: are shown segments.
        opening: takes the first FPDU.
        sent: what this side says it sent.
        report: takes the rules that are broken.
        teller: hands FPDUs on as they are placed, None if nobody wants them.
        first: with what recovery begins.
        deviating: the chain of a sender that deviates, in place of recovery.

    Attributes:
        sent: what this side says it sent.
        requests_before_error: how many RDMA Reads and Atomics were asked for before the first error, -1 without one.
    """

    __slots__ = (
        "_chain", "_copies", "_first", "_floor", "_half", "_limits", "_now", "_opening", "_reader", "_reassembly",
        "_report", "_rivals", "_segments", "_settlement", "_teller", "_watches", "requests_before_error", "sent",
    )  # fmt: skip

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
        sent: SentOctets,
        report: Callable[[Iterable[Breach]], None],
        teller: Teller | None,
        first: FirstFPDU,
        deviating: DeviatingChain | None,
    ) -> None:
        self._half = half
        self._reassembly = reader.reassembly
        self._floor = floor
        self._limits = limits
        self._reader = reader
        self._first = first
        #: None as long as all comes in order.
        self._chain: Recovery | DeviatingChain | None = deviating
        self._settlement = settlement
        self._watches = watches
        self._segments = segments
        self._opening = opening
        self._report = report
        self._teller = teller
        self._copies = Copies(reader.reassembly, reader.layout, settlement)
        self.sent = sent
        self._rivals = RivalCopies(reader)
        #: The moment of the last segment.
        self._now = floor
        self.requests_before_error = -1

    @property
    def chain(self) -> Recovery | DeviatingChain:
        """Recovery, or the chain of a sender that deviates."""
        if self._chain is None:
            begins_at, may_search, keeps = self._first
            is_final = self.sent.is_acknowledged
            self._chain = Recovery(self._reader, self._floor, keeps, begins_at, may_search, self._rivals, is_final)
        return self._chain

    # --- segments ---

    def take(self, seg: Segment) -> bool:
        """Take a segment; False if it brings nothing new."""
        # One that had to wait may come behind later ones.
        self._now = max((seg.frame, seg.time), self._now)
        # Whether an FPDU is final depends on what had been acknowledged before.
        self.keep_up()
        new, rival = self._commit(seg)
        if new or rival:
            self._place(self._now, [*new, *rival])
        self._settlement.judge(self._reassembly.base, self._next_start)
        return bool(new)

    def take_waited(self, segments: Iterable[Segment], acks: Mapping[int, int]) -> None:
        """Take segments that came before both startup frames were there: until then nothing of them was complete.

        ``acks`` is what the peer had acknowledged when each came, by frame.
        """
        changed: list[Range] = []
        for seg in segments:
            self._half.peer.look_back(acks.get(seg.frame, -1))
            for ranges in self._commit(seg):
                changed += ranges
        if changed:
            self._place(self._floor, changed)
        self._settlement.judge(self._reassembly.base, self._next_start)

    def keep_up(self) -> None:
        """Judge what the peer's acknowledgements make final."""
        if self._chain is not None and self._chain.is_waiting:
            self._account(self._chain.work(self._now, []))

    @property
    def may_have_dropped(self) -> bool:
        """Whether its receiver may have dropped a segment without a word (RFC 5044 §8)."""
        return self._rivals.has_kept

    def drop_damaged(self) -> None:
        """Drop octets in order whose TCP checksum is wrong."""
        self.catch_up()
        reassembly = self._reassembly
        self.chain.withdraw(reassembly.damaged(reassembly.base, reassembly.next), reassembly.base)
        self._account(self.chain.work(self._now, []))

    def end_waiting(self) -> None:
        """Nothing more comes: no copy is waited for any longer."""
        if self.chain.is_waiting:
            self._account(self.chain.end_waiting(self._now))

    def release(self) -> None:
        """The block of the capture goes."""
        self.keep_up()
        if self._rivals.waiting:
            self._rivals.release({})

    def _commit(self, seg: Segment) -> tuple[list[Range], list[Range]]:
        """Hold what a segment brings, and count it; returns the ranges of octets that are new, and that are others."""
        reassembly, counts, sent = self._reassembly, self._settlement.counts, self.sent
        self.catch_up()
        start = reassembly.offset_of(seg.seq)
        end = start + seg.end - seg.start
        if start + seg.length <= 0:
            return [], []  # the startup phase, once more
        self._segments.lengthen(seg.length)
        if is_cut(seg):
            cut = seg.length - seg.end + seg.start
            sent.cut_at(start + seg.length)
            self._find("capture-cut", end, seg.frame, seg.time, f"{cut} octets of the payload were not captured")
        highest = reassembly.highest
        if seg.frame < self._now[0]:
            # It had to wait: what came while it did is no reason to call it late.
            before = (piece.end for piece in reassembly.pieces if piece.seg.frame < seg.frame)
            highest = max(before, default=reassembly.base)
        new: list[tuple[int, int]] = []
        # A keep-alive may bring one octet of anything (RFC 9293 §3.8.4).
        keep_alive = seg.length == 1 and end == reassembly.next
        rival: list[tuple[int, int]] = []
        if start < end and self._agrees(seg, start, end, keep_alive, rival):
            new = reassembly.commit(seg, start, end)
        self._opening.keep_segment(reassembly)
        rst = self._half.rst
        if new and rst is not None and rst[1] < seg.frame and end > reassembly.offset_of(rst[0]):
            detail = f"{end - start} octets after the RST of frame {rst[1]}"
            self._find("attack-reset", start, seg.frame, seg.time, detail)
        if not new and not keep_alive and not self._settlement.is_boundary(start, self._next_start):
            detail = self._copies.cut_of_repeat(seg, start, end)
            if detail:
                self._find("alignment-retransmission", start, seg.frame, seg.time, detail)
        counts.take_segment(is_repeat=not new, is_late=bool(new) and new[0][0] < highest)
        if start >= 0:
            self._settlement.judge_later(start, end)
        return new, rival

    def _agrees(self, seg: Segment, start: int, end: int, keep_alive: bool, rival: list[tuple[int, int]]) -> bool:
        """Whether a segment may be committed; octets that differ from those at hand are looked into.

        ``rival`` takes the range of such octets, if it is not known yet which were taken.
        """
        verdict = self._copies.judge(seg, start, end, keep_alive)
        for offset, other in verdict.dropped:
            self.chain.withdraw([other], offset)
        self._report(verdict.breaches)
        if verdict.rival is not None:
            offset = verdict.rival[0]
            is_late = self.sent.is_acknowledged(offset, offset + 1)
            kept = None
            if self.chain.judges_copies and not is_late:
                # What may be a keep-alive is none if it makes an FPDU good.
                kept = self._rivals.keep(seg, start, verdict.rival, is_reported=keep_alive)
            if kept is not None:
                rival.append(kept)
            elif not keep_alive:
                what = "it came after the peer had acknowledged them" if is_late else "the first copy is kept"
                self._report_copy(Rival(Piece(start, end, seg.start, seg), *verdict.rival), what)
        return verdict.takes

    def _report_copy(self, rival: Rival, reason: str) -> None:
        """A copy differs: report it, and what decided."""
        part = self.chain.at if self.chain.is_inside_fpdu else None
        self._report((overlap(Decided(rival, reason)),))
        self._report(self._copies.injection(rival.piece.seg, (rival.offset, rival.other), part))

    def _place(self, now: Moment, new: list[tuple[int, int]]) -> None:
        reassembly = self._reassembly
        if not self._settlement.complete:
            self._opening.keep_octets(reassembly)
        self._account(self.chain.work(now, new))
        limits = self._limits
        while reassembly.beyond and (
            reassembly.weight > limits.held_octets or len(reassembly.pieces) > limits.held_segments
        ):
            detail = f"more than {limits.held_octets} octets held back for a gap (held_octets)"
            if reassembly.weight <= limits.held_octets:
                detail = f"more than {limits.held_segments} segments held back for a gap (held_segments)"
            self._find("limit", reassembly.next, *now, detail)
            self._skip_gap(now)
        is_full = reassembly.weight > limits.held_octets or len(reassembly.pieces) > limits.held_segments
        if is_full and self.chain.is_waiting:
            detail = (
                f"more than {limits.held_octets} octets held back while waiting for a retransmitted FPDU (held_octets)"
            )
            self._find("limit", reassembly.next, *now, detail)
            self._account(self.chain.end_waiting(now))

    # --- gaps, limits, the end ---

    def catch_up(self) -> None:
        """Learn what was read in order: all octets consumed were FPDUs."""
        self._catch_up(self.chain.take_over((self._settlement.complete, self._settlement.complete_time)))

    def _catch_up(self, has_read: bool) -> None:
        settlement, base = self._settlement, self._reassembly.base
        self._reassembly.catch_up()
        settlement.counts.settle()
        if has_read:
            settlement.locate(settlement.located_end, base)
            self._watches.ddp.pass_to(base)

    @property
    def has_all_read(self) -> bool:
        """Whether all that came was FPDUs in order, from the first octet on: there is nothing to recover."""
        reassembly = self._reassembly
        return self._chain is None and self._first.begins_at == 0 and not reassembly.pieces and not reassembly.beyond

    def _skip_gap(self, now: Moment) -> None:
        reassembly, chain = self._reassembly, self.chain
        start, end = reassembly.next, reassembly.beyond[0][0]
        beyond = reassembly.pieces_of(end, end + 1)[0].seg
        self._report(self.sent.gap(start, end, (beyond.frame, beyond.time)))
        self._know_start()
        # What is reported now lies before the gap: it can still be delivered.
        self._account(chain.give_up(now))
        self._settlement.lose_octets()
        self._account(chain.skip_gap(now))

    def relieve(self, now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        reassembly = self._reassembly
        self.catch_up()
        detail = f"more than {self._limits.total_octets} octets held back in all (total_octets)"
        self._find("limit", reassembly.next, *now, detail)
        while reassembly.beyond and reassembly.weight > _LITTLE:
            self._skip_gap(now)
        if reassembly.weight > _LITTLE:
            self._account(self.chain.give_up(now))
            self._settlement.lose_octets()
            self._account(self.chain.drop(now))

    def finish(self, now: Moment) -> None:
        """The half connection is over."""
        reassembly, settlement = self._reassembly, self._settlement
        cut = begun = 0
        if self.has_all_read:
            self._catch_up(has_read=True)
            self._find_end(now)
        else:
            cut, begun = self._finish_recovery(now)
        settlement.mark_after_error(self._floor[0])
        settlement.counts.finish(
            cut,
            reassembly.captured,
            reassembly.highest - reassembly.first - reassembly.captured - self.sent.not_sent,
            max(0, reassembly.captured - settlement.located_octets - begun),
        )
        settlement.judge(reassembly.highest, self._next_start)
        if self._opening.octets and not settlement.complete:
            self._find_beginning(now)
        self._conclude(now)

    def _finish_recovery(self, now: Moment) -> tuple[int, int]:
        """The same where recovery waits for more: how many FPDUs were cut, and octets of one that is not complete."""
        reassembly, chain = self._reassembly, self.chain
        self.catch_up()
        if not self._settlement.complete:
            self._opening.keep_octets(reassembly)
        while reassembly.beyond:
            self._skip_gap(now)
        self._know_start()
        self._account(chain.flush(now))
        while reassembly.beyond:
            # What turned out to be damaged was withdrawn, and has left a hole.
            self._skip_gap(now)
            self._account(chain.flush(now))
        self._know_start()
        self._opening.keep_segment(reassembly)
        rest = chain.take_rest(now)
        if rest is not None:
            self._settlement.end_delivery()
            self._account(rest)
        for decided in self._rivals.give_up():
            self._report_copy(*decided)
        self._find_end(now)
        return chain.cut, reassembly.next - chain.at if chain.is_inside_fpdu else 0

    def _conclude(self, now: Moment) -> None:
        """What can be said only when nothing more comes."""
        chain, settlement, segments, sizes = self._chain, self._settlement, self._segments, self._watches.sizes
        counts, located_end = settlement.counts, settlement.located_end
        self._report(segments.explained(sizes.finish(self._watches.ddp, segments.longest)))
        self._report(segments.explained(segments.alignment.finish(counts, sizes.fits(segments.longest), now)))
        if chain is None:
            return
        begins = not (settlement.gapped or chain.cut or settlement.delivers_from_first_located)
        rest = self._reassembly.next - located_end
        if not chain.is_chained and begins and rest > 0:
            self._find("fpdu-format", located_end, *now, f"{rest} octets that belong to no FPDU")
        self._report(chain.conclusions(counts.fpdus))

    def _find_end(self, now: Moment) -> None:
        """How the half connection ended, if it ended in the middle of something."""
        reassembly, chain, closed = self._reassembly, self._chain, self._half.closed
        end = self.sent.end()
        if end > reassembly.next:
            self._report(self.sent.gap(reassembly.next, end, closed[1] if closed is not None else now))
        if chain is None:
            return
        if end > reassembly.next or self.sent.has_unseen:
            # More was sent, of which no frame knows: nothing can be said of how it ended.
            chain.count_cut()
        elif closed is not None and chain.is_inside_fpdu:
            how, when = closed
            latest = max((piece.seg.frame, piece.seg.time) for piece in reassembly.pieces)
            if how == "FIN" or when >= latest:
                detail = f"{how} {reassembly.next - chain.at} octets into an FPDU"
                self._find("connection-lost", chain.at, *max(when, latest), detail)

    # --- what came of it ---

    def _account(self, outcome: Outcome) -> None:
        """Count, record and report what a frame changed."""
        self._report(outcome.breaches)
        for breach in outcome.breaches:
            if breach.rule in ("crc", "marker-length"):
                self._settlement.take_error(breach)
        delivered = {id(located): self._settle(located) for located in outcome.settled}
        teller = self._teller
        if teller is None:
            return
        fresh = {id(located) for located in outcome.placed}
        for located in outcome.placed:
            teller.tell_placed(located, delivered.get(id(located), 0))
        for located in outcome.settled:
            if delivered[id(located)] and id(located) not in fresh:
                teller.tell_delivered(located, delivered[id(located)])

    def _settle(self, located: Located) -> int:
        """The chain passes an FPDU; returns the frame at which it is delivered, 0 if it is not."""
        settlement = self._settlement
        if located.offset == 0:
            wrong = self._opening.begin_located(located)
            if wrong is not None and self.chain.diagnosis is None:
                self._find(wrong[0], 0, *located.known, wrong[1])
        error = settlement.first_error
        if error is not None and self.requests_before_error < 0 and located.offset >= error[1]:
            self.requests_before_error = self._watches.ddp.requests
        # Records first: what is found may raise a doubt, and has no part in them.
        delivered = settlement.pass_located(located)
        if self._rivals.waiting:
            for decided in self._rivals.judged(located.offset, located.end, located.placed is not None):
                self._report_copy(*decided)
        self._report(self._watches.show_located(located))
        if located.terminate:
            self._report(terminate_breaches(located))
        return delivered

    def _find_beginning(self, when: Moment) -> None:
        """The first octets are no FPDU as was agreed on: report what they are."""
        wrong = self._opening.what_is_wrong()
        if wrong is not None and self.chain.diagnosis is None:
            self._find(wrong[0], 0, *when, wrong[1])

    def _find(self, rule: str, offset: int, frame: int, time: int, detail: str) -> None:
        self._report((Breach(rule, offset, frame, time, detail),))

    # --- alignment of segments (RFC 5044 §2) ---

    @property
    def _next_start(self) -> int | None:
        """Where the next FPDU begins, None if that is not known."""
        return self._reassembly.base if self._chain is None or self._chain.is_chained else None

    def _know_start(self) -> None:
        """An FPDU begins where the chain has a part of one, though it may never be complete."""
        if self.chain.is_inside_fpdu:
            self._settlement.know_start(self.chain.at)
