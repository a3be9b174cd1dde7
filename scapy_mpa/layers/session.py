"""``sniff(session=MPASession)``: each MPA Request, Reply and FPDU as a packet of its own.

``scapy_mpa.analyzer`` does the work; this hands it TCP segments out of Scapy's packets and makes packets
of what it finds. So it survives what the receiver survives, and holds no more than the receiver does.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any, Literal

from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import NoPayload, Packet, Padding
from scapy.sessions import DefaultSession
from scapy.supersocket import SuperSocket
from scapy.utils import EDecimal

from scapy_mpa.analyzer.connection import CapturedConnection, Deviations, FullOperation, Listener
from scapy_mpa.capture.named import Sources
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.layers.fragments import PacketFragments
from scapy_mpa.layers.messages import SessionMessages
from scapy_mpa.layers.uppers import ConnectionUpper
from scapy_mpa.packet.captured import FoundPacket, _CapturedPacket, link
from scapy_mpa.packet.mpa import deviating_packet, fpdu_packet, startup_packet
from scapy_mpa.reading.onepass import Pass
from scapy_mpa.reading.ongoing import SETTLED
from scapy_mpa.reading.query import Query
from scapy_mpa.receiver.startup import FoundFrame
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS
from scapy_mpa.values.records import FPDURow, record_of
from scapy_mpa.values.segment import FIN, RST, SYN, Segment

Order = Literal["placed", "delivered"]

# Packets after which the receiver may forget what repeats are compared with.
_RELEASE_AFTER = 1024
_NANOSECONDS = 1_000_000_000
_TCP_HEADER = 20
#: Half connections whose upper layer is unknown, and whose last frame is kept.
_MOST_UNKNOWN = 1024
#: Octets of the last frames that are kept, because what they brought may become known later.
_MOST_RECENT = 1 << 23
#: Octets of TCP payload that IP's lengths, headers counted, hold in any case.
_LONGEST_COUNTED = 65000


class _Frame(NamedTuple):
    """A captured packet that may be needed again: octets take less memory than a dissected packet."""

    cls: type[Packet]
    octets: bytes
    time: Any
    sniffed_on: Any
    direction: Any
    #: The sequence number after its TCP payload.
    end: int


class _Later(NamedTuple):
    """An FPDU that was placed and waits for its delivery."""

    frame: _Frame
    octets: bytes
    frames: tuple[int, ...]


class MPASession(DefaultSession, Listener):
    """A session for ``sniff``: one packet for each MPA Request, MPA Reply and FPDU.

    Each comes over copies of the lower layers of the frame that placed it (if a frame of the other direction did: of
    the last one of its own), with the time of that frame; ``packet.frame`` is the number of that frame, and
    ``packet.located_by`` and ``packet.record`` are what is known about an FPDU. Fragments of IP datagrams are
    reassembled first.

    The TCP sequence number is that of its first octet; lengths and checksums are left to be computed, and a FIN or a
    RST stays if it comes right after the packet. So a capture that ``wrpcap`` writes has the same FPDUs when it is
    read.

    What becomes known only later (an FPDU after a gap that nothing fills) has the time and the lower layers of its own
    frame, or of the last data frame of its half connection if more than 8 MiB of frames have followed. What only the
    end of a file shows comes at its end.

    A session reads once, so it does not find out that a sender deviates: it reports what a conforming receiver finds,
    unless ``deviations`` says what an analysis of the same traffic has found.

    Args:
        args: Those of Scapy's session, as ``kwargs`` are.
        order: "placed" (as soon as a receiver could hand it to DDP; an FPDU with a bad CRC when that is known) or
            "delivered" (in the order of the stream, nothing after octets that were not captured).
        passthrough: Whether packets that do not belong to an MPA connection are passed on too.
        messages: Whether one packet comes for each RDMAP message instead of each FPDU: ``RDMAPMessage`` over the lower
            layers of the frame that completed it, in the order of delivery. ``packet.frames`` are those that carried
            it, ``packet.message`` is what is known about it; a Request, or a call of the upper layer, and its answer
            are ``packet.request`` and ``packet.answer`` of each other, once both have arrived.
        held_limit: The most octets that a half connection holds back; for messages, all together.
        deviations: What senders do wrong, of :attr:`Report.deviations <scapy_mpa.report.model.Report.deviations>`:
            their FPDUs come as they were meant, without Markers.
    """

    def __init__(
        self,
        *args: Any,
        order: Order = "placed",
        passthrough: bool = False,
        messages: bool = False,
        held_limit: int = DEFAULT_LIMITS.held_octets,
        deviations: Deviations | None = None,
        **kwargs: Any,
    ) -> None:
        if order not in ("placed", "delivered"):
            raise ValueError(f"order is 'placed' or 'delivered', not {order!r}")
        super().__init__(*args, **kwargs)
        self.order = order
        self.passthrough = passthrough
        limits = DEFAULT_LIMITS._replace(held_octets=held_limit)
        query = Query(Sources(()), limits=limits)
        self.receiver = Pass(query, [self], deviations=deviations).analyzer
        self.fragments = PacketFragments()
        self._number = 0
        self._time = 0
        #: The present packet, its half connection, and the sequence number after its TCP payload.
        self._current: Packet | None = None
        self._key = b""
        self._end = 0
        #: True if there is a copy of its lower layers; what makes more of them, which pays from the second on.
        self._is_copied = False
        self._lower: _LowerLayers | None = None
        # What the present packet completes; half connection and stream offset are there to sort by.
        self._found: list[tuple[FullOperation | None, int, Packet]] = []
        self._last_frames: OrderedDict[bytes, _Frame] = OrderedDict()
        #: The same for half connections whose upper layer is not known (yet).
        self._unknown_frames: OrderedDict[bytes, _Frame] = OrderedDict()
        #: The last frames with data, by half connection and time (nanoseconds), and how many octets they have.
        self._recent_frames: OrderedDict[tuple[bytes, int], _Frame] = OrderedDict()
        self._recent_octets = 0
        self._undelivered: dict[FullOperation, dict[int, _Later]] = {}
        #: How many FPDUs came of half connections whose senders are known to deviate.
        self._deviating: Counter[FullOperation] = Counter()
        #: MPA Requests without a Reply, of ongoing connections.
        self._requests: dict[CapturedConnection, Packet] = {}
        #: What is above RDMAP on each connection that has had an FPDU.
        self._uppers: dict[CapturedConnection, ConnectionUpper] = {}
        self._messages = SessionMessages(self._place_message, held_limit) if messages else None
        self._open: set[int] = set()

    def recv(self, sock: SuperSocket) -> Iterator[Packet]:
        """Yield what the next packet of the socket completes; ``sniff`` calls this."""
        self._open.add(id(sock))
        try:
            # TCP's payload is of no interest as it is in the frame, unless somebody else wants it.
            packet = sock.recv() if self.passthrough else sock.recv(stop_dissection_after=TCP)
        except EOFError:
            self._open.discard(id(sock))
            if not self._open:
                yield from self.finish()
            raise
        if packet:
            yield from self.take(packet)

    def process(self, pkt: Packet) -> Packet | None:
        """Return the packet, or the IP datagram that it completes; None for a fragment that completes none."""
        packet = super().process(pkt)
        return self.fragments.take(packet) if packet else None

    def take(self, packet: Packet) -> Iterator[Packet]:
        """Yield what one captured packet completes, for callers without a socket."""
        self._number += 1
        whole = self.process(packet)
        if whole is None:
            return
        seg = segment_of(whole, self._number)
        if seg is None:
            if self.passthrough:
                yield whole
            return
        self._current, self._time, self._key, self._end = whole, seg.time, seg.key, _end_of(seg)
        self._is_copied, self._lower = False, None
        if self._messages is not None:
            self._messages.see((seg,))
        self.receiver.feed((seg,))
        speaks_mpa = bool(seg.length) and self.receiver.speaks_mpa(seg)
        if seg.length:
            self._remember(seg, whole, speaks_mpa)
        if self._number % _RELEASE_AFTER == 0:
            self._release()
        found = self._taken()
        yield from found
        if self.passthrough and not found and not speaks_mpa:
            yield whole

    def finish(self) -> Iterator[Packet]:
        """Return what the end of the capture shows. ``sniff`` on a file calls this on its own."""
        self._time = -1
        if self._current is not None:
            self.receiver.finish(numbers_anew=self._messages is None)
            for mpa in self.receiver.connections:
                self.forget(mpa)
        yield from self._taken()
        self._undelivered.clear()

    def _taken(self) -> list[Packet]:
        """Return what was found since the last call."""
        found, self._found = self._found, []
        if self.order == "delivered" and len(found) > 1:
            # What is placed and delivered at once and what was waiting for that are distinguished.
            found = _in_order_of_streams(found)
        return [packet for _, _, packet in found]

    def _release(self) -> None:
        self.receiver.release()
        if self._messages is not None:
            for mpa in self.receiver.let_go(self._time - SETTLED):
                self.forget(mpa)
        for operation in [operation for operation in self._undelivered if operation.gapped]:
            del self._undelivered[operation]

    # --- what the receiver tells ---

    def startup(self, mpa: CapturedConnection, direction: Role, found: FoundFrame) -> None:
        """A startup frame is complete."""
        frame = self._frame_of(mpa.keys[direction], found.time)
        octets = found.startup.encode()
        packet = startup_packet(octets)
        _tell(packet, FoundPacket(found.frame, None, None))
        whole = self._over(frame, packet, found.seq, len(octets))
        if direction == "initiator":
            self._requests[mpa] = whole
        elif (request := self._requests.pop(mpa, None)) is not None:
            link(request, whole)
        self._found.append((None, 0, whole))

    def placed(self, operation: FullOperation, row: FPDURow, frames: tuple[int, ...], octets: bytes) -> None:
        """An FPDU was placed, or found bad."""
        if self._messages is not None:
            self._messages.placed(operation, row, frames, octets)
            return
        placed, delivered, time = row.placed, row.delivered, row.time
        if operation.dialect is not None:
            self._deviating[operation] += 1
        if self.order == "delivered" and not delivered:
            if placed and not operation.gapped:
                frame = self._frame_of(operation.key, time) or self._present()
                self._undelivered.setdefault(operation, {})[row.seq] = _Later(frame, octets, frames)
            return
        self._find(operation, row, self._frame_of(operation.key, time), octets, frames)

    def delivered(self, operation: FullOperation, row: FPDURow) -> None:
        """An FPDU that was placed at an earlier frame is delivered now."""
        if self._messages is not None:
            self._messages.delivered(operation, row)
            return
        later = self._undelivered.get(operation, {}).pop(row.seq, None)
        if later is not None:
            self._find(operation, row, later.frame, later.octets, later.frames)

    def _find(
        self, operation: FullOperation, row: FPDURow, frame: _Frame | None, octets: bytes, frames: tuple[int, ...]
    ) -> None:
        offset, dialect = operation.offset_of(row.seq), operation.dialect
        upper: Packet
        if dialect is not None:
            # They come in the order of the stream, and none is delivered later than it is placed.
            due = dialect.due_behind(offset, self._deviating[operation] - 1)
            upper = deviating_packet(dialect, octets, offset, due)
        else:
            marker_offset = -offset % MARKER_INTERVAL if operation.markers else None
            if marker_offset is not None and marker_offset > MARKER_INTERVAL - MARKER_LENGTH:
                marker_offset = None  # it begins inside a Marker, where no FPDU can
            upper = fpdu_packet(octets, marker_offset, operation.crc, operation.mpa.profile.fpduptr_origin)
        self._put_upper(operation, row, upper)
        mpa = operation.mpa
        record = record_of(row, frames, mpa.number, operation.direction, None, operation.deviation)
        _tell(upper, FoundPacket(row.placed or max(frames), record.located_by, record))
        self._found.append((operation, offset, self._over(frame, upper, row.seq, len(octets), row.wire_length)))

    def _put_upper(self, operation: FullOperation, row: FPDURow, packet: Packet) -> None:
        """Have the Send that begins in an FPDU dissected by the upper layer of its connection."""
        mpa = operation.mpa
        if mpa not in self._uppers:
            request, reply = (one.startup if one is not None else None for one in (mpa.request, mpa.reply))
            self._uppers[mpa] = ConnectionUpper(request, reply, mpa.responder_port)
        self._uppers[mpa].put(
            packet,
            is_from_initiator=operation.direction == "initiator",
            ulpdu_length=row.ulpdu_length,
            in_order=bool(row.delivered),
        )

    def forget(self, mpa: CapturedConnection) -> None:
        """Release a connection that is over."""
        self._uppers.pop(mpa, None)
        self._requests.pop(mpa, None)
        if self._messages is not None:
            self._messages.forget(mpa)

    def _place_message(self, mpa: CapturedConnection, direction: Role, seq: int, time: int, message: Packet) -> Packet:
        """A message is whole, or no more of it comes."""
        packet = self._over(self._frame_of(mpa.keys[direction], time), message, seq, len(message))
        self._found.append((None, 0, packet))
        return packet

    # --- lower layers ---

    def _remember(self, seg: Segment, packet: Packet, speaks_mpa: bool) -> None:
        """Keep the last frame with data of each half connection that carries MPA, or may turn out to."""
        frames, most = self._last_frames, 2 * DEFAULT_LIMITS.connections
        if not speaks_mpa:
            frames, most = self._unknown_frames, _MOST_UNKNOWN
        elif seg.key in self._unknown_frames:
            del self._unknown_frames[seg.key]
        frame = frames[seg.key] = _frame(packet, _end_of(seg))
        frames.move_to_end(seg.key)
        if len(frames) > most:
            frames.popitem(last=False)
        recent = self._recent_frames
        replaced = recent.pop((seg.key, seg.time), None)
        recent[seg.key, seg.time] = frame
        self._recent_octets += len(frame.octets) - (len(replaced.octets) if replaced is not None else 0)
        while self._recent_octets > _MOST_RECENT:
            self._recent_octets -= len(recent.popitem(last=False)[1].octets)

    def _frame_of(self, key: bytes, time: int) -> _Frame | None:
        """The frame of an event at ``time`` (nanoseconds) in a half connection; None if it is the present packet."""
        last = self._last_frames.get(key) or self._unknown_frames.get(key)
        if (time == self._time and key == self._key) or last is None:
            return None
        # It may have waited until it was known that its receiver took it.
        waited = self._recent_frames.get((key, time))
        if waited is not None:
            return waited
        if time == self._time and self._current is not None:
            return last._replace(time=self._current.time)
        return last._replace(time=EDecimal(time) / _NANOSECONDS)

    def _present(self) -> _Frame:
        assert self._current is not None
        return _frame(self._current, self._end)

    def _over(self, frame: _Frame | None, upper: Packet, seq: int, captured: int, length: int = 0) -> Packet:
        """``upper`` over copies of the lower layers of a frame, or of the present packet.

        It has ``length`` octets at a sequence number, if that is more than ``captured``.
        """
        length = max(captured, length)
        current = self._current
        assert current is not None
        if frame is None:
            if self._is_copied:
                self._lower = self._lower or _LowerLayers(current)
                packet, tcp = self._lower.copy()
            else:
                packet, self._is_copied = _uncounted(current.copy()), True
                tcp = packet[TCP]
            frame = _Frame(type(current), b"", current.time, current.sniffed_on, current.direction, self._end)
        else:
            packet = _uncounted(frame.cls(frame.octets, stop_dissection_after=TCP))
            tcp = packet[TCP]
        _fit(tcp, seq, length, frame.end)
        tcp.add_payload(upper)
        if length > captured:
            _count_cut(packet, length - captured)
        packet.time, packet.sniffed_on, packet.direction = frame.time, frame.sniffed_on, frame.direction
        return packet


def _tell(packet: Packet, found: FoundPacket) -> None:
    """Have a packet know where it comes from; octets that no layer knows are Raw, and do not."""
    if isinstance(packet, _CapturedPacket):
        packet.be_found(found)


def _end_of(seg: Segment) -> int:
    """The sequence number after the payload of a segment."""
    return seg.seq + seg.length & SEQ_MASK


def _frame(packet: Packet, end: int) -> _Frame:
    octets = _captured(packet)
    return _Frame(type(packet), octets, packet.time, packet.sniffed_on, packet.direction, end)


def _uncounted(packet: Packet, counted: int | None = None) -> Packet:
    """The packet without TCP's payload, its lengths and checksums to be computed, or ``counted``."""
    tcp = packet[TCP]
    tcp.remove_payload()
    tcp.chksum = counted
    layer = tcp.underlayer
    while layer is not None:
        if isinstance(layer, IP):
            layer.len, layer.chksum = counted, None
        elif isinstance(layer, IPv6):
            layer.plen = counted
        elif isinstance(layer, UDP):
            layer.len = layer.chksum = counted
        layer = layer.underlayer
    packet.wirelen = None
    return packet


