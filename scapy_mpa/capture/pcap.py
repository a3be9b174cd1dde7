"""The classic pcap format (draft-ietf-opsawg-pcap).

The loop over records knows the ordinary packet at a glance and leaves every other one to
:func:`~scapy_mpa.capture.packet.segment_in`.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.link import ETHERTYPE_IPV4, ETHERTYPE_IPV6, LINK_TYPES
from scapy_mpa.capture.ordinary import ordinary_records
from scapy_mpa.capture.packet import IPV4_TCP_LENGTH, IPV6_TCP_LENGTH, NO_SEGMENT, fast_path, segment_in
from scapy_mpa.capture.reader import MAX_CAPTURED_LENGTH, NANOSECONDS, Reader
from scapy_mpa.capture.source import Octets, read_exactly
from scapy_mpa.errors import CaptureError
from scapy_mpa.values.segment import Segment

#: The magic number as it stands in the file: byte order for struct, nanoseconds in one unit of the fraction.
MAGIC_NUMBERS = {
    bytes.fromhex("d4c3b2a1"): ("<", 1000),
    bytes.fromhex("a1b2c3d4"): (">", 1000),
    bytes.fromhex("4d3cb2a1"): ("<", 1),
    bytes.fromhex("a1b23c4d"): (">", 1),
}
FILE_HEADER_LENGTH, RECORD_HEADER_LENGTH = 24, 16

#: The link type; above it the file header says whether and how many octets of frame check sequence there are.
_LINK_TYPE_MASK = 0x03FFFFFF


class PcapReader(Reader):
    """Reads one pcap file."""

    def __init__(self, octets: Octets, name: str, fragments: Fragments) -> None:
        """Read the file header; raises :class:`~scapy_mpa.errors.CaptureError` if it cannot be used."""
        super().__init__(octets, name, fragments)
        header = read_exactly(octets, FILE_HEADER_LENGTH)
        if len(header) < FILE_HEADER_LENGTH:
            raise CaptureError(
                f"{name}: the pcap file header is cut after {len(header)} of {FILE_HEADER_LENGTH} octets"
            )
        #: The header of the file as it is, the byte order that it says, and nanoseconds in a unit of the fraction.
        self.header = header
        self.order, self.resolution = MAGIC_NUMBERS[header[:4]]
        #: The largest packet that was captured, in octets; the link type, with what stands above it.
        self.snaplen, self.network = Struct(self.order + "2I").unpack_from(header, 16)
        self.link_type = self.network & _LINK_TYPE_MASK
        if self.link_type not in LINK_TYPES:
            raise CaptureError(f"{name}: link type {self.link_type} is not known")
        self._record = Struct(self.order + "4I").unpack_from
        self._place = FILE_HEADER_LENGTH

    def _places(self, octets: bytes, place: int, found: list[tuple[int, int]]) -> int:
        at, size = 0, len(octets)
        while size - at >= RECORD_HEADER_LENGTH:
            seconds, fraction, captured, _ = self._record(octets, at)
            if captured > MAX_CAPTURED_LENGTH:
                self.damage = f"a record claims {captured} captured octets"
                break
            end = at + RECORD_HEADER_LENGTH + captured
            if end > size:
                break
            found.append((seconds * NANOSECONDS + fraction * self.resolution, place + at))
            at = end
        return at

    def _record_in(self, octets: bytes, at: int, position: int) -> tuple[int, int, bytes, int]:
        seconds, fraction, captured, wire = self._record(octets, at)
        begin = at + RECORD_HEADER_LENGTH
        time = seconds * NANOSECONDS + fraction * self.resolution
        return time, self.link_type, octets[begin : begin + captured], wire

    def _record_at(self, position: int) -> tuple[int, int, bytes, int]:
        record = self._raw_at(position)
        seconds, fraction, _, wire = self._record(record)
        return seconds * NANOSECONDS + fraction * self.resolution, self.link_type, record[RECORD_HEADER_LENGTH:], wire

    def _raw_at(self, position: int) -> bytes:
        header = read_exactly(self._octets, RECORD_HEADER_LENGTH)
        try:
            captured = self._record(header)[2]
        except StructError as error:
            raise ValueError("the file has become shorter") from error
        return header + read_exactly(self._octets, min(captured, MAX_CAPTURED_LENGTH))

    def _records(self, octets: memoryview, batch: list[Segment], every_record: bool) -> int:
        fast = fast_path(self.link_type)
        fast4, fast6, link_header = fast.ipv4, fast.ipv6, fast.header
        fragments = None if every_record else self.fragments
        unpack_record, resolution, link_type = self._record, self.resolution, self.link_type
        # tuple.__new__ is twice as quick as the class, and this is done for every packet.
        append, new_segment = batch.append, tuple.__new__
        frame, at, size, time = self.frames, 0, len(octets), self.time
        minimum, minimum6 = link_header + IPV4_TCP_LENGTH, link_header + IPV6_TCP_LENGTH
        header4, header6 = link_header + 20, link_header + 40
        ether_type_at, is_big_endian = fast.ether_type_at, self.order == ">"
        while size - at >= RECORD_HEADER_LENGTH:
            if ordinary_records is not None and ether_type_at >= 0:
                at, frame, time = ordinary_records(
                    octets, at, size, frame, time, batch, link_header, ether_type_at, is_big_endian, resolution
                )
                if size - at < RECORD_HEADER_LENGTH:
                    break
            seconds, fraction, captured, wire = unpack_record(octets, at)
            start = at + RECORD_HEADER_LENGTH
            if captured > MAX_CAPTURED_LENGTH:
                self.damage = f"frame {frame + 1 - self.before} claims {captured} captured octets"
                break
            end = start + captured
            if end > size:
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
                        values = frame, time, key, seq, ack, flags, octets, payload, packet_end, tcp, length
                        append(new_segment(Segment, values))
                        continue
            found = segment_in(frame, time, link_type, octets, start, end, max(end, start + wire), fragments)
            if found:
                append(found)
            elif every_record:
                append(Segment(frame, time, b"", 0, 0, 0, octets, start, start, NO_SEGMENT, 0))
        if frame > self.frames:
            self.time = time
        self.frames = frame
        return at
