"""The address of a TCP peer or of a listener, as arguments: ``HOST PORT`` or ``HOST:PORT``."""

from __future__ import annotations

from collections.abc import Sequence

import click

from scapy_mpa.cli.group import Command
from scapy_mpa.system.names import printable

_LARGEST_PORT = 0xFFFF
#: The option that names a peer, and what it takes.
TO, TO_METAVAR = "--to", "HOST PORT"


class CommandTo(Command):
    """A command whose option ``--to`` takes ``HOST PORT`` or ``HOST:PORT``, as the arguments of others do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Have the two words of ``--to HOST PORT`` be one."""
        at = args.index(TO) + 1 if TO in args else len(args)
        if at + 1 < len(args) and args[at + 1].isdecimal():
            host = f"[{args[at]}]" if ":" in args[at] and not args[at].startswith("[") else args[at]
            args = [*args[:at], f"{host}:{args[at + 1]}", *args[at + 2 :]]
        return super().parse_args(ctx, args)


def host_and_port(words: Sequence[str], usual_host: str | None = None, least_port: int = 1) -> tuple[str, int]:
    """Host and port that one or two words name; an IPv6 address stands in brackets before a colon.

    ``usual_host`` is taken where only a port is named. Raises :class:`click.UsageError` for anything else.
    """
    host: str | None
    if len(words) == 1 and ":" in words[0]:
        host, _, port = words[0].rpartition(":")
        is_bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if is_bracketed else None if ":" in host else host
    elif len(words) == 1:
        host, port = usual_host, words[0]
    else:
        host, port = words if len(words) == 2 and words[0].count(":") != 1 else (None, "")
    if not host or not (port.isascii() and port.isdecimal()) or not least_port <= int(port) <= _LARGEST_PORT:
        form = "HOST PORT" if usual_host is None else "[HOST] PORT"
        example = "192.0.2.1 7471" if usual_host is None else "7471"
        raise click.UsageError(f"write {form}, such as {example}, not {printable(' '.join(words))!r}")
    return host, int(port)
