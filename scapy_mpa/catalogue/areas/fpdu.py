"""FPDUs: ULPDU_Length, PAD and CRC, what a ULPDU may hold, and what follows an error (RFC 5044 §4, §8)."""

from __future__ import annotations

from scapy_mpa.catalogue.case import CRC_LEFT, Case, CaseOutcome
from scapy_mpa.catalogue.peer import ACCEPT, BAD_CRC, BAD_MSN, IGNORE, LOSE, MSN_MISSING, STOP, TOO_LONG, peer
from scapy_mpa.craft.changes.fpdu import (
    crc,
    damaged,
    followed,
    fpdu_cut,
    left_out,
    pad,
    resized,
    twice,
    ulpdu,
    ulpdu_length,
)
from scapy_mpa.craft.changes.packets import recut
from scapy_mpa.craft.changes.said import answers, ends, says
from scapy_mpa.craft.changes.startup import setup
from scapy_mpa.craft.ulpdus import rdma_write, send
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH, encode_fpdu
from scapy_mpa.framing.markers import pad_length
from scapy_mpa.framing.startup import startup_frame

_CRC = ("crc", "terminate@peer")
#: What a DDP Segment is, and that a message may be empty.
_SEGMENT, _EMPTY = "RFC 5041 §4.4", "RFC 5041 §5.2"
_FIRST, _SAID = "initiator send 30", "responder send 30"
#: What an EMSS of 1448 octets, of an MTU of 1500 with timestamps, has room for (§4.5).
_MULPDU = 1448 - 6
#: A path with segments of up to 65483 octets, so that the largest FPDUs fit.
_JUMBO = setup(mtu=65535)
_NO_HEADER = peer(
    "accept",
    "It must not act on it: MPA passes on octets that are not a DDP Segment, and no clause says what happens then.",
)


def _octets(count: int) -> bytes:
    """Octets none of which is zero."""
    return bytes(1 + (n * 37 + 11) % 255 for n in range(count))


def _junk(count: int) -> bytes:
    return bytes(n * 37 & 0xFF for n in range(count))


def _sized(size: int, kind: str) -> bytes:
    """A ULPDU of this size: a Send, an RDMA Write, or the beginning of one."""
    if kind == "send":
        return send(2, _octets(max(size - 18, 0)))[:size]
    return rdma_write(0x1000, 0, _octets(max(size - 14, 0)))[:size]


_SIZES = (
    *(
        Case(
            f"ulpdu-length-{size}-{kind}", f"A ULPDU of {size} octet{'s' * (size != 1)}, {what}", "plain",
            (says(_FIRST, _SAID, _sized(size, kind)), answers(None)), raises, take,
            clause=clause,
        )
        for size, kind, what, raises, take, clause in (
            (0, "write", "which carries no DDP Segment", ("ulpdu-length-zero",), _NO_HEADER, "RFC 5044 §3"),
            (1, "write", "not even the control octets", ("ddp-header",), _NO_HEADER, _SEGMENT),
            (13, "write", "one short of a tagged header", ("ddp-header",), _NO_HEADER, _SEGMENT),
            (14, "write", "a tagged header alone", (), ACCEPT, _EMPTY),
            (17, "write", "a tagged header and three octets", (), ACCEPT, _SEGMENT),
            (17, "send", "one short of an untagged header", ("ddp-header",), _NO_HEADER, _SEGMENT),
            (18, "send", "an untagged header alone", (), ACCEPT, _EMPTY),
        )
    ),
    *(
        Case(
            f"ulpdu-length-{name}", f"A ULPDU of {size} octets, {what} where a segment holds 1448", "plain",
            (says(_FIRST, _SAID, _sized(size, "send")),), raises, ACCEPT, clause="RFC 5044 §4.5",
        )
        for name, size, what, raises in (
            ("mulpdu", _MULPDU, "MULPDU", ()),
            ("mulpdu-and-1", _MULPDU + 1, "one above MULPDU", ("fpdu-above-emss",)),
        )
    ),
    *(
        Case(
            f"ulpdu-length-{size}{'-markers' * (baseline == 'markers')}",
            f"A ULPDU of {size} octets, {what}{', with Markers' * (baseline == 'markers')}", baseline,
            (says(_FIRST, _SAID, "initiator send 60"), _JUMBO, ulpdu(2, _sized(size, "write"))), raises, take,
            clause="RFC 5044 §3", left=CRC_LEFT,
        )
        for baseline in ("plain", "markers")
        for size, what, raises, take in (
            (MAX_ULPDU_LENGTH, "the maximum", (), ACCEPT),
            (MAX_ULPDU_LENGTH + 1, "one above the limit", ("ulpdu-length-limit", "terminate@peer"), TOO_LONG),
            (65535, "the largest value of the field", ("ulpdu-length-limit", "terminate@peer"), TOO_LONG),
        )
    ),
)  # fmt: skip

