"""Peers to be tested, in this process: our own endpoints, right or wrong on purpose, and plain sockets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.startup import EnhancedData
from scapy_mpa.live.driver import LiveSession, TalkSettings
from scapy_mpa.live.rdmap import RDMAPEndpoint
from scapy_mpa.live.recording import Recording
from scapy_mpa.live.script import Item, Script, speech, step_items
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.live.speaker import Listening, Speaker
from scapy_mpa.live.telling import Telling
from scapy_mpa.probe.aim import Live
from scapy_mpa.probe.breaking import Breaking
from scapy_mpa.probe.carrier import Acceptor, Carrier, Connector
from scapy_mpa.probe.exchange import Terms
from scapy_mpa.probe.run import ProbeRun, Result, RunSettings
from scapy_mpa.probe.target import Responder

#: Makes the upper layer of a connection.
Upper: TypeAlias = "Callable[[RDMAPEndpoint], Speaker]"
HOST = "127.0.0.1"
#: Two cores may be busy with something else.
TIMEOUT = 1.0
#: There are Tagged Offsets before it, and behind it.
BUFFER = (0x1000, 1 << 20, 1 << 16)
TERMS = Terms(TIMEOUT, live=Live(*BUFFER))
#: As `listen` answers who knows RFC 6581.
_ANSWER = EnhancedData(a=0, b=1, c=1, d=1, ird=8, ord=8)


def _settings(role: str, breaking: Breaking | None, **endpoint: Any) -> TalkSettings:
    settings = EndpointSettings(enhanced=_ANSWER if role == "responder" else None, rdmap=True, emss=65483)
    if breaking is not None:
        settings = replace(settings, **breaking.settings, wrong=breaking)
    settings = replace(settings, **endpoint)
    return TalkSettings(settings, buffers=(BUFFER,), timeout=6.0, linger=0.2)


@contextmanager
def our_responder(broken: str = "", upper: Upper | None = None, **endpoint: Any) -> Iterator[Responder]:
    """Our own Responder, as `listen` is, wrong in this way if one is named, with this upper layer."""
    breaking = Breaking(broken, "responder") if broken else None
    settings = _settings("responder", breaking, **endpoint)
    items = breaking.items() if breaking is not None else None

    def speaker(rdmap: Any) -> Any:
        if upper is not None:
            return upper(rdmap)
        return Listening() if items is None else Script(rdmap, items, ends=False)

    session = LiveSession(settings, speaker, Telling(), Recording())
    loop = asyncio.new_event_loop()
    port: list[int] = []
    stands = threading.Event()

    def ready(_host: str, number: int) -> None:
        port.append(number)
        stands.set()

    async def whole() -> None:
        with suppress(asyncio.CancelledError):
            await session.listen(HOST, 0, ready=ready)

    task: list[asyncio.Task[None]] = []

    def run() -> None:
        asyncio.set_event_loop(loop)
        task.append(loop.create_task(whole()))
        loop.run_until_complete(task[0])
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    assert stands.wait(20)
    target = Responder(Connector(HOST, port[0], TIMEOUT), patience=1.0)
    try:
        yield target
    finally:
        target.close()
        loop.call_soon_threadsafe(task[0].cancel)
        thread.join(20)


class OurInitiator:
    """Our own Initiator, as `connect` is: a thread for each connection."""

    role: Any = "initiator"

    def __init__(self, acceptor: Acceptor, broken: str = "", upper: Upper | None = None, **endpoint: Any) -> None:
        self._acceptor = acceptor
        self._upper = upper or (lambda rdmap: Script(rdmap, self._items(), wait=4.0))
        self._breaking = Breaking(broken, "initiator") if broken else None
        self._settings = _settings("initiator", self._breaking, **endpoint)
        self._thread: threading.Thread | None = None

    def _items(self) -> list[Item]:
        items = self._breaking.items() if self._breaking is not None else None
        return [*step_items("send 30", "initiator", speech())] if items is None else items

    def connection(self, _case: object = None) -> Carrier:
        def connect() -> None:
            session = LiveSession(self._settings, self._upper, Telling(), Recording())
            with suppress(MPAError):
                asyncio.run(session.connect(HOST, self._acceptor.port))

        self._thread = threading.Thread(target=connect)
        self._thread.start()
        return self._acceptor.accept(20)

    def restart(self) -> bool:
        return False

    def is_back(self, works: Callable[[], bool]) -> bool:
        return works()

    def done(self) -> None:
        if self._thread is not None:
            self._thread.join(20)
            self._thread = None

    def close(self) -> None:
        self.done()


@contextmanager
def our_initiator(broken: str = "", upper: Upper | None = None, **endpoint: Any) -> Iterator[OurInitiator]:
    """Our own Initiator, wrong in this way if one is named, with this upper layer."""
    with Acceptor(HOST, 0, TIMEOUT) as acceptor:
        target = OurInitiator(acceptor, broken, upper, **endpoint)
        try:
            yield target
        finally:
            target.close()


def run_of(target: Any, cases: Any, settings: RunSettings | None = None) -> list[Result]:
    """All results of a run."""
    return [*ProbeRun(target, settings or RunSettings(TERMS)).results(cases)]


@contextmanager
def plain_server(serve: Callable[[socket.socket, int], bool]) -> Iterator[int]:
    """A server of plain sockets that is handed each connection and its number, until it says that it is over."""
    listener = socket.create_server((HOST, 0))

    def run() -> None:
        number = 0
        while True:
            try:
                sock = listener.accept()[0]
            except OSError:
                return
            sock.settimeout(5)
            with sock:
                goes_on = True
                with suppress(OSError):
                    goes_on = serve(sock, number)
            number += 1
            if not goes_on:
                break
        listener.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(20)
