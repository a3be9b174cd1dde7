"""The classic pcap format (draft-ietf-opsawg-pcap), and variants of it with longer headers.

Alexey Kuznetzov's has 8 octets more in each record (interface, protocol, type of packet), IXIA's lcap 4 octets more in
the file header (the octets of all records), which do not matter here: a capture that is cut is read as far as it goes.

The loop over records knows the ordinary packet at a glance and leaves every other one to
:func:`~scapy_mpa.capture.packet.segment_in`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError
from typing import Final

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.link import LINK_TYPES, link_type_not_read
from scapy_mpa.capture.linktypes import note_not_read, refusal
from scapy_mpa.capture.ordinary import ordinary_records
from scapy_mpa.capture.packet import (
    IPV4_TCP_LENGTH,
    IPV6_TCP_LENGTH,
    NO_SEGMENT,
    UNKNOWN_LINK,
    fast_path,
    segment_in,
)
from scapy_mpa.capture.reader import MAX_CAPTURED_LENGTH, NANOSECONDS, Reader
from scapy_mpa.capture.source import Octets, read_exactly
from scapy_mpa.errors import CaptureError
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.encapsulation import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from scapy_mpa.values.segment import Segment

FILE_HEADER_LENGTH, RECORD_HEADER_LENGTH = 24, 16


class Variant(NamedTuple):
    """A variant of the format, as a magic number names it.

    Attributes:
        order: byte order, as in :mod:`struct`.
        resolution: nanoseconds in a unit of the fraction of a second.
        file_header: octets of the file header.
        record_header: octets of a record before the packet.
    """

    order: str
    resolution: int
    file_header: int = FILE_HEADER_LENGTH
    record_header: int = RECORD_HEADER_LENGTH


#: Variants by the magic number of files in big-endian order; in little-endian order it is reversed.
_VARIANTS: Final = {
    "a1b2c3d4": Variant(">", 1000),
    "a1b23c4d": Variant(">", 1),
    "a1b2cd34": Variant(">", 1000, record_header=24),
    "1c0001ac": Variant(">", 1000, file_header=28),
    "1c0001ab": Variant(">", 1000, file_header=28),
}
#: The same by the magic number as it stands in the file, in either byte order.
MAGIC_NUMBERS: Final = {bytes.fromhex(magic): variant for magic, variant in _VARIANTS.items()} | {
    bytes.fromhex(magic)[::-1]: variant._replace(order="<") for magic, variant in _VARIANTS.items()
}

#: The link type; above it the file header says how many octets of frame check sequence there are, and has reserved
#: bits, which readers ignore.
_LINK_TYPE_MASK = 0xFFFF


#: Zeros in a row that are no records: 256 of no octets, at the beginning of time.
_BLANK = 4096


def _is_blank(octets: bytes | memoryview, at: int) -> bool:
    """Return True if so many zeros follow that no capture program wrote them as records."""
    return octets[at : at + _BLANK] == bytes(_BLANK)


class PcapReader(Reader):
    """Reads one pcap file."""

    def __init__(self, octets: Octets, name: str, fragments: Fragments) -> None:
        """Read the file header; raises :class:`~scapy_mpa.errors.CaptureError` if it cannot be used."""
        super().__init__(octets, name, fragments)
        header = read_exactly(octets, FILE_HEADER_LENGTH)
        #: The variant of the format, its byte order, and nanoseconds in a unit of the fraction.
        self.variant = MAGIC_NUMBERS[header[:4]]
        self.order, self.resolution = self.variant[:2]
        #: The header of the file as it is.
        self.header = header + read_exactly(octets, self.variant.file_header - FILE_HEADER_LENGTH)
        if len(self.header) < self.variant.file_header:
            raise CaptureError(
                f"{name}: the pcap file header is cut after {len(self.header)} of {self.variant.file_header} octets"
            )
        #: The largest packet that was captured, in octets; the link type, with what stands above it.
        self.snaplen, self.network = Struct(self.order + "2I").unpack_from(header, 16)
        self.link_type = self.network & _LINK_TYPE_MASK
        if self.link_type not in LINK_TYPES:
            raise CaptureError(f"{name}: {refusal(self.link_type)}")
        #: What stands before a packet: seconds, fraction, octets captured, octets on the wire.
        self.record = Struct(f"{self.order}4I{self.variant.record_header - RECORD_HEADER_LENGTH}x")
        self._record = self.record.unpack_from
        self._place = self.variant.file_header

    def _places(self, octets: memoryview, place: int, found: list[tuple[int, int]]) -> int:
        at, size, record_header = 0, len(octets), self.variant.record_header
        while size - at >= record_header:
            seconds, fraction, captured, _ = self._record(octets, at)
            if captured > MAX_CAPTURED_LENGTH:
                self.damage = f"a record claims {captured} captured octets"
                break
            end = at + record_header + captured
            if end > size or (not captured and _is_blank(octets, at)):
                break
            found.append((seconds * NANOSECONDS + fraction * self.resolution, place + at))
            at = end
        return at

    def _record_in(self, octets: memoryview, at: int, position: int) -> tuple[int, int, bytes, int]:
        seconds, fraction, captured, wire = self._record(octets, at)
        begin = at + self.variant.record_header
        time = seconds * NANOSECONDS + fraction * self.resolution
        return time, self.link_type, bytes(octets[begin : begin + captured]), wire

    def _record_at(self, position: int) -> tuple[int, int, bytes, int]:
        record = self._raw_at(position)
        seconds, fraction, _, wire = self._record(record)
        time = seconds * NANOSECONDS + fraction * self.resolution
        return time, self.link_type, record[self.variant.record_header :], wire

    def _raw_at(self, position: int) -> bytes:
        header = read_exactly(self._octets, self.variant.record_header)
        try:
            captured = self._record(header)[2]
        except StructError as error:
            raise ValueError("the file has become shorter") from error
        return header + read_exactly(self._octets, min(captured, MAX_CAPTURED_LENGTH))

    def _records(self, octets: memoryview, batch: list[Segment], every_record: bool) -> int:
        fast = fast_path(self.link_type)
        fast4, fast6, link_header = fast.ipv4, fast.ipv6, fast.header
        fragments = self.fragments
        unpack_record, resolution, link_type = self._record, self.resolution, self.link_type
        append = batch.append
        frame, at, size, time = self.frames, 0, len(octets), self.time
        minimum, minimum6 = link_header + IPV4_TCP_LENGTH, link_header + IPV6_TCP_LENGTH
        header4, header6 = link_header + 20, link_header + 40
        ether_type_at, is_big_endian, record_header = fast.ether_type_at, self.order == ">", self.variant.record_header
        # The compiled loop knows the ordinary record header.
        compiled = ordinary_records if ether_type_at >= 0 and record_header == RECORD_HEADER_LENGTH else None
        while size - at >= record_header:
            if compiled is not None:
                at, frame, time = compiled(
                    octets, at, size, frame, time, batch, link_header, ether_type_at, is_big_endian, resolution
                )
                if size - at < record_header:
                    break
            seconds, fraction, captured, wire = unpack_record(octets, at)
            start = at + record_header
            if captured > MAX_CAPTURED_LENGTH:
                self.damage = f"frame {frame + 1 - self.before} claims {captured} captured octets"
                break
            end = start + captured
            if end > size:
                break
            if not captured and _is_blank(octets, at):
                self.damage = f"nothing but zeros follows frame {frame - self.before}"
                break
            frame += 1
            at = end
            time = seconds * NANOSECONDS + fraction * resolution
            # FastPath.segment, written out for speed.
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
                        what = key, seq, ack, flags, octets, payload, packet_end, tcp, length
                        append(Segment(frame, time, *what))
                        continue
            found = segment_in(
                frame, time, link_type, octets, start, end, max(end, start + wire), fragments, waits=every_record
            )
            if found:
                append(found)
                continue
            not_read = link_type_not_read(link_type, octets, start, end)
            if every_record:
                kind = NO_SEGMENT if not_read is None else UNKNOWN_LINK
                append(Segment(frame, time, b"", not_read or 0, 0, 0, octets, start, start, kind, 0))
            elif not_read is not None:
                note_not_read(self.notes, frame, time, not_read)
        if frame > self.frames:
            self.time = time
        self.frames = frame
        return at
