"""The options of ``connect`` and ``listen``: what both have, and what only one role can do something with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import click

from scapy_mpa.cli.types import BufferType, OctetsType, ParamType, Word
from scapy_mpa.framing.agreement import RNIC_KINDS, RTR_TYPES
from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.startup import NOT_NEGOTIATED
from scapy_mpa.live.rdmap import RDMAPSettings
from scapy_mpa.live.rping import MOST, SIZE
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

#: Services, which a connection asks for one thing, and all upper layers.
SERVICES = ("nfs-null", "nvme-connect")
ULPS = ("none", "rping", "echo", *SERVICES)
#: Octets of the longest name of a subsystem, without the zero after it (NVMe 1.4 §7.9).
_LONGEST_NAME = 223
_SECONDS = click.FloatRange(0, 1_000_000)
#: What adds an option to a command.
_Adds: TypeAlias = Callable[[Callable[..., int]], Callable[..., int]]


class NQNType(ParamType[str]):
    """The name of an NVMe subsystem."""

    name = "nqn"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, which begins with nqn. and fits its field."""
        if not str(value).startswith("nqn.") or len(str(value).encode()) > _LONGEST_NAME:
            self.fail(f"{printable(str(value))} does not begin with nqn., or is longer than {_LONGEST_NAME} octets")
        return str(value)


class _Option(NamedTuple):
    """How an option is added to the command of each role, None for a role without it."""

    initiator: _Adds | None
    responder: _Adds | None


def _of_both(option: _Adds) -> _Option:
    return _Option(option, option)


def _by_role(initiator: _Adds | None = None, responder: _Adds | None = None) -> _Option:
    return _Option(initiator, responder)


def talking_options(role: Role) -> list[_Adds]:
    """Return what adds the options of a role's command, in the order of its help."""
    return [adds for option in _OPTIONS if (adds := getattr(option, role)) is not None]


