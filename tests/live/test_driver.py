"""LiveSession over loopback: what both sides agree on; peers that stop, close and reset; many; the fuzzer's clients."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scapy_mpa import analyze
from scapy_mpa.craft.stream import HalfStream
from scapy_mpa.craft.ulpdus import READ_REQUEST, rdma_write, read_request_body, send, untagged
from scapy_mpa.framing.ddp import decode_terminate
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.fpdu import decode_fpdu, encode_fpdu
from scapy_mpa.framing.startup import EnhancedData, startup_frame
from scapy_mpa.fuzz.case import said
from scapy_mpa.fuzz.run import Fuzzer
from scapy_mpa.live.driver import BROKEN, FINE, USELESS, MakeSpeaker, TalkSettings
from scapy_mpa.live.echo import EchoClient, EchoServer
from scapy_mpa.live.rdmap import RDMAPEndpoint
from scapy_mpa.live.rping import RpingClient, RpingServer
from scapy_mpa.live.script import Script, speech, step_items
from scapy_mpa.live.settings import EndpointSettings
from scapy_mpa.live.speaker import Listening
from scapy_mpa.messages.reading import CapturedMessages
from tests.live.loopback import Side, against_client, both, read_to_end, server

REQUEST = startup_frame("request", c=1, rev=1).encode()
REPLY = startup_frame("reply", c=1, rev=1).encode()


def talk_settings(timeout: float = 10.0, **endpoint: object) -> TalkSettings:
    made = EndpointSettings(rdmap=True, request_timeout=timeout, reply_timeout=timeout, **endpoint)  # type: ignore[arg-type]
    return TalkSettings(made, timeout=timeout, linger=1.0)


def rping(count: int = 2, size: int = 64) -> MakeSpeaker:
    return partial(RpingClient, count=count, size=size)


def quiet(_: RDMAPEndpoint) -> Listening:
    return Listening()


# --- what is agreed on ---


@pytest.mark.parametrize("private_data", [b"", b"x", bytes(range(256)) * 2])
@pytest.mark.parametrize("c", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("m", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_markers_crc_and_private_data(
    m: tuple[int, int], c: tuple[int, int], private_data: bytes, tmp_path: Path
) -> None:
    captures = tmp_path / "initiator.pcapng", tmp_path / "responder.pcapng"
    sides = [
        Side(talk_settings(m=m[at], c=c[at], private_data=private_data), speaker, captures[at])
        for at, speaker in enumerate((rping(2, 1500), RpingServer))
    ]
    (connection,) = both(sides[0], sides[1])
    assert (connection.status, connection.summary) == (FINE, "rping: 2 iterations of 1500 octets")
    assert sides[1].session.counts == {FINE: 1, BROKEN: 0, USELESS: 0}
    for side, capture in zip(sides, captures, strict=True):
        (established,) = side.events("established")
        assert established["crc"] == (c != (0, 0))
        assert established["markers"] == {"initiator": bool(m[1]), "responder": bool(m[0])}
        assert established["private_data"] == private_data.hex()
        agrees(side, capture)


def agrees(side: Side, capture: Path) -> None:
    """The analysis of a recording finds what the log says, and nothing wrong."""
    report = analyze(str(capture))
    (found,) = report.connections
    assert [finding.rule for finding in found.findings if finding.severity != "note"] == []
    fpdus = Counter(event["direction"] for event in side.events("fpdu"))
    octets: Counter[str] = Counter()
    for event in side.events("fpdu"):
        octets[event["direction"]] += event["ulpdu_length"]
    for direction in ("initiator", "responder"):
        half = found.half(direction)
        logged = [event for event in side.events("fpdu") if event["direction"] == direction]
        assert [(one.ulpdu_length, one.wire_length, one.opcode) for one in half.fpdus] == [
            (one["ulpdu_length"], one["wire_length"], one["opcode"]) for one in logged
        ]
    (established,) = side.events("established")
    assert found.request is not None
    assert found.reply is not None
    (request,), (reply,) = side.events("request"), side.events("reply")
    assert (found.request.m, found.request.c, found.request.rev) == (request["m"], request["c"], request["rev"])
    assert found.request.private_data.hex() == request["private_data"]
    assert found.reply.private_data.hex() == reply["private_data"]
    assert found.crc == established["crc"]
    with CapturedMessages(str(capture)) as messages:
        rows = [(row.direction, row.message, row.octets, row.stag, row.msn) for row in messages]
    assert rows == [
        (one["direction"], one["message"], one["octets"], one["stag"], one["msn"]) for one in side.events("message")
    ]
    assert fpdus["initiator"] + fpdus["responder"] == len(side.events("fpdu")) > 0


@pytest.mark.parametrize("rtr", ["send", "write", "read"])
def test_peer_to_peer(rtr: str, tmp_path: Path) -> None:
    enhanced = EnhancedData(a=1, b=int(rtr == "send"), c=int(rtr == "write"), d=int(rtr == "read"), ird=4, ord=3)
    capture = tmp_path / "a.pcapng"
    one = Side(talk_settings(enhanced=enhanced), rping(3, 200), capture)
    two = Side(talk_settings(enhanced=enhanced._replace(b=1, c=1, d=1, ird=3, ord=4)), RpingServer)
    (connection,) = both(one, two)
    assert (connection.status, one.events("established")[0]["rtr"]) == (FINE, rtr)
    agrees(one, capture)


def test_a_rejection() -> None:
    responder = talk_settings(private_data=b"no", automatic=False)
    two = Side(TalkSettings(responder.endpoint, reject=True, timeout=5), quiet)
    one = Side(talk_settings(), rping())
    (connection,) = both(one, two)
    assert connection.status == USELESS
    assert "rejects" in connection.summary
    assert one.events("rejected")[0]["private_data"] == b"no".hex()
    assert two.session.counts[FINE] == 1


def test_many_connections_at_once(tmp_path: Path) -> None:
    capture = tmp_path / "all.pcapng"
    one, two = Side(talk_settings(), rping(3)), Side(talk_settings(), RpingServer, capture)
    connections = both(one, two, 64)
    assert {connection.status for connection in connections} == {FINE}
    report = analyze(str(capture))
    assert len(report.connections) == 64
    assert not [finding for found in report.connections for finding in found.findings if finding.severity != "note"]


def test_echo_over_tcp() -> None:
    one, two = Side(talk_settings(), partial(EchoClient, count=20, size=100_000)), Side(talk_settings(), EchoServer)
    (connection,) = both(one, two)
    assert connection.summary == "echo: 20 messages of 100000 octets came back"
    assert not two.session.counts[BROKEN]


def test_segments_begin_with_fpdus(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a peer reads in one piece, when it reads slowly, still begins with FPDUs: MSG_EOR keeps records apart."""
    # Of the kernel's segments a socket shows nothing; that each FPDU is a record of its own is what can be seen here.
    sent: list[tuple[int, int]] = []

    class Watched(socket.socket):
        def send(self, data: Any, flags: int = 0) -> int:
            sent.append((len(data), flags))
            return super().send(data, flags)

    monkeypatch.setattr(socket, "socket", Watched)
    one = Side(talk_settings(), partial(EchoClient, count=3, size=10))
    (connection,) = both(one, Side(talk_settings(), EchoServer))
    assert connection.status == FINE
    # The event loop wakes itself by octets on a socket pair, which are no records; both sides are of this process.
    records = [(length, flags) for length, flags in sent if length > 1]
    assert sorted(records) == [(20, socket.MSG_EOR)] * 2 + [(36, socket.MSG_EOR)] * 6


