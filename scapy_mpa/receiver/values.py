"""What the receiver found, as values: for records, rules and listeners, none of which asks the receiver anything.

Offsets count octets of Full Operation of a direction.  A moment is a frame and its time, nanoseconds since the epoch.
"""

from __future__ import annotations

from typing import Any, Final

from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.stream.peer_state import NEVER
from scapy_mpa.tuples import NamedTuple

Moment = tuple[int, int]


class LocatedFPDU:
    """One FPDU; offsets count octets of Full Operation.  Nobody changes one.

    Attributes:
        offset: of its first octet, a Marker maybe; ``header`` that of its ULPDU_Length, ``end`` the one after its CRC.
        ulpdu_length: octets of its ULPDU.
        markers: how many it holds.
        crc: a code of :mod:`scapy_mpa.values.records`, and ``located_by`` another one.
        frames: those that brought its octets, ascending.
        complete: the moment at which all of them were there.
        known: the moment at which it is complete and located: the placed frame unless its CRC is bad.
        opcode: of RDMAP, NO_OPCODE if there is none.
        octets: all of it; where a snapshot length cut it, those before the first that is missing.
        is_damaged: whether its CRC is bad, or there is none, and a segment that brought it has a wrong TCP checksum,
            for which its receiver drops it.
    """

    __slots__ = (
        "complete", "crc", "end", "frames", "header", "is_damaged", "known", "located_by", "markers", "octets",
        "offset", "opcode", "ulpdu_length",
    )  # fmt: skip

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
    is_damaged: bool

    def found_by(self, located_by: int) -> LocatedFPDU:
        """The same FPDU, located in another way."""
        return located_fpdu(
            self.offset, self.header, self.ulpdu_length, self.end, self.markers, self.crc, located_by, self.frames,
            self.complete, self.known, self.opcode, self.octets, self.is_damaged,
        )  # fmt: skip

    def replace(self, **changes: Any) -> LocatedFPDU:
        """The same FPDU with other values."""
        return located_fpdu(**({name: getattr(self, name) for name in _FIELDS} | changes))


_FIELDS: Final = (
    "offset", "header", "ulpdu_length", "end", "markers", "crc", "located_by", "frames", "complete", "known", "opcode",
    "octets", "is_damaged",
)  # fmt: skip


def located_fpdu(
    offset: int,
    header: int,
    ulpdu_length: int,
    end: int,
    markers: int,
    crc: int,
    located_by: int,
    frames: tuple[int, ...],
    complete: Moment,
    known: Moment,
    opcode: int,
    octets: memoryview,
    is_damaged: bool = False,
) -> LocatedFPDU:
    """Return a :class:`LocatedFPDU` of these values: a function in C takes numbers as they are, a class does not."""
    one = LocatedFPDU.__new__(LocatedFPDU)
    one.offset, one.header, one.ulpdu_length, one.end = offset, header, ulpdu_length, end
    one.markers, one.crc, one.located_by, one.frames = markers, crc, located_by, frames
    one.complete, one.known, one.opcode = complete, known, opcode
    one.octets, one.is_damaged = octets, is_damaged
    return one


class Gap(NamedTuple):
    """Octets [start, end) that no frame brought, as ``moment`` shows: that of what was captured after them.

    ``acknowledged``: the peer had them, so the capture lost them.
    """

    start: int
    end: int
    acknowledged: bool
    moment: Moment


class LeftOut(NamedTuple):
    """Octets [start, end) that were not believed, the moment of the segment that brought the first, and why.

    ``expected`` is the offset up to which octets had been read; ``until`` the last frame that had been captured, if
    more came since.
    """

    start: int
    end: int
    frame: int
    time: int
    reason: DropReason
    expected: int
    until: int = NEVER


class Contradiction(NamedTuple):
    """A Marker and ULPDU_Length name different starts (RFC 5044 §8, code 3), as ``moment`` shows.

    ``offset`` is where the FPDU begins by length, ``marker`` where the Marker stands, ``fpduptr`` what it says.
    ``is_damaged``: a segment that brought either has a wrong TCP checksum, for which its receiver drops it.
    """

    offset: int
    marker: int
    fpduptr: int
    moment: Moment
    is_damaged: bool = False


class LimitMet(NamedTuple):
    """A limit bit in a direction of the TCP connection: at an offset, at a moment, and which one, in words."""

    side: int
    offset: int
    frame: int
    time: int
    detail: str


class Anomaly(NamedTuple):
    """The first thing in a direction that does not fit: its offset, the moment at which it shows.

    ``code`` is that of the error by which a conforming receiver reports it (RFC 5044 §8), None if it does not.
    """

    offset: int
    frame: int
    time: int
    code: int | None


class Rest(NamedTuple):
    """Octets [start, end) at the end of a direction that belong to no FPDU that was read.

    ``is_located``: an FPDU is known to begin at ``start``; ``moment`` is that of the last of them; ``is_doubtful``:
    their receiver may have dropped all of them.
    """

    start: int
    end: int
    is_located: bool
    moment: Moment
    is_doubtful: bool = False


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
