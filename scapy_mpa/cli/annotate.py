"""``scapy-mpa annotate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import click

from scapy_mpa.capture.named import STANDARD_INPUT
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.options import Reading, hides, reads_captures_or_ongoing, warn_of_damage
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.capture.ongoing import OngoingCaptures
    from scapy_mpa.report.model import Report


@hides("direction")
@click.command("annotate", cls=Command)
@reads_captures_or_ongoing
@click.argument("output", metavar="OUT", type=click.Path(dir_okay=False, allow_dash=True))
def annotate_command(reading: Reading, output: str) -> int:
    """Write the same packets with comments for Wireshark.

    The comment on each frame says which FPDUs it begins, ends and places, how they were located, where its Markers
    point, and what is wrong; the filter frame.comment contains "mpa" finds them. OUT is a pcapng file; - is standard
    output. With -i and --follow, each packet is written a second after it was captured, with what is known about it by
    then.
    """
    from scapy_mpa.wireshark.annotate import annotate
    from scapy_mpa.wireshark.notes import CaptureNotes

    if len(reading.captures) > 1:
        raise click.UsageError("annotate takes one capture; merge several first (mergecap)")
    if len(reading.directions) == 1:
        raise click.UsageError("annotate comments on both directions; leave --direction out")
    if reading.ongoing is not None:
        check_output(reading.captures, output)
        with written(output) as file:
            annotate_ongoing(reading, reading.ongoing, output, file)
        return 0
    (capture,) = reading.captures
    if capture == STANDARD_INPUT:
        raise click.UsageError("annotate reads the capture twice: name the file")
    check_output(reading.captures, output, again="annotate")
    query = reading.query
    with CaptureNotes(query) as notes:
        reading.select(notes.report)
        notes.keep_frames(lambda frame: reading.is_in_frames(frame, frame))
        with written(output) as file:
            packets, comments, no_room = annotate(
                capture, notes, file, query.limits, query.sources.esp, query.sources.udp_ports
            )
    _tell(output, capture, packets, comments, no_room)
    warn_of_damage(notes.report.damage)
    return 0


def annotate_ongoing(reading: Reading, captures: OngoingCaptures, output: str, file: BinaryIO) -> None:
    """Write what is read while it is written, each packet when it has waited."""
    from scapy_mpa.cli.ongoing import OngoingReport, pass_on
    from scapy_mpa.wireshark.ongoingcomments import OngoingComments

    if reading.protocols:
        raise click.UsageError("--ulp needs complete connections: it cannot be used with connections that go on")

    def is_wanted(connection: int) -> bool:
        return not reading.connections or connection in reading.connections

    def over(report: Report) -> None:
        for connection in report.connections:
            comments.over(connection)

    def write() -> None:
        if octets := b"".join(comments.take()):
            file.write(octets)
            file.flush()

    comments = OngoingComments(captures, is_wanted, reading.is_in_period, reading.query.limits)
    ongoing = OngoingReport(
        reading,
        Judging(None, "never"),
        show=over,
        listener=comments,
        looked=write,
        make_findings=comments.make_findings,
    )
    damage = pass_on(ongoing, write)
    file.writelines(comments.take(is_over=True))
    _tell(output, captures.name, comments.packets, comments.comments, comments.no_room)
    for line in comments.left():
        print_line(f"scapy-mpa: {line}", err=True)  # no later packet came that could have said it
    warn_of_damage(damage)


def _tell(output: str, capture: str, packets: int, comments: int, no_room: int) -> None:
    tell_written(output, f"{plural(packets, 'packet')}, {plural(comments, 'comment')}")
    if no_room:
        print_line(
            f"scapy-mpa: {printable(capture)}: {plural(no_room, 'simple packet block')} cannot hold a comment", err=True
        )
