"""Frames of a capture by number, read again when their octets are needed.

The index holds eight octets a frame and is made when the first frame is asked for.
"""

from __future__ import annotations

import os
import stat
import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeAlias

from scapy_mpa.capture.files import Captures, decryption
from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.named import STANDARD_INPUT, CaptureSource, Joined, Sources, as_sources, name_of
from scapy_mpa.capture.packet import FRAGMENT, segment_of_fragment
from scapy_mpa.capture.reader import Reader
from scapy_mpa.capture.streams import Streams
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import SYN, Segment

#: How many frames back the fragments of a datagram are looked for, in one step after the other; what ESP holds is in
#: its own frame, mostly.
_LOOK_BACK = (0, 32, 512, 8192, 131072)
#: A target this close is reached by reading on.
_NEAR = 512
#: Copies of the octets of an FPDU that are tried in place of others.
_MOST_COPIES = 64
#: Frames that were read and are kept.
_RECENT = 16


class FramePiece(NamedTuple):
    """The octets [first, end) of what was asked for, which ``frame`` brought."""

    first: int
    end: int
    frame: int


class FrameIndex:
    """The frames of one or more captures, numbered as :class:`~scapy_mpa.capture.files.Captures` numbers them."""

    def __init__(
        self,
        sources: CaptureSource | Sequence[CaptureSource],
        *,
        limits: Limits = DEFAULT_LIMITS,
        begins: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        self._sources = as_sources(sources)
        #: Of captures that follow one another: how many frames come before each, and which it is, if it is known.
        self.begins = begins
        #: Those under which the captures were read: it must end where that did.
        self._limits = limits
        self._stack = ExitStack()
        self._readers: list[Reader] = []
        self._positions = array("Q")
        #: The reader of each frame, if there are several.
        self._reader_of = array("I")
        #: The frames of each reader, ascending, if requested.
        self._frames_of: list[array[int]] = []
        #: The frames read last, and what fragments completed: one that holds many FPDUs is asked for as often.
        self._recent: dict[int, Segment | None] = {}
        self._whole: dict[int, Segment | None] = {}
        #: The fragments reassembled last, and the frame up to which they were.
        self._fragments = self._fresh()
        self._put_together = 0

    def __len__(self) -> int:
        """Return the number of frames. Raises :class:`~scapy_mpa.errors.CaptureError` as :meth:`segments` does."""
        self._make()
        return len(self._positions)

    def segments(self, frames: Iterable[int]) -> list[Segment]:
        """The TCP segments of these frames, in their order; none for a frame that completes none.

        Raises :class:`~scapy_mpa.errors.CaptureError` if the capture cannot be read again, or if the fragments of a
        segment are too far apart to be found again.
        """
        self._make()
        found = []
        for frame in frames:
            seg = self._segment(frame)
            if seg is not None and seg.tcp == FRAGMENT:
                if frame not in self._whole:
                    _keep(self._whole, frame, self._reassembled(frame))
                seg = self._whole[frame]
            if seg is not None:
                found.append(seg)
        return found

    def batches(self) -> Iterator[list[Segment]]:
        """Yield all segments again, in lists, in the order of the frames.

        Raises :class:`~scapy_mpa.errors.CaptureError` if the captures cannot be read again.
        """
        self.close()
        rewind(self._sources)
        with Captures(self._sources, limits=self._limits) as captures:
            yield from captures.batches()

    @property
    def sources(self) -> Sources:
        """The captures, to be read from their beginning by somebody else.

        Raises :class:`~scapy_mpa.errors.CaptureError` as :meth:`batches` does.
        """
        self.close()
        rewind(self._sources)
        return self._sources

    @property
    def streams(self) -> Streams | None:
        """The octets that stand for a capture, None if it is one."""
        return self._sources if isinstance(self._sources, Streams) else None

    @property
    def joined(self) -> Joined | None:
        """How the captures are combined, None unless there are several."""
        return self._sources.joined

    @property
    def limits(self) -> Limits:
        """The limits under which the captures were read."""
        return self._limits

    def places(self, frames: Iterable[int]) -> Iterator[tuple[Reader, int]]:
        """Yield the reader of each of these frames and the place of its record in the file.

        Raises :class:`~scapy_mpa.errors.CaptureError` as :meth:`segments` does.
        """
        self._make()
        return map(self._place, frames)

    def pieces(
        self,
        frames: Sequence[int],
        seq: int,
        length: int,
        is_right: Callable[[bytes], bool] | None = None,
        *,
        is_cut: bool = False,
    ) -> tuple[bytes, list[FramePiece]]:
        """The octets [seq, seq + length) of a stream, of which these frames brought each first, and which brought what.

        ``is_right`` says whether they are those that the receiver took. If not, copies that differ are put in place of
        what came before, as the receiver tried them; if none are right, it is the first copies after all. ``is_cut``
        tells that a snapshot length cut some off: these are zero, and no piece has them. Raises
        :class:`~scapy_mpa.errors.CaptureError` if the frames do not hold all others.
        """
        segments = [(*_range_of(seg, seq), seg) for seg in self.segments(sorted(frames))]
        octets, pieces = _laid(segments, length, is_cut)
        if octets is None:
            raise CaptureError(f"frames {', '.join(map(str, frames))} do not hold all octets from sequence {seq} on")
        if is_right is not None and not is_right(octets):
            for chosen in _choices(segments):
                others = [one for one in segments if all(one is not another for another in chosen)]
                again, pieces_again = _laid([*reversed(chosen), *others], length)
                if again is not None and is_right(again):
                    return again, pieces_again
        return octets, pieces

    def octets(
        self,
        frames: Sequence[int],
        seq: int,
        length: int,
        is_right: Callable[[bytes], bool] | None = None,
        *,
        is_cut: bool = False,
    ) -> bytes:
        """The octets that :meth:`pieces` gives, up to the first that a snapshot length cut off."""
        octets, pieces = self.pieces(frames, seq, length, is_right, is_cut=is_cut)
        return octets[: captured_end(pieces)] if is_cut else octets

    def latest_pieces(self, last: int, most: int, key: bytes, seq: int, length: int) -> list[FramePiece]:
        """Return the pieces as :meth:`pieces` does, from ``last`` and as few frames before it, of one direction, as
        hold all octets.

        Empty if the last ``most`` frames do not hold them.
        """
        missing, frames = [(0, length)], []
        until, earliest, at_once = last, max(1, last - most + 1), 1
        while until >= earliest:
            first = max(earliest, until - at_once + 1)
            # Compressed data are read forwards only; what is not needed may be fragments of distant datagrams.
            for seg in reversed(self.segments(range(first, until + 1))):
                start, end = _range_of(seg, seq)
                if seg.key != key or start == end:
                    continue
                frames.append(seg.frame)
                take_out(missing, start, end)
                if not missing:
                    return self.pieces(frames, seq, length)[1]
            until, at_once = first - 1, min(2 * at_once, _NEAR)
        return []

    def origin_of(self, frame: int) -> tuple[int, int]:
        """Return which of the captures, from 0, a frame is in, and its number in that file.

        Raises :class:`~scapy_mpa.errors.CaptureError` as :meth:`segments` does.
        """
        if self.begins is not None:
            before, which = self.begins[bisect_left(self.begins, (frame,)) - 1]
            return which, frame - before
        self._make()
        self._place(frame)
        if not self._reader_of:
            return 0, frame
        if not self._frames_of:
            self._frames_of = [array("Q") for _ in self._readers]
            for number, which in enumerate(self._reader_of, 1):
                self._frames_of[which].append(number)
        which = self._reader_of[frame - 1]
        return which, bisect_right(self._frames_of[which], frame)

    def _place(self, frame: int) -> tuple[Reader, int]:
        if not 1 <= frame <= len(self._positions):
            raise CaptureError(f"there is no frame {frame}: the capture has {len(self._positions)}")
        return self._readers[self._reader_of[frame - 1] if self._reader_of else 0], self._positions[frame - 1]

    def _segment(self, frame: int) -> Segment | None:
        if frame not in self._recent:
            reader, position = self._place(frame)
            seg = reader.segment_at(position)
            _keep(self._recent, frame, None if seg is None else seg.replace(frame=frame))
        return self._recent[frame]

    def _reassembled(self, last: int) -> Segment | None:
        """The segment that the fragment in a frame completes, out of those in the frames before it.

        None if it completes none. Raises :class:`~scapy_mpa.errors.CaptureError` if it may complete one whose
        fragments are too far apart.
        """
        if 0 < self._put_together < last <= self._put_together + _NEAR:
            # What comes a little later than what was asked for last is asked for next, mostly.
            found = self._put_together_up_to(last)
            if found is not None and found.key:
                return found
        for back in _LOOK_BACK:
            first = max(1, last - back)
            self._fragments, self._put_together = self._fresh(), first - 1
            found = self._put_together_up_to(last)
            if found is not None and found.key:
                return found
            if first == 1:
                return None
        raise CaptureError(f"the IP fragments that frame {last} may complete are not in the {back} frames before it")

    def _fresh(self) -> Fragments:
        return Fragments(esp=decryption(self._sources, again=True), udp_ports=self._sources.udp_ports)

    def _put_together_up_to(self, last: int) -> Segment | None:
        """The segment that the last of these fragments completes."""
        found: Segment | None = None
        for frame in range(self._put_together + 1, last + 1):
            seg = self._segment(frame)
            if seg is not None and seg.tcp == FRAGMENT:
                found = segment_of_fragment(seg, self._fragments)
        self._put_together = last
        return found

    def _make(self) -> None:
        if self._readers:
            return
        rewind(self._sources)
        with ExitStack() as stack:
            captures = stack.enter_context(Captures(self._sources, limits=self._limits))
            if len(captures.readers) == 1:
                self._positions.extend(position for _, position in captures.positions())
            else:
                for index, position in captures.positions():
                    self._reader_of.append(index)
                    self._positions.append(position)
            self._readers = captures.readers
            self._stack = stack.pop_all()

    def __del__(self) -> None:
        # Whoever asks a record for its octets has nothing in hand to close.
        self._stack.close()

    def close(self) -> None:
        """Close the files; asking for a frame opens them again."""
        self._stack.close()
        self._readers, self._positions, self._reader_of, self._frames_of = [], array("Q"), array("I"), []
        self._recent, self._whole = {}, {}


#: A segment, and where its octets lie in what is read.
_Laid: TypeAlias = "tuple[int, int, Segment]"


def captured_end(pieces: Iterable[FramePiece]) -> int:
    """Return the position of the first octet that none of these sorted pieces has."""
    end = 0
    for piece in pieces:
        if piece.first > end:
            break
        end = piece.end
    return end


def _laid(segments: Sequence[_Laid], length: int, is_cut: bool = False) -> tuple[bytes | None, list[FramePiece]]:
    """Return ``length`` octets, each from the first segment that has it; None if some are missing, unless some were cut
    off.
    """
    octets, missing = bytearray(length), [(0, length)]
    pieces: list[FramePiece] = []
    for start, end, seg in segments:
        for a, b in take_out(missing, start, end):
            octets[a:b] = seg.buffer[seg.start + a - start : seg.start + b - start]
            pieces.append(FramePiece(a, b, seg.frame))
    return None if missing and not is_cut else bytes(octets), sorted(pieces)


def _choices(segments: Sequence[_Laid]) -> Iterator[list[_Laid]]:
    """Yield which segments may have come in place of others: one, all that could, all but one; so many of either."""
    reach, copies = -(1 << 32), []
    for one in sorted(segments, key=lambda laid: laid[2].frame):
        if one[0] < reach:
            copies.append(one)
        reach = max(reach, one[1])
    copies = copies[-_MOST_COPIES:]
    yield from ([copy] for copy in copies)
    yield copies
    if len(copies) > 2:
        yield from ([other for other in copies if other is not copy] for copy in copies)


def _range_of(seg: Segment, seq: int) -> tuple[int, int]:
    """Return the range of a segment's octets, counted from a sequence number."""
    # A SYN takes the sequence number before the first octet (RFC 9293 §3.4).
    begins = seg.seq + 1 if seg.flags & SYN else seg.seq
    start = seq_diff(begins, seq)
    return start, start + seg.end - seg.start


def _keep(kept: dict[int, Segment | None], frame: int, seg: Segment | None) -> None:
    """Keep what was read of a frame, and forget what was read longest ago."""
    if len(kept) >= _RECENT:
        del kept[next(iter(kept))]
    kept[frame] = seg


def take_out(missing: list[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Take [start, end) out of ranges, which are sorted; returns what of it was there."""
    if start == end:
        return []
    at = until = bisect_right(missing, start, key=_end)
    taken, rest = [], []
    while until < len(missing) and missing[until][0] < end:
        first, last = missing[until]
        a, b = max(first, start), min(last, end)
        taken.append((a, b))
        rest += [part for part in ((first, a), (b, last)) if part[0] < part[1]]
        until += 1
    missing[at:until] = rest
    return taken


def _end(part: tuple[int, int]) -> int:
    return part[1]


def is_pipe(source: CaptureSource) -> bool:
    """Return True if a capture, by name, can be read only once."""
    if source == STANDARD_INPUT:
        return sys.stdin is None or not sys.stdin.buffer.seekable()
    if not isinstance(source, (str, os.PathLike)):
        return False
    try:
        mode = os.stat(source).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)
    except OSError:
        return False  # opening it will tell


def rewind(sources: CaptureSource | Sequence[CaptureSource]) -> None:
    """Have captures begin again that have been read to their end.

    Raises :class:`~scapy_mpa.errors.CaptureError` for one that cannot be read again.
    """
    for source in as_sources(sources):
        if is_pipe(source):
            raise CaptureError(f"{printable(name_of(source))}: a pipe cannot be read again")
        if source == STANDARD_INPUT:
            sys.stdin.buffer.seek(0)
        elif not isinstance(source, (str, os.PathLike)):
            try:
                source.seek(0)
            except (OSError, ValueError) as error:
                raise CaptureError(f"{printable(name_of(source))}: cannot be read again: {error}") from error
