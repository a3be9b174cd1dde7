"""The TCP of ours, without IO: two of them, hand-made segments, and a bad network."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.link import ETHERNET
from scapy_mpa.capture.packet import segment_in
from scapy_mpa.craft.packets import ACK, FIN, PSH, RST, SYN, FrameMaker
from scapy_mpa.craft.tcp import OFFERED, TCP, Arrived
from scapy_mpa.craft.tcppacket import TcpPacket, octets_of
from scapy_mpa.framing.sequence import seq_add
from scapy_mpa.probe.rawcarrier import live_half, maker
from scapy_mpa.values.segment import Segment, checksum_is_right
from tests.sampling import examples

A, B = ("10.78.0.9", 40000), ("10.77.0.2", 7471)
SECOND, BEGIN = 10**9, 10**18
ISN = 0xFFFFFFF0  # so that numbers wrap soon


def seen(packet: TcpPacket) -> Segment:
    """A packet as its receiver reads it off the wire."""
    octets = octets_of(packet)
    seg = segment_in(0, 0, ETHERNET, memoryview(octets), 0, len(octets), len(octets), Fragments(), waits=True)
    assert seg is not None
    return seg


def data(start: int, payload: bytes, **changes: object) -> TcpPacket:
    """A segment of a case; numbers, options and window are the connection's to say."""
    half = live_half("initiator", maker(A, B), 0)
    return TcpPacket(0, half, start, payload, 0, ACK | PSH, 0, b"", 0)._replace(**changes)  # type: ignore[arg-type]


def at(tcp: TCP, seconds: float) -> TCP:
    """Return the TCP at this time."""
    tcp.tick(BEGIN + round(seconds * SECOND))
    return tcp


def one(isn: int = ISN, **settings: Any) -> TCP:
    return at(TCP(live_half("initiator", maker(A, B), isn), **settings), 0)


def other(isn: int = 7, **settings: Any) -> TCP:
    tcp = at(TCP(live_half("responder", maker(B, A), isn), **settings), 0)
    tcp.listen()
    return tcp


def deliver(source: TCP, sink: TCP, now: float) -> list[TcpPacket]:
    """All that one has to say reaches the other, unless its checksum is wrong."""
    packets = [*source.take_out()]
    for packet in packets:
        seg = seen(packet)
        if checksum_is_right(seg):
            at(sink, now).receive(seg)
    return packets


def established(**settings: Any) -> tuple[TCP, TCP]:
    client, server = one(**settings), other()
    at(client, 0.0).open()
    for _ in range(2):
        deliver(client, server, 0.01)
        deliver(server, client, 0.02)
    assert client.state == server.state == "established"
    assert not client.out and not server.out
    return client, server


# --- the handshake ---


def test_handshake_and_numbers() -> None:
    client, server = established()
    assert server.half.peer.isn == ISN
    assert client.half.peer.isn == 7
    assert client.right_edge == OFFERED - OFFERED % 65536 or client.right_edge <= OFFERED
    assert client.mss == 1460 - 12
    assert established(timestamps=False)[0].mss == 1460


def test_a_syn_is_repeated_and_refused() -> None:
    client = one()
    at(client, 0.0).open()
    assert [packet.flags for packet in client.take_out()] == [SYN]
    at(client, 0.5)
    assert not client.out
    at(client, 1.0)
    assert [packet.flags for packet in client.take_out()] == [SYN]
    assert client.deadline == BEGIN + 3 * SECOND
    at(client, 1.1).receive(answer(client, flags=RST | ACK, ack=ISN + 5))  # of what was never sent
    assert client.deadline is not None
    at(client, 1.1).receive(answer(client, flags=RST | ACK, ack=ISN + 1))
    assert client.state == "reset"


def test_nobody_answers() -> None:
    client = one()
    at(client, 0.0).open()
    sent = 0
    while client.deadline is not None:
        client.tick(client.deadline)
        sent += len([*client.take_out()])
    assert client.state == "lost"
    assert sent == 9
    with pytest.raises(TimeoutError):
        client.send(data(0, b"x"))


