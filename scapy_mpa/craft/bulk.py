"""A connection that moves as much as one asks for: RDMA Writes one way, Sends both ways (RFC 5040).

A plan goes in, packets come out one by one, so that memory does not follow the size of the capture. The same
plan and the same numbers give the same octets on every Python.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scapy_mpa.craft.packets import Endpoint
from scapy_mpa.craft.payload import POOL, pool
from scapy_mpa.craft.pcapfile import Packet
from scapy_mpa.craft.segments import Cut, aligned_cuts, below, displace, packed_cuts, random_cuts
from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.craft.talk import between, frames
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.craft.ulpdus import rdma_write, rdma_write_message, send
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.mulpdu import mulpdu
from scapy_mpa.framing.startup import startup_frame

_STAG = 0x1000
_REPLY_PAYLOAD = 16


@dataclass(frozen=True)
class BulkPlan:
    """The shape of a bulk connection.

    It runs in rounds: the Initiator writes ``round_octets`` octets and tells so by a Send, the Responder
    answers by a Send. ``write_octets`` is the size of one RDMA Write message, at most 128 KiB (None: as large
    as may be); ``write_spread`` makes it longer by up to as much. ``segmentation``: one FPDU a segment, whole
    FPDUs packed, or cuts anywhere. ``reordered`` is the fraction of segments seen late, by up to
    ``reorder_distance`` others.
    """

    markers: bool = False
    crc: bool = True
    round_octets: int = 1 << 16
    write_octets: int | None = None
    write_spread: int = 0
    segmentation: Literal["aligned", "packed", "anywhere"] = "aligned"
    reordered: float = 0.0
    reorder_distance: int = 8


class BulkConnection:
    """One connection that follows ``plan``.

    ``number`` makes the endpoints and, with ``seed``, every choice; connections that share ``clock`` may be
    interleaved. ``fpdus`` counts what each half has been given so far; set ``ending`` to let the current round be
    the last.
    """

    def __init__(self, plan: BulkPlan, *, clock: Iterator[int], seed: int = 0, number: int = 0) -> None:
        self.plan = plan
        self.ending = False
        self.fpdus = {"initiator": 0, "responder": 0}
        self._pool = pool(seed)
        self._rng = random.Random(seed << 32 | number)
        self._talk = between(
            Endpoint(
                f"10.{number >> 16 & 0xFF}.{number >> 8 & 0xFF}.1",
                40000 + number % 20000,
                b"\x02\0\0\0\0\x01",
            ),
            Endpoint("10.255.0.2", 7471, b"\x02\0\0\0\0\x02"),
            clock,
            isns=(self._rng.getrandbits(32), self._rng.getrandbits(32)),
        )

    def packets(self, rounds: int | None = None) -> Iterator[Packet]:
        """The whole connection, of ``rounds`` rounds; None: as many as there are until ``ending`` is set."""
        return frames(self._packets(rounds))

    def _packets(self, rounds: int | None) -> Iterator[TcpPacket]:
        plan, talk = self.plan, self._talk
        yield from talk.open()
        yield from talk.send("client", startup_frame("request", m=plan.markers, c=plan.crc).encode())
        yield from talk.send("server", startup_frame("reply", m=plan.markers, c=plan.crc).encode())
        initiator = HalfStream(Dialect(plan.markers, plan.crc))
        responder = HalfStream(Dialect(plan.markers, plan.crc))
        msn = 0
        while not self.ending and (rounds is None or msn < rounds):
            msn += 1
            start = initiator.offset
            octets, laid = initiator.lay(self._round(msn))
            self.fpdus["initiator"] += len(laid)
            yield from talk.transfer("client", octets, self._cuts(laid), start)
            octets, laid = responder.lay([send(msn, self._payload(_REPLY_PAYLOAD))])
            self.fpdus["responder"] += 1
            yield from talk.send("server", octets)
        yield from talk.acknowledge("client")
        yield from talk.close("client")

    def _round(self, msn: int) -> Iterator[bytes]:
        """The ULPDUs of one round."""
        plan, rng = self.plan, self._rng
        limit = mulpdu(self._talk.emss, plan.markers)
        size = plan.write_octets or plan.round_octets
        written = 0
        while written < plan.round_octets:
            length = min(size + (below(rng, plan.write_spread + 1) if plan.write_spread else 0), POOL)
            place = (msn * plan.round_octets + written) & 0xFFFF_FFFF_FFFF
            if length <= limit - TAGGED_HEADER_LENGTH:
                yield rdma_write(_STAG, place, self._payload(length))
            else:
                yield from rdma_write_message(_STAG, place, self._payload(length), limit)
            written += length
        yield send(msn, self._payload(_REPLY_PAYLOAD))

    def _payload(self, length: int) -> bytes:
        start = below(self._rng, POOL - length + 1)
        return self._pool[start : start + length]

    def _cuts(self, laid: list[LaidFPDU]) -> list[Cut]:
        plan, emss = self.plan, self._talk.emss
        if plan.segmentation == "aligned":
            cuts = aligned_cuts(laid, emss)
        elif plan.segmentation == "packed":
            cuts = packed_cuts(laid, emss)
        else:
            cuts = random_cuts(laid[0].offset, laid[-1].end, self._rng, 1, emss)
        if plan.reordered:
            return displace(cuts, self._rng, plan.reordered, plan.reorder_distance)
        return cuts