class _LowerLayers:
    """Copies of a packet's layers up to TCP.

    A segment may hold many FPDUs, and Scapy copies each value of each layer, defaults too: that is done once, and the
    copies take over what they hold.
    """

    def __init__(self, packet: Packet) -> None:
        #: Of each layer: its class, the attributes that copies share, dictionaries of values, those of one's own.
        self._layers: list[tuple[type[Packet], list[tuple[str, Any]], list[tuple[str, dict[str, Any], list[str]]]]] = []
        layer: Packet = _uncounted(packet.copy())
        while not isinstance(layer, NoPayload):
            shared, own = [], []
            for name in layer.__all_slots__:
                try:
                    value = object.__getattribute__(layer, name)
                except AttributeError:
                    continue  # it was never set
                if name in _OF_VALUES:
                    own.append((name, value, [key for key, one in value.items() if not isinstance(one, _UNCHANGING)]))
                elif name not in ("payload", "underlayer"):
                    shared.append((name, value))
            self._layers.append((type(layer), shared, own))
            layer = layer.payload

    def copy(self) -> tuple[Packet, Packet]:
        """A copy of the lowest layer, on which the others lie, and its TCP layer."""
        layers: list[Packet] = []
        below: Packet | None = None
        for cls, shared, own in self._layers:
            layer = cls.__new__(cls)
            for name, value in shared:
                _set(layer, name, value)
            for name, values, changing in own:
                copied = values.copy()
                for key in changing:
                    copied[key] = layer.fieldtype[key].do_copy(copied[key])
                _set(layer, name, copied)
            layer.post_transforms = [*layer.post_transforms]
            layer.underlayer, layer.payload = below, NoPayload()
            if below is not None:
                below.payload = layer
            layers.append(layer)
            below = layer
        return layers[0], layers[-1]


