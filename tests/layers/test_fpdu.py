"""FPDUs and their Markers: specification's figures, captures, ``framing`` as the other opinion, any octets."""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, attr-defined, comparison-overlap, index, operator, unused-ignore"

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.layers.inet import TCP
from scapy.packet import NoPayload, Padding, Raw
from scapy.utils import rdpcap, wrpcap

from scapy_mpa.errors import FramingError
from scapy_mpa.framing import Origin, encode_fpdu, marker_count, plain_length, seq_diff
from scapy_mpa.layers import FPDU, DDPUntagged, Marker, RDMAPSend, fpdu_packet
from tests.conftest import captures, truth

FIGURES = [
    # RFC 5044 figures 5 and 6, then both drafts'
    (0, 1, 1, "00000000 002a4143 00000000 00000000 00000001 00000000" + "00" * 24 + "52239983"),
    (20, 2, 1, "002a4143 00000000 00000000 00000002 00000000 00000014" + "00" * 24 + "84925898"),
    (0, 1, 0, "00000000 002a4003 00000000 00000000 00000001 00000000" + "00" * 24 + "4c86b384"),
    (20, 2, 0, "002a4003 00000000 00000000 00000002 00000000 00000014" + "00" * 24 + "a19cd103"),
]


@pytest.mark.parametrize(("marker_offset", "msn", "version", "octets"), FIGURES)
def test_figures(marker_offset: int, msn: int, version: int, octets: str) -> None:
    ddp = DDPUntagged(dv=version, rv=version, msn=msn)
    packet = FPDU(marker_offset=marker_offset) / ddp / RDMAPSend() / bytes(24)
    wire = bytes(packet)
    assert wire.hex() == octets.replace(" ", "")
    dissected = FPDU(wire, marker_offset=marker_offset)
    assert dissected[DDPUntagged].msn == msn and dissected.crc_good
    assert dissected.markers == [Marker(reserved=0, fpduptr=marker_offset)]
    assert bytes(dissected) == wire


def test_figure_4() -> None:
    wire = bytes(FPDU(marker_offset=12) / bytes(range(16)))
    assert wire[:24].hex() == "0010 00010203040506070809 0000000c 0a0b0c0d0e0f 0000".replace(" ", "")


@pytest.mark.parametrize("path", captures(with_truth=True), ids=lambda path: path.stem)
def test_every_fpdu_of_every_capture(path: Path) -> None:
    segments: dict[tuple[int, int], list[tuple[int, bytes]]] = defaultdict(list)
    for packet in rdpcap(str(path)):
        if TCP in packet and packet[TCP].payload:
            tcp = packet[TCP]
            segments[tcp.sport, tcp.dport].append((tcp.seq, bytes(tcp.payload)))
    halves: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for record in truth(path):
        halves[record["connection"], record["direction"]].append(record)
    assert halves or path.stem == "siw-rejected"
    for records in halves.values():
        start, last = records[0]["seq"], records[-1]
        sport, dport = (int(last[end].rpartition(":")[2]) for end in ("sender", "receiver"))
        stream = bytearray((last["seq"] - start) % 2**32 + last["wire_length"])
        for seq, load in segments[sport, dport]:
            at = seq_diff(seq, start)
            if 0 <= at < len(stream):
                stream[at : at + len(load)] = load
        with_markers = any(record["markers"] for record in records)
        for record in records:
            at = (record["seq"] - start) % 2**32
            octets = bytes(stream[at : at + record["wire_length"]])
            fpdu = fpdu_packet(octets, -at % 512 if with_markers else None, record["crc"] != "unchecked")
            assert bytes(fpdu) == octets
            assert fpdu.ulpdu_length == record["ulpdu_length"]
            assert len(fpdu.markers or []) == record["markers"]
            assert fpdu.crc_good is {"good": True, "bad": False, "unchecked": None}[record["crc"]]
            assert not fpdu.haslayer(Padding)
            assert fpdu.payload.opcode_name() == record["opcode"]
            for layer in fpdu.iterpayloads():
                layer.clear_cache()
            assert bytes(fpdu) == octets
            # One stack leaves PAD dirty, another counts FPDUPTR as the drafts do.
            if fpdu.crc_good and not any(fpdu.pad) and path.stem != "markers-draft-origin":
                for name in ("ulpdu_length", "pad", "crc", "markers"):
                    delattr(fpdu, name)
                assert bytes(fpdu) == octets


MARKER_OFFSETS = st.one_of(st.none(), st.integers(0, 127).map(lambda word: 4 * word), st.integers(0, 508))
ORIGINS = st.sampled_from(["header", "first-octet"])


