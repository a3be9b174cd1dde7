"""How to analyse a capture of the catalogue: the options of ``scapy-mpa analyze`` as arguments of ``analyze``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scapy_mpa.values.assumptions import parse_assumptions
from scapy_mpa.values.limits import parse_limits


def options(words: Sequence[str]) -> dict[str, Any]:
    """Keyword arguments from options such as ("--limit", "held_octets=4k")."""
    given: dict[str, list[str]] = {}
    for name, value in zip(words[::2], words[1::2], strict=True):
        given.setdefault(name, []).append(value)
    found: dict[str, Any] = {}
    if "--limit" in given:
        found["limits"] = parse_limits(given["--limit"])
    if "--assume" in given or "--profile" in given:
        found["assumptions"] = parse_assumptions(tuple(given.get("--assume", ())), *given.get("--profile", [None]))
    return found
