"""The documentation as a whole: links hold, every page is on the site, what is generated is current, it builds."""

from __future__ import annotations

import importlib.util
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
from markdown_it import MarkdownIt

import scapy_mpa
from scapy_mpa.cli.group import COMMANDS
from scapy_mpa.rules.table import RULES
from scripts.dev.reference_pages import COMMANDS_PAGE, EXAMPLES, RULES_PAGE, commands_page, rules_page
from tests.conftest import REPO
from tests.test_docs import DOCUMENTS, blocks, commands

DOCS = REPO / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


# --- links ---


def targets(markdown: str) -> list[str]:
    """Where the links and images of a document lead."""
    tokens = [child for token in MarkdownIt().enable("table").parse(markdown) for child in token.children or ()]
    found = (token.attrGet("href") or token.attrGet("src") for token in tokens)
    return [str(target) for target in found if target]


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@cache
def anchors(document: Path) -> frozenset[str]:
    """The anchors of a document; of headings that are the same, the second and later ones have a number."""
    tokens = MarkdownIt().parse(document.read_text(encoding="utf-8"))
    found: Counter[str] = Counter()
    names = set()
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inline.children or ())
            name = slug(text)
            names.add(f"{name}-{found[name]}" if found[name] else name)
            found[name] += 1
    return frozenset(names)


def broken(document: Path, markdown: str) -> list[str]:
    """The links that lead nowhere. Nothing is asked of the network."""
    problems = []
    for target in targets(markdown):
        if re.match(r"https://[\w.-]+(/|$)", target):
            continue
        path, _, anchor = target.partition("#")
        where = (document.parent / unquote(path)).resolve() if path else document
        if not where.exists() or (anchor and (where.suffix != ".md" or anchor not in anchors(where))):
            problems.append(target)
    return problems


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_links_hold(document: Path) -> None:
    assert broken(document, document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("link", "is_broken"),
    [
        ("index.md", False),
        ("glossary.md#severity", False),
        ("#begin-here", False),
        ("https://example.org/x", False),
        ("../README.md#more", False),
        ("nowhere.md", True),
        ("glossary.md#nowhere", True),
        ("#nowhere", True),
        ("http:/example.org", True),
        ("../pyproject.toml#project", True),
    ],
)
def test_a_broken_link_is_found(link: str, is_broken: bool) -> None:
    page = DOCS / "index.md"
    assert broken(page, f"a [link]({link}) and ![a picture]({link})") == [link] * (2 * is_broken)
    assert broken(page, f"| a |\n| --- |\n| [link]({link}) |") == [link] * is_broken


# --- pages ---


def test_every_page_is_in_the_navigation_once() -> None:
    nav = (REPO / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2].partition("\n\n")[0]
    assert sorted(re.findall(r": (\S+\.md)$", nav, flags=re.MULTILINE)) == PAGES


def test_the_index_leads_to_every_page() -> None:
    linked = {target.partition("#")[0] for target in targets((DOCS / "index.md").read_text(encoding="utf-8"))}
    assert set(PAGES) - linked - {"index.md"} == set()


def test_the_api_has_every_public_name() -> None:
    listed = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    public = {getattr(scapy_mpa, name) for name in scapy_mpa.__all__}
    assert {f"{one.__module__}.{one.__name__}" for one in public} == set(listed)
    assert len(listed) == len(set(listed))


# --- what is generated ---


def test_the_page_of_commands_is_current() -> None:
    """What stands there as printed, `tests/test_docs.py` compares; here the rest is made again, around that."""
    text = COMMANDS_PAGE.read_text(encoding="utf-8")
    printed = {
        command.command: "\n".join(command.output)
        for block in blocks(text)
        if block.language == "console"
        for command in commands(block)
    }
    assert EXAMPLES.keys() == set(COMMANDS)
    assert commands_page(lambda command: printed.get(command, "")) == text, "python -m scripts.dev.reference_pages"


def test_the_page_of_rules_is_current() -> None:
    text = RULES_PAGE.read_text(encoding="utf-8")
    assert rules_page() == text, "python -m scripts.dev.reference_pages"
    assert anchors(RULES_PAGE) >= set(RULES)


# --- the site ---

#: What a page may not load from elsewhere: scripts, style sheets, pictures, frames.
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)")


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs is not installed (pip install 'scapy-mpa[docs]')")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=REPO, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    for page in PAGES:
        html = (tmp_path / page).with_suffix(".html").read_text(encoding="utf-8")
        assert LOADED.findall(html) == []
        assert ":class:" not in html
    api = (tmp_path / "api.html").read_text(encoding="utf-8")
    assert [name for name in scapy_mpa.__all__ if f'.{name}"' not in api] == []
