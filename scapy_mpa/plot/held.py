"""``held``: octets a receiver had to hold over time (RFC 5044 appendix B): by full order, by length, by Marker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scapy_mpa.framing.role import Role
from scapy_mpa.plot.look import ORANGE, PURPLE, Key, Look, NothingToDraw, Sheet, number_axis
from scapy_mpa.plot.thin import COLUMNS, grid
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import NOTHING, Stretch, Subject, inside
from scapy_mpa.report.buffers import WAY_WORDS, WAYS, Way
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scapy_mpa.plot.view import Column

_SECOND = 1_000_000_000
#: Steps that are drawn one by one.
_MOST_STEPS = 600
#: Points of the curve of each way.
_WIDTHS = (4.5, 2.8, 1.1)
#: How the peak of a way is named above the axes.
_PEAK_OF: dict[Way, str] = {"order": "full order", "length": "length", "marker": "Marker and length"}


def held(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the octets held; raises as :meth:`Connection.plot` does."""
    import numpy as np

    connection = subject.connection
    shown = [direction for direction in subject.directions if len(connection.half(direction).fpdus)]
    sheet = Sheet(len(shown), 2.1, nothing=NOTHING)
    begun = connection.lifecycle.first[1]
    if not any(held.peak for direction in shown for held in subject.buffers(direction).held.values()):
        raise NothingToDraw(_nothing_held(subject, shown))
    colours = dict(zip(WAYS, (ORANGE, PURPLE, look.blue), strict=True))
    drawn = {}
    for direction in shown:
        track = subject.track(direction)
        frames, all_times = np.frombuffer(track.frames, dtype=np.uint64), np.frombuffer(track.times, dtype=np.int64)
        chosen = inside(frames, all_times, window)
        drawn[direction] = chosen, (all_times[chosen] - begun) / _SECOND
    marks = subject.marks(window)
    timeline = Timeline.of([seconds for _, seconds in drawn.values()], marks)
    panels = [sheet.axes(number)[0] for number in range(len(drawn))]
    timeline.lay(panels)
    for ax, (direction, (chosen, seconds)) in zip(panels, drawn.items(), strict=True):
        found = subject.buffers(direction)
        times = seconds * timeline.unit.a_second
        is_dense = len(seconds) > _MOST_STEPS
        peaks = []
        series = {way: np.array(found.series[way], dtype=np.int64)[chosen] for way in WAYS}
        for alike in _alike(series):
            way = alike[0]
            octets = series[way]
            most = plural(int(octets.max()) if len(octets) else 0, "octet", thousands=True)
            peaks.append(f"{_peak_of(alike)}: {most}")
            mark, style = ("dashes", "--") if alike == ("length",) else ("line", "-")
            colour = look.ink if len(alike) == len(WAYS) else colours[way]
            # A curve that lies below others is wider, so that it is seen where they meet.
            width = _WIDTHS[WAYS.index(alike[-1])]
            sheet.keys.append(Key(colour, _words(alike), mark))
            if is_dense:
                columns = grid([times], COLUMNS * 2)
                octets = columns.extremes(times, octets, octets)[1]
                ax.stairs(np.nan_to_num(octets), columns.edges, color=colour, linestyle=style, linewidth=width)
            else:
                ax.step(times, octets, where="post", color=colour, linestyle=style, linewidth=width)
            if "marker" in alike and not is_dense:
                ax.fill_between(times, octets, step="post", color=colour, alpha=0.25, linewidth=0)
        if is_dense:
            sheet.said.append(
                f"{direction} aggregated: the most in each of {COLUMNS * 2} columns of {len(seconds):,} frames"
            )
        ax.set_title(f"{direction} ({connection.half(direction).endpoint}) sends; {'; '.join(peaks)}")
        ax.set_ylabel("octets held")
        ax.set_ylim(0, max(1.0, ax.get_ylim()[1]))
        number_axis(ax.yaxis)
        ax.grid(axis="y")
        timeline.mark(ax, marks, shown, direction, look)
    return sheet.finish(subject.heading("Octets a receiver holds (RFC 5044 appendix B)", window), look)


def _nothing_held(subject: Subject, shown: Sequence[Role]) -> str:
    """The sentence about a connection whose receivers held nothing."""
    number = subject.connection.number
    said = f"no receiver of connection {number} held octets: each FPDU arrived in one frame, and in order"
    left = sum(subject.connection.lifecycle.half(direction).unacknowledged_octets for direction in shown)
    return said + (f"; --kind sequence shows the {left:,} octets that were never acknowledged" if left else "")


def _alike(series: dict[Way, Column]) -> list[tuple[Way, ...]]:
    """The ways, those together whose curves are one."""
    import numpy as np

    found: list[tuple[Way, ...]] = []
    for way in WAYS:
        same = next((alike for alike in found if np.array_equal(series[alike[0]], series[way])), None)
        if same is None:
            found.append((way,))
        else:
            found[found.index(same)] = (*same, way)
    return found


def _words(alike: tuple[Way, ...]) -> str:
    """The line of the legend of a curve."""
    return " = ".join(WAY_WORDS[way] for way in alike)


def _peak_of(alike: tuple[Way, ...]) -> str:
    """Return whose peak a number above the axes is."""
    return "peak" if len(alike) == len(WAYS) else f"peak, {' or '.join(_PEAK_OF[way] for way in alike)}"
