"""The command as it is run: what goes to stdout, what to stderr, the exit status, and what it imports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scapy_mpa.cli import cli
from scapy_mpa.compiled import is_compiled
from scapy_mpa.version import __version__
from tests.conftest import PCAPS, REPO, named

REORDERED = str(PCAPS / "markers-reordered.pcap")
FAULTY = str(PCAPS / "faulty-pad.pcap")
THREE = str(PCAPS / "siw-three-in-a-row.pcap")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "scapy_mpa", *arguments],
        capture_output=True,
        text=True,
        cwd=REPO,
        timeout=60,
        check=False,
    )


def invoke(*arguments: str) -> Result:
    """The command in this process, where coverage sees it."""
    return CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("analyze", REORDERED), 0),
        (("analyze", FAULTY), 1),
        (("fpdus", REORDERED), 0),
        (("fpdus", FAULTY), 1),
        (("fpdus", FAULTY, "--order", "placed"), 1),
        (("analyze", REORDERED, FAULTY), 1),
        (("analyze", THREE, "--connection", "2"), 0),
    ],
)
def test_exit_status_says_whether_there_are_errors(arguments: tuple[str, ...], status: int) -> None:
    result = invoke(*arguments)
    assert result.return_value == status
    assert result.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "no-such.pcap"),
        ("analyze", "README.md"),
        ("fpdus", "pyproject.toml", "--order", "placed"),
        ("analyze", str(PCAPS.parent / "docs")),
        ("analyze", "pcaps/*.nothing"),
        ("analyze", REORDERED, "no-such.pcap"),
    ],
)
def test_an_unreadable_capture_is_one_line_on_stderr_and_status_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("scapy-mpa: ")


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("analyze",),
        ("analyze", REORDERED, "--format", "xml"),
        ("analyze", REORDERED, "--frames", "9-3"),
        ("analyze", REORDERED, "--frames", "x"),
        ("analyze", REORDERED, "--frames", "0-"),
        ("analyze", REORDERED, "--limit", "held_octets=0"),
        ("analyze", REORDERED, "--port", "70000"),
        ("analyze", REORDERED, "--connection", "1"),
        ("fpdus", REORDERED, "--connection", "1"),
        ("nonsense",),
    ],
)
def test_arguments_that_cannot_be_used_are_status_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith(("scapy-mpa: ", "Usage: "))
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1 or not arguments


def test_a_command_that_was_replaced_names_what_has_taken_its_place() -> None:
    result = run("ulpdus", REORDERED)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "scapy-mpa: ulpdus no longer exists: use messages (its octets: --payload, --directory)\n"


def test_a_damaged_capture_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(REORDERED).read_bytes()[:400_000])
    result = run("analyze", "--format", "json", str(cut))
    report = json.loads(result.stdout)
    assert 0 < report["packets"] < 945
    assert report["connections"][0]["halves"]["initiator"]["fpdus"] > 0
    (line,) = result.stderr.splitlines()
    assert "damaged after frame" in line
    assert result.returncode == 0


def test_a_capture_without_a_whole_packet_is_status_2(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(REORDERED).read_bytes()[:50])
    result = run("analyze", str(cut))
    assert (result.returncode, result.stdout) == (2, "")
    assert "no packet can be read" in result.stderr


def test_an_empty_capture_is_no_error(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(Path(REORDERED).read_bytes()[:24])
    result = run("analyze", str(empty))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "0 packets, 0 TCP connections, 0 MPA connections, nothing to report\n"


@pytest.mark.parametrize("order", ["stream", "placed"])
def test_a_closed_stdout_ends_the_command_quietly(order: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    process = subprocess.run(
        [sys.executable, "-m", "scapy_mpa", "fpdus", REORDERED, "--order", order],
        stdout=writer,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(writer)
    assert process.stderr == b""
    assert process.returncode in (0, 1)


def test_what_machines_read_is_all_of_stdout() -> None:
    assert json.loads(run("analyze", "--format", "json", FAULTY).stdout)["schema"] == 1
    lines = run("fpdus", "--format", "jsonl", REORDERED).stdout.splitlines()
    assert len([json.loads(line) for line in lines]) == 700


@pytest.mark.parametrize("arguments", [("analyze", REORDERED), ("fpdus", "--format", "jsonl", REORDERED)])
def test_what_is_not_run_is_not_imported(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys, click; before = set(sys.modules); "
        "from scapy_mpa.cli import cli; cli.main(sys.argv[1:], standalone_mode=False); "
        "print(*sorted(set(sys.modules) - before), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=REPO, timeout=60, check=True
    )
    imported = set(result.stderr.split())
    unwanted = {"scapy", "pyshark", "numpy", "rich", "asyncio", "scapy_mpa.craft"}
    unwanted |= {"difflib", "glob"}
    unwanted |= {"scapy_mpa.capture.exported", "scapy_mpa.capture.folders", "scapy_mpa.rules.choice"}
    if arguments[0] == "analyze":
        unwanted |= {"bz2", "ipaddress", "json", "lzma", "shutil", "tempfile"}
    assert "scapy_mpa.receiver.fpdus" in imported
    assert not imported & unwanted


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import scapy_mpa; print(*sorted(set(sys.modules) - before))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=REPO, check=True)
    ours = {"scapy_mpa", "scapy_mpa.offered", "scapy_mpa.version"}
    ours |= {"scapy_mpa.compiled"} if os.environ.get("SCAPY_MPA_PURE") else set()
    assert set(result.stdout.split()) <= ours | {"typing", "__future__", "collections", "collections.abc"} | {
        name for name in result.stdout.split() if not name.startswith(("scapy_mpa.", "scapy.", "click"))
    }
    assert "scapy_mpa.receiver" not in result.stdout


def test_version_and_help() -> None:
    said = invoke("--version").stdout
    assert said == f"scapy-mpa, version {__version__} ({'compiled' if is_compiled() else 'not compiled'})\n"
    for arguments in (("--help",), ("analyze", "--help"), ("fpdus", "--help")):
        assert invoke(*arguments).stdout.startswith("Usage:")


def test_connection_and_direction_select_what_is_shown() -> None:
    report = json.loads(invoke("analyze", "--format", "json", "--connection", "1", THREE).stdout)
    assert [connection["connection"] for connection in report["connections"]] == [1]
    report = json.loads(invoke("analyze", "--format", "json", "--direction", "initiator", THREE).stdout)
    assert len(report["connections"]) == 3
    for connection in report["connections"]:
        assert set(connection["halves"]) == {"initiator"}
        assert all(found["direction"] != "responder" for found in connection["findings"])
    arguments = ("fpdus", "--format", "jsonl", "--connection", "2", "--direction", "responder", THREE)
    stream = [json.loads(line) for line in invoke(*arguments).stdout.splitlines()]
    placed = [json.loads(line) for line in invoke(*arguments, "--order", "placed").stdout.splitlines()]
    assert stream == placed
    assert {(fpdu["connection"], fpdu["direction"]) for fpdu in stream} == {(2, "responder")}


def test_captures_are_merged_by_time() -> None:
    alone = json.loads(invoke("analyze", "--format", "json", THREE).stdout)
    both = json.loads(invoke("analyze", "--format", "json", FAULTY, THREE).stdout)
    assert both["packets"] == alone["packets"] + 41
    assert both["captures"] == [FAULTY, THREE]
    assert len(both["connections"]) == len(alone["connections"]) + 1


@pytest.mark.parametrize(("frames", "expected"), [("1-", 3), ("-20", 2), ("15-30", 1), ("1-44", 3), ("2", 0)])
def test_frames_select_what_is_read(frames: str, expected: int) -> None:
    report = json.loads(invoke("analyze", "--format", "json", "--read-frames", frames, THREE).stdout)
    assert len(report["connections"]) == expected


@pytest.mark.parametrize(
    ("frames", "expected"),
    [("1-", [0, 1, 2]), ("-20", [0, 1]), ("15-30", [0, 1]), ("17", [1]), ("6", [0]), ("60-", [])],
)
def test_frames_select_what_is_shown(frames: str, expected: list[int]) -> None:
    """Connections that are open in these frames, as they are without the option, with the findings of these frames."""
    whole = json.loads(invoke("analyze", "--format", "json", THREE).stdout)["connections"]
    shown = json.loads(invoke("analyze", "--format", "json", "--frames", frames, THREE).stdout)["connections"]
    first, _, last = frames.partition("-")
    begin, end = int(first or 1), int(last or (first if "-" not in frames else 1 << 32))
    for one in whole:
        one["findings"] = [found for found in one["findings"] if begin <= found["last_frame"] and found["frame"] <= end]
    assert shown == [whole[number] for number in expected]


@pytest.mark.parametrize("name", ["markers-reordered", "siw-client-killed"])
@pytest.mark.parametrize("command", ["fpdus", "messages", "lines"])
def test_rows_of_frames_are_those_of_all_that_lie_there(command: str, name: str) -> None:
    path, jsonl = str(named(name)), ("--format", "jsonl")
    first, last = 300, 340
    rows = [json.loads(line) for line in invoke(command, *jsonl, path).stdout.splitlines()]
    shown = [
        json.loads(line) for line in invoke(command, *jsonl, "--frames", f"{first}-{last}", path).stdout.splitlines()
    ]

    def lies_there(row: dict[str, Any]) -> bool:
        if command == "fpdus":
            return any(first <= frame <= last for frame in (*row["frames"], row["placed_frame"]))
        begin, end = (row["frame"],) * 2 if command == "lines" else (row["first_frame"], row["last_frame"])
        return bool(begin <= last and end >= first)

    assert shown == [row for row in rows if lies_there(row)] != rows


def test_findings_of_frames() -> None:
    """A finding is shown if a breach of it may lie there: both ends of its frames are known."""
    found = json.loads(invoke("analyze", "--format", "json", REORDERED).stdout)["connections"][0]["findings"]
    first, second = ((one["frame"], one["last_frame"]) for one in found)
    shown = json.loads(invoke("analyze", "--format", "json", "--frames", f"-{second[0] - 1}", REORDERED).stdout)
    assert first[0] < second[0] and shown["connections"][0]["findings"] == found[:1]
    shown = json.loads(invoke("analyze", "--format", "json", "--frames", f"{first[1] + 1}-", REORDERED).stdout)
    assert first[1] < second[1] and shown["connections"][0]["findings"] == found[1:]


@pytest.mark.parametrize("command", ["analyze", "fpdus"])
def test_stdout_that_cannot_be_written_is_one_line_and_status_2(command: str) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "scapy_mpa", command, REORDERED],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPO,
            timeout=60,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == "scapy-mpa: cannot write: No space left on device\n"


def test_no_stdout_at_all() -> None:
    command = f"'{sys.executable}' -m scapy_mpa analyze '{FAULTY}' >&-"
    result = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, cwd=REPO, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (1, b"")


def test_a_capture_that_comes_through_a_slow_pipe() -> None:
    slowly = f"(head -c 10 '{FAULTY}'; sleep 0.3; tail -c +11 '{FAULTY}')"
    command = f"{slowly} | '{sys.executable}' -m scapy_mpa analyze /dev/stdin"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=REPO, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.splitlines()[1].startswith("#0 127.0.0.1:35356 > ")


def test_shell_has_everything_loaded(tmp_path: Path) -> None:
    said = (
        "print(len(bytes(FPDU() / DDPUntagged() / RDMAPSend() / b'abc')), len(analyze(capture).connections), sniff)\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "scapy_mpa", "shell"],
        input=f"capture = {REORDERED!r}\n{said}exit()\n",
        capture_output=True,
        text=True,
        cwd=REPO,
        timeout=60,
        check=False,
        env={**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
    )
    assert result.returncode == 0
    assert "28 1 <function sniff" in result.stdout
    assert len(result.stdout.split("\n>>>")[0].strip().splitlines()) <= 5
