"""Calls to services above RDMAP: what they send, and what they make of answers."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner

from scapy_mpa.cli import cli
from scapy_mpa.live.rdmap import RDMAPEndpoint, SendDelivered
from scapy_mpa.live.services import NVME_PRIVATE_DATA, NFSNull, NVMeConnectClient
from scapy_mpa.live.speaker import UpperLayerError
from scapy_mpa.packet.nvme import NVMeAdminCommand, NVMeConnect, NVMeConnectData, NVMePropertyGet, NVMePropertySet
from scapy_mpa.packet.rpcrdma import RPCRDMA
from tests.live.loopback import listening
from tests.live.test_commands import connect

XID = 0x6E756C6C
NULL_ANSWER = struct.pack(">7I", XID, 1, 32, 0, 0, 0, 0) + struct.pack(">6I", XID, 1, 0, 0, 0, 0)


class Endpoint:
    """Keeps what is sent, and memory."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.buffers: dict[int, bytearray] = {}

    def send(self, payload: bytes) -> None:
        self.sent.append(payload)

    def register(self, octets: bytearray) -> Any:
        stag = 0x100 * (len(self.buffers) + 1)
        self.buffers[stag] = octets
        return SimpleNamespace(stag=stag, octets=octets)

    def deregister(self, stag: int) -> None:
        self.buffers[stag] = bytearray()


def answered(payload: bytes) -> SendDelivered:
    return SendDelivered(msn=1, payload=payload, solicited=False, invalidated=None)


def response(cid: int, result: int = 0, status: int = 0) -> SendDelivered:
    return answered(struct.pack("<QHHHH", result, 0, 0, cid, status << 1))


def test_nfs_answers() -> None:
    endpoint = Endpoint()
    speaker = NFSNull(cast(RDMAPEndpoint, endpoint))
    speaker.begin()
    (call,) = endpoint.sent
    assert (len(call), RPCRDMA(call).xid, RPCRDMA(call).credits) == (68, XID, 32)
    assert call[32:52] == struct.pack(">5I", 0, 2, 100003, 3, 0)
    assert not speaker.is_done
    speaker.take(answered(NULL_ANSWER))
    assert (speaker.is_done, speaker.summary) == (True, "nfs-null: NFS 3 answers")


@pytest.mark.parametrize("answer", [b"", NULL_ANSWER[:-4], NULL_ANSWER[:-1] + b"\x02", b"\0" * 52])
def test_what_is_no_answer_of_nfs(answer: bytes) -> None:
    speaker = NFSNull(cast(RDMAPEndpoint, Endpoint()))
    speaker.begin()
    with pytest.raises(UpperLayerError, match="does not report the success of our call"):
        speaker.take(answered(answer))


def test_a_controller_says_who_it_is() -> None:
    endpoint = Endpoint()
    speaker = NVMeConnectClient(cast(RDMAPEndpoint, endpoint))
    speaker.begin()
    sent = NVMeConnect(endpoint.sent[-1])
    data = NVMeConnectData(bytes(endpoint.buffers[sent.key]))
    assert (sent.cid, sent.qid, sent.length) == (1, 0, 1024)
    assert data.subnqn.rstrip(b"\0") == b"nqn.2014-08.org.nvmexpress.discovery"
    speaker.take(response(1, result=7))
    assert NVMePropertySet(endpoint.sent[-1]).value == 0x460001
    speaker.take(response(2))
    speaker.take(response(3, result=0))
    assert NVMePropertyGet(endpoint.sent[-1]).ofst == 0x1C
    speaker.take(response(3, result=1))
    identify = NVMeAdminCommand(endpoint.sent[-1])
    assert (identify.cdw10, identify.length) == (1, 4096)
    endpoint.buffers[identify.key][4:64] = b"serial".ljust(20) + b"a model".ljust(40)
    speaker.take(response(4))
    assert speaker.is_done
    assert speaker.summary == "nvme-connect: connected to controller 7, which is 'a model', serial number 'serial'"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (response(1, status=0x182), "Connect is answered by status 0x0182"),
        (response(9), "a response to command 9, which was not sent"),
        (answered(b"too short"), "9 octets are not a response capsule"),
    ],
)
def test_a_controller_that_refuses(answer: SendDelivered, said: str) -> None:
    speaker = NVMeConnectClient(cast(RDMAPEndpoint, Endpoint()))
    speaker.begin()
    with pytest.raises(UpperLayerError, match=said):
        speaker.take(answer)


def test_a_controller_that_is_never_ready() -> None:
    endpoint = Endpoint()
    speaker = NVMeConnectClient(cast(RDMAPEndpoint, endpoint))
    speaker.begin()
    speaker.take(response(1))
    speaker.take(response(2))
    for _ in range(99):
        speaker.take(response(3))
    with pytest.raises(UpperLayerError, match="does not become ready"):
        speaker.take(response(3))
    assert len(endpoint.sent) == 102


def test_a_connection_asks_nfs() -> None:
    with listening("--count", "1", "--say", "initiator send", "--say", f"send hex:{NULL_ANSWER.hex()}") as (_, port):
        status, out, _ = connect(port, "--ulp", "nfs-null")
    assert status == 0
    assert "nfs-null: NFS 3 answers" in out


def test_a_connection_names_its_queue() -> None:
    refusal = struct.pack("<QHHHH", 0, 0, 0, 1, 0x182 << 1).hex()
    with listening("--count", "1", "--say", "initiator send", "--say", f"send hex:{refusal}") as (_, port):
        status, out, _ = connect(port, "--ulp", "nvme-connect")
    assert status == 1
    assert "Connect is answered by status 0x0182" in out
    assert len(NVME_PRIVATE_DATA) == 32


def test_one_call_is_not_counted() -> None:
    done = CliRunner().invoke(cli, ["connect", "127.0.0.1", "9", "--ulp", "nfs-null", "--count", "3"])
    assert done.exit_code == 2
    assert "leave --count out" in done.output
