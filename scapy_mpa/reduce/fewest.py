"""Delta debugging: the fewest items of which something still holds.

As Lithium does it: pieces are left out, half of all items at first, then half as many, until single ones. What is left
is 1-minimal: nothing can be left out of it alone (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing
Input, 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """Return some of the items, in their order, of which ``holds`` is still true; it is true of all of them."""
    left = [*items]
    size = max(1, len(left) // 2)
    while True:
        before, end = len(left), len(left)
        while end > 0:  # from the end: what comes last is needed least
            rest = left[: max(0, end - size)] + left[end:]
            if holds(rest):
                left = rest
            end -= size
        if size > 1:
            size //= 2
        elif len(left) == before:
            return left
