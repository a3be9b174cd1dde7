"""The independent test of RFC 5044 §9 and RFC 9293 §3.10.7.4: nothing that TCP would not take changes what is found.

A draw is a seed: out come a conversation (`conversing`), what is put into its capture or taken from it, and what must
be found (`judging`). Kinds of draws:

* `N`: nothing is put in. The model agrees with the receiver.
* `A` (`inserting`): what TCP would not take. FPDUs, connections and findings stay; a finding names each inserted frame.
* `B` (`contesting`): octets, FIN or RST inside the window. FPDUs they do not touch are found, the right copy is taken.
* `C` (`lacking`): frames are missing. What remains is found; with `--baseline`, at least what another version finds.

Run: python -m tests.receive.attack --draws 20000 --seed 0 --kind A [--write DIRECTORY] [--baseline DIRECTORY].
The package under test is that of PYTHONPATH.
"""

from __future__ import annotations

import argparse
import os
import pickle
import struct
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from tests.receive.contesting import CONTESTS, draw_b, judge_b
from tests.receive.drawing import draw_a
from tests.receive.inserting import KINDS, MORE
from tests.receive.judging import Draw, Outcome, against_truth, analysed, described, errors_of, judge_a
from tests.receive.lacking import LACKS, draw_c, judge_c


class Result(NamedTuple):
    """A draw, what is wrong with the analysis of it, and what is to be said of the draw."""

    draw: Draw
    lines: list[str]
    note: str = ""


def run_n(seed: int) -> Result | None:
    """The model against the package where nothing is put in; None where the seed makes no draw."""
    draw = draw_a(seed, most=0)
    if draw is None:
        return None
    outcome = analysed(draw.file)
    note = "with segments that were dropped for their timestamps" if draw.old else ""
    return Result(draw, against_truth(draw, outcome) + errors_of(outcome), note)


def run_a(seed: int, kinds: Sequence[str] = tuple(KINDS), most: int = 3) -> Result | None:
    draw = draw_a(seed, kinds, most)
    return None if draw is None else Result(draw, check_a(draw), "+".join(put_names(draw)))


def check_a(draw: Draw) -> list[str]:
    return judge_a(draw, analysed(draw.without().file), analysed(draw.file))


def run_b(seed: int, kinds: Sequence[str] = CONTESTS) -> Result | None:
    contest = draw_b(seed, tuple(kinds))
    if contest is None:
        return None
    draw = contest.draw
    lines = judge_b(contest, analysed(draw.without().file), analysed(draw.file))
    plan = draw.worlds[0].plan
    locating = f"{'crc' if plan.crc else 'no crc'}, {'Markers' if plan.markers[contest.side] else 'no Markers'}"
    return Result(draw, lines, f"{contest.kind} ({locating})")


def run_c(seed: int, kinds: Sequence[str] = LACKS, baseline: Baseline | None = None) -> Result | None:
    lacking = draw_c(seed, tuple(kinds))
    if lacking is None or not lacking.draw.captured:
        return None
    file = lacking.draw.file
    before = None if baseline is None else baseline.analysed(file)
    plan = lacking.draw.worlds[0].plan
    locating = f"{'crc' if plan.crc else 'no crc'}{', stamps' if plan.timestamps else ''}"
    lines = judge_c(lacking, analysed(file), before)
    return Result(lacking.draw, lines, f"{lacking.kind} of {lacking.side} ({locating})")


def put_names(draw: Draw) -> list[str]:
    return sorted({draw.captured[n - 1].inserted for n in draw.inserted})


def smallest(result: Result) -> Result:
    """With one inserted segment, if that makes the same sort of failure."""
    for frame in result.draw.inserted:
        one = result.draw.alone(frame)
        lines = check_a(one)
        if lines and sort_of(lines) == sort_of(result.lines):
            return Result(one, lines, "+".join(put_names(one)))
    return result


def sort_of(lines: Sequence[str]) -> str:
    return lines[0].split(":")[0]


class Baseline:
    """Another version of the package, in a process of its own: files go in, outcomes come out."""

    def __init__(self, directory: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(directory)}
        command = [sys.executable, "-m", "tests.receive.attack", "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def analysed(self, file: bytes) -> Outcome:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        stdin.write(struct.pack("!I", len(file)) + file)
        stdin.flush()
        (size,) = struct.unpack("!I", stdout.read(4))
        outcome = pickle.loads(stdout.read(size))
        assert isinstance(outcome, Outcome)
        return outcome

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def serve(stdin: BinaryIO, stdout: BinaryIO) -> None:
    """The other side of a `Baseline`."""
    while header := stdin.read(4):
        octets = pickle.dumps(analysed(stdin.read(struct.unpack("!I", header)[0])))
        stdout.write(struct.pack("!I", len(octets)) + octets)
        stdout.flush()


def run(kind: str, seed: int, options: argparse.Namespace, baseline: Baseline | None) -> Result | None:
    only = options.only
    if kind == "N":
        return run_n(seed)
    if kind == "A":
        return run_a(seed, only or tuple(KINDS), options.most)
    if kind == "B":
        return run_b(seed, only or CONTESTS)
    return run_c(seed, only or LACKS, baseline)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status 1 if a draw failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.receive.attack")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first of as many seeds in a row")
    parser.add_argument("--kind", default="A", choices=["N", "A", "B", "C"])
    only = [*KINDS, *MORE, *CONTESTS, *LACKS]
    parser.add_argument("--only", action="append", help="what is put in, or missing", choices=only, metavar="NAME")
    parser.add_argument("--most", type=int, default=3, help="inserted segments of a draw of kind A")
    parser.add_argument("--write", type=Path, help="where captures of failing draws go")
    parser.add_argument("--show", type=int, default=20, help="failing draws to describe")
    parser.add_argument("--sort", help="describe only failures of this sort (truth, unnamed, ...)")
    parser.add_argument("--baseline", type=Path, help="another version of the package, for kind C")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    # The package under test is that of PYTHONPATH, whatever lies in the current directory.
    sys.path[:0] = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    if options.serve:
        serve(sys.stdin.buffer, sys.stdout.buffer)
        return 0
    baseline = Baseline(options.baseline) if options.baseline else None
    failing, drawn, sorts, shown = 0, 0, Counter[str](), 0
    begun = time.monotonic()
    for seed in range(options.seed, options.seed + options.draws):
        try:
            result = run(options.kind, seed, options, baseline)
            if result is not None and result.lines and options.kind == "A":
                result = smallest(result)
        except Exception:  # noqa: BLE001 - whatever a hostile capture brings about is a failing draw
            print(f"seed {seed}: {traceback.format_exc()}")
            failing += 1
            continue
        drawn += result is not None
        if result is None or not result.lines:
            continue
        failing += 1
        sorts[f"{result.note}: {sort_of(result.lines)}"] += 1
        if shown < options.show and options.sort in (None, sort_of(result.lines)):
            shown += 1
            print(f"{described(result.draw)}\n  {result.note}")
            print("\n".join(f"    {line}" for line in result.lines[:8]), flush=True)
        if options.write and options.sort in (None, sort_of(result.lines)):
            options.write.mkdir(parents=True, exist_ok=True)
            (options.write / f"{options.kind}-{seed}.pcap").write_bytes(result.draw.file)
    for sort, count in sorts.most_common():
        print(f"{count:6} {sort}")
    print(f"package {sys.modules['scapy_mpa'].__file__}")
    print(f"{drawn} draws, {failing} failing, {time.monotonic() - begun:.0f} s")
    if baseline is not None:
        baseline.close()
    return 1 if failing else 0


if __name__ == "__main__":
    sys.exit(main())