_LENGTHS = (
    Case(
        "length-1-less", "ULPDU_Length is one too small: the last octet of the ULPDU is taken for PAD", "plain",
        (ulpdu_length(2, more=-1),), ("pad",), IGNORE, left=CRC_LEFT,
    ),
    Case(
        "length-1-more", "ULPDU_Length is one too large: the CRC is expected four octets later", "plain",
        (ulpdu_length(2, more=1),), _CRC, BAD_CRC,
    ),
    Case(
        "length-4-less", "ULPDU_Length is four too small: the CRC is expected four octets earlier", "plain",
        (ulpdu_length(2, more=-4),), _CRC, BAD_CRC,
    ),
    Case(
        "length-4-more", "ULPDU_Length is four too large: the CRC is expected in the next FPDU", "plain",
        (ulpdu_length(2, more=4),), _CRC, BAD_CRC,
    ),
    Case(
        "length-0-of-78", "ULPDU_Length is 0 for a ULPDU of 78 octets", "plain", (ulpdu_length(2, value=0),), _CRC,
        BAD_CRC,
    ),
    Case(
        "length-65535-of-78", "ULPDU_Length is 65535 for a ULPDU of 78 octets: the rest never arrives",
        "plain", (ulpdu_length(2, value=65535),), ("fpdu-format",), LOSE,
    ),
    Case(
        "length-65535-of-78-no-crc", "ULPDU_Length is 65535 for a ULPDU of 78 octets, and no CRC is in use", "no-crc",
        (ulpdu_length(2, value=65535),), ("connection-lost",), LOSE,
    ),
    Case(
        "length-swallows-fpdu",
        "ULPDU_Length covers the next FPDU too, and the CRC fits both: one FPDU instead of two",
        "plain",
        (
            says(_FIRST, _SAID, send(2, bytes(20)), send(4, bytes(20))),
            ulpdu(2, send(2, bytes(22) + encode_fpdu(send(3, bytes(20))))),
        ),
        ("ddp-msn",), MSN_MISSING,
    ),
    Case(
        "ulpdu-4-octets-more", "A ULPDU that is four octets longer", "plain", (resized(2, 82),), (), ACCEPT,
        clause="RFC 5044 §4.1", left={**CRC_LEFT, "lengths": CaseOutcome(_CRC, BAD_CRC)},
    ),
    Case(
        "ulpdu-4-octets-less", "A ULPDU that is cut by four octets", "plain", (resized(2, 74),), (), ACCEPT,
        clause="RFC 5044 §4.1", left={**CRC_LEFT, "lengths": CaseOutcome(_CRC, BAD_CRC)},
    ),
)  # fmt: skip

_PADS = (
    *(
        Case(
            f"pad-{pad_length(size)}", f"{what} after octets that are not zero", "plain",
            (says(_FIRST, _SAID, _sized(size, "send"), send(3, b"")),), (), ACCEPT, clause="RFC 5044 §4.1",
        )
        for size, what in ((22, "No PAD"), (21, "One octet of PAD"), (20, "A PAD of two"), (19, "A PAD of three"))
    ),
    *(
        Case(
            f"pad-{octets.hex()}", f"PAD is {octets.hex(' ')}", "plain",
            (says(_FIRST, _SAID, _sized(22 - len(octets), "send"), send(3, b"")), pad(2, octets)), ("pad",), IGNORE,
            left=CRC_LEFT, tests=("receiver-pad",),
        )
        for octets in (b"\x40", b"\0\x40", b"\x01\0", b"\0\0\xff", b"\xff\xff\xff")
    ),
    Case(
        "pad-not-zero-no-crc", "A PAD that is not zero, with no CRC to cover it", "no-crc",
        (says(_FIRST, _SAID, _sized(20, "send"), send(3, b"")), pad(2, b"\0\x40")), ("pad",), IGNORE,
        tests=("receiver-pad",),
    ),
    Case(
        "pad-of-4", "A PAD of four octets where none is needed", "plain", (pad(2, bytes(4)),), _CRC, BAD_CRC,
    ),
    Case(
        "pad-left-out", "No PAD where two octets are needed", "plain",
        (says(_FIRST, _SAID, _sized(20, "send"), send(3, b"")), pad(2, b"")), (*_CRC, "fpdu-format"), BAD_CRC,
    ),
)  # fmt: skip

