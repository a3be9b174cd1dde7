"""Packets of ``MPAConnection`` have the layers of what runs above RDMAP, as those of ``MPASession`` do."""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, operator, unused-ignore"

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.packet import Packet, Raw
from scapy.sendrecv import sniff
from scapy.utils import wrpcap

from scapy_mpa.layers import (
    FPDU,
    RPCRDMA,
    MPAConnection,
    MPASession,
    NVMeAdminCommand,
    NVMeConnect,
    NVMeConnectData,
    NVMeIOCommand,
    NVMePrivateDataRequest,
    NVMeResponse,
    RDMAPSend,
)
from tests.conftest import named
from tests.layers.uppercases import MESSAGES

CONNECT = NVMeConnect(qid=1, cid=1) / NVMeConnectData(subnqn=b"nqn.a")


def spoken(connection: MPAConnection) -> MPAConnection:
    connection.message("initiator", CONNECT).message("responder", NVMeResponse(cid=1))
    connection.message("initiator", NVMeIOCommand(cid=2, nsid=1)).message("responder", NVMeResponse(cid=2))
    return connection


def uppers(packets: list[Packet]) -> list[type[Packet]]:
    return [type(packet[RDMAPSend].payload) for packet in packets if RDMAPSend in packet]


LAYERS = [NVMeConnect, NVMeResponse, NVMeIOCommand, NVMeResponse]


@pytest.mark.parametrize("markers", [(0, 0), (1, 1)])
def test_by_port(markers: tuple[int, int]) -> None:
    connection = spoken(MPAConnection(ports=(40000, 4420), m=markers))
    assert uppers([*connection]) == LAYERS
    assert uppers([*connection]) == LAYERS  # iterated anew, it begins anew
    assert [bytes(packet) for packet in connection] == [
        bytes(packet) for packet in spoken(MPAConnection(ports=(40000, 4420), m=markers))
    ]


def test_by_private_data() -> None:
    data = bytes(NVMePrivateDataRequest(qid=1, hrqsize=32, hsqsize=31))
    connection = spoken(MPAConnection(ports=(40000, 7777), private_data=(data, b"")))
    assert uppers([*connection]) == LAYERS


def test_never_guessed() -> None:
    assert uppers([*spoken(MPAConnection(ports=(40000, 7777)))]) == [Raw] * 4
    assert uppers([*MPAConnection(ports=(40000, 4420)).send("initiator", b"no capsule")]) == [Raw]


def test_startup_frames_that_are_none_say_nothing() -> None:
    connection = MPAConnection(ports=(40000, 4420), frames=(b"no startup frame", None), allow=("startup-frame",))
    assert uppers([*connection.message("initiator", CONNECT)]) == [NVMeConnect]


def test_packets_that_come_in_another_order() -> None:
    """Only in order is it known which Send is the first; the port says enough of these."""
    connection = spoken(MPAConnection(ports=(40000, 4420), impair=["reorder", "duplicate"], seed=3))
    assert set(uppers([*connection])) <= {*LAYERS, NVMeAdminCommand}
    assert Raw not in uppers([*connection])


@pytest.mark.parametrize("name", ["siw-nfs4", "siw-nvme"])
def test_what_was_captured_has_the_layers_that_a_session_finds(name: str, tmp_path: Path) -> None:
    connection = MPAConnection.from_capture(str(named(name)))
    path = tmp_path / "made.pcap"
    wrpcap(str(path), connection)
    found = [one[FPDU] for one in sniff(offline=str(path), session=MPASession) if FPDU in one]
    ours: list[Packet] = []
    for packet in connection:
        layer = packet.getlayer(FPDU)
        while layer is not None:
            ours.append(layer)
            layer = layer.payload.getlayer(FPDU)
    sends = [type(one[RDMAPSend].payload) for one in found if RDMAPSend in one]
    mine = []
    for one in ours:
        below = one.payload.payload
        if isinstance(below, RDMAPSend):
            mine.append(type(below.payload))
    assert len(sends) > 20
    assert sorted(mine, key=str) == sorted(sends, key=str)
    assert {RPCRDMA, NVMeConnect} & set(mine)


@pytest.mark.parametrize("message", MESSAGES)
def test_octets_stay(message: str) -> None:
    packet = MESSAGES[message][0]
    connection = MPAConnection(ports=(40000, 4420)).message("initiator", packet)
    with_layers = b"".join(bytes(one) for one in connection)
    assert bytes(packet) in with_layers
