"""scapy-mpa lines: one line a frame, with what analyze, fpdus and messages say of it."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scapy_mpa import analyze, iter_fpdus, iter_messages
from scapy_mpa.cli import cli
from scapy_mpa.framing.startup import EnhancedData, startup_frame
from scapy_mpa.wireshark.framelines import startup_words
from tests.conftest import captures, named

SMALL = [path for path in captures() if path.stat().st_size < 500_000]
SOME = [*SMALL, named("siw-nfs4"), named("siw-nvme")]


def invoke(*arguments: object) -> Result:
    said = ["lines", *map(str, arguments)]
    return CliRunner().invoke(cli, said, standalone_mode=False, catch_exceptions=False)


def text(*arguments: object) -> list[str]:
    return invoke(*arguments).stdout.splitlines()


def values(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text(*arguments, "--format", "jsonl")]


@pytest.mark.parametrize(
    ("startup", "said"),
    [
        (
            startup_frame(
                "request", m=0, c=1, rev=2, s=1, enhanced=EnhancedData(a=1, d=1, ird=32, ord=1), private_data=bytes(32)
            ),
            "Request M0 C1 rev 2 pd 36 enhanced ird 32 ord 1 peer-to-peer read RTR",
        ),
        (startup_frame("reply", m=1, c=0, r=1, rev=1, s=0), "Reply M1 C0 rev 1 pd 0 rejected"),
        (startup_frame("request", m=1, c=1, r=1, rev=0, s=0, private_data=b"abc"), "Request M1 C1 rev 0 pd 3 R1"),
        (
            startup_frame("reply", rev=2, s=1, c=0, enhanced=EnhancedData(a=1, b=1, c=1, ird=0x3FFF, ord=2)),
            "Reply M0 C0 rev 2 pd 4 enhanced ird not negotiated ord 2 peer-to-peer send write RTR",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_startup_frames(startup: Any, said: str) -> None:
    assert startup_words(startup) == said


def test_what_a_line_looks_like() -> None:
    lines = text(named("siw-nvme"), "--frames", "1-12")
    assert lines[2] == (
        "4 10:14:51.414579 10.9.9.1:43747 > 10.9.9.1:4420 PSH ACK seq 713388499 len 56 "
        "[mpa: Request M0 C0 rev 2 pd 36 enhanced ird 128 ord 0]"
    )
    assert lines[4].endswith("len 88 [mpa: Send MSN 1 64 octets, NVMe-oF: Command 0, Fabrics Connect]")
    assert lines[6].endswith("len 1044 [mpa: RDMA Read Response STag 0x81c17601 TO 0xff2816831c704000 1024 octets]")
    assert lines[7].endswith(
        "[mpa: Send with Invalidate MSN 1 16 octets, invalidates STag 0x2efc8f01, NVMe-oF: Response to command 0]"
    )
    assert [line.split()[0] for line in lines] == ["1", "2", "4", "6", "8", "9", "10", "11", "12"]
    assert len(text(named("siw-nvme"), "--frames", "1-12", "--acks")) == 12


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem)
def test_every_fpdu_stands_at_the_frame_that_placed_it(path: Path) -> None:
    placed: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    parts: dict[int, int] = defaultdict(int)
    for record in iter_fpdus(path):
        at = record.placed_frame or max(record.frames)
        placed[at].append((record.seq, record.opcode, record.ulpdu_length, record.markers, record.crc))
        for frame in record.frames:
            parts[frame] += frame != at
    # The frame of the other direction may place one; its line is about what it carries itself.
    lines = values(path, "--acks")
    found = {line["frame"]: line for line in lines}
    assert [line["frame"] for line in lines] == sorted(found)
    listed = 0
    for frame, line in found.items():
        own = [one for one in line["fpdus"] if one["placed_frame"] in (frame, None)]
        keys = [tuple(one[key] for key in ("seq", "opcode", "ulpdu_length", "markers", "crc")) for one in own]
        assert set(keys) <= {*placed[frame]} | {key for keys in placed.values() for key in keys if key[-1] == "bad"}
        listed += sum(one["placed_frame"] == frame for one in line["fpdus"])
        if line["fpdu_count"] <= 24:
            assert line["fpdu_count"] == len(line["fpdus"])
    assert listed or not any(placed.values())


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem)
def test_findings_stand_at_their_frames(path: Path) -> None:
    report = analyze(path)
    found = {line["frame"]: {one["rule"] for one in line["findings"]} for line in values(path, "--acks")}
    for connection in report.connections:
        for finding in connection.findings:
            for frame in (finding.frame, finding.last_frame):
                if frame in found:
                    assert finding.rule.id in found[frame], (finding.rule.id, frame)
    said = text(path, "--acks")
    for line in said:
        frame = int(line.split()[0])
        for rule in found[frame]:
            assert re.search(rf"\[mpa: (error|warning|note) {re.escape(rule)}[ :]", line)


def test_upper_layers_are_those_of_messages() -> None:
    for name in ("siw-nfs4", "siw-nvme"):
        path = named(name)
        rows = {row.last_frame: row for row in iter_messages(path) if row.ulp is not None}
        lines = {line["frame"]: line for line in values(path)}
        assert len(rows) > 100
        for frame, row in rows.items():
            assert row.ulp is not None
            (told,) = (one["ulp"] for one in lines[frame]["fpdus"] if one["ulp"])
            # messages says in the same words what was done for a call, too.
            assert f"{row.ulp['protocol']}: {row.text}".startswith(told)


def test_what_is_left_out() -> None:
    path = named("siw-nvme")
    every = values(path)
    assert {line["connection"] for line in every} == {0, 1, 2}
    assert values(path, "--connection", "1") == [line for line in every if line["connection"] == 1]
    assert values(path, "--direction", "responder") == [line for line in every if line["direction"] == "responder"]
    assert all(line["octets"] or set(line["flags"]) & {"SYN", "FIN", "RST"} for line in every if not line["findings"])
    two = values(path, "--ulp", "SMB Direct")
    assert two == []


def test_several_captures_are_one() -> None:
    paths = [named("siw-rping"), named("siw-terminate")]
    frames = [line["frame"] for line in values(*paths)]
    assert frames == sorted(frames) and len(frames) == sum(len(values(path)) for path in paths)


def test_the_status_says_whether_there_is_an_error() -> None:
    assert invoke(named("siw-rping")).return_value == 0
    faulty = invoke(named("faulty-pad"))
    assert faulty.return_value == 1 and "[mpa: error deviating-sender" in faulty.stdout
    left_out = invoke(named("faulty-pad"), "--ignore", "deviating-sender")
    assert left_out.return_value == 0 and "[mpa: error deviating-sender" not in left_out.stdout
