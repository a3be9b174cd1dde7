"""``scapy-mpa scrub``."""

from __future__ import annotations

import click

from scapy_mpa.capture.named import STANDARD_INPUT
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.options import Reading, hides, reads_captures, warn_of_damage
from scapy_mpa.cli.output import check_output, is_stdout, tell_written, written
from scapy_mpa.cli.types import Word
from scapy_mpa.values.words import plural


@hides(
    "connections",
    "direction",
    "ports",
    "hosts",
    "frames",
    "read_frames",
    "since",
    "until",
    "protocols",
    "joining",
    "esp",
)
@click.command("scrub", cls=Command)
@reads_captures
@click.argument("output", metavar="OUT", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--seed",
    metavar="TEXT",
    help="Replace the same octets alike in several captures, such as those of two taps. Whoever knows the seed can "
    "undo the replacement: keep it to yourself. Without --seed, nobody can.",
)
@click.option(
    "--keep",
    type=Word(("headers",)),
    help="headers: leave headers of upper layers readable, and their Private Data; what follows them is replaced.",
)
def scrub_command(reading: Reading, output: str, seed: str | None, keep: str | None) -> int:
    """Write a capture without payload, Private Data and addresses, to be shared.

    The headers of MPA, DDP and RDMAP stay, with lengths, times and order, so the findings are the same. CRCs and
    checksums that were right are made right again; wrong ones stay wrong. What stays readable is listed. What cannot be
    decoded, such as IP fragments and ESP, is replaced entirely, and counted. OUT - is standard output.
    """
    from scapy_mpa.scrub.capture import READABLE, READABLE_BUFFERS, READABLE_HEADERS, scrub
    from scapy_mpa.scrub.compared import lost_findings

    if len(reading.captures) > 1:
        raise click.UsageError("scrub takes one capture; use the same --seed for each of several")
    if reading.filters:
        raise click.UsageError(f"scrub writes all packets; extract copies some ({', '.join(reading.filters)})")
    if reading.query.sources.esp is not None:
        raise click.UsageError("scrub replaces all of ESP, with or without keys: leave --esp out")
    (capture,) = reading.captures
    if capture == STANDARD_INPUT:
        raise click.UsageError("scrub reads the capture twice: name the file")
    check_output(reading.captures, output, again="scrub")
    with written(output) as file:
        done = scrub(reading.query, file, seed=seed, keeps_headers=keep is not None)
    warn_of_damage(done.damage)
    if is_stdout(output):
        return 0
    tell_written(output, f"{plural(done.frames, 'packet')}, {plural(done.connections, 'MPA connection')}")
    more = (READABLE_HEADERS,) if keep is not None else (READABLE_BUFFERS,) if done.buffers else ()
    for line in (*READABLE, *more):
        print_line(f"  readable: {line}")
    for what, count in sorted(done.replaced.items()):
        print_line(f"  replaced entirely: {count} {what}")
    lost = [*lost_findings(reading.query, output)]
    for line in lost:
        print_line(f"  not the same: {line}", err=True)
    if lost and keep is None:
        print_line("  --keep headers keeps the findings that rest on headers of upper layers", err=True)
    return 0
