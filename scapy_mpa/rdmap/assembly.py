"""DDP Segments in the order of delivery become messages, which find what they have to do with each other.

Untagged messages are reassembled by queue, MSN and MO, tagged ones by STag and TO up to the segment with L (RFC 5041
§5, RFC 5040 §5).  Of a message that is not whole there are parts, each with its offset.  Octets are kept only if they
are asked for; then no more than a limit wait for the rest of their messages, and longer ones come in parts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import Protocol

from scapy_mpa.framing.ddp import (
    LAST,
    OPCODE_NAMES,
    SEND_OPCODES,
    TAGGED,
    TAGGED_HEADER,
    TAGGED_HEADER_LENGTH,
    TERMINATE_OPCODE,
    UNTAGGED_HEADER,
    UNTAGGED_HEADER_LENGTH,
    decode_terminate,
)
from scapy_mpa.framing.requests import ReadRequest, atomic_request_id, original_request_id, read_requests
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.rdmap.links import MOST_CALLS, AnswerValues, Call, Pending, Requests
from scapy_mpa.rdmap.memory import MemoryAccess, NamedMemories, Suspect
from scapy_mpa.rdmap.spread import Spread
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import NamedMemory, Naming, UpperHeader
from scapy_mpa.ulp.identify import LOOKED_AT, UpperLayer

#: Octets of messages that are held until they are whole, of all half connections together.
DEFAULT_HELD = 16 << 20
#: No message: a ULPDU without a DDP header, or with an opcode that has no name.
NO_MESSAGE = 15
#: Octets of memory that a message takes besides its own.
WEIGHT = 512
#: The note of a message whose octets a snapshot length cut off.
CUT_NOTE = "the capture cut it"
_WRITE, _READ_REQUEST, _READ_RESPONSE, _SEND = range(4)
_INVALIDATING = frozenset((4, 6))
#: Once one of these is delivered, so is all that was written before it: Sends, Immediate Data (RFC 7306 §6).
_DELIVERING = frozenset((3, 4, 5, 6, 8, 9))
_ATOMIC_REQUEST, _ATOMIC_RESPONSE = 10, 11
_OPCODE = 0x0F
_LAST_TO = (1 << 64) - 1
_TAGGED_QUEUE = -1
#: Behind any stream offset.
_NEVER = 1 << 64
#: Accesses of each half connection that wait until it is known what their sender had received: a bound of memory.
_MOST_SUSPECTS = 64
#: Messages whose first octets only are examined, and those that nothing is looked up for.
_LOOKED_AT_WHOLE = frozenset((_READ_REQUEST, _ATOMIC_REQUEST, _ATOMIC_RESPONSE))


class DDPSegment(NamedTuple):
    """A DDP Segment: its ULPDU, as far as that is needed, and its length; frames and times of it.

    ``first_frame`` brought its first octet, ``last_frame`` the last that was missing; ``placed`` and ``delivered`` are
    frames, 0 for never; times are nanoseconds since the epoch. ``is_cut``: a snapshot length cut its FPDU, and
    ``ulpdu`` has what is before the first octet that is missing. ``offset`` and ``end`` are stream offsets of its FPDU;
    with ``end`` 0 they are not known, and no octets are missing.
    """

    ulpdu: bytes
    length: int
    first_frame: int
    last_frame: int
    placed: int
    delivered: int
    first_time: int
    time: int
    after_error: bool
    is_cut: bool = False
    offset: int = 0
    end: int = 0


class Writes(NamedTuple):
    """Segments of RDMA Writes that one frame carried, placed and delivered, one after the other.

    ``headers`` are their DDP headers, ``lengths`` those of their ULPDUs; ``time`` is in nanoseconds since the epoch;
    ``offset`` and ``end`` are stream offsets of all of their FPDUs.
    """

    headers: bytes
    lengths: list[int]
    frame: int
    time: int
    offset: int
    end: int


class MessageHalf:
    """One direction of a connection: its incomplete messages, its Requests, the memory it named.

    Attributes:
        taken: the stream offset after the last segment.
        suspects: what the peer seems to have done wrong with memory of this half, if it had received no octets from
            ``taken`` on up to a stream offset of this half.
    """

    __slots__ = ("connection", "half", "is_initiator", "memories", "open", "peer", "requests", "suspects", "taken")

    def __init__(self, half: int, connection: ConnectionMessages, limit: int | None) -> None:
        self.half = half
        self.is_initiator = not half & 1
        self.connection = connection
        #: By queue.
        self.open: dict[int, _Open] = {}
        self.requests = Requests(limit)
        self.memories = NamedMemories(connection.is_from_start)
        self.taken = 0
        self.suspects: list[tuple[int, Suspect]] = []
        self.peer: MessageHalf = self

    def meet(self, peer: MessageHalf) -> None:
        """The other direction of the connection."""
        self.peer = peer

    def let_go(self) -> None:
        """Finish: drop references to objects that refer back, so that Python need not look for cycles."""
        del self.connection, self.peer


class ConnectionMessages:
    """What is known about the messages of one connection.

    Args:
        serial: its number while the capture is read.
        request: its MPA Request, None if that was not captured.
        reply: its MPA Reply, None if that was not captured.
        responder_port: of TCP.
        limits: ORD of the Initiator and of the Responder after negotiation, None where it is not known.
    """

    def __init__(
        self,
        serial: int,
        request: StartupFrame | None,
        reply: StartupFrame | None,
        responder_port: int,
        limits: tuple[int | None, int | None],
    ) -> None:
        self.serial = serial
        self.upper = UpperLayer(request, reply, responder_port)
        #: All of Full Operation is there from its first octet on.
        self.is_from_start = request is not None and reply is not None
        self.halves = first, second = (
            MessageHalf(2 * serial, self, limits[0]),
            MessageHalf(2 * serial + 1, self, limits[1]),
        )
        first.meet(second)
        second.meet(first)
        #: Calls without a reply, by who sent them and what their reply has in common with them.
        self._calls: dict[tuple[bool, int], Call] = {}
        #: ``waiting``: calls without a reply that may stay so, by design.
        self.calls = self.replies = self.waiting = 0
        self._initiator_called = False
        #: Nanoseconds from calls to their replies.
        self.latencies = Spread()

    def call(
        self, header: UpperHeader | Naming, is_initiator: bool, first_frame: int, time: int
    ) -> tuple[Call | None, bool]:
        """The call that a message is, or that it replies to; and whether it is a reply."""
        if header.call is None:
            return None, False
        theirs = not is_initiator, header.call
        is_reply = header.is_reply
        if is_reply is None:
            # Nobody calls the Initiator before that has called; its calls may not be in the capture.
            is_reply = theirs in self._calls or not (is_initiator or self._initiator_called)
        if is_reply:
            call = self._calls.pop(theirs, None)
            if call is not None:
                self.replies += 1
                self.waiting -= call.waits
                self.latencies.add(time - call.time)
            return call, True
        before = self._calls.pop((is_initiator, header.call), None)
        call = self._calls[is_initiator, header.call] = Call(first_frame, time)
        call.is_doubtful = before is not None
        call.waits = isinstance(header, UpperHeader) and header.waits
        self.calls += 1
        self.waiting += call.waits
        self._initiator_called |= is_initiator
        if len(self._calls) > MOST_CALLS:
            del self._calls[next(iter(self._calls))]
        return call, False


class _Open:
    """A message that more segments may follow."""

    __slots__ = (
        "after_error",
        "early",
        "first",
        "head",
        "header",
        "is_cut",
        "last_frame",
        "last_time",
        "length",
        "notes",
        "octets",
        "offset",
        "opcode",
        "placed",
        "requests",
        "segment",
        "segments",
        "used",
    )

    def __init__(self, opcode: int, header: tuple[int, ...], offset: int, segment: DDPSegment) -> None:
        self.opcode = opcode
        #: Of its first segment: STag and TO, or RsvdULP, QN, MSN and MO.
        self.header = header
        self.offset = offset
        self.first = self.segment = segment
        self.last_frame = self.last_time = 0
        self.segments = self.length = 0
        #: Octets whose use was judged.
        self.used = 0
        #: The frame by which all segments so far were placed, 0 if one never was.
        self.placed = segment.placed
        self.early = 0
        #: Its first octets, as far as they are examined; all of its octets, if they are asked for.
        self.head = b""
        self.octets = bytearray()
        self.after_error = self.is_cut = False
        self.notes: list[str] = []
        #: Of a Read Request that is whole, as :func:`read_requests` has it; none if not all of it was captured.
        self.requests: list[ReadRequest] = []

    @property
    def next(self) -> int:
        """The offset of the octet that is expected."""
        return self.offset + self.length

    @property
    def weight(self) -> int:
        """The number of its octets that are kept."""
        return max(len(self.head), len(self.octets))

    def add(self, segment: DDPSegment, payload: bytes, length: int, keeps: bool) -> None:
        """Its next segment; ``keeps``: keep its octets, up to the first that was not captured."""
        if not self.offset and len(self.head) == self.length and self.length < LOOKED_AT:
            self.head += payload[: LOOKED_AT - self.length]
        if keeps and len(self.octets) == self.length:
            self.octets += payload
        self.length += length
        if segment.is_cut and not self.is_cut:
            self.is_cut = True
            self.note(CUT_NOTE)
        self.segments += 1
        self.segment = segment
        #: The frame that placed the last segment, if that was before others were placed.
        self.early = segment.placed if 0 < segment.placed < self.placed else 0
        self.placed = max(self.placed, segment.placed) if self.placed and segment.placed else 0
        self.after_error = self.after_error or segment.after_error
        if segment.last_frame >= self.last_frame:
            self.last_frame, self.last_time = segment.last_frame, segment.time

    def note(self, note: str) -> None:
        """Something is odd."""
        if note not in self.notes:
            self.notes.append(note)


class MessageSink(Protocol):
    """Receives segments."""

    def take(self, half: MessageHalf, segment: DDPSegment) -> None:
        """The next segment of a half connection."""


class MessageRows(Protocol):
    """Receives messages: a store, or a listener that shows them at once."""

    def add(self, row: tuple[object, ...], /) -> int:
        """The values of a message (``MessageValues``); returns what :meth:`answer` wants to know of it."""

    def answer(self, number: int, answer: AnswerValues, /) -> None:
        """A message that was added is answered, for the first time."""


class PayloadOctets(Protocol):
    """Receives the payload octets of messages."""

    def keep(self, octets: bytes, /) -> int:
        """Octets of a message that is added next; returns where they are, for its values."""


class LatestPayload:
    """The octets of a message until it is added, which is at once."""

    def __init__(self) -> None:
        self._kept = b""

    def keep(self, octets: bytes) -> int:
        """Octets of the message that is added next."""
        self._kept = octets
        return 0

    def take(self) -> bytes:
        """The octets that were kept last."""
        kept, self._kept = self._kept, b""
        return kept


class Assembly:
    """Puts the messages of all half connections together, into a store.

    Args:
        store: takes the messages; None if nobody wants them: then they are only judged, and their Requests not linked.
        octets: takes the octets of their payload, None if these are not wanted.
        held: how many octets wait at most for the rest of their messages.
        acknowledged: returns the stream offset up to which the sender of a half connection had received octets of its
            peer when it sent a frame; None where segments come in the order in which they were sent and received.
    """

    def __init__(
        self,
        store: MessageRows | None,
        octets: PayloadOctets | None = None,
        held: int = DEFAULT_HELD,
        acknowledged: Callable[[MessageHalf, int], int] | None = None,
    ) -> None:
        self._store = store
        self._octets = octets
        self._most = held
        self._acknowledged = acknowledged
        self._held = 0
        #: The messages that are not whole, the oldest first.
        self._open: dict[tuple[int, int], MessageHalf] = {}

    def let_go(self) -> None:
        """Finish: drop references to objects that may refer back."""
        self._acknowledged = None

    def take(self, half: MessageHalf, segment: DDPSegment) -> None:
        """The next segment of a half connection."""
        ulpdu, length = segment[:2]
        if segment.end:
            self.advance(half, segment.offset, segment.end)
        if segment.is_cut and len(ulpdu) < UNTAGGED_HEADER_LENGTH and not _has_header(ulpdu):
            self._add_without_message(half, segment)
            return
        if len(ulpdu) > 1 and length >= TAGGED_HEADER_LENGTH:
            control, opcode = ulpdu[0], ulpdu[1] & _OPCODE
            if control & TAGGED:
                _, _, stag, to = TAGGED_HEADER.unpack_from(ulpdu)
                # All of a message in one segment, and none before it that is not whole.
                if control & LAST and _TAGGED_QUEUE not in half.open:
                    self._take_tagged(half, segment, opcode, stag, to)
                else:
                    self._follow(half, _TAGGED_QUEUE, opcode, (stag, to), segment, bool(control & LAST))
                return
            if length >= UNTAGGED_HEADER_LENGTH:
                _, _, *header = UNTAGGED_HEADER.unpack_from(ulpdu)
                self._follow(half, header[1], opcode, tuple(header), segment, bool(control & LAST))
                return
        self._add_without_message(half, segment)

    def take_writes(self, half: MessageHalf, writes: Writes) -> None:
        """The next segments of a half connection; their octets are not asked for."""
        headers, lengths, frame, time, offset, end = writes
        self.advance(half, offset, end)
        controls, _, stags, tos = zip(*TAGGED_HEADER.iter_unpack(headers), strict=True)
        payloads = [length - TAGGED_HEADER_LENGTH for length in lengths]
        # Mostly all continue in the same memory.
        if (
            _TAGGED_QUEUE not in half.open
            and all(control & LAST for control in set(controls))
            and len(set(stags)) == 1
            and tos == tuple(accumulate(payloads[:-1], initial=tos[0]))
        ):
            self._take_together(half, stags[0], tos[0], payloads, frame, time)
            return
        together: list[int] = []
        together_stag = first_to = next_to = -1
        for (control, second, stag, to), length in zip(TAGGED_HEADER.iter_unpack(headers), lengths, strict=True):
            is_alone = control & LAST and _TAGGED_QUEUE not in half.open
            if together and not (is_alone and to == next_to and stag == together_stag):
                self._take_together(half, together_stag, first_to, together, frame, time)
                together = []
            if not is_alone:
                header = TAGGED_HEADER.pack(control, second, stag, to)
                segment = DDPSegment(header, length, frame, frame, frame, frame, time, time, after_error=False)
                self._follow(half, _TAGGED_QUEUE, _WRITE, (stag, to), segment, bool(control & LAST))
                continue
            if not together:
                together_stag, first_to = stag, to
            together.append(length - TAGGED_HEADER_LENGTH)
            next_to = to + length - TAGGED_HEADER_LENGTH
        if together:
            self._take_together(half, together_stag, first_to, together, frame, time)

    def _take_together(self, half: MessageHalf, stag: int, to: int, lengths: list[int], frame: int, time: int) -> None:
        """RDMA Writes of these octets, of one segment each, each to where the one before ended."""
        access = MemoryAccess(_WRITE, stag, to, lengths[0], frame, frame, frame)
        named_by, note = self.use(half, access)
        rest = lengths[1:]
        is_together = False
        if rest and note is None:
            # What is said about a Write is said about that one; the first alone shows that its memory is not known.
            access = access._replace(to=to + lengths[0], length=sum(rest))
            is_together = self._use_together(half, access, len(rest))
        row = (
            *(half.half, _WRITE, stag, to, None, None, None, 0, True, lengths[0], 1, frame, frame, frame, frame, time),
            *(time, False, False, None, named_by, note, None, None),
        )
        if is_together:
            self._add((*row, tuple(lengths)))
            return
        self._add(row)
        to += lengths[0]
        for octets in rest:
            self._take_together(half, stag, to, [octets], frame, time)
            to += octets

    def advance(self, half: MessageHalf, offset: int, end: int) -> None:
        """The next segments of a half connection are from one stream offset to another."""
        if offset != half.taken:
            self._lose(half, offset)
        if half.suspects:
            self._settle(half, end)
        half.taken = end

    def finish(self, connection: ConnectionMessages | None = None) -> None:
        """Finish: nothing more follows for one connection, or for any."""
        for half, queue in [(half, queue) for (_, queue), half in self._open.items()]:
            if connection is None or half.connection is connection:
                self._close(half, queue, False, "its last segment was never sent, or not captured")

    def _lose(self, half: MessageHalf, offset: int) -> None:
        """Octets before a stream offset were not captured, or those after it came before."""
        half.memories.doubt(max(half.taken, offset), is_gap=True)
        half.suspects.clear()
        half.peer.memories.epoch += 1
        if offset < half.taken:
            half.peer.memories.doubt(_NEVER, is_gap=True)

    # --- what a segment belongs to ---

    def _take_tagged(self, half: MessageHalf, segment: DDPSegment, opcode: int, stag: int, to: int) -> None:
        """A tagged message of one segment."""
        ulpdu, length, first_frame, last_frame, placed, delivered, first_time, time, after_error, is_cut = segment[:10]
        octets = length - TAGGED_HEADER_LENGTH
        kept = None
        if self._octets is not None:
            kept = self._octets.keep(ulpdu[TAGGED_HEADER_LENGTH:]), len(ulpdu) - TAGGED_HEADER_LENGTH
        access = MemoryAccess(opcode, stag, to, octets, first_frame, last_frame, placed, segment.offset, time)
        named_by, note = self.use(half, access)
        if is_cut:
            note = CUT_NOTE if note is None else f"{CUT_NOTE}; {note}"
        row = (
            *(half.half, opcode, stag, to, None, None, None, 0, True, octets, 1, first_frame, last_frame),
            *(placed, delivered, first_time, time, after_error, is_cut, None, named_by),
            *(note, kept, None),
        )
        self._add(row)
        if opcode == _READ_RESPONSE:
            self.answer_read(half, access, to, first_time, time)

    def _follow(
        self, half: MessageHalf, queue: int, opcode: int, header: tuple[int, ...], segment: DDPSegment, last: bool
    ) -> None:
        """Follow a segment of a message that may have more of them."""
        there = half.open.get(queue)
        note = None
        if there is not None:
            goes_on, note = _goes_on(there, opcode, header)
            if not goes_on:
                self._close(half, queue, False, "what follows it is another message or was not captured")
                there = None
        is_tagged = queue == _TAGGED_QUEUE
        if there is None:
            offset = 0 if is_tagged else header[3]
            there = half.open[queue] = _Open(opcode, header, offset, segment)
            self._open[half.half, queue] = half
            self._held += WEIGHT
            if offset:
                there.note(f"the octets of the message before octet {offset} are missing")
        if note is not None:
            there.note(note)
        header_length = TAGGED_HEADER_LENGTH if is_tagged else UNTAGGED_HEADER_LENGTH
        length = segment.length - header_length
        held = there.weight
        there.add(segment, segment.ulpdu[header_length:], length, self._octets is not None)
        self._held += there.weight - held
        if last:
            self._close(half, queue, True)
        while self._held > self._most and self._open:
            (_, oldest), whose = next(iter(self._open.items()))
            note = f"in parts: more than {self._most} octets wait for the rest of their messages"
            self._close(whose, oldest, False, note)

    def _close(self, half: MessageHalf, queue: int, last: bool, *notes: str) -> None:
        """A message is whole, or no more of it comes."""
        there = half.open.pop(queue)
        del self._open[half.half, queue]
        self._held -= WEIGHT + there.weight
        for note in notes:
            there.note(note)
        kept = None
        if self._octets is not None:
            kept = self._octets.keep(bytes(there.octets)), len(there.octets)
        is_whole = last and not there.offset
        upper, named_by, invalidated = None, None, None
        opcode, header, first = there.opcode, there.header, there.first
        stag: int | None = None
        to: int | None = None
        qn: int | None = None
        msn: int | None = None
        if queue == _TAGGED_QUEUE:
            stag, to = header
            named_by = self._use_rest(half, there)
            if there.early and last and opcode in (_WRITE, _READ_RESPONSE):
                self._place_early(half, there)
        else:
            if _TAGGED_QUEUE in half.open:
                # What this ends had not ended for a message that began before.
                self._use_rest(half, half.open[_TAGGED_QUEUE])
            rsvdulp, qn, msn, _ = header
            if opcode in _INVALIDATING:
                invalidated = rsvdulp
            if is_whole and opcode in SEND_OPCODES:
                upper = self._look_at_send(half, there)
            elif opcode in SEND_OPCODES:
                half.memories.doubt(half.taken, is_gap=False)
            elif opcode == TERMINATE_OPCODE and not there.offset:
                said = decode_terminate(first.ulpdu, first.length)
                if said is not None or not first.is_cut:
                    there.note("no control word" if said is None else said.meaning)
            elif is_whole and opcode == _READ_REQUEST:
                if len(there.head) == there.length:
                    there.requests = read_requests(there.head)
                named_by = self._use_source(half, there)
        number = 0
        if self._store is not None:
            row = (
                *(half.half, opcode if OPCODE_NAMES[opcode] else NO_MESSAGE, stag, to, qn, msn, invalidated),
                *(there.offset if queue != _TAGGED_QUEUE else 0, last, there.length, there.segments),
                *(first.first_frame, there.last_frame, there.placed, there.segment.delivered),
                *(first.first_time, there.last_time, there.after_error, there.is_cut, upper, named_by),
                *("; ".join(there.notes) or None, kept, None),
            )
            number = self._store.add(row)
        if not is_whole:
            return
        if opcode in _LOOKED_AT_WHOLE:
            self._link(half, opcode, there, number)
        elif opcode == _READ_RESPONSE and stag is not None and to is not None:
            self.answer_read(half, _access(there), to, first.first_time, there.last_time)
        if invalidated is not None:
            received = self._received(half, first.first_frame)
            half.peer.memories.invalidate(invalidated, there.last_frame, received)
        if opcode in _DELIVERING:
            half.peer.memories.epoch += 1

    def _add(self, row: tuple[object, ...]) -> None:
        """Add a message to which nothing is linked."""
        if self._store is not None:
            self._store.add(row)

    def _add_without_message(self, half: MessageHalf, segment: DDPSegment) -> None:
        """A ULPDU that is too short for a DDP header, or was captured only that far."""
        ulpdu, length, first_frame, last_frame, placed, delivered, first_time, time, after_error, is_cut = segment[:10]
        half.memories.doubt(half.taken, is_gap=True)
        kept = (self._octets.keep(ulpdu), len(ulpdu)) if self._octets is not None else None
        note = "no DDP header" if length else "no octets"
        opcode = NO_MESSAGE
        if is_cut and length >= TAGGED_HEADER_LENGTH:
            note = "the capture cut its DDP header"
            opcode = ulpdu[1] & _OPCODE if len(ulpdu) > 1 and OPCODE_NAMES[ulpdu[1] & _OPCODE] else NO_MESSAGE
        row = (
            *(half.half, opcode, None, None, None, None, None, 0, True, length, 1, first_frame, last_frame),
            *(placed, delivered, first_time, time, after_error, is_cut, None, None, note, kept, None),
        )
        self._add(row)

    # --- what messages have to do with each other ---

    def use(self, half: MessageHalf, access: MemoryAccess) -> tuple[int | None, str | None]:
        """A tagged message goes to memory of the peer; returns the frame that named it, and what is wrong with that."""
        memories = half.peer.memories
        if access.opcode == _WRITE and not half.is_initiator:
            half.connection.upper.see_use(access.stag, access.to)
        named = memories.get(access.stag)
        memory = named if named is not None else memories.at(access.stag)
        note = self._judge(half, access)
        memory.use(access)
        if access.opcode == _WRITE:
            memory.write(access, memories.epoch)
            if named is not None and named.call is not None:
                named.call.take_write(access.length)
        return (None if named is None else named.last_named), note

    def _use_together(self, half: MessageHalf, access: MemoryAccess, count: int) -> bool:
        """Several RDMA Writes go to memory to which one went just before.

        Return False, with nothing done, if one of them may break a rule.
        """
        memories = half.peer.memories
        memory = memories.at(access.stag)
        if memories.judge(access) is not None or memory.was_written(access, memories.epoch):
            return False
        memory.use(access, count)
        memory.write(access, memories.epoch)
        if memory.is_current and memory.call is not None:
            memory.call.take_write(access.length, count)
        return True

    def _use_rest(self, half: MessageHalf, there: _Open) -> int | None:
        """Place as much of a tagged message as there is in memory of the peer; return the frame that named it."""
        access = _access(there)
        if there.used:
            named = half.peer.memories.get(access.stag)
            if there.used == there.length:
                return None if named is None else named.last_named
            access = access._replace(to=access.to + there.used & _LAST_TO, length=there.length - there.used)
        there.used = there.length
        named_by, note = self.use(half, access)
        if note is not None:
            there.note(note)
        return named_by

    def _place_early(self, half: MessageHalf, there: _Open) -> None:
        """The last octet of a tagged message was placed before others of it."""
        access = _access(there)
        half.peer.memories.at(access.stag).place_early(access, there.early)

    def _use_source(self, half: MessageHalf, there: _Open) -> int | None:
        """A Read Request reads memory of the peer; returns the frame of the message that named it."""
        requests = there.requests
        if not requests:
            return None
        memories, upper = half.peer.memories, half.connection.upper
        if not half.is_initiator:
            for request in requests:
                upper.see_use(request.source_stag, request.source_to)
        # What it says is read in two ways; the one that fits is meant.
        named = [one for one in requests if memories.get(one.source_stag) is not None] or requests[:1]
        accesses = [_source(there, one) for one in named]
        access = accesses[0]
        if len(accesses) > 1:
            access = next((one for one in accesses if memories.judge(one) is None), access)
        memory = memories.at(access.stag)
        note = self._judge(half, access)
        memory.use(access)
        if note is not None:
            there.note(note)
        if not memory.is_current:
            return None
        if memory.call is not None:
            memory.call.take_read(access.length)
        return memory.last_named

    def _received(self, half: MessageHalf, frame: int) -> int:
        """The stream offset up to which the sender of a frame had received octets, UNKNOWN if that is not known."""
        return half.peer.taken if self._acknowledged is None else self._acknowledged(half, frame)

    def _judge(self, half: MessageHalf, access: MemoryAccess) -> str | None:
        """Judge an access to memory of the peer; returns what is wrong with it, if that is certain now."""
        peer = half.peer
        suspect = peer.memories.judge(access)
        if suspect is None or not (access.opcode == _READ_RESPONSE or self._is_known(half, suspect)):
            return None
        received = self._received(half, access.first_frame)
        if received > peer.taken:
            if len(peer.suspects) < _MOST_SUSPECTS:
                peer.suspects.append((received, suspect))
            return None
        peer.memories.confirm(suspect)
        return None if suspect.finding is None else suspect.finding.detail

    def _is_known(self, half: MessageHalf, suspect: Suspect) -> bool:
        """True if what named memory is a header of the upper layer; of what nobody named yet that is seen later."""
        return suspect.finding is None or half.connection.upper.is_confirmed

    def _settle(self, half: MessageHalf, end: int) -> None:
        """The next segment of a half connection ends at a stream offset, and all before it was taken."""
        for received, suspect in half.suspects:
            if received < end:
                half.memories.confirm(suspect)
        half.suspects = [one for one in half.suspects if one[0] >= end]

    def _link(self, half: MessageHalf, opcode: int, there: _Open, number: int) -> None:
        """A Request, or the answer to an Atomic."""
        first_frame, frame, time = there.first.first_frame, there.last_frame, there.last_time
        if opcode == _READ_REQUEST:
            said = there.requests
            if said:
                if self._store is not None:
                    half.requests.ask_read(said, Pending(number, time), frame)
                self._name_sink(half, said, first_frame)
        elif opcode == _ATOMIC_REQUEST:
            request_id = atomic_request_id(there.head)
            if request_id is not None and self._store is not None:
                half.requests.ask_atomic(request_id, Pending(number, time), frame)
        else:
            request_id = original_request_id(there.head)
            asked = half.peer.requests.answer_atomic(request_id, frame, time) if request_id is not None else None
            if asked is not None and self._store is not None:
                self._store.answer(asked.number, (first_frame, frame, there.first.first_time, time, there.length))

    def _name_sink(self, half: MessageHalf, said: list[ReadRequest], frame: int) -> None:
        """Note the sink that a Read Request names; ``said`` is what it may mean."""
        stag, to, size = said[0][:3]
        if size:
            # An STag that is the same in either byte order does not show which one is meant.
            is_clear = all(one.sink_stag != stag for one in said[1:])
            half.memories.name([NamedMemory(stag, to, size if is_clear else 0, "sink")], frame, half.taken)

    def answer_read(self, half: MessageHalf, access: MemoryAccess, to: int, first_time: int, time: int) -> None:
        """A Read Response is complete; ``to`` is where its first octet goes."""
        asked = half.peer.requests.answer_read(access.stag, to, access.frame, time)
        half.peer.memories.at(access.stag).deliver(access)
        # The answer shows that what was written before the Request was placed (RFC 5040 §5.5, rule 12).
        half.memories.epoch += 1
        if asked is not None and self._store is not None:
            self._store.answer(asked.number, (access.first_frame, access.frame, first_time, time, access.length))

    def _look_at_send(self, half: MessageHalf, there: _Open) -> tuple[dict[str, object], str] | None:
        """The upper layer's header in a Send, with what it has to do with others."""
        upper = half.connection.upper
        see = upper.see_send if self._store is not None else upper.see_naming
        header: UpperHeader | Naming | None = see(there.head, there.length, half.is_initiator)
        if header is None or header.is_cut:
            if there.length:
                half.memories.doubt(half.taken, is_gap=False)
            if header is None:
                return None
        first_frame, time = there.first.first_frame, there.last_time
        call, is_reply = half.connection.call(header, half.is_initiator, first_frame, time)
        answered = call if is_reply else None
        if is_reply and call is not None:
            half.peer.memories.answer(call, there.last_frame, self._received(half, first_frame))
        # A reply repeats what the call named for it (RFC 8166 §4.4); what it names itself is to be read.
        named = [one for one in header.named if not is_reply or one.use == "read"]
        if named:
            is_sure = upper.is_confirmed
            call = None if is_reply else call
            half.memories.name(named, first_frame, half.taken, call, protocol=header.protocol, is_sure=is_sure)
        if not isinstance(header, UpperHeader):
            return None
        values, text = header.as_dict(), header.text
        if header.protocol == "RPC-over-RDMA" and header.call is not None:
            values["rpc"] = "reply" if is_reply else "call"
        if answered is not None:
            values.update(answered.as_dict(time))
            text += _reply_text(answered, time)
        return values, text


