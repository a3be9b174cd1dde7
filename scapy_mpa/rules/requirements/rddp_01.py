"""The requirements of draft-ietf-rddp-mpa-01, most of which culley-02 or RFC 5044 has too."""

from __future__ import annotations

from scapy_mpa.rules.requirements.culley_02 import CULLEY_02
from scapy_mpa.rules.requirements.rfc5044 import like
from scapy_mpa.rules.requirements.row import Sections, seen, unseen

RDDP_01: Sections = {
    "1.2": (
        *like("1.2", 1),
        unseen("SHOULD NOT", "a ULP need not protect its data against errors once more", "ulp"),
    ),
    "3.1": CULLEY_02["5.1"],
    "3.1.1": (*CULLEY_02["5.1.1"], seen("SHOULD", "where TCP cannot, MPA does its best", "alignment")),
    "3.1.2": CULLEY_02["5.1.2"],
    "3.2": CULLEY_02["5.2"],
    "4": like("4.1", 1, 2, 3),
    "4.1": like("4.2", 1, 2),
    "5.1": (
        *like("4.3", 1, 2),
        seen("MUST", "FPDUPTR is the distance from the first octet of the FPDU", "marker-length", "fpduptr-origin"),
        *like("4.3", 5, 6, 7),
        seen("MUST", "all Markers of an FPDU point to its first octet", "marker-agree", "fpduptr-origin"),
        *like("4.3", *range(9, 13)),
    ),
    "5.2": like("4.4", 1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13),
    "5.3": CULLEY_02["7.3"],
    "5.3.2": like("4.5", *range(1, 6)),
    "5.4": CULLEY_02["7.4"],
    "5.4.1": CULLEY_02["7.4.1"],
    "6.1": (
        *like("7.1", 1, 2),
        *like("7.1.2", *range(1, 23)),
    ),
    "6.1.1": (
        *like("7.1.1", 2, 4, 8, 9, 10, 11),
        seen("MUST", "Rev is 0", "startup-revision", "startup-revision-differs"),
        seen("MUST", "any other Rev ends in close", "receiver-revision", "rnic-foreign-revision"),
        *like("7.1.1", 17),
    ),
    "6.1.4": like("7.1.5", 1),
    "6.2": like("7.2", 1),
    "7": like("8", *range(1, 8)),
    "11.2.2": CULLEY_02["13.1.1.2"],
}
