"""PDUs as Wireshark exports them: link type 252, LINKTYPE_WIRESHARK_UPPER_PDU (tcpdump.org's list of link types).

In front of the PDU stand tags, each a type and a length of 16 bits, big-endian, and a value: the dissector that reads
the PDU, addresses and ports, the number of the frame that it was taken from. A tag of type 0 ends them.
"""

from __future__ import annotations

from struct import Struct

from scapy_mpa.errors import FramingError
from scapy_mpa.tuples import NamedTuple

LINKTYPE_WIRESHARK_UPPER_PDU = 252
#: The name under which Wireshark has its dissector of a ULPDU (DDP and RDMAP).
DISSECTOR = "iwarp_ddp_rdmap"

_END, _DISSECTOR_NAME = 0, 12
#: Types of the tags with the source's address, and the destination's, by the octets of an address.
_ADDRESSES = {4: (20, 21), 16: (22, 23)}
_PORT_TYPE, _SOURCE_PORT, _DESTINATION_PORT, _ORIGINAL_FRAME = 24, 25, 26, 30
_TCP = 2
_TAG, _NUMBER = Struct(">HH"), Struct(">I")
_LARGEST_NUMBER = 0xFFFFFFFF


class UpperPDU(NamedTuple):
    """A PDU, the dissector for it, its key (addresses and ports of sender and receiver), the frame it was in."""

    dissector: str
    key: bytes
    frame: int
    pdu: bytes

    def encode(self) -> bytes:
        """The octets of the record."""
        size = (len(self.key) - 4) // 2
        source, destination = _ADDRESSES[size]
        return b"".join(
            (
                # Values are multiples of four octets, for readers that are particular about that.
                _tag(_DISSECTOR_NAME, self.dissector.encode() + bytes(-len(self.dissector) % 4)),
                _tag(source, self.key[:size]),
                _tag(destination, self.key[size : 2 * size]),
                _tag(_PORT_TYPE, _NUMBER.pack(_TCP)),
                _tag(_SOURCE_PORT, b"\0\0" + self.key[-4:-2]),
                _tag(_DESTINATION_PORT, b"\0\0" + self.key[-2:]),
                _tag(_ORIGINAL_FRAME, _NUMBER.pack(min(self.frame, _LARGEST_NUMBER))),
                _tag(_END, b""),
                self.pdu,
            )
        )

    @classmethod
    def decode(cls, octets: bytes) -> UpperPDU:
        """Read a record with the tags that :meth:`encode` writes; FramingError for one that lacks any of them."""
        tags: dict[int, bytes] = {}
        at = 0
        while len(octets) - at >= _TAG.size:
            kind, length = _TAG.unpack_from(octets, at)
            at += _TAG.size
            if kind == _END:
                break
            tags.setdefault(kind, octets[at : at + length])
            at += length
        for source, destination in _ADDRESSES.values():
            if source in tags:
                try:
                    key = tags[source] + tags[destination] + tags[_SOURCE_PORT][2:] + tags[_DESTINATION_PORT][2:]
                    (frame,) = _NUMBER.unpack(tags[_ORIGINAL_FRAME])
                    return cls(tags[_DISSECTOR_NAME].rstrip(b"\0").decode("ascii"), key, frame, octets[at:])
                except (KeyError, ValueError, UnicodeDecodeError) as error:
                    raise FramingError(f"an exported PDU without the tags of a TCP connection: {error}") from error
        raise FramingError("an exported PDU without an IP address")


def _tag(kind: int, value: bytes) -> bytes:
    return _TAG.pack(kind, len(value)) + value
