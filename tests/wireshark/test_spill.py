"""What waits in temporary files comes back sorted, and whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.reading import spill
from scapy_mpa.reading.spill import OctetStore, Sorted


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spill, "_HELD", 5)
    monkeypatch.setattr(spill, "_CHUNK", 2)
    monkeypatch.setattr(spill, "_MOST_RUNS", 3)
    monkeypatch.setattr(spill, "_HELD_OCTETS", 10)


@given(st.lists(st.tuples(st.integers(0, 50), st.binary(max_size=5)), max_size=200), st.integers(1, 6))
def test_tuples_come_back_sorted(items: list[tuple[int, bytes]], weight: int) -> None:
    found: Sorted[tuple[int, bytes]] = Sorted()
    for item in items:
        found.add(item, weight)
    assert list(found) == sorted(items)
    first = iter(found)
    taken = [next(first) for _ in range(len(items) // 2)]
    assert list(found) == sorted(items)  # while another one is under way
    assert taken + list(first) == sorted(items)
    assert len(found._held) <= 5
    assert all(len(runs) < 3 for runs in found._runs)
    found.close()


@given(st.lists(st.binary(max_size=8), max_size=30))
def test_octets_come_back(pieces: list[bytes]) -> None:
    store = OctetStore()
    places = [store.keep(piece) for piece in pieces]
    for place, piece in [*zip(places, pieces, strict=True)][::-1]:
        assert store.at(place, len(piece)) == piece
    store.close()
