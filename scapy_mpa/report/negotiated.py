"""Request and Reply side by side, field by field: what was offered, answered and agreed on, in words.

RFC 5044 §7.1.1 (M, C, R, Rev), RFC 6581 §9 (IRD and ORD, Control Flags A to D), and the Private Data as far as they are
known (:mod:`scapy_mpa.ulp.privatedata`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from textwrap import wrap
from typing import Any

from scapy_mpa.framing.agreement import Operation, ReadDepths, RtrType, agreed, rtr_types
from scapy_mpa.framing.ddp import opcode_name
from scapy_mpa.framing.deviations import is_enhanced, rtr_type
from scapy_mpa.framing.legacy import LegacyDepths, legacy_depths, stated_depths
from scapy_mpa.framing.profiles import profile_of_revision
from scapy_mpa.framing.startup import NOT_NEGOTIATED, EnhancedData, StartupFrame
from scapy_mpa.report.beginning import event_as_dict, event_lines, remarkable_beginning
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import UNKNOWN
from scapy_mpa.ulp.privatedata import ENHANCED_FORM, private_data_parts
from scapy_mpa.values.startup import startup_fields
from scapy_mpa.values.words import plural

#: With what the names of fields that are parts of Private Data begin.
PRIVATE_DATA = "Private Data"
#: Blanks between two columns of the table, and the columns of a terminal that one has to have.
_BETWEEN, _NARROWEST = 2, 14
_SECOND = 1_000_000_000
_RTR_NAMES: dict[RtrType, str] = {"send": "Send", "write": "RDMA Write", "read": "RDMA Read"}


class NegotiatedField(NamedTuple):
    """One field: what the Request says, what the Reply says, and what was agreed; "" where there is nothing."""

    name: str
    offered: str
    answered: str
    agreed: str

    def as_dict(self) -> dict[str, str | None]:
        """The keys of the JSON."""
        return {
            "field": self.name,
            "offered": self.offered or None,
            "answered": self.answered or None,
            "agreed": self.agreed or None,
        }


class Negotiated:
    """The startup frames of one connection, side by side."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._request, self._reply = connection.request, connection.reply
        port = connection.responder_port
        self._asked, self._answered = stated_depths(self._request, port), stated_depths(self._reply, port)
        self._operation: Operation | None = None
        if (self._request is not None or self._reply is not None) and not connection.rejected:
            self._operation = agreed(self._request, self._reply, port)

    # --- the fields ---

    def fields(self) -> list[NegotiatedField]:
        """The fields, in the order of the frames."""
        return [*self._header(), *self._enhanced(), *self._private_data()]

    def _header(self) -> Iterator[NegotiatedField]:
        request, reply, operation = self._request, self._reply, self._operation
        yield self._both("Rev", _revision, self.connection.profile.title if request or reply else "")
        from_initiator = from_responder = crc = ""
        if operation is not None:
            from_initiator = _markers("Initiator", operation.markers_from_initiator)
            from_responder = _markers("Responder", operation.markers_from_responder)
            crc = {True: "CRC in use, both ways", False: "no CRC, either way", None: "not known"}[operation.crc]
        # M rules what its sender receives, so what the peer sends (RFC 5044 §7.1.1).
        asks = {1: "Markers in what it receives", 0: "no Markers in what it receives"}
        yield NegotiatedField(
            "M (Markers), Request", asks[request.m] if request is not None else "", "", from_responder
        )
        yield NegotiatedField("M (Markers), Reply", "", asks[reply.m] if reply is not None else "", from_initiator)
        yield self._both("C (CRC)", lambda frame: "prefers CRC" if frame.c else "does not require CRC", crc)
        rejected = "" if reply is None else "rejected" if reply.r else "accepted"
        yield NegotiatedField(
            "R (rejected)", "set, without effect" if request is not None and request.r else "", rejected, rejected
        )
        yield self._both(
            "S (RFC 6581)", lambda frame: "enhanced" if is_enhanced(frame) else "set" if frame.s else "plain", ""
        )
        if any(frame is not None and frame.res for frame in (request, reply)):
            yield self._both("Res", _res, "")

    def _both(self, name: str, say: Any, outcome: str) -> NegotiatedField:
        offered, answered = ("" if frame is None else say(frame) for frame in (self._request, self._reply))
        return NegotiatedField(name, offered, answered, outcome)

    def _enhanced(self) -> Iterator[NegotiatedField]:
        asked, answered = self._asked, self._answered
        if asked is None and answered is None:
            return
        depths = self._operation.depths if self._operation is not None else None
        yield NegotiatedField("IRD", _depth(asked, "ird"), _depth(answered, "ird"), _depths(depths, "ird"))
        yield NegotiatedField("ORD", _depth(asked, "ord"), _depth(answered, "ord"), _depths(depths, "ord"))
        if not any(frame is not None and frame.enhanced is not None for frame in (self._request, self._reply)):
            return
        common = self._operation.rtr if self._operation is not None else None
        model = ""
        if asked is not None and answered is not None and self._operation is not None:
            model = "peer-to-peer" if asked.a and answered.a else "client-server"
        yield NegotiatedField("Control Flag A", _model(asked), _model(answered), model)
        types: tuple[tuple[str, RtrType], ...] = (("B", "send"), ("C", "write"), ("D", "read"))
        for flag, kind in types:
            outcome = "" if common is None else "both support it" if kind in common else "not in common"
            yield NegotiatedField(f"Control Flag {flag}", _rtr(asked, kind), _rtr(answered, kind), outcome)
        yield self._ready(common)

    def _ready(self, common: tuple[RtrType, ...] | None) -> NegotiatedField:
        offered, answered = (
            "" if data is None else " or ".join(_RTR_NAMES[kind] for kind in rtr_types(data)) or "none"
            for data in (self._asked, self._answered)
        )
        sent = ""
        if common is not None:
            could = " or ".join(_RTR_NAMES[kind] for kind in common) or "nothing in common (error 7)"
            sent = f"{could}; {self._sent()}"
        return NegotiatedField("ready-to-receive", offered, answered, sent)

    def _sent(self) -> str:
        """Return which ready-to-receive message was sent."""
        half = self.connection.initiator
        if half.first_ulpdu is None:
            return "nothing was sent"
        kind = rtr_type(half.first_ulpdu)
        frame = f" at frame {half.opened[0]}" if half.opened is not None else ""
        sent = f"zero-length {_RTR_NAMES[kind]}" if kind else opcode_name(half.first_ulpdu) or "no such message"
        return f"sent: {sent}{frame}"

    def _private_data(self) -> Iterator[NegotiatedField]:
        said = [self._parts(frame) for frame in (self._request, self._reply)]
        yield self._both("PD_Length", lambda frame: plural(frame.pd_length, "octet"), "")
        for form in dict.fromkeys(form for parts in said for form in parts):
            yield NegotiatedField(form, said[0].get(form, ""), said[1].get(form, ""), "")

    def _parts(self, frame: StartupFrame | None) -> dict[str, str]:
        """The parts of the Private Data by name: what each says, or its octets."""
        if frame is None:
            return {}
        found = {}
        for part in private_data_parts(frame, self.connection.responder_port):
            if part.form == ENHANCED_FORM:
                continue  # its fields stand above
            name = PRIVATE_DATA if part.form == UNKNOWN else f"{PRIVATE_DATA}, {part.form}"
            found[name] = part.text or _octets(frame.private_data[part.offset : part.offset + part.length])
        return found

    # --- what is said ---

    @property
    def _sides(self) -> tuple[tuple[str, StartupFrame | None, int | None, int | None], ...]:
        connection = self.connection
        return (
            ("request", self._request, connection.request_frame, connection.request_time_ns),
            ("reply", self._reply, connection.reply_frame, connection.reply_time_ns),
        )

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        connection, operation = self.connection, self._operation
        values: dict[str, Any] = {
            "connection": connection.number,
            "initiator": connection.initiator.endpoint,
            "responder": connection.responder.endpoint,
            "profile": connection.profile.name,
            "rejected": connection.rejected,
        }
        for name, startup, frame, time in self._sides:
            values[name] = None if startup is None else self._startup_as_dict(startup, frame, time)
        depths = operation.depths if operation is not None else None
        common = operation.rtr if operation is not None else None
        sent = self.connection.initiator.first_ulpdu
        values["agreed"] = (
            None
            if operation is None
            else {
                "markers_from_initiator": operation.markers_from_initiator,
                "markers_from_responder": operation.markers_from_responder,
                "crc": operation.crc,
                "depths": depths._asdict() if depths is not None else None,
                "rtr": list(common) if common is not None else None,
                "rtr_sent": rtr_type(sent) if common and sent is not None else None,
            }
        )
        values["fields"] = [field.as_dict() for field in self.fields()]
        values["events"] = [event_as_dict(one) for one in connection.startup_events]
        return values

    def _startup_as_dict(self, startup: StartupFrame, frame: int | None, time: int | None) -> dict[str, Any]:
        port = self.connection.responder_port
        legacy: LegacyDepths | None = legacy_depths(startup, port)
        return {
            "frame": frame,
            "time": None if time is None else time / _SECOND,
            **startup_fields(startup),
            "smb_direct_depths": legacy._asdict() if legacy is not None else None,
            "private_data": [part.as_dict() for part in private_data_parts(startup, port)],
        }

    def lines(self, columns: int | None = None) -> Iterator[str]:
        """The table for people, and a line above it, in this many columns of a terminal; None: as many as it takes."""
        connection = self.connection
        yield f"#{connection.number} {connection.name}"
        heads = []
        first = connection.request_time_ns
        for name, startup, frame, time in self._sides:
            head = f"{name.capitalize()}, frame {frame}" if startup is not None else f"no {name.capitalize()}"
            if startup is not None and name == "reply" and first is not None and time is not None:
                head += f", {(time - first) / 1_000_000:+.3f} ms"
            heads.append(head)
        if self._request is None and self._reply is None:
            yield "  no startup frame captured"
            yield from self._event_lines()
            return
        fields = self.fields()
        rows = [("", *heads, "rejected" if connection.rejected else "agreed")]
        rows += [tuple(field) for field in fields if not field.name.startswith(PRIVATE_DATA)]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        if columns is not None:
            room = columns - 2 - widths[0] - 3 * _BETWEEN
            if sum(widths[1:]) + max(len(row[3]) for row in rows) > room:
                widths[1:] = [room // 3] * 2
            if room // 3 < _NARROWEST:
                yield from _one_by_one(rows)
                rows = []
        for row in rows:
            yield from _row_lines(row, widths, None if columns is None else columns - 2)
        yield from self._event_lines()
        # What Private Data say would make the table as wide as no terminal is.
        for field in fields:
            if field.name.startswith(PRIVATE_DATA):
                for name, said in (("Request", field.offered), ("Reply", field.answered)):
                    if said:
                        yield f"  {name}'s {field.name}: {said}"

    def _event_lines(self) -> Iterator[str]:
        events = self.connection.startup_events
        yield from (f"  {line}" for line in (*remarkable_beginning(events), *event_lines(events)))


def _row_lines(row: tuple[str, ...], widths: list[int], columns: int | None) -> Iterator[str]:
    """A row whose cells are at most so wide, in as many lines as that takes."""
    last = len(row[3]) if columns is None else columns - sum(widths) - 3 * _BETWEEN
    parts = [
        wrap(cell, max(width, 1), break_long_words=False, break_on_hyphens=False) if len(cell) > width else [cell]
        for cell, width in zip(row, (*widths, last), strict=True)
    ]
    for line in zip_longest(*parts, fillvalue=""):
        cells = (f"{cell:<{width}}" for cell, width in zip(line, widths, strict=False))
        yield "  " + (" " * _BETWEEN).join((*cells, line[3])).rstrip()


def _one_by_one(rows: list[tuple[str, ...]]) -> Iterator[str]:
    """The same where columns would be too narrow: a line for each cell."""
    heads = rows[0]
    yield f"  {heads[1]}; {heads[2]}"
    for row in rows[1:]:
        yield f"  {row[0]}"
        for name, cell in zip(("Request", "Reply", heads[3]), row[1:], strict=True):
            if cell:
                yield f"    {name}: {cell}"


def _revision(frame: StartupFrame) -> str:
    return f"{frame.rev} ({profile_of_revision(frame.rev).title})"


def _markers(whose: str, markers: bool | None) -> str:
    if markers is None:
        return f"not known whether the {whose} sends Markers"
    return f"the {whose} sends {'' if markers else 'no '}Markers"


def _depth(data: EnhancedData | None, name: str) -> str:
    if data is None:
        return ""
    depth = getattr(data, name)
    return "left to the ULP" if depth == NOT_NEGOTIATED else str(depth)


def _depths(depths: ReadDepths | None, name: str) -> str:
    """IRD or ORD of both after negotiation."""
    if depths is None:
        return ""
    said = []
    for side in ("initiator", "responder"):
        depth = getattr(depths, f"{side}_{name}")
        said.append(f"{side.capitalize()} {'left to the ULP' if depth is None else depth}")
    return ", ".join(said)


def _model(data: EnhancedData | None) -> str:
    return "" if data is None else "peer-to-peer" if data.a else "client-server"


def _rtr(data: EnhancedData | None, kind: RtrType) -> str:
    if data is None:
        return ""
    flag = {"send": data.b, "write": data.c, "read": data.d}[kind]
    said = f"zero-length {_RTR_NAMES[kind]}" if flag else f"no {_RTR_NAMES[kind]}"
    return said if data.a else f"{said} (ignored without A)" if flag else "-"


def _octets(octets: bytes) -> str:
    """Unknown Private Data: all of it if it is short."""
    if len(octets) <= 16:
        return octets.hex(" ")
    return f"{octets[:12].hex(' ')} ... ({len(octets)} octets)"


def _res(frame: StartupFrame) -> str:
    return f"{frame.res:#03x}" + (f" ({frame.res_name})" if frame.res_name else "")
