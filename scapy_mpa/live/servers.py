"""Servers of the calls that ``services`` makes: NFS's NULL procedure, an NVMe-oF controller up to Identify.

What is wrong in a call is answered as the specifications say: RFC 8166 §4.5 and RFC 5531 §9; NVMe-oF 1.1 §2 and §3,
NVMe 1.4 §4.6.1. Messages are built of the layers that Scapy has of them (``packet/``).
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Final

from scapy_mpa.live.buffers import RegisteredBuffer
from scapy_mpa.live.rdmap import RDMAPEndpoint, RDMAPEvent, ReadCompleted, SendDelivered
from scapy_mpa.live.speaker import NOT_THE_SAME, UpperLayerError
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.ulp.header import NamedMemory
from scapy_mpa.ulp.nvme import COMMAND_LENGTH, CONNECT, FABRICS, KEYED, PROPERTY_GET, PROPERTY_SET
from scapy_mpa.ulp.rpc import NFS_PROGRAM
from scapy_mpa.ulp.rpcrdma import ERROR, TransportHeader, transport_header
from scapy_mpa.values.words import plural

if TYPE_CHECKING:
    from scapy_mpa.packet.nvme import NVMeAdminCommand, NVMeResponse

#: The subsystem that is there if none is named: the one in which a host looks for others (NVMe-oF 1.1 §1.5.2).
DISCOVERY: Final = "nqn.2014-08.org.nvmexpress.discovery"


class _Server:
    """Answers one client, which begins and ends the conversation."""

    name = ""

    def __init__(self, rdmap: RDMAPEndpoint) -> None:
        self._rdmap = rdmap
        self._answered = self._refused = 0

    @property
    def is_done(self) -> bool:
        """Never: the client ends it."""
        return False

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close early."""
        return NOT_THE_SAME

    @property
    def summary(self) -> str:
        """What it did, in a phrase."""
        refused = f", {self._refused} of them refused" if self._refused else ""
        return f"{self.name}: {plural(self._answered, 'call')} answered{refused}"

    def begin(self) -> None:
        """The client speaks first."""

    def take(self, event: RDMAPEvent) -> None:
        """A call has come, or what it names was read."""
        raise NotImplementedError

    def go_on(self, _now: float) -> float | None:
        """Do nothing: it sends only in reply."""
        return None

    def _answer(self, octets: bytes, *, is_refusal: bool) -> None:
        self._answered += 1
        self._refused += is_refusal
        self._rdmap.send(octets)


# --- RPC ---

_HEADER = Struct(">IIII")
_ERR_VERS, _ERR_CHUNK = 1, 2
_NO_MESSAGE, _DONE = 1, 3
_RPC_CALL, _RPC_REPLY = 0, 1
_XID = Struct(">I")
#: A call: XID, CALL, the version of RPC, program, version, procedure; flavor and length of credential and verifier.
_CALL, _AUTH = Struct(">6I"), Struct(">II")
#: RFC 5531 §8.2: no credential is longer.
_LONGEST_AUTH: Final = 400
_AUTH_NONE, _AUTH_SYS = 0, 1
#: RFC 5531 §9: states of replies.
_ACCEPTED, _DENIED = 0, 1
_SUCCESS, _PROG_UNAVAIL, _PROG_MISMATCH, _PROC_UNAVAIL = range(4)
_RPC_MISMATCH, _AUTH_ERROR = 0, 1
_BAD_CREDENTIAL, _BAD_VERIFIER = 1, 3
_RPC_VERSION, _NFS_VERSIONS = 2, (3, 4)
#: Octets of the longest call that is read out of the client's memory.
_LONGEST_CALL: Final = 1 << 16


class _Waiting(NamedTuple):
    """A call whose octets are read out of the client's memory: where to, and how many Reads are not complete."""

    header: TransportHeader
    buffer: RegisteredBuffer
    reads: int


