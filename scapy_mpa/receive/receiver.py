"""The receiver: segments of any number of connections in, MPA connections out."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from scapy_mpa.receive.assumptions import NOTHING, Assumptions
from scapy_mpa.receive.inference import Budget
from scapy_mpa.receive.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.operation import FullOperation, PlacedSink, PlacedObserver as Observer
from scapy_mpa.receive.options import announced
from scapy_mpa.receive.records import FPDULog
from scapy_mpa.receive.segment import (
    ACK_FLAG,
    FIN,
    RST,
    SEQ_MASK,
    STATE_FLAGS,
    SYN,
    Segment,
    detached,
    reverse_key,
)
from scapy_mpa.receive.startup import StartupPhase
from scapy_mpa.receive.half import MAX_WINDOW
from scapy_mpa.receive.tcp import Half, MPAConnection, TCPConnection
from scapy_mpa.receive.undecided import UndecidedHalf
from scapy_mpa.rules.findings import Findings, Quota


class Receiver:
    """Follows the TCP connections of a capture.

    Feed it segments in the order of capture, a list at a time; call :meth:`finish` at the end.  ``connections`` are
    the MPA connections, numbered when they are known; ``findings`` are those of no connection.  With ``records``
    each half connection keeps a log of its FPDUs; ``sink`` is handed each as it is placed; ``observer`` is handed
    startup frames, and FPDUs with their octets.
    """

    def __init__(
        self,
        *,
        records: bool = False,
        sink: PlacedSink | None = None,
        observer: Observer | None = None,
        assumptions: Assumptions = NOTHING,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.connections: list[MPAConnection] = []
        #: Those that turned out to be none and are still among them.
        self._forgotten: set[int] = set()
        self._quota = Quota(limits.findings)
        self.findings = Findings()
        self.assumptions = assumptions
        self.limits = limits
        self.sink = sink
        self.observer = observer
        self._records = records
        self._halves: dict[bytes, Half] = {}
        #: The TCP connections without MPA, and those with it, in the order in which they became so.
        self._plain: OrderedDict[int, TCPConnection] = OrderedDict()
        self._with_mpa: OrderedDict[int, TCPConnection] = OrderedDict()
        #: TCP connections met, MPA or not.
        self.tcp_connections = 0
        self._numbered = 0
        #: How long octets may be searched for FPDUs at every place.
        self.budget = Budget()
        #: How much may be read to find out what senders do wrong.
        self.context = ReceiverContext(limits, assumptions, records)
        self.context.budget = self.budget
        self.context.quota = self._quota
        #: The phases that hold segments of the last blocks of the capture.
        self.touched: list[StartupPhase | UndecidedHalf | FullOperation] = []
        #: Lists of segments that half connections consumed in the last block of the capture.
        self.passing: list[list[Segment]] = []
        #: Octets of memory that all half connections hold back, as far as that was looked at.
        self._held = 0
        self._now = (0, 0)
        #: The sequence numbers told as the start of Full Operation that were found.
        self.starts_found: set[int] = set()

    def new_log(self) -> FPDULog | None:
        """A log for a half connection, None if records are not wanted."""
        return FPDULog() if self._records else None

    def new_findings(self) -> Findings:
        """The findings of a new connection."""
        return Findings(self._quota)

    def has_room(self, half: Half) -> bool:
        """Whether one more MPA connection is kept for the report; if not, that is reported."""
        if len(self.connections) - len(self._forgotten) < self.limits.mpa_connections:
            return True
        detail = f"more than {self.limits.mpa_connections} MPA connections (mpa_connections)"
        self.findings.add("limit", None, *self._now, max(half.ack, 0), detail)
        return False

    def forget(self, mpa: MPAConnection) -> None:
        """A connection was none."""
        self._forgotten.add(id(mpa))
        if 2 * len(self._forgotten) > len(self.connections):
            self._drop_forgotten()

    def _drop_forgotten(self) -> None:
        self.connections[:] = [mpa for mpa in self.connections if id(mpa) not in self._forgotten]
        self._forgotten.clear()

    def number(self, mpa: MPAConnection) -> None:
        """Give a connection its number."""
        if mpa.number < 0:
            mpa.number = self._numbered
            self._numbered += 1

    def feed(self, segments: Iterable[Segment]) -> None:
        """Take segments in the order of capture."""
        halves = self._halves
        seg: Segment | None = None
        for seg in segments:
            _, _, key, seq, ack, flags, _, _, _, _, length = seg
            half = halves.get(key)
            if half is None:
                half = self._open(seg)
                if half is None:
                    continue
            if flags & STATE_FLAGS:
                self._change_state(half, seg)
                continue
            # Only forward: a late segment has an old one.
            if ack != half.ack and ack and ((half.ack - ack) & SEQ_MASK > MAX_WINDOW or half.ack <= 0):
                half.ack = ack
            if not length:
                continue
            if seq == half.next_seq and half.in_order(seg):
                continue
            (half.phase.take if isinstance(half.phase, FullOperation) else half.phase.receive)(seg)
        if seg is not None:
            self._now = seg.frame, seg.time

    def pass_time(self, segments: Iterable[Segment]) -> None:
        """The capture is past these segments, all of which need not have been fed."""
        for seg in segments:
            self._now = seg.frame, seg.time

    def release(self) -> None:
        """Let go of the buffers of all segments fed before the last release; what is still needed is copied.

        Those fed since stay at hand until the next one, to be compared with what repeats them.
        """
        kept = []
        t, passing = self.context.take_touched()
        self.touched += t
        passing += self.passing
        self.passing = []
        for phase in self.touched:
            if phase.release():
                kept.append(phase)
            half = phase.half
            if isinstance(phase, FullOperation):
                d = phase.diagnosed()
                if d is not None:
                    half.connection.deviates(phase, *d)
            # What is over is not held any more: it goes with this block or the next.
            if half.phase.weight != half.held and self._halves.get(half.key) is half:
                self.weigh(half)
        self.touched = kept
        for segments in passing:
            segments.clear()
        if self._held > self.limits.total_octets:
            self._relieve()

    def weigh(self, half: Half) -> None:
        """Look at how much a half connection holds back."""
        held = half.phase.weight
        self._held += held - half.held
        half.held = held

    def _relieve(self) -> None:
        """Too much is held back in all: those that hold most give up what they wait for."""
        for half in sorted(self._halves.values(), key=lambda half: -half.held):
            if self._held <= self.limits.total_octets // 4 * 3:
                return
            half.phase.relieve(self._now)
            self.weigh(half)

    def finish(self) -> None:
        """The capture is over."""
        for connection in (*self._with_mpa.values(), *self._plain.values()):
            connection.finish(self._now)
        self._halves.clear()
        for seq in self.assumptions.start:
            if seq not in self.starts_found:
                detail = f"no half connection without startup frames has an octet {seq} (start={seq})"
                self.findings.add("assumption", None, *self._now, seq, detail)
        if self._quota.refused:
            detail = f"{self._quota.refused} findings more than {self.limits.findings} (findings)"
            self.findings.add("limit", None, *self._now, 0, detail)
        self._drop_forgotten()
        self.connections.sort(key=lambda mpa: mpa.order)
        for number, mpa in enumerate(self.connections):
            mpa.number = number

    # --- TCP connections ---

    def _open(self, seg: Segment) -> Half | None:
        """A half connection for a key not met yet; None for a segment that begins none."""
        if not seg.length and not seg.flags & SYN:
            return None
        if len(self._plain) + len(self._with_mpa) >= self.limits.connections:
            self._close_oldest(seg)
        return self._new(seg)

    def _new(self, seg: Segment) -> Half:
        key = seg.key
        self.tcp_connections += 1
        connection = TCPConnection(key, reverse_key(key), self)
        for half in connection.halves:
            half.enter(StartupPhase(half, seg.seq if half.key == key else seg.ack, False, self.limits.held_octets))
            self._halves[half.key] = half
        self._plain[id(connection)] = connection
        return connection.halves[0]

    def speaks_mpa(self, seg: Segment) -> bool:
        """Whether the TCP connection of a segment is, as far as is known, in use by MPA."""
        half = self._halves.get(seg.key)
        return half is not None and half.connection.mpa is not None

    def follow(self, connection: TCPConnection) -> None:
        """There is MPA on this TCP connection: it is given up last."""
        if self._plain.pop(id(connection), None) is not None:
            self._with_mpa[id(connection)] = connection

    def _close(self, connection: TCPConnection, now: tuple[int, int]) -> None:
        """Nothing more comes for this TCP connection."""
        connection.finish(now)
        for half in connection.halves:
            self._held -= half.held
            half.held = 0
        self._plain.pop(id(connection), None)
        self._with_mpa.pop(id(connection), None)

    def begin_anew(self, connection: TCPConnection, segments: list[Segment]) -> None:
        """A connection is over, and ``segments`` belong to a new one on the same addresses and ports."""
        last = segments[-1]
        self._close(connection, (last.frame, last.time))
        self._new(segments[0])
        for seg in segments:
            half = self._halves[seg.key]
            if seg.flags & STATE_FLAGS:
                self._change_state(half, seg)
            else:
                half.acknowledge(seg.ack)
                (half.phase.take if isinstance(half.phase, FullOperation) else half.phase.receive)(seg)

    def _close_oldest(self, seg: Segment) -> None:
        """Give up a TCP connection: the oldest without MPA, if there is one."""
        connection = next(iter((self._plain or self._with_mpa).values()))
        self._close(connection, (seg.frame, seg.time))
        for half in connection.halves:
            self._halves.pop(half.key, None)
        detail = f"more than {self.limits.connections} TCP connections at a time (connections)"
        self.findings.add("limit", None, seg.frame, seg.time, seg.seq, detail)

    def _change_state(self, half: Half, seg: Segment) -> None:
        """A SYN, FIN or RST, and what payload comes with it."""
        flags = seg.flags
        if flags & SYN:
            if self._is_foreign(half, seg):
                return
            half = self._synchronize(half, seg)
            half.announced = announced(seg) or half.announced
            seg = seg._replace(seq=(seg.seq + 1) & SEQ_MASK)
        if flags & ACK_FLAG:
            half.acknowledge(seg.ack)
        if flags & RST:
            half.rst = seg.seq, seg.frame, seg.time
            half.next_seq = -1
            return
        if flags & FIN:
            fin = (seg.seq + seg.length) & SEQ_MASK
            if half.fin is None or half.fin[0] != fin:
                half.fin = fin, seg.frame, seg.time
        if seg.end > seg.start or seg.length:
            (half.phase.take if isinstance(half.phase, FullOperation) else half.phase.receive)(seg)

    def _is_foreign(self, half: Half, seg: Segment) -> bool:
        """Whether a SYN belongs to another connection; if so, it has been dealt with.

        As long as MPA is spoken on this one, it takes both sides to begin another: a lone SYN may be forged.
        """
        connection, peer = half.connection, half.peer
        origin = (seg.seq + 1) & SEQ_MASK
        if connection.mpa is None or connection.is_closed or half.origin == origin or half.has_begun_behind(origin):
            return False
        half.syn = detached(seg)
        if peer.syn is not None:
            pair = [peer.syn, half.syn]
            answered = {(syn.ack - 1) & SEQ_MASK for syn in pair if syn.flags & ACK_FLAG}
            if any(syn.seq in answered for syn in pair):
                self.begin_anew(connection, pair)
        return True

    def _synchronize(self, half: Half, seg: Segment) -> Half:
        """A SYN: of this connection, or of a new one on the same addresses and ports."""
        origin = (seg.seq + 1) & SEQ_MASK
        if half.origin == origin or half.has_begun_behind(origin):
            half.origin = origin
            return half
        # A SYN may be captured late, but not after the end of the connection.
        may_be_late = half.origin is None and not half.connection.is_closed
        if may_be_late and isinstance(half.phase, StartupPhase) and half.phase.anchor(origin):
            half.origin = origin
            return half
        self._close(half.connection, (seg.frame, seg.time))
        half = self._new(seg)
        assert isinstance(half.phase, StartupPhase)
        half.phase.anchor(origin)
        half.origin = origin
        return half
