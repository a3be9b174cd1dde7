"""scapy-mpa annotate: the same packets, with comments that Wireshark finds."""

from __future__ import annotations

import re
import struct
import tracemalloc
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa import analyze
from scapy_mpa.capture.passthrough import blocks
from scapy_mpa.cli import cli
from scapy_mpa.framing.role import ROLES
from scapy_mpa.reading import spill
from scapy_mpa.wireshark.annotate import annotate
from scapy_mpa.wireshark.notes import CaptureNotes
from scripts.dev.benchmark import write_capture
from tests.capture.blocks import SIMPLE, capture_ng
from tests.capture.convert import COMPRESSED, FORMATS, LINKS, recorded
from tests.conftest import PCAPS, captures, named
from tests.hostile.files import LAYOUTS, Case
from tests.wireshark.tshark import fields, needs_tshark, tshark

REORDERED = PCAPS / "markers-reordered.pcap"
#: Said of a frame that more FPDUs have octets in than are told of.
MORE = re.compile(" FPDUs? more")


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["annotate", *map(str, arguments)], standalone_mode=False, catch_exceptions=False)


def annotated(capture: Path, folder: Path, *options: str) -> Path:
    out = folder / "annotated.pcapng"
    assert invoke(capture, out, *options).return_value == 0
    return out


def without_our_comments(path: Path) -> tuple[bytes, dict[int, str]]:
    """A pcapng file as it was before, and the comments by frame."""
    found, comments = [], {}
    frame = 0
    for octets, order, is_packet in blocks(path):
        frame += is_packet
        if is_packet and octets[:4] not in (struct.pack("<I", SIMPLE), struct.pack(">I", SIMPLE)):
            (captured,) = struct.unpack_from(order + "I", octets, 20)
            at = 28 + (captured + 3 & ~3)
            code, length = struct.unpack_from(order + "HH", octets, at) if at < len(octets) - 4 else (0, 0)
            text = octets[at + 4 : at + 4 + length]
            if code == 1 and text.startswith(b"mpa "):
                comments[frame] = text.decode()
                rest = octets[at + 4 + (length + 3 & ~3) : -4]
                rest = b"" if rest == bytes(4) else rest
                size = struct.pack(order + "I", at + len(rest) + 4)
                octets = octets[:4] + size + octets[8:at] + rest + size
        found.append(octets)
    return b"".join(found), comments


@pytest.mark.parametrize("capture", captures(), ids=lambda path: path.stem)
def test_every_fpdu_is_told_of_where_it_belongs(capture: Path, tmp_path: Path) -> None:
    _, comments = without_our_comments(annotated(capture, tmp_path))
    report = analyze(capture)
    for connection in report.connections:
        for direction in ROLES:
            who = f"#{connection.number} {direction}"
            half = connection.half(direction)
            for record in half.fpdus:
                label = (
                    f"mpa {who}: FPDU seq {record.seq} ({record.opcode or 'no message'}, ULPDU {record.ulpdu_length}"
                )
                for frame in record.frames:
                    assert label in comments[frame] or MORE.search(comments[frame])
                placed, delivered = record.placed_frame, record.delivered_frame
                if placed is None or MORE.search(comments[placed]):
                    continue
                line = next(line for line in comments[placed].splitlines() if line.startswith(label))
                assert f"; {'first FPDU, ' * (record.located_by == 'start')}located by " in line
                reset = connection.lifecycle.reset_frame
                if reset is not None and placed > reset:
                    assert line.endswith(f"CRC {record.crc}, after the RST of frame {reset}: nobody placed it")
                    continue
                assert f"CRC {record.crc}, placed " in line
                if delivered is None:
                    assert line.endswith("not delivered: octets before it are missing")
                elif delivered == placed:
                    assert line.endswith("placed and delivered here")
                else:
                    assert line.endswith(f"placed here, delivered at frame {delivered}")
                    assert (
                        f"seq {record.seq} (placed at frame {placed})" in comments[delivered]
                        or "more" in comments[delivered]
                    )
    deviates = any(half.deviation is not None for one in report.connections for half in (one.initiator, one.responder))
    for finding in report.all_findings():
        for frame in {finding.frame, finding.last_frame} if not deviates else ():
            assert f"mpa {finding.severity} {finding.rule.id}" in comments[frame]
    told = sum(text.count(": FPDU seq ") for text in comments.values())
    assert bool(told) == any(half.fpdus for one in report.connections for half in (one.initiator, one.responder))


