"""``scapy-mpa show``."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import click

from scapy_mpa.cli.colours import paint, style
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_lines, terminal_width
from scapy_mpa.cli.options import Reading, reads_captures_or_streams, warn_of_damage
from scapy_mpa.cli.output import check_read_twice
from scapy_mpa.cli.progress import end_progress
from scapy_mpa.cli.types import ParamType, Word
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.blocks import in_blocks
from scapy_mpa.tuples import NamedTuple


class FPDUNumber(NamedTuple):
    """An FPDU by its connection, its sender, and its position in the stream, from 0."""

    connection: int
    direction: Role
    number: int


class _FPDUType(ParamType[FPDUNumber]):
    name = "fpdu"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> FPDUNumber:
        if isinstance(value, FPDUNumber):
            return value
        parsed = re.fullmatch(r"(\d{1,9})/(i|r|initiator|responder)/(\d{1,18})", value)
        if parsed is None:
            self.fail(f"{value!r} is not CONNECTION/DIRECTION/NUMBER such as 0/initiator/12 or 0/i/12", param, ctx)
        connection, direction, number = parsed.groups()
        return FPDUNumber(int(connection), "initiator" if direction[0] == "i" else "responder", int(number))


@click.command("show", cls=Command)
@reads_captures_or_streams
@click.option(
    "--frame", type=click.IntRange(1), metavar="N", help="Show everything that this frame of the capture carried."
)
@click.option(
    "--seq",
    type=click.IntRange(0, SEQ_MASK),
    metavar="S",
    help="Show the FPDU or startup frame that holds this TCP sequence number.",
)
@click.option(
    "--fpdu",
    type=_FPDUType(),
    metavar="C/D/K",
    help="Show FPDU number K (from 0, in the order of fpdus) that D (initiator or i, responder or r) sent on "
    "connection C.",
)
@click.option("--full", is_flag=True, help="Print every octet of long payloads.")
@click.option("--format", "output_format", type=Word(("text", "json")), default="text", show_default=True)
def show_command(
    reading: Reading,
    frame: int | None,
    seq: int | None,
    fpdu: FPDUNumber | None,
    full: bool,
    output_format: Literal["text", "json"],
) -> int:
    """Show one frame or FPDU octet by octet, and why it was located where it was.

    On a terminal, headers, Markers, PAD and CRC are coloured and payload is not, unless NO_COLOR is set or
    TERM is dumb.
    Several captures are merged by time. The octets are read again, so a capture cannot come through a pipe.
    """
    from scapy_mpa.report.frame import show_frame
    from scapy_mpa.report.hexdump import shown_lines
    from scapy_mpa.report.show import show_fpdu, show_seq

    if sum(asked is not None for asked in (frame, seq, fpdu)) != 1:
        raise click.UsageError("give exactly one of --frame, --seq and --fpdu")
    check_read_twice(reading.captures, "show")
    report = reading.analyze(fpdus=True)
    reading.select(report)
    if frame is not None:
        shown = show_frame(report, frame)
    elif seq is not None:
        shown = show_seq(report, seq, reading.directions)
    else:
        assert fpdu is not None
        shown = show_fpdu(report, *fpdu)
    if output_format == "json":
        end_progress()
        click.echo(json.dumps(shown.as_dict(report), indent=2))
    else:
        lines = shown_lines(shown, full, style, paint, terminal_width())
        print_lines(map(in_blocks, lines) if reading.is_of_streams else lines)
    warn_of_damage(report.damage)
    return 1 if shown.has_error else 0
