"""What :func:`scapy_mpa.analyze` returns: a report, its connections, their half connections and FPDUs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import TYPE_CHECKING, Any, overload

from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.framing.markers import MARKER_INTERVAL
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.receive.counts import Counts
from scapy_mpa.receive.half import Direction
from scapy_mpa.receive.mpa import CapturedConnection, FoundFrame
from scapy_mpa.receive.records import FPDULog, FPDURecord, record_of
from scapy_mpa.report.context import HalfContext
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import RULES, SEVERITIES, Severity

if TYPE_CHECKING:
    from scapy_mpa.framing.deviations import Deviation
    from scapy_mpa.framing.judgement import Judgement

SCHEMA_VERSION = 1
DIRECTIONS: tuple[Direction, Direction] = ("initiator", "responder")

_ALL_RULES = frozenset(RULES)

#: The counts of a half connection in the report's JSON, in its order.
COUNT_KEYS = (
    "fpdus",
    "placed",
    "delivered",
    "placed_out_of_order",
    "marker_count",
    "crc_errors",
    "ulpdu_octets",
    "stream_octets",
    "missing_octets",
    "unlocated_octets",
    "segments",
    "header_aligned_segments",
    "fpdu_aligned_segments",
    "out_of_order_segments",
    "retransmitted_segments",
    "cut_fpdus",
)


class FPDUs(Sequence[FPDURecord]):
    """The FPDUs of one half connection, in the order of the stream; made when they are looked at.

    ``log`` is what they are made of, None if none was kept.
    """

    def __init__(
        self,
        log: FPDULog | None,
        count: int,
        connection: int,
        direction: Direction,
        context: HalfContext | None = None,
        deviation: str | None = None,
    ) -> None:
        self._context = context
        #: What the sender does wrong, by name.
        self.deviation = deviation
        self.log = log
        self._count = count if log is not None else 0
        self.connection = connection
        self.direction: Direction = direction
        self._records: list[FPDURecord] | None = None

    def take_number(self, number: int, index: FrameIndex) -> None:
        """Belong to the connection of this number, in captures whose frames ``index`` finds."""
        self.connection = number
        if self._context is not None:
            self._context.index = index

    def __iter__(self) -> Iterator[FPDURecord]:
        """Yield the records without keeping them."""
        if self.log is not None:
            for row, frames in self.log.rows():
                yield record_of(row, frames, self.connection, self.direction, self._context, self.deviation)

    def __len__(self) -> int:
        """How many there are."""
        return self._count

    @overload
    def __getitem__(self, index: int) -> FPDURecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[FPDURecord]: ...
    def __getitem__(self, index: int | slice) -> FPDURecord | list[FPDURecord]:
        """One record, or some."""
        return self._all()[index]

    def _all(self) -> list[FPDURecord]:
        if self._records is None:
            self._records = list(iter(self))
        return self._records


class HalfConnection:
    """One direction of a connection.

    ``endpoint`` is who sent it (``address:port``), ``markers`` whether Markers are in use, ``counts`` what was
    counted, ``fpdus`` its FPDUs (empty if the analysis kept none).
    """

    def __init__(self, mpa: CapturedConnection, direction: Direction, index: FrameIndex) -> None:
        operation = mpa.operations.get(direction)
        self.endpoint = mpa.initiator if direction == "initiator" else mpa.responder
        #: What its segments have for a key: addresses and ports of sender and receiver.
        self.key = mpa.halves[direction].key
        #: Sequence number from which Markers count, None if Full Operation was not entered.
        self.seq_start = operation.reassembly.origin if operation is not None else None
        #: None if neither the startup frame that asks for them was captured nor Full Operation was entered.
        self.markers = mpa.markers(direction)
        #: What it was inferred to be, None if a startup frame says it or nothing does.
        self.inferred = mpa.inferences.get(direction)
        self.counts = operation.counts if operation is not None else Counts()
        #: The first octets of the first ULPDU of Full Operation, None if that FPDU was not captured.
        self.first_ulpdu = operation.first_ulpdu if operation is not None else None
        log = operation.log if operation is not None else None
        context = HalfContext(index, operation) if operation is not None else None
        #: What the sender does wrong, by name, if the FPDUs were read by that.
        self.deviation = operation.deviation if operation is not None else None
        self.dialect = operation.dialect if operation is not None else None
        self.fpdus = FPDUs(log, self.counts.fpdus, mpa.number, direction, context, self.deviation)

    def as_dict(self) -> dict[str, Any]:
        """The half connection with the keys of the report's JSON."""
        counts = {key: getattr(self.counts, key) for key in COUNT_KEYS}
        return {"markers": bool(self.markers), "deviation": self.deviation} | counts


