"""Captures that are read while they are written: a file that grows, a folder into which a rotation goes, a pipe.

In: what names one of these. Out: segments, as :class:`~scapy_mpa.capture.files.Captures` has them, as soon as they are
there. Where there is nothing more, whoever reads waits until somebody ends that; what is there by then is read, and
no more. What was read is released: no frame can be looked up again.
"""

from __future__ import annotations

import os
import select
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Final

from scapy_mpa.capture.files import decryption, reader_of
from scapy_mpa.capture.folders import Inspected, captures_in
from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.named import STANDARD_INPUT, Sources
from scapy_mpa.capture.notes import Note, Notes
from scapy_mpa.capture.reader import Reader
from scapy_mpa.capture.source import Octets
from scapy_mpa.capture.twice import Repeats
from scapy_mpa.errors import CaptureError
from scapy_mpa.system.names import encodable, printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits
from scapy_mpa.values.segment import Segment

if TYPE_CHECKING:
    from scapy_mpa.ipsec.associations import Associations

#: Seconds between two examines what has not gone on.
DEFAULT_POLL: Final = 0.5
#: Octets at the beginning of a file that identify it: the first record, with its time, is among them.
_HEAD: Final = 512
#: What names of files end in that were compressed when they were over.
_COMPRESSED: Final = (".gz", ".zst")
#: Seconds for which the other end of a pipe may still write when polling is over: tcpdump writes what it has then.
_LAST_WORDS: Final = 0.5


class Polling:
    """How to wait for more octets, and until when.

    Args:
        poll: seconds between two looks.
        idle: is called at each look at which nothing was there.

    Attributes:
        is_over: whether somebody has ended it.
    """

    def __init__(self, poll: float = DEFAULT_POLL, idle: Callable[[], None] | None = None) -> None:
        self._poll = poll
        self._idle = idle
        self.is_over = False

    def call(self, idle: Callable[[], None]) -> None:
        """Have this called at each look at which nothing was there."""
        self._idle = idle

    def end(self) -> None:
        """Polling no longer: what is there is read, and no more."""
        self.is_over = True

    def pause(self, descriptor: int | None = None) -> bool:
        """Polling for one look, or until there is something to read; returns whether there is, as far as that shows."""
        if descriptor is None:
            time.sleep(self._poll)
            is_ready = False
        else:
            is_ready = is_readable(descriptor, self._poll)
        if not is_ready and self._idle is not None:
            self._idle()
        return is_ready


def is_readable(descriptor: int, seconds: float) -> bool:
    """Return True if there is something to read, or the other end is closed, within this many seconds."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Origin(ABC):
    """The origin of a capture that keeps growing.

    Attributes:
        name: what people call it.
        has_files: whether it may consist of several files.
    """

    name: str
    has_files = False

    @abstractmethod
    def parts(self) -> Iterator[tuple[str, Octets]]:
        """Yield the captures that it consists of, each when the one before was read: their names, and what reads them.

        Raises :class:`~scapy_mpa.errors.CaptureError` if there is none.
        """

    def remarks(self) -> list[str]:
        """Lines about what was not captured, after the last capture."""
        return []

    def close(self) -> None:  # noqa: B027
        """Release what is open."""


class GrowingFile:
    """A file that somebody writes, to be read as it grows.

    It ends when it is no longer the last one and does not grow, when it was written again, or when polling is over.

    Args:
        path: of the file.
        polling: how more is waited for.
        is_last: whether no other file comes after this one.
    """

    def __init__(self, path: Path, polling: Polling, is_last: Callable[[], bool]) -> None:
        self._file: FileIO = path.open("rb", buffering=0)
        self._path = path
        self._polling = polling
        self._is_last = is_last
        self._place = 0
        #: True if another file was there when nothing more had come.
        self._is_passed = False

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets; none when nothing more follows. Raises OSError."""
        while True:
            octets = self._file.read(size) or b""
            if octets:
                self._place += len(octets)
                self._is_passed = False
                return octets
            if self._polling.is_over or self._is_passed or self.is_renewed:
                return b""
            # Its last octets may have come between the two looks.
            self._is_passed = not self._is_last()
            if not self._is_passed:
                self._polling.pause()

    @property
    def is_renewed(self) -> bool:
        """True if the name stands for another file by now, or for the same one, written from its beginning."""
        try:
            there, mine = self._path.stat(), os.fstat(self._file.fileno())
        except OSError:
            return False  # it was removed, and a program that has it open may continue
        return (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino) or mine.st_size < self._place

    def is_of(self, name: str) -> bool:
        """Return True if this is the file of that name, and still read."""
        return not self._file.closed and self._path == Path(name)

    def seek(self, place: int, /) -> int:
        """Raises OSError: what was read is gone."""
        raise OSError("a growing capture can be read only once")

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class FileOrigin(Origin):
    """One file that grows. If its name comes to stand for another file, that is read next.

    Args:
        path: of the file.
        polling: how more is waited for.

    Raises:
        CaptureError: There is no such file, or it cannot be read.
    """

    def __init__(self, path: Path, polling: Polling) -> None:
        self.name = os.fspath(path)
        self._path = path
        self._polling = polling
        self._file = self._opened()

    def _opened(self) -> GrowingFile:
        try:
            return GrowingFile(self._path, self._polling, lambda: True)
        except (OSError, ValueError) as error:
            raise CaptureError(f"{printable(self.name)}: {getattr(error, 'strerror', None) or error}") from error

    def parts(self) -> Iterator[tuple[str, Octets]]:
        """Yield the file, and what takes its place."""
        yield self.name, self._file
        while not self._polling.is_over and self._file.is_renewed:
            self._file.close()
            self._file = self._opened()
            yield self.name, self._file

    def close(self) -> None:
        """Release the file."""
        self._file.close()


