"""Locating and placing FPDUs where scan cannot go on: a hole, a bad CRC, a Marker against a length (RFC 5044 §6, A.3,
A.4).

Recovery works on the same :class:`~scapy_mpa.receive.reassembly.Reassembly` as scan, frame by frame, and is left when
nothing is out of order any more (:attr:`Recovery.in_order`).  It follows the half connection by a *chain*: each FPDU
begins where the one before it ends.  What was captured beyond a hole is located by Markers, placed *ahead* of the
chain, and taken up when the chain gets there.

The chain is in one of three states.  CHAIN: the next FPDU begins at ``at``.  RETRY: an FPDU had a bad CRC, so that
its length proves nothing; ``at`` is where that length says the next one begins.  LOST: it is not known where one
begins; the next that a Marker locates, or that a :class:`~scapy_mpa.receive.search.Search` finds, is taken.

An FPDU beyond the chain whose CRC is bad is a *suspect*: its Marker or its length may be what is damaged.  It is
reported when the chain gets there, for the frame at which it was complete and located.

All that one frame changes is decided at once, so that a segment whose TCP checksum turns out to be wrong can be taken
back before anyone has seen what it brought.
"""

from __future__ import annotations

from collections.abc import Callable

from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_INTERVAL, MARKER_LENGTH, header_offset
from scapy_mpa.receive.evidence import HEADER_OCTETS, header_at
from scapy_mpa.receive.half import Moment
from scapy_mpa.receive.located import Ahead, Breach, Diagnosis, Located, Outcome, Suspects, offset_of
from scapy_mpa.receive.reassembly import Reassembly, frames_of
from scapy_mpa.receive.records import BAD, GOOD, LENGTH, MARKER, NO_OPCODE, SCAN, START, UNCHECKED
from scapy_mpa.receive.scan import Extent, FPDUReader, MarkerDisagreement
from scapy_mpa.receive.search import ALIGNMENT, Search
from scapy_mpa.receive.segment import Segment
from scapy_mpa.receive.watch.fpdus import oddities

CHAIN, RETRY, LOST = "chain", "retry", "lost"
#: FPDUs in a row with a bad CRC that are followed by their lengths before those are given up.
MOST_RETRIES = 16
#: Suspects that are remembered; more are taken for what they are only when the chain gets there.
MOST_SUSPECTS = 4096
#: Places where FPDUs end that are remembered before it is asked which of them still matter.
_FEW_ENDS = 256
#: Octets behind the last that are kept for a search: no chain of lengths is followed for longer.
_MOST_SEARCHED = 8 * LONGEST_FPDU
#: Octets of a ULPDU that are looked at: all of a ready-to-receive message (RFC 6581 §9.2).
FIRST_ULPDU_OCTETS = 48
#: Octets of a Terminate that are looked at: its control word comes first.
TERMINATE_OCTETS = 64

#: Octets of FPDUs that were found by their headers alone; Markers, if there were some, would have shown by then.
DOUBTFUL_OCTETS = 8 * MARKER_INTERVAL

DROPPED = "TCP checksum wrong: taken as dropped by the receiver"


class _WithdrawnError(Exception):
    """Segments had to be withdrawn: what this frame changed is decided anew."""


