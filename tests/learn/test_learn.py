"""``probe --learn``: machines of peers that conform, of peers with planted faults, of peers that cannot be learned."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from random import Random

import pytest

from scapy_mpa.craft.ulpdus import terminate_body, untagged
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.startup import EnhancedData
from scapy_mpa.learn.conversation import PeerAnswer
from scapy_mpa.learn.subject import InputWord, LearnedStep, LearnSubject, PeerLost
from scapy_mpa.probe.carrier import Acceptor, Connector
from scapy_mpa.probe.fitting import Clean
from scapy_mpa.probe.target import Responder
from tests.learn.peers import (
    FEW,
    SETTINGS,
    MortalInitiator,
    answers_late,
    answers_now_and_then,
    mortal,
    planted,
    reply,
    responder,
    subject_of,
)
from tests.probe.foreign import REQUEST, ForeignInitiator, Kind
from tests.probe.peers import HOST, our_initiator, our_responder, plain_server

pytest.importorskip("aalpy")

from scapy_mpa.learn.kv import LearnedPeer, learned

CLOSED = ("close",)


def answer(found: LearnedPeer, *word: str) -> tuple[str, ...]:
    return found.machine.run(word)[-1]


def shown(found: LearnedPeer) -> dict[tuple[str, ...], tuple[str, ...]]:
    return {one.word: one.answer for one in found.differences}


def test_our_own_responder_is_the_machine_of_the_rfc() -> None:
    inputs = (
        "request",
        "request-wrong-key",
        "request-wrong-pd-length",
        "send",
        "read",
        "wrong-crc",
        "terminate",
        "fin",
    )
    with our_responder() as target:
        subject = subject_of(target, inputs=inputs)
        found = learned(subject, SETTINGS)
    assert found.stopped is None
    assert found.differences == []
    assert answer(found, "request") == ("Reply",)
    for name in ("request-wrong-key", "request-wrong-pd-length", "read", "terminate"):
        assert answer(found, name) == CLOSED
    assert answer(found, "request", "read") == ("RDMA Read Response",)
    # It has to have received an FPDU before it may send one, a Terminate too (RFC 5044 §7.1.2, rule 4).
    assert answer(found, "request", "wrong-crc") == CLOSED
    assert answer(found, "request", "send", "wrong-crc") == ("Terminate 2/0/2", "close")
    assert answer(found, "request", "request-wrong-key", "read") == ()
    # Fresh, replied, heard, inside an FPDU, closed.
    assert len(found.machine.states) == 5


def test_planted_faults_are_found() -> None:
    with planted("any-key", "sends-after-terminate", leaves_open=True) as target:
        found = learned(subject_of(target), SETTINGS)
    assert found.stopped is None
    assert shown(found) == {
        ("request-wrong-key",): ("Reply",),
        ("request-wrong-pd-length",): (),
        ("request", "wrong-ddp-version"): ("Terminate 1/2/6", "Send", "close"),
        ("request", "send", "wrong-crc"): ("Terminate 2/0/2", "Send", "close"),
    }
    clauses = {one.word: one.clause for one in found.differences}
    assert clauses["request", "wrong-ddp-version"] == "RFC 5040 §5.4"
    assert clauses["request-wrong-key",] == "RFC 5044 §7.1.2, rule 5"


def test_another_conforming_peer_has_no_difference_and_each_fault_is_its_own() -> None:
    with planted(m=1) as target:
        found = learned(subject_of(target, inputs=FEW), SETTINGS)
    assert shown(found) == {}
    # It could not read an FPDU without Markers.
    assert answer(found, "request", "read") == ("RDMA Read Response",)
    with planted("passes-after-error") as target:
        found = learned(subject_of(target, inputs=FEW), SETTINGS)
    assert shown(found) == {("request", "wrong-crc", "read"): ("RDMA Read Response",)}


def test_a_ready_to_receive_message_comes_first() -> None:
    enhanced = EnhancedData(a=1, b=1, c=1, d=1, ird=8, ord=8)
    settings = SETTINGS._replace(clean=Clean(b"", enhanced))
    with our_responder(enhanced=enhanced) as target:
        subject = LearnSubject(target, settings)
        assert "ready" in subject.inputs
        found = learned(subject_of(target, settings, ("request", "ready", "send", "fin")), settings)
    assert found.differences == []
    assert answer(found, "request", "send") == CLOSED
    assert answer(found, "request", "ready", "send") == ()


def test_what_is_learned_depends_on_the_seed_alone() -> None:
    with planted() as target:
        asked = []
        for seed in (0, 0, 1):
            subject = subject_of(target, inputs=("request", "read", "fin"))
            learned(subject, SETTINGS._replace(seed=seed))
            asked.append([*subject.answers])
    assert asked[0] == asked[1] != asked[2]


def test_a_difference_is_replayed_with_its_octets() -> None:
    with planted("any-key") as target:
        steps = subject_of(target).replay(("request-wrong-key", "read"))
    assert [step.answer for step in steps] == [("Reply",), ("RDMA Read Response",)]
    assert steps[0].octets[:16] == b"MPA ID Req FramE"


def test_a_peer_that_answers_differently_is_said_to_be_so() -> None:
    with responder(answers_now_and_then(2)) as target:
        found = learned(subject_of(target, inputs=FEW), SETTINGS._replace(timeout=0.05))
    assert found.unstable is not None
    assert found.unstable.word == ("request",)
    assert {*found.unstable.answers} == {("Reply",), ("Reply with R",)}
    # No hypothesis that something contradicts is passed off as what is known.
    assert found.machine.run(("fin",)) == [("close",)]


@pytest.mark.parametrize("number", [3, 8])
def test_an_answer_that_came_once_is_an_exception(number: int) -> None:
    def serve(sock: socket.socket, at: int) -> None:
        if sock.recv(65536)[:16] == REQUEST:
            sock.sendall(reply(0x60 if at == number else 0x40))
            sock.recv(65536)

    with responder(serve) as target:
        subject = subject_of(target, inputs=("request", "read", "fin"))
        found = learned(subject, SETTINGS)
    assert found.stopped is None
    assert answer(found, "request") == ("Reply",)
    assert subject.exceptions == {("request",): [("Reply with R",)]}


def test_the_close_after_a_terminate_may_take_its_time() -> None:
    def serve(sock: socket.socket, _number: int) -> None:
        if sock.recv(65536)[:16] == REQUEST:
            sock.sendall(reply())
            if sock.recv(65536):
                sock.sendall(encode_fpdu(untagged(7, 2, 1, terminate_body(2, 0, 2))))
                time.sleep(0.2)

    with responder(serve) as target:
        subject = subject_of(target, inputs=("request", "wrong-crc"))
        found = learned(subject, SETTINGS)
    assert found.stopped is None
    assert answer(found, "request", "wrong-crc") == ("Terminate 2/0/2", "close")
    assert subject.silence < 0.2


@pytest.mark.parametrize(("bad_crc", "version"), [((0, 2, 2), "0/2/5"), ((2, 0, 2), "2/0/5")])
def test_a_terminate_is_read_as_the_peer_lays_out_its_others(bad_crc: tuple[int, int, int], version: str) -> None:
    """20 05 is an error of MPA, or in the layout of siw an invalid RDMAP version; 02 02 is of that layout alone."""

    def serve(sock: socket.socket, _number: int) -> None:
        if sock.recv(65536)[:16] == REQUEST:
            sock.sendall(reply())
            is_read = sock.recv(65536)[3:4] == b"\x41"
            sock.sendall(encode_fpdu(untagged(7, 2, 1, terminate_body(*((2, 0, 5) if is_read else bad_crc)))))

    with responder(serve) as target:
        found = learned(subject_of(target, inputs=("request", "read", "wrong-crc")), SETTINGS)
    assert found.stopped is None
    assert answer(found, "request", "read") == (f"Terminate {version}", "close")
    assert answer(found, "request", "wrong-crc") == ("Terminate 2/0/2", "close")


def test_silence_is_adapted_to_a_slow_peer() -> None:
    with responder(answers_late(0.08)) as target:
        subject = subject_of(target, inputs=("request", "read"))
        found = learned(subject, SETTINGS._replace(tests=2))
    assert found.stopped is None
    assert found.differences == []
    assert answer(found, "request", "read") == ("RDMA Read Response",)
    assert subject.silence > 0.08


def test_an_initiator_of_ours_is_the_machine_of_the_rfc() -> None:
    inputs = ("reply", "reply-rejecting", "reply-wrong-key", "read", "wrong-crc", "fin")
    with our_initiator() as target:
        subject = subject_of(target, inputs=inputs)
        found = learned(subject, SETTINGS)
    assert found.stopped is None
    assert found.differences == []
    assert subject.initial == ("Request",)
    assert answer(found, "reply", "wrong-crc") == ("Terminate 2/0/2", "close")
    assert answer(found, "reply-wrong-key") == CLOSED


@pytest.mark.parametrize(
    ("fault", "word"),
    [("ignores-r", ("reply-rejecting",)), ("any-key", ("reply-wrong-key",)), ("speaks-before-reply", ())],
)
def test_an_initiator_with_a_fault(fault: str, word: tuple[str, ...]) -> None:
    with Acceptor(HOST, 0, 1.0) as acceptor:
        target = ForeignInitiator(acceptor, Kind(faults=frozenset((fault,))))
        subject = subject_of(target, inputs=("reply", "reply-rejecting", "reply-wrong-key", "fin"))
        found = learned(subject, SETTINGS)
    assert word in shown(found)
    assert len(found.differences) == 1


class Simulated(LearnSubject):
    """A peer without a connection: a machine of four states that a seed draws."""

    def __init__(self, seed: int) -> None:
        super().__init__(Responder(Connector(HOST, 9, 1.0)), SETTINGS)
        self.inputs = ("request", "send", "read", "wrong-crc")
        random = Random(seed)
        words: list[PeerAnswer] = [("Reply",), ("RDMA Read Response",), (), ("close",), ("Terminate 2/0/2",)]
        self.steps = {
            (at, name): (random.choice(words), random.randrange(4)) for at in range(4) for name in self.inputs
        }

    def _run(
        self, word: InputWord, known: Sequence[PeerAnswer] = (), *, is_slow: bool = False
    ) -> tuple[list[LearnedStep], float]:
        found, at, is_over = list[LearnedStep](), 0, False
        for name in word:
            answer, at = self.steps[at, name]
            found.append(LearnedStep(name, b"", ("over",) if is_over else answer, None))
            is_over = is_over or answer == CLOSED
        return found, 0.0


@pytest.mark.parametrize("seed", range(60))
def test_each_difference_was_seen(seed: int) -> None:
    """Also where a machine is believed for a word that was not given."""
    subject = Simulated(seed)
    found = learned(subject, SETTINGS._replace(tests=0))
    assert found.stopped is None
    for one in found.differences:
        assert subject.answers[one.word] == one.answer == subject._run(one.word)[0][-1].answer


def test_bounds() -> None:
    with planted("any-key") as target:
        subject = subject_of(target, SETTINGS._replace(connections=6), FEW)
        found = learned(subject, SETTINGS)
        assert subject.connections == 6
        assert found.stopped is not None and found.unstable is None
        # What is known by then is compared all the same.
        assert shown(found) == {("request-wrong-key",): ("Reply",)}
        until = time.monotonic() + 0.3
        late = learned(subject_of(target, SETTINGS._replace(until=until, connections=10_000, interval=0.05)), SETTINGS)
        assert str(late.stopped) == "the time is up"


def test_a_peer_that_goes_away() -> None:
    def serve(sock: socket.socket, number: int) -> bool:
        sock.recv(20)
        sock.sendall(reply())
        sock.recv(1)
        return number < 4

    with plain_server(serve) as port:
        target = Responder(Connector(HOST, port, 0.5), patience=0.1)
        found = learned(subject_of(target, SETTINGS._replace(recovery=0.1)), SETTINGS)
    assert isinstance(found.stopped, PeerLost)


MORTAL = ("request", "request-wrong-key", "read", "terminate")


def test_a_peer_that_does_not_survive_an_input_is_restarted_and_learned() -> None:
    settings = SETTINGS._replace(recovery=0.1)
    with mortal() as target:
        found = learned(subject_of(target, settings, MORTAL), settings)
    assert found.stopped is None
    assert shown(found) == {("request", "terminate"): ("close", "peer gone")}
    assert [(one.expected, one.clause) for one in found.differences] == [
        ("the peer works afterwards, whatever it is sent", "")
    ]
    assert answer(found, "request", "terminate", "read") == ("over",)
    # Once in the word of the learner, and once more to be sure.
    assert target.restarts == target.deaths >= 2


def test_an_initiator_that_still_sends_its_request_may_be_gone() -> None:
    settings = SETTINGS._replace(recovery=0.1)
    with Acceptor(HOST, 0, 1.0) as acceptor:
        target = MortalInitiator(acceptor, Kind())
        found = learned(subject_of(target, settings, ("reply", "read", "terminate")), settings)
    assert found.stopped is None
    assert shown(found) == {("reply", "terminate"): ("close", "peer gone")}
    assert target.restarts >= 2


def test_a_peer_that_is_gone_once_is_no_difference() -> None:
    settings = SETTINGS._replace(recovery=0.1)
    with mortal(deaths=1) as target:
        subject = subject_of(target, settings, MORTAL)
        found = learned(subject, settings)
    assert found.stopped is None
    assert found.differences == []
    assert len(subject.lost) == 1 and "terminate" in subject.lost[0]
    assert answer(found, "request", "terminate") == CLOSED


def test_a_server_that_is_restarted_after_each_failure_is_waited_for() -> None:
    settings = SETTINGS._replace(recovery=5.0)
    with mortal(deaths=0, pause=0.1) as target:
        found = learned(subject_of(target, settings, MORTAL), settings)
    assert found.stopped is None
    assert found.differences == []
    assert target.restarts == 0
