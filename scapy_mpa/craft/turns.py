"""The steps of a conversation as values, and the turns in which each side speaks.

What a side says without being answered and without a pause is one turn, which its TCP may cut in segments as one
stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.setup import Close
from scapy_mpa.framing.ddp import CONTROL_LENGTH, OPCODE_NAMES, opcode_of
from scapy_mpa.framing.role import Role
from scapy_mpa.tuples import NamedTuple


class Start(NamedTuple):
    """Request and Reply."""


class Streaming(NamedTuple):
    """Data before MPA, or after it was rejected."""

    role: Role
    octets: bytes


@dataclass(frozen=True)
class Say:
    """A message, or a bare ULPDU."""

    role: Role
    message: Message


class Pause(NamedTuple):
    """Nobody sends for a while (nanoseconds): buffers empty, alignment is regained (RFC 5044 §5.1)."""

    duration: int


class PathMTU(NamedTuple):
    """The path takes less, or more, from now on; the next turn was posted before that was known (§A.1)."""

    mtu: int


class End(NamedTuple):
    """How the connection ends, and by which side."""

    how: Close
    role: Role


Step: TypeAlias = "Start | Streaming | Say | Pause | PathMTU | End"


def turns(steps: Sequence[Step]) -> Iterator[tuple[Step, list[Message]]]:
    """Return the steps, each on its own and without messages; those that send something are grouped into turns."""
    at = 0
    while at < len(steps):
        step = steps[at]
        messages: list[Message] = []
        if isinstance(step, Say):
            while at < len(steps) and isinstance(said := steps[at], Say) and said.role == step.role:
                messages.append(said.message)
                at += 1
        else:
            at += 1
        yield step, messages


def step_text(step: Step) -> str:
    """A step in a few words."""
    if isinstance(step, Say):
        message = step.message
        name = message.name
        if message.opcode == RAW:
            opcode = opcode_of(bytes(message.payload[:CONTROL_LENGTH]))
            known = OPCODE_NAMES[opcode] if opcode is not None else None
            name += f" ({known})" if known is not None else ""
        wrong = [
            f"{name} {value.hex() if isinstance(value, bytes) else f'{value:#x}'}"
            for name, value in (("CRC", message.crc), ("PAD", message.pad), ("ULPDU_Length", message.ulpdu_length))
            if value is not None
        ]
        return ", ".join([f"{step.role} {name}, {len(message.payload)} octets", *wrong])
    if isinstance(step, Streaming):
        return f"{step.role} streaming data, {len(step.octets)} octets"
    if isinstance(step, Pause):
        return f"pause of {step.duration / 1_000_000_000:.6f} s"
    if isinstance(step, PathMTU):
        return f"path MTU {step.mtu}"
    if isinstance(step, End):
        return "no end" if step.how == "none" else f"{step.how.upper()} by the {step.role}"
    return "Request and Reply"
