"""A peer of MPA, DDP and RDMAP that shares no code with ours: written from the RFCs, with sockets and struct.

It conforms, in several ways in which implementations differ, and commits faults that are named, one at a time.
"""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

REQUEST, REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"
_POLYNOMIAL = 0x82F63B78
_SEGMENT = 1400
_ROOM = 1 << 17
TWO_64 = 1 << 64


def _table() -> list[int]:
    rows = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        rows.append(value)
    return rows


_TABLE = _table()


def crc32c(octets: bytes, start: int = 0xFFFFFFFF) -> int:
    """RFC 3385's CRC32c."""
    value = start
    for octet in octets:
        value = value >> 8 ^ _TABLE[(value ^ octet) & 0xFF]
    return value ^ 0xFFFFFFFF


class Over(Exception):
    """The connection is over."""


class Crash(Exception):
    """The whole peer is gone."""


@dataclass
class Kind:
    """How a conforming peer may be, and what it does wrong.

    ``ulp``: ``quiet`` takes every Send, ``closing`` ends the connection at the first one,
    and at any Private Data, ``echo`` says it back.
    ``least_ird``: its ULP has so many RDMA Reads under way, and rejects a Request with a lower IRD (RFC 6581 §9.1).
    ``pieces``: it writes octet by octet. ``says_why``: its ULP sends a Terminate for errors of MPA.
    ``one_read``: it takes its time to answer an RDMA Read, and has room for no second one meanwhile.
    """

    m: int = 0
    c: int = 1
    ird: int = 8
    enhanced: bool = False
    strict: bool = True
    ulp: str = "quiet"
    pieces: bool = False
    says_why: bool = True
    least_ird: int = 0
    one_read: bool = False
    buffer: tuple[int, int, int] | None = None
    faults: frozenset[str] = field(default_factory=frozenset)


