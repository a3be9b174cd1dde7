"""FPDUs about which no rule has anything to say: RDMA Writes that go on where the one before ended.

Nearly all octets of a capture are in such.  The reader hands them on together, as a :class:`PlainRun`; all others one
by one.  What is plain depends on what rules have seen, so their owner sets it (:meth:`PlainWrites.allow`); where the
Write goes on is read off the FPDUs.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import Final

from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, TERMINATE_OPCODE
from scapy_mpa.framing.markers import (
    LENGTH_FIELD_LENGTH,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    Origin,
    marker_count,
)
from scapy_mpa.framing.mulpdu import MIN_MULPDU
from scapy_mpa.receiver.values import LocatedFPDU, Moment
from scapy_mpa.stream.peer_state import NEVER
from scapy_mpa.values.octets import append_number, append_octets, fit, fit_octets, head, is_zero, place, with_room, word
from scapy_mpa.values.records import BAD

_LAST: Final = 0x4000
#: The bits of a TO, and those of an offset that tell its place between Markers.
_TO, _PHASE = 0xFFFFFFFFFFFFFFFF, MARKER_INTERVAL - 1
#: Where a Write goes on: nowhere, since none is open; at a place; nobody knows.
_CLOSED, _OPEN, _UNKNOWN = range(3)


def has_usual_octets(octets: Octets, at: int, phase: int, ulpdu_length: int, origin: Origin) -> bool:
    """Return True if the Markers and PAD of a whole FPDU, which begins at an index, are what they have to be.

    ``phase`` is its offset modulo 512, -1 if it holds no Marker.
    """
    unpadded = LENGTH_FIELD_LENGTH + ulpdu_length
    pad = -unpadded & 3
    if phase < 0:
        return is_zero(octets, at + unpadded, pad)
    length = unpadded + pad + CRC_LENGTH
    length += MARKER_LENGTH * marker_count(phase, length)
    end = length - CRC_LENGTH
    if (phase + end) % MARKER_INTERVAL == MARKER_LENGTH:
        end -= MARKER_LENGTH  # a Marker stands between PAD and CRC
    if not is_zero(octets, at + end - pad, pad):
        return False
    # expected_fpduptr() in place.
    counted_from = MARKER_LENGTH if not phase and origin == "header" else 0
    marker = -phase & _PHASE
    while marker < length:
        if word(octets, at + marker) != ((marker - counted_from) & 0xFFFF if marker else 0):
            return False
        marker += MARKER_INTERVAL
    return True


_NONE: Final = array("q")
#: FPDUs of a run after which the next frame begins another: a batch's size.  Who remembers one of them keeps all.
MOST_TOGETHER: Final = 256
#: The same for this module, where it is a number of C if it is compiled.
_MOST_TOGETHER: Final = MOST_TOGETHER
#: FPDUs that a run has room for from the start: most have fewer.
_ROOM: Final = 64


class PlainRun:
    """FPDUs one behind the other about which no rule has anything to say.

    Each is a DDP Segment of an RDMA Write, located by the length of the one before it, or, where octets came late, by a
    Marker.  FPDUs that one frame brought, and that were placed then, are one *arrival*; every other FPDU has its own.

    Args:
        offset: of the first octet.
        crc: GOOD or UNCHECKED of :mod:`scapy_mpa.values.records`.
        is_delivered: whether they are delivered when all before them are there; else they never are.

    Attributes:
        end: the offset after the last octet.
        starts: the offset of each FPDU.
        fpdus: ULPDU_Length and, times 2^16, the opcode of each.
        headers: the first octets of the ULPDU of each, TAGGED_HEADER_LENGTH.
        firsts: the index of the first FPDU of each arrival.
        frames: the frame at which those of each arrival are placed; ``times`` its time.
        began: the first frame that brought octets of them, and ``ended`` the last; empty where all arrivals are of one
            frame, at which they are placed.
        is_ordered: whether ``frames`` ascends; ``first_frame`` is the least of them.
        delivered_late: how many were placed before they were delivered.
        markers: how many they hold.
        ulpdu_octets: the sum of their ULPDU_Lengths.
        is_open: whether the Write goes on after them; ``stag`` and ``to`` where.
    """

    __slots__ = (
        "_last", "began", "crc", "delivered_late", "end", "ended", "first_frame", "firsts", "fpdus", "frames",
        "headers", "is_delivered", "is_open", "is_ordered", "markers", "offset", "stag", "starts", "times", "to",
        "ulpdu_octets",
    )  # fmt: skip

    def __init__(self, offset: int, crc: int, is_delivered: bool) -> None:
        self.offset = self.end = offset
        self.crc = crc
        self.is_delivered = is_delivered
        self.starts, self.fpdus = with_room(_NONE, _ROOM), with_room(_NONE, _ROOM)
        self.headers = bytearray()
        self.firsts = with_room(_NONE, _ROOM)
        self.frames, self.times = with_room(_NONE, _ROOM), with_room(_NONE, _ROOM)
        self.began = self.ended = _NONE
        self.is_ordered, self.first_frame = True, NEVER
        self.delivered_late = self.markers = self.ulpdu_octets = 0
        self.is_open = False
        self.stag = self.to = self._last = 0

    def settle(self) -> None:
        """Nothing is added any more: let it take no more room than it needs."""
        fit(self.starts)
        fit(self.fpdus)
        fit(self.firsts)
        fit(self.frames)
        fit(self.times)
        fit_octets(self.headers)

    @property
    def write(self) -> tuple[int, int] | None:
        """STag and TO at which the Write goes on after them, None if none is open."""
        return (self.stag, self.to) if self.is_open else None

    def may_go_on(self, at: int, is_delivered: bool) -> bool:
        """Return True if FPDUs that another frame brought, from an offset on, may be added."""
        return self.end == at and self.is_delivered == is_delivered and len(self.starts) < _MOST_TOGETHER

    def arrive(self, frame: int, time: int, first: int, last: int) -> None:
        """Let FPDUs that are added next be placed at a frame; the frames from ``first`` to ``last`` brought them."""
        if frame < self._last:
            self.is_ordered = False
        if frame < self.first_frame:
            self.first_frame = frame
        self._last = frame
        if (first != frame or last != frame) and self.began is _NONE:
            self.began, self.ended = self.frames[:], self.frames[:]
        append_number(self.firsts, len(self.starts))
        append_number(self.frames, frame)
        append_number(self.times, time)
        if self.began is not _NONE:
            append_number(self.began, first)
            append_number(self.ended, last)

    def add(self, at: int, ulpdu_length: int, markers: int, octets: Octets, ulpdu: int, before_marker: int) -> None:
        """Add an FPDU at an offset, whose ULPDU begins at an index of ``octets``.

        ``before_marker``: so many octets of its header precede a Marker; all of them if none stands in it.
        """
        append_number(self.starts, at)
        append_number(self.fpdus, ulpdu_length)
        append_octets(self.headers, octets, ulpdu, before_marker)
        if before_marker < TAGGED_HEADER_LENGTH:
            rest = TAGGED_HEADER_LENGTH - before_marker
            append_octets(self.headers, octets, ulpdu + before_marker + MARKER_LENGTH, rest)
        self.markers += markers
        self.ulpdu_octets += ulpdu_length

    def take_back(self, count: int, markers: int, ulpdu_octets: int) -> None:
        """Take back the FPDUs after the first ``count`` ones, all of which the last frame brought.

        The others hold so many Markers, and octets of ULPDUs.
        """
        self.markers, self.ulpdu_octets = markers, ulpdu_octets
        if self.firsts and self.firsts[-1] >= count:
            for numbers in (self.firsts, self.frames, self.times, self.began, self.ended):
                del numbers[-1:]
        del self.starts[count:], self.fpdus[count:], self.headers[count * TAGGED_HEADER_LENGTH :]

    def end_of(self, index: int) -> int:
        """Return the offset after an FPDU."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.end

    def moment_of(self, index: int) -> Moment:
        """Return the frame at which an FPDU is placed, and its time."""
        number = bisect_right(self.firsts, index) - 1
        return self.frames[number], self.times[number]

    def span_of(self, index: int) -> tuple[int, int]:
        """Return the first and the last frame that brought octets of an FPDU."""
        number = bisect_right(self.firsts, index) - 1
        return (self.began[number], self.ended[number]) if self.began else (self.frames[number],) * 2

    def fpdu_at(self, offset: int) -> tuple[int, int, int]:
        """Return where the FPDU that holds the octet at an offset begins and ends, and the last frame of its octets."""
        index = bisect_right(self.starts, offset) - 1
        return self.starts[index], self.end_of(index), self.span_of(index)[1]


