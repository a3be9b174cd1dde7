"""One MPA connection as the report has it, and its one-line description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scapy_mpa import offered
from scapy_mpa.analyzer.connection import CapturedConnection, keyed_paths
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.framing.profiles import Profile
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import SHORT, StartupFrame
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.report.beginning import remarkable_beginning
from scapy_mpa.report.half import HalfConnection, inferred_as_dict
from scapy_mpa.report.lifecycle import lifecycle_as_dict
from scapy_mpa.report.upper import stated_limits, upper_as_dict, upper_layer
from scapy_mpa.report.verdict import verdict
from scapy_mpa.rules.findings import Finding
from scapy_mpa.rules.table import RULES
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.lifecycle import Lifecycle
from scapy_mpa.values.segment import KeyedPath, Segment, addresses_of, endpoints, path_of
from scapy_mpa.values.startup import StartupEvent, startup_fields
from scapy_mpa.watches.startup import startup_events

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from scapy.packet import Packet

    from scapy_mpa.framing.agreement import ReadDepths
    from scapy_mpa.framing.deviations import Deviation
    from scapy_mpa.framing.judgement import Judgement
    from scapy_mpa.report.said import Said
    from scapy_mpa.ulp.identify import UpperLayer

_ALL_RULES = frozenset(RULES)


class Connection:
    """One MPA connection.

    ``request`` and ``reply`` are its startup frames, None where not captured, ``request_frame`` and
    ``reply_frame`` the numbers of the frames that completed them.
    """

    __slots__ = (
        "_flow", "_judgement", "_reply", "_request", "_startup", "_upper_layer", "assumptions", "crc", "ended_after",
        "ended_with", "findings", "has_twin", "index", "inferred", "initiator", "lifecycle", "number", "own_paths",
        "part", "path", "profile", "rejected", "responder", "rules", "service_port",
    )  # fmt: skip

    def __init__(self, mpa: CapturedConnection, index: FrameIndex, assumptions: Assumptions = NOTHING) -> None:
        self.number = mpa.number
        self.profile: Profile = mpa.profile
        self.crc = mpa.crc
        #: The tags and tunnels of its segments, of both directions if these differ; None without any.
        paths = mpa.paths
        self.path = " / ".join(dict.fromkeys(", ".join(path) for path in paths)) if paths else None
        #: The paths of its segments.
        self.own_paths = mpa.own_paths
        #: Those of all on its addresses and ports, to which others may add theirs later, and the key of direction 0.
        self._flow = mpa.key, mpa.reader.connection.flow_paths
        self.inferred = mpa.inferred
        #: The port of the Responder's service, if a port mapper has given it the port of this connection.
        self.service_port: int | None = None
        #: What is said of others of the same hosts that ended within a short time: of the one that was closed before
        #: it, and of those that broke off; "" if none did.
        self.ended_after = self.ended_with = ""
        #: True if another connection has the same addresses and ports in another network, as ``path`` tells.
        self.has_twin = False
        self.rejected = mpa.rejected
        self._request, self._reply = mpa.request, mpa.reply
        #: The startup frame that arrived only in part.
        self.part = mpa.part
        self.initiator = HalfConnection(mpa, "initiator", index)
        self.responder = HalfConnection(mpa, "responder", index)
        assert mpa.lifecycle is not None
        #: How it went from its first frame to its last.
        self.lifecycle: Lifecycle = mpa.lifecycle
        #: What each side sent while MPA was started.
        self._startup = mpa.startup
        #: What the startup frames came to; None if neither was captured.
        self._judgement = mpa.judgement
        self.findings: list[Finding] = mpa.findings.sorted()
        #: The ids of the rules that are examined.
        self.rules: Set[str] = _ALL_RULES
        #: The frames of the capture, to be read again, and what was assumed when they were read.
        self.index = index
        self.assumptions = assumptions
        self._upper_layer: UpperLayer | None = None

    def take_service(self, services: Mapping[tuple[bytes, int], int]) -> None:
        """Learn which service a port mapper has at the Responder's address and port."""
        _, address = addresses_of(self.initiator.key)
        self.service_port = services.get((address, int.from_bytes(self.initiator.key[-2:], "big")))

    def take_number(self, number: int, index: FrameIndex) -> None:
        """Become the connection with this number, in captures whose frames ``index`` finds."""
        self.number, self.index = number, index
        for half in (self.initiator, self.responder):
            half.take_number(number, index)

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the verdict, both directions, and findings."""
        from scapy_mpa.report.html import findings_html, paragraph_html, table_html

        headings = ("sent by", "FPDUs", "octets of ULPDUs", "Markers", "CRC errors")
        rows = []
        for half in (self.initiator, self.responder):
            counts, markers = half.counts, "yes" if half.markers else "no"
            rows.append((half.endpoint, counts.fpdus, counts.ulpdu_octets, markers, counts.crc_errors))
        verdict = paragraph_html(f"#{self.number} {self.name}: {self.verdict}")
        return verdict + table_html(headings, rows) + findings_html(self.findings)

    @property
    def request(self) -> CapturedStartup | None:
        """The Request, None if it was not captured."""
        return _startup(self._request)

    @property
    def reply(self) -> CapturedStartup | None:
        """The Reply, None if it was not captured."""
        return _startup(self._reply)

    @property
    def request_frame(self) -> int | None:
        """The frame that completed the Request."""
        return self._request.frame if self._request is not None else None

    @property
    def reply_frame(self) -> int | None:
        """The frame that completed the Reply."""
        return self._reply.frame if self._reply is not None else None

    @property
    def request_seq(self) -> int | None:
        """The sequence number of the first octet of the Request."""
        return self._request.seq if self._request is not None else None

    @property
    def reply_seq(self) -> int | None:
        """The sequence number of the first octet of the Reply."""
        return self._reply.seq if self._reply is not None else None

    @property
    def request_time_ns(self) -> int | None:
        """When the Request was complete, in nanoseconds since the epoch."""
        return self._request.time if self._request is not None else None

    @property
    def reply_time_ns(self) -> int | None:
        """When the Reply was complete, in nanoseconds since the epoch."""
        return self._reply.time if self._reply is not None else None

    @property
    def fpdu_count(self) -> int:
        """The FPDUs of both directions."""
        return self.initiator.counts.fpdus + self.responder.counts.fpdus

    def __repr__(self) -> str:
        """Return the line that ``scapy-mpa analyze`` prints."""
        return f"<{connection_line(self)}>"

    def _inference(self) -> dict[str, Any] | None:
        if self.initiator.inferred is None and self.responder.inferred is None:
            return None
        return {direction: inferred_as_dict(self.half(direction)) for direction in ROLES}

    @property
    def network(self) -> str:
        """The path that distinguishes it from a connection with the same addresses and ports in another network; else
        "".
        """
        return f" ({self.path})" if self.has_twin else ""

    @property
    def name(self) -> str:
        """Initiator and Responder, with the path where only that distinguishes it from another connection."""
        return f"{self.initiator.endpoint} > {self.responder.endpoint}{self.network}"

    @property
    def foreign_paths(self) -> frozenset[KeyedPath]:
        """The paths that only others on its addresses and ports had: their segments are in another network."""
        return keyed_paths(*self._flow) - self.own_paths

    def is_foreign(self, seg: Segment) -> bool:
        """Return True if a segment, of its addresses and ports, came by a path that only other connections had."""
        return bool(self.foreign_paths) and (seg.key, path_of(seg)) in self.foreign_paths

    def is_apart_from(self, other: Connection) -> bool:
        """Return True if it is in another network than a connection that has the same addresses and ports."""
        keys = {key for key, _ in self.own_paths} & {key for key, _ in other.own_paths}
        shared = {key for key, _ in self.own_paths & other.own_paths}
        return keys > shared

    @property
    def revision(self) -> int | None:
        """Rev of the Reply, else of the Request."""
        found = self._reply or self._request
        return found.startup.rev if found is not None else None

    @property
    def startup_events(self) -> list[StartupEvent]:
        """What each side sent while MPA was started, in the order of capture."""
        return startup_events(self._startup) if self._startup is not None else []

    @property
    def verdict(self) -> str:
        """How the connection ended and why, in one sentence."""
        return self._verdict(self.startup_events)

    def _verdict(self, events: Sequence[StartupEvent]) -> str:
        return "; ".join(filter(None, (self._own_verdict(events), self.ended_after, self.ended_with)))

    @property
    def own_verdict(self) -> str:
        """The verdict without what is said about other connections."""
        return self._own_verdict(self.startup_events)

    def _own_verdict(self, events: Sequence[StartupEvent]) -> str:
        said = verdict(self, stated_limits(self.upper_layer))
        return "; ".join((said, *remarkable_beginning(events)))

    @property
    def upper_layer(self) -> UpperLayer:
        """What runs above RDMAP, as far as startup frames and the first Sends show it."""
        if self._upper_layer is None:
            request, reply = [None if found is None else found.startup for found in (self._request, self._reply)]
            self._upper_layer = upper_layer(request, reply, self.responder_port, self.initiator, self.responder)
        return self._upper_layer

    def said(self) -> Iterator[Said]:
        """Yield what both sides sent, FPDU by FPDU, in order of delivery; the frames of the capture are read again.

        Without the FPDUs (``analyze(..., fpdus=False)``) that is nothing.
        """
        from scapy_mpa.report.said import said_by

        for said, _ in said_by(self.initiator, self.responder):
            yield said

    @property
    def judgement(self) -> Judgement:
        """What the startup frames, and the first FPDU of each direction, show of the two endpoints.

        Their kinds, what had to come out, and what is wrong with it (RFC 5044 appendix C, RFC 6581 §9).
        """
        if self._judgement is not None:
            return self._judgement
        from scapy_mpa.framing.deviations import Seen
        from scapy_mpa.framing.judgement import judge

        seen = Seen(self.initiator.first_ulpdu, self.responder.first_ulpdu)
        return judge(self.request, self.reply, seen, self.responder_port)

    @property
    def responder_port(self) -> int:
        """The TCP port of the Responder: that of its service, if a port mapper named it."""
        return self.service_port or int.from_bytes(self.initiator.key[-2:], "big")

    @property
    def depths(self) -> ReadDepths | None:
        """IRD and ORD of both after negotiation; None if they were not exchanged, or a startup frame is missing."""
        from scapy_mpa.framing.agreement import agreed

        if self.request is None or self.reply is None:
            return None
        return agreed(self.request, self.reply, self.responder_port).depths

    def _negotiation(self) -> dict[str, Any] | None:
        if self._request is None and self._reply is None:
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
        name = self.profile.name
        where = rule.clause_about(name, found.topic) if found.topic else rule.clause_in(name)
        return {"id": found.id, "by": found.by, "clause": where, "code": rule.code, "text": found.text}

    def half(self, direction: Role) -> HalfConnection:
        """The half connection that ``direction`` sent."""
        return self.initiator if direction == "initiator" else self.responder

    def plot(
        self,
        kind: str | None = None,
        *,
        directions: Sequence[Role] = ROLES,
        frames: tuple[int, int | None] | None = None,
        since: int | None = None,
        until: int | None = None,
        axis: str | None = None,
        dark: bool = False,
        stag: int | None = None,
    ) -> Figure:
        """Draw the connection; the capture is read again for it.

        Args:
            kind: One of "ladder", "lanes", "sequence", "latency", "reads", "held", "sizes", "throughput" and "memory".
                None: the ladder of a connection that ended before its work did or has no FPDU; the lanes of one whose
                octets came out of order; else the latency of its answers, or lanes along time if it has none.
            directions: Whose half connections are drawn.
            frames: The first and the last frame that are drawn.
            since: A time (nanoseconds since the epoch) before which nothing is drawn.
            until: A time after which nothing is drawn.
            axis: What lanes are drawn along: "octets" or "time"; None: octets.
            dark: Whether the background is dark.
            stag: Of memory, which STag; None: the one that most octets were written to.

        Raises:
            MPAError: matplotlib is not installed, there is no such kind or axis, there is nothing to draw, or the
                capture cannot be read again.
        """
        # Drawing needs the whole report, and is imported by the package only when it is asked for.
        figure: Figure = offered.draw_connection(self, kind, directions, frames, (since, until), axis, dark, stag)
        return figure

    def as_dict(self, directions: Sequence[Role] = ROLES) -> dict[str, Any]:
        """The connection with the keys of the report's JSON, with these half connections."""
        initiator, responder = endpoints(self.initiator.key)
        events = self.startup_events
        return {
            "connection": self.number,
            "initiator": initiator,
            "responder": responder,
            "service_port": self.service_port,
            "path": self.path if self.has_twin else None,
            "profile": self.profile.name,
            "revision": self.revision,
            "crc": self.crc,
            "inferred": self.inferred,
            "inference": self._inference(),
            "rejected": self.rejected,
            "request": _startup_as_dict(self._request),
            "reply": _startup_as_dict(self._reply),
            "part": self.part.as_dict() if self.part is not None else None,
            "halves": {direction: self.half(direction).as_dict() for direction in directions},
            "negotiation": self._negotiation(),
            "ulp": upper_as_dict(self.upper_layer),
            "lifecycle": lifecycle_as_dict(self, self._verdict(events), events),
            "findings": [found.as_dict() for found in self.findings],
        }


