"""Calls of the upper layer and their replies: the row of a call has the frame of its reply, and how long that took.

:class:`~scapy_mpa.rdmap.assembly.ConnectionMessages` finds the call that a Send is or replies to, right before the Send
goes into the store. So :class:`LinkedConnection` remembers it, and :class:`CallLinks` stands before the store. Requests
of SMB2, which say nothing of memory once they are answered, are known only by their MessageId.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.messages.row import MessageValues
from scapy_mpa.messages.smb2 import UpperLayerWithSMB2
from scapy_mpa.rdmap.assembly import ConnectionMessages, MessageRows
from scapy_mpa.rdmap.links import MOST_REQUESTS, AnswerValues, Call
from scapy_mpa.ulp.header import Naming, UpperHeader

_HALF, _ULP, *_REPLY = (
    MessageValues._fields.index(name)
    for name in ("half", "ulp", "first_frame", "last_frame", "first_time", "time", "octets")
)


class LinkedConnection(ConnectionMessages):
    """The messages of a connection, and the call that the latest Send with a header is or replies to."""

    def __init__(
        self,
        serial: int,
        request: StartupFrame | None,
        reply: StartupFrame | None,
        responder_port: int,
        limits: tuple[int | None, int | None],
    ) -> None:
        super().__init__(serial, request, reply, responder_port, limits)
        self.upper = UpperLayerWithSMB2(request, reply, responder_port)
        self._latest: tuple[Call, bool] | None = None

    def call(
        self, header: UpperHeader | Naming, is_initiator: bool, first_frame: int, time: int
    ) -> tuple[Call | None, bool]:
        """Return the call that a message is, or that it replies to; and True if it is a reply."""
        call, is_reply = super().call(header, is_initiator, first_frame, time)
        self._latest = None if call is None else (call, is_reply)
        return call, is_reply

    def take_latest(self) -> tuple[Call, bool] | None:
        """Return, once, the call of the latest Send, and True if the Send is its reply."""
        latest, self._latest = self._latest, None
        return latest


class CallLinks:
    """Hands messages on to a store, and has it keep with each call what its reply was.

    Args:
        store: Takes the messages.
        connections: Those that the messages belong to, by serial.
    """

    def __init__(self, store: MessageRows, connections: Mapping[int, LinkedConnection]) -> None:
        self._store = store
        self._connections = connections
        #: Calls without a reply, the oldest first, and what the store calls their rows; those of SMB2 by half
        #: connection and MessageId.
        self._numbers: dict[Call | tuple[int, int], int] = {}

    def add(self, row: tuple[Any, ...]) -> int:
        """Take the values of a message; return what :meth:`answer` wants to know of it."""
        number = self._store.add(row)
        linked = None if row[_ULP] is None else self._linked(row[_HALF], row[_ULP][0])
        if linked is None:
            return number
        call, is_reply = linked
        if not is_reply:
            self._numbers[call] = number
            if len(self._numbers) > MOST_REQUESTS:
                del self._numbers[next(iter(self._numbers))]
        elif (asked := self._numbers.pop(call, None)) is not None:
            first_frame, frame, first_time, time, octets = (row[field] for field in _REPLY)
            self._store.answer(asked, (first_frame, frame, first_time, time, octets))
        return number

    def _linked(self, half: int, ulp: dict[str, Any]) -> tuple[Call | tuple[int, int], bool] | None:
        """Return the call that a Send of a half connection is or replies to, and True if it replies."""
        smb2 = ulp.get("smb2")
        if smb2 is None:
            return self._connections[half // 2].take_latest()
        is_response = smb2["is_response"]
        return (half ^ is_response, smb2["message_id"]), is_response

    def answer(self, number: int, answer: AnswerValues) -> None:
        """Keep the answer to a Read or Atomic Request."""
        self._store.answer(number, answer)
