"""An MPA connection of the capture: startup frames, Full Operation of both directions, how it ended.

The Initiator is whoever sends the MPA Request, which need not be the side that sent the SYN (RFC 5044 §2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

from scapy_mpa.analyzer.operation import FullOperation, HalfFindings, PlacedObserver, PlacedSink, direction_end
from scapy_mpa.framing.agreement import agreed
from scapy_mpa.framing.judgement import Judgement
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.startup import SIW_GSO, Kind
from scapy_mpa.infer.inference import Inferred
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.deviation import Diagnosis
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.receiver.values import Breach, Moment
from scapy_mpa.rules.findings import Findings
from scapy_mpa.stream.connection import Arrival, Stray
from scapy_mpa.stream.peer_state import NEVER
from scapy_mpa.values.lifecycle import Lifecycle
from scapy_mpa.values.options import Announced, emss_of
from scapy_mpa.values.pathmtu import path_mtu_message
from scapy_mpa.values.segment import Segment, endpoints, reverse_key
from scapy_mpa.values.startup import PartOfFrame
from scapy_mpa.watches.copies import dropped_segments, other_fins, stray
from scapy_mpa.watches.lifecycle import DirectionEnd, Rejection, breaches_at_end, lifecycle, rejected
from scapy_mpa.watches.pathmtu import PathMTUWatch
from scapy_mpa.watches.reads import ReadWatch
from scapy_mpa.watches.startup import StartupPhase, StartupSide, copies_of_frame, judge_startup

#: What is known of senders by an analysis of the same capture: by the addresses and ports of a direction's segments,
#: and the sequence number of its first octet of Full Operation.
Deviations: TypeAlias = Mapping[tuple[bytes, int], Diagnosis]


class Observer(PlacedObserver, Protocol):
    """Who wants startup frames, and the octets of FPDUs, as soon as they mean something."""

    def startup(self, mpa: CapturedConnection, direction: Role, found: FoundFrame) -> None:
        """A startup frame is complete."""


class CapturedConnection:
    """An MPA connection of the capture.

    Args:
        reader: reads its octets.
        key: addresses and ports of the segments in direction 0 of its TCP connection.
        findings: where what is wrong with it goes.
        log: whether a row is kept of each FPDU.
        sink: is handed each FPDU as it is placed.
        observer: is handed startup frames, and FPDUs with their octets.
        deviations: what is known of senders before anything is read.

    Attributes:
        number: of the connection; final when the capture is over.
        keys: addresses and ports of the segments of each direction.
        judgement: what its startup frames came to, known when it is over; None if there are none.
        lifecycle: how it went from its first frame to its last, known when it is over.
        syns: what the SYN of each direction of the TCP connection announced.
    """

    __slots__ = (
        "_arrivals", "_deviations", "_log", "_observer", "_operations", "_path_mtu", "_reported", "_sink",
        "findings", "judgement", "key", "keys", "lifecycle", "number", "operations", "reader", "syns",
    )  # fmt: skip

    def __init__(
        self,
        reader: ConnectionReader,
        key: bytes,
        findings: Findings,
        syns: list[Announced | None],
        log: bool,
        sink: PlacedSink | None,
        observer: Observer | None,
        deviations: Deviations,
    ) -> None:
        self.number = -1
        self.reader = reader
        self.key = key
        self.keys: dict[Role, bytes] = {}
        self.judgement: Judgement | None = None
        self.lifecycle: Lifecycle | None = None
        self.findings = findings
        self.syns = syns
        self.operations: dict[Role, FullOperation] = {}
        #: The same by the direction of the TCP connection.
        self._operations: list[FullOperation | None] = [None, None]
        #: The segments of each direction, as long as it may be read anew.
        self._arrivals: list[list[Arrival]] = [[], []]
        self._path_mtu = PathMTUWatch(), PathMTUWatch()
        #: The directions whose startup frame was told of.
        self._reported: set[int] = set()
        self._log = log
        self._sink = sink
        self._observer = observer
        self._deviations = deviations
        self._take_keys()

    # --- what it is ---

    def _take_keys(self) -> None:
        """Learn which direction is the Initiator's: of a Reply alone, the other one."""
        first = self.initiator_side
        keys = (self.key, reverse_key(self.key))
        self.keys = {"initiator": keys[first], "responder": keys[1 - first]}

    @property
    def initiator_side(self) -> int:
        """The direction of the TCP connection in which the Initiator sends."""
        return self.reader.initiator or 0

    @property
    def initiator(self) -> str:
        """Address and port of the Initiator."""
        return endpoints(self.keys["initiator"])[0]

    @property
    def responder(self) -> str:
        """Address and port of the Responder."""
        return endpoints(self.keys["initiator"])[1]

    @property
    def responder_port(self) -> int:
        """The TCP port of the Responder."""
        return int.from_bytes(self.keys["initiator"][-2:], "big")

    @property
    def rejected(self) -> bool:
        """Whether the Reply rejects the connection."""
        return self.reader.rejected

    @property
    def inferred(self) -> bool:
        """Whether something that a startup frame says had to be inferred."""
        return self.reader.inferred

    @property
    def crc(self) -> bool:
        """Whether CRCs are in use: either side asks for them in both directions (RFC 5044 §7.1.1)."""
        readers = [one for one in self.reader.readers if one is not None]
        if readers:
            return any(one.layout.crc for one in readers)
        return any(one is not None and one.startup.c for one in (self.request, self.reply))

    @property
    def profile(self) -> Profile:
        """The specification that was given, else that its Reply, else its Request, else its octets, name."""
        return self.reader.profile

    @property
    def request(self) -> FoundFrame | None:
        """Its MPA Request, None if none was captured."""
        return self._frame("initiator", "request")

    @property
    def reply(self) -> FoundFrame | None:
        """Its MPA Reply, None if none was captured."""
        return self._frame("responder", "reply")

    def _frame(self, direction: Role, kind: Kind) -> FoundFrame | None:
        found = self.reader.frames[self.side_of(direction)]
        return found if found is not None and found.startup.kind == kind else None

    @property
    def part(self) -> PartOfFrame | None:
        """The startup frame of which only a part came, None if there is none."""
        first, second = (self.reader.parts[self.side_of(role)] for role in ROLES)
        return first or second

    @property
    def inferences(self) -> dict[Role, Inferred | None]:
        """What each direction was found to be where there was no startup frame at all."""
        return {self.role_of(side): found for side, found in enumerate(self.reader.inferences)}

    def side_of(self, direction: Role) -> int:
        """Return the direction of the TCP connection in which a role sends."""
        return self.initiator_side if direction == "initiator" else 1 - self.initiator_side

    def role_of(self, side: int) -> Role:
        """Return who sends in a direction of the TCP connection."""
        return "initiator" if side == self.initiator_side else "responder"

    def markers(self, direction: Role) -> bool | None:
        """Return whether a direction carries Markers: its receiver asks by M (RFC 5044 §7.1.1); None if not known."""
        if direction in self.operations:
            return self.operations[direction].markers
        asking = self.frame_of(peer_of(direction))
        return bool(asking.startup.m) if asking is not None else None

    @property
    def gso_flag(self) -> str:
        """Whose startup frame has the flag with which siw allows FPDUs that are longer than a segment, "" if none."""
        found = (("Request", self.request), ("Reply", self.reply))
        return " and ".join(name for name, one in found if one is not None and one.startup.res & SIW_GSO)

    def frame_of(self, direction: Role) -> FoundFrame | None:
        """Return the startup frame of a direction, None if it was not captured."""
        return self.request if direction == "initiator" else self.reply

    @property
    def order(self) -> int:
        """The frame that connections are numbered by: of the Request, else the Reply, a part of one, the first FPDU."""
        found = self.request or self.reply or self.part
        if found is not None:
            return found.frame
        return min((one.first_frame for one in self.operations.values()), default=self.reader.first_frame)

    @property
    def has_fpdus(self) -> bool:
        """True once an FPDU was found that nothing captured later can change."""
        return any(one.first_frame != NEVER for one in self.operations.values())

    # --- what happens to it ---

    def take(self, side: int) -> None:
        """Take what a segment in a direction of the TCP connection showed: first what it acknowledged."""
        if len(self._reported) < 2:
            self._report_frames()
        operations = self._operations
        for d in (1 - side, side):
            reader = self.reader.readers[d]
            if reader is None:
                continue
            operation = operations[d]
            if operation is None or operation.reader is not reader:
                operation = self._begin(d, operation)
            arrivals = self.reader.arrivals[d]
            if arrivals:
                self.reader.arrivals[d] = []
                if self.reader.is_examined[d]:
                    self._arrivals[d] += arrivals
                else:
                    self._arrivals[d] = []
            if arrivals or reader.passed or reader.final or reader.contradictions:
                operation.take(arrivals)

        for limit in self.reader.limits_met:
            breach = Breach("limit", *limit[1:])
            self._findings_of(limit.side).report((breach,))
        self.reader.limits_met.clear()

    def _report_frames(self) -> None:
        """Tell of the startup frames that are complete now."""
        for d, found in enumerate(self.reader.frames):
            if found is not None and d not in self._reported:
                self._reported.add(d)
                self._take_keys()
                self.findings.judge_by(self.profile.name)
                if self._observer is not None:
                    self._observer.startup(self, self.role_of(d), found)

    def _begin(self, d: int, before: FullOperation | None) -> FullOperation:
        """Begin Full Operation in a direction, perhaps anew: its sender deviates."""
        if not self.operations:
            self._take_keys()
            self.findings.judge_by(self.profile.name)
        role = self.role_of(d)
        key = self.keys[role]
        if before is None and self._observer is not None:
            # An observer had the octets: none is read again.
            base = self.reader.connection.halves[d].space.base or 0
            self.reader.know_sender(d, self._deviations.get((key, base)))
        reader, agreed = self.reader.readers[d], self.reader.agreed[d]
        assert reader is not None
        assert agreed is not None
        operation = FullOperation(
            self, role, key, reader, emss_of(*self.syns), self._path_mtu[d], self.reader.diagnoses[d],
            agreed, self._log, self._sink, self._observer,
        )  # fmt: skip
        if before is not None:
            before.is_replaced = True
            before.report_to.forget(before.report_to.broken)
            operation.take(self._arrivals[d])
        self.operations[role] = self._operations[d] = operation
        first, second = self._operations
        if first is not None and second is not None:
            first.peer, second.peer = second, first
            depths = self._depths()
            ours = ReadWatch(first.fpdus, second.fpdus, depths.get(first.direction))
            others = ReadWatch(second.fpdus, first.fpdus, depths.get(second.direction))
            first.reads, second.reads = (ours, others), (others, ours)
        return operation

    def _depths(self) -> dict[Role, int | None]:
        if self.request is None or self.reply is None:
            return {}
        depths = agreed(self.request.startup, self.reply.startup, self.responder_port).depths
        return {} if depths is None else {"initiator": depths.initiator_ord, "responder": depths.responder_ord}

    def receive_path_mtu(self, side: int, seg: Segment) -> None:
        """Take what a router reports of a packet of a direction of the TCP connection."""
        half = self.reader.connection.halves[side]
        if half.space.base is not None:
            operation = self._operations[side]
            # Where octets are missing, others may lie beyond.
            sent = None if operation is not None and operation.has_hole else half.highest
            offset = half.space.nearest(seg.seq)[1]
            self._path_mtu[side].received(path_mtu_message(seg), offset, half.peer.last_ack_sent, sent)

    # --- the end ---

    def finish(self, now: Moment, strays: Iterable[Stray]) -> None:
        """Nothing more comes; ``strays`` are segments beside it that belong to no connection."""
        for side in (1, 0):
            self.take(side)
        for begun in self.operations.values():
            begun.take(())
            begun.quote()
        halves = self.reader.connection.halves
        ends = [
            direction_end(stream) if operation is None else operation.end()
            for stream, operation in zip(halves, self._operations, strict=True)
        ]
        for d, operation in enumerate(self._operations):
            half, findings = halves[d], self._findings_of(d)
            if operation is not None:
                operation.finish(ends[d], ends[1 - d], now)
            findings.report(breaches_at_end(ends[d], ends[1 - d]))
            findings.report(dropped_segments(half.dropped, half.start))
            findings.report(other_fins(half.other_fins, half.fin_captured))
        for one in (*self.reader.connection.late, *strays):
            half = halves[one.direction]
            place = half.space.nearest(one.seq)[1], half.expected, half.peer.right_edge, half.start
            self._findings_of(one.direction).report((stray(one, *place, half.has_right_checksums),))
        rejection = self._rejection()
        if rejection is not None:
            self._findings_of(self.side_of("responder")).report((rejected(rejection),))
        self._judge_startup(ends, now)
        first = self.reader.connection.first_frame, self.reader.connection.first_time
        initiator = self.initiator_side
        self.lifecycle = lifecycle(first, ends[initiator], ends[1 - initiator], rejection)

    def _findings_of(self, side: int) -> HalfFindings:
        operation = self._operations[side]
        if operation is not None:
            return operation.report_to
        return HalfFindings(self, self.role_of(side), self.reader.connection.halves[side])

    def _rejection(self) -> Rejection | None:
        reply = self.reply
        if not self.rejected or reply is None:
            return None
        return Rejection(reply.start, (reply.frame, reply.time), reply.startup)

    def _judge_startup(self, ends: Sequence[DirectionEnd], now: Moment) -> None:
        """Report what startup frames, and what came instead of them, show."""
        reader = self.reader
        sides = []
        for role in ROLES:
            d = self.side_of(role)
            half, operation, frame = reader.connection.halves[d], self._operations[d], reader.frames[d]
            side = StartupSide(
                half.space.base or 0, ends[d], frame, reader.parts[d], reader.garbled[d], reader.after_rejection[d],
                reader.openings[d], first_octets=reader.octets_after[d],
            )  # fmt: skip
            if operation is not None:
                side = side._replace(
                    first=operation.first, first_octets=operation.reader.first_octets, fpdus=operation.counts.fpdus,
                    layout=operation.reader.layout,
                )  # fmt: skip
            elif frame is not None:
                self._findings_of(d).report(copies_of_frame([*reader.rivals[d], *half.late], frame))
            sides.append(side)
        facts = reader.unexpected, reader.answered_octets, reader.rejected, reader.is_accepted
        startup = StartupPhase(sides[0], sides[1], *facts, self.profile.initiator_first, self.responder_port)
        found = judge_startup(startup, now)
        for role, rules in found.forgotten:
            self.findings.forget(role, set(rules))
        for role, breach in found.breaches:
            self._findings_of(self.side_of(role)).report((breach,))
        self.judgement = found.judgement
