"""Upper layers that say what they are given: steps of a scenario, lines, or what else yields items.

Steps are those of ``craft.steps``, for both sides: those of our role are said, one of the other role waits until the
peer has said a message of that kind. A ``read`` or ``atomic`` of ours waits for its answer; one of the peer is answered
by RDMAP. Without a role a step is ours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.conversation import RULES, Conversation
from scapy_mpa.craft.messages import RAW, Carried, Message
from scapy_mpa.craft.steps import VERBS, say
from scapy_mpa.craft.turns import Pause, Say, Step, Streaming
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.framing.role import Role
from scapy_mpa.live.rdmap import (
    AtomicCompleted,
    ImmediateDelivered,
    RDMAPEndpoint,
    RDMAPEvent,
    ReadCompleted,
    RequestTaken,
    SendDelivered,
    TerminateReceived,
    ULPDUTaken,
    WritePlaced,
)
from scapy_mpa.live.speaker import NOT_THE_SAME
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import NamedMemory
from scapy_mpa.ulp.tools import rping_header
from scapy_mpa.values.words import plural

_SECOND = 1_000_000_000
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2}\s*)+")
_ANSWERS = frozenset((ulpdus.READ_RESPONSE, ulpdus.ATOMIC_RESPONSE))
#: What the message of a step is waited for as.
_SENT = frozenset((ulpdus.SEND, ulpdus.SEND_INVALIDATE, ulpdus.SEND_SE, ulpdus.SEND_SE_INVALIDATE))
#: Seconds until somebody who had nothing to say is asked again.
_POLL = 0.05
_LARGEST_SINK = 1 << 26


class Wait(NamedTuple):
    """Continue when this much of this kind of event has arrived."""

    kind: str


class Timed(NamedTuple):
    """Continue after this many seconds."""

    seconds: float


class At(NamedTuple):
    """Continue this many seconds after the first item."""

    seconds: float


class Named(NamedTuple):
    """Say what is made of the memory that the peer names, as soon as it has named some by a message of rping."""

    message_of: Callable[[NamedMemory], Message]


Item: TypeAlias = "Message | Wait | Timed | At | Named"


def items_of(steps: Iterable[Step], role: Role) -> Iterator[Item]:
    """Yield what steps mean for a side; raises MPAError for what cannot be sent."""
    for step in steps:
        if isinstance(step, Pause):
            yield Timed(step.duration / _SECOND)
        elif isinstance(step, Streaming):
            raise MPAError("streaming data cannot be sent here: MPA starts at once")
        elif isinstance(step, Say):
            message = step.message
            if step.role == role and message.opcode not in _ANSWERS:
                yield message
            elif step.role != role and (kind := _kind(message.opcode)) is not None:
                yield Wait(kind)


def step_items(step: str, role: Role, conversation: Conversation) -> Iterator[Item]:
    """Yield what one step means for a side. Raises ConversationError for an invalid step, MPAError for what cannot be
    sent.
    """
    before = len(conversation.steps)
    say(conversation, step, by=role)
    found = conversation.steps[before:]
    # Steps are said once; what they have in common (made up octets) is in the conversation.
    del conversation.steps[before:]
    return items_of(found, role)


def line_items(line: str, role: Role, conversation: Conversation) -> Iterator[Item]:
    """Yield what a line means: a ULPDU in hexadecimal, or a step; nothing if it is empty or begins with #."""
    line = line.strip()
    if not line or line.startswith("#"):
        return
    if _HEXADECIMAL.fullmatch(line) and not line.startswith(VERBS):
        yield Message(RAW, bytes.fromhex(line))
    else:
        yield from step_items(line, role, conversation)


def speech() -> Conversation:
    """Return the conversation to which a side's steps are added: the endpoint applies the rules of MPA."""
    return Conversation(allow=tuple(RULES))


def _kind(opcode: int) -> str | None:
    if opcode in _SENT:
        return "send"
    kinds = {
        ulpdus.RDMA_WRITE: "write",
        ulpdus.READ_REQUEST: "request",
        ulpdus.ATOMIC_REQUEST: "request",
        ulpdus.READ_RESPONSE: "answer",
        ulpdus.ATOMIC_RESPONSE: "answer",
        ulpdus.IMMEDIATE: "immediate",
        ulpdus.IMMEDIATE_SE: "immediate",
        ulpdus.TERMINATE: "terminate",
    }
    return kinds.get(opcode)


