"""``MPASocket.connect`` and ``accept``, and ``MPA_am``, over TCP on the loopback interface."""

# mypy: disable-error-code="attr-defined, index, operator, union-attr, unused-ignore"

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from scapy.packet import Raw

from scapy_mpa import MPA_am, MPASocket, RemoteProtocolError
from scapy_mpa.framing import EnhancedData, decode_startup_frame, startup_frame
from scapy_mpa.layers import (
    FPDU,
    DDPTagged,
    DDPUntagged,
    NVMeAdminCommand,
    NVMeConnect,
    NVMeConnectData,
    NVMePrivateDataRequest,
    NVMeResponse,
    RDMAPReadRequest,
    RDMAPSend,
    RDMAPTerminate,
)

SECONDS = 20


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        made.settimeout(SECONDS)
        yield made


def beside(run: Callable[[], Any]) -> Callable[[], Any]:
    """Run something in a thread; what is returned waits for its result, or raises what it raised."""
    pool = ThreadPoolExecutor(1)
    future = pool.submit(run)
    pool.shutdown(wait=False)
    return lambda: future.result(SECONDS)


def message(msn: int, octets: int) -> Any:
    return FPDU() / DDPUntagged(msn=msn) / RDMAPSend() / Raw(bytes([msn]) * octets)


