"""RDMAP of one connection, without a socket: ULPDUs in, ULPDUs out (RFC 5040, RFC 5041, RFC 7306).

What comes is placed, answered and checked as RFC 5041 §7 and RFC 5040 §7 say; what the upper layer has to know comes
back as events. What is to be sent waits as messages and is cut into ULPDUs one by one, when the next is asked for,
so that a long message takes no more memory than its payload::

    rdmap = RDMAPEndpoint(lambda: endpoint.mulpdu)
    buffer = rdmap.register(bytearray(4096))
    events = rdmap.receive(ulpdu)                    # raises RDMAPError, and a Terminate is the last ULPDU
    rdmap.send(b"some text"); rdmap.read(buffer, 100, stag, to)
    while (ulpdu := rdmap.next_ulpdu()) is not None: ...

Answers go before messages of our own, but never into the middle of one. A Request of ours waits while as many as ORD
are under way, and what was said after it waits with it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.messages import Carried, Message, Queues, segments
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.agreement import RtrType
from scapy_mpa.framing.ddp import (
    OPCODE_NAMES,
    QUEUE_OF,
    TAGGED_OPCODES,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    Terminate,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
    error_meaning,
    header_length,
    quoted_header,
)
from scapy_mpa.framing.requests import ReadRequest, read_requests
from scapy_mpa.live.buffers import (
    ATOMIC_ALIGNMENT,
    ATOMIC_OPCODE,
    BROKEN_ATOMIC,
    BROKEN_HEADER,
    BROKEN_REQUEST,
    IMMEDIATE_LENGTH,
    INVALID_QN,
    INVALID_STAG,
    NOT_INVALIDATED,
    OTHER_LENGTH,
    OTHER_PLACE,
    OTHER_REQUEST,
    OTHER_STAG,
    OUT_OF_BOUNDS,
    RDMAP_VERSION,
    SOURCE_ACCESS,
    SOURCE_BOUNDS,
    SOURCE_STAG,
    SOURCE_WRAP,
    TAGGED_VERSION,
    TO_LIMIT,
    UNASKED_RESPONSE,
    UNEXPECTED_OPCODE,
    UNTAGGED_VERSION,
    Access,
    CannotPlace,
    Reason,
    RegisteredBuffer,
    UntaggedMessage,
    UntaggedQueue,
)
from scapy_mpa.tuples import NamedTuple

_ALL_BITS = (1 << 64) - 1
_WORD = 8
#: Octets of the longest message of queues 1 (a Request), 2 (a Terminate with all that it may quote) and 3.
_REQUEST, _TERMINATE, _ATOMIC_RESPONSE = 52, 4 + 2 + 18 + 28, 12
_READ_REQUEST = 28
_SENDS = frozenset((ulpdus.SEND, ulpdus.SEND_INVALIDATE, ulpdus.SEND_SE, ulpdus.SEND_SE_INVALIDATE))
_INVALIDATING = frozenset((ulpdus.SEND_INVALIDATE, ulpdus.SEND_SE_INVALIDATE))
_IMMEDIATES = frozenset((ulpdus.IMMEDIATE, ulpdus.IMMEDIATE_SE))
_SOLICITED = frozenset((ulpdus.SEND_SE, ulpdus.SEND_SE_INVALIDATE, ulpdus.IMMEDIATE_SE))
_IMMEDIATE_OCTETS = 8


class RDMAPError(MPAError):
    """The peer sent what RDMAP or DDP does not allow; a Terminate that says so must be sent.

    Attributes:
        reason: what the Terminate says.
        rule: the id of the rule that was broken.
        clause: of the specification.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        meaning = error_meaning(reason.layer, reason.etype, reason.code)
        super().__init__(f"{meaning}: {detail} ({reason.clause})")
        self.reason = reason
        self.rule, self.clause = reason.rule, reason.clause


class RDMAPUsageError(MPAError, ValueError):
    """The upper layer on this side asked for what cannot be sent."""


@dataclass(frozen=True)
class RDMAPSettings:
    """The properties of one side of an RDMAP stream.

    Attributes:
        ird: Requests of the peer that may wait for their answers.
        ord: Requests of ours that may be under way.
        receive_buffers: Sends of the peer that there is room for; each one delivered makes room for another.
        receive_size: octets of the longest Send that is taken.
        version: of DDP and RDMAP: 1, or 0 with an RNIC of the RDMA Consortium (RFC 5044 §C.1).
        seed: decides about STags.
    """

    ird: int = 8
    ord: int = 8
    receive_buffers: int = 16
    receive_size: int = 1 << 20
    version: int = 1
    seed: int = 0


