"""Full Operation of one direction: what its reader found, handed to the watches, the log and whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.receiver.deviation import Diagnosis
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.receiver.plain import PlainWrites
from scapy_mpa.receiver.values import Breach, Gap, LocatedFPDU, Moment, Run
from scapy_mpa.receiver.window import Layout
from scapy_mpa.stream.connection import Arrival, TCPHalf
from scapy_mpa.stream.peer_state import NEVER
from scapy_mpa.values.lifecycle import Terminated
from scapy_mpa.values.records import BAD, LENGTH, FPDULog, FPDURow, flags
from scapy_mpa.watches.copies import CopyWatch
from scapy_mpa.watches.counts import Counts, UnalignedSegment
from scapy_mpa.watches.ddp import ulpdu_of
from scapy_mpa.watches.deviating import DeviationWatch
from scapy_mpa.watches.fpdus import FirstFPDU, FirstSend, FPDUWatch
from scapy_mpa.watches.gaps import GapWatch
from scapy_mpa.watches.lifecycle import DirectionEnd, closed_by
from scapy_mpa.watches.messages import MessageWatch, terminated
from scapy_mpa.watches.pathmtu import PathMTUWatch
from scapy_mpa.watches.reads import ReadWatch
from scapy_mpa.watches.segments import SegmentWatch

if TYPE_CHECKING:
    from scapy_mpa.analyzer.connection import CapturedConnection

#: Is handed each FPDU as it is placed, or found bad: its row and its frames.
PlacedSink: TypeAlias = "Callable[[FullOperation, FPDURow, tuple[int, ...]], None]"


class PlacedObserver(Protocol):
    """Who wants the octets of FPDUs too."""

    def placed(self, operation: FullOperation, row: FPDURow, octets: bytes) -> None:
        """An FPDU was placed, or found bad; ``octets`` are all of its octets, Markers included."""

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""


class HalfFindings:
    """Makes findings of what one direction breaks.

    Attributes:
        broken: the rules that were broken in it.
    """

    __slots__ = ("_mpa", "_role", "_stream", "broken")

    def __init__(self, mpa: CapturedConnection, role: Role, stream: TCPHalf) -> None:
        self._mpa = mpa
        self._role: Role = role
        self._stream = stream
        self.broken: set[str] = set()

    def report(self, breaches: Iterable[Breach], count: int = 1) -> None:
        """Count breaches, of the peer too."""
        base = self._stream.space.base or 0
        for one in breaches:
            role = peer_of(self._role) if one.is_of_peer else self._role
            if not one.is_of_peer:
                self.broken.add(one.rule)
            place = one.frame, one.time, (base + one.offset) & SEQ_MASK
            self._mpa.findings.add(one.rule, role, *place, one.detail, code=one.code, topic=one.topic, count=count)

    def forget(self, rules: set[str]) -> None:
        """Forget what was found of these rules: it was misread."""
        self._mpa.findings.forget(self._role, rules)
        self.broken -= rules


class FullOperation:
    """One direction after the startup frames.

    Args:
        mpa: its connection.
        direction: who sends.
        key: addresses and ports of its segments.
        reader: what reads its FPDUs.
        emss: octets that a segment holds, as both SYNs announce it; 0 if that is not known.
        path_mtu: what routers report of its packets.
        diagnosis: what its sender does wrong, None if nothing.
        agreed: how FPDUs were to lie.
        log: keeps a row for each FPDU, None if nobody wants them.
        sink: is handed each FPDU as it is placed.
        observer: is handed FPDUs with their octets.

    Attributes:
        counts: what was counted.
        gapped: whether octets were never captured, so that nothing after them is delivered.
        first_frame: the frame at which the first FPDU was located, NEVER before.
        is_replaced: whether another one has taken its place, because its sender deviates.
    """

    __slots__ = (
        "_observer", "_sink", "_told", "copies", "counts", "deviating", "diagnosis", "direction", "first_frame",
        "fpdus", "gaps", "half", "is_replaced", "key", "log", "messages", "mpa", "path_mtu", "peer", "reader", "reads",
        "report_to", "segments", "seq_start", "terminated",
    )  # fmt: skip

    def __init__(
        self,
        mpa: CapturedConnection,
        direction: Role,
        key: bytes,
        reader: FPDUReader,
        emss: int,
        path_mtu: PathMTUWatch,
        diagnosis: Diagnosis | None,
        agreed: Layout,
        log: bool,
        sink: PlacedSink | None,
        observer: PlacedObserver | None,
    ) -> None:
        self.mpa = mpa
        self.direction: Role = direction
        self.key = key
        self.reader = reader
        self.half = reader.half
        self.diagnosis = diagnosis
        self.deviating = (
            DeviationWatch(diagnosis, agreed, mpa.profile.fpduptr_origin) if diagnosis is not None else None
        )
        self.seq_start = self.half.space.base or 0
        is_beginning, layout = reader.is_beginning, reader.layout
        frame = mpa.frame_of(direction)
        self.counts = Counts(0 if is_beginning else None)
        self.fpdus = FPDUWatch(layout, is_beginning, emss, mpa.profile.fpduptr_origin, mpa.gso_flag)
        self.path_mtu = path_mtu
        self.segments = SegmentWatch(path_mtu.messages)
        self.messages = MessageWatch()
        self.copies = CopyWatch(layout, frame.frame if frame is not None else 0)
        self.gaps = GapWatch(is_beginning, layout.crc)
        self.reads: tuple[ReadWatch, ReadWatch] | None = None
        self.peer: FullOperation | None = None
        self.terminated: Terminated | None = None
        self.report_to = HalfFindings(mpa, direction, self.half)
        self.log = FPDULog(self.seq_start if self.markers else None) if log else None
        self._sink = sink
        self._observer = observer
        if sink is None and observer is None and diagnosis is None:
            reader.plain = PlainWrites(mpa.profile.fpduptr_origin)
        #: The offset of the FPDU that was handed on last.
        self._told = 0
        self.first_frame = NEVER
        self.is_replaced = False

    # --- what it is ---

    @property
    def markers(self) -> bool:
        """Whether there are Markers, wherever its sender puts them."""
        layout = self.reader.layout
        return layout.markers if layout.dialect is None else layout.dialect.markers

    @property
    def crc(self) -> bool:
        """Whether CRCs are in use."""
        return self.reader.layout.crc

    @property
    def gapped(self) -> bool:
        """Whether octets were never captured, so that nothing after them is delivered."""
        return self.gaps.has_gap

    @property
    def first(self) -> FirstFPDU | None:
        """The first FPDU of Full Operation, None if it was not captured."""
        return self.fpdus.first

    @property
    def first_send(self) -> FirstSend | None:
        """The first Send, None if there is none, or nobody knows which was the first."""
        return self.fpdus.first_send

    @property
    def first_error(self) -> tuple[int, int] | None:
        """Frame and offset of the first error of code 2 or 3."""
        found = (self.fpdus.first_error, self.reader.first_error)
        return min((one for one in found if one is not None), default=None)

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
        """Whether octets are missing, so far, before others that were captured."""
        copies = self.half.copies
        return copies.end > copies.edge(self.reader.main.at)

    def offset_of(self, seq: int) -> int:
        """Return the stream offset of a sequence number within 2 GiB of the FPDU that was handed on last."""
        return self._told + seq_diff(seq, self.seq_of(self._told))

    def seq_of(self, offset: int) -> int:
        """Return the sequence number of a stream offset."""
        return (self.seq_start + offset) & SEQ_MASK

    def report(self, breaches: Iterable[Breach]) -> None:
        """Report breaches of rules."""
        self.report_to.report(breaches)

    # --- what the reader found ---

    def take(self, arrivals: Iterable[Arrival]) -> None:
        """Take what the reader found since the last time; ``arrivals`` are the segments that came."""
        reader, half = self.reader, self.half
        counts, copies, segments, gaps = self.counts, self.copies, self.segments, self.gaps
        for arrival in arrivals:
            if arrival.end > 0:
                counts.arrived(arrival)
                copies.arrived(arrival)
                if found := segments.arrived(arrival):
                    self.report(found)
                if found := gaps.arrived(arrival):
                    self.report(found)
        self.messages.acknowledged = half.peer.last_ack_sent
        for wrong in reader.contradictions:
            self.report((self.fpdus.contradicted(wrong),))
            if not wrong.offset:
                self.report(self.fpdus.wrong_beginning(reader.first_octets, wrong.moment))
        passed, reader.passed = reader.passed, []
        final, reader.final = reader.final, []
        reader.contradictions = []
        # Without startup frames, connections are numbered by the first FPDU located, which need not be final first.
        is_numbered_so = self.first_frame == NEVER or not self.reader.startup[0]
        if is_numbered_so or self._sink is not None or self._observer is not None:
            self._hand_on(final, passed)
        for one, delivered in passed:
            if isinstance(one, Run):
                self._pass_run(one, delivered)
            elif isinstance(one, Gap):
                self.counts.lost(one)
                self.report(self.gaps.lost(one))
            else:
                self._pass(one, delivered)
        if reader.plain is not None:
            ddp = self.fpdus.ddp
            reader.plain.allow(ddp.plain_control, self.fpdus.sizes.longest, ddp.longest_part)
        if reader.rivals or half.late:
            self.report(copies.competed([*reader.rivals, *half.late]))
            reader.rivals, half.late = [], []
        fin = half.fin_captured if reader.left_out else None
        for octets in reader.left_out:
            self.counts.left_out(octets)
            self.report(self.copies.left_out(octets, fin[1] if fin is not None else 0, half.start))
        reader.left_out = []
        self._judge(self.counts.judged())

    def _judge(self, segments: Iterable[UnalignedSegment]) -> None:
        for segment in segments:
            self.report(self.segments.unaligned(segment))

    def _pass_run(self, run: Run, delivered: int) -> None:
        """Hand the next FPDUs in stream order, which are plain, to the watches."""
        self.counts.passed_run(run, delivered)
        if self.log is not None:
            place = self.seq_of(run.offset), flags(run.crc, LENGTH, False), run.moment[0], delivered, run.moment[1]
            self.log.add_run(*place, run.fpdus)
        if run.moment[0] < self.first_frame:
            self.first_frame = run.moment[0]
        bare = run.bare()
        self.copies.passed_run(bare)
        self.gaps.passed_run(run)
        self.fpdus.ddp.passed_run(run)
        self.messages.passed_run(run, bare)

    def _pass(self, fpdu: LocatedFPDU, delivered: int) -> None:
        """Hand the next FPDU in stream order to the watches."""
        self.counts.passed(fpdu, delivered)
        if self.log is not None:
            self.log.add(self._row(fpdu, delivered), fpdu.frames)
        self.copies.passed(fpdu)
        if found := self.gaps.passed(fpdu):
            self.report(found)
        if self.deviating is not None:
            breaches, fpdu = self.deviating.passed(fpdu)
            self.report(breaches)
        if found := self.fpdus.passed(fpdu):
            self.report(self.segments.explained(found))
        if not fpdu.offset and self.fpdus.first is not None and self.fpdus.first.is_doubtful:
            self.report(self.fpdus.wrong_beginning(self.reader.first_octets, fpdu.known))
        self.messages.passed(fpdu, ulpdu_of(fpdu))
        if fpdu.opcode == TERMINATE_OPCODE:
            self.quote()
        peer = self.peer
        if self.reads is not None and peer is not None:
            mine, others = self.reads
            if mine.has_new_requests and (found := mine.requested(fpdu, peer.has_hole)):
                self.report(found)
            if found := others.answered(fpdu):
                peer.report(found)
            if found := others.answer_after_error(fpdu):
                self.report(found)

    def quote(self) -> None:
        """Look for the message that the Terminate quotes: when it is placed, and again at the end."""
        if self.fpdus.terminate is not None:
            found = terminated(self.fpdus.terminate, self.peer.messages if self.peer is not None else None)
            if self.terminated is None or found.message is not None:
                self.terminated = found

    # --- who listens ---

    def _hand_on(self, final: list[LocatedFPDU], passed: list[tuple[LocatedFPDU | Gap | Run, int]]) -> None:
        """Hand on FPDUs that became final, and those before that are delivered now."""
        for fpdu in final:
            self.first_frame = min(self.first_frame, fpdu.known[0])
        if self._sink is None and self._observer is None:
            return
        waiting = {fpdu.offset: fpdu for fpdu in final}
        for one, delivered in passed:
            if not isinstance(one, LocatedFPDU):
                continue
            if waiting.pop(one.offset, None) is not None:
                self._hand(one, delivered)
            elif delivered and self._observer is not None:
                self._told = one.offset
                self._observer.delivered(self, self._row(one, delivered))
        for fpdu in waiting.values():
            self._hand(fpdu, 0)

    def _hand(self, fpdu: LocatedFPDU, delivered: int) -> None:
        row = self._row(fpdu, delivered)
        self._told = fpdu.offset
        if self._sink is not None:
            self._sink(self, row, fpdu.frames)
        if self._observer is not None:
            self._observer.placed(self, row, bytes(fpdu.octets))

    def _row(self, fpdu: LocatedFPDU, delivered: int) -> FPDURow:
        is_bad = fpdu.crc == BAD
        frame, time = fpdu.complete if is_bad else fpdu.known
        error = self.first_error
        return FPDURow(
            self.seq_of(fpdu.offset), self.seq_of(fpdu.header), fpdu.end - fpdu.offset, fpdu.ulpdu_length,
            fpdu.markers, flags(fpdu.crc, fpdu.located_by, error is not None and (frame, fpdu.offset) > error),
            fpdu.opcode, 0 if is_bad else frame, delivered, time, len(fpdu.frames), fpdu.frames[0],
        )  # fmt: skip

    # --- the end ---

    def end(self) -> DirectionEnd:
        """Return what is known of the direction when nothing more comes."""
        main, rest = self.reader.main, self.reader.rest
        # What its receiver may have dropped, and no FPDU needs, may be none of its sender's.
        sent = max(main.at, main.edge)
        if rest is not None and rest.is_doubtful:
            sent = min(rest.start, max(self.half.highest, self.half.believed))
        self.messages.acknowledged = self.half.peer.last_ack_sent
        error = self.first_error
        return direction_end(self.half, sent)._replace(
            messages=self.messages.unacknowledged(sent),
            terminated=self.terminated,
            error_frame=error[0] if error is not None else None,
            has_gap=self.gapped,
            is_in_operation=True,
        )

    def finish(self, mine: DirectionEnd, peer: DirectionEnd, now: Moment) -> None:
        """Nothing more comes, and both directions ended so."""
        reader, half, rest = self.reader, self.half, self.reader.rest
        edge = mine.sent
        end = half.highest if half.fin is None else half.fin
        is_located = rest is not None and rest.is_located
        if self.deviating is not None:
            self.report(self.deviating.finish(self.counts.fpdus))
        self._judge(self.counts.finish((rest.start, rest.end) if rest and is_located else None, is_cut=end > edge))
        if not self.counts.fpdus and reader.first_octets:
            self.report(self.fpdus.wrong_beginning(reader.first_octets, now))
        self.report(self.gaps.finish(rest, edge, closed_by(mine, peer), mine.acknowledged, now))
        sizes, longest = self.fpdus.sizes, self.segments.longest
        self.report(self.segments.explained(sizes.finish(self.fpdus.ddp, longest)))
        self.report(self.segments.finish(self.counts, sizes.fits(longest), now))
        for one, detail, count in self.path_mtu.finish():
            place = one.frame, one.time, one.seq
            self.mpa.findings.add("path-mtu", self.direction, *place, detail, count=count)
        if self.reads is not None:
            self.report(self.reads[0].finish())
        if self.log is not None and self.first_error is not None:
            self.log.mark_after(self.first_error, self.seq_start, reader.startup[0])


def direction_end(half: TCPHalf, sent: int | None = None) -> DirectionEnd:
    """Return what TCP shows of a direction when nothing more comes; ``sent`` is the offset after its last octet."""
    sent = max(half.highest, 0) if sent is None else sent
    return DirectionEnd(
        (half.last_frame, half.last_time), half.fin_captured, half.resets, half.reset_count, half.retransmissions,
        half.start, sent, half.peer.last_ack_sent, half.peer.sacked_octets(sent), is_in_operation=False,
    )  # fmt: skip
