"""Packets that more than one test of the layers uses."""

# mypy cannot follow Scapy's "/" where Python has no typing.Self.
# mypy: disable-error-code="arg-type, attr-defined, comparison-overlap, index, operator, unused-ignore"

from __future__ import annotations

from collections.abc import Iterator

from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw

from scapy_mpa.layers import (
    FPDU,
    DDPTagged,
    DDPUntagged,
    MPAReply,
    MPARequest,
    RDMAPAtomicRequest,
    RDMAPAtomicResponse,
    RDMAPImmediateData,
    RDMAPReadRequest,
    RDMAPReadResponse,
    RDMAPSend,
    RDMAPTerminate,
    RDMAPWrite,
)

READ_REQUEST = RDMAPReadRequest(sink_stag=1, sink_to=2, read_message_size=3, source_stag=4, source_to=5)

#: Every RDMAP message: the ULPDU, its opcode, its octets.
ULPDUS: dict[str, tuple[Packet, int, str]] = {
    "write": (DDPTagged(stag=1, to=2) / RDMAPWrite() / b"abc", 0, "c140 00000001 0000000000000002 616263"),
    "zero-length write": (DDPTagged() / RDMAPWrite(), 0, "c140 00000000 0000000000000000"),
    "read request": (
        DDPUntagged() / READ_REQUEST,
        1,
        "4141 00000000 00000001 00000001 0000000000000001 0000000000000002 00000003 00000004 0000000000000005",
    ),
    "read response": (
        DDPTagged(stag=1, to=2, l=0) / RDMAPReadResponse() / b"abc",
        2,
        "8142 00000001 0000000000000002 616263",
    ),
    "send": (DDPUntagged(msn=2, mo=3) / RDMAPSend() / b"abc", 3, "4143 00000000 00000000 00000002 00000003 616263"),
    "zero-length send": (DDPUntagged() / RDMAPSend(), 3, "4143 00000000 00000000 00000001 00000000"),
    "send with invalidate": (
        DDPUntagged(opcode="Send with Invalidate", rsvdulp=0x1234) / RDMAPSend() / b"a",
        4,
        "4144 00001234 00000000 00000001 00000000 61",
    ),
    "send with SE": (
        DDPUntagged(opcode=5) / RDMAPSend() / b"a",
        5,
        "4145 00000000 00000000 00000001 00000000 61",
    ),
    "send with SE and invalidate": (
        DDPUntagged(opcode=6, rsvdulp=7) / RDMAPSend() / b"a",
        6,
        "4146 00000007 00000000 00000001 00000000 61",
    ),
    "send of the RDMA Consortium": (
        DDPUntagged(dv=0, rv=0) / RDMAPSend() / b"a",
        3,
        "4003 00000000 00000000 00000001 00000000 61",
    ),
    "terminate": (
        DDPUntagged() / RDMAPTerminate(layer="LLP", code=2),
        7,
        "4147 00000000 00000002 00000001 00000000 20020000",
    ),
    "terminate with a DDP header": (
        DDPUntagged()
        / RDMAPTerminate(layer=1, etype=1, code=1, ddp_segment_length=17, ddp_header=DDPTagged(stag=1, to=2)),
        7,
        "4147 00000000 00000002 00000001 00000000 1101c000 0011 c140 00000001 0000000000000002",
    ),
    "terminate with both headers": (
        DDPUntagged()
        / RDMAPTerminate(
            etype=1, ddp_segment_length=46, ddp_header=DDPUntagged(opcode=1, qn=1), rdmap_header=READ_REQUEST
        ),
        7,
        (
            "4147 00000000 00000002 00000001 00000000 0100e000 002e"
            "4141 00000000 00000001 00000001 00000000"
            "00000001 0000000000000002 00000003 00000004 0000000000000005"
        ),
    ),
    "terminate of siw": (
        DDPUntagged()
        / RDMAPTerminate(layer=1, etype=2, code=2, ddp_segment_length=118, ddp_header=DDPUntagged(), layout="siw"),
        7,
        "4147 00000000 00000002 00000001 00000000 21020300 0076 4143 00000000 00000000 00000001 00000000",
    ),
    "immediate data": (
        DDPUntagged() / RDMAPImmediateData(immediate_data=b"12345678"),
        8,
        "4148 00000000 00000000 00000001 00000000 3132333435363738",
    ),
    "immediate data with SE": (
        DDPUntagged(opcode=9) / RDMAPImmediateData(),
        9,
        "4149 00000000 00000000 00000001 00000000 0000000000000000",
    ),
    "atomic request": (
        DDPUntagged()
        / RDMAPAtomicRequest(
            aopcode="CmpSwap",
            request_id=1,
            remote_stag=2,
            remote_to=3,
            add_swap_data=4,
            add_swap_mask=5,
            compare_data=6,
            compare_mask=7,
        ),
        10,
        (
            "414a 00000000 00000001 00000001 00000000 00000002 00000001 00000002 0000000000000003"
            "0000000000000004 0000000000000005 0000000000000006 0000000000000007"
        ),
    ),
    "atomic response": (
        DDPUntagged() / RDMAPAtomicResponse(original_request_id=1, original_remote_data_value=2),
        11,
        "414b 00000000 00000003 00000001 00000000 00000001 0000000000000002",
    ),
}

