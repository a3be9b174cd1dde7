"""The octets of cases, checked by hand: nothing of the package but the case itself has a part in it.

A generator and an analysis that were wrong in the same way would agree with each other; these tests would not.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from scapy_mpa.catalogue.malformed import Malformed
from tests.framing.naive import crc32c_fast
from tests.wireshark.tshark import fields, needs_tshark

ETHERNET, IPV4 = 14, 20


def streams(name: str, **choices: str) -> tuple[bytes, bytes]:
    """Return what the two sides sent, in order, by a plain reading of the frames; the first sends the SYN."""
    sent: dict[bytes, dict[int, bytes]] = {}
    begin: dict[bytes, int] = {}
    for _, frame in Malformed(name, **choices).captured.packets:  # type: ignore[arg-type]
        total, source = struct.unpack_from("!H", frame, ETHERNET + 2)[0], frame[ETHERNET + 12 : ETHERNET + 16]
        tcp = frame[ETHERNET + IPV4 : ETHERNET + total]
        seq, offset_flags = struct.unpack_from("!I", tcp, 4)[0], struct.unpack_from("!H", tcp, 12)[0]
        if offset_flags & 2:
            begin[source] = seq + 1
        elif payload := tcp[offset_flags >> 12 << 2 :]:
            sent.setdefault(source, {}).setdefault((seq - begin[source]) % 2**32, payload)
    parts = [sent.get(source, {}) for source in begin]
    for part in parts:
        assert all(at + len(part[at]) in (*part, max(part) + len(part[max(part)])) for at in part)
    first, second = (b"".join(part[at] for at in sorted(part)) for part in parts)
    return first, second


def sealed(octets: bytes) -> bytes:
    """With their CRC32c, least significant octet first."""
    return octets + struct.pack("<I", crc32c_fast(octets))


def begins(octets: bytes, length: int) -> int:
    """Return where the FPDU after one with this ULPDU_Length begins, without Markers."""
    assert struct.unpack_from("!H", octets)[0] == length
    return (2 + length + 3) // 4 * 4 + 4


# --- startup frames ---


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 511, 512, 513, 65535])
def test_a_request_with_private_data(size: int) -> None:
    request, reply = streams(f"request-private-data-{size}")
    assert request[:16] == b"MPA ID Req Frame"
    assert struct.unpack_from("!BBH", request, 16) == (0x40, 1, size)
    if size > 512:
        assert len(request) == 20 + size and reply == b""
    else:
        first = request[20 + size :]
        assert first[: begins(first, 48)] == sealed(first[:52])
        assert reply[:20] == b"MPA ID Rep Frame" + struct.pack("!BBH", 0x40, 1, 0)


@pytest.mark.parametrize(
    ("name", "octets"),
    [
        ("request-key-last-octet", b"MPA ID Req Framf\x40\x01\x00\x00"),
        ("request-reserved-bit-0x01", b"MPA ID Req Frame\x41\x01\x00\x00"),
        ("request-reserved-bit-0x08", b"MPA ID Req Frame\x48\x01\x00\x00"),
        ("request-s-of-rev-1", b"MPA ID Req Frame\x50\x01\x00\x00"),
        ("request-r", b"MPA ID Req Frame\x60\x01\x00\x00"),
        ("rev-255", b"MPA ID Req Frame\x40\xff\x00\x00"),
        ("request-of-19-octets", b"MPA ID Req Frame\x40\x01\x00"),
        ("request-s-with-pd-length-3", b"MPA ID Req Frame\x50\x02\x00\x03\x00\x00\x00"),
        # A, B and D of the Control Flags are in the highest bits of the two words.
        ("rtr-none-offered", b"MPA ID Req Frame\x50\x02\x00\x04\x80\x08\x00\x08"),
        ("rtr-read", b"MPA ID Req Frame\x50\x02\x00\x04\x80\x08\x40\x08"),
        ("rtr-write", b"MPA ID Req Frame\x50\x02\x00\x04\x80\x08\x80\x08"),
        ("rtr-send", b"MPA ID Req Frame\x50\x02\x00\x04\xc0\x08\x00\x08"),
        ("depths-in-host-order", b"MPA ID Req Frame\x50\x02\x00\x04\x01\x00\x04\x00"),
    ],
)
def test_a_request(name: str, octets: bytes) -> None:
    assert streams(name)[0][: len(octets)] == octets


def test_lengths_of_private_data_that_are_left() -> None:
    repaired, left = (
        streams("request-private-data-not-counted")[0],
        streams("request-private-data-not-counted", lengths="left")[0],
    )
    assert repaired[18:20] == b"\0\x28" and left[18:20] == b"\0\0"
    assert repaired[20:60] == left[20:60] and len(left) == 60


# --- FPDUs ---


def second_fpdu(name: str, **choices: str) -> bytes:
    """From the second FPDU of the Initiator on, which begins behind one of 56 octets, without Markers."""
    stream = streams(name, **choices)[0]
    assert stream[20:22] == b"\0\x30"
    return stream[20 + 56 :]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("ulpdu-length-0-write", 0),
        ("ulpdu-length-1-write", 1),
        ("ulpdu-length-13-write", 13),
        ("ulpdu-length-14-write", 14),
        ("ulpdu-length-17-send", 17),
        ("ulpdu-length-18-send", 18),
        ("ulpdu-length-mulpdu", 1442),
        ("ulpdu-length-mulpdu-and-1", 1443),
        ("ulpdu-length-64768", 64768),
        ("ulpdu-length-64769", 64769),
        ("ulpdu-length-65535", 65535),
    ],
)
def test_an_fpdu_of_each_length(name: str, size: int) -> None:
    fpdu = second_fpdu(name)
    pad = -(2 + size) % 4
    assert fpdu[: begins(fpdu, size)] == sealed(fpdu[: 2 + size] + bytes(pad))


@pytest.mark.parametrize("pad", [b"\x40", b"\0\x40", b"\x01\0", b"\0\0\xff", b"\xff\xff\xff"])
def test_pad(pad: bytes) -> None:
    name, size = f"pad-{pad.hex()}", 22 - len(pad)
    fpdu = second_fpdu(name)
    assert fpdu[:28] == sealed(fpdu[: 2 + size] + pad)
    left = second_fpdu(name, crc="left")
    assert left[:24] == fpdu[:24] and left[24:28] == sealed(fpdu[: 2 + size] + bytes(len(pad)))[24:]


def test_crc_fields() -> None:
    right = streams("no-end")[0][20 + 56 :][:84]
    assert sealed(right[:80]) == right
    for name, field in (
        ("crc-zero", bytes(4)),
        ("crc-ones", b"\xff" * 4),
        ("crc-reversed", right[:79:-1]),
        ("crc-inverted", bytes(octet ^ 0xFF for octet in right[80:])),
    ):
        assert second_fpdu(name)[:84] == right[:80] + field
    damaged = second_fpdu("crc-ulpdu-octet")[:84]
    assert [i for i in range(84) if damaged[i] != right[i]] == [40]
    assert streams("crc-off-any-value")[0][76:][80:84] == struct.pack("<I", 0xDEADBEEF)


@pytest.mark.parametrize("place", range(0, 28, 4))
def test_a_marker_at_each_place(place: int) -> None:
    stream = streams(f"marker-at-{place}")[0][20:]
    assert stream[:4] == bytes(4)
    begin = 512 - place
    assert struct.unpack_from("!HH", stream, 512) == (0, place)
    fpdu = stream[begin : begin + 32]
    assert fpdu == sealed(fpdu[:-4])
    without = fpdu[:place] + fpdu[place + 4 :]
    assert without[:2] == b"\0\x14" and without[20:24] == b"\xff\xff\0\0"


def test_markers_that_point_elsewhere() -> None:
    for name, said in (("fpduptr-back-at-0", 8), ("fpduptr-zero-at-4", 0), ("fpduptr-4-more-at-12", 16),
                       ("fpduptr-far-at-24", 0xFFFC), ("fpduptr-low-bits-3", 15)):  # fmt: skip
        stream = streams(name)[0][20:]
        place = int(name.rsplit("-", 1)[1]) if "-at-" in name else 12
        assert struct.unpack_from("!HH", stream, 512) == (0, said)
        fpdu = stream[512 - place : 544 - place]
        assert fpdu == sealed(fpdu[:-4])


# --- as Wireshark has it ---


@needs_tshark
@pytest.mark.parametrize(
    ("name", "names", "expected"),
    [
        ("request-private-data-512", ("iwarp_mpa.pdlength",), {"512", "0"}),
        ("request-r", ("iwarp_mpa.rej_flag",), {"1", "0"}),
        ("reply-reserved-bit-0x08", ("iwarp_mpa.rev",), {"1"}),
        ("ulpdu-length-14-write", ("iwarp_mpa.ulpdulength",), {"48", "14"}),
        ("ulpdu-length-18-send", ("iwarp_mpa.ulpdulength",), {"48", "18"}),
        ("ulpdu-length-mulpdu-and-1", ("iwarp_mpa.ulpdulength",), {"48", "58", "1443"}),
    ],
)
def test_tshark_reads_the_same(name: str, names: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
    path = tmp_path / f"{name}.pcap"
    Malformed(name).write(path)
    assert {row[0] for row in fields(path, *names) if row[0]} == expected
