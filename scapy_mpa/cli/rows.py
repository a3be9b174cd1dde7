"""Options of the commands that list rows, FPDUs or messages: in which form, where to, and which of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from scapy_mpa.cli.lines import terminal_width
from scapy_mpa.cli.options import Reading
from scapy_mpa.cli.output import PARQUET, STANDARD_OUTPUT, check_output
from scapy_mpa.cli.types import STagType, Word
from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.tuples import NamedTuple

if TYPE_CHECKING:
    from scapy_mpa.messages.row import MessageRow
    from scapy_mpa.values.records import FPDURecord


class Rows(NamedTuple):
    """The format of rows, where they go, and which of them: all by default."""

    reading: Reading
    output_format: str
    output: str
    opcodes: frozenset[str]
    stags: frozenset[int]

    def check(self) -> None:
        """Raise :class:`click.UsageError` or MPAError if they cannot be written so."""
        if self.output != STANDARD_OUTPUT or self.is_parquet:
            check_output(self.reading.captures, self.output)
        if self.is_parquet:
            from scapy_mpa.report.columns import check_pyarrow

            check_pyarrow()

    @property
    def is_parquet(self) -> bool:
        """True if they go into a Parquet file."""
        return self.output_format == PARQUET

    @property
    def is_shown(self) -> bool:
        """True if a terminal shows them as text."""
        return self.output_format == "text" and self.output == STANDARD_OUTPUT and terminal_width() is not None

    @property
    def filters(self) -> tuple[str, ...]:
        """The options that were given of those that leave something out."""
        given = (("--opcode", self.opcodes), ("--stag", self.stags))
        return (*self.reading.filters, *(name for name, value in given if value))

    @property
    def chooses(self) -> bool:
        """True if some rows of a connection may be left out."""
        return bool(self.opcodes or self.stags) or self.reading.has_period

    def fpdus(self, records: Iterable[FPDURecord]) -> Iterator[FPDURecord]:
        """Yield the FPDUs that are asked for; of an STag, the capture is read again."""
        from scapy_mpa.report.stag import stag_of

        for record in records:
            if self.opcodes and record.opcode not in self.opcodes:
                continue
            if not self.reading.has_fpdu(record):
                continue
            if not self.stags or stag_of(record) in self.stags:
                yield record

    def wants(self, row: MessageRow) -> bool:
        """Return True if a message is asked for: of frames and times, if it was under way then."""
        reading = self.reading
        if not reading.is_in_frames(row.first_frame, row.last_frame):
            return False
        if not reading.is_in_time(row.first_time_ns, row.time_ns):
            return False
        if self.opcodes and row.message not in self.opcodes:
            return False
        return not self.stags or row.stag in self.stags or row.invalidate_stag in self.stags


def lists_rows(what: str, *forms: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options of a command that lists ``what`` ("FPDUs") in one of these forms; it is handed :class:`Rows`.

    Goes below :func:`~scapy_mpa.cli.options.reads_captures`.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def with_rows(
            reading: Reading,
            *,
            output_format: str,
            output: str,
            opcodes: tuple[str, ...],
            stags: tuple[int, ...],
            **others: Any,
        ) -> int:
            return command(Rows(reading, output_format, output, frozenset(opcodes), frozenset(stags)), **others)

        decorated = with_rows
        for option in reversed(
            (
                click.option("--format", "output_format", type=Word(forms), default=forms[0], show_default=True),
                click.option(
                    "-o",
                    "--output",
                    metavar="FILE",
                    default=STANDARD_OUTPUT,
                    type=click.Path(dir_okay=False, allow_dash=True),
                    help="Write to this file instead of standard output.",
                ),
                click.option(
                    "--opcode",
                    "opcodes",
                    multiple=True,
                    metavar="NAME",
                    type=Word([name for name in OPCODE_NAMES if name is not None], case_sensitive=False),
                    help=f"Only {what} with this RDMAP opcode, such as Send. May be repeated.",
                ),
                click.option(
                    "--stag",
                    "stags",
                    multiple=True,
                    type=STagType(),
                    metavar="STAG",
                    help=f"Only tagged {what} of this STag, and Sends that invalidate it. May be repeated.",
                ),
            )
        ):
            decorated = option(decorated)
        return decorated

    return decorate
