"""Notes about each frame of a capture, gathered in one reading of it and sorted by frame.

An FPDU is described with every frame that brought octets of it, with the one that placed it and with the one that
delivered it; a finding with the frame it is dated to, each time that its rule is broken. Memory does not follow the
capture: what there is to say waits in temporary files. Of an ongoing capture,
:mod:`~scapy_mpa.wireshark.ongoingcomments` keeps the same notes for a while.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Protocol, TypeAlias

from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation, Listener
from scapy_mpa.framing.ddp import SEND_OPCODES, UNTAGGED_HEADER_LENGTH, UntaggedHeader, decode_ddp
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import read_fpdu
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, remove_markers
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.reading.listener import CaptureListener
from scapy_mpa.reading.query import Asked, Query, query_of
from scapy_mpa.reading.spill import Sorted
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.report.connection import Connection
from scapy_mpa.rules.findings import Findings, Quota
from scapy_mpa.rules.rule import Rule
from scapy_mpa.rules.table import RULES, SEVERITIES
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.identify import UNKNOWN_LENGTH, UpperLayer
from scapy_mpa.values.records import FPDURecord, FPDURow, record_of

#: This many of each kind are reported about a frame; others are counted.
MOST_TOLD = 24

#: Kinds of notes, in the order in which they are listed.
STARTUP, FPDU, DELIVERED, LIFECYCLE, FINDING = range(5)

#: (frame, kind, connection or -1, direction or -1, stream offset or sequence number, what the kind needs ...).
Note: TypeAlias = "tuple[object, ...]"


class NotedHalf(NamedTuple):
    """The half connection that notes are of, as comments need it.

    ``connection`` is the number of its connection, ``reset_frame`` that of the RST that ended it, None without one.
    """

    connection: int
    direction: Role
    key: bytes
    startup: StartupFrame | None
    markers: bool | None
    seq_start: int | None
    crc: bool
    profile: Profile
    dialect: Dialect | None = None
    deviation: str | None = None
    reset_frame: int | None = None

    @classmethod
    def of(cls, connection: Connection, direction: Role) -> NotedHalf:
        """Return the notes for a connection of a report."""
        half = connection.half(direction)
        startup = connection.request if direction == "initiator" else connection.reply
        return cls(
            connection.number, direction, half.key, startup, half.markers, half.seq_start, connection.crc,
            connection.profile, half.dialect, half.deviation, connection.lifecycle.reset_frame,
        )  # fmt: skip


class Delivery(NamedTuple):
    """An FPDU delivered at another frame than the one that placed it: its sequence number and both frames."""

    seq: int
    placed: int
    delivered: int


class Dated(NamedTuple):
    """A rule broken at a frame, this many times; ``detail`` is of one of them."""

    rule: Rule
    direction: Role | None
    detail: str
    times: int


class NotedFPDU(NamedTuple):
    """An FPDU, and at which of its octets its Markers stand; None if a conformant sender puts them there.

    ``header`` are the first octets of its ULPDU, the DDP header, and ``upper`` what the upper layer's header says; both
    empty unless they were asked for.
    """

    record: FPDURecord
    markers: tuple[int, ...] | None
    header: bytes = b""
    upper: str = ""


class HalfNotes(NamedTuple):
    """What a frame means to a half connection.

    ``startup``: it completes its startup frame. ``fpdus`` have octets in it, or were placed by it; ``deliveries`` say
    of some of these when they are delivered, and which others the frame delivers. Not all of them, if there are very
    many: then ``fpdu_count`` and ``delivery_count`` say how many.
    """

    half: NotedHalf
    startup: bool
    fpdus: list[NotedFPDU]
    fpdu_count: int
    deliveries: list[Delivery]
    delivery_count: int


class FrameNotes(NamedTuple):
    """The notes about a frame; ``lives`` are the connections that begin with it, or were ended by it."""

    frame: int
    halves: list[HalfNotes]
    findings: list[Dated]
    lives: list[Connection]


class _Tell(Protocol):
    def __call__(self, rule_id: str, direction: str | None, frames: Set[int], detail: str) -> None: ...


class DatedFindings(Findings):
    """Findings whose breaches are reported when they are added."""

    def __init__(self, quota: Quota | None, tell: _Tell) -> None:
        super().__init__(quota)
        self._tell = tell

    def add(
        self,
        rule_id: str,
        direction: str | None,
        frame: int,
        time_ns: int,
        seq: int,
        detail: str,
        *,
        expected: str = "",
        seen: str = "",
        count: int = 1,
        last_frame: int = 0,
        code: int | None = None,
        topic: str = "",
    ) -> None:
        super().add(
            rule_id,
            direction,
            frame,
            time_ns,
            seq,
            detail,
            expected=expected,
            seen=seen,
            count=count,
            last_frame=last_frame,
            code=code,
            topic=topic,
        )
        self._tell(rule_id, direction, {frame, max(frame, last_frame)}, detail)


class NoteListener(Listener):
    """Makes notes of startup frames, FPDUs and findings as they are received."""

    @abstractmethod
    def note(self, frames: Iterable[int], *note: object) -> None:
        """Keep a note, of which only the frame is missing, for each of these frames."""

    @abstractmethod
    def serial(self, mpa: CapturedConnection) -> int:
        """The number of a connection here."""

    def startup(self, mpa: CapturedConnection, direction: Role, found: FoundFrame) -> None:
        """A startup frame is complete."""
        self.note((found.frame,), STARTUP, self.serial(mpa), ROLES.index(direction), 0)

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        self.note_fpdu(operation, row, frames)

    def note_fpdu(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], *more: object) -> None:
        """Note an FPDU at the frames that brought it, and at the one that placed it."""
        placed = row.placed
        at = frames if not placed or placed in frames else (*frames, placed)
        self.note(at, FPDU, *self._where(operation, row), tuple(row), *more)
        if placed and row.delivered not in (0, placed):
            self.delivered(operation, row)  # it was not final earlier

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        placed, delivered = row.placed, row.delivered
        self.note({placed, delivered}, DELIVERED, *self._where(operation, row), row.seq, placed, delivered)

    def finding(self, rule_id: str, direction: str | None, frames: Set[int], detail: str) -> None:
        """A rule was broken at these frames."""
        side = -1 if direction is None else int(direction == "responder")
        self.note(frames, FINDING, -1, side, 0, rule_id, detail)

    def _where(self, operation: FullOperation, row: FPDURow) -> tuple[int, int, int]:
        """Connection, direction and stream offset of an FPDU."""
        return self.serial(operation.mpa), ROLES.index(operation.direction), operation.offset_of(row.seq)


class CaptureNotes(CaptureListener, NoteListener):
    """Reads a capture; then iterating yields what there is to say, frame by frame.

    ``report`` is the report without FPDUs: only of connections that are left in it something is said, besides
    findings. Use as a context manager: what waits in files is dropped at its end. Raises
    :class:`~scapy_mpa.errors.CaptureError` as :func:`scapy_mpa.analyze` does, and OSError if a temporary file cannot be
    written.

    Args:
        capture: what is read.
        headers: whether FPDUs come with their DDP header and what the upper layer's says.
    """

    def __init__(self, capture: Query | Asked, *, headers: bool = False) -> None:
        self._headers = headers
        self._rules: Set[str] | None = None
        self._has_frame: Callable[[int], bool] = lambda _: True
        self._notes: Sorted[Note] = Sorted()
        super().__init__()

        def make_findings(quota: Quota | None) -> Findings:
            return DatedFindings(quota, self.finding)

        try:
            receiver = self.read(query_of(capture), make_findings)
        except BaseException:
            self._notes.close()
            raise
        for serial, connection in enumerate(self.connections):
            if connection is not None:
                life = connection.lifecycle
                self.note({life.first[0], life.ended_frame or life.last[0]}, LIFECYCLE, serial, 0, 0)
        told = {found.rule.id for found in receiver.findings.sorted()}
        for found in self.report.findings:
            if found.rule.id not in told:  # what reading the capture left to be said
                self.finding(found.rule.id, found.direction, {found.frame, found.last_frame}, found.detail)

    def begin(self) -> None:
        """Forget what there was to say."""
        super().begin()
        self._notes.close()
        self._notes = Sorted()
        #: How many FPDUs of a sender that deviates were received, by connection and direction.
        self._deviating: Counter[tuple[int, int]] = Counter()
        #: By connection, if headers were asked for.
        self._uppers: dict[int, UpperLayer] = {}

    def keep_rules(self, rules: Set[str] | None) -> None:
        """Yield findings of these rules alone; None: of all."""
        self._rules = rules

    def keep_frames(self, has_frame: Callable[[int], bool]) -> None:
        """Yield only the notes of frames that are among these."""
        self._has_frame = has_frame

    def __enter__(self) -> CaptureNotes:
        return self

    def __exit__(self, *_: object) -> None:
        self._notes.close()

    def __iter__(self) -> Iterator[FrameNotes]:
        """Yield the notes of each frame that has any."""
        shown = {id(connection) for connection in self.report.connections}
        connections = [one if id(one) in shown else None for one in self.connections]

        @cache
        def half_of(serial: int, direction: Role) -> NotedHalf | None:
            connection = connections[serial]
            return NotedHalf.of(connection, direction) if connection is not None else None

        for frame, notes in groupby(self._notes, itemgetter(0)):
            assert isinstance(frame, int)
            if not self._has_frame(frame):
                continue
            gathering = Gathering(half_of)
            lives: list[Connection] = []
            for note in notes:
                if note[1] == LIFECYCLE:
                    assert isinstance(note[2], int)
                    lives += filter(None, (connections[note[2]],))
                elif note[1] != FINDING or self._rules is None or note[5] in self._rules:
                    gathering.take(note)
            found = gathering.found(frame, lives)
            if found.halves or found.findings or found.lives:
                yield found

    # --- what the receiver tells ---

    def note(self, frames: Iterable[int], *note: object) -> None:
        """Keep a note for each of these frames."""
        for frame in frames:
            self._notes.add((frame, *note))

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        where = self.where(operation, row)
        markers = self._markers(operation.dialect, where, octets) if operation.dialect is not None else None
        header, upper = self._header(operation, row, where[0], octets) if self._headers else (b"", "")
        self.note_fpdu(operation, row, frames, markers, header, upper)

    def _header(self, operation: FullOperation, row: FPDURow, serial: int, octets: bytes) -> tuple[bytes, str]:
        """The DDP header of an FPDU, and what the upper layer's header says; of a sender that deviates neither."""
        if operation.dialect is not None:
            return b"", ""
        offset = operation.offset_of(row.seq) if operation.markers else None
        ulpdu = octets if offset is None else remove_markers(octets, offset)
        ulpdu = ulpdu[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + row.ulpdu_length]
        header = decode_ddp(ulpdu)
        if not row.placed or not isinstance(header, UntaggedHeader) or header.opcode not in SEND_OPCODES or header.mo:
            return ulpdu[:UNTAGGED_HEADER_LENGTH], ""
        mpa = operation.mpa
        if serial not in self._uppers:
            request, reply = (one.startup if one is not None else None for one in (mpa.request, mpa.reply))
            self._uppers[serial] = UpperLayer(request, reply, mpa.responder_port)
        # Only in the order of the stream is it known which Send is the first.
        read = self._uppers[serial].see_send if row.delivered else self._uppers[serial].header
        length = row.ulpdu_length - UNTAGGED_HEADER_LENGTH if header.last else UNKNOWN_LENGTH
        found = read(ulpdu[UNTAGGED_HEADER_LENGTH:], length, operation.direction == "initiator")
        return ulpdu[:UNTAGGED_HEADER_LENGTH], f"{found.protocol}: {found.text}" if found is not None else ""

    def _markers(self, dialect: Dialect, where: tuple[int, int, int], octets: bytes) -> tuple[int, ...]:
        """Return at which octets the Markers of the next FPDU of a deviating sender stand."""
        serial, side, offset = where
        fpdu = read_fpdu(dialect, octets, offset, dialect.due_behind(offset, self._deviating[serial, side]))
        self._deviating[serial, side] += 1
        return tuple(marker - offset for marker in fpdu.markers) if fpdu is not None else ()