class Connection:
    """One MPA connection.

    ``request`` and ``reply`` are its startup frames, None where not captured, ``request_frame`` and
    ``reply_frame`` the numbers of the frames that completed them.
    """

    def __init__(self, mpa: CapturedConnection, index: FrameIndex) -> None:
        self.number = mpa.number
        self.profile: Profile = mpa.profile
        self.crc = mpa.crc
        self.inferred = mpa.inferred
        self.rejected = mpa.rejected
        self.request, self.request_frame = _startup(mpa.request)
        self.reply, self.reply_frame = _startup(mpa.reply)
        #: Sequence numbers of their first octets.
        self.request_seq = mpa.request.seq if mpa.request is not None else None
        self.reply_seq = mpa.reply.seq if mpa.reply is not None else None
        self.initiator = HalfConnection(mpa, "initiator", index)
        self.responder = HalfConnection(mpa, "responder", index)
        #: What the startup frames came to; None if neither was captured.
        self._judgement = mpa.judgement
        self.findings: list[Finding] = mpa.findings.sorted()
        #: The ids of the rules that are looked at.
        self.rules: Set[str] = _ALL_RULES
        #: The frames of the capture, to be read again.
        self.index = index

    def take_number(self, number: int, index: FrameIndex) -> None:
        """Be the connection of this number, in captures whose frames ``index`` finds."""
        self.number, self.index = number, index
        for half in (self.initiator, self.responder):
            half.fpdus.take_number(number, index)

    def __repr__(self) -> str:
        """What `scapy-mpa analyze` says in one line."""
        from scapy_mpa.report.text import connection_line

        return f"<{connection_line(self)}>"

    def _inference(self) -> dict[str, Any] | None:
        halves: dict[str, Any] = {direction: _inferred_as_dict(self.half(direction)) for direction in DIRECTIONS}
        return halves if any(halves.values()) else None

    @property
    def revision(self) -> int | None:
        """Rev of the Reply, else of the Request."""
        startup = self.reply or self.request
        return startup.rev if startup is not None else None

    @property
    def judgement(self) -> Judgement:
        """What the startup frames, and the first FPDU of each direction, tell of the two endpoints.

        Their kinds, what had to come out, and what is wrong with it (RFC 5044 appendix C, RFC 6581 §9).
        """
        if self._judgement is not None:
            return self._judgement
        from scapy_mpa.framing.deviations import Seen
        from scapy_mpa.framing.judgement import judge

        return judge(self.request, self.reply, Seen(self.initiator.first_ulpdu, self.responder.first_ulpdu))

    def _negotiation(self) -> dict[str, Any] | None:
        if self.request is None and self.reply is None:
            return None
        judgement = self.judgement
        return {
            "initiator_kinds": list(judgement.initiator_kinds),
            "responder_kinds": list(judgement.responder_kinds),
            "right": judgement.permitted,
            "violations": [self._deviation(found) for found in judgement.violations if found.id in self.rules],
            "remarks": [self._deviation(found) for found in judgement.remarks if found.id in self.rules],
        }

    def _deviation(self, found: Deviation) -> dict[str, Any]:
        rule = RULES[found.id]
        where = rule.clause_in(self.profile.name)
        return {"id": found.id, "by": found.by, "clause": where, "code": rule.code, "text": found.text}

    def half(self, direction: Direction) -> HalfConnection:
        """The half connection that ``direction`` sent."""
        return self.initiator if direction == "initiator" else self.responder

    def as_dict(self, directions: Sequence[Direction] = DIRECTIONS) -> dict[str, Any]:
        """The connection with the keys of the report's JSON, with these half connections."""
        return {
            "connection": self.number,
            "initiator": self.initiator.endpoint,
            "responder": self.responder.endpoint,
            "profile": self.profile.name,
            "revision": self.revision,
            "crc": self.crc,
            "inferred": self.inferred,
            "inference": self._inference(),
            "rejected": self.rejected,
            "request": _startup_as_dict(self.request, self.request_frame),
            "reply": _startup_as_dict(self.reply, self.reply_frame),
            "halves": {direction: self.half(direction).as_dict() for direction in directions},
            "negotiation": self._negotiation(),
            "findings": [found.as_dict() for found in self.findings],
        }


