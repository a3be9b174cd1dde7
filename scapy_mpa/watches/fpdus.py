"""FPDUs in stream order: CRC, lengths, PAD, Markers, the first ones, Terminates (RFC 5044 §4, §5.1, §8; RFC 5040 §4.8).

In: each FPDU that the main chain passes, also those whose CRC is bad.  Out: the rules that they break.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.ddp import (
    LAST,
    SEND_OPCODES,
    TAGGED,
    TERMINATE_OPCODE,
    UNTAGGED_HEADER,
    UNTAGGED_HEADER_LENGTH,
    decode_terminate,
)
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH, decode_fpdu
from scapy_mpa.framing.markers import (
    LENGTH_FIELD_LENGTH,
    LONGEST_FPDU,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    Origin,
    check_markers,
    expected_fpduptr,
    header_offset,
    pad_length,
)
from scapy_mpa.infer.evidence import HEADER_OCTETS, header_at
from scapy_mpa.receiver.plain import has_usual_octets
from scapy_mpa.receiver.values import Breach, Contradiction, LocatedFPDU, Moment
from scapy_mpa.receiver.window import Layout
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import BAD, CUT, GOOD
from scapy_mpa.watches.ddp import DDPWatch, is_plain_header, ulpdu_of
from scapy_mpa.watches.gaps import DROPPED
from scapy_mpa.watches.sizes import SizeWatch
from scapy_mpa.watches.terminates import TERMINATE_OCTETS, broken_rules, error_numbers

#: Octets of the first ULPDU, and of the first Send, that are kept: all of a ready-to-receive message (RFC 6581 §9.2),
#: and of what upper layers send first, such as SMB Direct's negotiation or an RPC without chunks.
FIRST_ULPDU_OCTETS: Final = 96
_LOW_BITS = 3
_OPCODE: Final = 0x0F


class FirstSend(NamedTuple):
    """The first Send of a direction, one DDP Segment: the first octets of its payload, and how many there are."""

    beginning: bytes
    octets: int


class FirstFPDU(NamedTuple):
    """The first FPDU of Full Operation: how its ULPDU begins, its ULPDU_Length, its end, 0 if its CRC is bad.

    ``is_doubtful``: it may be none, since its CRC is bad or DDP would not send its header.
    """

    ulpdu: bytes
    ulpdu_length: int
    end: int
    known: Moment
    is_doubtful: bool


class FoundTerminate(NamedTuple):
    """The first Terminate of a direction: the first octets of its ULPDU, offset, when it was placed, ULPDU_Length."""

    ulpdu: bytes
    offset: int
    known: Moment
    ulpdu_length: int


class FPDUWatch:
    """The FPDUs of one direction.

    Args:
        layout: how they lie; those of a sender that deviates are handed over as if they had no Markers.
        is_beginning: whether the first one passed is the first of the direction.
        emss: octets that a segment holds, as both SYNs announce it; 0 if that is not known.
        origin: what FPDUPTR counts from in the connection's profile.
        said_of_long: as :class:`~scapy_mpa.watches.sizes.SizeWatch` has it.

    Attributes:
        ddp: the DDP Segments.
        sizes: how long FPDUs are.
        first: the first FPDU of Full Operation, None if it was not passed.
        first_send: the first Send with payload, None before it, or if it began before the first FPDU passed.
        terminate: the first Terminate, None without one.
        first_error: frame and offset of the first error of code 2 or 3, None without one.
        requests_before_error: RDMA Read and Atomic Requests before that error, -1 without one.
    """

    __slots__ = (
        "_awaits_send", "_is_beginning", "_layout", "_origin", "ddp", "first", "first_error", "first_send",
        "requests_before_error", "sizes", "terminate",
    )  # fmt: skip

    def __init__(
        self, layout: Layout, is_beginning: bool, emss: int = 0, origin: Origin = "header", said_of_long: str = ""
    ) -> None:
        self._layout = layout
        self._origin: Origin = origin
        self._is_beginning = self._awaits_send = is_beginning
        self.ddp = DDPWatch(is_beginning)
        self.sizes = SizeWatch(emss, layout.markers, said_of_long)
        self.first: FirstFPDU | None = None
        self.first_send: FirstSend | None = None
        self.terminate: FoundTerminate | None = None
        self.first_error: tuple[int, int] | None = None
        self.requests_before_error = -1

    def passed(self, fpdu: LocatedFPDU, ulpdu: bytes | None = None) -> Sequence[Breach]:
        """Inspect the next FPDU in stream order; ``ulpdu`` is what :func:`ulpdu_of` returns, if it is available."""
        ulpdu_length, crc = fpdu.ulpdu_length, fpdu.crc
        if fpdu.is_damaged:
            # Nobody is accused of octets that a receiver drops.
            self._note_first(fpdu)
            return (Breach("tcp-checksum", fpdu.offset, *fpdu.known, DROPPED),)
        if crc == BAD:
            self._note_first(fpdu)
            self._note_error(fpdu)
            detail = f"FPDU with a ULPDU of {ulpdu_length:,} octets: CRC mismatch"
            return (Breach("crc", fpdu.offset, *fpdu.known, detail),)
        if crc == CUT:
            # The capture cut it: its length is known.
            terminate = self._terminate(fpdu) if self._is_cut_terminate(fpdu) else ()
            return (*self._size(fpdu), *self._limit(fpdu), *terminate)
        breaches = () if ulpdu_length <= self.sizes.longest else self._size(fpdu)
        if self._layout.dialect is None:
            phase = fpdu.offset % MARKER_INTERVAL if fpdu.markers else -1
            if not has_usual_octets(fpdu.octets, 0, phase, ulpdu_length, self._origin):
                breaches = (*breaches, *self._unusual(fpdu))
        if self._awaits_send:
            self._note_first(fpdu)
        if found := self.ddp.passed(fpdu, ulpdu_of(fpdu) if ulpdu is None else ulpdu):
            breaches = (*breaches, *found)
        if fpdu.opcode == TERMINATE_OPCODE:
            breaches = (*breaches, *self._terminate(fpdu))
        if not ulpdu_length or ulpdu_length > MAX_ULPDU_LENGTH:
            breaches = (*breaches, *self._limit(fpdu))
        return breaches

    def contradicted(self, found: Contradiction) -> Breach:
        """Report a Marker that, without CRC, contradicts the lengths."""
        if found.is_damaged:
            return Breach("tcp-checksum", found.offset, *found.moment, DROPPED)
        self._note_error_at(found.moment[0], found.offset)
        detail = disagreement(found.offset, found.marker, found.fpduptr, self._origin)
        return Breach("marker-length", found.offset, *found.moment, detail)

    def wrong_beginning(self, octets: Octets, moment: Moment) -> Sequence[Breach]:
        """Report what the first octets of Full Operation are, if the first FPDU is doubtful or there is none.

        ``octets`` are as many as there are, LONGEST_FPDU at most.
        """
        wrong = wrong_beginning(octets, self._layout)
        return () if wrong is None else (Breach(wrong[0], 0, *moment, wrong[1]),)

    # --- the first ones ---

    def _note_first(self, fpdu: LocatedFPDU) -> None:
        """Note an FPDU before the first Send with payload, or that one."""
        is_first = self._is_beginning and not fpdu.offset and self.first is None
        if not is_first and fpdu.opcode not in SEND_OPCODES:
            return
        ulpdu = ulpdu_of(fpdu, FIRST_ULPDU_OCTETS)
        if is_first:
            # Where a damaged one ends is not known.
            is_bad, length = fpdu.crc == BAD, fpdu.ulpdu_length
            is_doubtful = is_bad or not is_plain_header(ulpdu, length)
            self.first = FirstFPDU(ulpdu, length, 0 if is_bad else fpdu.end, fpdu.known, is_doubtful)
        octets = fpdu.ulpdu_length - UNTAGGED_HEADER_LENGTH
        if fpdu.crc == BAD or octets <= 0 or len(ulpdu) < UNTAGGED_HEADER_LENGTH:
            return
        control, opcode, _, _, _, mo = UNTAGGED_HEADER.unpack_from(ulpdu)
        if control & TAGGED or opcode & _OPCODE not in SEND_OPCODES:
            return
        self._awaits_send = False
        if control & LAST and not mo:
            self.first_send = FirstSend(ulpdu[UNTAGGED_HEADER_LENGTH:], octets)

    def _note_error(self, fpdu: LocatedFPDU) -> None:
        self._note_error_at(fpdu.known[0], fpdu.offset)

    def _note_error_at(self, frame: int, offset: int) -> None:
        if self.first_error is None:
            self.requests_before_error = self.ddp.requests
        if self.first_error is None or (frame, offset) < self.first_error:
            self.first_error = frame, offset

    # --- single FPDUs ---

    def _size(self, fpdu: LocatedFPDU) -> Sequence[Breach]:
        return self.sizes.grew(fpdu) if fpdu.ulpdu_length > self.sizes.longest else ()

    def _limit(self, fpdu: LocatedFPDU) -> Sequence[Breach]:
        """Judge ULPDU_Length on its own (RFC 5044 §3)."""
        place = fpdu.offset, *fpdu.known
        if not fpdu.ulpdu_length:
            return (Breach("ulpdu-length-zero", *place, "ULPDU_Length 0"),)
        if fpdu.ulpdu_length > MAX_ULPDU_LENGTH:
            return (Breach("ulpdu-length-limit", *place, f"ULPDU_Length {fpdu.ulpdu_length}"),)
        return ()

    def _unusual(self, fpdu: LocatedFPDU) -> Iterator[Breach]:
        """Yield what is not usual about PAD and Markers."""
        for rule, detail in oddities(fpdu.octets, fpdu.offset, fpdu.ulpdu_length, self._layout.markers, self._origin):
            if rule == "marker-length":
                if fpdu.crc != GOOD:
                    continue  # Without CRC it is the receiver that decides between the two: see contradicted().
                self._note_error(fpdu)
            yield Breach(rule, fpdu.offset, *fpdu.known, detail)

    def _is_cut_terminate(self, fpdu: LocatedFPDU) -> bool:
        """Return True if an FPDU that the capture cut begins with a Terminate's DDP header and its control word."""
        if fpdu.opcode != TERMINATE_OPCODE or self._layout.dialect is not None:
            return False
        # Its CRC is not known: the header must be one that DDP sends.
        ulpdu, length = ulpdu_of(fpdu, TERMINATE_OCTETS), fpdu.ulpdu_length
        return is_plain_header(ulpdu, length) and decode_terminate(ulpdu, length) is not None

    def _terminate(self, fpdu: LocatedFPDU) -> Iterator[Breach]:
        """Yield what a Terminate reports, and how."""
        ulpdu, place = ulpdu_of(fpdu, TERMINATE_OCTETS), (fpdu.offset, *fpdu.known)
        if self.terminate is None:
            self.terminate = FoundTerminate(ulpdu, fpdu.offset, fpdu.known, fpdu.ulpdu_length)
        terminate = decode_terminate(ulpdu, fpdu.ulpdu_length)
        if terminate is not None:
            yield Breach("terminate", *place, f"{terminate.meaning} ({error_numbers(terminate)})")
        for rule, detail in broken_rules(ulpdu, fpdu.ulpdu_length):
            yield Breach(rule, *place, detail)


