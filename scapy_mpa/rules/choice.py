"""The rules that are asked for, by ID or by the beginning of one."""

from __future__ import annotations

from collections.abc import Iterable

from scapy_mpa.errors import MPAError
from scapy_mpa.rules.table import RULES


class UnknownRule(MPAError):
    """No rule has this ID, and none begins with it."""


def chosen(rules: Iterable[str] = (), ignored: Iterable[str] = ()) -> frozenset[str]:
    """The ids of ``rules`` (all, if there are none), and of those they are reported as, without those of ``ignored``.

    Each names one rule by its id, or else all whose ids begin with it. Raises :class:`UnknownRule`.
    """
    taken = {rule for name in rules for rule in named(name)} or set(RULES)
    taken |= {RULES[rule].told_as for rule in taken} - {""}
    return frozenset(taken.difference(*map(named, ignored)))


def named(name: str) -> tuple[str, ...]:
    """Return the rule with this ID, else those whose IDs begin with it; raises :class:`UnknownRule` for none."""
    found = (name,) if name in RULES else tuple(rule for rule in RULES if name and rule.startswith(name))
    if not found:
        raise UnknownRule(f"there is no rule {name!r}, and no rule begins with it; {near(name)}")
    return found


def near(name: str) -> str:
    """Return the rules that may have been meant by an unknown name."""
    from difflib import get_close_matches

    matches = get_close_matches(name, RULES, n=3, cutoff=0.5) or [rule for rule in RULES if name and name in rule][:3]
    return f"similar: {', '.join(matches)}" if matches else "`scapy-mpa rules` lists them"
