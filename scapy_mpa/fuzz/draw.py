"""Draws that are the same on every Python: they use ``random()`` and ``getrandbits()`` alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from scapy_mpa.craft.segments import below

T = TypeVar("T")

#: Numbers of cases are below this.
MOST_CASES = 1 << 32


def generator(seed: int, case: int) -> random.Random:
    """The generator of one case: it knows nothing of the others."""
    return random.Random(seed * MOST_CASES + case)


def weighted(rng: random.Random, among: Sequence[T], weights: Sequence[int]) -> T:
    """One of them, each as likely as its weight says."""
    at = below(rng, sum(weights))
    for one, weight in zip(among, weights, strict=True):
        at -= weight
        if at < 0:
            return one
    raise ValueError("nothing has a weight")
