"""The packets of an ongoing capture, with comments: what each frame means to MPA, as far as it is known by then.

A packet is held back until a second of the capture has passed, in which what its octets begin may be completed, lost
segments come again and acknowledgements arrive. What shows later is said on the next packet, with the frame that it is
about. What is read once is what a receiver that conforms finds: nothing is known about a sender that deviates.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation
from scapy_mpa.capture.ongoing import OngoingCaptures
from scapy_mpa.capture.passthrough import Block, Blocks, with_comment, without_comments
from scapy_mpa.capture.reader import NANOSECONDS
from scapy_mpa.capture.source import Octets, octets_of
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import Role
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.records import FPDURow
from scapy_mpa.values.segment import PATH_MTU, Segment
from scapy_mpa.values.words import plural
from scapy_mpa.wireshark.comments import comment, is_ours, ours
from scapy_mpa.wireshark.notes import FINDING, MOST_TOLD, DatedFindings, Gathering, Note, NotedHalf, NoteListener

#: Nanoseconds for which a packet waits: a lost segment is sent again within a second at first (RFC 6298 §2), and
#: acknowledged within half a second (RFC 9293 §3.8.6.3).
HELD: Final = NANOSECONDS
#: Packets, and octets of them, that may wait: a bound of memory.
_MOST_PACKETS, _MOST_OCTETS = 1 << 12, 1 << 22
#: Written frames that still have something to report: more than this are counted.
_MOST_LATE: Final = MOST_TOLD


class _Kept:
    """The source of a capture; its octets are kept until they are taken."""

    def __init__(self, octets: Octets, name: str, limits: Limits) -> None:
        self._octets = octets
        self._name = name
        self._stretch = limits.decompression
        self._opened: Octets | None = None
        self._kept: deque[bytes] = deque()

    def read(self, size: int, /) -> bytes:
        """Read as the source does; compressed octets are decompressed here."""
        if self._opened is None:
            self._opened = octets_of(self._octets, self._name, self._stretch)[1]
        octets = self._opened.read(size)
        if octets:
            self._kept.append(octets)
        return octets

    def seek(self, place: int, /) -> object:
        """Seek in the source, which moves on: what was read is gone."""
        return self._octets.seek(place)

    def again(self) -> Octets:
        """Return what was read, to be read again."""
        return _Again(self._kept)


class _Again:
    def __init__(self, kept: deque[bytes]) -> None:
        self._kept = kept

    def read(self, size: int, /) -> bytes:
        return self._kept.popleft() if self._kept else b""

    def seek(self, place: int, /) -> object:
        raise OSError("what was read while it was written is gone")


class _Part:
    """One of several ongoing captures: its blocks, as far as they were not taken."""

    def __init__(self, octets: Octets, name: str, limits: Limits) -> None:
        self.kept = _Kept(octets, name, limits)
        self._blocks = Blocks(self.kept.again(), name)
        self._ready: deque[Block] = deque()

    def take(self, packets: int) -> Iterator[Block]:
        """Yield the next blocks up to this many packets, and what else stands before the packet after them."""
        self._ready += self._blocks.there()
        while self._ready and (packets or not self._ready[0].is_packet):
            packets -= self._ready[0].is_packet
            yield self._ready.popleft()


class _Held(NamedTuple):
    """A block that waits: the number of its frame, 0 if it has none, and when it is due (nanoseconds)."""

    block: Block
    frame: int
    due: int


class OngoingComments(NoteListener):
    """The packets of ongoing captures, with comments on those that have any.

    Args:
        captures: what is read, not begun yet.
        is_wanted: whether something is said about a connection.
        is_in_period: whether something is said about a frame and its time (nanoseconds since the epoch).
        limits: how far compressed data may expand.

    Attributes:
        packets: how many were written.
        comments: how many of them have one of ours.
        no_room: how many had no room for the one they should have.
    """

    def __init__(
        self,
        captures: OngoingCaptures,
        is_wanted: Callable[[int], bool],
        is_in_period: Callable[[int, int], bool],
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._captures = captures
        self._is_wanted = is_wanted
        self._is_in_period = is_in_period
        self._limits = limits
        captures.through = self._opened
        self.packets = self.comments = self.no_room = 0
        self._part: _Part | None = None
        self._held: deque[_Held] = deque()
        self._octets = 0
        #: The number of the last packet taken, and the time that the capture has come to (nanoseconds).
        self._taken = self._clock = 0
        self._read_at = time.monotonic()
        #: By frame, those that wait: their segments, what is to be said about them, lines that are ready.
        self._segments: dict[int, Segment] = {}
        self._notes: dict[int, list[Note]] = {}
        self._lines: dict[int, list[str]] = {}
        #: The same of frames that were written.
        self._late: dict[int, list[Note]] = {}
        self._late_lines: dict[int, list[str]] = {}
        self._more_late = 0
        #: Connections that were met; those that are over stay until the packets that waited then are written.
        self._open: dict[int, CapturedConnection] = {}
        self._over: dict[int, dict[Role, NotedHalf]] = {}
        self._forgotten: deque[tuple[int, int]] = deque()

    def make_findings(self, quota: Quota | None) -> Findings:
        """Findings that are noted as they are added."""
        return DatedFindings(quota, self.finding)

    # --- what is received ---

    def see(self, segments: Sequence[Segment]) -> None:
        """Segments will be received next."""
        self._segments |= {seg.frame: seg for seg in segments if not seg.flags & PATH_MTU}
        if segments:
            self._read_at = time.monotonic()

    def serial(self, mpa: CapturedConnection) -> int:
        """The number that the connection was given first; with it, say where the connection begins."""
        if mpa.number not in self._open:
            self._open[mpa.number] = mpa
            if self._is_wanted(mpa.number):
                line = f"#{mpa.number}: begins here: {mpa.initiator} > {mpa.responder}"
                self._line(mpa.reader.connection.first_frame, line)
        return mpa.number

    def note(self, frames: Iterable[int], *note: object) -> None:
        """Keep a note for those of the frames that wait still; if none does, for the last of them."""
        frames = [*frames]
        waiting = [frame for frame in frames if frame > self.packets]
        for frame in waiting:
            self._notes.setdefault(frame, []).append((frame, *note))
        if not waiting:
            frame = max(frames)
            if frame in self._late or len(self._late) < _MOST_LATE:
                self._late.setdefault(frame, []).append((frame, *note))
            else:
                self._more_late += 1

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        self.note_fpdu(operation, row, frames, None, b"", "")

    def forget(self, mpa: CapturedConnection) -> None:
        """Release a connection that is over."""
        if self._open.pop(mpa.number, None) is not None:
            self._over[mpa.number] = {role: _half(mpa, role) for role in mpa.keys}
            self._forgotten.append((self._taken, mpa.number))

    def over(self, connection: Connection) -> None:
        """Say what became of a connection, at the frame that ended it."""
        life = connection.lifecycle
        if self._is_wanted(connection.number):
            self._line(life.ended_frame or life.last[0], f"#{connection.number}: {connection.verdict}")

    def _line(self, frame: int, line: str) -> None:
        if frame > self.packets:
            self._lines.setdefault(frame, []).append(line)
        elif len(self._late_lines) < _MOST_LATE:
            self._late_lines.setdefault(frame, []).append(line)
        else:
            self._more_late += 1

    # --- what is written ---

    def take(self, *, is_over: bool = False) -> Iterator[bytes]:
        """Yield the octets that are due, all of them if nothing more comes."""
        self._hold()
        now = self._clock + int((time.monotonic() - self._read_at) * NANOSECONDS)
        while self._held and (is_over or self._is_due(self._held[0], now)):
            held = self._held.popleft()
            self._octets -= len(held.block.octets)
            yield self._written(held) if held.frame else held.block.octets

    def _is_due(self, held: _Held, now: int) -> bool:
        return held.due <= now or len(self._held) > _MOST_PACKETS or self._octets > _MOST_OCTETS

    def _opened(self, name: str, octets: Octets) -> Octets:
        """Read the next capture through what keeps its octets."""
        self._hold()
        self._part = _Part(octets, name, self._limits)
        return self._part.kept

    def _hold(self) -> None:
        """Hold back the blocks whose packets were read since the last time."""
        if self._part is None:
            return
        for block in self._part.take(self._captures.packets - self._taken):
            self._taken += block.is_packet
            if block.is_packet and (seg := self._segments.get(self._taken)) is not None:
                self._clock = seg.time
            due = self._clock + HELD if block.is_packet or self._held else 0
            self._held.append(_Held(block, self._taken if block.is_packet else 0, due))
            self._octets += len(block.octets)
        if self._taken < self._captures.packets:
            raise CaptureError(f"{self._captures.name}: frame {self._taken + 1} is damaged, and cannot be passed on")

    def _written(self, held: _Held) -> bytes:
        """The octets of a packet, with what there is to say about it, and of those that were written before."""
        frame = held.frame
        bare = without_comments(held.block, is_ours)
        self.packets = frame
        seg = self._segments.pop(frame, None)
        gathering = Gathering(self._half_of)
        for note in sorted(self._notes.pop(frame, ()), key=_order):
            gathering.take(note)
        said = [comment(gathering.found(frame, []), seg, so_far=True), ours(self._lines.pop(frame, ()))]
        if seg is not None and not self._is_in_period(frame, seg.time):
            said = []
        text = "\n".join(filter(None, (*said, *self.left())))
        octets = with_comment(bare, text) if text else bare.octets
        if octets is None:
            self.no_room += any(said)
            return bare.octets  # what showed late is said on the next one
        self.comments += bool(text)
        self._late, self._late_lines, self._more_late = {}, {}, 0
        self._forget_before(frame)
        return octets

    def left(self) -> Iterator[str]:
        """Yield what showed of frames that were written before, and was not said yet."""
        for frame in sorted(self._late.keys() | self._late_lines.keys()):
            gathering = Gathering(self._half_of)
            for note in sorted(self._late.get(frame, ()), key=_order):
                gathering.take(note)
            found = comment(gathering.found(frame, []), None, so_far=True)
            for line in (*found.splitlines(), *ours(self._late_lines.get(frame, ())).splitlines()):
                yield f"{line} [frame {frame}]"
        if self._more_late:
            yield ours([f"note {plural(self._more_late, 'remark')} more on frames before"])

    def _half_of(self, serial: int, direction: Role) -> NotedHalf | None:
        if not self._is_wanted(serial):
            return None
        if serial in self._over:
            return self._over[serial][direction]
        return _half(self._open[serial], direction)

    def _forget_before(self, frame: int) -> None:
        """Release connections that were over when this packet came: nothing more is said about them."""
        while self._forgotten and self._forgotten[0][0] < frame:
            del self._over[self._forgotten.popleft()[1]]


def _half(mpa: CapturedConnection, direction: Role) -> NotedHalf:
    found, operation = mpa.frame_of(direction), mpa.operations.get(direction)
    return NotedHalf(
        mpa.number, direction, mpa.keys[direction], found.startup if found is not None else None,
        mpa.markers(direction), operation.seq_start if operation is not None else None, mpa.crc, mpa.profile,
    )  # fmt: skip


def _order(note: Note) -> tuple[object, ...]:
    """Notes as those of a capture are sorted; a finding by its rule."""
    return note[1:5] if note[1] != FINDING else note[1:6]
