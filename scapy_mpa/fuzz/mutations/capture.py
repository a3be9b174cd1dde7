"""What a capture lacks or has wrong: its beginning, packets, octets of packets, times (RFC 5044 has no word on it)."""

from __future__ import annotations

import random

from scapy_mpa.craft.impairments import Pipeline, impairment
from scapy_mpa.craft.segments import below
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.draw import pick
from scapy_mpa.fuzz.mutations.common import Function
from scapy_mpa.values.words import plural

_SECOND = 1_000_000_000


def begins_late(draft: Draft, rng: random.Random) -> str | None:
    """The first packets are missing: the handshake, a startup frame, some FPDUs."""
    if len(draft.packets) < 2:
        return None
    count = 1 + below(rng, min(len(draft.packets) - 1, 12))
    del draft.packets[:count]
    return f"the first {count} packets missing"


def ends_early(draft: Draft, rng: random.Random) -> str | None:
    """The last packets are missing."""
    if len(draft.packets) < 2:
        return None
    count = 1 + below(rng, len(draft.packets) - 1)
    del draft.packets[-count:]
    return f"the last {count} packets missing"


def misses(draft: Draft, rng: random.Random) -> str | None:
    """Packets that arrived are missing."""
    chance = pick(rng, (0.05, 0.2, 0.5))
    kept = [packet for packet in draft.packets if rng.random() >= chance]
    gone = len(draft.packets) - len(kept)
    if not gone or not kept:
        return None
    draft.packets = kept
    return f"{plural(gone, 'packet')} missing"


def snapped(draft: Draft, rng: random.Random) -> str | None:
    """The capture keeps a part of each packet."""
    draft.snaplen = pick(rng, (40, 54, 60, 66, 68, 74, 80, 96, 100, 128, 160, 256, 576, 1000))
    return f"{draft.snaplen} octets a packet"


def twice(draft: Draft, rng: random.Random) -> str | None:
    """Every packet is captured twice, or some are."""
    if len(draft.packets) > 400:
        return None
    chance = pick(rng, (1.0, 0.3))
    draft.packets = [packet for one in draft.packets for packet in ([one] * (2 if rng.random() < chance else 1))]
    return "packets captured twice"


def times(draft: Draft, rng: random.Random) -> str | None:
    """Times jitter, stand still, or jump."""
    if not draft.packets:
        return None
    drawn = below(rng, 3)
    if drawn == 0:
        jitter = impairment({"kind": "jitter", "seconds": pick(rng, (0.00001, 0.01, 10.0))})
        draft.packets = list(Pipeline([jitter], rng.getrandbits(16)).apply(iter(draft.packets)))
        return "times jitter"
    if drawn == 1:
        first = draft.packets[0].time
        draft.packets = [packet._replace(time=first) for packet in draft.packets]
        return "times stand still"
    at = below(rng, len(draft.packets))
    jump = pick(rng, (-10, 1, 10, 100, 100_000)) * _SECOND
    draft.packets[at:] = [packet._replace(time=max(0, packet.time + jump)) for packet in draft.packets[at:]]
    return f"times jump by {jump // _SECOND} s at packet {at}"


def direction(draft: Draft, rng: random.Random) -> str | None:
    """Of one side only acknowledgements were captured, or nothing from some packet on."""
    if not draft.packets:
        return None
    half = pick(rng, draft.packets).half
    at = below(rng, len(draft.packets))
    kept = [packet for index, packet in enumerate(draft.packets) if index < at or packet.half is not half]
    if not kept or len(kept) == len(draft.packets):
        return None
    draft.packets = kept
    return f"nothing of the {half.role} from packet {at} on"


MESSAGES: tuple[Function, ...] = ()
PACKETS: tuple[Function, ...] = (begins_late, ends_early, misses, snapped, twice, times, direction)
