"""Makes frames and captures of every link type, and reads them back in the tests' own plain way."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import strategies as st

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture.files import Captures
from scapy_mpa.craft.packets import ACK, Endpoint, FrameMaker
from scapy_mpa.craft.pcapfile import Packet, PcapWriter
from scapy_mpa.errors import CaptureError
from scapy_mpa.values.segment import Segment
from tests.receive.cases import records

A = Endpoint("10.0.0.1", 40000, bytes.fromhex("020000000001"))
B = Endpoint("10.0.0.2", 7471, bytes.fromhex("020000000002"))
A6 = Endpoint("fd00::1", 40000, bytes.fromhex("020000000001"))
B6 = Endpoint("fd00::2", 7471, bytes.fromhex("020000000002"))

MAGICS = {
    ("<", 1000): bytes.fromhex("d4c3b2a1"),
    (">", 1000): bytes.fromhex("a1b2c3d4"),
    ("<", 1): bytes.fromhex("4d3cb2a1"),
    (">", 1): bytes.fromhex("a1b23c4d"),
}


class Variant(NamedTuple):
    """A variant of the pcap format: its magic number, and octets more in the file header and in each record header."""

    magic: int
    file_more: int = 0
    record_more: int = 0


#: The variants whose headers are longer.
VARIANTS = {
    "modified": Variant(0xA1B2CD34, record_more=8),
    "IXIA hardware": Variant(0x1C0001AC, file_more=4),
    "IXIA software": Variant(0x1C0001AB, file_more=4),
}


def ethernet(payload: bytes = b"payload", *, version: int = 4, seq: int = 100, options: bytes = b"") -> bytes:
    """A plain frame of a TCP segment."""
    ends = (A, B) if version == 4 else (A6, B6)
    return FrameMaker(*ends).frame(payload, seq=seq, ack=200, flags=ACK, window=512, options=options)


def with_vlans(frame: bytes, *tags: tuple[int, int]) -> bytes:
    """The frame with VLAN tags (type, number) in front, the outermost first."""
    return frame[:12] + b"".join(struct.pack("!HH", *tag) for tag in tags) + frame[12:]


def _type(frame: bytes) -> int:
    return int.from_bytes(frame[12:14], "big")


def _family(frame: bytes, order: str) -> bytes:
    """BSD's protocol family of a frame."""
    return struct.pack(order + "I", {0x0800: 2, 0x86DD: 30}.get(_type(frame), 7))


def _ppp(frame: bytes) -> bytes:
    return {0x0800: b"\0\x21", 0x86DD: b"\0\x57"}.get(_type(frame), b"\xc0\x21") + frame[14:]


def pppoe(frame: bytes) -> bytes:
    """A PPPoE session's header and a PPP frame."""
    ppp = _ppp(frame)
    return b"\x11\0\0\1" + struct.pack("!H", len(ppp)) + ppp


def erf(kind: int, octets: bytes, *extensions: bytes) -> bytes:
    """An ERF record of a type, with extension headers of eight octets."""
    kinds = [kind, *(one[0] for one in extensions)]
    more = [number | 0x80 for number in kinds[:-1]] + kinds[-1:]
    headers = b"".join(bytes([first]) + one[1:] for first, one in zip(more[1:], extensions, strict=True))
    length = 16 + len(headers) + len(octets)
    head = struct.pack("<QBBHHH", 1 << 40, more[0], 4, length & 0xFFFF, 0, len(octets) & 0xFFFF)
    return head[:10] + struct.pack("!HHH", length & 0xFFFF, 0, len(octets) & 0xFFFF) + headers + octets


def nflog(frame: bytes, order: str = "<", family: int | None = None, protocol: int | None = None) -> bytes:
    """A message of netfilter's log: attributes in the byte order of the host, the packet last."""
    if family is None:
        family = {0x0800: 2, 0x86DD: 10}.get(_type(frame), 7)
    found = struct.pack("!BBH", family, 0, 5)
    values = [
        (1, struct.pack("!HBx", _type(frame) if protocol is None else protocol, 1)),
        (10, b"prefix\0"),
        (5, struct.pack("!I", 2)),
        (9, frame[14:]),
    ]
    for kind, value in values:
        found += struct.pack(order + "HH", 4 + len(value) & 0xFFFF, kind) + value
        found += bytes(-len(value) % 4) if kind != 9 else b""
    return found