#: Attributes of a layer that have values of fields, by the names of these; and types of values that nobody can change.
_OF_VALUES = frozenset(("fields", "default_fields", "overloaded_fields"))
_UNCHANGING = (int, float, str, bytes, type(None))
_set = object.__setattr__


def _fit(tcp: Packet, seq: int, length: int, end: int) -> None:
    """Have a TCP layer, and those below, fit ``length`` octets at a sequence number.

    ``end`` is the sequence number after the octets of the segment that they were of.
    """
    tcp.seq = seq
    flags = int(tcp.flags) & ~SYN
    tcp.flags = flags if seq + length & SEQ_MASK == end else flags & ~(FIN | RST)
    if length > _LONGEST_COUNTED:
        # What no IP header can count goes as hosts hand such segments to an interface that cuts them: without.
        lowest = tcp
        while lowest.underlayer is not None:
            lowest = lowest.underlayer
        _uncounted(lowest, 0)


def _count_cut(packet: Packet, lacking: int) -> None:
    """Have lengths in a packet count this many octets more than it has: the capture cut them."""
    layer = packet[TCP].underlayer
    while layer is not None:
        if isinstance(layer, (IP, UDP)):
            layer.len = len(layer) + lacking
        elif isinstance(layer, IPv6):
            layer.plen = len(layer.payload) + lacking
        layer = layer.underlayer
    packet.wirelen = len(packet) + lacking


