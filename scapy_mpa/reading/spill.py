"""Temporary files for what does not fit in memory: tuples written in one order and read in another, and octets.

What a capture shows of a frame, or of an FPDU, is known at another place than where it is needed, perhaps at the other
end of the capture. So it is sorted. Memory follows the limits given here, the files the number of FPDUs.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator
from heapq import merge
from itertools import chain, islice
from typing import IO, Any, Generic, TypeVar

from scapy_mpa.system.temporary import MemoryFirst, temporary_file

#: Weight of the tuples held in memory; one of a few numbers weighs 1 and takes some 300 octets.
_HELD = 1 << 14
#: Tuples of a file that are read at a time, at most.
_CHUNK = 256
#: This many octets of one are enough.
_CHUNK_OCTETS = 1 << 15
#: Files that are merged at a time: each takes a buffer and one of the operating system's file descriptors.
_MOST_RUNS = 32
#: Octets kept in memory before they go into a file.
_HELD_OCTETS = 1 << 22

T = TypeVar("T", bound=tuple[Any, ...])


class Sorted(Generic[T]):
    """Takes tuples of what :mod:`marshal` knows, in any order; iterating yields them in theirs.

    No two may be equal as far as they cannot be compared. Iterating ends the taking; it may be done again.
    """

    def __init__(self) -> None:
        self._weight = 0
        self._held: list[T] = []
        #: Sorted files; those of each list are made of as many of the list before as are merged at a time.
        self._runs: list[list[IO[bytes]]] = []

    def add(self, item: T, weight: int = 1) -> None:
        """Add a tuple; ``weight`` tells how many ordinary ones it counts for.

        Raises OSError if a file cannot be written.
        """
        self._held.append(item)
        self._weight += weight
        if self._weight >= _HELD:
            self._held.sort()
            run = _written(iter(self._held))
            self._held, self._weight = [], 0
            for runs in self._runs:
                runs.append(run)
                if len(runs) < _MOST_RUNS:
                    return
                run = _written(merge(*map(_read, runs)))
                _close(runs)
            self._runs.append([run])

    def __iter__(self) -> Iterator[T]:
        """Yield all that was taken, sorted."""
        self._held.sort()
        return merge(*map(_read, chain.from_iterable(self._runs)), self._held)

    def close(self) -> None:
        """Release everything."""
        self._held = []
        for runs in self._runs:
            _close(runs)


def _close(runs: list[IO[bytes]]) -> None:
    for run in runs:
        run.close()
    runs.clear()


def _written(items: Iterator[T]) -> IO[bytes]:
    file = temporary_file()
    size = 1
    while chunk := list(islice(items, size)):
        octets = marshal.dumps(chunk)
        file.write(octets)
        # An FPDU that very many frames brought is as much as thousands of others.
        size = min(2 * size, _CHUNK) if len(octets) < _CHUNK_OCTETS else max(size // 2, 1)
    return file


def _read(file: IO[bytes]) -> Iterator[Any]:
    place = 0
    while True:
        # Another one may be reading the same file.
        file.seek(place)
        try:
            chunk = marshal.load(file)
        except EOFError:
            return
        place = file.tell()
        yield from chunk


class OctetStore:
    """Octets, kept until they are needed again."""

    def __init__(self) -> None:
        self._file = MemoryFirst(max_size=_HELD_OCTETS)
        self._end = 0

    def keep(self, octets: bytes) -> int:
        """Keep octets; returns their place."""
        place = self._end
        self._file.seek(place)
        self._file.write(octets)
        self._end += len(octets)
        return place

    def at(self, place: int, length: int) -> bytes:
        """Return ``length`` octets from a position on."""
        self._file.seek(place)
        return self._file.read(length)

    def close(self) -> None:
        """Release everything."""
        self._file.close()
