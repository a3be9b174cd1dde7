"""An FPDU laid out octet by octet, written from the specification and sharing no code with the package.

The CRC here is the definition, Markers are found by asking each stream position, and nothing is computed from
a length that could be counted instead.
"""

from __future__ import annotations


def crc32c(octets: bytes) -> int:
    """CRC32c by its definition: reflected polynomial 0x82F63B78, one bit at a time."""
    register = 0xFFFFFFFF
    for octet in octets:
        register ^= octet
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


def crc32c_step(octet: int) -> int:
    """The remainder of one octet."""
    for _ in range(8):
        octet = (octet >> 1) ^ (0x82F63B78 if octet & 1 else 0)
    return octet


_TABLE = [crc32c_step(octet) for octet in range(256)]


def crc32c_fast(octets: bytes) -> int:
    """CRC32c, an octet at a time."""
    register = 0xFFFFFFFF
    for octet in octets:
        register = (register >> 8) ^ _TABLE[(register ^ octet) & 0xFF]
    return register ^ 0xFFFFFFFF


def fpdu(ulpdu: bytes, offset: int, origin: str) -> tuple[bytes, list[tuple[int, int]]]:
    """(octets, [(Marker offset, FPDUPTR)]) of the FPDU with ``ulpdu`` that begins at stream ``offset``."""
    body = bytearray((len(ulpdu) >> 8, len(ulpdu) & 0xFF)) + ulpdu
    while len(body) % 4:
        body.append(0)
    wire = bytearray()
    markers: list[tuple[int, int]] = []
    header = None

    def marker_if_due() -> None:
        position = offset + len(wire)
        if position % 512 == 0:
            if header is None:
                pointer = 0
            elif origin == "header":
                pointer = position - header
            else:
                pointer = position - offset
            markers.append((position, pointer))
            wire.extend((0, 0, pointer >> 8 & 0xFF, pointer & 0xFF))

    for octet in body:
        marker_if_due()
        if header is None:
            header = offset + len(wire)
        wire.append(octet)
    marker_if_due()  # between PAD and CRC
    crc = crc32c_fast(bytes(wire))
    for shift in (0, 8, 16, 24):
        wire.append(crc >> shift & 0xFF)
    return bytes(wire), markers
