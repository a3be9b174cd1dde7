"""The benchmark runs, and counts what it should, on captures of a few packets."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scapy_mpa.reading.analysis import analyze
from scripts.benchmark_aims import Aim
from scripts.benchmark_floods import connections, syns, write
from tests.conftest import REPO

SCRIPT = REPO / "scripts" / "benchmark.py"


def benchmark(*arguments: str) -> str:
    return subprocess.run([sys.executable, SCRIPT, *arguments], check=True, capture_output=True, text=True).stdout


def test_a_round_on_every_scenario(tmp_path: Path) -> None:
    arguments = [
        "--size",
        "50KB",
        "--cache",
        str(tmp_path),
        "-c",
        "floor",
        "--repeat",
        "2",
        "--format",
        "json",
    ]
    report = json.loads(benchmark(*arguments, "-s", "plain", "-s", "small"))
    assert [entry["capture"]["scenario"] for entry in report] == ["plain", "small"]
    for entry in report:
        capture, (floor,) = entry["capture"], entry["results"]
        assert Path(capture["path"]).stat().st_size == capture["octets"] >= 50_000
        assert len(floor["seconds"]) == 2
        assert floor["failure"] is None
        assert 0 < floor["memory"] < 64e6
    assert len(list(tmp_path.iterdir())) == 4


def test_the_same_seed_gives_the_same_capture(tmp_path: Path) -> None:
    for name in ("one", "two"):
        benchmark("--size", "50KB", "-s", "thousand", "--write", str(tmp_path / f"{name}.pcap"))
    assert (tmp_path / "one.pcap").read_bytes() == (tmp_path / "two.pcap").read_bytes()


def test_making_captures_is_measured_against_scapy() -> None:
    heading, line, *rows = benchmark("--craft", "--size", "300KB").splitlines()
    assert "times as fast" in heading and line.startswith("| --- |")
    assert [row.split(" | ")[0] for row in rows] == ["| without Markers", "| with Markers"]
    # How many times is for the benchmark to say: in a tenth of a second a loaded machine measures anything.
    assert all(int(row.split(" | ")[-1].rstrip(" |")) > 0 for row in rows)


@pytest.mark.parametrize(("frames", "connections"), [(connections(25), 25), (syns(60, 6), 0)])
def test_floods_hold_what_they_are_called(frames: Iterator[bytes], connections: int, tmp_path: Path) -> None:
    write(tmp_path / "flood.pcap", frames)
    report = analyze(tmp_path / "flood.pcap")
    assert (len(report.connections), len(report.findings)) == (connections, 0)
    assert report.packets == 8 * connections or report.tcp_connections == report.packets == 60
    for connection in report.connections:
        assert (len(connection.initiator.fpdus), connection.findings, connection.lifecycle.ended) == (3, [], "open")


def test_an_aim_is_met_or_missed() -> None:
    assert Aim("seconds", 2.0, 3, "s").cells() == ("seconds", "2.00 s", "at most 3", "met")
    assert Aim("tshark / analyze", 9.5, 10, "times", at_least=True).cells()[2:] == ("at least 10", "missed")
