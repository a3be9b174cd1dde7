"""Octets without packets: the same FPDUs as in the capture that they are taken from, and nothing that is not known."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.capture import streams
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.streams import STREAM_BLOCK, Streams
from scapy_mpa.errors import CaptureError
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.reading.analysis import analyze, iter_fpdus
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.text import report_lines
from scapy_mpa.rules.octets import NEED_BOTH, NEED_PACKETS
from scapy_mpa.rules.table import RULES
from scapy_mpa.values.segment import SYN
from tests.cli.test_command import invoke, run
from tests.conftest import PCAPS, captures

FAULTY, CRC = PCAPS / "faulty-pad.pcap", PCAPS / "siw-crc-rping.pcap"
ALIGNED = PCAPS / "markers-aligned.pcap"


def octets_of(capture: Path, connection: Connection) -> dict[str, bytes] | None:
    """Return what each side sent, by the sequence numbers of the packets; None if some octets were not captured."""
    first, last = connection.lifecycle.first[0], connection.lifecycle.last[0]
    found: dict[str, bytes] = {}
    for direction in ROLES:
        pieces: dict[int, bytes] = {}
        base: int | None = None
        with Captures(capture) as read:
            for seg in (seg for batch in read.batches() for seg in batch):
                if seg.key == connection.half(direction).key and first <= seg.frame <= last and seg.length:
                    seq = seg.seq + bool(seg.flags & SYN)
                    base = seq if base is None else base
                    if seg.end - seg.start < seg.length:
                        return None
                    pieces.setdefault(seq_diff(seq, base), bytes(seg.buffer[seg.start : seg.end]))
        octets, begins = bytearray(), min(pieces, default=0)
        for place in sorted(pieces):
            if place - begins > len(octets):
                return None
            octets += pieces[place][max(0, len(octets) - (place - begins)) :]
        found[direction] = bytes(octets)
    return found


def fpdus(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Return what each FPDU is, wherever it was found."""
    return {
        direction: [
            (one.ulpdu_length, one.wire_length, one.markers, one.crc, one.opcode)
            for one in connection.half(direction).fpdus
        ]
        for direction in ROLES
    }


def opened(octets: dict[str, bytes]) -> dict[str, BinaryIO]:
    return {side: io.BytesIO(one) for side, one in octets.items() if one}


def written(folder: Path, octets: dict[str, bytes]) -> list[str]:
    """The options that name files with these octets."""
    arguments = []
    for side, one in octets.items():
        (folder / side).write_bytes(one)
        arguments += ["--stream", f"{side}={folder / side}"]
    return arguments


def taken(capture: Path, number: int = 0) -> dict[str, bytes]:
    found = octets_of(capture, analyze(capture, fpdus=False).connections[number])
    assert found is not None
    return found


@pytest.mark.parametrize("capture", [path for path in captures() if path.parent == PCAPS], ids=lambda path: path.stem)
def test_every_shipped_capture(capture: Path) -> None:
    for connection in analyze(capture).connections:
        octets = octets_of(capture, connection)
        if octets is None or connection.inferred:
            continue
        report = analyze(Streams(**opened(octets)))
        (found,) = report.connections
        assert fpdus(found) == fpdus(connection)
        assert (found.request, found.reply, found.crc) == (connection.request, connection.reply, connection.crc)
        for direction in ROLES:
            for here, there in zip(found.half(direction).fpdus, connection.half(direction).fpdus, strict=True):
                assert here.octets() == there.octets()
                # A sequence number is a place in the file.
                assert octets[direction][here.seq : here.seq + here.wire_length] == there.octets()
        hidden = NEED_PACKETS | NEED_BOTH
        assert {one.rule.id for one in found.findings} - hidden == {one.rule.id for one in connection.findings} - hidden


def test_shipped_captures_are_compared() -> None:
    """The test above leaves few out."""
    counts = [
        (octets_of(path, one) is not None and not one.inferred, sum(map(len, fpdus(one).values())))
        for path in captures()
        if path.parent == PCAPS
        for one in analyze(path).connections
    ]
    assert sum(compared for compared, _ in counts) >= 20 and sum(count for compared, count in counts if compared) > 1500


@pytest.mark.parametrize("side", ROLES)
@pytest.mark.parametrize("capture", [CRC, ALIGNED], ids=lambda path: path.stem)
def test_one_side_alone(capture: Path, side: str) -> None:
    (connection, *_) = analyze(capture).connections
    octets = taken(capture)
    (found,) = analyze(Streams(**opened({side: octets[side]}))).connections
    assert fpdus(found)[side] == fpdus(connection)[side]
    other = "responder" if side == "initiator" else "initiator"
    assert not fpdus(found)[other] and found.half("initiator").endpoint == "initiator"
    assert not {one.rule.id for one in found.findings} & (NEED_PACKETS | NEED_BOTH)


