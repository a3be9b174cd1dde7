"""``scapy-mpa analyze``."""

from __future__ import annotations

import json
from typing import Literal

import click

from scapy_mpa.cli.options import directions, reads_captures, select, selection, warn_of_damage
from scapy_mpa.receive.operation import Direction
from scapy_mpa.report.analysis import analyze
from scapy_mpa.report.text import report_lines

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command("analyze")
@reads_captures
@click.option("--format", "output_format", type=click.Choice(("text", "json")), default="text", show_default=True)
def analyze_command(
    captures: tuple[str, ...],
    connection: int | None,
    direction: Direction | None,
    ports: tuple[int, ...],
    frames: tuple[int, int | None] | None,
    output_format: Literal["text", "json"],
) -> int:
    """Show every MPA connection of the captures and what is wrong with it.

    Several captures are merged by time; - is standard input.
    """
    report = analyze(list(captures), fpdus=False, selection=selection(ports, frames))
    shown = directions(direction)
    select(report, connection, shown)
    if output_format == "json":
        click.echo(json.dumps(report.as_dict(shown), indent=2))
    else:
        for line in report_lines(report, _style):
            click.echo(line)
    warn_of_damage(report)
    return 1 if report.has_errors else 0


def _style(severity: str, text: str) -> str:
    return click.style(text, fg=_COLOURS[severity])
