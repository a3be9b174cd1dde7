"""``MPASession(messages=True)``: one packet for each RDMAP message, and those that answer each other linked."""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, attr-defined, index, operator, union-attr, unused-ignore"

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, Raw
from scapy.sendrecv import sniff

from scapy_mpa import analyze, iter_messages
from scapy_mpa.framing.role import Role
from scapy_mpa.layers import (
    FPDU,
    ISER,
    RPCRDMA,
    DDPTagged,
    DDPUntagged,
    ISCSIHeader,
    MPAConnection,
    MPAReply,
    MPARequest,
    MPASession,
    NVMeAdminCommand,
    NVMeConnect,
    RDMAPMessage,
    RDMAPReadRequest,
    RDMAPReadResponse,
    RDMAPSend,
    SMBDirectDataTransfer,
    SMBDirectNegotiateRequest,
    SMBDirectNegotiateResponse,
)
from scapy_mpa.layers import messages as messages_module
from scapy_mpa.messages.row import MessageRow
from tests.conftest import captures, named
from tests.layers.uppercases import SMB2

#: Those of some megabytes take long.
SMALL = [path for path in captures() if path.stat().st_size < 3_000_000]
CONFORMANT = [path for path in SMALL if "faulty" not in path.stem]


def packets_of(capture: Any, **options: Any) -> list[Packet]:
    return list(sniff(offline=capture, session=MPASession(messages=True, **options), quiet=True))


def messages_of(capture: Any, **options: Any) -> list[Packet]:
    return [packet for packet in packets_of(capture, **options) if RDMAPMessage in packet]


def plain(row: MessageRow) -> MessageRow:
    """Return what does not depend on what comes later, nor on octets being kept."""
    return row._replace(answer=None, reply=None, payload=None, ulp=None, text="", note=None, after_error=False)


@pytest.mark.parametrize("path", CONFORMANT, ids=lambda path: path.stem)
def test_the_messages_of_a_capture(path: Path) -> None:
    rows = list(iter_messages(path, payload=True))
    found = messages_of(str(path))
    # Behind octets that were never captured nothing is delivered, so iter_messages sorts what is there at the end; and
    # how Full Operation began is inferred of one connection sooner than of another.
    if all(row.delivered_frame for row in rows) and "midstream" not in path.stem:
        assert [plain(packet.message) for packet in found] == [plain(row) for row in rows]
    else:
        rows.sort(key=str)
        found.sort(key=lambda packet: str(packet.message))
    assert len(rows) == len(found)
    for row, packet in zip(rows, found, strict=False):
        check(row, packet)


def check(row: MessageRow, packet: Packet) -> None:
    assert packet.message.first_frame <= packet.frames[-1] and packet.frame == packet.message.last_frame
    if row != packet.message._replace(answer=row.answer, reply=row.reply, payload=row.payload):
        return  # sorted otherwise
    header = packet[RDMAPMessage].payload
    assert row.payload is not None
    if row.qn is not None:
        assert isinstance(header, DDPUntagged) and (header.qn, header.msn, header.mo) == (row.qn, row.msn, row.offset)
        assert bytes(header)[18:] == row.payload
    elif row.stag is not None:
        assert isinstance(header, DDPTagged) and (header.stag, header.to) == (row.stag, row.to)
        assert bytes(header)[14:] == row.payload
    assert (packet.segments, packet.octets, packet.complete) == (row.segments, row.octets, row.complete)
    assert header.opcode_name() == row.message and bool(header.l) is row.last
    if row.answer is not None:
        assert packet.answer.frame == row.answer.frame and packet.answer.request is packet
        assert (packet.answer.message.octets, packet.answer.message.first_frame) == (
            row.answer.octets,
            row.answer.first_frame,
        )
        latency = packet.answer.time - packet.time
        assert abs(float(latency) - row.answer.latency_ns / 1e9) < 1e-6


