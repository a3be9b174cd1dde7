"""rping and echo: both sides against each other, and each against what rdma-core's rping said over Linux siw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from scapy_mpa.craft.ulpdus import READ_REQUEST, SEND, rdma_write, send
from scapy_mpa.framing.ddp import opcode_of
from scapy_mpa.framing.requests import read_requests
from scapy_mpa.live.echo import EchoClient, EchoServer
from scapy_mpa.live.rdmap import RDMAPEndpoint
from scapy_mpa.live.rping import RpingClient, RpingServer
from scapy_mpa.live.speaker import Speaker, UpperLayerError
from scapy_mpa.ulp.tools import rping_header, rping_message, rping_text
from tests.live.pairs import drain, endpoint, said, talk


@pytest.mark.parametrize("size", [1, 2, 13, 14, 64, 1000, 65535])
def test_iterations(size: int) -> None:
    one, two = endpoint(), endpoint(seed=1)
    client, server = RpingClient(one, 7, size), RpingServer(two)
    talk(one, client, two, server)
    assert client.is_done
    assert (client.iterations, server.iterations) == (7, 7)
    assert f"7 iterations of {size} octet" in client.summary
    assert "7 iterations" in server.summary


@pytest.mark.parametrize("size", [0, (1 << 20) + 1])
def test_sizes_that_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match="octets"):
        RpingClient(endpoint(), 1, size)


@pytest.mark.parametrize("sizes", [(0, 1), (1, 63), (5000, 1)])
def test_echo(sizes: tuple[int, int]) -> None:
    size, count = sizes
    one, two = endpoint(), endpoint()
    client, server = EchoClient(one, count, size), EchoServer(two)
    talk(one, client, two, server)
    assert client.is_done
    assert (client.count, server.count, server.octets) == (count, count, count * size)


CAPTURES = ["siw-rping", "siw-crc-rping", "siw-rping-ipv6", "siw-peer-to-peer", "siw-vlan"]


def _is_said(side: str, capture: list[tuple[str, bytes]]) -> list[bytes]:
    return [ulpdu for direction, ulpdu in capture if direction == side]


def _mulpdu(capture: list[tuple[str, bytes]]) -> int:
    """That of siw, where something was longer; else no matter what."""
    longest = max(len(ulpdu) for _, ulpdu in capture)
    return longest if longest > 1000 else 1400


def _as_captured(
    side: str, capture: list[tuple[str, bytes]], rdmap: RDMAPEndpoint, upper: Speaker, skipped: int = 0
) -> None:
    """Hand the other side's ULPDUs over in order; what this side says is what the real one said, octet for octet."""
    upper.begin()
    ours = drain(rdmap)
    for direction, ulpdu in capture:
        if direction == side:
            continue
        for event in rdmap.receive(ulpdu):
            upper.take(event)
        ours += drain(rdmap)
    assert ours == _is_said(side, capture)[skipped:]


@pytest.mark.parametrize("name", CAPTURES)
def test_our_server_says_what_the_real_one_said(name: str, pcap: Callable[[str], Path]) -> None:
    capture = said(pcap(name))
    request = next(ulpdu for ulpdu in _is_said("responder", capture) if opcode_of(ulpdu) == READ_REQUEST)
    asked = read_requests(request[18:])[0]
    rdmap = RDMAPEndpoint(lambda: _mulpdu(capture))
    buffer = rdmap.register(bytearray(asked.size), stag=asked.sink_stag, to=asked.sink_to)
    server = RpingServer(rdmap, buffer=buffer)
    _as_captured("responder", capture, rdmap, server)
    assert server.iterations > 1


@pytest.mark.parametrize("name", CAPTURES)
def test_our_client_says_what_the_real_one_said(name: str, pcap: Callable[[str], Path]) -> None:
    capture = said(pcap(name))
    sends = [ulpdu[18:] for ulpdu in _is_said("initiator", capture) if opcode_of(ulpdu) == SEND]
    rdmap = RDMAPEndpoint(lambda: _mulpdu(capture))
    buffers = []
    for octets in sends[:2]:
        header = rping_header(octets, 16)
        assert header is not None
        (named,) = header.named
        buffers.append(rdmap.register(bytearray(named.length), stag=named.stag, to=named.to))
    client = RpingClient(rdmap, len(sends) // 2, len(buffers[0].octets), (buffers[0], buffers[1]))
    # In the peer-to-peer model an RDMA Write of no octets comes first, which is not rping's.
    _as_captured("initiator", capture, rdmap, client, skipped=int(name == "siw-peer-to-peer"))
    assert client.is_done


# --- peers that are wrong ---


def test_octets_that_came_back_otherwise() -> None:
    one, two = endpoint(), endpoint()
    client, server = RpingClient(one, 1), RpingServer(two)
    client.begin()
    for ulpdu in drain(one):
        for event in two.receive(ulpdu):
            server.take(event)
    one.receive(next(iter(drain(two))))
    for ulpdu in drain(one):
        two.receive(ulpdu)
    client.take(next(iter(one.receive(send(1, rping_message())))))
    (named,) = drain(one)
    header = rping_header(named[18:], 16)
    assert header is not None
    sink = header.named[0]
    wrong = bytearray(rping_text(0, 64))
    wrong[20] ^= 1
    one.receive(rdma_write(sink.stag, sink.to, bytes(wrong)))
    (event,) = one.receive(send(2, rping_message()))
    with pytest.raises(UpperLayerError, match="octet 20 came back"):
        client.take(event)


@pytest.mark.parametrize(
    "payload", [b"x" * 15, b"x" * 17, rping_message(), rping_message(1, 1, 0), rping_message(1, 1, 1 << 21)]
)
def test_messages_that_name_nothing_we_read(payload: bytes) -> None:
    rdmap = endpoint()
    server = RpingServer(rdmap)
    (event,) = rdmap.receive(send(1, payload))
    with pytest.raises(UpperLayerError, match="rping"):
        server.take(event)


def test_a_server_that_speaks_unasked() -> None:
    rdmap = endpoint()
    client = RpingClient(rdmap, 0)
    client.begin()
    (event,) = rdmap.receive(send(1, rping_message()))
    with pytest.raises(UpperLayerError, match="before the client had named a buffer"):
        client.take(event)


def test_an_echo_that_differs() -> None:
    rdmap = endpoint()
    client = EchoClient(rdmap, 1)
    client.begin()
    (event,) = rdmap.receive(send(1, b"something else"))
    with pytest.raises(UpperLayerError, match="did not come back"):
        client.take(event)
    (event,) = rdmap.receive(send(2, b"more"))
    with pytest.raises(UpperLayerError, match="were never sent"):
        client.take(event)
