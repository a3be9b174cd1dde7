"""Live connections over loopback: both sides in one process, or one side against a peer made of plain sockets."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scapy_mpa.live.driver import LiveConnection, LiveSession, MakeSpeaker, TalkSettings
from scapy_mpa.live.recording import Recording
from scapy_mpa.live.telling import Telling
from tests.conftest import REPO

HOST = "127.0.0.1"


class Side:
    """A session with its log, its lines and its recording."""

    def __init__(self, settings: TalkSettings, speaker: MakeSpeaker, capture: Path | None = None) -> None:
        self.lines: list[str] = []
        self.log: list[dict[str, Any]] = []
        self._file = capture.open("wb") if capture is not None else None
        telling = Telling(self.lines.append, lambda line: self.log.append(json.loads(line)))
        self.session = LiveSession(settings, speaker, telling, Recording(self._file))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def events(self, name: str) -> list[dict[str, Any]]:
        return [event for event in self.log if event["event"] == name]


def both(initiator: Side, responder: Side, count: int = 1) -> list[LiveConnection]:
    """Have ``count`` connections at once; returns the Initiators'."""

    async def whole() -> list[LiveConnection]:
        port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        listening = asyncio.ensure_future(
            responder.session.listen(HOST, 0, count=count, ready=lambda _, number: port.set_result(number))
        )
        number = await port
        made = await asyncio.gather(*(initiator.session.connect(HOST, number) for _ in range(count)))
        await listening
        return made

    try:
        return asyncio.run(asyncio.wait_for(whole(), 120))
    finally:
        initiator.close()
        responder.close()


def against_client(responder: Side, client: Callable[[socket.socket], None], count: int = 1) -> None:
    """Listen for ``count`` clients of plain sockets, one after the other in a thread."""
    failed: list[Exception] = []

    def run(port: int) -> None:
        try:
            for _ in range(count):
                with socket.create_connection((HOST, port), timeout=20) as sock:
                    client(sock)
        except (OSError, AssertionError) as error:
            failed.append(error)

    async def whole() -> None:
        threads: list[threading.Thread] = []

        def ready(_host: str, port: int) -> None:
            threads.append(threading.Thread(target=run, args=(port,)))
            threads[0].start()

        await responder.session.listen(HOST, 0, count=count, ready=ready)
        threads[0].join(20)

    try:
        asyncio.run(asyncio.wait_for(whole(), 300))
    finally:
        responder.close()
    if failed:
        raise failed[0]


@contextmanager
def server(serve: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server of plain sockets for one connection; yields its port."""
    listener = socket.create_server((HOST, 0))
    listener.settimeout(20)

    def run() -> None:
        try:
            sock = listener.accept()[0]
        except OSError:
            return
        sock.settimeout(20)
        with sock:
            serve(sock)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()
        thread.join(20)


def read_to_end(sock: socket.socket) -> bytes:
    """All that comes; a reset ends it too."""
    octets = bytearray()
    while True:
        try:
            more = sock.recv(65536)
        except ConnectionResetError:
            return bytes(octets)
        if not more:
            return bytes(octets)
        octets += more


def command(*arguments: str, **others: Any) -> subprocess.Popen[str]:
    """The command, started."""
    return subprocess.Popen(
        [sys.executable, "-m", "scapy_mpa", *arguments],
        stdin=others.pop("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPO,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        **others,
    )


@contextmanager
def listening(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """``listen`` as a process, on any port; it is killed at the end if it has not ended."""
    process = command("listen", "0", *arguments)
    assert process.stderr is not None
    try:
        found = re.search(r"listening on .*:(\d+)", process.stderr.readline())
        assert found is not None
        yield process, int(found[1])
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def finished(process: subprocess.Popen[str], timeout: float = 60) -> tuple[int, str, str]:
    """Status, standard output, standard error."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out, err


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """The same after Ctrl-C."""
    process.send_signal(signal.SIGINT)
    return finished(process)


def peak(process: subprocess.Popen[str]) -> int:
    """Octets of memory that a process had at most."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024
