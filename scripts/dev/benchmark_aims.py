"""Measures the aims: ``benchmark.py --aims``, or some parts of it with ``--part``.

Each part makes its captures and runs whole processes in turn, floor and tshark among them.  Times are those of the
processor, which other work on the machine changes the least; the least of the rounds.  What comes out is Markdown:
the aims with what is met and what is missed, then the times; ``--update`` puts it into docs/performance.md.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from scripts.dev.benchmark import Capture, Result

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- begin aims -->\n", "<!-- end aims -->\n"

#: How many times as large the larger captures are.
LARGER = 10
#: Of what each scenario has, this part is read by Scapy's sessions, which take milliseconds a packet.
_FOR_SESSIONS = 50
_CONNECTIONS = (8_000, 100_000)

#: The scenarios that have aims, as the table calls them; pcapng is measured beside them.
COLUMNS = {
    "plain": "in order",
    "markers": "Markers",
    "reordered": "reordered",
    "small": "many small FPDUs",
    "thousand": "a thousand connections",
}
_WITHOUT_AIMS = {"pcapng": "in order, pcapng"}

#: Prints how many packets a session gives that have a layer, or are any, and the seconds of processor time it takes.
SESSION = """
import sys, time
from scapy.layers.l2 import Ether
from scapy.sendrecv import sniff
name, path = sys.argv[1:]
if name == "MPASession":
    from scapy_mpa import FPDU as layer, MPASession as session
else:
    from scapy.layers.inet import TCP as layer
    from scapy.sessions import TCPSession as session
count = 0
def take(packet):
    global count
    count += layer in packet
