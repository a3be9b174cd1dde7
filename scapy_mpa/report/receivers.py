"""What implementations that we have observed do about what a capture holds: where they would end a connection, or
continue.

A row stands for something that a side sends, by the rule that it breaks or by a field of its startup frame, and for
what the implementation did when it received that.  Each has a capture of the real implementation
(``pcaps/siw-deviations``); nothing is said about what nobody has captured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import NOT_NEGOTIATED, StartupFrame
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple

#: Octets of Private Data that siw takes.
_SIW_PRIVATE_DATA = 256


class Habit(NamedTuple):
    """A row.

    Attributes:
        sent: the rule that is broken, or what the startup frame has.
        by: its sender; None: either side.
        does: what the implementation does then, in words.
        ends: it ends the connection, or refuses it; else it continues.
        evidence: the case of ``probe`` that showed it, which names the capture.
    """

    sent: str
    by: Role | None
    does: str
    ends: bool
    evidence: str


#: What may be said about a startup frame in ``Habit.sent``.
_FRAMES: Mapping[str, Callable[[StartupFrame], bool]] = {
    "M in the Request": lambda frame: bool(frame.m),
    "more than 256 octets of Private Data": lambda frame: frame.pd_length > _SIW_PRIVATE_DATA,
    "Rev 0": lambda frame: frame.rev == 0,
    "an ORD of 0x3FFF": lambda frame: frame.enhanced is not None and frame.enhanced.ord == NOT_NEGOTIATED,
}
_LAYOUT = "its control word laid out from the least significant bit"
RECEIVERS: Mapping[str, tuple[Habit, ...]] = {
    "siw": (
        Habit("M in the Request", "initiator", "rejects the connection (R in its Reply)", True, "valid-m1-c1"),
        Habit("more than 256 octets of Private Data", "initiator", "closes without a Reply", True,
              "request-private-data-257"),
        Habit("Rev 0", "initiator", "accepts it, and sends a Terminate at the first DDP Segment", True,
              "rev-0-without-m-and-c"),
        Habit("an ORD of 0x3FFF", "initiator", "answers an IRD of 128, and continues", False, "valid-ird-8-ord-16383"),
        Habit("startup-enhanced-data", "responder", "continues, and sends an FPDU", False, "reply-s-with-pd-length-3"),
        Habit("enhanced-connection-model", "responder", "continues, and sends nothing", False,
              "control-flag-a-in-the-reply-alone"),
        Habit("crc", None, f"sends a Terminate for the CRC, or for the fields of the DDP header, {_LAYOUT}", True,
              "crc-zero"),
        Habit("ddp-opcode", None, f"sends a Terminate, {_LAYOUT}, or for another error", True, "opcode-12"),
        Habit("ddp-queue", None, "sends a Terminate for another error", True, "queue-send-1"),
        Habit("ddp-to-wraps", None, "sends a Terminate for another error", True, "to-wraps"),
    ),
}  # fmt: skip


class Would(NamedTuple):
    """What a receiver would have done about what ``direction`` sent, and at which frame of the capture."""

    frame: int
    direction: Role
    habit: Habit

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        habit = self.habit
        return {
            "frame": self.frame, "direction": self.direction, "sent": habit.sent, "does": habit.does,
            "ends": habit.ends, "evidence": habit.evidence,
        }  # fmt: skip


def would_do(connection: Connection, receiver: str) -> list[Would]:
    """Return what a receiver, by its name in `RECEIVERS`, would have done, up to where it would have ended it."""
    found = sorted(_all(connection, RECEIVERS[receiver]), key=lambda one: one.frame)
    ends = next((at for at, one in enumerate(found) if one.habit.ends), len(found))
    return found[: ends + 1]


def _all(connection: Connection, habits: tuple[Habit, ...]) -> Iterator[Would]:
    request, frame = connection.request, connection.request_frame
    for habit in habits:
        is_so = _FRAMES.get(habit.sent)
        if is_so is not None:
            if request is not None and frame is not None and is_so(request):
                yield Would(frame, "initiator", habit)
            continue
        for role in ROLES if habit.by is None else (habit.by,):
            frames = [one.frame for one in connection.findings if (one.rule.id, one.direction) == (habit.sent, role)]
            if frames:
                yield Would(min(frames), role, habit)


def receiver_lines(connection: Connection, receiver: str) -> Iterator[str]:
    """Yield what a receiver would have done, for people."""
    for one in would_do(connection, receiver):
        habit = one.habit
        where = f"{receiver} as {peer_of(one.direction)}, at frame {one.frame}"
        yield f"  {where}: {habit.sent}: {habit.does} (as in {habit.evidence})"


def add_receiver(values: dict[str, Any], connections: Mapping[int, Connection], receiver: str) -> dict[str, Any]:
    """Return the JSON of a report, its connections one by one, each with ``receiver``: what that would have done."""

    def with_receiver(values: dict[str, Any]) -> dict[str, Any]:
        found = would_do(connections[values["connection"]], receiver)
        return {**values, "receiver": {"name": receiver, "would": [one.as_dict() for one in found]}}

    return {**values, "connections": (with_receiver(one) for one in values["connections"])}
