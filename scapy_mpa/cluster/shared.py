"""The shared folder: what one task writes and another one reads, wherever each of them runs.

It is named as fsspec does (https://filesystem-spec.readthedocs.io): a path, ``s3://bucket/folder``, ``hdfs://...``.
Every file gets a name that nothing else has, and a task passes that name on when the file is complete. So what a worker
left half written, or wrote before it died and its task began again elsewhere, is read by nobody.

What is in it is pickled, which runs what it says when it is read. So all of it is sealed with a key that the tasks of
this run alone have, and what does not bear the seal is not read.
"""

from __future__ import annotations

import hmac
import os
import pickle
from contextlib import suppress
from secrets import token_bytes
from typing import IO, Any, Final, cast
from uuid import uuid4

from scapy_mpa.errors import MPAError
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple

HOW_TO_INSTALL = "--cluster needs Dask and fsspec, which are not installed: pip install 'scapy-mpa[cluster]'"


_DIGEST: Final = "sha256"
_DIGEST_LENGTH: Final = 32


class SharedFolder(NamedTuple):
    """A folder that every worker can read and write, by the name that fsspec knows it by, and the key of its seal."""

    name: str
    key: bytes

    @classmethod
    def made_in(cls, parent: str) -> SharedFolder:
        """A new folder in another one. Raises :class:`~scapy_mpa.errors.MPAError` if it cannot be made."""
        folder = cls(f"{parent.rstrip('/')}/scapy-mpa-{uuid4().hex}", token_bytes(_DIGEST_LENGTH))
        try:
            system, path = folder._found()
            system.makedirs(path)
        except Exception as error:
            raise MPAError(f"{printable(parent)}: the shared folder cannot be used: {said(error)}") from error
        return folder

    def create(self, what: str) -> tuple[str, IO[bytes]]:
        """A new file, and its name in the folder. Raises MPAError if there can be none."""
        name = f"{what}-{uuid4().hex}"
        return name, self._open(name, "wb")

    def open(self, name: str) -> IO[bytes]:
        """A file of the folder, to be read. Raises MPAError if it is not there."""
        return self._open(name, "rb")

    def seal(self, what: object) -> bytes:
        """Octets to be written, for an object."""
        octets = pickle.dumps(what, pickle.HIGHEST_PROTOCOL)
        return hmac.digest(self.key, octets, _DIGEST) + octets

    def unseal(self, octets: bytes) -> Any:
        """The object that was sealed. Raises MPAError if no task of this run did that."""
        seal, octets = octets[:_DIGEST_LENGTH], octets[_DIGEST_LENGTH:]
        if not hmac.compare_digest(seal, hmac.digest(self.key, octets, _DIGEST)):
            raise MPAError(f"{printable(self.name)}: what is read from the shared folder was not written by this run")
        return pickle.loads(octets)

    def remove(self) -> None:
        """Remove the folder with all that is in it, as far as that can be done."""
        system, path = self._found()
        # A task that is no longer waited for may still write; nothing depends on it.
        with suppress(OSError):
            system.rm(path, recursive=True)

    def _open(self, name: str, mode: str) -> IO[bytes]:
        system, path = self._found()
        try:
            return cast(IO[bytes], system.open(f"{path}/{name}", mode))
        except Exception as error:
            raise MPAError(f"{printable(self.name)}: the shared folder cannot be used: {said(error)}") from error

    def _found(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        system, path = url_to_fs(self.name)
        return system, str(path)


def said(error: BaseException) -> str:
    """Return the message of another package's error, in one line."""
    text = (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__
    return " ".join(text.split())


def absolute(name: str | os.PathLike[str]) -> str:
    """The name by which a worker finds a file: it has another folder at hand than we."""
    return os.path.abspath(os.fspath(name))
