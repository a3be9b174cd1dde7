"""The requirements of draft-culley-iwarp-mpa-02, most of which RFC 5044 has too."""

from __future__ import annotations

from scapy_mpa.rules.requirements.rfc5044 import like
from scapy_mpa.rules.requirements.row import Sections, seen, unseen

CULLEY_02: Sections = {
    "3.2": like("1.2", 1),
    "5.1": (unseen("MUST", "TCP reports to MPA that the connection is closed, or closing", "interface"),),
    "5.1.1": (
        seen("SHOULD", "TCP can begin segments with FPDUs, and reports its EMSS", "alignment", "fpdu-above-emss"),
        unseen("MUST", "without MPA, TCP segments as usual", "internal"),
        seen("SHOULD", "with MPA, it segments by FPDUs", "alignment", "alignment-lost"),
    ),
    "5.1.2": (
        unseen("SHOULD", "TCP passes segments to MPA as they come", "interface"),
        unseen("MUST", "it keeps what it has passed", "internal"),
        unseen("MUST NOT", "it passes nothing twice", "interface"),
        unseen("MUST", "DDP delivers in the order that TCP reports", "internal"),
        unseen("MUST", "without MPA, TCP delivers in order as usual", "internal"),
        unseen("SHOULD", "with MPA, it passes data and order separately", "interface"),
    ),
    "5.2": (
        *like("3", 3, 4, 5),
        like("3", 6)[0]._replace(word="NOT REQUIRED"),
        *like("3", 7, 8),
    ),
    "6": like("4.1", 1, 2),
    "6.1": like("4.2", 1, 2),
    "7.1": (
        seen("MUST", "a Marker every 512 octets, always", "marker-position", "marker-absent"),
        seen("MUST", "FPDUPTR is the distance from the first octet of the FPDU", "marker-length", "fpduptr-origin"),
        *like("4.3", 5, 6, 7),
        seen("MUST", "all Markers of an FPDU point to its first octet", "marker-agree", "fpduptr-origin"),
        *like("4.3", *range(9, 13)),
    ),
    "7.2": (
        seen("MUST", "the CRC field is there and right, always", "crc", "crc-field"),
        *like("4.4", *range(10, 14)),
    ),
    "7.3": (
        *like("3", 1),
        seen("SHOULD", "segments begin with FPDUs and hold whole ones", "alignment", "alignment-lost"),
        seen("SHOULD", "Nagle's algorithm is off", "alignment"),
        seen("MUST", "a ULPDU that was taken is sent, or the connection fails", "connection-lost"),
        seen("MUST", "FPDUs keep their format where alignment is lost", "fpdu-format", "deviating-sender"),
        seen("SHOULD", "a retransmission keeps the boundaries of segments", "alignment-retransmission"),
    ),
    "7.3.2": like("4.5", 1, 3, 4, 5),
    "7.4": like("6", *range(1, 5)),
    "7.4.1": like("A.4", 1),
    "8.1": (
        *like("7.1", 1),
        seen("MUST", "the first four octets are a Marker of zero", "marker-first"),
    ),
    "8.2": like("7.2", 1),
    "9": (
        *like("8", 1, 2, 3, 4, 6),
        seen("MUST NOT", "MPA never closes after an error", "error-closed"),
    ),
    "13.1.1.2": (unseen("MUST", "a reassembly buffer holds at least 140 octets", "internal"),),
}
