"""What is known of the receiver of one direction, as its own segments show it.

In: SEG.ACK, SEG.WND, SACK and TSecr of what the receiver sent, in the order of capture.  Out: a :class:`DropReason` for
a segment sent to it, and the frame in which it acknowledged given octets.  All offsets are those of the direction.
"""

from __future__ import annotations

from array import array
from typing import Final

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.stream.drop_reason import NO_REASON, PAWS_WINDOW, SHORTEST_TICK, TICK_SLACK, DropReason
from scapy_mpa.values.octets import append_number, cut_first, index_in, number_at

#: A frame after all others, an offset behind all others.
NEVER: Final = 1 << 62
#: Ranges of acknowledged octets that are kept apart; above, neighbours count as acknowledged by the later of their
#: frames.  A bound of memory: 3 MiB.
MOST_ACKNOWLEDGED: Final = 1 << 16
#: Acknowledgement numbers that are remembered: a RST that answers what was under way has one of them.  In a capture of
#: a closed socket, 81 RSTs answered what was sent within one window of 64 segments.
MOST_ACKS: Final = 64
#: An offset before all others, where none is known.
NOWHERE: Final = -NEVER
#: The same for this module, where they are numbers of C if it is compiled.
_NOWHERE: Final = NOWHERE
_TWICE_ACKS: Final = 2 * MOST_ACKS
#: Ranges that are kept though nobody asks for them, so that they are dropped seldom: a batch's size.
_FEW = 64
_NONE: Final = array("q")
#: Ticks: a timestamp that differs by as much or more is older, not newer (RFC 7323 §5.2).
OLDER: Final = 1 << 31


