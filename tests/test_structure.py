"""What holds for the structure of the package: no circles, one meaning for a name, classes that fit on a few screens.

Everything is read from the source, nothing is imported.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPO

PACKAGE = REPO / "scapy_mpa"
RECEIVE = "scapy_mpa.receive"

#: Of a class; of our own classes one above the other, itself counted.
MOST_ATTRIBUTES, MOST_LINES, DEEPEST = 25, 400, 2
#: Of all modules of the receiver together.
MOST_LINES_OF_RECEIVER, MOST_FILES_OF_RECEIVER = 6_500, 28

ROOMS = ["infer", "receive", "rules", "values", "watch"]
rooms = pytest.mark.parametrize("room", ROOMS)
rooms_and_live = pytest.mark.parametrize("room", [*ROOMS, "live"])


class Module(NamedTuple):
    """A module of the package, parsed."""

    name: str
    path: Path
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


@cache
def modules() -> dict[str, Module]:
    """All modules of the package by name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(path.relative_to(REPO).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    return found


def modules_of(room: str) -> list[Module]:
    return [module for name, module in modules().items() if f"{name}.".startswith(f"scapy_mpa.{room}.")]


# --- circles ---


def imported(module: Module, known: Iterable[str]) -> set[str]:
    """The modules of the package that one imports, anywhere in it and for whatever purpose."""
    found: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = module.package.split(".")
            above = parents[: len(parents) - node.level + 1] if node.level else []
            stem = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                # What is no module is a name in one.
                found.add(f"{stem}.{alias.name}" if f"{stem}.{alias.name}" in known else stem)
    return (found & set(known)) - {module.name}


def circles(edges: dict[str, set[str]]) -> list[set[str]]:
    """The sets of more than one node, each of which leads to every other one (Tarjan)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(node: str) -> None:
        numbers[node] = lowest[node] = len(numbers)
        stack.append(node)
        for other in sorted(edges[node]):
            if other not in numbers:
                visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], numbers[other])
        if lowest[node] == numbers[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(set(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in numbers:
            visit(node)
    return found


@cache
def import_circles() -> list[set[str]]:
    return circles({name: imported(module, modules().keys()) for name, module in modules().items()})


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import p.b", {"p.b"}),
        ("from p import b", {"p.b"}),
        ("from p.b import c", {"p.b"}),
        ("from . import b", {"p.b"}),
        ("from .b import c", {"p.b"}),
        ("from p.b.d import c", set()),
        ("if TYPE_CHECKING:\n    from p.b import c", {"p.b"}),
        ("def f():\n    from p.b import c", {"p.b"}),
    ],
)
def test_imports_are_found(line: str, found: set[str]) -> None:
    assert imported(Module("p.a", Path("p/a.py"), ast.parse(line)), {"p.a", "p.b"}) == found


def test_no_import_circle() -> None:
    assert import_circles() == []


# --- names ---


@cache
def doubled_names() -> dict[str, list[str]]:
    """Public classes of one name in several modules."""
    found = defaultdict(list)
    for name, module in modules().items():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(name)
    return {name: where for name, where in found.items() if len(where) > 1}


#: Until the report is built on the new receiver, its rooms have names that the old ones have too.
NEW, OLD = ("stream", "receiver", "watches"), ("tcp", "receive", "infer", "watch")


def test_no_public_class_name_twice() -> None:
    def rooms_of(where: Iterable[str]) -> set[str]:
        return {name.split(".")[1] for name in where}

    assert not {
        name: where
        for name, where in doubled_names().items()
        if len(where) > 2 or not (rooms_of(where) & {*NEW} and rooms_of(where) & {*OLD, "values", "capture"})
    }


# --- classes ---


def classes_of(room: str) -> Iterator[tuple[Module, ast.ClassDef]]:
    for module in modules_of(room):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                yield module, node


def attributes(cls: ast.ClassDef) -> set[str]:
    """What a class keeps: its slots, and what its methods store in self."""
    found = {attribute.attr for node in ast.walk(cls) for attribute in stored(node) if is_name(attribute.value, "self")}
    for statement in cls.body:
        if isinstance(statement, ast.Assign) and is_name(statement.targets[0], "__slots__"):
            strings = (node for node in ast.walk(statement.value) if isinstance(node, ast.Constant))
            found.update(node.value for node in strings if isinstance(node.value, str))
    return found


def is_name(node: ast.expr, *names: str) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def stored(node: ast.AST) -> Iterator[ast.Attribute]:
    """The attributes that a statement or an expression itself stores or deletes."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node


SETTERS = ("setattr", "delattr", "__setattr__", "__delattr__")


def foreign_stores(tree: ast.AST) -> Iterator[str]:
    """Where an attribute of anything but self (or cls) is stored or deleted; setattr is taken for such."""
    for node in ast.walk(tree):
        for attribute in stored(node):
            if not is_name(attribute.value, "self", "cls"):
                yield f"{attribute.lineno}: {ast.unparse(attribute)}"
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in SETTERS:
            yield f"{node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize(
    "line",
    [
        "a.b = 1",
        "a.b: int = 1",
        "a.b += 1",
        "del a.b",
        "a.b, c = 1, 2",
        "[c, *a.b] = d",
        "self.a.b = 1",
        "a[0].b = 1",
        "for a.b in c: pass",
        "with c as a.b: pass",
        "setattr(a, 'b', 1)",
        "object.__setattr__(self, 'b', 1)",
    ],
)
def test_foreign_stores_are_found(line: str) -> None:
    assert len([*foreign_stores(ast.parse(line))]) == 1


