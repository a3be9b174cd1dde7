"""The content of a page, as values: connections, the gravest first, their findings, pictures, and what was left out.

A page stays below a size, so its parts are made one by one: of each connection first what must be said, then as many
pictures and octets as there is room for. What there is no room for is named, with the line to type for it.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.messages.lines import frames_text
from scapy_mpa.page.slowest import Latencies, latencies_of
from scapy_mpa.page.svg import svg_of
from scapy_mpa.plot.kinds import draw_subject, first_kinds
from scapy_mpa.plot.look import NothingToDraw
from scapy_mpa.plot.memory import memory_of
from scapy_mpa.plot.order import order_words, sentence
from scapy_mpa.plot.overview import draw_overview
from scapy_mpa.plot.reads import Asked, requests_in
from scapy_mpa.plot.rows import ConnectionRows
from scapy_mpa.plot.view import Stretch, Subject
from scapy_mpa.plot.worst import Glimpse, glimpses
from scapy_mpa.report.buffers import WAY_WORDS, WAYS
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.report.ranking import rule_rank, worst_first
from scapy_mpa.report.text import IN_ORDER, is_in_order
from scapy_mpa.report.track import tracks
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import GROUPS, Rule
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from scapy_mpa.messages.stags import STagRow

#: Connections that are described in detail, with a picture; with all pictures; in the table.
MOST_DRAWN, MOST_WHOLE, MOST_LISTED = 20, 5, 1000
#: FPDUs beyond which RDMA Reads, and memory, are not examined: all messages are reassembled for it.
_MOST_READ = 100_000
#: STags of a connection in its table.
MOST_STAGS = 20
_SECOND = 1_000_000_000
#: What a picture of all of a connection shows.
_WORDS = {
    "ladder": "who sent what, from top to bottom",
    "latency": "how long each answer took",
    "sequence": "time and sequence",
    "reads": "outstanding RDMA Reads and Atomics",
    "held": "octets a receiver holds",
    "memory": "a buffer over time",
}


class Picture(NamedTuple):
    """A picture: its kind, what is to be said about it, and the SVG."""

    kind: str
    words: str
    svg: str


class BrokenRule(NamedTuple):
    """A rule, how often it was broken, in which connections (the first ones), and where first."""

    rule: Rule
    first: Finding
    times: int
    connections: list[int]


class HeldRow(NamedTuple):
    """What a receiver of a half connection holds, for one way of finding FPDUs."""

    direction: Role
    way: str
    peak: int
    frame: int | None
    mean: float
    octet_seconds: float


class Commands:
    """Lines to type for what is on the page; ``words`` are the captures and what was said about them."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = " ".join(map(shlex.quote, words))

    def of(self, command: str, *options: object) -> str:
        """A line."""
        return " ".join(("scapy-mpa", command, self._words, *(shlex.quote(str(option)) for option in options)))

    def show(self, frame: int) -> str:
        """The line that shows what a frame brought."""
        return self.of("show", "--frame", frame)

    def analyze(self, rule: str) -> str:
        """The line that looks for a rule."""
        return self.of("analyze", "--rules", rule)

    def plot(self, connection: int, kind: str, window: Stretch = Stretch()) -> str:  # noqa: B008 - it cannot change
        """The line that draws a picture."""
        frames = ("--frames", f"{window.frames[0]}-{window.frames[1]}") if window.frames is not None else ()
        return self.of("plot", "--connection", connection, "--kind", kind, *frames, "-o", f"{kind}.svg")


