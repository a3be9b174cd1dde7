"""`requirements.lock` has a version of everything that `pyproject.toml` declares, for each Python that is supported."""

from __future__ import annotations

import re
from importlib.metadata import metadata, requires
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from scripts.dev.try_versions import build_requires
from tests.conftest import REPO

LOCK = (REPO / "requirements.lock").read_text(encoding="utf-8")
LOCKED = [Requirement(line) for line in re.findall(r"^[a-z].*", LOCK, re.MULTILINE)]
#: The lock is that of the extra `dev`, which has neither: no target of the Makefile installs `shell`, and only
#: `make atheris` installs `fuzz`, in its newest version.
NOT_LOCKED = {"shell", "fuzz"}
EXTRAS = ["", *sorted({*(metadata("scapy-mpa").get_all("Provides-Extra") or ())} - NOT_LOCKED)]


def declared() -> list[Requirement]:
    """Return what building and running takes, and what the extras of the lock take; not the project itself."""
    found = [Requirement(one) for one in [*(requires("scapy-mpa") or ()), *build_requires()]]
    return [one for one in found if one.name != "scapy-mpa"]


def is_for(one: Requirement, python: str, extra: str = "") -> bool:
    environment: dict[str, Any] = {"python_version": python, "python_full_version": f"{python}.9", "extra": extra}
    return one.marker is None or one.marker.evaluate(environment)


@pytest.mark.parametrize("python", ["3.10", "3.11", "3.12", "3.13", "3.14"])
def test_the_lock_has_what_is_declared(python: str) -> None:
    versions = {one.name: str(one.specifier).removeprefix("==") for one in LOCKED if is_for(one, python)}
    for one in declared():
        if any(is_for(one, python, extra) for extra in EXTRAS):
            version = versions.get(one.name)
            assert version is not None and one.specifier.contains(Version(version)), f"{one}: make lock"


def test_the_lock_has_one_version_of_each_and_no_address() -> None:
    for python in ("3.10", "3.13"):
        names = [one.name for one in LOCKED if is_for(one, python)]
        assert len(names) == len(set(names))
    assert "://" not in LOCK
