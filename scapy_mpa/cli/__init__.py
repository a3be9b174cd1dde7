"""The command ``scapy-mpa``.

Exit status: 0 no finding of severity error, 1 some, 2 the input or the arguments cannot be used. What machines
read goes to stdout and nothing else does; a closed stdout ends the command quietly.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence

import click

from scapy_mpa.cli.group import COMMANDS, AllCommands, color_option
from scapy_mpa.cli.lines import print_line
from scapy_mpa.errors import MPAError
from scapy_mpa.system.cycles import look_seldom
from scapy_mpa.system.ending import ends_orderly
from scapy_mpa.system.names import printable
from scapy_mpa.version import __version__

__all__ = ["COMMANDS", "cli", "main"]

#: Octets; never touched, so that they take no memory.
_FREED_ONCE = 1 << 24


class _Commands(AllCommands):
    """The commands; click calls a closed stdout a failure, here whoever read has seen enough."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _drop_stdout()
            return 0


def _version(ctx: click.Context, _option: click.Parameter, is_wanted: bool) -> None:
    """Say which version this is."""
    if is_wanted and not ctx.resilient_parsing:
        from scapy_mpa.compiled import is_compiled

        click.echo(f"scapy-mpa, version {__version__} ({'compiled' if is_compiled() else 'not compiled'})")
        ctx.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version and exit."
)
def cli() -> None:
    """Read, check, make and break MPA traffic (RFC 5044): the framing that carries iWARP over TCP.

    Exit status: 0 if the traffic has no errors, 1 if it has some, 2 if the input or the arguments cannot be used.
    COMMAND --help explains each.
    """


# It may stand before the name of a command too.
cli.params.append(color_option())


def main(args: Sequence[str] | None = None) -> None:
    """Run the command with these arguments, else with those of the process, and exit."""
    # What is left at the end goes with the process: nobody has to look through it for cycles first.
    atexit.register(gc.freeze)
    with ends_orderly():
        status = _run(args)
    sys.exit(status)


def _run(args: Sequence[str] | None) -> int:
    """Run the command; returns the exit status."""
    look_seldom()
    # The C library gives memory of a block of the capture back and is handed it again, page by page, for the next one,
    # which takes a tenth of the time; glibc keeps it if more was freed once (M_MMAP_THRESHOLD in mallopt(3)).
    bytes(_FREED_ONCE)
    if sys.stdout is None:  # closed by whoever started the command
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        status: int = cli.main(args, standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        status = 2
    except click.ClickException as error:
        status = _complain(error.format_message())
    except click.Abort:
        status = 130
    except MPAError as error:
        status = _complain(str(error))
    except BrokenPipeError:
        status = 0  # whoever read has seen enough
        _drop_stdout()
    except OSError as error:
        status = _complain(f"cannot write: {error.strerror or error}")
        _drop_stdout()
    return status


def _complain(message: str) -> int:
    """Say in one line what cannot be used."""
    print_line(f"scapy-mpa: {printable(' '.join(message.split()))}", err=True)
    return 2


def _drop_stdout() -> None:
    """Keep Python from flushing, at exit, what cannot be written."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
