"""``scapy-mpa malform``."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from scapy_mpa.cli.address import TO_METAVAR, CommandTo, host_and_port
from scapy_mpa.cli.colours import file_width
from scapy_mpa.cli.judging import complete_rule
from scapy_mpa.cli.lines import print_lines
from scapy_mpa.cli.output import (
    STANDARD_OUTPUT,
    check_empty,
    check_folder_of,
    check_output,
    make_folder,
    names_folder,
    tell_written,
    written,
)
from scapy_mpa.cli.settling import GONE, RECOVERY, ULPS, settles
from scapy_mpa.cli.types import Begun, Word
from scapy_mpa.errors import MPAError
from scapy_mpa.system.names import printable
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.catalogue.case import Case
    from scapy_mpa.catalogue.malformed import Malformed
    from scapy_mpa.craft.exchange import Exchange
    from scapy_mpa.craft.sent import Repairable

# The catalogue is imported when it is needed: completion and help do not need it.
_FORMATS: tuple[Literal["text", "json", "md"], ...] = ("text", "json", "md")
#: Changes that put something else in place of what is said.
_REPLACING = ("says", "answers")
_REPAIRS: tuple[Literal["repaired", "left"], ...] = ("repaired", "left")


def _areas() -> Iterable[str]:
    from scapy_mpa.catalogue.table import CASES

    return dict.fromkeys(case.area for case in CASES.values())


def complete_case(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of cases for the shell."""
    from scapy_mpa.catalogue.table import CASES

    return [name for name in CASES if name.startswith(incomplete)]


@click.command(
    "malform",
    cls=CommandTo,
    epilog="catalogue.md in the documentation has all cases; breaking.md describes how to use them.",
)
@click.argument("names", metavar="[CASE]...", nargs=-1, shell_complete=complete_case)
@click.option("--all", "everything", is_flag=True, help="All cases.")
@click.option("--list", "only_list", is_flag=True, help="List the cases and write nothing.")
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="ID",
    shell_complete=complete_rule,
    help="Cases of this rule: its ID, or the beginning of one. May be repeated.",
)
@click.option(
    "--area", "areas", multiple=True, metavar="AREA", type=Begun(_areas), help="Cases of this area. May be repeated."
)
@click.option(
    "--from",
    "capture",
    metavar="CAPTURE",
    type=click.Path(),
    help="Change a connection of this capture as each CASE says, instead of a valid connection of our own.",
)
@click.option("--scenario", metavar="NAME", help="The same with a connection of this scenario (craft --list).")
@click.option(
    "--connection", type=click.IntRange(0), help="With --from or --scenario: the connection with this number."
)
@click.option("--to", "peer", metavar=TO_METAVAR, help="Send the CASE to a live Responder, and print what came back.")
@click.option(
    "--timeout",
    type=click.FloatRange(0.001, 3600),
    default=2.0,
    show_default=True,
    help="With --to: seconds to wait for each answer.",
)
@settles("With --to")
@click.option(
    "--seed", type=click.IntRange(0), help="Seed for a CASE that is an impairment with a probability.  [default: 0]"
)
@click.option("--ulp", type=Word(ULPS), default="none", show_default=True, help="With --to: the peer's upper layer.")
@click.option(
    "-o",
    "--output",
    metavar="FILE_OR_DIR",
    type=click.Path(),
    help="The capture to write (- is stdout); for several cases a folder, which also gets manifest.json.",
)
@click.option(
    "--script", metavar="FILE", type=click.Path(dir_okay=False),
    help="Write the CASE as a Python program which sends it to a peer, for a bug report; with --to, as it was sent.",
)  # fmt: skip
@click.option(
    "--crc",
    type=Word(_REPAIRS),
    default="repaired",
    show_default=True,
    help="CRC fields: repaired after the change or left wrong, for cases that allow either.",
)
@click.option(
    "--lengths", type=Word(_REPAIRS), default="repaired", show_default=True, help="The same for length fields."
)
@click.option("--format", "output_format", type=Word(_FORMATS), help="Format of --list. [default: text]")
def malform_command(
    names: tuple[str, ...],
    everything: bool,
    only_list: bool,
    rules: tuple[str, ...],
    areas: tuple[str, ...],
    capture: str | None,
    scenario: str | None,
    connection: int | None,
    peer: str | None,
    timeout: float,
    settle: float,
    seed: int | None,
    ulp: str,
    output: str | None,
    script: str | None,
    crc: Literal["repaired", "left"],
    lengths: Literal["repaired", "left"],
    output_format: Literal["text", "json", "md"] | None,
) -> int:
    """Make captures of malformed traffic: each CASE is a valid connection with one thing changed.

    A CASE may also be a change with its parameters, such as pad:number=2,octets=hex:01.
    --list lists the cases instead, and explains each CASE that is given. With --to, the case is sent to a live
    Responder over the kernel's TCP, -o records the exchange, and a clean connection afterwards shows whether the peer
    survived. Exit status: 1 if the peer fails the case, 3 if it is gone.
    """
    from scapy_mpa.catalogue.malformed import left_of, with_choice

    is_chosen = bool(names or rules or areas)
    if everything and is_chosen:
        raise click.UsageError("--all selects all cases: leave it out, or leave out the other selection")
    if output_format is not None and not only_list:
        raise click.UsageError("--format is only for --list")
    if only_list and (output is not None or script is not None):
        raise click.UsageError("--list writes no files: leave out --list, or leave out -o and --script")
    if not (is_chosen or everything or only_list):
        raise click.UsageError("no case is selected: give CASE, --rule, --area or --all; --list names the cases")
    if only_list and output_format in (None, "text"):
        names = _explain_changes(names)
        if is_chosen and not (names or rules or areas):
            return 0
    if seed is not None:
        names = _seeded(names, seed)
    begins = capture is not None or scenario is not None
    cases = _chosen(names, rules, areas, is_checked=not begins)
    if connection is not None and not begins:
        raise click.UsageError("--connection needs --from or --scenario: it selects from that")
    if begins:
        if not names or only_list or peer is not None or output is None:
            raise click.UsageError("--from or --scenario takes each CASE by its name, and -o FILE")
        _write_changed(cases, capture, scenario, connection, left_of(crc, lengths), output)
        return 0
    made = [with_choice(case, crc, lengths, only=case.name in names) for case in cases]
    if only_list:
        _list(made, output_format or "text", in_full=bool(names), whole=not is_chosen)
        return 0
    if peer is not None:
        if len(made) != 1 or not names:
            raise click.UsageError("--to sends one CASE; `scapy-mpa probe` sends many")
        return _give(made[0], peer, timeout, settle, output, script, rping=ulp == "rping")
    if script is not None:
        if len(made) != 1:
            raise click.UsageError(f"--script writes one CASE, but {len(made)} are selected")
        _write_script(made[0], script)
        if output is None:
            return 0
    if output is None:
        raise click.UsageError("no output: -o names the capture to write, or the folder for several")
    if len(made) == 1 and not names_folder(output):
        _write_one(made[0], output)
    else:
        _write_all(made, output)
    return 0


