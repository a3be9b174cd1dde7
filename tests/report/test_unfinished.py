"""Many connections that only began MPA: one finding of no connection, one paragraph of the text."""

from __future__ import annotations

import io

import pytest

from scapy_mpa import analyze
from scapy_mpa.craft.packets import ACK, FIN, SYN, Endpoint, FrameMaker
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.reading.analysis import PlacedFPDUs
from scapy_mpa.report.model import Report
from scapy_mpa.report.text import report_lines
from scapy_mpa.rules.findings import Finding
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from tests.receive.cases import REQUEST

RULE = "attack-unfinished-startup"
MAC = bytes.fromhex("020000000001")


def capture(addresses: dict[str, int], octets: int = 10, close: bool = False) -> io.BytesIO:
    """So many connections of each address to one Responder, each with these first octets of a Request."""
    file = io.BytesIO()
    packets = []
    for address, count in addresses.items():
        server = "10.0.0.2" if "." in address else "fd00::2"
        for port in range(20000, 20000 + count):
            ends = Endpoint(address, port, MAC), Endpoint(server, 7471, MAC)
            there, back = FrameMaker(*ends), FrameMaker(*ends[::-1])
            packets += [
                there.frame(b"", seq=1000, ack=0, flags=SYN, window=512),
                back.frame(b"", seq=5000, ack=1001, flags=SYN | ACK, window=512),
                there.frame(REQUEST[:octets], seq=1001, ack=5001, flags=ACK, window=512),
            ]
            if close:
                packets.append(back.frame(b"", seq=5001, ack=1001 + octets, flags=FIN | ACK, window=512))
    PcapWriter(file).write((number * 1_000_000, packet) for number, packet in enumerate(packets))
    file.seek(0)
    return file


def attack(report: Report) -> Finding | None:
    return next((found for found in report.findings if found.rule.id == RULE), None)


@pytest.mark.parametrize("close", [False, True])
@pytest.mark.parametrize("address", ["10.0.0.1", "fd00::1"])
def test_many_of_one_address_are_one_finding(address: str, close: bool) -> None:
    report = analyze(capture({address: 300}, close=close))
    found = attack(report)
    assert found is not None
    size = 4 if close else 3
    assert (found.count, found.frame, found.last_frame, found.severity) == (300, 3, 299 * size + 3, "note")
    assert found.detail == f"300 connections from {address}, each with only part of a Request"
    assert [one.number for one in report.connections] == [*range(300)]
    assert {len(one.findings) for one in report.connections} == {int(close)}
    told = report.connections[7].as_dict()
    assert told["request"] is None
    assert told["part"] == {"startup": "request", "frame": 7 * size + 3, "seq": 1001, "octets": 10, "of": None}


def test_few_are_none() -> None:
    assert attack(analyze(capture({"10.0.0.1": 15, "10.0.0.3": 15}))) is None
    assert attack(analyze(capture({"10.0.0.1": 16}))) is not None


def test_whole_requests_are_none() -> None:
    report = analyze(capture({"10.0.0.1": 20}, len(REQUEST)))
    assert len(report.connections) == 20
    assert attack(report) is None


def test_several_addresses_are_one_finding() -> None:
    found = attack(analyze(capture({"10.0.0.1": 20, "10.0.0.3": 30, "10.0.0.4": 2, "10.0.0.5": 17})))
    assert found is not None
    assert found.count == 67
    assert found.detail.startswith("30 connections from 10.0.0.3, each with only part of a Request; ")
    assert found.detail.endswith("; 37 from 2 other such addresses")


def test_the_text_tells_one_of_them() -> None:
    report = analyze(capture({"10.0.0.1": 300, "10.0.0.3": 3}, close=True))
    lines = [*report_lines(report)]
    assert len([line for line in lines if line.startswith("#")]) == 1 + 3
    assert "  and 299 connections more like it from 10.0.0.1 (JSON lists them)" in lines
    assert lines[0].endswith("303 MPA connections, 303 errors, 1 note")
    report.select(5)
    lines = [*report_lines(report)]
    assert lines[1].startswith("#5 10.0.0.1:20005 > 10.0.0.2:7471 rfc5044 rev ? ")
    assert lines[1].endswith(" | 10 of 20 or more octets of an MPA Request")
    assert lines[4].startswith("  error startup-frame: ")


def test_as_fpdus_are_placed() -> None:
    placed = PlacedFPDUs(capture({"10.0.0.1": 300}))
    assert [*placed] == []
    assert placed.report.as_dict() == analyze(capture({"10.0.0.1": 300})).as_dict()


@pytest.mark.parametrize(
    ("limits", "listed"), [(Limits(mpa_connections=40), 40), (Limits(connections=20), 100), (DEFAULT_LIMITS, 100)]
)
def test_within_limits(limits: Limits, listed: int) -> None:
    report = analyze(capture({"10.0.0.1": 100}), limits=limits)
    assert len(report.connections) == listed
    found = attack(report)
    assert found is not None
    assert found.count == listed
    assert any(one.rule.id == "limit" for one in report.findings) == (limits != DEFAULT_LIMITS)
