"""The benchmark runs, and counts what it should, on captures of a few packets."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from scapy_mpa.reading.analysis import analyze
from scripts.dev.benchmark import Result, write_capture
from scripts.dev.benchmark_aims import BEGIN, COLUMNS, DOCUMENT, END, LINES, SESSION, Aim, lines_of_aims, with_aims
from scripts.dev.benchmark_floods import PACKETS, SENDS, connections, write
from tests.conftest import REPO

SCRIPT = REPO / "scripts" / "dev" / "benchmark.py"


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


def test_small_connections_hold_what_they_are_called(tmp_path: Path) -> None:
    write(tmp_path / "flood.pcap", connections(25))
    report = analyze(tmp_path / "flood.pcap")
    assert (len(report.connections), len(report.findings)) == (25, 0)
    assert report.packets == PACKETS * 25
    for connection in report.connections:
        assert len(connection.initiator.fpdus) == SENDS
        assert (connection.findings, connection.lifecycle.ended) == ([], "open")


def test_an_aim_is_met_or_missed() -> None:
    assert Aim(3).verdict(2.0) == "2.00, met"
    assert Aim(3).verdict(3.21) == "3.21, **missed**"
    assert Aim(10, at_least=True).verdict(9.5) == "9.50, **missed**"
    assert Aim(300).verdict(299.6) == "300, met"


def test_the_aims_are_those_of_each_scenario_in_its_column() -> None:
    def result(command: str, seconds: float) -> Result:
        return Result(command, [seconds], [seconds])

    found = {
        name: {"tshark": result("tshark", 24.0), "analyze": result("analyze", float(number))}
        for number, name in enumerate(COLUMNS, 1)
    }
    aims, measured = lines_of_aims(LINES[:1], found, "100 MB: ")
    assert aims == "| 100 MB: `analyze`, tshark / this: at least | 12 | 10 | 25 | 30 | 10 |"
    words = ["24.0, met", "12.0, met", "8.00, **missed**", "6.00, **missed**", "4.80, **missed**"]
    assert measured == f"| measured | {' | '.join(words)} |"


def test_tables_take_the_place_of_the_old_ones() -> None:
    page = f"before\n{BEGIN}old\n{END}after\n"
    assert with_aims(page, "| new |\n") == f"before\n{BEGIN}\n| new |\n\n{END}after\n"
    with pytest.raises(SystemExit, match="no place"):
        with_aims("before\n", "| new |\n")
    assert BEGIN in DOCUMENT.read_text(encoding="utf-8")


def test_the_part_of_very_many_connections(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    # Beside tests of live networks it takes the processor from those that count what came when.
    if shutil.which("tshark") is None or not request.config.getoption("all"):
        pytest.skip("tshark is missing, or it is not --all")
    arguments = ["--aims", "--part", "connections", "--size", "100KB", "--repeat", "1", "--cache", str(tmp_path)]
    lines = benchmark(*arguments).splitlines()
    times = [line for line in lines if line.startswith(("| 10 conn", "| 100 conn")) and "analyze" not in line]
    assert [line.split(" | ")[1:3] for line in times] == [["80", "30"], ["800", "300"]]
    assert [*tmp_path.iterdir()] == []


def test_a_session_is_counted(tmp_path: Path) -> None:
    capture = write_capture("plain", tmp_path / "plain.pcap", 20_000, seed=1)
    # TCPSession keeps back what it waits for more of.
    for session, least, most in (
        ("MPASession", capture.fpdus, capture.fpdus),
        ("TCPSession", capture.packets - 2, capture.packets),
    ):
        command = [sys.executable, "-c", SESSION, session, capture.path]
        told = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPO).stdout.split()
        assert least <= int(told[0]) <= most
        assert float(told[1]) > 0


def test_a_capture_in_pcapng_holds_the_same_packets(tmp_path: Path) -> None:
    plain = write_capture("plain", tmp_path / "one.pcap", 20_000, seed=1)
    pcapng = write_capture("pcapng", tmp_path / "two.pcap", 20_000, seed=1)
    assert (tmp_path / "two.pcap").read_bytes()[:4] == b"\n\r\r\n"
    assert (pcapng.packets, pcapng.fpdus) == (plain.packets, plain.fpdus)
