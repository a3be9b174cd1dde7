"""RDMA Reads and Atomics: how many are under way at a time, and whether one is answered that came after an error.

A tap sees an answer before, or with, the side that asked: what is under way by its count is under way for certain
(RFC 6581 §9.1, RFC 7306 §4; RFC 5044 §8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.agreement import agreed

if TYPE_CHECKING:
    from scapy_mpa.receive.operation import FullOperation
    from scapy_mpa.receive.tcp import MPAConnection


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
        before = peer.requests_before_error
        if before >= 0 and operation.ddp.answers > before and not operation.ddp.losses:
            assert peer.first_error is not None
            detail = f"an answer to a request that came after the error of frame {peer.first_error[0]}"
            operation.find("error-passed", offset, frame, time, detail)


def watch_reads(mpa: MPAConnection) -> None:
    """Begin to watch the RDMA Reads of a connection, both of whose half connections are in Full Operation."""
    initiator, responder = mpa.operations["initiator"], mpa.operations["responder"]
    depths = None
    if mpa.request is not None and mpa.reply is not None:
        depths = agreed(mpa.request.startup, mpa.reply.startup).depths
    initiator.watch_reads(Reads(initiator, responder, depths.initiator_ord if depths is not None else None))
    responder.watch_reads(Reads(responder, initiator, depths.responder_ord if depths is not None else None))