def test_every_marker_is_told_of_and_where_it_points(tmp_path: Path) -> None:
    _, comments = without_our_comments(annotated(REORDERED, tmp_path))
    report = analyze(REORDERED)
    lines = [line for text in comments.values() for line in text.splitlines() if ": Marker seq " in line]
    assert len(lines) == sum(
        one.initiator.counts.marker_count + one.responder.counts.marker_count for one in report.connections
    )
    starts = {
        record.header_seq
        for half in (report.connections[0].initiator, report.connections[0].responder)
        for record in half.fpdus
    }
    backs = [line.rpartition("back to seq ")[2] for line in lines if "back to" in line]
    assert len(backs) > 1000 and all(int(back) in starts for back in backs)
    draft = tmp_path / "draft"
    draft.mkdir()
    _, comments = without_our_comments(annotated(PCAPS / "markers-draft-origin.pcap", draft))
    wrong = [line for line in "\n".join(comments.values()).splitlines() if ", expected " in line]
    assert sum("FPDUPTR 512" in line and "expected 508" in line for line in wrong) >= 3


def test_parts_of_an_fpdu(tmp_path: Path) -> None:
    """An FPDU of several segments: where it begins, goes on and ends."""
    capture = named("markers-lossy")
    _, comments = without_our_comments(annotated(capture, tmp_path))
    record = next(r for r in analyze(capture).connections[0].responder.fpdus if len(r.frames) > 2)
    told = [
        next(line for line in comments[frame].splitlines() if f"seq {record.seq} " in line) for frame in record.frames
    ]
    assert sum(") begins;" in line for line in told) == sum(") ends;" in line for line in told) == 1
    assert sum(") goes on;" in line for line in told) == len(told) - 2
    assert [f"placed at frame {record.placed_frame}" in line for line in told].count(False) == 1


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_all_but_the_comments_stays(form: str, compression: str | None, tmp_path: Path) -> None:
    octets = FORMATS[form](recorded(REORDERED))
    capture = tmp_path / "capture"
    capture.write_bytes(octets if compression is None else COMPRESSED[compression](octets))
    out = annotated(capture, tmp_path)
    before, comments = without_our_comments(out)
    # Two of them say where the connection begins and how it ended; the end is no frame of an FPDU.
    assert len(comments) == 476
    if "pcapng" in form:
        assert before == octets
    plain = tmp_path / "plain.pcapng"
    plain.write_bytes(before)
    want = analyze(REORDERED).as_dict()
    for path in (out, plain):
        assert analyze(path).as_dict() == want | {"captures": [str(path)]}


def test_annotating_again_changes_nothing(tmp_path: Path) -> None:
    out = annotated(REORDERED, tmp_path)
    again = tmp_path / "again.pcapng"
    assert invoke(out, again).return_value == 0
    assert again.read_bytes() == out.read_bytes()
    # Of fewer frames than before: those of ours that are left out go, too.
    fewer, direct = tmp_path / "fewer.pcapng", tmp_path / "direct.pcapng"
    assert invoke(out, fewer, "--frames", "1-10").return_value == 0
    assert invoke(REORDERED, direct, "--frames", "1-10").return_value == 0
    assert without_our_comments(fewer)[1] == without_our_comments(direct)[1]


def test_simple_packets_are_told_of(tmp_path: Path) -> None:
    capture = tmp_path / "capture.pcapng"
    records = recorded(PCAPS / "siw-rping.pcap")
    capture.write_bytes(capture_ng(records.records, records.link_type, kinds=(SIMPLE,)))
    result = invoke(capture, tmp_path / "out.pcapng")
    assert result.return_value == 0 and "simple packet blocks cannot hold a comment" in result.stderr
    assert (tmp_path / "out.pcapng").read_bytes() == capture.read_bytes()


