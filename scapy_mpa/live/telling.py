"""Events of live connections, for people and programs: lines as ``messages`` prints them, a log of JSON lines.

FPDUs of both directions become messages by the same assembly as those of a capture. A line is printed when its message
is whole, so that a Request's says nothing of its answer, which comes later.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from scapy_mpa.errors import MPAError
from scapy_mpa.framing.ddp import opcode_name
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.live.events import (
    Established,
    Event,
    PeerDeviated,
    Rejected,
    RequestReceived,
    StreamDataReceived,
    StreamEnded,
)
from scapy_mpa.live.recording import RecordedConnection
from scapy_mpa.messages.lines import json_line, text_line
from scapy_mpa.messages.row import MessageRow, MessageValues, row_of
from scapy_mpa.rdmap.assembly import Assembly, ConnectionMessages, DDPSegment, LatestPayload
from scapy_mpa.rdmap.links import AnswerValues
from scapy_mpa.values.startup import startup_fields

#: Who writes a line.
Write = Callable[[str], None]


def _nothing(_line: str) -> None:
    """Write a line nowhere."""


class Telling:
    """Reports all connections of a session.

    Args:
        show: takes lines for people, as ``messages`` prints them; None: there are none.
        log: takes JSON lines; None: there are none.
        payload: shows the octets of messages too.
    """

    def __init__(self, show: Write | None = None, log: Write | None = None, *, payload: bool = False) -> None:
        self.shows, self.logs = show is not None, log is not None
        self.wants_payload = payload
        self._show, self._log = show or _nothing, log or _nothing

    def line(self, text: str) -> None:
        """A line for people."""
        self._show(text)

    def event(self, connection: int, time: float, name: str, **values: Any) -> None:
        """A line of the log."""
        if self.logs:
            self._log(json.dumps({"time": time, "connection": connection, "event": name, **values}))

    def message(self, row: MessageRow) -> None:
        """A message is whole."""
        payload = row.payload.hex() if row.payload is not None else None
        if self.shows:
            self._show(text_line(row, payload).rstrip("\n"))
        if self.logs:
            said = json.loads(json_line(row, payload))
            self._log(json.dumps({"time": said["time"], "connection": row.connection, "event": "message", **said}))


class ToldConnection:
    """Reports one connection, which it also records.

    Args:
        telling: of the session.
        recorded: the packets of this connection.
        number: of the connection, from 0.
        role: ours.
        port: of TCP, of the Responder.

    Attributes:
        counts: what passed, by name: FPDUs and octets of ULPDUs of each direction.
    """

    def __init__(self, telling: Telling, recorded: RecordedConnection, number: int, role: Role, port: int) -> None:
        self._telling = telling
        self._recorded = recorded
        self.number = number
        self._role: Role = role
        self._port = port
        self._payloads = LatestPayload() if telling.wants_payload else None
        self._assembly = Assembly(self, self._payloads)
        self._messages: ConnectionMessages | None = None
        self.counts = {"sent": 0, "sent_octets": 0, "received": 0, "received_octets": 0, "messages": 0}

    # --- what passes ---

    def opened(self, ends: dict[str, str], time: float) -> None:
        """The TCP connection stands."""
        self._recorded.open(time)
        self._telling.event(self.number, time, "connected", role=self._role, **ends)

    def data(self, by: Role, octets: bytes, time: float) -> int:
        """Octets that were written, or read; returns the number of their frame."""
        return self._recorded.data("client" if by == "initiator" else "server", octets, time)

    def ended(self, by: Role, how: Literal["fin", "rst"], time: float) -> None:
        """A side closed, or reset."""
        self._recorded.close("client" if by == "initiator" else "server", how, time)
        self._telling.event(self.number, time, "closed", by=by, how=how)

    def frame(self, frame: StartupFrame, time: float) -> None:
        """A startup frame was sent or received."""
        self._telling.event(self.number, time, frame.kind, **startup_fields(frame))

    def happened(self, event: Event, time: float) -> None:
        """Handle an event of the MPA endpoint."""
        telling, number = self._telling, self.number
        if isinstance(event, RequestReceived):
            return
        if isinstance(event, Established):
            depths = event.agreement.depths
            telling.event(
                number,
                time,
                "established",
                profile=event.agreement.profile.name,
                crc=bool(event.agreement.crc),
                markers={
                    "initiator": bool(event.agreement.markers_from_initiator),
                    "responder": bool(event.agreement.markers_from_responder),
                },
                depths=depths._asdict() if depths is not None else None,
                rtr=event.rtr,
                private_data=event.private_data.hex(),
            )
            if telling.shows:
                telling.line(f"#{number} established: {_agreed(event)}")
        elif isinstance(event, Rejected):
            telling.event(number, time, "rejected", private_data=event.private_data.hex())
            said = f", Private Data {event.private_data.hex()}" if event.private_data else ""
            telling.line(f"#{number} rejected{said}")
        elif isinstance(event, PeerDeviated):
            telling.event(
                number, time, "deviation", rule=event.rule, clause=event.clause, detail=event.detail, by=event.by
            )
            telling.line(f"#{number} {event.by} {event.rule}: {event.detail} ({event.clause})")
        elif isinstance(event, StreamDataReceived):
            telling.event(number, time, "stream", octets=event.octets.hex())
            telling.line(f"#{number} {len(event.octets)} octets that are not MPA: {event.octets[:64].hex()}")
        elif isinstance(event, StreamEnded):
            telling.event(number, time, "ended", how=event.how)

    def fpdu(self, by: Role, ulpdu: bytes, wire_length: int, frame: int, time: float) -> None:
        """An FPDU was written, or came."""
        word = "sent" if by == self._role else "received"
        self.counts[word] += 1
        self.counts[f"{word}_octets"] += len(ulpdu)
        telling = self._telling
        if not telling.shows and not telling.logs:
            return
        telling.event(
            self.number,
            time,
            "fpdu",
            direction=by,
            ulpdu_length=len(ulpdu),
            wire_length=wire_length,
            opcode=opcode_name(ulpdu),
            frame=frame,
        )
        if self._messages is None:
            return
        nanoseconds = round(time * 1e9)
        half = self._messages.halves[0 if by == "initiator" else 1]
        self._assembly.take(
            half, DDPSegment(ulpdu, len(ulpdu), frame, frame, frame, frame, nanoseconds, nanoseconds, False)
        )

    def begin(
        self, request: StartupFrame | None, reply: StartupFrame | None, depths: tuple[int | None, int | None]
    ) -> None:
        """Full Operation begins; ``depths`` are ORD of both sides."""
        self._messages = ConnectionMessages(0, request, reply, self._port, depths)

    def failed(self, error: MPAError, time: float, **values: Any) -> None:
        """Something went wrong."""
        self._telling.event(self.number, time, "error", error=str(error), **values)
        self._telling.line(f"#{self.number} {error}")

    def finished(self, status: int, summary: str, time: float) -> None:
        """Finish: no more events follow."""
        self._telling.event(self.number, time, "finished", status=status, summary=summary, **self.counts)

    # --- what the assembly has ---

    def add(self, row: tuple[object, ...]) -> int:
        """A message."""
        self.counts["messages"] += 1
        values = MessageValues._make(row)
        payload = self._payloads.take() if self._payloads is not None else None
        direction: Literal["initiator", "responder"] = "responder" if values.half & 1 else "initiator"
        self._telling.message(row_of(values, self.number, direction, None, payload))
        return 0

    def answer(self, _number: int, _answer: AnswerValues) -> None:
        """The line of the Request was printed."""


def _agreed(event: Established) -> str:
    """Return what was agreed on, in words."""
    agreement = event.agreement
    markers = [
        name
        for name, has in (
            ("initiator", agreement.markers_from_initiator),
            ("responder", agreement.markers_from_responder),
        )
        if has
    ]
    said = [
        agreement.profile.name,
        "CRC" if agreement.crc else "no CRC",
        f"Markers from {' and '.join(markers)}" if markers else "no Markers",
    ]
    if agreement.depths is not None:
        depths = agreement.depths
        said.append(
            f"ORD {_number(depths.initiator_ord)} and {_number(depths.responder_ord)}, "
            f"IRD {_number(depths.initiator_ird)} and {_number(depths.responder_ird)}"
        )
    if event.rtr is not None:
        said.append(f"RTR {event.rtr}")
    if event.private_data:
        said.append(f"Private Data {event.private_data.hex()}")
    return ", ".join(said)


def _number(depth: int | None) -> str:
    return "open" if depth is None else str(depth)