_CRCS = (
    *(
        Case(f"crc-{name}", purpose, "plain", (change,), _CRC, BAD_CRC, tests=("receiver-crc", "receiver-after-error"))
        for name, purpose, change in (
            ("ulpdu-octet", "One bit of the ULPDU is flipped", damaged(2, 40)),
            ("first-octet", "One bit of the DDP control octet is flipped", damaged(2, 2, 0x20)),
            ("last-octet", "One bit of the last octet of the ULPDU is flipped", damaged(2, -5, 0x80)),
            ("field-first-octet", "One bit of the first octet of the CRC field is flipped", damaged(2, -4)),
            ("field-last-octet", "One bit of the last octet of the CRC field is flipped", damaged(2, -1, 0x80)),
            ("zero", "The CRC field is zero although CRCs are in use", crc(2, 0)),
            ("ones", "The CRC field is all ones", crc(2, 0xFFFFFFFF)),
            ("reversed", "The CRC field has its octets in network byte order", crc(2, "reversed")),
            ("inverted", "The CRC field has its bits inverted: the last step was left out", crc(2, "inverted")),
        )
    ),
    Case(
        "crc-pad-octet", "One bit of PAD is flipped, and the CRC is not recomputed", "plain",
        (says(_FIRST, _SAID, _sized(20, "send"), send(3, b"")), damaged(2, -5)), _CRC, BAD_CRC,
        tests=("receiver-crc",),
    ),
    Case(
        "crc-length-octet", "One bit of ULPDU_Length is flipped, so the start of the next FPDU is lost too", "plain",
        (damaged(2, 1, 0x10),), _CRC, BAD_CRC, tests=("receiver-crc",),
    ),
    Case(
        "crc-first-fpdu", "The first FPDU of the connection has a wrong CRC", "plain",
        (says(_FIRST, "initiator send 40"), damaged(1, 30)), ("crc",), STOP, tests=("receiver-crc",),
    ),
    Case(
        "crc-two-in-a-row", "Two FPDUs in a row have wrong CRCs", "plain", (damaged(2, 40), damaged(3, 40)), _CRC,
        BAD_CRC,
    ),
    Case(
        "crc-of-the-responder", "An FPDU of the Responder has a wrong CRC", "plain", (damaged(2, 40),), _CRC, BAD_CRC,
        by="responder", tests=("receiver-crc",),
    ),
    Case(
        "crc-split-over-segments", "The CRC arrives octet by octet, each in its own segment", "plain",
        (recut(2, -4, -3, -2, -1),), (), ACCEPT, clause="RFC 5044 §6", tests=("receiver-whole-fpdu",),
    ),
    Case(
        "crc-octet-missing", "All of an FPDU except the last octet of its CRC, and then nothing", "plain",
        (says(_FIRST, _SAID, "initiator send 60"), fpdu_cut(2, -1)), ("connection-lost",), LOSE,
        tests=("receiver-whole-fpdu",),
    ),
    Case(
        "crc-off-any-value", "Neither side set C, and the CRC field holds an arbitrary value", "no-crc",
        (crc(2, 0xDEADBEEF),), (), IGNORE, clause="RFC 5044 §4.4", tests=("receiver-crc-off", "crc-off"),
    ),
    Case(
        "crc-off-wrong-bit", "Neither side set C, and the CRC field differs from the CRC32c in one bit", "no-crc",
        (damaged(2, -1),), (), IGNORE, clause="RFC 5044 §4.4", tests=("receiver-crc-off",),
    ),
)  # fmt: skip

