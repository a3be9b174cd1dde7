"""The table of rules, and what each requirement of the specifications became, as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from scapy_mpa.rules.requirements import REASONS, REQUIREMENTS, TITLES, Row
from scapy_mpa.rules.rule import Rule
from scapy_mpa.rules.table import GROUPS, RULES
from scapy_mpa.tuples import NamedTuple

SCHEMA_VERSION = 1


class Requirement(NamedTuple):
    """A requirement and where it stands: the ``number``-th of its section."""

    specification: str
    section: str
    number: int
    row: Row

    @property
    def clause(self) -> str:
        """The clause, as in "RFC 5044 §4.4"."""
        return f"{TITLES[self.specification]} §{self.section}"

    @property
    def observable(self) -> str | None:
        """Where a breach shows: "capture", "endpoint" only, or None."""
        places = {RULES[rule].observable for rule in self.row.rules}
        return "capture" if "capture" in places else "endpoint" if places else None

    def as_dict(self) -> dict[str, Any]:
        """The requirement with the keys of the JSON."""
        row = self.row
        return {
            "specification": TITLES[self.specification],
            "section": self.section,
            "number": self.number,
            "requirement": row.word,
            "asks": row.asks,
            "observable": self.observable,
            "rules": list(row.rules),
            "reason": row.reason or None,
            "like": None if row.like is None else {"section": row.like[0], "number": row.like[1]},
        }


def requirements() -> Iterator[Requirement]:
    """Every requirement of every specification, in the order of the texts."""
    for specification, sections in REQUIREMENTS.items():
        for section, rows in sections.items():
            for number, row in enumerate(rows, 1):
                yield Requirement(specification, section, number, row)


def requirements_of(rule: Rule) -> list[Requirement]:
    """Return the requirements that a breach of the rule breaks."""
    return [found for found in requirements() if rule.id in found.row.rules]


# --- text ---


def list_lines(chosen: Sequence[Rule]) -> Iterator[str]:
    """Yield one line for each of these rules, by topic, then their number."""
    width = max(map(len, RULES))
    yield f"{'':{width + 2}}  severity  code  requirement  expected"
    for group, rules in GROUPS.items():
        listed = [rule for rule in rules if rule in chosen]
        if listed:
            yield group
        for rule in listed:
            code = str(rule.code) if rule.code is not None else "-"
            yield f"  {rule.id:{width}}  {rule.severity:8}  {code:4}  {rule.requirement or '-':11}  {rule.expected}"
    if len(chosen) == len(RULES):
        yield _summary()


def _summary() -> str:
    found = Counter(one.observable for one in requirements())
    return (
        f"{len(RULES)} rules for {found.total() - found[None]} of {found.total()} requirements; "
        f"{found[None]} cannot be observed"
    )


def explanation(rule: Rule) -> Iterator[str]:
    """Yield what a rule expects, why it matters, its clause, and how to look for it."""
    code = f", error code {rule.code}" if rule.code is not None else ""
    yield f"{rule.id}: {rule.severity}{code}"
    yield f"  expected: {rule.expected}"
    yield f"  {'test' if rule.observable == 'endpoint' else 'why'}: {rule.why}"
    clauses = rule.clauses()
    if clauses:
        word = f" ({rule.requirement})" if rule.requirement else ""
        yield f"  clause{word}: {', '.join(clauses)}"
    for found in requirements_of(rule):
        if found.row.like is None:
            yield f"    {found.clause}, {_ordinal(found)} {found.row.word}: {found.row.asks}"
    if rule.observable == "capture":
        command = "memory" if rule in GROUPS["Memory"] else "analyze"
        yield f"  look for it: scapy-mpa {command} --rules {rule.told_as or rule.id} CAPTURE"
    else:
        yield "  look for it: not in a capture; a peer that tests the implementation sees it"
    yield from _example(rule)


def _example(rule: Rule) -> Iterator[str]:
    """The case of the catalogue that shows it, and where."""
    from scapy_mpa.catalogue.malformed import Malformed
    from scapy_mpa.catalogue.table import example_of

    case = example_of(rule.id)
    if case is None:
        return
    make = f"  example: scapy-mpa malform {case.name} -o x.pcap"
    if rule.observable == "endpoint":
        yield make
        yield f"    {case.purpose}. A conforming peer: {case.peer.says}"
        return
    if rule in GROUPS["Memory"]:
        yield f"{make} && scapy-mpa memory x.pcap"
        yield f"    {case.purpose}"
        return
    made = Malformed(case)
    found = made.finding_of(rule.id) or made.finding_of(rule.told_as)
    assert found is not None
    by = "" if found.rule.id == rule.id else f", reported as {found.rule.id}"
    options = f" (analyze needs {' '.join(case.options)})" if case.options else ""
    yield f"{make} && scapy-mpa show x.pcap --frame {found.frame}"
    yield f"    {case.purpose}: frame {found.frame}{by}{options}"


def _ordinal(found: Requirement) -> str:
    ends = {1: "st", 2: "nd", 3: "rd"}
    end = "th" if 10 <= found.number % 100 <= 20 else ends.get(found.number % 10, "th")
    return f"{found.number}{end} requirement,"


# --- JSON ---


def as_dict(rules: Iterable[Rule]) -> dict[str, Any]:
    """These rules and the requirements that they stand for; with all rules, those without a rule too."""
    shown = list(rules)
    ids = {rule.id for rule in shown}
    told = [found for found in requirements() if len(ids) == len(RULES) or ids & set(found.row.rules)]
    return {
        "schema": SCHEMA_VERSION,
        "rules": [_rule_as_dict(rule) for rule in shown],
        "requirements": [found.as_dict() for found in told],
        "reasons": {key: REASONS[key] for key in REASONS if any(found.row.reason == key for found in told)},
    }


def _rule_as_dict(rule: Rule) -> dict[str, Any]:
    from scapy_mpa.catalogue.table import examples_of

    group = next(name for name, rules in GROUPS.items() if rule in rules)
    return {
        "rule": rule.id,
        "topic": group,
        "severity": rule.severity,
        "requirement": rule.requirement or None,
        "code": rule.code,
        "observable": rule.observable,
        "expected": rule.expected,
        "why": rule.why,
        "profiles": list(rule.profiles),
        "clauses": list(rule.clauses()),
        "examples": [case.name for case in examples_of(rule.id)],
    }