def _access(there: _Open) -> MemoryAccess:
    """All of a tagged message."""
    stag, to = there.header
    when = there.first.first_frame, there.last_frame, there.placed, there.first.offset, there.last_time
    return MemoryAccess(there.opcode, stag, to, there.length, *when)


def _source(there: _Open, request: ReadRequest) -> MemoryAccess:
    """Return the memory that a Read Request reads."""
    where = request.source_stag, request.source_to, request.size
    when = there.first.first_frame, there.last_frame, there.placed, there.first.offset, there.last_time
    return MemoryAccess(_READ_REQUEST, *where, *when)


def _has_header(ulpdu: bytes) -> bool:
    """Return True if these octets, fewer than DDP's longer header, hold the shorter one, and it is that."""
    return len(ulpdu) >= TAGGED_HEADER_LENGTH and bool(ulpdu[0] & TAGGED)


def _goes_on(there: _Open, opcode: int, header: tuple[int, ...]) -> tuple[bool, str | None]:
    """Return whether a segment continues a message, and what is odd about it."""
    if len(header) == 2:
        stag, to = there.header
        return (opcode, *header) == (there.opcode, stag, to + there.length & _LAST_TO), None
    _, _, msn, mo = header
    if msn != there.header[2]:
        return False, None
    if mo == there.next:
        return True, None
    # SoftUiWarp's MO is in the byte order of its host.
    if int.from_bytes(mo.to_bytes(4, "big"), "little") == there.next:
        return True, "MO in little-endian order"
    return False, None


def _reply_text(call: Call, time: int) -> str:
    """Return what was done for a call, for people."""
    said = [
        f"{count} RDMA {name}{'s' if count > 1 else ''} of {octets} octets"
        for count, name, octets in ((call.reads, "Read", call.read_octets), (call.writes, "Write", call.write_octets))
        if count
    ]
    return ", ".join([f" to the call of frame {call.first_frame}, {(time - call.time) / 1e6:.3f} ms", *said])
