"""The layers above RDMAP: RPC-over-RDMA, SMB Direct, NVMe-oF, iSER."""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, attr-defined, index, operator, union-attr, unused-ignore"

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.config import conf
from scapy.contrib.oncrpc import RPC, RPC_Call
from scapy.layers import smb2
from scapy.layers.inet import IP, TCP
from scapy.layers.smb2 import SMB2_Header
from scapy.packet import Packet, Raw, fuzz
from scapy.sendrecv import sniff

from scapy_mpa import iter_messages
from scapy_mpa.craft.setup import ConversationError
from scapy_mpa.layers import (
    FPDU,
    RPCRDMA,
    DDPUntagged,
    MPAConnection,
    MPASession,
    NVMeAdminCommand,
    NVMeConnect,
    NVMeConnectData,
    NVMeIOCommand,
    NVMeResponse,
    RDMAPSend,
    RPCRDMAChunk,
    RPCRDMARead,
    RPCRDMASegment,
    SMBDirectDataTransfer,
    SMBDirectNegotiateRequest,
    bind_mpa,
    fpdu_packet,
    unbind_mpa,
)
from scapy_mpa.packet.upper import upper_of
from tests.conftest import captures, named
from tests.layers.uppercases import ANSWERS, CALL, MESSAGES, PORTS, SMB2, protocol_of, send, smb_direct_connection

CASES = [pytest.param(message, octets, id=name) for name, (message, octets) in MESSAGES.items()]


def rebuilt(packet: Packet) -> bytes:
    """The octets that a packet has by its fields alone."""
    again = packet.copy()
    for layer in again.iterpayloads():
        layer.clear_cache()
    return bytes(again)


@pytest.fixture
def strict() -> Iterator[None]:
    before, conf.debug_dissector = conf.debug_dissector, True
    yield
    conf.debug_dissector = before


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize(("message", "octets"), CASES)
def test_built_and_dissected(message: Packet, octets: str) -> None:
    wire = bytes.fromhex(octets)
    assert bytes(message).hex() == wire.hex()
    packet = type(message)(wire)
    assert bytes(packet) == rebuilt(packet) == wire
    for name in message.fields:
        built, found = message.getfieldval(name), packet.getfieldval(name)
        if isinstance(built, (list, Packet)):
            assert b"".join(map(bytes, built)) == b"".join(map(bytes, found))
            continue
        assert built == (found.rstrip(b"\0") if isinstance(found, bytes) else found), name


@pytest.mark.parametrize(("message", "octets"), CASES)
def test_in_an_fpdu_it_stays_what_it_is(message: Packet, octets: str) -> None:
    del octets
    built = send(message)
    packet = fpdu_packet(bytes(built), None, upper=type(message))
    for one in (packet, packet.copy(), pickle.loads(pickle.dumps(packet))):
        assert upper_of(one) is type(message) and bytes(one) == bytes(built)
        assert protocol_of(message) in one.summary() and "FPDU" in one.summary()
    # show2() dissects anew.
    assert str(message.name) in built.show2(dump=True)
    assert upper_of(FPDU(bytes(built))) is None


@pytest.mark.parametrize(("message", "octets"), CASES)
def test_bound_by_port_and_direction_and_by_nothing_else(message: Packet, octets: str) -> None:
    del octets
    port = PORTS[protocol_of(message)]
    ends = {"dport" if message.is_from_initiator else "sport": port}
    segment = bytes(IP() / TCP(**ends) / send(message))
    assert upper_of(IP(segment)) is None
    bind_mpa(port, 7471)
    try:
        found = upper_of(IP(segment))
        # A single segment does not say which queue a command is for.
        assert found is type(message) or (found is not None and found.kinds == ("command",))
        other = IP(bytes(IP() / TCP(dport=7471) / send(message)))
        assert FPDU in other and upper_of(other) is None
        # A segment in the midst of a message begins with anything.
        later = send(message)
        later[DDPUntagged].mo = 4096
        assert upper_of(IP(bytes(IP() / TCP(**ends) / later))) is None
    finally:
        unbind_mpa(port, 7471)


def test_several_fpdus_of_a_bound_segment() -> None:
    bind_mpa(4420)
    try:
        fpdus = send(NVMeConnect(), 1) / send(MESSAGES["property get"][0], 2)
        found = IP(bytes(IP() / TCP(dport=4420) / fpdus))[TCP].payload.fpdus
        assert [upper_of(one).__name__ for one in found] == ["NVMeConnect", "NVMePropertyGet"]
    finally:
        unbind_mpa(4420)


