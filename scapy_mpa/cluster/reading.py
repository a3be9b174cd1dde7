"""The first stage: a task reads a *unit*, one capture or some that must be read together, and divides its segments.

What one capture says of another is all that could make a difference between reading them apart and one after the other:

* captures that overlap in time may hold the same packets (:mod:`~scapy_mpa.capture.twice`), or are merged: these are
  one unit from the beginning (:func:`units_of`);
* an IP datagram may begin in one capture and end in the next: when both were read, their tasks tell (``waiting`` and
  ``fragmented``), and they are read again, as one unit (:func:`torn`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.fragments import LIFETIME, Datagram, Fragment, Fragments
from scapy_mpa.capture.joining import ends_of
from scapy_mpa.capture.named import Sources
from scapy_mpa.capture.notes import Note, Notes, Unread
from scapy_mpa.capture.reader import Reader
from scapy_mpa.capture.twice import SAME_TIME
from scapy_mpa.cluster.partition import Chunk, PartitionWriter
from scapy_mpa.cluster.shared import SharedFolder, absolute, said
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.reading.query import EVERYTHING, Query, Selection
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import Limits
from scapy_mpa.version import __version__

#: Fragmented datagrams that a task remembers; if there are more, all are taken to be torn.
_MOST_FRAGMENTED = 1 << 16
#: Rules whose note counts packets of several captures: it can be made by only one task.
_COUNTED_TOGETHER = ("capture-twice", "capture-taps")


class ReadingTask(NamedTuple):
    """A unit to be read, and where what is found goes.

    ``paths`` and ``names`` are where its captures are and what they are called, ``indexes`` which of all they are;
    ``groups``, ``begins`` and ``ends`` are those of :class:`~scapy_mpa.capture.named.Sources`.
    """

    folder: SharedFolder
    shares: int
    paths: list[str]
    names: list[str]
    indexes: list[int]
    groups: list[list[int]]
    begins: list[int | None]
    ends: list[int | None]
    selection: Selection
    limits: Limits
    udp_ports: Mapping[int, str]
    version: str = __version__


class UnitRead(NamedTuple):
    """The result of a unit: where its segments are, and remarks about reading it.

    ``frames`` has the frames of each capture, by its index, in the order of reading; ``said`` lines on what could not
    be read: the index of the capture, whether nothing of it can be read, the line. ``unread`` counts packets in what is
    not read: one note is made of those of all units. ``waiting`` and ``fragmented`` are the datagrams that lack
    fragments at the end, and all that came in fragments, with the time of the first fragment; ``fragmented`` is None if
    there were too many.
    """

    name: str
    chunks: list[Chunk]
    frames: list[tuple[int, int]]
    said: list[tuple[int, bool, str]]
    notes: list[Note]
    unread: Unread | None
    services: dict[tuple[bytes, int], int]
    waiting: dict[bytes, int]
    fragmented: dict[bytes, int] | None

    @property
    def packets(self) -> int:
        """Frames of all captures."""
        return sum(frames for _, frames in self.frames)


def reading_task(query: Query, groups: Sequence[int], folder: SharedFolder, shares: int) -> ReadingTask:
    """The task of a unit: these groups of the captures."""
    sources = query.sources
    indexes = [index for group in groups for index in sources.groups[group]]
    at = {index: place for place, index in enumerate(indexes)}
    given = [os.fspath(sources[index]) for index in indexes]  # type: ignore[arg-type]
    return ReadingTask(
        folder,
        shares,
        [absolute(name) for name in given],
        given,
        indexes,
        [[at[index] for index in sources.groups[group]] for group in groups],
        [sources.begins[index] for index in indexes],
        [sources.ends[index] for index in indexes],
        query.selection,
        query.limits,
        sources.udp_ports,
    )


def units_of(sources: Sources, limits: Limits) -> list[list[int]]:
    """The units of captures, each by the numbers of its groups: those that overlap in time are one."""
    units = [[number] for number in range(len(sources.groups))]
    spans = []
    for number, group in enumerate(sources.groups if len(units) > 1 else ()):
        is_known = all(sources.begins[index] is not None for index in group)
        span = _span_of(sources, group, limits)
        # What has no packet overlaps with nothing.
        if span is not None:
            spans.append((*span, number, is_known))
    together: list[tuple[int, int]] = []
    open_now: list[tuple[int, int, int, bool]] = []
    for begin, end, number, is_known in sorted(spans):
        open_now = [one for one in open_now if one[1] > begin]
        for first, last, other, was_known in open_now:
            least = min(SAME_TIME, (end - begin) // 2, (last - first) // 2) if is_known and was_known else 0
            if min(end, last) - begin > least:
                together.append((min(number, other), max(number, other)))
        open_now.append((begin, end, number, is_known))
    return joined(units, together)


def _span_of(sources: Sources, group: Sequence[int], limits: Limits) -> tuple[int, int] | None:
    """The times of the first and the last record of some captures, looked for if nobody has."""
    found: list[int] = []
    for index in group:
        begin, end = sources.begins[index], sources.ends[index]
        if begin is None or end is None:
            with suppress(CaptureError):  # reading it will raise that
                found += ends_of(sources[index], limits) or ()
        else:
            found += (begin, end)
    return (min(found), max(found)) if found else None


def joined(units: Sequence[list[int]], together: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The units, where those from one number to another are one for each pair of numbers, both included."""
    reach = list(range(len(units)))
    for first, last in together:
        reach[first] = max(reach[first], last)
    found: list[list[int]] = []
    until = -1
    for number, unit in enumerate(units):
        if number <= until:
            found[-1].extend(unit)
        else:
            found.append([*unit])
        until = max(until, reach[number])
    return found


