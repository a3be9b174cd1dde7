#!/usr/bin/env python3
"""Draw the rooms of the package, their modules, and which room imports which, into docs/architecture.md.

    python -m scripts.dev.architecture_picture             # writes it between the two comments
    python -m scripts.dev.architecture_picture --print     # prints it

Everything is read from the source.  Rooms that import each other stand in one box, with all their arrows; of the arrows
between boxes those are left out that a longer way shows too.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "scapy_mpa"
DOCUMENT = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- begin picture -->\n", "<!-- end picture -->\n"
#: Characters of a line of module names.
_WIDTH = 60

Graph = Mapping[str, frozenset[str]]


def rooms() -> dict[str, list[Path]]:
    """The folders of the package that hold modules, by name, each with its files, those of folders in it included."""
    folders = sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").exists())
    return {folder.name: sorted(folder.rglob("*.py")) for folder in folders}


def modules(room: str, files: list[Path]) -> list[str]:
    """The names of a room's modules; of a folder in it, its name alone."""
    places = (path.relative_to(PACKAGE / room) for path in files if path.name != "__init__.py")
    return sorted({place.stem if len(place.parts) == 1 else f"{place.parts[0]}/" for place in places})


def imported(path: Path) -> Iterator[str]:
    """The rooms that a module imports something of, anywhere in it and for whatever purpose; imports are absolute."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            package, _, rest = name.partition(".")
            if package == PACKAGE.name and rest:
                yield rest.partition(".")[0]


def imports() -> Graph:
    """The rooms that each room imports."""
    known = rooms()
    found = {room: frozenset(chain.from_iterable(map(imported, files))) for room, files in known.items()}
    return {room: (others & known.keys()) - {room} for room, others in found.items()}


def reachable(graph: Graph, start: str) -> frozenset[str]:
    """Return what can be reached from a node in one step or more."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        for node in graph[ahead.pop()] - found:
            found.add(node)
            ahead.append(node)
    return frozenset(found)


def together(graph: Graph) -> list[list[str]]:
    """The nodes in groups: those that can be reached from each other stand together."""
    reach = {node: reachable(graph, node) for node in graph}
    groups = {tuple(sorted({node, *(other for other in reach[node] if node in reach[other])})) for node in graph}
    return [list(group) for group in sorted(groups)]


def arrows(graph: Graph) -> list[tuple[str, str]]:
    """The edges that are drawn."""
    reach = {node: reachable(graph, node) for node in graph}
    group_of = {node: frozenset(group) for group in together(graph) for node in group}

    def is_shown_otherwise(start: str, end: str) -> bool:
        """True if a longer way leads from the group of ``start`` to ``end``, or another member of it shows the same."""
        mine = group_of[start]
        others = {other for node in mine for other in graph[node]} - mine - group_of[end]
        return any(end in reach[other] for other in others) or any(end in graph[node] for node in mine if node < start)

    return [
        (start, end)
        for start in sorted(graph)
        for end in sorted(graph[start])
        if end in group_of[start] or not is_shown_otherwise(start, end)
    ]


def lines_of(names: list[str]) -> list[str]:
    """Names, separated by commas, in lines."""
    lines = [""]
    for name in names:
        if lines[-1] and len(lines[-1]) + len(name) > _WIDTH:
            lines.append("")
        lines[-1] += f", {name}" if lines[-1] else name
    return lines


def picture() -> str:
    """The picture, as a block of Markdown."""
    graph, files = imports(), rooms()
    made = ["```mermaid", "flowchart TD"]
    for group in together(graph):
        is_box = len(group) > 1
        indent = "    " if is_box else "  "
        if is_box:
            title = f"{', '.join(group)}: rooms that need each other; their modules form no circle"
            made.append(f'  subgraph box_{group[0]} ["{title}"]')
        for room in group:
            text = "<br/>".join((f"<b>{room}/</b>", *lines_of(modules(room, files[room]))))
            made.append(f'{indent}{room}["{text}"]')
        if is_box:
            made.append("  end")
    made += [f"  {start} --> {end}" for start, end in arrows(graph)]
    return "\n".join([*made, "```"]) + "\n"


def with_picture(document: str) -> str:
    """A document with the picture of today between the two comments."""
    before, _, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{DOCUMENT.name} has no place for the picture: {BEGIN.strip()} and {END.strip()}")
    return f"{before}{BEGIN}\n{picture()}\n{END}{after}"


def main(arguments: list[str]) -> None:
    """Write the picture, or print it."""
    if arguments == ["--print"]:
        print(picture(), end="")
    else:
        DOCUMENT.write_text(with_picture(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
