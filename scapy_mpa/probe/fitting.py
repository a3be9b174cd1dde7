"""Lays a case for the peer that it meets: its Markers, its CRC, its Rev and its depths in place of the catalogue's.

A case of the catalogue is a connection between two sides of which both are known.  Of a live peer the one startup frame
is what it sends; what the case sends of its own stays.  Where the frame does not leave room for what the case is about,
``Unsupported`` says why: the peer does not offer it, which is no fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from scapy_mpa.catalogue.case import Case
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.craft.setup import Setup
from scapy_mpa.craft.ulpdus import READ_REQUEST
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import opcode_of
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import ENHANCED_DATA_LENGTH, NOT_NEGOTIATED, EnhancedData, StartupFrame

_PLAIN = "rfc5044"
_ENHANCED = "rfc6581"
#: Octets of Private Data (RFC 5044 §7.1.1).
_MOST_PRIVATE_DATA = 512


class Unsupported(MPAError):
    """The peer does not offer what a case needs."""


@dataclass(frozen=True)
class Clean:
    """What a clean connection of ours sends, for peers that need more than the minimum.

    Attributes:
        private_data: of the ULP, in our startup frame.
        enhanced: RFC 6581's data in it; None: it is a plain one.
    """

    private_data: bytes = b""
    enhanced: EnhancedData | None = None


def plan_of(case: Case, clean: Clean, left: Repairable | None = None) -> Exchange:
    """The plan of a case, with what a clean connection says where the case says nothing else."""
    plan = case.plan(left)
    setup, side = plan.setup, ROLES.index(plan.by)
    if clean.private_data and "private_data" not in setup and setup.get("profile") != "culley-02":
        setup["private_data"] = _pair(setup.get("private_data", (b"", b"")), side, clean.private_data)
    is_plain = setup.get("profile", _PLAIN) == _PLAIN and "enhanced" not in setup and "rev" not in setup
    has_room = len(setup.get("private_data", (b"", b""))[side]) + ENHANCED_DATA_LENGTH <= _MOST_PRIVATE_DATA
    if clean.enhanced is not None and is_plain and has_room and plan.by == "initiator" and not _changes_frame(case):
        setup["profile"], setup["enhanced"] = _ENHANCED, (clean.enhanced._asdict(), None)
    return plan


def _changes_frame(case: Case) -> bool:
    """Return True if a case changes the startup frame itself."""
    return case.makes("fields", "key", "private-data", "frame-cut", "frame-followed", "instead")


def fit(plan: Exchange, frame: StartupFrame) -> None:
    """Change a plan for the startup frame that the peer has sent; raises Unsupported."""
    asked = Setup(**plan.setup)
    peer = peer_of(plan.by)
    side, theirs = ROLES.index(plan.by), ROLES.index(peer)
    _check(plan, asked, frame, peer)
    setup = plan.setup
    setup["m"] = _pair(asked.m, theirs, frame.m)
    setup["c"] = _pair(asked.c, theirs, frame.c)
    own = asked.startup(plan.by)
    rev, enhanced = own.rev, own.enhanced
    if plan.by == "responder":
        rev, enhanced = _reply(plan, asked, frame)
    setup["profile"] = _ENHANCED if max(rev, frame.rev) > 1 else "rddp-01" if frame.rev == 0 else _PLAIN
    setup["rev"] = (rev, frame.rev) if side == 0 else (frame.rev, rev)
    both: tuple[Any, Any] = (_said(enhanced), _said(frame.enhanced))
    setup["enhanced"] = both if side == 0 else both[::-1]
    setup["private_data"] = _pair(asked.private_data, theirs, frame.ulp_data)


def _said(enhanced: EnhancedData | None) -> dict[str, int] | bool:
    return False if enhanced is None else enhanced._asdict()


def _check(plan: Exchange, asked: Setup, frame: StartupFrame, peer: Role) -> None:
    """Return True if the peer offers what the case needs."""
    expected = asked.startup(peer)
    if frame.r and not asked.reject:
        raise Unsupported("the peer rejects the connection (R in its Reply)")
    if asked.reject and plan.by == "initiator" and not frame.r:
        raise Unsupported("the peer accepts the connection, but a rejection is needed")
    if asked.has_markers(plan.by) and not frame.m and asked.m[ROLES.index(peer)]:
        raise Unsupported("the peer asks for no Markers (M)")
    if any(told is not None for told in asked.markers) and bool(frame.m) != bool(expected.m):
        raise Unsupported("the peer asks for Markers (M)" if frame.m else "the peer asks for no Markers (M)")
    if not asked.crc and frame.c:
        raise Unsupported("the peer asks for CRCs (C)")
    if asked.profile == "rddp-01" and frame.rev:
        raise Unsupported(f"the peer speaks Rev {frame.rev}, not 0")
    ours, theirs = asked.enhanced_of(plan.by), asked.enhanced_of(peer)
    if theirs is None or ours is None:
        return
    if frame.enhanced is None:
        raise Unsupported("the peer does not use RFC 6581")
    if bool(frame.enhanced.a) != bool(theirs.a):
        raise Unsupported("the peer has a different connection model (A of RFC 6581)")
    if plan.by == "initiator":
        _check_answer(plan, ours, theirs, frame.enhanced)


def _types(enhanced: EnhancedData) -> set[str]:
    return {flag for flag in "bcd" if getattr(enhanced, flag)}


def _check_answer(plan: Exchange, ours: EnhancedData, expected: EnhancedData, found: EnhancedData) -> None:
    """Return True if the enhanced data of a Reply is such that the case is about the same."""
    if ours.a and bool(_types(ours) & _types(expected)) != bool(_types(ours) & _types(found)):
        some = _types(ours) & _types(found)
        raise Unsupported(
            "the peer offers a type of RTR message that we have" if some else "the peer offers no type of RTR message"
        )
    asks = any(isinstance(step, bytes) and opcode_of(step) == READ_REQUEST for step in plan.steps)
    if asks and not ours.a and found.ird != expected.ird:
        raise Unsupported(f"the peer's IRD is {found.ird}, but {expected.ird} is needed")


def _reply(plan: Exchange, asked: Setup, frame: StartupFrame) -> tuple[int, EnhancedData | None]:
    """Rev and enhanced data of the Reply to a live Request, as the case has it."""
    own, expected = asked.startup("responder"), asked.startup("initiator")
    is_about_rev = own.rev != expected.rev
    if is_about_rev and frame.rev != expected.rev:
        raise Unsupported(f"the peer's Rev is {frame.rev}, but {expected.rev} is needed")
    rev = own.rev if is_about_rev else frame.rev
    asks, answers = expected.enhanced, own.enhanced
    found = frame.enhanced
    if asks is None and answers is not None and found is not None:
        raise Unsupported("the peer's Request is enhanced, but a plain one is needed")
    if asks is None:
        if found is None or answers is not None:
            return rev, answers
        _keep_enhanced(plan, answer_to(found))
        return rev, answer_to(found)
    if found is None:
        raise Unsupported("the peer's Request does not use RFC 6581")
    if answers is None:
        return rev, None
    return rev, _related(asks, answers, found)


def answer_to(asked: EnhancedData) -> EnhancedData:
    """The Reply's data that agrees to all that a Request asks for."""
    return asked._replace(ird=asked.ord, ord=asked.ird)