def test_octets_of_a_syn_come_again_if_the_peer_dropped_them() -> None:
    client, server = one(), other()
    client.open(b"MPA")
    (syn,) = client.take_out()
    assert syn.payload == b"MPA"
    at(server, 0.01).receive(seen(syn))
    assert len(server.incoming) == 0
    deliver(server, client, 0.02)
    deliver(client, server, 0.03)
    assert server.incoming == b"MPA"


def answer(client: TCP, payload: bytes = b"", *, flags: int = ACK, seq: int = 0, ack: int = ISN + 1) -> Segment:
    """A hand-made segment of the peer."""
    frames = FrameMaker(*_ends())
    octets = frames.frame(payload, seq=seq, ack=ack & 0xFFFFFFFF, flags=flags, window=1000)
    seg = segment_in(0, 0, ETHERNET, memoryview(octets), 0, len(octets), len(octets), Fragments(), waits=True)
    assert seg is not None
    return seg


def _ends():  # type: ignore[no-untyped-def]
    from scapy_mpa.craft.packets import Endpoint

    return Endpoint(*B, b"\2\0\0\0\0\1"), Endpoint(*A, b"\2\0\0\0\0\2")


# --- segments as they are ---


def test_segments_go_out_as_they_are() -> None:
    """Beyond a hole, again, overlapping, damaged: in that order, with the octets that were handed over."""
    client, server = established()
    segments = [
        data(10, b"bcdef"), data(10, b"bcdef"), data(12, b"XX"), data(0, b"0123456789", damage=((0, 1),),
        checksum="before"), data(0, b"0123456789", checksum="wrong"),
    ]  # fmt: skip
    for segment in segments:
        at(client, 1.0).send(segment)
    packets = deliver(client, server, 1.01)
    assert [(one.start, one.payload, one.checksum) for one in packets] == [
        (one.start, one.payload, one.checksum) for one in segments
    ]
    assert len(server.incoming) == 0
    deliver(server, client, 1.02)
    assert client.snd_una == 0
    at(client, 1.03).send(data(0, b"0123456789"))
    deliver(client, server, 1.04)
    assert server.incoming == b"0123456789bcdef"
    deliver(server, client, 1.05)
    assert client.snd_una == 15
    assert client.unacknowledged == 0
    assert client.deadline is None


def test_what_was_never_handed_over_whole_is_not_sent_again() -> None:
    client, _ = established()
    at(client, 1.0).send(data(0, b"damaged", damage=((0, 1),), checksum="before"))
    at(client, 1.0).send(data(7, b"beyond"))
    [*client.take_out()]
    client.tick(client.deadline or 0)
    assert [(one.start, one.payload) for one in client.take_out()] == [(7, b"beyond")]


def test_selective_acknowledgements_are_read() -> None:
    client, _ = established(timestamps=False)
    at(client, 1.0).send(data(100, bytes(50)))
    [*client.take_out()]
    frames = FrameMaker(*_ends())
    first, last = seq_add(ISN, 101), seq_add(ISN, 151)
    sack = b"\x01\x01\x05\x0a" + first.to_bytes(4, "big") + last.to_bytes(4, "big")
    octets = frames.frame(b"", seq=8, ack=seq_add(ISN, 1), flags=ACK, window=1000, options=sack)
    seg = segment_in(0, 0, ETHERNET, memoryview(octets), 0, len(octets), len(octets), Fragments(), waits=True)
    assert seg is not None
    at(client, 1.1).receive(seg)
    assert client.sacked == [(100, 150)]
    client.tick(client.deadline or 0)  # a peer may let go of it (RFC 2018 §8)
    assert client.sacked == []
    assert [one.start for one in client.take_out()] == [100]


def test_three_duplicates_bring_the_next_octets_again() -> None:
    client, server = established()
    for start in range(0, 500, 100):
        at(client, 1.0).send(data(start, bytes(100)))
    lost, *others = client.take_out()
    for packet in others:
        at(server, 1.01).receive(seen(packet))
    deliver(server, client, 1.02)
    assert [one.start for one in client.out] == [lost.start]
    deliver(client, server, 1.03)
    assert len(server.incoming) == 500


