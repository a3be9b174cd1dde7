"""A tally of connections: how they ended, and how often each rule was broken; each is counted, then released."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from scapy_mpa.report.connection import Connection
from scapy_mpa.report.ranking import rule_rank
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import RULES, SEVERITIES, Rule, Severity
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.lifecycle import ENDINGS, Ended
from scapy_mpa.values.words import plural


class RuleCount(NamedTuple):
    """How often a rule was broken, and in how many connections (0: findings that belong to no connection)."""

    rule: Rule
    times: int
    connections: int


class Summary(NamedTuple):
    """The sum of a report: how connections ended, and the rules that were broken, the gravest first.

    ``ended`` counts by what came first. ``unfinished``: how many ended before their work did, by what ended them.
    ``reset``: how many were reset after what ended them; ``aborted``: those of them that a FIN had not closed.
    """

    connections: int
    ended: dict[Ended, int]
    unfinished: dict[Ended, int]
    reset: dict[Ended, int]
    aborted: int
    rules: list[RuleCount]

    def as_dict(self) -> dict[str, Any]:
        """The keys of the report's JSON."""
        return {
            "connections": self.connections,
            "ended": self.ended,
            "unfinished": sum(self.unfinished.values()),
            "rules": [
                {
                    "rule": one.rule.id,
                    "severity": one.rule.severity,
                    "count": one.times,
                    "connections": one.connections,
                }
                for one in self.rules
            ],
        }


class Tally:
    """Counts connections and findings.

    Attributes:
        connections: how many were counted.
    """

    def __init__(self) -> None:
        self.connections = 0
        self._ended: Counter[Ended] = Counter()
        self._unfinished: Counter[Ended] = Counter()
        self._reset: Counter[Ended] = Counter()
        self._aborted = 0
        #: Findings by severity, breaches by rule, connections by rule.
        self._severities: Counter[Severity] = Counter()
        self._times: Counter[str] = Counter()
        self._where: Counter[str] = Counter()

    def count(self, connection: Connection) -> None:
        """Count a connection, with its findings."""
        self.connections += 1
        self._ended[connection.lifecycle.ended] += 1
        if connection.lifecycle.is_unfinished:
            self._unfinished[connection.lifecycle.ended] += 1
        if connection.lifecycle.reset_by is not None and connection.lifecycle.ended != "rst":
            self._reset[connection.lifecycle.ended] += 1
            self._aborted += connection.lifecycle.is_aborted
        if connection.findings:
            self._where.update({found.rule.id for found in connection.findings})
            self.count_findings(connection.findings)

    def count_findings(self, findings: Iterable[Finding]) -> None:
        """Count findings of no connection."""
        for found in findings:
            self._severities[found.severity] += 1
            self._times[found.rule.id] += found.count

    def has_findings(self, severity: Severity) -> bool:
        """Return True if there is a finding of this severity, or a higher one."""
        return any(self._severities[one] for one in SEVERITIES[: SEVERITIES.index(severity) + 1])

    def summary(self) -> Summary:
        """Return the counts as a summary."""
        rules = [RuleCount(RULES[rule], count, self._where[rule]) for rule, count in self._times.items()]
        rules.sort(key=lambda one: rule_rank(one.rule, one.connections, one.times))
        ended, unfinished, reset = (
            {how: counts[how] for how in ENDINGS if counts[how]}
            for counts in (self._ended, self._unfinished, self._reset)
        )
        return Summary(self.connections, ended, unfinished, reset, self._aborted, rules)

    def line(self) -> str:
        """Return the number of MPA connections, and of findings of each severity."""
        counts = self._severities
        counted = ", ".join(plural(counts[severity], severity) for severity in SEVERITIES if counts[severity])
        return f"{plural(self.connections, 'MPA connection')}, {counted or 'nothing to report'}"
