"""Captures handed to tshark: which of them crash it.

It reads many cases in one file, since it takes longer to start than to read them; if that ends badly, each of them by
itself. The process may take so much time and memory and no more.
"""

from __future__ import annotations

import re
import resource
import subprocess
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from tempfile import NamedTemporaryFile

from scapy_mpa.fuzz.case import FuzzCase
from scapy_mpa.fuzz.writing import write_capture
from scapy_mpa.wireshark.tshark import PREFERENCES, find_tshark

#: Cases in one file.
_TOGETHER = 50
#: CPU seconds and octets of memory that tshark may take for one file.
_SECONDS, _MEMORY = 60, 4 << 30
#: What tshark prints of what should not have happened: in its output of a dissector, on stderr of itself.
_BUG = re.compile(rb"\[Dissector bug[^\n]*")
_COMPLAINT = re.compile(r"(?i)assert|ERROR:|bug|abort|sanitizer|stack smashing|out of memory|\*\*")


def tshark_cases(cases: Iterable[FuzzCase], capture_of: Callable[[FuzzCase], bytes]) -> Iterator[tuple[FuzzCase, str]]:
    """Yield the cases that crash tshark, each with why."""
    waiting = iter(cases)
    while together := list(islice(waiting, _TOGETHER)):
        with NamedTemporaryFile(suffix=".pcap") as file:
            write_capture(file, together)  # type: ignore[arg-type]
            file.flush()
            if _crash(file.name) is None:
                continue
        for case in together:
            why = crash_of(capture_of(case))
            if why is not None:
                yield case, why


def crash_of(capture: bytes) -> str | None:
    """Return how tshark ends when it reads a capture, if that is not as it should be."""
    with NamedTemporaryFile(suffix=".pcap") as file:
        file.write(capture)
        file.flush()
        return _crash(file.name)


def tshark_path() -> str:
    """Return the path of tshark."""
    return find_tshark().path


def _crash(path: str) -> str | None:
    preferences = [word for name, value in PREFERENCES.items() for word in ("-o", f"{name}:{value}")]
    command = [tshark_path(), "-r", path, "-n", "-V", *preferences]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=2 * _SECONDS, preexec_fn=_limited)
    except subprocess.TimeoutExpired:
        return f"tshark does not end within {2 * _SECONDS} s"
    said = done.stderr.decode(errors="replace")
    if done.returncode < 0:
        return f"tshark ends by signal {-done.returncode}: {said}"
    found = _BUG.search(done.stdout)
    if found is not None:
        return found[0].decode(errors="replace")
    complaints = [line for line in said.splitlines() if _COMPLAINT.search(line) and "Running as" not in line]
    return "; ".join(complaints) or None


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (_SECONDS, _SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