class PlainWrites:
    """Tells which FPDUs of a direction are plain.

    Args:
        origin: what FPDUPTR counts from in the connection's profile.

    Attributes:
        takes_all: whether FPDUs are plain that several frames brought, or that were placed late: nobody keeps rows.
        before_marker: octets of the header of the last FPDU that fitted which precede a Marker in it, or all of them.
    """

    __slots__ = (
        "_before", "_control", "_end", "_longest", "_longest_part", "_origin", "_stag", "_stag_before", "_state", "_to",
        "_to_before", "before_marker", "takes_all",
    )  # fmt: skip

    def __init__(self, origin: Origin, takes_all: bool) -> None:
        self._origin: Origin = origin
        self.takes_all = takes_all
        self._control, self.before_marker = -1, TAGGED_HEADER_LENGTH
        self._longest = self._longest_part = 0
        self._state, self._stag, self._to, self._end = _UNKNOWN, 0, 0, -1
        self._before, self._stag_before, self._to_before = _UNKNOWN, 0, 0

    def allow(self, control: int, longest: int, longest_part: int) -> None:
        """Let RDMA Writes be plain that have these control octets, and ULPDUs no longer than this.

        ``control`` is without the bit L, -1 if none are plain; ``longest_part`` is for all but the last of a message.
        """
        self._control, self._longest, self._longest_part = control, longest, longest_part

    def fits(self, data: Octets, index: int, header: int, ulpdu_length: int, control: int, phase: int) -> bool:
        """Return True if the next FPDU, good and whole in ``data`` from an index on, is plain; then it is passed.

        Args:
            data: octets.
            index: that of its first octet.
            header: that of its ULPDU_Length.
            ulpdu_length: that.
            control: its control octets.
            phase: its offset modulo 512, -1 if it holds no Marker.
        """
        if control & ~_LAST != self._control or not TAGGED_HEADER_LENGTH <= ulpdu_length <= self._longest:
            return False
        is_last = control & _LAST
        if not is_last and not MIN_MULPDU <= ulpdu_length <= self._longest_part:
            return False
        self.before_marker = TAGGED_HEADER_LENGTH
        marker = -(phase + header - index) % MARKER_INTERVAL if phase >= 0 else MARKER_INTERVAL
        if marker >= LENGTH_FIELD_LENGTH + TAGGED_HEADER_LENGTH:
            stag, to = place(data, header + 4)
        elif marker in (4, 8, 12):
            # In front of the STag, or of one of the halves of the TO.
            self.before_marker = marker - LENGTH_FIELD_LENGTH
            stag = word(data, header + (4 if marker > 4 else 8))
            to = word(data, header + (8 if marker > 8 else 12))
            to = to << 32 | word(data, header + 16)
        else:
            return False
        if self._state and (self._state == _UNKNOWN or stag != self._stag or to != self._to):
            return False
        if not has_usual_octets(data, index, phase, ulpdu_length, self._origin):
            return False
        after = to + ulpdu_length - TAGGED_HEADER_LENGTH & _TO
        if after and after < to:
            return False  # its octets pass 2^64
        self._state = _CLOSED if is_last else _OPEN
        self._stag, self._to = stag, after
        return True

    def remember(self) -> None:
        """Remember where the Write goes on, for :meth:`go_back`."""
        self._before, self._stag_before, self._to_before = self._state, self._stag, self._to

    def go_back(self) -> None:
        """Take back the FPDUs that fitted since :meth:`remember`."""
        self._state, self._stag, self._to = self._before, self._stag_before, self._to_before

    def passed(self, fpdu: LocatedFPDU) -> None:
        """Learn from an FPDU that was handed on alone where the Write goes on."""
        offset, header, ulpdu_length, end = fpdu.offset, fpdu.header, fpdu.ulpdu_length, fpdu.end
        markers, crc, opcode, octets = fpdu.markers, fpdu.crc, fpdu.opcode, fpdu.octets
        if opcode == TERMINATE_OPCODE:
            self._control = -1  # nothing may follow it
        if offset != self._end or crc == BAD or len(octets) < end - offset:
            self._state = _UNKNOWN
        self._end, index = end, header - offset
        if (
            crc == BAD
            or ulpdu_length < TAGGED_HEADER_LENGTH
            or len(octets) < index + 16
            or (markers and -header % MARKER_INTERVAL < LENGTH_FIELD_LENGTH + TAGGED_HEADER_LENGTH)
        ):
            self._state = _UNKNOWN
            return
        _, control = head(octets, index)
        if control & ~_LAST == self._control:
            self._stag, self._to = place(octets, index + 4)
            self._to = self._to + ulpdu_length - TAGGED_HEADER_LENGTH & _TO
            self._state = _CLOSED if control & _LAST else _OPEN
        elif not control & 0x0F:
            self._state = _UNKNOWN  # a Write, and not a plain one

    def passed_run(self, run: PlainRun, end: int) -> None:
        """Let a run end at an offset, after the last FPDU that was plain."""
        self._end = run.end = end
        run.is_open, run.stag, run.to = self._state == _OPEN, self._stag, self._to
