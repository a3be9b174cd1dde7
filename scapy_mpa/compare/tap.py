"""What one tap captured of half connections: where segments lie in the stream, when they passed, and their octets.

Some 45 octets of memory a segment. The octets themselves go into a temporary file, so that memory does not follow the
size of what was sent.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Set
from mmap import ACCESS_READ, mmap
from typing import IO

from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.framing.sequence import seq_diff, unwrap
from scapy_mpa.system.temporary import temporary_file
from scapy_mpa.values.options import Announced, announced
from scapy_mpa.values.segment import ACK_FLAG, FIN, RST, SYN, KeyedPath, Segment, checksum_is_wrong, detached, path_of

#: Octets that are written to the temporary file at a time.
_CHUNK = 1 << 20


class Spill:
    """Octets by place: written first, read after :meth:`settle`."""

    def __init__(self) -> None:
        self._file: IO[bytes] = temporary_file()
        self._pending = bytearray()
        self._written = 0
        self._map: mmap | None = None

    def add(self, octets: memoryview) -> int:
        """Keep octets; returns their place. Raises OSError if there is no room."""
        place = self._written + len(self._pending)
        self._pending += octets
        if len(self._pending) >= _CHUNK:
            self._flush()
        return place

    def _flush(self) -> None:
        self._file.write(self._pending)
        self._written += len(self._pending)
        self._pending.clear()

    def settle(self) -> None:
        """Finish: nothing more is added. Raises OSError if there is no room."""
        self._flush()
        self._file.flush()
        if self._written:
            self._map = mmap(self._file.fileno(), 0, access=ACCESS_READ)

    def octets(self, place: int, length: int) -> bytes:
        """Return ``length`` octets from a position on."""
        return self._map[place : place + length] if self._map is not None else b""

    def close(self) -> None:
        """Let the octets go."""
        if self._map is not None:
            self._map.close()
        self._file.close()


class TapHalf:
    """The segments with octets of one half connection, in the order in which one tap captured them.

    Attributes:
        base: the sequence number that ``starts`` count from, None before a segment came.
        isn: the sequence number of the SYN, None if it was not captured.
        said: the options of the SYN.
        frames: of each segment.
        times: nanoseconds since the epoch.
        starts: offset of the first octet from ``base``.
        lengths: octets of payload on the wire.
        kept: octets of payload that were captured.
        highest_ack: the offset up to which the peer acknowledged the stream, None if no acknowledgement was captured.
        resets: segments with RST.
        acknowledgements: segments that acknowledge and have no octets, nor SYN, FIN or RST.
    """

    __slots__ = (
        "_heads",
        "_highest",
        "_key",
        "_places",
        "_spill",
        "acknowledgements",
        "base",
        "frames",
        "highest_ack",
        "isn",
        "kept",
        "lengths",
        "resets",
        "said",
        "starts",
        "times",
    )

    def __init__(self, key: bytes, spill: Spill) -> None:
        self._key, self._spill = key, spill
        self.base: int | None = None
        self.isn: int | None = None
        self.said: Announced | None = None
        self.frames, self.times, self.starts = array("Q"), array("q"), array("q")
        self.lengths, self.kept = array("I"), array("I")
        self._places, self._heads = array("Q"), array("H")
        self.highest_ack: int | None = None
        self.resets = self.acknowledgements = 0
        self._highest = 0

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.frames)

    def take(self, seg: Segment) -> None:
        """A segment of this direction. Raises OSError if there is no room for its octets."""
        if seg.flags & RST:
            self.resets += 1
        if seg.flags & SYN and self.isn is None:
            self.isn, self.said = seg.seq, announced(detached(seg))
            self._root(seg.seq)
        if not seg.length or seg.flags & RST:
            self.acknowledgements += not seg.flags & (SYN | FIN | RST) and bool(seg.flags & ACK_FLAG)
            return
        base = self._root(seg.seq)
        start = unwrap(seg.seq + bool(seg.flags & SYN), self._highest, base)
        self._highest = max(self._highest, start + seg.length)
        first = seg.start if seg.tcp < 0 else seg.tcp
        self.frames.append(seg.frame)
        self.times.append(seg.time)
        self.starts.append(start)
        self.lengths.append(seg.length)
        self.kept.append(seg.end - seg.start)
        self._places.append(self._spill.add(seg.buffer[first : seg.end]))
        self._heads.append(seg.start - first)

    def acknowledge(self, seg: Segment) -> None:
        """A segment of the other direction, which acknowledges octets of this one."""
        if seg.flags & RST or not seg.flags & ACK_FLAG:
            return
        offset = unwrap(seg.ack, self._highest, self._root(seg.ack))
        if self.highest_ack is None or offset > self.highest_ack:
            self.highest_ack = offset

    def _root(self, seq: int) -> int:
        if self.base is None:
            self.base = seq
        return self.base

    def offset_of(self, seq: int) -> int:
        """The offset of a sequence number, not more than 2 GiB from the first that was captured."""
        return seq_diff(seq, self.base) if self.base is not None else 0

    def octets(self, index: int, first: int = 0, end: int | None = None) -> bytes:
        """The captured octets [first, end) of the payload of a segment."""
        last = self.kept[index] if end is None else min(end, self.kept[index])
        return self._spill.octets(self._places[index] + self._heads[index] + first, max(0, last - first))

    def has_wrong_checksum(self, index: int) -> bool:
        """Return True if the TCP checksum of a segment shows that it was damaged."""
        head, kept = self._heads[index], self.kept[index]
        if not head:
            return False
        octets = memoryview(self._spill.octets(self._places[index], head + kept))
        return checksum_is_wrong(
            Segment(
                self.frames[index],
                self.times[index],
                self._key,
                0,
                0,
                0,
                octets,
                head,
                head + kept,
                0,
                self.lengths[index],
            )
        )


#: The first and the last frame of a connection, None where all frames with its addresses and ports are its own.
Extent = tuple[int, int] | None
#: A half connection that may take a segment, and the other one; the paths are those of another network's segments.
_Taker = tuple[Extent, Set[KeyedPath], "TapHalf", "TapHalf"]
#: The times of the first and the last segment that a tap captured, nanoseconds since the epoch by its clock.
Span = tuple[int, int]


class Tap:
    """What one tap captured of some connections; ``close`` releases it."""

    def __init__(self, wanted: Iterable[tuple[bytes, bytes, Extent, Set[KeyedPath]]]) -> None:
        """Follow connections: the keys of both directions, the frames that are theirs, the paths that are not."""
        self._spill = Spill()
        #: The two halves of each connection, in the order of ``wanted``.
        self.pairs: list[tuple[TapHalf, TapHalf]] = []
        #: Others than those of the connections count, too: they show that the tap was there.
        self.span: Span = (0, 0)
        self._takers: dict[bytes, list[_Taker]] = {}
        for there, back, extent, foreign in wanted:
            pair = TapHalf(there, self._spill), TapHalf(back, self._spill)
            self.pairs.append(pair)
            self._takers.setdefault(there, []).append((extent, foreign, *pair))
            self._takers.setdefault(back, []).append((extent, foreign, *pair[::-1]))

    def read(self, index: FrameIndex) -> None:
        """Read all segments once. Raises CaptureError, and OSError if there is no room for their octets."""
        takers: Mapping[bytes, list[_Taker]] = self._takers
        ends: list[int] = []
        for segments in index.batches():
            ends = sorted([*ends, *(seg.time for seg in segments[:1] + segments[-1:])])
            del ends[1:-1]
            for seg in segments:
                for extent, foreign, half, peer in takers.get(seg.key, ()):
                    if foreign and (seg.key, path_of(seg)) in foreign:
                        continue
                    if seg.flags < 0x100 and (extent is None or extent[0] <= seg.frame <= extent[1]):
                        half.take(seg)
                        peer.acknowledge(seg)
        if ends:
            self.span = ends[0], ends[-1]
        self._spill.settle()

    def close(self) -> None:
        """Let the octets go."""
        self._spill.close()
