"""``scapy-mpa connect``."""

from __future__ import annotations

import click

from scapy_mpa.cli.talking import Talking, talks
from scapy_mpa.live.driver import LiveSession
from scapy_mpa.live.script import Script, said_again
from scapy_mpa.report.half import DIRECTIONS
from scapy_mpa.tcp.half import Direction


@click.command("connect", epilog="docs/live.md shows conversations, step by step.")
@click.argument("host")
@click.argument("port", type=click.IntRange(1, 65535))
@talks("initiator")
@click.option(
    "--from",
    "capture",
    metavar="CAPTURE",
    type=click.Path(dir_okay=False),
    help="Say again what a side of a capture said: the same ULPDUs, with the same pauses; nothing is answered.",
)
@click.option("--connection", type=click.IntRange(0), default=0, show_default=True, help="Which one of the capture.")
@click.option(
    "--direction", type=click.Choice(DIRECTIONS), default="initiator", show_default=True, help="Which side of it."
)
def connect_command(
    talking: Talking, host: str, port: int, capture: str | None, connection: int, direction: Direction
) -> int:
    """Talk MPA to a peer as Initiator.

    Messages of both sides are printed as `messages` prints them. Exit status: 0 all is well, 1 the peer broke a rule, 2
    it could not be talked to, or did not answer in time.
    """
    if capture is None:
        speaker = talking.speaker("initiator")
        return talking.run(lambda session: _connect(session, host, port), speaker)
    if talking.ulp != "none" or talking.has_words:
        raise click.UsageError("--from says what is said: leave --ulp, --say, --scenario and --ulpdus out")
    with said_again(capture, connection, direction) as items:
        # Whoever says again what was said cannot answer anything else.
        quoting = talking.transparent()
        return quoting.run(
            lambda session: _connect(session, host, port), lambda rdmap: Script(rdmap, items, wait=talking.wait)
        )


async def _connect(session: LiveSession, host: str, port: int) -> None:
    await session.connect(host, port)
