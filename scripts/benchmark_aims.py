"""What is aimed at, measured: ``benchmark.py --aims``, or some parts of it by ``--part``.

Each part makes its captures, runs whole processes in turn, and prints a table: what was measured, the aim, whether it
is met.  Times are those of the processor, which other work on the machine changes the least; the least of the rounds.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scripts import benchmark_floods

if TYPE_CHECKING:
    from scripts.benchmark import Capture, Result

ROOT = Path(__file__).resolve().parent.parent

#: ``fpdus`` is compared with what it took at this commit, where nothing was compiled.
OLD_COMMIT = "1aea0c7"
#: Runs the package in a folder, whatever the present one is.
_RUN = "import runpy, sys; sys.path.insert(0, sys.argv.pop(1)); runpy.run_module('scapy_mpa', run_name='__main__')"


class Aim(NamedTuple):
    """One line: what, as measured and as text, and the most, or the least, that is aimed at."""

    what: str
    measured: float
    aim: float
    unit: str
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether it is."""
        return self.measured >= self.aim if self.at_least else self.measured <= self.aim

    def cells(self) -> tuple[str, ...]:
        """What a table has of it."""
        side = "at least" if self.at_least else "at most"
        number = f"{self.measured:.0f}" if self.unit == "MB" else f"{self.measured:.2f}"
        return self.what, f"{number} {self.unit}", f"{side} {self.aim:.3g}", "met" if self.is_met else "missed"


class Bench(NamedTuple):
    """What measures: the captures of scenarios, commands on a capture with their results by name, a command alone.

    ``alone`` returns processor seconds and peak memory in octets, the least and the largest of the rounds; ``pure`` is
    set in the environment to have nothing compiled imported.
    """

    capture: Callable[[str, int], Capture]
    measure: Callable[[Capture, Sequence[str]], Mapping[str, Result]]
    alone: Callable[[Sequence[str], Mapping[str, str]], tuple[float, int]]
    cache: Path


_HUNDRED, _GIGABYTE = 100_000_000, 1_000_000_000
#: Floors that ``analyze`` may take, times as fast as tshark it has to be, and MB it may hold, by scenario.
_OF_HUNDRED = {
    "plain": (3, 10, 80),
    "markers": (3, 10, 80),
    "reordered": (5, 10, 80),
    "small": (5, 10, 80),
    "thousand": (15, 5, 100),
}
_OF_GIGABYTE = {"plain": (6, 80), "reordered": (8, 80)}
_FLOOD_SECONDS, _FLOOD_MEGABYTES, _SYN_MEGABYTES = 3, 250, 120
#: Twice as many may take so many times as long, start-up included.
_TWICE = 2.2


def _hundred(bench: Bench) -> Iterator[Aim]:
    """``analyze`` on 100 MB of each scenario, against the floor and tshark; memory."""
    for scenario, (floors, times, megabytes) in _OF_HUNDRED.items():
        found = bench.measure(bench.capture(scenario, _HUNDRED), ("floor", "analyze", "tshark"))
        took = found["analyze"].least
        yield Aim(f"100 MB, {scenario}: floors that analyze takes", took / found["floor"].least, floors, "floors")
        if "tshark" in found:
            yield Aim(f"100 MB, {scenario}: tshark / analyze", found["tshark"].least / took, times, "times", True)
        yield Aim(f"100 MB, {scenario}: memory of analyze", found["analyze"].memory / 1e6, megabytes, "MB")


def _gigabyte(bench: Bench) -> Iterator[Aim]:
    """``analyze`` on 1 GB in order and reordered, against the floor; memory."""
    for scenario, (floors, megabytes) in _OF_GIGABYTE.items():
        found = bench.measure(bench.capture(scenario, _GIGABYTE), ("floor", "analyze"))
        ratio = found["analyze"].least / found["floor"].least
        yield Aim(f"1 GB, {scenario}: floors that analyze takes", ratio, floors, "floors")
        yield Aim(f"1 GB, {scenario}: memory of analyze", found["analyze"].memory / 1e6, megabytes, "MB")