@pytest.mark.parametrize("name", ["siw-nfs4", "siw-nvme", "markers-reordered", "siw-read-64"])
def test_frames_are_those_of_the_fpdus(name: str) -> None:
    """An FPDU's frames are those of its record; which FPDUs a message has shows its DDP headers, in stream order."""
    path = str(named(name))
    fpdus = [
        packet
        for packet in sniff(offline=path, session=MPASession(order="delivered"), quiet=True)
        if FPDU in packet and not isinstance(packet[FPDU].payload, Raw)
    ]
    expected: dict[Any, list[set[int]]] = defaultdict(list)
    tagged: dict[Any, set[int]] = defaultdict(set)
    untagged: dict[Any, set[int]] = defaultdict(set)
    for packet in fpdus:
        header, half = packet[FPDU].payload, (packet.record.connection, packet.record.direction)
        if isinstance(header, DDPTagged):
            tagged[half] |= set(packet.record.frames)
            if header.l:
                expected[half, "tagged"].append(tagged.pop(half))
        else:
            untagged[half, header.qn, header.msn] |= set(packet.record.frames)
            if header.l:
                expected[half, header.qn, header.msn].append(untagged.pop((half, header.qn, header.msn)))
    seen: Counter[Any] = Counter()
    for packet in messages_of(path):
        row = packet.message
        half = row.connection, row.direction
        key = (half, "tagged") if row.qn is None else (half, row.qn, row.msn)
        assert set(packet.frames) == expected[key][seen[key]]
        seen[key] += 1
    assert seen == {key: len(frames) for key, frames in expected.items()}


def test_a_sender_that_is_known_to_deviate() -> None:
    path = named("faulty-pad")
    found = messages_of(str(path), deviations=analyze(path).deviations)
    assert [plain(packet.message) for packet in found] == [plain(row) for row in iter_messages(path)]


# --- links ---


def test_nfs_calls_and_their_replies() -> None:
    found = messages_of(str(named("siw-nfs4")))
    calls = [packet for packet in found if packet.answer is not None and RPCRDMA in packet]
    assert len(calls) == 175
    for call in calls:
        reply = call.answer
        assert reply.request is call and reply[RPCRDMA].xid == call[RPCRDMA].xid and reply.dport == call.sport
        assert reply.message.ulp["call_frame"] == call.message.first_frame
        assert abs(float(reply.time - call.time) - reply.message.ulp["latency"]) < 1e-6
        assert call.request is None and reply.answer is None
    slowest = max(calls, key=lambda call: call.answer.time - call.time)
    assert (slowest.frame, slowest.answer.frame) == (52, 1158)
    # The Read that the server did for it is linked with its Response.
    (read,) = (packet for packet in found if RDMAPReadRequest in packet)
    assert RDMAPReadResponse in read.answer and read.answer.octets == 524288 == len(read.answer[Raw].load)
    assert len(read.answer.frames) > 300


def test_nvme_commands_and_their_responses() -> None:
    found = messages_of(str(named("siw-nvme")))
    commands = [packet for packet in found if packet.dport == 4420 and RDMAPSend in packet]
    (waiting,) = (packet for packet in commands if packet.answer is None)
    assert waiting[NVMeAdminCommand].opcode == 0x0C
    for packet in commands:
        if packet is not waiting:
            assert packet.answer[RDMAPSend].payload.cid == packet[RDMAPSend].payload.cid
            assert packet.answer.answers(packet) or packet.answer[RDMAPSend].answers(packet[RDMAPSend])
    assert sum(NVMeConnect in packet for packet in commands) == 3
    # A reply says what the call asked for: its own octets do not.
    assert {one.answer[RDMAPSend].payload.summary() for one in commands if NVMeConnect in one} == {
        f"NVMe-oF: Response to command {cid}, to Fabrics Connect"
        for cid in {one[NVMeConnect].cid for one in commands if NVMeConnect in one}
    }


def test_startup_frames() -> None:
    request, reply = packets_of(str(named("siw-nfs4")))[:2]
    assert MPARequest in request and MPAReply in reply
    assert request.answer is reply and reply.request is request and request.request is reply.answer is None


def made(port: int, sends: Iterable[tuple[Role, Packet]], **setup: Any) -> list[Packet]:
    connection = MPAConnection(ports=(None, port), **setup)
    for role, message in sends:
        connection.send(role, bytes(message))
    return messages_of(connection.packets())


