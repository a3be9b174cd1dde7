"""The look of pictures: colours that the colour-blind can distinguish, light and dark; title, legend, axes; writing a
file.

The colours are those of Okabe and Ito. Nothing here keeps state: matplotlib's settings are changed for one figure at a
time, and pyplot, which keeps every figure, is not used. The same figure gives the same SVG, octet for octet.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.tuples import NamedTuple

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
#: Not of Okabe and Ito: an FPDU that was found by searching is rare, and must not be taken for an RDMA Read.
OLIVE = "#6b6b1f"
#: What a picture may be written as, by the ending of the file's name.
ENDINGS = ("svg", "png", "pdf")
#: Inches; dots an inch of a PNG.
_WIDTH, _DPI = 11.0, 120
#: The part of the width that is left of the labels of axes.
_MARGIN = 0.01
#: Characters of a line of the verdict, of a note, and of the legend.
_SENTENCE, _NOTE, _CHARACTERS = 150, 182, 150
#: Inches of a line: of the title, of a sentence below it, of a note, of the legend; around all.
_TITLE_LINE, _SENTENCE_LINE, _NOTE_LINE, _LEGEND_LINE, _EDGE = 0.27, 0.19, 0.16, 0.19, 0.12
#: Inches of a character of the title, and of the name of the connection.
_TITLE_CHARACTER, _NAME_CHARACTER = 0.12, 0.085


class Look(NamedTuple):
    """The colours of what is neither good nor bad: colours of one lane differ in lightness, too, for print in grey.

    Behind everything, of text, of what is said beside it, of lines, of what is all right, of RDMA Writes, of Sends, of
    a grid; and of text about what is no good, since small letters in the vermilion of marks are hard to read.
    """

    back: str
    ink: str
    soft: str
    faint: str
    plain: str
    blue: str
    send: str
    grid: str
    alarm: str


LIGHT = Look("#ffffff", "#1a1a1a", "#5a5f64", "#b8bcc0", "#767d84", BLUE, "#434c5a", "#e8eaec", "#b34700")
#: Blue is lost on black: a lighter one stands in for it.
DARK = Look("#14171a", "#e8e8e8", "#a5abb0", "#565b60", "#737a81", "#3b8fe0", "#ccd3db", "#262b30", "#ff8f52")


class MessageKind(NamedTuple):
    """Messages of one colour, wherever they are drawn: their name, opcodes, and the colour or its name in Look."""

    words: str
    opcodes: frozenset[int]
    colour: str

    def of(self, look: Look) -> str:
        """Their colour."""
        found: str = getattr(look, self.colour, self.colour)
        return found


def _opcodes(*names: str) -> frozenset[int]:
    return frozenset(opcode for opcode, name in enumerate(OPCODE_NAMES) if name and name.startswith(names))


#: All of them; what is not one of the others comes last.
MESSAGE_KINDS = (
    MessageKind("Send", _opcodes("Send"), "send"),
    MessageKind("RDMA Write", _opcodes("RDMA Write"), "blue"),
    MessageKind("RDMA Read", _opcodes("RDMA Read"), GREEN),
    MessageKind("Atomic", _opcodes("Atomic"), PURPLE),
    MessageKind("Terminate", _opcodes("Terminate"), VERMILION),
)
OTHER_MESSAGE = MessageKind("another message", frozenset(), "faint")


def kind_of(opcode: int) -> MessageKind:
    """The kind of a message by its opcode."""
    return next((kind for kind in MESSAGE_KINDS if opcode in kind.opcodes), OTHER_MESSAGE)


def kind_named(name: str | None) -> MessageKind:
    """The kind of a message by its name."""
    return kind_of(OPCODE_NAMES.index(name)) if name in OPCODE_NAMES else OTHER_MESSAGE


#: Of a bar that its colour alone would not tell from others in print.
HATCH = "////"
#: What stands before a marker that is not filled.
OPEN = "open "


class Key(NamedTuple):
    """A line of the legend: a colour, what it stands for, and the mark ("patch", "hatched", "line" or a marker)."""

    colour: str
    words: str
    mark: str = "patch"


class NothingToDraw(MPAError):
    """There is nothing to draw in this picture."""


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
                "axes.axisbelow": True,
                "axes.edgecolor": look.faint,
                "axes.labelcolor": look.soft,
                "axes.labelsize": 8.5,
                "axes.facecolor": look.back,
                "axes.titlelocation": "left",
                "axes.titlecolor": look.ink,
                "axes.titlesize": 9.5,
                "axes.titlepad": 8,
                "axes.spines.top": False,
                "axes.spines.right": False,
                "figure.facecolor": look.back,
                "grid.color": look.grid,
                "grid.linewidth": 0.7,
                "savefig.facecolor": look.back,
                "xtick.color": look.faint,
                "xtick.labelcolor": look.soft,
                "xtick.labelsize": 8.5,
                "ytick.color": look.faint,
                "ytick.labelcolor": look.soft,
                "ytick.labelsize": 8.5,
                "legend.frameon": False,
                "hatch.linewidth": 0.6,
                "hatch.color": look.ink,
                "agg.path.chunksize": 10000,
            }
        )
        yield


def figure_of(rows: int, row_height: float, more: float = 1.5) -> tuple[Figure, list[Axes]]:
    """A figure with this many axes below each other; the height of each, and what is ``more`` than these, in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH, more + rows * row_height), layout="constrained")
    axes = figure.subplots(rows, 1, squeeze=False)
    return figure, list(axes[:, 0])


