"""All cases of a seed."""

from __future__ import annotations

from collections.abc import Collection

from .baselines import Baselines, baselines
from .case import Case, make
from .catalogue import weights
from .recipe import MOST_MUTATIONS, Recipe, recipe


class Fuzzer:
    """The cases of a seed over some baselines (None: the shipped scenarios), with mutations of `areas` (none: all).

    A case is made when it is asked for, from its number alone.
    """

    def __init__(
        self,
        seed: int = 0,
        begin: Baselines | None = None,
        *,
        areas: Collection[str] = (),
        most: int = MOST_MUTATIONS,
    ) -> None:
        self.seed = seed
        self.baselines = baselines() if begin is None else begin
        self._weights = {area: weight for area, weight in weights().items() if not areas or area in areas}
        self._most = most

    def recipe(self, number: int) -> Recipe:
        """What is drawn for a case."""
        return recipe(self.seed, number, self.baselines, self._weights, self._most)

    def case(self, number: int) -> Case:
        """A case."""
        return make(self.recipe(number))
