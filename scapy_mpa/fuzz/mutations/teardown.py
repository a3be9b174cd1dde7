"""The end of a connection: FIN and RST where they do not belong, data behind them, ports used again (RFC 5044 §7.2)."""

from __future__ import annotations

import random

from scapy_mpa.craft.packets import ACK, FIN, RST, SYN
from scapy_mpa.craft.segments import below
from scapy_mpa.craft.setup import CLOSES
from scapy_mpa.framing.role import ROLES
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.draw import pick
from scapy_mpa.fuzz.mutations.common import Function

_LATER = 5_000_000_000


def how(draft: Draft, rng: random.Random) -> str | None:
    """The connection ends in another way, or by the other side."""
    draft.close, draft.closes = pick(rng, CLOSES), pick(rng, ROLES)
    return f"ends by {draft.close} of the {draft.closes}"


def early(draft: Draft, rng: random.Random) -> str | None:
    """FIN or RST comes within an FPDU or a startup frame: the rest of the segment is not sent."""
    data = draft.data()
    if not data:
        return None
    at = pick(rng, data)
    packet = draft.packets[at]
    flag = pick(rng, (FIN, RST))
    kept = packet.payload[: below(rng, len(packet.payload) + 1)]
    draft.packets[at] = packet._replace(payload=kept, flags=packet.flags | flag, damage=())
    if rng.random() < 0.6:
        draft.packets = [
            other
            for index, other in enumerate(draft.packets)
            if index <= at or other.half is not packet.half or not other.payload
        ]
    return f"{'FIN' if flag == FIN else 'RST'} behind {len(kept)} of {len(packet.payload)} octets of packet {at}"


def flagged(draft: Draft, rng: random.Random) -> str | None:
    """A packet in the middle has FIN or RST, and the connection continues."""
    if not draft.packets:
        return None
    at = below(rng, len(draft.packets))
    flag = pick(rng, (FIN, RST))
    draft.packets[at] = draft.packets[at]._replace(flags=draft.packets[at].flags | flag)
    return f"packet {at}: {'FIN' if flag == FIN else 'RST'}"


def data_behind(draft: Draft, rng: random.Random) -> str | None:
    """Octets follow FIN or RST: repeated ones, or new ones."""
    data = draft.data()
    if not data:
        return None
    packet = draft.packets[pick(rng, data)]
    last = max(other.end for other in draft.packets if other.half is packet.half)
    start = packet.start if rng.random() < 0.5 else last + below(rng, 3)
    draft.packets.append(packet._replace(start=start, time=draft.packets[-1].time + 1000))
    return f"{len(packet.payload)} octets at stream offset {start} of the {packet.half.role}, last of all"


def missing(draft: Draft, rng: random.Random) -> str | None:
    """The teardown is missing, all of it or half."""
    ends = [index for index, packet in enumerate(draft.packets) if packet.flags & (FIN | RST)]
    if not ends:
        return None
    gone = {pick(rng, ends)} if rng.random() < 0.5 else set(ends)
    draft.packets = [packet for index, packet in enumerate(draft.packets) if index not in gone]
    return f"packet{'s' * (len(gone) > 1)} {', '.join(map(str, sorted(gone)))}, with FIN or RST, missing"


def ports_again(draft: Draft, rng: random.Random) -> str | None:
    """The same addresses and ports are used again at once, or much later, with other sequence numbers."""
    if len(draft.packets) > 200 or not draft.packets:
        return None
    distance = pick(rng, (0, 1, 1 << 16, 1 << 31, rng.getrandbits(32)))
    gap = pick(rng, (1000, _LATER))
    later = draft.packets[-1].time - draft.packets[0].time + gap
    again = [
        packet._replace(
            time=packet.time + later,
            start=packet.start + distance,
            ack=None if packet.ack is None else packet.ack + distance,
        )
        for packet in draft.packets
    ]
    if rng.random() < 0.3:
        again = [packet for packet in again if not packet.flags & SYN]
    draft.packets += again
    return f"all again, sequence numbers {distance:+}, {gap} ns later"


def half_closed(draft: Draft, rng: random.Random) -> str | None:
    """A side sends FIN early, and the other continues."""
    data = draft.data()
    if not data:
        return None
    at = pick(rng, data)
    packet = draft.packets[at]
    ends = [other.end for other in draft.packets[: at + 1] if other.half is packet.half]
    fin = packet._replace(start=max(ends), payload=b"", flags=FIN | ACK, damage=())
    draft.packets.insert(at + 1, fin)
    draft.packets = [
        other
        for index, other in enumerate(draft.packets)
        if index <= at + 1 or other.half is not packet.half or not other.payload
    ]
    return f"FIN of the {packet.half.role} behind packet {at}"


MESSAGES: tuple[Function, ...] = (how,)
PACKETS: tuple[Function, ...] = (early, flagged, data_behind, missing, ports_again, half_closed)
