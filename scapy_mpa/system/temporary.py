"""Temporary files that have no name: what is in them goes when they are closed, or when the process ends however.

Where the file system cannot make one without a name (O_TMPFILE), it is made with one, which is removed at once: no
signal comes between.
"""

from __future__ import annotations

from tempfile import SpooledTemporaryFile, TemporaryFile
from typing import IO

from scapy_mpa.system.ending import undisturbed


def temporary_file() -> IO[bytes]:
    """A file to write and to read. Raises OSError if there is no room for one."""
    with undisturbed():
        return TemporaryFile()


class MemoryFirst(SpooledTemporaryFile[bytes]):
    """A file that is kept in memory as long as it has not more than ``max_size`` octets."""

    def rollover(self) -> None:
        """Put it on disk. Raises OSError if there is no room."""
        with undisturbed():
            super().rollover()
