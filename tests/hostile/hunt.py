"""Many captures handed to the analysis, in several processes: what they came to, and which of them broke it.

``judged`` examines one; ``hunt`` runs numbered cases of any kind and prints what they came to.
"""

from __future__ import annotations

import gc
import json
import multiprocessing
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import click

from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS
from tests.hostile.examine import (
    FEWEST_OCTETS,
    TIGHT,
    TIGHT_IN_ALL,
    Examined,
    examine,
    memory_allowed,
    memory_taken,
    seconds_allowed,
)

#: Numbers a process takes at a time.
_CHUNK = 250
#: Every so many cases memory is measured, which takes ten times as long.
_MEMORY_EVERY = 500
#: Every so many cases there is a line, where there is no terminal.
_LINE_EVERY = 10_000
#: What takes more than so much of the time allowed is measured again.
_SUSPECT = 0.25
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
    """A tally of some cases; ``slowest`` is (seconds per 100 kB, number)."""

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


Run = Callable[[int], Tally]


def judged(
    number: int,
    octets: Sequence[bytes],
    size: int,
    *,
    timed: bool = True,
    fewest: int = FEWEST_OCTETS,
    check: Callable[[Examined], None] | None = None,
) -> Tally:
    """Examine captures of so many octets, uncompressed, merged if several; their time too, if ``timed``.

    A capture of fewer octets than ``fewest`` may take as long as one of so many. By the number some are read within
    tight limits, some as other than they are, some with the octets of each FPDU.  ``check`` raises what else must not
    be.
    """

    limits = {3: TIGHT, 11: TIGHT_IN_ALL}.get(number % 16, DEFAULT_LIMITS)

    def once() -> Examined:
        return examine(
            octets,
            limits=limits,
            assumptions=_ASSUMPTIONS[number // 8 % len(_ASSUMPTIONS)] if number % 8 == 5 else NOTHING,
            octets_again=number % 8 == 7,
        )

    # Within tight limits much is let go and looked at segment by segment.
    memory, allowed = 0.0, seconds_allowed(max(size, fewest)) * (1 if limits is DEFAULT_LIMITS else 2)
    try:
        examined = once()
        if timed and examined.seconds > _SUSPECT * allowed:
            gc.collect()
            # The machine may have been busy with something else.
            examined = min(examined, once(), once())
        if check is not None:
            check(examined)
        if timed and examined.seconds > allowed:
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


def hunt(run: Run, numbers: range, jobs: int, told: dict[str, Any], report: Callable[[Failure], None]) -> bool:
    """Run these cases, ``report`` what failed, print what they came to behind what is ``told``; whether any failed."""
    began = time.monotonic()
    total = Tally()
    with ExitStack() as stack:
        tallies = _tallies(run, numbers, jobs)
        stack.callback(getattr(tallies, "close", lambda: None))
        for tally in _watched(tallies, len(numbers)):
            total = total.add(tally)
            for failure in tally.failures:
                report(failure)
    seconds = time.monotonic() - began
    summary = {
        **told,
        "first": numbers[0],
        **total._asdict(),
        "failures": len(total.failures),
        "slowest": {"seconds_per_100_kB": total.slowest[0], "number": total.slowest[1]},
        "memory": round(total.memory, 3),
        "seconds": round(seconds, 1),
        "captures_per_second": round(total.cases / seconds, 1),
    }
    click.echo(json.dumps(summary))
    return bool(total.failures)


def _chunk(what: tuple[Run, range]) -> Tally:
    run, numbers = what
    tally = Tally()
    for number in numbers:
        tally = tally.add(run(number))
    return tally


def _tallies(run: Run, numbers: range, jobs: int) -> Iterator[Tally]:
    chunks = [(run, numbers[at : at + _CHUNK]) for at in range(0, len(numbers), _CHUNK)]
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
