"""Each number of the stream and of the receiver decides what is told here: right at it, and right beyond it.

`python -m tests.receiver.move_numbers` changes them one by one by a factor of two, and runs these tests.
"""

from __future__ import annotations

import random
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from scapy_mpa.analyzer.followed import Followed
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.infer.inference import Budget
from scapy_mpa.receiver.deviation import DiagnosisBudget
from scapy_mpa.receiver.fpdus import FPDUReader
from scapy_mpa.receiver.inference import infer_half
from scapy_mpa.receiver.receiver import Receiver
from scapy_mpa.receiver.startup import KeySearch, is_garbled_key
from scapy_mpa.receiver.window import FPDUWindow, Layout
from scapy_mpa.stream.connection import Flows, TCPConnection, TCPHalf
from scapy_mpa.stream.copies import RIGHT, UNKNOWN, Copies, Copy
from scapy_mpa.stream.copies import copy_of as make_copy
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.stream.peer_state import NEVER, NOWHERE, PeerState
from scapy_mpa.stream.recent import RecentBudget, RecentOctets
from scapy_mpa.stream.sequence_space import SequenceSpace
from scripts.dev.architecture_picture import DOCUMENT
from scripts.dev.numbers_tables import numbers, with_tables
from tests.receiver.rows import rows
from tests.receiver.talk import BEGIN, MILLISECOND, Talk, stream
from tests.receiver.wire import ACK, SYN, crc32c, rdma_write, send

SECOND = 10**9
MIB = 1 << 20
REQUEST = b"MPA ID Req Frame" + bytes((0x40, 1, 0, 0))


def noise(octets: int, seed: int = 1) -> bytes:
    """Octets that are nothing."""
    return random.Random(seed).getrandbits(8 * octets).to_bytes(octets, "big")


def copy_of(octets: bytes, frame: int = 1) -> Copy:
    return make_copy(frame, frame * MILLISECOND, DropReason.NONE, UNKNOWN, octets)


def half_of(octets: bytes, *, size: int = 1400, at: int = 0) -> TCPHalf:
    """A direction whose octets were captured in segments of a size, in order."""
    half = TCPHalf()
    half.begin(1, False)
    for number, start in enumerate(range(0, len(octets), size), 1):
        part = octets[start : start + size]
        half.hold(at + start, at + start + len(part), copy_of(part, number))
    return half


def raw_fpdu(ulpdu: bytes, *, is_good: bool = True) -> bytes:
    """An FPDU without Markers, whatever its ULPDU is."""
    body = len(ulpdu).to_bytes(2, "big") + ulpdu
    body += bytes(-len(body) % 4)
    return body + (crc32c(body) ^ (not is_good)).to_bytes(4, "little")


def crcs(found: list[dict[str, Any]]) -> list[str]:
    return [row["crc"] for row in found]


# --- the page ---


def test_the_page_has_the_numbers_and_each_has_a_reason() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert with_tables(document) == document, "python -m scripts.dev.numbers_tables"
    assert not [number.name for number in numbers() if not number.reason]


# --- where a sequence number is ---


def test_near() -> None:
    """An ACK within 64 MiB of what is known is believed at once."""
    for ahead, acknowledged in ((1 << 26, BEGIN - 1 + (1 << 26)), ((1 << 26) + 1, BEGIN - 1)):
        receiver = Receiver()
        receiver.feed(Talk().open().start().put(1, BEGIN).put(1, BEGIN, ack=BEGIN + ahead).segments)
        mpa = receiver.receive(Talk().put(0, 1).segments[0])
        assert mpa is not None
        half = mpa.connection.halves[0]
        assert half.peer.last_ack_sent is not None
        assert half.peer.last_ack_sent - (half.start or 0) == acknowledged


def test_largest_window() -> None:
    """What lies a whole window behind is old; what lies farther behind is ahead, behind a hole."""
    for behind, is_old in ((1 << 30, True), ((1 << 30) + 1, False)):
        space = SequenceSpace()
        space.begin(0)
        offset = space.offset_of(-behind, 0, -1)
        assert (offset == -behind) is is_old


def test_half() -> None:
    space = SequenceSpace()
    space.begin(0)
    assert space.nearest((1 << 31) - 1) == ((1 << 31) - 1, (1 << 31) - 1)
    assert space.nearest(5 << 29) == (3 << 29, -(3 << 29))


