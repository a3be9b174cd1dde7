"""What a network does to packets before they are captured: delay, duplicate, lose, damage, fragment.

Each function takes packets in the order in which they were sent and gives those that arrive, in that order; chances
are drawn from the :class:`Chance` handed in. Segments of Full Operation are what it happens to: handshake,
startup frames and teardown pass. What comes late comes before the peer's next data, which was sent knowing it,
and before the connection is torn down.

``acknowledged`` then corrects acknowledgement numbers: nobody acknowledges what has not arrived; and ``stamped`` the
timestamps of what is sent again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from scapy_mpa.craft.fragments import fragment_places
from scapy_mpa.craft.packets import FIN, RST, SYN
from scapy_mpa.craft.segments import below, random_cuts
from scapy_mpa.craft.tcp import TIMESTAMPS, Arrived
from scapy_mpa.craft.tcppacket import IPFragment, SentHalf, TcpPacket
from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.ddp import UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.sequence import seq_diff

Packets = Iterator[TcpPacket]

#: What the IP identification of a retransmission differs by.
RETRANSMITTED = 0x8000
_LATER = 1000  # nanoseconds
_MOST_RECENT = 4
_LARGEST_WINDOW = 0xFFFF


def is_data(packet: TcpPacket) -> bool:
    """Return True if a packet is a segment of Full Operation, whole."""
    return packet.in_operation and bool(packet.payload) and packet.piece is None and not packet.is_injected


class Chance:
    """The packets that something happens to: each of those it applies to, with the same probability.

    Attributes:
        is_for: whether it is meant for a packet.
        rng: what it draws from.
        count: how many times it happened; whoever lets it happen counts.
    """

    def __init__(self, is_for: Callable[[TcpPacket], bool], rng: random.Random, probability: float) -> None:
        self.is_for = is_for
        self.rng = rng
        self.count = 0
        self._probability = probability

    def falls_on(self, packet: TcpPacket) -> bool:
        """Draw whether it happens to a packet."""
        return self.is_for(packet) and self.has_come()

    def has_come(self) -> bool:
        """Draw whether it happens to a packet that it is meant for."""
        return self.rng.random() < self._probability


class _Late:
    """Packets that come later: after this many more data packets of their half, or before its peer speaks."""

    def __init__(self) -> None:
        self._held: dict[SentHalf, list[tuple[int, TcpPacket]]] = {}

    def hold(self, packet: TcpPacket, count: int) -> None:
        """Let a packet come after ``count`` others."""
        self._held.setdefault(packet.half, []).append((count, packet))

    def around(self, packet: TcpPacket, passes: bool = True) -> Packets:
        """The packet (if it ``passes``), with what comes before and after it."""
        half = packet.half
        if packet.flags & (SYN | FIN | RST):
            yield from self._flush(half)
            yield from self._flush(half.peer)
        elif packet.payload:
            yield from self._flush(half.peer)
        if passes:
            yield packet
        held = self._held.get(half)
        if held and packet.payload:
            self._held[half] = [(count - 1, late) for count, late in held if count > 1]
            yield from (late for count, late in held if count <= 1)

    def rest(self) -> Packets:
        """All that is still to come."""
        for half in list(self._held):
            yield from self._flush(half)

    def _flush(self, half: SentHalf) -> Packets:
        for _, packet in self._held.pop(half, ()):
            yield packet


def reorder(packets: Packets, chance: Chance, distance: int) -> Packets:
    """A segment comes after 1 to ``distance`` of those that follow it."""
    late = _Late()
    for packet in packets:
        is_late = chance.falls_on(packet)
        yield from late.around(packet, passes=not is_late)
        if is_late:
            chance.count += 1
            late.hold(packet, 1 + below(chance.rng, distance))
    yield from late.rest()


def duplicate(packets: Packets, chance: Chance, distance: int) -> Packets:
    """A segment comes again, after at most ``distance`` of those that follow it."""
    late = _Late()
    for packet in packets:
        yield from late.around(packet)
        if chance.falls_on(packet):
            chance.count += 1
            count = below(chance.rng, distance + 1)
            if count:
                late.hold(packet, count)
            else:
                yield packet
    yield from late.rest()


def lose(packets: Packets, chance: Chance, distance: int, retransmit: bool, resegment: bool) -> Packets:
    """A segment is lost, and sent again after ``distance`` others unless ``retransmit`` is false.

    With ``resegment`` what is sent again is cut elsewhere.
    """
    late = _Late()
    for packet in packets:
        is_lost = chance.falls_on(packet)
        chance.count += is_lost
        yield from late.around(packet, passes=not is_lost)
        if is_lost and retransmit:
            for again in _resegmented([packet], chance.rng) if resegment else [_again(packet)]:
                late.hold(again, distance)
    yield from late.rest()


def retransmit(packets: Packets, chance: Chance, distance: int) -> Packets:
    """Octets that have arrived are sent again after ``distance`` other segments, cut elsewhere (RFC 5044 §A.1)."""
    late = _Late()
    recent: dict[SentHalf, list[TcpPacket]] = {}
    for packet in packets:
        yield from late.around(packet)
        if not chance.is_for(packet):
            continue
        run = recent.setdefault(packet.half, [])
        if run and run[-1].end != packet.start:
            run.clear()
        run.append(packet)
        del run[:-_MOST_RECENT]
        if chance.has_come():
            chance.count += 1
            for again in _resegmented(run[below(chance.rng, len(run)) :], chance.rng):
                late.hold(again, distance)
    yield from late.rest()


def corrupt(
    packets: Packets,
    chance: Chance,
    distance: int,
    repaired: bool,
    dropped: bool,
    resegment: bool,
    at: int | None = None,
    mask: int = 0,
    retransmit: bool = True,
) -> Packets:
    """An octet of a ULPDU, of PAD or of a CRC field is damaged: the one at ``at``, XORed with ``mask``, if given.

    With ``repaired`` the TCP checksum is still right, as a middlebox leaves it that damages what it forwards,
    and only MPA's CRC can tell. Without, the receiver drops the segment and it is sent again after ``distance``
    others, unless ``retransmit`` is false, with ``resegment`` cut elsewhere. So it is with ``repaired`` and
    ``dropped`` where CRCs are in use: the receiver notices the CRC and drops the segment without a word (RFC 5044
    §8). DDP headers, lengths and Markers are spared, and so is what was captured before.
    """
    late = _Late()
    highest: dict[SentHalf, int] = {}
    for packet in packets:
        is_new = packet.start >= highest.get(packet.half, 0)
        highest[packet.half] = max(highest.get(packet.half, 0), packet.end)
        damage: tuple[tuple[int, int], ...] = ()
        if is_new and not packet.damage and chance.falls_on(packet):
            places = damageable(packet) if at is None else [at]
            if places:
                damage = ((places[below(chance.rng, len(places))], mask or 1 + below(chance.rng, 255)),)
        if not damage:
            yield from late.around(packet)
            continue
        chance.count += 1
        bad = packet._replace(damage=damage, checksum="right" if repaired else "before")
        bad = bad._replace(is_refused=repaired and dropped and packet.half.crc)
        yield from late.around(bad)
        if bad.is_dropped and retransmit:
            for again in _resegmented([packet], chance.rng) if resegment else [_again(packet)]:
                late.hold(again, distance)
    yield from late.rest()


def fragment(packets: Packets, chance: Chance, mtu: int, reverse: bool) -> Packets:
    """IP datagrams above ``mtu`` octets come in fragments, with ``reverse`` the last one first (RFC 5044 §A.5.1)."""
    identification = 0
    for packet in packets:
        frames = packet.half.frames
        total = packet.headers - frames.tcp_at + len(packet.payload)
        if packet.piece is not None or not chance.is_for(packet) or frames.tcp_at - frames.ip_at + total <= mtu:
            yield packet
            continue
        identification += 1
        chance.count += 1
        pieces = [IPFragment(*place, total, identification) for place in fragment_places(total, mtu, frames.ip_version)]
        for piece in reversed(pieces) if reverse else pieces:
            yield packet._replace(piece=piece)


def acknowledged(packets: Packets) -> Packets:
    """Return the same packets; none of them acknowledges what its sender has not received (RFC 9293 §3.4).

    Nor does any echo a timestamp newer than that of what its sender has received in order (RFC 7323 §4.3).  What it
    offered to take stays offered: its peer has sent as much.
    """
    received: dict[SentHalf, Arrived] = {}
    recent: dict[SentHalf, int] = {}
    shifts: dict[SentHalf, int] = {}
    for packet in packets:
        if packet.is_injected:
            yield packet
            continue
        half, options = packet.half, packet.options
        has_stamps = len(options) == TIMESTAMPS.size
        if packet.flags & SYN:
            shifts[half] = packet.window_shift
        arrived = received.setdefault(half, Arrived())
        if not packet.is_dropped:
            value = int.from_bytes(options[4:8], "big")
            if has_stamps and packet.start <= arrived.rcv_nxt and seq_diff(value, recent.setdefault(half, value)) > 0:
                recent[half] = value
            after = packet.end + bool(packet.flags & (SYN | FIN))
            if after > packet.start:
                arrived.add(packet.start, after)
        if packet.ack is not None:
            known = received.setdefault(half.peer, Arrived()).rcv_nxt
            if packet.ack > known:
                more = packet.ack - known >> (0 if packet.flags & SYN else shifts.get(half, 0))
                packet = packet._replace(ack=known, window=min(packet.window + more, _LARGEST_WINDOW))
        echo = recent.get(half.peer)
        if has_stamps and echo is not None and seq_diff(int.from_bytes(options[8:12], "big"), echo) > 0:
            packet = packet._replace(options=options[:8] + echo.to_bytes(4, "big"))
        yield packet


def in_time(packets: Packets) -> Packets:
    """The same packets; what comes late has a later time."""
    last = -1
    for packet in packets:
        if packet.time <= last:
            packet = packet._replace(time=last + _LATER)
        last = packet.time
        yield packet


def stamped(packets: Packets) -> Packets:
    """The same packets; what is sent again has a TSval of the time when it is (RFC 7323 §3.2)."""
    latest: dict[SentHalf, int] = {}
    for packet in packets:
        options = packet.options
        if len(options) == TIMESTAMPS.size:
            value = TIMESTAMPS.unpack(options)[4]
            last = latest.get(packet.half, value)
            if seq_diff(value, last) >= 0:
                latest[packet.half] = value
            elif packet.is_again:
                packet = packet._replace(options=options[:4] + last.to_bytes(4, "big") + options[8:])
        yield packet


def _again(packet: TcpPacket) -> TcpPacket:
    """A retransmission."""
    identification = packet.identification ^ RETRANSMITTED
    return packet._replace(damage=(), checksum="right", identification=identification, is_refused=False, is_again=True)


def _resegmented(run: list[TcpPacket], rng: random.Random) -> list[TcpPacket]:
    """A retransmission of the end of what consecutive packets carried, cut anywhere."""
    octets = b"".join(packet.payload for packet in run)
    skipped = below(rng, len(run[0].payload)) if len(run) > 1 else 0
    longest = max(len(packet.payload) for packet in run)
    cuts = random_cuts(skipped, len(octets), rng, (longest + 2) // 3, longest)
    # It acknowledges what its sender had received when it sent the last of them (RFC 9293 §3.10.7.4: RCV.NXT).
    first = _again(run[0])._replace(ack=run[-1].ack, window=run[-1].window)
    return [first._replace(start=first.start + start, payload=octets[start:end]) for start, end in cuts]


def damageable(packet: TcpPacket) -> list[int]:
    """Return the indices in the payload at which damage leaves all lengths, DDP headers and Markers intact."""
    half = packet.half
    if half.origin is None:
        return []
    first, last = packet.start - half.origin, packet.end - half.origin
    found: list[int] = []
    for fpdu in half.fpdus_from(first):
        if fpdu.offset >= last:
            break
        body = fpdu.header_offset + LENGTH_FIELD_LENGTH + UNTAGGED_HEADER_LENGTH
        start = max(min(body, fpdu.end - CRC_LENGTH), first)
        found += [
            offset - first
            for offset in range(start, min(fpdu.end, last))
            if not half.markers or offset % MARKER_INTERVAL >= MARKER_LENGTH
        ]
    return found
