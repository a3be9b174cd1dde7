"""Several captures as one, opened by name.

Those of one group (:class:`~scapy_mpa.capture.named.Sources`) are merged by the time of the records at their heads,
as mergecap does: never re-sorted within a file, ties in the order given. Groups follow one another. Frame numbers run
through all of them, from 1. A capture is read from when its first record is due, so few files are open at a time.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from heapq import heapify, heappop, heapreplace
from io import BufferedReader, FileIO
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.linktypes import note_not_read
from scapy_mpa.capture.named import STANDARD_INPUT, CaptureSource, Sources, as_sources, name_of
from scapy_mpa.capture.notes import Note, Notes, Unread
from scapy_mpa.capture.opened import AsItComes, OnDemandFile, OpenFiles
from scapy_mpa.capture.packet import FRAGMENT, UNKNOWN_LINK, segment_of_fragment
from scapy_mpa.capture.pcap import MAGIC_NUMBERS, PcapReader
from scapy_mpa.capture.pcapng import PCAPNG_MAGIC, PcapngReader
from scapy_mpa.capture.reader import BLOCK_SIZE, Reader
from scapy_mpa.capture.source import Expansion, Octets, octets_of, what_else
from scapy_mpa.capture.streams import StreamReader, Streams, answered
from scapy_mpa.capture.twice import SAME_TIME, PacketsTwice, Repeats
from scapy_mpa.errors import CaptureError
from scapy_mpa.system.names import encodable, printable
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment, renumbered

if TYPE_CHECKING:
    from scapy_mpa.capture.esp import Decryption

T = TypeVar("T")

#: Segments handed on at a time when captures are merged.
_MERGED_BATCH = 1024
#: Octets of blocks that these may keep, besides what each capture holds anyway.
_MERGED_OCTETS = 1 << 24
#: Later than any packet.
_NEVER = 1 << 80


class Captures:
    """One or more captures, to be read once, each by one of ``readers``.

    ``names`` are as given, as far as JSON can hold them; ``packets`` counts the records read so far, ``octets`` those
    of the blocks that their segments lie in; ``damage`` collects one line for each capture that could only be read in
    part, ``notes`` are what the report is to say about the packets. ``fragments`` puts IP datagrams together, across
    captures, within ``limits``. Use as a context manager: files it opened are closed at its end.
    """

    def __init__(self, sources: CaptureSource | Sequence[CaptureSource], *, limits: Limits = DEFAULT_LIMITS) -> None:
        """Open all sources; raises :class:`~scapy_mpa.errors.CaptureError` for one that cannot be read."""
        self.sources = as_sources(sources)
        self.damage = [*self.sources.skipped]
        self._notes = Notes()
        self._limits = limits
        self.fragments = Fragments(limits, self._notes, decryption(self.sources), self.sources.udp_ports)
        #: Frames of the groups that were read.
        self._before = 0
        #: Octets of the blocks that were handed on.
        self.octets = 0
        self._files = OpenFiles()
        with ExitStack() as stack:
            stack.callback(self._files.close)
            self._on_demand: dict[int, OnDemandFile] = {}
            self.readers = [self._open(index, source, stack) for index, source in enumerate(self.sources)]
            self._stack = stack.pop_all()
        self.names = [encodable(name_of(source)) for source in self.sources]

    def _open(self, index: int, source: CaptureSource, stack: ExitStack) -> Reader:
        if source == STANDARD_INPUT:
            file = sys.stdin.buffer
            if isinstance(file, BufferedReader) and not file.seekable():
                return self._reader(index, AsItComes(file), STANDARD_INPUT)
            return self._reader(index, file, STANDARD_INPUT)
        if not isinstance(source, (str, os.PathLike)):
            return self._reader(index, source, name_of(source))
        opened: BinaryIO | Octets
        try:
            if stat.S_ISREG(os.stat(source).st_mode):
                opened = self._on_demand[index] = self._files.file(source)
            else:
                opened = stack.enter_context(FileIO(source))
        except (OSError, ValueError) as error:
            raise CaptureError(f"{printable(source)}: {getattr(error, 'strerror', None) or error}") from error
        return self._reader(index, opened, name_of(source))

    def _reader(self, index: int, file: BinaryIO | Octets, name: str) -> Reader:
        """A reader for what the first octets say, or for the octets of a stream."""
        try:
            if isinstance(self.sources, Streams):
                return self.sources.reader(index, file, printable(name), self.fragments)
            return reader_of(file, name, self.fragments, self._limits)
        except OSError as error:
            raise CaptureError(f"{printable(name)}: {error.strerror or error}") from error

    def __enter__(self) -> Captures:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def packets(self) -> int:
        """Records read so far, of all captures."""
        return sum(reader.frames - reader.before for reader in self.readers)

    @property
    def begins(self) -> list[tuple[int, int]] | None:
        """After the last batch: how many frames precede each capture, and which capture it is, in the order of reading.

        None if some were merged.
        """
        if len(self.sources.groups) < len(self.readers):
            return None
        return [(self.readers[index].before, index) for (index,) in self.sources.groups]

    @property
    def services(self) -> dict[tuple[bytes, int], int]:
        """The ports of services that a port mapper named, by the address and port where they really listen."""
        return self.fragments.mappings.services

    @property
    def notes(self) -> list[Note]:
        """Notes about the packets read so far: one per rule."""
        return self._notes.all()

    @property
    def unread(self) -> Unread | None:
        """The packets read so far that may hold TCP in what is not read; None if there were none."""
        return self._notes.unread

    def batches(self, *, copies: bool = False) -> Iterator[list[Segment]]:
        """Yield the segments of all captures in lists; with ``copies``, those too that one capture holds twice.

        Raises :class:`~scapy_mpa.errors.CaptureError` at the end if a damaged capture gave no packet at all.
        """
        batches = self._batches(copies)
        if not isinstance(self.sources, Streams):
            return batches
        # Acknowledgements would say that octets from the middle of a connection are its first.
        streams = [reader for reader in self.readers if isinstance(reader, StreamReader)]
        return answered(batches) if all(reader.is_from_start for reader in streams) else batches

    def _batches(self, copies: bool) -> Iterator[list[Segment]]:
        twice = PacketsTwice([*zip(self.sources.begins, self.sources.ends, strict=True)])
        groups, latest = self.sources.groups, 0
        due = [_NEVER] * len(groups)
        for number in range(len(groups) - 2, -1, -1):
            begins = [begin for index in groups[number + 1] if (begin := self.sources.begins[index])]
            due[number] = min(due[number + 1], *begins) if begins else due[number + 1]
        for number, group in enumerate(groups):
            if len(group) == 1:
                reader = self.readers[group[0]]
                reader.begin_at(self._before)
                # Those of a rotation may overlap a little; only there a packet may be in two files.
                begin, end = self.sources.begins[group[0]], self.sources.ends[group[0]]
                low = latest + SAME_TIME if begin is None or begin <= latest else 0
                high = due[number] - SAME_TIME if end is None or end >= due[number] else _NEVER
                last, repeats = 0, Repeats(self._notes)
                for batch in _readable(reader, every_record=False):
                    self.octets += len(batch[0].buffer) if batch else 0
                    if batch and len(groups) > 1:
                        last = max(last, batch[-1].time)
                        if batch[0].time <= low or last >= high:
                            batch = [seg for seg in batch if low < seg.time < high or not twice.is_copy(seg, group[0])]
                    yield batch if copies else repeats.without(batch)
                latest = max(latest, last)
            else:
                yield from self._merged(group, twice, copies)
            self._end(group)
        for reader in self.readers:
            self._conclude(reader)
        if self._notes.unread is not None:
            note = self._notes.unread.note(self.packets)
            self._notes.tell_with(note)
            self.damage.append(note.detail)
        for note in twice.notes(self.names):
            self._notes.tell_with(note)

    def _end(self, group: Sequence[int]) -> None:
        self._before += sum(self.readers[index].frames - self.readers[index].before for index in group)
        for index in group:
            if len(self.readers) > 1 and index in self._on_demand:
                self._on_demand[index].rest()

    def _conclude(self, reader: Reader) -> None:
        frames = reader.frames - reader.before
        try:
            if reader.damage is not None:
                if not frames:
                    raise CaptureError(f"{reader.name}: no packet can be read: {reader.damage}")
                if reader.limit is not None:
                    self._notes.add("limit", self.packets, reader.time, reader.limit)
                self.damage.append(f"{reader.name}: damaged after frame {frames}: {reader.damage}")
            reader.conclude()
        except CaptureError as error:
            if not self.sources.lenient or not self.packets:
                raise
            self.damage.append(str(error))

    def records(self) -> Iterator[Segment]:
        """Yield a segment for each record of all captures, in place of :meth:`batches`.

        What is none has an empty key; :data:`~scapy_mpa.capture.packet.FRAGMENT` tells a fragment, which is not put
        together with others.
        """
        for group in self.sources.groups:
            yield from (seg for _, seg in self._records(group))
            self._end(group)

    def _records(self, group: Sequence[int]) -> Iterator[tuple[int, Segment]]:
        """Yield the segments of some captures, by time, each with the index of its capture."""
        batches = [_readable(self.readers[index], every_record=True) for index in group]
        streams = [_timed(of_one) for of_one in batches]
        begins = [self.sources.begins[index] for index in group]
        has_times = not isinstance(self.sources, Streams)
        for frame, (which, (_, seg)) in enumerate(merged(streams, begins), self._before + 1):
            yield group[which], renumbered(seg, frame) if has_times else seg.replace(frame=frame, time=0)

    def positions(self) -> Iterator[tuple[int, int]]:
        """Yield the index of the reader of each record, and the place in its file, in place of :meth:`batches`."""
        for group in self.sources.groups:
            begins = [self.sources.begins[index] for index in group]
            for which, (_, position) in merged([self.readers[index].positions() for index in group], begins):
                yield group[which], position
            self._end(group)

    def _merged(self, group: Sequence[int], twice: PacketsTwice, copies: bool) -> Iterator[list[Segment]]:
        batch: list[Segment] = []
        repeats = {index: Repeats(self._notes) for index in group}
        # A segment keeps the whole block of its capture; each capture has two at most that are due.
        blocks: set[int] = set()
        held, most = 0, 2 * BLOCK_SIZE * len(group) + _MERGED_OCTETS
        for which, seg in self._records(group):
            found: Segment | None = seg
            if twice.is_copy(seg, which) or not (copies or repeats[which].without([seg])):
                found = None
            elif seg.tcp == FRAGMENT:
                # Fragments may be dealt out to several captures: they come together in the order of the merge.
                found = segment_of_fragment(seg, self.fragments)
            elif seg.tcp == UNKNOWN_LINK:
                note_not_read(self._notes, seg.frame, seg.time, seg.seq)
            if found is not None and found.key:
                batch.append(found)
                block = id(found.buffer)
                if block not in blocks:
                    blocks.add(block)
                    held += len(found.buffer)
                if len(batch) == _MERGED_BATCH or held > most:
                    self.octets += max(held, BLOCK_SIZE)
                    yield batch
                    batch, held = [], 0
                    blocks.clear()
        self.octets += held
        yield batch


def decryption(sources: Sources, again: bool = False) -> Decryption | None:
    """Return what decrypts the ESP packets of captures whose keys are given; ``again``: frames are read again, in any
    order.
    """
    if sources.esp is None:
        return None
    from scapy_mpa.capture.esp import Decryption

    return Decryption(sources.esp, again)


def reader_of(file: BinaryIO | Octets, name: str, fragments: Fragments, limits: Limits) -> Reader:
    """A reader for what the first octets of a file say.

    Raises OSError, and :class:`~scapy_mpa.errors.CaptureError` for what is no capture.
    """
    name = printable(name)
    magic, octets = octets_of(file, name, limits.decompression)
    if magic in MAGIC_NUMBERS:
        return PcapReader(octets, name, fragments)
    if magic == PCAPNG_MAGIC:
        return PcapngReader(octets, name, fragments)
    raise CaptureError(f"{name}: {what_else(magic) if magic else 'the file is empty'}")


def merged(
    streams: Sequence[Iterator[tuple[int, T]]], begins: Sequence[int | None] | None = None
) -> Iterator[tuple[int, tuple[int, T]]]:
    """Yield (index of its stream, record) of records (time, ...), by the time at the heads of the streams.

    A stream is not read before the time at which it ``begins``, if that is known.
    """
    # Of equals the first stream comes first: ties in the order given.  Without a record, one is due to be read.
    due: list[tuple[int, int, tuple[int, T] | None]] = []
    for index, stream in enumerate(streams):
        begin = None if begins is None else begins[index]
        if begin is not None:
            due.append((begin, index, None))
        elif (head := next(stream, None)) is not None:
            due.append((head[0], index, head))
    heapify(due)
    while due:
        _, index, record = due[0]
        if record is not None:
            yield index, record
        record = next(streams[index], None)
        if record is None:
            heappop(due)
        else:
            heapreplace(due, (record[0], index, record))


def _readable(reader: Reader, every_record: bool) -> Iterator[list[Segment]]:
    """The reader's batches; an error of the operating system half way is damage like any other."""
    try:
        yield from reader.batches(every_record)
    except OSError as error:
        reader.damage = error.strerror or str(error)
        if isinstance(error, Expansion):
            reader.meet_limit(reader.damage)


def _timed(batches: Iterable[list[Segment]]) -> Iterator[tuple[int, Segment]]:
    for batch in batches:
        for seg in batch:
            yield seg.time, seg
