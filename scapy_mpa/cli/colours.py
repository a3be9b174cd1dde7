"""Colours on a terminal: of severities, and of what octets are.

``--color`` says whether there are some. By itself there are none where stdout is no terminal, where the terminal is
dumb (``TERM=dumb``), and where ``NO_COLOR`` is set to anything (https://no-color.org).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from scapy_mpa.rules.table import Severity

if TYPE_CHECKING:
    from rich.console import Console

    from scapy_mpa.report.fields import Kind

_SEVERITIES: dict[str, str] = {"error": "red", "warning": "yellow", "note": "cyan"}
#: Those of the page that ``report`` writes, as near as a terminal has them; what is payload is plain.
_KINDS: dict[Kind, str] = {"header": "bright_blue", "marker": "magenta", "pad": "cyan", "crc": "green"}


#: Columns of a table that goes into a file.
_WIDTH = 160
#: What ``--color`` takes, and what click makes of it.
_COLOURS: dict[str, bool | None] = {"auto": None, "always": True, "never": False}
COLOUR_WORDS = tuple(_COLOURS)


def choose_colours(ctx: click.Context, _option: click.Parameter, word: str) -> None:
    """Have ``click.echo`` keep colours or not, as ``--color`` says, after the name of the command or before it."""
    if word == "auto" and ctx.parent is not None and ctx.parent.color is not None:
        ctx.color = ctx.parent.color
        return
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    ctx.color = False if word == "auto" and is_plain else _COLOURS[word]


def allows_colours() -> bool:
    """True if there may be colours; where stdout is no terminal, ``click.echo`` takes them out unless all want them."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None and ctx.color is not None:
        return ctx.color
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def file_width() -> int:
    """Columns of a table that goes into a file or a pipe: those of COLUMNS, or what most tables need."""
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isdecimal() and int(columns) else _WIDTH


def console_for(width: int | None = None) -> Console:
    """Return the console that prints tables, in colour or not as :func:`allows_colours` says."""
    from rich.console import Console

    ctx = click.get_current_context(silent=True)
    is_forced = True if ctx is not None and ctx.color else None
    return Console(
        highlight=False, markup=False, width=width, force_terminal=is_forced, no_color=not allows_colours() or None
    )


def style(severity: Severity | str, text: str) -> str:
    """A text in the colour of a severity."""
    return click.style(text, fg=_SEVERITIES[severity]) if allows_colours() else text


def paint(kind: Kind, text: str) -> str:
    """Octets in the colour of what they are; blanks after them stay as they are."""
    colour = _KINDS.get(kind)
    octets = text.rstrip()
    if colour is None or not octets or not allows_colours():
        return text
    return click.style(octets, fg=colour) + text[len(octets) :]
