"""A captured conversation, rebuilt: the ULPDUs of a connection as the steps of a new conversation.

Each FPDU is a step of its own, as long as it was; or whole RDMAP messages are, which are cut again (``as_messages``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from scapy_mpa.craft.messages import RAW, Message, Queues, segments
from scapy_mpa.craft.turns import Pause, Say, Step
from scapy_mpa.framing.ddp import CONTROL_LENGTH, LAST, TaggedHeader, UntaggedHeader, decode_ddp, header_length
from scapy_mpa.framing.mulpdu import MAX_MULPDU
from scapy_mpa.framing.role import Role
from scapy_mpa.tuples import NamedTuple

_TAGGED_QUEUE = -1
_LONGEST_MESSAGE = 0xFFFFFFFF


class SaidAgain(Protocol):
    """A ULPDU, what is wrong about its FPDU, and when it was there (nanoseconds)."""

    @property
    def role(self) -> Role:
        """The side that sent it."""

    @property
    def ulpdu(self) -> bytes:
        """Its octets."""

    @property
    def pad(self) -> bytes | None:
        """PAD, None if that is right."""

    @property
    def crc(self) -> int | None:
        """The CRC, None if that is right."""

    @property
    def time_ns(self) -> int:
        """The time at which the FPDU was placed, in nanoseconds since the epoch."""


def steps_of(
    said: Iterable[SaidAgain], *, as_messages: bool = False, pause_ns: int | None = None, version: int = 1
) -> Iterator[Step]:
    """Yield the steps that send it again.

    Args:
        said: in order.
        as_messages: whether whole RDMAP messages are reassembled, where they come out the same.
        pause_ns: the shortest time (nanoseconds) between two ULPDUs that is kept as a pause; None: none is.
        version: of DDP and RDMAP.
    """
    whole = {role: _Whole(version) for role in ("initiator", "responder")} if as_messages else {}
    before: int | None = None
    for one in said:
        message = Message(RAW, one.ulpdu, crc=one.crc, pad=one.pad)
        found = whole[one.role].take(message) if as_messages else [message]
        if found and pause_ns is not None and before is not None and one.time_ns - before >= max(pause_ns, 1):
            yield Pause(one.time_ns - before)
        before = one.time_ns
        for said_now in found:
            yield Say(one.role, said_now)
    for role, rest in whole.items():
        for left in rest.finish():
            yield Say("initiator" if role == "initiator" else "responder", left)


class _Begun(NamedTuple):
    """An incomplete message: its header, and the part of it that exists."""

    header: TaggedHeader | UntaggedHeader
    parts: list[Message]
    payload: bytearray


class _Whole:
    """Puts the messages of one side together."""

    def __init__(self, version: int) -> None:
        self._version = version
        self._queues = Queues()
        self._begun: dict[int, _Begun] = {}

    def take(self, part: Message) -> list[Message]:
        """The next ULPDU; returns what is whole now."""
        ulpdu = part.payload[:]
        header = decode_ddp(ulpdu)
        if header is None:
            return self._as_parts([part])
        queue = header.qn if isinstance(header, UntaggedHeader) else _TAGGED_QUEUE
        begun = self._begun.get(queue)
        given_up: list[Message] = []
        if begun is not None and (part.is_wrong or not _goes_on(begun, header, ulpdu)):
            given_up, begun = self._as_parts(self._begun.pop(queue).parts), None
        if begun is None:
            if part.is_wrong or (isinstance(header, UntaggedHeader) and header.mo):
                return [*given_up, *self._as_parts([part])]
            begun = self._begun[queue] = _Begun(header, [], bytearray())
        begun.parts.append(part)
        begun.payload.extend(ulpdu[header_length(ulpdu) :])
        if not header.last:
            return given_up
        del self._begun[queue]
        return [*given_up, *self._as_message(begun)]

    def finish(self) -> list[Message]:
        """Finish: return incomplete messages as they were captured."""
        return [part for begun in self._begun.values() for part in begun.parts]

    def _as_message(self, begun: _Begun) -> list[Message]:
        """The message, if it comes out the same; else its parts."""
        first, payload = begun.header, bytes(begun.payload)
        if isinstance(first, TaggedHeader):
            message = Message(first.opcode, payload, first.stag, first.to)
        else:
            message = Message(first.opcode, payload, first.rsvdulp)
        before = self._queues.copy()
        whole = b"".join(segments(message, self._queues, lambda: _LONGEST_MESSAGE, self._version))
        ulpdu = begun.parts[0].payload[:]
        size = header_length(ulpdu)
        if whole == bytes((ulpdu[0] | LAST,)) + ulpdu[1:size] + payload:
            return [message]
        self._queues = before
        return self._as_parts(begun.parts)

    def _as_parts(self, parts: list[Message]) -> list[Message]:
        """Return these parts; the sender continues its counts after them."""
        for part in parts:
            self._queues.follow(part)
        return parts


def _goes_on(begun: _Begun, header: TaggedHeader | UntaggedHeader, ulpdu: bytes) -> bool:
    """Return True if a segment continues an incomplete message."""
    first, length = begun.header, len(begun.payload)
    control = begun.parts[0].payload[:CONTROL_LENGTH]
    if (control[0] & ~LAST, control[1]) != (ulpdu[0] & ~LAST, ulpdu[1]):
        return False
    if isinstance(first, TaggedHeader):
        return isinstance(header, TaggedHeader) and (header.stag, header.to) == (first.stag, first.to + length)
    place = first.rsvdulp, first.msn, length
    return isinstance(header, UntaggedHeader) and (header.rsvdulp, header.msn, header.mo) == place


def longest(said: Iterable[SaidAgain]) -> dict[Role, int]:
    """The longest ULPDU of each side, in octets, as far as a MULPDU may be so long."""
    found: dict[Role, int] = {}
    for one in said:
        found[one.role] = max(found.get(one.role, 0), min(len(one.ulpdu), MAX_MULPDU))
    return found
