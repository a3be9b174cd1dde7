"""JSON a piece at a time is what json.dumps writes at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.jsontext import indented, pieces
from tests.conftest import REPO

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


@given(values)
def test_any_value(value: Any) -> None:
    assert indented(value) == json.dumps(value, indent=2)


@given(st.integers(-(10**10), 10**20), st.sampled_from((1, 1000, 10**6, 10**9)))
def test_any_time(count: int, second: int) -> None:
    assert indented(count / second) == repr(count / second)


@given(st.dictionaries(st.text(), values, min_size=1), st.lists(values))
def test_an_iterator_is_a_list(value: dict[str, Any], listed: list[Any]) -> None:
    key = next(iter(value))
    assert "".join(pieces(value | {key: iter(listed)})) == json.dumps(value | {key: listed}, indent=2)


@pytest.mark.parametrize("name", ["markers-reordered.pcap", "siw-rev0.pcap"])
def test_a_report(name: str) -> None:
    report = analyze(REPO / "pcaps" / name, fpdus=False)
    assert "".join(pieces(report.as_iterators())) == json.dumps(report.as_dict(), indent=2)
