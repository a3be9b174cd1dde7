"""The cases to send, by name, area and clause, and the failures that are known."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from random import Random

from scapy_mpa.catalogue.case import AREAS
from scapy_mpa.catalogue.table import CASES, is_change, named
from scapy_mpa.errors import MPAError
from scapy_mpa.probe.case import CONFORMANT, ProbeCase
from scapy_mpa.probe.conformant import conformant_cases
from scapy_mpa.rules.table import RULES
from scapy_mpa.system.names import printable

PROBE_AREAS = (CONFORMANT, *AREAS)


@cache
def all_cases() -> dict[str, ProbeCase]:
    """All by their names: conformant ones first, then the catalogue."""
    found = {case.name: case for case in conformant_cases()}
    found |= {name: ProbeCase(case, case.area) for name, case in CASES.items()}
    return found


def chosen(
    names: Sequence[str] = (), skipped: Sequence[str] = (), areas: Sequence[str] = (), clauses: Sequence[str] = ()
) -> list[ProbeCase]:
    """Return the named cases, of these areas and clauses (all without any), without the skipped ones.

    Names may have * and ? in them, or be changes with their parameters; a clause counts for what is below it. Raises
    MPAError for what chooses nothing.
    """
    for area in areas:
        if area not in PROBE_AREAS:
            raise MPAError(f"there is no area {printable(area)!r}; the areas are {', '.join(PROBE_AREAS)}")
    changes = [ProbeCase(case, case.area) for case in map(named, filter(is_change, names))]
    patterns = [name for name in names if not is_change(name)]
    wanted = _matching(patterns) if names else {*all_cases()}
    left_out = _matching(skipped)
    found = [
        case
        for name, case in all_cases().items()
        if name in wanted
        and name not in left_out
        and (not areas or case.area in areas)
        and (not clauses or any(_is_below(case.clause, clause) for clause in clauses))
    ]
    found += changes
    if not found:
        hint = "; write a clause as --list --format jsonl does: 'RFC 5044 §4'" if clauses else ""
        raise MPAError(f"no case is selected{hint}")
    return found


def sampled(cases: Sequence[ProbeCase], count: int, seed: int) -> list[ProbeCase]:
    """Return this many of the cases, drawn by the seed, in their order; the first and the last are conformant ones.

    Those are conformant, so that they show whether the peer works at all, before and after; where there are none among
    the cases, all are drawn.
    """
    random = Random(seed)
    sane = [case for case in cases if case.is_conformant]
    ends = sane[:2] if count > 1 and len(sane) > 1 else sane[:1] if count == 1 else []
    others = [case for case in cases if case not in ends]
    keyed = sorted(range(len(others)), key=lambda _: random.random())
    drawn = [others[at] for at in sorted(keyed[: max(0, count - len(ends))])]
    return [*ends[:1], *drawn, *ends[1:]]


def _is_below(clause: str, of: str) -> bool:
    """Return True if a clause is this one, or a part of it: "RFC 5044 §4" has "RFC 5044 §4.2", not "RFC 5044 §40"."""
    if not clause.startswith(of):
        return False
    rest = clause[len(of) :]
    return not rest or not (rest[0].isdigit() and of[-1].isdigit())


def _matching(patterns: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for pattern in patterns:
        matching = [name for name in all_cases() if fnmatchcase(name, pattern)]
        if not matching:
            near = get_close_matches(pattern, all_cases(), n=3, cutoff=0.4)
            hint = f"similar: {', '.join(near)}" if near else "--list names them"
            raise MPAError(f"there is no case {printable(pattern)!r}; {hint}")
        found |= {*matching}
    return found


def lines_of(path: str) -> frozenset[str]:
    """Return the lines of a file, without what follows # and without empty ones; raises MPAError."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line.partition("#")[0].strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise MPAError(f"{printable(path)}: {getattr(error, 'strerror', None) or error}") from None
    return frozenset(line for line in lines if line)


def known_failures(path: str) -> frozenset[str]:
    """Names of cases, of rules and of deviations (``rule:what``) in a file, one a line; what follows # says why.

    Raises MPAError.
    """
    found = lines_of(path)
    for name in sorted(one for one in found - {*all_cases(), *RULES} if ":" not in one):
        near = get_close_matches(name, [*all_cases(), *RULES], n=1, cutoff=0.4)
        hint = f"; similar: {near[0]}" if near else ""
        raise MPAError(f"{printable(path)}: there is no case or rule {printable(name)!r}{hint}")
    return found
