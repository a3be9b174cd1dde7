"""The Startup Phase of one half connection: finding its MPA Request or Reply (RFC 5044 §7.1).

A startup frame may follow streaming data, may come in single octets in any order, and may share its last segment
with FPDUs.  So octets are put in order, searched for a Key, and let go of when they cannot belong to one.
Once its frame is there, a half connection waits for the other's: until both are known nothing behind them can
be read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from scapy_mpa.errors import FramingError
from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    KEY_PREFIX,
    STARTUP_HEADER_LENGTH,
    StartupFrame,
    decode_startup_frame,
    startup_frame_problems,
)
from scapy_mpa.receive.segment import ACK, BUFFER, END, FRAME, LENGTH, SEQ, START, TIME, Segment, detached
from scapy_mpa.receive.stream import MAX_WINDOW, Stream

if TYPE_CHECKING:
    from scapy_mpa.receive.tcp import Half

#: Octets of streaming data held back for a gap, or because it is not known where the stream begins.
STREAMING_HELD_LIMIT = 64 * 1024
_LONGEST_FRAME = STARTUP_HEADER_LENGTH + 0xFFFF
_LARGEST_PACKET = 1 << 17
_SEQ_MASK = 0xFFFFFFFF


class FoundFrame(NamedTuple):
    """A startup frame in the stream: its octets are [start, end), the last of which came at (frame, nanoseconds).

    ``ack`` is the acknowledgement number of the segment that completed it.
    """

    startup: StartupFrame
    start: int
    end: int
    seq: int
    frame: int
    time: int
    ack: int


class StartupPhase:
    """One half connection until its startup frame, and the other's, are known.

    ``found`` is its frame; ``waiting`` are the segments behind it, in the order of capture.
    """

    def __init__(self, half: Half, origin: int, anchored: bool, held_limit: int) -> None:
        self.half = half
        self.stream = Stream(origin, anchored)
        self.found: FoundFrame | None = None
        self.waiting: list[Segment] = []
        #: From this offset on segments are kept in ``waiting``.
        self.wait_from: int | None = None
        #: The sequence number that ends the Request this half has to answer, and what it sent in place of a Reply.
        self.answers: int | None = None
        self.unexpected: Segment | None = None
        self._candidate: int | None = None
        self._waiting_octets = 0
        self._touched = False
        self._held_limit = held_limit
        self._set_next()

    def anchor(self, origin: int) -> bool:
        """Learn from a SYN where the stream begins; False if what was captured cannot belong to it."""
        stream = self.stream
        if not stream.pieces:
            self.stream = Stream(origin, True)
        else:
            offset = stream.offset_of(origin)
            if not -STREAMING_HELD_LIMIT <= offset <= stream.pieces[0][0]:
                return False
            stream.base = stream.next = offset
            if stream.islands and stream.islands[0][0] == offset:
                stream.skip_to(offset)
        self._set_next()
        return True

    def in_order(self, seg: Segment) -> bool:
        """Pass streaming data that cannot hold a Key; False, with nothing done, for all other."""
        start, end = seg[START], seg[END]
        if end - start != seg[LENGTH]:
            return False
        octets = bytes(seg[BUFFER][start:end])
        if KEY_PREFIX in octets or _beginning_of_key(octets):
            return False
        stream = self.stream
        stream.next += end - start
        stream.base = stream.highest = stream.next
        self.half.next_seq = (seg[SEQ] + end - start) & _SEQ_MASK
        return True

    def receive(self, seg: Segment) -> None:
        """Take any segment with payload."""
        if not self._touched:
            self._touched = True
            self.half.connection.receiver.touched.append(self)
        stream = self.stream
        start = stream.offset_of(seg[SEQ])
        end = start + seg[END] - seg[START]
        if start > max(stream.highest, stream.next) + MAX_WINDOW and (stream.anchored or stream.pieces):
            return
        if self.wait_from is not None and start + seg[LENGTH] > self.wait_from:
            self._wait(seg)
        if self.found is not None:
            return
        if self.answers is not None and self.unexpected is None:
            acknowledged = (seg[ACK] - self.answers) & _SEQ_MASK < 0x80000000
            begins = bytes(seg[BUFFER][seg[START] : min(seg[END], seg[START] + KEY_LENGTH)])
            if acknowledged and start >= stream.highest and not _may_be_key(begins):
                self.unexpected = detached(seg)
        for first, last in stream.commit(seg, start, end):
            if self.found is None:
                self._search(first, last)
        if self.found is None:
            self._let_go()
        self._set_next()

    def release(self) -> bool:
        """The block of the capture that segments lie in goes; nothing is left to go with the next one."""
        stream = self.stream
        if stream.pieces or stream.consumed:
            stream.release()
            stream.previously_consumed.clear()
        if self.waiting and self.waiting[-1][BUFFER].nbytes > _LARGEST_PACKET:
            self.waiting = [detached(seg) if seg[BUFFER].nbytes > _LARGEST_PACKET else seg for seg in self.waiting]
        self._touched = False
        return False

    def wait_behind(self, offset: int) -> None:
        """Keep the segments with octets from ``offset`` on, those at hand included."""
        self.wait_from = offset
        segments: dict[int, Segment] = {}
        for _, last, _, seg in self.stream.pieces:
            if last > offset:
                segments[id(seg)] = seg
        self.waiting = sorted(segments.values(), key=lambda seg: (seg[FRAME], seg[SEQ]))
        self._waiting_octets = sum(seg[END] - seg[START] for seg in self.waiting)

    def pending(self) -> tuple[int, bytes] | None:
        """A startup frame of which the Key and maybe more is there: its sequence number and octets."""
        if self.found is not None or self._candidate is None:
            return None
        island = self.stream.island(self._candidate)
        if island is None:
            return None
        octets = self.stream.read(self._candidate, min(island[1], self._candidate + _LONGEST_FRAME))
        if len(octets) < KEY_LENGTH:
            return None
        return self.stream.seq_of(self._candidate), octets

    # --- the search ---

    def _search(self, first: int, last: int) -> None:
        """Look for a startup frame that holds octets of [first, last)."""
        stream = self.stream
        if self._candidate is not None and self._try(self._candidate):
            return
        island = stream.island(first)
        if island is None:
            return
        low = max(island[0], first - len(KEY_PREFIX) + 1)
        octets = stream.read(low, min(island[1], last + len(KEY_PREFIX) - 1))
        at = octets.find(KEY_PREFIX)
        while at >= 0:
            if self._try(low + at):
                return
            at = octets.find(KEY_PREFIX, at + 1)

    def _try(self, offset: int) -> bool:
        """Whether there is, or may be, a startup frame at ``offset``: sets ``found``, or ``_candidate``."""
        stream = self.stream
        self._candidate = None
        island = stream.island(offset)
        if island is None:
            return False
        octets = stream.read(offset, min(island[1], offset + _LONGEST_FRAME))
        try:
            startup = decode_startup_frame(octets)
        except FramingError:
            return False
        pieces = stream.pieces_of(offset, offset + 1)
        at_segment = stream.offset_of(pieces[0][3][SEQ]) == offset
        if startup is None:
            if at_segment or len(octets) < STARTUP_HEADER_LENGTH or _is_plausible(octets):
                self._candidate = offset
            return self._candidate is not None
        end = offset + startup.wire_length
        # In the middle of other data a Key may be text about MPA; there the frame has to look like one.
        if not at_segment and (startup_frame_problems(startup) or startup.rev > 2 or end != island[1]):
            return False
        latest = max((piece[3] for piece in stream.pieces_of(offset, end)), key=lambda seg: seg[FRAME])
        seq = stream.seq_of(offset)
        self.found = FoundFrame(startup, offset, end, seq, latest[FRAME], latest[TIME], latest[ACK])
        if self.wait_from is None or self.wait_from < end:
            self.wait_behind(end)
        self.half.connection.startup_frame(self)
        return True

    def _let_go(self) -> None:
        """Drop what cannot be part of a startup frame any more."""
        stream = self.stream
        if self._candidate is not None:
            if stream.anchored:
                stream.consume(min(self._candidate, stream.next))
        elif stream.anchored:
            tail = _beginning_of_key(stream.read(max(stream.base, stream.next - len(KEY_PREFIX)), stream.next))
            stream.consume(stream.next - tail)
        while stream.held > max(STREAMING_HELD_LIMIT, _LONGEST_FRAME if self._candidate is not None else 0):
            if not stream.islands:
                stream.consume(stream.next)
                self._candidate = None
                return
            start = stream.islands[0][0]
            stream.skip_to(start)
            if self._candidate is not None and self._candidate < start:
                self._candidate = None
            tail = _beginning_of_key(stream.read(max(start, stream.next - len(KEY_PREFIX)), stream.next))
            stream.consume(stream.next - tail)

    def _wait(self, seg: Segment) -> None:
        self._waiting_octets += seg[END] - seg[START]
        if self._waiting_octets > self._held_limit and not self.half.connection.stop_waiting():
            self._waiting_octets -= seg[END] - seg[START]
            return
        if self.half.phase is self:
            self.waiting.append(seg)
        else:
            self.half.phase.receive(seg)

    def _set_next(self) -> None:
        stream = self.stream
        passing = stream.anchored and not stream.pieces and not stream.islands
        watched = self.found is not None or self.wait_from is not None or self.answers is not None
        self.half.next_seq = stream.seq_of(stream.next) if passing and not watched else -1

    def watch(self) -> None:
        """Look at every segment from now on."""
        self._set_next()


def _beginning_of_key(octets: bytes) -> int:
    """How many octets at the end of ``octets`` may be the beginning of a Key."""
    for length in range(min(len(KEY_PREFIX) - 1, len(octets)), 0, -1):
        if octets.endswith(KEY_PREFIX[:length]):
            return length
    return 0


def _may_be_key(octets: bytes) -> bool:
    return KEY_PREFIX.startswith(octets[: len(KEY_PREFIX)])


def _is_plausible(octets: bytes) -> bool:
    """Whether the header of a frame that is not complete could be one in the middle of streaming data."""
    return octets[17] <= 2 and (octets[17] == 0 or octets[18] << 8 | octets[19] <= 512)
