"""What routers say of the path MTU of a half connection, and whether it fits (RFC 5044 §A.5.1, §9.1).

A path that takes less than before drops packets, and a router says so; the sender then cuts the FPDUs that it has into
smaller segments, which are not aligned any more, and makes smaller FPDUs.  Anyone can send such a message.  One that
quotes no octet under way is none of a router that dropped it, and hosts do not believe it (RFC 5927 §7.2): it is
reported, and explains nothing (:meth:`~scapy_mpa.watch.segments.SegmentWatches.explained`).
"""

from __future__ import annotations

from scapy_mpa.framing.role import ROLES as DIRECTIONS
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.infer.midstream import AwaitingInference
from scapy_mpa.receive.mpa import CapturedConnection
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.receive.startup import StartupPhase
from scapy_mpa.tcp.half import Half
from scapy_mpa.values.pathmtu import path_mtu_message
from scapy_mpa.values.segment import Segment


def see_path_mtu(half: Half, phase: StartupPhase | AwaitingInference | FullOperation, seg: Segment) -> None:
    """A message about a packet of ``half``, which was in this phase then, was captured."""
    message, end, ack = path_mtu_message(seg), _sent_end(phase), half.peer.ack
    if not message.unfit:
        if ack > 0 and seq_diff(seg.seq, ack) < 0:
            message = message._replace(unfit=f"the octet {seg.seq} that it quotes was acknowledged before")
        elif end is not None and seq_diff(seg.seq, end) >= 0:
            message = message._replace(unfit=f"the octet {seg.seq} that it quotes was not sent before")
    half.learn_path_mtu(message)


def _sent_end(phase: StartupPhase | AwaitingInference | FullOperation) -> int | None:
    """The sequence number behind what a half connection has sent, None if that is not known."""
    if isinstance(phase, FullOperation):
        stream = phase.reassembly
        # Where octets are missing, others may be postponed, farther on.
        return None if phase.has_hole else stream.seq_of(max(stream.next, stream.highest))
    if phase.waiting:
        last = phase.waiting.segments[-1]
        return last.seq + last.length
    if isinstance(phase, StartupPhase) and not phase.search.is_idle:
        return phase.search.reassembly.seq_of(phase.search.reassembly.highest)
    return None


def find_path_mtu(mpa: CapturedConnection) -> None:
    """At the end: report what routers said of either half connection."""
    for direction in DIRECTIONS:
        told = mpa.halves[direction].path_mtu
        if told is None:
            continue
        unfit = sum(bool(one.unfit) for one in told.kept)
        rest = f"; {unfit} of the first {len(told.kept)} such messages do not fit" if 0 < unfit < len(told.kept) else ""
        for one in told.kept:
            mpa.findings.add("path-mtu", direction, one.frame, one.time, one.seq, one.detail + rest)
        if told.last is not None:
            one = told.last
            mpa.findings.add("path-mtu", direction, one.frame, one.time, one.seq, one.detail, count=told.more)
