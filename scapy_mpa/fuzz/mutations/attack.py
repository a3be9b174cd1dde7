"""Segments that are none of the connection's: forged near where it is, or exactly where its receiver drops them."""

from __future__ import annotations

import random

from scapy_mpa.craft.impairments import impairment
from scapy_mpa.craft.injecting import PLACES
from scapy_mpa.craft.packets import ACK, PSH, RST, SYN
from scapy_mpa.craft.segments import below
from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.draw import edge, octets, pick
from scapy_mpa.fuzz.mutations.common import Function, impaired, near, some_data

_DISTANCES = (0, 1, 100, 65536, 1 << 20, 100_000_000, 1 << 30)


def forged(draft: Draft, rng: random.Random) -> str | None:
    """Somebody else sends a segment into the connection: octets, a SYN or a RST near the current sequence number."""
    found = some_data(draft, rng)
    if found is None:
        return None
    at, packet = found
    what = pick(rng, (ACK | PSH, SYN, RST, RST | ACK, SYN | ACK))
    payload = octets(rng, 1 + below(rng, 60)) if what & PSH or rng.random() < 0.2 else b""
    start = packet.start + pick(rng, (0, 0, 1, -1, len(packet.payload), below(rng, 3000), edge(rng, 32)))
    draft.packets.insert(near(draft, at, rng), packet._replace(start=start, payload=payload, flags=what, options=b""))
    return f"forged: flags {what:#04x}, {len(payload)} octets at stream offset {start}"


def injected(draft: Draft, rng: random.Random) -> str | None:
    """Somebody who sees the connection sends segments into it that its receiver drops, some or many."""
    if not any(packet.in_operation for packet in draft.packets):
        return None
    what = pick(rng, tuple(PLACES))
    parameters = {"kind": "inject", "what": what, "where": pick(rng, PLACES[what]), "distance": pick(rng, _DISTANCES)}
    return impaired(draft, impairment({**parameters, "probability": pick(rng, (0.1, 0.3, 1.0))}), rng)


MESSAGES: tuple[Function, ...] = ()
PACKETS: tuple[Function, ...] = (forged, injected)
