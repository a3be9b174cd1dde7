"""Commands on what is read while it is written: until when, what is printed as it comes, the table of what is open."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from scapy_mpa.analyzer.connection import Listener
from scapy_mpa.capture.ongoing import Polling
from scapy_mpa.cli.colours import console_for, style
from scapy_mpa.cli.judging import Judging
from scapy_mpa.cli.lines import folded, print_lines, terminal_width
from scapy_mpa.cli.options import Reading, warn_of_damage, warn_of_remark
from scapy_mpa.reading.listener import READ_ONCE
from scapy_mpa.reading.ongoing import OngoingAnalysis, OpenConnection
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import SCHEMA_VERSION, Report
from scapy_mpa.report.tally import Tally
from scapy_mpa.report.text import connection_lines, finding_lines, summary_lines, where_in
from scapy_mpa.rules.findings import Finding, Findings, Quota
from scapy_mpa.rules.table import Severity
from scapy_mpa.system.ending import ENDING, usual_signals
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from scapy_mpa.values.records import FPDURecord

#: Seconds between two pictures of the table, and its rows at most.
_PICTURE, _MOST_ROWS = 0.5, 20


@contextmanager
def until_signal(polling: Polling) -> Iterator[None]:
    """Have the first signal that would end the command end the polling; the second one ends the command."""

    def end(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        polling.end()

    with usual_signals():
        before = {number: signal.signal(number, end) for number in ENDING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


class OngoingReport:
    """What commands that read an ongoing capture have in common: completed connections are chosen, counted and printed.

    Args:
        reading: what is read, and what of it is shown.
        judging: which findings count.
        severity: only connections with findings of this severity or a higher one; None: all.
        show: is handed a report of one connection that is over.
        lists_fpdus: whether FPDUs are listed.
        listener: hears of every FPDU, if anybody does.
        looked: is called now and then.
        make_findings: makes the findings of a connection.

    Attributes:
        analysis: what reads.
        tally: what was shown.
    """

    def __init__(
        self,
        reading: Reading,
        judging: Judging,
        severity: Severity | None = None,
        show: Callable[[Report], None] | None = None,
        *,
        lists_fpdus: bool = False,
        listener: Listener | None = None,
        looked: Callable[[], None] | None = None,
        make_findings: Callable[[Quota | None], Findings] = Findings,
    ) -> None:
        assert reading.ongoing is not None
        self._reading = reading
        self._judging = judging
        self._severity = severity
        self._show = show
        self.tally = Tally()
        self.analysis = OngoingAnalysis(
            reading.ongoing,
            reading.query,
            self._take,
            looked,
            lists_fpdus=lists_fpdus,
            listener=listener,
            make_findings=make_findings,
        )

    def batches(self) -> Iterator[list[FPDURecord]]:
        """Read until somebody ends it; yield the FPDUs of each part."""
        with until_signal(self.analysis.captures.polling):
            yield from self.analysis.batches()

    def rest(self) -> Report:
        """Return a report without connections at the end, with the findings that belong to none, and count it."""
        captures = self.analysis.captures
        report = self._report([], self.analysis.findings)
        report.packets, report.tcp_connections = captures.packets, self.analysis.tcp_connections
        report.damage = captures.damage
        self._choose(report)
        self.tally.count_findings(report.findings)
        return report

    def status(self) -> int:
        """The exit status: 1 if a finding is as severe as asked for."""
        fail_on = self._judging.fail_on
        return int(fail_on != "never" and self.tally.has_findings(fail_on))

    def _take(self, connection: Connection) -> None:
        reading = self._reading
        if reading.connections and connection.number not in reading.connections:
            return
        report = self._report([connection], [])
        self._choose(report)
        for one in report.connections:
            self.tally.count(one)
        if report.connections and self._show is not None:
            self._show(report)

    def _report(self, connections: list[Connection], findings: list[Finding]) -> Report:
        captures = self.analysis.captures
        files = captures.file_of if captures.has_files else None
        return Report([captures.name], 0, 0, connections, findings, [], files=files)

    def _choose(self, report: Report) -> None:
        reading = self._reading
        report.select((), reading.directions, reading.since, reading.until, reading.protocols, reading.frames)
        self._judging.select(report)
        if self._severity is not None:
            report.keep_severe(self._severity)


def pass_on(ongoing: OngoingReport, write: Callable[[], None]) -> list[str]:
    """Have what was read be written as it comes; return a line for each capture that was read in part only."""
    for _ in ongoing.batches():
        write()
    if ongoing.analysis.has_doubt:
        warn_of_remark(READ_ONCE)
    return ongoing.rest().damage


def analyze_ongoing(
    reading: Reading, judging: Judging, output_format: str, severity: Severity | None, summary_only: bool
) -> int:
    """Print each connection when it is over, at the end what they come to; returns the exit status."""
    is_shown = output_format == "text" and terminal_width() is not None and os.environ.get("TERM") != "dumb"
    table = _OpenTable() if is_shown else None

    def show(report: Report) -> None:
        if output_format == "jsonl":
            click.echo(json.dumps(report.as_dict(reading.directions)["connections"][0]))
        elif not summary_only:
            lines = [*_lines(report)]
            if table is None:
                print_lines(lines)
            else:
                table.print(lines)

    def looked() -> None:
        if table is not None:
            table.draw(ongoing.analysis)

    ongoing = OngoingReport(reading, judging, severity, show, looked=looked)
    try:
        for _ in ongoing.batches():
            pass
    finally:
        if table is not None:
            table.end()
    report = ongoing.rest()
    if output_format == "jsonl":
        click.echo(json.dumps(_last_line(report, ongoing.tally, reading)))
    else:
        print_lines(_last_lines(report, ongoing.tally))
    warn_of_damage(report.damage)
    return ongoing.status()


def _lines(report: Report) -> Iterator[str]:
    for connection in report.connections:
        yield from connection_lines(connection, where_in(report))
        for found in connection.findings:
            yield from finding_lines(found, style, where_in(report))


def _last_lines(report: Report, tally: Tally) -> Iterator[str]:
    read = f"{plural(report.packets, 'packet')}, {plural(report.tcp_connections, 'TCP connection')}"
    yield f"{read}, {tally.line()}"
    yield from summary_lines(tally.summary(), style)
    for found in report.findings:
        yield from finding_lines(found, style, where_in(report))


def _last_line(report: Report, tally: Tally, reading: Reading) -> dict[str, Any]:
    """The keys of the report's JSON, but for the connections."""
    values = report.as_dict(reading.directions)
    del values["connections"]
    return values | {"schema": SCHEMA_VERSION, "summary": tally.summary().as_dict()}


