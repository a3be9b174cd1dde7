"""Scripts: what steps and lines mean for a side, when they are said, and what cannot be said."""

from __future__ import annotations

from typing import Any

import pytest

from scapy_mpa.craft.messages import RAW, Message
from scapy_mpa.craft.ulpdus import ATOMIC_REQUEST, READ_REQUEST, SEND, rdma_write, send
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role
from scapy_mpa.live.rdmap import ImmediateDelivered, ReadCompleted, RequestTaken, SendDelivered, ULPDUTaken, WritePlaced
from scapy_mpa.live.script import At, Script, Timed, Wait, line_items, speech, step_items
from scapy_mpa.live.speaker import Listening
from tests.live.pairs import drain, endpoint


def meant(step: str, role: Role = "initiator") -> list[Any]:
    return [item.opcode if isinstance(item, Message) else item for item in step_items(step, role, speech())]


@pytest.mark.parametrize(
    ("step", "initiator", "responder"),
    [
        ("initiator send 3", [SEND], [Wait("send")]),
        ("responder send 3", [Wait("send")], [SEND]),
        ("send 3 times=2", [SEND, SEND], [SEND, SEND]),
        ("initiator read 8", [READ_REQUEST, Wait("answer")], [Wait("request")]),
        ("responder atomic", [Wait("request")], [ATOMIC_REQUEST, Wait("answer")]),
        ("initiator write x", [0], [Wait("write")]),
        ("initiator immediate", [8], [Wait("immediate")]),
        ("initiator ulpdu hex:00", [RAW], []),
        ("pause 0.5", [Timed(0.5)], [Timed(0.5)]),
        ("path-mtu 600", [], []),
    ],
)
def test_what_a_step_means(step: str, initiator: list[Any], responder: list[Any]) -> None:
    assert meant(step) == initiator
    assert meant(step, "responder") == responder


@pytest.mark.parametrize("step", ["fly", "send 1 2 3", "initiator stream x", "initiator send hex:0", ""])
def test_steps_that_are_none(step: str) -> None:
    with pytest.raises(MPAError):
        meant(step)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("  # a remark", []),
        ("4143 0000\n", [Message(RAW, b"\x41\x43\0\0")]),
        ("send abc", [Message(SEND, b"abc")]),
        ("responder send", [Wait("send")]),
    ],
)
def test_what_a_line_means(line: str, expected: list[Any]) -> None:
    assert [*line_items(line, "initiator", speech())] == expected


def test_made_up_octets_go_on_from_step_to_step() -> None:
    conversation = speech()
    said = [item.payload[:] for step in ("send 50", "send 50") for item in step_items(step, "initiator", conversation)]  # type: ignore[union-attr]
    assert len({*said}) == 2


def test_items_are_said_in_their_time() -> None:
    rdmap = endpoint()
    script = Script(
        rdmap,
        [
            Message(SEND, b"1"),
            Timed(5),
            Message(SEND, b"2"),
            Wait("send"),
            Message(SEND, b"3"),
            At(20),
            Message(SEND, b"4"),
        ],
        wait=2,
    )

    def heard(now: float) -> tuple[list[bytes], float | None]:
        due = script.go_on(now)
        return [ulpdu[18:] for ulpdu in drain(rdmap)], due

    assert heard(100) == ([b"1"], None)
    assert heard(100) == ([], 105)
    assert heard(104.9) == ([], 105)
    assert heard(105) == ([b"2"], None)
    assert heard(106) == ([], None)
    script.take(ImmediateDelivered(bytes(8)))
    assert heard(107) == ([], None)
    script.take(SendDelivered(1, b""))
    assert heard(108) == ([b"3"], None)
    assert heard(109) == ([], 120)
    assert heard(120) == ([b"4"], None)
    assert heard(120) == ([], 122)
    assert not script.is_done
    assert heard(122) == ([], None)
    assert script.is_done
    assert script.summary == "sent 4 messages"


def test_what_came_before_it_was_waited_for_counts() -> None:
    script = Script(endpoint(), [Wait("write"), Wait("request"), Wait("answer")])
    for event in (
        WritePlaced(1, 0, 5, False),
        WritePlaced(1, 5, 5, True),
        RequestTaken("x", 1, 0, 1),
        ReadCompleted(1, 0, 1),
    ):
        assert script.go_on(1.0) is None
        assert not script.is_done
        script.take(event)
    script.go_on(1.0)
    assert script.is_done


def test_ulpdus_that_nobody_looks_into_are_counted() -> None:
    script, listening = Script(endpoint(), [Wait("send")]), Listening()
    assert listening.summary == "received 0 messages"
    for speaker in (script, listening):
        speaker.take(ULPDUTaken(bytes(5)))
        speaker.take(ULPDUTaken(b""))
    script.go_on(1.0)
    assert not script.is_done
    assert (script.summary, listening.summary) == ("sent 0 messages, received 2 ULPDUs", "received 2 ULPDUs")


def test_a_responder_does_not_end_the_connection() -> None:
    rdmap = endpoint()
    script = Script(rdmap, [Message(SEND, b"")], ends=False)
    assert [script.go_on(now) for now in (1.0, 2.0, 3.0)] == [None, None, None]
    assert len(drain(rdmap)) == 1
    assert not script.is_done


def test_a_source_that_has_nothing_yet_is_asked_again() -> None:
    rdmap = endpoint()
    script = Script(rdmap, iter([None, Message(SEND, b"late"), None]))
    due = script.go_on(10.0)
    assert due is not None
    assert 10 < due < 11
    assert script.go_on(due) is None
    assert len(drain(rdmap)) == 1


def test_octets_of_a_read_have_a_place() -> None:
    rdmap = endpoint()
    script = Script(rdmap, step_items("read 1000 sink=7,0x100", "initiator", speech()))
    script.go_on(1.0)
    assert (rdmap.buffers[7].to, len(rdmap.buffers[7].octets)) == (0x100, 1000)
    with pytest.raises(MPAError, match="at most"):
        Script(rdmap, step_items("read-request 4000000000 sink=8,0", "initiator", speech())).go_on(1.0)


def test_ulpdus_of_other_kinds_are_no_steps() -> None:
    (item,) = line_items(rdma_write(1, 0, b"x").hex().upper(), "responder", speech())
    assert item == Message(RAW, rdma_write(1, 0, b"x"))
    assert [*line_items(send(1, b"").hex(), "initiator", speech())] == [Message(RAW, send(1, b""))]
