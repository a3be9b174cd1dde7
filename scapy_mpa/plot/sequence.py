"""``sequence``: the time-sequence graph in tcptrace's manner, with FPDUs placed before their turn and at it."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    TimeUnit,
    number_axis,
    time_unit,
)
from scapy_mpa.plot.thin import COLUMNS, Grid, grid
from scapy_mpa.plot.view import HalfView, Stretch, Subject, holes
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Finding

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Segments that are drawn one by one; holes; findings.
_MOST_SEGMENTS, _MOST_HOLES, _MOST_FINDINGS = 1000, 100, 12
_SECOND = 1_000_000_000
_SIGNS = {"error": "X", "warning": "^", "note": "o"}


def sequence(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the time-sequence graph; raises as :meth:`Connection.plot` does."""
    shown = subject.views(window, acks=True)
    sheet = Sheet(len(shown), 3.6)
    for number, view in enumerate(shown):
        drawing = _Sequence(subject.connection, view, window, look, *sheet.axes(number))
        drawing.draw()
        sheet.keys += drawing.keys
        sheet.said += drawing.said
    return sheet.finish(subject.connection, "Time and sequence", window.words, look)


class _Sequence:
    """The graph of one half connection."""

    def __init__(self, connection: Connection, view: HalfView, window: Stretch, look: Look, ax: Axes) -> None:
        self._connection = connection
        self._view = view
        self._window = window
        self._look = look
        self._ax = ax
        self.keys: list[Key] = []
        self.said: list[str] = []
        there = [column for column in (view.segments.time, view.fpdus.time) if len(column)]
        first, last = min(float(one.min()) for one in there), max(float(one.max()) for one in there)
        self._span = first, last
        self._unit: TimeUnit = time_unit(last - first)

    def draw(self) -> None:
        """Draw it."""
        view, ax = self._view, self._ax
        is_dense = max(len(view.segments.start), len(view.fpdus.start)) > _MOST_SEGMENTS
        # What is known of the window before and behind what is drawn would only stretch the picture.
        if is_dense:
            self._draw_dense()
        else:
            self._draw_each()
        self._draw_acks(is_dense)
        self._draw_holes()
        self._draw_findings()
        ax.set_ylabel("octet of the stream")
        ax.set_xlabel(f"{self._unit.name} since the connection began")
        number_axis(ax.xaxis, whole=False)
        number_axis(ax.yaxis)
        first, last = (moment * self._unit.a_second for moment in self._span)
        margin = (last - first) * 0.01 or 1.0
        ax.set_xlim(first - margin, last + margin)
        ax.set_ylim(bottom=max(ax.get_ylim()[0], -0.03 * ax.get_ylim()[1]))
        early, placed = int(view.fpdus.is_early.sum()), int((~view.fpdus.is_bad).sum())
        ax.set_title(
            f"{view.direction} ({self._connection.half(view.direction).endpoint}): {len(view.segments.start):,} "
            f"segments, {placed:,} FPDUs placed, {early:,} of them before their turn"
        )

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
            (segments.is_late, ORANGE, "segment that fills a hole", "^"),
            (~segments.is_new, PURPLE, "segment sent again", "v"),
        ):
            if which.any():
                ax.plot(segments.time[which] * scale, segments.start[which], mark, color=colour, markersize=4.5)
                self.keys.append(Key(colour, words, mark))
        middle = (fpdus.start + fpdus.end) / 2
        for which, colour, words, mark, size in (
            (~fpdus.is_early & ~fpdus.is_bad, SKY, "FPDU placed at its turn", ".", 4),
            (fpdus.is_early, GREEN, "FPDU placed before its turn", "D", 3.5),
            (fpdus.is_bad, VERMILION, "FPDU with a bad CRC", "x", 6),
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
            (segments.is_late, ORANGE, "segments that fill a hole"),
            (~segments.is_new, PURPLE, "segments sent again"),
        ):
            if which.any():
                low, high = columns.extremes(segments.time[which], segments.start[which], segments.end[which])
                ax.stairs(high, edges, baseline=low, fill=True, color=colour, linewidth=0, alpha=0.8)
                self.keys.append(Key(colour, words))
        top = float(segments.end.max()) if len(segments.end) else 1.0
        rows = Grid(0.0, top / COLUMNS or 1.0, COLUMNS)
        for which, colour, words, mark in (
            (fpdus.is_early, GREEN, "FPDUs placed before their turn", "s"),
            (fpdus.is_bad, VERMILION, "FPDUs with a bad CRC", "x"),
        ):
            if np.any(which):
                cells = np.unique(columns.of(fpdus.time[which]) * COLUMNS + rows.of(fpdus.start[which]))
                across, up = cells // COLUMNS, cells % COLUMNS
                ax.plot(
                    (columns.first + (across + 0.5) * columns.width) * scale,
                    rows.first + (up + 0.5) * rows.width,
                    mark,
                    color=colour,
                    markersize=1.6,
                )
                self.keys.append(Key(colour, words, mark))
        self.said.append(
            f"{view.direction} aggregated: too many to draw one by one, so each of {COLUMNS} columns of time reaches "
            "from the lowest octet to the highest"
        )

    def _draw_acks(self, is_dense: bool) -> None:
        import numpy as np

        acks, ax = self._view.acks, self._ax
        first, last = self._span
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
                self.said.append(f"the window that the {self._view.direction} may fill ends far above")
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
        """Where findings begin: at their first frame and sequence number."""
        half = self._connection.half(self._view.direction)
        begun, scale = self._connection.lifecycle.first[1], self._unit.a_second
        there: list[Finding] = [
            found
            for found in self._connection.findings
            if found.direction == self._view.direction and self._window.has(found.frame, found.time_ns)
        ]
        top = self._ax.get_ylim()[1]
        for number, found in enumerate(there[:_MOST_FINDINGS], 1):
            time = (found.time_ns - begun) / _SECOND
            if half.seq_start is None or not self._span[0] <= time <= self._span[1]:
                continue
            near = self._near(time)
            place = unwrap(found.seq, near, half.seq_start)
            mark = _SIGNS[found.severity]
            self._ax.plot(
                [time * scale], [min(max(place, 0), top)], mark, color=self._look.back, markersize=8,
                markeredgecolor=self._look.ink, markeredgewidth=1.2, zorder=5, clip_on=False,
            )  # fmt: skip
            self._ax.annotate(
                str(number),
                (time * scale, min(max(place, 0), top)),
                textcoords="offset points",
                xytext=(7, 4),
                fontsize=8,
            )
            words = f"{found.severity} {number} ({self._view.direction}): {found.rule.id}, frame {found.frame}"
            self.keys.append(Key(self._look.ink, words, OPEN + mark))
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
