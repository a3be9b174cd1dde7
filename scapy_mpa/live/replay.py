"""One side of a captured connection, replayed to a live peer: unchanged, or with the names that this peer uses.

A peer chooses the STags and Tagged Offsets of its memory anew on each connection (RFC 5040 §7.2), so those of a capture
name nothing of a live one. ``Replay`` therefore follows both sides of the capture: before an FPDU of ours it waits
until the peer has sent the messages that the capture has before it. Of two messages of the same kind and number, the
captured and the live one, it learns what the peer calls now what it called otherwise then:

* memory that a Send names in the header of an upper layer (``ulp``), for our RDMA Writes, Read and Atomic Requests, and
  Sends with Invalidate;
* the sink of a Read Request, for our Read Response; the Request ID of an Atomic Request, for our Atomic Response;
* MSNs count from the first that is free on each queue (RFC 5041 §4.3).

All else is sent as it was captured: payload, sizes, pauses, the STags of our own memory.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import TYPE_CHECKING

from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import (
    OPCODE_NAMES,
    QUEUE_OF,
    SEND_OPCODES,
    TAGGED_HEADER,
    TERMINATE_OPCODE,
    UNTAGGED_HEADER,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
)
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.live.rdmap import RDMAPEndpoint, RDMAPEvent, ULPDUTaken
from scapy_mpa.live.script import At, Item, Script, Wait
from scapy_mpa.live.speaker import PeerGivesUp, UpperLayerError
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import NamedMemory
from scapy_mpa.ulp.identify import LOOKED_AT, UpperLayer
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.reading.found import FoundFPDUs
    from scapy_mpa.report.connection import Connection

_SECOND = 1_000_000_000
#: Limits of memory: messages of a kind that a live peer may be ahead of the capture; STags that are remembered, and
#: places in the memory of each.
_MOST_AHEAD, _MOST_STAGS, _MOST_PLACES = 1 << 12, 1 << 14, 1 << 8
#: In place of a queue: Read Responses, one of which is outstanding at a time.
_TAGGED = -1
_INVALIDATING = (ulpdus.SEND_INVALIDATE, ulpdus.SEND_SE_INVALIDATE)
_MSN_MASK, _TO_MASK = (1 << 32) - 1, (1 << 64) - 1
#: Where a Read Request and an Atomic Request name the peer's memory, STag and TO (RFC 5040 §4.4, RFC 7306 §5.2.1).
_PLACE = Struct(">IQ")
_PLACE_AT = {ulpdus.READ_REQUEST: UNTAGGED_HEADER_LENGTH + 16, ulpdus.ATOMIC_REQUEST: UNTAGGED_HEADER_LENGTH + 8}
#: The Original Request ID of an Atomic Response, its first field (RFC 7306 §5.2.2).
_WORD = Struct(">I")


class CapturedSide(NamedTuple):
    """A captured connection, one side of which is replayed.

    Attributes:
        found: the FPDUs of both sides, in the order of delivery; to be read once.
        connection: as the analysis has it.
        role: the side that is repeated.
    """

    found: FoundFPDUs
    connection: Connection
    role: Role

    @property
    def request(self) -> StartupFrame | None:
        """The Request of the connection."""
        return self.connection.request

    @property
    def begins_with_rtr(self) -> bool:
        """True if the side's first FPDU is a ready-to-receive message, which the endpoint sends on its own (RFC 6581
        §9.2).
        """
        frames = self.connection.request, self.connection.reply
        return self.role == "initiator" and all(one is not None and one.enhanced and one.enhanced.a for one in frames)

    def items(self) -> Iterator[Item]:
        """Yield what the side sent, unchanged, each FPDU as long after the first as in the capture."""
        start: int | None = None
        for one in self.found:
            if one.record.direction == self.role:
                start = one.record.time_ns if start is None else start
                yield At(max(0, one.record.time_ns - start) / _SECOND)
                yield Message(RAW, one.decoded.ulpdu)


@contextmanager
def captured_side(capture: str, connection: int, role: Role) -> Iterator[CapturedSide]:
    """A side of a captured connection, to be repeated once.

    Raises CaptureError as :func:`scapy_mpa.analyze` does, MPAError if there is no such connection, or it sent nothing.
    """
    # What reads captures is imported only when one is read.
    from scapy_mpa.reading.found import FoundFPDUs

    with FoundFPDUs(capture) as found:
        there = len(found.report.connections)
        if connection >= there:
            raise MPAError(f"there is no connection {connection} in {printable(capture)}; it has {there}")
        found.report.select((connection,), ROLES, None, None)
        (chosen,) = found.report.connections
        if not getattr(found.extent(chosen), role):
            raise MPAError(f"the {role} of connection {connection} sends nothing in {printable(capture)}")
        yield CapturedSide(found, chosen, role)


class _Delivered(NamedTuple):
    """A message that is complete: its kind, for people and for comparing, its first octets, and how many it has."""

    kind: str
    opcode: int
    head: bytes
    length: int


class _Messages:
    """Reassembles the messages of one side; TCP delivers their segments in order."""

    def __init__(self) -> None:
        self._heads: dict[int, bytes] = {}
        self._lengths: Counter[int] = Counter()

    def receive(self, ulpdu: bytes) -> _Delivered | None:
        """Take the next ULPDU; return the message that it completes, if its ULP or RDMAP acts on that.

        That leaves out RDMA Writes (RFC 5040 §5.1), and the answers to Reads of nothing.
        """
        header = decode_ddp(ulpdu)
        if isinstance(header, UntaggedHeader) and QUEUE_OF.get(header.opcode) == header.qn:
            queue = header.qn
        elif isinstance(header, TaggedHeader) and header.opcode == ulpdus.READ_RESPONSE:
            queue = _TAGGED
        else:
            return None
        payload = ulpdu[len(ulpdu) - header.payload_length :]
        head = self._heads.pop(queue, b"")
        head += payload[: LOOKED_AT - len(head)]
        self._lengths[queue] += len(payload)
        if not header.last:
            self._heads[queue] = head
            return None
        length = self._lengths.pop(queue)
        if header.opcode == ulpdus.READ_RESPONSE and not length:
            return None
        name = "Send" if header.opcode in SEND_OPCODES else OPCODE_NAMES[header.opcode] or ""
        return _Delivered(name, header.opcode, head, length)


class _Names:
    """Translates places in memory, by STag and TO, from the names of the captured peer to those of the live one."""

    def __init__(self) -> None:
        self._places: dict[int, deque[tuple[NamedMemory, NamedMemory]]] = {}
        #: The first STag of the capture for which there is no other name.
        self.unknown: int | None = None

    def learn(self, captured: NamedMemory, live: NamedMemory) -> None:
        """The captured peer and the live one name memory for the same purpose."""
        places = self._places.pop(captured.stag, None) or deque(maxlen=_MOST_PLACES)
        places.appendleft((captured, live))
        self._places[captured.stag] = places
        if len(self._places) > _MOST_STAGS:
            del self._places[next(iter(self._places))]

    def stag(self, stag: int) -> int:
        """The live STag; the captured one where there is none."""
        places = self._places.get(stag)
        if places is None:
            self.unknown = stag if self.unknown is None else self.unknown
            return stag
        return places[0][1].stag

    def place(self, stag: int, to: int) -> tuple[int, int]:
        """The live STag and TO; those of the capture where there are no others."""
        for captured, live in self._places.get(stag, ()):
            if 0 <= to - captured.to < (captured.length or 1 << 64):
                return live.stag, live.to + to - captured.to & _TO_MASK
        return self.stag(stag), to


class Replay(Script):
    """Replays a captured side to a live peer, with an endpoint that answers nothing itself.

    Args:
        rdmap: sends its messages: a ``TransparentRDMAP``.
        side: what is repeated.
        wait: seconds to listen after the last message.
    """

    def __init__(self, rdmap: RDMAPEndpoint, side: CapturedSide, *, wait: float = 0.0) -> None:
        super().__init__(rdmap, self._items_of(side), wait=wait)
        self._names = _Names()
        self._live = _Messages()
        #: Live messages that the capture has not come to, by kind.
        self._ahead: dict[str, deque[_Delivered]] = {}
        #: Requests of the peer that are not answered: sinks of Reads, IDs of Atomics, captured and live.
        self._reads: deque[tuple[NamedMemory, NamedMemory]] = deque(maxlen=_MOST_AHEAD)
        self._request_ids: deque[int] = deque(maxlen=_MOST_AHEAD)
        #: By queue: the live MSN less the captured one.
        self._shifts: dict[int, int] = {}
        self._matched = 0

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close before everything was sent."""
        if self._names.unknown is not None:
            return (
                f": STag {self._names.unknown:#010x} was sent as in the capture, "
                "since no message of the peer that we understand names it"
            )
        if self._waits_for is not None:
            article = "an" if self._waits_for[0] in "AIR" else "a"
            came = plural(self._matched, "message")
            return f": after {came} of the peer, the capture has {article} {self._waits_for} of it next"
        return ""

    def take(self, event: RDMAPEvent) -> None:
        """Keep what the peer sent until the capture reaches it.

        Raises PeerGivesUp for a Terminate, and UpperLayerError for very many messages that the capture does not have.
        """
        super().take(event)
        if not isinstance(event, ULPDUTaken):
            return
        message = self._live.receive(event.ulpdu)
        if message is None:
            return
        if message.opcode == TERMINATE_OPCODE:
            said = decode_terminate(event.ulpdu)
            meaning = said.meaning if said is not None else "no control word"
            raise PeerGivesUp(f"the peer ends the stream with a Terminate: {meaning}{self.doubt}")
        ahead = self._ahead.setdefault(message.kind, deque())
        if len(ahead) == _MOST_AHEAD:
            raise UpperLayerError(f"the peer is more than {_MOST_AHEAD} messages ahead of the capture: {message.kind}")
        ahead.append(message)
        self._came[message.kind] += 1

    def _items_of(self, side: CapturedSide) -> Iterator[Item]:
        """Yield what is sent, and what is waited for, in the order of the capture."""
        connection, role = side.connection, side.role
        frames = connection.request, connection.reply, connection.responder_port
        # Both see the same startup frames, so that they take the same upper layer.
        uppers = UpperLayer(*frames), UpperLayer(*frames)
        captured, own = _Messages(), _Messages()
        skips, start = side.begins_with_rtr, 0
        for one in side.found:
            ulpdu = one.decoded.ulpdu
            if one.record.direction == role:
                if skips:
                    skips = False
                    continue
                start = start or one.record.time_ns
                yield At(max(0, one.record.time_ns - start) / _SECOND)
                if (said := own.receive(ulpdu)) is not None and said.opcode in SEND_OPCODES:
                    for upper in uppers:
                        upper.see_naming(said.head, said.length, role == "initiator")
                yield Message(RAW, self._translated(ulpdu, uppers))
            elif (message := captured.receive(ulpdu)) is not None and message.opcode != TERMINATE_OPCODE:
                yield Wait(message.kind)
                live = self._ahead[message.kind].popleft()
                self._matched += 1
                self._compare(message, live, uppers, role != "initiator")

    def _compare(
        self, captured: _Delivered, live: _Delivered, uppers: tuple[UpperLayer, UpperLayer], is_initiator: bool
    ) -> None:
        """Learn what the live peer calls what the captured one named in the same message."""
        if captured.opcode in SEND_OPCODES:
            headers = [
                upper.see_naming(one.head, one.length, is_initiator)
                for upper, one in zip(uppers, (captured, live), strict=True)
            ]
            named = [header.named if header is not None else () for header in headers]
            for pair in zip(*named, strict=False):
                self._names.learn(*pair)
        elif captured.opcode == ulpdus.READ_REQUEST:
            asked = [read_requests(one.head)[:1] for one in (captured, live)]
            if not all(asked):
                lengths = f"{captured.length} octets in the capture, {live.length} now"
                raise MPAError(f"an RDMA Read Request is not understood: {lengths}")
            (then,), (now,) = asked
            if then.size != now.size:
                raise MPAError(f"the peer reads {plural(now.size, 'octet')} where the capture's read {then.size}")
            if then.size:
                sinks = (NamedMemory(sink.sink_stag, sink.sink_to, sink.size, "read") for sink in (then, now))
                self._reads.append((next(sinks), next(sinks)))
        elif captured.opcode == ulpdus.ATOMIC_REQUEST:
            request = ulpdus.read_atomic_request(live.head)
            if request is None:
                raise MPAError(f"an Atomic Request of {live.length} octets is not understood")
            self._request_ids.append(request.request_id)

    def _translated(self, ulpdu: bytes, uppers: tuple[UpperLayer, UpperLayer]) -> bytes:
        """A ULPDU of ours with the names of the live peer."""
        header = decode_ddp(ulpdu)
        if isinstance(header, TaggedHeader):
            return self._translated_tagged(ulpdu, header, uppers)
        if header is None or QUEUE_OF.get(header.opcode) != header.qn:
            return ulpdu
        made = bytearray(ulpdu)
        if header.qn not in self._shifts:
            self._shifts[header.qn] = self._rdmap.next_msn(header.qn) - header.msn
        stag = self._names.stag(header.rsvdulp) if header.opcode in _INVALIDATING else header.rsvdulp
        msn = header.msn + self._shifts[header.qn] & _MSN_MASK
        UNTAGGED_HEADER.pack_into(made, 0, ulpdu[0], ulpdu[1], stag, header.qn, msn, header.mo)
        at = _PLACE_AT.get(header.opcode)
        if at is not None and len(made) >= at + _PLACE.size:
            captured = _PLACE.unpack_from(made, at)
            live = self._names.place(*captured)
            for upper, place in zip(uppers, (captured, live), strict=True):
                upper.see_use(*place)
            _PLACE.pack_into(made, at, *live)
        if header.opcode == ulpdus.ATOMIC_RESPONSE and self._request_ids and header.payload_length >= _WORD.size:
            _WORD.pack_into(made, UNTAGGED_HEADER_LENGTH, self._request_ids.popleft())
        return bytes(made)

    def _translated_tagged(self, ulpdu: bytes, header: TaggedHeader, uppers: tuple[UpperLayer, UpperLayer]) -> bytes:
        """A segment of an RDMA Write or Read Response; without octets it names nothing (RFC 5041 §5.2)."""
        if not header.payload_length:
            return ulpdu
        if header.opcode == ulpdus.READ_RESPONSE and self._reads:
            captured, live = self._reads[0]
            stag, to = live.stag, live.to + header.to - captured.to & _TO_MASK
            if header.last:
                self._reads.popleft()
        else:
            stag, to = self._names.place(header.stag, header.to)
            for upper, place in zip(uppers, ((header.stag, header.to), (stag, to)), strict=True):
                upper.see_use(*place)
        return TAGGED_HEADER.pack(ulpdu[0], ulpdu[1], stag, to) + ulpdu[TAGGED_HEADER.size :]
