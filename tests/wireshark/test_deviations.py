"""A sender that deviates: whoever reads a capture with its octets sees what ``analyze`` does, and no more."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.framing.ddp import OPCODE_NAMES, decode_ddp
from scapy_mpa.framing.senders import BY_NAME
from scapy_mpa.reading import listener
from scapy_mpa.reading.found import FoundFPDUs
from scapy_mpa.report.model import Report
from scapy_mpa.wireshark.notes import CaptureNotes
from tests.conftest import PCAPS, REPO, named
from tests.receive.test_diagnosis import made

SCENARIOS = ("rddp-01", "every-pad-and-marker-place", "crc-alone", "neither-markers-nor-crc", "stack-siw")
FAULTY = ("faulty-fpduptr-and-spacing", "faulty-no-crc-field", "faulty-pad")


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
    """Whether a sender deviates; whoever hears of FPDUs with their octets says the same as the analysis."""
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


# --- the same as analyze ---


@pytest.mark.parametrize("name", FAULTY)
def test_real_captures(name: str) -> None:
    assert is_the_same(named(name).read_bytes())


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_deviation(scenario: str) -> None:
    shown = 0
    for name in BY_NAME:
        talk = made(scenario, name)
        shown += talk is not None and is_the_same(talk.octets)
    assert shown >= 3


@pytest.mark.parametrize("impair", [("reorder",), ("lose", "reorder"), ("capture-loss:probability=0.06",)])
@pytest.mark.parametrize("name", ["fpduptr-little-endian", "crc-not-in-spacing", "no-pad", "markers-from-syn"])
def test_in_worse_captures(name: str, impair: tuple[str, ...]) -> None:
    talk = made("every-pad-and-marker-place", name, impair=impair, seed=5)
    assert talk is not None and is_the_same(talk.octets)


@pytest.mark.parametrize("name", ["crc-big-endian", "length-with-itself"])
def test_segments_that_their_receiver_dropped(name: str) -> None:
    """A segment whose TCP checksum is wrong brings nothing, whenever it shows that its sender deviates."""
    talk = made("every-pad-and-marker-place", name, impair=("corrupt:probability=0.2",), seed=2)
    assert talk is not None
    (connection,) = analyze(io.BytesIO(talk.octets)).connections
    with FoundFPDUs(io.BytesIO(talk.octets)) as found:
        records = [one.record for one in found]
    both = [*connection.initiator.fpdus, *connection.responder.fpdus]
    placed = [(one.direction, one.seq, one.placed_frame, one.delivered_frame) for one in both]
    assert sorted((one.direction, one.seq, one.placed_frame, one.delivered_frame) for one in records) == sorted(placed)
    assert {one.rule.id for one in found.report.all_findings()} == {one.rule.id for one in connection.findings}


# --- what is read, and how often ---


def test_what_conforms_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "analyze", pytest.fail)
    for name in ("markers-reordered", "siw-rping", "siw-terminate", "markers-draft-origin"):
        with FoundFPDUs(PCAPS / f"{name}.pcap") as found:
            assert found.remark is None


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scapy_mpa", "messages", "-"]
    for name, lines in (("faulty-pad", 1), ("siw-rping", 0)):
        octets = (PCAPS / f"{name}.pcap").read_bytes()
        done = subprocess.run(command, input=octets, capture_output=True, cwd=REPO, check=True)
        said = done.stderr.decode().splitlines()
        assert len(said) == lines and all("whether a sender deviates was not checked" in line for line in said)
        assert done.stdout


# --- the commands ---


def test_messages() -> None:
    """Those of a sender with wrong PAD are whole."""
    (connection,) = analyze(PCAPS / "faulty-pad.pcap").connections
    lines = [
        json.loads(line)
        for line in invoke("messages", PCAPS / "faulty-pad.pcap", "--format", "jsonl").output.splitlines()
    ]
    assert (
        sum(line["segments"] for line in lines) == connection.initiator.counts.fpdus + connection.responder.counts.fpdus
    )
    assert all(line["complete"] for line in lines)


def test_export(tmp_path: Path) -> None:
    for name, fpdus, is_written in (("faulty-pad", 9, True), ("faulty-fpduptr-and-spacing", 80, False)):
        capture, out = named(name), tmp_path / "out.pcapng"
        assert f"{fpdus} ULPDUs" in invoke("export", capture, out).output
        said = invoke("export", "--strip-markers", capture, out).output
        assert ("left out" not in said) == is_written
        assert analyze(out).connections == [] or is_written


def test_annotate(tmp_path: Path) -> None:
    capture, out = named("faulty-fpduptr-and-spacing"), tmp_path / "out.pcapng"
    invoke("annotate", capture, out)
    said = out.read_bytes()
    assert b"deviating) begins" in said and b"deviating-sender" in said
    assert b"back to seq" in said
    assert b", expected" not in said, "no Marker is accused"
