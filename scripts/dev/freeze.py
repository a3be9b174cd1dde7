#!/usr/bin/env python3
"""Freeze what the program says about many captures, and compare it with what another commit says.

    python -m scripts.dev.freeze corpus DIR --count 30000 --seed 1 --captures FOLDER   # once; read by every commit
    python -m scripts.dev.freeze hash DIR -o before.txt --jobs 2 --package CHECKOUT
    python -m scripts.dev.freeze hash DIR -o after.txt --jobs 2
    python -m scripts.dev.freeze compare before.txt after.txt --list 5
    python -m scripts.dev.freeze diff DIR mutated/000017 analyze --package CHECKOUT --package .

A line of hashes is name, command, hash, status (with `limit` if a limit was met) and, for `analyze`, the rules found:
one for each capture and each of analyze, fpdus (in both orders), ulpdus, annotate and several of show.  The hash is of
exit status, stdout, stderr and the file written.  Of mutated captures every third is annotated and shown: these two
would take most of the time.  The same script hashes any checkout that has `scapy_mpa.cli.main`.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import click

from scripts.dev.freeze_run import INDEX

ROOT = Path(__file__).resolve().parents[2]
_RUN = Path(__file__).with_name("freeze_run.py")
_PARTS = ("captures", "malformed", "crafted", "mutated")
#: What the same program must not say otherwise about.
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "TZ": "UTC", "COLUMNS": "120", "LC_ALL": "C.UTF-8"}
#: The command allocates, once, a large block that it never touches; in a process of many it would be cleared each time.
_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(8 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
#: Text that does not count in a file: mainly comments.
_TEXT = re.compile(rb"(?:[\x20-\x7e]|[\xc2-\xdf][\x80-\xbf]|\xe2[\x80-\xbf]{2}){6,}")

_folder = click.Path(exists=True, file_okay=False, path_type=Path)
_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group()
def main() -> None:
    """Freeze what the program says, and compare it with what another commit says."""


@main.command("corpus")
@click.argument("corpus", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--count", type=click.IntRange(0), default=30_000, show_default=True, help="How many mutated captures.")
@click.option("--seed", type=int, default=1, show_default=True, help="Of the mutated captures.")
@click.option("--captures", "folders", multiple=True, type=_folder, help="A folder of captures, beside pcaps/.")
@click.option("--only", multiple=True, type=click.Choice(_PARTS), help="Only this part. May be repeated.")
def corpus_command(corpus: Path, count: int, seed: int, folders: tuple[Path, ...], only: tuple[str, ...]) -> None:
    """Write the corpus to DIR, which must be new or empty."""
    from scripts.dev import freeze_corpus as making

    corpus.mkdir(parents=True, exist_ok=True)
    if any(corpus.iterdir()):
        raise click.UsageError(f"{corpus}: there are files in it")
    corpus = corpus.resolve()
    (corpus / INDEX).touch()
    folders = (ROOT / "pcaps", *(folder.resolve() for folder in folders))
    if len({folder.name for folder in folders}) < len(folders):
        raise click.UsageError("two folders have one name")
    made = {
        "captures": making.captures(folders),
        "malformed": making.malformed(),
        "crafted": making.crafted(),
        "mutated": making.mutated(seed, count),
    }
    for part in only or _PARTS:
        began = time.monotonic()
        written = making.write_part(corpus, part, made[part])
        click.echo(f"{part}: {written} captures, {time.monotonic() - began:.0f} s")


@main.command("hash")
@click.argument("corpus", metavar="DIR", type=_folder)
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes.")
@click.option("--every", type=click.IntRange(1), default=1, help="Only each K-th capture.")
@click.option("--only", multiple=True, help="Only captures whose name begins so: a part, for one. May be repeated.")
@click.option("--package", type=_folder, default=ROOT, help="The checkout that is run.  [default: this one]")
def hash_command(corpus: Path, output: Path, jobs: int, every: int, only: tuple[str, ...], package: Path) -> None:
    """Run every command on every capture of DIR and write a sorted line of each."""
    began = time.monotonic()
    with ExitStack() as stack:
        running = []
        for share in range(jobs):
            file = stack.enter_context(tempfile.TemporaryFile("w+"))
            asked = {"corpus": str(corpus.resolve()), "share": share, "of": jobs, "every": every, "only": only}
            running.append((subprocess.Popen(_arguments("hash", asked), env=_environment(package), stdout=file), file))
        try:
            failed = [share for share, (process, _) in enumerate(running) if process.wait()]
        finally:
            for process, _ in running:
                process.kill()
        if failed:
            raise click.ClickException(f"process {failed[0]} ended early; nothing was written")
        lines: list[str] = []
        for _, file in running:
            file.seek(0)
            lines += file
    output.write_text("".join(sorted(lines)), encoding="utf-8")
    click.echo(f"{output}: {len(lines)} hashes, {time.monotonic() - began:.0f} s")


def _environment(package: Path) -> dict[str, str]:
    return {**os.environ, **_ENVIRONMENT, **_MEMORY, "PYTHONPATH": str(package.resolve())}


def _arguments(what: str, asked: dict[str, Any]) -> list[str]:
    return [sys.executable, str(_RUN), what, json.dumps(asked)]


# --- comparing ---


class Hashed(NamedTuple):
    """The entry of one capture in a list of hashes: (hash, flags) of each command, and the rules found."""

    commands: dict[str, tuple[str, str]]
    rules: set[str]

    @property
    def is_exempt(self) -> bool:
        """True if a limit was met: what is released then is not frozen."""
        return any(flags.endswith(",limit") for _, flags in self.commands.values())


Kind = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""How a capture differs: by which commands, and which rules only one of both finds."""


