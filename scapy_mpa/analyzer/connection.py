"""An MPA connection of the capture: startup frames, Full Operation of both directions, how it ended.

In: what the readers of a TCP connection found, as values.  Out: counts, rows of FPDUs, findings, for the report and for
whoever listens.  The Initiator is whoever sends the MPA Request, which need not be the side that sent the
SYN (RFC 5044 §2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from typing import TypeAlias

from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.ddp import (
    CONTROL_LENGTH,
    TAGGED_HEADER_LENGTH,
    TAGGED_OPCODES,
    TERMINATE_OPCODE,
    is_tagged,
    message_and_place,
    quoted_length,
)
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.judgement import Judgement
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.framing.startup import Kind
from scapy_mpa.infer.inference import Inferred
from scapy_mpa.rdmap.memory import LIFE, UNKNOWN
from scapy_mpa.rdmap.watch import MemoryWatch
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.deviation import Diagnosis
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.receiver.plain import PlainRun, PlainWrites
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.receiver.values import Breach, Gap, LocatedFPDU, Moment
from scapy_mpa.receiver.window import Layout
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.rules.table import GROUPS, RULES
from scapy_mpa.stream.connection import Arrival, Stray, TCPHalf, hop_limit_of
from scapy_mpa.stream.peer_state import NEVER, NOWHERE
from scapy_mpa.values.lifecycle import Lifecycle, Terminated
from scapy_mpa.values.octets import place
from scapy_mpa.values.options import Announced, emss_of
from scapy_mpa.values.records import BAD, LENGTH, FPDULog, FPDURow, flags
from scapy_mpa.values.segment import KeyedPath, Segment, endpoints, is_stream, reverse_key
from scapy_mpa.values.startup import PartOfFrame
from scapy_mpa.watches.copies import CopyWatch, dropped_segments, other_fins, stray
from scapy_mpa.watches.counts import Counts, UnalignedSegment
from scapy_mpa.watches.ddp import Request, Response, ulpdu_of
from scapy_mpa.watches.deviating import DeviationWatch
from scapy_mpa.watches.fpdus import FirstFPDU, FirstSend, FPDUWatch
from scapy_mpa.watches.gaps import GapWatch
from scapy_mpa.watches.invalidated import InvalidationWatch
from scapy_mpa.watches.lifecycle import (
    NO_END,
    DirectionEnd,
    Rejection,
    breaches_at_end,
    closed_by,
    closes_in_order,
    is_known_up_to,
    lifecycle,
    rejected,
)
from scapy_mpa.watches.messages import MessageWatch, terminated
from scapy_mpa.watches.pathmtu import PathMTUWatch
from scapy_mpa.watches.reads import ReadWatch
from scapy_mpa.watches.segments import SegmentWatch
from scapy_mpa.watches.startup import StartupPhase, StartupSide, copies_of_frame, judge_startup

#: Rules whose breach shows that octets of a direction exist in two forms, or are another one's.
_UNCERTAIN = frozenset(("overlap", "tcp-checksum", "crc-dropped", "attack-injection"))
_NO_PATHS: frozenset[KeyedPath] = frozenset()
_NOTHING_BROKEN: Set[str] = frozenset()
#: Opcodes of what has to do with the other direction: Requests, answers to them, Sends that invalidate an STag.
_RELATED = frozenset((1, 2, 4, 6, 10, 11))
#: The bits of ULPDU_Length in what a PlainRun has of each FPDU.
_ULPDU_LENGTH = 0xFFFF
#: What one side breaks as the octets of the other show it.
_OF_BOTH = {"error-passed", "read-response-unasked", "read-response-differs", "atomic-response", "request-unanswered"}
_OF_BOTH |= {rule.id for rule in GROUPS["Memory"]}


class Listener:
    """Receives startup frames and FPDUs as soon as they are known.

    Attributes:
        wants_octets: whether it wants the octets of FPDUs. These come once: a sender that turns out to deviate is not
            read again then, unless it was known before.
        takes_runs: whether :meth:`placed_run` hands it FPDUs that are plain, without their octets.
    """

    wants_octets = True
    takes_runs = False

    def see(self, segments: Sequence[Segment]) -> None:
        """Segments will be received next."""

    def startup(self, mpa: CapturedConnection, direction: Role, found: FoundFrame) -> None:
        """A startup frame is complete."""

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad; ``octets`` are all of its octets with Markers, for those that want them."""

    def placed_run(self, operation: FullOperation, run: PlainRun) -> None:
        """Receive FPDUs that were placed, each by the frame that carried it; it is delivered unless earlier octets are
        missing.
        """

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """Deliver an FPDU that was placed at an earlier frame; not called for listeners that want no octets."""

    def forget(self, mpa: CapturedConnection) -> None:
        """Release a connection that is over."""


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
        self.broken: Set[str] = _NOTHING_BROKEN

    def report(self, breaches: Iterable[Breach], count: int = 1) -> None:
        """Count breaches, of the peer too."""
        if not breaches:
            return
        base = self._stream.space.base or 0
        for one in breaches:
            role = peer_of(self._role) if one.is_of_peer else self._role
            if not one.is_of_peer:
                self.broken |= {one.rule}
            place = one.frame, one.time, (base + one.offset) & SEQ_MASK
            self._mpa.findings.add(one.rule, role, *place, one.detail, code=one.code, topic=one.topic, count=count)

    @property
    def has_faults(self) -> bool:
        """True if its receiver may rightly take no notice of a message of it."""
        return any(RULES[rule].severity != "note" or RULES[rule] in GROUPS["DDP and RDMAP"] for rule in self.broken)

    def forget(self, rules: Set[str]) -> None:
        """Forget what was found of these rules: it was misread."""
        self._mpa.findings.forget(self._role, rules)
        self.broken -= rules