class Sheet:
    """A picture while it is drawn: axes below each other for each of several things, what is said, and the legend.

    Attributes:
        said: what was done to show it, in words.
        keys: the legend.
    """

    def __init__(self, things: int, height: float, *, each: int = 1, nothing: str = "there is nothing to draw") -> None:
        """Have ``each`` axes of ``height`` inches for this many things; raises NothingToDraw if there are none."""
        if not things:
            raise NothingToDraw(nothing)
        self.figure, self._axes = figure_of(things * each, height, 0.0)
        self._each = each
        self.said: list[str] = []
        self.keys: list[Key] = []

    def axes(self, number: int) -> list[Axes]:
        """The axes of the thing with this number."""
        return self._axes[number * self._each : (number + 1) * self._each]

    def finish(self, heading: Heading, look: Look, *, width: float = 1.0) -> Figure:
        """The picture, with its heading above the axes and the legend below them, neither of which takes their room.

        ``width`` is the part of the whole one that the axes have.
        """
        engine = self.figure.get_layout_engine()
        assert engine is not None
        inches, height = self.figure.get_size_inches()
        above = _heading_height(heading, self.said)
        below = _legend_height(self.keys)
        total = height + above + below
        self.figure.set_size_inches(inches, total)
        # The page writes with another font, which may be wider: so labels do not begin at the very edge.
        engine.set(rect=(_MARGIN, below / total, width - _MARGIN, height / total))  # type: ignore[call-arg]
        _write_heading(self.figure, heading, self.said, look, total)
        _add_legend(self.figure, look, self.keys)
        return self.figure


class Heading(NamedTuple):
    """The text above the axes.

    Attributes:
        what: the picture shows.
        whose: connection, or which captures.
        verdict: what became of it, a paragraph each; none where that is said beside the picture.
        is_bad: whether it ended before its work did.
    """

    what: str
    whose: str
    verdict: tuple[str, ...] = ()
    is_bad: bool = False


def _sentences(heading: Heading) -> list[str]:
    return [line for paragraph in heading.verdict for line in textwrap.wrap(paragraph, _SENTENCE)]


def _notes(said: Sequence[str]) -> list[str]:
    return textwrap.wrap("; ".join(dict.fromkeys(part for part in said if part)), _NOTE)


def _is_beside(heading: Heading) -> bool:
    """Return True if the name of the connection has room beside the title."""
    return len(heading.what) * _TITLE_CHARACTER + len(heading.whose) * _NAME_CHARACTER < _WIDTH - 0.6


def _heading_height(heading: Heading, said: Sequence[str]) -> float:
    sentences, notes = len(_sentences(heading)) + (not _is_beside(heading)), len(_notes(said))
    return 2 * _EDGE + _TITLE_LINE + sentences * _SENTENCE_LINE + notes * _NOTE_LINE + 0.04