def test_smb2_and_iscsi() -> None:
    asked, told = SMB2.copy(), SMB2.copy()
    asked.MID = told.MID = 7
    told.Flags = 1
    sends: list[tuple[Role, Packet]] = [
        ("initiator", SMBDirectNegotiateRequest()),
        ("responder", SMBDirectNegotiateResponse()),
        ("initiator", SMBDirectDataTransfer() / asked),
        ("initiator", SMBDirectDataTransfer()),
        ("responder", SMBDirectDataTransfer() / told),
    ]
    *_, request, credits, response = made(5445, sends)
    assert request.answer is response and response.request is request and credits.answer is None
    sends = [
        ("initiator", ISER() / ISCSIHeader(initiator_task_tag=5)),
        ("initiator", ISER() / ISCSIHeader(opcode="NOP-Out", initiator_task_tag=0xFFFFFFFF)),
        ("responder", ISER() / ISCSIHeader(opcode="NOP-In", initiator_task_tag=0xFFFFFFFF)),
        ("responder", ISER() / ISCSIHeader(opcode="SCSI Response", initiator_task_tag=5)),
    ]
    command, _, nop, response = made(3260, sends)
    assert command.answer is response and nop.request is None


def test_a_message_over_several_fpdus_is_one_packet() -> None:
    (message,) = made(7471, [("initiator", Raw(bytes(range(250)) * 40))], m=(1, 1))
    assert message.segments > 5 and message.octets == 10_000 == len(message[Raw].load) and message.complete
    assert f"message of 10000 octets in {len(message.frames)} frames" in message.summary()
    assert message[TCP].dport == 7471 and message[IP].src == "10.0.0.1"
    assert "frames    = (" in message.show(dump=True)


def test_what_is_not_whole_comes_as_a_part() -> None:
    connection = MPAConnection()
    connection.send("initiator", b"first").send("initiator", bytes(5000)).send("initiator", b"last")
    packets = connection.packets()
    data = [
        number
        for number, packet in enumerate(packets)
        if TCP in packet and packet[TCP].dport == 7471 and FPDU in packet
    ]
    found = messages_of([packet for number, packet in enumerate(packets) if number != data[2]])
    parts = [packet for packet in found if packet.message.msn == 2]
    assert parts and not any(part.complete for part in parts) and "part of a message" in parts[0].summary()
    assert [packet.message.msn for packet in found if packet.complete] == [1, 3]


# --- what is bounded ---


def test_messages_longer_than_the_limit_come_in_parts() -> None:
    connection = MPAConnection().send("initiator", bytes(20_000))
    parts = messages_of(connection.packets(), held_limit=8000)
    assert len(parts) > 2 and sum(part.octets for part in parts) == 20_000
    assert [part.message.offset for part in parts] == sorted(part.message.offset for part in parts)


def test_requests_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages_module, "MOST_WAITING", 3)
    sends: list[tuple[Role, Packet]] = [("initiator", NVMeAdminCommand(cid=cid)) for cid in range(6)]
    sends += [("responder", type_response(cid)) for cid in range(6)]
    found = made(4420, sends)
    assert [packet.answer is not None for packet in found[:6]] == [False] * 3 + [True] * 3


def type_response(cid: int) -> Packet:
    from scapy_mpa.layers import NVMeResponse

    return NVMeResponse(cid=cid)


def test_nothing_is_kept_of_a_connection_that_is_over() -> None:
    session = MPASession(messages=True)
    sniff(offline=str(named("siw-eight-connections")), session=session, quiet=True)
    kept = session._messages
    assert kept is not None and not (
        kept._captured or kept._segments or kept._frames or kept._versions or kept.readings
    )
    assert not session._requests


def test_other_packets_are_passed_on_too() -> None:
    path = str(named("siw-rping"))
    found = packets_of(path, passthrough=True)
    assert sum(RDMAPMessage in packet for packet in found) == 35
    assert any(MPARequest not in packet and RDMAPMessage not in packet for packet in found)
    assert not any(FPDU in packet for packet in found)


def test_of_a_packet_that_no_session_found() -> None:
    with pytest.raises(AttributeError):
        _ = (RDMAPMessage() / DDPUntagged()).answer
    found = messages_of(str(named("siw-rping")))
    assert found[0].copy().message == found[0].message and found[1].copy().request is found[1].request
