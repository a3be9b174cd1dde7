"""The input of the receiver: one captured TCP segment.

One is made for every packet of a capture, so where it is compiled its numbers are C's.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from scapy_mpa.framing.markers import Octets

#: Addresses and ports of IPv4.
_KEY_IPV4: Final = Struct("4s4s2s2s")


class Segment:
    """A captured TCP segment.  Nobody changes one.

    Attributes:
        frame: number of the frame in the capture, from 1.
        time: nanoseconds since the epoch.
        key: source address, destination address, source port, destination port (12 or 36 octets); of octets without
            packets one of :data:`STREAM_KEYS`.
        seq: sequence number of its first octet (of the SYN, if it carries one).
        ack: acknowledgement number.
        flags: the low eight flag bits of the TCP header, or :data:`PATH_MTU`.
        buffer: octets that hold the packet.
        start: index in ``buffer`` of the first payload octet.
        end: index in ``buffer`` after the last captured payload octet.
        tcp: index in ``buffer`` of the TCP header, -1 where the header is not kept.
        length: payload octets on the wire; more than ``end - start`` where the capture cut the packet.
    """

    __slots__ = ("ack", "buffer", "end", "flags", "frame", "key", "length", "seq", "start", "tcp", "time")

    def __init__(
        self,
        frame: int,
        time: int,
        key: bytes,
        seq: int,
        ack: int,
        flags: int,
        buffer: memoryview,
        start: int,
        end: int,
        tcp: int,
        length: int,
    ) -> None:
        self.frame, self.time, self.key, self.seq, self.ack, self.flags = frame, time, key, seq, ack, flags
        self.buffer, self.start, self.end, self.tcp, self.length = buffer, start, end, tcp, length

    def __iter__(self) -> Iterator[Any]:
        """Yield its values in the order of its arguments."""
        yield from (self.frame, self.time, self.key, self.seq, self.ack, self.flags)
        yield from (self.buffer, self.start, self.end, self.tcp, self.length)

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Segment) and [*self] == [*other]

    def __hash__(self) -> int:
        return hash((self.frame, self.key, self.seq))

    def __repr__(self) -> str:
        return f"{type(self).__name__}{tuple(self)}"

    def replace(self, **changes: Any) -> Segment:
        """The same segment with other values."""
        return Segment(**(self._values() | changes))

    def _values(self) -> dict[str, Any]:
        return dict(zip(_FIELDS, self, strict=True))


_FIELDS: Final = ("frame", "time", "key", "seq", "ack", "flags", "buffer", "start", "end", "tcp", "length")


class CarriedSegment(Segment):
    """A segment that came through a tunnel, or in fragments.

    Attributes:
        path: tags and tunnels that tell one network from another on the same wire, the outermost first.
        is_fragmented: whether it came in fragments of an IP datagram.
    """

    path: tuple[str, ...]
    is_fragmented: bool

    @classmethod
    def of(cls, seg: Segment, path: tuple[str, ...], is_fragmented: bool) -> CarriedSegment:
        """The same segment, and how it came."""
        found = cls(*seg)
        found.path, found.is_fragmented = path, is_fragmented
        return found

    def replace(self, **changes: Any) -> CarriedSegment:
        """The same segment with other values, which came the same way."""
        return self.of(super().replace(**changes), self.path, self.is_fragmented)


#: The path of the segments of one key.
KeyedPath: TypeAlias = tuple[bytes, tuple[str, ...]]


def path_of(seg: Segment) -> tuple[str, ...]:
    """The tags and tunnels that a segment came through, the outermost first."""
    return seg.path if isinstance(seg, CarriedSegment) else ()


_NO_OCTETS = memoryview(b"")

FIN, SYN, RST, PSH, ACK_FLAG = 0x01, 0x02, 0x04, 0x08, 0x10
#: Beyond TCP's own flags: no segment, but what a router says about one (``values/pathmtu.py``).
PATH_MTU = 0x100
#: A segment with one of these changes the state of the TCP connection; all others only bring octets.
STATE_FLAGS = FIN | SYN | RST | PATH_MTU


def segment(
    frame: int,
    key: bytes,
    seq: int,
    payload: Octets = b"",
    *,
    ack: int = 0,
    flags: int = ACK_FLAG,
    time: int | None = None,
    length: int | None = None,
) -> Segment:
    """A segment from its values, for callers that have no packet around the payload.

    ``time`` is in nanoseconds and defaults to ``frame`` seconds; ``length`` is the number of payload octets
    on the wire and defaults to ``len(payload)``.
    """
    if time is None:
        time = frame * 1_000_000_000
    if length is None:
        length = len(payload)
    return Segment(frame, time, key, seq, ack, flags, memoryview(payload), 0, len(payload), -1, length)


def renumbered(seg: Segment, frame: int) -> Segment:
    """The same segment with another frame number."""
    if type(seg) is not Segment:
        return seg.replace(frame=frame)
    buffer, key = seg.buffer, seg.key
    return Segment(
        frame, seg.time, key, seg.seq, seg.ack, seg.flags, buffer, seg.start, seg.end, seg.tcp, seg.length
    )  # fmt: skip


def detached(seg: Segment) -> Segment:
    """Return the same segment over a buffer of its own, so that the one it was read into can be released."""
    first = seg.start if seg.tcp < 0 else seg.tcp
    frame, time, key, seq, ack, flags, buffer, start, end, tcp, length = seg
    octets = memoryview(bytes(buffer[first:end]))
    return Segment(frame, time, key, seq, ack, flags, octets, start - first, end - first, -1 if tcp < 0 else 0, length)


def bare(seg: Segment) -> Segment:
    """The same segment without its octets, which are released."""
    return seg.replace(buffer=_NO_OCTETS, start=0, end=0, tcp=-1)


#: The keys of octets that came without packets, by who sent them: addresses of one octet, and ports that say nothing.
STREAM_KEYS: dict[str, bytes] = {"initiator": bytes((0, 1, 0, 0, 0, 0)), "responder": bytes((1, 0, 0, 0, 0, 0))}


def is_stream(key: bytes) -> bool:
    """Return True if octets with this key came without packets."""
    return key in STREAM_KEYS.values()


def reverse_key(key: bytes) -> bytes:
    """The key of the opposite direction."""
    if len(key) == _KEY_IPV4.size:
        source, destination, source_port, destination_port = _KEY_IPV4.unpack(key)
        return _KEY_IPV4.pack(destination, source, destination_port, source_port)
    address = (len(key) - 4) // 2
    return key[address : 2 * address] + key[:address] + key[-2:] + key[-4:-2]


def addresses_of(key: bytes) -> tuple[bytes, bytes]:
    """The octets of both IP addresses of a key."""
    size = (len(key) - 4) // 2
    return key[:size], key[size : 2 * size]


def endpoints(key: bytes) -> tuple[str, str]:
    """Source and destination as ``address:port``, IPv6 addresses in brackets (RFC 5952 form).

    Of octets without packets, whose addresses nobody knows, ``initiator`` and ``responder``.
    """
    size = (len(key) - 4) // 2
    if size == 4:
        a, b, c, d, e, f, g, h = key[:8]
        return (
            f"{a}.{b}.{c}.{d}:{key[8] << 8 | key[9]}",
            f"{e}.{f}.{g}.{h}:{key[10] << 8 | key[11]}",
        )
    if size == 1:
        return ("initiator", "responder") if key == STREAM_KEYS["initiator"] else ("responder", "initiator")
    from ipaddress import IPv6Address

    names = []
    for index in (0, 1):
        octets = key[index * size : (index + 1) * size]
        port = int.from_bytes(key[2 * size + 2 * index : 2 * size + 2 * index + 2], "big")
        names.append(f"[{IPv6Address(octets)}]:{port}")
    return names[0], names[1]


def checksum_is_right(seg: Segment) -> bool:
    """Return True if the TCP checksum of a segment, all of which was captured, is right."""
    tcp, end = seg.tcp, seg.end
    return tcp >= 0 and end - seg.start == seg.length and _sum(seg) == 0


def _sum(seg: Segment) -> int:
    """The sum over pseudo-header, header and payload: 0 if the checksum is right (RFC 9293 §3.1)."""
    octets = seg.buffer[seg.tcp : seg.end]
    # Folding to 16 bits is a remainder modulo 65535, so the words need not be added one by one (RFC 1071).
    pseudo = int.from_bytes(seg.key[:-4], "big") + 6 + len(octets)
    padded = bytes(octets) + b"\0" * (len(octets) & 1)
    return (int.from_bytes(padded, "big") + pseudo) % 0xFFFF


def checksum_is_wrong(seg: Segment) -> bool:
    """Return True if a receiver would have dropped this segment for its TCP checksum.

    True only where that can be known: the whole segment was captured, and its checksum is neither right, nor
    zero, nor the sum over the pseudo-header alone that a host with checksum offload leaves in the field.
    """
    tcp, end = seg.tcp, seg.end
    if tcp < 0 or end - seg.start != seg.length:
        return False
    octets = seg.buffer[tcp:end]
    found = octets[16] << 8 | octets[17]
    if found == 0:
        return False
    if _sum(seg) == 0:
        return False
    pseudo = int.from_bytes(seg.key[:-4], "big") + 6 + len(octets)
    # Large-send offload leaves the sum without the length (it differs for each segment that goes out).
    return (found - pseudo) % 0xFFFF != 0 and (found - pseudo + len(octets)) % 0xFFFF != 0
