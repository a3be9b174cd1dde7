"""DDP Segments in stream order: control octets, queues, MSN, MO, STag, TO, L (RFC 5040 §4, RFC 5041 §4).

In: FPDUs whose CRC is not bad, with the first octets of their ULPDUs.  Out: the rules that they break.  What is
unknown, at the beginning of a capture or after octets that are missing, is learnt from what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from scapy_mpa.framing.ddp import (
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
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.values import Breach, LocatedFPDU
from scapy_mpa.values.octets import place, queued

#: Octets of a ULPDU that are inspected: an untagged header and the body of an RDMA Read Request (RFC 5040 §4.4).
INSPECTED_OCTETS: Final = 46
READ_REQUEST_LENGTH: Final = 28

_READ_REQUEST, _READ_RESPONSE, _ATOMIC_REQUEST, _ATOMIC_RESPONSE = 1, 2, 10, 11
_TAGGED, _LAST, _RESERVED, _VERSIONS = 0x8000, 0x4000, 0x3C30, 0x03C0
_LAST_MSN, _LAST_TO = (1 << 32) - 1, (1 << 64) - 1

_read_request = Struct(">IQIIQ").unpack_from

#: Control octets without anything remarkable, and their opcodes: one of two versions, an opcode that goes with T.
_PLAIN: Final[dict[int, int]] = {
    (_TAGGED if opcode in TAGGED_OPCODES else 0) | last | version << 8 | version << 6 | opcode: opcode
    for opcode in (*TAGGED_OPCODES, *QUEUE_OF)
    for last in (0, _LAST)
    for version in (0, 1)
}


def ulpdu_of(fpdu: LocatedFPDU, most: int = INSPECTED_OCTETS) -> Octets:
    """Return the first ``most`` octets of a ULPDU without Markers; none where the capture cut the FPDU."""
    begin = fpdu.header + LENGTH_FIELD_LENGTH
    index = begin - fpdu.offset
    count = min(most, fpdu.ulpdu_length)
    if fpdu.markers and -begin % MARKER_INTERVAL < count:
        with_markers = count + MARKER_LENGTH * (count // (MARKER_INTERVAL - MARKER_LENGTH) + 1)
        return remove_markers(fpdu.octets[index : index + with_markers], begin)[:count]
    return fpdu.octets[index : index + count]


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


class DDPWatch:
    """The DDP Segments of one direction.

    Args:
        is_beginning: whether the first FPDU inspected is the first one of the direction.

    Attributes:
        requests: RDMA Read and Atomic Requests so far.
        answers: Responses to such, whole ones, so far.
        losses: how often octets were missing, or not to be trusted.
        terminated: the frame of the Terminate, 0 without one.
        longest_part: the longest ULPDU of a DDP Segment that is not the last of its message, 0 if there was none.
        first_part: offset, frame and time of the first such.
    """

    __slots__ = (
        "_breaches", "_end", "_expected", "_messages", "_open", "_response", "_versions", "_write", "answers",
        "first_part", "longest_part", "losses", "requests", "terminated",
    )  # fmt: skip

    def __init__(self, is_beginning: bool) -> None:
        self._breaches: list[Breach] = []
        #: Where the next FPDU begins if none is missing.
        self._end = 0
        #: DV and RV of the first segment, -1 before it.
        self._versions = -1
        #: The MSN of the last message of each queue.
        self._messages: dict[int, int] = dict.fromkeys(QUEUE_OF.values(), 0) if is_beginning else {}
        #: Messages that are not complete: the next MO by queue; STag and next TO of a Read Response and of a Write.
        self._open: dict[int, int] = {}
        self._response: tuple[int, int] | None = None
        self._write: tuple[int, int] | None = None
        #: Control octets of a whole RDMA Write, or of the next segment of one; -1 if every segment is inspected.
        self._expected = -1
        self.requests = self.answers = self.losses = self.terminated = self.longest_part = 0
        self.first_part = 0, 0, 0

    @property
    def plain_control(self) -> int:
        """The control octets, without L, of an RDMA Write that shows nothing remarkable; -1 if there are none."""
        return -1 if self._versions < 0 or self.terminated else _TAGGED | self._versions

    def passed_run(self, run: PlainRun) -> None:
        """Note segments of RDMA Writes that show nothing remarkable."""
        if run.offset != self._end:
            self._lose()
        self._end, self._write = run.end, run.write
        self._expect()

    def passed(self, fpdu: LocatedFPDU, ulpdu: Octets) -> Sequence[Breach]:
        """Inspect the ULPDU of an FPDU, of which ``ulpdu`` are the first INSPECTED_OCTETS."""
        if fpdu.offset != self._end:
            self._lose()
        self._end, length = fpdu.end, fpdu.ulpdu_length
        if length < TAGGED_HEADER_LENGTH:
            self._too_short(fpdu)
        else:
            control, write = ulpdu[0] << 8 | ulpdu[1], self._write
            if control == self._expected:
                if write is None:
                    return ()
                if place(ulpdu, 2) == write and MIN_MULPDU <= length <= self.longest_part:
                    self._write = write[0], write[1] + length - TAGGED_HEADER_LENGTH & _LAST_TO
                    return ()
            opcode = _PLAIN.get(control, -1)
            if opcode < 0 or control & _VERSIONS != self._versions or self.terminated:
                opcode = self._inspect_control(control, fpdu)
            if opcode < 0:
                pass
            elif not control & _TAGGED:
                self._inspect_untagged(opcode, control, fpdu, ulpdu)
            elif opcode == _READ_RESPONSE:
                self._response = self._next_place("RDMA Read Response", self._response, control, fpdu, ulpdu)
                self.answers += self._response is None
            else:
                self._write = self._next_place("RDMA Write", write, control, fpdu, ulpdu)
                self._expect()
        if not self._breaches:
            return ()
        breaches, self._breaches = self._breaches, []
        return breaches

    def _find(self, rule: str, fpdu: LocatedFPDU, detail: str) -> None:
        self._breaches.append(Breach(rule, fpdu.offset, *fpdu.known, detail))

    def _lose(self) -> None:
        """Octets are missing: which messages are under way is not known any more."""
        self.losses += 1
        self._messages, self._open, self._response, self._write = {}, {}, None, None
        self._expect()

    def _expect(self) -> None:
        is_known = self._versions >= 0 and not self.terminated
        self._expected = (_TAGGED | (0 if self._write else _LAST) | self._versions) if is_known else -1

    def _too_short(self, fpdu: LocatedFPDU) -> None:
        if fpdu.ulpdu_length:  # 0 has a rule of its own
            self._find("ddp-header", fpdu, f"ULPDU of {fpdu.ulpdu_length} octets")
        self._lose()

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
        self, name: str, expected: tuple[int, int] | None, control: int, fpdu: LocatedFPDU, ulpdu: Octets
    ) -> tuple[int, int] | None:
        """Inspect a tagged segment; return STag and TO at which its message goes on, None after its last segment."""
        stag, to = place(ulpdu, 2)
        if expected is not None and expected != (stag, to):
            self._find("ddp-last", fpdu, f"another {name} begins before the last segment of the one before")
        if control & _LAST:
            return None
        self._inspect_part(fpdu)
        return stag, to + fpdu.ulpdu_length - TAGGED_HEADER_LENGTH & _LAST_TO

    def _inspect_untagged(self, opcode: int, control: int, fpdu: LocatedFPDU, ulpdu: Octets) -> None:
        if fpdu.ulpdu_length < UNTAGGED_HEADER_LENGTH:
            self._too_short(fpdu)
            return
        queue, msn, mo = queued(ulpdu, 6)
        if queue != QUEUE_OF[opcode]:
            self._find("ddp-queue", fpdu, f"{OPCODE_NAMES[opcode]} in queue {queue}")
            return
        before, expected = self._messages.get(queue), self._open.pop(queue, None)
        self._messages[queue] = msn
        if expected is not None:
            if msn != before:
                detail = (
                    f"{OPCODE_NAMES[opcode]} {msn} begins before the last segment of message {before} of queue {queue}"
                )
                self._find("ddp-last", fpdu, detail)
            else:
                before = None  # the same message goes on
                if mo != expected:
                    detail = f"MO {mo}, although {expected} octets of the message came before"
                    if int.from_bytes(mo.to_bytes(4, "little"), "big") == expected:
                        detail += ", which matches in the other byte order"
                    self._find("ddp-mo", fpdu, detail)
        elif mo and before is not None:
            if msn == before:
                detail = f"MSN {msn} of queue {queue} continues at MO {mo} after the segment with L"
                self._find("ddp-last", fpdu, detail)
            else:
                self._find("ddp-mo", fpdu, f"MO {mo} in the first segment of {OPCODE_NAMES[opcode]} {msn}")
        if before is not None and msn != before + 1 & _LAST_MSN and not (mo and msn == before):
            self._find("ddp-msn", fpdu, f"MSN {msn} of queue {queue} after {before or 'none'}")
        if not control & _LAST:
            self._inspect_part(fpdu)
            self._open[queue] = mo + fpdu.ulpdu_length - UNTAGGED_HEADER_LENGTH
        if opcode in (_READ_REQUEST, _ATOMIC_REQUEST):
            self.requests += 1
            if opcode == _READ_REQUEST:
                self._inspect_read_request(fpdu, ulpdu)
        elif opcode == _ATOMIC_RESPONSE:
            self.answers += 1
        elif opcode == TERMINATE_OPCODE:
            self.terminated = fpdu.known[0]
            self._expect()

    def _inspect_part(self, fpdu: LocatedFPDU) -> None:
        """Inspect the length of a DDP Segment that is not the last of its message."""
        if not self.longest_part:
            self.first_part = fpdu.offset, *fpdu.known
        self.longest_part = max(self.longest_part, fpdu.ulpdu_length)
        if fpdu.ulpdu_length < MIN_MULPDU:
            detail = f"a ULPDU of only {fpdu.ulpdu_length} octets, which is not the last of its message"
            self._find("mulpdu-minimum", fpdu, detail)

    def _inspect_read_request(self, fpdu: LocatedFPDU, ulpdu: Octets) -> None:
        length = fpdu.ulpdu_length - UNTAGGED_HEADER_LENGTH
        if length != READ_REQUEST_LENGTH:
            self._find("rdmap-read-request", fpdu, f"a body of {length} octets")
            return
        _, sink, size, _, source = _read_request(ulpdu, UNTAGGED_HEADER_LENGTH)
        if size and (sink or source) and all(map(_is_reversed, ((size, 4), (sink, 8), (source, 8)))):
            reversed_size = int.from_bytes(size.to_bytes(4, "big"), "little")
            detail = f"host order: a size of {size} octets, {reversed_size} in the other byte order"
            self._find("rdmap-read-request", fpdu, detail)


def _is_reversed(field: tuple[int, int]) -> bool:
    """Return True if a number of so many octets is small, or an address of a process, only when read backwards."""
    value, size = field
    octets = value.to_bytes(size, "big")
    # The address of a process begins with zeros, that of a kernel with ones.
    return value == 0 or (octets[0] != 0 and octets[-1] == 0 and octets[:2] != b"\xff\xff")
