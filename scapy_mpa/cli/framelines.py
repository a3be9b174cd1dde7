"""``scapy-mpa lines``."""

from __future__ import annotations

import json
from typing import Literal

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.lines import print_lines
from scapy_mpa.cli.options import Reading, reads_captures, warn_of_damage, warn_of_nothing
from scapy_mpa.cli.output import check_read_twice
from scapy_mpa.cli.types import Word


@click.command("lines", cls=Command)
@reads_captures
@click.option("--acks", is_flag=True, help="Also list frames that only acknowledge.")
@click.option("--format", "output_format", type=Word(("text", "jsonl")), default="text", show_default=True)
@judges
def lines_command(reading: Reading, judging: Judging, acks: bool, output_format: Literal["text", "jsonl"]) -> int:
    """List the frames of MPA connections, one line each, to paste into a report.

    A line has the frame's number, the time of day (UTC), addresses, TCP flags, sequence number and octets. Brackets
    hold what the frame means to MPA: the startup frame that it completes, its FPDUs with message, STag or MSN and
    octets, the upper layer's header. Findings follow the frame that they are dated to. The capture is read twice, so it
    cannot come through a pipe.
    """
    from scapy_mpa.wireshark.framelines import frame_lines
    from scapy_mpa.wireshark.notes import CaptureNotes

    check_read_twice(reading.captures, "lines")
    listed = 0
    with CaptureNotes(reading.query, headers=True) as notes:
        reading.select(notes.report)
        judging.select(notes.report)
        notes.keep_rules(judging.rules)
        for line in frame_lines(reading.query, notes, directions=reading.directions, acks=acks):
            if not reading.is_in_period(line.segment.frame, line.segment.time):
                continue
            listed += 1
            print_lines([line.text() if output_format == "text" else json.dumps(line.as_dict())])
    if not listed:
        warn_of_nothing(reading.filters, "frame")
    warn_of_damage(notes.report.damage)
    return judging.status(notes.report)
