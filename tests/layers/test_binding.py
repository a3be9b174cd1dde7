"""What Scapy makes of TCP payloads with and without these layers."""

# mypy: disable-error-code="operator, unused-ignore"

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, Padding, Raw
from scapy.utils import rdpcap

from scapy_mpa.errors import MPAError
from scapy_mpa.layers import (
    FPDU,
    DDPUntagged,
    FPDUs,
    MPAReply,
    MPARequest,
    RDMAPSend,
    bind_mpa,
    unbind_mpa,
)
from tests.conftest import PCAPS, REPO, captures, truth

# Dissects foreign and MPA traffic, and prints what became of each packet. An argument imports the layers first.
MIXED = """
import sys
from scapy.all import *
conf.verb = 0
if "import" in sys.argv:
    import scapy_mpa.layers
load_layer("http")
load_contrib("mqtt")
packets = []
for load, port in [
    (b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n", 80),
    (b"GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n", 7471),
    (bytes.fromhex("00000004ff534d42"), 445),
    (bytes.fromhex("001e") + bytes(DNS(qd=DNSQR(qname="a.example"))), 53),
    (bytes.fromhex("101000044d5154540402003c000461626364"), 1883),
    (b"MPA ID Re", 7471),
    (b"MPA ID Red Frame" + bytes(9), 7471),
    (b"MPA ID Req Frame" + bytes(3), 7471),
    (b" MPA ID Req Frame" + bytes(9), 7471),
    (b"MPA ID Req Frame" + bytes(9), 7471),
    (b"MPA ID Rep Frame" + bytes(4), 80),
    (b"MPA", 7471),
    (b"\\0\\x12" + b"\\x41\\x43" + bytes(20), 7471),
    (b"", 80),
]:
    packets.append(Ether() / IP() / TCP(sport=50000, dport=port, flags="PA") / load)
    packets.append(Ether() / IPv6() / TCP(sport=port, dport=50000, flags="PA") / load)
    packets.append(Ether() / IP() / ICMP(type=3) / IP() / TCP(dport=port) / load)
    packets.append(Ether() / IP() / UDP(dport=port) / load)
packets.append(Ether() / ARP())
packets = [Ether(bytes(packet)) for packet in packets]
for name in sys.argv[2:]:
    packets += rdpcap(name)
for packet in packets:
    print("MPA" if packet.original.find(b"MPA ID Re") > 0 else "", packet.command())
"""


