"""How pictures look: colours that the colour-blind tell apart, light and dark; title, legend, axes; writing a file.

The colours are those of Okabe and Ito. Nothing here keeps state: matplotlib's settings are changed for one figure at a
time, and pyplot, which keeps every figure, is not used. The same figure gives the same SVG, octet for octet.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NamedTuple

from scapy_mpa.errors import MPAError
from scapy_mpa.report.connection import Connection

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#f0e442",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
)
#: What a picture may be written as, by the ending of the file's name.
ENDINGS = ("svg", "png", "pdf")
#: Inches; characters of a line of the subtitle; dots an inch of a PNG.
_WIDTH, _CHARACTERS, _DPI = 11.0, 132, 120


class Look(NamedTuple):
    """The colours of what is neither good nor bad: behind everything, of text, of lines, of what is all right."""

    back: str
    ink: str
    faint: str
    plain: str
    blue: str


LIGHT = Look("#ffffff", "#1a1a1a", "#b8b8b8", "#8a8a8a", BLUE)
#: Blue is lost on black: sky blue stands in for it.
DARK = Look("#14171a", "#e8e8e8", "#565b60", "#9aa0a6", SKY)


#: What stands before a marker that is not filled.
OPEN = "open "


class Key(NamedTuple):
    """A line of the legend: a colour, what it stands for, and the kind of mark ("patch", "line" or a marker)."""

    colour: str
    words: str
    mark: str = "patch"


def check_matplotlib() -> None:
    """Raise MPAError, with the way to install it, if matplotlib is not there."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MPAError(
            "pictures are drawn by matplotlib, which is not installed: pip install 'scapy-mpa[plot]'"
        ) from None


@contextmanager
def settings(look: Look) -> Iterator[None]:
    """matplotlib's settings, whatever those of the user are."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "svg.hashsalt": "scapy-mpa",
                "svg.fonttype": "none",
                "font.size": 9,
                "font.family": "sans-serif",
                "text.color": look.ink,
                "axes.edgecolor": look.faint,
                "axes.labelcolor": look.ink,
                "axes.facecolor": look.back,
                "axes.titlelocation": "left",
                "axes.titlesize": 10,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "figure.facecolor": look.back,
                "savefig.facecolor": look.back,
                "xtick.color": look.ink,
                "ytick.color": look.ink,
                "legend.frameon": False,
                "hatch.linewidth": 0.6,
                "hatch.color": look.ink,
                "agg.path.chunksize": 10000,
            }
        )
        yield


def figure_of(rows: int, row_height: float) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes below each other; the height of each is in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, 1.5 + rows * row_height), layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False)
    return figure, list(axes[:, 0])


class Sheet:
    """A picture while it is drawn: axes below each other for each of several things, what is said, and the legend.

    Attributes:
        said: what was done to show it, in words.
        keys: the legend.
    """

    def __init__(self, things: int, height: float, *, each: int = 1, nothing: str = "there is nothing to draw") -> None:
        """Have ``each`` axes of ``height`` inches for so many things, or say that there is ``nothing``."""
        self.figure, self._axes = figure_of(max(1, things * each), height)
        self._each = each
        self.said: list[str] = []
        self.keys: list[Key] = []
        if not things:
            self._axes[0].set_axis_off()
            self.said.append(nothing)

    def axes(self, number: int) -> list[Axes]:
        """The axes of the thing with this number."""
        return self._axes[number * self._each : (number + 1) * self._each]

    def finish(self, connection: Connection, what: str, window: str, look: Look) -> Figure:
        """The picture, with what it shows, of which connection, and of that only ``window``."""
        _entitle(self.figure, connection, what, [window, *self.said])
        _add_legend(self.figure, look, self.keys)
        return self.figure


def _entitle(figure: Figure, connection: Connection, what: str, subtitle: Sequence[str]) -> None:
    """Say what a picture shows, of which connection, and what was done to show it."""
    said = "; ".join(part for part in subtitle if part)
    lines = [
        f"{what}: connection {connection.number}, {connection.name}",
        *textwrap.wrap(said, _CHARACTERS),
    ]
    figure.suptitle("\n".join(lines), x=0.01, ha="left", fontsize=10)


def _add_legend(figure: Figure, look: Look, keys: Sequence[Key]) -> None:
    """A legend below the axes, where it hides nothing."""
    if not keys:
        return
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for colour, words, mark in dict.fromkeys(keys):
        if mark == "patch":
            handles.append(Patch(facecolor=colour, label=words))
        elif mark == "hatch":
            handles.append(Patch(facecolor="none", edgecolor=colour, hatch="////", label=words))
        elif mark == "line":
            handles.append(Line2D([], [], color=colour, label=words))
        elif mark == "dashes":
            handles.append(Line2D([], [], color=colour, linestyle="--", label=words))
        else:
            fill: Literal["none", "full"] = "none" if mark.startswith(OPEN) else "full"
            marker = mark.removeprefix(OPEN)
            handles.append(Line2D([], [], color=colour, marker=marker, fillstyle=fill, linestyle="none", label=words))
    longest = max(len(key.words) for key in keys)
    columns = max(1, min(6, len(handles), _CHARACTERS // (longest + 5)))
    figure.legend(handles=handles, loc="outside lower left", ncols=columns, fontsize=8.5)


def number_axis(axis: Any, *, whole: bool = True) -> None:
    """Label an axis of octets, or with ``whole`` False of time, with thousands set apart."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=7, integer=whole))
    plain_numbers(axis)


def plain_numbers(axis: Any) -> None:
    """Label an axis with numbers, thousands set apart, never with powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    def text(value: float, _: object) -> str:
        return f"{value:,.0f}" if value == round(value) else f"{value:,g}"

    axis.set_major_formatter(FuncFormatter(text))
    axis.set_minor_formatter(NullFormatter())


class TimeUnit(NamedTuple):
    """A unit that times of a length are well told in: its name, and how many are in a second."""

    name: str
    a_second: float


def time_unit(seconds: float) -> TimeUnit:
    """The unit for what lasts so long."""
    if seconds >= 2:
        return TimeUnit("s", 1.0)
    return TimeUnit("ms", 1e3) if seconds >= 0.002 else TimeUnit("µs", 1e6)


def write_figure(figure: Figure, file: BinaryIO, ending: str) -> None:
    """Write a picture: the same octets for the same picture. Raises OSError if that cannot be done."""
    # PDF has the date in CreationDate, SVG in Date.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
    with settings(LIGHT):
        figure.savefig(file, format=ending, dpi=_DPI, metadata=metadata, facecolor=figure.get_facecolor())
