"""The command ``scapy-mpa fuzz``: captures, the log, one case alone, seeds for other fuzzers, what it refuses."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from hashlib import sha1
from pathlib import Path
from typing import NamedTuple

import pytest

from scapy_mpa.cli import main
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.errors import MPAError
from scapy_mpa.framing import (
    ENHANCED_DATA_LENGTH,
    KEY_LENGTH,
    REPLY_KEY,
    REQUEST_KEY,
    decode_fpdu,
    decode_startup_frame,
)
from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.case import FuzzCase
from scapy_mpa.fuzz.catalogue import weights
from scapy_mpa.fuzz.corpora import write_corpora
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.fuzz.writing import LOG, write_cases
from scapy_mpa.reading.analysis import analyze
from tests.conftest import PCAPS

SCENARIO = "every-message"


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Result]


@pytest.fixture
def fuzz(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command, run in this process."""
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["scapy-mpa", "fuzz", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as raised:
            main()
        assert isinstance(raised.value.code, int)
        return Result(raised.value.code, *capfd.readouterr())

    return run


def test_captures_and_a_log(fuzz: Run, tmp_path: Path) -> None:
    out = tmp_path / "cases"
    result = fuzz("--seed", 5, "--count", 12, "--first", 3, "-o", out)
    assert (result.returncode, result.stdout, result.stderr) == (0, f"{out}: 12 cases, 12 captures, {LOG}\n", "")
    log = [json.loads(line) for line in (out / LOG).read_text().splitlines()]
    assert [entry["case"] for entry in log] == list(range(3, 15))
    for entry in log:
        report = analyze(out / entry["file"])
        assert report.packets == entry["packets"]
        assert entry["mutations"] or entry["baseline"].startswith("catalogue: ")
        for mutation in entry["mutations"]:
            assert CHANGES[mutation["name"]].area == mutation["area"]
            assert mutation["what"]


def test_one_case_alone(fuzz: Run, tmp_path: Path) -> None:
    fuzz("--seed", 5, "--count", 12, "-o", tmp_path / "cases")
    result = fuzz("--seed", 5, "--case", 9, "-o", tmp_path / "nine.pcap")
    assert result.returncode == 0
    assert (tmp_path / "nine.pcap").read_bytes() == (tmp_path / "cases" / "case-000009.pcap").read_bytes()
    entry = json.loads((tmp_path / "cases" / LOG).read_text().splitlines()[9])
    assert result.stdout.startswith("case 9 of seed 5: ")
    assert [line.strip() for line in result.stdout.splitlines()[1:-1]] == [
        f"{mutation['name']}: {mutation['what']}" for mutation in entry["mutations"]
    ]
    assert fuzz("--seed", 5, "--case", 9, "-o", f"{tmp_path / 'folder'}/").returncode == 0
    assert (tmp_path / "folder" / "case-000009.pcap").read_bytes() == (tmp_path / "nine.pcap").read_bytes()


def test_from_a_capture(fuzz: Run, tmp_path: Path) -> None:
    capture = PCAPS / "markers-reordered.pcap"
    out = tmp_path / "cases"
    assert fuzz("--from", capture, "--area", "markers", "--count", 5, "-o", out).returncode == 0
    log = [json.loads(line) for line in (out / LOG).read_text().splitlines()]
    assert {entry["baseline"] for entry in log} == {str(capture)}
    assert {mutation["area"] for entry in log for mutation in entry["mutations"]} == {"markers"}
    rebuilt = tmp_path / "rebuilt.pcap"
    assert fuzz("--from", capture, "--changes", 0, "--case", 0, "-o", rebuilt).returncode == 0
    assert not analyze(rebuilt).has_errors
    # What it was called before is still taken, and not listed.
    old = tmp_path / "old.pcap"
    assert fuzz("--from", capture, "--mutations", 0, "--case", 0, "-o", old).returncode == 0
    assert old.read_bytes() == rebuilt.read_bytes()
    assert "--mutations" not in fuzz("--help").stdout


def test_a_change_by_its_name(fuzz: Run, tmp_path: Path) -> None:
    out = tmp_path / "cases"
    assert fuzz("--change", "pad", "--change", "lose", "--count", 20, "-o", out).returncode == 0
    log = [json.loads(line) for line in (out / LOG).read_text().splitlines()]
    assert {mutation["name"] for entry in log for mutation in entry["mutations"]} == {"pad", "lose"}


def test_a_damaged_capture_is_said_to_be(fuzz: Run, tmp_path: Path) -> None:
    capture = tmp_path / "cut.pcap"
    capture.write_bytes((PCAPS / "siw-terminate.pcap").read_bytes()[:1500])
    result = fuzz("--from", capture, "--mutations", 0, "--case", 0, "-o", tmp_path / "x.pcap")
    assert result.returncode == 0
    assert result.stderr == f"scapy-mpa: {capture}: damaged after frame 12: the last record is cut after 56 octets\n"


def test_each_capture_that_was_written_is_in_the_log(tmp_path: Path) -> None:
    fuzzer = Fuzzer(5)

    def cases() -> Iterator[FuzzCase]:
        for number in range(4):
            yield fuzzer.case(number)
            told = [json.loads(line)["case"] for line in (tmp_path / LOG).read_text().splitlines()]
            assert len(told) == len(list(tmp_path.glob("*.pcap")))

    assert write_cases(tmp_path, cases()).captures == 4


@pytest.mark.parametrize(("seed", "areas", "said"), [(0, ["marker"], "no area marker"), (-1, [], "seed is -1")])
def test_a_fuzzer_that_cannot_be(seed: int, areas: list[str], said: str) -> None:
    with pytest.raises(MPAError, match=said):
        Fuzzer(seed, areas=areas)


def test_some_cases_in_one_file(fuzz: Run, tmp_path: Path) -> None:
    out = tmp_path / "cases"
    result = fuzz("--count", 25, "--per-file", 10, "--scenario", SCENARIO, "-o", out)
    assert result.stdout == f"{out}: 25 cases, 3 captures, {LOG}\n"


def test_what_there_is_is_listed(fuzz: Run) -> None:
    result = fuzz("--list")
    assert result.returncode == 0
    assert all(f"{area} (" in result.stdout for area in weights())
    assert all(f"  {name} " in result.stdout for name, one in CHANGES.items() if one.area)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no output"),
        (("-o", "OUT", "--area", "walks"), "there is no area walks; the areas are startup, "),
        (("-o", "OUT", "--change", "walk"), "there is no change 'walk' that can be drawn"),
        (("-o", "OUT", "--change", "lose", "--area", "ddp"), "none of the requested changes belongs to these areas"),
        (("-o", "OUT", "--case", "1", "--count", "2"), "--case selects one case"),
        (("-o", "OUT", "--case", "1", "--per-file", "2"), "--per-file applies only if several cases"),
        (("--split", "OUT", "--per-file", "2"), "--per-file applies only if several cases"),
        (("--split", "OUT", "--first", "2"), "--first is the number of the first case"),
        (("-o", "OUT", "--list"), "--list writes no files"),
        (("-o", "-", "--count", "2"), "standard output takes one case"),
        (("--split", "-"), "standard output takes one case"),
        (("-o", "OUT", "--connection", "1"), "--connection needs --from"),
        (("-o", "OUT", "--scenario", "nothing"), "no scenario 'nothing'"),
        (("-o", "OUT", "--from", "nothing.pcap"), "nothing.pcap: "),
        (("-o", "FULL"), "the folder is not empty"),
        (("--split", "FULL"), "the folder is not empty"),
        (("-o", "OUT/further/down"), "there is no folder"),
    ],
)
def test_what_is_refused(fuzz: Run, tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").write_text("x")
    names = {"OUT": str(tmp_path / "out"), "FULL": str(full)}
    given = [text.replace("OUT", names["OUT"]).replace("FULL", names["FULL"]) for text in arguments]
    result = fuzz(*given)
    assert result.returncode == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


# --- seeds for other fuzzers ---


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpora")
    begin = baselines(captures=[str(PCAPS / "markers-packed.pcap")], scenarios=[SCENARIO, "rfc6581-client-server"])
    said = write_corpora(folder, Fuzzer(1, begin))
    assert "inputs for libFuzzer, 3 sessions for AFLNet" in said
    return folder


def test_libfuzzer_has_a_folder_for_each_kind(corpora: Path) -> None:
    folder = corpora / "libfuzzer"
    inputs = {kind.name: [path.read_bytes() for path in kind.iterdir()] for kind in folder.iterdir() if kind.is_dir()}
    assert set(inputs) == {"request", "reply", "fpdu", "ulpdu", "stream"}
    for kind in inputs:
        for path in (folder / kind).iterdir():
            assert path.name == sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    for kind in ("request", "reply"):
        for octets in inputs[kind]:
            frame = decode_startup_frame(octets)
            assert frame is not None and (frame.kind, frame.wire_length) == (kind, len(octets))
    for octets in inputs["fpdu"]:
        fpdu = decode_fpdu(octets)
        assert fpdu is not None and fpdu.wire_length == len(octets)
        assert fpdu.crc_good or fpdu.crc == 0
    assert len(inputs["ulpdu"]) > 8
    words = (folder / "mpa.dict").read_text().splitlines()
    keys = [bytes.fromhex(word.partition('"')[2].rstrip('"').replace("\\x", "")) for word in words]
    assert REQUEST_KEY in keys and REPLY_KEY in keys


def test_aflnet_has_a_file_for_each_session(corpora: Path) -> None:
    raw = sorted((corpora / "aflnet" / "raw").iterdir())
    assert len(raw) == 3
    for path in raw:
        octets = path.read_bytes()
        assert octets.startswith(REQUEST_KEY)
        again = (corpora / "aflnet" / "replay" / f"{path.stem}.replay").read_bytes()
        messages, at = [], 0
        while at < len(again):
            length = int.from_bytes(again[at : at + 4], "little")
            messages.append(again[at + 4 : at + 4 + length])
            at += 4 + length
        assert b"".join(messages) == octets
        assert len(messages) > 3
        assert decode_startup_frame(messages[0]) is not None


def test_boofuzz_has_fields_and_a_module(corpora: Path) -> None:
    """Whether boofuzz makes the right octets of them: see test_boofuzz_makes_the_messages."""
    told = json.loads((corpora / "boofuzz" / "messages.json").read_text())
    compile((corpora / "boofuzz" / "mpa_messages.py").read_text(), "mpa_messages.py", "exec")
    assert {session["role"] for session in told} == {"initiator", "responder"}
    for session in told:
        assert len(bytes.fromhex(session["startup"]["key"])) == KEY_LENGTH
        assert session["fpdus"]
        for fpdu in session["fpdus"]:
            assert fpdu["fields"][-1][0] == "payload"
    enhanced = [session for session in told if "-rfc6581" in session["name"]]
    assert enhanced
    assert all(len(bytes.fromhex(one["startup"]["private_data"])) >= ENHANCED_DATA_LENGTH for one in enhanced)


@pytest.mark.filterwarnings("ignore:.*ByteString:DeprecationWarning")
def test_boofuzz_makes_the_messages(corpora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(corpora / "boofuzz"))
    import mpa_messages  # type: ignore[import-not-found]

    for session in json.loads((corpora / "boofuzz" / "messages.json").read_text()):
        startup, fpdus = mpa_messages.requests(session)
        assert decode_startup_frame(startup.render()) is not None
        for told, request in zip(session["fpdus"], fpdus, strict=True):
            octets = request.render()
            fpdu = decode_fpdu(octets, 0 if session["markers"] else None, check_crc=session["crc"])
            assert fpdu is not None
            assert fpdu.ulpdu == bytes.fromhex("".join(text for _, text in told["fields"]))
            assert fpdu.wire_length == len(octets)
            assert fpdu.crc_good in (True, None)


def test_messages_of_cases_too(fuzz: Run, tmp_path: Path) -> None:
    plain, more = tmp_path / "plain", tmp_path / "more"
    assert fuzz("--scenario", SCENARIO, "--split", plain).returncode == 0
    assert fuzz("--scenario", SCENARIO, "--split", more, "--count", 30).returncode == 0
    assert len(list(more.rglob("*"))) > len(list(plain.rglob("*"))) + 30
    assert (plain / "README.md").read_text().startswith("# Seeds")
