"""Messages summed up: of each connection and kind how many, how large, how fast; RDMA Reads under way against ORD.

Calls of the upper layer are summed up by what they ask for, and those without a reply are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.lines import ms
from scapy_mpa.messages.row import REQUESTS, WAITING_CALLS, MessageRow
from scapy_mpa.rdmap.assembly import ConnectionMessages
from scapy_mpa.rdmap.links import UnderWay
from scapy_mpa.rdmap.spread import Spread
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

_SECOND = 1_000_000_000
#: Numbers of RDMA Reads under way that the text lists.
_LEVELS = 8
#: Names of calls with a line of their own: a bound of memory, since RPC has 2^96 procedures.
_MOST_PROCEDURES = 256
_OTHERS = "other calls"
#: Calls without a reply that are named.
_MOST_NAMED = 8


class _Waits:
    """The times that some answers took."""

    __slots__ = ("asked", "most_frame", "spread", "waiting")

    def __init__(self) -> None:
        #: Requests or calls; those of them that may stay without an answer, and have none.
        self.asked = self.waiting = 0
        self.spread = Spread()
        #: The frame that began what waited longest.
        self.most_frame = 0

    def take(self, row: MessageRow) -> None:
        """Count a Request or a call."""
        self.asked += 1
        latency = row.latency_ns
        if latency is None:
            self.waiting += row.may_wait
            return
        if not self.spread.count or latency > self.spread.most:
            self.most_frame = row.first_frame
        self.spread.add(latency)

    def as_dict(self) -> dict[str, float | int] | None:
        """Return seconds, and the frame that began what waited longest; None if nothing was answered."""
        values = _spread_as_dict(self.spread)
        mean = self.spread.total / self.spread.count / _SECOND if self.spread.count else 0.0
        return None if values is None else {**values, "mean": mean, "most_frame": self.most_frame}

    def line(self, name: str) -> str:
        """Return the line of the table."""
        spread = self.spread
        values = spread.least, spread.total // max(spread.count, 1), spread.median(), spread.most
        texts = [f"{value / 1e6:.3f}" for value in values] if spread.count else ["-"] * len(values)
        numbers = " ".join(f"{text:>8}" for text in [*texts, str(self.most_frame or "-")])
        missing = self.asked - spread.count
        return f"  {self.asked:>6} {numbers}  {name}" + (f", {missing} unanswered\n" if missing else "\n")


class _Kind:
    """The messages of one kind that one side sent."""

    __slots__ = ("answers", "count", "durations", "first", "incomplete", "last", "octets")

    def __init__(self) -> None:
        self.count = self.incomplete = self.octets = 0
        self.first = self.last = 0
        self.answers, self.durations = _Waits(), Spread()

    def take(self, row: MessageRow) -> None:
        """Add one message, or a part of one."""
        if not self.count or row.first_time_ns < self.first:
            self.first = row.first_time_ns
        self.last = max(self.last, row.time_ns)
        self.count += 1
        self.incomplete += not row.complete
        self.octets += row.octets
        self.durations.add(row.duration_ns)
        if row.message in REQUESTS:
            self.answers.take(row)


class _Calls:
    """The calls of one connection, by who sent them and what they ask for."""

    __slots__ = ("procedures", "total", "unanswered")

    def __init__(self) -> None:
        self.procedures: dict[tuple[Role, str], _Waits] = {}
        self.total = _Waits()
        #: The first ones without a reply: frame, name, and True if they may stay so.
        self.unanswered: list[tuple[int, str, bool]] = []

    def take(self, row: MessageRow) -> None:
        """Count a call."""
        assert row.call is not None
        key = row.direction, row.call
        if key not in self.procedures and len(self.procedures) >= _MOST_PROCEDURES:
            key = row.direction, _OTHERS
        self.procedures.setdefault(key, _Waits()).take(row)
        self.total.take(row)
        if row.reply is None and len(self.unanswered) < _MOST_NAMED:
            self.unanswered.append((row.first_frame, row.call, row.may_wait))

    def slowest_first(self) -> list[tuple[Role, str, _Waits]]:
        """Return the procedures, that which took longest in all first."""
        items = [(direction, name, waits) for (direction, name), waits in self.procedures.items()]
        return sorted(items, key=lambda item: (-item[2].spread.total, item[0], item[1]))


class _Counted(NamedTuple):
    """The number of calls, those with replies and those that may wait indefinitely; nanoseconds to replies."""

    calls: int
    replies: int
    waiting: int
    latencies: Spread


class ConnectionSummary(NamedTuple):
    """The messages of one connection, summed up."""

    connection: Connection
    messages: ConnectionMessages
    kinds: dict[tuple[Role, str | None], _Kind]
    calls: _Calls

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON lines."""
        upper = self.messages.upper
        limits = upper.limits
        return {
            "connection": self.connection.number,
            "initiator": self.connection.initiator.endpoint,
            "responder": self.connection.responder.endpoint,
            "ulp": {
                "protocol": upper.name,
                "grounds": upper.grounds,
                "smb_direct": None if limits is None else limits._asdict(),
                "calls": self._counted.calls,
                "replies": self._counted.replies,
                "waiting": self._counted.waiting,
                "latency": _spread_as_dict(self._counted.latencies),
                "procedures": [
                    {
                        "direction": direction,
                        "call": name,
                        "calls": waits.asked,
                        "replies": waits.spread.count,
                        "waiting": waits.waiting,
                        "latency": waits.as_dict(),
                    }
                    for direction, name, waits in self.calls.slowest_first()
                ],
                "unanswered": [
                    {"frame": frame, "call": name, "may_wait": may_wait}
                    for frame, name, may_wait in self.calls.unanswered
                ],
            },
            "messages": [
                {
                    "direction": direction,
                    "message": message,
                    "count": kind.count,
                    "incomplete": kind.incomplete,
                    "octets": kind.octets,
                    "first_time": kind.first / _SECOND,
                    "time": kind.last / _SECOND,
                    "octets_per_second": _rate(kind),
                    "answered": kind.answers.spread.count,
                    "latency": kind.answers.as_dict(),
                    "duration": _spread_as_dict(kind.durations),
                }
                for (direction, message), kind in sorted(self.kinds.items(), key=_order)
            ],
            "reads_under_way": {
                direction: _under_way_as_dict(half.requests.under_way, self._peer_ird(direction))
                for direction, half in zip(ROLES, self.messages.halves, strict=True)
            },
        }

    def _peer_ird(self, direction: Role) -> int | None:
        depths = self.connection.depths
        if depths is None:
            return None
        return depths.responder_ird if direction == "initiator" else depths.initiator_ird

    @property
    def _counted(self) -> _Counted:
        """Calls of all messages; those of SMB2 are counted as rows alone, among those that are summed up."""
        if self.messages.calls or not self.calls.total.asked:
            return _Counted(self.messages.calls, self.messages.replies, self.messages.waiting, self.messages.latencies)
        total = self.calls.total
        return _Counted(total.asked, total.spread.count, total.waiting, total.spread)

    @property
    def _has_all_replies(self) -> bool:
        """True if a call without a reply has none: what the Responder sends was captured, and captured whole."""
        sent = [kind for (direction, _), kind in self.kinds.items() if direction == "responder"]
        is_whole = bool(sent) and not any(kind.incomplete for kind in sent)
        return self._counted.replies == self._counted.calls or is_whole

    def lines(self) -> Iterator[str]:
        """The text for people."""
        connection, upper = self.connection, self.messages.upper
        grounds = f" (by {', '.join(upper.grounds)})" if upper.grounds else ""
        yield f"#{connection.number} {connection.name}: {upper.name}{grounds}\n"
        yield f"  {'sent by':<9} {'message':<27} {'count':>9} {'octets':>13} {'MB/s':>9} (first to last octet)\n"
        for (direction, message), kind in sorted(self.kinds.items(), key=_order):
            rate = _rate(kind)
            speed = "-" if rate is None else f"{rate / 1e6:.1f}"
            yield f"  {direction:<9} {message or 'no message':<27} {kind.count:>9} {kind.octets:>13} {speed:>9}\n"
            if kind.incomplete:
                yield f"    of these {kind.incomplete} not complete\n"
        if upper.limits is not None:
            limits = upper.limits
            yield "  SMB Direct agreed on: Sends to the Initiator of at most "
            yield f"{limits.to_initiator} octets, to the Responder of {limits.to_responder}; "
            yield f"RDMA of at most {limits.max_readwrite_size}\n"
        yield from self._waits()
        if self._counted.calls:
            yield from self._calls()
        for direction, half in zip(ROLES, self.messages.halves, strict=True):
            if half.requests.under_way.most:
                yield from self._reads(direction, half.requests.names, half.requests.under_way)

    def _waits(self) -> Iterator[str]:
        """Yield the table of how long answers were waited for."""
        kinds = [
            (direction, f"{message} of the {direction}", kind.answers)
            for (direction, message), kind in sorted(self.kinds.items(), key=_order)
            if kind.answers.asked
        ]
        procedures = self.calls.slowest_first()
        if not kinds and not procedures:
            return
        names = " ".join(f"{text:>8}" for text in ("least", "mean", "median", "most", "at frame"))
        yield f"  {'count':>6} {names}  ms to the answer of\n"
        for _, name, waits in kinds:
            yield waits.line(name)
        for direction, name, waits in procedures:
            yield waits.line(name if direction == "initiator" else f"{name} (of the Responder)")

    def _calls(self) -> Iterator[str]:
        """Yield how many calls there were, and which had no reply."""
        calls, replies, waiting, latencies = self._counted
        said = "answered" if self._has_all_replies else "with a reply that was captured"
        if waiting:
            names = sorted({name for _, name, may_wait in self.calls.unanswered if may_wait} or WAITING_CALLS)
            said += f", {waiting} that may wait indefinitely ({', '.join(names)})"
        yield f"  {plural(calls, 'call')}, {replies} {said}"
        yield f"; ms to the reply: {_spread_words(latencies)}\n" if replies else "\n"
        for frame, name, may_wait in self.calls.unanswered:
            why = ": normal, as it is answered when something happens" if may_wait else ""
            yield f"    without a reply: frame {frame}, {name}{why}\n"
        more = self.calls.total.asked - self.calls.total.spread.count - len(self.calls.unanswered)
        if more:
            yield f"    and {more} more without a reply (messages --unanswered lists them)\n"

    def _reads(self, direction: Role, names: str, under_way: UnderWay) -> Iterator[str]:
        peer = "responder" if direction == "initiator" else "initiator"
        of = "" if under_way.limit is None else f" of {under_way.limit} (its ORD)"
        ird = self._peer_ird(direction)
        if ird is not None:
            of += f", the {peer}'s IRD is {ird}"
        yield f"  {names} of the {direction}: at most {under_way.most} outstanding{of}, "
        yield f"first at frame {under_way.most_frame}\n"
        total = sum(under_way.levels.values())
        if total:
            levels = sorted(under_way.levels.items(), key=lambda item: -item[1])
            said = ", ".join(f"{level} for {100 * time / total:.1f} %" for level, time in sorted(levels[:_LEVELS]))
            yield f"    outstanding: {said} of the time between the first request and the last answer\n"
        if under_way.times:
            first = ", ".join(f"frame {frame} for {ms(time)}" for frame, time in under_way.full_times)
            more = ", ..." if under_way.times > len(under_way.full_times) else ""
            yield f"    at the limit {plural(under_way.times, 'time')}, {ms(under_way.full)} in all: {first}{more}\n"


