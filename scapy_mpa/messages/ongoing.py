"""The messages of ongoing captures: each is shown when it is complete, and released.

So a Request says nothing of its answer, which comes later. Behind octets that were never captured, segments are put
together as they come: nothing is delivered there later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from scapy_mpa.analyzer.connection import CapturedConnection
from scapy_mpa.framing.role import ROLES
from scapy_mpa.messages.hearing import HalfReading, MessageListener
from scapy_mpa.messages.row import MessageRow, MessageValues, row_of
from scapy_mpa.messages.times import FrameTimes
from scapy_mpa.rdmap.assembly import (
    DEFAULT_HELD,
    Assembly,
    ConnectionMessages,
    DDPSegment,
    LatestPayload,
    MessageHalf,
)
from scapy_mpa.rdmap.links import AnswerValues


class OngoingMessages(MessageListener):
    """Hands on each message when it is whole.

    Args:
        show: takes a message, and what is known about its connection.
        payload: whether messages have their octets.
        held: octets of messages that wait for the rest of these at most.
    """

    def __init__(
        self, show: Callable[[MessageRow, ConnectionMessages], None], *, payload: bool = False, held: int = DEFAULT_HELD
    ) -> None:
        self._show = show
        self._payload = LatestPayload() if payload else None
        self._held = held
        super().__init__()

    def begin(self) -> None:
        """Forget what was received."""
        super().begin()
        self.times, self.acks = FrameTimes(keeps_all=False), FrameTimes(keeps_all=False, field="ack")
        self.assembly = Assembly(self, self._payload, self._held, self.acknowledged)

    def serial(self, mpa: object) -> int:
        """The number of a connection: it is the one that it was given first."""
        return cast(CapturedConnection, mpa).number

    def forget(self, mpa: CapturedConnection) -> None:
        """A connection is over: what waits is shown, and nothing of it is kept."""
        connection = self._connections.get(mpa.number)
        if connection is not None:
            self._give_up(connection)
            self.assembly.finish(connection)
            del self._connections[mpa.number]
            self._gapped.discard(mpa.number)
        for operation in mpa.operations.values():
            reading = self.readings.pop(operation, None)
            if reading is not None:
                self._operations.pop(reading.half.half, None)

    def add(self, row: tuple[object, ...]) -> int:
        """A message is whole, or no more of it comes."""
        values = MessageValues._make(row)
        serial, side = divmod(values.half, 2)
        payload = self._payload.take() if self._payload is not None else None
        self._show(row_of(values, serial, ROLES[side], None, payload), self._connections[serial])
        return 0

    def answer(self, _number: int, _answer: AnswerValues) -> None:
        """The Request was shown."""

    def _take_behind_gap(self, reading: HalfReading, offset: int, end: int, segment: DDPSegment) -> None:
        self.assembly.take(reading.half, segment)

    def _deliver_behind_gap(self, half: MessageHalf, offset: int, frame: int) -> None:
        """Do nothing: it was reassembled already."""