def ppi(link_type: int, octets: bytes, fields: bytes = b"") -> bytes:
    """PPI's header, its fields, and a frame of a link type."""
    return struct.pack("<BBHI", 0, 0, 8 + len(fields), link_type) + fields + octets


def pktap(link_type: int, octets: bytes, what: int = 1, more: bytes = b"") -> bytes:
    """Apple's header, and a frame of a link type."""
    head = struct.pack("<3I24s4I", 108 + len(more), what, link_type, b"en0", 1, 2, 14, 0)
    return (head + struct.pack("<I20s", 4711, b"program")).ljust(108, b"\0") + more + octets


def pflog(frame: bytes, length: int = 61) -> bytes:
    """OpenBSD's header of a packet that its filter logged, and padding."""
    head = struct.pack("!4B16s16sII", length, 2 if _type(frame) == 0x0800 else 24, 0, 0, b"em0", b"rules", 3, 4)
    return head.ljust(length + 3 & ~3, b"\0") + frame[14:]


def _ipoib(frame: bytes) -> bytes:
    return bytes(20) + b"\0\0\2\x0a" + bytes(16) + frame[12:14] + b"\0\0" + frame[14:]


def _exported(frame: bytes) -> bytes:
    name = {0x0800: b"ip\0\0", 0x86DD: b"ipv6"}.get(_type(frame), b"tcp\0")
    return struct.pack("!HH", 12, 4) + name + bytes(4) + frame[14:]


#: Every link type that is read: what makes a frame of it out of an Ethernet frame.
LINKED: dict[int, Callable[[bytes], bytes]] = {
    0: lambda frame: _family(frame, "<") + frame[14:],
    1: lambda frame: frame,
    9: _ppp,
    12: lambda frame: frame[14:],
    14: lambda frame: frame[14:],
    50: lambda frame: b"\xff\x03" + _ppp(frame),
    51: pppoe,
    101: lambda frame: frame[14:],
    104: lambda frame: b"\x0f\0" + frame[12:],
    108: lambda frame: _family(frame, "!") + frame[14:],
    109: lambda frame: _family(frame, "<") + struct.pack("!II", 0x1000, 0x800) + frame[14:],
    # Type, ARPHRD, address length, address, protocol.
    113: lambda frame: struct.pack("!HHH8s", 4, 1, 6, frame[6:12]) + frame[12:],
    117: pflog,
    192: lambda frame: ppi(1, frame),
    197: lambda frame: erf(2, b"\0\0" + frame),
    204: lambda frame: b"\1\xff\x03" + _ppp(frame),
    205: lambda frame: b"\0\x8f\0" + frame[12:],
    # A label of which the stack ends.
    219: lambda frame: struct.pack("!I", 16 << 12 | 1 << 8 | 64) + frame[14:],
    226: lambda frame: struct.pack("!BBHIIIII", 1, 2, 0, len(frame) - 14, 1, 0, 0, 0) + frame[14:],
    228: lambda frame: frame[14:],
    229: lambda frame: frame[14:],
    239: nflog,
    242: _ipoib,
    252: _exported,
    258: lambda frame: pktap(1, frame),
    # Protocol, reserved, interface, ARPHRD, type, address length, address.
    276: lambda frame: frame[12:14] + struct.pack("!HIHBB8s", 0, 2, 1, 4, 6, frame[6:12]) + frame[14:],
}


def linked(link_type: int, frame: bytes) -> bytes:
    """An Ethernet frame under another link layer, VLAN tags left out where it has no place for them."""
    return LINKED[link_type](frame)