@given(st.binary(max_size=1600), MARKER_OFFSETS, ORIGINS, st.booleans())
def test_agrees_with_framing(ulpdu: bytes, marker_offset: int | None, origin: Origin, crc: bool) -> None:
    packet = FPDU(marker_offset=marker_offset, origin=origin, crc_in_use=crc) / Raw(ulpdu)
    wire = bytes(packet)
    offset = None if marker_offset is None else -marker_offset % 512
    assert wire == encode_fpdu(ulpdu, offset, origin=origin, crc=crc)
    dissected = fpdu_packet(wire, marker_offset, crc, origin)
    assert bytes(dissected) == bytes(pickle.loads(pickle.dumps(dissected))) == bytes(dissected.copy()) == wire
    assert bytes(dissected.payload) == ulpdu
    assert dissected.crc_good is (True if crc else None)
    for name in ("ulpdu_length", "pad", "crc", "markers"):
        delattr(dissected, name)
    assert bytes(dissected) == wire
    if offset is not None:
        assert len(FPDU(wire, marker_offset=marker_offset).markers) == marker_count(offset, plain_length(len(ulpdu)))


@given(st.binary(min_size=1, max_size=700), st.one_of(st.none(), st.integers(-1, 600)), st.booleans(), st.data())
def test_any_octets_are_dissected_and_kept(
    octets: bytes, marker_offset: int | None, short: bool, data: st.DataObject
) -> None:
    if short:  # a length that lies within the octets, so that they are an FPDU and more
        octets = data.draw(st.integers(0, len(octets))).to_bytes(2, "big") + octets
    before, conf.debug_dissector = conf.debug_dissector, True
    try:
        packet = fpdu_packet(octets, marker_offset) if len(octets) > 1 else FPDU(octets)
        assert bytes(packet) == octets
        packet.show(dump=True), packet.summary(), packet.command()
        assert packet.show2(dump=True)
        for layer in packet.iterpayloads():
            layer.clear_cache()
        assert bytes(packet) == octets
        assert bytes(packet.copy()) == bytes(pickle.loads(pickle.dumps(packet))) == octets
        Marker(octets)
    finally:
        conf.debug_dissector = before


KEPT = [
    ("ulpdu_length", {"ulpdu_length": 99}, "0063 616263 000000"),
    ("pad", {"pad": b"\1\2\3"}, "0003 616263 010203"),
    ("no pad", {"pad": b""}, "0003 616263"),
    ("no length", {"ulpdu_length": 0}, "0000 616263 000000"),
]


@pytest.mark.parametrize(("_", "fields", "covered"), KEPT, ids=[case[0] for case in KEPT])
def test_what_is_given_is_kept_and_covered_by_the_crc(_: str, fields: dict[str, Any], covered: str) -> None:
    wire = bytes(FPDU(**fields) / b"abc")
    assert wire[:-4].hex() == covered.replace(" ", "")
    assert FPDU(crc=int.from_bytes(wire[-4:], "little"), **fields).copy() / b"abc"
    assert (FPDU(crc=int.from_bytes(wire[-4:], "little"), **fields) / b"abc").crc_good


def test_crc_is_kept() -> None:
    good = bytes(FPDU() / b"ab")
    for crc, field in (
        (0, "00000000"),
        (1, "01000000"),
        (b"\1\2", "0102"),
        (b"", ""),
        (bytearray(b"abcd"), "61626364"),
    ):
        packet = FPDU(crc=crc) / b"ab"
        assert bytes(packet).hex() == good[:-4].hex() + field
        # Zeros may mean that CRCs are not in use: the summary says what crc_good does.
        assert packet.crc_good is (None if crc == 0 else False)
        assert ("CRC bad" in packet.summary()) is (packet.crc_good is False)
    assert (FPDU(crc=0, crc_in_use=True) / b"ab").crc_good is False
    assert "CRC bad" in (FPDU(crc=1) / b"ab").summary()
    assert "CRC bad" not in (FPDU(crc=0) / b"ab").summary()
    assert "CRC bad" in (FPDU(crc=0, crc_in_use=True) / b"ab").summary()
    assert (FPDU(crc_in_use=False) / b"ab").crc_good is None
    assert bytes(FPDU(crc_in_use=False) / b"ab")[-4:] == bytes(4)
    assert "crc       = 0x00000001" in FPDU(crc=1).show(dump=True)


