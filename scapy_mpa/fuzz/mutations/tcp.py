"""TCP: order, loss, repetition, overlaps that differ, sequence numbers, checksums."""

from __future__ import annotations

import random

from scapy_mpa.craft.impairments import impairment
from scapy_mpa.craft.packets import ACK, PSH, RST, SYN
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.tcppacket import SentHalf
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.sequence import seq_add
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.draw import octets, pick
from scapy_mpa.fuzz.mutations.common import Function, impaired, near, some_data

_BY_NETWORK = ("reorder", "duplicate", "lose", "retransmit", "corrupt")
_HALF_SPACE = 1 << 31


def wrap(draft: Draft, rng: random.Random) -> str | None:
    """Sequence numbers wrap within what is sent, perhaps within one field."""
    side = pick(rng, draft.sides)
    distance = pick(rng, (0, 1, 2, 3, 4, 16, 20, 21, 22, 24, below(rng, 64), below(rng, 2000)))
    side.isn = seq_add(-1, -distance)
    return f"the {side.role}'s sequence numbers wrap {distance} octets from the first"


def network(draft: Draft, rng: random.Random) -> str | None:
    """The network reorders, repeats, loses, sends again, or damages segments."""
    if not any(packet.in_operation for packet in draft.packets):
        return None
    kind = pick(rng, _BY_NETWORK)
    parameters: dict[str, object] = {"kind": kind, "probability": pick(rng, (0.1, 0.3, 0.7))}
    parameters["distance"] = 1 + below(rng, 6)
    if kind == "lose":
        parameters |= {"retransmit": rng.random() < 0.6, "resegment": rng.random() < 0.5}
    if kind == "corrupt":
        parameters["repaired"] = rng.random() < 0.5
    return impaired(draft, impairment(parameters), rng)


def fragment(draft: Draft, rng: random.Random) -> str | None:
    """Datagrams come in IP fragments, in one order or the other."""
    if not draft.packets:
        return None
    wanted = {"kind": "fragment", "mtu": pick(rng, (68, 200, 576)), "reverse": rng.random() < 0.5}
    return impaired(draft, impairment(wanted), rng)


def lost(draft: Draft, rng: random.Random) -> str | None:
    """Segments are lost and never come again; the peer acknowledges them anyway, or not."""
    data = draft.data()
    if not data:
        return None
    at = pick(rng, data)
    count = pick(rng, (1, 1, 2, 5))
    gone = [index for index in data if index >= at][:count]
    half, from_on = draft.packets[at].half, draft.packets[at].start
    forgets = rng.random() < 0.5
    kept = [packet for index, packet in enumerate(draft.packets) if index not in gone]
    if forgets:
        kept = [
            packet._replace(ack=min(packet.ack, from_on))
            if packet.half is half.peer and packet.ack is not None
            else packet
            for packet in kept
        ]
    draft.packets = kept
    return f"packets {', '.join(map(str, gone))} lost{', and not acknowledged' if forgets else ''}"


def overlap(draft: Draft, rng: random.Random) -> str | None:
    """Octets come again in another segment, and they differ."""
    found = some_data(draft, rng)
    if found is None:
        return None
    at, packet = found
    start = max(0, packet.start - below(rng, 40))
    begin = below(rng, len(packet.payload))
    size = 1 + below(rng, min(len(packet.payload) - begin + 40, 600))
    if rng.random() < 0.5:
        start = packet.start + begin
    kind = pick(rng, ("random", "zero", "one bit"))
    if kind == "one bit":
        held = bytearray(packet.payload[begin : begin + size] or b"\0")
        held[below(rng, len(held))] ^= 1 << below(rng, 8)
        start, payload = packet.start + begin, bytes(held)
    else:
        payload = octets(rng, size) if kind == "random" else bytes(size)
    place = near(draft, at, rng)
    draft.packets.insert(place, packet._replace(start=start, payload=payload, identification=rng.getrandbits(16)))
    where = "before" if place <= at else "behind"
    return f"{len(payload)} octets at stream offset {start} of the {packet.half.role} come again {where}, {kind}"


def again(draft: Draft, rng: random.Random) -> str | None:
    """A packet comes again, later or much later."""
    found = some_data(draft, rng)
    if found is None:
        return None
    at, packet = found
    times = pick(rng, (1, 1, 2, 20))
    place = at + 1 + below(rng, len(draft.packets) - at)
    draft.packets[place:place] = [packet] * times
    return f"packet {at} again as {place}, {times} times"


