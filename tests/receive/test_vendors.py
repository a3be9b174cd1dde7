"""Startup frames as vendors have them; what a port mapper says; octets that only look like a startup frame."""

from __future__ import annotations

import io
import struct

import pytest

from scapy_mpa import Report, analyze
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.startup import REPLY_KEY, REQUEST_KEY, startup_frame
from tests.capture.frames import capture
from tests.capture.tunnels import MAC, ip4
from tests.laying import lay_stream

INITIATOR, RESPONDER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
SECOND = 1_000_000_000


def tcp(side: int, seq: int, ack: int, flags: int, payload: bytes = b"", port: int = 7471) -> bytes:
    """An Ethernet frame of the Initiator (0) or the Responder (1); the checksum says nothing."""
    ports = (40000, port) if not side else (port, 40000)
    addresses = INITIATOR + RESPONDER if not side else RESPONDER + INITIATOR
    header = struct.pack("!HHIIBBHHH", *ports, seq, ack, 0x50, flags, 65535, 0, 0)
    return MAC + b"\x08\x00" + ip4(6, header + payload, addresses=addresses)


class Conversation:
    """Frames of one connection, each with its time in seconds."""

    def __init__(self, port: int = 7471) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self._next, self._port = [1000, 5000], port
        for side, flags in ((0, 0x02), (1, 0x12), (0, 0x10)):
            self.add(side, flags=flags)

    def add(self, side: int, payload: bytes = b"", *, flags: int = 0x18, time: float | None = None) -> None:
        ack = self._next[1 - side] if flags & 0x10 else 0
        at = int(time * SECOND) if time is not None else (self.frames[-1][0] + 1_000_000 if self.frames else 0)
        self.frames.append((at, tcp(side, self._next[side], ack, flags, payload, self._port)))
        self._next[side] += len(payload) + bool(flags & 3)

    def report(self, *others: tuple[int, bytes]) -> Report:
        return analyze(io.BytesIO(capture([*others, *self.frames], unit=1)))


def said(report: Report) -> set[str]:
    return {one.rule.id for one in (*report.findings, *(f for c in report.connections for f in c.findings))}


# --- octets that only look like one ---


@pytest.mark.parametrize("key", [REQUEST_KEY, REPLY_KEY])
@pytest.mark.parametrize("pd_length", [0, 5, 300])
def test_a_file_that_begins_with_a_key(key: bytes, pd_length: int) -> None:
    one = Conversation(20)
    data = key + b"\x40\x01" + struct.pack("!H", pd_length) + b"The Key of RFC 5044, in a file of text. " * 120
    for at in range(0, len(data), 1400):
        one.add(0, data[at : at + 1400])
        one.add(1, flags=0x10)
    one.add(0, flags=0x11)
    one.add(1, flags=0x11)
    report = one.report()
    assert not report.connections and said(report) == {"startup-in-data"}
    (found,) = report.findings
    assert found.severity == "note" and "10.0.0.1:40000 > 10.0.0.2:20" in found.detail


