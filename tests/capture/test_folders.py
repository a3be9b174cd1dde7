"""Folders: the files that begin like a capture, whatever their names, and a line about all others."""

from __future__ import annotations

import bz2
import gzip
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.capture import folders
from scapy_mpa.capture.folders import captures_in
from scapy_mpa.capture.joining import sources_of
from scapy_mpa.errors import CaptureError
from scapy_mpa.reading.analysis import analyze
from tests.capture.convert import FORMATS, Recorded
from tests.capture.frames import capture, ethernet
from tests.cli.test_command import invoke
from tests.conftest import PCAPS
from tests.work import lines_run

PCAP = capture([ethernet()])
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
ONE = Recorded(1, [(1_000_000_000, ethernet(), len(ethernet()))])


def names(folder: Path) -> list[str]:
    return [os.path.relpath(path, folder) for path in captures_in(str(folder)).captures]


def test_captures_by_name_here_and_below(tmp_path: Path) -> None:
    for name in ("b.pcap", "a.pcapng", "sub/c.pcap2", "sub/c.pcap10", "sub/deep/d.pcap.gz", ".hidden/e"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(PCAP) if name.endswith("gz") else PCAP)
    (tmp_path / "folder.pcap").mkdir()
    expected = [".hidden/e", "a.pcapng", "b.pcap", "sub/c.pcap2", "sub/c.pcap10", "sub/deep/d.pcap.gz"]
    assert names(tmp_path) == expected
    assert [os.path.relpath(str(one), tmp_path) for one in sources_of(tmp_path)] == expected
    assert captures_in(str(tmp_path)).left_out is None


