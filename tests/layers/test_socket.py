"""MPASocket over real TCP connections on the loopback interface."""

# mypy: disable-error-code="arg-type, attr-defined, index, operator, union-attr, unused-ignore"

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from scapy.packet import Raw
from scapy.sendrecv import sniff
from scapy.supersocket import StreamSocket

from scapy_mpa.framing import decode_fpdu
from scapy_mpa.layers import (
    FPDU,
    DDPTagged,
    DDPUntagged,
    Marker,
    MPAReply,
    MPARequest,
    MPASocket,
    RDMAPReadRequest,
    RDMAPReadResponse,
    RDMAPSend,
    RDMAPTerminate,
)

SECONDS = 20

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname(), timeout=SECONDS)
        peer, _ = server.accept()
    with client, peer:
        for sock in (client, peer):
            sock.settimeout(SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield client, peer


def in_thread(run: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def message(msn: int, octets: int) -> Any:
    return FPDU() / DDPUntagged(msn=msn) / RDMAPSend() / Raw(bytes([msn % 256]) * octets)


@pytest.mark.parametrize("markers", [False, True])
@pytest.mark.parametrize("crc", [False, True])
@pytest.mark.parametrize("origin", ["header", "first-octet"])
def test_fpdus_through_a_connection(pair: Pair, markers: bool, crc: bool, origin: Any) -> None:
    sender = MPASocket(pair[0], send_markers=markers, crc=crc, origin=origin)
    receiver = MPASocket(pair[1], recv_markers=markers, crc=crc, origin=origin)
    sizes = [0, 1, 10, 500, 508, 3000, 20000, 2, 64000, 464, 900]

    def send() -> None:
        for msn, size in enumerate(sizes, 1):
            sender.send(message(msn, size))

    thread = in_thread(send)
    count = 0
    for msn, size in enumerate(sizes, 1):
        fpdu = receiver.recv()
        assert isinstance(fpdu, FPDU)
        assert fpdu[DDPUntagged].msn == msn
        assert bytes(fpdu[RDMAPSend].payload) == bytes([msn]) * size
        assert fpdu.crc_good is (True if crc else None)
        assert crc or not fpdu.crc
        count += len(fpdu.markers or [])
    thread.join(SECONDS)
    assert receiver.recv_offset == sender.send_offset
    assert count == (-(-receiver.recv_offset // 512) if markers else 0)


def test_an_fpdu_cut_anywhere(pair: Pair) -> None:
    receiver = MPASocket(pair[1], recv_markers=True)
    stream = b""
    for msn in range(1, 4):
        stream += bytes(FPDU(marker_offset=-len(stream) % 512) / message(msn, 600).payload)

    def send() -> None:
        for at in range(len(stream)):
            pair[0].sendall(stream[at : at + 1])

    in_thread(send)
    assert [receiver.recv()[DDPUntagged].msn for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("markers", [False, True])
def test_sr1(pair: Pair, markers: bool) -> None:
    """An RDMA Read: the Response comes in pieces, after an FPDU that answers nothing."""
    client = MPASocket(pair[0], send_markers=markers, recv_markers=not markers)
    server = MPASocket(pair[1], send_markers=not markers, recv_markers=markers)

    def serve() -> None:
        request = server.recv()[RDMAPReadRequest]
        server.send(FPDU() / DDPTagged(stag=99) / RDMAPReadResponse() / b"not this")
        answer = FPDU() / DDPTagged(stag=request.sink_stag, to=request.sink_to) / RDMAPReadResponse() / b"data"
        if not markers:
            answer.marker_offset = -server.send_offset % 512
        octets = bytes(answer)
        for part in (octets[:9], octets[9:]):
            time.sleep(0.1)
            pair[1].sendall(part)

    thread = in_thread(serve)
    request = FPDU() / DDPUntagged() / RDMAPReadRequest(sink_stag=7, sink_to=8, read_message_size=4)
    answer = client.sr1(request, timeout=SECONDS, verbose=0)
    thread.join(SECONDS)
    assert answer is not None and answer[RDMAPReadResponse].payload.load == b"data"
    assert answer.crc_good


def test_sr1_does_not_wait_for_the_rest_of_an_fpdu(pair: Pair) -> None:
    client = MPASocket(pair[0])
    pair[1].sendall(bytes(message(1, 100))[:50])
    began = time.monotonic()
    assert client.sr1(message(1, 1), timeout=0.5, verbose=0) is None
    assert time.monotonic() - began < SECONDS / 2


def test_sniff(pair: Pair) -> None:
    receiver = MPASocket(pair[1])
    pair[0].sendall(b"".join(bytes(message(msn, 10)) for msn in range(1, 6)))
    packets = sniff(opened_socket=receiver, count=5, timeout=SECONDS)
    assert [packet[DDPUntagged].msn for packet in packets] == [1, 2, 3, 4, 5]


def test_what_is_given_is_sent(pair: Pair) -> None:
    sender = MPASocket(pair[0], send_markers=True)
    fpdu = FPDU(marker_offset=4, markers=[Marker(reserved=1, fpduptr=2)], crc=3) / b"1234"
    kept = fpdu.copy()
    assert sender.send(fpdu) == len(bytes(fpdu)) == sender.send_offset
    assert fpdu == kept and fpdu.sent_time
    assert pair[1].recv(100) == bytes(kept)
    sender.send(Raw(b"not an FPDU."))
    assert pair[1].recv(100) == b"not an FPDU." and sender.send_offset == len(bytes(kept)) + 12
    sender.send(FPDU() / b"1234")
    octets = pair[1].recv(100)
    assert decode_fpdu(octets, len(bytes(kept)) + 12) is not None
    assert len(octets) == 12  # the next Marker is far away


def test_closed(pair: Pair) -> None:
    receiver = MPASocket(pair[1])
    pair[0].sendall(bytes(message(1, 10)) + bytes(message(2, 10))[:13])
    pair[0].shutdown(socket.SHUT_WR)
    assert receiver.recv()[DDPUntagged].msn == 1
    with pytest.raises(EOFError, match="13 octets into an FPDU"):
        receiver.recv()


def test_closed_between_fpdus(pair: Pair) -> None:
    receiver = MPASocket(pair[1], recv_markers=True)
    pair[0].shutdown(socket.SHUT_WR)
    with pytest.raises(EOFError, match=r"^connection closed$"):
        receiver.recv()


def test_a_bad_crc_is_told(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    receiver = MPASocket(pair[1])
    pair[0].sendall(bytes(FPDU(crc=1) / b"ab") + bytes(FPDU() / b"cd"))
    with caplog.at_level(logging.WARNING, "scapy.runtime"):
        fpdu = receiver.recv()
    assert fpdu is not None and fpdu.crc_good is False
    assert "bad CRC" in caplog.text
    assert receiver.recv().crc_good


@pytest.mark.parametrize(
    ("packet", "said"),
    [
        (FPDU() / RDMAPSend() / b"hello", "write FPDU()/DDPUntagged()/RDMAPSend()"),
        (FPDU() / RDMAPReadResponse() / b"x", "write FPDU()/DDPTagged()/RDMAPReadResponse()"),
        (FPDU() / DDPUntagged() / RDMAPSend() / b"x" / (FPDU() / RDMAPTerminate()), "FPDU()/DDPUntagged()/RDMAPTerm"),
        (FPDU() / DDPUntagged() / RDMAPSend() / b"x" / (FPDU() / DDPUntagged() / RDMAPReadRequest()), ""),
        (FPDU() / b"a ULPDU", ""),
        (FPDU() / DDPUntagged() / RDMAPTerminate(ddp_header=DDPTagged()), ""),
    ],
)
def test_a_message_without_a_ddp_header_is_warned_of(
    pair: Pair, caplog: pytest.LogCaptureFixture, packet: Any, said: str
) -> None:
    with caplog.at_level(logging.WARNING, "scapy.runtime"):
        MPASocket(pair[0]).send(packet)
    assert (said in caplog.text) if said else not caplog.records
    # It is sent all the same.
    assert pair[1].recv(100).startswith(bytes(packet)[:2])


def test_timeout_of_the_socket(pair: Pair) -> None:
    pair[1].settimeout(0.05)
    with pytest.raises(TimeoutError):
        MPASocket(pair[1]).recv()


def test_startup_by_hand(pair: Pair) -> None:
    """The startup frames through Scapy's own StreamSocket; what follows them stays in the socket."""
    # sr1() of 2.6 reads once more when it has its answer, and so what follows it.
    pytest.importorskip("scapy", minversion="2.7")

    def respond() -> None:
        request = responder.recv()
        assert request is not None and request.private_data == b"hello"
        first = FPDU(marker_offset=0) / DDPUntagged() / RDMAPSend() / b"first"
        pair[1].sendall(bytes(MPAReply(c=1)) + bytes(first))

    # A StreamSocket closes its socket when it is dropped.
    initiator, responder = StreamSocket(pair[0], MPAReply), StreamSocket(pair[1], MPARequest)
    thread = in_thread(respond)
    request = MPARequest(m=1, c=1, private_data=b"hello")
    reply = initiator.sr1(request, timeout=SECONDS, verbose=0)
    thread.join(SECONDS)
    assert isinstance(reply, MPAReply) and reply.c
    connection = MPASocket(pair[0], recv_markers=True)
    assert connection.recv()[RDMAPSend].payload.load == b"first"
