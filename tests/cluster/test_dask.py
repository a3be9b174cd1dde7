"""The command on Dask's own workers: what it prints, what it refuses, and what a worker that dies changes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.capture.joining import sources_of
from scapy_mpa.cluster import run as cluster_run
from scapy_mpa.cluster.messages import receive_messages
from scapy_mpa.cluster.reading import read_unit
from scapy_mpa.cluster.receiving import receive_share
from scapy_mpa.cluster.run import Cluster, _client, analyze_on_cluster, messages_on_cluster
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import ROLES
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.rdmap.assembly import DEFAULT_HELD
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.query import Query
from scapy_mpa.report.model import Report
from scripts.dev.benchmark import write_capture
from tests.capture.convert import recorded
from tests.capture.test_joining import rotation
from tests.cli.test_command import run
from tests.cluster.test_equal import everything
from tests.conftest import PCAPS

distributed: Any = pytest.importorskip("distributed")

THREE, REORDERED = str(PCAPS / "siw-three-in-a-row.pcap"), str(PCAPS / "markers-reordered.pcap")
LOSSY = str(PCAPS / "markers-lossy.pcap.zst")


@contextmanager
def workers(count: int) -> Iterator[str]:
    """Start this many workers on this machine; yield the address of their scheduler."""
    with distributed.LocalCluster(
        n_workers=count, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50, memory_limit=0
    ) as cluster:
        yield str(cluster.scheduler_address)


@pytest.fixture(scope="module")
def two() -> Iterator[str]:
    """The address of the scheduler of two workers."""
    with workers(2) as address:
        yield address


def found(folder: Path, address: str, shared: Path) -> Report:
    """Return what a cluster finds in a folder, with all FPDUs."""
    return analyze_on_cluster(
        Query(sources_of(folder)),
        Cluster(address, shared=str(shared)),
        fpdus=True,
    )


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that connections cross."""
    folder = tmp_path_factory.mktemp("captures")
    write_capture("thousand", folder / "whole.pcap", 1_000_000, seed=5)
    rotation(folder / "day", recorded(folder / "whole.pcap"), 6)
    return folder / "day"


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", "--format", "json", THREE, REORDERED),
        ("analyze", str(PCAPS / "faulty-pad.pcap"), THREE, "--port", "7471"),
        ("fpdus", "--format", "csv", THREE, "--connection", "1"),
        ("messages", "--format", "jsonl", "--payload", THREE, REORDERED),
        ("messages", "--format", "csv", LOSSY, THREE),
        ("messages", "--summary", THREE, REORDERED),
        ("messages", THREE, "--connection", "1", "--direction", "initiator", "--opcode", "Send"),
    ],
)
def test_the_command_prints_what_it_prints_alone(two: str, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    alone = run(*arguments)
    assert alone.stdout
    many = run(*arguments, "--cluster", two, "--shared", str(tmp_path))
    assert (many.stdout, many.stderr, many.returncode) == (alone.stdout, alone.stderr, alone.returncode)
    # Nothing is left behind.
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("count", [1, 2, 4])
def test_workers_of_this_machine(day: Path, count: int) -> None:
    arguments = ("fpdus", "--format", "jsonl", str(day))
    alone, many = run(*arguments), run(*arguments, "--cluster", f"local:{count}")
    assert alone.stdout
    assert (many.stdout, many.stderr, many.returncode) == (alone.stdout, alone.stderr, alone.returncode)


@pytest.mark.parametrize("command", ["fpdus", "messages"])
def test_parquet(two: str, day: Path, tmp_path: Path, command: str) -> None:
    names = tmp_path / "alone.parquet", tmp_path / "many.parquet"
    for name, more in zip(names, ((), ("--cluster", two, "--shared", f"file://{tmp_path}")), strict=True):
        assert run(command, "--format", "parquet", "-o", str(name), str(day), *more).returncode == 0
    assert names[0].read_bytes() == names[1].read_bytes()


# --- what is refused ---


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("analyze", THREE, "--cluster", "somewhere"), "not a cluster such as"),
        (("analyze", THREE, "--cluster", "local:0"), "1 to 1024 workers"),
        (("analyze", THREE, "--cluster", "tcp://127.0.0.1:8786"), "--shared"),
        (("analyze", THREE, "--shared", "/tmp"), "--cluster is missing"),
        (("analyze", THREE, "--cluster", "local:2", "--jobs", "2"), "--jobs"),
        (("analyze", THREE, "--cluster", "local:2", "--buffers"), "--buffers"),
        (("analyze", THREE, "--cluster", "local:2", "--read-frames", "2-"), "--read-frames"),
        (("analyze", THREE, "--cluster", "local:2", "--esp", "keys"), "--esp"),
        (("analyze", THREE, "--cluster", "local:2", "--follow"), "--follow"),
        (("analyze", "-i", "lo", "--cluster", "local:2"), "-i"),
        (("analyze", "--stream", f"initiator={THREE}", "--cluster", "local:2"), "--stream"),
        (("fpdus", THREE, "--cluster", "local:2", "--order", "placed"), "--order placed"),
        (("analyze", "-", "--cluster", "local:2"), "only a named file"),
        (("analyze", "none.pcap", "--cluster", "local:2"), "none.pcap"),
        (("analyze", "README.md", "--cluster", "local:2"), "README.md"),
        (("analyze", THREE, "--cluster", "local:1", "--shared", "/proc/none"), "the shared folder cannot be used"),
        (("analyze", THREE, "--cluster", "local:1", "--shared", "xyz://none"), "the shared folder cannot be used"),
        (("analyze", THREE, "--cluster", "tcp://127.0.0.1:9", "--shared", "/tmp"), "no Dask cluster answers"),
    ],
    ids=lambda value: value.replace("/", " ") if isinstance(value, str) else "",
)
def test_what_does_not_go_is_one_line_and_status_2(arguments: tuple[str, ...], why: str) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("scapy-mpa: ")
    assert why in line


