"""``scapy-mpa fuzz``."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scapy_mpa.cli.address import TO_METAVAR, CommandTo
from scapy_mpa.cli.lines import print_line, print_lines
from scapy_mpa.cli.output import (
    STANDARD_OUTPUT,
    check_empty,
    check_output,
    make_folder,
    names_folder,
    tell_written,
    written,
)
from scapy_mpa.cli.settling import ULPS, boots, monitors, recovers, settles
from scapy_mpa.cli.types import Begun, Word
from scapy_mpa.cli.wirefuzz import OnTheWire, fuzz_peer, write_program
from scapy_mpa.fuzz.draw import MOST_CASES
from scapy_mpa.system.cycles import look_often
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.fuzz.baselines import Baselines
    from scapy_mpa.fuzz.case import FuzzCase
    from scapy_mpa.fuzz.run import Fuzzer

_DEFAULT_COUNT = 100
_MOST_CHANGES = click.IntRange(0, 64)


def _areas() -> Iterable[str]:
    from scapy_mpa.fuzz.catalogue import weights
    from scapy_mpa.fuzz.upper import UPPER

    return (*weights(), UPPER)


def _changes() -> Iterable[str]:
    from scapy_mpa.fuzz.upper import CHANGES

    return (one.name for one in CHANGES.values() if one.area)


@click.command(
    "fuzz",
    cls=CommandTo,
    epilog="breaking.md in the documentation describes the changes, and how to use the messages with other fuzzers.",
)
@click.option(
    "-o",
    "--output",
    metavar="FILE_OR_DIR",
    type=click.Path(),
    help="Folder for captures and a log; with --case, a file.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="A different seed gives different cases."
)
@click.option("--count", type=click.IntRange(1, MOST_CASES), help=f"Number of cases.  [default: {_DEFAULT_COUNT}]")
@click.option("--first", type=click.IntRange(0, MOST_CASES - 1), default=0, help="Number of the first case.")
@click.option("--case", "number", type=click.IntRange(0, MOST_CASES - 1), help="Only the case with this number.")
@click.option(
    "--from",
    "captures",
    multiple=True,
    metavar="CAPTURE",
    type=click.Path(),
    help="Start from the messages of this capture. May be repeated.",
)
@click.option("--connection", type=click.IntRange(0), help="With --from: only the connection with this number.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="NAME",
    help="Start from this scenario (craft --list). May be repeated.  [default: all scenarios that ship with scapy-mpa]",
)
@click.option(
    "--area",
    "areas",
    multiple=True,
    metavar="AREA",
    type=Begun(_areas),
    help="Only changes of this area. May be repeated.",
)
@click.option(
    "--change",
    "changes",
    multiple=True,
    metavar="NAME",
    type=Begun(_changes),
    help="Only this change (--list). May be repeated.",
)
@click.option(
    "--changes",
    "most",
    type=_MOST_CHANGES,
    help="Maximum number of changes per case; with 0, case N is connection N rebuilt without changes.  [default: 8]",
)
@click.option("--mutations", type=_MOST_CHANGES, hidden=True)
@click.option("--per-file", type=click.IntRange(1), default=1, show_default=True, help="Number of cases per capture.")
@click.option(
    "--split",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write single messages as seeds for AFLNet, boofuzz and libFuzzer; with --count, also the messages of that "
    "many cases.",
)
@click.option(
    "--to", "peer", metavar=TO_METAVAR, help="Send the cases to a live Responder, and check that it survives."
)
@click.option(
    "--listen", "listens", metavar="[HOST:]PORT", help="The same for an Initiator, which connects to this port."
)
@click.option(
    "--run",
    "command",
    metavar="COMMAND",
    help="Command that starts the Initiator, once for each connection; {port} is the port to connect to.",
)
@click.option("--restart", metavar="COMMAND", help="Command that restarts a live peer that is gone.")
@click.option("--replay", type=click.IntRange(0, MOST_CASES - 1), metavar="N", help="Send a live peer only this case.")
@click.option(
    "--script", metavar="FILE", type=click.Path(dir_okay=False),
    help="With --replay: write that case as a Python program which sends it to a peer, for a bug report.",
)  # fmt: skip
@click.option(
    "--minimize",
    "minimizes",
    is_flag=True,
    help="Reduce a case that kills a live peer to the changes that are needed to kill it.",
)
@click.option(
    "--duration",
    type=click.FloatRange(0.1),
    metavar="SECONDS",
    help="With a live peer: start no new case after this time.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 3600),
    default=0.5,
    show_default=True,
    help="With a live peer: seconds to wait for each answer.",
)
@click.option("--ulp", type=Word(ULPS), default="none", show_default=True, help="With a live peer: its upper layer.")
@settles("With a live peer")
@boots()
@recovers()
@monitors()
@click.option(
    "--junit",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="With a live peer: write JUnit XML, for CI systems.",
)
@click.option(
    "--expected", metavar="FILE", type=click.Path(dir_okay=False),
    help="With a live peer: a file of known hits, one per line: the value of \"hit\".",
)  # fmt: skip
@click.option("--list", "only_list", is_flag=True, help="List the areas and the changes.")
def fuzz_command(
    output: str | None,
    seed: int,
    count: int | None,
    first: int,
    number: int | None,
    captures: tuple[str, ...],
    connection: int | None,
    scenarios: tuple[str, ...],
    areas: tuple[str, ...],
    changes: tuple[str, ...],
    most: int | None,
    mutations: int | None,
    per_file: int,
    split: Path | None,
    peer: str | None,
    listens: str | None,
    command: str | None,
    restart: str | None,
    replay: int | None,
    script: str | None,
    minimizes: bool,
    duration: float | None,
    timeout: float,
    ulp: str,
    settle: float,
    boot: float,
    recovery: float,
    monitor: str | None,
    junit: str | None,
    expected: str | None,
    only_list: bool,
) -> int:
    """Make any number of malformed captures: valid connections with a few things changed.

    The changes depend only on the seed and the number of the case: the same options give the same octets, and --case N
    makes case N alone. With --to or --listen, one side of each case is sent to a live peer, and a JSON line says how
    the peer reacted; the exit status is 3 if the peer is gone.
    """
    from scapy_mpa.fuzz.baselines import baselines
    from scapy_mpa.fuzz.recipe import MOST_MUTATIONS
    from scapy_mpa.fuzz.run import Fuzzer

    if only_list:
        if output is not None or split is not None:
            raise click.UsageError("--list writes no files: leave out --list, or leave out -o and --split")
        _list()
        return 0
    look_often()
    most = mutations if most is None else most
    wire = OnTheWire(
        peer,
        listens,
        command,
        restart,
        timeout,
        settle,
        boot,
        recovery,
        duration,
        minimizes,
        replay is not None,
        script,
    )
    wire = replace(wire, rping=ulp == "rping", monitor=monitor, junit=junit, expected=expected)
    if number is not None and (wire.is_wanted or script is not None):
        raise click.UsageError(f"a live peer gets a single case with --replay: --replay {number}")
    if complaint := wire.complaint():
        raise click.UsageError(complaint)
    if wire.is_wanted or script is not None:
        if split is not None or per_file > 1:
            raise click.UsageError("a live peer gets cases one by one: leave --split and --per-file out")
        if output is not None:
            check_empty(Path(output))
            make_folder(Path(output))
        numbers = range(replay, replay + 1) if replay is not None else range(first, first + (count or _DEFAULT_COUNT))
        return _on_the_wire(wire, numbers, output, seed, captures, connection, scenarios, areas, changes, most)
    if replay is not None:
        raise click.UsageError("--replay needs a live peer (--to or --listen), or --script FILE")
    wanted = _Wanted(output, split, number, first, count)
    if complaint := wanted.complaint(per_file, is_from_captures=bool(captures), is_of_one=connection is not None):
        raise click.UsageError(complaint)
    for folder in wanted.folders:
        check_empty(folder)
    begin = baselines(captures=captures, connection=connection, scenarios=scenarios)
    most = MOST_MUTATIONS if most is None else most
    fuzzer = Fuzzer(seed, begin, areas=areas, changes=changes, most=most)
    if captures or scenarios:
        _read(begin)
    for folder in wanted.folders:
        make_folder(folder)
    if output is not None:
        _write(fuzzer, wanted, output, captures, per_file)
    if split is not None:
        from scapy_mpa.fuzz.corpora import write_corpora

        tell_written(str(split), write_corpora(split, fuzzer, wanted.numbers if wanted.names_cases else range(0)))
    return 0


def _on_the_wire(
    wire: OnTheWire,
    numbers: range,
    output: str | None,
    seed: int,
    captures: tuple[str, ...],
    connection: int | None,
    scenarios: tuple[str, ...],
    areas: tuple[str, ...],
    changes: tuple[str, ...],
    most: int | None,
) -> int:
    """Give cases to a live peer, whose messages are changed (``most`` 0: valid ones), or write one as a program."""
    from scapy_mpa.craft.changes.change import OF_MESSAGES
    from scapy_mpa.fuzz.baselines import baselines
    from scapy_mpa.fuzz.recipe import MOST_MUTATIONS
    from scapy_mpa.fuzz.run import Fuzzer
    from scapy_mpa.fuzz.upper import CHANGES, UPPER
    from scapy_mpa.probe.fuzzing import message_areas

    begin = baselines(captures=captures, connection=connection, scenarios=scenarios)._replace(with_catalogue=False)
    if captures or scenarios:
        _read(begin)
    known = (*message_areas(), UPPER)
    if strange := [area for area in areas if area not in known]:
        raise click.UsageError(
            f"{strange[0]} changes packets, which the kernel builds here; areas that change messages: "
            f"{', '.join(known)}"
        )
    if strange := [name for name in changes if CHANGES[name].level not in OF_MESSAGES]:
        raise click.UsageError(f"{strange[0]} changes packets, which the kernel builds here")
    most = MOST_MUTATIONS if most is None else most
    fuzzer = Fuzzer(seed, begin, areas=areas, changes=changes, most=most, by_message=True)
    if not wire.is_wanted:
        return write_program(wire, fuzzer, numbers.start)
    return fuzz_peer(wire, fuzzer, numbers, output)


@dataclass(frozen=True)
class _Wanted:
    """Which cases are to be made, and where."""

    output: str | None
    split: Path | None
    number: int | None
    first: int
    count: int | None

    def complaint(self, per_file: int, *, is_from_captures: bool, is_of_one: bool) -> str | None:
        """What options do not go together, None if they all do."""
        is_one, has_output, has_split = self.number is not None, self.output is not None, self.split is not None
        to_standard_output = (has_split and str(self.split) == STANDARD_OUTPUT) or (
            not is_one and self.output == STANDARD_OUTPUT
        )
        complaints = (
            (
                not has_output and not has_split,
                "no output: -o DIR names a folder for the captures, --split one for single messages",
            ),
            (
                is_one and (self.count is not None or self.first > 0),
                "--case selects one case; --first and --count select several",
            ),
            (
                self.first > 0 and self.count is None and not has_output,
                "--first is the number of the first case: give --count or -o too",
            ),
            (
                per_file > 1 and (is_one or not has_output),
                "--per-file applies only if several cases are written with -o",
            ),
            (
                to_standard_output,
                "standard output takes one case (--case); -o DIR and --split DIR take several files",
            ),
            (is_of_one and not is_from_captures, "--connection needs --from: it selects from those captures"),
        )
        return next((text for is_wrong, text in complaints if is_wrong), None)

    @property
    def is_file(self) -> bool:
        """Whether the output is one file, not a folder."""
        return self.number is not None and self.output is not None and not names_folder(self.output)

    @property
    def folders(self) -> list[Path]:
        """The folders that are written."""
        output = None if self.is_file or self.output is None else Path(self.output)
        return [folder for folder in (output, self.split) if folder]

    @property
    def names_cases(self) -> bool:
        """Whether cases are asked for, by number or by how many."""
        return self.count is not None or self.number is not None

    @property
    def numbers(self) -> range:
        """The numbers of the cases."""
        if self.number is not None:
            return range(self.number, self.number + 1)
        return range(self.first, min(self.first + (self.count or _DEFAULT_COUNT), MOST_CASES))


def _write(fuzzer: Fuzzer, wanted: _Wanted, output: str, captures: tuple[str, ...], per_file: int) -> None:
    """Write the captures of the cases."""
    if wanted.is_file:
        _write_one(fuzzer.case(wanted.numbers[0]), output, captures)
        return
    from scapy_mpa.fuzz.writing import LOG, write_cases

    made = write_cases(Path(output), map(fuzzer.case, wanted.numbers), per_file=per_file)
    tell_written(output, f"{plural(made.cases, 'case')}, {plural(made.captures, 'capture')}, {LOG}")


def _read(begin: Baselines) -> None:
    """Read what was named, before anything is written, and say of what a part is left out."""
    from scapy_mpa.cli.options import warn_of_damage

    for source in begin.sources:
        warn_of_damage(source.found.damage)
        if not source.found.is_whole:
            said = "only its first messages are used, because there are too many"
            print_line(f"scapy-mpa: {printable(source.name)}: {said}", err=True)


def _write_one(case: FuzzCase, output: str, captures: tuple[str, ...]) -> None:
    from scapy_mpa.fuzz.writing import write_capture

    check_output(captures, output)
    with written(output) as file:
        write_capture(file, [case])
    if output == STANDARD_OUTPUT:
        return
    recipe = case.recipe
    print_line(f"case {recipe.case} of seed {recipe.seed}: {recipe.source}, connection {recipe.connection}")
    print_lines(f"  {done.name}: {done.what}" for done in case.done)
    tell_written(output, plural(len(case.packets), "packet"))


def _list() -> None:
    from scapy_mpa.fuzz.catalogue import weights
    from scapy_mpa.fuzz.upper import CHANGES, UPPER

    width = max(map(len, CHANGES))
    often = {area: f"drawn {weight} times in {sum(weights().values())}" for area, weight in weights().items()}
    for area, drawn in {**often, UPPER: "drawn if --from or --scenario has an upper layer, or if named"}.items():
        print_line(f"{area} ({drawn}):")
        print_lines(f"  {one.name:<{width}}  {one.meaning}" for one in CHANGES.values() if one.area == area)