def mark_twins(connections: Sequence[Connection]) -> None:
    """Have connections with the same addresses and ports in two networks show their paths."""
    if all(one.path is None for one in connections):
        return
    paths: dict[tuple[str, str], set[str | None]] = {}
    for one in connections:
        paths.setdefault((one.initiator.endpoint, one.responder.endpoint), set()).add(one.path)
    for one in connections:
        one.has_twin = one.path is not None and len(paths[one.initiator.endpoint, one.responder.endpoint]) > 1


class CapturedStartup(StartupFrame):
    """A startup frame of a connection."""

    __slots__ = ()

    def packet(self) -> Packet:
        """Return it as a Scapy packet, an MPARequest or MPAReply."""
        from scapy_mpa.packet.mpa import startup_packet

        return startup_packet(self.encode())


# Those of a thousand connections mostly say the same.
@lru_cache(maxsize=256)
def _captured(startup: StartupFrame) -> CapturedStartup:
    return CapturedStartup(*startup)


_fields = lru_cache(maxsize=256)(startup_fields)


def _startup(found: FoundFrame | None) -> CapturedStartup | None:
    if found is None:
        return None
    captured = _captured if len(found.startup.private_data) <= SHORT else _captured.__wrapped__
    return captured(found.startup)


def _startup_as_dict(found: FoundFrame | None) -> dict[str, Any] | None:
    if found is None:
        return None
    fields = _fields if len(found.startup.private_data) <= SHORT else startup_fields
    return {"frame": found.frame, **fields(found.startup)}


