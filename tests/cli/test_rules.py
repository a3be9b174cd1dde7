"""``scapy-mpa rules``, and the options by which findings are chosen and the exit status is set."""

from __future__ import annotations

import copy
import itertools
import json
import re
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator

from scapy_mpa import analyze
from scapy_mpa.cli.judging import complete_rule
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.report.model import Report
from scapy_mpa.report.text import report_lines
from scapy_mpa.rules.findings import Findings
from scapy_mpa.rules.requirements import REASONS, REQUIREMENTS
from scapy_mpa.rules.table import GROUPS, RULES, SEVERITIES
from tests.cli.test_command import invoke, run
from tests.conftest import PCAPS, REPO
from tests.receive.cases import REPLY, Talk

SCHEMAS = REPO / "scapy_mpa" / "report"
WARNINGS = str(PCAPS / "markers-draft-origin.pcap")  # fpduptr-origin, a warning
NOTES = str(PCAPS / "siw-terminate.pcap")  # terminate and terminate-layout, warnings
ERRORS = str(PCAPS / "faulty-pad.pcap")  # connection-lost among others
CLEAN = str(PCAPS / "siw-rping.pcap")


def told(*arguments: str) -> list[str]:
    """The rules of the findings that ``analyze`` shows, each once."""
    report = json.loads(invoke("analyze", "--format", "json", *arguments).stdout)
    findings = [found for connection in report["connections"] for found in connection["findings"]]
    return sorted({found["rule"] for found in findings + report["findings"]})


# --- the list ---


def test_the_list_has_every_rule_under_its_topic() -> None:
    lines = invoke("rules").stdout.splitlines()
    assert [line for line in lines[1:-1] if not line.startswith(" ")] == list(GROUPS)
    listed = [line.split()[0] for line in lines[1:] if line.startswith("  ")]
    assert listed == list(RULES)
    crc = next(line for line in lines if line.startswith("  crc "))
    assert crc.split()[:4] == ["crc", "error", "2", "MUST"]
    assert crc.endswith(RULES["crc"].expected)


def validated(*arguments: str) -> Any:
    schema = json.loads((SCHEMAS / "rules.schema.json").read_text())
    Draft202012Validator.check_schema(schema)
    closed = json.loads(json.dumps(schema).replace('"additionalProperties": true', '"additionalProperties": false'))
    result = json.loads(invoke("rules", "--format", "json", *arguments).stdout)
    Draft202012Validator(closed).validate(result)
    return result


def test_json() -> None:
    result = validated()
    assert [rule["rule"] for rule in result["rules"]] == list(RULES)
    assert len(result["requirements"]) == sum(len(rows) for secs in REQUIREMENTS.values() for rows in secs.values())
    assert result["reasons"] == REASONS
    for found in result["requirements"]:
        places = {RULES[rule].observable for rule in found["rules"]}
        assert found["observable"] == ("capture" if "capture" in places else "endpoint" if places else None)
        assert (found["reason"] is None) == bool(found["rules"])


def test_json_of_one() -> None:
    result = validated("fpduptr-low-bits")
    (rule,) = result["rules"]
    assert rule["clauses"] == [
        "draft-culley-iwarp-mpa-02 §6.1", "draft-ietf-rddp-mpa-01 §4.1", "RFC 5044 §4.2",
    ]  # fmt: skip
    assert [(one["specification"], one["section"], one["number"]) for one in result["requirements"]] == [
        ("RFC 5044", "4.2", 3)
    ]
    assert result["reasons"] == {}


def test_the_page_is_what_the_command_prints() -> None:
    page = REPO / "docs" / "conformance.md"
    assert page.read_text() == invoke("rules", "--format", "md").stdout, (
        "scapy-mpa rules --format md > docs/conformance.md"
    )


def test_the_page_has_every_clause_and_every_rule() -> None:
    lines = (REPO / "docs" / "conformance.md").read_text().splitlines()
    rows = [line for line in lines if re.match(r"\| \d+ \| [A-Z ]+ \|", line)]
    assert len(rows) == sum(len(rows) for sections in REQUIREMENTS.values() for rows in sections.values())
    assert all(re.search(r"`[a-z0-9-]+` \|$|none: [a-z]+ \|$", row) for row in rows)
    assert [line.split("`")[1] for line in lines if line.startswith("| `")] == list(RULES)
    # Every table has as many cells in each row as in its head.
    for above, below in itertools.pairwise(lines):
        if above.startswith("|") and below.startswith("|"):
            assert above.count("|") == below.count("|")
    total = f"| together | {len(rows)} |"
    assert any(line.startswith(total) for line in lines)


