"""What can be wrong with a Request, a Reply, their pair, and the first FPDU after them.

One function for each; ``judgement`` gathers them. Each ``Deviation`` has whose fault it is and an id, which is that of
a rule: ``scapy_mpa.rules`` has its clause, how grave it is and its error code. RFC 5044 §7.1.1 and §7.1.2; RFC 6581 §6,
§9 and §10.
"""

from __future__ import annotations

from scapy_mpa.framing.agreement import MINIMUM_ENHANCED_REVISION, Close, Operation, RtrType, is_rdmac
from scapy_mpa.framing.ddp import (
    TERMINATE_OPCODE,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
)
from scapy_mpa.framing.legacy import legacy_depths, stated_depths
from scapy_mpa.framing.profiles import profile_of_revision
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import (
    ERDMA_EXTENSION_LENGTH,
    ERDMA_REVISION,
    NOT_NEGOTIATED,
    EnhancedData,
    Problem,
    StartupFrame,
    startup_frame_problems,
)
from scapy_mpa.tuples import NamedTuple

_WRITE, _READ, _SEND = 0, 1, 3  # opcodes, RFC 5040 §4.2
_NEWEST_REVISION = 2
_LOCAL_CATASTROPHIC = 5
_READ_REQUEST_LENGTH = 28
_READ_SIZE = slice(UNTAGGED_HEADER_LENGTH + 12, UNTAGGED_HEADER_LENGTH + 16)


class Deviation(NamedTuple):
    """One fault; ``topic`` is what the clause is about, where the rule leaves it open."""

    id: str
    by: Role
    text: str
    topic: str = ""


class Seen(NamedTuple):
    """The first ULPDU that each endpoint sent in Full Operation, None if none was captured."""

    initiator: bytes | None = None
    responder: bytes | None = None


def rtr_type(ulpdu: bytes) -> RtrType | None:
    """Return the type of RTR message that a ULPDU is, or None: no payload, and no octets asked for (RFC 6581 §9.2).

    "Send" is taken as opcode 3; the Sends with Solicited Event or Invalidate are messages of their own.
    """
    ddp = decode_ddp(ulpdu)
    if ddp is None or not ddp.last:
        return None
    if isinstance(ddp, TaggedHeader):
        return "write" if ddp.opcode == _WRITE and not ddp.payload_length else None
    if ddp.opcode == _SEND and not ddp.payload_length:
        return "send"
    if ddp.opcode == _READ and ddp.payload_length >= _READ_REQUEST_LENGTH and not any(ulpdu[_READ_SIZE]):
        return "read"
    return None


def is_enhanced(frame: StartupFrame) -> bool:
    """Return True if S and Rev make it enhanced; the enhanced data may still be missing (RFC 6581 §6, §10)."""
    return bool(frame.s) and frame.rev >= MINIMUM_ENHANCED_REVISION


def problems_to(frame: StartupFrame, peer: StartupFrame | None) -> tuple[Problem, ...]:
    """Why ``peer``'s sender must call ``frame`` improperly formatted (RFC 5044 §7.1.2, rule 9)."""
    # The newer of the two specifications: a receiver of RFC 5044 takes 512 octets from a sender of the draft too,
    # and Rev 0 alone does not tell a draft's receiver, which would refuse Rev 1, from an upgraded RDMAC RNIC.
    profile = profile_of_revision(max(frame.rev, peer.rev if peer is not None else 0))
    return startup_frame_problems(frame, profile)


def frame_violations(frame: StartupFrame | None, by: Role, peer: StartupFrame | None) -> list[Deviation]:
    """Return what is wrong with a frame, whatever the other one is."""
    if frame is None:
        return []
    name = "Request" if by == "initiator" else "Reply"
    found = []
    if frame.kind != name.lower():
        text = f"the Key is that of a {frame.kind.capitalize()} where a {name} is expected"
        found.append(Deviation("startup-role", by, text))
    found += [Deviation(problem.rule, by, problem.text) for problem in problems_to(frame, peer)]
    if frame.res:
        known = f" ({frame.res_name})" if frame.res_name else ""
        found.append(Deviation("startup-reserved-bits", by, f"Res of the {name} is {frame.res:#04x}{known}"))
    if frame.s and frame.rev < MINIMUM_ENHANCED_REVISION:
        text = f"bit 0x10 (S) is set in a {name} of Rev {frame.rev}, where it is reserved"
        found.append(Deviation("startup-enhanced-revision", by, text))
    if frame.kind == "request" and frame.r:
        found.append(Deviation("startup-request-r", by, "R is set in a Request"))
    enhanced = frame.enhanced
    if enhanced is not None and not enhanced.a and (enhanced.b or enhanced.c or enhanced.d):
        text = f"Control Flags B, C or D are set in the {name} without A"
        found.append(Deviation("enhanced-control-flags", by, text))
    return found


