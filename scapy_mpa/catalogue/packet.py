"""Changes to TCP packets: lost, late, repeated, forged, cut elsewhere.

A packet is named by a number: 0 is the one with the startup frame of a side, 1 the first with octets of its Full
Operation, and so on; negative numbers count from the last.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from scapy_mpa.catalogue.mutation import mutation
from scapy_mpa.craft.network import acknowledged
from scapy_mpa.craft.packets import ACK, FIN, RST
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.framing.role import Role

if TYPE_CHECKING:
    from scapy_mpa.catalogue.plan import Plan

_SECOND = 1_000_000_000
#: What the IP identification of a copy differs by from that of the first.
COPY = 0x8000


def find(packets: list[TcpPacket], role: Role, number: int) -> int:
    """Where the packet with this number of a side is."""
    data = [i for i, packet in enumerate(packets) if packet.half.role == role and packet.payload]
    startup = [i for i in data if not packets[i].in_operation]
    return startup[0] if number == 0 else [i for i in data if packets[i].in_operation][number - (number > 0)]


def _at(plan: Plan, number: int, change: Callable[[list[TcpPacket], int], object], *, is_noticed: bool = False) -> None:
    """Change the list of packets at the place of one; ``is_noticed``: nobody acknowledges then what has not arrived."""
    role = plan.by

    def changed(packets: list[TcpPacket]) -> list[TcpPacket]:
        change(packets, find(packets, role, number))
        return list(acknowledged(iter(packets))) if is_noticed else packets

    plan.packets.append(changed)


# --- lost, late, in another order ---


@mutation
def lost(plan: Plan, number: int, *, acknowledged_all_the_same: bool = False) -> None:
    """A packet is not captured; either it was lost, or the capture missed what the peer acknowledges."""
    _at(plan, number, lambda packets, place: packets.pop(place), is_noticed=not acknowledged_all_the_same)


@mutation
def late(plan: Plan, number: int, behind: int) -> None:
    """A packet comes behind the one with the number ``behind``."""
    role = plan.by

    def change(packets: list[TcpPacket], place: int) -> None:
        there = find(packets, role, behind)
        packets.insert(there, packets.pop(place))

    _at(plan, number, change, is_noticed=True)


@mutation
def earlier(plan: Plan, number: int, before: int) -> None:
    """A packet comes before one of the peer, and so without having heard of it."""
    peer = plan.peer

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets.pop(place)
        there = find(packets, peer, before)
        packets.insert(there, packet._replace(time=packets[there].time))

    _at(plan, number, change, is_noticed=True)


@mutation
def damaged_on_the_way(plan: Plan, number: int, at: int, mask: int = 1) -> None:
    """An octet of a packet is another, and the TCP checksum shows it: its receiver drops it."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packets[place] = packets[place]._replace(damage=((at, mask),), checksum="before")

    _at(plan, number, change, is_noticed=True)


@mutation
def dropped_for_crc(plan: Plan, number: int, at: int, behind: int, mask: int = 1) -> None:
    """An octet of a packet is another and the TCP checksum is right: its receiver drops it for the CRC, without a word.

    Undamaged it comes again behind the one with the number ``behind``.
    """
    role = plan.by

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        there = find(packets, role, behind)
        packets.insert(there + 1, packet._replace(identification=packet.identification ^ COPY))
        packets[place] = packet._replace(damage=((at, mask),), is_refused=True)

    _at(plan, number, change, is_noticed=True)


@mutation
def silence(plan: Plan, seconds: int) -> None:
    """Nobody closes the connection; so much later its TCP is still there."""

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        kept = [packet for packet in packets if not packet.flags & (FIN | RST)]
        last = next(packet for packet in reversed(kept) if not packet.payload)
        ack = max((packet.end for packet in kept if packet.half is not last.half), default=0)
        return [*kept, last._replace(time=kept[-1].time + seconds * _SECOND, flags=ACK, ack=ack)]

    plan.packets.append(change)


@mutation
def in_vain(plan: Plan, number: int, times: int) -> None:
    """A packet is sent again so often, one second after the other, and the peer says nothing more."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        del packets[place + 1 :]
        packets += (packet._replace(time=packet.time + again * _SECOND) for again in range(1, times + 1))

    _at(plan, number, change)


@mutation
def reset_in_answer(plan: Plan, number: int) -> None:
    """The peer answers a packet by a RST, having acknowledged nothing of it, and that is the end."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        like = next(one for one in reversed(packets[:place]) if one.half is packet.half.peer)
        reset = like._replace(time=packet.time + _SECOND, start=like.end, payload=b"", flags=RST | ACK)
        packets[place + 1 :] = [reset]

    _at(plan, number, change)


@mutation
def refused(plan: Plan) -> None:
    """The SYN is answered by a RST."""

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        syn, answer = packets[:2]
        return [syn, answer._replace(start=0, flags=RST | ACK)]

    plan.packets.append(change)


# --- once more, and from somebody else ---


