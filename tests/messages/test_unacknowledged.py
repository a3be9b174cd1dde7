"""Messages that the peer never acknowledged, where a connection ended before its work did."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.utils import rdpcap, wrpcap

from scapy_mpa import analyze, iter_messages
from scapy_mpa.capture.files import Captures
from scapy_mpa.framing.ddp import LAST
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.values.segment import ACK_FLAG, RST, reverse_key
from tests.conftest import named

NOTE = "never fully acknowledged"


def expected(path: Path) -> dict[tuple[int, Role], list[bool]]:
    """True if the peer acknowledged no more than a part of each message, by the acknowledgements in the capture."""
    acks: dict[bytes, list[int]] = defaultdict(list)
    with Captures(path) as captures:
        for batch in captures.batches():
            for seg in batch:
                if seg.flags & ACK_FLAG and not seg.flags & RST:
                    acks[reverse_key(seg.key)].append(seg.ack)
    found: dict[tuple[int, Role], list[bool]] = {}
    for connection in analyze(path).connections:
        for role in ROLES:
            half = connection.half(role)
            start = half.seq_start or 0
            acked = max((seq_diff(ack, start) for ack in acks[half.key]), default=0)
            open_, lost = False, []
            for record in half.fpdus:
                end = seq_diff(record.seq, start) + record.wire_length
                if not open_:
                    lost.append(False)
                lost[-1] = connection.lifecycle.is_unfinished and end > acked
                open_ = not record.ulpdu()[0] & LAST
            if lost:
                found[connection.number, role] = lost
    return found


@pytest.mark.parametrize(
    "name", ["siw-terminate", "suiw-two-hosts", "siw-client-killed", "siw-three-in-a-row", "siw-midstream", "siw-rping"]
)
def test_those_are_noted_that_no_acknowledgement_covers(name: str) -> None:
    noted: dict[tuple[int, Role], list[bool]] = defaultdict(list)
    for row in iter_messages(named(name)):
        noted[row.connection, row.direction].append(NOTE in (row.note or ""))
    assert noted == expected(named(name))


def test_the_note_says_who_reset_it_where() -> None:
    notes = [row.note for row in iter_messages(named("siw-client-killed")) if row.note]
    reset = f"{NOTE}, RST by the Responder at frame 1433"
    assert notes == [reset, f"its last segment was never sent, or not captured; {reset}"]


def test_a_message_of_which_no_fpdu_is_whole_is_not_one_of_them(tmp_path: Path) -> None:
    """It is counted as unacknowledged, but is not listed: the note is not moved to one that was acknowledged."""
    out = tmp_path / "part.pcap"
    packets: list[Any] = list(rdpcap(str(named("suiw-two-hosts"))))
    last = packets[12]
    last[TCP].payload = type(last[TCP].payload)(bytes(last[TCP].payload)[:20])
    del last[IP].len, last[IP].chksum, last[TCP].chksum
    wrpcap(str(out), packets)
    (connection,) = analyze(out, fpdus=False).connections
    assert connection.lifecycle.initiator.unacknowledged_messages == 2
    assert [row.first_frame for row in iter_messages(out) if NOTE in (row.note or "")] == [12]
