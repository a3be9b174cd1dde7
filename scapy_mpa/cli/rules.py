"""``scapy-mpa rules``."""

from __future__ import annotations

import json
from typing import Literal

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.cli.judging import complete_rule
from scapy_mpa.cli.lines import print_lines
from scapy_mpa.cli.types import Word
from scapy_mpa.rules.choice import named
from scapy_mpa.rules.table import RULES


@click.command("rules", cls=Command)
@click.argument("rule_id", metavar="[ID]", required=False, shell_complete=complete_rule)
@click.option("--format", "output_format", type=Word(("text", "json", "md")), default="text", show_default=True)
def rules_command(rule_id: str | None, output_format: Literal["text", "json", "md"]) -> int:
    """List the rules that traffic is judged by, or explain the one with this ID.

    If several IDs begin with it, those rules are listed.

    The list has severity, error code, requirement word and what is expected; the JSON and the Markdown also have each
    requirement of the specifications and the rule that checks it.
    """
    from scapy_mpa.catalogue.rules import as_dict, explanation, list_lines

    chosen = [RULES[name] for name in named(rule_id)] if rule_id is not None else list(RULES.values())
    if output_format == "md":
        if rule_id is not None:
            raise click.UsageError("--format md prints the whole table; leave the ID out")
        from scapy_mpa.catalogue.conformance import markdown_lines

        lines = markdown_lines()
    elif output_format == "json":
        lines = iter((json.dumps(as_dict(chosen), indent=2),))
    else:
        print_lines(explanation(RULES[rule_id]) if rule_id in RULES else list_lines(chosen))
        return 0
    for line in lines:
        click.echo(line)
    return 0