def _complete_break(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of cases that this command can commit, for the shell."""
    from scapy_mpa.probe.breaking import breakable

    role: Role = "responder" if context.command.name == "listen" else "initiator"
    return [name for name in breakable(role) if name.startswith(incomplete)]


_OPTIONS: tuple[_Option, ...] = (
    _of_both(click.option("--ulp", type=Word(ULPS), default="none", show_default=True, help="The upper layer.")),
    _of_both(
        click.option(
            "--subnqn",
            metavar="NQN",
            type=NQNType(),
            help="With --ulp nvme-connect: the subsystem. [default: the discovery subsystem]",
        )
    ),
    _by_role(
        initiator=click.option(
            "--count", type=click.IntRange(0), help="Iterations of rping, or messages of echo. [default: unlimited]"
        ),
        responder=click.option(
            "--count", type=click.IntRange(0), help="Number of connections to serve before ending. [default: unlimited]"
        ),
    ),
    _by_role(
        initiator=click.option(
            "--size",
            type=click.IntRange(0, MOST),
            default=SIZE,
            show_default=True,
            help="Octets per iteration of rping or message of echo.",
        )
    ),
    _by_role(
        initiator=click.option(
            "--say",
            multiple=True,
            metavar="STEP",
            help="What to send, as in craft: 'send 100', 'write hello stag=16', 'responder send' (wait for a Send "
            "of the peer), 'pause 0.5'. May be repeated.",
        ),
        responder=click.option(
            "--say",
            multiple=True,
            metavar="STEP",
            help="What to send, as in craft: 'send 100', 'write hello stag=16', 'initiator send' (wait for a Send "
            "of the peer), 'pause 0.5'. May be repeated.",
        ),
    ),
    _of_both(
        click.option(
            "--scenario",
            metavar="NAME",
            help="Send the steps of this scenario of craft, one connection after the other.",
        )
    ),
    _of_both(
        click.option(
            "--ulpdus",
            metavar="FILE",
            type=click.Path(dir_okay=False, allow_dash=True),
            help="Send the contents of a file, one item per line: a ULPDU in hexadecimal, or a step; - is standard "
            "input, read as it comes.",
        )
    ),
    _by_role(
        initiator=click.option(
            "--wait",
            type=_SECONDS,
            default=0.3,
            show_default=True,
            help="Seconds to keep listening after the last step.",
        )
    ),
    _of_both(
        click.option(
            "-m", "--markers/--no-markers", "m", default=False, help="M: we require Markers in what we receive."
        )
    ),
    _of_both(click.option("--crc/--no-crc", "c", default=True, show_default=True, help="C: we prefer CRCs.")),
    _of_both(
        click.option(
            "--rev",
            type=click.IntRange(0, 255),
            help="Rev of our startup frame. [default: follows from the other options]",
        )
    ),
    _of_both(click.option("--profile", type=Word(tuple(PROFILES)), help="The specification that we implement.")),
    _of_both(
        click.option(
            "--kind",
            type=Word(RNIC_KINDS),
            default="ietf",
            show_default=True,
            help="Kind of RNIC that we are (RFC 5044 appendix C.1).",
        )
    ),
    _of_both(
        click.option(
            "--private-data",
            type=OctetsType(),
            default="",
            metavar="OCTETS",
            help="A text, hex:00ff, or @FILE: at most 512 octets.",
        )
    ),
    _by_role(
        initiator=click.option(
            "--ird",
            type=click.IntRange(0, NOT_NEGOTIATED),
            help="How many RDMA Reads we answer at once (RFC 6581). [default: 1 for rping]",
        ),
        responder=click.option(
            "--ird", type=click.IntRange(0, NOT_NEGOTIATED), help="How many RDMA Reads we answer at once (RFC 6581)."
        ),
    ),
    _of_both(
        click.option(
            "--ord",
            "order",
            type=click.IntRange(0, NOT_NEGOTIATED),
            help="How many RDMA Reads we send at once (RFC 6581). [default: the same as --ird]",
        )
    ),
    _of_both(
        click.option("--peer-to-peer", is_flag=True, help="A: the Initiator begins with a ready-to-receive message.")
    ),
    _of_both(
        click.option(
            "--rtr",
            multiple=True,
            type=Word(RTR_TYPES),
            help="Type of ready-to-receive message, in order of preference. May be repeated. [default: all]",
        )
    ),
    _by_role(
        responder=click.option(
            "--require-ord", "requires_ord", is_flag=True, help="Reject an Initiator whose IRD is below our ORD."
        )
    ),
    _by_role(
        initiator=click.option(
            "--ird-resources",
            type=click.IntRange(0, NOT_NEGOTIATED),
            help="The IRD that is available when the Reply comes. [default: --ird]",
        )
    ),
    _by_role(
        responder=click.option(
            "--raise-ird/--no-raise-ird",
            "raises_ird",
            default=True,
            show_default=True,
            help="Give an IRD of 1 for an RTR Read even if the Initiator's ORD is 0.",
        )
    ),
    _by_role(
        responder=click.option(
            "--accept-newer/--no-accept-newer",
            "accepts_newer",
            default=True,
            show_default=True,
            help="Accept a plain Request whose Rev is above ours.",
        )
    ),
    _by_role(
        responder=click.option(
            "--reply-before-close/--no-reply-before-close",
            "replies_before_close",
            default=True,
            show_default=True,
            help="Send an RDMAC RNIC a Reply with our Rev before closing.",
        )
    ),
    _by_role(
        initiator=click.option(
            "--fallback",
            "falls_back",
            is_flag=True,
            help="Try again without RFC 6581 if the peer answers an enhanced Request by closing.",
        )
    ),
    _of_both(
        click.option(
            "--emss",
            type=click.IntRange(16, 1 << 16),
            metavar="OCTETS",
            help="Make FPDUs fit into segments of at most this many octets. [default: TCP_MAXSEG]",
        )
    ),
    _of_both(
        click.option(
            "--timeout",
            type=click.FloatRange(0.001, 1_000_000),
            default=10.0,
            show_default=True,
            help="Give up on the connection if nothing is sent or received for this many seconds.",
        )
    ),
    _of_both(
        click.option(
            "--rdmap/--no-rdmap",
            "has_rdmap",
            default=True,
            show_default=True,
            help="Place and answer incoming messages, or only list them.",
        )
    ),
    _of_both(
        click.option(
            "--buffer",
            "buffers",
            multiple=True,
            type=BufferType(),
            metavar="STAG,TO,OCTETS",
            help="Memory that the peer may use. May be repeated. [default: 0x1000 and 0x2000, from TO 0, 65536 "
            "octets each]",
        )
    ),
    _of_both(
        click.option(
            "--receive-buffers",
            type=click.IntRange(1, 1 << 16),
            default=RDMAPSettings.receive_buffers,
            show_default=True,
            help="How many Sends of the peer we have buffers for.",
        )
    ),
    _of_both(
        click.option(
            "--receive-size",
            type=click.IntRange(0, 1 << 30),
            default=RDMAPSettings.receive_size,
            show_default=True,
            help="Length of the longest Send that is accepted, in octets.",
        )
    ),
    _of_both(
        click.option(
            "--break",
            "breaks",
            metavar="CASE",
            shell_complete=_complete_break,
            help="Misbehave like this case of the catalogue (malform --list) on each connection, and behave "
            "correctly otherwise.",
        )
    ),
    _of_both(click.option("-q", "--quiet", is_flag=True, help="Do not print the messages.")),
    _of_both(click.option("--payload", is_flag=True, help="Print the octets of each message, in hexadecimal.")),
    _of_both(
        click.option(
            "--write",
            metavar="FILE",
            type=click.Path(dir_okay=False, allow_dash=True),
            help="Record the session as a capture: pcapng, or classic pcap if the name ends in .pcap.",
        )
    ),
    _of_both(
        click.option(
            "--log",
            metavar="FILE",
            type=click.Path(dir_okay=False, allow_dash=True),
            help="Log the session as JSON lines.",
        )
    ),
)
