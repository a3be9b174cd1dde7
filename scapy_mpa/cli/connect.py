"""``scapy-mpa connect``."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from scapy_mpa.cli.address import host_and_port
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.settling import settles
from scapy_mpa.cli.talking import Talking, talks
from scapy_mpa.cli.types import Word
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.live.driver import LiveSession, NobodyListens
from scapy_mpa.live.script import Script, said_again


@click.command("connect", epilog="live.md in the documentation shows conversations, step by step.")
@click.argument("where", metavar="HOST PORT", nargs=-1, required=True)
@talks("initiator")
@click.option(
    "--from",
    "capture",
    metavar="CAPTURE",
    type=click.Path(dir_okay=False),
    help="Replay what one side of a capture sent: the same ULPDUs with the same pauses. M, C and Private Data are "
    "those of its Request, unless you give them. Nothing is answered.",
)
@click.option(
    "--retry",
    type=click.FloatRange(0, 1_000_000),
    default=0.0,
    metavar="SECONDS",
    help="Keep trying for this long while nobody is listening.",
)
@settles()
@click.option(
    "--connection", type=click.IntRange(0), default=0, show_default=True, help="With --from: the connection to repeat."
)
@click.option(
    "--direction",
    type=Word(ROLES),
    default="initiator",
    show_default=True,
    help="With --from: the side to repeat.",
)
def connect_command(
    talking: Talking,
    where: tuple[str, ...],
    retry: float,
    settle: float,
    capture: str | None,
    connection: int,
    direction: Role,
) -> int:
    """Talk MPA to a peer as Initiator.

    Messages of both sides are printed as `messages` prints them. Exit status: 0 all is well, 1 the peer broke a rule, 2
    the conversation failed: the peer could not be reached, refused, or did not answer in time.
    """

    host, port = host_and_port(where)
    talking = replace(talking, settings=replace(talking.settings, settle=settle))

    async def talk(session: LiveSession) -> None:
        for _ in talking.scenario_steps:
            try:
                await session.connect(host, port, retry=retry)
            except NobodyListens as error:
                raise NobodyListens(f"{error}: {_refused(host)}") from None
        if capture is None and talking.ulp == "none" and not talking.has_words and talking.breaking is None:
            print_line("nothing was sent but the Request: use --say, --ulp and others to send messages", err=True)

    if capture is None:
        return talking.run(talk, talking.speaker("initiator"))
    if talking.ulp != "none" or talking.has_words:
        raise click.UsageError("--from decides what is sent: leave --ulp, --say, --scenario and --ulpdus out")
    with said_again(capture, connection, direction) as said:
        # Whoever says again what was said cannot answer anything else.
        again = talking.transparent(_of_request(said.request))
        return again.run(talk, lambda rdmap: Script(rdmap, said.items, wait=talking.wait))


def _refused(host: str) -> str:
    """What to do where nobody listens."""
    try:
        is_near = host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        is_near = False
    there = "" if is_near else "; `scapy-mpa listen` listens only on loopback unless it is given an address"
    return f"nobody is listening there; --retry 20 keeps trying for 20 seconds{there}"


def _of_request(request: StartupFrame | None) -> dict[str, Any]:
    """What a Request says, but for what was given on the command line."""
    if request is None:
        return {}
    context = click.get_current_context()
    values = {"m": request.m, "c": request.c, "private_data": request.ulp_data}
    return {
        name: value
        for name, value in values.items()
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE
    }
