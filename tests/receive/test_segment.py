"""Segments: what their checksum says, judged by sums made word by word; keys, and copies."""

from __future__ import annotations

import ipaddress
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.craft.packets import ACK, Endpoint, FrameMaker
from scapy_mpa.values.segment import (
    Segment,
    checksum_is_wrong,
    detached,
    endpoints,
    reverse_key,
    segment,
)

V4 = Endpoint("10.1.2.3", 40000, bytes(6)), Endpoint("255.255.255.255", 65535, bytes(6))
V6 = Endpoint("fd00::1", 40000, bytes(6)), Endpoint("ffff::ffff", 7471, bytes(6))
ENDS = {4: V4, 6: V6}


def folded(octets: bytes) -> int:
    """RFC 1071, word by word."""
    total = 0
    for (word,) in struct.iter_unpack("!H", octets + bytes(len(octets) % 2)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


def pseudo_header(version: int, length: int) -> bytes:
    """RFC 9293 §3.1, RFC 8200 §8.1."""
    source, destination = (ipaddress.ip_address(end.address).packed for end in ENDS[version])
    if version == 4:
        return source + destination + struct.pack("!BBH", 0, 6, length)
    return source + destination + struct.pack("!IHBB", length, 0, 0, 6)


def captured(version: int, payload: bytes, checksum: int | None = None, *, kept: int | None = None) -> Segment:
    """A segment with this checksum, None: the right one; of the payload `kept` octets were captured."""
    at = 34 if version == 4 else 54
    octets = bytearray(
        FrameMaker(*ENDS[version]).frame(payload, seq=0xFFFFFFF0, ack=7, flags=ACK, window=512, options=b"\1\1\1\1")
    )
    if checksum is not None:
        octets[at + 16 : at + 18] = checksum.to_bytes(2, "big")
    start = at + 24
    end = start + (len(payload) if kept is None else kept)
    addresses = octets[26:34] if version == 4 else octets[22:54]
    key = bytes(addresses + octets[at : at + 4])
    return Segment(1, 0, key, 0xFFFFFFF0, 7, ACK, memoryview(bytes(octets[:end])), start, end, at, len(payload))


def independent_verdict(version: int, seg: Segment) -> bool:
    """Neither right, nor zero, nor the pseudo-header sum with or without the length, none of it negated."""
    octets = bytes(seg.buffer[seg.tcp : seg.end])
    (found,) = struct.unpack_from("!H", octets, 16)
    if found == 0 or folded(pseudo_header(version, len(octets)) + octets) == 0xFFFF:
        return False
    offloaded = {folded(pseudo_header(version, len(octets))), folded(pseudo_header(version, 0))}
    return found % 0xFFFF not in {value % 0xFFFF for value in offloaded}


@given(st.sampled_from([4, 6]), st.binary(max_size=200), st.integers(0, 0xFFFF))
def test_a_checksum_is_wrong_when_the_sum_says_so(version: int, payload: bytes, checksum: int) -> None:
    seg = captured(version, payload, checksum)
    assert checksum_is_wrong(seg) == independent_verdict(version, seg)


@given(st.sampled_from([4, 6]), st.binary(max_size=3000))
def test_the_right_checksum_is_never_wrong(version: int, payload: bytes) -> None:
    seg = captured(version, payload)
    assert not checksum_is_wrong(seg)


@given(st.sampled_from([4, 6]), st.binary(min_size=1, max_size=200), st.data())
def test_a_damaged_octet_shows(version: int, payload: bytes, data: st.DataObject) -> None:
    """Unless the field now looks like what offloading leaves."""
    (right,) = struct.unpack_from("!H", captured(version, payload).buffer, 50 if version == 4 else 70)
    at = data.draw(st.integers(0, len(payload) - 1))
    change = data.draw(st.integers(1, 255))
    damaged = payload[:at] + bytes([payload[at] ^ change]) + payload[at + 1 :]
    seg = captured(version, damaged, right)
    assert checksum_is_wrong(seg) == independent_verdict(version, seg)


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("payload", [b"\1\2\3", bytes(1448), b"\xff" * 60_000], ids=len)
def test_what_offloading_leaves_is_not_wrong(version: int, payload: bytes) -> None:
    length = 24 + len(payload)
    for checksum in (0, folded(pseudo_header(version, length)), folded(pseudo_header(version, 0))):
        assert not checksum_is_wrong(captured(version, payload, checksum))
    (right,) = struct.unpack_from("!H", captured(version, payload).buffer, 50 if version == 4 else 70)
    assert checksum_is_wrong(captured(version, payload, right ^ 0x0101))


@pytest.mark.parametrize("version", [4, 6])
def test_nothing_is_said_of_a_cut_segment_or_one_without_its_header(version: int) -> None:
    whole = captured(version, b"some octets", 0x1234)
    assert checksum_is_wrong(whole)
    assert not checksum_is_wrong(captured(version, b"some octets", 0x1234, kept=5))
    assert not checksum_is_wrong(whole.replace(tcp=-1))
    assert not checksum_is_wrong(segment(1, whole[2], 0, b"some octets"))


@pytest.mark.parametrize("version", [4, 6])
def test_keys(version: int) -> None:
    source, destination = ENDS[version]
    key = captured(version, b"")[2]
    assert len(key) == (12 if version == 4 else 36)
    assert len(reverse_key(key)) == len(key)
    assert reverse_key(reverse_key(key)) == key
    names = [
        f"[{end.address}]:{end.port}" if version == 6 else f"{end.address}:{end.port}" for end in (source, destination)
    ]
    assert endpoints(key) == tuple(names)
    assert endpoints(reverse_key(key)) == tuple(names[::-1])


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("2001:db8:0:0:1:0:0:1", "[2001:db8::1:0:0:1]:7471"),
        ("::ffff:10.0.0.1", None),
        ("FE80::1", "[fe80::1]:7471"),
        ("::", "[::]:7471"),
    ],
)
def test_addresses_are_written_as_rfc_5952_says(address: str, written: str | None) -> None:
    packed = ipaddress.IPv6Address(address).packed
    name = endpoints(packed + bytes(16) + b"\x1d\x2f\0\0")[0]
    if written is not None:
        assert name == written
    assert ipaddress.IPv6Address(name[1 : name.index("]")]).packed == packed


