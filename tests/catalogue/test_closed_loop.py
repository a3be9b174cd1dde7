"""The catalogue and the rules check each other: for each case the analysis finds what the table says, and no more.

What the table says was decided by the specification, case by case.
"""

from __future__ import annotations

import dataclasses
import io

import pytest

from scapy_mpa.catalogue.baseline import BASELINES
from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.sent import Repairable
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.messages.stags import CapturedMemory
from scapy_mpa.rules.table import GROUPS, RULES

ALL = [(name, left) for name, case in CASES.items() for left in (None, *case.left)]


def made(name: str, left: Repairable | None) -> Malformed:
    repair = {} if left is None else {left: "left"}
    return Malformed(name, **repair)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "left"), ALL, ids=lambda value: str(value or "repaired"))
def test_the_analysis_finds_what_the_table_says(name: str, left: Repairable | None) -> None:
    malformed = made(name, left)
    report = malformed.analyze()
    found = {(finding.rule.id, finding.direction) for finding in report.all_findings()}
    assert found == set(malformed.raised)
    for finding in report.all_findings():
        assert 1 <= finding.frame <= finding.last_frame <= report.packets


@pytest.mark.parametrize("name", CASES)
def test_memory_finds_what_the_table_says(name: str) -> None:
    """Of whoever the case is about, and of no other case."""
    file = io.BytesIO()
    Malformed(name).captured.write(file)
    file.seek(0)
    case = CASES[name]
    with CapturedMemory(file) as found:
        broken = {(one.rule, peer_of(row.owner)) for row in found.rows() for one in row.findings}
    rules = {*(text.partition("@")[0] for text in case.raises), *case.breaks}
    assert broken == {(rule, case.by) for rule in rules if RULES[rule] in GROUPS["Memory"]}


@pytest.mark.parametrize("by", ROLES)
@pytest.mark.parametrize("baseline", BASELINES)
def test_nothing_is_wrong_where_nothing_is_changed(baseline: str, by: Role) -> None:
    valid = dataclasses.replace(CASES["no-end"], baseline=baseline, changes=(), raises=(), by=by)
    report = Malformed(valid).analyze()
    assert [*report.all_findings()] == []
    (connection,) = report.connections
    counts = [half.counts for half in (connection.initiator, connection.responder)]
    assert [one.fpdus for one in counts] == [one.delivered for one in counts]
    assert sum(one.fpdus for one in counts) == 5 + (baseline == "peer-to-peer")


def test_the_same_case_gives_the_same_octets() -> None:
    for name in ("rev-255", "fpdu-junk-behind", "fragments-overlap", "link-type-147"):
        assert Malformed(name).captured == Malformed(name).captured
