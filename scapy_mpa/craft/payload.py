"""Octets to fill messages with: the same for the same seed, on every Python, and different in every message."""

from __future__ import annotations

import functools
import random
from dataclasses import dataclass

#: Octets after which they repeat.
POOL = 1 << 17


@functools.lru_cache(maxsize=4)
def pool(seed: int) -> bytes:
    """128 KiB of random octets."""
    return random.Random(seed).getrandbits(8 * POOL).to_bytes(POOL, "big")


def generated(seed: int, start: int, length: int) -> bytes:
    """``length`` octets from the endless repetition of the pool, beginning at its octet ``start``."""
    octets = pool(seed)
    start %= POOL
    if start + length <= POOL:
        return octets[start : start + length]
    return (octets * (2 + length // POOL))[start : start + length]


@dataclass(frozen=True)
class MadeUp:
    """Octets of a payload that are made when they are sent, and so take no memory until then."""

    seed: int
    start: int
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: slice) -> bytes:
        first, after, _ = place.indices(self.length)
        return generated(self.seed, self.start + first, max(after - first, 0))

    def __bytes__(self) -> bytes:
        return self[:]
