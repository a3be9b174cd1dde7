"""Changes to what is captured: the path of packets, IP fragments, snap length, link type.

Frames are named by their number in the capture, from 1.
"""

from __future__ import annotations

import struct

from scapy_mpa.catalogue.mutation import mutation
from scapy_mpa.catalogue.plan import Foreign, Plan
from scapy_mpa.craft.fragments import headed
from scapy_mpa.craft.icmp import too_big
from scapy_mpa.craft.pcapfile import Packet

_ETHERNET, _IPV4 = 14, 20
_TTL_AT, _SOURCE = _ETHERNET + 8, slice(_ETHERNET + 12, _ETHERNET + 16)
_TCP = _ETHERNET + _IPV4
_PORTS, _TCP_CHECKSUM = slice(_TCP, _TCP + 2), slice(_TCP + 16, _TCP + 18)
_SEQ, _ROUTER = slice(_TCP + 4, _TCP + 8), "192.0.2.1"
_MORE = 0x2000
_SECOND = 1_000_000_000


@mutation
def hops(plan: Plan, from_frame: int, ttl: int) -> None:
    """From this frame on, packets of its sender come with another TTL."""

    def change(frames: list[Packet]) -> list[Packet]:
        source = frames[from_frame - 1][1][_SOURCE]
        return [
            (time, headed(frame, {_TTL_AT: bytes((ttl,))}) if n >= from_frame and frame[_SOURCE] == source else frame)
            for n, (time, frame) in enumerate(frames, 1)
        ]

    plan.wire.append(change)


@mutation
def repeated(plan: Plan, times: int) -> None:
    """The connection comes so many times, one after another, each from another port of the Initiator."""

    def change(frames: list[Packet]) -> list[Packet]:
        port = frames[0][1][_PORTS]
        length = frames[-1][0] - frames[0][0] + _SECOND
        return [(time + n * length, _from_port(frame, port, n)) for n in range(times) for time, frame in frames]

    plan.wire.append(change)


def _from_port(frame: bytes, port: bytes, more: int) -> bytes:
    """A frame with a port that is ``more`` in place of this one; the TCP checksum is as right as before."""
    octets = bytearray(frame)
    for at in (_PORTS.start, _PORTS.stop):
        if octets[at : at + 2] == port:
            struct.pack_into("!H", octets, at, int.from_bytes(port, "big") + more)
            checksum = int.from_bytes(octets[_TCP_CHECKSUM], "big")
            octets[_TCP_CHECKSUM] = ((checksum - more) % 0xFFFF).to_bytes(2, "big")
    return bytes(octets)


@mutation
def reported_too_big(plan: Plan, number: int, mtu: int, *, far: int = 0) -> None:
    """Behind a frame a router says that it is longer than the path takes; it quotes a place so ``far`` from it."""

    def change(frames: list[Packet]) -> list[Packet]:
        time, frame = frames[number - 1]
        seq = int.from_bytes(frame[_SEQ], "big") + far
        frames.insert(number, (time + 1, too_big(frame, mtu, _ROUTER, seq=seq)))
        return frames

    plan.wire.append(change)


@mutation
def fragmented(plan: Plan, number: int, *, overlap: int = 0) -> None:
    """A frame comes as two fragments of IP, which overlap by so many octets (a multiple of 8)."""

    def change(frames: list[Packet]) -> list[Packet]:
        time, frame = frames[number - 1]
        rest = frame[_ETHERNET + _IPV4 :]
        middle = len(rest) // 2 & ~7
        parts = []
        for first, last in ((0, middle + overlap), (middle, len(rest))):
            more = (_MORE if last < len(rest) else 0) | first // 8
            total = (_IPV4 + last - first).to_bytes(2, "big")
            header = {_ETHERNET + 2: total, _ETHERNET + 6: more.to_bytes(2, "big")}
            parts.append((time, headed(frame[: _ETHERNET + _IPV4] + rest[first:last], header)))
        frames[number - 1 : number] = parts
        return frames

    plan.wire.append(change)


@mutation
def snapped(plan: Plan, length: int) -> None:
    """The capture keeps so many octets of a packet."""
    plan.snaplen = length


@mutation
def foreign(plan: Plan, link_type: int, octets: bytes) -> None:
    """The capture has a second interface of this link type, and one packet of it, at the end."""
    plan.foreign = Foreign(link_type, octets)


@mutation
def captured_from(plan: Plan, number: int) -> None:
    """The capture begins with this frame."""
    plan.wire.append(lambda frames: frames[number - 1 :])
