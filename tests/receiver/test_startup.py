"""The Startup Phase: frames that are wrong and accepted, rejections, floods of startup frames."""

from __future__ import annotations

from typing import Any

import pytest

from scapy_mpa.framing.startup import REPLY_KEY, REQUEST_KEY, Kind, startup_frame
from scapy_mpa.receiver.connection import ConnectionReader
from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.receiver.startup import beginning_of_key
from scapy_mpa.receiver.values import LocatedFPDU
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.segment import Segment
from tests.receiver.talk import Talk, rejected, stream
from tests.receiver.wire import ACK, FIN

SIZES = (100, 300, 44, 500, 100, 300, 44, 500), (60, 700, 60, 700)


def frame(kind: Kind, *, m: int = 0, c: int = 1, key: bytes | None = None, **fields: Any) -> bytes:
    octets = startup_frame(kind, m=m, c=c, **fields).encode()
    return octets if key is None else key + octets[16:]


def conversation(request: bytes, reply: bytes, *, crc: bool = True, markers: bool = False, size: int = 400) -> Talk:
    """Return a connection with these startup frames, whatever they are, and FPDUs of both sides, closed."""
    talk, sent = Talk().open(), [1, 1]

    def put(side: int, octets: bytes = b"", flags: int = ACK) -> None:
        talk.put(side, sent[side], octets, flags, ack=sent[1 - side])
        sent[side] += len(octets) + (1 if flags & FIN else 0)

    put(0, request)
    put(1, reply)
    streams = [stream(*sizes, markers=markers, crc=crc)[0] for sizes in SIZES]
    for at in range(0, max(map(len, streams)), size):
        for side in (0, 1):
            if streams[side][at : at + size]:
                put(side, streams[side][at : at + size])
    put(0, flags=FIN | ACK)
    put(1, flags=FIN | ACK)
    put(0)
    return talk


def read(segments: list[Segment], assumptions: Assumptions = NOTHING) -> list[ConnectionReader]:
    receiver = Receiver(assumptions=assumptions)
    receiver.feed(segments)
    return [mpa for _, mpa in receiver.finish()]


def fpdus(mpa: ConnectionReader) -> list[int]:
    """Return how many FPDUs with a good or unchecked CRC each direction has; -1 without Full Operation."""
    return [
        -1 if one is None else sum(isinstance(fpdu, LocatedFPDU) and fpdu.crc != 1 for fpdu, _ in one.passed)
        for one in mpa.readers
    ]


# --- startup frames that are wrong, and accepted ---


@pytest.mark.parametrize("kind", ["request", "reply"])
@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("markers", [True, False])
@pytest.mark.parametrize(
    ("octets", "more"),
    [
        (octets, more)
        for octets in (0, 40, 512)
        for more in (-40, -8, -4, -1, 1, 3, 4, 100, 65_000)
        if octets + more >= 0
    ],
)
def test_pd_length_that_does_not_count_what_was_sent(
    kind: Kind, crc: bool, markers: bool, octets: int, more: int
) -> None:
    wrong: dict[str, Any] = {"private_data": bytes(1 + at % 250 for at in range(octets)), "pd_length": octets + more}
    frames = [frame(one, m=markers, c=crc, **(wrong if one == kind else {})) for one in ("request", "reply")]
    (mpa,) = read(conversation(frames[0], frames[1], crc=crc, markers=markers).segments)
    assert fpdus(mpa) == [8, 4]
    found = mpa.frames[kind == "reply"]
    assert found is not None
    assert found.startup.pd_length == octets + more
    assert found.startup.private_data == wrong["private_data"]
    assert mpa.is_accepted


REQUEST, REPLY = frame("request"), frame("reply")


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("markers", [True, False])
@pytest.mark.parametrize(
    ("kinds", "keys", "initiator"),
    [
        (("request", "reply"), (b"MPA ID Req Framf", REPLY_KEY), 0),
        (("request", "reply"), (REQUEST_KEY, b"mpa id rep frame"), 0),
        (("request", "request"), (REQUEST_KEY, REQUEST_KEY), 0),
        (("reply", "reply"), (REPLY_KEY, REPLY_KEY), 0),
    ],
)
def test_a_key_that_is_wrong(
    kinds: tuple[Kind, Kind], keys: tuple[bytes, bytes], initiator: int, crc: bool, markers: bool
) -> None:
    frames = [frame(kind, m=markers, c=crc, key=key) for kind, key in zip(kinds, keys, strict=True)]
    (mpa,) = read(conversation(frames[0], frames[1], crc=crc, markers=markers).segments)
    assert fpdus(mpa) == [8, 4]
    assert mpa.initiator == initiator
    assert mpa.is_accepted


@pytest.mark.parametrize(
    ("request_", "reply", "count"),
    [
        (REQUEST, b"HTTP/1.1 200 OK\r\n\r\n!", [8, 4]), (REQUEST, b"", [8, 4]), (b"", REPLY, [8, 4]),
        (b"MPA", b"nothing", [8, 4]),
    ],
)  # fmt: skip
def test_fpdus_are_read_where_octets_show_them(request_: bytes, reply: bytes, count: list[int]) -> None:
    (mpa,) = read(conversation(request_, reply).segments)
    assert fpdus(mpa) == count


