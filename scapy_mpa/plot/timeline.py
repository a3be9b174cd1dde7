"""The time axis that all axes of a picture have in common, with what begins and ends the connection marked on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from scapy_mpa.framing.role import Role
from scapy_mpa.plot.look import VERMILION, Look, TimeUnit, number_axis, time_unit
from scapy_mpa.plot.thin import Grid
from scapy_mpa.plot.view import TimeMark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scapy_mpa.plot.view import Column

#: Parts of the width: a character of a label; the room between two of them; marks nearer than that are one label.
_CHARACTER, _ROOM, _NEAR = 0.0066, 0.012, 0.012
#: Rows of labels; points of one.
_ROWS, _ROW_POINTS = 3, 10


class Timeline(NamedTuple):
    """The time span of a picture, in seconds since the connection began, and the unit of its axes."""

    first: float
    last: float
    unit: TimeUnit

    @classmethod
    def of(cls, columns: Iterable[Column], marks: Sequence[TimeMark] = ()) -> Timeline:
        """Return the span of all these times and marks."""
        times = [float(end) for column in columns if len(column) for end in (column.min(), column.max())]
        times += [mark.time for mark in marks]
        first, last = min(times, default=0.0), max(times, default=0.0)
        return cls(first, last, time_unit(last - first))

    @property
    def span(self) -> float:
        """Seconds from end to end."""
        return self.last - self.first

    def columns(self, count: int) -> Grid:
        """Return ``count`` columns of it, in the unit of the axes."""
        width = self.span / count or 1e-9
        return Grid(self.first * self.unit.a_second, width * self.unit.a_second, count)

    def lay(self, axes: Sequence[Axes]) -> None:
        """Have axes go from the first time to the last one, the lowest of them with labels."""
        margin = self.span * 0.01 or 0.5 / self.unit.a_second
        for ax in axes:
            ax.set_xlim((self.first - margin) * self.unit.a_second, (self.last + margin) * self.unit.a_second)
            number_axis(ax.xaxis, whole=False)
            ax.grid(axis="x")
        for ax in axes[:-1]:
            ax.tick_params(axis="x", labelbottom=False)
        axes[-1].set_xlabel(f"{self.unit.name} since the connection began")

    def mark(
        self,
        ax: Axes,
        marks: Sequence[TimeMark],
        shown: Sequence[Role],
        direction: Role,
        look: Look,
        width: float = 1.0,
    ) -> None:
        """Draw the marks on the axes of one side, which have their title and their limits.

        There those of this side have words, and those of nobody and of who has no axes. ``width`` is the part of the
        picture's width that the axes have.
        """
        mine = [mark for mark in marks if mark.side == direction or mark.side not in shown]
        left, right = ax.get_xlim()
        ends = [-1.0] * _ROWS
        used = 0
        for near in _together(mine, (right - left) / self.unit.a_second * _NEAR):
            is_bad = any(mark.is_bad for mark in near)
            place = (near[0].time * self.unit.a_second - left) / (right - left)
            words = ", ".join(mark.words(names_side=mark.side not in shown) for mark in near)
            length = len(words) * _CHARACTER / width
            start = place if place + length <= 1 else max(0.0, min(place, 1.0) - length)
            row = next((number for number, end in enumerate(ends) if end + _ROOM <= start), None)
            colour = VERMILION if is_bad else look.soft
            ax.axvline(near[0].time * self.unit.a_second, color=colour, linewidth=0.9 if is_bad else 0.6, zorder=1.5)
            if row is None:
                continue
            ends[row], used = start + length, max(used, row + 1)
            ax.annotate(
                words,
                (start, 1.0),
                xycoords="axes fraction",
                xytext=(2 if start == place else -2, 2 + row * _ROW_POINTS),
                textcoords="offset points",
                fontsize=8,
                color=look.alarm if is_bad else look.soft,
                annotation_clip=False,
            )
        if used:
            ax.set_title(ax.get_title(loc="left"), loc="left", pad=8 + used * _ROW_POINTS)


def _together(marks: Sequence[TimeMark], near: float) -> Iterable[list[TimeMark]]:
    """Marks that lie near each other have one label; what is no good has its own."""
    found: list[list[TimeMark]] = []
    for mark in marks:
        if found and mark.time - found[-1][0].time <= near and mark.is_bad == found[-1][0].is_bad:
            found[-1].append(mark)
        else:
            found.append([mark])
    return found
