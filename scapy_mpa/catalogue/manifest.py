"""The catalogue for programs: the manifest (its JSON schema is ``manifest.schema.json``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from scapy_mpa.catalogue.baseline import BASELINES
from scapy_mpa.catalogue.case import AREAS

if TYPE_CHECKING:
    from scapy_mpa.catalogue.malformed import Malformed

SCHEMA_VERSION = 1
FILE_NAME = "manifest.json"


def manifest(cases: Iterable[Malformed], captures: Iterable[str | None] | None = None) -> dict[str, Any]:
    """These cases, with the names of their captures where they have been written."""
    made = [*cases]
    files = [None] * len(made) if captures is None else [*captures]
    return {
        "schema": SCHEMA_VERSION,
        "areas": AREAS,
        "baselines": {name: baseline.what for name, baseline in BASELINES.items()},
        "cases": [one.as_dict(file) for one, file in zip(made, files, strict=True)],
    }
