"""``scapy-mpa fpdus``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, Literal

import click

from scapy_mpa.capture.index import is_pipe
from scapy_mpa.cli.cluster import divides_among_machines
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.lines import print_lines, terminal_width
from scapy_mpa.cli.options import divides_work, reads_all, warn_of_damage, warn_of_nothing
from scapy_mpa.cli.output import PARQUET, write_text, written
from scapy_mpa.cli.rows import Rows, lists_rows
from scapy_mpa.cli.types import Word
from scapy_mpa.report.fpdus import STYLES, lines, log_lines
from scapy_mpa.report.narrow import narrow_lines
from scapy_mpa.values.records import FPDURecord


@click.command("fpdus", cls=Command)
@reads_all
@lists_rows("FPDUs", *STYLES, PARQUET)
@divides_work
@divides_among_machines
@click.option(
    "--order",
    type=Word(("stream", "placed")),
    default="stream",
    show_default=True,
    help="Sort by connection, direction and position in the stream, or list FPDUs as they are placed, while the "
    "capture is read.",
)
@judges
def fpdus_command(rows: Rows, judging: Judging, order: Literal["stream", "placed"], jobs: int) -> int:
    """List every FPDU of the captures, one line each.

    - is standard input. With --order placed, FPDUs from a pipe are listed as they come:
    tcpdump -U -w - | scapy-mpa fpdus --order placed -. The same applies to --follow and -i. Findings are not listed;
    the exit status says whether there are any.
    """
    reading, output_format = rows.reading, rows.output_format
    if order == "placed" and jobs > 1:
        raise click.UsageError("--order placed follows the capture, which only one process can do: leave --jobs out")
    if order == "placed" and reading.protocols:
        raise click.UsageError("--order placed lists FPDUs before the upper layer is known: leave --ulp out")
    if order == "placed" and reading.is_of_streams:
        raise click.UsageError("--stream reads octets without packets: --order placed cannot be used with it")
    rows.check()
    counted = _Counted()
    if reading.ongoing is not None:
        return _ongoing(rows, judging, counted)
    if order == "stream":
        report = reading.analyze(fpdus=True, jobs=jobs)
        reading.select(report)
        halves = [found.half(side).fpdus for found in report.connections for side in reading.directions]
        with written(rows.output) as file:
            width = _width(rows)
            if width is not None:
                records = (record for fpdus in halves for record in fpdus)
                print_lines(narrow_lines(counted.of(rows.fpdus(records)), width))
            elif rows.is_parquet or rows.chooses:
                _write(counted.of(rows.fpdus(record for fpdus in halves for record in fpdus)), output_format, file)
            else:
                # Each is many lines; all together would not fit the processor's cache.
                file.writelines(text.encode() for text in log_lines(STYLES[output_format], halves))
                counted.count += sum(map(len, halves))
    else:
        placed = reading.placed_fpdus()
        with written(rows.output) as file:
            wanted = (record for record in placed if reading.is_shown(record.connection, record.direction))
            # Somebody may wait for what comes through a pipe.
            at_once = any(map(is_pipe, reading.captures))
            width = _width(rows)
            if width is not None:
                print_lines(narrow_lines(counted.of(rows.fpdus(wanted)), width))
            else:
                _write(counted.of(rows.fpdus(wanted)), output_format, file, at_once=at_once)
        report = placed.report
        reading.select(report)
    if not counted.count:
        warn_of_nothing(rows.filters, "FPDU")
    warn_of_damage(report.damage)
    judging.select(report)
    return judging.status(report)


def _ongoing(rows: Rows, judging: Judging, counted: _Counted) -> int:
    """List the FPDUs of what is read while it is written, each as it comes; returns the exit status."""
    from scapy_mpa.cli.ongoing import OngoingReport

    reading = rows.reading
    ongoing = OngoingReport(reading, judging, lists_fpdus=True)
    placed = (record for batch in ongoing.batches() for record in batch)
    shown = (record for record in placed if reading.is_shown(record.connection, record.direction))
    with written(rows.output) as file:
        width = _width(rows)
        if width is not None:
            print_lines(narrow_lines(counted.of(rows.fpdus(shown)), width))
        else:
            _write(counted.of(rows.fpdus(shown)), rows.output_format, file, at_once=True)
    warn_of_damage(ongoing.rest().damage)
    return ongoing.status()


def _width(rows: Rows) -> int | None:
    """The columns of the terminal that shows the rows as text; None if none does."""
    return terminal_width() if rows.is_shown else None


def _write(records: Iterable[FPDURecord], output_format: str, file: BinaryIO, *, at_once: bool = False) -> None:
    if output_format == PARQUET:
        from scapy_mpa.report.parquet import write_fpdus

        write_fpdus(records, file)
    else:
        write_text(lines(STYLES[output_format], records), file, at_once=at_once)


class _Counted:
    """Counts FPDUs."""

    def __init__(self) -> None:
        self.count = 0

    def of(self, records: Iterable[FPDURecord]) -> Iterator[FPDURecord]:
        """Yield all of them."""
        for record in records:
            self.count += 1
            yield record
