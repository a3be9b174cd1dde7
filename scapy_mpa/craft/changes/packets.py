"""Changes to TCP packets one by one: cut elsewhere, sent again, ended early, with other numbers or flags.

A packet is named by a number: 0 is the one with the startup frame of a side, 1 the first with octets of its Full
Operation, and so on; negative numbers count from the last. What the network and the capture do is in ``impairments``,
what others send in ``injected``.
"""

from __future__ import annotations

from itertools import pairwise

from scapy_mpa.craft.changes.change import Packets, change, find, first, fitting, packet_change
from scapy_mpa.craft.changes.draws import (
    NothingToChange,
    a_packet,
    a_packet_of_the_peer,
    among,
    bits,
    perhaps,
    some_octets,
    up_to,
)
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.network import RETRANSMITTED
from scapy_mpa.craft.packets import ACK, FIN, PSH, RST, SYN
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import peer_of

_SECOND = 1_000_000_000
#: Where an IPv4 header has TTL.
_TTL_AT = 8
_DISTANCES = (-1, 1, -4, 4, 512, -512, 65536, -65536, 1 << 24, (1 << 31) - 1, 1 << 31, -(1 << 31))
_CUTS = up_to(100)
#: The largest value of Linux' net.ipv4.tcp_retries2, after which TCP gives a connection up.
_MOST_TIMES = 255


def _kept(packets: Packets, packet: TcpPacket, begin: int) -> Packets:
    """The packets without octets of the side from this place on."""
    return [one for at, one in enumerate(packets) if at < begin or one.half is not packet.half or not one.payload]


# --- in another order ---


@packet_change("tcp", noticed=True, before=a_packet_of_the_peer)
def earlier(packets: Packets, place: int, before: int) -> None:
    """A packet comes before one of the peer, so it does not acknowledge that one."""
    packet = packets.pop(place)
    there = find(packets, peer_of(packet.half.role), before)
    packets.insert(there, packet._replace(time=packets[there].time))


@packet_change("tcp", count=up_to(12, 2))
def reversed_order(packets: Packets, place: int, count: int = 0) -> None:
    """Packets of the side, this many from one on (0: all), come in reverse order."""
    role = packets[place].half.role
    places = [at for at in range(place, len(packets)) if packets[at].half.role == role and packets[at].payload]
    places = places[: count or None]
    turned = [packets[at] for at in reversed(places)]
    for at, packet in zip(places, turned, strict=True):
        packets[at] = packet._replace(time=packets[at].time)


# --- its end ---


@change("packet", "teardown", seconds=among(1, 12, 100))
def silence(exchange: Exchange, seconds: int) -> None:
    """Nobody closes the connection; its TCP is still there after this time."""

    def alter(packets: Packets) -> Packets:
        kept = [packet for packet in packets if not packet.flags & (FIN | RST)]
        last = first(reversed(kept), lambda packet: not packet.payload)
        ack = max((packet.end for packet in kept if packet.half is not last.half), default=0)
        return [*kept, last._replace(time=kept[-1].time + seconds * _SECOND, flags=ACK, ack=ack)]

    exchange.packets.append(alter)


@packet_change("teardown", times=among(1, 2, 6))
def in_vain(packets: Packets, place: int, times: int) -> None:
    """A packet is retransmitted this many times, once a second, and the peer is silent."""
    if not 1 <= times <= _MOST_TIMES:
        raise MPAError(f"in-vain: times is {times}, but must be 1 to {_MOST_TIMES}")
    packet = packets[place]
    del packets[place + 1 :]
    packets += (packet._replace(time=packet.time + again * _SECOND) for again in range(1, times + 1))


@packet_change("teardown")
def reset_in_answer(packets: Packets, place: int) -> None:
    """The peer answers a packet with a RST without acknowledging any of it, which ends the connection."""
    packet = packets[place]
    like = first(reversed(packets[:place]), lambda one: one.half is packet.half.peer)
    packets[place + 1 :] = [
        like._replace(time=packet.time + _SECOND, start=like.end, payload=b"", flags=RST | ACK, damage=())
    ]


@change("packet", "teardown")
def refused(exchange: Exchange) -> None:
    """The SYN is answered with a RST."""

    def alter(packets: Packets) -> Packets:
        if len(packets) < 2:
            raise NothingToChange
        syn, answer = packets[:2]
        return [syn, answer._replace(start=0, flags=RST | ACK)]

    exchange.packets.append(alter)


@packet_change("teardown", keep=_CUTS, flag=among(FIN, RST), stops=among(True, True, False))
def ended(packets: Packets, place: int, keep: int, *, flag: int = FIN, stops: bool = True) -> None:
    """A packet keeps this many octets and has FIN or RST; after it, the side sends nothing if it ``stops``."""
    packet = packets[place]
    packets[place] = packet._replace(payload=packet.payload[:keep], flags=packet.flags | flag)
    if stops:
        packets[:] = _kept(packets, packet, place + 1)