def read(path: Path) -> dict[str, Hashed]:
    """A list of hashes by the names of the captures."""
    captures: dict[str, Hashed] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, command, digest, flags, rules = line.split("\t")
        hashed = captures.setdefault(name, Hashed({}, set()))
        hashed.commands[command] = digest, flags
        hashed.rules.update(filter(None, rules.split(",")))
    return captures


@main.command("compare")
@click.argument("before", metavar="A", type=_file)
@click.argument("after", metavar="B", type=_file)
@click.option("--list", "listed", type=click.IntRange(0), default=3, show_default=True, help="Examples of each group.")
def compare_command(before: Path, after: Path, listed: int) -> None:
    """Compare two lists of hashes; exit status 1 if any capture differs in which A met no limit.

    Captures that only one list has are counted, nothing more: one may be a sample.
    """
    ours, theirs = read(before), read(after)
    counted: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    groups: dict[Kind, list[str]] = defaultdict(list)
    crashes: Counter[str] = Counter()
    for name in sorted(ours.keys() & theirs.keys()):
        one, other = ours[name], theirs[name]
        differing = []
        for command in sorted(one.commands.keys() | other.commands.keys()):
            is_same = one.commands.get(command) == other.commands.get(command)
            outcome = "exempt" if one.is_exempt else "same" if is_same else "different"
            counted[name.partition("/")[0], command.partition(" ")[0]][outcome] += 1
            if outcome == "different":
                differing.append(command)
                crashes.update(_crashes(one, other, command))
        if differing:
            by = tuple(dict.fromkeys(command.partition(" ")[0] for command in differing))
            only_one, only_other = sorted(one.rules - other.rules), sorted(other.rules - one.rules)
            groups[by, tuple(only_one), tuple(only_other)].append(f"{name}: {', '.join(differing)}")
    _tell(counted, groups, listed)
    for what, count in sorted(crashes.items()):
        click.echo(f"{what}: {count} commands that differ")
    for path, alone in ((before, ours.keys() - theirs.keys()), (after, theirs.keys() - ours.keys())):
        if alone:
            click.echo(f"only in {path}: {len(alone)} captures")
    sys.exit(1 if groups else 0)


