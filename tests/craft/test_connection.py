"""``MPAConnection`` at the Scapy prompt."""

# mypy: disable-error-code="arg-type, index, unused-ignore"

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from scapy.config import conf
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.sendrecv import sendp, sniff
from scapy.supersocket import SuperSocket
from scapy.utils import rdpcap, wrpcap

from scapy_mpa import (
    FPDU,
    ConversationError,
    DDPTagged,
    MPAConnection,
    MPAReply,
    MPARequest,
    MPASession,
    RDMAPSend,
    analyze,
)
from scapy_mpa.craft.impairments import IMPAIRMENTS
from scapy_mpa.craft.segmentation import SEGMENTATIONS
from scapy_mpa.craft.setup import SETUP_NAMES
from scapy_mpa.craft.tcppacket import octets_of

SNAPLEN = IMPAIRMENTS["snap"].parameters["length"]


def connection(**parameters: Any) -> MPAConnection:
    made = MPAConnection(**{"m": (1, 0), "isn": (100, 200), **parameters})
    made.send("initiator", b"hello").write("responder", 3000).send("initiator", b"one").send("initiator", b"two")
    return made


@pytest.mark.parametrize("kind", sorted(SEGMENTATIONS))
@pytest.mark.parametrize("impair", [(), tuple(IMPAIRMENTS)], ids=["clean", "impaired"])
def test_packets_are_the_octets_that_craft_lays_out(kind: str, impair: tuple[str, ...]) -> None:
    made = connection(segmentation=kind, impair=impair, vlan=3)
    expected = [(packet.time, octets_of(packet)[: SNAPLEN if impair else None]) for packet in made._traffic().packets()]
    assert [(int(packet.time * 10**9), bytes(packet)) for packet in made] == expected
    assert len(made) == len(expected)


def test_a_packet_is_dissected_to_its_fpdus() -> None:
    packets = connection(segmentation="packed").packets()
    assert [len(packets[layer]) for layer in (MPARequest, MPAReply, FPDU)] == [1, 1, 5]
    request, last = packets[MPARequest][0], packets[FPDU][-1]
    assert (request[IP].dst, request[TCP].dport, request[MPARequest].m) == ("10.0.0.2", 7471, 1)
    assert last[RDMAPSend].load == b"one" and last[FPDU].payload.lastlayer().load == b"two"
    write = next(packet for packet in packets if DDPTagged in packet)
    assert write[FPDU].marker_offset == 0 and len(write[FPDU].markers) == 3
    assert write[FPDU].markers[1].fpduptr == 508 and bytes(write[FPDU]) == bytes(write[TCP].payload)


def test_what_does_not_begin_with_an_fpdu_is_raw() -> None:
    made = MPAConnection(segmentation="unaligned").write("initiator", 3000)
    payloads = [packet[TCP].payload for packet in made if packet[TCP].payload][2:]
    assert [type(payload) for payload in payloads] == [Raw, Raw, Raw]
    short = (
        MPAConnection(segmentation={"kind": "stream"}, timestamps=False).send("initiator", 10).write("initiator", 2000)
    )
    first = next(packet for packet in short if FPDU in packet)
    assert first.lastlayer().name == "Raw" and len(first[TCP].payload) == 1460


def test_the_checksums_are_those_that_scapy_computes() -> None:
    for made in connection(), connection(initiator="fd00::1", responder="fd00::2", vlan=9):
        for packet in made:
            octets = bytes(packet)
            again = Ether(octets)
            for layer in again.iterpayloads():
                for name in ("chksum", "len", "plen", "dataofs"):
                    if name in layer.fields:
                        del layer.fields[name]
            assert bytes(again) == octets
        assert (Dot1Q in made[0]) == (made.setup.vlan is not None)


def test_wrpcap_writes_a_capture_that_is_analysed(tmp_path: Path) -> None:
    capture = str(tmp_path / "a.pcap")
    made = connection(segmentation="random", impair=["reorder"])
    wrpcap(capture, made)
    assert [bytes(packet) for packet in rdpcap(capture)] == [bytes(packet) for packet in made]
    found = [
        record.as_dict()
        for connection in analyze(capture).connections
        for half in (connection.initiator, connection.responder)
        for record in half.fpdus
    ]
    assert found == made.truth() and len(found) == 6
    assert len([packet for packet in sniff(offline=capture, session=MPASession) if FPDU in packet]) == 6


@pytest.mark.parametrize("length", [20, 40, 60, 100, 160])
def test_a_snap_length_cuts_the_packets(length: int, tmp_path: Path) -> None:
    capture = str(tmp_path / "a.pcap")
    made = connection(impair=[f"snap:length={length}"])
    wrpcap(capture, made)
    expected = [(bytes(packet)[:length], len(packet)) for packet in connection()]
    assert [(bytes(packet), packet.wirelen) for packet in rdpcap(capture)] == expected
    halves = [half for one in analyze(capture).connections for half in (one.initiator, one.responder)]
    found = [record.as_dict() for half in halves for record in half.fpdus]
    assert found == made.truth() and len(found) == (6 if length >= 100 else 0)


def test_help_tells_the_parameters() -> None:
    parameters = inspect.signature(MPAConnection).parameters
    assert parameters["impair"].default == () and parameters["m"].default == (0, 0)
    assert set(parameters) == {"impair", *SETUP_NAMES}


def test_sendp_takes_it_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []

    class Socket(SuperSocket):
        def __init__(self, *args: object, **kwargs: object) -> None:
            pass

        def send(self, x: Packet) -> int:
            sent.append(bytes(x))
            return len(sent[-1])

        def close(self) -> None:
            pass

    made = connection()
    sendp(made, socket=Socket(), verbose=False)
    assert sent == [bytes(packet) for packet in made]


def test_it_tells_what_it_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "color_theme", type(conf.color_theme)())
    made = connection(profile="rfc6581")
    assert repr(made) == "<MPAConnection 10.0.0.1:40000 > 10.0.0.2:7471 rfc6581, 5 steps>"
    made.summary()
    printed = capsys.readouterr().out
    assert "MPA Request M C S Rev 2 IRD 8 ORD 8" in printed and len(printed.splitlines()) == len(made)
    made.show()
    assert "0003 Ether" in capsys.readouterr().out
    assert bytes(made[3]) == bytes(made[3:4][0]) and made[-1][TCP].flags == "A"


def test_it_refuses_what_breaks_a_rule_and_what_it_does_not_know() -> None:
    with pytest.raises(ConversationError, match="allow='responder-first'"):
        MPAConnection().send("responder", b"too early")
    assert FPDU in MPAConnection(allow="responder-first").send("responder", b"too early").packets()[5]
    with pytest.raises(Exception, match="no impairment 'fire'"):
        MPAConnection(impair="fire")
    with pytest.raises(ConversationError, match="has no colour"):
        MPAConnection(colour="red")
