"""``MPASession``: captures, what Scapy's own session gets wrong, bounds, and live traffic on the loopback interface."""

# mypy: disable-error-code="arg-type, attr-defined, index, operator, union-attr, unused-ignore"

from __future__ import annotations

import gc
import itertools
import os
import random
import socket
import sys
import time
import tracemalloc
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from scapy.config import conf
from scapy.layers.inet import ICMP, IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, fragment6
from scapy.layers.l2 import ARP, Ether
from scapy.packet import NoPayload, Packet, Raw
from scapy.sendrecv import AsyncSniffer, sniff
from scapy.utils import PcapReader, rdpcap, wrpcap

from scapy_mpa import analyze
from scapy_mpa.craft.bulk import BulkConnection, BulkPlan
from scapy_mpa.framing.startup import startup_frame
from scapy_mpa.layers import FPDU, DDPUntagged, MPAConnection, MPAReply, MPARequest, MPASession, RDMAPSend
from scapy_mpa.layers.fragments import PacketFragments
from tests.conftest import PCAPS, captures, truth
from tests.laying import lay_stream

SECONDS = 20
WITH_TRUTH = captures(with_truth=True)
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 7471)


def ids(path: Path) -> str:
    return path.stem


@lru_cache(maxsize=2)
def frames_of(path: Path) -> list[Packet]:
    return list(rdpcap(str(path)))


def half_of(packet: Packet) -> tuple[Any, ...]:
    ip = packet[TCP].underlayer
    return ip.src, packet[TCP].sport, ip.dst, packet[TCP].dport


def lower(packet: Packet) -> bytes:
    """Everything below TCP's payload, built, but for what has to fit that payload: seq, flags, lengths, checksums."""
    packet = packet.copy()
    tcp = packet[TCP]
    tcp.remove_payload()
    tcp.seq, tcp.chksum, tcp.flags, layer = 0, 0, "A", tcp.underlayer
    while layer is not None:
        for name in ("len", "plen", "chksum"):
            if name in layer.fields:
                setattr(layer, name, 0)
        layer = layer.underlayer
    return bytes(packet)


class Streams:
    """The octets of a capture by sequence number, out of what Scapy's reader gives."""

    def __init__(self, packets: Iterable[Packet]) -> None:
        self.frames = list(packets)

    def octets(self, record: dict[str, Any]) -> bytes:
        """The octets of an FPDU, each out of the first of its frames that brought it."""
        length = record["wire_length"]
        octets, there = bytearray(length), bytearray(length)
        for number in reversed(record["frames"]):
            tcp = self.frames[number - 1][TCP]
            payload = bytes(tcp.original)[tcp.dataofs * 4 :]
            start = (tcp.seq - record["seq"] + (1 << 31)) % (1 << 32) - (1 << 31)
            first, last = max(start, 0), min(start + len(payload), length)
            octets[first:last] = payload[first - start : last - start]
            there[first:last] = b"\1" * (last - first)
        assert all(there) and len(octets) == length
        return bytes(octets)


@pytest.mark.parametrize("path", WITH_TRUTH, ids=ids)
def test_placed_order_of_a_capture(path: Path) -> None:
    frames = frames_of(path)
    streams, wanted = Streams(frames), sorted(truth(path), key=lambda record: record["placed_frame"] or 0)
    got = sniff(offline=str(path), session=MPASession)
    fpdus = [packet for packet in got if FPDU in packet]
    assert len(fpdus) == len(wanted)
    assert [bytes(packet[FPDU]) for packet in sorted(fpdus, key=lambda packet: bytes(packet[FPDU]))] == sorted(
        streams.octets(record) for record in wanted
    )
    # Octets captured beyond the window, as far as the ACKs that came before show it, wait until they are acknowledged.
    fpdus.sort(key=lambda packet: packet.frame)
    # FPDUs of one frame come in the order of their stream; which half is first where a Reply lets go of both is open.
    key = lambda pair: (pair[0], pair[1])  # noqa: E731
    expected = [(record["placed_frame"], streams.octets(record)) for record in wanted]
    for (frame, octets), packet in zip(sorted(expected, key=key), _by_frame(fpdus, expected), strict=True):
        placing = frames[frame - 1]
        assert bytes(packet[FPDU]) == octets
        assert packet.time == placing.time
        assert lower(packet) == lower(placing)
        assert packet[FPDU].crc_good in (True, None)
    startup = [packet for packet in got if FPDU not in packet]
    assert all(MPARequest in packet or MPAReply in packet for packet in startup)
    carrying = [packet for packet in frames if MPARequest in packet or MPAReply in packet]
    assert [bytes(packet[TCP].payload) for packet in startup] == [
        bytes(packet[TCP].payload)[: len(bytes(one[TCP].payload))]
        for packet, one in zip(carrying, startup, strict=True)
    ]