def _chosen(names: tuple[str, ...], rules: tuple[str, ...], areas: tuple[str, ...], *, is_checked: bool) -> list[Case]:
    from scapy_mpa.catalogue.malformed import Malformed
    from scapy_mpa.catalogue.table import CASES, UnknownCase, named

    try:
        found = {name: named(name, is_checked=is_checked) for name in names}
    except UnknownCase:
        from scapy_mpa.probe.choice import all_cases

        for name in names:
            if name not in CASES and name in all_cases():
                hint = f"`scapy-mpa probe HOST PORT --case {name}` tests it"
                raise MPAError(f"nothing is wrong in {name}, so malform cannot make it; {hint}") from None
        raise
    if rules or areas or not names:
        for rule in rules or (None,):
            for area in areas or (None,):
                found |= {case.name: case for case in Malformed.cases(rule, area)}
    if not found:
        of_rules = f" of {' or '.join(rules)}" if rules else ""
        raise MPAError(f"no case{of_rules} in {' or '.join(areas)}" if areas else f"no case{of_rules}")
    return [found[name] for name in dict.fromkeys((*CASES, *found)) if name in found]


def _seeded(names: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """The names with this seed for impairments that have a probability; raises click.UsageError if none has."""
    from scapy_mpa.catalogue.table import is_change
    from scapy_mpa.craft.changes.table import CHANGES

    def seeded(name: str) -> str:
        kind, _, parameters = name.partition(":")
        has_seed = is_change(name) and "seed" in CHANGES[kind].draws
        return f"{kind}:{','.join(filter(None, (parameters, f'seed={seed}')))}" if has_seed else name

    found = tuple(map(seeded, names))
    if found == names:
        raise click.UsageError("--seed is for impairments with a probability, and no CASE is one")
    return found


def _explain_changes(names: tuple[str, ...]) -> tuple[str, ...]:
    """Explain the changes that are named without parameters; return the other names."""
    from scapy_mpa.catalogue.document import change_explanation
    from scapy_mpa.catalogue.table import CASES
    from scapy_mpa.craft.changes.table import CHANGES

    bare = [name for name in names if name in CHANGES and name not in CASES]
    print_lines(line for name in bare for line in change_explanation(CHANGES[name]))
    return tuple(name for name in names if name not in bare)


def _list(made: list[Malformed], output_format: str, *, in_full: bool, whole: bool) -> None:
    from scapy_mpa.catalogue.document import explanation, list_lines, markdown_lines
    from scapy_mpa.catalogue.manifest import manifest

    if output_format == "md":
        if not whole:
            raise click.UsageError("--format md prints the whole table; leave out the options that select cases")
        lines = markdown_lines()
    elif output_format == "json":
        lines = iter((json.dumps(manifest(made), indent=2),))
    elif in_full:
        lines = (line for one in made for line in explanation(one.case, one.left))
    else:
        lines = list_lines([one.case for one in made])
    if output_format == "text":
        print_lines(lines, width=file_width() if os.environ.get("COLUMNS") else None)
        return
    for line in lines:
        click.echo(line)


def _give(
    made: Malformed, peer: str, timeout: float, settle: float, output: str | None, script: str | None, *, rping: bool
) -> int:
    """Give a case to a live peer and tell what came back; returns the exit status of probe."""
    from scapy_mpa.probe.single import given

    host, port = host_and_port((peer,))
    with ExitStack() as files:
        file = None
        # Before anything is sent: a peer that crashes on it may not do so twice.
        if output is not None:
            check_output((), output)
            file = files.enter_context(written(output))
        if script is not None:
            check_folder_of(script)
        found = given(made.case, made.left, host, port, timeout, settle, RECOVERY, rping=rping)
        if file is not None:
            file.write(found.capture)
    print_lines(found.lines, err=STANDARD_OUTPUT in (output, script))
    if script is not None:
        _write_script(made, script, found.capture)
    if output is not None:
        tell_written(output, plural(found.frames, "packet"))
    return GONE if found.is_gone else int(found.is_bad)


def _write_script(made: Malformed, script: str, recorded: bytes | None = None) -> None:
    from scapy_mpa.probe.case import ProbeCase
    from scapy_mpa.probe.reproducer import case_reproducer

    text = case_reproducer(ProbeCase(made.case, made.case.area), made.left, recorded)
    with written(script) as file:
        file.write(text.encode())
    tell_written(script, f"sends {made.case.name} to HOST PORT")


def _exchange_of(capture: str | None, scenario: str, connection: int | None) -> Exchange:
    """Return the conversation of one connection of a capture or of a scenario."""
    from scapy_mpa.craft.exchange import Exchange
    from scapy_mpa.craft.scenario import load
    from scapy_mpa.fuzz.baselines import Capture

    if capture is not None:
        found = [one.exchange() for one in Capture(capture, connection).found.exchanges]
        number = 0
    else:
        found = [Exchange.of(one) for one in load(scenario).conversations]
        number = connection or 0
    if not number < len(found):
        raise MPAError(f"{printable(scenario)}: there is no connection {number}; the last one is {len(found) - 1}")
    if len(found) > 1 and connection is None:
        raise click.UsageError(f"there are {len(found)} connections: choose one with --connection")
    return found[number]


def _write_changed(
    cases: list[Case],
    capture: str | None,
    scenario: str | None,
    connection: int | None,
    left: Repairable | None,
    output: str,
) -> None:
    """Write an exchange of a capture or scenario with the changes of some cases."""
    from scapy_mpa.reading.analysis import analyze

    if capture is not None and scenario is not None:
        raise click.UsageError("--from and --scenario both say what is changed: leave one of them out")
    check_output((capture or scenario or "",), output)
    exchange = _exchange_of(capture, scenario or "", connection)
    exchange.left = left
    for case in cases:
        if any(change.name in _REPLACING for change in case.changes):
            others = ", ".join(one.name for one in case.changes if one.name not in _REPLACING)
            hint = f"give only its changes, with parameters: {others}" if others else "it changes nothing else"
            raise click.UsageError(f"{case.name} replaces all messages, so none of yours would be left; {hint}")
        exchange.by = case.by
        for change in case.changes:
            try:
                change.apply(exchange)
            except LookupError:
                raise MPAError(f"{change.name}: there is nothing to change") from None
    exchange.check()
    captured = exchange.captured()
    with written(output) as file:
        packets = captured.write(file)
    made = io.BytesIO()
    captured.write(made)
    made.seek(0)
    rules = ", ".join(dict.fromkeys(one.rule.id for one in analyze(made, fpdus=False).all_findings())) or "nothing"
    tell_written(output, f"{packets} packets, in which analyze finds {rules}")


def _write_one(made: Malformed, output: str) -> None:
    check_output((), output)
    with written(output) as file:
        packets = made.captured.write(file)
    told = (one.rule for one in made.raised)
    if not made.is_of_catalogue:
        told = (one.rule.id for one in made.analyze().all_findings())
    rules = ", ".join(dict.fromkeys(told)) or "nothing"
    wanted = f" {' '.join(made.case.options)}" if made.case.options else ""
    tell_written(output, f"{packets} packets, in which analyze{wanted} finds {rules}")


def _write_all(made: list[Malformed], output: str) -> None:
    from scapy_mpa.catalogue.manifest import FILE_NAME, manifest

    if output == STANDARD_OUTPUT:
        raise click.UsageError("standard output takes one capture; -o DIR takes several")
    if os.path.isfile(output):
        raise click.UsageError(f"{printable(output)}: this is a file, but {len(made)} captures need a folder")
    folder = Path(output)
    check_empty(folder)
    make_folder(folder)
    files = []
    for one in made:
        files.append(one.file_name)
        with written(os.path.join(output, files[-1])) as file:
            one.captured.write(file)
        one.forget()
    with written(os.path.join(output, FILE_NAME)) as file:
        file.write((json.dumps(manifest(made, files), indent=2) + "\n").encode())
    tell_written(output, f"{plural(len(files), 'capture')} and {FILE_NAME}")
