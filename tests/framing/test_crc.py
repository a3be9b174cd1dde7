"""CRC32c against its published vectors and its definition."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.errors import FramingError, MPAError
from scapy_mpa.framing import crc32c, crc_field, crc_from_field
from tests.framing import naive

# RFC 3720 B.4, as the four octets that travel.
VECTORS = [
    (bytes(32), "aa36918a"),
    (b"\xff" * 32, "43aba862"),
    (bytes(range(32)), "4e79dd46"),
    (bytes(range(31, -1, -1)), "5cdb3f11"),
    (bytes(4), "c74b6748"),
]


@pytest.mark.parametrize(("octets", "wire"), VECTORS)
def test_vectors(octets: bytes, wire: str) -> None:
    assert crc_field(crc32c(octets)).hex() == wire
    assert crc_from_field(bytes.fromhex(wire) + b"more") == crc32c(octets)
    assert naive.crc32c(octets) == naive.crc32c_fast(octets) == crc32c(octets)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_continues_where_it_stopped(octets: bytes, cut: int) -> None:
    whole = naive.crc32c(octets)
    assert crc32c(memoryview(octets)[cut:], crc32c(bytearray(octets[:cut]))) == whole


@pytest.mark.parametrize("value", [-1, 1 << 32])
def test_field_refuses_what_does_not_fit(value: int) -> None:
    with pytest.raises(FramingError, match="32 bits"):
        crc_field(value)


def test_field_refuses_too_few_octets() -> None:
    with pytest.raises(FramingError, match="not 3"):
        crc_from_field(b"abc")


def run(program: str, **environment: str) -> str:
    """Return what a fresh interpreter prints: the choice of CRC32c is made at import."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


COMPUTE = "from scapy_mpa.framing.crc import crc32c; print(hex(crc32c(b'123456789')))"


def test_without_the_instruction_it_computes_in_software() -> None:
    assert run(COMPUTE, CRC32C_SKIP_HW_PROBE="1") == "0xe3069283"


def test_refused_software_is_an_error_for_a_person() -> None:
    program = f"try:\n  {COMPUTE}\nexcept Exception as e:\n  print(type(e).__name__, e)"
    said = run(program, CRC32C_SKIP_HW_PROBE="1", CRC32C_SW_MODE="none")
    assert said.startswith(MPAError.__name__)
    assert "CRC32C_SW_MODE" in said


HIDE_THE_EXTENSION = """
import sys
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec

def hiding(name, *args):
    hidden = name == "crc32c._crc32c" and "crc32c" not in sys.modules
    return None if hidden else find_spec(name, *args)

PathFinder.find_spec = hiding
"""


def test_falls_back_to_the_plain_import() -> None:
    told = f"{HIDE_THE_EXTENSION}{COMPUTE}; print('crc32c' in sys.modules)"
    assert run(told).split() == ["0xe3069283", "True"]
    assert run(f"import sys; {COMPUTE}; print('crc32c' in sys.modules)").split() == ["0xe3069283", "False"]


def test_framing_imports_no_scapy_and_little_else() -> None:
    heavy = ["scapy", "dataclasses", "inspect", "argparse", "asyncio", "importlib.metadata"]
    program = f"import sys, scapy_mpa.framing; print([m for m in {heavy} if m in sys.modules])"
    before = f"import sys; print([m for m in {heavy} if m in sys.modules])"
    assert run(program) == run(before)
