"""tshark reads every scenario: no header is malformed, no checksum wrong, and where it can be trusted it agrees.

It can be trusted with streams without Markers, in order. All scenarios are laid into one capture, one after the
other and each between addresses of its own, so that tshark starts a few times only.
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.truth import Truth
from scapy_mpa.framing.role import ROLES

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")

GOOD, BAD = "1", "0"
NETWORK = ["lose:resegment=true", "reorder", "duplicate", "retransmit", "corrupt:repaired=true", "fragment"]


def everything() -> list[Conversation]:
    """The conversations of all scenarios, each connection with a port and a second of its own."""
    found = [conversation for name in shipped() for conversation in load(name).conversations]
    for number, conversation in enumerate(found):
        setup = conversation.setup
        conversation.setup = dataclasses.replace(setup, ports=(20000 + number, 7471), time=setup.time + number)
    return found


def written(folder: Path, impairments: list[str]) -> tuple[Path, list[TcpPacket], list[dict[str, Any]], Traffic]:
    traffic, truth = Traffic(everything(), impairments), Truth()
    capture = folder / "all.pcap"
    with open(capture, "wb") as file:
        traffic.write(file, truth=truth)
    return capture, list(traffic.packets()), list(truth.records()), traffic


def tshark(capture: Path, *arguments: str) -> list[str]:
    command = ["tshark", "-r", str(capture), "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]
    command += ["-o", "tcp.reassemble_out_of_order:TRUE", "-o", "tcp.try_heuristic_first:TRUE"]
    for protocol in ("rpcordma", "smb_direct"):
        command += ["--disable-protocol", protocol]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True, timeout=120)
    return result.stdout.splitlines()


def fields(capture: Path, *names: str) -> list[list[str]]:
    options = [word for name in names for word in ("-e", name)]
    return [line.split("\t") for line in tshark(capture, "-T", "fields", *options)]


@pytest.mark.parametrize("impairments", [[], NETWORK], ids=["clean", "impaired"])
def test_headers_and_checksums_are_right(impairments: list[str], tmp_path: Path) -> None:
    capture, packets, _, _ = written(tmp_path, impairments)
    rows = fields(capture, "frame.number", "ip.version", "ip.checksum.status", "tcp.checksum.status", "frame.protocols")
    assert len(rows) == len(packets)
    segments = 0
    for (number, version, ip, tcp, protocols), packet in zip(rows, packets, strict=True):
        assert ip == (GOOD if version == "4" else ""), number
        segments += bool(tcp)
        assert tcp in (GOOD, "") and (tcp or packet.piece is not None), number
        assert ":ip:" in protocols or ":ipv6:" in protocols, number
    whole = sum(packet.piece is None for packet in packets)
    ends = sum(packet.piece is not None and packet.piece.end == packet.piece.total for packet in packets)
    assert segments == whole + ends
    malformed = tshark(capture, "-Y", "_ws.malformed", "-T", "fields", "-e", "frame.protocols")
    # Damaged FPDUs may look like anything; but nothing below them does.
    assert all(impairments and ":tcp:" in protocols for protocols in malformed)


def test_a_checksum_that_is_wrong_would_be_seen(tmp_path: Path) -> None:
    capture, packets, _, _ = written(tmp_path, ["corrupt:probability=0.1"])
    rows = fields(capture, "tcp.checksum.status")
    dropped = [index for index, packet in enumerate(packets) if packet.shows_damage]
    assert [index for index, (status,) in enumerate(rows) if status == BAD] == dropped and len(dropped) > 20


@pytest.mark.parametrize("impairments", [[], ["corrupt:repaired=true"]], ids=["clean", "corrupted"])
def test_lengths_and_crcs_are_the_truth_where_there_are_no_markers(impairments: list[str], tmp_path: Path) -> None:
    capture, _, records, traffic = written(tmp_path, impairments)
    plain = {
        number
        for number, conversation in enumerate(traffic.conversations)
        if conversation.setup.specification.startup_frames
        and not any(conversation.setup.has_markers(role) for role in ROLES)
    }
    # One connection comes after the other, so tshark numbers them as the truth does.
    expected: dict[tuple[int, str], list[str]] = defaultdict(list)
    for record in records:
        if record["connection"] in plain:
            side = "2" if record["direction"] == "initiator" else "7"
            expected[record["connection"], side].append(f"{record['ulpdu_length']} {record['crc']}")
    found: dict[tuple[int, str], list[str]] = defaultdict(list)
    for stream, port, lengths in fields(capture, "tcp.stream", "tcp.srcport", "iwarp_mpa.ulpdulength"):
        if lengths and int(stream) in plain:
            found[int(stream), port[0]] += lengths.split(",")
    assert {key: [one.split()[0] for one in value] for key, value in expected.items()} == dict(found)
    assert sum(map(len, found.values())) > 300
    verdicts = tshark(capture, "-V", "-O", "iwarp_mpa", "-Y", f"tcp.stream in {{{', '.join(map(str, sorted(plain)))}}}")
    said = [one.split()[1] for value in expected.values() for one in value]
    assert sum("(Good CRC32)" in line for line in verdicts) == said.count("good")
    assert sum("(Bad CRC32" in line for line in verdicts) == said.count("bad")
    assert bool(impairments) == ("bad" in said)
