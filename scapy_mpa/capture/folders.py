"""The captures in a folder and in all folders in it: files that begin like one, whatever their names.

In: the name of a folder. Out: the names of the captures in it, and a line about the other files. Nothing but
regular files is opened, so no pipe or device is waited for; four octets are read of each, and of a compressed one as
many as give four (at most :data:`_COMPRESSED_HEAD`).
"""

from __future__ import annotations

import io
import os
import re
import stat
from collections.abc import Iterator, Mapping
from heapq import nsmallest
from typing import Final

from scapy_mpa.capture.pcap import MAGIC_NUMBERS
from scapy_mpa.capture.pcapng import PCAPNG_MAGIC
from scapy_mpa.capture.source import MAGIC_LENGTH, is_compressed, known_format, octets_of, read_exactly
from scapy_mpa.errors import CaptureError
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

_MAGIC_NUMBERS: Final = frozenset((*MAGIC_NUMBERS, PCAPNG_MAGIC))
#: Octets of a compressed file that give its first ones: more than a zstd block, which is 128 KiB (RFC 8878 §3.1.1.2).
_COMPRESSED_HEAD: Final = 1 << 18
#: Flags to open a file: should a pipe take its place by now, that does not wait for somebody who writes.
_READ_AT_ONCE: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
#: Names of files that are not captures in the line about them.
_NAMED: Final = 3


class Inspected(NamedTuple):
    """A file as it was when its first octets were read: inode, time of the last change (nanoseconds), size in octets.

    ``reason`` says why it is not a readable capture, if its first octets tell; "" for other files that are not.
    """

    inode: int
    changed: int
    size: int
    is_capture: bool
    reason: str = ""


class FoundFiles(NamedTuple):
    """The content of a folder.

    Attributes:
        captures: their paths, in the order of :func:`natural`.
        left_out: a line about all other files, None if there are none.
        inspected: every file that was examined, by path.
    """

    captures: list[str]
    left_out: str | None
    inspected: dict[str, Inspected]


def captures_in(folder: str, before: Mapping[str, Inspected] | None = None) -> FoundFiles:
    """Return the captures in a folder, and in all folders in it.

    Args:
        folder: its name.
        before: what was found the last time: files that have not changed are not opened.

    Raises:
        CaptureError: The folder cannot be read.
    """
    from pathlib import Path

    try:
        os.scandir(folder).close()
    except OSError as error:
        raise CaptureError(f"{printable(folder)}: {error.strerror or error}") from error
    captures: list[str] = []
    inspected: dict[str, Inspected] = {}
    others = 0

    def left_out() -> Iterator[tuple[bool, list[tuple[int, int | str]], str, str]]:
        nonlocal others
        for entry in _entries(folder):
            found = _inspect(entry, (before or {}).get(entry.path))
            if before is not None:
                inspected[entry.path] = found
            if found.is_capture:
                captures.append(os.fspath(Path(entry.path)))
            else:
                others += 1
                name = os.path.relpath(entry.path, folder)
                # What is a capture of another format, or may hold one, is missed more than other files.
                yield not found.reason, natural(name), name, found.reason

    named = nsmallest(_NAMED, left_out())
    captures.sort(key=natural)
    if not others:
        return FoundFiles(captures, None, inspected)
    names = [printable(name) + (f" ({reason})" if reason else "") for _, _, name, reason in named]
    if others > len(names):
        names.append("...")
    what = "1 file is not a capture" if others == 1 else f"{others} files are not captures"
    return FoundFiles(captures, f"{printable(folder)}: {what}: {', '.join(names)}", inspected)


def natural(name: str) -> list[tuple[int, int | str]]:
    """Return the key that sorts names as people do: x.pcap2 before x.pcap10."""
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in re.split(r"([0-9]+)", name) if part]


def _entries(folder: str) -> Iterator[os.DirEntry[str]]:
    """Yield everything but folders, in a folder and all below it; what a link leads to is no folder below it."""
    folders = [folder]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif not entry.is_dir():
                        yield entry
        except OSError:
            continue  # it was removed, or nobody may read it


def _inspect(entry: os.DirEntry[str], before: Inspected | None) -> Inspected:
    """Read the first octets of a file, unless these are known: a capture stays one while it grows."""
    try:
        state = entry.stat()
    except OSError:
        return Inspected(0, 0, 0, False)  # a link that leads nowhere
    known = state.st_ino, state.st_mtime_ns, state.st_size
    if before is not None and (before[:3] == known or (before.is_capture and before.inode == state.st_ino)):
        return before
    if not stat.S_ISREG(state.st_mode) or state.st_size < MAGIC_LENGTH:
        return Inspected(*known, False)
    try:
        magic = _magic(entry.path)
    except CaptureError as error:
        return Inspected(*known, False, str(error).removeprefix(f"{entry.path}: "))
    except (OSError, ValueError) as error:
        return Inspected(*known, False, getattr(error, "strerror", None) or str(error))
    return Inspected(*known, magic in _MAGIC_NUMBERS, known_format(magic) or "")


def _magic(path: str) -> bytes:
    """The first octets of a regular file, decompressed; none of anything else. Raises OSError and CaptureError."""
    with open(os.open(path, _READ_AT_ONCE), "rb", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return b""
        magic = read_exactly(file, MAGIC_LENGTH)
        if is_compressed(magic):
            magic, _ = octets_of(io.BytesIO(magic + read_exactly(file, _COMPRESSED_HEAD)), path)
        return magic
