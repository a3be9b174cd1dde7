"""Has what a case says of tagged buffers name memory that the peer has, so that it reaches placement (RFC 5041 §5)."""

from __future__ import annotations

import re
from typing import NamedTuple

from scapy_mpa.catalogue.baseline import MIDDLE
from scapy_mpa.catalogue.plan import Plan, Step
from scapy_mpa.framing.ddp import TAGGED_HEADER, TaggedHeader, decode_ddp
from scapy_mpa.probe.fitting import Unsupported

_WRITE = re.compile(r"^(\{by\}|initiator|responder) write\b(?!.*stag=0\b)")
#: A TO below this counts from the beginning of a buffer; above it, what it is about is the number itself.
_SMALL = 1 << 32
_RDMA_WRITE = 0
#: What stands for that memory in a step that reads it.
NAMED = "source=0x4c495645,0"
_USUAL = MIDDLE[1]
_INSTEAD = "{by} send 96"


class Live(NamedTuple):
    """Memory of the peer that may be written to: octets from a Tagged Offset on."""

    stag: int
    to: int
    octets: int


def aim(plan: Plan, live: Live | None) -> None:
    """Have RDMA Writes of the side go to this memory.

    Without any, that with which the valid connections end is a Send as long as it is.
    """
    if live is not None:
        plan.steps = [_aimed(step, live) for step in plan.steps]
    else:
        if any(isinstance(step, str) and NAMED in step for step in plan.steps):
            raise Unsupported("no memory of the peer is known that could be read")
        plan.steps = [_INSTEAD if step == _USUAL else step for step in plan.steps]


def _aimed(step: Step, live: Live) -> Step:
    if isinstance(step, str) and NAMED in step:
        return step.replace(NAMED, f"source={live.stag},{live.to}")
    if isinstance(step, str):
        return f"{step} stag={live.stag} to={live.to}" if _WRITE.match(step) and "stag=" not in step else step
    if isinstance(step, tuple):
        return step
    header = decode_ddp(step)
    if not isinstance(header, TaggedHeader) or header.opcode != _RDMA_WRITE or not header.payload_length:
        return step
    to = header.to + live.to if header.to < _SMALL else header.to
    return TAGGED_HEADER.pack(step[0], step[1], live.stag, to & (1 << 64) - 1) + step[TAGGED_HEADER.size :]
