"""``scapy-mpa fpdus``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, Literal

import click

from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.options import Reading, divides_work, reads_captures, warn_of_damage, warn_of_nothing
from scapy_mpa.cli.output import PARQUET, STANDARD_OUTPUT, check_output, write_text, written
from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.report.fpdus import STYLES, lines, log_lines
from scapy_mpa.report.stag import stag_of
from scapy_mpa.values.records import FPDURecord


class STagType(click.ParamType[int]):
    """An STag, decimal or, with 0x, hexadecimal."""

    name = "stag"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Its number."""
        if isinstance(value, int):
            return value
        try:
            stag = int(value, 0)
        except ValueError:
            stag = -1
        if not 0 <= stag < 1 << 32:
            self.fail(f"{value!r} is no STag such as 0x1a2b3c4d", param, ctx)
        return stag


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
@click.option(
    "--opcode",
    "opcodes",
    multiple=True,
    metavar="NAME",
    type=click.Choice([name for name in OPCODE_NAMES if name is not None], case_sensitive=False),
    help="Only FPDUs of this RDMAP message, such as Send. May be repeated.",
)
@click.option(
    "--stag",
    "stags",
    multiple=True,
    type=STagType(),
    metavar="STAG",
    help="Only tagged FPDUs of this STag, and Sends that invalidate it; the capture is read again for it. May be "
    "repeated.",
)
@judges
def fpdus_command(
    reading: Reading,
    judging: Judging,
    output_format: str,
    output: str,
    order: Literal["stream", "placed"],
    jobs: int,
    opcodes: tuple[str, ...],
    stags: tuple[int, ...],
) -> int:
    """List every FPDU of the captures, one line each.

    Several captures are merged by time; - is standard input. Findings are not
    listed; the exit status tells of them.
    """
    if order == "placed" and jobs > 1:
        raise click.UsageError("--order placed follows the capture: one process must do that, leave --jobs out")
    filters = (
        *reading.filters,
        *(("--opcode",) if opcodes else ()),
        *(("--stag",) if stags else ()),
    )
    only = _Only(reading, frozenset(opcodes), frozenset(stags))
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
                _write_parquet((record for fpdus in halves for record in only.of(fpdus)), file)
            elif only.is_needed:
                records = (record for fpdus in halves for record in only.of(fpdus))
                write_text(lines(STYLES[output_format], records), file)
            else:
                # Each is many lines; all together would not fit the processor's cache.
                file.writelines(text.encode() for text in log_lines(STYLES[output_format], halves))
                only.count(sum(map(len, halves)))
    else:
        placed = reading.placed_fpdus()
        with written(output) as file:
            if output_format == PARQUET:
                _write_parquet(only.of(placed), file)
            else:
                write_text(lines(STYLES[output_format], only.of(placed)), file)
        report = placed.report
        reading.select(report)
    if not only.left:
        warn_of_nothing(filters, "FPDU")
    warn_of_damage(report.damage)
    judging.select(report)
    return judging.status(report)


def _write_parquet(records: Iterable[FPDURecord], file: BinaryIO) -> None:
    from scapy_mpa.report.parquet import write_fpdus

    write_fpdus(records, file)


class _Only:
    """The FPDUs that were asked for.

    Attributes:
        left: how many were left.
    """

    def __init__(self, reading: Reading, opcodes: frozenset[str], stags: frozenset[int]) -> None:
        self._reading = reading
        self._opcodes = opcodes
        self._stags = stags
        self.left = 0

    @property
    def is_needed(self) -> bool:
        """Whether not all FPDUs of a half connection may be asked for."""
        reading = self._reading
        return bool(self._opcodes or self._stags) or (reading.since, reading.until) != (None, None)

    def count(self, fpdus: int) -> None:
        """So many were left."""
        self.left += fpdus

    def of(self, records: Iterable[FPDURecord]) -> Iterator[FPDURecord]:
        """Yield those that were asked for."""
        reading = self._reading
        for record in records:
            if record.direction not in reading.directions or not reading.is_in_time(record.time_ns):
                continue
            if reading.connections and record.connection not in reading.connections:
                continue
            if self._opcodes and record.opcode not in self._opcodes:
                continue
            if self._stags and stag_of(record) not in self._stags:
                continue
            self.left += 1
            yield record
