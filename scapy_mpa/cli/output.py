"""What a command writes: a file, never one that it reads, and whole or not at all; or a folder that was empty."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import FrameType
from typing import BinaryIO, NoReturn, cast

import click

from scapy_mpa.capture.files import STANDARD_INPUT
from scapy_mpa.capture.index import is_pipe

STANDARD_OUTPUT = "-"
#: Signals that would end the command with a part of the file left behind, where the system has them.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def check_output(captures: Sequence[str], output: str, *, again: str = "") -> None:
    """Raise :class:`click.UsageError` for an output that must not be written.

    That is one of the captures, or a terminal. ``again`` names a command that reads the captures twice: then a
    pipe will not do.
    """
    for capture in captures:
        if again and is_pipe(capture):
            raise click.UsageError(f"{capture}: a pipe cannot be read again; {again} needs a file")
        if _is_same(capture, output):
            raise click.UsageError(f"{output}: that is what is read, and would be lost")
    if output == STANDARD_OUTPUT and sys.stdout.isatty():
        raise click.UsageError("a capture file is nothing for a terminal; name a file, or send it into a pipe")


@contextmanager
def written(output: str) -> Iterator[BinaryIO]:
    """A file to be written; it gets its name when all is written, and what had the name stays if that fails.

    ``-`` is standard output; what is no ordinary file is written at once. Raises :class:`click.UsageError` if the
    file cannot be made or one of that name is protected, and OSError if it cannot be written.
    """
    if output == STANDARD_OUTPUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        mode = _mode_of(output)
        if mode is not None and not stat.S_ISREG(mode):
            with open(output, "wb") as special:
                yield special
            return
        if mode is not None and not os.access(output, os.W_OK):
            raise click.UsageError(f"{output}: Permission denied")
        target = os.path.realpath(output)
        folder, name = os.path.split(target)
        file = NamedTemporaryFile(dir=folder, prefix=f".{name}.", delete=False)  # noqa: SIM115
    except OSError as error:
        raise click.UsageError(f"{output}: {error.strerror or error}") from None
    try:
        with file, _ends_orderly():
            yield cast("BinaryIO", file)
        os.chmod(file.name, stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        os.replace(file.name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(file.name)
        raise


def tell_written(output: str, what: str) -> None:
    """Say on stdout what was written, unless that is where it went, by whatever name."""
    if output != STANDARD_OUTPUT and not _is_stdout(output):
        click.echo(f"{output}: {what}")


def names_folder(output: str) -> bool:
    """Whether what is to be written goes into a folder of this name: one that is there, or ends as one; not ``-``."""
    return output != STANDARD_OUTPUT and (output.endswith(os.sep) or os.path.isdir(output))


def check_empty(directory: Path) -> None:
    """Raise :class:`click.UsageError` for a folder that files cannot be written into without losing others.

    Told before anything is read; what is not there is made when there is something to put into it.
    """
    try:
        if any(directory.iterdir()):
            raise click.UsageError(f"{directory}: there are files in it, which might be lost")
    except FileNotFoundError:
        if not directory.parent.is_dir():
            raise click.UsageError(f"{directory}: there is no folder {directory.parent}") from None
    except OSError as error:
        raise click.UsageError(f"{directory}: {error.strerror or error}") from None


def make_folder(directory: Path) -> None:
    """Make it, if it is not there; raises :class:`click.UsageError` if that cannot be done."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{directory}: {error.strerror or error}") from None


@contextmanager
def _ends_orderly() -> Iterator[None]:
    """Have signals that end the command do so by an exception, unless somebody else sees to them."""

    def end(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    try:
        for number in taken:
            signal.signal(number, end)
    except ValueError:  # only the main thread may; what others write is not a command's
        taken = []
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _mode_of(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _is_same(capture: str, output: str) -> bool:
    """Whether the file to be written is one that is read."""
    try:
        read = os.fstat(sys.stdin.fileno()) if capture == STANDARD_INPUT else os.stat(capture)
        into = os.fstat(sys.stdout.fileno()) if output == STANDARD_OUTPUT else os.stat(output)
    except (OSError, ValueError):
        return False
    return os.path.samestat(read, into)


def _is_stdout(output: str) -> bool:
    """Whether a name, such as /dev/stdout, is that of what stdout goes to."""
    try:
        return os.path.samestat(os.fstat(sys.stdout.fileno()), os.stat(output))
    except (OSError, ValueError):
        return False