@packet_change("teardown")
def half_closed(packets: Packets, place: int) -> None:
    """After a packet, the side sends FIN, and its peer continues."""
    packet = packets[place]
    end = max(one.end for one in packets[: place + 1] if one.half is packet.half)
    packets.insert(place + 1, packet._replace(start=end, payload=b"", flags=FIN | ACK, damage=()))
    packets[:] = _kept(packets, packet, place + 2)


@packet_change("teardown", is_new=among(False, True))
def after_the_end(packets: Packets, place: int, *, is_new: bool = False) -> None:
    """The octets of a packet come last, after FIN and RST, again or as new ones."""
    packet = packets[place]
    start = max(one.end for one in packets if one.half is packet.half) if is_new else packet.start
    packets.append(packet._replace(start=start, time=packets[-1].time + 1000))


@change("packet", "teardown", only_first=among(False, True))
def unended(exchange: Exchange, *, only_first: bool = False) -> None:
    """Packets with FIN or RST are missing, all of them or only the first."""

    def alter(packets: Packets) -> Packets:
        ends = [at for at, packet in enumerate(packets) if packet.flags & (FIN | RST)]
        gone = ends[:1] if only_first else ends
        return [packet for at, packet in enumerate(packets) if at not in gone]

    exchange.packets.append(alter)


@change(
    "packet", "teardown", far=among(0, 1, 1 << 16, 1 << 31, 12345), seconds=among(0, 5), syn=among(True, True, False)
)
def ports_again(exchange: Exchange, far: int, *, seconds: int = 0, syn: bool = True) -> None:
    """Everything comes again after this time, with sequence numbers at this distance, perhaps without SYN."""

    def alter(packets: Packets) -> Packets:
        later = packets[-1].time - packets[0].time + 1000 + seconds * _SECOND
        moved = (
            one._replace(time=one.time + later, start=one.start + far, ack=None if one.ack is None else one.ack + far)
            for one in packets
            if syn or not one.flags & SYN
        )
        return [*packets, *moved]

    exchange.packets.append(alter)


# --- its way ---


@packet_change("tcp", ttl=among(0, 1, 57, 255))
def hops(packets: Packets, place: int, ttl: int) -> None:
    """From a packet on, those of the side have a different TTL."""
    half = packets[place].half
    packets[place:] = [one._replace(header=((_TTL_AT, ttl),)) if one.half is half else one for one in packets[place:]]


# --- again ---


@packet_change(
    "tcp", at=up_to(60), octets=some_octets(8), skip=perhaps(_CUTS, 0.3, 0), keep=perhaps(_CUTS, 0.3),
    ahead=among(False, True), damaged=perhaps(among(True), 0.1, False), acknowledged_between=among(False, True),
)  # fmt: skip
def again(
    packets: Packets,
    place: int,
    *,
    at: int = 0,
    octets: bytes = b"",
    skip: int = 0,
    keep: int | None = None,
    ahead: bool = False,
    damaged: bool = False,
    acknowledged_between: bool = False,
) -> None:
    """A packet comes twice.

    Args:
        packets: among which it is.
        place: where it is.
        at: The index at which the copy has other octets.
        octets: These.
        skip: Of the copy, only the octets from there.
        keep: Of the copy, only the octets to there.
        ahead: Whether the copy is before the original, not after it.
        damaged: Whether the TCP checksum of the copy shows that it is another.
        acknowledged_between: Whether the peer acknowledges the one before the other comes.
    """
    packet = packets[place]
    copy = packet._replace(identification=packet.identification ^ RETRANSMITTED)
    payload = packet.payload[:at] + octets[: max(0, len(packet.payload) - at)] + packet.payload[at + len(octets) :]
    if damaged:
        pairs = enumerate(zip(packet.payload, payload, strict=True))
        differs = tuple((i, one ^ other) for i, (one, other) in pairs if one != other)
        copy = copy._replace(damage=differs, checksum="before")
    else:
        copy = copy._replace(start=packet.start + skip, payload=payload[skip:keep])
    packets.insert(place if ahead else place + 1, copy)
    if acknowledged_between:
        packets.insert(place + 1, _acknowledgement(packets, packets[place]))


def _acknowledgement(packets: Packets, packet: TcpPacket) -> TcpPacket:
    """The peer acknowledges a packet."""
    like = first(packets, lambda one: one.half is packet.half.peer and one.flags == ACK and not one.payload)
    return like._replace(time=packet.time, start=packet.ack or 0, ack=packet.end)


