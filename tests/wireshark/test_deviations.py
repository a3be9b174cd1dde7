"""A sender that deviates: whoever reads a capture with its octets sees what ``analyze`` does, and no more."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.framing.ddp import OPCODE_NAMES, decode_ddp
from scapy_mpa.framing.senders import BY_NAME
from scapy_mpa.report.model import Report
from scapy_mpa.wireshark.found import FoundFPDUs
from scapy_mpa.wireshark.notes import CaptureNotes
from tests.conftest import MORE_CAPTURES, PCAPS
from tests.receive.test_diagnosis import made

SCENARIOS = ("rddp-01", "every-pad-and-marker-place", "crc-alone", "neither-markers-nor-crc", "stack-siw")
FAULTY = ("faulty-fpduptr-and-spacing", "faulty-no-crc-field", "faulty-pad")


def faulty(name: str) -> Path:
    for folder in (MORE_CAPTURES, PCAPS):
        if (folder / f"{name}.pcap").exists():
            return folder / f"{name}.pcap"
    pytest.skip("the capture is not here")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [*map(str, arguments)], standalone_mode=False, catch_exceptions=False)


def findings(report: Report) -> list[tuple[Any, ...]]:
    """All of them; of segments that were dropped some are met by the FPDU that they damage."""
    return sorted(
        (one.rule.id, one.direction or "", one.count, one.frame, one.last_frame, one.detail)
        + (() if one.rule.id == "tcp-checksum" else (one.seq,))
        for one in report.all_findings()
    )


def is_the_same(octets: bytes) -> bool:
    """Whether a sender deviates; whoever hears of FPDUs with their octets sees the same ones and the same findings."""
    report = analyze(io.BytesIO(octets))
    with FoundFPDUs(io.BytesIO(octets)) as found:
        there = sorted(found, key=lambda one: (one.connection.number, one.record.direction, one.number))
        records = [
            record._replace(after_error=False)
            for connection in report.connections
            for half in (connection.initiator, connection.responder)
            for record in half.fpdus
        ]
        assert [one.record._replace(after_error=False) for one in there] == records
        for one in there:
            fpdu = one.decoded
            assert len(fpdu.ulpdu) == fpdu.ulpdu_length == one.record.ulpdu_length
            assert len(fpdu.markers) == one.record.markers
            header = decode_ddp(fpdu.ulpdu)
            assert (OPCODE_NAMES[header.opcode] if header is not None else None) == one.record.opcode
        assert findings(found.report) == findings(report)
        assert [one.as_dict() for one in found.report.connections] == [one.as_dict() for one in report.connections]
        assert found.report.deviations == report.deviations
    with CaptureNotes(io.BytesIO(octets)) as notes:
        assert findings(notes.report) == findings(report)
        dated = {(one.rule.id, one.direction) for frame in notes for one in frame.findings}
        assert dated == {(one.rule.id, one.direction) for one in report.all_findings()}
    return bool(report.deviations)


@pytest.mark.parametrize("name", FAULTY)
def test_real_captures(name: str) -> None:
    assert is_the_same(faulty(name).read_bytes())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_deviation(scenario: str) -> None:
    shown = 0
    for name in BY_NAME:
        talk = made(scenario, name)
        shown += talk is not None and is_the_same(talk.octets)
    assert shown >= 3