@pytest.mark.parametrize("m", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize("c", [(0, 0), (0, 1), (1, 1)])
def test_both_sides(listener: socket.socket, m: tuple[int, int], c: tuple[int, int]) -> None:
    accepted = beside(lambda: MPASocket.accept(listener, m=m[1], c=c[1], private_data=b"come in"))
    ours = MPASocket.connect(*listener.getsockname(), m=m[0], c=c[0], private_data=bytes(512))
    theirs = accepted()
    assert (ours.send_markers, ours.recv_markers, ours.crc) == (bool(m[1]), bool(m[0]), any(c))
    assert (theirs.send_markers, theirs.recv_markers, theirs.crc) == (bool(m[0]), bool(m[1]), any(c))
    assert ours.established.private_data == b"come in"
    assert theirs.established.private_data == bytes(512)
    for msn in (1, 2, 3):
        ours.send(message(msn, 700))
        assert theirs.recv()[Raw].load == bytes([msn]) * 700
        theirs.send(message(msn, 600))
        assert ours.recv().crc_good is (True if any(c) else None)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("rtr", ["b", "c", "d"])
def test_the_ready_to_receive_message_has_been_sent(listener: socket.socket, rtr: str) -> None:
    peers = EnhancedData(a=1, ird=1, ord=1)._replace(**{rtr: 1})
    accepted = beside(lambda: MPASocket.accept(listener, m=1, enhanced=peers))
    ours = MPASocket.connect(*listener.getsockname(), enhanced=peers)
    theirs = accepted()
    first = theirs.recv()
    assert first.ulpdu_length == {"b": 18, "c": 14, "d": 46}[rtr]
    assert ours.send_offset == theirs.recv_offset == len(bytes(first))
    ours.send(message(1, 600))
    assert theirs.recv().crc_good
    ours.close()
    theirs.close()


def test_a_rejection(listener: socket.socket) -> None:
    def reject() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(100)
            sock.sendall(startup_frame("reply", r=1, private_data=b"not you").encode())

    ended = beside(reject)
    with pytest.raises(RemoteProtocolError, match="not you") as error:
        MPASocket.connect(*listener.getsockname())
    assert error.value.rule == "startup-rejected"
    ended()


def test_something_else_answers(listener: socket.socket) -> None:
    def answer() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(100)
            sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    ended = beside(answer)
    with pytest.raises(RemoteProtocolError, match="startup-key"):
        MPASocket.connect(*listener.getsockname())
    ended()


@pytest.mark.parametrize("came", [b"", b"MPA ID Req Frame\x40"])
def test_a_client_that_stops_half_way(listener: socket.socket, came: bytes) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(came)
        with pytest.raises(RemoteProtocolError, match=f"startup-timeout.*{len(came)} octets"):
            MPASocket.accept(listener, request_timeout=0.05)


def test_a_client_that_closes(listener: socket.socket) -> None:
    with socket.create_connection(listener.getsockname()) as client:
        client.sendall(b"MPA ID Req Frame\x40")
        client.shutdown(socket.SHUT_WR)
        with pytest.raises(RemoteProtocolError, match="startup-frame: FIN after 17 octets"):
            MPASocket.accept(listener)


def test_no_octet_behind_the_frame_is_read(listener: socket.socket) -> None:
    """A Responder that breaks rule 4 sends an FPDU with its Reply: it is there to be read."""

    def answer() -> None:
        sock, _ = listener.accept()
        with sock:
            request = decode_startup_frame(sock.recv(100))
            assert request is not None
            sock.sendall(startup_frame("reply", c=1).encode() + bytes(FPDU() / Raw(b"too early")))
            sock.recv(1)

    ended = beside(answer)
    ours = MPASocket.connect(*listener.getsockname())
    assert ours.recv()[Raw].load == b"too early"
    ours.close()
    ended()


def test_falling_back(listener: socket.socket) -> None:
    """A Responder that knows RFC 5044 alone closes on an enhanced Request; the second one is plain."""

    def answer() -> Any:
        with pytest.raises(RemoteProtocolError):
            MPASocket.accept(listener, rev=1)
        return MPASocket.accept(listener, rev=1)

    accepted = beside(answer)
    enhanced = EnhancedData(ird=1, ord=1)
    ours = MPASocket.connect(*listener.getsockname(), enhanced=enhanced, falls_back=True)
    assert ours.established.request.rev == 1
    accepted().close()
    ours.close()


@pytest.fixture
def machine(listener: socket.socket) -> Iterator[Any]:
    listener.settimeout(None)
    made = MPA_am(listener=listener, m=1, verbose=False)
    made.bg()
    yield made
    made.close()


def test_the_answering_machine(listener: socket.socket, machine: Any) -> None:
    """Three connections at once; sr1 goes on with each."""
    sockets = [MPASocket.connect(*listener.getsockname(), m=1) for _ in range(3)]
    for msn in (1, 2):
        for ours in sockets:
            answer = ours.sr1(message(msn, 100), timeout=SECONDS, verbose=0)
            assert answer[RDMAPSend].payload.load == bytes([msn]) * 100
    read = FPDU() / DDPUntagged() / RDMAPReadRequest(sink_stag=7, sink_to=64, read_message_size=1000, source_stag=2)
    answer = sockets[0].sr1(read, timeout=SECONDS, verbose=0)
    assert (answer[DDPTagged].stag, answer[DDPTagged].to, answer[Raw].load) == (7, 64, bytes(1000))
    read[RDMAPReadRequest].read_message_size = 1 << 31
    sockets[1].send(read)
    assert RDMAPTerminate in sockets[1].recv()
    for ours in sockets:
        ours.close()


def test_an_answering_machine_with_answers_of_ones_own(listener: socket.socket) -> None:
    listener.settimeout(None)
    machine = MPA_am(listener=listener, verbose=False, answer=lambda fpdu: FPDU() / Raw(bytes(fpdu.payload)[::-1]))
    machine.bg()
    ours = MPASocket.connect(*listener.getsockname())
    ours.send(FPDU() / Raw(b"abc"))
    assert ours.recv()[Raw].load == b"cba"
    ours.close()
    machine.close()
    machine.sniffer.join(SECONDS)
    assert not machine.sniffer.is_alive()


# --- upper layers ---

NVME_PRIVATE = NVMePrivateDataRequest(qid=0, hrqsize=32, hsqsize=31)
CONNECT = NVMeConnect(cid=1) / NVMeConnectData(subnqn=b"nqn.a")


def test_an_upper_layer_that_was_negotiated_is_dissected(listener: socket.socket) -> None:
    """By Private Data, on any port: the command as its target sees it, the response as the host does."""
    accepted = beside(lambda: MPASocket.accept(listener))
    ours = MPASocket.connect(*listener.getsockname(), private_data=bytes(NVME_PRIVATE))
    theirs = accepted()

    def serve() -> Any:
        command = theirs.recv()
        theirs.send(FPDU() / DDPUntagged() / RDMAPSend() / NVMeResponse(cid=9))
        theirs.send(FPDU() / DDPUntagged(msn=2) / RDMAPSend() / NVMeResponse(cid=command[NVMeConnect].cid))
        return command

    command = beside(serve)
    answer = ours.sr1(FPDU() / DDPUntagged() / RDMAPSend() / CONNECT, timeout=SECONDS, verbose=0)
    assert command()[NVMeConnectData].subnqn.rstrip(b"\0") == b"nqn.a"
    assert answer[NVMeResponse].cid == 1
    ours.send(FPDU() / DDPUntagged(msn=2) / RDMAPSend() / NVMeAdminCommand(cid=2))
    assert theirs.recv()[NVMeAdminCommand].cid == 2
    ours.close()
    theirs.close()


def test_nothing_is_guessed(listener: socket.socket) -> None:
    """The same octets on a connection that has nothing to do with NVMe."""
    accepted = beside(lambda: MPASocket.accept(listener))
    ours = MPASocket.connect(*listener.getsockname())
    theirs = accepted()
    ours.send(FPDU() / DDPUntagged() / RDMAPSend() / CONNECT)
    received = theirs.recv()
    assert type(received[RDMAPSend].payload) is Raw
    assert bytes(received[RDMAPSend].payload) == bytes(CONNECT)
    ours.close()
    theirs.close()


@pytest.mark.parametrize("we_are", ["client", "server"])
def test_a_socket_that_is_handed_over_goes_by_the_port(we_are: str) -> None:
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 4420))
        server.listen()
        client = socket.create_connection(("127.0.0.1", 4420), timeout=SECONDS)
        peer, _ = server.accept()
    host, target = MPASocket(client), MPASocket(peer)
    host.send(FPDU() / DDPUntagged() / RDMAPSend() / CONNECT)
    target.send(FPDU() / DDPUntagged() / RDMAPSend() / NVMeResponse(cid=1))
    if we_are == "server":
        assert NVMeConnect in target.recv()
    else:
        assert NVMeResponse in host.recv()
    host.close()
    target.close()
