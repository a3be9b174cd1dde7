"""A TCP connection and the MPA connections on it, one after another.

Each direction is in one phase: the Startup Phase, Full Operation, or between both where startup frames were not
captured.  Phases tell the connection what they find; it alone decides what follows for both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

from scapy_mpa.framing.agreement import is_rdmac
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.role import ROLES as DIRECTIONS
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import KEY_LENGTH, REQUEST_KEY
from scapy_mpa.infer.deviating import DeviatingChain
from scapy_mpa.infer.midstream import (
    Awaited,
    AwaitedMarkers,
    AwaitingInference,
    Beginning,
    InferredHalves,
    Waited,
    first_octets,
    infer_both,
    infer_from_reply,
    infer_from_request,
    inferred_profile,
)
from scapy_mpa.infer.suspicion import Suspicion
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.located import Diagnosis
from scapy_mpa.receive.mpa import CapturedConnection, FoundFrame, Observer
from scapy_mpa.receive.operation import FullOperation, PlacedSink
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.scan import Layout
from scapy_mpa.receive.startup import ExpectedReply, StartupPhase
from scapy_mpa.receive.waiting import Waiting
from scapy_mpa.tcp.acceptance import Acceptance, Range, why_left_out
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.tcp.handshake import Handshake
from scapy_mpa.tcp.intake import Intake
from scapy_mpa.values.segment import PATH_MTU, RST, STREAM_KEYS, SYN, Segment, bare, endpoints
from scapy_mpa.watch.lifecycle import Lives
from scapy_mpa.watch.pathmtu import see_path_mtu
from scapy_mpa.watch.startup import (
    find_copy_of_frame,
    find_data_under_way,
    find_first_octets,
    find_negotiation,
    find_octets_behind_request,
    find_order_of_frames,
    find_reply_alone,
    find_same_role,
    find_silence,
)
from scapy_mpa.watch.teardown import find_end, watch_reads
from scapy_mpa.watch.unfinished import Unfinished, ended, find_unfinished

_Phase: TypeAlias = StartupPhase | AwaitingInference | FullOperation

#: Octets of streaming data that may lie between a SYN captured late and the startup frame.
_MOST_STREAMING_DATA = 1 << 20
#: Segments left out before there was MPA that are remembered.
_MOST_LEFT_OUT = 64
NOTHING_BEFORE: Mapping[bytes, Range | None] = {}


class Connections(Protocol):
    """What a TCP connection asks of whoever follows all of them, and tells it."""

    def has_room(self, half: Half) -> bool:
        """Whether one more MPA connection is kept for the report; if not, that is reported."""

    def add(self, connection: TCPConnection, mpa: CapturedConnection) -> None:
        """There is MPA on a TCP connection."""

    def forget(self, mpa: CapturedConnection) -> None:
        """An MPA connection was none."""

    def begin_anew(self, connection: TCPConnection, segments: Sequence[Segment]) -> None:
        """A TCP connection is over, and ``segments`` belong to a new one on the same addresses and ports."""


class TCPDirection:
    """One direction of a TCP connection and the phase that it is in.

    Attributes:
        half: what its segments tell apart from octets.
        intake: which of its segments its receiver takes.
        connection: the TCP connection.
        phase: what takes its octets.
        held: octets of memory that what it holds back took when that was looked at last.
        garbled: where its first octets are nearly a Key (frame, nanoseconds, sequence number), and what they are.
    """

    __slots__ = ("_context", "_observer", "_sink", "connection", "garbled", "half", "held", "intake", "phase")

    phase: _Phase

    def __init__(
        self,
        key: bytes,
        connection: TCPConnection,
        context: ReceiverContext,
        sink: PlacedSink | None,
        observer: Observer | None,
        before: Range | None,
    ) -> None:
        self.half = Half(key)
        self.intake = Intake(self.half, connection, self.weigh, before)
        self.connection = connection
        self.held = 0
        self.garbled: tuple[int, int, int, str] | None = None
        self._context = context
        self._sink = sink
        self._observer = observer

    def meet(self, peer: TCPDirection) -> None:
        """Learn what the other direction is."""
        self.half.meet(peer.half)
        self.intake.meet(peer.intake)

    def enter(self, phase: _Phase) -> None:
        """Begin a phase."""
        self.phase = phase
        self.intake.enter(phase, phase if isinstance(phase, FullOperation) else None)
        if self.held:
            # Only what segments come for is looked at when their block goes.
            self.weigh()

    @property
    def weight(self) -> int:
        """Octets of memory that it holds back."""
        return self.phase.weight + self.intake.weight

    def weigh(self) -> None:
        """Look at how much it holds back."""
        held = self.weight
        self._context.hold(held - self.held)
        self.held = held

    def leave(self) -> None:
        """The connection is over: nothing is held back any more."""
        self._context.hold(-self.held)
        self.held = 0

    def has_begun_behind(self, origin: int) -> bool:
        """Whether a SYN whose first octet is ``origin``, be it captured late, is that of the present connection."""
        mpa, half = self.connection.mpa, self.half
        if half.origin is not None or mpa is None:
            return half.origin == origin
        operation = mpa.operations.get(mpa.role_of(half))
        if mpa.inferred and operation is not None:
            stream = operation.reassembly
            return (stream.seq_of(stream.first) - origin) & SEQ_MASK <= _MOST_STREAMING_DATA
        found = mpa.frame_of(mpa.role_of(half))
        return found is not None and (found.seq - origin) & SEQ_MASK <= _MOST_STREAMING_DATA

    def synchronize(self, origin: int) -> bool:
        """A SYN says where its octets begin; False if it is of a new connection."""
        half, phase = self.half, self.phase
        # A SYN may be captured late, but not after the end of the connection.
        if not self.has_begun_behind(origin):
            may_be_late = half.origin is None and not half.is_over
            if not (may_be_late and isinstance(phase, StartupPhase) and phase.anchor(origin)):
                return False
        half.synchronize(origin)
        return True

    def see_garbled_key(self, seg: Segment, detail: str) -> None:
        """Its first octets are nearly a Key."""
        self.garbled = seg.frame, seg.time, seg.seq, detail

    def relieve(self, now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        self.intake.give_up()
        self.phase.relieve(now)

    # --- Full Operation ---

    def begin(self, mpa: CapturedConnection, beginning: Beginning) -> FullOperation:
        """Begin Full Operation."""
        known = self._context.diagnosis_of(self.half, beginning.reassembly.origin)
        if known is not None and beginning.begins_at == 0:
            agreed = Dialect(beginning.markers, mpa.crc, mpa.profile.fpduptr_origin)
            operation = self._deviating(mpa, known, beginning.reassembly.origin, agreed, beginning.floor)
        else:
            operation = FullOperation(
                mpa,
                self.half,
                mpa.role_of(self.half),
                self._context,
                self.intake.refuses,
                Layout(beginning.markers, mpa.crc, mpa.profile.fpduptr_origin),
                beginning.reassembly,
                beginning.floor,
                beginning.begins_at,
                beginning.may_search,
                sink=self._sink,
                observer=self._observer,
            )
        mpa.begin(operation, beginning.inferred)
        self.enter(operation)
        return operation

    def wait(self, mpa: CapturedConnection, waiting: Waiting, known: Awaited | AwaitedMarkers, next_try: int) -> None:
        """Begin Full Operation as soon as what waits shows how."""

        def begin(beginning: Beginning) -> None:
            self.begin(mpa, beginning).replay(waiting)

        phase = AwaitingInference(self.half, waiting, self._context, known.look, begin, next_try)
        self.enter(phase)
        if waiting and not next_try:
            phase.decide(at_last=False)

    def look_again(self, operation: FullOperation, at_end: bool) -> FullOperation:
        """What receives it from now on: another operation if its sender turns out to deviate."""
        found = operation.diagnosed(at_end)
        return operation if found is None else self._deviates(operation, *found)

    def _deviates(self, old: FullOperation, diagnosis: Diagnosis, suspicion: Suspicion) -> FullOperation:
        """Its sender deviates: receive it anew, by its dialect, from its first octet."""
        mpa = self.connection.mpa
        assert mpa is not None
        old.be_replaced()
        # What its receiver dropped is not among what is received anew.
        mpa.findings.forget(old.direction, old.broken - {"tcp-checksum"})
        mpa.findings.forget(mpa.role_of(self.half.peer), {"attack-buffer"})
        operation = self._deviating(mpa, diagnosis, old.reassembly.origin, suspicion.agreed, old.floor)
        mpa.begin(operation, None)
        self.enter(operation)
        operation.replay(Waiting([*suspicion.segments, *suspicion.left]))
        operation.counts.take_segments(old.counts)
        return operation

    def _deviating(
        self, mpa: CapturedConnection, diagnosis: Diagnosis, origin: int, agreed: Dialect, floor: Moment
    ) -> FullOperation:
        """Full Operation of a sender that is known to deviate from what was agreed; ``origin`` is its first octet's."""
        dialect = diagnosis.candidate.dialect
        reassembly = Reassembly(origin, True)
        return FullOperation(
            mpa,
            self.half,
            mpa.role_of(self.half),
            self._context,
            self.intake.refuses,
            Layout(dialect.markers, dialect.crc, dialect.origin),
            reassembly,
            floor,
            sink=self._sink,
            observer=self._observer,
            deviating=DeviatingChain(reassembly, diagnosis, agreed, floor),
        )


