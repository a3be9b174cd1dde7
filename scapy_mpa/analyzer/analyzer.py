"""Segments of a capture in, MPA connections with their counts and findings out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from scapy_mpa.analyzer.connection import CapturedConnection, Deviations, FullOperation, Listener, direction_end
from scapy_mpa.analyzer.followed import Followed
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.infer.inference import Budget
from scapy_mpa.rdmap.watch import MOST_OF_ALL
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.deviation import DiagnosisBudget
from scapy_mpa.receiver.values import Breach, Moment
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.stream.connection import (
    MOST_RESETS,
    Flow,
    Flows,
    Stray,
    TCPConnection,
    TCPHalf,
    is_stray,
)
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.options import Announced, announced
from scapy_mpa.values.pathmtu import path_mtu_message
from scapy_mpa.values.segment import (
    PATH_MTU,
    SYN,
    CarriedSegment,
    Segment,
    endpoints,
    reverse_key,
)
from scapy_mpa.watches.lifecycle import refused
from scapy_mpa.watches.pathmtu import PathMTUWatch
from scapy_mpa.watches.startup import garbled_key, start_not_found

#: Connections that ended are finished so many at a time: one by one, amid others that go on, takes a fifth longer, for
#: the processor then meets the code anew each time.
MOST_LEAVING: Final = 512


class FollowedConnection:
    """A TCP connection with its reader, and the MPA connection that it turned out to carry.

    Attributes:
        reader: reads its octets.
        mpa: the MPA connection, None if there is none as far as is known.
        path_mtu: what routers report of the packets of each direction, None until somebody asks.
        syns: what the SYN of each direction announced.
        strays: segments beside it that belong to no connection, the first MOST_RESETS.
        is_stray: whether it is not a connection: its segments lie in the middle of another one.
        is_reported: whether its segments are reported with the MPA connection beside it.
        is_left_out: whether the report has no room for it.
        is_holding: whether it may hold octets.
        operations: the directions with nothing waiting to be taken, None for others.
    """

    __slots__ = (
        "is_holding", "is_left_out", "is_reported", "is_stray", "mpa", "operations", "path_mtu", "reader", "strays",
        "syns",
    )  # fmt: skip

    def __init__(self, reader: ConnectionReader) -> None:
        self.reader = reader
        self.mpa: CapturedConnection | None = None
        self.path_mtu: tuple[PathMTUWatch, PathMTUWatch] | None = None
        self.syns: list[Announced | None] = [None, None]
        self.strays: list[Stray] = []
        self.is_stray = self.is_reported = self.is_left_out = self.is_holding = False
        self.operations: list[FullOperation | None] = [None, None]

    @property
    def is_mpa(self) -> bool:
        """True once a startup frame was found or FPDUs were inferred."""
        return self.reader.is_mpa

    @property
    def is_ordinary(self) -> bool:
        """True if there is one MPA connection on it, with both startup frames: its end changes that of no other one."""
        return self.mpa is not None and self.reader.has_both_frames and not self.reader.rejected

    @property
    def has_fpdus(self) -> bool:
        """True once an FPDU was found that nothing captured later can change."""
        return self.mpa is not None and self.mpa.has_fpdus

    def is_begun_anew_by(self, seg: Segment) -> bool:
        """Return True if a segment that fits no connection begins another one, whose SYN was not captured."""
        return self.reader.is_begun_anew_by(seg)

    def is_key_in(self, seg: Segment) -> bool:
        """Return True if a segment begins with a Key (RFC 5044 §7.1.1)."""
        return self.reader.is_key_in(seg)

    def receive_path_mtu(self, d: int, seg: Segment) -> None:
        """Take what a router reports about a packet of a direction."""
        half = self.reader.connection.halves[d]
        if half.space.base is not None:
            if self.path_mtu is None:
                self.path_mtu = PathMTUWatch(), PathMTUWatch()
                if self.mpa is not None:
                    self.mpa.watch_path_mtu(self.path_mtu)
            # Where octets are missing, others may lie beyond.
            sent = None if self.mpa is not None and self.mpa.has_hole(d) else half.highest
            offset = half.space.nearest(seg.seq)[1]
            self.path_mtu[d].received(path_mtu_message(seg), offset, half.peer.last_ack_sent, sent)


class Analyzer:
    """Analyses the TCP connections of a capture.

    Feed it segments in the order of capture, a list at a time; call :meth:`finish` at the end.

    Args:
        records: whether a row is kept of each FPDU.
        listener: hears of startup frames and FPDUs, if anybody does.
        assumptions: what the user stated because no startup frame does.
        limits: how much is held back and followed at most.
        make_findings: makes the findings of a connection, which share a quota, or those of none, without one.
        deviations: what is known of senders by an analysis of the same capture: for who receives octets only once, they
            are read by that from the first one on.

    Attributes:
        connections: the MPA connections; they are numbered when all is known.
        findings: those of no connection.
        tcp_connections: how many TCP connections were met and are over, MPA or not.
        has_doubt: whether a sender may deviate that was not examined, as the listener receives octets only once.
        take_over: receives each MPA connection that is over, which is no longer kept then; None: all are kept.
    """

    def __init__(
        self,
        *,
        records: bool = False,
        listener: Listener | None = None,
        assumptions: Assumptions = NOTHING,
        limits: Limits = DEFAULT_LIMITS,
        make_findings: Callable[[Quota | None], Findings] = Findings,
        deviations: Deviations | None = None,
    ) -> None:
        self.connections: list[CapturedConnection] = []
        self.findings = make_findings(None)
        self.limits = limits
        self.assumptions = assumptions
        self.tcp_connections = 0
        self.has_doubt = False
        self.take_over: Callable[[CapturedConnection], None] | None = None
        self._make_findings = make_findings
        self._quota = Quota(limits.findings)
        self._room = Quota(MOST_OF_ALL)
        self._records = records
        self._listener = listener
        self._hands_octets = listener is not None and listener.wants_octets
        self._deviations = deviations or {}
        self._numbered = self._handed_over = 0
        self._budget = Budget()
        self._diagnosis_budget = DiagnosisBudget()
        self._flows = Flows(self._follow, self._end)
        self._followed = Followed(limits.connections)
        #: Connections that hold octets, as far as was examined.
        self._holding: dict[int, TCPConnection] = {}
        #: How many octets they held when that was examined, and how many came since.
        self._held = 0
        #: MPA connections with something new since the last time.
        self._pending: list[CapturedConnection] = []
        #: Directions that hold octets which lie in the segments that are fed just now.
        self._borrowing: list[TCPHalf] = []
        self._starts_found: set[int] = set()
        #: TCP connections that ended, when, and with what they shared addresses and ports.
        self._leaving: list[tuple[TCPConnection, Flow, Moment]] = []
        #: MPA connections that are over and were not handed over yet, if :attr:`take_over` is given.
        self._over: list[CapturedConnection] = []
        self._is_any_over = False
        #: The last segment's, nanoseconds since the epoch.
        self._frame = self._time = 0

    @property
    def _now(self) -> Moment:
        return self._frame, self._time

    # --- segments ---

    def feed(self, segments: Iterable[Segment]) -> None:
        """Take segments in the order of capture."""
        # Addresses and ports of the segment before, and of another one that was sent the other way, if it is known.
        key: bytes | None = None
        other_key: bytes | None = None
        flow: Flow | None = None
        d = 0
        for seg in segments:
            self._frame, self._time = seg.frame, seg.time
            if seg.flags & PATH_MTU:
                self._receive_path_mtu(seg)
                continue
            if seg.key is not key:
                if seg.key is other_key:
                    key, other_key, d = other_key, key, 1 - d
                else:
                    before, last_d = flow if key is not None else None, d
                    flow, d = self._flows.find(seg.key)
                    key, other_key = seg.key, key if flow is before and d != last_d else None
            if flow is not None and flow.user is not None and type(seg) is Segment:
                followed = flow.user
                if self._receive_in_turn(followed, d, seg):
                    continue
            key = other_key = None
            if flow is None:
                flow, d = self._flows.begin(seg)
            connection = flow.receive(seg, d)
            if connection is not None:
                if self._borrowing:
                    connection.own()
                self._receive(connection, connection.user, d, seg)
                # What is delivered only later must not be known yet, however many segments come at once.
                if self._listener is not None and self._pending:
                    self.flush()
        for half in self._borrowing:
            half.copies.own()
        self._borrowing.clear()

    def flush(self) -> None:
        """Hand on what was found since the last time; at the latest that is done by :meth:`release`."""
        pending, self._pending = self._pending, []
        for mpa in pending:
            d, mpa.pending_side = mpa.pending_side, -1
            if d >= 0:
                mpa.take(d)

    def _receive_in_turn(self, followed: FollowedConnection, d: int, seg: Segment) -> bool:
        """Receive a segment about which TCP finds nothing remarkable; if it does, change nothing and return False.

        It acknowledges, or none of its octets came before.  :meth:`_receive` does the same, and more.
        """
        reader, mpa = followed.reader, followed.mpa
        connection = reader.connection
        offset, other = connection.offset_in_turn(seg, d), reader.readers[1 - d]
        if offset < 0 or mpa is None or other is None or connection.acked >= other.hole_end:
            return False
        if not seg.length:
            connection.receive_in_turn(seg, d, offset, is_read=False)
            reader.note_frame(seg.frame)
            return True
        operation = followed.operations[d]
        if operation is None:
            if mpa.pending_side >= 0:
                mpa.take(mpa.pending_side)
            operation = followed.operations[d] = mpa.steady_operation(d)
        if operation is None:
            return False
        if operation.take_next(offset, seg):
            connection.receive_in_turn(seg, d, offset, is_read=True)
            reader.note_frame(seg.frame)
        elif operation.may_go_on(offset, seg):
            half = operation.half
            if not half.copies.is_borrowing:
                self._borrowing.append(half)
            is_late = half.highest > offset
            connection.receive_in_turn(seg, d, offset, is_read=False)
            if mpa.pending_side == 1 - d:
                mpa.take(1 - d)
            self._go_on(followed, d, offset, seg, is_late)
        else:
            return False
        if mpa.pending_side < 0:
            self._pending.append(mpa)
        mpa.pending_side = d
        return True

    def _go_on(self, followed: FollowedConnection, d: int, offset: int, seg: Segment, is_late: bool) -> None:
        """Read octets that are new, and are not plain FPDUs alone; ``is_late``: others beyond them had come."""
        reader, operation = followed.reader, followed.operations[d]
        connection = reader.connection
        assert operation is not None
        assert connection.flow is not None
        is_steady = reader.read_on(d, offset, offset + seg.length, seg.frame, seg.time)
        operation.gone_on(offset, seg, is_late)
        if operation.half.copies.held:
            self._note_held(connection, followed, seg.length)
        if operation.reader.final or not is_steady:
            # What was read may concern the other direction, or change what is plain.
            followed.operations[0] = followed.operations[1] = None
        if not is_steady:
            connection.flow.user = None

    def _receive(self, connection: TCPConnection, followed: FollowedConnection, d: int, seg: Segment) -> None:
        frame, flags = seg.frame, seg.flags
        reader, mpa, arrival = followed.reader, followed.mpa, connection.arrival
        half = connection.halves[d]
        if mpa is not None and mpa.pending_side >= 0 and self._comes_before(connection, mpa, d, flags):
            # A copy that this segment brings of octets that were read is told of with the segment.
            own = half.late.pop() if half.late and half.late[-1].other[0] == frame else None
            mpa.take(mpa.pending_side)
            if own is not None:
                half.late.append(own)
        assert connection.flow is not None
        connection.flow.user = None
        followed.operations[0] = followed.operations[1] = None
        if flags & SYN:
            followed.syns[d] = announced(seg)
        if followed.is_left_out:
            for half in connection.halves:
                half.forget(half.copies.end)
            return
        reader.receive(d, frame, seg.time)
        if reader.rejected and reader.last is not reader:
            self._begin_once_more(connection, followed, self._now)
            reader, mpa = followed.reader, followed.mpa
        if mpa is None:
            if reader.is_mpa:
                mpa = self._begin_mpa(connection, followed)
            elif connection.is_answered:
                self._followed.move(connection, has_mpa=False)
        if mpa is not None:
            if self._hands_octets:
                mpa.take(d)
            elif arrival is not None or connection.advanced:
                if mpa.pending_side < 0:
                    self._pending.append(mpa)
                if arrival is not None or mpa.pending_side < 0:
                    mpa.pending_side = d
            if type(seg) is not Segment:
                self._report_fragmented(mpa, d, seg)
        if mpa is not None and len(half.late) == MOST_RESETS:
            mpa.take(d)
        if half.copies.held:
            self._note_held(connection, followed, 0 if arrival is None else arrival.end - arrival.start)
        if flags & 5 and connection.is_over:
            self._followed.end(connection)
        elif mpa is not None and self._listener is None and reader.is_steady():
            connection.flow.user = followed

    def _note_held(self, connection: TCPConnection, followed: FollowedConnection, octets: int) -> None:
        """A connection may hold so many octets of a segment."""
        if not followed.is_holding:
            self._holding[id(connection)], followed.is_holding = connection, True
        self._held += octets

    def _report_fragmented(self, mpa: CapturedConnection, d: int, seg: Segment) -> None:
        if isinstance(seg, CarriedSegment) and seg.is_fragmented and seg.length:
            detail = "a segment came in fragments of an IP datagram"
            mpa.findings.add("ip-fragmented", mpa.role_of(d), seg.frame, seg.time, seg.seq, detail)

    def _comes_before(self, connection: TCPConnection, mpa: CapturedConnection, d: int, flags: int) -> bool:
        """Return True if what was found comes before what a segment carries, announces, or makes final in the other
        direction.
        """
        other, copies = mpa.reader.readers[1 - d], connection.halves[1 - d].copies
        has_hole = copies.held > 0 and other is not None and copies.reaches_beyond(copies.edge(other.main.edge))
        is_other = other is None or other.main.waits or has_hole
        return is_other or flags & SYN > 0 or (connection.arrival is not None and mpa.pending_side != d)

    def _begin_mpa(self, connection: TCPConnection, followed: FollowedConnection) -> CapturedConnection | None:
        """Begin an MPA connection on a TCP connection; None if the report has no room for it."""
        most = self.limits.mpa_connections
        if len(self.connections) + self._handed_over >= most:
            followed.is_left_out = True
            detail = f"more than {most} MPA connections (mpa_connections)"
            self.findings.add("limit", None, *self._now, 0, detail)
            return None
        assert connection.flow is not None
        mpa = followed.mpa = CapturedConnection(
            followed.reader, connection.flow.key, self._make_findings(self._quota), followed.syns,
            followed.path_mtu, self._records, self._listener, self._deviations, self._room,
        )  # fmt: skip
        mpa.number = self._numbered
        self._numbered += 1
        self.connections.append(mpa)
        self._followed.move(connection, has_mpa=True)
        return mpa

    def _receive_path_mtu(self, seg: Segment) -> None:
        flow, d = self._flows.find(seg.key)
        if flow is not None:
            followed: FollowedConnection = flow.connections[-1].user
            if followed.mpa is not None:
                followed.mpa.take(d)
            followed.receive_path_mtu(d, seg)

    def pass_time(self, segments: Iterable[Segment]) -> None:
        """Note that the capture is past these segments, not all of which need have been fed."""
        for seg in segments:
            self._frame, self._time = seg.frame, seg.time

    def speaks_mpa(self, seg: Segment) -> bool:
        """Return True if there is MPA, as far as is known, on the addresses and ports of a segment."""
        flow, _ = self._flows.find(seg.key)
        return flow is not None and any(one.user.mpa is not None for one in flow.connections)

    def release(self) -> None:
        """Hand on what was found; give up what is held where all connections together hold too much."""
        self._finish_leaving()
        self.flush()
        self._forget_over()
        if self._held <= self.limits.total_octets:
            return
        weights = {key: _weight(one) for key, one in self._holding.items()}
        for key in [key for key, weight in weights.items() if not weight]:
            self._holding.pop(key).user.is_holding = False
        held, most = sum(weights.values()), self.limits.total_octets
        self._held = held
        if held <= most:
            return
        for key in sorted(self._holding, key=lambda key: -weights[key]):
            if held <= most // 4 * 3:
                break
            connection = self._holding[key]
            if connection.flow is not None:
                connection.flow.user = None
            connection.user.reader.relieve(f"more than {most} octets held back in total (total_octets)", self._now)
            if connection.user.mpa is not None:
                connection.user.mpa.take(0)
            held -= weights[key] - _weight(connection)
        self._held = held

    # --- connections ---

    def _follow(self, connection: TCPConnection) -> FollowedConnection:
        """A TCP connection begins."""
        if self._followed.is_full:
            detail = f"more than {self.limits.connections} TCP connections at once (connections)"
            self.findings.add("limit", None, *self._now, 0, detail)
            self._end(self._followed.give_way())
        self._followed.add(connection)
        return FollowedConnection(
            ConnectionReader(connection, self.limits, self._budget, self._diagnosis_budget, self.assumptions)
        )

    def _end(self, connection: TCPConnection) -> None:
        """End a TCP connection: no more of it follows."""
        flow, followed = connection.flow, connection.user
        assert flow is not None
        # One that is alone is not inside another.
        for one in flow.connections if len(flow.connections) > 1 else ():
            one.user.is_stray |= not one.user.has_fpdus and is_stray(one, flow)
        if followed.is_stray:
            self._withdraw(connection, followed)
            connection.user = None
        else:
            self._leaving.append((connection, flow, self._now))
            is_alone = self.take_over is not None and len(flow.connections) == 1
            if not (is_alone and followed.is_ordinary) or len(self._leaving) == MOST_LEAVING:
                self._finish_leaving()
        self._followed.remove(connection)
        self._holding.pop(id(connection), None)
        self._flows.remove(connection)

    def _finish_leaving(self) -> None:
        """Finish the TCP connections that ended: no more of them follows."""
        leaving, self._leaving = self._leaving, []
        for connection, flow, now in leaving:
            first = len(self._over)
            self._finish(connection, connection.user, flow, now)
            self._hand_over(first)
            # Else its reader, which knows it, would keep it alive until Python looks for circles.
            connection.user = None

    def _withdraw(self, connection: TCPConnection, followed: FollowedConnection) -> None:
        """Withdraw a connection that turned out not to be MPA: what looked like it is reported beside it."""
        mpa, followed.mpa, followed.path_mtu = followed.mpa, None, None
        if mpa is not None:
            self.connections.remove(mpa)
        beside = connection.beside
        if beside is not None and beside.user.mpa is not None:
            _report_with(connection, beside)

    def _finish(self, connection: TCPConnection, followed: FollowedConnection, flow: Flow, now: Moment) -> None:
        is_met = connection.has_syn or any(half.last_frame for half in connection.halves)
        self.tcp_connections += is_met
        if not followed.is_left_out:
            followed.reader.finish()
            if followed.mpa is None and followed.reader.is_mpa:
                self._begin_mpa(connection, followed)
        if followed.mpa is not None and followed.reader.is_data and not followed.mpa.has_fpdus:
            self._report_data(followed.mpa)
            self.connections.remove(followed.mpa)
            followed.mpa, followed.path_mtu, followed.is_reported = None, None, True
        if followed.mpa is not None:
            for one in flow.connections:
                if one.beside is connection and (one.user.mpa is None or one.user.is_stray):
                    _report_with(one, connection)
            self._begin_once_more(connection, followed, now)
            self._finish_mpa(followed, now)
        elif connection.beside is not None and connection.beside.user.mpa is not None:
            _report_with(connection, connection.beside)
        elif not followed.is_reported:
            self._report_other(connection, followed, flow.key)

    def _begin_once_more(self, connection: TCPConnection, followed: FollowedConnection, now: Moment) -> None:
        """MPA was left after a rejection, and begins again on the same TCP connection, maybe several times."""
        if followed.reader.last is followed.reader:
            return
        chain = followed.reader.last.chain
        for reader in chain[chain.index(followed.reader) + 1 :]:
            self._finish_mpa(followed, now)
            followed.reader = reader
            self._begin_mpa(connection, followed)

    def _finish_mpa(self, followed: FollowedConnection, now: Moment) -> None:
        """End the MPA connection on a TCP connection: no more of it follows."""
        mpa, followed.mpa, followed.path_mtu = followed.mpa, None, None
        if mpa is not None:
            mpa.pending_side = -1
            mpa.finish(now, followed.strays)
            self._is_any_over = True
            if self.take_over is not None:
                self._over.append(mpa)
            self.has_doubt |= self._hands_octets and followed.reader.has_doubt
            self._starts_found |= followed.reader.starts_found

    def _report_data(self, mpa: CapturedConnection) -> None:
        """Report that octets which begin like a startup frame are not one."""
        for role, found in zip(ROLES, (mpa.request, mpa.reply), strict=True):
            if found is not None:
                name = " > ".join(endpoints(mpa.keys[role]))
                detail = f"{name}: a Key, but no startup frame: no MPA follows it"
                self.findings.add("startup-in-data", None, found.frame, found.time, found.seq, detail)

    def _report_other(self, connection: TCPConnection, followed: FollowedConnection, key: bytes) -> None:
        """Report of a TCP connection without MPA that it was refused, cut, or began with what is nearly a Key."""
        self._report_short_parts(connection, followed, key)
        ends = [direction_end(half) for half in connection.halves]
        for d, half in enumerate(connection.halves):
            name = " > ".join(endpoints(key if d == 0 else reverse_key(key)))
            found, garbled = refused(ends[d], ends[1 - d], name), followed.reader.garbled[d]
            breaches = [found] if found is not None else []
            cut = followed.reader.cut_header(d)
            if cut is not None:
                detail = f"{name}: {len(cut.beginning)} octets of a startup frame were captured, too few to read it"
                breaches.append((Breach("capture-cut", cut.offset, cut.frame, cut.time, detail), 1))
            if garbled is not None:
                breach = garbled_key(garbled)
                breaches.append((breach._replace(detail=f"{name}: {breach.detail}"), 1))
            for breach, count in breaches:
                seq = ((half.space.base or 0) + breach.offset) & SEQ_MASK
                self.findings.add(breach.rule, None, breach.frame, breach.time, seq, breach.detail, count=count)

    def _report_short_parts(self, connection: TCPConnection, followed: FollowedConnection, key: bytes) -> None:
        """Report that a snapshot length left too little of a connection to show whether there is MPA."""
        found, reader = followed.reader.short_parts, followed.reader
        if found is None or any(reader.cut_header(d) is not None for d in (0, 1)):
            return
        first, half = found.first, connection.halves[found.side]
        name = " > ".join(endpoints(key if found.side == 0 else reverse_key(key)))
        octets = first.end - first.start
        detail = f"{name}: {first.captured} of {octets} octets of the payload were captured, too few to show MPA"
        seq = ((half.space.base or 0) + first.start + first.captured) & SEQ_MASK
        self.findings.add(
            "capture-cut", None, first.frame, first.time, seq, detail, count=found.segments, last_frame=found.last_frame
        )

    def let_go(self, since: int) -> list[CapturedConnection]:
        """Follow no longer the TCP connections that have been over since a time (nanoseconds since the epoch).

        Returns the MPA connections that are over with that, which are no longer kept.
        """
        for connection in self._followed.over():
            if connection.last_time <= since:
                self._end(connection)
        over = [mpa for mpa in self.connections if mpa.lifecycle is not None]
        if over:
            self.connections[:] = [mpa for mpa in self.connections if mpa.lifecycle is None]
        return over

    def _hand_over(self, first: int = 0) -> None:
        """Hand over the MPA connections that are over, from one on: at once, while they are in the cache."""
        if self.take_over is not None:
            over, self._over[first:] = self._over[first:], []
            for mpa in over:
                self.take_over(mpa)

    def _forget_over(self) -> None:
        """Remove the MPA connections that were taken over; they still count for the limit."""
        if self.take_over is not None and self._is_any_over:
            self._hand_over()
            kept = [mpa for mpa in self.connections if mpa.lifecycle is None]
            self._handed_over += len(self.connections) - len(kept)
            self.connections[:] = kept
            self._is_any_over = False

    def finish(self, *, numbers_anew: bool = True) -> None:
        """The capture is over; connections get their final numbers, or keep those that they have."""
        self._finish_leaving()
        # Those with MPA first: others may have disturbed them.
        for connection in self._followed:
            if connection.flow is not None:
                self._end(connection)
                self._finish_leaving()  # nothing goes on amid them
        for seq in self.assumptions.start:
            if seq not in self._starts_found:
                self.findings.add("assumption", None, *self._now, seq, start_not_found(seq))
        if self._quota.refused:
            detail = f"{self._quota.refused} findings beyond the limit of {self.limits.findings} (findings)"
            self.findings.add("limit", None, *self._now, 0, detail)
        self._forget_over()
        self.connections.sort(key=lambda mpa: mpa.order)
        if numbers_anew:
            for number, mpa in enumerate(self.connections):
                mpa.number = number


def _weight(connection: TCPConnection) -> int:
    return sum(half.copies.held for half in connection.halves)


def _disturbs(one: TCPConnection, other: TCPConnection) -> bool:
    """Return True if segments in the midst of a connection are remarkable: not if they recover from a half-open one."""
    # SYNs that cross are no answer (RFC 9293 §3.5), an acknowledgement is.
    is_answered = one.has_syn and one.is_answered and any(half.peer.last_ack_sent is not None for half in one.halves)
    has_reset = any(half.reset_count for half in one.halves)
    is_amid = one.first_frame < other.last_frame or not other.is_over
    return is_amid and not is_answered and not has_reset


def _report_with(one: TCPConnection, other: TCPConnection) -> None:
    """Report segments in the middle of an MPA connection with that connection."""
    strays: list[Stray] = other.user.strays
    if not one.user.is_reported and _disturbs(one, other):
        strays.extend(one.strays[: MOST_RESETS - len(strays)])
    one.user.is_reported = True
