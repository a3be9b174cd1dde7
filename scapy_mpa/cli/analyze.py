"""``scapy-mpa analyze``."""

from __future__ import annotations

import json
from typing import Literal

import click

from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.options import Reading, divides_work, reads_captures, warn_of_damage
from scapy_mpa.report.text import report_lines

_COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}


@click.command("analyze")
@reads_captures
@divides_work
@click.option("--format", "output_format", type=click.Choice(("text", "json")), default="text", show_default=True)
@judges
def analyze_command(reading: Reading, judging: Judging, output_format: Literal["text", "json"], jobs: int) -> int:
    """Show every MPA connection of the captures and what is wrong with it.

    Several captures are merged by time; - is standard input.
    """
    report = reading.analyze(fpdus=False, jobs=jobs)
    reading.select(report)
    judging.select(report)
    if output_format == "json":
        click.echo(json.dumps(report.as_dict(reading.directions), indent=2))
    else:
        for line in report_lines(report, _style):
            click.echo(line)
    warn_of_damage(report.damage)
    return judging.status(report)


def _style(severity: str, text: str) -> str:
    return click.style(text, fg=_COLOURS[severity])
