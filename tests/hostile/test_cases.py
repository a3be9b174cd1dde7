"""Cases of the fuzzer: a bounded part of what scripts/dev/fuzz_cases.py does without end (see CONTRIBUTING.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scapy_mpa.craft.changes.table import CHANGES
from scapy_mpa.fuzz.case import FuzzCase, make
from scapy_mpa.values.limits import Limits
from scripts.dev.fuzz_cases import capture_of, fuzzer, judged_case, run, smaller
from tests.hostile import crashes, strategies
from tests.hostile.crashes import tshark_cases
from tests.hostile.examine import examine
from tests.sampling import examples
from tests.wireshark.tshark import needs_tshark

CHUNKS, CHUNK = 4, 100
_mutations = st.lists(
    st.tuples(st.sampled_from([name for name, one in CHANGES.items() if one.area]), st.integers(0, (1 << 32) - 1)),
    max_size=6,
)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_the_first_cases_of_a_seed(chunk: int) -> None:
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        (failure,) = run(1, (), number, timed=False).failures or (None,)
        assert failure is None, f"case {number}: {failure and failure.why}"


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 20), _mutations, strategies.limits)
def test_any_mutations(number: int, mutations: list[tuple[str, int]], limits: Limits) -> None:
    recipe = fuzzer(9).recipe(number)._replace(mutations=tuple(mutations))
    examine([capture_of(make(recipe))], limits=limits, octets_again=True)


def test_a_case_is_made_smaller() -> None:
    """What a case fails without is left out."""
    number = next(number for number in range(1000) if len(fuzzer(1).case(number).done) == 6)
    case = fuzzer(1).case(number)
    wanted = case.done[2].what

    def fails(tried: FuzzCase) -> bool:
        return any(done.what == wanted for done in tried.done)

    assert [done.what for done in smaller(case, fails).done][-1] == wanted
    assert len(smaller(case, fails).recipe.mutations) < 6
    assert not judged_case(smaller(case, fails), timed=False).failures


@needs_tshark
def test_tshark_reads_cases() -> None:
    assert list(tshark_cases(map(fuzzer(1).case, range(50)), capture_of)) == []


def test_how_a_program_crashes_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A signal, a failed assertion, a dissector's bug: each for the one case that does it."""
    cases = [fuzzer(1).case(number) for number in range(3)]
    guilty = capture_of(cases[1])[40:80]
    (tmp_path / "octets").write_bytes(guilty)
    for does, said in (
        ("ulimit -c 0; kill -SEGV $$", "signal 11"),
        ("echo 'x.c:1: assertion failed' >&2; exit 1", "assertion failed"),
        ("echo '[Dissector bug, protocol MPA]'", "Dissector bug"),
    ):
        script = tmp_path / "tshark"
        script.write_text(f'#!/bin/bash\ngrep -qaF -f {tmp_path}/octets "$2" && {{ {does}; }}\nexit 0\n')
        script.chmod(0o755)
        found = shutil.which("tshark", path=str(tmp_path))
        monkeypatch.setattr(crashes, "tshark_path", lambda found=found: found)
        ((case, why),) = tshark_cases(cases, capture_of)
        assert (case, said in why) == (cases[1], True)
