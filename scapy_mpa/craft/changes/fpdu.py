"""Changes to FPDUs as they lie in the stream: lengths, PAD, CRC, Markers, and what stands in their place.

The FPDUs of a side are numbered from 1; 0 stands for all that have no change of their own. The CRC is made right
again after a change, unless the exchange is to leave it.
"""

from __future__ import annotations

import random
import struct
from typing import Literal

from scapy_mpa.craft.changes.change import check_names, fpdu_change
from scapy_mpa.craft.changes.draws import among, bits, edge, perhaps, pick, some_octets, up_to
from scapy_mpa.craft.exchange import Exchange
from scapy_mpa.craft.sent import SentFPDU
from scapy_mpa.framing.crc import CRC_LENGTH, crc_field
from scapy_mpa.framing.ddp import is_tagged
from scapy_mpa.framing.fpdu import encode_fpdu
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH

_LARGEST = 0xFFFF
#: Octets that a ULPDU has where headers end, where PAD is another, and where Markers stand around the end of an FPDU.
_SIZES = (0, 1, 2, 13, 14, 17, 18, 21, 22, *range(490, 510), 1010, 1018, 1442, 1443)
#: Bits of the control octets of DDP and RDMAP, and fields of the headers after them: where they stand, their octets.
_CONTROL = {
    "T": (0, 0x80), "L": (0, 0x40), "Rsvd": (0, 0x3C), "DV": (0, 0x03),
    "RV": (1, 0xC0), "Rsv": (1, 0x30), "opcode": (1, 0x0F),
}  # fmt: skip
_TAGGED = {"STag": (2, 4), "TO": (6, 8)}
_UNTAGGED = {"RsvdULP": (2, 4), "QN": (6, 4), "MSN": (10, 4), "MO": (14, 4)}
_FIELDS = (*_CONTROL, *_TAGGED, *_UNTAGGED)


@fpdu_change("fpdu", octets=some_octets(5))
def pad(sent: SentFPDU, octets: bytes) -> bytes:
    """PAD is these octets."""
    return sent.laid(sent.ulpdu, pad=octets)


@fpdu_change("fpdu", "ULPDU_Length, CRC", octets=some_octets(600))
def ulpdu(sent: SentFPDU, octets: bytes) -> bytes:
    """The ULPDU is this one."""
    return sent.laid(octets)


@fpdu_change("ddp", at=up_to(70), octets=some_octets(72, 1))
def ulpdu_octets(sent: SentFPDU, at: int, octets: bytes) -> bytes:
    """The ULPDU has these octets from this index on."""
    return sent.laid(sent.ulpdu[:at] + octets[: max(0, len(sent.ulpdu) - at)] + sent.ulpdu[at + len(octets) :])


def _a_header_field(_: Exchange, rng: random.Random) -> str:
    return pick(rng, _FIELDS)


@fpdu_change("ddp", field=_a_header_field, value=perhaps(up_to(255), 0.5, 0xFFFFFFFF))
def header_field(sent: SentFPDU, field: str, value: int) -> bytes:
    """A field of the DDP or RDMAP header has this value; a header without the field is unchanged."""
    check_names((field,), _FIELDS, "field")
    octets = bytearray(sent.ulpdu)
    if field in _CONTROL:
        at, mask = _CONTROL[field]
        octets[at] = octets[at] & ~mask | value * (mask & -mask) & mask
    else:
        at, size = (_TAGGED if is_tagged(sent.ulpdu) else _UNTAGGED)[field]
        octets[at : at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "big")
    return sent.laid(bytes(octets[: len(sent.ulpdu)]))


def _a_length(_: Exchange, rng: random.Random) -> int:
    return edge(rng, 16, 78)


@fpdu_change("fpdu", value=perhaps(_a_length), more=among(-4, -1, 1, 1, 4, 16))
def ulpdu_length(sent: SentFPDU, *, value: int | None = None, more: int = 0) -> bytes:
    """ULPDU_Length has this value, or is this much larger, and nothing else is changed."""
    length = len(sent.ulpdu) + more if value is None else value
    at = sent.header
    field = (length & _LARGEST).to_bytes(LENGTH_FIELD_LENGTH, "big")
    return sent.sealed(sent.octets[:at] + field + sent.octets[at + LENGTH_FIELD_LENGTH :])


@fpdu_change("fpdu", "ULPDU_Length, PAD, CRC", size=among(*_SIZES))
def resized(sent: SentFPDU, size: int) -> bytes:
    """The ULPDU is cut or extended to this size; ULPDU_Length says so unless lengths are left."""
    more = max(size - len(sent.ulpdu), 0)
    octets = sent.ulpdu[:size] + bytes(range(1, 256))[:more].ljust(more, b"\xa5")
    return sent.laid(octets, ulpdu_length=len(sent.ulpdu) if sent.left == "lengths" else None)


