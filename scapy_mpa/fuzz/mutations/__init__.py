"""What may be done to a case: the mutations by name, each with its area and the stage at which it comes.

A mutation takes a draft and a generator, changes the draft and says in a few words what it changed where; None if there
is nothing in the draft to which it could be done. Those of ``MESSAGES`` change units before they are laid, those of
``PACKETS`` the packets that carry them. The areas are the catalogue's, and how many cases the catalogue has in an area
is how often it is drawn.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from scapy_mpa.fuzz.draft import Draft
from scapy_mpa.fuzz.mutations import (
    alignment,
    attack,
    capture,
    ddp,
    fpdu,
    markers,
    negotiation,
    startup,
    tcp,
    teardown,
)

Apply = Callable[[Draft, random.Random], "str | None"]


class NamedMutation(NamedTuple):
    """One of them; ``by_message``: it changes units, not packets."""

    name: str
    area: str
    by_message: bool
    apply: Apply

    @property
    def meaning(self) -> str:
        """What it does, in a line."""
        return (self.apply.__doc__ or "").splitlines()[0].rstrip(".")


def _table() -> dict[str, NamedMutation]:
    made = {}
    for module in (startup, negotiation, fpdu, markers, alignment, teardown, ddp, tcp, attack, capture):
        area = module.__name__.rpartition(".")[2]
        for by_message in (True, False):
            for function in module.MESSAGES if by_message else module.PACKETS:
                name = f"{area}-{function.__name__.strip('_').replace('_', '-')}"
                made[name] = NamedMutation(name, area, by_message, function)
    return made


#: All of them, in the order of a connection's life.
MUTATIONS: dict[str, NamedMutation] = _table()
