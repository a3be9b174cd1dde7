"""Locate ESP in an IP packet, and under UDP (RFC 4303 §2, RFC 3948 §2.1); :mod:`~scapy_mpa.capture.esp` decrypts it."""

from __future__ import annotations

from typing import Final

from scapy_mpa.capture.ip import PROTOCOL_ESP, PROTOCOL_UDP, Packet
from scapy_mpa.capture.notes import Notes
from scapy_mpa.ipsec.algorithms import ESP_HEADER_LENGTH

_UDP_HEADER: Final = 8
_UDP_PORT, _VXLAN_PORT = 4500, 4789
#: What stands in place of an SPI before IKE (RFC 3948 §2.2).
_NON_ESP_MARKER: Final = bytes(4)


def sealed_in(packet: Packet, octets: memoryview, end: int) -> tuple[int, int, int] | None:
    """Return where ESP begins in the payload of an IP packet, where it ends, and where it ended on the wire; None if
    there is none.

    Keepalives and IKE on the port of both are not ESP (RFC 3948 §2.2, §2.3).
    """
    if packet.protocol == PROTOCOL_ESP:
        return packet.at, end, packet.wire_end
    at = packet.at
    if packet.protocol != PROTOCOL_UDP or end - at < _UDP_HEADER:
        return None
    ports = octets[at] << 8 | octets[at + 1], octets[at + 2] << 8 | octets[at + 3]
    if _UDP_PORT not in ports or ports[1] == _VXLAN_PORT:
        return None
    length = octets[at + 4] << 8 | octets[at + 5]
    wire_end = at + length if length else packet.wire_end
    start = at + _UDP_HEADER
    end = min(end, wire_end)
    if wire_end > packet.wire_end or end - start < ESP_HEADER_LENGTH or octets[start : start + 4] == _NON_ESP_MARKER:
        return None
    return start, end, wire_end


def note_without_keys(notes: Notes, frame: int, time: int) -> None:
    """Have the report say that ESP was seen, and that no keys were given."""
    notes.add("esp", frame, time, "ESP packets are not decrypted (--esp FILE gives the keys)")
