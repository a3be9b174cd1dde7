"""Reads a capture and yields its messages, in memory that does not follow the capture.

As long as the FPDUs of a connection are delivered as they come, or soon after, their segments are reassembled at once.
One that was placed ahead waits until it is delivered.  Behind octets that were never captured nothing is delivered any
more: from there on all of a connection goes into files, and is reassembled at the end, in the order of the stream.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture.joining import Joining
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.messages.calls import CallLinks
from scapy_mpa.messages.found import FoundMessages
from scapy_mpa.messages.hearing import HalfReading, MessageListener
from scapy_mpa.messages.row import MessageRow, MessageValues, messages_of, row_of
from scapy_mpa.messages.store import MessageStore
from scapy_mpa.messages.times import FrameTimes
from scapy_mpa.rdmap.assembly import DEFAULT_HELD, Assembly, ConnectionMessages, DDPSegment, MessageHalf
from scapy_mpa.reading.query import EVERYTHING, Asked, Query, Selection, query_of
from scapy_mpa.reading.spill import OctetStore, Sorted
from scapy_mpa.report.connection import Connection
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from scapy_mpa.ipsec.associations import Associations

#: FPDUs placed ahead that one half connection keeps in memory.
_MOST_AHEAD = 1 << 14
#: Octets of a ULPDU that are examined where its payload is not wanted: DDP's header, and what an upper layer needs.
_LOOKED_AT = 18 + 4096

_Plain: TypeAlias = "tuple[object, ...]"
#: (connection, direction, stream offset, 0, where it ends, place and number of its octets, the rest of a DDPSegment),
#: or, of one that was delivered later than it came, (connection, direction, stream offset, 1, frame).
_Event: TypeAlias = "tuple[int, int, int, int, int, int, int, _Plain] | tuple[int, int, int, int, int]"
#: (turn, connection, direction, stream offset, place and number of its octets, the rest of a DDPSegment).
_Turn: TypeAlias = "tuple[int, int, int, int, int, int, _Plain]"


class MessageReading(MessageListener):
    """Puts the messages of what a receiver is fed into files.

    Raises OSError if a temporary file cannot be written.

    Args:
        payload: whether messages have their octets.
        held: octets of messages that wait for the rest of these at most.
        store: makes what the messages are put into, where not all of them are asked for.
    """

    def __init__(self, payload: bool, held: int, store: Callable[[], MessageStore] = MessageStore) -> None:
        self._wants_payload = payload
        self.takes_runs = not payload
        self._held = held
        self._make_store = store
        self._store, self._octets = store(), OctetStore()
        self.times, self.acks = FrameTimes(), FrameTimes(field="ack")
        self._spilled_octets, self._events = OctetStore(), cast("Sorted[_Event]", Sorted())
        super().__init__()

    # --- what CaptureListener asks for ---

    def begin(self) -> None:
        """Forget what was received."""
        super().begin()
        self.close()
        self._store, self._octets = self._make_store(), OctetStore()
        self.times, self.acks = FrameTimes(), FrameTimes(field="ack")
        self._spilled_octets, self._events = OctetStore(), Sorted()
        octets = self._octets if self._wants_payload else None
        self.assembly = Assembly(CallLinks(self._store, self._connections), octets, self._held, self.acknowledged)
        #: The frame of the first error of each half connection.
        self._errors: dict[int, int] = {}

    def close(self) -> None:
        """Drop what waits in files."""
        for one in (self._store, self._octets, self.times, self.acks, self._spilled_octets, self._events):
            one.close()

    def connect(self, receiver: Analyzer, connections: Sequence[Connection]) -> None:
        """All was read."""
        super().connect(receiver, connections)
        for operation, reading in self.readings.items():
            if operation.first_error is not None:
                self._errors[reading.half.half] = operation.first_error[0]
            if reading.ahead:
                self._give_up(reading.half.connection)

    def finish(self) -> None:
        """Reassemble what waits, after everything was received. Raises OSError if a temporary file cannot be read."""
        self._take_spilled()
        self.assembly.finish()
        for connection in self._connections.values():
            for half in connection.halves:
                half.requests.under_way.finish()

    def in_order(self, numbers: Mapping[int, int]) -> Iterator[tuple[int, MessageValues, bytes | None]]:
        """Yield the messages of numbered connections, and their octets, in the order of delivery.

        Of each comes the number of its connection first. Those never delivered come after all others, by that number.
        """
        for values, lengths in self._store.runs(numbers):
            number = numbers.get(values.half // 2)
            if number is not None:
                payload = None if values.payload is None else self._octets.at(*values.payload)
                for one in messages_of(values, lengths):
                    yield number, one, payload

    @property
    def heard(self) -> dict[int, ConnectionMessages]:
        """What is known about the messages of each connection, by its number here."""
        return {**self._connections}

    @property
    def errors(self) -> dict[int, int]:
        """The frame of the first error of each half connection that has one."""
        return self._errors

    # --- what cannot be reassembled yet ---

    def _take_behind_gap(self, reading: HalfReading, offset: int, end: int, segment: DDPSegment) -> None:
        half = reading.half
        if offset < reading.end:
            return
        wanted = segment.ulpdu if self._wants_payload else segment.ulpdu[:_LOOKED_AT]
        place = self._spilled_octets.keep(wanted)
        plain = tuple(segment[1:])
        self._events.add((half.connection.serial, half.half & 1, offset, 0, end, place, len(wanted), plain))

    def _deliver_behind_gap(self, half: MessageHalf, offset: int, frame: int) -> None:
        self._events.add((half.connection.serial, half.half & 1, offset, 1, frame))

    def _take_spilled(self) -> None:
        """Put together what went into files, in the order of delivery."""
        if not self._gapped:
            return
        turns: Sorted[_Turn] = Sorted()
        try:
            for turn in self._in_stream_order():
                turns.add(turn)
            for _, serial, side, _, place, length, plain in turns:
                half = self._connections[serial].halves[side]
                segment = DDPSegment._make((self._spilled_octets.at(place, length), *plain))
                self.assembly.take(half, segment)
        finally:
            turns.close()
            self._events.close()

    def _in_stream_order(self) -> Iterator[_Turn]:
        """The turns, half connection by half connection: each when it and all before it were complete."""
        half: tuple[int, int] | None = None
        turn = last_end = 0
        last: _Turn | None = None
        for event in self._events:
            if len(event) == 5:
                if last is not None and last[1:4] == event[:3]:
                    segment = DDPSegment._make((b"", *last[6]))._replace(delivered=event[4])
                    last = (*last[:6], tuple(segment[1:]))
                continue
            serial, side, offset, _, end, place, length, plain = event
            if (serial, side) != half:
                half, turn, last_end = (serial, side), 0, offset
            if last is not None and last[1:4] == event[:3]:
                last = None  # its octets had been withdrawn, and came again
            elif offset < last_end:
                continue
            if last is not None:
                yield last
            turn = max(turn, DDPSegment._make((b"", *plain)).placed)
            last_end = end
            last = turn, serial, side, offset, place, length, plain
        if last is not None:
            yield last


class CapturedMessages(MessageReading, FoundMessages):
    """Reads a capture, or several merged by time; then iterating yields its messages, as often as one likes.

    Use as a context manager. Raises as :func:`scapy_mpa.analyze` does, and OSError if a temporary file cannot be
    written.
    """

    def __init__(
        self,
        capture: Query | Asked,
        *,
        payload: bool = False,
        held: int = DEFAULT_HELD,
        store: Callable[[], MessageStore] = MessageStore,
        directions: Sequence[Role] = ROLES,
        protocols: Sequence[str] = (),
    ) -> None:
        self.directions, self.protocols = directions, protocols
        super().__init__(payload, held, store)
        try:
            self.read(query_of(capture))
            self.finish()
        except BaseException:
            self.close()
            raise
        self._numbers = {
            serial: there.number
            for serial, there in enumerate(self.connections)
            if there is not None and serial in self._connections
        }
        self.messages = {number: self._connections[serial] for serial, number in self._numbers.items()}

    @property
    def store(self) -> MessageStore:
        """The store that received the messages."""
        return self._store

    def __iter__(self) -> Iterator[MessageRow]:
        """Yield the messages in the order of delivery; those never delivered come after all others."""
        for row, lengths in self.runs():
            yield from messages_of(row, lengths)

    def runs(self) -> Iterator[tuple[MessageRow, Sequence[int]]]:
        """Yield them as :class:`~scapy_mpa.messages.found.FoundMessages` says."""
        halves = self.shown_halves()
        for values, lengths in self._store.runs(self._numbers):
            number = halves.get(values.half)
            if number is not None:
                payload = None if values.payload is None else self._octets.at(*values.payload)
                yield row_of(values, number, ROLES[values.half & 1], self._errors.get(values.half), payload), lengths

    def shown_halves(self) -> dict[int, int]:
        """The half connections that are yielded, and the number of their connection."""
        shown = self.shown_numbers()
        sides = [ROLES.index(direction) for direction in self.directions]
        return {
            2 * serial + side: number for serial, number in self._numbers.items() if number in shown for side in sides
        }


def iter_messages(
    capture: Query | Asked,
    *,
    payload: bool = False,
    held: int = DEFAULT_HELD,
    selection: Selection = EVERYTHING,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
    joining: Joining = "auto",
    esp: Associations | str | os.PathLike[str] | None = None,
    udp_ports: Mapping[int, str] | None = None,
) -> Iterator[MessageRow]:
    """Yield the RDMAP messages of a capture, or of several as one, in the order of delivery (RFC 5040 §5.5).

    Those never delivered come after all others. The capture is read when the first one is asked for; what waits is in
    temporary files, so memory does not grow with the capture.

    Args:
        capture: As :func:`scapy_mpa.analyze` takes it.
        payload: Whether messages have their octets.
        held: The most octets that may wait for the rest of their messages.
        selection: What is examined.
        assumptions: What cannot be known from the capture.
        limits: How much is held back.
        joining: As :func:`scapy_mpa.analyze` takes it.
        esp: As :func:`scapy_mpa.analyze` takes it.
        udp_ports: As :func:`scapy_mpa.analyze` takes it.

    Raises:
        CaptureError: Nothing of a capture can be read.
        OSError: A temporary file cannot be written.
    """
    query = query_of(capture, selection, assumptions, limits, joining, esp, udp_ports)
    with CapturedMessages(query, payload=payload, held=held) as found:
        for row, lengths in found.noted_runs():
            yield from messages_of(row, lengths)