class NFSNullServer(_Server):
    """Answers the NULL procedure of NFS 3 and 4, and says of anything else what it is not."""

    name = "nfs-null"

    def __init__(self, rdmap: RDMAPEndpoint) -> None:
        super().__init__(rdmap)
        self._waiting: deque[_Waiting] = deque()

    def take(self, event: RDMAPEvent) -> None:
        """A call has come, or was read."""
        if isinstance(event, SendDelivered) and event.payload:
            self._take_call(event.payload)
        elif isinstance(event, ReadCompleted) and self._waiting:
            first = self._waiting[0]
            self._waiting[0] = first = first._replace(reads=first.reads - 1)
            if not first.reads:
                self._waiting.popleft()
                self._rdmap.deregister(first.buffer.stag)
                self._take_message(first.header, bytes(first.buffer.octets))

    def _take_call(self, octets: bytes) -> None:
        if len(octets) < _HEADER.size:
            raise UpperLayerError(f"{self.name}: {len(octets)} octets are not an RPC-over-RDMA header{NOT_THE_SAME}")
        xid, version, credits, procedure = _HEADER.unpack_from(octets)
        if version != 1:
            self._refuse(xid, credits, _ERR_VERS)
            return
        header = transport_header(octets, len(octets))
        if header is None:
            self._refuse(xid, credits, _ERR_CHUNK)
        elif procedure in (ERROR, _DONE):
            pass  # nothing that a responder answers (RFC 8166 §4.5)
        elif procedure == _NO_MESSAGE:
            self._read(header)
        elif octets[header.end : header.end + 4] != _XID.pack(xid):
            self._refuse(xid, credits, _ERR_CHUNK)
        else:
            self._take_message(header, octets[header.end :])

    def _read(self, header: TransportHeader) -> None:
        """Read a call that is all in the Read chunk at position 0 (RFC 8166 §3.5.3)."""
        parts = [part for part, position in zip(header.reads, header.positions, strict=True) if not position]
        octets = sum(part.length for part in parts)
        is_room = len(self._waiting) < self._rdmap.settings.receive_buffers
        if not 0 < octets <= _LONGEST_CALL or not is_room:
            self._refuse(header.xid, header.credits, _ERR_CHUNK)
            return
        buffer = self._rdmap.register(bytearray(octets))
        self._waiting.append(_Waiting(header, buffer, len(parts)))
        at = buffer.to
        for part in parts:
            self._rdmap.read(buffer, part.length, part.stag, part.to, sink_to=at)
            at += part.length

    def _take_message(self, header: TransportHeader, octets: bytes) -> None:
        """Answer an RPC call; anything else that has our peer's XID is not for a server."""
        try:
            xid, kind, rpc_version, program, version, procedure = _CALL.unpack_from(octets)
        except StructError:
            self._refuse(header.xid, header.credits, _ERR_CHUNK)
            return
        if xid != header.xid:
            self._refuse(header.xid, header.credits, _ERR_CHUNK)
        elif kind != _RPC_CALL:
            raise UpperLayerError(f"{self.name}: an RPC reply without a call{NOT_THE_SAME}")
        elif rpc_version != _RPC_VERSION:
            self._reply(header, _DENIED, _RPC_MISMATCH, _RPC_VERSION, _RPC_VERSION)
        elif (wrong := _wrong_auth(octets)) is not None:
            self._reply(header, _DENIED, _AUTH_ERROR, wrong)
        elif program != NFS_PROGRAM:
            self._reply(header, _ACCEPTED, _AUTH_NONE, 0, _PROG_UNAVAIL)
        elif version not in _NFS_VERSIONS:
            self._reply(header, _ACCEPTED, _AUTH_NONE, 0, _PROG_MISMATCH, *_NFS_VERSIONS)
        else:
            self._reply(header, _ACCEPTED, _AUTH_NONE, 0, _PROC_UNAVAIL if procedure else _SUCCESS)

    def _reply(self, header: TransportHeader, *words: int) -> None:
        """Reply to a call; chunks that it offered come back unused (RFC 8166 §4.4.2)."""
        from scapy_mpa.packet.rpcrdma import RPCRDMA, RPCRDMAChunk, RPCRDMASegment

        def unused(chunk: list[NamedMemory]) -> RPCRDMAChunk:
            return RPCRDMAChunk(segments=[RPCRDMASegment(handle=one.stag, length=0, offset=one.to) for one in chunk])

        made = RPCRDMA(
            xid=header.xid,
            credits=self._granted(header.credits),
            writes=[unused(chunk) for chunk in header.writes],
            reply=unused(header.reply) if header.reply is not None else None,
        )
        body = Struct(f">{2 + len(words)}I").pack(header.xid, _RPC_REPLY, *words)
        is_refusal = words[0] == _DENIED or words[3] != _SUCCESS
        self._answer(bytes(made) + body, is_refusal=is_refusal)

    def _refuse(self, xid: int, credits: int, error: int) -> None:
        """Answer by RDMA_ERROR (RFC 8166 §4.5.1, §4.5.2)."""
        from scapy_mpa.packet.rpcrdma import RPCRDMA

        made = RPCRDMA(xid=xid, credits=self._granted(credits), procedure=ERROR, errcode=error)
        self._answer(bytes(made), is_refusal=True)

    def _granted(self, asked: int) -> int:
        """Return how many calls the client may have outstanding: as many as fit, at least one (§3.3.1)."""
        return max(1, min(asked, self._rdmap.settings.receive_buffers))


