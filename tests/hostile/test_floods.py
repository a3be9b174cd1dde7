"""Hostile captures by name: work is linear in their length, memory is within the limits."""

from __future__ import annotations

import gzip
import importlib
import io
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
import zstandard

from scapy_mpa.capture.source import GZIP_MAGIC, ZSTD_MAGIC
from scapy_mpa.errors import CaptureError
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from tests.hostile import floods_again, floods_below, floods_of_fpdus  # noqa: F401 - they fill the table
from tests.hostile.examine import examine
from tests.hostile.floods import FLOODS, Flood
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


def is_linear(flood: Flood, packets: int, limits: Limits) -> bool:
    """Return True if twice so many packets take about twice the work, which must be bounded for each octet."""
    once, twice = flood.make(packets), flood.make(2 * packets)
    one, two = work(once, limits), work(twice, limits)
    assert two <= LINES_AN_OCTET * size_of(twice) + ONCE
    return two <= MOST_GROWTH * one + ONCE


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", FLOODS)
def test_work_is_linear(name: str) -> None:
    flood = FLOODS[name]
    # Within 64 KiB work may grow faster: all of one FPDU.
    assert any(is_linear(flood, flood.packets // part, DEFAULT_LIMITS) for part in (4, 2))


@pytest.mark.uncompiled
@pytest.mark.parametrize("name", FLOODS)
def test_work_is_linear_beyond_limits(name: str) -> None:
    flood = FLOODS[name]
    assert any(is_linear(flood, flood.packets * quarters // 4, FEW) for quarters in (1, 2, 8))


@pytest.mark.parametrize("name", FLOODS)
def test_memory_is_bounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.capture.reader.BLOCK_SIZE", BLOCK)
    flood = FLOODS[name]
    octets = flood.make(flood.packets // 4)
    with suppress(CaptureError):  # what is imported now does not count
        analyze(io.BytesIO(octets), fpdus=False, limits=FEW)
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


# --- what takes long in a line or two ---


def _count(monkeypatch: pytest.MonkeyPatch, places: Sequence[str], weight: Callable[..., int]) -> list[int]:
    """Return the weights of the calls of the function that each of these names stands for."""
    weighed: list[int] = []
    for place in places:
        module, name = place.rsplit(".", 1)
        right = getattr(importlib.import_module(module), name)

        def call(*args: Any, right: Callable[..., Any] = right) -> Any:
            weighed.append(weight(*args))
            return right(*args)

        monkeypatch.setattr(place, call)
    return weighed


@pytest.mark.parametrize("name", [name for name in FLOODS if name.endswith("behind a Request alone")])
def test_what_waits_is_not_inferred_for_each_segment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    octets = FLOODS[name].make(FLOODS[name].packets)
    inferred = _count(
        monkeypatch,
        ["scapy_mpa.receiver.inference.infer"],
        lambda runs, *_: sum(len(run.octets) for run in runs),
    )
    analyze(io.BytesIO(octets), limits=FEW)
    assert 0 < sum(inferred) < 4 * len(octets)


@pytest.mark.parametrize("name", [name for name in FLOODS if "damaged" in name or "among" in name])
def test_a_segment_is_not_checked_for_damage_again_and_again(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    octets = FLOODS[name].make(1000)
    places = ["scapy_mpa.stream.connection.checksum_of"]
    checked = _count(monkeypatch, places, lambda _: 1)
    assert len(checked) < 4 * analyze(io.BytesIO(octets)).packets
