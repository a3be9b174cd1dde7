"""Changes to the frames of a capture: the path that they took, IP fragments, link type, connections like this one.

Frames are named by their number in the capture, from 1.
"""

from __future__ import annotations

import struct

from scapy_mpa.craft.changes.change import Packets, change
from scapy_mpa.craft.changes.draws import NothingToChange, a_frame, among, up_to
from scapy_mpa.craft.exchange import Exchange, Foreign
from scapy_mpa.craft.fragments import ip_fragment
from scapy_mpa.craft.icmp import too_big
from scapy_mpa.craft.packets import FrameMaker
from scapy_mpa.craft.pcapfile import Packet
from scapy_mpa.craft.setup import Setup
from scapy_mpa.framing.role import ROLES

_ETHERNET, _IPV4 = 14, 20
_TCP = _ETHERNET + _IPV4
_PORTS, _TCP_CHECKSUM = slice(_TCP, _TCP + 2), slice(_TCP + 16, _TCP + 18)
_ROUTER = "192.0.2.1"
_SECOND = 1_000_000_000


def _maker(exchange: Exchange) -> FrameMaker:
    """Return what makes frames of a connection: it knows where their headers begin."""
    setup = Setup(**exchange.setup)
    return FrameMaker(setup.endpoint("initiator", 0), setup.endpoint("responder", 0), setup.vlan)


@change("capture")
def repeated(exchange: Exchange, times: int) -> None:
    """The connection is repeated this many times, each time from another port of the Initiator."""

    def alter(frames: list[Packet]) -> list[Packet]:
        port = frames[0][1][_PORTS]
        length = frames[-1][0] - frames[0][0] + _SECOND
        return [(time + n * length, _from_port(frame, port, n)) for n in range(times) for time, frame in frames]

    exchange.wire.append(alter)


def _from_port(frame: bytes, port: bytes, more: int) -> bytes:
    """A frame with a port that is ``more`` in place of this one; the TCP checksum is as right as before."""
    octets = bytearray(frame)
    for at in (_PORTS.start, _PORTS.stop):
        if octets[at : at + 2] == port:
            struct.pack_into("!H", octets, at, int.from_bytes(port, "big") + more)
            checksum = int.from_bytes(octets[_TCP_CHECKSUM], "big")
            octets[_TCP_CHECKSUM] = ((checksum - more) % 0xFFFF).to_bytes(2, "big")
    return bytes(octets)


@change("capture", "tcp", number=a_frame, mtu=among(0, 68, 128, 576), far=among(0, 0, 0x40000000))
def reported_too_big(exchange: Exchange, number: int, mtu: int, *, far: int = 0) -> None:
    """After a frame, a router says that it was too long for the path, and quotes a position ``far`` from it."""

    tcp_at = _maker(exchange).tcp_at

    def alter(frames: list[Packet]) -> list[Packet]:
        time, frame = frames[number - 1]
        seq = int.from_bytes(frame[tcp_at + 4 : tcp_at + 8], "big") + far
        frames.insert(number, (time + 1, too_big(frame, mtu, _ROUTER, seq=seq)))
        return frames

    exchange.wire.append(alter)


@change("capture", "tcp", number=a_frame, overlap=among(0, 0, 8))
def fragmented(exchange: Exchange, number: int, *, overlap: int = 0) -> None:
    """A frame becomes two IP fragments, which overlap by this many octets (a multiple of 8)."""
    maker = _maker(exchange)

    def alter(frames: list[Packet]) -> list[Packet]:
        time, frame = frames[number - 1]
        total = len(frame) - maker.tcp_at
        middle = total // 2 & ~7
        identification = int.from_bytes(frame[maker.ip_at + 4 : maker.ip_at + 6], "big")
        places = (0, middle + overlap), (middle, total)
        parts = [(time, ip_fragment(frame, maker, *place, total, identification)) for place in places]
        return [*frames[: number - 1], *parts, *frames[number:]]

    exchange.wire.append(alter)


@change("capture")
def foreign(exchange: Exchange, link_type: int, octets: bytes) -> None:
    """The capture has a second interface of this link type, and one packet of it, at the end."""
    exchange.foreign = Foreign(link_type, octets)


# --- packets that the capture has less of, or more ---


@change("packet", "capture", count=up_to(30, 1))
def ends_early(exchange: Exchange, count: int) -> None:
    """The last ``count`` packets are missing."""
    exchange.packets.append(lambda packets: packets[: max(1, len(packets) - count)])


@change("packet", "capture", role=among(*ROLES), first=up_to(20))
def one_side(exchange: Exchange, role: str, first: int = 0) -> None:
    """From a packet on, nothing that this side sends is captured."""

    def alter(packets: Packets) -> Packets:
        kept = [one for at, one in enumerate(packets) if at < first or one.half.role != role]
        if not kept:
            raise NothingToChange
        return kept

    exchange.packets.append(alter)


@change("packet", "capture", role=among(*ROLES))
def one_side_first(exchange: Exchange, role: str) -> None:
    """Everything that this side sent comes before anything that its peer sent."""
    exchange.packets.append(lambda packets: sorted(packets, key=lambda one: one.half.role != role))


@change("packet", "capture", every=among(1, 3))
def captured_twice(exchange: Exchange, every: int = 1) -> None:
    """Every packet, or one in ``every``, is captured twice."""
    exchange.packets.append(
        lambda packets: [two for at, one in enumerate(packets) for two in [one] * (1 + (at % every == 0))]
    )


@change("capture", "capture", first=up_to(20), seconds=among(-10, 1, 10, 100, 100_000))
def times_jump(exchange: Exchange, first: int, seconds: int) -> None:
    """After ``first`` frames, all times are this many seconds later, or earlier."""
    exchange.wire.append(
        lambda frames: [
            (max(0, time + seconds * _SECOND) if at >= first else time, frame)
            for at, (time, frame) in enumerate(frames)
        ]
    )
