"""``latency``: how long each Request and each call waited for its answer, over time; the slowest ones by name."""

from __future__ import annotations

from collections.abc import Iterator
from math import cos, log10, pi, sin
from textwrap import wrap
from typing import TYPE_CHECKING

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.plot.answers import Answered, Slowest, answers
from scapy_mpa.plot.look import GREEN, PURPLE, Key, Look, NothingToDraw, Sheet, time_text
from scapy_mpa.plot.thin import COLUMNS
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import Stretch, Subject, TimeMark
from scapy_mpa.rdmap.spread import Spread
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scapy_mpa.plot.view import Column

#: Answers that are drawn one by one; that are named.
_MOST_ANSWERS, _NAMED = 2000, 6
#: Rows of a decade where answers are not drawn one by one.
_DECADE = 40
_SECOND = 1_000_000_000
_MARKERS: dict[Role, str] = {"initiator": "o", "responder": "s"}
#: Characters of what a message says.
_TEXT = 50
#: The part of the picture's width that the axes have; where, in theirs, the list begins; the height of its lines.
_WIDTH, _LIST, _LINE = 0.64, 1.03, 0.046
#: Points of the axes, about; from the middle of a number to a dot that it does not cover, and to another number; from
#: its line to what that passes.
_POINTS, _NUMBER, _APART, _DOT = (450.0, 240.0), (6.0, 8.0), (8.0, 12.0), 4.0
#: Parts of a line that nothing covers.
_PARTS = (0.4, 0.6, 0.8)
#: Points from a dot to its number, and in how many directions; one nearer than this needs no line, unless another dot
#: is hardly farther away.
_DISTANCES, _DIRECTIONS, _BESIDE, _CLEAR = (9.0, 16.0, 24.0, 34.0, 46.0, 60.0), 16, 9.5, 5.0


class _Kind:
    """The answers of one kind to one side: exactly as long as they are few, else by the place in the picture."""

    def __init__(self) -> None:
        self.spread = Spread()
        #: The frame of the slowest.
        self.frame = 0
        self.exact: list[tuple[float, float]] = []
        self.cells: set[tuple[int, int]] = set()


class _Found(NamedTuple):
    """What is drawn: kinds, the slowest, from when to when."""

    kinds: dict[tuple[Role, str], _Kind]
    slowest: list[Answered]


