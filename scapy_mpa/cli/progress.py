"""Progress on a terminal, on stderr, of what takes more than two seconds: the octets of captures, or steps.

Nothing is shown where stderr is no terminal, or one that cannot go back in a line (``TERM=dumb``). While captures are
read, nobody counts: a thread that sleeps for two seconds looks from time to time how far the files are read, as the
system has it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING

from scapy_mpa.cli.colours import allows_colours

if TYPE_CHECKING:
    from rich.progress import Progress

#: Seconds before anything is shown, and between two examines the files.
_PATIENCE, _INTERVAL = 2.0, 0.25
#: What a process has open, as Linux shows it.
_OPEN, _STATE = "/proc/self/fd", "/proc/self/fdinfo"


def shows_progress() -> bool:
    """Return True if stderr is a terminal on which a line can be rewritten."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


def _progress(*, octets: bool) -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        DownloadColumn(binary_units=False) if octets else MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True, no_color=not allows_colours() or None, highlight=False),
        transient=True,
    )


class ReadingProgress:
    """Counts the octets of captures that have been read; must be ended before anything is printed."""

    def __init__(self, captures: Iterable[str]) -> None:
        self._sizes: dict[str, int] = {}
        self._is_over = Event()
        self._thread: Thread | None = None
        if not shows_progress() or not os.path.isdir(_STATE):
            return
        for capture in captures:
            with suppress(OSError, ValueError):
                if os.path.isfile(capture):
                    self._sizes[os.path.realpath(capture)] = os.path.getsize(capture)
        if self._sizes:
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Have what is shown disappear."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _show(self) -> None:
        if self._is_over.wait(_PATIENCE):
            return
        total = sum(self._sizes.values())
        done = dict.fromkeys(self._sizes, 0)
        done |= _positions(self._sizes)
        with _progress(octets=True) as progress:
            task = progress.add_task("reading", total=total, completed=sum(done.values()))
            while not self._is_over.wait(_INTERVAL):
                there = _positions(self._sizes)
                # One after the other: those that are no longer open, before one that is, were read to their end.
                last = max((at for at, name in enumerate(done) if name in there), default=-1)
                for at, name in enumerate(done):
                    if name in there:
                        done[name] = there[name]
                    elif at < last or done[name]:
                        done[name] = self._sizes[name]
                now = sum(done.values())
                if now < progress.tasks[0].completed:
                    progress.reset(task, total=total, description="reading again")
                progress.update(task, completed=min(now, total))


def _positions(sizes: dict[str, int]) -> dict[str, int]:
    """Return how far each of the open files has been read."""
    found: dict[str, int] = {}
    with suppress(OSError):
        for number in os.listdir(_OPEN):
            with suppress(OSError, ValueError, IndexError):
                name = os.readlink(f"{_OPEN}/{number}")
                if name in sizes:
                    with open(f"{_STATE}/{number}") as state:
                        position = int(state.readline().split()[1])
                    found[name] = max(found.get(name, 0), position)
    return found


_reading: list[ReadingProgress] = []


@contextmanager
def progress_of(captures: Iterable[str]) -> Iterator[None]:
    """Show how far the captures are read, until something is printed or the block is left."""
    reading = ReadingProgress(captures)
    _reading.append(reading)
    try:
        yield
    finally:
        _reading.remove(reading)
        reading.end()


def end_progress() -> None:
    """Whatever is shown disappears: something is about to be printed."""
    for reading in _reading:
        reading.end()


class StepProgress:
    """Counts completed steps; shown once they have taken two seconds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begins = monotonic() + _PATIENCE
        self._shows = shows_progress()
        self._progress: Progress | None = None

    def step(self, done: int, total: int, what: str = "") -> None:
        """Show that ``done`` steps are done; ``what`` was the last."""
        if not self._shows or monotonic() < self._begins:
            return
        said = f"{self._what} {what}".rstrip()
        if self._progress is None:
            end_progress()
            self._progress = _progress(octets=False)
            self._progress.add_task(said, total=total)
            self._progress.start()
        self._progress.update(self._progress.task_ids[0], completed=done, total=total, description=said)

    def end(self) -> None:
        """Have what is shown disappear."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None
