"""What a release needs: one version everywhere, an sdist that can be compiled, nothing published by itself."""

from __future__ import annotations

import re
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.compiled import hot_sources
from scapy_mpa.version import __version__
from scripts.dev.check_dist import CheckFailed, built, main, missing_sources
from tests.conftest import REPO

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@pytest.fixture(scope="module")
def project() -> Any:
    return tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_one(project: Any) -> None:
    assert project["project"]["version"] == __version__
    changelog = (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
    (first, *_) = re.findall(r"^## (\S+) - (?:unreleased|\d{4}-\d{2}-\d{2})$", changelog, flags=re.MULTILINE)
    assert first == __version__


def test_it_is_called_stable_once_it_is(project: Any) -> None:
    (status,) = [one for one in project["project"]["classifiers"] if one.startswith("Development Status")]
    assert status.endswith("Production/Stable") == (int(__version__.partition(".")[0]) >= 1)


def test_wheels_are_built_for_every_python_that_is_supported(project: Any) -> None:
    least = re.fullmatch(r">=3\.(\d+)", project["project"]["requires-python"])
    assert least is not None
    (first, *_) = project["tool"]["cibuildwheel"]["build"]
    assert first == f"cp3{least[1]}-*"


# --- what was built ---


def sdist(folder: Path, names: list[str]) -> Path:
    path = folder / f"scapy_mpa-{__version__}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.add(REPO / name, f"scapy_mpa-{__version__}/{name}")
    return path


def test_what_an_sdist_lacks_is_named(tmp_path: Path) -> None:
    all_of_it = missing_sources(sdist(tmp_path, []))
    types = {source.with_suffix(".pxd").relative_to(REPO).as_posix() for source in hot_sources()}
    assert set(all_of_it) >= {"LICENSE", "setup.py", "scapy_mpa/source.h"}
    assert {name for name in types if (REPO / name).exists()} <= set(all_of_it)
    assert missing_sources(sdist(tmp_path, all_of_it)) == []
    assert missing_sources(sdist(tmp_path, all_of_it[1:])) == all_of_it[:1]


def test_one_wheel_and_one_sdist_are_expected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CheckFailed, match=r"0 files scapy_mpa-.*\.whl"):
        built(tmp_path)
    wheel = tmp_path / f"scapy_mpa-{__version__}-py3-none-any.whl"
    wheel.touch()
    assert main(tmp_path) == 1
    assert "0 files" in capsys.readouterr().err
    source = sdist(tmp_path, [])
    assert built(tmp_path) == (wheel, source)
    assert main(tmp_path) == 1
    assert "lacks LICENSE" in capsys.readouterr().err


# --- the workflow ---


def jobs() -> dict[str, str]:
    """The jobs of the workflow, each with its lines; its indentation tells them apart."""
    text = (REPO / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8").partition("\njobs:\n")[2]
    parts = re.split(r"^  (\w+):\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_nothing_is_published_without_a_person() -> None:
    publishing = {name for name, job in jobs().items() if re.search(r"pypi-publish|twine upload|id-token", job)}
    assert publishing == {"publish"}
    condition = re.search(r"^    if: (.*)$", jobs()["publish"], flags=re.MULTILINE)
    assert condition is not None and {"github.event_name == 'workflow_dispatch'", "inputs.publish"} <= {
        *condition[1].split(" && ")
    }
    assert "\n    environment: pypi\n" in jobs()["publish"]
    created = [line for job in jobs().values() for line in job.splitlines() if "gh release create" in line]
    assert len(created) == 1 and " --draft " in created[0]