_HOLDS = (
    *(
        Case(
            f"ulpdu-holds-{name}", f"A ULPDU that holds {what}", "plain",
            (says(_FIRST, _SAID, send(2, octets), send(3, b"")), *more), (), ACCEPT, clause="RFC 5044 §6",
            tests=("receiver-alignment",) if more else (),
        )
        for name, what, octets, *more in (
            ("request", "an MPA Request", startup_frame("request", c=1).encode()),
            ("reply", "an MPA Reply", startup_frame("reply", c=1).encode()),
            ("fpdu", "an FPDU with a CRC that fits", encode_fpdu(send(9, b"not a message"))),
            ("fpdu-at-a-segment", "an FPDU with a CRC that fits, at the beginning of a segment",
             encode_fpdu(send(9, b"not a message")), recut(2, 20)),
            ("markers", "what looks like Markers, although none are in use", bytes(492) + b"\0\0\0\x08" * 30),
        )
    ),
    Case(
        "fpdu-twice", "An FPDU is sent twice in a row", "plain", (twice(2),),
        ("ddp-msn", "terminate@peer"), BAD_MSN,
    ),
    Case(
        "fpdu-left-out", "An FPDU in the middle of the stream is never sent, and no octet is missing", "plain",
        (says(_FIRST, _SAID, "initiator send 60", "initiator send 60"), left_out(2)), ("ddp-msn",), MSN_MISSING,
    ),
    Case(
        "fpdu-4-zeros-behind", "Four zero octets lie between two FPDUs", "plain", (followed(2, bytes(4)),), _CRC,
        BAD_CRC,
    ),
    Case(
        "fpdu-junk-behind", "After one FPDU, nothing up to the end of the stream is an FPDU", "markers",
        (says(_FIRST, _SAID, "initiator send 60"), setup(mtu=9000), followed(2, _junk(6000))),
        ("crc", "fpdu-format", "terminate@peer"), BAD_CRC,
    ),
)  # fmt: skip

_AFTER = (
    Case(
        "error-closed", "After an FPDU with a wrong CRC, the peer closes silently", "plain",
        (damaged(2, 40), answers(None), ends("fin", "responder")), ("crc", "error-closed@peer"), BAD_CRC,
    ),
    Case(
        "error-passed", "An RDMA Read that was requested after an FPDU with a wrong CRC is answered", "plain",
        (
            says("initiator send 30", "initiator read 100", "initiator send 60", "initiator read-request 100"),
            damaged(3, 40), answers("responder read-response 100"), ends("none"),
        ),
        ("crc", "error-passed@peer"), BAD_CRC, tests=("receiver-after-error",),
    ),
    Case(
        "error-went-on", "The peer continues after an FPDU with a wrong CRC as if nothing were wrong", "plain",
        (
            says("initiator send 30", "initiator send 60", *["initiator send 30", "responder send 30"] * 9),
            damaged(2, 40), answers("responder send 30"), ends("fin", "responder"),
        ),
        ("crc", "error-went-on@peer"), BAD_CRC,
    ),
)  # fmt: skip

_DIALECT = (
    *(
        Case(
            f"deviating-{name}", f"A sender {purpose}", baseline,
            (says(*(f"initiator send {242 + n}" for n in range(8))), setup(deviation=(name, ""))),
            ("deviating-sender",), STOP, breaks=tuple(breaks),
        )
        for name, baseline, purpose, *breaks in (
            ("crc-big-endian", "plain", "whose CRCs are in network byte order throughout", "crc"),
            ("crc-zlib", "plain", "whose CRCs are the CRC-32 of zlib", "crc"),
            ("crc-not-complemented", "plain", "whose CRCs are not complemented at the end", "crc"),
            ("crc-from-zero", "plain", "whose CRCs begin with 0", "crc"),
            ("crc-without-length", "plain", "whose CRCs leave out ULPDU_Length", "crc"),
            ("crc-zero", "plain", "that leaves CRC fields zero although CRCs are in use", "crc"),
            ("crc-without-pad", "plain", "whose CRCs leave out PAD", "crc"),
            ("no-crc-field", "no-crc", "that leaves out the CRC field because CRCs are not in use", "crc-field"),
            ("pad-plus-2", "plain", "whose PAD is (ULPDU_Length + 2) mod 4 octets"),
            ("no-pad", "plain", "that sends no PAD"),
            ("length-with-itself", "plain", "whose ULPDU_Length counts its own two octets"),
            ("length-with-crc", "plain", "whose ULPDU_Length counts the CRC field"),
            ("length-little-endian", "plain", "whose ULPDU_Length is in host byte order"),
        )
    ),
    Case(
        "length-with-pad", "A sender whose ULPDU_Length counts PAD: ULPDUs are longer, and nothing shows the error",
        "plain",
        (says(*(f"initiator send {300 + n}" for n in range(8))), setup(deviation=("length-with-pad", ""))), (), ACCEPT,
        clause="RFC 5044 §4.1",
    ),
)  # fmt: skip

CASES = (*_SIZES, *_LENGTHS, *_PADS, *_CRCS, *_HOLDS, *_AFTER, *_DIALECT)
