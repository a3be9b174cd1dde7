"""``reads``: RDMA Reads and Atomics under way over time, against ORD and IRD, and latencies (RFC 5040 §5.5)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.plot.look import (
    GREEN,
    ORANGE,
    VERMILION,
    Key,
    Look,
    add_legend,
    entitle,
    figure_of,
    number_axis,
    time_unit,
)
from scapy_mpa.plot.thin import COLUMNS, grid
from scapy_mpa.plot.view import Stretch
from scapy_mpa.report.analysis import Selection
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import FPDURecords, FPDURun
from scapy_mpa.tcp.half import Direction
from scapy_mpa.values.segment import addresses_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REQUESTS = ("RDMA Read Request", "Atomic Request")
#: Requests that are drawn one by one.
_MOST_REQUESTS = 1500
_SECOND = 1_000_000_000


class _Requests(NamedTuple):
    """Columns of what one side asked for: when (nanoseconds), when it was answered (0: never)."""

    asked: array[int]
    answered: array[int]


def reads(connection: Connection, directions: Sequence[Direction], window: Stretch, look: Look) -> Figure:
    """Draw the Reads; raises as :meth:`Connection.plot` does."""
    asked = _requests(connection, directions, window)
    shown = [direction for direction in directions if len(asked[direction].asked)]
    figure, axes = figure_of(max(1, 2 * len(shown)), 1.9)
    said = [window.words]
    keys: list[Key] = []
    for number, direction in enumerate(shown):
        _draw(connection, direction, asked[direction], axes[2 * number : 2 * number + 2], look, said, keys)
    if not shown:
        axes[0].set_axis_off()
        said.append("there is no RDMA Read and no Atomic")
    entitle(figure, connection, "RDMA Reads and Atomics under way, and their latencies", said)
    add_legend(figure, look, keys)
    return figure


def _requests(connection: Connection, directions: Sequence[Direction], window: Stretch) -> dict[Direction, _Requests]:
    """What each side asked for, in the order of the messages: the capture is received once more for it."""
    found = {direction: _Requests(array("q"), array("q")) for direction in directions}
    if not any(_asks(connection.half(direction).fpdus) for direction in directions):
        return found
    life, key = connection.lifecycle, connection.initiator.key
    selection = Selection((life.first[0], life.last[0]), (int.from_bytes(key[-4:-2], "big"),), (addresses_of(key)[0],))
    index = connection.index
    with CapturedMessages(
        index.sources, selection=selection, assumptions=connection.assumptions, limits=index.limits
    ) as messages:
        same = [one.number for one in messages.report.connections if one.initiator.key == key]
        for row in messages:
            if row.connection not in same[:1] or row.message not in _REQUESTS or row.direction not in found:
                continue
            if window.has(row.last_frame, row.time_ns):
                columns = found[row.direction]
                columns.asked.append(row.time_ns)
                columns.answered.append(row.time_ns + row.answer.latency_ns if row.answer is not None else 0)
    return found


def _asks(fpdus: FPDURecords) -> bool:
    """Whether there is a Request among FPDUs: else nobody need look for messages."""
    opcodes = {OPCODE_NAMES.index(name) for name in _REQUESTS}
    for entry in fpdus.entries():
        if isinstance(entry, FPDURun):
            if not opcodes.isdisjoint(one >> 16 for one in entry.fpdus):
                return True
        elif entry.opcode in _REQUESTS:
            return True
    return False


def _draw(
    connection: Connection,
    direction: Direction,
    requests: _Requests,
    axes: Sequence[Axes],
    look: Look,
    said: list[str],
    keys: list[Key],
) -> None:
    import numpy as np

    begun = connection.lifecycle.first[1]
    asked = (np.array(requests.asked) - begun) / _SECOND
    is_answered = np.array(requests.answered) > 0
    answered = (np.array(requests.answered) - begun)[is_answered] / _SECOND
    span = float(max(asked.max(), answered.max() if len(answered) else asked.max()) - asked.min())
    unit = time_unit(span)
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
        said.append(
            f"{direction} aggregated: {len(asked):,} Requests in {COLUMNS} columns of time, from the fewest under way "
            "to the most, from the shortest latency to the longest"
        )
    else:
        upper.step([times[0], *times], [0, *level], where="post", color=look.blue, linewidth=1.6, zorder=3)
    keys.append(Key(look.blue, "under way", "patch" if is_dense else "line"))
    upper.set_ylim(0, 1.08 * float(level.max()))
    _draw_limits(connection, direction, upper, float(level.max()), keys)
    upper.set_ylabel("under way")
    never = len(asked) - len(answered)
    more = f", {never:,} never answered" if never else ""
    upper.set_title(
        f"{direction} ({connection.half(direction).endpoint}) asks: {len(asked):,} Requests, at most "
        f"{int(level.max())} under way{more}"
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
    lower.set_xlabel(f"{unit.name} since the connection began")
    lower.set_xlim(upper.get_xlim())
    for ax in axes:
        number_axis(ax.xaxis, whole=False)
        number_axis(ax.yaxis, whole=ax is upper)


def _draw_limits(connection: Connection, direction: Direction, ax: Axes, most: float, keys: list[Key]) -> None:
    """The ORD of who asks and the IRD of the peer, as they were agreed on (RFC 6581 §9)."""
    depths = connection.depths
    if depths is None:
        return
    if direction == "initiator":
        limits = ((depths.initiator_ord, "ORD", VERMILION), (depths.responder_ird, "IRD of the peer", ORANGE))
    else:
        limits = ((depths.responder_ord, "ORD", VERMILION), (depths.initiator_ird, "IRD of the peer", ORANGE))
    for number, (limit, words, colour) in enumerate(limits):
        if limit is None:
            continue
        if limit > 4 * max(most, 1):
            keys.append(Key(colour, f"{words} of the {direction}: {limit}, far above", "dashes"))
            continue
        ax.axhline(limit, color=colour, linestyle=(4 * number, (4, 4)), linewidth=1.0, zorder=1)
        ax.set_ylim(0, max(ax.get_ylim()[1], 1.08 * limit))
        keys.append(Key(colour, f"{words} of the {direction}: {limit}", "dashes"))
