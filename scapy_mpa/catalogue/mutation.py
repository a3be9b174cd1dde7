"""What a change to a connection is: something named, with its arguments, that is done to a ``Plan``."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from scapy_mpa.catalogue.plan import Plan

P = ParamSpec("P")
_LONGEST = 40


class Mutation(NamedTuple):
    """A change: what it is, in words, and what does it."""

    text: str
    apply: Callable[[Plan], None]


def mutation(change: Callable[Concatenate[Plan, P], None]) -> Callable[P, Mutation]:
    """Make a function that changes a plan into one that takes everything else and gives the ``Mutation``."""

    @wraps(change)
    def told(*args: P.args, **kwargs: P.kwargs) -> Mutation:
        values = [*map(_shown, args), *(f"{name}={_shown(value)}" for name, value in kwargs.items())]
        text = f"{change.__name__.replace('_', '-')}({', '.join(values)})"
        return Mutation(text, lambda plan: change(plan, *args, **kwargs))

    return told


def _shown(value: object) -> str:
    """A value, shortened."""
    if isinstance(value, bytes):
        return f"{value.hex()}" if len(value) <= _LONGEST // 2 else f"{len(value)} octets"
    if callable(value):
        return getattr(value, "__name__", "function")
    text = repr(value) if not isinstance(value, str) else value
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
