"""Sequence and acknowledgement numbers of a talk, followed by a few lines of TCP."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable
from typing import NamedTuple

from scapy_mpa.craft.packets import Endpoint, FrameMaker
from scapy_mpa.craft.talk import Talk, between, frames
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.framing.role import Role

CLIENT = Endpoint("10.0.0.1", 40000, bytes.fromhex("020000000001"))
SERVER = Endpoint("10.0.0.2", 7471, bytes.fromhex("020000000002"))
SIDES: tuple[tuple[Role, tuple[Endpoint, Endpoint]], ...] = (
    ("initiator", (CLIENT, SERVER)),
    ("responder", (SERVER, CLIENT)),
)
START, STEP = 1_700_000_000_000_000_000, 1_000_000


class Seen(NamedTuple):
    port: int
    seq: int
    ack: int
    flags: int
    payload: bytes


def seen(packets: Iterable[TcpPacket]) -> list[Seen]:
    found = []
    for _, octets in frames(packets):
        port, _, seq, ack, offset, flags = struct.unpack_from("!HHIIBB", octets, 34)
        found.append(Seen(port, seq, ack, flags, octets[34 + (offset >> 4) * 4 :]))
    return found


def talk(client_isn: int = 1000, server_isn: int = 5000, timestamps: bool = True) -> Talk:
    clock = itertools.count(START, STEP)
    return between(CLIENT, SERVER, clock, isns=(client_isn, server_isn), timestamps=timestamps)


def test_opening_and_closing() -> None:
    connection = talk()
    assert seen(connection.open()) == [
        Seen(40000, 1000, 0, 0x02, b""),
        Seen(7471, 5000, 1001, 0x12, b""),
        Seen(40000, 1001, 5001, 0x10, b""),
    ]
    assert seen(connection.close("server")) == [
        Seen(7471, 5001, 1001, 0x11, b""),
        Seen(40000, 1001, 5002, 0x11, b""),
        Seen(7471, 5002, 1002, 0x10, b""),
    ]


def test_every_second_segment_is_acknowledged() -> None:
    connection = talk()
    list(connection.open())
    packets = seen(connection.transfer("client", b"aabbccddee", [(n, n + 2) for n in range(0, 10, 2)]))
    assert [(p.seq, p.payload) for p in packets if p.port == 40000] == [
        (1001, b"aa"),
        (1003, b"bb"),
        (1005, b"cc"),
        (1007, b"dd"),
        (1009, b"ee"),
    ]
    assert [p.ack for p in packets if p.port == 7471] == [1005, 1009]
    assert [p.flags for p in packets if p.port == 40000] == [0x10] * 4 + [0x18]
    assert seen(connection.acknowledge("server")) == [Seen(7471, 5001, 1011, 0x10, b"")]
    assert seen(connection.acknowledge("server")) == []
    # Data of the other side acknowledges too.
    list(connection.send("client", b"ff"))
    assert seen(connection.send("server", b"reply")) == [Seen(7471, 5001, 1013, 0x18, b"reply")]


def test_segments_out_of_order_are_acknowledged_at_once() -> None:
    connection = talk()
    list(connection.open())
    packets = seen(connection.transfer("client", b"aabbccdd", [(0, 2), (4, 6), (6, 8), (2, 4)]))
    assert [(p.port, p.seq, p.ack) for p in packets] == [
        (40000, 1001, 5001),
        (40000, 1005, 5001),
        (7471, 5001, 1003),
        (40000, 1007, 5001),
        (7471, 5001, 1003),
        (40000, 1003, 5001),
        (7471, 5001, 1009),
    ]


def test_cuts_may_count_from_elsewhere_and_numbers_wrap() -> None:
    connection = talk(client_isn=0xFFFFFFFE)
    list(connection.open())
    packets = seen(connection.transfer("client", b"abcd", [(70, 71), (71, 74)], start=70))
    assert [(p.seq, p.ack, p.payload) for p in packets] == [
        (0xFFFFFFFF, 5001, b"a"),
        (0, 5001, b"bcd"),
        (5001, 3, b""),
    ]


def test_timestamps() -> None:
    connection = talk()
    assert connection.emss == 1448
    packets = [*frames(connection.open()), *frames(connection.send("client", b"x"))]
    assert [time for time, _ in packets] == [START + STEP * n for n in range(4)]
    tick = START // 1_000_000 % 2**32
    stamps = [struct.unpack_from("!II", octets, 34 + (28 if n < 2 else 24)) for n, (_, octets) in enumerate(packets)]
    assert stamps == [(tick, 0), (tick + 1, tick), (tick + 2, tick + 1), (tick + 3, tick + 1)]
    bare = talk(timestamps=False)
    assert bare.emss == 1460
    assert [len(octets) for _, octets in frames(bare.open())] == [62, 62, 54]


def test_a_segment_out_of_order_is_not_echoed() -> None:
    """TS.Recent is that of the last segment in order (RFC 7323 §4.3)."""
    connection = talk()
    list(connection.open())
    packets = frames(connection.transfer("client", b"aabbcc", [(0, 2), (4, 6), (2, 4)]))
    stamps = [struct.unpack_from("!II", octets, 58) for _, octets in packets]
    first, _, _, last, _ = (tsval for tsval, _ in stamps)
    assert [tsecr for _, tsecr in stamps[2::2]] == [first, last]


def test_a_small_window_fills_and_opens_again() -> None:
    """What the application does not read takes room; once it has read, its side says so (RFC 9293 §3.8.6)."""
    one, two = (SentHalf(0, role, FrameMaker(*ends), 0) for role, ends in SIDES)
    one.peer, two.peer = two, one
    connection = Talk({"client": one, "server": two}, itertools.count(START), windows={"client": None, "server": 100})
    _, answer, _ = connection.open()
    assert (answer.window, answer.window_shift) == (100, 0)
    connection.hold("server")
    *_, full = connection.transfer("client", bytes(100), [(0, 60), (60, 100)])
    assert (full.half, full.ack, full.window) == (two, 100, 0)
    (opened,) = connection.read("server")
    assert (opened.half, opened.ack, opened.window) == (two, 100, 100)
    connection.hold("server")
    assert [*connection.read("server")] == []
