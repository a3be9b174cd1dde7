"""Markers: where they stand, where they point, and who asked for them (RFC 5044 §4.2, §4.3)."""

from __future__ import annotations

from scapy_mpa.catalogue.case import CRC_LEFT, Case
from scapy_mpa.catalogue.peer import ACCEPT, BAD_CRC, BAD_MARKER, IGNORE, STOP
from scapy_mpa.craft.changes.change import NamedChange
from scapy_mpa.craft.changes.fpdu import damaged, followed, marker, ulpdu_length, unmarked
from scapy_mpa.craft.changes.said import answers, says
from scapy_mpa.craft.changes.startup import setup
from scapy_mpa.craft.ulpdus import send
from scapy_mpa.framing.markers import MARKER_INTERVAL, pad_length

_FIRST, _SAID = "initiator send 30", "responder send 30"
_WRONG = ("marker-length", "terminate@peer")
_TESTED = ("receiver-marker-length",)
#: Octets of an FPDU around its ULPDU, a leading Marker, and the header of a Send.
_AROUND, _LEADING, _HEADER = 6, 4, 18


def _with_marker_at(place: int, size: int = 20) -> NamedChange:
    """The second FPDU, of a ULPDU of ``size`` octets, has its one Marker at this octet; the first is so long."""
    first = MARKER_INTERVAL - place - _LEADING - _AROUND
    return says(send(1, bytes(first - _HEADER)), _SAID, send(2, b"\xff" * (size - _HEADER)), send(3, bytes(40)))


def _where(place: int) -> str:
    return {0: "before ULPDU_Length", 24: "between PAD and CRC"}.get(place, f"{place} octets into the FPDU")


#: The second FPDU holds two Markers.
_TWO = says(_FIRST, _SAID, send(2, bytes(1000)), send(3, bytes(40)))

_PLACES = (
    *(
        Case(
            f"marker-at-{place}", f"A Marker {_where(place)}", "markers", (_with_marker_at(place),), (), ACCEPT,
            clause="RFC 5044 §4.3",
        )
        for place in range(0, 28, 4)
    ),
    *(
        Case(
            f"marker-before-crc-pad-{pad_length(size)}", f"A Marker after a PAD of {pad_length(size)} octets, before"
            " the CRC", "markers", (_with_marker_at(2 + size + pad_length(size), size),), (), ACCEPT,
            clause="RFC 5044 §4.3",
        )
        for size in (22, 21, 20, 19)
    ),
    Case(
        "fpdu-with-two-markers", "An FPDU that holds two Markers", "markers", (_TWO,), (), ACCEPT,
        clause="RFC 5044 §4.3",
    ),
    Case(
        "fpdu-of-markers-length", "FPDUs of 508 octets, each of which begins with a Marker", "markers",
        (says(send(1, bytes(484)), _SAID, *(send(msn, bytes(484)) for msn in range(2, 6))),), (), ACCEPT,
        clause="RFC 5044 §4.3",
    ),
    Case(
        "ulpdu-holds-fake-markers", "A ULPDU full of false Markers with other starts, between the real ones", "markers",
        (says(_FIRST, _SAID, send(2, b"\0\0\0\x40" * 200), send(3, bytes(40))),), (), ACCEPT, clause="RFC 5044 §4.3",
    ),
)  # fmt: skip

