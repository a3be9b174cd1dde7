"""Changes by others than the two ends: forged segments, and late duplicates of an earlier connection.

Forged segments come in front of a packet of the side that the case is about, in its name; packets are numbered as in
``catalogue.packet``.  Where they lie is counted from the octet that comes next, or from the edge of the window that the
peer has offered so far.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from scapy_mpa.catalogue.mutation import mutation
from scapy_mpa.catalogue.packet import COPY, find
from scapy_mpa.craft.injecting import aged, forged
from scapy_mpa.craft.packets import ACK, FIN, RST, SYN
from scapy_mpa.craft.tcp import WINDOW_SHIFT
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.framing.role import Role

if TYPE_CHECKING:
    from scapy_mpa.catalogue.plan import Plan

_FLAGS = {"": 0, "A": ACK, "R": RST, "RA": RST | ACK, "S": SYN, "SA": SYN | ACK, "FA": FIN | ACK}
_SECOND = 1_000_000_000
_TICKS_A_SECOND = 1000


def _edge(packets: list[TcpPacket], half: SentHalf) -> int:
    """Up to where the peer of a half has offered to take octets."""
    acks = [one for one in packets if one.half is half.peer and one.ack is not None]
    return max((one.ack or 0) + (one.window << (0 if one.flags & SYN else WINDOW_SHIFT)) for one in acks)


def _sent(packets: list[TcpPacket], half: SentHalf) -> int:
    return max((one.end for one in packets if one.half is half), default=0)


def _challenge(packets: list[TcpPacket], packet: TcpPacket) -> TcpPacket:
    """The peer says what it expects, as it does on a RST or SYN that may be forged (RFC 5961 §3.2, §4.2)."""
    peer = packet.half.peer
    like = next(one for one in reversed(packets) if one.half is peer and one.ack is not None)
    return like._replace(
        time=packet.time, start=_sent(packets, peer), payload=b"", flags=ACK, ack=_sent(packets, packet.half)
    )


@mutation
def injected(
    plan: Plan,
    before: int,
    flags: str = "A",
    *,
    far: int = 0,
    edge: bool = False,
    octets: bytes = b"",
    acknowledges: int | None = None,
    checksum: Literal["right", "wrong"] = "right",
    seconds: int = 0,
    challenged: bool = False,
    believed: bool = False,
) -> None:
    """Somebody else sends a segment in front of a packet.

    Args:
        plan: What is changed.
        before: The number of the packet; it begins with the octet that comes next.
        flags: Of TCP, by their first letters.
        far: How far its number is from that of this octet.
        edge: Or from the edge of the window.
        octets: That it brings.
        acknowledges: So many octets more than the peer has sent.
        checksum: Whether its TCP checksum is right.
        seconds: How much its timestamp is older.
        challenged: Whether the peer answers by what it expects.
        believed: Whether the peer takes it: behind a FIN it acknowledges nothing more, behind a RST it is gone.
    """
    role = plan.by

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        place = find(packets, role, before)
        packet, earlier = packets[place], packets[:place]
        start = (_edge(earlier, packet.half) if edge else packet.start) + far
        made = aged(forged(packet, start, octets, _FLAGS[flags]), seconds * _TICKS_A_SECOND)
        if acknowledges is not None:
            made = made._replace(ack=_sent(earlier, packet.half.peer) + acknowledges)
        made = made._replace(checksum=checksum)
        answer = [_challenge(earlier, packet)] if challenged else []
        later = packets[place:]
        if believed:
            later = [one for one in map(_after(made), later) if one is not None]
        return [*earlier, made, *answer, *later]

    plan.packets.append(change)


def _after(end: TcpPacket) -> Callable[[TcpPacket], TcpPacket | None]:
    """What becomes of a packet behind a FIN or RST that the peer of its sender believes."""

    def change(packet: TcpPacket) -> TcpPacket | None:
        if packet.half is end.half:
            return packet
        if end.flags & RST:
            return None
        return packet._replace(ack=min(packet.ack or 0, end.end + 1))

    return change


@mutation
def late_of_earlier(
    plan: Plan,
    number: int,
    before: int,
    far: int,
    *,
    peer_far: int | None = None,
    seconds: int = 60,
    what: Literal["data", "SYN", "FIN"] = "data",
) -> None:
    """Before the connection there was another one on the same ports, and one of its packets comes late.

    Args:
        plan: What is changed.
        number: The packet of the earlier connection that comes once more (if ``what`` is data).
        before: That of the present one in front of which it comes.
        far: How far the sequence numbers of the side are from those of the present one.
        peer_far: The same of its peer; None: as far.
        seconds: How long before the present one the earlier one was.
        what: The packet with octets of that number, or the SYN or FIN of that side.
    """
    role = plan.by

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        halves: dict[Role, SentHalf] = {}
        for half in (packets[0].half, packets[0].half.peer):
            away = far if half.role == role or peer_far is None else peer_far
            old = SentHalf(half.connection, half.role, half.frames, half.isn + away)
            old.markers, old.crc, old.startup, old.origin = half.markers, half.crc, half.startup, half.origin
            old.laid, old.opcodes = half.laid, half.opcodes
            halves[half.role] = old
        halves["initiator"].peer, halves["responder"].peer = halves["responder"], halves["initiator"]
        earlier = [
            aged(
                packet._replace(half=halves[packet.half.role], time=packet.time - seconds * _SECOND),
                seconds * _TICKS_A_SECOND,
            )
            for packet in packets
        ]
        place = find(packets, role, before)
        if what == "data":
            late = earlier[find(earlier, role, number)]
        else:
            flag = SYN if what == "SYN" else FIN
            late = next(one for one in earlier if one.half.role == role and one.flags & flag)
        late = late._replace(time=packets[place].time, is_injected=True)
        return [*earlier, *packets[:place], late, *packets[place:]]

    plan.packets.append(change)


@mutation
def octets_in_syn(plan: Plan, octets: bytes | None = None) -> None:
    """The SYN of the side brings these octets; None: its startup frame, which is not sent again."""
    role = plan.by

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        at = next(i for i, packet in enumerate(packets) if packet.half.role == role and packet.flags & SYN)
        first = find(packets, role, 0)
        payload = packets[first].payload if octets is None else octets
        packets[at] = packets[at]._replace(payload=payload)
        if octets is None:
            del packets[first]
        return packets

    plan.packets.append(change)


@mutation
def syn_again(plan: Plan, before: int) -> None:
    """The SYN of the side comes once more, in front of a packet."""
    role = plan.by

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        syn = next(packet for packet in packets if packet.half.role == role and packet.flags & SYN)
        place = find(packets, role, before)
        identification = syn.identification ^ COPY
        once_more = syn._replace(time=packets[place].time, identification=identification, is_injected=True)
        return [*packets[:place], once_more, *packets[place:]]

    plan.packets.append(change)


@mutation
def overlapping(
    plan: Plan, number: int, first: int, last: int, at: int, octets: bytes, *, before: bool = True, flags: str = "A"
) -> None:
    """Somebody else sends some of the octets of the side, a few of which are others.

    Args:
        plan: What is changed.
        number: A packet of the side.
        first: Where the segment begins, from the beginning of that packet.
        last: Where it ends.
        at: The index at which it has other octets.
        octets: These.
        before: Whether it comes in front of the packet, not behind it.
        flags: Of TCP, by their first letters.
    """
    role = plan.by

    def change(packets: list[TcpPacket]) -> list[TcpPacket]:
        place = find(packets, role, number)
        packet = packets[place]
        start = packet.start + first
        stream = bytearray(_sent(packets, packet.half))
        for one in packets:
            if one.half is packet.half and one.payload:
                stream[one.start : one.end] = one.payload
        payload = stream[start : packet.start + last]
        payload[at : at + len(octets)] = octets
        packets.insert(place if before else place + 1, forged(packet, start, bytes(payload), _FLAGS[flags]))
        return packets

    plan.packets.append(change)
