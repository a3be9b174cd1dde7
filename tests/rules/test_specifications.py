"""The list of requirements against the texts of the specifications; collected only where SCAPY_MPA_SHARED is set."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from scapy_mpa.rules.requirements import REQUIREMENTS
from tests.rules.specifications import TEXTS, requirements, word_of

#: The paragraphs that say what the words mean.
DEFINITIONS = {
    *(("rfc5044", "2"), ("rfc6581", "2"), ("rfc7306", "2")),
    *(("rfc5040", "1"), ("rfc5041", "1"), ("rfc5042", "1")),
}


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_every_requirement_of_the_text_is_in_the_list(name: str) -> None:
    of_text = [found for found in requirements(name) if (name, found[0]) not in DEFINITIONS]
    listed = [
        (section, number, row.word)
        for section, rows in REQUIREMENTS[name].items()
        for number, row in enumerate(rows, 1)
    ]
    by_section = Counter(section for section, *_ in of_text)
    assert Counter(section for section, *_ in listed) == by_section
    assert listed == of_text


@pytest.mark.parametrize("name", REQUIREMENTS)
def test_the_words_found_are_those_of_the_whole_text(name: str) -> None:
    """No requirement is lost between two sections, or to a heading that was not found."""
    text = TEXTS[name].read_text(errors="replace")
    found = [*requirements(name)]
    # The text of RFC 5044 comes after its appendices' first copy in none of the files; boilerplate has no such words.
    permitted = "|MAY|OPTIONAL" if word_of(name).fullmatch("MAY") else ""
    capitals = re.findall(rf"\b(?:MUST|SHALL|SHOULD|REQUIRED|RECOMMENDED{permitted})\b", text)
    assert len(found) == len(capitals)
