"""What two startup frames mean for Full Operation: versions, Markers, CRC, IRD and ORD, the RTR message.

These are the facts that ``negotiation`` (what two sides must send) and ``judgement`` (what two captured frames tell)
have in common: RFC 5044 §7.1.1, appendix C and RFC 6581 §9.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

from scapy_mpa.framing.legacy import stated_depths
from scapy_mpa.framing.profiles import Profile, profile_of_revision
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData, Kind, StartupFrame
from scapy_mpa.tuples import NamedTuple

#: Upgraded RDMAC RNIC, non-permissive IETF RNIC, permissive IETF RNIC (RFC 5044 appendix C.1).
RnicKind: TypeAlias = Literal["rdmac", "ietf", "ietf-permissive"]
RNIC_KINDS: tuple[RnicKind, ...] = ("rdmac", "ietf", "ietf-permissive")

#: A ready-to-receive message: a zero-length Send, RDMA Write or RDMA Read (RFC 6581 §9.2, flags B, C, D).
RtrType: TypeAlias = Literal["send", "write", "read"]
RTR_TYPES: tuple[RtrType, ...] = ("send", "write", "read")

#: DDP and RDMAP version on the wire, the same for both (RFC 5044 appendix C.1).
RDMAC_VERSION, IETF_VERSION = 0, 1
#: Rev of a frame that uses any enhanced feature (RFC 6581 §6).
MINIMUM_ENHANCED_REVISION = 2


class Close(NamedTuple):
    """The end of a connection that cannot work."""

    by: Role
    #: The frame on whose reception it closes.
    on: Kind
    #: RFC 5044 §8, RFC 6581 §8.
    code: int
    #: For ``profiles.clause``.
    topic: str
    reason: str
    #: The code is sent in a Terminate as the first FPDU; otherwise it is reported locally.
    terminate: bool = False
    #: It must come. False: it depends on what the frames do not show.
    certain: bool = True


class ReadDepths(NamedTuple):
    """IRD and ORD of each endpoint after negotiation; None is left to the ULP (RFC 6581 §9.1)."""

    initiator_ird: int | None
    initiator_ord: int | None
    responder_ird: int | None
    responder_ord: int | None


class Operation(NamedTuple):
    """Full Operation as it must be; None is what a frame that is missing would say."""

    profile: Profile
    #: DDP and RDMAP version, the same for both and in both directions; several if the frames leave it open.
    versions: tuple[int, ...]
    markers_from_initiator: bool | None
    markers_from_responder: bool | None
    crc: bool | None
    #: None if IRD and ORD were not exchanged.
    depths: ReadDepths | None
    #: The types, one of which must be the Initiator's first FPDU; None: no RTR message, () : none in common.
    rtr: tuple[RtrType, ...] | None


def rtr_types(enhanced: EnhancedData) -> tuple[RtrType, ...]:
    """Return the RTR types that Control Flags B, C and D name; none if A is 0, since they are then ignored (RFC 6581
    §9.2).
    """
    flags = (enhanced.b, enhanced.c, enhanced.d) if enhanced.a else (0, 0, 0)
    return tuple(name for name, flag in zip(RTR_TYPES, flags, strict=True) if flag)


def is_rdmac(frame: StartupFrame) -> bool:
    """The parameters an RDMAC RNIC, or a permissive IETF RNIC that acts as one, sends (RFC 5044 Figure 14)."""
    return frame.rev == 0 and bool(frame.m and frame.c)


def read_depths(request: EnhancedData, reply: EnhancedData) -> ReadDepths:
    """IRD and ORD as both endpoints must set them after an accepting Reply (RFC 6581 §9.1)."""
    initiator_ird, initiator_ord, responder_ird, responder_ord = (
        None if depth == NOT_NEGOTIATED else depth for depth in (request.ird, request.ord, reply.ird, reply.ord)
    )
    if initiator_ird is not None and responder_ord is not None:
        initiator_ird = max(initiator_ird, responder_ord)
    if initiator_ord is not None and responder_ird is not None:
        initiator_ord = min(initiator_ord, responder_ird)
    return ReadDepths(initiator_ird, initiator_ord, responder_ird, responder_ord)


@lru_cache(maxsize=64)
def agreed(request: StartupFrame | None, reply: StartupFrame | None, responder_port: int = 0) -> Operation:
    """Return what Full Operation must be after these frames, if neither endpoint closes. One of them may be None.

    The port of the Responder tells whether they may state IRD and ORD as SMB Direct did before RFC 6581.

    M rules what its sender receives, and C of either rules both directions (RFC 5044 §7.1.1). An IETF Initiator
    that continues after an RDMAC RNIC's Reply is a permissive one: it turns on Markers and CRC whatever its own
    Request said (appendix C.2.3, C.2.5, Figure 16).
    """
    last = reply or request
    if last is None:
        raise ValueError("neither a Request nor a Reply")
    adapts = request is not None and reply is not None and request.rev > 0 and is_rdmac(reply)
    crc = any(frame is not None and frame.c for frame in (request, reply))
    depths, rtr = None, None
    asked, answered = stated_depths(request, responder_port), stated_depths(reply, responder_port)
    if asked is not None and answered is not None:
        depths = read_depths(asked, answered)
        rtr = _common_rtr_types(asked, answered)
    return Operation(
        profile_of_revision(last.rev),
        _versions(last, may_be_rdmac=adapts or request is None or is_rdmac(request)),
        None if reply is None else bool(reply.m),
        None if request is None else adapts or bool(request.m),
        crc if crc or (request is not None and reply is not None) else None,
        depths,
        rtr,
    )


def _versions(last: StartupFrame, *, may_be_rdmac: bool) -> tuple[int, ...]:
    """DDP and RDMAP versions that go with the Reply, else the Request; ``may_be_rdmac``: as far as the Request says."""
    if last.rev > 0:
        return (IETF_VERSION,)
    # Rev 0 without M or C is no RNIC of Figure 14, and the drafts do not tie DDP's version to Rev.
    return (RDMAC_VERSION,) if is_rdmac(last) and may_be_rdmac else (RDMAC_VERSION, IETF_VERSION)


def _common_rtr_types(request: EnhancedData, reply: EnhancedData) -> tuple[RtrType, ...] | None:
    """The RTR types that both name, None if the model is not peer-to-peer (RFC 6581 §9.2)."""
    if not (request.a and reply.a):
        return None
    theirs = rtr_types(reply)
    return tuple(name for name in rtr_types(request) if name in theirs)


def no_matching_rtr() -> Close:
    """The Initiator has no RTR type that the Responder set (RFC 6581 §9.2)."""
    reason = "no RTR type is set in both the Request and the Reply"
    return Close("initiator", "reply", 7, "peer-to-peer", reason, terminate=True)
