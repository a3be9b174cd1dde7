"""What is laid out is read back by a walker that shares no code with the package."""

from __future__ import annotations

import random
import struct
from typing import NamedTuple

import pytest

from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.ulpdus import rdma_write, rdma_write_message, send
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.markers import Origin
from tests.laying import lay_stream


def crc32c(octets: bytes) -> int:
    """CRC32c bit by bit (RFC 3720 appendix B.4), its polynomial reflected."""
    crc = 0xFFFFFFFF
    for octet in octets:
        crc ^= octet
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


class Walked(NamedTuple):
    offset: int
    header_offset: int
    wire_length: int
    ulpdu: bytes
    pointers: list[int]
    crc_field: bytes
    crc: int


def walk(stream: bytes, markers: bool) -> list[Walked]:
    """The FPDUs of a stream, octet by octet: every 512th begins a Marker of the FPDU that is under way."""
    found = []
    at = 0
    while at < len(stream):
        offset, plain, header_offset, pointers = at, bytearray(), -1, []
        while len(plain) < 2 or len(plain) < (2 + int.from_bytes(plain[:2], "big") + 3) // 4 * 4 + 4:
            if markers and at % 512 == 0:
                reserved, pointer = struct.unpack_from("!HH", stream, at)
                assert reserved == 0
                pointers.append(pointer)
                at += 4
                continue
            if not plain:
                header_offset = at
            plain.append(stream[at])
            at += 1
        length = int.from_bytes(plain[:2], "big")
        assert not any(plain[2 + length : -4]), "PAD is not zero"
        found.append(
            Walked(
                offset,
                header_offset,
                at - offset,
                bytes(plain[2 : 2 + length]),
                pointers,
                bytes(plain[-4:]),
                crc32c(stream[offset : at - 4]),
            )
        )
    return found


def some_ulpdus(seed: int) -> list[bytes]:
    rng = random.Random(seed)
    lengths = [1, 2, 3, 4, 5, 16, 496, 502, 503, 504, 1442, 4000, *(rng.randrange(1, 700) for _ in range(40))]
    return [bytes(rng.randrange(256) for _ in range(length)) for length in lengths]


@pytest.mark.parametrize("origin", ["header", "first-octet"])
@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("markers", [True, False])
def test_a_naive_walker_finds_what_was_laid(markers: bool, crc: bool, origin: Origin) -> None:
    ulpdus = some_ulpdus(1)
    stream, laid = lay_stream(ulpdus, markers=markers, crc=crc, origin=origin)
    walked = walk(stream, markers)
    assert [each.ulpdu for each in walked] == ulpdus
    assert [(fpdu.offset, fpdu.header_offset, fpdu.wire_length, fpdu.markers) for fpdu in laid] == [
        (each.offset, each.header_offset, each.wire_length, len(each.pointers)) for each in walked
    ]
    assert [fpdu.ulpdu_length for fpdu in laid] == [len(ulpdu) for ulpdu in ulpdus]
    assert laid[-1].end == len(stream)
    for each in walked:
        assert each.crc_field == (each.crc.to_bytes(4, "little") if crc else bytes(4))
        counted_from = each.header_offset if origin == "header" else each.offset
        first = (each.offset + 511) // 512 * 512
        expected = [max(0, first + 512 * n - counted_from) for n in range(len(each.pointers))]
        assert each.pointers == expected


def test_a_stream_laid_in_pieces_is_the_same_stream() -> None:
    ulpdus = some_ulpdus(2)
    whole, places = lay_stream(ulpdus, markers=True)
    half = HalfStream(Dialect(True, True))
    pieces = [half.lay(ulpdus[start : start + 7]) for start in range(0, len(ulpdus), 7)]
    assert b"".join(octets for octets, _ in pieces) == whole
    assert [fpdu for _, laid in pieces for fpdu in laid] == places
    assert half.offset == len(whole)


def test_figure_5_of_rfc_5044() -> None:
    stream, _ = lay_stream([send(1, bytes(24))], markers=True)
    assert stream.hex() == "00000000002a41430000000000000000" + "0000000100000000" + "00" * 24 + "52239983"


def test_ulpdus_are_those_of_the_specifications() -> None:
    assert rdma_write(0x01020304, 0x1112131415161718, b"data").hex() == "c140" + "01020304" + "1112131415161718" + (
        b"data".hex()
    )
    assert send(7, b"hello", last=False).hex() == "0143" + "00000000" * 2 + "00000007" + "00000000" + b"hello".hex()


def test_a_long_message_is_cut_to_mulpdu() -> None:
    payload = bytes(range(256)) * 10
    parts = list(rdma_write_message(5, 1000, payload, 514))
    assert [len(part) for part in parts] == [514] * 5 + [14 + 60]
    assert [part[0] for part in parts] == [0x81] * 5 + [0xC1]
    assert [int.from_bytes(part[6:14], "big") for part in parts] == [1000 + 500 * n for n in range(6)]
    assert b"".join(part[14:] for part in parts) == payload
    assert list(rdma_write_message(5, 1000, b"", 514)) == [rdma_write(5, 1000, b"")]
