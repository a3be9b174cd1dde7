"""Scapy packets of every format of captures that is read here, which are more than Scapy reads."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from scapy.config import conf
from scapy.layers.inet import IP
from scapy.layers.inet6 import IPv6
from scapy.packet import Packet, Raw
from scapy.utils import EDecimal

from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.link import ETHERNET
from scapy_mpa.capture.named import CaptureSource
from scapy_mpa.errors import CaptureError
from scapy_mpa.system.names import printable

_NANOSECONDS = Decimal(10) ** 9


def packets(capture: CaptureSource) -> Iterator[Packet]:
    """Yield the packets of a capture, each with its time and its length on the wire (octets), in bounded memory.

    Args:
        capture: A path or an open binary file: pcap, pcapng or snoop, compressed with gzip or zstd or not.

    Raises:
        CaptureError: The capture cannot be opened, or not read to its end; then after the packets that can be read.
    """
    with Captures(capture) as captures:
        (reader,) = captures.readers
        try:
            for time, link_type, octets, wire in reader.records():
                packet = _class_of(link_type, octets)(octets)
                packet.time, packet.wirelen = EDecimal(time) / _NANOSECONDS, wire
                yield packet
        except OSError as error:
            raise CaptureError(f"{printable(reader.name)}: {error.strerror or error}") from error
        if reader.damage:
            raise CaptureError(f"{printable(reader.name)}: {reader.damage}")


def _class_of(link_type: int, octets: bytes) -> type[Packet]:
    if link_type != ETHERNET and link_type not in conf.l2types.num2layer:
        version = octets[0] >> 4 if octets else 0
        return {4: IP, 6: IPv6}.get(version, Raw)
    known: type[Packet] = conf.l2types.num2layer[link_type]
    return known
