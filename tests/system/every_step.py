"""A program that is ended at each of its steps: ``python -m tests.system.every_step FOLDER WORK SIGNAL``.

For each number n it forks; the child does some work and sends itself a signal before its n-th line, in the modules of
`TRACED`. One JSON line a child says how it ended and what it left behind; the last child is one that was not ended.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL, PIPE
from types import FrameType
from typing import Any

from scapy_mpa.system.ending import ends_orderly
from scapy_mpa.system.programs import started
from scapy_mpa.system.temporary import MemoryFirst, temporary_file
from scapy_mpa.system.whole import whole_file, write_whole

#: Where a file is made, written, named and removed, and a program started; the rest only computes.
TRACED = (
    "system/whole.py",
    "system/temporary.py",
    "system/programs.py",
    "contextlib.py",
    "tempfile.py",
    "subprocess.py",
)

BEFORE, AFTER = b"before", b"x" * 100_000


def write_new(folder: Path) -> None:
    write_whole(folder / "new", AFTER)


def replace(folder: Path) -> None:
    with whole_file(folder / "old") as file:
        file.write(AFTER[:50_000])
        file.write(AFTER[50_000:])


def fail(folder: Path) -> None:
    try:
        with whole_file(folder / "new"):
            raise OSError
    except OSError:
        pass


def spill(folder: Path) -> None:
    tempfile.tempdir = str(folder)
    # As on a file system that cannot make a file without a name.
    tempfile._O_TMPFILE_WORKS = False  # type: ignore[attr-defined]
    with temporary_file() as file, MemoryFirst(max_size=3) as other:
        file.write(AFTER)
        other.write(AFTER)


def program(folder: Path) -> None:
    with started(["sleep", "1000"], stdout=PIPE, stderr=DEVNULL) as process:
        process.kill()


WORK: dict[str, Callable[[Path], None]] = {work.__name__: work for work in (write_new, replace, fail, spill, program)}


def stopped_at(step: int, work: Callable[[Path], None], folder: Path, number: int) -> None:
    """In a child: work, with a signal at one step."""
    left = step

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(TRACED):
            return None
        if event == "line":
            if not left:
                os.kill(os.getpid(), number)
            left -= 1
        return trace

    with ends_orderly():
        sys.settrace(trace)
        work(folder)
        sys.settrace(None)
    os._exit(0)


def main(folder: Path, work: str, number: int) -> None:
    """End it at every step."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    step, status = 0, 1
    while status:
        (folder / "old").write_bytes(BEFORE)
        child = os.fork()
        if not child:
            os.setpgid(0, 0)
            stopped_at(step, WORK[work], folder, number)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        try:
            os.killpg(child, signal.SIGKILL)
            alone = False
        except ProcessLookupError:
            alone = True
        left = {path.name: len(path.read_bytes()) for path in folder.iterdir()}
        print(json.dumps({"step": step, "status": status, "left": left, "alone": alone}))
        sys.stdout.flush()
        for path in folder.iterdir():
            path.unlink()
        step += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
