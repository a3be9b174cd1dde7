"""What both hosts of a conversation send: startup frames, then FPDUs of valid RDMAP messages, cut into segments."""

from __future__ import annotations

import random
from bisect import bisect_right
from typing import NamedTuple

from tests.receiver.network import Cut
from tests.receiver.wire import (
    FPDU,
    encode_fpdu,
    rdma_write,
    read_request,
    read_response,
    send,
    startup_frame,
)


class Message(NamedTuple):
    """A message in one DDP Segment, or octets that the capture lacks.

    `kind` is "send", "write", "read" (only of the Initiator), "response" or "gap"; `size` is in octets of payload.
    """

    kind: str
    size: int


class MPA(NamedTuple):
    """What the startup frames say; pairs are of the Initiator, then the Responder."""

    revision: int
    #: M and C as each side sends them.
    m: tuple[bool, bool]
    c: tuple[bool, bool]
    private_data: tuple[int, int]

    @property
    def crc(self) -> bool:
        """True if CRCs are in use: one C is enough (RFC 5044 §7.1.1)."""
        return any(self.c)

    def markers(self, number: int) -> bool:
        """True if this side sends Markers: its peer asked for them."""
        return self.m[1 - number]


class Stream(NamedTuple):
    """The octets of one direction; numbers are relative to the ISS, the first octet has 1."""

    runs: tuple[tuple[int, bytes], ...]
    cuts: tuple[Cut, ...]
    end: int
    #: The number of the first octet of Full Operation.
    begin: int
    fpdus: tuple[FPDU, ...]
    behind_gap: frozenset[int]


class Script:
    """Lays out both streams; the Initiator's first, since the Responder's Read Responses wait for its requests."""

    def __init__(self, mpa: MPA, messages: tuple[list[Message], list[Message]], rng: random.Random) -> None:
        self._mpa, self._rng = mpa, rng
        requests = [
            startup_frame(
                number == 0, markers=mpa.m[number], crc=mpa.c[number], revision=mpa.revision,
                private_data=self.random_octets(mpa.private_data[number]),
            )
            for number in (0, 1)
        ]  # fmt: skip
        self.begins = [1 + len(frame) for frame in requests]
        #: Numbers after each Read Request of the Initiator, in order.
        self._asked: list[int] = []
        #: Offset after the Initiator's first FPDU.
        self._first_end = 0
        self.laid = [self._lay(number, requests[number], messages[number]) for number in (0, 1)]

    def random_octets(self, count: int) -> bytes:
        return self._rng.getrandbits(8 * count).to_bytes(count, "big") if count else b""

    def _lay(
        self, number: int, frame: bytes, messages: list[Message]
    ) -> tuple[list[tuple[int, bytes]], list[FPDU], list[int]]:
        """Return the runs of octets, the FPDUs, and for each of these the peer's octets that it waits for."""
        runs, octets = [], bytearray(frame)
        start, fpdus, gates = 1, list[FPDU](), list[int]()
        begin = self.begins[number]
        # The Responder waits for the Initiator's first FPDU (RFC 5044 §7.1.2), a Read Response for its request.
        gate = self.begins[1] if number == 0 else self.begins[0] + self._first_end
        msn, asked = 1, 0
        for message in messages:
            at = start + len(octets) - begin
            if message.kind == "gap":
                runs.append((start, bytes(octets)))
                start, octets = begin + at + message.size, bytearray()
                msn += 1 + message.size // 100_000
                continue
            if message.kind == "send":
                ulpdu, opcode = send(msn, self.random_octets(message.size)), "Send"
                msn += 1
            elif message.kind == "write":
                ulpdu, opcode = rdma_write(0x1234, at, self.random_octets(message.size)), "RDMA Write"
            elif message.kind == "read":
                asked += 1
                ulpdu = read_request(asked, (0x700 + asked, 0), message.size, (0x1234, at))
                opcode = "RDMA Read Request"
            else:
                gate = max(gate, self._asked[asked])
                asked += 1
                ulpdu, opcode = read_response(0x700 + asked, 0, self.random_octets(message.size)), "RDMA Read Response"
            encoded, fpdu = encode_fpdu(ulpdu, at, opcode, markers=self._mpa.markers(number), crc=self._mpa.crc)
            octets += encoded
            fpdus.append(fpdu)
            gates.append(gate)
            if message.kind == "read":
                self._asked.append(begin + fpdu.end)
        runs.append((start, bytes(octets)))
        if number == 0 and fpdus:
            self._first_end = fpdus[0].end
        return runs, fpdus, gates

    def stream(self, number: int, segmentation: str, size: int) -> Stream:
        """Cut a direction into segments of at most `size` octets.

        "aligned": one FPDU in a segment, or a part of one; "packed": as many FPDUs as fit; "odd": cut anywhere.
        """
        runs, fpdus, gates = self.laid[number]
        begin = self.begins[number]
        ends = [begin + fpdu.end for fpdu in fpdus]
        first_gate = 0 if number == 0 else self.begins[0]
        cuts: list[Cut] = []
        behind_gap = set[int]()
        for index, (start, octets) in enumerate(runs):
            at, end = start, start + len(octets)
            if index:
                behind_gap.add(bisect_right(ends, at))
            while at < end:
                if at < begin:
                    limit, gate = min(begin, at + size), first_gate
                else:
                    limit = self._limit(at, min(end, at + size), ends, segmentation)
                    gate = gates[min(bisect_right(ends, limit - 1), len(gates) - 1)]
                cuts.append(Cut(at, limit, max(gate, cuts[-1].gate if cuts else 0)))
                at = limit
        end = runs[-1][0] + len(runs[-1][1])
        known = frozenset(index for index in behind_gap if index < len(fpdus))
        return Stream(tuple(runs), tuple(cuts), end, begin, tuple(fpdus), known)

    def _limit(self, at: int, limit: int, ends: list[int], segmentation: str) -> int:
        if segmentation == "odd":
            return limit - int(self._rng.random() * (limit - at) * 0.9)
        first, last = bisect_right(ends, at), bisect_right(ends, limit)
        if first == last:
            return limit
        return ends[first] if segmentation == "aligned" else ends[last - 1]
