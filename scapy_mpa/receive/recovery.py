"""Locating and placing FPDUs where scan cannot go on: a hole, a bad CRC, a Marker against a length (RFC 5044 §6, A.3,
A.4).

Recovery works on the same :class:`~scapy_mpa.receive.reassembly.Reassembly` as scan, frame by frame, and is left when
nothing is out of order any more (:attr:`Recovery.in_order`).  It follows the half connection by a *chain*: each FPDU
begins where the one before it ends.  What was captured beyond a hole is located by Markers, placed *ahead* of the
chain, and taken up when the chain gets there.

The chain is in one of three states.  CHAIN: the next FPDU begins at ``at``.  RETRY: an FPDU had a bad CRC, so that
its length proves nothing; ``at`` is where that length says the next one begins.  LOST: it is not known where one
begins; the next that a Marker locates, or that a :class:`~scapy_mpa.infer.search.Search` finds, is taken.

An FPDU beyond the chain whose CRC is bad is a *suspect*: its Marker or its length may be what is damaged.  It is
reported when the chain gets there, for the frame at which it was complete and located.

All that one frame changes is decided at once, so that a segment whose TCP checksum turns out to be wrong can be taken
back before anyone has seen what it brought.
"""

from __future__ import annotations

from collections.abc import Callable

from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.infer.evidence import is_plausible_control
from scapy_mpa.infer.search import Searching
from scapy_mpa.receive.beyond import BeyondHole, other_start
from scapy_mpa.receive.located import Breach, Diagnosis, Located, Outcome
from scapy_mpa.receive.placing import Placing, WithdrawnError
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.rivals import RivalCopies
from scapy_mpa.receive.scan import Extent, FPDUReader
from scapy_mpa.tcp.half import Moment
from scapy_mpa.values.records import BAD
from scapy_mpa.values.segment import Segment

CHAIN, RETRY, LOST = "chain", "retry", "lost"
#: FPDUs in a row with a bad CRC that are followed by their lengths before those are given up.
MOST_RETRIES = 16
#: Octets behind the last that are kept for a search: no chain of lengths is followed for longer.
_MOST_SEARCHED = 8 * LONGEST_FPDU


