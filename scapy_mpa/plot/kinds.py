"""The kinds of pictures by name, and the one way to all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from scapy_mpa.errors import MPAError
from scapy_mpa.plot.held import held
from scapy_mpa.plot.lanes import AXES, lanes
from scapy_mpa.plot.look import DARK, LIGHT, Look, check_matplotlib, settings
from scapy_mpa.plot.reads import reads
from scapy_mpa.plot.sequence import sequence
from scapy_mpa.plot.sizes import sizes
from scapy_mpa.plot.throughput import throughput
from scapy_mpa.plot.view import Stretch
from scapy_mpa.report.connection import Connection
from scapy_mpa.tcp.half import Direction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Those that are drawn along one axis.
_DRAWN: dict[str, Callable[[Connection, Sequence[Direction], Stretch, Look], Figure]] = {
    "sequence": sequence,
    "reads": reads,
    "held": held,
    "sizes": sizes,
    "throughput": throughput,
}
KINDS = ("lanes", *_DRAWN)


def draw(
    connection: Connection,
    kind: str,
    directions: Sequence[Direction],
    frames: tuple[int, int | None] | None,
    times: tuple[int | None, int | None],
    axis: str,
    dark: bool,
) -> Figure:
    """Draw a connection, of a report that holds FPDUs; raises as :meth:`Connection.plot` does."""
    if kind not in KINDS:
        raise MPAError(f"there is no kind of picture {kind!r}; there are {', '.join(KINDS)}")
    if axis not in AXES:
        raise MPAError(f"there is no axis {axis!r}; there are {', '.join(AXES)}")
    check_matplotlib()
    window, look = Stretch(frames, *times), DARK if dark else LIGHT
    with settings(look):
        if kind == "lanes":
            figure = lanes(connection, directions, window, AXES[axis], look)
        else:
            figure = _DRAWN[kind](connection, directions, window, look)
        # Where things lie follows from the settings; whoever gets the figure has others.
        figure.draw_without_rendering()
    return figure
