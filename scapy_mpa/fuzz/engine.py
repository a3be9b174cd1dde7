"""libFuzzer as the one that says which case comes next: in a process of its own, by way of atheris.

libFuzzer calls a function with an input, and looks at counters in its memory afterwards. Here that function hands the
input to the process that talks to the peer, and waits until that has put the peer's counters into memory of both.
libFuzzer keeps the inputs that reached something new, and chooses, weighs and replaces them; what is changed in one is
ours to say (its custom mutator).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import IO, Any, TypeAlias

from scapy_mpa.errors import MPAError
from scapy_mpa.fuzz.coverage import COUNTERS, NOTHING
from scapy_mpa.system.ending import kill_at_end, undisturbed
from scapy_mpa.system.names import printable
from scapy_mpa.system.temporary import temporary_file

#: Changes an input, which has so many octets at most afterwards, as a seed has it.
Mutate: TypeAlias = Callable[[bytes, int, int], bytes]
#: A case is one step from one that is kept. How often something was reached does not count: by loops over octets, such
#: as that of a CRC, nearly all cases would be kept. How long a case takes, and what goes wrong in it, are the peer's.
_OPTIONS = (
    "-max_len=4096", "-mutate_depth=1", "-use_counters=0", "-timeout=1000000", "-rss_limit_mb=0", "-handle_int=0",
    "-exact_artifact_path=/dev/null", "-verbosity=0",
)  # fmt: skip
#: libFuzzer calls with nothing first, to see whether that works, and never again.
_FIRST = b""
_LAST_WORDS = 4096


class Engine:
    """Says which input is next, and is told what was reached by it.

    Args:
        mutate: changes an input.
        seed: of all that is drawn: the same one, with the same counters, gives the same inputs.

    Raises:
        MPAError: atheris is not installed.
    """

    def __init__(self, mutate: Mutate, seed: int) -> None:
        if find_spec("atheris") is None:
            raise MPAError("--coverage needs the package atheris: pip install 'scapy-mpa[coverage]'")
        context = get_context("fork")
        self._counters = mmap.mmap(-1, COUNTERS)
        self._errors = temporary_file()
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=_lead, args=(self._pipe, theirs, self._counters, mutate, seed, self._errors), daemon=True
        )
        with undisturbed():
            self._process.start()
            self._forget = kill_at_end(self._process)
        theirs.close()
        if self.next() == _FIRST:
            self.tell(NOTHING)

    def next(self) -> bytes:
        """Return the next input. Raises MPAError if libFuzzer has ended."""
        try:
            return self._pipe.recv_bytes()
        except (EOFError, OSError):
            raise MPAError(f"libFuzzer has ended{self._last_words()}") from None

    def tell(self, counters: bytes) -> None:
        """Say what was reached by the input; with nothing but zeros it is not kept."""
        self._counters[:] = counters
        try:
            self._pipe.send_bytes(b"\0")
        except OSError:
            raise MPAError(f"libFuzzer has ended{self._last_words()}") from None

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self._forget()
        self._pipe.close()
        self._errors.close()

    def _last_words(self) -> str:
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - _LAST_WORDS))
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return f": {printable(last)}" if last else ""


def _lead(
    pipe: Connection, ours: Connection, counters: mmap.mmap, mutate: Mutate, seed: int, errors: IO[bytes]
) -> None:
    """What the process does: libFuzzer's loop, which does not return."""
    pipe.close()
    # Ctrl-C is the business of whoever started this.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for output in (1, 2):
        os.dup2(errors.fileno(), output)
    sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115 - whatever it was, such as one of a test
    import atheris

    is_watched = False

    def give(octets: bytes) -> None:
        nonlocal is_watched
        if not is_watched:  # libFuzzer is not loaded before
            is_watched = True
            _watch(counters)
        try:
            ours.send_bytes(octets)
            ours.recv_bytes()
        except (EOFError, OSError):
            os._exit(0)

    options = (*_OPTIONS, f"-seed={seed % 0xFFFFFFFF + 1}")  # 0 would be a random one
    atheris.Setup([sys.argv[0], *options], give, custom_mutator=mutate)
    atheris.Fuzz()


def _watch(counters: mmap.mmap) -> None:
    """Have libFuzzer look at these counters, as at those of a program that was built with inline-8bit-counters."""
    library: Any = ctypes.CDLL(sys.modules["atheris.core_with_libfuzzer"].__file__)
    begin = library.__sanitizer_cov_8bit_counters_init
    begin.argtypes, begin.restype = [ctypes.c_void_p, ctypes.c_void_p], None
    first = ctypes.addressof(ctypes.c_char.from_buffer(counters))
    begin(first, first + COUNTERS)