def _in_order_of_streams(
    found: list[tuple[FullOperation | None, int, Packet]],
) -> list[tuple[FullOperation | None, int, Packet]]:
    """The same, each half connection's in the order of its stream."""
    turns: dict[FullOperation | None, int] = {}
    for operation, _, _ in found:
        turns.setdefault(operation, len(turns))
    return sorted(found, key=lambda one: (turns[one[0]], one[1]))


def segment_of(packet: Packet, frame: int) -> Segment | None:
    """The TCP segment of a Scapy packet, as the receiver takes it; None if it has none."""
    tcp = packet.getlayer(TCP)
    if tcp is None:
        return None
    ip = tcp.underlayer
    while ip is not None and not isinstance(ip, (IP, IPv6)):
        ip = ip.underlayer
    if ip is None:
        return None
    octets = memoryview(_captured(tcp))
    if len(octets) < _TCP_HEADER:
        return None
    start = (octets[12] >> 4) * 4
    if start < _TCP_HEADER:
        return None
    length = max(len(octets), _tcp_length(ip, tcp)) - start
    if length < 0:
        return None
    start = min(start, len(octets))  # the capture may have cut the header
    header = _captured(ip)
    addresses = header[12:20] if isinstance(ip, IP) else header[8:40]
    seq, ack = int.from_bytes(octets[4:8], "big"), int.from_bytes(octets[8:12], "big")
    time = int(packet.time * _NANOSECONDS)
    key = addresses + bytes(octets[:4])
    return Segment(frame, time, key, seq, ack, octets[13], octets, start, len(octets), 0, length)


def _captured(layer: Packet) -> bytes:
    """The octets of a layer and what is above it, as captured; as built if it was built, or changed since."""
    if layer.original:
        above: Packet = layer
        while not isinstance(above, (NoPayload, Padding)):
            if above.raw_packet_cache is None:
                return bytes(layer.do_build())
            above = above.payload
        return bytes(layer.original)
    return bytes(layer.do_build())


def _tcp_length(ip: Packet, tcp: Packet) -> int:
    """Octets of the TCP segment by the IP header, also of one that the capture cut; 0 if it does not say."""
    if isinstance(ip, IP):
        return (ip.len or 0) - (ip.ihl or 5) * 4
    between = len(ip.original) - 40 - len(tcp.original) if ip.original and tcp.original else 0
    return (ip.plen or 0) - between