class _Read(NamedTuple):
    """A file of a folder that was read: its inode, when it was written (nanoseconds), and how it begins."""

    inode: int
    written: int
    head: bytes

    @classmethod
    def of(cls, name: str) -> _Read:
        """Return the state of the file now. Raises OSError."""
        with open(name, "rb", buffering=0) as file:
            state = os.fstat(file.fileno())
            return cls(state.st_ino, state.st_mtime_ns, file.read(_HEAD) or b"")


class FolderOrigin(Origin):
    """A folder, with all folders in it: its captures by their names, and those that come, one after the other.

    A file is over when there is another one after it and it has stopped growing. One that is written again under its
    old name, as a ring of files is, counts as another one. ``x.pcap.gz`` is ``x.pcap``, compressed when it was over.

    Args:
        path: of the folder.
        polling: how more is waited for.
    """

    has_files = True

    def __init__(self, path: Path, polling: Polling) -> None:
        self.name = os.fspath(path)
        self._polling = polling
        #: The files that were read, and the one that is read, by name.
        self._read: dict[str, _Read] = {}
        self._file: GrowingFile | None = None
        self._remarks: list[str] = []
        #: The files there were at the last look, and the line about those that are not captures.
        self._inspected: dict[str, Inspected] = {}
        self._left_out: str | None = None

    def parts(self) -> Iterator[tuple[str, Octets]]:
        """Yield each file."""
        while True:
            name = self._next()
            if name is None:
                if self._polling.is_over:
                    return
                self._polling.pause()
                continue
            try:
                self._file = GrowingFile(Path(name), self._polling, lambda: self._next() is None)
                self._see(name)
            except OSError as error:
                self._remarks.append(f"{printable(name)}: {error.strerror or error}; skipped")
                self._read[name] = _Read(0, 0, b"")
                continue
            try:
                yield name, self._file
            finally:
                self._file.close()
            with suppress(OSError):  # it may have been removed
                self._see(name)

    def remarks(self) -> list[str]:
        """A line for each file that could not be opened, or that grew after it was read, and one for all others."""
        return self._remarks if self._left_out is None else [*self._remarks, self._left_out]

    def _see(self, name: str) -> None:
        """A file is read now, and need not be read again unless it is written again."""
        self._read[name] = _Read.of(name)

    def _next(self) -> str | None:
        """The next file that was not read yet: one that was never there before, else one that was written again."""
        try:
            there, self._left_out, self._inspected = captures_in(self.name, self._inspected)
        except CaptureError:
            there = []  # the folder is gone, or will be there again
        names = {*there}
        for gone in self._read.keys() - names:
            # A ring removes its oldest files, and reading it may continue for long.
            if names.isdisjoint(gone + ending for ending in _COMPRESSED):
                del self._read[gone]
        for name in there:
            plain = next((name.removesuffix(ending) for ending in _COMPRESSED if name.endswith(ending)), name)
            if name not in self._read and plain not in self._read:
                return name
        renewed = [(now.written, name) for name in there if (now := self._renewed(name)) is not None]
        return min(renewed)[1] if renewed else None

    def _renewed(self, name: str) -> _Read | None:
        """Return the file that has this name now, if it is not the one that was read."""
        before = self._read.get(name)
        if before is None or (self._file is not None and self._file.is_of(name)):
            return None
        try:
            state = os.stat(name)
            if (state.st_ino, state.st_mtime_ns) == before[:2]:
                return None
            now = _Read.of(name)
        except OSError:
            return None
        if now.head != before.head:
            return now
        if before.inode:
            self._remarks.append(f"{printable(name)}: it grew after the next file had appeared; the rest was not read")
        self._read[name] = now
        return None

    def close(self) -> None:
        """Release the file that is read."""
        if self._file is not None:
            self._file.close()


