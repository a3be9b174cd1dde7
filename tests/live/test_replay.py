"""One side of a capture, said to a live peer with the names that this peer uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.craft.ulpdus import (
    ATOMIC_REQUEST,
    ATOMIC_RESPONSE,
    FETCH_ADD,
    READ_REQUEST,
    READ_RESPONSE,
    SEND,
    SEND_INVALIDATE,
    TERMINATE,
    atomic_request_body,
    atomic_response_body,
    rdma_write,
    read_request_body,
    send,
    tagged,
    terminate_body,
    untagged,
)
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.role import Role
from scapy_mpa.live import replay
from scapy_mpa.live.driver import TransparentRDMAP
from scapy_mpa.live.replay import Replay, captured_side
from scapy_mpa.live.speaker import PeerGivesUp, UpperLayerError
from scapy_mpa.ulp.tools import rping_message
from tests.live.loopback import command, finished, listening
from tests.live.pairs import said

RPING_PORT = 7174
GO_ON = rping_message()
#: Memory of the peer: what it was called in the capture, and what it is called now.
THEN, NOW = (0x1111, 0x10000), (0x2222, 0xABC0000)


def captured(conversation: Conversation, path: Path) -> Path:
    with path.open("wb") as file:
        Traffic([conversation]).write(file)
    return path


class Pair:
    """A replay, and the live peer's ULPDUs given to it by hand."""

    def __init__(self, side: Any) -> None:
        self.rdmap = TransparentRDMAP(lambda: 1400)
        self.replay = Replay(self.rdmap, side)
        self.now = 0.0

    def sent(self) -> list[bytes]:
        """All that can be sent now."""
        ulpdus: list[bytes] = []
        while True:
            self.now = max(self.now, self.replay.go_on(self.now) or 0.0) + 1e-9
            before = len(ulpdus)
            while (ulpdu := self.rdmap.next_ulpdu()) is not None:
                ulpdus.append(ulpdu)
            if len(ulpdus) == before and (self.replay.is_done or self.replay._waits_for is not None):
                return ulpdus

    def came(self, *ulpdus: bytes) -> list[bytes]:
        """Take what the live peer says; returns what is sent then."""
        for ulpdu in ulpdus:
            for event in self.rdmap.receive(ulpdu):
                self.replay.take(event)
        return self.sent()


@contextmanager
def replaying(conversation: Conversation, tmp_path: Path, role: Role = "initiator") -> Iterator[Pair]:
    with captured_side(str(captured(conversation, tmp_path / "a.pcap")), 0, role) as side:
        yield Pair(side)


def rping(**parameters: Any) -> Conversation:
    """A connection on rping's port, whose Sends are read as rping's."""
    return Conversation(ports=(40000, RPING_PORT), **parameters)


def named(stag: int, to: int, size: int = 4000) -> bytes:
    return rping_message(stag, to, size)


# --- live ---


@pytest.mark.parametrize(
    ("name", "iterations"), [("siw-rping", 5), ("siw-crc-rping", 5), ("siw-peer-to-peer", 3), ("siw-sll2", 4)]
)
def test_rping_replays_to_its_end(name: str, iterations: int, pcap: Any, tmp_path: Path) -> None:
    """Our listen takes it for rping's client: it reads from it, writes to it, and finds nothing wrong."""
    capture, recording = pcap(name), tmp_path / "again.pcapng"
    with listening("--count", "1", "--ulp", "rping", "--write", str(recording)) as (process, port):
        status, out, err = finished(command("connect", "127.0.0.1", str(port), "--from", str(capture)))
        assert (status, err) == (0, ""), out
        status, out, _ = finished(process)
    assert status == 0
    assert f"#0 rping: {iterations} iterations as the server" in out
    first, second = (analyze(str(path)).connections[0] for path in (capture, recording))
    assert [one.severity for one in second.findings if one.severity in ("error", "warning")] == []
    assert first.request is not None
    assert second.request is not None
    assert first.request.enhanced == second.request.enhanced
    both = [[ulpdu for side, ulpdu in said(path) if side == "initiator"] for path in (capture, recording)]
    assert [len(ulpdu) for ulpdu in both[0]] == [len(ulpdu) for ulpdu in both[1]]
    responses = [[ulpdu for ulpdu in side if ulpdu[1] & 15 == READ_RESPONSE] for side in both]
    assert [ulpdu[14:] for ulpdu in responses[0]] == [ulpdu[14:] for ulpdu in responses[1]]
    assert all(then[2:14] != now[2:14] for then, now in zip(*responses, strict=True))


