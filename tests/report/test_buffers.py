"""Octets a receiver had to hold: against a reckoning octet by octet, and what must hold for every capture."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa import analyze
from scapy_mpa.capture.files import Captures
from scapy_mpa.cli import cli
from scapy_mpa.craft.scenario import load
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.report.buffers import HalfBuffers, buffers_of, half_buffers
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.model import Report
from scapy_mpa.report.track import tracks
from tests.conftest import PCAPS, named
from tests.report.test_formats import SCHEMAS, _closed

REORDERED = PCAPS / "markers-reordered.pcap"
LOSSY = named("markers-lossy")
#: Scenarios with Markers both ways, and without.
MARKED = ("middlebox", "packing-dynamic-mulpdu", "a4-combined-late")
PLAIN = ("stack-siw-crc", "neither-markers-nor-crc", "stack-iw-cxgb4")
IMPAIRED: list[tuple[str, ...]] = [
    (),
    ("reorder",),
    ("lose",),
    ("retransmit", "duplicate"),
    ("corrupt:repaired=true", "reorder"),
    ("lose:retransmit=false", "reorder"),
    ("capture-loss",),
    ("cut", "reorder"),
]


def crafted(name: str, impairments: Sequence[str], seed: int = 1) -> tuple[Report, io.BytesIO]:
    file = io.BytesIO()
    load(name, seed=seed).traffic(impairments).write(file)
    file.seek(0)
    return analyze(file), file


# --- against a direct computation ---


def brought(source: Any, half: HalfConnection) -> dict[int, tuple[int, int, bytes]]:
    """The frames of a half connection: sequence number, time and octets of each."""
    found = {}
    with Captures(source) as captures:
        for segments in captures.batches():
            for seg in segments:
                if seg.key == half.key:
                    found[seg.frame] = seg.seq + (seg.flags >> 1 & 1), seg.time, bytes(seg.buffer[seg.start : seg.end])
    return found


def directly(source: Any, report: Report, direction: Role) -> dict[str, tuple[int, float]]:
    """Peak and integral by each way, octet by octet; of a capture without gaps and bad CRCs."""
    connection = report.connections[0]
    half = connection.half(direction)
    segments = brought(source, half)
    floors = [
        (frame, time)
        for frame, time in (
            (connection.request_frame, connection.request_time_ns),
            (connection.reply_frame, connection.reply_time_ns),
        )
        if frame is not None and time is not None
    ]
    times = {frame: time for frame, (_, time, octets) in segments.items() if octets} | dict(floors)
    changes: dict[str, Counter[int]] = {way: Counter() for way in ("order", "length", "marker")}
    latest = 0
    for fpdu in half.fpdus:
        assert fpdu.placed_frame is not None and fpdu.delivered_frame is not None
        latest = max(latest, *fpdu.frames, *(frame for frame, _ in floors))
        leaves = {"order": fpdu.delivered_frame, "length": latest, "marker": fpdu.placed_frame}
        missing = set(range(fpdu.wire_length))
        for frame in fpdu.frames:
            seq, _, octets = segments[frame]
            start = (seq - fpdu.seq + (1 << 31)) % (1 << 32) - (1 << 31)
            mine = missing & set(range(start, start + len(octets)))
            missing -= mine
            for way, leave in leaves.items():
                if leave > frame:
                    changes[way][frame] += len(mine)
                    changes[way][leave] -= len(mine)
        assert not missing
    found = {}
    for way, steps in changes.items():
        now = peak = total = 0
        last = None
        for frame in sorted(times):
            if last is not None:
                total += now * max(0, times[frame] - last)
            last = times[frame]
            now += steps[frame]
            peak = max(peak, now)
        assert now == 0
        found[way] = peak, total / 1e9
    return found


def check_directly(source: Any, report: Report) -> None:
    buffers = buffers_of(report)
    for direction in ROLES:
        if hasattr(source, "seek"):
            source.seek(0)
        for way, (peak, integral) in directly(source, report, direction).items():
            held = buffers[0, direction].held[way]  # type: ignore[index]
            assert held.peak == peak, (direction, way)
            assert held.octet_ns / 1e9 == pytest.approx(integral), (direction, way)


@pytest.mark.parametrize("path", [REORDERED, LOSSY], ids=lambda path: path.stem)
def test_octets_held_are_those_of_fpdus_and_frames(path: Path) -> None:
    check_directly(path, analyze(path))


@pytest.mark.parametrize("name", [MARKED[0], PLAIN[0]])
@pytest.mark.parametrize(
    "impairments", [("reorder",), ("lose", "duplicate"), ("lose:resegment=true", "reorder")], ids="+".join
)
def test_octets_held_of_crafted_traffic(name: str, impairments: tuple[str, ...]) -> None:
    report, file = crafted(name, impairments)
    check_directly(file, report)


# --- what must hold ---


def every_half(report: Report) -> list[HalfBuffers]:
    read = tracks(report.connections)
    return [
        half_buffers(connection, direction, read[connection.number, direction])
        for connection in report.connections
        for direction in ROLES
        if len(connection.half(direction).fpdus)
    ]


def check_order(report: Report) -> None:
    """Nobody holds more than who waits for full order, nobody less than who has Markers, and nothing is left."""
    for found in every_half(report):
        order, length, marker = (found.series[way] for way in ("order", "length", "marker"))
        assert all(a >= b >= c >= 0 for a, b, c in zip(order, length, marker, strict=True))
        assert not any(series[-1] for series in (order, length, marker) if len(series))
        assert 0 <= found.at_once <= found.octets
        assert sum(found.spread.values()) == found.fpdus


@given(st.sampled_from(PLAIN), st.integers(0, 1 << 16), st.sampled_from(IMPAIRED))
def test_without_markers_length_is_all_that_there_is(name: str, seed: int, impairments: tuple[str, ...]) -> None:
    report, _ = crafted(name, impairments, seed)
    assert not any(connection.half(direction).markers for connection in report.connections for direction in ROLES)
    check_order(report)
    for found in every_half(report):
        assert found.series["length"] == found.series["marker"]
        assert found.held["length"] == found.held["marker"]


@given(st.sampled_from(MARKED), st.integers(0, 1 << 16), st.sampled_from(IMPAIRED))
def test_markers_never_cost_octets(name: str, seed: int, impairments: tuple[str, ...]) -> None:
    check_order(crafted(name, impairments, seed)[0])


@pytest.mark.parametrize("path", [REORDERED, LOSSY], ids=lambda path: path.stem)
def test_markers_save_what_they_save(path: Path) -> None:
    for found in buffers_of(analyze(path)).values():
        order, length, marker = (found.held[way] for way in ("order", "length", "marker"))
        assert order.peak == length.peak > 3 * marker.peak > 0
        assert order.octet_ns == length.octet_ns > 1.9 * marker.octet_ns


def test_aligned_fpdus_are_never_held() -> None:
    for found in buffers_of(analyze(PCAPS / "markers-packed.pcap")).values():
        assert found.at_once == found.octets == 12420
        assert [held.peak for held in found.held.values()] == [0, 0, 0]
        assert found.spread == {1: 230}


def test_what_is_behind_a_gap_is_not_held_for_ever() -> None:
    """Without the startup frames FPDUs are found all the same, and what waits for what never comes is let go."""
    for impairments in (("capture-loss",), ("lose:retransmit=false",), ("cut",)):
        for seed in range(1, 4):
            check_order(crafted(MARKED[0], impairments, seed)[0])


# --- the command ---


def run(*words: object) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)


def test_json_follows_the_schema() -> None:
    printed = run("analyze", REORDERED, "--buffers", "--format", "json").output
    report = json.loads(printed)
    _closed(json.loads((SCHEMAS / "analyze.schema.json").read_text())).validate(report)
    buffers = report["connections"][0]["halves"]["initiator"]["buffers"]
    assert buffers["order"]["peak_octets"] == 20088
    assert buffers["marker"]["peak_octets"] == 4996
    assert buffers["fpdus_by_segments"] == {"1": 72, "2": 328}
    assert buffers["crc_passes_an_fpdu"] == buffers["copies_an_fpdu"] == pytest.approx(728 / 400)
    bare = json.loads(run("analyze", REORDERED, "--format", "json").output)
    assert "buffers" not in bare["connections"][0]["halves"]["initiator"]


def test_a_half_without_fpdus_has_none() -> None:
    report = json.loads(run("analyze", PCAPS / "siw-rejected.pcap", "--buffers", "--format", "json").output)
    _closed(json.loads((SCHEMAS / "analyze.schema.json").read_text())).validate(report)
    assert [half["buffers"] for one in report["connections"] for half in one["halves"].values()] == [None] * 4


def test_without_crc_there_are_no_crc_passes() -> None:
    lines = run("analyze", PCAPS / "siw-rping.pcap", "--buffers", "--direction", "responder").output.splitlines()
    (line,) = [line for line in lines if "copies" in line]
    assert line.endswith("1.00 copies and no CRC pass each")


def test_a_pipe_cannot_be_read_twice() -> None:
    command = [sys.executable, "-m", "scapy_mpa", "analyze", "--buffers", "-"]
    done = subprocess.run(command, input=REORDERED.read_bytes(), capture_output=True, check=False)
    assert done.returncode == 2
    assert b"a pipe cannot be read again; --buffers needs a file" in done.stderr


def test_jobs_and_several_captures_make_no_difference() -> None:
    alone = json.loads(run("analyze", REORDERED, "--buffers", "--format", "json").output)
    both = run("analyze", REORDERED, PCAPS / "siw-rping.pcap", "--buffers", "--jobs", 2, "--format", "json").output
    there = [one["halves"]["initiator"]["buffers"]["marker"]["peak_octets"] for one in json.loads(both)["connections"]]
    assert alone["connections"][0]["halves"]["initiator"]["buffers"]["marker"]["peak_octets"] in there
    assert len(there) == 2