@packet_change("tcp")
def keep_alive(packets: Packets, place: int) -> None:
    """After a packet, its last octet is sent again with another value (RFC 9293 §3.8.4)."""
    packet = packets[place]
    octet = bytes((packet.payload[-1] ^ 0xFF,))
    packets.insert(place + 1, packet._replace(start=packet.end - 1, payload=octet))


# --- other octets, other boundaries ---


@packet_change("tcp", octets=some_octets(40, 1))
def inserted(packets: Packets, place: int, octets: bytes) -> None:
    """Octets in a separate segment come before a packet, and move everything that follows."""
    packet, count = packets[place], len(octets)
    for i, other in enumerate(packets):
        if other.half is packet.half and other.start >= packet.start:
            packets[i] = other._replace(start=other.start + count)
        elif other.half is not packet.half and other.ack is not None and other.ack > packet.start:
            packets[i] = other._replace(ack=other.ack + count)
    packets.insert(place, packet._replace(payload=octets, identification=packet.identification ^ RETRANSMITTED))


@packet_change("alignment", at=perhaps(among(-4, -3, -2, -1, 1, 2, 4, 6, 18, 20), 0.7, 40), other=perhaps(_CUTS, 0.3))
def cut_in_two(packets: Packets, place: int, at: int, other: int | None = None) -> None:
    """A packet is split in two at this index of its payload (negative: from its end), or in three at two."""
    _cut(packets, place, (at,) if other is None else (at, other))


@packet_change()
def recut(packets: Packets, place: int, *places: int) -> None:
    """A packet is split at these indices of its payload (negative: from its end)."""
    _cut(packets, place, places)


@packet_change("alignment", size=up_to(12, 1))
def crumbs(packets: Packets, place: int, size: int) -> None:
    """The first 400 octets of a packet are sent in segments of this many octets."""
    _cut(packets, place, tuple(range(size, min(len(packets[place].payload), 400), size)))


def _cut(packets: Packets, place: int, places: tuple[int, ...]) -> None:
    packet = packets[place]
    size = len(packet.payload)
    packets[place : place + 1] = [
        packet._replace(
            start=packet.start + first,
            payload=packet.payload[first:last],
            damage=tuple((at - first, mask) for at, mask in packet.damage if first <= at < last),
        )
        for first, last in pairwise((0, *sorted({at % size for at in places} - {0}), size))
    ]


@packet_change("alignment", noticed=True, size=_CUTS, last=a_packet)
def shifted(packets: Packets, place: int, size: int, last: int = -1) -> None:
    """From a packet to number ``last``, each keeps ``size`` octets of its own and carries the rest of the previous."""
    role = packets[place].half.role
    end, rest = find(packets, role, last), b""
    for at in range(place, end + 1):
        packet = packets[at]
        if packet.half.role == role and packet.payload:
            keep = len(packet.payload) if at == end else size
            start = packet.start - len(rest)
            packets[at] = packet._replace(start=start, payload=rest + packet.payload[:keep])
            rest = packet.payload[keep:]


@packet_change("alignment", noticed=True, into=a_packet)
def merged(packets: Packets, place: int, into: int) -> None:
    """The payload of a packet moves into packet number ``into``, with the acknowledgement of the latter."""
    packet = packets.pop(place)
    there = find(packets, packet.half.role, into)
    other = packets[there]
    joined = other._replace(payload=other.payload + packet.payload, in_operation=packet.in_operation)
    packets[there] = fitting(joined)


# --- other numbers, flags and checksums ---


@packet_change("tcp", far=among(*_DISTANCES))
def moved(packets: Packets, place: int, far: int) -> None:
    """A packet has a sequence number at this distance from its own."""
    packets[place] = packets[place]._replace(start=packets[place].start + far)


@packet_change("tcp", more=among(1, -1, 4, -20, 1000, -1000, 65535, 1 << 31))
def acknowledges(packets: Packets, place: int, more: int) -> None:
    """A packet acknowledges this many octets more than its sender has received."""
    packet = packets[place]
    packets[place] = packet._replace(ack=(packet.ack or 0) + more)


@packet_change("tcp", mask=among(SYN, SYN | ACK, FIN, RST, ACK, PSH, 0x20, 0xFF))
def other_flags(packets: Packets, place: int, mask: int) -> None:
    """Flags of a packet are flipped."""
    packets[place] = packets[place]._replace(flags=packets[place].flags ^ mask)


@packet_change("tcp", options=some_octets(40))
def other_options(packets: Packets, place: int, options: bytes) -> None:
    """A packet has these TCP options."""
    packets[place] = fitting(packets[place]._replace(options=options[: len(options) & ~3]))


@packet_change("tcp", window=bits(16))
def other_window(packets: Packets, place: int, window: int) -> None:
    """A packet offers this window."""
    packets[place] = packets[place]._replace(window=window)