def _began(phases: Sequence[StartupPhase], first_sender: Half | None) -> Half | None:
    """Who counts as the Initiator: of octets without packets the side that is named, else who sent the first data."""
    return {one.half.key: one.half for one in phases}.get(STREAM_KEYS["initiator"], first_sender)


class TCPConnection:
    """Both directions of a TCP connection.

    Args:
        seg: its first segment.
        peer_key: addresses and ports of segments in the other direction.
        context: what all half connections share.
        connections: who follows all connections.
        sink: who wants each FPDU as it is placed.
        observer: who wants startup frames, and FPDUs with their octets.
        before: what the connection before on the same addresses and ports sent, by the key of each direction.

    Attributes:
        directions: that of the first segment, and the other.
        lives, mpa: the MPA connections on it, and the one that is being set up or in Full Operation.
        is_promising: whether the octets look a little like FPDUs, though no startup frame says so.
    """

    def __init__(
        self,
        seg: Segment,
        peer_key: bytes,
        context: ReceiverContext,
        connections: Connections,
        sink: PlacedSink | None,
        observer: Observer | None,
        before: Mapping[bytes, Range | None] = NOTHING_BEFORE,
    ) -> None:
        first = TCPDirection(seg.key, self, context, sink, observer, before.get(seg.key))
        second = TCPDirection(peer_key, self, context, sink, observer, before.get(peer_key))
        first.meet(second)
        second.meet(first)
        self.directions = first, second
        self.mpa: CapturedConnection | None = None
        self.is_promising = False
        self._context = context
        self._connections = connections
        self._observer = observer
        self.lives = Lives(seg, (first.intake, second.intake), context.last)
        #: Who sent the first data captured.
        self._first_sender: Half | None = None
        #: What was left out before there was MPA: nobody wants to know it of other protocols.
        self._left_out: list[tuple[Half, Segment, str, str]] = []
        self._handshake = Handshake(self)
        for direction in self.directions:
            # What its peer acknowledges is what it sends next, as long as nothing else is known.
            origin = seg.seq if direction.half.key == seg.key else seg.ack
            direction.enter(StartupPhase(direction.half, self, context, origin, False))

    def direction_of(self, half: Half) -> TCPDirection:
        """The direction with these segments."""
        first, second = self.directions
        return first if first.half is half else second

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be expected: an RST, or a FIN in both directions."""
        return self.directions[0].half.is_over

    # --- the state of the TCP connection ---

    def change_state(self, direction: TCPDirection, seg: Segment) -> None:
        """A SYN, FIN or RST, and what payload comes with it; or what a router says of a packet."""
        flags, intake = seg.flags, direction.intake
        if flags & PATH_MTU:
            see_path_mtu(direction.half, direction.phase, seg)
            return
        if flags & (SYN | RST) and intake.is_damaged(seg):
            return
        if flags & SYN:
            if self._handshake.is_foreign(intake, seg):
                return
            if not direction.synchronize((seg.seq + 1) & SEQ_MASK):
                self.begin_with([seg])
                return
            intake.synchronize(seg)
            seg = seg._replace(seq=(seg.seq + 1) & SEQ_MASK)
        elif flags & RST:
            intake.reset(seg)
            return
        intake.take_state(seg)

    def begin_with(self, segments: Sequence[Segment]) -> None:
        """These segments begin another connection on the same addresses and ports."""
        self._connections.begin_anew(self, segments)

    @property
    def has_data(self) -> bool:
        """Whether octets were captured."""
        return self.mpa is not None or self._first_sender is not None

    def leave_out(self, intake: Intake, seg: Segment, acceptance: Acceptance) -> None:
        """A segment that its receiver does not take belongs to nobody: report it, once it is known that this is MPA."""
        rule, detail = why_left_out(intake.segments, intake.half, seg, acceptance)
        if self.mpa is not None:
            self.find(rule, seg, detail, intake.half)
        elif len(self._left_out) < _MOST_LEFT_OUT:
            self._left_out.append((intake.half, bare(seg), rule, detail))

    def repeat_startup(self, half: Half, seg: Segment) -> None:
        """Octets of the Startup Phase come once more, or others in their place."""
        if self.mpa is not None:
            find_copy_of_frame(self.mpa, half, seg)

    def has_begun_behind(self, half: Half, origin: int) -> bool:
        """Whether a SYN whose first octet is ``origin``, be it captured late, is that of the present connection."""
        return self.direction_of(half).has_begun_behind(origin)

    def begins_anew(self, intake: Intake, seg: Segment) -> bool:
        """Whether ``seg`` begins another connection on the same addresses and ports; if so, it has been dealt with.

        Its SYN was not captured, or not confirmed before.
        """
        if self._handshake.is_answer(intake, seg):
            return True
        if not self.is_closed or bytes(seg.buffer[seg.start : seg.start + KEY_LENGTH]) != REQUEST_KEY:
            return False
        if self.mpa is not None and self.mpa.request is not None and self.mpa.request.seq == seg.seq:
            return False
        if intake.awaits_startup and intake.segments.is_near(seg):
            return False  # its Request, captured late
        self.begin_with([seg])
        return True

    # --- what a Startup Phase asks and tells ---

    @property
    def lacks_beginning(self) -> bool:
        """Whether a startup frame may be what is missing behind a SYN that was captured, in either direction."""
        phases = (direction.phase for direction in self.directions)
        return any(isinstance(phase, StartupPhase) and phase.search.lacks_beginning for phase in phases)

    def see_data(self, half: Half) -> None:
        """A direction sends data."""
        if self._first_sender is None:
            self._first_sender = half

    def see_garbled_key(self, half: Half, seg: Segment, detail: str) -> None:
        """The first octets of a direction are nearly a Key."""
        self.direction_of(half).see_garbled_key(seg, detail)

    def may_have_frame(self, half: Half) -> bool:
        """Whether the startup frame of a direction may be taken: the report may have no room for a connection more."""
        return self.mpa is not None or self._connections.has_room(half)

    def find(self, rule: str, seg: Segment, detail: str, half: Half | None = None) -> None:
        """Report something about the connection, or the capture; ``half`` is the direction it is about, if one."""
        if self.mpa is not None:
            direction = self.mpa.role_of(half) if half is not None else None
            self.mpa.findings.add(rule, direction, seg.frame, seg.time, seg.seq, detail)
        else:
            source, destination = endpoints(seg.key)
            detail = f"{source} > {destination}: {detail}"
            self._context.findings.add(rule, None, seg.frame, seg.time, seg.seq, detail)

    def begin_again(self, phase: StartupPhase, segments: Sequence[Segment], without_frame: bool) -> None:
        """A Startup Phase begins in place of another, with these segments; the frame found may have been none."""
        mpa, direction = self.mpa, self.direction_of(phase.half)
        if without_frame and mpa is not None:
            mpa.forget_frame(mpa.role_of(phase.half))
            if mpa.request is None and mpa.reply is None:
                self._connections.forget(mpa)
                self.mpa = None
        direction.enter(phase)
        for seg in segments:
            direction.phase.receive(seg)

    def find_frame(self, half: Half, found: FoundFrame) -> None:
        """A direction has found its startup frame."""
        is_request = found.startup.kind == "request"
        mpa = self.mpa or self._begin_mpa(half if is_request else half.peer)
        role = mpa.role_of(half)
        if role != ("initiator" if is_request else "responder"):
            find_same_role(mpa, role, found)
            return
        other = self.direction_of(half.peer).phase
        if is_request:
            mpa.take_request(found)
            find_data_under_way(mpa, half.peer.ack)
        else:
            answered = other.search.octets_without_key(found.ack) if isinstance(other, StartupPhase) else 0
            mpa.take_reply(found, answered)
        if self._observer is not None:
            self._observer.startup(mpa, role, found)
        if mpa.request is not None and mpa.reply is not None:
            self._agree(mpa, mpa.request, mpa.reply)
        elif isinstance(other, StartupPhase):
            if is_request:
                other.expect_reply(ExpectedReply(found.end_seq, found.ack))
            else:
                # The Responder acknowledged the whole Request before it replied.
                other.wait_behind(found.ack)

    def _agree(self, mpa: CapturedConnection, request: FoundFrame, reply: FoundFrame) -> None:
        """Both startup frames are known."""
        answering = self.direction_of(mpa.halves["responder"]).phase
        find_order_of_frames(mpa, answering.unexpected if isinstance(answering, StartupPhase) else None)
        if reply.startup.r:
            self._reject(mpa)
            return
        floor = max((request.frame, request.time), (reply.frame, reply.time))
        # M asks for Markers in what its sender receives (RFC 5044 §7.1.1).
        asked = bool(request.startup.m)
        adapts = request.startup.rev > 0 and not asked and is_rdmac(reply.startup)
        self._begin_behind_frames(
            mpa, floor, {"initiator": bool(reply.startup.m), "responder": None if adapts else asked}
        )

    def _reject(self, mpa: CapturedConnection) -> None:
        """MPA is left and TCP stays open (RFC 5044 §7.1.2, rule 3): another Request may follow."""
        mpa.reject()
        find_negotiation(mpa)
        self.mpa = None
        self.lives.reject(mpa)
        waiting = []
        for direction in self.directions:
            assert isinstance(direction.phase, StartupPhase)
            phase, segments = direction.phase.leave(mpa)
            direction.enter(phase)
            waiting += [(direction, seg) for seg in segments]
        for direction, seg in waiting:
            direction.phase.receive(seg)

    # --- Full Operation ---

    def _begin_behind_frames(
        self, mpa: CapturedConnection, floor: Moment, markers: Mapping[Direction, bool | None]
    ) -> None:
        """Begin Full Operation in both directions, behind the startup frames; Markers are None if not known."""
        waiting = []
        for role in DIRECTIONS:
            direction, with_markers = self.direction_of(mpa.halves[role]), markers[role]
            old = direction.phase
            assert isinstance(old, StartupPhase) and old.begins_at is not None
            if with_markers is None:
                direction.wait(mpa, old.waiting, AwaitedMarkers(old.begins_at, floor), 0)
            else:
                operation = direction.begin(mpa, Beginning(Reassembly(old.begins_at, True), with_markers, floor))
                waiting.append((operation, old.waiting))
        if len(waiting) == len(DIRECTIONS):
            watch_reads(mpa)
        for operation, waited in waiting:
            operation.replay(waited)

    # --- Full Operation without startup frames ---

    def stop_waiting(self) -> bool:
        """More waits than may be held; True if Full Operation has begun with it."""
        first, second = (direction.phase for direction in self.directions)
        if not isinstance(first, StartupPhase) or not isinstance(second, StartupPhase):
            return False
        mpa = self.mpa
        if mpa is None:
            return self._infer_both(first, second)
        initiator, responder = (first, second) if mpa.halves["initiator"] is first.half else (second, first)
        if mpa.operations or initiator.begins_at is None:
            return False
        if mpa.reply is not None and mpa.request is None and responder.begins_at is not None:
            return self._infer_from_reply(mpa, mpa.reply, initiator, responder)
        if mpa.request is not None and mpa.reply is None and responder.unexpected is None:
            return self._infer_from_request(mpa, mpa.request, initiator, responder)
        return False

    def _infer_from_reply(
        self, mpa: CapturedConnection, reply: FoundFrame, initiator: StartupPhase, responder: StartupPhase
    ) -> bool:
        """Begin Full Operation with the Reply alone: Markers of the Responder, and CRC, are given, or read off."""
        if reply.startup.r:
            mpa.reject()
            return False
        assert initiator.begins_at is not None and responder.begins_at is not None
        begins: dict[Direction, bytes] = {
            "initiator": first_octets(initiator.waiting, initiator.begins_at),
            "responder": first_octets(responder.waiting, responder.begins_at),
        }
        crc, markers = infer_from_reply(reply.startup, begins, self._context.assumptions)
        mpa.infer(crc)
        self._begin_behind_frames(mpa, (reply.frame, reply.time), markers)
        return True

    def _infer_from_request(
        self, mpa: CapturedConnection, request: FoundFrame, initiator: StartupPhase, responder: StartupPhase
    ) -> bool:
        """Begin Full Operation with the Request alone, if the octets of both half connections say enough."""
        assert initiator.begins_at is not None
        waited = self._waited(initiator, responder)
        inferred = infer_from_request(request.startup, waited, self._context.assumptions)
        if not inferred.is_enough:
            return False
        mpa.infer(inferred.crc)
        starts: dict[Direction, int | None]
        starts = {"initiator": waited["initiator"].reassembly.offset_of(initiator.begins_at), "responder": None}
        self._begin_inferred(mpa, waited, inferred, starts, bool(request.startup.m))
        return True

    def _infer_both(self, first: StartupPhase, second: StartupPhase) -> bool:
        """Begin Full Operation without startup frames, if the octets say that there is MPA on the connection."""
        phases = (first, second)
        if any(phase.found is not None for phase in phases):
            return False
        if not any(phase.may_be_fpdus and phase.waiting for phase in phases):
            return False
        # Who is the Initiator cannot be known, unless somebody says whose octets they are.
        initiator, responder = (second, first) if _began(phases, self._first_sender) is second.half else phases
        waited = self._waited(initiator, responder)
        starts = {role: waited[role].told_start() for role in DIRECTIONS}
        is_told = any(start is not None for start in starts.values())
        inferred = infer_both(waited, self._context.assumptions, is_told)
        self.is_promising = inferred.is_promising
        if not inferred.is_enough or not self._connections.has_room(initiator.half):
            return False
        mpa = self._begin_mpa(initiator.half)
        mpa.infer(inferred.crc, inferred_profile(waited, inferred.found))
        self._begin_inferred(mpa, waited, inferred, starts, None)
        return True

    def _waited(self, initiator: StartupPhase, responder: StartupPhase) -> dict[Direction, Waited]:
        phases: dict[Direction, StartupPhase] = {"initiator": initiator, "responder": responder}
        return {role: Waited(one.half, one.waiting, one.origin, self._context) for role, one in phases.items()}

    def _begin_inferred(
        self,
        mpa: CapturedConnection,
        waited: Mapping[Direction, Waited],
        inferred: InferredHalves,
        starts: Mapping[Direction, int | None],
        asked: bool | None,
    ) -> None:
        """Begin Full Operation in both directions, as far as what waited in them says how.

        ``starts``: the offsets at which it begins, if known; ``asked``: whether the Request asks for Markers, or None.
        """
        for role in DIRECTIONS:
            direction, found, start = self.direction_of(mpa.halves[role]), inferred.found.get(role), starts[role]
            waiting = waited[role].waiting
            if start is None and (found is None or (asked is None and not found.shows_markers)):
                direction.wait(mpa, waiting, Awaited(role, mpa.crc, asked, self._context), 2 * waiting.octets)
            else:
                told = self._context.assumptions.markers_of(role)
                direction.begin(mpa, waited[role].beginning(found, start, told, mpa.crc)).replay(waiting)

    def _begin_mpa(self, initiator: Half) -> CapturedConnection:
        """There is MPA on this connection."""
        self.lives.begin()
        mpa = self.mpa = CapturedConnection(initiator, self._context.assumptions, self._context.new_findings())
        self._connections.add(self, mpa)
        left_out, self._left_out = self._left_out, []
        for half, seg, rule, detail in left_out:
            self.find(rule, seg, detail, half)
        return mpa

    # --- the end ---

    def finish(self, now: Moment) -> None:
        """Nothing more comes for this connection."""
        for direction in self.directions:
            direction.intake.finish_acknowledging()
        for direction in self.directions:
            direction.intake.finish()
        self.stop_waiting()
        parts = self._unfinished(now)
        mpa = self.mpa
        for direction in self.directions:
            self._handshake.finish(direction.intake)
            if isinstance(direction.phase, AwaitingInference):
                direction.phase.decide(at_last=True)
            self._finish_phase(direction, direction.phase, parts.get(direction), now)
        if mpa is not None:
            initiator = self.direction_of(mpa.halves["initiator"])
            find_end(mpa)
            judgement, first = find_negotiation(mpa), initiator.phase
            if isinstance(first, StartupPhase) and first.found is not None and first.waiting:
                find_octets_behind_request(mpa, first.waiting.segments[0])
            find_silence(mpa, judgement, now)
            find_first_octets(mpa)
            find_reply_alone(mpa, initiator.garbled)
        self.lives.finish(mpa, self._context.findings)
        self.mpa = None
        for direction in self.directions:
            direction.phase.let_go()

    def _unfinished(self, now: Moment) -> dict[TCPDirection, Unfinished | None]:
        """The startup frames of which only a part came, if no more will; with a part begins an MPA connection too."""
        found = {}
        for direction in self.directions:
            phase, half = direction.phase, direction.half
            part = phase.pending() if isinstance(phase, StartupPhase) else None
            if part is not None and self.may_have_frame(half):
                mpa = self.mpa or self._begin_mpa(half if part.kind == "request" else half.peer)
                mpa.take_part(part)
                found[direction] = ended(half, part, now)
        return found

    def _finish_phase(self, direction: TCPDirection, phase: _Phase, part: Unfinished | None, now: Moment) -> None:
        if isinstance(phase, FullOperation):
            direction.look_again(phase, at_end=True).finish(now)
        elif isinstance(phase, StartupPhase):
            findings = self.mpa.findings if self.mpa is not None else self._context.findings
            unexpected = phase.unexpected if not phase.search.has_gap else None
            find_unfinished(self.mpa, findings, direction.half, part, direction.garbled, unexpected)
