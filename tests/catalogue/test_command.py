"""``scapy-mpa malform``, the manifest, ``Malformed`` in Python and the page."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator
from scapy.layers.inet import TCP
from scapy.utils import rdpcap

from scapy_mpa import Malformed, MPAError, analyze
from scapy_mpa.catalogue.table import CASES
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.scenario import load, shipped
from scapy_mpa.craft.tcppacket import octets_of
from scapy_mpa.framing.role import ROLES
from tests.cli.test_command import invoke, run
from tests.conftest import PCAPS, REPO

SCHEMA = json.loads((REPO / "scapy_mpa" / "catalogue" / "manifest.schema.json").read_text())


def validated(text: str) -> Any:
    Draft202012Validator.check_schema(SCHEMA)
    closed = json.loads(json.dumps(SCHEMA).replace('"additionalProperties": true', '"additionalProperties": false'))
    made = json.loads(text)
    Draft202012Validator(closed).validate(made)
    return made


def test_the_list() -> None:
    lines = invoke("malform", "--list").stdout.splitlines()
    end = lines.index(f"{len(CASES)} cases")
    assert [line.split()[0] for line in lines[:end] if line.startswith("  ")] == list(CASES)
    changes = [line.split()[0].rstrip(":") for line in lines[end:] if line.startswith("  ") and line[2] != " "]
    assert changes == list(CHANGES)
    chosen = invoke("malform", "--list", "--rule", "fpduptr", "--area", "markers").stdout
    assert "fpduptr-low-bits-1" in chosen and "fpduptr-draft-origin" in chosen and "pad-1" not in chosen


@pytest.mark.parametrize("columns", [80, 110])
def test_the_list_is_as_wide_as_asked_for(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe it is one line a case, unless COLUMNS says how wide it may be."""
    long = invoke("malform", "--list").stdout
    monkeypatch.setenv("COLUMNS", str(columns))
    folded = invoke("malform", "--list").stdout
    assert max(map(len, folded.splitlines())) <= columns < max(map(len, long.splitlines()))
    assert folded.split() == long.split()


def test_the_list_as_json() -> None:
    told = validated(invoke("malform", "--list", "--format", "json").stdout)
    assert [case["name"] for case in told["cases"]] == list(CASES)
    (case,) = validated(invoke("malform", "--list", "pad-40", "--crc", "left", "--format", "json").stdout)["cases"]
    assert case["choices"] == ["crc"] and case["left"] == "crc" and case["capture"] is None
    assert case["raises"] == [
        {"rule": "crc", "direction": "initiator", "severity": "error"},
        {"rule": "terminate", "direction": "responder", "severity": "warning"},
    ]
    assert (case["peer"]["layer"], case["peer"]["etype"], case["peer"]["code"]) == (2, 0, 2)


@pytest.mark.parametrize("name", CASES)
def test_each_is_explained(name: str) -> None:
    text = invoke("malform", "--list", name).stdout
    case = CASES[name]
    assert text.startswith(f"{name}: {case.purpose}\n")
    assert case.peer.says in text
    assert all(f"{one.severity} {one.rule}" in text for one in case.raised())
    assert all(f"with --{choice} left: " in text for choice in case.left)


def test_one_is_written(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    result = invoke("malform", "crc-zero", "-o", str(path))
    assert result.stdout == f"{path}: 15 packets, in which analyze finds crc, terminate\n"
    assert {found.rule.id for found in analyze(path).all_findings()} == {"crc", "terminate"}
    assert invoke("malform", "crc-zero", "-o", "-").stdout_bytes == path.read_bytes()
    folder = tmp_path / "folder"
    folder.mkdir()
    assert invoke("malform", "crc-zero", "-o", str(folder)).stdout == f"{folder}: 1 capture and manifest.json\n"
    assert (folder / "crc-zero.pcap").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ("pad:octets=hex:01", {"crc", "fpdu-format", "error-closed"}),
        ("crc:number=3,value=reversed", {"crc", "error-closed"}),
        ("capture-loss:number=2", {"capture-gap"}),
        ("hops:ttl=9", {"attack-hijack"}),
        ("fields:rev=3", {"startup-revision", "startup-revision-differs"}),
    ],
)
def test_a_change_is_a_case(change: str, rules: set[str], tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    result = invoke("malform", change, "-o", str(path))
    assert {*result.stdout.strip().rpartition("analyze finds ")[2].split(", ")} == rules
    assert {found.rule.id for found in analyze(path).all_findings()} == rules
    assert f"changed by the initiator: {change.partition(':')[0]}(" in invoke("malform", "--list", change).stdout


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        (["damaged:number=400,at=40,mask=1"], {"crc", "error-closed"}),
        (["ulpdu-length:number=9,more=-1", "hops:number=30,ttl=9"], {"pad", "attack-hijack"}),
        (["crc-zero"], {"crc", "error-went-on"}),
        (["lose:number=5,distance=3"], set()),
    ],
)
def test_a_capture_is_changed(changes: list[str], rules: set[str], tmp_path: Path) -> None:
    """What was said in it, laid anew with the changes; where they find no place, it is said."""
    capture, path = PCAPS / "markers-reordered.pcap", tmp_path / "one.pcap"
    result = invoke("malform", *changes, "--from", str(capture), "-o", str(path))
    assert {*result.stdout.strip().rpartition("analyze finds ")[2].split(", ")} - {"nothing"} == rules
    assert {found.rule.id for found in analyze(path).all_findings()} == rules


