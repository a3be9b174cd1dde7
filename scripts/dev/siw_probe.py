#!/usr/bin/env python3
"""Run ``probe`` against a real Linux siw in a virtual machine, in both roles, and print tables of what deviates.

    python -m scripts.dev.siw_probe GUEST --keep results --form stock --form mpa_crc_required=Y,peer_to_peer=Y

GUEST is a folder with a program ``run_vm.sh``, which takes these words:

* ``start user stock`` boots the guest with the stock driver, ``start user param OPTIONS`` with one whose constants are
  module options, and ends when the guest is up: ``rping -s -P`` listens on its port 7471, which $HOSTPORT of
  127.0.0.1 reaches, and the guest reaches this host at 10.0.2.2;
* ``cmd COMMAND`` runs a shell command in the guest, by way of $CMDPORT;
* ``stop`` ends the guest, even if its kernel no longer answers.

``probe --restart`` boots the guest again when a case has taken its kernel down. The results of each run are in the
folder ``--keep``: its JSON lines, its captures, what it printed. ``--tables`` only prints the tables, from what is
kept. ``--learn`` has ``probe --learn`` learn the peer in each role instead, and keeps its JSON. Cases after which the
peer was gone, and deviations of the file ``--withhold`` (names, one a line), are counted and not named:
docs/disclosure.md says why. Exit status: 0 if every run came to its end, 1 if not.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click
from rich import box
from rich.console import Console
from rich.table import Table

from scapy_mpa.probe.choice import chosen
from scapy_mpa.probe.run import peers
from scapy_mpa.rules.table import RULES
from scapy_mpa.values.words import plural

_VERDICTS = ("pass", "allowed", "unsupported", "fail", "no answer", "peer gone")
_GONE = "peer gone"
#: How many cases a row names.
_NAMED = 4
#: Of a table, in characters.
_WIDTH = 400
_LOOPBACK, _OURS = "127.0.0.1", "10.0.2.2"
#: Options of probe, and of what learns.
_OPTIONS, _LEARN = "--ulp rping --ird 1 --ord 1 --settle 0.3 --recovery 5", "--ird 1 --ord 1 --settle 0.3 --recovery 5"
#: Seconds for a guest without hardware support to boot, and for rping in it to connect, or to be there again.
_BOOT, _RPING = 90, 20


class Guest(NamedTuple):
    """A virtual machine: its program, and ports of loopback that reach its rping, its shell, and what else it has."""

    program: Path
    ports: tuple[int, int, int]

    @classmethod
    def of(cls, folder: Path) -> Guest:
        """Choose ports that nobody uses; raises click.UsageError if it is no folder of a guest."""
        program = folder.resolve() / "run_vm.sh"
        if not os.access(program, os.X_OK):
            raise click.UsageError(f"{program} is no program: it has to take start, cmd and stop (see --help)")
        with ExitStack() as stack:
            taken = [stack.enter_context(socket.create_server((_LOOPBACK, 0))) for _ in range(3)]
            rping, shell, other = (one.getsockname()[1] for one in taken)
        return cls(program, (rping, shell, other))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its program."""
        names = ("HOSTPORT", "CMDPORT", "HOSTPORT2")
        return {**os.environ, **dict(zip(names, map(str, self.ports), strict=True))}

    def start(self, form: str) -> str:
        """The command that boots it with a form of the driver, again if it runs."""
        program, words = shlex.quote(str(self.program)), "stock" if form == "stock" else f"param {shlex.quote(form)}"
        return shlex.join(("sh", "-c", f"{program} stop; exec {program} start user {words}"))

    @property
    def rping(self) -> str:
        """The command that has its rping connect to a port of this host."""
        return shlex.join((str(self.program), "cmd", f"timeout {_RPING} rping -c -a {_OURS} -p {{port}} -C 1"))


class Run(NamedTuple):
    """One run of probe: the form of the driver, and the role that is tested."""

    form: str
    role: str

    @property
    def name(self) -> str:
        """Its column."""
        return f"{self.form}, {self.role}"

    def results(self, folder: Path) -> Path:
        """Its JSON lines."""
        return folder / f"{self.form.replace('=', '-')}-{self.role}.jsonl"


class Deviation(NamedTuple):
    """One of those that probe tells apart: the clause and the reason of its first case, and all cases by form."""

    clause: str
    reason: str
    cases: dict[str, Counter[str]]


def ask(run: Run, guest: Guest, options: tuple[str, ...], results: Path) -> int:
    """Start the guest again, and run probe with its output in a file; returns its exit status."""
    restart = guest.start(run.form)
    subprocess.run(shlex.split(restart), env=guest.environment, check=True, stdout=sys.__stderr__)
    whom = [_LOOPBACK, str(guest.ports[0])]
    if run.role == "Initiator":
        whom = ["--listen", f"{_LOOPBACK}:0", "--run", guest.rping]
    command = [
        *(sys.executable, "-m", "scapy_mpa", "probe", *whom, *options),
        *("--boot", str(_BOOT), "--patience", str(_RPING), "--restart", restart),
    ]
    click.echo(shlex.join(command), err=True)
    with results.open("wb") as out, results.with_suffix(".err").open("wb") as err:
        return subprocess.run(command, env=guest.environment, stdout=out, stderr=err, check=False).returncode


