"""Other programs: started here, and never running on when this one has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import DEVNULL, Popen
from typing import Any

from scapy_mpa.system.ending import kill_at_end, undisturbed


@contextmanager
def started(command: Sequence[str], *, stdout: Any, stderr: Any) -> Iterator[Popen[bytes]]:
    """A program that reads nothing; it is waited for at the end, and killed if that comes by an exception or a signal.

    Raises OSError if it cannot be started.
    """
    with undisturbed():
        process = Popen(command, stdin=DEVNULL, stdout=stdout, stderr=stderr)
        forget = kill_at_end(process)
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        forget()
