"""`sniff(session=MPASession)`: each MPA Request, Reply and FPDU as a packet of its own.

The receiver of `scapy_mpa.receive` does the work; this hands it TCP segments out of Scapy's packets and makes packets
of what it finds. So it survives what the receiver survives, and holds no more than the receiver does.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any, Literal

from scapy.layers.inet import IP, TCP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet
from scapy.sessions import IPSession
from scapy.supersocket import SuperSocket

from ..framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from ..receive.operation import Direction, FullOperation
from ..receive.receiver import HELD_LIMIT, Receiver
from ..receive.records import Row
from ..receive.segment import LENGTH, Segment
from ..receive.startup import FoundFrame
from ..receive.tcp import MPAConnection
from .mpa import fpdu_packet, startup_packet

Order = Literal["placed", "delivered"]

# Packets after which the receiver may forget what repeats are compared with.
_RELEASE_AFTER = 1024


class MPASession(IPSession):
    """A session for `sniff`: one packet for each MPA Request, MPA Reply and FPDU.

    Each comes over copies of the lower layers of the frame that placed it, with that frame's time. `order` is
    "placed" (as soon as a receiver could hand it to DDP; an FPDU with a bad CRC when that is known) or "delivered" (in
    the order of the stream, nothing behind octets that were not captured). With `passthrough` the packets that carry
    nothing of an MPA connection are passed on too. `held_limit` is how many octets a half connection holds back at
    most. Fragments of IP datagrams are put together first.
    """

    def __init__(
        self,
        *args: Any,
        order: Order = "placed",
        passthrough: bool = False,
        held_limit: int = HELD_LIMIT,
        **kwargs: Any,
    ) -> None:
        if order not in ("placed", "delivered"):
            raise ValueError(f"order is 'placed' or 'delivered', not {order!r}")
        super().__init__(*args, **kwargs)
        self.order = order
        self.passthrough = passthrough
        self.receiver = Receiver(observer=self, held_limit=held_limit)
        self._frame = 0
        self._lower: Packet | None = None
        self._current: Packet | None = None
        self._found: list[Packet] = []
        # FPDUs that were placed and not delivered yet, by half connection and sequence number.
        self._undelivered: dict[int, dict[int, Packet]] = {}

    def recv(self, sock: SuperSocket) -> Iterator[Packet]:
        """What the next packet of the socket completes; `sniff` calls this."""
        packet = sock.recv()
        if packet:
            yield from self.take(packet)

    def take(self, packet: Packet) -> Iterator[Packet]:
        """What one captured packet completes, for callers without a socket."""
        self._frame += 1
        whole = self.process(packet)
        if whole is None:
            return
        seg = segment_of(whole, self._frame)
        if seg is None:
            if self.passthrough:
                yield whole
            return
        self._current, self._lower = whole, None
        self.receiver.feed((seg,))
        if self._frame % _RELEASE_AFTER == 0:
            self.receiver.release()
        found, self._found = self._found, []
        yield from found
        if self.passthrough and not found and not (seg[LENGTH] and self.receiver.speaks_mpa(seg)):
            yield whole

    # --- what the receiver tells ---

    def startup(self, mpa: MPAConnection, direction: Direction, found: FoundFrame) -> None:
        """A startup frame is complete."""
        self._found.append(self._over_lower(startup_packet(found.startup.encode())))

    def placed(self, operation: FullOperation, row: Row, octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        placed, delivered = row[7], row[8]
        if self.order == "delivered" and (not placed or (operation.gapped and not delivered)):
            self._undelivered.pop(id(operation), None)
            return
        offset = (row[0] - operation.stream.origin) % MARKER_INTERVAL
        marker_offset = -offset % MARKER_INTERVAL if operation.markers else None
        if marker_offset is not None and marker_offset > MARKER_INTERVAL - MARKER_LENGTH:
            marker_offset = None  # it begins inside a Marker, where no FPDU can
        origin = operation.mpa.profile.fpduptr_origin
        packet = self._over_lower(fpdu_packet(octets, marker_offset, operation.crc, origin))
        if self.order == "placed" or delivered:
            self._found.append(packet)
        else:
            self._undelivered.setdefault(id(operation), {})[row[0]] = packet

    def delivered(self, operation: FullOperation, row: Row) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        packet = self._undelivered.get(id(operation), {}).pop(row[0], None)
        if packet is not None:
            self._found.append(packet)

    def _over_lower(self, upper: Packet) -> Packet:
        """`upper` over copies of the lower layers of the present packet."""
        assert self._current is not None
        if self._lower is None:
            self._lower = self._current.copy()
            self._lower[TCP].remove_payload()
        packet = self._lower.copy() / upper
        packet.time = self._current.time
        packet.sniffed_on = self._current.sniffed_on
        packet.direction = self._current.direction
        return packet


def segment_of(packet: Packet, frame: int) -> Segment | None:
    """The TCP segment of a Scapy packet, as the receiver takes it; None if it has none."""
    tcp = packet.getlayer(TCP)
    if tcp is None:
        return None
    ip = tcp.underlayer
    while ip is not None and not isinstance(ip, (IP, IPv6)):
        ip = ip.underlayer
    if ip is None or (isinstance(ip, IP) and (ip.frag or ip.flags.MF)):
        return None
    octets = memoryview(tcp.original or bytes(tcp))
    if len(octets) < 20:
        return None
    start = (octets[12] >> 4) * 4
    if start < 20 or start > len(octets):
        return None
    family = socket.AF_INET if isinstance(ip, IP) else socket.AF_INET6
    addresses = socket.inet_pton(family, ip.src) + socket.inet_pton(family, ip.dst)
    length = max(len(octets), _tcp_length(ip, tcp)) - start
    seq, ack = int.from_bytes(octets[4:8], "big"), int.from_bytes(octets[8:12], "big")
    time = int(packet.time * 1_000_000_000)
    key = addresses + bytes(octets[:4])
    return (frame, time, key, seq, ack, octets[13], octets, start, len(octets), 0, length)


def _tcp_length(ip: Packet, tcp: Packet) -> int:
    """Octets of the TCP segment by the IP header, also of one that the capture cut; 0 if it does not say."""
    if isinstance(ip, IP):
        return (ip.len or 0) - (ip.ihl or 5) * 4
    between = len(ip.original) - 40 - len(tcp.original) if ip.original and tcp.original else 0
    return (ip.plen or 0) - between
