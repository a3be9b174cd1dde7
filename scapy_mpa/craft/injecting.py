"""Segments that their sender never sent: forged by somebody on the path, or left over from an earlier connection.

``inject`` puts them among the packets of a connection.  Whoever forges them has seen every packet before that place, so
they lie exactly where they are meant to: beyond the window, before it, within it.  All of them are segments that a TCP
receiver does not take (RFC 9293 §3.10.7.4, RFC 5961, RFC 7323 §5), or, with a CRC in use, whose octets MPA refuses, so
that the connection itself stays what it is.  Those that a receiver would believe are in the catalogue of malformed
cases.

The functions above ``inject`` make one such segment from a packet of the side in whose name it comes.
"""

from __future__ import annotations

import random
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from scapy_mpa.craft.network import Chance, damageable
from scapy_mpa.craft.packets import ACK, FIN, RST, SYN
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.tcp import Arrived
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket, damaged
from scapy_mpa.framing.sequence import SEQ_MASK

#: What is injected, and where it may lie so that the connection stays what it is; the first is the usual place.
PLACES: Final[Mapping[str, tuple[str, ...]]] = {
    "rst": ("ahead", "behind", "acknowledged", "window"),
    "syn": ("ahead", "behind", "acknowledged", "window"),
    "fin": ("ahead", "behind", "acknowledged"),
    "data": ("ahead", "behind", "acknowledged", "window"),
    "startup": ("ahead", "behind"),
    "ack": ("ahead",),
    "checksum": ("window",),
    "timestamp": ("window",),
}
#: All places, in words.
WHERE: Final[Mapping[str, str]] = {
    "ahead": "`distance` octets beyond the window; for an acknowledgement, beyond what was sent",
    "behind": "`distance` octets before the SYN",
    "acknowledged": "among octets that were acknowledged",
    "window": "in the window, but not next; octets in place of those that are due next",
}

#: What the IP identification of a forged packet differs by.
_FORGED: Final = 0x4000
#: What every forged octet differs by from the one in whose place it stands.
_OTHER: Final = 0x5A
#: Octets of data that are forged where nothing is known about what belongs there.
_OCTETS: Final = 40
#: Acknowledgement numbers that are remembered: a RST with one of them is an answer.
_REMEMBERED: Final = 64
#: TSval and TSecr, and what stands before them: no operation twice, kind, length (RFC 7323 §3.2).
_TIMESTAMPS: Final = struct.Struct("!II")
_TIMESTAMPS_OPTION: Final = b"\x01\x01\x08\x0a"
_TICKS_OF_AN_HOUR: Final = 3_600_000


def forged(packet: TcpPacket, start: int, payload: bytes = b"", flags: int = ACK) -> TcpPacket:
    """A segment at the stream offset ``start``, otherwise as the side of ``packet`` would send it now."""
    return packet._replace(
        start=start,
        payload=payload,
        flags=flags,
        ack=packet.ack if flags & ACK else None,
        options=packet.options if not flags & SYN else b"",
        identification=packet.identification ^ _FORGED,
        damage=(),
        checksum="right",
        piece=None,
        is_refused=False,
        is_injected=True,
    )


def others(octets: bytes) -> bytes:
    """Return as many octets, each of them different."""
    return bytes(octet ^ _OTHER for octet in octets)


def aged(packet: TcpPacket, ticks: int = _TICKS_OF_AN_HOUR) -> TcpPacket:
    """The same segment with older timestamps (RFC 7323 §3.2); unchanged if it has none."""
    options = packet.options
    at = options.find(_TIMESTAMPS_OPTION)
    if at < 0:
        return packet
    at += len(_TIMESTAMPS_OPTION)
    value, echo = _TIMESTAMPS.unpack_from(options, at)
    older = _TIMESTAMPS.pack((value - ticks) & SEQ_MASK, (echo - ticks) & SEQ_MASK if echo else 0)
    return packet._replace(options=options[:at] + older + options[at + _TIMESTAMPS.size :])


class SeenHalf:
    """What somebody on the path has seen of one half connection, as offsets in its stream.

    Attributes:
        received: which octets have arrived.
        sent: after the highest octet, a FIN included.
        acknowledged: up to where its peer has acknowledged.
        edge: up to where its peer lets it send.
        startup: the first segment with octets of its startup frame.
    """

    def __init__(self) -> None:
        self.received = Arrived()
        self.sent = 0
        self.acknowledged = 0
        self.edge = 0
        self.startup = b""
        self._shift = 0
        self._numbers: deque[int] = deque(maxlen=_REMEMBERED)

    def send(self, packet: TcpPacket) -> None:
        """A packet of this half passes."""
        flags, half = packet.flags, packet.half
        end = packet.end + bool(flags & (SYN | FIN))
        self.sent = max(self.sent, end)
        if end > packet.start and not packet.is_dropped:
            self.received.add(packet.start, end)
        if flags & SYN:
            self._shift = packet.window_shift
        if not self.startup and packet.payload and half.startup is not None and packet.start == half.startup[0]:
            self.startup = packet.payload

    def be_acknowledged(self, packet: TcpPacket, peer: SeenHalf) -> None:
        """A packet of its peer passes."""
        if packet.ack is not None:
            self.acknowledged = max(self.acknowledged, packet.ack)
            self._numbers.append(packet.ack)
            self.edge = max(self.edge, packet.ack + (packet.window << (0 if packet.flags & SYN else peer._shift)))

    def is_answer(self, offset: int) -> bool:
        """Return True if its peer recently acknowledged exactly this much."""
        return offset in self._numbers


