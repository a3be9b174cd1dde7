"""The page docs/conformance.md: every requirement with its rules, then every rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from scapy_mpa.catalogue.rules import Requirement, requirements
from scapy_mpa.rules.requirements import REASONS, REQUIREMENTS, TITLES
from scapy_mpa.rules.rule import Rule
from scapy_mpa.rules.table import GROUPS, RULES

_INTRODUCTION = """\
Every requirement of the specifications in the order of their texts, with the rules that a breach of it breaks, or
the reason why there is none. `scapy-mpa rules ID` explains a rule, `scapy-mpa analyze --rules ID` looks for it. A row
stands for one occurrence of MUST, SHALL, SHOULD, REQUIRED or RECOMMENDED, negated or not, and has its number within
the section; of what MPA carries (RFC 5040 and those after it) MAY and OPTIONAL have rows too. Left out are only the
paragraphs that say what these words mean. What is asked for is in our words.
""".splitlines()
_OTHERS = (
    "Those whose clause is of no specification above judge what MPA runs over, as far as it explains trouble with\n"
    "MPA; those without a clause judge the capture."
)


def markdown_lines() -> Iterator[str]:
    """The page docs/conformance.md."""
    yield "# Conformance"
    yield ""
    yield "<!-- Made by `scapy-mpa rules --format md > docs/conformance.md`: change the tables in scapy_mpa/rules. -->"
    yield ""
    yield from _INTRODUCTION
    yield ""
    yield from _counts()
    yield ""
    yield "## Why there is no rule"
    yield ""
    yield from _table(("reason", "what it means", "requirements"), _reasons())
    for name, sections in REQUIREMENTS.items():
        yield ""
        yield f"## {TITLES[name]}"
        for section in sections:
            yield ""
            yield f"### {TITLES[name]} §{section}"
            yield ""
            rows = [found for found in requirements() if (found.specification, found.section) == (name, section)]
            yield from _table(("", "requirement", "what it asks for", "rules"), map(_cells, rows))
    yield ""
    yield "## Rules"
    yield ""
    yield f"All {len(RULES)} rules. {_OTHERS}"
    for group, rules in GROUPS.items():
        yield ""
        yield f"### {group}"
        yield ""
        head = ("rule", "severity", "code", "requirement", "what is expected", "clause")
        yield from _table(head, ((*_columns(rule), ", ".join(rule.clauses())) for rule in rules))


def _counts() -> Iterator[str]:
    rows = []
    for name, chosen in (*((TITLES[one], {one}) for one in REQUIREMENTS), ("together", {*REQUIREMENTS})):
        found = Counter(one.observable for one in requirements() if one.specification in chosen)
        counts = found.total(), found["capture"], found["endpoint"], found[None]
        rows.append((name, *map(str, counts)))
    head = ("specification", "requirements", "seen in a capture", "seen by a peer only", "not observable")
    yield from _table(head, rows)
    yield ""
    places = Counter(rule.observable for rule in RULES.values())
    grave = Counter(rule.severity for rule in RULES.values())
    yield f"There are {len(RULES)} rules: {places['capture']} for captures and {places['endpoint']} for endpoints;"
    yield f"{grave['error']} of severity error, {grave['warning']} warning, {grave['note']} note."


def _reasons() -> Iterator[tuple[str, str, str]]:
    found = Counter(one.row.reason for one in requirements())
    for key, text in REASONS.items():
        yield key, text, str(found[key])


def _cells(found: Requirement) -> tuple[str, str, str, str]:
    row = found.row
    rules = ", ".join(f"`{rule}`" for rule in row.rules) or f"none: {row.reason}"
    asks = row.asks if row.like is None else f"{row.asks} (RFC 5044 §{row.like[0]}, {row.like[1]})"
    return str(found.number), row.word, asks, rules


def _columns(rule: Rule) -> tuple[str, str, str, str, str]:
    code = str(rule.code) if rule.code is not None else ""
    expected = rule.expected + (" (endpoint)" if rule.observable == "endpoint" else "")
    return f"`{rule.id}`", rule.severity, code, rule.requirement, expected


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