# --- clients that are odd ---


def fpdus(*ulpdus: bytes) -> bytes:
    return HalfStream(Dialect(False, True)).lay(ulpdus)[0]


def start(sock: socket.socket) -> None:
    """The Startup Phase of a client: nothing may follow its Request before the Reply."""
    sock.sendall(REQUEST)
    assert sock.recv(len(REPLY), socket.MSG_WAITALL) == REPLY


def terminate_in(octets: bytes) -> tuple[int, int, int] | None:
    """Return the numbers of the Terminate that is the last FPDU."""
    rest, found = octets, None
    while rest and (fpdu := decode_fpdu(rest)) is not None:
        found = decode_terminate(fpdu.ulpdu)
        rest = rest[fpdu.wire_length :]
    return None if found is None else (found.layer, found.etype, found.code)


def test_a_peer_that_sends_one_octet_at_a_time() -> None:
    heard: list[bytes] = []

    def client(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for octet in REQUEST + fpdus(send(1, b"hello"), send(2, b"")):
            sock.send(bytes((octet,)))
            time.sleep(0.0005)
        sock.shutdown(socket.SHUT_WR)
        heard.append(read_to_end(sock))

    side = Side(talk_settings(), EchoServer)
    against_client(side, client)
    assert side.session.counts[FINE] == 1
    assert heard == [REPLY + fpdus(send(1, b"hello"), send(2, b""))]


@pytest.mark.parametrize("where", ["nothing", "Request", "FPDU", "FPDUs"])
def test_a_peer_that_stops_half_way(where: str) -> None:
    fpdu = fpdus(send(1, b"hello"))
    said = {"nothing": b"", "Request": REQUEST[:11], "FPDU": fpdu[:20], "FPDUs": fpdu}[where]

    def client(sock: socket.socket) -> None:
        if "FPDU" in where:
            start(sock)
        sock.sendall(said)
        read_to_end(sock)

    side = Side(talk_settings(0.3), quiet)
    before = time.monotonic()
    against_client(side, client)
    assert time.monotonic() - before < 5
    assert side.session.counts == {FINE: 0, BROKEN: 0, USELESS: 1}
    (error,) = side.events("error")
    assert "0.3 s" in error["error"] or "Request" in error["error"]


def test_a_peer_that_closes_inside_an_fpdu() -> None:
    side = Side(talk_settings(), quiet)

    def client(sock: socket.socket) -> None:
        start(sock)
        sock.sendall(fpdus(send(1, b"hello"))[:20])

    against_client(side, client)
    assert side.session.counts[BROKEN] == 1
    assert side.events("error")[0]["code"] == 1


def test_a_peer_that_closes_in_its_request() -> None:
    side = Side(talk_settings(), quiet)
    against_client(side, lambda sock: sock.sendall(REQUEST[:11]))
    assert side.session.counts[FINE] == 0


def reset(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("when", ["at once", "before the Reply", "before an FPDU", "behind an FPDU"])
def test_a_peer_that_resets(when: str) -> None:
    def client(sock: socket.socket) -> None:
        if when == "before the Reply":
            sock.sendall(REQUEST[:10])
            time.sleep(0.1)
        elif when != "at once":
            start(sock)
            sock.sendall(fpdus(send(1, b"hello")) if when == "behind an FPDU" else b"")
        reset(sock)

    side = Side(talk_settings(), quiet)
    against_client(side, client)
    assert side.session.counts == {FINE: 0, BROKEN: 0, USELESS: 1}
    closed = [(event["by"], event["how"]) for event in side.events("closed")]
    # A socket that is reset before it was accepted has no peer any more.
    assert closed == [("initiator", "rst")] or (when == "at once" and not closed)


WRONG: dict[str, tuple[bytes, tuple[int, int, int]]] = {
    "write to no buffer": (fpdus(rdma_write(1, 0, b"x")), (1, 1, 0)),
    "bad CRC behind a good FPDU": (fpdus(send(1, b"")) + encode_fpdu(send(2, b"x"), crc=7), (2, 0, 2)),
    "opcode 12": (fpdus(bytes((0x41, 0x4C)) + bytes(16)), (0, 2, 6)),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_answered_by_a_terminate(name: str) -> None:
    octets, expected = WRONG[name]
    heard: list[bytes] = []

    def client(sock: socket.socket) -> None:
        start(sock)
        sock.sendall(octets)
        heard.append(read_to_end(sock))

    side = Side(talk_settings(), quiet)
    against_client(side, client)
    assert terminate_in(heard[0]) == expected
    assert side.session.counts[BROKEN] == 1
    (error,) = side.events("error")
    assert error["clause"]


def test_a_flood_of_reads_by_a_client_that_reads_nothing() -> None:
    """What is asked for stays within IRD; the server waits, gives up and closes."""
    body = read_request_body(1, 0, 1 << 20, 0x1000, 0)
    stop = threading.Event()

    def client(sock: socket.socket) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        start(sock)
        sock.sendall(fpdus(*(untagged(READ_REQUEST, 1, msn, body) for msn in range(1, 9))))
        stop.wait(10)
        reset(sock)

    settings = TalkSettings(EndpointSettings(rdmap=True), buffers=((0x1000, 0, 1 << 20),), timeout=0.4, linger=0.2)
    side = Side(settings, quiet)
    threading.Timer(2, stop.set).start()
    against_client(side, client)
    assert side.session.counts[USELESS] == 1
    assert "accepted no octets" in side.events("error")[0]["error"]


# --- servers that are odd ---


def connected(serve: Callable[[socket.socket], None], timeout: float = 5.0, count: int = 2) -> tuple[Side, int, str]:
    side = Side(talk_settings(timeout), rping(count))
    with server(serve) as port:
        connection = asyncio.run(side.session.connect("127.0.0.1", port))
    return side, connection.status, connection.summary


def test_a_server_that_stops_in_its_reply() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(20)
        sock.sendall(REPLY[:7])
        read_to_end(sock)

    _, status, summary = connected(serve, 0.3)
    assert status == USELESS
    assert "Reply" in summary


def test_a_server_that_closes_before_all_was_said() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(20)
        sock.sendall(REPLY)
        sock.recv(100)

    _, status, summary = connected(serve)
    assert status == USELESS
    assert "closed" in summary or "lost" in summary


def test_a_server_that_says_what_is_no_reply() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(20)
        sock.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        read_to_end(sock)

    side, status, _ = connected(serve)
    assert status == BROKEN
    assert side.events("error")[0]["code"] == 4


def test_a_server_whose_rping_is_wrong() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(20)
        sock.sendall(REPLY)
        sock.recv(100)
        sock.sendall(fpdus(send(1, b"no rping")))
        read_to_end(sock)

    _, status, summary = connected(serve)
    assert status == BROKEN
    assert "rping" in summary


# --- scripts ---


def test_a_script_and_its_answers() -> None:
    steps = (
        "send 3000",
        "write hello stag=0x1000 to=7",
        "read 5 source=0x1000,7",
        "atomic data=9",
        "pause 0.01",
        "send",
    )

    def speaker(rdmap: RDMAPEndpoint) -> Script:
        conversation = speech()
        return Script(rdmap, [item for step in steps for item in step_items(step, "initiator", conversation)])

    one = Side(talk_settings(), speaker)
    buffers = ((0x1000, 0, 100), (0x2000, 0, 8))
    two = Side(TalkSettings(EndpointSettings(rdmap=True), buffers=buffers), EchoServer)
    (connection,) = both(one, two)
    assert connection.status == FINE
    said = [(event["direction"], event["message"], event["octets"]) for event in one.events("message")]
    assert ("responder", "RDMA Read Response", 5) in said
    assert ("responder", "Atomic Response", 12) in said
    assert ("initiator", "Send", 3000) in said


# --- the fuzzer's cases ---


def initiator_of(case: int) -> bytes:
    """Return what the Initiator of a case sends, in stream order."""
    return b"".join(unit.octets for unit in said(Fuzzer(seed=20).recipe(case))[0].units("initiator"))


@pytest.mark.parametrize("part", range(100))
def test_listen_survives_fuzzed_clients(part: int) -> None:
    """Each client sends a case and half-closes: it is answered, or closed on, and nothing is left over."""
    cases = iter(range(200 * part, 200 * (part + 1)))

    def client(sock: socket.socket) -> None:
        try:
            sock.sendall(initiator_of(next(cases)))
            sock.shutdown(socket.SHUT_WR)
            read_to_end(sock)
        except (BrokenPipeError, ConnectionResetError):
            pass
        except OSError as error:
            if error.errno != errno.ENOTCONN:
                raise

    side = Side(talk_settings(2.0), EchoServer)
    against_client(side, client, 200)
    assert sum(side.session.counts.values()) == 200
    assert len(side.events("finished")) == 200
    for event in side.events("error"):
        assert event["error"]


# --- what options ask for ---


def test_fpdus_are_no_longer_than_the_emss_asked_for() -> None:
    one = Side(replace(talk_settings(), emss=600), partial(EchoClient, count=2, size=5000))
    (connection,) = both(one, Side(talk_settings(), EchoServer))
    assert connection.status == FINE
    sent = [event["wire_length"] for event in one.events("fpdu") if event["direction"] == "initiator"]
    assert max(sent) == 600
    assert len(sent) == 2 * 9


def test_an_initiator_falls_back_to_rfc5044() -> None:
    """The first connection is closed on without a word; the second Request is a plain one."""
    requests: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        for number in range(2):
            sock = listener.accept()[0]
            with sock:
                sock.settimeout(20)
                requests.append(sock.recv(100))
                if number:
                    sock.sendall(REPLY)
                    sock.recv(100)
                    sock.sendall(fpdus(send(1, bytes(64))))
                    read_to_end(sock)

    settings = talk_settings(5.0, enhanced=EnhancedData(ird=4, ord=4), falls_back=True)
    side = Side(settings, partial(EchoClient, count=1, size=64))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        connection = asyncio.run(side.session.connect("127.0.0.1", listener.getsockname()[1]))
        thread.join(20)
    assert [octets[17] for octets in requests] == [2, 1]
    # What came back is not what was sent, which is beside the point: it was the second connection that spoke.
    assert connection.status == BROKEN
    assert side.session.counts == {FINE: 0, BROKEN: 1, USELESS: 0}
