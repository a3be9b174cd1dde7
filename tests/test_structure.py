"""What holds for the structure of the package: no circles, one meaning for a name.

Everything is read from the source, nothing is imported.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conftest import REPO

PACKAGE = REPO / "scapy_mpa"


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


def test_no_public_class_name_twice() -> None:
    assert doubled_names() == {}
