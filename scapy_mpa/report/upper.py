"""The upper layer of a connection, as far as its beginning shows it, and the limits that it stated.

Startup frames, the port, the first Send of either side, and what the Responder asks for first: that is at hand without
a look at the messages, which :mod:`scapy_mpa.messages` puts together.
"""

from __future__ import annotations

from typing import Any, Protocol

from scapy_mpa.framing.ddp import OPCODE_NAMES, UNTAGGED_HEADER_LENGTH, UntaggedHeader, decode_ddp
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.report.circumstances import StatedLimit
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.ulp.identify import UpperLayer


class BegunConnection(Protocol):
    """A connection of the report, as far as its beginning is asked for."""

    @property
    def request(self) -> StartupFrame | None:
        """The Request, None if it was not captured."""

    @property
    def reply(self) -> StartupFrame | None:
        """The Reply, None if it was not captured."""

    @property
    def responder_port(self) -> int:
        """The TCP port of the Responder."""

    def half(self, direction: Role) -> HalfConnection:
        """The half connection that ``direction`` sent."""


def upper_layer(connection: BegunConnection) -> UpperLayer:
    """Return the upper layer on a connection."""
    upper = UpperLayer(connection.request, connection.reply, connection.responder_port)
    for direction in ROLES:
        send = connection.half(direction).first_send
        if send is not None:
            upper.see_send(send.beginning, send.octets, direction == "initiator")
    # rping: the Responder reads the memory that the Initiator's first message names.
    first = connection.half("responder").first_ulpdu or b""
    header = decode_ddp(first)
    if isinstance(header, UntaggedHeader) and OPCODE_NAMES[header.opcode] == "RDMA Read Request":
        for request in read_requests(first[UNTAGGED_HEADER_LENGTH:]):
            upper.see_use(request.source_stag, request.source_to)
    return upper


def upper_as_dict(upper: UpperLayer) -> dict[str, Any]:
    """The keys of the report's JSON."""
    return {"protocol": upper.name, "grounds": upper.grounds}


def stated_limits(upper: UpperLayer) -> dict[str, StatedLimit]:
    """The longest Send that each side said it takes, by who receives it."""
    return {
        peer_of(direction): StatedLimit(upper.name, octets)
        for direction in ROLES
        if (octets := upper.most_octets(direction)) is not None
    }
