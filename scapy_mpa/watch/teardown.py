"""What both directions show together: RDMA Reads under way, and how a connection ended (RFC 5044 §7.2, §8).

RDMA Reads and Atomics: how many are under way at a time, and whether one is answered that came after an error.  A tap
sees an answer before, or with, the side that asked: what is under way by its count is under way for certain
(RFC 6581 §9.1, RFC 7306 §4; RFC 5044 §8).
"""

from __future__ import annotations

from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.role import Role as Direction
from scapy_mpa.receive.mpa import CapturedConnection
from scapy_mpa.receive.operation import FullOperation
from scapy_mpa.watch.pathmtu import find_path_mtu

PEER: dict[Direction, Direction] = {"initiator": "responder", "responder": "initiator"}


def find_end(mpa: CapturedConnection) -> None:
    """Report how the connection ended, nothing more coming."""
    for direction, peer in PEER.items():
        _find_reset(mpa, direction)
        _find_close(mpa, direction, peer)
    find_path_mtu(mpa)


def _find_reset(mpa: CapturedConnection, direction: Direction) -> None:
    half, operation = mpa.halves[direction], mpa.operations.get(direction)
    if operation is None or half.rst is None or half.fin is not None:
        return
    if any(one.ddp.terminated or one.first_error is not None for one in mpa.operations.values()):
        return  # there was nothing left to be read
    seq, frame, time = half.rst
    mpa.findings.add("teardown-reset", direction, frame, time, seq, "RST without a FIN before it")


def _find_close(mpa: CapturedConnection, direction: Direction, peer: Direction) -> None:
    """The receiver of what ``peer`` sent, ``direction``, noticed an error: what did it say?"""
    sent, answers = mpa.operations.get(peer), mpa.operations.get(direction)
    half = mpa.halves[direction]
    end = half.fin or half.rst
    if sent is None or sent.first_error is None or answers is None or end is None:
        return
    seq, frame, time = end
    if frame <= sent.first_error[0] or answers.ddp.terminated or answers.gapped:
        return
    how = "FIN" if half.fin is not None else "RST"
    detail = f"{how} after the error of frame {sent.first_error[0]}, without a Terminate"
    mpa.findings.add("error-closed", direction, frame, time, seq, detail)


class Reads:
    """The RDMA Reads of one direction: what ``operation`` asks ``peer`` for, and answers itself.

    ``depth`` is its ORD after the negotiation, None if that was not exchanged.
    """

    __slots__ = ("_depth", "_operation", "_peer")

    def __init__(self, operation: FullOperation, peer: FullOperation, depth: int | None) -> None:
        self._operation = operation
        self._peer = peer
        self._depth = depth

    def asked(self, offset: int, frame: int, time: int) -> None:
        """An RDMA Read or Atomic Request was sent."""
        operation, peer = self._operation, self._peer
        if self._depth is None or peer.has_hole or operation.ddp.losses or peer.ddp.losses:
            return
        under_way = operation.ddp.requests - peer.ddp.answers
        if under_way > self._depth:
            detail = f"{under_way} RDMA Reads under way, with an ORD of {self._depth}"
            operation.find("ird-ord-exceeded", offset, frame, time, detail)

    def answered(self, offset: int, frame: int, time: int) -> None:
        """An RDMA Read or Atomic was answered."""
        operation, peer = self._operation, self._peer
        peer.keep_up()
        before, error = peer.requests_before_error, peer.first_error
        if error is None or frame < error[0]:
            return  # of a sender that is known to deviate, its error may show later
        if 0 <= before < operation.ddp.answers and not operation.ddp.losses:
            detail = f"an answer to a request that came after the error of frame {error[0]}"
            operation.find("error-passed", offset, frame, time, detail)


def watch_reads(mpa: CapturedConnection) -> None:
    """Begin to watch the RDMA Reads of a connection, both of whose half connections are in Full Operation.

    What a sender that deviates asks for and answers is not watched: an analysis, which finds out later that it does,
    reads it when the other half connection is further on.
    """
    initiator, responder = mpa.operations["initiator"], mpa.operations["responder"]
    depths = None
    if mpa.request is not None and mpa.reply is not None:
        depths = agreed(mpa.request.startup, mpa.reply.startup, mpa.responder_port).depths
    if initiator.diagnosis is None:
        initiator.watch_reads(Reads(initiator, responder, depths.initiator_ord if depths is not None else None))
    if responder.diagnosis is None:
        responder.watch_reads(Reads(responder, initiator, depths.responder_ord if depths is not None else None))
