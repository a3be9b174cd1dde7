"""The required outcome of the Startup Phase: two sides' properties in, frames and Full Operation, or a close, out.

``negotiate`` follows RFC 5044 §7.1 and §8, its appendix C (RDMAC and IETF RNICs; informative) and RFC 6581 §6 to
§10. ``agreement`` says what the frames then mean, ``judgement`` what frames that were captured tell. Where a
specification leaves a choice, ``Side`` has a field for it.  What one side does is there by itself, for whoever meets a
peer of which nothing is known but its frame: ``request_of``, ``responder_closes``, ``rejection_by``, ``reply_to``,
``initiator_closes``, ``rtr_choice``.

Choices made where the text can be read in more than one way:

* Appendix C.2.1 has the non-permissive Responder answer an RDMAC RNIC with its own Rev and then close; §7.1.1
  only asks for the close. ``Side.replies_before_close`` chooses. R stays 0 in that Reply, as R tells what the ULP
  thinks of the Private Data (§7.1.1), and neither clause names an error code: code 4 (§8) is the nearest.
* RFC 6581 §9.1 has both a SHOULD and a MUST for Responder ORD <= Initiator IRD: taken as MUST. It calls
  Responder IRD >= Initiator ORD what holds "for successful negotiations" and yet has the Initiator lower its
  ORD to the Responder's IRD: taken as the values after that, so that a lower IRD in a Reply is no breach.
* RFC 6581 §9.1 asks for code 6 "in the TERM message" also where the Responder rejects by R, which carries no
  code: there the Reply with R, and the ORD that is required in it, is all that is seen.
* RFC 6581 §9.2 obliges the Responder to set one type if it supports "more than one" that the Initiator has;
  with exactly one the sentence is silent. Taken as one or more.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from scapy_mpa.framing.agreement import (
    MINIMUM_ENHANCED_REVISION,
    RTR_TYPES,
    Close,
    Operation,
    RnicKind,
    RtrType,
    agreed,
    no_matching_rtr,
)
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData, StartupFrame, startup_frame, startup_frame_problems
from scapy_mpa.tuples import NamedTuple

#: Why R is set: the ULP, or an Initiator IRD that is too low.
Rejection: TypeAlias = Literal["ulp", "ird"]


class Side(NamedTuple):
    """What one endpoint is, wants and may do. The defaults are a non-permissive IETF RNIC that asks for nothing."""

    #: For an RDMAC RNIC, M, C, revision and enhanced are Figure 14's, whatever is given here.
    kind: RnicKind = "ietf"
    m: int = 0
    c: int = 0
    #: The highest Rev it speaks, 1 or above; an Initiator sends it.
    revision: int = 1
    #: None: no RFC 6581. ``ird`` is the most it can hold, ``ord`` what its ULP wants; ``b``, ``c``, ``d`` are the RTR
    #: types it supports. ``a`` is the Initiator's wish, and of no meaning in a Responder. Needs revision 2.
    enhanced: EnhancedData | None = None
    #: The ULP's own, without enhanced data.
    private_data: bytes = b""

    # An Initiator's choices.
    #: Which of the common RTR types it sends is for it alone to choose (RFC 6581 §1.1).
    rtr_preference: tuple[RtrType, ...] = ("write", "read", "send")
    #: The IRD it still can provide when the Reply arrives; None: what it said (RFC 6581 §9.1).
    ird_resources: int | None = None

    # A Responder's choices.
    #: Its ULP does not accept the Private Data (RFC 5044 §7.1.2, rules 2 and 6).
    rejects: bool = False
    #: Its ULP cannot do with a lower ORD, so it rejects: MAY (RFC 6581 §9.1).
    requires_ord: bool = False
    #: It gives an IRD of 1 for an RTR Read although the Initiator's ORD is 0: MAY (RFC 6581 §9.1).
    raises_ird: bool = True
    #: It interoperates with a plain Request of a Rev above its own (RFC 5044 §7.1.1).
    accepts_newer: bool = True
    #: It tells an RDMAC RNIC its own Rev before it closes (RFC 5044 appendix C.2.1).
    replies_before_close: bool = True

    #: It is not in Figure 14, but an implementation of draft-ietf-rddp-mpa-01: it sends Rev 0, with the M and C given
    #: here, and takes no other Rev (§6.1.1 of the draft).
    is_draft: bool = False

    @property
    def enhances(self) -> bool:
        """True if it supports enhanced RDMA connection establishment."""
        knows = self.kind != "rdmac" and not self.is_draft and self.revision >= MINIMUM_ENHANCED_REVISION
        return knows and self.enhanced is not None


class NegotiationOutcome(NamedTuple):
    """What must be seen between two sides."""

    request: StartupFrame
    reply: StartupFrame | None
    close: Close | None
    #: R is set: MPA ends, and the TCP connection stays open for the ULP (RFC 5044 §7.1.2).
    rejected: Rejection | None
    #: None after a close and a rejection.
    operation: Operation | None
    #: The RTR message that the Initiator sends as its first FPDU.
    rtr: RtrType | None
    #: The plain Request with which the Initiator MAY try again on a new connection (RFC 6581 §10).
    retry: StartupFrame | None


def negotiate(initiator: Side, responder: Side) -> NegotiationOutcome:
    """The frames, and Full Operation or the end, that must come of two sides that follow the specifications.

    Raises FramingError if an IRD or ORD of ``enhanced`` does not fit 14 bits.
    """
    request = request_of(initiator)
    close = responder_closes(request, responder)
    if close is not None:
        reply = reply_before_close(close, responder)
        retry = request_again(initiator) if request.s and close.topic == "interoperability" else None
        return NegotiationOutcome(request, reply, close, None, None, None, retry)
    rejected = rejection_by(request, responder)
    reply = reply_to(request, responder, rejected)
    close = initiator_closes(request, reply, initiator)
    if close is not None or rejected is not None:
        return NegotiationOutcome(request, reply, close, None if close else rejected, None, None, None)
    operation = agreed(request, reply)
    return NegotiationOutcome(request, reply, None, None, operation, rtr_choice(operation, initiator), None)


# --- an Initiator ---


def request_of(side: Side) -> StartupFrame:
    """The Request that this side sends (RFC 5044 §7.1.2, rule 1; RFC 6581 §9)."""
    if side.is_draft:
        return startup_frame("request", m=side.m, c=side.c, rev=0, private_data=side.private_data)
    if side.kind == "rdmac":
        return startup_frame("request", m=1, c=1, rev=0, private_data=side.private_data)
    enhanced = side.enhanced if side.enhances else None
    if enhanced is not None and not enhanced.a:
        enhanced = enhanced._replace(b=0, c=0, d=0)
    return startup_frame(
        "request", m=side.m, c=side.c, rev=max(1, side.revision), private_data=side.private_data, enhanced=enhanced
    )


def request_again(side: Side) -> StartupFrame:
    """The plain Request with which it may try again on a new connection (RFC 6581 §10)."""
    return startup_frame("request", m=side.m, c=side.c, private_data=side.private_data)


def initiator_closes(request: StartupFrame, reply: StartupFrame, side: Side) -> Close | None:
    """Return why this side, which sent the Request, closes when it has the Reply; None if it does not."""
    problems = _problems(reply, side)
    if problems:
        return Close("initiator", "reply", 4, "startup-frame", problems)
    if reply.rev == 0 and side.kind == "ietf" and not side.is_draft:
        reason = "a non-permissive IETF RNIC cannot speak an RDMAC RNIC's DDP and RDMAP version 0"
        return Close("initiator", "reply", 4, "rnic-negotiation", reason)
    if reply.rev and side.kind == "rdmac":
        reason = "an RDMAC RNIC cannot speak an IETF RNIC's DDP and RDMAP version 1"
        return Close("initiator", "reply", 4, "rnic-negotiation", reason)
    if reply.r:
        return None
    operation = agreed(request, reply)
    needed = operation.depths.responder_ord if operation.depths else None
    if needed is not None and side.ird_resources is not None and side.ird_resources < needed:
        reason = f"the Initiator has resources for an IRD of {side.ird_resources}, and the Responder's ORD is {needed}"
        return Close("initiator", "reply", 6, "ird-ord", reason, terminate=True)
    if operation.rtr == ():
        return no_matching_rtr()
    return None


def rtr_choice(operation: Operation, side: Side) -> RtrType | None:
    """The RTR message that this side sends as Initiator, None if there is none to send (RFC 6581 §9.2)."""
    return next((name for name in (*side.rtr_preference, *RTR_TYPES) if name in (operation.rtr or ())), None)


# --- a Responder ---


def responder_closes(request: StartupFrame, side: Side) -> Close | None:
    """Whether this side closes when it has the Request, and why."""
    problems = _problems(request, side)
    if problems:
        return Close("responder", "request", 4, "startup-frame", problems)
    if side.is_draft:
        return None
    # To older revisions the bit is reserved, and not examined.
    if request.s and request.rev >= MINIMUM_ENHANCED_REVISION and not side.enhances:
        reason = "an enhanced Request counts as improperly formatted for a Responder without RFC 6581"
        return Close("responder", "request", 4, "interoperability", reason)
    if request.rev == 0 and side.kind == "ietf":
        reason = "a non-permissive IETF RNIC cannot speak an RDMAC RNIC's DDP and RDMAP version 0"
        return Close("responder", "request", 4, "rnic-negotiation", reason)
    if side.kind != "rdmac" and request.rev > max(1, side.revision) and not side.accepts_newer:
        reason = f"Rev {request.rev} is above the Responder's {side.revision}"
        return Close("responder", "request", 4, "startup-frame", reason)
    return None


def reply_before_close(close: Close, side: Side) -> StartupFrame | None:
    """Return the Reply that tells an RDMAC RNIC this side's own Rev before it closes (RFC 5044 appendix C.2.1), or
    None.
    """
    if close.topic != "rnic-negotiation" or side.kind != "ietf" or not side.replies_before_close:
        return None
    return startup_frame("reply", m=side.m, c=side.c, private_data=side.private_data)


def rejection_by(request: StartupFrame, side: Side) -> Rejection | None:
    """Why this side answers the Request with R, None if it does not."""
    if side.rejects:
        return "ulp"
    return "ird" if side.requires_ord and _ird_is_short(request, side) else None


def reply_to(request: StartupFrame, side: Side, rejected: Rejection | None) -> StartupFrame:
    """The Reply with which this side answers a Request that it does not close on."""
    r = 1 if rejected else 0
    if side.is_draft:
        return startup_frame("reply", m=side.m, c=side.c, r=r, rev=0, private_data=side.private_data)
    if side.kind == "rdmac" or request.rev == 0:
        # A permissive RNIC never answers an RDMAC one with M=0: the N/A of Figure 16.
        return startup_frame("reply", m=1, c=1, r=r, rev=0, private_data=side.private_data)
    enhanced = None
    if request.enhanced is not None and side.enhanced is not None:
        enhanced = _enhanced_reply(request.enhanced, side, rejected)
    return startup_frame(
        "reply",
        m=side.m,
        c=side.c,
        r=r,
        rev=max(1, min(request.rev, side.revision)),
        private_data=side.private_data,
        enhanced=enhanced,
    )


def _enhanced_reply(asked: EnhancedData, side: Side, rejected: Rejection | None) -> EnhancedData:
    assert side.enhanced is not None
    own = side.enhanced
    a = asked.a
    b, c, d = (own.b, own.c, own.d) if a else (0, 0, 0)
    if a and not (b or c or d):
        b = 1  # Whoever supports enhanced establishment supports one type at least (RFC 6581 §9.2).
    ird = min(asked.ord, own.ird)
    if own.ird and not asked.ord and asked.d and d and side.raises_ird:
        ird = 1
    if asked.ord == NOT_NEGOTIATED or own.ird == NOT_NEGOTIATED:
        ird = NOT_NEGOTIATED
    ord_ = own.ord if rejected == "ird" else min(asked.ird, own.ord)
    if asked.ird == NOT_NEGOTIATED or own.ord == NOT_NEGOTIATED:
        ord_ = NOT_NEGOTIATED
    return EnhancedData(a, b, c, d, ird, ord_)


def _ird_is_short(request: StartupFrame, side: Side) -> bool:
    if request.enhanced is None or side.enhanced is None:
        return False
    depths = request.enhanced.ird, side.enhanced.ord
    return NOT_NEGOTIATED not in depths and depths[0] < depths[1]


def _problems(frame: StartupFrame, side: Side) -> str:
    """Why a receiver calls a frame improperly formatted; "" if it does not.

    An RDMAC RNIC's frames are read and written for it by what knows RFC 5044 (appendix C.1), and a frame made here
    always has room for its enhanced data, so RFC 5044's rules serve for all but an implementation of the draft.
    """
    profile = PROFILES["rddp-01" if side.is_draft else "rfc5044"]
    return "; ".join(problem.text for problem in startup_frame_problems(frame, profile))
