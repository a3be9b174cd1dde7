"""What other protocols say over TCP: requests and answers, made as their specifications have it.

A maker is handed a `Data`, from which everything random comes, and yields messages (who says it, octets) without
end: sides take turns as theirs do. The same seed gives the same messages, except for TLS, whose keys are Python's own.
Several of them resemble MPA: a length in front, CRC32c behind, padding to four octets.
"""

from __future__ import annotations

import random
import shutil
import ssl
import struct
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from crc32c import crc32c

from scapy_mpa.craft.segments import below
from scapy_mpa.craft.talk import Side

Message = tuple[Side, bytes]
Talk = Iterator[Message]

_POOL = 1 << 20
_WORDS = b"""the a of and to in is it frame marker stream length request reply private data connection header
    segment octets receiver sender who which where MPA DDP RDMAP iWARP Req Rep ID Frame pointer CRC32c""".split()
#: What is written about MPA, as it stands in a manual: the keys of the startup frames among it.
MANUAL = (
    b"An Initiator begins with a Request: the octets 'MPA ID Req Frame', then flags, Rev and PD_Length.\n"
    b'const char *keys[] = {"MPA ID Req Frame", "MPA ID Rep Frame"}; /* sixteen octets, no terminator */\n'
    b"MPA ID Req Frame\nMPA ID Rep Frame\n\n"
    b"  4d 50 41 20 49 44 20 52 65 71 20 46 72 61 6d 65 40 01 00 00   MPA ID Req Frame@...\n"
)


