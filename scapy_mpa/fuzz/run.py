"""All cases of a seed."""

from __future__ import annotations

from collections.abc import Collection

from scapy_mpa.craft.changes.change import LEVELS, OF_MESSAGES, Level
from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.baselines import Baselines, baselines
from scapy_mpa.fuzz.case import FuzzCase, in_area, make
from scapy_mpa.fuzz.catalogue import weights
from scapy_mpa.fuzz.recipe import MOST_MUTATIONS, Drawn, Mutation, Recipe, recipe
from scapy_mpa.fuzz.single import single, single_changes
from scapy_mpa.fuzz.upper import CHANGES, UPPER, carried, named


class Fuzzer:
    """The cases of a seed: valid connections with one or a few things changed.

    A case is made on demand, and depends only on its seed and number: ``Fuzzer(1).case(17)``. Its ``packets`` are times
    in nanoseconds and octets, ``done`` names what was changed, and ``write(path)`` writes a capture.

    Args:
        seed: 0 or more.
        begin: what cases begin from; None: the shipped scenarios and the catalogue.
        areas: of which changes are drawn, as ``scapy-mpa fuzz --list`` names them; empty: all, those of
            upper layers only if something that is named to begin from has one.
        changes: the names of the changes that are drawn alone; empty: those of ``areas``.
        most: the largest number of changes in a case.
        by_message: no change of packets is drawn, and cases of one change behind a valid exchange come first.

    Raises:
        MPAError: The seed is below 0, or there is no such area or change.
    """

    def __init__(
        self,
        seed: int = 0,
        begin: Baselines | None = None,
        *,
        areas: Collection[str] = (),
        changes: Collection[str] = (),
        most: int = MOST_MUTATIONS,
        by_message: bool = False,
    ) -> None:
        known = {**weights(), UPPER: weights()["ddp"]}
        unknown = [area for area in areas if area not in known]
        if unknown:
            raise MPAError(f"there is no area {', '.join(unknown)}; the areas are {', '.join(known)}")
        if seed < 0:  # would draw what another seed draws
            raise MPAError(f"the seed is {seed}, but must be 0 or more")
        self.seed = seed
        self.baselines = baselines() if begin is None else begin
        wanted = tuple(named(name).name for name in changes)
        uppers = set() if self.baselines.are_shipped else carried(one.upper for one in self.baselines.exchanges())
        if not areas and not uppers and UPPER not in [CHANGES[name].area for name in wanted]:
            del known[UPPER]

        def drawn(levels: Collection[Level]) -> Drawn:
            names = {
                area: [one for one in in_area(area, levels) if one in (wanted or (one,))]
                for area in known
                if not areas or area in areas
            }
            return Drawn(known, {area: found for area, found in names.items() if found}, wanted)

        if changes or {*areas} == {UPPER}:  # which a case of the catalogue has no room for
            self.baselines = self.baselines._replace(with_catalogue=False)
        self._drawn = drawn(OF_MESSAGES if by_message else LEVELS)
        self._of_packets = drawn(("packet", "capture"))
        self.most = most
        names = [name for found in self._drawn.names.values() for name in found]
        self._singles: list[Mutation] = single_changes(seed, names, uppers) if by_message and most else []
        if not names:
            raise MPAError("none of the requested changes belongs to these areas")

    def recipe(self, number: int) -> Recipe:
        """Return what is drawn for a case."""
        if number < len(self._singles):
            return single(self.seed, number, self._singles[number], self.baselines)
        return recipe(self.seed, number, self.baselines, self._drawn, self._of_packets, self.most)

    def case(self, number: int) -> FuzzCase:
        """A case."""
        return make(self.recipe(number))