def _by_frame(packets: list[Packet], expected: list[tuple[int, bytes]]) -> list[Packet]:
    """The packets sorted as ``expected`` is by (frame, octets), once their order is known to be that of the frames."""
    counts: dict[int, int] = defaultdict(int)
    for frame, _ in expected:
        counts[frame] += 1
    found, at = [], 0
    for frame in sorted(counts):
        found += sorted(packets[at : at + counts[frame]], key=lambda packet: bytes(packet[FPDU]))
        at += counts[frame]
    return found


@pytest.mark.parametrize("path", WITH_TRUTH, ids=ids)
def test_delivered_order_of_a_capture(path: Path) -> None:
    streams = Streams(frames_of(path))
    halves: dict[Any, list[bytes]] = defaultdict(list)
    for record in truth(path):
        if record["delivered_frame"] is not None:
            halves[record["connection"], record["direction"]].append(streams.octets(record))
    got: dict[Any, list[bytes]] = defaultdict(list)
    session = MPASession(order="delivered")
    for packet in sniff(offline=str(path), session=session):
        if FPDU in packet:
            got[_sender(packet, path)].append(bytes(packet[FPDU]))
    assert sorted(got.values()) == sorted(halves.values())
    assert not any(session._undelivered.values())


def _sender(packet: Packet, path: Path) -> tuple[Any, ...]:
    """Whose stream a packet is of: as the Reply may place the other half's, its octets' frame would not do."""
    return half_of(packet)


# --- connections made here ---


class Wire:
    """Frames of a TCP connection between two endpoints, each built, then read again as from a wire."""

    def __init__(
        self, client: tuple[str, int] = CLIENT, server: tuple[str, int] = SERVER, isn: tuple[int, int] = (1000, 5000)
    ) -> None:
        self.ends = {"client": (client, server), "server": (server, client)}
        self.seq = {"client": isn[0], "server": isn[1]}

    def segment(self, side: str, payload: bytes = b"", flags: str = "PA", at: int | None = None) -> Packet:
        """The next segment of a side, or one at so many octets behind its present place."""
        (source, sport), (destination, dport) = self.ends[side]
        ip = IPv6 if ":" in source else IP
        seq = self.seq[side] if at is None else self.seq[side] + at
        ack = self.seq["server" if side == "client" else "client"]
        packet = ETHER / ip(src=source, dst=destination)
        tcp = TCP(sport=sport, dport=dport, flags=flags, seq=seq % 2**32, ack=ack % 2**32)
        packet = Ether(bytes(packet / tcp / payload))
        if at is None:
            self.seq[side] += len(payload) + ("S" in flags)
        return packet

    def startup(self, m: int = 1, c: int = 1) -> list[Packet]:
        return [
            self.segment("client", flags="S"),
            self.segment("server", flags="SA"),
            self.segment("client", startup_frame("request", m=bool(m), c=bool(c)).encode()),
            self.segment("server", startup_frame("reply", m=bool(m), c=bool(c)).encode()),
        ]

    def cut(self, side: str, octets: bytes, size: int) -> list[Packet]:
        return [self.segment(side, octets[at : at + size]) for at in range(0, len(octets), size)]


def send(msn: int, size: int) -> bytes:
    return bytes(DDPUntagged(msn=msn) / RDMAPSend() / Raw(bytes([msn % 256]) * size))


def stamped(packets: Iterable[Packet]) -> list[Packet]:
    packets = list(packets)
    for number, packet in enumerate(packets):
        packet.time = 1_700_000_000 + number / 1000
    return packets


def through(packets: Iterable[Packet], **options: Any) -> list[Packet]:
    session = MPASession(**options)
    found = [one for packet in stamped(packets) for one in session.take(packet)]
    return found + list(session.finish())


def msns(packets: Iterable[Packet]) -> list[int]:
    return [packet[DDPUntagged].msn for packet in packets if DDPUntagged in packet]


def connection(wire: Wire, sizes: Iterable[int] = (100, 900, 20, 3000), segment: int = 700) -> list[Packet]:
    stream, _ = lay_stream([send(msn, size) for msn, size in enumerate(sizes, 1)], markers=True)
    return [*wire.startup(), *wire.cut("client", stream, segment)]


# --- where a packet comes from ---


