"""File names that would write to the terminal, or that are no text: as commands print them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PCAPS, REPO

#: A name, and how it is printed: colours, a second line, octets that are no UTF-8, a name that reads backwards.
NAMES = {
    b"\x1b[31mred.pcap": "\\x1b[31mred.pcap",
    b"a\nscapy-mpa: all is well.pcap": "a\\x0ascapy-mpa: all is well.pcap",
    b"\xff\xfe.pcap": "\\xff\\xfe.pcap",
    "a\u202epacp.exe".encode(): "a\\u202epacp.exe",
    "Übung – 1.pcap".encode(): "Übung – 1.pcap",
}
FAULTY = PCAPS / "faulty-pad.pcap"
#: Commands with {there}, a capture that can be read in part, {none}, which is not there, and {out}.
COMMANDS = [
    "analyze {there}",
    "analyze {none}",
    "analyze --jobs 2 {none}",
    "fpdus {there}",
    "show {there} --frame 4",
    "lines {there}",
    "annotate {there} {out}",
    "annotate {there} {there}",
    "annotate {there} {none}/out",
    "export {there} {out}",
    "extract {there} -o {out}",
    "memory {there} --format json",
    "memory {there} -o {there}",
    "messages {there} --directory {out}",
    "messages {there} --directory {there}",
    "craft middlebox -o {out}",
    "craft {none}.toml -o {out}",
    "craft middlebox -o {none}/out",
    "malform crc-zero -o {out}",
    "malform pad-0 pad-1 -o {out}",
    "malform pad-0 pad-1 -o {there}",
    "malform pad-0 pad-1 -o {none}/out",
    "malform {none}",
    "fuzz --from {there} --count 1 -o {out}",
    "fuzz --from {none} --count 1 -o {out}",
    "fuzz --from {there} --case 1 -o {out}",
    "crosscheck {there}",
    "compare {there} {there}",
    "compare {there} {none}",
    "compare {there} {there} --picture {there}",
    "compare {there} {there} --picture {none}/out",
    "rules {none}",
    "{none}",
]


def run(command: str, name: bytes, tmp_path: Path, *more: str) -> subprocess.CompletedProcess[bytes]:
    text = os.fsdecode(name)
    there = tmp_path / text
    if not there.exists():
        there.write_bytes(FAULTY.read_bytes()[:-7])
    names = {"there": text, "none": f"no {text}", "out": f"out {text}"}
    arguments = [part.format(**names) for part in command.split()]
    environment = {**os.environ, "PYTHONPATH": str(REPO)}
    return subprocess.run(
        [sys.executable, "-m", "scapy_mpa", *arguments, *more],
        capture_output=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES, ids=NAMES.values())
def test_what_is_printed(command: str, name: bytes, tmp_path: Path) -> None:
    done = run(command, name, tmp_path)
    assert done.returncode in (0, 1, 2)
    for octets in (done.stdout, done.stderr):
        text = octets.decode()  # is UTF-8
        assert not set(text) & {"\x1b", "\u202e"} and "Traceback" not in text
        for line in text.splitlines():
            assert line != "scapy-mpa: all is well.pcap"
    assert done.returncode != 2 or len(done.stderr.splitlines()) == 1
    is_in_words_of_click = command in ("messages {there} --directory {there}", "malform {none}", "{none}")
    is_named = not command.startswith(("fpdus", "show", "rules")) and not is_in_words_of_click
    assert NAMES[name] in (done.stdout + done.stderr).decode() or not is_named


@pytest.mark.parametrize("command", ["analyze", "show --fpdu 0/i/0", "crosscheck"])
@pytest.mark.parametrize("name", NAMES, ids=NAMES.values())
def test_json(command: str, name: bytes, tmp_path: Path) -> None:
    if "crosscheck" in command and shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    told = json.loads(run(command + " {there} --format json", name, tmp_path).stdout)
    (said,) = told["captures"] if "captures" in told else [told["capture"]]
    said.encode()
    try:
        # What is text is the name, whatever it does to terminals: a program opens the file by it.
        assert said == name.decode()
    except UnicodeDecodeError:
        assert said == NAMES[name]


@pytest.mark.parametrize("name", NAMES, ids=NAMES.values())
def test_names_in_logs_are_text(name: bytes, tmp_path: Path) -> None:
    assert run("fuzz --from {there} --count 2 -o out", name, tmp_path).returncode == 0
    lines = (tmp_path / "out" / "cases.jsonl").read_text().splitlines()
    assert [json.loads(line)["baseline"] for line in lines] == [NAMES[name]] * 2
    done = run("messages {there} --format jsonl --directory {out}", name, tmp_path)
    for line in done.stdout.splitlines():
        json.loads(line)["payload"].encode()
    assert done.stdout
