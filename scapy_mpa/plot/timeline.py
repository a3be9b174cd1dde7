"""The time axis that all axes of a picture have in common, with what begins and ends the connection marked on it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING

from scapy_mpa.framing.role import Role
from scapy_mpa.plot.look import VERMILION, Look, TimeUnit, number_axis, time_unit
from scapy_mpa.plot.thin import Grid
from scapy_mpa.plot.view import TimeMark
from scapy_mpa.tuples import NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from scapy_mpa.plot.view import Column

#: Parts of the width: a character of a label; the room between two of them; marks nearer than that are one label.
_CHARACTER, _ROOM, _NEAR = 0.006, 0.012, 0.012
#: Rows of labels; points of one; labels whose sides are all tried.
_ROWS, _ROW_POINTS, _MOST_TRIED = 4, 10, 6


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
        labels = []
        for near in _together(mine, (right - left) / self.unit.a_second * _NEAR):
            is_bad = any(mark.is_bad for mark in near)
            time = near[0].time * self.unit.a_second
            ax.axvline(time, color=VERMILION if is_bad else look.soft, linewidth=0.9 if is_bad else 0.6, zorder=1.5)
            words = ", ".join(mark.words(names_side=mark.side not in shown) for mark in near)
            labels.append(_Label((time - left) / (right - left), words, len(words) * _CHARACTER / width, is_bad))
        used = 0
        for label, row in _rows(labels):
            used = max(used, row + 1)
            _write(ax, label, row, look)
        if used:
            ax.set_title(ax.get_title(loc="left"), loc="left", pad=8 + used * _ROW_POINTS)


class _Label(NamedTuple):
    """The words of marks of one place, which begin there, or end there: parts of the width."""

    place: float
    words: str
    length: float
    is_bad: bool
    ends_there: bool = False

    @property
    def start(self) -> float:
        """Where the words begin."""
        return self.place - self.length if self.ends_there else self.place

    def ways(self) -> list[_Label]:
        """Return it on either side of its place, to the right first, as far as there is room."""
        right = [self] if self.place + self.length <= 1 else []
        return right + ([self._replace(ends_there=True)] if self.place >= self.length or not right else [])


def _rows(labels: Sequence[_Label]) -> list[tuple[_Label, int]]:
    """Return the row of each label: no words cover others, nor what leads from a higher row down to the axes.

    The words lie on the side where most labels have room, in the fewest rows.
    """
    ways = [label.ways() for label in labels]
    if len(labels) > _MOST_TRIED:
        ways = [sides[:1] for sides in ways]
    tried = [_stacked(sides) for sides in product(*ways)]
    return min(tried, key=lambda found: (-len(found), max((row for _, row in found), default=0)))


def _stacked(labels: Sequence[_Label]) -> list[tuple[_Label, int]]:
    """Return the lowest free row of each label that has one.

    The labels that begin at their place come first, from right to left, then those that end there, from left to right:
    so each is free to lie above those before it.
    """
    found: list[tuple[_Label, int]] = []
    for label in sorted(labels, key=lambda one: (one.ends_there, one.place if one.ends_there else -one.place)):
        for row in range(_ROWS):
            if all(_is_apart(label, row, *other) for other in found):
                found.append((label, row))
                break
    return found


def _is_apart(label: _Label, row: int, other: _Label, other_row: int) -> bool:
    if row == other_row:
        return label.start + label.length + _ROOM <= other.start or other.start + other.length + _ROOM <= label.start
    high, low = (label, other) if row > other_row else (other, label)
    return not low.start < high.place < low.start + low.length


def _write(ax: Axes, label: _Label, row: int, look: Look) -> None:
    """Write a label beside its line, which goes up to it."""
    colour = VERMILION if label.is_bad else look.soft
    height = 2 + row * _ROW_POINTS
    if row:
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 0}
        ax.annotate(
            "", (label.place, 1.0), xytext=(0, height + 7), textcoords="offset points", xycoords="axes fraction",
            arrowprops=line, annotation_clip=False,
        )  # fmt: skip
    ax.annotate(
        label.words,
        (label.place, 1.0),
        xycoords="axes fraction",
        xytext=(-2 if label.ends_there else 2, height),
        textcoords="offset points",
        ha="right" if label.ends_there else "left",
        fontsize=8,
        color=look.alarm if label.is_bad else look.soft,
        annotation_clip=False,
    )


def _together(marks: Sequence[TimeMark], near: float) -> Iterable[list[TimeMark]]:
    """Marks that lie near each other have one label; what is no good has its own."""
    found: list[list[TimeMark]] = []
    for mark in marks:
        if found and mark.time - found[-1][0].time <= near and mark.is_bad == found[-1][0].is_bad:
            found[-1].append(mark)
        else:
            found.append([mark])
    return found
