"""From link layer to segment: every link type, IPv4 and IPv6 with all that may stand between (RFC 791, 8200)."""

from __future__ import annotations

import struct

import pytest

from tests.capture.frames import LINKED, capture, ethernet, linked, read, told, with_vlans

#: Those that carry IP of either version.
LINKS = sorted(LINKED.keys() - {228, 229})
KEY4 = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + struct.pack("!HH", 40000, 7471)


@pytest.mark.parametrize("payload", [b"", b"x", b"payload", bytes(range(256)) * 5], ids=len)
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("link_type", [*LINKS, 228, 229])
@pytest.mark.parametrize("options", [b"", b"\1\1\x08\x0a" + bytes(8)], ids=["bare", "options"])
def test_link_types(link_type: int, version: int, payload: bytes, options: bytes) -> None:
    if (link_type, version) in ((228, 6), (229, 4)):
        return
    frame = ethernet(payload, version=version, options=options)
    (seg,) = read(capture([linked(link_type, frame)], link_type=link_type))
    assert told(seg)["payload"] == payload
    assert (told(seg)["seq"], told(seg)["ack"], told(seg)["length"]) == (100, 200, len(payload))
    assert told(seg)["tcp"] == struct.pack("!HH", 40000, 7471)
    ip = frame[14:]
    addresses = ip[12:20] if version == 4 else ip[8:40]
    assert told(seg)["key"] == addresses + struct.pack("!HH", 40000, 7471)


@pytest.mark.parametrize("family", [10, 23, 24, 28, 30])
@pytest.mark.parametrize("order", ["<", ">"])
def test_bsd_null_families_of_ipv6(family: int, order: str) -> None:
    """Each system has its own number, in its own byte order."""
    frame = struct.pack(order + "I", family) + ethernet(version=6)[14:]
    assert [seg[10] for seg in read(capture([frame], link_type=0))] == [7]


@pytest.mark.parametrize(
    "tags",
    [
        [(0x8100, 100)],
        [(0x8100, 0xE064)],
        [(0x88A8, 5), (0x8100, 100)],
        [(0x8100, 5), (0x8100, 100)],
        [(0x9100, 5), (0x8100, 100)],
        [(0x88A8, 5), (0x88A8, 6), (0x8100, 100)],
    ],
)
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("payload", [b"", b"payload"])
def test_vlans(tags: list[tuple[int, int]], version: int, payload: bytes) -> None:
    frame = with_vlans(ethernet(payload, version=version), *tags)
    (seg,) = read(capture([frame]))
    assert (told(seg)["payload"], told(seg)["length"]) == (payload, len(payload))
    for cut in range(14, len(frame)):
        read(capture([frame[:cut]], wire_lengths=[len(frame)]))


@pytest.mark.parametrize("link_type", [113, 276])
def test_vlans_under_linux_cooked(link_type: int) -> None:
    frame = linked(link_type, with_vlans(ethernet(), (0x8100, 100)))
    assert [told(seg)["payload"] for seg in read(capture([frame], link_type=link_type))] == [b"payload"]


# --- what is no TCP ---

ARP = bytes(12) + b"\x08\x06" + bytes.fromhex("0001080006040001020000000001" + "0a000001" + "000000000000" + "0a000002")


def with_protocol(protocol: int, version: int) -> bytes:
    frame = bytearray(ethernet(bytes(60), version=version))
    frame[23 if version == 4 else 20] = protocol
    return bytes(frame)


@pytest.mark.parametrize(
    "frame",
    [
        ARP,
        b"",
        b"\0",
        bytes(13),
        bytes(14),
        bytes(200),
        with_protocol(17, 4),
        with_protocol(1, 4),
        with_protocol(17, 6),
        with_protocol(58, 6),
        with_protocol(59, 6),
        ethernet()[:12] + b"\x88\xcc" + bytes(60),
        ethernet()[:12] + b"\x00\x26" + bytes(60),
        with_vlans(ethernet(), (0x8100, 1))[:16],
        ethernet()[:14] + b"\x65" + ethernet()[15:],
        ethernet()[:14] + b"\x44" + ethernet()[15:],
        ethernet(version=6)[:14] + b"\x40" + ethernet(version=6)[15:],
    ],
)
def test_no_segment_but_a_frame_all_the_same(frame: bytes) -> None:
    segments = read(capture([frame, ethernet(), frame, frame, ethernet()]))
    assert [seg[0] for seg in segments] == [2, 5]


# --- IPv4 ---


