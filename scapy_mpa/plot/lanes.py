"""``lanes``: segments, FPDUs and messages of a half connection on one axis, so that alignment is seen at a glance.

Along the octets of the stream, or along time, where an FPDU lasts from its first octet to its placement.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, TypeAlias

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import TaggedHeader, decode_ddp
from scapy_mpa.framing.markers import MARKER_INTERVAL
from scapy_mpa.framing.role import Role
from scapy_mpa.plot.look import (
    GREEN,
    HATCH,
    MESSAGE_KINDS,
    OLIVE,
    ORANGE,
    OTHER_MESSAGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    Key,
    Look,
    MessageKind,
    Sheet,
    kind_named,
    number_axis,
)
from scapy_mpa.plot.thin import COLUMNS, grid
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import (
    MOST_RECORDS,
    NOTHING,
    DrawnParts,
    HalfView,
    OctetParts,
    Stretch,
    Subject,
    TimeMark,
    holes,
    unacknowledged,
)
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from scapy_mpa.plot.view import Column

Axis: TypeAlias = Literal["octets", "time"]
#: By name.
AXES: dict[str, Axis] = {"octets": "octets", "time": "time"}

#: Where each lane is: Markers stand between segments and FPDUs; below these, which of them were placed early.
_REPEATS, _SEGMENTS, _MARKERS, _FPDUS = (3.35, 0.3), (2.4, 0.8), (2.08, 0.2), (1.1, 0.8)
_EARLY, _MESSAGES = (0.92, 0.16), (0.0, 0.8)
#: Marks (CRC errors, holes, Markers) that are drawn one by one.
_MOST_MARKS, _MOST_MARKERS = 200, 400
#: The part of the width that a message must have to be named, a letter; that the smallest thing has.
_LETTER, _SMALLEST = 0.0077, 0.002
#: Messages under way at one time that lie in rows of their own, along time.
_ROWS = 5
#: Not the green of what ``sequence`` shows as placed early for those located by Marker: they are fewer.
_LOCATED = ((SKY, "FPDU located by length"), (YELLOW, "FPDU located by Marker"), (OLIVE, "FPDU located by searching"))
_BEHIND = "behind a gap a Marker locates the first FPDU, and the length of each locates the next"
_BEHIND_EARLY = f"{_BEHIND}, so they can be placed early"
#: What LOCATED_BY's places are to the eye: the first FPDU is located as if by length.
_LOCATED_AS = (0, 0, 1, 2)


class _Message(NamedTuple):
    """FPDUs of a message one after the other: its name, its first octet and the one after its last, its times."""

    name: str
    start: float
    end: float
    first_time: float
    turn_time: float
    is_last: bool


class _Lane(NamedTuple):
    """The marks of a lane in one colour: where each begins and ends."""

    colour: str
    words: str
    start: Column
    end: Column
    octets: Column
    hatch: str = ""

    @property
    def key(self) -> Key:
        """Its line of the legend."""
        return Key(self.colour, self.words, "hatched" if self.hatch else "patch")


def lanes(subject: Subject, window: Stretch, axis: Axis, look: Look) -> Figure:
    """Draw the lanes of a connection; raises as :meth:`Connection.plot` does."""
    shown = subject.views(window)
    sheet = Sheet(len(shown), 2.2, nothing=NOTHING)
    marks = subject.marks(window)
    times = [column for view in shown for column in (view.segments.time, view.fpdus.first_time, view.fpdus.turn_time)]
    columns: list[str] = []
    markers = 0
    timeline = Timeline.of(times, marks)
    # Both sides have the same form, so that nobody looks for a meaning in the difference.
    is_band = any(len(_markers(view)) > _MOST_MARKERS for view in shown)
    drawn = [sheet.axes(number)[0] for number in range(len(shown))]
    if axis == "time":
        timeline.lay(drawn)
    for ax, view in zip(drawn, shown, strict=True):
        parts = subject.parts(view.direction, window)
        drawing = _Lanes(subject.connection, view, parts, axis, look, ax, timeline, is_band=is_band)
        if not window.is_open and axis == "octets":
            drawing.draw_others()
        drawing.draw(marks, [one.direction for one in shown])
        sheet.keys += drawing.keys
        columns += drawing.columns
        markers += drawing.markers
    if columns:
        sheet.said.append(
            f"aggregated, as there are too many to draw one by one: each of {COLUMNS} columns stands for "
            f"{' and '.join(dict.fromkeys(columns))}; the taller a colour in it, the more of these octets have it"
        )
    if markers:
        sheet.said.append(f"{markers:,} Markers as a band")
    if any(key.words == _LOCATED[1][1] for key in sheet.keys):
        sheet.said.append(_BEHIND_EARLY if any(view.fpdus.is_early.any() for view in shown) else _BEHIND)
    along = "along the octets of the stream" if axis == "octets" else "along time"
    return sheet.finish(subject.heading(f"Segments, FPDUs and messages {along}", window), look)


class _Lanes:
    """The lanes of one half connection."""

    def __init__(
        self,
        connection: Connection,
        view: HalfView,
        parts: OctetParts,
        axis: Axis,
        look: Look,
        ax: Axes,
        timeline: Timeline,
        *,
        is_band: bool,
    ) -> None:
        self._is_band = is_band
        self._connection = connection
        self._view = view
        self._parts = parts
        self._axis = axis
        self._look = look
        self._ax = ax
        self.keys: list[Key] = []
        #: What each column stands for, if it is aggregated; Markers that are not drawn one by one.
        self.columns: list[str] = []
        self.markers = 0
        self._timeline = timeline
        self._unit = timeline.unit
        self._is_dense = max(len(view.segments.start), view.fpdu_count) > MOST_RECORDS

    def draw_others(self) -> None:
        """Shade the octets between those that are drawn: unless they are hatched, other frames brought them."""
        places = [*self._view.segments.start, *self._view.segments.end, *self._view.fpdus.start, *self._view.fpdus.end]
        if places:
            first, last = max(float(min(places)), 0.0), float(max(places))
            fpdus, parts = self._view.fpdus, self._parts
            drawn = [int((one.end - one.start).sum()) for one in (parts.ahead, parts.filling, fpdus)]
            for lane, octets in ((_SEGMENTS, drawn[0] + drawn[1]), (_FPDUS, drawn[2])):
                if octets < last - first:
                    self._ax.broken_barh([(first, last - first)], lane, facecolor=self._look.grid, zorder=0.5)
                    self.keys.append(Key(self._look.grid, "brought by frames that are not drawn"))

    def draw(self, marks: list[TimeMark], shown: list[Role]) -> None:
        """Draw them; ``shown`` are those who have axes."""
        view, ax = self._view, self._ax
        lanes = {
            _SEGMENTS: [
                self._segments(self._look.plain, "segment", self._parts.ahead),
                self._segments(ORANGE, "segment out of order", self._parts.filling),
            ],
            _REPEATS: [self._segments(PURPLE, "segment sent again", self._parts.repeats)],
            _FPDUS: [*self._fpdus()],
            _EARLY: [self._lane(GREEN, "FPDU placed early", view.fpdus.is_early)],
        }
        if self._is_dense:
            lanes[_MESSAGES] = [*self._opcodes()]
            self._draw_dense(lanes)
        else:
            self._draw_each(lanes)
            self._draw_messages()
        self._draw_marks()
        ax.set_ylim(-0.1, 3.75 if len(self._parts.repeats.start) else 3.3)
        rows = [_SEGMENTS, _FPDUS, _MESSAGES]
        names = ["segments", "FPDUs", "messages"]
        early = int(view.fpdus.is_early.sum())
        if early:
            rows, names = [*rows, _EARLY], [*names, "placed early"]
        if len(self._parts.repeats.start):
            rows, names = [*rows, _REPEATS], [*names, "sent again"]
        if view.markers and self._axis == "octets":
            rows, names = [*rows, _MARKERS], [*names, "Markers"]
        ax.set_yticks([low + height / 2 for low, height in rows], names)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)
        endpoint = self._connection.half(view.direction).endpoint
        ax.set_title(
            f"{view.direction} ({endpoint}): {plural(len(view.segments.start), 'segment', thousands=True)}, "
            f"{plural(view.fpdu_count, 'FPDU', thousands=True)}{f', {early:,} placed early' if early else ''}"
        )
        if self._axis == "time":
            self._timeline.mark(ax, marks, shown, view.direction, self._look)
            return
        number_axis(ax.xaxis)
        ax.set_xlabel("octet of the stream, from the first one of Full Operation")
        ax.margins(x=0.01)
        self._draw_end(marks)

    def _segments(self, colour: str, words: str, parts: DrawnParts) -> _Lane:
        octets = parts.end - parts.start
        if self._axis == "octets":
            return _Lane(colour, words, parts.start, parts.end, octets)
        times = parts.time * self._unit.a_second
        return _Lane(colour, words, times, times, octets)

    def _fpdus(self) -> Iterator[_Lane]:
        import numpy as np

        fpdus = self._view.fpdus
        located = np.array(_LOCATED_AS, dtype=np.int8)[fpdus.located]
        is_placed = ~fpdus.is_bad & ~fpdus.is_reset
        for kind, (colour, words) in enumerate(_LOCATED):
            yield self._lane(colour, words, (located == kind) & is_placed)
        yield self._lane(VERMILION, "FPDU with a bad CRC", fpdus.is_bad)
        after = self._lane(self._look.faint, "FPDU sent after the RST", fpdus.is_reset & ~fpdus.is_bad)
        yield after._replace(hatch=HATCH)

    def _opcodes(self) -> Iterator[_Lane]:
        import numpy as np

        opcodes = self._view.fpdus.opcode
        rest = np.ones(len(opcodes), dtype=bool)
        for kind in MESSAGE_KINDS:
            which = np.isin(opcodes, [*kind.opcodes])
            rest &= ~which
            yield self._lane(kind.of(self._look), kind.words, which)
        yield self._lane(OTHER_MESSAGE.of(self._look), OTHER_MESSAGE.words, rest)

    def _lane(self, colour: str, words: str, which: Column) -> _Lane:
        fpdus = self._view.fpdus
        octets = (fpdus.end - fpdus.start)[which]
        if self._axis == "octets":
            return _Lane(colour, words, fpdus.start[which], fpdus.end[which], octets)
        scale = self._unit.a_second
        return _Lane(colour, words, fpdus.first_time[which] * scale, fpdus.time[which] * scale, octets)

    def _draw_each(self, lanes: dict[tuple[float, float], list[_Lane]]) -> None:
        """Everything is a bar of its own."""
        width = self._width(lanes)
        for (low, height), kinds in lanes.items():
            for lane in kinds:
                if not len(lane.start):
                    continue
                # Along time a moment is widened to be seen; along octets that would cover others.
                is_time = self._axis == "time"
                least = width * _SMALLEST
                bars = [
                    (start, max(end - start, least) if is_time else end - start)
                    for start, end in zip(lane.start.tolist(), lane.end.tolist(), strict=True)
                ]
                # An edge would hide what is thin, and what lies above other bars, as along time.
                lines = [0.5 if size > 2 * least and not is_time else 0.0 for _, size in bars]
                self._ax.broken_barh(
                    bars, (low, height), facecolor=lane.colour, edgecolor=self._look.back, linewidth=lines,
                    alpha=0.75 if is_time else 1.0, hatch=lane.hatch,
                )  # fmt: skip
                self.keys.append(lane.key)

    def _width(self, lanes: dict[tuple[float, float], list[_Lane]]) -> float:
        if self._axis == "time":
            return self._timeline.span * self._unit.a_second or 1.0
        there = [lane for kinds in lanes.values() for lane in kinds if len(lane.start)]
        if not there:
            return 1.0
        return max(float(lane.end.max()) for lane in there) - min(float(lane.start.min()) for lane in there) or 1.0

    def _draw_dense(self, lanes: dict[tuple[float, float], list[_Lane]]) -> None:
        """Columns: along octets as high as the part of them that is there, along time as the share of each kind."""
        import numpy as np

        is_octets = self._axis == "octets"
        if is_octets:
            columns = grid([column for kinds in lanes.values() for lane in kinds for column in (lane.start, lane.end)])
        else:
            columns = self._timeline.columns(COLUMNS)
        edges = np.array(columns.edges)
        for (low, height), kinds in lanes.items():
            sums = [columns.spread(lane.start, lane.end, lane.octets.astype(float)) for lane in kinds]
            total = np.sum(sums, axis=0)
            # Copies may be more than there is room for.
            full = np.maximum(total, columns.width) if is_octets else np.where(total > 0, total, 1.0)
            bottom = np.full(columns.columns, low)
            for lane, octets in zip(kinds, sums, strict=True):
                if not len(lane.start):
                    continue
                tops = bottom + height * octets / full
                self._ax.stairs(
                    tops, edges, baseline=bottom, fill=True, color=lane.colour, linewidth=0, hatch=lane.hatch
                )
                bottom = tops
                self.keys.append(lane.key)
        side = self._view.direction
        octets_each = f"{columns.width:,.0f} octets of the {side}"
        self.columns = [octets_each if is_octets else f"the octets of {columns.width:.4g} {self._unit.name}"]

    # --- messages ---

    def _messages(self) -> Iterator[_Message]:
        """FPDUs of one message are put together, as long as they follow each other."""
        fpdus = self._view.fpdus
        last: _Message | None = None
        belongs: object = None
        for index, record in enumerate(self._view.records):
            try:
                header = decode_ddp(record.ulpdu())
            except MPAError:
                header = None  # of a sender that deviates nobody knows where its ULPDU lies
            is_last = header is None or header.last
            key: object = index
            if isinstance(header, TaggedHeader):
                key = record.opcode, header.stag
            elif header is not None:
                key = record.opcode, header.qn, header.msn
            start, end = float(fpdus.start[index]), float(fpdus.end[index])
            times = float(fpdus.first_time[index]), float(fpdus.turn_time[index])
            if last is not None and not last.is_last and key == belongs and start == last.end:
                last = last._replace(
                    end=end,
                    first_time=min(last.first_time, times[0]),
                    turn_time=max(last.turn_time, times[1]),
                    is_last=is_last,
                )
                continue
            if last is not None:
                yield last
            last, belongs = _Message(record.opcode or "no message", start, end, *times, is_last), key
        if last is not None:
            yield last

    def _draw_messages(self) -> None:
        ax, scale = self._ax, self._unit.a_second
        low, height = _MESSAGES
        messages = [*self._messages()]
        if not messages:
            return
        bars = [
            (one.start, one.end) if self._axis == "octets" else (one.first_time * scale, one.turn_time * scale)
            for one in messages
        ]
        left, right = ax.get_xlim()
        full = max(right - left, 1e-9)
        # Along time messages are under way together: each lies in a row that is free, as long as there is one.
        kinds: dict[MessageKind, None] = {}
        is_octets = self._axis == "octets"
        ends = [float("-inf")] * (1 if is_octets else _ROWS)
        for (start, end), one in zip(bars, messages, strict=True):
            is_thin = end - start <= 2 * full * _SMALLEST
            end = end if is_octets else max(end, start + full * _SMALLEST)
            row = min(
                range(len(ends)), key=lambda index: (ends[index] > start, ends[index] if ends[index] > start else index)
            )
            is_free = ends[row] <= start
            ends[row] = max(ends[row], end)
            each = height / len(ends)
            bottom = low + height - (row + 1) * each
            kind = kind_named(one.name)
            kinds[kind] = None
            ax.broken_barh(
                [(start, end - start)],
                (bottom, each * 0.94),
                facecolor=kind.of(self._look),
                edgecolor=self._look.back,
                linewidth=0.0 if is_thin else 0.8 if is_octets else 0.3,
                alpha=1.0 if is_free else 0.5,
            )
            if is_free and len(ends) == 1 and end - start >= full * _LETTER * len(one.name):
                colour = self._look.ink if kind is OTHER_MESSAGE else self._look.back
                ax.text(
                    *((start + end) / 2, low + height / 2, one.name), ha="center", va="center", fontsize=8,
                    color=colour, clip_on=True,
                )  # fmt: skip
        self.keys += [Key(kind.of(self._look), kind.words) for kind in kinds]

    # --- marks ---

    def _draw_marks(self) -> None:
        import numpy as np

        view, ax = self._view, self._ax
        bad = view.fpdus.is_bad
        if bad.any():
            middle = (view.fpdus.start + view.fpdus.end)[bad] / 2
            places = middle if self._axis == "octets" else view.fpdus.time[bad] * self._unit.a_second
            low, height = _FPDUS
            places = places[:_MOST_MARKS]
            ax.plot(places, np.full(len(places), low + height / 2), "x", color=self._look.ink, markersize=6)
            self.keys.append(Key(self._look.ink, "CRC error", "x"))
        if self._axis != "octets":
            return
        missing = holes(view)
        for first, end in missing[:_MOST_MARKS]:
            ax.axvspan(first, end, facecolor="none", edgecolor=VERMILION, hatch="////", linewidth=0.8)
        if missing:
            self.keys.append(Key(VERMILION, "never captured", "hatch"))
        self._draw_markers(_markers(view))

    def _draw_end(self, marks: list[TimeMark]) -> None:
        """Draw how the stream ends: octets that were never acknowledged, its sender's FIN, a RST of either side."""
        view, ax = self._view, self._ax
        mine = self._connection.lifecycle.half(view.direction)
        ends = [mark for mark in marks if mark.what == "RST" or (mark.what == "FIN" and mark.side == view.direction)]
        words = [mark.words(names_side=mark.side != view.direction) for mark in ends]
        is_bad = bool(mine.unacknowledged_octets)
        if is_bad:
            words.insert(0, f"{mine.unacknowledged_octets:,} octets never acknowledged")
            found = unacknowledged(self._connection, view)
            if found is not None:
                ax.axvspan(*found, facecolor=VERMILION, alpha=0.15, linewidth=0, zorder=0)
        if words:
            colour = self._look.alarm if is_bad else self._look.soft
            ax.set_title("; ".join(words), loc="right", fontsize=8, color=colour)

    def _draw_markers(self, places: range) -> None:
        if not places:
            return
        low, height = _MARKERS
        if not self._is_band:
            self._ax.vlines(places, low, low + height, color=self._look.ink, linewidth=0.8)
            self.keys.append(Key(self._look.ink, "Marker", "|"))
            return
        self._ax.broken_barh([(places[0], places[-1] - places[0])], (low, height), facecolor=self._look.faint)
        self.keys.append(Key(self._look.faint, f"Markers, one every {MARKER_INTERVAL} octets"))
        self.markers = len(places)


def _markers(view: HalfView) -> range:
    """Return at which octets of those that are drawn there is a Marker."""
    if not view.markers or not len(view.segments.start):
        return range(0)
    first, end = max(0, int(view.segments.start.min())), int(view.segments.end.max())
    return range(-(-first // MARKER_INTERVAL) * MARKER_INTERVAL, end, MARKER_INTERVAL)
