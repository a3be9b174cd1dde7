"""Hostile captures by name: work is linear in their length, memory is within the limits."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from contextlib import suppress

import pytest
import zstandard

from scapy_mpa.capture.source import GZIP_MAGIC, ZSTD_MAGIC
from scapy_mpa.errors import CaptureError
from scapy_mpa.receive.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.report.analysis import analyze
from tests.hostile import floods_below, floods_of_fpdus  # noqa: F401 - they fill the table
from tests.hostile.examine import examine
from tests.hostile.floods import FLOODS
from tests.work import lines_run

#: Twice the packets run at most so many times the lines, besides those of a search that ends; and so many an octet.
MOST_GROWTH, ONCE = 3, 500_000
LINES_AN_OCTET = 90

#: Limits that every flood meets, and blocks of the file so small that what one of them holds does not count.
FEW = Limits(
    held_octets=20_000,
    held_segments=100,
    total_octets=100_000,
    connections=50,
    mpa_connections=50,
    findings=200,
    datagrams=50,
    fragment_octets=50_000,
)
BLOCK = 1 << 14


def size_of(octets: bytes) -> int:
    """Octets of a file, decompressed."""
    if octets.startswith(GZIP_MAGIC):
        return len(gzip.decompress(octets)) + len(octets)
    if octets.startswith(ZSTD_MAGIC):
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(octets), read_across_frames=True) as reader:
            return len(reader.read()) + len(octets)
    return len(octets)


def work(octets: bytes, limits: Limits = DEFAULT_LIMITS) -> int:
    """Lines that an analysis runs."""

    def analysis() -> None:
        with suppress(CaptureError):
            analyze(io.BytesIO(octets), limits=limits)

    return lines_run(analysis)


@pytest.mark.parametrize("name", FLOODS)
def test_work_is_linear(name: str) -> None:
    flood = FLOODS[name]
    # Within 64 KiB work may grow faster: all of one FPDU.
    for packets in (flood.packets // 4, flood.packets // 2):
        once, twice = flood.make(packets), flood.make(2 * packets)
        one, two = work(once), work(twice)
        assert two <= LINES_AN_OCTET * size_of(twice) + ONCE
        if two <= MOST_GROWTH * one + ONCE:
            return
    assert two <= MOST_GROWTH * one + ONCE


@pytest.mark.parametrize("name", FLOODS)
def test_work_is_linear_beyond_limits(name: str) -> None:
    flood = FLOODS[name]
    once, twice = flood.make(flood.packets // 2), flood.make(flood.packets)
    one, two = work(once, FEW), work(twice, FEW)
    assert two <= LINES_AN_OCTET * size_of(twice) + ONCE
    assert two <= MOST_GROWTH * one + ONCE // 5


@pytest.mark.parametrize("name", FLOODS)
def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.capture.reader.BLOCK_SIZE", BLOCK)
    flood = FLOODS[name]
    octets = flood.make(flood.packets // 4)
    with suppress(CaptureError):  # what is imported now does not count
        analyze(io.BytesIO(flood.make(flood.packets // 50)), fpdus=False, limits=FEW)
    tracemalloc.start()
    try:
        with suppress(CaptureError):
            analyze(io.BytesIO(octets), fpdus=False, limits=FEW)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < flood.memory


@pytest.mark.parametrize("name", FLOODS)
def test_what_must_hold_of_every_capture(name: str) -> None:
    octets = FLOODS[name].make(FLOODS[name].packets // 10)
    for limits in (DEFAULT_LIMITS, FEW):
        examine([octets], limits=limits, octets_again=limits is FEW)


@pytest.mark.parametrize("name", [name for name in FLOODS if FLOODS[name].rules])
def test_the_report_says_what_bit(name: str) -> None:
    flood = FLOODS[name]
    found = {finding.rule.id for finding in analyze(io.BytesIO(flood.make(flood.packets))).all_findings()}
    assert found >= {*flood.rules}
