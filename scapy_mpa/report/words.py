"""Words that every text for people has."""

from __future__ import annotations


def plural(count: int, noun: str) -> str:
    """A number of things."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
