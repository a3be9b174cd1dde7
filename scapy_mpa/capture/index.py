"""Frames of a capture by number, read again when somebody wants their octets.

The index holds eight octets a frame and is made when the first frame is asked for.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path

from scapy_mpa.capture.files import STANDARD_INPUT, Captures, CaptureSource, merged
from scapy_mpa.capture.reader import Reader
from scapy_mpa.errors import CaptureError
from scapy_mpa.receive.segment import BUFFER, END, FRAME, SEQ, SEQ_MASK, START, TIME, Segment


class FrameIndex:
    """The frames of one or more captures, numbered as :class:`~scapy_mpa.capture.files.Captures` numbers them."""

    def __init__(self, sources: CaptureSource | Sequence[CaptureSource]) -> None:
        self._sources = sources
        self._stack = ExitStack()
        self._readers: list[Reader] = []
        self._positions = array("Q")
        #: The reader of each frame, if there are several.
        self._reader_of = array("H")

    def segments(self, frames: Iterable[int]) -> list[Segment]:
        """The TCP segments of these frames, in their order.

        Raises :class:`~scapy_mpa.errors.CaptureError` if the capture cannot be read again.
        """
        if not self._readers:
            self._make()
        found = []
        for frame in frames:
            if not 1 <= frame <= len(self._positions):
                raise CaptureError(f"there is no frame {frame}: the capture has {len(self._positions)}")
            reader = self._readers[self._reader_of[frame - 1] if self._reader_of else 0]
            seg = reader.segment_at(self._positions[frame - 1])
            if seg is not None:
                found.append((frame, *seg[TIME:]))
        return found

    def octets(self, frames: Sequence[int], seq: int, length: int) -> bytes:
        """The octets [seq, seq + length) of a stream, of which these frames brought each first.

        Raises :class:`~scapy_mpa.errors.CaptureError` if they do not hold all of them.
        """
        octets = bytearray(length)
        missing = [(0, length)]
        for seg in sorted(self.segments(frames), key=lambda seg: seg[FRAME]):
            start = (seg[SEQ] - seq + 0x80000000 & SEQ_MASK) - 0x80000000
            end = start + seg[END] - seg[START]
            still: list[tuple[int, int]] = []
            for first, last in missing:
                a, b = max(first, start), min(last, end)
                if a < b:
                    octets[a:b] = seg[BUFFER][seg[START] + a - start : seg[START] + b - start]
                    still += [part for part in ((first, a), (b, last)) if part[0] < part[1]]
                else:
                    still.append((first, last))
            missing = still
        if missing:
            raise CaptureError(f"frames {', '.join(map(str, frames))} do not hold all octets from sequence {seq} on")
        return bytes(octets)

    def _make(self) -> None:
        self._rewind()
        with ExitStack() as stack:
            captures = stack.enter_context(Captures(self._sources))
            if len(captures.readers) == 1:
                self._positions.extend(position for _, position in captures.readers[0].positions())
            else:
                for index, (_, position) in merged([reader.positions() for reader in captures.readers]):
                    self._reader_of.append(index)
                    self._positions.append(position)
            self._readers = captures.readers
            self._stack = stack.pop_all()

    def _rewind(self) -> None:
        """Open files have been read to their end before."""
        sources = self._sources
        several = isinstance(sources, Sequence) and not isinstance(sources, str)
        for source in sources if several else [sources]:  # type: ignore[union-attr]
            if isinstance(source, (str, os.PathLike)):
                if source == STANDARD_INPUT or Path(source).is_fifo():
                    raise CaptureError(f"{source}: a pipe cannot be read again")
                continue
            try:
                source.seek(0)  # type: ignore[union-attr]
            except (OSError, ValueError) as error:
                name = getattr(source, "name", "<file>")
                raise CaptureError(f"{name}: cannot be read again: {error}") from error

    def __del__(self) -> None:
        # Whoever asks a record for its octets has nothing in hand to close.
        self._stack.close()

    def close(self) -> None:
        """Close the files; asking for a frame opens them again."""
        self._stack.close()
        self._readers, self._positions, self._reader_of = [], array("Q"), array("H")
