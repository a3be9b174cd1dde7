"""What a connection keeps for its end: RSTs, FINs, segments that were dropped, late copies, segments of others."""

from __future__ import annotations

import pytest

from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.stream.connection import MOST_RESETS, TCPConnection
from scapy_mpa.stream.copies import RIGHT, Copy, Rival
from scapy_mpa.stream.copies import copy_of as make_copy
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.stream.peer_state import PeerState
from scapy_mpa.stream.recent import MOST_COMPARED, RecentBudget, RecentOctets
from scapy_mpa.values.octets import PIECE_LENGTH
from tests.receiver.talk import BEGIN, Talk, stream
from tests.receiver.wire import ACK, FIN, RST, SYN

#: Three FPDUs, and where they end.
OCTETS, FPDUS = stream(100, 100, 100)
SIZE = len(OCTETS) // 3
END = BEGIN + len(OCTETS)


def talk() -> Talk:
    """Return a connection on which the Initiator sent three FPDUs, in frames 6 to 8; frame 9 acknowledges two."""
    return Talk().open().start().bring(OCTETS, SIZE).put(1, BEGIN, ack=BEGIN + 2 * SIZE)


def connection(talk: Talk) -> TCPConnection:
    receiver = Receiver()
    receiver.feed(talk.segments)
    ((_, mpa),) = receiver.finish()
    return mpa.connection


@pytest.mark.parametrize(
    ("seq", "place"),
    [
        (END, "next"),
        (BEGIN + 2 * SIZE, "acknowledged"),
        (BEGIN, "acknowledged"),
        (BEGIN + SIZE, "outside"),
        (END + 1, "window"),
        (BEGIN + 2 * SIZE + 65535 - 1, "window"),
        (BEGIN + 2 * SIZE + 65535, "outside"),
        (0, "outside"),
    ],
)
def test_what_a_rst_is_worth(seq: int, place: str) -> None:
    (reset,) = connection(talk().put(0, seq, flags=RST)).halves[0].resets
    assert (reset.frame, reset.place, reset.offset) == (10, place, seq - BEGIN)
    assert reset.expected == len(OCTETS)
    assert reset.follower is None


def test_what_follows_a_rst() -> None:
    more, _ = stream(50, at=len(OCTETS))
    followed = talk().put(0, END, flags=RST).put(0, END).put(0, END, more).put(0, END + len(more))
    (reset,) = connection(followed).halves[0].resets
    assert reset.follower is not None
    assert (reset.follower.frame, reset.follower.new) == (12, len(more))


def test_many_resets() -> None:
    many = talk()
    for _ in range(MOST_RESETS + 9):
        many.put(0, END, flags=RST)
    half = connection(many).halves[0]
    assert (half.reset_count, len(half.resets)) == (MOST_RESETS + 9, MOST_RESETS)
    assert [half.resets[index].frame for index in (0, -2, -1)] == [10, 8 + MOST_RESETS, 18 + MOST_RESETS]


@pytest.mark.parametrize(
    ("seq", "ack", "fin", "others"),
    [
        (END, END + 1, 10, []),
        (END, None, 10, []),
        # Octets after it were read.
        (END - SIZE, None, None, []),
        # Beyond the window, but acknowledged.
        (END + 70_000, END + 70_001, 10, []),
    ],
)
def test_the_fin_of_a_direction(seq: int, ack: int | None, fin: int | None, others: list[int]) -> None:
    found = talk().put(0, seq, flags=ACK | FIN)
    if ack is not None:
        found.put(1, BEGIN, ack=ack)
    half = connection(found).halves[0]
    assert (None if half.fin_captured is None else half.fin_captured[1]) == fin
    assert [frame for _, frame, _ in half.other_fins] == others
    assert [one.frame for one in half.dropped] == ([] if fin else [10])


def test_a_fin_after_which_octets_come() -> None:
    more, _ = stream(50, at=len(OCTETS))
    found = talk().put(0, END + 20, flags=ACK | FIN).put(0, END, more).put(0, END + len(more), flags=ACK | FIN)
    half = connection(found.put(1, BEGIN, ack=END + len(more) + 1)).halves[0]
    assert half.fin_captured is not None
    assert half.fin_captured[1] == 12
    assert [frame for _, frame, _ in half.other_fins] == [10]


@pytest.mark.parametrize("flags", [SYN, SYN | FIN])
def test_a_syn_with_octets_takes_no_segment_away(flags: int) -> None:
    """Nobody answered it, so it is no connection that others follow (RFC 9293 §3.10.7.4)."""
    more, _ = stream(50, 50, at=len(OCTETS))
    found = talk().put(0, END, more[:60], flags=flags).put(1, BEGIN, ack=END).put(0, END, more)
    receiver = Receiver()
    receiver.feed(found.put(1, BEGIN, ack=END + len(more)).segments)
    first = next(mpa.connection for _, mpa in receiver.finish())
    assert (first.halves[0].first_frame, first.halves[0].last_frame, first.halves[1].last_frame) == (4, 12, 13)


@pytest.mark.parametrize(
    ("seq", "later", "is_dropped"),
    [(END + 70_000, True, True), (END + 70_000, False, False), (END, True, False)],
)
def test_a_fin_beyond_the_window(seq: int, later: bool, is_dropped: bool) -> None:
    """Only an ACK that came later speaks against it."""
    found = talk().put(0, seq, flags=ACK | FIN)
    if later:
        found.put(1, BEGIN, ack=END)
    assert [one.reason for one in connection(found).halves[0].dropped] == [DropReason.OVERWINDOW] * is_dropped