def test_what_does_not_fit_the_port_stays_octets() -> None:
    bind_mpa(*PORTS.values())
    try:
        for port in PORTS.values():
            for octets in (b"x", b"\xff" * 100, bytes(7)):
                for ends in ({"dport": port}, {"sport": port}):
                    packet = IP(bytes(IP() / TCP(**ends) / send(Raw(octets))))
                    assert upper_of(packet) is None and packet[RDMAPSend].payload.load == octets
    finally:
        unbind_mpa(*PORTS.values())


# --- what is computed, and what is kept ---


def test_smb_direct_counts_its_data() -> None:
    for size in (1, 7, 8, 1000):
        packet = SMBDirectDataTransfer(bytes(SMBDirectDataTransfer() / bytes(size)))
        assert (packet.data_offset, packet.data_length, packet.padding, len(packet)) == (24, size, bytes(4), 24 + size)
    kept = SMBDirectDataTransfer(data_offset=32, data_length=9, padding=b"ab") / b"abc"
    assert bytes(kept)[12:].hex() == "20000000" + "09000000" + b"ababc".hex()
    assert bytes(SMBDirectDataTransfer(data_offset=32) / b"abc")[20:] == bytes(12) + b"abc"
    assert bytes(SMBDirectDataTransfer(padding=b"") / b"abc")[12:] == bytes.fromhex("14000000 03000000") + b"abc"
    # What is behind the data is none of it.
    behind = SMBDirectDataTransfer(bytes(SMBDirectDataTransfer(data_length=2) / b"abc"))
    assert behind.payload.load == b"ab" and bytes(behind.payload.payload) == b"c"


def test_smb2_is_handed_on_if_it_is_whole() -> None:
    whole = SMBDirectDataTransfer(bytes(SMBDirectDataTransfer() / SMB2))
    assert SMB2_Header in whole and rebuilt(whole) == bytes(SMBDirectDataTransfer() / SMB2)
    for part in (
        SMBDirectDataTransfer(remaining_data_length=1) / SMB2,
        SMBDirectDataTransfer(data_length=500) / SMB2,
        SMBDirectDataTransfer() / bytes(SMB2)[1:],
    ):
        assert SMB2_Header not in SMBDirectDataTransfer(bytes(part))


def test_encrypted_smb2_is_handed_on_if_scapy_knows_it() -> None:
    known = getattr(smb2, "SMB2_Transform_Header", Raw)
    packet = SMBDirectDataTransfer(bytes(SMBDirectDataTransfer() / (b"\xfdSMB" + bytes(60))))
    assert type(packet.payload) is known and bytes(packet.payload) == b"\xfdSMB" + bytes(60)


def test_rpc_is_handed_on_if_it_is_of_the_xid() -> None:
    call = RPCRDMA(bytes(RPCRDMA() / CALL))
    assert call[RPC_Call].procedure == 1 and call.xid == call[RPC].xid == 7
    assert RPC not in RPCRDMA(bytes(RPCRDMA(xid=8) / CALL))
    assert RPC not in RPCRDMA(bytes(RPCRDMA(procedure="RDMA_NOMSG") / CALL))
    assert RPC not in RPCRDMA(bytes(RPCRDMA() / RPC(xid=7, mtype=2)))
    assert "NFS 4 COMPOUND" in call.summary()
    assert bytes(RPCRDMA())[:4] == bytes(4)


@pytest.mark.parametrize(
    "octets",
    [
        b"x",
        bytes(28),
        b"\0\0\0\7\0\0\0\2" + bytes(20),  # a version that is not known
        bytes(RPCRDMA(xid=7, version=1, procedure=9)),
        bytes(RPCRDMA(reads=[RPCRDMARead()] * 3))[:70],  # cut in its lists
        bytes(RPCRDMA())[:16] + b"\0\0\0\2" + bytes(8),  # neither an element nor the end of a list
        bytes(RPCRDMA(writes=[RPCRDMAChunk(count=1 << 30)])),  # more segments than there are octets
    ],
)
def test_no_header_of_rpc_over_rdma(octets: bytes) -> None:
    packet = RPCRDMA(octets)
    assert isinstance(packet, Raw) and bytes(packet) == octets


def test_names_of_commands_follow_the_queue() -> None:
    assert NVMeAdminCommand(opcode="Identify").opcode == NVMeIOCommand().opcode + 4 == 6
    assert "Identify" in NVMeAdminCommand(opcode=6).summary() and "Read" in NVMeIOCommand(opcode=2).summary()
    assert "Get Log Page" in NVMeAdminCommand(opcode=2).summary()
    assert "is answered when something happens" in NVMeAdminCommand(opcode="Asynchronous Event Request").summary()
    assert NVMeConnectData in NVMeConnect(bytes(NVMeConnect() / NVMeConnectData()))
    assert NVMeConnectData not in NVMeConnect(bytes(NVMeConnect() / bytes(1023)))


