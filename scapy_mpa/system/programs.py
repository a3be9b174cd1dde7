"""Other programs: started here, and never running on when this one has ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import DEVNULL, Popen, TimeoutExpired
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


class Program:
    """A program that runs beside this one until it is ended here; nothing outlives the command.

    Raises OSError if it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, stdout: Any, stderr: Any) -> None:
        with undisturbed():
            self._process = Popen(command, stdin=DEVNULL, stdout=stdout, stderr=stderr)
            self._forget = kill_at_end(self._process)

    @property
    def status(self) -> int | None:
        """Its exit status; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> None:
        """Let it run for so long at most."""
        try:
            self._process.wait(seconds)
        except TimeoutExpired:
            return

    def end(self, patience: float = 0.2) -> None:
        """Have it end, by SIGTERM and then by SIGKILL; its streams are closed."""
        process = self._process
        if process.poll() is None:
            process.terminate()
            self.wait(patience)
        if process.poll() is None:
            process.kill()
        with process:
            process.wait()
        self._forget()
