"""``sequence``: the time-sequence graph in tcptrace's manner, with FPDUs placed early and in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import unwrap
from scapy_mpa.plot.look import (
    GREEN,
    OPEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    Key,
    Look,
    Sheet,
    number_axis,
)
from scapy_mpa.plot.thin import COLUMNS, Grid, grid
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import MOST_EACH, NOTHING, HalfView, Stretch, Subject, TimeMark, holes, unacknowledged
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Holes that are drawn one by one; findings.
_MOST_HOLES, _MOST_FINDINGS = 100, 12
_SECOND = 1_000_000_000
_SIGNS = {"error": "X", "warning": "^", "note": "o"}


def sequence(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the time-sequence graph; raises as :meth:`Connection.plot` does."""
    shown = subject.views(window, acks=True)
    sheet = Sheet(len(shown), 3.4, nothing=NOTHING)
    marks = subject.marks(window)
    columns = [column for view in shown for column in (view.segments.time, view.fpdus.time)]
    timeline = Timeline.of(columns, marks)
    drawn = [sheet.axes(number)[0] for number in range(len(shown))]
    timeline.lay(drawn)
    above: list[str] = []
    for ax, view in zip(drawn, shown, strict=True):
        drawing = _Sequence(subject.connection, view, window, look, ax, timeline)
        drawing.draw(marks, [one.direction for one in shown])
        sheet.keys += drawing.keys
        sheet.said += drawing.said
        above += drawing.above
    if above:
        sheet.said.append(f"the window ends far above what is drawn: {' and '.join(above)}")
    return sheet.finish(subject.heading("Time and sequence", window), look)