def _write_heading(figure: Figure, heading: Heading, said: Sequence[str], look: Look, height: float) -> None:
    """Say what a picture shows, of which connection, what became of that, and what was done to show it."""
    from matplotlib.patches import Rectangle

    left, y = 0.022, height - _EDGE
    is_beside = _is_beside(heading)
    lines: list[tuple[str, float, str, float, str]] = [
        (heading.what, 12.5, look.ink, _TITLE_LINE, "bold"),
        *([] if is_beside else [(heading.whose, 9.5, look.soft, _SENTENCE_LINE, "normal")]),
        *((line, 9.5, look.ink, _SENTENCE_LINE, "normal") for line in _sentences(heading)),
        *((line, 8, look.soft, _NOTE_LINE, "normal") for line in _notes(said)),
    ]
    bottom = height - _heading_height(heading, said) + _EDGE
    colour = VERMILION if heading.is_bad else look.faint
    figure.add_artist(
        Rectangle((0.01, bottom / height), 0.004, (y - bottom) / height, color=colour, transform=figure.transFigure)
    )
    if is_beside:
        figure.text(0.988, y / height, heading.whose, ha="right", va="top", fontsize=9.5, color=look.soft)
    for text, size, ink, step, weight in lines:
        figure.text(left, y / height, text, ha="left", va="top", fontsize=size, color=ink, weight=weight)
        y -= step


def _legend_columns(keys: Sequence[Key]) -> int:
    longest = max(len(key.words) for key in keys)
    return max(1, min(7, len(keys), _CHARACTERS // (longest + 6)))


def _legend_height(keys: Sequence[Key]) -> float:
    there = [*dict.fromkeys(keys)]
    return 2 * _EDGE + _LEGEND_LINE * -(-len(there) // _legend_columns(there)) if there else _EDGE


def _add_legend(figure: Figure, look: Look, keys: Sequence[Key]) -> None:
    """A legend below the axes, where it hides nothing."""
    if not keys:
        return
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    there = [*dict.fromkeys(keys)]
    for colour, words, mark in there:
        if mark == "patch":
            handles.append(Patch(facecolor=colour, label=words))
        elif mark == "hatched":
            handles.append(Patch(facecolor=colour, edgecolor=look.ink, linewidth=0, hatch=HATCH, label=words))
        elif mark == "hatch":
            handles.append(Patch(facecolor="none", edgecolor=colour, hatch="////", label=words))
        elif mark == "line":
            handles.append(Line2D([], [], color=colour, label=words))
        elif mark == "dashes":
            handles.append(Line2D([], [], color=colour, linestyle="--", label=words))
        elif mark == "dots":
            handles.append(Line2D([], [], color=colour, linestyle=":", label=words))
        else:
            fill: Literal["none", "full"] = "none" if mark.startswith(OPEN) else "full"
            marker = mark.removeprefix(OPEN)
            handles.append(Line2D([], [], color=colour, marker=marker, fillstyle=fill, linestyle="none", label=words))
    figure.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0.01, 0.0), ncols=_legend_columns(there), fontsize=8.5,
        labelcolor=look.soft, handlelength=1.4, columnspacing=1.6,
    )  # fmt: skip


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
    """The unit for a duration of this length."""
    if seconds >= 2:
        return TimeUnit("s", 1.0)
    return TimeUnit("ms", 1e3) if seconds >= 0.002 else TimeUnit("µs", 1e6)


_UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


def time_text(seconds: float) -> str:
    """A time as people read it, with its unit; milliseconds are rounded as those of ``messages``."""
    if not seconds:
        return "0 s"
    # What is 1,000 of a unit when rounded has the next one.
    name, factor = next((unit for unit in _UNITS if abs(seconds) * unit[1] >= 0.9995), _UNITS[-1])
    value = seconds * factor
    return f"{value:.3g} {name}" if name == "µs" else f"{value:,.3f} {name}"


def write_figure(figure: Figure, file: BinaryIO, ending: str) -> None:
    """Write a picture: the same octets for the same picture. Raises OSError if that cannot be done."""
    # PDF has the date in CreationDate, SVG in Date.
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}[ending]
    with settings(LIGHT):
        figure.savefig(file, format=ending, dpi=_DPI, metadata=metadata, facecolor=figure.get_facecolor())
