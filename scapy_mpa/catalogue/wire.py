"""Changes to what is captured: the path of packets, IP fragments, snap length, link type.

Frames are named by their number in the capture, from 1.
"""

from __future__ import annotations

import struct

from scapy_mpa.catalogue.mutation import mutation
from scapy_mpa.catalogue.plan import Foreign, Plan
from scapy_mpa.craft.packets import ones_complement_sum
from scapy_mpa.craft.pcapfile import Packet

_ETHERNET, _IPV4 = 14, 20
_TTL_AT, _CHECKSUM_AT, _SOURCE = _ETHERNET + 8, _ETHERNET + 10, slice(_ETHERNET + 12, _ETHERNET + 16)
_MORE = 0x2000


def _headed(frame: bytes, changes: dict[int, bytes]) -> bytes:
    """A frame with other octets in its IPv4 header, whose checksum is right again."""
    octets = bytearray(frame)
    for at, value in changes.items():
        octets[at : at + len(value)] = value
    octets[_CHECKSUM_AT : _CHECKSUM_AT + 2] = bytes(2)
    header = bytes(octets[_ETHERNET : _ETHERNET + _IPV4])
    struct.pack_into("!H", octets, _CHECKSUM_AT, -ones_complement_sum(header) % 0xFFFF)
    return bytes(octets)


@mutation
def hops(plan: Plan, from_frame: int, ttl: int) -> None:
    """From this frame on, packets of its sender come with another TTL."""

    def change(frames: list[Packet]) -> list[Packet]:
        source = frames[from_frame - 1][1][_SOURCE]
        return [
            (time, _headed(frame, {_TTL_AT: bytes((ttl,))}) if n >= from_frame and frame[_SOURCE] == source else frame)
            for n, (time, frame) in enumerate(frames, 1)
        ]

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
            parts.append((time, _headed(frame[: _ETHERNET + _IPV4] + rest[first:last], header)))
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