# --- one rule ---


@pytest.mark.parametrize("rule", RULES)
def test_each_is_explained(rule: str) -> None:
    text = invoke("rules", rule).stdout
    assert text.startswith(f"{rule}: {RULES[rule].severity}")
    for part in (RULES[rule].expected, RULES[rule].why, *RULES[rule].clauses()):
        assert part in text
    found = RULES[rule].told_as or rule
    command = "memory" if RULES[rule] in GROUPS["Memory"] else "analyze"
    assert (f"scapy-mpa {command} --rules {found} CAPTURE" in text) == (RULES[rule].observable == "capture")
    assert ("error code" in text.splitlines()[0]) == (RULES[rule].code is not None)


def test_the_beginning_of_ids_lists_these() -> None:
    lines = invoke("rules", "ddp-m").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["DDP", "ddp-msn", "ddp-mo"]
    (whole,) = (line for line in invoke("rules").stdout.splitlines() if line.startswith("  ddp-mo "))
    assert lines[-1] == whole
    result = json.loads(invoke("rules", "ddp-m", "--format", "json").stdout)
    assert [rule["rule"] for rule in result["rules"]] == ["ddp-msn", "ddp-mo"]


@pytest.mark.parametrize(("name", "near"), [("marker-lenght", "marker-length"), ("origin", "fpduptr-origin")])
def test_an_unknown_rule_is_one_line_with_what_is_near_it(name: str, near: str) -> None:
    result = run("rules", name)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"scapy-mpa: there is no rule '{name}'") and near in line


def test_the_page_is_of_all_rules() -> None:
    with pytest.raises(click.UsageError, match="leave the ID out"):
        invoke("rules", "crc", "--format", "md")


@pytest.mark.parametrize(
    ("incomplete", "found"),
    [
        ("crc", ["crc", "crc-field", "crc-off", "crc-dropped"]),
        ("gap,fpduptr", ["gap,fpduptr-origin", "gap,fpduptr-low-bits"]),
        ("zz", []),
    ],
)
def test_completion(incomplete: str, found: list[str]) -> None:
    context = click.Context(click.Command("rules"))
    assert complete_rule(context, click.Argument(["rule_id"]), incomplete) == found


# --- which findings ---


@pytest.mark.parametrize(
    ("arguments", "rules"),
    [
        ((), ["terminate", "terminate-layout"]),
        (("--rules", "terminate"), ["terminate"]),
        (("--rules", "terminate-"), ["terminate-layout"]),
        (("--rules", "crc,terminate"), ["terminate"]),
        (("--rules", "crc", "--rules", "terminate"), ["terminate"]),
        (("--ignore", "terminate"), ["terminate-layout"]),
        (("--ignore", "term"), []),
        (("--ignore", "terminate, terminate-layout"), []),
        (("--rules", "term", "--ignore", "terminate"), ["terminate-layout"]),
        (("--rules", "gap"), []),
    ],
)
def test_rules_and_ignore(arguments: tuple[str, ...], rules: list[str]) -> None:
    chosen = [rule for rule in told(NOTES, *arguments) if rule.startswith("term")]
    assert chosen == rules
    text = invoke("analyze", NOTES, *arguments).stdout
    for rule in ("terminate", "terminate-layout"):
        assert (f" {rule}: " in text) == (rule in rules)


def test_what_is_filtered_is_not_counted_in_the_first_line() -> None:
    assert "1 warning" in invoke("analyze", WARNINGS, "--direction", "initiator").stdout
    first = invoke("analyze", WARNINGS, "--ignore", "fpduptr-origin,fpdu-above-emss").stdout.splitlines()[0]
    assert first.endswith("nothing to report")


