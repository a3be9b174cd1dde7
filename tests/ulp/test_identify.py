"""Which upper layer it is: by Private Data, by port, by headers that agree; and what headers name."""

from __future__ import annotations

import struct

import pytest

from scapy_mpa.framing.startup import EnhancedData, StartupFrame, startup_frame
from scapy_mpa.ulp.identify import UpperLayer, names_nothing
from scapy_mpa.ulp.privatedata import private_data_parts
from scapy_mpa.ulp.smbdirect import DataTransfer, NegotiateRequest, NegotiateResponse, SmbDirectLimits

REQUEST = NegotiateRequest(0x100, 0x100, 0, 10, 1364, 8192, 1 << 20).encode()
RESPONSE = NegotiateResponse(0x100, 0x100, 0x100, 0, 10, 10, 0, 1 << 20, 1364, 1364, 1 << 20).encode()
DATA = DataTransfer(10, 1, 0, 0, 0, 24, 76).encode() + bytes(4 + 76)
RPC_PRIVATE = bytes.fromhex("f6ab0e1801010303")
CALL = struct.pack(">4I", 7, 1, 32, 0) + struct.pack(">2I2IQ", 1, 0, 0x99, 4096, 1 << 40) + bytes(12)
CALL += struct.pack(">6I", 7, 0, 2, 100003, 4, 1)
REPLY = struct.pack(">7I", 7, 1, 32, 0, 0, 0, 0) + struct.pack(">2I", 7, 1)
RPING = struct.pack(">QII", 0x5500, 0x1234, 64)
COMMAND = (
    struct.pack("<BBHI", 2, 0x40, 9, 1) + bytes(16) + struct.pack("<Q3s4sB", 1 << 30, b"\0\x10\0", b"\x11\0\0\0", 0x40)
)
COMMAND += bytes(24)
ISER = struct.pack(">B3xIQIQ", 0x1C, 5, 6, 7, 8) + bytes(48)


def layer(port: int = 7471, private: bytes = b"", rev: int = 1) -> UpperLayer:
    frame = startup_frame("request", rev=rev, s=0, private_data=private)
    return UpperLayer(frame, None, port)


def see(upper: UpperLayer, octets: bytes, from_initiator: bool = True) -> dict[str, object] | None:
    header = upper.see_send(octets, len(octets), from_initiator)
    return None if header is None else header.as_dict()


@pytest.mark.parametrize(
    ("port", "private", "sends", "name", "grounds"),
    [
        (5445, b"", [REQUEST], "SMB Direct", ["port", "headers"]),
        (5445, b"", [], "SMB Direct", ["port"]),
        (5445, b"", [b"no such header"], "unknown", []),
        (4791, b"", [REQUEST], "SMB Direct", ["headers"]),
        (5445, struct.pack(">II", 16, 16), [REQUEST], "SMB Direct", ["Private Data", "port", "headers"]),
        (20049, RPC_PRIVATE, [CALL], "RPC-over-RDMA", ["Private Data", "port", "headers"]),
        (1, RPC_PRIVATE, [b"x"], "RPC-over-RDMA", ["Private Data"]),
        (1, b"", [CALL], "RPC-over-RDMA", ["headers"]),
        (4420, b"", [COMMAND], "NVMe-oF", ["port", "headers"]),
        (1, b"", [COMMAND], "unknown", []),
        (3260, b"\x40\0\0\0", [ISER], "iSER", ["Private Data", "port", "headers"]),
        (7174, b"", [RPING], "rping", ["port", "headers"]),
        (1, b"", [RPING], "unknown", []),
        (18515, b"", [b"anything"], "perftest", ["port"]),
        (1, b"", [b"6.06".ljust(16, b"\0")], "perftest", ["headers"]),
        (1, b"", [b"hello"], "unknown", []),
        (1, b"", [], "unknown", []),
    ],
)
def test_protocols(port: int, private: bytes, sends: list[bytes], name: str, grounds: list[str]) -> None:
    upper = layer(port, private)
    for octets in sends:
        see(upper, octets)
    assert (upper.name, upper.grounds) == (name, grounds)


