"""Plays one side of a case of the catalogue to an endpoint: the octets that TCP would hand over, in its order."""

from __future__ import annotations

from typing import NamedTuple

from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.craft.packets import FIN, RST
from scapy_mpa.craft.setup import Setup
from scapy_mpa.craft.tcppacket import TcpPacket, damaged
from scapy_mpa.live.endpoint import MPAEndpoint
from scapy_mpa.live.errors import RemoteProtocolError
from scapy_mpa.live.events import Event
from scapy_mpa.live.settings import EndpointSettings


class Played(NamedTuple):
    """The result of feeding a side to an endpoint: events in order, including those of the error, and the error."""

    endpoint: MPAEndpoint
    events: list[Event]
    error: RemoteProtocolError | None


def settings_of(setup: Setup, role: str) -> EndpointSettings:
    """An endpoint that is what one side of a conversation is."""
    side = 0 if role == "initiator" else 1
    profile = setup.profile
    revision = setup.revision_of(role)  # type: ignore[arg-type]
    if profile == "culley-02":
        return EndpointSettings(profile=profile, rdmap=True, emss=65483)
    return EndpointSettings(
        m=setup.m[side],
        c=setup.c[side],
        rev=revision,
        private_data=setup.private_data[side],
        enhanced=setup.enhanced_of(role),  # type: ignore[arg-type]
        automatic=not setup.reject,
        rdmap=True,
        emss=65483,
    )


class _Stream:
    """A TCP stream of which octets come in any order: what is contiguous is handed over once."""

    def __init__(self) -> None:
        self._octets: dict[int, bytes] = {}
        self._next = 0

    def take(self, start: int, octets: bytes) -> bytes:
        if octets:
            self._octets.setdefault(start, octets)
        found = b""
        for at in sorted(self._octets):
            if at > self._next:
                break
            more = self._octets.pop(at)[self._next - at :]
            found += more
            self._next += len(more)
        return found


def play(malformed: Malformed) -> Played:
    """Hand what the side sends that the case is about to an endpoint in the other role, as its packets come."""
    plan = malformed.case.plan(malformed.left)
    setup = Setup(**plan.setup)
    endpoint = MPAEndpoint(plan.peer, settings_of(setup, plan.peer))
    packets = plan.sent()
    events: list[Event] = []
    stream = _Stream()
    started = False
    for packet in packets:
        half, now = packet.half, packet.time / 1e9
        startup = half.startup or half.peer.startup
        try:
            if not started and (startup is None or (packet.payload and packet.end > startup[0])):
                started = True
                events += endpoint.start(now)
            endpoint.expire(now)
            if half.role == plan.peer:
                _say(endpoint, packet)
                continue
            octets = damaged(packet.payload, packet.damage)
            if not packet.shows_damage and (octets := stream.take(packet.start, octets)):
                events += endpoint.receive(octets, now)
                if endpoint.state == "deciding":
                    events += endpoint.reject()
            if packet.flags & RST:
                return Played(endpoint, [*events, *endpoint.receive_reset(now)], None)
            if packet.flags & FIN:
                events += endpoint.receive_eof(now)
        except RemoteProtocolError as error:
            return Played(endpoint, [*events, *error.events], error)
    return Played(endpoint, events, None)


def _say(endpoint: MPAEndpoint, packet: TcpPacket) -> None:
    """The endpoint's own side sends something: what it has queued, and in Full Operation an FPDU."""
    if packet.payload:
        if packet.in_operation and endpoint.may_send:
            endpoint.send(b"\x41\x43" + bytes(20))
        endpoint.data_to_send()