def test_a_peer_of_another_upper_layer_is_not_blamed_for_ulp(pcap: Any) -> None:
    with listening("--count", "1", "--ulp", "echo") as (_, port):
        words = ("connect", "127.0.0.1", str(port), "--from", str(pcap("siw-rping")), "--timeout", "1")
        status, out, _ = finished(command(*words))
    assert status == 2
    assert "nothing came for 1 seconds: after 0 messages of the peer, the capture has an RDMA Read Request" in out
    assert "--ulp" not in out


def test_a_peer_that_gives_up_verbatim_octets(pcap: Any) -> None:
    with listening("--count", "1", "--ulp", "rping") as (_, port):
        words = ("connect", "127.0.0.1", str(port), "--from", str(pcap("siw-rping")), "--verbatim", "--timeout", "1")
        status, out, _ = finished(command(*words))
    assert status == 2
    assert "closed the connection before everything was sent: its STags and MSNs are different" in out


def test_verbatim_is_about_a_replay(pcap: Any) -> None:
    status, _, err = finished(command("connect", "127.0.0.1", "9", "--verbatim"))
    assert (status, "--from" in err) == (2, True)


# --- names ---


def test_what_we_access_is_where_the_peer_names_it_now(tmp_path: Path) -> None:
    """RDMA Writes, Read Requests, Atomic Requests and Invalidate STags; an offset into the memory stays."""
    talk = rping().send("initiator", GO_ON).send("responder", named(*THEN))
    talk.write("initiator", b"w" * 3000, stag=THEN[0], to=THEN[1] + 8)
    talk.read("initiator", 20, sink=(0x7, 0), source=(THEN[0], THEN[1] + 16))
    talk.atomic("initiator", stag=THEN[0], to=THEN[1] + 24, data=5, request_id=9, value=1)
    talk.send("initiator", b"over", invalidate=THEN[0])
    with replaying(talk, tmp_path) as pair:
        assert pair.sent() == [send(1, GO_ON)]
        *writes, request = pair.came(send(1, named(*NOW)))
        places = [(int.from_bytes(one[2:6], "big"), int.from_bytes(one[6:14], "big")) for one in writes]
        offsets = [0]
        for one in writes[:-1]:
            offsets.append(offsets[-1] + len(one) - 14)
        assert places == [(NOW[0], NOW[1] + 8 + offset) for offset in offsets]
        assert b"".join(one[14:] for one in writes) == b"w" * 3000
        body = read_request_body(0x7, 0, 20, NOW[0], NOW[1] + 16)
        assert request == untagged(READ_REQUEST, 1, 1, body)
        (atomic,) = pair.came(tagged(READ_RESPONSE, 0x7, 0, bytes(20), last=True))
        body = atomic_request_body(FETCH_ADD, 9, NOW[0], NOW[1] + 24, 5, 0, 0, (1 << 64) - 1)
        assert atomic == untagged(ATOMIC_REQUEST, 1, 2, body)
        (over,) = pair.came(untagged(ATOMIC_RESPONSE, 3, 1, atomic_response_body(9, 1)))
        assert over == untagged(SEND_INVALIDATE, 0, 2, b"over", invalidate=NOW[0])
        assert pair.replay.is_done


def test_what_the_peer_asks_for_is_answered_where_it_asks_now(tmp_path: Path) -> None:
    """Read Responses in several segments, two Reads at a time, and an Atomic Response."""
    talk = rping(mulpdu=(128, None)).send("initiator", b"hello")
    talk.read_request("responder", 200, sink=(0x5, 0x50), source=(0x9, 0))
    talk.read_request("responder", 10, sink=(0x5, 0x50), source=(0x9, 0))
    talk.read_response("initiator", b"a" * 200, sink=(0x5, 0x50)).read_response(
        "initiator", b"b" * 10, sink=(0x5, 0x50)
    )
    talk.atomic("responder", stag=0x9, to=0, request_id=4, value=77)
    with replaying(talk, tmp_path) as pair:
        pair.sent()
        assert pair.came(untagged(READ_REQUEST, 1, 1, read_request_body(0x6, 0x600, 200, 0x9, 0))) == []
        answers = pair.came(untagged(READ_REQUEST, 1, 2, read_request_body(0x8, 0x800, 10, 0x9, 0)))
        assert [one[2:14] for one in answers] == [
            stag.to_bytes(4, "big") + to.to_bytes(8, "big")
            for stag, to in [(0x6, 0x600), (0x6, 0x600 + 114), (0x8, 0x800)]
        ]
        assert b"".join(one[14:] for one in answers) == b"a" * 200 + b"b" * 10
        asked = atomic_request_body(FETCH_ADD, 44, 0x9, 0, 1, 0, 0, 0)
        assert pair.came(untagged(ATOMIC_REQUEST, 1, 3, asked)) == [
            untagged(ATOMIC_RESPONSE, 3, 1, atomic_response_body(44, 77))
        ]


