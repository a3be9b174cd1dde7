"""What one frame changes: FPDUs placed, found bad, and passed by the chain (RFC 5044 §6, appendix A.4).

Recovery decides which octets are FPDUs; here is what follows for each of them: since when it is complete and located,
and what is wrong with it.  All that one frame changes can be taken back, as long as nobody has seen it: a segment of
which it turns out that its TCP checksum is wrong never reached the receiver.
"""

from __future__ import annotations

from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.receive.located import Ahead, Breach, Located, Outcome, Suspects, offset_of
from scapy_mpa.receive.reassembly import Reassembly, frames_of
from scapy_mpa.receive.rivals import RivalCopies
from scapy_mpa.receive.scan import Extent, FPDUReader, MarkerDisagreement
from scapy_mpa.tcp.half import Moment
from scapy_mpa.values.records import BAD, GOOD, LENGTH, MARKER, NO_OPCODE, SCAN, START, UNCHECKED
from scapy_mpa.values.segment import Segment
from scapy_mpa.watch.fpdus import FIRST_ULPDU_OCTETS, oddities

#: FPDUs beyond the chain with a bad CRC that are remembered; more are judged when the chain gets there.
MOST_SUSPECTS = 4096
#: Places where FPDUs end that are remembered before it is asked which of them still matter.
_FEW_ENDS = 256
#: Octets of a Terminate that are looked at: its control word comes first.
TERMINATE_OCTETS = 64

DROPPED = "TCP checksum wrong: assumed to be dropped by the receiver"


class WithdrawnError(Exception):
    """Segments had to be withdrawn: what this frame changed is decided anew."""