@pytest.mark.parametrize(("answer", "question"), ANSWERS)
def test_answers(answer: str, question: str) -> None:
    ours, theirs = (MESSAGES[name][0] for name in (answer, question))
    assert ours.answers(theirs) and not theirs.answers(ours)
    assert send(ours).answers(send(theirs)) and send(ours).hashret() == send(theirs).hashret()
    for name, (message, _) in MESSAGES.items():
        if name not in (question, "call with chunks") and protocol_of(message) == protocol_of(ours):
            assert not ours.answers(message), name


def test_a_response_answers_the_command_of_its_identifier() -> None:
    command = NVMeIOCommand(cid=5)
    assert NVMeResponse(cid=5).answers(command) and not NVMeResponse(cid=6).answers(command)
    assert not command.answers(NVMeResponse(cid=5)) and not NVMeResponse().answers(NVMeResponse())
    transfer = SMBDirectDataTransfer()
    assert transfer.answers(transfer) and not transfer.answers(SMBDirectNegotiateRequest())
    assert not send(NVMeResponse()).answers(send(RPCRDMA()))
    assert send(Raw(b"x")).answers(send(RPCRDMA()))


# --- any values, any octets ---

CLASSES = list(dict.fromkeys(type(message) for message, _ in MESSAGES.values()))
SEGMENTS = st.lists(
    st.builds(
        RPCRDMASegment,
        handle=st.integers(0, (1 << 32) - 1),
        length=st.integers(0, (1 << 32) - 1),
        offset=st.integers(0, (1 << 64) - 1),
    ),
    max_size=4,
)
CHUNKS = st.builds(RPCRDMAChunk, segments=SEGMENTS)
READS = st.builds(
    RPCRDMARead,
    position=st.integers(0, (1 << 32) - 1),
    handle=st.integers(0, (1 << 32) - 1),
    offset=st.integers(0, (1 << 64) - 1),
)


@pytest.mark.usefixtures("strict")
@given(st.sampled_from(CLASSES), st.binary(max_size=200))
def test_any_octets_are_dissected_and_kept(cls: type[Packet], octets: bytes) -> None:
    packet = cls(octets)
    if octets:
        assert bytes(packet) == rebuilt(packet) == octets
    assert packet.summary() and packet.show(dump=True)


@pytest.mark.usefixtures("strict")
@given(st.sampled_from([name for name in MESSAGES if name != "data"]), st.integers(0, 200), st.integers(0, 255))
def test_one_octet_changed_is_one_field_changed(name: str, at: int, octet: int) -> None:
    message, octets = MESSAGES[name]
    wire = bytearray.fromhex(octets)
    wire[at % len(wire)] = octet
    packet = type(message)(bytes(wire))
    assert bytes(packet) == rebuilt(packet) == bytes(wire)
    assert packet.summary() and packet.command()


@pytest.mark.usefixtures("strict")
@given(
    st.lists(READS, max_size=4),
    st.lists(CHUNKS, max_size=3),
    st.one_of(st.none(), CHUNKS),
    st.integers(0, (1 << 32) - 1),
    st.sampled_from([0, 1, 2]),
)
def test_chunk_lists_are_those_that_were_given(
    reads: list[Packet], writes: list[Packet], reply: Packet | None, xid: int, procedure: int
) -> None:
    wire = bytes(RPCRDMA(xid=xid, procedure=procedure, reads=reads, writes=writes, reply=reply) / b"behind")
    packet = RPCRDMA(wire)
    assert bytes(packet) == rebuilt(packet) == wire and bytes(packet.payload) == b"behind"
    assert [bytes(one) for one in packet.reads] == [bytes(one) for one in reads]
    assert [bytes(one) for one in packet.writes] == [bytes(one) for one in writes]
    assert (packet.reply is None) is (reply is None) and bytes(packet.reply or b"") == bytes(reply or b"")
    # The same lists as reports have them.
    header = packet.header()
    assert header is not None and header.values["xid"] == xid
    assert [one["stag"] for one in header.values["reads"]] == [one.handle for one in reads]
    assert [[one["stag"] for one in chunk] for chunk in header.values["writes"]] == [
        [one.handle for one in chunk.segments] for chunk in writes
    ]


