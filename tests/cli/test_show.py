"""scapy-mpa show: the octets are those of the capture, the labels fit, and the reasons are the real ones."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click import UsageError
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.startup import EnhancedData, startup_frame
from scapy_mpa.report.frame import show_frame
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.report.hexdump import shown_lines
from scapy_mpa.report.items import Item, Shown
from scapy_mpa.report.model import Report
from scapy_mpa.report.show import places, show_fpdu, show_seq
from scapy_mpa.values.records import FPDURecord
from scripts.dev.schemas import show_schema
from tests.capture.frames import capture, changed, changes, pcap_records
from tests.capture.tunnels import in_fragments
from tests.conftest import PCAPS, REPO, captures, named
from tests.receive.cases import Talk, started
from tests.sampling import examples

REORDERED = str(PCAPS / "markers-reordered.pcap")
RPING = str(PCAPS / "siw-rping.pcap")
SCHEMAS = REPO / "scapy_mpa" / "report"


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["show", *arguments], standalone_mode=False, catch_exceptions=False)


def text(*arguments: str) -> str:
    return invoke(*arguments).stdout


def talked(talk: Talk, path: Path, *, wire: bool = False) -> str:
    """The capture of a talk."""
    packets = [(seg[1], bytes(seg[6])) for seg in talk.segments]
    lengths = [len(seg[6]) + seg[10] - (seg[8] - seg[7]) for seg in talk.segments] if wire else None
    path.write_bytes(capture(packets, wire_lengths=lengths))
    return str(path)


def dumped(lines: list[str]) -> bytes:
    """The octets of a hexdump, which must follow one another."""
    octets = bytearray()
    for line in lines:
        row = re.match(r" *(\d+) +\d+  ((?:[0-9a-f]{2} ?)+)  ", line.ljust(80))
        if row is not None:
            assert int(row[1]) == len(octets)
            octets += bytes.fromhex(row[2])
    return bytes(octets)


# --- every capture ---


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_an_fpdu_is_shown_as_it_is_recorded(path: Path) -> None:
    report = analyze(path)
    for connection in report.connections[:3]:
        for direction in ROLES:
            for number, record in enumerate(islice(connection.half(direction).fpdus, 25)):
                (item,) = show_fpdu(report, connection.number, direction, number).items
                assert (item.record, item.number) == (record, number)
                assert {piece.frame for piece in item.pieces} <= set(record.frames)
                captured = sum(piece.end - piece.first for piece in item.pieces)
                assert captured == record.wire_length - sum(end - first for first, end in item.cut)
                by_name = {field.name: field for field in item.fields if not field.continued}
                assert by_name["ULPDU_Length"].value == record.ulpdu_length
                if record.crc == "cut":
                    _check_cut(item, record, captured)
                    continue
                assert item.octets == record.octets() == _of_fields(item)
                assert not item.cut
                assert sum(field.name == "Marker" for field in item.fields) == record.markers
                crc = {"good": "good", "bad": "BAD", "unchecked": "not in use"}[record.crc]
                if record.deviation != "no-crc-field":
                    assert by_name["CRC"].note.startswith(crc)
                lines = list(shown_lines(Shown([item]), full=True))
                assert dumped(lines) == item.octets
                assert len(list(shown_lines(Shown([item]), full=False))) <= len(lines)
                _check_why(item, record)


def _check_cut(item: Item, record: FPDURecord, captured: int) -> None:
    """Captured octets are shown at their places, and what the capture cut is said."""
    there = record.octets()
    assert 0 < len(there) <= captured < len(item.octets) == record.wire_length
    assert item.octets.startswith(there)
    assert sum(field.length for field in item.fields) == captured
    lines = list(shown_lines(Shown([item]), full=True))
    assert f"({record.wire_length - captured} octets that the capture cut)" in "\n".join(lines)
    assert " The capture cut it" in item.why.placed


def _of_fields(item: Item) -> bytes:
    octets = b""
    for field in item.fields:
        assert field.offset == len(octets)
        octets += item.octets[field.offset : field.offset + field.length]
    return octets


def _check_why(item: Item, record: FPDURecord) -> None:
    why = item.why
    begins = {"start": "By the start:", "length": "By length:"}.get(record.located_by)
    if begins is not None:
        assert why.sentences[0].startswith(begins)
    if record.located_by == "length":
        assert why.previous is not None
        before = why.previous.record
        assert (before.seq + before.wire_length - record.seq) % 2**32 == 0
        assert before.placed_frame is not None
        assert before.placed_frame <= (record.placed_frame or record.frames[-1])
    if record.located_by == "marker":
        assert why.marker is not None
        assert why.sentences[1].startswith("By Marker:")
        assert why.marker.points_to in (record.seq, record.header_seq)
        assert why.marker.frame <= (record.placed_frame or 0)
    if record.located_by == "scan":
        assert why.clause is None


@pytest.mark.parametrize("path", [path for path in captures() if path.stat().st_size < 500_000], ids=lambda p: p.stem)
def test_a_frame_is_shown_octet_for_octet(path: Path) -> None:
    """Each octet of the payload belongs to one thing shown, and is what the thing shown has there."""
    report = analyze(path)
    schema = json.loads((SCHEMAS / "show.schema.json").read_text().replace('"additionalProperties": true', '"x": 1'))
    validator = Draft202012Validator(schema)
    brought: dict[tuple[int, str, int], int] = {}
    for frame in range(1, min(report.packets, 120) + 1):
        try:
            shown = show_frame(report, frame)
        except MPAError:
            continue
        assert shown.frame is not None
        seg = shown.frame.segment
        payload = bytes(seg[6][seg[7] : seg[8]])
        at = 0
        for item in shown.items:
            part = item.part
            assert part is not None and part.at == at
            if not part.differs:
                assert item.octets[part.first : part.end] == payload[at : at + part.end - part.first]
            if item.cut:
                assert part.at + part.end - part.first == len(payload)
            else:
                assert _of_fields(item) == item.octets
            at += part.end - part.first
            if item.record is not None:
                key = item.record.connection, item.record.direction, item.number
                brought[key] = brought.get(key, 0) + sum(end - first for first, end in part.new)
                assert brought[key] <= item.record.wire_length
        assert at == len(payload)
        validator.validate(json.loads(json.dumps(shown.as_dict(report))))
        assert list(shown_lines(shown, full=False))


def test_the_schema_is_kept_with_those_of_the_other_commands() -> None:
    schema = json.loads((SCHEMAS / "show.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    # `python -m scripts.dev.schemas` writes it.
    assert (SCHEMAS / "show.schema.json").read_text() == show_schema()


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")
def test_ddp_values_are_those_of_tshark() -> None:
    names = (
        "frame.number",
        "iwarp_ddp.qn",
        "iwarp_ddp.msn",
        "iwarp_ddp.mo",
        "iwarp_ddp.stag",
        "iwarp_ddp.tagged_offset",
    )
    path = PCAPS / "siw-crc-rping.pcap"
    command = ["tshark", "-r", str(path), "-Y", "iwarp_ddp", "-T", "fields", "-E", "separator=;"]
    command += [argument for name in names for argument in ("-e", name)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    report = analyze(path)
    found = []
    for line in lines:
        frame, *expected = line.split(";")
        items = [item for item in show_frame(report, int(frame)).items if item.kind == "fpdu"]
        if any("," in value for value in expected) or len(items) != 1:
            continue
        ddp = items[0].layer("DDP") or {}
        shown = [ddp.get(name) for name in ("QN", "MSN", "MO", "STag", "TO")]
        found.append((frame, shown, [int(value, 0) if value else None for value in expected]))
    assert len(found) > 25
    assert all(shown == expected for _, shown, expected in found), found


# --- why ---


def test_why_an_fpdu_was_located_and_placed() -> None:
    shown = " ".join(text(REORDERED, "--fpdu", "0/i/5").split())
    assert "The FPDU before it, 0/initiator/4, was placed only at frame 19: its length came too late." in shown
    assert (
        "By Marker: the Marker at sequence 1371810098 (frame 12) has FPDUPTR 500: that many octets earlier, at "
        "sequence 1371809598, is its ULPDU_Length. (RFC 5044 §4.3)"
    ) in shown
    assert (
        "It was complete and placed at frame 12, delivered at frame 19 (2.161 ms later), "
        "when the octets before it had arrived."
    ) in shown
    first = text(REORDERED, "--fpdu", "0/initiator/0")
    assert "By the start: Full Operation of this direction begins here, right after the MPA Request" in first
    draft = " ".join(text(str(PCAPS / "markers-draft-origin.pcap"), "--fpdu", "0/i/0").split())
    assert "counted from its first octet, as in the drafts, expected 508" in draft
    assert "warning fpduptr-origin" in draft


def test_located_by_a_marker_that_it_begins_with(tmp_path: Path) -> None:
    talk = started(m=(1, 1))
    octets = talk.lay("a", 502, 300)
    second = talk.at("a", 512, octets[512:])
    first = talk.at("a", 0, octets[:512])
    shown = " ".join(text(talked(talk, tmp_path / "leading.pcap"), "--fpdu", "0/i/1").split())
    seq = talk.origin["a"] + 512
    assert f"0/initiator/0, was placed only at frame {first}: its length came too late." in shown
    assert f"By Marker: the Marker at sequence {seq} (frame {second}) has FPDUPTR 0: an FPDU begins with it." in shown
    assert f"complete and placed at frame {second}, delivered at frame {first} (1000.000 ms later)" in shown


def test_a_capture_that_begins_in_the_middle_says_what_was_inferred(tmp_path: Path) -> None:
    talk = started(c=(1, 1))
    talk.at("a", 0, talk.lay("a", *[200] * 20))
    path = tmp_path / "assumed.pcap"
    path.write_bytes(capture([(seg[1], bytes(seg[6])) for seg in talk.segments[5:]]))
    shown = text(str(path), "--assume", f"crc=yes,markers=no,start={talk.origin['a']}", "--frame", "1")
    assert "rfc5044, no Markers, CRC (inferred)" in shown


def test_a_frame_with_parts_of_fpdus(tmp_path: Path) -> None:
    talk = started(m=(1, 1))
    octets = talk.lay("a", 300, 900, 50)
    first = talk.at("a", 0, octets[:700])
    second = talk.at("a", 700, octets[700:])
    again = talk.at("a", 600, octets[600:800])
    other = talk.at("a", 100, bytes(100))
    path = talked(talk, tmp_path / "parts.pcap")
    report = analyze(path)
    begins = [place.record.seq - talk.origin["a"] for place in places(report.connections[0].initiator)]
    size = begins[2] - begins[1]
    part = 700 - begins[1]
    lines = text(path, "--frame", str(first)).splitlines()
    assert (
        f"  octets {begins[1]}-699: octets 0-{part - 1} of {size} of 0/initiator/1 (Send), the rest in frame {second}"
        in lines
    )
    lines = text(path, "--frame", str(second)).splitlines()
    rest = f"octets {part}-{size - 1} of {size} of 0/initiator/1 (Send), the rest in frame {first}"
    assert f"  octets 0-{size - part - 1}: {rest}" in lines
    lines = text(path, "--frame", str(again)).splitlines()
    assert lines[2].endswith(f"; all repeated, frames {first}, {second} carried them first")
    lines = text(path, "--frame", str(other)).splitlines()
    assert lines[2].endswith("; THEY DIFFER from those kept")


def test_a_gap_a_cut_frame_and_an_fpdu_found_by_its_crc(tmp_path: Path) -> None:
    talk = started()
    octets = talk.lay("a", 100, 200, 300, 60)
    first = talk.at("a", 0, octets[:108])
    cut = talk.at("a", 108, octets[108:316], captured=50)
    inside = talk.at("a", 400, octets[400:624])
    last = talk.at("a", 624, octets[624:])
    path = talked(talk, tmp_path / "gap.pcap", wire=True)
    shown = text(path, "--frame", str(cut))
    assert "octets 0-49: octets 0-49 of 208 of 0/initiator/1 (Send); the capture cut 158 octets" in shown
    assert "208 octets of TCP payload (50 captured)" in shown and "ULPDU_Length 200" in shown
    assert "FPDU 0/initiator/1: Send, ULPDU of 200 octets, 208 octets in all, CRC cut" in shown
    assert "(158 octets that the capture cut)" in shown and "in other frames" not in shown
    assert "(158 octets that the capture cut)" in text(path, "--fpdu", "0/i/1")
    assert "No FPDU was located here, 84 octets behind the end of 0/initiator/1" in text(path, "--frame", str(inside))
    shown = text(path, "--frame", str(last))
    assert "It holds no Marker" not in shown
    assert "hold no located FPDU: no length leads to it." in shown and "its CRC confirms it" in shown
    assert f"carried by frame {first}" in text(path, "--fpdu", "0/i/0")


def test_a_bad_crc_is_an_error_of_what_is_shown(tmp_path: Path) -> None:
    talk = started()
    octets = bytearray(talk.lay("a", 100, 100, 100))
    octets[108 + 50] ^= 1
    frames = [talk.at("a", at, bytes(octets[at : at + 108])) for at in (0, 108, 216)]
    path = talked(talk, tmp_path / "bad.pcap")
    good, bad, after = (invoke(path, "--frame", str(frame)) for frame in frames)
    assert (good.return_value, bad.return_value, after.return_value) == (0, 1, 0)
    assert "CRC bad" in bad.stdout and "BAD, the CRC of these octets is 0x" in bad.stdout
    assert f"error crc: frame {frames[1]}, initiator," in bad.stdout
    assert "neither placed nor delivered, because its CRC is bad" in " ".join(bad.stdout.split())
    assert "error" not in good.stdout
    assert "The FPDU before it, 0/initiator/1, has a bad CRC: its length proves nothing." in after.stdout
    assert "after the first error of this direction" in after.stdout


def test_a_frame_that_the_receiver_dropped(tmp_path: Path) -> None:
    talk = started()
    octets = talk.lay("a", 100, 100)
    wrong = talk.at("a", 0, octets[:50] + b"\xff" + octets[51:108], checksum="wrong")
    right = talk.at("a", 0, octets)
    path = talked(talk, tmp_path / "dropped.pcap")
    shown = text(path, "--frame", str(wrong))
    assert "its TCP checksum is wrong: a receiver dropped it" in shown and "THEY DIFFER" in shown
    assert f"carried by frame {right}" in text(path, "--fpdu", "0/i/0")


# --- startup frames ---


def test_a_startup_frame_in_pieces(tmp_path: Path) -> None:
    talk = Talk().open()
    enhanced = EnhancedData(1, 1, 0, 0, 8, 9)
    talk.greet("a", startup_frame("request", c=1, enhanced=enhanced, private_data=b"hello").encode(), (1, 10, 22))
    talk.greet("b", startup_frame("reply", c=1, enhanced=enhanced).encode())
    path = talked(talk.operate(), tmp_path / "pieces.pcap")
    shown = text(path, "--frame", "6")
    assert "octets 0-11: octets 10-21 of 29 of MPA Request, the rest in frames 4, 5, 7" in shown
    shown = text(path, "--seq", str(talk.startup["a"][0] + 20))
    assert "MPA Request: 29 octets" in shown and "- frame 7 -" in shown
    assert "enhanced data: A 1 (peer-to-peer), B 1 (RTR by zero-length Send), IRD 8" in shown
    assert "Private Data: 5 octets of the ULP" in shown


def test_streaming_data_before_the_request(tmp_path: Path) -> None:
    talk = Talk().open()
    frame = talk.say("a", b"good morning")
    talk.startup_phase()
    path = talked(talk, tmp_path / "streaming.pcap")
    assert "They come before the MPA Request: streaming data." in text(path, "--frame", str(frame))


def test_rejected(tmp_path: Path) -> None:
    talk = Talk().open()
    talk.greet("a", startup_frame("request").encode())
    talk.greet("b", startup_frame("reply", r=1).encode())
    frame = talk.say("a", b"never mind")
    shown = text(talked(talk, tmp_path / "rejected.pcap"), "--frame", str(frame))
    assert "Full Operation was not entered, so there are no FPDUs." in shown
    assert "0 octets of TCP payload" in text(str(PCAPS / "siw-rejected.pcap"), "--frame", "21")
    report = analyze(PCAPS / "siw-rejected.pcap")
    reply = report.connections[1].reply_frame
    assert "R 1 (rejected)" in text(str(PCAPS / "siw-rejected.pcap"), "--frame", str(reply))


# --- how captures come ---


def test_fragments_gzip_merge_and_selection(tmp_path: Path) -> None:
    _, packets = pcap_records(PCAPS / "siw-rping.pcap")
    broken = [(when, piece) for n, (when, frame, _) in enumerate(packets) for piece in in_fragments(frame, 64, n)]
    fragments = tmp_path / "fragments.pcap"
    fragments.write_bytes(capture(broken))
    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(Path(RPING).read_bytes()))
    (plain,) = show_fpdu(analyze(RPING), 0, "initiator", 7).items
    for path in (fragments, packed):
        (item,) = show_fpdu(analyze(path), 0, "initiator", 7).items
        assert (item.octets, item.fields, item.seq) == (plain.octets, plain.fields, plain.seq)
    merged = json.loads(text(RPING, REORDERED, "--fpdu", "0/i/7", "--format", "json", "--port", "7174"))
    assert merged["items"][0]["fields"] == [plain._field_as_dict(field) for field in plain.fields]
    later = analyze([RPING, REORDERED]).connections[1].initiator.fpdus[3]
    both = json.loads(text(RPING, REORDERED, "--frame", str(later.frames[0]), "--format", "json"))
    assert [item["connection"] for item in both["items"]] == [1]
    assert both["captures"] == [RPING, REORDERED]
    assert invoke(REORDERED, "--fpdu", "0/i/3", "--frames", "1-30").return_value == 0


def test_standard_input_can_be_a_file_but_not_a_pipe() -> None:
    command = [sys.executable, "-m", "scapy_mpa", "show", "-", "--frame", "8"]
    with open(RPING, "rb") as file:
        result = subprocess.run(command, stdin=file, capture_output=True, text=True, cwd=REPO, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "") and "MPA Request" in result.stdout
    octets = Path(RPING).read_bytes()
    piped = subprocess.run(command, input=octets, capture_output=True, cwd=REPO, timeout=60, check=False)
    assert (piped.returncode, piped.stdout) == (2, b"")
    assert piped.stderr == b"scapy-mpa: -: a pipe cannot be read again; show needs a file\n"


# --- what is asked for ---


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give exactly one of --frame, --seq and --fpdu"),
        (("--frame", "8", "--seq", "1"), "give exactly one of --frame, --seq and --fpdu"),
        (("--fpdu", "1/i/0"), "there is no MPA connection 1"),
        (("--fpdu", "0/i/15"), "there is no FPDU 0/initiator/15: its FPDUs are 0 to 14"),
        (("--fpdu", "0/x/1"), "is not CONNECTION/DIRECTION/NUMBER such as 0/initiator/12 or 0/i/12"),
        (("--frame", "55"), "there is no frame 55: the capture has 54"),
        (("--frame", "1"), "frame 1 holds no TCP segment, or a fragment of one that another frame completes"),
        (("--frame", "8", "--port", "1"), "there is no MPA connection"),
        (("--seq", "1"), "no FPDU or startup frame that was located holds the sequence number 1"),
        (("--seq", "5000000000"), "5000000000 is not in the range"),
    ],
)
def test_what_is_not_there(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises((MPAError, UsageError, Exception), match=re.escape(message)) as raised:
        invoke(RPING, *arguments)
    assert isinstance(raised.value, MPAError) or hasattr(raised.value, "exit_code")


def test_frames_without_octets_say_what_they_are() -> None:
    """SYN, FIN, RST and acknowledgements, whose they are, and how the connection ended at those that ended it."""
    path = str(named("siw-client-killed"))
    opened, accepted = (text(path, "--frame", frame).splitlines()[2:] for frame in ("23", "24"))
    assert opened == ["  SYN: the Initiator opens the TCP connection"]
    assert accepted == ["  SYN: the Responder accepts the TCP connection"]
    assert text(path, "--frame", "25").splitlines()[2:] == ["  it only acknowledges"]
    first, second = (text(path, "--frame", frame).splitlines()[2:] for frame in ("1400", "1414"))
    assert first[0] == "  FIN: the Initiator closes its side, as the first of both"
    assert second == ["  FIN: the Responder closes its side"]
    reset, again = (text(path, "--frame", frame).splitlines()[2:] for frame in ("1433", "1435"))
    verdict = analyze(path, fpdus=False).connections[1].verdict
    assert reset == ["  RST: the Responder aborts the connection", f"  how the connection ended: {verdict}"]
    assert again == ["  RST: the Responder aborts the connection; the first RST is in frame 1433"]
    shown = json.loads(text(path, "--frame", "1414", "--format", "json"))
    assert shown["frame"]["meanings"] == ["FIN: the Responder closes its side"]


def test_a_frame_of_no_mpa_connection(tmp_path: Path) -> None:
    talk = started()
    other = Talk(talk.tap, isn=(1, 2))
    other.keys = talk.keys
    frame = talk.put("b", 1)
    packets = [(seg[1], bytes(seg[6])) for seg in talk.segments]
    octets = bytearray(packets[-1][1])
    octets[36:38] = b"\x00\x01"
    packets[-1] = packets[-1][0], bytes(octets)
    path = tmp_path / "other.pcap"
    path.write_bytes(capture(packets))
    with pytest.raises(MPAError, match=rf"frame {frame}: 10\.0\.0\.2:7471 > 10\.0\.0\.1:1 is not an MPA connection"):
        invoke(str(path), "--frame", str(frame))


def test_sequence_numbers_find_what_holds_them() -> None:
    report = analyze(RPING)
    first, second = islice(report.connections[0].responder.fpdus, 2)
    assert [item.number for item in show_seq(report, first.seq).items] == [0]
    assert [item.number for item in show_seq(report, second.seq - 1).items] == [0]
    assert [item.number for item in show_seq(report, second.seq).items] == [1]
    with pytest.raises(MPAError, match="holds the sequence number"):
        show_seq(report, first.seq, ("initiator",))
    last = [*report.connections[0].responder.fpdus][-1]
    with pytest.raises(MPAError, match="; 0/responder/19 ends 3 octets before"):
        show_seq(report, last.seq + last.wire_length + 2)


def test_sequence_numbers_that_come_again_after_4_gib() -> None:
    """Of two FPDUs with the same numbers the one counts whose frames are near."""
    from scapy_mpa.report.frame import _overlapping

    def record(n: int) -> FPDURecord:
        return FPDURecord(
            0,
            "initiator",
            n * 60_000 % 2**32,
            0,
            59_992,
            60_000,
            0,
            "good",
            "length",
            (n + 1,),
            n + 1,
            n + 1,
            0,
            False,
            None,
        )

    there = [*range(5), *range(71_580, 71_590), *range(143_160, 143_170)]
    half = cast("HalfConnection", SimpleNamespace(fpdus=[record(n) for n in there], seq_start=0))
    found = _overlapping(half, 71_586, 71_585 * 60_000 % 2**32, 1000)
    assert [(place.record.frames, place.is_inside) for place in found] == [((71_585,), False), ((71_586,), True)]
    assert _overlapping(half, 4, 3 * 60_000 + 59_999, 2)[1].record.frames == (4,)
    assert [place.is_inside for place in _overlapping(half, 8, 5 * 60_000, 10)] == [False]


def test_long_payloads_are_shortened_unless_full(tmp_path: Path) -> None:
    talk = started(m=(1, 1))
    octets = talk.lay("a", 40_000)
    for at in range(0, len(octets), 1448):
        talk.at("a", at, octets[at : at + 1448])
    path = talked(talk, tmp_path / "long.pcap")
    short, full = (text(path, "--fpdu", "0/i/0", *more).splitlines() for more in ((), ("--full",)))
    assert dumped(full) == octets
    assert len(short) < 350 < len(full)
    assert any(
        line.endswith("... 508 octets                                                     payload, continued")
        for line in short
    )


def test_colours_only_on_a_terminal() -> None:
    shown = text(str(PCAPS / "markers-draft-origin.pcap"), "--fpdu", "0/i/0")
    assert "\x1b[" not in shown
    runner: Callable[..., Any] = CliRunner().invoke
    result = runner(
        cli, ["show", str(PCAPS / "markers-draft-origin.pcap"), "--fpdu", "0/i/0"], color=True, standalone_mode=False
    )
    assert "\x1b[33mMarker: RESERVED 0, FPDUPTR 512" in result.stdout


ON_A_TERMINAL = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"


@pytest.mark.parametrize(
    ("environment", "is_coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "0"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_what_octets_are_is_told_by_colours(environment: dict[str, str], is_coloured: bool) -> None:
    """Header, Marker, PAD, CRC and payload are told apart; what is said is the same."""
    path = str(PCAPS / "markers-before-crc.pcap")
    plain = text(path, "--fpdu", "0/i/11", "--full")
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TERM")}
    command = [sys.executable, "-m", "scapy_mpa", "show", path, "--fpdu", "0/i/11", "--full"]
    done = subprocess.run(
        [sys.executable, "-c", ON_A_TERMINAL, *command],
        env=kept | environment | {"COLUMNS": "300"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    shown = done.stdout.replace("\r\n", "\n")
    assert re.sub(r"\x1b\[\d*m", "", shown) == plain
    if not is_coloured:
        assert "\x1b" not in shown
        return
    found = set()
    for line in shown.splitlines():
        row = re.match(
            r" +\d+ +\d+  (?:\x1b\[(\d+)m)?[0-9a-f]{2}.{60,}  (ULPDU_Length|MSN|Marker|PAD|CRC|payload)", line
        )
        if row is not None:
            found.add(row[2])
            assert row[1] == {"Marker": "35", "PAD": "36", "CRC": "32", "payload": None}.get(row[2], "94"), line
    assert len(found) == 6


def test_scapy_is_imported_for_messages_with_a_header_only() -> None:
    code = (
        "import sys; from scapy_mpa.cli import cli; cli.main(sys.argv[1:], standalone_mode=False); "
        "print('scapy' in sys.modules)"
    )
    for number, expected in (("0", "False"), ("1", "True")):
        arguments = [
            "show",
            str(PCAPS / "siw-terminate.pcap"),
            "--fpdu",
            f"0/{'r' if expected == 'True' else 'i'}/{4 * int(number)}",
        ]
        result = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=REPO, check=True
        )
        assert result.stdout.splitlines()[-1] == expected


def test_a_report_says_the_same_before_and_after() -> None:
    report: Report = analyze(RPING)
    before = json.dumps(report.as_dict())
    show_frame(report, 12)
    assert json.dumps(report.as_dict()) == before


@given(st.sampled_from([path for path in sorted(PCAPS.glob("*.pcap")) if path.stat().st_size < 30_000]), changes)
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
def test_whatever_the_capture_holds(path: Path, how: list[tuple[str, float, int, int]]) -> None:
    octets = changed(path.read_bytes(), how)
    try:
        report = analyze(io.BytesIO(octets))
    except MPAError:
        return
    for frame in range(1, min(report.packets, 30) + 1):
        try:
            shown = show_frame(report, frame)
        except MPAError:
            continue
        assert shown.frame is not None
        at = 0
        for item in shown.items:
            # FPDUs with a bad CRC may overlap the next; nothing is left out.
            assert item.part is not None and item.part.at <= at
            at = max(at, item.part.at + item.part.end - item.part.first)
            assert json.dumps(item.as_dict())
        assert at == shown.frame.segment[8] - shown.frame.segment[7]
        assert list(shown_lines(shown, full=True))


def test_an_fpdu_after_a_rst() -> None:
    """Nobody placed what came after the RST of frame 1433, which ended the connection; that before it may have been."""
    capture = str(named("siw-client-killed"))
    gone = "after the RST of frame 1433: its receiver was gone, so nobody placed it."
    before, after, later = (" ".join(text(capture, "--frame", frame).split()) for frame in ("1432", "1434", "1436"))
    assert "It was complete, placed and delivered at frame 1432." in before
    assert f"It was complete at frame 1434, {gone}" in after and "was placed at frame 1432" in after
    assert f"It was complete at frame 1436, {gone}" in later and "1/initiator/928, was complete at frame 1434" in later
