"""Delta debugging: the fewest items for which something still holds.

As Lithium does it: pieces are left out, half of all items at first, then half as many, until single ones. What is left
is 1-minimal: nothing can be left out of it alone (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing
Input, 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fewest(items: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """Return some of the items, in order, for which ``holds`` is still true; it is true of all of them."""
    left = [*items]
    size = max(1, len(left) // 2)
    while size > 1:
        left = _once(left, size, holds)
        size //= 2
    # Single ones go round until each has been tried since the last that could be left out.
    end, needed = len(left), 0
    while needed < len(left):
        end = end or len(left)
        rest = left[: end - 1] + left[end:]
        if holds(rest):
            # What follows it may have been needed because of it: that is tried next.
            left, needed = rest, 0
            end = min(end, len(left))
        else:
            needed += 1
            end -= 1
    return left


def _once(left: list[T], size: int, holds: Callable[[list[T]], bool]) -> list[T]:
    """Return some of the items: each piece of so many is tried once."""
    end = len(left)
    while end > 0:  # from the end: what comes last is needed least
        rest = left[: max(0, end - size)] + left[end:]
        if holds(rest):
            left = rest
        end -= size
    return left
