"""All kinds of changes by name, in the order of their levels, and the choice among them."""

from __future__ import annotations

from difflib import get_close_matches

from scapy_mpa.craft import impairments
from scapy_mpa.craft.changes import boundary, capture, fpdu, injected, packets, said, startup
from scapy_mpa.craft.changes.change import KINDS, LEVELS, ChangeKind
from scapy_mpa.errors import MPAError

_MODULES = (startup, said, boundary, fpdu, packets, impairments, injected, capture)
#: All kinds, level by level.
CHANGES: dict[str, ChangeKind] = {one.name: one for level in LEVELS for one in KINDS.values() if one.level == level}


def named(name: str) -> ChangeKind:
    """The kind of change with this name; raises MPAError for none, and for one whose parameters nothing draws."""
    found = CHANGES.get(name)
    if found is None or not found.area:
        known = [one.name for one in CHANGES.values() if one.area]
        near = get_close_matches(name, known, n=3, cutoff=0.4)
        hint = f"similar: {', '.join(near)}" if near else "`scapy-mpa fuzz --list` names them"
        raise MPAError(f"there is no change {name!r} that can be drawn; {hint}")
    return found
