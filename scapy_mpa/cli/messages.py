"""``scapy-mpa messages``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from scapy_mpa.cli.cluster import divides_among_machines
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging
from scapy_mpa.cli.lines import print_lines
from scapy_mpa.cli.options import reads_all, warn_of_damage, warn_of_nothing, warn_of_remark
from scapy_mpa.cli.output import PARQUET, check_empty, make_folder, write_text, written
from scapy_mpa.cli.rows import Rows, lists_rows
from scapy_mpa.cli.types import Word
from scapy_mpa.report.blocks import in_blocks
from scapy_mpa.system.names import encodable, printable
from scapy_mpa.system.whole import write_whole

if TYPE_CHECKING:
    from scapy_mpa.messages.found import FoundMessages
    from scapy_mpa.messages.row import MessageRow
    from scapy_mpa.rdmap.assembly import ConnectionMessages

#: Messages that --slowest lists at most: they are in memory, a few kilobytes each.
_MOST_SLOWEST = 10_000
_NO_LATENCY = (
    "none of these messages has a latency, so they stand in the order of delivery: only Read and Atomic Requests, and "
    "calls of an upper layer, are answered; --sort duration lists the longest messages first"
)


@click.command("messages", cls=Command)
@reads_all
@lists_rows("messages", "text", "jsonl", "csv", PARQUET)
@divides_among_machines
@click.option(
    "--summary", "is_summary", is_flag=True, help="Instead, print totals for each connection and kind of message."
)
@click.option("--payload", is_flag=True, help="Show the octets of each message, in hexadecimal.")
@click.option(
    "--directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the octets into files in DIR, one per message; DIR must be new or empty.",
)
@click.option(
    "--held",
    metavar="OCTETS",
    type=click.IntRange(1),
    help="With --payload or --directory: how many octets may be held until their messages are complete; longer "
    "messages are listed in parts.  [default: 16777216]",
)
@click.option(
    "--slowest",
    metavar="N",
    type=click.IntRange(1, _MOST_SLOWEST),
    help="Only the N Requests and calls that waited longest for their answers, the slowest first.",
)
@click.option("--unanswered", is_flag=True, help="Only the Requests and calls for which no answer was captured.")
@click.option(
    "--sort",
    "order",
    type=Word(("time", "latency", "duration", "octets")),
    help="Sort by the time of the first octet; or, largest first, by the latency of the answer, the time from first "
    "octet to last, or the length.  [default: the order of delivery]",
)
def messages_command(
    rows: Rows,
    is_summary: bool,
    payload: bool,
    directory: Path | None,
    held: int | None,
    slowest: int | None,
    unanswered: bool,
    order: str | None,
) -> int:
    """List the RDMAP messages, one row each, with their answers and the messages that named their memory.

    Untagged messages are reassembled from their DDP Segments; RDMA Writes and Read Responses have the STag and TO of
    their first octet. Read and Atomic Requests, and calls of RPC-over-RDMA, NVMe-oF and SMB2, have their answer and how
    long it took. For SMB Direct, RPC-over-RDMA, NVMe-oF, iSER, rping and perftest, the message's header is shown. With
    --follow and -i, each message is listed as soon as it is complete, so a Request is listed without its answer.
    """
    from scapy_mpa.rdmap.assembly import DEFAULT_HELD

    if is_summary and (rows.output_format in ("csv", PARQUET) or payload or directory is not None):
        raise click.UsageError("--summary has only the formats text and jsonl, and prints no octets")
    if held is not None and not payload and directory is None:
        raise click.UsageError("--held limits the octets that are held: it needs --payload or --directory")
    if payload and directory is not None:
        raise click.UsageError("--payload and --directory both say where the octets go; one of them is enough")
    given = {"--slowest": slowest is not None, "--unanswered": unanswered, "--sort": order is not None}
    names = [name for name, is_given in given.items() if is_given]
    if names and is_summary:
        raise click.UsageError(f"{names[0]} applies to the list of messages: it cannot be used with --summary")
    if names and rows.reading.ongoing is not None:
        raise click.UsageError(f"{names[0]} needs all messages: leave out --follow and -i")
    if slowest is not None and len(names) > 1:
        raise click.UsageError(f"--slowest already says which messages, and in which order: leave out {names[1]}")
    if directory is not None:
        check_empty(directory)
    rows.check()
    wants_octets = payload or directory is not None
    held = DEFAULT_HELD if held is None else held
    if rows.reading.ongoing is not None:
        return _ongoing(rows, wants_octets, directory, held)
    with rows.reading.messages(wants_octets, held) as found:
        if directory is not None:
            make_folder(directory)
        wanted = _Wanted(found.noted_runs(), rows)
        if names:
            wanted = _Wanted(((row, ()) for row in _chosen(wanted.messages(), slowest, unanswered, order)), rows)
        with written(rows.output) as file:
            if rows.is_parquet:
                from scapy_mpa.messages.parquet import write_messages

                write_messages(wanted.messages(), file)
            elif is_summary:
                _write(_summary(found, wanted.messages(), rows.output_format), rows, file)
            else:
                lines = _lines(wanted, rows.output_format, directory)
                is_text_of_streams = rows.output_format == "text" and rows.reading.is_of_streams
                _write(map(in_blocks, lines) if is_text_of_streams else lines, rows, file)
    if wanted.first is None:
        warn_of_nothing((*rows.filters, *(name for name in names if name != "--sort")), "message")
        if slowest is not None:
            warn_of_remark(
                "--slowest lists what waited for an answer; --sort duration lists the longest messages first"
            )
    elif order == "latency" and wanted.first.latency_ns is None:
        warn_of_remark(_NO_LATENCY)
    warn_of_remark(found.remark)
    warn_of_damage(found.report.damage)
    return 0


def _ongoing(rows: Rows, wants_octets: bool, directory: Path | None, held: int) -> int:
    """List the messages of what is read while it is written, each when it is whole; returns the exit status."""
    from scapy_mpa.cli.ongoing import OngoingReport
    from scapy_mpa.messages.ongoing import OngoingMessages
    from scapy_mpa.reading.listener import READ_ONCE

    reading = rows.reading
    whole: list[MessageRow] = []

    def show(row: MessageRow, connection: ConnectionMessages) -> None:
        is_asked_for = not reading.protocols or connection.upper.name in reading.protocols
        if is_asked_for and reading.is_shown(row.connection, row.direction):
            whole.append(row)

    listener = OngoingMessages(show, payload=wants_octets, held=held)
    ongoing = OngoingReport(reading, Judging(None, "never"), listener=listener)

    def found() -> Iterator[MessageRow]:
        for _ in ongoing.batches():
            yield from whole
            whole.clear()
        yield from whole

    if directory is not None:
        make_folder(directory)
    wanted = _Wanted(((row, ()) for row in found()), rows)
    with written(rows.output) as file:
        if rows.is_parquet:
            from scapy_mpa.messages.parquet import write_messages

            write_messages(wanted.messages(), file)
        else:
            _write(_lines(wanted, rows.output_format, directory), rows, file, at_once=True)
    if wanted.first is None:
        warn_of_nothing(rows.filters, "message")
    if ongoing.analysis.has_doubt:
        warn_of_remark(READ_ONCE)
    warn_of_damage(ongoing.rest().damage)
    return 0


def _write(texts: Iterable[str], rows: Rows, file: BinaryIO, *, at_once: bool = False) -> None:
    """Write lines, folded if a terminal shows them."""
    if rows.is_shown:
        print_lines(line for text in texts for line in text.splitlines())
    else:
        write_text(texts, file, at_once=at_once)


class _Wanted:
    """The messages that are asked for, as :meth:`~scapy_mpa.messages.found.FoundMessages.runs` has them.

    Attributes:
        first: the first of them, None until there was one.
    """

    def __init__(self, runs: Iterable[tuple[MessageRow, Sequence[int]]], rows: Rows) -> None:
        self._runs = runs
        self._rows = rows
        self.first: MessageRow | None = None

    def __iter__(self) -> Iterator[tuple[MessageRow, Sequence[int]]]:
        """Yield all of them."""
        for row, lengths in self._runs:
            if not self._rows.chooses or self._rows.wants(row):
                self.first = self.first or row
                yield row, lengths

    def messages(self) -> Iterator[MessageRow]:
        """Yield them one by one."""
        from scapy_mpa.messages.row import messages_of

        for row, lengths in self:
            yield from messages_of(row, lengths)


def _chosen(
    rows: Iterable[MessageRow], most: int | None, only_unanswered: bool, order: str | None
) -> Iterable[MessageRow]:
    """Return the messages that ``--slowest``, ``--unanswered`` and ``--sort`` ask for, in that order."""
    from scapy_mpa.messages.ranking import slowest, sorted_by

    if only_unanswered:
        rows = (row for row in rows if row.is_unanswered)
    if most is not None:
        return slowest(rows, most)
    return rows if order is None else sorted_by(rows, order)


def _summary(found: FoundMessages, wanted: Iterable[MessageRow], output_format: str) -> Iterator[str]:
    from scapy_mpa.messages.summary import summaries

    for summary in summaries(wanted, found.shown):
        if output_format == "jsonl":
            yield json.dumps(summary.as_dict()) + "\n"
        else:
            yield from summary.lines()


def _lines(wanted: _Wanted, output_format: str, directory: Path | None) -> Iterator[str]:
    from scapy_mpa.messages.lines import STYLES

    style = STYLES[output_format]
    if style.heading:
        yield style.heading
    for number, (row, lengths) in enumerate(wanted, 1):
        if row.payload is None:
            yield style.lines(row, lengths)
        elif directory is None:
            yield style.line(row, row.payload.hex())
        else:
            name = _file(row, number, directory)
            yield style.line(row, printable(name) if output_format == "text" else name)


def _file(row: MessageRow, number: int, directory: Path) -> str:
    """Write the octets of a message into a file; returns its name."""
    name = (row.message or "ulpdu").lower().replace(" ", "-")
    path = directory / f"{row.connection}-{row.direction}-{number:06}-{name}.bin"
    assert row.payload is not None
    write_whole(path, row.payload)
    return encodable(path)
