"""The line of the text about order and loss says what the counts of the JSON say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scapy_mpa import analyze
from scapy_mpa.report.text import order_and_loss, report_lines
from tests.conftest import captures, named

#: Keys of a half connection, by how the line names them.
KEYS = {
    "out of order": "out_of_order_segments",
    "sent again": "retransmitted_segments",
    "never captured": "missing_octets",
}


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_the_line_has_the_counts(path: Path) -> None:
    report = analyze(path, fpdus=False)
    text = [line.strip() for line in report_lines(report, every=True)]
    for connection in report.connections:
        values = connection.as_dict()["halves"]
        said = order_and_loss(connection)
        found = {
            (key, side.lower()): int(number.replace(",", ""))
            for part in said.split("; ")
            if said
            for key, name in ((KEYS[re.split(r" \(|:", part)[0]], part),)
            for side, number in re.findall(r"(Initiator|Responder) ([\d,]+\d|\d)", name)
        }
        want = {
            (key, side): values[side][key]
            for key in KEYS.values()
            for side in ("initiator", "responder")
            if values[side][key]
        }
        assert found == want
        assert (said in text) is bool(want)


def test_what_is_said() -> None:
    (connection,) = analyze(named("markers-reordered"), fpdus=False).connections
    assert order_and_loss(connection) == (
        "out of order (reordered, or lost before the tap): Initiator 133 of 402, Responder 79 of 118 segments; "
        "sent again (lost after the tap, or duplicated): Initiator 39 of 402, Responder 8 of 118 segments"
    )
    (clean,) = analyze(named("markers-aligned"), fpdus=False).connections
    assert order_and_loss(clean) == ""
