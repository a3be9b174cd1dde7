"""What the commands print on terminals of 80 and 60 columns: no line too wide, no word broken, no escape too many."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scapy_mpa import analyze
from scapy_mpa.cli.lines import folded
from scapy_mpa.report.narrow import narrow_lines
from tests.conftest import PCAPS

REORDERED, RPING = str(PCAPS / "markers-reordered.pcap"), str(PCAPS / "siw-rping.pcap")
TERMINATE = str(PCAPS / "siw-terminate.pcap")
#: What each command prints for people; those that are not here print nothing but what they wrote, or talk to a peer.
COMMANDS = {
    "analyze": ("analyze", REORDERED, TERMINATE),
    "analyze-summary": ("analyze", TERMINATE, "--summary"),
    "annotate": ("annotate", RPING, "{folder}/out.pcapng"),
    "compare": ("compare", RPING, RPING),
    "craft": ("craft", "a4-single", "-o", "{folder}/out.pcap"),
    "craft-list": ("craft", "--list"),
    "export": ("export", RPING, "{folder}/out.pcapng"),
    "extract": ("extract", RPING, "-o", "{folder}/out.pcap"),
    "fpdus": ("fpdus", REORDERED),
    "fuzz-list": ("fuzz", "--list"),
    "lines": ("lines", TERMINATE),
    "malform-list": ("malform", "--list"),
    "malform-one": ("malform", "crc-ulpdu-octet", "--list"),
    "memory": ("memory", RPING),
    "messages": ("messages", TERMINATE),
    "messages-summary": ("messages", RPING, "--summary"),
    "probe-list": ("probe", "--list"),
    "rules": ("rules",),
    "rule": ("rules", "crc"),
    "show-frame": ("show", TERMINATE, "--frame", "17"),
    "show-fpdu": ("show", REORDERED, "--fpdu", "0/i/3"),
    "startup": ("startup", RPING),
    "no-file": ("analyze", "{folder}/there-is-no-capture-of-this-name.pcap"),
    "no-command": ("qqqq",),
}
#: Environments and options, and whether there are colours.
LOOKS: dict[str, tuple[dict[str, str], tuple[str, ...], bool]] = {
    "plain": ({}, (), True),
    "no-color": ({"NO_COLOR": "1"}, (), False),
    "dumb": ({"TERM": "dumb"}, (), False),
    "never": ({}, ("--color", "never"), False),
    "always": ({"NO_COLOR": "1"}, ("--color", "always"), True),
}
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


#: As -m scapy_mpa, but progress is shown from the first moment on, and reading takes its time.
AT_ONCE = """
import sys, time
from scapy_mpa.cli import main, progress
progress._PATIENCE, progress._INTERVAL = 0.0, 0.01
analyze = __import__("scapy_mpa.cli.options", fromlist=["analyze"])
read = analyze.analyze
def slowly(*arguments, **named):
    with open(sys.argv[2], "rb") as file:
        file.read(1000)
        time.sleep(0.5)
    return read(*arguments, **named)
analyze.analyze = slowly
main()
"""


#: As -m scapy_mpa, but no progress is shown, however slow the machine.
WITHOUT_PROGRESS = "from scapy_mpa.cli import main, progress; progress._PATIENCE = 1e6; main()"


def on_a_terminal(width: int, arguments: list[str], environment: dict[str, str], code: str = WITHOUT_PROGRESS) -> str:
    """Return what a command prints on a terminal of this many columns."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=kept | {"TERM": "xterm"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=side,
    )
    os.close(side)
    octets = b""
    while True:
        try:
            some = os.read(main, 1 << 16)
        except OSError:  # how Linux says that nobody has the other side open
            break
        if not some:
            break
        octets += some
    os.close(main)
    assert process.wait() in (0, 1, 2)
    return octets.decode().replace("\r\n", "\n")


