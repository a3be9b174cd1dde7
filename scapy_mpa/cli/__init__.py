"""The command ``scapy-mpa``.

Exit status: 0 no finding of severity error, 1 some, 2 the input or the arguments cannot be used.  What machines
read goes to stdout and nothing else does; a closed stdout ends the command quietly.
"""

from __future__ import annotations

import gc
import os
import sys

import click

from scapy_mpa import __version__
from scapy_mpa.cli.analyze import analyze_command
from scapy_mpa.cli.fpdus import fpdus_command
from scapy_mpa.errors import MPAError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="scapy-mpa")
def cli() -> None:
    """Analyse MPA (iWARP) traffic: every connection, every FPDU, and what is wrong.

    Exit status: 0 no error found in the traffic, 1 some, 2 the input or the arguments cannot be used.
    """


cli.add_command(analyze_command)
cli.add_command(fpdus_command)


def main() -> None:
    """Run the command and exit."""
    # Segments live as long as their block of the capture and form no cycles: looking for some, every few hundred,
    # would cost a third of the time.
    gc.set_threshold(100_000)
    try:
        status = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except click.Abort:
        status = 130
    except MPAError as error:
        print(f"scapy-mpa: {error}", file=sys.stderr)
        status = 2
    except BrokenPipeError:
        # Whoever read has seen enough.  Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    sys.exit(status)
