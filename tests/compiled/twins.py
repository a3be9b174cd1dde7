"""The compiled twins for tests: those of the package, else built by the compiler that is at hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from importlib.util import module_from_spec
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scapy_mpa import compiled
from scapy_mpa.capture import pcap, pcapng
from scapy_mpa.errors import CaptureError
from scapy_mpa.receive import inorder, receiver
from scapy_mpa.report.analysis import analyze
from scapy_mpa.report.fpdus import jsonl_lines
from tests.conftest import REPO

#: Which modules use which twin.
USERS = (
    (pcap, "pcap_records"),
    (pcapng, "enhanced_packets"),
    (inorder, "fpdus_in_order"),
    (inorder, "segments_in_order"),
    (receiver, "segments_in_order"),
)
#: Functions by name.
Twins = dict[str, Any]
#: What every compiler must say nothing about.
WARNINGS = ("-Wall", "-Wextra", "-Werror")


class Said(NamedTuple):
    """All that an analysis says of captures: the report without records, and the records; or why it does not."""

    report: str
    fpdus: str


def built(folder: Path, *options: str) -> Twins | None:
    """The twins, built in a folder; None without a compiler for Python's extensions."""
    compiler, include = shutil.which("cc"), Path(sysconfig.get_paths()["include"])
    if compiler is None or not (include / "Python.h").exists():
        return None
    found: Twins = {}
    for name, functions in (("capture._records", ("pcap", "enhanced")), ("receive._inorder", ("fpdus", "segments"))):
        source = (REPO / "scapy_mpa" / name.replace(".", "/")).with_suffix(".c")
        target = folder / f"{name}.so"
        command = [
            compiler,
            *WARNINGS,
            "-O2",
            "-shared",
            "-fPIC",
            f"-I{include}",
            *options,
            str(source),
            "-o",
            str(target),
        ]
        subprocess.run(command, check=True)
        spec = ModuleSpec(f"scapy_mpa.{name}", loader := ExtensionFileLoader(f"scapy_mpa.{name}", str(target)))
        spec.origin = str(target)
        module = module_from_spec(spec)
        loader.exec_module(module)
        found.update({function: getattr(module, function, None) for function in functions})
    return {
        "pcap_records": found["pcap"],
        "enhanced_packets": found["enhanced"],
        "fpdus_in_order": found["fpdus"],
        "segments_in_order": found["segments"],
    }


def of_package() -> Twins | None:
    """Those that the package was built with."""
    return {name: getattr(compiled, name) for _, name in USERS} if compiled.is_compiled() else None


@contextmanager
def used(twins: Twins | None) -> Iterator[None]:
    """With these twins, or without any."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in USERS:
            patch.setattr(module, name, twins and twins[name])
        yield


def said(captures: Sequence[bytes], **options: Any) -> Said:
    """What the analysis of captures says."""
    try:
        report = analyze([BytesIO(octets) for octets in captures], fpdus=False, **options).as_dict()
        whole = analyze([BytesIO(octets) for octets in captures], **options)
    except CaptureError as error:
        return Said("", str(error))
    return Said(json.dumps(report), "".join(jsonl_lines(record for half in halves_of(whole) for record in half.fpdus)))


def halves_of(report: Any) -> list[Any]:
    """Both half connections of each connection."""
    return [half for connection in report.connections for half in (connection.initiator, connection.responder)]


def assert_same(twins: Twins, captures: Sequence[bytes], **options: Any) -> None:
    """Compiled twins change nothing of what is said."""
    with used(twins):
        by_twins = said(captures, **options)
    with used(None):
        assert said(captures, **options) == by_twins
