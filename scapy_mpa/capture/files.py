"""Several captures as one, opened by name.

Captures are merged by the time of the records at their heads, as mergecap does: never re-sorted within a file,
ties in the order given. Frame numbers run through the merge, from 1.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, TypeAlias, TypeVar

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.notes import Note, Notes
from scapy_mpa.capture.packet import FRAGMENT, UNKNOWN_LINK, note_unknown_link, segment_of_fragment
from scapy_mpa.capture.pcap import MAGIC_NUMBERS, PcapReader
from scapy_mpa.capture.pcapng import PCAPNG_MAGIC, PcapngReader
from scapy_mpa.capture.reader import BLOCK_SIZE, Reader
from scapy_mpa.capture.source import Expansion, octets_of
from scapy_mpa.errors import CaptureError
from scapy_mpa.system.names import encodable, printable
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment

#: What names a capture: a path, ``-`` for standard input, or an open binary file.
CaptureSource: TypeAlias = "str | os.PathLike[str] | BinaryIO"

T = TypeVar("T")

STANDARD_INPUT = "-"

#: Segments handed on at a time when captures are merged.
_MERGED_BATCH = 1024
#: Octets of blocks that these may keep, besides what each capture has at hand anyway.
_MERGED_OCTETS = 1 << 24


class Captures:
    """One or more captures, to be read once, each by one of ``readers``.

    ``names`` are as given, as far as JSON can hold them; ``packets`` counts the records read so far; ``damage``
    collects one line for each capture that could only be read in part, ``notes`` are what the report is to say of the
    packets. ``fragments`` puts IP datagrams together, across captures, within ``limits``. Use as a context manager:
    files it opened are closed at its end.
    """

    def __init__(self, sources: CaptureSource | Sequence[CaptureSource], *, limits: Limits = DEFAULT_LIMITS) -> None:
        """Open all sources; raises :class:`~scapy_mpa.errors.CaptureError` for one that cannot be read."""
        given: list[CaptureSource] = []
        if isinstance(sources, Sequence) and not isinstance(sources, str):
            given.extend(sources)
        else:
            given.append(sources)
        self.damage: list[str] = []
        self._notes = Notes()
        self._limits = limits
        self.fragments = Fragments(limits, self._notes)
        with ExitStack() as stack:
            self.readers = [self._open(source, stack) for source in given]
            self._stack = stack.pop_all()
        self.names = [encodable(name_of(source)) for source in given]

    def _open(self, source: CaptureSource, stack: ExitStack) -> Reader:
        if source == STANDARD_INPUT:
            return self._reader(sys.stdin.buffer, STANDARD_INPUT)
        if not isinstance(source, (str, os.PathLike)):
            return self._reader(source, name_of(source))
        path = Path(source)
        try:
            # The reader takes whole blocks: a buffer below it would only copy.
            file = stack.enter_context(path.open("rb", buffering=0))
        except OSError as error:
            raise CaptureError(f"{printable(source)}: {error.strerror or error}") from error
        return self._reader(file, name_of(source))

    def _reader(self, file: BinaryIO, name: str) -> Reader:
        """A reader for what the first octets say."""
        name = printable(name)
        try:
            magic, octets = octets_of(file, name, self._limits.decompression)
            if magic in MAGIC_NUMBERS:
                return PcapReader(octets, name, self.fragments)
            if magic == PCAPNG_MAGIC:
                return PcapngReader(octets, name, self.fragments)
        except OSError as error:
            raise CaptureError(f"{name}: {error.strerror or error}") from error
        raise CaptureError(f"{name}: {'not a pcap file' if magic else 'the file is empty'}")

    def __enter__(self) -> Captures:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def packets(self) -> int:
        """Records read so far, of all captures."""
        return sum(reader.frames for reader in self.readers)

    @property
    def notes(self) -> list[Note]:
        """What is to be said of the packets read so far: one note a rule."""
        return self._notes.all()

    def batches(self) -> Iterator[list[Segment]]:
        """Yield the segments of all captures in lists.

        Raises :class:`~scapy_mpa.errors.CaptureError` at the end if a damaged capture gave no packet at all.
        """
        if len(self.readers) == 1:
            yield from _readable(self.readers[0], every_record=False)
        else:
            yield from self._merged()
        for reader in self.readers:
            self._conclude(reader)

    def _conclude(self, reader: Reader) -> None:
        if reader.damage is not None:
            if not reader.frames:
                raise CaptureError(f"{reader.name}: no packet can be read: {reader.damage}")
            if reader.limit is not None:
                self._notes.add("limit", self.packets, reader.time, reader.limit)
            self.damage.append(f"{reader.name}: damaged after frame {reader.frames}: {reader.damage}")
        reader.conclude()

    def records(self) -> Iterator[Segment]:
        """Yield a segment for each record of all captures, in place of :meth:`batches`.

        What is none has an empty key; :data:`~scapy_mpa.capture.packet.FRAGMENT` tells a fragment, which is not put
        together with others.
        """
        streams = [((seg.time, seg) for seg in _flat(_readable(reader, every_record=True))) for reader in self.readers]
        for frame, (_, (_, seg)) in enumerate(merged(streams), 1):
            yield seg._replace(frame=frame)

    def _merged(self) -> Iterator[list[Segment]]:
        batch: list[Segment] = []
        # A segment keeps the whole block of its capture; each capture has two at most that are due.
        blocks: set[int] = set()
        held, most = 0, 2 * BLOCK_SIZE * len(self.readers) + _MERGED_OCTETS
        for seg in self.records():
            found: Segment | None = seg
            if seg.tcp == FRAGMENT:
                # Fragments may be dealt out to several captures: they come together in the order of the merge.
                found = segment_of_fragment(seg, self.fragments)
            elif seg.tcp == UNKNOWN_LINK:
                note_unknown_link(self._notes, seg.frame, seg.time, seg.seq)
            if found is not None and found.key:
                batch.append(found)
                block = id(found.buffer)
                if block not in blocks:
                    blocks.add(block)
                    held += len(found.buffer)
                if len(batch) == _MERGED_BATCH or held > most:
                    yield batch
                    batch, held = [], 0
                    blocks.clear()
        yield batch


def name_of(source: CaptureSource) -> str:
    """What a capture is called."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source)
    name = getattr(source, "name", "<file>")
    return os.fsdecode(name) if isinstance(name, bytes) else str(name)


def merged(streams: Sequence[Iterator[tuple[int, T]]]) -> Iterator[tuple[int, tuple[int, T]]]:
    """Yield (index of its stream, record) of records (time, ...), by the time at the heads of the streams."""
    heads = [next(stream, None) for stream in streams]
    while True:
        # min() takes the first of equals: ties in the order given.
        there = [(head[0], index) for index, head in enumerate(heads) if head is not None]
        if not there:
            return
        chosen = min(there)[1]
        head = heads[chosen]
        assert head is not None
        yield chosen, head
        heads[chosen] = next(streams[chosen], None)


def _readable(reader: Reader, every_record: bool) -> Iterator[list[Segment]]:
    """The reader's batches; an error of the operating system half way is damage like any other."""
    try:
        yield from reader.batches(every_record)
    except OSError as error:
        reader.damage = error.strerror or str(error)
        if isinstance(error, Expansion):
            reader.meet_limit(reader.damage)


def _flat(batches: Iterable[list[Segment]]) -> Iterator[Segment]:
    for batch in batches:
        yield from batch
