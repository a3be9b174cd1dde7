"""All cases of a seed."""

from __future__ import annotations

from collections.abc import Collection

from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.baselines import Baselines, baselines
from scapy_mpa.fuzz.case import FuzzCase, make
from scapy_mpa.fuzz.catalogue import weights
from scapy_mpa.fuzz.recipe import MOST_MUTATIONS, Changes, Recipe, in_area, recipe


class Fuzzer:
    """The cases of a seed: valid connections in which one or a few things are changed.

    A case is made when it is asked for, and determined by its seed and number alone: ``Fuzzer(1).case(17)``, whose
    ``packets`` are times in nanoseconds and octets, ``done`` names what was changed; ``write(path)`` writes a capture.

    Args:
        seed: 0 or more.
        begin: what cases begin from; None: the shipped scenarios and the catalogue.
        areas: of which mutations are drawn, as ``scapy-mpa fuzz --list`` names them; empty: all.
        most: the largest number of mutations in a case.
        by_message: no mutation changes packets.

    Raises:
        MPAError: The seed is below 0, or there is no such area.
    """

    def __init__(
        self,
        seed: int = 0,
        begin: Baselines | None = None,
        *,
        areas: Collection[str] = (),
        most: int = MOST_MUTATIONS,
        by_message: bool = False,
    ) -> None:
        known = weights()
        unknown = [area for area in areas if area not in known]
        if unknown:
            raise MPAError(f"there is no area {', '.join(unknown)}; the areas are {', '.join(known)}")
        if seed < 0:  # would draw what another seed draws
            raise MPAError(f"the seed is {seed}, but must be 0 or more")
        self.seed = seed
        self.baselines = baselines() if begin is None else begin
        self._only: Changes | None = "messages" if by_message else None
        wanted = [area for area in known if (not areas or area in areas) and in_area(area, self._only)]
        self._weights = {area: known[area] for area in wanted}
        self._most = most

    def recipe(self, number: int) -> Recipe:
        """What is drawn for a case."""
        return recipe(self.seed, number, self.baselines, self._weights, self._most, self._only)

    def case(self, number: int) -> FuzzCase:
        """A case."""
        return make(self.recipe(number))