@pytest.mark.parametrize("send", [REQUEST, CALL, COMMAND, ISER, RPING, b"6.06".ljust(16, b"\0"), b"hello", b""])
@pytest.mark.parametrize(("port", "private"), [(1, b""), (5445, b""), (20049, b""), (1, RPC_PRIVATE)])
@pytest.mark.parametrize("from_initiator", [True, False])
def test_what_names_nothing(port: int, private: bytes, send: bytes, from_initiator: bool) -> None:
    upper = layer(port, private)
    frame = startup_frame("request", rev=1, s=0, private_data=private)
    nothing = names_nothing(frame, None, port, send, len(send), from_initiator)
    upper.see_send(send, len(send), from_initiator)
    # It may leave to who looks closer what a port, Private Data, an RPC's header or no octet say.
    assert not (nothing and (upper.is_confirmed or upper.is_possible))
    assert nothing == (
        port == 1 and not private and send in ((COMMAND, ISER, b"hello") + (RPING,) * (not from_initiator))
    )


@pytest.mark.parametrize(
    ("port", "send", "name"),
    [
        (5445, REQUEST, "SMB Direct"), (20049, CALL, "RPC-over-RDMA"), (4420, COMMAND, "NVMe-oF"), (3260, ISER, "iSER"),
        (7174, RPING, "rping"),
    ],
)  # fmt: skip
def test_octets_that_the_capture_cut_refute_nothing(port: int, send: bytes, name: str) -> None:
    for size in range(len(send)):
        upper = layer(port)
        upper.see_send(send[:size], len(send), True)
        assert upper.name == name and "port" in upper.grounds
    upper.see_send(send, len(send), True)
    assert upper.grounds == ["port", "headers"] or port == 5445  # whose negotiation is the first Send
    other = layer(port)
    other.see_send(b"\xff" * 64, 1000, True)
    assert other.name == "unknown"


def test_rping_is_told_by_what_its_peer_does() -> None:
    upper = layer()
    assert see(upper, b"") is None and see(upper, RPING) is not None
    assert upper.name == "unknown"
    upper.see_use(0x1234, 0x5500)
    assert (upper.name, upper.grounds) == ("rping", ["headers"])
    other = layer()
    see(other, RPING)
    other.see_use(0x1234, 0x5501)
    other.see_use(0x1234, 0x5500)
    assert other.name == "unknown"


def test_smb_direct_says_what_it_agreed_on() -> None:
    upper = layer(5445)
    request, response = see(upper, REQUEST), see(upper, RESPONSE, False)
    assert request is not None and request["message"] == "Negotiate Request" and request["max_receive_size"] == 8192
    assert response is not None and (response["credits_granted"], response["max_readwrite_size"]) == (10, 1 << 20)
    assert upper.limits == SmbDirectLimits(8192, 1364, 1 << 20, 1 << 20, 1 << 20)
    assert (upper.limits.most_received("initiator"), upper.limits.most_received("responder")) == (1364, 8192)
    data = see(upper, DATA)
    assert data is not None and (data["message"], data["data_length"]) == ("Data Transfer", 76)
    assert see(upper, DATA[:90]) is None and upper.name == "SMB Direct"


def test_an_rpc_call_names_memory() -> None:
    upper = layer(20049)
    header = upper.see_send(CALL, len(CALL), True)
    assert header is not None and header.call == 7 and header.is_reply is False
    assert [(one.stag, one.to, one.length, one.use) for one in header.named] == [(0x99, 1 << 40, 4096, "read")]
    assert header.values["program"] == 100003
    reply = upper.see_send(REPLY, len(REPLY), False)
    assert reply is not None and reply.is_reply and reply.call == 7
    # Of what lies behind the octets that are looked at nothing is known; a header that ends too early is none.
    assert upper.see_send(CALL[:30], len(CALL), True) is not None
    assert upper.see_send(CALL[:30], 30, True) is None