class PipeOrigin(Origin):
    """Octets from a pipe: they end when the other end is closed, or when polling is over.

    Args:
        name: what people call it.
        descriptor: its file descriptor.
        polling: how more is waited for.
    """

    def __init__(self, name: str, descriptor: int, polling: Polling) -> None:
        self.name = name
        self._descriptor = descriptor
        self._polling = polling

    def parts(self) -> Iterator[tuple[str, Octets]]:
        """Yield the pipe."""
        yield self.name, self

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets, at least one; none at the end. Raises OSError."""
        while not self._polling.is_over:
            if self._polling.pause(self._descriptor):
                return os.read(self._descriptor, size)
        return os.read(self._descriptor, size) if is_readable(self._descriptor, _LAST_WORDS) else b""

    def seek(self, place: int, /) -> int:
        """Raises OSError: a pipe is read once."""
        raise OSError("a pipe can be read only once")


class OngoingCaptures:
    """The captures of an origin as one, to be read once.

    Attributes:
        name: of the origin.
        has_files: whether there may be several files.
        polling: how more is waited for.
        packets: records read so far.
        octets: octets of the blocks that their segments lie in.
        damage: a line for each capture that could be read only in part.
        through: is handed the name of each capture and what it is read from; returns what it is read from instead.
    """

    def __init__(
        self,
        origin: Origin,
        polling: Polling,
        *,
        limits: Limits = DEFAULT_LIMITS,
        esp: Associations | None = None,
        udp_ports: Mapping[int, str] | None = None,
    ) -> None:
        self.name = encodable(origin.name)
        self.has_files = origin.has_files
        self.polling = polling
        self.octets = 0
        self.damage: list[str] = []
        self.through: Callable[[str, Octets], Octets] = lambda _name, octets: octets
        self._origin = origin
        self._limits = limits
        self._notes = Notes()
        self._fragments = Fragments(limits, self._notes, decryption(Sources((), esp=esp)), udp_ports)
        self._reader: Reader | None = None
        #: How many frames come before each file, and its name.
        self._begins: list[tuple[int, str]] = []

    def file_of(self, frame: int) -> tuple[str, int]:
        """The file that a frame is of, and its number there."""
        before, name = self._begins[max(0, bisect_left(self._begins, (frame,)) - 1)]
        return name, frame - before

    @property
    def packets(self) -> int:
        """Records read so far."""
        return 0 if self._reader is None else self._reader.frames

    @property
    def notes(self) -> list[Note]:
        """Notes about the packets read so far: one per rule."""
        return self._notes.all()

    def __enter__(self) -> OngoingCaptures:
        return self

    def __exit__(self, *_: object) -> None:
        self._origin.close()

    def batches(self) -> Iterator[list[Segment]]:
        """Yield the segments as they come, in lists.

        Raises :class:`~scapy_mpa.errors.CaptureError` at the end if no capture could be read at all.
        """
        failed: CaptureError | None = None
        for name, octets in self._origin.parts():
            try:
                reader = reader_of(self.through(name, octets), name, self._fragments, self._limits)
            except (CaptureError, OSError) as error:
                if self.polling.is_over:
                    break  # its first octets have not come
                failed = error if isinstance(error, CaptureError) else CaptureError(f"{printable(name)}: {error}")
                self.damage.append(f"{failed}; skipped")
                continue
            before = self.packets
            reader.begin_at(before)
            self._reader = reader
            self._begins.append((before, encodable(name)))
            yield from self._of(reader)
            if reader.damage is not None and not self.polling.is_over:
                self.damage.append(f"{reader.name}: damaged after frame {reader.frames - before}: {reader.damage}")
        self.damage += self._origin.remarks()
        if self._notes.unread is not None:
            note = self._notes.unread.note(self.packets)
            self._notes.tell_with(note)
            self.damage.append(note.detail)
        if failed is not None and self._reader is None:
            raise failed

    def _of(self, reader: Reader) -> Iterator[list[Segment]]:
        try:
            repeats = Repeats(self._notes)
            for batch in reader.batches():
                if batch:
                    self.octets += len(batch[0].buffer)
                yield repeats.without(batch)
        except OSError as error:
            reader.damage = error.strerror or str(error)


def origin_of(name: str, polling: Polling) -> Origin:
    """Return what a name stands for: standard input, a folder, a file, or a named pipe.

    Raises :class:`~scapy_mpa.errors.CaptureError` if there is nothing that can be read.
    """
    if name == STANDARD_INPUT:
        return PipeOrigin(name, 0, polling)
    path = Path(name)
    if path.is_dir():
        return FolderOrigin(path, polling)
    if path.is_fifo():
        return PipeOrigin(name, os.open(name, os.O_RDONLY), polling)
    return FileOrigin(path, polling)