@pytest.mark.parametrize("link", LINKS)
def test_tunnels_and_links(link: str, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.write_bytes(FORMATS["pcapng"](LINKS[link](PCAPS / "siw-rping.pcap")))
    before, comments = without_our_comments(annotated(capture, tmp_path))
    assert before == capture.read_bytes()
    assert comments == without_our_comments(annotated(PCAPS / "siw-rping.pcap", tmp_path))[1]


def test_only_what_is_asked_for(tmp_path: Path) -> None:
    three = PCAPS / "siw-three-in-a-row.pcap"
    _, comments = without_our_comments(annotated(three, tmp_path, "--connection", "1"))
    assert comments and all(
        "mpa #1" in text or "mpa note" in text or "mpa warning" in text for text in comments.values()
    )
    before, comments = without_our_comments(annotated(three, tmp_path, "--frames", "1-10"))
    assert comments and max(comments) <= 10
    assert before.count(b"MPA ID Req") == 3


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("{capture}", "{capture}"), "this file is being read"),
        (("{capture}", "{capture}", "{out}"), "one capture"),
        (("-", "{out}"), "name the file"),
        (("{capture}", "{out}", "--direction", "initiator"), "both directions"),
        (("{capture}", "{out}", "--connection", "7"), "no connection 7"),
        (("{capture}", "{folder}/none/out"), "No such file"),
    ],
)
def test_what_cannot_be(arguments: tuple[str, ...], why: str, tmp_path: Path) -> None:
    capture, out = tmp_path / "capture.pcap", tmp_path / "out"
    capture.write_bytes(REORDERED.read_bytes())
    with pytest.raises(UsageError, match=why):
        invoke(*(word.format(capture=capture, out=out, folder=tmp_path) for word in arguments))
    assert not out.exists() and capture.read_bytes() == REORDERED.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["capture.pcap"]


def test_what_is_damaged_is_passed_on_as_far_as_it_can_be_read(tmp_path: Path) -> None:
    octets = FORMATS["pcapng, sections"](recorded(REORDERED))
    capture = tmp_path / "capture.pcapng"
    for cut in range(len(octets) // 7, len(octets), len(octets) // 7):
        capture.write_bytes(octets[:cut])
        result = invoke(capture, tmp_path / "out.pcapng")
        assert result.return_value == 0
        before, _ = without_our_comments(tmp_path / "out.pcapng")
        assert octets.startswith(before) and cut - len(before) < 2000
        assert (cut != len(before)) == ("damaged after frame" in result.stderr)


def test_any_mutations(tmp_path: Path) -> None:
    capture, out = tmp_path / "capture", tmp_path / "out.pcapng"
    for number in range(120):
        name = ("markers-packed", "markers-before-crc", "siw-rping")[number % 3]
        mutations = (("flip", number), ("forge_ulpdu_length", number), ("forge_marker", number), ("shuffle", number))
        capture.write_bytes(Case(name, number, mutations, LAYOUTS[number % len(LAYOUTS)]).made().octets)
        with CaptureNotes(capture) as notes, out.open("wb") as file:
            found = annotate(capture, notes, file)
        assert found.packets == notes.report.packets
        assert analyze(out).packets == notes.report.packets


@needs_tshark
def test_tshark_reads_them(tmp_path: Path) -> None:
    """The same packets, addresses, times and comments of others; its filter finds ours."""
    capture = tmp_path / "capture.pcapng"
    capture.write_bytes(FORMATS["pcapng, nanoseconds, big-endian"](recorded(REORDERED)))
    out = annotated(capture, tmp_path)
    names = ("frame.number", "frame.time_epoch", "frame.len", "frame.interface_name", "tcp.seq_raw")
    assert fields(out, *names) == fields(capture, *names)
    # Custom blocks are frames to tshark, so it counts otherwise.
    ours = ("-Y", 'frame.comment contains "mpa"', "-E", "aggregator=;")
    found = [text for (text,) in fields(out, "frame.comment", arguments=ours)]
    _, comments = without_our_comments(out)
    assert found == [comments[frame].replace("\n", "\\n") + ";a comment" for frame in sorted(comments)]
    for link in ("sll2", "raw", "vlan"):
        capture.write_bytes(FORMATS["pcap, nanoseconds, big-endian"](LINKS[link](PCAPS / "siw-rping.pcap")))
        assert len(tshark(annotated(capture, tmp_path), "-Y", "frame.comment contains mpa")) == 39


def peak(capture: Path, out: Path) -> int:
    tracemalloc.start()
    with CaptureNotes(capture) as notes, out.open("wb") as file:
        annotate(capture, notes, file)
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


def test_memory_does_not_follow_the_capture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the size, beyond what is compared with late copies; docs/wireshark.md has the figure for 100 MB."""
    monkeypatch.setattr(spill, "_HELD", 200)
    monkeypatch.setattr(spill, "_MOST_RUNS", 3)
    monkeypatch.setattr(spill, "_CHUNK", 20)
    peaks = []
    for size in (7_200_000, 14_400_000):
        capture = tmp_path / f"{size}.pcap"
        assert write_capture("markers", capture, size, 1).fpdus > size // 2000
        peaks.append(peak(capture, tmp_path / "out.pcapng"))
    assert peaks[1] < peaks[0] * 1.2 + 100_000
