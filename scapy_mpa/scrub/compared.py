"""Are the findings in a scrubbed capture those of the capture that it was made of?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, TypeAlias

from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.query import Query
from scapy_mpa.report.model import Report

#: Differences that are listed.
_MOST_LISTED: Final = 20

#: What is compared of a finding: what it says may name an address.
_Finding: TypeAlias = "tuple[int | None, str, str, int, int, str | None, int | None]"


def findings_of(report: Report) -> Counter[_Finding]:
    """Return the findings of a report, without what may name an address; each with its connection, if it has one."""
    found: Counter[_Finding] = Counter()
    for connection in (*report.connections, None):
        for one in report.findings if connection is None else connection.findings:
            number = None if connection is None else connection.number
            found[number, one.rule.id, one.severity, one.frame, one.count, one.direction, one.seq] += 1
    return found


def lost_findings(query: Query, written: str) -> Iterator[str]:
    """Yield a line for each finding, or verdict, that is not the same in the capture that was written.

    Raises as :func:`scapy_mpa.analyze` does.
    """
    before = analyze(query, fpdus=False)
    after = analyze(
        written,
        fpdus=False,
        assumptions=query.assumptions,
        limits=query.limits,
        udp_ports=query.sources.udp_ports,
    )
    old, new = findings_of(before), findings_of(after)
    lines = [
        *(f"no longer found: {_line(one)}" for one in old - new),
        *(f"found only now: {_line(one)}" for one in new - old),
    ]
    for one, other in zip(before.connections, after.connections, strict=False):
        if one.verdict != other.verdict:
            lines.append(f"connection {one.number}: {other.verdict} (was: {one.verdict})")
    if len(before.connections) != len(after.connections):
        lines.append(f"{len(after.connections)} MPA connections (were: {len(before.connections)})")
    yield from lines[:_MOST_LISTED]
    if len(lines) > _MOST_LISTED:
        yield f"and {len(lines) - _MOST_LISTED} more"


def _line(finding: _Finding) -> str:
    number, rule, severity, frame, count, direction, _ = finding
    where = f"connection {number}, " if number is not None else ""
    times = f", {count} times" if count > 1 else ""
    return f"{severity} {rule}: {where}frame {frame}" + (f", {direction}" if direction else "") + times