class Drawing:
    """The connections that are drawn, and their pictures: made one by one, as long as there is room.

    Attributes:
        drawn: the connections, the gravest first.
        remarks: why something is not drawn.
    """

    def __init__(self, report: Report, directions: Sequence[Role]) -> None:
        self._report = report
        self.order = worst_first(report.connections)
        self.drawn = self.order[:MOST_DRAWN]
        self.remarks: list[str] = []
        read = tracks(self.drawn, acks=True) if self.drawn else {}
        self._read = self._reads_messages()
        self._messages = ConnectionRows(self._read) if self._read else None
        self.subjects = {
            one.number: Subject(one, directions, {side: read[one.number, side] for side in ROLES}, says_verdict=False)
            for one in self.drawn
        }
        self._asked: Asked | None = None
        self._memory: dict[int, list[STagRow]] | None = None
        self._number = 0

    @property
    def whole(self) -> list[Connection]:
        """Those for which all pictures are drawn."""
        return self.drawn[:MOST_WHOLE]

    def pictures(self, connection: Connection) -> Iterator[Picture]:
        """The pictures of a connection, that first which one wants to see first."""
        subject = self.subjects[connection.number]
        is_whole = connection in self.whole
        is_read = not connection.fpdu_count or connection in self._read
        drawn = 0
        for kind in first_kinds(connection):
            if kind in ("ladder", "latency") and not is_read:
                continue
            if kind == "lanes":
                pictures = [self._lanes(connection, one) for one in self._glimpses(subject, most=2 if is_whole else 1)]
            else:
                pictures = [*self._whole_picture(connection, kind)]
            yield from pictures
            drawn += bool(pictures)
            if drawn and not is_whole:
                return
        if not is_whole:
            return
        asked = self._requests()
        if any(len(found.asked) for (number, _), found in asked.items() if number == connection.number):
            yield from self._whole_picture(connection, "reads", asked=asked)
        if any(row.peak for row in self.held(connection)):
            yield from self._whole_picture(connection, "held")
        written = [row for row in self.memory(connection) if row.writes]
        if written:
            yield from self._whole_picture(connection, "memory", stag=written[0].stag if written[0].counts else None)

    def _glimpses(self, subject: Subject, most: int) -> list[Glimpse]:
        return [*glimpses(subject)][:most]

    def _whole_picture(self, connection: Connection, kind: str, **more: Any) -> Iterator[Picture]:
        """A picture of all of a connection, if there is anything to draw."""
        with suppress(NothingToDraw):
            figure = draw_subject(self.subjects[connection.number], kind, Stretch(), **more)
            yield self._picture(connection, kind, _WORDS[kind], figure)

    def overview(self) -> str:
        """The connections as bars, as SVG; "" of a single one."""
        report = self._report
        if len(report.connections) < 2:
            return ""
        figure = draw_overview(report.connections, report.captures)
        return svg_of(figure, "p0-", f"{len(report.connections)} connections: when each began and ended, and how")

    def latencies(self) -> Latencies | None:
        """Return how long answers took in the connections whose messages are read; None if none are."""
        return latencies_of(self._read, self._messages) if self._messages is not None else None

    def _reads_messages(self) -> list[Connection]:
        """The connections whose messages are read: all, those that are drawn, those with all pictures, or none."""
        for some in (self._report.connections, self.drawn, self.whole):
            if sum(one.fpdu_count for one in some) <= _MOST_READ:
                return [one for one in some if one.fpdu_count]
        self.remarks.append(
            "Latencies are not listed, and ladders and RDMA Reads are not drawn: there are more than "
            f"{_MOST_READ:,} FPDUs, whose messages would have to be reassembled; messages --summary and plot do it"
        )
        return []

    def close(self) -> None:
        """Release the messages."""
        if self._messages is not None:
            self._messages.close()

    def _lanes(self, connection: Connection, glimpse: Glimpse) -> Picture:
        subject = self.subjects[connection.number].only(glimpse.directions)
        figure = draw_subject(subject, "lanes", glimpse.window)
        return self._picture(connection, "lanes", f"lanes, {glimpse.why}", figure)

    def _picture(self, connection: Connection, kind: str, words: str, figure: Figure) -> Picture:
        self._number += 1
        return Picture(kind, words, svg_of(figure, f"p{self._number}-", f"connection {connection.number}: {words}"))

    def _requests(self) -> Asked:
        """Return what the connections with all pictures asked for."""
        if self._asked is None:
            read = [one for one in self.whole if one in self._read]
            self._asked = requests_in(read, self._messages.of(read)) if self._messages is not None else {}
        return self._asked

    def memory(self, connection: Connection) -> list[STagRow]:
        """The memory that an upper layer named, or of which something is wrong, that first; none if it was not read."""
        if self._memory is None:
            named = [one for one in self.whole if one.upper_layer.protocol is not None or _breaks_memory(one)]
            self._memory = {}
            if sum(one.initiator.counts.fpdus + one.responder.counts.fpdus for one in named) <= _MOST_READ:
                self._memory = memory_of(named)
            else:
                self.remarks.append(
                    f"Memory is not listed: there are more than {_MOST_READ:,} FPDUs, whose messages would have to be "
                    "reassembled; memory does it"
                )
        rows = [row for row in self._memory.get(connection.number, ()) if row.protocol is not None or row.counts]
        return sorted(rows, key=lambda row: (not row.has_error, not row.counts))

    def named_elsewhere(self, connection: Connection, row: STagRow) -> str:
        """Where another connection of the same hosts named memory that this one did not, such as perftest's; or ""."""
        hosts = [connection.half(role).endpoint.rpartition(":")[0] for role in (row.owner, peer_of(row.owner))]
        for other in self.whole:
            for named in (self._memory or {}).get(other.number, ()):
                there = [other.half(role).endpoint.rpartition(":")[0] for role in (named.owner, peer_of(named.owner))]
                if named.named and named.stag == row.stag and there == hosts and other is not connection:
                    return f"on #{other.number}, {frames_text(named.named_frame, named.last_named_frame)}"
        return ""

    def held(self, connection: Connection) -> list[HeldRow]:
        """Return what receivers of a connection hold."""
        subject = self.subjects[connection.number]
        rows = []
        for direction in subject.directions:
            if not len(connection.half(direction).fpdus):
                continue
            found = subject.buffers(direction)
            for way in WAYS:
                held = found.held[way]
                mean = held.octet_ns / held.ns if held.ns else 0.0
                row = HeldRow(direction, WAY_WORDS[way], held.peak, held.peak_frame, mean, held.octet_ns / _SECOND)
                rows.append(row)
        return rows