def _related(asks: EnhancedData, answers: EnhancedData, found: EnhancedData) -> EnhancedData:
    """Data that is to what a live Request says as the case's Reply is to the case's Request."""
    types = _types(answers)
    if types and not types & _types(asks):
        types = set("bcd") - _types(found)
        if not types:
            raise Unsupported("the peer offers every type of RTR message")
    elif types:
        types &= _types(found)
        if not types:
            raise Unsupported("the peer does not offer that type of RTR message")
    ird = _depth(asks.ord, answers.ird, found.ord, "ORD")
    order = _depth(asks.ird, answers.ord, found.ird, "IRD")
    return EnhancedData(answers.a, int("b" in types), int("c" in types), int("d" in types), ird, order)


def _depth(asked: int, answered: int, found: int, name: str) -> int:
    """A depth that is to a live one as that of the case's Reply is to that of its Request."""
    if (asked == NOT_NEGOTIATED) != (found == NOT_NEGOTIATED):
        says = "leaves it to the ULP" if found == NOT_NEGOTIATED else f"is {found}"
        raise Unsupported(f"the peer's {name} {says}")
    if NOT_NEGOTIATED in (asked, answered):
        return answered
    depth = found + answered - asked if answered else 0
    if not 0 <= depth < NOT_NEGOTIATED:
        raise Unsupported(f"the peer's {name} is {found}, which leaves the case no other value")
    return depth


def _keep_enhanced(plan: Exchange, answer: EnhancedData) -> None:
    """Have the Reply begin with enhanced data whatever Private Data the case gives it."""
    octets = answer.encode()

    def change(frame: StartupFrame) -> StartupFrame:
        if frame.private_data.startswith(octets):
            return frame
        if len(frame.private_data) < ENHANCED_DATA_LENGTH:
            raise Unsupported("the peer's Request is enhanced, so the Reply needs four octets of Private Data")
        return frame._replace(private_data=octets + frame.private_data[ENHANCED_DATA_LENGTH:])

    plan.startup.append((plan.by, change))


def _pair(values: Any, side: int, value: Any) -> tuple[Any, Any]:
    return (value, values[1]) if side == 0 else (values[0], value)