class FullOperation:
    """One direction after the startup frames.

    Args:
        mpa: its connection.
        direction: the sender.
        key: addresses and ports of its segments.
        reader: what reads its FPDUs.
        emss: octets that a segment holds, as both SYNs announce it; 0 if that is not known.
        path_mtu: what routers report of its packets, None as long as none does.
        diagnosis: what its sender does wrong, None if nothing.
        agreed: how FPDUs were to lie.
        log: keeps a row for each FPDU, None if nobody wants them.
        listener: hears of FPDUs, if anybody does.
        memory: watches the memory that both directions name, None where nothing can be found.

    Attributes:
        counts: what was counted.
        gapped: whether octets were never captured, so that nothing after them is delivered.
        first_frame: the frame at which the first FPDU was located, NEVER before.
        is_replaced: whether another one has taken its place, because its sender deviates.
    """

    __slots__ = (
        "_listener", "_role", "_takes_plain", "_told", "copies", "counts", "deviating", "diagnosis", "direction",
        "first_frame", "fpdus", "gaps", "half", "invalidated", "is_replaced", "key", "log", "memory", "messages", "mpa",
        "path_mtu", "peer", "reader", "reads", "report_to", "segments", "seq_start", "terminated", "went_on_at",
    )  # fmt: skip

    def __init__(
        self,
        mpa: CapturedConnection,
        direction: Role,
        key: bytes,
        reader: FPDUReader,
        emss: int,
        path_mtu: PathMTUWatch | None,
        diagnosis: Diagnosis | None,
        agreed: Layout,
        log: bool,
        listener: Listener | None,
        memory: MemoryWatch | None,
    ) -> None:
        self.mpa = mpa
        self.direction: Role = direction
        self._role = ROLES.index(direction)
        self.key = key
        self.reader = reader
        self.half = reader.half
        self.diagnosis = diagnosis
        origin = mpa.profile.fpduptr_origin
        self.deviating = DeviationWatch(diagnosis, agreed, origin) if diagnosis is not None else None
        self.seq_start = self.half.space.base or 0
        is_beginning, layout = reader.is_beginning, reader.layout
        frame = mpa.frame_of(direction)
        self.counts = Counts(0 if is_beginning else None)
        self.fpdus = FPDUWatch(layout, is_beginning, emss, origin, mpa.said_of_long_fpdus)
        self.path_mtu = path_mtu
        self.segments = SegmentWatch(path_mtu.messages if path_mtu is not None else None)
        self.messages = MessageWatch()
        self.copies = CopyWatch(layout, frame.frame if frame is not None else 0)
        self.gaps = GapWatch(is_beginning, layout.crc)
        self.reads: tuple[ReadWatch, ReadWatch] | None = None
        self.invalidated: InvalidationWatch | None = None
        self.memory = memory
        self.peer: FullOperation | None = None
        self.terminated: Terminated | None = None
        self.went_on_at: Moment | None = None
        self.report_to = HalfFindings(mpa, direction, self.half)
        self.log = FPDULog(self.seq_start if self.markers else None) if log else None
        self._listener = listener
        if (listener is None or listener.takes_runs) and diagnosis is None:
            reader.plain = PlainWrites(origin, takes_all=listener is None and not log)
        #: The offset of the FPDU that was handed on last.
        self._told = 0
        self.first_frame = NEVER
        self.is_replaced = False
        #: Whether plain FPDUs may be next.
        self._takes_plain = False

    # --- what it is ---

    @property
    def markers(self) -> bool:
        """True if there are Markers, wherever its sender puts them."""
        layout = self.reader.layout
        return layout.markers if layout.dialect is None else layout.dialect.markers

    @property
    def crc(self) -> bool:
        """True if CRCs are in use."""
        return self.reader.layout.crc

    @property
    def gapped(self) -> bool:
        """True if octets were never captured, so that nothing after them is delivered."""
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
        found, other = self.fpdus.first_error, self.reader.first_error
        return other if found is None or (other is not None and other < found) else found

    @property
    def deviation(self) -> str | None:
        """The name of what its sender does wrong; None if nothing, or if that is unknown."""
        return self.diagnosis.candidate.name if self.diagnosis is not None else None

    @property
    def dialect(self) -> Dialect | None:
        """How to read the FPDUs of a sender that deviates."""
        return self.diagnosis.candidate.dialect if self.diagnosis is not None else None

    @property
    def has_hole(self) -> bool:
        """True if octets are missing, so far, before others that were captured."""
        return self.reader.has_hole

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
        if self.memory is not None:
            self.memory.arrived(self._role, arrivals)
        self.messages.acknowledged = half.peer.last_ack_sent
        has_read = reader.passed or reader.final or reader.contradictions or reader.damaged
        if not (arrivals or has_read or reader.rivals or reader.left_out or half.late):
            return
        peer = self.peer
        if peer is not None and self.went_on_at is None and peer.reader.error_acked < NEVER:
            self._note_going_on(arrivals, peer.reader.error_acked)
        for wrong in reader.contradictions:
            self.report((self.fpdus.contradicted(wrong),))
            if not wrong.offset and not wrong.is_damaged:
                self.report(self.fpdus.wrong_beginning(reader.first_octets, wrong.moment))
        for octets in reader.damaged:
            gaps.damaged(octets)
        passed = reader.take_passed()
        final, reader.final = reader.final, []
        reader.contradictions, reader.damaged = [], []
        # Without startup frames, connections are numbered by the first FPDU located, which need not be final first.
        is_numbered_so = self.first_frame == NEVER or not self.reader.startup[0]
        if is_numbered_so or self._listener is not None:
            self._hand_on(final, passed)
        for one, delivered in passed:
            if isinstance(one, PlainRun):
                self._pass_run(one)
            elif isinstance(one, Gap):
                self.counts.lost(one)
                self.report(self.gaps.lost(one))
            else:
                self._pass(one, delivered)
        if reader.plain is not None:
            ddp = self.fpdus.ddp
            reader.plain.allow(ddp.plain_control, self.fpdus.sizes.longest, ddp.longest_part)
        if reader.rivals or half.late:
            # What came late was known when it came, its other octets when their FPDU was passed.
            self.report(copies.competed([*half.late, *reader.rivals]))
            reader.rivals, half.late = [], []
        fin = half.fin_captured if reader.left_out else None
        for octets in reader.left_out:
            self.counts.left_out(octets)
            self.report(self.copies.left_out(octets, fin[1] if fin is not None else 0, half.start))
        reader.left_out = []
        if not counts.is_judged:
            self._judge_segments()

    def get_ready(self) -> bool:
        """Get ready for segments in turn; return False if they cannot be counted at once."""
        self._takes_plain = self.reader.is_steady() and self.counts.is_judged
        return self._listener is None

    def take_next(self, offset: int, seg: Segment) -> bool:
        """Read and take a segment that goes on where all octets end, if it holds plain FPDUs and nothing else."""
        if not self._takes_plain or self.reader.main.at != offset:
            return False
        if not self.segments.is_expected(hop_limit_of(seg.key, seg.buffer, seg.tcp)) or not self.reader.read_next(seg):
            return False
        self.counts.arrived_aligned(offset, offset + seg.length, seg.frame, seg.time)
        self._take_segment(offset, seg)
        return True

    def may_go_on(self, offset: int, seg: Segment) -> bool:
        """Return True if a segment whose octets are new may be read, and then be :meth:`gone_on` with."""
        reader, peer = self.reader, self.half.peer
        main = reader.main
        if self.half.copies.has_doubts or not self.segments.is_expected(hop_limit_of(seg.key, seg.buffer, seg.tcp)):
            return False
        # Beyond a hole that something may fill, octets wait.
        is_beyond = offset > main.edge and peer.acked != NOWHERE and offset > peer.acked and reader.may_wait()
        return is_beyond or offset in (main.at, main.edge)

    def gone_on(self, offset: int, seg: Segment, is_late: bool) -> None:
        """Count a segment whose octets were new; ``is_late``: others beyond them had come."""
        is_acknowledged = self.half.peer.acked >= offset
        end = offset + seg.length
        self.counts.brought(offset, end, seg.frame, seg.time, seg.length, is_late, is_acknowledged)
        if not is_late:
            self.counts.bring(offset, end, seg.frame)
        self._take_segment(offset, seg)
        self._takes_plain = self.reader.main.at == end and self.reader.is_steady() and self.counts.is_judged

    def _take_segment(self, offset: int, seg: Segment) -> None:
        """Note a segment whose octets are new, and that is expected."""
        self.copies.arrived_aligned(offset + seg.length)
        self.segments.arrived_aligned(seg.length)
        if self.memory is not None:
            self.memory.acknowledged(self._role, seg.frame, seg.ack)

    def _judge_segments(self) -> None:
        """Judge how the segments lie that waited for the FPDUs around them."""
        limit, segment = self.counts.limit, UnalignedSegment()
        while self.counts.judge_next(limit, segment):
            if found := self.segments.unaligned(segment):
                self.report(found)

    def _note_going_on(self, arrivals: Iterable[Arrival], acked: int) -> None:
        """Note the first segment in order of those that came after this side had acknowledged an error of its peer."""
        for one in arrivals:
            if one.frame > acked and one.new == one.end - one.start and not one.is_out_of_order:
                self.went_on_at = one.frame, one.time
                return

    def _pass_run(self, run: PlainRun) -> None:
        """Hand the next FPDUs in stream order, which are plain, to the watches."""
        run.settle()
        self.counts.passed_run(run)
        if self.log is not None:
            seqs = [self.seq_of(run.starts[first]) for first in run.firsts]
            frames = run.firsts, run.frames, run.times
            self.log.add_run(seqs, run.fpdus, flags(run.crc, LENGTH, False), run.is_delivered, *frames)
        if run.first_frame < self.first_frame:
            self.first_frame = run.first_frame
        self.copies.passed_run(run)
        self.gaps.passed_run(run)
        if found := self.fpdus.ddp.passed_run(run):
            self.report(found)
        self.messages.passed_run(run)
        if self.invalidated is not None and self.invalidated.stags:
            for index, start in enumerate(run.starts):
                stag, _ = place(run.headers, index * TAGGED_HEADER_LENGTH + CONTROL_LENGTH)
                if run.fpdus[index] & _ULPDU_LENGTH > TAGGED_HEADER_LENGTH:
                    self._use(stag, 0, start, run.moment_of(index))
        if self.memory is not None:
            self.memory.passed_run(self._role, run)
            self._report_memory(self.memory)

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
        ulpdu, opcode = ulpdu_of(fpdu), fpdu.opcode
        if found := self.fpdus.passed(fpdu, ulpdu):
            self.report(self.segments.explained(found))
        if not fpdu.offset and (first := self.fpdus.first) is not None and first.is_doubtful:
            self.report(self.fpdus.wrong_beginning(self.reader.first_octets, fpdu.known))
        self.messages.passed(fpdu, ulpdu)
        if opcode == TERMINATE_OPCODE:
            self.quote()
        if opcode in _RELATED:
            self._relate(fpdu)
        if self.invalidated is not None and opcode in TAGGED_OPCODES and self.fpdus.ddp.end == fpdu.end:
            has_payload = fpdu.ulpdu_length > TAGGED_HEADER_LENGTH and is_tagged(ulpdu)
            if has_payload:
                self._use(place(ulpdu, CONTROL_LENGTH)[0], opcode, fpdu.offset, fpdu.known)
        memory = self.memory
        if memory is not None:
            memory.passed(self._role, fpdu, ulpdu)
            if memory.has_news():
                self._report_memory(memory)

    def _report_memory(self, memory: MemoryWatch) -> None:
        """Report what the last FPDUs show, of both directions."""
        for one in (self, self.peer):
            if one is not None and (found := memory.take_breaches(one._role)):
                # An STag that was invalidated has a rule of its own.
                if (invalidated := one.invalidated) is not None:
                    found = [each for each in found if each.rule != LIFE or not invalidated.is_used(each.offset)]
                one.report(found)
            if one is not None and memory.is_over:
                one.memory = None

    def finish_memory(self) -> None:
        """Judge what the last FPDUs of both directions do with memory: nothing more comes."""
        if self.memory is not None:
            self.memory.finish()
            self._report_memory(self.memory)

    def _use(self, stag: int, opcode: int, offset: int, moment: Moment) -> None:
        """Look for the Send that invalidated an STag, which a tagged segment names that is not empty."""
        peer = self.peer
        if peer is None or self.invalidated is None or stag not in self.invalidated.stags:
            return
        received = peer.half.peer.acknowledged_at(moment[0])
        found = self.invalidated.invalidation_of(stag, peer.fpdus.ddp.end, received)
        # This direction may be read long after its peer, which may have named the STag again since.
        if found is None or peer.fpdus.ddp.untagged_frame > found.frame:
            return
        # So may octets of it that are missing, unless they had been acknowledged before.
        resumed = peer.fpdus.ddp.resumed
        if resumed and peer.half.peer.acknowledged_by(resumed) > found.frame:
            return
        # Where the peer had it before it was captured, the order of the capture is not that of the network.
        if self.half.peer.acked_frame(found.offset, found.end) >= found.frame:
            self.report((self.invalidated.used(found, opcode, offset, moment),))

    def _relate(self, fpdu: LocatedFPDU) -> None:
        """Hand a Request, an answer or an STag that is invalidated to who knows both directions."""
        peer = self.peer
        if peer is None:
            return
        if self.reads is None:
            self.mpa.watch_reads()
            assert self.reads is not None
        mine, others = self.reads
        if mine.has_new_requests and (found := mine.requested(fpdu, peer.has_hole)):
            self.report(found)
        if found := others.answered(fpdu):
            peer.report(found)
        if peer.diagnosis is None and (found := others.answer_after_error(fpdu)):
            self.report(found)
        for operation in (self, peer):  # what the peer sent before both were known was not taken yet
            operation.take_related(fpdu.offset if operation is self else -1)
        self._judge_answers()

    def take_related(self, offset: int) -> None:
        """Take the messages that have to do with the peer's; the last FPDU passed begins at an offset."""
        related, self.fpdus.ddp.related = self.fpdus.ddp.related, []
        if self.reads is None or self.peer is None:
            return
        mine, others = self.reads
        for one in related:
            if isinstance(one, Request):
                mine.outstanding.requested(one)
            elif isinstance(one, Response):
                others.outstanding.answered(one, self.peer.half.peer.acknowledged_at(one.first_frame))
            elif one.offset == offset:
                if self.invalidated is None:
                    self.invalidated = InvalidationWatch()
                self.invalidated.invalidate(one, self.peer.fpdus.ddp.end)

    def _judge_answers(self) -> None:
        if self.reads is not None and self.peer is not None:
            mine, others = self.reads
            if found := others.outstanding.judge():
                self.report(found)
            if found := mine.outstanding.judge():
                self.peer.report(found)

    def quote(self) -> None:
        """Look for the message that the Terminate quotes: when it is placed, and again at the end."""
        if self.fpdus.terminate is not None:
            found = terminated(self.fpdus.terminate, self.peer.messages if self.peer is not None else None)
            if self.terminated is None or found.message is not None:
                self.terminated = found

    # --- who listens ---

    def _hand_on(self, final: list[LocatedFPDU], passed: list[tuple[LocatedFPDU | Gap | PlainRun, int]]) -> None:
        """Hand on FPDUs that became final, and those before that are delivered now."""
        for fpdu in final:
            self.first_frame = min(self.first_frame, fpdu.known[0])
        if self._listener is None:
            return
        waiting = {fpdu.offset: fpdu for fpdu in final}
        for one, delivered in passed:
            if isinstance(one, PlainRun):
                self._listener.placed_run(self, one)
                self._told = one.starts[-1]
                continue
            if not isinstance(one, LocatedFPDU):
                continue
            if waiting.pop(one.offset, None) is not None:
                self._hand(self._listener, one, delivered)
            elif delivered and self._listener.wants_octets:
                self._told = one.offset
                self._listener.delivered(self, self._row(one, delivered))
        for fpdu in waiting.values():
            self._hand(self._listener, fpdu, 0)

    def _hand(self, listener: Listener, fpdu: LocatedFPDU, delivered: int) -> None:
        row = self._row(fpdu, delivered)
        self._told = fpdu.offset
        listener.placed(self, row, fpdu.frames, bytes(fpdu.octets) if listener.wants_octets else b"")

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
        """Return what is known about the direction when nothing more comes."""
        main, rest = self.reader.main, self.reader.rest
        # What its receiver may have dropped, and no FPDU needs, may be none of its sender's.
        sent = max(main.at, main.edge)
        if rest is not None and rest.is_doubtful:
            sent = min(rest.start, max(self.half.highest, self.half.believed))
        self.messages.acknowledged = self.half.peer.last_ack_sent
        error, peer = self.first_error, self.peer
        acked = NEVER
        if peer is not None:
            wrong = peer.first_error if peer.diagnosis is not None else None
            acked = wrong[0] if wrong is not None else peer.reader.error_acked
        half = self.half
        return DirectionEnd(
            (half.last_frame, half.last_time), half.fin_captured, half.resets, half.reset_count, half.retransmissions,
            half.start, sent, half.peer.last_ack_sent, half.peer.sacked_octets(sent),
            self.messages.unacknowledged(sent), self.terminated, error[0] if error is not None else None,
            self.gaps.has_gap, self.counts.sent_after(acked) if acked < NEVER else None, self.went_on_at,
            self.diagnosis is not None, True,
        )  # fmt: skip

    def finish(self, mine: DirectionEnd, peer: DirectionEnd, now: Moment) -> None:
        """End both directions: nothing follows."""
        reader, half, rest, report = self.reader, self.half, self.reader.rest, self.report_to
        edge = mine.sent
        end = half.highest if half.fin is None else half.fin
        is_located = rest is not None and rest.is_located
        if self.deviating is not None:
            report.report(self.deviating.finish(self.counts.fpdus))
        for segment in self.counts.finish((rest.start, rest.end) if rest and is_located else None, is_cut=end > edge):
            self.report(self.segments.unaligned(segment))
        if not self.counts.fpdus and reader.first_octets:
            report.report(self.fpdus.wrong_beginning(reader.first_octets, now))
        report.report(self.gaps.finish(rest, edge, closed_by(mine, peer), mine.acknowledged, now))
        sizes, longest = self.fpdus.sizes, self.segments.longest
        report.report(self.segments.explained(sizes.finish(self.fpdus.ddp, longest)))
        report.report(self.segments.finish(self.counts, sizes.fits(longest), now))
        for one, detail, count in self.path_mtu.finish() if self.path_mtu is not None else ():
            place = one.frame, one.time, one.seq
            self.mpa.findings.add("path-mtu", self.direction, *place, detail, count=count)
        if self.reads is not None:
            self.report(self.reads[0].finish())
            self._judge_answers()
            if self.peer is not None and is_known_up_to(peer, self.peer.fpdus.ddp.end):
                self.report(self.reads[1].outstanding.finish())
        self._report_unfinished(mine, peer)
        if self.log is not None and self.first_error is not None:
            self.log.mark_after(self.first_error, self.seq_start, reader.startup[0])

    def _report_unfinished(self, mine: DirectionEnd, peer: DirectionEnd) -> None:
        """Report messages without their end, and Requests of the peer without an answer, if nothing explains them."""
        if mine.fin is None or not closes_in_order(mine, peer) or self.fpdus.ddp.end != mine.fin[0]:
            return
        peer_closed = peer.fin[1] if peer.fin is not None else NEVER
        if peer.fin is None and (peer.acknowledged or 0) > peer.sent:
            peer_closed = 0  # nobody knows when
        # Where the peer closed first, what its sender had still to send may be on its way.
        if mine.fin[1] < peer_closed or self.half.peer.acknowledged_by(mine.fin[0]) < peer_closed:
            self.report(self.fpdus.ddp.unfinished(mine.fin))
        if self.reads is not None and self.peer is not None and not self.peer.report_to.has_faults:
            outstanding, acknowledged_by = self.reads[1].outstanding, self.peer.half.peer.acknowledged_by
            self.report(outstanding.unanswered(mine.fin, peer_closed, acknowledged_by))

    def judge_quote(self, sent: DirectionEnd) -> None:
        """Report a Terminate that quotes what its receiver, whose half connection ended so, never sent so."""
        found, terminate, peer = self.terminated, self.fpdus.terminate, self.peer
        if found is None or terminate is None or peer is None or found.header is None:
            return
        lengths = peer.messages.lengths_of(found.header) if peer.is_known_up_to(found.frame, sent) else None
        length = quoted_length(terminate.ulpdu, terminate.ulpdu_length)
        if lengths is None or (lengths and (length is None or length in lengths)):
            return
        name, place = message_and_place(found.header)
        rule, detail = "terminate-quote", f"{name}, {place}"
        if lengths:
            rule, detail = "terminate-length", f"{length:,} octets instead of {lengths[0]:,}, of the {detail}"
        self.report((Breach(rule, terminate.offset, *terminate.known, detail),))

    def is_known_up_to(self, frame: int, end: DirectionEnd) -> bool:
        """Return True if all FPDUs that its sender sent up to a frame were captured, each as its receiver got it.

        ``end`` is what is known about the direction when nothing more comes.
        """
        reader, counts = self.reader, self.counts
        if self.diagnosis is not None or self.first_error is not None or self.gapped or reader.has_hole:
            return False
        if counts.cut_fpdus or self.fpdus.ddp.losses or reader.rest is not None:
            return False
        if self.half.dropped or self.half.late or self.report_to.broken & _UNCERTAIN:
            return False
        # A later segment without octets shows that nothing else was sent before it, an acknowledgement that it came.
        is_over = end.fin is not None and end.fin[0] == end.sent
        is_acknowledged = end.acknowledged is None or end.acknowledged <= end.sent + is_over
        return is_acknowledged and end.sent == reader.main.at and (is_over or end.last_moment[0] > frame)