def ipv4(
    options: bytes = b"", *, fragment: int = 0x4000, payload: bytes = b"payload", total: int | None = None
) -> bytes:
    """A frame whose IPv4 header has options, or this fragment field, or this total length."""
    plain = ethernet(payload)
    header = bytearray(plain[14:34])
    header[0] = 0x45 + len(options) // 4
    whole = len(plain) - 14 + len(options)
    struct.pack_into("!H", header, 2, whole if total is None else total)
    struct.pack_into("!H", header, 6, fragment)
    return plain[:14] + bytes(header) + options + plain[34:]


@pytest.mark.parametrize("words", range(11))
@pytest.mark.parametrize("link_type", LINKS)
def test_ipv4_options(words: int, link_type: int) -> None:
    frame = linked(link_type, ipv4(b"\1" * 4 * words))
    (seg,) = read(capture([frame], link_type=link_type))
    assert (told(seg)["payload"], told(seg)["key"]) == (b"payload", KEY4)


@pytest.mark.parametrize("fragment", [0x2000, 0x0001, 0x2001, 0x1FFF, 0x6000])
def test_ipv4_fragments_are_no_segments(fragment: int) -> None:
    assert read(capture([ipv4(fragment=fragment, payload=bytes(100))])) == []


@pytest.mark.parametrize("fragment", [0, 0x4000, 0x8000, 0xC000])
def test_ipv4_flags_that_are_no_fragments(fragment: int) -> None:
    assert len(read(capture([ipv4(fragment=fragment)]))) == 1


@pytest.mark.parametrize("total", [1, 19, 20, 39])
def test_ipv4_total_length_too_small(total: int) -> None:
    """There is no room for the headers: nothing to read, and nothing raised."""
    for seg in read(capture([ipv4(total=total)])):
        assert told(seg)["payload"] == b""


def test_ipv4_total_length_above_the_packet() -> None:
    assert read(capture([ipv4(total=5000)])) == []


# --- IPv6 ---


def extended(*headers: tuple[int, bytes], payload: bytes = b"payload") -> bytes:
    """A frame with IPv6 extension headers (number, octets); each one's Next Header is filled in."""
    plain = ethernet(payload, version=6)
    numbers = [number for number, _ in headers] + [6]
    chain = b"".join(
        bytes([following]) + octets[1:] for (_, octets), following in zip(headers, numbers[1:], strict=True)
    )
    header = bytearray(plain[14:54])
    struct.pack_into("!H", header, 4, len(plain) - 54 + len(chain))
    header[6] = numbers[0]
    return plain[:14] + bytes(header) + chain + plain[54:]


HOP_BY_HOP = (0, b"\0\0\x05\x02\0\0\1\0")
ROUTING = (43, b"\0\2\2\0" + bytes(20))
DESTINATION = (60, b"\0\1" + bytes(14))
AUTHENTICATION = (51, b"\0\4\0\0" + bytes(20))
ATOMIC = (44, b"\0\0\0\0" + bytes(4))
MOBILITY = (135, b"\0\0" + bytes(6))


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [HOP_BY_HOP],
        [ROUTING],
        [DESTINATION],
        [AUTHENTICATION],
        [ATOMIC],
        [MOBILITY],
        [HOP_BY_HOP, DESTINATION, ROUTING, ATOMIC, AUTHENTICATION, DESTINATION],
    ],
    ids=lambda headers: "-".join(str(number) for number, _ in headers) or "none",
)
@pytest.mark.parametrize("link_type", LINKS)
@pytest.mark.parametrize("payload", [b"", b"payload", bytes(1400)], ids=len)
def test_ipv6_extension_headers(headers: list[tuple[int, bytes]], link_type: int, payload: bytes) -> None:
    frame = extended(*headers, payload=payload)
    (seg,) = read(capture([linked(link_type, frame)], link_type=link_type))
    assert (told(seg)["payload"], told(seg)["seq"], told(seg)["length"]) == (payload, 100, len(payload))
    assert told(seg)["key"] == frame[22:54] + struct.pack("!HH", 40000, 7471)


@pytest.mark.parametrize("field", [0x0001, 0x0008, 0x0009, 0xFFF8])
def test_ipv6_fragments_are_no_segments(field: int) -> None:
    header = b"\0\0" + field.to_bytes(2, "big") + bytes(4)
    assert read(capture([extended((44, header), payload=bytes(100))])) == []


@pytest.mark.parametrize("reserved", [0x0002, 0x0004, 0x0006])
def test_ipv6_reserved_bits_make_no_fragment(reserved: int) -> None:
    header = b"\0\xff" + reserved.to_bytes(2, "big") + bytes(4)
    assert len(read(capture([extended((44, header))]))) == 1


