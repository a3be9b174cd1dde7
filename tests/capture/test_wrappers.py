"""Headers of capture programs before a frame: ERF, PPI, PKTAP, NFLOG, pflog, IPoIB, in all their forms."""

from __future__ import annotations

import io
import struct
import subprocess
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.capture import link
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.link import LINK_TYPES
from scapy_mpa.capture.linktypes import name_of, refusal
from scapy_mpa.capture.notes import Note
from scapy_mpa.capture.pcap import MAGIC_NUMBERS
from scapy_mpa.capture.pcapng import PCAPNG_MAGIC
from scapy_mpa.capture.source import GZIP_MAGIC, ZSTD_MAGIC
from scapy_mpa.reading.analysis import analyze
from tests.capture.blocks import interface, packet, section
from tests.capture.frames import (
    LINKED,
    VARIANTS,
    capture,
    erf,
    ethernet,
    linked,
    nflog,
    pflog,
    pktap,
    ppi,
    read,
    survives,
    told,
    with_vlans,
)
from tests.capture.test_files import ethernet_frames
from tests.conftest import PCAPS, REPO
from tests.sampling import examples

FRAME, FRAME6 = ethernet(), ethernet(version=6)
EXTENSIONS = [bytes([number]) + bytes(7) for number in (3, 4, 5)]
ERF, PPI, NFLOG, PKTAP, PFLOG, IPOIB = 197, 192, 239, 258, 117, 242

#: Forms of a header besides that of the table of link types: link type and frame.
FORMS: dict[str, tuple[int, bytes]] = {
    **{f"ERF Ethernet {kind}": (ERF, erf(kind, b"\0\0" + FRAME)) for kind in (2, 11, 16, 20)},
    **{f"ERF HDLC {kind}": (ERF, erf(kind, linked(50, FRAME))) for kind in (1, 10, 15, 19)},
    **{f"ERF multichannel {kind}": (ERF, erf(kind, bytes(4) + linked(104, FRAME))) for kind in (5, 17)},
    "ERF IPv4": (ERF, erf(22, FRAME[14:])),
    "ERF IPv6": (ERF, erf(23, FRAME6[14:])),
    "ERF, an extension header": (ERF, erf(2, b"\0\0" + FRAME, *EXTENSIONS[:1])),
    "ERF, extension headers": (ERF, erf(2, b"\0\0" + FRAME, *EXTENSIONS)),
    "ERF, padding": (ERF, erf(2, b"\0\0" + FRAME + bytes(8))),
    "PPI, fields": (PPI, ppi(1, FRAME, struct.pack("<HH", 5, 8) + bytes(8))),
    "PPI, raw IP": (PPI, ppi(12, FRAME6[14:])),
    "PPI, Linux cooked": (PPI, ppi(113, linked(113, FRAME))),
    "PPI in PPI": (PPI, ppi(PPI, ppi(1, FRAME))),
    "PPI, NFLOG": (PPI, ppi(NFLOG, nflog(FRAME))),
    "PKTAP, BSD loopback": (PKTAP, pktap(0, linked(0, FRAME6))),
    "PKTAP, a longer header": (PKTAP, pktap(1, FRAME, more=bytes(48))),
    "NFLOG, big-endian": (NFLOG, nflog(FRAME, ">")),
    "NFLOG, big-endian, IPv6": (NFLOG, nflog(FRAME6, ">")),
    "NFLOG, no protocol": (NFLOG, nflog(FRAME, protocol=0)),
    "NFLOG, a bridge": (NFLOG, nflog(FRAME6, family=7)),
    "NFLOG, a bridge, VLAN": (NFLOG, nflog(with_vlans(FRAME, (0x8100, 7)), family=7)),
    "NFLOG, the packet alone": (NFLOG, b"\2\0\0\0" + struct.pack("<HH", 4 + len(FRAME) - 14, 9) + FRAME[14:]),
    **{f"pflog of {length} octets": (PFLOG, pflog(FRAME, length)) for length in (45, 48, 61, 64, 69, 100)},
    "IPoIB, the encapsulation header alone": (IPOIB, FRAME[12:14] + b"\0\0" + FRAME[14:]),
    "IPoIB, a Global Routing Header": (IPOIB, b"\x60" + bytes(39) + FRAME6[12:14] + b"\0\0" + FRAME6[14:]),
    "MPLS, two labels": (219, struct.pack("!II", 16 << 12 | 64, 17 << 12 | 1 << 8 | 64) + FRAME[14:]),
    "MPLS, Ethernet": (219, struct.pack("!I", 16 << 12 | 1 << 8 | 64) + FRAME),
    "enc, big-endian": (109, struct.pack("!III", 24, 0x1000, 0x800) + FRAME6[14:]),
}

