"""The forms a report takes: JSON against its schema, JSON lines, CSV, text; and the Python objects behind them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from scapy.layers.inet import TCP
from scapy.utils import rdpcap, wrpcap

from scapy_mpa import analyze, iter_fpdus
from scapy_mpa.reading.query import Selection
from scapy_mpa.report.connection import connection_line
from scapy_mpa.report.fpdus import FORMATS, KEYS
from scapy_mpa.report.text import report_lines
from tests.conftest import PCAPS, REPO, captures

SCHEMAS = REPO / "scapy_mpa" / "report"
ALL = captures()


def _validator(name: str) -> Draft202012Validator:
    schema = json.loads((SCHEMAS / name).read_text())
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def _closed(schema: dict[str, Any]) -> Draft202012Validator:
    """The schema with no keys allowed that it does not name, so that a key cannot be forgotten in it."""
    return Draft202012Validator(
        json.loads(json.dumps(schema).replace('"additionalProperties": true', '"additionalProperties": false'))
    )


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_reports_and_records_follow_their_schemas(path: Path) -> None:
    report = json.loads(json.dumps(analyze(path).as_dict()))
    _validator("analyze.schema.json").validate(report)
    _closed(json.loads((SCHEMAS / "analyze.schema.json").read_text())).validate(report)
    validator = _closed(json.loads((SCHEMAS / "fpdus.schema.json").read_text()))
    for line in FORMATS["jsonl"](iter_fpdus(path)):
        validator.validate(json.loads(line))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_counts_are_those_of_the_records(path: Path) -> None:
    for connection in analyze(path).connections:
        for half in (connection.initiator, connection.responder):
            fpdus, counts = list(half.fpdus), half.counts
            placed = [fpdu for fpdu in fpdus if fpdu.placed_frame is not None]
            early = [
                fpdu
                for fpdu in placed
                if fpdu.delivered_frame is None or (fpdu.placed_frame or 0) < fpdu.delivered_frame
            ]
            assert counts.fpdus == len(fpdus) == len(half.fpdus)
            assert counts.placed == len(placed)
            assert counts.delivered == sum(fpdu.delivered_frame is not None for fpdu in fpdus)
            assert counts.placed_out_of_order == len(early)
            assert counts.crc_errors == sum(fpdu.crc == "bad" for fpdu in fpdus)
            assert counts.marker_count == sum(fpdu.markers for fpdu in fpdus)
            assert counts.ulpdu_octets == sum(fpdu.ulpdu_length for fpdu in fpdus)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_without_records_the_report_is_the_same(path: Path) -> None:
    assert analyze(path, fpdus=False).as_dict() == analyze(path).as_dict()


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_order_of_placement_is_the_same_fpdus_in_the_order_of_frames(path: Path) -> None:
    stream = [fpdu for found in analyze(path).connections for fpdu in (*found.initiator.fpdus, *found.responder.fpdus)]
    placed = list(iter_fpdus(path))
    frames = [fpdu.placed_frame for fpdu in placed if fpdu.placed_frame is not None]
    assert frames == sorted(frames)

    def key(fpdu: Any) -> Any:
        return fpdu._replace(delivered_frame=None)

    assert sorted(map(key, placed)) == sorted(map(key, stream))
    delivered = {key(fpdu): fpdu.delivered_frame for fpdu in stream}
    for fpdu in placed:
        at = delivered[key(fpdu)]
        # One that is delivered later is known to be if it was final later still.
        assert fpdu.delivered_frame == at or (fpdu.delivered_frame is None and at != fpdu.placed_frame)


def test_csv_says_what_the_json_lines_say() -> None:
    records = list(iter_fpdus(PCAPS / "markers-reordered.pcap"))
    rows = list(csv.DictReader(io.StringIO("".join(FORMATS["csv"](records)))))
    objects = [json.loads(line) for line in FORMATS["jsonl"](records)]
    assert tuple(rows[0]) == KEYS == tuple(objects[0])
    for row, record in zip(rows, objects, strict=True):
        for key, value in record.items():
            if isinstance(value, bool):
                expected = "true" if value else "false"
            elif key == "frames":
                expected = " ".join(map(str, value))
            else:
                expected = "" if value is None else str(value)
            assert row[key] == expected


def test_text_has_a_line_for_each() -> None:
    records = list(iter_fpdus(PCAPS / "markers-reordered.pcap"))
    lines = list(FORMATS["text"](records))
    assert len(lines) == len(records) + 1
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("siw-rping", "rfc6581 rev 2 no CRC, markers -/- initiator ird 1 ord 1 responder ird 1 ord 1 | "),
        ("markers-one-way", "rfc5044 rev 1 C markers -/M | "),
        ("siw-rev0", "rddp-01 rev 0 no CRC, markers -/- | 1+1 FPDUs"),
    ],
)
def test_the_line_of_a_connection(name: str, line: str) -> None:
    (connection,) = analyze(PCAPS / f"{name}.pcap").connections
    assert line in connection_line(connection)


def test_a_rejected_connection_says_so() -> None:
    first, second = analyze(PCAPS / "siw-rejected.pcap").connections
    assert not first.rejected
    assert connection_line(first).endswith("| 0+0 FPDUs")
    assert second.rejected
    assert connection_line(second).endswith("| rejected")


def test_findings_stand_under_their_connection() -> None:
    lines = list(report_lines(analyze(PCAPS / "faulty-pad.pcap")))
    assert lines[0] == "41 packets, 2 TCP connections, 1 MPA connection, 2 errors, 1 warning, 1 note"
    assert lines[1].startswith("#0 ")
    assert lines[2].startswith("  the Responder closed (FIN, frame 37)")
    assert lines[3].startswith("  frames 1 to 39, ")
    assert lines[4].startswith("  error deviating-sender: frame 25, responder, ")
    assert "RFC 5044 §4.1" in lines[5]
    report = analyze(PCAPS / "faulty-pad.pcap")
    report.select(0, ("initiator",))
    # One error, the warning and the note are the Responder's, of two lines each.
    assert len(list(report_lines(report))) == len(lines) - 6


@pytest.mark.parametrize(
    ("name", "first", "last", "most", "is_hinted"),
    [
        pytest.param("siw-rping", 5, 54, 24, True, id="octets missing"),
        pytest.param("siw-rping", 5, 11, 24, True, id="still open"),
        pytest.param("siw-rping", 5, 12, 40, False, id="one FPDU"),
        pytest.param("siw-rping", 5, 54, 1460, False, id="all of it"),
        pytest.param("siw-rping", 5, 9, 24, False, id="no Reply"),
        pytest.param("siw-rejected", 1, 21, 1460, False, id="closed at once, and rejected"),
    ],
)
def test_a_capture_of_the_startup_alone_hints_at_offload(
    name: str, first: int, last: int, most: int, is_hinted: bool, tmp_path: Path
) -> None:
    """``most`` is the longest payload that the capture keeps; both startup frames have 24 octets."""
    packets = rdpcap(str(PCAPS / f"{name}.pcap"))[first - 1 : last]
    path = tmp_path / "some.pcap"
    wrpcap(str(path), [one for one in packets if TCP not in one or len(one[TCP].payload) <= most])
    report = analyze(path)
    hint = "  no octet after the startup frames was captured; if a card offloads the connection, see docs/capturing.md"
    assert ([*report_lines(report)].count(hint) == 1) == is_hinted
    assert ("capture-gap" in str(report.as_dict())) <= ("before any FPDU" not in report.connections[0].verdict)
    assert "docs/capturing.md" not in json.dumps(report.as_dict())


def test_records_can_be_indexed_and_sliced() -> None:
    fpdus = analyze(PCAPS / "siw-rping.pcap").connections[0].initiator.fpdus
    every = list(fpdus)
    assert fpdus[3] == every[3]
    assert fpdus[-2:] == every[-2:]


def test_selection_by_frames_and_ports() -> None:
    path = PCAPS / "siw-three-in-a-row.pcap"
    everything = analyze(path).connections
    second = everything[1]
    assert second.request_frame is not None
    assert everything[2].request_frame is not None
    frames = (second.request_frame, everything[2].request_frame - 1)
    (only,) = analyze(path, selection=Selection(frames=frames)).connections
    assert only.request_frame == second.request_frame
    assert list(only.initiator.fpdus) == [fpdu._replace(connection=0) for fpdu in second.initiator.fpdus]
    port = int(second.initiator.endpoint.rpartition(":")[2])
    (only,) = analyze(path, selection=Selection(ports=(port,))).connections
    assert only.initiator.endpoint == second.initiator.endpoint
    assert analyze(path, selection=Selection(ports=(1,))).connections == []


def test_at_a_prompt_reports_say_what_they_are() -> None:
    report = analyze(PCAPS / "siw-rev0.pcap")
    assert repr(report) == "<13 packets, 1 TCP connection, 1 MPA connection, 2 notes>"
    assert repr(report.connections[0]) == f"<{connection_line(report.connections[0])}>"
