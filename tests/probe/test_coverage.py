"""Coverage leads `fuzz --to`: what a peer executes decides which case is changed next, and which hits are one."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scapy_mpa.cli import cli
from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.coverage import COUNTERS, NOTHING, VARIABLE, Coverage, source
from scapy_mpa.fuzz.engine import Engine
from scapy_mpa.fuzz.guided import Guided
from tests.conftest import is_sampled
from tests.probe.peers import HOST
from tests.probe.test_fuzzing_deep import SEEDS, fuzzer_of

needs_atheris = pytest.mark.skipif(find_spec("atheris") is None, reason="atheris is not installed")
#: How each compiler is asked to have a program counted.
COMPILERS = {"gcc": "trace-pc", "clang": "trace-pc-guard"}
#: Cases within which both crashes are found with coverage. The slowest of ten seeds took 1,534 in the run that
#: docs/probe.md has; another run of a seed may take longer.
MOST = 6000


@pytest.fixture(autouse=True, scope="module")
def no_core_files() -> Iterator[None]:
    """Peers crash here, and must not leave files where the tests run."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


def built(folder: Path, compiler: str) -> Path:
    """The peer, with the source that the command prints."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (folder / "coverage.c").write_text(source())
    peer = Path(__file__).with_name("covered_peer.c")
    made = folder / f"peer-{compiler}"
    counted = ("-Wall", "-Werror", f"-fsanitize-coverage={COMPILERS[compiler]}", "-c", str(peer), "-o", "peer.o")
    for words in (counted, ("-Wall", "-Werror", "-c", "coverage.c"), ("peer.o", "coverage.o", "-o", made)):
        subprocess.run([compiler, *words], cwd=folder, check=True)
    return made


@pytest.fixture(scope="module", name="peer")
def peer_(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("peer"), "gcc" if shutil.which("gcc") else "clang")


@pytest.fixture(name="memory")
def memory_() -> Iterator[Path]:
    """A file name in memory."""
    path = Path("/dev/shm" if os.path.isdir("/dev/shm") else "/tmp") / f"scapy-mpa-test-{os.getpid()}"
    yield path
    path.unlink(missing_ok=True)


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def fuzz(port: int, *more: str, recovery: float = 1.0) -> tuple[int, list[dict[str, Any]], str]:
    """Exit status, lines and messages of the command, in a process of its own."""
    words = ["fuzz", "--to", f"{HOST}:{port}", "--timeout", "0.01", "--recovery", str(recovery), *more]
    done = subprocess.run([sys.executable, "-m", "scapy_mpa", *words], capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


# --- the counters ---


def test_counters_of_a_peer(tmp_path: Path) -> None:
    path = tmp_path / "counters"
    path.write_bytes(b"\5" * COUNTERS)
    with closing(Coverage(str(path))) as coverage:
        assert path.read_bytes() == NOTHING
        for places, new, kept in (((3, 70), 2, 2), ((3, 70), 0, 2), ((3, 4), 1, 3)):
            coverage.clear()
            with path.open("r+b") as file:
                for place in places:
                    file.seek(place)
                    file.write(b"\xff")
            coverage.collect()
            assert [at for at, count in enumerate(coverage.counters) if count] == [*places]
            assert coverage.new.bit_count() == new
            coverage.keep()
            assert (coverage.new, coverage.kept.bit_count()) == (0, kept)
        # A peer may cut the file short.
        os.truncate(path, 5)
        coverage.collect()
        assert coverage.counters == b"\0\0\0\xff\xff".ljust(COUNTERS, b"\0")
    with pytest.raises(MPAError, match="nowhere/x: No such file or directory"):
        Coverage(str(tmp_path / "nowhere" / "x"))


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_peer_counts_what_it_executes(compiler: str, tmp_path: Path) -> None:
    """As the same octets have it, in each process, if a file is named; else it runs as ever."""
    peer, path = built(tmp_path, compiler), tmp_path / "counters"

    def counters(request: bytes, **environment: str) -> bytes:
        port = free_port()
        process = subprocess.Popen([peer, str(port)], env={**os.environ, **environment})
        try:
            while True:
                try:
                    sock = socket.create_connection((HOST, port))
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None
            with sock:
                sock.sendall(request)
                sock.shutdown(socket.SHUT_WR)
                sock.settimeout(5)
                while sock.recv(100):
                    pass
        finally:
            process.kill()
            process.wait()
        return path.read_bytes() if path.exists() else b""

    request = b"MPA ID Req Frame\x40\x01\0\0"
    assert counters(request) == b""
    found = []
    for octets in (request, request, b"MPA ID Req Frome\x40\x01\0\0"):
        path.unlink(missing_ok=True)
        found.append(counters(octets, **{VARIABLE: str(path)}))
    assert len(found[0]) == COUNTERS
    # How often depends on how TCP cuts the octets.
    reached = [[*map(bool, one)] for one in found]
    assert reached[0] == reached[1] != reached[2]
    assert sum(map(bool, found[0])) > sum(map(bool, found[2])) > 5


# --- cases of cases ---


def test_cases_are_made_of_cases() -> None:
    """One step from another: the same for a seed, never longer than is allowed, whatever the octets are."""
    fuzzer = fuzzer_of(1)
    guided = Guided(fuzzer)
    octets, sizes = b"\n", set()
    assert guided.recipe(octets, 7).mutations == ()
    for seed in range(200):
        made = guided.mutated(octets, 4096, seed)
        assert made == Guided(fuzzer_of(1)).mutated(octets, 4096, seed)
        before, after = guided.recipe(octets, 7), guided.recipe(made, 7)
        assert after.case == 7
        assert after.exchange is not None
        if before.mutations:
            assert after.exchange.source == before.exchange.source  # type: ignore[union-attr]
            assert {*before.mutations} & {*after.mutations} or len(before.mutations) == 1
        sizes.add(len(after.mutations))
        octets = made
    assert max(sizes) == fuzzer.most
    assert len(guided.mutated(octets, 60, 1)) <= 60


# --- libFuzzer ---


def in_order(octets: bytes, _most: int, seed: int) -> bytes:
    """A letter more, by the seed."""
    return octets.strip() + bytes((97 + seed % 26,))


def steps_until(word: bytes, seed: int, *, tells: bool, most: int = 2000) -> tuple[int, list[bytes]]:
    """Inputs until the word is there, if it is reached letter by letter."""
    inputs: list[bytes] = []
    with closing(Engine(in_order, seed)) as engine:
        while len(inputs) < most and (not inputs or inputs[-1] != word):
            inputs.append(engine.next().strip())
            right = next((at for at in range(len(word), 0, -1) if inputs[-1].startswith(word[:at])), 0)
            engine.tell(b"\1" * 9 + (b"\1" * right if tells else b"").ljust(COUNTERS - 9, b"\0"))
    return len(inputs), inputs


@needs_atheris
def test_the_engine_goes_on_from_what_was_new() -> None:
    assert steps_until(b"fpdu", 1, tells=True)[0] < 2000
    assert steps_until(b"fpdu", 1, tells=False)[0] == 2000
    found = [steps_until(b"mpa", seed, tells=True)[1] for seed in (1, 1, 2)]
    # How often depends on how TCP cuts the octets.
    reached = [[*map(bool, one)] for one in found]
    assert reached[0] == reached[1] != reached[2]


@needs_atheris
def test_an_engine_that_fails_says_why() -> None:
    def fails(*_: object) -> bytes:
        raise ValueError("no more inputs")

    def leads() -> None:
        while True:
            engine.next()
            engine.tell(NOTHING)

    with closing(Engine(fails, 1)) as engine, pytest.raises(MPAError, match=r"libFuzzer has ended: .*no more inputs"):
        leads()


# --- the command ---


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ((), "--coverage is only for a live peer: name the peer with --to or --listen"),
        (("--to", "127.0.0.1:9", "--replay", "3"), "decides which case comes next: leave --replay and --first out"),
        (("--to", "127.0.0.1:9", "--first", "3"), "decides which case comes next: leave --replay and --first out"),
        (("--to", "127.0.0.1:9", "--changes", "0"), "--coverage needs changes: leave --changes 0 out"),
    ],
)
def test_what_goes_with_coverage(more: tuple[str, ...], says: str) -> None:
    result = CliRunner().invoke(cli, ["fuzz", "--coverage", "x", "-o", "y", *more])
    assert result.exit_code == 2
    assert says in re.sub(r"\s+", " ", result.stderr)


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("scapy_mpa.fuzz.engine.find_spec", lambda _: None)
    with pytest.raises(MPAError, match=r"needs the package atheris: pip install 'scapy-mpa\[coverage\]'"):
        CliRunner().invoke(
            cli, ["fuzz", "--to", f"{HOST}:9", "--coverage", str(tmp_path / "x")], catch_exceptions=False,
            standalone_mode=False,
        )  # fmt: skip


def test_the_source_is_printed() -> None:
    assert CliRunner().invoke(cli, ["fuzz", "--coverage-source"]).stdout.strip() == source().strip()


@needs_atheris
def test_a_peer_that_counts_nothing(peer: Path, memory: Path) -> None:
    port = free_port()
    status, lines, said = fuzz(
        port, "--coverage", str(memory), "--restart", f"env -u {VARIABLE} {peer} {port}", "--count", "5"
    )
    assert (status, lines) == (2, [])
    assert f"the peer counts nothing in {memory}: build it with -fsanitize-coverage=" in said


@needs_atheris
def test_hits_at_one_place_are_one(peer: Path, memory: Path, tmp_path: Path) -> None:
    """Whatever was changed; the first of them is there as a capture and as a program that ends the peer too."""
    port, deaths, folder = free_port(), tmp_path / "deaths", tmp_path / "cases"
    status, lines, said = fuzz(
        port, "--coverage", str(memory), "--restart", f"{peer} {port} 1 {deaths}", "--count", "150", "--minimize",
        "-o", str(folder), "--seed", "2", recovery=0.2,
    )  # fmt: skip
    causes = {*deaths.read_text().split()}
    assert "terminate" in causes
    assert status == 3
    given = [line for line in lines if "minimized" not in line]
    gone = [line for line in given if line["verdict"] == "peer gone"]
    assert len(given) == 150
    assert len(gone) > len(causes)
    assert len([line for line in lines if "minimized" in line]) == len(causes)
    assert f"{len(causes)} hit" in said
    assert [line["reached"] for line in given] == sorted(line["reached"] for line in given)
    assert given[-1]["reached"] > given[0]["reached"] > 20
    programs = sorted(folder.glob("*.py"))
    assert len(programs) == len(causes)
    for program in programs:
        assert program.with_suffix(".pcapng").exists()
        port = free_port()
        process = subprocess.Popen([peer, str(port), "1"])
        try:
            retry(lambda port=port: socket.create_connection((HOST, port)).close())  # type: ignore[misc]
            subprocess.run([sys.executable, program, HOST, str(port)], check=True, stdout=subprocess.DEVNULL)
            assert process.wait(10) != 0
        finally:
            process.kill()
            process.wait()


def retry(connect: Callable[[], None]) -> None:
    for _ in range(10_000):
        try:
            return connect()
        except ConnectionRefusedError:
            pass
    raise AssertionError("the peer does not listen")


def cases_until(peer: Path, folder: Path, memory: Path, seed: int, most: int, *, leads: bool) -> dict[str, int]:
    """The number of the case that was the first to reach a crash, of those that were given."""
    port, deaths = free_port(), folder / f"deaths-{leads}"
    words = ("--restart", f"{peer} {port} 3 {deaths}", "--count", str(most), "--seed", str(seed))
    _, lines, _ = fuzz(port, *words, *(("--coverage", str(memory)) if leads else ()))
    gone = [number for number, line in enumerate(lines, 1) if line["verdict"] == "peer gone"]
    found: dict[str, int] = {}
    for cause, number in zip(deaths.read_text().split() if deaths.exists() else (), gone, strict=True):
        found.setdefault(cause, number)
    return found


@needs_atheris
@pytest.mark.parametrize("seed", SEEDS)
def test_crashes_behind_three_messages_are_found_sooner(
    seed: int, peer: Path, tmp_path: Path, memory: Path, pytestconfig: pytest.Config
) -> None:
    """Than without coverage, which finds neither in as many cases."""
    if is_sampled(pytestconfig):
        pytest.skip("ten seeds take an hour: --all")
    found = cases_until(peer, tmp_path, memory, seed, MOST, leads=True)
    print(f"seed {seed}, with coverage: {found}")
    assert {*found} == {"write", "terminate"}
    without = cases_until(peer, tmp_path, memory, seed, max(found.values()), leads=False)
    print(f"seed {seed}, without: {without}")
    assert all(found[cause] < without.get(cause, MOST) for cause in found)


def test_another_file_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    path.write_bytes(b"octets of a capture")
    with pytest.raises(MPAError, match="not a file of counters"):
        Coverage(str(path))
    assert path.read_bytes() == b"octets of a capture"
