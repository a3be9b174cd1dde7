"""Every command and every Python line that the documentation shows is run here, its output compared.

A fenced block says by its language what is done with it:

    console   ``$ command`` lines, each followed by what it prints (stdout and stderr as a terminal mixes them).
              Run by bash; the status must be 0, so a command that is to fail ends in ``; echo $?``. A command
              whose line ends in a backslash continues. In the output ``...`` at the end of a line stands for
              the rest of it, and alone on a line for any number of lines; blanks at line ends do not count.
    pycon     Python as typed at the prompt (``>>>``), compared by doctest with ELLIPSIS.
    python    Python without prompts; it must print nothing, for what it prints would not be compared. A line
              ``--8<-- "file"`` alone shows that file on the site; a console block of the page runs it.
    sh        What cannot be run here, from a short list: getting and installing the project, make.
    others    Samples of data (json, text, toml, ...) that hold no commands.

A document is run from top to bottom in one Python namespace, in a folder that shows the checkout but takes
the files that commands write. Commands share these files and nothing else.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from tests.conftest import REPO

DOCUMENTS = sorted(
    path
    for pattern in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "pcaps/*.md", "docs/**/*.md")
    for path in REPO.glob(pattern)
)

NOT_RUN = re.compile(
    r"""git\ clone\ https://\S+
    |   cd\ \S+
    |   make(\ (demo|test|test-all|benchmark|cases|docs|dist|clean|help))?
    |   python3\ -m\ venv\ \S+
    |   (\.|source)\ \S+/bin/activate
    |   (\S+/)?(python3?\ -m\ )?pip\ (install|wheel)\ .+
    |   (pipx|uv\ tool)\ install\ .+
    |   (sudo\ )?apt-get\ (update|install\ .+)
    # What needs another host with an RDMA driver: addresses of RFC 5737.
    |   modprobe\ siw
    |   rdma\ link\ add\ siw0\ type\ siw\ netdev\ eth0
    |   rping\ -[sc]\ -a\ 192\.0\.2\.\d\ .+
    |   ip\ route\ add\ 198\.51\.100\.\d\ via\ 192\.0\.2\.\d
    |   sysctl\ -w\ net\.ipv4\.ip_forward=1
    |   scapy-mpa\ probe\ 192\.0\.2\.2\ 7471\ (--recovery\ 5\ )?--monitor\ .+
    |   scapy-mpa\ probe\ (192\.0\.2|203\.0\.113)\.\d\ \d+\ --raw\ 198\.51\.100\.\d
    # What needs root, and changes this host's network.
    |   ip\ (-n\ peer\ )?(netns\ add|link|address\ add|route\ add)\ [\w./ ]+
    |   ip\ netns\ exec\ peer\ scapy-mpa\ listen\ .+
    |   scapy-mpa\ (connect|listen)\ 192\.0\.2\.\d\ .+
    |   python\ -m\ scripts\.dev\.siw_(interop|probe)\ .+
    |   ln\ -s\ /usr/local/bin/scapy-mpa-extcap\ \S+/extcap/
    |   tshark\ (-D|-i\ mpa-lo\ .+)
    # What needs traffic of another interface, a card with tracers, or another system.
    |   (tcpdump|dumpcap)\ -i\ (eth\d|t5nex0)\ .+
    |   cxgbetool\ t5nex0\ tracer\ \d\ (tx0|rx0|disable)
    |   cat\ /sys/kernel/debug/cxgb4/\S+/sge_qinfo
    |   echo\ "([rt]x0\ qid=\d\ snaplen=\d+|disable)"\ >\ /sys/kernel/debug/cxgb4/\S+/trace\d
    |   ethtool\ -K\ eth0(\ (tso|gso|gro)\ off)+
    |   pktmon\ (start|stop|etl2pcap)(\ .+)?
    # What needs a peer that the reader builds; tests/probe/test_coverage.py does all of it.
    |   gcc\ (-O0\ -fsanitize-coverage=trace-pc\ )?(-c\ )?\w+\.[co](\ \w+\.o\ -o\ peer)?
    |   scapy-mpa\ fuzz\ --coverage-source\ >\ coverage\.c
    |   scapy-mpa\ fuzz\ --to\ \S+\ --restart\ '\./peer\ 7471'\ --coverage\ .+
    # What needs other hosts with Dask's workers.
    |   dask\ (scheduler|worker\ .+)
    |   scapy-mpa\ analyze\ --cluster\ tcp://scheduler:8786\ .+
    """,
    re.VERBOSE,
)
INCLUDED = re.compile(r'--8<-- "(\S+)"\n')
SAMPLES = {"json", "jsonl", "text", "toml", "csv", "yaml", "ini", "lua", "mermaid", "diff"}
LOOKS_RUN = re.compile(r"\s*(\$|>>>|#!|scapy-mpa\b|make\b|python3?\b|pip\b|import\b|from \S+ import\b)")

#: Programs that a machine may lack: commands that run one are passed over there.
MAY_BE_ABSENT = ("jq",)

SECONDS = 120  # for one command


@dataclass(frozen=True)
class Block:
    """A code block: its language ("indented" if it has no fence), the number of its first line, its text."""

    language: str
    line: int
    text: str


@dataclass(frozen=True)
class Command:
    """A command of a console block, the number of its line, and the lines that it shall print."""

    line: int
    command: str
    output: tuple[str, ...]


def blocks(markdown: str) -> Iterator[Block]:
    """The code blocks of a document, those in lists and quotations too."""
    for token in MarkdownIt().parse(markdown):
        if token.type == "fence" and token.map:
            yield Block(token.info.strip(), token.map[0] + 2, token.content)
        elif token.type == "code_block" and token.map:
            yield Block("indented", token.map[0] + 1, token.content)


def commands(block: Block) -> Iterator[Command]:
    """The commands of a console block."""
    lines = block.text.splitlines()
    if not lines or not lines[0].startswith("$ "):
        raise ValueError(f"line {block.line}: a console block begins with `$ command`")
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        last = start
        while lines[last].endswith("\\"):
            last += 1
        command = "\n".join(lines[start : last + 1])
        yield Command(block.line + start, command.removeprefix("$ "), tuple(lines[last + 1 : end]))


def agrees(expected: tuple[str, ...], printed: str) -> bool:
    """Return True if a command printed what is expected of it, with ``...`` as in the module's docstring."""

    def pattern(line: str) -> str:
        line = line.rstrip()
        if line == "...":
            return r"(?:.*\n)*"
        if line.endswith("..."):
            return re.escape(line.removesuffix("...")) + r".*\n"
        return re.escape(line) + r"\n"

    lines = "".join(line.rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch("".join(map(pattern, expected)), lines) is not None


def run_command(command: Command, cwd: Path) -> str:
    """Run a command; what was wrong, or nothing."""
    if any(shutil.which(name) is None for name in MAY_BE_ABSENT if re.search(rf"\b{name}\b", command.command)):
        return ""
    environment = {
        **os.environ,
        # Where Scapy's extensions put what completes commands.
        "BASH_COMPLETION_USER_DIR": str(cwd),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "110",
        "LC_ALL": "C.UTF-8",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "TZ": "UTC",
    }
    result = subprocess.run(
        ["bash", "-c", command.command],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
        text=True,
    )
    problems = []
    if result.returncode:
        problems.append(f"exit status {result.returncode}\n")
    if not agrees(command.output, result.stdout):
        expected = "".join(f"{line}\n" for line in command.output)
        problems.append(f"expected:\n{expected}printed:\n{result.stdout}")
    return f"line {command.line}: $ {command.command}\n{''.join(problems)}" if problems else ""


def run_prompt(block: Block, namespace: dict[str, Any], name: str) -> str:
    """Run what was typed at the Python prompt; what was wrong, or nothing."""
    test = doctest.DocTestParser().get_doctest(block.text, {}, name, name, block.line - 1)
    if not test.examples:
        return f"line {block.line}: a pycon block without a prompt\n"
    test.globs = namespace
    out = io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
    runner.run(test, out=out.write, clear_globs=False)
    return out.getvalue()


def run_python(block: Block, namespace: dict[str, Any], name: str) -> str:
    """Run Python without prompts, which must be silent; what was wrong, or nothing."""
    code = compile("\n" * (block.line - 1) + block.text, name, "exec", dont_inherit=True)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    printed = out.getvalue()
    return f"line {block.line}: printed, but not compared (use pycon):\n{printed}" if printed else ""


def run_document(markdown: str, name: str, cwd: Path) -> str:
    """Run all that a document prints, from top to bottom; everything that was wrong."""
    problems = []
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(markdown):
        if INCLUDED.fullmatch(block.text):
            continue
        elif block.language == "console":
            problems += [run_command(command, cwd) for command in commands(block)]
        elif block.language == "pycon":
            problems.append(run_prompt(block, namespace, name))
        elif block.language == "python":
            problems.append(run_python(block, namespace, name))
    return "\n".join(filter(None, problems))


def misplaced(markdown: str) -> list[str]:
    """What stands in a block in which it would not be run and compared, and is not excused from it."""
    problems = []
    for block in blocks(markdown):
        if block.language == "sh":
            parts = [part.strip() for part in re.split(r"&&|\n", re.sub(r"(^|\s)#.*", "", block.text))]
            problems += [
                f"line {block.line}: not on the list of what need not be run: {part}"
                for part in parts
                if part and (set(part) & set(";|&`$") or not NOT_RUN.fullmatch(part))
            ]
        elif block.language == "console":
            problems += [
                f"line {command.line}: an expectation that everything meets: $ {command.command}"
                for command in commands(block)
                if {line.rstrip() for line in command.output} == {"..."}
            ]
        elif included := INCLUDED.fullmatch(block.text):
            if not (REPO / included[1]).is_file() or f"$ python {included[1]} " not in markdown:
                problems.append(f"line {block.line}: {included[1]} is not there, or no command runs it")
        elif block.language == "python" and ">>>" in block.text:
            problems.append(f"line {block.line}: prompts belong in pycon")
        elif block.language in SAMPLES:
            if LOOKS_RUN.match(block.text):
                problems.append(f"line {block.line}: looks like something to run in a {block.language} block")
        elif block.language not in {"python", "pycon"}:
            problems.append(f"line {block.line}: what is a block of kind {block.language!r}?")
    return problems


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder that shows the checkout, and takes the files that examples write."""
    for path in REPO.iterdir():
        if path.name != ".git":
            (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(REPO))) for path in DOCUMENTS])
def test_document_prints_what_happens(path: Path, checkout: Path) -> None:
    problems = run_document(path.read_text(), str(path.relative_to(REPO)), checkout)
    if problems:
        pytest.fail(problems, pytrace=False)


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(REPO))) for path in DOCUMENTS])
def test_document_leaves_nothing_out(path: Path) -> None:
    assert misplaced(path.read_text()) == []


# The harness itself: each of these documents is right as it stands, and wrong with one word changed.

RIGHT = {
    "stdout and stderr": ("```console\n$ echo one; echo two >&2\none\ntwo\n```", "two\n```", "three\n```"),
    "any lines": ("```console\n$ printf '1\\n2\\n3\\n'\n1\n...\n3\n```", "...", "2\n2"),
    "rest of a line": ("```console\n$ echo takes 12 ms\ntakes ...\n```", "takes ...", "needs ..."),
    "continued line": ("```console\n$ echo a \\\n    b\na b\n$ true\n$ echo c\nc\n```", "a b\n$", "ab\n$"),
    "exit status": ("```console\n$ (exit 3); echo $?\n3\n```", "; echo $?\n3", ""),
    "files stay": (
        "```console\n$ echo kept > file\n```\n```console\n$ cat file\nkept\n```",
        "kept >",
        "lost >",
    ),
    "silence expected": ("```console\n$ ls LICENSE\nLICENSE\n```", "LICENSE\nLICENSE", "LICENSE"),
    "in a list": ("1. a list\n\n   ```console\n   $ echo one\n   one\n   ```", "   one\n", "   two\n"),
    "doctest": ("```pycon\n>>> 1 + 1\n2\n```", "2", "3"),
    "one namespace": ("```python\nx = 1\n```\n```pycon\n>>> x\n1\n```", "x = 1", "x = 2"),
    "exception": (
        "```pycon\n>>> 1 / 0\nTraceback (most recent call last):\nZeroDivisionError: ...\n```",
        "ZeroD",
        "D",
    ),
    "silent python": ("```python\nx = 1\n```", "x = 1", "print(1)"),
}


@pytest.mark.parametrize(("markdown", "old", "new"), RIGHT.values(), ids=RIGHT)
def test_harness_tells_right_from_wrong(markdown: str, old: str, new: str, checkout: Path) -> None:
    assert run_document(markdown, "right", checkout) == ""
    assert old in markdown
    assert run_document(markdown.replace(old, new), "wrong", checkout) != ""


def test_what_needs_a_program_that_is_absent_is_passed_over(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "```console\n$ echo jq\nyq\n$ echo q\np\n```"
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert run_document(wrong, "x.md", checkout) == "line 4: $ echo q\nexpected:\np\nprinted:\nq\n"
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert run_document(wrong, "x.md", checkout).startswith("line 2: $ echo jq\n")


def test_harness_names_the_line(checkout: Path) -> None:
    console = run_document("text\n\n```console\n$ true\n$ echo b\na\n```\n", "x.md", checkout)
    assert console == "line 5: $ echo b\nexpected:\na\nprinted:\nb\n"
    assert "line 4, in x.md" in run_document("\n```pycon\n>>> x = 1\n>>> x\n2\n```\n", "x.md", checkout)


@pytest.mark.parametrize(
    "markdown",
    [
        "```sh\nmake demo\nmake test # both\n```",
        "```sh\ngit clone https://example.org/x && cd x\npip install 'scapy-mpa[wireshark]'\n```",
        '```json\n{"schema": 1}\n```',
        '```console\n$ python scripts/fuzz_pcap.py a 1 b\n```\n```python\n--8<-- "scripts/fuzz_pcap.py"\n```',
        "```console\n$ echo a\n...\na\n```",
    ],
)
def test_what_need_not_be_run(markdown: str) -> None:
    assert misplaced(markdown) == []


@pytest.mark.parametrize(
    "markdown",
    [
        "```sh\nscapy-mpa analyze x.pcap\n```",
        "```sh\nmake demo; rm -r x\n```",
        "```sh\nmake demo && scapy-mpa fpdus x.pcap\n```",
        "```bash\nmake demo\n```",
        "```\nmake demo\n```",
        "    make demo",
        "```text\n$ make demo\n```",
        "```json\nscapy-mpa analyze --format json x.pcap\n```",
        "```python\n>>> 1\n2\n```",
        '```python\n--8<-- "scripts/fuzz_pcap.py"\n```',
        '```console\n$ python scripts/none.py x\n```\n```python\n--8<-- "scripts/none.py"\n```',
        "```console\n$ echo a\n...\n```",
    ],
)
def test_what_must_be_run(markdown: str) -> None:
    assert misplaced(markdown) != []


def test_console_block_begins_with_a_command() -> None:
    with pytest.raises(ValueError, match="line 2: "):
        list(commands(next(blocks("```console\nscapy-mpa --version\n```"))))