def oddities(
    octets: Octets, offset: int, ulpdu_length: int, markers: bool, origin: Origin
) -> Iterator[tuple[str, str]]:
    """Yield the rules, with details, that PAD and Markers of an FPDU break; ``octets`` are all of it.

    A Marker that does not name the FPDU's start from the profile's origin comes last: the first that names another
    start ("marker-length"), else the first that counts from the other origin.
    """
    pad = pad_of(octets, offset, ulpdu_length, markers)
    if any(pad):
        yield "pad", f"PAD of a ULPDU of {ulpdu_length:,} octets: {pad.hex(' ')}"
    if not markers:
        return
    starts, origins = set(), set()
    disagreements: dict[str, str] = {}
    checks = check_markers(octets, offset, origin)
    for check in checks:
        distance = check.marker_offset - offset
        where = f"Marker {distance} octets into the FPDU"
        if check.reserved:
            yield "marker-reserved", f"{where}: RESERVED {check.reserved:#06x}"
        if check.fpduptr & _LOW_BITS:
            yield "fpduptr-low-bits", f"{where}: FPDUPTR {check.fpduptr:#06x}"
        fpduptr = check.fpduptr & ~_LOW_BITS
        if check.verdict == "bad":
            starts.add(check.marker_offset - fpduptr - header_offset(offset))
            if not check.marker_offset:
                yield "marker-first", f"FPDUPTR of the first Marker is {check.fpduptr}"
        else:
            starts.add(0)
            if distance:
                origins.add(check.verdict)
        if check.verdict != "good":
            rule = "marker-length" if check.verdict == "bad" else "fpduptr-origin"
            disagreements.setdefault(rule, disagreement(offset, check.marker_offset, fpduptr, origin))
    if len(starts) > 1 or len(origins) > 1:
        named = ", ".join(f"{start:+d}" for start in sorted(starts)) if len(starts) > 1 else "both origins"
        yield "marker-agree", f"{len(checks)} Markers point to different starts: {named} from ULPDU_Length"
    if disagreements:
        yield max(disagreements.items())  # "marker-length" before "fpduptr-origin"


