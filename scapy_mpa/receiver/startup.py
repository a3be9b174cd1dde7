"""Startup frames in what a direction sends: found in octets that come in any order (RFC 5044 §7.1.1)."""

from __future__ import annotations

from typing import Final, NamedTuple

from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    KEY_PREFIX,
    REPLY_KEY,
    REQUEST_KEY,
    STARTUP_HEADER_LENGTH,
    StartupFrame,
    decode_startup_frame,
)
from scapy_mpa.stream.connection import TCPHalf
from scapy_mpa.stream.drop_reason import DropReason

#: Places at which a startup frame may begin that are remembered: a bound of memory.
MOST_CANDIDATES: Final = 64
#: In the midst of other octets only what no receiver would refuse begins a startup frame: Rev (RFC 6581 §9).
LARGEST_REV: Final = 2
#: The same for PD_Length (RFC 5044 §7.1.1).
LARGEST_PD_LENGTH: Final = 512


class FoundFrame(NamedTuple):
    """A startup frame: its fields, the offsets [start, end) of its octets, the moment at which it was complete."""

    startup: StartupFrame
    start: int
    end: int
    frame: int
    time: int


class KeySearch:
    """Looks for the startup frame of one direction.

    Args:
        half: its octets.
    """

    __slots__ = ("_candidates", "_edge", "half")

    def __init__(self, half: TCPHalf) -> None:
        self.half = half
        #: Offsets at which a Key begins, and of each where the contiguous octets end that hold it.
        self._candidates: dict[int, int] = {}
        #: Where the octets end that follow the SYN, as far as was looked at.
        self._edge = 0

    def receive(self, start: int, end: int, is_over: bool = False) -> FoundFrame | None:
        """Look whether the octets [start, end), held just now, complete a startup frame.

        Where the SYN was captured, all octets between it and the frame must have been, unless nothing more comes.
        """
        copies = self.half.copies
        if copies.next_start(start) != start:
            return None
        reach = len(KEY_PREFIX) - 1
        low = max(copies.run_start(start, start - reach), start - reach)
        high = min(copies.edge(start, end + reach), end + reach)
        if copies.is_captured(low, high):
            octets = bytes(copies.octets(low, high))
            at = octets.find(KEY_PREFIX)
            while at >= 0:
                if len(self._candidates) < MOST_CANDIDATES:
                    self._candidates.setdefault(low + at, low + at)
                at = octets.find(KEY_PREFIX, at + 1)
        for offset in sorted(self._candidates):
            found = self._frame_at(offset, is_over)
            if found is not None:
                return found
        return None

    def _frame_at(self, offset: int, is_over: bool) -> FoundFrame | None:
        copies, begin = self.half.copies, self.half.start
        if copies.next_start(offset) != offset:
            del self._candidates[offset]  # a limit let go of it
            return None
        edge = self._candidates[offset] = copies.edge(self._candidates[offset])
        if begin is not None:
            self._edge = copies.edge(max(self._edge, begin))
            if offset < begin or (offset > self._edge and not is_over):
                return None
        end = min(edge, offset + STARTUP_HEADER_LENGTH)
        if edge < offset + STARTUP_HEADER_LENGTH or not copies.is_captured(offset, end):
            return None
        header = bytes(copies.octets(offset, end))
        if header[:KEY_LENGTH] not in (REQUEST_KEY, REPLY_KEY):
            del self._candidates[offset]
            return None
        pd_length = int.from_bytes(header[18:20], "big")
        if copies.run_start(offset, offset - 1) != offset and (begin is None or offset != begin):
            is_refused = header[17] > LARGEST_REV or (header[17] and pd_length > LARGEST_PD_LENGTH)
            begins_piece = offset in copies.segment_starts(offset, offset + 1, 1)
            if is_refused or (begin is None and not begins_piece):
                del self._candidates[offset]
                return None
        end = offset + STARTUP_HEADER_LENGTH + pd_length
        if end > edge or not copies.is_captured(offset, end):
            return None
        if begin is not None and offset > self._edge and copies.weakest_reason(offset, end) != DropReason.NONE:
            return None  # beyond a hole it is a late duplicate rather than a startup frame
        copies.settle(offset, end)
        startup = decode_startup_frame(copies.octets(offset, end))
        if startup is None:
            return None
        _, frame, time = copies.frames(offset, end)
        return FoundFrame(startup, offset, end, frame, time)
