"""Bulk connections: the same octets every time, and nothing for tshark to complain about."""

from __future__ import annotations

import hashlib
import io
import itertools
import shutil
import subprocess
from pathlib import Path

import pytest

from scapy_mpa.craft.bulk import BulkConnection, BulkPlan
from scapy_mpa.craft.pcapfile import PcapWriter

PLANS = {
    "plain": BulkPlan(round_octets=20_000),
    "no-crc": BulkPlan(round_octets=20_000, crc=False),
    "markers": BulkPlan(round_octets=20_000, markers=True),
    "reordered": BulkPlan(round_octets=20_000, markers=True, segmentation="anywhere", reordered=0.1),
    "small": BulkPlan(round_octets=20_000, segmentation="packed", write_octets=38, write_spread=16),
}
PREFERENCES = ["tcp.check_checksum:TRUE", "ip.check_checksum:TRUE", "tcp.try_heuristic_first:TRUE"]
FIELDS = ["ip.checksum.status", "tcp.checksum.status", "tcp.analysis.flags", "_ws.malformed"]
FIELDS += ["iwarp_mpa.ulpdulength"]
DIGESTS = {
    "plain": "35e172eb1f5459e3d94afb482cf7d441a63e474653ed26c2546868e5235a68e9",
    "no-crc": "838837701dc0ef45af51fb9e5c0fef3ddb6688ded69c56b5f56ac6eb07bdf87c",
    "markers": "d0589878275385eb5fd966ffe94fff34880d531f4692fb27c9475514103a6cb7",
    "reordered": "1eeded25c721f3296573608ea6ccda5b6f810c0b2346667956e3e52a69d2f756",
    "small": "9e44463ca1b10b2b0f3820e4b3090d2a30cafd3821a8bf29f17f3b618963fe78",
}


def capture(plan: BulkPlan, seed: int = 1, number: int = 0) -> tuple[bytes, BulkConnection]:
    clock = itertools.count(1_700_000_000_000_000_000, 12_000)
    connection = BulkConnection(plan, clock=clock, seed=seed, number=number)
    file = io.BytesIO()
    PcapWriter(file).write(connection.packets(rounds=3))
    return file.getvalue(), connection


@pytest.mark.parametrize("name", PLANS)
def test_the_same_octets_on_every_python(name: str) -> None:
    octets, _ = capture(PLANS[name])
    assert hashlib.sha256(octets).hexdigest() == DIGESTS[name]


def test_seed_and_number_matter() -> None:
    assert len({capture(PLANS["plain"], seed, number)[0] for seed in (1, 2) for number in (0, 1)}) == 4


def test_ending_finishes_the_round() -> None:
    connection = BulkConnection(PLANS["plain"], clock=itertools.count())
    packets = connection.packets()
    taken = list(itertools.islice(packets, 10))
    connection.ending = True
    taken += packets
    assert len(taken) < 40
    assert connection.fpdus == {"initiator": 16, "responder": 1}


@pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
@pytest.mark.parametrize("name", PLANS)
def test_tshark_finds_nothing_wrong(name: str, tmp_path: Path) -> None:
    octets, connection = capture(PLANS[name])
    path = tmp_path / "bulk.pcap"
    path.write_bytes(octets)
    options = [word for name in PREFERENCES for word in ("-o", name)]
    fields = [word for name in FIELDS for word in ("-e", name)]
    lines = subprocess.run(
        ["tshark", "-r", path, *options, "-T", "fields", *fields], check=True, capture_output=True, text=True
    ).stdout.splitlines()
    rows = [line.split("\t") for line in lines]
    assert {(ip, tcp) for ip, tcp, *_ in rows} == {("1", "1")}
    if not connection.plan.reordered:
        assert {flags for _, _, flags, *_ in rows} == {""}
    if not connection.plan.markers:  # with Markers tshark misses FPDUs
        lengths = [length for row in rows for length in row[4].split(",") if length]
        assert {row[3] for row in rows} == {""}
        assert len(lengths) == sum(connection.fpdus.values())
