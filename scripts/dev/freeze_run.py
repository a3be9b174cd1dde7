#!/usr/bin/env python3
"""Run the commands of one checkout on the captures of a corpus: the part of `freeze.py` that a process runs.

Of the package it uses `scapy_mpa.cli.main` alone, as the installed command does, and it imports nothing else of a
checkout, so that it runs on any commit: what `PYTHONPATH` names is what is run.

    PYTHONPATH=CHECKOUT python scripts/dev/freeze_run.py hash '{"corpus": DIR, "share": 0, "of": 2, ...}' > LINES
    PYTHONPATH=CHECKOUT python scripts/dev/freeze_run.py show '{"corpus": DIR, "name": NAME, "command": COMMAND}'

A capture lies in the working folder as `0.pcap` (of several that are merged, the next is `1.pcap`), so no output names
a path.  A command has 60 seconds of CPU time; the captures whose commands take longer are said to be `timeout`.
"""

from __future__ import annotations

import gc
import hashlib
import io
import json
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, NoReturn

INDEX = "index.jsonl"
#: Seconds of CPU time that a command may take, octets of address space that a process may.
SECONDS, MEMORY = 60, 8 << 30
_WRITTEN = "out.pcapng"
_HASH_DIGITS = 16
_RULE = re.compile(rb'"rule": "([^"]+)"')
#: Captures between two lines about how far it is.
_TELL_EVERY = 1000


class Entry(NamedTuple):
    """A capture of the corpus, `part/rest`, and what is asked about it.

    `files` lie in the archive of the part, several to be merged; `options` go to every command.  `frames`, `fpdus` and
    `seqs` are for `show`, chosen when the corpus was made; without `full` neither `show` nor `annotate` is run.
    """

    name: str
    files: list[str]
    options: list[str] = []  # noqa: RUF012 - never changed
    frames: list[int] = []  # noqa: RUF012
    fpdus: list[str] = []  # noqa: RUF012
    seqs: list[int] = []  # noqa: RUF012
    full: bool = True

    @property
    def part(self) -> str:
        """The part of the corpus."""
        return self.name.partition("/")[0]

    @property
    def placed(self) -> list[str]:
        """The names under which a command is handed the files."""
        return [f"{number}{''.join(Path(name).suffixes[-2:])}" for number, name in enumerate(self.files)]


class Said(NamedTuple):
    """The result of a command: the exit status, `crash:TYPE` or `timeout`; a traceback is in `stderr`."""

    status: str
    stdout: bytes = b""
    stderr: bytes = b""
    written: bytes = b""

    @property
    def digest(self) -> str:
        """The hash; of a crash and a timeout it is that of the status alone."""
        sha = hashlib.sha256()
        for part in (self.status.encode(), *(self[1:] if self.status.isdigit() else ())):
            sha.update(b"%d:" % len(part) + part)
        return sha.hexdigest()[:_HASH_DIGITS]

    @property
    def rules(self) -> list[str]:
        """The rules that an `analyze --format json` names in its findings."""
        return sorted({rule.decode() for rule in _RULE.findall(self.stdout)})


class OutOfTime(BaseException):
    """A command has had its time; no `except Exception` keeps it."""


def index(corpus: Path, every: int = 1, only: Sequence[str] = ()) -> list[Entry]:
    """The captures of a corpus: each `every`-th of those whose name begins with one of `only`."""
    with (corpus / INDEX).open(encoding="utf-8") as lines:
        entries = [Entry(**json.loads(line)) for line in lines]
    return [entry for entry in entries if not only or entry.name.startswith(tuple(only))][::every]


def commands(entry: Entry) -> Iterator[tuple[str, list[str]]]:
    """Each command that is run on a capture, by the name it has in the list of hashes, with its arguments."""
    captures = [*entry.options, *entry.placed]
    yield "analyze", ["analyze", "--format", "json", *captures]
    yield "fpdus-stream", ["fpdus", "--format", "jsonl", "--order", "stream", *captures]
    yield "fpdus-placed", ["fpdus", "--format", "jsonl", "--order", "placed", *captures]
    yield "messages", ["messages", "--payload", "--format", "jsonl", *captures]
    if not entry.full:
        return
    yield "annotate", ["annotate", *entry.options, entry.placed[0], _WRITTEN]
    for frame in entry.frames:
        yield f"show {frame}", ["show", "--full", "--frame", str(frame), *captures]
    for fpdu in entry.fpdus:
        yield f"show {fpdu}", ["show", "--format", "json", "--fpdu", fpdu, *captures]
    for seq in entry.seqs:
        yield f"show seq {seq}", ["show", "--seq", str(seq), *captures]


