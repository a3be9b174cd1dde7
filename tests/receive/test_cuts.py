"""Captures that begin in the middle, and captures that miss packets: real ones, cut, against their truth.

`midstream.py` computes what must be said, without the receiver; see there for what must be found.
"""

from __future__ import annotations

import io
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import Report, Selection, analyze, iter_fpdus
from scapy_mpa.capture.files import Captures
from scapy_mpa.framing.role import ROLES
from tests.conftest import named, truth
from tests.receive import midstream
from tests.receive.cases import follow
from tests.receive.midstream import Half, Part, Row, Whole

#: Cut at every hundredth frame, those of few frames more often. Markers; a CRC only; neither.
MARKERS = {
    "markers-aligned": 100, "markers-packed": 9, "markers-reordered": 100, "markers-lossy": 100, "markers-one-way": 100,
    "markers-between-fpdus": 20, "markers-before-crc": 9, "markers-draft-origin": 100,
}  # fmt: skip
CRC_ONLY = {
    "crc-only": 100, "siw-crc-rping": 5, "siw-crc-packed": 400, "siw-crc-netem-read": 100, "siw-peer-to-peer": 5
}  # fmt: skip
NEITHER = {
    "siw-rping": 5, "siw-rping-ipv6": 9, "siw-read-64": 200, "siw-netem-send": 200, "siw-nfs4": 500,
    "siw-small-window": 300, "siw-eight-connections": 100, "siw-nvme": 300,
}  # fmt: skip
#: Errors that are in the captures: the user-space stack numbers MSN across queues.
WRONG = {named("crc-only"): frozenset(("ddp-msn",))}
#: Where something else than the step leads to is of interest: octets far below the first one come late.
MORE_CUTS = {"markers-reordered": (714,)}


def wrong(path: Path) -> frozenset[str]:
    return WRONG.get(path, frozenset())


@lru_cache(maxsize=2)
def whole(path: Path) -> Whole:
    return Whole(path.read_bytes())


def cuts(steps: dict[str, int]) -> list[Any]:
    """Each capture, after each `step` frames; where that is amid a startup phase, just behind it."""
    found: dict[str, Any] = {}
    for name, step in steps.items():
        path = named(name)
        capture = whole(path)
        started = min(frames[-1] for frames in capture.startup().values())
        for cut in [started, *range(step, len(capture.records), step), *MORE_CUTS.get(name, ())]:
            while midstream.in_startup(capture, cut):
                cut += 1
            if cut >= started:
                found[f"{name}-{cut}"] = pytest.param(path, cut, id=f"{name}-{cut}")
    return list(found.values())


def losses(names: tuple[str, ...], parts: tuple[float, ...] = (0.3, 0.5, 0.7)) -> list[Any]:
    """Each capture without one data segment, and without three in a row, at several places."""
    found = []
    for name in names:
        path = named(name)
        capture = whole(path)
        started = max(frames[-1] for frames in capture.startup().values())
        data = [p.frame for p in capture.packets if len(p.payload) > 1 and p.frame > started]
        for part in parts:
            at = int(len(data) * part)
            for lost in (1, 3):
                found.append(pytest.param(path, frozenset(data[at : at + lost]), id=f"{name}-{data[at]}-{lost}"))
    return found


def without_brackets(endpoint: str) -> str:
    """An endpoint as the truth writes it."""
    return endpoint.replace("[", "").replace("]", "")


def claimed(report: Report) -> dict[tuple[str, str], list[Row]]:
    """The records by who sent them to whom."""
    found: dict[tuple[str, str], list[Row]] = {}
    for n, connection in enumerate(report.connections):
        assert connection.number == n
        for direction in ROLES:
            half = connection.half(direction)
            other = connection.responder if direction == "initiator" else connection.initiator
            flow = without_brackets(half.endpoint), without_brackets(other.endpoint)
            assert flow not in found, "a connection is told of once"
            found[flow] = [record.as_dict() for record in half.fpdus]
            for row in found[flow]:
                assert (row.pop("connection"), row.pop("direction"), row.pop("deviation")) == (n, direction, None)
    return found


def compare(half: Half, rows: list[Row]) -> None:
    """Nothing is claimed that is not in the truth, all that must be is found, and each record is right."""
    number = {row["seq"]: k for k, row in enumerate(half.rows)}
    assert {row["seq"] for row in rows} <= set(number), "what begins there is no FPDU"
    found = [number[row["seq"]] for row in rows]
    assert found == sorted(set(found)), "in the order of the stream, each once"
    must, there = half.required(), half.whole
    missing = sorted(must.difference(found))
    recall = f"{len(found)} of the {len(there)} FPDUs that are there, {len(must)} of them required ({half.kind})"
    assert missing == [], recall
    for got, wanted in zip(rows, half.expected(found), strict=True):
        assert got == wanted, recall


