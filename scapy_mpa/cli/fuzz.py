"""``scapy-mpa fuzz``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scapy_mpa.cli.output import (
    STANDARD_OUTPUT,
    check_empty,
    check_output,
    make_folder,
    names_folder,
    tell_written,
    written,
)
from scapy_mpa.fuzz.draw import MOST_CASES
from scapy_mpa.report.words import plural

if TYPE_CHECKING:
    from scapy_mpa.fuzz.baselines import Baselines
    from scapy_mpa.fuzz.case import FuzzCase

_DEFAULT_COUNT = 100


@click.command("fuzz", epilog="docs/breaking.md tells what is mutated, and how others' fuzzers take the messages.")
@click.option(
    "-o", "--output", metavar="FILE_OR_DIR", type=click.Path(), help="Captures and a log go there; with --case a file."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Other seed, other cases.")
@click.option("--count", type=click.IntRange(1, MOST_CASES), help=f"How many cases.  [default: {_DEFAULT_COUNT}]")
@click.option("--first", type=click.IntRange(0, MOST_CASES - 1), default=0, help="The number of the first one.")
@click.option("--case", "number", type=click.IntRange(0, MOST_CASES - 1), help="Only this one.")
@click.option(
    "--from",
    "captures",
    multiple=True,
    metavar="CAPTURE",
    type=click.Path(),
    help="Begin from the messages of this capture. May be repeated.",
)
@click.option("--connection", type=click.IntRange(0), help="Of --from, only the connection with this number.")
@click.option(
    "--scenario",
    "scenarios",
    multiple=True,
    metavar="NAME",
    help="Begin from this scenario (craft --list). May be repeated.  [default: all that are shipped]",
)
@click.option("--area", "areas", multiple=True, metavar="AREA", help="Only mutations of this area. May be repeated.")
@click.option(
    "--mutations",
    "most",
    type=click.IntRange(0, 64),
    help="The most mutations of a case; with 0, case N is connection N, rebuilt and nothing else.  [default: 8]",
)
@click.option(
    "--per-file", type=click.IntRange(1), default=1, show_default=True, help="Cases that go into one capture."
)
@click.option(
    "--split",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write single messages, as seeds for AFLNet, boofuzz and libFuzzer; with --count those of cases too.",
)
@click.option("--list", "only_list", is_flag=True, help="Name the areas and the mutations.")
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
    most: int | None,
    per_file: int,
    split: Path | None,
    only_list: bool,
) -> int:
    """Make malformed captures without end: valid connections, a few things of which are changed.

    What is changed is drawn from the seed and the number of the case alone: the same options give the same octets, and
    --case N gives case N by itself.
    """
    from scapy_mpa.fuzz.baselines import baselines
    from scapy_mpa.fuzz.recipe import MOST_MUTATIONS
    from scapy_mpa.fuzz.run import Fuzzer

    if only_list:
        if output is not None or split is not None:
            raise click.UsageError("--list makes nothing: leave it out, or -o and --split")
        _list()
        return 0
    if output is None and split is None:
        raise click.UsageError("where to? -o DIR names a folder for the captures, --split one for single messages")
    if number is not None and (count is not None or first):
        raise click.UsageError("--case is one case, --first and --count are many")
    if first and count is None and output is None:
        raise click.UsageError("--first is the number of the first case; --count says how many, or -o is wanted")
    if per_file > 1 and (number is not None or output is None):
        raise click.UsageError("--per-file is of the captures of several cases that go to -o")
    if (split is not None and str(split) == STANDARD_OUTPUT) or (number is None and output == STANDARD_OUTPUT):
        raise click.UsageError("standard output takes one case (--case); -o DIR and --split DIR take several files")
    if connection is not None and not captures:
        raise click.UsageError("--connection is of the captures of --from")
    is_file = number is not None and output is not None and not names_folder(output)
    folders = [folder for folder in (None if is_file or output is None else Path(output), split) if folder]
    for folder in folders:
        check_empty(folder)
    begin = baselines(captures=captures, connection=connection, scenarios=scenarios)
    fuzzer = Fuzzer(seed, begin, areas=areas, most=MOST_MUTATIONS if most is None else most)
    if captures or scenarios:
        _read(begin)
    if number is not None:
        numbers = range(number, number + 1)
    else:
        numbers = range(first, min(first + (count or _DEFAULT_COUNT), MOST_CASES))
    for folder in folders:
        make_folder(folder)
    if output is not None and is_file:
        _write_one(fuzzer.case(numbers[0]), output, captures)
    elif output is not None:
        from scapy_mpa.fuzz.writing import LOG, write_cases

        made = write_cases(Path(output), map(fuzzer.case, numbers), per_file=per_file)
        tell_written(output, f"{plural(made.cases, 'case')}, {plural(made.captures, 'capture')}, {LOG}")
    if split is not None:
        from scapy_mpa.fuzz.corpora import write_corpora

        given = count is not None or number is not None
        tell_written(str(split), write_corpora(split, fuzzer, numbers if given else range(0)))
    return 0


def _read(begin: Baselines) -> None:
    """Read what was named, before anything is written, and say of what a part is left out."""
    from scapy_mpa.cli.options import warn_of_damage

    for source in begin.sources:
        warn_of_damage(source.found.damage)
        if not source.found.is_whole:
            click.echo(f"scapy-mpa: {source.name}: only its first messages are used, it has too many", err=True)


def _write_one(case: FuzzCase, output: str, captures: tuple[str, ...]) -> None:
    from scapy_mpa.fuzz.writing import write_capture

    check_output(captures, output)
    with written(output) as file:
        write_capture(file, [case])
    if output == STANDARD_OUTPUT:
        return
    recipe = case.recipe
    click.echo(
        f"case {recipe.case} of seed {recipe.seed}: {recipe.exchange.source}, connection {recipe.exchange.connection}"
    )
    for done in case.done:
        click.echo(f"  {done.name}: {done.what}")
    tell_written(output, plural(len(case.packets), "packet"))


def _list() -> None:
    from scapy_mpa.fuzz.catalogue import weights
    from scapy_mpa.fuzz.mutations import MUTATIONS

    width = max(map(len, MUTATIONS))
    for area, weight in weights().items():
        click.echo(f"{area} ({weight} in {sum(weights().values())}):")
        for mutation in MUTATIONS.values():
            if mutation.area == area:
                click.echo(f"  {mutation.name:<{width}}  {mutation.meaning}")
