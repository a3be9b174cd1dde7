"""The values that parameters may have: each ``Wanted`` says it in words, and checks a value.

Parameters come from people, by way of TOML, the command line and the Scapy prompt: anything may stand there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

from scapy_mpa.tuples import NamedTuple

#: Seconds of the longest pause, delay or gap: eleven days.
LONGEST_WAIT = 1_000_000


class Wanted(NamedTuple):
    """A kind of values."""

    #: As in: a whole number from 0 to 65535.
    what: str
    fits: Callable[[Any], bool]

    def complaint(self, name: str, value: object) -> str | None:
        """Return what is wrong with a value of this name; None if nothing is."""
        return None if self.fits(value) else f"{name} is {value!r}, but must be {self.what}"

    def or_nothing(self) -> Wanted:
        """The same, or None."""
        return Wanted(self.what, lambda value: value is None or self.fits(value))


def is_number(value: object) -> TypeGuard[int]:
    """Return True if it is a whole number; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole(least: int, most: int) -> Wanted:
    """Whole numbers from ``least`` to ``most``."""
    return Wanted(f"a whole number from {least} to {most}", lambda value: is_number(value) and least <= value <= most)


def up_to(most: float) -> Wanted:
    """Numbers from 0 to ``most``."""

    def fits(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most

    return Wanted(f"a number from 0 to {most}", fits)


def one_of(*known: str) -> Wanted:
    """Accept one of these."""
    return Wanted(" or ".join(known), lambda value: value in known)


FLAG = Wanted("0 or 1, or false or true", lambda value: isinstance(value, int) and value in (0, 1))
TRUTH = Wanted("true or false", lambda value: isinstance(value, bool))
TEXT = Wanted("a text", lambda value: isinstance(value, str))
SECONDS = up_to(LONGEST_WAIT)
