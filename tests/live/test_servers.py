"""Servers of NFS's NULL procedure and of an NVMe-oF Admin Queue: right calls, and wrong ones."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from click.testing import CliRunner

from scapy_mpa.cli import cli
from scapy_mpa.live.rdmap import RDMAPEndpoint, ReadCompleted, SendDelivered
from scapy_mpa.live.servers import DISCOVERY, NFSNullServer, NVMeController
from scapy_mpa.live.speaker import UpperLayerError
from scapy_mpa.packet.nvme import NVMeResponse
from scapy_mpa.packet.rpcrdma import RPCRDMA
from scapy_mpa.packet.written import octets
from tests.live.loopback import finished, listening
from tests.live.test_commands import connect

NAMED = "nqn.2026-11.org.example:one"


def delivered(payload: bytes) -> SendDelivered:
    return SendDelivered(msn=1, payload=payload)


class Peer:
    """A server, and what it sends, reads and writes; reads are completed out of ``memory``."""

    def __init__(self, server: type[Any], *arguments: Any) -> None:
        self.rdmap = RDMAPEndpoint(lambda: 65535)
        self.memory: dict[int, bytes] = {}
        self.server = server(self.rdmap, *arguments)
        self.server.begin()

    def call(self, payload: bytes) -> list[bytes]:
        """The Sends that answer it; what it reads is there."""
        self.server.take(delivered(payload))
        found = self._sent()
        for opcode, ulpdu in found:
            if opcode == 1:
                sink, sink_to, size, source, at = struct.unpack(">IQIIQ", ulpdu[18:46])
                self.rdmap.buffers[sink].put(sink_to, self.memory[source][at : at + size])
        for opcode, ulpdu in found:
            if opcode == 1:
                sink, sink_to, size, _, _ = struct.unpack(">IQIIQ", ulpdu[18:46])
                self.server.take(ReadCompleted(sink, sink_to, size))
        found += self._sent()
        self.written = [ulpdu for opcode, ulpdu in found if opcode == 0]
        return [ulpdu[18:] for opcode, ulpdu in found if opcode == 3]

    def _sent(self) -> list[tuple[int, bytes]]:
        found = []
        while (ulpdu := self.rdmap.next_ulpdu()) is not None:
            found.append((ulpdu[1] & 15, ulpdu))
        return found


# --- NFS ---

AUTH = "aflavor=0, alength=0, vlength=0"


def null(header: str = "RPCRDMA()", **changed: int) -> bytes:
    fields = {"rpcvers": 2, "program": 100003, "pversion": 3, "procedure": 0} | changed
    version = fields.pop("rpcvers")
    call = ", ".join(f"{name}={value}" for name, value in fields.items())
    made = octets(f"{header} / RPC(xid=7, mtype=0) / RPC_Call({call}, {AUTH})")
    at = len(octets(header)) + 8
    return made[:at] + struct.pack(">I", version) + made[at + 4 :]


def words(answer: bytes) -> tuple[int, ...]:
    """The numbers of an RPC reply behind a header without chunks."""
    return struct.unpack(f">{len(answer) // 4 - 7}I", answer[28:])


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        (null(), (7, 1, 0, 0, 0, 0)),
        (null(pversion=4), (7, 1, 0, 0, 0, 0)),
        (null(procedure=1), (7, 1, 0, 0, 0, 3)),
        (null(pversion=2), (7, 1, 0, 0, 0, 2, 3, 4)),
        (null(program=100000), (7, 1, 0, 0, 0, 1)),
        (null(rpcvers=3), (7, 1, 1, 0, 2, 2)),
        (null()[:-16] + struct.pack(">4I", 6, 0, 0, 0), (7, 1, 1, 1, 1)),
        (null()[:-16] + struct.pack(">4I", 0, 0xFFFFFFFF, 0, 0), (7, 1, 1, 1, 1)),
        (null()[:-8] + struct.pack(">2I", 9, 0), (7, 1, 1, 1, 3)),
        (null()[:-8], (7, 1, 1, 1, 3)),
        (null()[:-16], (7, 1, 1, 1, 1)),
    ],
)
def test_a_call_is_answered_as_rfc_5531_says(call: bytes, answer: tuple[int, ...]) -> None:
    peer = Peer(NFSNullServer)
    (found,) = peer.call(call)
    assert words(found) == answer
    assert RPCRDMA(found).xid == 7
    assert ("refused" in peer.server.summary) == (answer != (7, 1, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (struct.pack(">4I", 7, 2, 32, 0) + bytes(12), (1, 1, 1)),
        (struct.pack(">4I", 7, 1, 32, 9), (2,)),
        (struct.pack(">4I", 7, 1, 32, 0) + struct.pack(">3I", 5, 0, 0), (2,)),
        (struct.pack(">4I", 7, 1, 32, 0), (2,)),
        (octets("RPCRDMA(xid=7, procedure=1)"), (2,)),
        (octets("RPCRDMA(xid=7)"), (2,)),
        (octets("RPCRDMA(xid=7)") + struct.pack(">6I", 8, 0, 2, 100003, 3, 0) + bytes(16), (2,)),
        (octets("RPCRDMA(xid=7)") + struct.pack(">3I", 7, 0, 2), (2,)),
        (octets("RPCRDMA(xid=7, procedure=1, reads=[RPCRDMARead(handle=1, length=70000)])"), (2,)),
    ],
)
def test_a_header_is_answered_as_rfc_8166_says(call: bytes, error: tuple[int, ...]) -> None:
    (found,) = Peer(NFSNullServer).call(call)
    assert struct.unpack(">4I", found[:16]) == (7, 1, 16, 4)
    assert struct.unpack(f">{len(error)}I", found[16:]) == error


def test_credits_are_granted_as_there_is_room() -> None:
    for asked, granted in ((0, 1), (5, 5), (1000, 16)):
        (found,) = Peer(NFSNullServer).call(null(f"RPCRDMA(credits={asked})"))
        assert RPCRDMA(found).credits == granted


def test_what_is_no_call_is_not_answered() -> None:
    assert Peer(NFSNullServer).call(octets("RPCRDMA(xid=7, procedure=4, errcode=2)")) == []
    assert Peer(NFSNullServer).call(struct.pack(">4I", 7, 1, 1, 3)) == []
    assert Peer(NFSNullServer).call(b"") == []
    for wrong in (b"short", octets("RPCRDMA(xid=7)") + struct.pack(">6I", 7, 1, 0, 0, 0, 0)):
        with pytest.raises(UpperLayerError):
            Peer(NFSNullServer).call(wrong)


def test_a_call_that_is_in_memory_is_read() -> None:
    peer = Peer(NFSNullServer)
    message = null()[28:]
    peer.memory = {1: message[:20], 2: message[20:]}
    parts = f"RPCRDMARead(handle=1, length=20), RPCRDMARead(handle=2, length={len(message) - 20})"
    (found,) = peer.call(octets(f"RPCRDMA(xid=7, procedure=1, reads=[{parts}])"))
    assert words(found) == (7, 1, 0, 0, 0, 0)
    assert not peer.rdmap.buffers


def test_chunks_that_nothing_went_through_come_back_empty() -> None:
    chunk = "RPCRDMAChunk(segments=[RPCRDMASegment(handle=5, length=40, offset=6)])"
    (found,) = Peer(NFSNullServer).call(null(f"RPCRDMA(writes=[{chunk}], reply={chunk})"))
    reply = RPCRDMA(found)
    for back in (reply.writes[0], reply.reply):
        assert [(one.handle, one.length, one.offset) for one in back.segments] == [(5, 0, 6)]


def test_calls_that_wait_are_bounded() -> None:
    peer = Peer(NFSNullServer)
    call = octets("RPCRDMA(xid=7, procedure=1, reads=[RPCRDMARead(handle=1, length=100)])")
    for _ in range(30):
        peer.server.take(delivered(call))
    assert len(peer.rdmap.buffers) == peer.rdmap.settings.receive_buffers
    assert "14 of them refused" in peer.server.summary


# --- NVMe ---

HOST = 'hostnqn="nqn.2014-08.org.nvmexpress:uuid:1"'
CONNECT = "NVMeConnect(cid=1, key=9, length=1024)"


def controller(subnqn: str = DISCOVERY, data: str = "") -> Peer:
    peer = Peer(NVMeController, subnqn)
    peer.memory = {9: octets(data or f'NVMeConnectData(subnqn="{subnqn}", {HOST})')}
    return peer


def connected(subnqn: str = DISCOVERY, *, enabled: bool = True) -> Peer:
    peer = controller(subnqn)
    assert status(peer, CONNECT) == (0, 0)
    if enabled:
        assert status(peer, "NVMePropertySet(cid=2, ofst=0x14, value=0x460001)") == (0, 0)
    return peer


def status(peer: Peer, command: str) -> tuple[int, int]:
    (found,) = peer.call(octets(command))
    response = NVMeResponse(found)
    assert response.dnr == ((response.sct, response.sc) != (0, 0))
    return response.sct, response.sc


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("NVMeConnect(cid=1, recfmt=1, key=9, length=1024)", (1, 0x80)),
        ("NVMeConnect(cid=1, qid=1, key=9, length=1024)", (1, 0x82)),
        ("NVMeConnect(cid=1, sqsize=0, key=9, length=1024)", (1, 0x82)),
        ("NVMeConnect(cid=1, sgl_type=0, key=9, length=1024)", (0, 0x11)),
        ("NVMeConnect(cid=1, key=9, length=1023)", (0, 0x0F)),
        ("NVMeConnect(cid=1, psdt=0, key=9, length=1024)", (0, 0x02)),
        ("NVMeConnect(cid=1, fuse=1, key=9, length=1024)", (0, 0x02)),
        ("NVMePropertyGet(cid=1, ofst=0x1c)", (0, 0x0C)),
        ("NVMeAdminCommand(cid=1)", (0, 0x0C)),
    ],
)
def test_what_is_wrong_before_a_connect(command: str, expected: tuple[int, int]) -> None:
    assert status(controller(), command) == expected


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (f'NVMeConnectData(subnqn="nqn.other", {HOST})', 256),
        (f'NVMeConnectData(cntlid=7, subnqn="{DISCOVERY}", {HOST})', 16),
        (f'NVMeConnectData(subnqn="{DISCOVERY}", hostnqn="me")', 512),
    ],
)
def test_what_is_wrong_in_the_data_of_a_connect(data: str, place: int) -> None:
    """The result says where: an offset in the data (NVMe-oF 1.1 §3.3)."""
    (found,) = controller(data=data).call(octets(CONNECT))
    response = NVMeResponse(found)
    assert (response.sct, response.sc, response.result) == (1, 0x82, 1 << 16 | place)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (CONNECT, (0, 0x0C)),
        ("NVMePropertyGet(cid=3, ofst=0)", (0, 0x02)),
        ("NVMePropertyGet(cid=3, ofst=0, attrib=1)", (0, 0)),
        ("NVMePropertyGet(cid=3, ofst=0x1c, attrib=1)", (0, 0x02)),
        ("NVMePropertyGet(cid=3, ofst=0x1c, attrib=2)", (0, 0x02)),
        ("NVMePropertyGet(cid=3, ofst=0x24)", (0, 0x02)),
        ("NVMePropertySet(cid=3, ofst=0x1c)", (0, 0x02)),
        ("NVMePropertySet(cid=3, ofst=0x14, attrib=1)", (0, 0x02)),
        ("NVMeDisconnect(cid=3)", (0, 0x01)),
        ("NVMeFabrics(cid=3, fctype=5)", (0, 0x01)),
        ("NVMeAdminCommand(cid=3, opcode=2)", (0, 0x01)),
        ("NVMeAdminCommand(cid=3, opcode=6, cdw10=0, length=4096)", (0, 0x02)),
        ("NVMeAdminCommand(cid=3, opcode=6, cdw10=1, length=4095)", (0, 0x0F)),
        ("NVMeAdminCommand(cid=3, opcode=6, cdw10=1, length=4096, sgl_type=0)", (0, 0x11)),
        ("NVMeAdminCommand(cid=3, opcode=0x18)", (0, 0)),
    ],
)
def test_commands_of_a_host_that_is_connected(command: str, expected: tuple[int, int]) -> None:
    assert status(connected(), command) == expected


def test_a_controller_that_is_not_enabled_identifies_nobody() -> None:
    peer = connected(enabled=False)
    assert status(peer, "NVMeAdminCommand(cid=3, opcode=6, cdw10=1, length=4096)") == (0, 0x0C)
    (found,) = peer.call(octets("NVMePropertyGet(cid=3, ofst=0x1c)"))
    assert NVMeResponse(found).result == 0


def test_identify_is_written_before_it_is_answered() -> None:
    peer = connected(NAMED)
    peer.server.take(delivered(octets("NVMeAdminCommand(cid=3, opcode=6, cdw10=1, key=5, length=4096, address=64)")))
    write, answer = peer._sent()
    assert (write[0], answer[0]) == (0, 3)
    assert struct.unpack(">IQ", write[1][2:14]) == (5, 64)
    identity = write[1][14:]
    assert len(identity) == 4096
    assert identity[24:64].strip() == b"scapy-mpa"
    assert identity[768:1024].rstrip(b"\0") == NAMED.encode()
    assert NVMeResponse(answer[1][18:]).sqhd == 3


def test_events_and_shutdown() -> None:
    peer = connected()
    assert peer.call(octets("NVMeAdminCommand(cid=3, opcode=0xc)")) == []
    assert status(peer, "NVMePropertySet(cid=4, ofst=0x14, value=0x464001)") == (0, 0)
    (found,) = peer.call(octets("NVMePropertyGet(cid=5, ofst=0x1c)"))
    assert NVMeResponse(found).result == 1 | 2 << 2


def test_what_is_no_capsule_ends_it() -> None:
    assert controller().call(b"") == []
    with pytest.raises(UpperLayerError, match="63 octets are not a command capsule"):
        controller().call(bytes(63))


# --- both commands ---


@pytest.mark.parametrize("markers", [(), ("-m",)])
def test_both_ends_of_nfs_null(markers: tuple[str, ...]) -> None:
    with listening("--ulp", "nfs-null", "--count", "2", *markers) as (process, port):
        for _ in range(2):
            status, out, err = connect(port, "--ulp", "nfs-null", *markers)
            assert (status, err) == (0, "")
            assert "nfs-null: NFS 3 answers" in out
        status, out, _ = finished(process)
    assert (status, out.count("nfs-null: 1 call answered\n")) == (0, 2)


@pytest.mark.parametrize("subnqn", [(), ("--subnqn", NAMED)])
def test_both_ends_of_nvme_connect(subnqn: tuple[str, ...]) -> None:
    with listening("--ulp", "nvme-connect", "--count", "1", *subnqn) as (process, port):
        status, out, err = connect(port, "--ulp", "nvme-connect", *subnqn)
        assert (status, err) == (0, "")
        assert "connected to controller 1, which is 'scapy-mpa', serial number '0'" in out
        status, out, _ = finished(process)
    assert status == 0
    assert "nvme-connect: 4 calls answered" in out


def test_a_subsystem_that_is_not_there() -> None:
    with listening("--ulp", "nvme-connect", "--count", "1", "--subnqn", NAMED) as (_, port):
        status, out, err = connect(port, "--ulp", "nvme-connect", "--subnqn", "nqn.2026-11.org.example:two")
    assert status == 1
    assert "Connect is answered by status" in out + err


@pytest.mark.parametrize(
    ("command", "arguments", "said"),
    [
        ("connect", ("--ulp", "nfs-null", "--size", "9"), "--size is for the messages of --ulp rping and echo"),
        ("connect", ("--ulp", "nvme-connect", "--size", "9"), "not --ulp nvme-connect"),
        ("connect", ("--size", "9"), "not --ulp none"),
        ("connect", ("--ulp", "echo", "--subnqn", NAMED), "--subnqn names what --ulp nvme-connect connects to"),
        ("connect", ("--ulp", "nvme-connect", "--subnqn", "example"), "does not begin with nqn."),
        ("connect", ("--ulp", "nvme-connect", "--subnqn", "nqn." + 220 * "a"), "longer than 223 octets"),
        ("listen", ("--ulp", "nfs-null", "--say", "send 1"), "--ulp nfs-null decides what is sent"),
    ],
)
def test_what_does_not_go_together(command: str, arguments: tuple[str, ...], said: str) -> None:
    where = ("127.0.0.1", "9") if command == "connect" else ("0",)
    done = CliRunner().invoke(cli, [command, *where, *arguments])
    assert done.exit_code == 2
    assert said in done.output
