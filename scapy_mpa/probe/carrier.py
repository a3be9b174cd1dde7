"""Carriers: they take the steps of a script to the peer, and return what the peer sends.

``Carrier`` is all that the rest of this package knows of a network.  ``KernelTCP`` is a socket, with each segment of a
script written as a record of its own, so that it is sent as one where TCP can.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

from scapy_mpa.errors import MPAError
from scapy_mpa.probe.script import BareOctets, Finish, Send

_MSG_EOR = getattr(socket, "MSG_EOR", 0)
_AT_ONCE = 1 << 16
#: Linux: how many octets the peer has not acknowledged (tcp(7)).
_SIOCOUTQ = 0x5411
#: What TCP takes where the system does not say it.
_USUAL_MSS = 1460


class NotReached(MPAError):
    """There is no TCP connection to the peer."""


class NotTaken(OSError):
    """The peer has stopped reading: octets could not be sent in time, and the connection stands.

    Attributes:
        left: how many.
    """

    def __init__(self, left: int, seconds: float) -> None:
        super().__init__(f"{left} octets could not be sent in {seconds:g} s")
        self.left = left


class Carrier(Protocol):
    """One established TCP connection to the peer."""

    @property
    def addresses(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Address and port of our end, and of the peer's."""

    @property
    def mss(self) -> int:
        """Octets that a segment takes."""

    def send(self, step: Send | BareOctets) -> None:
        """Have a segment sent.

        Raises NotTaken if it can be known that the peer does not read, and OSError if the connection is over.
        """

    def finish(self, step: Finish) -> None:
        """End the half connection, or the connection."""

    def receive(self, seconds: float) -> bytes | None:
        """Return what arrives within this many seconds: octets, b"" for a FIN, None for nothing; raises OSError for a
        RST.
        """

    def unacknowledged(self) -> int | None:
        """Octets of ours that the peer has not acknowledged; None if that is not known."""

    def close(self) -> None:
        """Release it."""


class KernelTCP:
    """A connected socket."""

    def __init__(self, sock: socket.socket, timeout: float) -> None:
        self._sock = sock
        self._timeout = timeout
        self._is_reset = False
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._addresses = (sock.getsockname()[:2], sock.getpeername()[:2])
        except OSError:
            # It was reset before anybody looked; what is asked of it next says so.
            self._addresses = (("0.0.0.0", 0), ("0.0.0.0", 0))

    @property
    def addresses(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Address and port of our end, and of the peer's."""
        return self._addresses

    @property
    def mss(self) -> int:
        """Octets that a segment takes."""
        with suppress(OSError):
            return self._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) or _USUAL_MSS
        return _USUAL_MSS

    def send(self, step: Send | BareOctets) -> None:
        """Write the octets, as one record; raises NotTaken, and OSError."""
        until = time.monotonic() + self._timeout
        view = memoryview(step.octets)
        while view:
            left = until - time.monotonic()
            if left <= 0:
                raise NotTaken(len(view), self._timeout)
            self._sock.settimeout(left)
            try:
                view = view[self._sock.send(view, _MSG_EOR) :]
            except TimeoutError as error:
                # What the kernel gave up on raises the same exception, with a number.
                if error.errno is not None:
                    raise

    def finish(self, step: Finish) -> None:
        """FIN, or RST."""
        if step.how == "fin":
            with suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
        else:
            self._is_reset = True
            with suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._sock.close()

    def receive(self, seconds: float) -> bytes | None:
        """Return what arrives."""
        if self._is_reset:
            return b""
        self._sock.settimeout(max(seconds, 1e-6))
        try:
            return self._sock.recv(_AT_ONCE)
        except TimeoutError as error:
            # What the kernel gave up on raises the same exception, with a number.
            if error.errno is not None:
                raise
            return None

    def unacknowledged(self) -> int | None:
        """Return how many of our octets the kernel still holds."""
        if not sys.platform.startswith("linux") or self._is_reset:
            return None
        import fcntl

        with suppress(OSError):
            return int(struct.unpack("i", fcntl.ioctl(self._sock, _SIOCOUTQ, bytes(4)))[0])
        return None

    def close(self) -> None:
        """Close the socket."""
        self._sock.close()


class Connector:
    """Makes connections to a Responder."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._host, self._port = host, port
        self._timeout = timeout

    def __str__(self) -> str:
        return f"{self._host}:{self._port}"

    def connect(self, _case: object = None) -> KernelTCP:
        """A new connection, the same for every case; raises NotReached."""
        try:
            sock = socket.create_connection((self._host, self._port), timeout=max(self._timeout, 1.0))
        except OSError as error:
            raise NotReached(f"{self}: {_why(error)}") from None
        return KernelTCP(sock, self._timeout)


class Acceptor:
    """Waits for an Initiator that connects; a context that has the port as long as it is entered.

    Raises NotReached if the port cannot be taken.
    """

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._timeout = timeout
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._listener = socket.create_server(found[0][4][:2], family=found[0][0], backlog=16)
        except OSError as error:
            raise NotReached(f"{host}:{port}: {_why(error)}") from None
        self.host, self.port = self._listener.getsockname()[:2]

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def __enter__(self) -> Acceptor:
        return self

    def __exit__(self, *_error: object) -> None:
        self._listener.close()

    def forget(self) -> None:
        """Drop connections that wait and belong to nobody."""
        for sock in self._waiting():
            sock.close()

    def _waiting(self) -> Iterator[socket.socket]:
        self._listener.settimeout(0)
        with suppress(OSError):
            while True:
                yield self._listener.accept()[0]

    def accept(self, seconds: float) -> KernelTCP:
        """The next connection; raises NotReached if none comes within this many seconds."""
        self._listener.settimeout(seconds)
        try:
            return KernelTCP(self._listener.accept()[0], self._timeout)
        except OSError as error:
            why = f"no Initiator connected for {seconds:g} seconds" if isinstance(error, TimeoutError) else _why(error)
            raise NotReached(f"{self}: {why}") from None


def _why(error: OSError) -> str:
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)
