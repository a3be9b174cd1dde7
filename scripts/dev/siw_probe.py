#!/usr/bin/env python3
"""Run ``probe`` against a real Linux siw, as Responder and as Initiator, and print tables of what deviates.

    python -m scripts.dev.siw_probe --form stock './restart stock' --form mpa_crc_required './restart crc' \
        --responder 192.0.2.2 7471 --initiator "ssh root@192.0.2.2 'rping -c -a 192.0.2.1 -p {port} -C 1'" \
        --listen 192.0.2.1:7472 --keep results

``--form NAME COMMAND`` is a form of the driver, and the shell command that starts the host with it, again if it runs.
``probe`` uses the same command when a case has taken the host down. The results of each run are in the folder
``--keep``: its JSON lines, its captures, what it printed. ``--raw`` runs ``probe --raw`` as well. ``--tables`` only
prints the tables, from what is kept. Cases behind which the peer was gone are counted, and are not named:
docs/disclosure.md says why. Exit status: 0 if every run came to its end, 1 if not.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich import box
from rich.console import Console
from rich.table import Table

#: How probe ends if it gave all its cases: all pass, some fail.
_COMPLETE = (0, 1)
_VERDICTS = ("pass", "allowed", "unsupported", "fail", "no answer", "peer gone")
#: How many cases a row names.
_NAMED = 4
#: Of a table, in characters.
_WIDTH = 400


class Run(NamedTuple):
    """One run of probe: the form of the driver, what of it is tested and how, and the options that say so."""

    form: str
    role: str
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its files are called, and its column."""
        return f"{self.form}, {self.role}"

    def results(self, folder: Path) -> Path:
        """Its JSON lines."""
        return folder / f"{self.form}-{self.role.replace(' ', '-')}.jsonl"


class Deviation(NamedTuple):
    """One of those that probe tells apart: the clause and the reason of its first case, and all cases by form."""

    clause: str
    reason: str
    cases: dict[str, Counter[str]]


def probe(run: Run, restart: str, common: tuple[str, ...], folder: Path) -> int:
    """Start the host anew and give it all cases; returns the exit status of ``probe``."""
    subprocess.run(restart, shell=True, check=True, stdout=sys.stderr)
    results = run.results(folder)
    command = [
        *(sys.executable, "-m", "scapy_mpa", "probe", *run.options, *common),
        *("--restart", restart, "--format", "jsonl", "--write", str(results.with_suffix(""))),
    ]
    click.echo(shlex.join(command), err=True)
    with results.open("wb") as out, results.with_suffix(".err").open("wb") as err:
        return subprocess.run(command, stdout=out, stderr=err, check=False).returncode


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The results of a run as far as it came: a last line that was cut is left out."""
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            return


def tables(runs: list[Run], folder: Path, console: Console) -> None:
    """How many cases came to which verdict, and what went wrong in those that failed: a row for each deviation."""
    found = {run: [*read(run.results(folder))] for run in runs if run.results(folder).exists()}
    counts = Table("run", "cases", *_VERDICTS, box=box.MARKDOWN)
    for run, results in found.items():
        verdicts = Counter(str(one["verdict"]) for one in results)
        counts.add_row(run.name, str(len(results)), *(str(verdicts[verdict]) for verdict in _VERDICTS))
    console.print(counts)
    gone = {one["case"] for results in found.values() for one in results if one["verdict"] == "peer gone"}
    for role in dict.fromkeys(run.role for run in found):
        of_role = [run for run in found if run.role == role]
        given = [(run, one) for run in of_role for one in found[run] if one["case"] not in gone]
        deviations: dict[str, Deviation] = {}
        for _, one in given:
            for name in one["counted"] if one["verdict"] == "fail" else ():
                deviations.setdefault(name, Deviation(str(one["clause"]), str(one["reason"] or ""), {}))
        for run, one in given:
            for name in one["deviations"]:
                if name in deviations:
                    deviations[name].cases.setdefault(str(one["case"]), Counter())[run.form] += 1
        table = Table("deviation", "clause", role, *(run.form for run in of_role), "cases", box=box.MARKDOWN)
        for name, (clause, reason, cases) in sorted(deviations.items(), key=lambda each: -len(each[1].cases)):
            times = (str(sum(by[run.form] for by in cases.values()) or "") for run in of_role)
            more = f" and {len(cases) - _NAMED} more" if len(cases) > _NAMED else ""
            names = ", ".join(f"`{case}`" for case in [*cases][:_NAMED])
            table.add_row(f"`{name}`", clause, reason.replace("|", "\\|"), *times, names + more)
        console.print()
        console.print(table)


@click.command()
@click.option("--form", "forms", nargs=2, multiple=True, required=True, metavar="NAME COMMAND", help="A form of siw.")
@click.option("--responder", nargs=2, metavar="HOST PORT", help="Where rping -s -P listens there.")
@click.option("--initiator", metavar="COMMAND", help="Starts rping -c there; {port} is the port that it connects to.")
@click.option("--listen", metavar="[HOST:]PORT", default="7472", show_default=True, help="Where rping -c connects to.")
@click.option("--raw", metavar="ADDRESS", help="Give the cases for our own TCP too, from this address.")
@click.option(
    "--options", default="--ulp rping --ird 8 --ord 8 --settle 0.3 --recovery 5", show_default=True, help="For probe."
)
@click.option("--boot", default="60", show_default=True, help="For probe, in seconds.")
@click.option("--patience", default="90", show_default=True, help="For probe, in seconds.")
@click.option("--halt", metavar="COMMAND", help="Ends the host.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), required=True, help="For results.")
@click.option("--tables", "only_tables", is_flag=True, help="Print the tables of what is kept, and test nothing.")
def main(
    forms: tuple[tuple[str, str], ...],
    responder: tuple[str, str] | None,
    initiator: str | None,
    listen: str,
    raw: str | None,
    options: str,
    boot: str,
    patience: str,
    halt: str | None,
    keep: Path,
    only_tables: bool,
) -> None:
    """Give every case of probe to a real Linux siw in each of its forms and roles, and print what deviates."""
    keep.mkdir(parents=True, exist_ok=True)
    common = (*shlex.split(options), "--patience", patience, "--boot", boot)
    is_complete = True
    runs = []
    for form, restart in forms:
        roles = []
        if responder is not None:
            roles.append(Run(form, "Responder", responder))
            if raw is not None:
                roles.append(Run(form, "Responder by our TCP", (*responder, "--raw", raw)))
        if initiator is not None:
            roles.append(Run(form, "Initiator", ("--listen", listen, "--run", initiator)))
        runs += roles
        for run in () if only_tables else roles:
            status = probe(run, restart, common, keep)
            click.echo(f"{run.name}: exit status {status}", err=True)
            is_complete = is_complete and status in _COMPLETE
    if halt is not None and not only_tables:
        subprocess.run(halt, shell=True, check=False, stdout=sys.stderr)
    tables(runs, keep, Console(width=_WIDTH, markup=False, highlight=False))
    sys.exit(not is_complete)


if __name__ == "__main__":
    main()