def judge(part: Part, truths: list[list[Row]], allowed: frozenset[str] = frozenset()) -> Report:
    """Compare what is said of a part of a capture with the truth of the whole one, half by half; no error but these."""
    report = analyze(io.BytesIO(part.octets))
    found = claimed(report)
    heads = {
        (without_brackets(c.initiator.endpoint), without_brackets(c.responder.endpoint)): c for c in report.connections
    }
    for wanted in midstream.connections(part, truths):
        for half in wanted.halves.values():
            compare(half, found.pop(half.flow, []))
        connection = heads.pop((wanted.initiator, wanted.responder), None)
        if connection is None:
            continue  # nothing was found, and nothing had to be
        assert connection.inferred == wanted.inferred
        assert (connection.request is None) == wanted.inferred
        for direction, half in wanted.halves.items():
            told = connection.as_dict()["halves"][direction]
            if told["fpdus"] or not wanted.inferred:
                assert {key: told[key] for key in half.counted()} == half.counted(), direction
    assert heads == {}, "no other connection, and nobody else called Initiator"
    assert {flow for flow, rows in found.items() if rows} == set()
    errors = [f for f in report.all_findings() if f.severity == "error" and f.rule.id not in allowed]
    assert [f"{f.rule.id}: {f.detail}" for f in errors] == []
    return report


def test_the_oracle_agrees_with_the_truth_where_nothing_is_missing() -> None:
    """Frames and the formulas of placement, read off the packets without the receiver."""
    for name in (*MARKERS, *CRC_ONLY, *NEITHER):
        path = named(name)
        rows = truth(path)
        told = []
        for connection in midstream.connections(whole(path).after(0), midstream.halves_of(path)):
            for half in connection.halves.values():
                assert half.required() == set(range(len(half.rows)))
                told += half.expected(range(len(half.rows)))
        assert told == [
            {key: value for key, value in row.items() if key in told[0]}
            | {key: told[n][key] for key in ("located_by", "time", "after_error")}
            for n, row in enumerate(rows)
        ]


