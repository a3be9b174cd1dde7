"""Real captures against the truth that an independent program made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from scapy_mpa.analyzer.analyzer import Analyzer
from scapy_mpa.capture import reader
from scapy_mpa.capture.files import Captures
from tests.conftest import PCAPS, captures, named, truth, truth_path
from tests.receive.cases import errors, lasting, records, summary

#: The keys that every line of a truth has.
KEYS = (
    "connection", "direction", "seq", "header_seq", "ulpdu_length", "wire_length", "markers", "crc", "frames",
    "placed_frame", "delivered_frame", "opcode",
)  # fmt: skip
ALL = captures()


def analysed(*paths: Path) -> Analyzer:
    receiver = Analyzer(records=True)
    with Captures(list(paths)) as opened:
        for batch in opened.batches():
            receiver.feed(batch)
            receiver.release()
        assert opened.damage == []
    receiver.finish()
    return receiver


def found(receiver: Analyzer) -> dict[str, int]:
    """Rules broken, of all connections together."""
    rules: dict[str, int] = {}
    for findings in [receiver.findings, *(mpa.findings for mpa in receiver.connections)]:
        for finding in findings.sorted():
            rules[finding.rule.id] = rules.get(finding.rule.id, 0) + finding.count
    return rules


def ids(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", captures(with_truth=True), ids=ids)
def test_exactly_the_fpdus_of_the_truth(path: Path) -> None:
    receiver = analysed(path)
    wanted = truth(path)
    rows = [record.as_dict() for record in records(receiver)]
    numbers = {mpa.number: (mpa.initiator, mpa.responder) for mpa in receiver.connections if mpa.operations}
    # The truth numbers the connections that reached Full Operation.
    renumbering = {number: n for n, number in enumerate(sorted(numbers))}
    got = []
    for row in rows:
        ends = numbers[row["connection"]]  # type: ignore[index]
        if row["direction"] == "responder":
            ends = ends[::-1]
        told = {key: row[key] for key in KEYS}
        told["connection"] = renumbering[told["connection"]]  # type: ignore[index]
        # The truth writes IPv6 addresses without brackets.
        sender, to = (end.replace("[", "").replace("]", "") for end in ends)
        got.append({**told, "sender": sender, "receiver": to})
    assert [set(line) for line in wanted] == [{*KEYS, "sender", "receiver"}] * len(wanted)
    assert got == wanted


@pytest.mark.parametrize("path", ALL, ids=ids)
def test_errors_are_in_the_faulty_captures_only(path: Path) -> None:
    receiver = analysed(path)
    assert bool(errors(receiver)) == path.stem.startswith("faulty-")


@pytest.mark.parametrize("path", captures(with_truth=True), ids=ids)
def test_counts_agree_with_the_truth(path: Path) -> None:
    receiver = analysed(path)
    wanted = truth(path)
    halves = [operation for mpa in receiver.connections for operation in mpa.operations.values()]
    total = {
        name: sum(getattr(operation.counts, name) for operation in halves)
        for name in ("fpdus", "placed", "delivered", "marker_count", "ulpdu_octets", "placed_out_of_order")
    }
    assert total == {
        "fpdus": len(wanted),
        "placed": sum(row["placed_frame"] is not None for row in wanted),
        "delivered": sum(row["delivered_frame"] is not None for row in wanted),
        "marker_count": sum(row["markers"] for row in wanted),
        "ulpdu_octets": sum(row["ulpdu_length"] for row in wanted),
        "placed_out_of_order": sum(
            row["placed_frame"] is not None
            and (row["delivered_frame"] is None or row["placed_frame"] < row["delivered_frame"])
            for row in wanted
        ),
    }


@pytest.mark.parametrize("size", [1000, 140_000])
@pytest.mark.parametrize("path", [path for path in ALL if path.stat().st_size < 1_000_000], ids=ids)
def test_it_matters_not_how_the_file_was_read(path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In small blocks everything is let go of all the time."""
    whole = lasting(summary(analysed(path)))
    monkeypatch.setattr(reader, "BLOCK_SIZE", size)
    assert lasting(summary(analysed(path))) == whole


@pytest.mark.parametrize("path", captures(with_truth=True), ids=ids)
def test_a_truth_says_where_each_fpdu_was_located(path: Path) -> None:
    """`located_by` by its definition, from the placed frames of the truth."""
    receiver = analysed(path)
    before = None
    for record in records(receiver):
        if before is None or (before.connection, before.direction) != (record.connection, record.direction):
            wanted = "start"
        elif before.placed_frame is not None and before.placed_frame <= (record.placed_frame or 0):
            wanted = "length"
        else:
            wanted = "marker" if record.markers else "scan"
        assert record.located_by == wanted
        assert record.after_error is False
        before = record


#: What is wrong in each capture of pcaps/, as far as this receiver's rules go.
FINDINGS = {
    "markers-draft-origin": {"fpduptr-origin"},
    "siw-terminate": {"terminate", "terminate-layout"},
    "siw-three-in-a-row": {"terminate", "terminate-layout"},
    "siw-snaplen128": {"capture-cut"},
}


# Of captures that begin in the middle nothing is told yet.
@pytest.mark.parametrize(
    "path", [path for path in ALL if not path.stem.startswith(("faulty-", "siw-midstream"))], ids=ids
)
def test_findings_are_those_that_are_known(path: Path) -> None:
    judged = {
        "fpduptr-origin", "terminate", "terminate-layout", "capture-cut", "capture-gap", "overlap", "limit",
        "outside-window", "marker-length", "crc", "connection-lost", "startup-frame", "tcp-checksum",
        "ulpdu-length-zero", "ulpdu-length-limit", "startup-role", "startup-key", "startup-pd-length",
        "startup-private-data-limit", "startup-enhanced-data",
    }  # fmt: skip
    assert set(found(analysed(path))) & judged == FINDINGS.get(path.stem, set())


@pytest.mark.parametrize("name", ["faulty-pad", "faulty-fpduptr-and-spacing", "faulty-no-crc-field"])
def test_faulty_captures_are_followed_to_the_end(name: str) -> None:
    """Whatever is wrong, octets are accounted for, and the same ones each time."""
    receiver = analysed(named(name))
    assert receiver.connections
    for mpa in receiver.connections:
        for operation in mpa.operations.values():
            counts, half = operation.counts, operation.reader.half
            assert counts.fpdus >= counts.placed >= counts.delivered >= 0
            assert half.highest == counts.stream_octets + counts.missing_octets


@pytest.mark.parametrize("path", ALL, ids=ids)
def test_the_readme_has_each_capture_with_its_fpdus(path: Path) -> None:
    (row,) = (line for line in (PCAPS / "README.md").read_text().splitlines() if line.startswith(f"| {path.stem} |"))
    assert [cell.strip() for cell in row.split("|")][4] == (str(len(truth(path))) if truth_path(path).exists() else "-")