def test_a_scenario_is_changed(tmp_path: Path) -> None:
    path = tmp_path / "one.pcap"
    invoke("malform", "damaged:number=2,at=30", "--scenario", "every-message", "-o", str(path))
    assert "crc" in {found.rule.id for found in analyze(path).all_findings()}


@pytest.mark.parametrize("name", shipped())
def test_an_exchange_of_a_scenario_is_what_it_says(name: str) -> None:
    for conversation in load(name).conversations:
        made = [octets_of(packet) for packet in Exchange.of(conversation).sent()]
        assert made == [octets_of(packet) for packet in conversation.sending().packets()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("lose:number=5000", "--from", "CAPTURE"), "lose: there is no packet 5000"),
        (("swapped:number=1,other=5000", "--from", "CAPTURE"), "swapped: there is nothing to change"),
        (("other-window:window=70000", "--from", "CAPTURE"), "a number does not fit into its field"),
        (("pad:number=5000,octets=hex:01", "--from", "CAPTURE"), "there is no FPDU with a place for it"),
        (("pad-40", "--from", "CAPTURE"), "pad-40 replaces all messages, so none of yours would be left"),
        (("--all", "--from", "CAPTURE"), "takes each CASE by its name"),
        (("crc-zero", "--connection", "0"), "--connection needs --from or --scenario"),
        (("crc-zero", "--from", "CAPTURE", "--connection", "3"), "there is no connection 3"),
        (("crc-zero", "--scenario", "every-message", "--connection", "3"), "there is no connection 3"),
        (("crc-zero", "--scenario", "many-connections"), "choose one with --connection"),
        (("crc-zero", "--scenario", "every-message", "--from", "CAPTURE"), "--from and --scenario both say"),
    ],
)
def test_what_of_a_capture_is_refused(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    given = (str(PCAPS / "markers-reordered.pcap") if one == "CAPTURE" else one for one in arguments)
    result = run("malform", *given, "-o", str(tmp_path / "x.pcap"))
    assert result.returncode == 2 and said in result.stderr
    assert not (tmp_path / "x.pcap").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("pad:", "pad needs octets"),
        ("pad:octet=hex:01", "pad has no 'octet'; it has number, octets"),
        ("pad:octets=hex:0", "pad: octets is 'hex:0'"),
        ("lose:distance=0", "a whole number from 1"),
        ("lose:seed=-1", "lose: seed is -1, but must be a whole number from 0"),
        ("snap:length=40,seed=1", "snap has no 'seed'"),
        ("in-vain:times=0", "times is 0, but must be 1 to 255"),
        ("in-vain:times=256", "times is 256, but must be 1 to 255"),
        ("lose:number=2,connection=0", "connection=0 is for `scapy-mpa craft`"),
        ("setup:m=5", "cannot be made of plain"),
        ("recut:", "recut needs places, which may be a list"),
        ("crc:value=foo", "value is 'foo': it must be a whole number or reversed or inverted"),
        ("pad:number=two,octets=hex:01", "number is 'two': it must be a whole number"),
        ("injected:flags=Q", "flags is 'Q': it must be A or R or RA or S or SA or FA"),
        ("injected:edge=yes", "edge is 'yes': it must be true or false"),
        ("header-field:field=Q,value=1", "there is no field 'Q'; it may be T, L, "),
        ("enhanced:name=e,value=1", "there is no field 'e'; it may be a, b, c, d, ird, ord"),
        ("setup:speed=1", "there is no parameter 'speed'; it may be "),
        ("fields:speed=1", "there is no field 'speed'; it may be kind, "),
        ("foreign:link_type=-1,octets=hex:00", "a number does not fit"),
        ("silence:seconds=99999999999", "a number does not fit"),
        ("repeated:times=100000", "a number does not fit"),
        ("pad:number=9,octets=hex:01", "there is no FPDU with a place for it"),
        ("marker-left-out:number=1,which=4", "there is no FPDU with a place for it"),
        ("lose:number=50", "cannot be made of plain"),
    ],
)
def test_what_is_no_change_is_said(change: str, said: str) -> None:
    with pytest.raises(MPAError, match=said):
        Malformed(change)


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in CASES])
def test_a_change_is_explained_whatever_its_parameters(name: str) -> None:
    """Also one that cannot be made without parameters, alone and beside a case."""
    kind = CHANGES[name]
    alone = invoke("malform", "--list", name).stdout
    assert alone.startswith(f"{name}: {kind.meaning}\n") and kind.usage in alone
    assert invoke("malform", "--list", name, "crc-zero").stdout.removeprefix(alone).startswith("crc-zero: ")


