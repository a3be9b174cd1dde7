"""``scapy-mpa probe`` and what other commands have of it: options, statuses, formats."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner, Result
from jsonschema import Draft202012Validator
from junitparser import JUnitXml

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.probe.choice import all_cases
from scapy_mpa.probe.run import CannotStart
from tests.conftest import REPO
from tests.live.loopback import command, finished, listening
from tests.probe.peers import HOST, our_responder, plain_server
from tests.probe.test_run import dies_of, replies

SCHEMA = json.loads((REPO / "scapy_mpa" / "probe" / "probe.schema.json").read_text())
QUICK = ("--timeout", "1")


def probe(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["probe", *arguments], standalone_mode=False)


def malform(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["malform", *arguments], standalone_mode=False)


def port_of(target: object) -> str:
    return str(target._connector).rpartition(":")[2]  # type: ignore[attr-defined]


def closed(schema: dict[str, object]) -> Draft202012Validator:
    """The schema without keys that it does not name."""
    Draft202012Validator.check_schema(schema)
    text = json.dumps(schema).replace('"additionalProperties": true', '"additionalProperties": false')
    return Draft202012Validator(json.loads(text))


def test_lines_follow_the_schema_and_are_alone() -> None:
    validator = closed(SCHEMA)
    with our_responder() as target:
        result = probe(
            HOST, port_of(target), *QUICK, "--format", "jsonl", "--case", "*-private-data-*", "--case", "crc-*"
        )
    assert result.return_value == 0, result.output
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert len(lines) > 40
    for line in lines:
        validator.validate(line)
        assert line["case"] in all_cases()
    assert {line["verdict"] for line in lines} >= {"pass", "unsupported"}
    (crc,) = [line for line in lines if line["case"] == "crc-zero"]
    assert (crc["clause"], crc["requirement"], crc["seen"]["terminate"]["code"]) == ("RFC 5044 §4.4", "MUST", 2)
    # What DESIGN promises.
    promised = ("case", "area", "clause", "requirement", "role", "expected", "seen", "verdict", "seconds", "frames")
    assert {*promised} <= crc.keys()


def test_a_table_junit_and_captures_of_what_fails(tmp_path: Path) -> None:
    xml, folder, page = tmp_path / "junit.xml", tmp_path / "failed", tmp_path / "page.html"
    names = ("valid-m0-c0", "crc-zero", "marker-at-4", "ulpdu-length-0-write")
    arguments = [word for name in names for word in ("--case", name)]
    with our_responder("reply-reserved-bit-0x08") as target:
        files = ("--junit", str(xml), "--html", str(page), "--write", str(folder))
        result = probe(HOST, port_of(target), *QUICK, *arguments, *files)
    assert result.return_value == 1, result.output
    html = page.read_text(encoding="utf-8")
    assert all(f'id="case-{name}"' in html for name in names)
    assert "4 cases: 1 pass, 1 allowed, 1 unsupported, 1 fail" in html
    assert f"scapy-mpa analyze {folder / 'valid-m0-c0.pcapng'}" in html
    assert "startup-reserved-bits" in result.stdout
    assert "4 cases: 1 pass, 1 allowed, 1 unsupported, 1 fail" in result.stdout
    suites = JUnitXml.fromfile(str(xml))
    assert (suites.tests, suites.failures, suites.skipped, suites.errors) == (4, 1, 1, 0)
    assert {case.name for suite in suites for case in suite} == {*names}
    assert [one.name for one in folder.iterdir()] == ["valid-m0-c0.pcapng"]
    found = {one.rule.id for one in analyze(str(folder / "valid-m0-c0.pcapng")).all_findings()}
    assert "startup-reserved-bits" in found


def test_known_failures_do_not_count(tmp_path: Path) -> None:
    known = tmp_path / "known"
    known.write_text("valid-m0-c0  # sends a reserved bit\n")
    with our_responder("reply-reserved-bit-0x08") as target:
        arguments = (HOST, port_of(target), *QUICK, "--case", "valid-m0-c0", "--case", "crc-zero")
        assert probe(*arguments).return_value == 1
        result = probe(*arguments, "--expected", str(known))
        assert result.return_value == 0
        assert "(1 known)" in result.stdout
        known.write_text("crc-zero\n")
        result = probe(*arguments, "--expected", str(known))
        assert result.return_value == 1
        assert "2 cases: 2 fail" in result.stdout


def test_a_peer_of_which_nothing_can_be_tested_does_not_pass() -> None:
    """A peer that rejects every connection closes on errors too, which proves nothing."""
    cases = ("--case", "request-private-data-513", "--case", "request-key-*", "--case", "crc-zero")
    reply = startup_frame("reply", c=1, r=1).encode()
    with plain_server(lambda sock, _: bool(replies(sock, reply)) or True) as port:
        result = probe(HOST, str(port), *QUICK, *cases)
        assert isinstance(result.exception, CannotStart)
        assert "4 cases: the peer rejects" in str(result.exception)
        assert "unsupported: 4 the peer rejects the connection" in result.stdout
        required = probe(HOST, str(port), *QUICK, *cases, "--require", "fpdu")
    assert required.return_value == 1
    assert "1 deviation" in required.stdout


@pytest.mark.parametrize(("columns", "most"), [("", 160), ("100", 100)])
def test_a_table_in_a_pipe_is_as_wide_as_asked_for(columns: str, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    with our_responder() as target:
        result = probe(HOST, port_of(target), *QUICK, "--area", "startup", "--all")
    assert max(map(len, result.stdout.splitlines())) == most


def test_a_peer_is_named_by_one_word_or_two() -> None:
    with our_responder() as target:
        port = port_of(target)
        for words in ([f"{HOST}:{port}"], [HOST, port]):
            assert malform("pad-0040", "--to", *words, *QUICK).return_value == 0
            assert probe(*words, *QUICK, "--case", "pad-0040").return_value == 0


def test_status_2_and_3(tmp_path: Path) -> None:
    with socket.create_server((HOST, 0)) as free:
        port = str(free.getsockname()[1])
    result = probe(HOST, port, *QUICK)
    assert isinstance(result.exception, MPAError)
    assert "refused" in str(result.exception)
    with plain_server(lambda sock, _: dies_of(sock, b"\xff\xff\xff\xff")) as alive:
        result = probe(HOST, str(alive), *QUICK, "--case", "pad-0", "--case", "crc-ones", "--case", "crc-reversed")
    assert result.return_value == 3
    assert "after crc-ones" in result.stderr
    assert "peer gone" in result.stdout
    assert "crc-reversed" not in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        (HOST,),
        (HOST, "0"),
        (HOST, "7471", "--run", "true"),
        (HOST, "7471", "--listen", "0"),
        ("--listen", "x"),
        (HOST, "7471", "--case", "no-such"),
        (HOST, "7471", "--area", "sea"),
        (HOST, "7471", "--clause", "RFC 1"),
        (HOST, "7471", "--case", "wrap-in-crc"),
        (HOST, "7471", "--case", "reply-key-first-octet"),
        (HOST, "7471", "--junit", "-"),
        (HOST, "7471", "--html", "-"),
        (HOST, "7471", "--expected", "/nowhere"),
        ("--listen", "0", "--run", "'"),
    ],
)
def test_what_cannot_be_used(arguments: tuple[str, ...]) -> None:
    result = probe(*arguments)
    assert isinstance(result.exception, (MPAError, UsageError))


@pytest.mark.parametrize("option", ["--html", "--junit"])
def test_a_file_that_cannot_be_made_is_said_before_anything_is_sent(option: str, tmp_path: Path) -> None:
    for name, words in ((tmp_path / "none" / "x", "there is no folder"), (tmp_path, "is a directory")):
        error = probe(HOST, "1", option, str(name)).exception
        assert isinstance(error, UsageError)
        assert words in str(error)


def test_the_list_says_role_and_carrier_of_each_case() -> None:
    lines = probe("--list").stdout.splitlines()
    assert len(lines) == len(all_cases()) + 1
    assert "the kernel's TCP" in lines[-1]
    told = [json.loads(line) for line in probe("--list", "--format", "jsonl").stdout.splitlines()]
    assert [one["case"] for one in told] == [*all_cases()]
    for one in told:
        assert one["role"] in ("initiator", "responder")
        assert one["carrier"] in ("tcp", "raw", "capture")
        assert bool(one["why"]) == (one["carrier"] != "tcp")
    assert probe("--list", "--area", "attack").stdout.splitlines()[-1] == "100 cases: own TCP (--raw) 100"


def test_an_initiator_that_a_command_starts() -> None:
    """As it is used: the command is our own connect, once for each connection."""
    run = f"{sys.executable} -m scapy_mpa connect 127.0.0.1 {{port}} -q --say 'send 30' --wait 1 --timeout 1"
    cases = ("--case", "valid-reply-m1-c1", "--case", "reply-key-first-octet", "--case", "wait*", "--case", "crc-of-*")
    process = command("probe", "--listen", "0", "--run", run, *QUICK, *cases[:4], *cases[6:], "--format", "jsonl")
    status, out, err = finished(process)
    assert (status, err) == (0, "")
    assert [json.loads(line)["verdict"] for line in out.splitlines()] == ["pass"] * 3


def test_malform_to_a_live_peer(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcapng"
    with our_responder() as target:
        where = f"{HOST}:{port_of(target)}"
        result = CliRunner().invoke(
            cli, ["malform", "crc-zero", "--to", where, *QUICK, "-o", str(capture)], standalone_mode=False
        )
        assert result.return_value == 0, result.output
        assert "  expected: Terminate: LLP MPA error: CRC does not match" in result.stdout
        assert "  pass" in result.stdout.splitlines()
        found = {one.rule.id for one in analyze(str(capture)).all_findings()}
        assert {"crc", "terminate"} <= found
        left = CliRunner().invoke(
            cli, ["malform", "pad-0040", "--crc", "left", "--to", where, *QUICK], standalone_mode=False
        )
        assert "CRC does not match" in left.stdout
        assert left.return_value == 0
    for arguments, word in (
        (["wrap-in-crc", "--to", where], "kernel"),
        (["reply-key-first-octet", "--to", where], "--listen"),
        (["crc-zero", "--to", "7471"], "HOST PORT"),
        (["crc-zero", "crc-ones", "--to", where], "probe"),
        (["crc-zero", "--to", where], "refused"),
    ):
        result = CliRunner().invoke(cli, ["malform", *arguments])
        assert result.exit_code != 0
        assert word in result.output + str(result.exception)


def test_break_is_an_option_of_both_commands() -> None:
    """The endpoint of the command is wrong as it says, and its peer finds it."""
    with listening("--count", "1", "--break", "reply-private-data-513") as (_, port):
        status, out, _ = finished(command("connect", HOST, str(port), "--say", "send 10"))
        assert status == 1
        assert "startup-private-data-limit" in out
    with listening("--count", "1", "-q") as (process, port):
        finished(command("connect", HOST, str(port), "--break", "crc-ulpdu-octet"))
        status, out, _ = finished(process)
        assert status == 1
        assert "crc: FPDU with a ULPDU of 78 octets" in out
    for arguments in (["listen", "0", "--break", "crc-zero"], ["connect", HOST, "1", "--break", "wrap-in-crc"]):
        result = CliRunner().invoke(cli, arguments)
        assert isinstance(result.exception, MPAError)


def test_without_junitparser_it_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "junitparser", None)
    result = probe(HOST, "1", "--junit", os.devnull)
    assert "scapy-mpa[junit]" in str(result.exception)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    result = probe(HOST, "1", "--html", "page.html")
    assert "scapy-mpa[report]" in str(result.exception)
