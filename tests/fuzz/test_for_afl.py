"""The mutator for AFL++ and atheris, by the functions that they call."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scapy_mpa.craft.ulpdus import rdma_write, send
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.fuzz import for_afl
from tests.sampling import examples

REQUEST = startup_frame("request", c=1, m=1, private_data=b"hello").encode()
REPLY = startup_frame("reply", c=1).encode()
ULPDUS = [send(1, bytes(range(60))), rdma_write(7, 64, bytes(700)), send(2, b"x"), rdma_write(7, 0, b"")]


def stream(markers: bool, crc: bool = True) -> bytes:
    laid, offset = b"", 0
    for ulpdu in ULPDUS:
        fpdu = encode_fpdu(ulpdu, offset if markers else None, crc=crc)
        laid += fpdu
        offset += len(fpdu)
    return laid


INPUTS = {
    "request": REQUEST,
    "reply-and-fpdus": REPLY + stream(False),
    "request-and-marked-fpdus": REQUEST + stream(True),
    "fpdus": stream(False),
    "no-crc": REPLY + stream(False, crc=False),
    "ulpdu": ULPDUS[0],
    "cut": REQUEST + stream(True)[:-7],
    "junk": b"\xff",
    "nothing": b"",
}


@pytest.mark.parametrize(
    ("name", "has_frame", "fpdus", "has_rest"),
    [
        ("request", True, 0, False),
        ("reply-and-fpdus", True, 4, False),
        ("request-and-marked-fpdus", True, 4, False),
        ("fpdus", False, 4, False),
        ("no-crc", True, 4, False),
        ("ulpdu", False, 1, False),
        ("cut", True, 3, True),
        ("junk", False, 0, True),
        ("nothing", False, 0, False),
    ],
)
def test_inputs_are_read(name: str, has_frame: bool, fpdus: int, has_rest: bool) -> None:
    found = for_afl.read(INPUTS[name])
    assert (bool(found.frame), len(found.fpdus), bool(found.rest)) == (has_frame, fpdus, has_rest)
    assert found.encode() == INPUTS[name]
    assert found.is_ulpdu == (name == "ulpdu")


@given(st.one_of(st.binary(max_size=200), st.sampled_from([*INPUTS.values()])), st.data())
@hypothesis_settings(deadline=None, max_examples=examples(300))
def test_whatever_is_read_encodes_to_the_same(begin: bytes, drawn: st.DataObject) -> None:
    octets = bytearray(begin)
    for _ in range(drawn.draw(st.integers(0, 3))):
        if octets:
            octets[drawn.draw(st.integers(0, len(octets) - 1))] = drawn.draw(st.integers(0, 255))
    assert for_afl.read(bytes(octets)).encode() == bytes(octets)


@pytest.mark.parametrize("name", [*INPUTS])
def test_most_changes_leave_the_rest_valid(name: str) -> None:
    """It changes something nearly always, keeps to the size, and repairs: most products hold several valid FPDUs."""
    octets = INPUTS[name]
    for_afl.init(7)
    valid = changed = 0
    for _ in range(100):
        made = bytes(for_afl.fuzz(bytearray(octets), bytearray(INPUTS["fpdus"]), 4096))
        assert len(made) <= 4096
        changed += made != octets
        valid += len(for_afl.read(made).fpdus)
        assert "\n" not in for_afl.describe(60)
        assert len(for_afl.describe(10)) <= 10
    for_afl.deinit()
    assert for_afl.describe(60) == ""
    assert changed >= (90 if octets else 0)
    if name in ("reply-and-fpdus", "request-and-marked-fpdus", "fpdus"):
        assert valid > 150


def test_the_same_seed_gives_the_same() -> None:
    def run(seed: int) -> list[bytearray]:
        for_afl.init(seed)
        return [for_afl.fuzz(bytearray(INPUTS["reply-and-fpdus"]), None, 10_000) for _ in range(30)]

    assert run(3) == run(3)
    assert run(3) != run(4)
    octets = INPUTS["request-and-marked-fpdus"]
    assert for_afl.custom_mutator(octets, 4096, 5) == for_afl.custom_mutator(octets, 4096, 5)


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(1, 400), st.integers(0, 1 << 31))
@hypothesis_settings(deadline=None, max_examples=examples(200))
def test_no_input_stops_it(one: bytes, other: bytes, most: int, seed: int) -> None:
    assert len(for_afl.custom_mutator(one, most, seed)) <= most
    assert len(for_afl.custom_crossover(REQUEST + one, REPLY + other, most, seed)) <= most
    made, done = for_afl.mutated(one, other, most, random.Random(seed))
    assert len(made) <= most
    assert done or made == one[:most]


def test_fpdus_of_another_input_are_put_in() -> None:
    other = encode_fpdu(send(9, b"of another one"))
    made = for_afl.custom_crossover(REQUEST + stream(True), other, 10_000, 1)
    fpdus = for_afl.read(made).fpdus
    assert len(fpdus) == 5
    assert any(b"of another one" in fpdu.payload[:] for fpdu in fpdus)
