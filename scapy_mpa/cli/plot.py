"""``scapy-mpa plot``."""

from __future__ import annotations

from pathlib import PurePath

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.options import Reading, reads_captures, warn_of_damage
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.cli.types import STagType, Word
from scapy_mpa.plot.kinds import KINDS
from scapy_mpa.plot.look import ENDINGS, check_matplotlib, write_figure
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.system.names import printable


@click.command("plot", cls=Command)
@reads_captures
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False),
    help="The picture to write: SVG, PNG or PDF, depending on its extension.",
)
@click.option(
    "--kind",
    type=Word(KINDS),
    default="lanes",
    show_default=True,
    help="lanes: segments, FPDUs and messages beside each other; sequence: a time-sequence graph; reads: RDMA Reads "
    "under way; held: octets held back until they are in order; sizes; throughput; memory: a buffer over time.",
)
@click.option(
    "--axis", type=Word(("octets", "time")), default="octets", show_default=True, help="Horizontal axis of lanes."
)
@click.option(
    "--stag",
    type=STagType(),
    metavar="STAG",
    help="Which memory --kind memory draws.  [default: the one that most octets were written to]",
)
@click.option("--dark", is_flag=True, help="Draw on a dark background.")
def plot_command(reading: Reading, output: str, kind: str, axis: str, stag: int | None, dark: bool) -> int:
    """Draw a picture of one MPA connection of the captures.

    Without --connection, the connection with the most FPDUs is drawn. All frames are analysed; --frames, --since and
    --until say which of them are drawn. What is too dense is aggregated, and the picture says so. The captures are
    read twice, so none can come through a pipe.
    """
    ending = PurePath(output).suffix.lower().removeprefix(".")
    if ending not in ENDINGS:
        raise click.UsageError(
            f"{printable(output)}: the name of a picture ends in {', '.join(f'.{one}' for one in ENDINGS)}"
        )
    if len(reading.connections) > 1:
        raise click.UsageError("a picture shows one connection, but --connection is given more than once")
    if axis != "octets" and kind != "lanes":
        raise click.UsageError("--axis is for --kind lanes")
    if stag is not None and kind != "memory":
        raise click.UsageError("--stag is for --kind memory")
    check_matplotlib()
    check_output(reading.captures, output, again="plot")
    frames = reading.query.selection.frames
    query = reading.query._replace(selection=reading.query.selection._replace(frames=None))
    whole = reading._replace(query=query, since=None, until=None)
    report = whole.analyze(fpdus=True)
    whole.select(report)
    connection = _connection(report)
    figure = connection.plot(
        kind,
        directions=reading.directions,
        frames=frames,
        since=reading.since,
        until=reading.until,
        axis=axis,
        dark=dark,
        stag=stag,
    )
    with written(output) as file:
        write_figure(figure, file, ending)
    tell_written(output, f"{kind} of connection {connection.number}")
    warn_of_damage(report.damage)
    return 0


def _connection(report: Report) -> Connection:
    """The one with the most FPDUs of those that are left; the first of several."""
    if not report.connections:
        raise click.UsageError("there is no MPA connection to draw")
    return max(
        report.connections, key=lambda one: (one.initiator.counts.fpdus + one.responder.counts.fpdus, -one.number)
    )
