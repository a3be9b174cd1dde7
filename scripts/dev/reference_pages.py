#!/usr/bin/env python3
"""Write the pages of the reference that come out of the program: docs/commands.md and docs/rules.md.

    python -m scripts.dev.reference_pages

docs/commands.md has each command's ``--help`` and a real example, with what it prints. What may differ from run to run,
or continues for long, is ``...`` there, as everywhere in the documentation.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from scapy_mpa.cli.group import GROUPS
from scapy_mpa.rules.table import GROUPS as RULE_GROUPS
from scapy_mpa.rules.table import RULES, Rule

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
COMMANDS_PAGE = DOCS / "commands.md"
RULES_PAGE = DOCS / "rules.md"
MADE_BY = "<!-- Made by `python -m scripts.dev.reference_pages`. -->"

#: Says what a command prints.
Run = Callable[[str], str]


class Example(NamedTuple):
    """Commands of an example, and how many lines of what each prints are shown (None: all).

    ``masked`` is a pattern: the rest of a line after what it matches may be different the next time.
    """

    commands: tuple[str, ...]
    lines: int | None = None
    masked: str | None = None


_LISTEN: Final = "scapy-mpa listen {port} --ulp echo --count 1 -q > server.txt 2>&1 &"

EXAMPLES: Final[dict[str, Example]] = {
    "analyze": Example(("scapy-mpa analyze pcaps/suiw-two-hosts.pcap",)),
    "fpdus": Example(("scapy-mpa fpdus pcaps/siw-terminate.pcap",)),
    "messages": Example(("scapy-mpa messages pcaps/siw-terminate.pcap",)),
    "memory": Example(("scapy-mpa memory pcaps/siw-rping.pcap",)),
    "show": Example(("scapy-mpa show pcaps/siw-terminate.pcap --fpdu 0/responder/4",), 16),
    "lines": Example(("scapy-mpa lines pcaps/siw-terminate.pcap",), 8),
    "startup": Example(("scapy-mpa startup pcaps/markers-one-way.pcap",)),
    "compare": Example(
        (
            "scapy-mpa craft middlebox -o sent.pcap",
            "scapy-mpa craft middlebox --impair corrupt:probability=0.05,repaired=true -o received.pcap",
            "scapy-mpa compare sent.pcap received.pcap; echo $?",
        )
    ),
    "rules": Example(("scapy-mpa rules fpduptr-origin",)),
    "plot": Example(("scapy-mpa plot pcaps/siw-terminate.pcap -o ladder.svg",)),
    "report": Example(("scapy-mpa report pcaps/siw-terminate.pcap -o page.html",)),
    "extract": Example(("scapy-mpa extract pcaps/siw-three-in-a-row.pcap --connection 1 -o one.pcap",)),
    "reduce": Example(("scapy-mpa reduce pcaps/siw-client-killed.pcap.zst few.pcap --rule pad",)),
    "scrub": Example(("scapy-mpa scrub pcaps/siw-terminate.pcap shared.pcap",)),
    "craft": Example(("scapy-mpa craft lossy-network -o lossy.pcap --truth lossy.jsonl",)),
    "malform": Example(("scapy-mpa malform crc-zero -o wrong.pcap",)),
    "fuzz": Example(("scapy-mpa fuzz --count 20 --seed 1 -o cases", "ls cases | head -n 4")),
    "connect": Example(
        (_LISTEN.format(port=7481), "scapy-mpa connect 127.0.0.1 7481 --ulp echo --count 1 --retry 20"),
        masked=r"#0 (initiator|responder) frame ",
    ),
    "listen": Example(
        (
            "scapy-mpa listen 7482 --ulp echo --count 1 > server.txt 2>&1 &",
            "scapy-mpa connect 127.0.0.1 7482 --ulp echo --count 1 --retry 20 -q",
            "sleep 1; tail -n 2 server.txt",
        )
    ),
    "probe": Example(
        (
            "scapy-mpa listen 7483 -q > server.txt 2>&1 & echo $! > pids; sleep 2",
            "scapy-mpa probe 127.0.0.1 7483 --timeout 0.3 --case 'crc-*'",
            "kill $(cat pids)",
        )
    ),
    "shell": Example(("echo 'print(mulpdu(1460, markers=True))' | scapy-mpa shell 2>/dev/null | grep -o '14[0-9]*$'",)),
    "annotate": Example(("scapy-mpa annotate pcaps/siw-terminate.pcap commented.pcapng",)),
    "crosscheck": Example(
        ("scapy-mpa crosscheck pcaps/siw-crc-rping.pcap",), masked="FPDUs: 35 ours, 35 of Wireshark "
    ),
    "export": Example(("scapy-mpa export pcaps/siw-terminate.pcap ulpdus.pcapng",)),
    "completion": Example(("scapy-mpa completion bash",), 3),
}

_COMMANDS_HEAD: Final = f"""# Commands