def capture(
    packets: Iterable[Packet | bytes],
    *,
    link_type: int = 1,
    order: str = "<",
    unit: int = 1000,
    wire_lengths: Iterable[int] | None = None,
    variant: str = "",
) -> bytes:
    """A pcap file of (nanoseconds, octets), or octets a second apart; ``wire_lengths`` if they were cut."""
    longer = VARIANTS.get(variant, Variant(0))
    magic = struct.pack(order + "I", longer.magic) if longer.magic else MAGICS[order, unit]
    made = [magic + struct.pack(order + "HHiIII", 2, 4, 0, 0, 65535, link_type) + b"\x11" * longer.file_more]
    lengths = list(wire_lengths) if wire_lengths is not None else None
    for index, packet in enumerate(packets):
        time, frame = packet if isinstance(packet, tuple) else ((index + 1) * 1_000_000_000, packet)
        wire = lengths[index] if lengths is not None else len(frame)
        header = time // 1_000_000_000, time % 1_000_000_000 // unit, len(frame), wire
        made.append(struct.pack(order + "IIII", *header) + b"\x22" * longer.record_more + frame)
    return b"".join(made)


def read(*files: bytes) -> list[Segment]:
    """The segments of captures."""
    with Captures([io.BytesIO(octets) for octets in files]) as opened:
        return [seg for batch in opened.batches(copies=True) for seg in batch]


def told(seg: Segment) -> dict[str, Any]:
    """A segment by what it says."""
    frame, time, key, seq, ack, flags, buffer, start, end, tcp, length = seg
    return {
        "frame": frame,
        "time": time,
        "key": key,
        "seq": seq,
        "ack": ack,
        "flags": flags,
        "payload": bytes(buffer[start:end]),
        "length": length,
        "tcp": bytes(buffer[tcp : tcp + 4]),
    }


def analysed(*sources: Any) -> Analyzer:
    """A receiver that was fed captures (paths, or octets)."""
    receiver = Analyzer(records=True)
    files = [io.BytesIO(source) if isinstance(source, bytes) else source for source in sources]
    with Captures(files) as opened:
        for batch in opened.batches():
            receiver.feed(batch)
            receiver.release()
    receiver.finish()
    return receiver


def fpdus(*sources: Any) -> list[dict[str, object]]:
    """The records of captures."""
    return [record.as_dict() for record in records(analysed(*sources))]


def pcap_records(path: Path) -> tuple[int, list[tuple[int, bytes, int]]]:
    """Link type and (nanoseconds, octets, wire length) of a pcap file, read in the plainest way."""
    octets = path.read_bytes()
    order, unit = next(key for key, magic in MAGICS.items() if octets[:4] == magic)
    (link_type,) = struct.unpack_from(order + "I", octets, 20)
    found, at = [], 24
    while at < len(octets):
        seconds, fraction, captured, wire = struct.unpack_from(order + "IIII", octets, at)
        at += 16
        found.append((seconds * 1_000_000_000 + fraction * unit, octets[at : at + captured], wire))
        at += captured
    return link_type, found


def written(packets: Iterable[Packet], **options: Any) -> bytes:
    """A file that the project's own writer makes."""
    file = io.BytesIO()
    PcapWriter(file, **options).write(packets)
    return file.getvalue()


# --- whatever the octets ---


def survives(octets: bytes) -> None:
    """Reader and receiver take any octets."""
    receiver = Analyzer(records=True)
    with suppress(CaptureError), Captures(io.BytesIO(octets)) as source:
        for batch in source.batches():
            receiver.feed(batch)
            receiver.release()
    receiver.finish()
    for mpa in receiver.connections:
        for finding in mpa.findings.sorted():
            assert finding.as_dict()
        for operation in mpa.operations.values():
            assert operation.log is not None
            assert len(list(operation.log.rows())) == operation.counts.fpdus


changes = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "insert", "repeat"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(1, 255),
        st.integers(1, 200),
    ),
    min_size=1,
    max_size=12,
)


def changed(octets: bytes, how: list[tuple[str, float, int, int]]) -> bytes:
    for kind, where, value, count in how:
        at = int(where * len(octets))
        if kind == "flip":
            octets = octets[:at] + bytes([octets[at] ^ value]) + octets[at + 1 :] if octets else octets
        elif kind == "cut":
            octets = octets[:at] + octets[at + count :]
        elif kind == "insert":
            octets = octets[:at] + bytes([value]) * count + octets[at:]
        else:
            octets = octets[:at] + octets[at : at + count] + octets[at:]
    return octets
