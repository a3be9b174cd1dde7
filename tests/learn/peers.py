"""Peers that are learned: that of ``tests/probe/foreign.py``, with faults in its state machine, and scripted ones."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from scapy_mpa.learn.subject import LearnSettings, LearnSubject
from scapy_mpa.probe.carrier import Connector
from scapy_mpa.probe.target import Responder, Target
from tests.probe.foreign import REPLY, REQUEST, Crash, ForeignInitiator, Kind, Over, Peer, crc32c
from tests.probe.peers import HOST, plain_server

#: Short, as loopback is; a machine that is busy makes it longer.
SETTINGS = LearnSettings(silence=0.02, timeout=0.5, tests=10)
#: Enough to tell what a machine does, and quick.
FEW = ("request", "request-wrong-key", "read", "wrong-crc", "fin")


class LeavesOpen(Peer):
    """Does not close after a Request with too much Private Data."""

    def respond(self) -> None:
        try:
            super().respond()
        except Over:
            if len(self.held) > 512:
                while self.sock.recv(65536):
                    pass
            raise


class Mortal(Responder):
    """The foreign peer, which is gone after each Terminate, or the first only, until it is restarted.

    When it is gone it closes each connection. After each Request that it did not accept it is gone for a ``pause``, in
    seconds.
    """

    def __init__(self, port: int) -> None:
        super().__init__(Connector(HOST, port, SETTINGS.timeout), patience=1.0)
        self.is_gone, self.restarts, self.deaths = False, 0, 0
        self.works_from = 0.0

    def restart(self) -> bool:
        self.is_gone, self.restarts = False, self.restarts + 1
        return True


class _Dies(Peer):
    has_accepted = False

    def apply(self) -> None:
        self.has_accepted = True

    def deliver(self, queue: int, payload: bytes, ulpdu: bytes) -> None:
        if queue == 2:
            raise Crash
        super().deliver(queue, payload, ulpdu)


class MortalInitiator(ForeignInitiator):
    """The foreign Initiator, which after each Terminate sends its Request and no more, until it is restarted."""

    is_gone, restarts = False, 0

    def _connect(self) -> None:
        with suppress(OSError), socket.create_connection((HOST, self._acceptor.port), 5) as sock:
            sock.settimeout(5)
            if self.is_gone:
                sock.sendall(REQUEST + bytes((0x40, 1, 0, 0)))
                while sock.recv(1 << 16):
                    pass
            try:
                _Dies(sock, self._kind, is_responder=False).serve()
            except Crash:
                self.is_gone = True

    def restart(self) -> bool:
        self.is_gone, self.restarts = False, self.restarts + 1
        return True


@contextmanager
def mortal(*, deaths: int = 1 << 16, pause: float = 0.0) -> Iterator[Mortal]:
    """A peer that Terminates kill, so many times at most."""
    targets: list[Mortal] = []

    def serve(sock: socket.socket, _number: int) -> bool:
        (target,) = targets
        if target.is_gone or time.monotonic() < target.works_from:
            return True
        peer = _Dies(sock, Kind(), is_responder=True)
        try:
            peer.serve()
        except Crash:
            if target.deaths < deaths:
                target.is_gone, target.deaths = True, target.deaths + 1
        if not peer.has_accepted:
            target.works_from = time.monotonic() + pause
        return True

    with plain_server(serve) as port:
        targets.append(Mortal(port))
        yield targets[0]


@contextmanager
def responder(serve: Callable[[socket.socket, int], object]) -> Iterator[Responder]:
    """A Responder of plain sockets, which is handed each connection with its number."""

    def goes_on(sock: socket.socket, number: int) -> bool:
        with suppress(OSError):
            serve(sock, number)
        return True

    with plain_server(goes_on) as port:
        yield Responder(Connector(HOST, port, SETTINGS.timeout), patience=1.0)


@contextmanager
def planted(*faults: str, leaves_open: bool = False, m: int = 0) -> Iterator[Responder]:
    """The foreign peer with these faults; with ``m`` it asks for Markers."""
    kind = Kind(m=m, faults=frozenset(faults))

    def serve(sock: socket.socket, _number: int) -> None:
        (LeavesOpen if leaves_open else Peer)(sock, kind, is_responder=True).serve()

    with responder(serve) as target:
        yield target


def reply(flags: int = 0x40) -> bytes:
    """A Reply without Private Data."""
    return REPLY + bytes((flags, 1, 0, 0))


def read_response() -> bytes:
    """An FPDU with an RDMA Read Response of no octets."""
    body = struct.pack(">HBBIQ", 14, 0xC1, 0x42, 0, 0)
    return body + struct.pack("<I", crc32c(body))


def answers_late(seconds: float) -> Callable[[socket.socket, int], None]:
    """Answer a Request at once, and each FPDU after some seconds."""

    def serve(sock: socket.socket, _number: int) -> None:
        if sock.recv(65536)[:16] != b"MPA ID Req Frame":
            return
        sock.sendall(reply())
        while (octets := sock.recv(65536)) and octets[:3] != b"MPA":
            time.sleep(seconds)
            sock.sendall(read_response())
        while sock.recv(65536):
            pass  # part of an FPDU that never ends

    return serve


def answers_now_and_then(every: int) -> Callable[[socket.socket, int], None]:
    """Reject every so many connections one, and accept the others."""

    def serve(sock: socket.socket, number: int) -> None:
        if sock.recv(65536)[:16] == b"MPA ID Req Frame":
            sock.sendall(reply(0x40 if (number + 1) % every else 0x60))
            sock.recv(65536)

    return serve


def subject_of(target: Target, settings: LearnSettings = SETTINGS, inputs: tuple[str, ...] = ()) -> LearnSubject:
    """A peer to be learned, by these inputs alone if there are any; its latency has been measured."""
    subject = LearnSubject(target, settings)
    subject.inputs = inputs or subject.inputs
    assert subject.begin()
    return subject
