#!/usr/bin/env python3
"""Hand the cases of ``scapy-mpa fuzz`` to the analysis, or to tshark: no traceback, no hang, no crash.

    python -m scripts.dev.fuzz_cases --count 100000 --jobs 2 --keep failed/
    python -m scripts.dev.fuzz_cases --number 4711                 # one case: what was changed, and what comes of it
    python -m scripts.dev.fuzz_cases --tshark --count 2000 --keep failed/

Seed and number determine a case, as the command prints it. What must hold of our analysis is in
tests/hostile/examine.py; of tshark, that it ends, in time, without a signal, a failed assertion or a dissector's bug.
A case that fails is made smaller: mutations that are not needed are left out. Progress goes to stderr; the last line,
on stdout, is JSON.
"""

from __future__ import annotations

import io
import json
import sys
import traceback
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import click

from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.case import FuzzCase, make
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.fuzz.writing import write_capture
from tests.hostile.crashes import crash_of, tshark_cases
from tests.hostile.hunt import Failure, Tally, hunt, judged

#: A sender in doubt is tried by every deviation that is known, which takes its time however little it sent.
_FEWEST_OCTETS = 6000


@cache
def fuzzer(seed: int, captures: tuple[str, ...] = ()) -> Fuzzer:
    """All cases of a seed, which begin from captures, if there are any."""
    return Fuzzer(seed, baselines(captures=captures))


def capture_of(case: FuzzCase) -> bytes:
    """The capture of one case."""
    file = io.BytesIO()
    write_capture(file, [case])
    return file.getvalue()


def run(seed: int, captures: tuple[str, ...], number: int, *, timed: bool = True) -> Tally:
    """Make one case and examine it; its time too, if ``timed``."""
    try:
        case = fuzzer(seed, captures).case(number)
    except Exception:  # noqa: BLE001 - the fuzzer's own fault, which ends no long run
        return Tally(1, failures=(Failure(number, traceback.format_exc(limit=-8)),))
    return judged_case(case, timed=timed)


def judged_case(case: FuzzCase, *, timed: bool = True) -> Tally:
    """The same, for a case that was made."""
    octets = capture_of(case)
    return judged(case.recipe.case, [octets], len(octets), timed=timed, fewest=_FEWEST_OCTETS)


def smaller(case: FuzzCase, fails: Callable[[FuzzCase], bool] | None = None) -> FuzzCase:
    """The case without the mutations that it fails without."""
    again = fails or _fails
    index = 0
    while index < len(case.recipe.mutations):
        mutations = case.recipe.mutations[:index] + case.recipe.mutations[index + 1 :]
        tried = make(case.recipe._replace(mutations=mutations))
        if again(tried):
            case = tried
        else:
            index += 1
    return case


def _fails(case: FuzzCase) -> bool:
    return bool(judged_case(case, timed=False).failures)


def _keep(case: FuzzCase, why: str, keep: Path | None) -> None:
    """Report a case that failed, and keep it."""
    name = f"{case.recipe.seed}-{case.recipe.case}"
    click.echo(f"case {name}: {json.dumps(case.as_dict())}\n{why}", err=True)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"case-{name}.pcap").write_bytes(capture_of(case))
        (keep / f"case-{name}.txt").write_text(f"{json.dumps(case.as_dict())}\n{why}\n")


def _report(seed: int, captures: tuple[str, ...], keep: Path | None, failure: Failure) -> None:
    try:
        case = fuzzer(seed, captures).case(failure.number)
    except Exception:  # noqa: BLE001 - that is what failed
        click.echo(f"case {seed}-{failure.number} cannot be made\n{failure.why}", err=True)
    else:
        _keep(smaller(case), failure.why, keep)


def _hunt_tshark(seed: int, captures: tuple[str, ...], numbers: range, keep: Path | None) -> bool:
    """Return True if tshark crashes by any of these."""
    cases = map(fuzzer(seed, captures).case, numbers)
    found = 0
    for case, why in tshark_cases(cases, capture_of):
        found += 1
        _keep(smaller(case, _crashes), why, keep)
    click.echo(json.dumps({"seed": seed, "first": numbers[0], "cases": len(numbers), "tshark_crashes": found}))
    return bool(found)


def _crashes(case: FuzzCase) -> bool:
    return crash_of(capture_of(case)) is not None


@click.command()
@click.option("--count", type=click.IntRange(1), default=10_000, show_default=True, help="How many cases.")
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--first", type=click.IntRange(0), default=0, help="The number of the first.")
@click.option("--number", type=click.IntRange(0), help="Only this one.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--keep", type=click.Path(path_type=Path), help="A folder for the captures that fail.")
@click.option("--from", "captures", multiple=True, type=click.Path(exists=True), help="Begin from this capture.")
@click.option("--tshark", is_flag=True, help="Hand them to tshark in place of the analysis.")
def main(
    count: int,
    seed: int,
    first: int,
    number: int | None,
    jobs: int,
    keep: Path | None,
    captures: tuple[str, ...],
    tshark: bool,
) -> None:
    """Hand the cases of ``scapy-mpa fuzz`` to the analysis, or to tshark."""
    numbers = range(first, first + count) if number is None else range(number, number + 1)
    if number is not None:
        click.echo(json.dumps(fuzzer(seed, captures).case(number).as_dict()), err=True)
    if tshark:
        sys.exit(_hunt_tshark(seed, captures, numbers, keep))
    report = partial(_report, seed, captures, keep)
    sys.exit(hunt(partial(run, seed, captures), numbers, jobs, {"seed": seed}, report))


if __name__ == "__main__":
    main()