def latency(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the latencies; raises as :meth:`Connection.plot` does, CaptureError if a capture is gone."""
    connection = subject.connection
    life = connection.lifecycle
    begun = life.first[1]
    column = max((life.last[1] - begun) / _SECOND / COLUMNS, 1e-9)
    found = _found(subject, window, column) if connection.fpdu_count else _Found({}, [])
    if not found.kinds:
        raise NothingToDraw(
            "no answered RDMA Read, Atomic or call is within what is drawn; --kind lanes draws messages"
        )
    sheet = Sheet(1, 4.2)
    (ax,) = sheet.axes(0)
    marks = [mark for mark in subject.marks(window) if mark.what != "first FPDU"]
    timeline = _timeline(found, marks, column)
    timeline.lay([ax])
    colours = {"call": look.send, "RDMA Read": GREEN, "Atomic": PURPLE}
    for (side, what), kind in found.kinds.items():
        points = [*kind.exact, *((_time(x, column), 10 ** (y / _DECADE)) for x, y in sorted(kind.cells))]
        ax.plot(
            [time * timeline.unit.a_second for time, _ in points], [seconds for _, seconds in points], _MARKERS[side],
            color=colours[what], markersize=2.5 if kind.cells else 4.5, markeredgewidth=0, alpha=0.85,
        )  # fmt: skip
        sheet.keys.append(Key(colours[what], f"{what} of the {side}", _MARKERS[side]))
    _label(ax, found, begun, timeline, look)
    ax.set_title("each dot is an answer, at the time of its request")
    timeline.mark(ax, marks, (), "initiator", look, _WIDTH)
    if any(kind.cells for kind in found.kinds.values()):
        sheet.said.append(f"aggregated: more than {_MOST_ANSWERS:,} of a kind, so a dot stands for all at its position")
    heading = subject.heading("Latency: how long each answer took", window)
    protocol = connection.upper_layer.protocol
    said = tuple(_words(what, side, kind, protocol) for (side, what), kind in found.kinds.items())
    return sheet.finish(heading._replace(verdict=(*heading.verdict, *said)), look, width=_WIDTH)


def _found(subject: Subject, window: Stretch, column: float) -> _Found:
    connection = subject.connection
    begun = connection.lifecycle.first[1]
    kinds: dict[tuple[Role, str], _Kind] = {}
    slowest = Slowest(_NAMED)
    with subject.rows() as rows:
        for wait in answers(rows()):
            if wait.side not in subject.directions or not window.has(wait.frame, wait.time):
                continue
            kind = kinds.setdefault((wait.side, wait.what), _Kind())
            if not kind.spread.count or wait.latency > kind.spread.most:
                kind.frame = wait.frame
            kind.spread.add(wait.latency)
            slowest.add(wait)
            _place(kind, (wait.time - begun) / _SECOND, max(wait.latency, 1) / _SECOND, column)
        order = sorted(kinds.items(), key=lambda item: (ROLES.index(item[0][0]), item[0][1]))
        return _Found(dict(order), slowest.found(rows()))


def _place(kind: _Kind, time: float, seconds: float, column: float) -> None:
    if not kind.cells:
        kind.exact.append((time, seconds))
        if len(kind.exact) <= _MOST_ANSWERS:
            return
    for at, took in kind.exact or [(time, seconds)]:
        kind.cells.add((int(at / column), round(log10(took) * _DECADE)))
    kind.exact = []


def _time(cell: int, column: float) -> float:
    return (cell + 0.5) * column


def _timeline(found: _Found, marks: list[TimeMark], column: float) -> Timeline:
    import numpy as np

    times: list[float] = []
    for kind in found.kinds.values():
        times += [time for time, _ in kind.exact]
        times += [_time(cell, column) for cell, _ in kind.cells]
    return Timeline.of([np.array(times)], marks)


def _words(what: str, side: Role, kind: _Kind, protocol: str | None) -> str:
    """The sentence about a kind."""
    spread = kind.spread
    named = f" ({protocol})" if what == "call" and protocol is not None else ""
    said = f"{plural(spread.count, what, thousands=True)}{named} of the {side.capitalize()} answered"
    if spread.count == 1:
        return f"{said}, after {time_text(spread.most / _SECOND)}."
    median, most = (time_text(one / _SECOND) for one in (spread.median(), spread.most))
    return f"{said}, after {median} (median) and {most} at most (frame {kind.frame})."


def _label(ax: Axes, found: _Found, begun: int, timeline: Timeline, look: Look) -> None:
    """Number the slowest, and name them beside the axes."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    seconds = [kind.spread.least / _SECOND for kind in found.kinds.values()]
    least, most = max(min(seconds), 1e-9), max(found.slowest[0].latency, 1) / _SECOND
    room = max(most / least, 10.0) ** 0.1
    ax.set_yscale("log")
    ax.set_ylim(least / room, most * room)
    ax.yaxis.set_major_formatter(FuncFormatter(_tick))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.grid(axis="y")
    ax.set_ylabel("latency")
    ax.text(_LIST, 1.0, "The slowest", transform=ax.transAxes, fontsize=9, weight="bold", va="top", in_layout=False)
    y = 1.0 - 1.5 * _LINE
    places = [
        ((wait.time - begun) / _SECOND * timeline.unit.a_second, max(wait.latency, 1) / _SECOND)
        for wait in found.slowest
    ]
    dots = [(x, y) for line in ax.lines for x, y in zip(*line.get_data(), strict=True)]
    for number, (wait, place, label) in enumerate(
        zip(found.slowest, places, _labels(ax, places, dots), strict=True), 1
    ):
        leader = {"arrowstyle": "-", "color": look.soft, "linewidth": 0.6, "shrinkA": 0.5, "shrinkB": 2.5}
        ax.annotate(
            str(number), place, xytext=label.offset, textcoords="offset points", fontsize=8, ha="center", va="center",
            arrowprops=leader if label.has_line else None,
        )  # fmt: skip
        words = f"{number}   {time_text(wait.latency / _SECOND)}, frames {wait.frame} to {wait.answer_frame}"
        ax.text(_LIST, y, words, transform=ax.transAxes, fontsize=8.5, va="top", in_layout=False)
        y -= _LINE
        for line in wrap(wait.text or wait.what, _TEXT, max_lines=2, placeholder=" …"):
            ax.text(
                _LIST + 0.03, y, line, transform=ax.transAxes, fontsize=8, va="top", color=look.soft, in_layout=False
            )  # fmt: skip
            y -= _LINE
        y -= 0.3 * _LINE


class _Label(NamedTuple):
    """Where the number of a dot is, in points from it, and whether a line leads from there to the dot."""

    offset: tuple[float, float]
    has_line: bool


def _labels(ax: Axes, places: list[tuple[float, float]], dots: list[tuple[float, float]]) -> list[_Label]:
    """Return where the number of each place is: nearest to its own dot, or with a line to it, and covering nothing."""
    import numpy as np

    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()

    def points(there: list[tuple[float, float]]) -> Column:
        x, y = np.array(there, dtype=float).T
        across = (x - left) / (right - left) * _POINTS[0]
        return np.stack((across, np.log10(y / low) / log10(high / low) * _POINTS[1]), axis=1)

    everything, mine = points([*dots, *places]), points(places)
    numbers: list[Column] = []
    found = []
    for dot in mine:
        others = everything[np.abs(everything - dot).max(axis=1) > 0.5]
        written = np.array(numbers).reshape(-1, 2)
        best = min((_drawback(dot, offset, others, written), offset) for offset in _offsets())[1]
        has_line = float(np.hypot(*best)) > _BESIDE or _nearest(others - dot - best) < np.hypot(*best) + _CLEAR
        numbers.append(dot + best)
        if has_line:
            # Nothing is to cover the line, as if it were dots.
            everything = np.concatenate((everything, [dot + part * np.array(best) for part in _PARTS]))
        found.append(_Label(best, bool(has_line)))
    return found


def _drawback(
    dot: Column, offset: tuple[float, float], dots: Column, numbers: Column
) -> tuple[int, int, int, int, float, float]:
    """Return what is bad about a number there, the worst first.

    It is outside, covers numbers, covers dots, its line passes others or is too short; it is far away, or not to the
    right.
    """
    import numpy as np

    middle, distance = dot + offset, round(float(np.hypot(*offset)), 6)
    is_outside = not (0 <= middle[0] <= _POINTS[0] and 0 <= middle[1] <= _POINTS[1])
    over_numbers, over_dots = (
        int((np.abs(one - middle) < size).all(axis=1).sum()) for one, size in ((numbers, _APART), (dots, _NUMBER))
    )
    passed = 0
    if distance > _BESIDE or _nearest(dots - middle) < distance + _CLEAR:
        # So short a line would not be seen.
        passed = int(distance <= _BESIDE)
        passed += sum(_nearest(_from_line(one, dot, middle)) <= _DOT for one in (numbers, dots))
    return int(is_outside), over_numbers, over_dots, passed, distance, -round(offset[0], 6)


def _nearest(vectors: Column) -> float:
    """Return the length of the shortest of some vectors."""
    import numpy as np

    return float(np.hypot(*vectors.T).min(initial=np.inf))


def _offsets() -> Iterator[tuple[float, float]]:
    """Yield where a number may be, as seen from its dot."""
    for distance in _DISTANCES:
        for step in range(_DIRECTIONS):
            angle = step * 2 * pi / _DIRECTIONS
            yield distance * cos(angle), distance * sin(angle)


def _from_line(points: Column, begin: Column, end: Column) -> Column:
    """Return how some points lie from the nearest point of a line between two others."""
    import numpy as np

    along = end - begin
    part = np.clip((points - begin) @ along / float(along @ along), 0, 1)
    return points - begin - part[:, None] * along


def _tick(value: float, _: object) -> str:
    number, _, unit = time_text(value).partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {unit}"
