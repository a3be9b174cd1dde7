"""Other programs: started here, and never running on when this one has ended."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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


class _Group(Popen[bytes]):
    """A program and all that it started: signals go to the group, which may outlive the program."""

    def send_signal(self, sig: int) -> None:
        """Send it to all of them."""
        if not hasattr(os, "killpg"):
            super().send_signal(sig)
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, sig)


class Program:
    """A program that runs beside this one until it is ended here; nothing outlives the command.

    Raises OSError if it cannot be started.
    """

    def __init__(self, command: Sequence[str], *, stdout: Any, stderr: Any) -> None:
        with undisturbed():
            # A group of its own: a shell that is ended would leave what it has started.
            self._process = _Group(command, stdin=DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True)
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
        """Have it end, by SIGTERM and then by SIGKILL, with all that it started; its streams are closed.

        What a program that has ended by itself left running is left: that may be a server.
        """
        process = self._process
        if process.poll() is None:
            process.terminate()
            self.wait(patience)
            process.kill()  # what it started may go on
        with process:
            process.wait()
        self._forget()
