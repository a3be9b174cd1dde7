"""Two endpoints joined in memory: octets go from one to the other, cut as one likes, and are kept as a capture."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from itertools import count

from scapy_mpa import analyze
from scapy_mpa.craft.packets import Endpoint as Address
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.talk import Side, between, frames
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.live.endpoint import MPAEndpoint
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import Event, ULPDUReceived
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.report.connection import Connection

SIDES: dict[Role, Side] = {"initiator": "client", "responder": "server"}
#: Where octets are cut into pieces, as ``Pair`` hands them over.
Cut = Callable[[bytes], Sequence[bytes]]


def whole(octets: bytes) -> Sequence[bytes]:
    return [octets]


def single(octets: bytes) -> Sequence[bytes]:
    return [octets[at : at + 1] for at in range(len(octets))]


class Pair:
    """An Initiator and a Responder; ``wire`` is what each said, in order."""

    def __init__(self, initiator: EndpointSettings, responder: EndpointSettings, cut: Cut = whole) -> None:
        self.endpoints: dict[Role, MPAEndpoint] = {
            "initiator": MPAEndpoint("initiator", initiator),
            "responder": MPAEndpoint("responder", responder),
        }
        self.cut = cut
        #: True if all that is queued goes in one piece, before it is cut.
        self.joins = False
        self.now = 0.0
        self.events: dict[Role, list[Event]] = {"initiator": [], "responder": []}
        self.errors: dict[Role, RemoteProtocolError] = {}
        self.wire: list[tuple[Role, bytes]] = []

    @property
    def initiator(self) -> MPAEndpoint:
        return self.endpoints["initiator"]

    @property
    def responder(self) -> MPAEndpoint:
        return self.endpoints["responder"]

    def start(self) -> None:
        """Both are started, the Responder first, and say what they have to."""
        for role in reversed(ROLES):
            self.events[role] += self.endpoints[role].start(self.now)
        self.exchange()

    def exchange(self) -> None:
        """Hand over what is queued until nobody has anything to say."""
        while any(self.carry(role) for role in ROLES):
            pass

    def carry(self, role: Role) -> bool:
        """Hand over what one of them has queued; False if that was nothing."""
        items = self.endpoints[role].data_to_send()
        for item in [b"".join(items)] if self.joins and items else items:
            self.hand(role, item)
        return bool(items)

    def hand(self, role: Role, octets: bytes) -> None:
        """Hand octets to the peer of ``role``, in the pieces that ``cut`` makes."""
        self.wire.append((role, octets))
        peer = peer_of(role)
        for piece in self.cut(octets):
            try:
                self.events[peer] += self.endpoints[peer].receive(piece, self.now)
            except RemoteProtocolError as error:
                self.events[peer] += error.events
                assert peer not in self.errors, "an error is raised once"
                self.errors[peer] = error

    def ulpdus(self, role: Role) -> list[bytes]:
        """Return what was passed on to the upper layer of one of them, without RTR messages."""
        return [event.ulpdu for event in self.events[role] if isinstance(event, ULPDUReceived) and event.rtr is None]

    def kinds(self, role: Role) -> list[str]:
        """The events of one of them, by the names of their classes."""
        return [type(event).__name__ for event in self.events[role]]

    def analyzed(self) -> Connection:
        """Return what the analysis says about a capture of it."""
        client, server = (Address(f"10.0.0.{n}", 7470 + n, bytes(6)) for n in (1, 2))
        talk = between(client, server, count(10**18, 10**6), mtu=65535)
        packets = [*talk.open()]
        for role, octets in self.wire:
            packets += talk.transfer(SIDES[role], octets, [(0, len(octets))])
            packets += talk.acknowledge(SIDES[peer_of(role)])
        packets += talk.close()
        file = io.BytesIO()
        PcapWriter(file).write(frames(packets))
        file.seek(0)
        (connection,) = analyze(file).connections
        return connection
