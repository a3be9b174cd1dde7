"""Segments in the midst of a connection that belong to none."""

from __future__ import annotations

import pytest

from scapy_mpa.craft.packets import PSH, SYN
from scapy_mpa.framing.startup import startup_frame
from tests.receive.cases import Side, Talk, feed, started

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


def test_a_late_duplicate_in_a_direction_of_which_nothing_else_was_captured() -> None:
    """Of the second connection on these ports only one direction was captured, without acknowledgements."""
    talk = started()
    talk.say("b", talk.lay("b", 100))
    late = talk.segments[-1]
    talk.close()
    again = Talk(talk.tap, isn=(1 << 20, 1 << 21))
    again.say("a", flags=SYN, ack=0)
    again.greet("a", startup_frame("request").encode(), flags=PSH)
    again.greet("b", startup_frame("reply").encode(), lost=True)
    again.operate()
    again.say("a", again.lay("a", 100, 100), flags=PSH)
    frame = len(talk.segments) + 1
    talk.segments.append(late.replace(frame=frame, time=talk.tap.time(frame)))
    again.say("a", again.lay("a", 100), flags=PSH)
    _, connection = feed([talk.segments]).connections
    assert connection.operations["initiator"].counts.fpdus == 3
    (found,) = (found for found in connection.findings.sorted() if found.frame == frame)
    assert found.rule.id == "late-duplicate"
    assert found.detail.startswith("108 octets, all that was captured of this direction, where the previous connection")
