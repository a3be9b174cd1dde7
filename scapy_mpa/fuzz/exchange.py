"""Exchanges as a capture has them: what cases begin from.

``read_exchanges`` reads a capture by the analysis of this package: startup frames, and every FPDU in the order in which
a receiver could deliver it. How it was cut in segments, what was lost and came again is left behind; cases draw that
anew. The octets of a capture are hostile: what is taken of one is bounded (``MOST_OCTETS``).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from typing import Any

from scapy_mpa.capture.index import rewind
from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.craft.again import steps_of
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.turns import Say
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.reading.found import FoundFPDUs
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.model import Report
from scapy_mpa.report.said import Said, said_by, said_in
from scapy_mpa.tuples import NamedTuple

#: Octets of ULPDUs that are taken of a capture; each FPDU counts some more.
MOST_OCTETS = 64 << 20
_OCTETS_AN_FPDU = 200
_IPV4_SIZE = 4
#: Packets of the handshake.
_HANDSHAKE = 3


class Window(NamedTuple):
    """Which messages of an exchange: from a place (0 to 1) on, this many octets of ULPDUs; None: all."""

    start: float = 0.0
    octets: int | None = None


class RecordedExchange(NamedTuple):
    """What was sent on one connection; pairs are (Initiator's, Responder's).

    ``setup`` is what its sides agreed on, and what they do wrong, as parameters of an exchange; ``upper`` what runs
    above RDMAP, None if that is not known.
    """

    source: str
    connection: int
    ip_version: int
    setup: dict[str, Any]
    frames: tuple[StartupFrame | None, StartupFrame | None]
    begins_with_syn: bool
    said: tuple[Say, ...]
    upper: str | None = None

    def exchange(self, window: Window | None = None) -> Exchange:
        """Messages, all or some, behind the startup frames."""
        made = Exchange(self.setup, _said(self.said, window or Window()))
        made.upper = self.upper
        for role, frame in zip(ROLES, self.frames, strict=True):
            made.begin(role, b"" if frame is None else frame)
        if not self.begins_with_syn:
            made.packets.append(lambda packets: packets[_HANDSHAKE:])
        return made


def _said(said: tuple[Say, ...], window: Window) -> Iterator[Say]:
    """The messages in a window; one that is longer than the window alone is cut to it."""
    room = window.octets
    for number, one in enumerate(said[int(window.start * len(said)) :]):
        payload = one.message.payload
        if room is not None:
            if number and len(payload) > room:
                return
            one = Say(one.role, one.message._replace(payload=payload[:room]))
            room -= len(one.message.payload)
        yield one


class Exchanges(NamedTuple):
    """Those of a capture; ``is_whole``: all of its FPDUs are there; ``damage``: where it cannot be read, and why."""

    exchanges: tuple[RecordedExchange, ...]
    is_whole: bool
    damage: tuple[str, ...] = ()


def read_exchanges(
    capture: CaptureSource | Sequence[CaptureSource], source: str, *, most_octets: int = MOST_OCTETS
) -> Exchanges:
    """Return what was sent on the MPA connections of a capture; ``source`` is its name in logs.

    The capture is read twice. Raises CaptureError as ``scapy_mpa.analyze`` does, and for one that cannot be read again.
    """
    report = analyze(capture)
    halves = [half for one in report.connections for half in (one.initiator, one.responder)]
    rewind(capture)
    # Only the analysis finds out what a sender does wrong; where none does, it is bounded better.
    deviates = any(half.dialect is not None for half in halves)
    said: dict[int, list[Said]] = {}
    is_whole = True
    for number, one, octets in _recorded(report) if deviates else _found(capture):
        most_octets -= octets + _OCTETS_AN_FPDU
        if most_octets < 0:
            is_whole = False
            break
        said.setdefault(number, []).append(one)
    exchanges = tuple(_exchange(one, source, said.get(one.number, [])) for one in report.connections)
    return Exchanges(exchanges, is_whole, tuple(report.damage))


def _exchange(connection: Connection, source: str, said: list[Said]) -> RecordedExchange:
    halves, profile = (connection.initiator, connection.responder), connection.profile
    key = halves[0].key
    size = len(key[:-4]) // 2
    addresses = [str(ipaddress.ip_address(key[at : at + size])) for at in (0, size)]
    setup = {
        "profile": profile.name,
        "initiator": addresses[0],
        "responder": addresses[1],
        "ports": (int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")),
        "markers": tuple(bool(half.markers) for half in halves),
        "c": (int(bool(connection.crc)),) * 2,
        "deviation": tuple(half.deviation or "" for half in halves),
    }
    steps = (step for step in steps_of(said) if isinstance(step, Say))
    return RecordedExchange(
        source,
        connection.number,
        4 if size == _IPV4_SIZE else 6,
        setup,
        (connection.request, connection.reply),
        connection.request is not None or not profile.startup_frames,
        tuple(steps),
        connection.upper_layer.protocol,
    )


def _found(capture: CaptureSource | Sequence[CaptureSource]) -> Iterator[tuple[int, Said, int]]:
    """Number of the connection, what was said, and the octets of the FPDU, in the order of delivery."""
    with FoundFPDUs(capture, "delivered") as found:
        for fpdu in found:
            yield fpdu.connection.number, said_in(fpdu.record, fpdu.decoded), len(fpdu.octets)


def _recorded(report: Report) -> Iterator[tuple[int, Said, int]]:
    """The same by the records of an analysis that knows what the senders do wrong."""
    for connection in report.connections:
        for said, octets in said_by(connection.initiator, connection.responder):
            yield connection.number, said, octets