def test_an_impairment_is_of_the_side_that_is_named() -> None:
    for direction in ROLES:
        found = Malformed(f"lose:number=1,retransmit=false,direction={direction}").analyze().all_findings()
        assert [one.direction for one in found if one.rule.id == "gap"] == [direction]


@pytest.mark.parametrize("change", ["lose:probability=0.5", "duplicate:probability=0.3,distance=1", "jitter"])
def test_a_seed_decides_what_an_impairment_does(change: str, tmp_path: Path) -> None:
    octets = []
    # Of the few packets that may be lost two seeds may choose the same: those of 0 and 1 do.
    for seed in (0, 2, 3, 2):
        path = tmp_path / "x.pcap"
        invoke("malform", change, "crc-zero", "--seed", str(seed), "-o", str(tmp_path / "both"))
        invoke("malform", change, "--seed", str(seed), "-o", str(path))
        octets.append(path.read_bytes())
        assert len({one.read_bytes() for one in (tmp_path / "both").glob("*seed*")} & {octets[-1]}) == 1
        for one in (tmp_path / "both").iterdir():
            one.unlink()
    assert len(set(octets)) == 3 and octets[1] == octets[3]
    invoke("malform", change, "-o", str(path))
    assert path.read_bytes() == octets[0]
    named = f"{change},seed=2" if ":" in change else f"{change}:seed=2"
    assert Malformed(named).write(path) and path.read_bytes() == octets[1]


def test_several_are_written_with_a_manifest(tmp_path: Path) -> None:
    result = invoke("malform", "--rule", "link-type", "--rule", "pad", "--crc", "left", "-o", str(tmp_path / "some"))
    told = validated((tmp_path / "some" / "manifest.json").read_text())
    assert result.stdout.endswith(f": {len(told['cases'])} captures and manifest.json\n")
    assert {case["left"] for case in told["cases"]} == {"crc", None}
    for case in told["cases"]:
        assert case["capture"].startswith(case["name"] + ".")
        found = analyze(tmp_path / "some" / case["capture"]).all_findings()
        expected = {(one["rule"], one["direction"]) for one in case["raises"]}
        assert {(one.rule.id, one.direction) for one in found} == expected
    assert {case["capture"] for case in told["cases"]} >= {"link-type-147.pcapng", "pad-40.pcap"}


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.options])
def test_what_analyze_has_to_be_told_is_said(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    said = invoke("malform", name, "-o", str(path)).stdout
    _, _, command = said.strip().partition(", in which ")
    command, _, finds = command.partition(" finds ")
    assert finds == ", ".join(dict.fromkeys(one.rule for one in CASES[name].raised()))
    told = json.loads(invoke(*command.split(), "--format", "json", str(path)).stdout)
    found = [*told["findings"], *(one for connection in told["connections"] for one in connection["findings"])]
    assert {one["rule"] for one in found} == set(finds.split(", "))


def test_a_folder_may_be_called_as_standard_output_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "-").mkdir()
    monkeypatch.chdir(tmp_path)
    assert invoke("malform", "crc-zero", "-o", "./-").stdout == "./-: 1 capture and manifest.json\n"
    assert invoke("malform", "crc-zero", "-o", "-").stdout_bytes == (tmp_path / "-" / "crc-zero.pcap").read_bytes()