@pytest.mark.parametrize("cut", [1, 21, 300])
@pytest.mark.parametrize("side", [*ROLES, None])
def test_from_the_middle_on(cut: int, side: str | None) -> None:
    """Who sent what is told, whoever of both has more."""
    octets = {one: found[cut:] for one, found in taken(CRC).items()}
    given_ = octets if side is None else {side: octets[side]}
    (connection, *_) = analyze(CRC).connections
    (found,) = analyze(Streams(**opened(given_))).connections
    assert found.inferred and found.half("initiator").endpoint == "initiator"
    for one in given_:
        expected = fpdus(connection)[one]
        assert fpdus(found)[one] == expected[len(expected) - len(fpdus(found)[one]) :] and fpdus(found)[one]


def test_octets_cannot_break_what_needs_packets() -> None:
    assert set(RULES) > NEED_PACKETS | NEED_BOTH
    octets = taken(CRC)
    # The Reply comes first here, and FPDUs before it: nobody knows.
    (found,) = analyze(
        Streams(responder=io.BytesIO(octets["responder"]), initiator=io.BytesIO(octets["initiator"]))
    ).connections
    assert not found.findings


def test_request_alone() -> None:
    report = analyze(Streams(initiator=io.BytesIO(taken(CRC)["initiator"][:24])))
    assert not [*report.all_findings()] and not report.connections[0].half("initiator").fpdus
    lines = "\n".join(report_lines(report))
    assert "did not answer" not in lines and "no Reply captured" in lines


def test_text_speaks_of_octets(tmp_path: Path) -> None:
    octets = taken(FAULTY)
    result = invoke("analyze", *written(tmp_path, octets))
    text = result.stdout
    assert result.return_value == 1 and result.stderr == ""
    assert "frame" not in text and "capture" not in text and "0.000" not in text
    assert "octets without packets: addresses, times" in text
    report = analyze(Streams(**opened(octets)))
    for found in report.all_findings():
        assert f"{found.rule.id}: octet {found.seq} of the {found.direction}" in text


def test_json(tmp_path: Path) -> None:
    octets = taken(FAULTY)
    arguments = written(tmp_path, {"initiator": octets["initiator"]})
    values = json.loads(invoke("analyze", "--format", "json", *arguments).stdout)
    assert values["streams"] == {"initiator": str(tmp_path / "initiator"), "responder": None}
    assert values["captures"] == [str(tmp_path / "initiator")] and "joined" not in values
    connection = values["connections"][0]
    assert (connection["initiator"], connection["responder"]) == ("initiator", "responder")
    life = connection["lifecycle"]
    assert life["ended"] == "open" and life["first_time"] == life["last_time"] == 0
    assert "streams" not in json.loads(invoke("analyze", "--format", "json", str(FAULTY)).stdout)


@pytest.mark.parametrize("command", ["fpdus", "messages", "startup", "show --fpdu 0/i/1", "show --seq 25"])
def test_other_commands(command: str, tmp_path: Path) -> None:
    arguments = [*command.split(), *written(tmp_path, taken(CRC))]
    done = invoke(*arguments)
    assert done.return_value == 0 and done.stderr == "" and len(done.stdout.splitlines()) > 3
    assert " ms" not in done.stdout and "frame " not in done.stdout


def test_messages_are_the_same(tmp_path: Path) -> None:
    keys = ("direction", "message", "stag", "to", "qn", "msn", "octets", "segments", "complete")
    there, here = (
        [json.loads(line) for line in invoke("messages", "--format", "jsonl", *arguments).stdout.splitlines()]
        for arguments in ([str(CRC)], written(tmp_path, taken(CRC)))
    )
    for one, other in ((there, here), (here, there)):
        assert all({key: row[key] for key in keys} in [{key: r[key] for key in keys} for r in other] for row in one)
    assert len(there) == len(here)


@pytest.mark.parametrize(
    "given_",
    [
        *("analyze --port 1", "analyze --host 10.0.0.1", "analyze --esp {file}", "analyze --join merge"),
        *(
            "analyze --frames 1-2",
            "analyze --read-frames 1-2",
            "analyze --since 1",
            "analyze --until 1",
            "analyze --buffers",
            "analyze {file}",
        ),
        *("analyze --stream initiator={file}", "analyze --stream {file}", "analyze --stream other={file}"),
        *("analyze --stream responder=", "fpdus --order placed", "messages --summary", "show --frame 1"),
        *("plot", "annotate {file} {file}x", "extract", "export {file}x", "crosscheck", "report"),
    ],
)
def test_what_does_not_go_with_streams(given_: str, tmp_path: Path) -> None:
    done = run(*given_.format(file=tmp_path / "initiator").split(), *written(tmp_path, {"initiator": b"octets"}))
    assert done.returncode == 2 and not done.stdout
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("scapy-mpa: ")


