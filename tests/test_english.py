"""Plain English: phrases that readers stumbled over stand nowhere in documentation, help, messages and comments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scapy_mpa.cli.group import COMMANDS
from tests.cli.test_command import invoke
from tests.conftest import REPO

#: What STYLE bans, and what readers listed.
BANNED = re.compile(
    r"\b(?:is|are|was|were|be|been) (?:told|wanted)\b|\btold (?:of|by|apart from)\b|\b(?:tell|tells|telling) of\b"
    r"|\bcan(?:not)? be had\b|\bcases by the number\b|\bor graver\b|\bends nothing\b|\bneither shows nor counts\b",
    re.IGNORECASE,
)
#: The most words of a sentence in help and messages.
MOST_WORDS = 30
PAGES = sorted([*REPO.glob("*.md"), *(REPO / "docs").glob("*.md"), *(REPO / "pcaps").glob("*.md")])
MODULES = sorted([*(REPO / "scapy_mpa").rglob("*.py"), *(REPO / "scripts").rglob("*.py")])


def banned_in(text: str) -> list[str]:
    flat = re.sub(r"\s+#?:? *", " ", text)
    return [flat[max(0, found.start() - 40) : found.end() + 20] for found in BANNED.finditer(flat)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_has_no_banned_phrase(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert banned_in(prose) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(REPO)))
def test_a_module_has_no_banned_phrase(module: Path) -> None:
    assert banned_in(module.read_text(encoding="utf-8")) == []


def sentences(text: str) -> Iterator[str]:
    yield from re.split(r"(?<=[.:;])\s+", " ".join(text.split()))


@pytest.mark.parametrize("command", COMMANDS)
def test_sentences_of_help_are_short(command: str) -> None:
    said = invoke(command, "--help").stdout.partition("Options:")[0].partition("\n\n")[2]
    for sentence in sentences(said):
        assert len(sentence.split()) <= MOST_WORDS, sentence


def messages_of(module: Path) -> Iterator[str]:
    """What a module raises as an error for people, values left out."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            argument = node.exc.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                yield argument.value
            elif isinstance(argument, ast.JoinedStr):
                yield "".join(
                    one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else "X"
                    for one in argument.values
                )


def test_sentences_of_messages_are_short() -> None:
    found = [text for module in MODULES for text in messages_of(module)]
    assert len(found) > 300
    for text in found:
        for sentence in sentences(text):
            assert len(sentence.split()) <= MOST_WORDS, text


@pytest.mark.parametrize(
    "text", ["An FPDU is told by itself", "what cannot\n# be had", "a SCENARIO is wanted", "or\n  graver", "Tell of it"]
)
def test_a_banned_phrase_is_found(text: str) -> None:
    assert banned_in(text)
