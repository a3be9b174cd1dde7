"""Frames of a capture read again by number."""

from __future__ import annotations

import io
import itertools
import os
from pathlib import Path

import pytest

from scapy_mpa.capture import index as index_module
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import FrameIndex, FramePiece, is_pipe
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.values.segment import Segment
from tests.capture.blocks import SIMPLE, capture_ng, packet
from tests.capture.frames import capture, ethernet, pcap_records
from tests.capture.tunnels import in_fragments, tunnelled
from tests.conftest import PCAPS, captures


def value(seg: Segment) -> Segment:
    """The segment over its payload alone, wherever its octets lie."""
    payload = memoryview(bytes(seg.buffer[seg.start : seg.end]))
    return seg.replace(buffer=payload, start=0, end=len(payload), tcp=-1)


def segments(*paths: Path) -> list[Segment]:
    with Captures(list(paths)) as opened:
        return [value(seg) for batch in opened.batches() for seg in batch]


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_frames_are_those_that_were_read(path: Path) -> None:
    wanted = segments(path)[:500]
    index = FrameIndex(path)
    assert [value(seg) for seg in index.segments(seg.frame for seg in wanted)] == wanted
    index.close()


def test_frames_of_merged_captures(tmp_path: Path) -> None:
    paths = [path for path in captures() if path.stat().st_size < 40_000]
    wanted = segments(*paths)
    index = FrameIndex(paths)
    found = [value(seg) for seg in index.segments(seg.frame for seg in reversed(wanted))]
    assert found[::-1] == wanted and len(paths) > 5
    index.close()
    assert [value(seg) for seg in index.segments([wanted[3].frame])] == [wanted[3]]
    index.close()


def test_octets_come_from_the_first_frame_that_brought_them() -> None:
    path = next(path for path in captures() if path.stem == "markers-reordered")
    wanted = [seg for seg in segments(path) if len(seg.buffer) > 100]
    index = FrameIndex(path)
    for seg in itertools.islice(wanted, 20):
        frame, seq, octets = seg.frame, seg.seq, bytes(seg.buffer)
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
        index.segments([2])
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


# --- segments that came in fragments ---


@pytest.mark.parametrize("how", ["in order", "reversed"])
@pytest.mark.parametrize("name", ["plain", "vxlan", "fragments in fragments"])
def test_a_segment_in_fragments_is_read_again_at_the_frame_that_completes_it(
    tmp_path: Path, name: str, how: str
) -> None:
    _, packets = pcap_records(PCAPS / "siw-rping-ipv6.pcap")
    made: list[tuple[int, bytes]] = []
    for ident, (when, frame, _) in enumerate(packets):
        pieces = in_fragments(frame if name == "plain" else tunnelled("vxlan", frame), 56, ident)
        if name == "fragments in fragments":
            pieces = [
                outer for piece in pieces for outer in in_fragments(tunnelled("ip in ipv4", piece), 40, ident + 99)
            ]
        made += [(when, piece) for piece in (pieces if how == "in order" else reversed(pieces))]
    path = tmp_path / "fragments.pcap"
    path.write_bytes(capture(made))
    wanted = segments(path)
    index = FrameIndex(path)
    assert [value(seg) for seg in index.segments(seg.frame for seg in wanted)] == wanted and wanted
    completing = {seg.frame for seg in wanted}
    others = [frame for frame in range(1, len(made) + 1) if frame not in completing]
    assert index.segments(others) == [] and len(index) == len(made)
    index.close()


def test_fragments_of_several_captures(tmp_path: Path) -> None:
    pieces = in_fragments(ethernet(bytes(range(200))), 40, 9)
    paths = [tmp_path / f"{hand}.pcap" for hand in range(3)]
    for hand, path in enumerate(paths):
        path.write_bytes(capture([(n, piece) for n, piece in enumerate(pieces) if n % 3 == hand], unit=1))
    index = FrameIndex(paths)
    (seg,) = index.segments([len(pieces)])
    assert bytes(seg.buffer[seg.start : seg.end]) == bytes(range(200))
    index.close()


def test_fragments_too_far_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, last = in_fragments(ethernet(bytes(60)), 40, 9)
    path = tmp_path / "far.pcap"
    path.write_bytes(capture(list(enumerate([first, *[ethernet()] * 700, last]))))
    index = FrameIndex(path)
    assert len(index.segments([702])) == 1
    index.close()
    monkeypatch.setattr(index_module, "_LOOK_BACK", (10, 100))
    with pytest.raises(CaptureError, match="may complete are not in the 100 frames before it"):
        index.segments([702])
    index.close()