def see(seen: dict[SentHalf, SeenHalf], packet: TcpPacket) -> None:
    """Note that a packet passes, in what has been seen of its half connection and of its peer's."""
    mine, peer = (seen.setdefault(half, SeenHalf()) for half in (packet.half, packet.half.peer))
    mine.send(packet)
    peer.be_acknowledged(packet, mine)


def _start(seen: SeenHalf, what: str, where: str, distance: int, rng: random.Random) -> int | None:
    """The stream offset of a forged segment without octets, None where there can be none."""
    if where == "ahead":
        return max(seen.edge, seen.sent) + distance
    if where == "behind":
        return -1 - distance
    if where == "window":
        first = seen.received.rcv_nxt + 1
        room = min(seen.edge, first + (1 << 16)) - first
        return first + below(rng, room) if room > 0 else None
    start = 1 + below(rng, seen.acknowledged - 1) if seen.acknowledged > 1 else None
    return None if start is None or (what == "rst" and seen.is_answer(start)) else start


def _data(packet: TcpPacket, seen: SeenHalf, where: str, distance: int, rng: random.Random) -> TcpPacket | None:
    """Forged octets before a packet; those in place of others differ in every one of them."""
    half = packet.half
    if where == "window":
        # Where a length or a Marker differs, what a receiver can still find is nothing that a sender could know.
        damage = _refused(packet, seen)
        return forged(packet, packet.start, damaged(packet.payload, damage)) if damage else None
    if where == "acknowledged":
        # Somebody on the path knows what was acknowledged: what is before this packet was, if anything.
        payload, start = seen.startup, half.startup[0] if half.startup is not None else 0
        is_known = bool(payload) and start + len(payload) <= seen.acknowledged
        return forged(packet, start, others(payload)) if is_known else None
    octets = bytes(below(rng, 256) for _ in range(_OCTETS))
    start = -1 - distance - len(octets) if where == "behind" else max(seen.edge, seen.sent) + distance
    return forged(packet, start, octets)


def _refused(packet: TcpPacket, seen: SeenHalf) -> tuple[tuple[int, int], ...]:
    """Return changes that spoil every FPDU with octets in the next packet in order; none if impossible."""
    half = packet.half
    if not half.crc or half.origin is None or packet.damage or packet.start != seen.received.rcv_nxt:
        return ()
    places, first = damageable(packet), packet.start - half.origin
    for fpdu in half.fpdus_from(first):
        if fpdu.offset >= first + len(packet.payload):
            break
        if not any(fpdu.offset <= first + index < fpdu.end for index in places):
            return ()
    return tuple((index, _OTHER) for index in places)


def _made(
    packet: TcpPacket, seen: dict[SentHalf, SeenHalf], what: str, where: str, distance: int, rng: random.Random
) -> TcpPacket | None:
    """Return what is injected before a packet, None where nothing can be."""
    mine = seen[packet.half]
    if what == "data":
        return _data(packet, mine, where, distance, rng)
    if what == "checksum":
        return forged(packet, packet.start, others(packet.payload))._replace(checksum="wrong")
    if what == "timestamp":
        old = aged(forged(packet, packet.start, others(packet.payload)))
        return None if old.options == packet.options else old
    if what == "ack":
        peer = seen.get(packet.half.peer)
        behind = peer.sent + distance if peer is not None else None
        return None if behind is None else forged(packet, mine.received.rcv_nxt)._replace(ack=behind)
    start = _start(mine, what, where, distance, rng)
    if start is None or (what == "startup" and not mine.startup):
        return None
    if what == "startup":
        return forged(packet, start - (len(mine.startup) if where == "behind" else 0), mine.startup)
    return forged(packet, start, b"", {"rst": RST | ACK, "syn": SYN, "fin": FIN | ACK}[what])


def inject(packets: Iterable[TcpPacket], chance: Chance, what: str, where: str, distance: int) -> Iterator[TcpPacket]:
    """Segments that do not belong to the connection come before some of its own (see ``PLACES``)."""
    seen: dict[SentHalf, SeenHalf] = {}
    for packet in packets:
        if packet.is_injected:
            yield packet
            continue
        seen.setdefault(packet.half, SeenHalf())
        seen.setdefault(packet.half.peer, SeenHalf())
        if chance.falls_on(packet):
            made = _made(packet, seen, what, where, distance, chance.rng)
            if made is not None:
                chance.count += 1
                yield made
                packet = packet._replace(time=packet.time + 1)
        see(seen, packet)
        yield packet
