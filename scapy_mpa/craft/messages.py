"""RDMAP messages cut in DDP segments (RFC 5041 §5, RFC 5040 §5, RFC 7306 §5 and §6).

A ``Message`` is what one side says; ``segments`` makes ULPDUs of it, none longer than what ``room`` allows at the
time, with the MSN that the ``Queues`` of that side are at, MO and TO counting on, and L in the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    ATOMIC_RESPONSE,
    ATOMIC_RESPONSE_QUEUE,
    RDMA_WRITE,
    READ_REQUEST,
    READ_RESPONSE,
    REQUEST_QUEUE,
    SEND_QUEUE,
    TERMINATE,
    TERMINATE_QUEUE,
    tagged,
    untagged,
)
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import (
    OPCODE_NAMES,
    QUEUE_OF,
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    UntaggedHeader,
    decode_ddp,
)
from scapy_mpa.tuples import NamedTuple

#: In place of an opcode: the payload is the ULPDU.
RAW = -1

_QUEUES = {
    READ_REQUEST: REQUEST_QUEUE,
    ATOMIC_REQUEST: REQUEST_QUEUE,
    TERMINATE: TERMINATE_QUEUE,
    ATOMIC_RESPONSE: ATOMIC_RESPONSE_QUEUE,
}
# Messages of one DDP segment: what they say has a fixed form.
_UNDIVIDED = {READ_REQUEST, TERMINATE, ATOMIC_REQUEST, ATOMIC_RESPONSE, 8, 9}


class Carried(Protocol):
    """The payload of a message: octets that exist, or are generated on demand."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> bytes: ...


class Message(NamedTuple):
    """One RDMAP message: its opcode (``RAW``: a ULPDU as it is), its payload, and where that goes.

    ``stag`` and ``to`` are those of a tagged message; ``stag`` is also the Invalidate STag of the Sends that have one.
    ``crc``, ``pad`` and ``ulpdu_length`` are what its FPDUs have in place of what is right; None: that.
    """

    opcode: int
    payload: Carried
    stag: int = 0
    to: int = 0
    crc: int | None = None
    pad: bytes | None = None
    ulpdu_length: int | None = None

    @property
    def is_wrong(self) -> bool:
        """True if its FPDUs have something in place of what is right."""
        return (self.crc, self.pad, self.ulpdu_length) != (None, None, None)

    @property
    def name(self) -> str:
        """Its name, for messages to people."""
        return "ULPDU" if self.opcode == RAW else OPCODE_NAMES[self.opcode] or f"opcode {self.opcode}"


class Queues:
    """The Message Sequence Numbers of one side: each queue counts from 1 (RFC 5041 §4.3)."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}

    def copy(self) -> Queues:
        """Others that are at the same numbers."""
        made = Queues()
        made._last = self._last.copy()
        return made

    def next(self, queue: int) -> int:
        """The MSN of the next message on ``queue``."""
        msn = self._last[queue] = self._last.get(queue, 0) + 1 & 0xFFFFFFFF
        return msn

    def follow(self, ulpdu: Message) -> None:
        """Continue from the MSN of a bare ULPDU, if it belongs to a queue and its CRC is right."""
        header = decode_ddp(ulpdu.payload[:UNTAGGED_HEADER_LENGTH])
        if isinstance(header, UntaggedHeader) and ulpdu.crc is None and QUEUE_OF.get(header.opcode) == header.qn:
            self._last[header.qn] = header.msn


def segments(message: Message, queues: Queues, room: Callable[[], int], version: int = 1) -> Iterator[bytes]:
    """The ULPDUs of a message. ``room`` is asked before each how many octets it may have (MULPDU, RFC 5044 §4.5).

    Raises MPAError if ``room`` is too small for a header and an octet.
    """
    opcode, payload = message.opcode, message.payload
    if opcode == RAW:
        queues.follow(message)
        yield payload[:]
        return
    is_tagged = opcode in (RDMA_WRITE, READ_RESPONSE)
    header = TAGGED_HEADER_LENGTH if is_tagged else UNTAGGED_HEADER_LENGTH
    queue = _QUEUES.get(opcode, SEND_QUEUE)
    msn = 0 if is_tagged else queues.next(queue)
    at = 0
    while True:
        space = room() - header
        if space < 1:
            raise MPAError(
                f"a ULPDU of {space + header} octets has no room for the DDP header and one octet of payload"
            )
        end = len(payload) if opcode in _UNDIVIDED else min(at + space, len(payload))
        last = end == len(payload)
        part = payload[at:end]
        if is_tagged:
            to = message.to + at & 0xFFFFFFFFFFFFFFFF
            yield tagged(opcode, message.stag, to, part, last=last, version=version)
        else:
            yield untagged(
                opcode,
                queue,
                msn,
                part,
                message_offset=at,
                invalidate=message.stag,
                last=last,
                version=version,
            )
        if last:
            return
        at = end