@pytest.mark.parametrize("order", ["placed", "delivered"])
@pytest.mark.parametrize("path", WITH_TRUTH, ids=ids)
def test_packets_know_what_the_analysis_knows(path: Path, order: Any) -> None:
    """``frame``, ``located_by`` and ``record`` are those of ``scapy-mpa fpdus``, whatever layer is asked."""
    wanted = {(one["connection"], one["direction"], one["seq"]): one for one in truth(path)}
    report = analyze(path, fpdus=False)
    startups = [frame for one in report.connections for frame in (one.request_frame, one.reply_frame)]
    fpdus = 0
    for packet in sniff(offline=str(path), session=MPASession(order=order)):
        if FPDU not in packet:
            assert packet.frame in startups and packet.located_by is packet.record is None
            continue
        fpdus += 1
        record = packet.record
        one = wanted[record.connection, record.direction, record.seq]
        assert packet.frame == packet[FPDU].frame == one["placed_frame"] == record.placed_frame
        assert packet.located_by == packet[FPDU].located_by == record.located_by
        assert (record.ulpdu_length, record.crc, [*record.frames]) == (
            one["ulpdu_length"],
            one["crc"],
            one["frames"],
        )
        assert packet.copy().record == record
    assert fpdus == len(wanted)


def test_a_packet_that_no_session_found_has_no_frame() -> None:
    with pytest.raises(AttributeError):
        _ = FPDU().frame


# --- written, and read again ---


#: A session gives what a conforming receiver makes of senders that deviate, and that is not what an analysis finds.
CONFORMING = [path for path in captures() if not path.stem.startswith("faulty-")]


@pytest.mark.parametrize("order", ["placed", "delivered"])
@pytest.mark.parametrize("path", CONFORMING, ids=ids)
def test_what_is_written_has_the_same_fpdus(path: Path, order: Any, tmp_path: Path) -> None:
    """``wrpcap`` of what a session gives, read again: every FPDU, octet for octet, and the startup frames."""
    packets = sniff(offline=str(path), session=MPASession(order=order))
    out = tmp_path / "out.pcap"
    wrpcap(str(out), packets)
    # What the capture cut is written as cut, with its length on the wire.
    given = Counter(
        (packet[FPDU].record.direction, packet[FPDU].record.seq, bytes(packet[FPDU]))
        for packet in packets
        if FPDU in packet
    )
    report = analyze(out)
    found = Counter(
        (record.direction, record.seq, record.octets())
        for connection in report.connections
        for half in (connection.initiator, connection.responder)
        for record in half.fpdus
    )
    assert found == given
    before = [(one.request, one.reply) for one in analyze(path, fpdus=False).connections]
    assert [(one.request, one.reply) for one in report.connections] == before
    assert not any(one.rule.id == "tcp-checksum" for one in report.all_findings())


def test_a_fin_stays_behind_the_last_of_a_segment() -> None:
    made = MPAConnection(segmentation="packed", close="none").send("initiator", b"one").send("initiator", b"two")
    packets = stamped(made.packets())
    (carrying,) = (packet for packet in packets if FPDU in packet)
    carrying[TCP].flags, carrying[TCP].chksum = "FPA", None
    found = [packet for packet in through(packets) if FPDU in packet]
    assert [str(packet[TCP].flags) for packet in found] == ["PA", "FPA"]
    assert found[1][TCP].seq == found[0][TCP].seq + len(bytes(found[0][FPDU]))


def test_the_lower_layers_are_those_of_the_own_direction() -> None:
    """The Reply lets go of what the Initiator said too early: that comes over a frame of the Initiator's."""
    wire = Wire()
    packets = connection(wire)
    found = through([*packets[:3], *packets[4:], packets[3]])
    assert {half_of(packet) for packet in found if FPDU in packet} == {half_of(packets[2])}
    assert half_of(found[1]) == half_of(packets[3])


def test_an_fpdu_that_ip_cannot_count(tmp_path: Path) -> None:
    """The longest ULPDU there may be: lengths of zero, as hosts hand over what an interface is to cut."""
    made = MPAConnection().ulpdu("initiator", bytes(64768))
    (found,) = (packet for packet in through(stamped(made.packets())) if FPDU in packet)
    assert (found[IP].len, found[TCP].chksum) == (None, None)
    made = MPAConnection(m=(0, 1), c=(0, 1)).ulpdu("initiator", bytes(64768))
    packets = through(stamped(made.packets()))
    (found,) = (packet for packet in packets if FPDU in packet)
    wrpcap(str(tmp_path / "long.pcap"), packets)
    assert len(bytes(found[FPDU])) > 65000 and found[IP].len == 0
    (connection,) = analyze(tmp_path / "long.pcap").connections
    assert [one.ulpdu_length for one in connection.initiator.fpdus] == [64768]


