"""``connect`` and ``listen`` in two network namespaces, with a bad network between them, captured on both hosts.

Whatever is lost, late, out of order or repeated: both sides say what they have to, and the packets that tcpdump saw
have the FPDUs of the log, octet for octet.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from scapy.layers.inet import TCP
from scapy.utils import rdpcap

from scapy_mpa import analyze
from scapy_mpa.framing.role import ROLES
from tests.live.pairs import said
from tests.live.relay import HOSTS, Host, Network, Weather, needs_network, stop

PORT = "7471"

#: Packets are spared until startup has been captured: who never sees a Request has nothing to analyse.
BAD = Weather(loss=0.04, reorder=0.15, later=0.004, repeat=0.03, delay=0.001, spared=6)
SLOW = Weather(reorder=0.3, later=0.02, delay=0.01)


class Talk(NamedTuple):
    """A conversation, as options of both sides, and how ``connect`` sums it up."""

    connect: tuple[str, ...]
    listen: tuple[str, ...]
    summary: str


def rping(count: int, size: int, *options: str, server: tuple[str, ...] = ()) -> Talk:
    summary = f"rping: {count} iteration{'s' if count > 1 else ''} of {size} octets"
    return Talk(
        ("--ulp", "rping", "--count", str(count), "--size", str(size), *options), ("--ulp", "rping", *server), summary
    )


def echo(count: int, size: int, *options: str, server: tuple[str, ...] = ()) -> Talk:
    summary = f"echo: {count} messages of {size} octets came back"
    return Talk(
        ("--ulp", "echo", "--count", str(count), "--size", str(size), *options), ("--ulp", "echo", *server), summary
    )


TALKS = {
    "rping": rping(5, 9000),
    "rping-markers": rping(3, 20000, "--markers", server=("--markers",)),
    "rping-no-crc": rping(2, 20000, "--no-crc", server=("--no-crc",)),
    "rping-markers-no-crc": rping(2, 20000, "--no-crc", "--markers", server=("--no-crc", "--markers")),
    "rping-peer-to-peer": rping(3, 9000, "--peer-to-peer", "--rtr", "read", server=("--ird", "2", "--ord", "2")),
    "rping-private-data": rping(2, 3000, "--private-data", "hex:00ff"),
    "echo": echo(3, 30000, "--emss", "1400", server=("--emss", "1400")),
    "echo-markers-of-one-side": echo(3, 30000, server=("--markers",)),
}


def log_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def converse(network: Network, talk: Talk, version: int, folder: Path) -> None:
    """Have the conversation, ``connect`` on host a; each has a log, a recording and tcpdump's capture in the folder."""
    address, command = network.address("b", version), [sys.executable, "-m", "scapy_mpa"]
    kept: dict[Host, list[str]] = {
        host: ["--write", str(folder / f"{host}.pcapng"), "--log", str(folder / f"{host}.jsonl"), "-q"]
        for host in HOSTS
    }
    captures = [network.capture(host, folder / f"{host}.pcap") for host in HOSTS]
    listen = network.popen(
        "b", [*command, "listen", address, PORT, "--count", "1", *talk.listen, *kept["b"]],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert listen.stderr is not None
    assert "listening on" in listen.stderr.readline()
    connect = network.run("a", [*command, "connect", address, PORT, *talk.connect, *kept["a"]])
    assert connect.stdout.splitlines()[:2] == [f"#0 {talk.summary}", "1 connection"]
    out, _ = listen.communicate(timeout=60)
    assert (listen.returncode, out.splitlines()[1:2]) == (0, ["1 connection"])
    stop(*captures)


@needs_network("tcpdump")
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("weather", [Weather(), BAD, SLOW], ids=["good", "bad", "slow"])
@pytest.mark.parametrize("name", TALKS)
def test_what_tcpdump_captures_is_what_the_log_says(
    name: str, weather: Weather, version: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with Network(weather, seed=sum(request.node.name.encode())) as network:
        converse(network, TALKS[name], version, tmp_path)
    for host in HOSTS:
        capture, log = tmp_path / f"{host}.pcap", log_of(tmp_path / f"{host}.jsonl")
        report = analyze(str(capture))
        (found,) = report.connections
        assert [finding.rule for finding in report.findings if finding.severity == "error"] == []
        assert [finding.rule for finding in found.findings if finding.severity == "error"] == []
        (agreed,) = (event for event in log if event["event"] == "established")
        assert (found.crc, found.profile.name) == (agreed["crc"], agreed["profile"])
        recorded = said(tmp_path / f"{host}.pcapng")
        captured = said(capture)
        for direction in ROLES:
            half = found.half(direction)
            logged = [event for event in log if event["event"] == "fpdu" and event["direction"] == direction]
            assert [(one.ulpdu_length, one.wire_length, one.opcode) for one in half.fpdus] == [
                (one["ulpdu_length"], one["wire_length"], one["opcode"]) for one in logged
            ]
            assert len(logged) > 1
            assert half.markers == agreed["markers"][direction]
            assert sum(side == direction for side, _ in captured) == len(logged)
            assert by(direction, captured) == by(direction, recorded)
        # What this host sent was captured before anything could happen to it: its segments begin with FPDUs (§5.1),
        # where TCP had not to make room for SACK blocks.
        sent = found.half(ROLES[HOSTS.index(host)]).as_dict()
        short = 0 if "--emss" in TALKS[name].connect else with_sack(capture, network.address(host, version))
        assert sent["segments"] - sent["header_aligned_segments"] <= short
    tally = network.relay.tally
    if weather == BAD:
        total = Counter({key: sum(getattr(tally[host], key) for host in HOSTS) for key in ("lost", "reordered")})
        assert total["reordered"]


def with_sack(capture: Path, sender: str) -> int:
    """Return how many segments with data of one host have SACK blocks."""
    packets = [packet for packet in rdpcap(str(capture)) if TCP in packet and len(bytes(packet[TCP].payload))]
    return sum(packet[TCP].underlayer.src == sender and "SAck" in dict(packet[TCP].options) for packet in packets)


def by(direction: str, fpdus: list[tuple[str, bytes]]) -> list[bytes]:
    return [ulpdu for side, ulpdu in fpdus if side == direction]
