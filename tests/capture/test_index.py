"""Frames of a capture read again by number."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import pytest

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.receive.segment import BUFFER, END, FRAME, START, Segment
from tests.conftest import captures


def value(seg: Segment) -> tuple[object, ...]:
    """What a segment says, wherever its octets lie."""
    return (*seg[:BUFFER], bytes(seg[BUFFER][seg[START] : seg[END]]), seg[-1])


def segments(*paths: Path) -> list[tuple[object, ...]]:
    with Captures(list(paths)) as opened:
        return [value(seg) for batch in opened.batches() for seg in batch]


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_frames_are_those_that_were_read(path: Path) -> None:
    wanted = segments(path)[:500]
    index = FrameIndex(path)
    assert [value(seg) for seg in index.segments(int(str(seg[FRAME])) for seg in wanted)] == wanted
    index.close()


def test_frames_of_merged_captures(tmp_path: Path) -> None:
    paths = [path for path in captures() if path.stat().st_size < 40_000]
    wanted = segments(*paths)
    index = FrameIndex(paths)
    found = [value(seg) for seg in index.segments(int(str(seg[FRAME])) for seg in reversed(wanted))]
    assert found[::-1] == wanted and len(paths) > 5
    index.close()
    assert [value(seg) for seg in index.segments([int(str(wanted[3][FRAME]))])] == [wanted[3]]
    index.close()


def test_octets_come_from_the_first_frame_that_brought_them() -> None:
    path = next(path for path in captures() if path.stem == "markers-reordered")
    wanted = [seg for seg in segments(path) if len(bytes(seg[BUFFER])) > 100]  # type: ignore[call-overload]
    index = FrameIndex(path)
    for seg in itertools.islice(wanted, 20):
        frame, seq, octets = seg[FRAME], seg[3], seg[BUFFER]
        assert isinstance(frame, int) and isinstance(seq, int) and isinstance(octets, bytes)
        assert index.octets([frame], seq, len(octets)) == octets
        assert index.octets([frame, frame], (seq + 7) % 2**32, 50) == octets[7:57]
        with pytest.raises(CaptureError, match=f"frames {frame} do not hold all octets from sequence {seq - 1}"):
            index.octets([frame], seq - 1, 50)
    index.close()


@pytest.mark.parametrize("frame", [0, -1, 10**6])
def test_a_frame_that_is_not_there(frame: int) -> None:
    index = FrameIndex(captures()[0])
    with pytest.raises(CaptureError, match=f"there is no frame {frame}: the capture has "):
        index.segments([frame])
    index.close()


def test_a_capture_that_is_not_there_any_more(tmp_path: Path) -> None:
    gone = tmp_path / "gone.pcap"
    gone.write_bytes(captures()[0].read_bytes())
    index = FrameIndex(gone)
    gone.unlink()
    with pytest.raises(CaptureError, match=r"gone\.pcap: No such file"):
        index.segments([1])


def test_a_capture_that_got_shorter(tmp_path: Path) -> None:
    short = tmp_path / "short.pcap"
    octets = captures()[0].read_bytes()
    short.write_bytes(octets)
    index = FrameIndex(short)
    assert index.segments([1])
    with short.open("r+b") as file:
        file.truncate(30)
    with pytest.raises(CaptureError, match=r"short\.pcap"):
        index.segments([1])
    index.close()


def test_an_open_file_and_one_that_cannot_be_read_again() -> None:
    octets = captures()[0].read_bytes()
    file = io.BytesIO(octets)
    index = FrameIndex(file)
    first = [value(seg) for seg in index.segments([1, 2, 3])]
    assert first == segments(captures()[0])[:3]

    class Pipe(io.BytesIO):
        def seekable(self) -> bool:
            return False

        def seek(self, *_: object) -> int:
            raise io.UnsupportedOperation("not seekable")

        def tell(self) -> int:
            raise io.UnsupportedOperation("not seekable")

    pipe = Pipe(octets)
    pipe.read()
    with pytest.raises(MPAError, match=r"<file>: cannot be read again: not seekable"):
        FrameIndex(pipe).segments([1])
    used = io.BytesIO(octets)
    used.read()
    assert [value(seg) for seg in FrameIndex(used).segments([1, 2, 3])] == first
