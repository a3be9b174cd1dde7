"""Segments that overlap and differ: work is linear in their octets, whatever is sent over whatever."""

from __future__ import annotations

import io
from itertools import product

import pytest

from scapy_mpa.reading.analysis import analyze
from scapy_mpa.values.segment import Segment, checksum_is_wrong
from tests.hostile.examine import examine
from tests.hostile.overlaps import CHECKSUMS, DIFFERENCES, SHAPES, STATES, conflicting
from tests.work import lines_run

#: Octets of segments in a capture.
OCTETS = {1400: 250_000, 60_000: 1_500_000}
#: Lines that an octet takes at most, whatever differs from it, and a packet, be it one octet long.
LINES_AN_OCTET, LINES_A_PACKET = 6, 700
#: Twice the octets take at most so many times the lines.
MOST_GROWTH = 3

#: Those shapes in which all segments are long.
LONG = [shape for shape in SHAPES if shape != "over single octets"]
#: Each state with each shape; differences, checksums and holes take turns, so that each comes with each of the others.
CASES = [
    (state, shape, [*DIFFERENCES][number % 5], [*CHECKSUMS][number % 6], [*OCTETS][number % 2], number % 7 < 3)
    for number, (state, shape) in enumerate(product(STATES, SHAPES))
]


def lines_of(octets: bytes) -> int:
    """Lines that an analysis runs."""
    return lines_run(lambda: analyze(io.BytesIO(octets), fpdus=False))


@pytest.mark.uncompiled
@pytest.mark.parametrize(("state", "shape", "difference", "checksum", "size", "hole"), CASES)
def test_work_is_bounded(state: str, shape: str, difference: str, checksum: str, size: int, hole: bool) -> None:
    octets = conflicting(state, shape, difference, checksum, size, OCTETS[size], hole=hole)
    packets = analyze(io.BytesIO(octets), fpdus=False).packets
    assert lines_of(octets) < LINES_AN_OCTET * len(octets) + LINES_A_PACKET * packets


@pytest.mark.uncompiled
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shape", LONG)
def test_work_is_linear(state: str, shape: str) -> None:
    once, twice = (lines_of(conflicting(state, shape, "all", "right", 1400, octets)) for octets in (300_000, 600_000))
    assert twice < MOST_GROWTH * once


def test_markers_that_contradict_lengths_and_each_other_do_not_hang_it() -> None:
    octets = conflicting("Full Operation with Markers without CRC", "twice", "all", "right", 1400, 20_000)
    (found,) = analyze(io.BytesIO(octets)).connections
    assert found.initiator.counts.fpdus > 2


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("shape", LONG)
@pytest.mark.parametrize("checksum", ["right", "wrong first", "every other wrong"])
def test_a_checksum_is_computed_a_few_times(
    state: str, shape: str, checksum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each segment may differ from all before."""
    octets = conflicting(state, shape, "all", checksum, 1400, 150_000)
    packets = analyze(io.BytesIO(octets)).packets
    computed: list[int] = []

    def count(seg: Segment) -> bool:
        computed.append(seg.frame)
        return right(seg)

    right = checksum_is_wrong
    monkeypatch.setattr("scapy_mpa.values.checksums.checksum_is_wrong", count)
    analyze(io.BytesIO(octets))
    # A startup phase that begins again computes them again, and may only now and then.
    assert len(computed) < 3 * packets


@pytest.mark.parametrize(("state", "shape", "difference", "checksum", "size", "hole"), CASES[::4])
def test_what_must_hold_of_every_capture(
    state: str, shape: str, difference: str, checksum: str, size: int, hole: bool
) -> None:
    examine([conflicting(state, shape, difference, checksum, size, 100_000, hole=hole)])