@pytest.mark.parametrize(("rcv_wnd", "window"), [(-1, 1 << 30), (1 << 29, 1 << 29)])
def test_what_is_within_a_window_behind(rcv_wnd: int, window: int) -> None:
    """It lies behind the place met last, other numbers that are near no place lie ahead."""
    for behind, is_behind in ((window, True), (window + 1, False)):
        space = SequenceSpace()
        space.begin(0)
        space.offset_of(0, 1 << 31, rcv_wnd)
        assert space.place((1 << 31) - behind, rcv_wnd, NOWHERE) == (1 << 31) - behind + (0 if is_behind else 1 << 32)


def test_most_places() -> None:
    """A stream is found again after seven strays, not after eight."""
    for strays, is_found in ((7, True), (8, False)):
        space = SequenceSpace()
        space.begin(0)
        for number in range(strays):
            space.offset_of((1 + number) << 28, 0, 1000)
        assert (space.offset_of(100, 0, 1000) == 100) is is_found


def test_close() -> None:
    """Where a hole makes one number far, the other one speaks for a connection within 1 MiB."""
    for ahead, belongs in ((1 << 20, True), ((1 << 20) + 1, False)):
        connection = TCPConnection()
        for half in connection.halves:
            half.begin(0, True)
        segment = Talk((0, 0)).put(0, ahead, b"x", ack=1 << 31).segments[0]
        assert (connection.misfit(segment, 0) is not None) is belongs


def test_most_before_syn() -> None:
    """A SYN that was captured late is that of octets up to a window that is not scaled after it."""
    for ahead, belongs in ((65536, True), (65537, False)):
        flows = Flows(lambda _: SimpleNamespace(is_mpa=False))
        first = flows.receive(Talk().put(0, 1 + ahead, b"x").segments[0])[0]
        assert (flows.receive(Talk().put(0, 0, flags=SYN).segments[0])[0] is first) is belongs


@pytest.mark.parametrize("is_read", [False, True])
def test_most_connections_on_the_same_ports(is_read: bool) -> None:
    """The connection that was used least lately of nine is out of reach."""
    for others, is_reached in ((7, True), (8, False)):
        flows = Flows(lambda _: SimpleNamespace(is_mpa=is_read))
        talks = [Talk((number << 28, number << 28)) for number in range(others + 1)]
        first, *_ = [flows.receive(talk.put(0, 0, flags=SYN).segments[0])[0] for talk in talks]
        answer = talks[0].put(1, 0, flags=SYN | ACK, ack=1).segments[1]
        assert (flows.receive(answer)[0] is first) is is_reached
        assert len([*flows]) == 8


def test_beginning_of_a_stray() -> None:
    """The first 16 octets of a segment that fits no connection are kept."""
    flows = Flows(lambda _: SimpleNamespace(is_mpa=False, is_begun_anew_by=lambda _: True))
    flows.receive(Talk().open().segments[0])
    connection = flows.receive(Talk().put(0, 1 << 31, noise(40), ack=1 << 31).segments[0])[0]
    assert connection is not None
    assert [one.beginning for one in connection.strays] == [noise(40)[:16]]


# --- what a receiver drops ---


def test_paws_window() -> None:
    """A timestamp may be older by a tick."""
    for age, reason in ((1, DropReason.NONE), (2, DropReason.PAWS)):
        peer = PeerState()
        peer.take_timestamp(1000, 0)
        assert peer.drop_reason(0, 10, 1000 - age, SECOND, 0) == reason


def test_fastest_clock() -> None:
    """In ten seconds a clock ticks ten million times at most, and a million more are allowed."""
    for newer, reason in ((11_000_000, DropReason.NONE), (11_000_001, DropReason.PAWS)):
        peer = PeerState()
        peer.take_timestamp(1000, 0)
        assert peer.drop_reason(0, 10, 1000 + newer, 10 * SECOND, 0) == reason


def test_tick_slack() -> None:
    for newer, reason in ((1_000_000, DropReason.NONE), (1_000_001, DropReason.PAWS)):
        peer = PeerState()
        peer.take_timestamp(1000, SECOND)
        assert peer.drop_reason(0, 10, 1000 + newer, SECOND - 1, 0) == reason


