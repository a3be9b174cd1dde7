"""``scapy-mpa connect``."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource

from scapy_mpa.cli.address import host_and_port
from scapy_mpa.cli.group import Command
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.settling import settles
from scapy_mpa.cli.talking import Talking, talks
from scapy_mpa.cli.types import Word
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.live.driver import LiveSession, NobodyListens
from scapy_mpa.live.replay import Replay, captured_side
from scapy_mpa.live.script import Script

#: What may be wrong where ULPDUs are sent as they were captured.
_VERBATIM = ": its STags and MSNs are different; without --verbatim, those of the capture become the peer's"
#: Options that decide about Rev and the enhanced data of a Request (RFC 6581).
_ENHANCED = {"rev", "profile", "kind", "ird", "order", "peer_to_peer", "rtr"}


@click.command("connect", cls=Command, epilog="live.md in the documentation shows conversations step by step.")
@click.argument("where", metavar="HOST PORT", nargs=-1, required=True)
@talks("initiator")
@click.option(
    "--from",
    "capture",
    metavar="CAPTURE",
    type=click.Path(dir_okay=False),
    help="Replay what one side of a capture sent, with the same pauses. STags, Tagged Offsets and MSNs become those "
    "that the peer uses now. The Request is as captured, except for what other options set.",
)
@click.option(
    "--verbatim", is_flag=True,
    help="With --from: send the ULPDUs unchanged, and do not wait for what the peer sent in between.",
)  # fmt: skip
@click.option(
    "--retry",
    type=click.FloatRange(0, 1_000_000),
    default=0.0,
    metavar="SECONDS",
    help="Keep trying for this long while nobody is listening.",
)
@settles()
@click.option(
    "--connection", type=click.IntRange(0), default=0, show_default=True, help="With --from: the connection to replay."
)
@click.option(
    "--direction",
    type=Word(ROLES),
    default="initiator",
    show_default=True,
    help="With --from: the side to replay.",
)
def connect_command(
    talking: Talking,
    where: tuple[str, ...],
    retry: float,
    settle: float,
    capture: str | None,
    verbatim: bool,
    connection: int,
    direction: Role,
) -> int:
    """Talk MPA to a peer as Initiator.

    The messages of both sides are printed as `messages` prints them. Exit status: 0 if all is well, 1 if the peer broke
    a rule, 2 if the conversation failed: the peer could not be reached, refused, or did not answer in time.
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
            print_line("only the Request was sent: use --say, --ulp or other options to send messages", err=True)

    if capture is None:
        if verbatim:
            raise click.UsageError("--verbatim applies to a replay: add --from CAPTURE")
        return talking.run(talk, talking.speaker("initiator"))
    if talking.ulp != "none" or talking.has_words:
        raise click.UsageError("--from decides what is sent: leave --ulp, --say, --scenario and --ulpdus out")
    with captured_side(capture, connection, direction) as side:
        # What the peer asks for is answered as the captured side answered it.
        replay = talking.transparent(_of_request(side.request))
        if verbatim:
            return replay.run(talk, lambda rdmap: Script(rdmap, side.items(), wait=talking.wait, doubt=_VERBATIM))
        return replay.run(talk, lambda rdmap: Replay(rdmap, side, wait=talking.wait))


def _refused(host: str) -> str:
    """Return what to do if nobody is listening."""
    try:
        is_near = host == "localhost" or ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        is_near = False
    there = "" if is_near else "; `scapy-mpa listen` listens only on loopback unless it is given an address"
    return f"nobody is listening there; --retry 20 keeps trying for 20 seconds{there}"


def _of_request(request: StartupFrame | None) -> dict[str, Any]:
    """Return what a Request says, except for what was given on the command line."""
    if request is None:
        return {}
    context = click.get_current_context()
    given = {name for name in context.params if context.get_parameter_source(name) is ParameterSource.COMMANDLINE}
    values: dict[str, Any] = {"m": request.m, "c": request.c, "private_data": request.ulp_data}
    found = {name: value for name, value in values.items() if name not in given}
    if not given & _ENHANCED and request.enhanced is not None:
        found["enhanced"] = request.enhanced
    return found