{MADE_BY}

Each command with its `--help` and an example. The examples read the captures in `pcaps/`. `...` stands for lines, or
the rest of a line, left out here.

Exit status, unless the help of a command says otherwise: 0 if no finding is an error, 1 if one is, 2 if the input or
the arguments cannot be used.
"""

_RULES_HEAD: Final = f"""# Rules

{MADE_BY}

Traffic is checked against these COUNT rules. Each finding of [`analyze`](analysis.md) names one of them. `scapy-mpa
rules ID` prints the same for one rule, with the requirements behind it. [Conformance](conformance.md) lists them
by the clauses of the specifications. The [glossary](glossary.md#severity) explains *error*,
*warning* and *note*."""


def shown(printed: str, example: Example) -> list[str]:
    """The lines of an example's output that stand on the page."""
    lines = [line.rstrip() for line in printed.splitlines()]
    cut = example.lines is not None and len(lines) > example.lines
    if example.masked is not None:
        lines = [line[: found.end()] + "..." if (found := re.match(example.masked, line)) else line for line in lines]
    return [*lines[: example.lines], "..."] if cut else lines


def console(commands: tuple[str, ...], run: Run, example: Example) -> list[str]:
    """A block of commands with what they print."""
    block = ["```console"]
    for command in commands:
        block += [f"$ {command}", *shown(run(command), example)]
    return [*block, "```", ""]


def commands_page(run: Run) -> str:
    """The text of docs/commands.md, with what ``run`` says that commands print."""
    page = [_COMMANDS_HEAD]
    for title, group in GROUPS.items():
        page += [f"## {title}", ""]
        for name, (what, _) in group.items():
            page += [f"### {name}", "", what, ""]
            page += console((f"scapy-mpa {name} --help",), run, Example(()))
            page += console(EXAMPLES[name].commands, run, EXAMPLES[name])
    return "\n".join(page).rstrip("\n") + "\n"


def rules_page() -> str:
    """The text of docs/rules.md."""
    page = [_RULES_HEAD.replace("COUNT", str(len(RULES)))]
    for topic, rules in RULE_GROUPS.items():
        page += ["", f"## {topic}"]
        for rule in rules:
            page += ["", f"### {rule.id}", "", *_of_rule(rule)]
    return "\n".join(page) + "\n"


def _of_rule(rule: Rule) -> Iterator[str]:
    said: list[str] = [rule.severity]
    if rule.code is not None:
        said.append(f"error code {rule.code}")
    if rule.observable != "capture":
        said.append("seen by a live endpoint alone")
    clauses = ", ".join(rule.clauses())
    word = f" ({rule.requirement})" if rule.requirement else ""
    yield f"*{', '.join(said)}.* Expected: {rule.expected}{word}."
    yield ""
    yield rule.why
    yield ""
    yield f"Clauses: {clauses}." if clauses else "No specification speaks of it."


def run_in(folder: Path) -> Run:
    """Runs commands as the tests of the documentation do, one after the other, in ``folder``."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "110",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TZ": "UTC",
    }

    def run(command: str) -> str:
        result = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=True,
            text=True,
        )
        return result.stdout

    return run


def main() -> None:
    """Write both pages."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in ROOT.iterdir():
            if path.name != ".git":
                (folder / path.name).symlink_to(path)
        COMMANDS_PAGE.write_text(commands_page(run_in(folder)), encoding="utf-8")
    RULES_PAGE.write_text(rules_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
