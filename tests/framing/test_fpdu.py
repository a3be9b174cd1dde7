"""FPDUs against the figures of the specifications, and against a layout octet by octet."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.errors import FramingError, MPAError
from scapy_mpa.framing import (
    MAX_ULPDU_LENGTH,
    check_markers,
    crc32c,
    decode_fpdu,
    encode_fpdu,
    marker_positions,
    pad_length,
    plain_length,
)
from tests.framing import naive

Origin = Literal["header", "first-octet"]
ORIGINS: tuple[Origin, ...] = ("header", "first-octet")

# (where, ULPDU, stream offset, octets): figures 5 and 6 of RFC 5044 and of both drafts.
ZEROS = "00" * 24
FIGURES = [
    (
        "RFC 5044 figure 5",
        f"4143 00000000 00000000 00000001 00000000 {ZEROS}",
        0,
        f"0000 0000 002a 4143 00000000 00000000 00000001 00000000 {ZEROS} 52239983",
    ),
    (
        "RFC 5044 figure 6",
        f"4143 00000000 00000000 00000002 00000000 {ZEROS}",
        0x1EC,
        f"002a 4143 00000000 00000000 00000002 00000000 0000 0014 {ZEROS} 84925898",
    ),
    (
        "drafts, figure 5",
        f"4003 00000000 00000000 00000001 00000000 {ZEROS}",
        0,
        f"0000 0000 002a 4003 00000000 00000000 00000001 00000000 {ZEROS} 4c86b384",
    ),
    (
        "drafts, figure 6",
        f"4003 00000000 00000000 00000002 00000000 {ZEROS}",
        0x1EC,
        f"002a 4003 00000000 00000000 00000002 00000000 0000 0014 {ZEROS} a19cd103",
    ),
]


@pytest.mark.parametrize(("ulpdu", "offset", "octets"), [f[1:] for f in FIGURES], ids=[f[0] for f in FIGURES])
@pytest.mark.parametrize("origin", ORIGINS)
def test_figures_5_and_6(ulpdu: str, offset: int, octets: str, origin: Origin) -> None:
    """The figures look the same from either origin: none has a second Marker after a leading one."""
    wire = bytes.fromhex(octets)
    assert encode_fpdu(bytes.fromhex(ulpdu), offset, origin=origin) == wire
    fpdu = decode_fpdu(wire + b"next", offset)
    assert fpdu is not None
    assert fpdu.ulpdu == bytes.fromhex(ulpdu)
    assert fpdu.ulpdu_length == 42
    assert fpdu.pad == b""
    assert fpdu.crc.to_bytes(4, "little") == wire[-4:]
    assert fpdu.crc_good is True
    assert fpdu.markers == (((0, 0, 0),) if offset == 0 else ((512, 0, 0x14),))
    assert fpdu.wire_length == len(wire) == 52


def test_figure_6_is_the_second_fpdu_of_its_stream() -> None:
    """Its first FPDU has 492 octets: a leading Marker and 488 more, so a ULPDU of 481 or 482."""
    assert len(encode_fpdu(bytes(482), 0)) == 492
    assert encode_fpdu(bytes(482), 0)[:4] == bytes(4)


def test_figure_4() -> None:
    """A ULPDU of 16 octets, a Marker after its first 10 with FPDUPTR 0x000C, a PAD of 2."""
    ulpdu = bytes(range(0xA0, 0xB0))
    wire = encode_fpdu(ulpdu, 500)
    head = "0010 a0a1a2a3a4a5a6a7a8a9 0000 000c aaabacadaeaf 0000"
    assert wire[:-4] == bytes.fromhex(head)
    assert wire[-4:] == naive.crc32c(bytes.fromhex(head)).to_bytes(4, "little")
    fpdu = decode_fpdu(wire, 500)
    assert fpdu is not None
    assert (fpdu.ulpdu, fpdu.pad, fpdu.markers) == (ulpdu, bytes(2), ((512, 0, 0x0C),))


def test_ulpdu_length_zero() -> None:
    wire = bytes.fromhex("00000000c74b6748")
    assert encode_fpdu(b"") == wire
    fpdu = decode_fpdu(wire)
    assert fpdu is not None
    assert (fpdu.ulpdu_length, fpdu.ulpdu, fpdu.pad, fpdu.crc_good) == (0, b"", b"\0\0", True)
    assert fpdu.wire_length == 8


@pytest.mark.parametrize(("ulpdu_length", "pad"), [(0, 2), (1, 1), (2, 0), (3, 3), (4, 2), (42, 0), (43, 3)])
def test_pad(ulpdu_length: int, pad: int) -> None:
    assert pad_length(ulpdu_length) == pad
    assert plain_length(ulpdu_length) == 2 + ulpdu_length + pad + 4


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("ulpdu_length", [0, 1, 2, 3, 4, 16, 42, 490, 498, 499, 500, 501, 502, 506, 1014, 1600])
def test_every_offset_against_octet_by_octet(ulpdu_length: int, origin: Origin) -> None:
    ulpdu = bytes(0xFF - i * 13 & 0xFF for i in range(ulpdu_length))
    for offset in range(2**33, 2**33 + 512, 4):
        wire, markers = naive.fpdu(ulpdu, offset, origin)
        assert encode_fpdu(ulpdu, offset, origin=origin) == wire
        fpdu = decode_fpdu(memoryview(wire), offset)
        assert fpdu is not None
        assert (fpdu.ulpdu, fpdu.wire_length, fpdu.crc_good) == (ulpdu, len(wire), True)
        assert fpdu.markers == tuple((place, 0, fpduptr) for place, fpduptr in markers)
        assert {check.verdict for check in check_markers(wire, offset, origin)} <= {"good"}


@given(st.binary(max_size=2000), st.integers(0, 2**32), st.integers(0, 2100))
def test_more_octets_are_needed_until_all_are_there(ulpdu: bytes, place: int, cut: int) -> None:
    for offset in (None, place * 4):
        wire = encode_fpdu(ulpdu, offset)
        fpdu = decode_fpdu(wire[:cut], offset)
        assert (fpdu is None) == (cut < len(wire))
        assert decode_fpdu(wire + wire, offset) == decode_fpdu(wire, offset)


@given(
    st.lists(st.binary(max_size=700), min_size=1, max_size=12),
    st.sampled_from([None, "header", "first-octet"]),
)
def test_a_stream_of_them(ulpdus: list[bytes], origin: Origin | None) -> None:
    """From SeqStart, each begins where the one before it ends, and every Marker belongs to exactly one."""
    stream = bytearray()
    for ulpdu in ulpdus:
        offset = None if origin is None else len(stream)
        stream += encode_fpdu(ulpdu, offset, origin=origin or "header")
    position, found, markers = 0, [], []
    while position < len(stream):
        fpdu = decode_fpdu(memoryview(stream)[position:], None if origin is None else position)
        assert fpdu is not None
        assert fpdu.crc_good
        found.append(fpdu.ulpdu)
        markers += [place for place, _, _ in fpdu.markers]
        position += fpdu.wire_length
    assert found == ulpdus
    assert markers == ([] if origin is None else list(marker_positions(0, len(stream))))


@given(st.binary(min_size=1, max_size=1100), st.integers(0, 127), st.data())
def test_any_wrong_octet_after_the_length_is_a_bad_crc(ulpdu: bytes, place: int, data: st.DataObject) -> None:
    offset = place * 4
    wire = bytearray(encode_fpdu(ulpdu, offset))
    header = 4 if offset == 0 else 0
    index = data.draw(st.sampled_from([i for i in range(len(wire)) if not header <= i < header + 2]))
    wire[index] ^= data.draw(st.integers(1, 255))
    fpdu = decode_fpdu(wire, offset)
    assert fpdu is not None
    assert fpdu.crc_good is False
    unchecked = decode_fpdu(wire, offset, check_crc=False)
    assert unchecked is not None
    assert unchecked.crc_good is None


def test_a_marker_between_pad_and_crc_is_covered() -> None:
    wire = encode_fpdu(bytes(502), 8)  # 8 + 2 + 502 = 512, no PAD
    assert wire[504:508] == bytes.fromhex("000001f8")
    assert int.from_bytes(wire[508:], "little") == naive.crc32c(wire[:508])
    assert len(wire) == 512


def test_a_marker_after_the_crc_belongs_to_the_next() -> None:
    wire = encode_fpdu(bytes(498), 8)
    assert 8 + len(wire) == 512
    fpdu = decode_fpdu(wire, 8)
    assert fpdu is not None
    assert fpdu.markers == ()
    following = decode_fpdu(encode_fpdu(b"abcdef", 512), 512)
    assert following is not None
    assert following.markers == ((512, 0, 0),)


def test_what_is_given_is_sent() -> None:
    assert encode_fpdu(b"ab", crc=False) == bytes.fromhex("0002 6162 00000000")
    assert encode_fpdu(b"ab", crc=1) == bytes.fromhex("0002 6162 01000000")
    assert encode_fpdu(b"ab", crc=0x12345678)[-4:] == bytes.fromhex("78563412")
    assert encode_fpdu(b"abc", pad=b"xyz", crc=False) == bytes.fromhex("0003 616263 78797a 00000000")
    wrong_length = encode_fpdu(b"ab", ulpdu_length=300)
    assert wrong_length[:4] == bytes.fromhex("012c 6162")
    assert int.from_bytes(wrong_length[4:], "little") == crc32c(wrong_length[:4])


@given(st.binary(max_size=1100), st.integers(4, 511), st.binary(max_size=5))
def test_off_the_grid_of_four(ulpdu: bytes, offset: int, pad: bytes) -> None:
    """A sender whose PAD is wrong leaves the 4-octet grid; Markers then stand inside any field."""
    wire = encode_fpdu(ulpdu, offset, pad=pad)
    body = (len(ulpdu)).to_bytes(2, "big") + ulpdu + pad
    plain = bytes(octet for i, octet in enumerate(wire) if (offset + i) % 512 >= 4)
    assert plain[:-4] == body
    crc_starts = [i for i in range(len(wire)) if (offset + i) % 512 >= 4][len(body)]
    assert int.from_bytes(plain[-4:], "little") == naive.crc32c_fast(wire[:crc_starts])
    if len(pad) == pad_length(len(ulpdu)):
        fpdu = decode_fpdu(wire, offset)
        assert fpdu is not None
        assert (fpdu.ulpdu, fpdu.pad, fpdu.crc_good, fpdu.wire_length) == (ulpdu, pad, True, len(wire))


@pytest.mark.parametrize("ulpdu_length", [0, 1, 2, 42, 497, 502])
def test_off_the_grid_at_every_offset(ulpdu_length: int) -> None:
    """Markers inside ULPDU_Length, inside PAD and inside the CRC field are found and taken out."""
    ulpdu = bytes(0x80 | i & 0x7F for i in range(ulpdu_length))
    for offset in range(4, 512):
        wire = encode_fpdu(ulpdu, offset)
        fpdu = decode_fpdu(wire, offset)
        assert fpdu is not None, offset
        assert (fpdu.ulpdu, fpdu.crc_good, fpdu.wire_length) == (ulpdu, True, len(wire)), offset
        for end in range(6):
            assert decode_fpdu(wire[:end], offset) is None


def test_too_large() -> None:
    assert issubclass(FramingError, ValueError)
    assert issubclass(FramingError, MPAError)
    largest = bytes(MAX_ULPDU_LENGTH)
    assert len(encode_fpdu(largest)) == 64776
    assert len(encode_fpdu(largest, 0)) == 64776 + 4 * 128
    with pytest.raises(FramingError, match="64768"):
        encode_fpdu(largest + b"x")
    with pytest.raises(FramingError, match="16 bits"):
        encode_fpdu(bytes(65536), allow_oversize=True)
    assert len(encode_fpdu(bytes(65535), allow_oversize=True)) == 65544


def test_fpduptr_wraps_only_when_told() -> None:
    """Of ULPDUs up to 64768 octets none makes FPDUPTR pass 65535; a long PAD does."""
    with pytest.raises(FramingError, match="FPDUPTR"):
        encode_fpdu(bytes(MAX_ULPDU_LENGTH), 8, pad=bytes(1000))
    wire = encode_fpdu(bytes(65535), 8, allow_oversize=True)
    fpdu = decode_fpdu(wire, 8)
    assert fpdu is not None
    assert fpdu.crc_good
    assert fpdu.ulpdu_length == 65535
    assert fpdu.markers[-1] == (66048, 0, 66040 - 65536)
    assert wire == naive.fpdu(bytes(65535), 8, "header")[0]
    assert {check.verdict for check in check_markers(wire, 8)} == {"good"}


@pytest.mark.parametrize("offset", [1, 514, -512])
def test_refuses_an_offset_inside_a_marker(offset: int) -> None:
    for function in (encode_fpdu, decode_fpdu):
        with pytest.raises(FramingError):
            function(bytes(20), offset)