def test_given_markers_are_kept_and_covered() -> None:
    markers = [Marker(reserved=5), Marker(fpduptr=7), b"\1\2\3\4", Marker()]
    wire = bytes(FPDU(marker_offset=0, markers=markers) / bytes(1600))
    assert [wire[at : at + 4].hex() for at in (0, 512, 1024, 1536)] == ["00050000", "00000007", "01020304", "000005fc"]
    packet = FPDU(wire, marker_offset=0)
    assert packet.crc_good and bytes(packet) == wire
    packet.markers[1].fpduptr = None
    assert bytes(packet)[512:516].hex() == "000001fc" and not packet.crc_good
    assert bytes(FPDU(marker_offset=0, origin="first-octet") / bytes(600))[512:516].hex() == "00000200"


@pytest.mark.parametrize(
    ("fpduptr", "is_good"), [(None, True), (20, True), (23, True), (24, False), (0, False), (16, False)]
)
def test_a_marker_that_is_wrong_is_shown(fpduptr: int | None, is_good: bool) -> None:
    built = FPDU(marker_offset=20, markers=[Marker(reserved=7, fpduptr=fpduptr)]) / DDPUntagged() / RDMAPSend()
    for packet in (built, FPDU(bytes(built), marker_offset=20)):
        assert packet.markers_good is is_good and packet.crc_good
        assert ("1 Marker (1 wrong)" in packet.summary()) is not is_good
        assert ("Marker, wrong: FPDUPTR 20 would be right" in packet.show(dump=True)) is not is_good
        assert packet.markers[0].name == "Marker"
    assert (FPDU() / b"x").markers_good is None
    assert (FPDU(marker_offset=20) / Raw(bytes(600))).markers_good is True


def test_the_second_marker_of_two_counts_from_the_origin() -> None:
    wire = bytes(FPDU(marker_offset=0, origin="first-octet") / Raw(bytes(600)))
    assert FPDU(wire, marker_offset=0, origin="first-octet").markers_good
    packet = FPDU(wire, marker_offset=0)
    assert packet.markers_good is False and "2 Markers (1 wrong)" in packet.summary()
    assert str(packet.show(dump=True)).count("would be right") == 1


def test_markers_that_do_not_fit_are_said_not_filled_in() -> None:
    packet = FPDU(bytes(FPDU(marker_offset=0) / Raw(bytes(400))), marker_offset=0)
    packet[Raw].load += bytes(400)
    assert "1 Marker for 2 positions" in packet.summary() and packet.show(dump=True) and repr(packet)
    del packet.markers, packet.ulpdu_length, packet.crc
    assert bytes(packet) == bytes(FPDU(marker_offset=0) / Raw(bytes(800)))


def test_the_crc_that_would_be_right_is_shown() -> None:
    packet = FPDU(crc=1) / b"abc"
    right = int.from_bytes(bytes(FPDU() / b"abc")[-4:], "little")
    assert f"0x00000001 (bad: {right:#010x} would be right)" in packet.show(dump=True)
    assert "would be right" not in (FPDU(crc=right) / b"abc").show(dump=True)
    assert "would be right" not in FPDU(bytes(FPDU(crc_in_use=False) / b"abc")).show(dump=True)


@given(st.binary(max_size=1600), st.integers(0, 127).map(lambda word: 4 * word), ORIGINS, st.booleans())
def test_octets_with_markers_say_which_marker_offset_was_left_out(
    ulpdu: bytes, marker_offset: int, origin: Origin, crc: bool
) -> None:
    wire = bytes(FPDU(marker_offset=marker_offset, origin=origin, crc_in_use=crc) / Raw(ulpdu))
    packet = FPDU(wire)
    has_marker = bool(FPDU(wire, marker_offset=marker_offset).markers)
    found = packet.likely_marker_offset()
    if crc:
        assert found == (marker_offset if has_marker else None)
    # Without CRCs, zero octets may be a Marker at more than one place.
    assert found is None or FPDU(wire, marker_offset=found).markers_good or origin == "first-octet"
    assert (f"marker_offset={found}" in packet.summary()) is (found is not None)
    assert (f"fit marker_offset={found}" in packet.show(dump=True)) is (found is not None)
    assert FPDU(wire, marker_offset=marker_offset).likely_marker_offset() is None


def test_no_marker_offset_is_named_for_octets_without_markers() -> None:
    # MSN 12 stands at octet 12, as FPDUPTR of a Marker there would.
    for crc in (True, False):
        wire = bytes(FPDU(crc_in_use=crc) / DDPUntagged(msn=12) / RDMAPSend() / bytes(40))
        assert FPDU(wire).likely_marker_offset() is None
    damaged = bytearray(bytes(FPDU() / DDPUntagged(msn=12) / RDMAPSend() / bytes(40)))
    damaged[30] ^= 1
    assert FPDU(bytes(damaged)).likely_marker_offset() is None and "CRC bad" in FPDU(bytes(damaged)).summary()


