"""Cuts cover a stream once; reordering is local, and repeats with its seed."""

from __future__ import annotations

import random

import pytest

from scapy_mpa.craft.segments import Cut, aligned_cuts, below, displace, emss_cuts, packed_cuts, random_cuts
from scapy_mpa.craft.stream import LaidFPDU
from tests.laying import lay_stream

EMSS = 1448


def laid_out(lengths: list[int]) -> list[LaidFPDU]:
    return lay_stream([bytes(length) for length in lengths], markers=True)[1]


def assert_covers(cuts: list[Cut], end: int) -> None:
    assert [first for first, _ in cuts] == [0, *(after for _, after in cuts[:-1])]
    assert cuts[-1][1] == end
    assert all(first < after for first, after in cuts)


@pytest.mark.parametrize(
    "lengths", [[60] * 100, [1400] * 5, [5000], [60, 5000, 60], [5000, 60, 60], [700, 700, 1442, 3, 1442]]
)
def test_cuts_by_fpdus(lengths: list[int]) -> None:
    laid = laid_out(lengths)
    starts = {fpdu.offset for fpdu in laid}
    for cut in (aligned_cuts, packed_cuts):
        cuts = cut(laid, EMSS)
        assert_covers(cuts, laid[-1].end)
        assert all(after - first <= EMSS for first, after in cuts)
        # Every FPDU begins where a segment does, or shares the segment whole.
        for fpdu in laid:
            first, after = next(c for c in cuts if c[0] <= fpdu.offset < c[1])
            assert first == fpdu.offset or (cut is packed_cuts and fpdu.end <= after and first in starts)
    assert len(aligned_cuts(laid, EMSS)) == sum(-(-fpdu.wire_length // EMSS) for fpdu in laid)


def test_packing_leaves_no_room_for_the_next() -> None:
    laid = laid_out([60] * 200)
    cuts = packed_cuts(laid, EMSS)
    ends = {fpdu.offset: fpdu.end for fpdu in laid}
    assert all(ends[after] - first > EMSS for first, after in cuts[:-1])


def test_cuts_that_know_no_fpdus() -> None:
    assert emss_cuts(100, 400, 150) == [(100, 250), (250, 400)]
    assert emss_cuts(0, 301, 150) == [(0, 150), (150, 300), (300, 301)]
    cuts = random_cuts(0, 100_000, random.Random(3), 10, 20)
    assert_covers(cuts, 100_000)
    assert {after - first for first, after in cuts[:-1]} == set(range(10, 21))


def test_displacing_is_local_and_keeps_everything() -> None:
    items = list(range(10_000))
    seen = displace(items, random.Random(4), 0.03, 8)
    assert sorted(seen) == items
    highest, late = -1, []
    for item in seen:
        if item < highest:
            late.append(highest - item)
        highest = max(highest, item)
    assert 250 < len(late) < 350
    assert max(late) <= 8 + 1
    assert displace(items, random.Random(4), 0.0, 8) == items


def test_choices_repeat_on_every_python() -> None:
    rng = random.Random(5)
    assert [below(rng, 1000) for _ in range(5)] == [622, 255, 741, 358, 795]
    assert displace("abcdefghij", random.Random(5), 0.5, 3) == list("abcdefhgji")
