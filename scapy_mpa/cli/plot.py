"""``scapy-mpa plot``."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.options import AfterBeginning, Reading, reads_captures, warn_of_damage
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.cli.types import STagType, Word
from scapy_mpa.plot.kinds import KINDS
from scapy_mpa.plot.look import ENDINGS, check_matplotlib, write_figure
from scapy_mpa.plot.overview import draw_overview
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OVERVIEW = "overview"
#: Nanoseconds.
_YEAR = 365 * 86400 * 1_000_000_000


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
    type=Word((*KINDS, _OVERVIEW)),
    help="ladder: who sent what, from top to bottom; lanes: segments, FPDUs and messages side by side; sequence: a "
    "time-sequence graph; latency: how long calls and RDMA Reads waited; reads: outstanding RDMA Reads; held: octets "
    "held back until they are in order; sizes; throughput; memory: a buffer over time; overview: all connections as "
    "bars.  [default: ladder if the connection ended before its work was done, lanes if octets were out of order, "
    "else latency]",
)
@click.option("--axis", type=Word(("octets", "time")), help="Horizontal axis of lanes.  [default: octets]")
@click.option(
    "--stag",
    type=STagType(),
    metavar="STAG",
    help="The memory that --kind memory draws.  [default: the STag that most octets were written to]",
)
@click.option("--dark", is_flag=True, help="Draw on a dark background.")
def plot_command(
    reading: Reading, output: str, kind: str | None, axis: str | None, stag: int | None, dark: bool
) -> int:
    """Draw a picture of one MPA connection in the captures, or of all of them.

    Without --connection, the connection with the most FPDUs is drawn, preferably one that ended before its work was
    done. All frames are analysed; --frames, --since and --until say which are drawn, and --since +0.3, or 300ms, counts
    from the start of the connection. What is too dense is aggregated, and the picture says so. The captures are read
    twice, so none can come through a pipe.
    """
    ending = PurePath(output).suffix.lower().removeprefix(".")
    if ending not in ENDINGS:
        raise click.UsageError(
            f"{printable(output)}: the name of a picture ends in {', '.join(f'.{one}' for one in ENDINGS)}"
        )
    if len(reading.connections) > 1 and kind != _OVERVIEW:
        raise click.UsageError("a picture shows one connection, but --connection is given more than once")
    if axis is not None and kind not in ("lanes", None):
        raise click.UsageError("--axis is for --kind lanes")
    if stag is not None and kind != "memory":
        raise click.UsageError("--stag is for --kind memory")
    check_matplotlib()
    check_output(reading.captures, output, again="plot")
    whole = reading._replace(frames=None, since=None, until=None)
    report = whole.analyze(fpdus=kind != _OVERVIEW)
    whole.select(report)
    if kind == _OVERVIEW:
        figure, what = _draw_all(reading, report, dark), plural(len(report.connections), "connection")
    else:
        connection = _connection(report)
        figure = _draw_one(reading, connection, kind, axis, stag, dark)
        what = f"connection {connection.number}"
    with written(output) as file:
        write_figure(figure, file, ending)
    tell_written(output, f"{figure.get_label()} of {what}")
    warn_of_damage(report.damage)
    return 0


def _draw_one(
    reading: Reading, connection: Connection, kind: str | None, axis: str | None, stag: int | None, dark: bool
) -> Figure:
    first = connection.lifecycle.first[1]
    return connection.plot(
        kind,
        directions=reading.directions,
        frames=reading.frames,
        since=_moment(reading.since, first),
        until=_moment(reading.until, first),
        axis=axis,
        dark=dark,
        stag=stag,
    )


def _draw_all(reading: Reading, report: Report, dark: bool) -> Figure:
    if report.connections:
        first = min(one.lifecycle.first[1] for one in report.connections)
        times = _moment(reading.since, first), _moment(reading.until, first)
        report.select((), reading.directions, *times, frames=reading.frames)
    figure = draw_overview(report.connections, report.captures, dark=dark)
    figure.set_label(_OVERVIEW)
    return figure


def _moment(time: int | None, first: int) -> int | None:
    """A time in nanoseconds since the epoch, given when what is drawn begins.

    The axes count from where it begins, and so does a number without + that would be a time before there was iWARP.
    """
    if time is None:
        return None
    return first + time if isinstance(time, AfterBeginning) or time < _YEAR <= first else time


def _connection(report: Report) -> Connection:
    """The one with the most FPDUs of those that are left and unfinished, or else of all; the first of several."""
    if not report.connections:
        raise click.UsageError("there is no MPA connection to draw")
    return max(report.connections, key=lambda one: (one.lifecycle.is_unfinished, one.fpdu_count, -one.number))