def test_prn_store_and_count(tmp_path: Path) -> None:
    name = str(PCAPS / "siw-rping.pcap")
    seen: list[Packet] = []
    assert not sniff(offline=name, session=MPASession, store=False, prn=seen.append)
    assert len(seen) == len(truth(PCAPS / "siw-rping.pcap")) + 2
    assert len(sniff(offline=name, session=MPASession, count=5)) == 5
    only = sniff(offline=name, session=MPASession, lfilter=lambda packet: FPDU in packet)
    assert len(only) == len(seen) - 2
    assert [bytes(packet) for packet in sniff(offline=name, session=MPASession())] == [bytes(one) for one in seen]
    assert all(packet.sniffed_on == name for packet in seen)
    # What comes out is as good as any packet.
    assert "FPDU" in seen[2].summary() and seen[2].copy() == seen[2] and "###[ FPDU ]###" in seen[2].show(dump=True)
    wrpcap(str(tmp_path / "out.pcap"), seen)
    assert len(rdpcap(str(tmp_path / "out.pcap"))) == len(seen)


def test_async_sniffer_and_lists_of_packets() -> None:
    path = PCAPS / "markers-reordered.pcap"
    wanted = [bytes(packet) for packet in sniff(offline=str(path), session=MPASession)]
    sniffer = AsyncSniffer(offline=str(path), session=MPASession)
    sniffer.start()
    sniffer.join(timeout=SECONDS)
    assert [bytes(packet) for packet in sniffer.results] == wanted
    packets = rdpcap(str(path))
    assert [bytes(packet) for packet in sniff(offline=packets, session=MPASession)] == wanted
    with path.open("rb") as file:
        assert [bytes(packet) for packet in sniff(offline=file, session=MPASession)] == wanted
    session = MPASession()
    assert [bytes(one) for packet in packets for one in session.take(packet)] == wanted
    session = MPASession()
    assert [bytes(one) for packet in packets for one in session.take(packet.copy())] == wanted


def test_packets_built_and_never_dissected() -> None:
    def built(wire: Wire) -> Iterator[Packet]:
        for packet in connection(wire):
            tcp = packet[TCP]
            ip = IP(src=packet[IP].src, dst=packet[IP].dst)
            yield ip / TCP(sport=tcp.sport, dport=tcp.dport, flags=tcp.flags, seq=tcp.seq) / bytes(tcp.payload)

    assert msns(through(built(Wire()))) == [1, 2, 3, 4]
    fpdu = FPDU(marker_offset=0) / DDPUntagged(msn=9) / RDMAPSend() / b"x"
    ip = IP(src=SERVER[0], dst=CLIENT[0]) / TCP(sport=SERVER[1], dport=CLIENT[1], seq=5021, flags="PA")
    assert msns(through([*connection(Wire()), ip / fpdu])) == [1, 2, 3, 4, 9]
    found = sniff(offline=[*connection(Wire()), ETHER / ip / fpdu], session=MPASession)
    assert bytes(found[-1][FPDU]) == bytes(fpdu)


def test_a_changed_packet_counts_as_it_is_now() -> None:
    packets = connection(Wire())
    for packet in packets:
        packet[IP].src = packet[IP].src.replace("10.0.0", "10.0.1")
        packet[IP].dst = packet[IP].dst.replace("10.0.0", "10.0.1")
        packet[TCP].dport ^= 1
        packet[TCP].sport ^= 1
    found = through(packets)
    assert msns(found) == [1, 2, 3, 4]
    assert {half_of(packet)[:1] for packet in found} == {("10.0.1.1",), ("10.0.1.2",)}


def test_what_passes_through() -> None:
    wire = Wire()
    mpa = connection(wire)
    other = Wire(("10.0.0.3", 1), ("10.0.0.4", 80))
    foreign = [other.segment("client", flags="S"), other.segment("client", b"GET / HTTP/1.1\r\n\r\n"), ETHER / ARP()]
    foreign += [ETHER / IP() / UDP() / b"datagram", Raw(b"anything")]
    found = through([*mpa[:5], *foreign, *mpa[5:], wire.segment("client", flags="A")], passthrough=True)
    assert msns(found) == [1, 2, 3, 4]
    assert [packet for packet in found if any(packet is one for one in foreign)] == foreign
    handshake_and_ack = [packet for packet in found if TCP in packet and isinstance(packet[TCP].payload, NoPayload)]
    assert len(handshake_and_ack) == 2 + 1 + 1
    assert len(found) == 2 + 4 + len(foreign) + 3
    assert all(packet[TCP].payload.name in ("FPDU", "MPA Request", "MPA Reply") for packet in through(mpa))

    name = str(PCAPS / "siw-rping.pcap")
    everything = rdpcap(name)
    passed = [one for one in sniff(offline=name, session=MPASession(passthrough=True)) if not one.haslayer(FPDU)]
    empty = [one for one in everything if TCP not in one or isinstance(one[TCP].payload, NoPayload)]
    kept = [one for one in passed if not (one.haslayer(MPARequest) or one.haslayer(MPAReply))]
    assert [bytes(one) for one in kept if TCP not in one] == [bytes(one) for one in empty if TCP not in one]
    assert len(kept) <= len(everything) and len(kept) >= len([one for one in empty if TCP not in one])