@dataclass(frozen=True)
class SendDelivered:
    """A Send of the peer is whole; ``invalidated`` is the STag it invalidated."""

    msn: int
    payload: bytes
    solicited: bool = False
    invalidated: int | None = None


@dataclass(frozen=True)
class ImmediateDelivered:
    """Eight octets of Immediate Data came (RFC 7306 §6)."""

    data: bytes
    solicited: bool = False


@dataclass(frozen=True)
class WritePlaced:
    """A segment of an RDMA Write was placed; RDMAP does not report it to the ULP, but a log may (RFC 5040 §5.1)."""

    stag: int
    to: int
    octets: int
    last: bool


@dataclass(frozen=True)
class RequestTaken:
    """A Read or Atomic Request of the peer is answered; no business of the ULP either."""

    name: str
    stag: int
    to: int
    octets: int


@dataclass(frozen=True)
class ReadCompleted:
    """An RDMA Read of ours is complete: its octets are in the sink."""

    stag: int
    to: int
    octets: int


@dataclass(frozen=True)
class AtomicCompleted:
    """An Atomic Operation of ours is complete: ``value`` was there before."""

    request_id: int
    value: int


@dataclass(frozen=True)
class TerminateReceived:
    """The peer ends the stream; ``quoted`` is the DDP header of ours that it quotes."""

    terminate: Terminate | None
    quoted: TaggedHeader | UntaggedHeader | None


class ULPDUTaken(NamedTuple):
    """A ULPDU came to an endpoint that examines none (``TransparentRDMAP``)."""

    ulpdu: bytes


RDMAPEvent: TypeAlias = (
    "SendDelivered | ImmediateDelivered | WritePlaced | RequestTaken | ReadCompleted | AtomicCompleted"
    " | TerminateReceived | ULPDUTaken"
)


class _UnderWay(NamedTuple):
    """A Request of ours that was not answered yet: a Read, or the Request ID of an Atomic Operation."""

    read: ReadRequest | None
    request_id: int
    received: int = 0


