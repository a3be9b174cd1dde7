"""Sequence numbers modulo 2^32."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.framing import SEQ_MOD, marker_positions, seq_add, seq_diff, unwrap, wrap

SEQ = st.integers(0, 2**32 - 1)
OFFSET = st.integers(0, 2**40)

TOP = 2**32 - 1


@pytest.mark.parametrize(
    ("a", "b", "difference"),
    [
        (0, 0, 0),
        (0, TOP, 1),
        (TOP, 0, -1),
        (523, 11, 512),
        (11, 523, -512),
        (2**31, 0, -(2**31)),
        (2**31 - 1, 0, 2**31 - 1),
        (0, 2**31, -(2**31)),
    ],
)
def test_seq_diff(a: int, b: int, difference: int) -> None:
    assert seq_diff(a, b) == difference


def test_seq_add_wraps_both_ways() -> None:
    assert SEQ_MOD == 4294967296
    assert seq_add(TOP, 1) == 0
    assert seq_add(TOP - 3, 512) == 508
    assert seq_add(0, -1) == TOP


@given(SEQ, st.integers(-(2**31), 2**31 - 1))
def test_diff_undoes_add(seq: int, octets: int) -> None:
    assert seq_diff(seq_add(seq, octets), seq) == octets


@given(OFFSET, SEQ, st.integers(-(2**31) + 1, 2**31 - 1))
def test_unwrap_finds_the_offset_it_is_near(offset: int, isn: int, error: int) -> None:
    assert unwrap(wrap(offset, isn), offset + error, isn) == offset


@pytest.mark.parametrize(
    ("seq", "near", "isn", "offset"),
    [
        (100, 0, 100, 0),
        (99, 0, 100, -1),
        (5, 0, TOP - 4, 10),
        # The third time round: 8 GiB on, just before and just after the wrap.
        (TOP, 2**33 - 100, 0, 2**33 - 1),
        (7, 2**33 - 100, 0, 2**33 + 7),
        (2**31, 0, 0, -(2**31)),
    ],
)
def test_unwrap(seq: int, near: int, isn: int, offset: int) -> None:
    assert unwrap(seq, near, isn) == offset
    assert wrap(offset, isn) == seq


def test_example_of_rfc5044_4_3() -> None:
    """A connection that starts at sequence number 11 has Markers at 11, 523, 1035."""
    assert [wrap(offset, 11) for offset in marker_positions(0, 1500)] == [11, 523, 1035]


def test_marker_grid_does_not_move_when_the_sequence_number_wraps() -> None:
    isn = 2**32 - 600
    assert [wrap(offset, isn) for offset in marker_positions(0, 1100)] == [isn, 2**32 - 88, 424]