def words_of(text: str) -> set[str]:
    return set(text.split())


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("name", COMMANDS)
def test_it_fits_the_terminal(name: str, width: int, tmp_path: Path) -> None:
    arguments = [one.format(folder=tmp_path) for one in COMMANDS[name]]
    shown = on_a_terminal(width, arguments, {"NO_COLOR": "1"})
    assert "\x1b" not in shown
    plain = subprocess.run(
        [sys.executable, "-m", "scapy_mpa", *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    whole = words_of(plain.stdout + plain.stderr)
    remarks = words_of(f"not shown in {width} columns: ; a wider terminal or --format csv json shows all")
    for line in shown.splitlines():
        # What has no blank has no place to be broken at.
        assert len(line) <= width or len(line.split()) == 1, line
        for word in line.split():
            known = word in whole or word in remarks or word.strip(",;:") in {one.strip(",;:") for one in whole}
            # startup names the side before each value where columns would be too narrow.
            assert known or word in ("Request:", "Reply:", "agreed:"), (word, line)


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("name", ["analyze", "show-frame"])
def test_escapes_are_those_of_colours_alone(name: str, look: str, tmp_path: Path) -> None:
    environment, options, has_colours = LOOKS[look]
    arguments = [one.format(folder=tmp_path) for one in COMMANDS[name]]
    shown = on_a_terminal(80, [*options, *arguments], environment)
    assert (ESCAPE.search(shown) is not None) is has_colours
    assert "\x1b" not in ESCAPE.sub("", shown)
    assert all(len(ESCAPE.sub("", line)) <= 80 for line in shown.splitlines())
    # The option stands before the name of the command, or behind it.
    assert on_a_terminal(80, [*arguments, *options], environment) == shown


@pytest.mark.parametrize(
    ("environment", "is_shown"), [({}, True), ({"NO_COLOR": "1"}, True), ({"TERM": "dumb"}, False)]
)
def test_progress_is_shown_and_disappears(environment: dict[str, str], is_shown: bool) -> None:
    shown = on_a_terminal(80, ["analyze", REORDERED], environment, AT_ONCE)
    assert ("reading" in shown) is is_shown
    _, _, after = shown.rpartition("reading")
    assert after.count("945 packets") == 1
    if is_shown:
        # The octets of the file that were read, of all; then the line is emptied.
        assert "/831.8 kB" in ESCAPE.sub("", shown) and "\x1b[2K" in after.partition("945 packets")[0]
        assert (ESCAPE.search(shown) is not None) is ("NO_COLOR" not in environment)
    else:
        assert "\x1b" not in shown
    assert "reading" not in on_a_terminal(80, ["analyze", REORDERED], environment)


def test_what_is_left_out_is_said() -> None:
    shown = on_a_terminal(80, ["fpdus", REORDERED], {})
    assert shown.startswith("not shown in 80 columns: octets, mark, by, delivered, frames;")
    wide = on_a_terminal(200, ["fpdus", REORDERED], {})
    assert wide == subprocess.run(
        [sys.executable, "-m", "scapy_mpa", "fpdus", REORDERED], capture_output=True, text=True, check=False
    ).stdout  # fmt: skip


@given(st.text(alphabet="ab .,|", max_size=200), st.integers(20, 90))
@example("  name          what it is, in more words than there is room for, and some more", 40)
@example("x" * 100, 20)
def test_folding_keeps_every_word(line: str, width: int) -> None:
    parts = [*folded(line, width)]
    assert " ".join(parts).split() == line.split()
    assert all(len(part) <= width or len(part.split()) == 1 for part in parts)
    if len(line) <= width:
        assert parts == [line]


@pytest.mark.parametrize("width", range(20, 130, 5))
def test_the_columns_that_are_left_are_those_of_the_list(width: int) -> None:
    (connection,) = analyze(REORDERED, fpdus=True).connections
    lines = [*narrow_lines(connection.initiator.fpdus, width)]
    heading = lines[1] if lines[0].startswith("not shown") else lines[0]
    assert {"direction", "seq", "opcode"} <= set(heading.split())
    assert len(heading) <= max(width, 35)