def test_older() -> None:
    """However long it was silent, a timestamp that differs by half of all is older, not newer."""
    for newer, reason in (((1 << 31) - 1, DropReason.NONE), (1 << 31, DropReason.PAWS)):
        peer = PeerState()
        peer.take_timestamp(1000, 0)
        assert peer.drop_reason(0, 10, 1000 + newer, 3000 * SECOND, 0) == reason


# --- what is remembered of a receiver ---


def test_most_acks() -> None:
    for others, is_known in ((63, True), (64, False)):
        peer = PeerState()
        for ack in range(others + 1):
            peer.acknowledge(1, ack, -1)
        assert peer.has_sent_ack(0) is is_known


def test_most_acknowledged() -> None:
    """Of too many ranges that do not touch, those farthest ahead count as not acknowledged."""
    peer = PeerState()
    for number in range(1 << 16):
        peer.sack(number, 2 * number, 2 * number + 1)
    last = (1 << 17) - 2
    assert peer.acked_frame(last, last + 1) == (1 << 16) - 1
    peer.sack(1 << 16, last + 2, last + 3)
    assert peer.acked_frame(last, last + 1) == NEVER
    assert peer.acked_frame(0, 1) == 0


def test_acknowledged_neighbours_are_joined() -> None:
    peer = PeerState()
    peer.acknowledge(1, 0, -1)
    for number in range(1, 1 << 16):
        peer.acknowledge(number + 1, number, -1)
    assert peer.acked_frame(1, 2) == 3
    peer.acknowledge(1 << 17, 1 << 16, -1)
    assert peer.acked_frame(1, 2) == 4
    assert peer.acked_frame((1 << 16) - 1, 1 << 16) == 1 << 17


def test_most_resets() -> None:
    half = half_of(b"x")
    for number in range(65):
        half.reset(number, 0, number, None)
    assert (len(half.resets), half.reset_count) == (64, 65)


def test_most_fins() -> None:
    """The FIN that is acknowledged is found among the last eight."""
    for others, fin in ((7, 10), (8, None)):
        half = half_of(b"x")
        for number in range(others + 1):
            half.note_fin(10 + 10 * number, number, 0)
        half.acknowledge(100, 11, -1)
        assert half.fin == fin


# --- copies ---


def test_most_rivals() -> None:
    """Twelve copies are held beside the first."""
    copies = Copies(PeerState())
    for frame in range(1, 14):
        copies.add(0, 4, copy_of(bytes((frame,)) * 4, frame))
    assert (copies.dropped, copies.held) == (0, 13 * 4)
    copies.add(0, 4, copy_of(b"last", 14))
    assert (copies.dropped, copies.held) == (1, 13 * 4)


def test_frames_tried_for_an_fpdu() -> None:
    """Twelve frames are tried, the first ones."""
    for others, is_found in ((11, True), (12, False)):
        copies = Copies(PeerState())
        copies.add(0, 100, copy_of(bytes(100)))
        for number in range(others):
            copies.add(number, number + 1, copy_of(b"x", 2 + number))
        copies.add(50, 51, copy_of(b"y", 50))
        assert copies.make_valid(0, 100, lambda: 100 * (bytes(copies.octets(50, 51)) == b"y")) is is_found  # noqa: B023


def test_most_contested() -> None:
    copies = Copies(PeerState())
    copies.add(0, 4000, copy_of(bytes(4000)))
    for number in range(128):
        copies.add(2 * number, 2 * number + 1, copy_of(b"x", 2))
    assert copies.dropped == 0
    copies.add(3000, 3001, copy_of(b"x", 2))
    assert copies.dropped == 1


def test_most_failed() -> None:
    """Of so many FPDUs that no choice made valid it is known that there is no need to try again; not of one more."""
    copies = Copies(PeerState())

    def try_(number: int) -> bool:
        """Return True if other copies of an FPDU were tried."""
        tried: list[int] = []

        def valid_end() -> int:
            tried.append(number)
            return 0

        assert not copies.make_valid(100 * number, 100 * number + 100, valid_end)
        return bool(tried)

    copies.add(0, 6500, copy_of(bytes(6500)))
    for number in range(65):
        copies.add(100 * number, 100 * number + 1, copy_of(b"x", 2))
    assert all(try_(number) for number in range(64))
    assert not try_(0)
    assert try_(64)
    assert try_(0)


