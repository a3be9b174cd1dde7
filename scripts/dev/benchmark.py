#!/usr/bin/env python3
"""Measure scapy-mpa against tshark, and against the floor, on captures made for the purpose.

    python scripts/dev/benchmark.py                          # all scenarios at 100 MB
    python scripts/dev/benchmark.py --size 1GB -s plain      # one of them at 1 GB
    python scripts/dev/benchmark.py --make -s plain          # make the capture, print its name
    python scripts/dev/benchmark.py --aims                   # what is aimed at, and whether it is met
    python scripts/dev/benchmark.py --aims --update          # the same, into docs/performance.md
    python scripts/dev/benchmark.py --part session           # one part of that
    python scripts/dev/benchmark.py --craft                  # how fast captures are made, against Scapy

Whole processes are measured, imports included, one after the other in turn, so that a busy machine troubles
all of them alike; the best and the median of the rounds are printed, and the least processor time, which other
work on the machine changes least. Peak memory is the process's own, as the kernel counted it. The floor is a
Python process that reads the file in blocks of 1 MiB and runs CRC32c over it.

The captures carry the acknowledgements a real connection has; without them tshark's TCP analysis is twice as
slow. The same seed gives the same octets. They are kept in the cache folder until the code that makes them
changes.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # measure this checkout, wherever the command is run

from scripts.dev import benchmark_floods  # noqa: E402
from scripts.dev.benchmark_aims import LARGER, PARTS, Bench, print_aims  # noqa: E402

UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
TSHARK_OPTIONS = (
    "-o",
    "tcp.reassemble_out_of_order:TRUE",
    "-o",
    "tcp.try_heuristic_first:TRUE",
    "-T",
    "fields",
)
TSHARK_FIELDS = (
    "frame.number",
    "tcp.stream",
    "tcp.seq_raw",
    "iwarp_mpa.ulpdulength",
    "iwarp_mpa.crc_check",
    "iwarp_rdma.opcode",
)
ULPDU_LENGTH_COLUMN = TSHARK_FIELDS.index("iwarp_mpa.ulpdulength")

COMMANDS = ("analyze", "analyze-jobs", "fpdus", "fpdus-jobs", "messages", "tshark", "tshark-plain", "floor")
#: They exit with 1 if they find an error, but so does Python after a traceback.
_OURS = ("analyze", "fpdus", "messages")

FLOOR = """
import sys
from scapy_mpa.framing.crc import crc32c
crc = 0
with open(sys.argv[1], "rb", buffering=0) as file:
    while block := file.read(1 << 20):
        crc = crc32c(block, crc)
