"""Words that every text for people has."""

from __future__ import annotations


def plural(count: int, noun: str, *, thousands: bool = False) -> str:
    """Return a number of things; with ``thousands``, thousands are separated."""
    return (f"{count:,}" if thousands else f"{count}") + f" {noun}" + ("" if count == 1 else "s")