def test_msns_count_from_the_first_that_is_free(tmp_path: Path) -> None:
    """The endpoint has sent a ready-to-receive message, which took an MSN; the capture's is left out."""
    peer = {"a": 1, "b": 1, "ird": 1, "ord": 1}
    talk = Conversation(profile="rfc6581", enhanced=(peer, peer), rtr="send").send("initiator", b"one")
    with replaying(talk.send("initiator", b"two"), tmp_path) as pair:
        pair.rdmap.sent_ready("send")
        assert pair.sent() == [send(2, b"one"), send(3, b"two")]
    plain = Conversation().send("initiator", b"one").send("initiator", b"two")
    with replaying(plain, tmp_path) as pair:
        pair.rdmap.sent_ready("send")
        assert pair.sent() == [send(2, b"one"), send(3, b"two")]


def test_a_capture_that_begins_in_the_middle(tmp_path: Path) -> None:
    """Its first MSN becomes 1."""
    talk = Conversation(seed=3)
    for _ in range(20):
        talk.send("initiator", 300)
    path = tmp_path / "a.pcap"
    with path.open("wb") as file:
        Traffic([talk], ["cut:count=20"]).write(file)
    with captured_side(str(path), 0, "initiator") as side:
        msns = [int.from_bytes(ulpdu[10:14], "big") for ulpdu in Pair(side).sent()]
    assert msns == [*range(1, len(msns) + 1)]
    assert 1 < len(msns) < 20


def test_a_write_that_only_a_later_message_announces_is_not_waited_for(tmp_path: Path) -> None:
    talk = rping().send("initiator", b"hello").write("responder", 10, stag=1).send("responder", b"done")
    with replaying(talk.send("initiator", b"thanks"), tmp_path) as pair:
        pair.sent()
        assert pair.came(rdma_write(1, 0, bytes(5), last=False), send(1, b"done")) == [send(2, b"thanks")]


def test_the_other_side(tmp_path: Path) -> None:
    """The Responder of a capture, whose peer names the memory that it writes to."""
    talk = rping().send("initiator", named(*THEN)).write("responder", b"x", stag=THEN[0], to=THEN[1])
    with replaying(talk, tmp_path, "responder") as pair:
        assert pair.sent() == []
        assert pair.came(send(1, named(*NOW))) == [rdma_write(*NOW, b"x")]


# --- what cannot be replayed ---


def test_doubts(tmp_path: Path) -> None:
    talk = Conversation().send("initiator", b"hello").send("responder", b"x" * 30)
    with replaying(talk.write("initiator", b"w", stag=0xBAD), tmp_path) as pair:
        assert pair.replay.doubt == ""
        pair.sent()
        assert pair.replay.doubt == ": after 0 messages of the peer, the capture has a Send of it next"
        assert pair.came(send(1, b"y" * 30)) == [rdma_write(0xBAD, 0, b"w")]
        assert pair.replay.doubt.startswith(": STag 0x00000bad was sent as in the capture")
        with pytest.raises(PeerGivesUp, match=r"tagged buffer error: invalid STag: STag 0x00000bad was sent as"):
            pair.came(untagged(TERMINATE, 2, 1, terminate_body(1, 1, 0)))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (read_request_body(1, 0, 99, 2, 0), "reads 99 octets where the capture's read 100"),
        (b"short", "is not understood"),
    ],
)
def test_a_read_that_is_another(body: bytes, words: str, tmp_path: Path) -> None:
    talk = rping().send("initiator", b"hello").read("responder", 100)
    with replaying(talk, tmp_path) as pair:
        pair.sent()
        with pytest.raises(MPAError, match=words):
            pair.came(untagged(READ_REQUEST, 1, 1, body))


def test_a_peer_that_runs_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_MOST_AHEAD", 3)
    talk = rping().send("initiator", b"hello").read("responder", 100)
    with replaying(talk, tmp_path) as pair:
        pair.sent()
        with pytest.raises(UpperLayerError, match="more than 3 messages ahead of the capture: Send"):
            pair.came(*(send(msn, b"") for msn in range(1, 6)))


def test_octets_that_are_no_messages_do_no_harm(tmp_path: Path) -> None:
    talk = rping().send("initiator", b"hello").send("responder", named(*THEN)).send("initiator", b"end")
    with replaying(talk, tmp_path) as pair:
        pair.sent()
        odd = [b"", b"\0", bytes(17), b"\xff" * 40, untagged(READ_REQUEST, 0, 1, b""), send(1, b"x", last=False)]
        odd += [untagged(SEND, queue, 1, b"x" * 100, last=False) for queue in range(1, 300)]
        assert pair.came(*odd) == []
        assert len(pair.replay._live._heads) == 1
        assert pair.came(send(1, named(*NOW), message_offset=1)) == [send(2, b"end")]
