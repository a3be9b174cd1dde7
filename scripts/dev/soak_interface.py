#!/usr/bin/env python3
"""Have ``fpdus -i lo`` follow very many connections of ``connect`` and ``listen``, and watch its memory.

    python -m scripts.dev.soak_interface                        # 50,000 connections, two million packets
    python -m scripts.dev.soak_interface --connections 5000

Reading an interface takes root, or CAP_NET_RAW. Nothing is sent but over loopback. Every FPDU is counted against what
was sent; the table has the memory of ``fpdus`` after each tenth of the connections. Exit status: 0 if every FPDU was
listed, 1 if not.
"""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import click

_HOST = "127.0.0.1"
_COMMAND = (sys.executable, "-m", "scapy_mpa")
#: Of a turn of ``connect``.
_SENDS, _TURNS = 30, 10
#: Seconds until what was sent has been listed.
_PATIENCE = 60.0


def memory(process: subprocess.Popen[bytes]) -> int:
    """Octets that a process has in memory now."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (kilobytes,) = re.findall(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    return int(kilobytes) << 10


def packets() -> int:
    """Return how many packets have passed the loopback interface."""
    (count,) = re.findall(r"^ *lo:\s*\d+\s+(\d+)", Path("/proc/net/dev").read_text(), re.MULTILINE)
    return int(count)


class Listed:
    """Counts the lines that a process prints, and keeps none."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.lines = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for _ in self._process.stdout:
            self.lines += 1

    def wait(self, count: int) -> None:
        """Until there are so many, or patience is at its end."""
        until = time.monotonic() + _PATIENCE
        while self.lines < count and time.monotonic() < until:
            time.sleep(0.2)

    def end(self) -> None:
        """Until the process has closed its output."""
        self._thread.join(_PATIENCE)


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of ours, which is interrupted at the end."""
    with subprocess.Popen((*_COMMAND, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_PATIENCE)


def scenario(connections: int) -> str:
    """A scenario of this many connections in which the Initiator sends some messages."""
    say = ", ".join(['"initiator send 100"'] * _SENDS)
    return 'title = "soak"\n' + f"[[connection]]\nsay = [{say}]\n" * connections


@click.command()
@click.option("--connections", type=click.IntRange(_TURNS), default=50_000, show_default=True)
@click.option("--port", type=click.IntRange(1, 65535), default=7471, show_default=True)
def main(connections: int, port: int) -> None:
    """Have `fpdus -i lo` follow very many connections, and watch its memory."""
    each = connections // _TURNS
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, running("listen", str(port), "-q"):
        (turn := Path(folder, "turn.toml")).write_text(scenario(each))
        follow = subprocess.Popen(
            (*_COMMAND, "fpdus", "-i", "lo", "--port", str(port), "--format", "jsonl"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        listed = Listed(follow)
        time.sleep(2)
        before = packets()
        click.echo("connections  FPDUs sent     listed     memory")
        for number in range(1, _TURNS + 1):
            talk = (
                *_COMMAND,
                "connect",
                _HOST,
                str(port),
                "--scenario",
                str(turn),
                "-q",
                "--wait",
                "0",
                "--retry",
                "20",
            )
            subprocess.run(talk, stdout=subprocess.DEVNULL, check=True)
            sent = number * each * _SENDS
            listed.wait(sent)
            click.echo(f"{number * each:11,} {sent:11,} {listed.lines:10,} {memory(follow) / 1e6:7.1f} MB")
        follow.send_signal(signal.SIGINT)
        listed.end()
        said = follow.stderr.read().decode() if follow.stderr is not None else ""
        follow.wait(_PATIENCE)
    came = packets() - before
    click.echo(f"{came:,} packets in {time.monotonic() - start:.0f} s; {said.strip() or 'nothing on standard error'}")
    sys.exit(listed.lines != sent)


if __name__ == "__main__":
    main()