class Runner:
    """Runs commands of the package in this process, in a working folder of its own.  It is a context manager."""

    def __init__(self) -> None:
        from scapy_mpa.cli import main

        self._main: Callable[[], object] = main
        self._stack = ExitStack()
        self.folder = Path()

    def __enter__(self) -> Runner:
        self.folder = Path(os.path.realpath(self._stack.enter_context(tempfile.TemporaryDirectory())))
        self._stack.callback(os.chdir, os.getcwd())
        os.chdir(self.folder)
        self._stack.callback(setattr, sys, "stdin", sys.stdin)
        sys.stdin = self._stack.enter_context(open(os.devnull, encoding="utf-8"))
        signal.signal(signal.SIGPROF, _out_of_time)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, arguments: Sequence[str]) -> Said:
        """Return what the command line does with these arguments."""
        self._remove(_WRITTEN)
        streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2)]
        before = sys.argv, sys.stdout, sys.stderr
        sys.argv, sys.stdout, sys.stderr = ["scapy-mpa", *arguments], *streams
        trace = b""
        try:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                self._main()
                status = "0"
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except SystemExit as end:
            status = str(end.code or 0)
        except OutOfTime:
            status, trace = "timeout", traceback.format_exc().encode()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a crash is what is written down
            status, trace = f"crash:{type(error).__name__}", traceback.format_exc().encode()
        finally:
            sys.argv, sys.stdout, sys.stderr = before
        stdout, stderr = (self._said(stream) for stream in streams)
        written = self.folder / _WRITTEN
        return Said(status, stdout, stderr + trace, written.read_bytes() if written.exists() else b"")

    def _said(self, stream: io.TextIOWrapper) -> bytes:
        stream.flush()
        octets = stream.buffer.getvalue()  # type: ignore[attr-defined]
        return bytes(octets).replace(str(self.folder).encode(), b".")

    def _remove(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def put(self, entry: Entry, files: Sequence[bytes]) -> None:
        """Have the files of a capture, and no others, in the working folder, under the names that `commands` uses."""
        for old in self.folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        for name, octets in zip(entry.placed, files, strict=True):
            (self.folder / name).write_bytes(octets)


class Archives:
    """The files of a corpus: an archive for each part, opened when it is needed."""

    def __init__(self, corpus: Path) -> None:
        self._corpus = corpus
        self._open: dict[str, zipfile.ZipFile] = {}

    def files(self, entry: Entry) -> list[bytes]:
        """The octets of a capture's files."""
        if entry.part not in self._open:
            self._open[entry.part] = zipfile.ZipFile(self._corpus / f"{entry.part}.zip")
        return [self._open[entry.part].read(name) for name in entry.files]


def lines_of(runner: Runner, entry: Entry) -> Iterator[str]:
    """A line for each command: name, command, hash, status and `limit`; for `analyze` also the rules found.

    After a timeout the rest is not run: it is `skipped`.
    """
    skips = False
    for command, arguments in commands(entry):
        said = Said("skipped") if skips else runner.run(arguments)
        skips = skips or said.status == "timeout"
        rules = said.rules if command == "analyze" else []
        flags = f"{said.status},limit" if "limit" in rules else said.status
        yield f"{entry.name}\t{command}\t{said.digest}\t{flags}\t{','.join(rules)}\n"


def hash_share(corpus: Path, share: int, of: int, every: int, only: Sequence[str]) -> None:
    """Write to stdout the lines of each `of`-th capture, from number `share` on."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    archives, stdout = Archives(corpus), sys.stdout
    mine = index(corpus, every, only)[share::of]
    with Runner() as runner:
        gc.freeze()
        for done, entry in enumerate(mine, 1):
            runner.put(entry, archives.files(entry))
            stdout.writelines(lines_of(runner, entry))
            if done % _TELL_EVERY == 0 or done == len(mine):
                print(f"process {share}: {done} of {len(mine)} captures", file=sys.stderr, flush=True)


def show(corpus: Path, name: str, command: str) -> None:
    """Write to stdout, as JSON, what one command says about one capture (octets as ISO 8859-1)."""
    entry = next(entry for entry in index(corpus) if entry.name == name)
    arguments = dict(commands(entry._replace(full=True)))[command]
    with Runner() as runner:
        runner.put(entry, Archives(corpus).files(entry))
        said = runner.run(arguments)
    parts = {key: value if isinstance(value, str) else value.decode("latin-1") for key, value in said._asdict().items()}
    print(json.dumps(parts))


def _out_of_time(_number: int, _frame: FrameType | None) -> NoReturn:
    raise OutOfTime


def main() -> None:
    """Do what the arguments ask for."""
    import scapy_mpa

    package = Path(os.environ["PYTHONPATH"]).resolve()
    if not Path(str(scapy_mpa.__file__)).resolve().is_relative_to(package):
        sys.exit(f"the package is {scapy_mpa.__file__}, which is not in {package}")
    given: dict[str, Any] = json.loads(sys.argv[2])
    given["corpus"] = Path(given["corpus"]).resolve()
    (hash_share if sys.argv[1] == "hash" else show)(**given)


if __name__ == "__main__":
    main()
