"""Octets that differ between two taps: where they lie in the stream, and what they are of their FPDU (RFC 5044 §4)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeAlias

from scapy_mpa.compare.matching import Passed
from scapy_mpa.compare.tap import TapHalf
from scapy_mpa.framing.crc import CRC_LENGTH
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord

Part: TypeAlias = Literal["before Full Operation", "outside FPDUs", "ULPDU_Length", "Marker", "ULPDU", "PAD", "CRC"]
#: Octets of a change that are shown.
_SHOWN = 16


class Change(NamedTuple):
    """Octets one after the other that a segment brought other than they were sent.

    Attributes:
        offset: of the first, from the beginning of Full Operation at the sender's tap.
        octets: how many.
        before: as they passed the sender's tap, at most 16 of them.
        after: as they passed the receiver's.
        sent_frame: the frame at the sender's tap.
        received_frame: the frame at the receiver's.
        checksum_shows: whether the TCP checksum at the receiver's tap is wrong: TCP drops the segment.
        part: what they are.
        fpdu: the number of their FPDU, from 0, at the sender's tap; None if they are in none.
        crc_before: the verdict on its CRC at the sender's tap.
        crc_after: the one at the receiver's tap, None if no FPDU was found there.
    """

    offset: int
    octets: int
    before: bytes
    after: bytes
    sent_frame: int
    received_frame: int
    checksum_shows: bool
    part: Part = "outside FPDUs"
    fpdu: int | None = None
    crc_before: str | None = None
    crc_after: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        values = self._asdict()
        return values | {"before": self.before.hex(), "after": self.after.hex()}


class Reference:
    """The stream as it passed the sender's tap, each octet by the segment that begins first."""

    def __init__(self, half: TapHalf) -> None:
        self._half = half
        self._starts: list[int] = []
        self._pieces: list[tuple[int, int, int]] = []
        order = sorted(range(len(half)), key=half.starts.__getitem__)
        reach: int | None = None
        for index in order:
            start = half.starts[index]
            end = start + half.kept[index]
            first = start if reach is None else max(start, reach)
            if first < end:
                self._starts.append(first)
                self._pieces.append((first, end, index))
                reach = end

    def pieces(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield start, end and segment of what is known about a range."""
        at = max(0, bisect_right(self._starts, start) - 1)
        while at < len(self._pieces) and self._pieces[at][0] < end:
            first, last, index = self._pieces[at]
            if last > start:
                yield max(first, start), min(last, end), index
            at += 1


def differences(
    sent: TapHalf, received: TapHalf, shift: int, place: int, pairs: Sequence[tuple[int, int]]
) -> Iterator[Change]:
    """Yield what differs, in the order of the receiver's tap; the parts of FPDUs are not known yet.

    ``shift`` added to an offset at the receiver's tap gives that at the sender's; ``place`` is taken off for offsets of
    Full Operation.
    """
    partner = dict(pairs)
    reference: Reference | None = None
    for there in range(len(received)):
        start = received.starts[there] + shift
        end = start + received.kept[there]
        here = partner.get(there)
        if here is not None:
            pieces = iter([(start, min(end, start + sent.kept[here]), here)])
        else:
            reference = reference or Reference(sent)
            pieces = reference.pieces(start, end)
        shows: bool | None = None
        for first, last, index in pieces:
            before = sent.octets(index, first - sent.starts[index], last - sent.starts[index])
            after = received.octets(there, first - start, last - start)
            if before == after:
                continue
            shows = received.has_wrong_checksum(there) if shows is None else shows
            for low, high in _runs(before, after):
                yield Change(
                    first + low - place,
                    high - low,
                    before[low : min(high, low + _SHOWN)],
                    after[low : min(high, low + _SHOWN)],
                    sent.frames[index],
                    received.frames[there],
                    shows,
                )


def _runs(before: bytes, after: bytes) -> Iterator[tuple[int, int]]:
    start: int | None = None
    count = min(len(before), len(after))
    for index in range(count):
        if before[index] != after[index]:
            start = index if start is None else start
        elif start is not None:
            yield start, index
            start = None
    if start is not None:
        yield start, count


def located(changes: Sequence[Change], sender: HalfConnection, receiver: HalfConnection | None) -> list[Change]:
    """The changes with what they are of which FPDU, cut at the borders of parts, in the order of the stream."""
    if sender.seq_start is None:
        return [*changes]
    found: list[Change] = []
    waiting = sorted(changes, key=lambda one: one.offset)
    at, numbers = 0, []
    while at < len(waiting) and waiting[at].offset < 0:
        found.append(waiting[at]._replace(part="before Full Operation"))
        at += 1
    offset, seq = 0, sender.seq_start
    held: list[Change] = waiting[at:]
    held.reverse()
    for number, record in enumerate(sender.fpdus):
        if not held:
            break
        offset += record.seq - seq & 0xFFFFFFFF
        seq = record.seq
        end = offset + record.wire_length
        again: list[Change] = []
        while held and held[-1].offset < end:
            change = held.pop()
            if change.offset < offset:
                head, rest = _split(change, offset - change.offset)
                found.append(head)
                if rest is None:
                    continue
                change = rest
            inside, rest = _split(change, end - change.offset)
            if rest is not None:
                again.append(rest)
            for part, piece in _parts(inside, offset, record, bool(sender.markers)):
                found.append(piece._replace(part=part, fpdu=number, crc_before=record.crc))
                numbers.append(number)
        held += reversed(again)
    found += reversed(held)
    if receiver is None or receiver.seq_start is None:
        return found
    verdicts = _verdicts(found, receiver, sender)
    return [one if one.fpdu is None else one._replace(crc_after=verdicts.get(one.fpdu)) for one in found]


def _verdicts(changes: Sequence[Change], receiver: HalfConnection, sender: HalfConnection) -> dict[int, str]:
    """The verdict of the receiver's tap on the CRC of each FPDU that changes lie in, by number at the sender's."""
    numbers = {one.fpdu for one in changes if one.fpdu is not None}
    places: dict[int, int] = {}
    for offset, number in _offsets(sender):
        if number in numbers:
            places[offset] = number
    found: dict[int, str] = {}
    offset, seq = 0, receiver.seq_start or 0
    for record in receiver.fpdus:
        offset += record.seq - seq & 0xFFFFFFFF
        seq = record.seq
        if offset in places:
            found[places[offset]] = record.crc
    return found


def _offsets(half: HalfConnection) -> Iterator[tuple[int, int]]:
    offset, seq = 0, half.seq_start or 0
    for number, record in enumerate(half.fpdus):
        offset += record.seq - seq & 0xFFFFFFFF
        seq = record.seq
        yield offset, number


def _split(change: Change, octets: int) -> tuple[Change, Change | None]:
    """The first octets of a change, and the rest of it."""
    if change.octets <= octets:
        return change, None
    head = change._replace(octets=octets, before=change.before[:octets], after=change.after[:octets])
    rest = change._replace(
        offset=change.offset + octets,
        octets=change.octets - octets,
        before=change.before[octets:],
        after=change.after[octets:],
    )
    return head, rest


def _parts(change: Change, offset: int, record: FPDURecord, markers: bool) -> Iterator[tuple[Part, Change]]:
    """Yield the pieces of a change that lies in an FPDU, each with what it is."""
    rest: Change | None = change
    while rest is not None:
        part, end = _part(rest.offset, offset, record, markers)
        head, rest = _split(rest, end - rest.offset)
        yield part, head


def _part(at: int, offset: int, record: FPDURecord, markers: bool) -> tuple[Part, int]:
    """Return what the octet at a stream offset is in the FPDU at ``offset``, and where in the stream that part ends."""
    end = offset + record.wire_length
    border = end
    if markers:
        phase = at % MARKER_INTERVAL
        if phase < MARKER_LENGTH:
            return "Marker", min(end, at - phase + MARKER_LENGTH)
        border = min(end, at - phase + MARKER_INTERVAL)
    passed = _marker_octets(at) - _marker_octets(offset) if markers else 0
    index = at - offset - passed
    total = record.wire_length - (_marker_octets(end) - _marker_octets(offset) if markers else 0)
    ends: tuple[tuple[Part, int], ...] = (
        ("ULPDU_Length", LENGTH_FIELD_LENGTH),
        ("ULPDU", LENGTH_FIELD_LENGTH + record.ulpdu_length),
        ("PAD", total - CRC_LENGTH),
        ("CRC", total),
    )
    for part, last in ends:
        if index < last:
            return part, min(border, at + last - index)
    return "outside FPDUs", border


def _marker_octets(offset: int) -> int:
    """Octets of Markers before an offset of the stream."""
    return offset // MARKER_INTERVAL * MARKER_LENGTH + min(offset % MARKER_INTERVAL, MARKER_LENGTH)


def column(half: TapHalf, shift: int = 0, by_clock: Callable[[int], int] | None = None) -> Passed:
    """The segments of a half connection for matching; ``shift`` is added to their offsets, their times are mapped."""
    starts = [start + shift for start in half.starts] if shift else half.starts
    times = half.times if by_clock is None else [*map(by_clock, half.times)]
    return Passed(starts, half.lengths, times)
