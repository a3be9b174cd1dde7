"""Frames of a capture, changed or left out, written in the format that they were read from.

A pcap file gives a pcap file of the same byte order, unit of time and link type, with the ordinary headers; a pcapng
file gives one of one section, with an interface for each link type, and nothing but packets.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import BinaryIO, Final

from scapy_mpa.capture.link import ETHERNET
from scapy_mpa.capture.pcap import MAGIC_NUMBERS, PcapReader, Variant
from scapy_mpa.capture.reader import NANOSECONDS, Reader
from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.tuples import NamedTuple

_MOST_SECONDS: Final = 0xFFFFFFFF


class CapturedFrame(NamedTuple):
    """A frame: when it was captured (nanoseconds since the epoch), its link type, its octets, octets on the wire."""

    time: int
    link_type: int
    octets: bytes
    wire: int


def write_frames(reader: Reader, frames: Iterable[CapturedFrame], file: BinaryIO) -> int:
    """Write frames in the format of the capture that a reader reads; return how many."""
    return _write_pcap(reader, frames, file) if isinstance(reader, PcapReader) else _write_pcapng(frames, file)


def _write_pcap(reader: PcapReader, frames: Iterable[CapturedFrame], file: BinaryIO) -> int:
    variant = Variant(reader.order, reader.resolution)
    magic = next(magic for magic, known in MAGIC_NUMBERS.items() if known == variant)
    file.write(magic + reader.header[4:24])
    record, count = Struct(reader.order + "4I"), 0
    for time, _, octets, wire in frames:
        count += 1
        seconds, nanoseconds = divmod(time, NANOSECONDS)
        fraction = nanoseconds // reader.resolution
        file.write(record.pack(min(seconds, _MOST_SECONDS), fraction, len(octets), wire) + octets)
    return count


def _write_pcapng(frames: Iterable[CapturedFrame], file: BinaryIO) -> int:
    writer, numbers, count = None, dict[int, int](), 0
    for time, link_type, octets, wire in frames:
        count += 1
        if writer is None:
            writer, numbers = PcapngWriter(file, linktype=link_type), {link_type: 0}
        number = numbers.get(link_type)
        if number is None:
            number = numbers[link_type] = writer.add_interface(link_type)
        writer.write_cut([(time, octets, wire)], number)
    if writer is None:
        PcapngWriter(file, linktype=ETHERNET)
    return count