def test_a_bad_crc() -> None:
    wire = Wire()
    stream, laid = lay_stream([send(msn, 100) for msn in (1, 2, 3)], markers=False)
    octets = bytearray(stream)
    octets[laid[1].offset + 40] ^= 1
    packets = [*wire.startup(m=0), *wire.cut("client", bytes(octets), laid[0].wire_length)]
    placed = [packet for packet in through(packets) if FPDU in packet]
    assert sorted(msns(placed)) == [1, 2, 3]
    assert {packet[DDPUntagged].msn: packet[FPDU].crc_good for packet in placed} == {1: True, 2: False, 3: True}
    bad = next(packet for packet in placed if not packet[FPDU].crc_good)
    assert bytes(bad[FPDU]) == octets[laid[1].offset : laid[1].end]
    assert bad.time == packets[5].time
    assert msns(through(packets, order="delivered")) == [1, 3]


def test_nothing_twice() -> None:
    wire = Wire()
    once = connection(wire)
    stream = b"".join(bytes(packet[TCP].payload) for packet in once[4:])
    again = [wire.segment("client", stream[at : at + 333], at=at - len(stream)) for at in range(0, len(stream), 333)]
    packets = [*once[:4], *(packet for packet in once[4:] for _ in range(2)), *once[2:], *again]
    for order in ("placed", "delivered"):
        found = through([packet.copy() for packet in packets], order=order)
        assert msns(found) == [1, 2, 3, 4]
        assert len(found) == 6


def test_connections_that_collide_under_xor() -> None:
    """Addresses and ports whose exclusive or is the same; and one endpoint's two connections to itself."""
    wires = [
        Wire(("10.0.0.1", 40001), ("10.0.0.2", 40002)),
        Wire(("10.0.0.2", 40001), ("10.0.0.1", 40002)),
        Wire(("10.0.0.4", 40001), ("10.0.0.7", 40002)),
        Wire(("10.0.0.1", 40004), ("10.0.0.2", 40007)),
        Wire(("fd00::1", 40001), ("fd00::2", 40002)),
        Wire(("fd00::4", 40001), ("fd00::7", 40002)),
        Wire(("127.0.0.1", 5), ("127.0.0.1", 6)),
    ]
    mixed = list(itertools.chain.from_iterable(zip(*(connection(wire) for wire in wires), strict=True)))
    for order in ("placed", "delivered"):
        halves: dict[Any, list[Packet]] = defaultdict(list)
        for packet in through([packet.copy() for packet in mixed], order=order):
            halves[half_of(packet)].append(packet)
        clients = [half for half in halves if FPDU in halves[half][-1]]
        assert len(clients) == len(wires) and all(msns(halves[half]) == [1, 2, 3, 4] for half in clients)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", ["placed", "delivered"])
def test_reordering_over_the_wrap_of_the_sequence_number(seed: int, order: Any) -> None:
    wire = Wire(isn=(2**32 - 900 * (seed + 1), 2**32 - 5))
    packets = connection(wire, sizes=range(1, 1500, 50), segment=611)
    shuffled = packets[4:]
    random.Random(seed).shuffle(shuffled)
    found = through([*packets[:4], *shuffled], order=order)
    if order == "delivered":
        assert msns(found) == list(range(1, 31))
    else:
        assert sorted(msns(found)) == list(range(1, 31)) != msns(found)
    assert all(packet[FPDU].crc_good for packet in found if FPDU in packet)


def test_what_comes_before_the_reply() -> None:
    wire = Wire()
    packets = connection(wire)
    late = [*packets[:3], *packets[4:], packets[3]]
    found = through(late)
    assert [type(packet[TCP].payload) for packet in found] == [MPARequest, MPAReply] + [FPDU] * 4
    assert {packet.time for packet in found[1:]} == {late[-1].time}


