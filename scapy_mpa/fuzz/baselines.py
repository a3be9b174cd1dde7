"""The origins of cases: the exchanges of scenarios and of captures, each read when it is first drawn.

A scenario is crafted without what it has happen to its packets, and read back as any capture is: there is one way in.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cache, cached_property

from scapy_mpa.catalogue.baseline import BASELINES, OPENING
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.exchange import Exchanges, RecordedExchange, read_exchanges
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple


class Source(ABC):
    """Somewhere exchanges come from; ``name`` is what logs call it."""

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def found(self) -> Exchanges:
        """The exchanges found. Raises MPAError if they cannot be read, or there is no MPA connection."""
        return self._read()

    @abstractmethod
    def _read(self) -> Exchanges:
        """Read it, once."""


class ScenarioSource(Source):
    """A scenario that is shipped, or a file of one."""

    def _read(self) -> Exchanges:
        """The exchanges of all its connections."""
        return _crafted(self.name)


class Capture(Source):
    """A capture of the user's, perhaps only one of its connections."""

    def __init__(self, name: str, connection: int | None = None) -> None:
        super().__init__(name)
        self._connection = connection

    def _read(self) -> Exchanges:
        """The exchanges of its MPA connections."""
        found = read_exchanges(self.name, printable(self.name))
        if not found.exchanges:
            raise MPAError(f"{printable(self.name)}: there is no MPA connection to start from")
        if self._connection is None:
            return found
        chosen = [one for one in found.exchanges if one.connection == self._connection]
        if not chosen:
            last = len(found.exchanges) - 1
            raise MPAError(f"{printable(self.name)}: there is no connection {self._connection}; the last one is {last}")
        return found._replace(exchanges=tuple(chosen))


class Baselines(NamedTuple):
    """All that cases of a run may begin from."""

    sources: tuple[Source, ...]
    #: Cases may also begin from cases of the catalogue.
    with_catalogue: bool = False
    #: They are those that ship: nobody has named any.
    are_shipped: bool = False

    def valid(self) -> list[RecordedExchange]:
        """Those behind which one thing is changed: what is named, else a Send of each side."""
        return [*_opening().exchanges] if self.are_shipped else self.exchanges()

    def exchanges(self) -> list[RecordedExchange]:
        """All of them, in order."""
        return [exchange for source in self.sources for exchange in source.found.exchanges]


def baselines(
    *, captures: Sequence[str] = (), connection: int | None = None, scenarios: Sequence[str] = ()
) -> Baselines:
    """Those of captures and scenarios that are named; if none is, of all that are shipped and of the catalogue."""
    if not captures and not scenarios:
        return Baselines(tuple(map(ScenarioSource, shipped())), with_catalogue=True, are_shipped=True)
    return Baselines((*(Capture(name, connection) for name in captures), *map(ScenarioSource, scenarios)))


@cache
def _opening() -> Exchanges:
    file = io.BytesIO()
    Exchange(BASELINES["plain"].setup, OPENING).captured().write(file)
    file.seek(0)
    return read_exchanges(file, "a Send of each side")


@cache
def _crafted(name: str) -> Exchanges:
    scenario = load(name)
    file = io.BytesIO()
    Traffic(scenario.conversations, seed=scenario.seed).write(file)
    file.seek(0)
    found = read_exchanges(file, printable(name))
    if not found.exchanges:
        raise MPAError(f"{printable(name)}: there is no MPA connection to start from")
    return found
