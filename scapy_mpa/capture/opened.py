"""Files that are open only while somebody reads them: of ten thousand captures, a handful at a time."""

from __future__ import annotations

import os
from collections import OrderedDict
from io import BufferedReader, FileIO
from typing import Final

#: Files that are open at a time.
MOST_OPEN: Final = 8


class OpenFiles:
    """The files that are open: the one that was read longest ago gives way to the next.

    Args:
        most: how many there are at most.
    """

    def __init__(self, most: int = MOST_OPEN) -> None:
        self._most = most
        self._open: OrderedDict[OnDemandFile, FileIO] = OrderedDict()

    def __len__(self) -> int:
        return len(self._open)

    def file(self, path: str | os.PathLike[str]) -> OnDemandFile:
        """A file by name, opened. Raises OSError if that fails."""
        found = OnDemandFile(self, path)
        found.seek(0)
        return found

    def at(self, which: OnDemandFile, place: int) -> FileIO:
        """Return the file at a position, reopened if it had been closed to make room. Raises OSError."""
        file = self._open.get(which)
        if file is None:
            # The reader takes whole blocks: a buffer below it would only copy.
            file = FileIO(which.path)
            if place:
                file.seek(place)
            self._open[which] = file
            if len(self._open) > self._most:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(which)
        return file

    def close_one(self, which: OnDemandFile) -> None:
        """Close one file; reading it opens it again."""
        file = self._open.pop(which, None)
        if file is not None:
            file.close()

    def close(self) -> None:
        """Close all of them."""
        for file in self._open.values():
            file.close()
        self._open.clear()


class OnDemandFile:
    """A file that is read from where it stands, whether it is open or has given way to others.

    Attributes:
        path: its name.
    """

    __slots__ = ("_files", "_place", "path")

    def __init__(self, files: OpenFiles, path: str | os.PathLike[str]) -> None:
        self.path = path
        self._files = files
        self._place = 0

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets; none at the end. Raises OSError."""
        octets = self._files.at(self, self._place).read(size) or b""
        self._place += len(octets)
        return octets

    def seek(self, place: int, /) -> int:
        """Go to a place counted from the first octet. Raises OSError."""
        self._place = self._files.at(self, self._place).seek(place)
        return self._place

    def rest(self) -> None:
        """Close the file until the next read."""
        self._files.close_one(self)


class AsItComes:
    """A pipe that somebody else has opened with a buffer: what is there is read, without waiting for more.

    Args:
        file: the pipe.
    """

    __slots__ = ("_file",)

    def __init__(self, file: BufferedReader) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets, at least one; none at the end. Raises OSError."""
        return self._file.read1(size)

    def seek(self, place: int, /) -> int:
        """Raises OSError."""
        return self._file.seek(place)
