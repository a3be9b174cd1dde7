"""Locating and placing FPDUs in any order of arrival (RFC 5044 §6, appendix A.3 and A.4).

The stream of a half connection is followed by a *chain*: each FPDU begins where the one before it ends.  What
arrives beyond a gap is located by Markers, placed *ahead* of the chain, and taken up when the chain gets there.

The chain is in one of three states.  CHAIN: the next FPDU begins at ``at``.  RETRY: an FPDU had a bad CRC, so
that its length proves nothing; ``at`` is where that length says the next one begins.  LOST: it is not known
where one begins; the next that a Marker locates is taken.

All that one frame changes is decided in one :meth:`Placement.work`, so that a segment whose TCP checksum turns
out to be wrong can be taken back before anyone has seen what it brought.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import NamedTuple

from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.receive.reader import LONGEST_FPDU, Extent, FPDUReader, MarkerDisagreement
from scapy_mpa.receive.records import BAD, GOOD, LENGTH, MARKER, NO_OPCODE, SCAN, START, UNCHECKED
from scapy_mpa.receive.segment import FRAME, TIME, Segment, checksum_is_wrong
from scapy_mpa.receive.stream import Stream, frames_of

CHAIN, RETRY, LOST = "chain", "retry", "lost"
#: FPDUs in a row with a bad CRC that are followed by their lengths before those are given up.
MOST_RETRIES = 16


class Located:
    """An FPDU that was located: what of it a record tells.

    ``complete`` and ``placed`` are (frame, nanoseconds); ``placed`` is None if its CRC is bad.
    """

    __slots__ = (
        "complete",
        "crc",
        "delivered",
        "extent",
        "frames",
        "located_by",
        "offset",
        "opcode",
        "placed",
        "terminate",
    )

    def __init__(
        self,
        extent: Extent,
        crc: int,
        frames: tuple[int, ...],
        complete: tuple[int, int],
        placed: tuple[int, int] | None,
        opcode: int,
    ) -> None:
        self.extent = extent
        self.offset = extent.offset
        self.crc = crc
        self.frames = frames
        self.complete = complete
        self.placed = placed
        self.opcode = opcode
        self.located_by = SCAN
        #: The frame at which it was delivered, 0 if it was not (yet).
        self.delivered = 0
        #: The ULPDU of a Terminate, which findings spell out.
        self.terminate = b""

    @property
    def end(self) -> int:
        """The offset after its last octet."""
        return self.extent.end

    def __lt__(self, other: Located) -> bool:
        return self.offset < other.offset


class Breach(NamedTuple):
    """A rule broken at an offset of the stream, and the frame and time (nanoseconds) at which it shows."""

    rule: str
    offset: int
    frame: int
    time: int
    detail: str


class Outcome(NamedTuple):
    """What one frame changed: FPDUs placed (or found bad), FPDUs the chain passed, rules broken."""

    placed: list[Located]
    settled: list[Located]
    breaches: list[Breach]


class _Withdrawn(Exception):
    """Segments had to be withdrawn: what this frame changed is decided anew."""


class Placement:
    """The FPDUs of one half connection.

    ``floor`` is (frame, nanoseconds) at which Full Operation became known: nothing is complete before.
    """

    __slots__ = (
        "_breaches",
        "_fresh",
        "_low",
        "_now",
        "_reader",
        "_retried",
        "_settled",
        "_stream",
        "ahead",
        "at",
        "cut",
        "floor",
        "placed_ends",
        "state",
    )

    def __init__(self, stream: Stream, reader: FPDUReader, floor: tuple[int, int]) -> None:
        self._stream = stream
        self._reader = reader
        self.floor = floor
        self.state = CHAIN
        self.at = 0
        #: FPDUs placed beyond the chain, by offset.
        self.ahead: list[Located] = []
        #: Where placed FPDUs end whose successor is not placed yet.
        self.placed_ends: set[int] = set()
        #: FPDUs known to begin somewhere, but cut by a gap.
        self.cut = 0
        self._now = floor
        #: No FPDU that is still to be found begins before.
        self._low = 0
        self._retried: list[Located] = []
        self._fresh: list[Located] = []
        self._settled: list[Located] = []
        self._breaches: list[Breach] = []

    @property
    def in_order(self) -> bool:
        """Whether nothing is out of order: the chain has its next start, and nothing lies beyond a gap."""
        return self.state is CHAIN and not self.ahead and not self._stream.islands

    def catch_up(self) -> None:
        """Take over from the fast path, which has consumed FPDUs in order."""
        if self.at != self._stream.base and self.in_order:
            self.at = self._low = self._stream.base
            self.placed_ends = {self.at}

    def work(self, now: tuple[int, int], new: list[tuple[int, int]]) -> Outcome:
        """Place what the octets of the ranges ``new``, captured at ``now`` (frame, nanoseconds), make complete."""
        self._now = now
        before = self.state, self.at, self._low, self._retried[:], self.at in self.placed_ends
        while True:
            try:
                self._advance()
                if self._reader.markers and (self._stream.islands or self.state is not CHAIN or self._conflict()):
                    for start, end in new:
                        self._locate_by_marker(start, end)
                    self._advance()
                break
            except _Withdrawn:
                # The chain goes back to where this frame found it; FPDUs of earlier frames stay placed.
                fresh = {id(located) for located in self._fresh}
                passed = [located for located in self._settled if id(located) not in fresh]
                self.ahead = sorted(passed + [located for located in self.ahead if id(located) not in fresh])
                self.state, self.at, self._low, self._retried = *before[:3], before[3][:]
                self.placed_ends = {located.end for located in self.ahead}
                if before[4]:
                    self.placed_ends.add(self.at)
                self._fresh, self._settled = [], []
                self._breaches = [breach for breach in self._breaches if breach.rule == "tcp-checksum"]
                new = [self._still_held(start, end) for start, end in new]
        return self._outcome()

    def skip_gap(self, now: tuple[int, int]) -> Outcome:
        """Give up the octets between what is in order and the first island."""
        stream = self._stream
        self._now = now
        if self.state is CHAIN and self.at < stream.next:
            self.cut += 1
        for located in self._retried:
            self._settle(located)
        self._retried = []
        self._low = stream.islands[0][0]
        stream.skip_to(self._low)
        self.state = LOST
        self._advance()
        return self._outcome()

    def flush(self, now: tuple[int, int]) -> Outcome:
        """At the end of the half connection: take up what is still ahead of the chain."""
        self._now = now
        self._retried = []
        for located in self.ahead[:]:
            self._settle(located)
        return self._outcome()

    # --- the chain ---

    def _advance(self) -> None:
        stream, reader = self._stream, self._reader
        while True:
            first = self.ahead[0] if self.ahead else None
            if self.state is LOST:
                if first is None or first.offset > stream.next:
                    return
                self.state, self.at = CHAIN, first.offset
                continue
            if self.state is RETRY and first is not None and first.offset <= self.at:
                self._rejoin(first.offset)
                continue
            if first is not None and first.offset == self.at:
                self._settle(first)
                continue
            extent = reader.extent(self.at, stream.next)
            if extent is None or extent.end > stream.next:
                return
            if self.state is CHAIN:
                self._take(extent)
            else:
                self._retry(extent)

    def _take(self, extent: Extent) -> None:
        """The chain's next FPDU is complete."""
        if extent.ulpdu_length > MAX_ULPDU_LENGTH:
            self._withdraw_wrong_segments(extent.header, extent.header + 2)
        if self._reader.crc and not self._reader.crc_is_good(extent):
            self._withdraw_wrong_segments(extent.offset, extent.end)
            self._report("crc", extent.offset, f"FPDU with a ULPDU of {extent.ulpdu_length} octets: CRC mismatch")
            self._settle(self._located(extent, BAD))
            self.state = RETRY
            return
        disagreement = self._reader.disagreement(extent, extent.end)
        if disagreement is not None:
            self._report_disagreement(extent, disagreement)
        while self.ahead and self.ahead[0].offset < extent.end:
            # Both starts lead to a good CRC (or none is in use): the chain of lengths holds.
            other = self.ahead.pop(0)
            self.placed_ends.discard(other.end)
            self._report(
                "marker-length",
                extent.offset,
                f"a Marker names a start {other.offset - extent.offset} octets into the FPDU that lengths lead to",
            )
        self._settle(self._place(extent))

    def _retry(self, extent: Extent) -> None:
        """After a bad CRC: is there an FPDU where the bad one's length says?"""
        if self._reader.crc_is_good(extent):
            self._rejoin(extent.offset)
            self._take(extent)
        elif len(self._retried) < MOST_RETRIES and self._is_plausible(extent):
            self._retried.append(self._located(extent, BAD, fresh=False))
            self.at = extent.end
        else:
            self.state, self._retried = LOST, []

    def _rejoin(self, offset: int) -> None:
        """An FPDU with a good CRC begins at ``offset``: those retried before it were bad, any beyond never were."""
        for located in self._retried:
            if located.end > offset:
                break
            self._fresh.append(located)
            self._report(
                "crc",
                located.offset,
                f"FPDU with a ULPDU of {located.extent.ulpdu_length} octets: CRC mismatch",
            )
            self._settle(located)
        self._retried = []
        self.state, self.at = CHAIN, offset

    def _is_plausible(self, extent: Extent) -> bool:
        """Whether DDP could have sent this: known opcode, no reserved bit, T as the opcode wants it (RFC 5040 §4)."""
        control = self._reader.control(extent)
        if len(control) < 2 or control[0] & 0x3C or control[0] & 0x03 > 1 or control[1] & 0x30:
            return False
        opcode = control[1] & 0x0F
        return opcode < 12 and (control[0] >> 7 == 1) == (opcode in (0, 2)) and control[1] >> 6 < 2

    def _conflict(self) -> bool:
        """Whether Markers of the chain's next FPDU, not complete yet, name another start."""
        extent = self._reader.extent(self.at, self._stream.next)
        if extent is None:
            return False
        found = self._reader.disagreement(extent, self._stream.next)
        return found is not None and found.kind == "bad"

    # --- Markers ---

    def _locate_by_marker(self, start: int, end: int) -> None:
        """Place what Markers in or next to the new octets [start, end) locate, and what follows it."""
        island = self._stream.island(start)
        if island is None:
            return
        first, last = island
        first = max(first, self._low)
        index = bisect_left(self.ahead, start, key=lambda located: located.offset) - 1
        if index >= 0 and first <= self.ahead[index].end <= end:
            self._follow(self.ahead[index], last)
        marker = max(start - MARKER_LENGTH, first + -first % MARKER_INTERVAL)
        marker -= marker % MARKER_INTERVAL
        if marker < first:
            marker += MARKER_INTERVAL
        tried: set[int] = set()
        chained = self.state is CHAIN
        while marker + MARKER_LENGTH <= last:
            inside = self._ahead_at(marker)
            if inside is not None:
                marker = inside.end + -inside.end % MARKER_INTERVAL
            else:
                for offset in self._reader.starts_named_by(marker):
                    if first <= offset and offset not in tried and not (chained and offset == self.at):
                        tried.add(offset)
                        if self._place_by_marker(offset, marker, last):
                            break
                if marker >= end:
                    return
                marker += MARKER_INTERVAL
            if marker >= end + MARKER_INTERVAL:
                return

    def _place_by_marker(self, offset: int, marker: int, last: int) -> bool:
        extent = self._reader.extent(offset, last)
        if extent is None or extent.end > last or not offset <= marker < extent.end:
            return False
        if self._overlaps_ahead(extent):
            return False
        contradicted = self._contradicts_chain(extent)
        if self._reader.crc:
            if not self._reader.crc_is_good(extent):
                return False
        elif contradicted or self._is_contradicted(extent):
            return False
        disagreement = self._reader.disagreement(extent, extent.end)
        if disagreement is not None:
            self._report_disagreement(extent, disagreement)
        if contradicted:
            self._report(
                "marker-length",
                extent.offset,
                f"a Marker names a start {extent.offset - self.at} octets into the FPDU that lengths lead to",
            )
        located = self._place(extent)
        insort(self.ahead, located)
        self._follow(located, last)
        return True

    def _follow(self, located: Located, last: int) -> None:
        """Place the FPDUs that follow one placed ahead, as far as they are complete."""
        while True:
            extent = self._reader.extent(located.end, last)
            if extent is None or extent.end > last or self._overlaps_ahead(extent):
                return
            if self._reader.crc:
                if not self._reader.crc_is_good(extent):
                    return
            elif self._is_contradicted(extent):
                return
            disagreement = self._reader.disagreement(extent, extent.end)
            if disagreement is not None:
                self._report_disagreement(extent, disagreement)
            located = self._place(extent)
            insort(self.ahead, located)

    def _is_contradicted(self, extent: Extent) -> bool:
        found = self._reader.disagreement(extent, extent.end)
        return found is not None and found.kind == "bad"

    def _contradicts_chain(self, extent: Extent) -> bool:
        if self.state is not CHAIN or extent.offset >= self._stream.next:
            return False
        chained = self._reader.extent(self.at, self._stream.next)
        return chained is not None and extent.offset < chained.end

    def _ahead_at(self, offset: int) -> Located | None:
        index = bisect_left(self.ahead, offset + 1, key=lambda located: located.offset) - 1
        if index >= 0 and offset < self.ahead[index].end:
            return self.ahead[index]
        return None

    def _overlaps_ahead(self, extent: Extent) -> bool:
        index = bisect_left(self.ahead, extent.end, key=lambda located: located.offset) - 1
        return index >= 0 and self.ahead[index].end > extent.offset

    # --- what came of it ---

    def _located(self, extent: Extent, crc: int, fresh: bool = True) -> Located:
        pieces = self._stream.pieces_of(extent.offset, extent.end)
        latest = max(pieces, key=lambda piece: piece[3][FRAME])[3]
        complete = max((latest[FRAME], latest[TIME]), self.floor)
        control = self._reader.control(extent)
        opcode = control[1] & 0x0F if len(control) == 2 else NO_OPCODE
        placed = None if crc == BAD else self._now
        located = Located(extent, crc, frames_of(pieces), complete, placed, opcode)
        if fresh:
            self._fresh.append(located)
        return located

    def _place(self, extent: Extent) -> Located:
        located = self._located(extent, GOOD if self._reader.crc else UNCHECKED)
        self.placed_ends.add(extent.end)
        if located.opcode == 7:
            located.terminate = self._reader.ulpdu(extent, 64)
        return located

    def _settle(self, located: Located) -> None:
        """The chain passes an FPDU."""
        if self.ahead and self.ahead[0] is located:
            del self.ahead[0]
        self._settled.append(located)
        self.at = located.end
        # The extent of an FPDU with a bad CRC proves nothing: another may begin inside it.
        self._low = located.offset + 1 if located.crc == BAD else located.end

    def _report(self, rule: str, offset: int, detail: str) -> None:
        self._breaches.append(Breach(rule, offset, *self._now, detail))

    def _report_disagreement(self, extent: Extent, found: MarkerDisagreement) -> None:
        distance = found.marker_offset - extent.offset
        detail = f"Marker {distance} octets into the FPDU: FPDUPTR {found.fpduptr}, expected {found.expected}"
        self._report("fpduptr-origin" if found.kind == "other-origin" else "marker-length", extent.offset, detail)

    def _withdraw_wrong_segments(self, start: int, end: int) -> None:
        """Withdraw the segments that hold [start, end) and whose TCP checksum is wrong, if there are any."""
        wrong: list[Segment] = []
        for _, _, _, seg in self._stream.pieces_of(start, end):
            if not any(seg is other for other in wrong) and checksum_is_wrong(seg):
                wrong.append(seg)
        if wrong:
            self.withdraw(wrong, start)
            raise _Withdrawn

    def withdraw(self, wrong: list[Segment], offset: int) -> None:
        """Forget what segments with a wrong TCP checksum brought; the real receiver dropped them."""
        for seg in wrong:
            self._breaches.append(
                Breach(
                    "tcp-checksum",
                    offset,
                    seg[FRAME],
                    seg[TIME],
                    "TCP checksum wrong: taken as dropped by the receiver",
                )
            )
        self._stream.withdraw(wrong)

    def _still_held(self, start: int, end: int) -> tuple[int, int]:
        pieces = self._stream.pieces_of(start, end)
        return (max(start, pieces[0][0]), min(end, pieces[-1][1])) if pieces else (end, end)

    def _outcome(self) -> Outcome:
        """Decide by which rule each FPDU placed in this frame was located, and let go of octets."""
        fresh = sorted(self._fresh)
        for located in fresh:
            if located.offset == 0:
                located.located_by = START
            elif located.offset in self.placed_ends:
                located.located_by = LENGTH
            elif located.extent.markers:
                located.located_by = MARKER
            elif located.placed is not None:
                # Found by its CRC alone, so no other FPDU had to be placed before it.
                located.placed = located.complete
        for located in self._settled:
            self.placed_ends.discard(located.offset)
        outcome = Outcome(fresh, self._settled, self._breaches)
        self._fresh, self._settled, self._breaches = [], [], []
        stream = self._stream
        keep = self._low
        if self.state is LOST:
            # Nothing that begins farther back can still be found.
            keep = max(keep, stream.next - (2 * LONGEST_FPDU if self._reader.markers else 0))
        stream.consume(min(keep, stream.next))
        return outcome
