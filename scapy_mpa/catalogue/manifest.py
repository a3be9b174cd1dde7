"""What is told of cases to programs: the manifest (its JSON schema is `manifest.schema.json`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from scapy_mpa.catalogue.baseline import BASELINES
from scapy_mpa.catalogue.case import AREAS, Case
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.rules.table import RULES

if TYPE_CHECKING:
    from scapy_mpa.catalogue.malformed import Malformed

SCHEMA_VERSION = 1
FILE_NAME = "manifest.json"


def clause_of(case: Case) -> str:
    """Where the specification says what the case is about: told, or that of its first rule (`breaks` first)."""
    if case.clause:
        return case.clause
    rules = [text.partition("@")[0] for text in (*case.breaks, *case.raises)]
    profile = BASELINES[case.baseline].setup.get("profile", "rfc5044")
    assert profile in PROFILES
    return next((clause for rule in rules if (clause := RULES[rule].clause_in(profile)) is not None), "")


def manifest(cases: Iterable[Malformed], captures: Iterable[str | None] | None = None) -> dict[str, Any]:
    """These cases, with the names of their captures where they have been written."""
    made = [*cases]
    files = [None] * len(made) if captures is None else [*captures]
    return {
        "schema": SCHEMA_VERSION,
        "areas": AREAS,
        "baselines": {name: baseline.what for name, baseline in BASELINES.items()},
        "cases": [entry(one, file) for one, file in zip(made, files, strict=True)],
    }


def entry(made: Malformed, capture: str | None = None) -> dict[str, Any]:
    """One case."""
    case = made.case
    return {
        "name": case.name,
        "area": case.area,
        "purpose": case.purpose,
        "clause": clause_of(case) or None,
        "capture": capture,
        "by": case.by,
        "baseline": case.baseline,
        "changes": [change.text for change in case.changes],
        "choices": [*case.left],
        "left": made.left,
        "raises": [{"rule": one.rule, "direction": one.direction, "severity": one.severity} for one in made.raised],
        "breaks": [*case.breaks],
        "tests": [*case.tests],
        "options": [*case.options],
        "peer": made.outcome.peer.as_dict(),
    }