@fpdu_change("fpdu", "", at=perhaps(up_to(24), 0.6, -3), mask=up_to(255, 1))
def damaged(sent: SentFPDU, at: int, mask: int = 1) -> bytes:
    """The octet at this index is changed, and the CRC is not repaired."""
    octets = bytearray(sent.octets)
    octets[at] ^= mask
    return bytes(octets)


@fpdu_change("fpdu", "", value=perhaps(bits(32), 0.6, "reversed"))
def crc(sent: SentFPDU, value: int | Literal["reversed", "inverted"]) -> bytes:
    """The CRC field holds this number, or the right one with its octets reversed or its bits inverted."""
    right = sent.octets[-CRC_LENGTH:]
    if value == "reversed":
        field = right[::-1]
    elif value == "inverted":
        field = bytes(octet ^ 0xFF for octet in right)
    else:
        field = crc_field(value)
    return sent.octets[:-CRC_LENGTH] + field


@fpdu_change(
    "markers", which=among(0, 0, 1, -1), reserved=perhaps(bits(16), 0.3), fpduptr=perhaps(bits(16)),
    more=among(-4, 4, 1, 508, -508), moved=perhaps(among(-4, 4, 1, 8), 0.2, 0),
)  # fmt: skip
def marker(
    sent: SentFPDU,
    which: int = 0,
    *,
    reserved: int | None = None,
    fpduptr: int | None = None,
    more: int = 0,
    moved: int = 0,
) -> bytes:
    """A Marker of the FPDU, from 0 on, has this RESERVED, this FPDUPTR or ``more``, or is ``moved`` octets off."""
    octets, at = bytearray(sent.octets), sent.markers[which]
    said = struct.unpack_from("!HH", octets, at)
    value = (said[1] + more if fpduptr is None else fpduptr) & _LARGEST
    struct.pack_into("!HH", octets, at, said[0] if reserved is None else reserved, value)
    if moved:
        taken = octets[at : at + MARKER_LENGTH]
        del octets[at : at + MARKER_LENGTH]
        place = max(0, at + moved)
        octets[place:place] = taken
    return sent.sealed(bytes(octets))


@fpdu_change("markers", which=among(0, 0, 1, -1))
def marker_left_out(sent: SentFPDU, which: int = 0) -> bytes:
    """A Marker of the FPDU is left out, so everything after it is four octets too early."""
    at = sent.markers[which]
    return sent.sealed(sent.octets[:at] + sent.octets[at + MARKER_LENGTH :])


@fpdu_change("markers", "ULPDU_Length, CRC", distance=among(-8, -4, -2, 0, 2, 4), intervals=up_to(3, 1))
def marker_at_end(sent: SentFPDU, distance: int, intervals: int = 1) -> bytes:
    """The ULPDU is so long that the CRC field begins at this distance from a Marker of the stream."""
    begin = (sent.offset or 0) % MARKER_INTERVAL
    size = (MARKER_INTERVAL - begin) % MARKER_INTERVAL + MARKER_INTERVAL * intervals + distance
    size -= LENGTH_FIELD_LENGTH + MARKER_LENGTH * intervals
    return sent.laid(sent.ulpdu[: max(size, 0)].ljust(size, b"\xa5"))


@fpdu_change("markers")
def unmarked(sent: SentFPDU) -> bytes:
    """The Markers of the FPDU are left out."""
    return encode_fpdu(sent.ulpdu, crc=sent.crc)


@fpdu_change("fpdu", "", keep=among(-1, -2, -4, -8, 0, 1, 2, 10, 20))
def fpdu_cut(sent: SentFPDU, keep: int) -> bytes:
    """Only this many octets of the FPDU are sent; negative: this many are not."""
    return sent.octets[:keep]


@fpdu_change("markers", "", which=among(0, 1), behind=among(False, True))
def cut_at_marker(sent: SentFPDU, which: int, *, behind: bool = False) -> bytes:
    """The FPDU is cut where this Marker begins, or after it."""
    return sent.octets[: sent.markers[which] + (MARKER_LENGTH if behind else 0)]


@fpdu_change("fpdu", "", octets=some_octets(64, 1))
def followed(sent: SentFPDU, octets: bytes) -> bytes:
    """Octets that belong to no FPDU follow the FPDU."""
    return sent.octets + octets


@fpdu_change("startup", "", octets=some_octets(40, 1))
def preceded(sent: SentFPDU, octets: bytes) -> bytes:
    """Octets that belong to no FPDU come before the FPDU."""
    return octets + sent.octets


@fpdu_change("fpdu", "")
def twice(sent: SentFPDU) -> bytes:
    """The FPDU is sent a second time."""
    return sent.octets + sent.octets


@fpdu_change("fpdu", "")
def left_out(sent: SentFPDU) -> bytes:
    """The FPDU is not sent."""
    return b""
