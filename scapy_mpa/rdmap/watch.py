"""What both directions of a connection do with named memory, as an analysis reads them (RFC 5040 §5.5, RFC 5041 §7.1).

In: FPDUs and runs of plain ones, each direction in stream order.  Out: breaches of who writes or reads.  Untagged
messages are reassembled by :class:`~scapy_mpa.rdmap.assembly.Assembly`; of an RDMA Write nothing but place and length
is needed, so its segments are only counted.  Where an RDMA Read Response goes is judged by what it answers
(:mod:`scapy_mpa.watches.outstanding`).  Where no upper layer is known the watch is over before the first tagged
message, and takes nothing any more; mostly the first Send shows it, before anything was made to put messages together.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final

from scapy_mpa.framing.ddp import (
    LAST,
    SEND_OPCODES,
    TAGGED,
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
)
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.rdmap.assembly import Assembly, ConnectionMessages, DDPSegment, MessageHalf
from scapy_mpa.rdmap.memory import UNKNOWN, MemoryAccess, MemoryFinding
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.values import Breach, LocatedFPDU
from scapy_mpa.rules.findings import Quota
from scapy_mpa.stream.connection import Arrival
from scapy_mpa.ulp.identify import LOOKED_AT, UpperLayer, names_nothing
from scapy_mpa.values.octets import place
from scapy_mpa.values.records import BAD
from scapy_mpa.watches.ddp import ulpdu_of

#: STags of each direction that are remembered, and of all connections of an analysis together: a bound of memory.
MOST_STAGS: Final = 1 << 10
MOST_OF_ALL: Final = 1 << 14
#: Segments of each direction whose acknowledgement numbers are remembered: a bound of memory.
MOST_ACKS: Final = 1 << 12
#: Segments before the first FPDU of which that is remembered until it is known that there is anything to watch: a bound
#: of memory, and more than come before it in order.
_MOST_EARLY: Final = 64
#: Octets of the untagged messages of a connection that wait for their last segment: a bound of memory.
_MOST_HELD: Final = 1 << 16
#: Octets of a ULPDU that are inspected: DDP's longer header, and what upper layers' headers hold.
_INSPECTED: Final = 18 + LOOKED_AT
_WRITE, _READ_RESPONSE = 0, 2
_ULPDU_LENGTH: Final = 0xFFFF
_OPCODE: Final = 0x0F


class _Sender:
    """One direction: its messages, and the RDMA Write whose last segment has not arrived.

    Attributes:
        half: its messages, and the memory that it named.
        is_open: there is such a message.
        stag: of it; ``to`` is that of its first octet, ``length`` its octets so far.
        judged: of these, those whose use was judged.
        frames: of its last segments, ascending; ``acks`` has the acknowledgement number of each.
        breaches: what it did wrong, and nobody has taken yet.
    """

    __slots__ = (
        "acks", "breaches", "first_frame", "frame", "frames", "half", "is_open", "judged", "length", "offset",
        "placed", "stag", "time", "to",
    )  # fmt: skip

    def __init__(self, half: MessageHalf) -> None:
        self.half = half
        self.is_open = False
        self.stag = self.to = self.length = self.judged = 0
        self.offset = self.first_frame = self.frame = self.placed = self.time = 0
        self.breaches: list[Breach] = []
        self.frames, self.acks = array("q"), array("q")

    def acknowledged_by(self, frame: int) -> int | None:
        """Return the acknowledgement number of a frame, None if it is not known."""
        index = bisect_left(self.frames, frame)
        return self.acks[index] if index < len(self.frames) and self.frames[index] == frame else None

    def access(self, first: int) -> MemoryAccess:
        """Return the octets of the open message from one of them on."""
        where = self.stag, (self.to + first) & 0xFFFFFFFFFFFFFFFF, self.length - first
        return MemoryAccess(_WRITE, *where, self.first_frame, self.frame, self.placed, self.offset, self.time)


class MemoryWatch:
    """Named memory of one connection.

    Args:
        request: its MPA Request, None if that was not captured.
        reply: its MPA Reply, None if that was not captured.
        responder_port: of TCP.
        room: how many STags may be remembered by all who share it.
        offset_of: returns the stream offset of an acknowledgement number of a direction, near another offset.

    Attributes:
        is_over: nothing more can be found.
    """

    __slots__ = (
        "_assembly", "_early", "_is_begun", "_is_confirmed", "_offset_of", "_room", "_senders", "_startup", "_upper",
        "is_over",
    )  # fmt: skip

    def __init__(
        self,
        request: StartupFrame | None,
        reply: StartupFrame | None,
        responder_port: int,
        room: Quota,
        offset_of: Callable[[int, int, int], int],
    ) -> None:
        self._startup = request, reply, responder_port
        self._room = room
        self._offset_of = offset_of
        #: The segments before :meth:`_begin`: direction, frame and acknowledgement number.
        self._early: list[tuple[int, int, int]] = []
        self._senders: tuple[_Sender, ...] = ()
        self._is_begun = self._is_confirmed = self.is_over = False

    def _begin(self) -> None:
        """Put messages together from here on."""
        self._is_begun = True
        connection = ConnectionMessages(0, *self._startup, (None, None))
        self._upper = connection.upper
        self._assembly = Assembly(None, None, _MOST_HELD, self._acknowledged)
        self._senders = _Sender(connection.halves[0]), _Sender(connection.halves[1])
        for sender in self._senders:
            memories = sender.half.peer.memories
            memories.most, memories.room = MOST_STAGS, self._room
            memories.report = _Reporting(sender.breaches)
        early, self._early = self._early, []
        for side, frame, ack in early:
            self.acknowledged(side, frame, ack)

    def _has_nothing(self, side: int, first: bytes, length: int) -> bool:
        """Return True if an FPDU of ``length`` octets, before which none was taken, ends the watch.

        ``first`` are the first octets of its ULPDU.
        """
        if length >= TAGGED_HEADER_LENGTH <= len(first) and first[0] & TAGGED:
            return not UpperLayer(*self._startup).is_possible
        is_complete = length > UNTAGGED_HEADER_LENGTH and len(first) == min(length, _INSPECTED) and first[0] & LAST
        if not is_complete or first[1] & _OPCODE not in SEND_OPCODES:
            return False
        if any(first[UNTAGGED_HEADER_LENGTH - 4 : UNTAGGED_HEADER_LENGTH]):  # MO
            return False
        return names_nothing(*self._startup, first[UNTAGGED_HEADER_LENGTH:], length - UNTAGGED_HEADER_LENGTH, not side)

    def arrived(self, side: int, arrivals: Iterable[Arrival]) -> None:
        """Note segments of a direction, in the order of capture."""
        for one in arrivals:
            if one.end > 0 and one.ack is not None:
                self.acknowledged(side, one.frame, one.ack)

    def acknowledged(self, side: int, frame: int, ack: int) -> None:
        """Note what a segment of a direction, with octets, acknowledges."""
        if not self._is_begun:
            self._early.append((side, frame, ack))
            if len(self._early) >= _MOST_EARLY:
                self._begin()
            return
        sender = self._senders[side]
        sender.frames.append(frame)
        sender.acks.append(ack)
        if len(sender.frames) > 2 * MOST_ACKS:
            del sender.frames[:MOST_ACKS], sender.acks[:MOST_ACKS]

    def _acknowledged(self, half: MessageHalf, frame: int) -> int:
        """Return the stream offset up to which a direction's sender had received its peer's octets by a frame."""
        ack = self._senders[half.half].acknowledged_by(frame)
        return UNKNOWN if ack is None else self._offset_of(half.peer.half, ack, half.peer.taken)

    def passed(self, side: int, fpdu: LocatedFPDU, ulpdu: bytes | None = None) -> None:
        """Take the next FPDU of a direction in stream order; ``ulpdu`` are first octets of its ULPDU, if available."""
        if fpdu.crc == BAD or fpdu.is_damaged:
            return
        if not self._is_begun:
            if self._has_nothing(side, ulpdu_of(fpdu, _INSPECTED), fpdu.ulpdu_length):
                self.end()
                return
            self._begin()
        sender = self._senders[side]
        ulpdu, length = ulpdu_of(fpdu) if ulpdu is None else ulpdu, fpdu.ulpdu_length
        frames, moment = fpdu.frames, fpdu.known
        first = ulpdu[0] if len(ulpdu) else 0
        if length >= TAGGED_HEADER_LENGTH <= len(ulpdu) and first & TAGGED:
            if self._is_unknown():
                self.end()
                return
            self._advance(sender, fpdu.offset, fpdu.end)
            opcode = fpdu.opcode
            if opcode == _WRITE:
                stag, to = place(ulpdu, 2)
                octets = length - TAGGED_HEADER_LENGTH
                self._take(sender, stag, to, octets, frames[0], frames[-1], moment[0], moment[1], fpdu.offset)
                if first & LAST:
                    self._judge(sender)
                    sender.is_open = False
            elif opcode == _READ_RESPONSE and first & LAST:
                # It shows that what was written before the Request was placed (RFC 5040 §5.5, rule 12).
                sender.half.memories.epoch += 1
            return
        self._judge(sender)
        is_cut = len(fpdu.octets) < fpdu.end - fpdu.offset
        times = moment[0], 0, moment[1], moment[1], False, is_cut
        first_octets = ulpdu_of(fpdu, _INSPECTED)
        self._assembly.take(
            sender.half, DDPSegment(first_octets, length, frames[0], frames[-1], *times, fpdu.offset, fpdu.end)
        )
        is_complete = length > UNTAGGED_HEADER_LENGTH and first & LAST
        if is_complete and fpdu.opcode in SEND_OPCODES and self._is_unknown():
            self.end()

    def passed_run(self, side: int, run: PlainRun) -> None:
        """Take RDMA Writes that show nothing remarkable."""
        if not self._is_begun:
            self._begin()
        if self._is_unknown():
            self.end()
            return
        sender = self._senders[side]
        headers, fpdus, firsts, starts = run.headers, run.fpdus, run.firsts, run.starts
        self._advance(sender, run.offset, run.end)
        number, at, is_mixed = -1, 0, len(run.began) > 0
        for index in range(len(fpdus)):
            if number + 1 < len(firsts) and firsts[number + 1] == index:
                number += 1
                first = last = frame = run.frames[number]
                time = run.times[number]
                if is_mixed:
                    first, last = run.began[number], run.ended[number]
            stag, to = place(headers, at + 2)
            length = (fpdus[index] & _ULPDU_LENGTH) - TAGGED_HEADER_LENGTH
            self._take(sender, stag, to, length, first, last, frame, time, starts[index])
            if headers[at] & LAST:
                self._judge(sender)
                sender.is_open = False
            at += TAGGED_HEADER_LENGTH

    def finish(self) -> None:
        """Finish: nothing more follows."""
        if not self.is_over:
            for sender in self._senders:
                self._judge(sender)
            self.end()

    def end(self) -> None:
        """Forget everything: nothing more can be found."""
        if self.is_over:
            return
        self.is_over = True
        for sender in self._senders:
            sender.half.memories.drop_all()
            sender.half.let_go()
        if self._is_begun:
            self._assembly.let_go()

    def has_news(self) -> bool:
        """Return True if there are breaches to take, or nothing more can be found."""
        if self.is_over or not self._is_begun:
            return self.is_over
        first, second = self._senders
        return bool(first.breaches or second.breaches)

    def take_breaches(self, side: int) -> list[Breach]:
        """Return what a direction did wrong since the last time."""
        found = self._senders[side].breaches if self._senders else []
        if not found:
            return found
        breaches = found[:]
        found.clear()
        return breaches

    def _is_unknown(self) -> bool:
        """Return True if nothing names an upper layer."""
        self._is_confirmed = self._is_confirmed or self._upper.is_confirmed
        return not (self._is_confirmed or self._upper.is_possible)

    def _advance(self, sender: _Sender, offset: int, end: int) -> None:
        """The next segments of a direction are from one stream offset to another."""
        if offset != sender.half.taken:
            self._judge(sender)
            sender.is_open = False
        self._assembly.advance(sender.half, offset, end)

    def _take(
        self, sender: _Sender, stag: int, to: int, length: int, first_frame: int, frame: int, placed: int, time: int,
        offset: int,
    ) -> None:  # fmt: skip
        """Take the next segment of an RDMA Write."""
        if sender.is_open:
            if stag == sender.stag and to == sender.to + sender.length & 0xFFFFFFFFFFFFFFFF:
                sender.length += length
                if frame >= sender.frame:
                    sender.frame, sender.time = frame, time
                if placed > sender.placed:
                    sender.placed = placed
                return
            self._judge(sender)
        sender.is_open, sender.judged = True, 0
        sender.stag, sender.to, sender.length = stag, to, length
        sender.first_frame, sender.frame, sender.placed, sender.time = first_frame, frame, placed, time
        sender.offset = offset

    def _judge(self, sender: _Sender) -> None:
        """Judge as much of the open message as came."""
        if sender.is_open and (sender.judged < sender.length or not sender.length):
            first, end = sender.to + sender.judged, sender.to + sender.length
            is_known = not sender.judged and first < end and self._upper.is_confirmed
            if is_known and sender.half.peer.memories.goes_on(sender.stag, first, end, sender.placed):
                sender.judged = sender.length
                return
            access = sender.access(sender.judged)
            sender.judged = sender.length
            self._assembly.use(sender.half, access)


class _Reporting:
    """Makes breaches of findings."""

    __slots__ = ("_breaches",)

    def __init__(self, breaches: list[Breach]) -> None:
        self._breaches = breaches

    def __call__(self, found: MemoryFinding) -> None:
        """An access breaks a rule."""
        self._breaches.append(Breach(found.rule, found.offset, found.frame, found.time, found.detail))
