"""DDP and RDMAP headers inside a ULPDU: what an FPDU carries, and why a peer gave up.

DDP headers are RFC 5041 §4, RDMAP's control octet RFC 5040 §4.1, its message names RFC 5040 §4.2 and RFC 7306
§4, and the Terminate message RFC 5040 §4.8. Reading only; the Scapy layers make these messages.

The control word of a Terminate is: layer 4 bits, error type 4 bits, error code 8 bits, M, D, R. The Linux siw
driver lays it out from the least significant bit, so that in the first octet layer and error type change
places and M, D, R are 0x01, 0x02, 0x04 of the third instead of 0x80, 0x40, 0x20. Nothing in the message says
which is meant, so ``decode_terminate`` takes what is a defined error; if both are, or neither is, M, D, R
decide, since RFC 5040 has siw's three bits reserved: siw sets M and D together, and the header that they announce
follows. It quotes none in errors of MPA and of DDP's version; anything else without is RFC 5040's.
"""

from __future__ import annotations

from struct import Struct
from typing import Literal

from scapy_mpa.framing.markers import Octets
from scapy_mpa.tuples import NamedTuple

#: Name of each of the 16 opcodes, None where there is none (RFC 5040 §4.2, RFC 7306 §4).
OPCODE_NAMES: tuple[str | None, ...] = (
    "RDMA Write",
    "RDMA Read Request",
    "RDMA Read Response",
    "Send",
    "Send with Invalidate",
    "Send with SE",
    "Send with SE and Invalidate",
    "Terminate",
    "Immediate Data",
    "Immediate Data with SE",
    "Atomic Request",
    "Atomic Response",
    None,
    None,
    None,
    None,
)

#: Octets of the DDP and RDMAP control fields; a shorter ULPDU has no opcode.
CONTROL_LENGTH = 2
#: Octets of a tagged DDP header (RFC 5041 §4.2).
TAGGED_HEADER_LENGTH = 14
#: Octets of an untagged DDP header (RFC 5041 §4.3).
UNTAGGED_HEADER_LENGTH = 18

#: RDMA Write and RDMA Read Response (RFC 5040 §4.2).
TAGGED_OPCODES = (0, 2)
#: The queue of each untagged message, by opcode (RFC 5040 §4.2, RFC 7306 §4).
QUEUE_OF = {1: 1, 3: 0, 4: 0, 5: 0, 6: 0, 7: 2, 8: 0, 9: 0, 10: 1, 11: 3}
#: Send, Send with Invalidate, Send with SE, Send with SE and Invalidate.
SEND_OPCODES = frozenset((3, 4, 5, 6))
TERMINATE_OPCODE = 7
#: Control octets of an RDMA Write of one DDP Segment, in version 0 and in 1 (RFC 5040 §4.1, RFC 5041 §4.1).
WHOLE_WRITES = (0xC000, 0xC140)
_TERMINATE_CONTROL_LENGTH, _SEGMENT_LENGTH_LENGTH = 4, 2
#: Where a Terminate has its DDP Segment Length.
_QUOTED_LENGTH_AT = UNTAGGED_HEADER_LENGTH + _TERMINATE_CONTROL_LENGTH
#: M and D, and all three bits that follow the error code, as siw lays them out in the third octet.
_SIW_M_AND_D, _SIW_BITS = 0x03, 0x07
#: Layer and error type of MPA's errors (RFC 5044 §8); DDP's error "invalid DDP version" (RFC 5041 §7.2).
_MPA_ERROR, _UNTAGGED_VERSION = (2, 0), (1, 2, 6)

#: What the layer numbers mean (RFC 5040 §4.8).
LAYER_NAMES = ("RDMAP", "DDP", "LLP")

_ANY_CODE: dict[int, str] = {}

