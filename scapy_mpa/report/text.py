"""A report as text: one line a connection that can be pasted into a mail, then what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scapy_mpa.report.connection import connection_line
from scapy_mpa.report.model import Report, summary_line
from scapy_mpa.report.unfinished import address_of, alike
from scapy_mpa.report.words import plural
from scapy_mpa.rules.findings import Finding

#: Given a severity and a text, the text as the terminal should show it.
Styler = Callable[[str, str], str]


def _plain(_severity: str, text: str) -> str:
    return text


def report_lines(report: Report, style: Styler = _plain) -> Iterator[str]:
    """Yield the lines of a report."""
    like_others = alike(report.connections)
    for connection in report.connections:
        more = like_others.get(connection.number)
        if more == 0:
            continue
        yield connection_line(connection)
        if more:
            yield f"  and {plural(more, 'connection')} more like it from {address_of(connection)} (JSON lists them)"
        for found in connection.findings:
            yield from finding_lines(found, style)
    for found in report.findings:
        yield from finding_lines(found, style)
    yield summary_line(report)


def finding_lines(found: Finding, style: Styler = _plain) -> Iterator[str]:
    """The lines of one finding: where and what; then by which clause, and what was there if that is told apart."""
    where = f"frame {found.frame}"
    if found.count > 1:
        where += f" to {found.last_frame}" if found.last_frame != found.frame else ""
        where += f", {found.count} times"
    who = f" {found.direction}," if found.direction is not None else ""
    yield f"  {style(found.severity, found.severity)} {found.rule.id}: {where},{who} seq {found.seq}: {found.detail}"
    grounds = [ground for ground in (found.clause, found.rule.requirement) if ground]
    if found.code is not None:
        grounds.append(f"error code {found.code}")
    expected = found.expected + (f" ({', '.join(grounds)})" if grounds else "")
    yield f"    expected: {expected}"
    if found.seen != found.detail:
        yield f"    seen: {found.seen}"
