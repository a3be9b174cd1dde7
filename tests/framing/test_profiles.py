"""The table of differences, read against the specifications once more."""

from __future__ import annotations

import pytest

from scapy_mpa.framing import PROFILES, clause, expected_fpduptr, profile_of_revision
from scapy_mpa.rules.table import RULES

NAMES = ("culley-02", "rddp-01", "rfc5044", "rfc6581")

ROWS = [
    ("revision", (None, 0, 1, 2)),
    ("startup_frames", (False, True, True, True)),
    ("private_data_limit", (None, 65535, 512, 512)),
    ("markers_negotiated", (False, True, True, True)),
    ("crc_negotiated", (False, True, True, True)),
    ("fpduptr_origin", ("first-octet", "first-octet", "header", "header")),
    ("foreign_revision", ("none", "close", "close-if-incompatible", "accept-1")),
    ("initiator_first", (False, True, True, True)),
    ("enhanced", (False, False, False, True)),
]


@pytest.mark.parametrize(("field", "values"), ROWS)
def test_rows(field: str, values: tuple[object, ...]) -> None:
    assert tuple(PROFILES) == NAMES
    assert tuple(getattr(PROFILES[name], field) for name in NAMES) == values


def test_every_column_is_tested() -> None:
    assert {field for field, _ in ROWS} == {*PROFILES["rfc5044"]._fields} - {"name", "title"}


@pytest.mark.parametrize(("name", "fpduptr"), [*zip(NAMES, (512, 512, 508, 508), strict=True)])
def test_second_marker_follows_from_the_origin(name: str, fpduptr: int) -> None:
    """FPDUPTR of the second Marker in an FPDU that begins with one: there the origins differ."""
    profile = PROFILES[name]
    assert profile.name == name
    assert expected_fpduptr(512, 0, profile.fpduptr_origin) == fpduptr


@pytest.mark.parametrize(
    ("rev", "name"), [(0, "rddp-01"), (1, "rfc5044"), (2, "rfc6581"), (3, "rfc6581"), (255, "rfc6581")]
)
def test_profile_of_revision(rev: int, name: str) -> None:
    assert profile_of_revision(rev).name == name


@pytest.mark.parametrize(
    ("name", "topic", "expected"),
    [
        ("culley-02", "markers", "draft-culley-iwarp-mpa-02 §7.1"),
        ("culley-02", "crc", "draft-culley-iwarp-mpa-02 §7.2"),
        ("culley-02", "errors", "draft-culley-iwarp-mpa-02 §9"),
        ("culley-02", "receiver", "draft-culley-iwarp-mpa-02 §7.4"),
        ("culley-02", "mulpdu", "draft-culley-iwarp-mpa-02 §7.3.2"),
        ("rddp-01", "crc", "draft-ietf-rddp-mpa-01 §5.2"),
        ("rddp-01", "startup-frame", "draft-ietf-rddp-mpa-01 §6.1.1"),
        ("rddp-01", "startup-rules", "draft-ietf-rddp-mpa-01 §6.1"),
        ("rfc5044", "fpdu-format", "RFC 5044 §4.1"),
        ("rfc5044", "crc", "RFC 5044 §4.4"),
        ("rfc5044", "ulpdu-length", "RFC 5044 §3"),
        ("rfc5044", "startup-rules", "RFC 5044 §7.1.2"),
        ("rfc5044", "enhanced", "RFC 6581 §9"),
        ("rfc6581", "crc", "RFC 5044 §4.4"),
        ("rfc6581", "errors", "RFC 5044 §8"),
        ("rfc6581", "startup-frame", "RFC 6581 §6"),
        ("rfc6581", "enhanced", "RFC 6581 §9"),
        ("rfc6581", "enhanced-errors", "RFC 6581 §8"),
    ],
)
def test_clause(name: str, topic: str, expected: str) -> None:
    assert clause(name, topic) == expected


def test_every_topic_has_a_clause_under_every_profile() -> None:
    topics = {rule.topic for rule in RULES.values()} - {""}
    assert len(topics) > 10
    for name in NAMES:
        for topic in topics:
            assert clause(name, topic)[-1].isdigit()


@pytest.mark.parametrize(("name", "topic"), [("rfc5045", "crc"), ("rfc5044", "weather")])
def test_unknown(name: str, topic: str) -> None:
    with pytest.raises(KeyError):
        clause(name, topic)