def direction_end(half: TCPHalf) -> DirectionEnd:
    """Return what TCP shows about a direction without Full Operation when nothing more comes."""
    sent = max(half.highest, 0)
    return DirectionEnd(
        (half.last_frame, half.last_time), half.fin_captured, half.resets, half.reset_count, half.retransmissions,
        half.start, sent, half.peer.last_ack_sent, half.peer.sacked_octets(sent), is_in_operation=False,
    )  # fmt: skip


def keyed_paths(key: bytes, paths: Collection[tuple[int, tuple[str, ...]]]) -> frozenset[KeyedPath]:
    """Return the paths by direction of a TCP connection, whose direction 0 has this key, with keys."""
    if not paths:
        return _NO_PATHS
    keys = key, reverse_key(key)
    return frozenset([(keys[d], path) for d, path in paths])


#: What is known about senders by an analysis of the same capture: by the addresses and ports of a direction's segments,
#: and the sequence number of its first octet of Full Operation.
Deviations: TypeAlias = Mapping[tuple[bytes, int], Diagnosis]


class CapturedConnection:
    """An MPA connection of the capture.

    Args:
        reader: reads its octets.
        key: addresses and ports of the segments in direction 0 of its TCP connection.
        findings: where what is wrong with it goes.
        log: whether a row is kept of each FPDU.
        listener: hears of startup frames and FPDUs, if anybody does.
        deviations: what is known about senders before anything is read.
        room: how many STags may be remembered by all connections.

    Attributes:
        number: of the connection; final when the capture is over.
        keys: addresses and ports of the segments of each direction.
        judgement: what its startup frames came to, known when it is over; None if there are none.
        startup: how MPA was started, known when it is over.
        lifecycle: how it went from its first frame to its last, known when it is over.
        syns: what the SYN of each direction of the TCP connection announced.
        pending_side: the direction of the last segment, if what it showed was not taken yet; else -1.
    """

    __slots__ = (
        "_arrivals", "_deviations", "_is_read_anew", "_listener", "_log", "_operations", "_path_mtu", "_reported",
        "_room", "findings", "judgement", "key", "keys", "lifecycle", "number", "operations", "pending_side", "reader",
        "startup", "syns",
    )  # fmt: skip

    def __init__(
        self,
        reader: ConnectionReader,
        key: bytes,
        findings: Findings,
        syns: list[Announced | None],
        path_mtu: tuple[PathMTUWatch, PathMTUWatch] | None,
        log: bool,
        listener: Listener | None,
        deviations: Deviations,
        room: Quota,
    ) -> None:
        self.number = self.pending_side = -1
        self.reader = reader
        self.key = key
        self.keys: dict[Role, bytes] = {}
        self.judgement: Judgement | None = None
        self.startup: StartupPhase | None = None
        self.lifecycle: Lifecycle | None = None
        self.findings = findings
        self.syns = syns
        self.operations: dict[Role, FullOperation] = {}
        #: The same by the direction of the TCP connection.
        self._operations: list[FullOperation | None] = [None, None]
        #: The segments of each direction, as long as it may be read again.
        self._arrivals: list[list[Arrival]] = [[], []]
        self._path_mtu = path_mtu
        #: The directions whose startup frame was reported: a bit for each.
        self._reported = 0
        #: True if a direction was read a second time.
        self._is_read_anew = False
        self._log = log
        self._listener = listener
        self._deviations = deviations
        self._room = room
        self._take_keys()

    # --- what it is ---

    def _take_keys(self) -> None:
        """Learn which direction is the Initiator's: of a Reply alone, the other one."""
        first = self.initiator_side
        if self.keys and self.keys[ROLES[first]] is self.key:
            return
        keys = (self.key, reverse_key(self.key))
        self.keys = {"initiator": keys[first], "responder": keys[1 - first]}

    @property
    def initiator_side(self) -> int:
        """The direction of the TCP connection in which the Initiator sends."""
        return self.reader.initiator or 0

    @property
    def initiator(self) -> str:
        """Address and port of the Initiator."""
        return endpoints(self.keys["initiator"])[0]

    @property
    def responder(self) -> str:
        """Address and port of the Responder."""
        return endpoints(self.keys["initiator"])[1]

    @property
    def paths(self) -> list[tuple[str, ...]]:
        """The tags and tunnels of the segments of both directions, as far as they are known."""
        return [path for path in self.reader.connection.paths if path]

    @property
    def own_paths(self) -> frozenset[KeyedPath]:
        """The paths of its segments; none where no segment on its addresses and ports had tags or tunnels."""
        return keyed_paths(self.key, self.reader.connection.own_paths)

    @property
    def responder_port(self) -> int:
        """The TCP port of the Responder."""
        key = self.keys["initiator"]
        return key[-2] << 8 | key[-1]

    @property
    def rejected(self) -> bool:
        """True if the Reply rejects the connection."""
        return self.reader.rejected

    @property
    def inferred(self) -> bool:
        """True if something that a startup frame says had to be inferred."""
        return self.reader.inferred

    @property
    def crc(self) -> bool:
        """True if CRCs are in use: either side asks for them in both directions (RFC 5044 §7.1.1)."""
        request, reply = self.request, self.reply
        if request is not None and reply is not None:
            return bool(request.startup.c or reply.startup.c)
        readers = [one for one in self.reader.readers if one is not None]
        if readers:
            return any(one.layout.crc for one in readers)
        return any(one is not None and one.startup.c for one in (request, reply))

    @property
    def profile(self) -> Profile:
        """The specification that was given, else that its Reply, else its Request, else its octets, name."""
        return self.reader.profile

    @property
    def request(self) -> FoundFrame | None:
        """Its MPA Request, None if none was captured."""
        return self._frame(self.initiator_side, "request")

    @property
    def reply(self) -> FoundFrame | None:
        """Its MPA Reply, None if none was captured."""
        return self._frame(1 - self.initiator_side, "reply")

    def _frame(self, d: int, kind: Kind) -> FoundFrame | None:
        found = self.reader.frames[d]
        return found if found is not None and found.startup.kind == kind else None

    @property
    def part(self) -> PartOfFrame | None:
        """The startup frame that arrived only in part, None if there is none."""
        parts, d = self.reader.parts, self.initiator_side
        return parts[d] or parts[1 - d]

    @property
    def inferences(self) -> dict[Role, Inferred | None]:
        """What was inferred about each direction if no startup frame was captured."""
        return {self.role_of(side): found for side, found in enumerate(self.reader.inferences)}

    def inference_of(self, direction: Role) -> Inferred | None:
        """Return what was inferred about a direction, None if a startup frame says it or nothing does."""
        return self.reader.inferences[self.side_of(direction)]

    def side_of(self, direction: Role) -> int:
        """Return the direction of the TCP connection in which a role sends."""
        return self.initiator_side if direction == "initiator" else 1 - self.initiator_side

    def role_of(self, side: int) -> Role:
        """Return the sender of a direction of the TCP connection."""
        return "initiator" if side == self.initiator_side else "responder"

    def markers(self, direction: Role) -> bool | None:
        """Return whether a direction carries Markers: its receiver asks by M (RFC 5044 §7.1.1); None if not known."""
        if direction in self.operations:
            return self.operations[direction].markers
        asking = self.frame_of(peer_of(direction))
        return bool(asking.startup.m) if asking is not None else None

    @property
    def said_of_long_fpdus(self) -> str:
        """Return what the startup frames say of FPDUs longer than a segment, by vendors' bits of Res; "" if nothing."""
        for each in self.reader.frames:
            if each is not None and each.startup.res:
                break
        else:
            return ""
        found = (("Request", self.request), ("Reply", self.reply))
        return "".join(
            f"; Res of the {name} is {one.startup.res:#04x} ({one.startup.res_name})"
            for name, one in found
            if one is not None and one.startup.res_name
        )

    def frame_of(self, direction: Role) -> FoundFrame | None:
        """Return the startup frame of a direction, None if it was not captured."""
        return self.request if direction == "initiator" else self.reply

    @property
    def order(self) -> int:
        """The frame that connections are numbered by: of the Request, else the Reply, a part of one, the first FPDU."""
        found = self.request or self.reply or self.part
        if found is not None:
            return found.frame
        return min((one.first_frame for one in self.operations.values()), default=self.reader.first_frame)

    @property
    def has_fpdus(self) -> bool:
        """True once an FPDU was found that nothing captured later can change."""
        return any(one.first_frame != NEVER for one in self.operations.values())

    # --- what happens to it ---

    def take(self, side: int) -> None:
        """Take what a segment in a direction of the TCP connection showed: first what it acknowledged."""
        if self._reported != 0b11:
            self._report_frames()
        operations = self._operations
        for d in (1 - side, side):
            reader = self.reader.readers[d]
            if reader is None:
                continue
            operation = operations[d]
            if operation is None or operation.reader is not reader:
                operation = self._begin(d, operation)
            arrivals = self.reader.arrivals[d]
            if arrivals:
                self.reader.arrivals[d] = []
                if self.reader.is_examined[d]:
                    self._arrivals[d] += arrivals
                else:
                    self._arrivals[d] = []
            if arrivals or reader.passed or reader.final or reader.contradictions:
                operation.take(arrivals)

        for limit in self.reader.limits_met:
            breach = Breach("limit", *limit[1:])
            self._findings_of(limit.side).report((breach,))
        self.reader.limits_met.clear()

    def steady_operation(self, d: int) -> FullOperation | None:
        """Return a direction if nothing of it waits to be taken, and its next segments may be received in turn."""
        operation, peer = self._operations[d], self._operations[1 - d]
        if operation is None or peer is None or self.reader.arrivals[d] or self.reader.is_examined[d]:
            return None
        if peer.reader.error_acked != NEVER:
            return None
        return operation if operation.reader is self.reader.readers[d] and operation.get_ready() else None

    def _report_frames(self) -> None:
        """Report the startup frames that are complete now."""
        for d, found in enumerate(self.reader.frames):
            if found is not None and not self._reported & 1 << d:
                self._reported |= 1 << d
                self._take_keys()
                self.findings.judge_by(self.profile.name)
                if self._listener is not None:
                    self._listener.startup(self, self.role_of(d), found)

    def _begin(self, d: int, before: FullOperation | None) -> FullOperation:
        """Begin Full Operation in a direction, perhaps again: its sender deviates."""
        if not self.operations:
            self._take_keys()
            self.findings.judge_by(self.profile.name)
        role = self.role_of(d)
        key = self.keys[role]
        if before is None and self._listener is not None and self._listener.wants_octets:
            # It had the octets: none is read again.
            base = self.reader.connection.halves[d].space.base or 0
            self.reader.know_sender(d, self._deviations.get((key, base)))
        reader, agreed = self.reader.readers[d], self.reader.agreed[d]
        assert reader is not None
        assert agreed is not None
        operation = FullOperation(
            self, role, key, reader, emss_of(*self.syns), self._path_mtu[d] if self._path_mtu is not None else None,
            self.reader.diagnoses[d], agreed, self._log, self._listener, self._memory(d),
        )  # fmt: skip
        if before is not None:
            before.is_replaced = True
            before.report_to.forget(before.report_to.broken)
            # What it sent was no error, so nobody answered in spite of one.
            self._findings_of(1 - d).forget(_OF_BOTH)
            operation.take(self._arrivals[d])
        self.operations[role] = self._operations[d] = operation
        first, second = self._operations
        if first is not None and second is not None:
            first.peer, second.peer = second, first
            first.reads = second.reads = None
            self._is_read_anew = before is not None
        return operation

    def watch_path_mtu(self, path_mtu: tuple[PathMTUWatch, PathMTUWatch]) -> None:
        """Let what routers report of the packets of each direction explain what is found from now on."""
        self._path_mtu = path_mtu
        for operation, one in zip(self._operations, path_mtu, strict=True):
            if operation is not None:
                operation.path_mtu = one
                operation.segments.explain_by(one.messages)

    def watch_reads(self) -> None:
        """Watch what both directions request from now on: the first FPDU that has to do with that was passed."""
        first, second = self._operations
        assert first is not None
        assert second is not None
        depths = self._depths()
        # Octets without packets do not show in which order two sides sent them.
        is_known = not self._is_read_anew and not is_stream(self.key)
        is_known = is_known and all(one.reader.is_beginning and one.diagnosis is None for one in (first, second))
        ours = ReadWatch(first.fpdus, second.fpdus, depths.get(first.direction), is_known)
        others = ReadWatch(second.fpdus, first.fpdus, depths.get(second.direction), is_known)
        first.reads, second.reads = (ours, others), (others, ours)

    def _memory(self, d: int) -> MemoryWatch | None:
        """Return what watches memory from the first FPDU of either direction on; none where a sender deviates."""
        peer = self._operations[1 - d]
        if self._operations[d] is not None or self.reader.diagnoses != [None, None]:
            if peer is not None and peer.memory is not None:
                peer.memory.end()
                peer.memory = None
            return None
        if peer is not None:
            return peer.memory
        request, reply = [frame.startup if frame is not None else None for frame in (self.request, self.reply)]
        return MemoryWatch(request, reply, self.responder_port, self._room, self.acknowledged_offset)

    def acknowledged_offset(self, side: int, ack: int, near: int) -> int:
        """Return the offset of an acknowledgement number of a direction (0: the Initiator's), near another offset.

        UNKNOWN where nothing says where that direction begins.
        """
        reader = self.reader.readers[self.side_of(ROLES[side])]
        base = reader.half.space.base if reader is not None else None
        if base is None or is_stream(self.key):
            return UNKNOWN
        return near + seq_diff(ack, base + near & SEQ_MASK)

    def _depths(self) -> dict[Role, int | None]:
        if self.request is None or self.reply is None:
            return {}
        depths = agreed(self.request.startup, self.reply.startup, self.responder_port).depths
        return {} if depths is None else {"initiator": depths.initiator_ord, "responder": depths.responder_ord}

    def has_hole(self, side: int) -> bool:
        """Return True if octets are missing before some that were captured."""
        operation = self._operations[side]
        return operation is not None and operation.has_hole

    # --- the end ---

    def finish(self, now: Moment, strays: Iterable[Stray]) -> None:
        """End the connection: nothing follows; ``strays`` are segments beside it that belong to no connection."""
        for side in (1, 0):
            self.take(side)
        for begun in self.operations.values():
            begun.take(())
            begun.quote()
        for begun in self.operations.values():
            begun.finish_memory()
        halves = self.reader.connection.halves
        ends: list[DirectionEnd] = []
        for d in (0, 1):
            operation = self._operations[d]
            ends.append(direction_end(halves[d]) if operation is None else operation.end())
        for d in (0, 1):
            half, findings, operation = halves[d], self._findings_of(d), self._operations[d]
            if operation is not None:
                operation.finish(ends[d], ends[1 - d], now)
            findings.report(breaches_at_end(ends[d], ends[1 - d]))
            if dropped := half.dropped:
                findings.report(dropped_segments(dropped, half.start))
            if fins := half.other_fins:
                findings.report(other_fins(fins, half.fin_captured))
        for d in (0, 1):
            operation = self._operations[d]
            if operation is not None and operation.terminated is not None:
                operation.judge_quote(ends[1 - d])
        for one in (*self.reader.connection.late, *strays):
            half = halves[one.direction]
            expected = half.expected if half.is_known else None
            if expected is None:
                half.begin(one.seq, False)
            place = half.space.nearest(one.seq)[1], expected, half.peer.right_edge, half.start
            self._findings_of(one.direction).report((stray(one, *place, half.has_right_checksums),))
        rejection = self._rejection()
        if rejection is not None:
            self._findings_of(self.side_of("responder")).report((rejected(rejection),))
        self._judge_startup(ends, now)
        first = self.reader.connection.first_frame, self.reader.connection.first_time
        initiator = self.initiator_side
        self.lifecycle = lifecycle(first, ends[initiator], ends[1 - initiator], rejection)

    def let_go(self) -> None:
        """Refer to what was read of it no longer, so that Python need not look for circles: it was reported."""
        for operation in self.operations.values():
            operation.peer = None
        self.operations, self._operations = {}, [None, None]

    def _findings_of(self, side: int) -> HalfFindings:
        operation = self._operations[side]
        if operation is not None:
            return operation.report_to
        return HalfFindings(self, self.role_of(side), self.reader.connection.halves[side])

    def _rejection(self) -> Rejection | None:
        reply = self.reply
        if not self.rejected or reply is None:
            return None
        return Rejection(reply.start, (reply.frame, reply.time), reply.startup)

    def _judge_startup(self, ends: Sequence[DirectionEnd], now: Moment) -> None:
        """Report what the startup frames, or what came instead of them, show."""
        reader = self.reader
        sides: list[StartupSide] = []
        for d in (self.initiator_side, 1 - self.initiator_side):
            half, operation, frame = reader.connection.halves[d], self._operations[d], reader.frames[d]
            opening = reader.openings[d]
            if opening is not None and opening.reason:
                opening = None  # its receiver may have dropped it
            if operation is not None:
                first, fpdus = operation.fpdus.first, operation.counts.fpdus
                octets, layout = operation.reader.first_octets, operation.reader.layout
            else:
                first, fpdus, octets, layout = None, 0, reader.octets_after[d], None
                if frame is not None:
                    self._findings_of(d).report(copies_of_frame([*reader.rivals[d], *half.late], frame))
            side = StartupSide(
                half.space.base or 0, ends[d], frame, reader.parts[d], reader.garbled[d], reader.after_rejection[d],
                opening, first, octets, fpdus, layout,
            )  # fmt: skip
            sides.append(side)
        startup = self.startup = StartupPhase(
            sides[0], sides[1], reader.unexpected, reader.answered_octets, reader.rejected, reader.is_accepted,
            self.profile.initiator_first, self.responder_port,
        )  # fmt: skip
        found = judge_startup(startup, now)
        if sides[0].fpdus or sides[1].fpdus:
            # The report asks how a direction ended only where nothing of it was read.
            sides[0].end = sides[1].end = NO_END
        for role, rules in found.forgotten:
            self.findings.forget(role, set(rules))
        for role, breach in found.breaches:
            self._findings_of(self.side_of(role)).report((breach,))
        self.judgement = found.judgement
