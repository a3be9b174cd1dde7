"""What a live peer executes, in a file of counters that it shares with us; ``coverage.c`` is the peer's half.

The file has an octet for each counter. The peer maps it, so it belongs on a file system in memory (``/dev/shm``).
"""

from __future__ import annotations

import os
import time
from importlib.resources import files

from scapy_mpa.errors import MPAError
from scapy_mpa.system.names import printable

#: Counters, as in ``coverage.c``.
COUNTERS = 1 << 16
#: Those of a peer that has done nothing.
NOTHING = bytes(COUNTERS)
#: What names the file to the peer.
VARIABLE = "SCAPY_MPA_COVERAGE"
#: Seconds between two looks at the counters, and within which they have to stand still: the peer still sees to our FIN.
_POLL, _SETTLE = 0.002, 0.05
#: Has a counter be 1 if it has counted anything.
_AS_ONE = bytes((0, *(1,) * 255))


def source() -> str:
    """Return the C source of the peer's half."""
    return files("scapy_mpa.fuzz").joinpath("coverage.c").read_text()


class Coverage:
    """The counters of a peer.

    Args:
        path: the file, which is made if it is not there.

    Raises:
        MPAError: It cannot be made or opened, or has something else in it.
    """

    def __init__(self, path: str) -> None:
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            # Counters are cleared before each case: a capture named by mistake must not be.
            is_other = os.fstat(self._file).st_size not in (0, COUNTERS)
            if not is_other:
                os.ftruncate(self._file, COUNTERS)
        except OSError as error:
            raise MPAError(f"{printable(path)}: {error.strerror}") from None
        if is_other:
            os.close(self._file)
            raise MPAError(f"{printable(path)}: not a file of counters, which has {COUNTERS} octets")
        #: The counters of the last connection.
        self.counters = NOTHING
        #: A bit for each counter that is reached by a connection that was kept.
        self.kept = 0
        self.clear()

    def clear(self) -> None:
        """Begin to count."""
        self.counters = NOTHING
        os.pwrite(self._file, NOTHING, 0)

    def collect(self) -> None:
        """Take the counters as they are once they stand still."""
        until = time.monotonic() + _SETTLE
        before, now = b"", self._read()
        while before != now and time.monotonic() < until:
            time.sleep(_POLL)
            before, now = now, self._read()
        self.counters = now

    def _read(self) -> bytes:
        # Not mapped: a peer that cuts the file short would end this process too.
        return os.pread(self._file, COUNTERS, 0).ljust(COUNTERS, b"\0")

    @property
    def new(self) -> int:
        """Return a bit for each counter that the last connection has reached, and none that was kept."""
        return int.from_bytes(self.counters.translate(_AS_ONE), "big") & ~self.kept

    def keep(self) -> None:
        """Remember what the last connection has reached."""
        self.kept |= self.new

    def close(self) -> None:
        """Let go of the file, which stays."""
        os.close(self._file)
