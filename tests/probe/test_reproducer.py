"""Cases as programs of their own: they import nothing of this package, and send what the command sent."""

from __future__ import annotations

import ast
import json
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from click import UsageError
from click.testing import CliRunner, Result

from scapy_mpa import MPAError, analyze
from scapy_mpa.cli import cli
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.probe.choice import all_cases
from scapy_mpa.probe.reproducer import Act, SentOctets, case_reproducer, message_acts, reproducer
from scapy_mpa.probe.script import Await, Finish
from tests.live.loopback import HOST, command, finished, interrupted, listening, read_to_end
from tests.probe.peers import plain_server

#: Lines of two screens.
TWO_SCREENS = 140
TCP_CASES = [case for case in all_cases().values() if case.reach.carriage == "tcp"]


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments], standalone_mode=False)


def run(program: Path, port: int) -> str:
    """Run a program where nothing of this package can be imported; returns what it prints."""
    arguments: list[str | Path] = [sys.executable, "-I", program, HOST, str(port)]
    result = subprocess.run(arguments, capture_output=True, text=True, cwd=program.parent, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    return result.stdout


@contextmanager
def recorder(m: int = 0) -> Iterator[tuple[int, list[bytes]]]:
    """A Responder that accepts, reads to the end and says nothing; yields its port, and what each connection sent."""
    came: list[bytes] = []
    has_come = threading.Semaphore(0)

    def serve(sock: socket.socket, _number: int) -> bool:
        first = bytearray()
        try:
            while len(first) < 20:
                first += sock.recv(20 - len(first)) or bytes(20)
            sock.sendall(startup_frame("reply", m=m, c=1, rev=first[17]).encode())
        finally:
            came.append(bytes(first) + read_to_end(sock))
            has_come.release()
        return True

    with plain_server(serve) as port:
        yield port, came


@pytest.mark.parametrize("m", [0, 1])
@pytest.mark.parametrize("name", ["crc-zero", "ulpdu-length-65535", "pad-0040"])
def test_what_malform_sent_is_sent_once_more(name: str, m: int, tmp_path: Path) -> None:
    program = tmp_path / "case.py"
    with recorder(m) as (port, came):
        result = invoke("malform", name, "--to", f"{HOST}:{port}", "--timeout", "0.2", "--script", str(program))
        assert result.exception is None, result.output
        assert f"{program}: sends {name} to HOST PORT" in result.stdout
        printed = run(program, port)
    clean, given, *_ = came
    assert came[-1] == given != clean
    assert re.findall(r"sent (\d+) octets", printed)[0] == "20"


def test_without_a_peer_the_octets_are_those_of_the_case(tmp_path: Path) -> None:
    """Those for a peer that asks for nothing, as the peer of the catalogue does."""
    program = tmp_path / "case.py"
    with recorder() as (port, came):
        assert invoke("malform", "crc-zero", "--script", str(program)).exception is None
        run(program, port)
        invoke("malform", "crc-zero", "--to", f"{HOST}:{port}", "--timeout", "0.2")
    # A clean connection comes before the case.
    assert came[0] == came[2] != came[1]


def test_a_program_whose_peer_is_not_there_says_so(tmp_path: Path) -> None:
    program = tmp_path / "case.py"
    assert invoke("malform", "crc-zero", "--script", str(program)).exception is None
    with socket.create_server((HOST, 0)) as free:
        port = str(free.getsockname()[1])
    result = subprocess.run([sys.executable, "-I", program, HOST, port], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"{HOST} port {port}: ") and result.stderr.count("\n") == 1


def test_what_probe_sent_is_sent_once_more(tmp_path: Path) -> None:
    program = tmp_path / "case.py"
    with recorder() as (port, came):
        result = invoke("probe", HOST, str(port), "--case", "crc-zero", "--timeout", "0.2", "--script", str(program))
        assert program.exists(), result.output
        before = list(came)
        run(program, port)
    assert came[-1] in before
    assert came[-1] != before[0]


def test_what_fuzz_sent_is_sent_once_more(tmp_path: Path) -> None:
    program, alone = tmp_path / "case.py", tmp_path / "alone.py"
    seed = ("--seed", "1", "--replay", "3", "--timeout", "0.2")
    with recorder() as (port, came):
        result = invoke("fuzz", "--to", f"{HOST}:{port}", *seed, "--script", str(program))
        assert json.loads(result.stdout)["case"] == 3
        sent = came[1]
        run(program, port)
        assert invoke("fuzz", *seed, "--script", str(alone)).exception is None
        run(alone, port)
    assert came[-1] == came[-2] == sent != came[0]


@pytest.mark.parametrize("name", ["crc-zero", "pad-0040"])
def test_our_listen_judges_both_alike(name: str, tmp_path: Path) -> None:
    """The connection of the program has the findings that the connection of malform has."""
    program, capture = tmp_path / "case.py", tmp_path / "listen.pcapng"
    with listening("--write", str(capture)) as (process, port):
        result = invoke("malform", name, "--to", f"{HOST}:{port}", "--timeout", "1", "--script", str(program))
        assert "  pass" in result.stdout.splitlines()
        assert "received" in run(program, port)
        interrupted(process)
    _, first, *_, last = analyze(capture).connections
    rules = [[(one.rule.id, one.direction, one.count) for one in connection.findings] for connection in (first, last)]
    assert rules[0] == rules[1]
    assert rules[0]
    assert first.initiator.counts.ulpdu_octets == last.initiator.counts.ulpdu_octets


def test_a_case_for_an_initiator_waits_for_one(tmp_path: Path) -> None:
    program = tmp_path / "case.py"
    assert invoke("malform", "reply-key-first-octet", "--script", str(program)).exception is None
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-I", program, HOST, str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting for an Initiator\n"
    status, said, _ = finished(command("connect", HOST, str(port), "--timeout", "2"))
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "sent 20 octets" in out
    assert status == 1
    assert "startup-key" in said


def test_every_case_is_a_program_that_needs_python_alone() -> None:
    lengths = []
    for case in TCP_CASES:
        text = case_reproducer(case)
        imported = {
            alias.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for alias in node.names
        }
        assert imported <= sys.stdlib_module_names
        assert case.name in text
        lengths.append(text.count("\n"))
    # What is longer is about very many segments, or about Private Data of 64 KiB.
    assert sum(length > TWO_SCREENS for length in lengths) < len(lengths) // 20


def test_the_acts_are_those_that_are_written(tmp_path: Path) -> None:
    """Waits, octets that are compressed, both ends, and text that would end a docstring."""
    acts: list[Act] = [
        SentOctets(b"MPA ID Req Frame" + bytes(4)),
        Await("startup"),
        SentOctets(bytes(70_000), 'a """ \\ b'),
        Finish("rst"),
    ]
    text = reproducer('Odd """ title \\', ["a note"], "initiator", acts)
    program = tmp_path / "case.py"
    program.write_text(text)
    came: list[bytes] = []

    def serve(sock: socket.socket, _number: int) -> bool:
        octets = bytearray(sock.recv(20))
        sock.sendall(startup_frame("reply", c=1, rev=1).encode())
        with suppress(ConnectionResetError):
            while more := sock.recv(65536):
                octets += more
            came.append(b"no RST")
        came.append(bytes(octets))
        return False

    with plain_server(serve) as port:
        assert "sent 70000 octets" in run(program, port)
    assert len(came) == 1
    # A RST takes octets away that were not read.
    assert came[0].startswith(b"MPA ID Req Frame")
    assert message_acts([SentOctets(b"a"), SentOctets(b"b")], "responder") == [
        Await("startup"), SentOctets(b"a"), Await("fpdu"), SentOctets(b"b")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("malform", "wrap-in-crc", "--script", "x.py"), "kernel"),
        (("malform", "crc-zero", "crc-ones", "--script", "x.py"), "one CASE"),
        (("malform", "crc-zero", "--list", "--script", "x.py"), "writes no files"),
        (("malform", "crc-zero", "--script", "none/x.py"), "none"),
        (("fuzz", "--script", "x.py"), "--replay"),
        (("fuzz", "--case", "17", "--script", "x.py"), "--replay 17"),
        (("fuzz", "--replay", "1"), "--script"),
        (("probe", HOST, "1", "--script", "x.py"), "--case"),
        (("probe", HOST, "1", "--case", "crc-zero", "--script", "none/x.py"), "no folder"),
    ],
)
def test_what_cannot_be_written(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    error = invoke(*arguments).exception
    assert isinstance(error, (UsageError, MPAError, OSError))
    assert words in str(error)
    assert list(tmp_path.iterdir()) == []
