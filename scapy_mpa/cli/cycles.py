"""How often the interpreter looks for objects that refer to each other in a circle, and frees them."""

from __future__ import annotations

import gc

_USUAL = gc.get_threshold()
_MANY = 5_000_000


def look_seldom() -> None:
    """For commands that read captures.

    Segments live as long as their block of the capture and form no cycles, nor does what is left of a connection that
    is over: looking for some, every few hundred, would cost a third of the time.
    """
    gc.set_threshold(_MANY)


def look_often() -> None:
    """For commands that run as long as somebody lets them: each live connection, each case leaves a few cycles."""
    gc.freeze()
    gc.set_threshold(*_USUAL)