@pytest.mark.parametrize(("path", "cut"), cuts(MARKERS))
def test_with_markers(path: Path, cut: int) -> None:
    judge(whole(path).after(cut), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize(("path", "cut"), cuts(CRC_ONLY))
def test_with_crcs_only(path: Path, cut: int) -> None:
    judge(whole(path).after(cut), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize(("path", "cut"), cuts(NEITHER))
def test_with_neither_what_is_claimed_is_right(path: Path, cut: int) -> None:
    judge(whole(path).after(cut), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize(
    ("path", "lost"), losses(("siw-crc-rping", "siw-crc-packed", "crc-only", "siw-crc-netem-read", "siw-peer-to-peer"))
)
def test_scanned_for_after_a_gap(path: Path, lost: frozenset[int]) -> None:
    """A capture that misses packets of a stream that began before its eyes: the CRC finds the next FPDU."""
    judge(whole(path).without(lost.__contains__), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize(
    ("path", "lost"), losses(("siw-rping", "siw-rping-ipv6", "siw-read-64", "siw-netem-send", "siw-nvme", "siw-nfs4"))
)
def test_after_a_gap_without_crc_what_is_claimed_is_right(path: Path, lost: frozenset[int]) -> None:
    judge(whole(path).without(lost.__contains__), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize(("path", "lost"), losses(tuple(MARKERS)))
def test_found_by_a_marker_after_a_gap(path: Path, lost: frozenset[int]) -> None:
    judge(whole(path).without(lost.__contains__), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize("frames", [1, 3, 8])
@pytest.mark.parametrize(("path", "cut"), cuts(MARKERS))
def test_a_few_frames_with_markers(path: Path, cut: int, frames: int) -> None:
    """Of which few hold a whole FPDU: one that holds a Marker is found."""
    judge(whole(path).without(lambda frame: not cut < frame <= cut + frames), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize("every", [7, 40])
@pytest.mark.parametrize("name", ["markers-reordered", "markers-packed", "siw-crc-rping", "crc-only", "siw-crc-packed"])
def test_begun_in_the_middle_and_full_of_holes(name: str, every: int) -> None:
    path = named(name)
    cut = len(whole(path).records) // 3
    judge(whole(path).without(lambda frame: frame <= cut or frame % every == 0), midstream.halves_of(path), wrong(path))


@pytest.mark.parametrize("name", ["markers-reordered", "markers-packed", "siw-crc-rping", "siw-rping"])
def test_it_matters_not_how_it_was_read(name: str) -> None:
    """All at once, segment by segment, in blocks that are let go of; and the order of placement."""
    path = named(name)
    capture = whole(path)
    part = capture.after(len(capture.records) // 3)
    with Captures(io.BytesIO(part.octets)) as opened:
        segments = [segment for batch in opened.batches() for segment in batch]
    follow(segments)
    streamed = [record.as_dict() for record in iter_fpdus(io.BytesIO(part.octets))]
    sorted_rows = [row for rows in claimed(analyze(io.BytesIO(part.octets))).values() for row in rows]
    key = itemgetter("seq", "placed_frame", "frames")
    assert sorted(map(key, streamed)) == sorted(map(key, sorted_rows))


@pytest.mark.parametrize("behind", [-3, 0, 1, 2000, 2**31 - 5000])
@pytest.mark.parametrize("name", ["markers-reordered", "markers-packed", "crc-only", "siw-crc-netem-read", "siw-rping"])
def test_sequence_numbers_pass_zero(name: str, behind: int) -> None:
    """So many octets behind the first that is captured, in each half connection."""
    path = named(name)
    capture = whole(path)
    cut = len(capture.records) // 3
    truths = []
    for rows in midstream.halves_of(path):
        flow = rows[0]["sender"], rows[0]["receiver"]
        first = next((p.seq for p in capture.packets if p.frame > cut and p.flow == flow and p.payload), 0)
        delta = -first - behind
        capture = capture.renumbered(flow, delta)
        moved = {key: [(row[key] + delta) % 2**32 for row in rows] for key in ("seq", "header_seq")}
        truths.append([{**row, **{key: moved[key][k] for key in moved}} for k, row in enumerate(rows)])
    judge(capture.after(cut), truths, wrong(path))


@pytest.mark.parametrize("name", ["markers-packed", "siw-crc-rping", "siw-rping"])
def test_the_same_ports_again_are_another_connection(name: str) -> None:
    """One that begins in the middle, and after it, between the same ends, one that begins with its SYN."""
    path = named(name)
    capture = whole(path)
    cut = len(capture.records) // 3
    left = len(capture.records) - cut
    both = analyze(io.BytesIO(capture.after(cut).octets + b"".join(capture.records)))
    begun, alone = analyze(path), analyze(io.BytesIO(capture.after(cut).octets))
    assert [connection.inferred for connection in both.connections] == [True] * len(alone.connections) + [False]
    halves = [connection.half(direction) for connection in both.connections for direction in ROLES]
    wanted = [connection.half(direction) for connection in alone.connections for direction in ROLES]
    for got, half in zip(halves, wanted, strict=False):
        assert [record.as_dict() for record in got.fpdus] == [record.as_dict() for record in half.fpdus]
    for direction in ROLES:
        rows = [record.as_dict() for record in both.connections[-1].half(direction).fpdus]
        for row, record in zip(rows, begun.connections[0].half(direction).fpdus, strict=True):
            shifted = record.as_dict() | {"connection": row["connection"]}
            shifted["frames"] = [frame + left for frame in record.frames]
            for key in ("placed_frame", "delivered_frame"):
                shifted[key] = getattr(record, key) + left
            assert row == shifted


@pytest.mark.parametrize("name", ["markers-aligned", "siw-crc-rping", "siw-rping"])
def test_selected_frames_are_a_capture_that_begins_in_the_middle(name: str) -> None:
    """`--frames` does what cutting the file does, except that the frames keep their numbers."""
    path = named(name)
    cut = len(whole(path).records) // 2
    shifted = []
    for rows in claimed(analyze(io.BytesIO(whole(path).after(cut).octets))).values():
        for row in rows:
            row["frames"] = [frame + cut for frame in row["frames"]]
            for key in ("placed_frame", "delivered_frame"):
                row[key] = row[key] and row[key] + cut
            shifted.append(row)
    selected = claimed(analyze(path, selection=Selection(frames=(cut + 1, None))))
    assert [row for rows in selected.values() for row in rows] == shifted


@pytest.mark.parametrize(("name", "crc"), [("siw-midstream-crc", "good"), ("siw-midstream", "unchecked")])
def test_recorded_in_the_middle(name: str, crc: str) -> None:
    path = named(name)
    report = analyze(path)
    rows = [row for rows in claimed(report).values() for row in rows]
    assert all(connection.inferred for connection in report.connections)
    assert {row["crc"] for row in rows} <= {crc}
    assert not report.has_errors
    if crc == "good":
        assert len(rows) > 100