def _wrong_auth(octets: bytes) -> int | None:
    """Why a call's credential or verifier is refused (RFC 5531 §9, auth_stat); None if they are fine."""
    at = _CALL.size
    for wrong in (_BAD_CREDENTIAL, _BAD_VERIFIER):
        if len(octets) < at + _AUTH.size:
            return wrong
        flavor, length = _AUTH.unpack_from(octets, at)
        at += _AUTH.size + (length + 3 & ~3)
        if flavor not in (_AUTH_NONE, _AUTH_SYS) or length > _LONGEST_AUTH or len(octets) < at:
            return wrong
    return None


# --- NVMe over Fabrics ---

#: The Private Data of a Reply: format 0, 32 entries of the controller's receive queue (NVMe-oF 1.1 §7.3.6.4).
NVME_REPLY_DATA: Final = Struct("<HH28x").pack(0, 32)
_CONNECT_DATA, _IDENTIFY_DATA = 1024, 4096
_CONTROLLER, _ANY_CONTROLLER = 1, 0xFFFF
#: NVMe 1.4 §3.1: offsets and octets of properties, what they are: MQES 31, CQR, TO 1 second, CSS NVM; version 1.4.
_CAP, _VS, _CC, _CSTS = 0x00, 0x08, 0x14, 0x1C
_SIZES = {_CAP: 8, _VS: 4, _CC: 4, _CSTS: 4}
_CAPABILITIES, _VERSION = 31 | 1 << 16 | 2 << 24 | 1 << 37, 0x00010400
#: EN and SHN of CC; RDY and "shutdown complete" of CSTS.
_ENABLE, _SHUTDOWN, _READY, _SHUT_DOWN = 1, 3 << 14, 1, 2 << 2
_IDENTIFY, _ASYNCHRONOUS_EVENT, _KEEP_ALIVE = 0x06, 0x0C, 0x18
_IDENTIFY_CONTROLLER: Final = 1


class _Status(NamedTuple):
    """A status: its type and code (NVMe 1.4 §4.6.1)."""

    sct: int
    sc: int


_OK = _Status(0, 0x00)
_INVALID_OPCODE, _INVALID_FIELD, _WRONG_SEQUENCE = _Status(0, 0x01), _Status(0, 0x02), _Status(0, 0x0C)
_WRONG_LENGTH, _WRONG_SGL = _Status(0, 0x0F), _Status(0, 0x11)
#: NVMe-oF 1.1 §2.3: of Connect.
_FORMAT, _INVALID_PARAMETERS = _Status(1, 0x80), _Status(1, 0x82)
#: What a result of "invalid parameters" says: the offset is of the data, not of the command (§3.3).
_OF_DATA: Final = 1 << 16
_RECFMT_AT, _QID_AT, _SQSIZE_AT = 40, 42, 44
_CNTLID_AT, _SUBNQN_AT, _HOSTNQN_AT = 16, 256, 512


