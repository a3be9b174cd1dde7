"""Which segment at one tap is which at the other, without captures."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.compare.matching import Passed, covered, match, reordered, without

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=12)


def column(*segments: tuple[int, int, int]) -> Passed:
    """Segments as offset, length, time."""
    return Passed(*(list(values) for values in zip(*segments, strict=True))) if segments else Passed([], [], [])


def test_the_copy_of_the_nearest_delay_is_the_one() -> None:
    """The first was lost: what arrived is the second."""
    found = match(column((0, 10, 0), (10, 10, 5), (0, 10, 100)), column((10, 10, 6), (0, 10, 101)), 1)
    assert (found.pairs, found.lost) == ([(0, 1), (1, 2)], [0])


def test_a_range_that_reaches_over_others_is_cut_anew() -> None:
    found = match(column((0, 10, 0), (10, 10, 1)), column((0, 5, 1), (5, 10, 2), (15, 5, 3)), 0)
    (group,) = found.recut
    assert (group.way, group.sent, group.received) == ("recut", [0, 1], [0, 1, 2])


def test_a_lost_copy_beside_a_repeated_piece_is_no_cut() -> None:
    """All octets came in segments that are the same at both taps."""
    sent = column((0, 10, 0), (0, 5, 50), (5, 5, 51))
    received = column((0, 5, 50), (5, 5, 51), (2, 6, 60))
    found = match(sent, received, 0)
    assert (found.lost, found.extra, found.recut) == ([0], [2], [])


def test_reordered() -> None:
    assert [*reordered([(0, 0), (1, 2), (2, 1), (3, 3)])] == [(2, 1)]


@given(one=RANGES, two=RANGES)
def test_every_segment_has_one_fate(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    sent, received = (column(*((*pair, time) for time, pair in enumerate(some))) for some in (one, two))
    found = match(sent, received, 0)
    here = [b for _, b in found.pairs] + found.lost + [index for group in found.recut for index in group.sent]
    there = [a for a, _ in found.pairs] + found.extra + [index for group in found.recut for index in group.received]
    assert sorted(here) == [*range(len(one))] and sorted(there) == [*range(len(two))]
    assert all(one[b] == two[a] for a, b in found.pairs)


@given(one=RANGES, two=RANGES)
def test_ranges(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> None:
    sets = [{octet for start, length in some for octet in range(start, start + length)} for some in (one, two)]
    ours, theirs = (covered(column(*((*pair, 0) for pair in some))) for some in (one, two))
    left = without(ours, theirs)
    assert {octet for start, end in left for octet in range(start, end)} == sets[0] - sets[1]
    assert sum(end - start for start, end in left) == len(sets[0] - sets[1])
