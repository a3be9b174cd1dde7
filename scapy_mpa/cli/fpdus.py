"""``scapy-mpa fpdus``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Literal

import click

from scapy_mpa.cli.options import directions, reads_captures, select, selection, warn_of_damage
from scapy_mpa.receive.operation import Direction
from scapy_mpa.receive.records import FPDURecord
from scapy_mpa.report.analysis import PlacedFPDUs, analyze
from scapy_mpa.report.fpdus import FORMATS


@click.command("fpdus")
@reads_captures
@click.option(
    "--format",
    "output_format",
    type=click.Choice(tuple(FORMATS)),
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
def fpdus_command(
    captures: tuple[str, ...],
    connection: int | None,
    direction: Direction | None,
    ports: tuple[int, ...],
    frames: tuple[int, int | None] | None,
    output_format: str,
    order: Literal["stream", "placed"],
) -> int:
    """List every FPDU of the captures, one line each.

    Several captures are merged by time; - is standard input.
    """
    selected, shown, write = selection(ports, frames), directions(direction), FORMATS[output_format]
    if order == "stream":
        report = analyze(list(captures), selection=selected)
        select(report, connection, shown)
        halves = (found.half(side) for found in report.connections for side in shown)
        sys.stdout.writelines(write(fpdu for half in halves for fpdu in half.fpdus))
    else:
        placed = PlacedFPDUs(list(captures), selected)
        sys.stdout.writelines(write(_only(placed, connection, shown)))
        report = placed.report
        select(report, connection, shown)
    sys.stdout.flush()
    warn_of_damage(report)
    return 1 if report.has_errors else 0


def _only(records: PlacedFPDUs, connection: int | None, shown: tuple[Direction, ...]) -> Iterator[FPDURecord]:
    for record in records:
        if record.direction in shown and connection in (None, record.connection):
            yield record
