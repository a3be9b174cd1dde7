"""The requirement words of the specifications, taken from their texts in the folder that SCAPY_MPA_SHARED names.

The texts differ in layout, so headings are found by what the table of contents says (the one of culley-02 has no
numbers: there a heading is a line whose number can follow that of the heading before it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from scapy_mpa.framing.profiles import PROFILES
from tests.conftest import SHARED

assert SHARED is not None, "SCAPY_MPA_SHARED names no folder"
TEXTS = {
    "culley-02": SHARED / "draft-culley-iwarp-mpa-02.txt",
    "rddp-01": SHARED / "draft-ietf-rddp-mpa-01.txt",
    "rfc5044": SHARED / "rfc5044.txt",
    **{name: SHARED / f"{name}.txt" for name in ("rfc5040", "rfc5041", "rfc5042", "rfc6581", "rfc7306")},
}

_BINDING = r"(?:MUST|SHALL|SHOULD)(?:\s+(?:NOT|not))?|(?:NOT\s+)?(?:REQUIRED|RECOMMENDED)"
#: "MUST not" occurs, and is meant so.
WORD = re.compile(rf"\b({_BINDING})\b")
#: In the RFCs above MPA what is permitted counts too.
_WORD_ABOVE = re.compile(rf"\b({_BINDING}|MAY|OPTIONAL)\b")
#: What the top and the bottom of a page say.
_PAGE = re.compile(
    r"^\s*(Culley,? et|P\. Culley et|Kanevsky,? et|RFC \d+ +\S.*20\d\d$|INTERNET-DRAFT|\f)|\[Page \d+\]\s*$"
)
_NUMBERED = re.compile(
    r"^\s*(?:<u>)?(?:Appendix )?(\d+(?:\.\d+)*|[A-C](?:\.\d+)+|(?<=Appendix )[A-C])[.:]?(?:</u>)?\s+(\S.*)$"
)


def word_of(name: str) -> re.Pattern[str]:
    """Matches a requirement word as that specification's rows count them."""
    return WORD if name in PROFILES else _WORD_ABOVE


def requirements(name: str) -> Iterator[tuple[str, int, str]]:
    """Section, how many words of the section come before it plus one, and the requirement word."""
    for section, text in sections(name):
        for ordinal, found in enumerate(word_of(name).finditer(text), 1):
            yield section, ordinal, " ".join(found[1].split()).upper()


def sections(name: str) -> Iterator[tuple[str, str]]:
    """The sections that have a number, each with its text in one line."""
    lines = [line for line in TEXTS[name].read_text(errors="replace").splitlines() if not _PAGE.search(line)]
    starts = _numbered_headings(lines) if name == "culley-02" else _headings_of_contents(lines)
    ends = [at for at, _ in starts[1:]] + [len(lines)]
    for (at, number), end in zip(starts, ends, strict=True):
        yield number, " ".join(" ".join(lines[at + 1 : end]).split())


def _headings_of_contents(lines: list[str]) -> list[tuple[int, str]]:
    """Lines and numbers of the headings that the table of contents names."""
    contents = next(at for at, line in enumerate(lines) if line.strip().lower() == "table of contents")
    wanted: list[tuple[str, str]] = []
    found: list[tuple[int, str]] = []
    for at, line in enumerate(lines[contents:], contents):
        match = _NUMBERED.match(line)
        if match is None:
            continue
        number, title = match[1], _plain(match[2])
        if found or (wanted and (number, title) == wanted[0] and ".." not in line):
            # The table of contents cuts some titles and words others a little differently.
            is_heading = any(other == number and head[:10] == title[:10] for other, head in wanted)
            # What is out of order refers to another section.
            if is_heading and (not found or _order(found[-1][1]) < _order(number)):
                found.append((at, number))
        else:
            wanted.append((number, title))
    return found


def _order(number: str) -> list[int]:
    """Sorts numbers of sections; appendices come last."""
    return [int(part) if part.isdigit() else 1000 + ord(part) for part in number.split(".")]


def _plain(title: str) -> str:
    return re.sub(r"[^a-z0-9]", "", re.sub(r"\.{2,}.*| \d+$", "", title).lower())


def _numbered_headings(lines: list[str]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for at, line in enumerate(lines):
        match = _NUMBERED.match(line)
        if match is None or "\t" in line or WORD.search(line):
            continue
        number = [int(part) for part in match[1].split(".")]
        if number in _successors([int(part) for part in found[-1][1].split(".")] if found else [0]):
            found.append((at, match[1]))
    return found


def _successors(number: list[int]) -> Iterator[list[int]]:
    """What the heading after this one can have for a number; one may have lost its own."""
    yield [*number, 1]
    for depth in range(len(number)):
        yield [*number[:depth], number[depth] + 1]
        yield [*number[:depth], number[depth] + 2]
