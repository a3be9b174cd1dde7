"""``scapy-mpa probe --learn``: options, statuses, formats, the graph."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa.cli import cli
from scapy_mpa.errors import MPAError
from scapy_mpa.probe.run import CannotStart
from tests.conftest import REPO
from tests.learn.peers import answers_now_and_then, planted, responder
from tests.probe.peers import HOST
from tests.probe.test_commands import closed, port_of

pytest.importorskip("aalpy")

SCHEMA = json.loads((REPO / "scapy_mpa" / "learn" / "learn.schema.json").read_text())
QUICK = ("--learn", "--silence", "0.02", "--timeout", "0.3")


def probe(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["probe", *arguments], standalone_mode=False)


def test_json_has_what_the_schema_says_and_the_status_counts_differences(tmp_path: Path) -> None:
    graph = str(tmp_path / "peer.dot")
    with planted("any-key") as target:
        result = probe(HOST, port_of(target), *QUICK, "--format", "json", "--learn-connections", "30", "--dot", graph)
    assert result.return_value == 1, result.output
    said: dict[str, Any] = json.loads(result.stdout)
    closed(SCHEMA).validate(said)
    assert (said["role"], said["complete"], said["connections"]) == ("responder", False, 30)
    assert said["why"] == "30 connections were made"
    (one,) = said["differences"]
    assert (one["inputs"], one["seen"]) == (["request-wrong-key"], ["Reply"])
    first = {step["input"]: step for step in said["states"][0]["transitions"]}
    assert first["request-wrong-pd-length"]["end"] in ("fin", "rst")


def test_text_names_states_differences_and_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = tmp_path / "peer.dot"
    monkeypatch.setenv("PATH", str(tmp_path))
    with planted("any-key") as target:
        result = probe(HOST, port_of(target), *QUICK, "--learn-connections", "20", "--dot", str(graph))
    assert result.return_value == 1, result.output
    lines = result.stdout.splitlines()
    assert "difference 1: request-wrong-key" in lines
    assert "  seen: Reply" in lines
    assert "not all was learned: 20 connections were made" in lines
    assert lines[-2] == "1 difference from RFC 5044 in what was learned"
    assert "program dot of Graphviz is not installed" in result.stderr
    text = graph.read_text()
    assert text.startswith('digraph "responder" {') and text.count("{") == text.count("}") == 1
    (red,) = [line for line in text.splitlines() if "color=red" in line]
    assert "request-wrong-key / Reply" in red


def test_a_picture_is_drawn_where_graphviz_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text(f"#!{sys.executable}\nimport sys\nopen(sys.argv[4], 'w').write(' '.join(sys.argv[1:4]))\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    graph = tmp_path / "peer.dot"
    with planted() as target:
        result = probe(HOST, port_of(target), *QUICK, "--learn-connections", "12", "--dot", str(graph))
    assert result.return_value == 0, result.output
    assert (tmp_path / "peer.svg").read_text() == f"-Tsvg {graph} -o"
    program.write_text(f"#!{sys.executable}\nraise SystemExit(1)\n")
    with planted() as target:
        result = probe(HOST, port_of(target), *QUICK, "--learn-connections", "12", "--dot", str(graph))
    assert isinstance(result.exception, MPAError)


def test_a_sequence_is_replayed() -> None:
    with planted("any-key") as target:
        result = probe(HOST, port_of(target), *QUICK, "--replay", "request-wrong-key fin send")
    assert result.return_value == 0
    assert result.stdout.splitlines() == [
        "request-wrong-key: 20 octets, 4d504120494420526571204672616d4540010000",
        "  Reply",
        "fin: FIN",
        "  close (FIN)",
        "send: not sent, the connection is over",
    ]


def test_answers_that_differ_count() -> None:
    with responder(answers_now_and_then(2)) as target:
        result = probe(HOST, port_of(target), *QUICK)
    assert result.return_value == 1, result.output
    lines = result.stdout.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("answers differ: request"))
    assert {*lines[at + 1 : at + 3]} == {"  seen: Reply", "  seen: Reply with R"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("--learn", "--junit", "x.xml"),
        ("--learn", "--format", "jsonl"),
        ("--learn", "--replay", "no-such-input"),
        ("--learn", "--replay", "request", "--format", "json"),
        ("--learn", "--dot", "-"),
        ("--silence", "1"),
        ("--format", "json"),
    ],
)
def test_what_does_not_go_together_is_refused(arguments: tuple[str, ...]) -> None:
    assert isinstance(probe(HOST, "9", *arguments).exception, UsageError)


def test_a_peer_that_is_silent_cannot_be_learned() -> None:
    with responder(lambda sock, _number: sock.recv(1 << 16)) as target:
        result = probe(HOST, port_of(target), *QUICK)
    assert isinstance(result.exception, CannotStart)


def test_without_aalpy_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aalpy", None)
    error = probe(HOST, "9", "--learn").exception
    assert isinstance(error, MPAError)
    assert str(error) == "--learn needs the package aalpy: pip install 'scapy-mpa[learn]'"