@pytest.mark.parametrize("what", ["missing", "empty", "folder", "capture", "unreadable", "surrogates\udcff", "both -"])
def test_files_that_cannot_be_read(what: str, tmp_path: Path) -> None:
    path, more = tmp_path / what, []
    if what == "empty":
        path.touch()
    elif what == "folder":
        path.mkdir()
    elif what == "capture":
        path.write_bytes(FAULTY.read_bytes())
    elif what == "unreadable":
        path = Path("/proc/self/mem")
    elif what == "both -":
        path, more = Path("-"), ["--stream", "responder=-"]
    done = run("analyze", "--stream", f"initiator={path}", *more)
    assert done.returncode == 2 and not done.stdout
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("scapy-mpa: ")


def test_standard_input(tmp_path: Path) -> None:
    import subprocess
    import sys

    octets = taken(CRC)
    written(tmp_path, octets)
    command = [sys.executable, "-m", "scapy_mpa", "fpdus", "--format", "jsonl", "--stream", "initiator=-"]
    command += ["--stream", f"responder={tmp_path / 'responder'}"]
    done = subprocess.run(command, input=octets["initiator"], capture_output=True, check=True)
    assert done.stdout.decode() == invoke("fpdus", "--format", "jsonl", *written(tmp_path, octets)).stdout


def test_from_python() -> None:
    octets = taken(CRC)
    records = [*iter_fpdus(Streams(**opened(octets)))]
    (found,) = analyze(Streams(**opened(octets))).connections
    assert len(records) == sum(map(len, fpdus(found).values()))
    with pytest.raises(CaptureError):
        Streams()


def test_memory_does_not_follow_the_file(tmp_path: Path) -> None:
    """What is held of 96 MB of FPDUs is some blocks."""
    import tracemalloc

    octets = taken(CRC)
    fpdu = encode_fpdu(bytes.fromhex("c140") + bytes(12) + bytes(48_000))
    path = tmp_path / "big"
    path.write_bytes(octets["initiator"][:24] + fpdu * 2000)
    tracemalloc.start()
    try:
        source = Streams(initiator=path, responder=io.BytesIO(octets["responder"]))
        report = analyze(source, fpdus=False)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.connections[0].initiator.counts.fpdus == 2000
    assert most < 64_000_000


@given(
    initiator=st.binary(max_size=300),
    responder=st.binary(max_size=300),
    is_mutated=st.booleans(),
    places=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=6),
    cut=st.tuples(st.integers(0, 4000), st.integers(0, 4000)),
)
def test_hostile_octets(
    initiator: bytes,
    responder: bytes,
    is_mutated: bool,
    places: list[tuple[int, int]],
    cut: tuple[int, int],
) -> None:
    """Whatever the octets are, there is a report, and each frame can be read again."""
    if is_mutated:
        sides = []
        for side, begin in zip(ROLES, cut, strict=True):
            octets = bytearray(BASE[side])
            for place, value in places:
                octets[place % len(octets)] = value
            sides.append(bytes(octets[begin % len(octets) :]))
        initiator, responder = sides
    given_ = {side: one for side, one in (("initiator", initiator), ("responder", responder)) if one}
    if not given_:
        return
    report = analyze(Streams(**opened(given_)))
    values = json.dumps(report.as_dict())
    assert "\n".join(report_lines(report)) and values
    assert not {one.rule.id for one in report.all_findings()} & NEED_PACKETS
    for connection in report.connections:
        for side in ROLES:
            for record in connection.half(side).fpdus:
                octets_there = given_[connection.half(side).endpoint]
                assert record.octets() == octets_there[record.seq : record.seq + record.wire_length]


BASE = taken(CRC)


@settings(max_examples=20)
@given(size=st.integers(1, 3 * STREAM_BLOCK), other=st.integers(0, 3 * STREAM_BLOCK), block=st.integers(1, 5))
def test_blocks_are_read_again(size: int, other: int, block: int) -> None:
    octets = {"initiator": os.urandom(1) * size, "responder": os.urandom(1) * other}
    source = Streams(**opened(octets))
    seen: dict[bytes, bytes] = {}
    frames = []
    with Captures(source) as read:
        for seg in (seg for batch in read.batches() for seg in batch):
            assert seg.seq == len(seen.get(seg.key, b"")) and seg.time == 0
            seen[seg.key] = seen.get(seg.key, b"") + bytes(seg.buffer[seg.start : seg.end])
            frames.append((seg.frame, bytes(seg.buffer[seg.start : seg.end])))
    assert [*seen.values()] == [one for one in octets.values() if one]
    assert [frame for frame, _ in frames] == [*range(1, len(frames) + 1)]
    index = FrameIndex(source)
    for frame, found in frames[-block:]:
        (again,) = index.segments([frame])
        assert bytes(again.buffer[again.start : again.end]) == found


def test_a_startup_frame_has_a_block_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of Full Operation lies before the Reply, however long Private Data are."""
    monkeypatch.setattr(streams, "STREAM_BLOCK", 100)
    octets = taken(CRC)
    (found,) = analyze(Streams(**opened(octets))).connections
    assert (found.request_frame, found.reply_frame) == (1, 2)
    assert fpdus(found) == fpdus(analyze(CRC).connections[0])