@pytest.mark.parametrize("line", ["self.a = 1", "cls.a = 1", "a = b.c", "a[b.c] = 1", "self.a, b = 1, 2", "a.b[0] = 1"])
def test_own_stores_are_none(line: str) -> None:
    assert [*foreign_stores(ast.parse(line))] == []


def test_attributes_are_counted() -> None:
    source = """
class Kept:
    __slots__ = ("a", "b")
    c: int = 0

    def f(self, other):
        self.b, self.d = 1, 2
        self.e += self.f
        other.g = 1
"""
    (cls,) = ast.parse(source).body
    assert isinstance(cls, ast.ClassDef)
    assert attributes(cls) == {"a", "b", "d", "e"}


@rooms_and_live
def test_attributes_of_a_class(room: str) -> None:
    counts = {f"{module.name}:{cls.name}": len(attributes(cls)) for module, cls in classes_of(room)}
    assert {name: count for name, count in counts.items() if count > MOST_ATTRIBUTES} == {}


@rooms_and_live
def test_lines_of_a_class(room: str) -> None:
    lines = {f"{module.name}:{cls.name}": (cls.end_lineno or 0) - cls.lineno + 1 for module, cls in classes_of(room)}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


@cache
def bases() -> dict[str, set[str]]:
    """The names of the classes that each class of the package is derived from, by its own name."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in modules().values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                of = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
                found[node.name] |= {ast.unparse(base).rpartition(".")[2] for base in of}
    return found


def depth(cls: str, below: frozenset[str] = frozenset()) -> int:
    """How many classes of the package lie one above the other, this one counted."""
    known = bases().keys() - below - {cls}
    return 1 + max((depth(base, below | {cls}) for base in bases()[cls] & known), default=0)


@rooms
def test_inheritance(room: str) -> None:
    depths = {f"{module.name}:{cls.name}": depth(cls.name) for module, cls in classes_of(room)}
    assert {name: deep for name, deep in depths.items() if deep > DEEPEST} == {}


@rooms
def test_nobody_writes_the_state_of_another_object(room: str) -> None:
    found = {module.name: [*foreign_stores(module.tree)] for module in modules_of(room)}
    assert {name: where for name, where in found.items() if where} == {}


# --- the size of the receiver ---


def test_lines_of_the_receiver() -> None:
    texts = [module.path.read_text(encoding="utf-8") for module in modules_of("receive")]
    assert sum(len(text.splitlines()) for text in texts) <= MOST_LINES_OF_RECEIVER


def test_files_of_the_receiver() -> None:
    assert len(modules_of("receive")) <= MOST_FILES_OF_RECEIVER


def test_no_c_in_the_receiver() -> None:
    """What a compiler makes of a module lies beside it."""
    sources = [path for suffix in ("c", "h") for path in (PACKAGE / "receive").rglob(f"*.{suffix}")]
    assert [path for path in sources if not path.with_suffix(".py").exists()] == []
