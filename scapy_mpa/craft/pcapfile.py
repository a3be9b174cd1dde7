"""Writes classic pcap files: either byte order, times in micro- or nanoseconds (draft-ietf-opsawg-pcap).

Packets go in with their time in nanoseconds since the epoch, octets go out to a binary file that the caller
opened.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import BinaryIO, Literal

#: When it was captured, in nanoseconds since the epoch, and its octets.
Packet = tuple[int, bytes]

LINKTYPE_ETHERNET = 1
_MAGIC_MICROSECONDS, _MAGIC_NANOSECONDS = 0xA1B2C3D4, 0xA1B23C4D
_VERSION = 2, 4
SNAPLEN = 262144
_NANOSECONDS = 1_000_000_000


class PcapWriter:
    """Writes the file header at once, then one record a packet; octets beyond ``snaplen`` are cut off."""

    def __init__(
        self,
        file: BinaryIO,
        *,
        byteorder: Literal["little", "big"] = "little",
        nanoseconds: bool = False,
        linktype: int = LINKTYPE_ETHERNET,
        snaplen: int = SNAPLEN,
    ) -> None:
        order = "<" if byteorder == "little" else ">"
        magic = _MAGIC_NANOSECONDS if nanoseconds else _MAGIC_MICROSECONDS
        self._write = file.write
        self._record = struct.Struct(order + "IIII")
        #: Nanoseconds of which it counts time.
        self.tick = 1 if nanoseconds else 1000
        self._snaplen = snaplen
        self._write(struct.pack(order + "IHHiIII", magic, *_VERSION, 0, 0, snaplen, linktype))

    def write(self, packets: Iterable[Packet], snaplen: int | None = None) -> int:
        """Append packets, of these perhaps fewer octets than of others; return how many."""
        write, record, tick = self._write, self._record.pack, self.tick
        snaplen = self._snaplen if snaplen is None else min(snaplen, self._snaplen)
        count = 0
        for time, octets in packets:
            seconds, fraction = divmod(time, _NANOSECONDS)
            length = len(octets)
            if length > snaplen:
                write(record(seconds, fraction // tick, snaplen, length) + octets[:snaplen])
            else:
                write(record(seconds, fraction // tick, length, length) + octets)
            count += 1
        return count
