"""All cases by name, and which of them are asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module

from scapy_mpa.catalogue.case import AREAS, Case
from scapy_mpa.catalogue.peer import peer
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.errors import MPAError
from scapy_mpa.rules.table import RULES

#: What is expected of the peer of a change that is no case.
_ANY = peer("accept", "Nothing is known of what it must do.")


class UnknownCase(MPAError):
    """No case has this name."""


def _all() -> Iterator[Case]:
    for area in AREAS:
        for case in import_module(f"{__package__}.areas.{area}").CASES:
            yield replace(case, area=area)


CASES: dict[str, Case] = {}
for _case in _all():
    if _case.name in CASES:
        raise ValueError(f"two cases are called {_case.name!r}")
    CASES[_case.name] = _case


def named(name: str, *, is_checked: bool = True) -> Case:
    """The case with this name, or the one of a change with its parameters; raises :class:`UnknownCase`.

    ``is_checked``: the valid connection must have a place for the change.
    """
    if name not in CASES:
        if is_change(name):
            return _of_change(name, is_checked=is_checked)
        if name in RULES:
            raise UnknownCase(
                f"{name!r} is a rule, not a case; `scapy-mpa malform --list --rule {name}` lists its cases"
            )
        near = get_close_matches(name, CASES, n=3, cutoff=0.4) or [one for one in CASES if name and name in one][:3]
        hint = f"similar: {', '.join(near)}" if near else "`scapy-mpa malform --list` names them"
        raise UnknownCase(f"there is no case {name!r}; {hint}")
    return CASES[name]


def is_change(name: str) -> bool:
    """Return True if it names a change, perhaps with parameters, and no case."""
    return name not in CASES and name.partition(":")[0] in CHANGES


def broken_by(name: str) -> list[str]:
    """The rules that the side of the change breaks in the cases that make it."""
    cases = (case for case in CASES.values() if name in [change.name for change in case.changes])
    return [*dict.fromkeys(one.rule for case in cases for one in case.raised() if one.direction == case.by)]


def _of_change(text: str, *, is_checked: bool) -> Case:
    """A valid connection with one change, as in ``pad:number=2,octets=hex:01``; of its peer nothing is expected."""
    name, _, parameters = text.partition(":")
    kind = CHANGES[name]
    area = next(one for one in AREAS if one == (kind.area or "capture"))
    made = Case(
        text, kind.meaning, "markers" if area == "markers" else "plain", (kind.parse(parameters),), (), _ANY, area=area
    )
    try:
        if is_checked:
            made.plan().check()
    except (MPAError, LookupError, TypeError, ValueError) as error:
        raise UnknownCase(f"{text} cannot be made of {made.baseline}: {error}") from None
    return made


def chosen(rules: Iterable[str] = (), areas: Iterable[str] = ()) -> list[Case]:
    """The cases that raise, break or test one of these rules, and are of one of these areas; none given: all."""
    wanted, where = set(rules), set(areas)
    return [
        case
        for case in CASES.values()
        if (not wanted or wanted & set(case.rules)) and (not where or case.area in where)
    ]


def examples_of(rule: str) -> list[Case]:
    """The cases that show a rule: that raise it, the least besides first; else those that break it, or test for it."""
    raising = [case for case in CASES.values() if rule in [text.partition("@")[0] for text in case.raises]]
    if raising:
        return sorted(raising, key=lambda case: (bool(case.options), _others(case), not case.name.startswith(rule)))
    breaking = [case for case in CASES.values() if rule in (*case.breaks, *case.tests)]
    return sorted(breaking, key=lambda case: (RULES[rule].told_as not in case.raises, _others(case)))


def _others(case: Case) -> int:
    """Return how many rules it raises besides those about its peer's answer."""
    return sum(not text.endswith("@peer") for text in case.raises)


def example_of(rule: str) -> Case | None:
    """The case that shows a rule best, None if there is none."""
    return next(iter(examples_of(rule)), None)
