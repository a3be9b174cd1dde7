"""One row per RDMAP message: what is kept of it while a capture is read, and what callers see (RFC 5040, RFC 5041)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from scapy_mpa.framing.ddp import OPCODE_NAMES, SEND_OPCODES
from scapy_mpa.framing.role import Role
from scapy_mpa.messages.smb2 import CHANGE_NOTIFY
from scapy_mpa.rdmap.links import AnswerValues
from scapy_mpa.tuples import NamedTuple

_SECOND = 1_000_000_000
#: Messages that have an answer.
REQUESTS = frozenset(("RDMA Read Request", "Atomic Request"))
#: Calls that are answered when something happens, maybe never (NVMe 1.4 §5.2, MS-SMB2 §2.2.35).
WAITING_CALLS = frozenset(("Asynchronous Event Request", CHANGE_NOTIFY))


class MessageValues(NamedTuple):
    """A message as it is kept, with only types that :mod:`marshal` knows; frames are 0 where there is none.

    ``half`` is twice the number of its connection while the capture is read, and one more for the Responder's. Times
    are in nanoseconds since the epoch. ``ulp`` has the values of the upper layer's header, and a text for people.
    ``payload`` is the place and the number of the octets that were kept. ``is_cut``: not all octets are in the capture.
    ``answer`` of a call is its reply.
    """

    half: int
    opcode: int
    stag: int | None
    to: int | None
    qn: int | None
    msn: int | None
    invalidate_stag: int | None
    offset: int
    last: bool
    octets: int
    segments: int
    first_frame: int
    last_frame: int
    placed_frame: int
    delivered_frame: int
    first_time: int
    time: int
    after_error: bool
    is_cut: bool
    ulp: tuple[dict[str, Any], str] | None
    named_by: int | None
    note: str | None
    payload: tuple[int, int] | None = None
    answer: AnswerValues | None = None


class Answer(NamedTuple):
    """The answer to a Request or a call: its frames, nanoseconds since the Request was complete, octets of payload."""

    first_frame: int
    frame: int
    latency_ns: int
    octets: int

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {
            "first_frame": self.first_frame,
            "frame": self.frame,
            "latency": self.latency_ns / _SECOND,
            "octets": self.octets,
        }


class MessageRow(NamedTuple):
    """A message, or a part of one.

    Attributes:
        connection: its number in the report.
        direction: who sent it.
        message: its name, None for a ULPDU without any.
        stag: with ``to`` where its first octet goes; None if it is untagged.
        to: see ``stag``.
        qn: its queue, None if it is tagged.
        msn: its number in the queue, None if it is tagged.
        invalidate_stag: the STag that a Send invalidates, else None.
        octets: of payload, without DDP and RDMAP headers of DDP Segments.
        segments: DDP Segments.
        offset: which octet of the message is the first.
        last: whether it goes to the end of the message.
        first_frame: brought the first octet.
        last_frame: brought the last octet that was missing.
        placed_frame: the frame by which all its segments were placed.
        delivered_frame: of the last segment, None if that was never delivered.
        first_time_ns: of ``first_frame``, nanoseconds since the epoch.
        time_ns: of ``last_frame``.
        after_error: it ends after the half connection's first error.
        is_cut: a snapshot length cut off some of its octets.
        answer: of a Read or Atomic Request, None if there is none.
        ulp: the upper layer's protocol and the values of its header, None where there is none.
        text: the same in words.
        named_by: the first frame of the message that named the STag to the peer, or None.
        note: what is odd, or what a Terminate says.
        call: the name of what a call of the upper layer asks for; None if it is no call.
        reply: of a call, None if there is none.
        payload: its octets, up to the first that was not captured; None if they were not kept.
    """

    connection: int
    direction: Role
    message: str | None
    stag: int | None
    to: int | None
    qn: int | None
    msn: int | None
    invalidate_stag: int | None
    octets: int
    segments: int
    offset: int
    last: bool
    first_frame: int
    last_frame: int
    placed_frame: int
    delivered_frame: int | None
    first_time_ns: int
    time_ns: int
    after_error: bool
    is_cut: bool
    answer: Answer | None
    ulp: dict[str, Any] | None
    text: str
    named_by: int | None
    note: str | None
    call: str | None
    reply: Answer | None
    payload: bytes | None

    @property
    def complete(self) -> bool:
        """True if it is all of the message, as far as that can be known: tagged data do not say where they began."""
        return self.last and not self.offset and not self.is_cut

    @property
    def duration_ns(self) -> int:
        """Nanoseconds between its first frame and its last."""
        return self.time_ns - self.first_time_ns

    @property
    def latency_ns(self) -> int | None:
        """Nanoseconds from a Request to its answer, or from a call to its reply; None for other messages."""
        ended_by = self.answer or self.reply
        return None if ended_by is None else ended_by.latency_ns

    @property
    def is_unanswered(self) -> bool:
        """True of a Read or Atomic Request, or a call, that nothing captured answers."""
        return self.latency_ns is None and (self.call is not None or self.message in REQUESTS)

    @property
    def may_wait(self) -> bool:
        """True of a call that may stay without a reply, by design."""
        return self.call in WAITING_CALLS

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: its values, including those of the answer and of the upper layer's header."""
        from scapy_mpa.report.html import values_html

        values = self.as_dict()
        for name in ("answer", "ulp"):
            inner = values.pop(name)
            values |= {f"{name} {key}": value for key, value in (inner or {}).items()}
        return values_html(values.items())

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON lines; ``payload`` in hexadecimal, if there is one."""
        values: dict[str, Any] = {
            "connection": self.connection,
            "direction": self.direction,
            "message": self.message,
            "stag": self.stag,
            "to": self.to,
            "qn": self.qn,
            "msn": self.msn,
            "invalidate_stag": self.invalidate_stag,
            "octets": self.octets,
            "segments": self.segments,
            "complete": self.complete,
            "offset": self.offset,
            "last": self.last,
            "first_frame": self.first_frame,
            "last_frame": self.last_frame,
            "placed_frame": self.placed_frame,
            "delivered_frame": self.delivered_frame,
            "first_time": self.first_time_ns / _SECOND,
            "time": self.time_ns / _SECOND,
            "duration": self.duration_ns / _SECOND,
            "answer": self.answer.as_dict() if self.answer is not None else None,
            "after_error": self.after_error,
            "ulp": self.ulp,
            "named_by": self.named_by,
            "note": self.note,
            "call": self.call,
            "reply_frame": self.reply.frame if self.reply is not None else None,
            "call_latency": self.reply.latency_ns / _SECOND if self.reply is not None else None,
        }
        if self.payload is not None:
            values["payload"] = self.payload.hex()
        return values


T = TypeVar("T", MessageValues, MessageRow)


def messages_of(row: T, lengths: Sequence[int]) -> Iterator[T]:
    """Yield the messages that a row stands for.

    ``lengths`` are the octets of RDMA Writes that one frame brought, each in one DDP Segment, each to where the one
    before ended: ``row`` is the first, and they differ in nothing else.  Without any, ``row`` is the one message.
    """
    if not lengths:
        yield row
        return
    to = row.to or 0
    for octets in lengths:
        yield row._replace(to=to, octets=octets)
        to += octets


def row_of(
    values: MessageValues, connection: int, direction: Role, error_frame: int | None, payload: bytes | None
) -> MessageRow:
    """Return what callers see of a message; ``error_frame`` is that of the half connection's first error."""
    answer = reply = None
    if values.answer is not None:
        first, last, _, time, octets = values.answer
        answer = Answer(first, last, time - values.time, octets)
        if values.opcode in SEND_OPCODES:
            answer, reply = None, answer
    after_error = values.after_error or (error_frame is not None and values.placed_frame > error_frame)
    return MessageRow(
        connection,
        direction,
        OPCODE_NAMES[values.opcode],
        values.stag,
        values.to,
        values.qn,
        values.msn,
        values.invalidate_stag,
        values.octets,
        values.segments,
        values.offset,
        values.last,
        values.first_frame,
        values.last_frame,
        values.placed_frame,
        values.delivered_frame or None,
        values.first_time,
        values.time,
        after_error,
        values.is_cut,
        answer,
        values.ulp[0] if values.ulp is not None else None,
        values.ulp[1] if values.ulp is not None else "",
        values.named_by,
        values.note,
        None if values.ulp is None else _call_of(values.ulp[0]),
        reply,
        payload,
    )


def _call_of(ulp: dict[str, Any]) -> str | None:
    """Return the name of what a call asks for, None if a message with such a header is no call."""
    if ulp.get("rpc") == "call":
        return str(ulp.get("call", ulp["procedure"]))
    if (smb2 := ulp.get("smb2")) is not None:
        return None if smb2["is_response"] else str(smb2["command"])
    return str(ulp["command"]) if ulp.get("capsule") == "command" else None
