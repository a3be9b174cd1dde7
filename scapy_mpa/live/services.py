"""One call to a service above RDMAP: the NULL procedure of NFS (RFC 8166, RFC 5531), Connect and Identify of NVMe-oF.

Messages are built of the layers that Scapy has of them (``packet/``); what the peer answers is read off its octets.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final

from scapy_mpa.live.rdmap import RDMAPEndpoint, RDMAPEvent, SendDelivered
from scapy_mpa.live.servers import DISCOVERY
from scapy_mpa.live.speaker import NOT_THE_SAME, UpperLayerError

#: Octets of RPC-over-RDMA's header without chunks, and after it the fields of an accepted reply (RFC 5531 §9): XID,
#: REPLY, MSG_ACCEPTED, flavor and length of the verifier, SUCCESS.
_HEADER_LENGTH: Final = 28
_ACCEPTED: Final = Struct(">6I")
_XID: Final = 0x6E756C6C
#: NVMe-oF 1.1 §2.2: result, SQ head, SQ, command identifier, status with the phase as its lowest bit.
_RESPONSE: Final = Struct("<QHHHH")
#: The Private Data of an Admin Queue: format 0, queue 0, 32 entries to receive, and 31 (counted from 0) to send.
NVME_PRIVATE_DATA: Final = Struct("<4H24x").pack(0, 0, 32, 31)
_HOST: Final = "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000001"
_CONNECT_DATA, _IDENTIFY_DATA = 1024, 4096
#: Properties (NVMe 1.4 §3.1): Controller Configuration, with its entry sizes and EN, and Controller Status, with RDY.
_CC, _CSTS, _ENABLE, _READY = 0x14, 0x1C, 0x00460001, 1
#: How often the status is asked for until the controller is ready.
_MOST_LOOKS: Final = 100


class _Calls:
    """Sends one call after the other, each when the one before was answered."""

    name = ""

    def __init__(self, rdmap: RDMAPEndpoint) -> None:
        self._rdmap = rdmap
        self._calls = self._dialogue()
        self._answer = b""
        self.is_done = False
        self.summary = f"{self.name}: no answer"

    @property
    def doubt(self) -> str:
        """Why a peer may fall silent, or close early."""
        return NOT_THE_SAME

    def begin(self) -> None:
        """Send the next call, if there is one."""
        call = next(self._calls, None)
        if call is None:
            self.is_done = True
        else:
            from scapy_mpa.packet.written import octets

            self._rdmap.send(octets(call))

    def take(self, event: RDMAPEvent) -> None:
        """Handle an answer; raises UpperLayerError for an invalid one."""
        if isinstance(event, SendDelivered):
            self._answer = event.payload
            self.begin()

    def go_on(self, _now: float) -> float | None:
        """Do nothing: it sends only after an answer."""
        return None

    def _dialogue(self) -> Iterator[str]:
        """Yield calls as layers; when asked for the next one, the answer is there."""
        raise NotImplementedError


class NFSNull(_Calls):
    """Calls NFS 3's NULL procedure, which does nothing but answer."""

    name = "nfs-null"

    def _dialogue(self) -> Iterator[str]:
        call = "RPC_Call(program=100003, pversion=3, aflavor=0, alength=0)"
        yield f"RPCRDMA(xid={_XID}, credits=32) / RPC(xid={_XID}) / {call}"
        answer = self._answer[_HEADER_LENGTH:]
        if len(answer) < _ACCEPTED.size or _ACCEPTED.unpack_from(answer) != (_XID, 1, 0, 0, 0, 0):
            raise UpperLayerError(f"{self.name}: the answer does not report the success of our call{NOT_THE_SAME}")
        self.summary = f"{self.name}: NFS 3 answers"


class NVMeConnectClient(_Calls):
    """Connects to a controller of a target, enables it, and asks it who it is (Identify).

    Args:
        rdmap: sends its messages.
        subnqn: the name of the subsystem: that of discovery, by default.
    """

    name = "nvme-connect"

    def __init__(self, rdmap: RDMAPEndpoint, subnqn: str = DISCOVERY) -> None:
        super().__init__(rdmap)
        self._subnqn = subnqn

    def _dialogue(self) -> Iterator[str]:
        from scapy_mpa.packet.nvme import NVMeConnectData

        data = bytes(NVMeConnectData(hostid=bytes(15) + b"\x01", subnqn=self._subnqn.encode(), hostnqn=_HOST.encode()))
        connect = self._rdmap.register(bytearray(data))
        yield f"NVMeConnect(cid=1, sqsize=31, key={connect.stag}, length={_CONNECT_DATA})"
        controller = self._result(1, "Connect") & 0xFFFF
        self._rdmap.deregister(connect.stag)
        self.summary = f"{self.name}: connected to controller {controller}"
        yield f"NVMePropertySet(cid=2, ofst={_CC}, value={_ENABLE})"
        self._result(2, "Property Set")
        for _ in range(_MOST_LOOKS):
            yield f"NVMePropertyGet(cid=3, ofst={_CSTS})"
            if self._result(3, "Property Get") & _READY:
                break
        else:
            raise UpperLayerError(f"{self.name}: the controller does not become ready")
        identify = self._rdmap.register(bytearray(_IDENTIFY_DATA))
        yield f"NVMeAdminCommand(opcode=6, cid=4, cdw10=1, key={identify.stag}, length={_IDENTIFY_DATA})"
        self._result(4, "Identify")
        # NVMe 1.4 §5.15.2: serial number, model number.
        serial, model = (identify.octets[at:end].decode("ascii", "replace").strip() for at, end in ((4, 24), (24, 64)))
        self.summary += f", which is {model!r}, serial number {serial!r}"

    def _result(self, cid: int, command: str) -> int:
        """Return the result of a command; raises UpperLayerError unless it succeeded."""
        if len(self._answer) != _RESPONSE.size:
            raise UpperLayerError(f"{self.name}: {len(self._answer)} octets are not a response capsule{NOT_THE_SAME}")
        result, _, _, identifier, status = _RESPONSE.unpack(self._answer)
        if identifier != cid:
            raise UpperLayerError(f"{self.name}: a response to command {identifier}, which was not sent")
        if status >> 1:
            raise UpperLayerError(f"{self.name}: {command} is answered by status {status >> 1:#06x}")
        return int(result)
