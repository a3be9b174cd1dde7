"""The kinds of pictures by name, and the one way to all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role
from scapy_mpa.plot.held import held
from scapy_mpa.plot.ladder import ladder
from scapy_mpa.plot.lanes import AXES, lanes
from scapy_mpa.plot.latency import latency
from scapy_mpa.plot.look import DARK, LIGHT, Look, NothingToDraw, check_matplotlib, settings
from scapy_mpa.plot.memory import memory
from scapy_mpa.plot.order import is_out_of_order
from scapy_mpa.plot.reads import Asked, reads
from scapy_mpa.plot.sequence import sequence
from scapy_mpa.plot.sizes import sizes
from scapy_mpa.plot.throughput import throughput
from scapy_mpa.plot.view import Stretch, Subject
from scapy_mpa.report.connection import Connection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN: dict[str, Callable[[Subject, Stretch, Look], Figure]] = {
    "ladder": ladder,
    "sequence": sequence,
    "latency": latency,
    "reads": reads,
    "held": held,
    "sizes": sizes,
    "throughput": throughput,
}
KINDS = ("lanes", *_DRAWN, "memory")


def draw_connection(
    connection: Connection,
    kind: str | None,
    directions: Sequence[Role],
    frames: tuple[int, int | None] | None,
    times: tuple[int | None, int | None],
    axis: str | None,
    dark: bool,
    stag: int | None = None,
) -> Figure:
    """Draw a connection, of a report that holds FPDUs; the label of the figure is the kind.

    Raises as :meth:`Connection.plot` does.
    """
    subject, window = Subject(connection, directions), Stretch(frames, *times)
    if kind is None:
        figure = _draw_first(subject, window, axis, dark)
    else:
        figure = draw_subject(subject, kind, window, axis or "octets", dark, stag=stag)
    with settings(DARK if dark else LIGHT):
        # Where things lie follows from the settings; whoever gets the figure has others. To lay it out again would
        # take as long as to draw it.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def first_kinds(connection: Connection) -> tuple[str, ...]:
    """The pictures of a connection as a whole, those first that show what one wants to know of it first.

    Of one that ended before its work did, the end; of one that was out of order, the order; else what was slow.
    """
    if connection.lifecycle.is_unfinished or not connection.fpdu_count:
        return "ladder", "lanes", "sequence", "latency"
    if is_out_of_order(connection):
        return "lanes", "sequence", "ladder", "latency"
    return "latency", "lanes", "ladder", "sequence"


def _draw_first(subject: Subject, window: Stretch, axis: str | None, dark: bool) -> Figure:
    """Draw what one wants to see first of a connection."""
    if axis is not None:
        return draw_subject(subject, "lanes", window, axis, dark)
    first, second, *_ = first_kinds(subject.connection)
    try:
        return draw_subject(subject, first, window, "octets", dark)
    except NothingToDraw:
        if first != "latency":
            raise
    # What has no answers has messages, which take time.
    return draw_subject(subject, second, window, "time", dark)


def draw_subject(
    subject: Subject,
    kind: str,
    window: Stretch,
    axis: str = "octets",
    dark: bool = False,
    asked: Asked | None = None,
    stag: int | None = None,
) -> Figure:
    """Draw one of several pictures of a connection, not laid out yet; raises as :meth:`Connection.plot` does."""
    if kind not in KINDS:
        raise MPAError(f"there is no kind of picture {kind!r}; the kinds are {', '.join(KINDS)}")
    if axis not in AXES:
        raise MPAError(f"there is no axis {axis!r}; the axes are {', '.join(AXES)}")
    check_matplotlib()
    look = DARK if dark else LIGHT
    with settings(look):
        if kind == "lanes":
            figure = lanes(subject, window, AXES[axis], look)
        elif kind == "reads":
            figure = reads(subject, window, look, asked)
        elif kind == "memory":
            figure = memory(subject, window, look, stag)
        else:
            figure = _DRAWN[kind](subject, window, look)
    figure.set_label(kind)
    return figure
