"""What the receiver found, as values: for records, rules and listeners, none of which asks the receiver anything.

Offsets count octets of Full Operation of a direction.  A moment is a frame and its time, nanoseconds since the epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from scapy_mpa.stream.drop_reason import DropReason

Moment = tuple[int, int]

#: Beside the codes of :mod:`scapy_mpa.values.records`: not all octets of the FPDU are in the capture file.
CUT: Final = 3


class LocatedFPDU(NamedTuple):
    """One FPDU; offsets count octets of Full Operation, times are nanoseconds since the epoch.

    ``known`` is the moment, frame and time, at which it is complete and located: the placed frame unless its CRC is bad.
    ``crc`` and ``located_by`` are codes of :mod:`scapy_mpa.values.records`.  ``octets`` are all octets of the FPDU, none
    where a snapshot length cut some off.
    """

    offset: int
    header: int
    ulpdu_length: int
    end: int
    markers: int
    crc: int
    located_by: int
    frames: tuple[int, ...]
    complete: Moment
    known: Moment
    opcode: int
    octets: memoryview


class Gap(NamedTuple):
    """Octets [start, end) that no frame brought; ``acknowledged``: the peer had them, so the capture lost them."""

    start: int
    end: int
    acknowledged: bool


class LeftOut(NamedTuple):
    """Octets [start, end) that were not believed, the frame that brought the first, and why."""

    start: int
    end: int
    frame: int
    reason: DropReason


class Contradiction(NamedTuple):
    """A Marker and ULPDU_Length name different starts (RFC 5044 §8, code 3): the FPDU's start, the Marker, the moment."""

    offset: int
    marker: int
    moment: Moment


class Anomaly(NamedTuple):
    """The first thing in a direction that does not fit: its offset, the moment at which it shows.

    ``code`` is that of the error by which a conforming receiver reports it (RFC 5044 §8), None if it does not.
    """

    offset: int
    frame: int
    time: int
    code: int | None


class Overlap(NamedTuple):
    """Copies of the octets [start, end) differ: the one chosen, the other one, and what decided between them.

    ``decided_by`` is "acknowledged", "crc", "marker", "reason" (the other has a stronger reason to be dropped) or "first".
    """

    start: int
    end: int
    chosen: Moment
    other: Moment
    other_reason: DropReason
    decided_by: str


class Breach(NamedTuple):
    """A rule broken at an offset of the stream, and the frame and time (nanoseconds) at which it shows.

    ``code`` (RFC 5044 §8) and ``topic`` (of the clause) are given where the rule leaves them open; ``is_of_peer``: the
    peer broke it, to which this direction answers.
    """

    rule: str
    offset: int
    frame: int
    time: int
    detail: str
    code: int | None = None
    topic: str = ""
    is_of_peer: bool = False