_KINDS: dict[type, str] = {
    SendDelivered: "send",
    RequestTaken: "request",
    ReadCompleted: "answer",
    AtomicCompleted: "answer",
    ImmediateDelivered: "immediate",
    TerminateReceived: "terminate",
}


class Script:
    """Sends items one after the other, when they can be sent.

    Args:
        rdmap: sends its messages.
        items: what to say, drawn as it is said; ``None`` in it means that more may come later.
        wait: seconds to listen after the last of them.
        ends: nothing more comes after the last item; without it the peer ends the connection.
        doubt: why a peer may fall silent, or close before everything was sent.
    """

    def __init__(
        self,
        rdmap: RDMAPEndpoint,
        items: Iterable[Item | None],
        *,
        wait: float = 0.0,
        ends: bool = True,
        doubt: str = NOT_THE_SAME,
    ) -> None:
        self._rdmap = rdmap
        self._items = iter(items)
        self._wait = wait
        self._ends = ends
        self._doubt = doubt
        self._came: Counter[str] = Counter()
        self._waits_for: str | None = None
        #: Memory that the peer named, and what is said about it as soon as it has.
        self._memory: NamedMemory | None = None
        self._named: Named | None = None
        self._until: float | None = None
        self._start = 0.0
        self._is_over = False
        self._end: float | None = None
        self.is_done = False
        self._said = self._ulpdus = 0

    @property
    def summary(self) -> str:
        """How much it sent, and how much it received if that is not examined."""
        heard = f", received {plural(self._ulpdus, 'ULPDU')}" if self._ulpdus else ""
        return f"sent {plural(self._said, 'message')}{heard}"

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close before everything was sent."""
        return self._doubt

    def begin(self) -> None:
        """Do nothing: it begins in ``go_on``."""

    def take(self, event: RDMAPEvent) -> None:
        """Something came that a step may wait for."""
        if isinstance(event, ULPDUTaken):
            self._ulpdus += 1
        elif isinstance(event, WritePlaced):
            self._came["write"] += event.last
        else:
            if isinstance(event, SendDelivered):
                header = rping_header(event.payload, len(event.payload))
                self._memory = header.named[0] if header is not None and header.named else self._memory
            self._came[_KINDS[type(event)]] += 1

    def go_on(self, now: float) -> float | None:
        """Send what can be sent."""
        self._start = self._start or now
        while not self._is_over:
            if self._waits_for is not None:
                if not self._came[self._waits_for]:
                    return None
                self._came[self._waits_for] -= 1
                self._waits_for = None
            if self._until is not None:
                if now < self._until:
                    return self._until
                self._until = None
            item = self._named or next(self._items, self)
            self._named = None
            if item is None:
                return now + _POLL
            if isinstance(item, Named):
                if self._memory is None:
                    self._named = item
                    return None
                item = item.message_of(self._memory)
            if isinstance(item, Message):
                self._say(item)
                return None
            if isinstance(item, Wait):
                self._waits_for = item.kind
            elif isinstance(item, Timed):
                self._until = now + item.seconds
            elif isinstance(item, At):
                self._until = self._start + item.seconds
            else:
                self._is_over = True
        if not self._ends:
            return None
        if self._end is None:
            self._end = now + self._wait
        if now < self._end:
            return self._end
        self.is_done = True
        return None

    def _say(self, message: Message) -> None:
        if message.opcode == ulpdus.READ_REQUEST:
            self._prepare_sink(message.payload)
        self._rdmap.say(message)
        self._said += 1

    def _prepare_sink(self, body: Carried) -> None:
        """The octets of a Read have a place to go to, if no buffer was registered for them."""
        asked = read_requests(body[:])
        if not asked or not asked[0].size or asked[0].sink_stag in self._rdmap.buffers:
            return
        if asked[0].size > _LARGEST_SINK:
            raise MPAError(f"an RDMA Read of {asked[0].size} octets; at most {_LARGEST_SINK} can be placed")
        self._rdmap.register(bytearray(asked[0].size), stag=asked[0].sink_stag, to=asked[0].sink_to)