def _crashes(one: Hashed, other: Hashed, command: str) -> Iterator[str]:
    """Yield the differences of a command that are not exit statuses."""
    for side, hashed in (("A", one), ("B", other)):
        status = hashed.commands.get(command, ("", "missing"))[1].partition(",")[0]
        if not status.isdigit():
            yield f"{status} in {side}"


def _tell(counted: dict[tuple[str, str], Counter[str]], groups: dict[Kind, list[str]], listed: int) -> None:
    """Print the counts, then the groups, the largest first."""
    outcomes = ("same", "different", "exempt")
    click.echo(f"{'part':<12}{'command':<16}" + "".join(f"{outcome:>10}" for outcome in outcomes))
    for (part, command), counts in sorted(counted.items()):
        click.echo(f"{part:<12}{command:<16}" + "".join(f"{counts[outcome]:>10}" for outcome in outcomes))
    total = sum(map(len, groups.values()))
    click.echo(f"{total} captures differ, in {len(groups)} ways")
    for (by, only_before, only_after), examples in sorted(groups.items(), key=lambda one: (-len(one[1]), one[0])):
        rules = [f"-{rule}" for rule in only_before] + [f"+{rule}" for rule in only_after]
        click.echo(f"\n{len(examples)}: {', '.join(by)}; rules: {' '.join(rules) or 'the same'}")
        for example in examples[:listed]:
            click.echo(f"    {example}")


# --- the difference in full ---


@main.command("diff")
@click.argument("corpus", metavar="DIR", type=_folder)
@click.argument("name")
@click.argument("command", default="analyze")
@click.option("--package", "packages", multiple=True, type=_folder, help="Two checkouts; the second may be left out.")
@click.option("--context", type=click.IntRange(0), default=3, show_default=True, help="Lines around a difference.")
def diff_command(corpus: Path, name: str, command: str, packages: tuple[Path, ...], context: int) -> None:
    """Print how what two checkouts say differs, for a capture and a command as in the list of hashes."""
    if len(packages) not in (1, 2):
        raise click.UsageError("one --package or two: what is to be compared?")
    before, after = (*packages, ROOT)[:2]
    one, other = _said(corpus, name, command, before), _said(corpus, name, command, after)
    lines = [*difflib.unified_diff(_readable(one), _readable(other), str(before), str(after), lineterm="", n=context)]
    for line in lines:
        click.echo(line)
    if not lines:
        click.echo("the same" if one == other else "the same text, but other octets")
    sys.exit(0 if one == other else 1)


def _said(corpus: Path, name: str, command: str, package: Path) -> dict[str, str]:
    asked = {"corpus": str(corpus.resolve()), "name": name, "command": command}
    done = subprocess.run(_arguments("show", asked), env=_environment(package), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        raise click.ClickException(f"{package}: there is no such capture or command")
    said: dict[str, str] = json.loads(done.stdout)
    return said


def _readable(said: dict[str, str]) -> list[str]:
    """All that was said as lines: JSON spread out, and what is text in a file that was written."""
    octets = {key: value.encode("latin-1") for key, value in said.items()}
    lines = [f"status {said['status']}"]
    for stream in ("stdout", "stderr"):
        lines += [f"--- {stream}", *_pretty(octets[stream].decode("utf-8", "backslashreplace"))]
    written = octets["written"]
    return [*lines, f"--- {len(written)} octets written", *(text.decode() for text in _TEXT.findall(written))]


def _pretty(text: str) -> Sequence[str]:
    try:
        return json.dumps(json.loads(text), indent=2).splitlines()
    except ValueError:
        pass
    lines: list[str] = []
    for line in text.splitlines():
        try:
            lines += json.dumps(json.loads(line), indent=1).splitlines() if line.startswith("{") else [line]
        except ValueError:
            lines.append(line)
    return lines


if __name__ == "__main__":
    main()
