"""Records of some FPDUs are those of all, wherever the log has runs and rows of single ones."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from scapy_mpa import analyze
from scapy_mpa.framing.role import ROLES
from tests.conftest import captures


@pytest.mark.parametrize("path", captures(with_truth=True), ids=lambda path: path.stem)
def test_some_records(path: Path) -> None:
    rng = random.Random(path.stem)
    for connection in analyze(path).connections:
        for direction in ROLES:
            fpdus = connection.half(direction).fpdus
            every = list(fpdus)
            numbers = {int(rng.random() * (len(every) + 2)) for _ in range(12)}
            assert fpdus.some(numbers) == {number: every[number] for number in numbers if number < len(every)}
            assert fpdus.some(()) == {}
            assert [*fpdus.some(range(len(every))).values()] == every
