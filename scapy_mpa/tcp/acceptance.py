"""Which segments of one direction its receiver takes (RFC 9293 §3.4 and §3.10.7.4, RFC 7323 §5, RFC 5961).

Late duplicates of an earlier connection, and what somebody between injects, fail here, before their octets are looked
at.  What the receiver would take is known as far as its own acknowledgements were captured: octets beyond the window
that it advertised *wait* until it acknowledges them, or until other octets join them to those it has.  Only what still
waits in the end was outside.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from enum import Enum
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff, unwrap
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY
from scapy_mpa.tcp.half import MAX_WINDOW, Half
from scapy_mpa.values.options import USUAL_TIMESTAMPS, timestamp_of, timestamps_of
from scapy_mpa.values.segment import (
    ACK_FLAG,
    FIN,
    RST,
    SYN,
    Segment,
    bare,
    checksum_is_right,
    checksum_is_wrong,
    small_copy,
)

#: So many segments in a row beyond the window, each not far behind the last, and none within: the capture lost what
#: the receiver said, and they are the connection's.
IN_A_ROW: Final = 8
_IN_A_ROW_AT_END: Final = 3
#: So many segments of one side that come alone: the other side was not captured.
_UNHEARD: Final = 4
#: How far each of them may lie behind the one before, in octets.
_NOT_FAR: Final = 1 << 20
#: Segments of a direction that wait at most.
_MOST_WAITING: Final = 128
#: The same of those with a doubtful timestamp or checksum.
_MOST_DOUBTFUL: Final = 32
#: So many octets are the beginning of a connection, each of whose checksums is looked at.
_BEGINNING: Final = 1 << 20
#: A SYN captured late may have been sent so many octets before those that were captured first.
_MOST_BEFORE: Final = 1 << 20
#: An acknowledgement of what nobody knows of is believed when it was said so often.
_SAID_AGAIN: Final = 3
#: Octets of memory that a segment that waits takes besides its own.
_WEIGHT: Final = 256
#: Timestamps count at most so many times a second, and a clock may be off by so many (RFC 7323 §5.4 has 1 ms to 1 s; 1
#: µs is in use).
_FASTEST, _SLACK = 1_000_000, 10_000_000
#: No clock is suspect that goes on by so few.
_LITTLE: Final = 1000
#: Octets of a TCP header without options; TSval, behind the first octets of its option.
_HEADER: Final = 20
_stamp = Struct(">I").unpack_from
#: After so long (24 days in nanoseconds) the last timestamp says nothing any more (RFC 7323 §5.5).
_OUTDATED: Final = 24 * 86_400 * 10**9


class Acceptance(Enum):
    """What becomes of a segment."""

    TAKEN = "taken"
    WAITS = "waits"
    OUTSIDE = "outside"
    OLD = "old"
    DAMAGED = "damaged"
    AFTER_FIN = "after FIN"


class Range(NamedTuple):
    """What was captured of a direction, as sequence numbers: the end of what is in order, and of the highest octet."""

    next: int
    highest: int


class Timestamps:
    """The timestamps of one direction: what is older than the last octets taken in order is an old duplicate.

    RFC 7323 §5.3 calls that Protection Against Wrapped Sequences (PAWS).
    """

    __slots__ = ("_newest", "_recent", "_time")

    def __init__(self) -> None:
        self._recent = -1
        self._time = 0
        #: The newest timestamp of all segments, in order or not.
        self._newest = -1

    def judge(self, seg: Segment, stamp: int) -> Acceptance:
        """Whether a segment with this timestamp is older than what its receiver has."""
        if self._recent < 0 or seg.time - self._time > _OUTDATED:
            self.see(stamp)
            return Acceptance.TAKEN
        if self.is_older(stamp):
            return Acceptance.OLD
        # No clock runs so fast.  Timestamps of an earlier connection may be so far off that they count as newer, and
        # who forges one wants everything after it to be dropped.
        elapsed = max(0, seg.time - self._time) * _FASTEST // 10**9
        if (stamp - self._recent) & SEQ_MASK > elapsed + _SLACK:
            return Acceptance.WAITS
        self.see(stamp)
        return Acceptance.TAKEN

    def see(self, stamp: int) -> None:
        """A segment with this timestamp was sent."""
        if self._newest < 0 or (stamp - self._newest) & SEQ_MASK < 0x80000000:
            self._newest = stamp

    def is_older(self, stamp: int) -> bool:
        """Whether a timestamp is older than the last."""
        return self._recent >= 0 and (stamp - self._recent) & SEQ_MASK >= 0x80000000

    def take(self, time: int, stamp: int) -> None:
        """A segment with this timestamp was taken in order, at this time (nanoseconds)."""
        self._recent, self._time = stamp, time
        self.see(stamp)

    def goes_on(self, seg: Segment) -> bool:
        """Whether a segment, the next in order, has the newest timestamp so far or one a little newer than the last.

        Then it is remembered.
        """
        at = seg.tcp + _HEADER
        if seg.buffer[at : at + 4] != USUAL_TIMESTAMPS:
            return False
        stamp = _stamp(seg.buffer, at + 4)[0]
        if self._recent < 0 or (stamp - self._recent) & SEQ_MASK > _LITTLE:
            return False
        # Its receiver may have the newest by now, and takes none that is older.
        if (stamp - self._newest) & SEQ_MASK >= 0x80000000:
            return False
        self._recent, self._time, self._newest = stamp, seg.time, stamp
        return True

    def raise_to(self, echo: int, time: int) -> None:
        """Its receiver echoes this timestamp, if it was sent."""
        if self._newest < 0 or (self._newest - echo) & SEQ_MASK >= 0x80000000:
            return
        if self._recent < 0 or 0 < (echo - self._recent) & SEQ_MASK < 0x80000000:
            self._recent, self._time = echo, time

    def is_beyond(self, echo: int) -> bool:
        """Whether a timestamp that was echoed is newer than all that were captured."""
        return self._newest >= 0 and 0 < (echo - self._newest) & SEQ_MASK < 0x80000000

    def forget(self) -> None:
        """The clock of the sender has been set."""
        self._recent = -1


class Segments:
    """The segments of one direction, as its receiver takes them.

    Args:
        half: the direction; its peer is the receiver.

    Attributes:
        waiting: those beyond the window that wait, by offset.
        doubtful: those that wait because of their timestamp or checksum, in the order of capture, and why.
        before: the sequence numbers [first, last) of the connection before, on the same addresses and ports.
        refuted_fin: number, frame and time (nanoseconds) of a FIN that was none, None without one.
    """

    __slots__ = (
        "_anchored",
        "_checksums_are_right",
        "_doubts_in_row",
        "_echo",
        "_half",
        "_highest",
        "_in_row",
        "_is_order_doubted",
        "_knows_stamps",
        "_lacks_acks",
        "_last",
        "_next",
        "_next_then",
        "_origin",
        "_stamps",
        "_syn_stamp",
        "_then",
        "_unheard",
        "_weight",
        "before",
        "doubtful",
        "refuted_fin",
        "waiting",
    )

    def __init__(self, half: Half, before: Range | None = None) -> None:
        self._half = half
        self.before = before
        #: The sequence number of offset 0, -1 as long as nothing is known; whether what is sent begins there.
        self._origin = -1
        self._anchored = False
        self._next = self._highest = 0
        #: Whether octets came in order that the receiver had not offered to take: its acknowledgements lack.
        self._lacks_acks = False
        #: Segments that were judged before anything of the receiver was captured.
        self._unheard = 0
        self.waiting: list[tuple[int, int, Segment]] = []
        self.doubtful: list[tuple[Segment, Acceptance]] = []
        self.refuted_fin: tuple[int, int, int] | None = None
        self._weight = 0
        #: What the peer had acknowledged when those came that wait, by frame.
        self._then: dict[int, int] = {}
        #: How many came in a row that wait, the end of the last of them, and what came next in order then.
        self._in_row = 0
        self._last = self._next_then = 0
        #: The newest timestamp that was echoed while some waited, -1 if none was.
        self._echo = -1
        self._stamps: Timestamps | None = None
        self._knows_stamps = False
        self._is_order_doubted = False
        #: Time (nanoseconds) and timestamp of its SYN.
        self._syn_stamp: tuple[int, int] | None = None
        #: How many came in a row that are doubtful.
        self._doubts_in_row = 0
        #: Whether the TCP checksum of a SYN was right: then checksums were captured as they were on the wire.
        self._checksums_are_right = False

    # --- what is known ---

    def synchronize(self, syn: Segment) -> None:
        """A SYN was captured: octets begin behind its sequence number."""
        origin = (syn.seq + 1) & SEQ_MASK
        self._checksums_are_right = checksum_is_right(syn)
        stamp = timestamp_of(syn)
        self._syn_stamp = (syn.time, stamp) if stamp is not None else None
        if self._origin < 0:
            self._origin, self._anchored = origin, True
        else:
            offset = self._offset_of(origin)
            self._anchored = True
            self._next -= offset
            self._highest -= offset
            self._origin = origin

    @property
    def looks_at_timestamps(self) -> bool:
        """Whether timestamps are in use, or may be."""
        return self._stamps is not None or not self._knows_stamps

    def _decide_timestamps(self, stamp: int | None) -> None:
        """Whether timestamps are in use, before the first octets: nobody sends them who did not agree on them."""
        mine, theirs = self._half.announced, self._half.peer.announced
        agreed = [one.timestamps for one in (mine, theirs) if one is not None]
        self._knows_stamps = True
        if all(agreed) and (len(agreed) == len((mine, theirs)) or stamp is not None):
            self._stamps = Timestamps()
            if self._syn_stamp is not None:
                self._stamps.take(*self._syn_stamp)

    @property
    def next_seq(self) -> int:
        """The sequence number that comes next in order, -1 if nothing is known."""
        return (self._origin + self._next) & SEQ_MASK if self._origin >= 0 else -1

    @property
    def extent(self) -> Range | None:
        """The sequence numbers from the first to the last octet that was sent, None if nothing was."""
        return Range(self._origin, (self._origin + self._highest) & SEQ_MASK) if self._origin >= 0 else None

    @property
    def weight(self) -> int:
        """Octets of memory that what waits takes."""
        return self._weight

    def see(self, extent: Range | None) -> None:
        """Learn what was captured in order, and what the highest octet is, from whoever puts octets in order."""
        if extent is None:
            return
        if self._origin < 0:
            self._origin = extent.next
        # What came damaged is withdrawn again: then less is in order than before.
        self._next = self._offset_of(extent.next)
        self._highest = max(self._highest, self._next, self._offset_of(extent.highest))

    def _offset_of(self, seq: int) -> int:
        return unwrap(seq, self._next, self._origin)

    # --- segments ---

    def stamp(self, seg: Segment) -> Acceptance:
        """Look at the timestamp of a segment: one that is too old, or much too new, has to wait."""
        if not self._knows_stamps:
            self._decide_timestamps(timestamp_of(seg))
        stamps = self._stamps
        stamp = timestamp_of(seg) if stamps is not None else None
        if stamps is None or stamp is None:
            return Acceptance.TAKEN
        if self._half.stamp >= 0:
            stamps.see(self._half.stamp)
        if self._half.peer.echo >= 0:
            stamps.raise_to(self._half.peer.echo, seg.time)
        found = stamps.judge(seg, stamp)
        if found is not Acceptance.TAKEN:
            return self._doubt(seg, Acceptance.OLD)
        self._doubts_in_row = 0
        # Its receiver remembers the timestamp of what it takes in order (RFC 7323 §4.3), and echoes it.
        if (seg.seq == self.next_seq and self._knows_order) or self._goes_on_from_acknowledged(seg):
            stamps.take(seg.time, stamp)
        return found

    def is_older(self, seg: Segment) -> bool:
        """Whether the timestamp of a segment is older than that of what came in order last."""
        stamp = timestamp_of(seg) if self._stamps is not None else None
        return stamp is not None and self._stamps is not None and self._stamps.is_older(stamp)

    def _goes_on_from_acknowledged(self, seg: Segment) -> bool:
        """Whether a segment begins with octets that were acknowledged, and ends behind those, and those in order."""
        if self._half.peer.ack <= 0:
            return False
        start, ack = self._offset_of(seg.seq), self._acknowledged()
        return start <= ack and start + seg.length > max(ack, self._next)

    @property
    def _knows_order(self) -> bool:
        """Whether what comes next here does so at its receiver; not if the capture begins in the middle."""
        return self._anchored and not self._is_order_doubted

    def doubt_order(self) -> None:
        """Its receiver may lack octets that were captured: what comes in order here may not do so there."""
        self._is_order_doubted = True

    def pass_stamp(self, seg: Segment) -> None:
        """A segment without octets came: its receiver remembers its timestamp if it is the next in order."""
        if not self._knows_stamps:
            self._decide_timestamps(timestamp_of(seg))
        stamps, stamp = self._stamps, self._half.stamp
        if stamps is None or stamp < 0 or seg.seq != self.next_seq:
            return
        if stamps.judge(seg, stamp) is Acceptance.TAKEN:
            stamps.take(seg.time, stamp)

    @property
    def is_beginning(self) -> bool:
        """Whether few octets have come in order: startup frames, mostly."""
        return self._next < _BEGINNING

    @property
    def checks_all(self) -> bool:
        """Whether TCP checksums were captured as they were on the wire, so that each wrong one means something."""
        return self._checksums_are_right

    def goes_on(self, seg: Segment) -> bool:
        """Whether the timestamp of the next segment in order is that of the last one, or a little newer."""
        if self.doubtful or not self._knows_stamps or not self._knows_order:
            return False
        return self._stamps is None or self._stamps.goes_on(seg)

    @property
    def is_remarkable(self) -> bool:
        """Whether segments wait, or did lately."""
        return bool(self.waiting or self.doubtful or self._in_row)

    def check(self, seg: Segment) -> Acceptance:
        """Look at the TCP checksum of a segment: one that is wrong has to wait where others are known to be right."""
        return self._doubt(seg, Acceptance.DAMAGED) if self.is_damaged(seg) else Acceptance.TAKEN

    def is_damaged(self, seg: Segment) -> bool:
        """Whether the TCP checksum of a segment is wrong, where others are known to be right."""
        return self._checksums_are_right and checksum_is_wrong(seg)

    def _doubt(self, seg: Segment, reason: Acceptance) -> Acceptance:
        """A segment is one that its receiver drops, by all that is known: it waits for what shows that."""
        self._doubts_in_row += 1
        if len(self.doubtful) >= _MOST_DOUBTFUL:
            return reason
        self.doubtful.append((small_copy(seg, {}), reason))
        self._then[seg.frame] = self._half.peer.ack
        self._weight += seg.end - seg.start + _WEIGHT
        return Acceptance.WAITS

    def take_doubtful(self) -> Iterator[tuple[Segment, Acceptance]]:
        """Yield the segments with a doubtful timestamp or checksum of which it is known now what became of them.

        Their receiver dropped them if others brought their octets.  They are the connection's if it acknowledges octets
        that nothing else brought, or if so many came in a row.
        """
        peer, doubtful = self._half.peer, self.doubtful
        is_row = self._doubts_in_row >= IN_A_ROW
        if is_row:
            self._doubts_in_row, self._checksums_are_right = 0, False
            if self._stamps is not None:
                self._stamps.forget()
        self.doubtful = []
        for seg, reason in doubtful:
            found, start = reason, self._offset_of(seg.seq)
            end = start + seg.length
            is_had = end > max(start, self._next) and peer.has(seg.seq, (seg.seq + seg.length) & SEQ_MASK)
            if is_row or is_had:
                found = Acceptance.TAKEN
                self._count(end - seg.length, end)
            elif end > self._next:
                self.doubtful.append((seg, reason))
                continue
            self._weight -= seg.end - seg.start + _WEIGHT
            yield seg, found

    def pass_in_order(self, length: int) -> None:
        """The next octets in order came."""
        self._next += length
        if self._next > self._highest:
            self._highest = self._next

    def judge(self, seg: Segment) -> Acceptance:
        """What becomes of a segment, with octets or without; one that is taken counts as captured from now on."""
        if self._origin < 0:
            self._origin = seg.seq
        if self._half.peer.ack < 0:
            self._unheard += 1
        start = self._offset_of(seg.seq)
        end = start + seg.length
        found = self._judge(start, end, bool(seg.flags & FIN))
        if found is Acceptance.TAKEN:
            self._in_row = 0
            if self.waiting and end > self._acknowledged():
                self._hear_echo(seg)
            self._count(start, end)
        elif found is Acceptance.WAITS and not self._wait(start, end, seg):
            return Acceptance.OUTSIDE
        return found

    def _count(self, start: int, end: int) -> None:
        if start <= self._next < end:
            self._next = end
        self._highest = max(self._highest, end)

    def _judge(self, start: int, end: int, is_fin: bool) -> Acceptance:
        # A keep-alive may repeat what stands before the first octet: the SYN.
        if end < self._next - MAX_WINDOW or (self._anchored and start < -1):
            return Acceptance.OUTSIDE
        fin = self._half.fin
        # The FIN itself has a number, which may have been acknowledged.
        if is_fin and fin is None and end < max(self._next, self._acknowledged() - 1):
            return Acceptance.OUTSIDE
        if fin is not None and (end > start or is_fin):
            found = self._against_fin(start, end, self._offset_of(fin[0]))
            if found is not None:
                return found
        if start <= self._next or start < self._limit():
            return Acceptance.TAKEN
        return Acceptance.WAITS

    def _against_fin(self, start: int, end: int, fin: int) -> Acceptance | None:
        """What a known FIN makes of a segment, None if nothing: it counts when all before it has come."""
        if end <= fin:
            return None
        if self._next >= fin:
            return Acceptance.AFTER_FIN
        if start >= fin:
            return Acceptance.WAITS
        # Octets of one segment before it and behind it: the FIN was none.
        self.refuted_fin = self._half.fin
        self._half.take_back_fin()
        return None

    def _limit(self) -> int:
        """The offset up to which its receiver takes octets, as far as is known.

        Octets in order beyond what it offered show that not all was captured that it said.
        """
        peer = self._half.peer
        if self._anchored and peer.ack < 0 and peer.origin is None and not self._next and self._unheard < _UNHEARD:
            return 0  # nobody can send octets before the other side's SYN
        if peer.edge < 0 and peer.window and self._anchored:
            return max(self._next, self._highest) + peer.window  # as its SYN said
        if peer.edge < 0:
            return max(self._next, self._highest, self._acknowledged()) + MAX_WINDOW
        edge = self._offset_of(peer.edge)
        if self._next > edge:
            self._lacks_acks = True
        return max(edge, self._highest + peer.window) if self._lacks_acks else edge

    def _acknowledged(self) -> int:
        return self._offset_of(self._half.peer.ack) if self._half.peer.ack > 0 else 0

    def judge_rst(self, seg: Segment) -> Acceptance:
        """What becomes of a RST: taken if its number is the next expected, or answers one that was acknowledged.

        One elsewhere in the window waits for what its sender does then (RFC 9293 §3.10.7.4, RFC 5961 §3.2).
        """
        if self._origin < 0 or self._half.peer.has_acknowledged(seg.seq):
            return Acceptance.TAKEN
        offset, fin = self._offset_of(seg.seq), self._half.fin
        next_ = self._next
        if offset == next_ or (fin is not None and offset == self._offset_of(fin[0]) + 1 == next_ + 1):
            return Acceptance.TAKEN
        return Acceptance.WAITS if next_ < offset < max(self._limit(), next_ + 2) else Acceptance.OUTSIDE

    def may_come_next(self, seq: int) -> bool:
        """Whether its receiver takes a segment without octets that has this number."""
        if self._origin < 0:
            return True
        offset, received = self._offset_of(seq), self._acknowledged()
        if offset < min(received, self._next) - MAX_WINDOW or (self._anchored and offset < -1):
            return False
        return offset <= max(self._limit(), self._highest + 1)

    def was_sent(self, ack: int) -> bool:
        """Whether all octets below this number may have been sent, a FIN included."""
        if self._origin < 0:
            return True
        offset = self._offset_of(ack)
        end = max(self._highest, self._next)
        # What waits just beyond the window is what was acknowledged, if anything is.
        for start, _, seg in self.waiting:
            if start > end:
                break
            end = max(end, start + seg.length)
        # A FIN takes a number, too, and may not have been captured.
        return (not self._anchored or offset >= 0) and offset <= end + 1

    def was_before(self, seq: int) -> bool:
        """Whether the connection before, on the same addresses and ports, had octets at this number, or ended there."""
        before = self.before
        return before is not None and (seq - before.next) & SEQ_MASK <= (before.highest - before.next) & SEQ_MASK

    def was_first(self, syn: Segment) -> bool:
        """Whether a SYN is that of the connection before."""
        return self.before is not None and (syn.seq + 1) & SEQ_MASK == self.before.next

    def is_near(self, seg: Segment) -> bool:
        """Whether a segment lies no farther than a window from what was captured."""
        return self._origin < 0 or abs(self._offset_of(seg.seq) - self._next) <= MAX_WINDOW

    def may_begin_at(self, origin: int) -> bool:
        """Whether a SYN whose first octet has this number may be that of what was captured."""
        return self._origin < 0 or -_MOST_BEFORE <= self._offset_of(origin) <= 0

    def is_behind(self, seg: Segment, fin: int) -> bool:
        """Whether a segment with octets, or with a FIN, ends behind the number of a FIN."""
        offset = self._offset_of(seg.seq)
        return (
            bool(seg.length or seg.flags & FIN) and offset + seg.length >= self._offset_of(fin) >= offset - MAX_WINDOW
        )

    def distance(self, seg: Segment) -> str:
        """How far outside the window a segment lies, in words."""
        if self._origin < 0:
            return "outside the window"
        start = self._offset_of(seg.seq)
        if self._anchored and start < -1:
            return f"{-start} octets before the first octet of the connection"
        if start < self._next:
            return f"{self._next - start} octets before the next octet in order"
        return f"{start - self._next} octets after the next octet in order, outside the window"

    # --- what waits ---

    def _wait(self, start: int, end: int, seg: Segment) -> bool:
        """Have a segment wait; False if no more may."""
        if len(self.waiting) >= _MOST_WAITING:
            return False
        goes_on = self._next == self._next_then and 0 <= start - self._last <= _NOT_FAR
        self._in_row = self._in_row + 1 if self._in_row and goes_on else 1
        self._last, self._next_then = end, self._next
        insort(self.waiting, (start, seg.frame, small_copy(seg, {})), key=_place)
        self._then[seg.frame] = self._half.peer.ack
        self._weight += seg.end - seg.start + _WEIGHT
        return True

    def acknowledged_then(self, seg: Segment) -> int | None:
        """What the peer had acknowledged when a segment came that had to wait: -1 for nothing, None if it did not."""
        return self._then.pop(seg.frame, None)

    def take_joined(self) -> Iterator[tuple[Segment, Acceptance]]:
        """Yield those that wait no longer, and what becomes of them.

        Their receiver acknowledges them, or so many came in a row that its acknowledgements must lack.  Where others
        brought their octets they were outside, though a window that opened later would have room for them.
        """
        if self._in_row >= IN_A_ROW:
            self._believe()
        self._limit()  # which also finds out whether acknowledgements lack
        at, before = 0, self._next
        while at < len(self.waiting):
            start, _, seg = self.waiting[at]
            if start > max(self._next, self._acknowledged()) and not self._lacks_acks:
                return
            found = self._judge_waiting(start, start + seg.length, seg, before)
            if found is Acceptance.WAITS:
                at += 1
                continue
            self.waiting.pop(at)
            self._weight -= seg.end - seg.start + _WEIGHT
            if found is Acceptance.TAKEN:
                self._count(start, start + seg.length)
            yield seg, found

    def _judge_waiting(self, start: int, end: int, seg: Segment, before: int) -> Acceptance:
        # Others brought those up to `before`; of those that waited, too, each may be the one that was taken.
        if end <= before and (end > start or start < before):
            return Acceptance.OUTSIDE
        if end > start and self._half.peer.has(seg.seq, (seg.seq + seg.length) & SEQ_MASK):
            return Acceptance.TAKEN
        found = self._judge(start, end, bool(seg.flags & FIN))
        is_let_in = found is Acceptance.TAKEN and (self._lacks_acks or end == start)
        return found if is_let_in or found is Acceptance.AFTER_FIN else Acceptance.WAITS

    def shows_lack(self, seg: Segment) -> bool:
        """Whether a segment, the next in order, shows that what waits may have been offered room: others were, too.

        More than one octet beyond what was offered is no probe of a window that is closed (RFC 9293 §3.8.6.1).
        """
        edge = self._half.peer.edge
        if not self.waiting or edge < 0 or seg.length < 2 or seg.seq != self.next_seq:
            return False
        self._hear_echo(seg)
        self._lacks_acks |= self._next + seg.length > self._offset_of(edge)
        return self._lacks_acks

    def _hear_echo(self, seg: Segment) -> None:
        """A segment that was taken echoes a timestamp, while others wait."""
        stamps = timestamps_of(seg)
        if stamps is not None and (self._echo < 0 or seq_diff(stamps[1], self._echo) > 0):
            self._echo = stamps[1]

    def _believe(self) -> None:
        """What waits is the connection's: its receiver's acknowledgements were not captured."""
        self._lacks_acks, self._in_row = True, 0
        if self.waiting:
            self._highest = max(self._highest, self.waiting[0][0])

    def end(self, theirs: Segments) -> None:
        """Nothing more comes: what went on beyond the window last, all of it in a row, is the connection's.

        So is what came beyond it where timestamps were echoed that no segment of the other direction, ``theirs``, had:
        the capture lacks some of what the receiver said.
        """
        is_row = len(self.waiting) == self._in_row >= _IN_A_ROW_AT_END and self._half.fin is None
        stamps = theirs._stamps
        if stamps is not None and theirs._half.stamp >= 0:
            stamps.see(theirs._half.stamp)
        is_lacking = stamps is not None and self._echo >= 0 and stamps.is_beyond(self._echo)
        if is_row or is_lacking or self._half.peer.ack < 0:
            self._believe()

    def give_up(self) -> list[tuple[Segment, Acceptance]]:
        """Nothing more comes: those that are left were outside, or old."""
        left = [(seg, Acceptance.OUTSIDE) for _, _, seg in self.waiting]
        is_heard = self._half.peer.ack > 0
        for seg, reason in self.doubtful:
            # Nothing else brought its octets, and nobody says whether they were taken.
            is_believed = reason is Acceptance.DAMAGED and not is_heard
            left.append((seg, Acceptance.TAKEN if is_believed else reason))
        self.waiting, self.doubtful, self._weight = [], [], 0
        return left


class AckNumbers:
    """The acknowledgement numbers of one direction: which of them its peer believes (RFC 5961 §5).

    Args:
        half: the direction.
        segments: its segments, and those of its peer, which it acknowledges.
    """

    __slots__ = ("_doubtful", "_half", "_mine", "_taken_back", "_theirs")

    def __init__(self, half: Half, mine: Segments, theirs: Segments) -> None:
        self._half = half
        self._mine = mine
        self._theirs = theirs
        #: Segments that acknowledge what was not sent as far as is known, without their octets.
        self._doubtful: list[Segment] = []
        #: Those behind which its sender acknowledged less.
        self._taken_back: list[Segment] = []

    def judge(self, seg: Segment) -> Acceptance:
        """What becomes of the acknowledgement number of a segment, whose own number may be outside the window.

        It waits if it has to be compared with what its peer sent: :meth:`compare` does that.
        """
        if not self._mine.may_come_next(seg.seq):
            return Acceptance.OUTSIDE
        return Acceptance.TAKEN if self._theirs.was_sent(seg.ack) else Acceptance.WAITS

    @property
    def is_doubtful(self) -> bool:
        """Whether a number is in doubt."""
        return bool(self._doubtful)

    def is_doubted_before(self, seg: Segment) -> bool:
        """Whether a number is in doubt that came before a segment."""
        return bool(self._doubtful) and self._doubtful[0].frame < seg.frame

    def compare(self, seg: Segment) -> Acceptance:
        """What becomes of a number above all that is known of, now that all is: it waits until it is said again."""
        if self._theirs.was_sent(seg.ack):
            return Acceptance.TAKEN
        doubtful = self._doubtful
        doubtful.append(bare(seg))
        last = doubtful[-_SAID_AGAIN:]
        goes_on = all((two.ack - one.ack) & SEQ_MASK <= MAX_WINDOW for one, two in pairwise(last))
        if len(last) == _SAID_AGAIN and goes_on:
            doubtful.clear()
            return Acceptance.TAKEN
        if len(doubtful) > _MOST_DOUBTFUL:
            del doubtful[0]
        return Acceptance.WAITS

    def _is_news(self, seg: Segment) -> bool:
        """Whether nothing as high was acknowledged since."""
        return self._half.ack <= 0 or seq_diff(seg.ack, self._half.ack) > 0

    def settle(self, is_last: bool) -> Iterator[tuple[Segment, Acceptance]]:
        """Yield those that were doubtful, and what they are: a lower number came later, or nothing (``is_last``)."""
        half, was_sent = self._half, self._theirs.was_sent
        doubtful = [seg for seg in self._doubtful if self._is_news(seg)]
        self._doubtful = []
        for seg in doubtful:
            # The octets may have been lost by the capture, unless its sender did not offer to take them.
            is_offered = half.edge < 0 or (seg.ack - half.ack) & SEQ_MASK <= (half.edge - half.ack) & SEQ_MASK
            if was_sent(seg.ack) or (is_last and is_offered):
                yield seg, Acceptance.TAKEN
            elif len(self._taken_back) < _MOST_DOUBTFUL:
                self._taken_back.append(seg)
        if is_last:
            # Octets may be captured behind what acknowledges them.
            # Nor is it remarkable beside octets: an acknowledgement without any was made up for its own sake.
            never = [seg for seg in self._taken_back if not (seg.length or was_sent(seg.ack)) and self._is_news(seg)]
            self._taken_back = []
            yield from ((seg, Acceptance.WAITS) for seg in never)


def why_left_out(segments: Segments, half: Half, seg: Segment, acceptance: Acceptance) -> tuple[str, str]:
    """The rule, and the sentence, for a segment that its receiver does not take."""
    if acceptance is Acceptance.OLD and not segments.is_damaged(seg):
        return "old-timestamp", f"timestamp {timestamp_of(seg)} is older than that of octets accepted before"
    if acceptance in (Acceptance.OLD, Acceptance.DAMAGED):
        return "tcp-checksum", "TCP checksum wrong: assumed to be dropped by the receiver"
    if seg.flags & RST:
        return "attack-reset", f"a RST, {segments.distance(seg)}: the connection goes on"
    if not seg.flags & (ACK_FLAG | SYN):
        return "outside-window", f"{seg.length} octets in a segment without ACK"
    if seg.flags & SYN:
        return "attack-syn", f"a SYN that acknowledges {seg.ack}, which was never sent"
    if half.fin is not None and half.fin[1] < seg.frame and segments.is_behind(seg, half.fin[0]):
        octets = f"{seg.length} octets" if seg.length else "another FIN"
        return "outside-window", f"{octets} after the FIN of frame {half.fin[1]}, which ends the half connection"
    if acceptance is Acceptance.WAITS and not seg.length:
        return "outside-window", f"acknowledges {seg.ack}, which was never sent"
    what = f"{seg.length} octets" if seg.length else "a FIN" if seg.flags & FIN else "an acknowledgement"
    key = bytes(seg.buffer[seg.start : min(seg.end, seg.start + KEY_LENGTH)])
    if key in (REQUEST_KEY, REPLY_KEY):
        what = "a startup frame"
    detail = f"{what}, {segments.distance(seg)}"
    if segments.was_before(seg.seq):
        return "late-duplicate", f"{detail}, where the previous connection on these ports had its octets"
    return ("late-duplicate" if what == "a startup frame" else "outside-window"), detail


def _place(one: tuple[int, int, Segment]) -> tuple[int, int]:
    return one[0], one[1]
