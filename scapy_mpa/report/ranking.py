"""Which connections and rules come first: what a reader misses is work that was not done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.rule import Rule
from scapy_mpa.rules.table import SEVERITIES, Severity
from scapy_mpa.values.lifecycle import ENDINGS

#: Rules that a connection breaks which ended before its work did.
_ENDED_EARLY: Final = frozenset(("connection-lost", "startup-rejected", "teardown-unacknowledged", "terminate"))


def gravest(connection: Connection) -> Severity | None:
    """Return the severity of the gravest finding of a connection, None if it has none."""
    found = {one.severity for one in connection.findings}
    return next((severity for severity in SEVERITIES if severity in found), None)


def badness(connection: Connection) -> tuple[bool, int, int]:
    """Return a key that sorts connections: unfinished ones first, then by errors, then by warnings.

    A connection reset with octets unacknowledged goes before one that broke a rule and did its work.
    """
    count = Counter(found.severity for found in connection.findings)
    return not connection.lifecycle.is_unfinished, -count["error"], -count["warning"]


def worst_first(connections: Iterable[Connection]) -> list[Connection]:
    """Return connections as :func:`badness` sorts them; equal ones by how they ended, then by notes, then by number."""

    def key(connection: Connection) -> tuple[int, ...]:
        notes = sum(found.severity == "note" for found in connection.findings)
        return *badness(connection), ENDINGS.index(connection.lifecycle.ended), -notes, connection.number

    return sorted(connections, key=key)


def rule_rank(rule: Rule, connections: int, times: int) -> tuple[int, bool, int, int, str]:
    """Return a key that sorts broken rules: by severity; those of an early end first; by connections, by times."""
    return SEVERITIES.index(rule.severity), rule.id not in _ENDED_EARLY, -connections, -times, rule.id
