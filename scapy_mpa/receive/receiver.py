"""The receiver: segments of any number of connections in, MPA connections out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from scapy_mpa.receive.connection import NOTHING_BEFORE, TCPConnection, TCPDirection
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.located import Deviations
from scapy_mpa.receive.mpa import CapturedConnection, Observer
from scapy_mpa.receive.operation import FullOperation, PlacedSink
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.tcp.acceptance import Range
from scapy_mpa.tcp.followed import Followed
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import PATH_MTU, STATE_FLAGS, SYN, Segment, reverse_key


class Receiver:
    """Follows the TCP connections of a capture.

    Feed it segments in the order of capture, a list at a time; call :meth:`finish` at the end.

    Args:
        records: whether each half connection keeps a log of its FPDUs.
        sink: is handed each FPDU as it is placed.
        observer: is handed startup frames, and FPDUs with their octets.
        assumptions: what the user told because no startup frame does.
        limits: how much is held back and followed at most.
        make_findings: makes the findings of a connection, which share a quota, or those of none, without one.
        deviations: what is known of senders by an analysis of the same capture: who receives octets only once, as an
            observer does, reads them by that from the first one on.

    Attributes:
        connections: the MPA connections; they are numbered when all is known.
        findings: those of no connection.
        context: what the half connections share.
        tcp_connections: how many TCP connections were met, MPA or not.
    """

    def __init__(
        self,
        *,
        records: bool = False,
        sink: PlacedSink | None = None,
        observer: Observer | None = None,
        assumptions: Assumptions = NOTHING,
        limits: Limits = DEFAULT_LIMITS,
        make_findings: Callable[[Quota | None], Findings] = Findings,
        deviations: Deviations | None = None,
    ) -> None:
        self.connections: list[CapturedConnection] = []
        self.context = ReceiverContext(limits, assumptions, records, make_findings, deviations)
        self.findings = self.context.findings
        self.limits = limits
        self.tcp_connections = 0
        self._sink = sink
        self._observer = observer
        #: The MPA connections that turned out to be none and are still among them, and how many were numbered.
        self._forgotten: set[int] = set()
        self._numbered = 0
        self._directions: dict[bytes, TCPDirection] = {}
        self._followed: Followed[TCPConnection] = Followed(limits.connections)
        #: What has been closed in the present block of the capture, and whether there was MPA on it.
        self._closed: list[tuple[TCPConnection, bool]] = []
        self._now: Moment = (0, 0)

    # --- segments ---

    def feed(self, segments: Iterable[Segment]) -> None:
        """Take segments in the order of capture."""
        directions, last = self._directions, self.context.last
        seg: Segment | None = None
        for seg in segments:
            frame, time, key, _, ack, flags, _, _, _, _, length = seg
            direction = directions.get(key)
            if direction is None:
                direction = self._open(seg)
                if direction is None:
                    continue
            if flags & STATE_FLAGS:
                direction.connection.change_state(direction, seg)
                if flags & (SYN | PATH_MTU):
                    continue  # it may be none of this connection, and if it is, more will come
                if direction.connection.is_closed:
                    self._followed.end(direction.connection)
            else:
                # Compared here, because this is done for every packet.
                intake = direction.intake
                if not ((ack != intake.half.ack or not length) and intake.acknowledge(seg)) and length:
                    intake.take(seg)
            last[key] = frame, time
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
        context = self.context
        passing = context.take_passing()
        kept = []
        # What begins anew when its block goes, since its sender deviates, holds octets of it too.
        while touched := context.take_touched():
            for phase in touched:
                direction = self._directions.get(phase.half.key)
                # What is over is not held any more: it goes with this block or the next.
                if direction is None or direction.half is not phase.half:
                    continue
                # Nor is what another phase has taken over.
                if direction.phase is phase:
                    if phase.release():
                        kept.append(phase)
                    if isinstance(phase, FullOperation):
                        direction.look_again(phase, at_end=False)
                if direction.weight != direction.held:
                    direction.weigh()
        for phase in kept:
            context.touch(phase)
        for segments in passing:
            segments.clear()
        self._take_apart()
        if context.held > context.limits.total_octets:
            self._relieve()

    def _take_apart(self) -> None:
        """What was closed leaves no circles of references, which somebody would have to look for."""
        for connection, has_mpa in self._closed:
            for direction in connection.directions:
                direction.intake.take_apart(has_mpa)
            vars(connection).clear()  # what it has in common refers to each other
        self._closed.clear()

    def _relieve(self) -> None:
        """Too much is held back in all: those that hold most give up what they wait for."""
        context = self.context
        for direction in sorted(self._directions.values(), key=lambda direction: -direction.held):
            if context.held <= context.limits.total_octets // 4 * 3:
                return
            direction.relieve(self._now)
            direction.weigh()

    def let_go(self, since: int) -> list[CapturedConnection]:
        """Follow no longer the TCP connections that have been over since a time (nanoseconds since the epoch).

        Returns the MPA connections that are over with that, which are not kept any more.
        """
        for connection in self._followed.over():
            if connection.lives.last_time <= since:
                for direction in connection.directions:
                    self._directions.pop(direction.half.key, None)
                self._close(connection, self._now)
        self._take_apart()
        self._drop_forgotten()
        over = [mpa for mpa in self.connections if mpa.lifecycle is not None]
        if over:
            self.connections[:] = [mpa for mpa in self.connections if mpa.lifecycle is None]
        return over

    def finish(self, *, numbers_anew: bool = True) -> None:
        """The capture is over; connections get their final numbers, or keep those that they have."""
        context = self.context
        for connection in self._followed:
            self._close(connection, self._now)
            self._take_apart()
        self._directions.clear()
        for seq in context.assumptions.start:
            if seq not in context.starts_found:
                detail = f"no half connection without startup frames has the sequence number {seq} (start={seq})"
                self.findings.add("assumption", None, *self._now, seq, detail)
        if context.quota.refused:
            detail = f"{context.quota.refused} findings beyond the limit of {self.limits.findings} (findings)"
            self.findings.add("limit", None, *self._now, 0, detail)
        self._drop_forgotten()
        self.connections.sort(key=lambda mpa: mpa.order)
        for number, mpa in enumerate(self.connections if numbers_anew else ()):
            mpa.take_number(number)

    # --- MPA connections ---

    def speaks_mpa(self, seg: Segment) -> bool:
        """Whether the TCP connection of a segment is, as far as is known, in use by MPA."""
        direction = self._directions.get(seg.key)
        return direction is not None and direction.connection.mpa is not None

    def has_room(self, half: Half) -> bool:
        """Whether one more MPA connection is kept for the report; if not, that is reported."""
        most = self.limits.mpa_connections
        if len(self.connections) - len(self._forgotten) < most:
            return True
        detail = f"more than {most} MPA connections (mpa_connections)"
        self.findings.add("limit", None, *self._now, max(half.ack, 0), detail)
        return False

    def add(self, connection: TCPConnection, mpa: CapturedConnection) -> None:
        """There is MPA on a TCP connection."""
        self.connections.append(mpa)
        mpa.take_number(self._numbered)
        self._numbered += 1
        self._followed.find_mpa(connection)

    def forget(self, mpa: CapturedConnection) -> None:
        """An MPA connection was none."""
        self._forgotten.add(id(mpa))
        if 2 * len(self._forgotten) > len(self.connections):
            self._drop_forgotten()

    def _drop_forgotten(self) -> None:
        self.connections[:] = [mpa for mpa in self.connections if id(mpa) not in self._forgotten]
        self._forgotten.clear()

    # --- TCP connections ---

    def _open(self, seg: Segment) -> TCPDirection | None:
        """A direction for a key not met yet; None for a segment that begins none, or only may begin one."""
        kept = self._followed.take_kept(seg)
        if kept:
            if kept[0] is not seg:
                self._new(kept[0])
                self.feed(kept)
            return self._directions.get(seg.key)
        if not seg.length and not seg.flags & SYN:
            return None
        if self._followed.is_full:
            self._give_way(seg)
        self.tcp_connections += 1
        return None if self._followed.keep(seg) else self._new(seg)

    def _new(self, seg: Segment, before: Mapping[bytes, Range | None] = NOTHING_BEFORE) -> TCPDirection:
        connection = TCPConnection(seg, reverse_key(seg.key), self.context, self, self._sink, self._observer, before)
        for direction in connection.directions:
            self._directions[direction.half.key] = direction
        self._followed.add(connection)
        return connection.directions[0]

    def begin_anew(self, connection: TCPConnection, segments: Sequence[Segment]) -> None:
        """A TCP connection is over, and ``segments`` belong to a new one on the same addresses and ports."""
        last = segments[-1]
        self._close(connection, (last.frame, last.time))
        self.tcp_connections += 1
        self._new(segments[0], {one.half.key: one.intake.segments.extent for one in connection.directions})
        self.feed(segments)

    def _close(self, connection: TCPConnection, now: Moment) -> None:
        """Nothing more comes for this TCP connection."""
        connection.finish(now)
        for direction in connection.directions:
            direction.leave()
        self._closed.append((connection, self._followed.remove(connection)))

    def _give_way(self, seg: Segment) -> None:
        """Give up a TCP connection, or a SYN that may have begun one, for that of ``seg``."""
        connection = self._followed.give_way()
        if connection is not None:
            for direction in connection.directions:
                self._directions.pop(direction.half.key, None)
            self._close(connection, (seg.frame, seg.time))
        detail = f"more than {self.limits.connections} TCP connections at a time (connections)"
        self.findings.add("limit", None, seg.frame, seg.time, seg.seq, detail)
