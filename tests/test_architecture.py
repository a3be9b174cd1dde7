"""docs/architecture.md: its picture, the files and functions that it names, and its worked frames are true."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts.dev.architecture_picture import (
    BEGIN,
    DOCUMENT,
    END,
    Graph,
    arrows,
    imports,
    picture,
    together,
    with_picture,
)
from tests.conftest import REPO
from tests.receive.cases import Talk, broken, follow, only, records, started

PACKAGE = REPO / "scapy_mpa"
TEXT = DOCUMENT.read_text(encoding="utf-8")
#: All that stands in backticks in a line of text.
NAMED = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL))
A_FILE = re.compile(r"(?:[\w.-]+/)*[\w-]+\.(?:py|md|json|toml)|(?:[\w-]+/)+")
A_MEMBER = re.compile(r"([A-Z]\w+)\.(\w+)")
A_CLASS = re.compile(r"[A-Z][a-z]+(?:[A-Z][A-Za-z]*)?|FPDU[A-Z][a-z]\w+|DDP[A-Z]\w+|TCP[A-Z]\w+")
A_FUNCTION = re.compile(r"(\w+)\(\)")


# --- the picture ---


def test_the_picture_is_drawn_from_the_source() -> None:
    drawn = TEXT.partition(BEGIN)[2].partition(END)[0].strip()
    assert drawn == picture().strip(), "python -m scripts.dev.architecture_picture"
    assert with_picture(TEXT) == TEXT


def test_every_room_is_in_the_picture_with_its_modules() -> None:
    drawn = picture()
    for path in PACKAGE.glob("*/*.py"):
        room = path.parent.name
        if path.name != "__init__.py":
            (node,) = re.findall(rf"^ +{room}\[.*$", drawn, flags=re.MULTILINE)
            assert re.search(rf"\b{path.stem}\b", node.partition("</b>")[2]), path


def test_all_that_rooms_import_can_be_seen() -> None:
    """Whatever arrow is left out, a way along others leads there, or from a room of the same box."""
    graph = imports()
    shown: dict[str, set[str]] = defaultdict(set)
    for start, end in arrows(graph):
        shown[start].add(end)
    for group in together(graph):
        for member in group:
            shown[member] |= {*group} - {member}
    for room, others in graph.items():
        found, ahead = {room}, [room]
        while ahead:
            more = shown[ahead.pop()] - found
            found |= more
            ahead += more
        assert others <= found, room


@pytest.mark.parametrize(
    ("graph", "groups", "drawn"),
    [
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, [["a"], ["b"], ["c"]], [("a", "b"), ("b", "c")]),
        (
            {"a": {"b", "c"}, "b": {"a", "c"}, "c": set()},
            [["a", "b"], ["c"]],
            [("a", "b"), ("a", "c"), ("b", "a")],
        ),
    ],
)
def test_arrows(graph: dict[str, set[str]], groups: list[list[str]], drawn: list[tuple[str, str]]) -> None:
    frozen: Graph = {node: frozenset(others) for node, others in graph.items()}
    assert together(frozen) == groups
    assert arrows(frozen) == drawn


# --- files and functions ---


@cache
def defined() -> tuple[dict[str, set[Path]], dict[tuple[str, str], set[Path]]]:
    """Where classes and functions of the package are defined, and members of classes."""
    names: dict[str, set[Path]] = defaultdict(set)
    members: dict[tuple[str, str], set[Path]] = defaultdict(set)
    sources = [path for room in (PACKAGE, REPO / "tests") for path in room.rglob("*.py")]
    for path in sources:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names[node.name].add(path)
            if isinstance(node, ast.ClassDef):
                for name in _members(node):
                    members[node.name, name].add(path)
    return names, members


def _members(cls: ast.ClassDef) -> Iterator[str]:
    for node in ast.walk(cls):
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            yield node.attr


def is_file(name: str) -> bool:
    return (PACKAGE / name).exists() or (REPO / name).exists()


def places(name: str) -> set[Path] | None:
    """The files that define what is named; None if it is the name of nothing in a source."""
    names, members = defined()
    if member := A_MEMBER.fullmatch(name):
        return members[member[1], member[2]]
    if function := A_FUNCTION.fullmatch(name):
        return names[function[1]]
    return names[name] if A_CLASS.fullmatch(name) else None


@pytest.mark.parametrize("name", sorted({name for name in NAMED if A_FILE.fullmatch(name)}))
def test_a_file_that_is_named_is_there(name: str) -> None:
    assert is_file(name)


@pytest.mark.parametrize("name", sorted({name for name in NAMED if places(name) is not None}))
def test_what_is_named_is_there(name: str) -> None:
    assert places(name)


def rows(heading: str) -> list[list[str]]:
    """The rows of the table below a heading, without its own heading."""
    section = TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    assert lines, f"there is no table below {heading!r}"
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.mark.parametrize("row", rows("Where each decision is made"), ids=lambda row: row[0])
def test_a_decision_is_made_in_the_file_that_its_row_names(row: list[str]) -> None:
    files = {PACKAGE / name for name in re.findall(r"`([^`]+\.py)`", row[1])}
    made = [found for name in re.findall(r"`([^`]+)`", row[2]) if (found := places(name)) is not None]
    assert all(found & files for found in made)
    # And in each file, unless the row names no function.
    assert not made or files <= set().union(*made)


@pytest.mark.parametrize("row", rows("Which object may write what"), ids=lambda row: row[0])
def test_a_class_is_in_the_file_that_its_row_names(row: list[str]) -> None:
    before, _, behind = row[0].partition("(")
    files = {PACKAGE / name for name in re.findall(r"`([^`]+)`", behind)}
    classes = [places(name) for name in re.findall(r"`([^`]+)`", before)]
    assert classes and all(found and found & files for found in classes)


def test_no_name_is_passed_over() -> None:
    """These names are in the document, so the patterns find them."""
    assert {"stream/copies.py", "tests/live/test_catalogue.py"} <= {name for name in NAMED if A_FILE.fullmatch(name)}
    assert {"FPDUReader._read_bad", "infer()", "FPDUReader", "Copies"} <= {n for n in NAMED if places(n) is not None}
    assert not is_file("receiver/nothing.py") and places("FPDUReader.nowhere") == places("nowhere()") == set()


# --- worked frames ---


def in_order() -> Talk:
    talk = started()
    octets = talk.lay("a", 98, 98, 98)
    for start, end in ((0, 104), (104, 260), (260, 312)):
        talk.at("a", start, octets[start:end])
    return talk


def a_hole_with_markers() -> Talk:
    talk = started(m=(0, 1))
    octets = talk.lay("a", 400, 400, 400, 400, 60)
    for start, end in ((0, 412), (824, 1236), (1236, 1716), (412, 824)):
        talk.at("a", start, octets[start:end])
    return talk


def a_bad_crc(acknowledged: int, again: bool) -> Talk:
    talk = started()
    octets = talk.lay("a", 98, 98, 98, 98)
    talk.at("a", 0, octets[:104])
    talk.at("a", 104, bytes((*octets[104:150], octets[150] ^ 1, *octets[151:208])))
    talk.at("a", 208, octets[208:312])
    talk.put("b", talk.next["b"], ack=talk.origin["a"] + acknowledged)
    if again:
        talk.at("a", 104, octets[104:208])
    talk.at("a", 312, octets[312:])
    return talk


EXAMPLES = {
    "in order": (in_order(), []),
    "a hole, with Markers": (a_hole_with_markers(), []),
    "a bad CRC, acknowledged": (a_bad_crc(312, again=False), [("crc", "initiator", 7, 1)]),
    "a bad CRC, dropped silently": (a_bad_crc(104, again=True), [("crc-dropped", "initiator", 10, 1)]),
}


def example_table(kind: str, name: str) -> list[str]:
    """The rows of a table of an example, as they stand in the document."""
    lines = TEXT.partition(f"<!-- {kind}: {name} -->\n")[2].splitlines()
    count = next((n for n, line in enumerate(lines) if not line.startswith("|")), len(lines))
    assert count > 2
    return lines[2:count]


def octets_of(start: int, end: int) -> str:
    return f"{start}-{end - 1}" if start < end else "-"


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_frames_are_captured(name: str) -> None:
    talk, _ = EXAMPLES[name]
    captured = [seg for seg in talk.segments if seg.frame > 5]
    begins = [
        f"| {seg.frame} | {octets_of(start, start + seg.length)} |"
        for seg in captured
        for start in [seg.seq - talk.origin["a"]]
    ]
    table = example_table("frames", name)
    assert len(table) == len(begins)
    assert [row for row, begin in zip(table, begins, strict=True) if not row.startswith(begin)] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_frames_give_these_fpdus(name: str) -> None:
    talk, findings = EXAMPLES[name]
    receiver = follow(talk.segments)
    table = []
    for number, one in enumerate(records(receiver), 1):
        start = one.seq - talk.origin["a"]
        frames = ", ".join(map(str, one.frames))
        told = one.placed_frame or "never", one.delivered_frame or "never", one.located_by
        cells = number, octets_of(start, start + one.wire_length), one.markers, one.crc, frames, *told
        table.append(f"| {' | '.join(map(str, cells))} |")
    assert example_table("fpdus", name) == table
    assert broken(only(receiver).findings) == findings