@pytest.mark.parametrize("package", ["distributed", "fsspec"])
def test_what_must_be_installed(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MPAError, match=r"pip install 'scapy-mpa\[cluster\]'"):
        cluster_run.check_installed()


# --- workers that die ---


def dying(task: Any, does: Callable[[Any], Any], mark: Path, after: bool) -> Any:
    """Do a task; the first worker that does one is killed before that, or when it has done it."""
    answer = does(task) if after else None
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return does(task) if answer is None else answer
    os.kill(os.getpid(), signal.SIGKILL)
    return None


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("name", "does"), [("read_unit", read_unit), ("receive_share", receive_share)])
def test_a_worker_that_is_killed(
    two: str, day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, does: Any, after: bool
) -> None:
    mark = tmp_path / "killed"
    monkeypatch.setattr(cluster_run, name, partial(dying, does=does, mark=mark, after=after))
    assert everything(found(day, two, tmp_path)) == everything(analyze(day))
    assert mark.exists()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_worker_that_is_killed_over_messages(
    two: str, day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    mark = tmp_path / "killed"
    monkeypatch.setattr(cluster_run, "receive_messages", partial(dying, does=receive_messages, mark=mark, after=after))
    many = messages_on_cluster(
        Query(sources_of(day)),
        Cluster(two, shared=str(tmp_path)),
        payload=False,
        held=DEFAULT_HELD,
        directions=ROLES,
        protocols=(),
    )
    with many, CapturedMessages(sources_of(day)) as alone:
        assert [*many] == [*alone] != []
    assert mark.exists()


def deadly(task: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_that_die_again_and_again(two: str, day: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_run, "receive_share", deadly)
    with pytest.raises(MPAError, match="repeatedly die"):
        found(day, two, tmp_path)


# --- much ---


def peak() -> int:
    """Octets of memory that this process ever had.

    What resource.getrusage says begins with the peak of the process that started it, here that of all tests.
    """
    (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(kilobytes) * 1024


@pytest.mark.parametrize("count", [1, 2, 4])
def test_two_gigabytes_in_two_hundred_files(tmp_path: Path, count: int) -> None:
    whole = tmp_path / "whole.pcap"
    made = write_capture("thousand", whole, 2_000_000_000, seed=1)
    day = tmp_path / "day"
    day.mkdir()
    cut(whole, day, made.packets // 200 + 1)
    whole.unlink()
    command = [sys.executable, "-m", "scapy_mpa", "analyze", "--format", "json", str(day)]
    alone = subprocess.run(command, capture_output=True, text=True, check=False)
    with workers(count) as address:
        command += ["--cluster", address, "--shared", str(tmp_path)]
        many = subprocess.run(command, capture_output=True, text=True, check=False)
        with distributed.Client(address) as client:
            peaks = client.run(peak)
    assert (many.stdout, many.stderr, many.returncode) == (alone.stdout, alone.stderr, alone.returncode)
    assert json.loads(many.stdout)["packets"] == made.packets
    assert len(peaks) == count
    assert max(peaks.values()) < 300_000_000


def cut(whole: Path, folder: Path, packets: int) -> None:
    """A little-endian capture in files of so many packets."""
    with whole.open("rb") as file:
        header, number, record = file.read(24), 0, file.read(16)
        while record:
            with (folder / f"cut.pcap{number}").open("wb") as out:
                out.write(header)
                for _ in range(packets):
                    out.write(record + file.read(int.from_bytes(record[8:12], "little")))
                    record = file.read(16)
                    if not record:
                        break
            number += 1


#: A client that does not have the key, of another user where root runs it.
_STRANGER = """
import os, sys
import distributed
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
address = sys.argv[1]
for tried in (address, address.replace("tls://", "tcp://")):
    try:
        with distributed.Client(tried, timeout="3s") as client:
            print(client.submit(os.getuid).result(timeout=5))
    except Exception as error:
        print(type(error).__name__)
"""


def test_nobody_else_reaches_the_workers_of_this_machine() -> None:
    """They do whatever a client tells them, as the user who started them."""
    with _client(Cluster(workers=1)) as client:
        address = client.scheduler.address
        assert address.startswith("tls://")
        said = subprocess.run(
            [sys.executable, "-c", _STRANGER, address], capture_output=True, text=True, check=True, cwd="/"
        ).stdout.split()
        assert client.submit(os.getuid).result(timeout=10) == os.getuid()
    assert len(said) == 2
    assert not any(word.isdigit() for word in said), said
