"""``scapy-mpa extract``."""

from __future__ import annotations

import os
import sys
from array import array
from typing import BinaryIO, cast

import click

from scapy_mpa.capture.files import STANDARD_INPUT
from scapy_mpa.capture.index import is_pipe
from scapy_mpa.cli.options import Reading, reads_captures, warn_of_damage
from scapy_mpa.report.model import Connection, Report

_STANDARD_OUTPUT = "-"


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
    for capture in reading.captures:
        if is_pipe(capture):
            raise click.UsageError(f"{capture}: a pipe cannot be read again; extract needs a file")
        if _is_same(capture, output):
            raise click.UsageError(f"{output}: that is what is read, and would be lost")
    if output == _STANDARD_OUTPUT and sys.stdout.isatty():
        raise click.UsageError("a capture file is nothing for a terminal; name a file, or send it into a pipe")
    report = reading.analyze(fpdus=True)
    connection = _chosen(report, reading)
    found = conversation(
        reading.captures, connection.initiator.key, frames=reading.selection.frames, limits=reading.limits
    )
    frames = array("Q", found.between(*extent(report, connection, found)))
    try:
        opened = click.open_file(output, "wb")
    except OSError as error:
        raise click.UsageError(f"{output}: {error.strerror or error}") from None
    with opened as file:
        copy_frames(connection.index, frames, cast("BinaryIO", file))
        file.flush()
    if output != _STANDARD_OUTPUT:
        who = f"{connection.initiator.endpoint} > {connection.responder.endpoint}"
        click.echo(f"{output}: {len(frames)} packets of connection {connection.number}, {who}")
    warn_of_damage(report)
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


def _is_same(capture: str, output: str) -> bool:
    """Whether the file to be written is one that is read."""
    try:
        read = os.fstat(sys.stdin.fileno()) if capture == STANDARD_INPUT else os.stat(capture)
        written = os.fstat(sys.stdout.fileno()) if output == _STANDARD_OUTPUT else os.stat(output)
    except (OSError, ValueError):
        return False
    return os.path.samestat(read, written)
