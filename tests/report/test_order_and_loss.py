"""The line of the text about order and loss says what the counts of the JSON say."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

from scapy_mpa import analyze
from scapy_mpa.framing.role import ROLES
from scapy_mpa.report.text import connection_lines, is_in_order, order_and_loss, report_lines
from scapy_mpa.watches.counts import Counts
from tests.conftest import captures, named

#: Counts of a half connection, by how the line names them.
KEYS: dict[str, Callable[[Counts], int]] = {
    "out of order": lambda counts: counts.out_of_order_segments,
    "placed early": lambda counts: counts.delivered_late,
    "sent again": lambda counts: counts.retransmitted_segments,
    "never captured": lambda counts: counts.missing_octets,
}
#: What it says of those that are zero on both sides; nothing of FPDUs placed early.
NONE = {"out of order": "none out of order", "sent again": "none sent again", "never captured": "no gap is left"}
SIDES = [role.capitalize() for role in ROLES]


def told(part: str) -> dict[tuple[str, str], int]:
    """The numbers of a part, by its name and the side; those with a plus are of the Initiator and the Responder."""
    name, _, numbers = part.partition(": ")
    both = re.match(r"([\d,]+)\+([\d,]+)", numbers)
    named_sides = re.findall(r"(Initiator|Responder) ((?:\d|,\d)+)", numbers)
    found = zip(SIDES, both.groups(), strict=True) if both else named_sides
    return {(name.partition(" (")[0], side): int(number.replace(",", "")) for side, number in found}


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_the_line_has_the_counts(path: Path) -> None:
    report = analyze(path, fpdus=False)
    text = [line.strip() for line in report_lines(report, every=True)]
    for connection in report.connections:
        said = order_and_loss(connection)
        parts = said.split("; ") if said else []
        found = {where: count for part in parts for where, count in told(part).items() if count}
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
        "out of order (reordered, or lost before the tap): Initiator 133 of 402 segments, Responder 79 of 118; "
        "placed early: 106+95 FPDUs; sent again (seen twice): 39+8; no gap is left"
    )
    (clean,) = analyze(named("markers-aligned"), fpdus=False).connections
    assert order_and_loss(clean) == ""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("siw-nfs4", [True]),
        ("siw-nvme", [True, True, True]),
        ("siw-small-window", [True, False]),
        ("siw-rejected", [False, False]),  # nothing was sent after the startup frames
        ("siw-snaplen128", [False]),
        ("siw-midstream-crc", [False, True]),
    ],
)
def test_a_connection_in_order_says_so(name: str, expected: list[bool]) -> None:
    """Where nothing was lost the line that says how long it took says so, unless the capture lacks something."""
    report = analyze(named(name), fpdus=False)
    words = "; none out of order, none sent again, no gap is left"
    for connection, is_said in zip(report.connections, expected, strict=True):
        (line,) = [line for line in connection_lines(connection) if line.startswith("  frames ")]
        assert line.endswith(words) is is_said is is_in_order(connection)


def test_of_half_a_conversation_nothing_is_said(tmp_path: Path) -> None:
    """Where one side was not captured, nobody knows what it lost."""
    half = tmp_path / "half.pcap"
    packets: list[Any] = list(rdpcap(str(named("markers-aligned"))))
    wrpcap(str(half), [one for one in packets if one[TCP].sport == packets[0][TCP].sport])
    (connection,) = analyze(half, fpdus=False).connections
    assert connection.initiator.counts.segments and not is_in_order(connection)
