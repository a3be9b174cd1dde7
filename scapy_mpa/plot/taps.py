"""What happened between two taps, along the stream: a row for each kind of event, axes for each half connection."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from scapy_mpa.compare.comparison import Comparison
from scapy_mpa.compare.half import KINDS, Kind
from scapy_mpa.plot.look import (
    DARK,
    GREEN,
    LIGHT,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    figure_of,
    number_axis,
    settings,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Half connections that are drawn: those with the most events.
_MOST = 6
_COLOURS: dict[Kind, str] = {
    "changed": VERMILION,
    "cut": SKY,
    "joined": SKY,
    "recut": SKY,
    "lost": ORANGE,
    "not-captured": YELLOW,
    "repeated": PURPLE,
    "unknown": YELLOW,
    "reordered": GREEN,
    "delayed": GREEN,
}
_TAPS = ("SENDER", "RECEIVER")


def taps_figure(found: Comparison, *, dark: bool = False) -> Figure:
    """Draw a comparison; the first 1,000 events of each kind are there. matplotlib must be installed."""
    look = DARK if dark else LIGHT
    halves = [(one, half) for one in found.connections for half in one.halves.values() if any(half.segments)]
    drawn = sorted(halves, key=lambda pair: -sum(pair[1].counts.values()))[:_MOST]
    drawn.sort(key=lambda pair: (pair[0].number, pair[1].direction))
    kinds = [kind for kind in KINDS if any(half.counts[kind] for _, half in drawn)]
    with settings(look):
        figure, axes = figure_of(max(1, len(drawn)), 0.7 + 0.22 * len(kinds))
        for ax, (one, half) in zip(axes, drawn, strict=False):
            for row, kind in enumerate(reversed(kinds)):
                if kind == "changed":
                    spans = [(change.offset, max(1, change.octets)) for change in half.changes]
                else:
                    spans = [(event.offset, max(1, event.octets)) for event in half.events if event.kind == kind]
                ax.broken_barh(spans, (row + 0.15, 0.7), facecolors=_COLOURS[kind])
                # An octet is narrower than a line of the picture.
                ax.plot(
                    [start + octets / 2 for start, octets in spans],
                    [row + 0.5] * len(spans),
                    linestyle="none",
                    marker="|",
                    markersize=8,
                    color=_COLOURS[kind],
                )
            ax.set_yticks(
                [row + 0.5 for row in range(len(kinds))],
                [f"{kind} ({half.counts[kind]})" for kind in reversed(kinds)],
            )
            ax.set_ylim(0, max(1, len(kinds)))
            ax.set_xlabel("offset in the stream, octets")
            number_axis(ax.xaxis)
            way = f"{_TAPS[half.sender_tap]} to {_TAPS[1 - half.sender_tap]}"
            took = f", {1e3 * half.delays[1]:.3f} ms" if half.delays is not None else ""
            ax.set_title(f"connection {one.number}, {half.direction} sends ({way}{took})")
        for ax in axes[len(drawn) :]:
            ax.set_axis_off()
        said = (
            ""
            if len(drawn) == len(halves)
            else f"the {len(drawn)} of {len(halves)} half connections with the most events"
        )
        if not kinds:
            said = "nothing happened in transit"
        figure.suptitle("\n".join(["Between two taps", *textwrap.wrap(said, 132)]), x=0.01, ha="left", fontsize=10)
    return figure
