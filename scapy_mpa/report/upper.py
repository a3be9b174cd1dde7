"""The upper layer of a connection, as far as its beginning shows it, and the limits that it stated.

Startup frames, the port, the first Send of either side, and what the Responder asks for first: that is at hand without
a look at the messages, which :mod:`scapy_mpa.messages` reassembles.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from scapy_mpa.framing.ddp import OPCODE_NAMES, UNTAGGED_HEADER_LENGTH, UntaggedHeader, decode_ddp
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.framing.role import ROLES, peer_of
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.report.circumstances import StatedLimit
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.ulp.identify import UpperLayer
from scapy_mpa.watches.fpdus import FirstSend


def upper_layer(
    request: StartupFrame | None,
    reply: StartupFrame | None,
    responder_port: int,
    initiator: HalfConnection,
    responder: HalfConnection,
) -> UpperLayer:
    """Return the upper layer on a connection, which nobody changes: other connections may share it."""
    sends = initiator.first_send, responder.first_send
    return _upper_layer(request, reply, responder_port, sends, responder.first_ulpdu or b"")


# Those of a thousand connections mostly say the same; few are kept, for a frame may have 64 KiB.
@lru_cache(maxsize=64)
def _upper_layer(
    request: StartupFrame | None,
    reply: StartupFrame | None,
    responder_port: int,
    sends: tuple[FirstSend | None, FirstSend | None],
    first: bytes,
) -> UpperLayer:
    """Return the upper layer that startup frames, the first Sends and the first octets of the Responder show."""
    upper = UpperLayer(request, reply, responder_port)
    for direction, send in zip(ROLES, sends, strict=True):
        if send is not None:
            upper.see_send(send.beginning, send.octets, direction == "initiator")
    # rping: the Responder reads the memory that the Initiator's first message names.
    header = decode_ddp(first)
    if isinstance(header, UntaggedHeader) and OPCODE_NAMES[header.opcode] == "RDMA Read Request":
        for read in read_requests(first[UNTAGGED_HEADER_LENGTH:]):
            upper.see_use(read.source_stag, read.source_to)
    return upper


def upper_as_dict(upper: UpperLayer) -> dict[str, Any]:
    """The keys of the report's JSON."""
    return {"protocol": upper.name, "grounds": upper.grounds}


def stated_limits(upper: UpperLayer) -> dict[str, StatedLimit]:
    """Return the longest Send that each side said it accepts, by receiver."""
    return {
        peer_of(direction): StatedLimit(upper.name, octets)
        for direction in ROLES
        if (octets := upper.most_octets(direction)) is not None
    }
