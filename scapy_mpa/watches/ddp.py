"""DDP Segments in stream order: control octets, queues, MSN, MO, STag, TO, L (RFC 5040 §4, RFC 5041 §4, RFC 7306).

In: FPDUs whose CRC is not bad, with the first octets of their ULPDUs.  Out: the rules that they break, and what has to
do with the other direction: Requests, the answers to them, STags that are invalidated.  What is unknown, at the
beginning of a capture or after octets that are missing, is learnt from what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from scapy_mpa.framing.ddp import (
    CONTROL_LENGTH,
    OPCODE_NAMES,
    QUEUE_OF,
    TAGGED_HEADER_LENGTH,
    TAGGED_OPCODES,
    TERMINATE_OPCODE,
    UNTAGGED_HEADER_LENGTH,
)
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH, Octets, remove_markers
from scapy_mpa.framing.mulpdu import MIN_MULPDU
from scapy_mpa.framing.requests import ReadRequest, atomic_request_id, original_request_id, read_requests
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.values import Breach, LocatedFPDU, Moment
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.octets import head, number_at, own_octets, place, queued, word

#: Octets of a ULPDU that are inspected: an untagged header and the body of an RDMA Read Request (RFC 5040 §4.4), which
#: has 32 octets in some user-space stacks.
INSPECTED_OCTETS: Final = 50
READ_REQUEST_LENGTH: Final = 28
#: Octets of Immediate Data (RFC 7306 §6.3).
IMMEDIATE_LENGTH: Final = 8
#: Messages that have to do with the other direction and were not asked for yet: a bound of memory, 1 MiB.
MOST_RELATED: Final = 1 << 12

_READ_REQUEST, _READ_RESPONSE, _ATOMIC_REQUEST, _ATOMIC_RESPONSE = 1, 2, 10, 11
#: The MSN of the last message of each queue, before the first one (RFC 5041 §4.3: MSN begins with one), and unknown.
_NO_MESSAGES: Final[tuple[int | None, ...]] = (0,) * (max(QUEUE_OF.values()) + 1)
_UNKNOWN: Final[tuple[int | None, ...]] = (None,) * len(_NO_MESSAGES)
#: Of which RFC 5040 §4.1 has the Invalidate STag zero: Read Request, Send, Send with SE, Terminate.
_WITHOUT_STAG = (1, 3, 5, 7)
_PLAIN_SENDS, _INVALIDATING, _IMMEDIATES = (3, 5), (4, 6), (8, 9)
#: FetchAdd and CmpSwap (RFC 7306 §5.2.1, figure 5).
_ATOMIC_OPERATIONS = (0, 2)
#: Where an Atomic Request has its Remote STag, how long it is up to the end of its TO, and how TO is aligned, octets.
_ATOMIC_STAG, _ATOMIC_HEADER, _ATOMIC_ALIGNMENT = UNTAGGED_HEADER_LENGTH + 8, 20, 8
_TAGGED, _LAST, _RESERVED, _VERSIONS = 0x8000, 0x4000, 0x3C30, 0x03C0
_LAST_MSN, _LAST_TO = (1 << 32) - 1, (1 << 64) - 1
#: Octets of the longest message (RFC 5041 §5.2).
_LONGEST_MESSAGE = (1 << 32) - 1
#: Where RsvdULP is, but for its first octet, and where the first octet of a TO is (RFC 5041 §4.2, §4.3).
_RSVDULP, _TO_AT, _HIGHEST_OCTET = 2, 6, 0xFF
#: The bits of ULPDU_Length in what a PlainRun has of each FPDU.
_ULPDU_LENGTH = 0xFFFF

_read_request = Struct(">IQIIQ").unpack_from

#: Control octets without anything remarkable, and their opcodes: one of two versions, an opcode that goes with T.
_PLAIN: Final[dict[int, int]] = {
    (_TAGGED if opcode in TAGGED_OPCODES else 0) | last | version << 8 | version << 6 | opcode: opcode
    for opcode in (*TAGGED_OPCODES, *QUEUE_OF)
    for last in (0, _LAST)
    for version in (0, 1)
}


def ulpdu_of(fpdu: LocatedFPDU, most: int = INSPECTED_OCTETS) -> bytes:
    """Return the first ``most`` octets of a ULPDU without Markers; none where the capture cut the FPDU."""
    begin, length, octets = fpdu.header + LENGTH_FIELD_LENGTH, fpdu.ulpdu_length, fpdu.octets
    index = begin - fpdu.offset
    end, marker = index + min(most, length), index + -begin % MARKER_INTERVAL
    if marker < end and fpdu.markers:
        if end + MARKER_LENGTH > marker + MARKER_INTERVAL:
            # More than one Marker stands among them.
            with_markers = end + MARKER_LENGTH * ((end - index) // (MARKER_INTERVAL - MARKER_LENGTH) + 1)
            return bytes(remove_markers(octets[index:with_markers], begin)[: end - index])
        return _captured(octets, index, marker) + _captured(octets, marker + MARKER_LENGTH, end + MARKER_LENGTH)
    return _captured(octets, index, end)


def _captured(octets: Octets, at: int, end: int) -> bytes:
    """Return the octets [at, end), as far as they were captured."""
    size = len(octets)
    return own_octets(octets, min(at, size), min(end, size))


def is_plain_header(ulpdu: Octets, ulpdu_length: int) -> bool:
    """Return True if a ULPDU with these first octets begins with a header that DDP and RDMAP would send."""
    if len(ulpdu) < TAGGED_HEADER_LENGTH or ulpdu_length > MAX_ULPDU_LENGTH:
        return False
    opcode = _PLAIN.get(ulpdu[0] << 8 | ulpdu[1])
    if opcode is None or opcode in TAGGED_OPCODES:
        return opcode is not None
    if len(ulpdu) < UNTAGGED_HEADER_LENGTH:
        return False
    queue, msn, _ = queued(ulpdu, 6)
    return bool(queue == QUEUE_OF[opcode] and msn)


class Request(NamedTuple):
    """An RDMA Read or Atomic Request.

    Attributes:
        opcode: of the message.
        offset: of its last FPDU; ``end`` is the offset after it.
        frame: that placed it.
        reads: what it asks for as a Read, by each way to read its body; none if that is not known.
        request_id: of an Atomic, None if that is not known.
        is_plain: whether its body can be read in one way only.
    """

    opcode: int
    offset: int
    end: int
    frame: int
    reads: tuple[ReadRequest, ...]
    request_id: int | None
    is_plain: bool


class Response(NamedTuple):
    """An RDMA Read or Atomic Response.

    Attributes:
        opcode: of the message.
        offset: of its last FPDU.
        first_frame: that brought its first octet.
        frame: that placed its last FPDU; ``time`` is that of the frame.
        stag: of a Read Response, as ``to``, that of its first octet.
        octets: of the payload; -1 if it is not known which segments belong to it.
        request_id: the Original Request ID of an Atomic Response, None if that is not known.
    """

    opcode: int
    offset: int
    first_frame: int
    frame: int
    time: int
    stag: int
    to: int
    octets: int
    request_id: int | None


class Invalidation(NamedTuple):
    """A Send that invalidates an STag of the peer: offset and end of its last FPDU, the frame that placed it."""

    stag: int
    offset: int
    end: int
    frame: int


class _Open(NamedTuple):
    """An untagged message that is not complete: the MO that comes next, opcode, RsvdULP, and its first frame."""

    mo: int
    opcode: int
    rsvdulp: int
    frame: int


class DDPWatch:
    """The DDP Segments of one direction.

    Args:
        is_beginning: whether the first FPDU inspected is the first one of the direction.

    Attributes:
        end: where the next FPDU begins if none is missing.
        requests: RDMA Read and Atomic Requests so far.
        answers: Responses to such, whole ones, so far.
        related: messages that have to do with the other direction and that nobody has taken yet.
        untagged_frame: the frame that brought the first octet of the last untagged segment, 0 without one.
        losses: how often octets were missing, or not to be trusted.
        resumed: where reading went on after the last of these, 0 if there were none.
        terminated: the frame of the Terminate, 0 without one.
        longest_part: the longest ULPDU of a DDP Segment that is not the last of its message, 0 if there was none.
        first_part: offset, frame and time of the first such.
    """

    __slots__ = (
        "_answer", "_breaches", "_expected", "_messages", "_open", "_placed", "_response", "_versions", "_write",
        "answers", "end", "first_part", "longest_part", "losses", "related", "requests", "resumed", "terminated",
        "untagged_frame",
    )  # fmt: skip

    def __init__(self, is_beginning: bool) -> None:
        self._breaches: list[Breach] = []
        self.end = 0
        #: DV and RV of the first segment, -1 before it.
        self._versions = -1
        #: The MSN of the last message of each queue.
        self._messages = [*(_NO_MESSAGES if is_beginning else _UNKNOWN)]
        #: Messages that are not complete: by queue; STag and next TO of a Read Response and of a Write.
        self._open: dict[int, _Open] | None = None
        self._response: tuple[int, int] | None = None
        #: STag, TO and first frame of the Read Response that is not complete, None if they are not known.
        self._answer: tuple[int, int, int] | None = None
        self._write: tuple[int, int] | None = None
        #: The latest frame that placed a segment of the tagged message that is not complete.
        self._placed = 0
        #: Control octets of a whole RDMA Write, or of the next segment of one; -1 if every segment is inspected.
        self._expected = -1
        self.requests = self.answers = self.losses = self.resumed = self.terminated = 0
        self.longest_part = self.untagged_frame = 0
        self.first_part = 0, 0, 0
        self.related: list[Request | Response | Invalidation] = []

    @property
    def plain_control(self) -> int:
        """The control octets, without L, of an RDMA Write that shows nothing remarkable; -1 if there are none."""
        return -1 if self._versions < 0 or self.terminated else _TAGGED | self._versions

    def passed_run(self, run: PlainRun) -> Sequence[Breach]:
        """Note segments of RDMA Writes that show nothing remarkable, but for the order in which they were placed."""
        if run.offset != self.end:
            self._lose(run.offset)
        if not run.is_ordered or (self._write is not None and number_at(run.frames, 0) < self._placed):
            self._place_run(run)
        elif run.is_open:
            self._placed = number_at(run.frames, len(run.frames) - 1)
        if self._response is not None and self._write is None:
            self._end_response(place(run.headers, CONTROL_LENGTH), run.offset, run.moment_of(0))
        self.end, self._write = run.end, run.write
        self._expect()
        return self._take_breaches()

    def _place_run(self, run: PlainRun) -> None:
        """Take a run whose segments were placed before others of their message."""
        goes_on, placed, number = self._write is not None, self._placed, -1
        firsts, frames, headers = run.firsts, run.frames, run.headers
        for index in range(len(run.starts)):
            if number + 1 < len(firsts) and number_at(firsts, number + 1) == index:
                number += 1
            frame = number_at(frames, number)
            is_last = headers[index * TAGGED_HEADER_LENGTH] & _LAST >> 8
            if not is_last:
                placed = frame if frame > placed or not goes_on else placed
            elif goes_on and frame < placed:
                stag, to = place(run.headers, index * TAGGED_HEADER_LENGTH + 2)
                after = to + (run.fpdus[index] & _ULPDU_LENGTH) - TAGGED_HEADER_LENGTH
                self._placed = placed
                self._place_early("RDMA Write", run.starts[index], (frame, run.times[number]), stag, after)
            goes_on = not is_last
        self._placed = placed

    def _place_early(self, name: str, offset: int, moment: Moment, stag: int, after: int) -> None:
        """The last octet of a message, before TO ``after``, was placed before others of it (RFC 5040 §5.5)."""
        last = f"the last octet of an {name}, at TO {after - 1 & _LAST_TO:#x} of STag {stag:#010x}"
        detail = f"{last}, was placed at frame {moment[0]}, others at frame {self._placed}"
        stale = "in between, whoever polls the last octet reads stale data"
        self._breaches.append(Breach("placement-early", offset, *moment, f"{detail}: {stale}"))

    def passed(self, fpdu: LocatedFPDU, ulpdu: bytes) -> Sequence[Breach]:
        """Inspect the ULPDU of an FPDU; ``ulpdu`` holds its first INSPECTED_OCTETS."""
        if fpdu.offset != self.end:
            self._lose(fpdu.offset)
        self.end, length = fpdu.end, fpdu.ulpdu_length
        if length < TAGGED_HEADER_LENGTH:
            self._too_short(fpdu)
        else:
            control, _ = head(ulpdu, 0)
            write = self._write
            if control == self._expected:
                if write is None:
                    if ulpdu[_TO_AT] != _HIGHEST_OCTET or not _wraps(place(ulpdu, 2)[1], length):
                        return ()
                elif place(ulpdu, 2) == write and MIN_MULPDU <= length <= self.longest_part:
                    after = write[1] + length - TAGGED_HEADER_LENGTH
                    if after <= _LAST_TO:
                        self._write = write[0], after
                        if fpdu.known[0] > self._placed:
                            self._placed = fpdu.known[0]
                        return ()
            opcode = _PLAIN.get(control, -1)
            if opcode < 0 or control & _VERSIONS != self._versions or self.terminated:
                opcode = self._inspect_control(control, fpdu)
            if opcode < 0:
                pass
            elif not control & _TAGGED:
                self._inspect_untagged(opcode, control, fpdu, ulpdu)
            elif opcode == _READ_RESPONSE:
                self._inspect_read_response(control, fpdu, ulpdu)
            else:
                if self._response is not None and write is None:
                    self._end_response(place(ulpdu, CONTROL_LENGTH), fpdu.offset, fpdu.known)
                self._write = self._next_place("RDMA Write", write, control, fpdu, ulpdu)
                self._expect()
        return self._take_breaches()

    def _take_breaches(self) -> Sequence[Breach]:
        """Return what was found since this was asked last."""
        if not self._breaches:
            return ()
        breaches, self._breaches = self._breaches, []
        return breaches

    def _find(self, rule: str, fpdu: LocatedFPDU, detail: str) -> None:
        self._breaches.append(Breach(rule, fpdu.offset, *fpdu.known, detail))

    def _lose(self, offset: int) -> None:
        """Octets before an offset are missing: the open messages are no longer known."""
        self.losses += 1
        self.resumed = offset
        self._messages, self._open, self._response, self._write, self._answer = [*_UNKNOWN], None, None, None, None
        self._expect()

    def _expect(self) -> None:
        is_known = self._versions >= 0 and not self.terminated and self._response is None
        self._expected = (_TAGGED | (0 if self._write else _LAST) | self._versions) if is_known else -1

    def _too_short(self, fpdu: LocatedFPDU) -> None:
        if fpdu.ulpdu_length:  # 0 has a rule of its own
            self._find("ddp-header", fpdu, f"ULPDU of {fpdu.ulpdu_length:,} octets")
        self._lose(fpdu.end)

    def _inspect_control(self, control: int, fpdu: LocatedFPDU) -> int:
        """Report what is remarkable about control octets; return the opcode, -1 if it means nothing."""
        if self.terminated:
            self._find("terminate-last", fpdu, f"an FPDU after the Terminate of frame {self.terminated}")
        dv, rv, opcode = control >> 8 & 3, control >> 6 & 3, control & 0x0F
        if self._versions < 0 and dv == rv < 2:
            self._versions = control & _VERSIONS
            self._expect()
        if control & _RESERVED:
            self._find("ddp-reserved", fpdu, f"reserved bits set in the control octets {control:04x}")
        if dv != rv or dv > 1:
            self._find("ddp-version", fpdu, f"DDP version {dv} and RDMAP version {rv}")
        elif control & _VERSIONS != self._versions:
            self._find("ddp-version", fpdu, f"DDP and RDMAP version {dv} after version {self._versions >> 8}")
        name = OPCODE_NAMES[opcode]
        if name is None:
            self._find("ddp-opcode", fpdu, f"opcode {opcode}")
            return -1
        if bool(control & _TAGGED) != (opcode in TAGGED_OPCODES):
            segment = "a tagged" if control & _TAGGED else "an untagged"
            self._find("ddp-opcode", fpdu, f"{name} in {segment} DDP Segment")
            return -1
        return opcode

    def _next_place(
        self, name: str, expected: tuple[int, int] | None, control: int, fpdu: LocatedFPDU, ulpdu: bytes
    ) -> tuple[int, int] | None:
        """Inspect a tagged segment; return STag and TO at which its message continues, None after its last segment."""
        stag, to = place(ulpdu, 2)
        goes_on, octets = expected == (stag, to), fpdu.ulpdu_length - TAGGED_HEADER_LENGTH
        if expected is not None and not goes_on:
            self._find("ddp-last", fpdu, f"another {name} begins before the last segment of the one before")
        after, frame = to + octets & _LAST_TO, fpdu.known[0]
        if _wraps(to, fpdu.ulpdu_length):
            self._find("ddp-to-wraps", fpdu, f"{octets:,} octets of an {name} from TO {to:#x} on exceed 2^64")
        if control & _LAST:
            if goes_on and frame < self._placed:
                self._place_early(name, fpdu.offset, fpdu.known, stag, after)
            return None
        self._placed = max(frame, self._placed) if goes_on else frame
        self._inspect_part(fpdu)
        return stag, after

    def _inspect_read_response(self, control: int, fpdu: LocatedFPDU, ulpdu: bytes) -> None:
        stag, to = place(ulpdu, 2)
        expected, answer = self._response, self._answer
        self._response = self._next_place("RDMA Read Response", expected, control, fpdu, ulpdu)
        if expected is None:
            answer = stag, to, fpdu.frames[0]
            if self._write == (stag, to):
                detail = "an RDMA Read Response continues where an RDMA Write has no last segment"
                self._find("rdmap-message-changes", fpdu, detail)
                answer, self._write = None, None
                self._expect()
        elif expected != (stag, to):
            answer = None
        self._answer = answer
        if (expected is None) != (self._response is None):
            self._expect()
        if self._response is not None:
            return
        self.answers += 1
        first_stag, first_to, first_frame = answer or (stag, to, fpdu.frames[0])
        octets = (to - first_to & _LAST_TO) + fpdu.ulpdu_length - TAGGED_HEADER_LENGTH if answer is not None else -1
        found = _READ_RESPONSE, fpdu.offset, first_frame, *fpdu.known, first_stag, first_to, octets, None
        self._relate(Response(*found))

    def _end_response(self, at: tuple[int, int], offset: int, moment: Moment) -> None:
        """Inspect where an RDMA Write begins while a Read Response has no last segment: perhaps where that goes on."""
        if at != self._response:
            return
        detail = "an RDMA Write continues where an RDMA Read Response has no last segment"
        self._breaches.append(Breach("rdmap-message-changes", offset, *moment, detail))
        self.answers += 1
        self._relate(Response(_READ_RESPONSE, offset, moment[0], *moment, *at, -1, None))
        self._response = self._answer = None

    def _relate(self, message: Request | Response | Invalidation) -> None:
        """Keep what has to do with the other direction; where nobody asks for it, the first ones."""
        if len(self.related) < MOST_RELATED:
            self.related.append(message)

    def _inspect_untagged(self, opcode: int, control: int, fpdu: LocatedFPDU, ulpdu: bytes) -> None:
        if fpdu.ulpdu_length < UNTAGGED_HEADER_LENGTH:
            self._too_short(fpdu)
            return
        queue, msn, mo = queued(ulpdu, 6)
        if queue != QUEUE_OF[opcode]:
            self._find("ddp-queue", fpdu, f"{OPCODE_NAMES[opcode]} in queue {queue}")
            return
        if opcode in _WITHOUT_STAG and word(ulpdu, _RSVDULP):
            stag = word(ulpdu, _RSVDULP)
            self._find("ddp-reserved", fpdu, f"Invalidate STag {stag:#010x} in a {OPCODE_NAMES[opcode]}")
        before, opened = self._messages[queue], None if self._open is None else self._open.pop(queue, None)
        self._messages[queue] = msn
        self.untagged_frame = fpdu.frames[0]
        after = mo + fpdu.ulpdu_length - UNTAGGED_HEADER_LENGTH
        is_too_long = after > _LONGEST_MESSAGE
        if is_too_long:
            self._find("ddp-mo", fpdu, f"MO {mo} and {after - mo:,} octets: a message has fewer than 2^32")
        if opened is not None:
            if msn != before:
                detail = (
                    f"{OPCODE_NAMES[opcode]} {msn} begins before the last segment of message {before} of queue {queue}"
                )
                self._find("ddp-last", fpdu, detail)
            else:
                before = None  # the same message continues
                if mo != opened.mo and not is_too_long:
                    detail = f"MO {mo}, although {opened.mo:,} octets of the message came before"
                    if int.from_bytes(mo.to_bytes(4, "little"), "big") == opened.mo:
                        detail += ", which matches in the other byte order"
                    self._find("ddp-mo", fpdu, detail)
                self._inspect_same(opened, opcode, fpdu, ulpdu)
        elif mo and before is not None:
            if msn == before:
                detail = f"MSN {msn} of queue {queue} continues at MO {mo} after the segment with L"
                self._find("ddp-last", fpdu, detail)
            elif not is_too_long:
                self._find("ddp-mo", fpdu, f"MO {mo} in the first segment of {OPCODE_NAMES[opcode]} {msn}")
        if before is not None and msn != before + 1 & _LAST_MSN and not (mo and msn == before):
            self._find("ddp-msn", fpdu, f"MSN {msn} of queue {queue} after {before or 'none'}")
        if not control & _LAST:
            self._inspect_part(fpdu)
            first = opened.frame if opened is not None and before is None else fpdu.frames[0]
            if self._open is None:
                self._open = {}
            self._open[queue] = _Open(after, opcode, word(ulpdu, _RSVDULP), first)
        if opcode not in _PLAIN_SENDS:
            self._inspect_other(opcode, mo, bool(control & _LAST), fpdu, ulpdu)

    def _inspect_same(self, opened: _Open, opcode: int, fpdu: LocatedFPDU, ulpdu: bytes) -> None:
        """Compare a segment with those of its message before it (RFC 5041 §4.3: RsvdULP is the same in all)."""
        message = f"frame {fpdu.known[0]} continues the {OPCODE_NAMES[opened.opcode]} that frame {opened.frame} began"
        rsvdulp = word(ulpdu, _RSVDULP)
        if opcode != opened.opcode:
            self._find("rdmap-message-changes", fpdu, f"{message} as a {OPCODE_NAMES[opcode]}")
        elif rsvdulp != opened.rsvdulp:
            field = "Invalidate STag" if opcode in _INVALIDATING else "RsvdULP"
            values = f"{rsvdulp:#010x} after {opened.rsvdulp:#010x}"
            self._find("rdmap-message-changes", fpdu, f"{message} with {field} {values}")

    def _inspect_other(self, opcode: int, mo: int, is_last: bool, fpdu: LocatedFPDU, ulpdu: bytes) -> None:
        """Inspect an untagged segment of what is no Send without an STag."""
        length = fpdu.ulpdu_length - UNTAGGED_HEADER_LENGTH
        is_whole = is_last and not mo
        if opcode in (_READ_REQUEST, _ATOMIC_REQUEST):
            self.requests += 1
            if opcode == _READ_REQUEST:
                self._inspect_read_request(fpdu, ulpdu)
            elif not mo:
                self._inspect_atomic_request(fpdu, ulpdu, length)
            if is_last:
                self._relate(_request(opcode, fpdu, ulpdu, length if is_whole else 0))
        elif opcode == _ATOMIC_RESPONSE:
            self.answers += 1
            if is_last:
                request_id = original_request_id(bytes(ulpdu[UNTAGGED_HEADER_LENGTH:])) if is_whole else None
                found = _ATOMIC_RESPONSE, fpdu.offset, fpdu.frames[0], *fpdu.known, 0, 0, length, request_id
                self._relate(Response(*found))
        elif opcode in _INVALIDATING:
            if is_last:
                self._relate(Invalidation(word(ulpdu, _RSVDULP), fpdu.offset, fpdu.end, fpdu.known[0]))
        elif opcode in _IMMEDIATES:
            if mo or not is_last or length != IMMEDIATE_LENGTH:
                octets = f"{mo + length:,} octets" + ("" if is_last else ", and more to follow")
                self._find("immediate-length", fpdu, f"{OPCODE_NAMES[opcode]} of {octets}")
        elif opcode == TERMINATE_OPCODE:
            self.terminated = fpdu.known[0]
            self._expect()

    def _inspect_atomic_request(self, fpdu: LocatedFPDU, ulpdu: bytes, length: int) -> None:
        if length < _ATOMIC_HEADER:
            return
        operation = word(ulpdu, UNTAGGED_HEADER_LENGTH) & 0x0F
        if operation not in _ATOMIC_OPERATIONS:
            detail = f"AOpCode {operation}: 0 is FetchAdd, 2 is CmpSwap, no other is defined"
            self._find("atomic-opcode", fpdu, detail)
        stag, to = place(ulpdu, _ATOMIC_STAG)
        if to % _ATOMIC_ALIGNMENT:
            self._find("atomic-alignment", fpdu, f"an Atomic Request for STag {stag:#010x}, TO {to:#x}")

    def unfinished(self, fin: tuple[int, int, int]) -> Sequence[Breach]:
        """Report the messages that are not complete; a FIN, its offset, frame and time, follows the last FPDU."""
        messages = [
            f"the {OPCODE_NAMES[one.opcode]} of queue {queue} that frame {one.frame} began"
            for queue, one in (self._open or {}).items()
        ]
        for name, tagged in (("RDMA Read Response", self._response), ("RDMA Write", self._write)):
            if tagged is not None:
                messages.append(f"an {name} that continues at STag {tagged[0]:#010x}, TO {tagged[1]:#x}")
        return [Breach("ddp-unfinished", *fin, f"FIN before the last segment of {message}") for message in messages]

    def _inspect_part(self, fpdu: LocatedFPDU) -> None:
        """Inspect the length of a DDP Segment that is not the last of its message."""
        if not self.longest_part:
            self.first_part = fpdu.offset, *fpdu.known
        self.longest_part = max(self.longest_part, fpdu.ulpdu_length)
        if fpdu.ulpdu_length < MIN_MULPDU:
            detail = f"a ULPDU of only {fpdu.ulpdu_length:,} octets, which is not the last of its message"
            self._find("mulpdu-minimum", fpdu, detail)

    def _inspect_read_request(self, fpdu: LocatedFPDU, ulpdu: bytes) -> None:
        length = fpdu.ulpdu_length - UNTAGGED_HEADER_LENGTH
        if length != READ_REQUEST_LENGTH:
            self._find("rdmap-read-request", fpdu, f"a body of {length:,} octets")
            return
        if _is_in_host_order(ulpdu):
            _, _, size, _, _ = _read_request(ulpdu, UNTAGGED_HEADER_LENGTH)
            reversed_size = int.from_bytes(size.to_bytes(4, "big"), "little")
            detail = f"host order: a size of {size:,} octets, {reversed_size:,} in the other byte order"
            self._find("rdmap-read-request", fpdu, detail)


def _wraps(to: int, ulpdu_length: int) -> bool:
    """Return True if the octets of a tagged segment from a TO on pass 2^64 (RFC 5041 §7.1)."""
    after = to + ulpdu_length - TAGGED_HEADER_LENGTH & _LAST_TO
    return 0 < after < to


def _request(opcode: int, fpdu: LocatedFPDU, ulpdu: bytes, length: int) -> Request:
    """Return a Request; ``length`` is that of its body, 0 if that is in several segments."""
    where = opcode, fpdu.offset, fpdu.end, fpdu.known[0]
    body = bytes(ulpdu[UNTAGGED_HEADER_LENGTH:])
    if opcode == _ATOMIC_REQUEST:
        request_id = atomic_request_id(body) if length else None
        return Request(*where, (), request_id, request_id is not None)
    if length == READ_REQUEST_LENGTH == len(body) and not _is_in_host_order(ulpdu):
        return Request(*where, (ReadRequest(*_read_request(ulpdu, UNTAGGED_HEADER_LENGTH)),), None, True)
    reads = read_requests(body) if length == len(body) else []
    return Request(*where, tuple(reads), None, False)


def _is_in_host_order(ulpdu: bytes) -> bool:
    """Return True if the numbers of a Read Request of 28 octets make sense only when read backwards."""
    _, sink, size, _, source = _read_request(ulpdu, UNTAGGED_HEADER_LENGTH)
    is_one = size and (sink or source) and _is_reversed(size, 4)
    return bool(is_one and _is_reversed(sink, 8) and _is_reversed(source, 8))


def _is_reversed(value: int, size: int) -> bool:
    """Return True if a number of this many octets is small, or an address of a process, only when read backwards."""
    if not value or value & _HIGHEST_OCTET:
        return not value
    octets = value.to_bytes(size, "big")
    # The address of a process begins with zeros, that of a kernel with ones.
    return octets[0] != 0 and octets[:2] != b"\xff\xff"
