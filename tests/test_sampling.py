"""What `make test` leaves out: the parts of a table are the whole table, and what is named exists."""

from __future__ import annotations

import re

import pytest

from tests.conftest import REPO
from tests.sampling import LONG, PARTS, SAMPLED, parts_of, sample

FLOODS = "tests/hostile/test_floods.py::test_work_is_linear"


@pytest.mark.parametrize("count", [1, 2, 4, 5, 6, 7, 100])
def test_as_many_seeds_as_parts_are_all_cases_once(count: int) -> None:
    parts = [sample(FLOODS, range(count), seed) for seed in range(3, 3 + min(parts_of(FLOODS), count))]
    assert sorted(case for part in parts for case in part) == list(range(count))
    assert all(part == sorted(part) for part in parts)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_seed_takes_the_same_cases_everywhere() -> None:
    """Also in another process and another release of Python: the numbers are written down."""
    assert sample(FLOODS, range(20), 0) == sample(FLOODS, range(20), 16) == [5, 15]
    assert sample(FLOODS, range(20), 1) != sample(FLOODS + "_beyond_limits", range(20), 1)


def test_the_longest_beginning_counts() -> None:
    assert parts_of("tests/receive/test_cuts_made.py::test_with_markers") == PARTS
    assert parts_of("tests/receive/test_cuts_made.py::test_what_once_went_wrong") == 1
    assert parts_of("tests/framing/test_crc.py::test_any") == PARTS
    assert parts_of("tests/hostile/test_floods.py::test_any") == SAMPLED["tests/hostile/test_floods.py"]


@pytest.mark.parametrize("begin", [*SAMPLED, *LONG])
def test_what_is_named_is_there(begin: str) -> None:
    file, _, function = begin.partition("::")
    paths = list(REPO.glob(f"{file}*"))
    assert paths
    ends = r"\b" if begin in LONG else ""
    assert not function or any(re.search(rf"^def {function}{ends}", path.read_text(), re.M) for path in paths)
