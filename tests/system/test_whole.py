"""A file is there whole, as its user would have it, or as it was."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scapy_mpa.system.whole import whole_file, write_whole
from tests.conftest import REPO


def permissions(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_permissions_of_any(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "one", b"whole")
        (tmp_path / "two").write_bytes(b"whole")
    finally:
        os.umask(before)
    assert permissions(tmp_path / "one") == permissions(tmp_path / "two")


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666, 0o755])
def test_a_file_that_is_replaced_keeps_its_permissions(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    path.chmod(mode)
    with whole_file(path) as file:
        file.write(b"whole")
        file.flush()
        (part,) = (one for one in tmp_path.iterdir() if one != path)
        assert not permissions(part) & ~mode  # nor may others read it meanwhile
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"whole" and permissions(path) == mode and [*tmp_path.iterdir()] == [path]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_replaces_the_file_of_another_user(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"before")
    os.chown(path, 4711, 4712)
    write_whole(path, b"whole")
    assert (path.stat().st_uid, path.stat().st_gid, path.read_bytes()) == (4711, 4712, b"whole")


def test_symbolic_links_stay(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "link").symlink_to("deep/other")
    (tmp_path / "deep" / "other").symlink_to("file")
    for octets in (b"made where the link leads", b"and replaced there"):
        write_whole(tmp_path / "link", octets)
        assert (tmp_path / "deep" / "file").read_bytes() == octets
    assert (tmp_path / "link").is_symlink() and (tmp_path / "deep" / "other").is_symlink()
    assert len([*(tmp_path / "deep").iterdir()]) == 2


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"before")
    for name in ("old", "new"):
        with pytest.raises(TypeError), whole_file(tmp_path / name) as file:
            file.writelines([b"part", 3])  # type: ignore[list-item]
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"before"]


def test_the_longest_name_there_is(tmp_path: Path) -> None:
    write_whole(tmp_path / ("n" * 255), b"whole")
    assert [len(path.name) for path in tmp_path.iterdir()] == [255]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "No such file"),
        ("none/out", "No such file"),
        ("folder", "Is a directory"),
        ("new/", "Is a directory"),
        ("file/out", "Not a directory"),
        ("loop", "symbolic links"),
        ("n" * 256, "File name too long"),
    ],
)
def test_names_of_no_file(name: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"before")
    (tmp_path / "loop").symlink_to("loop")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match=why), whole_file(name):
        raise AssertionError
    assert len([*tmp_path.iterdir()]) == 3


def test_a_folder_that_is_protected_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "out").write_bytes(b"before")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="its folder cannot be written"), whole_file(tmp_path / "out"):
        raise AssertionError
    with pytest.raises(OSError, match="Permission denied"), whole_file(tmp_path / "new"):
        raise AssertionError


def test_a_named_pipe_gets_it_as_it_comes(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    write_whole(path, b"whole")
    reader.join()
    assert got == [b"whole"] and stat.S_ISFIFO(path.stat().st_mode)
    write_whole("/dev/null", b"whole")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "{}/link"])
@pytest.mark.parametrize("opened", [">", ">>", "|"])
def test_what_is_open_already_is_written_where_it_stands(name: str, opened: str, tmp_path: Path) -> None:
    """Two commands into one file: the second must not replace it under the first."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    (tmp_path / "out").write_bytes(b"before ")
    program = (
        "import sys; from scapy_mpa.system.whole import write_whole; write_whole(sys.argv[1], sys.argv[2].encode())"
    )
    one, two = (f"'{sys.executable}' -c '{program}' '{name.format(tmp_path)}' {text}" for text in ("1", "2"))
    into = f"{opened} {tmp_path / 'out'}" if opened != "|" else f"| cat > {tmp_path / 'out'}"
    subprocess.run(["bash", "-c", f"({one}; {two}) {into}"], cwd=REPO, check=True)
    assert (tmp_path / "out").read_bytes() == (b"before 12" if opened == ">>" else b"12")
    assert len([*tmp_path.iterdir()]) == 2
