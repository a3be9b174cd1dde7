"""Files that are written whole or not at all.

A file is written under another name in the same folder, and gets its own in one step, when all is written. What had the
name before stays until then, and for good if anything fails or a signal ends the command. The file keeps the
permissions of the one that it replaces, and its owner where that is allowed; a symbolic link stays, what it leads to is
replaced. What is no ordinary file (a device, a named pipe) is written as it comes, and so is what this process has open
already: /dev/stdout, /dev/fd/N.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import BinaryIO

from scapy_mpa.system.ending import remove_at_end

#: Of symbolic links one after the other, as many as the kernel follows.
_MOST_LINKS = 40


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to be written; raises OSError if it cannot be made, is protected, or cannot be written."""
    name = os.fspath(path)
    descriptor = _descriptor(name)
    if descriptor is not None:
        with open(os.dup(descriptor), "wb") as opened:
            yield opened
        return
    there = _stat(name)
    if there is not None and not stat.S_ISREG(there.st_mode):
        with open(name, "wb") as special:
            yield special
        return
    if not os.path.basename(name):
        number = errno.EISDIR if name else errno.ENOENT
        raise OSError(number, os.strerror(number), name)
    if there is not None and not os.access(name, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES), name)
    target = os.path.realpath(name)
    part = os.path.join(os.path.dirname(target), f".scapy-mpa-{os.urandom(8).hex()}.part")
    # Nobody may read what is being written who could not read what it replaces.
    mode = 0o666 if there is None else there.st_mode & 0o777
    forget = remove_at_end(part)
    try:
        with _opened(part, mode, is_there=there is not None) as file:
            yield file
        if there is not None:
            _make_alike(part, there)
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(part)
        raise
    finally:
        forget()


def write_whole(path: str | os.PathLike[str], octets: bytes) -> None:
    """Write a file of these octets; raises as :func:`whole_file` does."""
    with whole_file(path) as file:
        file.write(octets)


def _opened(part: str, mode: int, *, is_there: bool) -> BinaryIO:
    try:
        return open(part, "xb", opener=partial(os.open, mode=mode))
    except PermissionError as error:
        if is_there:
            why = "its folder cannot be written, and a new file is made there first"
            raise OSError(error.errno, why) from None
        raise


def _make_alike(part: str, there: os.stat_result) -> None:
    """Give a file the owner and the permissions of another one."""
    made = os.stat(part)
    if (made.st_uid, made.st_gid) != (there.st_uid, there.st_gid):
        with suppress(OSError):  # only root may, and whoever is in the group
            os.chown(part, there.st_uid, there.st_gid)
    os.chmod(part, there.st_mode & 0o777)


def _stat(name: str) -> os.stat_result | None:
    try:
        return os.stat(name)
    except FileNotFoundError:
        return None


def _descriptor(name: str) -> int | None:
    """The file descriptor of this process that a name such as /dev/stdout stands for; None if it is no such name."""
    for _ in range(_MOST_LINKS):
        folder, last = os.path.split(name)
        folder = os.path.realpath(folder)
        if re.fullmatch(rf"/proc/(self|{os.getpid()})/fd", folder) and last.isdecimal():
            return int(last)
        try:
            name = os.path.join(folder, os.readlink(os.path.join(folder, last)))
        except OSError:  # no link
            return None
    return None
