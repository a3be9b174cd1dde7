"""`scripts/dev/freeze.py`: ten captures are hashed alike twice, and a change of what the program says is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from scripts.dev.freeze import main, read
from tests.conftest import REPO

NUMBER = 10


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def hashes(corpus: Path, output: Path, *options: object) -> str:
    result = run("hash", corpus, "-o", output, *options)
    assert result.exit_code == 0, result.output
    return output.read_text()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("freeze") / "corpus"
    assert run("corpus", folder, "--count", NUMBER, "--seed", 3, "--only", "mutated").exit_code == 0
    return folder


@pytest.fixture
def changed(tmp_path: Path) -> Path:
    """A checkout whose `analyze` ends with another status and crashes with one option."""
    package = tmp_path / "checkout" / "scapy_mpa"
    shutil.copytree(REPO / "scapy_mpa", package, ignore=shutil.ignore_patterns("__pycache__"))
    for module, right, wrong in (
        ("analyze", "return judging.status(report)", "return 3 + judging.status(report)"),
        ("messages", "    warn_of_damage(found.report.damage)", "    raise KeyError(directory)"),
    ):
        path = package / "cli" / f"{module}.py"
        assert right in path.read_text()
        path.write_text(path.read_text().replace(right, wrong))
    return package.parent


def test_the_same_commit_says_the_same(corpus: Path, tmp_path: Path) -> None:
    lines = hashes(corpus, tmp_path / "one.txt", "--jobs", 2)
    assert lines == hashes(corpus, tmp_path / "other.txt")
    captures = read(tmp_path / "one.txt")
    assert len(captures) == NUMBER
    assert sum("annotate" in one.commands for one in captures.values()) == 4
    assert any(command.startswith("show ") for one in captures.values() for command in one.commands)
    assert any(one.rules for one in captures.values())
    result = run("compare", tmp_path / "one.txt", tmp_path / "other.txt")
    assert result.exit_code == 0
    assert "0 captures differ" in result.output


def test_what_another_commit_says_otherwise_is_told(corpus: Path, changed: Path, tmp_path: Path) -> None:
    hashes(corpus, tmp_path / "before.txt")
    hashes(corpus, tmp_path / "after.txt", "--package", changed, "--every", 2)
    result = run("compare", tmp_path / "before.txt", tmp_path / "after.txt", "--list", 1)
    assert result.exit_code == 1
    before, after = read(tmp_path / "before.txt"), read(tmp_path / "after.txt")
    differ = {
        (name, command)
        for name, one in after.items()
        for command, found in one.commands.items()
        if found != before[name].commands[command]
    }
    assert {command for _, command in differ} == {"analyze", "messages"}
    assert f"{len({name for name, _ in differ})} captures differ" in result.output
    assert "crash:KeyError in B" in result.output
    assert f"only in {tmp_path / 'before.txt'}: {NUMBER // 2} captures" in result.output

    name = next(name for name, command in sorted(differ) if command == "analyze")
    told = run("diff", corpus, name, "analyze", "--package", REPO, "--package", changed)
    assert told.exit_code == 1
    assert "+status 3" in told.output or "+status 4" in told.output
    assert run("diff", corpus, name, "fpdus-placed", "--package", changed).output == "the same\n"
