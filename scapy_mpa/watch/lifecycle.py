"""How a connection went from its first frame to its last, and what is to be reported of its end (RFC 5044 §7.2, §8).

What TCP's segments showed of the end is kept by :class:`~scapy_mpa.tcp.ending.Ending`; here it is read, when nothing
more comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from scapy_mpa.framing.role import ROLES as DIRECTIONS
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.receive.mpa import CapturedConnection
from scapy_mpa.rules.findings import Findings
from scapy_mpa.tcp.acceptance import Range
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.tcp.intake import Intake
from scapy_mpa.values.lifecycle import Ended, HalfEnd, Lifecycle
from scapy_mpa.values.segment import Segment, endpoints
from scapy_mpa.watch.messages import AtHand
from scapy_mpa.watch.teardown import PEER


class Lives:
    """The MPA connections on one TCP connection, from its first frame to its last.

    Args:
        first: the first segment.
        intakes: both directions.
        last: the last frame of each direction of all TCP connections, by its key.
    """

    __slots__ = ("_first", "_intakes", "_last", "_rejected")

    def __init__(self, first: Segment, intakes: tuple[Intake, Intake], last: dict[bytes, Moment]) -> None:
        #: Its first frame, or the last of the MPA connection that was over.
        self._first: Moment = (first.frame, first.time)
        self._intakes = intakes
        self._last = last
        self._rejected: CapturedConnection | None = None

    @property
    def last_frame(self) -> int:
        """The last frame that was no SYN, the first one without any."""
        first, second = self._intakes
        before = self._first
        return max(self._last.get(first.half.key, before)[0], self._last.get(second.half.key, before)[0])

    @property
    def last_time(self) -> int:
        """The time of the last frame that was no SYN, in nanoseconds since the epoch."""
        first, second = self._intakes
        before = self._first
        return max(self._last.get(first.half.key, before)[1], self._last.get(second.half.key, before)[1])

    def reject(self, mpa: CapturedConnection) -> None:
        """A connection was rejected; TCP stays open, and another one may follow."""
        self._rejected = mpa

    def begin(self) -> None:
        """Another MPA connection begins."""
        if self._rejected is not None:
            self._end(self._rejected)

    def finish(self, mpa: CapturedConnection | None, findings: Findings) -> None:
        """Nothing more comes; without MPA, what is to be reported is of no connection."""
        mpa = mpa or self._rejected
        if mpa is not None:
            self._end(mpa)
        else:
            find_refused(self._intakes[0].half, findings)
        for intake in self._intakes:
            self._last.pop(intake.half.key, None)

    def _end(self, mpa: CapturedConnection) -> None:
        """An MPA connection is over: learn how it went, and report what its end left undone."""
        for operation in mpa.operations.values():
            if operation.watches.terminate is not None:
                mpa.look_at_terminate(operation.direction)
        last = {role: self._last.get(mpa.halves[role].key, (0, 0)) for role in DIRECTIONS}
        sent = {mpa.role_of(intake.half): intake.segments.extent for intake in self._intakes}
        ends = {role: _end_of(mpa, role, last[PEER[role]][0], sent[role]) for role in DIRECTIONS}
        resets = [(end[1], role) for role in DIRECTIONS if (end := mpa.halves[role].ending.first_reset) is not None]
        reset_frame, reset_by = min(resets, default=(None, None))
        frame, ended, by = _what_came_first(mpa, ends)
        latest = max(last.values())
        first = min(self._first, latest)
        mpa.end(Lifecycle(first, latest, ended, by, frame, reset_by, reset_frame, *ends.values()))
        _report(mpa, ends)
        self._first, self._rejected = latest, None


def _end_of(mpa: CapturedConnection, role: Direction, peer_last: int, sent: Range | None) -> HalfEnd:
    half = mpa.halves[role]
    ending, operation = half.ending, mpa.operations.get(role)
    resets = [one.ending.first_reset[1] for one in (half, half.peer) if one.ending.first_reset is not None]
    octets, messages = 0, 0
    if operation is not None:
        stream = operation.reassembly
        octets = _unacknowledged(half, stream.seq_of(stream.next))
    elif sent is not None:
        octets = _unacknowledged(half, sent.highest)
    if octets and operation is not None:
        acknowledged = max(stream.offset_of(half.peer.ack), stream.first)
        messages = operation.watches.messages.count(AtHand(operation), acknowledged, stream.next)
    in_vain = 0
    if octets and ending.was_in_vain(half.peer.ack) and peer_last < ending.again_frame:
        in_vain = ending.again
    return HalfEnd(
        "fin" if half.fin is not None else "rst" if resets else None,
        half.fin[1] if half.fin is not None else min(resets, default=None),
        ending.resets,
        octets,
        messages,
        in_vain,
        (ending.again_frame, ending.again_last[0]) if in_vain else (0, 0),
        mpa.terminated.get(role),
    )


def _unacknowledged(half: Half, end: int) -> int:
    """Octets below a sequence number of which the peer never said that it has them; 0 if it never said so of any."""
    ack = half.peer.ack
    if half.fin is not None and seq_diff(end, half.fin[0]) > 0:
        end = half.fin[0]  # what came behind it is nobody's
    octets = max(0, seq_diff(end, ack & SEQ_MASK)) if ack > 0 else 0
    return max(0, octets - sum(seq_diff(last, first) for first, last in half.peer.sacked)) if octets else 0


def _what_came_first(
    mpa: CapturedConnection, ends: Mapping[Direction, HalfEnd]
) -> tuple[int | None, Ended, Direction | None]:
    """The frame, what happened, who did it."""
    found: list[tuple[int, int, int | None, Ended, Direction | None]] = []
    if mpa.rejected and mpa.reply is not None:
        found.append((mpa.reply.frame, 0, mpa.reply.frame, "rejected", "responder"))
    for role in DIRECTIONS:
        half, end = mpa.halves[role], ends[role]
        if end.terminated is not None:
            found.append((end.terminated.frame, 1, end.terminated.frame, "terminate", role))
        if half.fin is not None:
            found.append((half.fin[1], 2, half.fin[1], "fin", role))
        if half.ending.first_reset is not None:
            frame = half.ending.first_reset[1]
            found.append((frame, 3, frame, "rst", role))
        if end.in_vain:
            found.append((end.in_vain_frames[0], 4, end.in_vain_frames[1], "lost", None))
    if not found:
        return None, "open", None
    return min(found, key=lambda one: one[:2])[2:]


def _report(mpa: CapturedConnection, ends: Mapping[Direction, HalfEnd]) -> None:
    """Report a rejection, octets that a RST left unacknowledged, and retransmissions in vain."""
    reply = mpa.reply
    if mpa.rejected and reply is not None:
        size = len(reply.startup.ulp_data)
        detail = f"a Reply with R, {size} octets of Private Data of the ULP" if size else "a Reply with R"
        mpa.findings.add("startup-rejected", "responder", reply.frame, reply.time, reply.seq, detail)
    for role in DIRECTIONS:
        half, end = mpa.halves[role], ends[role]
        if not end.unacknowledged_octets or (not end.in_vain and role not in mpa.operations):
            continue
        seq = half.peer.ack
        what = f"{end.unacknowledged_octets} octets"
        if end.in_vain:
            last = end.in_vain_frames[1]
            detail = f"{end.in_vain} retransmissions of octets that the peer never acknowledged, {what} in all"
            mpa.findings.add("connection-lost", role, last, half.ending.again_last[1], seq, detail)
        reset = next((one for one in (half.peer, half) if one.ending.first_reset is not None), None)
        if role in mpa.operations and reset is not None and reset.ending.first_reset is not None:
            _, frame, time = reset.ending.first_reset
            messages = end.unacknowledged_messages
            if messages:
                what += f" of {messages} message{'' if messages == 1 else 's'}"
            by = "its peer" if reset is half.peer else "its sender"
            detail = f"{what} were not acknowledged when {by} reset the connection"
            mpa.findings.add("teardown-unacknowledged", role, frame, time, seq, detail)


def find_refused(half: Half, findings: Findings) -> None:
    """A TCP connection without MPA is over: was its SYN answered by a RST?"""
    client = half if half.origin is not None else half.peer
    reset = client.peer.ending.first_reset
    if client.origin is None or client.peer.origin is not None or reset is None or client.peer.ack != client.origin:
        return
    source, destination = endpoints(client.key)
    detail = f"{source} > {destination}: a SYN is answered with a RST"
    _, frame, time = reset
    count = client.peer.ending.resets
    findings.add("tcp-refused", None, frame, time, client.origin - 1 & SEQ_MASK, detail, count=count)
