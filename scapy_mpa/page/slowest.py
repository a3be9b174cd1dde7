"""How long answers took, for the page: a row for each kind of each connection, and the ten slowest answers of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.lines import frames_text, ms
from scapy_mpa.messages.row import MessageRow
from scapy_mpa.plot.answers import Answered, Slowest, answers
from scapy_mpa.plot.look import kind_named
from scapy_mpa.plot.rows import ConnectionRows
from scapy_mpa.rdmap.spread import Spread
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple

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
    """The result.

    Attributes:
        rows: the slowest first, not more than the page has.
        total: how many there are.
        slowest: the slowest answers, the slowest first.
        answers: how many answers there are.
        nothing: the sentence where there are none; "" where there are, and where there are no messages.
    """

    rows: list[LatencyRow]
    total: int
    slowest: list[Answered]
    answers: int
    nothing: str


def latencies_of(connections: Sequence[Connection], messages: ConnectionRows) -> Latencies:
    """Return how long answers took in some connections of a report, from their messages."""
    found: dict[tuple[int, int, str], tuple[Spread, list[int]]] = {}
    slowest = Slowest(MOST_SLOWEST)
    unanswered = _Unanswered()
    for one in answers(unanswered.seen(messages.of(connections))):
        spread, most = found.setdefault((one.connection, ROLES.index(one.side), one.what), (Spread(), [0]))
        if not spread.count or one.latency > spread.most:
            most[0] = one.frame
        spread.add(one.latency)
        slowest.add(one)
    worst = slowest.found(messages.of(connections))
    rows = [_row(number, ROLES[side], what, *found[number, side, what]) for number, side, what in sorted(found)]
    rows.sort(key=lambda row: -row.most)
    count = sum(row.answered for row in rows)
    return Latencies(rows[:MOST_ROWS], len(rows), worst, count, "" if count else unanswered.sentence())


class _Unanswered:
    """What messages are there, and which of them took longest, should none be answered."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._asks = False
        self._longest: MessageRow | None = None

    def seen(self, rows: Iterable[MessageRow]) -> Iterator[MessageRow]:
        """Yield the same messages, seen on their way."""
        for row in rows:
            if row.message is not None:
                self._names[kind_named(row.message).words] = None
            self._asks = self._asks or row.is_unanswered
            if self._longest is None or row.duration_ns > self._longest.duration_ns:
                self._longest = row
            yield row

    def sentence(self) -> str:
        """Return why there is no latency, and how long the longest message took; "" without any message."""
        longest = self._longest
        if longest is None:
            return ""
        names = " and ".join(f"{name}s" for name in ("RDMA Write", "Send") if name in self._names) or "These messages"
        said = f"{names} have no answers, so no latency"
        if self._asks:
            said = "No answer to a Request or a call was captured, so there is no latency"
        if not longest.duration_ns:
            return f"{said}; each message was in one frame."
        took, frames = ms(longest.duration_ns), frames_text(longest.first_frame, longest.last_frame)
        return f"{said}; the longest message took {took} (#{longest.connection}, {frames})."


def _row(connection: int, side: Role, what: str, spread: Spread, most: list[int]) -> LatencyRow:
    times = (spread.least, spread.median(), spread.percentile(99), spread.most)
    least, median, high, highest = (time / _SECOND for time in times)
    return LatencyRow(connection, side, what, spread.count, least, median, high, highest, most[0])