def learn(run: Run, guest: Guest, options: tuple[str, ...], folder: Path) -> bool:
    """Have the guest learned; returns whether it was, to the end."""
    results = run.results(folder).with_suffix(".json")
    status = ask(run, guest, ("--learn", *options, "--format", "json"), results)
    is_complete = status in (0, 1) and bool(json.loads(results.read_text())["complete"])
    click.echo(
        f"{run.name}: exit status {status}, {'' if is_complete else 'not '}learned to the end: {results}", err=True
    )
    return is_complete


def probe(run: Run, guest: Guest, options: tuple[str, ...], folder: Path) -> bool:
    """Give a guest that is started anew cases; returns whether it was given all of its role."""
    results = run.results(folder)
    status = ask(run, guest, (*options, "--format", "jsonl", "--write", str(results.with_suffix(""))), results)
    left = {case.name for case in peers(chosen(), run.role.lower())} - {one["case"] for one in read(results)}
    click.echo(f"{run.name}: exit status {status}, {len(left)} cases not given", err=True)
    return not left


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The results of a run as far as it came: a last line that was cut is left out."""
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def deviations(results: list[tuple[Run, dict[str, Any]]]) -> dict[str, Deviation]:
    """All that count in a case, each with every case that shows it."""
    found: dict[str, Deviation] = {}
    for _, one in results:
        for number, name in enumerate(one["counted"]):
            # The verdict is about the first of them, the others are rules.
            rule = RULES.get(name) if number else None
            words = one["clause"] or "", one["reason"] or ""
            if rule is not None:
                words = rule.clause_in("rfc6581") or "", f"expected: {rule.expected}"
            found.setdefault(name, Deviation(*words, {}))
    for run, one in results:
        for name in one["deviations"]:
            if name in found:
                found[name].cases.setdefault(one["case"], Counter())[run.form] += 1
    return found


def tables(runs: list[Run], folder: Path, withheld: frozenset[str], console: Console) -> None:
    """Print how many cases came to which verdict, and what went wrong in those that failed: a row per deviation."""
    found = {run: [*read(run.results(folder))] for run in runs if run.results(folder).exists()}
    counts = Table("run", "cases", *_VERDICTS, box=box.MARKDOWN)
    for run, results in found.items():
        verdicts = Counter(str(one["verdict"]) for one in results)
        counts.add_row(run.name, str(len(results)), *(str(verdicts[verdict]) for verdict in _VERDICTS))
    console.print(counts)
    gone = {one["case"] for results in found.values() for one in results if one["verdict"] == _GONE}
    for role in dict.fromkeys(run.role for run in found):
        of_role = [run for run in found if run.role == role]
        known = deviations([(run, one) for run in of_role for one in found[run] if one["case"] not in gone])
        table = Table("clause", role, *(run.form for run in of_role), "cases", "deviation", box=box.MARKDOWN)
        for name, (clause, reason, cases) in sorted(known.items(), key=lambda each: -len(each[1].cases)):
            if name in withheld:
                continue
            times = (str(sum(by[run.form] for by in cases.values()) or "") for run in of_role)
            more = f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
            names = ", ".join(f"`{case}`" for case in [*cases][:_NAMED])
            table.add_row(clause, reason.replace("|", "\\|"), *times, names + more, f"`{name}`")
        console.print()
        console.print(table)
        console.print(f"Not named: {plural(len(withheld & known.keys()), 'deviation')} withheld.")
    console.print(f"Not named: {plural(len(gone), 'case')} after which the peer was gone.")


@click.command(help=f"{(__doc__ or '').replace(chr(10) * 2, chr(10) * 2 + chr(8) + chr(10))}")
@click.argument("guest", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--form", "forms", multiple=True, default=("stock",), show_default=True, metavar="stock|OPTIONS")
@click.option("--role", "roles", multiple=True, type=click.Choice(("Responder", "Initiator")), help="Only this one.")
@click.option("--options", help=f"For probe.  [default: {_OPTIONS}; with --learn: {_LEARN}]")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), required=True, help="For results.")
@click.option("--withhold", type=click.File(), help="Names of deviations that are not published yet.")
@click.option("--learn", "learns", is_flag=True, help="Learn its state machine, and give no cases.")
@click.option("--tables", "only_tables", is_flag=True, help="Print the tables of what is kept, and test nothing.")
def main(
    guest: Path,
    forms: tuple[str, ...],
    roles: tuple[str, ...],
    options: str | None,
    keep: Path,
    withhold: TextIO | None,
    learns: bool,
    only_tables: bool,
) -> None:
    """Give every case of probe to a real Linux siw in each form and role, and print what deviates; or learn it."""
    machine = Guest.of(guest)
    keep.mkdir(parents=True, exist_ok=True)
    runs = [Run(form, role) for form in forms for role in roles or ("Responder", "Initiator")]
    is_complete = True
    for run in () if only_tables else runs:
        words = shlex.split(options or (_LEARN if learns else _OPTIONS))
        is_complete = (learn if learns else probe)(run, machine, (*words,), keep) and is_complete
    if not only_tables:
        subprocess.run((str(machine.program), "stop"), env=machine.environment, check=False, stdout=sys.__stderr__)
    if learns:
        sys.exit(not is_complete)
    withheld = frozenset(withhold.read().split() if withhold is not None else ())
    tables(runs, keep, withheld, Console(width=_WIDTH, markup=False, highlight=False))
    sys.exit(not is_complete)


if __name__ == "__main__":
    main()
