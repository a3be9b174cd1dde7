"""``scapy-mpa annotate``."""

from __future__ import annotations

import click

from scapy_mpa.capture.named import STANDARD_INPUT
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.options import Reading, hides, reads_captures, warn_of_damage
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural


@hides("direction")
@click.command("annotate", cls=Command)
@reads_captures
@click.argument("output", metavar="OUT", type=click.Path(dir_okay=False, allow_dash=True))
def annotate_command(reading: Reading, output: str) -> int:
    """Write the same packets with comments for Wireshark.

    The comment on each frame says which FPDUs it begins, ends and places, how they were located, where its Markers
    point, and what is wrong; the filter frame.comment contains "mpa" finds them. OUT is a pcapng file; - is standard
    output.
    """
    from scapy_mpa.wireshark.annotate import annotate
    from scapy_mpa.wireshark.notes import CaptureNotes

    if len(reading.captures) > 1:
        raise click.UsageError("annotate takes one capture; merge several first (mergecap)")
    if len(reading.directions) == 1:
        raise click.UsageError("annotate comments on both directions; leave --direction out")
    (capture,) = reading.captures
    if capture == STANDARD_INPUT:
        raise click.UsageError("annotate reads the capture twice: name the file")
    check_output(reading.captures, output, again="annotate")
    query = reading.query
    with CaptureNotes(query) as notes:
        reading.select(notes.report)
        with written(output) as file:
            packets, comments, no_room = annotate(
                capture, notes, file, query.limits, query.sources.esp, query.sources.udp_ports
            )
    tell_written(output, f"{plural(packets, 'packet')}, {plural(comments, 'comment')}")
    if no_room:
        print_line(
            f"scapy-mpa: {printable(capture)}: {plural(no_room, 'simple packet block')} cannot hold a comment", err=True
        )
    warn_of_damage(notes.report.damage)
    return 0
