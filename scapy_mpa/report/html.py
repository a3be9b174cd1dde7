"""HTML for what a notebook shows about a report, a connection and a message: tables in which every text is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

from scapy_mpa.system.names import printable

if TYPE_CHECKING:
    from scapy_mpa.rules.findings import Finding

#: Rows that a table has at most: a notebook shows all of them at once.
MOST_ROWS = 100


def table_html(headings: Sequence[str], rows: Iterable[Sequence[Any]], left: int = 0) -> str:
    """A table: its headings, its first rows, and how many more there are: what ``rows`` leaves, and ``left``."""
    rows = iter(rows)
    shown = ["".join(f"<td>{_cell(one)}</td>" for one in row) for row in islice(rows, MOST_ROWS)]
    left += sum(1 for _ in rows)
    head = "".join(f"<th>{_cell(one)}</th>" for one in headings)
    body = "".join(f"<tr>{row}</tr>" for row in shown)
    more = f"<p>and {left} more</p>" if left else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def values_html(values: Iterable[tuple[str, Any]]) -> str:
    """A table of names and values; those that are None are left out."""
    rows = (f"<tr><th>{_cell(name)}</th><td>{_cell(value)}</td></tr>" for name, value in values if value is not None)
    return f"<table><tbody>{''.join(rows)}</tbody></table>"


def paragraph_html(text: str) -> str:
    """A paragraph."""
    return f"<p>{_cell(text)}</p>"


def findings_html(findings: Sequence[Finding]) -> str:
    """A table of findings, nothing without any."""
    headings = ("severity", "rule", "clause", "by", "count", "frame", "what")
    rows = (
        (one.severity, one.rule.id, one.clause, one.direction or "", one.count, one.frame, one.detail)
        for one in findings
    )
    return table_html(headings, rows) if findings else ""


def _cell(value: Any) -> str:
    return escape(printable(str(value)))
