"""Private Data of upper layers as Scapy packets."""

from __future__ import annotations

import pickle

import pytest
from scapy.layers.inet import IP, TCP
from scapy.packet import Packet, fuzz, ls

from scapy_mpa import (
    ISERPrivateData,
    MPAReply,
    MPARequest,
    NVMePrivateDataReject,
    NVMePrivateDataReply,
    NVMePrivateDataRequest,
    RPCRDMAPrivateData,
    SMBDirectDepths,
    SMBDirectDepthsLE,
)

CASES = [
    (MPARequest, SMBDirectDepths(ird=16, ord=1), 5445, "0000001000000001"),
    (MPAReply, SMBDirectDepthsLE(ird=16, ord=1), 5445, "1000000001000000"),
    (MPARequest, RPCRDMAPrivateData(remote_invalidation=1, send_size=7), 20049, "f6ab0e1801010703"),
    (MPARequest, NVMePrivateDataRequest(qid=1, hrqsize=128, hsqsize=127), 4420, "0000010080007f00" + 24 * "00"),
    (MPAReply, NVMePrivateDataReply(crqsize=128), 4420, "00008000"),
    (MPAReply, ISERPrivateData(no_zero_based_addresses=1), 3260, "80000000"),
]


@pytest.mark.parametrize(("frame", "data", "port", "octets"), CASES, ids=lambda value: getattr(value, "name", None))
def test_built_into_a_frame_and_found_there(frame: type[Packet], data: Packet, port: int, octets: str) -> None:
    assert bytes(data) == bytes.fromhex(octets)
    built = frame(private_data=data)
    dissected = frame(bytes(built))
    assert dissected.private_data == bytes(data)
    found = dissected.private_data_packet(port)
    assert type(found) is type(data) and bytes(found) == bytes(data)
    for name in data.fields:
        assert getattr(found, name) == getattr(data, name)
    assert bytes(pickle.loads(pickle.dumps(found))) == bytes(data)
    assert type(data)(bytes(fuzz(type(data)()))) is not None
    # The port is that of TCP, if there is TCP below.
    tcp = TCP(sport=port) if frame is MPAReply else TCP(dport=port)
    whole = IP(bytes(IP() / tcp / built))
    assert type(whole[frame].private_data_packet()) is type(data)


def test_behind_enhanced_data() -> None:
    frame = MPARequest(bytes(MPARequest(s=1, ird=1, ord=1, private_data=RPCRDMAPrivateData())))
    assert isinstance(frame.private_data_packet(1), RPCRDMAPrivateData)
    assert MPARequest(private_data=b"hello").private_data_packet(5445) is None


def test_a_rejection_of_nvme() -> None:
    found = MPAReply(bytes(MPAReply(r=1, private_data=NVMePrivateDataReject(sts=5)))).private_data_packet(4420)
    assert isinstance(found, NVMePrivateDataReject) and found.sts == 5


def test_ls_shows_the_fields(capsys: pytest.CaptureFixture[str]) -> None:
    ls(RPCRDMAPrivateData)
    said = capsys.readouterr().out
    assert "remote_invalidation" in said and "receive_size" in said
