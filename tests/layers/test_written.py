"""Layers as text: what is said is built, and nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from scapy.packet import Packet, Raw
from scapy.utils import wrpcap

from scapy_mpa import MPAConnection, analyze, iter_messages
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.steps import say
from scapy_mpa.craft.turns import Say
from scapy_mpa.errors import FramingError, MPAError
from scapy_mpa.packet.nvme import NVMeConnect, NVMeConnectData
from scapy_mpa.packet.rpcrdma import RPCRDMA, RPCRDMARead
from scapy_mpa.packet.smbdirect import SMBDirectDataTransfer
from scapy_mpa.packet.written import LONGEST, layers, octets

CONNECT = 'NVMeConnect(recfmt=0xffff, cid=1) / NVMeConnectData(subnqn="nqn.a")'


@pytest.mark.parametrize(
    ("text", "packet"),
    [
        (CONNECT, NVMeConnect(recfmt=0xFFFF, cid=1) / NVMeConnectData(subnqn=b"nqn.a")),
        ("RPCRDMA(xid=7, reads=[RPCRDMARead(position=1)])", RPCRDMA(xid=7, reads=[RPCRDMARead(position=1)])),
        ("SMBDirectDataTransfer() / b'\\x00\\xff'", SMBDirectDataTransfer() / b"\x00\xff"),
        ("Raw(load='x') / 'y'", Raw(load=b"xy")),
        ("NVMeConnect(qid=-0)", NVMeConnect()),
    ],
)
def test_what_is_said_is_built(text: str, packet: Packet) -> None:
    assert octets(text) == bytes(packet)
    assert isinstance(layers(text), type(packet))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not layers"),
        ("NVMeConnect(", "is not layers"),
        ("(" * 3000, "is not layers"),
        ("NVMeConnect(qid=1)" + " " * LONGEST, "at most"),
        ("17", "names no layer"),
        ("NVMeConect()", "there is no layer NVMeConect"),
        ("NVMeConnect(qod=1)", "has no field qod"),
        ("NVMeConnect(1)", "is no layer with its fields"),
        ("NVMeConnect(**Raw())", "has no field **"),
        ("__import__('os').system('x')", "is no layer with its fields"),
        ("NVMeConnect(qid=2 ** 9)", "is no layer with its fields"),
        ("NVMeConnect(qid=1 << 99)", "is no layer with its fields"),
        ("b'' / NVMeConnect()", "is no layer with its fields"),
        ("NVMeConnect(qid=70000)", "cannot be built"),
        ("NVMeConnect(qid='x')", "cannot"),
    ],
)
def test_what_is_none(text: str, said: str) -> None:
    with pytest.raises(FramingError) as raised:
        octets(text)
    assert said in str(raised.value)


def test_steps_name_messages() -> None:
    conversation = Conversation(ports=(40000, 4420))
    say(conversation, f"initiator message '{CONNECT}' times=2")
    say(conversation, "responder message NVMeResponse(cid=1) invalidate=16")
    assert [step.message.payload[:] for step in conversation.steps if isinstance(step, Say)] == [
        octets(CONNECT),
        octets(CONNECT),
        octets("NVMeResponse(cid=1)"),
    ]
    with pytest.raises(MPAError, match="there is no layer NVMe"):
        say(conversation, "initiator message NVMe()")


def test_a_packet_is_a_message(tmp_path: Path) -> None:
    connection = MPAConnection(ports=(40000, 4420), m=(1, 1))
    connection.message("initiator", NVMeConnect(cid=4) / NVMeConnectData())
    connection.message("responder", "NVMeResponse(cid=4)")
    path = tmp_path / "made.pcap"
    wrpcap(str(path), connection.packets())
    found = [*iter_messages(str(path))]
    assert [(one.message, one.octets) for one in found] == [("Send", 64 + 1024), ("Send", 16)]
    assert analyze(str(path)).connections[0].upper_layer.protocol == "NVMe-oF"
