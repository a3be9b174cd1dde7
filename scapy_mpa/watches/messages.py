"""RDMAP messages among the last FPDUs: those not acknowledged, and the one that a Terminate quotes (RFC 5040 §4.8).

In: FPDUs in stream order, and what the peer acknowledged.  A few numbers are kept of each of the last FPDUs; they are
read only when somebody asks.
"""

from __future__ import annotations

from typing import Final

from scapy_mpa.framing.ddp import (
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
    quoted_header,
)
from scapy_mpa.framing.markers import Octets, plain_length
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.values import LocatedFPDU
from scapy_mpa.values.lifecycle import Quoted, Terminated
from scapy_mpa.watches.fpdus import FoundTerminate

#: Acknowledged FPDUs that are kept: a Terminate quotes what came shortly before.  A bound of memory: 100 KiB.
MOST_ACKNOWLEDGED: Final = 256
#: FPDUs not acknowledged that are kept.  A bound of memory: 1.5 MiB, of a direction whose peer acknowledges no more.
MOST_KEPT: Final = 1 << 12
_LAST, _MSN_MASK, _LENGTH_MASK = 0x40, 0xFFFFFFFF, 0xFFFF
#: Octets of the headers of a Read Request (RFC 5040 §4.4).
_READ_REQUEST: Final = UNTAGGED_HEADER_LENGTH + 28
#: The opcode of an Atomic Request (RFC 7306 §4).
_ATOMIC_REQUEST = 10
#: Where the TO of an Atomic Request lies in its ULPDU (RFC 7306 §5.2.1).
_ATOMIC_TO: Final = UNTAGGED_HEADER_LENGTH + 12, UNTAGGED_HEADER_LENGTH + 20
#: What its TO is a multiple of (RFC 7306 §8.2).
_ATOMIC_ALIGNMENT: Final = 8
#: The error with which RFC 7306 §8.2 has a receiver answer another: RDMAP, remote operation, of its RDMAP Stream.
_STREAM_ERROR: Final = 0, 2, 0x07


class _Kept:
    """What is kept of an FPDU; ``header`` is the beginning of its ULPDU."""

    __slots__ = ("end", "first_frame", "fpdu_length", "header", "last_frame", "misaligned_to", "ulpdu_length")

    end: int
    first_frame: int
    last_frame: int
    fpdu_length: int
    ulpdu_length: int
    header: bytes
    misaligned_to: int | None


def _kept_of(
    end: int,
    first_frame: int,
    last_frame: int,
    fpdu_length: int,
    ulpdu_length: int,
    header: bytes,
    misaligned_to: int | None,
) -> _Kept:
    """Return a :class:`_Kept` of these values: a function in C takes numbers as they are, a class does not."""
    one = _Kept()
    one.end, one.first_frame, one.last_frame = end, first_frame, last_frame
    one.fpdu_length, one.ulpdu_length = fpdu_length, ulpdu_length
    one.header, one.misaligned_to = header, misaligned_to
    return one


#: In place of an FPDU that was let go.
_GONE: Final = _kept_of(0, 0, 0, 0, 0, b"", None)


