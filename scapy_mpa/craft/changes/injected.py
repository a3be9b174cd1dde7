"""Changes by others than the two ends: forged segments, and late duplicates of an earlier connection.

Forged segments come before a packet of the side that the change is about, in its name; packets are numbered as in
``packets``.  Where they lie is counted from the octet that comes next, or from the edge of the window that the peer has
offered so far.
"""

from __future__ import annotations

from typing import Literal

from scapy_mpa.craft.changes.change import Packets, find, first, fitting, packet_change
from scapy_mpa.craft.changes.draws import a_packet, among, bits, perhaps, some_octets, up_to
from scapy_mpa.craft.injecting import SeenHalf, aged, forged, see
from scapy_mpa.craft.network import RETRANSMITTED
from scapy_mpa.craft.packets import ACK, FIN, RST, SYN
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.framing.role import Role

_FLAGS = {"": 0, "A": ACK, "R": RST, "RA": RST | ACK, "S": SYN, "SA": SYN | ACK, "FA": FIN | ACK}
_SECOND = 1_000_000_000
_TICKS_A_SECOND = 1000
_FAR = among(0, 0, 1, -1, -10, 100, 1000, 65536, 0x20000000, -0x20000000, 0x60000000, -0x60000000)


def _seen(packets: Packets) -> dict[SentHalf, SeenHalf]:
    seen: dict[SentHalf, SeenHalf] = {}
    for packet in packets:
        see(seen, packet)
    return seen


def _challenge(packets: Packets, packet: TcpPacket, sent: int, peer_sent: int) -> TcpPacket:
    """The peer says what it expects, as it does on a RST or SYN that may be forged (RFC 5961 §3.2, §4.2)."""
    like = first(reversed(packets), lambda one: one.half is packet.half.peer and one.ack is not None)
    return like._replace(time=packet.time, start=peer_sent, payload=b"", flags=ACK, ack=sent)