def test_octets_read_lately() -> None:
    """Octets of 85,598 segments of one octet are remembered, of all directions together: 4 MiB."""
    for others, is_found in ((85_597, True), (85_598, False)):
        budget = RecentBudget()
        recent, other = RecentOctets(budget), RecentOctets(budget)
        recent.keep(0, 1, 1, RIGHT, memoryview(b"a"), 0, 1)
        for at in range(others):
            other.keep(at, 1, 1, RIGHT, memoryview(b"b"), 0, 1)
        assert (recent.compare(0, 1, copy_of(b"x", 2), (), None) is not None) is is_found


def test_pieces_read_lately() -> None:
    """A late copy is compared with 64 pieces of its direction."""
    for others, is_found in ((63, True), (64, False)):
        recent = RecentOctets(RecentBudget())
        for at in range(others + 1):
            recent.keep(at, 1, 1, RIGHT, memoryview(b"a"), 0, 1)
        assert (recent.compare(0, 1, copy_of(b"x", 2), (), None) is not None) is is_found


# --- startup frames ---


def test_most_candidates() -> None:
    """Sixty-three Keys that were begun and not gone on with hide no Request, sixty-four do."""
    request = b"MPA ID Req Frame" + bytes((0x40, 1, 0, 0))
    for begun, is_found in ((63, True), (64, False)):
        half = TCPHalf()
        half.begin(1, False)
        search = KeySearch(half)
        for number in range(begun):
            half.hold(100 * number, 100 * number + 12, copy_of(request[:12]))
            assert search.receive(100 * number, 100 * number + 12) is None
        half.hold(10_000, 10_020, copy_of(request))
        assert (search.receive(10_000, 10_020) is not None) is is_found


def test_the_beginning_of_both_keys_over_and_over() -> None:
    """It is no candidate where no Key goes on from it, so it neither hides a Request nor costs time."""
    repeated = b"MPA ID Re" * 1000
    request = b"MPA ID Req Frame" + bytes((0x40, 1, 0, 0))
    half = half_of(repeated)
    search = KeySearch(half)
    assert search.receive(0, len(repeated)) is None
    assert [*search.candidates] == [len(repeated) - 9]
    half.hold(len(repeated), len(repeated) + 20, copy_of(request))
    assert search.receive(len(repeated), len(repeated) + 20) is not None


@pytest.mark.parametrize(
    ("revision", "octets", "is_found"), [(2, 512, True), (3, 512, False), (2, 513, False)], ids=str
)
def test_startup_frame_among_other_octets(revision: int, octets: int, is_found: bool) -> None:
    request = b"MPA ID Req Frame" + bytes((0x40, revision)) + octets.to_bytes(2, "big") + bytes(octets)
    half = half_of(b"x" * 40)
    half.hold(40, 40 + len(request), copy_of(request))
    assert (KeySearch(half).receive(40, 40 + len(request)) is not None) is is_found


def test_pd_length_of_revision_0_has_no_limit() -> None:
    """Where copies of a header compete, one with more than 512 octets of Private Data is no reason to take another."""
    header = b"MPA ID Req Frame" + bytes((0x40, 0)) + (513).to_bytes(2, "big")
    half = TCPHalf()
    half.begin(1, True)
    search = KeySearch(half)
    for number, copy in enumerate((header, header[:18] + bytes(2)), 1):
        half.hold(0, 20, copy_of(copy, number))
        assert search.receive(0, 20) is None
        assert search.header_at(0) == header


@pytest.mark.parametrize(("wrong", "is_garbled"), [(4, True), (5, False)])
def test_octets_of_a_key_that_are_wrong(wrong: int, is_garbled: bool) -> None:
    assert is_garbled_key(bytes(wrong) + REQUEST[wrong:]) is is_garbled


@pytest.mark.parametrize(("revision", "is_meant"), [(8, True), (9, False)])
def test_revision_that_is_meant(revision: int, is_meant: bool) -> None:
    """A tab where Rev should be is text."""
    assert is_garbled_key(b"mpa id req frame" + bytes((0x40, revision, 0, 0))) is is_meant
    half = half_of(b"streaming data" + REQUEST[:17] + bytes((revision,)))
    search = KeySearch(half)
    search.receive(0, 32)
    assert (search.part(None) is not None) is is_meant