#: Frames in which there is nothing to read.
NOTHING: dict[str, tuple[int, bytes]] = {
    "ERF, another type": (ERF, erf(3, b"\0\0" + FRAME)),
    "ERF, extension headers without end": (ERF, erf(2, b"", *EXTENSIONS)[:16] + b"\x83" * 800),
    "PPI, no length": (PPI, struct.pack("<BBHI", 0, 0, 0, 1) + FRAME),
    "PPI, longer than the frame": (PPI, struct.pack("<BBHI", 0, 0, 0xFFFF, 1) + FRAME),
    "PKTAP, no length": (PKTAP, struct.pack("<3I", 0, 1, 1) + bytes(96) + FRAME),
    "PKTAP, longer than the frame": (PKTAP, struct.pack("<3I", 0xFFFFFFFF, 1, 1) + bytes(96) + FRAME),
    "PKTAP, no packet": (PKTAP, pktap(1, FRAME, what=0)),
    "pflog, too short": (PFLOG, pflog(FRAME, 44)),
    "NFLOG, an attribute of no length": (NFLOG, b"\2\0\0\0" + struct.pack("<HH", 0, 1) * 100 + FRAME[14:]),
    "NFLOG, a long attribute": (NFLOG, b"\2\0\0\0" + struct.pack("<HH", 0xFFFF, 1) + FRAME[14:]),
    "NFLOG, ARP": (NFLOG, nflog(FRAME, family=7, protocol=0x0806)),
    "IPoIB, ARP": (IPOIB, bytes(40) + b"\x08\x06\0\0" + FRAME[14:]),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    """Each in a pcap and in a pcapng file; cut anywhere, there are the octets that are left."""
    link_type, frame = FORMS[form]
    octets = capture([frame], link_type=link_type)
    (seg,) = read(octets)
    assert (told(seg)["payload"], told(seg)["seq"], told(seg)["length"]) == (b"payload", 100, 7)
    assert [told(one)["payload"] for one in read(section() + interface(link_type) + packet(frame))] == [b"payload"]
    begin = frame.rindex(b"payload")
    for cut in range(len(frame)):
        found = read(capture([frame[:cut]], link_type=link_type, wire_lengths=[len(frame)]))
        payloads = [told(one)["payload"] for one in found]
        assert payloads == ([b"payload"[: max(0, cut - begin)]] if cut >= begin else [])


@pytest.mark.parametrize("form", NOTHING)
def test_nothing_to_read(form: str) -> None:
    """A frame all the same."""
    link_type, frame = NOTHING[form]
    segments = read(capture([frame, linked(link_type, FRAME), frame], link_type=link_type))
    assert [seg[0] for seg in segments] == [2]


def test_there_is_a_frame_of_every_link_type_that_is_read() -> None:
    assert LINKED.keys() == LINK_TYPES
    assert all(name_of(link_type) for link_type in LINK_TYPES)


def rows(heading: str) -> list[list[str]]:
    """The cells of the table in docs/captures.md whose first column has this heading."""
    lines = iter((REPO / "docs" / "captures.md").read_text().splitlines())
    next(line for line in lines if line.startswith(f"| {heading} |"))
    next(lines)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in takewhile(lambda line: "|" in line, lines)]


def test_the_documentation_lists_every_link_type_and_its_name() -> None:
    listed = {int(number): row[1].split(", ") for row in rows("link type") for number in row[0].split(", ")}
    assert listed.keys() == LINK_TYPES
    assert all(name_of(number) in names for number, names in listed.items())


