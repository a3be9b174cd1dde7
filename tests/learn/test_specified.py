"""The machine of RFC 5044 that a learned one is compared with: what it leaves open, and what it does not."""

from __future__ import annotations

import pytest

from scapy_mpa.framing.role import Role
from scapy_mpa.learn.conversation import OVER, SILENCE, PeerAnswer
from scapy_mpa.learn.machine import LearnedMachine, tree_of
from scapy_mpa.learn.specified import differences

REPLIED = ("Reply",)
BAD_CRC = ("Terminate 2/0/2",)
#: What a Responder has to have received before it may send an FPDU.
HEARD = [("send", SILENCE)]


def found(role: Role, *steps: tuple[str, PeerAnswer]) -> list[tuple[tuple[str, ...], str]]:
    """The differences of a peer that answers these inputs like this, one after the other."""
    word = tuple(name for name, _ in steps)
    machine = tree_of([*dict.fromkeys(word)], {word[: at + 1]: answer for at, (_, answer) in enumerate(steps)})
    return [(one.word, one.clause) for one in differences(machine, role, ("Request",) if role == "initiator" else ())]


@pytest.mark.parametrize(
    "steps",
    [
        [("request", REPLIED), ("send", ()), ("read", ("RDMA Read Response",)), ("wrong-crc", (*BAD_CRC, "close"))],
        [("request", ("Reply with R",)), ("send", ("other octets",))],
        [("request", ("close",))],
        [("request-wrong-rev", REPLIED), ("read", ("close",))],
        [("request-wrong-key", ("Reply with R", "close"))],
        [("request", REPLIED), ("send", ()), ("wrong-crc", ()), ("send", ()), ("send", BAD_CRC), ("fin", ("close",))],
        [("request", REPLIED), ("send", ()), ("wrong-crc", BAD_CRC), ("read", ()), ("send", ("close",))],
        [("request", REPLIED), ("wrong-crc", ("close",))],
        [("request", REPLIED), ("wrong-crc", ()), ("read", ()), ("fin", ("close",))],
        [("request", REPLIED), ("wrong-ddp-version", ("Terminate 1/2/6", "close"))],
        [("request", REPLIED), ("terminate", ("Send", "Send with SE")), ("send", ("Send",))],
        [("request", REPLIED), ("send", ()), ("request", ()), ("read", ()), ("send", ("Terminate 0/2/6", "close"))],
        [("request", REPLIED), ("send", ("Send", "RDMA Write", "RDMA Read Request"))],
        [("request", REPLIED), ("send", ("Terminate 1/2/2",)), ("send", ())],
        [("fin", ()), ("request", OVER)],
    ],
)
def test_what_a_responder_may_do(steps: list[tuple[str, PeerAnswer]]) -> None:
    assert found("responder", *steps) == []


@pytest.mark.parametrize(
    ("steps", "clause"),
    [
        ([("request", ())], "RFC 5044 §7.1.2, rules 2 and 4"),
        ([("request", ("Reply", "Send"))], "RFC 5044 §7.1.2, rules 2 and 4"),
        ([("request-wrong-key", REPLIED)], "RFC 5044 §7.1.2, rule 5"),
        ([("request-wrong-key", ("Reply with R",))], "RFC 5044 §7.1.2, rule 5"),
        ([("request-wrong-pd-length", ())], "RFC 5044 §7.1.1 and §8, code 4"),
        ([("request-wrong-rev", ())], "RFC 5044 §7.1.1"),
        ([("send", ())], "RFC 5044 §7.1.2, rule 5"),
        ([("request", REPLIED), ("read", ())], "RFC 5040 §5.2"),
        ([("request", REPLIED), ("request", REPLIED)], "RFC 5044 §4.1"),
        ([("request", REPLIED), ("request", ()), ("read", ("RDMA Read Response",))], "RFC 5044 §4.1"),
        ([("request", REPLIED), ("wrong-crc", ("Terminate 1/2/1",))], "RFC 5044 §8, code 2"),
        ([("request", REPLIED), ("wrong-crc", ("Send",))], "RFC 5044 §8, code 2"),
        ([("request", REPLIED), ("wrong-crc", ()), ("read", ("RDMA Read Response",))], "RFC 5044 §8"),
        ([("request", REPLIED), ("wrong-ddp-version", ("RDMA Read Response",))], "RFC 5041 §7"),
        ([("request", REPLIED), ("wrong-crc", (*BAD_CRC, "Send"))], "RFC 5040 §5.4"),
        ([("request", REPLIED), *HEARD, ("wrong-crc", BAD_CRC), ("read", ("RDMA Read Response",))], "RFC 5040 §5.4"),
        ([("request", REPLIED), ("wrong-crc", (*BAD_CRC, "close"))], "RFC 5044 §7.1.2, rule 4"),
        ([("request", REPLIED), ("wrong-crc", ()), ("send", BAD_CRC)], "RFC 5044 §7.1.2, rule 4"),
        ([("request", REPLIED), ("request", ()), ("send", BAD_CRC)], "RFC 5044 §7.1.2, rule 4"),
        ([("request", REPLIED), ("send", ("Terminate 1/2/2",)), ("send", ("Send",))], "RFC 5040 §5.4"),
    ],
)
def test_what_a_responder_may_not_do(steps: list[tuple[str, PeerAnswer]], clause: str) -> None:
    word = tuple(name for name, _ in steps)
    assert found("responder", *steps) == [(word, clause)]


@pytest.mark.parametrize(
    "steps",
    [
        [("reply", ("Send",)), ("read", ("RDMA Read Response",))],
        [("reply", ()), ("read", ())],
        [("reply-rejecting", ())],
        [("reply-rejecting", ("close",))],
        [("reply-wrong-rev", ("Send",))],
        [("reply-wrong-key", ("close",))],
    ],
)
def test_what_an_initiator_may_do(steps: list[tuple[str, PeerAnswer]]) -> None:
    assert found("initiator", *steps) == []


@pytest.mark.parametrize(
    ("steps", "clause"),
    [
        ([("reply-rejecting", ("Send",))], "RFC 5044 §7.1.2, rule 3"),
        ([("reply-wrong-key", ("Send",))], "RFC 5044 §7.1.2, rule 5"),
        ([("reply-wrong-key", ())], "RFC 5044 §7.1.2, rule 5"),
        ([("reply-wrong-pd-length", ())], "RFC 5044 §7.1.1 and §8, code 4"),
        ([("reply", ("Send",)), ("read", ())], "RFC 5040 §5.2"),
    ],
)
def test_what_an_initiator_may_not_do(steps: list[tuple[str, PeerAnswer]], clause: str) -> None:
    assert found("initiator", *steps) == [(tuple(name for name, _ in steps), clause)]


def test_an_initiator_begins_with_a_request_alone() -> None:
    (one,) = differences(LearnedMachine([{}]), "initiator", ("Request", "Send"))
    assert (one.word, one.clause) == ((), "RFC 5044 §7.1.2, rules 1 and 3")
