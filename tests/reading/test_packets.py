"""Scapy packets in and out: what somebody has in hand at a prompt, and every format that is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.plist import PacketList
from scapy.utils import rdpcap

from scapy_mpa import analyze, iter_fpdus, iter_messages, packets
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.role import ROLES
from tests.conftest import PCAPS

CAPTURE = str(PCAPS / "markers-reordered.pcap")
SOME = [PCAPS / f"{name}.pcap" for name in ("markers-reordered", "siw-terminate", "siw-rping")]


def without_name(capture: Any) -> dict[str, Any]:
    report = analyze(capture).as_dict()
    del report["captures"]
    return report


@pytest.mark.parametrize(
    "given",
    [lambda them: them, list, iter, lambda them: (one for one in them)],
    ids=["rdpcap", "list", "iterator", "generator"],
)
def test_what_scapy_read(given: Callable[[PacketList], Iterable[Packet]]) -> None:
    assert without_name(given(rdpcap(CAPTURE))) == without_name(CAPTURE)


def test_what_begins_with_ip() -> None:
    """Scapy gives a layer that is taken out of a packet another time."""
    report = analyze([one[IP] for one in rdpcap(CAPTURE)])
    assert [len(half.fpdus) for half in (report.connections[0].initiator, report.connections[0].responder)] == [
        400,
        300,
    ]


def test_the_octets_of_fpdus_are_read_again() -> None:
    record = next(iter_fpdus(rdpcap(CAPTURE)))
    assert record.octets() == next(iter_fpdus(CAPTURE)).octets()
    assert analyze(rdpcap(CAPTURE)).connections[0].initiator.fpdus[5].octets()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (TCP(), "packet 1 is of class TCP: no capture begins with that"),
        ([Ether() / IP(), IP()], "packet 2 is of class IP: those before are of another link type"),
    ],
)
def test_packets_that_no_capture_holds(given: Any, said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        analyze(given)


def test_no_packets() -> None:
    assert analyze(PacketList([])).packets == 0


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem)
def test_packets_are_those_that_scapy_reads(path: Path) -> None:
    ours, scapys = [*packets(path)], rdpcap(str(path))
    assert [(bytes(one), one.time, one.wirelen) for one in ours] == [
        (bytes(one), one.time, one.wirelen) for one in scapys
    ]


def test_packets_of_what_scapy_does_not_read(tmp_path: Path) -> None:
    path = PCAPS / "markers-lossy.pcap.zst"
    assert without_name(packets(path)) == without_name(path)
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(Path(CAPTURE).read_bytes()[:-7])
    found = list[Packet]()
    with pytest.raises(CaptureError, match="cut"):
        found.extend(packets(cut))
    assert len(found) == 944


def test_messages_one_by_one() -> None:
    """A message is placed when the last of its segments is, which need not be the last one in the stream."""
    found = [*iter_messages(PCAPS / "markers-lossy.pcap.zst", payload=True)]
    assert len(found) == 660
    assert {one.direction for one in found} <= {*ROLES}
    fpdus = {record.placed_frame for record in iter_fpdus(PCAPS / "markers-lossy.pcap.zst")}
    assert all(one.placed_frame >= one.last_frame and one.placed_frame in fpdus for one in found)
    assert all(len(one.payload or b"") == one.octets for one in found)
