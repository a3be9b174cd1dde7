"""The lifecycle of a connection, from its first frame to its last: the keys of the JSON, and a line of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scapy_mpa.framing.role import ROLES
from scapy_mpa.report.beginning import event_as_dict
from scapy_mpa.report.circumstances import JudgedConnection
from scapy_mpa.values.segment import is_stream
from scapy_mpa.values.startup import StartupEvent
from scapy_mpa.values.words import plural

_NANOSECONDS = 1_000_000_000


def lifecycle_as_dict(connection: JudgedConnection, verdict: str, events: Sequence[StartupEvent]) -> dict[str, Any]:
    """The lifecycle of a connection with the keys of the report's JSON; times and duration are in seconds.

    ``verdict`` is the sentence that says what became of it, ``events`` are what was sent while MPA was started.
    """
    life = connection.lifecycle
    (first_frame, first_time), (last_frame, last_time) = life.first, life.last
    one, other = life.initiator, life.responder
    again = [connection.half(role).counts.retransmitted_segments for role in ROLES]
    return {
        "first_frame": first_frame,
        "first_time": first_time / _NANOSECONDS,
        "last_frame": last_frame,
        "last_time": last_time / _NANOSECONDS,
        "duration": (last_time - first_time) / _NANOSECONDS,
        "ended": life.ended,
        "ended_by": life.ended_by,
        "ended_frame": life.ended_frame,
        "unfinished": life.is_unfinished,
        "unacknowledged_octets": _both(one.unacknowledged_octets, other.unacknowledged_octets),
        "unacknowledged_messages": _both(one.unacknowledged_messages, other.unacknowledged_messages),
        "closed": _both(one.closed, other.closed),
        "closed_frame": _both(one.closed_frame, other.closed_frame),
        "reset_by": life.reset_by,
        "reset_frame": life.reset_frame,
        "resets": _both(one.resets, other.resets),
        "retransmissions": _both(*again),
        "verdict": verdict,
        "startup": [event_as_dict(event) for event in events],
    }


def _both(initiator: int | str | None, responder: int | str | None) -> dict[str, int | str | None]:
    return {"initiator": initiator, "responder": responder}


def lifecycle_line(connection: JudgedConnection, protocol: str | None = None) -> str:
    """Its first and last frame, how long it took, retransmissions, and the upper layer, if that is known.

    Of octets without packets, how many of Full Operation there are.
    """
    life = connection.lifecycle
    (first_frame, first_time), (last_frame, last_time) = life.first, life.last
    if is_stream(connection.half("initiator").key):
        octets = (f"{plural(connection.half(role).counts.stream_octets, 'octet')} of the {role}" for role in ROLES)
        return ", ".join(octets) + (f", {protocol}" if protocol is not None else "")
    again = sum(connection.half(role).counts.retransmitted_segments for role in ROLES)
    said = f"frames {first_frame} to {last_frame}, {(last_time - first_time) / _NANOSECONDS:.6f} s"
    said += f", {plural(again, 'retransmission')}" if again else ""
    return said + (f", {protocol}" if protocol is not None else "")
