"""The upper layer of a connection in the report, and the limits that it stated, as a verdict names them."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from scapy_mpa import analyze
from scapy_mpa.cli import cli
from scapy_mpa.craft import ulpdus
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.messages.reading import CapturedMessages
from scapy_mpa.report.connection import Connection
from scapy_mpa.ulp.smbdirect import DataTransfer, NegotiateRequest, NegotiateResponse
from tests.conftest import PCAPS, captures

SMB_PORT, NFS_PORT = 5445, 20049
#: The Initiator takes 8,192 octets, the Responder 1,364.
NEGOTIATE = (
    NegotiateRequest(0x100, 0x100, 0, 10, 1364, 8192, 1 << 20).encode(),
    NegotiateResponse(0x100, 0x100, 0x100, 0, 10, 10, 0, 1 << 20, 1364, 1364, 1 << 20).encode(),
)
TOO_SMALL, NO_BUFFER = 0x05, 0x02


def smb(size: int) -> bytes:
    """A Data Transfer of so many octets."""
    return DataTransfer(10, 1, 0, 0, 0, 24, size - 24).encode() + bytes(4 + size - 24)


def terminate(code: int, msn: int, length: int) -> bytes:
    """A Terminate that quotes the first DDP Segment of a Send: its buffer (RFC 5040 §4.8, RFC 5041 §7.2)."""
    quoted = ulpdus.send(msn, b"", last=False)
    body = struct.pack("!BBBB", 0x12, code, 0xC0, 0) + struct.pack("!H", length) + quoted
    return ulpdus.untagged(ulpdus.TERMINATE, ulpdus.TERMINATE_QUEUE, 1, body)


def ended(conversation: Conversation) -> Connection:
    file = io.BytesIO()
    Traffic([conversation]).write(file)
    file.seek(0)
    (connection,) = analyze(file, fpdus=False).connections
    return connection


def smb_direct(size: int, code: int = TOO_SMALL, *, by: str = "responder", **options: Any) -> Connection:
    """A Send of so many octets, as the peer's third, which answers by a Terminate."""
    sender: Any = "initiator" if by == "responder" else "responder"
    talk = Conversation(ports=(None, SMB_PORT), close="rst", closes=by, **options)
    talk.send("initiator", NEGOTIATE[0]).send("responder", NEGOTIATE[1])
    talk.send(sender, smb(400)).send(sender, smb(size))
    rtr = sender == "initiator" and options.get("rtr") == "send"
    return ended(talk.ulpdu(by, terminate(code, 3 + rtr, 1400)))  # type: ignore[arg-type]


@pytest.mark.parametrize("m", [(0, 0), (1, 1)])
@pytest.mark.parametrize("code", [TOO_SMALL, NO_BUFFER])
def test_a_terminate_names_what_smb_direct_agreed_on(code: int, m: tuple[int, int]) -> None:
    connection = smb_direct(16384, code, m=m)
    found = "a buffer that was too small" if code == TOO_SMALL else "no buffer"
    said = connection.verdict
    assert said.startswith("the Responder terminated it at frame ")
    assert "the Send of 16,384 octets (MSN 3, frames " in said
    assert f"found {found}; SMB Direct had agreed on at most 1,364; then RST by the Responder" in said
    assert connection.as_dict()["lifecycle"]["verdict"] == said
    assert connection.as_dict()["ulp"] == {"protocol": "SMB Direct", "grounds": ["port", "headers"]}


@pytest.mark.parametrize("kind", ["write", "read", "send"])
def test_a_ready_to_receive_message_is_no_negotiation(kind: str) -> None:
    flags = {"a": 1, **{flag: int(name == kind) for flag, name in zip("bcd", ("send", "write", "read"), strict=True)}}
    enhanced = {**flags, "ird": 8, "ord": 8}
    connection = smb_direct(16384, profile="rfc6581", enhanced=(enhanced, enhanced), rtr=kind)
    assert "SMB Direct had agreed on at most 1,364" in connection.verdict


def test_the_limit_is_that_of_who_terminates() -> None:
    assert "at most 8,192" in smb_direct(16384, by="initiator").verdict
    assert "agreed" not in smb_direct(4096, by="initiator").verdict


def test_what_passes_no_limit_names_none() -> None:
    said = smb_direct(1364).verdict
    assert "the Send of 1,364 octets" in said and "found a buffer that was too small;" in said and "agreed" not in said


def test_another_reason_names_no_limit() -> None:
    assert "agreed" not in smb_direct(16384, 0x01).verdict


def test_without_a_negotiation_nothing_was_agreed_on() -> None:
    talk = Conversation(ports=(None, SMB_PORT)).send("initiator", smb(2000))
    assert "agreed" not in ended(talk.ulpdu("responder", terminate(TOO_SMALL, 1, 2000))).verdict


def test_rpc_over_rdma_states_its_limit_in_private_data() -> None:
    """RFC 8797: the Responder's Private Data say that it takes 4,096 octets inline."""
    private = struct.pack(">IBBBB", 0xF6AB0E18, 1, 0, 7, 3)
    talk = Conversation(ports=(None, NFS_PORT), private_data=(private, private)).send("initiator", bytes(6000))
    connection = ended(talk.ulpdu("responder", terminate(TOO_SMALL, 1, 1400)))
    assert "found a buffer that was too small; RPC-over-RDMA had agreed on at most 4,096" in connection.verdict


@pytest.mark.parametrize("path", captures(), ids=lambda path: path.stem)
def test_the_report_says_what_all_messages_say(path: Path) -> None:
    """The beginning of a connection shows its upper layer as well as all of its messages do."""
    with CapturedMessages(str(path)) as found:
        for connection in found.report.connections:
            if connection.number in found.messages:
                assert connection.upper_layer.name == found.messages[connection.number].upper.name


def invoke(*arguments: object) -> tuple[str, str]:
    words = [*map(str, arguments)]
    result = CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)
    return result.stdout, result.stderr


def test_connections_are_chosen_by_upper_layer() -> None:
    rping, other = PCAPS / "siw-rping.pcap", PCAPS / "siw-terminate.pcap"
    lines = invoke("analyze", rping, other, "--ulp", "rping")[0].splitlines()
    assert [line[:2] for line in lines if line.startswith("#")] == ["#0"]
    assert any(" s, rping;" in line for line in lines)
    for command in ("fpdus", "messages"):
        every, some = (
            invoke(command, rping, other, "--format", "csv", *chosen)[0].splitlines()
            for chosen in ((), ("--ulp", "rping"))
        )
        assert some == [every[0], *(line for line in every[1:] if line.startswith("0,"))]
    for command in ("analyze", "startup"):
        assert invoke(command, rping, "--ulp", "iser")[1] == "scapy-mpa: no connection matches --ulp\n"