class PeerState:
    """The receiver of a direction (RFC 9293 §3.3.1, RFC 7323 §4.3, RFC 2018 §3).

    Attributes:
        acked: the highest SEG.ACK captured: RCV.NXT when it was sent; NOWHERE before the first.
        least_acked: the lower of the last two SEG.ACK captured, of which one may be forged; NOWHERE before the first.
        edge: the highest SEG.ACK + SEG.WND captured, NOWHERE before the first whose scale is known.
        wnd: the largest window captured, octets; -1 before the first.
        last_frame: the frame of the last ACK captured.
        ts_recent: TS.Recent, -1 without timestamps or without ACKs.
    """

    __slots__ = (
        "_acks", "_ends", "_frames", "_last_ack", "_starts", "_ts_time", "acked", "edge", "last_frame", "least_acked",
        "ts_recent", "wnd",
    )  # fmt: skip

    def __init__(self) -> None:
        self.acked = self.least_acked = self._last_ack = self.edge = NOWHERE
        self.wnd = -1
        self.last_frame = 0
        self.ts_recent = -1
        #: The acknowledgement numbers sent last.
        self._acks = _NONE[:]
        self._ts_time = 0
        # Ranges of octets, disjoint and ascending, and the frame that acknowledged each of them first.
        self._starts, self._ends, self._frames = _NONE[:], _NONE[:], _NONE[:]

    @property
    def last_ack_sent(self) -> int | None:
        """The highest SEG.ACK captured."""
        return None if self.acked == _NOWHERE else self.acked

    @property
    def acked_lately(self) -> int | None:
        """The lower of the last two SEG.ACK captured."""
        return None if self.least_acked == _NOWHERE else self.least_acked

    @property
    def right_edge(self) -> int | None:
        """The highest SEG.ACK + SEG.WND captured."""
        return None if self.edge == _NOWHERE else self.edge

    @property
    def rcv_wnd(self) -> int | None:
        """The largest window captured, octets."""
        return None if self.wnd < 0 else self.wnd

    def has_room_for(self, end: int) -> bool:
        """Return True if octets up to an offset lie below the right edge of the window, or none is known."""
        return self.edge in (_NOWHERE, end) or end < self.edge

    def acknowledge(self, frame: int, ack: int, window: int) -> bool:
        """Take SEG.ACK as an offset and SEG.WND in octets, -1 if its scale is not known; True if RCV.NXT advanced."""
        self.last_frame = frame
        latest, self._last_ack, before = self._last_ack, ack, self.acked
        self.least_acked = ack if ack < latest or latest == _NOWHERE else latest
        if window >= 0:
            if window > self.wnd:
                self.wnd = window
            if ack + window > self.edge:
                self.edge = ack + window
        if ack <= before:
            return False
        self.acked = ack
        append_number(self._acks, ack)
        if len(self._acks) == _TWICE_ACKS:
            del self._acks[:MOST_ACKS]
        self._insert(frame, before, ack)
        return True

    def has_sent_ack(self, ack: int) -> bool:
        """Return True if a segment carried this SEG.ACK lately."""
        return ack in self._acks[-MOST_ACKS:]

    def sack(self, frame: int, start: int, end: int) -> None:
        """Take a range that the receiver acknowledged selectively (RFC 2018 §3)."""
        low = max(start, self.acked)
        if low < end:
            self._insert(frame, low, end)

    def _insert(self, frame: int, start: int, end: int) -> None:
        """Note that a frame acknowledged [start, end): what an earlier one acknowledged keeps its frame."""
        starts, ends, frames = self._starts, self._ends, self._frames
        count = len(ends)
        if not count or start >= number_at(ends, count - 1):
            append_number(starts, start)
            append_number(ends, end)
            append_number(frames, frame)
        else:
            index = index_in(ends, start + 1)
            while start < end:
                if index == len(starts) or starts[index] >= end:
                    starts.insert(index, start)
                    ends.insert(index, end)
                    frames.insert(index, frame)
                    break
                if start < starts[index]:
                    starts.insert(index, start)
                    ends.insert(index, starts[index + 1])
                    frames.insert(index, frame)
                    index += 1
                start = ends[index]
                index += 1
        if count > _FEW and len(starts) > MOST_ACKNOWLEDGED:
            self._join_neighbours()

    def _join_neighbours(self) -> None:
        """Halve the number of ranges; where they do not touch, those farthest ahead count as not acknowledged."""
        starts, ends, frames = self._starts[:1], self._ends[:1], self._frames[:1]
        for at in range(1, len(self._starts)):
            if at % 2 and self._starts[at] == ends[-1]:
                ends[-1], frames[-1] = self._ends[at], max(frames[-1], self._frames[at])
            else:
                starts.append(self._starts[at])
                ends.append(self._ends[at])
                frames.append(self._frames[at])
        most = MOST_ACKNOWLEDGED // 2 + 1
        self._starts, self._ends, self._frames = starts[:most], ends[:most], frames[:most]

    def acked_frame(self, start: int, end: int) -> int:
        """Return the frame by which the receiver had acknowledged all of [start, end); NEVER if it has not."""
        index, frame = index_in(self._ends, start + 1), 0
        while start < end:
            if index == len(self._starts) or self._starts[index] > start:
                return NEVER
            frame = max(frame, self._frames[index])
            start = self._ends[index]
            index += 1
        return frame

    def acknowledged_at(self, frame: int) -> int:
        """Return the highest offset that was acknowledged by a frame; a higher one, or NEVER, if that is not known.

        It looks at the last MOST_ACKS ranges: a bound of time.
        """
        first = max(len(self._ends) - MOST_ACKS, 0)
        for index in range(len(self._ends) - 1, first - 1, -1):
            if self._frames[index] <= frame:
                return self._ends[index]
        start = self._starts[first] if self._starts else self.acked
        return NEVER if start < _NOWHERE // 2 else start

    def acknowledged_by(self, end: int) -> int:
        """Return a frame by which all octets below an offset were acknowledged, NEVER if they were not.

        It is the first such frame, or a later one where that was dropped.
        """
        if end > self.acked:
            return NEVER
        index = index_in(self._ends, end)
        return self._frames[index] if index < len(self._frames) else self.last_frame

    def take_timestamp(self, tsval: int, time: int) -> None:
        """Take the timestamp of a SYN (RFC 7323 §4.3)."""
        self.ts_recent, self._ts_time = tsval, time

    def acked_by(self, frame: int) -> int | None:
        """Return the highest offset that was acknowledged by a frame, None if none was."""
        for index in range(len(self._ends) - 1, -1, -1):
            if self._frames[index] <= frame:
                return self._ends[index]
        return None

    def echo(self, tsecr: int, time: int) -> None:
        """Take a timestamp that the receiver echoed: TS.Recent is not older (RFC 7323 §4.3)."""
        if self.ts_recent >= 0 and 0 < (tsecr - self.ts_recent) & SEQ_MASK <= self._most_ticks(time):
            self.ts_recent, self._ts_time = tsecr, time

    def _most_ticks(self, time: int) -> int:
        """Return by how many ticks a timestamp may have advanced since TS.Recent was taken."""
        if time < self._ts_time:
            return TICK_SLACK
        return min((time - self._ts_time) // SHORTEST_TICK + TICK_SLACK, OLDER - 1)

    def drop_reason(self, start: int, end: int, tsval: int, time: int, believed: int) -> DropReason:
        """Return why the receiver may drop a segment of octets [start, end); follows TS.Recent (RFC 7323 §5.3).

        Args:
            start: the offset of its first octet.
            end: the offset after its last octet.
            tsval: its timestamp, -1 without one.
            time: when it was captured, nanoseconds.
            believed: the offset up to which octets are known to be the sender's: had there been no room for them, they
                would not be; so the window has moved on where ACKs were not captured.
        """
        if tsval >= 0:
            age = 0 if self.ts_recent < 0 else (self.ts_recent - tsval) & SEQ_MASK
            if age > PAWS_WINDOW and age < SEQ_MASK + 1 - self._most_ticks(time):
                return DropReason.PAWS
            if (not age or age >= OLDER) and start <= self.acked <= end:
                self.ts_recent, self._ts_time = tsval, time
        edge = self.edge
        if edge == _NOWHERE or start <= edge or (believed > edge and start <= believed + max(self.wnd, 0)):
            return NO_REASON
        return DropReason.OVERWINDOW

    def forget(self, below: int) -> None:
        """Drop what was acknowledged below an offset: nobody asks for it any more; SACKs beyond SEG.ACK are counted."""
        if self.acked != _NOWHERE and self.acked < below:
            below = self.acked
        if len(self._ends) > _FEW and number_at(self._ends, 0) <= below:
            count = index_in(self._ends, below + 1)
            cut_first(self._starts, count)
            cut_first(self._ends, count)
            cut_first(self._frames, count)

    def sacked_octets(self, end: int) -> int:
        """Return how many octets below an offset, beyond SEG.ACK, were acknowledged selectively."""
        low, total = end if self.acked == _NOWHERE else self.acked, 0
        for index in range(len(self._ends) - 1, -1, -1):
            last = self._ends[index]
            if last <= low:
                break
            total += max(0, min(last, end) - max(self._starts[index], low))
        return total

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        self.acked, self.least_acked = _shifted(self.acked, origin), _shifted(self.least_acked, origin)
        self._last_ack, self.edge = _shifted(self._last_ack, origin), _shifted(self.edge, origin)
        for numbers in (self._acks, self._starts, self._ends):
            for index in range(len(numbers)):
                numbers[index] -= origin

    def last_acknowledged(self) -> int:
        """Return the offset after the last octet that was acknowledged, by SEG.ACK or SACK; below all without any."""
        return self._ends[-1] if self._ends else self.acked

    def is_acknowledged(self, start: int, end: int) -> bool:
        """Return True if any octet of [start, end) was acknowledged."""
        if start < self.acked:
            return True
        index = index_in(self._ends, start + 1)
        return index < len(self._starts) and self._starts[index] < end


def _shifted(offset: int, origin: int) -> int:
    """Return an offset counted from what is now ``origin``."""
    return offset if offset == _NOWHERE else offset - origin