def dissected(*arguments: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", MIXED, *arguments, *map(str, sorted(PCAPS.glob("siw-[rvs]*.pcap")))],
        cwd=REPO,
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout.splitlines()


def test_importing_changes_nothing_for_other_protocols() -> None:
    without, with_layers = dissected("plain"), dissected("import")
    assert len(without) == len(with_layers) > 100
    changed = [(a, b) for a, b in zip(without, with_layers, strict=True) if a != b]
    assert changed
    for before, after in changed:
        assert before.startswith("MPA ") and before.count("Raw(load=b'MPA ID Re") == 1
        assert after.count("/MPAReply(") + after.count("/MPARequest(") == 1
    for protocol in ("HTTPRequest(", "NBTSession(", "DNS(", "MQTT(", "ARP("):
        assert any(protocol in line for line in with_layers)


def test_importing_the_package_does_not_import_scapy() -> None:
    code = "import sys, scapy_mpa; sys.exit(any(name.split('.')[0] == 'scapy' for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], cwd=REPO, check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("path", captures(with_truth=True), ids=lambda path: path.stem)
def test_startup_frames_of_captures(path: Path) -> None:
    packets = rdpcap(str(path))
    frames = [packet for packet in packets if MPARequest in packet or MPAReply in packet]
    connections = {record["connection"] for record in truth(path)}
    assert len(frames) >= 2 * len(connections)
    assert all(bytes(packet) == packet.original for packet in frames)
    assert all(TCP in packet and "MPA Re" in packet.summary() for packet in frames)


def test_reloading_does_not_pile_up() -> None:
    code = """
import importlib, scapy_mpa.layers.binding as binding
from scapy.layers.inet import TCP
first = TCP.guess_payload_class.before_mpa
importlib.reload(binding)
assert TCP.guess_payload_class.before_mpa is first
"""
    subprocess.run([sys.executable, "-c", code], cwd=REPO, check=True, timeout=60)


@pytest.fixture
def port() -> Iterator[int]:
    bind_mpa(7174)
    yield 7174
    unbind_mpa(7174)


def over_tcp(load: bytes, port: int = 7174) -> Packet:
    return IP(bytes(IP() / TCP(sport=port, dport=50000) / load))


def test_a_bound_port(port: int) -> None:
    one = bytes(FPDU() / DDPUntagged() / RDMAPSend() / b"one")
    packet = over_tcp(one)
    assert type(packet[TCP].payload) is FPDU and packet[FPDU].crc_good
    assert over_tcp(bytes(MPARequest())).haslayer(MPARequest)

    packet = over_tcp(one + one + one[:25])
    fpdus = packet[FPDUs].fpdus
    assert [fpdu.crc_good for fpdu in fpdus] == [True, True, None]
    assert packet.haslayer(RDMAPSend) and bytes(packet) == packet.original
    assert packet.summary().endswith("/ 3 FPDUs")
    packet.clear_cache()
    assert bytes(packet) == packet.original
    assert type(over_tcp(one[:25])[TCP].payload) is FPDU

    assert bytes(FPDUs(fpdus=[FPDU() / b"a", FPDU() / b"b"])) == bytes(FPDU() / b"a") + bytes(FPDU() / b"b")


@pytest.mark.parametrize(
    "load",
    [
        b"\0",
        b"\0\x20",
        b"\0\x20\x41",
        bytes(3) + b"\x41",
        b"\x20\0" + b"\x41\x43\x01",
        b"in the middle",
        b"\xff\xff\x41\x40",
        b"\xff\xff\xc1\x43",
        b"\xff\xff\x41\x4e",
        b"\xff\xff\x43\x43",
        b"\xff\xff\x41\x83",
    ],
)
def test_what_does_not_begin_with_an_fpdu(load: bytes, port: int) -> None:
    packet = over_tcp(load)
    cls = FPDU if load.startswith(b"\x20\0\x41") else Raw
    assert type(packet[TCP].payload) is cls and bytes(packet) == packet.original


def test_unbinding() -> None:
    before = list(TCP.payload_guess)
    bind_mpa(80, 7471)
    bind_mpa(7471)
    assert len(TCP.payload_guess) == len(before) + 4
    assert TCP().guess_payload_class(bytes(FPDU())) is FPDUs
    unbind_mpa(7471)
    assert len(TCP.payload_guess) == len(before) + 2
    unbind_mpa(80)
    assert TCP.payload_guess == before
    for port in (-1, 65536, "7471"):
        with pytest.raises(MPAError, match="not a TCP port"):
            bind_mpa(port)  # type: ignore[arg-type]


def test_stateless_dissection_of_a_capture(port: int) -> None:
    found = 0
    for packet in rdpcap(str(PCAPS / "siw-rping-ipv6.pcap")):
        assert bytes(packet) == packet.original
        if FPDUs in packet:
            found += len(packet[FPDUs].fpdus)
        elif FPDU in packet:
            found += 1
    assert found == len(truth(PCAPS / "siw-rping-ipv6.pcap"))


def test_for_scapys_own_session() -> None:
    one = bytes(FPDU() / b"one")
    for octets in (one, bytes(MPAReply(private_data=b"x"))):
        assert FPDUs.tcp_reassemble(octets[:-1], {}, {}) is None
        packet = FPDUs.tcp_reassemble(octets + b"rest", {}, {})
        assert packet is not None and packet[Padding].load == b"rest"
        assert packet.haslayer(FPDU) or packet.haslayer(MPAReply)
