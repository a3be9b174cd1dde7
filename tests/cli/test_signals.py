"""A command that a signal ends, at whatever moment: what it named is whole or not there, and nothing else is left.

The moments are drawn from a seed over the time that the command takes; those before Python runs any of ours, and those
after its end, are among them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPO

#: Moments of each command.
MOMENTS = 30
#: The command, with {capture} and {out}, a folder that is there and empty.
COMMANDS = {
    "craft": "craft -o {out}/x.pcap --truth {out}/x.jsonl middlebox --impair reorder",
    "annotate": "annotate {capture} {out}/x.pcapng",
    "export": "export {capture} {out}/x.pcapng",
    "strip": "export --strip-markers {capture} {out}/x.pcapng",
    "extract": "extract {capture} -o {out}/x.pcap",
    "messages": "messages {capture} --directory {out}/made",
    "parquet": "messages {capture} --format parquet -o {out}/x.parquet",
    "malform": "malform --area markers -o {out}/made",
    "fuzz": "fuzz --scenario middlebox --count 20 -o {out}/made",
    "split": "fuzz --scenario middlebox --split {out}/made",
    "crosscheck": "crosscheck {capture} --format json",
    "compare": "compare {capture} {capture} --picture {out}/x.svg",
    "jobs": "analyze --jobs 2 {capture}",
}
#: A file that grows line by line: it says what there is when the command is ended.
LOG = "made/cases.jsonl"

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Done(NamedTuple):
    """A command that came to its end: the seconds it took, its status, and the files that it made."""

    seconds: float
    status: int
    files: dict[str, bytes]


class Folders(NamedTuple):
    """The folder a command writes to, and the one of its temporary files."""

    out: Path
    temporary: Path


def folders(path: Path) -> Folders:
    made = Folders(path / "out", path / "tmp")
    for folder in made:
        folder.mkdir()
    return made


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def start(name: str, capture: Path, where: Folders) -> subprocess.Popen[bytes]:
    arguments = COMMANDS[name].format(capture=capture, out=where.out).split()
    return subprocess.Popen(
        [sys.executable, "-m", "scapy_mpa", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=REPO,
        env={**os.environ, "TMPDIR": str(where.temporary)},
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More than what is kept in memory, out of order."""
    path = tmp_path_factory.mktemp("big") / "big.pcap"
    command = ["craft", "-o", str(path), "--set", "m=[1,1]", "--impair", "reorder", "--impair", "lose"]
    subprocess.run(
        [sys.executable, "-m", "scapy_mpa", *command, "--say", "initiator send 6000 times=800"], cwd=REPO, check=True
    )
    assert path.stat().st_size > 1 << 22
    return path


@pytest.fixture(scope="module")
def whole(big: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Done]:
    """What each command makes; made on demand."""
    return {}


def undisturbed(name: str, big: Path, whole: dict[str, Done], tmp_path: Path) -> Done:
    if name not in whole:
        (tmp_path / "whole").mkdir()
        where = folders(tmp_path / "whole")
        begin = time.monotonic()
        process = start(name, big, where)
        assert process.communicate()[1] == b""
        whole[name] = Done(time.monotonic() - begin, process.returncode, files(where.out))
    return whole[name]


def has_ended(group: int) -> bool:
    """Return True if all processes of a group end, those that were killed within a moment."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("name", COMMANDS)
def test_at_any_moment(name: str, moment: int, big: Path, whole: dict[str, Done], tmp_path: Path) -> None:
    expected = undisturbed(name, big, whole, tmp_path)
    where = folders(tmp_path)
    rng = random.Random(f"{name} {moment}")
    process = start(name, big, where)
    time.sleep(expected.seconds * rng.uniform(0.05, 1.05))
    number = SIGNALS[moment % len(SIGNALS)]
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    # Before the command has taken signals over, they do what they do to any program.
    is_early = process.returncode == -number or b"KeyboardInterrupt" in said
    assert is_early or process.returncode in (128 + number, expected.status), said
    assert is_early or said == b""
    assert has_ended(process.pid)
    assert files(where.temporary) == {}
    left = files(where.out)
    if (log := left.pop(LOG, None)) is not None:
        assert expected.files[LOG].startswith(log) and log[-1:] in (b"", b"\n")
        named = {f"made/{json.loads(line)['file']}" for line in log.splitlines()}
        assert named <= left.keys() and len(left.keys() - named) <= 1
    assert left.items() <= expected.files.items()
    if name == "craft":
        assert not left or left.keys() == {"x.pcap", "x.jsonl"} or process.returncode == 128 + number


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("command", ["analyze -", "export - {out}/x.pcapng", "craft {fifo} -o {out}/x.pcap"])
def test_while_it_waits_for_a_pipe(command: str, number: signal.Signals, big: Path, tmp_path: Path) -> None:
    where = folders(tmp_path)
    fifo = tmp_path / "scenario.toml"
    os.mkfifo(fifo)
    process = subprocess.Popen(
        [sys.executable, "-m", "scapy_mpa", *command.format(out=where.out, fifo=fifo).split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPO,
        env={**os.environ, "TMPDIR": str(where.temporary)},
    )
    assert process.stdin is not None
    if "fifo" in command:
        writer = os.open(fifo, os.O_WRONLY)  # waits until the command reads
    else:
        # More than the pipe holds: when all is written, the command has begun to read.
        process.stdin.write(big.read_bytes()[: 1 << 22])
        process.stdin.flush()
        writer = os.dup(process.stdin.fileno())
    time.sleep(0.1)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    os.close(writer)
    assert (process.returncode, said) == (128 + number, b"")
    assert files(where.out) == files(where.temporary) == {}


@pytest.mark.parametrize("output", ["-", "/dev/stdout", "pipe"])
def test_while_nobody_reads_what_it_writes(output: str, big: Path, tmp_path: Path) -> None:
    if output == "pipe":
        output = str(tmp_path / "pipe")
        os.mkfifo(output)
    process = subprocess.Popen(
        [sys.executable, "-m", "scapy_mpa", "annotate", str(big), output],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=REPO,
    )
    reader = os.open(output, os.O_RDONLY) if output.endswith("pipe") else None
    assert process.stdout is not None and process.stderr is not None
    first = os.read(reader if reader is not None else process.stdout.fileno(), 100)  # it writes now
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert first and process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()
    if reader is not None:
        os.close(reader)


@pytest.mark.parametrize("name", ["craft", "annotate", "export", "extract"])
def test_a_full_disk_is_one_line_and_nothing_is_left(name: str, big: Path, tmp_path: Path) -> None:
    where = folders(tmp_path)
    if name == "craft":
        command = f"craft -o {where.out}/x.pcap --truth {where.out}/x.jsonl --say 'initiator send 100000'"
    else:
        command = COMMANDS[name].format(capture=big, out=where.out)
    # A file may not be larger than 20 kB: the system says so where it would say that the disk is full.
    limited = f"trap '' XFSZ; ulimit -f 20; exec '{sys.executable}' -m scapy_mpa {command}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, cwd=REPO, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "scapy-mpa: cannot write: File too large\n"
    assert files(where.out) == {}