# (layer, error type): name of the type, and its codes; no codes: any code, and it says nothing.
_ERRORS: dict[tuple[int, int], tuple[str, dict[int, str]]] = {
    # RFC 5040 §4.8
    (0, 0): ("local catastrophic error", _ANY_CODE),
    (0, 1): (
        "remote protection error",
        {
            0x00: "invalid STag",
            0x01: "base or bounds violation",
            0x02: "access rights violation",
            0x03: "STag not associated with RDMAP Stream",
            0x04: "TO wrap",
            0x09: "STag cannot be invalidated",
            0xFF: "unspecified",
        },
    ),
    (0, 2): (
        "remote operation error",
        {
            0x05: "invalid RDMAP version",
            0x06: "unexpected opcode",
            0x07: "catastrophic error, localized to RDMAP Stream",
            0x08: "catastrophic error, global",
            0x09: "STag cannot be invalidated",
            0xFF: "unspecified",
        },
    ),
    # RFC 5041 §7.2
    (1, 0): ("local catastrophic error", {0x00: ""}),
    (1, 1): (
        "tagged buffer error",
        {
            0x00: "invalid STag",
            0x01: "base or bounds violation",
            0x02: "STag not associated with DDP Stream",
            0x03: "TO wrap",
            0x04: "invalid DDP version",
        },
    ),
    (1, 2): (
        "untagged buffer error",
        {
            0x01: "invalid QN",
            0x02: "invalid MSN, no buffer available",
            0x03: "invalid MSN, out of range",
            0x04: "invalid MO",
            0x05: "message too long for the buffer",
            0x06: "invalid DDP version",
        },
    ),
    (1, 3): ("error of the LLP", _ANY_CODE),
    # RFC 5044 §8, RFC 6581 §8
    (2, 0): (
        "MPA error",
        {
            1: "TCP connection lost",
            2: "CRC does not match",
            3: "Marker and ULPDU_Length disagree",
            4: "invalid startup frame",
            5: "local catastrophic error",
            6: "insufficient IRD resources",
            7: "no matching RTR option",
        },
    ),
}

#: The headers: DDP control, RDMAP control; STag, TO; or RsvdULP, QN, MSN, MO (RFC 5041 §4.2, §4.3).
TAGGED_HEADER = Struct(">BBIQ")
UNTAGGED_HEADER = Struct(">BBIIII")
#: The bits T and L of DDP's control octet (RFC 5041 §4.1).
TAGGED, LAST = 0x80, 0x40
_DDP_VERSION, _OPCODE = 0x03, 0x0F
_RDMAP_VERSION_SHIFT = 6


class TaggedHeader(NamedTuple):
    """A tagged DDP header (RFC 5041 §4.2) and the length in octets of what follows it."""

    last: bool
    dv: int
    rv: int
    opcode: int
    stag: int
    to: int
    payload_length: int


class UntaggedHeader(NamedTuple):
    """An untagged DDP header (RFC 5041 §4.3) and the length in octets of what follows it."""

    last: bool
    dv: int
    rv: int
    opcode: int
    #: Invalidate STag in the Sends that invalidate.
    rsvdulp: int
    qn: int
    msn: int
    mo: int
    payload_length: int


def opcode_of(ulpdu: Octets) -> int | None:
    """The opcode in a ULPDU; None if it has under 2 octets (RFC 5040 §4.1)."""
    return ulpdu[1] & _OPCODE if len(ulpdu) >= CONTROL_LENGTH else None


def opcode_name(ulpdu: Octets) -> str | None:
    """The RDMAP message a ULPDU belongs to; None if it has under 2 octets or an opcode without a name."""
    opcode = opcode_of(ulpdu)
    return None if opcode is None else OPCODE_NAMES[opcode]


def message_and_place(header: TaggedHeader | UntaggedHeader) -> tuple[str, str]:
    """Return the message of a DDP header, and what distinguishes it from others: STag and TO, or MSN, for Sends with
    QN.
    """
    name = OPCODE_NAMES[header.opcode] or f"message with opcode {header.opcode}"
    if isinstance(header, TaggedHeader):
        return name, f"STag {header.stag:#010x}, TO {header.to:#x}"
    is_named_by_opcode = not header.qn or header.opcode in (1, 10)
    return name, f"MSN {header.msn}" if is_named_by_opcode else f"QN {header.qn}, MSN {header.msn}"