class RDMAPEndpoint:
    """One side of an RDMAP stream.

    Args:
        mulpdu: gives the most octets that a ULPDU may have, asked before each one.
        settings: see there.

    Attributes:
        is_ended: a Terminate was sent or received: nothing more is said, and nothing more is taken.
        terminate_sent: what our Terminate says, None if there is none.
        buffers: by STag.
    """

    def __init__(self, mulpdu: Callable[[], int], settings: RDMAPSettings | None = None) -> None:
        self.settings = settings or RDMAPSettings()
        self._mulpdu = mulpdu
        self._random = random.Random(self.settings.seed)
        self.buffers: dict[int, RegisteredBuffer] = {}
        self._receive = {
            ulpdus.SEND_QUEUE: UntaggedQueue(self.settings.receive_size, self.settings.receive_buffers),
            ulpdus.REQUEST_QUEUE: UntaggedQueue(_REQUEST, self.settings.ird),
            ulpdus.TERMINATE_QUEUE: UntaggedQueue(_TERMINATE, 1),
            ulpdus.ATOMIC_RESPONSE_QUEUE: UntaggedQueue(_ATOMIC_RESPONSE, 0),
        }
        self._queues = Queues()
        self._answers: deque[Message] = deque()
        self._own: deque[Message] = deque()
        self._current: Iterator[bytes] | None = None
        self._current_is_answer = False
        self._reads: deque[_UnderWay] = deque()
        self._atomics: deque[_UnderWay] = deque()
        self._request_id = 0
        self._last_ulpdu: bytes | None = None
        self.terminate_sent: tuple[int, int, int] | None = None
        self.is_ended = False

    # --- memory ---

    def register(
        self, octets: bytearray, *, access: Access = Access.ALL, stag: int | None = None, to: int = 0
    ) -> RegisteredBuffer:
        """Give memory an STag (one that is made up, if none is given), its first octet the Tagged Offset ``to``.

        Raises RDMAPUsageError for an STag that is in use, or octets that pass 2^64.
        """
        if stag is None:
            stag = self._random.getrandbits(32) & 0xFFFFFF00
            while stag in self.buffers or not stag:
                stag = self._random.getrandbits(32) & 0xFFFFFF00
        if stag in self.buffers:
            raise RDMAPUsageError(f"STag {stag:#010x} already names a buffer")
        if not 0 <= stag < 1 << 32 or to < 0 or to + len(octets) > TO_LIMIT:
            raise RDMAPUsageError(f"STag {stag:#x} with {len(octets)} octets from TO {to:#x} on is not a valid buffer")
        buffer = self.buffers[stag] = RegisteredBuffer(stag, to, octets, access)
        return buffer

    def deregister(self, stag: int) -> None:
        """Note that an STag no longer names anything."""
        self.buffers.pop(stag, None)

    # --- what is said ---

    def send(self, payload: Carried = b"", *, solicited: bool = False, invalidate: int | None = None) -> None:
        """A Send, of one of its four kinds (RFC 5040 §5.3)."""
        kinds = {
            (False, False): ulpdus.SEND,
            (True, False): ulpdus.SEND_SE,
            (False, True): ulpdus.SEND_INVALIDATE,
            (True, True): ulpdus.SEND_SE_INVALIDATE,
        }
        self.say(Message(kinds[solicited, invalidate is not None], payload, invalidate or 0))

    def write(self, stag: int, to: int, payload: Carried = b"") -> None:
        """An RDMA Write to the peer's ``stag``, from its Tagged Offset ``to`` on (RFC 5040 §5.1)."""
        self.say(Message(ulpdus.RDMA_WRITE, payload, stag, to))

    def read(self, sink: RegisteredBuffer, size: int, stag: int, to: int, *, sink_to: int | None = None) -> None:
        """An RDMA Read of ``size`` octets of the peer's ``stag`` into our sink (RFC 5040 §5.2)."""
        body = ulpdus.read_request_body(sink.stag, sink.to if sink_to is None else sink_to, size, stag, to)
        self.say(Message(ulpdus.READ_REQUEST, body))

    def atomic(
        self,
        operation: int,
        stag: int,
        to: int,
        data: int,
        *,
        mask: int | None = None,
        compare: int = 0,
        compare_mask: int = _ALL_BITS,
    ) -> int:
        """An Atomic Operation on eight octets of the peer (RFC 7306 §5); returns its Request ID.

        ``mask`` None: one sum of 64 bits, or all of them swapped.
        """
        self._request_id = self._request_id + 1 & 0xFFFFFFFF
        if mask is None:
            mask = 0 if operation == ulpdus.FETCH_ADD else _ALL_BITS
        body = ulpdus.atomic_request_body(operation, self._request_id, stag, to, data, mask, compare, compare_mask)
        self.say(Message(ulpdus.ATOMIC_REQUEST, body))
        return self._request_id

    def immediate(self, data: bytes, *, solicited: bool = False) -> None:
        """Immediate Data (RFC 7306 §6)."""
        if len(data) != _IMMEDIATE_OCTETS:
            raise RDMAPUsageError(f"Immediate Data has {_IMMEDIATE_OCTETS} octets, not {len(data)}")
        self.say(Message(ulpdus.IMMEDIATE_SE if solicited else ulpdus.IMMEDIATE, data))

    def terminate(self, layer: int, etype: int, code: int) -> None:
        """A Terminate that quotes nothing, for what no message of the peer caused (RFC 5040 §7.1, 1)."""
        self._end(layer, etype, code)

    def say(self, message: Message) -> None:
        """Any message, a bare ULPDU too; raises RDMAPUsageError after a Terminate."""
        if self.is_ended:
            raise RDMAPUsageError(f"{message.name}: the stream was ended by a Terminate (RFC 5040 §5.4)")
        self._own.append(message)

    def sent_ready(self, rtr: RtrType) -> None:
        """The MPA endpoint below has sent this ready-to-receive message, which took an MSN (RFC 6581 §9.2)."""
        if rtr == "send":
            self._queues.next(ulpdus.SEND_QUEUE)
        elif rtr == "read":
            self._queues.next(ulpdus.REQUEST_QUEUE)
            self._reads.append(_UnderWay(ReadRequest(0, 0, 0, 0, 0), 0))

    def next_msn(self, queue: int) -> int:
        """Return the MSN of the next message that is sent on a queue."""
        return self._queues.copy().next(queue)

    @property
    def waits(self) -> int:
        """The number of our messages that were not sent completely; answers count."""
        return len(self._answers) + len(self._own) + (self._current is not None)

    @property
    def under_way(self) -> int:
        """The number of our Requests that were sent and not answered."""
        return len(self._reads) + len(self._atomics)

    def next_ulpdu(self) -> bytes | None:
        """The next ULPDU to be sent; None if there is none, or none before the peer answers."""
        if self._last_ulpdu is not None:
            ulpdu, self._last_ulpdu = self._last_ulpdu, None
            return ulpdu
        while not self.is_ended:
            if self._current is None and not self._begin():
                return None
            assert self._current is not None
            following = next(self._current, None)
            if following is not None:
                return following
            self._current = None
            if self._current_is_answer:
                # RFC 5040 §6.5: only now there is room for another Request.
                self._receive[ulpdus.REQUEST_QUEUE].post()
        return None

    def _begin(self) -> bool:
        """Begin with the next message, if there is one that need not wait."""
        if self._answers:
            message, self._current_is_answer = self._answers.popleft(), True
        elif self._own and self._may_say(self._own[0]):
            message, self._current_is_answer = self._own.popleft(), False
            self._note(message)
        else:
            return False
        self._current = segments(message, self._queues, self._mulpdu, self.settings.version)
        return True

    def _may_say(self, message: Message) -> bool:
        is_request = message.opcode in (ulpdus.READ_REQUEST, ulpdus.ATOMIC_REQUEST)
        return not is_request or self.under_way < max(1, self.settings.ord)

    def _note(self, message: Message) -> None:
        """Remember a Request, whose answer will come."""
        if message.opcode == ulpdus.READ_REQUEST:
            self._reads.append(_UnderWay(read_requests(message.payload[:])[0], 0))
        elif message.opcode == ulpdus.ATOMIC_REQUEST:
            request = ulpdus.read_atomic_request(message.payload[:])
            self._atomics.append(_UnderWay(None, request.request_id if request else 0))
            self._receive[ulpdus.ATOMIC_RESPONSE_QUEUE].post()

    def _end(self, layer: int, etype: int, code: int, ulpdu: bytes = b"", reads: bool = False) -> None:
        """End the stream with a Terminate, instead of everything that was still to be sent; only once."""
        if self.is_ended:
            return
        header = ulpdu[: header_length(ulpdu)] if ulpdu else b""
        if len(header) < header_length(header):
            header = b""
        request = ulpdu[UNTAGGED_HEADER_LENGTH:] if reads and header else b""
        if len(request) != _READ_REQUEST:
            request = b""
        body = ulpdus.terminate_body(layer, etype, code, ddp_header=header, length=len(ulpdu), rdmap_header=request)
        message = Message(ulpdus.TERMINATE, body)
        self._last_ulpdu = next(segments(message, self._queues, self._mulpdu, self.settings.version))
        self._forget()
        self.terminate_sent = layer, etype, code

    def _forget(self) -> None:
        self.is_ended = True
        self._own.clear()
        self._answers.clear()
        self._current = None

    # --- what comes ---

    def receive(self, ulpdu: bytes) -> list[RDMAPEvent]:
        """Take a ULPDU in the order of the stream; returns what the upper layer has to know.

        Raises RDMAPError for what RDMAP or DDP does not allow: a Terminate that quotes it is the next ULPDU, nothing
        else is said, and what comes after it is dropped (RFC 5041 §7.1).
        """
        if self.is_ended:
            return []
        try:
            return self._take(ulpdu)
        except CannotPlace as error:
            header = decode_ddp(ulpdu)
            if isinstance(header, UntaggedHeader) and header.qn == ulpdus.TERMINATE_QUEUE:
                self._forget()  # nobody answers a Terminate by another (RFC 5040 §5.4)
            else:
                # RFC 5040 §4.8, figure 10: the Read Request comes back where it is what cannot be done.
                reads = error.reason[:2] == (0, 1) and header is not None and header.opcode == ulpdus.READ_REQUEST
                self._end(*error.reason[:3], ulpdu, reads)
            raise RDMAPError(error.reason, error.detail) from None

    def _take(self, ulpdu: bytes) -> list[RDMAPEvent]:
        header = decode_ddp(ulpdu)
        if header is None:
            raise CannotPlace(BROKEN_HEADER, f"{len(ulpdu)} octets are not a DDP Segment")
        version, is_tagged = self.settings.version, isinstance(header, TaggedHeader)
        if header.dv != version:
            raise CannotPlace(TAGGED_VERSION if is_tagged else UNTAGGED_VERSION, f"DDP version {header.dv}")
        if header.rv != version:
            raise CannotPlace(RDMAP_VERSION, f"RDMAP version {header.rv}")
        name = OPCODE_NAMES[header.opcode]
        if name is None or is_tagged != (header.opcode in TAGGED_OPCODES):
            what = name or f"opcode {header.opcode}"
            raise CannotPlace(UNEXPECTED_OPCODE, f"{what} in {'a tagged' if is_tagged else 'an untagged'} segment")
        if isinstance(header, TaggedHeader):
            payload = ulpdu[-header.payload_length :] if header.payload_length else b""
            return self._take_write(header, payload) if not header.opcode else self._take_response(header, payload)
        return self._take_untagged(header, ulpdu)

    def _take_write(self, header: TaggedHeader, payload: bytes) -> list[RDMAPEvent]:
        # STag and TO of a segment without octets are not examined (RFC 5041 §5.2).
        if payload:
            # DDP has no code for missing rights; an STag that must not be written is not valid for writing.
            self._buffer(header.stag, Access.WRITE, INVALID_STAG, INVALID_STAG).put(header.to, payload)
        return [WritePlaced(header.stag, header.to, len(payload), header.last)]

    def _take_response(self, header: TaggedHeader, payload: bytes) -> list[RDMAPEvent]:
        if not self._reads or self._reads[0].read is None:
            raise CannotPlace(UNASKED_RESPONSE, "an RDMA Read Response, but no RDMA Read is outstanding")
        there = self._reads[0]
        asked, received = self._reads[0].read, there.received + len(payload)
        if payload:
            sink = self._buffer(header.stag, Access.NONE, INVALID_STAG, INVALID_STAG)
            if header.stag != asked.sink_stag:
                raise CannotPlace(OTHER_STAG, f"STag {header.stag:#010x} is not the sink of the outstanding RDMA Read")
            if header.to < asked.sink_to or header.to + len(payload) > asked.sink_to + asked.size:
                raise CannotPlace(OTHER_PLACE, f"{len(payload)} octets from TO {header.to:#x} are beyond the Read's")
            sink.put(header.to, payload)
        if not header.last and received <= asked.size:
            self._reads[0] = there._replace(received=received)
            return []
        if received != asked.size:
            raise CannotPlace(OTHER_LENGTH, f"an RDMA Read Response of {received} octets; {asked.size} were requested")
        self._reads.popleft()
        return [ReadCompleted(asked.sink_stag, asked.sink_to, asked.size)]

    def _take_untagged(self, header: UntaggedHeader, ulpdu: bytes) -> list[RDMAPEvent]:
        queue = self._receive.get(header.qn)
        if queue is None:
            raise CannotPlace(INVALID_QN, f"QN {header.qn}")
        if QUEUE_OF[header.opcode] != header.qn:
            raise CannotPlace(UNEXPECTED_OPCODE, f"{OPCODE_NAMES[header.opcode]} on queue {header.qn}")
        payload = ulpdu[UNTAGGED_HEADER_LENGTH:]
        events: list[RDMAPEvent] = []
        for message in queue.place(header.opcode, header.msn, header.mo, header.rsvdulp, payload, header.last, ulpdu):
            events += self._deliver(message)
        return events

    def _deliver(self, message: UntaggedMessage) -> list[RDMAPEvent]:
        """A message of a queue is whole, and all before it were delivered."""
        opcode = message.opcode
        if opcode == ulpdus.READ_REQUEST:
            return [self._answer_read(message.payload)]
        if opcode == ulpdus.ATOMIC_REQUEST:
            return [self._answer_atomic(message.payload)]
        if opcode == ulpdus.ATOMIC_RESPONSE:
            return [self._take_atomic_response(message.payload)]
        if opcode == ulpdus.TERMINATE:
            self._forget()
            return [TerminateReceived(decode_terminate(message.ulpdu), quoted_header(message.ulpdu))]
        self._receive[ulpdus.SEND_QUEUE].post()
        if opcode in _IMMEDIATES:
            if len(message.payload) != _IMMEDIATE_OCTETS:
                raise CannotPlace(IMMEDIATE_LENGTH, f"Immediate Data of {len(message.payload)} octets, not 8")
            return [ImmediateDelivered(message.payload, opcode in _SOLICITED)]
        invalidated = message.rsvdulp if opcode in _INVALIDATING else None
        if invalidated is not None:
            self._invalidate(invalidated)
        return [SendDelivered(message.msn, message.payload, opcode in _SOLICITED, invalidated)]

    def _buffer(self, stag: int, wanted: Access, unknown: Reason, refused: Reason) -> RegisteredBuffer:
        buffer = self.buffers.get(stag)
        if buffer is None:
            raise CannotPlace(unknown, f"STag {stag:#010x} names no buffer")
        if wanted not in buffer.access:
            raise CannotPlace(refused, f"STag {stag:#010x} must not be used for that: {wanted}")
        return buffer

    def _source(self, stag: int, to: int, size: int, wanted: Access) -> RegisteredBuffer:
        """The buffer that a Request names, with room for ``size`` octets at ``to`` (RFC 5040 §7.2)."""
        buffer = self._buffer(stag, wanted, SOURCE_STAG, SOURCE_ACCESS)
        try:
            buffer.place_of(to, size)
        except CannotPlace as error:
            reason = SOURCE_BOUNDS if error.reason == OUT_OF_BOUNDS else SOURCE_WRAP
            raise CannotPlace(reason, error.detail) from None
        return buffer

    def _answer_read(self, body: bytes) -> RDMAPEvent:
        if len(body) != _READ_REQUEST:
            raise CannotPlace(BROKEN_REQUEST, f"an RDMA Read Request of {len(body)} octets, not {_READ_REQUEST}")
        asked = read_requests(body)[0]
        payload = Lent(memoryview(b""))
        if asked.size:
            buffer = self._source(asked.source_stag, asked.source_to, asked.size, Access.READ)
            index = buffer.place_of(asked.source_to, asked.size)
            payload = Lent(memoryview(buffer.octets)[index : index + asked.size])
        self._answers.append(Message(ulpdus.READ_RESPONSE, payload, asked.sink_stag, asked.sink_to))
        return RequestTaken("RDMA Read Request", asked.source_stag, asked.source_to, asked.size)

    def _answer_atomic(self, body: bytes) -> RDMAPEvent:
        asked = ulpdus.read_atomic_request(body)
        if asked is None:
            raise CannotPlace(BROKEN_ATOMIC, f"an Atomic Request of {len(body)} octets, not {_REQUEST}")
        if asked.operation not in (ulpdus.FETCH_ADD, ulpdus.CMP_SWAP):
            raise CannotPlace(ATOMIC_OPCODE, f"Atomic Operation {asked.operation}")
        buffer = self._source(asked.stag, asked.to, _WORD, Access.ATOMIC)
        if asked.to % _WORD:
            raise CannotPlace(ATOMIC_ALIGNMENT, f"an Atomic Operation at TO {asked.to:#x}, which is not aligned")
        before = int.from_bytes(buffer.get(asked.to, _WORD), "big")
        buffer.put(asked.to, after_atomic(asked, before).to_bytes(_WORD, "big"))
        self._answers.append(Message(ulpdus.ATOMIC_RESPONSE, ulpdus.atomic_response_body(asked.request_id, before)))
        return RequestTaken("Atomic Request", asked.stag, asked.to, _WORD)

    def _take_atomic_response(self, body: bytes) -> RDMAPEvent:
        said = ulpdus.read_atomic_response(body)
        if said is None:
            raise CannotPlace(BROKEN_ATOMIC, f"an Atomic Response of {len(body)} octets, not {_ATOMIC_RESPONSE}")
        there = self._atomics.popleft()  # one is under way: else there had been no buffer
        if said[0] != there.request_id:
            raise CannotPlace(OTHER_REQUEST, f"an Atomic Response to Request {said[0]}; {there.request_id} is next")
        return AtomicCompleted(*said)

    def _invalidate(self, stag: int) -> None:
        self._buffer(stag, Access.INVALIDATE, SOURCE_STAG, NOT_INVALIDATED)
        del self.buffers[stag]


class Lent:
    """Octets of a buffer as they are when they are sent; they take no extra memory."""

    def __init__(self, view: memoryview) -> None:
        self._view = view

    def __len__(self) -> int:
        return len(self._view)

    def __getitem__(self, place: slice) -> bytes:
        return bytes(self._view[place])


def after_atomic(asked: ulpdus.AtomicRequest, before: int) -> int:
    """Return what is in memory after an Atomic Operation on ``before`` (RFC 7306 §5.1)."""
    if asked.operation == ulpdus.CMP_SWAP:
        if (before ^ asked.compare) & asked.compare_mask:
            return before
        return before & ~asked.mask & _ALL_BITS | asked.data & asked.mask
    after = start = 0
    while start < 64:
        # Each bit of the mask is the highest of a field; a carry out of a field is lost.
        end = start
        while end < 63 and not asked.mask >> end & 1:
            end += 1
        field = (1 << end - start + 1) - 1
        after |= ((before >> start) + (asked.data >> start) & field) << start
        start = end + 1
    return after
