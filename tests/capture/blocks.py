"""Writes pcapng block by block, in the tests' own plain way."""

from __future__ import annotations

import struct
from collections.abc import Iterable

ENHANCED, SIMPLE, OBSOLETE = 6, 3, 2


def block(kind: int, body: bytes, order: str = "<", length: int | None = None) -> bytes:
    """A block; ``length`` if it claims another one than it has."""
    body += bytes(-len(body) % 4)
    told = struct.pack(order + "I", len(body) + 12 if length is None else length)
    return struct.pack(order + "I", kind) + told + body + told


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) % 4)


def section(order: str = "<", options: bytes = b"", major: int = 1) -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1) + options, order)


def interface(
    link_type: int = 1,
    order: str = "<",
    *,
    snaplen: int = 0,
    tsresol: int | None = None,
    tsoffset: int | None = None,
) -> bytes:
    """An interface description; its other options stand around those that count."""
    options = option(2, b"eth0", order)
    if tsresol is not None:
        options += option(9, bytes([tsresol]), order)
    if tsoffset is not None:
        options += option(14, struct.pack(order + "q", tsoffset), order)
    options += option(12, b"an operating system", order) + option(0, b"", order)
    return block(1, struct.pack(order + "HHI", link_type, 0, snaplen) + options, order)


def packet(
    frame: bytes,
    ticks: int = 0,
    order: str = "<",
    *,
    kind: int = ENHANCED,
    index: int = 0,
    wire: int | None = None,
    captured: int | None = None,
    options: bytes = b"",
) -> bytes:
    """A packet block of any of the three kinds; ``captured`` if it claims what it has not."""
    lengths = len(frame) if captured is None else captured, len(frame) if wire is None else wire
    data = frame + bytes(-len(frame) % 4)
    if kind == SIMPLE:
        return block(SIMPLE, struct.pack(order + "I", lengths[1]) + data, order)
    ends = ticks >> 32, ticks & 0xFFFFFFFF, *lengths
    if kind == OBSOLETE:
        return block(OBSOLETE, struct.pack(order + "HHIIII", index, 3, *ends) + data + options, order)
    return block(ENHANCED, struct.pack(order + "IIIII", index, *ends) + data + options, order)


#: Blocks that say nothing about packets: name resolution, interface statistics, custom, unknown to all.
OTHERS = ((4, bytes(40)), (5, bytes(12)), (0xBAD, b"\0\0\x7f\x01abc"), (0x40000BAD, bytes(6)), (0x77777777, b""))


def others(order: str = "<") -> bytes:
    return b"".join(block(kind, body, order) for kind, body in OTHERS)


def capture_ng(
    packets: Iterable[tuple[int, bytes, int]],
    link_type: int = 1,
    order: str = "<",
    *,
    tsresol: int = 9,
    kinds: tuple[int, ...] = (ENHANCED,),
) -> bytes:
    """One section with one interface of (nanoseconds, octets, wire length)."""
    found = [section(order), others(order), interface(link_type, order, tsresol=tsresol)]
    for number, (time, frame, wire) in enumerate(packets):
        ticks = time // 10 ** (9 - tsresol)
        kind = kinds[number % len(kinds)]
        found.append(packet(frame, ticks, order, kind=kind, wire=wire, options=option(1, b"a comment", order)))
    return b"".join(found) + others(order)