@pytest.mark.parametrize(
    ("start", "ack", "decided_by"), [(0, END, "acknowledged"), (2 * SIZE, BEGIN + 2 * SIZE, "first")]
)
def test_a_late_copy(start: int, ack: int, decided_by: str) -> None:
    octets = bytearray(OCTETS[start : start + SIZE])
    octets[40] ^= 1
    found = talk().put(1, BEGIN, ack=ack).put(0, BEGIN + start, bytes(octets)).put(0, BEGIN, OCTETS)
    (rival,) = connection(found).halves[0].late
    assert (rival.chosen[0], rival.other[0], rival.decided_by) == (6 + start // SIZE, 11, decided_by)
    assert (rival.differs_at, rival.is_late) == (start + 40, True)


def test_a_keep_alive_may_bring_any_octet() -> None:
    assert not connection(talk().put(0, END - 1, b"?")).halves[0].late


@pytest.mark.parametrize(("number", "is_compared"), [(MOST_COMPARED - 1, True), (MOST_COMPARED, False)])
def test_how_many_pieces_are_compared(number: int, is_compared: bool) -> None:
    recent = RecentOctets(RecentBudget())
    for start in range(0, 10 * number + 10, 10):
        recent.keep(start, start, start, RIGHT, memoryview(bytes(10)), 0, 10)
    assert (compared(recent, 0, b"x") is not None) == is_compared


def test_how_much_is_kept_of_all_directions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scapy_mpa.stream.recent.MOST_OCTETS", 3 * (PIECE_LENGTH + 10))
    budget = RecentBudget()
    first, second = RecentOctets(budget), RecentOctets(budget)
    for recent, start in ((first, 0), (second, 0), (first, 10), (second, 10)):
        recent.keep(start, 1, 1, RIGHT, memoryview(bytes(10)), 0, 10)
    kept = [(recent, at) for recent in (first, second) for at in (0, 10) if compared(recent, at, b"x") is not None]
    assert kept == [(first, 10), (second, 0), (second, 10)]


def copy_of(frame: int, octets: bytes) -> Copy:
    return make_copy(frame, frame, DropReason.NONE, RIGHT, octets)


def compared(recent: RecentOctets, start: int, octets: bytes) -> Rival | None:
    return recent.compare(start, start + len(octets), copy_of(9, octets), (), None)


def test_octets_that_were_acknowledged_selectively() -> None:
    peer = PeerState()
    peer.acknowledge(1, 100, -1)
    for low, high in ((150, 200), (300, 400)):
        peer.sack(2, low, high)
    peer.forget(500)  # what was read is counted all the same
    assert [peer.sacked_octets(end) for end in (100, 180, 350, 500)] == [0, 30, 100, 150]
    peer.acknowledge(3, 320, -1)
    assert peer.sacked_octets(500) == 80


# --- other connections on the same addresses and ports ---


def both(first: Talk, second: Talk) -> list[TCPConnection]:
    for seg in second.segments:
        frame, time = len(first.segments) + 1, (len(first.segments) + 1) * 10**6
        first.segments.append(seg.replace(frame=frame, time=time))
    receiver = Receiver()
    receiver.feed(first.segments)
    return [mpa.connection for _, mpa in receiver.finish()]


def closed() -> Talk:
    found = talk().put(1, BEGIN, ack=END).put(0, END, flags=ACK | FIN)
    return found.put(1, BEGIN, flags=ACK | FIN, ack=END + 1).put(0, END + 1, ack=BEGIN + 1)


@pytest.mark.parametrize("late", [5, 0, 3])
def test_a_late_duplicate_of_the_connection_before(late: int) -> None:
    """It is none of the connection that is under way, and does not prolong the one before."""
    first, second = closed(), Talk(iss=(3_000_000, 7_000_000)).open().start()
    second.segments.append(first.segments[late])
    second.bring(OCTETS, SIZE)
    before, now = both(first, second)
    assert before.last_frame == 13
    assert [(one.frame, one.is_earlier) for one in now.late] == [(19, True)]


def test_a_syn_in_the_midst_of_a_connection() -> None:
    found = talk().put(0, 3_000_000, flags=SYN, ack=0)
    found.put(1, BEGIN, ack=END)
    receiver = Receiver()
    connections = [mpa.connection for seg in found.segments if (mpa := receiver.receive(seg)) is not None]
    first, other = connections[0], connections[-2]
    assert ([one.frame for one in other.strays], other.beside) == ([10], first)


def test_recovery_of_a_half_open_connection() -> None:
    """RFC 9293 §3.5.1: the challenge ACK and the RST belong to the connection before."""
    found = Talk().put(0, 0, flags=SYN, ack=0).put(1, 5000, ack=887_000).put(0, 887_000, flags=RST)
    found.put(0, 0, flags=SYN, ack=0).put(1, 0, flags=SYN | ACK, ack=1).put(0, 1, ack=1)
    half = connection(found.start().bring(OCTETS, SIZE)).halves[0]
    assert half.resets == []
    assert half.peer.last_ack_sent == 0