@pytest.mark.parametrize("command", ["analyze", "fpdus"])
@pytest.mark.parametrize(
    ("capture", "arguments", "status"),
    [
        (ERRORS, (), 1),
        (ERRORS, ("--fail-on", "error"), 1),
        (ERRORS, ("--fail-on", "note"), 1),
        (ERRORS, ("--fail-on", "never"), 0),
        (WARNINGS, (), 0),
        (WARNINGS, ("--fail-on", "error"), 0),
        (WARNINGS, ("--fail-on", "warning"), 1),
        (WARNINGS, ("--fail-on", "note"), 1),
        (WARNINGS, ("--fail-on", "never"), 0),
        (WARNINGS, ("--fail-on", "note", "--ignore", "fpduptr-,fpdu-above-emss"), 0),
        (WARNINGS, ("--fail-on", "note", "--rules", "fpduptr-"), 1),
        (WARNINGS, ("--fail-on", "note", "--rules", "crc"), 0),
        (NOTES, ("--fail-on", "note", "--rules", "terminate"), 1),
        (NOTES, ("--fail-on", "warning", "--rules", "terminate"), 1),
        (NOTES, ("--fail-on", "error", "--rules", "terminate"), 0),
        (CLEAN, ("--fail-on", "warning"), 0),
    ],
)
def test_fail_on(command: str, capture: str, arguments: tuple[str, ...], status: int) -> None:
    assert invoke(command, capture, *arguments).return_value == status


def test_fail_on_judges_only_what_is_shown() -> None:
    """The three Terminates of the capture are in three connections, all from the responder."""
    capture = str(PCAPS / "siw-three-in-a-row.pcap")
    arguments = ("--fail-on", "note", "--rules", "terminate")
    assert invoke("analyze", capture, *arguments, "--connection", "1").return_value == 1
    assert {
        invoke("analyze", capture, *arguments, "--direction", direction).return_value
        for direction in ("initiator", "responder")
    } == {0, 1}


@pytest.mark.parametrize(
    "arguments",
    [
        ("analyze", CLEAN, "--rules", "crcs"),
        ("analyze", CLEAN, "--rules", ""),
        ("analyze", CLEAN, "--ignore", "crc,,pad"),
        ("fpdus", CLEAN, "--ignore", "no-such-"),
        ("analyze", CLEAN, "--fail-on", "fatal"),
    ],
)
def test_what_names_no_rule_is_one_line_and_status_2(arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("scapy-mpa: ")


def test_the_judged_negotiation_is_filtered_too(tmp_path: Path) -> None:
    talk = Talk().open()
    talk.greet("a", startup_frame("request", c=1, res=8).encode())
    talk.greet("b", REPLY)
    capture = tmp_path / "reserved.pcap"
    with capture.open("wb") as file:
        PcapWriter(file).write((seg.time, bytes(seg.buffer)) for seg in talk.operate().close().segments)
    for arguments, shown in (
        ((), True), (("--rules", "startup-"), True), (("--ignore", "startup-reserved-bits"), False),
        (("--rules", "crc"), False),
    ):  # fmt: skip
        assert ("startup-reserved-bits" in invoke("analyze", str(capture), *arguments).stdout) is shown
        told = json.loads(invoke("analyze", str(capture), *arguments, "--format", "json").stdout)
        ids = [found["id"] for found in told["connections"][0]["negotiation"]["violations"]]
        assert ids == (["startup-reserved-bits"] if shown else [])


# --- many connections, and which are shown ---

#: Ten rules, of all severities.
TEN = (
    *("crc", "connection-lost", "marker-length", "startup-frame", "rtr"),
    *("terminate", "startup-rejected", "pad", "gap", "alignment"),
)


def thousand() -> Report:
    """A report of 1,000 connections, ten of which broke a rule each."""
    report = analyze(CLEAN, fpdus=False)
    (one,) = report.connections
    report.connections = [copy.copy(one) for _ in range(1000)]
    for number, connection in enumerate(report.connections):
        connection.number, connection.findings = number, []
    for number, rule in enumerate(TEN):
        findings = Findings()
        findings.add(rule, "initiator", 30, 0, 1, "made for this test")
        report.connections[97 * number + 5].findings = findings.sorted()
    return report


def test_the_first_screen_has_every_rule() -> None:
    report = thousand()
    lines = [*report_lines(report)]
    screen = lines[:24]
    for rule in TEN:
        assert any(line.endswith(f" {rule}: 1 time, 1 connection") for line in screen), rule
    graves = [line.split()[0] for line in screen[2:12]]
    assert graves == sorted(graves, key=SEVERITIES.index)
    assert screen[1] == "  ended: 1000 by FIN"
    assert any("--all shows all" in line and "--rules ID" in line for line in screen)
    assert [int(line.split()[0][1:]) for line in lines if line.startswith("#")] == [97 * n + 5 for n in range(10)]
    assert sum(line.startswith("#") for line in report_lines(report, every=True)) == 1000
    assert not any(line.startswith("#") for line in report_lines(report, summary_only=True))


def test_at_most_fifty_are_told_of_the_gravest() -> None:
    report = thousand()
    for connection in report.connections:
        if not connection.findings:
            findings = Findings()
            findings.add("alignment", "initiator", 30, 0, 1, "made for this test")
            connection.findings = findings.sorted()
    shown = [int(line.split()[0][1:]) for line in report_lines(report) if line.startswith("#")]
    assert len(shown) == 50
    assert {97 * n + 5 for n in range(9)} <= set(shown)


THREE = str(PCAPS / "siw-three-in-a-row.pcap")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("--connection", "0", "--connection", "2"), [0, 2]),
        (("--host", "10.9.0.1"), [0, 1, 2]),
        (("--host", "192.0.2.1"), []),
        (("--severity", "warning"), [0, 1, 2]),
        (("--severity", "error"), []),
        (("--until", "1970-01-01"), []),
        (("--since", "1970-01-01T00:00:00Z"), [0, 1, 2]),
        (("--since", "4000000000.5"), []),
    ],
)
def test_connections_are_chosen(arguments: tuple[str, ...], shown: list[int]) -> None:
    result = invoke("analyze", THREE, *arguments)
    assert [int(line.split()[0][1:]) for line in result.stdout.splitlines() if line.startswith("#")] == shown
    assert (f"no connection matches {arguments[0]}" in result.stderr) == (not shown)


