"""The payloads of FPDUs: untagged messages put together from their DDP segments, tagged data by STag and TO.

In: FPDUs in the order of delivery. Out: one :class:`ReceivedMessage` for each RDMAP message; RDMA Writes and Read
Responses as (STag, TO, octets), one for each run of segments up to the last (RFC 5041 §5.1, RFC 5040 §5).
Messages that are not whole, because segments were not captured or because they are longer than what is held, come in
parts, each with its offset in the message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scapy_mpa.framing.ddp import (
    OPCODE_NAMES,
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
)
from scapy_mpa.tcp.half import Direction
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.wireshark.found import FoundFPDU

#: Octets of messages that are held until they are whole, of all half connections together.
DEFAULT_HELD = 16 << 20
#: Octets of memory that a message takes besides its own.
_WEIGHT = 512
_INVALIDATING = frozenset(("Send with Invalidate", "Send with SE and Invalidate"))


class ReceivedMessage(NamedTuple):
    """A message, or a part of one.

    ``message`` is its name, None for a ULPDU without any. ``stag`` and ``to`` (tagged) say where the first of
    ``octets`` goes; ``qn`` and ``msn`` (untagged) which message it is, ``offset`` which of its octets is the first.
    ``last``: it goes to the end of the message. ``first_frame`` and ``frame`` are those that placed its first and its
    last segment, ``time_ns`` that of the latter in nanoseconds; ``note`` says what is odd.
    """

    connection: int
    direction: Direction
    message: str | None
    stag: int | None
    to: int | None
    qn: int | None
    msn: int | None
    invalidate_stag: int | None
    offset: int
    last: bool
    segments: int
    first_frame: int
    frame: int
    time_ns: int
    note: str | None
    octets: bytes

    @property
    def complete(self) -> bool:
        """Whether it is all of the message, as far as that can be told: tagged data do not say where they began."""
        return self.last and not self.offset

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON lines; ``octets`` in hexadecimal."""
        values = self._asdict()
        del values["time_ns"], values["octets"], values["note"]
        values.update(length=len(self.octets), complete=self.complete, time=self.time_ns / 1_000_000_000)
        return values | {"note": self.note, "octets": self.octets.hex()}


@dataclass
class _Open:
    """A message that more segments may follow."""

    header: TaggedHeader | UntaggedHeader
    first: FPDURecord
    record: FPDURecord
    offset: int
    octets: bytearray = field(default_factory=bytearray)
    segments: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def next(self) -> int:
        """The offset of the octet that is expected."""
        return self.offset + len(self.octets)

    def add(self, record: FPDURecord, payload: bytes) -> None:
        self.record = record
        self.octets += payload
        self.segments += 1

    def done(self, last: bool, *notes: str) -> ReceivedMessage:
        header = self.header
        name = OPCODE_NAMES[header.opcode]
        tagged = isinstance(header, TaggedHeader)
        said = [*self.notes, *notes]
        return ReceivedMessage(
            self.record.connection,
            self.record.direction,
            name,
            header.stag if isinstance(header, TaggedHeader) else None,
            header.to if isinstance(header, TaggedHeader) else None,
            header.qn if isinstance(header, UntaggedHeader) else None,
            header.msn if isinstance(header, UntaggedHeader) else None,
            header.rsvdulp if isinstance(header, UntaggedHeader) and name in _INVALIDATING else None,
            0 if tagged else self.offset,
            last,
            self.segments,
            self.first.placed_frame or 0,
            self.record.placed_frame or 0,
            self.record.time_ns,
            "; ".join(said) or None,
            bytes(self.octets),
        )


class Messages:
    """Puts the messages of FPDUs together; ``held`` is how many octets wait at most for the rest of their message."""

    def __init__(self, held: int = DEFAULT_HELD) -> None:
        self._most = held
        self._held = 0
        #: By connection, direction and queue; None is the queue of tagged messages.
        self._open: dict[tuple[int, Direction, int | None], _Open] = {}

    def of(self, fpdus: Iterable[FoundFPDU]) -> Iterator[ReceivedMessage]:
        """Yield the messages of FPDUs, each when its last segment has come; FPDUs with a bad CRC count as not there."""
        for found in fpdus:
            if found.record.placed_frame is not None:
                yield from self._segment(found.record, found.decoded.ulpdu)
        for key in [*self._open]:
            yield self._close(key, False, "nothing more of it is there")

    def _segment(self, record: FPDURecord, ulpdu: bytes) -> Iterator[ReceivedMessage]:
        header = decode_ddp(ulpdu)
        if header is None:
            yield ReceivedMessage(
                *(record.connection, record.direction, None, None, None, None, None, None, 0, True, 1),
                *(record.placed_frame or 0, record.placed_frame or 0, record.time_ns),
                "no DDP header" if ulpdu else "no octets",
                ulpdu,
            )
            return
        tagged = isinstance(header, TaggedHeader)
        payload = ulpdu[TAGGED_HEADER_LENGTH if tagged else UNTAGGED_HEADER_LENGTH :]
        key = record.connection, record.direction, header.qn if isinstance(header, UntaggedHeader) else None
        there = self._open.get(key)
        note = None
        if there is not None:
            goes_on, note = _goes_on(there, header)
            if not goes_on:
                yield self._close(key, False, "what follows it is another message or was not captured")
                there = None
        if there is None:
            offset = header.mo if isinstance(header, UntaggedHeader) else 0
            there = self._open[key] = _Open(header, record, record, offset)
            self._held += _WEIGHT
            if offset:
                there.notes.append(f"what is before octet {offset} of the message is not here")
        if note is not None and note not in there.notes:
            there.notes.append(note)
        there.add(record, payload)
        self._held += len(payload)
        if header.last:
            yield self._close(key, True)
        while self._held > self._most and self._open:
            oldest = next(iter(self._open))
            yield self._close(oldest, False, f"in parts: more than {self._most} octets wait for the rest of messages")

    def _close(self, key: tuple[int, Direction, int | None], last: bool, *notes: str) -> ReceivedMessage:
        there = self._open.pop(key)
        self._held -= _WEIGHT + len(there.octets)
        return there.done(last, *notes)


def _goes_on(there: _Open, header: TaggedHeader | UntaggedHeader) -> tuple[bool, str | None]:
    """Whether a segment is the next one of a message, and what is odd about it."""
    before = there.header
    if isinstance(header, TaggedHeader):
        assert isinstance(before, TaggedHeader)
        same = (header.stag, header.opcode) == (before.stag, before.opcode)
        return same and header.to == before.to + len(there.octets) & 0xFFFFFFFFFFFFFFFF, None
    assert isinstance(before, UntaggedHeader)
    if header.msn != before.msn:
        return False, None
    if header.mo == there.next:
        return True, None
    # SoftUiWarp's MO is in the byte order of its host.
    if int.from_bytes(header.mo.to_bytes(4, "big"), "little") == there.next:
        return True, "MO in little-endian order"
    return False, None
