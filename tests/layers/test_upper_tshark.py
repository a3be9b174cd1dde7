"""What the layers above RDMAP have in fields, and what tshark dissects of the same octets, are the same.

tshark dissects RPC-over-RDMA and SMB Direct in Sends of iWARP.  It dissects NVMe-oF on InfiniBand and TCP only, so the
capsules of a capture are put into PDUs of NVMe/TCP, which carries them unchanged.
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
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.sendrecv import sniff
from scapy.utils import wrpcap

from scapy_mpa import iter_messages
from scapy_mpa.layers import ISCSIHeader, MPASession, NVMeConnect, NVMeConnectData, NVMeResponse, RDMAPSend
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


# --- iSER: tshark dissects it on InfiniBand alone, after a CM exchange; the iSCSI PDU behind its header on TCP too ---

ISCSI_FIELDS = {
    "iscsi.opcode": "opcode",
    "iscsi.I": "i",
    "iscsi.totalahslength": "total_ahs_length",
    "iscsi.datasegmentlength": "data_segment_length",
    "iscsi.initiatortasktag": "initiator_task_tag",
}


def test_iscsi(tmp_path: Path) -> None:
    pdus = [
        ISCSIHeader(opcode="Text Request", i=1, initiator_task_tag=9) / b"SendTargets=All\0",
        ISCSIHeader(opcode="SCSI Command", initiator_task_tag=0x12345678),
    ]
    seq, packets = 1, []
    for pdu in pdus:
        packets.append(Ether() / IP() / TCP(sport=40000, dport=3260, seq=seq, ack=1, flags="PA") / bytes(pdu))
        seq += len(pdu)
    capture = str(tmp_path / "iscsi.pcap")
    wrpcap(capture, packets)
    theirs = tshark(capture, *ISCSI_FIELDS, wanted="iscsi", by_port=True)
    for (_, values), pdu in zip(theirs, pdus, strict=True):
        read = ISCSIHeader(bytes(pdu))
        assert values == {name: [read.getfieldval(field)] for name, field in ISCSI_FIELDS.items()}
