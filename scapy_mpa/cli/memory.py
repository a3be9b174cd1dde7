"""``scapy-mpa memory``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.lines import print_lines, terminal_width
from scapy_mpa.cli.options import Reading, reads_captures_or_streams, warn_of_damage, warn_of_nothing, warn_of_remark
from scapy_mpa.cli.output import STANDARD_OUTPUT, check_output, write_text, written
from scapy_mpa.cli.types import STagType, Word
from scapy_mpa.rules.table import RULES, SEVERITIES

if TYPE_CHECKING:
    from scapy_mpa.messages.stags import STagRow


@click.command("memory", cls=Command)
@reads_captures_or_streams
@judges
@click.option("--format", "output_format", type=Word(("text", "json", "jsonl")), default="text", show_default=True)
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default=STANDARD_OUTPUT,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Write to this file instead of standard output.",
)
@click.option(
    "--stag", "stags", multiple=True, type=STagType(), metavar="STAG", help="Only memory of this STag. May be repeated."
)
@click.option(
    "--at",
    "frame",
    metavar="FRAME",
    type=click.IntRange(1),
    help="Only memory that was named and had not ended by this frame, and what had been done with it so far.",
)
def memory_command(
    reading: Reading, judging: Judging, output_format: str, output: str, stags: tuple[int, ...], frame: int | None
) -> int:
    """List the memory that each side named to its peer, one line per STag, and what the peer did with it.

    Memory is named by headers of SMB Direct, RPC-over-RDMA, NVMe-oF, iSER, rping and perftest, and by Read Requests
    (their sink). An RDMA Write, Read Request or Read Response outside the named range, or before or after its lifetime,
    is an error. Notes say where a program that polls memory instead of waiting for delivery reads stale data. With -d,
    only the memory of this side.
    """
    from scapy_mpa.messages.stags import CapturedMemory

    query = reading.query
    if frame is not None:
        if query.selection.frames is not None:
            raise click.UsageError("--at needs all frames up to that one: it cannot be used with --read-frames")
        query = query._replace(selection=query.selection._replace(frames=(1, frame)))
    if output != STANDARD_OUTPUT:
        check_output(reading.captures, output)
    with CapturedMemory(query, directions=reading.directions, protocols=reading.protocols) as found:
        reading._replace(protocols=()).select(found.report)
        rows = (row for row in found.rows() if reading.is_in_frames(*row.life))
        judged = _Judged(rows, judging, frozenset(stags), is_of_a_frame=frame is not None)
        with written(output) as file:
            lines = _lines(judged, output_format, reading.captures)
            if output_format == "text" and output == STANDARD_OUTPUT and terminal_width() is not None:
                print_lines(line for text in lines for line in text.splitlines())
            else:
                write_text(lines, file)
    if not judged.is_any:
        given = (("--stag", stags), ("--at", frame is not None))
        warn_of_nothing((*reading.filters, *(name for name, value in given if value)), "memory")
    warn_of_remark(found.remark)
    warn_of_damage(found.report.damage)
    return judged.status


class _Judged:
    """The rows that are asked for, with the findings that are.

    Attributes:
        is_any: whether there were any.
        status: 1 if one of their findings is as grave as asked for.
    """

    def __init__(
        self, rows: Iterable[STagRow], judging: Judging, stags: frozenset[int], *, is_of_a_frame: bool
    ) -> None:
        self._rows = rows
        self._judging = judging
        self._stags = stags
        self._is_of_a_frame = is_of_a_frame
        self.is_any = False
        self.status = 0

    def __iter__(self) -> Iterator[STagRow]:
        """Yield them."""
        rules, fail_on = self._judging
        grave = SEVERITIES[: SEVERITIES.index(fail_on) + 1] if fail_on != "never" else ()
        for row in self._rows:
            if (self._stags and row.stag not in self._stags) or (self._is_of_a_frame and not row.is_alive):
                continue
            shown = row if rules is None else row.only(rules)
            self.is_any = True
            if any(RULES[rule].severity in grave for rule in shown.counts):
                self.status = 1
            yield shown


def _lines(rows: Iterable[STagRow], output_format: str, captures: list[str]) -> Iterator[str]:
    if output_format == "text":
        for row in rows:
            yield from row.lines()
    elif output_format == "jsonl":
        for row in rows:
            yield json.dumps(row.as_dict()) + "\n"
    else:
        yield f'{{"schema": 1, "captures": {json.dumps(captures)}, "memory": ['
        for number, row in enumerate(rows):
            yield ("," if number else "") + "\n " + json.dumps(row.as_dict())
        yield "\n]}\n"
