"""Colours on a terminal: of severities, and of what octets are.

None where stdout is no terminal, where the terminal is dumb (``TERM=dumb``), and where ``NO_COLOR`` is set to anything
(https://no-color.org).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from scapy_mpa.rules.table import Severity

if TYPE_CHECKING:
    from scapy_mpa.report.fields import Kind

_SEVERITIES: dict[str, str] = {"error": "red", "warning": "yellow", "note": "cyan"}
#: Those of the page that ``report`` writes, as near as a terminal has them; what is payload is plain.
_KINDS: dict[Kind, str] = {"header": "bright_blue", "marker": "magenta", "pad": "cyan", "crc": "green"}


def allows_colours() -> bool:
    """Whether whoever runs the command wants colours; where stdout is no terminal, ``click.echo`` takes them out."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def style(severity: Severity | str, text: str) -> str:
    """A text in the colour of a severity."""
    return click.style(text, fg=_SEVERITIES[severity]) if allows_colours() else text


def paint(kind: Kind, text: str) -> str:
    """Octets in the colour of what they are; blanks behind them stay as they are."""
    colour = _KINDS.get(kind)
    octets = text.rstrip()
    if colour is None or not octets or not allows_colours():
        return text
    return click.style(octets, fg=colour) + text[len(octets) :]
