"""Which modules are compiled, and how to run without compiled ones.

A module beside which a file of types lies (``scan.pxd`` beside ``scan.py``) is *hot*: ``setup.py`` compiles it with
Cython where there is a C compiler.  The same source runs without.  With ``SCAPY_MPA_PURE=1`` in the environment nothing
is compiled, and nothing that is compiled already is imported: so lines can be counted, for they count in source alone.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES, SOURCE_SUFFIXES, FileFinder, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path

#: In the environment, when the package is built or imported: nothing compiled.
PURE = "SCAPY_MPA_PURE"

_PACKAGE = Path(__file__).resolve().parent
#: What stands in a compiled module before the hash of what it was made from.
_MARK = b"scapy-mpa made from "


def hot_sources(package: Path = _PACKAGE) -> Iterator[Path]:
    """The sources of all hot modules of the package in a folder."""
    beside = {types.with_suffix(".py") for types in package.rglob("*.pxd")}
    yield from sorted({source for source in beside if source.exists()} | {*package.rglob("*.pyx")})


def hash_of(source: Path, package: Path = _PACKAGE) -> str:
    """Return the hash that a compiled module carries: of its source, and of all types and C of the package."""
    found = hashlib.sha256(source.read_bytes())
    for path in sorted((*package.rglob("*.pxd"), *package.rglob("*.h"))):
        found.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def binary_of(source: Path) -> Path | None:
    """The compiled module of a source for this interpreter, None without one."""
    binary = source.with_name(source.stem + EXTENSION_SUFFIXES[0])
    return binary if binary.exists() else None


def hash_in(binary: Path) -> str | None:
    """The hash of what a compiled module was made from, None if it carries none."""
    _, mark, rest = binary.read_bytes().partition(_MARK)
    return rest[:64].decode("ascii", "replace") if mark else None


def is_compiled() -> bool:
    """Return True if the hot modules are imported as compiled ones."""
    return find_spec("scapy_mpa.values._octets") is not None


def prefer_source() -> None:
    """Have modules of the package imported from their source, though they are compiled."""

    def finder(folder: str) -> FileFinder:
        if _PACKAGE not in (path := Path(folder).resolve(), *path.parents):
            raise ImportError(f"{folder} is none of {_PACKAGE.name}")
        return FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES))

    sys.path_hooks.insert(0, finder)
    for folder in [*sys.path_importer_cache]:
        if Path(folder) == _PACKAGE or _PACKAGE in Path(folder).parents:
            del sys.path_importer_cache[folder]
