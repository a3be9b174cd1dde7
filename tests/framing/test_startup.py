"""Startup frames, written out by hand from RFC 5044 figure 8 and RFC 6581 §6 and §9."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.errors import FramingError
from scapy_mpa.framing import (
    KEY_PREFIX,
    PROFILES,
    REPLY_KEY,
    REQUEST_KEY,
    RES,
    C,
    EnhancedData,
    M,
    R,
    S,
    StartupFrame,
    decode_startup_frame,
    startup_frame,
    startup_frame_problems,
)

REQ = "4d504120494420526571204672616d65"
REP = "4d504120494420526570204672616d65"

# (octets, frame)
FRAMES = [
    (f"{REQ} 00 01 0000", StartupFrame("request", 0, 0, 0, 0, 0, 1, 0, b"")),
    (f"{REP} 00 01 0000", StartupFrame("reply", 0, 0, 0, 0, 0, 1, 0, b"")),
    (f"{REQ} 80 00 0000", StartupFrame("request", 1, 0, 0, 0, 0, 0, 0, b"")),
    (f"{REQ} 40 01 0000", StartupFrame("request", 0, 1, 0, 0, 0, 1, 0, b"")),
    (f"{REP} 20 01 0003 616263", StartupFrame("reply", 0, 0, 1, 0, 0, 1, 3, b"abc")),
    (f"{REP} 10 02 0004 80074003", StartupFrame("reply", 0, 0, 0, 1, 0, 2, 4, b"\x80\x07\x40\x03")),
    (f"{REQ} ff 02 0001 ff", StartupFrame("request", 1, 1, 1, 1, 15, 2, 1, b"\xff")),
    (f"{REQ} 08 02 0000", StartupFrame("request", 0, 0, 0, 0, 8, 2, 0, b"")),
]


def test_constants() -> None:
    assert bytes.fromhex(REQ) == REQUEST_KEY
    assert bytes.fromhex(REP) == REPLY_KEY
    assert KEY_PREFIX == b"MPA ID Re"
    assert (M | C | R | S | RES, M, C, R, S, RES) == (0xFF, 0x80, 0x40, 0x20, 0x10, 0x0F)


@pytest.mark.parametrize(("octets", "frame"), FRAMES)
def test_both_ways(octets: str, frame: StartupFrame) -> None:
    wire = bytes.fromhex(octets)
    assert frame.encode() == wire
    assert frame.wire_length == len(wire)
    assert decode_startup_frame(wire) == frame
    assert decode_startup_frame(memoryview(wire + b"first FPDU")) == frame
    for end in range(len(wire)):
        assert decode_startup_frame(wire[:end]) is None


@pytest.mark.parametrize(
    "octets", [b"X", b"MPA ID Rx", b"MPA ID Req frame" + bytes(4), b"MPA ID Rep Frams", b"GET / HTTP/1.1\r\n"]
)
def test_neither_key(octets: bytes) -> None:
    with pytest.raises(FramingError, match="Key"):
        decode_startup_frame(octets)


ENHANCED = [
    ("00000000", EnhancedData()),
    ("80000000", EnhancedData(a=1)),
    ("40000000", EnhancedData(b=1)),
    ("00008000", EnhancedData(c=1)),
    ("00004000", EnhancedData(d=1)),
    ("3fff0001", EnhancedData(ird=0x3FFF, ord=1)),
    ("00013fff", EnhancedData(ird=1, ord=0x3FFF)),
    ("8010c008", EnhancedData(1, 0, 1, 1, 16, 8)),
]


@pytest.mark.parametrize(("octets", "data"), ENHANCED)
def test_enhanced_data(octets: str, data: EnhancedData) -> None:
    assert data.encode().hex() == octets
    assert EnhancedData.decode(bytes.fromhex(octets) + b"ULP's own") == data


def test_enhanced_data_refuses_what_does_not_fit() -> None:
    for wrong in (EnhancedData(ird=0x4000), EnhancedData(ord=0x4000), EnhancedData(ird=-1)):
        with pytest.raises(FramingError):
            wrong.encode()
    with pytest.raises(FramingError):
        EnhancedData.decode(b"abc")


@pytest.mark.parametrize(
    ("s", "rev", "private_data", "there"),
    [
        (1, 2, 4, True),
        (1, 3, 9, True),
        (0, 2, 4, False),
        (1, 1, 4, False),
        (1, 0, 4, False),
        (1, 2, 3, False),
    ],
)
def test_when_there_is_enhanced_data(s: int, rev: int, private_data: int, there: bool) -> None:
    frame = startup_frame("request", s=s, rev=rev, private_data=bytes(private_data))
    assert frame.enhanced == (EnhancedData() if there else None)


def test_builder_computes_what_it_is_not_given() -> None:
    assert startup_frame("request", m=1, c=1) == StartupFrame("request", 1, 1, 0, 0, 0, 1, 0, b"")
    frame = startup_frame("reply", enhanced=EnhancedData(a=1, d=1, ird=3, ord=2), private_data=b"hello")
    assert frame == StartupFrame("reply", 0, 0, 0, 1, 0, 2, 9, bytes.fromhex("80034002") + b"hello")
    assert frame.enhanced == EnhancedData(1, 0, 0, 1, 3, 2)


def test_builder_keeps_what_it_is_given() -> None:
    frame = startup_frame("request", pd_length=7, private_data=b"abc", rev=9, s=0, enhanced=EnhancedData())
    assert (frame.pd_length, frame.rev, frame.s, frame.private_data) == (7, 9, 0, bytes(4) + b"abc")
    assert frame.encode()[18:] == bytes.fromhex("0007 00000000 616263")


@pytest.mark.parametrize("wrong", [{"res": 16}, {"rev": 256}, {"pd_length": 65536}, {"pd_length": -1}])
def test_encode_refuses_what_does_not_fit(wrong: dict[str, int]) -> None:
    with pytest.raises(FramingError):
        startup_frame("request", **wrong).encode()  # type: ignore[arg-type]


BIT = st.integers(0, 1)


@given(
    st.sampled_from(["request", "reply"]),
    BIT,
    BIT,
    BIT,
    BIT,
    st.integers(0, 15),
    st.integers(0, 255),
    st.binary(max_size=600),
)
def test_round_trip(kind: str, m: int, c: int, r: int, s: int, res: int, rev: int, data: bytes) -> None:
    frame = StartupFrame(kind, m, c, r, s, res, rev, len(data), data)  # type: ignore[arg-type]
    assert decode_startup_frame(frame.encode()) == frame


@pytest.mark.parametrize(
    ("profile", "rev", "s", "length", "invalid"),
    [
        (None, 0, 0, 65535, False),
        (None, 1, 0, 512, False),
        (None, 1, 0, 513, True),
        (None, 2, 0, 512, False),
        (None, 2, 1, 513, True),
        (None, 2, 1, 3, True),
        (None, 2, 1, 4, False),
        (None, 2, 0, 3, False),
        (None, 1, 1, 3, False),  # there the bit is reserved, and not checked
        ("rfc5044", 2, 1, 3, False),
        ("rfc5044", 0, 0, 513, True),
        ("rfc6581", 1, 1, 0, False),
        ("rddp-01", 0, 0, 60000, False),
        ("rddp-01", 1, 0, 0, True),
        ("culley-02", 1, 0, 513, True),  # it has no startup frames: the frame's own Rev rules
    ],
)
def test_problems(profile: str | None, rev: int, s: int, length: int, invalid: bool) -> None:
    frame = startup_frame("request", rev=rev, s=s, private_data=bytes(length))
    problems = startup_frame_problems(frame, PROFILES[profile] if profile else None)
    assert bool(problems) == invalid
    assert all(problem.text and not problem.text.endswith(".") for problem in problems)


def test_problems_are_not_reserved_bits_nor_r_in_a_request() -> None:
    assert startup_frame_problems(startup_frame("request", r=1, res=15)) == ()


def test_a_length_that_lies_is_a_problem() -> None:
    (problem,) = startup_frame_problems(startup_frame("request", private_data=b"abc", pd_length=4))
    assert problem == ("startup-pd-length", "PD_Length 4 with 3 octets of Private Data")
