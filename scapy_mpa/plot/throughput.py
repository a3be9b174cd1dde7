"""``throughput``: octets a second, as they were sent and as ULPDUs could be placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.plot.look import ORANGE, PURPLE, Key, Look, Sheet, number_axis, time_unit
from scapy_mpa.plot.thin import Grid, grid
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import NOTHING, Stretch, Subject

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns at most; fewer where there are few segments.
_COLUMNS, _FEWEST = 120, 10


def throughput(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the throughput; raises as :meth:`Connection.plot` does."""
    shown = subject.views(window)
    sheet = Sheet(len(shown), 2.1, nothing=NOTHING)
    marks = subject.marks(window)
    times = [column for view in shown for column in (view.segments.time, view.fpdus.time)]
    timeline = Timeline.of(times, marks)
    drawn = [sheet.axes(number)[0] for number in range(len(shown))]
    timeline.lay(drawn)
    # The columns of both sides are the same: what one sent is seen above what the other did meanwhile.
    count = min(_COLUMNS, max(_FEWEST, *(len(view.segments.start) // 4 for view in shown), _FEWEST))
    columns: Grid = grid(times, count)
    unit = timeline.unit
    edges = [edge * unit.a_second for edge in columns.edges]
    for ax, view in zip(drawn, shown, strict=True):
        segments, fpdus = view.segments, view.fpdus
        is_good = ~fpdus.is_bad & ~fpdus.is_reset
        series = (
            ("stream, each octet once", ORANGE, segments.time[segments.is_new], segments.is_new),
            ("placed FPDUs", look.blue, fpdus.time[is_good], is_good),
            ("sent again", PURPLE, segments.time[~segments.is_new], ~segments.is_new),
        )
        for words, colour, places, which in series:
            if not len(places):
                continue
            whole = fpdus if words == "placed FPDUs" else segments
            octets = columns.sums(places, (whole.end - whole.start)[which])
            # What lies below is wider, so that both are seen where they meet.
            style, width = ("--", 1.1) if words == "placed FPDUs" else ("-", 2.8)
            ax.stairs(octets / columns.width / 1e6, edges, color=colour, linestyle=style, linewidth=width)
        ax.set_ylabel("MB/s")
        ax.set_ylim(bottom=0)
        number_axis(ax.yaxis, whole=False)
        ax.grid(axis="y")
        ax.set_title(f"{view.direction} ({subject.connection.half(view.direction).endpoint})")
        timeline.mark(ax, marks, [one.direction for one in shown], view.direction, look)
    wide = time_unit(columns.width)
    sheet.said.append(f"mean of each of {count} columns of {columns.width * wide.a_second:.4g} {wide.name}")
    sheet.keys += [
        Key(ORANGE, "octets of the stream, each once", "line"),
        Key(look.blue, "octets of FPDUs, when placed", "dashes"),
    ]
    if any((~view.segments.is_new).any() for view in shown):
        sheet.keys.append(Key(PURPLE, "octets sent again", "line"))
    return sheet.finish(subject.heading("Throughput", window), look)
