#!/usr/bin/env python3
"""Compare captures with Wireshark, one after the other, and print a table for docs/wireshark.md.

    python scripts/dev/crosscheck_captures.py                   # the captures that are shipped
    python scripts/dev/crosscheck_captures.py FOLDER...         # all captures of other folders

Beside a capture NAME.pcap, NAME.fpdus.jsonl has one line for each FPDU that is to be found, if that is known; both may
be compressed by zstd (.zst). Exit status 1 if there is a difference that nothing explains.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import zstandard

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))  # this checkout, wherever the command is run

from scapy_mpa import crosscheck  # noqa: E402


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folders: tuple[Path, ...]) -> None:
    """Print a line for each capture of the folders."""
    unexplained = 0
    click.echo("| capture | truth | Wireshark | ours | agreed | explained differences | unexplained |")
    click.echo("| --- | ---: | ---: | ---: | ---: | --- | ---: |")
    for capture in sorted(path for folder in folders or (ROOT / "pcaps",) for path in folder.glob("*.pcap*")):
        result = crosscheck(capture)
        name = capture.name.rpartition(".pcap")[0]
        known = next((str(lines_of(path)) for path in capture.parent.glob(f"{name}.fpdus.jsonl*")), "-")
        why: dict[str, int] = {}
        for (_, limit), count in result.counts.items():
            if limit is not None:
                why[limit] = why.get(limit, 0) + count
        told = ", ".join(f"{count} {limit}" for limit, count in sorted(why.items(), key=lambda one: -one[1]))
        unexplained += result.unexplained
        click.echo(
            f"| {name} | {known} | {result.wireshark} | {result.ours} | {result.agreed} | {told} "
            f"| {result.unexplained} |"
        )
    sys.exit(1 if unexplained else 0)


def lines_of(path: Path) -> int:
    """Count the lines of a file, which zstd may have compressed."""
    with (zstandard.open if path.suffix == ".zst" else open)(path, "rt", encoding="utf-8") as file:
        return sum(1 for _ in file)


if __name__ == "__main__":
    main()
