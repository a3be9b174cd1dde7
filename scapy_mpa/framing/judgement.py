"""What two captured startup frames show: the kinds of the endpoints, the required outcome, and what is wrong.

``judge`` takes the Request and the Reply, either of which may not have been captured, and the first ULPDU of each
direction if there was one. It states facts; which of them is an error is for the rules to say. A ``Deviation``
among the violations breaks a requirement; a remark breaks none, but decides whether the two can work together.

An RNIC's kind follows from Rev, M and C as far as RFC 5044 appendix C (informative) ties them together: an IETF
RNIC's Request has Rev 1 or above even if it is permissive (C.2.5), so only the answer to Rev 0, and what it
sends after a Reply of Rev 0, tell a permissive one from another. Rev 0 without M and C is no RNIC of Figure 14:
an implementation of the drafts, perhaps.
"""

from __future__ import annotations

from functools import lru_cache

from scapy_mpa.framing.agreement import (
    IETF_VERSION,
    RDMAC_VERSION,
    RNIC_KINDS,
    Close,
    Operation,
    RnicKind,
    agreed,
    is_rdmac,
    no_matching_rtr,
)
from scapy_mpa.framing.ddp import decode_ddp
from scapy_mpa.framing.deviations import (
    Deviation,
    Seen,
    depth_violations,
    frame_remarks,
    frame_violations,
    is_enhanced,
    legacy_depth_deviations,
    legacy_remarks,
    operation_violations,
    problems_to,
    reply_remarks,
    reply_violations,
)
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import Kind, StartupFrame
from scapy_mpa.tuples import NamedTuple


class Judgement(NamedTuple):
    """What is known about a pair of startup frames."""

    #: What it can be; none: no RNIC of RFC 5044 Figure 14 sends this.
    initiator_kinds: tuple[RnicKind, ...]
    responder_kinds: tuple[RnicKind, ...]
    #: The end that must come, or may where ``certain`` is False.
    close: Close | None
    rejected: bool
    #: What must come out otherwise; None after a rejection, a certain close, and without any frame.
    operation: Operation | None
    violations: tuple[Deviation, ...]
    remarks: tuple[Deviation, ...]

    @property
    def permitted(self) -> bool:
        """True if no requirement is broken."""
        return not self.violations


# Those of a thousand connections mostly say the same; few are kept, for a frame may have 64 KiB.
@lru_cache(maxsize=64)
def judge(
    request: StartupFrame | None, reply: StartupFrame | None, seen: Seen | None = None, responder_port: int = 0
) -> Judgement:
    """Judge what was captured of a Startup Phase, and of the beginning of Full Operation.

    RFC 5044 §7.1.1, §7.1.2 and appendix C; RFC 6581 §6, §9 and §10. ``responder_port`` is as ``agreed`` has it.
    """
    seen = seen or Seen()
    violations = [*frame_violations(request, "initiator", reply), *frame_violations(reply, "responder", request)]
    remarks = [*frame_remarks(request, "initiator"), *frame_remarks(reply, "responder")]
    remarks += [
        *legacy_remarks(request, "initiator", responder_port),
        *legacy_remarks(reply, "responder", responder_port),
    ]
    close = _invalid(request, reply, "responder") if request is not None else None
    if request is not None and reply is not None and (request.kind, reply.kind) == ("request", "reply"):
        violations += reply_violations(request, reply, close)
        remarks += reply_remarks(request, reply)
        older = legacy_depth_deviations(request, reply, responder_port)
        violations += older.violations
        remarks += older.remarks
    if reply is not None and close is None:
        close = _invalid(reply, request, "initiator")
    if request is not None and reply is not None and close is None:
        close = _incompatible(request, reply)
    rejected = reply is not None and reply.kind == "reply" and bool(reply.r)
    operation = None
    if (request is not None or reply is not None) and not rejected and not (close and close.certain):
        operation = agreed(request, reply, responder_port)
    violations += operation_violations(close, rejected, operation, seen)
    initiator_kinds, responder_kinds = rnic_kinds(request, reply)
    return Judgement(
        _kinds_that_speak(initiator_kinds, reply, seen.initiator),
        _kinds_that_speak(responder_kinds, request, seen.responder),
        close,
        rejected,
        operation,
        tuple(violations),
        tuple(remarks),
    )


