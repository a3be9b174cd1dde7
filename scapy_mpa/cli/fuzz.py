"""``scapy-mpa fuzz``."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scapy_mpa.cli.address import TO_METAVAR, CommandTo
from scapy_mpa.cli.fuzzoptions import DEFAULT_COUNT, FuzzOptions
from scapy_mpa.cli.lines import print_line, print_lines
from scapy_mpa.cli.output import (
    STANDARD_OUTPUT,
    check_empty,
    check_output,
    make_folder,
    tell_written,
    written,
)
from scapy_mpa.cli.settling import ULPS, boots, monitors, recovers, settles
from scapy_mpa.cli.types import Begun, Word
from scapy_mpa.cli.wirefuzz import fuzz_peer, write_program
from scapy_mpa.fuzz.draw import MOST_CASES
from scapy_mpa.system.cycles import look_often
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.fuzz.baselines import Baselines
    from scapy_mpa.fuzz.case import FuzzCase
    from scapy_mpa.fuzz.run import Fuzzer

_MOST_CHANGES = click.IntRange(0, 64)


def _areas() -> Iterable[str]:
    from scapy_mpa.fuzz.catalogue import weights
    from scapy_mpa.fuzz.upper import UPPER

    return (*weights(), UPPER)


def _changes() -> Iterable[str]:
    from scapy_mpa.fuzz.upper import CHANGES

    return (one.name for one in CHANGES.values() if one.area)


def _print_source(context: click.Context, _parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted:
        from scapy_mpa.fuzz.coverage import source

        print_lines(source().splitlines())
        context.exit()


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
@click.option("--count", type=click.IntRange(1, MOST_CASES), help=f"Number of cases.  [default: {DEFAULT_COUNT}]")
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
    "--coverage", metavar="FILE", type=click.Path(dir_okay=False),
    help="Choose the next case to change by the code that a live peer executes, which the peer counts in FILE.",
)  # fmt: skip
@click.option(
    "--coverage-source", is_flag=True, is_eager=True, expose_value=False, callback=_print_source,
    help="Print the C source that makes a peer count the code it executes, and exit.",
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
def fuzz_command(**given: Any) -> int:
    """Make any number of malformed captures: valid connections with a few things changed.

    The changes depend only on the seed and the number of the case: the same options give the same octets, and --case N
    makes case N alone. With --to or --listen, one side of each case is sent to a live peer, and a JSON line says how
    the peer reacted; the exit status is 3 if the peer is gone.
    """
    from scapy_mpa.craft.changes.change import OF_MESSAGES
    from scapy_mpa.fuzz.baselines import baselines
    from scapy_mpa.fuzz.recipe import MOST_MUTATIONS
    from scapy_mpa.fuzz.run import Fuzzer
    from scapy_mpa.fuzz.upper import CHANGES, UPPER
    from scapy_mpa.probe.fuzzing import message_areas

    options = FuzzOptions(**given)
    if complaint := options.complaint():
        raise click.UsageError(complaint)
    if options.only_list:
        _list()
        return 0
    look_often()
    for folder in options.folders:
        check_empty(folder)
    begin = baselines(captures=options.captures, connection=options.connection, scenarios=options.scenarios)
    if options.is_of_messages:
        begin = begin._replace(with_catalogue=False)
        known = (*message_areas(), UPPER)
        if strange := [area for area in options.areas if area not in known]:
            raise click.UsageError(
                f"{strange[0]} changes packets, which the kernel builds here; areas that change messages: "
                f"{', '.join(known)}"
            )
        if strange := [name for name in options.changes if CHANGES[name].level not in OF_MESSAGES]:
            raise click.UsageError(f"{strange[0]} changes packets, which the kernel builds here")
    most = next((one for one in (options.most, options.mutations) if one is not None), MOST_MUTATIONS)
    fuzzer = Fuzzer(
        options.seed, begin, areas=options.areas, changes=options.changes, most=most, by_message=options.is_of_messages
    )
    if options.captures or options.scenarios:
        _read(begin)
    for folder in options.folders:
        make_folder(folder)
    if options.is_live:
        return fuzz_peer(options, fuzzer)
    if options.script is not None:
        return write_program(options, fuzzer)
    if options.output is not None:
        _write(fuzzer, options, options.output)
    if options.split is not None:
        from scapy_mpa.fuzz.corpora import write_corpora

        numbers = options.numbers if options.names_cases else range(0)
        tell_written(str(options.split), write_corpora(options.split, fuzzer, numbers))
    return 0


def _write(fuzzer: Fuzzer, options: FuzzOptions, output: str) -> None:
    """Write the captures of the cases."""
    if options.is_file:
        _write_one(fuzzer.case(options.numbers[0]), output, options.captures)
        return
    from scapy_mpa.fuzz.writing import LOG, write_cases

    made = write_cases(Path(output), map(fuzzer.case, options.numbers), per_file=options.per_file)
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
