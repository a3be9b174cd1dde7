"""What the layers above RDMAP have in fields, and what tshark dissects of the same octets, are the same.

tshark dissects RPC-over-RDMA and SMB Direct in Sends of iWARP.  It dissects NVMe-oF on InfiniBand and TCP only, so the
capsules of a capture are put into PDUs of NVMe/TCP, which carries them unchanged; iSER on InfiniBand only, so its Sends
are put into a connection of RoCE.
"""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, attr-defined, index, operator, union-attr, unused-ignore"

from __future__ import annotations

import shutil
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import NoPayload, Packet, Raw
from scapy.sendrecv import sniff
from scapy.utils import wrpcap

from scapy_mpa import iter_messages
from scapy_mpa.layers import (
    ISER,
    ISCSIHeader,
    ISERHello,
    ISERHelloReply,
    MPAConnection,
    MPASession,
    NVMeConnect,
    NVMeConnectData,
    NVMeResponse,
    RDMAPSend,
)
from scapy_mpa.ulp.iser import PDUS
from scapy_mpa.ulp.nfs import OPERATIONS
from tests.conftest import named
from tests.layers.uppercases import smb_direct_connection

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing")


def tshark(capture: str, *fields: str, wanted: str, by_port: bool) -> list[tuple[int, dict[str, list[int]]]]:
    """The frames that a display filter finds: number, values of each field.

    ``by_port``: a dissector of the port goes before one that recognises MPA.
    """
    options = [option for name in ("frame.number", *fields) for option in ("-e", name)]
    lines = subprocess.run(
        [
            "tshark",
            "-r",
            capture,
            "-o",
            f"tcp.try_heuristic_first:{not by_port}",
            "-Y",
            wanted,
            "-T",
            "fields",
            "-E",
            "separator=;",
            *options,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    ).stdout.splitlines()
    found = []
    for line in lines:
        number, *values = line.split(";")
        found.append((int(number), {name: _numbers(value) for name, value in zip(fields, values, strict=True)}))
    return found


def _numbers(text: str) -> list[int]:
    return [int(one, 0) for one in text.split(",") if one]


def sends(capture: Any) -> list[Packet]:
    found = sniff(offline=capture, session=MPASession, quiet=True)
    return [packet for packet in found if RDMAPSend in packet]


# --- RPC-over-RDMA ---

RPC_FIELDS = (
    *("rpcordma.xid", "rpcordma.version", "rpcordma.flow_control", "rpcordma.msg_type", "rpcordma.reads_count"),
    *("rpcordma.writes_count", "rpcordma.reply_count", "rpcordma.rdma_handle", "rpcordma.rdma_length"),
    *("rpcordma.rdma_offset", "rpcordma.position", "rpcordma.segment_count"),
)


def rpc_fields(packet: Packet) -> dict[str, list[int]]:
    header: Any = packet[RDMAPSend].payload
    chunks = [*header.writes, *([header.reply] if header.reply is not None else [])]
    segments = [*header.reads, *(one for chunk in chunks for one in chunk.segments)]
    values = (
        *([header.xid], [header.version], [header.credits], [header.procedure], [len(header.reads)]),
        *([len(header.writes)], [int(header.reply is not None)], [one.handle for one in segments]),
        *([one.length for one in segments], [one.offset for one in segments]),
        *([one.position for one in header.reads], [chunk.count for chunk in chunks]),
    )
    return dict(zip(RPC_FIELDS, values, strict=True))


def test_rpc_over_rdma() -> None:
    capture = str(named("siw-nfs4"))
    theirs = dict(tshark(capture, *RPC_FIELDS, wanted="rpcordma", by_port=False))
    ours = {packet.frame: rpc_fields(packet) for packet in sends(capture)}
    assert len(ours) == len(theirs) == 350
    assert ours == theirs
    # Procedure, Read segments, Write chunks, Reply chunk: all kinds are there.
    kinds = Counter(tuple(values[name][0] for name in RPC_FIELDS[3:7]) for values in ours.values())
    assert kinds == {(0, 0, 0, 0): 249, (0, 0, 0, 1): 46, (1, 0, 0, 1): 46, (0, 0, 1, 0): 8, (0, 1, 0, 0): 1}


def test_operations_of_nfs() -> None:
    """Of a call with a Read chunk tshark has them at another frame, so that one is left out."""
    capture = named("siw-nfs4")
    found = tshark(str(capture), "rpc.msgtyp", "nfs.opcode", wanted="rpcordma && rpc.msgtyp == 0", by_port=False)
    theirs = {frame: [OPERATIONS[one] for one in values["nfs.opcode"]] for frame, values in found}
    compared = 0
    for row in iter_messages(capture):
        call = (row.ulp or {}).get("call", "")
        if call.startswith("NFS 4 COMPOUND ") and row.first_frame in theirs:
            *ours, last = call.split()[3:]
            assert theirs[row.first_frame][: len(ours)] == ours
            if last != "...":
                assert theirs[row.first_frame] == [*ours, last]
            else:
                assert len(theirs[row.first_frame]) > len(ours)
            compared += 1
    assert compared == 173


# --- SMB Direct ---

SMB_FIELDS = {
    "smb_direct.version.min": "min_version",
    "smb_direct.version.max": "max_version",
    "smb_direct.version.negotiated": "negotiated_version",
    "smb_direct.credits.requested": "credits_requested",
    "smb_direct.credits.granted": "credits_granted",
    "smb_direct.status": "status",
    "smb_direct.max_read_write_size": "max_readwrite_size",
    "smb_direct.preferred_send_size": "preferred_send_size",
    "smb_direct.max_receive_size": "max_receive_size",
    "smb_direct.max_fragmented_size": "max_fragmented_size",
    "smb_direct.flags": "flags",
    "smb_direct.remaining_length": "remaining_data_length",
    "smb_direct.data_offset": "data_offset",
    "smb_direct.data_length": "data_length",
}


def test_smb_direct(tmp_path: Path) -> None:
    capture = str(tmp_path / "smb.pcap")
    wrpcap(capture, smb_direct_connection().packets())
    theirs = dict(tshark(capture, *SMB_FIELDS, wanted="smb_direct", by_port=False))
    ours = {}
    for packet in sends(capture):
        message: Any = packet[RDMAPSend].payload
        names = {field.name for field in message.fields_desc}
        ours[packet.frame] = {
            theirs_name: [message.getfieldval(name)] if name in names else []
            for theirs_name, name in SMB_FIELDS.items()
        }
    assert len(ours) == len(theirs) == 71
    assert ours == theirs


# --- NVMe-oF ---

NVME_FIELDS = {
    "nvme.cmd.opc": "opcode",
    "nvme.cmd.fuse_op": "fuse",
    "nvme.cmd.psdt": "psdt",
    "nvme.cmd.cid": "cid",
    "nvme.cmd.nsid": "nsid",
    "nvme.cmd.mptr": "mptr",
    "nvme.cmd.sgl.type": "sgl_type",
    "nvme.cmd.sgl.subtype": "sgl_subtype",
    "nvme.cmd.sgl1.addr": "address",
    "nvme.cmd.sgl1.len": "length",
    "nvme.cmd.sgl1.key": "key",
    "nvme.fabrics.cmd.cid": "cid",
    "nvme.fabrics.cmd.fctype": "fctype",
    "nvme.fabrics.cmd.connect.recfmt": "recfmt",
    "nvme.fabrics.cmd.connect.qid": "qid",
    "nvme.fabrics.cmd.connect.sqsize": "sqsize",
    "nvme.fabrics.cmd.connect.cattr": "cattr",
    "nvme.fabrics.cmd.connect.kato": "kato",
    "nvme.fabrics.cmd.connect.data.cntrlid": "cntlid",
    "nvme.fabrics.cmd.prop_get_set.attrib": "attrib",
    "nvme.fabrics.cmd.prop_get_set.offset": "ofst",
    "nvme.cqe.sqhd": "sqhd",
    "nvme.cqe.sqid": "sqid",
    "nvme.cqe.cid": "cid",
    "nvme.cqe.status.sc": "sc",
    "nvme.cqe.status.sct": "sct",
    "nvme.cqe.status.crd": "crd",
    "nvme.cqe.status.m": "m",
    "nvme.cqe.status.dnr": "dnr",
}
#: PDUs of NVMe/TCP: ICReq, ICResp, command, response; their header has 8 octets.
_ICREQ, _ICRESP, _COMMAND, _RESPONSE = 0, 1, 4, 5
_HEADER = struct.Struct("<BBBBI")


def in_nvme_tcp(capsules: Sequence[tuple[int, bool, bytes]]) -> Iterator[Packet]:
    """Segments of NVMe/TCP with these capsules: the host's port, whether the host sends it, its octets."""
    seqs: dict[tuple[int, bool], int] = {}

    def segment(port: int, by_host: bool, kind: int, octets: bytes, fixed: int) -> Packet:
        payload = _HEADER.pack(kind, 0, 8 + fixed, 8 + fixed if len(octets) > fixed else 0, 8 + len(octets)) + octets
        seq, ack = seqs.get((port, by_host), 1), seqs.get((port, not by_host), 1)
        seqs[port, by_host] = seq + len(payload)
        hosts, ports = ("10.0.0.1", "10.0.0.2"), (port, 4420)
        (source, target), (sport, dport) = (hosts, ports) if by_host else (hosts[::-1], ports[::-1])
        return (
            Ether() / IP(src=source, dst=target) / TCP(sport=sport, dport=dport, seq=seq, ack=ack, flags="PA") / payload
        )

    for port, by_host, octets in capsules:
        if (port, True) not in seqs:
            yield segment(port, True, _ICREQ, bytes(120), 120)
            yield segment(port, False, _ICRESP, bytes(120), 120)
        yield segment(port, by_host, _COMMAND if by_host else _RESPONSE, octets, 64 if by_host else 16)


def test_nvme(tmp_path: Path) -> None:
    messages = sends(str(named("siw-nvme")))
    hosts = [(packet.sport, True) if packet.dport == 4420 else (packet.dport, False) for packet in messages]
    capsules = [(*host, bytes(packet[RDMAPSend].payload)) for host, packet in zip(hosts, messages, strict=True)]
    capture = str(tmp_path / "tcp.pcap")
    wrpcap(capture, list(in_nvme_tcp(capsules)))
    frames = tshark(capture, *NVME_FIELDS, wanted="nvme-tcp.type == 4 || nvme-tcp.type == 5", by_port=True)
    assert len(frames) == len(messages) == 131
    compared: Counter[str] = Counter()
    for packet, (_, theirs) in zip(messages, frames, strict=True):
        message: Any = packet[RDMAPSend].payload
        data = message.payload if isinstance(message.payload, NVMeConnectData) else message
        for name, values in theirs.items():
            # An SGL with an offset has four octets of length, and no key.
            if not values or (name == "nvme.cmd.sgl1.key" and message.sgl_type != 4):
                continue
            holder = data if name.endswith("data.cntrlid") else message
            assert values == [holder.getfieldval(NVME_FIELDS[name])], (name, packet.frame)
            compared[name] += 1
    assert compared["nvme.cmd.opc"] == compared["nvme.cmd.sgl1.addr"] - compared["nvme.fabrics.cmd.connect.qid"] == 54
    assert (compared["nvme.fabrics.cmd.fctype"], compared["nvme.fabrics.cmd.connect.qid"]) == (12, 3)
    assert compared["nvme.cqe.cid"] == compared["nvme.cqe.status.dnr"] == 65
    assert compared["nvme.fabrics.cmd.connect.data.cntrlid"] == 2


def test_a_wrong_field_of_a_crafted_connect_is_seen(tmp_path: Path) -> None:
    connect = NVMeConnect(recfmt=7, qid=1, sqsize=31, cid=3) / NVMeConnectData(subnqn=b"nqn.2014-08.org.example")
    capture = str(tmp_path / "connect.pcap")
    wrpcap(
        capture, list(in_nvme_tcp([(40000, True, bytes(connect)), (40000, False, bytes(NVMeResponse(cid=3, sct=1)))]))
    )
    ((_, theirs), *_) = tshark(capture, *NVME_FIELDS, wanted="nvme.fabrics.cmd", by_port=True)
    assert theirs["nvme.fabrics.cmd.connect.recfmt"] == [7] and theirs["nvme.fabrics.cmd.cid"] == [3]


# --- iSER: tshark dissects it in RC packets of InfiniBand, once it saw their connection opened for port 3260 ---

ISER_FIELDS = {
    "iser.flags.opcode": "opcode",
    "iser.flags.wsv": "w",
    "iser.flags.rsv": "r",
    "iser.flags.rej": "rej",
    "iser.write_stag": "write_stag",
    "iser.write_base_offset": "write_base_offset",
    "iser.read_stag": "read_stag",
    "iser.read_base_offset": "read_base_offset",
    "iser.ird": "iser_ird",
    "iser.ord": "iser_ord",
}
ISCSI_FIELDS = {
    "iscsi.opcode": "opcode",
    "iscsi.I": "i",
    "iscsi.totalahslength": "total_ahs_length",
    "iscsi.datasegmentlength": "data_segment_length",
    "iscsi.initiatortasktag": "initiator_task_tag",
}
#: tshark takes nothing shorter for iSER: a Hello message has 28 octets, an iSCSI PDU after the header 76.
_SHORTEST = 76
_HOSTS, _QPS = ("10.0.0.1", "10.0.0.2"), (0x11, 0x22)
#: The service of a TCP port, as RDMA CM names it (IBTA, annex A11).
_SERVICE = 0x0106 << 16 | 3260
_SEND_ONLY, _DATAGRAM_SEND_ONLY = 0x04, 0x64
_REQUEST, _REPLY, _READY = 0x10, 0x13, 0x14


#: What an iSCSI PDU must have for tshark to take it for one, by opcode; those that may have data.
_VALID: dict[int, dict[str, Any]] = {
    0x00: {"specific_20": b"\xff\xff\xff\xff" + bytes(24)},
    0x02: {"flags": 1},
    0x03: {"f": 0, "i": 1},
    0x05: {"i": 0},
    0x10: {"i": 0},
    0x23: {"f": 0},
    0x31: {"specific_20": bytes(27) + b"\x01"},
    0x32: {"initiator_task_tag": 0xFFFFFFFF},
    0x3F: {"initiator_task_tag": 0xFFFFFFFF, "specific_2": b"\x04\x00"},
}
_WITH_DATA = (0x01, 0x04, 0x05, 0x10, 0x20, 0x21, 0x24, 0x25)


def in_roce(messages: Sequence[tuple[bool, bytes]]) -> Iterator[Packet]:
    """RoCE v2 packets of a connection that is opened, and of its Sends: whether the Initiator sends it, its octets."""

    def packet(by_initiator: bool, opcode: int, qp: int, psn: int, payload: bytes) -> Packet:
        source, target = _HOSTS if by_initiator else _HOSTS[::-1]
        header = struct.pack(">BBHII", opcode, 0x40, 0xFFFF, qp, psn)
        below = Ether() / IP(src=source, dst=target) / UDP(sport=0xC000, dport=4791)
        return below / Raw(header + payload + bytes(4))

    def managing(by_initiator: bool, attribute: int, octets: bytes) -> Packet:
        head = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 7, attribute, 0, 0)
        datagram = struct.pack(">II", 0x80010000, 1) + head + octets.ljust(232, b"\0")
        return packet(by_initiator, _DATAGRAM_SEND_ONLY, 1, attribute, datagram)

    gids = b"".join(bytes(10) + b"\xff\xff" + bytes(map(int, host.split("."))) for host in _HOSTS)
    request = struct.pack(">IIQQIIIIII", 1, 0, _SERVICE, 1, 0, 0, _QPS[0] << 8 | 4, 4, 0, 0x100 << 8)
    yield managing(True, _REQUEST, request + struct.pack(">HBBHH", 0xFFFF, 0x37, 0xF0, 0xFFFF, 0xFFFF) + gids)
    yield managing(False, _REPLY, struct.pack(">IIIIIIBBBBQ", 2, 1, 0, _QPS[1] << 8, 0, 0x200 << 8, 4, 4, 0, 0, 2))
    yield managing(True, _READY, struct.pack(">II", 1, 2))
    psns = [0x100, 0x200]
    for by_initiator, octets in messages:
        side = 0 if by_initiator else 1
        yield packet(by_initiator, _SEND_ONLY, _QPS[1 - side], psns[side], octets.ljust(_SHORTEST, b"\0"))
        psns[side] += 1


