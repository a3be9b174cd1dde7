"""What is known of the receiver of one direction, as its own segments show it.

In: SEG.ACK, SEG.WND, SACK and TSecr of what the receiver sent, in the order of capture.  Out: a :class:`DropReason` for
a segment sent to it, and the frame in which it acknowledged given octets.  All offsets are those of the direction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.stream.drop_reason import NO_REASON, PAWS_WINDOW, SHORTEST_TICK, TICK_SLACK, DropReason

#: A frame after all others, an offset behind all others.
NEVER: Final = 1 << 62
#: Ranges of acknowledged octets that are kept apart; above, neighbours count as acknowledged by the later of their
#: frames.  A bound of memory: 3 MiB.
MOST_ACKNOWLEDGED: Final = 1 << 16
#: Acknowledgement numbers that are remembered: a RST that answers what was under way has one of them.  In a capture of
#: a closed socket, 81 RSTs answered what was sent within one window of 64 segments.
MOST_ACKS: Final = 64
_LOWEST = -NEVER
#: Ranges that are kept though nobody asks for them, so that they are dropped seldom: a batch's size.
_FEW = 64
#: Ticks: a timestamp that differs by as much or more is older, not newer (RFC 7323 §5.2).
OLDER: Final = 1 << 31


class PeerState:
    """The receiver of a direction (RFC 9293 §3.3.1, RFC 7323 §4.3, RFC 2018 §3).

    Attributes:
        last_ack_sent: the highest SEG.ACK captured: RCV.NXT when it was sent; None before the first.
        acked_lately: the lower of the last two SEG.ACK captured, of which one may be forged; None before the first.
        last_frame: the frame of the last ACK captured.
        right_edge: the highest SEG.ACK + SEG.WND captured, None before the first whose scale is known.
        rcv_wnd: the largest window captured, octets; None before the first.
        ts_recent: TS.Recent, -1 without timestamps or without ACKs.
    """

    __slots__ = (
        "_acks",
        "_ends",
        "_frames",
        "_last_ack",
        "_starts",
        "_ts_time",
        "acked_lately",
        "last_ack_sent",
        "last_frame",
        "rcv_wnd",
        "right_edge",
        "ts_recent",
    )

    def __init__(self) -> None:
        self.last_ack_sent: int | None = None
        self.acked_lately: int | None = None
        self._last_ack: int | None = None
        self.last_frame = 0
        self.right_edge: int | None = None
        self.rcv_wnd: int | None = None
        self.ts_recent = -1
        #: The acknowledgement numbers sent last.
        self._acks: list[int] = []
        self._ts_time = 0
        # Ranges of octets, disjoint and ascending, and the frame that acknowledged each of them first.
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._frames: list[int] = []

    def acknowledge(self, frame: int, ack: int, window: int | None) -> bool:
        """Take SEG.ACK as an offset and SEG.WND in octets, None if its scale is not known; True if RCV.NXT advanced."""
        self.last_frame = frame
        latest, self._last_ack = self._last_ack, ack
        self.acked_lately = ack if latest is None or ack < latest else latest
        if window is not None:
            if self.rcv_wnd is None or window > self.rcv_wnd:
                self.rcv_wnd = window
            if self.right_edge is None or ack + window > self.right_edge:
                self.right_edge = ack + window
        before = self.last_ack_sent
        if before is not None and ack <= before:
            return False
        self.last_ack_sent = ack
        self._acks.append(ack)
        if len(self._acks) == 2 * MOST_ACKS:
            del self._acks[:MOST_ACKS]
        self._insert(frame, _LOWEST if before is None else before, ack)
        return True

    def has_sent_ack(self, ack: int) -> bool:
        """Return True if a segment carried this SEG.ACK lately."""
        return ack in self._acks[-MOST_ACKS:]

    def sack(self, frame: int, start: int, end: int) -> None:
        """Take a range that the receiver acknowledged selectively (RFC 2018 §3)."""
        low = start if self.last_ack_sent is None else max(start, self.last_ack_sent)
        if low < end:
            self._insert(frame, low, end)

    def _insert(self, frame: int, start: int, end: int) -> None:
        """Note that a frame acknowledged [start, end): what an earlier one acknowledged keeps its frame."""
        starts, ends, frames = self._starts, self._ends, self._frames
        if not ends or start >= ends[-1]:
            starts.append(start)
            ends.append(end)
            frames.append(frame)
        else:
            index = bisect_right(ends, start)
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
        if len(starts) > MOST_ACKNOWLEDGED:
            self._join_neighbours()

    def _join_neighbours(self) -> None:
        """Halve the number of ranges; where they do not touch, those farthest ahead count as not acknowledged."""
        starts, ends, frames = [self._starts[0]], [self._ends[0]], [self._frames[0]]
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
        index, frame = bisect_right(self._ends, start), 0
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
        start = self._starts[first] if self._starts else self.last_ack_sent
        return NEVER if start is None or start < _LOWEST // 2 else start

    def acknowledged_by(self, end: int) -> int:
        """Return a frame by which all octets below an offset were acknowledged, NEVER if they were not.

        It is the first such frame, or a later one where that was dropped.
        """
        if self.last_ack_sent is None or end > self.last_ack_sent:
            return NEVER
        index = bisect_left(self._ends, end)
        return self._frames[index] if index < len(self._frames) else self.last_frame

    def take_timestamp(self, tsval: int, time: int) -> None:
        """Take the timestamp of a SYN (RFC 7323 §4.3)."""
        self.ts_recent, self._ts_time = tsval, time

    def acked_by(self, frame: int) -> int | None:
        """Return the highest offset that was acknowledged by a frame, None if none was."""
        found = (end for end, acked in zip(reversed(self._ends), reversed(self._frames), strict=True) if acked <= frame)
        return next(found, None)

    def echo(self, tsecr: int, time: int) -> None:
        """Take a timestamp that the receiver echoed: TS.Recent is not older (RFC 7323 §4.3)."""
        mask = SEQ_MASK
        if self.ts_recent >= 0 and 0 < (tsecr - self.ts_recent) & mask <= self._most_ticks(time):
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
            mask, paws_window, older = SEQ_MASK, PAWS_WINDOW, OLDER
            age = 0 if self.ts_recent < 0 else (self.ts_recent - tsval) & mask
            if paws_window < age and age < mask + 1 - self._most_ticks(time):
                return DropReason.PAWS
            acked = self.last_ack_sent
            if acked is not None and (not age or age >= older) and start <= acked <= end:
                self.ts_recent, self._ts_time = tsval, time
        edge = self.right_edge
        if edge is None or start <= edge or (believed > edge and start <= believed + (self.rcv_wnd or 0)):
            return NO_REASON
        return DropReason.OVERWINDOW

    def forget(self, below: int) -> None:
        """Drop what was acknowledged below an offset: nobody asks for it any more; SACKs beyond SEG.ACK are counted."""
        if self.last_ack_sent is not None:
            below = min(below, self.last_ack_sent)
        if len(self._ends) > _FEW and self._ends[0] <= below:
            count = bisect_right(self._ends, below)
            del self._starts[:count], self._ends[:count], self._frames[:count]

    def sacked_octets(self, end: int) -> int:
        """Return how many octets below an offset, beyond SEG.ACK, were acknowledged selectively."""
        low = self.last_ack_sent if self.last_ack_sent is not None else end
        return sum(
            max(0, min(last, end) - max(first, low)) for first, last in zip(self._starts, self._ends, strict=True)
        )

    def shift(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        if self.last_ack_sent is not None:
            self.last_ack_sent -= origin
        if self.acked_lately is not None and self._last_ack is not None:
            self.acked_lately -= origin
            self._last_ack -= origin
        if self.right_edge is not None:
            self.right_edge -= origin
        self._acks = [ack - origin for ack in self._acks]
        self._starts = [start - origin for start in self._starts]
        self._ends = [end - origin for end in self._ends]

    def last_acknowledged(self) -> int:
        """Return the offset after the last octet that was acknowledged, by SEG.ACK or SACK; below all without any."""
        return self._ends[-1] if self._ends else (self.last_ack_sent if self.last_ack_sent is not None else _LOWEST)

    def is_acknowledged(self, start: int, end: int) -> bool:
        """Return True if any octet of [start, end) was acknowledged."""
        if self.last_ack_sent is not None and start < self.last_ack_sent:
            return True
        index = bisect_left(self._ends, start + 1)
        return index < len(self._starts) and self._starts[index] < end
