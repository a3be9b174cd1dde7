"""``scapy-mpa analyze``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Literal

import click

from scapy_mpa.cli.cluster import divides_among_machines
from scapy_mpa.cli.colours import style
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.lines import print_lines
from scapy_mpa.cli.options import Reading, divides_work, reads_all, warn_of_damage, warn_of_nothing
from scapy_mpa.cli.progress import end_progress
from scapy_mpa.cli.types import Word
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.text import report_lines
from scapy_mpa.rules.table import SEVERITIES, Severity
from scapy_mpa.system.cycles import leave

#: Those of ``report.receivers``, which is imported when it is needed.
_RECEIVERS = ("siw",)


@click.command("analyze", cls=Command)
@reads_all
@divides_work
@divides_among_machines
@click.option("--format", "output_format", type=Word(("text", "json", "jsonl")), default="text", show_default=True)
@click.option("--summary", "summary_only", is_flag=True, help="Print only the totals, no connections.")
@click.option("--all", "every", is_flag=True, help="Print every connection, however many there are.")
@click.option(
    "--severity",
    type=Word(SEVERITIES),
    help="Only findings of this severity or higher, and the connections that have them.",
)
@click.option(
    "--buffers",
    "wants_buffers",
    is_flag=True,
    help="Report how many octets a receiver had to hold, with Markers and without (RFC 5044 appendix B). The captures "
    "are read twice.",
)
@click.option(
    "--receiver",
    type=Word(_RECEIVERS),
    help="Say where this implementation would have ended a connection or carried on, judging by captures of its "
    "behaviour.",
)
@click.option("--junit", metavar="FILE", type=click.Path(dir_okay=False), help="Also write JUnit XML, for CI systems.")
@judges
def analyze_command(
    reading: Reading,
    judging: Judging,
    output_format: Literal["text", "json", "jsonl"],
    jobs: int,
    summary_only: bool,
    every: bool,
    severity: Severity | None,
    wants_buffers: bool,
    receiver: str | None,
    junit: str | None,
) -> int:
    """Show how the MPA connections in the captures ended, and what is wrong with them.

    Prints totals first, then each connection, the worst first, or only those with something to report if there are
    many. Several captures are merged by time; - is standard input. jsonl has one line for each connection, and a last
    line with the rest. With --follow or -i, each connection is printed when it is over, and the totals at the end.

    An error is what makes a conforming peer stop, close or fail, and gives exit status 1. A warning is a broken MUST
    that a conforming receiver tolerates, or a connection that ended before its work was done: see --fail-on.
    """
    if summary_only and (every or output_format != "text"):
        other = "--all" if every else f"--format {output_format}, which has a summary"
        raise click.UsageError(f"--summary leaves connections out: it cannot be used with {other}")
    if receiver is not None and (summary_only or reading.ongoing is not None):
        raise click.UsageError("--receiver needs connections that are over: leave out --summary, --follow and -i")
    if wants_buffers and summary_only:
        raise click.UsageError("--summary leaves connections out: it cannot be used with --buffers")
    if wants_buffers:
        from scapy_mpa.cli.output import check_read_twice

        check_read_twice(reading.captures, "--buffers")
    if junit is not None:
        _check_junit(junit, reading)
    if reading.ongoing is not None:
        from scapy_mpa.cli.ongoing import analyze_ongoing

        if output_format == "json":
            raise click.UsageError("--format json prints one object at the end; use --format jsonl here")
        return analyze_ongoing(reading, judging, output_format, severity, summary_only)
    report = reading.analyze(fpdus=wants_buffers, jobs=jobs)
    leave(report)
    reading.select(report)
    judging.select(report)
    if severity is not None:
        report.keep_severe(severity)
    found = None
    if wants_buffers:
        from scapy_mpa.report.buffers import add_buffers, buffer_lines, buffers_of

        found = buffers_of(report, reading.directions)
    if output_format != "text":
        end_progress()
        values = report.as_iterators(reading.directions)
        if found is not None:
            values = add_buffers(values, found)
        if receiver is not None:
            from scapy_mpa.report.receivers import add_receiver

            values = add_receiver(values, {one.number: one for one in report.connections}, receiver)
        if output_format == "jsonl":
            import json

            for connection in values.pop("connections"):
                click.echo(json.dumps(connection))
            click.echo(json.dumps(values))
        else:
            from scapy_mpa.report.jsontext import pieces

            sys.stdout.writelines(pieces(values))
            click.echo()
    else:

        def more_of(connection: Connection) -> Iterable[str]:
            lines = [] if found is None else [*buffer_lines(connection, found, reading.directions)]
            if receiver is not None:
                from scapy_mpa.report.receivers import receiver_lines

                lines += receiver_lines(connection, receiver)
            return lines

        print_lines(report_lines(report, style, every=every, summary_only=summary_only, more_of=more_of))
    if not report.connections and not report.findings:
        warn_of_nothing((*reading.filters, *(("--severity",) if severity is not None else ())))
    elif judging.rules is not None and not any(report.all_findings()):
        warn_of_nothing(("--rules, --ignore",), "finding")
    if junit is not None:
        from scapy_mpa.cli.output import written
        from scapy_mpa.report.junit import junit_of

        with written(junit) as file:
            file.write(junit_of(report, judging.fail_on))
    warn_of_damage(report.damage)
    return judging.status(report)


def _check_junit(junit: str, reading: Reading) -> None:
    if reading.ongoing is not None:
        raise click.UsageError("--junit is written when everything is known: leave out --follow and -i")
    from scapy_mpa.cli.output import check_junit

    check_junit(junit)
