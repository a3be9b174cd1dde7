"""The Startup Phase of one half connection: finding its MPA Request or Reply (RFC 5044 §7.1).

A startup frame may follow streaming data, may come in single octets in any order, and may share its last segment
with FPDUs.  So octets are put in order, searched for a Key, and let go of when they cannot belong to one
(:class:`~scapy_mpa.receive.keys.KeySearch`).  Once its frame is there, a half connection waits for the other's: until
both are known nothing behind them can be read.

A half connection that does not begin with streaming data may be in Full Operation already, because its startup
frames were not captured or because there are none: as long as that is not decided
(:class:`~scapy_mpa.receive.waiting.Decision`) its octets wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    KEY_PREFIX,
    REPLY_KEY,
    REQUEST_KEY,
    STARTUP_HEADER_LENGTH,
    startup_frame_problems,
)
from scapy_mpa.receive.context import ReceiverContext
from scapy_mpa.receive.keys import KeySearch, beginning_of_key, is_garbled_key
from scapy_mpa.receive.mpa import CapturedConnection, FoundFrame
from scapy_mpa.receive.reassembly import Reassembly, is_cut
from scapy_mpa.receive.waiting import Decision, Waiting, lay
from scapy_mpa.tcp.half import Half, Moment
from scapy_mpa.values.segment import Segment, checksum_is_wrong, detached, small_copy
from scapy_mpa.values.startup import PartOfFrame
from scapy_mpa.watch.conflicts import Conflict, conflict_of
from scapy_mpa.watch.startup import BehindRejection, find_other_copy
from scapy_mpa.watch.unfinished import part_of_frame

#: Octets of streaming data held back for a gap.
_MOST_STREAMING = 1024 * 1024
#: Octets that wait until it is decided whether they are FPDUs.
_MOST_AWAITING = 256 * 1024
#: So few segments may wait in vain.
_FEW = 32
#: Segments that may be received anew because what was made of others was wrong: so many for each that came, and more.
_ANEW, _ANEW_AT_FIRST = 16, 512
#: What each that is received anew takes of these: it does not count as one that came.
_COST = 1 + _ANEW


class StartupConnection(Protocol):
    """What a Startup Phase asks of the TCP connection it belongs to, and tells it."""

    #: The MPA connection on it, None if there is none as far as is known.
    mpa: CapturedConnection | None
    #: Whether the octets look a little like FPDUs, though no startup frame says so.
    is_promising: bool

    @property
    def lacks_beginning(self) -> bool:
        """Whether a startup frame may be what is missing behind a SYN that was captured, in either direction."""

    def see_data(self, half: Half) -> None:
        """A direction sends data."""

    def see_garbled_key(self, half: Half, seg: Segment, detail: str) -> None:
        """The first octets of a direction are nearly a Key."""

    def may_have_frame(self, half: Half) -> bool:
        """Whether the startup frame of a direction may be taken: the report may have no room for a connection more."""

    def find_frame(self, half: Half, found: FoundFrame) -> None:
        """A direction has found its startup frame."""

    def find(self, rule: str, seg: Segment, detail: str) -> None:
        """Report something about the connection, or the capture."""

    def begin_again(self, phase: StartupPhase, segments: Sequence[Segment], without_frame: bool) -> None:
        """A Startup Phase begins in place of another, with these segments; the frame found may have been none."""

    def stop_waiting(self) -> bool:
        """More waits than may be held; True if Full Operation has begun with it."""


class ExpectedReply(NamedTuple):
    """Where the Reply is expected, the Request being known.

    Attributes:
        request_end: the sequence number after the Request.
        begins: the sequence number that came next, here, when the Request was sent.
    """

    request_end: int
    begins: int

    def is_known_to(self, seg: Segment) -> bool:
        """Whether a segment was sent when the Request had been received."""
        return (seg.ack - self.request_end) & SEQ_MASK < 0x80000000

    def is_begun_by(self, seg: Segment, start: int, stream: Reassembly) -> bool:
        """Whether a segment begins what was sent knowing the Request: nothing before it is missing."""
        if not self.is_known_to(seg):
            return False
        if stream.anchored:
            return start == stream.next
        octets = bytes(seg.buffer[seg.start : seg.end][:KEY_LENGTH])
        return seg.seq == self.begins and not (REPLY_KEY.startswith(octets) or REQUEST_KEY.startswith(octets))


class Known(NamedTuple):
    """What is known of a half connection when a Startup Phase begins, mostly from the one before.

    Attributes:
        may_be_fpdus: whether the octets may be FPDUs.
        expected: where the Reply is expected.
        begins_at: the sequence number at which Full Operation is supposed to begin, None if it is not known.
        rejected: looks at what follows a rejection, None if there was none.
        may_repeat: how many segments may be received anew.
    """

    may_be_fpdus: bool = True
    expected: ExpectedReply | None = None
    begins_at: int | None = None
    rejected: BehindRejection | None = None
    may_repeat: int = _ANEW_AT_FIRST


_NOTHING_KNOWN = Known()


class FrameCopies:
    """The segments that brought a startup frame, to compare with them what repeats it.

    Attributes:
        segments: those segments.
        weight: octets of memory that they take.
    """

    __slots__ = ("_frame", "segments", "weight")

    def __init__(self, segments: Sequence[Segment] = ()) -> None:
        self.segments = list(segments)
        self.weight = Waiting(segments).octets
        self._frame: Reassembly | None = None

    def conflict(self, seg: Segment, start: int, origin: int) -> Conflict | None:
        """How ``seg``, which begins at ``start``, differs from them, None if not; ``origin`` is that of offsets."""
        if self._frame is None:
            # Mostly nothing is repeated: they are put in order only now.
            self._frame = lay(self.segments, Reassembly(origin, False))
        return conflict_of(self._frame, seg, start, start + seg.end - seg.start)

    def release(self, copies: dict[int, Segment]) -> None:
        """The block of the capture that they lie in goes: they get buffers of their own, shared by ``copies``."""
        self.segments = [small_copy(seg, copies) for seg in self.segments]
        if self._frame is not None:
            self._frame.release(copies)


class StartupPhase:
    """One half connection until its startup frame, and the other's, are known.

    Args:
        half: the direction of the TCP connection.
        connection: the TCP connection.
        context: what all half connections share.
        origin: the sequence number at which offsets count 0.
        anchored: whether it is known that what is sent begins there.
        known: what is known of the half connection besides.

    Attributes:
        search: the octets among which its startup frame is looked for.
        found: its startup frame.
        waiting: the segments behind it.
        unexpected: what this direction sent in place of the Reply that it had to send.
    """

    def __init__(
        self,
        half: Half,
        connection: StartupConnection,
        context: ReceiverContext,
        origin: int,
        anchored: bool,
        known: Known = _NOTHING_KNOWN,
    ) -> None:
        self.half = half
        self.found: FoundFrame | None = None
        self.waiting = Waiting()
        self.unexpected: Segment | None = None
        self._connection = connection
        self._context = context
        self.search = KeySearch(half, origin, anchored)
        self._copies = FrameCopies()
        self._decision = Decision(known.may_be_fpdus, context.assumptions.is_without_startup_frames)
        self._expected = known.expected
        #: The offset at which Full Operation begins: behind the frame, or as the other half's Reply lets suppose.
        self._wait_from = None if known.begins_at is None else self.search.reassembly.offset_of(known.begins_at)
        self._rejected = known.rejected
        self._may_repeat = known.may_repeat
        #: Octets that are refused before all that waits is searched once more.
        self._may_refuse = 0
        #: How many segments were kept when that was looked at last.
        self._kept = 0
        self._is_touched = False
        #: The sequence number of streaming data that passes if no Key can be in it, -1 if none passes.
        self._next_seq = -1
        self._set_next()

    # --- what others ask ---

    @property
    def origin(self) -> int:
        """The sequence number of offset 0."""
        return self.search.reassembly.origin

    @property
    def weight(self) -> int:
        """Octets of memory that what waits takes."""
        behind = self._rejected.weight if self._rejected is not None else 0
        return max(self.waiting.octets, self.search.reassembly.weight) + self._copies.weight + behind

    @property
    def may_be_fpdus(self) -> bool:
        """Whether the octets may be FPDUs."""
        return self._decision.is_open

    @property
    def begins_at(self) -> int | None:
        """The sequence number at which Full Operation begins, None if that is not known."""
        return self.search.reassembly.seq_of(self._wait_from) if self._wait_from is not None else None

    def pending(self) -> PartOfFrame | None:
        """A startup frame of which a part was sent, and no more."""
        if self.found is not None or any(is_cut(seg) for seg in self.waiting):
            return None
        return part_of_frame(self.search, self.half, self._expected.begins if self._expected is not None else None)

    # --- what others tell ---

    def anchor(self, origin: int) -> bool:
        """Learn from a SYN where what is sent begins; False if what was captured cannot belong to it."""
        if not self.search.anchor(origin):
            return False
        self._set_next()
        return True

    def expect_reply(self, expected: ExpectedReply) -> None:
        """The other half's Request is known."""
        self._expected = expected
        self._set_next()

    def wait_behind(self, seq: int) -> None:
        """Full Operation is known, or supposed, to begin at this sequence number."""
        self._wait_from = self.search.reassembly.offset_of(seq)
        self._forget_waiting()
        self._set_next()

    def leave(self, rejected: CapturedConnection) -> tuple[StartupPhase, list[Segment]]:
        """The phase that begins behind the frame found, which was of no use, and the segments to be received then."""
        assert self.found is not None
        segments = self.waiting.segments
        if segments and len(segments) >= self._may_repeat:
            detail = f"{len(segments)} segments wait while one startup frame after another is rejected"
            self._connection.find("limit", segments[-1], detail)
            segments = []
        behind = BehindRejection(rejected, self.half, self.found.end_seq)
        known = Known(may_be_fpdus=False, rejected=behind, may_repeat=self._may_repeat - _COST * len(segments))
        return StartupPhase(self.half, self._connection, self._context, self.found.end_seq, True, known), segments

    # --- segments ---

    def receive(self, seg: Segment) -> None:
        """Take a segment with payload that TCP takes, the next one in order or any other."""
        self._may_repeat += _ANEW
        # What comes after a RST is looked at one by one.
        if seg.seq == self._next_seq and self.half.rst is None and self.pass_streaming(seg):
            return
        if not self._is_touched:
            self._is_touched = True
            self._context.touch(self)
        search = self.search
        if search.is_idle and not self.waiting and self._wait_from is None:
            # Nothing is known of it: what an acknowledgement said of its sequence numbers may be wrong.
            search.restart(seg.seq)
        stream = search.reassembly
        start = stream.offset_of(seg.seq)
        end = start + seg.end - seg.start
        self._connection.see_data(self.half)
        if is_cut(seg) and not (self.may_be_fpdus and self._connection.mpa is None):
            cut = seg.length - seg.end + seg.start
            self._connection.find("capture-cut", seg, f"{cut} octets of the payload are not captured")
        if self._is_damaged(seg, start, end):
            return
        if start == 0:
            self._look_at_first(seg)
        if self._rejected is not None and self._rejected.is_open and end > 0:
            self._rejected.take(seg)
        if start + seg.length > self._keep_from() and (end > start or self.found is not None):
            self.waiting.add(seg, self.half.peer.ack)
            if self.waiting.octets > self._limit() and not self._make_room(seg):
                return
        if self.found is None:
            self._look_for_frame(seg, start, end)

    def pass_streaming(self, seg: Segment) -> bool:
        """Pass streaming data in order that cannot hold a Key; False, with nothing done, for all other."""
        start, end = seg.start, seg.end
        if end - start != seg.length:
            return False
        octets = bytes(seg.buffer[start:end])
        if KEY_PREFIX in octets or beginning_of_key(octets):
            return False
        if not self._decision.passes(end - start):
            # So much has passed that octets may be FPDUs by now; where one begins is not known here.
            self.search.restart(seg.seq)
            self.waiting.replace()
            self._set_next()
            return False
        self.search.reassembly.pass_over(end - start)
        self._next_seq = (seg.seq + end - start) & SEQ_MASK
        return True

    def _set_next(self) -> None:
        stream = self.search.reassembly
        passing = stream.anchored and not stream.pieces and not stream.beyond
        watched = self.found is not None or self._wait_from is not None or self._expected is not None
        watched = watched or self.may_be_fpdus or (self._rejected is not None and self._rejected.is_open)
        self._next_seq = stream.seq_of(stream.next) if passing and not watched else -1

    def _look_at_first(self, seg: Segment) -> None:
        """The segment with the first octet: was it, behind a SYN, meant for a Key?"""
        octets = bytes(seg.buffer[seg.start : min(seg.end, seg.start + STARTUP_HEADER_LENGTH)])
        is_first = self.search.reassembly.anchored and seg.seq == self.half.origin
        if is_first and is_garbled_key(octets) and not checksum_is_wrong(seg):
            detail = f"no startup frame: it begins with {octets[:KEY_LENGTH]!r}"
            self._connection.see_garbled_key(self.half, seg, detail)

    def _look_for_frame(self, seg: Segment, start: int, end: int) -> None:
        """Put a segment in order, and take the startup frame that it completes."""
        search = self.search
        stream, expected = search.reassembly, self._expected
        answers = expected is not None and self.unexpected is None and expected.is_begun_by(seg, start, stream)
        for first, last in stream.commit(seg, start, end):
            if any(map(self._take_frame, search.complete(first, last))):
                return
        if self._looks_like_fpdus() and self._try_to_infer(seg):
            return
        self._drop_others()
        if answers and not search.candidates and stream.base == stream.next:
            self.unexpected = detached(seg)
        self._set_next()

    def _take_frame(self, offset: int) -> bool:
        """Take the startup frame at ``offset``, all of which is there, for the one looked for, if it may be.

        True too if all octets, its own included, were taken for FPDUs.
        """
        connection, stream, expected = self._connection, self.search.reassembly, self._expected
        found, segments, (first, last) = self.search.frame(offset)
        budget = self._context.budget
        may_be_ulpdu = self._looks_like_fpdus() and self._decision.follows_fpdus(stream, first, offset, budget)
        if may_be_ulpdu and connection.stop_waiting():
            return True
        # In the middle of a segment of other data a Key may be text about MPA; there the frame has to look like one.
        at_segment = stream.offset_of(segments[0].seq) == offset
        if not at_segment and (startup_frame_problems(found.startup) or found.end != last):
            return False
        if not connection.may_have_frame(self.half):
            return False
        if self.unexpected is None and not at_segment and expected is not None and expected.is_known_to(segments[0]):
            self.unexpected = detached(segments[0])
        self.found, self._copies = found, FrameCopies(segments)
        self.wait_behind(found.end_seq)
        stream.forget()
        connection.find_frame(self.half, found)
        return True

    def _drop_others(self) -> None:
        """Drop what cannot be part of a startup frame any more."""
        if self._looks_like_fpdus() and self.waiting.octets <= self._limit():
            return
        search = self.search
        stream = search.reassembly
        base = stream.base
        search.let_pass()
        limit = self._limit()
        if stream.weight > limit:
            self._skip(limit)
        if stream.base > base:
            if not stream.pieces and self._wait_from is None:
                self.waiting.replace()
            elif len(self.waiting) > 2 * self._kept + _FEW:
                # Only now and then: each time all that wait are looked at.
                self._forget_waiting()

    def _skip(self, limit: int) -> None:
        """More is held back than may be: give up what is missing, and the frame that may have begun before it."""
        stream = self.search.reassembly
        if not stream.pieces:
            return
        if stream.anchored:
            seg = stream.pieces[-1][3]
            self._connection.find("limit", seg, f"more than {limit} octets held back in the startup phase")
        self.search.skip(limit)

    # --- copies that differ ---

    def _is_damaged(self, seg: Segment, start: int, end: int) -> bool:
        """Whether a segment differs from what it repeats, and has been dealt with.

        The receiver dropped the one whose TCP checksum is wrong: that is this one, or the one before.
        """
        stream = self.search.reassembly
        conflict = None
        if self.found is not None:
            conflict = self._copies.conflict(seg, start, stream.origin) if start < self.found.end else None
        elif end <= stream.base and stream.anchored:
            if seg.buffer[seg.start : seg.start + KEY_LENGTH] not in (REQUEST_KEY, REPLY_KEY):
                return False
            # No frame was seen in these octets the first time, so that they were damaged then.
            self._begin_again([seg])
            return True
        elif start < stream.highest:
            conflict = conflict_of(stream, seg, start, end)
        if conflict is None:
            return False
        if stream.checksums.is_wrong(seg):
            return True
        if not conflict.has_damaged:
            rival = conflict.rival()
            if rival is not None and self.found is not None:
                find_other_copy(self._connection.mpa, self.half, seg, rival[1])
            return False
        # Only where they are few enough are all that wait gone through.
        if len(self._copies.segments) + len(self.waiting) - conflict.most_others < self._may_repeat:
            wrong = {id(other) for _, other in conflict.damaged()}
            kept = [other for other in (*self._copies.segments, *self.waiting) if id(other) not in wrong]
            if len(kept) < self._may_repeat:
                self._begin_again([*kept, seg])
                return True
        detail = "too many damaged segments are repeated undamaged: the first copies are kept"
        self._connection.find("limit", seg, detail)
        return False

    def _begin_again(self, segments: list[Segment]) -> None:
        """Search these segments anew: what was made of others was wrong."""
        stream = self.search.reassembly
        first = min(segments, key=lambda seg: stream.offset_of(seg.seq)).seq
        known = Known(
            self.may_be_fpdus,
            self._expected,
            self.begins_at if self.found is None else None,
            self._rejected,
            self._may_repeat - _COST * len(segments),
        )
        anchored = stream.anchored or not self.may_be_fpdus
        phase = StartupPhase(self.half, self._connection, self._context, first, anchored, known)
        self._connection.begin_again(phase, segments, without_frame=self.found is not None)

    # --- what waits ---

    def _keep_from(self) -> int:
        """Segments that end here or before need not wait."""
        base = self.search.reassembly.base
        if self._wait_from is None:
            return base
        return self._wait_from if self.found is not None else min(base, self._wait_from)

    def _forget_waiting(self) -> None:
        keep, offset_of = self._keep_from(), self.search.reassembly.offset_of
        self.waiting.replace(seg for seg in self.waiting if offset_of(seg.seq) + seg.length > keep)
        self._kept = len(self.waiting)

    def _limit(self) -> int:
        """How many octets may be held back: few, until there is a sign of MPA."""
        most = self._context.limits.held_octets
        if self.search.candidates or self.found is not None or self._connection.mpa is not None:
            return most
        few = _MOST_AWAITING if self.may_be_fpdus or not self.search.reassembly.anchored else _MOST_STREAMING
        return min(few, most)

    def _make_room(self, seg: Segment) -> bool:
        """More waits than may, the present segment included; False if that has been dealt with."""
        connection = self._connection
        if self._may_refuse <= 0 and connection.stop_waiting():
            return False  # what waited, the last segment included, has been taken by Full Operation
        if not connection.is_promising:
            self._decision.against()
        if self.found is None:
            # What has waited longest is the least likely to be waited for.
            self.waiting.replace(self.waiting.segments[len(self.waiting) // 2 + 1 :])
            if self.may_be_fpdus:
                self.search.hold_only([other for other in self.waiting if other is not seg])
            return True
        held = self.waiting.octets
        if self._may_refuse <= 0:
            # To search takes long: it has to wait until as many octets are refused as are held.
            self._may_refuse = held
        self.waiting.pop()
        self._may_refuse -= held - self.waiting.octets
        most = self._context.limits.held_octets
        connection.find("limit", seg, f"more than {most} octets wait for a startup frame (held_octets)")
        return False

    def release(self) -> bool:
        """The block of the capture that segments lie in goes; nothing is left to go with the next one."""
        copies: dict[int, Segment] = {}
        self.waiting.release(copies)
        self._copies.release(copies)
        self.search.reassembly.release(copies)
        self.search.reassembly.previously_consumed.clear()
        self._is_touched = False
        return False

    def relieve(self, _now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        if self._connection.stop_waiting():
            return
        self._decision.against()
        if self.waiting:
            detail = "too many octets are held back in all (total_octets)"
            self._connection.find("limit", self.waiting.segments[-1], detail)
        self.waiting.replace()
        self._copies = FrameCopies()
        if self.found is None:
            self._skip(0)
            self._set_next()

    def let_go(self) -> None:
        """The TCP connection is over: nothing that is held is read any more."""
        self.waiting.replace()
        self.search.reassembly.forget()
        self._copies = FrameCopies()

    # --- Full Operation without startup frames ---

    def _looks_like_fpdus(self) -> bool:
        """Whether the octets may be FPDUs, as far as can be known."""
        if self.found is not None or self._connection.mpa is not None:
            return False
        self._decision.look_at_beginning(self.search.reassembly)
        return self.may_be_fpdus

    def _try_to_infer(self, seg: Segment) -> bool:
        """Whether Full Operation has begun: tried when twice as many octets wait, or they have waited for long."""
        if self._connection.lacks_beginning:
            return False
        stream = self.search.reassembly
        # Where the beginning was captured nothing that was sent before can come later.
        known = stream.anchored or bool(self._context.assumptions.start)
        if not self._decision.is_due(self.waiting.octets, seg.time, known):
            return False
        if self._connection.stop_waiting():
            return True
        if stream.anchored and not self._decision.begins_like_fpdu(stream):
            self._decision.against()
        return False
