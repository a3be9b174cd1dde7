"""A captured connection as the parameters and the steps of one that can be sent again."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scapy_mpa.craft.again import longest, steps_of
from scapy_mpa.craft.conversation import RULES, Conversation
from scapy_mpa.craft.setup import Setup
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.mulpdu import MIN_MULPDU
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.values.lifecycle import Lifecycle

if TYPE_CHECKING:
    from scapy_mpa.report.connection import Connection

_NANOSECONDS = 1_000_000_000
C = TypeVar("C", bound=Conversation)
C_co = TypeVar("C_co", bound=Conversation, covariant=True)


class Made(Protocol[C_co]):
    """Makes a conversation of parameters."""

    def __call__(self, **parameters: Any) -> C_co:
        """The conversation, without steps."""


def chosen(connections: list[Connection], number: int) -> Connection:
    """The connection with a number. Raises MPAError if there is none."""
    if 0 <= number < len(connections):
        return connections[number]
    there = len(connections)
    numbers = f"0 to {there - 1}" if there > 1 else "only 0" if there else "none"
    raise MPAError(f"there is no connection {number}; the capture has {numbers}")


def said_again(
    connection: Connection, make: Made[C], *, as_messages: bool, pauses: float | None, parameters: dict[str, Any]
) -> C:
    """Return what was sent on a connection, to be sent again; ``parameters`` override those that were captured."""
    said = list(connection.said())
    found = _parameters(connection)
    if as_messages:
        most = longest(said)
        found["mulpdu"] = tuple(most.get(role) and max(most[role], MIN_MULPDU) for role in ROLES)
    again = make(**{**found, **parameters})
    pause = None if pauses is None else round(pauses * _NANOSECONDS)
    steps = steps_of(said, as_messages=as_messages, pause_ns=pause, version=again.setup.ddp_version)
    if again.setup.specification.startup_frames:
        again.start()
    again.steps += steps
    return again


def _parameters(connection: Connection) -> dict[str, Any]:
    """The parameters by which a connection is what it was; rules that it breaks are allowed."""
    ends = [_end(connection.half(role).endpoint) for role in ROLES]
    startups = connection.request, connection.reply
    close, closes = _close(connection.lifecycle)
    found: dict[str, Any] = {
        "initiator": ends[0][0],
        "responder": ends[1][0],
        "ports": (ends[0][1], ends[1][1]),
        "profile": connection.profile.name,
        "isn": tuple(_isn(connection, role) for role in ROLES),
        "time": connection.lifecycle.first[1] / _NANOSECONDS,
        "close": close,
        "closes": closes,
        "deviation": tuple(connection.half(role).deviation or "" for role in ROLES),
        "allow": tuple(RULES),
    }
    crc, markers = connection.crc, [connection.half(role).markers for role in ROLES]
    if connection.profile.startup_frames:
        # M asks for Markers in what its sender receives.
        found["m"] = tuple(
            frame.m if frame is not None else int(bool(markers[1 - side])) for side, frame in enumerate(startups)
        )
        found["c"] = tuple(frame.c if frame is not None else int(bool(crc)) for frame in startups)
        found["rev"] = tuple(frame.rev if frame is not None else None for frame in startups)
        found["reject"] = bool(connection.rejected)
        found["private_data"] = tuple(frame.ulp_data if frame is not None else b"" for frame in startups)
        found["enhanced"] = tuple(
            (frame.enhanced if frame is not None and frame.enhanced is not None else False) for frame in startups
        )
        found["frames"] = tuple(_frames(startups, Setup(**found)))
    found["markers"] = tuple(
        None if has is None or has == Setup(**found).has_markers(role) else has
        for role, has in zip(ROLES, markers, strict=True)
    )
    return found


def _frames(startups: tuple[StartupFrame | None, ...], setup: Setup) -> Iterator[bytes | None]:
    """The octets of startup frames that parameters do not make; b"" for one that was not captured."""
    for role, frame in zip(ROLES, startups, strict=True):
        octets = frame.encode() if frame is not None else b""
        yield None if octets == setup.startup_octets(role) else octets


def _end(endpoint: str) -> tuple[str, int]:
    """The address and the port in ``address:port``."""
    address, _, port = endpoint.rpartition(":")
    return str(ipaddress.ip_address(address.strip("[]"))), int(port)


def _isn(connection: Connection, role: Role) -> int | None:
    """Return the sequence number before the first one of this side's MPA octets; None if nothing was captured."""
    seq = connection.request_seq if role == "initiator" else connection.reply_seq
    if seq is None:
        seq = connection.half(role).seq_start
    return None if seq is None else seq - 1 & SEQ_MASK


def _close(life: Lifecycle) -> tuple[str, Role]:
    """Return how the TCP connection ended, and by which side."""
    closed = [(end.closed_frame, role) for role in ROLES if (end := life.half(role)).closed == "fin"]
    fins = [(frame, role) for frame, role in closed if frame is not None]
    if fins:
        return "fin", min(fins)[1]
    if life.reset_by is not None:
        return "rst", life.reset_by
    return "none", "initiator"