def _breaks_memory(connection: Connection) -> bool:
    return any(found.rule in GROUPS["Memory"] for found in connection.findings)


def happened(connection: Connection, held: Sequence[HeldRow]) -> list[str]:
    """Return what happened in a connection besides its end, in sentences; or that all came in order."""
    said = [f"{IN_ORDER.capitalize()}."] if is_in_order(connection) else []
    usual: dict[Role, str] = {}
    for direction in ROLES:
        peaks = {row.way: row.peak for row in held if row.direction == direction}
        parts = order_words(connection, direction)
        order, marker = (peaks.get(WAY_WORDS[way], 0) for way in ("order", "marker"))
        if order:
            most = plural(order, "octet", thousands=True)
            with_markers = f", {marker:,} with Markers" if connection.half(direction).markers else ""
            counts = connection.half(direction).counts
            if counts.out_of_order_segments or counts.missing_octets or marker < order:
                parts.append(f"a receiver that waits for full order holds at most {most}{with_markers}")
            else:
                usual[direction] = most
        if parts:
            said.append(sentence(connection, direction, parts))
    if usual:
        whose = " and of ".join(f"the {direction.capitalize()}" for direction in usual)
        most = " and ".join(dict.fromkeys(usual.values()))
        said.append(
            f"Of {whose}, some FPDUs span segments: a receiver holds at most {most} until they are complete, as is "
            "usual."
        )
    return said


def broken_rules(report: Report) -> list[BrokenRule]:
    """The rules that are broken, the gravest first, then those of the most connections."""
    found: dict[str, BrokenRule] = {}
    pairs: Iterable[tuple[int | None, Finding]] = (
        *((None, finding) for finding in report.findings),
        *((one.number, finding) for one in report.connections for finding in one.findings),
    )
    for number, finding in pairs:
        there = found.get(finding.rule.id)
        if there is None:
            there = BrokenRule(finding.rule, finding, 0, [])
        first = finding if finding.frame < there.first.frame else there.first
        if number is not None and (not there.connections or there.connections[-1] != number):
            there.connections.append(number)
        found[finding.rule.id] = there._replace(first=first, times=there.times + finding.count)
    return sorted(
        found.values(),
        key=lambda one: rule_rank(one.rule, len(one.connections), one.times),
    )


def assumed(report: Report, told: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """Return what was assumed, inferred or limited, a sentence each."""
    said = [*left_out]
    if told:
        said.append(f"Given on the command line: {' '.join(map(shlex.quote, told))}.")
    said += [f"Damaged: {line}." for line in report.damage]
    inferred = [one.number for one in report.connections if one.inferred]
    if inferred:
        said.append(
            f"Startup frames of {_numbers(inferred)} were not captured: Markers, CRC and who is the Initiator were "
            "inferred from the octets."
        )
    deviating = [one.number for one in report.connections if one.initiator.deviation or one.responder.deviation]
    if deviating:
        said.append(f"Senders of {_numbers(deviating)} deviate; their FPDUs were read accordingly.")
    ours = {rule.id for rule in GROUPS["The capture"]}
    for one in broken_rules(report):
        if one.rule.id in ours:
            said.append(f"{one.rule.id}, {plural(one.times, 'time')}: {one.first.detail}.")
    return said


def _numbers(numbers: Sequence[int]) -> str:
    """Some connections by number."""
    shown = ", ".join(map(str, numbers[:MOST_DRAWN]))
    more = f" and {len(numbers) - MOST_DRAWN} more" if len(numbers) > MOST_DRAWN else ""
    return f"connection{'s' if len(numbers) > 1 else ''} {shown}{more}"
