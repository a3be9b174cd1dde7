"""Writes pcapng files: one section, one interface or more, enhanced packet blocks (draft-ietf-opsawg-pcapng).

As ``pcapfile``, with times in nanoseconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import BinaryIO, Final, Literal, TypeAlias

from scapy_mpa.craft.pcapfile import LINKTYPE_ETHERNET, SNAPLEN, Packet

_SECTION_HEADER, _INTERFACE_DESCRIPTION, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 6
_BYTE_ORDER_MAGIC = 0x1A2B3C4D
_VERSION = 1, 0
_UNKNOWN_LENGTH = -1
_COMMENT = 1
_IF_TSRESOL, _END_OF_OPTIONS, _NANOSECONDS = 9, 0, 9
_BLOCK_OVERHEAD = 12

#: When (nanoseconds since the epoch), the octets of a packet that were captured, and how many it had.
CutPacket: TypeAlias = "tuple[int, bytes, int]"


class PcapngWriter:
    """Writes the section header and the interface at once, then one block a packet, cut off at ``snaplen``."""

    #: Nanoseconds of which it counts time.
    tick: Final = 1

    def __init__(
        self,
        file: BinaryIO,
        *,
        byteorder: Literal["little", "big"] = "little",
        linktype: int = LINKTYPE_ETHERNET,
        snaplen: int = SNAPLEN,
    ) -> None:
        self._order = "<" if byteorder == "little" else ">"
        self._write = file.write
        self._snaplen = snaplen
        self._packet = struct.Struct(self._order + "IIIIIII")
        self._length = struct.Struct(self._order + "I")
        section = struct.pack(self._order + "IHHq", _BYTE_ORDER_MAGIC, *_VERSION, _UNKNOWN_LENGTH)
        self._interfaces = 0
        self._block(_SECTION_HEADER, section)
        self.add_interface(linktype)

    def add_interface(self, linktype: int) -> int:
        """Describe an interface; return its number, from 0."""
        resolution = struct.pack(self._order + "HHB3xHH", _IF_TSRESOL, 1, _NANOSECONDS, _END_OF_OPTIONS, 0)
        self._block(_INTERFACE_DESCRIPTION, struct.pack(self._order + "HHI", linktype, 0, self._snaplen) + resolution)
        self._interfaces += 1
        return self._interfaces - 1

    def write(self, packets: Iterable[Packet], interface: int = 0, comment: str = "") -> int:
        """Append packets of an interface, each with a comment if one is given; return how many."""
        return self.write_cut(((time, octets, len(octets)) for time, octets in packets), interface, comment)

    def write_cut(self, packets: Iterable[CutPacket], interface: int = 0, comment: str = "") -> int:
        """Append packets whose first octets only were captured, as :meth:`write` does."""
        count = 0
        options = self._comment(comment) if comment else b""
        for time, octets, length in packets:
            kept = octets[: self._snaplen] if len(octets) > self._snaplen else octets
            padding = -len(kept) % 4
            size = _BLOCK_OVERHEAD + 20 + len(kept) + padding + len(options)
            header = self._packet.pack(
                _ENHANCED_PACKET, size, interface, time >> 32, time & 0xFFFFFFFF, len(kept), length
            )
            self._write(header + kept + bytes(padding) + options + self._length.pack(size))
            count += 1
        return count

    def _comment(self, text: str) -> bytes:
        """A comment as the options of a block."""
        octets = text.encode()
        padded = octets + bytes(-len(octets) % 4)
        return struct.pack(self._order + "HH", _COMMENT, len(octets)) + padded + bytes(4)

    def _block(self, kind: int, body: bytes) -> None:
        size = _BLOCK_OVERHEAD + len(body)
        self._write(struct.pack(self._order + "II", kind, size) + body + self._length.pack(size))
