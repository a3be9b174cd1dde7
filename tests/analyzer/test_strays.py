"""Segments in the midst of a connection that belong to none."""

from __future__ import annotations

import pytest

from scapy_mpa.framing.startup import startup_frame
from tests.receive.cases import Side, feed, started

#: Far from all sequence numbers of the connection.
FAR = 1 << 31


@pytest.mark.parametrize("kind", ["request", "reply"])
def test_a_late_duplicate_of_a_startup_frame_is_no_connection(kind: str) -> None:
    """It begins none, and the report, which has a connection for each that is MPA, does not meet it."""
    talk = started()
    octets = talk.lay("a", *[100] * 8)
    for number in range(8):
        talk.at("a", 108 * number, octets[108 * number : 108 * number + 108])
        talk.say("b")
        if number == 4:
            payload = startup_frame("request" if kind == "request" else "reply").encode()
            side: Side = "a" if kind == "request" else "b"
            frame = talk.put(side, talk.next[side] + FAR, payload, ack=talk.next[talk.peer(side)] + FAR)
    receiver = feed([talk.segments])
    (connection,) = receiver.connections
    assert connection.lifecycle is not None
    assert connection.operations["initiator"].counts.fpdus == 8
    assert frame in {found.frame for found in connection.findings.sorted()}
