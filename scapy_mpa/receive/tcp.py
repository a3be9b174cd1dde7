"""A TCP connection and the MPA connections on it, one after another.

The Initiator is whoever sends the MPA Request, which need not be the side that sent the SYN (RFC 5044 §2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scapy_mpa.framing.agreement import is_rdmac
from scapy_mpa.framing.profiles import PROFILES, Profile, profile_of_revision
from scapy_mpa.framing.startup import KEY_LENGTH, REQUEST_KEY
from scapy_mpa.receive.assumptions import Assumptions
from scapy_mpa.receive.inference import Inferred
from scapy_mpa.receive.located import NEVER
from scapy_mpa.receive.midstream import infer_both, infer_from_reply, infer_from_request
from scapy_mpa.receive.half import Direction, MAX_WINDOW
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.options import Announced, emss_of
from scapy_mpa.receive.scan import Layout
from scapy_mpa.receive.segment import SEQ_MASK, Segment, endpoints
from scapy_mpa.receive.startup import FoundFrame, StartupPhase
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.undecided import AdaptingHalf, UndecidedHalf, finish_undecided
from scapy_mpa.receive.watch.negotiation import find_negotiation
from scapy_mpa.receive.watch.reads import watch_reads
from scapy_mpa.receive.watch.startup import (
    find_data_under_way,
    find_first_octets,
    find_octets_behind_request,
    find_order_of_frames,
    find_reply_alone,
    find_silence,
    rule_of_part,
)
from scapy_mpa.receive.watch.teardown import find_end
from scapy_mpa.rules.findings import Findings

if TYPE_CHECKING:
    from scapy_mpa.framing.judgement import Judgement
    from scapy_mpa.receive.diagnosis import Diagnosis
    from scapy_mpa.receive.receiver import Receiver
    from scapy_mpa.receive.suspicion import Suspicion

DIRECTIONS: tuple[Direction, Direction] = ("initiator", "responder")
#: Octets of streaming data that may lie between a SYN captured late and the startup frame.
_MOST_STREAMING_DATA = 1 << 20


class Half:
    """One direction of a TCP connection, as the receiver's loop knows it.

    A segment whose sequence number is ``next_seq`` (-1: none) may be offered to ``in_order``; any other goes to
    ``phase.receive``.  ``ack`` is the highest acknowledgement number this side sent, -1 if none.
    """

    __slots__ = (
        "ack",
        "announced",
        "connection",
        "fin",
        "garbled",
        "held",
        "in_order",
        "key",
        "next_seq",
        "origin",
        "peer",
        "phase",
        "rejected",
        "rst",
        "syn",
    )

    peer: Half
    phase: StartupPhase | UndecidedHalf | FullOperation
    in_order: Callable[[Segment], bool]

    def __init__(self, key: bytes, connection: TCPConnection) -> None:
        self.key = key
        self.connection = connection
        self.next_seq = -1
        self.ack = -1
        #: Octets of memory that what it holds back took when that was looked at last.
        self.held = 0
        #: Sequence number of the first octet after the SYN, None if no SYN was captured.
        self.origin: int | None = None
        #: What its SYN announced, None if that was not captured.
        self.announced: Announced | None = None
        #: Sequence number of the FIN, its frame and time (nanoseconds).
        self.fin: tuple[int, int, int] | None = None
        #: Where its first octets are nearly a Key (frame, nanoseconds, sequence number), and what they are.
        self.garbled: tuple[int, int, int, str] | None = None
        #: The MPA connection that was rejected last, until it is known what follows it here.
        self.rejected: MPAConnection | None = None
        #: A SYN for another connection, which nobody has confirmed yet: anyone could have sent it.
        self.syn: Segment | None = None
        #: The same of the last RST this side sent.
        self.rst: tuple[int, int, int] | None = None

    @property
    def is_over(self):
        return self.connection.is_closed

    @property
    def emss(self) -> int:
        """The octets that a segment takes, as the SYNs announce it; 0 if they were not captured."""
        return emss_of(self.announced, self.peer.announced)

    @property
    def closed(self) -> tuple[str, tuple[int, int]] | None:
        """By what this direction was closed, and when (frame, nanoseconds): its FIN, else the last RST of either."""
        if self.fin is not None:
            return "FIN", self.fin[1:]
        resets = [half.rst[1:] for half in (self, self.peer) if half.rst is not None]
        return ("RST", max(resets)) if resets else None

    def has_begun_behind(self, origin: int) -> bool:
        """Whether a SYN that was captured late, whose first octet is ``origin``, is that of the present connection."""
        mpa = self.connection.mpa
        if self.origin is not None or mpa is None:
            return False
        operation = mpa.operations.get("initiator" if mpa.halves["initiator"] is self else "responder")
        if mpa.inferred and operation is not None:
            stream = operation.reassembly
            return (stream.seq_of(stream.first) - origin) & SEQ_MASK <= _MOST_STREAMING_DATA
        found = mpa.request if mpa.halves["initiator"] is self else mpa.reply
        return found is not None and (found.seq - origin) & SEQ_MASK <= _MOST_STREAMING_DATA

    def acknowledge(self, ack: int) -> None:
        """This side has sent an acknowledgement number; 0, or one that is older than the last, says nothing."""
        if ack and (self.ack <= 0 or (self.ack - ack) & SEQ_MASK > MAX_WINDOW):
            self.ack = ack

    def enter(self, phase: StartupPhase | UndecidedHalf | FullOperation) -> None:
        """Begin a phase."""
        self.phase = phase
        self.in_order = getattr(phase, "in_order", None)
        if isinstance(phase, FullOperation):
            self.next_seq = -1
        if self.held:
            # Only what segments come for is looked at when their block goes.
            self.connection.receiver.weigh(self)


class MPAConnection:
    """An MPA connection: two startup frames, or one, and the Full Operation of both half connections."""

    def __init__(self, initiator: Half, assumptions: Assumptions, findings: Findings) -> None:
        self.number = -1
        self.assumptions = assumptions
        self.initiator, self.responder = endpoints(initiator.key)
        self.halves = {"initiator": initiator, "responder": initiator.peer}
        self.request: FoundFrame | None = None
        self.reply: FoundFrame | None = None
        self.rejected = False
        #: How many octets, none of them of a Request, a Reply without one acknowledges; 0 if that is not known.
        self.answered_octets = 0
        #: Whether something that a startup frame says had to be inferred, and what each half connection was found
        #: to be where there was none at all.
        self.inferred = False
        self.inferences: dict[str, Inferred | None] = {}
        self.inferred_profile = PROFILES["rfc5044"]
        self.crc = False
        self.operations: dict[str, FullOperation] = {}
        #: What its startup frames came to, known when it is over or rejected; None if there are none.
        self.judgement: Judgement | None = None
        self.findings = findings

    @property
    def profile(self) -> Profile:
        """The specification that was told, else that its Reply, else its Request, names."""
        found = self.reply or self.request
        named = profile_of_revision(found.startup.rev) if found is not None else self.inferred_profile
        return self.assumptions.profile_instead_of(named)

    def startup_length(self, direction):
        found = self.request if direction == "initiator" else self.reply
        return found.end - found.start if found is not None else None

    def markers(self, direction: str) -> bool | None:
        """Whether this direction carries Markers: its receiver asks by M (RFC 5044 §7.1.1); None if not known."""
        if direction in self.operations:
            return self.operations[direction].markers
        asking = self.reply if direction == "initiator" else self.request
        return bool(asking.startup.m) if asking is not None else None

    @property
    def order(self) -> int:
        """The frame that connections are numbered by: of the Request, else of the Reply, else of the first FPDU."""
        found = self.request or self.reply
        if found is not None:
            return found.frame
        return min((operation.settlement.first_frame for operation in self.operations.values()), default=NEVER)


class TCPConnection:
    """Both directions of a TCP connection."""

    def __init__(self, key: bytes, peer_key: bytes, receiver: Receiver) -> None:
        first, second = Half(key, self), Half(peer_key, self)
        first.peer, second.peer = second, first
        self.halves = first, second
        self.receiver = receiver
        #: The MPA connection that is being set up or in Full Operation.
        self.mpa: MPAConnection | None = None
        #: Whether the octets look a little like FPDUs, though no startup frame says so.
        self.is_promising = False
        #: Who sent the first data captured.
        self.first_sender: Half | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing more is to be expected: an RST, or a FIN in both directions."""
        first, second = self.halves
        return first.rst is not None or second.rst is not None or (first.fin is not None and second.fin is not None)

    def begins_anew(self, half: Half, seg: Segment) -> bool:
        """Whether ``seg`` begins another connection on the same addresses and ports; if so, it has been dealt with.

        It is the first after a SYN that nobody has confirmed yet, or its SYN was not captured.
        """
        if half.syn is not None and seg.seq == (half.syn.seq + 1) & SEQ_MASK:
            self.receiver.begin_anew(self, [half.syn, seg])
            return True
        if not self.is_closed or bytes(seg.buffer[seg.start : seg.start + KEY_LENGTH]) != REQUEST_KEY:
            return False
        if self.mpa is not None and self.mpa.request is not None and self.mpa.request.seq == seg.seq:
            return False
        self.receiver.begin_anew(self, [seg])
        return True

    # --- startup ---

    def startup_frame(self, phase: StartupPhase) -> None:
        """A half connection has found its startup frame."""
        half, found = phase.half, phase.found
        assert found is not None
        kind = found.startup.kind
        mpa = self.mpa
        if mpa is None:
            initiator = half if kind == "request" else half.peer
            mpa = self._new(initiator)
        role: Direction = "initiator" if mpa.halves["initiator"] is half else "responder"
        if role != ("initiator" if kind == "request" else "responder"):
            what = "a second MPA Request" if kind == "request" else "an MPA Reply from the Initiator"
            mpa.findings.add(
                "startup-role", role, found.frame, found.time, found.seq, f"{what}: both sides are in the same role"
            )
            return
        if kind == "request":
            mpa.request = found
        else:
            mpa.reply = found
        mpa.crc = any(known is not None and known.startup.c for known in (mpa.request, mpa.reply))
        mpa.findings.profile = mpa.profile.name
        if self.receiver.observer is not None:
            self.receiver.observer.startup(mpa, role, found)
        if kind == "request":
            find_data_under_way(mpa, half.peer.ack)
        other = half.peer.phase
        if mpa.request is not None and mpa.reply is not None:
            self._both_known(mpa)
        elif isinstance(other, StartupPhase):
            if kind == "request":
                other.expect_reply((found.seq + found.end - found.start) & SEQ_MASK, found.ack)
            else:
                mpa.answered_octets = other.octets_without_key(found.ack)
                # The Responder acknowledged the whole Request before it replied.
                other.wait_behind(other.stream.offset_of(found.ack))

    def repeats_frame_otherwise(self, half: Half, seg: Segment, before: Segment) -> None:
        """Octets of a startup frame are sent again, and are others than those that ``before`` brought."""
        if self.mpa is not None:
            direction = "initiator" if self.mpa.halves["initiator"] is half else "responder"
            detail = f"a startup frame differs from what frame {before.frame} brought; the first copy is kept"
            self.mpa.findings.add("overlap", direction, seg.frame, seg.time, seg.seq, detail)

    def forget_frame(self, phase: StartupPhase) -> None:
        """The startup frame that a half connection had found was damaged on its way."""
        mpa = self.mpa
        if mpa is None:
            return
        if mpa.halves["initiator"] is phase.half:
            mpa.request = None
        else:
            mpa.reply = None
        if mpa.request is None and mpa.reply is None:
            self.receiver.forget(mpa)
            self.mpa = None

    def stop_waiting(self) -> bool:
        """More is waiting for a startup frame than may be held; True if it need not wait any longer."""
        return infer_from_reply(self) or infer_from_request(self) or infer_both(self)

    def find(self, rule: str, seg: Segment, detail: str) -> None:
        """Report something about the connection, or the capture, before Full Operation."""
        if self.mpa is not None:
            self.mpa.findings.add(rule, None, seg.frame, seg.time, seg.seq, detail)
        else:
            source, destination = endpoints(seg.key)
            detail = f"{source} > {destination}: {detail}"
            self.receiver.findings.add(rule, None, seg.frame, seg.time, seg.seq, detail)

    def _both_known(self, mpa: MPAConnection) -> None:
        assert mpa.request is not None and mpa.reply is not None
        request, reply = mpa.request.startup, mpa.reply.startup
        answering = mpa.halves["responder"].phase
        find_order_of_frames(mpa, answering.unexpected if isinstance(answering, StartupPhase) else None)
        if reply.r:
            # MPA is left and TCP stays open (RFC 5044 §7.1.2, rule 3): another Request may follow.
            mpa.rejected = True
            find_negotiation(mpa)
            self.mpa = None
            waiting = []
            for half in self.halves:
                old = half.phase
                assert isinstance(old, StartupPhase)
                half.rejected = mpa
                waiting += [(half, seg) for seg in old.leave()]
            for half, seg in waiting:
                half.phase.receive(seg)
            return
        floor = max((mpa.request.frame, mpa.request.time), (mpa.reply.frame, mpa.reply.time))
        # M asks for Markers in what its sender receives (RFC 5044 §7.1.1).
        adapts = request.rev > 0 and not request.m and is_rdmac(reply)
        self.begin(mpa, floor, {"initiator": bool(reply.m), "responder": None if adapts else bool(request.m)})

    def begin(self, mpa: MPAConnection, floor: tuple[int, int], markers: dict[str, bool | None]) -> None:
        """Enter Full Operation in both directions, all behind the startup frames; Markers are None if not known."""
        waiting = []
        for direction in DIRECTIONS:
            half = mpa.halves[direction]
            old = half.phase
            assert isinstance(old, StartupPhase) and old.wait_from is not None
            seq_start, with_markers = old.stream.seq_of(old.wait_from), markers[direction]
            if with_markers is None:
                adapting = AdaptingHalf(half, direction, old.waiting, seq_start, floor)
                half.enter(adapting)
                if old.waiting:
                    adapting.decide(at_last=False)
                continue
            operation = self.operation(mpa, direction, Reassembly(seq_start, True), with_markers, floor, 0)
            waiting.append((operation, old.waiting.segments))
        if len(waiting) == len(DIRECTIONS):
            watch_reads(mpa)
        for operation, segments in waiting:
            operation.replay(segments)

    def operation(
        self,
        mpa: MPAConnection,
        direction: Direction,
        stream: Reassembly,
        markers: bool,
        floor: tuple[int, int],
        begins_at: int | None,
        may_search: bool = True,
    ) -> FullOperation:
        """Enter Full Operation in one direction; the last two are as :class:`FullOperation` has them."""
        receiver, half = self.receiver, mpa.halves[direction]
        operation = FullOperation(
            mpa,
            half,
            direction,
            receiver.context,
            lambda seg: self.begins_anew(half, seg),
            Layout(markers, mpa.crc, mpa.profile.fpduptr_origin),
            stream,
            floor,
            begins_at,
            may_search,
            receiver.sink,
            receiver.observer,
        )
        mpa.operations[direction] = operation
        half.enter(operation)
        return operation

    def deviates(self, old: FullOperation, diagnosis: Diagnosis, suspicion: Suspicion) -> FullOperation:
        """The sender of a half connection deviates: receive it anew, by its dialect, from its first octet."""
        from scapy_mpa.receive.deviating import DeviatingChain

        mpa, direction, receiver = old.mpa, old.direction, self.receiver
        old.be_replaced()
        dialect = diagnosis.candidate.dialect
        # Whether there are Markers where none were asked for, or none where some were, was not misread.
        right = {"marker-absent", "marker-unasked"} if dialect.markers != old.markers else set()
        mpa.findings.forget(direction, old.broken - right)
        re = Reassembly(old.reassembly.origin, True)
        operation = FullOperation(
            mpa,
            old.half,
            direction,
            receiver.context,
            lambda seg: self.begins_anew(old.half, seg),
            Layout(dialect.markers, dialect.crc, dialect.origin),
            re,
            old.floor,
            0,
            True,
            receiver.sink,
            None,
            DeviatingChain(re, diagnosis, suspicion.agreed, old.floor),
        )
        mpa.operations[direction] = operation
        old.half.enter(operation)
        operation.replay([*suspicion.segments, *suspicion.left])
        operation.counts.take_segments(old.counts)
        return operation

    def begin_inferred(self, initiator: Half, crc: bool) -> MPAConnection:
        """There is MPA on this connection, though no startup frame says so."""
        mpa = self._new(initiator)
        mpa.inferred, mpa.crc = True, crc
        return mpa

    def _new(self, initiator: Half) -> MPAConnection:
        receiver = self.receiver
        mpa = self.mpa = MPAConnection(initiator, receiver.assumptions, receiver.new_findings())
        receiver.connections.append(mpa)
        receiver.number(mpa)
        receiver.follow(self)
        return mpa

    # --- the end ---

    def finish(self, now: tuple[int, int]) -> None:
        """Nothing more comes for this connection."""
        self.stop_waiting()
        mpa = self.mpa
        for half in self.halves:
            finish_undecided(half)
            if isinstance(half.phase, FullOperation):
                half.phase.look_into_doubt()
                d = half.phase.diagnosed()
                if d is not None:
                    self.deviates(half.phase, *d)
                half.phase.finish(now)
            elif isinstance(half.phase, StartupPhase):
                self._finish_startup(half, half.phase, mpa)
        if mpa is not None:
            find_end(mpa)
            judgement, first = find_negotiation(mpa), mpa.halves["initiator"].phase
            if isinstance(first, StartupPhase) and first.found is not None and first.waiting:
                find_octets_behind_request(mpa, first.waiting.segments[0])
            find_silence(mpa, judgement, now)
            find_first_octets(mpa)
            if mpa.request is None and mpa.reply is not None:
                find_reply_alone(mpa)
        self.mpa = None
        for half in self.halves:
            half.phase.let_go()

    def _finish_startup(self, half: Half, phase: StartupPhase, mpa: MPAConnection | None) -> None:
        closed = half.closed
        pending = phase.pending()
        findings = mpa.findings if mpa is not None else self.receiver.findings
        role = None
        if mpa is not None:
            role = "initiator" if mpa.halves["initiator"] is half else "responder"
        if pending is not None and closed is not None:
            seq, octets = pending
            how, (frame, time) = closed
            detail = f"{how} after {len(octets)} octets of an MPA {'Request' if octets[7:10] == b'Req' else 'Reply'}"
            if mpa is None:
                source, destination = endpoints(half.key)
                detail = f"{source} > {destination}: {detail}"
            findings.add(rule_of_part(octets), role, frame, time, seq, detail)
        elif mpa is None and half.garbled is not None:
            source, destination = endpoints(half.key)
            *place, detail = half.garbled
            frame, time, seq = place
            findings.add("startup-key", None, frame, time, seq, f"{source} > {destination}: {detail}")
        elif mpa is not None and phase.unexpected is not None and mpa.reply is None and not phase.has_gap:
            seg = phase.unexpected
            begins = bytes(seg.buffer[seg.start : min(seg.end, seg.start + 16)])
            findings.add("startup-key", role, seg.frame, seg.time, seg.seq, f"no MPA Reply: it begins with {begins!r}")
