"""Where copies of octets differ: the same as octet by octet, within what was asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.stream.copies import RIGHT, Copies, copy_of, first_difference
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.stream.peer_state import PeerState

_OCTETS = st.binary(min_size=1, max_size=40).map(lambda octets: octets.translate(bytes(i & 1 for i in range(256))))
_SENT = st.lists(st.tuples(st.integers(0, 100), _OCTETS), max_size=12)


@given(_SENT, st.integers(0, 100), st.integers(0, 100))
def test_what_is_held_differs_as_octet_by_octet(sent: list[tuple[int, bytes]], start: int, length: int) -> None:
    copies = Copies(PeerState())
    held: dict[int, list[tuple[int, int]]] = {}
    for frame, (at, octets) in enumerate(sent, 1):
        copies.add(at, at + len(octets), copy_of(frame, frame, DropReason.NONE, RIGHT, octets))
        for offset, octet in enumerate(octets, at):
            held.setdefault(offset, []).append((frame, octet))
    end = start + length
    # The first copy of an octet is chosen: nothing speaks against any.
    chosen = {offset: values[0] for offset, values in held.items() if start <= offset < end}
    differing = {
        (chosen[offset][0], frame) for offset in chosen for frame, octet in held[offset] if octet != chosen[offset][1]
    }
    found = copies.rivals(start, end)
    for rival in found:
        assert start <= rival.start < rival.end <= end
        if rival.differs_at is not None:
            before = chosen[rival.differs_at]
            assert before[0] == rival.chosen[0]
            assert dict(held[rival.differs_at])[rival.other[0]] != before[1]
            assert rival.octets[rival.differs_at - rival.start] != before[1]
    pairs = {(rival.chosen[0], rival.other[0]) for rival in found if rival.differs_at is not None}
    assert pairs <= differing
    for offset, (first, octet) in chosen.items():
        # Of each pair of frames there is one place; a copy that equals another one is a retransmission of that.
        for other in {value for _, value in held[offset]} - {octet}:
            assert any((first, frame) in pairs for frame, value in held[offset] if value == other)


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_first_difference(one: bytes, two: bytes) -> None:
    differing = [at for at, (mine, other) in enumerate(zip(one, two, strict=False)) if mine != other]
    assert first_difference(one, two) == (differing[0] if differing else None)
    assert first_difference(one, one) is None
