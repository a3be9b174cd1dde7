"""The origins of mutations: shipped and crafted captures, packet by packet, with the places that matter marked.

A :class:`Sample` never changes; :func:`window` makes the :class:`Draft` that mutations work on.
"""

from __future__ import annotations

import functools
import io
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Literal, NamedTuple

from scapy_mpa.capture.files import Captures
from scapy_mpa.craft.bulk import BulkConnection, BulkPlan
from scapy_mpa.craft.segments import below
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import REPLY_KEY, REQUEST_KEY
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.values.segment import Segment
from tests.capture.frames import pcap_records
from tests.conftest import PCAPS

#: Octets of a draft, about: many small cases find more than few large ones.
SMALL, LARGE = 2_000, 24_000
#: A draft that begins with the first packets has so many of them before its window: TCP's and MPA's startup.
_STARTUP_PACKETS = 8
_CUTTINGS: tuple[Literal["aligned", "packed", "anywhere"], ...] = ("aligned", "packed", "anywhere")

#: What is marked in a packet. Ethernet is the link layer, whatever its type.
KINDS = ("ethernet", "ip", "tcp", "payload", "startup", "length", "marker", "ddp", "crc")


@dataclass
class Packet:
    """A captured packet; ``marks`` says where what lies in it, ``wire`` how long it was before it was cut."""

    time: int
    octets: bytearray
    wire: int
    marks: dict[str, list[int]] = field(default_factory=dict)

    def copy(self) -> Packet:
        """One that may be changed by itself."""
        return Packet(self.time, bytearray(self.octets), self.wire, {kind: [*at] for kind, at in self.marks.items()})

    def replace(self, octets: bytes) -> None:
        """Other octets, the last ones as they were: marks move along, or go with the header they mark."""
        more = len(octets) - len(self.octets)
        self.octets, self.wire = bytearray(octets), self.wire + more
        self.marks = {kind: [at + more for at in places if at + more >= 0] for kind, places in self.marks.items()}


class Sample(NamedTuple):
    """A capture: its name, link type and packets."""

    name: str
    link_type: int
    packets: tuple[Packet, ...]


@dataclass
class Draft:
    """A capture that is being mutated."""

    link_type: int
    packets: list[Packet]


def window(sample: Sample, rng: random.Random) -> Draft:
    """Some consecutive packets of a sample, most often with its first ones before them."""
    budget = SMALL + int((LARGE - SMALL) * rng.random() * rng.random())
    packets = sample.packets
    start = 0
    if sum(len(packet.octets) for packet in packets) > budget:
        start = below(rng, len(packets))
    chosen = [*packets[:_STARTUP_PACKETS]] if rng.random() < 0.8 else []
    start = max(start, len(chosen))
    for packet in packets[start:]:
        budget -= len(packet.octets) + 16
        if budget < 0:
            break
        chosen.append(packet)
    return Draft(sample.link_type, [packet.copy() for packet in chosen or packets[:4]])


@functools.cache
def samples() -> tuple[Sample, ...]:
    """All of them, in an order that does not change."""
    shipped = [_sample(path.stem, *pcap_records(path)) for path in sorted(PCAPS.glob("*.pcap"))]
    return (*shipped, *_crafted())


def sample_named(name: str) -> Sample:
    """One of them."""
    return next(sample for sample in samples() if sample.name == name)


def _crafted() -> Iterator[Sample]:
    """Captures of every way to cut a stream, with and without Markers and CRC."""
    for markers in (False, True):
        for crc in (False, True):
            for cutting in _CUTTINGS:
                plan = BulkPlan(
                    markers=markers,
                    crc=crc,
                    round_octets=6000,
                    write_octets=300,
                    write_spread=900,
                    segmentation=cutting,
                    reordered=0.3,
                )
                made = BulkConnection(plan, clock=count(1_700_000_000_000_000_000, 1_000_000), seed=5)
                packets = [(time, octets, len(octets)) for time, octets in made.packets(2)]
                yield _sample(f"crafted-{cutting}{'-markers' * markers}{'-crc' * crc}", 1, packets)


def _sample(name: str, link_type: int, records: list[tuple[int, bytes, int]]) -> Sample:
    packets = [Packet(time, bytearray(octets), wire) for time, octets, wire in records]
    file = io.BytesIO(plain_pcap(link_type, packets))
    with Captures(file) as captures:
        segments = {seg.frame: seg for batch in captures.batches() for seg in batch}
        for frame, seg in segments.items():
            _mark_headers(packets[frame - 1], seg)
    file.seek(0)
    for connection in analyze(file).connections:
        for half in (connection.initiator, connection.responder):
            for record in half.fpdus:
                there = [segments[frame] for frame in record.frames]
                first = half.fpdus[0].seq
                _mark(packets, there, "length", record.header_seq)
                _mark(packets, there, "ddp", record.header_seq + 2)
                _mark(packets, there, "crc", record.seq + record.wire_length - 4)
                for seq in range(record.seq + (first - record.seq) % 512, record.seq + record.wire_length, 512):
                    if record.markers:
                        _mark(packets, there, "marker", seq)
    return Sample(name, link_type, tuple(packets))


def _mark_headers(packet: Packet, seg: Segment) -> None:
    """Mark what every TCP segment has."""
    tcp = packet.octets.find(seg.buffer[seg.tcp : seg.tcp + 12])
    assert tcp > 0
    payload = tcp + seg.start - seg.tcp
    network = tcp - (20 if len(seg.key) == 12 else 40)
    packet.marks = {"ethernet": [0], "ip": [network], "tcp": [tcp]}
    if seg.end > seg.start:
        packet.marks["payload"] = [payload]
        if bytes(packet.octets[payload : payload + 16]) in (REQUEST_KEY, REPLY_KEY):
            packet.marks["startup"] = [payload]


def _mark(packets: list[Packet], segments: list[Segment], kind: str, seq: int) -> None:
    """Mark the octet at a sequence number where one of these segments brings it."""
    for seg in segments:
        distance = (seq - seg.seq) & SEQ_MASK
        if distance < seg.end - seg.start:
            packet = packets[seg.frame - 1]
            packet.marks.setdefault(kind, []).append(packet.marks["payload"][0] + distance)


def plain_pcap(link_type: int, packets: list[Packet]) -> bytes:
    """A file of them as they are."""
    made = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, link_type)]
    for packet in packets:
        header = packet.time // 1_000_000_000, packet.time % 1_000_000_000, len(packet.octets), packet.wire
        made.append(struct.pack("<4I", *header) + packet.octets)
    return b"".join(made)