def test_the_window_is_kept_and_asked_for() -> None:
    client, _ = established()
    client.right_edge = 150
    at(client, 1.0).send(data(0, bytes(100)))
    at(client, 1.0).send(data(100, bytes(100)))
    at(client, 1.0).send(data(1 << 30, b"far"))  # what is none of the stream's does not wait
    assert client.behind(b"more").start == 200
    assert [one.start for one in client.take_out()] == [0, 1 << 30]
    at(client, 1.1).receive(answer(client, seq=8, ack=ISN + 101))
    assert [one.start for one in client.take_out()] == [100]
    closed, _ = established()
    closed.right_edge = 0
    at(closed, 1.0).send(data(0, b"x"))
    assert not closed.out
    closed.tick(closed.deadline or 0)
    assert [(one.start, one.payload) for one in closed.take_out()] == [(-1, b"")]


# --- what comes ---


def test_octets_in_any_order_are_handed_on_once_and_in_order() -> None:
    client, server = established()
    for start, payload in ((6, b"ghi"), (3, b"defg"), (0, b"abc"), (0, b"abcdef"), (9, b"j")):
        at(server, 1.0).send(data(start, payload))
        deliver(server, client, 1.0)
    assert client.incoming == b"abcdefghij"


def test_ends() -> None:
    client, server = established()
    at(server, 1.0).send(data(0, b"last"))
    at(server, 1.0).finish()
    deliver(server, client, 1.0)
    assert client.is_ended and client.incoming == b"last"
    assert not client.is_over
    at(client, 1.1).finish()
    deliver(client, server, 1.1)
    deliver(server, client, 1.1)
    assert client.is_over and server.is_over
    assert client.deadline is None


def test_a_fin_is_sent_again() -> None:
    client, _ = established()
    at(client, 1.0).finish()
    assert [one.flags & FIN for one in client.take_out()] == [FIN]
    client.tick(client.deadline or 0)
    assert [one.flags & FIN for one in client.take_out()] == [FIN]


@pytest.mark.parametrize(
    ("far", "state"),
    [(0, "reset"), (1, "established"), (-1, "established"), (1 << 30, "established")],
)
def test_only_the_next_number_resets(far: int, state: str) -> None:
    client, _ = established()
    at(client, 1.0).receive(answer(client, flags=RST, seq=8 + far))
    assert client.state == state
    assert len([*client.take_out()]) == (far == 1)


def test_a_forged_syn_is_answered_by_what_is_expected() -> None:
    client, _ = established()
    at(client, 1.0).receive(answer(client, flags=SYN, seq=8 + 1000))
    (challenge,) = client.take_out()
    assert (challenge.flags, challenge.ack) == (ACK, 0)
    assert client.state == "established"


# --- whatever happens ---


@dataclass(order=True)
class Due:
    when: float
    number: int
    sink: TCP = field(compare=False)
    packet: TcpPacket = field(compare=False)


def carried(rng: random.Random, cuts: list[tuple[int, int]], stream: bytes, loss: float) -> tuple[TCP, TCP]:
    """A connection over a network that loses, repeats and reorders both ways, until nothing is under way."""
    client, server = one(), other()
    at(client, 0.0).open()
    now, number, handed = 0.0, 0, False
    due: list[Due] = []
    for _ in range(20000):
        for source, sink in ((client, server), (server, client)):
            for packet in source.take_out():
                copies = 0 if rng.random() < loss else 2 if rng.random() < 0.1 else 1
                for _copy in range(copies):
                    number += 1
                    due.append(Due(now + 0.001 + 0.2 * rng.random(), number, sink, packet))
        if client.state == "established" and not handed:
            handed = True
            for first, last in cuts:
                at(client, now).send(data(first, stream[first:last]))
            at(client, now).finish()
            continue
        due.sort()
        timers = [(tcp.deadline - BEGIN) / SECOND for tcp in (client, server) if tcp.deadline is not None]
        if not due and not timers:
            break
        if due and (not timers or due[0].when <= min(timers)):
            event = due.pop(0)
            now = max(now, event.when)
            at(event.sink, now).receive(seen(event.packet))
        else:
            now = max(now, min(timers))
            at(client, now)
            at(server, now)
    return client, server


