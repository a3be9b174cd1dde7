"""``scapy-mpa compare``."""

from __future__ import annotations

from pathlib import PurePath
from typing import Literal

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_lines
from scapy_mpa.cli.options import Host, warn_of_damage, warn_of_nothing
from scapy_mpa.cli.output import check_output, check_read_twice, tell_written, written
from scapy_mpa.cli.types import Word
from scapy_mpa.errors import MPAError
from scapy_mpa.reading.query import Selection
from scapy_mpa.system.names import printable
from scapy_mpa.values.limits import DEFAULT_LIMITS, parse_limits


@click.command("compare", cls=Command)
@click.argument("sender", metavar="SENDER", type=click.Path())
@click.argument("receiver", metavar="RECEIVER", type=click.Path())
@click.option(
    "--map",
    "mapping",
    multiple=True,
    metavar="A=B",
    help="Through a NAT: address A in SENDER is B in RECEIVER, with or without ports. May be repeated.",
)
@click.option(
    "--late",
    type=click.FloatRange(0),
    default=0.01,
    show_default=True,
    metavar="SECONDS",
    help="Segments that took this much longer than the median are listed as delayed.",
)
@click.option(
    "--port",
    "ports",
    multiple=True,
    type=click.IntRange(0, 65535),
    help="Only TCP connections with this port on either side. May be repeated.",
)
@click.option(
    "--host",
    "hosts",
    multiple=True,
    type=Host(),
    help="Only TCP connections with this IP address on either side. May be repeated.",
)
@click.option(
    "--limit",
    multiple=True,
    metavar="WHAT=NUMBER",
    help=f"Limit what is buffered and tracked: {', '.join(DEFAULT_LIMITS._fields)}. May be repeated.",
)
@click.option("--format", "output_format", type=Word(("text", "json")), default="text", show_default=True)
@click.option("--all", "every", is_flag=True, help="List every event, not only the first of each kind.")
@click.option(
    "--picture",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Also draw what happened along the stream: SVG, PNG or PDF, depending on the file name extension.",
)
def compare_command(
    sender: str,
    receiver: str,
    mapping: tuple[str, ...],
    late: float,
    ports: tuple[int, ...],
    hosts: tuple[bytes, ...],
    limit: tuple[str, ...],
    output_format: Literal["text", "json"],
    every: bool,
    picture: str | None,
) -> int:
    """Compare captures of the same connections taken at two places, and report what happened in between.

    Reports octets that changed, and in which FPDU; segments split, joined, lost, repeated, reordered or delayed;
    Markers removed; an MSS that changed. Exit status: 1 if octets changed and the TCP checksum does not show it.
    """
    from scapy_mpa.compare.comparison import compare
    from scapy_mpa.compare.text import comparison_lines

    ending = ""
    if picture is not None:
        from scapy_mpa.plot.look import ENDINGS, check_matplotlib

        ending = PurePath(picture).suffix.lower().removeprefix(".")
        if ending not in ENDINGS:
            raise click.UsageError(
                f"{printable(picture)}: the name of a picture ends in {', '.join(f'.{one}' for one in ENDINGS)}"
            )
        check_matplotlib()
        check_output((sender, receiver), picture)
    check_read_twice((sender, receiver), "compare")
    try:
        selection = Selection(ports=ports or None, hosts=hosts or None)
        limits = parse_limits(limit)
        found = compare(sender, receiver, mapping=mapping, late=late, limits=limits, selection=selection)
    except MPAError as error:
        raise click.UsageError(str(error)) from None
    if output_format == "json":
        import sys

        from scapy_mpa.report.jsontext import pieces

        sys.stdout.writelines(pieces(found.as_dict()))
        click.echo()
    else:
        print_lines(comparison_lines(found, every=every))
    if picture is not None:
        from scapy_mpa.plot.look import write_figure
        from scapy_mpa.plot.taps import taps_figure

        with written(picture) as file:
            write_figure(taps_figure(found), file, ending)
        if output_format == "text":
            tell_written(picture, "what happened between the taps")
    if not found.connections:
        given = (("--port", ports), ("--host", hosts))
        warn_of_nothing(name for name, value in given if value)
    warn_of_damage(found.damage)
    return 1 if found.counts_changes else 0
