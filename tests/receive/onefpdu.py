"""A half connection of which just one FPDU was captured whole, perhaps with octets of those before and behind it.

One that holds a Marker is found (DESIGN, "A capture that begins in the middle"). Nothing here reads what the receiver
does: where the FPDU lies is known from its being laid.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    ATOMIC_RESPONSE,
    IMMEDIATE,
    IMMEDIATE_SE,
    RDMA_WRITE,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    SEND_INVALIDATE,
    SEND_SE,
    SEND_SE_INVALIDATE,
    TERMINATE,
    tagged,
    untagged,
)
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.markers import MARKER_INTERVAL, Origin
from scapy_mpa.values.segment import Segment
from tests.receive.cases import Side, Talk, renumbered

#: Each opcode with its queue, None if tagged, and the octets that its message has, None for any number
#: (RFC 5040 §4, RFC 7306 §4, §6).
OPCODES: dict[int, tuple[int | None, int | None]] = {
    RDMA_WRITE: (None, None),
    READ_REQUEST: (1, 28),
    READ_RESPONSE: (None, None),
    SEND: (0, None),
    SEND_INVALIDATE: (0, None),
    SEND_SE: (0, None),
    SEND_SE_INVALIDATE: (0, None),
    TERMINATE: (2, 4),
    IMMEDIATE: (0, 8),
    IMMEDIATE_SE: (0, 8),
    ATOMIC_REQUEST: (1, 52),
    ATOMIC_RESPONSE: (3, 12),
}
#: Octets of the half connection before the FPDU, about: the sequence numbers are not those of an origin.
_BEFORE = 6 * MARKER_INTERVAL
#: The largest segment.
_SEGMENT = 60_000


class Lone(NamedTuple):
    """The octets of a stream around one FPDU, which lies at ``start`` to ``end`` of them."""

    octets: bytes
    start: int
    end: int
    ulpdu_length: int


def ulpdu(opcode: int, length: int, rng: random.Random, fill: bytes = b"", version: int = 1) -> bytes:
    """A ULPDU of an opcode, of about ``length`` octets if its message may have any number, all of its fields random.

    ``fill`` is repeated as its payload; nothing: random octets.
    """
    queue, fixed = OPCODES[opcode]
    size = max(0, length - (14 if queue is None else 18)) if fixed is None else fixed
    payload = (
        (fill * (size // len(fill) + 1))[:size]
        if fill
        else rng.getrandbits(8 * size + 1).to_bytes(size + 1, "big")[:size]
    )
    stag, last = rng.getrandbits(32), rng.random() < 0.5
    if queue is None:
        return tagged(opcode, stag, rng.getrandbits(64), payload, last=last, version=version)
    invalidate = stag if opcode in (SEND_INVALIDATE, SEND_SE_INVALIDATE) else 0
    return untagged(
        opcode, queue, 1 + (rng.getrandbits(32) % 100_000), payload, invalidate=invalidate, last=last, version=version
    )


def lone(
    body: bytes, marker: int, *, origin: Origin = "header", around: int = 0, crc: bool = True, seed: int = 1
) -> Lone:
    """An FPDU with a Marker ``marker`` octets behind its first octet, 0 for before its header.

    ``around`` is how many octets there are of the FPDUs before and behind it, which are larger.
    """
    rng = random.Random(seed)
    stream = HalfStream(Dialect(True, crc, origin))
    start = -marker % MARKER_INTERVAL + _BEFORE
    before = stream.lay([filler(start, rng)])[0]
    assert stream.offset == start
    octets, (laid,) = stream.lay([body])
    behind = stream.lay([ulpdu(RDMA_WRITE, around + 2000, rng)])[0]
    first = max(0, len(before) - around)
    return Lone(
        before[first:] + octets + behind[:around], start - first, start - first + len(octets), laid.ulpdu_length
    )


def filler(size: int, rng: random.Random) -> bytes:
    """The ULPDU of an FPDU that takes the first ``size`` octets of a stream."""
    markers = -(-size // MARKER_INTERVAL)
    return ulpdu(RDMA_WRITE, size - 4 * markers - 6, rng)


def said(lone: Lone, cuts: Iterable[int] = (), shuffle: random.Random | None = None, isn: int = 1000) -> list[Segment]:
    """Its octets, said by one side of a connection of which nothing else is captured: cut there, perhaps shuffled."""
    talk = Talk(isn=(isn, 5000))
    say(talk, "a", lone, cuts, shuffle)
    return renumbered(talk.segments)


def say(talk: Talk, side: Side, lone: Lone, cuts: Iterable[int] = (), shuffle: random.Random | None = None) -> None:
    """One side of a connection says what there is of one FPDU and those around it."""
    seq, size = talk.next[side], len(lone.octets)
    places = sorted({*range(0, size, _SEGMENT), *(cut for cut in cuts if cut < size), size})
    parts = list(pairwise(places))
    if shuffle is not None:
        shuffle.shuffle(parts)
    for start, end in parts:
        talk.put(side, seq + start, lone.octets[start:end])
