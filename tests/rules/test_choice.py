"""Rules by id or by the beginning of one."""

from __future__ import annotations

import pytest

from scapy_mpa.rules.choice import UnknownRule, chosen, named, near
from scapy_mpa.rules.table import RULES


@pytest.mark.parametrize(
    ("name", "found"),
    [
        # An id is that rule, though others begin with it.
        ("crc", {"crc"}),
        ("rtr", {"rtr"}),
        ("crc-", {"crc-field", "crc-off", "crc-dropped"}),
        ("fpduptr", {"fpduptr-origin", "fpduptr-low-bits"}),
        ("startup-p", {"startup-pd-length", "startup-private-data-limit"}),
    ],
)
def test_named(name: str, found: set[str]) -> None:
    assert set(named(name)) == found


@pytest.mark.parametrize("name", ["", "crcs", "origin", "CRC", "-", "crc ", "*"])
def test_unknown(name: str) -> None:
    with pytest.raises(UnknownRule, match=r"there is no rule"):
        named(name)


def test_chosen() -> None:
    assert chosen() == set(RULES)
    assert chosen(["crc", "pad"]) == {"crc", "pad"}
    assert chosen(["crc", "crc-"], ["crc-off"]) == {"crc", "crc-field", "crc-dropped", "deviating-sender"}
    assert chosen(["marker-position"], ["deviating-sender"]) == {"marker-position"}
    left_out = ["receiver-", "startup-timeout", "startup-rejected-closed", "crc-off"]
    assert chosen([], left_out) == {r.id for r in RULES.values() if r.observable == "capture"}
    assert chosen(["crc"], ["crc"]) == set()


@pytest.mark.parametrize(
    ("name", "told"),
    [("markerlength", "marker-length"), ("padd", "pad"), ("origin", "fpduptr-origin"), ("zzzzzz", "lists them")],
)
def test_near(name: str, told: str) -> None:
    assert told in near(name)
