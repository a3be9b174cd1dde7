"""``reads``: RDMA Reads and Atomics under way over time, against ORD and IRD, and latencies (RFC 5040 §5.5)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import compress
from typing import TYPE_CHECKING, TypeAlias, cast

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.messages.store import REQUEST_OPCODES, RequestStore
from scapy_mpa.plot.answers import REQUEST_NAMES
from scapy_mpa.plot.look import (
    GREEN,
    ORANGE,
    VERMILION,
    Key,
    Look,
    Sheet,
    number_axis,
    time_unit,
)
from scapy_mpa.plot.rows import query_around, same_connection
from scapy_mpa.plot.thin import COLUMNS, grid
from scapy_mpa.plot.timeline import Timeline
from scapy_mpa.plot.view import Stretch, Subject
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import FPDURecords
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Requests that are drawn one by one.
_MOST_REQUESTS = 1500
_SECOND = 1_000_000_000


class RequestTimes(NamedTuple):
    """Columns of what one side asked for: at which frame and when (nanoseconds), when it was answered (0: never)."""

    frames: array[int]
    asked: array[int]
    answered: array[int]

    def inside(self, window: Stretch) -> RequestTimes:
        """Return those of a stretch of time."""
        if window.is_open:
            return self
        kept = [window.has(frame, time) for frame, time in zip(self.frames, self.asked, strict=True)]
        return RequestTimes(*(array(column.typecode, compress(column, kept)) for column in self))


#: By number of the connection and who asks.
Asked: TypeAlias = "dict[tuple[int, Role], RequestTimes]"


def reads(subject: Subject, window: Stretch, look: Look, asked: Asked | None = None) -> Figure:
    """Draw the Reads, given what was asked for if that was read already; raises as :meth:`Connection.plot` does."""
    connection = subject.connection
    if asked is None:
        asked = requests_of([connection])
    there = {direction: asked[connection.number, direction].inside(window) for direction in subject.directions}
    shown = [direction for direction in subject.directions if len(there[direction].asked)]
    sheet = Sheet(len(shown), 1.9, each=2, nothing=_no_reads(connection, window))
    import numpy as np

    begun = connection.lifecycle.first[1]
    times = [
        (np.array([time for time in column if time]) - begun) / _SECOND
        for direction in shown
        for column in (there[direction].asked, there[direction].answered)
    ]
    marks = subject.marks(window)
    timeline = Timeline.of(times, marks)
    timeline.lay([ax for number in range(len(shown)) for ax in sheet.axes(number)])
    for number, direction in enumerate(shown):
        _draw(connection, direction, there[direction], sheet.axes(number), timeline, look, sheet)
        timeline.mark(sheet.axes(number)[0], marks, shown, direction, look)
    return sheet.finish(subject.heading("Outstanding RDMA Reads and Atomics, and their latencies", window), look)


def _no_reads(connection: Connection, window: Stretch) -> str:
    """The sentence about a connection without any, with what draws its messages."""
    where = "within what is drawn" if not window.is_open else f"in connection {connection.number}"
    return f"there is no RDMA Read and no Atomic {where}; --kind latency draws calls, --kind ladder all messages"


def requests_of(connections: Sequence[Connection]) -> Asked:
    """Return what each side of some connections of a report asked for, in the order of the messages.

    The report must hold FPDUs. The captures are received again if there are Requests; raises as
    :class:`~scapy_mpa.messages.reading.CapturedMessages` does.
    """
    found = _nothing_asked(connections)
    asking = [one for one in connections if any(map(_asks, (one.initiator.fpdus, one.responder.fpdus)))]
    if not asking:
        return found
    with CapturedMessages(query_around(asking), store=RequestStore) as messages:
        numbers = {same_connection(one, messages.report.connections): one.number for one in asking}
        shown, store = messages.shown_halves(), cast(RequestStore, messages.store)
        for half, *values in zip(store.halves, store.frames, store.asked, store.answered, strict=True):
            number = numbers.get(shown[half]) if half in shown else None
            if number is not None:
                for column, value in zip(found[number, ROLES[half & 1]], values, strict=True):
                    column.append(value)
    return found


def requests_in(connections: Sequence[Connection], rows: Iterable[MessageRow]) -> Asked:
    """The same of messages that were read already, with their numbers in the report."""
    found = _nothing_asked(connections)
    for row in rows:
        if row.message in REQUEST_NAMES:
            answered = 0 if row.answer is None else row.time_ns + row.answer.latency_ns
            values = row.last_frame, row.time_ns, answered
            for column, value in zip(found[row.connection, row.direction], values, strict=True):
                column.append(value)
    return found


def _nothing_asked(connections: Sequence[Connection]) -> Asked:
    return {
        (connection.number, direction): RequestTimes(array("Q"), array("q"), array("q"))
        for connection in connections
        for direction in ROLES
    }


def _asks(fpdus: FPDURecords) -> bool:
    """Return True if there is a Request among FPDUs: else nobody need look for messages."""
    for row, _, run in fpdus.log.entries() if fpdus.log is not None else ():
        if row.opcode in REQUEST_OPCODES if run is None else not REQUEST_OPCODES.isdisjoint(one >> 16 for one in run):
            return True
    return False


def _draw(
    connection: Connection,
    direction: Role,
    requests: RequestTimes,
    axes: Sequence[Axes],
    timeline: Timeline,
    look: Look,
    sheet: Sheet,
) -> None:
    import numpy as np

    keys = sheet.keys
    begun = connection.lifecycle.first[1]
    asked = (np.array(requests.asked) - begun) / _SECOND
    is_answered = np.array(requests.answered) > 0
    answered = (np.array(requests.answered) - begun)[is_answered] / _SECOND
    unit = timeline.unit
    times = np.concatenate((asked, answered)) * unit.a_second
    # Of what happens at one moment answers come first: a new Request may wait for them.
    steps = np.concatenate((np.ones(len(asked)), -np.ones(len(answered))))
    order = np.lexsort((steps, times))
    times, level = times[order], np.cumsum(steps[order])
    upper, lower = axes
    is_dense = len(asked) > _MOST_REQUESTS
    if is_dense:
        columns = grid([times])
        low, high = columns.extremes(times, level, level)
        upper.stairs(np.nan_to_num(high), columns.edges, baseline=np.nan_to_num(low), fill=True, color=look.blue, lw=0)
        sheet.said.append(
            f"{direction} aggregated: {len(asked):,} Requests in {COLUMNS} columns of time, from the fewest "
            "outstanding to the most, from the shortest latency to the longest"
        )
    else:
        upper.step([times[0], *times], [0, *level], where="post", color=look.blue, linewidth=1.6, zorder=3)
    keys.append(Key(look.blue, "outstanding", "patch" if is_dense else "line"))
    upper.set_ylim(0, 1.08 * float(level.max()))
    _draw_limits(connection, direction, upper, float(level.max()), keys)
    upper.set_ylabel("outstanding")
    never = len(asked) - len(answered)
    more = f", {never:,} never answered" if never else ""
    upper.set_title(
        f"{direction} ({connection.half(direction).endpoint}) asks: "
        f"{plural(len(asked), 'Request', thousands=True)}, at most {int(level.max())} outstanding{more}"
    )
    if len(answered):
        waited = answered - asked[is_answered]
        small = time_unit(float(waited.max()))
        since = asked[is_answered] * unit.a_second
        if is_dense:
            columns = grid([since])
            low, high = columns.extremes(since, waited, waited)
            lower.stairs(
                high * small.a_second, columns.edges, baseline=low * small.a_second, fill=True, color=GREEN, lw=0
            )
        else:
            lower.plot(since, waited * small.a_second, ".", color=GREEN, markersize=5)
        keys.append(Key(GREEN, "latency, Request to the end of its answer", "patch" if is_dense else "o"))
        lower.set_ylabel(f"latency, {small.name}")
        lower.set_ylim(bottom=0)
    for ax in axes:
        number_axis(ax.yaxis, whole=ax is upper)
        ax.grid(axis="y")


def _draw_limits(connection: Connection, direction: Role, ax: Axes, most: float, keys: list[Key]) -> None:
    """The ORD of who asks and the IRD of the peer, as they were agreed on (RFC 6581 §9)."""
    depths = connection.depths
    if depths is None:
        return
    if direction == "initiator":
        peer, ord_, ird = "Responder", depths.initiator_ord, depths.responder_ird
    else:
        peer, ord_, ird = "Initiator", depths.responder_ord, depths.initiator_ird
    of_ord, of_ird = f"the {direction.capitalize()}'s ORD", f"the {peer}'s IRD"
    limits: list[tuple[int | None, str, str]] = [(ord_, of_ord, VERMILION), (ird, of_ird, ORANGE)]
    if ord_ == ird:
        limits = [(ord_, f"{of_ird} = {of_ord}", VERMILION)]
    for number, (limit, words, colour) in enumerate(limits):
        if limit is None:
            continue
        said = f"{words} = {limit:,}"
        if limit > 4 * max(most, 1):
            keys.append(Key(colour, f"{said}, far above", "dashes"))
            continue
        ax.axhline(limit, color=colour, linestyle=(4 * number, (4, 4)), linewidth=1.0, zorder=1)
        ax.set_ylim(0, max(ax.get_ylim()[1], 1.08 * limit))
        keys.append(Key(colour, said, "dashes"))