@pytest.mark.parametrize(("octets", "is_enough"), [(7, False), (8, True)])
def test_octets_of_a_key_at_first(octets: int, is_enough: bool) -> None:
    half = TCPHalf()
    half.begin(1, True)
    half.hold(0, octets, copy_of(REQUEST[:octets]))
    assert (KeySearch(half).part(None) is not None) is is_enough


# --- what octets show ---


@pytest.mark.parametrize(("before", "is_found"), [(250_000, True), (262_144, False)])
def test_most_examined(before: int, is_found: bool) -> None:
    """Of a run 256 KiB are examined."""
    octets = noise(before) + stream(*[400] * 30, markers=True, at=before)[0]
    inferred = infer_half(half_of(octets), Budget(), None, None)
    assert (inferred is not None and inferred.confirmations > 0) is is_found


def test_most_looked_at() -> None:
    """After 256 KiB of something else a connection is another protocol's, and nothing of it is held."""
    for segments, is_held in ((31, True), (32, False)):
        receiver = Receiver()
        receiver.feed(Talk().open().bring(noise(8192 * segments), 8192, at=1).segments)
        mpa = receiver.receive(Talk().put(1, 1).segments[0])
        assert mpa is not None
        assert (mpa.connection.halves[0].copies.held > 0) is is_held


def test_first_look() -> None:
    """From the middle on, and with CRC, FPDUs are found once 8 KiB were captured, and the others as they come."""
    octets = stream(*[400] * 60)[0]
    talk = Talk().put(0, 1, octets[:1024]).pause(3 * SECOND).bring(octets[1024:], 1024, at=1025)
    found = rows(talk.segments, as_placed=True)
    assert [row["final_frame"] for row in found[:24]] == [8] * 19 + [9, 9, 10, 10, 10]


def test_enough_without_crc() -> None:
    """From the middle on and without CRC two of the longest FPDUs are waited for."""
    octets = stream(*[8000] * 40, crc=False)[0]
    # Octets are looked at where they double, once nothing earlier is to be expected: 64, 128, 256 KiB.
    talk = Talk().bring(octets[:8192], 8192).pause(4 * SECOND)
    talk.bring(octets[8192:], 8192, at=BEGIN + 8192)
    found = rows(talk.segments, as_placed=True)
    assert {row["final_frame"] for row in found[:8]} == {32}


# --- senders that deviate ---


class Beginning:
    """A direction whose beginning is held."""

    def __init__(self, budget: DiagnosisBudget) -> None:
        self._budget = budget
        self.last_frame, self.is_over = 0, False

    def close(self) -> None:
        self._budget.release(self)  # type: ignore[arg-type]


def test_readings() -> None:
    budget = DiagnosisBudget()
    assert sum(budget.pay() for _ in range(30_000)) == 20_000
    budget = DiagnosisBudget(readings=0)
    budget.advance(10)
    assert sum(budget.pay() for _ in range(1000)) == 80