@mutation
def again(
    plan: Plan,
    number: int,
    *,
    at: int = 0,
    octets: bytes = b"",
    skip: int = 0,
    keep: int | None = None,
    first: bool = False,
    damaged: bool = False,
    acknowledged_between: bool = False,
) -> None:
    """A packet comes twice.

    Args:
        plan: What is changed.
        number: The packet.
        at: The index at which the copy has other octets.
        octets: These.
        skip: Of the copy, only the octets from there.
        keep: Of the copy, only the octets to there.
        first: Whether the copy is in front of the original, not behind it.
        damaged: Whether the TCP checksum of the copy shows that it is another.
        acknowledged_between: Whether the peer acknowledges the one before the other comes.
    """

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        copy = packet._replace(identification=packet.identification ^ COPY)
        payload = packet.payload[:at] + octets + packet.payload[at + len(octets) :]
        if damaged:
            pairs = enumerate(zip(packet.payload, payload, strict=True))
            differs = tuple((i, one ^ other) for i, (one, other) in pairs if one != other)
            copy = copy._replace(damage=differs, checksum="before")
        else:
            copy = copy._replace(start=packet.start + skip, payload=payload[skip:keep])
        packets.insert(place if first else place + 1, copy)
        if acknowledged_between:
            packets.insert(place + 1, _acknowledgement(packets, packets[place]))

    _at(plan, number, change)


def _acknowledgement(packets: list[TcpPacket], packet: TcpPacket) -> TcpPacket:
    """The peer acknowledges a packet."""
    like = next(one for one in packets if one.half is packet.half.peer and one.flags == ACK and not one.payload)
    return like._replace(time=packet.time, start=packet.ack or 0, ack=packet.end)


@mutation
def keep_alive(plan: Plan, number: int) -> None:
    """Behind a packet its last octet is sent again, as another one (RFC 9293 §3.8.4)."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        octet = bytes((packet.payload[-1] ^ 0xFF,))
        packets.insert(place + 1, packet._replace(start=packet.end - 1, payload=octet))

    _at(plan, number, change)


@mutation
def forged(plan: Plan, number: int, far: int, octets: bytes = b"forged") -> None:
    """Behind a packet comes one with other octets, so ``far`` from it in the stream."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        packets.insert(place + 1, packet._replace(start=packet.start + far, payload=octets))

    _at(plan, number, change)


@mutation
def reset(plan: Plan, before: int, *, far: int = 0) -> None:
    """A RST in the name of the side comes before a packet, which it knows nothing of, ``far`` from where that
    begins."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        packets.insert(place, packet._replace(start=packet.start + far, payload=b"", flags=RST | ACK))

    _at(plan, before, change)


@mutation
def checksums(plan: Plan, mode: Literal["zero", "pseudo"]) -> None:
    """TCP checksums are not filled in, as a host that leaves them to its card captures its own packets."""
    role = plan.by

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        return [packet._replace(checksum=mode) if packet.half.role == role else packet for packet in packets]

    plan.packets.append(change)


# --- other octets, other boundaries ---


@mutation
def inserted(plan: Plan, number: int, octets: bytes) -> None:
    """Before a packet stand octets in a segment of their own, which move all that follows."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packet, count = packets[place], len(octets)
        for i, other in enumerate(packets):
            if other.half is packet.half and other.start >= packet.start:
                packets[i] = other._replace(start=other.start + count)
            elif other.half is not packet.half and other.ack is not None and other.ack > packet.start:
                packets[i] = other._replace(ack=other.ack + count)
        packets.insert(place, packet._replace(payload=octets, identification=packet.identification ^ COPY))

    _at(plan, number, change)


@mutation
def recut(plan: Plan, number: int, *places: int) -> None:
    """A packet comes as several, cut at these indices of its payload (negative: from its end)."""

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets[place]
        size = len(packet.payload)
        packets[place : place + 1] = [
            packet._replace(start=packet.start + first, payload=packet.payload[first:last])
            for first, last in pairwise((0, *sorted(at % size for at in places), size))
        ]

    _at(plan, number, change)


@mutation
def shifted(plan: Plan, first: int, size: int, last: int = -1) -> None:
    """From the packet ``first`` to ``last`` each keeps ``size`` octets of its own, and carries the rest of the one
    before."""
    role = plan.by

    def change(packets: list[TcpPacket], begin: int) -> None:
        end, rest = find(packets, role, last), b""
        for place in range(begin, end + 1):
            packet = packets[place]
            if packet.half.role == role and packet.payload:
                keep = len(packet.payload) if place == end else size
                start = packet.start - len(rest)
                packets[place] = packet._replace(start=start, payload=rest + packet.payload[:keep])
                rest = packet.payload[keep:]

    _at(plan, first, change, is_noticed=True)


@mutation
def merged(plan: Plan, number: int, into: int) -> None:
    """What a packet carries comes in the one with the number ``into``, with what that one had heard of."""
    role = plan.by

    def change(packets: list[TcpPacket], place: int) -> None:
        packet = packets.pop(place)
        there = find(packets, role, into)
        other = packets[there]
        packets[there] = other._replace(payload=other.payload + packet.payload, in_operation=packet.in_operation)

    _at(plan, number, change, is_noticed=True)
