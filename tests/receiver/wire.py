"""Octets of startup frames, FPDUs, DDP headers and TCP segments, written from the RFCs alone.

Nothing of the package under test is imported here: RFC 5044 §4 and §7.1, RFC 6581 §9, RFC 5041 §4, RFC 5040 §4,
RFC 9293 §3.1, RFC 7323 §2 and §3, RFC 2018 §3.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10
MARKER_INTERVAL = 512
#: MPA startup flags (RFC 5044 §7.1.1, RFC 6581 §9.1).
M_FLAG, C_FLAG, S_FLAG = 0x80, 0x40, 0x10


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _crc_table()


def crc32c(octets: bytes | bytearray) -> int:
    """Return the CRC32c of RFC 3720 appendix B.4, which RFC 5044 §4.4 uses."""
    value, table = 0xFFFFFFFF, _CRC_TABLE
    for octet in octets:
        value = value >> 8 ^ table[(value ^ octet) & 0xFF]
    return value ^ 0xFFFFFFFF


def startup_frame(is_request: bool, *, markers: bool, crc: bool, revision: int = 1, private_data: bytes = b"") -> bytes:
    """Return a Request or a Reply; ``markers`` is M: the sender of the frame wants to receive Markers.

    Revision 2 carries the enhanced connection data of RFC 6581 §9.2 in front of the Private Data, with no
    control flag set (client-server), IRD and ORD 16.
    """
    flags = M_FLAG * markers | C_FLAG * crc
    if revision == 2:
        flags |= S_FLAG
        private_data = struct.pack("!HH", 16, 16) + private_data
    key = b"MPA ID Req Frame" if is_request else b"MPA ID Rep Frame"
    return key + struct.pack("!BBH", flags, revision, len(private_data)) + private_data


class FPDU(NamedTuple):
    """Where an FPDU lies, in octets from the first one of Full Operation of its direction."""

    start: int
    #: Offset of its ULPDU_Length, behind a leading Marker.
    header: int
    end: int
    ulpdu_length: int
    markers: int
    opcode: str


def encode_fpdu(ulpdu: bytes, at: int, opcode: str, *, markers: bool, crc: bool) -> tuple[bytes, FPDU]:
    """Encode an FPDU that starts at offset ``at`` of Full Operation (RFC 5044 §4.1 to §4.4)."""
    body = struct.pack("!H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    out, header, count, taken = bytearray(), -1, 0, 0
    while taken < len(body) + 4:
        here = at + len(out)
        if markers and here % MARKER_INTERVAL == 0:
            out += struct.pack("!HH", 0, 0 if header < 0 else here - header)
            count += 1
            here += 4
        if header < 0:
            header = here
        room = MARKER_INTERVAL - here % MARKER_INTERVAL if markers else len(body)
        if taken < len(body):
            out += body[taken : taken + room]
            taken = min(len(body), taken + room)
        else:
            out += struct.pack("<I", crc32c(out) if crc else 0)
            taken += 4
    return bytes(out), FPDU(at, header, at + len(out), len(ulpdu), count, opcode)


def send(msn: int, payload: bytes) -> bytes:
    """Return the ULPDU of an RDMAP Send in one DDP Segment."""
    return struct.pack("!BBIIII", 0x41, 0x43, 0, 0, msn, 0) + payload


def rdma_write(stag: int, offset: int, payload: bytes) -> bytes:
    """Return the ULPDU of an RDMA Write in one DDP Segment."""
    return struct.pack("!BBIQ", 0xC1, 0x40, stag, offset) + payload


def read_request(msn: int, sink: tuple[int, int], size: int, source: tuple[int, int]) -> bytes:
    """Return the ULPDU of an RDMA Read Request; ``sink`` and ``source`` are (STag, TO)."""
    return struct.pack("!BBIIII", 0x41, 0x41, 0, 1, msn, 0) + struct.pack("!IQIIQ", *sink, size, *source)


def read_response(stag: int, offset: int, payload: bytes) -> bytes:
    """Return the ULPDU of an RDMA Read Response in one DDP Segment."""
    return struct.pack("!BBIQ", 0xC1, 0x42, stag, offset) + payload


class TCPSegment(NamedTuple):
    """A TCP segment before encoding; its numbers are relative to ISS and IRS, and do not wrap."""

    #: 0: the Initiator (who sends the SYN) sent it; 1: the Responder.
    side: int
    seq: int
    ack: int
    flags: int
    #: The field of the header, not shifted.
    window: int
    payload: bytes = b""
    #: TSval and TSecr, not reduced modulo 2^32.
    timestamps: tuple[int, int] | None = None
    sacks: tuple[tuple[int, int], ...] = ()
    #: MSS option of a SYN; 0: none.
    mss: int = 0
    #: Shift count that a SYN offers.
    shift: int | None = None
    sack_permitted: bool = False
    #: Added to the right checksum before it is written, if not 0.
    checksum_error: int = 0

    @property
    def end(self) -> int:
        """The sequence number after the segment; SYN and FIN take one each."""
        return self.seq + len(self.payload) + bool(self.flags & SYN) + bool(self.flags & FIN)


def _options(segment: TCPSegment, irs: int) -> bytes:
    options = b""
    if segment.mss:
        options += struct.pack("!BBH", 2, 4, segment.mss)
    if segment.sack_permitted:
        options += b"\x01\x01\x04\x02"
    if segment.shift is not None:
        options += struct.pack("!BBBB", 1, 3, 3, segment.shift)
    if segment.timestamps is not None:
        tsval, tsecr = segment.timestamps
        options += struct.pack("!BBBBII", 1, 1, 8, 10, tsval & 0xFFFFFFFF, tsecr & 0xFFFFFFFF)
    if segment.sacks:
        options += struct.pack("!BBBB", 1, 1, 5, 2 + 8 * len(segment.sacks))
        for edges in segment.sacks:
            options += struct.pack("!II", *((irs + edge) & 0xFFFFFFFF for edge in edges))
    return options


def internet_checksum(octets: bytes) -> int:
    """Return the checksum of RFC 1071 over octets in which the field itself is zero."""
    total = int.from_bytes(octets + bytes(len(octets) % 2), "big") % 0xFFFF
    return ~(total or 0xFFFF * any(octets)) & 0xFFFF


class Encoded(NamedTuple):
    """TCP header and payload as octets, and the numbers as they stand in the header."""

    key: bytes
    seq: int
    ack: int
    octets: bytes
    header_length: int


def encode_tcp(
    segment: TCPSegment, iss: tuple[int, int], addresses: tuple[bytes, bytes], ports: tuple[int, int]
) -> Encoded:
    """Encode a segment; ``iss``, ``addresses`` and ``ports`` are those of the Initiator, then of the Responder."""
    mine, peer = segment.side, 1 - segment.side
    seq = (iss[mine] + segment.seq) & 0xFFFFFFFF
    ack = (iss[peer] + segment.ack) & 0xFFFFFFFF if segment.flags & ACK else 0
    options = _options(segment, iss[peer])
    header = struct.pack(
        "!HHIIBBHHH", ports[mine], ports[peer], seq, ack, (20 + len(options)) << 2, segment.flags, segment.window, 0, 0
    )
    octets = header + options + segment.payload
    pseudo = addresses[mine] + addresses[peer] + struct.pack("!HH", 6, len(octets))
    checksum = internet_checksum(pseudo + octets)
    if segment.checksum_error:
        # Neither zero nor one of the two partial sums that an offloading host leaves in the field.
        partial = int.from_bytes(pseudo, "big") % 0xFFFF
        excluded = {0, checksum, partial, (partial - len(octets)) % 0xFFFF}
        checksum = (checksum + segment.checksum_error) & 0xFFFF
        while checksum in excluded or checksum % 0xFFFF in excluded:
            checksum = (checksum + 1) & 0xFFFF
    octets = octets[:16] + struct.pack("!H", checksum) + octets[18:]
    key = addresses[mine] + addresses[peer] + struct.pack("!HH", ports[mine], ports[peer])
    return Encoded(key, seq, ack, octets, 20 + len(options))
