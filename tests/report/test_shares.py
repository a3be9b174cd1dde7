"""Several processes that divide the connections find what one finds, and end as one does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from io import BytesIO
from pathlib import Path
from time import monotonic, sleep

import pytest

from scapy_mpa import analyze
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.reading import shares
from scapy_mpa.reading.analysis import _part, report_of
from scapy_mpa.reading.part import ReportPart
from scapy_mpa.reading.query import EVERYTHING, Selection, query_of
from scapy_mpa.reading.shares import Share
from scapy_mpa.report.fpdus import STYLES, log_lines
from scapy_mpa.report.model import Report
from scapy_mpa.values.segment import reverse_key
from scripts.dev.benchmark import write_capture
from scripts.dev.fuzz_captures import captures_of
from tests.conftest import PCAPS, REPO, captures

THREE = str(PCAPS / "siw-three-in-a-row.pcap")
REORDERED = str(PCAPS / "markers-reordered.pcap")


def divided(octets: bytes, count: int, selection: Selection = EVERYTHING) -> Report:
    """The report of so many shares, all read by this process."""
    found = []
    for number in range(count):
        found.append(_part(query_of(BytesIO(octets), selection), True, Share(number, count) if count > 1 else None))
    return report_of(found, FrameIndex(BytesIO(octets)))


def everything(report: Report) -> tuple[str, str]:
    """All that is printed of a report."""
    halves = [half for connection in report.connections for half in (connection.initiator, connection.responder)]
    lines = "".join(log_lines(STYLES["jsonl"], (half.fpdus for half in halves)))
    records = [record for half in halves for record in half.fpdus]
    assert [record.connection for record in records] == [json.loads(line)["connection"] for line in lines.splitlines()]
    return json.dumps(report.as_dict()), lines


def told(octets: bytes, count: int) -> tuple[str, str]:
    """The same, or why the capture is refused."""
    try:
        return everything(divided(octets, count))
    except CaptureError as refused:
        return "refused", str(refused)


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_shares_of_a_capture_are_the_whole(path: Path) -> None:
    octets = path.read_bytes()
    whole = everything(divided(octets, 1))
    for count in (2, 3):
        assert everything(divided(octets, count)) == whole


def test_shares_of_many_connections_are_the_whole_and_none_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    write_capture("thousand", path, 300_000, seed=3)
    octets = path.read_bytes()
    for selection in (EVERYTHING, Selection(frames=(40, 2000))):
        whole = everything(divided(octets, 1, selection))
        for count in (2, 3, 5):
            assert everything(divided(octets, count, selection)) == whole
    sizes = [len(_part(query_of(path), False, Share(n, 4)).connections) for n in range(4)]
    assert sum(sizes) == 1000
    assert min(sizes) > 150


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_shares_of_mutated_captures_are_the_whole(first: int) -> None:
    for number in range(first, first + 30):
        octets = captures_of(11, number)[0].octets
        said = [told(octets, count) for count in (1, 2, 3)]
        assert said[0] == said[1] == said[2], number


def test_both_halves_of_a_connection_are_one_share() -> None:
    keys = [bytes((10, 0, 0, a, 10, 0, 1, b, 0, c, 29, 47)) for a in range(8) for b in range(8) for c in range(8)]
    for count in (2, 3, 7):
        held = [Share(number, count) for number in range(count)]
        owners = [[share._holds(key) for share in held] for key in keys]
        assert owners == [[share._holds(reverse_key(key)) for share in held] for key in keys]
        assert all(sum(owner) == 1 for owner in owners)
        for number in range(count):
            assert sum(owner[number] for owner in owners) > len(keys) / count / 2


# --- processes ---


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    command = [sys.executable, "-m", "scapy_mpa", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=REPO, timeout=120, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "--format", "json", THREE, REORDERED),
        ("analyze", str(PCAPS / "faulty-pad.pcap"), THREE, "--frames", "5-60"),
        ("fpdus", "--format", "csv", THREE, "--connection", "1"),
    ],
)
def test_the_command_prints_the_same_with_several_processes(arguments: tuple[str, ...]) -> None:
    alone = run(*arguments)
    assert alone.stdout
    for jobs in ("2", "3"):
        several = run(*arguments, "--jobs", jobs)
        assert (several.stdout, several.stderr, several.returncode) == (alone.stdout, alone.stderr, alone.returncode)


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "--jobs", "2", "-"),
        ("analyze", "--jobs", "0", THREE),
        ("analyze", "--jobs", "2", "no-such.pcap"),
        ("fpdus", "--jobs", "2", "README.md"),
        ("fpdus", "--jobs", "2", "--order", "placed", THREE),
    ],
)
def test_what_several_processes_cannot_do_is_one_line_and_status_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("scapy-mpa: ")


def test_an_open_file_cannot_be_read_by_several_processes() -> None:
    with open(THREE, "rb") as file, pytest.raises(CaptureError, match="a named file"):
        analyze(file, jobs=2)


def _ends_early(how: Callable[[], None], share: Share | None) -> ReportPart:
    """A reading that comes to its end in the first process only."""
    if share is not None and share._number:
        how()
    return _part(query_of(THREE), False, share)


def _fails() -> None:
    raise MPAError("it is too much")


@pytest.mark.parametrize(("how", "said"), [(partial(os._exit, 9), "status 9"), (_fails, "it is too much")])
def test_a_process_that_does_not_come_to_its_end_is_told(how: Callable[[], None], said: str) -> None:
    with pytest.raises(MPAError, match=said):
        shares.parts(THREE, 2, partial(_ends_early, how))


@pytest.mark.skipif(os.name != "posix", reason="sends signals")
def test_an_interrupt_ends_all_processes(tmp_path: Path) -> None:
    path = tmp_path / "long.pcap"
    write_capture("small", path, 3_000_000, seed=1)
    command = [sys.executable, "-m", "scapy_mpa", "fpdus", "--jobs", "3", *[str(path)] * 8]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=REPO, start_new_session=True
    ) as process:
        sleep(1.5)
        began = monotonic()
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err
    assert monotonic() - began < 30
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
