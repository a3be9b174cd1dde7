"""MPA Request and Reply: the same table built and dissected, and ``framing`` asked for its opinion."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.packet import Packet, Padding, Raw, fuzz

from scapy_mpa import analyze
from scapy_mpa.errors import FramingError
from scapy_mpa.framing import REPLY_KEY, REQUEST_KEY, decode_startup_frame
from scapy_mpa.layers import MPAReply, MPARequest, startup_packet
from scapy_mpa.packet import startup
from tests.conftest import PCAPS
from tests.layers.cases import STARTUP


@pytest.mark.parametrize(("packet", "octets"), STARTUP.values(), ids=list(STARTUP))
def test_builds_and_dissects(packet: Packet, octets: str) -> None:
    wire = bytes.fromhex(octets)
    assert bytes(packet) == wire
    dissected = type(packet)(wire)
    assert bytes(dissected) == bytes(pickle.loads(pickle.dumps(dissected))) == bytes(dissected.copy()) == wire
    for name in packet.fields:
        assert getattr(dissected, name) == getattr(packet, name)
    assert bytes(eval(dissected.command())) == wire
    assert dissected.show(dump=True) == packet.show2(dump=True)
    dissected.clear_cache()
    assert bytes(dissected) == wire


@pytest.mark.parametrize(("packet", "octets"), list(STARTUP.values())[:-1], ids=list(STARTUP)[:-1])
def test_agrees_with_framing(packet: Packet, octets: str) -> None:
    wire = bytes.fromhex(octets)
    dissected = startup_packet(wire)
    assert type(dissected) is type(packet)
    frame = decode_startup_frame(wire)
    assert frame is not None
    for name in ("m", "c", "r", "s", "res", "rev", "pd_length"):
        assert getattr(dissected, name) == getattr(frame, name)
    if frame.enhanced is None:
        assert dissected.private_data == frame.private_data
        assert dissected.ird is None
    else:
        assert dissected.private_data == frame.private_data[4:]
        for names in (
            ("enhanced_a", "enhanced_b", "enhanced_c", "enhanced_d", "ird", "ord"),
            ("peer_to_peer", "rtr_send", "rtr_write", "rtr_read", "ird", "ord"),
        ):
            assert frame.enhanced == tuple(getattr(dissected, name) for name in names)


def test_summaries() -> None:
    assert MPARequest(m=1, c=1).summary() == "MPA Request M C Rev 1"
    assert MPAReply(r=1, s=1, ird=3).summary() == "MPA Reply C R S Rev 2 IRD 3 ORD 0"
    assert MPAReply().answers(MPARequest()) and not MPAReply().answers(MPAReply())
    assert MPAReply().hashret() == MPARequest().hashret()


def test_what_follows_is_raw() -> None:
    packet = MPAReply(bytes(MPAReply(private_data=b"ab")) + b"more")
    assert packet.private_data == b"ab"
    assert packet.payload.load == b"more"


def test_too_much_private_data_says_so() -> None:
    with pytest.raises(FramingError, match="Private Data of 65536 octets"):
        bytes(MPARequest(private_data=bytes(65536)))


@pytest.mark.parametrize("octets", [b"GET / HTTP/1.0\r\n\r\n   ", REQUEST_KEY, REPLY_KEY + b"\x10\2\0\4\0\1\0"])
def test_no_startup_packet(octets: bytes) -> None:
    with pytest.raises(FramingError):
        startup_packet(octets)
    assert type(MPARequest(octets[:24])) in (MPARequest, Raw)


@given(st.binary(min_size=1, max_size=64), st.sampled_from([REQUEST_KEY, REPLY_KEY, b""]), st.booleans())
def test_any_octets_are_dissected_and_kept(octets: bytes, key: bytes, enhanced: bool) -> None:
    octets = key + (b"\x10\2\0\6" if enhanced else b"") + octets
    before, conf.debug_dissector = conf.debug_dissector, True
    try:
        for cls in (MPARequest, MPAReply):
            packet = cls(octets)
            assert bytes(packet) == octets
            packet.show(dump=True), packet.show2(dump=True), packet.summary(), packet.command()
            packet.clear_cache()
            assert bytes(packet) == octets
    finally:
        conf.debug_dissector = before


def test_fuzzed_frames_are_built() -> None:
    for packet in (MPARequest(s=1, rev=2), MPAReply()):
        fuzzed = fuzz(packet)
        made = {bytes(fuzzed) for _ in range(20)}
        assert len(made) > 1
        # Without its Key it would be no startup frame.
        assert {octets[:16] for octets in made} == {type(packet).key_of_frame}
        fuzzed.show(dump=True), fuzzed.summary()


@pytest.mark.parametrize("name", ["ird", "ord", "peer_to_peer", "rtr_send", "rtr_write", "rtr_read"])
def test_enhanced_data_are_fuzzed(name: str) -> None:
    # What MPARequest(s=1) is given stays: the frame has enhanced data each time.
    assert len({getattr(MPARequest(bytes(fuzz(MPARequest(s=1)))), name) for _ in range(40)}) > 1


def test_control_flags_have_two_names() -> None:
    packet = MPARequest(s=1, enhanced_b=1)
    assert (packet.rtr_send, packet.enhanced_b, packet.rtr_write) == (1, 1, 0)
    packet.enhanced_c = 1
    assert packet.rtr_write == 1
    del packet.enhanced_b
    assert packet.rtr_send == 0
    assert "rtr_write" in str(packet.show(dump=True))


@pytest.mark.parametrize(
    ("cls", "octets"),
    [
        (MPARequest, b"this is no startup frame"),
        (MPARequest, bytes(MPAReply())),
        (MPAReply, bytes(MPARequest())),
        # Too short for a header: they come back as Raw.
        (MPARequest, b"garbage"),
        (MPARequest, b"\x00"),
        (MPAReply, REQUEST_KEY),
        # S and Rev 2 without enhanced data.
        (MPARequest, b"MPA ID Reg Frame\x10\2\0\4\0\1"),
    ],
)
def test_octets_without_the_key_are_warned_of(
    cls: type[MPARequest | MPAReply], octets: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    warned: list[str] = []
    monkeypatch.setattr(startup, "warning", lambda text, *values: warned.append(text % values))
    cls(bytes(cls()))
    assert not warned
    assert bytes(cls(octets)) == octets
    (said,) = warned
    name = "MPA Request" if cls is MPARequest else "MPA Reply"
    assert said == f"{name}: octets that do not begin with its Key ({cls.key_of_frame.decode()})"


@pytest.mark.parametrize("cls", [MPARequest, MPAReply])
@pytest.mark.parametrize("s", [0, 1], ids=["plain", "enhanced"])
def test_a_frame_that_is_cut_is_not_warned_of(cls: type[Packet], s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    warned: list[str] = []
    monkeypatch.setattr(startup, "warning", lambda text, *values: warned.append(text))
    octets = bytes(cls(s=s))
    for end in range(1, len(octets)):
        assert type(cls(octets[:end])) is Raw
    assert not warned


def test_a_frame_of_a_report_is_a_packet() -> None:
    (connection,) = analyze(PCAPS / "siw-rping.pcap").connections
    for frame, cls in ((connection.request, MPARequest), (connection.reply, MPAReply)):
        assert frame is not None
        packet = frame.packet()
        assert type(packet) is cls and bytes(packet) == frame.encode()


def test_as_scapys_stream_socket_reads_it() -> None:
    wire = bytes(MPAReply(private_data=b"abc"))
    for end in range(1, len(wire)):
        assert MPAReply.tcp_reassemble(wire[:end], {}, {}) is None
    packet = MPARequest.tcp_reassemble(wire + b"rest", {}, {})
    assert isinstance(packet, MPAReply) and packet[Padding].load == b"rest"
    assert bytes(packet) == wire + b"rest"