def frame_remarks(frame: StartupFrame | None, by: Role) -> list[Deviation]:
    """Return what is worth a remark about a frame although it breaks nothing."""
    if frame is None:
        return []
    found = []
    if frame.rev == 0 and not is_rdmac(frame):
        text = f"Rev 0 with M={frame.m} C={frame.c}: an RDMAC RNIC sets both"
        found.append(Deviation("rnic-parameters", by, text))
    if frame.rev > _NEWEST_REVISION:
        known = f": erdma's, with {ERDMA_EXTENSION_LENGTH} octets of its own after the header"
        text = f"Rev {frame.rev}, which no specification defines" + (known if frame.rev == ERDMA_REVISION else "")
        found.append(Deviation("startup-revision", by, text))
    enhanced = frame.enhanced
    if enhanced is None:
        return found
    if by == "initiator" and enhanced.a and not (enhanced.b or enhanced.c or enhanced.d):
        # No clause forbids it, but no Reply can have a type in common with it.
        found.append(Deviation("rtr-none-offered", by, "A is set in the Request without an RTR type"))
    if by == "initiator" and not enhanced.a and enhanced.ird == enhanced.ord == NOT_NEGOTIATED:
        text = "an enhanced Request without A that leaves IRD and ORD to the ULP"
        found.append(Deviation("enhanced-unused", by, text))
    swapped = _other_order(enhanced.ird), _other_order(enhanced.ord)
    if all(swapped):
        text = (
            f"IRD {enhanced.ird} and ORD {enhanced.ord}, which would be {swapped[0]} and {swapped[1]} in the other "
            "byte order"
        )
        found.append(Deviation("ird-ord-byte-order", by, text))
    return found


def _other_order(depth: int) -> int:
    """A depth in the other byte order, 0 if none would be meant so: the low octet holds nothing but flags."""
    return depth >> 8 if depth & 0x3F == 0 and depth < NOT_NEGOTIATED else 0


def legacy_remarks(frame: StartupFrame | None, by: Role, responder_port: int) -> list[Deviation]:
    """Return what is worth a remark about the form in which SMB Direct peers stated IRD and ORD before RFC 6581."""
    depths = legacy_depths(frame, responder_port) if frame is not None else None
    if depths is None or depths.byte_order == "big":
        return []
    text = f"IRD {depths.ird} and ORD {depths.ord} of SMB Direct's older form are in little-endian order"
    return [Deviation("ird-ord-byte-order", by, text)]


class DepthDeviations(NamedTuple):
    """What a pair of frames breaks, and what is worth a remark."""

    violations: list[Deviation]
    remarks: list[Deviation]


def legacy_depth_deviations(request: StartupFrame, reply: StartupFrame, responder_port: int) -> DepthDeviations:
    """The rules of IRD and ORD, where either frame states them in the older form of SMB Direct."""
    older = any(legacy_depths(frame, responder_port) is not None for frame in (request, reply))
    asked, answered = stated_depths(request, responder_port), stated_depths(reply, responder_port)
    if not older or asked is None or answered is None or reply.r:
        return DepthDeviations([], [])
    return DepthDeviations(depth_violations(asked, answered), _depth_remarks(asked, answered))


def reply_violations(request: StartupFrame, reply: StartupFrame, close: Close | None) -> list[Deviation]:
    """Return what the Reply breaks, given the Request; ``close`` is how the Request alone must have ended."""
    found = []
    if close is not None:
        text = f"a Reply to an improperly formatted Request ({close.reason})"
        found.append(Deviation("startup-invalid-answered", "responder", text))
    if is_enhanced(request) != is_enhanced(reply):
        names = ("a plain Request", "an enhanced") if is_enhanced(reply) else ("an enhanced Request", "a plain")
        text = f"{names[0]} is answered by {names[1]} Reply"
        found.append(Deviation("enhanced-reply", "responder", text))
    if request.enhanced is not None and reply.enhanced is not None:
        found += _peer_to_peer(request.enhanced, reply.enhanced)
        if not reply.r:
            found += depth_violations(request.enhanced, reply.enhanced)
    return found


def reply_remarks(request: StartupFrame, reply: StartupFrame) -> list[Deviation]:
    """Return what is worth a remark about the Reply, given the Request, although it breaks nothing."""
    found = []
    if (request.rev == 0) != (reply.rev == 0):
        text = (
            f"Rev {request.rev} is answered by Rev {reply.rev}: one of them must be able to follow the other's revision"
        )
        found.append(Deviation("rnic-foreign-revision", "responder", text))
    elif request.rev != reply.rev:
        text = f"Rev {request.rev} is answered by Rev {reply.rev}"
        found.append(Deviation("startup-revision-differs", "responder", text))
    if request.enhanced is not None and reply.enhanced is not None and not reply.r:
        found += _depth_remarks(request.enhanced, reply.enhanced)
    return found


def _peer_to_peer(request: EnhancedData, reply: EnhancedData) -> list[Deviation]:
    """RFC 6581 §9.2."""
    if request.a != reply.a:
        text = f"Control Flag A is {request.a} in the Request and {reply.a} in the Reply"
        return [Deviation("enhanced-connection-model", "responder", text)]
    if reply.a and not (reply.b or reply.c or reply.d):
        text = "Control Flag A is set in the Reply without an RTR type"
        return [Deviation("rtr-none", "responder", text)]
    return []


