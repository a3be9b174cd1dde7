"""The classic pcap format, read in batches of TCP segments.

In: a binary file.  Out: lists of :data:`~scapy_mpa.receive.segment.Segment`, one list for each block of the
file that was read; the buffers of a batch's segments share that block's memory, so nothing is copied.

The loop over records knows the ordinary packet at a glance (one unpack for the link, IP and TCP header
without options) and leaves every other one to :mod:`~scapy_mpa.capture.ip`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct
from struct import error as StructError
from typing import Any, BinaryIO

from scapy_mpa.capture.ip import tcp_segment
from scapy_mpa.capture.link import ETHERTYPE_IPV4, ETHERTYPE_IPV6, FIXED_HEADERS, LINK_TYPES, network_layer
from scapy_mpa.errors import CaptureError
from scapy_mpa.receive.segment import Segment

#: The magic number as it stands in the file: byte order for struct, nanoseconds in one unit of the fraction.
MAGIC_NUMBERS = {
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
    bytes.fromhex("a1b23c4d"): (">", 1),
}
FILE_HEADER_LENGTH, RECORD_HEADER_LENGTH = 24, 16
#: No capture program writes longer packets; a record that claims one is damaged.
MAX_CAPTURED_LENGTH = 16 * 1024 * 1024
#: Octets read at a time: few enough for a processor's cache, enough to forget what a read costs.
BLOCK_SIZE = 1 << 19

#: The link type; above it the file header says whether and how many octets of frame check sequence there are.
_LINK_TYPE_MASK = 0x03FFFFFF

_NANOSECONDS = 1_000_000_000
#: What follows the EtherType in an IPv4 packet without options that carries TCP, and in an IPv6 packet without
#: extension headers: version, total or payload length, (fragment,) protocol, key, then TCP.
_IPV4_TCP, _IPV4_TCP_LENGTH = "BxHxxHxB2x12sIIBB", 34
_IPV6_TCP, _IPV6_TCP_LENGTH = "B3xHBx36sIIBB", 54


class PcapReader:
    """Reads one pcap file.

    ``frames`` counts the records read so far; ``damage`` says, after the last batch, what is wrong with the
    file, or is None.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        """Read the file header; raises :class:`~scapy_mpa.errors.CaptureError` if it is not one of a pcap file."""
        self.name = name
        self.frames = 0
        self.damage: str | None = None
        self._file = file
        header = _read(file, FILE_HEADER_LENGTH)
        if header[:4] not in MAGIC_NUMBERS:
            raise CaptureError(f"{name}: {_not_a_pcap(header)}")
        if len(header) < FILE_HEADER_LENGTH:
            raise CaptureError(
                f"{name}: the pcap file header is cut after {len(header)} of {FILE_HEADER_LENGTH} octets"
            )
        order, self._resolution = MAGIC_NUMBERS[header[:4]]
        (network,) = Struct(order + "I").unpack_from(header, 20)
        self.link_type = network & _LINK_TYPE_MASK
        if self.link_type not in LINK_TYPES:
            raise CaptureError(f"{name}: link type {self.link_type} is not known")
        self._record = Struct(order + "4I").unpack_from

    def batches(self, every_record: bool = False) -> Iterator[list[Segment]]:
        """Yield the segments of each block of the file.

        With ``every_record``, a record that is no TCP segment yields one with an empty key, so that captures
        can be merged by the time of every record.
        """
        carry = b""
        while block := self._file.read(BLOCK_SIZE):
            octets = carry + block if carry else block
            batch: list[Segment] = []
            used = self._records(memoryview(octets), batch, every_record)
            carry = octets[used:]
            yield batch
            if self.damage is not None:
                return
        if carry:
            self.damage = f"the last record is cut after {len(carry)} octets"

    def positions(self) -> Iterator[tuple[int, int]]:
        """Yield (time in nanoseconds, place in the file) of each record, as far as the file can be read."""
        position, carry = FILE_HEADER_LENGTH, b""
        skip = 0
        while block := self._file.read(BLOCK_SIZE):
            octets = carry + block
            at = min(skip, len(octets))
            skip -= at
            while not skip and len(octets) - at >= RECORD_HEADER_LENGTH:
                seconds, fraction, captured, _ = self._record(octets, at)
                if captured > MAX_CAPTURED_LENGTH:
                    return
                yield seconds * _NANOSECONDS + fraction * self._resolution, position
                length = RECORD_HEADER_LENGTH + captured
                position += length
                skip = max(0, length - (len(octets) - at))
                at = min(at + length, len(octets))
            carry = octets[at:]

    def segment_at(self, position: int) -> Segment | None:
        """The TCP segment of the record at a place in the file, numbered 0; None if it is none.

        Raises :class:`~scapy_mpa.errors.CaptureError` if the file cannot be read from there.
        """
        try:
            self._file.seek(position)
            header = _read(self._file, RECORD_HEADER_LENGTH)
            seconds, fraction, captured, wire = self._record(header)
            octets = memoryview(_read(self._file, captured))
        except (OSError, StructError) as error:
            raise CaptureError(f"{self.name}: cannot be read again: {error}") from error
        time = seconds * _NANOSECONDS + fraction * self._resolution
        network = network_layer(self.link_type, octets, 0, len(octets))
        if network is None:
            return None
        return tcp_segment(0, time, network[0], octets, network[1], len(octets), max(len(octets), wire))

    def _records(self, octets: memoryview, batch: list[Segment], every_record: bool) -> int:
        """Append the segments of all whole records; returns the octets used."""
        fast4, fast6, link_header = _fast_path(self.link_type)
        unpack_record, resolution, link_type = self._record, self._resolution, self.link_type
        append = batch.append
        frame, at, size = self.frames, 0, len(octets)
        minimum, minimum6 = link_header + _IPV4_TCP_LENGTH, link_header + _IPV6_TCP_LENGTH
        header4, header6 = link_header + 20, link_header + 40
        while size - at >= RECORD_HEADER_LENGTH:
            seconds, fraction, captured, wire = unpack_record(octets, at)
            start = at + RECORD_HEADER_LENGTH
            if captured > MAX_CAPTURED_LENGTH:
                self.damage = f"frame {frame + 1} claims {captured} captured octets"
                break
            end = start + captured
            if end > size:
                break
            frame += 1
            at = end
            time = seconds * _NANOSECONDS + fraction * resolution
            if captured >= minimum:
                ether_type, version, total, fragment, protocol, key, seq, ack, data_offset, flags = fast4(octets, start)
                tcp = 0
                if ether_type == ETHERTYPE_IPV4:
                    if version == 0x45 and protocol == 6 and not fragment & 0x3FFF:
                        tcp = start + header4
                        packet_end = start + link_header + total
                elif ether_type == ETHERTYPE_IPV6 and captured >= minimum6:
                    _, version, total, protocol, key, seq, ack, data_offset, flags = fast6(octets, start)
                    if version >> 4 == 6 and protocol == 6:
                        tcp = start + header6
                        packet_end = tcp + total
                if tcp and data_offset >= 0x50:
                    payload = tcp + (data_offset >> 4) * 4
                    length = packet_end - payload
                    if length >= 0 and packet_end <= end:
                        append((frame, time, key, seq, ack, flags, octets, payload, packet_end, tcp, length))
                        continue
            network = network_layer(link_type, octets, start, end)
            found = network and tcp_segment(frame, time, network[0], octets, network[1], end, max(end, start + wire))
            if found:
                append(found)
            elif every_record:
                append((frame, time, b"", 0, 0, 0, octets, start, start, -1, 0))
        self.frames = frame
        return at


