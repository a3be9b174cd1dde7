"""The Startup Phase of one half connection: finding its MPA Request or Reply (RFC 5044 §7.1).

A startup frame may follow streaming data, may come in single octets in any order, and may share its last segment
with FPDUs.  So octets are put in order, searched for a Key, and let go of when they cannot belong to one.
Once its frame is there, a half connection waits for the other's: until both are known nothing behind them can
be read.

A half connection that does not begin with streaming data may be in Full Operation already, because its startup
frames were not captured or because there are none: as long as that is not decided (``undecided``) its octets wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    KEY_PREFIX,
    REPLY_KEY,
    REQUEST_KEY,
    STARTUP_HEADER_LENGTH,
    StartupFrame,
    decode_startup_frame,
    startup_frame_problems,
)
from scapy_mpa.receive.decision import FIRST_LOOK, Decision
from scapy_mpa.receive.evidence import may_begin_with_fpdu
from scapy_mpa.receive.inference import CONNECTION_BITS, Run, infer
from scapy_mpa.receive.keys import KeySearch, beginning_of_key, is_garbled_key
from scapy_mpa.receive.half import Moment, MAX_WINDOW
from scapy_mpa.receive.segment import (
    SEQ_MASK,
    Segment,
    checksum_is_wrong,
    detached,
    small_copy,
)
from scapy_mpa.receive.reassembly import Reassembly, is_cut
from scapy_mpa.receive.waiting import Waiting, lay
from scapy_mpa.receive.watch.startup import find_fpdu_after_rejection

if TYPE_CHECKING:
    from scapy_mpa.receive.tcp import Half

#: Octets of streaming data held back for a gap.
STREAMING_HELD_LIMIT = 1024 * 1024
#: Octets that wait until it is decided whether they are FPDUs.
UNDECIDED_HELD_LIMIT = 256 * 1024
_LONGEST_FRAME = STARTUP_HEADER_LENGTH + 0xFFFF
#: A larger octet where Rev should be is text (a tab, a line feed) rather than a revision of MPA.
_LARGEST_REV = 8
#: So few segments may wait in vain.
_FEW = 32
#: Segments that may be received anew because what was made of others was wrong: so many for each that came, and more.
_ANEW, _ANEW_AT_FIRST = 16, 512


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

    ``found`` is its frame; ``waiting`` are the segments behind it.
    """

    def __init__(self, half: Half, origin: int, anchored: bool, held_limit: int, undecided: bool = True) -> None:
        self.half = half
        self.stream = Reassembly(origin, anchored)
        self.found: FoundFrame | None = None
        self.waiting = Waiting()
        #: Where Full Operation begins: behind the frame, or where the other half's Reply lets it be supposed.
        self.wait_from: int | None = None
        #: What this half sent in place of the Reply that it had to send.
        self.unexpected: Segment | None = None
        #: Sequence numbers: the end of the Request to be answered, and where the Reply was to begin then.
        self._answers: tuple[int, int] | None = None
        self._keys = KeySearch(self._may_begin)
        #: How many segments were kept when that was looked at last.
        self._kept = 0
        #: The frame found, in order, to compare repeats with; and the segments that brought it.
        self._frame: Reassembly | None = None
        self._frame_segments: list[Segment] = []
        self._frame_weight = 0
        self._touched = False
        self._held_limit = held_limit
        #: How many segments may be received anew.
        self._may_repeat = _ANEW_AT_FIRST
        #: Octets that are refused before all that waits is searched once more.
        self._may_refuse = 0
        self._decision = Decision(undecided)
        self._set_next()

    @property
    def origin(self) -> int:
        """The sequence number of offset 0."""
        return self.stream.origin

    @property
    def weight(self) -> int:
        """Octets of memory that what waits takes."""
        return max(self.waiting.octets, self.stream.weight) + self._frame_weight

    @property
    def undecided(self) -> bool:
        """Whether the octets may be FPDUs."""
        return self._decision.open

    def anchor(self, origin: int) -> bool:
        """Learn from a SYN where the stream begins; False if what was captured cannot belong to it."""
        stream = self.stream
        if not stream.pieces:
            self.stream = Reassembly(origin, True)
        else:
            offset = stream.offset_of(origin)
            if not -STREAMING_HELD_LIMIT <= offset <= stream.pieces[0][0]:
                return False
            stream.base = stream.next = offset
            if stream.beyond and stream.beyond[0][0] == offset:
                stream.skip_to(offset)
        self._set_next()
        return True

    def in_order(self, seg: Segment) -> bool:
        """Pass streaming data that cannot hold a Key; False, with nothing done, for all other."""
        start, end = seg.start, seg.end
        if end - start != seg.length:
            return False
        octets = bytes(seg.buffer[start:end])
        if KEY_PREFIX in octets or beginning_of_key(octets):
            return False
        if not self._decision.passes(end - start):
            self._look_again()
            return False
        stream = self.stream
        stream.next += end - start
        stream.base = stream.highest = stream.next
        self.half.next_seq = (seg.seq + end - start) & SEQ_MASK
        return True

    def receive(self, seg: Segment) -> None:
        """Take any segment with payload."""
        self._may_repeat += _ANEW
        if not self._touched:
            self._touched = True
            self.half.connection.receiver.touched.append(self)
        stream = self.stream
        if not (stream.anchored or stream.pieces or self.waiting or self._keys.candidates) and self.wait_from is None:
            # Nothing is known of it: what an acknowledgement said of its sequence numbers may be wrong.
            stream = self.stream = Reassembly(seg.seq, False)
        start = stream.offset_of(seg.seq)
        end = start + seg.end - seg.start
        if start > max(stream.highest, stream.next) + MAX_WINDOW and (stream.anchored or stream.pieces):
            self.half.connection.begins_anew(self.half, seg)
            return
        if self.half.connection.first_sender is None:
            self.half.connection.first_sender = self.half
        if is_cut(seg) and not (self.undecided and self.half.connection.mpa is None):
            cut = seg.length - seg.end + seg.start
            self.half.connection.find("capture-cut", seg, f"{cut} octets of the payload are not captured")
        if self._is_damaged(seg, start, end):
            return
        if stream.anchored and start == 0 and seg.seq == self.half.origin:
            self._look_at_first(seg)
        if self.half.rejected is not None and start == 0:
            find_fpdu_after_rejection(self.half, seg)
        if start + seg.length > self._keep_from() and (end > start or self.found is not None):
            self.waiting.add(seg)
            if self.waiting.octets > self._limit() and not self._make_room():
                return
        if self.found is not None:
            return
        answers = self.unexpected is None and self._is_answer(seg, start)
        for first, last in stream.commit(seg, start, end):
            if self.found is None and any(map(self._find, self._keys.complete(stream, first, last))):
                break
        if self.half.phase is not self or (self._is_undecided() and self._try_to_decide(seg)):
            return
        if self.found is None:
            self._drop_others()
            if answers and not self._keys.candidates and stream.base == stream.next:
                self.unexpected = detached(seg)
        self._set_next()

    def _look_at_first(self, seg: Segment) -> None:
        """The first segment behind the SYN: does it begin with what was meant for a Key?"""
        octets = bytes(seg.buffer[seg.start : min(seg.end, seg.start + STARTUP_HEADER_LENGTH)])
        is_header = len(octets) == STARTUP_HEADER_LENGTH and octets[17] <= _LARGEST_REV
        if is_header and is_garbled_key(octets) and not checksum_is_wrong(seg):
            octets = octets[:KEY_LENGTH]
            self.half.garbled = seg.frame, seg.time, seg.seq, f"no startup frame: it begins with {octets!r}"

    def octets_without_key(self, ack: int) -> int:
        """How many octets there are from the first behind the SYN up to ``ack``, if no startup frame can be in them.

        0 if not all of them were captured.
        """
        stream, origin = self.stream, self.half.origin
        if not stream.anchored or origin is None or self._keys.candidates:
            return 0
        whole = stream.seq_of(0) == origin and 0 < stream.offset_of(ack) <= stream.next
        return stream.offset_of(ack) if whole else 0

    def _is_damaged(self, seg: Segment, start: int, end: int) -> bool:
        """Whether a segment differs from what it repeats, and has been dealt with.

        The receiver dropped the one whose TCP checksum is wrong: that is this one, or the one before.
        """
        stream = self.stream
        if self.found is not None:
            differences = self._differences_in_frame(seg, start)
        elif end <= stream.base and stream.anchored:
            if seg.buffer[seg.start : seg.start + KEY_LENGTH] not in (REQUEST_KEY, REPLY_KEY):
                return False
            # No frame was seen in these octets the first time, so that they were damaged then.
            self._begin_again([seg])
            return True
        elif start < stream.highest:
            differences = [other for _, other in stream.differences(seg, start, end)]
        else:
            return False
        wrong = [other for other in differences if checksum_is_wrong(other)]
        if differences and checksum_is_wrong(seg):
            return True
        if not wrong:
            if differences and self.found is not None:
                self.half.connection.repeats_frame_otherwise(self.half, seg, differences[0])
            return False
        bad = {id(other) for other in wrong}
        kept = [other for other in (*self._frame_segments, *self.waiting) if id(other) not in bad]
        if len(kept) < self._may_repeat:
            self._begin_again([*kept, seg])
            return True
        detail = "damaged segments come once more, undamaged, too often: the first copies are kept"
        self.half.connection.find("limit", seg, detail)
        return False

    def _differences_in_frame(self, seg: Segment, start: int) -> list[Segment]:
        """The segments of the frame found whose octets differ from those of ``seg``."""
        assert self.found is not None
        if start >= self.found.end:
            return []
        if self._frame is None:
            self._frame = lay(self._frame_segments, Reassembly(self.stream.origin, False))
        return [other for _, other in self._frame.differences(seg, start, start + seg.end - seg.start)]

    def _begin_again(self, segments: list[Segment]) -> None:
        """Search these segments anew: what was made of others was wrong."""
        if self.found is not None:
            self.half.connection.forget_frame(self)
        first = min(segments, key=lambda seg: self.stream.offset_of(seg.seq))
        anchored = self.stream.anchored or not self.undecided
        phase = StartupPhase(self.half, first.seq, anchored, self._held_limit, self.undecided)
        phase._answers = self._answers
        phase._may_repeat = self._may_repeat_after(segments)
        if self.found is None and self.wait_from is not None:
            phase.wait_from = phase.stream.offset_of(self.stream.seq_of(self.wait_from))
        self.half.enter(phase)
        for seg in segments:
            self.half.phase.receive(seg)

    def _may_repeat_after(self, segments: Sequence[Segment]) -> int:
        """How many segments may still be received anew when these are: they do not count as ones that came."""
        return self._may_repeat - (1 + _ANEW) * len(segments)

    def leave(self) -> list[Segment]:
        """Begin once more behind the frame found, which was of no use; returns the segments to be received then."""
        assert self.found is not None
        segments = self.waiting.segments
        if segments and len(segments) >= self._may_repeat:
            detail = f"{len(segments)} segments wait behind one rejected startup frame after the other"
            self.half.connection.find("limit", segments[-1], detail)
            segments = []
        phase = StartupPhase(self.half, self.stream.seq_of(self.found.end), True, self._held_limit, undecided=False)
        phase._may_repeat = self._may_repeat_after(segments)
        self.half.enter(phase)
        return segments

    def expect_reply(self, request_end: int, begins: int) -> None:
        """The other half's Request ends at the sequence number ``request_end``, when ``begins`` was next here."""
        self._answers = request_end, begins
        self._set_next()

    def _is_answer(self, seg: Segment, start: int) -> bool:
        """Whether a segment begins what was sent knowing the Request: nothing before it is missing."""
        if self._answers is None:
            return False
        begins = self._answers[1]
        if not self._knows_request(seg):
            return False
        if self.stream.anchored:
            return start == self.stream.next
        octets = bytes(seg.buffer[seg.start : seg.end][:KEY_LENGTH])
        return seg.seq == begins and not (REPLY_KEY.startswith(octets) or REQUEST_KEY.startswith(octets))

    def _knows_request(self, seg: Segment) -> bool:
        """Whether a segment was sent when the Request had been received."""
        return self._answers is not None and (seg.ack - self._answers[0]) & SEQ_MASK < 0x80000000

    def release(self) -> bool:
        """The block of the capture that segments lie in goes; nothing is left to go with the next one."""
        copies: dict[int, Segment] = {}
        self.waiting.release(copies)
        self._frame_segments = [small_copy(seg, copies) for seg in self._frame_segments]
        if self._frame is not None:
            self._frame.release(copies)
        self.stream.release(copies)
        self.stream.previously_consumed.clear()
        self._touched = False
        return False

    def wait_behind(self, offset: int) -> None:
        """Full Operation is known, or supposed, to begin at ``offset``."""
        self.wait_from = offset
        self._forget_waiting()
        self._set_next()

    def _keep_from(self) -> int:
        """Segments that end here or before need not wait."""
        if self.wait_from is None:
            return self.stream.base
        return self.wait_from if self.found is not None else min(self.stream.base, self.wait_from)

    def _forget_waiting(self) -> None:
        keep, offset_of = self._keep_from(), self.stream.offset_of
        self.waiting.replace(seg for seg in self.waiting if offset_of(seg.seq) + seg.length > keep)
        self._kept = len(self.waiting)

    def _limit(self) -> int:
        """How many octets may be held back: few, until there is a sign of MPA."""
        if self._keys.candidates or self.found is not None or self.half.connection.mpa is not None:
            return self._held_limit
        few = UNDECIDED_HELD_LIMIT if self.undecided or not self.stream.anchored else STREAMING_HELD_LIMIT
        return min(few, self._held_limit)

    def _make_room(self) -> bool:
        """More waits than may; False if the last segment has been dealt with."""
        connection = self.half.connection
        if self._may_refuse <= 0 and connection.stop_waiting():
            return False  # what waited, the last segment included, has been taken by Full Operation
        if not connection.is_promising:
            self._decision.against()
        if self.found is None:
            # What has waited longest is the least likely to be waited for.
            self.waiting.replace(self.waiting.segments[len(self.waiting) // 2 + 1 :])
            if self.undecided:
                # Hold no more octets than those of the segments that wait.
                self.stream = lay(self.waiting, Reassembly(self.stream.origin, False))
            return True
        held = self.waiting.octets
        if self._may_refuse <= 0:
            # To search takes long: it has to wait until as many octets are refused as are held.
            self._may_refuse = held
        seg = self.waiting.pop()
        self._may_refuse -= held - self.waiting.octets
        detail = f"more than {self._held_limit} octets wait for a startup frame (held_octets)"
        connection.find("limit", seg, detail)
        return False

    def pending(self) -> tuple[int, bytes] | None:
        """A startup frame of which the Key and maybe more was sent, but no more: its sequence number and octets."""
        stream = self.stream
        if self.found is not None or not self._is_whole():
            return None
        for candidate in self._keys.candidates:
            island = stream.range_at(candidate)
            if island is not None and island[1] == stream.highest:
                octets = stream.read(candidate, island[1])
                if len(octets) >= KEY_LENGTH and self._may_begin(candidate, octets):
                    return stream.seq_of(candidate), octets
        return None

    @property
    def has_gap(self) -> bool:
        """Whether octets between those captured are missing."""
        return len(self.stream.beyond) > (0 if self.stream.anchored else 1)

    def _is_whole(self) -> bool:
        """Whether nothing that was sent is missing at the end of what was captured."""
        stream, half = self.stream, self.half
        told = [seq for seq in (half.fin, half.rst) if seq is not None]
        beyond = any(0 < stream.offset_of(seq[0]) - stream.highest < MAX_WINDOW for seq in told)
        return not beyond and not any(is_cut(seg) for seg in self.waiting)

    def relieve(self, now: Moment) -> None:
        """Too much is held back in all: give up what is waited for."""
        connection = self.half.connection
        if connection.stop_waiting() or self.half.phase is not self:
            return
        self._decision.against()
        if self.waiting:
            detail = "too many octets are held back in all (total_octets)"
            connection.find("limit", self.waiting.segments[-1], detail)
        self.waiting.replace()
        self._forget_frame()
        if self.found is None:
            self._skip(0)
            self._set_next()

    def _forget_frame(self) -> None:
        """What repeats the frame found is not compared with it any more."""
        self._frame, self._frame_segments, self._frame_weight = None, [], 0

    def let_go(self) -> None:
        """The TCP connection is over: nothing that is held is read any more."""
        self.waiting.replace()
        self.stream.forget()
        self._forget_frame()

    # --- Full Operation without startup frames ---

    def _is_undecided(self) -> bool:
        """Whether the octets may be FPDUs, as far as can be told."""
        if not self.undecided or self.found is not None or self.half.connection.mpa is not None:
            return False
        stream, decision = self.stream, self._decision
        if stream.anchored and decision.is_new and stream.next - stream.base >= FIRST_LOOK:
            if self._begins_like_fpdu():
                decision.looked()
            else:
                decision.against()
        return self.undecided

    def _begins_like_fpdu(self) -> bool:
        """Whether the first octets of the TCP connection may be those of an FPDU, with a Marker or without."""
        if self.half.connection.receiver.assumptions.is_without_startup_frames:
            return True
        octets = self.stream.read(self.stream.base, min(self.stream.next, self.stream.base + LONGEST_FPDU))
        return may_begin_with_fpdu(octets)

    def _try_to_decide(self, seg: Segment) -> bool:
        """Whether Full Operation has begun: tried when twice as many octets wait, or they have waited for long."""
        connection = self.half.connection
        # A startup frame may be what is missing behind a SYN.
        if any(isinstance(half.phase, StartupPhase) and half.phase.lacks_beginning for half in connection.halves):
            return False
        # Where the beginning was captured nothing that was sent before can come later.
        known = self.stream.anchored or bool(connection.receiver.assumptions.start)
        if not self._decision.is_due(self.waiting.octets, seg.time, known):
            return False
        if connection.stop_waiting():
            return True
        if self.stream.anchored and not self._begins_like_fpdu():
            self._decision.against()
        return False

    @property
    def lacks_beginning(self) -> bool:
        """Whether the SYN was captured, but not all of the first octets behind it."""
        stream = self.stream
        return stream.anchored and stream.next - stream.base < FIRST_LOOK and bool(stream.beyond)

    def _look_again(self) -> None:
        """So much has passed that octets may be FPDUs by now, though nothing showed it."""
        # Where an FPDU begins is not known here.
        self.stream = Reassembly(self.stream.seq_of(self.stream.next), False)
        self.waiting.replace()
        self._set_next()

    # --- the search ---

    def _find(self, offset: int) -> bool:
        """Take the startup frame at ``offset``, all of which is there, for the one looked for, if it may be."""
        stream = self.stream
        island = stream.range_at(offset)
        assert island is not None
        startup = decode_startup_frame(stream.read(offset, min(island[1], offset + _LONGEST_FRAME)))
        assert startup is not None
        if self._follows_fpdus(island[0], offset) and self.half.connection.stop_waiting():
            return True
        end = offset + startup.wire_length
        pieces = stream.pieces_of(offset, end)
        # In the middle of a segment of other data a Key may be text about MPA; there the frame has to look like one.
        at_segment = stream.offset_of(pieces[0][3].seq) == offset
        if not at_segment and (startup_frame_problems(startup) or end != island[1]):
            return False
        if self.half.connection.mpa is None and not self.half.connection.receiver.has_room(self.half):
            return False
        self._frame_segments = list({id(piece[3]): piece[3] for piece in pieces}.values())
        self._frame_weight = Waiting(self._frame_segments).octets
        latest = max(self._frame_segments, key=lambda seg: seg.frame)
        if self.unexpected is None and not at_segment and self._knows_request(pieces[0][3]):
            self.unexpected = detached(pieces[0][3])
        seq = stream.seq_of(offset)
        self.found = FoundFrame(startup, offset, end, seq, latest.frame, latest.time, latest.ack)
        self.wait_behind(end)
        stream.forget()
        self.half.connection.startup_frame(self)
        return True

    def _follows_fpdus(self, first: int, offset: int) -> bool:
        """Whether the octets from ``first`` to the Key at ``offset`` are FPDUs, so that the Key may be in a ULPDU."""
        if not self._is_undecided() or self.stream.anchored or not self._decision.is_enough(offset - first):
            return False
        run = Run(first, self.stream.read(first, offset))
        inferred = infer([run], self.half.connection.receiver.budget)
        return inferred is not None and inferred.bits >= CONNECTION_BITS

    def _may_begin(self, offset: int, octets: bytes) -> bool:
        """Whether a Key at ``offset`` may begin a startup frame: at the connection's first octet whatever follows it,
        behind other data only if what follows is not text."""
        if self.stream.seq_of(offset) == self.half.origin:
            return True
        return len(octets) >= STARTUP_HEADER_LENGTH and octets[17] <= _LARGEST_REV

    def _drop_others(self) -> None:
        """Drop what cannot be part of a startup frame any more."""
        if self._is_undecided() and self.waiting.octets <= self._limit():
            return
        stream = self.stream
        base = stream.base
        candidates = self._keys.candidates
        if stream.anchored and candidates and candidates[0] < stream.next:
            stream.consume(candidates[0])
        elif stream.anchored:
            tail = beginning_of_key(stream.read(max(stream.base, stream.next - len(KEY_PREFIX)), stream.next))
            stream.consume(stream.next - tail)
        limit = self._limit()
        if stream.weight > limit:
            self._skip(limit)
        if stream.base > base:
            if not stream.pieces and self.wait_from is None:
                self.waiting.replace()
            elif len(self.waiting) > 2 * self._kept + _FEW:
                # Only now and then: each time all that wait are looked at.
                self._forget_waiting()

    def _skip(self, limit: int) -> None:
        """More is held back than may be: give up what is missing, and the frame that may have begun before it."""
        stream = self.stream
        if not stream.pieces:
            return
        if stream.anchored:
            seg = stream.pieces[-1][3]
            self.half.connection.find("limit", seg, f"more than {limit} octets held back in the startup phase")
        self._keys.candidates = []
        while stream.weight > limit:
            if stream.beyond:
                stream.skip_to(stream.beyond[0][0])
            tail = beginning_of_key(stream.read(max(stream.pieces[0][0], stream.next - len(KEY_PREFIX)), stream.next))
            stream.consume(stream.next - tail)
            if stream.weight > limit and not stream.beyond:
                stream.consume(stream.next)  # not even what may be the beginning of a Key can be kept

    def _set_next(self) -> None:
        stream = self.stream
        passing = stream.anchored and not stream.pieces and not stream.beyond
        watched = self.found is not None or self.wait_from is not None or self._answers is not None or self.undecided
        watched = watched or (self.half.rejected is not None and stream.next == 0)
        self.half.next_seq = stream.seq_of(stream.next) if passing and not watched else -1
