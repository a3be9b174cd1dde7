"""A capture of the same TCP connections as if nobody had asked for Markers, which every Wireshark dissects.

Each half connection is rewritten in the order of its stream: an FPDU a segment, at the time when it and all before it
had been captured. Startup frames have M cleared, FPDUs come without Markers and with CRCs that are right for that (a
bad one stays bad, and what the capture cut is cut), sequence and acknowledgement numbers are those of the shorter
stream, checksums are right. Octets that were not captured, and those of FPDUs of which some were not, are a gap of the
length that they would have had.

Addresses and ports, SYN with its options, FIN, RST and acknowledgements without data are the captured ones, but that
nothing is acknowledged before it is sent here, and nothing twice or late; link layer and tunnels, other IP and TCP
options, retransmissions and fragments are not kept.

Connections in which a sender that deviates sends Markers are left out: where these stand is that sender's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import BinaryIO, TypeAlias

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.index import rewind
from scapy_mpa.capture.link import RAW
from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.craft.packets import Endpoint, FrameMaker
from scapy_mpa.craft.pcapngfile import CutPacket, PcapngWriter
from scapy_mpa.framing.fpdu import Fpdu
from scapy_mpa.framing.markers import MARKER_LENGTH
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import seq_add, seq_diff
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.reading.found import ConnectionSpan, FoundFPDU, FoundFPDUs
from scapy_mpa.reading.query import Query, query_of
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.show import startup_of
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import (
    ACK_FLAG,
    FIN,
    PATH_MTU,
    PSH,
    RST,
    SYN,
    Segment,
)
from scapy_mpa.wireshark.unmarked import Unmarked, unmarked_fpdu, unmarked_startup

#: Octets of payload that a packet of either IP version has room for, whatever the TCP options.
_MOST_PAYLOAD = 65160
_NO_MAC = bytes(6)
_ETHERNET_HEADER = 14
_TCP_HEADER, _MOST_OPTIONS = 20, 40
_WINDOW = Struct(">H")
_WINDOW_AT = 14
#: SYNs of a half connection that are written: the rest repeats them.
_MOST_SYNS = 8

#: The octets of an IP packet that are written, and how many it has.
IPPacket: TypeAlias = tuple[bytes, int]


class Stripped(NamedTuple):
    """How many packets were written, with how many FPDUs; and the connections left out because a sender deviates."""

    packets: int
    fpdus: int
    left_out: tuple[Connection, ...]


def strip_markers(
    capture: Query | CaptureSource | Sequence[CaptureSource], found: FoundFPDUs, file: BinaryIO
) -> Stripped:
    """Write the MPA connections that were found in captures, without Markers, as a pcapng file (raw IP).

    ``found`` are their FPDUs in the order of delivery. Raises :class:`~scapy_mpa.errors.CaptureError` if the captures
    cannot be read again, and OSError if the file cannot be written.
    """
    query = query_of(capture)
    rewind(query.sources)
    stripping = _Stripping(found)
    packets = PcapngWriter(file, linktype=RAW).write_cut(stripping.packets(_segments(query)))
    return Stripped(packets, stripping.fpdus, stripping.left_out)


def _segments(query: Query) -> Iterator[Segment]:
    with Captures(query.sources, limits=query.limits) as captures:
        for segments in captures.batches():
            yield from (seg for seg in query.selection.of(segments) if not seg.flags & PATH_MTU)


class HalfSent:
    """One direction of a connection, as it is rewritten.

    Args:
        key: addresses and ports of its segments.
        numbers: its sequence numbers without Markers.
        fpdus: how many FPDUs are to be sent; where nobody knows, 1 until its FIN may go.
    """

    def __init__(self, key: bytes, numbers: Unmarked, fpdus: int) -> None:
        self.numbers = numbers
        self.frames = _frame_maker(key)
        #: FPDUs that are still to be sent, and whether the FIN waits for them.
        self.left = fpdus
        self.fin_waits = False
        self.startup: tuple[StartupFrame, int, int] | None = None
        self.startup_seq: int | None = None
        self.syns: set[int] = set()
        #: The next sequence number, None if nothing was sent; the last acknowledgement and window of a packet.
        self.next: int | None = None
        self.ack = 0
        self.window = 0
        self.acks = False
        #: The acknowledgement and window that were sent last.
        self.said: tuple[int, int] | None = None

    def begin(self, startup: tuple[StartupFrame, int, int] | None) -> None:
        """Send a startup frame at its frame: what it says, its sequence number, and that frame."""
        if startup is not None:
            self.startup, self.startup_seq = startup, startup[1]

    def packet(self, payload: bytes, flags: int, seq: int, options: bytes = b"", cut: int = 0) -> IPPacket:
        """A packet, with the last acknowledgement; this many octets of its payload are cut off."""
        if self.acks:
            flags |= ACK_FLAG
        self.said = self.ack, self.window
        frame = self.frames.frame(
            payload,
            seq=seq,
            ack=self.ack if flags & ACK_FLAG else 0,
            flags=flags,
            window=self.window,
            options=options,
        )
        return frame[_ETHERNET_HEADER : len(frame) - cut], len(frame) - _ETHERNET_HEADER

    def data(self, seq: int, payload: bytes, cut: int = 0) -> Iterator[IPPacket]:
        """Packets with octets of the stream, after which ``cut`` more follow that the capture does not have."""
        length = len(payload) + cut
        for at in range(0, length, _MOST_PAYLOAD):
            piece = payload[at : at + _MOST_PAYLOAD]
            lacking = min(length - at, _MOST_PAYLOAD) - len(piece)
            yield self.packet(piece + bytes(lacking), PSH | ACK_FLAG, seq_add(seq, at), cut=lacking)
        self.next = seq_add(seq, length)

    def fpdu(self, offset: int, octets: bytes, fpdu: Fpdu, markers: int, *, crc: bool) -> Iterator[IPPacket]:
        """An FPDU at a stream offset, with this many Markers; ``fpdu`` are its fields."""
        self.numbers.near = max(self.numbers.near, offset + fpdu.wire_length)
        plain = unmarked_fpdu(octets, fpdu, markers=self.numbers.markers, crc=crc)
        cut = fpdu.wire_length - MARKER_LENGTH * markers - len(plain) if len(octets) < fpdu.wire_length else 0
        yield from self.data(self.numbers.seq_at(offset), plain, cut)

    def fin(self) -> Iterator[IPPacket]:
        """The FIN, if it no longer waits for anything."""
        if self.fin_waits and not self.left and self.numbers.fin is not None:
            self.fin_waits = False
            seq = self.numbers.seq_at(self.numbers.fin)
            yield self.packet(b"", FIN | ACK_FLAG, seq)
            self.next = seq_add(seq, 1)


class ConnectionSent:
    """A connection as it is rewritten: its halves by their keys."""

    def __init__(self, halves: dict[bytes, HalfSent]) -> None:
        self.halves = halves

    def segment(self, seg: Segment) -> Iterator[IPPacket]:
        """Yield what a captured segment gives besides FPDUs."""
        half = self.halves[seg.key]
        peer = next(other for other in self.halves.values() if other is not half)
        flags, length = seg.flags, seg.length
        ack = half.ack
        if flags & ACK_FLAG:
            ack = peer.numbers.seq(seg.ack)
            if peer.left and peer.next is not None and seq_diff(ack, peer.next) > 0:
                ack = peer.next  # the segments of an FPDU are sent when the last of them has come
        if flags & SYN or not half.acks or seq_diff(ack, half.ack) >= 0:
            # What is older came out of order: in the order of the stream there is no going back.
            half.ack, half.window = ack, _window(seg)
            half.acks = half.acks or bool(flags & ACK_FLAG)
        if flags & SYN:
            if seg.seq not in half.syns and len(half.syns) < _MOST_SYNS:
                half.syns.add(seg.seq)
                yield half.packet(b"", SYN | (flags & ACK_FLAG), seg.seq, _options(seg))
                half.next = seq_add(seg.seq, 1)
            return
        yield from self._startup(half, seg)
        if flags & FIN and half.numbers.fin is None:
            half.numbers.fin = half.numbers.offset_of(seq_add(seg.seq, length))
            half.fin_waits = True
            yield from half.fin()
        elif flags & RST:
            yield half.packet(b"", RST | (flags & ACK_FLAG), half.numbers.seq(seg.seq))
        elif not length and half.said != (half.ack, half.window):
            yield half.packet(b"", ACK_FLAG, half.numbers.seq(seg.seq) if half.next is None else half.next)

    def _startup(self, half: HalfSent, seg: Segment) -> Iterator[IPPacket]:
        """Streaming data before the startup frame as it was captured, and the startup frame when it is complete."""
        if half.startup_seq is not None and half.next != half.startup_seq and seg.end > seg.start:
            before = min(seq_diff(half.startup_seq, seg.seq), seg.end - seg.start)
            if before > 0:
                yield from half.data(seg.seq, bytes(seg.buffer[seg.start : seg.start + before]))
        if half.startup is not None and seg.frame >= half.startup[2]:
            startup, seq, _ = half.startup
            half.startup = None
            yield from half.data(seq, unmarked_startup(startup))
            half.startup_seq = None


class _Captured(ConnectionSent):
    """A connection of the report."""

    def __init__(self, connection: Connection, extent: ConnectionSpan) -> None:
        self.connection, self.extent = connection, extent
        counts: dict[Role, int] = {"initiator": extent.initiator, "responder": extent.responder}
        super().__init__({connection.half(role).key: _half(connection, role, count) for role, count in counts.items()})

    def fpdu(self, found: FoundFPDU) -> Iterator[IPPacket]:
        """An FPDU, and what waited for it."""
        half = self.halves[found.half.key]
        half.left -= 1
        crc = self.connection.crc
        yield from half.fpdu(found.offset, found.octets, found.decoded, found.record.markers, crc=crc)
        yield from half.fin()


def _half(connection: Connection, direction: Role, fpdus: int) -> HalfSent:
    half = connection.half(direction)
    numbers = Unmarked(half.seq_start, markers=bool(half.markers), has_start=half.inferred is None)
    sent = HalfSent(half.key, numbers, fpdus)
    sent.begin(startup_of(connection, direction))
    return sent


class _Stripping:
    """All connections, one packet after the other."""

    def __init__(self, found: FoundFPDUs) -> None:
        self._found = found
        self.fpdus = 0
        connections = found.report.connections
        self.left_out = tuple(one for one in connections if _deviates_in_markers(one))
        self._sent = {id(one): _Captured(one, found.extent(one)) for one in connections if one not in self.left_out}
        #: The connections of a key, in the order of time.
        self._by_key: dict[bytes, list[_Captured]] = {}
        for sent in sorted(self._sent.values(), key=lambda sent: sent.extent.first):
            for key in sent.halves:
                self._by_key.setdefault(key, []).append(sent)

    def packets(self, segments: Iterable[Segment]) -> Iterator[CutPacket]:
        """Yield the packets, given the segments of the capture."""
        fpdus = iter(self._found)
        waiting = next(fpdus, None)
        time = 0
        for seg in segments:
            sent = self._of(seg)
            if sent is None:
                continue
            time = seg.time
            for packet in sent.segment(seg):
                yield time, *packet
            while waiting is not None and waiting.turn <= seg.frame:
                yield from self._fpdu(time, waiting)
                waiting = next(fpdus, None)
        while waiting is not None:
            yield from self._fpdu(time, waiting)
            waiting = next(fpdus, None)

    def _fpdu(self, time: int, found: FoundFPDU) -> Iterator[CutPacket]:
        sent = self._sent.get(id(found.connection))
        if sent is None:
            return
        self.fpdus += 1
        for packet in sent.fpdu(found):
            yield time, *packet

    def _of(self, seg: Segment) -> _Captured | None:
        """The connection of a segment: of several on the same addresses and ports the one of its time."""
        there = [sent for sent in self._by_key.get(seg.key, ()) if not sent.connection.is_foreign(seg)]
        # A SYN after the last frame of one begins the next.
        while len(there) > 1 and (
            seg.frame >= there[1].extent.first or (seg.flags & SYN and seg.frame > there[0].extent.last)
        ):
            over = there.pop(0)
            for key in over.halves:
                self._by_key[key].remove(over)
        return there[0] if there else None


def _deviates_in_markers(connection: Connection) -> bool:
    halves = connection.initiator, connection.responder
    return any(half.dialect is not None and half.dialect.markers for half in halves)


def _frame_maker(key: bytes) -> FrameMaker:
    from ipaddress import ip_address

    size = (len(key) - 4) // 2
    addresses = str(ip_address(key[:size])), str(ip_address(key[size : 2 * size]))
    ports = int.from_bytes(key[-4:-2], "big"), int.from_bytes(key[-2:], "big")
    source, destination = (Endpoint(address, port, _NO_MAC) for address, port in zip(addresses, ports, strict=True))
    return FrameMaker(source, destination)


def _window(seg: Segment) -> int:
    tcp = seg.tcp
    return 0 if tcp < 0 else int(_WINDOW.unpack_from(seg.buffer, tcp + _WINDOW_AT)[0])


def _options(seg: Segment) -> bytes:
    """The TCP options of a segment, as far as they were captured: whole words."""
    tcp = seg.tcp
    options = b"" if tcp < 0 else bytes(seg.buffer[tcp + _TCP_HEADER : seg.start])[:_MOST_OPTIONS]
    return options[: len(options) & ~3]
