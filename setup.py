"""What pyproject.toml cannot say: modules beside which a .pxd lies are compiled, where there is what that takes.

SCAPY_MPA_PURE=1 compiles nothing.  SCAPY_MPA_CFLAGS are handed to the compiler, such as -fsanitize=address.
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import get_start_method
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import BaseError, CCompilerError

ROOT = Path(__file__).resolve().parent
PACKAGE = ROOT / "scapy_mpa"
DIRECTIVES = {"language_level": 3, "binding": True, "cdivision": False, "annotation_typing": False}
#: Where objects are made for every segment: they hold no others that may hold them, and their memory is used again.
#: Cython takes that of a class in a .pyx alone, and ignores it in a .pxd, unless it is what all classes have.
VALUES, OF_VALUES = ("scapy_mpa.values.segment",), {"no_gc": True, "freelist": 1024}


def load(path: Path) -> Any:
    """A module by its file: the package itself need not be importable here."""
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMPILED = load(PACKAGE / "compiled.py")


def say(text: str) -> None:
    """Tell whoever builds."""
    print(f"scapy-mpa: {text}", file=sys.stderr)


def can_compile() -> bool:
    """Whether there are a C compiler and Python's headers."""
    from setuptools import Distribution

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.c")
        source.write_text("#include <Python.h>\nint probe(void) { return PY_MAJOR_VERSION; }\n")
        command = build_ext(Distribution({"ext_modules": [Extension("probe", [str(source)])]}))
        command.build_lib = command.build_temp = folder
        command.ensure_finalized()
        quiet = os.dup(2), os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet[1], 2)
        try:
            command.run()
        except (BaseError, CCompilerError, OSError):
            return False
        finally:
            os.dup2(quiet[0], 2)
            for descriptor in quiet:
                os.close(descriptor)
    return True


def extensions() -> list[Extension]:
    """The hot modules, in C; none where nothing can be compiled: then what was compiled here before goes."""
    found = hot_modules()
    if not found:
        for source in COMPILED.hot_sources(PACKAGE):
            binary = COMPILED.binary_of(source)
            if binary is not None:
                binary.unlink()
    return found


def hot_modules() -> list[Extension]:
    """What is to be compiled, if that is wanted and possible."""
    if os.environ.get(COMPILED.PURE, "0") not in ("", "0"):
        say(f"{COMPILED.PURE} is set: nothing is compiled")
        return []
    try:
        from Cython.Build import cythonize
        from Cython.Compiler.Options import get_directive_defaults
    except ImportError:
        say("Cython is missing: nothing is compiled")
        return []
    if not can_compile():
        say("no C compiler, or no headers of Python (python3-dev): nothing is compiled, everything works more slowly")
        return []
    flags = ["-g0", "-O2", "-include", str(PACKAGE / "source.h"), *os.environ.get("SCAPY_MPA_CFLAGS", "").split()]
    found = []
    for source in COMPILED.hot_sources(PACKAGE):
        name = ".".join(source.relative_to(ROOT).with_suffix("").parts)
        made_from = f'-DSCAPY_MPA_MADE_FROM="{COMPILED.hash_of(source, PACKAGE)}"'
        linked = [flag for flag in flags if flag.startswith("-fsanitize")]
        found.append(
            Extension(
                name,
                [source.relative_to(ROOT).as_posix()],
                include_dirs=[str(PACKAGE)],
                extra_compile_args=[*flags, made_from],
                extra_link_args=linked,
            )
        )
    # Other ways to start a process than by fork would run this file again.
    processes = os.cpu_count() or 1 if get_start_method() == "fork" else 0
    made: list[Extension] = []
    get_directive_defaults().update(dict.fromkeys(OF_VALUES, 0))
    for are_values, directives in ((False, DIRECTIVES), (True, DIRECTIVES | OF_VALUES)):
        some = [one for one in found if (one.name in VALUES) == are_values]
        made += cythonize(
            some, build_dir="build/cython", compiler_directives=directives, nthreads=processes, quiet=True
        )
    return made


class BuildHot(build_ext):
    """Compiles what is not up to date, by the hash that it carries; without success, the package works uncompiled."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Extension) -> None:
        binary = Path(self.get_ext_fullpath(ext.name))
        wanted = next(flag for flag in ext.extra_compile_args if "MADE_FROM" in flag).partition('"')[2].rstrip('"')
        if not binary.exists() or COMPILED.hash_in(binary) != wanted:
            binary.unlink(missing_ok=True)  # so that it is not taken for newer than its source
            super().build_extension(ext)

    def run(self) -> None:
        try:
            super().run()
        except (BaseError, CCompilerError, OSError) as error:
            say(f"cannot be compiled, everything works more slowly: {error}")
            for ext in self.extensions:
                Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            self.extensions = []


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildHot})
