"""Hostile captures by name: each is made as long as one wants, so that time and memory can be set against its length.

Here are those of connections and of segments; floods_of_fpdus.py, floods_again.py and floods_below.py add those of
FPDUs and startup frames, of what would be looked at again and again, and of what stands below TCP.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from scapy_mpa.craft.packets import ACK, FIN, RST, SYN
from tests.hostile.flow import Flow, cuts_of, file_of
from tests.laying import lay_stream
from tests.receive.cases import REQUEST, ulpdus


class Flood(NamedTuple):
    """``make(n)`` is a capture of some n packets.

    ``rules`` are findings that one of ``packets`` leads to, ``memory`` the octets that analysing it takes at most,
    however long it is, if limits are tight and the file is read in small blocks.
    """

    make: Callable[[int], bytes]
    packets: int
    rules: tuple[str, ...]
    memory: int


#: What most floods take.
LITTLE = 1_700_000
#: What some thousand FPDUs take of a block's octets, and those of them that are remembered.
FPDUS_OF_EIGHT_OCTETS = 4_000_000
#: What connections take that come and go within a block.
MANY_CONNECTIONS = 8_000_000


FLOODS: dict[str, Flood] = {}


def add(name: str, packets: int, make: Callable[[int], bytes], *rules: str, memory: int = LITTLE) -> None:
    """Put a capture into the table."""
    assert name not in FLOODS
    FLOODS[name] = Flood(make, packets, rules, memory)


# --- connections ---


def _many(flags: int, payload: bytes, count: int) -> bytes:
    """A segment of each of so many connections."""
    flow = Flow()
    flow.put("a", 0, payload, flags=flags)
    (frame,) = flow.frames
    sources = (struct.pack("!I", number * 2654435761 & 0xFFFFFFFF) for number in range(count))
    return file_of(frame[:26] + source + frame[30:] for source in sources)


def _near(payload: bytes, count: int) -> bytes:
    """A SYN with data of each of so many connections, each 20 of one address, and its RST."""
    flow = Flow()
    flow.say("a", payload, flags=SYN)
    flow.say("b", flags=RST | ACK)
    opened, reset = flow.frames
    frames = []
    for number in range(count // 2):
        address, port = struct.pack("!I", 0x0B000000 + number // 20), struct.pack("!H", 1024 + number % 20)
        frames.append(opened[:26] + address + opened[30:34] + port + opened[36:])
        frames.append(reset[:30] + address + reset[34:36] + port + reset[38:])
    return file_of(frames)


def _state(flags: tuple[int, ...], payload: bytes, running: bool, count: int) -> bytes:
    """Segments that open and close one connection, over and over, none of them where the last one was."""
    flow = Flow()
    if running:
        flow.open().start().say("a", lay_stream(ulpdus(40), markers=False)[0])
    for number in range(count):
        flow.put("ab"[number % 2], number * 70_001, payload, flags=flags[number % len(flags)], ack=number * 7)  # type: ignore[arg-type]
    return file_of(flow.frames)


def _taking_turns(at_a_time: int, count: int) -> bytes:
    """Connections, so many at a time, of a handshake, startup frames and three Sends; none is closed."""
    octets = lay_stream(ulpdus(20, 20, 20), markers=False)[0]
    size = len(octets) // 3
    frames: list[bytes] = []
    for first in range(0, count // 8, at_a_time):
        flows = [Flow(number) for number in range(first, min(first + at_a_time, count // 8))]
        for flow in flows:
            flow.open().start().bring("a", octets, cuts_of(len(octets), size))
        frames += [flow.frames[turn] for turn in range(8) for flow in flows]
    return file_of(frames)


add("SYNs from everywhere", 8_500, partial(_many, SYN, b""), "limit", memory=MANY_CONNECTIONS)
add("an octet from everywhere", 8_500, partial(_many, ACK, b"x"), "limit", memory=MANY_CONNECTIONS)
add("text from everywhere", 300, partial(_many, ACK, b"GET / HTTP/1.1\r\n" * 9), memory=MANY_CONNECTIONS)
add("zeros from everywhere", 60, partial(_many, ACK, bytes(1200)), memory=MANY_CONNECTIONS)
add("half a Request from everywhere", 8_500, partial(_many, SYN, REQUEST[:10]), "limit", memory=MANY_CONNECTIONS)
add("connections that take turns", 4_000, partial(_taking_turns, 10), memory=MANY_CONNECTIONS)
add("SYNs twice from everywhere", 8_000, lambda count: file_of([]) + 2 * _many(SYN, b"", count // 2)[24:])
add("half a Request from nearby", 1600, partial(_near, REQUEST[:10]), "attack-unfinished-startup")
add("SYNs on one connection", 5000, partial(_state, (SYN,), b"", False))
add("SYNs on a running connection", 5000, partial(_state, (SYN, SYN | ACK), b"", True))
add("SYNs with data on a running connection", 5000, partial(_state, (SYN, SYN | ACK, ACK), b"x", True))
add("FINs and RSTs", 5000, partial(_state, (FIN | ACK, RST, RST | ACK, FIN), b"", True))
add("FINs and RSTs with data", 5000, partial(_state, (FIN | ACK, RST, ACK, FIN), b"xyz", True))


# --- segments ---


def _stream(octets: int, markers: bool, crc: bool) -> bytes:
    """A half connection of so many octets, at least."""
    sizes = [900 + 13 * number % 400 for number in range(octets // 900 + 1)]
    return lay_stream(ulpdus(*sizes), markers=markers, crc=crc)[0]


def running(begins: str, markers: bool, crc: bool) -> Flow:
    """A connection that the capture has seen from its first packet ("SYN"), from its Reply or from the middle on."""
    flow = Flow()
    if begins == "SYN":
        flow.open()
    return flow.start(markers=markers, crc=crc, request=begins == "SYN", reply=begins != "middle")


def _ordered(cuts: list[tuple[int, int]], order: str) -> list[tuple[int, int]]:
    rng = random.Random(1)
    if order == "random":
        return sorted(cuts, key=lambda _: rng.random())
    return cuts[::-1] if order == "reversed" else cuts


def _short(size: int, order: str, begins: str, markers: bool, crc: bool, count: int) -> bytes:
    """Segments of so many octets each."""
    octets = _stream(size * count, markers, crc)[: size * count]
    return file_of(running(begins, markers, crc).bring("a", octets, _ordered(cuts_of(len(octets), size), order)).frames)


def _islands(begins: str, markers: bool, count: int) -> bytes:
    """Every other segment is lost."""
    octets = _stream(20 * count, markers, True)
    cuts = cuts_of(len(octets), 10)[::2]
    return file_of(running(begins, markers, True).bring("a", octets, cuts).frames)


def _far(begins: str, every: int, count: int) -> bytes:
    """Segments in order, and from far away in between."""
    octets = _stream(40 * count, True, True)
    flow = running(begins, True, True)
    for number, (start, end) in enumerate(cuts_of(len(octets), 40)[:count]):
        flow.bring("a", octets, [(start, end)])
        if number % every == 0:
            far = (1 << 29, (1 << 30) - 1, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, -(1 << 20), -(1 << 30), -1)
            flow.put("a", flow.at["a"] + start + far[number // every % len(far)], octets[start:end])
    return file_of(flow.frames)


def _overlapping(begins: str, count: int) -> bytes:
    """Segments anywhere in 64 KiB, each with other octets."""
    rng = random.Random(1)
    flow = running(begins, True, True)
    for _ in range(count):
        payload = rng.getrandbits(8 * 64).to_bytes(64, "big") * rng.randrange(1, 20)
        flow.put("a", flow.at["a"] + rng.randrange(65536), payload)
    return file_of(flow.frames)


def _long_over_short(begins: str, count: int) -> bytes:
    """One-octet segments, and long ones that repeat all of them."""
    octets = _stream(1400, True, True)[:1400]
    flow = running(begins, True, True)
    flow.bring("a", octets, cuts_of(1400, 2)[1::2])
    for number in range(count):
        flow.bring("a", bytes([number & 255]) * 1400, [(1, 1400)])
    return file_of(flow.frames)


def _again(begins: str, count: int) -> bytes:
    """The same segment over and over."""
    octets = _stream(1000, True, True)
    return file_of(running(begins, True, True).bring("a", octets, [(0, 700)] * count).frames)


def _acknowledgements(count: int) -> bytes:
    """Acknowledgement numbers from anywhere, with a little data."""
    rng = random.Random(1)
    octets = _stream(40 * count, False, True)
    flow = running("SYN", False, True)
    for start, end in cuts_of(len(octets), 40)[:count]:
        flow.put("a", flow.at["a"] + start, octets[start:end], ack=rng.getrandbits(32))
        flow.put("b", flow.at["b"], b"", ack=rng.getrandbits(32))
    return file_of(flow.frames)


for _begins in ("SYN", "middle"):
    _from = f"from the {_begins} on"
    for _order in ("in order", "reversed", "random"):
        add(f"one-octet segments {_order}, {_from}", 2500, partial(_short, 1, _order, _begins, True, True))
        add(f"short segments {_order}, no CRC, {_from}", 2500, partial(_short, 24, _order, _begins, False, False))
    add(f"every other segment {_from}", 2500, partial(_islands, _begins, True))
    add(f"every other segment without Markers {_from}", 2500, partial(_islands, _begins, False))
    add(f"far-away segments {_from}", 1500, partial(_far, _begins, 1))
    add(f"now and then a far-away segment {_from}", 2500, partial(_far, _begins, 200))
    add(f"overlapping segments {_from}", 700, partial(_overlapping, _begins))
    add(f"long segments over short ones {_from}", 60, partial(_long_over_short, _begins))
    add(f"one segment again {_from}", 1000, partial(_again, _begins))
add("one-octet segments random, from the Reply on", 2500, partial(_short, 1, "random", "Reply", True, True))
add("every other segment from the Reply on", 2500, partial(_islands, "Reply", True))
add("overlapping segments from the Reply on", 700, partial(_overlapping, "Reply"))
add("acknowledgements from anywhere", 2500, _acknowledgements)
