"""What a smaller capture must still show: one finding, or how one connection ended."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from scapy_mpa.errors import MPAError
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple

#: Numbers of frames in a sentence, which are others where frames are left out.
_FRAMES: Final = re.compile(r"frames? \d+(?:(?:-| to |, | and )\d+)*")

#: The sequence number that one of the original has now: connection, direction, sequence number.
Moved = Callable[[str, int], int]


class Goal(NamedTuple):
    """What must be shown.

    Attributes:
        key: Addresses and ports of the connection, None for a finding of none.
        rule: The id of the rule, None for a verdict.
        direction: Of the finding.
        seq: Of the finding.
        said: The detail of the finding, or the verdict, without numbers of frames.
        ended: How the connection ended, by whom, and whether before its work was done.
        rules: Those of which the whole capture has an error or a warning: others would accuse somebody of what
            leaving out frames did.
        is_loose: Any finding of the rule in the connection will do, or any verdict that ends like this one, whatever
            else is found.
    """

    key: bytes | None
    rule: str | None
    direction: str | None
    seq: int | None
    said: str
    ended: tuple[str, str | None, bool] | None
    rules: frozenset[str]
    is_loose: bool

    def is_shown_by(self, report: Report, moved: Moved) -> bool:
        """Return True if a report shows it, and accuses nobody of anything else; ``moved`` says where numbers are."""
        if not self.is_loose and not accusations(report) <= self.rules:
            return False
        for connection in report.connections:
            if self.key in (connection.initiator.key, connection.responder.key) and self._is_of(connection, moved):
                return True
        return self.key is None and any(self._is_like(found, moved) for found in report.findings)

    def _is_of(self, connection: Connection, moved: Moved) -> bool:
        if self.rule is not None:
            return any(self._is_like(found, moved) for found in connection.findings)
        return _ended(connection) == self.ended and (self.is_loose or _said(connection.own_verdict) == self.said)

    def _is_like(self, found: Finding, moved: Moved) -> bool:
        if (found.rule.id, found.direction) != (self.rule, self.direction):
            return False
        if self.is_loose:
            return True
        is_there = self.seq is None or self.direction is None or found.seq == moved(self.direction, self.seq)
        return is_there and _said(found.detail) == self.said


def goal_of(
    report: Report, rule: str | None, *, connection: int | None = None, is_loose: bool = False
) -> tuple[Goal, Connection | None]:
    """Return what is to be shown, the gravest and first finding of a rule or a verdict, and its connection.

    Args:
        report: Of the whole capture.
        rule: An id; None for the verdict.
        connection: The number of the connection; without it that of the first finding, or the first one that ended
            before its work was done.
        is_loose: Any finding of the rule will do, or any verdict with the same end.

    Raises:
        MPAError: There is no such finding, or no connection.
    """
    there = [one for one in report.connections if connection in (None, one.number)]
    rules = accusations(report)
    if rule is None:
        if not there:
            raise MPAError("there is no MPA connection whose end could be shown")
        one = next((one for one in there if one.lifecycle.is_unfinished), there[0])
        return Goal(one.initiator.key, None, None, None, _said(one.own_verdict), _ended(one), rules, is_loose), one
    found = [(one, finding) for one in there for finding in one.findings if finding.rule.id == rule]
    if found:
        one, finding = min(found, key=lambda pair: pair[1].frame)
        goal = Goal(
            one.initiator.key, rule, finding.direction, finding.seq, _said(finding.detail), None, rules, is_loose
        )
        return goal, one
    for finding in report.findings if connection is None else ():
        if finding.rule.id == rule:
            return Goal(None, rule, finding.direction, None, _said(finding.detail), None, rules, is_loose), None
    there_are = sorted({finding.rule.id for finding in report.all_findings()})
    others = f"there are some of {', '.join(there_are)}" if there_are else "nor of any other"
    raise MPAError(f"there is no finding of the rule {rule}; {others}")


def accusations(report: Report) -> frozenset[str]:
    """Return the rules whose errors or warnings a report has."""
    return frozenset(found.rule.id for found in report.all_findings() if found.severity != "note")


def _said(text: str) -> str:
    return _FRAMES.sub("frame", text)


def _ended(connection: Connection) -> tuple[str, str | None, bool]:
    life = connection.lifecycle
    return life.ended, life.ended_by, life.is_unfinished
