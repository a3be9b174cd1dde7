"""``sizes``: how large FPDUs and segments are."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING

from scapy_mpa.framing.role import Role
from scapy_mpa.plot.look import ORANGE, Key, Look, Sheet, number_axis, plain_numbers
from scapy_mpa.plot.view import NOTHING, Stretch, Subject
from scapy_mpa.report.buffers import AtOnce, turns
from scapy_mpa.report.connection import Connection

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Columns at most.
_COLUMNS = 60


def sizes(subject: Subject, window: Stretch, look: Look) -> Figure:
    """Draw the sizes; raises as :meth:`Connection.plot` does."""
    import numpy as np

    shown = subject.views(window)
    sheet = Sheet(len(shown), 2.1, nothing=NOTHING)
    for number, view in enumerate(shown):
        (ax,) = sheet.axes(number)
        endpoint = subject.connection.half(view.direction).endpoint
        fpdus = _fpdu_sizes(subject.connection, view.direction, window)
        segments = Counter((view.segments.end - view.segments.start).tolist())
        most = max(max(one, default=0) for one in (fpdus, segments))
        width = max(1, -(-(most + 1) // _COLUMNS))
        edges = np.arange(0, most + width + 1, width)
        # Both stand in the middle of their column: side by side what is smaller might stand right of what is larger.
        for one, colour, part in ((segments, ORANGE, 0.92), (fpdus, look.blue, 0.46)):
            counts, _ = np.histogram([*one], edges, weights=[*one.values()])
            there = counts > 0
            ax.bar((edges[:-1] + width / 2)[there], counts[there], part * width, color=colour)
        ax.set_yscale("log")
        plain_numbers(ax.yaxis)
        ax.set_ylim(bottom=0.7)
        ax.set_ylabel("number")
        ax.set_xlabel("octets on the wire")
        ax.grid(axis="y")
        number_axis(ax.xaxis)
        ax.set_title(
            f"{view.direction} ({endpoint}): {fpdus.total():,} FPDUs of {_span(fpdus)}, "
            f"{segments.total():,} segments of {_span(segments)}"
        )
        sheet.said.append(f"{view.direction}: a column is {width} octet{'s' if width > 1 else ''} wide")
    sheet.keys += [Key(ORANGE, "segments (payload)"), Key(look.blue, "FPDUs (Markers, PAD and CRC included)")]
    return sheet.finish(subject.heading("Sizes of FPDUs and segments", window), look)


def _fpdu_sizes(connection: Connection, direction: Role, window: Stretch) -> Counter[int]:
    """Return how many FPDUs there are of each size on the wire."""
    found = Counter[int]()
    for turn in turns(connection, direction):
        if isinstance(turn, AtOnce):
            if window.has(turn.run.frame, turn.run.row.time):
                found.update(turn.run.lengths)
        elif window.has(turn.record.placed_frame or turn.record.frames[-1], turn.record.time_ns):
            found[turn.record.wire_length] += 1
    return found


def _span(sizes: Counter[int]) -> str:
    """The smallest and the largest, and the median."""
    if not sizes:
        return "no octets"
    ordered, total = sorted(sizes), sizes.total()
    ends = [*accumulate(sizes[size] for size in ordered)]
    low, high = (ordered[bisect_left(ends, rank)] for rank in ((total + 1) // 2, total // 2 + 1))
    median = f"{(low + high) / 2:,.1f}".removesuffix(".0")
    return f"{min(sizes):,} to {max(sizes):,} octets (median {median})"
