"""What FPDUs say and hold, beyond what a receiver needs to place them (RFC 5044 §4, §5.1; RFC 5041).

:class:`FPDUWatches` is shown FPDUs in the order of the stream.  An RDMA Write of one segment, or the next segment of
one, with PAD of zero and no longer than those before it, breaks no rule: scan sees that by what is *usual*, and such
FPDUs are not shown.  Nor does the first or the last segment of one, or a whole Send, that is as it has to be
(:meth:`~scapy_mpa.watch.ddp.DDPWatch.follow_expected`).  Whatever else comes is looked into.

The rest of this module are the rules about single FPDUs: PAD and Markers, lengths, and what the first octets of Full
Operation are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.ddp import (
    SEND_OPCODES,
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
)
from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH, MAX_ULPDU_LENGTH, decode_fpdu, pad_length
from scapy_mpa.framing.markers import (
    LONGEST_FPDU,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Octets,
    check_markers,
    remove_markers,
)
from scapy_mpa.framing.mulpdu import MAX_MULPDU, MIN_MULPDU, mulpdu
from scapy_mpa.framing.startup import SIW_GSO_NAME
from scapy_mpa.infer.evidence import HEADER_OCTETS, header_at
from scapy_mpa.receive.located import Breach, Located
from scapy_mpa.receive.scan import (
    LAST_TO,
    TAGGED_HEAD,
    UNTAGGED_HEAD,
    Extent,
    FPDUReader,
    Unusual,
    Usual,
    is_usual,
)
from scapy_mpa.tcp.half import Moment
from scapy_mpa.values.octets import head
from scapy_mpa.values.records import BAD
from scapy_mpa.watch.ddp import WATCHED_OCTETS, DDPWatch
from scapy_mpa.watch.messages import MessageEnds
from scapy_mpa.watch.segments import names_buffer

#: Octets of a ULPDU that are looked at: all of a ready-to-receive message (RFC 6581 §9.2), and of what upper layers say
#: first, such as SMB Direct's negotiation or an RPC without chunks.
FIRST_ULPDU_OCTETS = 96
#: Octets at the beginning of an FPDU that are looked at, Markers included.
_LOOKED_AT = LENGTH_FIELD_LENGTH + WATCHED_OCTETS + 2 * MARKER_LENGTH
_FIRST_OCTETS = LENGTH_FIELD_LENGTH + FIRST_ULPDU_OCTETS + 2 * MARKER_LENGTH
_LOW_BITS = 3
#: A half connection none of whose segments holds so much does not show its EMSS: no host announces less (RFC 879).
SMALLEST_EMSS = 536
#: So many first octets of Full Operation tell what they are.
LOOKED_AT = LONGEST_FPDU
_NO_MARKER = bytes(MARKER_LENGTH)


class FirstSend(NamedTuple):
    """The first Send of a half connection, if it is one DDP Segment: its first octets, and how many there are."""

    beginning: bytes
    octets: int


class ReadsWatch(Protocol):
    """Who watches RDMA Reads and Atomics, to which both half connections contribute."""

    def asked(self, offset: int, frame: int, time: int) -> None:
        """A Request was sent."""

    def answered(self, offset: int, frame: int, time: int) -> None:
        """A Request was answered."""


class FPDUWatches:
    """The FPDUs of one half connection, watched in the order of the stream.

    Args:
        begun: whether the first one watched is the first of the half connection.
        emss: octets that a segment takes, 0 if that is not known.
        markers: whether there are Markers.
        gso_flag: whose startup frame has the flag with which siw allows FPDUs longer than a segment, "" if none.

    Attributes:
        ddp: what DDP Segments say.
        sizes: how long FPDUs are.
        usual: what is not shown.
        messages: where messages end that are not acknowledged.
        first_send: the first Send with payload, None as long as there is none, or if it began before what is watched.
        terminate: the first Terminate, None as long as there is none.
    """

    __slots__ = (
        "_awaits_send",
        "_markers",
        "_reads",
        "_writes",
        "ddp",
        "first_send",
        "messages",
        "sizes",
        "terminate",
        "usual",
    )

    def __init__(self, begun: bool, emss: int, markers: bool, gso_flag: str = "") -> None:
        self._markers = markers
        self._reads: ReadsWatch | None = None
        self.ddp = DDPWatch(begun)
        self.sizes = SizeWatch(emss, markers, gso_flag)
        self.usual = self._writes = Usual()
        self.messages = MessageEnds()
        self._awaits_send = begun
        self.first_send: FirstSend | None = None
        self.terminate: Located | None = None

    def watch_reads(self, reads: ReadsWatch) -> None:
        """Report RDMA Reads and Atomics."""
        self._reads = reads

    def begin_at(self, offset: int) -> None:
        """FPDUs in order follow from an offset on: learn what is usual there."""
        self.ddp.go_on_at(offset)
        self._learn()

    def _learn(self) -> None:
        """What comes next if all is as it has to be."""
        ddp, longest = self.ddp, self.sizes.longest
        if not ddp.is_writing:
            self.usual = Usual(ddp.quiet, False, 0, TAGGED_HEADER_LENGTH, longest)
            return
        usual = Usual(ddp.quiet, True, ddp.stag, MIN_MULPDU, min(ddp.longest_part, longest))
        if usual != self._writes:
            self._writes = usual
        self.usual = self._writes

    def show(self, octets: Octets, one: Unusual, shift: int, known: Moment) -> Sequence[Breach]:
        """Watch an FPDU that scan found unusual in ``octets``; indices are ``shift`` less than offsets.

        It was placed at ``known``.  Returns the rules that it breaks.
        """
        begin, header, ulpdu_length, end, fits = one.begin, one.header, one.ulpdu_length, one.end, one.fits
        if self._awaits_send:
            first: Octets = octets[begin : min(begin + _FIRST_OCTETS, end)]
            plain = remove_markers(first, begin + shift) if self._markers else bytes(first)
            self._meet(plain[LENGTH_FIELD_LENGTH:], ulpdu_length)
        ddp, usual = self.ddp, self.usual
        uncut = -(header + shift) % MARKER_INTERVAL if self._markers else UNTAGGED_HEAD
        if fits and uncut >= TAGGED_HEAD:
            control = head(octets, header)[1]
            if is_usual(octets, header, control, ulpdu_length, usual, ddp.to):
                if usual.writing:
                    ddp.write_on(ddp.to + ulpdu_length - TAGGED_HEADER_LENGTH & LAST_TO)
                return ()
            if uncut >= UNTAGGED_HEAD and ddp.follow_expected(octets, header + 2, control, ulpdu_length, ddp.to):
                if ddp.quiet != usual.control:
                    self._learn()
                return ()
        offset = begin + shift
        breaches: list[Breach] = []
        if ulpdu_length > self.sizes.longest:
            breaches += self.sizes.grows(ulpdu_length, end - begin, offset, *known)
        if self._markers and uncut < LENGTH_FIELD_LENGTH + WATCHED_OCTETS:
            plain = remove_markers(octets[begin : min(begin + _LOOKED_AT, end)], offset)
            breaches += self._follow(plain, LENGTH_FIELD_LENGTH, ulpdu_length, offset, known)
        else:
            breaches += self._follow(octets, header + LENGTH_FIELD_LENGTH, ulpdu_length, offset, known)
        if detail := odd_pad(octets, end, ulpdu_length, shift, self._markers):
            breaches.append(Breach("pad", offset, *known, detail))
        self._learn()
        return breaches

    def show_located(self, located: Located) -> Sequence[Breach]:
        """Watch an FPDU that recovery has placed; returns the rules that it breaks.

        Only when the chain passes it, since one that a Marker located may turn out to be none.
        """
        if located.crc == BAD:
            return ()
        length, offset, known = located.extent.ulpdu_length, located.offset, located.known
        self.ddp.go_on_at(offset)
        self.ddp.pass_to(located.end)
        if located.terminate and self.terminate is None:
            self.terminate = located
        if self._awaits_send:
            self._meet(located.beginning, length)
        breaches = [*self._follow(located.beginning, 0, length, offset, known)]
        if length > self.sizes.longest:
            breaches += self.sizes.grows(length, located.end - offset, offset, *known)
        breaches += (Breach(rule, offset, *known, detail) for rule, detail in located.oddities)
        if length == 0:
            breaches.append(Breach("ulpdu-length-zero", offset, *known, "ULPDU_Length 0"))
        elif length > MAX_ULPDU_LENGTH:
            breaches.append(Breach("ulpdu-length-limit", offset, *known, f"ULPDU_Length {length}"))
        return breaches

    def _meet(self, ulpdu: bytes, ulpdu_length: int) -> None:
        """An FPDU before the first Send with payload, or that one."""
        header = decode_ddp(ulpdu)
        octets = ulpdu_length - UNTAGGED_HEADER_LENGTH
        if octets <= 0 or not isinstance(header, UntaggedHeader) or header.opcode not in SEND_OPCODES:
            return
        self._awaits_send = False
        if header.last and not header.mo:
            self.first_send = FirstSend(ulpdu[UNTAGGED_HEADER_LENGTH : min(FIRST_ULPDU_OCTETS, ulpdu_length)], octets)

    def _follow(self, octets: Octets, at: int, ulpdu_length: int, offset: int, known: Moment) -> Sequence[Breach]:
        ddp, reads = self.ddp, self._reads
        requests, answers = ddp.requests, ddp.answers
        breaches = ddp.follow(octets, at, ulpdu_length, offset, *known)
        if reads is not None:
            if ddp.requests != requests:
                reads.asked(offset, *known)
            elif ddp.answers != answers:
                reads.answered(offset, *known)
        return breaches


# --- what an FPDU holds that receivers do not look at ---


def oddities(reader: FPDUReader, extent: Extent) -> list[tuple[str, str]]:
    """The rules, with details, that the octets of an FPDU break, all of which are held."""
    found = []
    pad = pad_of(reader, extent)
    if any(pad):
        found.append(("pad", pad_detail(extent.ulpdu_length, pad)))
    if extent.markers:
        found += _odd_markers(reader, extent)
    return found


def pad_detail(ulpdu_length: int, pad: Octets) -> str:
    """What a PAD is that is not zero."""
    return f"PAD of a ULPDU of {ulpdu_length} octets: {pad.hex(' ')}"


def odd_pad(octets: Octets, end: int, ulpdu_length: int, shift: int, markers: bool) -> str:
    """What is odd about PAD of an FPDU that ends at index ``end``, ``shift`` less than its offset; "" if it is zero."""
    pad = pad_length(ulpdu_length)
    if not pad:
        return ""
    at = end - CRC_LENGTH
    if markers and not (at - MARKER_LENGTH + shift) % MARKER_INTERVAL:
        at -= MARKER_LENGTH
    found = octets[at - pad : at]
    return pad_detail(ulpdu_length, found) if any(found) else ""


def pad_of(reader: FPDUReader, extent: Extent) -> bytes:
    """PAD: it ends where the CRC begins, or at a Marker before that."""
    length = pad_length(extent.ulpdu_length)
    if not length:
        return b""
    end = extent.end - CRC_LENGTH
    if reader.layout.markers and (end - MARKER_LENGTH) % MARKER_INTERVAL == 0:
        end -= MARKER_LENGTH
    return reader.reassembly.read(end - length, end)


def _odd_markers(reader: FPDUReader, extent: Extent) -> list[tuple[str, str]]:
    found = []
    origins, starts = set(), set()
    checks = check_markers(reader.reassembly.read(extent.offset, extent.end), extent.offset, reader.layout.origin)
    for check in checks:
        distance = check.marker_offset - extent.offset
        where = f"Marker {distance} octets into the FPDU"
        if check.reserved:
            found.append(("marker-reserved", f"{where}: RESERVED {check.reserved:#06x}"))
        if check.fpduptr & _LOW_BITS:
            found.append(("fpduptr-low-bits", f"{where}: FPDUPTR {check.fpduptr:#06x}"))
        if check.verdict == "bad":
            if not check.marker_offset:
                found.append(("marker-first", f"FPDUPTR of the first Marker is {check.fpduptr}"))
            starts.add(check.marker_offset - (check.fpduptr & ~_LOW_BITS) - extent.header)
        else:
            starts.add(0)
            if distance:
                origins.add(check.verdict)
    if len(starts) > 1 or len(origins) > 1:
        named = ", ".join(f"{start:+d}" for start in sorted(starts)) if len(starts) > 1 else "both origins"
        found.append(("marker-agree", f"{len(checks)} Markers point to different starts: {named} from ULPDU_Length"))
    return found


# --- Terminates ---


def terminate_breaches(located: Located) -> list[Breach]:
    """What a Terminate says, and how (RFC 5040 §4.8)."""
    terminate = decode_terminate(located.terminate)
    place = located.offset, *located.known
    if terminate is None:
        header = decode_ddp(located.terminate)
        if not isinstance(header, UntaggedHeader):
            return []
        detail = f"a body of {header.payload_length} octets has no control word"
        return [Breach("terminate-layout", *place, detail)]
    detail = f"{terminate.meaning} (layer {terminate.layer}, etype {terminate.etype}, code {terminate.code:#04x})"
    breaches = [Breach("terminate", *place, detail)]
    if names_buffer(terminate):
        detail = f"the peer answers with a Terminate: {terminate.meaning}"
        breaches.append(Breach("attack-buffer", *place, detail, is_of_peer=True))
    if terminate.layout == "siw":
        detail = "control word laid out from the least significant bit, as siw does"
        breaches.append(Breach("terminate-layout", *place, detail))
    return breaches


# --- lengths ---


class SizeWatch:
    """The lengths of the FPDUs of one half connection, against what a segment takes (RFC 5044 §4.5, §5.1).

    EMSS is what both SYNs announce, without the octets that TCP's options take of each segment; where they were not
    captured, the longest segment of the half connection, looked at when nothing more comes.  A ULPDU of more than
    ``longest`` octets has to be shown to :meth:`grows`.

    Args:
        emss: octets that a segment takes, 0 if that is not known.
        markers: whether there are Markers.
        gso_flag: as :class:`FPDUWatches` has it.
    """

    __slots__ = ("_at", "_emss", "_intended", "_limit", "_longest_fpdu", "_markers", "longest")

    def __init__(self, emss: int, markers: bool, gso_flag: str = "") -> None:
        self._emss = emss
        #: What is added where an FPDU is longer than a segment.
        self._intended = f"; the {gso_flag} has {SIW_GSO_NAME}" if gso_flag else ""
        self._markers = markers
        self._limit = mulpdu(emss, markers) if emss else MAX_ULPDU_LENGTH
        self.longest = 0
        self._longest_fpdu = 0
        self._at = 0, 0, 0

    def grows(self, ulpdu_length: int, wire_length: int, offset: int, frame: int, time: int) -> Sequence[Breach]:
        """An FPDU of ``wire_length`` octets, at ``offset`` of the stream, has the longest ULPDU so far."""
        self.longest = min(ulpdu_length, self._limit)
        if wire_length > self._longest_fpdu:
            self._longest_fpdu, self._at = wire_length, (offset, frame, time)
        if ulpdu_length > self._limit and ulpdu_length <= MAX_MULPDU:
            return (self._judge(ulpdu_length, wire_length, offset, frame, time),)
        return ()

    def _judge(self, ulpdu_length: int, wire_length: int, offset: int, frame: int, time: int) -> Breach:
        if wire_length > self._emss:
            detail = f"an FPDU of {wire_length} octets, but a segment holds {self._emss}{self._intended}"
            return Breach("fpdu-above-emss", offset, frame, time, detail)
        else:
            detail = f"a ULPDU of {ulpdu_length} octets, but MULPDU is {self._limit} for an EMSS of {self._emss}"
            return Breach("mulpdu", offset, frame, time, detail)

    def fits(self, longest_segment: int) -> bool:
        """Whether every FPDU fits into a segment."""
        return self._longest_fpdu <= (self._emss or longest_segment)

    def finish(self, ddp: DDPWatch, longest_segment: int) -> list[Breach]:
        """Nothing more comes; ``longest_segment`` is in octets."""
        breaches = []
        if not self._emss and SMALLEST_EMSS <= longest_segment < self._longest_fpdu:
            size = f"an FPDU of {self._longest_fpdu} octets"
            detail = f"{size}, but no segment has more than {longest_segment}{self._intended}"
            breaches.append(Breach("fpdu-above-emss", *self._at, detail))
        # The path may take less than the SYNs say.
        limit = mulpdu(min(self._emss, longest_segment), self._markers)
        if self._emss and 0 < ddp.longest_part < limit // 2:
            detail = f"no DDP Segment of a message is longer than {ddp.longest_part} octets, but MULPDU is {limit}"
            breaches.append(Breach("mulpdu-filled", *ddp.first_part, detail))
        return breaches


# --- the first octets of Full Operation ---


def wrong_beginning(octets: bytes, markers: bool, crc: bool) -> tuple[str, str] | None:
    """The rule that the first octets break, with details; None if they tell nothing."""
    begins = f"the first octets are {octets[:MARKER_LENGTH].hex(' ')}"
    if markers and is_fpdu(octets, None, crc):
        return "marker-absent", f"the first FPDU is one without Markers: {begins}"
    if markers and len(octets) >= MARKER_LENGTH and octets[2:MARKER_LENGTH] != bytes(2):
        return "marker-first", f"no Marker with value zero: {begins}"
    if not markers and octets[:MARKER_LENGTH] == _NO_MARKER and is_fpdu(octets, 0, crc):
        return "marker-unasked", f"a Marker before the first FPDU: {begins}"
    return None


def begins_with_header(ulpdu: bytes, ulpdu_length: int) -> bool:
    """Whether a ULPDU of which these are the first octets begins with a header that DDP would send."""
    return header_at(ulpdu[:HEADER_OCTETS].ljust(HEADER_OCTETS, b"\0"), 0, ulpdu_length) is not None


def is_fpdu(octets: bytes, offset: int | None, crc: bool) -> bool:
    """Whether octets begin with an FPDU, without Markers where ``offset`` is None."""
    header = 0 if offset is None else MARKER_LENGTH
    fpdu = decode_fpdu(octets[:LOOKED_AT], offset)
    if fpdu is not None and crc:
        return bool(fpdu.crc_good)
    ulpdu = octets[header + 2 : header + 2 + HEADER_OCTETS]
    if crc or len(ulpdu) < HEADER_OCTETS:
        return False
    return begins_with_header(ulpdu, octets[header] << 8 | octets[header + 1])
