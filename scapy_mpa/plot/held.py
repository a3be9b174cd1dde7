"""``held``: octets a receiver had to hold over time (RFC 5044 appendix B): by full order, by length, by Marker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.plot.look import ORANGE, PURPLE, Key, Look, Sheet, number_axis, time_unit
from scapy_mpa.plot.thin import COLUMNS, grid
from scapy_mpa.plot.view import Stretch, Subject, inside
from scapy_mpa.report.buffers import WAY_WORDS, WAYS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SECOND = 1_000_000_000
#: Steps that are drawn one by one.
_MOST_STEPS = 600
_BY_ALL = "by all three ways"


def held(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the octets held; raises as :meth:`Connection.plot` does."""
    import numpy as np

    connection = subject.connection
    shown = [direction for direction in subject.directions if len(connection.half(direction).fpdus)]
    sheet = Sheet(len(shown), 2.3, nothing="there are no FPDUs")
    begun = connection.lifecycle.first[1]
    colours = dict(zip(WAYS, (ORANGE, PURPLE, look.blue), strict=True))
    for number, direction in enumerate(shown):
        (ax,), track, found = sheet.axes(number), subject.track(direction), subject.buffers(direction)
        frames, all_times = np.frombuffer(track.frames, dtype=np.uint64), np.frombuffer(track.times, dtype=np.int64)
        chosen = inside(frames, all_times, window)
        seconds = (all_times[chosen] - begun) / _SECOND
        span = float(seconds.max() - seconds.min()) if len(seconds) else 0.0
        unit = time_unit(span)
        times = seconds * unit.a_second
        is_dense = len(seconds) > _MOST_STEPS
        peaks = []
        series = {way: np.array(found.series[way], dtype=np.int64)[chosen] for way in WAYS}
        is_one = all(np.array_equal(series["marker"], series[way]) for way in WAYS)
        for way in ("marker",) if is_one else WAYS:
            octets = series[way]
            words = _BY_ALL if is_one else WAY_WORDS[way]
            peaks.append(f"{words}: {int(octets.max()) if len(octets) else 0:,}")
            # Where full order and length do the same, the dashes show both.
            mark = "dashes" if way == "length" else "line"
            style = "--" if way == "length" else "-"
            colour = look.ink if is_one else colours[way]
            sheet.keys.append(Key(colour, words, mark))
            if is_dense:
                columns = grid([times], COLUMNS * 2)
                octets = columns.extremes(times, octets, octets)[1]
                ax.stairs(np.nan_to_num(octets), columns.edges, color=colour, linestyle=style, linewidth=1.2)
            else:
                ax.step(times, octets, where="post", color=colour, linestyle=style, linewidth=1.2)
            if way == "marker" and not is_dense:
                ax.fill_between(times, octets, step="post", color=colour, alpha=0.25, linewidth=0)
        if is_dense:
            sheet.said.append(
                f"{direction} aggregated: the most in each of {COLUMNS * 2} columns of {len(seconds):,} frames"
            )
        ax.set_title(f"{direction} ({connection.half(direction).endpoint}) sends; at most {', '.join(peaks)}")
        ax.set_ylabel("octets held")
        ax.set_xlabel(f"{unit.name} since the connection began")
        ax.set_ylim(0, max(1.0, ax.get_ylim()[1]))
        ax.margins(x=0.01)
        number_axis(ax.xaxis, whole=False)
        number_axis(ax.yaxis)
    return sheet.finish(connection, "Octets a receiver had to hold (RFC 5044 appendix B)", window.words, look)