def test_what_the_end_of_a_capture_tells(tmp_path: Path) -> None:
    """FPDUs behind a gap are told when nothing can fill it any more, at their own time."""
    wire = Wire()
    stream, laid = lay_stream([send(msn, 60) for msn in range(1, 30)], markers=True)
    packets = [*wire.startup(), *(wire.segment("client", stream[fpdu.offset : fpdu.end]) for fpdu in laid)]
    del packets[5]
    packets = stamped([*packets, wire.segment("server", flags="A")])
    name = str(tmp_path / "gap.pcap")
    wrpcap(name, packets)
    records = list(analyze(name).connections[0].initiator.fpdus)
    found = [packet for packet in sniff(offline=name, session=MPASession) if FPDU in packet]
    assert len(found) == len(records) > 10
    frames = {fpdu.offset: packet for fpdu, packet in zip([laid[0], *laid[2:]], packets[4:], strict=False)}
    for packet in found:
        frame = frames[laid[packet[DDPUntagged].msn - 1].offset]
        assert abs(packet.time - frame.time) < 0.000002
        assert half_of(packet) == half_of(frame)
    session = MPASession(order="delivered")
    assert msns(sniff(offline=name, session=session)) == [1]
    assert not session._undelivered
    # Where the Request is missing, all is told at the end.
    wrpcap(name, packets[3:])
    wanted = len(analyze(name).connections[0].initiator.fpdus)
    assert len(msns(sniff(offline=name, session=MPASession))) == wanted > 10


def test_several_files(tmp_path: Path) -> None:
    packets = stamped(connection(Wire()))
    names = [str(tmp_path / "1.pcap"), str(tmp_path / "2.pcap")]
    wrpcap(names[0], packets[:3])
    wrpcap(names[1], stamped(connection(Wire(("10.0.0.9", 1), ("10.0.0.8", 2)))))
    assert msns(sniff(offline=names, session=MPASession)) == [1, 2, 3, 4]


def test_cut_packets() -> None:
    path = PCAPS / "siw-snaplen128.pcap"
    report = analyze(path)
    wanted = sum(len(half.fpdus) for one in report.connections for half in (one.initiator, one.responder))
    assert len(sniff(offline=str(path), session=MPASession, lfilter=lambda packet: FPDU in packet)) == wanted > 0


@pytest.mark.parametrize("wire", [Wire(), Wire(("fd00::1", 1), ("fd00::2", 2))], ids=["IPv4", "IPv6"])
def test_a_cut_packet_brings_what_is_there(wire: Wire) -> None:
    packets = connection(wire, sizes=[100, 100, 100], segment=10_000)
    cut = [*packets[:4], Ether(bytes(packets[4])[:300])]
    found = through(cut)
    # The third one's length was not captured. What there is of the second is octets before the first that is missing.
    assert msns(found) == [1, 2]
    assert [packet.record.crc for packet in found if FPDU in packet] == ["good", "cut"]
    second = found[-1][FPDU]
    assert bytes(packets[4]).endswith(bytes(packets[4])[300:]) and bytes(packets[4])[:300].endswith(bytes(second))
    assert second.crc_good is None and "CRC" not in second.summary()
    assert msns(through([*cut, packets[4]])) == [1, 2, 3]


# --- fragments ---


def shuffled(packets: list[Packet], seed: int) -> list[Packet]:
    random.Random(seed).shuffle(packets)
    return packets


@pytest.mark.parametrize("seed", range(3))
def test_fragments_of_ipv4(seed: int) -> None:
    packets = connection(Wire())
    pieces = []
    for number, packet in enumerate(packets):
        packet[IP].flags, packet[IP].id, packet[IP].chksum = 0, number, None
        pieces += shuffled([Ether(bytes(one)) for one in fragment(packet, fragsize=200)], seed)
    pieces = stamped(pieces)
    assert len(pieces) > 2 * len(packets)
    found = through([*pieces[:9], *pieces[:9], *pieces[9:]])
    assert msns(found) == [1, 2, 3, 4]
    assert all(isinstance(packet, Ether) and packet[TCP].dport == 7471 for packet in found if FPDU in packet)


def test_a_datagram_counts_at_the_frame_that_completes_it() -> None:
    packets = connection(Wire(), segment=10_000)
    packets[4][IP].flags = 0
    pieces = fragment(packets[4], fragsize=200)
    found = through([*packets[:4], *(Ether(bytes(one)) for one in pieces[::-1])])
    assert {float(packet.time) for packet in found[2:]} == {1_700_000_000 + (3 + len(pieces)) / 1000}


