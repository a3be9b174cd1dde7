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


def worst_first(connections: Iterable[Connection]) -> list[Connection]:
    """Return connections, unfinished ones first; by errors, then warnings; then by how they ended, notes, and number.

    A connection reset with octets unacknowledged goes before one that broke a rule and did its work.
    """

    def key(connection: Connection) -> tuple[int, ...]:
        count = Counter(found.severity for found in connection.findings)
        life = connection.lifecycle
        ended = ENDINGS.index(life.ended)
        return (
            not life.is_unfinished, -count["error"], -count["warning"], ended, -count["note"], connection.number,
        )  # fmt: skip

    return sorted(connections, key=key)


def rule_rank(rule: Rule, connections: int, times: int) -> tuple[int, bool, int, int, str]:
    """Return a key that sorts broken rules: by severity; those of an early end first; by connections, by times."""
    return SEVERITIES.index(rule.severity), rule.id not in _ENDED_EARLY, -connections, -times, rule.id
