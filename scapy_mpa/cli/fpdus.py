"""``scapy-mpa fpdus``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import BinaryIO, Literal

import click

from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.options import Reading, divides_work, reads_captures, warn_of_damage
from scapy_mpa.cli.output import PARQUET, STANDARD_OUTPUT, check_output, write_text, written
from scapy_mpa.report.analysis import PlacedFPDUs
from scapy_mpa.report.fpdus import STYLES, lines, log_lines
from scapy_mpa.values.records import FPDURecord


@click.command("fpdus")
@reads_captures
@divides_work
@click.option(
    "--format",
    "output_format",
    type=click.Choice((*STYLES, PARQUET)),
    default="text",
    show_default=True,
)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=STANDARD_OUTPUT,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write there, in place of standard output.",
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
    reading: Reading,
    judging: Judging,
    output_format: str,
    output: str,
    order: Literal["stream", "placed"],
    jobs: int,
) -> int:
    """List every FPDU of the captures, one line each.

    Several captures are merged by time; - is standard input. Findings are not
    listed; the exit status tells of them.
    """
    if order == "placed" and jobs > 1:
        raise click.UsageError("--order placed follows the capture: one process must do that, leave --jobs out")
    if output != STANDARD_OUTPUT or output_format == PARQUET:
        check_output(reading.captures, output)
    if output_format == PARQUET:
        from scapy_mpa.report.columns import check_pyarrow

        check_pyarrow()
    if order == "stream":
        report = reading.analyze(fpdus=True, jobs=jobs)
        reading.select(report)
        halves = [found.half(side).fpdus for found in report.connections for side in reading.directions]
        with written(output) as file:
            if output_format == PARQUET:
                _write_parquet(chain.from_iterable(halves), file)
            else:
                write_text(log_lines(STYLES[output_format], halves), file)
    else:
        placed = reading.placed_fpdus()
        with written(output) as file:
            if output_format == PARQUET:
                _write_parquet(_only(placed, reading), file)
            else:
                write_text(lines(STYLES[output_format], _only(placed, reading)), file)
        report = placed.report
        reading.select(report)
    warn_of_damage(report.damage)
    judging.select(report)
    return judging.status(report)


def _write_parquet(records: Iterable[FPDURecord], file: BinaryIO) -> None:
    from scapy_mpa.report.parquet import write_fpdus

    write_fpdus(records, file)


def _only(records: PlacedFPDUs, reading: Reading) -> Iterator[FPDURecord]:
    for record in records:
        if record.direction in reading.directions and reading.connection in (None, record.connection):
            yield record