@lru_cache(maxsize=2)
def _pools(seed: int) -> dict[str, bytes]:
    rng = random.Random(seed)
    noise = rng.getrandbits(8 * _POOL).to_bytes(_POOL, "big")
    text = b" ".join(_WORDS[octet % len(_WORDS)] for octet in noise[: _POOL // 5])
    packed = b"".join(zlib.compress(text[at : at + 50_000], level=1 + at % 9) for at in range(0, len(text), 50_000))
    return {"noise": noise, "text": text, "packed": packed, "zeros": bytes(_POOL // 2)}


class Data:
    """Random numbers and the contents of files, from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._pools = _pools(seed % 2)

    def below(self, limit: int) -> int:
        return below(self.rng, limit)

    def between(self, low: int, high: int) -> int:
        return low + below(self.rng, high - low + 1)

    def octets(self, length: int, kind: str = "noise") -> bytes:
        """So many octets of one kind: noise, text, packed (zlib) or zeros."""
        pool = self._pools[kind]
        made = b""
        while len(made) < length:
            start = self.below(len(pool) - 1000)
            made += pool[start : start + length - len(made)]
        return made

    def content(self, length: int) -> bytes:
        """As files are: of any kind."""
        return self.octets(length, ("noise", "text", "packed", "zeros")[self.below(4)])

    def size(self) -> int:
        """As messages are: mostly small, some large."""
        return self.between(1, 1 << self.between(4, 16))


def _digest(octets: bytes) -> bytes:
    """CRC32c as iSCSI and NVMe/TCP send it, which is how MPA does."""
    return struct.pack("<I", crc32c(octets))


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


# --- a length in front, CRC32c behind ---


def nvme(digests: bool) -> Callable[[Data], Talk]:
    """NVMe/TCP: capsules, data, and digests of headers and data."""

    def pdu(kind: int, flags: int, specific: bytes, contents: bytes = b"") -> bytes:
        length = 8 + len(specific)
        offset = length + 4 * digests
        total = offset + (len(contents) + 4 * digests if contents else 0)
        flags |= 3 * digests if contents else int(digests)
        header = struct.pack("<BBBBI", kind, flags, length, offset if contents else 0, total) + specific
        made = header + (_digest(header) if digests else b"")
        return made + contents + (_digest(contents) if digests and contents else b"")

    def talk(data: Data) -> Talk:
        both = 3 * digests
        yield "client", struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, both, 3) + bytes(112)
        yield "server", struct.pack("<BBBBIHBBI", 1, 0, 128, 0, 128, 0, 0, both, 131072) + bytes(112)
        number = 0
        while True:
            number = number % 0xFFFF + 1
            write, count = data.below(2), data.between(1, 1 << data.between(0, 6))
            contents = data.content(512 * count)
            command = struct.pack("<BBHIQQ", 1 if write else 2, 0x40, number, 1, 0, 0)
            command += struct.pack("<QIB3xBQII", 0, len(contents), 0, 0x5A, data.below(1 << 31), count - 1, 0)[:24]
            command += struct.pack("<QII", data.below(1 << 31), count - 1, 0)
            command = command.ljust(64, b"\0")[:64]
            small = write and len(contents) <= 8192
            yield "client", pdu(4, 0, command, contents if small else b"")
            if write and not small:
                yield "server", pdu(9, 0, struct.pack("<HHII4x", number, number, 0, len(contents)))
                yield "client", pdu(6, 4, struct.pack("<HHII4x", number, number, 0, len(contents)), contents)
            answers = b""
            if not write:
                answers = pdu(7, 4, struct.pack("<HHII4x", number, 0, 0, len(contents)), contents)
            yield "server", answers + pdu(5, 0, struct.pack("<QHHHH", 0, number, 0, number, 0))

    return talk


def iscsi(digests: bool) -> Callable[[Data], Talk]:
    """RFC 7143: reads, writes and pings, digests of header and data. Four zero octets and their digest are an FPDU."""

    def pdu(opcode: int, flags: int, fields: bytes, contents: bytes = b"", digest: bool = digests) -> bytes:
        header = bytes([opcode, flags, 0, 0, 0]) + len(contents).to_bytes(3, "big") + fields.ljust(40, b"\0")
        padded = contents + bytes(-len(contents) % 4)
        if not digest:
            return header + padded
        return header + _digest(header) + padded + (_digest(padded) if padded else b"")

    def talk(data: Data) -> Talk:
        word = b"CRC32C" if digests else b"None"
        keys = b"InitiatorName=iqn.1993-08.org.debian:01:1\0HeaderDigest=%s\0DataDigest=%s\0" % (word, word)
        yield "client", pdu(0x43, 0x87, bytes(8) + b"\0\0\0\1", keys, digest=False)
        yield "server", pdu(0x23, 0x87, bytes(8) + b"\0\0\0\1", keys[42:], digest=False)
        task = 1
        while True:
            task += 1
            tag = struct.pack("!8xI", task)
            kind = data.below(5)
            if kind == 0:
                ping = data.octets(data.between(0, 12), "zeros")
                yield "client", pdu(0x40, 0x80, tag + b"\xff\xff\xff\xff", ping)
                yield "server", pdu(0x20, 0x80, tag + b"\xff\xff\xff\xff", ping)
                continue
            blocks = data.between(1, 1 << data.between(0, 6))
            contents = data.content(512 * blocks)
            cdb = struct.pack("!BBIBHB", 0x28 if kind < 3 else 0x2A, 0, data.below(1 << 31), 0, blocks, 0)
            command = tag + struct.pack("!III", len(contents), task, task) + cdb.ljust(16, b"\0")
            if kind < 3:
                yield "client", pdu(1, 0xC1, command)
                parts = [contents[at : at + 8192] for at in range(0, len(contents), 8192)]
                answers = [
                    pdu(
                        0x25,
                        0x80 if n == len(parts) - 1 else 0,
                        tag + struct.pack("!IIII", 0xFFFFFFFF, 0, task, task),
                        part,
                    )
                    for n, part in enumerate(parts)
                ]
                yield "server", b"".join(answers) + pdu(0x21, 0x80, tag + struct.pack("!III", 0, task, task))
            else:
                yield "client", pdu(1, 0xA1, command)
                yield "server", pdu(0x31, 0x80, tag + struct.pack("!IIII", task, 0, task, task))
                yield "client", pdu(5, 0x80, tag + struct.pack("!I", task), contents)
                yield "server", pdu(0x21, 0x80, tag + struct.pack("!III", 0, task, task))

    return talk


def kafka(data: Data) -> Talk:
    """Record batches: a length in front and CRC32c within."""
    while True:
        batches = []
        for _ in range(data.between(1, 4)):
            body = struct.pack("!HiqqqHii", 0, 0, 0, 0, -1, 0xFFFF, -1, 1) + data.content(data.size())
            batch = struct.pack("!iBI", 0, 2, crc32c(body)) + body
            batches.append(struct.pack("!qi", data.below(1 << 31), len(batch)) + batch)
        produced = b"".join(batches)
        request = struct.pack("!hhi", 0, 7, data.below(1 << 31)) + struct.pack("!i", len(produced)) + produced
        yield "client", struct.pack("!i", len(request)) + request
        yield "server", struct.pack("!ii", 30, data.below(1 << 31)) + data.octets(26)


# --- TLS ---


@lru_cache(maxsize=1)
def _certificate() -> bytes | None:
    """A certificate and its key, if there is openssl to make them."""
    if shutil.which("openssl") is None:
        return None
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=example.org"
    made = subprocess.run([*command.split(), "-keyout", "-"], check=True, capture_output=True)
    return made.stdout


def _contexts(version: ssl.TLSVersion) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Client and server; without a certificate they agree on an anonymous key, which TLS 1.2 has."""
    client, server = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE
    certificate = _certificate()
    if certificate is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "certificate.pem"
            path.write_bytes(certificate)
            server.load_cert_chain(path)
    else:
        version = ssl.TLSVersion.TLSv1_2
    for context in (client, server):
        context.maximum_version = version
        if certificate is None:
            context.set_ciphers("AECDH-AES256-SHA:@SECLEVEL=0")
    return client, server


def tls(version: ssl.TLSVersion) -> Callable[[Data], Talk]:
    """A handshake and records, by Python's own TLS."""

    def talk(data: Data) -> Talk:
        contexts = _contexts(version)
        wires = [ssl.MemoryBIO() for _ in range(4)]  # what each side hears, then says
        client = contexts[0].wrap_bio(wires[0], wires[1], server_hostname="example.org")
        server = contexts[1].wrap_bio(wires[2], wires[3], server_side=True)

        def said(side: Side) -> Message:
            mine, other = (1, 2) if side == "client" else (3, 0)
            octets = wires[mine].read()
            wires[other].write(octets)
            return side, octets

        shaking = {"client": client, "server": server}
        sides: tuple[Side, Side] = ("client", "server")
        while shaking:
            for side in sides:
                if side in shaking:
                    try:
                        shaking[side].do_handshake()
                        del shaking[side]
                    except ssl.SSLWantReadError:
                        pass
                if wires[1 if side == "client" else 3].pending:
                    yield said(side)
        while True:
            client.write(data.content(data.between(20, 900)))
            yield said("client")
            server.read(1 << 20)
            server.write(data.content(data.size() * 2))
            yield said("server")
            while wires[0].pending:
                client.read(1 << 20)

    return talk


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
