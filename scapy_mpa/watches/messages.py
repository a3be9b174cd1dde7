"""RDMAP messages among the last FPDUs: those not acknowledged, and the one that a Terminate quotes (RFC 5040 §4.8).

In: FPDUs in stream order, and what the peer acknowledged.  A few numbers are kept of each of the last FPDUs; they are
read only when somebody asks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

from scapy_mpa.framing.ddp import (
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
    quoted_header,
)
from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, Octets
from scapy_mpa.receiver.values import LocatedFPDU, PlainRun
from scapy_mpa.values.lifecycle import Quoted, Terminated

#: Acknowledged FPDUs that are kept: a Terminate quotes what came shortly before.  A bound of memory: 100 KiB.
MOST_ACKNOWLEDGED: Final = 256
#: FPDUs, and runs of them, not acknowledged that are kept.  A bound of memory: 24 MiB, of a direction whose peer
#: acknowledges nothing.
MOST_KEPT: Final = 1 << 16
#: Octets that are kept of each FPDU of a run, if there are no more: a header and what keeps it take as many.
MOST_OCTETS: Final = 128
_LAST = 0x40


class _Kept(NamedTuple):
    end: int
    frames: tuple[int, ...]
    ulpdu_length: int
    header: bytes


class _KeptRun(NamedTuple):
    """FPDUs that were passed together; ``headers`` are those of their ULPDUs, empty if all octets are kept."""

    end: int
    run: PlainRun
    headers: bytes


def _places(run: PlainRun) -> list[int]:
    """Return where the ULPDU of each FPDU begins among the octets of a run."""
    before = LENGTH_FIELD_LENGTH - run.offset
    if not run.markers:
        return [start + before for start in run.starts]
    return [start + before + (0 if start % MARKER_INTERVAL else MARKER_LENGTH) for start in run.starts]


class MessageWatch:
    """The messages of one direction.

    Attributes:
        acknowledged: the offset up to which the peer acknowledged octets, None before it acknowledged any.
    """

    __slots__ = ("_fpdus", "acknowledged")

    def __init__(self) -> None:
        self._fpdus: deque[_Kept | _KeptRun] = deque()
        self.acknowledged: int | None = None

    def passed(self, fpdu: LocatedFPDU, ulpdu: Octets) -> None:
        """Keep the next FPDU in stream order; ``ulpdu`` are the first octets of its ULPDU."""
        self._keep(_Kept(fpdu.end, fpdu.frames, fpdu.ulpdu_length, bytes(ulpdu[:UNTAGGED_HEADER_LENGTH])))

    def passed_run(self, run: PlainRun, bare: PlainRun) -> None:
        """Keep FPDUs that were passed together: all their octets if these are few, else their headers.

        ``bare`` is the run without its octets.
        """
        headers = b""
        if run.end - run.offset > MOST_OCTETS * len(run.starts):
            octets = run.octets
            headers = b"".join([octets[at : at + TAGGED_HEADER_LENGTH] for at in _places(run)])
            run = bare
        self._keep(_KeptRun(run.end, run, headers))

    def _keep(self, one: _Kept | _KeptRun) -> None:
        fpdus = self._fpdus
        fpdus.append(one)
        if len(fpdus) > MOST_ACKNOWLEDGED:
            acknowledged = self.acknowledged
            if acknowledged is None or fpdus[0].end <= acknowledged or len(fpdus) > MOST_KEPT:
                fpdus.popleft()

    def _kept(self) -> Iterator[_Kept]:
        for one in self._fpdus:
            if isinstance(one, _Kept):
                yield one
                continue
            _, run, headers = one
            ends = [*run.starts[1:], run.end]
            for number, (at, end, length) in enumerate(zip(_places(run), ends, run.fpdus, strict=True)):
                first = number * TAGGED_HEADER_LENGTH
                header = headers[first : first + TAGGED_HEADER_LENGTH] or run.octets[at : at + TAGGED_HEADER_LENGTH]
                yield _Kept(end, run.moment[:1], length, bytes(header))

    def unacknowledged(self, end: int) -> int:
        """Count the messages with octets between what the peer acknowledged and ``end``, the last octet captured.

        Where nothing was acknowledged nobody knows: 0.
        """
        acknowledged = self.acknowledged
        if acknowledged is None or acknowledged >= end:
            return 0
        kept = list(self._kept())
        whole = [one for one in kept if one.end > acknowledged]
        last = kept[-1] if kept else None
        is_begun = end > max(acknowledged, last.end if last is not None else 0) or (
            last is not None and not is_last(last)
        )
        return sum(map(is_last, whole)) + is_begun

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
                messages[key] = Quoted(octets, found.last, one.frames[0], one.frames[-1], 1)
            else:
                total = before.octets + octets if isinstance(found, TaggedHeader) else max(before.octets, octets)
                last_frame = max(before.last_frame, one.frames[-1])
                messages[key] = Quoted(total, found.last, before.first_frame, last_frame, before.segments + 1)
        return messages.get(asked) if asked is not None else None


def is_last(fpdu: _Kept) -> bool:
    """Return True if an FPDU holds the last DDP Segment of its message, or none."""
    return not fpdu.header or bool(fpdu.header[0] & _LAST)


def terminated(terminate: tuple[bytes, int], sent: MessageWatch | None) -> Terminated:
    """Return what a Terminate, its ULPDU and frame, reports, and the message of those ``sent`` that it quotes."""
    ulpdu, frame = terminate
    reported = decode_terminate(ulpdu)
    header = quoted_header(ulpdu) if reported is not None else None
    message = sent.quoted(header) if sent is not None and header is not None else None
    return Terminated(frame, reported, header, message)
