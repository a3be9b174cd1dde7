"""SMB2's requests in SMB Direct have their responses, and how long these took."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from scapy_mpa import iter_messages
from scapy_mpa.craft.conversation import Conversation
from scapy_mpa.craft.traffic import Traffic
from scapy_mpa.messages.smb2 import smb2_message
from tests.cli.test_command import invoke
from tests.messages.test_memory import smb_direct

READ, CANCEL, CHANGE_NOTIFY = 8, 12, 15
PENDING = 0x103


def header(command: int, number: int, *, response: bool = False, status: int = 0) -> bytes:
    return b"\xfeSMB" + struct.pack("<HHIHHIIQ", 64, 0, status, command, 1, int(response), 0, number).ljust(60, b"\0")


def transfer(message: bytes) -> bytes:
    """A Data Transfer of SMB Direct."""
    return struct.pack("<HHHHIII", 10, 1, 0, 0, 0, 24, len(message)) + bytes(4) + message


def talk() -> Conversation:
    made = smb_direct()
    for sender, octets in (
        ("initiator", header(READ, 4)),
        ("initiator", header(CHANGE_NOTIFY, 5)),
        ("responder", header(CHANGE_NOTIFY, 5, response=True, status=PENDING)),
        ("responder", header(READ, 4, response=True)),
        ("initiator", header(CANCEL, 5)),
        ("initiator", header(READ, 6)),
        ("responder", b"\xfdSMB" + bytes(60)),  # encrypted
    ):
        made = made.send(sender, transfer(octets))  # type: ignore[arg-type]
    return made


def written(tmp_path: Path) -> Path:
    path = tmp_path / "smb.pcap"
    with open(path, "wb") as file:
        Traffic([talk()]).write(file)
    return path


def test_a_request_has_its_response(tmp_path: Path) -> None:
    rows = list(iter_messages(written(tmp_path)))
    calls = [row for row in rows if row.call]
    assert [row.call for row in calls] == ["SMB2 READ", "SMB2 CHANGE_NOTIFY", "SMB2 READ"]
    response = next(row for row in rows if row.ulp and row.ulp.get("smb2", {}).get("is_response"))
    assert calls[0].reply is not None and calls[0].reply.frame == response.last_frame
    assert calls[0].latency_ns == response.time_ns - calls[0].time_ns
    # What is pending has no response yet, a CANCEL never has one.
    assert [row.is_unanswered for row in calls] == [False, True, True]
    assert [row.may_wait for row in calls] == [False, True, False]


def test_they_are_summed_up(tmp_path: Path) -> None:
    path = str(written(tmp_path))
    text = invoke("messages", path, "--summary").output
    assert "3 calls, 1 answered, 1 that may wait indefinitely (SMB2 CHANGE_NOTIFY)" in text
    assert "SMB2 CHANGE_NOTIFY: normal" in text
    (summary,) = map(json.loads, invoke("messages", path, "--summary", "--format", "jsonl").output.splitlines())
    procedures = {one["call"]: (one["calls"], one["replies"]) for one in summary["ulp"]["procedures"]}
    assert procedures == {"SMB2 READ": (2, 1), "SMB2 CHANGE_NOTIFY": (1, 0)}
    assert (summary["ulp"]["calls"], summary["ulp"]["replies"], summary["ulp"]["waiting"]) == (3, 1, 1)


def test_what_is_no_header() -> None:
    assert smb2_message(header(READ, 1), 0) == ("SMB2 READ", 1, False)
    assert smb2_message(header(99, 1), 0) == ("SMB2 command 99", 1, False)
    for octets, at in ((b"", 0), (header(READ, 1)[:31], 0), (header(READ, 1), 4), (b"\xfdSMB" + bytes(60), 0)):
        assert smb2_message(octets, at) is None
