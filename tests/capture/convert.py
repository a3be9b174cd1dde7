"""Captures made over: other file formats, other link layers, tunnels, and rotated files.

A capture is its link type and its records (nanoseconds, octets, octets on the wire); what becomes of it is one or
several files. Each step stands alone, so that a test can string them together.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from tests.capture.blocks import capture_ng, interface, others, packet, section
from tests.capture.frames import VARIANTS, capture, linked, pcap_records, with_vlans
from tests.capture.test_files import ethernet_frames
from tests.capture.tunnels import TUNNELS, tunnelled

Record = tuple[int, bytes, int]
ETHERNET, RAW, COOKED, COOKED_2 = 1, 101, 113, 276


class Recorded(NamedTuple):
    """A capture, whatever its file was."""

    link_type: int
    records: list[Record]


def recorded(path: Path) -> Recorded:
    """The records of a classic pcap file."""
    return Recorded(*pcap_records(path))


def _each(path: Path, link_type: int, change: Callable[[bytes], bytes]) -> Recorded:
    """Put every frame under other headers; those that tell a length tell that of the whole packet."""
    made = []
    for time, frame, wire in ethernet_frames(path):
        missing = wire - len(frame)
        whole = change(frame + bytes(missing))
        made.append((time, whole[: len(whole) - missing], len(whole)))
    return Recorded(link_type, made)


def _under(link_type: int) -> Callable[[Path], Recorded]:
    return lambda path: _each(path, link_type, lambda frame: linked(link_type, frame))


def _tagged(*tags: tuple[int, int]) -> Callable[[Path], Recorded]:
    return lambda path: _each(path, ETHERNET, lambda frame: with_vlans(frame, *tags))


def _within(tunnel: str) -> Callable[[Path], Recorded]:
    assert tunnel in TUNNELS
    return lambda path: _each(path, ETHERNET, lambda frame: tunnelled(tunnel, frame))


#: What lies under the IP packets.
LINKS: dict[str, Callable[[Path], Recorded]] = {
    "vlan": _tagged((0x8100, 100)),
    "qinq": _tagged((0x88A8, 7), (0x8100, 100)),
    "sll": _under(COOKED),
    "sll2": _under(COOKED_2),
    "raw": _under(RAW),
    "vxlan": _within("vxlan"),
    "gre": _within("gre with all"),
}


def _pcap(order: str, unit: int, variant: str = "") -> Callable[[Recorded], bytes]:
    def make(source: Recorded) -> bytes:
        packets = [(time, frame) for time, frame, _ in source.records]
        wires = [wire for _, _, wire in source.records]
        how: dict[str, Any] = {"link_type": source.link_type, "order": order, "unit": unit, "variant": variant}
        return capture(packets, wire_lengths=wires, **how)

    return make


def _pcapng(order: str, tsresol: int) -> Callable[[Recorded], bytes]:
    return lambda source: capture_ng(source.records, source.link_type, order, tsresol=tsresol)


def _sections(source: Recorded) -> bytes:
    """Five sections of either byte order, with two interfaces each that count time in different units."""
    made = []
    size = -(-len(source.records) // 5)
    for n in range(5):
        order = "<>"[n % 2]
        made += [section(order), interface(source.link_type, order, tsresol=6), others(order)]
        made.append(interface(source.link_type, order, tsresol=9))
        for time, frame, wire in source.records[n * size : (n + 1) * size]:
            index = len(frame) % 2
            made.append(packet(frame, time if index else time // 1000, order, index=index, wire=wire))
    return b"".join(made)


#: What kind of file it is. Times are kept as they are, which microseconds can.
FORMATS: dict[str, Callable[[Recorded], bytes]] = {
    "pcap, nanoseconds, big-endian": _pcap(">", 1),
    **{f"pcap, {variant}": _pcap("<", 1000, variant) for variant in VARIANTS},
    **{f"pcap, {variant}, big-endian": _pcap(">", 1000, variant) for variant in VARIANTS},
    "pcapng": _pcapng("<", 6),
    "pcapng, nanoseconds, big-endian": _pcapng(">", 9),
    "pcapng, sections": _sections,
}
COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda octets: gzip.compress(octets, mtime=0),
    "zstd": lambda octets: zstandard.ZstdCompressor().compress(octets),
}


def rotated(source: Recorded, files: int = 10) -> list[Recorded]:
    """The capture as a capture program leaves it that begins a new file every so many packets: ``files`` at most."""
    size = max(1, -(-len(source.records) // files))
    parts = [source.records[at : at + size] for at in range(0, len(source.records), size)]
    return [Recorded(source.link_type, part) for part in parts]