@pytest.mark.parametrize("seed", range(3))
def test_fragments_of_ipv6(seed: int) -> None:
    packets = connection(Wire(("fd00::1", 1), ("fd00::2", 2)))
    pieces: list[Packet] = []
    for number, packet in enumerate(packets):
        tcp = packet[TCP].original
        ip = IPv6(src=packet[IPv6].src, dst=packet[IPv6].dst)
        whole = ip / IPv6ExtHdrDestOpt() / IPv6ExtHdrFragment(id=number, nh=6) / TCP(tcp)
        pieces += shuffled([Ether(bytes(ETHER / one)) for one in fragment6(whole, 300)], seed)
    assert len(pieces) > 2 * len(packets)
    assert msns(through(pieces)) == [1, 2, 3, 4]
    assert msns(through([*pieces[:9], *pieces])) == [1, 2, 3, 4]


def test_fragments_are_held_within_a_limit() -> None:
    fragments = PacketFragments(limit=100_000)
    whole = ETHER / IP(src="10.0.0.1", dst="10.0.0.2") / UDP() / bytes(1000)
    for number in range(400):
        whole[IP].id = number
        assert fragments.take(Ether(bytes(fragment(whole, fragsize=400)[number % 3]))) is None
        assert 0 <= fragments.held <= fragments.limit
        assert len(fragments._datagrams) <= fragments.limit // 512
    pieces = [Ether(bytes(one)) for one in fragment(whole, fragsize=400)]
    whole[IP].id = 5000
    pieces = [Ether(bytes(one)) for one in fragment(whole, fragsize=400)]
    assert [fragments.take(piece) is not None for piece in pieces] == [False, False, True]
    for _ in range(500):
        whole[IP].id = (whole[IP].id + 1) % 65536
        fragments.take(Ether(bytes(fragment(whole, fragsize=400)[1])))
    assert fragments.held <= fragments.limit


# --- what is no TCP, or no packet worth the name ---


def test_malformed_packets_never_raise() -> None:
    rng = random.Random(1)
    good = [bytes(packet) for packet in connection(Wire())]
    good += [bytes(packet) for packet in connection(Wire(("fd00::1", 1), ("fd00::2", 2)))]
    good += [bytes(ETHER / IP() / ICMP(type=3) / IP() / TCP() / b"x"), bytes(ETHER / ARP()), b"", b"\0"]
    for passthrough in (False, True):
        session = MPASession(passthrough=passthrough)
        for _ in range(1500):
            octets = bytearray(rng.choice(good))
            for _ in range(int(rng.random() * 4)):
                if octets:
                    octets[int(rng.random() * min(len(octets), 80))] = rng.getrandbits(8)
            if rng.random() < 0.3:
                del octets[int(rng.random() * (len(octets) + 1)) :]
            try:
                packet = Ether(bytes(octets))
            except Exception:  # noqa: BLE001 - Scapy cannot always read a header that is cut
                continue
            for found in session.take(packet):
                bytes(found)
                found.summary()
        list(session.finish())
    assert not list(MPASession().finish())


def test_the_error_message_of_icmp_is_no_segment() -> None:
    packets = connection(Wire())
    quoted = [ETHER / IP(src="10.0.0.9", dst="10.0.0.1") / ICMP(type=3, code=4) / one[IP] for one in packets]
    assert through([Ether(bytes(one)) for one in quoted]) == []


def test_the_trailer_of_a_short_frame_is_no_payload() -> None:
    wire = Wire()
    packets = [Ether(bytes(one).ljust(60, b"\0")) for one in [*connection(wire), wire.segment("client")]]
    for one in ([*packets], [packet.copy() for packet in packets]):
        session = MPASession()
        found = [fpdu for packet in stamped(one) for fpdu in session.take(packet)]
        assert msns(found) == [1, 2, 3, 4]
        (mpa,) = session.receiver.connections
        session.receiver.finish()
        assert mpa.operations["initiator"].end().sent == sum(len(p[FPDU]) for p in found if FPDU in p)


def test_options() -> None:
    with pytest.raises(ValueError, match="not 'captured'"):
        MPASession(order="captured")  # type: ignore[arg-type]


# --- memory ---


def bulk(path: Path, rounds: int) -> None:
    from scapy_mpa.craft.pcapfile import PcapWriter

    plan = BulkPlan(markers=True, round_octets=1 << 15, segmentation="anywhere", reordered=0.2)
    with path.open("wb") as file:
        PcapWriter(file).write(BulkConnection(plan, clock=itertools.count(10**18, 10**6)).packets(rounds))