def test_fuzzed_messages_are_built_and_dissected() -> None:
    for cls in CLASSES:
        made = {bytes(send(fuzz(cls()))) for _ in range(20)}
        assert len(made) > 1, cls
        for octets in made:
            assert bytes(fpdu_packet(octets, None, upper=cls)) == octets


# --- captures ---


def found_messages(name: str) -> list[Packet]:
    packets = sniff(offline=str(named(name)), session=MPASession(order="delivered"), quiet=True)
    return [packet for packet in packets if RDMAPSend in packet]


COUNTS = {
    "siw-nfs4": {"RPCRDMA": 350},
    "siw-nvme": {
        "NVMeConnect": 3,
        "NVMePropertyGet": 6,
        "NVMePropertySet": 3,
        "NVMeAdminCommand": 15,
        "NVMeIOCommand": 39,
        "NVMeResponse": 65,
    },
}


@pytest.mark.usefixtures("strict")
@pytest.mark.parametrize("name", COUNTS)
def test_every_message_of_a_capture_is_built_again_of_its_fields(name: str) -> None:
    sends = found_messages(name)
    assert Counter(upper_of(packet).__name__ for packet in sends) == COUNTS[name]
    for packet in sends:
        message = packet[RDMAPSend].payload
        wire = bytes(message)
        assert rebuilt(message) == rebuilt(type(message)(wire)) == wire
        assert not packet.haslayer(FPDU) or packet[FPDU].ulpdu_length == 18 + len(wire)


@pytest.mark.parametrize("name", COUNTS)
def test_layers_say_what_messages_say(name: str) -> None:
    """What reports read off octets, and what layers have in fields, are the same."""
    rows = [row for row in iter_messages(named(name)) if row.ulp is not None]
    sends = found_messages(name)
    assert len(rows) == len(sends)
    for row, packet in zip(rows, sends, strict=True):
        message: Any = packet[RDMAPSend].payload
        assert (packet.record.direction, packet.frame) == (row.direction, row.last_frame)
        assert row.ulp is not None
        if isinstance(message, RPCRDMA):
            values = (
                message.xid,
                message.credits,
                message.sprintf("%RPCRDMA.procedure%"),
                [one.handle for one in message.reads],
            )
            assert values == (
                row.ulp["xid"],
                row.ulp["credits"],
                row.ulp["procedure"],
                [one["stag"] for one in row.ulp["reads"]],
            )
            if RPC_Call in packet:
                call = packet[RPC_Call]
                assert (call.program, call.pversion, call.procedure) == (
                    row.ulp["program"],
                    row.ulp["version"],
                    row.ulp["rpc_procedure"],
                )
        elif isinstance(message, NVMeResponse):
            assert (message.cid, message.sqhd, message.sqid) == (row.ulp["cid"], row.ulp["sqhd"], row.ulp["sqid"])
        else:
            assert (message.cid, message.opcode) == (row.ulp["cid"], row.ulp["opcode"])
            has_key = message.length and message.sprintf("%sgl_type%") == "keyed data block"
            named_memory = [(message.key, message.address, message.length)] if has_key else []
            assert named_memory == [(one["stag"], one["to"], one["length"]) for one in row.ulp["named"]]


def test_smb_direct_of_a_capture() -> None:
    for port in (5445, 7471):  # where the port does not show what it is, its negotiation does
        packets = sniff(offline=smb_direct_connection(port).packets(), session=MPASession, quiet=True)
        sends = [packet for packet in packets if RDMAPSend in packet]
        assert Counter(upper_of(packet).__name__ for packet in sends) == {
            "SMBDirectNegotiateRequest": 1,
            "SMBDirectNegotiateResponse": 1,
            "SMBDirectDataTransfer": 69,
        }
        assert SMB2_Header in sends[2]


def test_other_traffic_has_no_upper_layer() -> None:
    others = [path for path in captures() if "rping" in path.stem or path.stem in ("markers-aligned", "crc-only")]
    assert others
    for path in others:
        packets = sniff(offline=str(path), session=MPASession, quiet=True)
        assert any(RDMAPSend in packet for packet in packets) and not any(upper_of(packet) for packet in packets)


def test_a_connection_takes_a_message_and_no_fpdu() -> None:
    connect = NVMeConnect(recfmt=0xFFFF, cid=1)
    with pytest.raises(ConversationError, match="an FPDU was given"):
        MPAConnection(ports=(40000, 4420)).message("initiator", FPDU() / DDPUntagged() / RDMAPSend() / connect)
    (sent,) = [packet for packet in MPAConnection(ports=(40000, 4420)).message("initiator", connect) if FPDU in packet]
    assert sent[NVMeConnect].recfmt == 0xFFFF
