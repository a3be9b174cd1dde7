"""Captures that begin in the middle, of connections that are made here: every kind of half and of segmentation.

Each seed is a connection whose FPDUs the maker knows, seen by a tap that sees some of it. The oracle is
`midstream.py`, as for real captures.
"""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from scapy_mpa.craft.packets import Endpoint
from scapy_mpa.craft.pcapfile import PcapWriter
from scapy_mpa.craft.segments import Cut, aligned_cuts, below, displace, packed_cuts, random_cuts
from scapy_mpa.craft.stream import HalfStream, LaidFPDU
from scapy_mpa.craft.talk import Side, between, frames
from scapy_mpa.craft.tcppacket import TcpPacket
from scapy_mpa.craft.ulpdus import rdma_write, send
from scapy_mpa.framing.dialect import Dialect
from scapy_mpa.framing.startup import startup_frame
from tests.receive.midstream import Row, Whole
from tests.receive.reference import OPCODES
from tests.receive.test_cuts import judge

CLIENT = Endpoint("10.0.0.1", 40000, b"\x02\0\0\0\0\x01")
SERVER = Endpoint("10.0.0.2", 7471, b"\x02\0\0\0\0\x02")
ENDS = (f"{CLIENT.address}:", f"{SERVER.address}:")
SIDES: tuple[tuple[Side, str], ...] = (("client", "initiator"), ("server", "responder"))


class Plan(NamedTuple):
    """A connection. `markers` by who sends them; `draft`: FPDUPTR counts as the drafts have it."""

    markers: dict[str, bool]
    crc: bool
    draft: bool
    smallest: int
    largest: int
    segmentation: str
    late: float
    fill: bytes


def planned(rng: random.Random, markers: int, crc: bool) -> Plan:
    """Anything with Markers both ways (2), one way (1) or none (0)."""
    one = rng.random() < 0.5
    smallest, largest = ((14, 60), (14, 400), (200, 1400), (1, 5000), (900, 20_000))[below(rng, 5)]
    return Plan(
        {"client": markers == 2 or (markers == 1 and one), "server": markers == 2 or (markers == 1 and not one)},
        crc,
        rng.random() < 0.2,
        smallest,
        largest,
        ("aligned", "packed", "anywhere")[below(rng, 3)],
        (0.0, 0.1)[below(rng, 2)],
        (b"", bytes(4), b"text ")[below(rng, 3)],
    )


