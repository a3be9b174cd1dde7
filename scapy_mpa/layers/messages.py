"""RDMAP messages as packets, for a session: each as it becomes whole, Requests and calls with what answers them.

:mod:`scapy_mpa.messages` puts messages together and says what they are; here they become packets, and packets that
answer each other get to know each other.  What waits is bounded: octets of messages that are not whole by ``held``,
Requests and calls without an answer by their number.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from scapy.config import conf
from scapy.packet import Packet

from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation
from scapy_mpa.framing.ddp import TAGGED, TAGGED_HEADER_LENGTH, UNTAGGED_HEADER, UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.messages.ongoing import OngoingMessages
from scapy_mpa.messages.row import MessageRow, MessageValues, row_of
from scapy_mpa.messages.store import REQUEST_OPCODES
from scapy_mpa.packet.captured import link
from scapy_mpa.packet.ddp import DDPTagged, DDPUntagged
from scapy_mpa.packet.iser import ISCSIHeader
from scapy_mpa.packet.message import FoundMessage, RDMAPMessage
from scapy_mpa.packet.upper import layer_of, put_upper
from scapy_mpa.rdmap.assembly import Assembly, DDPSegment, MessageHalf
from scapy_mpa.rdmap.links import AnswerValues
from scapy_mpa.ulp.header import UpperHeader
from scapy_mpa.values.records import FPDURow

#: Requests, and calls, without an answer that are kept to be linked: packets take some kilobytes each.
MOST_WAITING = 1 << 12
#: Segments of a message whose frames are known.
_MOST_SEGMENTS = 1 << 16
#: In place of a queue: tagged messages, and what has no DDP header.
_TAGGED_QUEUE, _NO_QUEUE = -1, -2
#: iSCSI: an Initiator Task Tag that names no task, and the first opcode of a target (RFC 7143 §11.2.1).
_NO_TASK, _OF_TARGET = 0xFFFFFFFF, 0x20
#: SMB2: the flag of a response (MS-SMB2 §2.2.1).
_RESPONSE_FLAG = 1

#: Puts a packet over the lower layers of the frame of a half connection at a time: the connection, who sent it, its
#: sequence number, the time in nanoseconds.
Place = Callable[[CapturedConnection, Role, int, int, Packet], Packet]


class _Assembly(Assembly):
    """Tells which segments come, before they are reassembled."""

    def __init__(self, store: SessionMessages, *args: Any) -> None:
        super().__init__(store, *args)
        self._came = store.came

    def take(self, half: MessageHalf, segment: DDPSegment) -> None:
        self._came(half, segment)
        super().take(half, segment)


class SessionMessages(OngoingMessages):
    """Makes a packet of each message.

    Args:
        place: puts it over lower layers.
        held: octets of messages that wait for the rest of these at most.
    """

    def __init__(self, place: Place, held: int) -> None:
        self._place = place
        self._captured: dict[int, CapturedConnection] = {}
        #: DV and RV of each half connection, as its first segment has them.
        self._versions: dict[int, tuple[int, int]] = {}
        #: Of messages that are not whole, by half connection and queue: the stream offset and the frames of segments.
        self._segments: dict[tuple[int, int], list[tuple[int, tuple[int, ...]]]] = {}
        #: Frames of FPDUs that more than two brought, by half connection and stream offset, until they are taken.
        self._frames: dict[tuple[FullOperation, int], tuple[int, ...]] = {}
        self._waiting: OrderedDict[Hashable, Packet] = OrderedDict()
        self._count = 0
        self._last: Packet | None = None
        super().__init__(self._unused, payload=True, held=held)

    def begin(self) -> None:
        """Forget what was received."""
        super().begin()
        self.assembly = _Assembly(self, self._payload, self._held, self.acknowledged)

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        self._captured[operation.mpa.number] = operation.mpa
        if len(frames) > 2 and row.placed:
            self._frames[operation, operation.offset_of(row.seq)] = frames
        super().placed(operation, row, frames, octets)

    def came(self, half: MessageHalf, segment: DDPSegment) -> None:
        """A segment will be reassembled with others next."""
        operation = self._operations[half.half]
        frames = self._frames.pop((operation, segment.offset), None)
        if frames is None:
            frames = tuple(dict.fromkeys((segment.first_frame, segment.last_frame)))
        if len(segment.ulpdu) > 1:
            self._versions.setdefault(half.half, (segment.ulpdu[0] & 3, segment.ulpdu[1] >> 6))
        segments = self._segments.setdefault((half.half, _queue_of(segment)), [])
        if len(segments) < _MOST_SEGMENTS:
            segments.append((segment.offset, frames))

    def forget(self, mpa: CapturedConnection) -> None:
        """A connection is over: what waits is shown, and nothing of it is kept."""
        super().forget(mpa)
        halves = [2 * mpa.number, 2 * mpa.number + 1]
        self._captured.pop(mpa.number, None)
        for half in halves:
            self._versions.pop(half, None)
        self._segments = {key: value for key, value in self._segments.items() if key[0] not in halves}
        self._frames = {key: value for key, value in self._frames.items() if key[0].mpa is not mpa}

    # --- what the assembly tells ---

    def add(self, row: tuple[object, ...]) -> int:
        """A message is whole, or no more of it comes."""
        values = MessageValues._make(row)
        serial, side = divmod(values.half, 2)
        payload = self._payload.take() if self._payload is not None else b""
        mpa, direction = self._captured[serial], ROLES[side]
        segments = self._taken(values)
        found = row_of(values, serial, direction, None, None)
        frames = tuple(sorted({frame for _, frames in segments for frame in frames} | {values.last_frame}))
        message = RDMAPMessage(frames=frames, segments=values.segments, octets=values.octets, complete=found.complete)
        message.be_found(FoundMessage(values.last_frame, found))
        message.add_payload(self._message(values, found, payload))
        seq = self._operations[values.half].seq_of(segments[0][0] if segments else 0)
        packet = self._last = self._place(mpa, direction, seq, values.time, message)
        self._link_call(mpa, direction, found, packet)
        self._count += 1
        if values.opcode in REQUEST_OPCODES:
            self._wait(self._count, packet)
        return self._count

    def answer(self, number: int, _answer: AnswerValues) -> None:
        """A Request is answered by the message that was added last."""
        request = self._waiting.pop(number, None)
        if request is not None and self._last is not None:
            link(request, self._last)

    def _taken(self, values: MessageValues) -> list[tuple[int, tuple[int, ...]]]:
        """The segments of a message; those that came after are another's."""
        queue = _TAGGED_QUEUE if values.stag is not None else _NO_QUEUE if values.qn is None else values.qn
        segments = self._segments.pop((values.half, queue), [])
        if len(segments) > values.segments:
            self._segments[values.half, queue] = segments[values.segments :]
        return segments[: values.segments]

    def _message(self, values: MessageValues, row: MessageRow, payload: bytes) -> Packet:
        """The layers of a message from DDP's on."""
        dv, rv = self._versions.get(values.half, (1, 1))
        common: dict[str, Any] = {"l": int(values.last), "dv": dv, "rv": rv, "opcode": values.opcode}
        if values.stag is not None:
            header: Packet = DDPTagged(stag=values.stag, to=values.to, **common)
        elif values.qn is not None:
            rsvdulp = values.invalidate_stag or 0
            header = DDPUntagged(rsvdulp=rsvdulp, qn=values.qn, msn=values.msn, mo=values.offset, **common)
        else:
            return conf.raw_layer(payload)
        message = type(header)(bytes(header) + payload)
        cls = layer_of(UpperHeader(row.ulp["protocol"], row.ulp)) if row.ulp is not None else None
        if cls is not None:
            put_upper(message, cls)
        return message

    # --- calls and replies ---

    def _link_call(self, mpa: CapturedConnection, direction: Role, row: MessageRow, packet: Packet) -> None:
        """A call waits for its reply, a reply finds its call."""
        call = _call_of(row, packet)
        if call is None:
            return
        what, is_reply = call
        if not is_reply:
            self._wait((mpa.number, direction, what), packet)
            return
        asked = self._waiting.pop((mpa.number, peer_of(direction), what), None)
        if asked is not None:
            link(asked, packet)

    def _wait(self, key: Hashable, packet: Packet) -> None:
        self._waiting[key] = packet
        self._waiting.move_to_end(key)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)

    def _unused(self, *_: object) -> None:
        """Messages are handed on by :meth:`add`."""


