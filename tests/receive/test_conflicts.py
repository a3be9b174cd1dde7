"""Where a segment differs from octets at hand: the same as octet by octet, and no more is compared than is stated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.craft.packets import Endpoint, FrameMaker
from scapy_mpa.framing.sequence import wrap
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.values.segment import Segment, endpoints, segment
from scapy_mpa.watch.conflicts import Conflict, conflict_of, consumed_between, first_difference

_MAC = b"\x02\0\0\0\0\x01"
_ENDS = Endpoint("10.0.0.1", 1024, _MAC), Endpoint("10.0.0.2", 7471, _MAC)
_MAKER = FrameMaker(*_ENDS)
_KEY = b"\x0a\0\0\x01\x0a\0\0\x02\x04\0\x1d\x2f"
_ORIGIN = 0xFFFFFFF0


def captured(frame: int, offset: int, octets: bytes, *, is_damaged: bool = False) -> Segment:
    """A segment in its packet, with a TCP checksum that is right or wrong."""
    packet = bytearray(_MAKER.frame(octets, seq=wrap(offset, _ORIGIN), ack=1, flags=16, window=9))
    packet[50] ^= 0x55 * is_damaged
    seg = segment(frame, _KEY, wrap(offset, _ORIGIN), octets)
    return seg._replace(buffer=memoryview(bytes(packet)), start=54, end=54 + len(octets), tcp=34)


def test_the_segments_of_these_tests_are_as_they_say() -> None:
    assert endpoints(_KEY) == ("10.0.0.1:1024", "10.0.0.2:7471")


class Sent(NamedTuple):
    """A segment to be captured: its first offset, its octets, whether it is damaged."""

    start: int
    octets: bytes
    is_damaged: bool


_OCTETS = st.binary(min_size=1, max_size=40).map(lambda octets: octets.translate(bytes(i & 1 for i in range(256))))
_SENT = st.builds(Sent, st.integers(0, 1200), _OCTETS, st.booleans())
#: One-octet segments from an offset on, as many as make chunks, and long ones.
_RUNS = st.builds(
    lambda start, count, damaged: [Sent(start + at, bytes([at & 1]), at % 7 == damaged) for at in range(count)],
    st.integers(0, 300),
    st.integers(0, 700),
    st.integers(0, 9),
)
_LONG = st.builds(
    lambda start, length, ones: Sent(start, bytes([*range(2)] * length)[: 2 * length - ones], False),
    st.integers(0, 400),
    st.integers(1, 700),
    st.integers(0, 1),
)


def held_by(sent: Sequence[Sent], consumed: int) -> Reassembly:
    """What is held if these come one after the other, some of which are consumed."""
    stream = Reassembly(_ORIGIN, True)
    for frame, (start, octets, is_damaged) in enumerate(sent, 1):
        stream.commit(captured(frame, start, octets, is_damaged=is_damaged), start, start + len(octets))
    stream.consume(min(consumed, stream.next))
    return stream


def expected(stream: Reassembly, seg: Segment, start: int) -> dict[int, int]:
    """The frames of what is held and differs, each with the first such offset: octet by octet."""
    found: dict[int, int] = {}
    for piece in stream.pieces:
        for offset in range(max(piece.start, start), min(piece.end, start + seg.length)):
            mine = seg.buffer[seg.start + offset - start]
            if mine != piece.seg.buffer[piece.at + offset - piece.start]:
                found.setdefault(piece.seg.frame, offset)
    return found


def check(stream: Reassembly, seg: Segment, start: int) -> Conflict | None:
    """Compare with what is expected, there being nothing consumed that it might differ from."""
    found = expected(stream, seg, start)
    conflict = conflict_of(stream, seg, start, start + seg.length)
    if conflict is None:
        assert not found
        return None
    is_wrong = {piece.seg.frame: stream.checksums.is_wrong(piece.seg) for piece in stream.pieces}
    damaged = {frame: offset for frame, offset in found.items() if is_wrong[frame]}
    assert {other.frame: offset for offset, other in conflict.damaged()} == damaged
    assert conflict.has_damaged == bool(damaged)
    assert conflict.most_others >= len(found) > 0
    rest = [(offset, frame) for frame, offset in found.items() if not is_wrong[frame]]
    rival = conflict.rival()
    assert (rival and (rival[0], rival[1].frame)) == min(rest, default=None)
    return conflict


@given(st.lists(_SENT, max_size=12), _RUNS, st.one_of(_LONG, _SENT), st.booleans())
def test_what_is_held_differs_as_octet_by_octet(sent: list[Sent], run: list[Sent], one: Sent, first: bool) -> None:
    stream = held_by([*sent, *run] if first else [*run, *sent], 0)
    seg = captured(9999, one.start, one.octets)
    check(stream, seg, one.start)
    # Of chunks it is known by now which segments are damaged: the same, and so when some have been withdrawn.
    conflict = check(stream, seg, one.start)
    if conflict is not None:
        stream.withdraw([other for _, other in conflict.damaged()])
        conflict = check(stream, seg, one.start)
        assert conflict is None or not conflict.has_damaged
    stream.release()
    check(stream, seg, one.start)


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 300))
def test_the_first_difference(one: bytes, two: bytes, start: int) -> None:
    length = min(len(one), len(two))
    one, two = one[:length], two[:length]
    differing = [at for at in range(start, length) if one[at] != two[at]]
    assert first_difference(one, two, start) == (differing[0] if differing else None)
    assert first_difference(one, one[:start] + two[start:], 0) == first_difference(one, two, start)


@pytest.mark.parametrize(("copies", "is_seen"), [(1, True), (14, True), (40, False)])
def test_of_too_many_copies_that_were_consumed_nothing_is_said(copies: int, is_seen: bool) -> None:
    """Each brought one octet that was new, so that any of them may have been taken."""
    stream = held_by([Sent(at, bytes(1000), False) for at in range(copies)], 10_000)
    other = captured(9999, 0, b"\1" * 1000)
    consumed, are_all = consumed_between(stream, 0, 1000)
    assert (are_all, len(consumed) == copies) == (is_seen, is_seen)
    conflict = conflict_of(stream, other, 0, 1000)
    assert (conflict is not None) == is_seen
    if conflict is not None:
        rival = conflict.rival()
        assert rival is not None
        assert (rival[0], rival[1].frame) == (0, 1)


def test_a_checksum_is_computed_once_and_known_when_the_segment_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def count(seg: Segment) -> bool:
        computed.append(seg.frame)
        return False

    monkeypatch.setattr("scapy_mpa.values.checksums.checksum_is_wrong", count)
    stream = held_by([Sent(0, bytes(9), True)], 0)
    for number in range(5):
        conflict = conflict_of(stream, captured(10 + number, 0, b"\1" * 9), 0, 9)
        assert conflict is not None
        assert not conflict.has_damaged
        stream.release()
    assert computed == [1]