def connection_line(connection: Connection) -> str:
    """Return one line that says who talked, what was negotiated, and how it ended."""
    parts = [
        f"#{connection.number}",
        connection.name,
        *((f"(port mapper: {connection.service_port})",) if connection.service_port is not None else ()),
        connection.profile.name,
        _grounds(connection),
        "C" if connection.crc else "no CRC,",
        f"markers {_markers(connection.initiator)}/{_markers(connection.responder)}",
        *_enhanced(connection),
        *_kinds(connection),
    ]
    return " ".join(parts) + " | " + ", ".join(_outcome(connection))


def _grounds(connection: Connection) -> str:
    """The revision, or from how many FPDUs it was inferred what the connection is."""
    halves = connection.initiator.inferred, connection.responder.inferred
    if any(halves):
        counts = "+".join(str(half.confirmations if half is not None else 0) for half in halves)
        return f"inferred from {counts} FPDUs"
    return f"rev {'?' if connection.revision is None else connection.revision}"


def _markers(half: HalfConnection) -> str:
    return "?" if half.markers is None else "M" if half.markers else "-"


def _enhanced(connection: Connection) -> Iterator[str]:
    """Yield IRD and ORD of each side, and the RTR message that the Reply, else the Request, has (RFC 6581 §9)."""
    request, reply = connection.request, connection.reply
    asked = request.enhanced if request is not None else None
    answered = reply.enhanced if reply is not None else None
    data = answered or asked
    if data is None:
        return
    for who, said in (("initiator", asked), ("responder", answered)):
        if said is not None:
            yield f"{who} ird {said.ird} ord {said.ord}"
    if data.a:
        yield "p2p"
        for name, bit in (("send-rtr", data.b), ("write-rtr", data.c), ("read-rtr", data.d)):
            if bit:
                yield name


