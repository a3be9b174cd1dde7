"""The list of requirements against the table of rules; `test_specifications.py` has it against the specifications."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.rules.requirements import REASONS, REQUIREMENTS, TITLES, Row
from scapy_mpa.rules.rule import Rule
from scapy_mpa.rules.table import GROUPS, RULES

#: Rules that no requirement word asks for by itself, and why they are rules.
WITHOUT_A_ROW = {
    "startup-request-r": "RFC 5044 §7.1.1 says so without a requirement word",
    "ird-ord-responder-ird": "correct, and worth knowing",
    "rtr-read-depth": "correct by the letter, and cannot work",
    "ulpdu-length-zero": "RFC 5044 §3 permits ULPDUs from one octet on, and forbids none of 0",
    "startup-rejected": "RFC 5044 §7.1.2 allows it",
    "attack-injection": "RFC 5044 §9.1 describes it",
    "attack-reset": "RFC 5044 §9.1 describes it",
    "attack-syn": "RFC 5044 §9.1 describes it",
    "attack-hijack": "RFC 5044 §9.1.1.2 describes it",
    "attack-buffer": "RFC 5044 §9.1 describes it",
    "attack-path-mtu": "RFC 5044 §9.1 describes it",
    "attack-unfinished-startup": "RFC 5044 §7.1.2 asks for a timeout against it",
    "placement-overlap": "RFC 5040 §5.5 leaves open what the buffer holds",
    "placement-early": "RFC 5040 §5.5 leaves open what the buffer holds",
}

#: The specifications of what MPA carries.
ABOVE_MPA = {title for name, title in TITLES.items() if name not in PROFILES}

every_row = [
    pytest.param(profile, section, number, row, id=f"{profile} {section}:{number}")
    for profile, sections in REQUIREMENTS.items()
    for section, rows in sections.items()
    for number, row in enumerate(rows, 1)
]


def rows_of(rule: Rule) -> Iterator[tuple[str, str, Row]]:
    for profile, sections in REQUIREMENTS.items():
        for section, rows in sections.items():
            yield from ((profile, section, row) for row in rows if rule.id in row.rules)


@pytest.mark.parametrize(("profile", "section", "number", "row"), every_row)
def test_a_row_has_rules_or_a_reason(profile: str, section: str, number: int, row: Row) -> None:
    assert set(row.rules) <= set(RULES)
    assert len(row.rules) == len(set(row.rules))
    assert bool(row.rules) != bool(row.reason)
    assert row.reason in ("", *REASONS)
    assert row.asks and not row.asks.endswith(".") and "|" not in row.asks
    if row.like is not None:
        twin = REQUIREMENTS["rfc5044"][row.like[0]][row.like[1] - 1]
        assert profile != "rfc5044"
        assert (row.asks, row.rules, row.reason) == (twin.asks, twin.rules, twin.reason)
        assert row.word.removeprefix("NOT ") == twin.word


def test_every_reason_is_given() -> None:
    given = {row.reason for sections in REQUIREMENTS.values() for rows in sections.values() for row in rows}
    assert given - {""} == set(REASONS)


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())
def test_a_rule_of_these_specifications_has_a_requirement(rule: Rule) -> None:
    rows = [*rows_of(rule)]
    if rule.id in WITHOUT_A_ROW:
        assert not rows and rule.requirement in ("", "MAY")
        return
    if not rule.topic and rule.clause.rpartition(" §")[0] not in ABOVE_MPA:
        return
    assert rows
    words = {word for _, _, row in rows for word in row.word.split()}
    assert set(rule.requirement.split()) <= words


def test_rules_of_other_specifications_need_none() -> None:
    others = {rule.id for rule in RULES.values() if not [*rows_of(rule)]} - set(WITHOUT_A_ROW)
    assert others <= {rule.id for name in ("TCP and attacks", "The capture") for rule in GROUPS[name]}
