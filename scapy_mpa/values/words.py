"""Words that every text for people has."""

from __future__ import annotations


def plural(count: int, noun: str, *, thousands: bool = False) -> str:
    """A number of things; with ``thousands`` these are set apart."""
    return (f"{count:,}" if thousands else f"{count}") + f" {noun}" + ("" if count == 1 else "s")
