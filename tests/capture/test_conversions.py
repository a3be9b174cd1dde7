"""However a capture is stored, it says the same: formats, compression, link layers, tunnels, rotated files.

All through ``scapy_mpa.analyze``, as its callers have it; the records are held against the independent truth besides.
"""

from __future__ import annotations

import io
import itertools
import json
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import analyze
from tests.capture.convert import COMPRESSED, FORMATS, LINKS, recorded, rotated
from tests.conftest import PCAPS, captures, truth, truth_path

SHIPPED = sorted(PCAPS.glob("*.pcap"))
#: The larger ones take one way, each another.
MORE = [path for path in captures() if path.parent != PCAPS]
PLAIN = FORMATS["pcap, nanoseconds, big-endian"]


def ids(value: object) -> str:
    return value.stem if isinstance(value, Path) else str(value)


def said(*files: bytes | Path) -> dict[str, Any]:
    """All that is said of a capture, except what its files are called."""
    report = analyze([io.BytesIO(file) if isinstance(file, bytes) else file for file in files])
    assert report.damage == []
    told = report.as_dict()
    del told["captures"]
    told.pop("joined", None)
    for one in (*told["connections"], *told["findings"], *(f for c in told["connections"] for f in c["findings"])):
        for name in ("capture", "capture_frame"):
            one.pop(name, None)
    halves = [half for connection in report.connections for half in (connection.initiator, connection.responder)]
    told["fpdus"] = [record.as_dict() for half in halves for record in half.fpdus]
    return told


@lru_cache(maxsize=4)
def _said_of(path: Path) -> str:
    told = said(path)
    if truth_path(path).exists():
        kept = ("seq", "header_seq", "frames", "placed_frame", "delivered_frame", "crc", "opcode", "markers")
        assert [[row[key] for key in kept] for row in told["fpdus"]] == [
            [row[key] for key in kept] for row in truth(path)
        ]
    return json.dumps(told)


def check(path: Path, *files: bytes) -> None:
    assert said(*files) == json.loads(_said_of(path))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_format(path: Path, kind: str) -> None:
    check(path, FORMATS[kind](recorded(path)))


@pytest.mark.parametrize("how", COMPRESSED)
@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_compressed(path: Path, how: str) -> None:
    check(path, COMPRESSED[how](path.read_bytes()))


@pytest.mark.parametrize("link", [None, *LINKS])
@pytest.mark.parametrize("path", SHIPPED, ids=ids)
def test_linked_anew_in_ten_rotated_files_of_every_format(path: Path, link: str | None) -> None:
    """Each file another format and compression than the one before it; ``test_files`` and ``test_tunnel`` have one
    file."""
    source = recorded(path) if link is None else LINKS[link](path)
    formats = itertools.cycle(FORMATS.values())
    how = itertools.cycle([bytes, *COMPRESSED.values()])
    files = [next(how)(next(formats)(part)) for part in rotated(source)]
    assert min(2, len(source.records)) <= len(files) <= 10
    check(path, *files)


@pytest.mark.parametrize(
    ("path", "link", "kind"),
    [
        (path, link, kind)
        for path, link, kind in zip(MORE, itertools.cycle(LINKS), itertools.cycle(FORMATS), strict=False)
    ],
    ids=ids,
)
def test_one_way_for_each_of_the_others(path: Path, link: str, kind: str) -> None:
    """Under another link layer, in another format, in rotated files: all at once."""
    check(path, *(COMPRESSED["gzip"](FORMATS[kind](part)) for part in rotated(LINKS[link](path))))


# --- that the files are what they are said to be ---


def tshark(path: Path, *fields: str) -> list[str]:
    command = ["tshark", "-n", "-r", path, "-Y", "tcp", "-T", "fields", *itertools.chain(*(("-e", f) for f in fields))]
    return subprocess.run(
        [str(part) for part in command], check=True, capture_output=True, text=True
    ).stdout.splitlines()


@lru_cache(maxsize=8)
def segments(path: Path) -> list[str]:
    """Without their numbers: to tshark some blocks that hold no packet are frames."""
    fields = "tcp.srcport", "tcp.seq_raw", "tcp.ack_raw", "tcp.len", "tcp.flags", "frame.time_epoch"
    return [line.rstrip("0") for line in tshark(path, *fields)]


@pytest.mark.parametrize("name", ["siw-snaplen128", "siw-rping-ipv6", "siw-sll2", "siw-vlan"])
@pytest.mark.parametrize("link", LINKS)
def test_tshark_finds_the_same_segments_under_other_links(name: str, link: str, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.write_bytes(PLAIN(LINKS[link](PCAPS / f"{name}.pcap")))
    assert segments(made) == segments(PCAPS / f"{name}.pcap")
    (protocols,) = {line.split(":tcp")[0] for line in tshark(made, "frame.protocols")}
    inner = "ipv6" if "ipv6" in name else "ip"
    below = {
        "vlan": "eth:ethertype:vlan:ethertype:", "qinq": "eth:ethertype:ieee8021ad:ethertype:vlan:ethertype:",
        "sll": "sll:ethertype:", "sll2": "sll:ethertype:", "raw": "raw:",
        "vxlan": "eth:ethertype:ip:udp:vxlan:eth:ethertype:", "gre": "eth:ethertype:ip:gre:",
    }  # fmt: skip
    assert protocols == below[link] + inner


@pytest.mark.parametrize("name", ["siw-snaplen128", "markers-packed"])
@pytest.mark.parametrize("kind", FORMATS)
def test_tshark_reads_every_format(name: str, kind: str, tmp_path: Path) -> None:
    path = PCAPS / f"{name}.pcap"
    for how, octets in {"": bytes, **COMPRESSED}.items():
        made = tmp_path / f"made{how}"
        made.write_bytes(octets(FORMATS[kind](recorded(path))))
        assert segments(made) == segments(path)


def test_what_editcap_and_mergecap_make(tmp_path: Path) -> None:
    """Tools of Wireshark in place of ours: pcapng, rotated by time, merged again."""
    path = PCAPS / "markers-reordered.pcap"
    pcapng = tmp_path / "capture.pcapng"
    subprocess.run(["editcap", "-F", "pcapng", path, pcapng], check=True)
    check(path, pcapng.read_bytes())
    merged = tmp_path / "merged.pcapng"
    subprocess.run(["editcap", "-c", "100", path, tmp_path / "part.pcap"], check=True)
    parts = sorted(tmp_path.glob("part_*"))
    check(path, *(part.read_bytes() for part in parts))
    subprocess.run(["mergecap", "-w", merged, *parts], check=True)
    check(path, merged.read_bytes())
