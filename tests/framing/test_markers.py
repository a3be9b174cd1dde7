"""Markers: places, pointers, insertion and removal."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.errors import FramingError
from scapy_mpa.framing import (
    check_markers,
    decode_marker,
    encode_fpdu,
    encode_marker,
    expected_fpduptr,
    fpdu_start_of,
    header_offset,
    marker_count,
    marker_positions,
    plain_length,
    remove_markers,
    wire_length,
)
from scapy_mpa.framing.fpdu import conformant, write_fpdu
from scapy_mpa.framing.markers import require_fpdu_offset
from tests.framing import naive

ORIGINS: tuple[Literal["header", "first-octet"], ...] = ("header", "first-octet")
LENGTHS = [0, 1, 2, 3, 16, 42, 486, 490, 494, 498, 499, 500, 501, 502, 503, 506, 1006, 1010, 1014, 1500]


@pytest.mark.parametrize(
    ("start", "end", "positions"),
    [
        (0, 1, [0]),
        (1, 512, []),
        (1, 513, [512]),
        (0, 512, [0]),
        (512, 1100, [512, 1024]),
        (2**33 + 1, 2**33 + 513, [2**33 + 512]),
    ],
)
def test_positions(start: int, end: int, positions: list[int]) -> None:
    assert list(marker_positions(start, end)) == positions


@pytest.mark.parametrize(("offset", "header"), [(0, 4), (4, 4), (508, 508), (512, 516), (1024, 1028)])
def test_header_offset(offset: int, header: int) -> None:
    assert header_offset(offset) == header


@pytest.mark.parametrize("ulpdu_length", LENGTHS)
def test_lengths_and_pointers_at_every_offset(ulpdu_length: int) -> None:
    ulpdu = bytes(i * 7 & 0xFF for i in range(ulpdu_length))
    for offset in range(0, 1024, 4):
        for origin in ORIGINS:
            wire, markers = naive.fpdu(ulpdu, offset, origin)
            body = len(wire) - 4 * len(markers)
            assert plain_length(ulpdu_length) == body
            assert marker_count(offset, body) == len(markers)
            assert wire_length(ulpdu_length, offset) == len(wire)
            assert list(marker_positions(offset, offset + len(wire))) == [place for place, _ in markers]
            for place, fpduptr in markers:
                assert expected_fpduptr(place, offset, origin) == fpduptr
                # No FPDU begins right after a Marker: that Marker would be its first octets.
                if offset % 512 != 4:
                    assert fpdu_start_of(place, fpduptr)[0] == (offset, header_offset(offset))


@pytest.mark.parametrize(
    ("marker_offset", "fpduptr", "candidates"),
    [
        (0, 0, [(0, 4)]),
        (512, 0, [(512, 516)]),
        (512, 0x14, [(492, 492)]),
        (512, 0x17, [(492, 492)]),  # the low two bits say nothing
        (512, 508, [(0, 4)]),  # RFC 5044: header after a leading Marker
        (512, 512, [(0, 4)]),  # the drafts: the Marker itself
        (1024, 1020, [(0, 4)]),
        (512, 516, []),  # before the stream
        (512 * 200, 8, [(102392, 102392), (102392 - 65536, 102392 - 65536)]),
        (512 * 200, 520, [(101880, 101880), (36344, 36344)]),
        (512 * 200, 1000, [(101400, 101400)]),  # no FPDU is 66536 octets long
        (65536, 0, [(65536, 65540), (0, 4)]),
        (512, 0xFFFC, []),
    ],
)
def test_fpdu_start_of(marker_offset: int, fpduptr: int, candidates: list[tuple[int, int]]) -> None:
    assert list(fpdu_start_of(marker_offset, fpduptr)) == candidates


def test_pointer_wraps_in_the_largest_fpdus() -> None:
    assert expected_fpduptr(512 * 129, 8) == 512 * 129 - 8 - 65536
    assert fpdu_start_of(512 * 129, expected_fpduptr(512 * 129, 8)) == ((65544, 65544), (8, 8))


def test_second_marker_tells_the_two_origins_apart() -> None:
    assert expected_fpduptr(512, 0, "header") == 508
    assert expected_fpduptr(512, 0, "first-octet") == 512
    assert expected_fpduptr(0, 0, "header") == expected_fpduptr(0, 0, "first-octet") == 0
    assert expected_fpduptr(512, 8, "header") == expected_fpduptr(512, 8, "first-octet") == 504


def test_marker_octets() -> None:
    assert encode_marker(0x000C) == bytes.fromhex("0000000c")
    assert encode_marker(0x1FC, 0xABCD) == bytes.fromhex("abcd01fc")
    assert decode_marker(bytes.fromhex("abcd01fdee")) == (0xABCD, 0x1FD)


@pytest.mark.parametrize(("fpduptr", "reserved"), [(65536, 0), (-4, 0), (0, 65536), (0, -1)])
def test_marker_refuses_what_does_not_fit(fpduptr: int, reserved: int) -> None:
    with pytest.raises(FramingError):
        encode_marker(fpduptr, reserved)


def test_marker_refuses_too_few_octets() -> None:
    with pytest.raises(FramingError):
        decode_marker(b"\0\0\0")


@given(st.binary(max_size=1600), st.integers(0, 2**34).map(lambda n: n * 4), st.sampled_from(ORIGINS))
def test_markers_are_put_in_octet_by_octet(body: bytes, offset: int, origin: Literal["header", "first-octet"]) -> None:
    """Any body, whatever its octets mean."""
    dialect = conformant(True, False, origin)
    wire = write_fpdu(dialect, body, offset, -offset % 512, length_field=b"", pad=b"", crc=b"")[0]
    expected, taken, header = bytearray(), 0, None
    while taken < len(body):
        position = offset + len(expected)
        if position % 512 == 0:
            pointer = 0 if header is None else position - (header if origin == "header" else offset)
            expected += pointer.to_bytes(4, "big")
            position += 4
        header = position if header is None else header
        expected.append(body[taken])
        taken += 1
    assert wire == expected
    assert remove_markers(wire, offset) == body
    assert len(wire) == len(body) + 4 * marker_count(offset, len(body))


@given(st.binary(max_size=1600), st.integers(0, 2048))
def test_remove_from_anywhere(octets: bytes, offset: int) -> None:
    """Also from octets that begin or end inside a Marker."""
    kept = bytes(octet for i, octet in enumerate(octets) if (offset + i) % 512 >= 4)
    assert remove_markers(octets, offset) == kept
    assert remove_markers(memoryview(octets), offset) == kept


@pytest.mark.parametrize("offset", [1, 3, 513, 1027, -4])
def test_no_fpdu_begins_inside_a_marker(offset: int) -> None:
    with pytest.raises(FramingError, match="inside a Marker"):
        require_fpdu_offset(offset)


@pytest.mark.parametrize(
    ("offset", "sent", "asked", "verdicts"),
    [
        (0, "header", "header", ["good", "good", "good"]),
        (0, "first-octet", "first-octet", ["good", "good", "good"]),
        (0, "first-octet", "header", ["good", "other-origin", "other-origin"]),
        (0, "header", "first-octet", ["good", "other-origin", "other-origin"]),
        (8, "first-octet", "header", ["good", "good"]),  # no leading Marker: nothing tells them apart
    ],
)
def test_check(
    offset: int,
    sent: Literal["header", "first-octet"],
    asked: Literal["header", "first-octet"],
    verdicts: list[str],
) -> None:
    wire = encode_fpdu(bytes(1100), offset, origin=sent)
    checks = check_markers(wire, offset, asked)
    assert [check.verdict for check in checks] == verdicts
    assert [check.marker_offset for check in checks] == [p for p in (0, 512, 1024) if p >= offset]
    assert [check[:3] for check in checks] == [(c.marker_offset, c.fpduptr, c.verdict) for c in checks]


@pytest.mark.parametrize(
    ("marker", "verdict"),
    [
        ("000001fc", "good"),
        ("ffff01fc", "good"),  # RESERVED is ignored
        ("000001ff", "good"),  # so are the low two bits
        ("00000200", "other-origin"),
        ("000001f8", "bad"),
        ("0000fc01", "bad"),  # least significant octet first
        ("00000000", "bad"),
    ],
)
def test_check_one_marker(marker: str, verdict: str) -> None:
    wire = bytearray(encode_fpdu(bytes(600), 0))
    wire[512:516] = bytes.fromhex(marker)
    checked = check_markers(wire, 0)[1]
    assert checked.verdict == verdict
    assert (checked.reserved, checked.fpduptr) == decode_marker(bytes.fromhex(marker))
    assert checked.expected == 508


def test_check_leaves_out_a_marker_that_is_cut() -> None:
    wire = encode_fpdu(bytes(600), 0)
    assert [len(check_markers(wire[:end], 0)) for end in (3, 4, 515, 516)] == [0, 1, 1, 2]
