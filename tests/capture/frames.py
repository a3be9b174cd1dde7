"""Makes frames and captures of every link type, and reads them back in the tests' own plain way."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

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


def ethernet(payload: bytes = b"payload", *, version: int = 4, seq: int = 100, options: bytes = b"") -> bytes:
    """A plain frame of a TCP segment."""
    ends = (A, B) if version == 4 else (A6, B6)
    return FrameMaker(*ends).frame(payload, seq=seq, ack=200, flags=ACK, window=512, options=options)


def with_vlans(frame: bytes, *tags: tuple[int, int]) -> bytes:
    """The frame with VLAN tags (type, number) in front, the outermost first."""
    return frame[:12] + b"".join(struct.pack("!HH", *tag) for tag in tags) + frame[12:]


def linked(link_type: int, frame: bytes) -> bytes:
    """An Ethernet frame under another link layer, VLAN tags left out where it has no place for them."""
    ether_type = frame[12:14]
    network = frame[14:]
    if link_type == 1:
        return frame
    if link_type == 113:  # Linux cooked: type, ARPHRD, address length, address, protocol
        return struct.pack("!HHH8s", 4, 1, 6, frame[6:12] + b"\0\0") + ether_type + network
    if link_type == 276:  # version 2: protocol, reserved, interface, ARPHRD, type, address length, address
        return ether_type + struct.pack("!HIHBB8s", 0, 2, 1, 4, 6, frame[6:12] + b"\0\0") + network
    if link_type in (12, 14, 101, 228, 229):
        return network
    family = {b"\x08\x00": 2, b"\x86\xdd": 30}.get(ether_type, 7)
    if link_type == 0:
        return struct.pack("<I", family) + network
    if link_type == 108:
        return struct.pack("!I", family) + network
    protocol = {b"\x08\x00": b"\0\x21", b"\x86\xdd": b"\0\x57"}.get(ether_type, b"\xc0\x21")
    if link_type == 9:
        return protocol + network
    if link_type == 50:
        return b"\xff\x03" + protocol + network
    if link_type == 51:
        return b"\x11\0\0\1" + struct.pack("!H", 2 + len(network)) + protocol + network
    if link_type == 252:  # exported by Wireshark: tags
        name = {b"\x08\x00": b"ip\0\0", b"\x86\xdd": b"ipv6"}.get(ether_type, b"tcp\0")
        return struct.pack("!HH", 12, 4) + name + bytes(4) + network
    raise AssertionError(link_type)


def capture(
    packets: Iterable[Packet | bytes],
    *,
    link_type: int = 1,
    order: str = "<",
    unit: int = 1000,
    wire_lengths: Iterable[int] | None = None,
) -> bytes:
    """A pcap file of (nanoseconds, octets), or octets a second apart; ``wire_lengths`` if they were cut."""
    made = [MAGICS[order, unit] + struct.pack(order + "HHiIII", 2, 4, 0, 0, 65535, link_type)]
    lengths = list(wire_lengths) if wire_lengths is not None else None
    for index, packet in enumerate(packets):
        time, frame = packet if isinstance(packet, tuple) else ((index + 1) * 1_000_000_000, packet)
        wire = lengths[index] if lengths is not None else len(frame)
        header = time // 1_000_000_000, time % 1_000_000_000 // unit, len(frame), wire
        made.append(struct.pack(order + "IIII", *header) + frame)
    return b"".join(made)


def read(*files: bytes) -> list[Segment]:
    """The segments of captures."""
    with Captures([io.BytesIO(octets) for octets in files]) as opened:
        return [seg for batch in opened.batches() for seg in batch]


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
