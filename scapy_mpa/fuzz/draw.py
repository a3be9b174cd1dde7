"""Draws that are the same on every Python: they use ``random()`` and ``getrandbits()`` alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from scapy_mpa.craft.segments import below
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH

T = TypeVar("T")

#: Numbers of cases are below this.
MOST_CASES = 1 << 32

#: Numbers that MPA, DDP and TCP have limits at, and those that programs like to get wrong.
_EDGES = (0, 1, 2, 3, 4, 7, 8, 15, 16, 20, 127, 128, 255, 256, 508, 512, MAX_ULPDU_LENGTH, MAX_ULPDU_LENGTH + 1)


def generator(seed: int, case: int) -> random.Random:
    """The generator of one case: it knows nothing of the others."""
    return random.Random(seed * MOST_CASES + case)


def pick(rng: random.Random, among: Sequence[T]) -> T:
    """One of them."""
    return among[below(rng, len(among))]


def weighted(rng: random.Random, among: Sequence[T], weights: Sequence[int]) -> T:
    """One of them, each as likely as its weight says."""
    at = below(rng, sum(weights))
    for one, weight in zip(among, weights, strict=True):
        at -= weight
        if at < 0:
            return one
    raise ValueError("nothing has a weight")


def edge(rng: random.Random, bits: int, value: int = 0) -> int:
    """A number of so many bits that programs like to get wrong, ``value`` being the right one."""
    top = 1 << bits
    edges = (*_EDGES, top // 2 - 1, top // 2)
    choice = below(rng, 4)
    if choice == 0:
        return pick(rng, edges) % top
    if choice == 1:
        return (top - 1 - pick(rng, edges)) % top
    if choice == 2:
        return (value + below(rng, 33) - 16) % top
    return rng.getrandbits(bits)


def other_than(rng: random.Random, bits: int, value: int) -> int:
    """An ``edge`` that is not ``value``."""
    drawn = edge(rng, bits, value)
    return drawn if drawn != value else value ^ 1 << below(rng, bits)


def octets(rng: random.Random, length: int) -> bytes:
    """So many octets."""
    return rng.getrandbits(8 * length).to_bytes(length, "big") if length else b""