_POINTERS = (
    *(
        Case(
            f"fpduptr-{name}-at-{place}", f"The Marker {_where(place)} names a start {what}", "markers",
            (_with_marker_at(place), marker(2, fpduptr=fpduptr, more=more)), _WRONG, BAD_MARKER, tests=_TESTED,
            left=CRC_LEFT,
        )
        for place, name, what, fpduptr, more in (
            (0, "back", "in the FPDU before", None, 8),
            (0, "far", "65532 octets back", 0xFFFC, 0),
            (4, "zero", "right after it, as if it were between two FPDUs", 0, 0),
            (12, "4-more", "four octets too early", None, 4),
            (12, "4-less", "four octets too late", None, -4),
            (24, "zero", "right after it, as if it were between two FPDUs", 0, 0),
            (24, "far", "65532 octets back", 0xFFFC, 0),
        )
    ),
    Case(
        "fpduptr-4-more-no-crc", "A Marker names a start four octets too early, and there is no CRC", "markers-no-crc",
        (_with_marker_at(12), marker(2, more=4)), _WRONG, BAD_MARKER, tests=_TESTED,
    ),
    Case(
        "markers-disagree", "Two Markers of an FPDU name different starts, the second the right one", "markers",
        (_TWO, marker(2, 0, more=8)), (*_WRONG, "marker-agree"), BAD_MARKER, tests=_TESTED, left=CRC_LEFT,
    ),
    Case(
        "markers-disagree-last", "Two Markers of an FPDU name different starts, the first the right one", "markers",
        (_TWO, marker(2, 1, more=8)), (*_WRONG, "marker-agree"), BAD_MARKER, tests=_TESTED, left=CRC_LEFT,
    ),
    Case(
        "markers-agree-on-another-start", "Both Markers of an FPDU name the same wrong start", "markers",
        (_TWO, marker(2, 0, more=8), marker(2, 1, more=8)), _WRONG, BAD_MARKER, tests=_TESTED, left=CRC_LEFT,
    ),
    *(
        Case(
            f"fpduptr-low-bits-{bits}", f"FPDUPTR has its lowest two bits at {bits:02b}", "markers",
            (_with_marker_at(12), marker(2, more=bits)), ("fpduptr-low-bits",), IGNORE,
            tests=("receiver-fpduptr-low-bits",), left=CRC_LEFT,
        )
        for bits in (1, 2, 3)
    ),
    *(
        Case(
            f"marker-reserved-{value:#06x}", f"RESERVED of a Marker is {value:#06x}", "markers",
            (_with_marker_at(12), marker(2, reserved=value)), ("marker-reserved",), IGNORE,
            tests=("receiver-marker-reserved",), left=CRC_LEFT,
        )
        for value in (0x0001, 0x8000, 0xFFFF)
    ),
    Case(
        "marker-reserved-first", "RESERVED of the very first Marker is not zero", "markers",
        (marker(1, reserved=1),), ("marker-reserved",), IGNORE, tests=("receiver-marker-reserved",),
    ),
    Case(
        "fpduptr-draft-origin", "FPDUPTR counts from the first octet of an FPDU that begins with a Marker, as the"
        " drafts say", "markers", (says(send(1, bytes(900)), _SAID, send(2, bytes(40))), marker(1, 1, more=4)),
        ("fpduptr-origin",), IGNORE,
    ),
    Case(
        "fpduptr-rfc-origin-with-rev-0", "FPDUPTR counts from ULPDU_Length with Rev 0, as RFC 5044 says", "rddp-01",
        (
            says("initiator send 900", _SAID, "initiator send 40"), marker(1, 1, more=-4),
        ),
        ("fpduptr-origin",), IGNORE,
    ),
)  # fmt: skip

_OF_CULLEY = (
    Case(
        "culley-02-connection", "No startup frames: Markers and CRC in both directions, from the first octet on",
        "culley-02", (says(*("initiator send 600", "responder send 600") * 4),), (), ACCEPT,
        clause="draft-culley-iwarp-mpa-02 §8.1",
    ),
    Case(
        "culley-02-late", "MPA begins after streaming data", "culley-02",
        (
            says(
                "initiator stream 'now MPA'", "pause 0.01", "responder stream 'now MPA, too'", "pause 0.01",
                *("initiator send 600", "responder send 600") * 4,
            ),
        ),
        (), ACCEPT, clause="draft-culley-iwarp-mpa-02 §8.1",
    ),
    Case(
        "culley-02-one-way", "MPA in one direction only: the other continues with streaming data", "culley-02",
        (says(*("initiator send 600", "responder stream 'got it'") * 4), answers(None)), (), ACCEPT,
        clause="draft-culley-iwarp-mpa-02 §8.1",
    ),
    Case(
        "culley-02-crc", "No startup frames, and one bit of an FPDU is flipped", "culley-02",
        (says(*("initiator send 600", "responder send 600") * 4, "initiator send 600"), damaged(5, 40)),
        ("crc", "terminate@peer"), BAD_CRC,
    ),
)  # fmt: skip