def test_what_follows_is_padding() -> None:
    one, two = bytes(FPDU() / b"one"), bytes(FPDU() / b"two")
    packet = FPDU(one + two)
    assert packet[Padding].load == two and bytes(packet) == one + two
    assert FPDU.tcp_reassemble(one[:-1], {}, {}) is None
    again = FPDU.tcp_reassemble(one + two, {}, {})
    assert again is not None and again[Padding].load == two


def test_fpdus_in_a_row() -> None:
    row = Raw(b"")
    for n in range(40):
        row = row / FPDU() / DDPUntagged(msn=n) / RDMAPSend() / bytes(n)
    octets = b"".join(bytes(FPDU() / DDPUntagged(msn=n) / RDMAPSend() / bytes(n)) for n in range(40))
    assert bytes(row) == bytes(row.copy()) == octets
    first = FPDU(octets)
    assert first.crc_good and bytes(first) == octets
    second = first.copy()
    second[Padding].underlayer.remove_payload()
    second = second / FPDU(octets[len(bytes(second)) :])
    assert bytes(second) == octets and second.crc_good
    second[FPDU:2][DDPUntagged].msn = 99
    assert len(bytes(second)) == len(octets) and second.crc_good and not second[FPDU:2].crc_good
    assert bytes(FPDU() / b"a" / FPDU() / b"b") == bytes(FPDU() / b"a") + bytes(FPDU() / b"b")


def test_cut() -> None:
    whole = bytes(FPDU() / DDPUntagged() / RDMAPSend() / bytes(9))
    packet = FPDU(whole[:25])
    assert packet.ulpdu_length == 27 and packet[RDMAPSend].payload.load == bytes(5)
    assert packet.crc == packet.pad == b""
    assert FPDU(whole[:-2]).crc == whole[-4:-2] and bytes(FPDU(whole[:-2])) == whole[:-2]
    assert type(FPDU(b"\0")) is Raw and type(Marker(b"\0\0\0")) is Raw
    # Its offset tells which octets are Markers, though the end is missing; a Marker that is cut is not told.
    for end in range(1, len(whole)):
        packet = FPDU(whole[:end], marker_offset=20)
        assert bytes(packet) == whole[:end]
        assert len(packet.fields.get("markers", ())) == (end > 24)
        assert packet.payload.load == whole[:end] if 20 < end <= 24 or end < 2 else packet.ulpdu_length == 27
    assert isinstance(FPDU(bytes(FPDU())).payload, NoPayload)


@pytest.mark.parametrize(
    ("packet", "message"),
    [
        (FPDU() / Raw(bytes(64769)), "above the limit of 64768"),
        (FPDU(marker_offset=509), "marker_offset 509"),
        (FPDU(marker_offset=-1), "marker_offset -1"),
        (FPDU(crc=1 << 32), "32 bits"),
        (FPDU(marker_offset=0, markers=[Marker(fpduptr=65536)]), "16 bits"),
        (FPDU(marker_offset=0, markers=[Marker()]) / Raw(bytes(600)), "1 Marker for 2 positions"),
        (FPDU(marker_offset=0, markers=[Marker()] * 2) / Raw(bytes(9)), "2 Markers for 1 positions"),
        (FPDU(markers=[Marker()]), "without marker_offset"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_built_says_why(packet: FPDU, message: str) -> None:
    with pytest.raises(FramingError, match=message):
        bytes(packet)


def test_the_largest_may_be_told() -> None:
    wire = bytes(FPDU(ulpdu_length=65535, marker_offset=0) / Raw(bytes(65535)))
    assert bytes(FPDU(wire, marker_offset=0)) == wire


def test_to_a_file_and_back(tmp_path: Path) -> None:
    from scapy.layers.inet import IP
    from scapy.layers.l2 import Ether

    packets = [
        Ether() / IP() / TCP(seq=n) / FPDU(marker_offset=4 * n) / DDPUntagged() / RDMAPSend() / b"x" for n in range(3)
    ]
    wrpcap(str(tmp_path / "x.pcap"), packets)
    back = rdpcap(str(tmp_path / "x.pcap"))
    assert [bytes(packet) for packet in back] == [bytes(packet) for packet in packets]
    assert [fpdu_packet(bytes(packet[TCP].payload), 4 * n)[DDPUntagged].msn for n, packet in enumerate(back)] == [1] * 3
