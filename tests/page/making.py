"""Pages for tests, and captures that others made to hurt whoever reads them."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import count
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from scapy_mpa.cli import cli
from scapy_mpa.craft.packets import Endpoint
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.talk import between, frames
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.startup import startup_frame

#: What a page must show as text: it would run, end the style sheet or the attribute that it stands in.
HURTING = (b"<script>bad=1</script>", b'</style><b id="bad">', b'"onload="bad=1" x="', b"'><img src=x onerror=bad=1>")


def run(*words: object) -> Any:
    return CliRunner().invoke(cli, [str(word) for word in words], standalone_mode=False)


def page(path: Path, out: Path, *words: object) -> str:
    """The page of a capture, by the command."""
    result = run("report", path, "-o", out, *words)
    assert result.exception is None, result.exception
    return out.read_text(encoding="utf-8")


def talk(number: int, said: bytes, clock: Iterator[int]) -> Iterator[TcpPacket]:
    """A connection with CRC and no Markers: what is said is Private Data, and in three Sends, one with a wrong CRC."""
    ends = Endpoint("10.0.0.1", 40000 + number, b"\x02\0\0\0\0\1"), Endpoint("10.0.0.2", 7471, b"\x02\0\0\0\0\2")
    one = between(*ends, clock, isns=(5, 9))
    yield from one.open()
    yield from one.send("client", startup_frame("request", m=False, c=True, private_data=said).encode())
    yield from one.send("server", startup_frame("reply", m=False, c=True, private_data=said).encode())
    stream = HalfStream(Dialect(False, True))
    for msn in range(1, 4):
        octets, _ = stream.lay([send(msn, said + bytes(1 + (-len(said)) % 4))])
        yield from one.send("client", octets if msn != 2 else octets[:-4] + b"oops")
    yield from one.acknowledge("server")
    yield from one.close("client")


def write_talks(path: Path, said: list[bytes]) -> Path:
    """A capture of as many connections as things are said."""
    clock = count(10**18, 7000)
    with path.open("wb") as file:
        writer = PcapWriter(file)
        for number, one in enumerate(said):
            writer.write(frames(talk(number, one, clock)))
    return path


def hurting(folder: Path) -> Path:
    """A capture whose Private Data, payload and name would run if they were taken for HTML."""
    deep = folder / "<script>bad=1<" / 'script>"onload="bad=1'
    deep.mkdir(parents=True)
    return write_talks(deep / "'><style>*{display:none}<.pcap", [*HURTING])


class Parsed(HTMLParser):
    """The parts of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self._skipped = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        self._skipped += tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._skipped -= tag in ("script", "style")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def of(self, tag: str, **attributes: str) -> list[dict[str, str]]:
        """The attributes of the tags of a name that have these."""
        return [there for name, there in self.tags if name == tag and attributes.items() <= there.items()]
