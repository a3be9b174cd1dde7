"""``scapy-mpa extract``."""

from __future__ import annotations

from array import array

import click

from scapy_mpa.cli.options import Reading, reads_captures, warn_of_damage
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report


@click.command("extract")
@reads_captures
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True),
    help="The file to write; - is standard output.",
)
def extract_command(reading: Reading, output: str) -> int:
    """Write the packets of one MPA connection into a capture file of its own.

    These are all packets of its TCP connection, both directions, from the SYN on, octets and times unchanged; without
    --connection those of the only one there is. A pcap file gives a pcap file, other captures give pcapng.
    """
    from scapy_mpa.capture.copying import copy_frames
    from scapy_mpa.capture.extract import conversation
    from scapy_mpa.report.extent import extent

    if len(reading.directions) == 1:
        raise click.UsageError("extract writes both directions of a connection; leave --direction out")
    check_output(reading.captures, output, again="extract")
    report = reading.analyze(fpdus=True)
    connection = _chosen(report, reading)
    found = conversation(
        reading.captures, connection.initiator.key, frames=reading.selection.frames, limits=reading.limits
    )
    frames = array("Q", found.between(*extent(report, connection, found)))
    with written(output) as file:
        copy_frames(connection.index, frames, file)
    who = f"{connection.initiator.endpoint} > {connection.responder.endpoint}"
    tell_written(output, f"{len(frames)} packets of connection {connection.number}, {who}")
    warn_of_damage(report.damage)
    return 0


def _chosen(report: Report, reading: Reading) -> Connection:
    there = len(report.connections)
    if reading.connection is None and there == 1:
        return report.connections[0]
    if reading.connection is None and there:
        raise click.UsageError(f"there are {there} MPA connections, 0 to {there - 1}: --connection says which")
    if not there:
        raise click.UsageError("there is no MPA connection")
    if reading.connection is None or reading.connection >= there:
        numbers = f"0 to {there - 1}" if there > 1 else "only 0"
        raise click.UsageError(f"there is no connection {reading.connection}; the capture has {numbers}")
    return report.connections[reading.connection]
