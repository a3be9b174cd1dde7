"""The command ``scapy-mpa craft``, scenario files, and steps as text."""

from __future__ import annotations

import gc
import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from scapy_mpa import analyze
from scapy_mpa.cli import main
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.impairments import IMPAIRMENTS
from scapy_mpa.craft.scenario import load, parse, shipped, toml_value
from scapy_mpa.craft.segmentation import SEGMENTATIONS
from scapy_mpa.craft.steps import READERS, VERBS, say
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role
from tests.conftest import REPO


class Result(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


@pytest.fixture
def craft(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, run in this process."""
    monkeypatch.setattr(gc, "set_threshold", lambda *_: None)

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["scapy-mpa", "craft", *map(str, arguments)])
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as raised:
            main()
        assert isinstance(raised.value.code, int)
        return Result(raised.value.code, *capfdbinary.readouterr())

    return run


Craft = Callable[..., Result]


def fpdus(capture: Path) -> list[object]:
    return [
        record.as_dict()
        for connection in analyze(str(capture)).connections
        for half in (connection.initiator, connection.responder)
        for record in half.fpdus
    ]


def test_a_shipped_scenario_with_its_truth(craft: Craft, tmp_path: Path) -> None:
    capture, truth = tmp_path / "a.pcap", tmp_path / "a.jsonl"
    result = craft("middlebox", "-o", capture, "--truth", truth, "--seed", 4, "--impair", "reorder", "--impair", "lose")
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.decode().startswith(f"{capture}: ")
    records = [json.loads(line) for line in truth.read_text().splitlines()]
    assert records and records == fpdus(capture)
    assert {record["located_by"] for record in records} == {"start", "length", "marker"}


def test_options_say_what_a_file_does(craft: Craft, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'seed = 3\nimpair = [{kind = "duplicate", probability = 0.5}]\n'
        '[[connection]]\nm = [1, 0]\nsegmentation = { kind = "random", longest = 99 }\nvlan = 5\n'
        'private_data = ["hello", "hex:00ff"]\nsay = ["initiator send 500", "responder write text stag=3"]\n'
    )
    options = ["--seed", 3, "--impair", "duplicate:probability=0.5", "--set", "m=[1,0]", "--set", "vlan=5"]
    options += ["--set", 'segmentation={kind="random", longest=99}', "--set", 'private_data=["hello", "hex:00ff"]']
    options += ["--say", "initiator send 500", "--say", "responder write text stag=3"]
    assert craft(tmp_path / "s.toml", "-o", tmp_path / "file.pcapng").returncode == 0
    assert craft("-o", tmp_path / "options.pcapng", *options).returncode == 0
    one, two = (tmp_path / "file.pcapng").read_bytes(), (tmp_path / "options.pcapng").read_bytes()
    assert one == two and one[:4].hex() == "0a0d0d0a"


def test_standard_output_is_the_capture_and_nothing_else(craft: Craft, tmp_path: Path) -> None:
    assert craft("rfc5044-figure-5", "-o", tmp_path / "a.pcap").returncode == 0
    command = [sys.executable, "-m", "scapy_mpa", "craft", "rfc5044-figure-5", "-o", "-"]
    result = subprocess.run(command, capture_output=True, cwd=REPO, timeout=60, check=True)
    assert result.stdout == (tmp_path / "a.pcap").read_bytes() and not result.stderr
    assert craft("rfc5044-figure-5", "-o", "-", "--format", "pcapng").stdout[:4].hex() == "0a0d0d0a"


def test_the_truth_can_be_standard_output(craft: Craft, tmp_path: Path) -> None:
    result = craft("rfc5044-figure-5", "-o", tmp_path / "a.pcap", "--truth", "-")
    assert [json.loads(line) for line in result.stdout.splitlines()] == fpdus(tmp_path / "a.pcap")
    assert result.stdout and not result.stderr


def test_a_time_that_no_capture_can_tell_is_said(craft: Craft, tmp_path: Path) -> None:
    pauses = ["--say", "pause 1e6"] * 2600
    result = craft("-o", tmp_path / "a.pcap", *pauses)
    assert result.returncode == 2 and b"later than 2106" in result.stderr and result.stderr.count(b"\n") == 1


def test_a_capture_that_begins_after_its_end_is_empty(craft: Craft, tmp_path: Path) -> None:
    assert craft("middlebox", "-o", tmp_path / "a.pcap", "--impair", "cut:count=4000000000").returncode == 0
    assert (tmp_path / "a.pcap").stat().st_size == 24


def test_one_connection_of_several(craft: Craft, tmp_path: Path) -> None:
    assert craft("rfc5044-figure-17", "--connection", 1, "-o", tmp_path / "a.pcap").returncode == 0
    (connection,) = analyze(str(tmp_path / "a.pcap")).connections
    expected = load("rfc5044-figure-17").conversations[1].setup.m
    assert expected == (0, 1)
    assert (connection.request.m, connection.reply.m) == expected  # type: ignore[union-attr]


def test_an_impairment_of_one_connection_stays_with_it() -> None:
    scenario = load("two-kinds-at-once")
    lost = ["lose:probability=1,retransmit=false,connection=1"]
    assert not [one for one in scenario.traffic(lost, 1).packets() if one.in_operation and one.payload]
    assert [one for one in scenario.traffic(lost, 2).packets() if one.in_operation and one.payload]


def test_the_list_names_everything(craft: Craft) -> None:
    printed = craft("--list").stdout.decode()
    assert all(f"  {name}" in printed for name in (*shipped(), *IMPAIRMENTS, *SEGMENTATIONS))


SCENARIOS = {
    "not toml": ("[[connection]", "Expected"),
    "unknown": ("speed = 3", "a scenario has no entry speed"),
    "unknown of a connection": ("[[connection]]\nspeed = 3", "a connection has no entry speed"),
    "connection": ("connection = 3", "connections are tables"),
    "seed": ("seed = -1", "seed is -1"),
    "count": ("[[connection]]\ncount = true", "count is True"),
    "many": ("[[connection]]\ncount = 1000000", "more than 100000 connections"),
    "after": ('[[connection]]\nafter = "soon"', "after is 'soon'"),
    "say": ("[[connection]]\nsay = [3]", "say is [3], but must be a list of strings"),
    "step": ('[[connection]]\nsay = ["initiator sing"]', "step 'initiator sing': a side can stream, send"),
    "rule": ('[[connection]]\nsay = ["responder send 3"]', "rule 4"),
    "kind": ('[[connection]]\nm = "yes"', "m is 'yes', but must be a pair"),
    "kind inside": ('[[connection]]\nports = ["a", 3]', "ports is 'a', but must be a whole number"),
    "isn": ('[[connection]]\nisn = ["a", 3]\nsay = ["initiator send 3"]', "isn"),
    "hex": ('private_data = ["hex:0", ""]', "private_data: "),
    "impair": ('impair = ["fire"]', "there is no impairment 'fire'"),
    "impair kind": ('impair = [{kind = ["lose"]}]', "there is no impairment ['lose']"),
    "snap": ('impair = ["snap:length=10000000000"]', "snap: length is 10000000000"),
    "impair connection": ('impair = ["lose:connection=-1"]', "lose: connection is -1"),
    "deep": ("a = " + "[" * 5000 + "]" * 5000, "nested too deeply"),
    "empty": ("connection = []", "no connection"),
    "seed of a connection": ("[[connection]]\nseed = 3", "a connection has no entry seed"),
    "title": ("title = 3", "title is 3, but must be a text"),
    "pause": ('[[connection]]\nsay = ["pause 1e10"]', "pause is 10000000000.0"),
    "impair list": ('impair = "lose"', "must be a list"),
    "mtu": ('mtu = "1500"', "mtu is '1500'"),
    "rev": ("rev = [300, 0]", "rev is 300"),
    "vlan": ("vlan = 5000", "vlan is 5000"),
    "gap": ('gap = "x"', "gap is 'x', but must be a number"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_bad_scenario_is_one_line_on_stderr_and_status_2(name: str, craft: Craft, tmp_path: Path) -> None:
    text, message = SCENARIOS[name]
    with pytest.raises(MPAError) as raised:
        parse(text, "s.toml")
    assert message in str(raised.value) and str(raised.value).startswith("s.toml: ")
    if name in ("not toml", "rule"):
        (tmp_path / "s.toml").write_text(text)
        result = craft(tmp_path / "s.toml", "-o", tmp_path / "a.pcap")
        assert result.returncode == 2 and result.stdout == b""
        assert result.stderr.decode().startswith("scapy-mpa: ") and result.stderr.count(b"\n") == 1
        assert not (tmp_path / "a.pcap").exists()


ARGUMENTS = {
    "nowhere": (["middlebox"], "-o FILE"),
    "nothing": (["-o", "a.pcap"], "Missing argument 'SCENARIO'"),
    "unknown": (["nonesuch", "-o", "a.pcap"], "there is no scenario 'nonesuch'"),
    "no file": (["none.toml", "-o", "a.pcap"], "none.toml: No such file"),
    "setting": (["middlebox", "-o", "a.pcap", "--set", "m"], "not NAME=VALUE"),
    "parameter": (["middlebox", "-o", "a.pcap", "--set", "alter=1"], "there is no parameter alter"),
    "impairment": (["middlebox", "-o", "a.pcap", "--impair", "fire"], "no impairment 'fire'"),
    "connection": (["middlebox", "-o", "a.pcap", "--connection", "1"], "no connection 1; it has 1"),
    "impaired connection": (
        ["middlebox", "-o", "a.pcap", "--impair", "lose:connection=1"],
        "no connection 1; it has 1",
    ),
    "folder": (["middlebox", "-o", "none/a.pcap"], ": none/a.pcap: No such file"),
    "folder of the truth": (["middlebox", "-o", "a.pcap", "--truth", "none/a"], ": none/a: No such file"),
    "one file": (["middlebox", "-o", "a.pcap", "--truth", "./a.pcap"], "two have the same name"),
    "one output": (["middlebox", "-o", "-", "--truth", "-"], "two have the same name"),
    "seed": (["middlebox", "-o", "a.pcap", "--set", "seed=3"], "there is no parameter seed"),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_bad_arguments_are_one_line_on_stderr_and_status_2(
    name: str, craft: Craft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments, message = ARGUMENTS[name]
    monkeypatch.chdir(tmp_path)
    result = craft(*arguments)
    assert result.returncode == 2 and result.stdout == b"", result
    assert message in result.stderr.decode() and result.stderr.count(b"\n") == 1


def test_values_of_settings() -> None:
    values = {"1": 1, "[1, 0]": [1, 0], "true": True, '"text"': "text", "text": "text", "0x10": 16, "": ""}
    assert {text: toml_value(text) for text in values} == values


STEPS = {
    "initiator send 5000": Conversation().send("initiator", 5000),
    "initiator send hex:0aff times=2": Conversation().send("initiator", b"\n\xff").send("initiator", b"\n\xff"),
    "responder stream 'hello world'": Conversation().stream("responder", b"hello world"),
    "initiator write text stag=0x10 to=7": Conversation().write("initiator", b"text", stag=16, to=7),
    "initiator send x=1 solicited=true": Conversation().send("initiator", b"x=1", solicited=True),
    "initiator read 10 sink=1,2": Conversation().read("initiator", 10, sink=(1, 2)),
    "initiator read-request 10": Conversation().read_request("initiator", 10),
    "initiator atomic cmp-swap data=5": Conversation().atomic("initiator", "cmp-swap", data=5),
    "initiator terminate 2 0 7": Conversation().terminate("initiator", 2, 0, 7),
    "pause 0.5": Conversation().pause(0.5),
    "path-mtu 600": Conversation().path_mtu(600),
    "start": Conversation().start(),
    "close rst responder": Conversation().close("rst", "responder"),
    "initiator send 1,2": Conversation().send("initiator", b"1,2"),
    "initiator send true": Conversation().send("initiator", b"true"),
    "initiator send fetch-add": Conversation().send("initiator", b"fetch-add"),
    "initiator immediate 8": Conversation().immediate("initiator", 8),
}


@pytest.mark.parametrize("step", STEPS)
def test_steps_are_what_the_methods_do(step: str) -> None:
    conversation = Conversation()
    say(conversation, step)
    assert conversation.steps == STEPS[step].steps


BAD_STEPS = [
    "",
    "initiator",
    "nobody send 1",
    "initiator send 1 2 3",
    "initiator send 'open",
    "pause",
    "pause x",
    "start now",
]
BAD_STEPS += [
    "initiator send -1",
    "initiator send hex:0",
    "close slowly",
    "close rst nobody",
    "path-mtu 10",
    "initiator __init__",
]
BAD_STEPS += [
    "initiator send 1 times=x",
    "initiator send 1 times=10000000000",
    "initiator send 4294967296",
    "initiator immediate short",
    "initiator terminate text",
    "initiator write 1 stag=text",
    "initiator send 1 solicited=7",
    "initiator read 1 sink=1",
    "initiator ulpdu",
    "initiator atomic fetch-add operation=cmp-swap",
    "pause nan",
]


@pytest.mark.parametrize("step", BAD_STEPS)
def test_what_is_no_step_is_said(step: str) -> None:
    with pytest.raises(MPAError) as raised:
        say(Conversation(), step)
    assert str(raised.value).startswith(f"step {step!r}")


@pytest.mark.parametrize(
    ("step", "by", "hint"),
    [
        ("sned 3", "initiator", "did you mean send?"),
        ("sned 3", None, "a step begins with a side: initiator send 3"),
        ("send 'a b'", None, "a step begins with a side: initiator send 'a b'"),
        ("responder wriet 3", None, "did you mean write?"),
        ("pasue 1", None, "did you mean pause?"),
        ("fly", "initiator", "a step begins with stream, send, "),
        ("write 3 stg=2", "initiator", "did you mean stag=?"),
        ("send hi there", "initiator", 'quotation marks: send "hi there"'),
        ("write hi there you stag=16", "initiator", 'quotation marks: write "hi there you"'),
        ("pause", None, "seconds follow: pause 0.5"),
        ("initiator", None, "such as initiator send 100"),
    ],
)
def test_what_is_nearly_a_step_says_which(step: str, by: Role | None, hint: str) -> None:
    with pytest.raises(MPAError) as raised:
        say(Conversation(), step, by)
    assert str(raised.value).startswith(f"step {step!r}: ")
    assert hint in str(raised.value)


def test_numbers_that_are_too_many_are_no_text() -> None:
    with pytest.raises(MPAError, match="'2' is not expected: read takes") as raised:
        say(Conversation(), "initiator read 1 2 3")
    assert "quotation" not in str(raised.value)


def test_a_step_of_ours_is_quoted_as_it_was_typed() -> None:
    with pytest.raises(MPAError, match=r"^step 'write 3 stag=zz': stag is 'zz'"):
        say(Conversation(), "write 3 stag=zz", "initiator")


def test_every_parameter_of_a_verb_can_be_read() -> None:
    for verb in VERBS:
        parameters = dict(inspect.signature(getattr(Conversation(), verb.replace("-", "_"))).parameters)
        assert parameters.pop("side").annotation == "Role"
        assert {parameter.annotation for parameter in parameters.values()} <= READERS.keys(), verb


def test_nothing_of_it_imports_scapy_and_no_other_command_imports_it() -> None:
    traffic = "import sys, scapy_mpa.craft.scenario as s; s.load('middlebox'); sys.exit('scapy' in sys.modules)"
    others = "import sys, scapy_mpa.cli; sys.exit(any(name.startswith('scapy_mpa.craft.') for name in sys.modules))"
    for code in (traffic, others):
        assert subprocess.run([sys.executable, "-c", code], cwd=REPO, timeout=60, check=False).returncode == 0


def test_it_says_what_happened_to_the_packets(craft: Craft, tmp_path: Path) -> None:
    made = tmp_path / "made.pcap"
    impairments = ["--impair", "cut:count=1", "--impair", "lose:probability=0", "--impair", "snap"]
    told = craft("rfc5044-figure-5", *impairments, "-o", made).stdout.decode()
    packets = analyze(str(made)).packets
    assert told == f"{made}: {packets} packets, 1 connection; 0 segments lost, 1 packet before the capture begins\n"
