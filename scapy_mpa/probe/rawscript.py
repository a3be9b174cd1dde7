"""What one side of a case does if it builds its segments itself: each of them, whatever it is, in order.

``script_of`` reads the octets and the waits of a case; here come with them the segments that no kernel would send:
those of forgers, of an earlier connection, a second SYN, a RST after which the side continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from scapy_mpa.craft.exchange import FrameChange
from scapy_mpa.craft.fragments import headed
from scapy_mpa.craft.packets import ACK, RST, SYN
from scapy_mpa.craft.tcp import TIMESTAMPS
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket, octets_of
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.probe.script import Send, Step, script_of
from scapy_mpa.tuples import NamedTuple

#: This close to the edge of the window a forged segment is about the edge.
_NEAR = 16
#: Milliseconds by which a timestamp must be older to count as old.
_OLD = 1000
_IP_AT, _TCP_AT = 14, 34
_MORE, _OFFSET = 0x2000, 0x1FFF


class Forge(NamedTuple):
    """A segment that belongs to no stream.

    Attributes:
        packet: it, with octets, flags and checksum.
        start: where it begins in our stream, whoever's it is.
        from_edge: where it begins from the edge of the peer's window, where that is what it is about.
        ack: how much it acknowledges beyond what has come of the peer; None: nothing.
        older: by how many milliseconds its timestamp is older than ours are then.
    """

    packet: TcpPacket
    start: int
    from_edge: int | None = None
    ack: int | None = None
    older: int = 0


class WirePiece(NamedTuple):
    """How an IPv4 packet, or a part of it, is sent: its TTL, flags and fragment offset, and type of service.

    Of what follows the header it has the octets from ``first`` to ``last`` (None: to the end).
    """

    ttl: int
    fragment: bytes
    first: int = 0
    last: int | None = None
    service: int = 0

    def of(self, frame: bytes) -> bytes:
        """This part of a frame."""
        rest = frame[_TCP_AT:][self.first : self.last]
        total = (_TCP_AT - _IP_AT + len(rest)).to_bytes(2, "big")
        changes = {1: bytes((self.service,)), 2: total, 6: self.fragment, 8: bytes((self.ttl,))}
        return headed(frame[:_TCP_AT] + rest, changes)


class Shaped(NamedTuple):
    """A segment of the stream whose IP header is not as usual: as ``script.Send``, with what it is sent as."""

    packet: TcpPacket
    pieces: tuple[WirePiece, ...]

    @property
    def octets(self) -> bytes:
        """Its content."""
        return self.packet.payload


RawStep: TypeAlias = "Step | Forge | Shaped"


class _Plan:
    """What the plan says about the connection so far."""

    def __init__(self, own: SentHalf) -> None:
        self._own = own
        self._edge = self._peer_sent = 0
        self._stamp: int | None = None
        self._shift = 0

    def note(self, packet: TcpPacket) -> None:
        """A packet of the connection passes."""
        if packet.half is self._own:
            stamp = _stamp_of(packet)
            self._stamp = stamp if stamp is not None else self._stamp
        elif packet.half is self._own.peer and not packet.is_injected:
            self._shift = packet.window_shift if packet.flags & SYN else self._shift
            self._peer_sent = max(self._peer_sent, packet.end)
            shift = 0 if packet.flags & SYN else self._shift
            self._edge = max(self._edge, (packet.ack or 0) + (packet.window << shift))

    def forge(self, packet: TcpPacket) -> Forge:
        """A segment that does not belong to the connection, positioned relative to it."""
        half, own = packet.half, self._own
        start = packet.start + seq_diff(half.isn, own.isn)
        near = start - self._edge
        ack = None
        if packet.flags & ACK and packet.ack is not None:
            ack = max(0, packet.ack + seq_diff(half.peer.isn, own.peer.isn) - self._peer_sent)
        stamp, older = _stamp_of(packet), 0
        if stamp is not None and self._stamp is not None:
            older = max(0, seq_diff(self._stamp & SEQ_MASK, stamp))
        return Forge(packet, start, near if abs(near) <= _NEAR else None, ack, older if older >= _OLD else 0)


def _stamp_of(packet: TcpPacket) -> int | None:
    """TSval of a segment with timestamps and nothing else, which every one but a SYN has."""
    return int(TIMESTAMPS.unpack(packet.options)[4]) if len(packet.options) == TIMESTAMPS.size else None


def own_half(packets: Iterable[TcpPacket], by: Role) -> SentHalf:
    """The half connection of a side, that of an earlier connection aside."""
    return [packet.half for packet in packets if packet.half.role == by and not packet.is_injected][-1]


def _shapes(packets: list[TcpPacket], wire: Sequence[FrameChange]) -> dict[int, tuple[WirePiece, ...]]:
    """Return how packets are sent, by identity, where changes to what is captured change the IP header."""
    if packets[0].half.frames.ip_version != 4:
        return {}
    altered = [(packet.time, octets_of(packet)) for packet in packets]
    plain = {packet.time: octets_of(packet._replace(header=())) for packet in packets}
    for change in wire:
        altered = change([*altered])
    found: dict[int, tuple[WirePiece, ...]] = {}
    for packet in packets:
        parts = [frame for time, frame in altered if time == packet.time]
        if packet.payload and parts and parts != [plain[packet.time]]:
            found[id(packet)] = tuple(map(_piece, parts))
    return found


def _piece(frame: bytes) -> WirePiece:
    field = int.from_bytes(frame[_IP_AT + 6 : _IP_AT + 8], "big")
    first, size = (field & _OFFSET) * 8, len(frame) - _TCP_AT
    last = first + size if field & _MORE else None
    return WirePiece(frame[_IP_AT + 8], frame[_IP_AT + 6 : _IP_AT + 8], first, last, frame[_IP_AT + 1])


def raw_script_of(packets: list[TcpPacket], by: Role, wire: Sequence[FrameChange] = ()) -> list[RawStep]:
    """The steps of a side, with every segment that is sent in its name; ``wire`` changes what is captured of them."""
    own = own_half(packets, by)
    plan = _Plan(own)
    kept: list[TcpPacket] = []
    forged: dict[int, Forge] = {}
    has_syn = False
    for packet in packets:
        is_second = bool(packet.flags & SYN) and has_syn
        is_reset = bool(packet.flags & RST) and packet is not packets[-1]
        if packet.half.role == by and (packet.is_injected or (packet.half is own and (is_second or is_reset))):
            forged[id(packet)] = plan.forge(packet)
        elif packet.half not in (own, own.peer):
            # What the connection before was, nobody has to see.
            continue
        else:
            plan.note(packet)
            has_syn = has_syn or (packet.half is own and bool(packet.flags & SYN))
        kept.append(packet)
    steps = script_of(kept, by, lambda packet: id(packet) in forged)
    shapes = _shapes(packets, wire)
    found: list[RawStep] = []
    for step in steps:
        if isinstance(step, Send) and id(step.packet) in forged:
            found.append(forged[id(step.packet)])
        elif isinstance(step, Send) and id(step.packet) in shapes:
            found.append(Shaped(step.packet, shapes[id(step.packet)]))
        else:
            found.append(step)
    return found
