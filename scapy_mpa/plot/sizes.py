"""``sizes``: how large FPDUs and segments are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scapy_mpa.plot.look import ORANGE, Key, Look, add_legend, entitle, figure_of, number_axis
from scapy_mpa.plot.view import Stretch, views
from scapy_mpa.report.connection import Connection
from scapy_mpa.tcp.half import Direction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scapy_mpa.plot.view import Column

#: Columns at most.
_COLUMNS = 60


def sizes(connection: Connection, directions: Sequence[Direction], window: Stretch, look: Look) -> Figure:
    """Draw the sizes; raises as :meth:`Connection.plot` does."""
    import numpy as np

    shown = views(connection, directions, window)
    figure, axes = figure_of(max(1, len(shown)), 2.3)
    said = [window.words]
    for view, ax in zip(shown, axes, strict=False):
        fpdus = view.fpdus.end - view.fpdus.start
        segments = view.segments.end - view.segments.start
        most = max(int(sizes.max()) if len(sizes) else 0 for sizes in (fpdus, segments))
        width = max(1, -(-(most + 1) // _COLUMNS))
        edges = np.arange(0, most + width + 1, width)
        for one, colour, shift in ((segments, ORANGE, 0.0), (fpdus, look.blue, 0.45)):
            counts, _ = np.histogram(one, edges)
            there = counts > 0
            ax.bar((edges[:-1] + shift * width)[there], counts[there], 0.45 * width, color=colour, align="edge")
        ax.set_yscale("log")
        ax.set_ylim(bottom=0.7)
        ax.set_ylabel("how many")
        ax.set_xlabel("octets on the wire")
        number_axis(ax.xaxis)
        ax.set_title(
            f"{view.direction} ({connection.half(view.direction).endpoint}): {len(fpdus):,} FPDUs of {_span(fpdus)}, "
            f"{len(segments):,} segments of {_span(segments)}"
        )
        said.append(f"{view.direction}: a column is {width} octet{'s' if width > 1 else ''} wide")
    if not shown:
        axes[0].set_axis_off()
        said.append("there is nothing to draw")
    entitle(figure, connection, "Sizes of FPDUs and segments", said)
    add_legend(
        figure, look, [Key(ORANGE, "segments (payload)"), Key(look.blue, "FPDUs (Markers, PAD and CRC included)")]
    )
    return figure


def _span(sizes: Column) -> str:
    """The smallest and the largest, and the one in the middle."""
    import numpy as np

    if not len(sizes):
        return "no octets"
    return f"{int(np.min(sizes)):,} to {int(np.max(sizes)):,} octets (median {int(np.median(sizes)):,})"
