"""``overview``: the connections of captures as bars: when each began and ended, how, and what was found in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from textwrap import shorten, wrap
from typing import TYPE_CHECKING

from scapy_mpa.plot.look import (
    DARK,
    LIGHT,
    OPEN,
    ORANGE,
    SKY,
    VERMILION,
    Heading,
    Key,
    Look,
    NothingToDraw,
    Sheet,
    check_matplotlib,
    number_axis,
    settings,
    time_unit,
)
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.ranking import gravest, worst_first
from scapy_mpa.report.text import ending
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Connections that have a bar, and findings of each that have a mark.
_MOST_BARS, _MOST_FINDINGS = 40, 12
#: Inches of a bar, and of the picture of how many are open; what part of the width has bars; characters of a verdict
#: and of a name.
_ROW, _OPEN, _BARS, _VERDICT, _NAME = 0.36, 1.1, 0.6, 74, 46
_SECOND = 1_000_000_000
_SIGNS = {"error": "X", "warning": "^", "note": "o"}
#: How a connection ended: words, marker, and whether that is no good.
_ENDS = {
    "fin": ("FIN", "|", False),
    "rst": ("RST", "x", True),
    "terminate": ("Terminate", "D", True),
    "rejected": ("rejected", "s", True),
    "lost": ("lost", "x", True),
    "open": ("open when the capture ends", ">", False),
}


def draw_overview(connections: Sequence[Connection], captures: Sequence[str], *, dark: bool = False) -> Figure:
    """Draw the connections of a report.

    Args:
        connections: in any order.
        captures: the names of what they are of.
        dark: whether the background is dark.

    Raises:
        MPAError: matplotlib is not installed, or there is no connection.
    """
    check_matplotlib()
    if not connections:
        raise NothingToDraw("there is no MPA connection to draw")
    look = DARK if dark else LIGHT
    with settings(look):
        figure = _overview(connections, captures, look)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def _overview(connections: Sequence[Connection], captures: Sequence[str], look: Look) -> Figure:
    connections = worst_first(connections)
    drawn = connections[:_MOST_BARS]
    is_part = len(drawn) < len(connections)
    sheet = Sheet(1, len(drawn) * _ROW + 0.5 + (_OPEN if is_part else 0.0))
    begun = min(one.lifecycle.first[1] for one in connections)
    ended = max(one.lifecycle.last[1] for one in connections)
    span = (ended - begun) / _SECOND
    unit = time_unit(span)
    scale = unit.a_second / _SECOND
    (ax,) = sheet.axes(0)
    if is_part:
        part = _OPEN / (len(drawn) * _ROW + 0.5 + _OPEN)
        upper = ax.inset_axes((0.0, 1.0 - 0.7 * part, 1.0, 0.7 * part))
        _draw_open(connections, begun, scale, upper, look)
        ax.set_ylim(len(drawn) - 0.4, -0.6 - len(drawn) * part / (1 - part))
        sheet.said.append(f"the worst {len(drawn)} of {len(connections):,} connections have a bar")
    else:
        upper = None
        ax.set_ylim(len(drawn) - 0.4, -0.6)
    margin = span * unit.a_second * 0.015 or 0.5
    for each in (ax, upper):
        if each is not None:
            each.set_xlim(-margin, span * unit.a_second + margin)
            number_axis(each.xaxis, whole=False)
            each.grid(axis="x")
    for row, connection in enumerate(drawn):
        _draw_bar(connection, row, begun, scale, ax, look, sheet)
    ax.set_yticks(range(len(drawn)), [_name(one) for one in drawn])
    ax.tick_params(axis="y", length=0, labelcolor=look.ink)
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(f"{unit.name} since the first frame of these connections")
    unfinished = sum(one.lifecycle.is_unfinished for one in connections)
    ends = Counter(ending(one.lifecycle) for one in connections)
    how = ", ".join(f"{count:,} {end}" for end, count in ends.most_common())
    said = f"{plural(len(connections), 'connection', thousands=True)}: {how}."
    if unfinished:
        said += f" {unfinished:,} ended before the work was done."
    names = ", ".join(PurePath(one).name for one in captures[:3]) + (
        f" and {len(captures) - 3} more" if len(captures) > 3 else ""
    )
    return sheet.finish(Heading("Connections", names, (said,), bool(unfinished)), look, width=_BARS)


def _draw_open(connections: Sequence[Connection], begun: int, scale: float, ax: Axes, look: Look) -> None:
    """Draw how many connections are open over time."""
    import numpy as np

    first = np.array([one.lifecycle.first[1] - begun for one in connections], dtype=float) * scale
    last = np.array([one.lifecycle.last[1] - begun for one in connections], dtype=float) * scale
    times = np.concatenate((first, last))
    order = np.argsort(times, kind="stable")
    steps = np.concatenate((np.ones(len(first)), -np.ones(len(last))))[order]
    ax.step(times[order], np.cumsum(steps), where="post", color=look.blue, linewidth=1.2)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("open")
    ax.tick_params(axis="x", labelbottom=False)
    number_axis(ax.yaxis)


def _draw_bar(connection: Connection, row: int, begun: int, scale: float, ax: Axes, look: Look, sheet: Sheet) -> None:
    life = connection.lifecycle
    first, last = (life.first[1] - begun) * scale, (life.last[1] - begun) * scale
    opened = [time for time in (connection.initiator.opened, connection.responder.opened) if time is not None]
    work = min((time for _, time in opened), default=life.last[1])
    middle = min(max((work - begun) * scale, first), last)
    worst = gravest(connection)
    is_bad = life.is_unfinished or worst == "error"
    colour = VERMILION if is_bad else ORANGE if worst == "warning" else SKY
    least = 0.003 * (ax.get_xlim()[1] - ax.get_xlim()[0])
    ax.broken_barh([(first, max(middle - first, least))], (row - 0.2, 0.4), facecolor=look.faint)
    if middle < last:
        ax.broken_barh([(middle, max(last - middle, least))], (row - 0.2, 0.4), facecolor=colour)
        sheet.keys.append(Key(colour, _bar_words(colour)))
    words, marker, is_bad_end = _ENDS[life.ended]
    moment = life.ended_time or life.last[1]
    place = (moment - begun) * scale
    ink = VERMILION if is_bad_end else look.ink
    _draw_end(ax, place, row, marker, ink, look)
    sheet.keys += [Key(look.faint, "startup"), Key(ink, words, marker)]
    if life.reset_frame is not None and life.ended != "rst" and life.is_unfinished:
        _draw_end(ax, (life.reset_time - begun) * scale, row, "x", VERMILION, look)
        sheet.keys.append(Key(VERMILION, "RST", "x"))
    for found in connection.findings[:_MOST_FINDINGS]:
        sign = _SIGNS[found.severity]
        x = min(max((found.time_ns - begun) * scale, first), last)
        ax.plot(
            [x], [row - 0.33], sign, color=look.back, markersize=5.5, markeredgecolor=look.ink, markeredgewidth=0.9,
            clip_on=False, zorder=5,
        )  # fmt: skip
        sheet.keys.append(Key(look.ink, found.severity, OPEN + sign))
    verdict = connection.verdict
    lines = wrap(verdict[:1].upper() + verdict[1:], _VERDICT, max_lines=2, placeholder=" …")
    ax.text(
        1.015, row, "\n".join(lines), transform=ax.get_yaxis_transform(), va="center", fontsize=8,
        color=look.ink if is_bad else look.soft, in_layout=False,
    )  # fmt: skip


def _draw_end(ax: Axes, place: float, row: int, marker: str, colour: str, look: Look) -> None:
    """Draw a mark on a bar, which may have its colour: so the mark has an edge of that of the background."""
    for ink, width in ((look.back, 4.2), (colour, 1.8)):
        ax.plot([place], [row], marker, color=ink, markersize=9, markeredgewidth=width, clip_on=False, zorder=4)


def _name(connection: Connection) -> str:
    """The name of a connection, on two lines if it is long."""
    name = f"{connection.number}  {connection.name}"
    if len(name) <= _NAME:
        return name
    lines = (f"{connection.number}  {connection.initiator.endpoint}", name.partition(" > ")[2])
    return " >\n".join(shorten(line, _NAME, placeholder="…") for line in lines)


def _bar_words(colour: str) -> str:
    return {VERMILION: "unfinished, or with errors", ORANGE: "with warnings"}.get(colour, "without errors or warnings")
