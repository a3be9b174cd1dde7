"""``sizes``: how large FPDUs and segments are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.plot.look import ORANGE, Key, Look, Sheet, number_axis, plain_numbers
from scapy_mpa.plot.view import Stretch, Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scapy_mpa.plot.view import Column

#: Columns at most.
_COLUMNS = 60


def sizes(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the sizes; raises as :meth:`Connection.plot` does."""
    import numpy as np

    shown = subject.views(window)
    sheet = Sheet(len(shown), 2.3)
    for number, view in enumerate(shown):
        (ax,) = sheet.axes(number)
        endpoint = subject.connection.half(view.direction).endpoint
        fpdus = view.fpdus.end - view.fpdus.start
        segments = view.segments.end - view.segments.start
        most = max(int(sizes.max()) if len(sizes) else 0 for sizes in (fpdus, segments))
        width = max(1, -(-(most + 1) // _COLUMNS))
        edges = np.arange(0, most + width + 1, width)
        # Both stand in the middle of their column: side by side what is smaller might stand right of what is larger.
        for one, colour, part in ((segments, ORANGE, 0.92), (fpdus, look.blue, 0.46)):
            counts, _ = np.histogram(one, edges)
            there = counts > 0
            ax.bar((edges[:-1] + width / 2)[there], counts[there], part * width, color=colour)
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
        ax.set_ylim(bottom=0.7)
        ax.set_ylabel("number")
        ax.set_xlabel("octets on the wire")
        number_axis(ax.xaxis)
        ax.set_title(
            f"{view.direction} ({endpoint}): {len(fpdus):,} FPDUs of {_span(fpdus)}, "
            f"{len(segments):,} segments of {_span(segments)}"
        )
        sheet.said.append(f"{view.direction}: a column is {width} octet{'s' if width > 1 else ''} wide")
    sheet.keys += [Key(ORANGE, "segments (payload)"), Key(look.blue, "FPDUs (Markers, PAD and CRC included)")]
    return sheet.finish(subject.connection, "Sizes of FPDUs and segments", window.words, look)


def _span(sizes: Column) -> str:
    """The smallest and the largest, and the one in the middle."""
    import numpy as np

    if not len(sizes):
        return "no octets"
    return f"{int(np.min(sizes)):,} to {int(np.max(sizes)):,} octets (median {int(np.median(sizes)):,})"