class Placing:
    """The FPDUs of one half connection that recovery places.

    Args:
        reader: reads single FPDUs.
        floor: the moment at which Full Operation became known: nothing is complete before.
        keep_octets: whether what is located keeps its octets until it has been handed on.
        rivals: copies of octets that differ from what is held.

    Attributes:
        ahead: FPDUs placed beyond the chain.
        suspects: FPDUs beyond the chain with a bad CRC.
    """

    __slots__ = (
        "_breaches",
        "_floor",
        "_fresh",
        "_keep_octets",
        "_late",
        "_most_ends",
        "_now",
        "_placed_ends",
        "_reader",
        "_reassembly",
        "_rivals",
        "_settled",
        "ahead",
        "suspects",
    )

    def __init__(self, reader: FPDUReader, floor: Moment, keep_octets: bool, rivals: RivalCopies) -> None:
        self._reader = reader
        self._reassembly: Reassembly = reader.reassembly
        self._floor = floor
        self._keep_octets = keep_octets
        self._rivals = rivals
        self._now = floor
        #: When the bad FPDU was complete and located that is final only now, None if none is.
        self._late: Moment | None = None
        #: Where FPDUs end whose successor the chain has not passed, and when they were placed.
        self._placed_ends: dict[int, Moment] = {}
        #: So many of them may be stale before they are gone through.
        self._most_ends = _FEW_ENDS
        self._fresh: list[Located] = []
        self._settled: list[Located] = []
        self._breaches: list[Breach] = []
        self.ahead = Ahead()
        self.suspects = Suspects()

    # --- a frame ---

    def begin(self, now: Moment) -> None:
        """The next frame changes something."""
        self._now = now
        self._late = None

    def be_late(self, known: Moment | None) -> None:
        """What is decided now might have been decided before, had the bad FPDU known since ``known`` been final."""
        self._late = known

    def go_on_at(self, offset: int, placed: Moment) -> None:
        """All FPDUs up to an offset were read in order, the last placed at ``placed``."""
        self._placed_ends = {offset: placed}

    def placed_before(self, offset: int) -> Moment | None:
        """When the FPDU was placed that ends at an offset, None if that is not known."""
        return self._placed_ends.get(offset)

    def take_back(self, at: int, placed: Moment | None) -> None:
        """Forget what this frame placed; what the chain passed since ``at`` lies beyond it again.

        ``placed`` is when the FPDU was placed that ends at ``at``, None if that is not known.
        """
        fresh = {id(located) for located in self._fresh}
        passed = [located for located in self._settled if id(located) not in fresh]
        self.ahead.remove(self._fresh)
        self.ahead.put_back([located for located in passed if located.placed is not None])
        for located in self._fresh:
            self.suspects.remove(located)
            if located.placed is not None:
                self._placed_ends.pop(located.end, None)
        for located in passed:
            if located.placed is None:
                self.suspects.add(located)
            else:
                self._placed_ends[located.end] = located.known
        if placed is not None:
            self._placed_ends[at] = placed
        self._fresh, self._settled = [], []
        self._breaches = [breach for breach in self._breaches if breach.rule == "tcp-checksum"]

    def outcome(self, low: int) -> Outcome:
        """Hand out what changed; nothing that is still to be found begins below ``low``."""
        # An FPDU found by its CRC counts as placed when it was complete, so how it was located may show only now.
        final = {id(one): one._replace(located_by=self._located_by(one)) for one in (*self._fresh, *self._settled)}
        placed = sorted((final[id(located)] for located in self._fresh), key=offset_of)
        outcome = Outcome(placed, [final[id(located)] for located in self._settled], self._breaches)
        for located in self._settled:
            self._placed_ends.pop(located.offset, None)
        self._fresh, self._settled, self._breaches = [], [], []
        if len(self._placed_ends) > self._most_ends:
            self._forget_ends(low)
        return outcome

    def _forget_ends(self, low: int) -> None:
        """Nothing is looked for any more where the chain was lost behind an FPDU, unless one beyond is still told."""
        first = self.ahead.first
        low = low if first is None else min(low, first.offset)
        self._placed_ends = {end: known for end, known in self._placed_ends.items() if end >= low}
        self._most_ends = 2 * len(self._placed_ends) + _FEW_ENDS

    # --- FPDUs ---

    def located(self, extent: Extent, crc: int) -> Located:
        """What is known of a complete FPDU, and since when it has been located."""
        pieces = self._reassembly.pieces_of(extent.offset, extent.end)
        latest = max(pieces, key=lambda piece: piece.seg.frame)[3]
        complete = max((latest.frame, latest.time), self._floor)
        before = self._placed_ends.get(extent.offset)
        is_named = self.is_named_by_marker(extent)
        if extent.offset == 0 or is_named:
            known = complete
        elif before is not None:
            known = max(complete, before)
        elif crc == BAD and self._late is not None:
            # By the length of the one before, as soon as that was located.
            known = self._late = max(complete, self._late)
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

    def place(self, extent: Extent) -> Located:
        terminate = b""
        located = self.located(extent, GOOD if self._reader.layout.crc else UNCHECKED)
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

    def place_ahead(self, extent: Extent) -> Located | None:
        """Place a complete FPDU beyond the chain if its CRC or, without one, its Markers allow."""
        reader = self._reader
        if reader.layout.crc and not reader.crc_is_good(extent):
            self.drop_damaged(extent.offset, extent.end)
            better = self.make_good(extent.offset, extent.end)
            if better is None:
                named = self.is_named_by_marker(extent)
                if (named or not extent.markers) and len(self.suspects) < MOST_SUSPECTS:
                    self.suspects.add(self.located(extent, BAD))
                return None
            extent = better
        disagreement = reader.disagreement(extent, extent.end)
        if disagreement is not None and disagreement.rule == "marker-length" and not reader.layout.crc:
            return None
        located = self.place(extent)
        if disagreement is not None:
            self.report_disagreement(located, disagreement)
        self.ahead.add(located)
        return located

    def make_good(self, offset: int, end: int, is_again: bool = False) -> Extent | None:
        """Put copies that wait in place of octets of the FPDU [offset, end); its extent if that makes its CRC good.

        ``is_again``: this is asked again and again, as long as not all of its octets seem to be there.
        """
        reassembly = self._reassembly
        captured = reassembly.range_at(offset)
        if not self._rivals.waiting or captured is None:
            return None
        before = reassembly.pieces_of(offset, end)
        better = self._rivals.make_good(offset, captured[1], is_again)
        if better is None:
            return None
        after = reassembly.pieces_of(offset, better.end)
        replaced = [piece.seg.frame for piece in before if piece not in after]
        good = max((piece.seg for piece in after if piece not in before), key=lambda seg: seg.frame)
        if max(piece.seg.frame for piece in before) < good.frame:
            # All of it had come before: the receiver found it bad, and said nothing.
            self._rivals.judged(offset, better.end, True)
            bad = max(replaced)
            detail = f"frame {bad} brought the FPDU with a bad CRC, frame {good.frame} with a good one"
            self._breaches.append(Breach("crc-dropped", offset, good.frame, good.time, detail))
        self.suspects.forget(offset)
        return better

    def pass_on(self, located: Located) -> None:
        """The chain passes an FPDU."""
        self._settled.append(located)

    def pass_bad(self, located: Located) -> Located:
        """The chain passes an FPDU with a bad CRC: code 2, at the frame at which it was complete and located."""
        located = self.suspects.get(located.offset) or located
        self._fresh.append(located)
        detail = f"FPDU with a ULPDU of {located.extent.ulpdu_length} octets: CRC mismatch"
        self._breaches.append(Breach("crc", located.offset, *located.known, detail))
        self._settled.append(located)
        return located

    def give_up_first(self) -> Located:
        """The first FPDU placed beyond the chain is none."""
        other = self.ahead.pop()
        self._placed_ends.pop(other.end, None)
        return other

    def is_named_by_marker(self, extent: Extent) -> bool:
        """Whether a Marker of an FPDU names its start."""
        return extent.markers > 0 and self._reader.is_named(extent)

    def report(self, rule: str, offset: int, detail: str) -> None:
        """A rule is broken, as this frame shows."""
        self._breaches.append(Breach(rule, offset, *self._now, detail))

    def report_disagreement(self, located: Located, found: MarkerDisagreement) -> None:
        """A Marker of an FPDU does not name its start: code 3 at the frame at which both were known."""
        known = self._now if self._late is None else located.known
        self._breaches.append(Breach(found.rule, located.offset, *known, found.detail(located.offset)))

    def drop_damaged(self, start: int, end: int) -> None:
        """Withdraw the segments that hold [start, end) and whose TCP checksum is wrong, if there are any."""
        wrong = self._reassembly.damaged(start, end)
        if wrong:
            self.withdraw(wrong, start)
            raise WithdrawnError

    def withdraw(self, wrong: list[Segment], offset: int) -> None:
        """Forget what segments with a wrong TCP checksum brought; the real receiver dropped them."""
        for seg in wrong:
            self._breaches.append(Breach("tcp-checksum", offset, seg.frame, seg.time, DROPPED))
        self._reader.withdraw(wrong)
