"""What :func:`scapy_mpa.analyze` returns: a report of connections and findings, and the line that sums it up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence, Set
from typing import Any

from scapy_mpa.receive.located import Deviations
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import DIRECTIONS
from scapy_mpa.report.words import plural
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import SEVERITIES, Severity
from scapy_mpa.tcp.half import Direction

SCHEMA_VERSION = 1


class Report:
    """The analysis of one or more captures.

    ``packets`` counts the records read, ``tcp_connections`` the TCP connections met, MPA or not; ``findings`` are
    those of no connection; ``damage`` has a line for each capture that could only be read in part.
    """

    def __init__(
        self,
        captures: list[str],
        packets: int,
        tcp_connections: int,
        connections: list[Connection],
        findings: list[Finding],
        damage: list[str],
    ) -> None:
        self.captures = captures
        self.packets = packets
        self.tcp_connections = tcp_connections
        self.connections = connections
        self.findings = findings
        self.damage = damage

    def __repr__(self) -> str:
        """The last line of what ``scapy-mpa analyze`` says."""
        return f"<{summary_line(self)}>"

    @property
    def deviations(self) -> Deviations:
        """What senders do wrong, for whoever reads the same traffic and cannot look at it twice."""
        halves = [half for one in self.connections for half in (one.initiator, one.responder)]
        return {
            (half.key, half.seq_start): half.diagnosis
            for half in halves
            if half.diagnosis is not None and half.seq_start is not None
        }

    def select(self, connection: int | None, directions: Sequence[Direction] = DIRECTIONS) -> None:
        """Keep one connection, if a number is given, and the findings of these directions.

        Raises IndexError if there is no connection of that number.
        """
        if connection is not None:
            self.connections = [self.connections[connection]]
            self.findings = []
        for kept in self.connections:
            kept.findings = [found for found in kept.findings if found.direction in (None, *directions)]

    def keep_rules(self, rules: Set[str]) -> None:
        """Keep what is said by the rules with these ids."""
        self.findings = [found for found in self.findings if found.rule.id in rules]
        for connection in self.connections:
            connection.rules = rules
            connection.findings = [found for found in connection.findings if found.rule.id in rules]

    def all_findings(self) -> Iterator[Finding]:
        """The findings of all connections and of none."""
        for connection in self.connections:
            yield from connection.findings
        yield from self.findings

    @property
    def has_errors(self) -> bool:
        """Whether there is a finding of severity error."""
        return self.has_findings("error")

    def has_findings(self, severity: Severity) -> bool:
        """Whether there is a finding of this severity, or a graver one."""
        grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(found.severity in grave for found in self.all_findings())

    def as_dict(self, directions: Sequence[Direction] = DIRECTIONS) -> dict[str, Any]:
        """The report as ``scapy-mpa analyze --format json`` prints it."""
        return {
            "schema": SCHEMA_VERSION,
            "captures": self.captures,
            "packets": self.packets,
            "tcp_connections": self.tcp_connections,
            "connections": [connection.as_dict(directions) for connection in self.connections],
            "findings": [found.as_dict() for found in self.findings],
        }


def summary_line(report: Report) -> str:
    """The last line: how much was read, and how many findings of each severity."""
    found = Counter(finding.severity for finding in report.all_findings())
    counted = ", ".join(plural(found[severity], severity) for severity in SEVERITIES if found[severity])
    read = f"{plural(report.packets, 'packet')}, {plural(report.tcp_connections, 'TCP connection')}"
    return f"{read}, {plural(len(report.connections), 'MPA connection')}, {counted or 'nothing to report'}"
