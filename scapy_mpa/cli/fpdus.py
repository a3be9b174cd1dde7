"""``scapy-mpa fpdus``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Literal

import click

from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.options import Reading, divides_work, reads_captures, warn_of_damage
from scapy_mpa.report.analysis import PlacedFPDUs
from scapy_mpa.report.fpdus import STYLES, lines, log_lines
from scapy_mpa.values.records import FPDURecord


@click.command("fpdus")
@reads_captures
@divides_work
@click.option(
    "--format",
    "output_format",
    type=click.Choice(tuple(STYLES)),
    default="text",
    show_default=True,
)
@click.option(
    "--order",
    type=click.Choice(("stream", "placed")),
    default="stream",
    show_default=True,
    help="By connection, direction and place in the stream; or as they are placed, while the capture is read.",
)
@judges
def fpdus_command(
    reading: Reading, judging: Judging, output_format: str, order: Literal["stream", "placed"], jobs: int
) -> int:
    """List every FPDU of the captures, one line each.

    Several captures are merged by time; - is standard input. Findings are not
    listed; the exit status tells of them.
    """
    style = STYLES[output_format]
    if order == "placed" and jobs > 1:
        raise click.UsageError("--order placed follows the capture: one process must do that, leave --jobs out")
    if order == "stream":
        report = reading.analyze(fpdus=True, jobs=jobs)
        reading.select(report)
        halves = (found.half(side) for found in report.connections for side in reading.directions)
        sys.stdout.writelines(log_lines(style, (half.fpdus for half in halves)))
    else:
        placed = reading.placed_fpdus()
        sys.stdout.writelines(lines(style, _only(placed, reading)))
        report = placed.report
        reading.select(report)
    sys.stdout.flush()
    warn_of_damage(report.damage)
    judging.select(report)
    return judging.status(report)


def _only(records: PlacedFPDUs, reading: Reading) -> Iterator[FPDURecord]:
    for record in records:
        if record.direction in reading.directions and reading.connection in (None, record.connection):
            yield record