class Gathering:
    """The notes of one frame, as they come.

    Args:
        half_of: the half connection of a number and a direction; None for one that nothing is said of.
    """

    def __init__(self, half_of: Callable[[int, Role], NotedHalf | None]) -> None:
        self._half_of = half_of
        self._halves: dict[tuple[int, int], HalfNotes] = {}
        self._findings: dict[tuple[str, int], Dated] = {}

    def take(self, note: Note) -> None:
        """Take one more."""
        kind, serial, side = note[1:4]
        assert isinstance(serial, int) and isinstance(side, int)
        if kind == FINDING:
            rule_id, detail = map(str, note[5:])
            dated = self._findings.get((rule_id, side))
            if dated is None:
                dated = Dated(RULES[rule_id], None if side < 0 else ROLES[side], detail, 0)
            self._findings[rule_id, side] = dated._replace(times=dated.times + 1)
            return
        notes = self._halves.get((serial, side))
        if notes is None:
            half = self._half_of(serial, ROLES[side])
            if half is None:
                return
            notes = HalfNotes(half, False, [], 0, [], 0)
        half = notes.half
        if kind == STARTUP:
            notes = notes._replace(startup=True)
        elif kind == FPDU:
            row, markers, header, upper = note[5:]
            assert isinstance(row, tuple) and (markers is None or isinstance(markers, tuple))
            assert isinstance(header, bytes) and isinstance(upper, str)
            if len(notes.fpdus) < MOST_TOLD:
                record = record_of(FPDURow._make(row), (), half.connection, half.direction, None, half.deviation)
                notes.fpdus.append(NotedFPDU(record, markers, header, upper))
            notes = notes._replace(fpdu_count=notes.fpdu_count + 1)
        else:
            if len(notes.deliveries) < MOST_TOLD:
                notes.deliveries.append(Delivery(*note[5:]))  # type: ignore[arg-type]
            notes = notes._replace(delivery_count=notes.delivery_count + 1)
        self._halves[serial, side] = notes

    def found(self, frame: int, lives: list[Connection]) -> FrameNotes:
        """All of them; ``lives`` are the connections that begin with the frame, or were ended by it."""
        gravest = sorted(self._findings.values(), key=lambda dated: SEVERITIES.index(dated.rule.severity))
        return FrameNotes(frame, list(self._halves.values()), gravest, lives)
