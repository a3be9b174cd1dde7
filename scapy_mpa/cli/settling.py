"""``--settle``, ``--boot`` and ``--recovery``: for peers that need time, after their Reply, a restart, a case."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

#: The exit status if a live peer is gone.
GONE = 3
#: Seconds after a case within which a clean connection must work.
RECOVERY = 1.0
#: Upper layers of a peer that is tested.
ULPS = ("none", "rping")

_HELP = "Wait this long after the Reply before sending the first FPDU: a slow peer may miss one sent at once."


def settles(condition: str = "") -> Callable[[Callable[..., int]], Callable[..., Any]]:
    """The option of a command; ``condition`` says when it counts: "With --to"."""
    text = f"{condition}: {_HELP[0].lower()}{_HELP[1:]}" if condition else _HELP
    return click.option("--settle", type=click.FloatRange(0, 1_000_000), default=0.0, metavar="SECONDS", help=text)


def boots() -> Callable[[Callable[..., int]], Callable[..., Any]]:
    """Return the option for how long a command that restarts a peer may take."""
    return click.option(
        "--boot",
        type=click.FloatRange(0, 3600),
        default=0.0,
        show_default=True,
        help="Seconds to wait for --restart before the peer is tried again; less if COMMAND ends earlier.",
    )


def monitors() -> Callable[[Callable[..., int]], Callable[..., Any]]:
    """Return the option for a command that says whether the peer is in trouble although it answers."""
    return click.option(
        "--monitor",
        metavar="COMMAND",
        help="Command to run after each case: the case fails if its exit status is not 0 and its last lines are new; "
        "{case} is the case.",
    )


def recovers() -> Callable[[Callable[..., int]], Callable[..., Any]]:
    """Return the option for how long a peer may take to recover after a case."""
    return click.option(
        "--recovery",
        type=click.FloatRange(0, 3600),
        default=RECOVERY,
        show_default=True,
        help="A clean connection must work within this many seconds after a case.",
    )
