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
    ends = {role: life.half(role) for role in ROLES}
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
        "unacknowledged_octets": {role: end.unacknowledged_octets for role, end in ends.items()},
        "unacknowledged_messages": {role: end.unacknowledged_messages for role, end in ends.items()},
        "closed": {role: end.closed for role, end in ends.items()},
        "closed_frame": {role: end.closed_frame for role, end in ends.items()},
        "reset_by": life.reset_by,
        "reset_frame": life.reset_frame,
        "resets": {role: end.resets for role, end in ends.items()},
        "retransmissions": {role: connection.half(role).counts.retransmitted_segments for role in ROLES},
        "verdict": verdict,
        "startup": [event_as_dict(one) for one in events],
    }


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