def _queue_of(segment: DDPSegment) -> int:
    """The queue of a segment, as the assembly sees it."""
    ulpdu, length = segment.ulpdu, segment.length
    if len(ulpdu) > 1 and ulpdu[0] & TAGGED and length >= TAGGED_HEADER_LENGTH <= len(ulpdu):
        return _TAGGED_QUEUE
    if len(ulpdu) > 1 and not ulpdu[0] & TAGGED and length >= UNTAGGED_HEADER_LENGTH <= len(ulpdu):
        return int(UNTAGGED_HEADER.unpack_from(ulpdu)[3])
    return _NO_QUEUE


def _call_of(row: MessageRow, packet: Packet) -> tuple[int, bool] | None:
    """Return what a call and its reply have in common, and whether a message is the reply; None if it is neither."""
    ulp = row.ulp or {}
    if ulp.get("rpc") is not None:
        return ulp["xid"], ulp["rpc"] == "reply"
    if "capsule" in ulp:
        return ulp["cid"], ulp["capsule"] == "response"
    iscsi = packet.getlayer(ISCSIHeader)
    if iscsi is not None:
        return None if iscsi.initiator_task_tag == _NO_TASK else (iscsi.initiator_task_tag, iscsi.opcode >= _OF_TARGET)
    smb2 = packet.getlayer("SMB2_Header")
    return None if smb2 is None else (smb2.MID, bool(int(smb2.Flags) & _RESPONSE_FLAG))
