"""Other programs: started here, and never running on when this one has ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any

from scapy_mpa.system.ending import kill_at_end, undisturbed

#: Seconds after which it is looked again whether something has ended.
_POLL = 0.01


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
        """Send it to all of them; to nobody once the program has ended: its number may be another's by then."""
        if self.poll() is None and hasattr(os, "killpg"):
            self.send_to_group(sig)
        else:
            super().send_signal(sig)

    def send_to_group(self, sig: int) -> bool:
        """Send it to whatever is left of the group; whether there was anything."""
        try:
            os.killpg(self.pid, sig)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class Program:
    """A program that runs beside this one until it is ended here; nothing outlives the command.

    It has a session of its own, and so no terminal: it cannot ask for a password.  Raises OSError if it cannot be
    started.
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
        """Let it run for at most this long."""
        try:
            self._process.wait(seconds)
        except TimeoutExpired:
            return

    def end(self, patience: float = 0.2) -> None:
        """Have it end, by SIGTERM and then by SIGKILL, with all that it started; its streams are closed.

        What a program that ended on its own left running is not stopped: that may be a server.
        """
        process = self._process
        if process.poll() is None:
            process.terminate()
            self.wait(patience)
            self._end_group(patience)
        with process:
            process.wait()
        self._forget()

    def _end_group(self, patience: float) -> None:
        """End what is left of the group, which has had SIGTERM: of the program itself, and of what it started."""
        process = self._process
        if not hasattr(os, "killpg"):
            process.kill()
            return
        until = time.monotonic() + patience
        while process.send_to_group(0) and time.monotonic() < until:
            process.poll()  # while nobody has asked for its status, it is there
            time.sleep(_POLL)
        process.send_to_group(signal.SIGKILL)
