"""What was acknowledged by a frame, and by which frame, where older acknowledgements are let go of."""

from __future__ import annotations

from scapy_mpa.stream.peer_state import MOST_ACKS, NEVER, PeerState


def acknowledging(count: int) -> PeerState:
    """Frames 10, 20, ... acknowledge 100, 200, ... octets."""
    peer = PeerState()
    for number in range(1, count + 1):
        peer.acknowledge(10 * number, 100 * number, 1 << 16)
    return peer


def test_what_a_frame_had_acknowledged() -> None:
    peer = acknowledging(5)
    assert [peer.acknowledged_at(frame) for frame in (10, 19, 20, 50, 99)] == [100, 100, 200, 500, 500]
    # Nothing is known of what was acknowledged before the first frame captured.
    assert peer.acknowledged_at(9) == NEVER == PeerState().acknowledged_at(9)


def test_by_which_frame_octets_were_acknowledged() -> None:
    peer = acknowledging(5)
    assert [peer.acknowledged_by(end) for end in (1, 100, 101, 500, 501)] == [10, 10, 20, 50, NEVER]
    assert PeerState().acknowledged_by(0) == NEVER


def test_what_was_let_go_of_is_no_earlier_and_no_less_than_it_was() -> None:
    count = 2 * MOST_ACKS
    peer = acknowledging(count)
    assert peer.acknowledged_at(10) == 100 * (count - MOST_ACKS) >= 100
    peer.forget(100 * (count - 3))
    assert peer.acknowledged_by(100) == 10 * (count - 2) and peer.acknowledged_at(10) == 100 * (count - 3)
    peer.forget(100 * count)
    peer.acknowledge(7000, 100 * count + 1, 1)
    assert peer.acknowledged_at(10) >= 100 and peer.acknowledged_by(100) >= 10
