"""Which part of a connection is worth a look."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scapy_mpa.framing.role import Role
from scapy_mpa.plot.order import is_out_of_order
from scapy_mpa.plot.view import Stretch, Subject
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Finding
from scapy_mpa.tuples import NamedTuple

#: Segments of a half connection on either side of what a stretch is about; a half with no more than both is whole.
_AROUND = 24


class Glimpse(NamedTuple):
    """A stretch of a connection that is drawn closely: of whom, which frames, and why these."""

    directions: tuple[Role, ...]
    window: Stretch
    why: str


def glimpses(subject: Subject) -> Iterator[Glimpse]:
    """The stretches of a connection that are worth a look: around its gravest finding, and where most was held."""
    connection = subject.connection
    there = [one for one in subject.directions if connection.half(one).counts.segments]
    if not there:
        return
    if all(len(subject.track(direction).frames) <= 2 * _AROUND for direction in there):
        yield Glimpse(tuple(there), Stretch(), "all of it")
        return
    first = _first_finding(connection, there)
    if first is not None and first.severity != "note":
        yield _around(subject, first)
    peaks = [(subject.buffers(one).held["order"], one) for one in there if len(connection.half(one).fpdus)]
    held, direction = max(peaks, key=lambda peak: peak[0].peak, default=(None, there[0]))
    # What waits for the rest of an FPDU that spans segments waits for no order.
    if held is not None and held.peak_frame is not None and is_out_of_order(connection):
        why = f"where most octets waited for order: {held.peak:,} at frame {held.peak_frame}"
        yield _at(subject, direction, held.peak_frame, why)
    elif first is not None and first.severity == "note":
        yield _around(subject, first)
    elif first is None:
        direction = max(there, key=lambda one: len(subject.track(one).frames))
        yield _at(subject, direction, subject.track(direction).frames[0], "how it begins")


def _first_finding(connection: Connection, directions: Iterable[Role]) -> Finding | None:
    """The gravest finding that has a place in one of the streams."""
    kept = {*directions}
    return next((found for found in connection.findings if found.direction in kept), None)


def _around(subject: Subject, found: Finding) -> Glimpse:
    direction: Role = "initiator" if found.direction == "initiator" else "responder"
    return _at(subject, direction, found.frame, f"around {found.severity} {found.rule.id}, frame {found.frame}")


def _at(subject: Subject, direction: Role, frame: int, why: str) -> Glimpse:
    frames = subject.track(direction).frames
    if len(frames) <= 2 * _AROUND:
        return Glimpse((direction,), Stretch(), why)
    place = subject.track(direction).index_of(frame)
    first = min(max(0, place - _AROUND), len(frames) - 1 - 2 * _AROUND)
    return Glimpse((direction,), Stretch((frames[first], frames[first + 2 * _AROUND])), why)