def _fast_path(link_type: int) -> tuple[Callable[..., Any], Callable[..., Any], int]:
    """Unpackers for IPv4 and IPv6 and the length of the link header; never matching for other link types."""
    if link_type not in FIXED_HEADERS:
        return _no_match, _no_match, 0
    header, ether_type = FIXED_HEADERS[link_type]
    return (
        Struct(">" + ether_type + _IPV4_TCP).unpack_from,
        Struct(">" + ether_type + _IPV6_TCP).unpack_from,
        header,
    )


def _no_match(_octets: memoryview, _start: int) -> tuple[int | bytes, ...]:
    return (0, 0, 0, 0, 0, b"", 0, 0, 0, 0)


def _read(file: BinaryIO, octets: int) -> bytes:
    """So many octets, or all there are: a pipe may hand out less at a time."""
    found = b""
    while len(found) < octets and (more := file.read(octets - len(found))):
        found += more
    return found


def _not_a_pcap(header: bytes) -> str:
    if not header:
        return "the file is empty"
    if header[:4] == bytes.fromhex("0a0d0d0a"):
        return "a pcapng file; `editcap -F pcap` converts it to the pcap format that is read"
    if header[:2] == b"\x1f\x8b":
        return "a gzip file; decompress it first"
    return "not a pcap file"
