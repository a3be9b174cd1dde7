#!/usr/bin/env python3
"""Run ``connect`` and ``listen`` against rping over a real Linux siw, both ways, and print a table of what came of it.

    python -m scripts.dev.siw_interop --guest 'ssh root@192.0.2.2' --address 192.0.2.2 --ours 192.0.2.1 --keep talks
    python -m scripts.dev.siw_interop ... --module mpa_crc_required --module peer_to_peer --boot CMD --halt CMD

``--guest`` is a command that runs a shell command on the host with siw, which is its last argument. ``--boot`` and
``--halt`` are shell commands that start and end that host, if it is a virtual machine. It needs rping (rdma-core's
rdmacm-utils) and ``timeout``. ``--module`` says which constants of its driver are set, by which the runs differ.
Each run has an rping of its own, and is recorded in the folder ``--keep``: its capture, which is analysed, and its log.
Exit status: 0 if all went as expected, 1 if not. docs/interop.md has the table.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click
from rich import box
from rich.console import Console
from rich.table import Table

from scapy_mpa import analyze
from scapy_mpa.errors import CaptureError

#: Seconds in which an rping has to listen, and for which one may run.
_READY, _PATIENCE = 30, 300
#: Of the table, in characters.
_WIDTH = 240
COLUMNS = ("ours", "rping", "summary", "agreed", "errors found", "seconds", "as expected")


class Run(NamedTuple):
    """One conversation.

    Attributes:
        ours: options of ``connect``, or of ``listen`` where rping is the client.
        rping: options of rping.
        expects: a regular expression for our summary of the connection.
        command: ours.
        needs: constants of the driver that are set; ``without``: that are not.
    """

    ours: str
    rping: str
    expects: str
    command: str = "connect"
    needs: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()


def _rping(count: int, options: str = "", size: int = 64, needs: frozenset[str] = frozenset()) -> Run:
    """``connect`` completes iterations with ``rping -s``."""
    sized = "" if size == 64 else f" --size {size}"
    expects = f"^rping: {count} iterations of {size} octets$"
    theirs = "" if size == 64 else f"-S {size}"
    return Run(f"--count {count}{sized} {options}".strip(), theirs, expects, needs=needs)


def _served(
    count: int,
    options: str = "",
    size: int = 64,
    needs: frozenset[str] = frozenset(),
    without: frozenset[str] = frozenset(),
) -> Run:
    """``listen`` completes iterations with ``rping -c``."""
    theirs = f"-C {count}" + ("" if size == 64 else f" -S {size}")
    return Run(options, theirs, f"^rping: {count} iterations as the server$", "listen", needs, without)


_PEERS, _CRC = frozenset(("peer_to_peer",)), frozenset(("mpa_crc_required",))
RUNS = (
    _rping(100),
    _rping(100, "--no-crc"),
    _rping(160, size=65535),
    _rping(160, "--no-crc", size=65535),
    _rping(10, "--private-data hello"),
    _rping(10, f"--private-data hex:{'5a' * 252}"),
    Run(f"--count 1 --private-data hex:{'5a' * 508}", "", "FIN before a Reply"),
    _rping(100, "--peer-to-peer --rtr write", needs=_PEERS),
    _rping(100, "--peer-to-peer --rtr read", needs=_PEERS),
    Run("--count 1 --markers", "", "rejects the connection"),
    Run("--count 1 --rev 1", "", "closed the connection before all was said", without=_PEERS),
    _served(100),
    _served(100, "--no-crc", without=_CRC),
    # Its Request has C, so that CRC is in use whatever the Reply says; siw closes.
    Run("--no-crc", "-C 1", "^rping: 0 iterations", "listen", needs=_CRC),
    _served(160, size=65535),
    _served(160, "--no-crc", size=65535, without=_CRC),
    _served(10, "--private-data hello"),
    _served(100, "--rtr write", needs=_PEERS),
    _served(100, "--rtr read", needs=_PEERS),
    Run("--rtr send", "-C 1", "CRC mismatch", "listen", needs=_PEERS | _CRC),
    Run("--reject", "-C 1", "^rejected$", "listen"),
)


class Site(NamedTuple):
    """Where both sides are: see the options."""

    guest: tuple[str, ...]
    address: str
    reach: str
    port: int
    our_port: int
    ours: str
    bind: str
    settle: float


class Outcome(NamedTuple):
    """The outcome of a run."""

    summary: str
    agreed: str
    errors: str
    seconds: float


def on_guest(site: Site, command: str) -> subprocess.Popen[str]:
    """A shell command on the host with siw, started."""
    return subprocess.Popen([*site.guest, command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def listens(site: Site) -> bool:
    """Return True if somebody listens on the port there (state 0A, the port in hexadecimal)."""
    asked = on_guest(site, f"grep -q ':{site.port:04X} [0-9A-F:]* 0A' /proc/net/tcp /proc/net/tcp6 && echo listens")
    return "listens" in asked.communicate(timeout=_PATIENCE)[0]


@contextmanager
def rping_server(site: Site, options: str) -> Iterator[None]:
    """``rping -s`` for one connection."""
    process = on_guest(site, f"timeout {_PATIENCE} rping -s -a {site.address} -p {site.port} {options}")
    until = time.monotonic() + _READY
    try:
        while not listens(site):
            if process.poll() is not None or time.monotonic() > until:
                raise click.ClickException("rping -s does not listen")
        yield
    finally:
        # What still waits for something ends now, and the port is free for the next one.
        on_guest(site, "pkill -x rping; while pgrep -x rping > /dev/null; do sleep 0.1; done").communicate()
        process.communicate(timeout=_PATIENCE)


def talk(site: Site, run: Run, folder: Path) -> Outcome:
    """One run; its capture and log are written to the folder."""
    capture, log = folder / "talk.pcapng", folder / "talk.jsonl"
    command = [sys.executable, "-m", "scapy_mpa", run.command]
    kept = ["--ulp", "rping", "-q", "--write", str(capture), "--log", str(log), *shlex.split(run.ours)]
    began = time.monotonic()
    if run.command == "connect":
        host, _, port = site.reach.rpartition(":")
        with rping_server(site, run.rping):
            began = time.monotonic()
            ours = [*command, host, port, "--settle", str(site.settle), *kept]
            done = subprocess.run(ours, capture_output=True, text=True, timeout=_PATIENCE, check=False)
            out, err = done.stdout, done.stderr
    else:
        ours = [*command, site.bind, str(site.our_port), "--count", "1", *kept]
        with subprocess.Popen(ours, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            err = process.stderr.readline()
            client = on_guest(site, f"timeout {_PATIENCE} rping -c -a {site.ours} -p {site.our_port} {run.rping}")
            try:
                out, more = process.communicate(timeout=_PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                out, more = process.communicate()
            err += more
            client.communicate(timeout=_PATIENCE)
    seconds = time.monotonic() - began
    found = re.search(r"^0 (?!connections)(.*)$", out, re.MULTILINE)
    if not found:
        raise click.ClickException(f"{' '.join(ours)}: {err or out}")
    return Outcome(found[1], agreed_in(log), errors_in(capture), seconds)


def agreed_in(log: Path) -> str:
    """Return what both sides agreed on, by the log."""
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "established":
            said = [event["profile"], "CRC" if event["crc"] else "no CRC"]
            said += [f"RTR {event['rtr']}"] if event["rtr"] else []
            said += [f"{len(event['private_data']) // 2} octets of Private Data"] if event["private_data"] else []
            return ", ".join(said)
    return "nothing"


def errors_in(capture: Path) -> str:
    """The findings of severity error in a recording."""
    try:
        report = analyze(str(capture))
    except CaptureError as error:
        return str(error)
    found = [finding for one in report.connections for finding in one.findings]
    return ", ".join(sorted({one.rule.id for one in found if one.severity == "error"})) or "none"


@contextmanager
def booted(boot: str | None, halt: str | None) -> Iterator[None]:
    """Have the host run."""
    try:
        if boot is not None:
            subprocess.run(boot, shell=True, check=True, stdout=sys.stderr)
        yield
    finally:
        if halt is not None:
            subprocess.run(halt, shell=True, check=False, stdout=sys.stderr)


@click.command()
@click.option("--guest", required=True, metavar="COMMAND", help="Runs a shell command on the host with siw.")
@click.option("--address", required=True, help="The address of siw's interface there.")
@click.option("--ours", required=True, help="Our address, as that host sees it.")
@click.option("--port", type=click.IntRange(1, 65535), default=7471, show_default=True, help="Of rping -s.")
@click.option("--our-port", type=click.IntRange(1, 65535), help="Of listen. [default: --port]")
@click.option("--reach", metavar="HOST:PORT", help="Where that host's port is reached from here. [default: as it is]")
@click.option("--bind", help="What listen binds to. [default: --ours]")
@click.option("--settle", type=float, default=0.5, show_default=True, help="connect's --settle, in seconds.")
@click.option("--module", "modules", multiple=True, metavar="NAME", help="A constant of siw that is set there.")
@click.option("--boot", metavar="COMMAND", help="Starts that host.")
@click.option("--halt", metavar="COMMAND", help="Ends it.")
@click.option("--keep", type=click.Path(file_okay=False), help="Where captures and logs are kept.")
@click.option("--only", metavar="REGEX", default="", help="Only the runs whose options match.")
def main(
    guest: str,
    address: str,
    ours: str,
    port: int,
    our_port: int | None,
    reach: str | None,
    bind: str | None,
    settle: float,
    modules: tuple[str, ...],
    boot: str | None,
    halt: str | None,
    keep: str | None,
    only: str,
) -> None:
    """Talk to rping over a real Linux siw as both sides, and print a table of what came of it."""
    site = Site(
        guest=tuple(shlex.split(guest)),
        address=address,
        reach=reach or f"{address}:{port}",
        port=port,
        our_port=our_port or port,
        ours=ours,
        bind=bind or ours,
        settle=settle,
    )
    chosen = [run for run in RUNS if run.needs <= set(modules) and not run.without & set(modules)]
    rows = []
    with booted(boot, halt), tempfile.TemporaryDirectory() as scratch:
        for number, run in enumerate(chosen):
            name = f"{run.command} {run.ours}".strip()
            name = re.sub(r"(5a){9,}", lambda found: f"({len(found[0]) // 2} octets)", name)
            if not re.search(only, name):
                continue
            folder = Path(keep or scratch) / f"{number:02}-{run.command}"
            folder.mkdir(parents=True, exist_ok=True)
            outcome = talk(site, run, folder)
            is_fine = bool(re.search(run.expects, outcome.summary))
            theirs = f"rping -{'s' if run.command == 'connect' else 'c'} {run.rping}".strip()
            row = (name, theirs, *outcome[:3], f"{outcome.seconds:.1f}", "yes" if is_fine else "no")
            click.echo(" | ".join(row), err=True)
            rows.append(row)
    table = Table(*COLUMNS, box=box.MARKDOWN)
    for row in rows:
        table.add_row(*row)
    Console(width=_WIDTH, markup=False, highlight=False).print(table)
    sys.exit(any(row[-1] == "no" for row in rows))


if __name__ == "__main__":
    main()
