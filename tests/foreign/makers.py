"""What other protocols send over TCP: requests and answers, made as their specifications have it.

A maker is handed a ``Data``, from which everything random comes, and yields messages (who says it, octets) without
end: sides take turns as theirs do. The same seed gives the same messages, except for TLS, whose keys are Python's own.
"""

from __future__ import annotations

import ssl
import struct
from collections.abc import Callable

from scapy_mpa.craft.talk import Side
from tests.foreign.data import Data, Talk
from tests.foreign.digests import iscsi, kafka, nvme
from tests.foreign.tls import tls

#: What is written about MPA, as it stands in a manual: the keys of the startup frames among it.
MANUAL = (
    b"An Initiator begins with a Request: the octets 'MPA ID Req Frame', then flags, Rev and PD_Length.\n"
    b'const char *keys[] = {"MPA ID Req Frame", "MPA ID Rep Frame"}; /* sixteen octets, no terminator */\n'
    b"MPA ID Req Frame\nMPA ID Rep Frame\n\n"
    b"  4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 40 01 00 00   MPA ID Req Frame@...\n"
)


# --- text ---


def http_text(data: Data) -> Talk:
    """RFC 9112: pages in chunks."""
    while True:
        yield "client", b"GET /%08x.html HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n" % data.below(1 << 31)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = []
        for _ in range(data.between(1, 6)):
            chunk = data.octets(data.size(), "text")
            chunks.append(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        yield "server", head + b"".join(chunks) + b"0\r\n\r\n"


def http_binary(data: Data) -> Talk:
    """RFC 9112: downloads and uploads of anything."""
    while True:
        body = data.content(data.size() * 4)
        sent = data.octets(data.size(), "packed") if data.below(3) == 0 else b""
        head = b"POST" if sent else b"GET"
        yield (
            "client",
            head + b" /blob HTTP/1.1\r\nHost: example.org\r\nContent-Length: %d\r\n\r\n" % len(sent) + sent,
        )
        yield "server", b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


def text(data: Data) -> Talk:
    while True:
        yield "client", data.octets(data.between(4, 70), "text") + b"\r\n"
        yield "server", data.octets(data.size(), "text") + b"\r\n"


def manual(data: Data) -> Talk:
    """Documentation of MPA, which a search for startup frames must not take for MPA."""
    while True:
        yield "client", b"more" + b"\n" * data.between(1, 4)
        at = data.below(len(MANUAL))
        page = MANUAL[at:] + MANUAL * data.between(0, 40)
        yield "server", page + data.octets(data.between(1, 900), "text")


# --- octets without form ---


def of_one_kind(kind: str) -> Callable[[Data], Talk]:
    def talk(data: Data) -> Talk:
        while True:
            yield "client", data.octets(data.size() * 3, kind)
            yield "server", data.octets(data.size(), kind)

    return talk


# --- a length in front ---


def dns(data: Data) -> Talk:
    """RFC 1035 §4.2.2: the length in two octets, as MPA's, then the message."""
    while True:
        name = b"".join(bytes([len(part)]) + part for part in data.octets(data.between(4, 60), "text").lower().split())
        question = name[:200] + b"\0\0\1\0\1" if name else b"\0\0\1\0\1"
        ident = data.octets(2)
        messages, answers = [], []
        for _ in range(data.between(1, 5)):
            message = ident + b"\1\0\0\1\0\0\0\0\0\0" + question
            messages.append(struct.pack("!H", len(message)) + message)
            count = data.between(0, 40)
            records = b"".join(b"\xc0\x0c\0\1\0\1\0\0\x0e\x10\0\4" + data.octets(4) for _ in range(count))
            message = ident + struct.pack("!HHHHH", 0x8180, 1, count, 0, 0) + question + records
            answers.append(struct.pack("!H", len(message)) + message)
        yield "client", b"".join(messages)
        yield "server", b"".join(answers)


def rpc(data: Data) -> Talk:
    """RFC 5531 §11 with RFC 1813: NFS READ and WRITE under record marks, data padded to four octets."""

    def record(body: bytes) -> bytes:
        return struct.pack("!I", 0x80000000 | len(body)) + body

    def opaque(octets: bytes) -> bytes:
        return struct.pack("!I", len(octets)) + octets + bytes(-len(octets) % 4)

    xid = data.below(1 << 31)
    while True:
        xid += 1
        write = data.below(2)
        contents = data.content(data.size())
        handle = opaque(data.octets(28))
        call = struct.pack("!IIIIIIIIII", xid, 0, 2, 100003, 3, 7 if write else 6, 0, 0, 0, 0) + handle
        call += struct.pack("!QI", data.below(1 << 31) * 4096, len(contents))
        answer = struct.pack("!IIIIII", xid, 1, 0, 0, 0, 0) + struct.pack("!III", 0, 0, 0)
        if write:
            call += struct.pack("!I", 2) + opaque(contents)
            answer += struct.pack("!II", len(contents), 2) + data.octets(8)
        else:
            answer += struct.pack("!II", len(contents), 1) + opaque(contents)
        yield "client", record(call)
        yield "server", record(answer)


def smb2(data: Data) -> Talk:
    """[MS-SMB2] 2.1: READ and WRITE behind a length of three octets."""

    def header(command: int, number: int, answer: bool) -> bytes:
        head = struct.pack("<4sHHIHHIIQIIQ", b"\xfeSMB", 64, 1, 0, command, 1, int(answer), 0, number, 0, 1, 1)
        return head + bytes(16)

    def framed(message: bytes) -> bytes:
        return struct.pack("!I", len(message)) + message

    number = 0
    while True:
        number += 1
        contents = data.content(data.size() * 2)
        file = data.octets(16)
        place = data.below(1 << 20) * 4096
        if data.below(2):
            ask = struct.pack("<HBBIQ16sIIIHHB", 49, 0x50, 0, len(contents), place, file, 1, 0, 0, 0, 0, 0)
            yield "client", framed(header(8, number, False) + ask)
            yield (
                "server",
                framed(header(8, number, True) + struct.pack("<HBBIII", 17, 80, 0, len(contents), 0, 0) + contents),
            )
        else:
            ask = struct.pack("<HHIQ16sIIHHI", 49, 112, len(contents), place, file, 0, 0, 0, 0, 0)
            yield "client", framed(header(9, number, False) + ask + contents)
            yield "server", framed(header(9, number, True) + struct.pack("<HHIIHH", 17, 0, len(contents), 0, 0, 0))


def ssh(data: Data) -> Talk:
    """RFC 4253 §6: after the banners, packets of a length and what looks random."""
    yield "client", b"SSH-2.0-OpenSSH_9.2\r\n"
    yield "server", b"SSH-2.0-OpenSSH_9.2\r\n"
    sides: tuple[Side, Side] = ("client", "server")
    while True:
        for side in sides:
            packets = []
            for _ in range(data.between(1, 5)):
                length = 16 * data.between(1, 300)
                packets.append(struct.pack("!I", length) + data.octets(length + 16))
            yield side, b"".join(packets)


def records(data: Data) -> Talk:
    """As near to MPA without a CRC as can be: a length of two octets, padding, four zero octets. But no DDP."""
    while True:
        parts = []
        for _ in range(data.between(1, 9)):
            body = data.octets(data.size() % 8000, "packed")
            parts.append(struct.pack("!H", len(body)) + body + bytes(-(2 + len(body)) % 4 + 4))
        yield "client", b"".join(parts)
        yield "server", b"\0\2ok" + bytes(4)


def sectors(data: Data) -> Talk:
    """A disk image: something like a Marker every 512 octets, and behind it a length that leads to the next."""
    while True:
        yield "client", b"next" + bytes(4)
        count = data.between(1, 60)
        pointers = struct.pack("!HH", 0, 0) if data.below(2) else struct.pack("!HH", 0, 508)
        contents = [pointers + struct.pack("!H", 502) + data.octets(502) + bytes(4) for _ in range(count)]
        yield "server", b"".join(contents)


#: Makers by name, and the port of the server.
MAKERS: dict[str, tuple[Callable[[Data], Talk], int]] = {
    "http-text": (http_text, 80),
    "http-binary": (http_binary, 80),
    "tls12": (tls(ssl.TLSVersion.TLSv1_2), 443),
    "tls13": (tls(ssl.TLSVersion.TLSv1_3), 443),
    "nvme": (nvme(False), 8009),
    "nvme-digests": (nvme(True), 4420),
    "iscsi": (iscsi(False), 3260),
    "iscsi-digests": (iscsi(True), 3260),
    "smb2": (smb2, 445),
    "ssh": (ssh, 22),
    "dns": (dns, 53),
    "rpc": (rpc, 2049),
    "kafka": (kafka, 9092),
    "records": (records, 7471),
    "sectors": (sectors, 7471),
    "text": (text, 7471),
    "manual": (manual, 7471),
    "noise": (of_one_kind("noise"), 7471),
    "zeros": (of_one_kind("zeros"), 7471),
    "packed": (of_one_kind("packed"), 21),
}
