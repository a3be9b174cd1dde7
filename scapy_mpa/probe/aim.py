"""Has what a case says of tagged buffers name memory that the peer has, so that it reaches placement (RFC 5041 §5)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from scapy_mpa.catalogue.baseline import MIDDLE, OPENING
from scapy_mpa.catalogue.plan import Plan, Step
from scapy_mpa.craft.ulpdus import READ_REQUEST
from scapy_mpa.framing.ddp import (
    SEND_OPCODES,
    TAGGED_HEADER,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
)
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.probe.fitting import Unsupported
from scapy_mpa.ulp.tools import rping_header, rping_message

_NUMBERED = re.compile(r"(?P<by>\{by\}|initiator|responder) (?P<verb>write|send) (?P<octets>\d+)")
#: A TO below this counts from the beginning of a buffer; above it, what it is about is the number itself.
_SMALL = 1 << 32
_RDMA_WRITE = 0
#: What stands for that memory in a step that reads it.
NAMED = "source=0x4c495645,0"
_USUAL = MIDDLE[1]
_OPENING = OPENING[0]
#: What we name to rping's server: an STag, a Tagged Offset, octets.
_OUR_BUFFER = 0x5EED0100, 0x1000, 64
_INSTEAD = "{by} send 96"


class Live(NamedTuple):
    """Memory of the peer that may be written to: octets from a Tagged Offset on."""

    stag: int
    to: int
    octets: int


def aim(plan: Plan, live: Live | None, *, sends: bool = True) -> None:
    """Have RDMA Writes of the side go to this memory, and without ``sends`` its Sends of some octets too.

    Without any, that with which the valid connections end is a Send as long as it is.
    """
    if live is not None:
        plan.steps = [_aimed(step, live, sends) for step in plan.steps]
    else:
        if any(isinstance(step, str) and NAMED in step for step in plan.steps):
            raise Unsupported("no readable memory of the peer is known")
        plan.steps = [_INSTEAD if step == _USUAL else step for step in plan.steps]


def _aimed(step: Step, live: Live, sends: bool) -> Step:
    if isinstance(step, str) and NAMED in step:
        return step.replace(NAMED, f"source={live.stag},{live.to}")
    if isinstance(step, str):
        found = _NUMBERED.fullmatch(step)
        if found is None or (found["verb"] == "send" and sends) or found["by"] == "responder":
            return step
        return f"{found['by']} write {min(int(found['octets']), live.octets)} stag={live.stag} to={live.to}"
    if isinstance(step, tuple):
        return step
    header = decode_ddp(step)
    if not isinstance(header, TaggedHeader) or header.opcode != _RDMA_WRITE or not header.payload_length:
        return step
    to = header.to + live.to if header.to < _SMALL else header.to
    return TAGGED_HEADER.pack(step[0], step[1], live.stag, to & (1 << 64) - 1) + step[TAGGED_HEADER.size :]


def name_our_buffer(plan: Plan) -> bool:
    """Have the opening of an Initiator be the message by which rping's client names its source; whether it could be.

    rping's server reads that, and its Read Request names memory of its own.
    """
    if _OPENING not in plan.steps or plan.by != "initiator" or plan.fpdus.get((plan.by, 1)):
        return False
    at = plan.steps.index(_OPENING)
    plan.steps[at] = f"initiator send hex:{rping_message(*_OUR_BUFFER).hex()}"
    return True


def learned(ulpdus: Iterable[bytes]) -> Live | None:
    """The memory that an rping peer names: the server where its RDMA Read goes to, the client in its Send."""
    for ulpdu in ulpdus:
        header = decode_ddp(ulpdu)
        if not isinstance(header, UntaggedHeader):
            continue
        payload = ulpdu[UNTAGGED_HEADER_LENGTH:]
        if header.opcode == READ_REQUEST and (requests := read_requests(payload)):
            return Live(requests[0].sink_stag, requests[0].sink_to, requests[0].size)
        if header.opcode in SEND_OPCODES and (found := rping_header(payload, len(payload))) is not None and found.named:
            (named,) = found.named
            return Live(named.stag, named.to, named.length)
    return None