class Peer:
    """One connection of such a peer."""

    def __init__(self, sock: socket.socket, kind: Kind, *, is_responder: bool) -> None:
        self.sock, self.kind, self.is_responder = sock, kind, is_responder
        self.faults = kind.faults
        self.held = bytearray()
        self.in_at = self.out_at = 0
        self.markers_in = self.markers_out = False
        self.crc = True
        self.has_heard = self.has_come_in_pieces = False
        self.next_msn = {0: 1, 1: 1, 2: 1}
        self.parts: dict[tuple[int, int], list[bytes]] = {}
        self.done: dict[tuple[int, int], bool] = {}
        self.own_msn = {0: 1, 1: 1, 2: 1}
        self.buffers: dict[int, tuple[int, bytearray]] = {}
        if kind.buffer is not None:
            stag, to, octets = kind.buffer
            self.buffers[stag] = to, bytearray(octets)
        self.named: tuple[int, int, int] | None = None
        self.waiting: list[tuple[bytes, int]] = []

    def has(self, fault: str) -> bool:
        return fault in self.faults

    # --- octets ---

    def octets(self, count: int) -> bytes:
        while len(self.held) < count:
            more = self.sock.recv(65536)
            if not more:
                raise Over
            self.held += more
        found = bytes(self.held[:count])
        del self.held[:count]
        return found

    def write(self, octets: bytes) -> None:
        if self.kind.pieces:
            for octet in octets:
                self.sock.sendall(bytes((octet,)))
        else:
            self.sock.sendall(octets)

    # --- startup ---

    def frame(self, key: bytes, m: int, c: int, r: int, rev: int, data: bytes, s: int = 0, res: int = 0) -> bytes:
        flags = m << 7 | c << 6 | r << 5 | s << 4 | res
        length = len(data)
        if self.has("own-pd-length-more"):
            length += 4
        return key + bytes((flags, rev)) + struct.pack(">H", length) + data

    def serve(self) -> None:
        with suppress(Over, OSError, TimeoutError):
            if self.is_responder:
                self.respond()
            else:
                self.initiate()
            self.operate()

    def respond(self) -> None:
        first = self.sock.recv(65536)
        self.held += first
        head = self.octets(20)
        # Whatever comes first has to be all of it.
        self.has_come_in_pieces = len(first) < 20 + struct.unpack(">H", head[18:])[0]
        key, flags, rev, length = head[:16], head[16], head[17], struct.unpack(">H", head[18:])[0]
        is_right = key == REQUEST or (self.has("any-key") and key != REPLY) or (self.has("either-key") and key == REPLY)
        limit = 65535 if self.has("any-private-data") else 512
        if self.has("answers-before-private-data") and length:
            self.answer(flags, rev, b"")
            self.octets(length)
            return
        if not is_right or length > limit or (rev > 2 and not self.has("any-rev")):
            if self.has("stays-open"):
                time.sleep(1)
            raise Over
        if rev == 0 or (rev == 2 and not self.kind.enhanced and flags & 0x10):
            raise Over
        if flags & 0x0F and self.has("checks-reserved"):
            raise Over
        if flags & 0x20 and self.has("checks-r"):
            raise Over
        if self.has("whole-request") and self.has_come_in_pieces:
            raise Over
        data = self.octets(length)
        if self.has("at-most-256") and length > 256:
            raise Over
        self.answer(flags, rev, data)

    def answer(self, flags: int, rev: int, data: bytes) -> None:
        kind = self.kind
        s, private = 0, b""
        is_enhanced = kind.enhanced and rev >= 2 and flags & 0x10
        if is_enhanced and len(data) < 4:
            raise Over
        depth = struct.unpack(">H", data[:2])[0] & 0x3FFF if is_enhanced else kind.least_ird
        if depth < kind.least_ird or (self.has("rejects-markers") and flags & 0x80):
            private = self.enhanced_reply(*struct.unpack(">HH", data[:4])) if is_enhanced else b""
            self.write(self.frame(REPLY, kind.m, kind.c, 1, 2 if is_enhanced else 1, private, int(bool(is_enhanced))))
            raise Over
        if kind.ulp == "closing" and data[4 if is_enhanced else 0 :]:
            raise Over
        if is_enhanced:
            first, second = struct.unpack(">HH", data[:4])
            s, private = 1, self.enhanced_reply(first, second)
        if self.has("enhanced-unasked"):
            s, rev, private = 1, 2, struct.pack(">HH", 8, 8)
        if self.has("answers-plainly"):
            s, private = 0, b""
        if self.has("own-private-data-513"):
            private += bytes(513)
        res = flags & 0x0F if self.has("echoes-reserved") else 8 if self.has("sends-reserved") else 0
        key = REQUEST if self.has("replies-request-key") else REPLY
        own_rev = 7 if self.has("rev-7") else (min(rev, 2) or 1)
        own_rev = own_rev if is_enhanced or s else 7 if self.has("rev-7") else 1
        self.write(self.frame(key, kind.m, kind.c, 0, own_rev, private, s, res))
        if self.has("closes-after-reply"):
            raise Over
        self.markers_in, self.markers_out = bool(kind.m), bool(flags & 0x80)
        self.crc = bool(kind.c or flags & 0x40)
        self.apply()
        if self.has("speaks-first"):
            self.send(self.untagged(3, 0, b"me first"))

    def enhanced_reply(self, first: int, second: int) -> bytes:
        a, b, ird = first & 0x8000, first & 0x4000, first & 0x3FFF
        c, d, order = second & 0x8000, second & 0x4000, second & 0x3FFF
        own_ird = 0x3FFF if order == 0x3FFF else max(order, self.kind.ird)
        own_ord = 0x3FFF if ird == 0x3FFF else min(ird, 8)
        if self.has("ord-above-ird"):
            own_ord = min(ird + 1, 0x3FFE)
        if self.has("answers-3fff-by-a-depth") and order == 0x3FFF:
            own_ird = 5
        if self.has("ird-below-ord") and order not in (0, 0x3FFF):
            own_ird = order - 1
        types = (0x4000, 0x8000, 0x4000) if a else (0, 0, 0)
        if not (b or c or d) and a:
            types = (0x4000, 0x8000, 0x4000)
        words = (a | types[0] | own_ird, types[1] | types[2] | own_ord)
        if self.has("drops-a"):
            words = (own_ird, own_ord)
        if self.has("flags-without-a") and not a:
            words = (0x4000 | own_ird, own_ord)
        if self.has("depths-in-host-order"):
            return struct.pack("<HH", *words)
        return struct.pack(">HH", *words)

    def initiate(self) -> None:
        kind = self.kind
        res = 8 if self.has("sends-reserved") else 0
        data = bytes(513) if self.has("own-private-data-513") else b""
        self.write(self.frame(REQUEST, kind.m, kind.c, 0, 7 if self.has("rev-7") else 1, data, 0, res))
        if self.has("speaks-before-reply"):
            self.send(self.untagged(3, 0, bytes(30)))
        head = self.octets(20)
        flags, rev, length = head[16], head[17], struct.unpack(">H", head[18:])[0]
        is_wrong = head[:16] != REPLY and not self.has("any-key")
        if is_wrong or (length > 512 and not self.has("any-private-data")) or rev not in (1, 2):
            raise Over
        self.octets(length)
        if flags & 0x20 and not self.has("ignores-r"):
            raise Over
        self.markers_in, self.markers_out = bool(kind.m), bool(flags & 0x80)
        self.crc = bool(kind.c or flags & 0x40)
        self.apply()
        self.has_heard = True
        self.send(self.untagged(3, 0, bytes(30)))

    def apply(self) -> None:
        if self.has("no-markers-though-asked"):
            self.markers_out = False
        if self.has("markers-unasked"):
            self.markers_out = True

    # --- FPDUs that are sent ---

    def crc_of(self, octets: bytes) -> bytes:
        value = crc32c(octets)
        if self.has("crc-big-endian"):
            return struct.pack(">I", value)
        if self.has("crc-from-zero"):
            return struct.pack("<I", crc32c(octets, 0))
        if self.has("crc-wrong-sometimes") and len(octets) % 3 == 1:
            value ^= 1
        return struct.pack("<I", value)

    def send(self, ulpdu: bytes) -> None:
        length = len(ulpdu) + (-(2 + len(ulpdu)) % 4 if self.has("length-counts-pad") else 0)
        pad = bytes(-(2 + len(ulpdu)) % 4)
        if self.has("pad-not-zero"):
            pad = b"\xaa" * len(pad)
        if self.has("no-pad"):
            pad = b""
        body = struct.pack("<H" if self.has("length-little-endian") else ">H", length) + ulpdu + pad
        octets, unmarked, at, start, count = bytearray(), bytearray(), 0, None, 0
        while at < len(body) or (self.markers_out and self.is_marker_due(len(octets))):
            if self.markers_out and self.is_marker_due(len(octets)):
                octets += self.marker(len(octets), start, count)
                count += 1
                if at == len(body):
                    break
                continue
            start = len(octets) if start is None else start
            octets += body[at : at + 2]
            unmarked += body[at : at + 2]
            at += 2
        octets += self.crc_of(bytes(unmarked if self.has("marker-not-in-crc") else octets))
        self.out_at += len(octets)
        self.write(bytes(octets))

    def is_marker_due(self, within: int) -> bool:
        at, spacing = self.out_at + within, 512
        if self.has("spacing-516"):
            spacing = 516
        if self.has("marker-only-first") and at:
            return False
        return at % spacing == 0 and within % 4 == 0

    def marker(self, within: int, start: int | None, count: int) -> bytes:
        back = 0 if start is None else within - start
        if self.has("fpduptr-always-0"):
            back = 0
        if self.has("fpduptr-4-more") and back:
            back += 4
        if self.has("fpduptr-from-marker") and back and start == 4:
            back += 4
        if self.has("fpduptr-little-endian"):
            return struct.pack(">H", 0) + struct.pack("<H", back)
        if self.has("second-marker-0") and count > 0 and start is not None:
            back = 0
        return struct.pack(">HH", 1 if self.has("marker-reserved") else 0, back)

    def untagged(self, opcode: int, queue: int, payload: bytes, msn: int | None = None, last: bool = True) -> bytes:
        if msn is None:
            msn = self.own_msn[queue]
            self.own_msn[queue] += 1
        if self.has("msn-from-0"):
            msn -= 1
        if self.has("msn-always-1"):
            msn = 1
        first = 0x40 * last | 1
        if self.has("sends-ddp-reserved"):
            first |= 0x04
        if self.has("sends-dv-0"):
            first &= 0xFC
        second = 0x40 | opcode | (0x10 if self.has("sends-rdmap-reserved") else 0)
        if self.has("sends-rv-0"):
            second &= 0x3F
        return struct.pack(">BBIIII", first, second, 0, queue, msn, 0) + payload

    def tagged(self, opcode: int, stag: int, to: int, payload: bytes, last: bool = True) -> bytes:
        if self.has("no-l") and opcode == 2:
            last = False
        first = 0x80 | 0x40 * last | 1
        if self.has("sends-ddp-reserved"):
            first |= 0x04
        if self.has("sends-dv-0"):
            first &= 0xFC
        return struct.pack(">BBIQ", first, 0x40 | opcode, stag, to % TWO_64) + payload

    def terminate(self, layer: int, etype: int, code: int, ulpdu: bytes = b"") -> None:
        """Say why the stream ends, and end it."""
        if self.has("silent-after-error"):
            self.wait()
        if self.has("no-terminate") or (layer == 1 and self.has("no-terminate-of-ddp")):
            raise Over
        if self.has("wrong-terminate"):
            layer, etype, code = 0, 1, 2
        may_quote = (layer < 2 and etype) or self.has("quotes-in-an-error-of-mpa")
        kind, is_quoted = layer << 4 | etype, may_quote and ulpdu
        head = ulpdu[:14] if ulpdu and ulpdu[0] & 0x80 else ulpdu[:18]
        is_read = bool(is_quoted and layer == 0 and etype == 1 and ulpdu[1] & 15 == 1 and len(ulpdu) >= 46)
        flags = (0xC0 if is_quoted else 0) | (0x20 if is_read else 0)
        if self.has("terminate-lsb-first"):
            kind = etype << 4 | layer
            flags = (3 if is_quoted else 0) | (4 if is_read else 0)
        reserved = 0x0100 if self.has("terminate-reserved") else 0
        body = struct.pack(">BBH", kind, code, flags << 8 | reserved)
        if is_quoted:
            length = (len(ulpdu) + (7 if self.has("terminate-wrong-length") else 0)) & 0xFFFF
            if self.has("terminate-quotes-wrong"):
                head = head[:-1] + bytes((head[-1] ^ 0x55,))
            body += struct.pack(">H", length) + head + (ulpdu[18:46] if is_read else b"")
        if self.has("terminate-without-header") and is_quoted:
            body = body[:4]
        queue = 0 if self.has("terminate-on-queue-0") else 2
        self.send(self.untagged(7, queue, body))
        if self.has("terminates-twice"):
            self.send(self.untagged(7, 2, body))
        if self.has("sends-after-terminate"):
            self.send(self.untagged(3, 0, b"one more thing"))
        self.sock.shutdown(socket.SHUT_WR)
        self.sock.settimeout(0.5)
        with suppress(OSError):
            while self.sock.recv(65536):
                pass
        raise Over

    def wait(self) -> None:
        """Pass nothing on, and leave the ending to who sent it."""
        self.sock.settimeout(5)
        while self.sock.recv(65536):
            pass
        raise Over

    def broken(self, code: int, ulpdu: bytes = b"") -> None:
        """An error that MPA finds."""
        if self.has("passes-after-error"):
            return
        if self.has("silent-after-error"):
            self.wait()
        if not self.has_heard and not self.has("terminates-unheard"):
            raise Over
        if not self.kind.says_why:
            raise Over
        self.terminate(2, 0, code, ulpdu)

    # --- FPDUs that are received ---

    def operate(self) -> None:
        while True:
            ulpdu = self.fpdu()
            if ulpdu is None:
                continue
            self.has_heard = True
            self.segment(ulpdu)

    def part(self, count: int, raw: bytearray, found: list[tuple[int, bytes]]) -> bytes:
        """So many octets of an FPDU that are no Marker; what was read, and the Markers with their places, are noted."""
        octets = bytearray()
        while len(octets) < count:
            if self.markers_in and self.in_at % 512 == 0:
                marker = self.octets(4)
                found.append((len(raw), marker))
                raw += marker
                self.in_at += 4
            due = 512 - self.in_at % 512 if self.markers_in else count
            more = self.octets(min(count - len(octets), due))
            octets += more
            raw += more
            self.in_at += len(more)
        return bytes(octets)

    def fpdu(self) -> bytes | None:
        raw, markers = bytearray(), list[tuple[int, bytes]]()
        is_fresh = not self.held
        (length,) = struct.unpack(">H", self.part(2, raw, markers))
        start = len(raw) - 2
        if self.has("one-segment-an-fpdu") and (len(self.held) < length or not is_fresh):
            self.broken(2)
        if self.has("acts-early"):
            head = bytes(self.held[:46])
            if len(head) >= 46 and head[1:2] == b"\x41":
                return self.part(length, raw, markers)
        pad = -(2 + length) % 4
        ulpdu = self.part(length, raw, markers)
        padding = self.part(pad, raw, markers) if pad else b""
        if self.has("pad-on-top"):
            self.part(4, raw, markers)
        if self.markers_in and self.in_at % 512 == 0:
            marker = self.octets(4)
            markers.append((len(raw), marker))
            raw += marker
            self.in_at += 4
        field_ = self.octets(4)
        self.in_at += 4
        checks = (self.crc or self.has("checks-crc-always")) and not self.has("no-crc-check")
        if checks and struct.pack("<I", crc32c(bytes(raw))) != field_:
            if self.has("ddp-before-crc"):
                self.terminate(1, 2, 6)
            self.broken(2, ulpdu)
            return None
        if any(padding) and self.has("checks-pad"):
            self.broken(2)
        for at, marker in markers:
            reserved, back = struct.unpack(">HH", marker)
            if reserved and self.has("checks-marker-reserved"):
                self.broken(3)
            back &= 0xFFFF if self.has("low-bits-count") else 0xFFFC
            if (self.kind.strict or self.has("low-bits-count")) and back != max(at - start, 0):
                self.broken(3)
        return ulpdu

    # --- DDP ---

    def segment(self, ulpdu: bytes) -> None:
        if len(ulpdu) < 2 or len(ulpdu) < (14 if ulpdu[0] & 0x80 else 18):
            return
        if ulpdu[0] & 0x3C and self.has("checks-ddp-reserved"):
            self.terminate(1, 1 if ulpdu[0] & 0x80 else 2, 4 if ulpdu[0] & 0x80 else 6, ulpdu)
        if ulpdu[1] & 0x30 and self.has("checks-rdmap-reserved"):
            self.terminate(0, 2, 5, ulpdu)
        is_tagged = bool(ulpdu[0] & 0x80)
        if ulpdu[0] & 3 != 1 and not self.has("any-dv"):
            self.terminate(1, 1 if is_tagged else 2, 4 if is_tagged else 6, ulpdu)
        if is_tagged:
            self.place(ulpdu)
        else:
            self.queue(ulpdu)

    def rdmap(self, ulpdu: bytes, opcodes: tuple[int, ...]) -> None:
        if ulpdu[1] >> 6 != 1 and not self.has("any-rv"):
            self.terminate(0, 2, 5, ulpdu)
        if ulpdu[1] & 15 not in opcodes and not self.has("any-opcode"):
            self.terminate(0, 2, 6, ulpdu)

    def place(self, ulpdu: bytes) -> None:
        _, _, stag, to = struct.unpack(">BBIQ", ulpdu[:14])
        payload = ulpdu[14:]
        if payload or self.has("checks-stag-of-nothing"):
            if to + len(payload) > TWO_64 and not self.has("no-wrap-check"):
                self.terminate(1, 1, 3, ulpdu)
            if stag not in self.buffers:
                if self.has("any-stag"):
                    return
                self.terminate(1, 1, 0, ulpdu)
            base, memory = self.buffers[stag]
            if not (base <= to and to + len(payload) <= base + len(memory)):
                if self.has("no-bounds"):
                    return
                self.terminate(1, 1, 1, ulpdu)
            memory[to - base : to - base + len(payload)] = payload
        self.rdmap(ulpdu, (0,) if self.kind.strict else (0, 2))
        if ulpdu[1] & 15 == 2 and self.kind.strict:
            self.terminate(0, 2, 6, ulpdu)

    def queue(self, ulpdu: bytes) -> None:
        _, _, rsvd, queue, msn, offset = struct.unpack(">BBIIII", ulpdu[:18])
        payload = ulpdu[18:]
        if queue not in self.next_msn:
            if self.has("any-queue"):
                return
            self.terminate(1, 2, 1, ulpdu)
        self.rdmap(ulpdu, {0: (3, 4, 5, 6), 1: (1,), 2: (7,)}[queue])
        if rsvd and ulpdu[1] & 15 in (3, 5) and self.has("checks-rsvdulp"):
            self.terminate(0, 2, 7, ulpdu)
        due = self.next_msn[queue]
        if (msn == 0 or (msn - due) % (1 << 32) >= 64 or self.done.get((queue, msn))) and not self.has("any-msn"):
            self.terminate(1, 2, 3, ulpdu)
        if queue == 1 and self.kind.ird == 0:
            self.terminate(1, 2, 2, ulpdu)
        if offset + len(payload) > 1 << 32 and self.has("crashes-at-mo-wrap"):
            raise Crash
        if offset + len(payload) > _ROOM and not self.has("any-mo"):
            self.terminate(1, 2, 4, ulpdu)
        self.parts.setdefault((queue, msn), []).append(payload)
        if self.has("any-msn") or self.has("delivers-at-once"):
            self.deliver(queue, b"".join(self.parts.pop((queue, msn))), ulpdu)
            return
        if ulpdu[0] & 0x40:
            self.done[queue, msn] = True
            self.waiting.append((ulpdu, msn))
        while self.done.get((queue, self.next_msn[queue])):
            due = self.next_msn[queue]
            self.next_msn[queue] += 1
            last = next((one for one, number in self.waiting if number == due and one[9] == queue), ulpdu)
            self.deliver(queue, b"".join(self.parts.pop((queue, due))), last)

    # --- RDMAP ---

    def deliver(self, queue: int, payload: bytes, ulpdu: bytes) -> None:
        if queue == 2:
            raise Over
        if queue == 1:
            self.read(payload, ulpdu)
            return
        if ulpdu[1] & 15 in (4, 6) and not self.has("keeps-invalidated"):
            self.buffers.pop(struct.unpack(">I", ulpdu[2:6])[0], None)
        if len(payload) == 16 and payload != bytes(16):
            self.take_named(payload)
        if self.kind.ulp == "closing":
            raise Over
        if self.kind.ulp == "echo":
            for at in range(0, max(len(payload), 1), _SEGMENT):
                piece, is_last = payload[at : at + _SEGMENT], at + _SEGMENT >= len(payload)
                head = self.untagged(3, 0, piece, None if at == 0 else self.own_msn[0] - 1, is_last)
                self.send(head[:14] + struct.pack(">I", at) + head[18:])

    def take_named(self, payload: bytes) -> None:
        to, stag, size = struct.unpack(">QII", payload)
        if self.has("writes-past"):
            self.send(self.tagged(0, stag, to + size, bytes(8)))
        if self.has("reads-past"):
            self.send(self.untagged(1, 1, struct.pack(">IQIIQ", 7, 0, size + 1, stag, to)))

    def read(self, payload: bytes, ulpdu: bytes) -> None:
        if len(payload) != 28:
            if self.has("any-read-request"):
                payload = payload.ljust(28, b"\0")[:28]
            else:
                self.terminate(0, 2, 7, ulpdu)
        sink, sink_to, size, source, source_to = struct.unpack(">IQIIQ", payload)
        if size > 1 << 31 and self.has("crashes-at-half-size"):
            raise Crash
        octets = b""
        if size or self.has("checks-stag-of-nothing"):
            if source_to + size > TWO_64 and not self.has("no-wrap-check"):
                self.terminate(0, 1, 4, ulpdu)
            if source not in self.buffers:
                if not self.has("any-stag"):
                    self.terminate(0, 1, 0, ulpdu)
                octets = bytes(size)
            else:
                base, memory = self.buffers[source]
                if not (base <= source_to and source_to + size <= base + len(memory)):
                    if not self.has("no-bounds"):
                        self.terminate(0, 1, 1, ulpdu)
                    octets = bytes(size)
                else:
                    octets = bytes(memory[source_to - base : source_to - base + size])
        if self.has("never-answers"):
            return
        if self.kind.one_read:
            if not self.held and select.select([self.sock], [], [], 0.05)[0]:
                self.held += self.sock.recv(65536)
            if self.held[3:4] == b"\x41":
                self.terminate(0, 2, 7, ulpdu)
        if self.has("answers-to-elsewhere"):
            sink_to += 4
        if self.has("answers-another-stag"):
            sink ^= 0x100
        if self.has("answers-too-short"):
            octets = octets[:-1]
        if self.has("answers-too-long"):
            octets += b"\0"
        for at in range(0, max(len(octets), 1), _SEGMENT):
            piece = octets[at : at + _SEGMENT]
            self.send(self.tagged(2, sink, sink_to + at, piece, at + _SEGMENT >= len(octets)))


