#!/usr/bin/env python3
"""Make docs/wireshark.svg: what tshark prints of a capture as it is, of its exported PDUs, and of its comments.

    python scripts/dev/wireshark_picture.py                     # writes docs/wireshark.svg
    python scripts/dev/wireshark_picture.py -o other.svg

The lines are tshark's own, of the commands that stand above them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

import click

ROOT = Path(__file__).resolve().parents[2]

FILTER = 'frame.comment contains "by Marker"'
CAPTURE = "pcaps/markers-reordered.pcap"
#: Titles, the commands that are run, and how many of the lines of the last one are shown.
PANELS = (
    ("The capture: Wireshark loses the FPDUs", (f"tshark -r {CAPTURE}",), slice(7, 15)),
    (
        "Its exported PDUs",
        (f"scapy-mpa export {CAPTURE} exported.pcapng", "tshark -r exported.pcapng"),
        slice(0, 8),
    ),
    (
        "The same packets with comments",
        (
            f"scapy-mpa annotate {CAPTURE} annotated.pcapng",
            f"tshark -r annotated.pcapng -Y '{FILTER}' -T fields -e frame.number -e frame.comment",
        ),
        slice(0, 4),
    ),
)

_COLUMNS, _WIDTH, _LINE, _MARGIN = 128, 7.25, 17, 16
_STYLE = "font: 12px ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre"


def lines_of(commands: tuple[str, ...], shown: slice, folder: Path) -> list[str]:
    """The lines that the last command prints, with the first ones run before it."""
    environment = {**os.environ, "TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT)}
    printed = ""
    for command in commands:
        words = shlex.split(command)
        if words[0] == "scapy-mpa":
            words[:1] = [sys.executable, "-m", "scapy_mpa"]
        printed = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=True).stdout
    found = [line.replace("\t", "  ").replace("→", ">").replace("\\n", " | ") for line in printed.splitlines()]
    return [line if len(line) <= _COLUMNS else line[: _COLUMNS - 3] + "..." for line in found[shown]]


def picture() -> str:
    """The picture."""
    rows: list[tuple[str, str]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pcaps").symlink_to(ROOT / "pcaps")
        for title, commands, shown in PANELS:
            rows += [("title", title)]
            rows += [("command", f"$ {command}") for command in commands]
            rows += [("output", line) for line in lines_of(commands, shown, folder)]
            rows += [("output", "...")]
    width, height = int(_COLUMNS * _WIDTH + 2 * _MARGIN), len(rows) * _LINE + 3 * _MARGIN
    colours = {"title": "#7fd1ff", "command": "#9be08a", "output": "#e6e6e6"}
    made = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        "<title>What tshark prints of a reordered capture with Markers, and of what scapy-mpa makes of it</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#1c1f26"/>',
    ]
    for number, (kind, text) in enumerate(rows, 1):
        y = _MARGIN + number * _LINE
        weight = ' font-weight="bold"' if kind == "title" else ""
        made.append(
            f'<text x="{_MARGIN}" y="{y}" xml:space="preserve" style="{_STYLE}" fill="{colours[kind]}"{weight}>'
            f"{escape(text)}</text>"
        )
    return "\n".join([*made, "</svg>"]) + "\n"


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), default=ROOT / "docs" / "wireshark.svg")
def main(output: Path) -> None:
    """Write the picture."""
    output.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
