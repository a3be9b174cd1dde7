"""``memory``: a buffer over time: what was placed in it, where and when, and how long before it was delivered.

Contents are indeterminate until delivery (RFC 5040 §5.5).  Of each side the STag is drawn that it wrote the most octets
to, or the one that was asked for.  An FPDU is a bar, as high as its octets in the buffer, from the frame that placed it
to the frame that delivered it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from scapy_mpa.framing.ddp import OPCODE_NAMES, TAGGED, TAGGED_HEADER, TAGGED_HEADER_LENGTH
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.messages.stags import CapturedMemory, STagRow
from scapy_mpa.plot.look import GREEN, VERMILION, Key, Look, Sheet, number_axis
from scapy_mpa.plot.rows import query_around, same_connection
from scapy_mpa.plot.thin import COLUMNS, grid
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import Stretch, Subject
from scapy_mpa.rdmap.assembly import Assembly, DDPSegment, MessageHalf
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scapy_mpa.plot.view import Column

#: FPDUs that are drawn one by one.
_MOST_FPDUS = 3000
_SECOND = 1_000_000_000
_WRITING = frozenset(opcode for opcode, name in enumerate(OPCODE_NAMES) if name in ("RDMA Write", "RDMA Read Response"))
_OPCODE = 0x0F
_LARGEST = (1 << 63) - 1


class _Placed:
    """Columns of what one side wrote to one STag: first octet and octets, the frames that placed and delivered it."""

    def __init__(self) -> None:
        self.tos, self.lengths = array("Q"), array("Q")
        self.placed, self.delivered = array("Q"), array("Q")
        self.octets = 0


class _Noting(Assembly):
    """Notes what is written, and puts messages together."""

    written: dict[tuple[int, int], _Placed]

    def take(self, half: MessageHalf, segment: DDPSegment) -> None:
        """The next segment of a half connection."""
        ulpdu, length = segment[:2]
        if len(ulpdu) >= TAGGED_HEADER_LENGTH < length and ulpdu[0] & TAGGED and ulpdu[1] & _OPCODE in _WRITING:
            _, _, stag, to = TAGGED_HEADER.unpack_from(ulpdu)
            there = self.written.setdefault((half.half, stag), _Placed())
            there.tos.append(to)
            there.lengths.append(length - TAGGED_HEADER_LENGTH)
            there.placed.append(segment.placed)
            there.delivered.append(segment.delivered)
            there.octets += length - TAGGED_HEADER_LENGTH
        super().take(half, segment)


class _Reading(CapturedMemory):
    """Reads captures for what is written to each STag."""

    def begin(self) -> None:
        """Forget what was received."""
        super().begin()
        self.takes_runs = False  # each segment is noted
        self.written: dict[tuple[int, int], _Placed] = {}
        noting = _Noting(self.store, acknowledged=self.acknowledged)
        noting.written = self.written
        self.assembly = noting

    def of(self, number: int) -> dict[tuple[Role, int], _Placed]:
        """Return what was written in a connection, by writer and STag."""
        shown = self.shown_halves()
        return {
            (ROLES[half & 1], stag): placed
            for (half, stag), placed in self.written.items()
            if shown.get(half) == number
        }


class _Buffer(NamedTuple):
    """What one side wrote to one STag, as columns; times are seconds since the connection began."""

    direction: Role
    stag: int
    others: int
    row: STagRow | None
    first: Column
    end: Column
    time: Column
    delivered: Column
    is_early: Column
    is_reset: Column
    base: int


def memory(subject: Subject, window: Stretch, look: Look, stag: int | None = None) -> Figure:
    """Draw buffers of a connection; raises as :meth:`Connection.plot` does, CaptureError if a capture is gone."""
    connection = subject.connection
    nothing = "nothing was written to named memory" if stag is None else f"nothing was written to STag {stag:#010x}"
    buffers = _buffers(connection, subject.directions, window, stag)
    sheet = Sheet(len(buffers), 3.4, nothing=nothing)
    marks = subject.marks(window)
    timeline = Timeline.of([column for one in buffers for column in (one.time, one.delivered)], marks)
    drawn = [sheet.axes(number)[0] for number in range(len(buffers))]
    timeline.lay(drawn)
    for ax, buffer in zip(drawn, buffers, strict=True):
        _draw(connection, buffer, ax, timeline, look, sheet)
        timeline.mark(ax, marks, [one.direction for one in buffers], buffer.direction, look)
    return sheet.finish(subject.heading("A buffer over time", window), look)


def memory_of(connections: Sequence[Connection]) -> dict[int, list[STagRow]]:
    """Return what each side of some connections of a report named, by their number, in the order in which it did.

    Raises as :class:`~scapy_mpa.messages.stags.CapturedMemory` does.
    """
    found: dict[int, list[STagRow]] = {one.number: [] for one in connections}
    if connections:
        with CapturedMemory(query_around(connections)) as reading:
            numbers = {same_connection(one, reading.report.connections): one.number for one in connections}
            for row in reading.rows():
                if row.connection in numbers:
                    found[numbers[row.connection]].append(row)
    return found


def _buffers(connection: Connection, directions: Sequence[Role], window: Stretch, stag: int | None) -> list[_Buffer]:
    import numpy as np

    buffers = []
    with _Reading(query_around([connection])) as reading:
        number = same_connection(connection, reading.report.connections)
        if number is None:
            return []
        written = reading.of(number)
        rows = {(peer_of(row.owner), row.stag): row for row in reading.rows() if row.connection == number}
        begun, at = connection.lifecycle.first[1], reading.times.at
        for direction in directions:
            mine = {one: placed for (role, one), placed in written.items() if role == direction}
            if not mine or (stag is not None and stag not in mine):
                continue
            chosen = max(mine, key=lambda one: (mine[one].octets, -one)) if stag is None else stag
            there = mine[chosen]
            base = min(there.tos)
            times = np.array([at(frame) for frame in there.placed], dtype=np.int64)
            # What is never delivered ends with the picture.
            last = int(times.max())
            ends = np.array([at(frame) if frame else last for frame in there.delivered], dtype=np.int64)
            frames = np.array(there.placed, dtype=np.int64)
            kept = np.array([window.has(int(f), int(t)) for f, t in zip(frames, times, strict=True)], dtype=bool)
            if not kept.any():
                continue
            first = np.array([min(to - base, _LARGEST) for to in there.tos], dtype=np.float64)
            end = first + np.array(there.lengths, dtype=np.float64)
            reset = connection.lifecycle.reset_frame
            is_reset = frames > reset if reset is not None else np.zeros(len(frames), dtype=bool)
            is_early = (np.array(there.delivered, dtype=np.int64) != frames) & ~is_reset
            moments = (times - begun) / _SECOND, (np.maximum(ends, times) - begun) / _SECOND
            columns = (first, end, *moments, is_early, is_reset)
            row = rows.get((direction, chosen))
            shown = [column[kept] for column in columns]
            buffers.append(_Buffer._make((direction, chosen, len(mine) - 1, row, *shown, base)))
    return buffers


def _draw(connection: Connection, buffer: _Buffer, ax: Axes, timeline: Timeline, look: Look, sheet: Sheet) -> None:
    unit = timeline.unit
    time, delivered = buffer.time * unit.a_second, buffer.delivered * unit.a_second
    early, reset = buffer.is_early, buffer.is_reset
    kinds = (
        (~early & ~reset, look.blue, "placed and delivered by the same frame"),
        (early, GREEN, "placed early, until it was delivered"),
        (reset, VERMILION, "sent after the RST: nobody placed it"),
    )
    if len(time) > _MOST_FPDUS:
        columns = grid([time])
        for there, colour, _ in kinds:
            if there.any():
                low, high = columns.extremes(time[there], buffer.first[there], buffer.end[there])
                ax.stairs(high, columns.edges, baseline=low, fill=True, color=colour, lw=0)
        sheet.said.append(
            f"{buffer.direction} aggregated: {len(time):,} FPDUs in {COLUMNS} columns of time, from the lowest offset "
            "to the highest"
        )
    else:
        least = max(timeline.span * unit.a_second, 1e-9) / 400
        for there, colour, _ in kinds:
            spans = [
                [(begin, low), (begin, high), (max(end, begin + least), high), (max(end, begin + least), low)]
                for begin, end, low, high in zip(
                    time[there], delivered[there], buffer.first[there], buffer.end[there], strict=True
                )
            ]
            _add_bars(ax, spans, colour, look, least)
    sheet.keys += [Key(colour, words) for there, colour, words in kinds if there.any()]
    _draw_bounds(buffer, ax, look, sheet)
    ax.set_ylabel(f"octets from TO {buffer.base:#x} on")
    ax.margins(y=0.03)
    ax.grid(axis="y")
    octets = int((buffer.end - buffer.first).sum())
    said = [f"{octets:,} octets in {plural(len(time), 'FPDU', thousands=True)}"]
    said += [f"{int(early.sum()):,} placed early"] if early.any() else []
    said += [f"{int(reset.sum()):,} sent after the RST"] if reset.any() else []
    others = f"; it wrote to {plural(buffer.others, 'other STag', thousands=True)}" if buffer.others else ""
    endpoint = connection.half(buffer.direction).endpoint
    ax.set_title(f"{buffer.direction} ({endpoint}) writes to STag {buffer.stag:#010x}: {', '.join(said)}{others}")
    number_axis(ax.yaxis)


def _add_bars(ax: Axes, spans: list[list[tuple[float, float]]], colour: str, look: Look, least: float) -> None:
    """Add bars; an edge would hide those as narrow as ``least``."""
    if spans:
        from matplotlib.collections import PolyCollection

        edges = [0.2 if span[2][0] - span[0][0] > 2 * least else 0.0 for span in spans]
        ax.add_collection(PolyCollection(spans, facecolors=colour, edgecolors=look.back, linewidths=edges))
        ax.autoscale_view()


def _draw_bounds(buffer: _Buffer, ax: Axes, look: Look, sheet: Sheet) -> None:
    """Draw what was named, and what was wrong with it."""
    row = buffer.row
    if row is None or row.to is None or not row.length:
        return
    low = row.to - buffer.base
    for place in (low, low + row.length):
        if abs(place) < 4 * max(float(buffer.end.max()), 1.0):
            ax.axhline(place, color=look.ink, linestyle="--", linewidth=1.0, zorder=1)
    sheet.keys.append(Key(look.ink, "bounds of the named memory", "dashes"))
    wrong = [one for one in row.findings if one.severity == "error"]
    if wrong:
        sheet.said.append(f"{buffer.direction}: {wrong[0].rule} at frame {wrong[0].frame}")
