"""scapy-mpa crosscheck: Wireshark agrees, or is known not to be able to."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator

from scapy_mpa import crosscheck, enrich
from scapy_mpa.cli import cli
from scapy_mpa.errors import CaptureError, MPAError
from scapy_mpa.wireshark import dissected
from scapy_mpa.wireshark.crosscheck import CrossCheck
from scapy_mpa.wireshark.dissected import Dissected, DissectedFPDU, DissectedStartup, Dissection
from scapy_mpa.wireshark.limits import LIMITS, SEEN_IN
from scapy_mpa.wireshark.tshark import ToolMissing, find_tshark
from tests.capture.convert import COMPRESSED, FORMATS, LINKS, recorded
from tests.conftest import PCAPS, REPO, captures, truth, truth_path
from tests.hostile.files import LAYOUTS, Case
from tests.wireshark.tshark import needs_tshark

pytestmark = needs_tshark

#: Larger captures take seconds each; docs/wireshark.md has all of them (python scripts/dev/crosscheck_captures.py).
LARGE = 330_000
SMALL = [path for path in captures() if path.stat().st_size < LARGE]
CRC_RPING = PCAPS / "siw-crc-rping.pcap"

#: FPDUs that tshark 4.0.17 shows, as was counted when they were recorded.
FOUND_BY_TSHARK = {
    "markers-aligned": 120,
    "markers-packed": 0,
    "markers-between-fpdus": 4,
    "markers-before-crc": 22,
    "markers-one-way": 60,
    "markers-draft-origin": 79,
}


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(
        cli, ["crosscheck", *map(str, arguments)], standalone_mode=False, catch_exceptions=False, env={"COLUMNS": "110"}
    )


def test_table_of_a_folder(tmp_path: Path) -> None:
    """The script of docs/wireshark.md reads captures and their truths, compressed or not."""
    names = ("siw-rev1.pcap", "siw-rev1.fpdus.jsonl", "second-connection-not-mpa.pcap.zst")
    for name in (*names, "second-connection-not-mpa.fpdus.jsonl.zst"):
        shutil.copy(PCAPS / name, tmp_path)
    done = subprocess.run(
        [sys.executable, REPO / "scripts" / "dev" / "crosscheck_captures.py", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()[2:]]
    # Of Wireshark's own numbers another version may have others.
    assert [(row[1], row[2], row[4]) for row in rows] == [
        (name, str(len(truth(PCAPS / name))), str(len(truth(PCAPS / name))))
        for name in ("second-connection-not-mpa", "siw-rev1")
    ]


@pytest.mark.parametrize("capture", SMALL, ids=lambda path: path.stem)
def test_nothing_is_unexplained(capture: Path) -> None:
    result = crosscheck(capture)
    assert result.unexplained == 0 and result.failure is None
    assert result.startup_agreed == result.startup_ours == result.startup_wireshark
    with_markers = any(one.initiator.markers or one.responder.markers for one in result.report.connections)
    inferred = any(one.inferred for one in result.report.connections)
    if truth_path(capture).exists():
        assert result.ours == len(truth(capture))
    deviating = bool(result.report.deviations)
    assert {limit == "sender-deviates" for _, limit in result.counts} <= {deviating}
    if not with_markers and not inferred and not deviating and "snaplen" not in capture.stem:
        assert result.agreed == result.ours == result.wireshark
        assert not result.counts
    if result.version == SEEN_IN and capture.stem in FOUND_BY_TSHARK:
        assert result.wireshark == FOUND_BY_TSHARK[capture.stem]
    extra = sum(count for (kind, _), count in result.counts.items() if kind == "only-wireshark")
    missed = sum(count for (kind, _), count in result.counts.items() if kind == "only-ours")
    assert result.ours - missed == result.wireshark - extra >= result.agreed


class Replayed(Dissection):
    """What tshark said of a capture, with something changed."""

    said: list[Dissected]

    def __iter__(self) -> Iterator[Dissected]:
        yield from self.said


@pytest.fixture(scope="module")
def said() -> list[Dissected]:
    return list(Dissection(CRC_RPING, find_tshark()))


def replayed(said: list[Dissected], monkeypatch: pytest.MonkeyPatch) -> CrossCheck:
    monkeypatch.setattr(Replayed, "said", said, raising=False)
    monkeypatch.setattr("scapy_mpa.wireshark.crosscheck.Dissection", Replayed)
    return crosscheck(CRC_RPING)


def first(said: list[Dissected], kind: type) -> int:
    return next(index for index, one in enumerate(said) if isinstance(one, kind))


def flipped(fpdu: DissectedFPDU) -> DissectedFPDU:
    at, octets = fpdu.ulpdu[-1]
    return fpdu._replace(ulpdu=(*fpdu.ulpdu[:-1], (at, bytes([octets[0] ^ 1]) + octets[1:])))


CHANGES: dict[str, Callable[[DissectedFPDU], DissectedFPDU]] = {
    "length": lambda fpdu: fpdu._replace(ulpdu_length=fpdu.ulpdu_length + 1),
    "crc-octets": lambda fpdu: fpdu._replace(crc=b"abcd"),
    "crc-verdict": lambda fpdu: fpdu._replace(verdict="bad"),
    "fpduptr": lambda fpdu: fpdu._replace(fpduptrs=(4,)),
    "ulpdu": flipped,
}


@pytest.mark.parametrize("kind", CHANGES)
def test_what_differs_is_seen(kind: str, said: list[Dissected], monkeypatch: pytest.MonkeyPatch) -> None:
    index = first(said, DissectedFPDU) + 3
    before = said[index]
    assert isinstance(before, DissectedFPDU)
    result = replayed([*said[:index], CHANGES[kind](before), *said[index + 1 :]], monkeypatch)
    ((found, limit, count, difference),) = result.groups()
    assert (found, limit, count, result.unexplained) == (kind, None, 1, 1)
    assert (difference.frame, difference.seq) == (before.frame, before.header_seq)
    assert difference.ours != difference.wireshark and None not in (difference.ours, difference.wireshark)
    assert result.agreed == result.ours - 1


def test_what_one_of_us_lacks_is_seen(said: list[Dissected], monkeypatch: pytest.MonkeyPatch) -> None:
    index = first(said, DissectedFPDU) + 5
    result = replayed([*said[:index], *said[index + 1 :]], monkeypatch)
    assert dict(result.counts) == {("only-ours", None): 1}
    extra = said[index]
    assert isinstance(extra, DissectedFPDU)
    strange = extra._replace(header_seq=4711, crc=b"abcd")
    result = replayed([*said, strange], monkeypatch)
    assert dict(result.counts) == {("only-wireshark", None): 1} and result.agreed == result.ours


def test_it_is_found_by_its_octets_where_no_place_is_told(
    said: list[Dissected], monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = [one._replace(header_seq=None) if isinstance(one, DissectedFPDU) else one for one in said]
    result = replayed(blind, monkeypatch)
    assert result.agreed == result.ours == 35


def test_startup_frames_are_compared(said: list[Dissected], monkeypatch: pytest.MonkeyPatch) -> None:
    index = first(said, DissectedStartup)
    frame = said[index]
    assert isinstance(frame, DissectedStartup)
    assert set(frame.values) == {"m", "c", "r", "rev", "pd_length", "private_data"}
    for name, value in (("m", 1), ("rev", 9), ("private_data", b"no")):
        other = frame._replace(values=frame.values | {name: value})
        result = replayed([*said[:index], other, *said[index + 1 :]], monkeypatch)
        assert dict(result.counts) == {("startup-field", None): 1}
    result = replayed([*said[:index], *said[index + 1 :]], monkeypatch)
    assert result.counts["startup-only-ours", None] == 1
    assert result.counts["only-ours", "request-not-seen"] == 0 and result.unexplained == 1
    result = replayed([frame], monkeypatch)
    assert result.counts["only-ours", None] == 35


def test_without_the_request_nothing_is_dissected(said: list[Dissected], monkeypatch: pytest.MonkeyPatch) -> None:
    result = replayed([], monkeypatch)
    assert dict(result.counts) == {("startup-only-ours", None): 2, ("only-ours", "request-not-seen"): 35}


def test_an_older_wireshark_has_fewer_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_tshark()
    fewer = found._replace(fields=found.fields - {"iwarp_mpa.crc_check", "iwarp_mpa.rev"})
    monkeypatch.setattr("scapy_mpa.wireshark.crosscheck.find_tshark", lambda: fewer)
    result = crosscheck(CRC_RPING)
    assert result.not_compared == ["CRC", "Rev"] and result.agreed == result.ours
    monkeypatch.setattr("scapy_mpa.wireshark.crosscheck.find_tshark", lambda: found._replace(fields=frozenset()))
    with pytest.raises(ToolMissing, match="does not dissect MPA"):
        crosscheck(CRC_RPING)


def test_what_is_missing_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    find_tshark.cache_clear()
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ToolMissing, match="tshark is not installed: apt-get install tshark"):
        crosscheck(CRC_RPING)
    monkeypatch.undo()
    monkeypatch.setitem(__import__("sys").modules, "pyshark.tshark.output_parser.tshark_xml", None)
    with pytest.raises(ToolMissing, match="pyshark is not installed"):
        dissected.Dissection(CRC_RPING, find_tshark())


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda folder: folder / "none", CaptureError),
        (lambda folder: folder, CaptureError),
    ],
)
def test_what_cannot_be_read(make: Callable[[Path], Path], error: type[Exception], tmp_path: Path) -> None:
    with pytest.raises(error):
        crosscheck(make(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("a", "b"), "one capture"),
        (("a", "--frames", "1-3"), "a whole capture"),
        (("a", "--read-frames", "1-3"), "a whole capture"),
    ],
)
def test_what_is_not_compared(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        invoke(*arguments)


def test_pipes_are_refused(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # nobody writes: reading it would wait for ever
    for capture in ("-", pipe):
        with pytest.raises(CaptureError, match="must be a named file"):
            crosscheck(capture)


def test_a_capture_that_is_cut(tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    capture.write_bytes(CRC_RPING.read_bytes()[:3000])
    result = invoke(capture)
    assert result.return_value == 0 and "damaged after frame" in result.stderr and "0 unexplained" not in result.stderr
    assert "cut short" in result.stderr


@pytest.mark.parametrize("form", ["pcapng, nanoseconds, big-endian", "gzip"])
def test_formats(form: str, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    made = FORMATS.get(form, FORMATS["pcapng"])(recorded(CRC_RPING))
    capture.write_bytes(COMPRESSED["gzip"](made) if form == "gzip" else made)
    assert [crosscheck(capture).agreed, crosscheck(capture).unexplained] == [35, 0]


@pytest.mark.parametrize("link", ["vxlan", "sll2", "qinq"])
def test_links_and_tunnels(link: str, tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    capture.write_bytes(FORMATS["pcapng"](LINKS[link](CRC_RPING)))
    result = crosscheck(capture)
    assert (result.agreed, result.startup_agreed, result.unexplained) == (35, 2, 0)


def test_mutated_captures_come_to_an_end(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    for number in range(6):
        mutations = (("flip", number), ("forge_ulpdu_length", number), ("forge_tcp", number), ("shuffle", number))
        capture.write_bytes(Case("siw-crc-rping", number, mutations, LAYOUTS[number % len(LAYOUTS)]).made().octets)
        result = crosscheck(capture)
        assert result.agreed <= min(result.ours, result.wireshark)


def validator() -> Draft202012Validator:
    return Draft202012Validator(json.loads((REPO / "scapy_mpa/wireshark/crosscheck.schema.json").read_text()))


def test_json_follows_its_schema() -> None:
    result = invoke(PCAPS / "markers-aligned.pcap", "--format", "json")
    values = json.loads(result.stdout)
    validator().validate(values)
    assert values["fpdus"] == {"ours": 210, "wireshark": 120, "agreed": 0} and values["unexplained"] == 0
    assert len(values["details"]) == sum(one["count"] for one in values["differences"]) == 210
    assert {one["limit"] for one in values["differences"]} <= set(LIMITS)


def test_status_and_table(monkeypatch: pytest.MonkeyPatch, said: list[Dissected]) -> None:
    result = invoke(CRC_RPING)
    assert result.return_value == 0
    assert result.stdout == (
        f"FPDUs: 35 found by us, 35 by Wireshark {find_tshark().version_text}, 35 agreed; startup frames: 2, 2, 2\n"
        "no difference\n"
    )
    monkeypatch.setattr(Replayed, "said", said[:-1], raising=False)
    monkeypatch.setattr("scapy_mpa.wireshark.crosscheck.Dissection", Replayed)
    result = invoke(CRC_RPING)
    assert result.return_value == 1 and "UNEXPLAINED: ours ULPDU_Length 34" in result.stdout
    assert "1 unexplained" in result.stdout


def test_a_closed_stdout_is_no_difference() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as stdout:
        command = [sys.executable, "-m", "scapy_mpa", "crosscheck", str(CRC_RPING)]
        done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


# --- enrich ---


class FakePacket:
    def __init__(self, number: int) -> None:
        self.number = str(number)


class FakeCapture(list[Any]):
    """A pyshark.FileCapture as far as enrich looks at it; pyshark itself is in docs/wireshark.md."""

    def __init__(self, path: Path, frames: range) -> None:
        super().__init__(map(FakePacket, frames))
        self.input_filepath = path


def test_packets_come_with_the_records_of_their_frame() -> None:
    reordered = PCAPS / "markers-reordered.pcap"
    rows = truth(reordered)
    found = list(enrich(FakeCapture(reordered, range(1, 946))))
    assert len(found) == 945
    for one in found:
        number = int(one.packet.number)
        placed = [record.seq for record in one.placed]
        brought = [record.seq for record in one.brought]
        assert sorted(placed) == sorted(row["seq"] for row in rows if row["placed_frame"] == number)
        assert sorted(brought) == sorted(row["seq"] for row in rows if number in row["frames"])
    assert len(list(enrich(FakeCapture(reordered, range(5, 9))))) == 4


def test_live_captures_are_refused() -> None:
    with pytest.raises(MPAError, match="FileCapture"):
        enrich([])


def test_summaries_are_refused() -> None:
    summaries = FakeCapture(CRC_RPING, range(1, 3))
    del summaries[0].number
    with pytest.raises(MPAError, match="only_summaries"):
        list(enrich(summaries))
