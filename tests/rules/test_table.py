"""The table of rules: what its rows must be, and that the code names no rule which is not in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import scapy_mpa
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.rules.rule import Rule
from scapy_mpa.rules.table import GROUPS, RULES, SEVERITIES

PACKAGE = Path(scapy_mpa.__file__).parent

#: What users already filter by and count on.
KEPT = {
    "connection-lost": ("error", 1), "crc": ("error", 2), "marker-length": ("error", 3), "startup-frame": ("error", 4),
    "fpduptr-origin": ("warning", None), "ulpdu-length-zero": ("warning", None), "ulpdu-length-limit": ("error", None),
    "terminate": ("warning", None), "terminate-layout": ("warning", None), "overlap": ("warning", None),
    "tcp-checksum": ("note", None), "gap": ("warning", None), "capture-gap": ("note", None),
    "capture-cut": ("note", None), "outside-window": ("note", None), "ip-fragments": ("note", None),
    "link-type": ("note", None), "limit": ("note", None),
}  # fmt: skip

#: Habits of deployed implementations that are no faults of MPA, as seen in the captures of pcaps/.
ODDITIES = {"rdmap-read-request", "crc-off", "rnic-parameters", "rnic-foreign-revision"}

#: Rules in the table that nothing raises yet; who writes the check takes the id out of here.
NOT_RAISED = {"crc-field", "marker-position"}

#: Rules of topics that captures show, which only an endpoint shows all the same.
OF_ENDPOINTS = {"crc-off", "startup-rejected-closed", "startup-timeout"}

#: The codes of MPA itself, and those it sends in a Terminate, by the specification's name.
ERROR_CODES = {"culley-02": {1, 2, 3}, "rddp-01": {1, 2, 3, 4}, "rfc5044": {1, 2, 3, 4}, "rfc6581": {*range(1, 8)}}

each = pytest.mark.parametrize("rule", RULES.values(), ids=RULES.keys())


def test_no_id_is_there_twice() -> None:
    rows = [rule.id for rules in GROUPS.values() for rule in rules]
    assert len(rows) == len(set(rows)) == len(RULES)


@each
def test_a_row_is_well_formed(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.id)
    assert rule.severity in SEVERITIES
    # A phrase, and whole sentences.
    assert not rule.expected.endswith(".") and "\n" not in rule.expected
    assert rule.why[0].isupper() and rule.why.endswith(".") and rule.why != rule.expected
    assert rule.profiles and set(rule.profiles) <= set(PROFILES)
    assert not (rule.topic and rule.clause)
    assert (rule.observable == "endpoint") == (rule in GROUPS["Endpoints"] or rule.id in OF_ENDPOINTS)


@each
def test_its_clauses_are_of_the_specifications_that_it_holds_for(rule: Rule) -> None:
    clauses = rule.clauses()
    assert all(re.fullmatch(r"(RFC \d+|draft-[a-z0-9-]+) §[A-C0-9.]+", clause) for clause in clauses)
    assert len(clauses) == len(set(clauses))
    if rule.clause:
        assert clauses == (rule.clause,)
    # What judges the peers has a clause; what judges the capture need not.
    assert clauses or rule in GROUPS["The capture"]
    for profile in PROFILES:
        assert rule.clause_in(profile) in (*clauses, None) or profile not in rule.profiles


@each
def test_a_note_is_no_error_code_and_an_error_is_a_breach(rule: Rule) -> None:
    if rule.severity == "error":
        assert rule.requirement in ("MUST", "MUST NOT", "REQUIRED")
    if rule.severity == "warning" and rule.requirement:
        assert rule.requirement in ("MUST", "MUST NOT") or rule.id in ("receiver-marker-length", "ulpdu-length-zero")
    if rule.code is not None:
        assert rule.code in ERROR_CODES[rule.profiles[-1]]
        assert rule.severity == "error" or rule.id in ("rtr-none-offered", "receiver-marker-length")


def test_the_codes_of_rfc_5044_each_have_an_error() -> None:
    assert {rule.code for rule in RULES.values() if rule.severity == "error"} >= {1, 2, 3, 4}


def test_what_was_there_first_stays_as_it_was() -> None:
    assert {rule: (RULES[rule].severity, RULES[rule].code) for rule in KEPT} == KEPT


def test_oddities_are_notes() -> None:
    assert {RULES[rule].severity for rule in ODDITIES} == {"note"}


# --- what the code names ---


def _constants(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """The texts that are handed to a call as they are, or by a conditional expression."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            for argument in node.args[:1]:
                ends = (argument.body, argument.orelse) if isinstance(argument, ast.IfExp) else (argument,)
                for end in ends:
                    if isinstance(end, ast.Constant) and isinstance(end.value, str):
                        yield node, end.value


def _name(call: ast.Call) -> str:
    function = call.func
    owner = function.value if isinstance(function, ast.Attribute) else None
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name == "add":
        return f"{getattr(owner, 'attr', getattr(owner, 'id', ''))}.add"
    return name


SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if PACKAGE / "rules" not in path.parents]
#: What takes the id of a rule first.
RAISES = {"findings.add", "notes.add", "Deviation", "Problem", "Breach", "_report", "_find", "find", "Note"}


def test_whatever_is_raised_is_in_the_table() -> None:
    raised = {
        (path.name, rule)
        for path in SOURCES
        if path.parent.name in ("receive", "watch", "report", "framing", "capture")
        for call, rule in _constants(path)
        if _name(call) in RAISES and re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule)
    }
    assert len(raised) > 20
    assert [(name, rule) for name, rule in sorted(raised) if rule not in RULES] == []


def test_what_is_in_the_table_is_raised() -> None:
    """Whoever runs ``analyze --rules ID`` must be able to rely on it that an empty answer means something."""
    named: set[str] = set()
    for path in SOURCES:
        # Topics of clauses, functions and options of commands are called like some rules.
        if path.name not in ("profiles.py", "senders.py", "__init__.py") and path.parent.name not in (
            "layers",
            "areas",  # what the catalogue's cases have to raise
            "catalogue",
            "cli",
            "craft",
            "report",
        ):
            constants = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
            named.update(text for text in constants if isinstance(text, str))
    of_captures = {rule.id for rule in RULES.values() if rule.observable == "capture"}
    assert of_captures - named == NOT_RAISED