class _OpenTable:
    """The connections that are open, at the bottom of a terminal; what is over scrolls by above it."""

    def __init__(self) -> None:
        from rich.live import Live

        console = console_for()
        self._live: Live = Live(console=console, auto_refresh=False, transient=True)
        self._drawn = 0.0
        self._live.start()

    def print(self, lines: list[str]) -> None:
        """Print lines above the table."""
        from rich.text import Text

        width = terminal_width() or 80
        for line in lines:
            for part in folded(line, width):
                self._live.console.print(Text.from_ansi(part), soft_wrap=True)

    def draw(self, analysis: OngoingAnalysis) -> None:
        """Draw it again, if that is due."""
        now = monotonic()
        if now - self._drawn < _PICTURE:
            return
        self._drawn = now
        self._live.update(self._table(analysis), refresh=True)

    def end(self) -> None:
        """Have it disappear."""
        self._live.stop()

    def _table(self, analysis: OngoingAnalysis) -> Table | Text:
        from rich.table import Table
        from rich.text import Text

        there = [*analysis.open_connections]
        packets = plural(analysis.captures.packets, "packet")
        title = f"{packets}, {plural(len(there), 'MPA connection')} open; Ctrl-C ends it"
        if not there:
            return Text(title, style="dim")
        table = Table(title=title, title_style="dim", title_justify="left", box=None, pad_edge=False)
        for heading in ("#", "open connection", "", "FPDUs", "ULPDU octets", "findings"):
            is_number = heading in ("#", "FPDUs", "ULPDU octets", "findings")
            table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
        rows = min(_MOST_ROWS, max(1, self._live.console.height - 4))
        # The newest are what somebody looks for.
        for one in there[-rows:]:
            table.add_row(*_cells(one))
        if len(there) > rows:
            table.caption = f"and {len(there) - rows} that began earlier"
        return table


def _cells(one: OpenConnection) -> tuple[str, ...]:
    return (
        str(one.number),
        f"{one.initiator} > {one.responder}",
        "full operation" if one.is_established else "startup",
        "+".join(map(str, one.fpdus)),
        "+".join(map(str, one.octets)),
        str(one.findings),
    )
