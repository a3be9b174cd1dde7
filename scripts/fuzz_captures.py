#!/usr/bin/env python3
"""Hand mutated captures to the analysis, as many as wanted: no traceback, no hang, no memory above the limits.

    python -m scripts.fuzz_captures --count 100000             # from the first one on
    python -m scripts.fuzz_captures --number 4711 --write x    # the 4711th alone, kept as x
    python -m scripts.fuzz_captures --count 1000000 --jobs 2 --keep failed/

Case N of a seed is the same on every machine.  Each is a window of a shipped or crafted capture under up to eight
mutations (tests/hostile/mutate.py), written as pcap or pcapng and perhaps damaged as a file (tests/hostile/files.py).
What must hold of each is in tests/hostile/examine.py.  Progress goes to stderr; the last line, on stdout, is JSON.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import random
import resource
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import click

from scapy_mpa.fuzz.draw import pick
from scapy_mpa.receive.assumptions import NOTHING, Assumptions
from scapy_mpa.receive.limits import DEFAULT_LIMITS
from tests.hostile.examine import TIGHT, Examined, examine, memory_allowed, memory_taken, seconds_allowed
from tests.hostile.files import FILE_MUTATIONS, LAYOUTS, Case, Made, drawn
from tests.hostile.mutate import MUTATIONS
from tests.hostile.samples import samples

#: Numbers a process takes at a time.
_CHUNK = 250
#: Every so many cases memory is measured, which takes ten times as long.
_MEMORY_EVERY = 500
#: Every so many cases there is a line, where there is no terminal.
_LINE_EVERY = 10_000
#: What takes more than so much of the time allowed is measured again.
_SUSPECT = 0.1
_ASSUMPTIONS = (
    Assumptions("culley-02"),
    Assumptions(markers="both", crc=True),
    Assumptions(markers="none", crc=False),
    Assumptions("rddp-01", markers="initiator"),
)


class Failure(NamedTuple):
    """A case that failed: its number and why."""

    number: int
    why: str


class Tally(NamedTuple):
    """What some cases came to; ``slowest`` is (seconds per 100 kB, number)."""

    cases: int = 0
    octets: int = 0
    packets: int = 0
    connections: int = 0
    fpdus: int = 0
    refused: int = 0
    slowest: tuple[float, int] = (0.0, 0)
    memory: float = 0.0
    rss: int = 0
    failures: tuple[Failure, ...] = ()

    def add(self, other: Tally) -> Tally:
        """Both together."""
        return Tally(
            self.cases + other.cases,
            self.octets + other.octets,
            self.packets + other.packets,
            self.connections + other.connections,
            self.fpdus + other.fpdus,
            self.refused + other.refused,
            max(self.slowest, other.slowest),
            max(self.memory, other.memory),
            max(self.rss, other.rss),
            self.failures + other.failures,
        )


def case(seed: int, number: int) -> Case:
    """One case."""
    rng = random.Random(f"{seed}:{number}")
    return Case(
        pick(rng, samples()).name,
        rng.getrandbits(32),
        drawn(tuple(MUTATIONS), rng, 8),
        pick(rng, LAYOUTS),
        drawn(tuple(FILE_MUTATIONS), rng, 2),
    )


def cases_of(seed: int, number: int) -> list[Case]:
    """The case itself, and now and then another, to be merged with it."""
    numbers = (number, number - 1) if number % 16 == 1 and number > 1 else (number,)
    return [case(seed, one) for one in numbers]


def captures_of(seed: int, number: int) -> list[Made]:
    """The captures of a case."""
    return [one.made() for one in cases_of(seed, number)]


#: What a sender does that keeps to M and C as they were before a mutation changed them.
_BY_OTHER_FLAGS = {
    "markers-left-out",
    "markers-not-asked",
    "markers-from-startup-frame",
    "markers-from-syn",
    "crc-zero",
}


def _may_deviate(cases: list[Case], deviations: frozenset[str]) -> bool:
    """Whether there is a sender in these cases that deviates, or that other startup frames make one that does."""
    may_be_others = len(cases) > 1 or any(name == "splice" for one in cases for name, _ in one.mutations)
    named = {name for names in deviations for name in names.split("+")}
    return may_be_others or named <= _BY_OTHER_FLAGS or any(one.sample.startswith("faulty") for one in cases)


def run(seed: int, number: int, *, timed: bool = True) -> Tally:
    """Examine one case; its time too, if ``timed``."""
    made = captures_of(seed, number)
    octets = [one.octets for one in made]
    size = sum(one.size for one in made)

    def once() -> Examined:
        return examine(
            octets,
            limits=TIGHT if number % 8 == 3 else DEFAULT_LIMITS,
            assumptions=_ASSUMPTIONS[number // 8 % len(_ASSUMPTIONS)] if number % 8 == 5 else NOTHING,
            octets_again=number % 8 == 7,
        )

    memory = 0.0
    try:
        examined = once()
        if timed and examined.seconds > _SUSPECT * seconds_allowed(size):
            gc.collect()
            # The machine may have been busy with something else.
            examined = min(examined, once(), once())
        if examined.deviations and not _may_deviate(cases_of(seed, number), examined.deviations):
            raise AssertionError(f"a sender that does not deviate is said to: {', '.join(examined.deviations)}")
        if timed and examined.seconds > seconds_allowed(size):
            raise TimeoutError(f"{examined.seconds:.3f} s for {size} octets")
        if number % _MEMORY_EVERY == 0:
            taken = memory_taken(octets)
            memory = taken / memory_allowed(size)
            if memory > 1:
                raise MemoryError(f"{taken} octets of memory for {size}")
    except Exception:  # noqa: BLE001 - whatever it is, it is what is looked for
        return Tally(1, size, failures=(Failure(number, traceback.format_exc(limit=-8)),))
    rate = examined.seconds / max(size, 1) * 100_000
    return Tally(
        1,
        size,
        examined.packets,
        examined.connections,
        examined.fpdus,
        int(examined.refused),
        (round(rate, 4), number) if size > 2000 else (0.0, 0),
        memory,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    )


def _chunk(what: tuple[int, range]) -> Tally:
    seed, numbers = what
    tally = Tally()
    for number in numbers:
        tally = tally.add(run(seed, number))
    return tally


def _tallies(seed: int, numbers: range, jobs: int) -> Iterator[Tally]:
    chunks = [(seed, numbers[at : at + _CHUNK]) for at in range(0, len(numbers), _CHUNK)]
    if jobs == 1:
        yield from map(_chunk, chunks)
        return
    with multiprocessing.Pool(jobs) as pool:
        yield from pool.imap_unordered(_chunk, chunks)


def _watched(tallies: Iterable[Tally], count: int) -> Iterator[Tally]:
    """The same, with a bar on a terminal, else with a line now and then."""
    if not sys.stderr.isatty():
        done = 0
        for tally in tallies:
            yield tally
            done += tally.cases
            if done % _LINE_EVERY < tally.cases:
                click.echo(f"{done} of {count} captures", err=True)
        return
    from rich.console import Console
    from rich.progress import Progress, TimeRemainingColumn

    with Progress(*Progress.get_default_columns()[:3], TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("captures", total=count)
        for tally in tallies:
            yield tally
            bar.advance(task, tally.cases)


@click.command()
@click.option("--count", type=click.IntRange(1), default=10_000, show_default=True, help="How many captures.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="The number of the first.")
@click.option("--number", type=click.IntRange(0), help="Only this one.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the captures that fail.")
@click.option("--write", type=click.Path(path_type=Path), help="Write the capture of --number to this file.")
def main(
    count: int, seed: int, first: int, number: int | None, jobs: int, keep: Path | None, write: Path | None
) -> None:
    """Hand mutated captures to the analysis."""
    numbers = range(first, first + count) if number is None else range(number, number + 1)
    if number is not None:
        click.echo(case(seed, number), err=True)
        if write is not None:
            write.write_bytes(captures_of(seed, number)[0].octets)
    began = time.monotonic()
    total = Tally()
    with ExitStack() as stack:
        tallies = _tallies(seed, numbers, jobs)
        stack.callback(getattr(tallies, "close", lambda: None))
        for tally in _watched(tallies, len(numbers)):
            total = total.add(tally)
            for failure in tally.failures:
                _report(seed, failure, keep)
    seconds = time.monotonic() - began
    summary = {
        "seed": seed,
        "first": numbers[0],
        **total._asdict(),
        "failures": len(total.failures),
        "slowest": {"seconds_per_100_kB": total.slowest[0], "number": total.slowest[1]},
        "memory": round(total.memory, 3),
        "seconds": round(seconds, 1),
        "captures_per_second": round(total.cases / seconds, 1),
    }
    click.echo(json.dumps(summary))
    sys.exit(bool(total.failures))


def _report(seed: int, failure: Failure, keep: Path | None) -> None:
    click.echo(f"case {failure.number} of seed {seed}: {case(seed, failure.number)}\n{failure.why}", err=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        for index, made in enumerate(captures_of(seed, failure.number)):
            (keep / f"{seed}-{failure.number}-{index}.pcap").write_bytes(made.octets)
        (keep / f"{seed}-{failure.number}.txt").write_text(failure.why)


if __name__ == "__main__":
    main()