def order(draft: Draft, rng: random.Random) -> str | None:
    """Some packets come in another order: one late, one early, or all from the last to the first."""
    if len(draft.packets) < 3:
        return None
    start = below(rng, len(draft.packets) - 1)
    end = min(len(draft.packets), start + 2 + below(rng, 12))
    drawn = below(rng, 3)
    part = draft.packets[start:end]
    if drawn == 0:
        part.reverse()
    elif drawn == 1:
        part = part[1:] + part[:1]
    else:
        part = sorted(part, key=lambda _: rng.random())
    draft.packets[start:end] = part
    return f"packets {start} to {end - 1} {('reversed', 'the first last', 'in any order')[drawn]}"


def sequence(draft: Draft, rng: random.Random) -> str | None:
    """A segment has a sequence number far off: old, ahead, or half the space away."""
    found = some_data(draft, rng)
    if found is None:
        return None
    at, packet = found
    distance = pick(rng, (-1, 1, -4, 4, 512, -512, 65536, -65536, 1 << 24, _HALF_SPACE - 1, _HALF_SPACE, -_HALF_SPACE))
    moved = packet._replace(start=packet.start + distance)
    if rng.random() < 0.5:
        draft.packets[at] = moved
        return f"packet {at} at a sequence number {distance:+}"
    draft.packets.insert(at + 1, moved)
    return f"packet {at} again at a sequence number {distance:+}"


def acknowledgement(draft: Draft, rng: random.Random) -> str | None:
    """An acknowledgement covers octets that were never sent, or goes backwards."""
    having = [index for index, packet in enumerate(draft.packets) if packet.ack is not None]
    if not having:
        return None
    at = pick(rng, having)
    packet = draft.packets[at]
    assert packet.ack is not None
    distance = pick(rng, (1, -1, 4, -20, 1000, -1000, 65535, _HALF_SPACE))
    draft.packets[at] = packet._replace(ack=packet.ack + distance)
    return f"packet {at} acknowledges {distance:+} octets"


def checksum(draft: Draft, rng: random.Random) -> str | None:
    """A TCP checksum is not filled in, or an octet is damaged, with or without a good copy."""
    found = some_data(draft, rng)
    if found is None:
        return None
    at, packet = found
    drawn = below(rng, 4)
    if drawn < 2:
        draft.packets[at] = packet._replace(checksum="zero" if drawn else "pseudo", damage=())
        return f"packet {at}: checksum not filled in"
    damage = ((below(rng, len(packet.payload)), 1 + below(rng, 255)),)
    draft.packets[at] = packet._replace(damage=damage, checksum="before" if drawn == 2 else "right")
    comes_again = rng.random() < 0.5
    if comes_again:
        draft.packets.insert(near(draft, at, rng), packet)
    said = "wrong" if drawn == 2 else "right"
    return f"packet {at}: octet {damage[0][0]} damaged, checksum {said}{', a good copy too' if comes_again else ''}"


def probe(draft: Draft, rng: random.Random) -> str | None:
    """A keep-alive or window probe: one octet that was sent before, or none, or one ahead."""
    found = some_data(draft, rng)
    if found is None:
        return None
    at, packet = found
    offset = pick(rng, (-1, 0, len(packet.payload) - 1, len(packet.payload)))
    payload = pick(rng, (b"", b"\0", packet.payload[:1]))
    draft.packets.insert(at + 1, packet._replace(start=packet.start + offset, payload=payload, flags=ACK))
    return f"{len(payload)} octets at stream offset {packet.start + offset} behind packet {at}"


def flags(draft: Draft, rng: random.Random) -> str | None:
    """A packet has other flags: SYN or RST among data, none at all, all of them."""
    if not draft.packets:
        return None
    at = below(rng, len(draft.packets))
    packet = draft.packets[at]
    mask = pick(rng, (SYN, SYN | ACK, RST, ACK, PSH, 0x20, 0xFF, packet.flags))
    draft.packets[at] = packet._replace(flags=packet.flags ^ mask)
    return f"packet {at}: flags {packet.flags:#04x} -> {packet.flags ^ mask:#04x}"


def one_side(draft: Draft, rng: random.Random) -> str | None:
    """Only the packets of one side are captured, or those of the other come after all of the first."""
    role = pick(rng, ROLES)
    half: SentHalf = draft.half(role)
    mine = [packet for packet in draft.packets if packet.half is half]
    theirs = [packet for packet in draft.packets if packet.half is not half]
    if rng.random() < 0.5:
        draft.packets = mine
        return f"only what the {role} sent"
    draft.packets = mine + theirs
    return f"what the {role} sent comes first"


MESSAGES: tuple[Function, ...] = (wrap,)
PACKETS: tuple[Function, ...] = (
    network, fragment, lost, overlap, again, order, sequence, acknowledgement, checksum, probe, flags, one_side,
)  # fmt: skip
