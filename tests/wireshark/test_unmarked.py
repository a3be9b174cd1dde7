"""Sequence numbers of a stream without its Markers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.wireshark.unmarked import Unmarked


def unmarked(seq_start: int | None, *, markers: bool = True, has_start: bool = True) -> Unmarked:
    return Unmarked(seq_start, markers=markers, has_start=has_start)


@given(st.integers(0, 2**32 - 1), st.integers(0, 3000))
def test_as_if_counted(seq_start: int, offset: int) -> None:
    """Sequence numbers may wrap."""
    kept = sum(position % 512 >= 4 for position in range(offset))
    assert unmarked(seq_start).seq((seq_start + offset) % 2**32) == (seq_start + kept) % 2**32
    assert unmarked(seq_start, markers=False).seq((seq_start + offset) % 2**32) == (seq_start + offset) % 2**32


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**40))
def test_far_into_a_long_stream(seq_start: int, offset: int) -> None:
    numbers = unmarked(seq_start)
    numbers.near = max(0, offset - 100_000)
    assert numbers.offset_of((seq_start + offset) % 2**32) == offset
    step = numbers.seq_at(offset + 512) - numbers.seq_at(offset)
    assert step % 2**32 == 508


def test_what_is_before_stays_where_it_is() -> None:
    numbers = unmarked(1000)
    assert [numbers.seq(seq) for seq in (400, 999, 1000)] == [400, 999, 1000]
    assert unmarked(1000, has_start=False).seq(488) == 492
    assert unmarked(None).seq(17) == 17


@pytest.mark.parametrize("end", [510, 512, 513, 516, 1024])
def test_a_fin_takes_a_sequence_number(end: int) -> None:
    numbers = unmarked(0)
    numbers.fin = end
    assert numbers.seq(end + 1) == numbers.seq(end) + 1