@pytest.mark.parametrize(("octets", "is_room"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_room(octets: int, is_room: bool) -> None:
    """The beginnings of all directions take a mebioctet at most."""
    budget = DiagnosisBudget()
    assert budget.reserve(Beginning(budget), octets) is is_room  # type: ignore[arg-type]


@pytest.mark.parametrize(("frames", "is_room"), [(1 << 14, False), ((1 << 14) + 1, True)])
def test_idle(frames: int, is_room: bool) -> None:
    """A direction that brought nothing in 16,384 frames gives way."""
    budget = DiagnosisBudget()
    assert budget.reserve(Beginning(budget), 1 << 20)  # type: ignore[arg-type]
    budget.advance(frames)
    assert budget.reserve(Beginning(budget), 1) is is_room  # type: ignore[arg-type]


@pytest.mark.parametrize(("segments", "is_held"), [(5000, True), (5300, False)])
def test_piece_weight(segments: int, is_held: bool) -> None:
    """A beginning in segments of one octet takes 201 octets for each: no more than 5,216 of them are held."""
    receiver = Receiver()
    receiver.feed(Talk().open().start().bring(stream(*[20] * 200)[0][:segments], 1).segments)
    mpa = receiver.receive(Talk().put(1, BEGIN).segments[0])
    assert mpa is not None
    assert (mpa.connection.halves[0].copies.held >= segments) is is_held


# --- FPDUs ---


def test_most_bad_in_a_row() -> None:
    """A Marker's FPDU is believed if lengths lead over fifteen bad FPDUs to a good one, over sixteen not."""
    for bad, listed in ((15, 15), (16, 0)):
        octets, fpdus = stream(980, *[2] * bad, *[200] * 4, markers=True)
        assert fpdus[1].start < 1024 < fpdus[1].end
        damaged = bytearray(octets)
        for fpdu in fpdus[1 : bad + 1]:
            damaged[fpdu.end - 1] ^= 1
        hole = fpdus[1].start
        talk = Talk().open().start(markers=True).put(0, BEGIN + hole, bytes(damaged[hole:]))
        assert crcs(rows(talk.segments)).count("bad") == listed


def test_jury() -> None:
    """Where a Marker contradicts lengths, it is decided once four more may be compared."""
    octets, fpdus = stream(*[1000] * 6, markers=True, crc=False)
    wrong = bytearray(octets)
    wrong[fpdus[1].header : fpdus[1].header + 2] = (600).to_bytes(2, "big")
    at = next(at for at in count(512, 512) if at > fpdus[1].end - 500)
    found = []
    for edge in range(at + 3 * 512, at + 6 * 512, 4):
        reader = FPDUReader(half_of(bytes(wrong[:edge])), Layout(True, False), (1, 0))
        reader.begin()
        found.append((edge, len(reader.contradictions)))
    first = next(edge for edge, contradictions in found if contradictions)
    (contradiction,) = reader.contradictions
    assert first == contradiction.marker + 4 * 512 + 4


@pytest.mark.parametrize(("words", "is_found"), [(250, True), (257, False)])
def test_most_crc_octets(words: int, is_found: bool) -> None:
    """CRCs of 4 MiB are computed where no DDP header stands: 255 FPDUs of 16,396 octets each."""
    odd = raw_fpdu(b"\xff\xff" + noise(60))
    octets = b"\x40\x00\xff\xff" * words + odd + noise(17_000)
    talk = Talk().open().start().bring(stream(100)[0], 1400)
    talk.put(0, BEGIN + 10_000, octets)
    starts = [row["seq"] - 1000 - BEGIN - 10_000 for row in rows(talk.segments)[1:]]
    assert (4 * words in starts) is is_found


@pytest.mark.parametrize(("bad", "listed"), [(7, 7), (9, 1)])
def test_most_searched(bad: int, listed: int) -> None:
    """From a bad FPDU on a good one is looked for in eight times the longest FPDU."""
    octets = raw_fpdu(noise(60_000), is_good=False) * bad + stream(100)[0]
    found = rows(Talk().open().start().bring(octets, 60_008).segments)
    assert crcs(found).count("bad") == listed
    assert found[-1]["crc"] == "good"


@pytest.mark.parametrize(("before", "is_found"), [(62, True), (63, True), (64, False)])
def test_near_starts(before: int, is_found: bool) -> None:
    """Where only headers tell FPDUs, they begin with one of 64 pieces rather than elsewhere."""
    inner = stream(*[0] * 70, crc=False)[0]
    talk = Talk().open().start(crc=False).bring(stream(100, crc=False)[0], 1400)
    at = BEGIN + 100_000
    talk.put(0, at, b"\xff" * 4 + inner)
    at += 4 + len(inner)
    for _ in range(before - 1):
        talk.put(0, at, b"\xff" * 4)
        at += 4
    talk.bring(stream(*[200] * 6, crc=False)[0], 224, at=at)
    starts = [row["seq"] - 1000 for row in rows(talk.segments)]
    assert (starts[1] == at) is is_found


def test_enough_bits() -> None:
    """Headers that follow one another are worth 40 bits: 64 if a Write goes on where one ended, 24 of two others."""
    for second, is_found in (((0x77, 20), True), ((0x78, 5000), False)):
        octets = b"".join(raw_fpdu(rdma_write(*place, b"z" * 20)) for place in ((0x77, 0), second))
        talk = Talk().open().start(crc=False).bring(stream(100, crc=False)[0], 1400)
        talk.put(0, BEGIN + 100_000, b"\xff" * 8 + octets)
        assert (len(rows(talk.segments)) > 1) is is_found


def test_control_bits() -> None:
    """The control octets of a sender that deviates are worth 12 bits: four FPDUs are enough without CRC and Markers."""
    dialect = Dialect(False, False, crc_field=False)
    for fpdus, is_found in ((4, True), (3, False)):
        writer, octets = HalfStream(dialect), b"\xff" * 8
        for number in range(1, fpdus + 1):
            octets += writer.lay((send(number, bytes(40)),))[0]
        window = FPDUWindow(memoryview(octets), 0, Layout.of_dialect(dialect))
        assert (window.start_by_headers(0, []) == 8) is is_found


def test_beginning() -> None:
    """What does not fit in the first 16 KiB is an anomaly."""
    for first, is_anomaly in ((16_376, True), (16_384, False)):
        sizes = [first // 2 - 26, first - first // 2 - 26]
        octets = stream(*sizes)[0]
        assert len(octets) == first
        reader = FPDUReader(half_of(octets + raw_fpdu(noise(40), is_good=False)), Layout(False, True), (1, 0))
        reader.begin()
        reader.finish()
        assert (reader.anomaly is not None) is is_anomaly


def test_most_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a hole no more FPDUs than that are begun; the next ones wait until the hole is filled or given up."""
    monkeypatch.setattr("scapy_mpa.receiver.fpdus.MOST_CHAINS", 3)
    octets, fpdus = stream(*[490] * 10, markers=True)
    talk, after = Talk().open().start(markers=True), fpdus[2::2]
    for fpdu in after:
        talk.put(0, BEGIN + fpdu.start, octets[fpdu.start : fpdu.end - 4])
    for fpdu in after:
        talk.put(0, BEGIN + fpdu.end - 4, octets[fpdu.end - 4 : fpdu.end])
    ends = len(talk.segments)
    talk.put(1, BEGIN)
    finals = [(row["frames"][1] - ends, row["final_frame"] - ends) for row in rows(talk.segments, as_placed=True)]
    assert finals == [(-3, -3), (-2, -2), (-1, -1), (0, 1)]


# --- what is given up ---


def test_patience() -> None:
    """Without ACKs a hole is given up after 1024 segments, and three seconds."""
    talk = Talk().open(window=1000).start(window=1000)
    octets, fpdus = stream(2000, *[20] * 1100)
    for fpdu in (fpdus[0], *fpdus[2:]):
        talk.pause(9 * MILLISECOND).put(0, BEGIN + fpdu.start, octets[fpdu.start : fpdu.end])
    found = rows(talk.segments, as_placed=True)
    assert [row["final_frame"] - row["frames"][0] for row in found[:2]] == [0, 1023]


@pytest.mark.parametrize(("pause", "is_given_up"), [(2, False), (3, True)])
def test_patience_time(pause: int, is_given_up: bool) -> None:
    """A hole that the peer acknowledged is given up after three seconds."""
    talk = Talk().open().start()
    octets, fpdus = stream(20, 20, 20, 20)
    talk.put(0, BEGIN, octets[: fpdus[0].end])
    talk.put(0, BEGIN + fpdus[2].start, octets[fpdus[2].start : fpdus[2].end]).put(1, BEGIN, ack=BEGIN + fpdus[2].end)
    talk.pause(pause * SECOND).put(1, BEGIN, ack=BEGIN + fpdus[2].end)
    talk.put(0, BEGIN + fpdus[3].start, octets[fpdus[3].start :])
    (final,) = [row["final_frame"] for row in rows(talk.segments, as_placed=True) if row["frames"] == [7]]
    assert (final < len(talk.segments)) is is_given_up


# --- which connection gives way ---


@pytest.mark.parametrize(
    ("unanswered", "plain", "gives_way"), [(5, 0, "mpa"), (6, 0, "unanswered"), (0, 10, "mpa"), (0, 11, "plain")]
)
def test_shares_of_connections(unanswered: int, plain: int, gives_way: str) -> None:
    """Of twenty that one was idle for longest, unless more than five were not answered or more than ten have no MPA."""
    followed, groups = Followed(20), dict[int, str]()
    kinds = ["mpa"] * (20 - unanswered - plain) + ["plain"] * plain + ["unanswered"] * unanswered
    for number in range(20):
        connection = TCPConnection()
        connection.last_frame = 1 + number
        groups[id(connection)] = group = kinds[number]
        followed.add(connection)
        if group != "unanswered":
            followed.move(connection, group == "mpa")
    assert groups[id(followed.give_way())] == gives_way
