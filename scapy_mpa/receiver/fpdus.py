"""The FPDUs of one direction in Full Operation: located, placed, delivered (RFC 5044 §4 to §6, §8, appendix A.3, A.4).

In: octets held in a :class:`~scapy_mpa.stream.connection.TCPHalf`, and what its receiver acknowledged.  Out:
:class:`LocatedFPDU` values, each once when nothing captured later can change it (*final*), and once in stream order
when all before it is (*passed*).  For FPDU k, in frames of the copies chosen for its octets:

    complete(k)  = max(both startup frames, those frames)
    placed(k)    = complete(k)                      if k is the first, holds a Marker, or was found by scanning
                 = max(complete(k), placed(k-1))    otherwise
    delivered(k) = max(complete(j) for j <= k); never after a gap

FPDUs are read along *chains*: each begins where the one before it ends.  The main chain begins with Full Operation.
Where it waits, for octets not captured yet or for an FPDU that is not final, each Marker begins another chain after it.
The main chain takes their FPDUs up when it gets there.  An FPDU is final

* at complete(k), if its copies have no reason to be dropped, and its CRC is good; without CRC but with Markers when the
  next FPDU that holds a Marker agrees; without both at once;
* otherwise (bad, or of doubtful copies) when its octets are acknowledged, at a limit, or at the end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from heapq import heappop, heappush
from typing import Final

from scapy_mpa.framing.crc import CRC_RESIDUE
from scapy_mpa.framing.fpdu import header_octets, ulpdu_of
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH, Octets, marker_count
from scapy_mpa.infer.evidence import is_plausible_control
from scapy_mpa.receiver.plain import PlainRun, PlainWrites
from scapy_mpa.receiver.values import Anomaly, Contradiction, Gap, LeftOut, LocatedFPDU, Moment, Rest, located_fpdu
from scapy_mpa.receiver.window import (
    JURY,
    LONGEST_FPDU,
    LOOKED_AT,
    MOST_BAD_IN_A_ROW,
    Extent,
    FPDUWindow,
    Layout,
    extent_in_dialect,
    extent_of,
    is_unlike_ddp,
)
from scapy_mpa.stream.connection import TCPHalf
from scapy_mpa.stream.copies import WRONG, Rival
from scapy_mpa.stream.drop_reason import NEAR, DropReason
from scapy_mpa.stream.peer_state import NEVER, NOWHERE
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.octets import crc_of, head, number_at, own_octets, word
from scapy_mpa.values.records import BAD, CUT, GOOD, LENGTH, MARKER, NO_OPCODE, SCAN, START, UNCHECKED
from scapy_mpa.values.segment import Segment

#: Chains beside the main one that wait for octets: a bound of memory, one for each Marker in 16 MiB.
MOST_CHAINS: Final = 1 << 15
#: Octets of the main chain's run that are looked through for a start while none is known; more are passed by.
MOST_SEARCHED: Final = 4 * LONGEST_FPDU
#: Places at which pieces begin that are tried before all others: FPDUs begin with segments (RFC 5044 appendix A.1).
NEAR_STARTS: Final = 64
#: Octets from the first of Full Operation in which what does not fit is an anomaly: a sender that deviates does so from
#: its first FPDUs on.
BEGINNING: Final = 16 << 10

_NOTHING: Final = memoryview(b"")
#: The bits of an offset that tell its place between Markers, and those of FPDUPTR that are compared (RFC 5044 §4.2).
_PHASE, _COMPARED = MARKER_INTERVAL - 1, 0xFFFC


class Patience(NamedTuple):
    """Octets have waited for long that were captured by a frame, or by a time; ``needs_both``: by both of them."""

    frame: int
    time: int
    needs_both: bool

    def is_over(self, frame: int, time: int) -> bool:
        """Return True if octets that were captured then have waited for long."""
        is_early, is_long_ago = frame <= self.frame, time <= self.time
        return is_early and is_long_ago if self.needs_both else is_early or is_long_ago


class FPDUChain:
    """FPDUs that follow one another by their lengths.

    Attributes:
        at: the offset at which the next FPDU begins, or from which one is looked for.
        is_located: whether an FPDU is known to begin at ``at``.
        is_proven: whether an FPDU of the chain was valid.
        by_length: whether the length of an FPDU that is not bad named ``at``.
        known: the moment at which the FPDU before was placed, None if that is not known; ``known_frame`` its frame, -1
            if it is not, and ``known_time`` its time.
        edge: where the contiguous octets from ``at`` on end, as far as was looked at.
        need: the end of the next FPDU by its length, 0 if that is not known.
        waits: whether the next FPDU is complete but not final.
        hint: where the length of a bad or cut FPDU leads, -1 if there is none.
        pending: FPDUs that are valid, but final only when a Marker agrees.
        marker: the Marker that named where it begins; the first FPDU must hold it.
        resumed: the last start that Markers named against lengths, -1 if there was none.
        agreed: an FPDU's offset, and up to where the Markers in it agree.
        unresolved: the offset of an FPDU with which it could not go on, and the edge then; NEVER if it is bad.
        named: where octets ended when the next start was searched by Markers, and that start, NEVER if there was none.
        goal: up to where bad FPDUs follow one another by their lengths, as seen when octets ended at the second offset.
    """

    __slots__ = (
        "agreed",
        "at",
        "by_length",
        "edge",
        "goal",
        "hint",
        "is_located",
        "is_proven",
        "known_frame",
        "known_time",
        "marker",
        "named",
        "need",
        "pending",
        "resumed",
        "tried",
        "unresolved",
        "waits",
    )

    def __init__(self, at: int, is_located: bool, marker: int = -1) -> None:
        self.at = at
        self.edge = at
        self.need = 0
        self.hint = -1
        self.tried = -1
        self.is_located = is_located
        self.is_proven = self.by_length = self.waits = False
        self.known_frame, self.known_time = -1, 0
        self.marker = marker
        self.resumed = -1
        self.agreed = self.unresolved = self.goal = self.named = -1, -1
        self.pending: list[LocatedFPDU] = []

    @property
    def known(self) -> Moment | None:
        """The moment at which the FPDU before was placed, None if that is not known."""
        return (self.known_frame, self.known_time) if self.known_frame >= 0 else None

    @known.setter
    def known(self, moment: Moment | None) -> None:
        self.known_frame, self.known_time = moment or (-1, 0)

    def go_to(self, start: int) -> None:
        """Go on with the FPDU at a start that no length names."""
        self.at, self.is_located, self.by_length = start, True, False
        self.edge, self.need, self.hint, self.tried, self.waits = max(self.edge, start), 0, -1, -1, False

    def search(self, low: int, hint: int) -> None:
        """Look for the next start from an offset on."""
        self.at, self.is_located, self.by_length, self.hint = low, False, False, hint
        self.edge, self.need, self.tried, self.waits = max(self.edge, low), 0, -1, False


class FPDUReader:
    """Reads the FPDUs of one direction.

    Args:
        half: its octets.  Offset 0 is the first octet of Full Operation, or, of a capture that begins in the middle,
            lies before all that can come, where a Marker stands.
        layout: how FPDUs lie.
        startup: the moment by which both startup frames were captured.
        begins_at: the offset from which FPDUs are read.
        is_beginning: whether that is the first octet of Full Operation.

    Attributes:
        final: FPDUs that became final, for the owner to take.
        plain: tells which FPDUs the main chain passes in runs, and not in ``final``; None if each is needed alone.
        passed: FPDUs that the main chain passed, with the frame at which each is delivered, of a run the first one, 0
            if never, and the gaps between them; to be taken.
        left_out: octets that were not believed.
        contradictions: Markers that contradicted lengths.
        damaged: octets that belong to no FPDU, of segments with a wrong TCP checksum, unlike others.
        rivals: copies that were not chosen for the FPDUs that were read.
        first_octets: the first octets of Full Operation, if they are no FPDU that DDP would send.
        rest: what is left at the end that belongs to no FPDU.
        hole_end: where octets lie beyond a hole that something may fill, as :meth:`is_quiet` found it, else NEVER.
        first_error: (frame, offset) of the first error of code 2 or 3, None without one.
        error_acked: the frame in which the peer acknowledged what that error is in, NEVER if it did not, so far.
        anomaly: what does not fit in BEGINNING, the first in the stream: a sender that deviates may be the cause.
        replaced: True once another reader has taken its place, because the sender deviates.
    """

    __slots__ = (
        "_ahead",
        "_ahead_offsets",
        "_chains",
        "_delivered",
        "_due",
        "_final_below",
        "_has_crc",
        "_has_dialect",
        "_has_markers",
        "_has_passed",
        "_highest",
        "_is_gapless",
        "_is_over",
        "_judged_below",
        "_refused",
        "_run",
        "_starts",
        "_startup_frame",
        "_startup_time",
        "_unread",
        "anomaly",
        "contradictions",
        "damaged",
        "error_acked",
        "final",
        "first_error",
        "first_octets",
        "half",
        "hole_end",
        "is_beginning",
        "layout",
        "left_out",
        "main",
        "passed",
        "plain",
        "replaced",
        "rest",
        "rivals",
        "startup",
    )  # fmt: skip

    def __init__(
        self, half: TCPHalf, layout: Layout, startup: Moment, begins_at: int = 0, is_beginning: bool = True
    ) -> None:
        self.half = half
        self.layout = layout
        self._has_markers, self._has_crc, _ = layout
        self._has_dialect = layout.dialect is not None
        self.startup = startup
        self._startup_frame, self._startup_time = startup
        self.main = FPDUChain(begins_at, is_beginning)
        self.main.is_proven = True
        self.is_beginning = is_beginning
        #: Chains beside the main one, by where they are: ascending, and the chain at each place.
        self._starts: list[int] = []
        self._chains: dict[int, FPDUChain] = {}
        #: Final FPDUs that the main chain has not passed, by offset, and a heap of their offsets.
        self._ahead: dict[int, LocatedFPDU] = {}
        self._ahead_offsets: list[int] = []
        self._delivered = startup[0]
        self._is_gapless = True
        self._is_over = self._has_passed = False
        #: What lies below is decided, though the peer has not acknowledged it.
        self._final_below = -NEVER
        #: A run beyond the first hole that was not believed, by where it starts, and when it was looked at.
        self._refused = -NEVER, (0, 0)
        self.final: list[LocatedFPDU] = []
        self.passed: list[tuple[LocatedFPDU | Gap | PlainRun, int]] = []
        self.plain: PlainWrites | None = None
        #: The run that was passed last, if FPDUs may be added to it.
        self._run: PlainRun | None = None
        self.left_out: list[LeftOut] = []
        self.contradictions: list[Contradiction] = []
        self.damaged: list[LeftOut] = []
        self.rivals: list[Rival] = []
        self.first_error: tuple[int, int] | None = None
        self.error_acked = NEVER
        self.anomaly: Anomaly | None = None
        self.replaced = False
        #: FPDUs that begin below this offset may be anomalies.
        self._judged_below = BEGINNING if is_beginning and layout.dialect is None else -1
        #: Octets that are counted before the next Marker of the main chain, where offsets do not tell.
        self._due = layout.dialect.first_due if layout.dialect is not None else 0
        self.hole_end = NEVER
        self.first_octets = b""
        self.rest: Rest | None = None
        #: The offset after the highest octet that was handed on to it.
        self._highest = -NEVER
        #: From here on, octets beyond a hole wait to be read until it is known whether it is filled; NEVER without any.
        self._unread = NEVER

    @property
    def has_hole(self) -> bool:
        """True if octets are missing before others that were handed on to it."""
        return self._highest > max(self.main.edge, self.main.at)

    # --- what happens to the direction ---

    def begin(self) -> None:
        """Read what was held before it was known that these are FPDUs."""
        copies = self.half.copies
        if self.is_beginning:
            # Copies of the startup frame.
            self.rivals += copies.rivals(-NEVER, self.main.at)
        # What a limit gave up before was not read, and may come again.
        self.half.needed = min(self.half.needed, self.main.at)
        self.half.forget(self.main.at)
        start = copies.next_start(self.main.at)
        while start < NEVER:
            end = copies.edge(start)
            self.receive(start, end)
            start = copies.next_start(end)

    def receive(self, start: int, end: int) -> None:
        """Read what the octets [start, end) complete, which were held just now."""
        main = self.main
        if end > self._highest:
            self._highest = end
        is_next = start == main.edge and end == self._highest and self.half.fin is None
        if is_next and end < main.need and not (main.waits or self._ahead):
            main.edge = end
            return
        if start < main.edge and start < main.need:
            # What competes with the next FPDU may make it valid, or name another end.
            main.need, main.waits = 0, False
            main.agreed = main.goal = main.named = -1, -1
            if start < main.at + 8:
                main.unresolved = -1, -1
        if not main.waits:
            if start > main.edge and not self._has_markers and not self.half.fins:
                return  # beyond a hole
            self._read(main)
        elif start <= main.edge < end:
            main.edge = min(self.half.copies.edge(main.edge), self._limit(NEVER))
        if (end > main.edge or main.waits) and end > main.at and self._has_markers:
            if self.may_wait():
                self._unread = min(self._unread, start)
            else:
                self._read_unread()
                self._read_beyond(max(start, main.at), end)
        self._forget()

    def is_quiet(self) -> bool:
        """Return True unless octets lie beyond a hole, and time, or an acknowledgement, may show that nothing fills it.

        If it is True, and :attr:`hole_end` is not acknowledged, it stays so.
        """
        half, main = self.half, self.main
        self.hole_end = NEVER
        if not half.copies.reaches_beyond(main.edge):
            self._unread = NEVER
            return True
        peer, after = half.peer, half.copies.next_start(main.edge)
        if peer.acked == NOWHERE or after <= peer.acked or not peer.has_room_for(half.believed) or not self.may_wait():
            return False
        self.hole_end = after
        return True

    def may_wait(self) -> bool:
        """Return True if it may wait until octets beyond a hole are read: where it is filled, that shows the same.

        So it is where each octet has one copy, and nobody listens.
        """
        plain, main = self.plain, self.main
        return (
            plain is not None
            and plain.takes_all
            and self._has_crc
            and self._has_passed
            and not (self._has_dialect or self.half.copies.has_doubts or main.waits or self._ahead or self._chains)
            and main.is_located
            and main.at >= self._judged_below
        )

    def _read_unread(self) -> None:
        """Read the octets beyond a hole that waited."""
        start, self._unread = self._unread, NEVER
        if start < NEVER:
            copies = self.half.copies
            start = copies.next_start(max(start, self.main.edge))
            while start < NEVER:
                end = copies.edge(start)
                self._read_beyond(start, end)
                start = copies.next_start(end)

    def acknowledge(self) -> None:
        """Read what the peer's acknowledgement makes final."""
        if self.main.waits:
            self._read(self.main)
            self._forget()

    def give_up(self, now: Moment, patience: Patience) -> None:
        """Decide what has waited for long: an FPDU that is not final, and holes with believed octets after them."""
        main, copies = self.main, self.half.copies
        if main.waits and self._is_old(main.need - 1, patience):
            self._final_below = main.need
            self._read(main)
        while not main.waits and main.edge < self._limit(copies.end):
            start = copies.next_start(main.edge)
            if not self._is_old(start, patience) or (
                start == self._refused[0] and not patience.is_over(*self._refused[1])
            ):
                break
            if not self._is_believed(start):
                # What was looked at in vain is looked at again when that is old.
                self._refused = start, now
                break
            if main.edge > main.at and not self._is_old(main.edge - 1, patience):
                break
            self._read_unread()
            if self._has_markers:
                # No more comes of an FPDU that waits before the hole: its length may be wrong.
                self._read_over()
            self._skip_hole(start)
            self._read(main)
        self._forget()

    def _is_old(self, at: int, patience: Patience) -> bool:
        frame, time = self.half.copies.moment_at(at)
        return patience.is_over(frame, time)

    def relieve(self) -> None:
        """Too much is held: decide what waits, and give up the first hole, or what is not believed after it."""
        self._read_unread()
        before = self.main.at
        self._read_over()
        if self.main.at == before and (edge := self._go_over_hole()) is not None:
            # One run without a start, or an FPDU longer than the limit.
            self.main.search(edge, -1)
        self._read(self.main)
        self._forget()

    def _read_over(self) -> None:
        """Read the main chain's run to its end: nothing more comes of it."""
        self._is_over = True
        self._read(self.main)
        self._is_over = False

    def finish(self) -> None:
        """Nothing more comes: all that is held is decided."""
        self._read_unread()
        self._is_over = True
        self._read(self.main)
        while self._go_over_hole() is None:
            self._read(self.main)
        self._find_rest()
        self._pass_rest()
        self._forget()

    def _find_rest(self) -> None:
        """Find what is left: octets that belong to no FPDU, and others after the FIN."""
        main, half = self.main, self.half
        if main.edge > main.at:
            self._pass_unlocated(main.at, main.edge)
            moment = half.copies.frames(main.at, main.edge)[1:]
            # Where its length was cut off, the FPDU that begins there may be followed by others.
            is_located = main.is_located and not self._has_cut_header(main.at, main.edge)
            self.rest = Rest(main.at, main.edge, is_located, moment, self._is_doubtful(main.at, main.edge))
        end = self._limit(NEVER)
        start = half.copies.next_start(end)
        while start < NEVER:
            edge = half.copies.edge(start)
            self._leave_out(start, edge, DropReason.AFTER_FIN)
            start = half.copies.next_start(edge)

    def _keep_first(self, offset: int) -> None:
        """Keep the first octets of Full Operation, if an FPDU at an offset is wrong that begins there."""
        if not offset and self.is_beginning and not self.first_octets:
            edge = min(self.half.copies.edge(0, LONGEST_FPDU), LONGEST_FPDU)
            is_damaged = self.half.is_damaged(0, min(edge, LOOKED_AT))
            if self.half.copies.is_captured(0, edge) and not is_damaged:
                self.first_octets = bytes(self.half.copies.octets(0, edge)) if edge else b""

    def _go_over_hole(self) -> int | None:
        """Go to the next run that is believed; those before it are left out.

        Return None, or, if there is none, the offset up to which all were left out.
        """
        copies, edge = self.half.copies, self.main.edge
        while edge < self._limit(copies.end):
            start = copies.next_start(edge)
            if start >= self._limit(NEVER):
                break
            if self._is_believed(start):
                self._skip_hole(start)
                return None
            edge = copies.edge(start)
            self._leave_out(start, edge, self._weakest_reason(start, edge))
        return edge

    def _weakest_reason(self, start: int, end: int) -> DropReason:
        return self.half.copies.weakest_reason(start, end, self.half.has_right_checksums)

    def _is_doubtful(self, start: int, end: int) -> bool:
        is_acknowledged = self.half.peer.is_acknowledged(start, end)
        return not is_acknowledged and self._weakest_reason(start, end) != DropReason.NONE

    def _leave_out(self, start: int, end: int, reason: DropReason) -> None:
        frame, time = self.half.copies.moment_at(start)
        self.left_out.append(LeftOut(start, end, frame, time, reason, self.main.edge, self.half.last_frame))

    def _limit(self, end: int) -> int:
        """Return the offset up to which octets are read: a FIN that the peer acknowledged ends them."""
        fin = self.half.fin
        return end if fin is None else min(end, fin)

    def _is_believed(self, start: int) -> bool:
        """Return True if the octets of the run at ``start``, beyond a hole, are the connection's.

        They are unless all their copies may have been dropped, no ACK or SACK covers any of them, and they do not begin
        within a window of what is believed, though an ACK was captured later.
        """
        copies, peer = self.half.copies, self.half.peer
        end = copies.edge(start)
        if peer.is_acknowledged(start, end):
            return True
        reason = self._weakest_reason(start, end)
        frame = copies.frames(start, end)[0][0]
        if not reason:
            edge = peer.right_edge
            if edge is None or start <= edge or frame > peer.last_frame:
                return True
            # The window was not known when they were captured; an ACK that came later has no room for them.
        elif reason != DropReason.OVERWINDOW:
            return False
        # Near what is believed only an ACK that came later, and does not cover them, speaks against them.
        ahead = start - max(self.half.believed, self.main.at)
        return ahead <= (peer.rcv_wnd or 0) or (ahead <= NEAR and frame > peer.last_frame)

    # --- the chains ---

    def _read(self, chain: FPDUChain) -> None:
        """Read the FPDUs of a chain as far as they are there and final."""
        copies, main, fin = self.half.copies, self.main, self.half.fin
        limit = NEVER if fin is None else fin
        while True:
            if chain is main and self._ahead and self._pass_ahead():
                continue
            at = chain.at
            edge = copies.edge(chain.edge if chain.edge > at else at)
            chain.edge = edge if edge < limit else limit
            if not chain.is_located:
                if not self._locate(chain):
                    return
                continue
            if chain.edge < chain.need or chain.edge < at + 8:
                if not (self._is_over or (self._has_markers and not self._has_crc)):
                    return
                if not self._examine_part(chain):
                    return
                continue
            if not self._read_run(chain):
                return
            if chain is main and self._ahead and chain.at in self._ahead:
                continue
            if not self._read_one(chain):
                return

    def _read_run(self, chain: FPDUChain) -> bool:
        """Read FPDUs one after the other as long as nothing is remarkable; False if the next one is not complete.

        They lie in octets that have one copy each, with no reason to be dropped; else in one piece that is so.  Here
        nearly all FPDUs are read: what :meth:`_read_one`, :meth:`_accept` and :meth:`_pass` do is done in place.
        """
        half, copies, at, edge = self.half, self.half.copies, chain.at, chain.edge
        markers_used, crc_used = self._has_markers, self._has_crc
        index = copies.index_of(at)
        source, piece, end = copies.sources[index], 4 * index, number_at(copies.ends, index)
        end, is_plain = end if end < edge else edge, not copies.has_doubts
        if source is None:
            return True
        data: Octets = source
        # Its octets are counted from here in the source.
        start = number_at(copies.starts, index) - number_at(copies.origins, piece + 3)
        if (
            self._has_dialect
            or not chain.is_proven
            or not (is_plain or (copies.is_settled(index) and not copies.has_rivals(at, end)))
        ):
            return True
        needs_marker = markers_used and not crc_used
        is_passed, code, ahead = chain is self.main and not needs_marker, GOOD if crc_used else UNCHECKED, self._ahead
        begun, begun_time = self._startup_frame, self._startup_time
        known, known_time, by_length = chain.known_frame, chain.known_time, chain.by_length
        delivered, need = self._delivered, 0
        # An FPDU is judged if there is more to judge than its CRC.
        judged_below = self._judged_below if markers_used or not crc_used else -1
        # Beyond this offset, an FPDU shows that the peer's window was larger than is known (:meth:`_believe`).
        window_edge, believed, window_known = half.peer.edge, half.believed, 0
        shows_from = NEVER if window_edge == NOWHERE else window_edge
        shows_from = believed if believed > shows_from else shows_from
        while True:
            frame, time = number_at(copies.origins, piece), number_at(copies.origins, piece + 1)
            is_judged = by_length and is_passed and at >= judged_below and known >= 0
            header = at + MARKER_LENGTH if markers_used and not at & 511 else at
            if header + 4 <= end:
                ulpdu_length, control = head(data, header - start)
            elif is_plain and at + 8 <= edge:
                ulpdu_length, control = head(copies.join(header, header + 4, index), 0)
            else:
                break
            after = at + 4 + (ulpdu_length + 5 & ~3)
            markers = marker_count(at, after - at) if markers_used else 0
            after += MARKER_LENGTH * markers
            plain_end = at
            if is_judged and after <= end:
                plain_end = self._read_plain(data, start, at, end, known, frame, time, delivered, False)
            if plain_end > at:
                known, known_time, delivered, after = frame, time, frame, plain_end
                window_known = frame if after > shows_from and frame > window_known else window_known
            else:
                octets, origin, first, last = data, start, frame, frame
                if after > end:
                    if not is_plain or after > edge:
                        need = after if is_plain and not needs_marker and not self._is_over else 0
                        break
                    octets, origin = copies.join(at, after, index), at
                    first, last, time = copies.span(index, after)
                if (needs_marker and markers) or (
                    crc_used and crc_of(octets, at - origin, after - origin) != CRC_RESIDUE
                ):
                    break
                complete, complete_time = (last, time) if last > begun else (begun, begun_time)
                delivered_by = complete if complete > delivered else delivered
                placed, placed_time = complete, complete_time
                # What a Marker names can be placed before what comes before it.
                if (
                    is_passed
                    and by_length
                    and known > complete
                    and not (markers and self._is_named(at, after, octets, origin))
                ):
                    placed, placed_time = known, known_time
                if is_judged and self._pass_plain(
                    octets, at - origin, header - origin, at, ulpdu_length, control, markers, placed, placed_time,
                    first, last, delivered_by, after,
                ):  # fmt: skip
                    known, known_time, delivered = placed, placed_time, delivered_by
                else:
                    own = copies.octets(at, after)
                    # A Marker may stand before or after the first control octet where an FPDU is not aligned.
                    is_usual = ulpdu_length > 1 and not (markers_used and header & 3)
                    opcode = control & 0x0F if is_usual else self._opcode(header, ulpdu_length, own, at)
                    frames = (frame,) if after <= end else copies.frames(at, after)[0]
                    if is_passed:
                        delivered = delivered_by
                        self._pass_alone(
                            at, header, ulpdu_length, after, markers, frames, (complete, complete_time),
                            (placed, placed_time), opcode, own, known if by_length else -1, delivered,
                        )  # fmt: skip
                        known, known_time, by_length = placed, placed_time, True
                    else:
                        extent = Extent(at, header, ulpdu_length, after, markers)
                        self._accept(chain, extent, code, frames, (last, time), opcode, own)
                window_known = complete if after > shows_from and complete > window_known else window_known
            at = after
            if ahead and at in ahead:
                break
            if at >= end:
                if at >= edge or not is_plain:
                    need = at + 8 if at >= edge else 0
                    break
                index = copies.index_of(at)
                source, piece, end = copies.sources[index], 4 * index, number_at(copies.ends, index)
                assert source is not None
                data, end = source, end if end < edge else edge
                start = number_at(copies.starts, index) - number_at(copies.origins, piece + 3)
        if is_passed and at > chain.at:
            chain.at, chain.known_frame, chain.known_time = at, known, known_time
            chain.by_length, chain.need, chain.waits = True, 0, False
            self._delivered, self._has_passed = delivered, True
            half.believed = at if at > believed else believed
            half.passed = at if at > half.passed else half.passed
            if window_known > copies.window_known:
                copies.window_known = window_known
        if need:
            chain.need = need
        return not need

    def _pass_alone(
        self,
        at: int,
        header: int,
        ulpdu_length: int,
        after: int,
        markers: int,
        frames: tuple[int, ...],
        complete: Moment,
        placed: Moment,
        opcode: int,
        octets: memoryview,
        known: int,
        delivered: int,
    ) -> None:
        """Pass an FPDU that is good; the length of one before named it that was placed at ``known``, -1 if none did."""
        if not at and self.is_beginning:
            located_by = START
        elif 0 <= known <= placed[0]:
            located_by = LENGTH
        else:
            located_by = MARKER if markers else SCAN
        code = GOOD if self._has_crc else UNCHECKED
        fpdu = located_fpdu(
            at, header, ulpdu_length, after, markers, code, located_by, frames, complete, placed, opcode, octets
        )
        if at < self._judged_below and (self._has_markers or not self._has_crc):
            self._judge(fpdu)
        self.final.append(fpdu)
        self._run = None
        self.passed.append((fpdu, delivered if self._is_gapless else 0))
        if self.plain is not None:
            self.plain.passed(fpdu)

    def _pass_plain(
        self,
        octets: Octets,
        index: int,
        header: int,
        at: int,
        ulpdu_length: int,
        control: int,
        markers: int,
        placed: int,
        time: int,
        first: int,
        last: int,
        delivered: int,
        after: int,
    ) -> bool:
        """Pass an FPDU if it is plain though several frames brought it, or it was placed late; False if it is not.

        It lies at an ``index`` of ``octets``, its ULPDU_Length at ``header``; :class:`PlainRun` has the others.
        """
        plain, phase = self.plain, at & 511 if markers else -1
        if plain is None or not plain.takes_all:
            return False
        if not plain.fits(octets, index, header, ulpdu_length, control, phase):
            return False
        run = self._run_at(at)
        run.arrive(placed, time, first, last)
        run.add(at, ulpdu_length, markers, octets, header + LENGTH_FIELD_LENGTH, plain.before_marker)
        run.delivered_late += delivered > placed
        plain.passed_run(run, after)
        return True

    def _run_at(self, at: int) -> PlainRun:
        """Return the run to which the FPDU at an offset is added."""
        run = self._run
        if run is None or not run.may_go_on(at, self._is_gapless):
            run = self._run = PlainRun(at, GOOD if self._has_crc else UNCHECKED, self._is_gapless)
            self.passed.append((run, self._delivered))
        return run

    def take_passed(self) -> list[tuple[LocatedFPDU | Gap | PlainRun, int]]:
        """Return what the main chain passed since the last time."""
        passed, self.passed, self._run = self.passed, [], None
        return passed

    def is_steady(self) -> bool:
        """True if the next FPDU begins where all octets end, and nothing waits or was found beyond it."""
        main, layout = self.main, self.layout
        return (
            self.plain is not None
            and self.half.is_read()
            and layout.dialect is None
            and (layout.crc or not layout.markers)
            and main.is_located
            and main.is_proven
            and main.by_length
            and main.at >= main.edge
            and main.at >= (self._judged_below if layout.markers or not layout.crc else 1)
            and self._unread == NEVER
            and self.error_acked == NEVER
            and not (main.waits or main.pending or self._ahead or self._chains or self._is_over or self.replaced)
        )

    def read_next(self, seg: Segment) -> bool:
        """Read a segment that goes on where all octets end, if it holds plain FPDUs and nothing else.

        Return False if it does not: then nothing has changed.  :attr:`is_steady` is True.
        """
        main, at, frame, time = self.main, self.main.at, seg.frame, seg.time
        end = at + seg.length
        if (
            self._read_plain(seg.buffer, at - seg.start, at, end, main.known_frame, frame, time, self._delivered, True)
            < end
        ):
            return False
        main.at = main.edge = self._highest = end
        main.known_frame, main.known_time, main.need = frame, time, end + 8
        self._delivered, self._has_passed = frame, True
        return True

    def _read_plain(
        self,
        data: Octets,
        start: int,
        at: int,
        end: int,
        known: int,
        frame: int,
        time: int,
        delivered: int,
        needs_all: bool,
    ) -> int:
        """Read plain FPDUs from ``at`` on, in octets [start, end) that one frame brought; return where the next begins.

        The one before was placed at the frame ``known``, and all before are delivered by the frame ``delivered``.  If
        one must end at ``end`` (``needs_all``), and none does, none is read.
        """
        markers_used, crc_used = self._has_markers, self._has_crc
        plain, ahead, first = self.plain, self._ahead, at
        before = markers_before = octets_before = 0
        if plain is None or known > frame or frame < self._startup_frame or delivered > frame:
            return at
        run: PlainRun | None = None
        plain.remember()
        while not (ahead and at > first and at in ahead):
            header = at + MARKER_LENGTH if markers_used and not at & 511 else at
            if header + 4 > end:
                break
            beginning = word(data, header - start)
            ulpdu_length, control = beginning >> 16, beginning & 0xFFFF
            after = at + 4 + (ulpdu_length + 5 & ~3)
            markers = marker_count(at, after - at) if markers_used else 0
            after += MARKER_LENGTH * markers
            if after > end or (markers and not crc_used):
                break
            if crc_used and crc_of(data, at - start, after - start) != CRC_RESIDUE:
                break
            phase = at & 511 if markers else -1
            if not plain.fits(data, at - start, header - start, ulpdu_length, control, phase):
                break
            if run is None:
                run = self._run_at(at)
                before, markers_before, octets_before = len(run.starts), run.markers, run.ulpdu_octets
                run.arrive(frame, time, frame, frame)
            ulpdu = header + LENGTH_FIELD_LENGTH - start
            run.add(at, ulpdu_length, markers, data, ulpdu, plain.before_marker)
            at = after
        if run is None:
            return at
        if needs_all and at < end:
            plain.go_back()
            run.take_back(before, markers_before, octets_before)
            if not before:
                self.passed.pop()
                self._run = None
            return first
        plain.passed_run(run, at)
        return at

    def _opcode(self, header: int, ulpdu_length: int, data: memoryview, start: int) -> int:
        """Return the RDMAP opcode of an FPDU, NO_OPCODE if its ULPDU has none (RFC 5040 §4.1)."""
        if ulpdu_length < 2:
            return NO_OPCODE
        at = header + 3
        if self.layout.markers:
            # A Marker may stand before or after the first control octet.
            at = header + 2
            at += MARKER_LENGTH if not at % MARKER_INTERVAL else 0
            at += 1
            at += MARKER_LENGTH if not at % MARKER_INTERVAL else 0
        return data[at - start] & 0x0F

    def _read_one(self, chain: FPDUChain) -> bool:
        """Read the FPDU at which the chain is, wherever its octets lie; False if it has to wait."""
        copies, at = self.half.copies, chain.at
        copies.settle(at, min(chain.edge, at + 8))
        extent = self._extent(at, chain.edge)
        if extent is None:
            # The length was cut off, or is not there yet.
            if self._has_cut_header(at, chain.edge):
                if not self._is_final(chain, at, at + 8):
                    # A copy that was captured whole may still come.
                    chain.need, chain.waits = at + 8, True
                    return False
                chain.search(at + 4, -1)
                return True
            chain.need = at + 8
            return False
        if not chain.is_proven and extent.end <= chain.marker:
            # It does not hold the Marker that named its start.
            chain.need, chain.waits = NEVER, True
            return False
        if extent.end > chain.edge:
            chain.need = extent.end
            if (self.layout.markers and not self.layout.crc) or self._is_over:
                return self._examine_part(chain)
            return self._is_rescued(chain, extent)
        if not copies.is_captured(at, extent.end):
            if not self._is_final(chain, at, extent.end) and self._may_change(chain, at, extent.end):
                chain.need, chain.waits = extent.end, True
                return False
            if self._overlaps_ahead(at, extent.end):
                return self._leave_out_cut(chain, extent.end)
            frames, *moment = copies.frames(at, extent.end)
            self._accept(
                chain, extent, CUT, frames, (moment[0], moment[1]), self._cut_opcode(extent), self._beginning(extent)
            )
            return True
        copies.settle(at, extent.end)
        if not self._is_valid(extent):
            high = min(chain.edge, at + LONGEST_FPDU) if copies.has_rivals(at, at + 8) else extent.end
            if not copies.make_valid(at, high, lambda: self._valid_end(at, chain.edge)):
                return self._read_bad(chain, extent)
        extent = self._extent(at, chain.edge)
        assert extent is not None
        if not self._is_final(chain, at, extent.end) and self._may_change(chain, at, extent.end):
            chain.need, chain.waits = extent.end, True
            return False
        frames, frame, time = copies.frames(at, extent.end)
        data = copies.octets(at, extent.end)
        opcode = self._opcode(extent.header, extent.ulpdu_length, data, at)
        self._accept(chain, extent, GOOD if self.layout.crc else UNCHECKED, frames, (frame, time), opcode, data)
        return True

    def _overlaps_ahead(self, at: int, end: int) -> bool:
        """Return True if a final FPDU that the main chain has not passed begins in [at, end), after the first octet."""
        ahead, step = self._ahead, self.layout.alignment
        return bool(ahead) and any(start in ahead for start in range(at + step, end, step))

    def _leave_out_cut(self, chain: FPDUChain, end: int) -> bool:
        """Leave out an FPDU some of whose octets were cut off, and whose length leads into one that a Marker named.

        Return True if its chain looks for the next one, False if that waits for the main chain.
        """
        if chain is not self.main:
            # As of a bad one: only other copies of its octets are looked at again.
            chain.need, chain.waits, chain.unresolved = end, True, (chain.at, NEVER)
            return False
        chain.search(chain.at + self.layout.alignment, -1)
        return True

    def _is_rescued(self, chain: FPDUChain, extent: Extent) -> bool:
        """The next FPDU is not complete by its length: return True if other copies of its header name a shorter one."""
        copies = self.half.copies
        if not copies.has_rivals(chain.at, min(chain.edge, chain.at + 8)) or not self._has_grown(chain):
            return False
        return copies.make_valid(chain.at, chain.edge, lambda: self._valid_end(chain.at, chain.edge))

    def _extent(self, at: int, edge: int) -> Extent | None:
        """Return the extent of the FPDU at an offset, None if its length is not held or was cut off."""
        dialect = self.layout.dialect
        if dialect is not None:
            end = min(edge, at + self._header_octets(at))
            if end <= at or not self.half.copies.is_captured(at, end):
                return None
            return extent_in_dialect(dialect, self.half.copies.octets(at, end), at, self._due)
        header = at + MARKER_LENGTH if self.layout.markers and not at % MARKER_INTERVAL else at
        if header + 2 > edge or not self.half.copies.is_captured(header, header + 2):
            return None
        octets = self.half.copies.octets(header, header + 2)
        return extent_of(at, header, octets[0] << 8 | octets[1], self.layout.markers)

    def _header_octets(self, at: int) -> int:
        """Return how many octets of an FPDU of a dialect hold its ULPDU_Length and the Markers before and in it."""
        dialect = self.layout.dialect
        assert dialect is not None
        return header_octets(dialect, dialect.due_at(at) if self.layout.markers else self._due)

    def _has_cut_header(self, at: int, edge: int) -> bool:
        if self.layout.dialect is not None:
            end = at + self._header_octets(at)
            return end <= edge and not self.half.copies.is_captured(at, end)
        header = at + MARKER_LENGTH if self.layout.markers and not at % MARKER_INTERVAL else at
        return header + 2 <= edge and not self.half.copies.is_captured(header, header + 2)

    def _cut_opcode(self, extent: Extent) -> int:
        """Return the opcode of an FPDU of which not all octets were captured."""
        at = extent.header + 3
        if extent.spoken is not None or extent.ulpdu_length < 2:
            return NO_OPCODE
        if not self.half.copies.is_captured(extent.header + 2, min(at + 5, extent.end)):
            return NO_OPCODE
        data = self.half.copies.octets(extent.header, min(extent.header + 12, at + 5, extent.end))
        return self._opcode(extent.header, extent.ulpdu_length, data, extent.header)

    def _beginning(self, extent: Extent) -> memoryview:
        """Return the octets of an FPDU before the first that a snapshot length cut off."""
        copies = self.half.copies
        end = copies.captured_end(extent.offset, extent.end)
        return copies.octets(extent.offset, end) if end > extent.offset else _NOTHING

    def _is_valid(self, extent: Extent) -> bool:
        if not self.layout.crc and not extent.markers and extent.spoken is None:
            return True
        copies = self.half.copies
        if not copies.is_captured(extent.offset, extent.end):
            return False
        return FPDUWindow(copies.octets(extent.offset, extent.end), extent.offset, self.layout).is_valid(extent)

    def _valid_end(self, at: int, edge: int) -> int:
        """Return where the FPDU at an offset ends if it is whole and valid, else 0."""
        extent = self._extent(at, edge)
        return extent.end if extent is not None and extent.end <= edge and self._is_valid(extent) else 0

    def _is_final(self, chain: FPDUChain, start: int, end: int) -> bool:
        """Return True if no copy captured from now on can be chosen for octets: the peer acknowledged them."""
        return self._is_over or end <= self._final_below or self.half.peer.acked_frame(start, end) != NEVER

    def _may_change(self, chain: FPDUChain, start: int, end: int) -> bool:
        """Return True if a copy that comes later may be chosen in place of those of a valid FPDU."""
        reason = self.half.copies.strongest_reason(start, end)
        if reason == DropReason.OVERWINDOW and self.layout.crc and chain is self.main and self._is_gapless:
            # It joins the stream beyond the window, and its CRC is good: the ACK that made room was not captured.
            edge = self.half.peer.right_edge
            return edge is not None and end <= edge
        return reason != DropReason.NONE

    # --- FPDUs that were read ---

    def _accept(
        self,
        chain: FPDUChain,
        extent: Extent,
        crc: int,
        frames: tuple[int, ...],
        latest: Moment,
        opcode: int,
        octets: memoryview,
    ) -> None:
        """A chain goes on after a whole FPDU."""
        complete = latest if latest > self.startup else self.startup
        before = chain.known
        markers, spoken = extent.markers, extent.spoken
        if spoken is not None:
            self._due = spoken.due
            markers = markers if self.layout.markers else 0
            crc = self._crc_in_dialect(crc)
            ulpdu = ulpdu_of(spoken, octets, 2) if octets else b""
            opcode = ulpdu[1] & 0x0F if len(ulpdu) > 1 else NO_OPCODE
        known = complete
        if chain.by_length and before is not None and before > complete:
            is_named = markers > 0 and (
                spoken is not None or self._is_named(extent.offset, extent.end, octets, extent.offset)
            )
            known = complete if is_named else before
        if not extent.offset and self.is_beginning:
            located_by = START
        elif chain.by_length and before is not None and before[0] <= known[0]:
            located_by = LENGTH
        else:
            located_by = MARKER if markers else SCAN
        fpdu = located_fpdu(
            extent.offset, extent.header, extent.ulpdu_length, extent.end, extent.markers, crc, located_by, frames,
            complete, known, opcode, octets,
            crc in (BAD, UNCHECKED) and self.half.is_damaged(extent.offset, extent.end),
        )  # fmt: skip
        chain.at, chain.known, chain.by_length = extent.end, known, crc != BAD
        chain.need, chain.waits, chain.is_proven = 0, False, True
        if self.layout.markers and not self.layout.crc and crc != BAD:
            if markers:
                self._confirm(chain)
            chain.pending.append(fpdu)
        else:
            self._finalize(chain, fpdu)

    def _is_named(self, at: int, end: int, octets: Octets, origin: int) -> bool:
        """Return True if a Marker in a whole FPDU names its start: it can be placed before the one before it.

        ``octets`` begin at the offset ``origin``; the last ones may be cut off.
        """
        end = min(end, origin + len(octets))
        if not self._has_dialect:
            # FPDUWindow.names() in place.
            marker, header = at + (-at & _PHASE), at if at & _PHASE else at + MARKER_LENGTH
            while marker <= end - MARKER_LENGTH:
                named = word(octets, marker - origin) & _COMPARED
                if named in ((marker - header) & _COMPARED if marker != at else 0, (marker - at) & _COMPARED):
                    return True
                marker += MARKER_INTERVAL
            return False
        window = FPDUWindow(memoryview(own_octets(octets, at - origin, end - origin)), at, self.layout)
        return window.is_named(at)

    def _crc_in_dialect(self, crc: int) -> int:
        """Return the code of an FPDU of a dialect: one whose CRC is as its sender sends them is good."""
        dialect = self.layout.dialect
        return GOOD if crc == UNCHECKED and dialect is not None and dialect.crc else crc

    def _confirm(self, chain: FPDUChain) -> None:
        """A Marker agrees: what the chain has read is final."""
        pending, chain.pending = chain.pending, []
        for fpdu in pending:
            if chain is not self.main and fpdu.crc == CUT and self._overlaps_ahead(fpdu.offset, fpdu.end):
                break  # its length is wrong
            if chain is self.main or fpdu.offset >= self.main.at:
                self._finalize(chain, fpdu)

    def _finalize(self, chain: FPDUChain, fpdu: LocatedFPDU) -> None:
        """An FPDU is final."""
        if fpdu.offset not in self._ahead:
            self.final.append(fpdu)
        if chain is self.main:
            self._pass(fpdu)
        elif fpdu.offset not in self._ahead:
            self._ahead[fpdu.offset] = fpdu
            heappush(self._ahead_offsets, fpdu.offset)

    def _pass(self, fpdu: LocatedFPDU) -> None:
        """The main chain passes an FPDU."""
        if fpdu.complete[0] > self._delivered:
            self._delivered = fpdu.complete[0]
        if fpdu.crc == BAD and not fpdu.is_damaged:
            self._note_error(fpdu.known[0], fpdu.offset)
        if fpdu.offset < self._judged_below:
            self._judge(fpdu)
        self._has_passed = True
        self._note_rivals(fpdu.offset, fpdu.end)
        self.half.passed = max(self.half.passed, fpdu.end)
        is_delivered = fpdu.crc != BAD and self._is_gapless
        self._run = None
        self.passed.append((fpdu, self._delivered if is_delivered else 0))
        if self.plain is not None:
            self.plain.passed(fpdu)
        if fpdu.end > self.half.believed and fpdu.crc != BAD:
            self._believe(fpdu.end, fpdu.complete[0])

    def _note_rivals(self, start: int, end: int) -> None:
        """Note copies of octets that were not chosen, of FPDUs that were passed, or of what belongs to none."""
        if self.half.copies.has_rivals(start, end):
            self.rivals += self.half.copies.rivals(start, end)

    def _pass_unlocated(self, start: int, end: int) -> None:
        """Note what is remarkable about octets that belong to no FPDU."""
        self._keep_first(start)
        self._note_rivals(max(start, self.half.passed), end)
        self._note_damaged(start, end)

    def _note_damaged(self, start: int, end: int) -> None:
        """Note which octets, of those that belong to no FPDU, only a segment with a wrong TCP checksum brought."""
        copies = self.half.copies
        if not self.half.is_damaged(start, end):
            return
        for at, copy in copies.chosen_in(start, end):
            if copy.checksum == WRONG:
                stop = min(copies.piece(at)[1], end)
                one = LeftOut(max(at, start), stop, copy.frame, copy.time, DropReason.CHECKSUM, start)
                self.damaged.append(one)

    def _judge(self, fpdu: LocatedFPDU) -> None:
        """Note an FPDU that does not fit."""
        layout, code = self.layout, None
        if fpdu.is_damaged:
            return
        if fpdu.crc == BAD:
            code = 2
        elif layout.markers and fpdu.markers and fpdu.octets:
            window = FPDUWindow(fpdu.octets, fpdu.offset, layout)
            code = 3 if window.contradiction(fpdu.offset, fpdu.end) is not None else None
        if code is not None or (not layout.crc and fpdu.octets and is_unlike_ddp(fpdu.octets, fpdu.offset, layout)):
            self._note_anomaly(Anomaly(fpdu.offset, *fpdu.known, code))

    def _note_anomaly(self, anomaly: Anomaly) -> None:
        """Keep the first anomaly in the stream; one that a conforming receiver reports comes before all others."""
        before = self.anomaly
        is_first = before is None or (anomaly.code is None, anomaly.offset) < (before.code is None, before.offset)
        if is_first and anomaly.offset < self._judged_below:
            self.anomaly = anomaly

    def judge_part(self, is_over: bool) -> None:
        """Judge the FPDU at which the main chain is and of which a part is there.

        Without CRC its Markers or its header may tell that it is none; at the end that it is incomplete does not fit.
        """
        main, copies, layout = self.main, self.half.copies, self.layout
        at, edge = main.at, main.edge
        if not main.is_located or not at < min(edge, self._judged_below):
            return
        looked_at = min(edge, at + LOOKED_AT)
        if not layout.crc and copies.is_captured(at, looked_at):
            marker = self._contradiction(main, edge) if layout.markers else None
            if marker is not None and edge >= at + 6:
                self._note_anomaly(Anomaly(at, *self._moment(at, marker), 3))
            elif is_unlike_ddp(copies.octets(at, looked_at), at, layout):
                self._note_anomaly(Anomaly(at, *copies.frames(at, at + 1)[1:], None))
        if is_over:
            self._note_anomaly(Anomaly(at, *copies.frames(at, edge)[1:], None))

    def _believe(self, offset: int, frame: int) -> None:
        """Octets up to an offset are the sender's: beyond the window, ACKs were not captured."""
        half = self.half
        half.believed = offset
        edge = half.peer.right_edge
        if edge is not None and offset > edge:
            half.copies.window_known = max(half.copies.window_known, frame)

    def _note_error(self, frame: int, offset: int) -> None:
        if self.first_error is None or (frame, offset) < self.first_error:
            self.first_error = frame, offset
            self.error_acked = self.half.peer.acked_frame(offset, offset + 1)

    def _pass_ahead(self) -> bool:
        """Pass the FPDU at which the main chain is, if it was read before; False if it was not."""
        main = self.main
        self._pass_over(main.at)
        fpdu = self._ahead.get(main.at) if main.is_located else None
        if fpdu is None:
            return False
        del self._ahead[heappop(self._ahead_offsets)]
        self._confirm(main)
        before = main.known
        if main.by_length and before is not None and before[0] <= fpdu.known[0]:
            located_by = LENGTH
        elif not fpdu.offset and self.is_beginning:
            located_by = START
        else:
            located_by = MARKER if fpdu.markers else SCAN
        main.at, main.known, main.by_length, main.need, main.waits = fpdu.end, fpdu.known, True, 0, False
        main.edge = max(main.edge, main.at)
        self._pass(fpdu.found_by(located_by))
        return True

    # --- where a chain cannot go on ---

    def _read_bad(self, chain: FPDUChain, extent: Extent) -> bool:
        """The next FPDU is complete and not valid; False if it has to wait."""
        if chain is not self.main:
            # Only the main chain tells that an FPDU is bad: this one may begin at a wrong place.
            chain.need, chain.waits, chain.unresolved = extent.end, True, (extent.offset, NEVER)
            return False
        if not self._is_final(chain, extent.offset, extent.end):
            chain.need, chain.waits = extent.end, True
            return False
        if not self.layout.crc and (extent.spoken is None or self._is_contradicted(extent)):
            return self._read_contradicted(chain, extent)
        if extent.spoken is not None and not self._may_be_bad(chain):
            # Neither this one nor the one before says where the next one is.
            self._confirm(chain)
            chain.search(extent.offset + self.layout.alignment, -1)
            return True
        frames, frame, time = self.half.copies.frames(extent.offset, extent.end)
        data = self.half.copies.octets(extent.offset, extent.end)
        opcode = self._opcode(extent.header, extent.ulpdu_length, data, extent.offset)
        self._keep_first(extent.offset)
        self._accept(chain, extent, BAD, frames, (frame, time), opcode, data)
        if self.layout.is_searchable:
            # Its length is not to be trusted: the next start may lie in it.
            chain.search(extent.offset + self.layout.alignment, extent.end)
        return True

    def _is_contradicted(self, extent: Extent) -> bool:
        """Return True if a Marker names another start than the lengths."""
        if not self.layout.markers:
            return False
        window = FPDUWindow(self.half.copies.octets(extent.offset, extent.end), extent.offset, self.layout)
        return window.contradiction(extent.offset, extent.end) is not None

    def _may_be_bad(self, chain: FPDUChain) -> bool:
        """Return True if the next FPDU of a dialect is bad, False if it is none: only CRCs can tell."""
        return self.layout.crc and (self.layout.is_searchable or chain.by_length or not chain.at)

    def _read_contradicted(self, chain: FPDUChain, extent: Extent) -> bool:
        """Without CRC, a Marker names another start than the lengths; False if the Markers after it have to come."""
        marker = self._contradiction(chain, min(extent.end, chain.edge))
        if marker is None:
            return False
        if not self._is_over and chain.edge < marker + JURY * MARKER_INTERVAL + MARKER_LENGTH:
            chain.need, chain.waits = max(chain.edge + 1, chain.need), False
            return False
        low = chain.pending[0].offset if chain.pending else chain.at
        # A Marker names no start farther back than an FPDU is long.
        low = max(low, marker - LONGEST_FPDU, self.half.copies.start)
        high = min(chain.edge, (marker // LONGEST_FPDU + 2) * LONGEST_FPDU)
        if not self.half.copies.is_captured(low, high):
            # Not all Markers are there to agree: the main chain takes what was read before, or what one Marker names.
            chain.search(chain.at + self.layout.alignment if chain is self.main else high, -1)
            return True
        if chain is not self.main:
            chain.waits = True
            return False
        is_first = chain.unresolved[0] != extent.offset
        if not self._has_grown(chain):
            return False
        window = FPDUWindow(self.half.copies.octets(low, high), low, self.layout)
        moment = self._moment(extent.offset, marker)
        fpduptr = int.from_bytes(window.data[marker + 2 - low : marker + 4 - low], "big")
        is_damaged = self.half.is_damaged(extent.offset, marker + MARKER_LENGTH)
        if is_first:
            self.contradictions.append(Contradiction(extent.offset, marker, fpduptr, moment, is_damaged))
        self._keep_first(extent.offset)
        if not is_damaged:
            self._note_error(moment[0], extent.offset)
            self._note_anomaly(Anomaly(extent.offset, *moment, 3))
        # Starts gone to only grow: else Markers that contradict each other would send the reader to and fro for ever.
        sure = max(chain.pending[0].offset if chain.pending else chain.at - 1, chain.resumed)
        start = self._start_by_marker(chain, window, sure + 1, marker)
        whole = extent.end <= chain.edge
        if start == extent.offset and not whole:
            # Markers after the first agree with the lengths up to here: only a later start leads on.
            start = self._start_by_marker(chain, window, start + 1, marker)
        if start is None and not whole:
            if high < chain.edge:
                # No FPDU that begins farther back can still be found.
                chain.search((high - LONGEST_FPDU) & -MARKER_INTERVAL, -1)
            return high < chain.edge
        agreeing = window.agreeing(extent.offset, marker + 1)
        if start is None or (whole and agreeing and agreeing >= window.agreeing(start, marker + 1)):
            # The Marker is garbled, not the length.
            frames, frame, time = self.half.copies.frames(extent.offset, extent.end)
            octets = self.half.copies.octets(extent.offset, extent.end)
            opcode = self._opcode(extent.header, extent.ulpdu_length, octets, extent.offset)
            self._accept(chain, extent, UNCHECKED, frames, (frame, time), opcode, octets)
            return True
        first = self._first_ahead(chain)
        # What was read there has proved right.
        start = first if first is not None and extent.offset < first < start else start
        self._resume_at(chain, window, extent, start)
        return True

    def _start_by_marker(self, chain: FPDUChain, window: FPDUWindow, low: int, first: int) -> int | None:
        """Return :meth:`FPDUWindow.start_by_marker`, as found for the FPDU before if octets end where they did."""
        end, start = chain.named
        if end != window.end or start < max(low, first):
            found = window.start_by_marker(low, first)
            start = NEVER if found is None else found
            chain.named = window.end, start
        return start if start < NEVER else None

    def _resume_at(self, chain: FPDUChain, window: FPDUWindow, extent: Extent, start: int) -> None:
        """Go on at the start that Markers name.  Where the FPDUs before it end is not known: they are not told."""
        while chain.pending and chain.pending[-1].end > start:
            chain.pending.pop()
        if chain.pending and chain.pending[-1].end == extent.offset and not window.is_plausible(extent):
            # What follows the last one is no FPDU: the length that is wrong is its own.
            chain.pending.pop()
        self._confirm(chain)
        self._delivered = max(
            self._delivered, self.half.copies.frames(chain.at, min(start, chain.edge))[1] if start > chain.at else 0
        )
        chain.resumed = start
        chain.go_to(start)

    def _contradiction(self, chain: FPDUChain, end: int) -> int | None:
        """Return the first Marker below ``end`` that names another start than that of the next FPDU, None without any.

        None, too, if some of its octets were cut off.
        """
        copies, at = self.half.copies, chain.at
        low = chain.agreed[1] if chain.agreed[0] == at else at
        if low < end and not copies.is_captured(low, end):
            return None
        for marker in self.layout.marker_positions(low, end - MARKER_LENGTH + 1):
            if copies.edge(marker, marker + MARKER_LENGTH) < marker + MARKER_LENGTH:
                return None
            octets = copies.octets(marker, marker + MARKER_LENGTH)
            if not FPDUWindow(octets, marker, self.layout).names(marker, at):
                return marker
        chain.agreed = at, max(low, end - MARKER_LENGTH + 1)
        return None

    def _has_grown(self, chain: FPDUChain) -> bool:
        """Return True if the part of the next FPDU that is there has grown by a quarter since this was asked."""
        at, edge = chain.unresolved
        if at == chain.at and not self._is_over and chain.edge - edge < (edge - at) // 4:
            return False
        chain.unresolved = chain.at, chain.edge
        return True

    def _moment(self, offset: int, marker: int) -> Moment:
        """Return the moment at which both the length of an FPDU and a Marker were captured."""
        _, frame, time = self.half.copies.frames(offset, min(offset + 6, marker + MARKER_LENGTH))
        _, other, other_time = self.half.copies.frames(marker, marker + MARKER_LENGTH)
        return max((frame, time), (other, other_time), self.startup)

    def _examine_part(self, chain: FPDUChain) -> bool:
        """The next FPDU is not complete: True if a Marker in it, or that nothing more comes, shows where to go on."""
        if chain.edge < chain.at + 8 and not self._is_over:
            return False
        extent = self._extent(chain.at, chain.edge)
        if extent is None:
            return False
        chain.need = extent.end
        if extent.end <= chain.edge:
            return self._read_one(chain)
        is_decided = self._is_over and chain is self.main
        is_ordinary = not is_decided or self.half.copies.is_captured(chain.at, chain.edge)
        if self.layout.markers and not self.layout.crc and is_ordinary:
            return self._read_contradicted(chain, extent)
        if not is_decided:
            return False
        if self._is_rescued(chain, extent):
            return True
        self._keep_first(chain.at)
        return self._examine_cut(chain, extent)

    def _examine_cut(self, chain: FPDUChain, extent: Extent) -> bool:
        """The octets end before the FPDU does: a length may be wrong.  True if another start follows."""
        low = chain.at
        if not self.layout.is_searchable:
            return False
        if not self.half.copies.is_captured(low, chain.edge):
            return self._search_cut(chain)
        window = FPDUWindow(self.half.copies.octets(low, chain.edge), low, self.layout)
        if self.layout.markers:
            if window.contradiction(low, chain.edge) is None:
                return False
            start = window.start_by_marker(low + 4, low)
            if self.layout.crc:
                # One that holds no Marker may come first.
                start = self._search(window, low + 4, window.end if start is None else start) or start
        else:
            start = self._search(window, low + 4)
        if start is None:
            return False
        self.judge_part(is_over=False)
        self._note_damaged(low, start)
        chain.go_to(start)
        return True

    def _search_cut(self, chain: FPDUChain) -> bool:
        """Look for the next start where octets were cut off before the FPDU ends; False if nothing shows one.

        One Marker that names another start shows it, or a segment that begins with what DDP sends.  An FPDU without
        Markers that its CRC proves may begin before.
        """
        copies, layout, at = self.half.copies, self.layout, chain.at
        low, edge = at + layout.alignment, chain.edge
        markers = layout.marker_positions(at, edge - MARKER_LENGTH + 1) if layout.markers else ()
        for marker in markers:
            if copies.is_captured(marker, marker + MARKER_LENGTH):
                window = FPDUWindow(copies.octets(marker, marker + MARKER_LENGTH), marker, layout)
                if not window.names(marker, at):
                    break
        else:
            if self._cut_start(low, edge) is None:
                return False
        # No more comes of the FPDUs that wait there for a Marker.
        for start in reversed(self._starts[: bisect_right(self._starts, edge)]):
            self._confirm(self._chains[start])
        chain.search(low, -1)
        return True

    def _skip_hole(self, start: int) -> None:
        """Give up the octets between the main chain's run and the one at ``start``."""
        main, half = self.main, self.half
        self.judge_part(is_over=False)
        self._confirm(main)
        low = max(main.edge, main.at)
        if main.at < low:
            self._pass_unlocated(main.at, low)
        self._lose(low, start, half.copies.moment_at(start))
        if self.is_beginning or self._has_passed:
            self._is_gapless = False
        # With Markers, the next one is not far, and it alone is unambiguous (RFC 5044 §4.3).
        hint = main.need if main.is_located and not self.layout.markers else -1
        main.search(start, hint if hint >= start else -1)
        main.edge, main.known = start, None

    def _lose(self, start: int, end: int, moment: Moment) -> None:
        """Octets were sent that no frame brought."""
        acknowledged = self.half.peer.acked_frame(start, end) != NEVER
        self._run = None
        self.passed.append((Gap(start, end, acknowledged, moment), 0))

    def _locate(self, chain: FPDUChain) -> bool:
        """Find the first FPDU at ``at`` or after it: the chain's octets hold one whose start a Marker, a CRC or DDP's
        headers prove.  False if it has to wait; True, too, if only a part of the octets was searched so far."""
        if (chain.edge == chain.tried and not self._is_over) or chain.edge <= chain.at or not self.layout.is_searchable:
            return self._go_ahead(chain)
        # What was searched in vain is searched again when it has grown by a quarter.
        if chain.tried >= 0 and not self._is_over and chain.edge - chain.tried < (chain.tried - chain.at) // 4:
            return False
        chain.tried = chain.edge
        # The same end for all starts in MOST_SEARCHED octets, so that what was found for one holds for the next.
        low, edge = chain.at, min(chain.edge, (chain.at // MOST_SEARCHED + 2) * MOST_SEARCHED)
        goal, seen = chain.goal
        if seen == edge and 0 <= chain.hint <= goal and (goal < edge or self._is_over):
            bad = min(chain.hint, goal)
            if bad < edge and self._first_ahead(chain) is None:
                self._go_on_at(chain, bad)
                return True
        start, window = None, None
        while start is None and low < edge:
            low, stop = self._captured(low, edge)
            if low < stop:
                window = FPDUWindow(self.half.copies.octets(low, stop), low, self.layout)
                start = self._start(chain, window, low)
            low = stop
        named = self._cut_start(chain.at, edge if start is None else start)
        start = start if named is None else named
        first = self._first_ahead(chain)
        if first is not None and (start is None or first <= start):
            start = first
        if start is None and edge < chain.edge:
            # No FPDU that begins farther back can still be found.
            chain.at, chain.tried = (edge - LONGEST_FPDU) & -MARKER_INTERVAL, -1
            return True
        if window is None:
            return False
        is_decided = start is not None or self._is_over
        first_bad = self._bad_before(chain, window, edge if start is None else start) if is_decided else None
        if first_bad is not None:
            # Up to there, or to the end, lie FPDUs that are bad, one after the other.
            chain.goal = edge if start is None else start, edge
            start = first_bad if first_bad < edge else None
        if start is None:
            return False
        self._go_on_at(chain, start)
        return True

    def _cut_start(self, low: int, high: int) -> int | None:
        """Return the first start in [low, high) of an FPDU which a snapshot length cut, so that no CRC confirms it.

        A Marker alone names one (RFC 5044 §4.3).  So does a segment that begins with what DDP sends, if the length
        there leads exactly to where a segment begins or the octets end.
        """
        if low >= high or self.half.copies.is_captured(low, high):
            return None
        named = (
            self._named_in_cut(low, high) if self.layout.markers else None,
            self._segment_in_cut(low, high) if self.layout.dialect is None else None,
        )
        return min((start for start in named if start is not None), default=None)

    def _named_in_cut(self, low: int, high: int) -> int | None:
        copies = self.half.copies
        for marker in self.layout.marker_positions(low, high - MARKER_LENGTH + 1):
            if not copies.is_captured(marker, marker + MARKER_LENGTH):
                continue
            window = FPDUWindow(copies.octets(marker, marker + MARKER_LENGTH), marker, self.layout)
            for start in window.starts_named_by(marker):
                extent = self._extent(start, high) if low <= start < high else None
                if extent is None or not marker < extent.end <= copies.edge(start, extent.end):
                    continue
                if not copies.is_captured(start, extent.end):
                    return start
        return None

    def _segment_in_cut(self, low: int, high: int) -> int | None:
        copies = self.half.copies
        for start in copies.segment_starts(low, high, MOST_SEARCHED):
            extent = self._extent(start, high)
            if extent is None or extent.end > copies.edge(start, extent.end) or copies.is_captured(start, extent.end):
                continue
            is_boundary = copies.segment_starts(extent.end, extent.end + 1, 1) or copies.edge(start) == extent.end
            first, last = extent.header + 2, extent.header + 4
            if (
                is_boundary
                and copies.is_captured(first, last)
                and is_plausible_control(bytes(copies.octets(first, last)))
            ):
                return start
        return None

    def _bad_before(self, chain: FPDUChain, window: FPDUWindow, goal: int) -> int | None:
        """Return a start from which lengths lead exactly to a goal, None if there is none.

        The length of the FPDU before names it, or, after a gap, a Marker; of the last octets that is enough, unless
        their receiver may have dropped them.
        """
        if chain.hint >= 0:
            return chain.hint if window.lengths_lead(chain.hint, goal) else None
        if goal == window.end and self.layout.markers and self.layout.crc and self.layout.dialect is None:
            low = max(chain.at, window.start)
            if self._is_doubtful(low, goal):
                return None
            markers = self.layout.marker_positions(low, min(goal, low + LONGEST_FPDU) - MARKER_LENGTH + 1)
            named = ((marker, start) for marker in markers for start in window.starts_named_by(marker))
            for marker, start in named:
                if low <= start < goal:
                    extent = window.extent(start)
                    is_whole = extent is not None and marker < extent.end <= goal
                    return start if is_whole or window.lengths_lead(start, goal, MOST_BAD_IN_A_ROW - 1) else None
        return None

    def _go_on_at(self, chain: FPDUChain, start: int) -> None:
        """Go to a start that was found by searching."""
        if chain is self.main:
            self._pass_unlocated(chain.at, min(start, chain.edge))
        if self.is_beginning or self._has_passed:
            self._delivered = max(self._delivered, self._latest(chain.at, min(start, chain.edge)))
        chain.go_to(start)

    def _captured(self, low: int, edge: int) -> tuple[int, int]:
        """Return the first stretch of [low, edge) of which nothing was cut off, empty if there is none."""
        copies, start = self.half.copies, -1
        while low < edge:
            _, end, is_captured = copies.piece(low)
            if is_captured and start < 0:
                start = low
            elif not is_captured and start >= 0:
                return start, low
            low = min(end, edge)
        return (edge if start < 0 else start), edge

    def _latest(self, start: int, end: int) -> int:
        return self.half.copies.frames(start, end)[1] if start < end and self.half.copies.edge(start, end) >= end else 0

    def _go_ahead(self, chain: FPDUChain) -> bool:
        """Go to the first FPDU of the main chain's run that was read before."""
        first = self._first_ahead(chain)
        if first is None:
            return False
        chain.go_to(first)
        return True

    def _first_ahead(self, chain: FPDUChain) -> int | None:
        if chain is not self.main:
            return None
        self._pass_over(chain.at)
        first = self._ahead_offsets[0] if self._ahead_offsets else NEVER
        return first if first < chain.edge else None

    def _pass_over(self, offset: int) -> None:
        """Leave out FPDUs before an offset: the chain of lengths passed over them, though they prove right."""
        while self._ahead_offsets and self._ahead_offsets[0] < offset:
            del self._ahead[heappop(self._ahead_offsets)]

    def _start(self, chain: FPDUChain, window: FPDUWindow, low: int) -> int | None:
        """Return the next start that proves right in a window."""
        crc, hint = self.layout.crc, chain.hint
        if window.start <= hint < window.end and (crc or not self.layout.markers):
            extent = window.extent(hint)
            if extent is not None and (window.lengths_lead_to_valid(hint, 1) if crc else window.is_plausible(extent)):
                return hint
        if not self.layout.markers:
            return self._search(window, low)
        named = window.start_by_marker(low, low)
        if crc and hint >= 0:
            # After a bad FPDU one that holds no Marker may come first.
            return self._search(window, low, window.end if named is None else named) or named
        return named

    def _search(self, window: FPDUWindow, low: int, high: int | None = None) -> int | None:
        near = self.half.copies.segment_starts(low, window.end, NEAR_STARTS)
        if self.layout.crc:
            return window.start_by_crc(low, window.end if high is None else high, near)
        return window.start_by_headers(low, near)

    # --- beyond the main chain ---

    def _read_beyond(self, start: int, end: int) -> None:
        """Read FPDUs that new octets [start, end) complete beyond a hole, or beyond an FPDU that waits."""
        copies = self.half.copies
        edge = min(copies.edge(start, end), end, self._limit(NEVER))
        index = max(0, bisect_right(self._starts, start) - 1)
        covered = start
        for at in self._starts[index : bisect_left(self._starts, end)]:
            chain = self._chains.get(at)
            if chain is None:
                continue
            if chain.at <= self.main.at:
                self._remove(at)
                continue
            if chain.need and chain.need <= start and chain.edge < start:
                continue
            if chain.unresolved == (chain.at, NEVER) and (start >= chain.need or end <= chain.at):
                continue  # it is bad, and no other copies of it came
            covered = self._begin_chains(covered, min(at, edge))
            if self._chains.get(at) is chain:
                self._continue(at, chain)
            if chain.is_proven or chain.need > end:
                covered = max(covered, chain.at, chain.need)
        self._begin_chains(covered, edge)

    def _begin_chains(self, covered: int, edge: int) -> int:
        """Begin chains at the Markers in [covered, edge) that no other chain has read; return up to where all have."""
        low = max(self.main.at + 4, covered - MARKER_LENGTH + 1)
        for marker in self.layout.marker_positions(low, edge - MARKER_LENGTH + 1):
            if marker >= covered and self.half.copies.is_captured(marker, marker + MARKER_LENGTH):
                covered = max(covered, self._begin_chain(marker))
        return covered

    def _begin_chain(self, marker: int) -> int:
        """Begin a chain at the start that a Marker names; return the offset up to which it read."""
        copies, main = self.half.copies, self.main
        window = FPDUWindow(copies.octets(marker, marker + MARKER_LENGTH), marker, self.layout)
        for start in window.starts_named_by(marker):
            if start <= main.at or start in self._ahead or start in self._chains or len(self._chains) >= MOST_CHAINS:
                continue
            chain = FPDUChain(start, True, marker)
            self._add(start, chain)
            self._continue(start, chain)
            if chain.is_proven:
                return chain.at
        return marker

    def _continue(self, at: int, chain: FPDUChain) -> None:
        """Read on along a chain beside the main one; it stops where another one began."""
        if self.half.copies.next_start(chain.at) > chain.at:
            return
        self._read(chain)
        fpdu = self._ahead.get(chain.at)
        while fpdu is not None and chain.at != at:
            chain.at, chain.known, chain.by_length = fpdu.end, fpdu.known, True
            chain.edge, chain.need, chain.waits = max(chain.edge, chain.at), 0, False
            fpdu = self._ahead.get(chain.at)
            if fpdu is None:
                self._read(chain)
                fpdu = self._ahead.get(chain.at)
        if chain.at != at:
            self._remove(at)
            other = self._chains.get(chain.at)
            if other is None:
                self._add(chain.at, chain)
            elif chain.by_length and other.at == chain.at:
                # A Marker named its start before the length of the FPDU before it did.
                other.by_length, other.known = True, chain.known

    def _add(self, at: int, chain: FPDUChain) -> None:
        self._chains[at] = chain
        insort(self._starts, at)

    def _remove(self, at: int) -> None:
        del self._chains[at]
        del self._starts[bisect_left(self._starts, at)]

    # --- what is needed no more ---

    def _pass_rest(self) -> None:
        """At the end, pass what was read beyond the main chain, and what its chains still hold."""
        self._confirm(self.main)
        for at in list(self._starts):
            self._confirm(self._chains[at])
        while self._ahead_offsets:
            first = self._ahead_offsets[0]
            if first != self.main.at or not self.main.is_located:
                self.main.go_to(first)
            if not self._pass_ahead():
                break

    def _forget(self) -> None:
        """Let go of the octets that nobody reads again."""
        main = self.main
        self.half.forget(main.pending[0].offset if main.pending else main.at)
        while self._starts and self._starts[0] <= main.at:
            self._remove(self._starts[0])
