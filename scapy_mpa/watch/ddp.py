"""What DDP Segments say, in the order of the stream: control fields, queues, MSN, MO, L (RFC 5040, RFC 5041).

Nearly every DDP Segment is a whole message, or goes on where the last one ended; these take a look at the two control
octets and a comparison or two.  What is unknown (at the beginning of a capture, behind a gap or a damaged FPDU) is
learnt from what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from scapy_mpa.framing.ddp import (
    OPCODE_NAMES,
    QUEUE_OF,
    TAGGED_HEADER_LENGTH,
    TAGGED_OPCODES,
    TERMINATE_OPCODE,
    UNTAGGED_HEADER_LENGTH,
)
from scapy_mpa.framing.markers import Octets
from scapy_mpa.framing.mulpdu import MIN_MULPDU
from scapy_mpa.receive.located import Breach
from scapy_mpa.receive.scan import LAST_TO
from scapy_mpa.values.octets import place, queued

#: Octets of a ULPDU that are looked at: an untagged header, and the body of an RDMA Read Request (RFC 5040 §4.4).
WATCHED_OCTETS = 46
READ_REQUEST_LENGTH = 28

_WRITE, _READ_REQUEST, _READ_RESPONSE, _ATOMIC_REQUEST, _ATOMIC_RESPONSE = 0, 1, 2, 10, 11
_TAGGED, _LAST, _RESERVED, _VERSIONS = 0x8000, 0x4000, 0x3C30, 0x03C0
_LARGE = 1 << 24

_read_request = Struct(">IQIIQ").unpack_from

#: What is plain about a control word: L is set, or not; one of the two versions; an opcode that fits T.
_PLAIN: dict[int, int] = {
    (_TAGGED if opcode in TAGGED_OPCODES else 0) | last | version << 8 | version << 6 | opcode: opcode
    for opcode in (*TAGGED_OPCODES, *QUEUE_OF)
    for last in (0, _LAST)
    for version in (0, 1)
}

#: In what the control octets of a whole Send differ from those of a whole RDMA Write.
_SENDS = frozenset(_TAGGED | opcode for opcode, queue in QUEUE_OF.items() if not queue)


class DDPWatch:
    """The DDP Segments of one half connection.

    Args:
        begun: whether the first one watched is the first of the half connection.

    Attributes:
        is_writing: whether an RDMA Write is not complete; it goes on at ``to`` of ``stag``.
        quiet: the control octets of which nothing more has to be looked at than that place; -1 if there are none.
        requests: RDMA Read and Atomic Requests seen.
        answers: answers to such.
        losses: how often something was missing.
        terminated: the frame of a Terminate, 0 without one.
        longest_part: the longest ULPDU of a DDP Segment that is not the last of its message, 0 if there was none.
        first_part: where the first such is (stream offset, frame, time).
    """

    __slots__ = (
        "_at",
        "_breaches",
        "_messages",
        "_open",
        "_response",
        "_versions",
        "answers",
        "first_part",
        "is_writing",
        "longest_part",
        "losses",
        "quiet",
        "requests",
        "stag",
        "terminated",
        "to",
    )

    def __init__(self, begun: bool) -> None:
        self._breaches: list[Breach] = []
        #: DV and RV of the first, -1 if there was none.
        self._versions = -1
        #: By queue, the MSN of the last message.
        self._messages: dict[int, int] = dict.fromkeys(QUEUE_OF.values(), 0) if begun else {}
        #: Messages not complete: the MO that comes next, by queue; STag and TO of an RDMA Read Response.
        self._open: dict[int, int] = {}
        self._response: tuple[int, int] | None = None
        self.is_writing = False
        self.stag = self.to = 0
        self.quiet = -1
        #: Where the next FPDU has to begin if none is left out.
        self._at = 0
        self.requests = self.answers = 0
        self.losses = 0
        self.terminated = 0
        self.longest_part = 0
        self.first_part = 0, 0, 0

    def go_on_at(self, offset: int) -> None:
        """The next FPDU begins there: something is missing if the last one did not end there."""
        if offset != self._at:
            self.lose()

    def pass_to(self, offset: int) -> None:
        """The FPDUs below an offset have been followed, or are as they have to be."""
        self._at = offset

    def write_on(self, to: int) -> None:
        """DDP Segments of the RDMA Write that is not complete have come, as they have to be, up to a TO."""
        self.to = to

    def lose(self) -> None:
        """Something is missing: what messages are under way is not known any more."""
        self.losses += 1
        self._messages, self._open, self._response, self.is_writing = {}, {}, None, False
        self._settle()

    def _settle(self) -> None:
        """Know what to expect next: the next segment of an RDMA Write, or all of one."""
        known = self._versions >= 0 and not self.terminated
        self.quiet = (_TAGGED | (0 if self.is_writing else _LAST) | self._versions) if known else -1

    def follow_expected(self, octets: Octets, at: int, control: int, ulpdu_length: int, to: int) -> bool:
        """Follow a ULPDU that is not :attr:`quiet` if it is as it has to be next; False, with nothing done, if not.

        It is the first or the last DDP Segment of an RDMA Write of several, which goes on at ``to``, or a whole Send.
        The caller has seen that no Marker is in the header, that PAD is zero, and that ULPDUs before were as long.
        """
        difference = control ^ self.quiet
        if self.quiet < 0:
            return False
        if difference == _LAST:
            if self.is_writing:
                if place(octets, at + 2) != (self.stag, to):
                    return False
            elif MIN_MULPDU <= ulpdu_length <= self.longest_part:
                self.stag, to = place(octets, at + 2)
                self.to = to + ulpdu_length - TAGGED_HEADER_LENGTH & LAST_TO
            else:
                return False
            self.is_writing = not self.is_writing
            self.quiet = control
            return True
        if self.is_writing or difference not in _SENDS or self._open or ulpdu_length < UNTAGGED_HEADER_LENGTH:
            return False
        before = self._messages.get(0)
        if before is None or queued(octets, at + 6) != (0, before + 1 & 0xFFFFFFFF, 0):
            return False
        self._messages[0] = before + 1 & 0xFFFFFFFF
        return True

    def follow(
        self, octets: Octets, at: int, ulpdu_length: int, offset: int, frame: int, time: int
    ) -> Sequence[Breach]:
        """Look at the ULPDU of the FPDU at ``offset`` of the stream; returns the rules that it breaks.

        It begins at index ``at`` of ``octets``, which hold its first :data:`WATCHED_OCTETS`, without Markers; ``frame``
        and ``time`` (nanoseconds) say when it was complete.
        """
        self._look_at(octets, at, ulpdu_length, offset, frame, time)
        if not self._breaches:
            return ()
        breaches, self._breaches = self._breaches, []
        return breaches

    def _find(self, rule: str, offset: int, frame: int, time: int, detail: str) -> None:
        self._breaches.append(Breach(rule, offset, frame, time, detail))

    def _look_at(self, octets: Octets, at: int, ulpdu_length: int, offset: int, frame: int, time: int) -> None:
        if ulpdu_length < TAGGED_HEADER_LENGTH:
            self._too_short(ulpdu_length, offset, frame, time)
            return
        control = octets[at] << 8 | octets[at + 1]
        opcode = _PLAIN.get(control, -1)
        if opcode < 0 or control & _VERSIONS != self._versions or self.terminated:
            opcode = self._look_at_control(control, offset, frame, time)
            if opcode < 0:
                return
        if control & _TAGGED:
            if opcode == _READ_RESPONSE:
                self._follow_response(octets, at, control, ulpdu_length, offset, frame, time)
            elif self.is_writing or not control & _LAST:
                self._follow_write(octets, at, control, ulpdu_length, offset, frame, time)
            return
        if ulpdu_length < UNTAGGED_HEADER_LENGTH:
            self._too_short(ulpdu_length, offset, frame, time)
            return
        queue, msn, mo = queued(octets, at + 6)
        if queue != QUEUE_OF[opcode]:
            detail = f"{OPCODE_NAMES[opcode]} in queue {queue}"
            self._find("ddp-queue", offset, frame, time, detail)
            return
        before = self._messages.get(queue)
        if queue in self._open:
            before = self._go_on(queue, opcode, msn, mo, offset, frame, time)
        elif mo and before is not None:
            if msn == before:
                detail = f"MSN {msn} of queue {queue} continues at MO {mo} after the segment with L"
                self._find("ddp-last", offset, frame, time, detail)
            else:
                detail = f"MO {mo} in the first segment of {OPCODE_NAMES[opcode]} {msn}"
                self._find("ddp-mo", offset, frame, time, detail)
        if before is not None and msn != before + 1 & 0xFFFFFFFF and not (mo and msn == before):
            self._find("ddp-msn", offset, frame, time, f"MSN {msn} of queue {queue} after {before or 'none'}")
        self._messages[queue] = msn
        if control & _LAST:
            if self._open:
                self._open.pop(queue, None)
        else:
            self._part(ulpdu_length, offset, frame, time)
            self._open[queue] = mo + ulpdu_length - UNTAGGED_HEADER_LENGTH
        if opcode in (_READ_REQUEST, _ATOMIC_REQUEST):
            self.requests += 1
            if opcode == _READ_REQUEST:
                self._look_at_read_request(octets, at, ulpdu_length, offset, frame, time)
        elif opcode == _ATOMIC_RESPONSE:
            self.answers += 1
        elif opcode == TERMINATE_OPCODE:
            self.terminated = frame
            self._settle()

    def _too_short(self, ulpdu_length: int, offset: int, frame: int, time: int) -> None:
        if ulpdu_length:  # 0 is a rule of its own
            self._find("ddp-header", offset, frame, time, f"ULPDU of {ulpdu_length} octets")
        self.lose()

    def _look_at_control(self, control: int, offset: int, frame: int, time: int) -> int:
        """Something is not plain about the control octets; the opcode, -1 if it means nothing."""
        if self.terminated:
            self._find("terminate-last", offset, frame, time, f"an FPDU after the Terminate of frame {self.terminated}")
        dv, rv, opcode = control >> 8 & 3, control >> 6 & 3, control & 0x0F
        if self._versions < 0 and dv == rv < 2:
            self._versions = control & _VERSIONS
            self._settle()
        if control & _RESERVED:
            self._find("ddp-reserved", offset, frame, time, f"reserved bits set in the control octets {control:04x}")
        if dv != rv or dv > 1:
            self._find("ddp-version", offset, frame, time, f"DDP version {dv} and RDMAP version {rv}")
        elif control & _VERSIONS != self._versions:
            detail = f"DDP and RDMAP version {dv} after version {self._versions >> 8}"
            self._find("ddp-version", offset, frame, time, detail)
        name = OPCODE_NAMES[opcode]
        if name is None:
            self._find("ddp-opcode", offset, frame, time, f"opcode {opcode}")
            return -1
        if bool(control & _TAGGED) != (opcode in TAGGED_OPCODES):
            detail = f"{name} in {'a tagged' if control & _TAGGED else 'an untagged'} DDP Segment"
            self._find("ddp-opcode", offset, frame, time, detail)
            return -1
        return opcode

    def _follow_response(
        self, octets: Octets, at: int, control: int, ulpdu_length: int, offset: int, frame: int, time: int
    ) -> None:
        stag, to = place(octets, at + 2)
        if self._response is not None and self._response != (stag, to):
            self._find("ddp-last", offset, frame, time, _another(_READ_RESPONSE))
        self._response = None
        if control & _LAST:
            self.answers += 1
        else:
            self._part(ulpdu_length, offset, frame, time)
            self._response = stag, to + ulpdu_length - TAGGED_HEADER_LENGTH & LAST_TO

    def _follow_write(
        self, octets: Octets, at: int, control: int, ulpdu_length: int, offset: int, frame: int, time: int
    ) -> None:
        stag, to = place(octets, at + 2)
        if self.is_writing and (stag, to) != (self.stag, self.to):
            self._find("ddp-last", offset, frame, time, _another(_WRITE))
        if not control & _LAST:
            self._part(ulpdu_length, offset, frame, time)
            self.stag, self.to = stag, to + ulpdu_length - TAGGED_HEADER_LENGTH & LAST_TO
        if self.is_writing == bool(control & _LAST):
            self.is_writing = not self.is_writing
            self._settle()

    def _go_on(self, queue: int, opcode: int, msn: int, mo: int, offset: int, frame: int, time: int) -> int | None:
        """A message of this queue is not complete; what MSN the present one has to follow, None if it is the same."""
        before, expected = self._messages[queue], self._open.pop(queue)
        if msn != before:
            detail = f"{OPCODE_NAMES[opcode]} {msn} begins before the last segment of message {before} of queue {queue}"
            self._find("ddp-last", offset, frame, time, detail)
            return before
        if mo != expected:
            detail = f"MO {mo}, although {expected} octets of the message came before"
            if int.from_bytes(mo.to_bytes(4, "little"), "big") == expected:
                detail += ", which matches in the other byte order"
            self._find("ddp-mo", offset, frame, time, detail)
        return None

    def _part(self, ulpdu_length: int, offset: int, frame: int, time: int) -> None:
        """A DDP Segment that is not the last of its message."""
        if not self.longest_part:
            self.first_part = offset, frame, time
        self.longest_part = max(self.longest_part, ulpdu_length)
        if ulpdu_length < MIN_MULPDU:
            detail = f"a ULPDU of only {ulpdu_length} octets, which is not the last of its message"
            self._find("mulpdu-minimum", offset, frame, time, detail)

    def _look_at_read_request(
        self, octets: Octets, at: int, ulpdu_length: int, offset: int, frame: int, time: int
    ) -> None:
        length = ulpdu_length - UNTAGGED_HEADER_LENGTH
        if length != READ_REQUEST_LENGTH:
            self._find("rdmap-read-request", offset, frame, time, f"a body of {length} octets")
            return
        _, sink, size, _, source = _read_request(octets, at + UNTAGGED_HEADER_LENGTH)
        if size >= _LARGE and (sink or source) and all(map(_is_reversed, ((size, 4), (sink, 8), (source, 8)))):
            reversed_size = int.from_bytes(size.to_bytes(4, "big"), "little")
            detail = f"host order: a size of {size} octets, {reversed_size} in the other byte order"
            self._find("rdmap-read-request", offset, frame, time, detail)


def _another(opcode: int) -> str:
    return f"another {OPCODE_NAMES[opcode]} begins before the last segment of the one before"


def _is_reversed(field: tuple[int, int]) -> bool:
    """Whether a number of so many octets is small, or an address of a process, only if it is read backwards."""
    value, size = field
    octets = value.to_bytes(size, "big")
    # The address of a process has zeros in front, that of a kernel ones.
    return value == 0 or (octets[0] != 0 and octets[-1] == 0 and octets[:2] != b"\xff\xff")
