"""The claims of RFC 5044 appendix B, at fewer connections than the documentation has."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.dev import appendix_b


def test_the_claims_hold(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "b.svg"
    assert appendix_b.main(["--connections", "5", "20", "--picture", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.endswith(": holds") for line in lines) == 11
    assert picture.stat().st_size > 1000


def test_memory_tells_the_ways_apart(tmp_path: Path) -> None:
    """Six connections hold half of an FPDU each, nearly a whole one, and nothing."""
    half, most, none = (appendix_b.memory(6, way, tmp_path).peak for way in ("unaligned", "worst", "aligned"))
    assert (half, most, none) == (6 * 731, 6 * 1456, 0)


def test_a_claim_that_does_not_hold_says_so() -> None:
    assert appendix_b.Claim("B.2", "it is so", "1", False).line.endswith(": 1: does not hold")


@pytest.mark.parametrize("arguments", [["--connections", "0"], ["--picture", "b.txt"]])
def test_bad_arguments(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        appendix_b.main(arguments)
    assert ended.value.code == 2
