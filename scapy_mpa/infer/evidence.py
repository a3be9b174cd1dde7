"""How much an octet string looks like FPDUs where nothing says so, in bits.

Bits are what the same octets would be worth as a coincidence: n bits of evidence come about by chance once in 2^n
tries.  A good CRC is worth 32; the fields of DDP and RDMAP headers that can have few values (RFC 5041 §4, RFC 5040 §4)
are worth what they leave out, less where they are zero, because zeros are common in any data.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from struct import Struct
from typing import Final

from scapy_mpa.framing.crc import CRC_RESIDUE, crc32c
from scapy_mpa.framing.ddp import QUEUE_OF, TAGGED_HEADER_LENGTH, TAGGED_OPCODES, UNTAGGED_HEADER_LENGTH
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import MARKER_LENGTH, plain_length, wire_length
from scapy_mpa.tuples import NamedTuple

CRC_BITS: Final = 32
#: A Marker that names the start of its FPDU: RESERVED and the two low bits of FPDUPTR may be zero by chance.
MARKER_BITS: Final = 12
#: Of these, what it is worth that FPDUPTR, 16 bits, leads no further back than to the FPDU's start: 512 octets, or it
#: holds more.
FPDUPTR_BITS: Final = 7
#: A Marker before a header: four zero octets, whose FPDUPTR is worth something if those of other Markers are.
LEADING_MARKER_BITS: Final = 4
#: A ULPDU_Length that leads from where one segment begins to where another one does, of the few that there are: less
#: than 16, because other protocols have records with a length, too.
LENGTH_BITS: Final = 8
#: The most that it is worth that a ULPDU_Length is not larger: its first octet may be zero by chance.
_MOST_LENGTH_BITS: Final = 8
#: Headers of the FPDUs before with which the next one is compared, where messages alternate: a bound of time.
COMPARED_HEADERS: Final = 8
#: FPDUs after which a hypothesis needs no more: a bound of time.
ENOUGH_FPDUS: Final = 64
#: Octets of a ULPDU that :func:`header_bits` examines.
HEADER_OCTETS: Final = 18

_INVALIDATING = (4, 6)

#: The control octets and opcode of a tagged header (RFC 5041 §4.1, RFC 5040 §4.1): 16 values in 2^16.
_TAGGED_BITS: Final = 12
#: Those of an untagged one: 80 values in 2^16.
_UNTAGGED_BITS: Final = 9
#: A field of 32 bits that is zero, as it may have to be: little, because zeros are common in any data.
_ZERO_FIELD_BITS: Final = 4
#: A field of 32 bits that has the one value it may have: less than 32, because small numbers are common, too.
_FIELD_BITS: Final = 24
#: A field of 32 bits that is as in the header before, or nearly: half of them, because any record repeats numbers.
_SAME_BITS: Final = 16

#: Where a ULPDU_Length that is not too small, and the control octets of a DDP segment, may stand: T, L, DV 0 or 1
#: and no reserved bit; RV 0 or 1, an opcode there is, tagged as T says.
PLAUSIBLE_HEADER: Final = re.compile(
    rb"(?=(?:[\x01-\xfd].|\x00[\x0e-\xff])"
    rb"(?:[\x80\x81\xc0\xc1][\x00\x02\x40\x42]|[\x00\x01\x40\x41][\x01\x03-\x0b\x41\x43-\x4b]))",
    re.DOTALL,
)

#: The control octets among these, as one number.
PLAUSIBLE_CONTROLS: Final = frozenset(
    (tagged | last | dv) << 8 | rv | opcode
    for tagged, opcodes in ((0x80, (0, 2)), (0, (1, *range(3, 12))))
    for last in (0, 0x40)
    for dv in (0, 1)
    for rv in (0, 0x40)
    for opcode in opcodes
)

_UNTAGGED = Struct(">IIII").unpack_from
_TAGGED = Struct(">IQ").unpack_from


def length_bits(ulpdu_length: int) -> int:
    """Bits of evidence in a ULPDU_Length (RFC 5044 §4.1) that leads to the end of an FPDU: shorter ones are rarer."""
    return min(_MOST_LENGTH_BITS, 16 - ulpdu_length.bit_length())


class Header(NamedTuple):
    """What is kept of a DDP header to compare the next one with."""

    length: int
    control: int
    opcode: int
    #: STag, or queue number and message sequence number.
    buffer: int
    #: Tagged offset or message offset.
    place: int


def header_at(octets: bytes, at: int, ulpdu_length: int) -> Header | None:
    """The DDP header in ``octets`` from ``at``, None if DDP and RDMAP would not send it."""
    control, rdmap = octets[at], octets[at + 1]
    opcode = rdmap & 0x0F
    if control & 0x3E or rdmap & 0xB0 or ulpdu_length > MAX_ULPDU_LENGTH:
        return None
    if control & 0x80:
        if opcode not in TAGGED_OPCODES or ulpdu_length < TAGGED_HEADER_LENGTH:
            return None
        stag, place = _TAGGED(octets, at + 2)
        return Header(ulpdu_length, control, opcode, stag, place)
    if ulpdu_length < UNTAGGED_HEADER_LENGTH or opcode not in QUEUE_OF:
        return None
    _, queue, msn, place = _UNTAGGED(octets, at + 2)
    if queue != QUEUE_OF[opcode] or not msn:
        return None
    return Header(ulpdu_length, control, opcode, msn, place)


def header_bits(octets: bytes, at: int, header: Header) -> int:
    """Bits of evidence in a DDP header alone."""
    if header.control & 0x80:
        return _TAGGED_BITS
    bits = _UNTAGGED_BITS + (_FIELD_BITS if QUEUE_OF[header.opcode] else 2 * _ZERO_FIELD_BITS)
    if header.opcode not in _INVALIDATING and octets[at + 2 : at + 6] == bytes(4):
        bits += _ZERO_FIELD_BITS
    if not header.place:
        bits += _ZERO_FIELD_BITS
    return bits


def succession_bits(earlier: Sequence[Header], header: Header) -> int:
    """Bits of evidence in how a header continues those before it: same buffer, next offset, next message."""
    for before in reversed(earlier[-COMPARED_HEADERS:]):
        if before.control & 0x80 != header.control & 0x80:
            continue
        if header.control & 0x80:
            if before.buffer != header.buffer:
                continue
            payload = before.length - TAGGED_HEADER_LENGTH
            bits = _SAME_BITS if header.buffer else _ZERO_FIELD_BITS
            return bits + (_FIELD_BITS if payload and header.place == before.place + payload else 0)
        if QUEUE_OF[before.opcode] != QUEUE_OF[header.opcode]:
            continue
        return _SAME_BITS if 0 <= header.buffer - before.buffer <= 8 else 0
    return 0


class Chain(NamedTuple):
    """FPDUs that follow one another by their lengths: how many are complete, bits of evidence, where the last ends.

    ``last`` is where the last begins; ``broken`` whether what follows it is there, and none.
    """

    fpdus: int
    bits: int
    end: int
    last: int
    broken: bool = False


def header_chain(octets: bytes, at: int) -> Chain:
    """FPDUs without Markers from ``at`` on that DDP would send, judged by their headers: ENOUGH_FPDUS at most."""
    headers: list[Header] = []
    complete = bits = 0
    size, last = len(octets), at
    while complete < ENOUGH_FPDUS and at + 2 + HEADER_OCTETS <= size:
        ulpdu_length = octets[at] << 8 | octets[at + 1]
        header = header_at(octets, at + 2, ulpdu_length)
        if header is None:
            return Chain(complete, bits, at, last, broken=True)
        end = at + plain_length(ulpdu_length)
        if end > size:
            break
        complete += 1
        bits += header_bits(octets, at + 2, header) + succession_bits(headers, header)
        # Where CRCs are not in use their field is sent as zero (siw), or as anything.
        if octets[end - 4 : end] == b"\0\0\0\0":
            bits += _ZERO_FIELD_BITS
        headers.append(header)
        last, at = at, end
    return Chain(complete, bits, at, last)


def crc_chain(octets: memoryview, at: int) -> Chain:
    """FPDUs without Markers from ``at`` on whose CRCs are good: ENOUGH_FPDUS at most."""
    complete = bits = 0
    size, last = len(octets), at
    for _ in range(ENOUGH_FPDUS):
        if at + 2 > size:
            break
        ulpdu_length = octets[at] << 8 | octets[at + 1]
        end = at + plain_length(ulpdu_length)
        if end > size or crc32c(octets[at:end]) != CRC_RESIDUE:
            break
        # Four zero octets and their CRC32c occur elsewhere too (an iSCSI ping), and are no legal FPDU.
        if ulpdu_length:
            complete += 1
            bits += CRC_BITS + lone_header_bits(octets, at + 2, ulpdu_length)
        last, at = at, end
    return Chain(complete, bits, at, last)


def may_begin_with_fpdu(octets: bytes) -> bool:
    """True if the first octets of a stream may be those of an FPDU: with a Marker before it, or without Markers."""
    view, size = memoryview(octets), len(octets)
    for header in (MARKER_LENGTH, 0):
        if octets[:header] != bytes(header) or size < header + 4:
            continue
        ulpdu_length = octets[header] << 8 | octets[header + 1]
        if not ulpdu_length or not (header or PLAUSIBLE_HEADER.match(octets)):
            continue
        end = wire_length(ulpdu_length, 0) if header else plain_length(ulpdu_length)
        if end > size or crc32c(view[:end]) == CRC_RESIDUE:
            return True
        if not header and not header_chain(octets, 0).broken:
            return True
    return False


def lone_header_bits(octets: bytes | memoryview, at: int, ulpdu_length: int) -> int:
    """Bits of evidence in the DDP header of a ULPDU that begins at ``at``, 0 if it has none that DDP would send."""
    octets = bytes(octets[at : at + HEADER_OCTETS])
    if len(octets) < HEADER_OCTETS:
        return 0
    header = header_at(octets, 0, ulpdu_length)
    return header_bits(octets, 0, header) if header is not None else 0


def is_plausible_control(control: bytes) -> bool:
    """Return True if DDP could have sent these control octets: known opcode, no reserved bit, T as the opcode needs it.

    RFC 5040 §4.1, RFC 5041 §4.1.
    """
    if len(control) < 2 or control[0] & 0x3C or control[0] & 0x03 > 1 or control[1] & 0x30:
        return False
    opcode = control[1] & 0x0F
    return opcode < 12 and (control[0] >> 7 == 1) == (opcode in (0, 2)) and control[1] >> 6 < 2