def is_tagged(ulpdu: Octets) -> bool:
    """Return True if its T bit makes a ULPDU a tagged DDP segment; an empty one is not."""
    return bool(ulpdu) and bool(ulpdu[0] & TAGGED)


def header_length(ulpdu: Octets) -> int:
    """Octets of the DDP header that a ULPDU must have by its T bit."""
    return TAGGED_HEADER_LENGTH if is_tagged(ulpdu) else UNTAGGED_HEADER_LENGTH


def control_octets(opcode: int, *, tagged: bool, last: bool, version: int) -> tuple[int, int]:
    """DDP's and RDMAP's control octet of a segment; both protocols have the same version (RFC 5044 §C.1)."""
    return (TAGGED if tagged else 0) | (LAST if last else 0) | version, version << _RDMAP_VERSION_SHIFT | opcode


def decode_ddp(ulpdu: Octets) -> TaggedHeader | UntaggedHeader | None:
    """The DDP header of a ULPDU, tagged or untagged by its T bit; None if the ULPDU is too short for it."""
    payload_length = len(ulpdu) - header_length(ulpdu)
    if payload_length < 0:
        return None
    last, dv = bool(ulpdu[0] & LAST), ulpdu[0] & _DDP_VERSION
    rv, opcode = ulpdu[1] >> _RDMAP_VERSION_SHIFT, ulpdu[1] & _OPCODE
    if is_tagged(ulpdu):
        _, _, stag, to = TAGGED_HEADER.unpack_from(ulpdu)
        return TaggedHeader(last, dv, rv, opcode, stag, to, payload_length)
    _, _, rsvdulp, qn, msn, mo = UNTAGGED_HEADER.unpack_from(ulpdu)
    return UntaggedHeader(last, dv, rv, opcode, rsvdulp, qn, msn, mo, payload_length)


class Terminate(NamedTuple):
    """The control word of a Terminate message, and what it says."""

    #: 0 RDMAP, 1 DDP, 2 LLP.
    layer: int
    etype: int
    code: int
    #: DDP Segment Length is valid.
    m: int
    #: The DDP header of what was in error follows.
    d: int
    #: Its RDMAP header follows.
    r: int
    layout: Literal["rfc5040", "siw"]
    meaning: str


def decode_terminate(ulpdu: Octets, ulpdu_length: int | None = None) -> Terminate | None:
    """Read the Terminate message in a ULPDU; None if it is another message or lacks the control word.

    Args:
        ulpdu: its first octets.
        ulpdu_length: octets of all of it, None if these are all.
    """
    ddp = decode_ddp(ulpdu)
    if not isinstance(ddp, UntaggedHeader) or ddp.opcode != TERMINATE_OPCODE:
        return None
    if ddp.payload_length < _TERMINATE_CONTROL_LENGTH:
        return None
    kind, code, header_control = ulpdu[UNTAGGED_HEADER_LENGTH : UNTAGGED_HEADER_LENGTH + 3]
    length = len(ulpdu) if ulpdu_length is None else ulpdu_length
    quoted_length = length - UNTAGGED_HEADER_LENGTH - _TERMINATE_CONTROL_LENGTH - _SEGMENT_LENGTH_LENGTH
    high, low = kind >> 4, kind & 0x0F
    is_siw = header_control & _SIW_M_AND_D == _SIW_M_AND_D and not header_control & 0xE0
    is_siw = is_siw and quoted_length >= TAGGED_HEADER_LENGTH
    if _defined(high, low, code):
        is_siw = is_siw and _defined(low, high, code)
    elif _defined(low, high, code):
        is_siw = is_siw or (low, high) == _MPA_ERROR or (low, high, code) == _UNTAGGED_VERSION
    if is_siw:
        m, d, r = header_control & 1, header_control >> 1 & 1, header_control >> 2 & 1
        return Terminate(low, high, code, m, d, r, "siw", error_meaning(low, high, code))
    m, d, r = header_control >> 7, header_control >> 6 & 1, header_control >> 5 & 1
    return Terminate(high, low, code, m, d, r, "rfc5040", error_meaning(high, low, code))