@pytest.mark.parametrize("number", [50, 59, 132, 253])
def test_ipv6_headers_that_hide_what_follows(number: int) -> None:
    assert read(capture([extended((number, bytes(8)))])) == []


def test_ipv6_headers_beyond_the_packet() -> None:
    endless = (60, b"\0\xff" + bytes(6))
    assert read(capture([extended(endless)])) == []
    assert read(capture([extended(*[HOP_BY_HOP] * 5)[:70]], wire_lengths=[200])) == []


# --- lengths ---


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("payload", [b"", b"x", b"abcdef"])
@pytest.mark.parametrize("padding", [b"\0" * 6, b"\xee" * 12, bytes(46)], ids=len)
@pytest.mark.parametrize("tag", [False, True])
def test_ethernet_padding_is_not_payload(payload: bytes, padding: bytes, version: int, tag: bool) -> None:
    frame = ethernet(payload, version=version) + padding
    if tag:
        frame = with_vlans(frame, (0x8100, 100))
    (seg,) = read(capture([frame]))
    assert (told(seg)["payload"], told(seg)["length"]) == (payload, len(payload))


@pytest.mark.parametrize("link_type", LINKS)
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("options", [b"", b"\1" * 12], ids=["bare", "options"])
def test_cut_by_the_snap_length(link_type: int, version: int, options: bytes) -> None:
    """In the payload: a cut segment; in the options: no payload; in the headers before: no segment."""
    frame = linked(link_type, ethernet(bytes(range(200)), version=version, options=options))
    payload = len(frame) - 200
    tcp = payload - 20 - len(options)
    for cut in range(len(frame)):
        segments = read(capture([frame[:cut]], link_type=link_type, wire_lengths=[len(frame)]))
        if cut < tcp + 20:
            assert segments == []
            continue
        (seg,) = segments
        assert told(seg)["length"] == 200
        assert told(seg)["seq"] == 100
        assert told(seg)["payload"] == bytes(range(max(0, cut - payload)))


@pytest.mark.parametrize("link_type", [1, 276])
@pytest.mark.parametrize("total", [65535, 0], ids=["largest", "zero"])
@pytest.mark.parametrize("captured", [100_000, 128])
def test_super_segments_over_ipv4(total: int, captured: int, link_type: int) -> None:
    """Offloading hosts hand down what fills an IP packet, or say nothing of its length."""
    count = 65535 - 40 if total else 90_000
    frame = ethernet(bytes(4))
    frame = frame[:16] + struct.pack("!H", total) + frame[18:54] + bytes(i % 251 for i in range(count))
    frame = linked(link_type, frame)
    (seg,) = read(capture([frame[:captured]], link_type=link_type, wire_lengths=[len(frame)]))
    assert told(seg)["length"] == count
    have = min(captured, len(frame)) - (len(frame) - count)
    assert told(seg)["payload"] == bytes(i % 251 for i in range(have))


@pytest.mark.parametrize("captured", [100_000, 128])
def test_super_segments_over_ipv6(captured: int) -> None:
    """BIG TCP leaves the payload length zero."""
    frame = ethernet(bytes(i % 251 for i in range(60_000)), version=6)
    frame = frame[:18] + b"\0\0" + frame[20:]
    (seg,) = read(capture([frame[:captured]], wire_lengths=[len(frame)]))
    assert told(seg)["length"] == 60_000
    assert len(told(seg)["payload"]) == min(captured, len(frame)) - 74


def test_ipv6_jumbo_payload_option() -> None:
    """BIG TCP: a hop-by-hop jumbo payload option and payload length zero (RFC 2675)."""
    jumbo = b"\0\0\xc2\x04" + struct.pack("!I", 8 + 20 + 70_000)
    frame = bytearray(extended((0, jumbo), payload=b""))
    frame[18:20] = b"\0\0"
    (seg,) = read(capture([bytes(frame) + bytes(70_000)]))
    assert told(seg)["length"] == 70_000


@pytest.mark.parametrize("words", [0, 1, 4, 15])
def test_tcp_data_offset(words: int) -> None:
    """Below 5, or beyond the packet: no segment."""
    frame = bytearray(ethernet(b"payload"))
    frame[46] = words << 4
    assert read(capture([bytes(frame)])) == []


def test_flags() -> None:
    frame = bytearray(ethernet(b""))
    for flags in range(256):
        frame[47] = flags
        (seg,) = read(capture([bytes(frame)]))
        assert told(seg)["flags"] == flags


def test_ns_and_reserved_bits_beside_the_data_offset() -> None:
    frame = bytearray(ethernet(b"payload"))
    frame[46] |= 0x0F
    (seg,) = read(capture([bytes(frame)]))
    assert told(seg)["payload"] == b"payload"
