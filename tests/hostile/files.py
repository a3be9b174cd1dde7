"""From a draft to the octets of a file: pcap or pcapng, compressed or not, and mutations of these octets."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

import zstandard

from scapy_mpa.craft.changes.draws import edge, pick
from scapy_mpa.craft.segments import below
from tests.capture.blocks import ENHANCED, OBSOLETE, SIMPLE, block, interface, option, others, packet, section
from tests.capture.frames import MAGICS
from tests.hostile.mutate import mutate
from tests.hostile.samples import Draft, sample_named, window

#: The layouts a capture is written in: (kind, byte order, nanoseconds in a unit of time).
LAYOUTS = tuple((kind, order, unit) for kind in ("pcap", "pcapng") for order in "<>" for unit in (1000, 1))


class Written(NamedTuple):
    """A file, its byte order, and where its records or blocks begin."""

    octets: bytearray
    order: str
    places: list[int]


class Made(NamedTuple):
    """The octets of a file, and how many they were before they were compressed."""

    octets: bytes
    size: int


FileMutation = Callable[[Written, random.Random], bytes]


class Case(NamedTuple):
    """All that says which file is meant: the sample, its window, what is done to it."""

    sample: str
    seed: int
    mutations: tuple[tuple[str, int], ...] = ()
    layout: tuple[str, str, int] = LAYOUTS[0]
    file_mutations: tuple[tuple[str, int], ...] = ()

    def made(self) -> Made:
        """The file."""
        draft = window(sample_named(self.sample), random.Random(self.seed))
        mutate(draft, self.mutations)
        written = write(draft, self.layout, random.Random(self.seed))
        octets = bytes(written.octets)
        size = len(octets)
        for name, seed in self.file_mutations:
            octets = FILE_MUTATIONS[name](written._replace(octets=bytearray(octets)), random.Random(seed))
            size = max(size, len(octets))
        return Made(octets, size)


def write(draft: Draft, layout: tuple[str, str, int], rng: random.Random) -> Written:
    """A file in one of the layouts."""
    kind, order, unit = layout
    made = _pcap(draft, order, unit) if kind == "pcap" else _pcapng(draft, order, unit, rng)
    octets, places = bytearray(), []
    for part in made:
        places.append(len(octets))
        octets += part
    return Written(octets, order, places)


def _pcap(draft: Draft, order: str, unit: int) -> list[bytes]:
    made = [MAGICS[order, unit] + struct.pack(order + "HHiIII", 2, 4, 0, 0, 65535, draft.link_type)]
    for one in draft.packets:
        seconds = one.time // 1_000_000_000 & 0xFFFFFFFF
        header = seconds, one.time % 1_000_000_000 // unit, len(one.octets), one.wire & 0xFFFFFFFF
        made.append(struct.pack(order + "4I", *header) + one.octets)
    return made


def _pcapng(draft: Draft, order: str, unit: int, rng: random.Random) -> list[bytes]:
    """Sections may be many, and of either byte order."""
    kinds = pick(rng, ((ENHANCED,), (ENHANCED, OBSOLETE), (ENHANCED, SIMPLE, OBSOLETE)))
    head = [section(order), interface(draft.link_type, order, tsresol=9 if unit == 1 else 6)]
    made = [*head, others(order)]
    for number, one in enumerate(draft.packets):
        if rng.random() < 0.02:
            made += head
        ticks = one.time // unit & 0xFFFFFFFF_FFFFFFFF
        kind = kinds[number % len(kinds)]
        made.append(packet(bytes(one.octets), ticks, order, kind=kind, wire=one.wire & 0xFFFFFFFF))
    return made


# --- mutations of the file ---


def flip_in_file(written: Written, rng: random.Random) -> bytes:
    """Change some octets anywhere."""
    octets = written.octets
    for _ in range(1 + below(rng, 8)):
        if octets:
            octets[below(rng, len(octets))] = pick(rng, (0, 1, 127, 128, 255, rng.getrandbits(8)))
    return bytes(octets)


def cut_file(written: Written, rng: random.Random) -> bytes:
    """Lose the end."""
    return bytes(written.octets[: below(rng, len(written.octets) + 1)])


def cut_out(written: Written, rng: random.Random) -> bytes:
    """Lose something in the middle."""
    at = below(rng, len(written.octets) + 1)
    return bytes(written.octets[:at] + written.octets[at + 1 + below(rng, 64) :])


def insert(written: Written, rng: random.Random) -> bytes:
    """Put in octets anywhere."""
    at = below(rng, len(written.octets) + 1)
    more = bytes(rng.getrandbits(8) for _ in range(1 + below(rng, 40)))
    return bytes(written.octets[:at] + more + written.octets[at:])


def forge_record(written: Written, rng: random.Random) -> bytes:
    """Forge a word of a record's or a block's header: a length, most often."""
    at = pick(rng, written.places) + 4 * pick(rng, (0, 1, 2, 3, 4, 5, 6))
    if at + 4 <= len(written.octets):
        (value,) = struct.unpack_from(written.order + "I", written.octets, at)
        struct.pack_into(written.order + "I", written.octets, at, edge(rng, 32, value))
    return bytes(written.octets)


def insert_block(written: Written, rng: random.Random) -> bytes:
    """Put a pcapng block between two others (in a pcap file: octets between two records)."""
    at = pick(rng, written.places)
    order = pick(rng, "<>")
    body = bytes(rng.getrandbits(8) for _ in range(below(rng, 60)))
    made = pick(
        rng,
        (
            section(order),
            section(order, option(edge(rng, 16), body, order), edge(rng, 16, 1)),
            interface(edge(rng, 16), order, tsresol=edge(rng, 8), tsoffset=rng.getrandbits(60) - (1 << 59)),
            interface(1, order, snaplen=edge(rng, 32), tsresol=rng.getrandbits(8)),
            packet(body, rng.getrandbits(64), order, index=edge(rng, 16), wire=edge(rng, 32), captured=edge(rng, 32)),
            packet(body, rng.getrandbits(64), order, kind=SIMPLE, wire=edge(rng, 32)),
            packet(body, 0, order, kind=OBSOLETE, captured=edge(rng, 32)),
            block(edge(rng, 32), body, order),
            block(pick(rng, (1, 2, 3, 6, 0x0A0D0D0A)), body, order, edge(rng, 32)),
        ),
    )
    return bytes(written.octets[:at] + made + written.octets[at:])


def compress(written: Written, rng: random.Random) -> bytes:
    """Compress by gzip or zstd, in one piece or several, and perhaps damage that."""
    at = below(rng, len(written.octets) + 1) if rng.random() < 0.3 else 0
    parts = [bytes(part) for part in (written.octets[:at], written.octets[at:]) if part] or [b""]
    if rng.random() < 0.5:
        octets = b"".join(gzip.compress(part, 1, mtime=0) for part in parts)
    else:
        octets = b"".join(zstandard.ZstdCompressor(level=1).compress(part) for part in parts)
    damage = pick(rng, (None, None, flip_in_file, cut_file, cut_out, insert))
    return octets if damage is None else damage(Written(bytearray(octets), written.order, [0]), rng)


FILE_MUTATIONS: dict[str, FileMutation] = {
    function.__name__: function
    for function in (flip_in_file, cut_file, cut_out, insert, forge_record, insert_block, compress)
}


def drawn(names: Sequence[str], rng: random.Random, most: int) -> tuple[tuple[str, int], ...]:
    """Up to ``most`` mutations and their seeds."""
    return tuple((pick(rng, names), rng.getrandbits(32)) for _ in range(below(rng, most + 1)))
