"""The ULPDUs of a capture as a capture of exported PDUs: Wireshark dissects DDP and RDMAP, and what runs above them,
without having to know where FPDUs begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from scapy_mpa.craft.pcapngfile import PcapngWriter
from scapy_mpa.wireshark.found import FoundFPDU
from scapy_mpa.wireshark.upperpdu import DISSECTOR, LINKTYPE_WIRESHARK_UPPER_PDU, UpperPDU


class Exported(NamedTuple):
    """How many ULPDUs were written, and how many FPDUs were left out because their CRC is bad."""

    ulpdus: int
    bad: int


def export_ulpdus(fpdus: Iterable[FoundFPDU], file: BinaryIO) -> Exported:
    """Write the ULPDUs of FPDUs, in their order, as a pcapng file.

    Each has the time and the number of the frame that placed its FPDU.  Those whose CRC is bad are left out: a receiver
    hands nothing of them on (RFC 5044 §8). Raises OSError if the file cannot be written.
    """
    bad = 0

    def packets() -> Iterator[tuple[int, bytes]]:
        nonlocal bad
        for found in fpdus:
            record = found.record
            if record.placed_frame is None:
                bad += 1
                continue
            pdu = UpperPDU(DISSECTOR, found.half.key, record.placed_frame, found.decoded.ulpdu)
            yield record.time_ns, pdu.encode()

    ulpdus = PcapngWriter(file, linktype=LINKTYPE_WIRESHARK_UPPER_PDU).write(packets())
    return Exported(ulpdus, bad)
