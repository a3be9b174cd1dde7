"""Where DDP places what arrives: buffers that STags name, and queues of one buffer per message (RFC 5041 §5).

Nothing here speaks. Who finds that a segment cannot be placed raises :class:`CannotPlace` with the reason, which
:mod:`scapy_mpa.live.rdmap` turns into a Terminate.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Flag

from scapy_mpa.tuples import NamedTuple

#: TO is a 64-bit number, MSN a 32-bit one, and both wrap (RFC 5041 §4.2, §4.3).
TO_LIMIT = 1 << 64
_MSN_MASK = 0xFFFFFFFF
#: An MSN this far ahead of the expected one is behind it.
_BEHIND = 1 << 31


class Reason(NamedTuple):
    """Why a message cannot be taken: what a Terminate says about it, the rule that is broken, and its clause."""

    layer: int
    etype: int
    code: int
    rule: str
    clause: str


#: RFC 5041 §7.2, as the checks of §7.1 call for.
INVALID_STAG = Reason(1, 1, 0x00, "attack-buffer", "RFC 5041 §7.1")
OUT_OF_BOUNDS = Reason(1, 1, 0x01, "attack-buffer", "RFC 5041 §7.1")
TO_WRAP = Reason(1, 1, 0x03, "ddp-to-wraps", "RFC 5041 §7.1")
TAGGED_VERSION = Reason(1, 1, 0x04, "ddp-version", "RFC 5041 §4.1")
INVALID_QN = Reason(1, 2, 0x01, "ddp-queue", "RFC 5040 §4.1")
NO_BUFFER = Reason(1, 2, 0x02, "ddp-msn", "RFC 5041 §7.1")
INVALID_MSN = Reason(1, 2, 0x03, "ddp-msn", "RFC 5041 §4.3")
INVALID_MO = Reason(1, 2, 0x04, "ddp-mo", "RFC 5041 §5.2")
#: The message of this MSN is complete, so that its buffer is no longer among those that are available.
BEHIND_LAST = Reason(1, 2, 0x03, "ddp-last", "RFC 5041 §4.1")
TOO_LONG = Reason(1, 2, 0x05, "attack-buffer", "RFC 5041 §7.1")
UNTAGGED_VERSION = Reason(1, 2, 0x06, "ddp-version", "RFC 5041 §4.1")
#: RFC 5040 §4.8: of what a Request names, or a Send invalidates.
SOURCE_STAG = Reason(0, 1, 0x00, "attack-buffer", "RFC 5040 §7.2")
SOURCE_BOUNDS = Reason(0, 1, 0x01, "attack-buffer", "RFC 5040 §7.2")
SOURCE_ACCESS = Reason(0, 1, 0x02, "attack-buffer", "RFC 5040 §7.2")
SOURCE_WRAP = Reason(0, 1, 0x04, "attack-buffer", "RFC 5040 §7.2")
NOT_INVALIDATED = Reason(0, 1, 0x09, "attack-buffer", "RFC 5040 §7.2")
RDMAP_VERSION = Reason(0, 2, 0x05, "ddp-version", "RFC 5040 §7.2")
UNEXPECTED_OPCODE = Reason(0, 2, 0x06, "ddp-opcode", "RFC 5040 §7.2")
BROKEN_HEADER = Reason(0, 2, 0x07, "ddp-header", "RFC 5041 §4.4")
BROKEN_REQUEST = Reason(0, 2, 0x07, "rdmap-read-request", "RFC 5040 §4.4")
BROKEN_ATOMIC = Reason(0, 2, 0x07, "ddp-header", "RFC 7306 §8.2")
#: Of messages and their answers, where no clause names an error: RFC 5040 §4.8, RFC 5041 §7.2.
MESSAGE_CHANGES = Reason(0, 2, 0x06, "rdmap-message-changes", "RFC 5041 §4.3")
UNASKED_RESPONSE = Reason(0, 2, 0x06, "read-response-unasked", "RFC 5040 §5.2")
OTHER_STAG = Reason(1, 1, 0x00, "read-response-differs", "RFC 5040 §5.2.2")
OTHER_PLACE = Reason(1, 1, 0x01, "read-response-differs", "RFC 5040 §5.2.2")
OTHER_LENGTH = Reason(0, 2, 0x07, "read-response-differs", "RFC 5040 §5.2.2")
ATOMIC_OPCODE = Reason(0, 2, 0x06, "atomic-opcode", "RFC 7306 §5.2.1")
ATOMIC_ALIGNMENT = Reason(0, 2, 0x07, "atomic-alignment", "RFC 7306 §8.2")
OTHER_REQUEST = Reason(0, 2, 0x06, "atomic-response", "RFC 7306 §5.2.2")
IMMEDIATE_LENGTH = Reason(0, 2, 0x07, "immediate-length", "RFC 7306 §6.3")


class CannotPlace(Exception):
    """A segment cannot be placed, or a message not be taken."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Access(Flag):
    """What the peer may do with a buffer (RFC 5040 §8.1.1; RFC 7306 §5 for Atomic Operations)."""

    NONE = 0
    READ = 1
    WRITE = 2
    ATOMIC = 4
    INVALIDATE = 8
    ALL = READ | WRITE | ATOMIC | INVALIDATE


