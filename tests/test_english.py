"""Plain English: sentences of help and messages are short."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scapy_mpa.cli.group import COMMANDS
from tests.cli.test_command import invoke
from tests.conftest import REPO

#: The most words of a sentence in help and messages.
MOST_WORDS = 30
MODULES = sorted([*(REPO / "scapy_mpa").rglob("*.py"), *(REPO / "scripts").rglob("*.py")])


def sentences(text: str) -> Iterator[str]:
    yield from re.split(r"(?<=[.:;])\s+", " ".join(text.split()))


@pytest.mark.parametrize("command", COMMANDS)
def test_sentences_of_help_are_short(command: str) -> None:
    said = invoke(command, "--help").stdout.partition("\nOptions")[0].partition("\n\n")[2]
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
