"""The file that a reading task writes: the segments of some captures, divided into shares.

A file is a sequence of *chunks*. A chunk has the *marks* of some blocks of the captures, which every share reads, and
for each share the segments of these blocks that are its own. Where each of them lies (:data:`Chunk`) is passed on
beside the file. So a task of the second stage reads only its own octets, and what a writer holds is bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TypeAlias

from scapy_mpa.cluster.shared import SharedFolder
from scapy_mpa.reading.shares import share_of
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import CarriedSegment, Segment

#: Octets of segments that are held before a chunk is written, and blocks.
_HELD = 16 << 20
_BLOCKS = 4096
#: Half connections whose share a writer remembers.
_MOST_REMEMBERED = 1 << 16

#: Where the parts of a chunk end in the file: the first one is where it begins, the next the end of its marks.
Chunk: TypeAlias = "tuple[int, ...]"
#: A segment without its octets: frame, time, key, seq, ack, flags, start, end, tcp, length, and how it came if it is a
#: CarriedSegment.
_Row: TypeAlias = "tuple[int, int, bytes, int, int, int, int, int, int, int, tuple[tuple[str, ...], bool] | None]"


class Mark(NamedTuple):
    """What every share knows about a block: its octets, and the frame and time of the last segment, if there is one."""

    octets: int
    last: tuple[int, int] | None


class PartitionWriter:
    """Writes the segments of some captures, block by block, into a file of a folder, for ``shares`` shares.

    ``chunks`` says where what lies, after :meth:`finish`.
    """

    def __init__(self, folder: SharedFolder, file: IO[bytes], shares: int) -> None:
        self.chunks: list[Chunk] = []
        self._folder = folder
        self._file = file
        self._shares = shares
        self._share_of: dict[bytes, int] = {}
        self._place = 0
        self._marks: list[Mark] = []
        #: For each share, the blocks with segments of it: which of the chunk it is, its rows, its octets.
        self._blocks: list[list[tuple[int, list[_Row], bytes]]] = [[] for _ in range(shares)]
        self._held = 0

    def add(self, segments: Sequence[Segment], octets: int) -> None:
        """Take the segments of a block that has this many octets. Raises OSError."""
        known = self._share_of
        if len(known) > _MOST_REMEMBERED:
            known.clear()
        rows: dict[int, list[_Row]] = {}
        pieces: dict[int, list[memoryview]] = {}
        sizes: dict[int, int] = {}
        for seg in segments:
            frame, time, key, seq, ack, flags, buffer, start, end, tcp, length = seg
            how = (seg.path, seg.is_fragmented) if isinstance(seg, CarriedSegment) else None
            share = known.get(key)
            if share is None:
                share = known[key] = share_of(key, self._shares)
            if share not in rows:
                rows[share], pieces[share], sizes[share] = [], [], 0
            # The IP header comes along: its TTL or Hop Limit is examined.
            first = start if tcp < 0 else max(0, tcp - (20 if len(key) == 12 else 40))
            shift = sizes[share] - first
            tcp = tcp if tcp < 0 else tcp + shift
            rows[share].append((frame, time, key, seq, ack, flags, start + shift, end + shift, tcp, length, how))
            pieces[share].append(buffer[first:end])
            sizes[share] += end - first
        number = len(self._marks)
        for share, of_share in rows.items():
            self._blocks[share].append((number, of_share, b"".join(pieces[share])))
            self._held += sizes[share] + 200 * len(of_share)
        self._marks.append(Mark(octets, (segments[-1].frame, segments[-1].time) if segments else None))
        if self._held >= _HELD or len(self._marks) >= _BLOCKS:
            self._write()

    def finish(self) -> None:
        """Write what is left. Raises OSError."""
        if self._marks:
            self._write()

    def _write(self) -> None:
        ends = [self._place, self._put(self._marks)]
        for blocks in self._blocks:
            ends.append(self._put(blocks) if blocks else self._place)
            blocks.clear()
        self.chunks.append(tuple(ends))
        self._marks, self._held = [], 0

    def _put(self, what: object) -> int:
        octets = self._folder.seal(what)
        self._file.write(octets)
        self._place += len(octets)
        return self._place


def part_of_chunk(chunk: Chunk, share: int) -> Chunk:
    """Return what a task of one share needs of a chunk: where the marks are, and where its own segments are."""
    return *chunk[:2], *chunk[share + 1 : share + 3]


def read_partition(
    folder: SharedFolder, file: IO[bytes], chunks: Sequence[Chunk], before: int
) -> Iterator[tuple[list[Segment], Mark]]:
    """Yield the segments of a share, and the mark, of each block; ``before`` frames come before those of this file.

    ``chunks`` are those of :func:`part_of_chunk`. Raises OSError, and MPAError for what nobody sealed.
    """
    for begin, marks_end, first, end in chunks:
        file.seek(begin)
        marks: list[Mark] = folder.unseal(file.read(marks_end - begin))
        blocks: list[tuple[int, list[_Row], bytes]] = []
        if end > first:
            file.seek(first)
            blocks = folder.unseal(file.read(end - first))
        blocks.reverse()
        for number, (octets, last) in enumerate(marks):
            segments = []
            if blocks and blocks[-1][0] == number:
                _, rows, held = blocks.pop()
                segments = _segments(rows, held, before)
            yield segments, Mark(octets, last and (last[0] + before, last[1]))


def _segments(rows: Sequence[_Row], octets: bytes, before: int) -> list[Segment]:
    buffer = memoryview(octets)
    found = []
    for frame, time, key, seq, ack, flags, start, end, tcp, length, how in rows:
        seg = Segment(frame + before, time, key, seq, ack, flags, buffer, start, end, tcp, length)
        found.append(seg if how is None else CarriedSegment.of(seg, *how))
    return found
