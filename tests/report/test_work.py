"""How much is done for a packet, counted and not timed: calls of functions and lines of Python, by kind of capture.

A change that makes the analysis do more shows here, on any machine, before a benchmark does. The numbers are those of
CPython 3.11 and 10 % more; where a change is worth more work, they are changed with it.  Counted is the source, which
calls a function of its own for all that is read otherwise where it is compiled (``values/octets.py``).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest

from scapy_mpa import analyze
from scapy_mpa.report.fpdus import JSONL, log_lines
from scripts.dev.benchmark import SCENARIOS, write_capture
from tests.conftest import PCAPS, REPO
from tests.work import lines_run

#: Octets of the smaller capture of a kind: some rounds of its connections.
SIZES = {"plain": 300_000, "markers": 300_000, "small": 300_000, "reordered": 2_500_000, "fifty": 900_000}


class Work(NamedTuple):
    """Calls (of functions in Python and in C) and lines of Python."""

    calls: int
    lines: int


def work_of(run: Callable[[], object]) -> Work:
    """What a call comes to."""
    calls = 0

    def profile(_frame: FrameType, event: str, _arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return Work(calls, lines_run(run))


def analysis(path: Path) -> int:
    return analyze(path, fpdus=False).packets


def listing(path: Path) -> int:
    """As ``fpdus --format jsonl`` does; returns the FPDUs."""
    report = analyze(path)
    halves = [half for connection in report.connections for half in (connection.initiator, connection.responder)]
    return sum(lines.count("\n") for lines in log_lines(JSONL, (half.fpdus for half in halves)))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int], Path]:
    """A capture of a scenario of the benchmark and a size, made once."""
    folder = tmp_path_factory.mktemp("work")

    def make(scenario: str, size: int) -> Path:
        path = folder / f"{scenario}-{size}.pcap"
        if not path.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.setitem(SCENARIOS, "fifty", replace(SCENARIOS["thousand"], connections=50))
                write_capture(scenario, path, size, seed=1)
        return path

    return make


#: Calls and lines for a packet, by ``analyze``: at most a tenth more than were counted.  One that goes on where all
#: octets end is received in turn; of others, place, window, timestamps and checksum are known before they are held.
MOST: dict[str, tuple[float, float]] = {
    "plain": (92.1, 301.5),
    "markers": (96.9, 317.7),
    "reordered": (131.4, 397.9),
    "small": (312.7, 988.6),
    "fifty": (142.7, 472.9),
}
#: The same for an FPDU, by ``fpdus``: many of few octets.  Each that is no part of a run is a value of its own, which
#: rules and the log are handed.
MOST_FOR_A_LINE = (25.3, 82.4)


def extra(run: Callable[[Path], int], small: Path, large: Path) -> tuple[float, float]:
    """Calls and lines for each packet (or FPDU) that the larger capture has more: what begins and ends is left out."""
    for path in (small, large):
        run(path)  # what is computed once has been
    few, many = run(small), run(large)
    one, other = work_of(lambda: run(small)), work_of(lambda: run(large))
    return (other.calls - one.calls) / (many - few), (other.lines - one.lines) / (many - few)


@pytest.mark.uncompiled
@pytest.mark.parametrize("scenario", MOST)
def test_work_for_a_packet(scenario: str, made: Callable[[str, int], Path]) -> None:
    calls, lines = extra(analysis, made(scenario, SIZES[scenario]), made(scenario, 2 * SIZES[scenario]))
    assert calls <= MOST[scenario][0] and lines <= MOST[scenario][1], (calls, lines)


@pytest.mark.uncompiled
def test_work_for_a_line_of_fpdus(made: Callable[[str, int], Path]) -> None:
    calls, lines = extra(listing, made("small", SIZES["small"]), made("small", 2 * SIZES["small"]))
    assert calls <= MOST_FOR_A_LINE[0] and lines <= MOST_FOR_A_LINE[1], (calls, lines)


@pytest.mark.uncompiled
@pytest.mark.parametrize("scenario", ["plain", "reordered"])
def test_work_is_linear(scenario: str, made: Callable[[str, int], Path]) -> None:
    first, second, third = (made(scenario, SIZES[scenario] * size) for size in (1, 2, 4))
    one, other = extra(analysis, first, second), extra(analysis, second, third)
    assert other[0] <= 1.05 * one[0]
    assert other[1] <= 1.05 * one[1]


# --- start-up ---

#: What ``analyze`` runs, besides the packages of whole rooms.
MODULES = {
    "scapy_mpa.__main__",
    "scapy_mpa.compiled",
    "scapy_mpa.errors",
    "scapy_mpa.system.cycles",
    *(
        f"scapy_mpa.cli.{name}"
        for name in (
            "analyze",
            "cluster",
            "colours",
            "group",
            "judging",
            "lines",
            "options",
            "progress",
            "types",
        )
    ),
    # Which names of algorithms there are; what decrypts is imported with --esp alone.
    "scapy_mpa.ipsec",
    "scapy_mpa.ipsec.algorithms",
    *(f"scapy_mpa.system.{name}" for name in ("ending", "names")),
    *(f"scapy_mpa.reading.{name}" for name in ("analysis", "onepass", "part", "placed", "query")),
    *(f"scapy_mpa.{name}" for name in ("offered", "tuples", "version")),
    *(
        f"scapy_mpa.report.{name}"
        for name in (
            *(
                "beginning",
                "blocks",
                "connection",
                "context",
                "half",
                "jsontext",
                "lifecycle",
                "model",
                "ranking",
                "tally",
                "text",
                "unfinished",
                "upper",
                "verdict",
                "blame",
                "circumstances",
                "together",
            ),
            "words",
        )
    ),
}
ROOMS = (
    "scapy_mpa",
    *(
        f"scapy_mpa.{room}"
        for room in (
            "framing",
            "values",
            "stream",
            "receiver",
            "infer",
            "watches",
            "rdmap",
            "analyzer",
            "capture",
            "rules",
            "ulp",
            "report",
            "reading",
            "cli",
            "system",
        )
    ),
)
#: Of others it needs these; of the standard library, not those that are large.
OTHERS = {"click", "crc32c"}
LARGE = {"argparse", "asyncio", "concurrent", "csv", "ctypes", "email", "http", "importlib.metadata", "logging"}
LARGE |= {"multiprocessing", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "unittest", "urllib.request", "xml"}


def modules_of(*arguments: str) -> set[str]:
    """What a Python that is started so imports."""
    code = (
        "import atexit, runpy, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
        "len(sys.argv) < 2 or runpy.run_module('scapy_mpa', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=REPO, check=False)
    assert result.returncode == 0
    return set(result.stderr.split())


def test_analyze_imports_only_what_it_runs() -> None:
    found = modules_of("analyze", "--format", "json", str(PCAPS / "markers-reordered.pcap")) - modules_of()
    ours = {name for name in found if name.split(".")[0] == "scapy_mpa"}
    rooms = (
        "framing",
        "values",
        "stream",
        "receiver",
        "infer",
        "watches",
        "rdmap",
        "analyzer",
        "capture",
        "rules",
        "ulp",
    )
    wholly = tuple(f"scapy_mpa.{room}." for room in rooms)
    assert "scapy_mpa.receiver.fpdus" in ours
    assert {name for name in ours if not name.startswith(wholly)} <= {*MODULES, *ROOMS}
    tops = {name.split(".")[0].lstrip("_") for name in found} - {"scapy_mpa"}
    tops = {name for name in tops if not name.startswith("cython_")}  # what compiled modules have in common; no import
    assert tops - {name.lstrip("_") for name in sys.stdlib_module_names} <= OTHERS
    # Until CPython 3.11 uuid, which click imports, brings it.
    brought = {"subprocess"} if sys.version_info < (3, 11) else set()
    assert not found & LARGE - brought