def torn(units: Sequence[UnitRead]) -> list[tuple[int, int]]:
    """Return which units, from one number to another, cannot be read separately.

    An IP datagram begins in the one and may continue in the other; or both have a note that counts what is in several
    captures.
    """
    found = []
    waiting: dict[bytes, tuple[int, int]] = {}
    for number, unit in enumerate(units):
        if unit.fragmented is None:
            found += [(first, number) for _, first in waiting.values()]
            waiting.clear()
        else:
            for key, time in unit.fragmented.items():
                begun, first = waiting.pop(key, (0, number))
                if first != number and time - begun <= LIFETIME:
                    found.append((first, number))
        waiting.update({key: (time, number) for key, time in unit.waiting.items()})
    for rule in _COUNTED_TOGETHER:
        noted = [number for number, unit in enumerate(units) if any(note.rule == rule for note in unit.notes)]
        if len(noted) > 1:
            found.append((noted[0], noted[-1]))
    return found


def read_unit(task: ReadingTask) -> UnitRead:
    """Read a unit; runs where there is a worker.

    Raises :class:`~scapy_mpa.errors.MPAError` if its captures cannot be opened there, or the folder cannot be written.
    """
    if task.version != __version__:
        raise MPAError(f"a worker has scapy-mpa {__version__}, and this is {task.version}: both must be the same")
    captures = _UnitCaptures(task)
    try:
        name, file = task.folder.create("segments")
        with captures, file:
            writer = PartitionWriter(task.folder, file, task.shares)
            before = 0
            for segments in captures.batches():
                selected = segments if task.selection == EVERYTHING else task.selection.of(segments)
                writer.add(selected, captures.octets - before)
                before = captures.octets
            writer.finish()
    except OSError as error:
        raise MPAError(f"{printable(task.folder.name)}: {said(error)}") from error
    readers = captures.readers
    return UnitRead(
        name,
        writer.chunks,
        [(task.indexes[one], readers[one].frames - readers[one].before) for one in captures.order],
        captures.said,
        captures.notes,
        captures.unread,
        captures.services,
        captures.seen.waiting(),
        captures.seen.fragmented,
    )


class _SeenFragments(Fragments):
    """Fragments that are only remembered, not reassembled."""

    def __init__(self, limits: Limits, notes: Notes, udp_ports: Mapping[int, str]) -> None:
        super().__init__(limits, notes, udp_ports=udp_ports)
        self.fragmented: dict[bytes, int] | None = {}

    def add(self, fragment: Fragment, frame: int, time: int) -> Datagram | None:
        """Add a fragment, as for any capture."""
        if self.fragmented is not None:
            self.fragmented.setdefault(fragment.key, time)
            if len(self.fragmented) > _MOST_FRAGMENTED:
                self.fragmented = None
        return super().add(fragment, frame, time)


class _UnitCaptures(Captures):
    """The captures of a unit: what cannot be read of them is collected, for whoever knows of the others."""

    def __init__(self, task: ReadingTask) -> None:
        super().__init__(Sources(task.paths, task.groups, task.begins, task.ends), limits=task.limits)
        self.names = task.names
        self.said: list[tuple[int, bool, str]] = []
        self.seen = self.fragments = _SeenFragments(task.limits, self.fragments.notes, task.udp_ports)
        self._indexes = dict(zip(map(id, self.readers), task.indexes, strict=True))
        for reader, name in zip(self.readers, task.names, strict=True):
            reader.fragments = self.seen
            reader.name = printable(name)

    @property
    def order(self) -> list[int]:
        """The captures of the unit in the order of reading."""
        return [index for group in self.sources.groups for index in group]

    def _conclude(self, reader: Reader) -> None:
        index = self._indexes[id(reader)]
        known = len(self.damage)
        try:
            super()._conclude(reader)
        except CaptureError as error:
            self.said.append((index, True, str(error)))
        self.said += [(index, False, line) for line in self.damage[known:]]
