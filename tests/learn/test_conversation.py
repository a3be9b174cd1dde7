"""One connection of a peer that is learned, without a socket: what octets, ends and silence are in words."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from scapy_mpa.framing.role import Role
from scapy_mpa.learn.conversation import LearnConversation, Waits
from scapy_mpa.learn.inputs import alphabet
from scapy_mpa.probe.carrier import NotTaken
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.probe.script import BareOctets, Finish, Send
from tests.learn.peers import read_response, reply
from tests.probe.foreign import REPLY, REQUEST

REQUESTED = REQUEST + bytes((0x40, 1, 0, 0))
Came = bytes | None | type[OSError]


class Scripted:
    """A carrier that has octets, b"" for a FIN, None for silence, OSError for a RST; time passes by waiting alone.

    All but silence takes ``pace`` seconds.
    """

    addresses = (("", 0), ("", 0))
    mss = 1460

    def __init__(self, came: Iterable[Came], refuses: type[OSError] | None = None, pace: float = 0.0) -> None:
        self._pace = pace
        self._came, self._refuses, self.now = [*came], refuses, 0.0
        self.sent: list[bytes] = []

    def send(self, step: Send | BareOctets) -> None:
        if self._refuses is NotTaken:
            raise NotTaken(1, 1.0)
        if self._refuses is not None:
            raise self._refuses
        self.sent.append(step.octets)

    def finish(self, step: Finish) -> None:
        self.sent.append(step.how.encode())

    def receive(self, seconds: float) -> bytes | None:
        came = self._came.pop(0) if self._came else None
        if came is None:
            self.now += seconds
            return None
        self.now += self._pace
        if not isinstance(came, bytes):
            raise came
        return came

    def unacknowledged(self) -> int | None:
        return None

    def close(self) -> None:
        self.sent.append(b"closed")


def talk_of(carrier: Scripted, by: Role = "initiator") -> LearnConversation:
    return LearnConversation(carrier, by, Clean(), Waits(0.1, 1.0), lambda: carrier.now)


@pytest.mark.parametrize(
    ("came", "answer", "how"),
    [
        ([], (), None),
        ([reply()], ("Reply",), None),
        ([reply(0x60), b"x"], ("Reply with R",), None),
        ([reply()[:7], reply()[7:], b""], ("Reply", "close"), "fin"),
        ([reply(), read_response(), read_response(), OSError], ("Reply", "RDMA Read Response", "close"), "rst"),
        ([reply()[:7]], ("other octets",), None),
        ([b"HTTP/1.1 400 Bad Request"], ("other octets (startup-key)",), None),
        ([OSError], ("close",), "rst"),
    ],
)
def test_what_answers_a_request(came: list[Came], answer: tuple[str, ...], how: str | None) -> None:
    talk = talk_of(Scripted(came))
    assert talk.step("request", is_due=True) == answer
    assert (talk.how, talk.is_over) == (how, how is not None)
    assert (talk.step("send") == ("over",)) == (how is not None)


def test_what_is_known_is_not_waited_for_longer() -> None:
    carrier = Scripted([reply(), read_response()])
    talk = talk_of(carrier)
    assert talk.step("request", ("Reply",)) == ("Reply",)
    assert talk.step("send", ()) == ()
    assert carrier.now == 0
    assert talk.step("read") == ("RDMA Read Response",)
    assert carrier.now == pytest.approx(0.1)
    assert [len(octets) for octets in carrier.sent] == [20, 28, 52]


def test_a_peer_that_does_not_stop_is_not_read_for_ever() -> None:
    carrier = Scripted([reply(), *[read_response()] * 100], pace=0.05)
    talk = talk_of(carrier)
    talk.step("request", ("Reply",))
    assert talk.step("send") == ("RDMA Read Response",)
    assert carrier.now == pytest.approx(1, abs=0.06)


def test_a_peer_that_does_not_read_and_one_that_is_gone() -> None:
    assert talk_of(Scripted([], NotTaken)).step("request") == ()
    assert talk_of(Scripted([reply()], BrokenPipeError)).step("request") == ("Reply", "close")


def test_an_initiator_that_speaks_before_the_reply() -> None:
    talk = talk_of(Scripted([REQUESTED, read_response(), None, read_response()]), "responder")
    assert talk.begin() == ("Request", "other octets")
    assert talk.step("reply") == ("RDMA Read Response",)


def test_ours_ends_it_too() -> None:
    carrier = Scripted([reply(), None, b""])
    talk = talk_of(carrier)
    talk.step("request", ("Reply",))
    assert talk.step("fin") == ()
    assert talk.step("send") == ("over",)
    talk.close()
    assert carrier.sent[1:] == [b"fin", b"closed"]


@pytest.mark.parametrize("by", ["initiator", "responder"])
def test_hostile_octets_are_words_too(by: Role) -> None:
    inputs = alphabet("responder" if by == "initiator" else "initiator", Clean())
    random = Random(49)
    key = REPLY if by == "initiator" else REQUEST
    for _ in range(300):
        flags, rev, length = random.choice((0x40, 0xC0, 0x50, 0x70, 255)), random.randrange(4), random.choice((0, 4, 9))
        frame = key + bytes((flags, random.choice((rev, 129, 255)), 0, length)) + random.randbytes(length)
        pieces: list[Came] = [frame, *(random.randbytes(random.randrange(1, 80)) for _ in range(4)), read_response()]
        talk = talk_of(Scripted(pieces), by)
        if by == "responder":
            talk.begin()
        for name in random.choices(inputs, k=4):
            assert len(talk.step(name)) <= 17