"""

# A child's peak memory begins with that of the process it was forked from, so this small one stands between.
SPAWN = """
import json, os, sys, time
out, err, *command = sys.argv[1:]
flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
actions = [(os.POSIX_SPAWN_OPEN, 1, out, flags, 0o644), (os.POSIX_SPAWN_OPEN, 2, err, flags, 0o644)]
start = time.perf_counter()
child = os.posix_spawn(command[0], command, os.environ, file_actions=actions)
_, status, usage = os.wait4(child, 0)
seconds, cpu = time.perf_counter() - start, usage.ru_utime + usage.ru_stime
print(json.dumps([seconds, cpu, os.waitstatus_to_exitcode(status), usage.ru_maxrss]))
"""

START = 1_700_000_000_000_000_000  # the captures begin in November 2023
STEP = 12_000  # nanoseconds a packet: about 10 Gbit/s of full segments
RECORD_HEADER = 16


# ---------------------------------------------------------------------------------------------- captures


@dataclass(frozen=True)
class Scenario:
    """The content of a capture: ``plan`` as keywords of BulkPlan, and how many connections take turns."""

    title: str
    plan: dict[str, object] = field(default_factory=dict)
    connections: int = 1
    is_pcapng: bool = False


SCENARIOS = {
    "plain": Scenario("in order, without Markers"),
    "markers": Scenario("in order, with Markers", {"markers": True}),
    "reordered": Scenario(
        "Markers, re-segmented, 3 % reordered",
        {"markers": True, "segmentation": "anywhere", "reordered": 0.03, "round_octets": 1 << 20},
    ),
    "small": Scenario("many small FPDUs, packed", {"segmentation": "packed", "write_octets": 38, "write_spread": 16}),
    "thousand": Scenario("a thousand connections", {"round_octets": 1 << 13}, connections=1000),
    "pcapng": Scenario("in order, without Markers, pcapng", is_pcapng=True),
}


@dataclass(frozen=True)
class Capture:
    """A capture made for the measurement, and what was laid in it."""

    scenario: str
    path: str
    octets: int
    packets: int
    fpdus: int
    connections: int
    sha256: str


def write_capture(scenario: str, path: Path, size: int, seed: int) -> Capture:
    """Make a capture of at least ``size`` octets: every connection in it is complete."""
    from scapy_mpa.craft.bulk import BulkConnection, BulkPlan
    from scapy_mpa.craft.pcapfile import Packet, PcapWriter
    from scapy_mpa.craft.pcapngfile import PcapngWriter
    from scapy_mpa.craft.segments import below

    setup = SCENARIOS[scenario]
    plan = BulkPlan(**setup.plan)  # type: ignore[arg-type]
    clock = itertools.count(START, STEP)
    rng = random.Random(seed)
    connections = [BulkConnection(plan, clock=clock, seed=seed, number=n) for n in range(setup.connections)]

    def interleaved() -> Iterator[Packet]:
        octets = 0
        running = [connection.packets() for connection in connections]
        while running:
            turn = below(rng, len(running))
            burst = 1 + below(rng, 8) if len(running) > 1 else None
            taken = 0
            for packet in itertools.islice(running[turn], burst):
                yield packet
                taken += 1
                octets += RECORD_HEADER + len(packet[1])
                if octets >= size:
                    for connection in connections:
                        connection.ending = True
            if burst is None or taken < burst:
                running[turn] = running[-1]
                running.pop()

    partial = path.with_name(path.name + ".partial")
    with open(partial, "wb", buffering=1 << 20) as file:
        packets = (PcapngWriter(file) if setup.is_pcapng else PcapWriter(file)).write(interleaved())
    digest = hashlib.sha256()
    with open(partial, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    fpdus = sum(sum(connection.fpdus.values()) for connection in connections)
    capture = Capture(
        scenario, str(path), partial.stat().st_size, packets, fpdus, setup.connections, digest.hexdigest()
    )
    partial.replace(path)
    path.with_suffix(".json").write_text(json.dumps(asdict(capture)))
    return capture


def maker_version() -> str:
    """A digest of the code that decides about the captures' octets."""
    sources = [Path(__file__), *sorted((ROOT / "scapy_mpa" / "craft").glob("*.py"))]
    sources += sorted((ROOT / "scapy_mpa" / "framing").glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def cached_capture(scenario: str, cache: Path, size: int, seed: int) -> Capture:
    """The capture from the cache folder; made first, by a process of its own, if it is not there."""
    path = cache / f"{scenario}-{size}-{seed}-{maker_version()}.pcap"
    if not (path.exists() and path.with_suffix(".json").exists()):
        for outdated in cache.glob(f"{scenario}-{size}-{seed}-*"):
            outdated.unlink()
        command = [sys.executable, __file__, "--write", str(path), "-s", scenario, "--size", str(size)]
        subprocess.run([*command, "--seed", str(seed)], check=True)
    return Capture(**json.loads(path.with_suffix(".json").read_text()))


# ---------------------------------------------------------------------------------------------- measuring


@dataclass
class Result:
    """The results of the rounds of one command on one capture: seconds, processor seconds, octets of memory, FPDUs."""

    command: str
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: int = 0
    fpdus: int | None = None
    failure: str | None = None

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def least(self) -> float:
        """Seconds of the processor."""
        return min(self.cpu)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def commands(path: str) -> dict[str, list[str]]:
    """The command lines by name, without what is not installed."""
    analyze = [sys.executable, "-m", "scapy_mpa", "analyze", "--format", "json", path]
    fpdus = [sys.executable, "-m", "scapy_mpa", "fpdus", "--format", "jsonl", path]
    messages = [sys.executable, "-m", "scapy_mpa", "messages", "--format", "jsonl", path]
    lines = {
        "analyze": analyze,
        "analyze-jobs": [*analyze, "--jobs", "2"],
        "fpdus": fpdus,
        "fpdus-jobs": [*fpdus, "--jobs", "2"],
        "messages": messages,
        "floor": [sys.executable, "-c", FLOOR, path],
    }
    tshark = shutil.which("tshark")
    if tshark:
        fields = [word for name in TSHARK_FIELDS for word in ("-e", name)]
        lines["tshark"] = [tshark, "-r", path, *TSHARK_OPTIONS, *fields]
        lines["tshark-plain"] = [tshark, "-r", path]
    return lines


def environment(folder: Path) -> dict[str, str]:
    """What the commands are run in: this checkout, compiled once as an installed package is, into a folder."""
    found = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    path = os.pathsep.join(filter(None, [str(ROOT), found.get("PYTHONPATH")]))
    return {**found, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": str(folder / "compiled")}


def run(command: Sequence[str], out: Path, err: Path) -> tuple[float, float, int, int]:
    """Seconds, those of the processor, exit status and peak memory in octets of a process and those it starts.

    The memory is that of the largest of them.
    """
    spawn = [sys.executable, "-I", "-S", "-c", SPAWN, str(out), str(err), *command]
    seconds, cpu, status, memory = json.loads(subprocess.check_output(spawn, env=environment(out.parent)))
    return seconds, cpu, status, memory * (1 if sys.platform == "darwin" else 1024)


def found(name: str, out: Path) -> int | None:
    """Return how many FPDUs a command's output names."""
    name = name.removesuffix("-jobs")
    if name == "analyze":
        report = json.loads(out.read_bytes())
        return sum(int(half["fpdus"]) for each in report["connections"] for half in each["halves"].values())
    if name not in ("fpdus", "tshark"):
        return None
    count = 0
    with open(out, "rb") as lines:
        for line in lines:
            if name == "fpdus":
                count += 1
            else:
                value = line.split(b"\t")[ULPDU_LENGTH_COLUMN]
                count += value.count(b",") + 1 if value else 0
    return count


def measure(capture: Capture, names: list[str], repeat: int, folder: Path) -> list[Result]:
    """Run the commands in turn, ``repeat`` times each, the file in the page cache and modules compiled from the
    start."""
    lines = commands(capture.path)
    results = {name: Result(name) for name in names if name in lines}
    for name in ("floor", "analyze"):  # the file in the page cache, the modules compiled
        run(lines[name], folder / "out", folder / "err")
    for _ in range(repeat):
        for name, result in results.items():
            if result.failure:
                continue
            seconds, cpu, status, memory = run(lines[name], folder / "out", folder / "err")
            ours = name.removesuffix("-jobs") in _OURS
            if status not in ((0, 1) if ours else (0,)) or (ours and not (folder / "out").stat().st_size):
                result.failure = failure_of(status, folder / "err")
                continue
            result.seconds.append(seconds)
            result.cpu.append(cpu)
            result.memory = max(result.memory, memory)
            if result.fpdus is None:
                try:
                    result.fpdus = found(name, folder / "out")
                except (ValueError, KeyError, IndexError) as problem:
                    result.failure = f"output not understood: {problem!r}"
    return list(results.values())


def failure_of(status: int, err: Path) -> str:
    """Why a command failed, in one line."""
    lines = err.read_text(errors="replace").strip().splitlines()
    return f"exit {status}: {lines[-1] if lines else 'no message'}"


# ---------------------------------------------------------------------------------------------- the table

COLUMNS = (
    "command",
    "best s",
    "median s",
    "CPU s",
    "tshark / this",
    "this / analyze",
    "this / floor",
    "packets/s",
    "peak MB",
    "FPDUs found",
)


def rows(capture: Capture, results: list[Result]) -> list[tuple[str, ...]]:
    """One row a command. Ratios are of best times: how many times as fast as tshark, how many floors long."""
    times = {result.command: result.best for result in results if result.seconds and not result.failure}
    table = []
    for result in results:
        if result.command not in times:
            table.append((result.command, "failed", *[""] * (len(COLUMNS) - 2)))
            continue
        best = times[result.command]
        count = "-" if result.fpdus is None else f"{result.fpdus:,}"
        if result.fpdus is not None and result.fpdus != capture.fpdus:
            count += f" ({100 * result.fpdus / capture.fpdus:.1f} %)"
        table.append(
            (
                result.command,
                f"{best:.3f}",
                f"{result.median:.3f}",
                f"{min(result.cpu):.3f}",
                f"{times['tshark'] / best:.2f}" if "tshark" in times else "-",
                f"{best / times['analyze']:.2f}" if "analyze" in times else "-",
                f"{best / times['floor']:.1f}" if "floor" in times else "-",
                f"{capture.packets / best:,.0f}",
                f"{result.memory / 1e6:.0f}",
                count,
            )
        )
    return table


def heading(capture: Capture) -> str:
    """Return what a capture is, in one line."""
    return (
        f"{capture.scenario}: {SCENARIOS[capture.scenario].title}; {capture.octets / 1e6:,.0f} MB, "
        f"{capture.packets:,} packets, {capture.fpdus:,} FPDUs, {capture.connections} connection(s)"
    )


def as_json(capture: Capture, results: list[Result]) -> dict[str, object]:
    """Everything measured on a capture."""
    return {"capture": asdict(capture), "results": [asdict(result) for result in results]}


def print_table(capture: Capture, results: list[Result], style: str) -> None:
    """Markdown if ``style`` is md; else a drawn table on a terminal, columns of plain text elsewhere."""
    table = rows(capture, results)
    if style == "md":
        print(f"\n{heading(capture)}\n")
        print("| " + " | ".join(COLUMNS) + " |")
        print("| --- |" + " ---: |" * (len(COLUMNS) - 1))
        for row in table:
            print("| " + " | ".join(row) + " |")
    elif sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        shown = Table(title=heading(capture), title_justify="left")
        for number, column in enumerate(COLUMNS):
            shown.add_column(column, justify="right" if number else "left")
        for row in table:
            shown.add_row(*row)
        Console().print(shown)
    else:
        print(f"\n{heading(capture)}")
        widths = [max(map(len, column)) for column in zip(COLUMNS, *table, strict=True)]
        for row in [COLUMNS, *table]:
            cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
            print("  ".join([row[0].ljust(widths[0]), *cells]).rstrip())
    for result in results:
        if result.failure:
            print(f"{result.command} failed: {result.failure}")
    sys.stdout.flush()


# ---------------------------------------------------------------------------------------------- what is aimed at


def bench_in(cache: Path, folder: Path, size: int, repeat: int, seed: int) -> Bench:
    """Return what measures aims, ``repeat`` times each, with captures in ``cache`` and all else in ``folder``."""

    @contextmanager
    def large(scenario: str) -> Iterator[Capture]:
        capture = cached_capture(scenario, folder, LARGER * size, seed)
        try:
            yield capture
        finally:
            Path(capture.path).unlink()

    @contextmanager
    def connections(count: int) -> Iterator[Capture]:
        path = folder / f"connections-{count}.pcap"
        benchmark_floods.write(path, benchmark_floods.connections(count))
        packets, fpdus = count * benchmark_floods.PACKETS, count * benchmark_floods.SENDS
        try:
            yield Capture("connections", str(path), path.stat().st_size, packets, fpdus, count, "")
        finally:
            path.unlink()

    def measured(capture: Capture, names: Sequence[str], rounds: int | None) -> dict[str, Result]:
        results = measure(capture, list(names), rounds or repeat, folder)
        for result in results:
            if result.failure:
                raise SystemExit(f"{capture.path}: {result.command} failed: {result.failure}")
        return {result.command: result for result in results}

    def printed(command: Sequence[str]) -> str:
        _, _, status, _ = run(command, folder / "out", folder / "err")
        if status:
            raise SystemExit(f"{' '.join(command)}: {failure_of(status, folder / 'err')}")
        return (folder / "out").read_text()

    return Bench(
        size,
        lambda scenario, octets: cached_capture(scenario, cache, octets, seed),
        large,
        connections,
        measured,
        printed,
    )


# ---------------------------------------------------------------------------------------------- the command


def parse_size(text: str) -> int:
    """A size as 100MB or 1GB, powers of ten, in octets."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) *([KMG]B)?", text.strip(), re.IGNORECASE)
    if not match:
        raise click.BadParameter(f"{text!r} is not a size such as 100MB or 1GB")
    return int(float(match[1]) * UNITS[(match[2] or "").upper()])


@click.command()
@click.option(
    "--size",
    type=parse_size,
    metavar="SIZE",
    default="100MB",
    show_default=True,
    help="Octets of each capture.",
)
@click.option(
    "-s",
    "--scenario",
    "scenarios",
    multiple=True,
    type=click.Choice(list(SCENARIOS)),
    help="Default: all of them.",
)
@click.option(
    "-c",
    "--command",
    "names",
    multiple=True,
    type=click.Choice(COMMANDS),
    default=("analyze", "fpdus", "tshark", "tshark-plain", "floor"),
    help="What to run; -jobs is with --jobs 2. Default: all but those.",
)
@click.option("--repeat", type=click.IntRange(1), default=3, show_default=True, help="Rounds.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--cache",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(tempfile.gettempdir()) / "scapy-mpa-benchmark",
    help="Folder for the captures. Default: one in the folder for temporary files.",
)
@click.option("--format", "style", type=click.Choice(["table", "md", "json"]), default="table", show_default=True)
@click.option("--make", is_flag=True, help="Only make the captures and print their names.")
@click.option("--craft", is_flag=True, help="Only measure how fast captures are made.")
@click.option("--aims", "wants_aims", is_flag=True, help="Only measure what is aimed at, and say whether it is met.")
@click.option(
    "--part", "parts", multiple=True, type=click.Choice(list(PARTS)), help="Only this part of --aims. May be repeated."
)
@click.option("--update", is_flag=True, help="With --aims: write the tables into docs/performance.md too.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the capture of one scenario to this file.",
)
def main(
    size: int,
    scenarios: tuple[str, ...],
    names: tuple[str, ...],
    repeat: int,
    seed: int,
    cache: Path,
    style: str,
    make: bool,
    craft: bool,
    wants_aims: bool,
    parts: tuple[str, ...],
    update: bool,
    write: Path | None,
) -> None:
    """Measure scapy-mpa against tshark and against the floor, on captures made for the purpose."""
    chosen = scenarios or tuple(SCENARIOS)
    if write:
        if len(chosen) != 1:
            raise click.UsageError("--write takes one scenario (-s)")
        write_capture(chosen[0], write, size, seed)
        return
    if craft:
        from scripts.dev.benchmark_craft import print_table as print_craft_table

        print_craft_table(size)
        return
    cache.mkdir(parents=True, exist_ok=True)
    if wants_aims or parts:
        with tempfile.TemporaryDirectory(dir=cache) as name:
            print_aims(parts or tuple(PARTS), bench_in(cache, Path(name), size, repeat, seed), update)
        return
    if not make and any(name.startswith("tshark") for name in names) and not shutil.which("tshark"):
        click.echo("tshark is not installed: its rows and the ratios to it are left out", err=True)
    report = []
    failed = False
    for scenario in chosen:
        capture = cached_capture(scenario, cache, size, seed)
        if make:
            click.echo(capture.path)
            continue
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            results = measure(capture, list(names), repeat, Path(folder))
        failed |= any(result.failure for result in results)
        if style == "json":
            report.append(as_json(capture, results))
        else:
            print_table(capture, results, style)
    if report:
        click.echo(json.dumps(report, indent=2))
    sys.exit(failed)


if __name__ == "__main__":
    main()
