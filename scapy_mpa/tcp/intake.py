"""What comes in one direction, and what of it goes on to the octets (RFC 9293 §3.10.7.4).

Segments in order, none of which shows anything remarkable, take a short way; all others are judged by
:class:`~scapy_mpa.tcp.acceptance.Segments` and :class:`~scapy_mpa.tcp.acceptance.AckNumbers`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.tcp.acceptance import Acceptance, AckNumbers, Range, Segments
from scapy_mpa.tcp.half import MAX_WINDOW, Half
from scapy_mpa.values.segment import ACK_FLAG, FIN, SYN, Segment, detached, small_copy


class NextInOrder(Protocol):
    """Who takes the next segment in order."""

    @property
    def next_seq(self) -> int:
        """Its sequence number, -1 if something is out of order."""


class OctetsPhase(Protocol):
    """Who takes the octets of a direction."""

    def receive(self, seg: Segment) -> None:
        """Take a segment with octets that TCP takes, whatever its place."""


class OctetsInOperation(Protocol):
    """Who takes the octets of a direction in Full Operation."""

    @property
    def in_order(self) -> NextInOrder:
        """Who takes the next segment in order."""

    @property
    def crc(self) -> bool:
        """Whether a CRC tells which octets came undamaged."""

    @property
    def extent(self) -> Range:
        """Up to where octets were captured."""

    @property
    def may_have_dropped(self) -> bool:
        """Whether the receiver may have dropped a segment that TCP takes, without a word."""

    @property
    def last_in_order(self) -> Segment | None:
        """The last segment that came in order, None if none is at hand."""

    def take(self, seg: Segment) -> None:
        """Take any segment with octets, asking whether TCP takes it if it is not the next one."""

    def is_before(self, seg: Segment) -> bool:
        """Whether a segment has octets of the Startup Phase."""

    def repeats(self, seg: Segment) -> bool:
        """Whether a segment brings nothing but octets that were captured before."""

    def drop_damaged(self) -> bool:
        """Drop octets of an FPDU that is not complete, and whose TCP checksum is wrong; False if there are none."""


class IntakeOwner(Protocol):
    """The TCP connection, as far as a direction asks it and tells it."""

    def begins_anew(self, intake: Intake, seg: Segment) -> bool:
        """Whether a segment begins another connection on the same addresses and ports; then it was dealt with."""

    def leave_out(self, intake: Intake, seg: Segment, acceptance: Acceptance) -> None:
        """A segment that its receiver does not take belongs to nobody."""

    def repeat_startup(self, half: Half, seg: Segment) -> None:
        """Octets of the Startup Phase come once more, or others in their place."""

    def find(self, rule: str, seg: Segment, detail: str, half: Half | None = None) -> None:
        """Report something about a direction."""


class Intake:
    """The segments of one direction, and what becomes of each.

    Args:
        half: the direction.
        connection: the TCP connection.
        weigh: called when more, or less, is held back.
        before: what the connection before on the same addresses and ports sent.

    Attributes:
        half: the direction.
        peer: the other direction.
        segments: which segments its receiver takes.
        take: takes a segment with octets, as it was captured.
        first_syn: the SYN of this connection, None if it was not captured, or in Full Operation.
        syn: a SYN for another connection, which nobody has confirmed yet: anyone could have sent it.
        is_reset_in_doubt: whether a RST came in the window, and not at its beginning.
    """

    __slots__ = (
        "_acks",
        "_connection",
        "_operation",
        "_phase",
        "_refuted",
        "_weigh",
        "first_syn",
        "half",
        "is_reset_in_doubt",
        "peer",
        "segments",
        "syn",
        "take",
    )

    peer: Intake
    take: Callable[[Segment], None]
    _acks: AckNumbers
    _phase: OctetsPhase

    def __init__(self, half: Half, connection: IntakeOwner, weigh: Callable[[], None], before: Range | None) -> None:
        self.half = half
        self.segments = Segments(half, before)
        self.syn: Segment | None = None
        self.first_syn: Segment | None = None
        self.is_reset_in_doubt = False
        #: The last FIN that was reported as none.
        self._refuted: tuple[int, int, int] | None = None
        self._connection = connection
        self._operation: OctetsInOperation | None = None
        self._weigh = weigh

    def meet(self, peer: Intake) -> None:
        """Learn what the other direction is."""
        self.peer = peer
        self._acks = AckNumbers(self.half, self.segments, peer.segments)

    def enter(self, phase: OctetsPhase, operation: OctetsInOperation | None) -> None:
        """Another phase takes the octets; in Full Operation it is an operation."""
        self._phase, self._operation = phase, operation
        if operation is not None:
            self.first_syn = None  # no other replaces it any more
        self._choose_take()

    def _choose_take(self) -> None:
        """Look no closer at segments in order than is needed."""
        operation = self._operation
        if operation is None:
            self.take = self._judge_and_take
        elif (
            self.segments.looks_at_timestamps
            or self.segments.waiting
            or self._acks.is_doubtful
            or self._checks(operation)
        ):
            self.take = self._look_and_take
        else:
            self.take = operation.take

    def _checks(self, operation: OctetsInOperation) -> bool:
        """Whether TCP checksums are all that tells which segments came undamaged."""
        return self.segments.checks_all and not operation.crc

    def take_apart(self, has_mpa: bool) -> None:
        """Nothing more comes: no circle of references is left that would have to be looked for.

        With MPA, somebody still asks each half for its peer.
        """
        for name in ("take", "peer", "_weigh"):
            delattr(self, name)
        if not has_mpa:
            self.half.leave()

    @property
    def awaits_startup(self) -> bool:
        """Whether it is not in Full Operation."""
        return self._operation is None

    @property
    def weight(self) -> int:
        """Octets of memory that what waits takes."""
        return self.segments.weight

    def look(self) -> None:
        """Learn how far the octets are that were captured, and what was said beside the last of them."""
        operation = self._operation
        if operation is not None:
            self.segments.see(operation.extent)
            last = operation.last_in_order
            if last is not None:
                self.half.hear(last)
        said = self.half.read_last()
        if said is not None:
            self.segments.pass_stamp(said)

    # --- SYN ---

    def synchronize(self, syn: Segment) -> None:
        """The SYN of this connection: a RST before it answered an earlier attempt."""
        self.first_syn = small_copy(syn, {})
        self.half.ending.take_back_resets()
        self.half.peer.ending.take_back_resets()
        self.half.announce(syn)
        self.segments.synchronize(syn)
        if syn.flags & ACK_FLAG:
            self.half.acknowledge(syn.ack)
            self.half.advertise(syn)

    def see_foreign_syn(self, seg: Segment) -> None:
        """A SYN may begin another connection."""
        self.syn = detached(seg)

    def is_damaged(self, seg: Segment) -> bool:
        """Whether a SYN or RST came damaged, so that it was dropped; then it was reported."""
        if not self.segments.is_damaged(seg):
            return False
        self._connection.leave_out(self, seg, Acceptance.DAMAGED)
        return True

    # --- acknowledgements ---

    def acknowledge(self, seg: Segment) -> bool:
        """A segment acknowledges octets, or has none of its own; True if it began another connection instead."""
        half, operation, theirs = self.half, self._operation, self.peer._operation
        if operation is not None and theirs is not None and seg.seq == operation.in_order.next_seq:
            sent = theirs.in_order.next_seq
            # All of it was captured before: nobody made that number up.
            if sent >= 0 and (sent - seg.ack) & SEQ_MASK <= MAX_WINDOW and not self.is_reset_in_doubt:
                half.acknowledge(seg.ack)
                if not seg.length:
                    half.keep_last(seg)
                return False
        # 0 says nothing: it stands where a tool made the packets.
        found = self._judge_ack(seg) if seg.ack else Acceptance.TAKEN
        if found is Acceptance.TAKEN:
            half.acknowledge(seg.ack)
            half.advertise(seg)
            if not seg.length:
                self.segments.pass_stamp(seg)
                if self.is_reset_in_doubt:
                    self._go_on(seg)
        elif self._connection.begins_anew(self, seg):
            return True
        elif found is Acceptance.WAITS:
            self._choose_take()
        elif not seg.length and not seg.flags & FIN:  # a FIN is judged by itself, and may wait
            self._connection.leave_out(self, seg, found)
        return False

    def _judge_ack(self, seg: Segment) -> Acceptance:
        self.look()
        found = self._acks.judge(seg)
        if found is not Acceptance.WAITS:
            return found
        self.peer.look()
        return self._acks.compare(seg)

    def _settle_acks(self, is_last: bool) -> None:
        """What it acknowledged and nobody knows of was lost by the capture, or never sent."""
        self.peer.look()
        for seg, found in self._acks.settle(is_last):
            if found is Acceptance.TAKEN:
                self.half.acknowledge(seg.ack)
            else:
                self._connection.leave_out(self, seg, found)

    # --- segments with octets ---

    def _judge_and_take(self, seg: Segment) -> None:
        """Take a segment before Full Operation."""
        segments = self.segments
        if not self._passes_timestamp(seg):
            return
        is_next = seg.seq == segments.next_seq and self.half.fin is None and not segments.waiting
        if is_next and not (segments.is_beginning and segments.is_damaged(seg)):
            segments.pass_in_order(seg.length)
            self.half.hear(seg)
            self._phase.receive(seg)
        elif not self.refuses(seg):
            self._phase.receive(seg)

    def _look_and_take(self, seg: Segment) -> None:
        """Take a segment in Full Operation whose timestamp, checksum or acknowledgement may tell something."""
        operation = self._operation
        assert operation is not None
        checks = self._checks(operation)
        if self.half.has_unread:
            self.look()  # its receiver has that timestamp, and takes none that is older
        is_usual = seg.seq == operation.in_order.next_seq and not checks and not self._acks.is_doubtful
        if is_usual and not self.segments.waiting and self.segments.goes_on(seg):
            operation.take(seg)
            return
        self.look()
        if not self._passes_timestamp(seg):
            return
        if self.segments.waiting:
            self.peer.look()
        if self.segments.shows_lack(seg):
            self._receive_all(self.segments.take_joined())
            self._choose_take()
        if self._acks.is_doubted_before(seg) and seg.seq == self.segments.next_seq:
            self._settle_acks(is_last=False)
            self._choose_take()
        if not checks:
            operation.take(seg)
        elif self.segments.check(seg) is Acceptance.TAKEN:
            if self.segments.doubtful:
                self._receive_all(self.segments.take_doubtful())
            operation.take(seg)
        if operation.may_have_dropped:
            self.segments.doubt_order()

    def _passes_timestamp(self, seg: Segment) -> bool:
        """Whether a segment is to be taken, by its timestamp; if not, it was dealt with."""
        segments = self.segments
        if self.peer.half.has_unread:
            self.peer.look()  # what it echoes
        found = segments.stamp(seg)
        if segments.doubtful:
            self.look()
            self._receive_all(segments.take_doubtful())
        if found is Acceptance.OLD:
            self._receive_all(((seg, found),))
        return found is Acceptance.TAKEN

    def refuses(self, seg: Segment) -> bool:
        """Whether a segment that is not the next one is not to be taken now; then it was dealt with."""
        operation, theirs = self._operation, self.peer.half
        if (theirs.ack - seg.seq) & SEQ_MASK < seg.length and self._has_captured(theirs.ack):
            self.half.ending.see_again(seg, theirs.ack)
        if operation is not None and not self._is_remarkable and theirs.ack > 0 and theirs.edge >= 0:
            low = theirs.ack
            # Well within what its receiver offered, and not acknowledged.
            is_within = (seg.seq - low) & SEQ_MASK < (theirs.edge - low) & SEQ_MASK
            if is_within and not self._checks(operation) and not operation.is_before(seg):
                return False
        if self._connection.begins_anew(self, seg):
            return True
        if self.is_reset_in_doubt:
            self._go_on(seg)
        # RFC 9293 §3.10.7.4: a segment without ACK is dropped.
        found = self._judge(seg) if seg.flags & (ACK_FLAG | SYN) else Acceptance.OUTSIDE
        fin = self.segments.refuted_fin
        if fin is not None and self.half.fin is None and fin != self._refuted:
            self._refuted = fin
            detail = f"a FIN in frame {fin[1]}, after which its sender continues"
            self._connection.find("outside-window", seg, detail, self.half)
        if found is Acceptance.WAITS:
            self._weigh()
            self._choose_take()
        elif found is not Acceptance.TAKEN:
            self._connection.leave_out(self, seg, found)
        else:
            self.half.hear(seg)
            if operation is not None and operation.is_before(seg):
                self._connection.repeat_startup(self.half, seg)
        return found is not Acceptance.TAKEN

    def _has_captured(self, seq: int) -> bool:
        """Whether the octet with this number was captured, with all before it."""
        end = self.segments.next_seq if self._operation is None else self._operation.extent.next
        return end >= 0 and 0 < (end - seq) & SEQ_MASK <= MAX_WINDOW

    @property
    def _is_remarkable(self) -> bool:
        """Whether anything about the direction asks for a closer look at each of its segments."""
        half = self.half
        is_ending = half.fin is not None or half.rst is not None or half.peer.rst is not None
        return is_ending or self.syn is not None or self.peer.syn is not None or self.segments.is_remarkable

    def _judge(self, seg: Segment) -> Acceptance:
        segments = self.segments
        self.look()
        # What came in order was not looked at one by one: it may have opened the window.
        self.peer.look()
        if segments.waiting:
            self._receive_all(segments.take_joined())
        if segments.doubtful:
            self._receive_all(segments.take_doubtful())
        # Where a CRC tells what came damaged, the TCP checksum is looked at when that fails.
        is_checked = self._operation is None or not self._operation.crc or bool(seg.flags & FIN)
        found = segments.check(seg) if is_checked else Acceptance.TAKEN
        return segments.judge(seg) if found is Acceptance.TAKEN else found

    def _receive_all(self, segments: Iterable[tuple[Segment, Acceptance]]) -> None:
        """Take segments that had to wait, or leave them out."""
        for seg, found in segments:
            operation = self._operation
            then = self.segments.acknowledged_then(seg)
            is_dropped = found is not Acceptance.TAKEN and not seg.flags & FIN
            if is_dropped and operation is not None and operation.repeats(seg):
                self._phase.receive(seg)  # it changes nothing, and is no more remarkable than other repeats
            elif found is not Acceptance.TAKEN:
                self._connection.leave_out(self, seg, found)
            else:
                self.acknowledge(seg)
                if seg.flags & FIN:
                    self.half.finish(seg)
                if seg.length:
                    # What it waited for need not have been acknowledged when it came.
                    self.peer.half.look_back(then)
                    self._phase.receive(seg)
                    self.peer.half.look_back(None)
                self.look()

    # --- FIN and RST ---

    def may_close(self, seg: Segment) -> bool:
        """Whether a segment with a FIN came undamaged, and is not too old; if not, it waits or was dealt with."""
        self.look()
        self.peer.look()
        if not self._passes_timestamp(seg):
            return False
        found = self.segments.check(seg)
        if found is Acceptance.DAMAGED:
            self._connection.leave_out(self, seg, found)
        return found is Acceptance.TAKEN

    def close(self, seg: Segment) -> bool:
        """A FIN; False if its receiver does not take it (now)."""
        found = self._judge(seg)
        if found is Acceptance.OUTSIDE and self._drop_damaged():
            found = self._judge(seg)
        if found is Acceptance.TAKEN:
            self.half.finish(seg)
        elif found is not Acceptance.WAITS:
            self._connection.leave_out(self, seg, found)
        return found is Acceptance.TAKEN

    def take_state(self, seg: Segment) -> None:
        """A segment with a FIN, or with the SYN that was taken, and the octets that come with it."""
        flags = seg.flags
        if flags & FIN and not self.may_close(seg):
            return
        if flags & ACK_FLAG and not flags & SYN and self.acknowledge(seg):
            return
        if flags & FIN and not self.close(seg):
            return
        if seg.length:
            self.take(seg)

    def reset(self, seg: Segment) -> None:
        """A RST."""
        self.look()
        self.peer.look()
        found = self.segments.judge_rst(seg)
        if found is Acceptance.OUTSIDE:
            self._connection.leave_out(self, seg, found)
        elif self.half.rst is None or not self.is_reset_in_doubt or found is Acceptance.TAKEN:
            self.half.reset(seg)
            self.is_reset_in_doubt = found is Acceptance.WAITS
            if seg.flags & ACK_FLAG and self._judge_ack(seg) is Acceptance.TAKEN:
                self.half.acknowledge(seg.ack)

    def _go_on(self, seg: Segment) -> None:
        """Its sender goes on after a RST that was in the window, and nowhere else: it was none of its own."""
        assert self.half.rst is not None
        self.is_reset_in_doubt = False
        detail = f"a segment follows the RST of frame {self.half.rst[1]}, whose sequence number was not the next one"
        self.half.take_back_rst()
        self._connection.find("attack-reset", seg, detail, self.half)

    # --- the end ---

    def give_up(self) -> None:
        """Too much is held back in all: nothing waits any longer."""
        self._receive_all(self.segments.give_up())

    def finish_acknowledging(self) -> None:
        """Nothing more comes that could say what acknowledgements mean."""
        self.look()
        self._settle_acks(is_last=True)

    def finish(self) -> None:
        """Nothing more comes: what still waits was outside the window, or dropped."""
        segments = self.segments
        self._drop_damaged()
        self.look()
        if segments.waiting:
            self.peer.look()
            segments.end(self.peer.segments)
            self._receive_all(segments.take_joined())
        self._receive_all(segments.take_doubtful())
        self._receive_all(segments.give_up())

    def _drop_damaged(self) -> bool:
        """Drop octets that wait for the rest of an FPDU and came damaged, as their receiver did; False without any."""
        return self._operation is not None and self.segments.checks_all and self._operation.drop_damaged()
