"""``scapy-mpa reduce``."""

from __future__ import annotations

from time import monotonic

import click

from scapy_mpa.capture.named import STANDARD_INPUT
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.options import Reading, hides, reads_captures, warn_of_damage
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.cli.progress import StepProgress, shows_progress
from scapy_mpa.rules.table import RULES
from scapy_mpa.values.words import plural

#: Seconds between two lines that say how far it is, where no line can be written anew.
_INTERVAL = 10.0


@hides("direction", "ports", "hosts", "frames", "read_frames", "since", "until", "protocols", "joining", "esp")
@click.command("reduce", cls=Command)
@reads_captures
@click.argument("output", metavar="OUT", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--rule", metavar="ID", help="Keep what shows the first finding of this rule.")
@click.option(
    "--verdict",
    is_flag=True,
    help="Keep what shows how a connection ended: that of --connection, else the first that ended before its work was "
    "done.",
)
@click.option(
    "--any",
    "is_loose",
    is_flag=True,
    help="Any finding of the rule will do, or any end by the same side in the same way: fewer packets, but they may "
    "show another cause.",
)
@click.option(
    "--tests",
    metavar="N",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Try at most this many smaller captures.",
)
def reduce_command(reading: Reading, output: str, rule: str | None, verdict: bool, is_loose: bool, tests: int) -> int:
    """Write the fewest packets that still show a finding, or how a connection ended.

    Removes other connections first, then frames that only acknowledge, messages, FPDUs and single frames, as long as
    the analysis of the rest says the same. Where FPDUs are removed, later sequence numbers move up. The frames of a
    connection may be 64 MiB. Progress is shown on standard error. OUT - is standard output.
    """
    from scapy_mpa.reduce.reduction import reduce

    if (rule is None) is not verdict:
        raise click.UsageError("say what must still be shown: --rule ID or --verdict")
    if rule is not None and rule not in RULES:
        raise click.UsageError(f"there is no rule {rule!r}; scapy-mpa rules lists them")
    if len(reading.captures) > 1:
        raise click.UsageError("reduce takes one capture; merge several first (mergecap)")
    others = [name for name in reading.filters if name != "--connection"]
    if others or len(reading.connections) > 1:
        raise click.UsageError(f"reduce looks at one connection: {others[0] if others else 'one --connection'}")
    if reading.query.sources.esp is not None:
        raise click.UsageError("reduce does not decrypt ESP: leave --esp out")
    if reading.captures[0] == STANDARD_INPUT:
        raise click.UsageError("reduce reads the capture more than once: name the file")
    check_output(reading.captures, output, again="reduce")
    number = reading.connections[0] if reading.connections else None
    told = _Told(tests)
    try:
        with written(output) as file:
            done = reduce(
                reading.query, file, rule=rule, connection=number, is_loose=is_loose, tests=tests, step=told.step
            )
    finally:
        told.end()
    tell_written(output, f"{done.frames} of {plural(done.before, 'packet')}, after {plural(done.tests, 'test')}")
    if not done.is_least:
        print_line(f"scapy-mpa: stopped after {tests} tests (--tests): fewer packets may do", err=True)
    if not is_loose and 10 * done.frames > done.before:
        remark = "the finding must keep its words and numbers; --any is less strict"
        print_line(f"scapy-mpa: {remark}", err=True)
    warn_of_damage(done.damage)
    return 0


class _Told:
    """Tells how far it is: on a terminal that is shown in one line, elsewhere a line says it from time to time."""

    def __init__(self, tests: int) -> None:
        self._tests = tests
        self._progress = StepProgress("reduce")
        self._due = monotonic() + _INTERVAL
        self.end = self._progress.end

    def step(self, what: str, left: int, done: int) -> None:
        """Less of ``what`` was tried; so many packets are left, after so many tests."""
        said = f"fewer {what}, {plural(left, 'packet')} left"
        self._progress.step(done, self._tests, said)
        if not shows_progress() and monotonic() >= self._due:
            self._due = monotonic() + _INTERVAL
            print_line(f"scapy-mpa: {said} after {done} of {plural(self._tests, 'test')}", err=True)