def depth_violations(request: EnhancedData, reply: EnhancedData) -> list[Deviation]:
    """RFC 6581 §9.1. 0x3FFF is no depth: a Responder may leave to the ULP what the Initiator would negotiate."""
    found = []
    for name, asked, answer_name, answer in (
        ("ORD", request.ord, "IRD", reply.ird),
        ("IRD", request.ird, "ORD", reply.ord),
    ):
        if asked == NOT_NEGOTIATED != answer:
            text = f"{name} 0x3FFF in the Request is answered by {answer_name} {answer}, not 0x3FFF"
            found.append(Deviation("ird-ord-not-negotiated", "responder", text))
    if NOT_NEGOTIATED not in (request.ird, reply.ord) and reply.ord > request.ird:
        text = f"ORD {reply.ord} in the Reply is above IRD {request.ird} in the Request"
        found.append(Deviation("ird-ord-responder-ord", "responder", text))
    return found


def _depth_remarks(request: EnhancedData, reply: EnhancedData) -> list[Deviation]:
    found = []
    if NOT_NEGOTIATED not in (request.ord, reply.ird) and reply.ird < request.ord:
        text = f"IRD {reply.ird} in the Reply is below ORD {request.ord} in the Request, which is lowered to it"
        found.append(Deviation("ird-ord-responder-ird", "responder", text))
    if request.a and reply.a and request.d and reply.d and not reply.ird:
        text = "an RTR Read is agreed with an IRD of 0 in the Reply"
        found.append(Deviation("rtr-read-depth", "responder", text))
    return found


def operation_violations(
    close: Close | None, rejected: bool, operation: Operation | None, seen: Seen
) -> list[Deviation]:
    """Return what is wrong with how Full Operation begins, given the frames."""
    first = decode_ddp(seen.initiator) if seen.initiator is not None else None
    second = decode_ddp(seen.responder) if seen.responder is not None else None
    ends: tuple[tuple[Role, bytes | None, TaggedHeader | UntaggedHeader | None], ...] = (
        ("initiator", seen.initiator, first),
        ("responder", seen.responder, second),
    )
    found = []
    for by, ulpdu, header in ends:
        if ulpdu is not None:
            terminates = header is not None and header.opcode == TERMINATE_OPCODE
            found += _first_fpdu_violations(close, rejected, operation, by, ulpdu, terminates)
        if operation is not None and header is not None and not header.dv == header.rv in operation.versions:
            versions = " or ".join(map(str, operation.versions))
            text = f"DDP version {header.dv} and RDMAP version {header.rv}, not {versions}"
            found.append(Deviation("rnic-version", by, text))
    if first is not None and second is not None and first.dv != second.dv:
        text = f"DDP version {second.dv} answers DDP version {first.dv}"
        # Whoever has another version than was agreed on; else whoever came second.
        agreed_on = operation.versions if operation is not None else ()
        whose: Role = "initiator" if second.dv in agreed_on and first.dv not in agreed_on else "responder"
        found.append(Deviation("rnic-version-mixed", whose, text))
    return found


def _first_fpdu_violations(
    close: Close | None, rejected: bool, operation: Operation | None, by: Role, ulpdu: bytes, terminates: bool
) -> list[Deviation]:
    """Return what is wrong if an endpoint may not begin Full Operation, or begins it with the wrong FPDU."""
    if rejected:
        return [Deviation("startup-fpdu-after-rejection", by, "an FPDU after a Reply with R")]
    if close is not None and close.certain and close.by == by and not (close.terminate and terminates):
        text = f"an FPDU from the side that must close: {close.reason}"
        rule = "rtr-not-closed" if close.topic == "peer-to-peer" else "startup-not-closed"
        return [Deviation(rule, by, text)]
    if close is not None and close.by == by and close.terminate and terminates:
        return _terminate_violations(close, by, ulpdu)
    if operation is not None and by == "initiator" and operation.rtr and not terminates:
        sent = rtr_type(ulpdu)
        if sent not in operation.rtr:
            agreed = " or ".join(f"an RTR {one}" for one in operation.rtr)
            is_what = f"an RTR {sent}" if sent else "not an RTR message"
            text = f"the Initiator's first FPDU is {is_what}; it must be {agreed}"
            return [Deviation("rtr", by, text)]
    return []


def _terminate_violations(close: Close, by: Role, ulpdu: bytes) -> list[Deviation]:
    """RFC 6581 §8: what a Terminate has to say that ends the negotiation."""
    said = decode_terminate(ulpdu)
    # Code 5 is for errors of the endpoint itself, about which the frames say nothing.
    if said is None or (said.layer, said.etype, said.code) in ((2, 0, close.code), (2, 0, _LOCAL_CATASTROPHIC)):
        return []
    text = f"a Terminate with layer {said.layer}, type {said.etype} and code {said.code}, not code {close.code}"
    return [Deviation("terminate-code", by, f"{text}: {close.reason}", "enhanced-errors")]