def terminate_reserved(ulpdu: Octets, layout: Literal["rfc5040", "siw"]) -> int:
    """The 13 reserved bits of the control word in the ULPDU of a Terminate (RFC 5040 §4.8), where they lie there.

    Those of siw are what its layout leaves of the last two octets.
    """
    flags, last = ulpdu[UNTAGGED_HEADER_LENGTH + 2 : UNTAGGED_HEADER_LENGTH + _TERMINATE_CONTROL_LENGTH]
    return (flags & (0x1F if layout == "rfc5040" else 0xFF ^ _SIW_BITS)) << 8 | last


def is_defined(said: Terminate) -> bool:
    """Return True if layer, error type and error code are those of an error that a specification defines."""
    return _defined(said.layer, said.etype, said.code)


def other_reading(said: Terminate) -> Terminate | None:
    """Return the meaning of a control word that is laid out the other way; None if that makes no sense.

    It may be read both ways where no bit of M, D and R is set and both readings name errors that are defined.
    """
    if said.m or said.d or said.r or said.layer == said.etype or not _defined(said.etype, said.layer, said.code):
        return None
    meaning = error_meaning(said.etype, said.layer, said.code)
    layout: Literal["rfc5040", "siw"] = "siw" if said.layout == "rfc5040" else "rfc5040"
    return said._replace(layer=said.etype, etype=said.layer, layout=layout, meaning=meaning)


def quoted_header(ulpdu: Octets, ulpdu_length: int | None = None) -> TaggedHeader | UntaggedHeader | None:
    """The DDP header that the Terminate message in a ULPDU quotes, by its bit D; None if it quotes none, or it is cut.

    Behind the control word comes the DDP Segment Length, which is there with D and valid with M, then the header (RFC
    5040 §4.8); how many octets followed that header, and its ``payload_length``, is what the DDP Segment Length leaves,
    0 without a valid one. Arguments are those of :func:`decode_terminate`.
    """
    said = decode_terminate(ulpdu, ulpdu_length)
    if said is None or not said.d:
        return None
    quoted = bytes(ulpdu[_QUOTED_LENGTH_AT + _SEGMENT_LENGTH_LENGTH :])
    header = decode_ddp(quoted[: header_length(quoted)])
    length = (quoted_length(ulpdu, ulpdu_length) or 0) - header_length(quoted)
    return header._replace(payload_length=max(0, length)) if header is not None else None


def quoted_length(ulpdu: Octets, ulpdu_length: int | None = None) -> int | None:
    """The DDP Segment Length in the ULPDU of a Terminate message, None if its bit M says that there is none.

    Arguments are those of :func:`decode_terminate`.
    """
    said, octets = decode_terminate(ulpdu, ulpdu_length), ulpdu[_QUOTED_LENGTH_AT:][:_SEGMENT_LENGTH_LENGTH]
    is_there = said is not None and said.m and len(octets) == _SEGMENT_LENGTH_LENGTH
    return int.from_bytes(octets, "big") if is_there else None


def _defined(layer: int, etype: int, code: int) -> bool:
    error = _ERRORS.get((layer, etype))
    return error is not None and (error[1] is _ANY_CODE or code in error[1])


def error_meaning(layer: int, etype: int, code: int) -> str:
    """An error in words, as in "DDP tagged buffer error: invalid STag"."""
    layer_name = LAYER_NAMES[layer] if layer < len(LAYER_NAMES) else f"layer {layer}"
    if (layer, etype) not in _ERRORS:
        return f"{layer_name} error type {etype}, code {code}"
    type_name, codes = _ERRORS[layer, etype]
    if codes is _ANY_CODE:
        return f"{layer_name} {type_name}"
    return f"{layer_name} {type_name}: {codes.get(code, f'code {code}')}".removesuffix(": ")