@pytest.mark.parametrize(
    ("answer", "beginning"),
    [(frame("request"), None), (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"HTTP/1.1 400 Bad"), (REPLY[:17], None)],
)
def test_what_is_not_accepted_begins_nothing(answer: bytes, beginning: bytes | None) -> None:
    talk = Talk().open().put(0, 1, REQUEST, ack=1).put(1, 1, answer, ack=21)
    (mpa,) = read(talk.put(0, 21, flags=FIN | ACK, ack=1 + len(answer)).segments)
    assert not mpa.has_begun
    assert (mpa.unexpected.beginning if mpa.unexpected is not None else None) == beginning
    part = mpa.parts[1]
    assert (part.octets if part is not None else None) == (answer if answer == REPLY[:17] else None)


def test_a_frame_that_is_right_is_not_doubted_for_what_follows_in_its_segment() -> None:
    """The first FPDU comes with the Reply: it is placed by that frame."""
    octets, _ = stream(100)
    talk = Talk().open().put(0, 1, REQUEST, ack=1).put(1, 1, REPLY + octets, ack=21)
    mpa = Receiver()
    mpa.feed(talk.segments)
    ((_, found),) = mpa.finish()
    assert not found.is_accepted
    reader = found.readers[1]
    assert reader is not None
    assert [fpdu.known[0] for fpdu, _ in reader.passed if isinstance(fpdu, LocatedFPDU)] == [5]


def test_a_reply_before_which_octets_come_later() -> None:
    """The Initiator has received an octet of the first FPDU, too: the Reply does not end behind that."""
    talk, reply = Talk().open(), frame("reply")
    first, _ = stream(1000, 40)
    talk.put(0, 1, frame("request"), ack=3).put(1, 3, reply + first[:1], ack=21)
    talk.put(0, 21, stream(44)[0], ack=3 + len(reply) + 1)
    talk.put(1, 4 + len(reply), first[1:2]).put(1, 6 + len(reply), first[3:]).put(1, 5 + len(reply), first[2:3])
    (mpa,) = read(talk.put(1, 1, b"HI").segments)
    assert fpdus(mpa) == [1, 2]
    assert mpa.frames[1] is not None
    assert mpa.frames[1].startup.private_data == b""


def test_the_beginning_of_a_key() -> None:
    assert [beginning_of_key(b"x" + REQUEST_KEY[:length]) for length in range(10)] == [*range(9), 0]


# --- after a rejection ---


@pytest.mark.parametrize("order", ["in turn", "Requests first", "packed"])
def test_each_request_after_a_rejection_begins_a_connection(order: str) -> None:
    found = read(rejected(100, order).segments)
    assert len(found) == 100
    assert all(mpa.rejected and mpa.frames[0] is not None for mpa in found)
    assert found == found[-1].chain
    assert [mpa.frames[0].seq - found[0].frames[0].seq for mpa in found] == [  # type: ignore[union-attr]
        20 * number for number in range(100)
    ]


@pytest.mark.parametrize("between", [b"", b"so let us go on streaming", bytes(100_000)], ids=len)
def test_rejected_and_accepted(between: bytes) -> None:
    talk, at = rejected(1), 21
    for start in range(0, len(between), 1400):
        part = between[start : start + 1400]
        talk.put(0, at, part, ack=at).put(1, at, part, ack=at + len(part))
        at += len(part)
    talk.put(0, at, REQUEST, ack=at).put(1, at, REPLY, ack=at + 20)
    octets, _ = stream(100, 300)
    talk.put(0, at + 20, octets, ack=at + 20)
    first, second = read(talk.segments)
    assert (first.rejected, second.rejected) == (True, False)
    assert first.after_rejection == [None, None]
    assert fpdus(second) == [2, 0]
    for mpa in (first, second):
        found = mpa.frames[0]
        assert found is not None
        assert mpa.connection.halves[0].space.seq_of(found.start) == found.seq


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("size", [1400, 30])
@pytest.mark.parametrize("is_fpdu", [True, False])
def test_an_fpdu_after_a_rejection(crc: bool, size: int, is_fpdu: bool) -> None:
    talk = Talk().open().put(0, 1, frame("request", c=crc), ack=1).put(1, 1, frame("reply", c=crc, r=1), ack=21)
    octets = stream(100, crc=crc)[0] if is_fpdu else b"then without MPA, as we did before: " * 4
    for at in range(0, len(octets), size):
        talk.put(0, 21 + at, octets[at : at + size], ack=21)
    (mpa,) = read(talk.segments)
    assert mpa.after_rejection == [(6, 6_000_000) if is_fpdu else None, None]


# --- what the user says ---


def test_told_where_it_begins_though_there_are_fpdus_before_it() -> None:
    talk = conversation(REQUEST, REPLY)
    segments = [seg for seg in talk.segments[6:] if seg.length]
    begin = next(seg.seq for seg in segments if seg.key == segments[0].key)
    for start, is_found in ((begin, True), (begin + 700, False)):
        (mpa,) = read(segments, Assumptions(start=(start,)))
        assert mpa.starts_found == ({start} if is_found else set())
        assert min(fpdus(mpa)) > 2
