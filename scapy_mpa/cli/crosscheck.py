"""``scapy-mpa crosscheck``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

import click

from scapy_mpa.cli.colours import console_for
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.options import Reading, hides, reads_captures, warn_of_damage
from scapy_mpa.cli.progress import StepProgress, end_progress
from scapy_mpa.cli.types import Word
from scapy_mpa.system.names import printable

if TYPE_CHECKING:
    from rich.console import Console

    from scapy_mpa.wireshark.crosscheck import CrossCheck


@hides("connections", "direction", "ports", "hosts", "frames", "read_frames", "since", "until", "protocols")
@click.command("crosscheck", cls=Command)
@reads_captures
@click.option("--format", "output_format", type=Word(("text", "json")), default="text", show_default=True)
def crosscheck_command(reading: Reading, output_format: Literal["text", "json"]) -> int:
    """Compare every startup frame and FPDU with what Wireshark finds.

    Each difference is listed with the known limitation of Wireshark that explains it. Exit status: 1 if there is a
    difference that nothing explains. Needs tshark and pyshark.

    In Python, scapy_mpa.enrich yields the packets of a pyshark.FileCapture, each with the FPDUs of its frame.
    """
    from scapy_mpa.wireshark.crosscheck import crosscheck

    if len(reading.captures) > 1:
        raise click.UsageError("crosscheck takes one capture; merge several first (mergecap)")
    (capture,) = reading.captures
    if reading.filters:
        raise click.UsageError("crosscheck compares a whole capture; extract one connection first")
    progress = StepProgress("frame")
    result = crosscheck(
        capture,
        assumptions=reading.query.assumptions,
        limits=reading.query.limits,
        esp=reading.query.sources.esp,
        udp_ports=reading.query.sources.udp_ports,
        progress=progress.step,
    )
    progress.end()
    end_progress()
    if output_format == "json":
        click.echo(json.dumps(result.as_dict(), indent=2))
    else:
        click.echo(_table(result), nl=False)
    warn_of_damage(result.report.damage)
    if result.failure is not None:
        print_line(f"scapy-mpa: {printable(capture)}: {printable(result.failure)}", err=True)
    return 1 if result.unexplained else 0


def _table(result: CrossCheck) -> str:
    """Return the text table. rich does not print it itself: on a closed stdout it would exit with 1."""
    console = console_for()
    with console.capture() as printed:
        _print(result, console)
    return printed.get()


def _print(result: CrossCheck, console: Console) -> None:
    from rich.table import Table

    from scapy_mpa.wireshark.limits import LIMITS

    console.print(
        f"FPDUs: {result.ours} found by us, {result.wireshark} by Wireshark {result.version}, {result.agreed} agreed; "
        f"startup frames: {result.startup_ours}, {result.startup_wireshark}, {result.startup_agreed}",
        soft_wrap=True,
    )
    if result.not_compared:
        console.print(f"not compared, because tshark lacks the field: {', '.join(result.not_compared)}", soft_wrap=True)
    if not result.counts:
        console.print("no difference")
        return
    table = Table("difference", "number", "first frame", "explained by")
    for kind, limit, count, first in result.groups():
        why = "UNEXPLAINED: " + _values(first.ours, first.wireshark) if limit is None else f"{limit}: {LIMITS[limit]}"
        table.add_row(kind, str(count), str(first.frame), why)
    console.print(table)
    console.print(f"{result.unexplained} unexplained")


def _values(ours: str | None, theirs: str | None) -> str:
    return f"ours {ours or 'none'}, Wireshark's {theirs or 'none'}"
