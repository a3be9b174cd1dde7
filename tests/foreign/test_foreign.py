"""Captures of other protocols: no connection, no FPDU, no error is claimed in them.

``FOREIGN_MB`` in the environment says how much is made (100 by default), ``FOREIGN_SEED`` from which seed.
"""

from __future__ import annotations

import io
import itertools
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scapy_mpa import analyze
from scapy_mpa.craft.encapsulation import ENCAPSULATIONS
from scapy_mpa.framing.crc import crc32c
from scapy_mpa.infer import inference
from scapy_mpa.values.encapsulation import VXLAN, VXLAN_PORT
from tests.capture.frames import LINKED, capture
from tests.foreign.captures import TAPS, Tap, foreign_capture, foreign_packets
from tests.foreign.data import Data
from tests.foreign.makers import MAKERS

MEGABYTE = 1_000_000
TOTAL = int(os.environ.get("FOREIGN_MB", "100")) * MEGABYTE
SEED = int(os.environ.get("FOREIGN_SEED", "1"))
#: Octets said in each of the many small captures; and of what the few large ones are, each seen by another tap.
SMALL = 40_000
MUCH = ["http-binary", "tls13", "nvme-digests", "iscsi-digests", "smb2", "ssh", "rpc", "noise", "zeros", "packed"]
LARGE = TOTAL // len(MUCH) + 1
LARGE_TAPS = [name for name, tap in TAPS.items() if tap.cut is None]
#: What tshark calls the dissector of a port, by the protocol that it shows.
TSHARK = {"smb2": "nbss", "nfs": "rpc"}


def check(name: str, tap: str, octets: int, folder: Path) -> int:
    """Make a capture, and look for MPA in it; returns its size."""
    made = foreign_capture(name, TAPS[tap], SEED, octets)
    report = analyze(io.BytesIO(made))
    claimed = [connection.as_dict() for connection in report.connections]
    if claimed or report.has_errors:
        # TLS is not the same again.
        (folder / f"{name}-{tap}.pcap").write_bytes(made)
    assert claimed == []
    assert [found.as_dict() for found in report.all_findings() if found.severity == "error"] == []
    assert 1 <= report.tcp_connections <= TAPS[tap].connections
    assert report.packets >= octets // 9000
    return len(made)


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize("name", MAKERS)
def test_nothing_is_claimed(name: str, tap: str, tmp_path: Path) -> None:
    check(name, tap, SMALL, tmp_path)


@pytest.mark.parametrize(("name", "tap"), [*zip(MUCH, itertools.cycle(LARGE_TAPS), strict=False)])
def test_nothing_is_claimed_in_much(name: str, tap: str, tmp_path: Path) -> None:
    assert check(name, tap, LARGE, tmp_path) >= LARGE, "as much as is said"


#: Link type, UDP ports of tunnels, and what becomes of an Ethernet frame.
CARRIED: dict[str, tuple[int, dict[int, str], Callable[[bytes], bytes]]] = {
    **{name: (1, {}, carry) for name, carry in ENCAPSULATIONS.items()},
    "vxlan on port 9999": (1, {9999: VXLAN}, lambda frame: on_port_9999(ENCAPSULATIONS[VXLAN](frame))),
    **{f"link type {link_type}": (link_type, {}, carry) for link_type, carry in LINKED.items()},
}


def on_port_9999(frame: bytes) -> bytes:
    return frame.replace(VXLAN_PORT.to_bytes(2, "big"), (9999).to_bytes(2, "big"), 1)


@pytest.mark.parametrize("how", CARRIED)
def test_nothing_is_claimed_in_what_carries_it(how: str) -> None:
    """All of it is read, and there is nothing to say."""
    link_type, ports, carry = CARRIED[how]
    for name in ("http-text", "http-binary", "nvme-digests"):
        data, (maker, port) = Data(SEED), MAKERS[name]
        packets = foreign_packets(maker(data), Tap(), data, port, 40_000, SMALL)
        made = capture([(time, carry(frame)) for time, frame in packets], link_type=link_type)
        report = analyze(io.BytesIO(made), udp_ports=ports)
        assert (report.tcp_connections, report.connections, [*report.all_findings()]) == (1, [], [])


@pytest.mark.parametrize("name", MAKERS)
def test_few_crcs_are_computed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is good by chance once in 2^32; Markers, lengths and headers leave so few that none is.

    Only where Markers are looked for, of which one FPDU is enough to be believed: one CRC in 250 octets.
    """
    computed = 0

    def counted(octets: memoryview) -> int:
        nonlocal computed
        computed += 1
        return crc32c(octets)

    monkeypatch.setattr(inference, "crc32c", counted)
    said = 0
    for tap in TAPS.values():
        made = foreign_capture(name, tap, SEED, SMALL)
        analyze(io.BytesIO(made))
        said += len(made)
    assert computed <= said // 250


def test_the_same_seed_gives_the_same_capture() -> None:
    for name in MAKERS:
        if not name.startswith("tls"):
            one, two = (foreign_capture(name, TAPS["middle-lossy"], 7, 30_000) for _ in range(2))
            assert one == two
            assert one != foreign_capture(name, TAPS["middle-lossy"], 8, 30_000)


@pytest.mark.parametrize(
    ("name", "protocol", "shows"),
    [
        ("http-text", "http", "HTTP chunked response"),
        ("http-binary", "http", "Content-Length"),
        ("tls12", "tls", "Application Data Protocol"),
        ("tls13", "tls", "Handshake Type: Server Hello"),
        ("nvme", "nvme-tcp", "C2HData"),
        ("nvme-digests", "nvme-tcp", "PDU Data Digest: 0x"),
        ("iscsi", "iscsi", "SCSI Data In"),
        ("iscsi-digests", "iscsi", "(Good CRC32)"),
        ("smb2", "smb2", "Read Response"),
        ("ssh", "ssh", "SSH-2.0-OpenSSH_9.2"),
        ("dns", "dns", "type A"),
        ("rpc", "nfs", "READ Reply"),
    ],
)
def test_tshark_takes_it_for_what_it_is_said_to_be(name: str, protocol: str, shows: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.pcap"
    path.write_bytes(foreign_capture(name, TAPS["syn"], SEED, 100_000))
    command = [
        "tshark",
        "-n",
        "-r",
        str(path),
        "-O",
        protocol,
        "-d",
        f"tcp.port=={MAKERS[name][1]},{TSHARK.get(protocol, protocol)}",
    ]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert shows in told
    assert not re.search(r"Malformed|\[Bad|\[incorrect|\(Bad", told)
