"""The ULPDUs of a capture as a capture of exported PDUs: Wireshark dissects DDP and RDMAP, and what runs above them,
without having to know where FPDUs begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from scapy_mpa.craft.pcapngfile import CutPacket, PcapngWriter
from scapy_mpa.framing.fpdu import Fpdu
from scapy_mpa.reading.found import FoundFPDU
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.wireshark.upperpdu import DISSECTOR, LINKTYPE_WIRESHARK_UPPER_PDU, UpperPDU


class Exported(NamedTuple):
    """How many ULPDUs were written, and how many FPDUs were left out because their CRC is bad."""

    ulpdus: int
    bad: int


def export_ulpdus(fpdus: Iterable[FoundFPDU], file: BinaryIO) -> Exported:
    """Write the ULPDUs of FPDUs, in their order, as a pcapng file.

    Each has the time and the number of the frame that placed its FPDU.  Those whose CRC is bad are left out: a receiver
    hands nothing of them on (RFC 5044 §8). Those that the capture cut are cut here, too. Raises OSError if the file
    cannot be written.
    """
    bad = 0

    def packets() -> Iterator[CutPacket]:
        nonlocal bad
        for found in fpdus:
            record = found.record
            if record.placed_frame is None:
                bad += 1
                continue
            yield exported(found.half.key, record.placed_frame, record.time_ns, found.decoded)

    ulpdus = PcapngWriter(file, linktype=LINKTYPE_WIRESHARK_UPPER_PDU).write_cut(packets())
    return Exported(ulpdus, bad)


def exported(key: bytes, frame: int, time: int, fpdu: Fpdu) -> CutPacket:
    """A ULPDU as an exported PDU: ``key`` are addresses and ports, ``frame`` placed it at ``time`` (nanoseconds)."""
    octets = UpperPDU(DISSECTOR, key, frame, fpdu.ulpdu).encode()
    return time, octets, len(octets) + fpdu.ulpdu_length - len(fpdu.ulpdu)
