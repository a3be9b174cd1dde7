"""A report as text: what it comes to; then a line for each connection that goes into a mail, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from scapy_mpa.capture.named import Joined
from scapy_mpa.framing.role import ROLES
from scapy_mpa.report.beginning import event_line, remarkable_beginning
from scapy_mpa.report.blocks import WITHOUT_PACKETS, in_blocks
from scapy_mpa.report.connection import Connection, connection_line
from scapy_mpa.report.lifecycle import lifecycle_line
from scapy_mpa.report.model import Report, summary_line, tally_of
from scapy_mpa.report.ranking import badness, worst_first
from scapy_mpa.report.tally import Summary
from scapy_mpa.report.unfinished import address_of, alike
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import GROUPS
from scapy_mpa.values.lifecycle import Lifecycle
from scapy_mpa.values.segment import is_stream
from scapy_mpa.values.words import plural

#: Given a severity and a text, the text as the terminal should show it.
Styler = Callable[[str, str], str]
#: Given a frame, its file and its number there, or "".
Where = Callable[[int], str]
#: Given a connection, more lines about it.
More = Callable[[Connection], Iterable[str]]

#: This many connections are listed, unless all are asked for.
MOST_CONNECTIONS = 50
#: How connections ended, in words, and one that was aborted.
_ENDED_WORDS = {
    "lost": "lost",
    "terminate": "by Terminate",
    "rejected": "rejected",
    "rst": "by RST",
    "fin": "by FIN",
    "open": "open",
}
_ABORTED = "reset after a FIN"

#: In which order connections are listed, where that is not the order of their numbers.
_ORDER = "the worst connections first: those that ended before their work did, then by errors and warnings"
#: A hint under a connection whose beginning only was captured.
_OFFLOADED = "no octet after the startup frames was captured; if a card offloads the connection, see docs/capturing.md"
#: What became of segments, in words: see :func:`order_and_loss`.
_OUT_OF_ORDER = "out of order (reordered, or lost before the tap)"
_EARLY = "placed early"
_SENT_AGAIN = "sent again (seen twice)"
_NONE_LATE, _NONE_AGAIN, _NO_GAP = "none out of order", "none sent again", "no gap is left"
#: Said of a connection in which there is nothing of all this.
IN_ORDER = f"{_NONE_LATE}, {_NONE_AGAIN}, {_NO_GAP}"
#: Rules of a capture that does not show all that was sent, and of segments that were dropped.
_INCOMPLETE = frozenset(rule.id for name in ("The capture", "TCP and attacks") for rule in GROUPS[name])
#: Rules that are broken where a connection went on and the capture lacks its octets.
_LACKS_OCTETS = frozenset(("capture-gap", "gap"))

#: How several captures became one, in words.
JOINED_WORDS: dict[Joined, str] = {
    "follow": "one after the other",
    "merge": "merged by time",
    "both": "one after the other, merged by time where they overlap",
}


def _plain(_severity: str, text: str) -> str:
    return text


def _nowhere(_frame: int) -> str:
    return ""


def _nothing(_connection: Connection) -> Iterable[str]:
    return ()


def report_lines(
    report: Report,
    style: Styler = _plain,
    *,
    every: bool = False,
    summary_only: bool = False,
    more_of: More = _nothing,
) -> Iterator[str]:
    """Yield the lines of a report.

    First what it comes to, then connections, the worst first: all of them if they are few, else those with something
    to report; with ``every`` all in any case. ``summary_only`` leaves them out. ``more_of`` a connection comes before
    its findings.
    """
    lines = _report_lines(report, style, every, summary_only, more_of)
    yield from lines if report.streams is None else map(in_blocks, lines)


def _report_lines(report: Report, style: Styler, every: bool, summary_only: bool, more_of: More) -> Iterator[str]:
    like_others = alike(report.connections)
    shown = [] if summary_only else _shown(report, like_others, every)
    tally = tally_of(report)
    yield summary_line(report, tally)
    if summary_only or len(report.connections) > 1:
        yield from summary_lines(tally.summary(), style)
    if report.joined is not None:
        yield f"  {len(report.captures)} files, {JOINED_WORDS[report.joined]}"
    if report.streams is not None:
        yield f"  {WITHOUT_PACKETS}"
    told = sum(1 + like_others.get(one.number, 0) for one in shown)
    if not summary_only and told < len(report.connections):
        yield f"  {_left_out(report, told)}"
    if any(one.number > other.number for one, other in pairwise(shown)):
        yield f"  {_ORDER}"

    where = where_in(report)
    for connection in shown:
        yield from connection_lines(connection, where)
        more = like_others.get(connection.number)
        if more:
            yield f"  and {plural(more, 'connection')} more like it from {address_of(connection)} (JSON lists them)"
        yield from more_of(connection)
        for found in connection.findings:
            yield from finding_lines(found, style, where, is_stream=report.streams is not None)
    if not summary_only:
        for found in report.findings:
            yield from finding_lines(found, style, where, is_stream=report.streams is not None)


def where_in(report: Report) -> Where:
    """Return a function that says which file a frame of a report is in, if there are several files."""

    def where(frame: int) -> str:
        place = report.file_of(frame) if report.streams is None else None
        return f" ({place[0]}, frame {place[1]})" if place is not None else ""

    return where


def connection_lines(connection: Connection, where: Where = _nowhere) -> Iterator[str]:
    """The lines of a connection, before its findings."""
    yield connection_line(connection) + where(connection.lifecycle.first[0])
    yield f"  {connection.verdict}"
    events = connection.startup_events
    if any(remarkable_beginning(events)):
        yield f"  startup: {event_line(events)}"
    in_order = f"; {IN_ORDER}" if is_in_order(connection) else ""
    yield f"  {lifecycle_line(connection, connection.upper_layer.protocol)}{in_order}"
    order = order_and_loss(connection)
    if order:
        yield f"  {order}"
    if _lacks_full_operation(connection):
        yield f"  {_OFFLOADED}"


def order_and_loss(connection: Connection) -> str:
    """Return what came out of order or again, and octets never captured, in words; "" if there are none.

    If there are some of these, the words say of the others that there are none. Two numbers with a plus are of the
    Initiator and of the Responder, as in :func:`~scapy_mpa.report.connection.connection_line`.

    A segment with new octets below the highest captured was reordered, or its octets were lost before the tap and sent
    again. One without new octets had passed the tap before: it was lost after the tap, or duplicated. The capture
    does not show which of the two it was.
    """
    if is_stream(connection.initiator.key):
        return ""
    initiator, responder = (connection.half(role).counts for role in ROLES)
    sides = [(role.capitalize(), connection.half(role).counts) for role in ROLES]
    late = [(name, one.out_of_order_segments, one.segments) for name, one in sides if one.out_of_order_segments]
    again = initiator.retransmitted_segments, responder.retransmitted_segments
    missing = [
        f"{name} {plural(one.missing_octets, 'octet', thousands=True)}" for name, one in sides if one.missing_octets
    ]
    if not (late or any(again) or missing):
        return ""
    early = initiator.delivered_late, responder.delivered_late
    segments = [f"{name} {count:,} of {of:,}{' segments' * (not n)}" for n, (name, count, of) in enumerate(late)]
    said = [
        f"{_OUT_OF_ORDER}: {', '.join(segments)}" if late else _NONE_LATE,
        *([f"{_EARLY}: {early[0]:,}+{early[1]:,} FPDUs"] if any(early) else []),
        f"{_SENT_AGAIN}: {again[0]:,}+{again[1]:,}{'' if late else ' segments'}" if any(again) else _NONE_AGAIN,
        f"never captured: {', '.join(missing)}" if missing else _NO_GAP,
    ]
    return "; ".join(said)


def is_in_order(connection: Connection) -> bool:
    """Return True if the capture shows all that both sides sent once, and in order, from its first segment on."""
    if is_stream(connection.initiator.key) or not any(connection.half(role).counts.segments for role in ROLES):
        return False
    if not all(connection.lifecycle.half(role).is_captured for role in ROLES) or order_and_loss(connection):
        return False
    return not any(one.rule.id in _INCOMPLETE for one in connection.findings)


def _lacks_full_operation(connection: Connection) -> bool:
    """Return True if MPA was started and went on, and no segment of Full Operation was captured.

    It went on if octets are missing, or if neither side closed the connection before the capture ended.
    """
    if connection.request is None or connection.reply is None or connection.rejected:
        return False
    if is_stream(connection.initiator.key) or any(connection.half(role).counts.segments for role in ROLES):
        return False
    if any(found.severity == "error" for found in connection.findings):
        return False
    return connection.lifecycle.ended == "open" or any(one.rule.id in _LACKS_OCTETS for one in connection.findings)


def _shown(report: Report, like_others: dict[int, int], every: bool) -> list[Connection]:
    """The connections that are listed, the worst first, equal ones by number."""
    # Those that are like another one are not listed; the first of them says how many there are.
    connections = [one for one in report.connections if like_others.get(one.number) != 0]
    if every or len(connections) <= MOST_CONNECTIONS:
        return sorted(connections, key=badness)
    remarkable = worst_first(one for one in connections if one.findings)[:MOST_CONNECTIONS]
    return sorted(remarkable, key=lambda one: (*badness(one), one.number))


def _left_out(report: Report, told: int) -> str:
    remarkable = sum(bool(one.findings) for one in report.connections)
    with_more = f", {remarkable} with something to report" if told < remarkable else " with something to report"
    return (
        f"{told} of {len(report.connections)} connections follow{with_more}; --all shows all, --connection N "
        "one, "
        "--rules ID those that break a rule; `scapy-mpa rules ID` explains the rule"
    )


def ending(life: Lifecycle) -> str:
    """Return how a connection ended, in words."""
    return _ABORTED if life.is_aborted else _ENDED_WORDS[life.ended]


def ended_words(summary: Summary) -> Iterator[str]:
    """Yield how connections ended, how many before their work was done, and how many were reset after their end."""
    for how, count in summary.ended.items():
        reset = summary.reset.get(how, 0)
        if how == "fin" and summary.aborted:
            yield _ended(summary.aborted, _ABORTED, summary.unfinished.get("fin", 0), 0)
            count, reset = count - summary.aborted, reset - summary.aborted
        if count:
            yield _ended(count, _ENDED_WORDS[how], summary.unfinished.get(how, 0) if how == "rst" else 0, reset)


def _ended(count: int, how: str, early: int, reset: int) -> str:
    """Return how some connections ended; ``early`` of them before all was acknowledged, ``reset`` after their end."""
    more = [f"{f'{early} ' if early < count else ''}before everything was acknowledged"] if early else []
    more += [f"{reset} reset after that"] if reset else []
    return f"{count} {how}" + (f" ({', '.join(more)})" if more else "")


def summary_lines(summary: Summary, style: Styler) -> Iterator[str]:
    """Yield how connections ended, and a line for each broken rule."""
    if summary.ended:
        yield "  ended: " + ", ".join(ended_words(summary))
    for rule, times, connections in summary.rules:
        where = plural(connections, "connection") if connections else "no connection"
        yield f"  {style(rule.severity, rule.severity)} {rule.id}: {plural(times, 'time')}, {where}"


def finding_lines(
    found: Finding, style: Styler = _plain, file_of: Where = _nowhere, *, is_stream: bool = False
) -> Iterator[str]:
    """Yield the lines of one finding: where and what; then the clause, and what was there if that is said separately.

    Of octets without packets, where is which octet of a stream, from 0.
    """
    times = f", {found.count} times" if found.count > 1 else ""
    if is_stream:
        where = f"octet {found.seq}" + (f" of the {found.direction}" if found.direction is not None else "") + times
    else:
        is_long = found.count > 1 and found.last_frame != found.frame
        where = f"frames {found.frame} to {found.last_frame}" if is_long else f"frame {found.frame}"
        where += times + file_of(found.frame)
        where += f", {found.direction}, seq {found.seq}" if found.direction is not None else ""
    yield f"  {style(found.severity, found.severity)} {found.rule.id}: {where}: {found.detail}"
    grounds = [ground for ground in (found.clause, found.rule.requirement) if ground]
    if found.code is not None:
        grounds.append(f"error code {found.code}")
    expected = found.expected + (f" ({', '.join(grounds)})" if grounds else "")
    yield f"    expected: {expected}"
    if found.seen != found.detail:
        yield f"    seen: {found.seen}"
