"""Cases of the fuzzer: told by their numbers, different, valid where nothing is mutated."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.craft.changes.change import LEVELS, OF_MESSAGES
from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.baselines import baselines
from scapy_mpa.fuzz.case import FuzzCase, in_area, make
from scapy_mpa.fuzz.catalogue import weights
from scapy_mpa.fuzz.exchange import Window, read_exchanges
from scapy_mpa.fuzz.recipe import Agreed
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.fuzz.writing import write_capture, write_cases
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.report.model import Report
from tests.conftest import PCAPS, captures
from tests.hostile.files import Case as HostileCase
from tests.hostile.samples import samples
from tests.sampling import examples

ALL = Fuzzer(7)
WITHOUT_MPA = {"siw-no-listener"}


def octets_of(case: FuzzCase) -> bytes:
    """The capture of a case."""
    file = io.BytesIO()
    write_capture(file, [case])
    return file.getvalue()


def told(report: Report) -> list[list[tuple[int, str | None]]]:
    """ULPDU_Length and opcode of every FPDU, half by half."""
    halves = [half for one in report.connections for half in (one.initiator, one.responder)]
    return [[(record.ulpdu_length, record.opcode) for record in half.fpdus] for half in halves]


@settings(max_examples=examples(60))
@given(st.integers(0, 1 << 70), st.integers(0, (1 << 32) - 1))
def test_the_same_numbers_give_the_same_octets(seed: int, number: int) -> None:
    made = octets_of(Fuzzer(seed).case(number))
    assert made == octets_of(Fuzzer(seed).case(number))
    assert made != octets_of(Fuzzer(seed + 1).case(number))


def test_a_case_by_itself_is_the_case_out_of_a_run(tmp_path: Path) -> None:
    for name, numbers in (("whole", range(20)), ("part", range(7, 12))):
        (tmp_path / name).mkdir()
        write_cases(tmp_path / name, map(Fuzzer(3).case, numbers))
    for number in range(7, 12):
        name = f"case-{number:06}.pcap"
        one = (tmp_path / "whole" / name).read_bytes()
        assert one == (tmp_path / "part" / name).read_bytes() == octets_of(Fuzzer(3).case(number))


def test_cases_in_one_file_are_connections_of_their_own(tmp_path: Path) -> None:
    fuzzer = Fuzzer(3, most=0)
    written = write_cases(tmp_path, map(fuzzer.case, range(23)), per_file=10)
    assert (written.cases, written.captures) == (23, 3)
    files = sorted(path.name for path in tmp_path.glob("*.pcap"))
    assert files == ["cases-000000-000009.pcap", "cases-000010-000019.pcap", "cases-000020-000022.pcap"]
    together = [half for name in files for half in told(analyze(tmp_path / name))]
    assert together == [
        half for number in range(23) for half in told(analyze(io.BytesIO(octets_of(fuzzer.case(number)))))
    ]


@pytest.mark.parametrize(
    # Of FPDUs that a snapshot length cut only the octets that are there are laid anew.
    "path",
    [path for path in captures() if path.stem not in {*WITHOUT_MPA, "siw-snaplen128"}],
    ids=lambda path: path.stem,
)
def test_a_capture_without_mutations_has_the_same_fpdus(path: Path) -> None:
    fuzzer = Fuzzer(1, baselines(captures=[str(path)]), most=0)
    count = len(fuzzer.baselines.exchanges())
    file = io.BytesIO()
    write_capture(file, map(fuzzer.case, range(count)))
    file.seek(0)
    assert told(analyze(file)) == told(analyze(path))


def test_scenarios_without_mutations_have_no_errors() -> None:
    """What is valid before it is mutated, is so when it has been laid anew."""
    fuzzer = Fuzzer(1, most=0)
    conformant = {"neither-markers-nor-crc", "every-message", "markers-packed", "packing-dynamic-mulpdu", "rddp-01"}
    for number, exchange in enumerate(fuzzer.baselines.exchanges()):
        if exchange.source in conformant:
            assert not analyze(io.BytesIO(octets_of(fuzzer.case(number)))).has_errors, exchange.source


@pytest.mark.parametrize("name", [name for name, one in CHANGES.items() if one.area])
def test_every_change_changes_something(name: str) -> None:
    kind = CHANGES[name]
    assert kind.area in weights()
    assert kind.meaning
    fuzzer, changed = Fuzzer(7, changes=[name], most=1), 0
    for number in range(40):
        recipe = fuzzer.recipe(number)
        case, plain = make(recipe), make(recipe._replace(mutations=()))
        if [done.name for done in case.done] == [name]:
            changed += case.packets != plain.packets or case.snaplen is not None
    assert changed >= 3


def test_what_finds_no_place_is_not_said_to_be_done() -> None:
    """A change of a Marker, in exchanges without any, is left out of the log."""
    fuzzer = Fuzzer(1, baselines(scenarios=["neither-markers-nor-crc"]), changes=["marker"], most=1)
    recipes = [fuzzer.recipe(number)._replace(agreed=None) for number in range(20)]
    assert not any(make(recipe).done for recipe in recipes)
    marked = [recipe._replace(agreed=Agreed((True, True), True)) for recipe in recipes]
    assert sum(bool(make(recipe).done) for recipe in marked) > 4


def test_what_is_not_drawn_is_only_what_has_no_bounds() -> None:
    """All others can be drawn, so that a change that is added comes to the fuzzer by itself."""
    assert {name for name, one in CHANGES.items() if not one.area} == {
        "says", "answers", "goes-on", "recut", "repeated", "foreign",
    }  # fmt: skip


def test_cases_reach_all_areas_and_stay_mpa() -> None:
    cases = [ALL.case(number) for number in range(300)]
    assert {done.area for case in cases for done in case.done} == set(weights())
    assert sum(not case.done for case in cases if not case.recipe.malformed) < 10
    assert 20 < sum(bool(case.recipe.malformed) for case in cases) < 90
    reports = [analyze(io.BytesIO(octets_of(case))) for case in cases[:120]]
    assert sum(len(report.connections) for report in reports) > 60
    assert sum(report.has_errors for report in reports) > 40


def test_only_some_areas() -> None:
    fuzzer = Fuzzer(2, areas=["markers"])
    names = {name for number in range(100) for name, _ in fuzzer.recipe(number).mutations}
    assert names == set(in_area("markers", LEVELS))
    told = [analyze(io.BytesIO(octets_of(fuzzer.case(number)))).connections for number in range(50)]
    assert sum(any(half.markers for one in found for half in (one.initiator, one.responder)) for found in told) > 35


def test_a_case_without_some_of_its_mutations_is_otherwise_the_same() -> None:
    several = (recipe for recipe in map(ALL.recipe, range(400)) if len(recipe.mutations) > 2)
    checked = 0
    for recipe in several:
        if all(CHANGES[name].level in OF_MESSAGES for name, _ in recipe.mutations):
            checked += 1
            fewer = make(recipe._replace(mutations=recipe.mutations[:2]))
            assert fewer.done == make(recipe).done[: len(fewer.done)]
    assert checked > 5


# --- from captures ---


def test_from_one_connection_of_a_capture() -> None:
    path = next(str(one) for one in captures() if len(analyze(one).connections) > 1)
    begin = baselines(captures=[path], connection=1)
    assert [one.connection for one in begin.exchanges()] == [1]
    with pytest.raises(MPAError, match="there is no connection 99"):
        baselines(captures=[path], connection=99).exchanges()


def test_what_is_no_baseline() -> None:
    with pytest.raises(MPAError, match="no such"):
        baselines(captures=["no such capture"]).exchanges()
    with pytest.raises(MPAError, match="no scenario"):
        baselines(scenarios=["no-such"]).exchanges()


def test_of_a_large_capture_a_part_is_taken() -> None:
    path = str(PCAPS / "markers-reordered.pcap")
    whole = read_exchanges(path, path)
    part = read_exchanges(path, path, most_octets=20_000)
    assert whole.is_whole
    assert not part.is_whole
    assert part.exchanges[0].said == whole.exchanges[0].said[: len(part.exchanges[0].said)]


def test_exchanges_begin_with_what_the_window_says() -> None:
    (found,) = read_exchanges(str(PCAPS / "markers-reordered.pcap"), "").exchanges
    part = found.exchange(Window(0.5, 900))
    assert 0 < len(part.steps) < len(found.said)
    assert part.steps[0] == found.said[len(found.said) // 2]
    units = [*part.units("initiator"), *part.units("responder")]
    assert [unit.name for unit in units if unit.offset is None] == ["Request", "Reply"]
    assert len([unit for unit in units if unit.offset is not None]) == len(part.steps)


def test_from_hostile_captures() -> None:
    """Whatever a capture holds, it can be begun from, or it is said why not."""
    for seed in range(40):
        name = samples()[seed % len(samples())].name
        mutations = ("flip", "forge_startup", "forge_ulpdu_length", "small_segments")
        octets = HostileCase(name, seed, tuple((one, seed) for one in mutations)).made().octets
        try:
            found = read_exchanges(io.BytesIO(octets), "hostile")
        except MPAError:
            continue
        for exchange in found.exchanges:
            assert exchange.exchange(ALL.recipe(seed).window).sent()
