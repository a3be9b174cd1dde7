"""Names of RPC procedures, NFS operations, NVMe commands and iSCSI PDUs in what headers say."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.ulp.identify import UpperLayer
from scapy_mpa.ulp.iser import header as iser_header
from scapy_mpa.ulp.nfs import OPERATIONS, operations
from scapy_mpa.ulp.nvme import command_name, connect_queue
from scapy_mpa.ulp.nvme import header as nvme_header
from scapy_mpa.ulp.rpc import call_name
from scapy_mpa.ulp.rpcrdma import header as rpc_header

SEQUENCE = struct.pack(">I", 53) + bytes(32)
PUTFH = struct.pack(">II", 22, 5) + b"filehxxx"
GETATTR = struct.pack(">IIII", 9, 2, 1, 2)
READ = struct.pack(">I", 25) + bytes(28)
WRITE = struct.pack(">I", 38) + bytes(24)
READDIR = struct.pack(">I", 26) + bytes(24) + struct.pack(">II", 1, 7)


def compound(*operations: bytes, count: int | None = None, tag: bytes = b"") -> bytes:
    """The RPC message of a COMPOUND, with a credential of 28 octets."""
    call = struct.pack(">IIIIII", 7, 0, 2, 100003, 4, 1) + struct.pack(">II", 1, 28) + bytes(28) + bytes(8)
    tagged = struct.pack(">I", len(tag)) + tag + bytes(-len(tag) % 4)
    number = len(operations) if count is None else count
    return call + tagged + struct.pack(">II", 2, number) + b"".join(operations)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (compound(SEQUENCE, PUTFH, READ), "SEQUENCE PUTFH READ"),
        (compound(SEQUENCE, PUTFH, GETATTR, READ, tag=b"tag"), "SEQUENCE PUTFH GETATTR READ"),
        (compound(SEQUENCE, PUTFH, READDIR, GETATTR), "SEQUENCE PUTFH READDIR GETATTR"),
        (compound(PUTFH, WRITE), "PUTFH WRITE"),
        (compound(PUTFH, WRITE, GETATTR), "PUTFH WRITE ..."),
        (compound(struct.pack(">I", 999), GETATTR), "operation 999 ..."),
        (compound(PUTFH, READ, count=5), "PUTFH READ ..."),
        (compound(*[GETATTR] * 20), " ".join(["GETATTR"] * 16) + " ..."),
        (compound(), ""),
        (compound(SEQUENCE)[:60], ""),
    ],
)
def test_operations_of_a_compound(message: bytes, said: str) -> None:
    assert operations(message, 0) == operations(b"ab" + message, 2) == said


@given(st.binary(max_size=300), st.integers(0, 400))
def test_any_octets_have_operations_or_none(octets: bytes, at: int) -> None:
    for one in operations(octets, at).split(" ..."):
        assert all(name in OPERATIONS.values() or name in ("operation", "") or name.isdigit() for name in one.split())


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_compound_is_read_to_its_end(at: int, octet: int) -> None:
    message = bytearray(compound(SEQUENCE, PUTFH, GETATTR, READ))
    message[at % len(message)] = octet
    assert len(operations(bytes(message), 0)) < 400


def test_calls() -> None:
    assert call_name(100003, 3, 6) == "NFS 3 READ" and call_name(100003, 3, 21) == "NFS 3 COMMIT"
    assert call_name(100003, 3, 22) == "NFS 3 procedure 22" and call_name(100003, 4, 1) == "NFS 4 COMPOUND"
    assert call_name(0x40000000, 1, 1) == "NFS callback 1 CB_COMPOUND"
    assert call_name(5, 6, 7) == "program 5 6 procedure 7" and call_name(5, 6, 0) == "program 5 6 NULL"
    transport = struct.pack(">7I", 7, 1, 32, 0, 0, 0, 0)
    message = transport + compound(SEQUENCE, PUTFH, READ)
    header = rpc_header(message, len(message))
    assert header is not None and header.values["call"] == "NFS 4 COMPOUND SEQUENCE PUTFH READ"
    assert header.text == "Call xid 0x00000007, NFS 4 COMPOUND SEQUENCE PUTFH READ"


def test_padded_messages_have_lists_behind_two_words() -> None:
    segment = struct.pack(">IIIIQ", 1, 0, 9, 8, 7)
    octets = struct.pack(">6I", 7, 1, 32, 2, 4, 8) + segment + bytes(12)
    header = rpc_header(octets, len(octets))
    assert header is not None and [(one.stag, one.length, one.to) for one in header.named] == [(9, 8, 7)]


def test_commands_by_the_queue() -> None:
    assert command_name(2, None, 0) == "Get Log Page" and command_name(2, None, 3) == "Read"
    assert command_name(2, None, None) == "opcode 0x02" and command_name(0xC5, None, 0) == "opcode 0xc5"
    assert command_name(0x7F, 1, None) == "Fabrics Connect" and command_name(0x7F, 0x33, 0) == "Fabrics type 0x33"


def command(opcode: int, cid: int = 1) -> bytes:
    return bytes([opcode, 0x40]) + cid.to_bytes(2, "little") + bytes(60)


def test_an_asynchronous_event_request_may_wait() -> None:
    for queue, waits in ((0, True), (1, False), (None, False)):
        header = nvme_header(command(0x0C), 64, True, queue)
        assert header is not None and header.waits is waits
        assert ("answered when something happens" in header.text) is waits


@pytest.mark.parametrize("queue", [0, 5])
def test_the_queue_is_that_of_private_data_or_of_connect(queue: int) -> None:
    private = struct.pack("<HHHHH", 0, queue, 32, 31, 0) + bytes(22)
    request = startup_frame("request", rev=1, s=0, private_data=private)
    connect = b"\x7f\x40\0\0\1" + bytes(35) + struct.pack("<HHH", 0, queue, 31) + bytes(18)
    assert connect_queue(connect) == queue and connect_queue(command(2)) is None and connect_queue(connect[:63]) is None
    for upper, sends in ((UpperLayer(request, None, 4420), []), (UpperLayer(None, None, 4420), [connect])):
        for octets in sends:
            upper.see_send(octets, 64, True)
        header = upper.see_send(command(2), 64, True)
        assert header is not None and header.values["queue"] == queue
        assert header.values["command"] == ("Get Log Page" if not queue else "Read")


def test_pdus_of_iscsi() -> None:
    for opcode, name in ((0x41, "SCSI Command"), (0x21, "SCSI Response"), (0x3E, "opcode 0x3e")):
        octets = b"\x10" + bytes(27) + bytes([opcode]) + bytes(47)
        header = iser_header(octets, len(octets))
        assert header is not None and (header.values["pdu"], header.text) == (name, f"iSCSI {name}")
