"""The records of the receiver as rows with the keys of `scapy-mpa fpdus`, `time` left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.receiver.values import Gap, LocatedFPDU
from scapy_mpa.values.records import BAD
from scapy_mpa.values.segment import Segment

CRC = ("good", "bad", "unchecked", "cut")
LOCATED_BY = ("start", "length", "marker", "scan")


def rows(segments: Iterable[Segment], as_placed: bool = False) -> list[dict[str, Any]]:
    """Rows in the order of connection, direction, offset; `as_placed`: as they became final, with `final_frame`.

    A row as placed has the delivered_frame that was known with it.
    """
    receiver = Receiver()
    told: list[tuple[int, ConnectionReader, int, FPDUReader, LocatedFPDU, int]] = []
    frame = 0
    for seg in segments:
        frame = seg.frame
        mpa = receiver.receive(seg)
        if mpa is not None and as_placed:
            told += [(frame, mpa, d, *one) for d in (0, 1) for one in take(mpa.readers[d])]
    connections = [mpa for _, mpa in receiver.finish()]
    if as_placed:
        told += [(frame, mpa, d, *one) for mpa in connections for d in (0, 1) for one in take(mpa.readers[d])]
        return [
            row(connections.index(mpa), mpa, d, reader, fpdu, delivered) | {"final_frame": final}
            for final, mpa, d, reader, fpdu, delivered in told
            if not reader.replaced
        ]
    return [
        row(number, mpa, d, reader, fpdu, delivered)
        for number, mpa in enumerate(connections)
        if mpa.initiator is not None
        for d in (mpa.initiator, 1 - mpa.initiator)
        if (reader := mpa.readers[d]) is not None
        for fpdu, delivered in sorted(reader.passed, key=offset_of)
        if isinstance(fpdu, LocatedFPDU)
    ]


def offset_of(passed: tuple[LocatedFPDU | Gap | PlainRun, int]) -> int:
    """The offset by which rows are sorted."""
    return passed[0].start if isinstance(passed[0], Gap) else passed[0].offset


def take(reader: FPDUReader | None) -> Iterator[tuple[FPDUReader, LocatedFPDU, int]]:
    """Take the FPDUs that became final, each with its delivered frame, 0 if that is not known yet."""
    if reader is not None:
        final, reader.final = reader.final, []
        passed = reader.take_passed()
        delivered = {fpdu.offset: frame for fpdu, frame in passed if isinstance(fpdu, LocatedFPDU)}
        for fpdu in final:
            yield reader, fpdu, delivered.get(fpdu.offset, 0)


def row(
    number: int, mpa: ConnectionReader, d: int, reader: FPDUReader, fpdu: LocatedFPDU, delivered: int
) -> dict[str, Any]:
    base = reader.half.space.base
    assert base is not None
    is_bad = fpdu.crc == BAD
    at = fpdu.complete[0] if is_bad else fpdu.known[0]
    return {
        "connection": number,
        "direction": "initiator" if d == mpa.initiator else "responder",
        "seq": (base + fpdu.offset) & SEQ_MASK,
        "header_seq": (base + fpdu.header) & SEQ_MASK,
        "ulpdu_length": fpdu.ulpdu_length,
        "wire_length": fpdu.end - fpdu.offset,
        "markers": fpdu.markers,
        "crc": CRC[fpdu.crc],
        "located_by": LOCATED_BY[fpdu.located_by],
        "frames": list(fpdu.frames),
        "placed_frame": None if is_bad else fpdu.known[0],
        "delivered_frame": delivered or None,
        "after_error": reader.first_error is not None and (at, fpdu.offset) > reader.first_error,
        "opcode": OPCODE_NAMES[fpdu.opcode],
    }
