"""The output of a command: a file, never one of its inputs, and complete or not at all; or a folder that was empty."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import click

from scapy_mpa.capture.index import is_pipe
from scapy_mpa.capture.named import STANDARD_INPUT
from scapy_mpa.cli.lines import print_line
from scapy_mpa.cli.progress import end_progress
from scapy_mpa.errors import MPAError
from scapy_mpa.system.names import printable
from scapy_mpa.system.whole import whole_file

STANDARD_OUTPUT = "-"
#: The one format of rows that is no text.
PARQUET = "parquet"
#: Texts that are written at a time.
_TEXTS = 64


def check_output(captures: Sequence[str], output: str, *, again: str = "") -> None:
    """Raise :class:`click.UsageError` for an output that must not be written.

    That is one of the captures, or a terminal. ``again`` names a command that reads the captures twice: then a
    pipe will not do.
    """
    if again:
        check_read_twice(captures, again)
    for capture in captures:
        if _is_same(capture, output):
            raise click.UsageError(f"{printable(output)}: this file is being read, and would be overwritten")
    if output == STANDARD_OUTPUT and sys.stdout.isatty():
        raise click.UsageError("a binary file cannot be written to a terminal; name a file, or use a pipe")


def check_folder_of(output: str) -> None:
    """Raise :class:`click.UsageError` for a file that cannot be made, before anything is done to fill it."""
    if os.path.exists(output) and not os.path.isfile(output) and os.access(output, os.W_OK):
        return  # A device is written in place, whoever may write into its folder.
    folder = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(folder):
        raise click.UsageError(f"{printable(output)}: there is no folder {printable(folder)}")
    try:
        # Only an attempt shows it: root may do all that a file system does not offer.
        with TemporaryFile(dir=folder):
            pass
    except OSError:
        raise click.UsageError(f"{printable(output)}: cannot be written") from None


def check_junit(output: str) -> None:
    """Complain of a file of JUnit's XML that cannot be written, before anything is done to fill it."""
    if output == STANDARD_OUTPUT:
        raise click.UsageError("--junit needs a file: standard output is used for the results")
    check_folder_of(output)
    try:
        import junitparser  # noqa: F401
    except ImportError:
        raise MPAError("--junit needs the package junitparser: pip install 'scapy-mpa[junit]'") from None


def check_read_twice(captures: Sequence[str], again: str) -> None:
    """Raise :class:`click.UsageError` for a pipe among captures that ``again`` reads twice."""
    for capture in captures:
        if is_pipe(capture):
            raise click.UsageError(f"{printable(capture)}: a pipe cannot be read again; {again} needs a file")


@contextmanager
def written(output: str) -> Iterator[BinaryIO]:
    """A file to be written, as :func:`~scapy_mpa.system.whole.whole_file` has it; ``-`` is standard output.

    Raises :class:`click.UsageError` if the file cannot be made or one of that name is protected, and OSError if it
    cannot be written.
    """
    if output == STANDARD_OUTPUT:
        if sys.stdout.isatty():
            end_progress()
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(whole_file(output))
        except OSError as error:
            raise click.UsageError(f"{printable(output)}: {error.strerror or error}") from None
        yield file


def write_text(texts: Iterable[str], file: BinaryIO, *, at_once: bool = False) -> None:
    """Write texts, many at a time, or each ``at_once``."""
    left = iter(texts)
    while some := "".join(islice(left, 1 if at_once else _TEXTS)):
        file.write(some.encode())
        if at_once:
            file.flush()


def tell_written(output: str, what: str) -> None:
    """Say on stdout what was written, unless that is where it went, by whatever name."""
    if not is_stdout(output):
        print_line(f"{printable(output)}: {what}")


def names_folder(output: str) -> bool:
    """True if what is to be written goes into a folder of this name: one that is there, or ends as one; not ``-``."""
    return output != STANDARD_OUTPUT and (output.endswith(os.sep) or os.path.isdir(output))


def check_empty(directory: Path) -> None:
    """Raise :class:`click.UsageError` for a folder that files cannot be written into without losing others.

    Told before anything is read; what is not there is made when there is something to put into it.
    """
    try:
        if any(directory.iterdir()):
            raise click.UsageError(
                f"{printable(directory)}: the folder is not empty, and its files might be overwritten"
            )
    except FileNotFoundError:
        if not directory.parent.is_dir():
            raise click.UsageError(
                f"{printable(directory)}: there is no folder {printable(directory.parent)}"
            ) from None
    except OSError as error:
        raise click.UsageError(f"{printable(directory)}: {error.strerror or error}") from None


def make_folder(directory: Path) -> None:
    """Make it, if it is not there; raises :class:`click.UsageError` if that cannot be done."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{printable(directory)}: {error.strerror or error}") from None


def _is_same(capture: str, output: str) -> bool:
    """Return True if the file to be written is one that is read."""
    # The name is written without what .. cancels, which need not be there.
    for name in (output, os.path.abspath(output)):
        with suppress(OSError, ValueError):
            read = os.fstat(sys.stdin.fileno()) if capture == STANDARD_INPUT else os.stat(capture)
            into = os.fstat(sys.stdout.fileno()) if output == STANDARD_OUTPUT else os.stat(name)
            if os.path.samestat(read, into):
                return True
    return False


def is_stdout(output: str) -> bool:
    """Return True if what is written under a name, - or such as /dev/stdout, goes to standard output."""
    if output == STANDARD_OUTPUT:
        return True
    try:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.stat(output))
    except (OSError, ValueError):
        return False