class Report:
    """The analysis of one or more captures.

    ``packets`` counts the records read, ``tcp_connections`` the TCP connections met, MPA or not; ``findings`` are
    those of no connection; ``damage`` has a line for each capture that could only be read in part.
    """

    def __init__(
        self,
        captures: list[str],
        packets: int,
        tcp_connections: int,
        connections: list[Connection],
        findings: list[Finding],
        damage: list[str],
    ) -> None:
        self.captures = captures
        self.packets = packets
        self.tcp_connections = tcp_connections
        self.connections = connections
        self.findings = findings
        self.damage = damage

    def __repr__(self) -> str:
        """The last line of what `scapy-mpa analyze` says."""
        from scapy_mpa.report.text import summary_line

        return f"<{summary_line(self)}>"

    def select(self, connection: int | None, directions: Sequence[Direction] = DIRECTIONS) -> None:
        """Keep one connection, if a number is given, and the findings of these directions.

        Raises IndexError if there is no connection of that number.
        """
        if connection is not None:
            self.connections = [self.connections[connection]]
            self.findings = []
        for kept in self.connections:
            kept.findings = [found for found in kept.findings if found.direction in (None, *directions)]

    def keep_rules(self, rules: Set[str]) -> None:
        """Keep what is said by the rules with these ids."""
        self.findings = [found for found in self.findings if found.rule.id in rules]
        for connection in self.connections:
            connection.rules = rules
            connection.findings = [found for found in connection.findings if found.rule.id in rules]

    def all_findings(self) -> Iterator[Finding]:
        """The findings of all connections and of none."""
        for connection in self.connections:
            yield from connection.findings
        yield from self.findings

    @property
    def has_errors(self) -> bool:
        """Whether there is a finding of severity error."""
        return self.has_findings("error")

    def has_findings(self, severity: Severity) -> bool:
        """Whether there is a finding of this severity, or a graver one."""
        grave = SEVERITIES[: SEVERITIES.index(severity) + 1]
        return any(found.severity in grave for found in self.all_findings())

    def as_dict(self, directions: Sequence[Direction] = DIRECTIONS) -> dict[str, Any]:
        """The report as ``scapy-mpa analyze --format json`` prints it."""
        return {
            "schema": SCHEMA_VERSION,
            "captures": self.captures,
            "packets": self.packets,
            "tcp_connections": self.tcp_connections,
            "connections": [connection.as_dict(directions) for connection in self.connections],
            "findings": [found.as_dict() for found in self.findings],
        }


def _startup(found: FoundFrame | None) -> tuple[StartupFrame | None, int | None]:
    return (found.startup, found.frame) if found is not None else (None, None)


def _inferred_as_dict(half: HalfConnection) -> dict[str, Any] | None:
    found = half.inferred
    if found is None:
        return None
    return {
        "confirmations": found.confirmations,
        "evidence_bits": found.bits,
        "markers": found.markers,
        "crc": found.crc,
        "marker_seq": half.seq_start % MARKER_INTERVAL if found.markers and half.seq_start is not None else None,
        "fpduptr_origin": found.origin,
    }


def _startup_as_dict(startup: StartupFrame | None, frame: int | None) -> dict[str, Any] | None:
    if startup is None:
        return None
    enhanced = startup.enhanced
    return {
        "frame": frame,
        "m": startup.m,
        "c": startup.c,
        "r": startup.r,
        "s": startup.s,
        "res": startup.res,
        "rev": startup.rev,
        "pd_length": startup.pd_length,
        "private_data": startup.private_data.hex(),
        "enhanced": enhanced._asdict() if enhanced is not None else None,
    }