def _fpdus(bench: Bench) -> Iterator[Aim]:
    """``fpdus`` on 100 MB in order, against what it took at an old commit, if git has that."""
    old = _checkout(OLD_COMMIT, bench.cache)
    if old is None:
        print(f"fpdus: git has no commit {OLD_COMMIT} here, nothing to compare with", file=sys.stderr)
        return
    path = bench.capture("plain", _HUNDRED).path
    now, then = (
        bench.alone([sys.executable, "-c", _RUN, str(root), "fpdus", "--format", "jsonl", path], {})[0]
        for root in (ROOT, old)
    )
    yield Aim(f"100 MB, plain: fpdus, of its time at {OLD_COMMIT}", 100 * now / then, 60, "%")


def _checkout(commit: str, cache: Path) -> Path | None:
    """The package as it was at a commit, None if git does not have it."""
    folder = cache / f"scapy-mpa-{commit}"
    if not folder.exists():
        packed = subprocess.run(["git", "-C", str(ROOT), "archive", commit, "scapy_mpa"], capture_output=True)
        if packed.returncode:
            return None
        with tempfile.TemporaryDirectory(dir=cache) as partial, tarfile.open(fileobj=BytesIO(packed.stdout)) as file:
            file.extractall(partial, filter="data")
            shutil.copytree(partial, folder)
    return folder


def _uncompiled(bench: Bench) -> Iterator[Aim]:
    """``analyze`` with nothing compiled, on 100 MB of each scenario, against tshark."""
    for scenario in _OF_HUNDRED:
        capture = bench.capture(scenario, _HUNDRED)
        found = bench.measure(capture, ("tshark",))
        command = [sys.executable, "-m", "scapy_mpa", "analyze", "--format", "json", capture.path]
        took, _ = bench.alone(command, {"SCAPY_MPA_PURE": "1"})
        if "tshark" in found:
            yield Aim(f"uncompiled, {scenario}: tshark / analyze", found["tshark"].least / took, 1, "times", True)


def _floods(bench: Bench) -> Iterator[Aim]:
    """Very many connections and SYNs: seconds, memory, and twice as many."""
    seconds: dict[str, float] = {}
    connections, syns = benchmark_floods.connections, benchmark_floods.syns
    for name, frames, aims, megabytes in (
        ("connections-8000", connections(8000), "tshark", None),
        ("connections-24000", connections(24_000), "seconds", _FLOOD_MEGABYTES),
        ("connections-48000", connections(48_000), "twice connections-24000", None),
        ("syns-320000-of-16", syns(320_000, 16), "seconds", _SYN_MEGABYTES),
        ("syns-640000-of-16", syns(640_000, 16), "twice syns-320000-of-16", None),
        ("syns-320000-of-320000", syns(320_000, 320_000), "seconds", _SYN_MEGABYTES),
    ):
        path = bench.cache / f"flood-{name}.pcap"
        if not path.exists():
            benchmark_floods.write(path, frames)
        for style in ("text", "json"):
            command = [sys.executable, "-m", "scapy_mpa", "analyze", "--format", style, str(path)]
            took, memory = bench.alone(command, {})
            seconds[f"{name} {style}"] = took
            what = f"{name}, {style}"
            if aims == "tshark" and (tshark := shutil.which("tshark")):
                yield Aim(f"{what}: seconds, tshark's", took, bench.alone([tshark, "-r", str(path)], {})[0], "s")
            elif aims == "seconds":
                yield Aim(f"{what}: seconds", took, _FLOOD_SECONDS, "s")
            elif aims.startswith("twice"):
                yield Aim(f"{what}: times that of half as many", took / seconds[f"{aims[6:]} {style}"], _TWICE, "times")
            if megabytes is not None:
                yield Aim(f"{what}: memory", memory / 1e6, megabytes, "MB")


PARTS: dict[str, Callable[[Bench], Iterator[Aim]]] = {
    "hundred": _hundred,
    "gigabyte": _gigabyte,
    "fpdus": _fpdus,
    "uncompiled": _uncompiled,
    "floods": _floods,
}


def print_aims(names: Sequence[str], bench: Bench, style: str) -> None:
    """Measure these parts, and print each line as soon as it is known."""
    if style == "md":
        print("| | measured | aim | |")
        print("| --- | ---: | ---: | --- |")
    for name in names:
        for aim in PARTS[name](bench):
            what, measured, wanted, verdict = aim.cells()
            if style == "md":
                print(f"| {what} | {measured} | {wanted} | {verdict} |")
            else:
                print(f"{what:<58} {measured:>14}  {wanted:<16} {verdict}")
            sys.stdout.flush()
