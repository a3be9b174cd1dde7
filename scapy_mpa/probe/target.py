"""The peer that is tested: a Responder that is connected to, or an Initiator that is started and waited for."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import DEVNULL
from tempfile import TemporaryFile
from typing import IO, Protocol

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role
from scapy_mpa.probe.carrier import Acceptor, Carrier, NotReached
from scapy_mpa.probe.case import ProbeCase
from scapy_mpa.system.names import printable
from scapy_mpa.system.programs import Program

#: What stands for the port in a command.
PORT = "{port}"
_POLL = 0.05
#: A peer that died may come back badly, a machine that crashed above all: it is restarted this often.
_RESTARTS = 3
#: Octets of a program's standard error that are examined.
_LAST_WORDS = 1024


class Connects(Protocol):
    """Makes connections to a Responder."""

    def connect(self, case: ProbeCase | None = None) -> Carrier:
        """A new connection, which may begin as the case has it; raises NotReached."""


class Target(Protocol):
    """The peer under test."""

    @property
    def role(self) -> Role:
        """The peer's."""

    def connection(self, case: ProbeCase | None = None) -> Carrier:
        """A new TCP connection with it, for a case; raises NotReached."""

    def restart(self) -> bool:
        """Have it started again; whether that can be done."""

    def is_back(self, works: Callable[[], bool]) -> bool:
        """Wait for it, as long as is sensible; whether ``works`` came true."""

    def done(self) -> None:
        """A connection is over."""

    def close(self) -> None:
        """Release everything that was started."""


class Responder:
    """A peer that listens.

    Args:
        connector: connects to it.
        restart: a command that brings it back, None if there is none.
        patience: seconds in which it has to be back.
        boot: seconds that the command may take before the peer is tried; less if it ends. A host that boots may be
            upset by connections that come too early, and an old one may answer them.
    """

    role: Role = "responder"

    def __init__(
        self, connector: Connects, restart: str | None = None, patience: float = 10.0, boot: float = 0.0
    ) -> None:
        self._connector = connector
        self._boot = boot
        self._command = words(restart) if restart is not None else None
        self._patience = patience
        self._program: Program | None = None

    def connection(self, case: ProbeCase | None = None) -> Carrier:
        """Connect."""
        return self._connector.connect(case)

    def restart(self) -> bool:
        """Run the command; one that keeps running is the peer itself, and is ended before the next."""
        if self._command is None:
            return False
        self.close()
        self._program = start(self._command)
        self._program.wait(self._boot)
        return True

    def is_back(self, works: Callable[[], bool]) -> bool:
        """Try again and again."""
        until = time.monotonic() + self._patience
        while not works():
            if time.monotonic() >= until:
                return False
            time.sleep(_POLL)
        return True

    def done(self) -> None:
        """Do nothing: it keeps running."""

    def close(self) -> None:
        """End what was started."""
        if self._program is not None:
            self._program.end()
            self._program = None


class Initiator:
    """A peer that connects: a command that is run for each connection, or somebody who runs it by hand.

    Args:
        acceptor: where it connects to.
        run: the command, with ``{port}`` for the port; None: by hand.
        patience: seconds in which it has to connect.
        restart: a command that brings back what it needs.
        boot: seconds in which that has to end; 0: those in which the peer has to connect.
    """

    role: Role = "initiator"

    def __init__(
        self,
        acceptor: Acceptor,
        run: str | None = None,
        patience: float = 10.0,
        restart: str | None = None,
        boot: float = 0.0,
    ) -> None:
        self._acceptor = acceptor
        self._run = words(run, acceptor.port) if run is not None else None
        self._restart = words(restart, acceptor.port) if restart is not None else None
        self._patience = patience
        self._boot = boot or patience
        self._program: Program | None = None
        #: What the program writes to its standard error.
        self._errors: IO[bytes] | None = None

    def connection(self, case: ProbeCase | None = None) -> Carrier:
        """Have it connect, and take the connection."""
        if self._run is not None:
            self._acceptor.forget()
            try:
                self._errors = TemporaryFile()  # noqa: SIM115 - done() closes it
                self._program = start(self._run, self._errors)
            except (MPAError, OSError) as error:
                self.done()
                raise MPAError(str(error)) from None
        until = time.monotonic() + self._patience
        while True:
            left = until - time.monotonic()
            try:
                return self._acceptor.accept(max(0.001, min(left, 0.1)) if self._program is not None else left)
            except NotReached:
                status = self._program.status if self._program is not None else None
                if status is not None:
                    said = self._last_words()
                    self.done()
                    how = f"ended with status {status}" if status else "ended, and did not connect"
                    raise NotReached(f"{printable(self._run[0])} {how}{said}") from None  # type: ignore[index]
                if time.monotonic() >= until:
                    self.done()
                    raise NotReached(
                        f"{self._acceptor}: no Initiator connected for {self._patience:g} seconds"
                    ) from None

    def _last_words(self) -> str:
        """The last line that the program wrote to its standard error."""
        if self._errors is None:
            return ""
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_WORDS))
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {printable(last)}" if last else ""

    def restart(self) -> bool:
        """Run the command to its end."""
        if self._restart is None:
            return False
        program = start(self._restart)
        try:
            program.wait(self._boot)
        finally:
            program.end()
        return True

    def is_back(self, works: Callable[[], bool]) -> bool:
        """Try a second time."""
        return works() or works()

    def done(self) -> None:
        """End the program of this connection."""
        if self._program is not None:
            self._program.end()
            self._program = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None

    def close(self) -> None:
        """The same."""
        self.done()


def brings_back(target: Target, works: Callable[[], bool]) -> bool:
    """Start a peer again until ``works`` is true, a few times at most; whether it came true."""
    return any(target.is_back(works) for _ in range(_RESTARTS) if target.restart())


def words(command: str, port: int = 0) -> list[str]:
    """The words of a command, without a shell; raises MPAError if it has none."""
    try:
        found = shlex.split(command)
    except ValueError as error:
        raise MPAError(f"the command {printable(command)!r} cannot be parsed: {error}") from None
    if not found:
        raise MPAError("the command is empty")
    return [word.replace(PORT, str(port)) for word in found]


def start(command: list[str], errors: IO[bytes] | None = None) -> Program:
    """Start a program, whose standard error goes to a file if there is one; raises MPAError."""
    try:
        return Program(command, stdout=DEVNULL, stderr=DEVNULL if errors is None else errors)
    except OSError as error:
        raise MPAError(f"{printable(command[0])}: {error.strerror or error}") from None


@contextmanager
def closing(target: Target) -> Iterator[Target]:
    """Whatever happens, nothing that was started stays."""
    try:
        yield target
    finally:
        target.close()
