"""Packets that the user has at a Scapy prompt, as a capture."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from scapy_mpa.capture.link import ETHERNET, RAW
from scapy_mpa.errors import CaptureError

if TYPE_CHECKING:
    from scapy.packet import Packet


def packets_in(given: object) -> Iterator[Packet] | None:
    """Return the packets of a packet, or of what yields packets (``rdpcap``'s list); None if it is none of these."""
    if "scapy.packet" not in sys.modules or isinstance(given, (str, bytes, PathLike)) or hasattr(given, "read"):
        return None
    from scapy.packet import Packet

    if isinstance(given, Packet):
        return iter((given,))
    if not isinstance(given, Iterable):
        return None
    from scapy.plist import PacketList

    # What can be gone through only once holds packets, or nothing that can be read.
    beginning = iter(given)
    first = next(beginning, None)
    if isinstance(first, Packet):
        return chain((first,), beginning)
    return iter(()) if isinstance(given, PacketList) else None


def capture_of(packets: Iterable[Packet]) -> BytesIO:
    """Return packets as an open capture file, with the octets that they were read with, or would have on the wire.

    It is in memory, as the packets of a list are.

    Raises CaptureError for a packet of a layer with which no capture file begins, or of another one than the first.
    """
    from scapy.utils import PcapWriter

    file = BytesIO()
    link_type: int | None = None
    writer: PcapWriter | None = None
    for number, packet in enumerate(packets, 1):
        found = _link_type(packet)
        if found is None or link_type not in (None, found):
            kind = packet.__class__.__name__
            what = "no capture begins with that" if found is None else "those before are of another link type"
            raise CaptureError(f"packet {number} is of class {kind}: {what}")
        if writer is None:
            writer, link_type = PcapWriter(cast(Any, file), linktype=found, nano=True), found
        writer.write(packet)
    if writer is None:
        PcapWriter(cast(Any, file), linktype=ETHERNET, nano=True).write_header(None)
    file.seek(0)
    return file


def _link_type(packet: Packet) -> int | None:
    from scapy.config import conf
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6

    if isinstance(packet, (IP, IPv6)):
        return RAW
    number: int | None = conf.l2types.layer2num.get(packet.__class__)
    return number
