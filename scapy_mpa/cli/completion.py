"""``scapy-mpa completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from scapy_mpa.cli.group import Command

#: The shells that have it.
SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=Command)
@click.argument("shell", type=click.Choice(SHELLS))
def completion_command(shell: str) -> int:
    """Print a shell script that completes commands, options and their values.

    \b
    bash: scapy-mpa completion bash >> ~/.bashrc
    zsh:  scapy-mpa completion zsh >> ~/.zshrc
    fish: scapy-mpa completion fish > ~/.config/fish/completions/scapy-mpa.fish
    """
    from scapy_mpa.cli import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "scapy-mpa", "_SCAPY_MPA_COMPLETE").source())
    return 0