class MessageWatch:
    """The messages of one direction.

    Attributes:
        acknowledged: the offset up to which the peer acknowledged octets, None before it acknowledged any.
        has_all: whether no FPDU was released.
    """

    __slots__ = ("_count", "_first", "_fpdus", "acknowledged", "has_all")

    def __init__(self) -> None:
        #: FPDUs, and runs of them, after those that were let go; and how many FPDUs they are.
        self._fpdus: list[_Kept | PlainRun] = []
        self._first = self._count = 0
        self.acknowledged: int | None = None
        self.has_all = True

    def passed(self, fpdu: LocatedFPDU, ulpdu: bytes) -> None:
        """Keep the next FPDU in stream order; ``ulpdu`` are the first octets of its ULPDU."""
        to = _misaligned_to(ulpdu) if fpdu.opcode == _ATOMIC_REQUEST else None
        header, frames, end = ulpdu[:UNTAGGED_HEADER_LENGTH], fpdu.frames, fpdu.end
        self._keep(_kept_of(end, frames[0], frames[-1], end - fpdu.offset, fpdu.ulpdu_length, header, to), 1)

    def passed_run(self, run: PlainRun) -> None:
        """Keep FPDUs that were passed together."""
        self._keep(run, len(run.starts))

    def _keep(self, one: _Kept | PlainRun, count: int) -> None:
        fpdus, acknowledged, most = self._fpdus, self.acknowledged, MOST_ACKNOWLEDGED
        fpdus.append(one)
        self._count += count
        while self._count > most:
            first, left = fpdus[self._first], self._count - 1
            if isinstance(first, PlainRun):
                run = first
                left, end = self._count - len(run.starts), run.end
            else:
                kept = first
                end = kept.end
            if left < most or (acknowledged is not None and end > acknowledged and self._count <= MOST_KEPT):
                break
            fpdus[self._first] = _GONE
            self._first += 1
            self._count, self.has_all = left, False
        if self._first > most:
            del fpdus[: self._first]
            self._first = 0

    def _kept(self) -> list[_Kept]:
        found: list[_Kept] = []
        for one in self._fpdus[self._first :]:
            if isinstance(one, _Kept):
                found.append(one)
                continue
            for index, length in enumerate(one.fpdus):
                header = one.headers[index * TAGGED_HEADER_LENGTH : (index + 1) * TAGGED_HEADER_LENGTH]
                end = one.end_of(index)
                first, last = one.span_of(index)
                found.append(_kept_of(end, first, last, end - one.starts[index], length, bytes(header), None))
        return found

    def unacknowledged(self, end: int) -> int:
        """Count the messages with octets between what the peer acknowledged and ``end``, the last octet captured.

        Where nothing was acknowledged nobody knows: 0.
        """
        acknowledged = self.acknowledged
        if acknowledged is None or acknowledged >= end:
            return 0
        kept, count = self._kept(), 0
        for one in kept:
            count += one.end > acknowledged and is_last(one)
        last = kept[-1] if kept else None
        is_begun = end > max(acknowledged, last.end if last is not None else 0) or (
            last is not None and not is_last(last)
        )
        return count + is_begun

    def quoted(self, header: TaggedHeader | UntaggedHeader) -> Quoted | None:
        """Return the message one of whose DDP Segments has this header, None if it is not among the FPDUs kept."""
        messages: dict[tuple[int, ...], Quoted] = {}
        asked: tuple[int, ...] | None = None
        run = 0
        for one in self._kept():
            found = decode_ddp(one.header.ljust(min(one.ulpdu_length, UNTAGGED_HEADER_LENGTH), b"\0"))
            if found is None or not one.header:
                continue
            key: tuple[int, ...]
            if isinstance(found, TaggedHeader):
                octets = one.ulpdu_length - TAGGED_HEADER_LENGTH
                key = found.opcode, found.stag, run
                run += found.last
                is_asked = isinstance(header, TaggedHeader) and found[3:6] == header[3:6]
            else:
                octets = one.ulpdu_length - UNTAGGED_HEADER_LENGTH + found.mo
                key = -1, found.qn, found.msn
                is_asked = isinstance(header, UntaggedHeader) and found[5:7] == header[5:7]
            if is_asked:
                asked = key
            before = messages.get(key)
            if before is None:
                messages[key] = Quoted(octets, found.last, one.first_frame, one.last_frame, 1, one.misaligned_to)
            else:
                total = before.octets + octets if isinstance(found, TaggedHeader) else max(before.octets, octets)
                last_frame = max(before.last_frame, one.last_frame)
                messages[key] = Quoted(
                    total, found.last, before.first_frame, last_frame, before.segments + 1, before.misaligned_to
                )
        return messages.get(asked) if asked is not None else None

    def misaligned_atomic(self, frame: int) -> Quoted | None:
        """Return the last Atomic Request up to a frame whose TO is not 64-bit aligned, None without one."""
        found = None
        for one in self._kept():
            if one.misaligned_to is not None and one.last_frame <= frame:
                octets = one.ulpdu_length - UNTAGGED_HEADER_LENGTH
                found = Quoted(octets, True, one.first_frame, one.last_frame, 1, one.misaligned_to)
        return found

    def lengths_of(self, header: TaggedHeader | UntaggedHeader) -> list[int] | None:
        """Return the lengths that DDP Segments with this header may have, none if it was never sent.

        The first one is what the first of them has for DDP.
        None if it is not known, since one that is not kept may have it.  Of an untagged message that is known by those
        of its queue that are kept: MSN counts them (RFC 5041 §4.3).
        """
        lengths: list[int] = []
        is_known = self.has_all
        for one in self._kept():
            found = decode_ddp(one.header.ljust(min(one.ulpdu_length, UNTAGGED_HEADER_LENGTH), b"\0"))
            if found is None or not one.header:
                return None  # nobody knows what it holds
            if isinstance(found, UntaggedHeader) and isinstance(header, UntaggedHeader):
                if found.opcode == header.opcode and found[5:8] == header[5:8]:
                    lengths += _lengths(one, found.mo)
                is_known = is_known or (found.qn == header.qn and header.msn - found.msn & _MSN_MASK <= _MSN_MASK >> 1)
            elif isinstance(found, TaggedHeader) and isinstance(header, TaggedHeader) and found[3:6] == header[3:6]:
                lengths += _lengths(one, 0)
        return lengths if is_known else None


def _lengths(one: _Kept, mo: int) -> list[int]:
    """Return the lengths that a DDP Segment may have, as 16 bits.

    RFC 5040 §4.8 has the one that DDP hands up: of the segment, or of its payload, or of the message up to its end.
    Linux siw leaves out the headers that its opcode has, that of a Read Request too.  Nobody is accused who counts what
    MPA adds, without or with Markers.
    """
    length = one.ulpdu_length
    handed_up = length, length - TAGGED_HEADER_LENGTH, length - UNTAGGED_HEADER_LENGTH, length - _READ_REQUEST
    on_the_wire = plain_length(length), one.fpdu_length
    return [each & _LENGTH_MASK for each in (*handed_up, mo + length - UNTAGGED_HEADER_LENGTH, *on_the_wire)]


def is_last(fpdu: _Kept) -> bool:
    """Return True if an FPDU holds the last DDP Segment of its message, or none."""
    return not fpdu.header or bool(fpdu.header[0] & _LAST)


def _misaligned_to(ulpdu: Octets) -> int | None:
    """Return the TO of an Atomic Request if it is not 64-bit aligned, else None."""
    to = int.from_bytes(ulpdu[slice(*_ATOMIC_TO)], "big")
    return to if to % _ATOMIC_ALIGNMENT and len(ulpdu) >= _ATOMIC_TO[1] else None


def terminated(terminate: FoundTerminate, sent: MessageWatch | None) -> Terminated:
    """Return what a Terminate reports, and the message of those ``sent`` that it quotes."""
    ulpdu, _, known, ulpdu_length = terminate
    reported, header = decode_terminate(ulpdu, ulpdu_length), quoted_header(ulpdu, ulpdu_length)
    message = None
    if sent is not None and header is not None:
        message = sent.quoted(header)
    elif sent is not None and reported is not None and reported[:3] == _STREAM_ERROR and not reported.d:
        message = sent.misaligned_atomic(known[0])
    return Terminated(known[0], reported, header, message, known[1])