_ELSEWHERE = (
    *(
        Case(
            f"marker-{name}", f"A Marker stands {what}, and the CRC is right", "markers",
            (_TWO, marker(2, 1, moved=moved)), (*_WRONG, "marker-agree"), BAD_MARKER, breaks=("marker-position",),
            tests=_TESTED, left=CRC_LEFT,
        )
        for name, what, moved in (
            ("4-octets-late", "four octets too late", 4),
            ("4-octets-early", "four octets too early", -4),
        )
    ),
    Case(
        "marker-first-not-zero", "FPDUPTR of the very first Marker is 4", "markers", (marker(1, fpduptr=4),),
        ("marker-first", "marker-length"), STOP, tests=_TESTED,
    ),
    Case(
        "length-4-more-marker-behind", "ULPDU_Length is four too large, and a Marker names the start of the next FPDU",
        "markers", (says(_FIRST, _SAID, send(2, bytes(340)), send(3, bytes(100))), ulpdu_length(2, more=4)),
        ("crc", "terminate@peer"), BAD_CRC, tests=("receiver-crc",),
    ),
    Case(
        "fpdu-4-zeros-behind-marker", "Four zero octets lie between two FPDUs, and a Marker points to the second",
        "markers", (says(_FIRST, _SAID, send(2, bytes(340)), send(3, bytes(100))), followed(2, bytes(4))),
        ("crc", "terminate@peer"), BAD_CRC,
    ),
    *(
        Case(
            f"crc-marker-{name}", f"One bit of {what} is flipped, and the CRC is not recomputed", "markers",
            (_with_marker_at(12), damaged(2, 12 + at, mask)), ("crc", "terminate@peer"), BAD_CRC,
            tests=("receiver-crc",),
        )
        for name, what, at, mask in (
            ("reserved", "RESERVED in a Marker", 0, 0x80),
            ("fpduptr", "FPDUPTR", 3, 0x08),
        )
    ),
    Case(
        "fpdu-unmarked", "One FPDU in the middle of the stream is sent without its Marker", "markers",
        (_with_marker_at(12), unmarked(2)), ("crc", "terminate@peer"), BAD_CRC, breaks=("marker-position",),
    ),
)  # fmt: skip

_ASKED = (
    *(
        Case(
            f"markers-from-the-{who}", f"Only what the {who} sends has Markers, as its peer asked", "plain",
            (setup(m=m), says(_FIRST, _SAID, "initiator send 600", "responder send 600")), (), ACCEPT,
            clause="RFC 5044 §7.1.1",
        )
        for who, m in (("initiator", (0, 1)), ("responder", (1, 0)))
    ),
    Case(
        "markers-left-out", "No Markers, although the peer asked for them", "markers",
        (says("initiator send 300 times=8"), setup(markers=(False, None))),
        ("marker-absent", "deviating-sender"), STOP,
    ),
    Case(
        "markers-left-out-once", "The only FPDU has no Marker, although the peer asked for Markers", "markers",
        (says(_FIRST), setup(markers=(False, None))), ("marker-absent", "crc", "fpdu-format"), STOP,
    ),
    Case(
        "markers-not-asked", "Markers, although the peer did not ask for them", "plain",
        (says("initiator send 300 times=8"), setup(markers=(True, None))),
        ("marker-unasked", "deviating-sender"), STOP,
    ),
    Case(
        "markers-not-asked-once", "The only FPDU has a Marker, although the peer did not ask for any", "plain",
        (says(_FIRST), setup(markers=(True, None))), ("marker-unasked", "crc", "fpdu-format"), STOP,
    ),
    Case(
        "markers-both-ways-asked-one-way", "The Responder asked for Markers, and sends some itself", "plain",
        (setup(m=(0, 1), markers=(None, True)), says(_FIRST, "responder send 300 times=8")),
        ("marker-unasked", "deviating-sender", "terminate@peer"), BAD_CRC, by="responder",
    ),
)  # fmt: skip

_DIALECT = tuple(
    Case(
        f"deviating-{name}", f"A sender {purpose}", "markers",
        (says(*(f"initiator send {700 + n}" for n in range(8))), setup(deviation=(name, ""))),
        ("deviating-sender",), STOP, breaks=breaks,
    )
    for name, purpose, breaks in (
        ("fpduptr-little-endian", "whose FPDUPTRs are in host byte order", ("marker-length",)),
        ("crc-not-in-spacing", "that does not count CRC fields in the distance between Markers", ("marker-position",)),
        ("markers-not-in-spacing", "that does not count Markers in the distance between them", ("marker-position",)),
        ("markers-from-startup-frame", "that counts from the first octet of its startup frame", ("marker-position",)),
        ("markers-from-syn", "that counts from its SYN", ("marker-position",)),
        ("crc-without-markers", "whose CRCs leave out Markers", ("crc",)),
        ("crc-big-endian+fpduptr-little-endian", "that has CRC and FPDUPTR in the wrong byte order", ("crc",)),
    )
)  # fmt: skip

CASES = (*_PLACES, *_POINTERS, *_OF_CULLEY, *_ELSEWHERE, *_ASKED, *_DIALECT)