def test_several_do_not_go_into_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    with pytest.raises(click.UsageError, match="this is a file, but 4 captures need a folder"):
        invoke("malform", "pad-0", "pad-1", "pad-2", "pad-3", "-o", str(path))
    assert path.read_text() == "x"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no case is selected"),
        (("crc-zero",), "no output: -o"),
        (("crc-zero", "--all", "-o", "x"), "--all selects all"),
        (("crc-zero", "--format", "json", "-o", "x"), "--format is only for --list"),
        (("--list", "-o", "x"), "--list writes no files"),
        (("--list", "crc-zero", "--format", "md"), "leave out the options that select cases"),
        (("crc-zero", "crc-ones", "-o", "-"), "takes one capture"),
        (("crc-zero", "--seed", "1", "-o", "x"), "--seed is for impairments"),
    ],
)
def test_what_cannot_be_used(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(click.UsageError, match=message.replace("?", r"\?")):
        invoke("malform", *arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("crc-nil", "-o", "x"), "there is no case 'crc-nil'; similar: crc-"),
        (("crc-zero", "--crc", "left", "-o", "x"), "crc-zero has no choice of crc"),
        (("pad-40", "--crc", "left", "--lengths", "left", "-o", "x"), "either the CRC or the lengths"),
        (("--list", "--rule", "no-such"), "there is no rule 'no-such'"),
        (("--list", "--area", "space"), "there is no area 'space'; the areas are startup, "),
        (("--list", "--area", "tcp", "--rule", "pad"), "no case of pad in tcp"),
        (
            ("startup-key", "-o", "x"),
            "'startup-key' is a rule, not a case; `scapy-mpa malform --list --rule startup-key`",
        ),
    ],
)
def test_what_does_not_exist_is_one_line(arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises(MPAError) as told:
        invoke("malform", *arguments)
    assert message in str(told.value)


def test_the_command_as_it_is_run(tmp_path: Path) -> None:
    result = run("malform", "no-such-case", "-o", str(tmp_path / "x.pcap"))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("scapy-mpa: there is no case 'no-such-case'")
    assert not (tmp_path / "x.pcap").exists()


def test_the_page_is_what_the_command_prints() -> None:
    page = REPO / "docs" / "catalogue.md"
    assert page.read_text() == invoke("malform", "--list", "--format", "md").stdout, (
        "scapy-mpa malform --list --format md > docs/catalogue.md"
    )
    lines = page.read_text().splitlines()
    assert [line.split("`")[1] for line in lines if line.startswith("| `") and line.count("|") == 7] == list(CASES)


# --- from Python ---


def test_packets_are_dissected_in_a_fresh_process() -> None:
    """Whatever else has been imported: IP and TCP are there."""
    code = "from scapy_mpa import Malformed; print(Malformed('no-end').packets()[7].sprintf('%IP.src% %TCP.dport%'))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPO)
    assert result.stdout == "10.0.0.1 7471\n"


def test_malformed_in_python(tmp_path: Path) -> None:
    made = Malformed("crc-zero")
    assert made.case is CASES["crc-zero"] and made.outcome.peer.code == 2
    packets = made.packets()
    assert len(packets) == made.write(tmp_path / "x.pcap") == 15
    assert [bytes(packet) for packet in packets] == [bytes(packet) for packet in rdpcap(str(tmp_path / "x.pcap"))]
    assert all(TCP in packet for packet in packets)
    assert [packet.time for packet in packets] == sorted(packet.time for packet in packets)
    assert made.as_dict()["raises"][0] == {"rule": "crc", "direction": "initiator", "severity": "error"}
    finding = made.finding_of("crc")
    assert finding is not None and (finding.frame, finding.direction) == (8, "initiator")
    assert made.finding_of("pad") is None
    assert repr(made) == "<Malformed crc-zero: The CRC field is zero although CRCs are in use>"


def test_cases_in_python() -> None:
    assert Malformed.cases() == list(CASES.values())
    assert {case.area for case in Malformed.cases(area="teardown")} == {"teardown"}
    assert "pad-40" in [case.name for case in Malformed.cases("pad")]
    with pytest.raises(MPAError, match="there is no area 'space'"):
        Malformed.cases(area="space")
    with pytest.raises(MPAError, match="must be repaired or left"):
        Malformed("pad-40", crc="broken")  # type: ignore[arg-type]