@pytest.mark.parametrize("behind", [10, 100, 3000])
def test_a_page_over_http_that_holds_one(behind: int) -> None:
    one = Conversation(80)
    one.add(0, b"GET /rfc5044 HTTP/1.1\r\nHost: example\r\n\r\n")
    one.add(1, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    one.add(1, startup_frame("request", c=1).encode() + b"and so on, " * behind)
    one.add(0, flags=0x11)
    report = one.report()
    assert not report.connections and said(report) == {"startup-in-data"}


def test_what_behaves_like_a_connection_is_one() -> None:
    """A Request behind streaming data, and one that nobody answers."""
    one = Conversation()
    one.add(0, b"HELO")
    one.add(1, b"OK")
    one.add(0, startup_frame("request", c=1).encode())
    one.add(1, startup_frame("reply", c=1).encode())
    one.add(0, lay_stream([send(1, b"hello")], markers=False)[0])
    assert [len(one.initiator.fpdus) for one in one.report().connections] == [1]
    alone = Conversation()
    alone.add(0, startup_frame("request", c=1, private_data=b"hello").encode())
    alone.add(1, flags=0x10)
    assert len(alone.report().connections) == 1


def test_a_request_with_a_few_octets_too_many_stays_wrong() -> None:
    one = Conversation()
    one.add(0, startup_frame("request", c=1).encode() + b"text")
    one.add(1, flags=0x11)
    report = one.report()
    assert len(report.connections) == 1 and "startup-in-data" not in said(report)
    assert {found.severity for found in report.connections[0].findings} == {"error"}


# --- vendors ---


@pytest.mark.parametrize(
    ("res", "name"),
    [
        (0x04, "FPDUs of up to 16 KiB, as siw and cxgb4 may announce"),
        (0x08, "siw's experimental GSO flag: TSO, intended; or FPDUs of up to 32 KiB, as siw and cxgb4 may announce"),
        (0x0C, "FPDUs of up to 64 KiB, as siw and cxgb4 may announce"),
        (0x06, "FPDUs of up to 16 KiB, as siw and cxgb4 may announce"),
    ],
)
def test_the_longest_fpdu(res: int, name: str) -> None:
    one = Conversation()
    one.add(0, startup_frame("request", c=1, res=res).encode())
    one.add(1, startup_frame("reply", c=1, res=res).encode())
    (connection,) = one.report().connections
    details = [found.detail for found in connection.findings if found.rule.id == "startup-reserved-bits"]
    assert details == [f"Res of the {what} is {res:#04x} ({name})" for what in ("Request", "Reply")]


@pytest.mark.parametrize("private_data", [b"", b"data of the upper layer"])
def test_the_extension_of_erdma(private_data: bytes) -> None:
    """Eight octets after the header that PD_Length does not count."""
    one = Conversation()
    extension = struct.pack("!II", 0x1234, 1)
    for side, key in enumerate((REQUEST_KEY, REPLY_KEY)):
        one.add(side, key + b"\x40\x81" + struct.pack("!H", len(private_data)) + extension + private_data)
    one.add(0, lay_stream([send(1, b"hello")], markers=False)[0])
    (connection,) = one.report().connections
    assert {found.rule.id for found in connection.findings} == {"startup-revision"}
    assert all("erdma's, with 8 octets" in found.detail for found in connection.findings)
    assert connection.request is not None and connection.request.private_data == private_data
    assert connection.as_dict()["request"]["extension"] == extension.hex()
    assert connection.request.encode()[20:] == extension + private_data
    assert len(connection.initiator.fpdus) == 1


def test_the_key_of_the_first_erdma() -> None:
    one = Conversation()
    for side, key in enumerate((REQUEST_KEY, REPLY_KEY)):
        one.add(side, key[:12] + struct.pack("!I", 77) + b"\x40\x01\0\0")
    (found,) = (one for one in one.report().findings if one.rule.id == "startup-key")
    assert "a Key of 12 octets, as the first drivers of erdma send it" in found.detail


def test_a_late_reply_and_who_gave_up_are_in_the_verdict() -> None:
    one = Conversation()
    one.add(0, startup_frame("request", c=1).encode(), time=1)
    one.add(1, flags=0x10)
    one.add(0, flags=0x11, time=61)
    one.add(1, flags=0x10)
    one.add(1, startup_frame("reply", c=1).encode(), time=71)
    (connection,) = one.report().connections
    assert "the Responder replied 70.000 s after the Request" in connection.verdict
    assert "the Initiator gave up before any Reply" in connection.verdict
    assert connection.as_dict()["lifecycle"]["verdict"] == connection.verdict


# --- the port mapper ---


def mapper(kind: int, port: int, handle: int, *, source: int = 0) -> bytes:
    message = struct.pack("!BBHHHQ16s16s", kind << 4 | 4, 0, 0, port, 40000, handle, bytes(16), RESPONDER)
    udp = struct.pack("!HHHH", 3935, 3935, 8 + len(message), 0) + message
    return MAC + b"\x08\x00" + ip4(17, udp, addresses=RESPONDER + INITIATOR if source else INITIATOR + RESPONDER)


def test_a_mapped_port_is_that_of_its_service() -> None:
    """NFS listens at 20049, and the port mapper has given it 43210."""
    one = Conversation(43210)
    one.add(0, startup_frame("request", c=1).encode())
    one.add(1, startup_frame("reply", c=1).encode())
    asked = [(0, mapper(0, 20049, 7)), (1, mapper(1, 43210, 7, source=1))]
    (connection,) = one.report(*asked).connections
    assert connection.service_port == connection.as_dict()["service_port"] == 20049
    assert "10.0.0.2:43210 (port mapper: 20049)" in repr(connection)
    assert connection.upper_layer.name == "RPC-over-RDMA" and connection.upper_layer.grounds == ["port"]
    # An answer without its question says nothing.
    for others in (asked[1:], [(0, mapper(0, 20049, 7)), (1, mapper(1, 43210, 8))], [(0, mapper(0, 20049, 7)[:-3])]):
        assert one.report(*others).connections[0].service_port is None
