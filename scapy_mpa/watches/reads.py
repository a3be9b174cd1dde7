"""RDMA Reads and Atomics under way, and answers to those requested after an error (RFC 6581 §9.1, RFC 5044 §8).

In: FPDUs of both directions, each in stream order.  A tap captures an answer before its requester gets it, or with it:
so what is outstanding by frames is certainly outstanding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scapy_mpa.framing.requests import names_of_requests
from scapy_mpa.receiver.values import Breach, LocatedFPDU
from scapy_mpa.watches.fpdus import FPDUWatch
from scapy_mpa.watches.outstanding import Outstanding

#: Requests that are remembered as too many until their number is certain: a bound of memory.
MOST_DOUBTFUL: Final = 64
#: RDMA Read Response, Atomic Response.
_ANSWERS = (2, 11)


class ReadWatch:
    """The RDMA Reads and Atomics that one direction requests and the other one answers.

    Args:
        requester: FPDUs of the direction that requests.
        responder: FPDUs of the direction that answers.
        depth: ORD of the requester after the negotiation, None if that was not exchanged.
        is_known: whether both directions are read from their first FPDU on.

    Attributes:
        outstanding: which Requests wait for which answers.
    """

    __slots__ = (
        "_answers", "_depth", "_doubtful", "_opcodes", "_requests", "outstanding", "requester", "responder",
    )  # fmt: skip

    def __init__(self, requester: FPDUWatch, responder: FPDUWatch, depth: int | None, is_known: bool = False) -> None:
        self.requester = requester
        self.responder = responder
        self.outstanding = Outstanding(requester.ddp, responder.ddp, is_known)
        self._depth = depth
        self._requests = self._answers = 0
        #: Opcodes of the requests.
        self._opcodes: set[int] = set()
        #: Requests beyond the depth, and how many were under way by the answers passed so far.
        self._doubtful: list[tuple[LocatedFPDU, int]] = []

    @property
    def has_new_requests(self) -> bool:
        """True if the requester sent requests since :meth:`requested` was asked."""
        return self.requester.ddp.requests != self._requests

    def requested(self, fpdu: LocatedFPDU, has_hole: bool) -> Sequence[Breach]:
        """An FPDU of the requester was passed; ``has_hole``: octets of the responder are missing, an answer perhaps."""
        ddp = self.requester.ddp
        if ddp.requests == self._requests:
            return ()
        self._requests = ddp.requests
        self._opcodes.add(fpdu.opcode)
        under_way = ddp.requests - self._answers
        if self._depth is None or under_way <= self._depth or has_hole or ddp.losses or self.responder.ddp.losses:
            return ()
        self._doubtful.append((fpdu.replace(octets=memoryview(b"")), under_way))
        return self._certain(1) if len(self._doubtful) > MOST_DOUBTFUL else ()

    def answered(self, fpdu: LocatedFPDU) -> Sequence[Breach]:
        """An FPDU of the responder was passed; return what the requester broke before it."""
        answers = self.responder.ddp.answers
        if answers == self._answers:
            return ()
        self._answers = answers
        if self._depth is None or not self._doubtful:
            return ()
        # Later answers are captured later: of requests before this one nothing more is learnt.
        came = fpdu.frames[0]
        found = self._certain(len([one for one, _ in self._doubtful if one.known[0] < came]))
        self._doubtful = [(one, count - 1) for one, count in self._doubtful if count - 1 > self._depth]
        return found

    def answer_after_error(self, fpdu: LocatedFPDU) -> Sequence[Breach]:
        """Judge the responder's FPDU that :meth:`answered` got."""
        error, ddp = self.requester.first_error, self.responder.ddp
        if error is None or fpdu.opcode not in _ANSWERS or fpdu.known[0] < error[0] or ddp.losses:
            return ()
        if ddp.answers <= self.requester.requests_before_error:
            return ()
        detail = f"an answer to a request that came after the error of frame {error[0]}"
        return (Breach("error-passed", fpdu.offset, *fpdu.known, detail),)

    def _certain(self, count: int) -> list[Breach]:
        certain, self._doubtful = self._doubtful[:count], self._doubtful[count:]
        return [
            Breach(
                "ird-ord-exceeded", one.offset, *one.known,
                f"{under_way} {names_of_requests(self._opcodes)} outstanding, with an ORD of {self._depth}",
            )
            for one, under_way in certain
        ]  # fmt: skip

    def finish(self) -> Sequence[Breach]:
        """Finish: nothing follows, so doubtful Requests were not answered."""
        return self._certain(len(self._doubtful))