def summaries(
    rows: Iterable[MessageRow], shown: Iterable[tuple[Connection, ConnectionMessages]]
) -> list[ConnectionSummary]:
    """Sum messages up, by connection."""
    found = {connection.number: ConnectionSummary(connection, messages, {}, _Calls()) for connection, messages in shown}
    for row in rows:
        summary = found[row.connection]
        summary.kinds.setdefault((row.direction, row.message), _Kind()).take(row)
        if row.call is not None:
            summary.calls.take(row)
    return [*found.values()]


def _order(item: tuple[tuple[Role, str | None], _Kind]) -> tuple[bool, str]:
    (direction, message), _ = item
    return direction != "initiator", message or ""


def _rate(kind: _Kind) -> float | None:
    """Octets a second, from the first octet to the last; None where no time passed."""
    return kind.octets * _SECOND / (kind.last - kind.first) if kind.last > kind.first else None


def _spread_as_dict(spread: Spread) -> dict[str, float] | None:
    if not spread.count:
        return None
    return {
        "least": spread.least / _SECOND,
        "median": spread.median() / _SECOND,
        "percentile_99": spread.percentile(99) / _SECOND,
        "most": spread.most / _SECOND,
    }


def _spread_words(spread: Spread) -> str:
    return (
        f"least {spread.least / 1e6:.3f}, median {spread.median() / 1e6:.3f}, "
        f"99 % {spread.percentile(99) / 1e6:.3f}, most {spread.most / 1e6:.3f}"
    )


def _under_way_as_dict(under_way: UnderWay, ird: int | None) -> dict[str, Any]:
    return {
        "ord": under_way.limit,
        "peer_ird": ird,
        "most": under_way.most,
        "most_frame": under_way.most_frame or None,
        "seconds_by_number": {str(level): time / _SECOND for level, time in sorted(under_way.levels.items())},
        "times_at_limit": under_way.times,
        "seconds_at_limit": under_way.full / _SECOND,
        "at_limit": [{"frame": frame, "seconds": time / _SECOND} for frame, time in under_way.full_times],
    }
