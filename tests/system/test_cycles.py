"""scapy_mpa.system.cycles, and who reads captures by it: the threshold is raised for a while, and put back."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from threading import Barrier, Thread
from weakref import ref

import pytest

import scapy_mpa
from scapy_mpa.capture.files import Captures
from scapy_mpa.errors import CaptureError
from scapy_mpa.system import cycles
from scapy_mpa.system.cycles import goes_with_process, leave, look_often, look_seldom, looking_seldom
from tests.conftest import PCAPS

RPING = PCAPS / "siw-rping.pcap"
USUAL, RAISED = (701, 11, 9), (5_000_000, 11, 9)


@pytest.fixture(autouse=True)
def _threshold() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*USUAL)
    yield
    gc.set_threshold(*before)


def test_it_is_raised_and_put_back() -> None:
    with looking_seldom():
        assert gc.get_threshold() == RAISED
    assert gc.get_threshold() == USUAL


def test_an_exception_puts_it_back() -> None:
    with pytest.raises(ZeroDivisionError), looking_seldom():
        raise ZeroDivisionError
    assert gc.get_threshold() == USUAL


def test_the_outer_one_of_two_puts_it_back() -> None:
    with looking_seldom():
        with looking_seldom():
            assert gc.get_threshold() == RAISED
        assert gc.get_threshold() == RAISED
    assert gc.get_threshold() == USUAL


def test_the_last_one_of_two_threads_puts_it_back() -> None:
    both, one_is_over = Barrier(2, timeout=20), Barrier(2, timeout=20)
    seen: list[tuple[int, ...]] = []

    def read() -> None:
        with looking_seldom():
            both.wait()
            one_is_over.wait()
            seen.append(gc.get_threshold())

    thread = Thread(target=read)
    thread.start()
    with looking_seldom():
        both.wait()
    assert gc.get_threshold() == RAISED
    one_is_over.wait()
    thread.join()
    assert seen == [RAISED]
    assert gc.get_threshold() == USUAL


@pytest.mark.parametrize("threshold", [(0, 10, 10), (6_000_000, 10, 10)])
def test_who_looks_never_or_more_seldom_is_left_alone(threshold: tuple[int, int, int]) -> None:
    gc.set_threshold(*threshold)
    with looking_seldom():
        assert gc.get_threshold() == threshold
    assert gc.get_threshold() == threshold


def test_what_somebody_sets_meanwhile_stays() -> None:
    with looking_seldom():
        gc.set_threshold(900)
    assert gc.get_threshold()[0] == 900


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The thresholds under which captures are read."""
    found: list[tuple[int, ...]] = []
    batches = Captures.batches

    def watched(captures: Captures) -> Iterator[object]:
        for batch in batches(captures):
            found.append(gc.get_threshold())
            yield batch

    monkeypatch.setattr(Captures, "batches", watched)
    return found


def test_analyze_reads_under_it(seen: list[tuple[int, ...]]) -> None:
    scapy_mpa.analyze(RPING)
    assert set(seen) == {RAISED}
    assert gc.get_threshold() == USUAL


def test_iter_fpdus_reads_under_it_but_not_who_takes_them(seen: list[tuple[int, ...]]) -> None:
    fpdus = scapy_mpa.iter_fpdus(RPING)
    assert next(fpdus)
    assert gc.get_threshold() == USUAL
    assert all(gc.get_threshold() == USUAL for _ in fpdus)
    assert set(seen) == {RAISED}
    assert gc.get_threshold() == USUAL


def test_analyze_within_an_iteration_puts_it_back() -> None:
    for _ in scapy_mpa.iter_fpdus(RPING):
        scapy_mpa.analyze(RPING)
        assert gc.get_threshold() == USUAL
        break
    assert gc.get_threshold() == USUAL


def test_what_cannot_be_read_puts_it_back() -> None:
    for read in (scapy_mpa.analyze, lambda capture: [*scapy_mpa.iter_fpdus(capture)]):
        with pytest.raises(CaptureError):
            read(PCAPS / "README.md")
        assert gc.get_threshold() == USUAL


def test_what_is_left_stays_until_somebody_looks_for_cycles() -> None:
    class Large:
        """Something that takes time to free."""

    gc.collect()
    gc.disable()
    try:
        what = Large()
        seen = ref(what)
        leave(what)
        del what
        assert seen() is not None
    finally:
        gc.enable()
    gc.collect()
    assert seen() is None


def test_only_a_command_that_reads_captures_and_ends_leaves_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cycles, "_COMMAND", [])
    monkeypatch.setattr(gc, "freeze", lambda: None)
    assert not goes_with_process()
    look_seldom()
    assert goes_with_process()
    look_often()
    assert not goes_with_process()
