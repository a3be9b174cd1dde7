"""pyshark's packets together with our FPDU records of the same frames (:func:`enrich`)."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from scapy_mpa.errors import MPAError
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.model import Report
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.records import FPDURecord

if TYPE_CHECKING:
    from pyshark.packet.packet import Packet


class EnrichedPacket(NamedTuple):
    """A packet of pyshark's; the FPDUs that its frame placed (those with a bad CRC: completed), and those of which it
    was the first to bring some octets, both in the order of the stream. ``report`` is that of the whole capture."""

    packet: Packet
    placed: tuple[FPDURecord, ...]
    brought: tuple[FPDURecord, ...]
    report: Report


def enrich(
    capture: Any, *, assumptions: Assumptions = NOTHING, limits: Limits = DEFAULT_LIMITS
) -> Iterator[EnrichedPacket]:
    """Yield the packets of a ``pyshark.FileCapture`` with our records of the same frame.

    The capture may have a display filter, ``keep_packets=False`` and any preferences: packets are matched by their
    number. Raises :class:`~scapy_mpa.errors.MPAError` unless it is a capture of a file with whole packets, and
    :class:`~scapy_mpa.errors.CaptureError` as :func:`scapy_mpa.analyze` does.
    """
    path = getattr(capture, "input_filepath", None)
    if path is None:
        raise MPAError("enrich takes a pyshark.FileCapture; live packets are not numbered as a capture's are")
    report = analyze(os.fspath(path), assumptions=assumptions, limits=limits)
    return _enriched(capture, report)


def _enriched(capture: Any, report: Report) -> Iterator[EnrichedPacket]:
    placed: dict[int, list[FPDURecord]] = defaultdict(list)
    brought: dict[int, list[FPDURecord]] = defaultdict(list)
    for connection in report.connections:
        for half in (connection.initiator, connection.responder):
            for record in half.fpdus:
                placed[record.placed_frame or record.frames[-1]].append(record)
                for frame in record.frames:
                    brought[frame].append(record)
    for packet in capture:
        if not hasattr(packet, "number"):
            raise MPAError("enrich needs whole packets: leave only_summaries out")
        number = int(packet.number)
        yield EnrichedPacket(packet, tuple(placed.get(number, ())), tuple(brought.get(number, ())), report)
