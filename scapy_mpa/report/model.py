"""The result of :func:`scapy_mpa.analyze`: a report of connections and findings, and its summary line."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any

from scapy_mpa.analyzer.connection import Deviations
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.tally import Summary, Tally
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import SEVERITIES, Severity
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    import pandas
    import pyarrow

SCHEMA_VERSION = 1


class Report:
    """The analysis of one or more captures.

    ``packets`` counts the records read, ``tcp_connections`` the TCP connections found, MPA or not; ``findings`` are
    those that belong to no connection; ``damage`` has a line for each capture that could only be read in part.
    ``files`` says which file a frame is in, and its number there, where ``index`` does not.
    """

    def __init__(
        self,
        captures: list[str],
        packets: int,
        tcp_connections: int,
        connections: list[Connection],
        findings: list[Finding],
        damage: list[str],
        index: FrameIndex | None = None,
        files: Callable[[int], tuple[str, int]] | None = None,
    ) -> None:
        self._index = index
        self._files = files
        #: True if the file of a frame is known.
        self._knows_files = index is not None and len(captures) > 1
        self.captures = captures
        #: How several captures became one, None if there is one.
        self.joined = None if index is None else index.joined
        #: The octets that stand for a capture, None if it is one.
        self.streams = None if index is None else index.streams
        self.packets = packets
        self.tcp_connections = tcp_connections
        self.connections = connections
        self.findings = findings
        self.damage = damage

    def __repr__(self) -> str:
        """The last line of what ``scapy-mpa analyze`` says."""
        return f"<{summary_line(self)}>"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: connections and findings."""
        from scapy_mpa.report.html import findings_html, paragraph_html, table_html

        headings = ("", "connection", "profile", "upper layer", "FPDUs", "what became of it")
        rows = (
            (one.number, one.name, one.profile.name, one.upper_layer.name, one.fpdu_count, one.verdict)
            for one in self.connections
        )
        findings = findings_html([*self.all_findings()])
        return paragraph_html(summary_line(self)) + table_html(headings, rows) + findings

    def to_arrow(self) -> pyarrow.Table:
        """Return the FPDUs of all connections as a table, with the columns of ``scapy-mpa fpdus --format parquet``.

        Raises MPAError without pyarrow. Without the FPDUs (``analyze(..., fpdus=False)``) it has no rows.
        """
        from scapy_mpa.report.parquet import fpdus_table

        return fpdus_table(record for one in self.connections for side in ROLES for record in one.half(side).fpdus)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the FPDUs as a DataFrame, as :meth:`to_arrow` has them. Raises MPAError without pandas or pyarrow."""
        from scapy_mpa.report.columns import data_frame

        return data_frame(self.to_arrow())

    @property
    def deviations(self) -> Deviations:
        """What senders do wrong, for code that reads the same traffic and cannot look at it twice."""
        return deviations_of(self.connections)

    def select(
        self,
        connections: int | Collection[int] = (),
        directions: Sequence[Role] = ROLES,
        since: int | None = None,
        until: int | None = None,
        protocols: Collection[str] = (),
        frames: tuple[int, int | None] | None = None,
    ) -> None:
        """Keep only some connections, and their findings of these directions, times and frames.

        Args:
            connections: A number, or some; all, if there are none.
            directions: Whose findings are kept.
            since: A time (nanoseconds since the epoch): connections that ended before it, and earlier findings, are
                dropped.
            until: A time: connections that began later, and later findings, are dropped.
            protocols: Upper layers, by name; all, if there are none.
            frames: The first and the last one (None: no last one): connections that were not open then, and findings
                of other frames, are dropped.

        Raises:
            IndexError: There is no connection of that number.
        """
        is_all = (since, until, frames) == (None, None, None) and not protocols and {*directions} >= {*ROLES}
        if connections == () and is_all:
            return
        first, last = _bounds(since, until)
        begin, end = _bounds(*(frames or (None, None)))

        def is_kept(found: Finding) -> bool:
            is_there = found.frame <= end and begin <= max(found.frame, found.last_frame)
            return is_there and first <= found.time_ns <= last

        self.connections = self.chosen(connections, since, until, protocols, frames)
        if connections != () or protocols:
            self.findings = []
        self.findings = [found for found in self.findings if is_kept(found)]
        for kept in self.connections:
            kept.findings = [
                found for found in kept.findings if found.direction in (None, *directions) and is_kept(found)
            ]

    def chosen(
        self,
        connections: int | Collection[int] = (),
        since: int | None = None,
        until: int | None = None,
        protocols: Collection[str] = (),
        frames: tuple[int, int | None] | None = None,
    ) -> list[Connection]:
        """The connections that :meth:`select` would keep; raises as that does."""
        if isinstance(connections, int):
            connections = (connections,)
        numbers = sorted(set(connections)) if connections else range(len(self.connections))
        first, last = _bounds(since, until)
        chosen = [self.connections[number] for number in numbers]
        chosen = [one for one in chosen if one.lifecycle.first[1] <= last and first <= one.lifecycle.last[1]]
        begin, end = _bounds(*(frames or (None, None)))
        chosen = [one for one in chosen if one.lifecycle.first[0] <= end and begin <= one.lifecycle.last[0]]
        return [one for one in chosen if not protocols or one.upper_layer.name in protocols]

    def keep_severe(self, severity: Severity) -> None:
        """Keep only findings of this severity and graver ones, and the connections that have them."""
        grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
        self.findings = [found for found in self.findings if found.severity in grave]
        for connection in self.connections:
            connection.findings = [found for found in connection.findings if found.severity in grave]
        self.connections = [connection for connection in self.connections if connection.findings]

    def file_of(self, frame: int) -> tuple[str, int] | None:
        """Return the capture that a frame is in and its number there; None for a single capture, or if unknown."""
        if self._files is not None and frame > 0:
            return self._files(frame)
        if not self._knows_files or frame < 1 or self._index is None:
            return None
        try:
            which, number = self._index.origin_of(frame)
        except CaptureError:
            self._knows_files = False  # a pipe cannot be read again
            return None
        return self.captures[which], number

    def _with_file(self, values: dict[str, Any], frame: int) -> dict[str, Any]:
        """The same, and the file that it is in, if there are several."""
        if len(self.captures) < 2 and self._files is None:
            return values
        name, number = self.file_of(frame) or (None, None)
        return values | {"capture": name, "capture_frame": number}

    def keep_rules(self, rules: Set[str]) -> None:
        """Keep only findings of the rules with these IDs."""
        self.findings = [found for found in self.findings if found.rule.id in rules]
        for connection in self.connections:
            connection.rules = rules
            connection.findings = [found for found in connection.findings if found.rule.id in rules]

    def all_findings(self) -> Iterator[Finding]:
        """Yield the findings of all connections, and those that belong to none."""
        for connection in self.connections:
            yield from connection.findings
        yield from self.findings

    @property
    def has_errors(self) -> bool:
        """True if there is a finding of severity error."""
        return self.has_findings("error")

    def has_findings(self, severity: Severity) -> bool:
        """Return True if there is a finding of this severity, or a graver one."""
        grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(found.severity in grave for found in self.all_findings())

    def as_dict(self, directions: Sequence[Role] = ROLES) -> dict[str, Any]:
        """The report as ``scapy-mpa analyze --format json`` prints it."""
        values = self.as_iterators(directions)
        return values | {"connections": [*values["connections"]]}

    def as_iterators(self, directions: Sequence[Role] = ROLES) -> dict[str, Any]:
        """The same, with an iterator in place of the list of connections."""
        return {
            "schema": SCHEMA_VERSION,
            "captures": self.captures,
            **({} if self.joined is None else {"joined": self.joined}),
            **({} if self.streams is None else {"streams": self.streams.as_dict(self.captures)}),
            "packets": self.packets,
            "tcp_connections": self.tcp_connections,
            "summary": summary_of(self).as_dict(),
            "connections": (self._connection(connection, directions) for connection in self.connections),
            "findings": [self._with_file(found.as_dict(), found.frame) for found in self.findings],
        }

    def _connection(self, connection: Connection, directions: Sequence[Role]) -> dict[str, Any]:
        values = self._with_file(connection.as_dict(directions), connection.lifecycle.first[0])
        values["findings"] = [self._with_file(found.as_dict(), found.frame) for found in connection.findings]
        return values


def _bounds(since: int | None, until: int | None) -> tuple[int, int]:
    """The first and the last time, in nanoseconds since the epoch, or frame."""
    return since if since is not None else 0, until if until is not None else 1 << 64


def summary_of(report: Report) -> Summary:
    """Count the ends of connections, and the findings of each rule."""
    return tally_of(report).summary()


def summary_line(report: Report, tally: Tally | None = None) -> str:
    """The last line: how much was read, and how many findings of each severity.

    ``tally`` is what the report comes to, if that was counted already.
    """
    read = f"{plural(report.packets, 'packet')}, {plural(report.tcp_connections, 'TCP connection')}"
    if report.streams is not None:
        read = f"{plural(report.packets, 'block')} of {plural(len(report.streams), 'stream')}"
    return f"{read}, {(tally or tally_of(report)).line()}"


def tally_of(report: Report) -> Tally:
    """Count connections and findings of a report."""
    tally = Tally()
    for connection in report.connections:
        tally.count(connection)
    tally.count_findings(report.findings)
    return tally


def deviations_of(connections: Sequence[Connection]) -> Deviations:
    """Return what the senders of connections do wrong, by half connection."""
    halves = [half for one in connections for half in (one.initiator, one.responder)]
    return {
        (half.key, half.seq_start): half.diagnosis
        for half in halves
        if half.diagnosis is not None and half.seq_start is not None
    }
