"""All commands as one: groups, suggestions, words cut short, colours, completion, and help that fits the terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from scapy_mpa.cli.completion import SHELLS
from scapy_mpa.cli.group import COMMANDS, GROUPS
from tests.cli.test_command import invoke, run
from tests.conftest import PCAPS

TERMINATE = str(PCAPS / "siw-terminate.pcap")
ESCAPE = "\x1b"


def test_there_are_few_commands_and_all_are_in_a_group() -> None:
    modules = {path.stem for path in (Path(__file__).parents[2] / "scapy_mpa" / "cli").glob("*.py")}
    assert set(COMMANDS) <= modules
    assert len(COMMANDS) <= 25
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_the_terminal(command: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ([command] if command else []) + ["--help"]
    words = {"python", "-m", "scapy_mpa", *invoke(*arguments).stdout.split()}
    monkeypatch.setenv("COLUMNS", str(width))
    said = run(*arguments).stdout
    assert said
    assert ESCAPE not in said and "docs/" not in said
    for before, line in pairwise(["", *said.splitlines()]):
        # A choice of many words and a path have no place to be broken at.
        assert len(line) <= width or "|" in line or "/" in line, line
        # A hyphen is one.
        whole = line.split()[before.endswith("-") :]
        assert all(word in words or "-" in word for word in whole), line


@pytest.mark.parametrize("command", [name for group in GROUPS.values() for name in group])
def test_each_example_names_options_that_there_are(command: str) -> None:
    _, example = next(group[command] for group in GROUPS.values() if command in group)
    assert example.split()[0] == command
    said = invoke(command, "--help").stdout
    for option in re.findall(r"(?<!\S)--?[a-z]+", example):
        assert option in said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("analize", "x"), "there is no command 'analize'; did you mean analyze?"),
        (("qqqq",), "there is no command 'qqqq'; the commands are analyze, "),
        # OUT; before click 8.3 CAPTURE....
        (("export", TERMINATE), "Missing argument '"),
        (("annotate", TERMINATE), "Missing argument '"),
        (("export",), "Missing argument 'CAPTURE...'."),
        (("fpdus", TERMINATE, "-d", "x"), "'x' is not one of 'initiator', 'responder'"),
        (("craft", "--say", "initiator send @/nowhere/at-all", "-o", "x.pcap"), "/nowhere/at-all: No such file"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[str, ...], says: str) -> None:
    result = run(*arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert says in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("-d", "i"), ("-d", "init"), ("--direction", "initiator")])
def test_words_may_be_cut_short(words: tuple[str, ...]) -> None:
    assert invoke("fpdus", TERMINATE, *words).stdout == invoke("fpdus", TERMINATE, "--direction", "initiator").stdout


@pytest.mark.parametrize(
    ("octets", "says"),
    [
        (b"snoop\0\0\0\0\0\0\2", "a snoop file; editcap"),
        (b"GMBU\0\0\0\0", "a Network Monitor file; editcap"),
        (b"\xfd7zXZ\0\0\4", "compressed with xz; xz -dc"),
        (b"BZh91AY&SY", "compressed with bzip2; bzip2 -dc"),
        (b"PK\3\4\0\0", "a zip archive; unzip -p"),
        ((1 << 16).to_bytes(4, "little") + bytes(60), "etl2pcapng"),
        (b"hello, world", "not a pcap file"),
    ],
)
def test_files_that_are_not_read_are_named(tmp_path: Path, octets: bytes, says: str) -> None:
    path = tmp_path / "capture"
    path.write_bytes(octets)
    result = run("analyze", str(path))
    assert result.returncode == 2 and says in result.stderr and result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "environment", "coloured"),
    [
        ((), {}, False),
        (("--color", "always"), {}, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "always"), {"TERM": "dumb"}, True),
        (("--color", "never"), {}, False),
        (("--color", "auto"), {"NO_COLOR": "1"}, False),
    ],
)
@pytest.mark.parametrize("command", ["analyze", "show"])
def test_colours(
    command: str,
    options: tuple[str, ...],
    environment: dict[str, str],
    coloured: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    which = ["--frame", "17"] if command == "show" else []
    result = run(command, TERMINATE, *which, *options)
    assert result.returncode in (0, 1), result.stderr
    assert (ESCAPE in result.stdout) is coloured


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_a_script(shell: str) -> None:
    said = run("completion", shell)
    assert said.returncode == 0 and "_SCAPY_MPA_COMPLETE" in said.stdout


def test_bash_completes_commands_and_values() -> None:
    """As the script asks for it."""

    def completed(*words: str) -> list[str]:
        environment = {
            "_SCAPY_MPA_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        code = "import sys; sys.argv[0] = 'scapy-mpa'; from scapy_mpa.cli import main; main()"
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
        return [line.partition(",")[2] for line in said.stdout.splitlines()]

    assert completed("scapy-mpa", "an") == ["analyze", "annotate"]
    assert completed("scapy-mpa", "fpdus", "--order", "p") == ["placed"]
    assert "--summary" in completed("scapy-mpa", "analyze", "--s")


def test_a_step_sends_the_octets_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "octets").write_bytes(bytes(range(256)))
    made = [tmp_path / "file.pcap", tmp_path / "hex.pcap"]
    texts = (f"@{tmp_path / 'octets'}", f"hex:{bytes(range(256)).hex()}")
    for path, text in zip(made, texts, strict=True):
        assert invoke("craft", "--say", f"initiator send {text} times=2", "-o", str(path)).return_value == 0
    assert made[0].read_bytes() == made[1].read_bytes()
