"""Our FPDUs and startup frames against Wireshark's, one by one (:func:`crosscheck`).

They are lined up by TCP connection and sequence number, or, where Wireshark does not tell where an FPDU lies because it
was reassembled from several segments, by its octets. What agrees is counted, what differs is listed with the limit of
Wireshark that explains it, if one does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from scapy_mpa.capture.index import is_pipe
from scapy_mpa.capture.named import STANDARD_INPUT, Sources
from scapy_mpa.capture.source import EXPANSION
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.reading.found import FoundFPDUs
from scapy_mpa.reading.query import Query
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.report.show import startup_of
from scapy_mpa.system.names import encodable, printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.wireshark.dissected import DissectedFPDU, DissectedStartup, Dissection
from scapy_mpa.wireshark.limits import (
    LIMITS,
    SEEN_IN,
    WiresharkShown,
    explain_difference,
    explain_extra,
    explain_missing,
    explain_missing_startup,
)
from scapy_mpa.wireshark.ours import OurFPDU, OurFPDUs
from scapy_mpa.wireshark.tshark import ToolMissing, Tshark, find_tshark

if TYPE_CHECKING:
    from scapy_mpa.ipsec.associations import Associations

SCHEMA_VERSION = 1

Kind: TypeAlias = Literal[
    "only-ours",
    "only-wireshark",
    "length",
    "crc-verdict",
    "crc-octets",
    "fpduptr",
    "ulpdu",
    "startup-only-ours",
    "startup-only-wireshark",
    "startup-field",
]

#: Fields without which nothing can be compared; and what is not compared without another one.
NEEDED = ("iwarp_mpa.ulpdulength",)
OPTIONAL = {
    "iwarp_mpa.crc_check": "CRC",
    "iwarp_mpa.marker_fpduptr": "FPDUPTR",
    "iwarp_ddp": "ULPDU",
    "iwarp_mpa.marker_flag": "M",
    "iwarp_mpa.crc_flag": "C",
    "iwarp_mpa.rej_flag": "R",
    "iwarp_mpa.rev": "Rev",
    "iwarp_mpa.pdlength": "PD_Length",
    "iwarp_mpa.privatedata": "Private Data",
}
#: Differences that are kept; all are counted.
MOST_DETAILS = 10_000
#: This many octets around a difference are shown.
_SHOWN = 8


class Difference(NamedTuple):
    """Something on which we and Wireshark do not agree.

    ``connection`` and ``direction`` are None where there is none of ours. ``frame`` is Wireshark's, or, for what it
    does not show, the one that completes ours; ``seq`` the sequence number of the ULPDU_Length (of the startup frame),
    None if Wireshark does not tell. ``limit``, one of :data:`~scapy_mpa.wireshark.limits.LIMITS`, explains it; None if
    nothing does.
    """

    kind: Kind
    connection: int | None
    direction: Role | None
    frame: int
    seq: int | None
    ours: str | None
    wireshark: str | None
    limit: str | None


@dataclass
class CrossCheck:
    """Result of comparing each FPDU with Wireshark's dissection.

    ``ours`` and ``wireshark`` count FPDUs, ``agreed`` those that are the same in everything compared; the same of
    startup frames. ``counts`` has how many differences there are of a kind and limit, ``details`` the first of them.
    ``not_compared`` is what this Wireshark has no field for; ``failure`` says why Wireshark stopped early.
    """

    capture: str
    version: str
    report: Report
    not_compared: list[str]
    ours: int = 0
    wireshark: int = 0
    agreed: int = 0
    startup_ours: int = 0
    startup_wireshark: int = 0
    startup_agreed: int = 0
    counts: Counter[tuple[Kind, str | None]] = field(default_factory=Counter)
    firsts: dict[tuple[Kind, str | None], Difference] = field(default_factory=dict)
    details: list[Difference] = field(default_factory=list)
    failure: str | None = None

    @property
    def unexplained(self) -> int:
        """The number of differences that nothing explains."""
        return sum(count for (_, limit), count in self.counts.items() if limit is None)

    def add(self, difference: Difference) -> None:
        """Take a difference."""
        key = difference.kind, difference.limit
        self.counts[key] += 1
        self.firsts.setdefault(key, difference)
        if len(self.details) < MOST_DETAILS:
            self.details.append(difference)

    def groups(self) -> Iterator[tuple[Kind, str | None, int, Difference]]:
        """Kind, limit, number and first of the differences: unexplained ones before others, many before few."""
        for (kind, limit), count in sorted(
            self.counts.items(), key=lambda one: (one[0][1] is not None, -one[1], one[0][0], one[0][1] or "")
        ):
            yield kind, limit, count, self.firsts[kind, limit]

    def as_dict(self) -> dict[str, Any]:
        """Return what ``scapy-mpa crosscheck --format json`` prints."""
        return {
            "schema": SCHEMA_VERSION,
            "capture": encodable(self.capture),
            "wireshark_version": self.version,
            "limits_seen_in": SEEN_IN,
            "fpdus": {"ours": self.ours, "wireshark": self.wireshark, "agreed": self.agreed},
            "startup_frames": {
                "ours": self.startup_ours,
                "wireshark": self.startup_wireshark,
                "agreed": self.startup_agreed,
            },
            "not_compared": self.not_compared,
            "differences": [
                {"kind": kind, "limit": limit, "why": LIMITS.get(limit or ""), "count": count, "first": first._asdict()}
                for kind, limit, count, first in self.groups()
            ],
            "unexplained": self.unexplained,
            "details": [difference._asdict() for difference in self.details],
            "failure": self.failure,
        }


def crosscheck(
    capture: str | os.PathLike[str],
    *,
    assumptions: Assumptions = NOTHING,
    limits: Limits = DEFAULT_LIMITS,
    esp: Associations | None = None,
    udp_ports: Mapping[int, str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CrossCheck:
    """Compare what we find in a capture file with what Wireshark does.

    ``udp_ports`` is as :func:`scapy_mpa.analyze` takes it, and tshark is given it, too.
    ``progress`` receives the frame that Wireshark has reached, and the number of frames. Raises
    :class:`~scapy_mpa.wireshark.tshark.ToolMissing` without tshark or pyshark, and
    :class:`~scapy_mpa.errors.CaptureError` as :func:`scapy_mpa.analyze` does, and for a pipe, which tshark could not
    read again. Memory follows the number of FPDUs.
    """
    if os.fspath(capture) == STANDARD_INPUT or is_pipe(capture):
        raise CaptureError(f"{printable(capture)}: tshark reads the capture too, so it must be a named file")
    tshark = find_tshark()
    if not tshark.fields.issuperset(NEEDED):
        raise ToolMissing(f"tshark {tshark.version_text} does not dissect MPA: it has no field {', '.join(NEEDED)}")
    sources = Sources([os.fspath(capture)], esp=esp, udp_ports=udp_ports)
    with FoundFPDUs(Query(sources, assumptions=assumptions, limits=limits)) as found:
        fpdus = OurFPDUs(found)
    # Wireshark has no limits: what was not read here might take it hours.
    is_limited = any(EXPANSION in line for line in found.report.damage)
    dissection = Dissection(capture, tshark, found.report.packets if is_limited else None, sources)
    try:
        missing = [what for name, what in OPTIONAL.items() if name not in tshark.fields]
        result = CrossCheck(os.fspath(capture), tshark.version_text, found.report, missing, ours=len(fpdus))
        _Comparison(result, fpdus, tshark).run(dissection, progress)
    finally:
        fpdus.close()
        for connection in found.report.connections[:1]:  # all have the same
            connection.index.close()
    return result


class _Comparison:
    """Compares what Wireshark shows, as it comes, and what is left at the end."""

    def __init__(self, result: CrossCheck, fpdus: OurFPDUs, tshark: Tshark) -> None:
        self._result = result
        self._fpdus = fpdus
        self._has = {name for name in OPTIONAL if name in tshark.fields}
        self._connections: dict[bytes, list[Connection]] = {}
        #: Our startup frames that Wireshark has not shown yet.
        self._startup: dict[tuple[int, Role], tuple[Connection, StartupFrame, int, int]] = {}
        self._requests: set[int] = set()
        for connection in result.report.connections:
            for direction in ROLES:
                self._connections.setdefault(connection.half(direction).key, []).append(connection)
                startup = startup_of(connection, direction)
                if startup is not None:
                    self._startup[connection.number, direction] = (connection, *startup)
        result.startup_ours = len(self._startup)
        self._startup_frames = frozenset(frame for _, _, _, frame in self._startup.values())

    def run(self, dissection: Dissection, progress: Callable[[int, int], None] | None) -> None:
        result = self._result
        for theirs in dissection:
            if progress is not None:
                progress(theirs.frame, result.report.packets)
            if isinstance(theirs, DissectedStartup):
                result.startup_wireshark += 1
                self._compare_startup(theirs)
            else:
                result.wireshark += 1
                self._compare(theirs)
        result.failure = dissection.failure
        for connection, startup, seq, frame in self._startup.values():
            direction: Role = "initiator" if startup.kind == "request" else "responder"
            limit = explain_missing_startup(connection, direction)
            self._add("startup-only-ours", connection, direction, frame, seq, startup.kind, None, limit)
        seen = WiresharkShown(frozenset(self._requests), self._startup_frames)
        for ours, limit in explain_missing(self._fpdus, seen):
            record = ours.record
            frame = record.placed_frame or record.frames[-1]
            length = f"ULPDU_Length {record.ulpdu_length}"
            self._add("only-ours", ours.connection, record.direction, frame, record.header_seq, length, None, limit)

    # --- FPDUs ---

    def _compare(self, theirs: DissectedFPDU) -> None:
        ours = self._fpdus.take(theirs)
        if ours is None:
            limit = explain_extra(theirs, self._connections.get(theirs.key, ()))
            length = f"ULPDU_Length {theirs.ulpdu_length}"
            self._add("only-wireshark", None, None, theirs.frame, theirs.header_seq, None, length, limit)
            return
        agrees = True
        for kind, mine, other in self._differences(ours, theirs):
            agrees = False
            record = ours.record
            limit = explain_difference(ours, self._fpdus.is_behind_left(ours))
            self._add(kind, ours.connection, record.direction, theirs.frame, record.header_seq, mine, other, limit)
        self._result.agreed += agrees

    def _differences(self, ours: OurFPDU, theirs: DissectedFPDU) -> Iterator[tuple[Kind, str, str]]:
        record = ours.record
        if record.ulpdu_length != theirs.ulpdu_length:
            yield "length", str(record.ulpdu_length), str(theirs.ulpdu_length)
        if "iwarp_mpa.crc_check" in self._has:
            if ours.crc != theirs.crc:
                yield "crc-octets", ours.crc.hex(), theirs.crc.hex()
            # Wireshark has no word for what the capture cut: without a CRC it does not say anything of it.
            if record.crc != theirs.verdict and (record.crc != "cut" or theirs.crc):
                yield "crc-verdict", record.crc, theirs.verdict
        if "iwarp_mpa.marker_fpduptr" in self._has and ours.fpduptrs != theirs.fpduptrs:
            yield "fpduptr", _numbers(ours.fpduptrs), _numbers(theirs.fpduptrs)
        if "iwarp_ddp" in self._has:
            yield from self._ulpdu(ours, theirs)

    def _ulpdu(self, ours: OurFPDU, theirs: DissectedFPDU) -> Iterator[tuple[Kind, str, str]]:
        ulpdu = self._fpdus.ulpdu(ours)
        for at, octets in theirs.ulpdu:
            there = ulpdu[at : at + len(octets)]
            if there != octets:
                pairs = zip(there, octets, strict=False)
                first = next((index for index, (one, other) in enumerate(pairs) if one != other), len(there))
                shown = slice(first, first + _SHOWN)
                where = f"octet {at + first}: "
                yield "ulpdu", where + there[shown].hex(), where + octets[shown].hex()
                return

    # --- startup frames ---

    def _compare_startup(self, theirs: DissectedStartup) -> None:
        direction: Role = "initiator" if theirs.kind == "request" else "responder"
        there = [
            one
            for connection in self._connections.get(theirs.key, ())
            if connection.half(direction).key == theirs.key
            and (one := self._startup.get((connection.number, direction))) is not None
        ]
        if not there:
            self._add("startup-only-wireshark", None, None, theirs.frame, None, None, theirs.kind, None)
            return
        connection, startup, seq, _ = min(there, key=lambda one: abs(one[3] - theirs.frame))
        del self._startup[connection.number, direction]
        if theirs.kind == "request":
            self._requests.add(connection.number)
        agrees = True
        for name, value in theirs.values.items():
            mine = getattr(startup, name)
            if mine != value:
                agrees = False
                said = f"{name} {_said(mine)}", f"{name} {_said(value)}"
                self._add("startup-field", connection, direction, theirs.frame, seq, *said, None)
        self._result.startup_agreed += agrees

    def _add(
        self,
        kind: Kind,
        connection: Connection | None,
        direction: Role | None,
        frame: int,
        seq: int | None,
        ours: str | None,
        theirs: str | None,
        limit: str | None,
    ) -> None:
        number = connection.number if connection is not None else None
        self._result.add(Difference(kind, number, direction, frame, seq, ours, theirs, limit))


def _numbers(values: Sequence[int]) -> str:
    return ", ".join(map(str, values)) or "none"


def _said(value: int | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
