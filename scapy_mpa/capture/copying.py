"""Copying frames of captures into a capture file, octets and times unchanged.

Out of pcap files of one link type a pcap file is made: of one file, or of several that are alike, with the same magic
number and the records octet for octet; of a variant with longer headers, one with the ordinary headers. Else a pcapng
file is made (draft-ietf-opsawg-pcapng), in one section, with the interfaces that are needed: descriptions and packets
are copied octet for octet but for the numbers of interfaces, as far as their byte order is that of the first packet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import BinaryIO

from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.pcap import MAGIC_NUMBERS, PcapReader, Variant
from scapy_mpa.capture.pcapng import (
    ENHANCED_PACKET,
    INTERFACE_DESCRIPTION,
    OBSOLETE_PACKET,
    OPTION_TSOFFSET,
    OPTION_TSRESOL,
    SECTION_HEADER,
    SIMPLE_PACKET,
    Interface,
    PacketBlock,
    PcapngReader,
)
from scapy_mpa.capture.reader import NANOSECONDS, Reader

_BYTE_ORDER_MAGIC, _VERSION, _LENGTH_NOT_TOLD = 0x1A2B3C4D, (1, 0), -1
#: if_tsresol: units of 10^-9 and 10^-6 seconds.
_IN_NANOSECONDS, _IN_MICROSECONDS = 9, 6
#: Where the number of the interface stands in a packet block.
_INTERFACE_AT = 8


def copy_frames(index: FrameIndex, frames: Sequence[int], file: BinaryIO) -> None:
    """Write the records of these frames, in their order, as a capture file.

    Raises :class:`~scapy_mpa.errors.CaptureError` if they cannot be read again, and OSError if they cannot be written.
    """
    readers = [*{id(reader): reader for reader, _ in index.places(frames)}.values()]
    pcap = [reader for reader in readers if isinstance(reader, PcapReader)]
    if pcap and len(pcap) == len(readers) and len({reader.network for reader in pcap}) == 1:
        _write_pcap(pcap, index.places(frames), file)
    else:
        file.writelines(PcapngCopy().blocks(index.places(frames)))


def _write_pcap(readers: list[PcapReader], places: Iterable[tuple[Reader, int]], file: BinaryIO) -> None:
    order, resolution = readers[0].order, min(reader.resolution for reader in readers)
    variant = Variant(order, resolution)
    magic = next(magic for magic, known in MAGIC_NUMBERS.items() if known == variant)
    snaplen = max(reader.snaplen for reader in readers)
    file.write(magic + readers[0].header[4:16] + Struct(order + "I").pack(snaplen) + readers[0].header[20:24])
    header = Struct(order + "4I")
    for reader, position in places:
        assert isinstance(reader, PcapReader)
        record = reader.record_at(position)
        if reader.variant._replace(file_header=variant.file_header) != variant:
            seconds, fraction, captured, wire = Struct(reader.order + "4I").unpack_from(record)
            fraction = fraction * reader.resolution // resolution
            record = header.pack(seconds, fraction, captured, wire) + record[reader.variant.record_header :]
        file.write(record)


class PcapngCopy:
    """A pcapng file of one section, made packet by packet."""

    def __init__(self) -> None:
        self._order = ""
        #: The number of each interface, by what it was in its capture.
        self._numbers: dict[tuple[int, bool], int] = {}

    def blocks(self, places: Iterable[tuple[Reader, int]]) -> Iterator[bytes]:
        """Yield the blocks of the file."""
        for reader, position in places:
            if isinstance(reader, PcapngReader):
                block, order, packet = reader.packet_at(position)
                yield from self._begin(order)
                yield from self._from_pcapng(block, order, packet)
            else:
                assert isinstance(reader, PcapReader)
                yield from self.beginning(reader)
                yield self.packet(reader, reader.record_at(position))
        yield from self._begin("<")

    def beginning(self, reader: PcapReader) -> Iterator[bytes]:
        """Yield what stands before the packets of a pcap file, as far as it was not yielded yet."""
        yield from self._begin(reader.order)
        if (id(reader), False) not in self._numbers:
            self._number((id(reader), False))
            unit = _IN_NANOSECONDS if reader.resolution == 1 else _IN_MICROSECONDS
            yield self._description(reader.link_type, reader.snaplen, unit)

    def packet(self, reader: PcapReader, record: bytes) -> bytes:
        """The packet block of a record, after :meth:`beginning`."""
        seconds, fraction, _, wire = Struct(reader.order + "4I").unpack_from(record)
        time = seconds * (NANOSECONDS // reader.resolution) + fraction
        return self._packet(self._numbers[id(reader), False], time, wire, record[reader.variant.record_header :])

    def _begin(self, order: str) -> Iterator[bytes]:
        if not self._order:
            self._order = order
            body = Struct(order + "IHHq").pack(_BYTE_ORDER_MAGIC, *_VERSION, _LENGTH_NOT_TOLD)
            yield self._block(SECTION_HEADER, body)

    def _from_pcapng(self, block: bytes, order: str, packet: PacketBlock) -> Iterator[bytes]:
        interface = packet.interface
        # A simple packet has no time of its own, so it gets one, of an interface that counts nanoseconds.
        as_it_is = packet.kind != SIMPLE_PACKET and order == self._order
        number = self._numbers.get((id(interface), as_it_is))
        if number is None:
            number = self._number((id(interface), as_it_is))
            if as_it_is and interface.description:
                yield self._block(INTERFACE_DESCRIPTION, interface.description)
            elif as_it_is:
                yield self._same_times(interface)
            else:
                yield self._description(interface.link_type, interface.snaplen, _IN_NANOSECONDS)
        if not as_it_is:
            octets = block[packet.start : packet.start + packet.captured]
            yield self._packet(number, packet.time, packet.wire, octets)
        else:
            field = Struct(order + ("H" if packet.kind == OBSOLETE_PACKET else "I")).pack(number)
            yield block[:_INTERFACE_AT] + field + block[_INTERFACE_AT + len(field) :]

    def _number(self, key: tuple[int, bool]) -> int:
        return self._numbers.setdefault(key, len(self._numbers))

    def _packet(self, number: int, ticks: int, wire: int, octets: bytes) -> bytes:
        header = Struct(self._order + "5I").pack(number, ticks >> 32, ticks & 0xFFFFFFFF, len(octets), wire)
        return self._block(ENHANCED_PACKET, header + octets)

    def _description(self, link_type: int, snaplen: int, unit: int) -> bytes:
        return self._interface(link_type, snaplen, self._option(OPTION_TSRESOL, bytes([unit])))

    def _same_times(self, interface: Interface) -> bytes:
        """A description of an interface whose own is too long to be kept."""
        options = self._option(OPTION_TSRESOL, bytes([interface.tsresol]))
        if interface.offset:
            options += self._option(OPTION_TSOFFSET, Struct(self._order + "q").pack(interface.offset // NANOSECONDS))
        return self._interface(interface.link_type, interface.snaplen, options)

    def _interface(self, link_type: int, snaplen: int, options: bytes) -> bytes:
        body = Struct(self._order + "H2xI").pack(link_type, snaplen)
        return self._block(INTERFACE_DESCRIPTION, body + options + self._option(0, b""))

    def _option(self, code: int, value: bytes) -> bytes:
        return Struct(self._order + "2H").pack(code, len(value)) + value + bytes(-len(value) % 4)

    def _block(self, kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = Struct(self._order + "I").pack(len(body) + 12)
        return Struct(self._order + "I").pack(kind) + length + body + length