@packet_change(
    "attack", flags=among(*_FLAGS), far=_FAR, edge=perhaps(among(True), 0.2, False), octets=some_octets(60),
    acknowledges=perhaps(bits(32), 0.2), checksum=perhaps(among("wrong"), 0.2, "right"),
    seconds=perhaps(among(1, 60), 0.2, 0), challenged=among(False, True), believed=perhaps(among(True), 0.2, False),
)  # fmt: skip
def injected(
    packets: Packets,
    place: int,
    flags: Literal["", "A", "R", "RA", "S", "SA", "FA"] = "A",
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
    """Somebody else sends a segment before a packet.

    Args:
        packets: among which it comes.
        place: that of the packet; it begins with the octet that comes next.
        flags: Of TCP, by their first letters.
        far: How far its number is from that of this octet.
        edge: Or from the edge of the window.
        octets: That it brings.
        acknowledges: This many octets more than the peer has sent.
        checksum: Whether its TCP checksum is right.
        seconds: How much its timestamp is older.
        challenged: Whether the peer answers by what it expects.
        believed: Whether the peer takes it: after a FIN it acknowledges nothing more, after a RST it is gone.
    """
    packet, earlier, later = packets[place], packets[:place], packets[place:]
    seen = _seen(earlier)
    mine, peer = seen.get(packet.half, SeenHalf()), seen.get(packet.half.peer, SeenHalf())
    made = aged(
        forged(packet, (mine.edge if edge else packet.start) + far, octets, _FLAGS[flags]), seconds * _TICKS_A_SECOND
    )
    made = made._replace(checksum=checksum, ack=made.ack if acknowledges is None else peer.sent + acknowledges)
    answer = [_challenge(earlier, packet, mine.sent, peer.sent)] if challenged and peer.sent else []
    if believed:
        later = [one for one in (_after(made, one) for one in later) if one is not None]
    packets[:] = [*earlier, made, *answer, *later]


def _after(end: TcpPacket, packet: TcpPacket) -> TcpPacket | None:
    """Return what becomes of a packet after a FIN or RST that its sender's peer accepts."""
    if packet.half is end.half:
        return packet
    return None if end.flags & RST else packet._replace(ack=min(packet.ack or 0, end.end + 1))


@packet_change(
    "attack", before=a_packet, far=among(0x20000000, -0x20000000, 1000, 84), peer_far=perhaps(among(0)),
    seconds=among(1, 60, 3600), what=among("data", "SYN", "FIN"),
)  # fmt: skip
def late_of_earlier(
    packets: Packets,
    place: int,
    before: int,
    far: int,
    *,
    peer_far: int | None = None,
    seconds: int = 60,
    what: Literal["data", "SYN", "FIN"] = "data",
) -> None:
    """A late packet arrives from an earlier connection on the same ports.

    Args:
        packets: of the present connection.
        place: that of the packet that comes again of the earlier one (if ``what`` is data).
        before: That of the present one before which it comes.
        far: How far the sequence numbers of the side are from those of the present one.
        peer_far: The same of its peer; None: as far.
        seconds: How long before the present one the earlier one was.
        what: The packet with octets of that number, or the SYN or FIN of that side.
    """
    role = packets[place].half.role
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
    there, late = find(packets, role, before), earlier[place]
    if what != "data":
        late = _with_flag(earlier, role, SYN if what == "SYN" else FIN)
    late = late._replace(time=packets[there].time, is_injected=True)
    packets[:] = [*earlier, *packets[:there], late, *packets[there:]]


def _with_flag(packets: Packets, role: Role, flag: int) -> TcpPacket:
    return first(packets, lambda one: one.half.role == role and bool(one.flags & flag))


@packet_change("attack", octets=perhaps(some_octets(60, 1)))
def octets_in_syn(packets: Packets, place: int, octets: bytes | None = None) -> None:
    """The SYN of the side carries these octets; None: those of the packet, which is not sent."""
    packet = packets[place]
    at = packets.index(_with_flag(packets, packet.half.role, SYN))
    packets[at] = fitting(packets[at]._replace(payload=packet.payload if octets is None else octets))
    if octets is None:
        del packets[place]


@packet_change("attack")
def syn_again(packets: Packets, place: int) -> None:
    """The SYN of the side comes again, before a packet."""
    syn = _with_flag(packets, packets[place].half.role, SYN)
    identification = syn.identification ^ RETRANSMITTED
    packets.insert(place, syn._replace(time=packets[place].time, identification=identification, is_injected=True))


@packet_change(
    "attack", begin=up_to(60, -40), last=up_to(160, 20), at=up_to(60), octets=some_octets(8, 1),
    before=among(False, True), flags=among("A", "A", "", "FA"),
)  # fmt: skip
def overlapping(
    packets: Packets,
    place: int,
    begin: int,
    last: int,
    at: int,
    octets: bytes,
    *,
    before: bool = True,
    flags: Literal["", "A", "R", "RA", "S", "SA", "FA"] = "A",
) -> None:
    """Somebody else sends some octets of the side, with a few of them changed.

    Args:
        packets: of the connection.
        place: that of a packet of the side.
        begin: Where the segment begins, from the beginning of that packet.
        last: Where it ends.
        at: The index at which it has other octets.
        octets: These.
        before: Whether it comes before the packet, not after it.
        flags: Of TCP, by their first letters.
    """
    packet = packets[place]
    start = max(0, packet.start + begin)
    sent = [one for one in packets if one.half is packet.half and one.payload]
    payload = bytearray(max(0, min(packet.start + last, max(one.end for one in sent)) - start))
    for one in sent:
        part = one.payload[max(0, start - one.start) : max(0, start + len(payload) - one.start)]
        there = max(0, one.start - start)
        payload[there : there + len(part)] = part
    payload[at : at + len(octets)] = octets
    packets.insert(place if before else place + 1, forged(packet, start, bytes(payload), _FLAGS[flags]))