def rnic_kinds(
    request: StartupFrame | None, reply: StartupFrame | None
) -> tuple[tuple[RnicKind, ...], tuple[RnicKind, ...]]:
    """Return what the Initiator and the Responder can be by their frames (RFC 5044 appendix C, Figures 14 to 16)."""
    initiator: tuple[RnicKind, ...] = RNIC_KINDS
    if request is not None:
        initiator = ("ietf", "ietf-permissive") if request.rev else ("rdmac",) if is_rdmac(request) else ()
    elif reply is not None and is_enhanced(reply):
        initiator = ("ietf", "ietf-permissive")
    if reply is None:
        return initiator, RNIC_KINDS
    if reply.rev:
        # A permissive Responder would have answered Rev 0 by Rev 0 (C.2.4).
        to_rdmac = request is not None and request.rev == 0
        return initiator, ("ietf",) if to_rdmac else ("ietf", "ietf-permissive")
    if not is_rdmac(reply):
        return initiator, ()
    # A permissive Responder answers Rev 1 by Rev 1.
    to_ietf = request is not None and request.rev > 0
    return initiator, ("rdmac",) if to_ietf else ("rdmac", "ietf-permissive")


def _invalid(frame: StartupFrame, peer: StartupFrame | None, receiver: Role) -> Close | None:
    """RFC 5044 §7.1.2, rules 2, 3, 5, 8 and 9: what must not be accepted by whoever received it."""
    expected: Role = "responder" if frame.kind == "request" else "initiator"
    on: Kind = "request" if receiver == "responder" else "reply"
    if expected != receiver:
        return Close(receiver, on, 4, "startup-rules", f"both endpoints are in {receiver.capitalize()} mode")
    problems = "; ".join(problem.text for problem in problems_to(frame, peer))
    return Close(receiver, on, 4, "startup-frame", problems) if problems else None


def _incompatible(request: StartupFrame, reply: StartupFrame) -> Close | None:
    """Return how valid frames must, or may, end."""
    if request.rev == 0 and reply.rev:
        reason = "a non-permissive IETF RNIC answers Rev 0 with Rev 1 before it closes"
        return Close("responder", "request", 4, "rnic-negotiation", reason, certain=False)
    if request.rev and reply.rev == 0:
        reason = "after Rev 0 in the Reply, an Initiator that is a non-permissive IETF RNIC closes"
        return Close("initiator", "reply", 4, "rnic-negotiation", reason, certain=False)
    if reply.r:
        return None
    if agreed(request, reply).rtr == ():
        return no_matching_rtr()
    if request.enhanced is not None and reply.enhanced is not None:
        if request.enhanced.a != reply.enhanced.a:
            # Code 7 is for the connection model too, but no clause says what the Initiator does with a Reply that
            # breaks the rule for A.
            reason = "the Request and the Reply have different connection models (Control Flag A)"
            return Close("initiator", "reply", 7, "peer-to-peer", reason, terminate=True, certain=False)
        short = [d for d in depth_violations(request.enhanced, reply.enhanced) if d.id == "ird-ord-responder-ord"]
        if short:
            reason = f"{short[0].text}, for which the Initiator may lack the resources"
            return Close("initiator", "reply", 6, "ird-ord", reason, terminate=True, certain=False)
    return None


def _kinds_that_speak(
    kinds: tuple[RnicKind, ...], peer: StartupFrame | None, ulpdu: bytes | None
) -> tuple[RnicKind, ...]:
    """Those of ``kinds`` that would send the DDP version of ``ulpdu`` to ``peer`` (RFC 5044 Figures 15 to 17)."""
    header = decode_ddp(ulpdu) if ulpdu is not None else None
    if header is None:
        return kinds
    permissive: tuple[int, ...] = (RDMAC_VERSION, IETF_VERSION)
    if peer is not None and (peer.rev or is_rdmac(peer)):
        permissive = (IETF_VERSION,) if peer.rev else (RDMAC_VERSION,)
    speaks = {"rdmac": (RDMAC_VERSION,), "ietf": (IETF_VERSION,), "ietf-permissive": permissive}
    return tuple(kind for kind in kinds if header.dv in speaks[kind])