class NVMeController(_Server):
    """The Admin Queue of a controller: Connect, its properties, Identify, Keep Alive.

    Args:
        rdmap: sends its messages.
        subnqn: the name of its subsystem.
    """

    name = "nvme-connect"

    def __init__(self, rdmap: RDMAPEndpoint, subnqn: str = DISCOVERY) -> None:
        super().__init__(rdmap)
        self._subnqn = subnqn
        self._is_connected = False
        self._configuration = 0
        self._entries = 32
        self._head = 0
        #: The identifier of a Connect whose data are read, and where to.
        self._connecting: tuple[int, RegisteredBuffer] | None = None

    def take(self, event: RDMAPEvent) -> None:
        """A command has come, or the data of Connect were read."""
        if isinstance(event, SendDelivered) and event.payload:
            self._take_command(event.payload)
        elif isinstance(event, ReadCompleted) and self._connecting is not None:
            cid, buffer = self._connecting
            self._connecting = None
            self._rdmap.deregister(buffer.stag)
            self._connect(cid, bytes(buffer.octets))

    def _take_command(self, octets: bytes) -> None:
        from scapy_mpa.packet.nvme import NVMeAdminCommand, NVMeFabrics

        if len(octets) < COMMAND_LENGTH:
            raise UpperLayerError(f"{self.name}: {len(octets)} octets are not a command capsule{NOT_THE_SAME}")
        self._head += 1
        command = NVMeAdminCommand(octets)
        if command.psdt != 1 or command.fuse:
            self._respond(command.cid, _INVALID_FIELD)  # SGLs alone, and no fused commands (NVMe-oF 1.1 §2.1)
        elif command.opcode == FABRICS:
            self._take_fabrics(NVMeFabrics(octets).fctype, octets, command.cid)
        elif not self._is_connected or not self._configuration & _ENABLE:
            self._respond(command.cid, _WRONG_SEQUENCE)
        elif command.opcode == _IDENTIFY:
            self._identify(command)
        elif command.opcode == _KEEP_ALIVE:
            self._respond(command.cid)
        elif command.opcode != _ASYNCHRONOUS_EVENT:  # which is answered when something happens
            self._respond(command.cid, _INVALID_OPCODE)

    def _take_fabrics(self, fctype: int, octets: bytes, cid: int) -> None:
        if fctype == CONNECT:
            self._begin_connect(octets)
        elif not self._is_connected:
            self._respond(cid, _WRONG_SEQUENCE)
        elif fctype == PROPERTY_GET:
            self._get(octets)
        elif fctype == PROPERTY_SET:
            self._set(octets)
        else:
            self._respond(cid, _INVALID_OPCODE)

    def _begin_connect(self, octets: bytes) -> None:
        """Check a Connect, and read its data."""
        from scapy_mpa.packet.nvme import NVMeConnect

        command = NVMeConnect(octets)
        if self._is_connected or self._connecting is not None:
            self._respond(command.cid, _WRONG_SEQUENCE)
        elif command.recfmt:
            self._respond(command.cid, _FORMAT, _RECFMT_AT)
        elif command.qid or not command.sqsize:
            self._respond(command.cid, _INVALID_PARAMETERS, _QID_AT if command.qid else _SQSIZE_AT)
        elif command.sgl_type != KEYED:
            self._respond(command.cid, _WRONG_SGL)
        elif command.length != _CONNECT_DATA:
            self._respond(command.cid, _WRONG_LENGTH)
        else:
            self._entries = command.sqsize + 1
            buffer = self._rdmap.register(bytearray(_CONNECT_DATA))
            self._connecting = command.cid, buffer
            self._rdmap.read(buffer, _CONNECT_DATA, command.key, command.address)

    def _connect(self, cid: int, octets: bytes) -> None:
        """Connect a host by its data."""
        from scapy_mpa.packet.nvme import NVMeConnectData

        data = NVMeConnectData(octets)
        subnqn, hostnqn = (name.partition(b"\0")[0] for name in (data.subnqn, data.hostnqn))
        wrong = {
            _CNTLID_AT: data.cntlid not in (_CONTROLLER, _ANY_CONTROLLER),
            _SUBNQN_AT: subnqn not in (self._subnqn.encode(), DISCOVERY.encode()),
            _HOSTNQN_AT: not hostnqn.startswith(b"nqn."),
        }
        place = next((at for at, is_wrong in wrong.items() if is_wrong), None)
        if place is not None:
            self._respond(cid, _INVALID_PARAMETERS, _OF_DATA | place)
            return
        self._is_connected = True
        self._respond(cid, result=_CONTROLLER)

    def _get(self, octets: bytes) -> None:
        from scapy_mpa.packet.nvme import NVMePropertyGet

        command = NVMePropertyGet(octets)
        properties = {_CAP: _CAPABILITIES, _VS: _VERSION, _CC: self._configuration, _CSTS: self._state()}
        if _SIZES.get(command.ofst) != (8 if command.attrib & 7 else 4) or command.attrib & 7 > 1:
            self._respond(command.cid, _INVALID_FIELD)
        else:
            self._respond(command.cid, result=properties[command.ofst])

    def _set(self, octets: bytes) -> None:
        from scapy_mpa.packet.nvme import NVMePropertySet

        command = NVMePropertySet(octets)
        if command.ofst != _CC or command.attrib & 7:
            self._respond(command.cid, _INVALID_FIELD)
        else:
            self._configuration = command.value & 0xFFFFFFFF
            self._respond(command.cid)

    def _state(self) -> int:
        """Controller Status: it is ready when it is enabled, and shut down when it is told to."""
        shutdown = _SHUT_DOWN if self._configuration & _SHUTDOWN else 0
        return (self._configuration & _ENABLE) * _READY | shutdown

    def _identify(self, command: NVMeAdminCommand) -> None:
        """Write who the controller is into the host's memory, and say so."""
        if command.cdw10 & 0xFF != _IDENTIFY_CONTROLLER:
            self._respond(command.cid, _INVALID_FIELD)
        elif command.sgl_type != KEYED:
            self._respond(command.cid, _WRONG_SGL)
        elif command.length != _IDENTIFY_DATA:
            self._respond(command.cid, _WRONG_LENGTH)
        else:
            self._rdmap.write(command.key, command.address, self._identity())
            self._respond(command.cid)

    def _identity(self) -> bytes:
        """Identify Controller data (NVMe 1.4 §5.15.2.2, NVMe-oF 1.1 §4.1)."""
        identity = bytearray(_IDENTIFY_DATA)
        is_discovery = self._subnqn == DISCOVERY
        for at, value in (
            (4, b"0".ljust(20)),
            (24, b"scapy-mpa".ljust(40)),
            (64, b"1".ljust(8)),
            (78, _CONTROLLER.to_bytes(2, "little")),
            (80, _VERSION.to_bytes(4, "little")),
            (111, bytes((2 if is_discovery else 1,))),
            # Queue entries of 64 and 16 octets; keyed SGLs; 32 commands; capsules of these sizes, in 16 octets.
            (512, bytes((0x66, 0x44))),
            (514, (32).to_bytes(2, "little")),
            (536, (1 << 2 | 1).to_bytes(4, "little")),
            (768, self._subnqn.encode()),
            (1792, (COMMAND_LENGTH // 16).to_bytes(4, "little")),
            (1796, (1).to_bytes(4, "little")),
        ):
            identity[at : at + len(value)] = value
        return bytes(identity)

    def _respond(self, cid: int, status: _Status = _OK, result: int = 0) -> None:
        """Complete a command; one that fails will fail again (DNR)."""
        from scapy_mpa.packet.nvme import NVMeResponse

        response: NVMeResponse = NVMeResponse(
            result=result, sqhd=self._head % self._entries, cid=cid, dnr=status != _OK, sct=status.sct, sc=status.sc
        )
        self._answer(bytes(response), is_refusal=status != _OK)