def test_names_in_the_folder_one_is_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trace").write_bytes(PCAP)
    monkeypatch.chdir(tmp_path)
    assert captures_in(".").captures == ["trace"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", ["x.cap", "x.dmp", "x.trace", "x.snoop", "x.txt", "none", "x.pcap.gz"])
def test_whatever_its_name(tmp_path: Path, name: str, kind: str, compression: str) -> None:
    (tmp_path / name).write_bytes(COMPRESSIONS[compression](FORMATS[kind](ONE)))
    assert names(tmp_path) == [name]


def test_what_is_left_out_is_a_line(tmp_path: Path) -> None:
    shutil.copy(PCAPS / "siw-rping.pcap", tmp_path / "rping")
    for number in range(12):
        (tmp_path / f"note{number}.pcap").write_text("no capture")
    result = invoke("analyze", str(tmp_path))
    assert (result.return_value, result.stderr) == (
        0,
        f"scapy-mpa: {tmp_path}: 12 files are not captures: note0.pcap, note1.pcap, note2.pcap, ...\n",
    )
    assert "1 MPA connection, nothing to report" in result.stdout
    (tmp_path / "rping").unlink()
    with pytest.raises(
        CaptureError, match=r"there is no capture in this folder: 12 files are not captures: note0.pcap,"
    ):
        sources_of(tmp_path)


def test_captures_that_are_not_read_come_first_with_what_converts_them(tmp_path: Path) -> None:
    files = {
        "a": b"text and more",
        "b": PCAP,
        "c": b"snoop\0\0\0" + bytes(40),
        "d": bz2.compress(PCAP),
        "e": gzip.compress(gzip.compress(PCAP)),
        "f": gzip.compress(b"text and more"),
        "g": gzip.compress(PCAP)[:12],
        "h": b"\x28\xb5\x2f\xfd" + bytes(9),
    }
    for name, octets in files.items():
        (tmp_path / name).write_bytes(octets)
    found = captures_in(str(tmp_path))
    assert found.captures == [str(tmp_path / "b")]
    assert found.left_out is not None
    assert found.left_out.startswith(
        f"{tmp_path}: 7 files are not captures: c (a snoop file; editcap -F pcap FILE out.pcap converts it), d (comp"
    )
    assert "\n" not in found.left_out and found.left_out.endswith(
        "e (compressed twice; decompress it once before), ..."
    )


def test_only_files_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, a socket, a device and links to them would be waited for, or read without end."""
    os.mkfifo(tmp_path / "pipe.pcap")
    (tmp_path / "link").symlink_to(tmp_path / "pipe.pcap")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "empty").touch()
    (tmp_path / "short").write_bytes(PCAP[:3])
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        opened: list[str] = []
        monkeypatch.setattr(folders, "_magic", opened.append)
        found = captures_in(str(tmp_path))
    assert (found.captures, opened) == ([], [])
    assert found.left_out == f"{tmp_path}: 7 files are not captures: empty, link, nowhere, ..."


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert folders._magic(str(tmp_path / "pipe")) == b""


def test_a_link_to_a_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "day").mkdir()
    (tmp_path / "one").write_bytes(PCAP)
    (tmp_path / "day" / "link").symlink_to(tmp_path / "one")
    assert names(tmp_path / "day") == ["link"]


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file"):
        captures_in(str(tmp_path / "none"))


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_bytes(PCAP)

    def refused(_path: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(folders, "_magic", refused)
    assert captures_in(str(tmp_path)).left_out == f"{tmp_path}: 1 file is not a capture: secret (Permission denied)"


def test_names_that_control_a_terminal_are_printed_harmlessly(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2J\n").write_text("no capture")
    assert captures_in(str(tmp_path)).left_out == f"{tmp_path}: 1 file is not a capture: a\\x1b[2J\\x0a"


def test_little_is_read_of_a_compressed_file(tmp_path: Path) -> None:
    """Members that hold nothing, and what never comes to its first octet."""
    path = tmp_path / "many"
    path.write_bytes(gzip.compress(b"") * 100_000 + gzip.compress(PCAP))
    assert names(tmp_path) == []
    path.write_bytes(gzip.compress(b"") * 100 + gzip.compress(PCAP))
    assert names(tmp_path) == ["many"]
    # The largest block there is comes before the first octets.
    incompressible = PCAP + os.urandom(1 << 18)
    path.write_bytes(zstandard.ZstdCompressor().compress(incompressible))
    assert names(tmp_path) == ["many"]


def test_what_has_not_changed_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    growing, note = tmp_path / "growing", tmp_path / "note"
    growing.write_bytes(PCAP)
    note.write_text("no capture")
    opened: list[str] = []
    magic = folders._magic

    def counted(path: str) -> bytes:
        opened.append(os.path.basename(path))
        return magic(path)

    monkeypatch.setattr(folders, "_magic", counted)
    found = captures_in(str(tmp_path), {})
    assert sorted(opened) == ["growing", "note"]
    growing.write_bytes(PCAP * 2)
    assert captures_in(str(tmp_path), found.inspected) == found and len(opened) == 2
    note.write_bytes(PCAP)
    assert len(captures_in(str(tmp_path), found.inspected).captures) == 2 and len(opened) == 3


@pytest.mark.uncompiled
def test_the_work_grows_with_the_files_alone(tmp_path: Path) -> None:
    def work(count: int) -> int:
        folder = tmp_path / str(count)
        folder.mkdir()
        for number in range(count):
            (folder / f"{number}").write_text("no capture")
        return lines_run(lambda: captures_in(str(folder)))

    assert work(2000) < 12 * work(200)


@given(st.binary(max_size=60), st.sampled_from([b"", b"\x1f\x8b", bytes.fromhex("28b52ffd"), gzip.compress(PCAP)[:12]]))
def test_any_octets(octets: bytes, head: bytes) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "one").write_bytes(head + octets)
        found = captures_in(folder)
        assert len(found.captures) == (found.left_out is None)


def test_what_is_no_capture_changes_nothing(tmp_path: Path) -> None:
    whole = PCAPS / "siw-rping.pcap"
    shutil.copy(whole, tmp_path / "whole.dmp")
    (tmp_path / "README").write_text("read me")
    found = analyze(tmp_path)
    assert found.as_dict()["connections"] == analyze(whole).as_dict()["connections"]
    assert found.damage == [f"{tmp_path}: 1 file is not a capture: README"]
