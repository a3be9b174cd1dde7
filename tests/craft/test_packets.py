"""Headers and checksums, judged by sums made word by word."""

from __future__ import annotations

import struct

import pytest

from scapy_mpa.craft.packets import ACK, PSH, Endpoint, FrameMaker, ones_complement_sum

V4 = (
    Endpoint("10.1.2.3", 40000, bytes.fromhex("020000000001")),
    Endpoint("10.255.254.1", 7471, bytes.fromhex("020000000002")),
)
V6 = (
    Endpoint("fd00::1", 40000, bytes.fromhex("020000000001")),
    Endpoint("fd00::ffff:2", 7471, bytes.fromhex("020000000002")),
)
PAYLOADS = [b"", b"\xff", b"odd", b"even", bytes(1448), b"\xff" * 1448, bytes(range(256)) * 5 + b"x"]


def folded(octets: bytes) -> int:
    """RFC 1071, word by word; 0xFFFF over octets that hold their own right checksum."""
    total = 0
    for (word,) in struct.iter_unpack("!H", octets + bytes(len(octets) % 2)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.mark.parametrize("payload", PAYLOADS, ids=len)
@pytest.mark.parametrize("options", [b"", b"\1\1\x08\x0a" + b"\xfe" * 8], ids=["bare", "options"])
def test_ipv4_frames(payload: bytes, options: bytes) -> None:
    source, destination = V4
    octets = FrameMaker(source, destination).frame(
        payload,
        seq=0xFFFFFFFE,
        ack=0x80000001,
        flags=ACK | PSH,
        window=512,
        options=options,
        identification=0x1FFFF,
    )
    assert octets[:14] == destination.mac + source.mac + b"\x08\x00"
    ip, tcp = octets[14:34], octets[34:]
    assert struct.unpack("!BBHHHBB", ip[:10]) == (0x45, 0, len(octets) - 14, 0xFFFF, 0x4000, 64, 6)
    assert ip[12:] == bytes([10, 1, 2, 3, 10, 255, 254, 1])
    assert folded(ip) == 0xFFFF
    assert struct.unpack("!HHIIBBH", tcp[:16]) == (
        40000,
        7471,
        0xFFFFFFFE,
        0x80000001,
        (20 + len(options)) // 4 << 4,
        0x18,
        512,
    )
    assert tcp[20:] == options + payload
    assert folded(ip[12:] + struct.pack("!HH", 6, len(tcp)) + tcp) == 0xFFFF


@pytest.mark.parametrize("payload", PAYLOADS, ids=len)
def test_ipv6_frames(payload: bytes) -> None:
    source, destination = V6
    octets = FrameMaker(source, destination).frame(payload, seq=1, ack=2, flags=ACK, window=3)
    assert octets[:14] == destination.mac + source.mac + b"\x86\xdd"
    ip, tcp = octets[14:54], octets[54:]
    assert ip[:8] == struct.pack("!IHBB", 0x60000000, len(tcp), 6, 64)
    assert folded(ip[8:] + struct.pack("!II", len(tcp), 6) + tcp) == 0xFFFF
    assert tcp[20:] == payload


@pytest.mark.parametrize("octets", PAYLOADS[1:], ids=len)
def test_the_quick_sum_is_the_sum(octets: bytes) -> None:
    assert ones_complement_sum(octets) == folded(octets) % 0xFFFF


def test_endpoints_that_cannot_talk_are_refused() -> None:
    with pytest.raises(ValueError, match="do not have the same IP version"):
        FrameMaker(V4[0], V6[1])
    with pytest.raises(ValueError, match="6 octets"):
        FrameMaker(Endpoint("10.0.0.1", 1, b"short"), V4[1])
