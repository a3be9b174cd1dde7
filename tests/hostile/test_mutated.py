"""Mutated captures: a bounded part of what scripts/dev/fuzz_captures.py does without end (see CONTRIBUTING.md)."""

from __future__ import annotations

import json
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from scapy_mpa.errors import CaptureError
from scapy_mpa.reading.analysis import analyze, iter_fpdus
from scapy_mpa.report.fpdus import FORMATS
from scapy_mpa.values.assumptions import Assumptions
from scapy_mpa.values.limits import Limits
from scripts.dev.fuzz_captures import captures_of, case, run
from tests.conftest import REPO
from tests.hostile import strategies
from tests.hostile.examine import examine
from tests.hostile.files import FILE_MUTATIONS, LAYOUTS, Case
from tests.hostile.mutate import MUTATIONS
from tests.hostile.samples import Sample, samples
from tests.sampling import examples

SCHEMAS = REPO / "scapy_mpa" / "report"
CHUNKS, CHUNK = 8, 150


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_first_cases_of_a_seed(chunk: int) -> None:
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        (failure,) = run(1, number, timed=False).failures or (None,)
        assert failure is None, f"{case(1, number)}\n{failure and failure.why}"


@settings(max_examples=examples(500), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(strategies.cases, min_size=1, max_size=2), strategies.limits, strategies.assumptions)
def test_any_mutations(cases: list[Case], limits: Limits, assumptions: Assumptions) -> None:
    made = [one.made() for one in cases]
    examine([one.octets for one in made], limits=limits, assumptions=assumptions, octets_again=True)


@settings(max_examples=examples(300))
@given(st.binary(max_size=300), st.sampled_from(LAYOUTS))
def test_any_octets(octets: bytes, layout: tuple[str, str, int]) -> None:
    """Behind what makes them a capture."""
    head = Case("siw-rev0", 1, (("drop", 0),) * 40, layout).made().octets
    examine([octets])
    examine([head + octets])


@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(strategies.cases)
def test_reports_follow_their_schemas(case: Case) -> None:
    octets = case.made().octets
    validators = {
        name: Draft202012Validator(json.loads((SCHEMAS / f"{name}.schema.json").read_text()))
        for name in ("analyze", "fpdus")
    }
    with suppress(CaptureError):
        validators["analyze"].validate(json.loads(json.dumps(analyze(BytesIO(octets)).as_dict())))
        for line in list(FORMATS["jsonl"](iter_fpdus(BytesIO(octets))))[:50]:
            validators["fpdus"].validate(json.loads(line))


# --- the mutations themselves ---


@pytest.mark.parametrize("sample", samples(), ids=lambda sample: sample.name)
def test_without_mutations_a_sample_is_the_capture(sample: Sample) -> None:
    for seed in range(4):
        for layout in LAYOUTS:
            examined = examine([Case(sample.name, seed, (), layout).made().octets])
            assert examined.packets
            assert not examined.refused


def test_every_mutation_changes_something() -> None:
    """None of them has become one that does nothing."""
    plain = [Case(sample.name, 3, (), layout).made() for sample in samples()[::4] for layout in LAYOUTS[::3]]
    for name in MUTATIONS:
        made = [
            Case(sample.name, 3, ((name, seed),), layout).made()
            for seed, sample in enumerate(samples()[::4])
            for layout in LAYOUTS[::3]
        ]
        assert any(one != other for one, other in zip(made, plain, strict=True)), name
    for name in FILE_MUTATIONS:
        made = [
            Case(sample.name, 3, (), layout, ((name, seed),)).made()
            for seed, sample in enumerate(samples()[::4])
            for layout in LAYOUTS[::3]
        ]
        assert any(one != other for one, other in zip(made, plain, strict=True)), name


def test_cases_reach_what_they_are_for() -> None:
    """Most are still read, many still speak MPA, some are refused."""
    tallies = [examine([one.octets for one in captures_of(2, number)]) for number in range(300)]
    assert 5 < sum(tally.refused for tally in tallies) < 100
    assert sum(tally.connections for tally in tallies) > 100
    assert sum(tally.fpdus for tally in tallies) > 1000


def test_a_case_is_told_by_its_numbers() -> None:
    assert captures_of(1, 4711) == captures_of(1, 4711)
    assert captures_of(1, 4711) != captures_of(2, 4711)
    assert len(captures_of(1, 17)) == 2