STARTUP: dict[str, tuple[Packet, str]] = {
    "request": (MPARequest(), "4d504120494420526571204672616d65 40 01 0000"),
    "reply": (MPAReply(), "4d504120494420526570204672616d65 40 01 0000"),
    "request of the drafts": (MPARequest(m=1, c=1, rev=0), "4d504120494420526571204672616d65 c0 00 0000"),
    "reply that rejects": (
        MPAReply(c=0, r=1, res=1, private_data=b"no"),
        "4d504120494420526570204672616d65 21 01 0002 6e6f",
    ),
    "enhanced request": (
        MPARequest(s=1, peer_to_peer=1, rtr_read=1, ird=4, ord=5, private_data=b"ulp"),
        "4d504120494420526571204672616d65 50 02 0007 8004 4005 756c70",
    ),
    "enhanced reply": (
        MPAReply(s=1, c=0, enhanced_b=1, enhanced_c=1, ird=0x3FFF, ord=0x3FFF),
        "4d504120494420526570204672616d65 10 02 0004 7fff bfff",
    ),
    "S before Rev 2 is reserved": (
        MPARequest(s=1, c=0, rev=1, private_data=b"data"),
        "4d504120494420526571204672616d65 10 01 0004 64617461",
    ),
    "S without room": (
        MPARequest(s=1, c=0, rev=2, pd_length=3, private_data=b"abc"),
        "4d504120494420526571204672616d65 10 02 0003 616263",
    ),
    "a wrong PD_Length and Key": (
        MPARequest(key=b"MPA ID Reg Frame", c=0, pd_length=513, private_data=b"a"),
        "4d504120494420526567204672616d65 00 01 0201 61",
    ),
}


def connection(
    request: Packet, reply: Packet, fpdus: list[tuple[str, Packet]], *, port: int = 7471
) -> Iterator[Packet]:
    """Ethernet frames of a TCP connection: handshake, startup frames, then a segment for each FPDU.

    Who sends an FPDU is "initiator" or "responder".
    """
    ends = {"initiator": ("10.0.0.1", 40000, 1000), "responder": ("10.0.0.2", port, 5000)}
    seq = {side: isn for side, (_, _, isn) in ends.items()}
    time = 1_700_000_000.0

    def segment(side: str, payload: Packet, flags: str = "PA") -> Packet:
        nonlocal time
        time += 0.001
        peer = "responder" if side == "initiator" else "initiator"
        (source, sport, _), (destination, dport, _) = ends[side], ends[peer]
        packet = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src=source, dst=destination)
        ack = 0 if flags == "S" else seq[peer]
        packet = packet / TCP(sport=sport, dport=dport, flags=flags, seq=seq[side], ack=ack) / payload
        packet.time = time
        seq[side] += len(bytes(payload)) + ("S" in flags)
        return packet

    yield segment("initiator", Raw(b""), "S")
    yield segment("responder", Raw(b""), "SA")
    yield segment("initiator", Raw(b""), "A")
    yield segment("initiator", request)
    yield segment("responder", reply)
    for side, fpdu in fpdus:
        yield segment(side, fpdu)


def fpdu_of_each() -> list[tuple[str, Packet]]:
    """An FPDU for every one of ``ULPDUS``, all from the initiator."""
    return [("initiator", FPDU() / ulpdu) for ulpdu, _, _ in ULPDUS.values()]
