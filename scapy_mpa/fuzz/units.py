"""What a side sends, unit by unit: startup frames, FPDUs and other octets, in parts that can be right or wrong.

A part that is None is computed when the unit is encoded, one that is given is sent as it is, as in Scapy's layers. So
a mutation changes one part, and says whether what depends on it (a length, a CRC) follows or stays as it was.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_field
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, Origin, encode_marker, marker_positions
from scapy_mpa.framing.startup import REPLY_KEY, REQUEST_KEY, C, M, R, S, StartupFrame

_FIELD = 0xFFFF


class Way(NamedTuple):
    """How a side lays its FPDUs: what was agreed on, or what it does all the same."""

    markers: bool
    crc: bool
    origin: Origin = "header"


@dataclass
class Plain:
    """Octets that are neither a startup frame nor an FPDU."""

    name: str
    octets: bytes

    def encode(self) -> bytes:
        """The octets."""
        return self.octets


@dataclass
class Startup:
    """A Request or a Reply (RFC 5044 §7.1.1)."""

    name: str
    key: bytes
    flags: int
    rev: int
    private_data: bytes
    pd_length: int | None = None

    def encode(self) -> bytes:
        """The octets."""
        length = len(self.private_data) if self.pd_length is None else self.pd_length
        header = self.key + bytes((self.flags & 0xFF, self.rev & 0xFF)) + (length & _FIELD).to_bytes(2, "big")
        return header + self.private_data


def startup_of(frame: StartupFrame, name: str) -> Startup:
    """A startup frame in its parts."""
    flags = frame.res
    for bit, value in ((M, frame.m), (C, frame.c), (R, frame.r), (S, frame.s)):
        flags |= bit if value else 0
    key = REQUEST_KEY if frame.kind == "request" else REPLY_KEY
    pd_length = None if frame.pd_length == len(frame.private_data) else frame.pd_length
    return Startup(name, key, flags, frame.rev, frame.private_data, pd_length)


@dataclass
class FPDUUnit:
    """An FPDU (RFC 5044 §4)."""

    name: str
    ulpdu: bytes
    #: Its ULPDU before it was mutated.
    was: bytes
    ulpdu_length: int | None = None
    pad: bytes | None = None
    #: ``right``, ``stale`` (that of what it was), or a value.
    crc: Literal["right", "stale"] | int = "right"
    #: What Markers say, by their number: (RESERVED, FPDUPTR), None as computed.
    markers: dict[int, tuple[int, int | None]] | None = None
    #: The number of a Marker that is not there.
    missing: int | None = None
    #: Octets changed behind the sender's back: (index, mask).
    damage: tuple[tuple[int, int], ...] = ()
    #: How many octets are sent.
    cut: int | None = None
    #: What follows.
    tail: bytes = b""

    def encode(self, way: Way, offset: int) -> bytes:
        """The octets, beginning at an offset from SeqStart, which is not inside a Marker."""
        crc: bool | int = self.crc if isinstance(self.crc, int) else way.crc
        if self.crc == "stale" and way.crc:
            crc = self._stale_crc(way, offset)
        octets = encode_fpdu(
            self.ulpdu,
            offset if way.markers else None,
            origin=way.origin,
            crc=crc,
            pad=self.pad,
            ulpdu_length=len(self.ulpdu) & _FIELD if self.ulpdu_length is None else self.ulpdu_length & _FIELD,
            allow_oversize=True,
        )
        if self.markers and way.markers:
            octets = self._with_markers(octets, offset, repair=way.crc and self.crc == "right")
        if self.missing is not None and way.markers:
            found = marker_positions(offset, offset + len(octets) - MARKER_LENGTH + 1)
            if found:
                at = found[self.missing % len(found)] - offset
                octets = octets[:at] + octets[at + MARKER_LENGTH :]
        for index, mask in self.damage:
            at = index % len(octets)
            octets = octets[:at] + bytes((octets[at] ^ mask,)) + octets[at + 1 :]
        return octets[: self.cut] + self.tail

    def _stale_crc(self, way: Way, offset: int) -> int:
        """The CRC that it had before it was mutated."""
        octets = encode_fpdu(self.was, offset if way.markers else None, origin=way.origin, allow_oversize=True)
        return int.from_bytes(octets[-CRC_LENGTH:], "little")

    def _with_markers(self, octets: bytes, offset: int, *, repair: bool) -> bytes:
        """Markers that say something else; perhaps with a CRC that covers them."""
        laid = bytearray(octets)
        assert self.markers is not None
        for number, position in enumerate(marker_positions(offset, offset + len(laid) - MARKER_LENGTH + 1)):
            if number in self.markers:
                at = position - offset
                reserved, fpduptr = self.markers[number]
                if fpduptr is None:
                    fpduptr = int.from_bytes(laid[at + 2 : at + 4], "big")
                laid[at : at + MARKER_LENGTH] = encode_marker(fpduptr & _FIELD, reserved & _FIELD)
        if repair:
            laid[-CRC_LENGTH:] = crc_field(crc32c(memoryview(laid)[:-CRC_LENGTH]))
        return bytes(laid)


Unit = Plain | Startup | FPDUUnit


def first_free(offset: int) -> int:
    """The first offset from this one on at which an FPDU can begin in a stream with Markers: not inside one."""
    inside = offset % MARKER_INTERVAL
    return offset - inside + MARKER_LENGTH if 0 < inside < MARKER_LENGTH else offset


def copy_of(unit: Unit) -> Unit:
    """One that may be changed by itself."""
    return replace(unit)
