"""What the receiver found, as values: for records, rules and listeners, none of which asks the receiver anything.

Offsets count octets of Full Operation of a direction.  A moment is a frame and its time, nanoseconds since the epoch.
"""

from __future__ import annotations

from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.stream.peer_state import NEVER
from scapy_mpa.tuples import NamedTuple

Moment = tuple[int, int]


class LocatedFPDU(NamedTuple):
    """One FPDU; offsets count octets of Full Operation, times are nanoseconds since the epoch.

    ``known`` is the moment, frame and time, at which it is complete and located: the placed frame unless its CRC is
    bad.  ``crc`` and ``located_by`` are codes of :mod:`scapy_mpa.values.records`.  ``octets`` are all octets of the
    FPDU; of one that a snapshot length cut, those before the first that is missing.  ``is_damaged``: its CRC is bad,
    or there is none, and a segment that brought it has a wrong TCP checksum, for which its receiver drops it.
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
    is_damaged: bool = False


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