start = time.process_time()
sniff(offline=path, session=session, store=False, prn=take)
print(count, time.process_time() - start)
"""


class Aim(NamedTuple):
    """The most, or the least, that is aimed at."""

    number: float
    at_least: bool = False

    def verdict(self, measured: float) -> str:
        """Return what was measured, and whether the aim is met."""
        is_met = measured >= self.number if self.at_least else measured <= self.number
        digits = 2 if measured < 10 else 1 if measured < 100 else 0
        return f"{measured:.{digits}f}, {_WORDS[is_met]}"


_WORDS = {True: "met", False: "**missed**"}


class Bench(NamedTuple):
    """Measures.

    Attributes:
        size: octets of each capture; the larger ones have :data:`LARGER` times as many.
        capture: the capture of a scenario, of this many octets.
        large: the same, larger, as long as it is measured.
        connections: a capture of this many connections of eight packets, as long as it is measured.
        measure: runs commands on a capture, by name, so many rounds if they are not to be as many as usual.
        run: runs any command; returns what it prints.
    """

    size: int
    capture: Callable[[str, int], Capture]
    large: Callable[[str], AbstractContextManager[Capture]]
    connections: Callable[[int], AbstractContextManager[Capture]]
    measure: Callable[[Capture, Sequence[str], int | None], Mapping[str, Result]]
    run: Callable[[Sequence[str]], str]


class Line(NamedTuple):
    """A line of aims: what it is called, the aims in the order of :data:`COLUMNS`, and how it is computed."""

    title: str
    aims: tuple[float, ...]
    at_least: bool
    of: Callable[[Mapping[str, Result]], float]


def _times_tshark(command: str) -> Callable[[Mapping[str, Result]], float]:
    return lambda found: found["tshark"].least / found[command].least


LARGE_LINES = (
    Line("in floors: at most", (3, 3, 4, 4, 6), False, lambda found: found["analyze"].least / found["floor"].least),
)
LINES = (
    Line("`analyze`, tshark / this: at least", (12, 10, 25, 30, 10), True, _times_tshark("analyze")),
    Line("`fpdus --format jsonl`, tshark / this: at least", (8, 7, 12, 8, 6), True, _times_tshark("fpdus")),
    Line(
        "`messages --format jsonl`, times `analyze`: at most",
        (3, 3, 3, 4, 3),
        False,
        lambda found: found["messages"].least / found["analyze"].least,
    ),
)

_Found = Mapping[str, Mapping[str, "Result"]]


def lines_of_aims(lines: Sequence[Line], found: _Found, prefix: str) -> Iterator[str]:
    """The aims of scenarios, each line with a line of what was measured below it."""
    for line in lines:
        cells = [Aim(number, line.at_least) for number in line.aims]
        yield _row(f"{prefix}{line.title}", *(f"{aim.number:g}" for aim in cells))
        measured = (line.of(found[name]) for name in COLUMNS)
        yield _row("measured", *(aim.verdict(number) for aim, number in zip(cells, measured, strict=True)))


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _heading(*cells: str) -> Iterator[str]:
    yield _row(*cells)
    yield f"| --- |{' ---: |' * (len(cells) - 1)}"


#: The columns of times: the commands that are run on all captures first.
_COMMANDS = ("floor", "tshark", "analyze", "fpdus", "messages")
_TIMES = ("capture", "packets", "FPDUs", *_COMMANDS, "peak MB of `analyze`")


def _times(title: str, capture: Capture, found: Mapping[str, Result]) -> str:
    """A line of times in seconds of the processor."""
    seconds = (f"{found[name].least:.2f}" if name in found else "-" for name in _COMMANDS)
    memory = f"{found['analyze'].memory / 1e6:.0f}"
    return _row(title, f"{capture.packets:,}", f"{capture.fpdus:,}", *seconds, memory)


def in_words(octets: int) -> str:
    """A size as people write it."""
    return f"{octets / 1e9:g} GB" if octets >= 1e9 else f"{octets / 1e6:g} MB"


def _hundred(bench: Bench) -> Iterator[str]:
    """All commands on each scenario."""
    size, found, times = in_words(bench.size), {}, [*_heading(*_TIMES)]
    for name, title in {**COLUMNS, **_WITHOUT_AIMS}.items():
        capture = bench.capture(name, bench.size)
        found[name] = bench.measure(capture, (*_COMMANDS, "analyze-jobs"), None)
        times.append(_times(f"{size}, {title}", capture, found[name]))
    yield from _heading("aim, processor time", *COLUMNS.values())
    yield from lines_of_aims(LINES, found, f"{size}: ")
    yield from ("", *times, "")
    yield from _heading(f"{size}, seconds passed", *COLUMNS.values())
    for command, title in (("analyze", "`analyze`"), ("analyze-jobs", "`analyze --jobs 2`")):
        yield _row(title, *(f"{found[name][command].best:.2f}" for name in COLUMNS))


def _gigabyte(bench: Bench) -> Iterator[str]:
    """``analyze`` on each scenario, larger, against the floor; tshark once."""
    size, found, times = in_words(LARGER * bench.size), {}, [*_heading(*_TIMES)]
    for name, title in {**COLUMNS, **_WITHOUT_AIMS}.items():
        with bench.large(name) as capture:
            found[name] = {
                **bench.measure(capture, ("floor", "analyze"), None),
                **bench.measure(capture, ("tshark",), 1),
            }
        times.append(_times(f"{size}, {title}", capture, found[name]))
    yield from _heading("aim, processor time", *COLUMNS.values())
    yield from lines_of_aims(LARGE_LINES, found, f"{size}: `analyze`, ")
    yield from ("", *times)


def _connections(bench: Bench) -> Iterator[str]:
    """``analyze`` of very many connections of eight packets, against tshark; memory."""
    aims, times = [*_heading("aim", "at least, or at most", "measured")], [*_heading(*_TIMES)]
    for count in _CONNECTIONS:
        with bench.connections(max(10, count * bench.size // 100_000_000)) as capture:
            found = bench.measure(capture, ("floor", "tshark", "analyze"), None)
        title = f"{capture.connections:,} connections of eight packets"
        faster = Aim(5, at_least=True).verdict(_times_tshark("analyze")(found))
        aims.append(_row(f"{title}: `analyze`, tshark / this", "5", faster))
        if count == max(_CONNECTIONS):
            memory = Aim(300).verdict(found["analyze"].memory / 1e6)
            aims.append(_row(f"{title}: peak memory of `analyze`, MB", "300", memory))
        times.append(_times(title, capture, found))
    yield from (*aims, "", *times)


def _session(bench: Bench) -> Iterator[str]:
    """``sniff(session=MPASession)`` in FPDUs a second, against packets a second with TCPSession."""
    yield from _heading("FPDUs a second of MPASession / packets a second of TCPSession", "at least", "measured")
    for name in ("plain", "small"):
        capture = bench.capture(name, bench.size // _FOR_SESSIONS)
        rates = []
        for session, count in (("MPASession", capture.fpdus), ("TCPSession", capture.packets)):
            _, seconds = bench.run([sys.executable, "-c", SESSION, session, capture.path]).split()
            rates.append(count / float(seconds))
        verdict = Aim(1, at_least=True).verdict(rates[0] / rates[1])
        yield _row(f"{COLUMNS[name]}: {rates[0]:,.0f} / {rates[1]:,.0f}", "1", verdict)


PARTS: dict[str, Callable[[Bench], Iterator[str]]] = {
    "hundred": _hundred,
    "gigabyte": _gigabyte,
    "connections": _connections,
    "session": _session,
}


def _machine() -> str:
    """Return what this is measured on."""
    from scapy_mpa.compiled import is_compiled

    told = subprocess.run(["tshark", "--version"], capture_output=True, text=True).stdout
    tshark = re.search(r"\d+(\.\d+)+", told)
    compiled = "modules compiled" if is_compiled() else "nothing compiled"
    version = tshark[0] if tshark is not None else "?"
    return f"Python {platform.python_version()}, tshark {version}, {os.cpu_count()} processors, {compiled}."


def print_aims(names: Sequence[str], bench: Bench, update: bool) -> None:
    """Measure these parts, and print each as soon as it is known; ``update`` puts all into docs/performance.md."""
    if shutil.which("tshark") is None:
        raise SystemExit("tshark is missing: the aims are stated against it")
    text = [f"Measured by `python scripts/dev/benchmark.py --aims --update`: {_machine()}", ""]
    print(*text, sep="\n")
    for name in names:
        table = [*PARTS[name](bench), ""]
        print(*table, sep="\n", flush=True)
        text += table
    if update:
        DOCUMENT.write_text(with_aims(DOCUMENT.read_text(encoding="utf-8"), "\n".join(text)), encoding="utf-8")


def with_aims(document: str, tables: str) -> str:
    """The document with these tables where the old ones stood."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{DOCUMENT.name} has no place for the aims: {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"
