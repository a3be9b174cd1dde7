"""Folders, rotations and taps: which files are captures, and how they become one."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.capture.files import Captures, merged
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.capture.joining import Joining, _octets_at, sources_of
from scapy_mpa.capture.named import Sources
from scapy_mpa.capture.opened import MOST_OPEN, OpenFiles
from scapy_mpa.errors import CaptureError
from scapy_mpa.reading.analysis import PlacedFPDUs, analyze
from scapy_mpa.report.model import Report
from tests.capture.convert import FORMATS, Recorded, recorded
from tests.capture.frames import capture, ethernet
from tests.cli.test_command import invoke, run
from tests.conftest import PCAPS

SECOND = 1_000_000_000
PCAP = "pcap, nanoseconds, big-endian"
REORDERED, NETEM = PCAPS / "markers-reordered.pcap", PCAPS / "siw-netem-send.pcap.zst"


def timed(*times: float) -> bytes:
    return capture([(int(time * SECOND), ethernet(b"p", seq=n)) for n, time in enumerate(times)])


def rotation(folder: Path, source: Recorded, files: int, kind: str = PCAP) -> list[Path]:
    """A capture in so many files, none empty, named as tcpdump -C names them."""
    folder.mkdir(parents=True)
    per_file = max(1, len(source.records) // files)
    paths = []
    for number, first in enumerate(range(0, len(source.records), per_file)):
        path = folder / (f"cut.pcap{number}" if number else "cut.pcap")
        path.write_bytes(FORMATS[kind](Recorded(source.link_type, source.records[first : first + per_file])))
        paths.append(path)
    return paths


def said(report: Report) -> dict[str, Any]:
    """All that is said, but for names of files."""
    found = report.as_dict()
    for name in ("captures", "joined"):
        found.pop(name, None)
    for one in (*found["connections"], *found["findings"], *(f for c in found["connections"] for f in c["findings"])):
        for name in ("capture", "capture_frame"):
            one.pop(name, None)
    return found


# --- which files ---


def test_a_pattern_and_a_file_whose_name_is_one(tmp_path: Path) -> None:
    for name in ("x1.pcap", "x2.pcap", "y.pcap", "[z].pcap"):
        (tmp_path / name).write_bytes(timed(1))
    assert [os.path.basename(str(one)) for one in sources_of(str(tmp_path / "x*.pcap"))] == ["x1.pcap", "x2.pcap"]
    assert sources_of(str(tmp_path / "[z].pcap")) == [str(tmp_path / "[z].pcap")]


@pytest.mark.parametrize("name", ["", "*.pcap"])
def test_no_capture_there(tmp_path: Path, name: str) -> None:
    with pytest.raises(CaptureError, match=r"there is no capture in this folder$|no file matches"):
        sources_of(str(tmp_path / name))


def test_what_cannot_be_read_is_a_line_and_the_rest_is_read(tmp_path: Path) -> None:
    shutil.copy(REORDERED, tmp_path / "good.pcap")
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "text.pcap").write_text("not a capture")
    (tmp_path / "header.pcap").write_bytes(timed()[:30])
    (tmp_path / "damaged.pcap").write_bytes(timed(1)[:-3])
    (tmp_path / "gone.pcap").symlink_to(tmp_path / "nowhere")
    result = invoke("analyze", str(tmp_path))
    assert result.return_value == 0
    assert "3 files, " in result.stdout
    lines = result.stderr.splitlines()
    assert lines[0] == f"scapy-mpa: {tmp_path}: 3 files are not captures: empty.pcap, gone.pcap, text.pcap"
    assert len(lines) == 2 and "damaged.pcap: no packet can be read" in lines[1]
    alone = analyze(REORDERED)
    assert said(analyze(tmp_path))["connections"] == said(alone)["connections"]


def test_nothing_of_a_folder_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "text.pcap").write_text("not a capture")
    result = run("analyze", str(tmp_path))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


def test_a_file_that_was_named_and_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "text.pcap").write_text("not a capture")
    result = run("analyze", str(REORDERED), str(tmp_path / "text.pcap"))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1


# --- how they become one ---

TIMES: list[tuple[list[bytes], list[list[int]]]] = [
    ([timed(1, 2), timed(3, 4), timed(5, 6)], [[0], [1], [2]]),
    ([timed(5, 6), timed(1, 2), timed(3, 4)], [[1], [2], [0]]),
    ([timed(1, 4), timed(2, 6)], [[0, 1]]),
    ([timed(1, 9), timed(2, 3), timed(4, 5), timed(10, 11)], [[0, 1, 2], [3]]),
    ([timed(1, 2), timed(), timed(3)], [[1], [0], [2]]),
    ([timed(1, 2.05), timed(2, 3)], [[0], [1]]),
    ([timed(1, 2.5), timed(2, 3)], [[0, 1]]),
    ([timed(1, 2), timed(2, 3)], [[0], [1]]),
    ([timed(1), timed(1)], [[0], [1]]),
    # Short captures of two taps.
    ([timed(1, 1.02, 1.04), timed(1.01, 1.03, 1.05)], [[0, 1]]),
    ([timed(1, 1.02), timed(1.01)], [[0, 1]]),
    # Within a file what is late is no reason to merge.
    ([timed(1, 3, 2), timed(3, 4)], [[0], [1]]),
]


@pytest.mark.parametrize("how", [lambda octets: octets, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize(("files", "groups"), TIMES)
def test_times_say_how(
    tmp_path: Path, files: list[bytes], groups: list[list[int]], how: Callable[[bytes], bytes]
) -> None:
    paths = []
    for number, octets in enumerate(files):
        paths.append(tmp_path / f"{number}.pcap")
        paths[-1].write_bytes(how(octets))
    found = sources_of(paths)
    assert found.groups == groups
    assert sources_of(paths, "merge").groups == [[*range(len(files))]]
    assert sources_of(paths, "follow").groups == [[number] for number in range(len(files))]


@pytest.mark.parametrize(
    ("groups", "joined"), [([[0, 1, 2]], "merge"), ([[0], [1], [2]], "follow"), ([[0, 1], [2]], "both")]
)
def test_it_is_said_how(groups: list[list[int]], joined: str) -> None:
    assert Sources(["a", "b", "c"], groups).joined == joined
    assert Sources(["a"]).joined is None


def test_open_files_and_pipes_are_merged(tmp_path: Path) -> None:
    assert sources_of([io.BytesIO(timed(1)), io.BytesIO(timed(2))]).joined == "merge"
    os.mkfifo(tmp_path / "pipe")
    assert sources_of([REORDERED, tmp_path / "pipe"]).joined == "merge"


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["siw-terminate", "markers-packed", "siw-rping-ipv6"])
def test_both_ends_are_found_in_every_format(tmp_path: Path, name: str, kind: str) -> None:
    source = recorded(PCAPS / f"{name}.pcap")
    path = tmp_path / "one.pcap"
    path.write_bytes(FORMATS[kind](source))
    times = [time for time, _, _ in source.records]
    other = tmp_path / "other.pcap"
    shutil.copy(path, other)
    begins = sources_of([path, other]).begins
    assert begins == [times[0], times[0]]
    # One that begins where this ends follows it; one that begins a second before does not.
    for earlier, groups in ((0, [[0], [1]]), (SECOND, [[0, 1]])):
        other.write_bytes(capture([(times[-1] - earlier, ethernet()), (times[-1] + SECOND, ethernet())], unit=1))
        assert sources_of([path, other]).groups == groups


def test_the_end_of_a_long_file_is_found_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And if octets there look like no records, by reading it."""
    rng = random.Random(3)
    packets = [(n * SECOND // 100 + 5, ethernet(rng.randbytes(1000), seq=n)) for n in range(1000)]
    for kind in FORMATS:
        if "sections" in kind:
            continue
        path = tmp_path / "long.pcap"
        source = Recorded(1, [(time // 1000 * 1000, frame, len(frame)) for time, frame in packets])
        path.write_bytes(FORMATS[kind](source))
        read = 0

        def counted(file: FileIO, at: int, count: int) -> bytes:
            nonlocal read
            read += 1
            return _octets_at(file, at, count)

        monkeypatch.setattr("scapy_mpa.capture.joining._octets_at", counted)
        found = sources_of([path, REORDERED], "auto")
        monkeypatch.undo()
        assert found.begins[0] == source.records[0][0]
        assert read >= 2
    short = path.read_bytes()[:-5]
    path.write_bytes(short)
    later = tmp_path / "later.pcap"
    later.write_bytes(timed(9.0, 12.0))
    assert sources_of([path, later]).joined == "merge"


# --- what they say as one ---


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["markers-reordered", "siw-three-in-a-row", "siw-terminate"])
@pytest.mark.parametrize("files", [2, 7, 40])
def test_a_rotation_says_what_the_whole_says(tmp_path: Path, name: str, files: int, kind: str) -> None:
    whole = PCAPS / f"{name}.pcap"
    rotation(tmp_path / "day", recorded(whole), files, kind)
    found, alone = analyze(tmp_path / "day"), analyze(whole)
    assert found.joined == "follow"
    assert said(found) == said(alone)
    halves = [(one.initiator, one.responder) for one in (*found.connections, *alone.connections)]
    rows = [[record.as_dict() for half in both for record in half.fpdus] for both in halves]
    assert rows[: len(rows) // 2] == rows[len(rows) // 2 :]
    placed, placed_alone = ([one.as_dict() for one in PlacedFPDUs(path)] for path in (tmp_path / "day", whole))
    for one, other in zip(placed, placed_alone, strict=True):
        # Where it is delivered is known only to a record that is yielded later: at the end of a file some are yielded.
        if None in (one["delivered_frame"], other["delivered_frame"]):
            one["delivered_frame"] = other["delivered_frame"] = None
    assert placed == placed_alone


def test_each_frame_is_of_its_file(tmp_path: Path) -> None:
    source = recorded(REORDERED)
    paths = rotation(tmp_path / "day", source, 9)
    report = analyze(tmp_path / "day")
    index = FrameIndex(sources_of(tmp_path / "day"))
    frame = 0
    for number, path in enumerate(paths):
        for at in range(1, len(recorded(path).records) + 1):
            frame += 1
            assert report.file_of(frame) == (str(path), at)
            assert index.origin_of(frame) == (number, at)
    whole = FrameIndex(REORDERED)
    for frame in range(1, len(source.records) + 1):
        found, alone = index.segments([frame]), whole.segments([frame])
        assert [seg.frame for seg in found] == [seg.frame for seg in alone]
        assert [bytes(seg.buffer[seg.start : seg.end]) for seg in found] == [
            bytes(seg.buffer[seg.start : seg.end]) for seg in alone
        ]


def test_a_thousand_files_by_editcap(tmp_path: Path) -> None:
    """The same JSON as the whole, with a handful of files open."""
    pytest.importorskip("zstandard")
    whole = tmp_path / "whole.pcap"
    subprocess.run(["editcap", "-F", "pcap", NETEM, whole], check=True)
    packets = len(recorded(whole).records)
    (tmp_path / "day").mkdir()
    subprocess.run(
        ["editcap", "-F", "pcap", "-c", str(max(1, packets // 1000)), whole, tmp_path / "day" / "cut.pcap"], check=True
    )
    assert len([*(tmp_path / "day").iterdir()]) >= 1000
    most = 0

    def look() -> None:
        nonlocal most
        links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
        most = max(most, sum(str(tmp_path) in os.readlink(link) for link in links if link.is_symlink()))

    at = OpenFiles.at

    def watched(self: OpenFiles, *arguments: Any) -> Any:
        found = at(self, *arguments)
        look()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenFiles, "at", watched)
        report = analyze(tmp_path / "day", fpdus=False)
        octets = said(report)
    assert 1 <= most <= MOST_OPEN
    assert octets == said(analyze(whole, fpdus=False))


def test_two_taps_that_rotate_are_merged_where_they_overlap(tmp_path: Path) -> None:
    source = recorded(REORDERED)
    hands: list[Recorded] = [Recorded(source.link_type, []), Recorded(source.link_type, [])]
    records = [(n * SECOND, frame, wire) for n, (_, frame, wire) in enumerate(source.records)]
    for n, record in enumerate(records):
        hands[n % 2].records.append(record)
    for name, hand in zip("ab", hands, strict=True):
        rotation(tmp_path / "taps" / name, hand, 5)
    whole = tmp_path / "whole.pcap"
    whole.write_bytes(FORMATS[PCAP](Recorded(source.link_type, records)))
    found = analyze(tmp_path / "taps")
    assert found.joined in ("merge", "both")
    assert said(found) == said(analyze(whole))


def test_it_can_be_told(tmp_path: Path) -> None:
    """Two files at the same time, though told to follow: the octets of the second come behind."""
    rotation(tmp_path / "day", recorded(REORDERED), 3)
    told: list[tuple[Joining, str]] = [("follow", "one after the other"), ("merge", "merged by time")]
    for joining, words in told:
        result = invoke("analyze", str(tmp_path / "day"), "--join", joining)
        assert f"3 files, {words}" in result.stdout or f"4 files, {words}" in result.stdout
    assert "files" not in invoke("analyze", str(REORDERED)).stdout


def test_a_file_that_vanishes_is_damage(tmp_path: Path) -> None:
    paths = rotation(tmp_path / "day", recorded(REORDERED), 30)
    found = sources_of(tmp_path / "day")
    with Captures(found) as opened:
        paths[-1].unlink()
        frames = [seg.frame for batch in opened.batches() for seg in batch]
        assert len(opened.damage) in (0, 1)
        assert frames == sorted(frames)
    shown = FrameIndex(found)
    with pytest.raises(CaptureError):
        shown.segments([1])


# --- merging ---


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=6), st.randoms())
def test_beginning_late_changes_nothing(files: list[list[int]], rng: random.Random) -> None:
    """Streams are begun when they are due: what comes is what came if all had been begun at once."""

    def streams() -> list[Iterator[tuple[int, str]]]:
        return [iter([(time, f"{n} {at}") for at, time in enumerate(times)]) for n, times in enumerate(files)]

    begins = [times[0] if times and rng.random() < 0.8 else None for times in files]
    assert [*merged(streams(), begins)] == [*merged(streams())]
    heads = [list(times) for times in files]
    expected = []
    while any(heads):
        which = min((times[0], n) for n, times in enumerate(heads) if times)[1]
        expected.append((which, heads[which].pop(0)))
    assert [(which, record[0]) for which, record in merged(streams(), begins)] == expected


def test_a_stream_is_not_begun_before_it_is_due() -> None:
    begun = []

    def stream(name: str, *times: int) -> Iterator[tuple[int, str]]:
        begun.append(name)
        yield from ((time, name) for time in times)

    found = merged([stream("a", 1, 2), stream("b", 5, 6), stream("c", 3)], [1, 5, 3])
    assert next(found) == (0, (1, "a")) and begun == ["a"]
    assert next(found) == (0, (2, "a")) and begun == ["a"]
    assert next(found) == (2, (3, "c")) and begun == ["a", "c"]


# --- what comes through a pipe ---


@pytest.mark.parametrize("name", ["siw-crc-rping", "siw-terminate", "markers-packed"])
@pytest.mark.parametrize("by", ["-", "fifo"])
def test_an_fpdu_is_listed_before_the_next_packet_comes(tmp_path: Path, name: str, by: str) -> None:
    path = PCAPS / f"{name}.pcap"
    octets = path.read_bytes()
    placed: dict[int, int] = {}
    for record in PlacedFPDUs(path):
        assert record.placed_frame is not None
        placed[record.placed_frame] = placed.get(record.placed_frame, 0) + 1
    pipe = "-"
    if by == "fifo":
        pipe = str(tmp_path / "fifo")
        os.mkfifo(pipe)
    command = [sys.executable, "-m", "scapy_mpa", "fpdus", "--order", "placed", "--format", "jsonl", pipe]
    reading, writing = os.pipe()
    # Without buffers, so that what select() sees is all that there is.
    process = subprocess.Popen(command, stdin=reading, stdout=subprocess.PIPE, bufsize=0)
    os.close(reading)
    assert process.stdout is not None
    if by == "fifo":
        os.close(writing)
        writing = os.open(pipe, os.O_WRONLY)
    with open(writing, "wb", buffering=0) as into, process.stdout:
        into.write(octets[:24])
        at, frame = 24, 0
        while at < len(octets):
            end = at + 16 + int.from_bytes(octets[at + 8 : at + 12], "little")
            into.write(octets[at:end])
            at, frame = end, frame + 1
            for _ in range(placed.pop(frame, 0)):
                assert select.select([process.stdout], [], [], 30)[0], f"nothing is listed after frame {frame}"
                assert json.loads(process.stdout.readline())["placed_frame"] == frame
        into.close()
        assert process.stdout.read() == b""
    assert process.wait(30) in (0, 1)
    assert not placed
