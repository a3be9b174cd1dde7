"""The list of requirements against the texts of the specifications; collected only where SCAPY_MPA_SHARED is set."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from scapy_mpa.framing.profiles import PROFILES
from scapy_mpa.rules.requirements import REQUIREMENTS
from tests.rules.specifications import TEXTS, requirements

#: The paragraphs that say what the words mean.
DEFINITIONS = {("rfc5044", "2"), ("rfc6581", "2")}


@pytest.mark.parametrize("profile", PROFILES)
def test_every_requirement_of_the_text_is_in_the_list(profile: str) -> None:
    of_text = [found for found in requirements(profile) if (profile, found[0]) not in DEFINITIONS]
    listed = [
        (section, number, row.word)
        for section, rows in REQUIREMENTS[profile].items()
        for number, row in enumerate(rows, 1)
    ]
    by_section = Counter(section for section, *_ in of_text)
    assert Counter(section for section, *_ in listed) == by_section
    assert listed == of_text


@pytest.mark.parametrize("profile", PROFILES)
def test_the_words_found_are_those_of_the_whole_text(profile: str) -> None:
    """No requirement is lost between two sections, or to a heading that was not found."""
    text = TEXTS[profile].read_text(errors="replace")
    found = [*requirements(profile)]
    # The text of RFC 5044 comes after its appendices' first copy in none of the files; boilerplate has no such words.
    capitals = re.findall(r"\b(?:MUST|SHALL|SHOULD|REQUIRED|RECOMMENDED)\b", text)
    assert len(found) == len(capitals)