def ulpdu(plan: Plan, rng: random.Random, number: int, msn: Iterator[int]) -> bytes:
    length = plan.smallest + below(rng, plan.largest - plan.smallest + 1)
    payload = (
        plan.fill * (length // len(plan.fill) + 1) if plan.fill else rng.getrandbits(8 * length).to_bytes(length, "big")
    )
    if length >= 18 and rng.random() < 0.5:
        return send(next(msn), payload[: length - 18])
    return rdma_write(7, number, payload[: max(0, length - 14)])


def cuts_of(plan: Plan, rng: random.Random, laid: list[LaidFPDU], emss: int) -> list[Cut]:
    if plan.segmentation == "aligned":
        cuts = aligned_cuts(laid, emss)
    elif plan.segmentation == "packed":
        cuts = packed_cuts(laid, emss)
    else:
        cuts = random_cuts(laid[0].offset, laid[-1].end, rng, 1, emss)
    return displace(cuts, rng, plan.late, 6) if plan.late else cuts


def made(plan: Plan, rng: random.Random) -> tuple[Whole, list[list[Row]]]:
    """The whole capture of a connection and its truth, as far as a part of the capture does not change it."""
    isns = rng.getrandbits(32), rng.getrandbits(32)
    talk = between(CLIENT, SERVER, itertools.count(10**18, 10_000), isns=isns, timestamps=False)
    streams: dict[str, HalfStream] = {}
    origins: dict[str, int] = {}
    rows: dict[str, list[Row]] = {"client": [], "server": []}

    def packets() -> Iterator[TcpPacket]:
        yield from talk.open()
        for (side, _), isn, kind in zip(SIDES, isns, ("request", "reply"), strict=True):
            # M says what its sender wants to receive.
            other = "server" if side == "client" else "client"
            frame = startup_frame(kind, m=plan.markers[other], c=plan.crc).encode()  # type: ignore[arg-type]
            origins[side] = isn + 1 + len(frame)
            streams[side] = HalfStream(Dialect(plan.markers[side], plan.crc, "first-octet" if plan.draft else "header"))
            yield from talk.send(side, frame)
        number, msns = 0, {side: itertools.count(1) for side, _ in SIDES}
        for _ in range(8):
            for side, direction in SIDES:
                ulpdus = []
                for _ in range(1 + below(rng, 12)):
                    number += 1
                    ulpdus.append(ulpdu(plan, rng, number, msns[side]))
                start = streams[side].offset
                octets, laid = streams[side].lay(ulpdus)
                for body, fpdu in zip(ulpdus, laid, strict=True):
                    rows[side].append(row(plan, side, direction, origins[side], fpdu, body))
                yield from talk.transfer(side, octets, cuts_of(plan, rng, laid, talk.emss), start)
        yield from talk.close("client")

    file = io.BytesIO()
    PcapWriter(file).write(frames(packets()))
    return Whole(file.getvalue()), [rows["client"], rows["server"]]


def row(plan: Plan, side: str, direction: str, origin: int, fpdu: LaidFPDU, body: bytes) -> Row:
    ends = [f"{end.address}:{end.port}" for end in (CLIENT, SERVER)]
    sender, receiver = ends if side == "client" else ends[::-1]
    return {
        "connection": 0,
        "direction": direction,
        "sender": sender,
        "receiver": receiver,
        "seq": (origin + fpdu.offset) % 2**32,
        "header_seq": (origin + fpdu.header_offset) % 2**32,
        "ulpdu_length": fpdu.ulpdu_length,
        "wire_length": fpdu.wire_length,
        "markers": fpdu.markers,
        "crc": "good" if plan.crc else "unchecked",
        "opcode": OPCODES[body[1] & 15],
    }


def check(seed: int, markers: int, crc: bool, *, cut: bool, missed: float) -> None:
    """One connection, cut anywhere behind its startup frames, of which the capture misses some packets."""
    rng = random.Random(seed << 8 | markers << 4 | crc << 3 | cut << 2 | (missed > 0))
    plan = planned(rng, markers, crc)
    capture, truths = made(plan, rng)
    (frames,) = capture.startup().values()
    at = frames[-1] + below(rng, (len(capture.records) - frames[-1]) * 3 // 4) if cut else 0
    lost = {n for n in range(frames[-1] + 1, len(capture.records) + 1) if rng.random() < missed}
    judge(capture.without(lambda frame: frame <= at or frame in lost), truths)


@pytest.mark.parametrize("missed", [0.0, 0.04])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("markers", [1, 2])
def test_with_markers(markers: int, seed: int, missed: float) -> None:
    check(seed, markers, True, cut=True, missed=missed)


@pytest.mark.parametrize("missed", [0.0, 0.04])
@pytest.mark.parametrize("seed", range(20))
def test_with_crcs_only(seed: int, missed: float) -> None:
    check(seed, 0, True, cut=True, missed=missed)


@pytest.mark.parametrize("missed", [0.0, 0.04])
@pytest.mark.parametrize("seed", range(20))
def test_with_neither(seed: int, missed: float) -> None:
    check(seed, 0, False, cut=True, missed=missed)


@pytest.mark.parametrize("missed", [0.0, 0.04])
@pytest.mark.parametrize("seed", range(20))
def test_with_markers_and_no_crc(seed: int, missed: float) -> None:
    check(seed, 2, False, cut=True, missed=missed)


@pytest.mark.parametrize(
    ("seed", "markers", "crc", "missed"),
    [
        # FPDUs of up to 20000 octets, of which gaps leave none whole for long: one half, then the other.
        (426, 2, True, 0.05),
        # A single Marker between two FPDUs and no CRC: without Markers there would be a gap of four octets.
        (148, 2, False, 0.0),
        (208, 2, False, 0.05),
    ],
)
def test_what_once_went_wrong(seed: int, markers: int, crc: bool, missed: float) -> None:
    check(seed, markers, crc, cut=True, missed=missed)


@pytest.mark.parametrize("frames", [1, 2, 3, 5, 9, 20])
@pytest.mark.parametrize("seed", range(20))
def test_a_few_frames_of_one_half(seed: int, frames: int) -> None:
    """Of which few hold a whole FPDU: one that holds a Marker is found, though the other half is not captured."""
    rng = random.Random(seed << 8 | frames)
    capture, truths = made(planned(rng, 2, True), rng)
    (startup,) = capture.startup().values()
    sent = [[p.frame for p in capture.packets if p.frame > startup[-1] and p.flow[0].startswith(end)] for end in ENDS]
    for half in sent:
        at = below(rng, len(half))
        missed = (0.0, 0.2)[below(rng, 2)]
        kept = {frame for frame in half[at : at + frames] if rng.random() >= missed}
        judge(capture.without(lambda frame: frame not in kept), truths)  # noqa: B023


@pytest.mark.parametrize("crc", [True, False])
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("markers", [0, 1, 2])
def test_from_the_beginning_with_gaps(markers: int, seed: int, crc: bool) -> None:
    check(seed, markers, crc, cut=False, missed=0.03)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("markers", [0, 1, 2])
def test_nothing_is_missing(markers: int, seed: int) -> None:
    """That the oracle is right can be seen here: the receiver is known to be."""
    check(seed, markers, bool(seed % 2), cut=False, missed=0.0)