@given(st.binary(max_size=50), st.integers(0, 20), st.integers(0, 20), st.booleans())
def test_a_detached_segment_is_the_same_segment(payload: bytes, before: int, behind: int, header: bool) -> None:
    tcp = 24 if header else 0
    block = bytearray(b"\x11" * before + b"\x22" * tcp + payload + b"\x33" * behind)
    start = before + tcp
    seg = Segment(
        9, 8, bytes(12), 7, 6, ACK, memoryview(block), start, start + len(payload), before if header else -1,
        len(payload) + behind,
    )  # fmt: skip
    copy = detached(seg)
    block[:] = bytes(len(block))
    assert [*copy][:6] == [*seg][:6]
    assert copy.length == seg.length
    assert bytes(copy.buffer[copy.start : copy.end]) == payload
    assert copy.buffer.nbytes == tcp + len(payload)
    if header:
        assert bytes(copy.buffer[copy.tcp : copy.start]) == b"\x22" * 24
    else:
        assert copy.tcp == -1


def test_a_segment_from_its_values() -> None:
    assert [*segment(3, b"k", 5, b"abc")] == [3, 3_000_000_000, b"k", 5, 0, ACK, memoryview(b"abc"), 0, 3, -1, 3]
    seg = segment(3, b"k", 5, b"abc", ack=9, flags=1, time=4, length=10)
    assert (seg.time, seg.ack, seg.flags, seg.length) == (4, 9, 1, 10)