class Recovery:
    """The FPDUs of one half connection.

    ``floor`` is the moment at which Full Operation became known: nothing is complete before.  With ``keep_octets``
    what is located keeps its octets until it has been told.  ``begins_at`` is where the first FPDU begins, None if
    that is not known; ``may_search`` whether one may be searched for.
    """

    __slots__ = (
        "_ahead",
        "_breaches",
        "_doubtful",
        "_fresh",
        "_is_last",
        "_is_to_locate",
        "_keep_octets",
        "_low",
        "_may_ever_search",
        "_may_search",
        "_most_ends",
        "_now",
        "_phase",
        "_placed_ends",
        "_reader",
        "_reassembly",
        "_retried",
        "_search",
        "_settled",
        "_suspects",
        "at",
        "cut",
        "floor",
        "state",
    )

    def __init__(
        self,
        reassembly: Reassembly,
        reader: FPDUReader,
        floor: Moment,
        keep_octets: bool = False,
        begins_at: int | None = 0,
        may_search: bool = True,
    ) -> None:
        self._reassembly = reassembly
        self._keep_octets = keep_octets
        self._reader = reader
        self.floor = floor
        self.state = CHAIN
        self.at = begins_at or 0
        #: Octets in which FPDUs, found by nothing but headers that agree, must be followed by such to be believed.
        self._doubtful = 0
        #: FPDUs known to begin somewhere, but cut by a gap.
        self.cut = 0
        #: FPDUs placed beyond the chain.
        self._ahead = Ahead()
        #: FPDUs beyond the chain with a bad CRC.
        self._suspects = Suspects()
        #: Where FPDUs end whose successor the chain has not passed, and when they were placed.
        self._placed_ends: dict[int, Moment] = {}
        #: So many of them may be stale before they are gone through.
        self._most_ends = _FEW_ENDS
        self._now = floor
        #: Whether nothing more comes in order.
        self._is_last = False
        #: Whether new octets have not been searched for Markers yet.
        self._is_to_locate = False
        #: No FPDU that is still to be found begins before.
        self._low = reassembly.base
        #: What is left of the offsets of FPDUs modulo 4, None if that is not known.
        self._phase: int | None = 0
        #: What looks for an FPDU besides Markers, and whether it may in the present state LOST.
        self._search: Search | None = None
        self._may_search = False
        self._may_ever_search = may_search
        self._retried: list[Located] = []
        self._fresh: list[Located] = []
        self._settled: list[Located] = []
        self._breaches: list[Breach] = []
        if begins_at is None:
            self._phase = 0 if reader.layout.markers else None
            self._lose(may_search=not reader.layout.markers)

    #: Its sender conforms, as far as is known.
    diagnosis: Diagnosis | None = None

    @property
    def is_chained(self) -> bool:
        """Whether it is known where the next FPDU begins."""
        return self.state is CHAIN

    def count_cut(self) -> None:
        """Nothing more comes: the FPDU of which a part is there, if there is one, is cut by a gap."""
        self.cut += self.is_inside_fpdu

    def conclusions(self, _fpdus: int) -> list[Breach]:
        """There is nothing to be said of a sender that conforms."""
        return []

    @property
    def in_order(self) -> bool:
        """Whether nothing is out of order: the chain has its next start, and nothing lies beyond a gap."""
        return self.knows_next and not self._ahead and not self._reassembly.beyond

    @property
    def knows_next(self) -> bool:
        """Whether the chain has its next start, and nothing speaks against it."""
        return (
            self.state is CHAIN
            # What an FPDU that was placed is made of may have been withdrawn since.
            and self.at <= self._reassembly.next
            and not self._suspects
            and not self._doubtful
        )

    @property
    def is_inside_fpdu(self) -> bool:
        """Whether the chain has a part of an FPDU, and nothing says that it is none."""
        return self.state is CHAIN and self.at < self._reassembly.next

    def take_over(self, placed: Moment) -> bool:
        """Go on behind the FPDUs that scan has read, the last placed at ``placed``; False if it has read none."""
        if self.at >= self._reassembly.base or not self.in_order:
            return False
        self.at = self._low = self._reassembly.base
        self._placed_ends = {self.at: placed}
        return True

    def work(self, now: Moment, new: list[tuple[int, int]]) -> Outcome:
        """Place what the octets of the ranges ``new``, captured at ``now``, make complete."""

        def decide() -> None:
            # Where lengths may not be trusted, what Markers locate in the new octets comes first.
            self._is_to_locate = self._reader.layout.markers
            self._advance()
            self._is_to_locate = False
            if self._reader.layout.markers and (self._reassembly.beyond or self.state is not CHAIN or self._conflict()):
                for start, end in new:
                    for first, last in self._held_of(start, end):
                        self._locate_by_marker(first, last)
                self._advance()

        return self._decided(now, decide)

    def give_up(self, now: Moment) -> Outcome:
        """Nothing more comes in order: tell what waited for the octets that follow."""
        self.count_cut()

        def decide() -> None:
            self._is_last = True
            self._advance()
            # A length that led nowhere is not worth waiting for: what lies behind it may be found.
            while self.state is RETRY:
                self._accept_retried()
                self._lose()
                self._advance()
            self._is_last = False

        return self._decided(now, decide)

    def skip_gap(self, now: Moment) -> Outcome:
        """Give up the octets between what is in order and the first island."""
        reassembly = self._reassembly
        self._low = reassembly.beyond[0][0]
        reassembly.skip_to(self._low)
        reassembly.consume(self._low)
        # With Markers, the next one is not far (RFC 5044 §4.3): it alone is unambiguous.
        self._lose(may_search=not self._reader.layout.markers)
        return self._decided(now, self._advance)

    def drop(self, now: Moment) -> Outcome:
        """Give up the octets in order that wait for others."""
        self._low = self._reassembly.next
        self._reassembly.consume(self._low)
        self._lose(may_search=not self._reader.layout.markers)
        return self._decided(now, self._advance)

    def flush(self, now: Moment) -> Outcome:
        """At the end of the half connection, no gap being left: take up what the chain waits for in vain."""

        def decide() -> None:
            self._is_last = True
            self._advance()
            while self.state is RETRY or self._ahead or self._suspects:
                # What the chain waits for was never completed: its length must be wrong.
                self._accept_retried()
                if self.state is not LOST:
                    self._lose()
                if not self._find_chain():
                    return
                self._advance()
            self._accept_retried()

        return self._decided(now, decide)

    def take_rest(self, now: Moment) -> Outcome:
        """After the flush: what was placed and lies behind octets that were withdrawn since."""
        self._now = now
        while self._ahead:
            self._settle(self._ahead.pop())
        return self._outcome()

    @property
    def has_rest(self) -> bool:
        """Whether FPDUs are left that the chain has not passed."""
        return bool(self._ahead)

    # --- deciding what a frame changes ---

    def _decided(self, now: Moment, decide: Callable[[], None]) -> Outcome:
        self._now = now
        before = self.state, self.at, self._low
        retried, chained = self._retried[:], self._placed_ends.get(self.at)
        while True:
            try:
                decide()
                return self._outcome()
            except _WithdrawnError:
                self._is_to_locate = False
                # The chain goes back to where this frame found it; FPDUs of earlier frames stay placed.
                self._take_back()
                self.state, self.at, self._low = before
                self._retried = retried[:]
                self._search = None
                if self.state is LOST:
                    self._lose(self._may_search)
                if chained is not None:
                    self._placed_ends[self.at] = chained
                self._fresh, self._settled = [], []
                self._breaches = [breach for breach in self._breaches if breach.rule == "tcp-checksum"]

    def _take_back(self) -> None:
        """Forget what this frame placed; what the chain passed since lies beyond it again."""
        fresh = {id(located) for located in self._fresh}
        passed = [located for located in self._settled if id(located) not in fresh]
        self._ahead.remove(self._fresh)
        self._ahead.put_back([located for located in passed if located.placed is not None])
        for located in self._fresh:
            self._suspects.remove(located)
            if located.placed is not None:
                self._placed_ends.pop(located.end, None)
        for located in passed:
            if located.placed is None:
                self._suspects.add(located)
            else:
                self._placed_ends[located.end] = located.known

    def _outcome(self) -> Outcome:
        """Hand out what changed, and let go of octets."""
        # An FPDU found by its CRC counts as placed when it was complete, so how it was located may show only now.
        final = {id(one): one._replace(located_by=self._located_by(one)) for one in (*self._fresh, *self._settled)}
        placed = sorted((final[id(located)] for located in self._fresh), key=offset_of)
        outcome = Outcome(placed, [final[id(located)] for located in self._settled], self._breaches)
        for located in self._settled:
            self._placed_ends.pop(located.offset, None)
        self._fresh, self._settled, self._breaches = [], [], []
        if len(self._placed_ends) > self._most_ends:
            self._forget_ends()
        reassembly = self._reassembly
        keep = self._low
        if self.state is LOST:
            # Nothing that begins farther back can still be found.
            needed = self._search.needed if self._search is not None and self._may_search else reassembly.next
            if self._reader.layout.markers:
                needed = min(needed, reassembly.next - 2 * LONGEST_FPDU)
            keep = max(keep, needed, reassembly.next - _MOST_SEARCHED)
        reassembly.consume(min(keep, reassembly.next))
        return outcome

    def _forget_ends(self) -> None:
        """Nothing is looked for any more where the chain was lost behind an FPDU, unless one beyond is still told."""
        first = self._ahead.first
        low = self._low if first is None else min(self._low, first.offset)
        self._placed_ends = {end: known for end, known in self._placed_ends.items() if end >= low}
        self._most_ends = 2 * len(self._placed_ends) + _FEW_ENDS

    # --- the chain ---

    def _advance(self) -> None:
        reassembly, reader = self._reassembly, self._reader
        while self.state is CHAIN or not self._is_to_locate:
            first = self._ahead.first
            if self.state is LOST:
                if not self._find_chain():
                    return
            elif self.state is RETRY and first is not None and first.offset <= self.at:
                self._rejoin(first.offset)
            elif first is not None and first.offset == self.at:
                self._settle(self._ahead.pop())
            elif self.at < reassembly.base:
                # What followed the last one was withdrawn since, or given up.
                self._lose()
            else:
                extent = reader.extent(self.at, reassembly.next)
                if extent is None or extent.end > reassembly.next:
                    return
                at = self.at
                if self.state is CHAIN:
                    self._take(extent)
                else:
                    self._retry(extent)
                if self.state is CHAIN and self.at == at:
                    return

    def _take(self, extent: Extent) -> None:
        """The chain's next FPDU is complete."""
        if self._doubtful and not self._is_followed(extent):
            return
        if extent.ulpdu_length > MAX_ULPDU_LENGTH:
            self._withdraw_wrong_segments(extent.header, extent.header + 2)
        if self._reader.layout.crc and not self._reader.crc_is_good(extent):
            self._withdraw_wrong_segments(extent.offset, extent.end)
            self._settle_bad(self._located(extent, BAD))
            self.state = RETRY
            return
        disagreement = self._reader.disagreement(extent, extent.end)
        if disagreement is not None:
            self._report_disagreement(extent, disagreement)
        while (other := self._ahead.first) is not None and other.offset < extent.end:
            # Both starts lead to a good CRC (or none is in use): the chain of lengths holds.
            self._ahead.pop()
            self._placed_ends.pop(other.end, None)
            self._report("marker-length", extent.offset, _other_start(other.offset - extent.offset))
        self._settle(self._place(extent))

    def _is_followed(self, extent: Extent) -> bool:
        """Whether a header that DDP would send follows an FPDU, so that it may be believed; if not, it is none."""
        reassembly, end = self._reassembly, extent.end
        there = reassembly.next - end
        if there >= 2 + HEADER_OCTETS:
            octets = reassembly.read(end, end + 2 + HEADER_OCTETS)
            if header_at(octets, 2, octets[0] << 8 | octets[1]) is None:
                self._low = extent.offset + 1
                self._lose()
                return False
        elif there or not self._is_last:
            return False
        self._doubtful = max(0, self._doubtful - (end - extent.offset))
        return True

    def _retry(self, extent: Extent) -> None:
        """After a bad CRC: is there an FPDU where the bad one's length says?"""
        if self._reader.crc_is_good(extent):
            self._rejoin(extent.offset)
            self._take(extent)
            return
        self._withdraw_wrong_segments(extent.offset, extent.end)
        if self._is_named_by_marker(extent):
            # A length and a Marker that agree: it is located, and so are those in between.
            self._rejoin(extent.offset)
            self._settle_bad(self._located(extent, BAD))
            self.state = RETRY
        elif len(self._retried) < MOST_RETRIES and self._is_plausible(extent):
            self._retried.append(self._located(extent, BAD))
            self.at = extent.end
        else:
            self._retried = []
            self._lose()

    def _lose(self, may_search: bool = True) -> None:
        """It is not known any more where an FPDU begins."""
        self.state = LOST
        self._may_search = may_search = may_search and self._may_ever_search
        if may_search:
            start = max(self._low, self._reassembly.base)
            if self._search is not None and self._search.is_aligned == (self._phase is not None):
                self._search.move(start)
            else:
                self._search = Search(self._reader, start, self._phase)

    def _rejoin(self, offset: int) -> None:
        """An FPDU with a good CRC begins at ``offset``: those retried before it were bad, any beyond never were."""
        for located in self._retried:
            if located.end <= offset:
                self._settle_bad(located)
        self._retried = []
        self.state, self.at = CHAIN, offset

    def _accept_retried(self) -> None:
        """Nothing more comes that could confirm the FPDUs retried: they are, if they end where the octets end."""
        ends_here = bool(self._retried) and self.at == self._reassembly.next
        for located in self._retried:
            if ends_here or self._is_named_by_marker(located.extent):
                self._settle_bad(located)
        self._retried = []

    def _find_chain(self) -> bool:
        """Where lengths lead nowhere, take up the first FPDU that a Marker located, be its CRC good or bad, or one that
        is found by searching."""
        first = self._ahead.first
        found = self._search.find() if self._search is not None and self._may_search else None
        starts = first.offset if first is not None else None, found
        suspect = next(self._suspects.within(self._low, self._reassembly.next), None)
        if suspect is not None and not any(start is not None and start < suspect.end for start in starts):
            self._settle_bad(suspect)
            self.state = RETRY
            return True
        if found is not None and (first is None or found < first.offset):
            self.state, self.at = CHAIN, found
            self._doubtful = 0 if self._reader.layout.crc else DOUBTFUL_OCTETS
            return True
        if first is None or first.offset > self._reassembly.next:
            return False
        self.state, self.at = CHAIN, first.offset
        return True

    def _is_plausible(self, extent: Extent) -> bool:
        """Whether DDP could have sent this: known opcode, no reserved bit, T as the opcode wants it (RFC 5040 §4)."""
        control = self._reader.control(extent)
        if len(control) < 2 or control[0] & 0x3C or control[0] & 0x03 > 1 or control[1] & 0x30:
            return False
        opcode = control[1] & 0x0F
        return opcode < 12 and (control[0] >> 7 == 1) == (opcode in (0, 2)) and control[1] >> 6 < 2

    # --- Markers ---

    def _conflict(self) -> bool:
        """Whether Markers of the chain's next FPDU, not complete yet, name another start."""
        extent = self._reader.extent(self.at, self._reassembly.next)
        return extent is not None and self._is_contradicted(extent, self._reassembly.next)

    def _locate_by_marker(self, start: int, end: int) -> None:
        """Place what Markers in or next to the new octets [start, end) locate, and what follows it.

        An FPDU that these octets complete holds some of them.  So does it hold one of the Markers among them, or the
        last before, or the first behind; or it follows one that is placed.
        """
        captured = self._reassembly.range_at(start)
        if captured is None:
            return
        first, last = max(captured[0], self._low), captured[1]
        before = self._ahead.before(start)
        if before is not None and first <= before.end <= end:
            self._follow(before, last)
        marker = start - MARKER_LENGTH
        marker = max(marker - marker % MARKER_INTERVAL, first + -first % MARKER_INTERVAL)
        tried: set[int] = {self.at} if self.state is CHAIN else set()
        while marker + MARKER_LENGTH <= last and marker < end + MARKER_INTERVAL:
            inside = self._ahead.holding(marker)
            if inside is not None:
                marker = inside.end + -inside.end % MARKER_INTERVAL
                continue
            for offset in self._reader.starts_named_by(marker):
                if first <= offset and offset not in tried:
                    tried.add(offset)
                    if self._place_by_marker(offset, marker, last):
                        break
            if marker >= end:
                return
            marker += MARKER_INTERVAL

    def _place_by_marker(self, offset: int, marker: int, last: int) -> bool:
        """Place the FPDU at ``offset``, which ``marker`` names, if it is one."""
        extent = self._reader.extent(offset, last)
        if extent is None or extent.end > last or not offset <= marker < extent.end or self._ahead.overlaps(extent):
            return False
        inside_chain = self._is_inside_chain(extent)
        # Without a CRC the chain of lengths is believed.
        located = None if inside_chain and not self._reader.layout.crc else self._place_ahead(extent)
        if located is None:
            return False
        if inside_chain:
            # The length that leads elsewhere may be one that the receiver never saw.
            self._withdraw_wrong_segments(self.at, header_offset(self.at) + 2)
            self._report("marker-length", extent.offset, _other_start(extent.offset - self.at))
        self._follow(located, last)
        return True

    def _follow(self, located: Located | None, last: int) -> None:
        """Place the FPDUs that follow one placed ahead, as far as they are complete."""
        while located is not None:
            extent = self._reader.extent(located.end, last)
            if extent is None or extent.end > last or self._ahead.overlaps(extent):
                return
            located = self._place_ahead(extent)

    def _place_ahead(self, extent: Extent) -> Located | None:
        """Place a complete FPDU beyond the chain if its CRC or, without one, its Markers allow."""
        reader = self._reader
        if reader.layout.crc and not reader.crc_is_good(extent):
            self._withdraw_wrong_segments(extent.offset, extent.end)
            named = self._is_named_by_marker(extent)
            if (named or not extent.markers) and len(self._suspects) < MOST_SUSPECTS:
                self._suspects.add(self._located(extent, BAD))
            return None
        disagreement = reader.disagreement(extent, extent.end)
        if disagreement is not None:
            if disagreement.kind == "bad" and not reader.layout.crc:
                return None
            self._report_disagreement(extent, disagreement)
        located = self._place(extent)
        self._ahead.add(located)
        return located

    def _is_contradicted(self, extent: Extent, limit: int) -> bool:
        """Whether a Marker of the FPDU below ``limit`` names another start, from either origin."""
        found = self._reader.disagreement(extent, limit)
        return found is not None and found.kind == "bad"

    def _is_named_by_marker(self, extent: Extent) -> bool:
        return extent.markers > 0 and self._reader.is_named(extent)

    def _is_inside_chain(self, extent: Extent) -> bool:
        """Whether it begins inside the FPDU that lengths lead to."""
        if self.state is not CHAIN or extent.offset >= self._reassembly.next:
            return False
        chained = self._reader.extent(self.at, self._reassembly.next)
        return chained is not None and extent.offset < chained.end

    # --- FPDUs ---

    def _located(self, extent: Extent, crc: int) -> Located:
        """What is known of a complete FPDU, and since when it has been located."""
        pieces = self._reassembly.pieces_of(extent.offset, extent.end)
        latest = max(pieces, key=lambda piece: piece.seg.frame)[3]
        complete = max((latest.frame, latest.time), self.floor)
        before = self._placed_ends.get(extent.offset)
        is_named = self._is_named_by_marker(extent)
        if extent.offset == 0 or is_named:
            known = complete
        elif before is not None:
            known = max(complete, before)
        else:
            # Found by its CRC alone, for which no other FPDU had to be placed; a bad one, by those around it.
            known = self._now if crc == BAD else complete
        control = self._reader.control(extent)
        opcode = control[1] & 0x0F if len(control) == 2 else NO_OPCODE
        octets = self._reassembly.read(extent.offset, extent.end) if self._keep_octets else b""
        located = Located(extent.offset, extent, crc, frames_of(pieces), complete, known, opcode, is_named, octets)
        if extent.offset == 0 and crc == BAD:
            return located._replace(beginning=self._reader.ulpdu(extent, FIRST_ULPDU_OCTETS))
        return located

    def _located_by(self, located: Located) -> int:
        """By which rule an FPDU was located, all that its frame changed being known."""
        if located.offset == 0:
            return START
        before = self._placed_ends.get(located.offset)
        if before is not None and before[0] <= located.known[0]:
            return LENGTH
        return MARKER if located.is_named else SCAN

    def _place(self, extent: Extent) -> Located:
        terminate = b""
        located = self._located(extent, GOOD if self._reader.layout.crc else UNCHECKED)
        if located.opcode == TERMINATE_OPCODE:
            terminate = self._reader.ulpdu(extent, TERMINATE_OCTETS)
        located = located._replace(
            beginning=self._reader.ulpdu(extent, FIRST_ULPDU_OCTETS),
            oddities=tuple(oddities(self._reader, extent)),
            terminate=terminate,
        )
        self._fresh.append(located)
        self._placed_ends[extent.end] = located.known
        return located

    def _settle(self, located: Located) -> None:
        """The chain passes an FPDU."""
        self._settled.append(located)
        self.at = located.end
        self._phase = located.offset % ALIGNMENT
        # The extent of an FPDU with a bad CRC proves nothing: another may begin inside it.
        self._low = located.offset + 1 if located.crc == BAD else located.end
        if self._suspects:
            self._suspects.forget_below(self._low)

    def _settle_bad(self, located: Located) -> None:
        """The chain passes an FPDU with a bad CRC: code 2, at the frame at which it was complete and located."""
        located = self._suspects.get(located.offset) or located
        self._fresh.append(located)
        detail = f"FPDU with a ULPDU of {located.extent.ulpdu_length} octets: CRC mismatch"
        self._breaches.append(Breach("crc", located.offset, *located.known, detail))
        self._settle(located)

    # --- what is wrong ---

    def _report(self, rule: str, offset: int, detail: str) -> None:
        self._breaches.append(Breach(rule, offset, *self._now, detail))

    def _report_disagreement(self, extent: Extent, found: MarkerDisagreement) -> None:
        distance = found.marker_offset - extent.offset
        detail = f"Marker {distance} octets into the FPDU: FPDUPTR {found.fpduptr}, expected {found.expected}"
        self._report("fpduptr-origin" if found.kind == "other-origin" else "marker-length", extent.offset, detail)

    def _withdraw_wrong_segments(self, start: int, end: int) -> None:
        """Withdraw the segments that hold [start, end) and whose TCP checksum is wrong, if there are any."""
        wrong = self._reassembly.damaged(start, end)
        if wrong:
            self.withdraw(wrong, start)
            raise _WithdrawnError

    def withdraw(self, wrong: list[Segment], offset: int) -> None:
        """Forget what segments with a wrong TCP checksum brought; the real receiver dropped them."""
        for seg in wrong:
            self._breaches.append(Breach("tcp-checksum", offset, seg.frame, seg.time, DROPPED))
        self._reader.withdraw(wrong)

    def _held_of(self, start: int, end: int) -> list[tuple[int, int]]:
        """What is still held of [start, end)."""
        return [(max(a, start), min(b, end)) for a, b, _, _ in self._reassembly.pieces_of(start, end)]


def _other_start(distance: int) -> str:
    return f"a Marker names a start {distance} octets into the FPDU that lengths lead to"
