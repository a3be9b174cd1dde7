"""The frames of a TCP connection that belong to one MPA connection, where several use the same addresses and ports."""

from __future__ import annotations

from itertools import islice

from scapy_mpa.capture.extract import ConnectionFrames
from scapy_mpa.framing.role import ROLES
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.report.show import startup_frames


def extent(report: Report, connection: Connection, conversation: ConnectionFrames) -> tuple[int, int | None]:
    """The first and the last frame of a connection; None if it lasts as long as the capture.

    It begins with its SYN, or with its first frame if that was not captured, or with the capture if there is none
    before it; it ends before the next one begins, or with its last FPDU if that comes later. The report must hold
    FPDUs.
    """
    key = {connection.half(direction).key for direction in ROLES}
    there = (other for other in report.connections if other.initiator.key in key)
    same = [other for other in there if not other.is_apart_from(connection)]
    place = next(number for number, other in enumerate(same) if other is connection)
    first = _begin(same, place, conversation)
    if place + 1 == len(same):
        return first, None
    brought = (max(record.frames) for direction in ROLES for record in connection.half(direction).fpdus)
    return first, max(_begin(same, place + 1, conversation) - 1, max(brought, default=0))


def _begin(same: list[Connection], place: int, conversation: ConnectionFrames) -> int:
    known = _first_known(same[place])
    before = _first_known(same[place - 1]) if place else 0
    syn = conversation.begin_of(known, before)
    return min(syn, known) if syn else known if place else 1


def _first_known(connection: Connection) -> int:
    """The first frame that is known to be of a connection."""
    frames = {frame for direction in ROLES for frame in startup_frames(connection, direction)}
    for direction in ROLES:
        frames.update(record.frames[0] for record in islice(connection.half(direction).fpdus, 1))
    return min(frames, default=1)