def iser_connection() -> MPAConnection:
    """Hello messages, and an iSCSI PDU of each kind with every combination of STags."""
    connection = MPAConnection(ports=(40000, 3260))
    connection.message("initiator", ISERHello(iser_ird=4)).message("responder", ISERHelloReply(rej=1, iser_ord=5))
    number = 0
    for opcode in PDUS:
        for w, r in ((0, 0), (1, 0), (0, 1), (1, 1)):
            number += 1
            stags = {"write_stag": w * number, "read_stag": r * (number << 16), "write_base_offset": w << 63}
            header = ISER(w=w, r=r, read_base_offset=r * (number << 32), **stags)
            fields = {"i": number & 1 if opcode < 0x20 else 0, "initiator_task_tag": number << 8 | 7}
            pdu = ISCSIHeader(opcode=opcode, **{**fields, **_VALID.get(opcode, {})})
            data = bytes(4 * (number % 3)) if opcode in _WITH_DATA else b""
            connection.message("initiator" if opcode < 0x20 else "responder", header / pdu / data)
    return connection


def test_iser(tmp_path: Path) -> None:
    made, carried = str(tmp_path / "iser.pcap"), str(tmp_path / "roce.pcap")
    wrpcap(made, iser_connection().packets())
    ours = sends(made)
    wrpcap(carried, list(in_roce([(one.dport == 3260, bytes(one[RDMAPSend].payload)) for one in ours])))
    theirs = tshark(carried, *ISER_FIELDS, *ISCSI_FIELDS, wanted="iser", by_port=False)
    assert len(ours) == len(theirs) == 2 + 4 * len(PDUS)
    compared: Counter[str] = Counter()
    for packet, (_, values) in zip(ours, theirs, strict=True):
        message: Any = packet[RDMAPSend].payload
        assert isinstance(message, (ISER, ISERHello, ISERHelloReply))
        for fields, layer in ((ISER_FIELDS, message), (ISCSI_FIELDS, message.payload)):
            names = {field.name for field in layer.fields_desc} if not isinstance(layer, NoPayload) else set()
            for name, field in fields.items():
                if not values[name] or field not in names:
                    assert not values[name] or values[name] == [0], (name, packet.frame)
                    continue
                assert values[name] == [layer.getfieldval(field)], (name, packet.frame)
                compared[name] += 1
    assert compared["iser.write_stag"] == compared["iser.read_base_offset"] == 4 * len(PDUS)
    assert compared["iser.ird"] == compared["iser.ord"] == compared["iser.flags.rej"] == 1
    assert compared["iscsi.opcode"] == 4 * len(PDUS)
    # A SNACK Request has no data segment.
    assert compared["iscsi.datasegmentlength"] == 4 * (len(PDUS) - 1)
    assert compared["iser.flags.opcode"] == len(ours)


def test_a_lying_header_of_iser_is_seen(tmp_path: Path) -> None:
    message = ISER(w=1, write_stag=0xDEAD) / ISCSIHeader(data_segment_length=0x8000, initiator_task_tag=1)
    carried = str(tmp_path / "roce.pcap")
    wrpcap(carried, list(in_roce([(True, bytes(message))])))
    ((_, values),) = tshark(carried, *ISER_FIELDS, *ISCSI_FIELDS, wanted="iser", by_port=False)
    assert values["iser.write_stag"] == [0xDEAD]
    assert values["iscsi.datasegmentlength"] == [0x8000]
