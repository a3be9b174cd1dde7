#!/usr/bin/env python3
"""Hand mutated captures to the analysis, as many as wanted: no traceback, no hang, no memory above the limits.

    python -m scripts.dev.fuzz_captures --count 100000             # from the first one on
    python -m scripts.dev.fuzz_captures --number 4711 --write x    # the 4711th alone, kept as x
    python -m scripts.dev.fuzz_captures --count 1000000 --jobs 2 --keep failed/

Case N of a seed is the same on every machine. Each is a window of a shipped or crafted capture under up to eight
mutations (tests/hostile/mutate.py), written as pcap or pcapng and perhaps damaged as a file (tests/hostile/files.py).
What must hold of each is in tests/hostile/examine.py. Progress goes to stderr; the last line, on stdout, is JSON.
"""

from __future__ import annotations

import random
import sys
import traceback
from contextlib import suppress
from functools import partial
from pathlib import Path

import click

from scapy_mpa.craft.changes.draws import pick
from tests.hostile.examine import Examined
from tests.hostile.files import FILE_MUTATIONS, LAYOUTS, Case, Made, drawn
from tests.hostile.hunt import Failure, Tally, hunt, judged
from tests.hostile.mutate import MUTATIONS
from tests.hostile.samples import samples


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
    """True if there is a sender in these cases that deviates, or that other startup frames make one that does."""
    may_be_others = len(cases) > 1 or any(name == "splice" for one in cases for name, _ in one.mutations)
    named = {name for names in deviations for name in names.split("+")}
    return may_be_others or named <= _BY_OTHER_FLAGS or any(one.sample.startswith("faulty") for one in cases)


def run(seed: int, number: int, *, timed: bool = True) -> Tally:
    """Make one case and examine it; its time too, if ``timed``."""
    try:
        made = captures_of(seed, number)
    except Exception:  # noqa: BLE001 - a mutation's own fault, which ends no long run
        return Tally(1, failures=(Failure(number, traceback.format_exc(limit=-8)),))

    def check(examined: Examined) -> None:
        if examined.deviations and not _may_deviate(cases_of(seed, number), examined.deviations):
            raise AssertionError(f"a sender that does not deviate is said to: {', '.join(examined.deviations)}")

    return judged(number, [one.octets for one in made], sum(one.size for one in made), timed=timed, check=check)


@click.command()
@click.option("--count", type=click.IntRange(1), default=10_000, show_default=True, help="How many captures.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="The number of the first.")
@click.option("--number", type=click.IntRange(0), help="Only this one.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--untimed", is_flag=True, help="However long each takes: for what makes everything slower.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the captures that fail.")
@click.option("--write", type=click.Path(path_type=Path), help="Write the capture of --number to this file.")
def main(
    count: int,
    seed: int,
    first: int,
    number: int | None,
    jobs: int,
    untimed: bool,
    keep: Path | None,
    write: Path | None,
) -> None:
    """Hand mutated captures to the analysis."""
    numbers = range(first, first + count) if number is None else range(number, number + 1)
    if number is not None:
        click.echo(case(seed, number), err=True)
        if write is not None:
            write.write_bytes(captures_of(seed, number)[0].octets)
    examined = partial(run, seed, timed=not untimed)
    sys.exit(hunt(examined, numbers, jobs, {"seed": seed}, lambda failure: _report(seed, failure, keep)))


def _report(seed: int, failure: Failure, keep: Path | None) -> None:
    click.echo(f"case {failure.number} of seed {seed}: {case(seed, failure.number)}\n{failure.why}", err=True)
    if keep is None:
        return
    keep.mkdir(parents=True, exist_ok=True)
    (keep / f"{seed}-{failure.number}.txt").write_text(failure.why)
    with suppress(Exception):  # there are no captures if it was they that could not be made
        for index, made in enumerate(captures_of(seed, failure.number)):
            (keep / f"{seed}-{failure.number}-{index}.pcap").write_bytes(made.octets)


if __name__ == "__main__":
    main()