def test_time_divides_connections() -> None:
    first, second, third = analyze(THREE, fpdus=False).connections
    between = str(second.lifecycle.first[1] / 1_000_000_000)
    told = invoke("analyze", THREE, "--format", "json", "--since", between).stdout
    assert [one["connection"] for one in json.loads(told)["connections"]] == [1, 2]
    rows = invoke("fpdus", THREE, "--format", "jsonl", "--since", between).stdout.splitlines()
    assert {json.loads(row)["connection"] for row in rows} == {1, 2}
    assert first.lifecycle.last < third.lifecycle.first


def test_time_divides_what_is_exported(tmp_path: Path) -> None:
    every = [json.loads(line) for line in invoke("fpdus", THREE, "--format", "jsonl").stdout.splitlines()]
    middle = str(sorted(row["time"] for row in every)[len(every) // 2])
    for chosen in (("--since", middle), ("--until", middle), ()):
        rows = invoke("fpdus", THREE, "--format", "jsonl", *chosen).stdout.splitlines()
        said = invoke("export", THREE, str(tmp_path / "out.pcapng"), *chosen).stdout
        assert f": {len(rows)} ULPDUs in delivered order" in said
    assert len(rows) == len(every)


def test_fpdus_are_chosen() -> None:
    every = [json.loads(line) for line in invoke("fpdus", THREE, "--format", "jsonl").stdout.splitlines()]
    some = invoke("fpdus", THREE, "--format", "jsonl", "--opcode", "rdma read response", "--opcode", "Terminate").stdout
    assert [json.loads(line) for line in some.splitlines()] == [
        one for one in every if one["opcode"] in ("RDMA Read Response", "Terminate")
    ]
    (one,) = map(json.loads, invoke("fpdus", THREE, "--format", "jsonl", "--stag", "0x5715e300").stdout.splitlines())
    assert (one["opcode"], one["placed_frame"]) == ("RDMA Read Response", 40)
    assert "no FPDU matches --stag" in invoke("fpdus", THREE, "--stag", "1").stderr


@pytest.mark.parametrize("option", ["--direction=initiator", "--format=json", "--since=1", "--frames=1-9"])
def test_an_option_that_counts_once_is_refused_twice(option: str) -> None:
    result = run("analyze", THREE, option, option)
    assert result.returncode == 2
    assert f"{option.partition('=')[0]} is given twice" in result.stderr
