"""ICMP messages about the path MTU: read wherever a TCP segment is, and only as what they are."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scapy_mpa.capture.extract import conversation
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.craft.icmp import too_big
from scapy_mpa.values.pathmtu import PathMTUMessage, path_mtu_message
from scapy_mpa.values.segment import PATH_MTU
from tests.capture.frames import capture, ethernet, linked, read, with_vlans
from tests.capture.tunnels import TUNNELS, in_fragments, tunnelled
from tests.sampling import examples

ROUTERS = {4: "192.0.2.1", 6: "2001:db8::1"}
#: Octets of a frame before its ICMP message, and of the IP header that the message quotes.
ICMP_AT, QUOTED_IP = {4: 34, 6: 54}, {4: 20, 6: 40}
versions = pytest.mark.parametrize("version", [4, 6])


def message(version: int, *, mtu: int = 1400, payload: int = 1448, seq: int = 4711, quoted: int = 8) -> bytes:
    """A frame with a message about a segment of A."""
    return too_big(ethernet(bytes(payload), version=version, seq=seq), mtu, ROUTERS[version], quoted=quoted)


def of(version: int, **values: object) -> PathMTUMessage:
    """Return what such a message says."""
    size = 1448 + 20 + QUOTED_IP[version]
    return PathMTUMessage(1, 1_000_000_000, 4711, 1400, size, ROUTERS[version])._replace(**values)  # type: ignore[arg-type]


def messages(*frames: bytes, link_type: int = 1) -> list[PathMTUMessage]:
    segments = read(capture(frames, link_type=link_type))
    assert all(seg.flags == PATH_MTU and seg.length == 0 for seg in segments)
    return [path_mtu_message(seg) for seg in segments]


@versions
@pytest.mark.parametrize("link_type", [0, 1, 9, 12, 50, 51, 101, 108, 113, 276])
def test_below_every_link_layer(version: int, link_type: int) -> None:
    assert messages(linked(link_type, message(version)), link_type=link_type) == [of(version)]


@versions
@pytest.mark.parametrize("tags", [[(0x8100, 7)], [(0x88A8, 7), (0x8100, 8)]])
def test_below_vlan_tags(version: int, tags: list[tuple[int, int]]) -> None:
    assert messages(with_vlans(message(version), *tags)) == [of(version)]
    tagged = with_vlans(ethernet(bytes(1448), version=version, seq=4711), (0x8100, 7))
    assert messages(too_big(tagged, 1400, ROUTERS[version])) == [of(version)]


@versions
@pytest.mark.parametrize("name", TUNNELS)
def test_in_tunnels(version: int, name: str) -> None:
    assert messages(tunnelled(name, message(version))) == [of(version)]


@versions
def test_it_has_the_key_of_what_it_quotes_and_its_place_among_segments(version: int) -> None:
    frame = ethernet(bytes(1448), version=version, seq=4711)
    segments = read(capture([frame, message(version), frame]))
    assert [seg.frame for seg in segments] == [1, 2, 3]
    assert {seg.key for seg in segments} == {segments[0].key}
    assert [seg.frame for seg in read(capture([frame]), capture([message(version)]))] == [1, 2]


@versions
@pytest.mark.parametrize("quoted", [8, 9, 28, 500])
def test_quotes_of_any_length(version: int, quoted: int) -> None:
    assert messages(message(version, quoted=quoted)) == [of(version)]


@versions
def test_cut_anywhere(version: int) -> None:
    """What the capture kept of it is read if it has the sequence number."""
    frame = message(version, quoted=60)
    needed = ICMP_AT[version] + 8 + QUOTED_IP[version] + 8
    for kept in range(len(frame)):
        segments = read(capture([frame[:kept]], wire_lengths=[len(frame)]))
        assert [path_mtu_message(seg) for seg in segments] == [of(version)] * (kept >= needed)


@versions
def test_quotes_cut_by_their_sender(version: int) -> None:
    for quoted in range(8):
        assert messages(message(version, quoted=quoted)) == []


@versions
@pytest.mark.parametrize(("at", "octet"), [(0, 11), (0, 1), (0, 8), (1, 1), (1, 3)])
def test_other_messages(version: int, at: int, octet: int) -> None:
    frame = bytearray(message(version))
    frame[ICMP_AT[version] + at] = octet
    assert messages(bytes(frame)) == []


@versions
def test_about_other_protocols_and_to_others(version: int) -> None:
    quote = ICMP_AT[version] + 8
    for at in (quote + {4: 9, 6: 6}[version], quote, quote + {4: 12, 6: 8}[version]):
        frame = bytearray(message(version))
        frame[at] ^= 0x17
        assert messages(bytes(frame)) == []


def test_about_another_fragment_than_the_first() -> None:
    frame = bytearray(message(4))
    struct.pack_into("!H", frame, ICMP_AT[4] + 8 + 6, 0x2001)
    assert messages(bytes(frame)) == []


@versions
def test_in_fragments_it_is_not_read(version: int) -> None:
    assert messages(*in_fragments(message(version, quoted=60), 40, 1)) == []


@versions
def test_a_wrong_checksum_is_told(version: int) -> None:
    frame = bytearray(message(version))
    frame[ICMP_AT[version] + 2] ^= 0xFF
    assert messages(bytes(frame)) == [of(version, unfit="its ICMP checksum is wrong")]
    frame[ICMP_AT[version] + 2 : ICMP_AT[version] + 4] = bytes(2)
    assert messages(bytes(frame)) == [of(version)]


@versions
@pytest.mark.parametrize("mtu", [0, 1, 67, 1280, 65535])
def test_any_mtu(version: int, mtu: int) -> None:
    assert messages(message(version, mtu=mtu)) == [of(version, mtu=mtu)]


@pytest.mark.parametrize("options", [1, 10])
def test_options_of_the_ip_header_quoted(options: int) -> None:
    octets = bytearray(message(4))
    quote = ICMP_AT[4] + 8
    octets[quote] = 0x45 + options
    octets[quote + 20 : quote + 20] = bytes(4 * options)
    struct.pack_into("!H", octets, 16, len(octets) - 14)
    octets[ICMP_AT[4] + 2 : ICMP_AT[4] + 4] = bytes(2)
    assert messages(bytes(octets)) == [of(4)]


@settings(max_examples=examples(300))
@given(st.sampled_from([4, 6]), st.data())
def test_any_octets(version: int, data: st.DataObject) -> None:
    frame = bytearray(message(version, quoted=data.draw(st.integers(0, 40))))
    for _ in range(data.draw(st.integers(0, 4))):
        frame[data.draw(st.integers(14, len(frame) - 1))] = data.draw(st.integers(0, 255))
    kept = data.draw(st.integers(14, len(frame)))
    for seg in read(capture([bytes(frame[:kept])], wire_lengths=[len(frame)])):
        if seg.flags & PATH_MTU:
            assert path_mtu_message(seg).detail


@versions
def test_it_belongs_to_the_frames_of_its_connection(version: int) -> None:
    frame = ethernet(bytes(1448), version=version, seq=4711)
    octets = capture([frame, message(version), ethernet(seq=1, version=10 - version)])
    key = read(octets)[0].key
    assert [*conversation(io.BytesIO(octets), key).between(1, None)] == [1, 2]
    assert [seg.frame for seg in FrameIndex(io.BytesIO(octets)).segments([1, 2])] == [1]


@pytest.mark.parametrize(("version", "mtu", "odd"), [(4, 67, True), (4, 68, False), (6, 1279, True), (6, 1280, False)])
def test_an_mtu_that_no_path_has(version: int, mtu: int, odd: bool) -> None:
    (told,) = messages(message(version, mtu=mtu))
    assert (f"; below {68 if version == 4 else 1280}, which every path supports" in told.detail) == odd
