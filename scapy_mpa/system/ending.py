"""How the command ends when a signal ends it: nothing temporary that it made or started stays.

Python turns SIGINT into an exception that may come between any two steps: after a file was made, and before anybody
knew its name; in a destructor, where it is lost. So nothing is left to exceptions here. What is to go is written down
before it is there, and a signal's handler, which runs between two steps, removes it and ends the process. What cannot
be written down before (a program has no number until it runs) is done by :func:`undisturbed`, which has signals wait.

Without :func:`ends_orderly`, in whose program ever this is a library, signals are that program's business, and what is
to go is removed as exceptions pass.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType
from typing import Any, Protocol

#: The signals that end the command, where the system has them.
ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
#: What is added to a signal's number for the exit status, as shells have it.
STATUS = 128

#: What a signal does where nobody has said anything else; one that is ignored (nohup) stays so.
_USUAL = (signal.SIG_DFL, signal.default_int_handler)


class Killable(Protocol):
    """A process that was started: of :mod:`subprocess` or of :mod:`multiprocessing`."""

    @property
    def pid(self) -> int | None:
        """Its number; None before it was started."""

    def kill(self) -> None:
        """End it at once; nothing if it has ended."""


class _Ending:
    """What must go when the command is ended, and whether a signal has to wait."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.files: set[str] = set()
        self.processes: set[Killable] = set()
        #: Signals that this took over, with what they did before.
        self.taken: dict[int, Any] = {}
        self._waiting: int | None = None
        self._undisturbed = 0

    def take(self, number: int, _frame: FrameType | None) -> None:
        """End the process, now or as soon as it may be disturbed."""
        if self._undisturbed:
            self._waiting = number
        else:
            self._end(number)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Have signals wait."""
        self._undisturbed += 1
        try:
            yield
        finally:
            self._undisturbed -= 1
            if self._waiting is not None and not self._undisturbed:
                self._end(self._waiting)

    def _end(self, number: int) -> None:
        taken = [*self.taken]
        for one in taken:
            signal.signal(one, signal.SIG_IGN)
        for process in [*self.processes]:
            with suppress(Exception):
                process.kill()
        for name in [*self.files]:
            with suppress(OSError):
                os.unlink(name)
        for one in taken:  # what follows may take its time: a second signal does not wait for that
            signal.signal(one, signal.SIG_DFL)
        for process in [*self.processes]:
            # Not by its own method: that may be under way, and hold a lock.
            with suppress(OSError):
                os.waitpid(process.pid or os.getpid(), 0)
        if number == signal.SIGINT:
            # Whoever presses Ctrl-C wants what was found; it may be that stdout was being written.
            with suppress(Exception):
                sys.stdout.flush()
        os._exit(STATUS + number)

    def forget(self) -> None:
        """Forget everything in a forked process: nothing here is its own."""
        taken = self.taken
        self._begin()
        for number, handler in taken.items():
            signal.signal(number, handler)


_ENDING = _Ending()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ENDING.forget)


@contextmanager
def ends_orderly() -> Iterator[None]:
    """Have the signals that end the command remove what is to go, and end it with status 128 and their number.

    That is only done in the main thread, for signals that nobody else sees to. Standard output is written to its end if
    the signal is SIGINT.
    """
    mine = [number for number in ENDING if signal.getsignal(number) in _USUAL and number not in _ENDING.taken]
    try:
        for number in mine:
            _ENDING.taken[number] = signal.signal(number, _ENDING.take)
    except ValueError:  # not the main thread
        _ENDING.taken.pop(number, None)
        mine = []
    try:
        yield
    finally:
        for number in mine:
            signal.signal(number, _ENDING.taken.pop(number))


@contextmanager
def usual_signals() -> Iterator[None]:
    """Have signals do what they did before :func:`ends_orderly`: for what has a use for them, such as a prompt."""
    taken = _ENDING.taken.copy()
    for number, handler in taken.items():
        signal.signal(number, handler)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, _ENDING.take)


@contextmanager
def noting_interrupt() -> Iterator[Callable[[], bool]]:
    """Have Ctrl-C only be noted, once: for a run that ends itself, with what it has found so far.

    Yields whether there was one. A second Ctrl-C does what the first would have done. Nothing is noted outside the main
    thread, or where the signal is ignored.
    """
    noted: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        signal.signal(number, before)

    try:
        if before in (None, signal.SIG_IGN):
            raise ValueError
        signal.signal(signal.SIGINT, note)
    except ValueError:
        yield lambda: False
        return
    try:
        yield lambda: bool(noted)
    finally:
        signal.signal(signal.SIGINT, before)


def undisturbed() -> AbstractContextManager[None]:
    """A context in which a signal that would end the command waits: for steps that belong together, and are short."""
    return _ENDING.undisturbed()


def remove_at_end(name: str) -> Callable[[], None]:
    """Have a file of this name, there or not, removed if a signal ends the command; returns what calls that off."""
    _ENDING.files.add(name)
    return lambda: _ENDING.files.discard(name)


def kill_at_end(process: Killable) -> Callable[[], None]:
    """Have a process killed if a signal ends the command; returns what calls that off."""
    _ENDING.processes.add(process)
    return lambda: _ENDING.processes.discard(process)