@given(st.integers(0, 1 << 32), st.integers(1, 3000), st.integers(1, 12), st.sampled_from([0.0, 0.1, 0.25]))
@hypothesis_settings(deadline=None, max_examples=examples(100))
def test_all_octets_arrive_whatever_is_lost(seed: int, size: int, pieces: int, loss: float) -> None:
    """Cut anywhere, overlapping, in any order, over a bad network: all is sent again until it is acknowledged."""
    rng = random.Random(seed)
    stream = bytes(rng.getrandbits(8) for _ in range(size))
    places = sorted({0, size, *(rng.randrange(size) for _ in range(pieces))})
    cuts = [(first, min(size, last + rng.randrange(9))) for first, last in pairwise(places)]
    rng.shuffle(cuts)
    client, server = carried(rng, cuts, stream, loss)
    if client.state == "lost" or server.state == "lost":
        assert loss
        return
    assert bytes(server.incoming) == stream
    assert client.snd_una == size + 1
    assert client.deadline is None
    assert server.is_ended


_SEGMENTS = st.tuples(
    st.integers(0, 0xFF), st.sampled_from([-3, -1, 0, 1, 5, 1000, 1 << 20, 1 << 31]),
    st.sampled_from([-3, 0, 1, 5, 300, 1 << 31]), st.binary(max_size=20),
)  # fmt: skip


@given(st.lists(_SEGMENTS, max_size=30))
@hypothesis_settings(deadline=None, max_examples=examples(200))
def test_nothing_is_sent_behind_a_reset(segments: list[tuple[int, int, int, bytes]]) -> None:
    """Whatever comes, in whatever state: no exception, and nothing at all once the peer has reset the connection."""
    client, _ = established(timestamps=False)
    at(client, 1.0).send(data(0, bytes(300)))
    [*client.take_out()]
    now = 1.0
    for flags, far, ack, payload in segments:
        now += 0.1
        place = client.rcv_nxt + 8 + far
        at(client, now).receive(answer(client, payload, flags=flags, seq=place & 0xFFFFFFFF, ack=ISN + 1 + ack))
        if client.state != "reset":
            at(client, now)
            [*client.take_out()]
    at(client, now).receive(answer(client, flags=RST, seq=(8 + client.rcv_nxt) & 0xFFFFFFFF))
    assert client.state in ("reset", "lost")
    for _ in range(20):
        now += 60
        at(client, now)
        at(client, now).finish()
        at(client, now).reset()
        with pytest.raises(OSError, match=r"reset|timed out"):
            at(client, now).send(data(300, b"more"))
        with pytest.raises(OSError, match=r"reset|timed out"):
            client.forge(data(300, b"more"))
    assert not [*client.take_out()]
    assert client.deadline is None


def test_octets_beyond_a_hole_do_not_fill_memory() -> None:
    client, _ = established(timestamps=False)
    for start in range(1, 2000):
        at(client, 1.0).receive(answer(client, bytes(1400), seq=8 + start * 7))
        [*client.take_out()]
    assert len(client._octets) <= OFFERED + 1400


def test_the_first_copy_counts() -> None:
    """Of octets that came beyond a hole, and of those that came in order."""
    client, server = established()
    for start, payload in ((4, b"ef"), (2, b"XXXXXXXX"), (0, b"ab"), (0, b"YYYYYYYYYYk")):
        at(server, 1.0).send(data(start, payload))
        deliver(server, client, 1.0)
    assert client.take() == b"abXXefXXXXk"
    assert client.take() == b""
    at(server, 1.0).send(data(11, b"more"))
    deliver(server, client, 1.0)
    assert client.take() == b"more"


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), max_size=40))
@hypothesis_settings(deadline=None, max_examples=examples(200))
def test_what_has_arrived_is_what_a_set_says(ranges: list[tuple[int, int]]) -> None:
    arrived = Arrived(0)
    octets: set[int] = set()
    for start, length in ranges:
        arrived.add(start, start + length)
        octets.update(range(start, start + length))
        assert arrived.rcv_nxt == next(at for at in range(100) if at not in octets)
        assert {at for first, last in arrived.runs for at in range(first, last)} == {
            at for at in octets if at >= arrived.rcv_nxt
        }
