"""Segments that their receiver dropped, and copies of octets that differ (RFC 9293 §3.7, §3.10.7.4; RFC 7323 §5.3).

In: FPDUs in stream order, copies that were not chosen, octets that were left out, segments without octets that were
dropped, and segments of other connections on the same addresses and ports.  Out: breaches, each with both frames where
there are two.  Who sent a copy is only named where the TCP checksums of both are right and one fits no FPDU.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from scapy_mpa.framing.startup import REPLY_KEY, REQUEST_KEY
from scapy_mpa.receiver.plain import PlainRun
from scapy_mpa.receiver.values import Breach, LeftOut, LocatedFPDU, Moment
from scapy_mpa.receiver.window import FPDUWindow, Layout
from scapy_mpa.stream.connection import Arrival, Dropped, Stray
from scapy_mpa.stream.copies import WRONG, Rival
from scapy_mpa.stream.drop_reason import DropReason
from scapy_mpa.values.records import BAD, GOOD
from scapy_mpa.values.segment import FIN, RST, SYN
from scapy_mpa.watches.gaps import DROPPED
from scapy_mpa.watches.lifecycle import after, distance

#: FPDUs that are remembered: of a copy of anything before them it is not known whether it fits an FPDU.  A bound of
#: memory: 1 MiB.
REMEMBERED: Final = 4096
#: Doubtful segments that are remembered until it is known what became of them.  A bound of time: all are examined
#: for what is left out.
MOST_DOUBTFUL: Final = 1024

_FIRST: Final = "the first copy is kept"
_KEY: Final = "the Key says which is right"
_ACKNOWLEDGED: Final = "it came after the peer had acknowledged them"


class _Passed:
    """An FPDU that was passed; ``last_frame`` is the last of its frames."""

    __slots__ = ("crc", "end", "last_frame", "offset")

    offset: int
    end: int
    crc: int
    last_frame: int


def _passed_of(offset: int, end: int, crc: int, last_frame: int) -> _Passed:
    """Return a :class:`_Passed` of these values: a function in C takes numbers as they are, a class does not."""
    one = _Passed.__new__(_Passed)
    one.offset, one.end, one.crc, one.last_frame = offset, end, crc, last_frame
    return one


def _count_of(passed: _Passed | PlainRun) -> int:
    run = passed if isinstance(passed, PlainRun) else None
    return len(run.starts) if run is not None else 1


#: Frames, in the order in which they were remembered; no dict is made before there is one.
_Frames: TypeAlias = "dict[int, None] | tuple[()]"


class CopyWatch:
    """The copies of one direction.

    Args:
        layout: how FPDUs lie.
        startup_frame: the frame that completed the startup frame, 0 if it was not captured.
    """

    __slots__ = (
        "_count", "_differing", "_doubtful", "_dropped", "_fpdus", "_highest", "_keep_alives", "_layout", "_starts",
        "_startup_frame",
    )  # fmt: skip

    def __init__(self, layout: Layout, startup_frame: int = 0) -> None:
        self._layout = layout
        self._startup_frame = startup_frame
        #: FPDUs, and runs of them, by their offsets; and how many FPDUs they are.
        self._fpdus: list[_Passed | PlainRun] = []
        self._count = 0
        self._starts: list[int] = []
        self._doubtful: dict[int, Arrival] | None = None
        #: Frames of segments that were reported as dropped, and of keep-alives.
        self._dropped: _Frames = ()
        #: Frames whose copies differ from others: the first place of each is reported.
        self._differing: _Frames = ()
        self._keep_alives: _Frames = ()
        #: The offset after the highest octet of segments without a reason to be dropped.
        self._highest = 0

    def arrived(self, arrival: Arrival) -> None:
        """Remember a segment that its receiver may have dropped, and a keep-alive."""
        if arrival.reason:
            if self._doubtful is None:
                self._doubtful = {}
            if len(self._doubtful) < MOST_DOUBTFUL:
                self._doubtful[arrival.frame] = arrival
        elif not arrival.new and arrival.end == arrival.start + 1 == self._highest:
            self._keep_alives = _remember(self._keep_alives, arrival.frame)
        elif arrival.end > self._highest:
            self._highest = arrival.end

    def arrived_aligned(self, end: int) -> None:
        """Note the end of a segment with new octets that has no reason to be dropped."""
        if end > self._highest:
            self._highest = end

    def passed(self, fpdu: LocatedFPDU) -> None:
        """Remember the next FPDU in stream order."""
        self._remember(fpdu.offset, 1, _passed_of(fpdu.offset, fpdu.end, fpdu.crc, fpdu.frames[-1]))

    def passed_run(self, run: PlainRun) -> None:
        """Remember FPDUs that were passed together."""
        self._remember(run.offset, len(run.starts), run)

    def _remember(self, offset: int, count: int, passed: _Passed | PlainRun) -> None:
        self._starts.append(offset)
        self._fpdus.append(passed)
        self._count += count
        if self._count > 2 * REMEMBERED:
            old = 0
            while self._count - _count_of(self._fpdus[old]) >= REMEMBERED:
                self._count -= _count_of(self._fpdus[old])
                old += 1
            del self._starts[:old], self._fpdus[:old]

    def _fpdu_at(self, offset: int) -> _Passed | None:
        index = bisect_right(self._starts, offset) - 1
        found = self._fpdus[index] if index >= 0 else None
        if found is None or offset >= found.end:
            return None
        if not isinstance(found, PlainRun):
            return found
        start, end, frame = found.fpdu_at(offset)
        return _passed_of(start, end, found.crc, frame)

    # --- copies that compete ---

    def competed(self, rivals: Iterable[Rival]) -> Iterator[Breach]:
        """Report copies that were not chosen, of FPDUs that were passed."""
        dropped: dict[int, tuple[Rival, _Passed]] = {}
        for rival in rivals:
            at = rival.differs_at
            fpdu = self._fpdu_at(rival.start if at is None else at)
            if rival.decided_by == "reason":
                if (at is not None or rival.other < rival.chosen) and rival.other[0] not in self._dropped:
                    self._dropped = _remember(self._dropped, rival.other[0])
                    yield self._drop(rival)
            elif rival.other[0] in self._keep_alives:
                continue  # it may bring an octet of anything (RFC 9293 §3.8.4)
            elif at is not None and fpdu is not None and is_silent_drop(rival, fpdu) and self._layout.crc:
                before = dropped.get(fpdu.offset)
                if before is None or before[0].other < rival.other:
                    dropped[fpdu.offset] = rival, fpdu
            elif at is not None and (late := max(rival.chosen, rival.other)[0]) not in self._differing:
                self._differing = _remember(self._differing, late)
                yield from self._overlap(rival, at, fpdu)
        for rival, fpdu in dropped.values():
            bad, good = rival.other[0], rival.chosen
            detail = f"frame {bad} carried the FPDU with a bad CRC, frame {good[0]} with a good one"
            yield Breach("crc-dropped", fpdu.offset, *good, detail)

    def _drop(self, rival: Rival) -> Breach:
        """Report a segment whose receiver dropped it for another one."""
        arrival = None if self._doubtful is None else self._doubtful.pop(rival.other[0], None)
        instead = f"; frame {rival.chosen[0]} carried its octets"
        if rival.other_reason == DropReason.CHECKSUM:
            at = rival.start if rival.differs_at is None else rival.differs_at
            return Breach("tcp-checksum", at, *rival.other, DROPPED + instead)
        start, end = (rival.start, rival.end) if arrival is None else (arrival.start, arrival.end)
        tsval = None if arrival is None else arrival.tsval
        rule, detail = why_dropped(f"{end - start:,} octets", rival.other_reason, tsval, start - rival.start)
        return Breach(rule, start, *rival.other, detail + instead)

    def _overlap(self, rival: Rival, at: int, fpdu: _Passed | None) -> Iterator[Breach]:
        """Report a copy with other octets, captured after the one that it differs from."""
        early, late = sorted((rival.chosen, rival.other))
        if at < 0:
            is_late = rival.decided_by == "acknowledged"
            why = _KEY if rival.decided_by == "validity" else _FIRST
            detail = f"a startup frame differs from its copy in frame {early[0]}; {why}"
            if is_late:
                detail = (
                    f"octets of a startup frame differ from those in frame {self._startup_frame or early[0]}: this "
                    "copy came after the peer's answer"
                )
            yield Breach("overlap", rival.start, *late, detail)
            return
        fits = fpdu is not None and self._fits(rival, fpdu)
        why = _ACKNOWLEDGED if rival.decided_by == "acknowledged" else _FIRST
        if rival.decided_by == "validity":
            why = "the CRC says which is right" if self._layout.crc else "the Markers say which is right"
        elif fpdu is not None and self._layout.crc and not rival.is_late and rival.decided_by == "first":
            if fpdu.crc == BAD:
                why = f"neither is right, {_FIRST}"
            elif fpdu.crc == GOOD and not fits:
                why = "the CRC says which is right"
        yield Breach("overlap", at, *late, f"an octet differs from its copy in frame {early[0]}: {why}")
        if fpdu is None or not self._layout.crc or not rival.has_right_checksums:
            return
        is_good = fpdu.crc == GOOD
        if is_good and fits:
            detail = f"frames {early[0]} and {late[0]} carried different FPDUs, both with good CRCs"
        elif is_good or fits:
            good, bad = (rival.chosen, rival.other) if is_good else (rival.other, rival.chosen)
            detail = f"the octets of frame {bad[0]} fit TCP but no FPDU, unlike those of frame {good[0]}"
        else:
            return
        yield Breach("attack-injection", at, *late, detail)

    def _fits(self, rival: Rival, fpdu: _Passed) -> bool:
        """Return True if the octets of the copy that was not chosen hold a valid FPDU from the same place on."""
        first = fpdu.offset
        if rival.start > first:
            return False
        return FPDUWindow(memoryview(rival.octets)[first - rival.start :], first, self._layout).is_whole_and_valid(
            first
        )

    # --- segments that nothing competes with ---

    def left_out(self, octets: LeftOut, fin_frame: int, start: int | None) -> Iterator[Breach]:
        """Report octets that were not believed, segment by segment.

        ``fin_frame`` is that of the FIN, 0 without one; ``start`` the first offset after the SYN.
        """
        doubtful = self._doubtful or {}
        inside = [
            one
            for one in doubtful.values()
            if one.start < octets.end and one.end > octets.start and one.frame <= octets.until
        ]
        for one in inside:
            del doubtful[one.frame]
            what = one.start, one.end, one.reason, one.tsval
            yield self._leave_out(octets, *what, (one.frame, one.time), fin_frame, start)
        if not inside:
            what = octets.start, octets.end, octets.reason, None
            yield self._leave_out(octets, *what, (octets.frame, octets.time), fin_frame, start)

    def _leave_out(
        self,
        octets: LeftOut,
        begin: int,
        end: int,
        reason: DropReason,
        tsval: int | None,
        moment: Moment,
        fin_frame: int,
        start: int | None,
    ) -> Breach:
        what = f"{end - begin:,} octets"
        if octets.reason == DropReason.AFTER_FIN and (fin_frame < moment[0] or reason == DropReason.AFTER_FIN):
            detail = f"{what} after the FIN of frame {fin_frame}, which ends the half connection"
            return Breach("outside-window", begin, *moment, detail)
        rule, detail = why_dropped(what, reason, tsval, begin - octets.expected, after(begin, start))
        return Breach(rule, begin, *moment, detail)


def _remember(frames: _Frames, frame: int) -> dict[int, None]:
    """Return frames with one more; beyond MOST_DOUBTFUL the first one is forgotten."""
    known = frames or {}
    known[frame] = None
    if len(known) > MOST_DOUBTFUL:
        del known[next(iter(known))]
    return known


def is_silent_drop(rival: Rival, fpdu: _Passed) -> bool:
    """Return True if the FPDU was complete, and bad, before the copy came that makes it good (RFC 5044 §8)."""
    is_later = rival.other[0] < rival.chosen[0] == fpdu.last_frame
    return rival.decided_by == "validity" and is_later and not rival.is_sole


def why_dropped(
    what: str, reason: DropReason, tsval: int | None, ahead: int, after_start: int | None = None
) -> tuple[str, str]:
    """Return the rule, and the sentence, of a segment that its receiver dropped; the distances are as in distance()."""
    if reason == DropReason.CHECKSUM:
        return "tcp-checksum", DROPPED
    if reason == DropReason.PAWS:
        stamp = "its timestamp" if tsval is None else f"timestamp {tsval}"
        return "old-timestamp", f"{stamp} is older than that of octets accepted before"
    return "outside-window", f"{what}, {distance(ahead, after_start)}"


def dropped_segments(dropped: Sequence[Dropped], start: int | None) -> Iterator[Breach]:
    """Report segments without octets that their receiver dropped; ``start`` is the first offset after the SYN."""
    for one in dropped:
        what = "a FIN" if one.flags & FIN else "an acknowledgement"
        ahead, after_start = one.offset - one.expected, after(one.offset, start)
        rule, detail = why_dropped(what, one.reason, one.tsval, ahead, after_start)
        if one.reason == DropReason.INVALID_ACK:
            detail = f"acknowledges {one.ack}, which was never sent"
        yield Breach(rule, one.offset, one.frame, one.time, detail)


def other_fins(fins: Sequence[tuple[int, int, int]], fin: tuple[int, int, int] | None) -> Iterator[Breach]:
    """Report FINs before or after the one that counts; each is offset, frame and time."""
    for offset, frame, time in fins:
        detail = f"a FIN in frame {frame}, after which its sender continues"
        if fin is not None and fin[1] < frame:
            detail = f"another FIN after the FIN of frame {fin[1]}, which ends the half connection"
        yield Breach("outside-window", offset, frame, time, detail)


def stray(
    one: Stray, offset: int, expected: int | None, edge: int | None, start: int | None, has_right_checksums: bool
) -> Breach:
    """Report a segment that arrived in the middle of a connection, and does not belong to it.

    Args:
        one: the segment.
        offset: that of its sequence number in the connection.
        expected: the offset of what came next there, None if nothing else of its direction was captured.
        edge: the offset up to which its receiver had room, None if that is not known.
        start: that of its first octet, None if no SYN was captured.
        has_right_checksums: whether its sender's checksums are otherwise right.
    """
    place = offset, one.frame, one.time
    if has_right_checksums and one.checksum == WRONG:
        return Breach("tcp-checksum", *place, DROPPED)
    if one.flags & SYN:
        return Breach("attack-syn", *place, "a SYN that nobody answered")
    flag = "a RST" if one.flags & RST else "a FIN" if one.flags & FIN else "an acknowledgement"
    what = f"{one.length:,} octets" if one.length else flag
    is_startup = one.beginning.startswith((REQUEST_KEY, REPLY_KEY))
    detail = f"{'a startup frame' if is_startup else what}, "
    if expected is None:
        detail += "all that was captured of this direction"
    else:
        detail += distance(offset - expected, after(offset, start))
        if edge is not None and expected <= offset < edge:
            detail = detail.removesuffix(", outside the window")
    if one.is_earlier:
        detail += ", where the previous connection on these ports had its octets"
    return Breach("late-duplicate" if one.is_earlier or is_startup else "outside-window", *place, detail)
