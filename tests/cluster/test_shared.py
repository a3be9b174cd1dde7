"""The content of the shared folder is read only if a task of this run wrote it."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa.cluster.shared import SharedFolder
from scapy_mpa.errors import MPAError

pytest.importorskip("fsspec")


class Planted:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def test_what_is_sealed_is_read(tmp_path: Path) -> None:
    folder = SharedFolder.made_in(str(tmp_path))
    assert folder.unseal(folder.seal(["octets", b"\x00", 7])) == ["octets", b"\x00", 7]


@pytest.mark.parametrize("length", [0, 31, 32, 33])
def test_what_is_cut_is_refused(tmp_path: Path, length: int) -> None:
    folder = SharedFolder.made_in(str(tmp_path))
    with pytest.raises(MPAError, match="not written by this run"):
        folder.unseal(folder.seal("octets")[:length])


def test_what_another_one_wrote_is_not_run(tmp_path: Path) -> None:
    folder, planted = SharedFolder.made_in(str(tmp_path)), Planted(tmp_path / "there")
    octets = pickle.dumps(planted)
    for written in (octets, folder.seal("octets")[:32] + octets, folder._replace(key=bytes(32)).seal(planted)):
        with pytest.raises(MPAError, match="not written by this run"):
            folder.unseal(written)
    assert not planted.path.exists()
    folder.unseal(folder.seal(planted))
    assert planted.path.exists()
