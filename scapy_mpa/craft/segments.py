"""Where a stream is split into TCP segments, and in which order they are captured (RFC 5044 §5.1, A.2, A.4).

A cut is a pair (first octet, octet after the last) of stream offsets. Lists of cuts cover the stream once, in
order; only ``displace`` disturbs that order. Random choices draw from a ``random.Random`` by its ``random`` and
``getrandbits`` alone, whose results do not change between Python versions.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

from scapy_mpa.craft.stream import LaidFPDU

Cut = tuple[int, int]
T = TypeVar("T")


def below(rng: random.Random, limit: int) -> int:
    """A number from 0 to ``limit`` - 1."""
    return rng.getrandbits(32) * limit >> 32


def emss_cuts(start: int, end: int, emss: int) -> list[Cut]:
    """Full segments of ``emss`` octets and a rest: what TCP makes of a stream it knows nothing about."""
    return [(at, min(at + emss, end)) for at in range(start, end, emss)]


def aligned_cuts(fpdus: Iterable[LaidFPDU], emss: int) -> list[Cut]:
    """Return one FPDU per segment; an FPDU longer than ``emss`` begins a segment and continues in others."""
    cuts: list[Cut] = []
    for fpdu in fpdus:
        if fpdu.wire_length <= emss:
            cuts.append((fpdu.offset, fpdu.offset + fpdu.wire_length))
        else:
            cuts += emss_cuts(fpdu.offset, fpdu.end, emss)
    return cuts


def packed_cuts(fpdus: Iterable[LaidFPDU], emss: int) -> list[Cut]:
    """Return as many complete FPDUs per segment as fit ``emss``; a longer one is split as in ``aligned_cuts``."""
    cuts: list[Cut] = []
    start = end = 0
    for fpdu in fpdus:
        if end > start and fpdu.end - start > emss:
            cuts.append((start, end))
            start = end
        if end == start:
            start = fpdu.offset
        end = fpdu.end
        if end - start > emss:
            cuts += emss_cuts(start, end, emss)
            start = end
    if end > start:
        cuts.append((start, end))
    return cuts


def random_cuts(start: int, end: int, rng: random.Random, shortest: int, longest: int) -> list[Cut]:
    """Segments of ``shortest`` to ``longest`` octets, the last perhaps shorter, as a middlebox leaves them."""
    cuts: list[Cut] = []
    at = start
    while at < end:
        after = min(at + shortest + below(rng, longest - shortest + 1), end)
        cuts.append((at, after))
        at = after
    return cuts


def displace(items: Sequence[T], rng: random.Random, probability: float, distance: int) -> list[T]:
    """Reorder locally: an item is late with ``probability``, by 1 to ``distance`` of the items after it."""
    places = [
        index + 1.5 + below(rng, distance) if rng.random() < probability else index for index in range(len(items))
    ]
    return [items[index] for index in sorted(range(len(items)), key=places.__getitem__)]
