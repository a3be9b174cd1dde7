"""One requirement of a specification."""

from __future__ import annotations

from typing import TypeAlias

from scapy_mpa.tuples import NamedTuple


class Row(NamedTuple):
    """One occurrence of a requirement word.

    ``asks`` says in our words what is required. Either ``rules`` are those that a breach of it breaks, or ``reason``
    is the key of why there is none, in :data:`~scapy_mpa.rules.requirements.unobservable.REASONS`. ``like`` is the
    section and number of the requirement of RFC 5044 that asks for the same.
    """

    word: str
    asks: str
    rules: tuple[str, ...] = ()
    reason: str = ""
    like: tuple[str, int] | None = None


#: The rows of a specification by section, each in the order of the text.
Sections: TypeAlias = dict[str, tuple[Row, ...]]


def seen(word: str, asks: str, *rules: str) -> Row:
    """A requirement whose breach can be seen: it breaks these rules."""
    return Row(word, asks, rules)


def unseen(word: str, asks: str, reason: str) -> Row:
    """A requirement whose breach cannot be seen."""
    return Row(word, asks, reason=reason)