def _kinds(connection: Connection) -> Iterator[str]:
    """Yield the kinds of RNIC that the two can be, where one is not simply an IETF RNIC (RFC 5044 appendix C)."""
    if connection.request is None and connection.reply is None:
        return
    judgement = connection.judgement
    kinds = judgement.initiator_kinds, judgement.responder_kinds
    if any(kind and "ietf" not in kind for kind in kinds):
        yield "RNICs " + "/".join("|".join(kind) or "?" for kind in kinds)


def _outcome(connection: Connection) -> Iterator[str]:
    if connection.rejected:
        yield "rejected"
        return
    if connection.part is not None:
        yield str(connection.part)
    if connection.part is not None and connection.request is None and connection.reply is None:
        return
    twice = {one.direction for one in connection.findings if one.rule.id == "startup-role"}
    if connection.request is None:
        yield "a Reply in place of the Request" if "initiator" in twice else "no Request captured"
    if connection.reply is None:
        yield "a Request in place of the Reply" if "responder" in twice else "no Reply captured"
    halves = connection.initiator.counts, connection.responder.counts
    if connection.reply is None and not connection.inferred and not any(counts.fpdus for counts in halves):
        return
    total = "+".join(str(counts.fpdus) for counts in halves)
    yield f"{total} FPDUs"
    for what, attribute in (
        ("placed early", "delivered_late"),
        ("behind a gap", "undelivered"),
        ("bad CRC", "crc_errors"),
        ("cut", "cut_fpdus"),
        ("octets missing", "missing_octets"),
        ("octets without a located FPDU", "unlocated_octets"),
    ):
        count = sum(getattr(counts, attribute) for counts in halves)
        if count:
            yield f"{count} {what}"
