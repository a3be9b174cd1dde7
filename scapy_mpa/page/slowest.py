"""How long answers took, for the page: a row for each kind of each connection, and the ten slowest answers of all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.plot.answers import Answered, Slowest, answers
from scapy_mpa.plot.rows import ConnectionRows
from scapy_mpa.rdmap.spread import Spread
from scapy_mpa.report.connection import Connection

#: Answers that the page lists; kinds of answers that it has rows for.
MOST_SLOWEST, MOST_ROWS = 10, 40
_SECOND = 1_000_000_000


class LatencyRow(NamedTuple):
    """The answered calls, RDMA Reads or Atomics of one side of a connection; times are in seconds."""

    connection: int
    side: Role
    what: str
    answered: int
    least: float
    median: float
    percentile_99: float
    most: float
    most_frame: int


class Latencies(NamedTuple):
    """The result: rows, their total number, the slowest answers, slowest first, and the number of answers."""

    rows: list[LatencyRow]
    total: int
    slowest: list[Answered]
    answers: int


def latencies_of(connections: Sequence[Connection], messages: ConnectionRows) -> Latencies:
    """Return how long answers took in some connections of a report, from their messages."""
    found: dict[tuple[int, int, str], tuple[Spread, list[int]]] = {}
    slowest = Slowest(MOST_SLOWEST)
    for one in answers(messages.of(connections)):
        spread, most = found.setdefault((one.connection, ROLES.index(one.side), one.what), (Spread(), [0]))
        if not spread.count or one.latency > spread.most:
            most[0] = one.frame
        spread.add(one.latency)
        slowest.add(one)
    worst = slowest.found(messages.of(connections))
    rows = [_row(number, ROLES[side], what, *found[number, side, what]) for number, side, what in sorted(found)]
    rows.sort(key=lambda row: -row.most)
    return Latencies(rows[:MOST_ROWS], len(rows), worst, sum(row.answered for row in rows))


def _row(connection: int, side: Role, what: str, spread: Spread, most: list[int]) -> LatencyRow:
    times = (spread.least, spread.median(), spread.percentile(99), spread.most)
    least, median, high, highest = (time / _SECOND for time in times)
    return LatencyRow(connection, side, what, spread.count, least, median, high, highest, most[0])