@pytest.mark.parametrize("order", ["placed", "delivered"])
def test_memory_is_flat(tmp_path: Path, order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # Octets that were read are remembered within a limit, so that copies which come late can be compared.
    monkeypatch.setattr("scapy_mpa.stream.recent.MOST_OCTETS", 1 << 18)
    bulk(tmp_path / "bulk.pcap", 24)
    session = MPASession(order=order)
    held: list[int] = []
    count = 0
    tracemalloc.start()
    try:
        with PcapReader(str(tmp_path / "bulk.pcap")) as reader:
            for number, packet in enumerate(reader):
                count += sum(1 for _ in session.take(packet))
                if number % 256 == 255:
                    gc.collect()
                    held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert count > 500 and len(held) >= 4
    assert max(held) < 3_000_000 < 4 * (tmp_path / "bulk.pcap").stat().st_size
    operation = session.receiver.connections[0].operations["initiator"]
    assert len(operation.half.copies) < 50
    assert sum(map(len, session._undelivered.values())) < 50


def test_what_waits_for_a_gap_is_bounded() -> None:
    """FPDUs that Markers place beyond a gap that nothing fills."""
    wire = Wire()
    stream, _ = lay_stream([send(msn, 400) for msn in range(1, 800)], markers=True)
    packets = [*wire.startup(), *wire.cut("client", stream, 1000)]
    del packets[5]
    session = MPASession(order="delivered", held_limit=20_000)
    most = 0
    for packet in stamped(packets):
        assert all(FPDU in one or TCP in one for one in session.take(packet))
        most = max(most, sum(map(len, session._undelivered.values())))
    assert 10 < most < 100
    list(session.finish())
    assert not session._undelivered


# --- live ---


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="raw sockets on lo take root")
@pytest.mark.parametrize("order", ["placed", "delivered"])
def test_live_on_the_loopback_interface(order: Any) -> None:
    sizes = [10, 2000, 400, 500, 30, 5000, 1, 0, 900, 700] * 3
    port = 20_000 + int(time.time() * 1000) % 20_000
    wire = Wire(("127.0.0.1", port), ("127.0.0.1", port + 1), isn=(2**32 - 3000, 7))
    packets = connection(wire, sizes, segment=800)
    late = packets[4:]
    random.Random(3).shuffle(late)
    octets = [bytes(packet) for packet in [*packets[:4], *late, *late[:5]]]

    def ours(packet: Packet) -> bool:
        return TCP in packet and {packet[TCP].sport, packet[TCP].dport} == {port, port + 1}

    done: list[Packet] = []
    try:
        probe = conf.L2socket(iface="lo")
    except OSError as error:
        pytest.skip(f"no raw socket on lo: {error}")
    with probe:
        sniffer = AsyncSniffer(
            iface="lo",
            session=MPASession(order=order),
            lfilter=ours,
            prn=done.append,
            store=False,
            stop_filter=lambda packet: len(done) == len(sizes) + 2,
        )
        started = time.monotonic()
        ready: list[bool] = []
        sniffer.kwargs["started_callback"] = lambda: ready.append(True)
        sniffer.start()
        while not ready and time.monotonic() - started < SECONDS:
            time.sleep(0.01)
        # The socket may lose frames, as networks do: then they are sent again.
        while sniffer.running and time.monotonic() - started < SECONDS:
            for frame in octets:
                probe.send(Ether(frame))
                time.sleep(0.002)
        if sniffer.running:
            sniffer.stop()
        sniffer.join(timeout=SECONDS)
    fpdus = [packet for packet in done if FPDU in packet]
    assert sorted(msns(fpdus)) == list(range(1, len(sizes) + 1))
    assert (msns(fpdus) == sorted(msns(fpdus))) == (order == "delivered")
    assert all(packet[FPDU].crc_good and packet.sniffed_on == "lo" for packet in fpdus)
    assert all(abs(float(packet.time) - time.time()) < 2 * SECONDS for packet in fpdus)
    assert MPARequest in done[0] and MPAReply in done[1]


def test_live_through_a_socket_of_ours() -> None:
    """Any socket of Scapy's will do: here packets that a StreamSocket-like pair carries, each a datagram."""
    from scapy.supersocket import SimpleSocket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)

    class Datagrams(SimpleSocket):
        def recv(self, x: int = 65535, **kwargs: Any) -> Packet:
            octets = self.ins.recv(x)
            if octets == b"end":
                raise EOFError
            return Ether(octets, **kwargs)

    with ours, theirs:
        sniffer = AsyncSniffer(opened_socket=Datagrams(ours), session=MPASession)
        sniffer.start()
        for packet in connection(Wire()):
            theirs.send(bytes(packet))
        theirs.send(b"end")
        sniffer.join(timeout=SECONDS)
    assert msns(sniffer.results) == [1, 2, 3, 4]
