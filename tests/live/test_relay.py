"""The relay between two network namespaces: what becomes of packets, and a TCP transfer through it, captured."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from itertools import islice, pairwise
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet
from scapy.utils import rdpcap

from scapy_mpa.framing.sequence import seq_diff
from tests.live.relay import HOSTS, Host, Network, Weather, fates, needs_network, stop

PORT = 7471
SERVER = """
import hashlib, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.create_server((sys.argv[1], int(sys.argv[2])), family=family) as server:
    print("ready", flush=True)
    connection, _ = server.accept()
    digest = hashlib.sha256()
    while octets := connection.recv(65536):
        digest.update(octets)
    connection.sendall(digest.hexdigest().encode())
    connection.close()
"""
CLIENT = """
import random, socket, sys
octets = random.Random(1).randbytes(int(sys.argv[3]))
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=50) as connection:
    connection.sendall(octets)
    connection.shutdown(socket.SHUT_WR)
    print(connection.recv(1000, socket.MSG_WAITALL).decode())
"""


# --- what becomes of packets ---


@pytest.mark.parametrize("host", HOSTS)
def test_fates_are_those_of_the_seed(host: Host) -> None:
    weather = Weather(loss=0.1, reorder=0.2, repeat=0.05, delay=0.01, later=0.02, spared=10)
    first, again, other = ([*islice(fates(weather, seed, host), 2000)] for seed in (1, 1, 2))
    assert first == again != other
    assert all(fate == ((0.01,), False) for fate in first[:10])
    shares = {
        "lost": sum(not fate.delays for fate in first) / 2000,
        "reordered": sum(fate.is_reordered for fate in first) / 2000,
        "repeated": sum(len(fate.delays) > 1 for fate in first) / 2000,
    }
    assert shares == {
        "lost": pytest.approx(0.1, abs=0.03),
        "reordered": pytest.approx(0.18, abs=0.04),
        "repeated": pytest.approx(0.045, abs=0.02),
    }
    assert {delay for fate in first for delay in fate.delays} == {0.01, 0.03}


def test_the_two_directions_are_not_alike() -> None:
    weather = Weather(loss=0.5)
    assert [*islice(fates(weather, 1, "a"), 100)] != [*islice(fates(weather, 1, "b"), 100)]


def test_in_good_weather_nothing_happens() -> None:
    assert {*islice(fates(Weather(), 3, "a"), 100)} == {((0.0,), False)}


# --- a transfer ---


def segments(capture: Path) -> list[Packet]:
    """The segments with data that the capture of a host has of the one that sends."""
    packets = rdpcap(str(capture))
    return [packet for packet in packets if TCP in packet and packet[TCP].dport == PORT and len(octets(packet))]


def octets(packet: Packet) -> bytes:
    """The payload of a segment."""
    return bytes(packet[TCP].payload)


def in_order(found: list[Packet], begin: int) -> bytes:
    """The stream by its sequence numbers."""
    stream = bytearray()
    for packet in sorted(found, key=lambda packet: seq_diff(packet[TCP].seq, begin)):
        at = seq_diff(packet[TCP].seq, begin)
        assert at <= len(stream), "octets are missing"
        stream[at : at + len(octets(packet))] = octets(packet)
    return bytes(stream)


@needs_network("tcpdump")
@pytest.mark.parametrize(
    ("weather", "version"),
    [
        (Weather(), 4),
        (Weather(loss=0.03, reorder=0.2, later=0.004, repeat=0.02, delay=0.001, spared=2), 4),
        (Weather(loss=0.02, reorder=0.1, later=0.004, delay=0.001, spared=2), 6),
    ],
    ids=["good", "bad", "ipv6"],
)
def test_a_transfer_through_it(weather: Weather, version: int, tmp_path: Path) -> None:
    size = 200_000
    sent = random.Random(1).randbytes(size)
    captures: dict[Host, Path] = {host: tmp_path / f"{host}.pcap" for host in HOSTS}
    with Network(weather, seed=5) as network:
        capturing = [network.capture(host, captures[host]) for host in HOSTS]
        where = [network.address("b", version), str(PORT)]
        server = network.popen("b", [sys.executable, "-c", SERVER, *where], stdout=subprocess.PIPE)
        assert server.stdout is not None and server.stdout.readline() == b"ready\n"
        client = network.run("a", [sys.executable, "-c", CLIENT, *where, str(size)])
        stop(*capturing)
    assert client.stdout.strip() == hashlib.sha256(sent).hexdigest()
    # What left one host and what came to the other: the octets that were sent, whatever happened between.
    left, came = (segments(captures[host]) for host in HOSTS)
    begin = left[0][TCP].seq
    assert in_order(left, begin) == in_order(came, begin) == sent
    assert all((IPv6 if version == 6 else IP) in packet for packet in (*left, *came))
    tally = network.relay.tally["a"]
    late = sum(seq_diff(two[TCP].seq, one[TCP].seq) < 0 for one, two in pairwise(came))
    if weather == Weather():
        assert (tally.lost, tally.reordered, tally.repeated, late) == (0, 0, 0, 0)
        assert [packet[TCP].seq for packet in left] == [packet[TCP].seq for packet in came]
    else:
        assert tally.lost and tally.reordered and late
    if version == 4:  # each packet has a number of its own (IP's identification)
        numbers = [[packet[IP].id for packet in some] for some in (left, came)]
        assert bool({*numbers[0]} - {*numbers[1]}) == bool(weather.loss)
        assert (len(numbers[1]) > len({*numbers[1]})) == bool(weather.repeat)


def names() -> set[str]:
    """The namespaces and devices that tests of this process made."""
    listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True).stdout
    devices = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {word for word in (*listed.split(), *devices.split()) if word.startswith(f"mpa{os.getpid()}.")}


@needs_network()
def test_nothing_is_left_behind() -> None:
    network = Network()
    with pytest.raises(ValueError, match="on purpose"):
        fail_in(network)
    assert not names()


def fail_in(network: Network) -> None:
    with network:
        network.popen("a", ["sleep", "60"])
        assert len(names()) == 2
        raise ValueError("on purpose")
