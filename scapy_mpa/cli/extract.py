"""``scapy-mpa extract``."""

from __future__ import annotations

from array import array

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.options import Reading, hides, reads_captures, warn_of_damage
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report


@hides("direction")
@click.command("extract", cls=Command)
@reads_captures
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="The file to write; - is standard output.",
)
def extract_command(reading: Reading, output: str) -> int:
    """Write the packets of selected MPA connections to a separate capture file.

    The file has all packets of their TCP connections, in both directions, from the SYN on, with octets and times
    unchanged. If there are several connections, select some with --connection or another option. A pcap file gives a
    pcap file; other captures give pcapng.
    """
    from scapy_mpa.capture.copying import copy_frames
    from scapy_mpa.capture.extract import conversation
    from scapy_mpa.report.extent import extent

    if len(reading.directions) == 1:
        raise click.UsageError("extract writes both directions of a connection; leave --direction out")
    check_output(reading.captures, output, again="extract")
    report = reading.analyze(fpdus=True)
    chosen = _chosen(report, reading)
    frames: set[int] = set()
    query = reading.query
    for connection in chosen:
        key, without, within = connection.initiator.key, connection.foreign_paths, query.selection.frames
        found = conversation(query.sources, key, without=without, frames=within, limits=query.limits)
        there = found.between(*extent(report, connection, found))
        frames.update(frame for frame in there if reading.is_in_frames(frame, frame))
    with written(output) as file:
        copy_frames(chosen[0].index, array("Q", sorted(frames)), file)
    if len(chosen) == 1:
        tell_written(output, f"{len(frames)} packets of connection {chosen[0].number}, {chosen[0].name}")
    else:
        numbers = ", ".join(str(connection.number) for connection in chosen)
        tell_written(output, f"{len(frames)} packets of connections {numbers}")
    warn_of_damage(report.damage)
    return 0


def _chosen(report: Report, reading: Reading) -> list[Connection]:
    """The connections that were asked for; all that are left by what chooses some."""
    there = len(report.connections)
    if not there:
        raise click.UsageError("there is no MPA connection")
    chosen = reading.chosen(report)
    if len(chosen) > 1 and not {*reading.filters} - {"--frames", "--read-frames"}:
        raise click.UsageError(f"there are {there} MPA connections, 0 to {there - 1}: choose with --connection")
    if not chosen:
        raise click.UsageError(f"no connection matches {', '.join(reading.filters)}")
    return chosen