def pad_of(octets: Octets, offset: int, ulpdu_length: int, markers: bool) -> bytes:
    """Return PAD of an FPDU: it ends where the CRC begins, or at a Marker before that."""
    end = len(octets) - CRC_LENGTH
    if markers and (offset + end - MARKER_LENGTH) % MARKER_INTERVAL == 0:
        end -= MARKER_LENGTH
    return bytes(octets[end - pad_length(ulpdu_length) : end])


def disagreement(offset: int, marker: int, fpduptr: int, origin: Origin) -> str:
    """Return in words that a Marker does not name the FPDU at an offset from the profile's origin."""
    expected = expected_fpduptr(marker, offset, origin)
    return f"Marker {marker - offset} octets into the FPDU: FPDUPTR {fpduptr}, expected {expected}"


# --- the first octets of Full Operation ---


def wrong_beginning(octets: Octets, layout: Layout) -> tuple[str, str] | None:
    """Return the rule that the first octets break, with details; None if they show nothing."""
    first = bytes(octets[:MARKER_LENGTH])
    begins = f"the first octets are {first.hex(' ')}"
    if layout.markers and begins_with_fpdu(octets, False, layout.crc):
        return "marker-absent", f"the first FPDU is one without Markers: {begins}"
    if layout.markers and len(first) == MARKER_LENGTH and first[2:] != bytes(2):
        return "marker-first", f"no Marker with value zero: {begins}"
    if not layout.markers and first == bytes(MARKER_LENGTH) and begins_with_fpdu(octets, True, layout.crc):
        return "marker-unasked", f"a Marker before the first FPDU: {begins}"
    return None


def begins_with_fpdu(octets: Octets, markers: bool, crc: bool) -> bool:
    """Return True if octets begin with an FPDU, by its CRC, without CRC by its DDP header."""
    if not crc:
        return begins_with_header(octets, markers) is True
    fpdu = decode_fpdu(octets[:LONGEST_FPDU], 0 if markers else None)
    return fpdu is not None and bool(fpdu.crc_good)


def begins_with_header(octets: Octets, markers: bool) -> bool | None:
    """Return True if DDP would send the header of the FPDU that octets begin with, None if there are too few."""
    begin = MARKER_LENGTH if markers else 0
    plain = bytes(octets[begin : begin + LENGTH_FIELD_LENGTH + HEADER_OCTETS])
    if len(plain) < LENGTH_FIELD_LENGTH + HEADER_OCTETS:
        return None
    return header_at(plain, LENGTH_FIELD_LENGTH, plain[0] << 8 | plain[1]) is not None
