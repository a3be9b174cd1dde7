"""Memory as an analysis watches it: where there is nothing to watch, what it takes in a flood, who finds the same."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import count
from pathlib import Path

import pytest

from scapy_mpa.analyzer.connection import CapturedConnection, FullOperation
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.ulpdus import rdma_write, send, untagged
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.rdmap import watch
from scapy_mpa.rdmap.watch import MemoryWatch
from scapy_mpa.reading.analysis import analyze
from scapy_mpa.receiver.values import located_fpdu
from scapy_mpa.rules.findings import Quota
from scapy_mpa.stream.connection import arrival_of
from scapy_mpa.stream.drop_reason import NO_REASON
from scapy_mpa.values.records import LENGTH, NO_OPCODE, UNCHECKED
from tests.messages.test_memory import (
    NVME_PORT,
    RPING_PORT,
    STAG,
    TO,
    call,
    command,
    of_memory,
    rping_buffer,
    smb_direct,
)  # fmt: skip


class Sides:
    """Both directions of a connection, FPDU by FPDU; the peer has received everything."""

    def __init__(self, port: int, room: int = 1 << 14) -> None:
        frames = startup_frame("request"), startup_frame("reply")
        self.room = Quota(room)
        self.watch = MemoryWatch(frames[0], frames[1], port, self.room, lambda side, ack, near: ack)
        self._ends = [0, 0]
        self._frames = count(1)

    def say(self, side: int, ulpdu: bytes, captured: int | None = None) -> None:
        """A direction sends an FPDU, of which this many octets are captured, or all."""
        start, frame = self._ends[side], next(self._frames)
        octets = len(ulpdu).to_bytes(2, "big") + ulpdu
        octets += bytes(-len(octets) % 4 + 4)
        self._ends[side] = end = start + len(octets)
        moment, opcode = (frame, frame), ulpdu[1] & 0x0F if captured is None or captured > 3 else NO_OPCODE
        one = located_fpdu(
            start, start, len(ulpdu), end, 0, UNCHECKED, LENGTH, (frame,), moment, moment, opcode,
            memoryview(octets)[:captured],
        )  # fmt: skip
        segment = arrival_of(
            frame, frame, start, end, end - start, False, True, -1, end - start, NO_REASON, None, self._ends[1 - side]
        )
        self.watch.arrived(side, [segment])
        self.watch.passed(side, one)


def read_request(number: int) -> bytes:
    body = struct.pack(">IQIIQ", number, 0, 64, STAG, TO)
    return untagged(1, 1, number, body)


def names(sides: Sides) -> Iterator[None]:
    for number in count(1):
        chunks = [(STAG, TO + 64 * number + place, 16) for place in range(0, 768, 32)]
        sides.say(0, send(number, call(number, writes=chunks)))
        yield


def stags(sides: Sides) -> Iterator[None]:
    for number in count(1):
        sides.say(0, send(number, call(number, writes=[(number, TO, 64)])))
        yield


def unnamed(sides: Sides) -> Iterator[None]:
    for number in count(1):
        sides.say(1, rdma_write(number, TO, bytes(8)))
        yield


def outstanding(sides: Sides) -> Iterator[None]:
    for number in count(1):
        sides.say(1, read_request(number))
        yield


def open_messages(sides: Sides) -> Iterator[None]:
    for number in count(1):
        sides.say(0, untagged(3, number, 1, bytes(64), last=False))
        yield


def beyond(sides: Sides) -> Iterator[None]:
    sides.say(0, send(1, call(1, writes=[(STAG, TO, 64)])))
    for number in count(1):
        sides.say(1, rdma_write(STAG, TO + 64 * number, bytes(64)))
        yield
        sides.watch.take_breaches(1)


FLOODS = (names, stags, unnamed, outstanding, open_messages, beyond)


@pytest.mark.parametrize("early", [1, watch._MOST_EARLY + 1])
def test_segments_before_the_first_fpdu_count(early: int) -> None:
    sides = Sides(20049)
    for frame in range(1, early + 1):
        sides.watch.acknowledged(1, frame, 10 * frame)
    sides.say(0, send(1, call(1, writes=[(STAG, TO, 64)])))
    sender = sides.watch._senders[1]
    assert [sender.acknowledged_by(frame) for frame in (1, early, early + 1)] == [10, 10 * early, None]


@pytest.mark.parametrize(
    ("port", "ulpdu", "is_over"),
    [
        (1, send(1, b"nothing known"), True),
        (1, send(1, call(1)), False),
        (1, send(1, rping_buffer()), False),
        (20049, send(1, b"nothing known"), True),
        (1, rdma_write(STAG, TO, bytes(8)), True),
        (20049, rdma_write(STAG, TO, bytes(8)), False),
        (1, untagged(3, 1, 1, bytes(64), last=False), False),
        (1, read_request(1), False),
    ],
)  # fmt: skip
def test_the_first_fpdu_may_end_it(port: int, ulpdu: bytes, is_over: bool) -> None:
    sides = Sides(port)
    sides.say(0, ulpdu)
    assert sides.watch.is_over == is_over and sides.watch.has_news() == is_over
    assert sides.watch.take_breaches(0) == []


@pytest.mark.uncompiled
@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.__name__)
def test_a_flood_takes_no_more_memory_the_second_time(
    flood: Callable[[Sides], Iterator[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "MOST_STAGS", 64)
    monkeypatch.setattr(watch, "_MOST_HELD", 1 << 12)
    monkeypatch.setattr("scapy_mpa.rdmap.assembly.MOST_CALLS", 64)
    sides = Sides(20049)
    more = flood(sides)
    tracemalloc.start()
    try:
        for _ in range(300):
            next(more)
        once = tracemalloc.get_traced_memory()[0]
        for _ in range(700):
            next(more)
        again = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert not sides.watch.is_over and again < 1.2 * once + 20_000


@pytest.mark.uncompiled
def test_connections_share_what_they_may_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "MOST_STAGS", 64)
    sides = Sides(20049, room=10)
    more = stags(sides)
    for _ in range(40):
        next(more)
    assert sides.room.left == 0
    sides.watch.finish()
    assert sides.room.left == 10
    # With nothing left one STag is remembered, and given back to nobody.
    sides = Sides(20049, room=0)
    next(stags(sides))
    sides.watch.finish()
    assert sides.room.left == 0


def test_where_no_upper_layer_is_known_nothing_is_watched() -> None:
    for octets in (rdma_write(STAG, TO, b"1"), send(1, b"a header of nobody")):
        sides = Sides(9999)
        sides.say(0, octets)
        assert sides.watch.is_over
    sides = Sides(9999)
    sides.say(0, send(1, b""))  # a ready-to-receive message
    sides.say(0, send(1, rping_buffer()))
    assert not sides.watch.is_over
    sides.say(1, rdma_write(STAG, TO, bytes(8)))
    assert not sides.watch.is_over
    sides.say(1, rdma_write(STAG, TO + 64, bytes(8)))
    assert [one.rule for one in sides.watch.take_breaches(1)] == ["memory-bounds"]


def test_an_fpdu_may_be_cut_anywhere() -> None:
    complete = LENGTH_FIELD_LENGTH + len(rdma_write(STAG, TO + 64, bytes(8)))
    for captured in range(LENGTH_FIELD_LENGTH, complete):
        sides = Sides(RPING_PORT)
        sides.say(0, send(1, rping_buffer()), captured)
        sides.say(1, rdma_write(STAG, TO + 64, bytes(8)), captured)
        assert not sides.watch.take_breaches(1), captured


def test_a_send_of_which_only_the_length_was_captured_may_have_named_memory() -> None:
    for captured, breaches in ((None, ["memory-bounds"]), (2, [])):
        sides = Sides(RPING_PORT)
        sides.say(0, send(1, rping_buffer(STAG + 1)), captured)
        sides.say(0, send(2, rping_buffer()))
        sides.say(1, rdma_write(STAG, TO + 64, bytes(8)))
        assert not sides.watch.is_over
        sides.watch.finish()
        assert [one.rule for one in sides.watch.take_breaches(1)] == breaches


def found(talk: Conversation) -> dict[tuple[str, str | None], int]:
    file = BytesIO()
    Traffic([talk]).write(file)
    file.seek(0)
    return dict(of_memory(analyze(file)))


def test_an_stag_that_was_invalidated_is_reported_once() -> None:
    talk = Conversation(ports=(None, NVME_PORT)).send("initiator", command(7, STAG, TO, 4096))
    talk.send("responder", struct.pack("<QHHHH", 0, 1, 1, 7, 0), invalidate=STAG)
    talk.write("responder", 64, stag=STAG, to=TO)
    file = BytesIO()
    Traffic([talk]).write(file)
    file.seek(0)
    errors = [one for one in analyze(file).all_findings() if one.severity == "error"]
    assert [(one.rule.id, one.count) for one in errors] == [("stag-invalidated", 1)]


def test_writes_in_bulk_are_judged_message_by_message() -> None:
    """Plain RDMA Writes, which come in runs: three of 200 messages are outside."""
    talk = Conversation(ports=(None, RPING_PORT)).send("initiator", rping_buffer(size=1 << 20))
    for number in range(200):
        to = TO + 5000 * number + ((1 << 20) if number in (70, 71, 199) else 0)
        talk.write("responder", 5000, stag=STAG, to=to)
    assert found(talk) == {("memory-bounds", "responder"): 3}


def test_a_negotiation_alone_names_nothing() -> None:
    assert not found(smb_direct().write("responder", 64, stag=STAG, to=TO))


def test_processes_find_the_same(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    talks = []
    for number in range(4):
        talk = Conversation(ports=(40000 + number, RPING_PORT)).send("initiator", rping_buffer())
        talks.append(talk.write("responder", 64, stag=STAG, to=TO + 32 * number))
    with path.open("wb") as file:
        Traffic(talks).write(file)
    one, two = analyze(path), analyze(path, jobs=2)
    assert of_memory(one) == of_memory(two) == {("memory-bounds", "responder"): 3}
    assert one.as_dict() == two.as_dict()


@pytest.mark.uncompiled
def test_a_connection_that_is_over_holds_nothing() -> None:
    talk = Conversation(ports=(None, RPING_PORT)).send("initiator", rping_buffer())
    file = BytesIO()
    Traffic([talk.write("responder", 64, stag=STAG, to=TO)]).write(file)
    file.seek(0)
    seen: list[FullOperation] = []
    ended = CapturedConnection.finish

    def finish(self: CapturedConnection, *arguments: object) -> None:
        ended(self, *arguments)  # type: ignore[arg-type]
        seen.extend(self.operations.values())

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CapturedConnection, "finish", finish)
        analyze(file)
    assert [one.memory for one in seen] == [None, None]
