"""Options of the commands that report findings: which rules count, and from which severity on the status is 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

import click

from scapy_mpa.cli.options import Reading
from scapy_mpa.cli.types import Word
from scapy_mpa.report.model import Report
from scapy_mpa.rules.table import RULES, SEVERITIES, Severity
from scapy_mpa.tuples import NamedTuple


class Judging(NamedTuple):
    """Which findings are reported, and what makes the command fail."""

    #: The ids of the rules that are examined; None: all.
    rules: frozenset[str] | None
    fail_on: Severity | Literal["never"]

    def select(self, report: Report) -> None:
        """Keep only the findings of the rules that were asked for."""
        if self.rules is not None:
            report.keep_rules(self.rules)

    def status(self, report: Report) -> int:
        """The exit status: 1 if a finding is as grave as asked for."""
        return int(self.fail_on != "never" and report.has_findings(self.fail_on))


def complete_rule(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Ids of rules for the shell; the ones before the last comma are kept."""
    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{rule}" for rule in RULES if rule.startswith(last)]


def judges(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command that reads captures; it is handed a :class:`Judging` too."""

    @wraps(command)
    def with_judging(
        reading: Reading,
        *,
        fail_on: Severity | Literal["never"],
        rules: tuple[str, ...],
        ignore: tuple[str, ...],
        **others: Any,
    ) -> int:
        ids = _chosen(_names(rules), _names(ignore)) if rules or ignore else None
        return command(reading, Judging(ids, fail_on), **others)

    decorated = with_judging
    for decorate in reversed(
        (
            click.option(
                "--rules",
                multiple=True,
                metavar="ID,...",
                shell_complete=complete_rule,
                help="Only findings of these rules: each an ID, or the beginning of one. May be repeated.",
            ),
            click.option(
                "--ignore",
                multiple=True,
                metavar="ID,...",
                shell_complete=complete_rule,
                help="No findings of these rules: each an ID, or the beginning of one. May be repeated.",
            ),
            click.option(
                "--fail-on",
                type=Word((*SEVERITIES, "never")),
                default="error",
                show_default=True,
                help="The lowest severity that makes the exit status 1. A connection that ended before its work did "
                "has at least a warning.",
            ),
        )
    ):
        decorated = decorate(decorated)
    return decorated


def _chosen(rules: list[str], ignored: list[str]) -> frozenset[str]:
    """Return the ids of the rules that are examined; raises :class:`click.UsageError` for one that there is not."""
    from scapy_mpa.rules.choice import UnknownRule, chosen

    try:
        return chosen(rules, ignored)
    except UnknownRule as error:
        raise click.UsageError(str(error)) from None


def _names(given: tuple[str, ...]) -> list[str]:
    return [name.strip() for names in given for name in names.split(",")]