def test_an_nvme_command_and_an_iscsi_pdu_name_memory() -> None:
    header = layer(4420).see_send(COMMAND, len(COMMAND), True)
    assert header is not None
    assert [(one.stag, one.to, one.length, one.use) for one in header.named] == [(0x11, 1 << 30, 4096, "write")]
    header = layer(3260).see_send(ISER, len(ISER), True)
    assert header is not None
    assert [(one.stag, one.to, one.use) for one in header.named] == [(5, 6, "read"), (7, 8, "write")]


@pytest.mark.parametrize(
    ("port", "sends", "from_initiator"),
    [
        (5445, [REQUEST, DATA], True),
        (5445, [RESPONSE, DATA], False),
        (20049, [CALL], True),
        (20049, [REPLY], False),
        (20049, [struct.pack(">4I", 7, 1, 32, 4) + struct.pack(">I", 2)], False),
        (4420, [COMMAND], True),
        (4420, [bytes(16)], False),
        (3260, [ISER], True),
        (3260, [b"\x20" + bytes(27)], True),
        (7174, [RPING], True),
        (18515, [b"6.06".ljust(16, b"\0")], True),
    ],
)
def test_what_a_header_says_of_memory(port: int, sends: list[bytes], from_initiator: bool) -> None:
    """It is the same whether the rest of the header is read or not, however much of it was captured."""
    *before, last = sends
    for size in range(len(last) + 1):
        for length in {size, len(last)}:
            whole, memory = layer(port), layer(port)
            for send in before:
                assert whole.see_send(send, len(send), from_initiator) is not None
                assert memory.see_naming(send, len(send), from_initiator) is not None
            header = whole.see_send(last[:size], length, from_initiator)
            naming = memory.see_naming(last[:size], length, from_initiator)
            said = [
                found and (found.protocol, found.named, found.call, found.is_reply, found.is_cut)
                for found in (header, naming)
            ]
            assert said[0] == said[1]
            assert (whole.name, whole.grounds) == (memory.name, memory.grounds)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 20, 28, 32, 56, 64, 76, 4096])
@pytest.mark.parametrize("port", [5445, 20049, 4420, 3260, 7174, 18515, 7471])
def test_any_octets(length: int, port: int) -> None:
    for fill in (0, 1, 0x7F, 0xFF):
        for from_initiator in (True, False):
            upper = layer(port)
            for _ in range(3):
                see(upper, bytes([fill]) * length, from_initiator)


# --- Private Data ---


@pytest.mark.parametrize(
    ("frame", "port", "forms"),
    [
        (startup_frame("request", enhanced=EnhancedData(1, 0, 1, 1, 4, 4)), 1, ["RFC 6581"]),
        (
            startup_frame("request", enhanced=EnhancedData(), private_data=RPC_PRIVATE + b"x"),
            1,
            ["RFC 6581", "RFC 8797", "unknown"],
        ),
        (startup_frame("request", private_data=struct.pack("<II", 1, 1)), 5445, ["SMB Direct before RFC 6581"]),
        (startup_frame("request", private_data=struct.pack("<5H22x", 0, 1, 32, 31, 0)), 4420, ["NVMe-oF"]),
        (startup_frame("reply", private_data=struct.pack("<2H28x", 0, 32)), 4420, ["NVMe-oF"]),
        (startup_frame("reply", r=1, private_data=struct.pack("<2H", 0, 5)), 4420, ["NVMe-oF"]),
        (startup_frame("reply", private_data=b"\x80\0\0\0"), 3260, ["iSER"]),
        (startup_frame("reply", private_data=b"hello"), 7471, ["unknown"]),
        (startup_frame("reply"), 7471, []),
    ],
)
def test_private_data(frame: StartupFrame, port: int, forms: list[str]) -> None:
    parts = private_data_parts(frame, port)
    assert [part.form for part in parts] == forms
    assert sum(part.length for part in parts) == len(frame.private_data)
    assert all(part.text for part in parts if part.form != "unknown")


def test_the_sizes_of_rfc_8797() -> None:
    (part,) = private_data_parts(startup_frame("reply", private_data=bytes.fromhex("f6ab0e1801000703")), 20049)
    assert (part.values["send_size"], part.values["receive_size"]) == (8192, 4096)
    assert part.values["remote_invalidation"] is False
