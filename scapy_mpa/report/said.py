"""What both sides of a connection sent: their ULPDUs, in the order in which a receiver could deliver them.

How they were cut in segments, what was lost and came again is left out. What is wrong about an FPDU is kept: PAD and
CRC where they are not what they should be.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from operator import itemgetter

from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.fpdu import Fpdu, decode_fpdu, read_fpdu, ulpdu_of
from scapy_mpa.framing.markers import pad_length
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.report.half import HalfConnection, marker_phase
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord


class Said(NamedTuple):
    """What a side sent in one FPDU; PAD and CRC are None where they are right.

    ``time_ns`` is when it was placed (found bad), in nanoseconds since the epoch.
    """

    role: Role
    ulpdu: bytes
    pad: bytes | None = None
    crc: int | None = None
    time_ns: int = 0


def said_in(record: FPDURecord, fpdu: Fpdu) -> Said:
    """Return what was sent in an FPDU."""
    is_zero = fpdu.pad == bytes(pad_length(fpdu.ulpdu_length))
    crc = fpdu.crc if record.crc == "bad" else None
    return Said(record.direction, fpdu.ulpdu, None if is_zero else fpdu.pad, crc, record.time_ns)


def said_by(initiator: HalfConnection, responder: HalfConnection) -> Iterator[tuple[Said, int]]:
    """Yield what both sides sent, with the number of octets of each FPDU; the halves have records.

    Frames are read again; what cannot be is left out.
    """
    for _, said, octets in merge(_turns(initiator), _turns(responder), key=itemgetter(0)):
        yield said, octets


def _turns(half: HalfConnection) -> Iterator[tuple[int, Said, int]]:
    """Yield what a side sent, each with the frame at which it and everything before it was complete."""
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
            yield turn, Said(record.direction, ulpdu, time_ns=record.time_ns), len(octets)
        else:
            decoded = decode_fpdu(octets, marker_phase(half.markers, offset), check_crc=False)
            if decoded is not None:
                yield turn, said_in(record, decoded), len(octets)