def test_fragments_far_apart_are_read_once_for_frames_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [in_fragments(ethernet(bytes(60), seq=number), 40, number) for number in range(40)]
    path = tmp_path / "far.pcap"
    frames = [pair[0] for pair in pairs] + [ethernet()] * 700 + [pair[1] for pair in pairs]
    path.write_bytes(capture(list(enumerate(frames))))
    read: list[int] = []
    segment = FrameIndex._segment

    def count(self: FrameIndex, frame: int) -> Segment | None:
        read.append(frame)
        return segment(self, frame)

    monkeypatch.setattr(FrameIndex, "_segment", count)
    index = FrameIndex(path)
    assert [seg.seq for seg in index.segments(range(741, 781))] == list(range(40))
    assert len(read) < 3 * len(frames)
    index.close()


def test_octets_of_very_many_frames_in_any_order(tmp_path: Path) -> None:
    octets = bytes(number * 7 & 255 for number in range(4000))
    places = [*range(1, 4000, 2), *range(0, 4000, 2)]
    path = tmp_path / "short.pcap"
    path.write_bytes(capture([(n, ethernet(octets[at : at + 1], seq=at)) for n, at in enumerate(places)]))
    index = FrameIndex(path)
    found, pieces = index.pieces(range(1, 4001), 0, 4000)
    assert found == octets and [piece.first for piece in pieces] == list(range(4000))
    assert [piece.frame for piece in pieces[:4]] == [2001, 1, 2002, 2]
    index.close()


def test_what_one_frame_brought_is_not_looked_for_in_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments before it, of which others are too far away, do not matter."""
    path = tmp_path / "orphans.pcap"
    orphans = [in_fragments(ethernet(bytes(60)), 40, number)[0] for number in range(9)]
    path.write_bytes(capture(list(enumerate([*orphans, ethernet(b"twenty octets of data", seq=7)]))))
    index = FrameIndex(path)
    monkeypatch.setattr(index_module, "_LOOK_BACK", (4, 5))
    (seg,) = index.segments([10])
    assert index.latest_pieces(10, 100, seg.key, 7, 20) == [FramePiece(0, 20, 10)]
    index.close()


# --- what the readers keep for it ---


def test_a_simple_packet_has_its_time_again(tmp_path: Path) -> None:
    octets = capture_ng([(n * 1000, ethernet(seq=n), 61) for n in range(9)], kinds=(6, SIMPLE, SIMPLE))
    path = tmp_path / "simple.pcapng"
    path.write_bytes(octets + packet(ethernet(), 10**9))
    wanted = segments(path)
    index = FrameIndex(path)
    for seg in reversed(wanted):
        assert [value(found) for found in index.segments([seg.frame])] == [seg]
    index.close()


def test_a_record_cut_at_the_end_is_no_frame(tmp_path: Path) -> None:
    first, second = tmp_path / "first.pcap", tmp_path / "second.pcap"
    first.write_bytes(capture([(n * 2, ethernet(seq=n)) for n in range(1, 4)], unit=1)[:-5])
    second.write_bytes(capture([(n * 2 + 1, ethernet(seq=10 + n)) for n in range(1, 4)], unit=1))
    wanted = segments(first, second)
    index = FrameIndex([first, second])
    assert len(index) == len(wanted) == 5
    assert [value(seg) for seg in index.segments(range(1, 6))] == wanted
    index.close()


def test_pieces_say_which_frame_brought_which_octets(tmp_path: Path) -> None:
    path = tmp_path / "pieces.pcap"
    octets = bytes(range(100))
    parts = [(0, 30), (20, 60), (10, 25), (60, 100)]
    path.write_bytes(capture([ethernet(octets[first:last], seq=1000 + first) for first, last in parts]))
    index = FrameIndex(path)
    found = index.pieces([1, 2, 3, 4], 1005, 90)
    assert found == (octets[5:95], [FramePiece(0, 25, 1), FramePiece(25, 55, 2), FramePiece(55, 90, 4)])
    index.close()


def test_pipes_are_known_before_they_are_read(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert is_pipe(str(fifo)) and is_pipe(fifo)
    assert not is_pipe(str(tmp_path / "missing")) and not is_pipe(io.BytesIO())
    with pytest.raises(CaptureError, match="fifo: a pipe cannot be read again"):
        FrameIndex(fifo).segments([1])
