"""The watches find what the catalogue's table says of each case, and no more, but for what is explained."""

from __future__ import annotations

import io
from typing import Final

import pytest

from scapy_mpa.catalogue.malformed import Malformed
from scapy_mpa.catalogue.table import CASES
from tests.watches.driver import findings_of, is_watched, watch_capture

#: Cases of which the watches tell otherwise, and why.
OTHERWISE: Final[dict[str, str]] = {
    # The deviation that is diagnosed names these rules.
    "markers-left-out": "marker-absent: no FPDU of a sender that deviates is judged",
    "markers-not-asked": "marker-unasked: the same",
    "markers-both-ways-asked-one-way": "the same",
    # The table is that of the receiver before.
    "length-65535-of-78": "fpdu-format: FPDUs after it are found by CRC, so it is not the FIN that cuts one",
    "tcp-checksum-and-never-again": "crc: a wrong TCP checksum alone means nothing (DESIGN, Checksums)",
    "late-octets-in-the-window": "late-duplicate: the octets belong to the connection before",
    "overlap-beyond-a-hole-inside-second": "alignment-retransmission: beyond a hole as elsewhere",
    "overlap-beyond-a-hole-inside-second-no-crc": "the same",
    "snap-length-100": "octets that a snapshot length cut off are not missing (DESIGN, Cut octets)",
    # Open.
    "ack-of-never-sent": "outside-window: an ACK of octets that were never sent is believed",
}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.options])
def test_a_case(name: str) -> None:
    malformed = Malformed(name)
    file = io.BytesIO()
    malformed.captured.write(file)
    file.seek(0)
    found = {(one.rule.id, one.direction) for one in findings_of(watch_capture(file))}
    right = {(rule, direction) for rule, direction in malformed.raised if is_watched(rule)}
    assert name in OTHERWISE or found == right
    assert name not in OTHERWISE or found != right
