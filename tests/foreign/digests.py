"""Protocols that resemble MPA most: a length in front, CRC32c behind, padding to four octets."""

from __future__ import annotations

import struct
from collections.abc import Callable

from crc32c import crc32c

from tests.foreign.data import Data, Talk


def _digest(octets: bytes) -> bytes:
    """CRC32c as iSCSI and NVMe/TCP send it, which is how MPA does."""
    return struct.pack("<I", crc32c(octets))


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