def test_the_documentation_lists_every_file_format() -> None:
    listed = {bytes.fromhex(row[1].strip("`")) for row in rows("file format")}
    assert listed == {GZIP_MAGIC, ZSTD_MAGIC, PCAPNG_MAGIC} | {
        m for m, kind in MAGIC_NUMBERS.items() if kind.order == ">"
    }
    assert {magic[::-1] for magic in MAGIC_NUMBERS} == MAGIC_NUMBERS.keys()
    made = {struct.unpack(">I", capture([], order=">", variant=variant)[:4])[0] for variant in ("", *VARIANTS)}
    assert made | {0xA1B23C4D} == {struct.unpack(">I", magic)[0] for magic in listed & MAGIC_NUMBERS.keys()}


def nested(depth: int) -> bytes:
    frame = FRAME
    for number in range(depth):
        frame = ppi(PPI if number else 1, frame)
    return frame


def test_headers_in_one_another_have_an_end() -> None:
    most = link._MOST_WRAPPERS
    assert len(read(capture([nested(most)], link_type=PPI))) == 1
    assert read(capture([nested(most + 1), nested(5000)], link_type=PPI)) == []


def test_an_inner_link_type_that_is_not_read_is_noted() -> None:
    frames = [ppi(105, bytes(60)), linked(PPI, FRAME), ppi(105, bytes(60)), ppi(4711, bytes(60))]
    octets = capture(frames, link_type=PPI)
    expected = [Note("link-type", 1, 4, 1_000_000_000, 3, refusal(105))]
    for one in (octets, section() + interface(PPI, tsresol=9) + b"".join(packet(frame, 10**9) for frame in frames)):
        with Captures(io.BytesIO(one)) as opened:
            assert [seg[0] for batch in opened.batches() for seg in batch] == [2]
            assert opened.notes == expected
    # In a merge too, by its numbers.
    (found,) = analyze([io.BytesIO(octets), io.BytesIO(capture([FRAME]))]).findings
    assert (found.rule.id, found.count, found.frame) == ("link-type", 3, 1)


@settings(max_examples=examples(300))
@given(st.sampled_from(sorted(FORMS)), st.lists(st.tuples(st.integers(0, 130), st.integers(0, 255)), max_size=4))
def test_any_values_in_the_headers(form: str, values: list[tuple[int, int]]) -> None:
    link_type, frame = FORMS[form]
    made = bytearray(frame)
    for at, value in values:
        made[at % len(made)] = value
    survives(capture([bytes(made)] * 2, link_type=link_type))


#: What Wireshark 4.0 does not dissect: a frame of netfilter's bridge, IPoIB without an address, MPLS and Cisco's HDLC
#: with a direction as link types.
_NOT_BY_WIRESHARK = {"NFLOG, a bridge", "NFLOG, a bridge, VLAN", "IPoIB, the encapsulation header alone"}
_NO_LINK_TYPES_OF_WIRESHARK = {205, 219}
JUDGED = {
    **{form: made for form, made in FORMS.items() if form not in _NOT_BY_WIRESHARK},
    **{str(link_type): (link_type, linked(link_type, FRAME)) for link_type in LINKED},
}


@pytest.mark.parametrize("form", [form for form in JUDGED if JUDGED[form][0] not in _NO_LINK_TYPES_OF_WIRESHARK])
def test_wireshark_reads_the_same(form: str, tmp_path: Path) -> None:
    link_type, frame = JUDGED[form]
    if link_type == 229:
        frame = linked(229, FRAME6)
    path = tmp_path / "one.pcap"
    # Wireshark takes the byte order of the file for that of the host.
    path.write_bytes(capture([frame], link_type=link_type, order=">" if "big-endian" in form else "<"))
    command = ["tshark", "-r", str(path), "-T", "fields", "-e", "tcp.seq_raw", "-e", "tcp.len"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.split() == ["100", "7"]


@pytest.mark.parametrize("link_type", sorted(LINKED.keys() - {228, 229}))
def test_a_capture_says_the_same_under_every_link_type(link_type: int) -> None:
    frames = ethernet_frames(PCAPS / "siw-crc-rping.pcap")
    plain = capture([(time, frame) for time, frame, _ in frames])
    other = capture([(time, linked(link_type, frame)) for time, frame, _ in frames], link_type=link_type)
    found, alone = (analyze(io.BytesIO(octets)) for octets in (other, plain))
    assert found.as_dict()["connections"] == alone.as_dict()["connections"]
