"""The line of the text about order and loss says what the counts of the JSON say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from scapy_mpa import analyze
from scapy_mpa.framing.role import ROLES
from scapy_mpa.report.text import order_and_loss, report_lines
from scapy_mpa.watches.counts import Counts
from tests.conftest import captures, named

#: Counts of a half connection, by how the line names them.
KEYS: dict[str, Callable[[Counts], int]] = {
    "out of order": lambda counts: counts.out_of_order_segments,
    "FPDUs placed early": lambda counts: counts.delivered_late,
    "sent again": lambda counts: counts.retransmitted_segments,
    "never captured": lambda counts: counts.missing_octets,
}
#: What it says of those that are zero on both sides; nothing of FPDUs placed early.
NONE = {"out of order": "none out of order", "sent again": "none sent again", "never captured": "no gap is left"}


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_the_line_has_the_counts(path: Path) -> None:
    report = analyze(path, fpdus=False)
    text = [line.strip() for line in report_lines(report, every=True)]
    for connection in report.connections:
        said = order_and_loss(connection)
        parts = said.split("; ") if said else []
        found = {
            (re.split(r" \(|:", part)[0], side): int(number.replace(",", ""))
            for part in parts
            for side, number in re.findall(r"(Initiator|Responder) ([\d,]+\d|\d)", part)
        }
        want = {
            (name, role.capitalize()): count
            for name, count_of in KEYS.items()
            for role in ROLES
            if (count := count_of(connection.half(role).counts))
        }
        assert found == want
        there = {name for name, _ in want}
        assert {*parts} & {*NONE.values()} == {words for name, words in NONE.items() if want and name not in there}
        assert (said in text) is bool(want)


def test_what_is_said() -> None:
    (connection,) = analyze(named("markers-reordered"), fpdus=False).connections
    assert order_and_loss(connection) == (
        "out of order (reordered, or lost before the tap): Initiator 133 of 402, Responder 79 of 118 segments; "
        "FPDUs placed early (before octets in front of them): Initiator 106, Responder 95; "
        "sent again (lost after the tap, or duplicated): Initiator 39 of 402, Responder 8 of 118 segments; "
        "no gap is left"
    )
    (clean,) = analyze(named("markers-aligned"), fpdus=False).connections
    assert order_and_loss(clean) == ""
