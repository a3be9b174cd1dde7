"""A cluster that is this process: tasks and answers go through pickle, as between machines, and nothing else is new."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from scapy_mpa.cluster import run


class Here:
    """The part of Dask's client that is used."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.tasks: list[Any] = []

    def scheduler_info(self, n_workers: int) -> dict[str, Any]:
        assert n_workers == -1
        return {"workers": range(self.workers)}

    def map(self, function: Callable[[Any], Any], tasks: Iterable[Any], *, pure: bool) -> list[Any]:
        assert not pure
        made = [*tasks]
        self.tasks += made
        return [pickle.loads(pickle.dumps(function(pickle.loads(pickle.dumps(task))))) for task in made]

    def gather(self, futures: list[Any]) -> list[Any]:
        return futures


def use(monkeypatch: pytest.MonkeyPatch, workers: int) -> Here:
    """Have such a cluster of so many workers in place of Dask's."""
    here = Here(workers)

    @contextmanager
    def client(cluster: run.Cluster) -> Iterator[Here]:
        yield here

    monkeypatch.setattr(run, "_client", client)
    return here
