"""``scapy-mpa listen``."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import click

from scapy_mpa.cli.address import host_and_port
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.talking import Talking, talks
from scapy_mpa.live.driver import LiveSession

_LOOPBACK = "127.0.0.1"


@click.command("listen", cls=Command, epilog="live.md in the documentation shows conversations step by step.")
@click.argument("where", metavar="[HOST] PORT", nargs=-1, required=True)
@talks("responder")
@click.option("--reject", is_flag=True, help="Answer each Request with a Reply that has R set.")
@click.option(
    "--most",
    type=click.IntRange(1, 1 << 16),
    default=256,
    show_default=True,
    help="Maximum number of simultaneous connections.",
)
def listen_command(talking: Talking, where: tuple[str, ...], reject: bool, most: int) -> int:
    """Talk MPA as Responder to every peer that connects, several at a time, until Ctrl-C.

    HOST is the address to listen on; the default is loopback, which other hosts cannot reach. PORT 0 is any free port.
    The messages of both sides are printed as `messages` prints them, each with the number of its connection. Exit
    status: 0 if all is well, 1 if a peer broke a rule, 2 if a conversation failed: a peer refused, or did not answer in
    time.
    """
    host, port = host_and_port(where, _LOOPBACK, 0)
    if talking.source == "-" and talking.count != 1:
        raise click.UsageError("--ulpdus - can serve only one peer: add --count 1")
    endpoint = replace(talking.settings.endpoint, automatic=not reject)
    settings = replace(talking.settings, reject=reject, endpoint=endpoint)
    talking = replace(talking, settings=settings)

    async def listen(session: LiveSession) -> None:
        await session.listen(host, port, count=talking.count, most=most, ready=_tell)

    return talking.run(listen, talking.speaker("responder"))


def _tell(host: str, port: int) -> None:
    with_brackets = f"[{host}]" if ":" in host else host
    reach = "" if ipaddress.ip_address(host.partition("%")[0]).is_loopback else ": other hosts can reach it"
    click.echo(f"listening on {with_brackets}:{port}{reach}", err=True)
