#!/usr/bin/env python3
"""Write the numbers that decide what is found, each with its reason, into docs/architecture.md.

    python -m scripts.dev.numbers_tables             # writes them between the two comments
    python -m scripts.dev.numbers_tables --print     # prints them

A number is a module constant ``NAME: Final = ...`` whose value is an integer; its reason is the ``#:`` comment above.
Constants of FORMATS are not among them: a specification says what they are, and no other value could be chosen.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

from scripts.dev.architecture_picture import DOCUMENT, PACKAGE

BEGIN, END = "<!-- begin numbers -->\n", "<!-- end numbers -->\n"
#: Tables by title, with the modules whose numbers they hold.
TABLES = {
    "Doubts: why a receiver may have dropped a segment, and what is remembered of it": (
        "stream/drop_reason", "stream/sequence_space", "stream/peer_state",
    ),
    "Belief: which connection octets belong to, which copies count, what octets show where no startup frame does": (
        "stream/connection", "stream/copies", "stream/recent",
        "receiver/startup", "receiver/inference", "receiver/deviation",
    ),
    "Placement, resynchronisation, limits": (
        "receiver/window", "receiver/fpdus", "receiver/plain", "receiver/connection",
    ),
    "Evidence: what octets are worth that look like FPDUs, and how many are looked at": (
        "infer/evidence", "infer/inference",
    ),
    "Rules: habits, and what is remembered of FPDUs, segments and connections": (
        "watches/copies", "watches/counts", "watches/ddp", "watches/fpdus", "watches/gaps", "watches/lifecycle",
        "watches/messages", "watches/reads", "watches/segments", "watches/sizes", "watches/startup",
        "analyzer/analyzer", "analyzer/connection", "analyzer/followed",
    ),
}  # fmt: skip
#: Values that nobody chose: lengths of fields, their largest values, a value beyond all others.
FORMATS = {
    "NEVER", "CRC_BITS", "HEADER_OCTETS", "INSPECTED_OCTETS", "READ_REQUEST_LENGTH", "_LOW_BITS", "_MOST_ROWS",
    "_STAMPED_HEADER",
}  # fmt: skip
_VALUE = re.compile(r"[\d_ <*]+(?:LONGEST_FPDU)?")
_NUMBER = re.compile(r"((?:^#: .*\n)*)^(_?[A-Z][A-Z_]+)(?:: Final)? = ([^\n]*)$", re.MULTILINE)


class Number(NamedTuple):
    """A constant: its module, its name, its value as it is written, its reason."""

    path: Path
    name: str
    value: str
    reason: str

    @property
    def module(self) -> str:
        """Its module as TABLES names it."""
        return f"{self.path.parent.name}/{self.path.stem}"


def numbers(*modules: str) -> list[Number]:
    """Return the numbers of modules, of all that have a table by default, in the order in which they stand."""
    found = []
    for module in modules or [module for names in TABLES.values() for module in names]:
        path = PACKAGE / f"{module}.py"
        for comment, name, value in _NUMBER.findall(path.read_text(encoding="utf-8")):
            reason = re.sub(r":\w+:(`[^`]+`)", r"\1", " ".join(comment.replace("#: ", "").split()))
            if _VALUE.fullmatch(value) and name not in FORMATS:
                found.append(Number(path, name, value, reason))
    return found


def tables() -> str:
    """Return the tables as Markdown."""
    lines = []
    for title, modules in TABLES.items():
        lines += [f"**{title}**", "", "| number | value | what it decides, and why |", "| --- | --- | --- |"]
        for path, name, value, reason in numbers(*modules):
            lines.append(f"| `{name}` in `{path.parent.name}/{path.name}` | `{value}` | {reason} |")
        lines.append("")
    return "\n".join(lines)


def with_tables(document: str) -> str:
    """Return a document with the tables of today between the two comments."""
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{DOCUMENT.name} has no place for the numbers: {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


def main(arguments: list[str]) -> None:
    """Write the tables, or print them."""
    if arguments == ["--print"]:
        print(tables())
    else:
        DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
