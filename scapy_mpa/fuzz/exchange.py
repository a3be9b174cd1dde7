"""The messages of an MPA connection, as a capture has them: what cases begin from.

``read_exchanges`` reads a capture by the analysis of this package: startup frames, and every FPDU in the order in which
a receiver could deliver it. How it was cut in segments, what was lost and came again is left behind; cases draw that
anew. The octets of a capture are hostile: what is taken of one is bounded (``MOST_OCTETS``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from operator import itemgetter
from typing import NamedTuple

from scapy_mpa.capture.files import CaptureSource
from scapy_mpa.capture.index import rewind
from scapy_mpa.craft.tcppacket import Role
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.dialect import read_fpdu, ulpdu_of
from scapy_mpa.framing.fpdu import Fpdu, decode_fpdu, pad_length
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.fuzz.units import Way
from scapy_mpa.report.analysis import analyze
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.model import Report
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.wireshark.found import FoundFPDUs, marker_phase

#: Octets of ULPDUs that are taken of a capture; each FPDU counts some more.
MOST_OCTETS = 64 << 20
_OCTETS_AN_FPDU = 200
_IPV4_KEY = 12


class Said(NamedTuple):
    """What a side said in one FPDU; PAD and CRC are None where they are right."""

    role: Role
    ulpdu: bytes
    pad: bytes | None = None
    crc: int | None = None


class Exchange(NamedTuple):
    """The messages of one connection, and how its two sides lay them; pairs are (Initiator's, Responder's)."""

    source: str
    connection: int
    ip_version: int
    ports: tuple[int, int]
    request: StartupFrame | None
    reply: StartupFrame | None
    ways: tuple[Way, Way]
    #: What the senders do wrong, by name.
    deviations: tuple[str | None, str | None]
    begins_with_syn: bool
    said: tuple[Said, ...]


class Exchanges(NamedTuple):
    """Those of a capture; ``is_whole``: all of its FPDUs are there; ``damage``: where it cannot be read, and why."""

    exchanges: tuple[Exchange, ...]
    is_whole: bool
    damage: tuple[str, ...] = ()


def read_exchanges(
    capture: CaptureSource | Sequence[CaptureSource], source: str, *, most_octets: int = MOST_OCTETS
) -> Exchanges:
    """What was said on the MPA connections of a capture; ``source`` is what it is called in logs.

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


def _exchange(connection: Connection, source: str, said: list[Said]) -> Exchange:
    halves = connection.initiator, connection.responder
    key = halves[0].key
    origin = connection.profile.fpduptr_origin
    crc = bool(connection.crc)
    return Exchange(
        source,
        connection.number,
        4 if len(key) == _IPV4_KEY else 6,
        (int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")),
        connection.request,
        connection.reply,
        (Way(bool(halves[0].markers), crc, origin), Way(bool(halves[1].markers), crc, origin)),
        (halves[0].deviation, halves[1].deviation),
        connection.request is not None or not connection.profile.startup_frames,
        tuple(said),
    )


def _found(capture: CaptureSource | Sequence[CaptureSource]) -> Iterator[tuple[int, Said, int]]:
    """Number of the connection, what was said, and the octets of the FPDU, in the order of delivery."""
    with FoundFPDUs(capture, "delivered") as found:
        for fpdu in found:
            yield fpdu.connection.number, _said(fpdu.record, fpdu.decoded), len(fpdu.octets)


def _said(record: FPDURecord, fpdu: Fpdu) -> Said:
    is_zero = fpdu.pad == bytes(pad_length(fpdu.ulpdu_length))
    crc = fpdu.crc if record.crc == "bad" else None
    return Said(record.direction, fpdu.ulpdu, None if is_zero else fpdu.pad, crc)


def _recorded(report: Report) -> Iterator[tuple[int, Said, int]]:
    """The same by the records of an analysis that knows what the senders do wrong."""
    for connection in report.connections:
        halves = [_turns(half) for half in (connection.initiator, connection.responder)]
        for _, said, octets in merge(*halves, key=itemgetter(0)):
            yield connection.number, said, octets


def _turns(half: HalfConnection) -> Iterator[tuple[int, Said, int]]:
    """What a side said, each with the frame at which it and all before it was complete."""
    turn = offset = 0
    seq = half.seq_start or 0
    for number, record in enumerate(half.fpdus):
        turn = max(turn, record.frames[-1])
        offset += record.seq - seq - offset & SEQ_MASK
        try:
            octets = record.octets()
        except CaptureError:  # what it was made of cannot be found again
            continue
        if half.dialect is not None:
            spoken = read_fpdu(half.dialect, octets, offset, half.dialect.due_behind(offset, number))
            ulpdu = ulpdu_of(spoken, octets) if spoken is not None else b""
            yield turn, Said(record.direction, ulpdu), len(octets)
        else:
            decoded = decode_fpdu(octets, marker_phase(half, offset), check_crc=False)
            if decoded is not None:
                yield turn, _said(record, decoded), len(octets)