class Recovery:
    """The FPDUs of one half connection, where lengths alone do not lead to them.

    Args:
        reader: reads single FPDUs.
        floor: the moment at which Full Operation became known: nothing is complete before.
        keep_octets: whether what is located keeps its octets until it has been handed on.
        begins_at: where the first FPDU begins, None if that is not known.
        may_search: whether one may be searched for.
        rivals: copies of octets that differ from what is held.
        is_final: whether the peer has said that it has all octets between two offsets.

    Attributes:
        at: where the next FPDU of the chain begins, in the states CHAIN and RETRY.
        state: CHAIN, RETRY or LOST.
        cut: FPDUs known to begin somewhere, but cut by a gap.
    """

    __slots__ = (
        "_beyond", "_is_final", "_is_last", "_is_to_locate", "_low", "_placing", "_reader", "_reassembly",
        "_retried", "_rivals", "_searching", "_waiting", "at", "cut", "state",
    )  # fmt: skip

    def __init__(
        self,
        reader: FPDUReader,
        floor: Moment,
        keep_octets: bool,
        begins_at: int | None,
        may_search: bool,
        rivals: RivalCopies,
        is_final: Callable[[int, int], bool],
    ) -> None:
        self._reassembly: Reassembly = reader.reassembly
        self._reader = reader
        self._placing = Placing(reader, floor, keep_octets, rivals)
        self._beyond = BeyondHole(reader, self._placing)
        self.state = CHAIN
        self.at = begins_at or 0
        self.cut = 0
        #: Whether nothing more comes in order.
        self._is_last = False
        #: Whether new octets have not been searched for Markers yet.
        self._is_to_locate = False
        #: No FPDU that is still to be found begins before.
        self._low = self._reassembly.base
        phase = None if begins_at is None and not reader.layout.markers else 0
        #: What looks for an FPDU besides Markers, in the state LOST.
        self._searching = Searching(reader, may_search, phase)
        self._rivals = rivals
        self._is_final = is_final
        #: The chain's next FPDU if its CRC is bad, as long as a copy may still come that makes it good.
        self._waiting: Located | None = None
        #: FPDUs with a bad CRC, one behind the other, whose lengths are followed until one proves right.
        self._retried: list[Located] = []
        if begins_at is None:
            self._lose(may_search=not reader.layout.markers)

    #: Copies that differ are judged by FPDUs; its sender conforms, as far as is known.
    judges_copies = True
    diagnosis: Diagnosis | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the next FPDU is bad, and a copy may still come that makes it good."""
        return self._waiting is not None

    @property
    def is_chained(self) -> bool:
        """Whether it is known where the next FPDU begins."""
        return self.state is CHAIN

    def count_cut(self) -> None:
        """Nothing more comes: the FPDU of which only a part is there, if there is one, is cut by a gap."""
        self.cut += self.is_inside_fpdu and self._waiting is None

    def conclusions(self, _fpdus: int) -> list[Breach]:
        """There is nothing to be said of a sender that conforms."""
        return []

    @property
    def in_order(self) -> bool:
        """Whether nothing is out of order: the chain has its next start, and nothing lies beyond a gap."""
        waits = self._waiting is not None or self._rivals.waiting
        return self.knows_next and not waits and not self._placing.ahead and not self._reassembly.beyond

    @property
    def knows_next(self) -> bool:
        """Whether the chain has its next start, and nothing speaks against it."""
        return (
            self.state is CHAIN
            # What an FPDU that was placed is made of may have been withdrawn since.
            and self.at <= self._reassembly.next
            and not self._placing.suspects
            and not self._searching.is_doubtful
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
        self._placing.go_on_at(self.at, placed)
        return True

    def work(self, now: Moment, new: list[tuple[int, int]]) -> Outcome:
        """Place what the octets of the ranges ``new``, captured at ``now``, make complete."""

        def decide() -> None:
            # Where lengths may not be trusted, what Markers locate in the new octets comes first.
            self._is_to_locate = markers = self._reader.layout.markers
            self._advance()
            self._is_to_locate = False
            waits = self._waiting is not None
            if markers and (self._reassembly.beyond or self.state is not CHAIN or waits or self._conflict()):
                self._beyond.look_at(new, self._low, self.at if self.state is CHAIN else None, not waits)
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

    def end_waiting(self, now: Moment) -> Outcome:
        """No copy is waited for any longer."""
        return self._decided(now, self._judge_last)

    def _judge_last(self) -> None:
        self._is_last = True
        self._advance()
        self._is_last = False

    def skip_gap(self, now: Moment) -> Outcome:
        """Give up the octets between what is in order and the first range beyond the hole."""
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
            while self.state is RETRY or self._placing.ahead or self._placing.suspects:
                # What the chain waits for was never completed: its length must be wrong.
                self._accept_retried()
                if self.state is not LOST:
                    self._lose()
                if not self._find_chain():
                    return
                self._advance()
            self._accept_retried()

        return self._decided(now, decide)

    def take_rest(self, now: Moment) -> Outcome | None:
        """After the flush: what was placed and lies behind octets that were withdrawn since, None if nothing."""
        if not self._placing.ahead:
            return None
        self._placing.begin(now)
        while self._placing.ahead:
            self._settle(self._placing.ahead.pop())
        return self._outcome()

    # --- deciding what a frame changes ---

    def _decided(self, now: Moment, decide: Callable[[], None]) -> Outcome:
        self._placing.begin(now)
        before = self.state, self.at, self._low, self._waiting
        retried, chained = self._retried[:], self._placing.placed_before(self.at)
        while True:
            try:
                decide()
                return self._outcome()
            except WithdrawnError:
                # The chain goes back to where this frame found it; FPDUs of earlier frames stay placed.
                self._is_to_locate = False
                self.state, self.at, self._low, self._waiting = before
                self._placing.take_back(self.at, chained)
                self._retried = retried[:]
                self._searching.begin_anew()
                if self.state is LOST:
                    self._lose(self._searching.is_on)

    def _outcome(self) -> Outcome:
        """Hand out what changed, and let go of octets."""
        outcome = self._placing.outcome(self._low)
        reassembly = self._reassembly
        keep = self._low
        if self.state is LOST:
            # Nothing that begins farther back can still be found.
            needed = self._searching.needed(reassembly.next)
            if self._reader.layout.markers:
                needed = min(needed, reassembly.next - 2 * LONGEST_FPDU)
            keep = max(keep, needed, reassembly.next - _MOST_SEARCHED)
        reassembly.consume(min(keep, reassembly.next))
        return outcome

    # --- the chain ---

    def _advance(self) -> None:
        reassembly, reader = self._reassembly, self._reader
        while self.state is CHAIN or not self._is_to_locate:
            first = self._placing.ahead.first
            if self.state is LOST:
                if not self._find_chain():
                    return
            elif self.state is RETRY and first is not None and first.offset <= self.at:
                self._rejoin(first.offset)
            elif first is not None and first.offset == self.at:
                self._settle(self._placing.ahead.pop())
            elif self._waiting is not None and not self._may_be_judged(self._waiting):
                return
            elif self.at < reassembly.base:
                # What followed the last one was withdrawn since, or given up.
                self._lose()
            else:
                if (extent := self._whole_extent(reader.extent(self.at, reassembly.next))) is None:
                    return
                at = self.at
                if self.state is CHAIN:
                    self._take(extent)
                else:
                    self._retry(extent)
                if self.state is CHAIN and self.at == at:
                    return

    def _whole_extent(self, extent: Extent | None) -> Extent | None:
        """The extent of the chain's next FPDU if that is complete; its length may be that of a forged copy."""
        is_whole = extent is not None and extent.end <= self._reassembly.next
        return extent if is_whole else self._placing.make_good(self.at, self._reassembly.next, is_again=True)

    def _take(self, extent: Extent) -> None:
        """The chain's next FPDU is complete."""
        if self._searching.is_doubtful:
            is_followed = self._searching.is_followed(extent, self._is_last)
            if is_followed is False:
                self._low = extent.offset + 1
                self._lose()
            if not is_followed:
                return
        if extent.ulpdu_length > MAX_ULPDU_LENGTH:
            self._placing.drop_damaged(extent.header, extent.header + 2)
        if self._reader.layout.crc and not self._reader.crc_is_good(extent):
            self._placing.drop_damaged(extent.offset, extent.end)
            better = self._placing.make_good(extent.offset, extent.end)
            if better is None:
                self._take_bad(extent)
                return
            extent = better
        self._waiting = None
        disagreement = self._reader.disagreement(extent, extent.end)
        while (other := self._placing.ahead.first) is not None and other.offset < extent.end:
            # Both starts lead to a good CRC (or none is in use): the chain of lengths holds.
            self._placing.give_up_first()
            self._placing.report("marker-length", extent.offset, other_start(other.offset - extent.offset))
        located = self._placing.place(extent)
        if disagreement is not None:
            self._placing.report_disagreement(located, disagreement)
        self._settle(located)

    def _take_bad(self, extent: Extent) -> None:
        """The chain's next FPDU has a bad CRC: TCP may still bring it again (RFC 5044 §8)."""
        bad = self._waiting or self._placing.located(extent, BAD)
        if self._is_last or self._is_final(extent.offset, extent.end):
            self._placing.be_late(bad.known if self._waiting is not None else None)
            self._waiting = None
            self._settle_bad(bad)
            self.state = RETRY
        else:
            self._waiting = bad

    def _may_be_judged(self, bad: Located) -> bool:
        """Whether something is new about an FPDU with a bad CRC."""
        return self._rivals.take_news() or self._is_last or self._is_final(bad.offset, bad.end)

    def _retry(self, extent: Extent) -> None:
        """After a bad CRC: is there an FPDU where the bad one's length says?"""
        good = extent if self._reader.crc_is_good(extent) else self._placing.make_good(extent.offset, extent.end)
        if good is not None:
            self._rejoin(good.offset)
            self._take(good)
            return
        self._placing.drop_damaged(extent.offset, extent.end)
        if self._placing.is_named_by_marker(extent):
            # A length and a Marker that agree: it is located, and so are those in between.
            self._rejoin(extent.offset)
            self._settle_bad(self._placing.located(extent, BAD))
            self.state = RETRY
        elif len(self._retried) < MOST_RETRIES and is_plausible_control(self._reader.control(extent)):
            self._retried.append(self._placing.located(extent, BAD))
            self.at = extent.end
        else:
            self._retried = []
            self._lose()

    def _lose(self, may_search: bool = True) -> None:
        """It is not known any more where an FPDU begins."""
        self.state = LOST
        self._searching.begin(max(self._low, self._reassembly.base), may_search)

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
            if ends_here or self._placing.is_named_by_marker(located.extent):
                self._settle_bad(located)
        self._retried = []

    def _find_chain(self) -> bool:
        """Where lengths lead nowhere, take up the first FPDU that a Marker located, or one found by searching."""
        first = self._placing.ahead.first
        found = self._searching.find()
        starts = first.offset if first is not None else None, found
        suspect = next(self._placing.suspects.within(self._low, self._reassembly.next), None)
        if suspect is not None and not any(start is not None and start < suspect.end for start in starts):
            self.state, self.at = CHAIN, suspect.offset
            # If it is not final, a copy may still come that makes it good.
            if self._is_last or self.at < self._reassembly.base or self._is_final(self.at, suspect.end):
                self._settle_bad(suspect)
                self.state = RETRY
            return True
        if found is not None and (first is None or found < first.offset):
            self.state, self.at = CHAIN, found
            self._searching.take()
            return True
        if first is None or first.offset > self._reassembly.next:
            return False
        self.state, self.at = CHAIN, first.offset
        return True

    # --- Markers ---

    def _conflict(self) -> bool:
        """Whether Markers of the chain's next FPDU, not complete yet, name another start."""
        limit = self._reassembly.next
        extent = self._reader.extent(self.at, limit)
        found = self._reader.disagreement(extent, limit) if extent is not None else None
        return found is not None and found.rule == "marker-length"

    # --- FPDUs ---

    def _settle(self, located: Located) -> None:
        """The chain passes an FPDU."""
        self._placing.pass_on(located)
        self._go_behind(located)

    def _settle_bad(self, located: Located) -> None:
        """The chain passes an FPDU with a bad CRC."""
        self._go_behind(self._placing.pass_bad(located))

    def _go_behind(self, located: Located) -> None:
        self.at = located.end
        self._searching.pass_fpdu(located.offset)
        # The extent of an FPDU with a bad CRC proves nothing: another may begin inside it.
        self._low = located.offset + 1 if located.crc == BAD else located.end
        self._placing.suspects.forget_below(self._low)

    def withdraw(self, wrong: list[Segment], offset: int) -> None:
        """Forget what segments with a wrong TCP checksum brought; the real receiver dropped them."""
        self._waiting = None
        self._placing.withdraw(wrong, offset)