@contextmanager
def foreign_responder(kind: Kind) -> Iterator[int]:
    """A Responder of this kind, which serves one connection at a time; its port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)

    def run() -> None:
        with suppress(Crash):
            serve()
        listener.close()

    def serve() -> None:
        while True:
            try:
                sock = listener.accept()[0]
            except OSError:
                return
            with sock, suppress(OSError):
                sock.settimeout(5)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                Peer(sock, kind, is_responder=True).serve()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


class ForeignInitiator:
    """A target for a run: an Initiator of this kind, a thread for each connection."""

    role: Any = "initiator"

    def __init__(self, acceptor: Any, kind: Kind) -> None:
        self._acceptor, self._kind = acceptor, kind
        self._thread: threading.Thread | None = None

    def connection(self, _case: object = None) -> Any:
        """Have it connect, and take the connection."""
        self._thread = threading.Thread(target=self._connect, daemon=True)
        self._thread.start()
        return self._acceptor.accept(20)

    def _connect(self) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._acceptor.port), 5) as sock:
            sock.settimeout(5)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            Peer(sock, self._kind, is_responder=False).serve()

    def restart(self) -> bool:
        """It cannot be."""
        return False

    def is_back(self, works: Any) -> bool:
        """Ask once."""
        return bool(works())

    def done(self) -> None:
        """A connection is over."""
        if self._thread is not None:
            self._thread.join(20)
            self._thread = None

    def close(self) -> None:
        """The same."""
        self.done()
