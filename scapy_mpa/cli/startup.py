"""``scapy-mpa startup``."""

from __future__ import annotations

import json
from typing import Literal

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_lines, terminal_width
from scapy_mpa.cli.options import Reading, reads_captures_or_streams, warn_of_damage, warn_of_nothing
from scapy_mpa.cli.progress import end_progress
from scapy_mpa.cli.types import Word
from scapy_mpa.report.blocks import in_blocks


@click.command("startup", cls=Command)
@reads_captures_or_streams
@click.option("--format", "output_format", type=Word(("text", "json")), default="text", show_default=True)
def startup_command(reading: Reading, output_format: Literal["text", "json"]) -> int:
    """Show the MPA Request beside the MPA Reply, field by field: what was offered, answered and agreed.

    Known formats of Private Data are decoded: RFC 6581, SMB Direct before RFC 6581, RFC 8797 (RPC-over-RDMA), NVMe-oF,
    iSER.
    """
    from scapy_mpa.report.model import SCHEMA_VERSION
    from scapy_mpa.report.negotiated import Negotiated

    report = reading.analyze(fpdus=False)
    reading.select(report)
    found = [Negotiated(connection) for connection in report.connections]
    if output_format == "json":
        end_progress()
        connections = [one.as_dict() for one in found]
        values = {"schema": SCHEMA_VERSION, "captures": report.captures, "connections": connections}
        click.echo(json.dumps(values, indent=2))
    else:
        width = terminal_width()
        for one in found:
            lines = one.lines(width)
            print_lines(map(in_blocks, lines) if reading.is_of_streams else lines)
        if not found:
            click.echo("no MPA connection")
    if not found:
        warn_of_nothing(reading.filters)
    warn_of_damage(report.damage)
    return 0
