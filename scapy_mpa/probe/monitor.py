"""A command that is run after each case, and says whether the peer is in trouble though it answers: a kernel's log, a
sanitizer's, a core file.

Its exit status decides, and its last lines: as long as they are the same as before, nothing new has happened.
"""

from __future__ import annotations

import os
from subprocess import STDOUT
from tempfile import TemporaryFile

from scapy_mpa.errors import MPAError
from scapy_mpa.probe.target import words
from scapy_mpa.system.names import printable
from scapy_mpa.system.programs import Program

#: Octets of its output that are read, and lines of them that are shown.
_MOST, _LINES = 4096, 3


class Monitor:
    """Runs the command.

    Args:
        command: its words, without a shell; ``{case}`` is the name of the case.
        patience: seconds that it may take.

    Raises MPAError if the command cannot be run.
    """

    def __init__(self, command: str, patience: float) -> None:
        self._words = words(command)
        self._patience = patience
        self._before = ""
        self._before = self._run("")

    def trouble(self, case: str) -> str:
        """Return what is new since the case before, in a phrase; "" if all is well."""
        said = self._run(case)
        is_new = said and said != self._before
        self._before = said
        return said if is_new else ""

    def _run(self, case: str) -> str:
        """The exit status and the last lines, if the status is not 0."""
        with TemporaryFile() as output:
            try:
                program = Program([one.replace("{case}", case) for one in self._words], stdout=output, stderr=STDOUT)
            except OSError as error:
                raise MPAError(f"--monitor: {printable(self._words[0])}: {error.strerror or error}") from None
            program.wait(self._patience)
            status = program.status
            program.end()
            if status == 0:
                return ""
            output.seek(max(0, output.seek(0, os.SEEK_END) - _MOST))
            lines = [line.strip() for line in output.read().decode(errors="replace").splitlines() if line.strip()]
        how = f"ended with status {status}" if status is not None else f"did not end in {self._patience:g} s"
        return ": ".join([f"the monitor {how}", *([printable(" / ".join(lines[-_LINES:]))] if lines else [])])