class _Sequence:
    """The graph of one half connection."""

    def __init__(
        self, connection: Connection, view: HalfView, window: Stretch, look: Look, ax: Axes, timeline: Timeline
    ) -> None:
        self._connection = connection
        self._view = view
        self._window = window
        self._look = look
        self._ax = ax
        self.keys: list[Key] = []
        self.said: list[str] = []
        #: The side, if its window ends above what is drawn.
        self.above: list[str] = []
        self._timeline = timeline
        self._unit = timeline.unit

    def draw(self, marks: list[TimeMark], shown: list[Role]) -> None:
        """Draw it; ``shown`` are those who have axes."""
        view, ax = self._view, self._ax
        is_dense = max(len(view.segments.start), view.fpdu_count) > MOST_EACH
        # What is known about the window before and after what is drawn would only stretch the picture.
        if is_dense:
            self._draw_dense()
        else:
            self._draw_each()
        self._draw_acks(is_dense)
        self._draw_holes()
        self._draw_findings()
        ax.set_ylabel("octet of the stream")
        number_axis(ax.yaxis)
        ax.grid(axis="y")
        ax.set_ylim(bottom=max(ax.get_ylim()[0], -0.03 * ax.get_ylim()[1]))
        self._draw_unacknowledged()
        fpdus = view.fpdus
        early, reset = int(fpdus.is_early.sum()), int(fpdus.count[fpdus.is_reset].sum())
        said = [f"{len(view.segments.start):,} segments, {view.fpdu_count:,} FPDUs"]
        said += [f"{early:,} placed early"] if early else []
        said += [f"{reset:,} sent after the RST"] if reset else []
        ax.set_title(f"{view.direction} ({self._connection.half(view.direction).endpoint}): {', '.join(said)}")
        self._timeline.mark(ax, marks, shown, view.direction, self._look)

    def _draw_unacknowledged(self) -> None:
        """The octets at the end of the stream that the peer never acknowledged."""
        found = unacknowledged(self._connection, self._view)
        if found is None:
            return
        octets = self._connection.lifecycle.half(self._view.direction).unacknowledged_octets
        self._ax.axhspan(*found, facecolor=VERMILION, alpha=0.12, linewidth=0)
        words = f"{octets:,} octets never acknowledged"
        box = {"facecolor": self._look.back, "edgecolor": "none", "pad": 1.2}
        self._ax.text(
            0.012, found[1], words, transform=self._ax.get_yaxis_transform(), va="top", fontsize=8.5, bbox=box
        )  # fmt: skip

    def _draw_each(self) -> None:
        import numpy as np

        view, ax, scale = self._view, self._ax, self._unit.a_second
        segments, fpdus = view.segments, view.fpdus
        for which, colour in ((segments.is_new & ~segments.is_late, self._look.plain), (segments.is_late, ORANGE)):
            if which.any():
                ax.vlines(
                    segments.time[which] * scale, segments.start[which], segments.end[which], color=colour, lw=1.8
                )
        if segments.is_new.any():
            self.keys.append(Key(self._look.plain, "segment", "|"))
        for which, colour, words, mark in (
            (segments.is_late, ORANGE, "segment out of order", "^"),
            (~segments.is_new, PURPLE, "segment sent again", "v"),
        ):
            if which.any():
                ax.plot(segments.time[which] * scale, segments.start[which], mark, color=colour, markersize=4.5)
                self.keys.append(Key(colour, words, mark))
        middle = (fpdus.start + fpdus.end) / 2
        for which, colour, words, mark, size in (
            (~fpdus.is_early & ~fpdus.is_bad & ~fpdus.is_reset, SKY, "FPDU placed in order", ".", 6),
            (fpdus.is_early, GREEN, "FPDU placed early", "D", 3.5),
            (fpdus.is_bad, VERMILION, "FPDU with a bad CRC", "x", 6),
            (fpdus.is_reset, VERMILION, "FPDU sent after the RST", "1", 6),
        ):
            if np.any(which):
                ax.plot(fpdus.time[which] * scale, middle[which], mark, color=colour, markersize=size)
                self.keys.append(Key(colour, words, mark if mark != "." else "o"))

    def _draw_dense(self) -> None:
        """Columns of time: from the lowest octet to the highest; FPDUs placed early, a place once."""
        import numpy as np

        view, ax, scale = self._view, self._ax, self._unit.a_second
        segments, fpdus = view.segments, view.fpdus
        columns: Grid = grid([segments.time, fpdus.time])
        edges = [edge * scale for edge in columns.edges]
        for which, colour, words in (
            (segments.is_new & ~segments.is_late, self._look.plain, "segments"),
            (segments.is_late, ORANGE, "segments out of order"),
            (~segments.is_new, PURPLE, "segments sent again"),
        ):
            if which.any():
                low, high = columns.extremes(segments.time[which], segments.start[which], segments.end[which])
                ax.stairs(high, edges, baseline=low, fill=True, color=colour, linewidth=0, alpha=0.8)
                self.keys.append(Key(colour, words))
        top = float(segments.end.max()) if len(segments.end) else 1.0
        rows = Grid(0.0, top / COLUMNS or 1.0, COLUMNS)
        for which, colour, words, mark in (
            (fpdus.is_early, GREEN, "FPDUs placed early", "s"),
            (fpdus.is_bad, VERMILION, "FPDUs with a bad CRC", "x"),
            (fpdus.is_reset, VERMILION, "FPDUs sent after the RST", "1"),
        ):
            if np.any(which):
                cells = np.unique(columns.of(fpdus.time[which]) * COLUMNS + rows.of(fpdus.start[which]))
                across, up = cells // COLUMNS, cells % COLUMNS
                ax.plot(
                    (columns.first + (across + 0.5) * columns.width) * scale,
                    rows.first + (up + 0.5) * rows.width,
                    mark,
                    color=colour,
                    markersize=1.6 if mark == "s" else 5,
                )
                self.keys.append(Key(colour, words, mark))
        self.said.append(
            f"{view.direction} aggregated: too many to draw one by one, so each of {COLUMNS} columns of time reaches "
            "from the lowest octet to the highest"
        )

    def _draw_acks(self, is_dense: bool) -> None:
        import numpy as np

        acks, ax = self._view.acks, self._ax
        first, last = self._timeline.first, self._timeline.last
        kept = (acks.time >= first) & (acks.time <= last)
        times, ack, edge = acks.time[kept], acks.ack[kept], acks.edge[kept]
        if not len(times):
            return
        for values, colour, words, mark in (
            (ack, self._look.blue, "acknowledged", "line"),
            (edge, self._look.faint, "end of the window", "dashes"),
        ):
            known = values >= 0
            if not known.any():
                continue
            x, y = times[known], values[known]
            if is_dense:
                columns = grid([x])
                y = columns.extremes(x, y, y)[1]
                x = columns.first + (np.arange(COLUMNS) + 1) * columns.width
                x, y = x[~np.isnan(y)], y[~np.isnan(y)]
            style = "-" if mark == "line" else "--"
            low, top = ax.get_ylim()
            highest = top + 0.4 * (top - low)
            if mark == "dashes" and float(np.min(y)) > highest:
                self.above.append(self._view.direction)
                continue
            ax.step(x * self._unit.a_second, y, where="post", color=colour, linestyle=style, linewidth=1.1)
            if mark == "dashes":
                ax.set_ylim(low, min(float(np.max(y)) * 1.03, highest))
            self.keys.append(Key(colour, words, mark))

    def _draw_holes(self) -> None:
        missing = holes(self._view)
        for first, end in missing[:_MOST_HOLES]:
            self._ax.axhspan(first, end, facecolor="none", edgecolor=VERMILION, hatch="////", linewidth=0.8)
        if missing:
            self.keys.append(Key(VERMILION, "never captured", "hatch"))
            if len(missing) > _MOST_HOLES:
                self.said.append(f"{_MOST_HOLES} of {len(missing):,} holes drawn")

    def _draw_findings(self) -> None:
        """Draw findings at their first frame and sequence number."""
        half = self._connection.half(self._view.direction)
        begun, scale = self._connection.lifecycle.first[1], self._unit.a_second
        there: list[Finding] = [
            found
            for found in self._connection.findings
            if found.direction == self._view.direction and self._window.has(found.frame, found.time_ns)
        ]
        top = self._ax.get_ylim()[1]
        places: dict[tuple[float, float], list[str]] = {}
        for number, found in enumerate(there[:_MOST_FINDINGS], 1):
            time = (found.time_ns - begun) / _SECOND
            if half.seq_start is None or not self._timeline.first <= time <= self._timeline.last:
                continue
            near = self._near(time)
            place = unwrap(found.seq, near, half.seq_start)
            mark = _SIGNS[found.severity]
            self._ax.plot(
                [time * scale], [min(max(place, 0), top)], mark, color=self._look.back, markersize=8,
                markeredgecolor=self._look.ink, markeredgewidth=1.2, zorder=5, clip_on=False,
            )  # fmt: skip
            places.setdefault((time * scale, min(max(place, 0), top)), []).append(str(number))
            words = f"{found.severity} {number} ({self._view.direction}): {found.rule.id}, frame {found.frame}"
            self.keys.append(Key(self._look.ink, words, OPEN + mark))
        for at, numbers in places.items():
            self._ax.annotate(", ".join(numbers), at, textcoords="offset points", xytext=(7, 4), fontsize=8)
        if len(there) > _MOST_FINDINGS:
            self.said.append(f"{_MOST_FINDINGS} of {len(there)} findings of the {self._view.direction} drawn")

    def _near(self, time: float) -> int:
        """About where the stream is at a time: sequence numbers repeat after 4 GiB."""
        import numpy as np

        segments = self._view.segments
        if not len(segments.time):
            return 0
        index = min(int(np.searchsorted(segments.time, time)), len(segments.time) - 1)
        return int(segments.end[index])
