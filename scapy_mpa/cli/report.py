"""``scapy-mpa report``."""

from __future__ import annotations

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import Judging, judges
from scapy_mpa.cli.options import Reading, divides_work, reads_captures, warn_of_damage, warn_of_nothing
from scapy_mpa.cli.output import check_output, tell_written, written
from scapy_mpa.framing.role import ROLES
from scapy_mpa.report.model import summary_line


@click.command("report", cls=Command)
@reads_captures
@divides_work
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    required=True,
    type=click.Path(dir_okay=False),
    help="The HTML page to write; - is standard output.",
)
@judges
def report_command(reading: Reading, judging: Judging, jobs: int, output: str) -> int:
    """Write what analyze finds as one self-contained HTML page with pictures.

    Verdicts come first, then findings, a table of the connections, and the worst twenty connections in detail: the
    negotiation, the FPDUs around each finding with their octets, and a picture of the lanes. The worst five have all
    pictures. The page is smaller than 2 MB, and says what it leaves out. The captures are read several times, so none
    can come through a pipe.
    """
    from scapy_mpa.page.templates import check_jinja
    from scapy_mpa.page.write import page_of
    from scapy_mpa.plot.look import check_matplotlib

    check_jinja()
    check_matplotlib()
    check_output(reading.captures, output, again="report")
    report = reading.analyze(fpdus=True, jobs=jobs)
    reading.select(report)
    judging.select(report)
    if not report.connections and not report.findings:
        warn_of_nothing(reading.filters)
    page = page_of(
        report,
        words=(*reading.told, "--", *reading.named)
        if any(one.startswith("-") for one in reading.named)
        else (*reading.told, *reading.named),
        told=reading.told,
        left_out=[*_left_out(reading, judging)],
        directions=reading.directions,
    )
    with written(output) as file:
        file.write(page.encode())
    tell_written(output, summary_line(report))
    warn_of_damage(report.damage)
    return judging.status(report)


def _left_out(reading: Reading, judging: Judging) -> list[str]:
    """Return what the options leave out, a sentence each."""
    said = []
    filters = [name for name in reading.filters if name != "--direction"]
    if filters:
        said.append(f"This page shows only what {' and '.join(filters)} let{'s' if len(filters) == 1 else ''} through.")
    if reading.directions != ROLES:
        said.append(f"Only what the {reading.directions[0]} sent is shown and judged.")
    if judging.rules is not None:
        said.append(f"Only {len(judging.rules)} rules were checked.")
    return said
