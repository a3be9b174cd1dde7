"""Lines of text for people: on a terminal they are folded between words, and tables fit its width.

What does not go to a terminal is one line for each thing, however long, for grep, awk and the like.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator

import click

from scapy_mpa.cli.progress import end_progress

#: Columns by which a continuation line is indented further than its first line.
_HANG = 4
#: The fewest columns for what a line ends with, where it is to stay in a column of its own.
_LEAST_COLUMN = 24
#: Nothing is folded to fewer columns than these.
_LEAST_WIDTH = 20
#: A word with the blanks before it.
_WORD = re.compile(r" *[^ ]+")
#: The blanks between two columns of a table, after its indentation.
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")


def terminal_width(*, err: bool = False) -> int | None:
    """The columns of the terminal to which stdout, or stderr, goes; None if there is no terminal."""
    stream = sys.stderr if err else sys.stdout
    if stream is None or not stream.isatty():
        return None
    from shutil import get_terminal_size

    return max(_LEAST_WIDTH, get_terminal_size().columns)


def print_line(line: str, *, err: bool = False) -> None:
    """Print a line as :func:`print_lines` does."""
    print_lines((line,), err=err)


def print_lines(lines: Iterable[str], *, err: bool = False, width: int | None = None) -> None:
    """Print lines to stdout, or stderr; folded if that is a terminal, or to the columns that are given where not."""
    end_progress()
    width = terminal_width(err=err) or width
    for line in lines:
        for part in (line,) if width is None else folded(line, width):
            click.echo(part, err=err)


def folded(line: str, width: int) -> Iterator[str]:
    """Yield a line as lines of at most ``width`` columns, as far as its words allow.

    What does not fit goes on indented: below the last column of a table if that is wide enough, else deeper than the
    line itself. Escape sequences take no columns.
    """
    if len(line) <= width or len(click.unstyle(line)) <= width:
        yield line
        return
    plain = click.unstyle(line)
    indent = len(plain) - len(plain.lstrip(" "))
    hang = min(indent + _HANG, width // 2)
    gaps = [gap.end() for gap in _GAP.finditer(plain)]
    stays = bool(gaps) and gaps[-1] + _LEAST_COLUMN <= width
    begins = gaps[-1] if gaps else 0
    if stays:
        hang = begins
    now, columns, at = "", 0, 0
    for word in _WORD.findall(line):
        size = len(click.unstyle(word))
        # A column that would be too narrow begins a line of its own.
        is_moved = bool(gaps) and not stays and at < begins <= at + size
        at += size
        if now and (columns + size > width or (is_moved and columns)):
            yield now.rstrip(" ")
            now = " " * hang + word.lstrip(" ")
            columns = len(click.unstyle(now))
        else:
            now += word
            columns += size
    yield now.rstrip(" ")