@dataclass(frozen=True)
class RegisteredBuffer:
    """A tagged buffer: memory that an STag names, from the Tagged Offset ``to`` on."""

    stag: int
    to: int
    octets: bytearray = field(repr=False)
    access: Access

    def place_of(self, to: int, length: int) -> int:
        """The index of a TO; raises :class:`CannotPlace` if ``length`` octets from there are not in the buffer."""
        if to + length > TO_LIMIT:
            raise CannotPlace(TO_WRAP, f"{length} octets from TO {to:#x} exceed 2^64")
        index = to - self.to
        if index < 0 or index + length > len(self.octets):
            raise CannotPlace(
                OUT_OF_BOUNDS,
                f"{length} octets from TO {to:#x}: STag {self.stag:#010x} has {len(self.octets)} from {self.to:#x} on",
            )
        return index

    def get(self, to: int, length: int) -> bytes:
        """Some of its octets."""
        index = self.place_of(to, length)
        return bytes(self.octets[index : index + length])

    def put(self, to: int, octets: bytes) -> None:
        """Place octets, or none of them unless all are in bounds (RFC 5041 §7.1)."""
        index = self.place_of(to, len(octets))
        self.octets[index : index + len(octets)] = octets


class UntaggedMessage(NamedTuple):
    """A message of a queue that is whole: its opcode, its MSN, the RsvdULP field of its last segment, its payload."""

    opcode: int
    msn: int
    rsvdulp: int
    payload: bytes
    #: The last DDP Segment of it, as a Terminate quotes it.
    ulpdu: bytes


class _Filled:
    """A buffer with what came of its message."""

    __slots__ = ("is_whole", "octets", "opcode", "rsvdulp", "ulpdu")

    def __init__(self, opcode: int) -> None:
        self.opcode = opcode
        self.octets = bytearray()
        self.is_whole = False
        self.rsvdulp = 0
        self.ulpdu = b""


class UntaggedQueue:
    """The buffers of one queue: posted one by one, used by MSN, each by one message (RFC 5041 §5.1.2, §7.1).

    Memory follows what came of messages that are not whole or not delivered yet; no more than ``posted`` buffers of
    ``size`` octets.
    """

    def __init__(self, size: int, posted: int) -> None:
        self.size = size
        #: Buffers that no delivered message has used.
        self.posted = posted
        #: The MSN of the next message that is delivered.
        self.next_msn = 1
        self._filled: dict[int, _Filled] = {}
        #: Octets of the message delivered last.
        self._last_length = -1

    def post(self, count: int = 1) -> None:
        """Add this many buffers."""
        self.posted += count

    def place(
        self, opcode: int, msn: int, mo: int, rsvdulp: int, payload: bytes, last: bool, ulpdu: bytes
    ) -> list[UntaggedMessage]:
        """Place a segment; returns the messages that are delivered by it, in the order of their MSNs.

        TCP brings segments in order, so that MO never leaves octets out. Raises :class:`CannotPlace`.
        """
        ahead = msn - self.next_msn & _MSN_MASK
        if ahead >= _BEHIND:
            if ahead == _MSN_MASK and mo and mo == self._last_length:
                raise CannotPlace(BEHIND_LAST, f"MSN {msn} continues after its segment with L")
            raise CannotPlace(INVALID_MSN, f"MSN {msn} was delivered before; {self.next_msn} is next")
        if ahead >= self.posted:
            raise CannotPlace(
                NO_BUFFER, f"MSN {msn} has no buffer: {self.posted} are posted from MSN {self.next_msn} on"
            )
        filled = self._filled.get(msn)
        have = len(filled.octets) if filled is not None else 0
        if mo > have:
            raise CannotPlace(INVALID_MO, f"MO {mo}, but only {have} octets of MSN {msn} have arrived")
        if mo + len(payload) > self.size:
            raise CannotPlace(TOO_LONG, f"{mo + len(payload)} octets in a buffer of {self.size}")
        if filled is None:
            filled = self._filled[msn] = _Filled(opcode)
        elif filled.is_whole:
            raise CannotPlace(BEHIND_LAST, f"MSN {msn} continues after its segment with L")
        elif filled.opcode != opcode:
            raise CannotPlace(MESSAGE_CHANGES, f"MSN {msn} began with opcode {filled.opcode} and has {opcode}")
        filled.octets[mo : mo + len(payload)] = payload
        if last:
            filled.is_whole, filled.rsvdulp, filled.ulpdu = True, rsvdulp, ulpdu
        return self._deliver()

    def _deliver(self) -> list[UntaggedMessage]:
        delivered = []
        while (filled := self._filled.get(self.next_msn)) is not None and filled.is_whole:
            msn = self.next_msn
            del self._filled[msn]
            self.next_msn = msn + 1 & _MSN_MASK
            self.posted -= 1
            self._last_length = len(filled.octets)
            delivered.append(UntaggedMessage(filled.opcode, msn, filled.rsvdulp, bytes(filled.octets), filled.ulpdu))
        return delivered
