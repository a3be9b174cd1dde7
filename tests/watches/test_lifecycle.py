"""How a connection ends: what comes first, RSTs that count, retransmissions in vain, what was not acknowledged."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.receiver.values import Breach
from scapy_mpa.stream.connection import Follower, Reset, Retransmissions
from scapy_mpa.values.lifecycle import Terminated
from scapy_mpa.watches.counts import Sent
from scapy_mpa.watches.lifecycle import (
    DirectionEnd,
    Rejection,
    breaches_at_end,
    closed_by,
    half_end,
    lifecycle,
    refused,
    rejected,
)
from tests.watches.values import SECOND, changed

FIRST = 1, SECOND
#: 300 octets were sent up to frame 20, all of them acknowledged.
PLAIN = DirectionEnd((20, 20 * SECOND), None, (), 0, Retransmissions(), 0, 300, 300)
LACKING = changed(PLAIN, acknowledged=200, messages=2)
REPLY = StartupFrame("reply", 0, 0, 1, 0, 0, 1, 0, b"")
UNACKNOWLEDGED = (
    "octets{} were not acknowledged when their {} reset the connection "
    "(RST, frame 30); seq is that of the first of them"
)
CLOSED = "{} after the error of frame {}, without a Terminate"
GONE = Terminated(14, None, None, None)


def reset(frame: int, place: str = "next", offset: int = 300, follower: Follower | None = None) -> Reset:
    return Reset(frame, frame * SECOND, offset, place, 300, None, follower)


def resetting(*resets: Reset, end: DirectionEnd = PLAIN) -> DirectionEnd:
    return changed(end, resets=resets, reset_count=len(resets))


def again(count: int, first: int, at: int = 200) -> Retransmissions:
    found = Retransmissions()
    for frame in range(first, first + count):
        found.note(at, frame, frame * SECOND)
    return found


def told(breaches: Iterable[Breach]) -> list[tuple[str, int, str]]:
    return [(one.rule, one.frame, one.detail) for one in breaches]


FOLLOWER = Follower(31, 31 * SECOND, 300, 0)
FIN = 300, 12, 12 * SECOND


@pytest.mark.parametrize(
    ("mine", "peer", "rejection", "ended"),
    [
        (PLAIN, PLAIN, 0, ("open", None, None)),
        (changed(PLAIN, fin=FIN), PLAIN, 0, ("fin", "initiator", 12)),
        (PLAIN, changed(PLAIN, fin=FIN), 0, ("fin", "responder", 12)),
        (changed(PLAIN, fin=FIN), resetting(reset(11)), 0, ("rst", "responder", 11)),
        (changed(PLAIN, fin=FIN), resetting(reset(11, "outside")), 0, ("fin", "initiator", 12)),
        (changed(PLAIN, fin=FIN), resetting(reset(11, "window", follower=FOLLOWER)), 0, ("fin", "initiator", 12)),
        (changed(PLAIN, fin=FIN), resetting(reset(11, "window")), 0, ("rst", "responder", 11)),
        (changed(PLAIN, fin=FIN), resetting(reset(11, "acknowledged", follower=FOLLOWER)), 0, ("rst", "responder", 11)),
        (PLAIN, changed(PLAIN, terminated=GONE, fin=(300, 15, 15)), 0, ("terminate", "responder", 14)),
        # In one frame.
        (PLAIN, changed(PLAIN, terminated=GONE, fin=(300, 14, 14)), 0, ("terminate", "responder", 14)),
        (changed(PLAIN, fin=FIN), PLAIN, 12, ("rejected", "responder", 12)),
        (changed(LACKING, retransmissions=again(3, 21)), PLAIN, 0, ("lost", None, 23)),
    ],
)
def test_what_ended_it(
    mine: DirectionEnd, peer: DirectionEnd, rejection: int, ended: tuple[str, str | None, int | None]
) -> None:
    reply = Rejection(0, (rejection, 0), REPLY) if rejection else None
    found = lifecycle(FIRST, mine, peer, reply)
    assert (found.ended, found.ended_by, found.ended_frame) == ended
    assert found.first == FIRST
    assert found.last == max(mine.last_moment, peer.last_moment)
    accepted = [one.frame for one in (*mine.accepted_resets, *peer.accepted_resets)]
    assert found.reset_frame == min(accepted, default=None)


@pytest.mark.parametrize(
    ("retransmissions", "peer_last", "count"),
    [
        (again(3, 21), 20, 3),
        (again(2, 21), 20, 0),  # RFC 9293 §3.8.3: after three
        (again(5, 21), 22, 0),  # the peer sent something since
        (again(3, 21, at=100), 20, 0),  # acknowledged since
    ],
)
def test_retransmissions_in_vain(retransmissions: Retransmissions, peer_last: int, count: int) -> None:
    mine, peer = changed(LACKING, retransmissions=retransmissions), changed(PLAIN, last=(peer_last, 0))
    end = half_end(mine, peer)
    assert end.in_vain == count
    found = told(breaches_at_end(mine, peer))
    detail = "3 retransmissions of octets that the peer never acknowledged, 100 octets in all"
    assert found == ([("connection-lost", 23, detail)] if count else [])
    assert half_end(changed(mine, acknowledged=300), peer).in_vain == 0


@pytest.mark.parametrize(
    ("acknowledged", "sacked", "fin", "octets"),
    [(200, 0, None, 100), (200, 40, None, 60), (200, 0, 250, 50), (None, 0, None, 0), (300, 0, None, 0)],
)
def test_octets_that_were_not_acknowledged(acknowledged: int | None, sacked: int, fin: int | None, octets: int) -> None:
    end = None if fin is None else (fin, 9, 9)
    assert changed(PLAIN, acknowledged=acknowledged, sacked=sacked, fin=end).unacknowledged == octets


@pytest.mark.parametrize(
    ("mine", "peer", "expected"),
    [
        (PLAIN, resetting(reset(30)), []),
        (
            LACKING, resetting(reset(30)),
            [("teardown-unacknowledged", 30, f"100 {UNACKNOWLEDGED}".format(" of 2 messages", "receiver"))],
        ),
        (
            resetting(reset(30), end=changed(LACKING, messages=0)), PLAIN,
            [
                ("teardown-unacknowledged", 30, f"100 {UNACKNOWLEDGED}".format("", "sender")),
                ("teardown-reset", 30, "RST without a FIN before it"),
            ],
        ),
        (resetting(reset(30), end=changed(LACKING, is_in_operation=False)), PLAIN, []),
        (resetting(reset(30), reset(32)), PLAIN, [("teardown-reset", 32, "RST without a FIN before it")]),
        (resetting(reset(30), end=changed(PLAIN, fin=FIN)), PLAIN, []),
        (resetting(reset(30)), changed(PLAIN, terminated=GONE), []),
        # After an error there is nothing left to be read.
        (resetting(reset(30)), changed(PLAIN, error_frame=31), []),
        (resetting(reset(30)), changed(PLAIN, error_frame=29), [("error-closed", 30, CLOSED.format("RST", 29))]),
        (changed(PLAIN, fin=FIN), changed(PLAIN, error_frame=11), [("error-closed", 12, CLOSED.format("FIN", 11))]),
        (changed(PLAIN, fin=FIN), changed(PLAIN, error_frame=12), []),
        # Who reads the dialect of its peer need not break off.
        (changed(PLAIN, fin=FIN), changed(PLAIN, error_frame=11, is_deviating=True), []),
        (changed(PLAIN, fin=FIN, terminated=GONE), changed(PLAIN, error_frame=11), []),
        # The Terminate may be what is missing.
        (changed(PLAIN, fin=FIN, has_gap=True), changed(PLAIN, error_frame=11), []),
    ],
)  # fmt: skip
def test_the_end_of_a_direction(mine: DirectionEnd, peer: DirectionEnd, expected: list[tuple[str, int, str]]) -> None:
    assert told(breaches_at_end(mine, peer)) == expected


@pytest.mark.parametrize(("segments", "is_deviating", "rules"), [(9, 0, []), (10, 0, ["error-went-on"]), (10, 1, [])])
def test_a_receiver_that_goes_on_after_an_error(segments: int, is_deviating: bool, rules: list[str]) -> None:
    """As much as an initial window has (RFC 6928 §2) was sent after the error was acknowledged."""
    mine = changed(PLAIN, went_on=Sent(300, 21, 20 + segments, segments, 500))
    found = told(breaches_at_end(mine, changed(PLAIN, error_frame=20, is_deviating=bool(is_deviating))))
    assert [one[0] for one in found] == rules
    assert [one[2] for one in found] == ["500 octets in frames 21 to 30, after the error of frame 20 was acknowledged"][
        : len(rules)
    ]


GOES_ON = ": the connection goes on"
FOLLOWS = "a segment follows the RST of frame 30, whose sequence number was not the next"


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (
            reset(30, "outside", 900),
            [(30, f"a RST, 600 octets after the next octet in order, outside the window{GOES_ON}")],
        ),
        (reset(30, "outside", -9), [(30, f"a RST, 9 octets before the first octet of the connection{GOES_ON}")]),
        (reset(30, "window", 310), []),
        (reset(30, "window", 310, FOLLOWER), [(31, FOLLOWS)]),
        # An acknowledgement that the network brings late.
        (reset(30, "next", 300, FOLLOWER), []),
        (reset(30, "next", 300, FOLLOWER._replace(new=84)), [(31, "84 octets after the RST of frame 30")]),
    ],
)  # fmt: skip
def test_a_reset_of_somebody_else(one: Reset, expected: list[tuple[int, str]]) -> None:
    found = breaches_at_end(resetting(one, end=changed(PLAIN, fin=FIN)), PLAIN)
    assert [(breach.frame, breach.detail) for breach in found if breach.rule == "attack-reset"] == expected


def test_resets_are_counted() -> None:
    mine = changed(resetting(reset(30), reset(31, "outside"), reset(32)), reset_count=81)
    assert half_end(mine, PLAIN).resets == 80
    assert half_end(PLAIN, mine)[:2] == ("rst", 30)
    assert half_end(changed(PLAIN, fin=FIN), mine)[:2] == ("fin", 12)


@pytest.mark.parametrize(
    ("mine", "peer", "how"),
    [
        (PLAIN, PLAIN, None),
        (changed(PLAIN, fin=FIN), resetting(reset(9)), ("FIN", 12, 300)),
        # A FIN takes a number, too, and may not have been captured.
        (resetting(reset(9, offset=400)), PLAIN, ("RST", 9, 399)),
        (resetting(reset(9)), resetting(reset(10)), ("RST", 10, 300)),
    ],
)
def test_how_a_direction_was_closed(mine: DirectionEnd, peer: DirectionEnd, how: tuple[str, int, int] | None) -> None:
    found = closed_by(mine, peer)
    assert (None if found is None else (found.how, found.moment[0], found.sent)) == how


@pytest.mark.parametrize(
    ("private_data", "detail"),
    [(b"", "a Reply with R"), (b"no", "a Reply with R, 2 octets of Private Data of the ULP")],
)
def test_a_rejection(private_data: bytes, detail: str) -> None:
    found = rejected(Rejection(1, (5, 5), REPLY._replace(private_data=private_data)))
    assert told([found]) == [("startup-rejected", 5, detail)]


@pytest.mark.parametrize(
    ("start", "server_start", "ack", "count"),
    [(0, None, 0, 2), (0, None, 1, None), (0, None, None, None), (0, 0, 0, None), (None, None, 0, None)],
)
def test_a_syn_that_is_refused(start: int | None, server_start: int | None, ack: int | None, count: int | None) -> None:
    server = resetting(*(reset(frame)._replace(ack=ack) for frame in (2, 4)), end=changed(PLAIN, start=server_start))
    found = refused(changed(PLAIN, start=start), server, "A > B")
    assert (None if found is None else found[1]) == count
    if found is not None:
        assert told([found[0]]) == [("tcp-refused", 2, "A > B: a SYN is answered with a RST")]
