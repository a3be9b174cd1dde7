"""How often the interpreter looks for reference cycles, and frees them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_USUAL = gc.get_threshold()
_MANY = 5_000_000
#: Not empty in a command that reads captures and ends.
_COMMAND: list[bool] = []


def look_seldom() -> None:
    """For commands that read captures.

    Segments live as long as their block of the capture and form no cycles, nor does what is left of a connection that
    is over: looking for some, every few hundred, would cost a third of the time.
    """
    gc.set_threshold(_MANY)
    _COMMAND.append(True)


def goes_with_process() -> bool:
    """Return True if this is a command that ends soon: what is left then need not be freed before, which takes time."""
    return bool(_COMMAND)


def leave(what: object) -> None:
    """Have something go with the process: what refers to itself is freed only by a search for cycles."""
    ring = [what]
    ring.append(ring)


def look_often() -> None:
    """For commands that run as long as somebody lets them: each live connection, each case leaves a few cycles."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
    _COMMAND.clear()


class _Raised:
    """The threshold of this process while somebody reads a capture, in whatever threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._readers = 0
        self._before = _USUAL

    def begin(self) -> None:
        """Note one more reader: the first one raises the threshold, unless it is higher, or zero (never look)."""
        with self._lock:
            self._readers += 1
            if self._readers == 1:
                self._before = gc.get_threshold()
                if 0 < self._before[0] < _MANY:
                    gc.set_threshold(_MANY, *self._before[1:])

    def end(self) -> None:
        """Note one reader less: the last one restores the threshold, unless somebody else has set it since."""
        with self._lock:
            self._readers -= 1
            if not self._readers and gc.get_threshold()[0] == _MANY:
                gc.set_threshold(*self._before)


_RAISED = _Raised()


@contextmanager
def looking_seldom() -> Iterator[None]:
    """Do what :func:`look_seldom` does for a while: for functions that read captures, in any program.

    Contexts may be within one another, and in several threads: the threshold is put back when the last one ends.
    """
    _RAISED.begin()
    try:
        yield
    finally:
        _RAISED.end()
