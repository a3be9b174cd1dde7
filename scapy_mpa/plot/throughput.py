"""``throughput``: octets a second, as they were sent and as ULPDUs could be placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.plot.look import ORANGE, PURPLE, Key, Look, Sheet, number_axis, time_unit
from scapy_mpa.plot.thin import Grid, grid
from scapy_mpa.plot.view import Stretch, Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns at most; fewer where there are few segments.
_COLUMNS, _FEWEST = 120, 10


def throughput(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the throughput; raises as :meth:`Connection.plot` does."""
    shown = subject.views(window)
    sheet = Sheet(len(shown), 2.3)
    for number, view in enumerate(shown):
        (ax,) = sheet.axes(number)
        segments, fpdus = view.segments, view.fpdus
        count = min(_COLUMNS, max(_FEWEST, len(segments.start) // 4))
        columns: Grid = grid([segments.time, fpdus.time], count)
        is_good = ~fpdus.is_bad
        series = (
            ("stream, each octet once", ORANGE, segments.time[segments.is_new], segments.is_new),
            ("placed FPDUs", look.blue, fpdus.time[is_good], is_good),
            ("sent again", PURPLE, segments.time[~segments.is_new], ~segments.is_new),
        )
        unit = time_unit(columns.width * count)
        edges = [edge * unit.a_second for edge in columns.edges]
        for words, colour, times, which in series:
            if not len(times):
                continue
            whole = fpdus if words == "placed FPDUs" else segments
            octets = columns.sums(times, (whole.end - whole.start)[which])
            style = "--" if words == "placed FPDUs" else "-"
            ax.stairs(octets / columns.width / 1e6, edges, color=colour, linestyle=style, linewidth=1.3)
        ax.set_ylabel("MB/s")
        ax.set_xlabel(f"{unit.name} since the connection began")
        ax.set_ylim(bottom=0)
        ax.margins(x=0.01)
        number_axis(ax.xaxis, whole=False)
        ax.set_title(f"{view.direction} ({subject.connection.half(view.direction).endpoint})")
        wide = time_unit(columns.width)
        sheet.said.append(
            f"{view.direction}: mean of each of {count} columns of {columns.width * wide.a_second:.4g} {wide.name}"
        )
    sheet.keys += [
        Key(ORANGE, "octets of the stream, each once", "line"),
        Key(look.blue, "octets of FPDUs, when placed", "dashes"),
    ]
    if any((~view.segments.is_new).any() for view in shown):
        sheet.keys.append(Key(PURPLE, "octets sent again", "line"))
    return sheet.finish(subject.connection, "Throughput", window.words, look)
