"""TCP connections of a capture: which one a segment belongs to, and what it says of both directions.

In: captured segments, in the order of capture.  Out: octets held in the :class:`TCPHalf` of their direction, and
what the peer acknowledged there.  A SYN that is no retransmission begins a connection *beside* those known on the same
addresses and ports; a segment belongs to the one that its sequence and acknowledgement numbers fit best.  So a late
duplicate goes to the connection that it comes from, and a forged SYN begins one in which nobody sends.

Nothing here knows MPA: :attr:`TCPConnection.user` is whoever reads the octets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from typing import Any, Final

from scapy_mpa.framing.sequence import SEQ_MASK
from scapy_mpa.stream.copies import RIGHT, UNKNOWN, WRONG, Copies, Copy, Rival, copy_of
from scapy_mpa.stream.drop_reason import CLOSE, LARGEST_WINDOW, NEAR, NO_REASON, DropReason
from scapy_mpa.stream.peer_state import NEVER, NOWHERE, PeerState
from scapy_mpa.stream.recent import RecentBudget, RecentOctets
from scapy_mpa.stream.sequence_space import SequenceSpace
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.octets import has_right_sum, head, number_at, own_octets, queued, stamped, time_to_live, word
from scapy_mpa.values.options import LARGEST_SHIFT, USUAL_KINDS, announced, sacked_by, timestamps_of
from scapy_mpa.values.segment import (
    ACK_FLAG,
    FIN,
    PATH_MTU,
    RST,
    STATE_FLAGS,
    SYN,
    Segment,
    checksum_is_wrong,
    path_of,
    reverse_key,
)

#: Connections on the same addresses and ports that nobody reads and that are kept: SYNs that nobody answered, strays.
#: A bound of memory.
MOST_UNREAD: Final = 8
#: Connections on the same addresses and ports that are read and to which a segment may belong, those used last: a bound
#: of time, since each segment is compared with all of them.
MOST_READ: Final = 8
#: Octets: a SYN that was captured late may have been sent so long before what was captured first.  The window in the
#: answer to a SYN is never scaled (RFC 7323 §2.2): until the next ACK no more are under way.
MOST_BEFORE_SYN: Final = 1 << 16
#: Paths of the segments of a flow that are kept: a bound of memory.
MOST_PATHS: Final = 64
#: RSTs of a direction that are kept; others are counted: a bound of memory.
MOST_RESETS: Final = 64
#: Octets of the first segment of a stray that are kept: those of a Key (RFC 5044 §7.1.1).
BEGINNING: Final = 16
#: FINs of a direction that are remembered while nobody has acknowledged one: a bound of memory.
MOST_FINS: Final = 8

#: Octets of the TCP header without options, and of the shortest with timestamps (RFC 7323 appendix A).
_PLAIN_HEADER, _STAMPED_HEADER = 20, 32
_NO_PATHS: Final[Set[tuple[int, tuple[str, ...]]]] = frozenset()


class Arrival:
    """A captured segment with octets: the offsets [start, end) that they have on the wire.  Nobody changes one.

    Attributes:
        frame: its frame; ``time`` in nanoseconds since the epoch.
        start: the offset of its first octet; ``end`` the one after its last.
        new: how many of its octets no segment had brought.
        is_out_of_order: whether it brought a new octet below the highest captured.
        acknowledged: whether its receiver had acknowledged all octets before ``start``.
        hop_limit: TTL or Hop Limit, -1 if it is not known.
        captured: how many of its octets are in the capture file.
        reason: why its receiver may have dropped it.
        tsval: its timestamp, None without one.
        ack: its acknowledgement number, None without ACK.
    """

    __slots__ = (
        "ack", "acknowledged", "captured", "end", "frame", "hop_limit", "is_out_of_order", "new", "reason", "start",
        "time", "tsval",
    )  # fmt: skip

    frame: int
    time: int
    start: int
    end: int
    new: int
    is_out_of_order: bool
    acknowledged: bool
    hop_limit: int
    captured: int
    reason: DropReason
    tsval: int | None
    ack: int | None

    def counted_from(self, origin: int, new: int, is_out_of_order: bool) -> Arrival:
        """Return it with offsets counted from what is now ``origin``."""
        return arrival_of(
            self.frame, self.time, self.start - origin, self.end - origin, new, is_out_of_order, self.acknowledged,
            self.hop_limit, self.captured, self.reason, self.tsval, self.ack,
        )  # fmt: skip


def arrival_of(
    frame: int,
    time: int,
    start: int,
    end: int,
    new: int,
    is_out_of_order: bool,
    acknowledged: bool,
    hop_limit: int,
    captured: int,
    reason: DropReason,
    tsval: int | None,
    ack: int | None,
) -> Arrival:
    """Return an :class:`Arrival` of these values: a function in C takes numbers as they are, a class does not."""
    one = Arrival.__new__(Arrival)
    one.frame, one.time, one.start, one.end, one.new = frame, time, start, end, new
    one.is_out_of_order, one.acknowledged, one.hop_limit = is_out_of_order, acknowledged, hop_limit
    one.captured, one.reason, one.tsval, one.ack = captured, reason, tsval, ack
    return one


class Retransmissions:
    """How often the first octets that the peer has not acknowledged were sent again (RFC 9293 §3.8.3).

    Attributes:
        at: the offset of these octets.
        count: how often they were sent again.
        first: the frame and time of the first time, and ``last`` of the last one.
    """

    __slots__ = ("at", "count", "first", "last")

    def __init__(self) -> None:
        self.at, self.count = -NEVER, 0
        self.first = self.last = 0, 0

    def note(self, at: int, frame: int, time: int) -> None:
        """Note that octets at the first offset that was not acknowledged came again."""
        if at != self.at:
            self.at, self.count, self.first = at, 0, (frame, time)
        self.count += 1
        self.last = frame, time


class Follower(NamedTuple):
    """A segment that the sender of a RST sent after it: its moment, its offset, how many new octets it brought."""

    frame: int
    time: int
    offset: int
    new: int


class Reset(NamedTuple):
    """A RST: the offset of its number, and what it is worth (RFC 9293 §3.10.7.4, RFC 5961 §3.2, RFC 9293 §3.10.7.1).

    ``place`` is "next" (the number that its receiver expects next), "acknowledged" (one that its receiver had
    acknowledged: a closed socket answers so), "window" (elsewhere in the window: it counts if its sender falls silent)
    or "outside".  ``expected`` is the offset that its receiver expected; ``ack`` the offset that it acknowledges, None
    without ACK; ``follower`` the first segment of its sender after it, of those with new octets if there are any.
    """

    frame: int
    time: int
    offset: int
    place: str
    expected: int
    ack: int | None
    follower: Follower | None = None

    def shifted(self, origin: int, other: int) -> Reset:
        """Return it with offsets counted from what is now ``origin``; ``other`` is that of the other direction."""
        follower, ack = self.follower, self.ack
        return self._replace(
            offset=self.offset - origin,
            expected=self.expected - origin,
            ack=None if ack is None else ack - other,
            follower=None if follower is None else follower._replace(offset=follower.offset - origin),
        )


class Dropped(NamedTuple):
    """A segment without octets that its receiver dropped: a FIN, an acknowledgement, a RST.

    ``offset`` is that of its number, ``expected`` the one that came next, ``ack`` its acknowledgement number.
    """

    frame: int
    time: int
    offset: int
    expected: int
    ack: int
    flags: int
    reason: DropReason
    tsval: int | None


class Stray(NamedTuple):
    """A segment that came in the midst of a connection and fits another one, or none, on the same addresses and ports.

    ``beginning`` are its first octets, ``checksum`` is RIGHT, WRONG or UNKNOWN; ``is_earlier``: it belongs to a
    connection that was closed before.
    """

    frame: int
    time: int
    direction: int
    seq: int
    flags: int
    length: int
    beginning: bytes
    checksum: int
    is_earlier: bool = False


class TCPHalf:
    """One direction of a TCP connection (RFC 9293 §3.3).

    Offsets count from the first sequence number known, or from where :meth:`count_from` said.

    Attributes:
        space: where its sequence numbers are.
        peer: what is known of its receiver.
        copies: its octets.
        start: the offset of the first octet after the SYN, None while no SYN was captured.
        fin: the offset of the FIN that the peer acknowledged, None if there is none.
        fins: the offset, frame and time of the FINs that may count, the last MOST_FINS.
        needed: octets below this offset were read.
        passed: octets below this offset were read, though some may be read again: their FPDU is bad.
        keep_from: octets from this offset on are held though they were read; NEVER if none are.
        believed: the offset up to which octets are known to be the sender's.
        highest: the offset after the highest octet captured.
        first_frame: the first frame with octets.
        last_frame: the last frame, RSTs left out; ``last_time`` its time.
        resets: the RSTs of its sender, the first ones and the last.
        reset_count: how many there were.
        late: copies that differ from octets that had been read when they came.
        has_right_checksums: whether the checksum of its SYN was right, or of the first segment where none was captured:
            checksums are those of the wire.
        has_syn_ack: whether its SYN acknowledged one of the peer.
        retransmissions: of the octets that the peer has not acknowledged, the first ones.
    """

    __slots__ = (
        "_dropped", "_expected", "_recent", "believed", "copies", "fin", "fins", "first_frame", "has_right_checksums",
        "has_syn_ack", "highest", "keep_from", "last_frame", "last_time", "late", "needed", "passed", "peer",
        "reset_count", "resets", "retransmissions", "shift_count", "space", "start", "syn_length",
    )  # fmt: skip

    def __init__(self, budget: RecentBudget | None = None) -> None:
        self.space = SequenceSpace()
        self.peer = PeerState()
        self._recent = RecentOctets(budget or RecentBudget())
        self.copies = Copies(self.peer)
        self.start: int | None = None
        self.fin: int | None = None
        self.fins: list[tuple[int, int, int]] = []
        self.needed = self.passed = -NEVER
        #: Octets up to here followed those needed when this was asked last.
        self._expected = -NEVER
        self.keep_from = NEVER
        self.believed = self.highest = -NEVER
        self.first_frame = NEVER
        #: The window shift that its sender announced (RFC 7323 §2): -1 before its SYN, None if it does not scale.
        self.shift_count: int | None = -1
        #: Octets that its SYN carried.
        self.syn_length = 0
        self.last_frame = self.last_time = 0
        self.resets: list[Reset] = []
        self.reset_count = 0
        self._dropped: list[Dropped] = []
        self.late: list[Rival] = []
        self.has_right_checksums = self.has_syn_ack = False
        self.retransmissions = Retransmissions()

    @property
    def is_known(self) -> bool:
        """True once a sequence number of this direction is known."""
        return self.space.base is not None

    def begin(self, seq: int, is_syn: bool) -> None:
        """Count offsets from a sequence number: that after a SYN, or any."""
        self.space.begin(seq)
        self.start = 0 if is_syn else None

    def is_close(self, seq: int) -> bool:
        """Return True if a sequence number is surely this direction's: where it just was, and not before the SYN."""
        space, start = self.space, self.start
        if space.base is None:
            return False
        ahead = space.distance_from_last(seq)
        if not -CLOSE < ahead < CLOSE:
            return False
        if start is None:
            return True
        least = start - 1
        return space.nearest(seq)[1] >= least if space.others else space.last + ahead >= least

    def misfit(self, seq: int) -> int:
        """Return the distance in octets of a sequence number from this direction, at most LARGEST_WINDOW.

        It is that for what lies before the SYN, or beyond the FIN that the peer acknowledged.
        """
        distance, offset = self.space.nearest(seq)
        if (self.start is not None and offset < self.start - 1) or (self.fin is not None and offset > self.fin + 1):
            return LARGEST_WINDOW
        return min(distance, LARGEST_WINDOW)

    def is_before_syn(self, seq: int, length: int) -> bool:
        """Return True if a segment lies before the SYN."""
        start = self.start
        if start is None:
            return False
        offset = self.space.place(seq, self.peer.wnd, self.peer.least_acked)
        return offset < start - 1 and offset + length <= start

    def may_begin_at(self, seq: int, octets: int) -> bool:
        """Return True if a sequence number may be that of the first octet, or follow so many octets of the SYN."""
        distance, offset = self.space.nearest(seq)
        if distance > NEAR:
            return False
        return 0 <= offset - self.start <= octets if self.start is not None else -MOST_BEFORE_SYN <= offset <= 0

    def hold(self, start: int, end: int, copy: Copy) -> int:
        """Hold the octets [start, end) of a segment; return how many of them no segment had brought.

        Those below ``needed`` were read before; they are held only from ``keep_from`` on.
        """
        frame, data = copy.frame, copy.data
        reason = self.doubt_of(copy)
        if start >= self.needed and start >= self.passed:
            if frame < self.first_frame:
                self.first_frame = frame
            if end > self.highest and not reason:
                self.highest = end
            return self.copies.add(start, end, copy)
        lowest = min(self.needed, self.keep_from)
        # A keep-alive may bring an octet of anything (RFC 9293 §3.8.4).
        read = max(self.needed, self.passed)
        if start < read and data is not None and not end == start + 1 == self.highest:
            held = self.copies.chosen_in(start, min(end, read))
            rival = self._recent.compare(start, read, copy, held, self.peer.last_ack_sent)
            if rival is not None and len(self.late) < MOST_RESETS:
                self.late.append(rival)
        if end <= lowest:
            return 0
        if start < lowest:
            copy = copy.with_data(data[lowest - start :] if data is not None else None)
            start = lowest
        self.first_frame = min(self.first_frame, frame)
        if not reason:
            self.highest = max(self.highest, end)
        return self.copies.add(start, end, copy)

    def doubt_of(self, copy: Copy) -> DropReason:
        """Return the reason to drop a segment, its checksum included if those of the connection are the wire's."""
        is_wrong = copy.checksum == WRONG and self.has_right_checksums
        return DropReason.CHECKSUM if is_wrong and not copy.reason else copy.reason

    def note_fin(self, offset: int, frame: int, time: int) -> None:
        """Note a FIN after the octet before ``offset``: it counts once the peer acknowledges it and nothing beyond."""
        if all(offset != fin for fin, _, _ in self.fins):
            self.fins = [*self.fins[1 - MOST_FINS :], (offset, frame, time)]

    @property
    def fin_captured(self) -> tuple[int, int, int] | None:
        """The offset, frame and time of the FIN that was acknowledged, else of the first one; None without any.

        One beyond which octets were read, or that lies beyond the window, is none of its sender's.
        """
        fin = self.fin
        for one in self.fins:
            if one[0] == fin or (fin is None and self._may_count(one)):
                return one
        return None

    def _may_count(self, fin: tuple[int, int, int]) -> bool:
        """Return True unless octets were read beyond a FIN, or ACKs captured later show no room for it."""
        offset, frame, _ = fin
        edge = self.peer.right_edge
        is_beyond = edge is not None and offset > edge and frame < self.peer.last_frame
        return offset >= self.believed and not is_beyond

    @property
    def other_fins(self) -> list[tuple[int, int, int]]:
        """The offset, frame and time of each FIN before or after the one that counts."""
        counts = self.fin_captured if self.fins else None
        return [one for one in self.fins if one != counts and (counts is not None or not self._may_count(one))]

    def has_fin_before(self, end: int) -> bool:
        """Return True if octets that end at an offset lie at or beyond a FIN, which their sender had sent before."""
        return any(fin < end for fin, _, _ in self.fins)

    @property
    def dropped(self) -> list[Dropped]:
        """The segments without octets that its receiver dropped, the first MOST_RESETS.

        Only an ACK captured later, beyond which they lie, speaks against those beyond the window; or that they are far.
        """
        last = self.peer.last_frame
        return [
            one
            for one in self._dropped
            if one.reason != DropReason.OVERWINDOW or one.frame < last or abs(one.offset - one.expected) > NEAR
        ]

    @property
    def expected(self) -> int:
        """The offset that the receiver expects next, as far as octets were captured."""
        low = max(self._expected, self.needed)
        if low == -NEVER:
            # Nothing was read yet: what is expected follows the SYN, or the first octets captured.
            low = min(self.copies.start, self.space.last) if self.start is None else self.start
            return self.copies.edge(low)
        self._expected = self.copies.edge(low)
        return self._expected

    @property
    def is_complete(self) -> bool:
        """True if everything up to the FIN that the peer acknowledged was captured."""
        return self.fin is not None and self.expected >= self.fin

    def is_damaged(self, start: int, end: int) -> bool:
        """Return True if a segment that brought octets of [start, end) has a wrong TCP checksum, unlike others."""
        return self.has_right_checksums and self.copies.strongest_reason(start, end) == DropReason.CHECKSUM

    def has_all_of(self, seg: Segment) -> bool:
        """Return True if all octets of a segment were captured before."""
        return self.is_known and self.space.nearest(seg.seq)[1] + seg.length <= self.expected

    def reset(self, frame: int, time: int, seq: int, ack: int | None) -> None:
        """Note a RST of its sender, which acknowledges the offset ``ack`` if it is not None."""
        offset, expected = self.space.nearest(seq)[1], self.expected
        edge = self.peer.right_edge
        if self.peer.has_sent_ack(offset):
            place = "acknowledged"
        elif offset in (expected, self.peer.last_ack_sent) or (self.fin is not None and offset == self.fin + 1):
            place = "next"
        else:
            place = "window" if expected < offset < (edge if edge is not None else expected + NEAR) else "outside"
        self.reset_count += 1
        if len(self.resets) == MOST_RESETS:
            self.resets.pop()
        self.resets.append(Reset(frame, time, offset, place, expected, ack))

    def follow_reset(self, follower: Follower) -> None:
        """Note a segment of its sender after its RSTs."""
        for index, one in enumerate(self.resets):
            if one.follower is None or (follower.new and not one.follower.new and one.place != "window"):
                self.resets[index] = one._replace(follower=follower)

    def receive_state(self, seg: Segment, offset: int, reason: DropReason, tsval: int | None) -> None:
        """Receive a FIN, or a segment without octets: note a FIN that may count, and what the receiver drops."""
        end, is_fin = offset + seg.length, bool(seg.flags & FIN)
        if is_fin and self.has_right_checksums and checksum_of(seg) == WRONG:
            reason = DropReason.CHECKSUM
        is_acked = reason == DropReason.OVERWINDOW and self.peer.last_ack_sent == end + 1
        # Octets that its receiver may have dropped do not speak against a FIN before them.
        lowest = min(self.expected, max(self.highest, self.needed))
        if is_fin and (reason == DropReason.NONE or is_acked) and end >= lowest:
            self.note_fin(end, seg.frame, seg.time)
        elif not seg.length and (is_fin or reason not in (DropReason.NONE, DropReason.PAWS)):
            # The network brings acknowledgements out of order, too.
            self.drop(seg, reason, tsval)

    def drop(self, seg: Segment, reason: DropReason, tsval: int | None) -> None:
        """Note a segment without octets that its receiver drops."""
        if len(self._dropped) < MOST_RESETS:
            place = self.space.nearest(seg.seq)[1], self.expected
            self._dropped.append(Dropped(seg.frame, seg.time, *place, seg.ack, seg.flags, reason, tsval))

    def acknowledge(self, frame: int, ack: int, window: int) -> bool:
        """Take an acknowledgement of the peer; True if it advanced.  ``window`` is -1 if its scale is not known."""
        peer, copies = self.peer, self.copies
        edge, before = peer.edge, peer.acked
        advanced = peer.acknowledge(frame, ack, window)
        # Octets beyond the window, as far as it was known, were accepted: ACKs that opened it were not captured.
        if (
            advanced
            and edge != NOWHERE
            and before != NOWHERE
            and (ack > edge or (copies.has_doubts and copies.has_alone(before, ack, DropReason.OVERWINDOW)))
        ):
            copies.window_known = frame
        for one in self._dropped:
            if one.flags & FIN and one.reason == DropReason.OVERWINDOW and one.offset == ack - 1:
                self.note_fin(one.offset, one.frame, one.time)
                self._dropped.remove(one)
                break
        if self.fins and ack == peer.acked:
            self.fin = ack - 1 if ack - 1 in [fin for fin, _, _ in self.fins] else None
        return advanced

    def forget(self, below: int) -> None:
        """Let go of the octets below an offset, all of which were read."""
        if below > self.needed:
            self.needed = below
            below, copies = min(below, self.keep_from), self.copies
            origins, kept = copies.origins, copies.index_of(below)
            for index in range(copies.head, kept):
                source, at = copies.sources[index], 4 * index
                if source is not None:
                    start, first = number_at(copies.starts, index), number_at(origins, at + 3)
                    last = first + number_at(copies.ends, index) - start
                    frame, time, check = number_at(origins, at), number_at(origins, at + 1), number_at(origins, at + 2)
                    self._recent.keep(start, frame, time, check, source, first, last)
            copies.drop(kept)
            self.peer.forget(below)

    def is_read(self) -> bool:
        """True if nothing is held: all octets were read, and none will be read again."""
        return not self.copies.held and self.keep_from == NEVER and self.passed <= self.needed

    def read(self, end: int, seg: Segment) -> None:
        """A segment brought octets up to an offset that go on where all were read, and that were read at once."""
        start = end - seg.length
        if end > self.believed and not self.peer.has_room_for(end):
            self.copies.window_known = seg.frame
        self.highest = self.needed = self.passed = end
        if end > self.believed:
            self.believed = end
        self._recent.keep(start, seg.frame, seg.time, RIGHT, seg.buffer, seg.start, seg.end)
        self.peer.forget(end)

    def is_new(self, start: int, end: int) -> bool:
        """Return True if none of the octets [start, end) came before."""
        return start >= self.needed and start >= self.passed and self.copies.has_room(start, end)

    def hold_new(self, start: int, end: int, seg: Segment) -> None:
        """Hold the octets of a segment, which are new, as long as the segment is there itself."""
        if end > self.highest:
            self.highest = end
        self.copies.borrow(start, end, seg.frame, seg.time, RIGHT, seg.buffer, seg.start)

    def read_again(self, start: int) -> None:
        """Let the octets from an offset on, which were held all the time, be read once more."""
        self.needed, self.keep_from = start, NEVER

    def keep_nothing(self) -> None:
        """Let go of octets that were read and held all the same."""
        needed, self.needed, self.keep_from = self.needed, -NEVER, NEVER
        self.forget(needed)

    def count_from(self, origin: int) -> None:
        """Count offsets from what is now ``origin``."""
        self.space.shift(origin)
        self.copies.shift(origin)
        self.peer.shift(origin)
        self.needed, self.believed, self.highest = self.needed - origin, self.believed - origin, self.highest - origin
        self._expected -= origin
        self.passed -= origin
        self.start = None if self.start is None else self.start - origin
        self.fin = None if self.fin is None else self.fin - origin
        self._recent.shift(origin)
        self.retransmissions.at -= origin
        if not (self.resets or self._dropped or self.late or self.fins):
            return
        self.resets = [one.shifted(origin, 0) for one in self.resets]
        self._dropped = [
            one._replace(offset=one.offset - origin, expected=one.expected - origin) for one in self._dropped
        ]
        self.late = [one.shifted(origin) for one in self.late]
        self.fins = [(fin - origin, frame, time) for fin, frame, time in self.fins]

    def count_acks_from(self, origin: int) -> None:
        """Count what its RSTs acknowledge, octets of the other direction, from what is now ``origin`` there."""
        if self.resets:
            self.resets = [one.shifted(0, origin) for one in self.resets]


class TCPConnection:
    """A TCP connection: two directions, 0 and 1, as those of its :class:`Flow`.

    Attributes:
        halves: both directions.
        user: who reads its octets.
        first_frame: the first segment's; ``first_time`` its time.
        last_frame: the last segment's.
        strays: its first MOST_RESETS segments, if it began beside another connection; ``beside`` is the last under way.
        late: segments of connections before, or that lie before its SYN, the first MOST_RESETS.
        has_syn: whether a SYN of it was captured.
        has_syns: of each direction, whether its SYN was captured.
        has_end: whether a FIN or a RST of it was captured.
        arrival: the last segment, None if it brought no octets.
        advanced: whether the last segment acknowledged octets of the other direction that had not been acknowledged.
        flow: the connections on the same addresses and ports, None once this one is none of them any more.
        acked: the offset that the last segment acknowledged, if it was examined whether it is in turn.
        paths: the tags and tunnels of each direction, None as long as they are not known or there are none.
        own_paths: all that its segments had, each with the direction; ``flow_paths`` those of its flow.
    """

    __slots__ = (
        "_first", "_second", "_shift_counts", "_tsecr", "_window", "acked", "advanced", "arrival", "beside",
        "first_frame", "first_time", "flow", "flow_paths", "halves", "has_end", "has_syn", "has_syns", "last_frame",
        "late", "own_paths", "paths", "strays", "user",
    )  # fmt: skip

    def __init__(self, budget: RecentBudget | None = None, flow: Flow | None = None) -> None:
        self.flow = flow
        self.halves = self._first, self._second = TCPHalf(budget), TCPHalf(budget)
        self.user: Any = None
        self.strays: list[Stray] = []
        self.beside: TCPConnection | None = None
        self.late: list[Stray] = []
        self.first_frame = NEVER
        self.first_time = 0
        self.last_frame = 0
        self.has_syn = self.has_end = False
        self.has_syns = [False, False]
        self.paths: list[tuple[str, ...] | None] = [None, None]
        self.own_paths: Set[tuple[int, tuple[str, ...]]] = _NO_PATHS
        self.flow_paths: dict[tuple[int, tuple[str, ...]], None] = flow.paths if flow is not None else {}
        #: The shift counts of the windows that each side sends: the largest where a SYN was not captured.
        self._shift_counts = LARGEST_SHIFT, LARGEST_SHIFT
        #: Of the last segment that was examined whether it is in turn: TSecr, -1 without timestamps, SEG.WND as it
        #: stands there, and what it acknowledged.
        self._tsecr, self._window, self.acked = -1, 0, 0
        self.arrival: Arrival | None = None
        self.advanced = False

    def own(self) -> None:
        """Copy octets that are held and lie in segments, so that they may be used when these are gone."""
        for half in (self._first, self._second):
            if half.copies.is_borrowing:
                half.copies.own()

    @property
    def is_established(self) -> bool:
        """True if octets were captured, and a SYN or octets of the other direction too, or both SYNs and their ACKs.

        Both sides take such a connection for established (RFC 9293 §3.3.2, §3.5), but not one of which there is a SYN
        alone, octets in it or not.
        """
        first, second = (half.first_frame < NEVER for half in self.halves)
        if first or second:
            return (self.has_syn and self.first_frame < self.last_frame) or (first and second)
        return all(half.start is not None and half.peer.last_ack_sent is not None for half in self.halves)

    @property
    def is_closed(self) -> bool:
        """True if both directions ended by a FIN that was acknowledged (RFC 9293 §3.6)."""
        return all(half.fin is not None for half in self.halves)

    @property
    def is_answered(self) -> bool:
        """True once segments of both directions were captured."""
        first, second = self.halves
        return bool(first.last_frame and second.last_frame)

    @property
    def is_over(self) -> bool:
        """True if both sides sent a FIN, or one accepted a RST of the other (RFC 9293 §3.6, §3.10.7.4)."""
        resets = (reset for half in self.halves for reset in half.resets)
        has_reset = any(reset.place in ("next", "acknowledged") for reset in resets)
        return has_reset or all(half.fin_captured is not None for half in self.halves)

    def ended_before(self, frame: int) -> bool:
        """Return True if its FINs or its RST, one of which ended it, were captured before a frame.

        Else it ran beside what begins there: captures of two networks, read together.
        """
        if any(reset.frame < frame for half in self.halves for reset in half.resets):
            return True
        fins = [half.fin_captured for half in self.halves]
        return all(fin is not None and fin[1] < frame for fin in fins)

    @property
    def last_time(self) -> int:
        """The time of its last segment, RSTs left out, in nanoseconds since the epoch."""
        return max(half.last_time for half in self.halves)

    def leave_out(self, seg: Stray) -> None:
        """Note a segment that came in the midst of this connection, and is none of its own."""
        if len(self.late) < MOST_RESETS:
            self.late.append(seg)

    def is_amid(self, other: TCPConnection) -> bool:
        """Return True if all its frames lie between those of another connection, whose SYN was captured.

        Or if it is but one segment, to which nobody answered, after the last one of a connection that is not over.
        """
        is_last = self.first_frame == self.last_frame and not other.is_over
        is_inside = other.first_frame < self.first_frame and (is_last or self.last_frame < other.last_frame)
        return is_inside and other.has_syn and other.is_established

    def misfit(self, seg: Segment, d: int) -> int | None:
        """Return how far a segment is from this connection, None if it cannot belong to it (RFC 9293 §3.10.7.4)."""
        half, other = self.halves[d], self.halves[1 - d]
        by_seq = half.misfit(seg.seq) if half.is_known else None
        by_ack = other.misfit(seg.ack) if other.is_known and seg.flags & ACK_FLAG else None
        if by_seq is None and not seg.length and by_ack and other.start is not None and other.first_frame == NEVER:
            # Between SYN and SYN-ACK, a challenge ACK is of an earlier connection (RFC 9293 §3.5.1, RFC 5961 §4).
            return None
        if by_seq is None or by_ack is None:
            by_seq = by_ack = by_seq if by_ack is None else by_ack
            if by_seq is None or by_ack is None or by_seq > NEAR:
                return None
        elif min(by_seq, by_ack) > (NEAR if max(by_seq, by_ack) < LARGEST_WINDOW else CLOSE):
            # Where a hole makes one of them far, the other must be the closer.
            return None
        # A SYN that nobody answered, what is over, and a late duplicate, must not take segments away from who speaks;
        # but who has both SYNs may take the very next segment.  (A FIN, which takes a number, makes that far by one.)
        is_over = self.may_be_followed_by(seg, d)
        if self.is_established and not is_over:
            return by_seq + by_ack
        is_next = not by_seq and not by_ack and all(self.has_syns) and not is_over
        return by_seq + by_ack + (2 if is_next else CLOSE)

    def take_path(self, d: int, path: tuple[str, ...]) -> None:
        """Note the tags and tunnels that a segment of direction ``d`` came through."""
        if self.paths[d] != path:
            self.paths[d] = path
            if (d, path) in self.flow_paths or len(self.flow_paths) < MOST_PATHS:
                self.own_paths |= {(d, path)}
                self.flow_paths[d, path] = None

    def shares_path(self, other: TCPConnection) -> bool:
        """Return True if segments of both may have come through the same network."""
        return all(
            mine is None or theirs is None or mine == theirs
            for mine, theirs in zip(self.paths, other.paths, strict=True)
        )

    def is_continued_by(self, seg: Segment, d: int) -> bool:
        """Return True if a segment that came by another path than those before it is of this stream all the same.

        It has the number of the SYN, or goes on where those before it end, or has octets that they had.
        """
        if seg.flags & SYN:
            return self.is_of_syn(seg, d)
        half = self.halves[d]
        if not half.is_known or self.misfit(seg, d) is None:
            return False
        offset = half.space.nearest(seg.seq)[1]
        end = offset + seg.end - seg.start
        if offset == half.highest or not offset < end <= half.copies.edge(offset, end):
            return offset == half.highest
        return (
            half.copies.is_captured(offset, end) and half.copies.octets(offset, end) == seg.buffer[seg.start : seg.end]
        )

    def may_be_followed_by(self, seg: Segment, d: int) -> bool:
        """Return True if it is over, and a segment has octets that it cannot have sent before (RFC 9293 §3.4.3)."""
        half = self.halves[d]
        if not (self.has_end and seg.length and self.is_over):
            return False
        return not half.is_known or half.misfit(seg.seq) > NEAR or half.space.nearest(seg.seq)[1] > half.highest + 1

    def is_of_syn(self, seg: Segment, d: int) -> bool:
        """Return True if a SYN has the number of one captured before, or acknowledges just that (RFC 9293 §3.5)."""
        half, seq = (self.halves[1 - d], seg.ack) if seg.flags & ACK_FLAG else (self.halves[d], seg.seq + 1)
        return half.start is not None and half.space.seq_of(half.start) == seq & SEQ_MASK

    def accept_syn(self, seg: Segment, d: int) -> bool:
        """Receive a SYN or SYN-ACK if it is this connection's (RFC 9293 §3.5)."""
        half, other = self.halves[d], self.halves[1 - d]
        first = (seg.seq + 1) & SEQ_MASK
        if seg.flags & ACK_FLAG:
            if not other.is_known or not other.may_begin_at(seg.ack, other.syn_length):
                return False
        elif not half.is_known and other.is_known and (other.start is None or len(other.copies)):
            return False  # not the SYN of a simultaneous open
        is_unacked = half.peer.last_ack_sent is None
        if seg.flags & ACK_FLAG:
            # Who has accepted one SYN-ACK answers another one with a challenge (RFC 5961 §4).
            is_confirmed = half.start is None or (is_unacked and not half.has_syn_ack)
        else:
            is_confirmed = half.start is None and is_unacked
        if not half.is_known or (is_confirmed and half.first_frame == NEVER):
            half.begin(first, True)
        elif not half.may_begin_at(first, 0) or (half.start is None and self.is_over):
            return False
        elif half.start is None:
            half.start = half.space.offset_of(first, 0, -1)
        half.has_syn_ack |= bool(seg.flags & ACK_FLAG)
        options = announced(seg)
        half.shift_count = -1 if options is None else options.shift
        half.syn_length = seg.length
        self._shift_counts = self._shift_count(0), self._shift_count(1)
        self.has_syn = self.has_syns[d] = True
        place = seg.buffer, seg.start, seg.end, seg.tcp, seg.length
        self.receive(Segment(seg.frame, seg.time, seg.key, first, seg.ack, seg.flags & ~SYN, *place), d, is_syn=True)
        return True

    def receive(self, seg: Segment, d: int, is_syn: bool = False) -> None:
        """Receive a segment that belongs to this connection, sent in direction ``d``."""
        half, other = self.halves[d], self.halves[1 - d]
        frame, time, seq, ack, flags = seg.frame, seg.time, seg.seq, seg.ack, seg.flags
        first, tcp, length = seg.start, seg.tcp, seg.length
        if frame < self.first_frame:
            self.first_frame, self.first_time = frame, time
        self.last_frame, self.advanced, self.arrival = frame, False, None
        space, peer = half.space, half.peer
        if space.base is None:
            half.begin(seq, False)
        if is_syn or not half.last_frame:
            half.has_right_checksums = checksum_of(seg) == RIGHT
        half.last_frame, half.last_time = frame, time
        offset = space.offset_of(seq, length, peer.wnd, peer.least_acked)
        end = offset + length
        tsval = tsecr = -1
        if tcp >= 0 and first - tcp >= _STAMPED_HEADER:
            kinds, tsval, tsecr = queued(seg.buffer, tcp + _PLAIN_HEADER)
            if kinds != USUAL_KINDS:
                tsval, tsecr = timestamps_of(seg)
        reason = NO_REASON
        if is_syn and tsval >= 0:
            peer.take_timestamp(tsval, time)
        if tsval >= 0 or not peer.has_room_for(offset):
            reason = peer.drop_reason(offset, end, tsval, time, half.believed)
        if length and half.fins and half.has_fin_before(end):
            reason = max(reason, DropReason.AFTER_FIN)
        if flags & ACK_FLAG:
            other_space, other_peer = other.space, other.peer
            if other_space.base is None:
                other.begin(ack, False)
            distance = other_space.distance_from_last(ack)
            is_near = -CLOSE < distance < CLOSE or other_space.nearest(ack)[0] <= NEAR
            if not is_near and other.last_frame:
                # Nothing that the other side sent is near: after a hole in both directions its next segment will be.
                reason = max(reason, DropReason.INVALID_ACK)
            if not reason or reason < DropReason.INVALID_ACK:
                window, wnd, acked = -1, other_peer.wnd, other_peer.least_acked
                if tcp >= 0:
                    shift = 0 if is_syn else self._shift_counts[d]
                    window = head(seg.buffer, tcp + 12)[1] << shift
                    if tsval >= 0:
                        other_peer.echo(tsecr, time)
                    if first - tcp > (20 if tsval < 0 else _STAMPED_HEADER):
                        for low, high in sacked_by(seg):
                            start = other_space.offset_of(low, 0, wnd, acked)
                            other_peer.sack(frame, start, other_space.offset_of(high, 0, wnd, acked))
                self.advanced = other.acknowledge(frame, other_space.offset_of(ack, 0, wnd, acked), window)
        if length:
            self._hold(half, seg, offset, reason, tsval)
        if flags & FIN or (reason and not length):
            self.has_end |= flags & FIN > 0
            half.receive_state(seg, offset, reason, tsval if tsval >= 0 else None)
        if half.resets:
            half.follow_reset(Follower(frame, time, offset, self.arrival.new if self.arrival is not None else 0))

    def is_steady(self) -> bool:
        """True if both directions are under way, alone on their addresses and ports, and nothing is remarkable."""
        if self.flow is None or len(self.flow.connections) != 1 or self.flow.has_paths or self.has_end:
            return False
        for d in (0, 1):
            half = self.halves[d]
            if not half.last_frame or half.fins or half.resets or half._dropped or half.late:
                return False
        return True

    def offset_in_turn(self, seg: Segment, d: int) -> int:
        """Return the offset of a segment about which TCP finds nothing remarkable, -1 if it does.

        :meth:`is_steady` is True.  None of its octets came before, and all of them were captured, with a checksum that
        is right.
        """
        if d:
            half, other = self._second, self._first
        else:
            half, other = self._first, self._second
        peer, length = half.peer, seg.length
        distance, acked = half.space.distance_from_last(seg.seq), other.space.distance_from_last(seg.ack)
        offset, header = half.space.last + distance, seg.start - seg.tcp
        is_close = -CLOSE < distance < CLOSE and -CLOSE < acked < CLOSE
        if seg.tcp < 0 or not seg.flags & ACK_FLAG or seg.flags & STATE_FLAGS or not is_close:
            return -1
        self.acked = other.space.last + acked
        if length and seg.end - seg.start != length:
            return -1
        if length and offset != half.highest and not half.is_new(offset, offset + length):
            return -1
        tsval = self._tsecr = -1
        if header == _STAMPED_HEADER:
            self._window, kinds, tsval, self._tsecr = stamped(seg.buffer, seg.tcp)
            if kinds != USUAL_KINDS:
                return -1
        elif header == _PLAIN_HEADER:
            self._window = word(seg.buffer, seg.tcp + 12) & 0xFFFF
        else:
            return -1
        if length and not has_right_sum(seg.key, seg.buffer, seg.tcp, seg.end):
            return -1
        reason = NO_REASON
        if tsval >= 0 or not peer.has_room_for(offset):
            reason = peer.drop_reason(offset, offset + length, tsval, seg.time, half.believed)
        return offset if reason is NO_REASON else -1

    def receive_in_turn(self, seg: Segment, d: int, offset: int, is_read: bool) -> None:
        """Receive a segment of which :meth:`offset_in_turn` told the offset; its octets were read, or are held."""
        if d:
            half, other = self._second, self._first
        else:
            half, other = self._first, self._second
        peer, space, end, shift = other.peer, other.space, offset + seg.length, self._shift_counts[d]
        self.last_frame, self.arrival = seg.frame, None
        half.last_frame, half.last_time = seg.frame, seg.time
        # offset_of() in place: both numbers are close.
        half.space.last, space.last = end, self.acked
        if self._tsecr >= 0:
            peer.echo(self._tsecr, seg.time)
        self.advanced = other.acknowledge(seg.frame, self.acked, self._window << shift)
        if is_read:
            half.read(end, seg)
        elif seg.length:
            half.hold_new(offset, end, seg)

    def _hold(self, half: TCPHalf, seg: Segment, offset: int, reason: DropReason, tsval: int) -> None:
        """Hold the octets of a segment."""
        frame, time, ack, flags, first, last = seg.frame, seg.time, seg.ack, seg.flags, seg.start, seg.end
        key, buffer, tcp, length = seg.key, seg.buffer, seg.tcp, seg.length
        end, highest, acked = offset + length, half.highest, half.peer.acked
        copy = copy_of(frame, time, reason, checksum_of(seg), own_octets(buffer, first, last))
        new = half.hold(offset, end, copy)
        reason = half.doubt_of(copy)
        is_late = highest > offset and new > max(0, end - highest)
        if not new and offset <= acked < end:
            half.retransmissions.note(acked, frame, time)
        is_acknowledged = acked >= offset
        self.arrival = arrival_of(
            frame, time, offset, end, new, is_late, is_acknowledged, hop_limit_of(key, buffer, tcp), last - first,
            reason, tsval if tsval >= 0 else None, ack if flags & ACK_FLAG else None,
        )  # fmt: skip

    def _shift_count(self, d: int) -> int:
        """Return the shift count of the windows that a side sends: the largest where a SYN was not captured."""
        mine, others = self.halves[d].shift_count, self.halves[1 - d].shift_count
        if mine is None or others is None:
            return 0
        return LARGEST_SHIFT if mine < 0 or others < 0 else mine


class Flow:
    """The connections on one pair of addresses and ports.

    Attributes:
        key: of the segments that are sent in direction 0.
        connections: those to which a segment may belong.
        user: who takes its next segment, if that is in turn, before anybody else looks at it; None if nobody does.
        has_paths: whether segments came through tunnels or with tags.
        paths: the first MOST_PATHS that segments of its connections came by, each with the direction.
    """

    __slots__ = ("_flows", "connections", "has_paths", "key", "paths", "user")

    def __init__(self, key: bytes, flows: Flows) -> None:
        self.key = key
        self.user: Any = None
        self.connections: list[TCPConnection] = []
        self.has_paths = False
        #: The keys of a dictionary: an empty one takes a third of an empty set, and most are empty.
        self.paths: dict[tuple[int, tuple[str, ...]], None] = {}
        self._flows = flows

    def receive(self, seg: Segment, d: int) -> TCPConnection | None:
        """Receive a segment; return the connection that it belongs to, None if it is left out."""
        connections = self.connections
        if self.has_paths or type(seg) is not Segment:
            return self._receive_on_path(seg, d)
        if len(connections) == 1:
            only = connections[0]
            half = only.halves[d]
            if not (seg.flags & STATE_FLAGS or only.has_end) and half.is_close(seg.seq):
                only.receive(seg, d)
                return only
        return self._receive(seg, d, connections)

    def _receive_on_path(self, seg: Segment, d: int) -> TCPConnection | None:
        """Receive a segment that came through a tunnel, or beside others that did."""
        path = path_of(seg)
        if path and not self.has_paths:
            self.has_paths = True
            for one in self.connections:
                for side in (0, 1):
                    if one.halves[side].last_frame:
                        one.take_path(side, ())
        found = self._receive(seg, d, self._on_path(seg, d, path) if self.has_paths else self.connections)
        if found is not None and self.has_paths:
            found.take_path(d, path)
        return found

    def _on_path(self, seg: Segment, d: int, path: tuple[str, ...]) -> list[TCPConnection]:
        """Return the connections that a segment may belong to by its path: two networks may have the same addresses.

        Each direction may have a path of its own, and a path may change, as long as it is one stream.
        """
        same = [one for one in self.connections if one.paths[d] == path]
        if same:
            return same
        unknown = [one for one in self.connections if one.paths[d] is None]
        return unknown or [one for one in self.connections if one.is_continued_by(seg, d)]

    def _receive(self, seg: Segment, d: int, connections: list[TCPConnection]) -> TCPConnection | None:
        """Receive a segment that may belong to any of these connections, or to none."""
        if seg.flags & PATH_MTU:
            return None
        if seg.flags & RST:
            return self._reset(seg, d, connections)
        if seg.flags & SYN:
            late = next((one for one in connections if _is_over(one, connections) and one.is_of_syn(seg, d)), None)
            if late is not None:
                _leave_out(seg, d, connections)
                return None
            # One that has, or acknowledges, the very number of a SYN comes before those that are near.
            nearest = connections
            if len(connections) > 1:
                nearest = sorted(connections, key=lambda one: one.is_of_syn(seg, d))[::-1]
            for connection in nearest:
                if connection.accept_syn(seg, d):
                    return connection
            connection = self._new(seg, d, connections)
            if seg.flags & ACK_FLAG:
                connection.halves[1 - d].begin(seg.ack, True)
            connection.accept_syn(seg, d)
            return connection
        if len(connections) == 1:
            only = connections[0]
            if not only.has_end and only.halves[d].is_close(seg.seq):
                only.receive(seg, d)
                return only
        best, least = None, NEVER
        for connection in reversed(connections):
            misfit = connection.misfit(seg, d)
            if misfit is not None and misfit < least:
                best, least = connection, misfit
        last = connections[-1] if connections else None
        if best is not None and best is not last and _is_over(best, connections):
            # What the one that is under way has not begun with may still be near it.
            misfit = last.misfit(seg, d) if last is not None else None
            best = last if misfit is not None and misfit - CLOSE < least else best
        if best is None:
            # After a hole in both directions nothing is near; a segment of another connection is left out at the end.
            is_new = last is None or last.user.is_begun_anew_by(seg)
            best = self._new(seg, d, connections) if last is None or is_new else last
        elif best.may_be_followed_by(seg, d) and best.user.is_key_in(seg):
            best = self._new(seg, d, connections)
        half = best.halves[d]
        if _is_over(best, connections) and (half.is_complete or half.has_all_of(seg)):
            _leave_out(seg, d, connections)
            return None
        if half.is_before_syn(seg.seq, seg.length):
            best.leave_out(stray_of(seg, d))
            return None
        if best.strays and len(best.strays) < MOST_RESETS and best.strays[-1].frame < seg.frame:
            best.strays.append(stray_of(seg, d))
        best.receive(seg, d)
        return best

    def _reset(self, seg: Segment, d: int, connections: list[TCPConnection]) -> TCPConnection | None:
        """Receive a RST; return the connection whose numbers it fits, else the last one, None without any."""
        misfits = [(one.misfit(seg, d), one) for one in connections if one.halves[d].is_known]
        fitting = [(misfit, one) for misfit, one in misfits if misfit is not None]
        if not fitting:
            fitting = [(one.halves[d].misfit(seg.seq), one) for one in connections if one.halves[d].is_known]
        if not fitting:
            # The RST that answers a SYN has no number of its own (RFC 9293 §3.10.7.1).
            fitting = [(0, one) for one in connections if one.halves[1 - d].is_known and seg.flags & ACK_FLAG]
        if not fitting:
            return None
        connection = min(reversed(fitting), key=lambda one: one[0])[1]
        if _is_over(connection, connections):
            _leave_out(seg, d, connections)
            return None
        half, other = connection.halves[d], connection.halves[1 - d]
        connection.arrival, connection.advanced, connection.last_frame = None, False, seg.frame
        connection.has_end = True
        if half.has_right_checksums and checksum_of(seg) == WRONG:
            half.drop(seg, DropReason.CHECKSUM, None)
            return connection
        if not half.is_known:
            half.begin(seg.seq, False)
        ack = other.space.nearest(seg.ack)[1] if seg.flags & ACK_FLAG and other.is_known else None
        half.reset(seg.frame, seg.time, seg.seq, ack)
        if ack is not None and ack == other.copies.end:
            # Who closes with a RST acknowledges all that it received.
            low = ack - 1 if other.peer.last_ack_sent is None else min(other.peer.last_ack_sent, ack - 1)
            other.peer.sack(seg.frame, low, ack)
        return connection

    def _new(self, seg: Segment, d: int, connections: list[TCPConnection]) -> TCPConnection:
        """Begin a connection with a segment of direction ``d``, beside those that it might have belonged to."""
        unread = [connection for connection in self.connections if not connection.user.is_mpa]
        read = [connection for connection in self.connections if connection.user.is_mpa]
        if len(unread) >= MOST_UNREAD:
            self._flows.end(min(unread, key=lambda connection: connection.last_frame))
        if len(read) >= MOST_READ:
            self._flows.end(min(read, key=lambda connection: connection.last_frame))
        connection = TCPConnection(self._flows.budget, self)
        connection.user = self._flows.make_user(connection)
        # Some may have given way to it.
        connections = [one for one in connections if one.flow is not None]
        if connections:
            # Beside the one that is under way, not beside another SYN that nobody answered.
            known = [one for one in connections if one.is_established or all(one.has_syns)] or connections
            under_way = (one for one in reversed(known) if not one.has_end or not one.is_over)
            connection.beside = next(under_way, known[-1])
            connection.strays.append(stray_of(seg, d))
        self.connections.append(connection)
        self._flows.add(self)
        return connection


class Flows:
    """All pairs of addresses and ports of a capture.

    Args:
        make_user: returns who reads the octets of a connection that begins.
        end: is handed a connection to which no segment will belong any longer, since there are too many beside it; it
            calls :meth:`remove`.
    """

    def __init__(
        self, make_user: Callable[[TCPConnection], Any], end: Callable[[TCPConnection], None] | None = None
    ) -> None:
        self.make_user = make_user
        self.end = end or self.remove
        self.budget = RecentBudget()
        self._directions: dict[bytes, tuple[Flow, int]] = {}

    def receive(self, seg: Segment) -> tuple[TCPConnection | None, int]:
        """Receive a segment; return its connection and the direction in which it was sent."""
        flow, d = self.find(seg.key)
        if flow is None:
            flow, d = self.begin(seg)
        return flow.receive(seg, d), d

    def begin(self, seg: Segment) -> tuple[Flow, int]:
        """Return who receives the first segment on its addresses and ports, and its direction."""
        flow = Flow(seg.key, self)
        if not seg.flags & PATH_MTU:
            self.add(flow)
        return flow, 0

    def add(self, flow: Flow) -> None:
        """Hand segments to a flow: another connection may have given way for its first one."""
        self._directions.setdefault(flow.key, (flow, 0))
        self._directions.setdefault(reverse_key(flow.key), (flow, 1))

    def find(self, key: bytes) -> tuple[Flow | None, int]:
        """Return the connections on addresses and ports, and the direction of segments with them."""
        return self._directions.get(key, (None, 0))

    def __iter__(self) -> Iterator[tuple[bytes, TCPConnection]]:
        """Yield all connections, with the key of their direction 0."""
        for flow, d in list(self._directions.values()):
            if d == 0:
                for connection in list(flow.connections):
                    yield flow.key, connection

    def remove(self, connection: TCPConnection) -> None:
        """Let no segment belong to a connection any more."""
        flow, connection.flow = connection.flow, None
        if flow is not None:
            flow.connections.remove(connection)
            for one in flow.connections:
                if one.beside is connection:
                    one.beside = connection.beside
            # Else each would hold all before it.
            connection.beside = None
            if not flow.connections:
                del self._directions[flow.key]
                self._directions.pop(reverse_key(flow.key), None)


def is_stray(connection: TCPConnection, flow: Flow) -> bool:
    """Return True if a connection is none: segments without SYN in the midst of another one.

    They are late duplicates of an earlier connection on the same addresses and ports (RFC 9293 §3.4.3).
    """
    return not connection.has_syn and any(
        connection.is_amid(other) and connection.shares_path(other) for other in flow.connections
    )


def _is_over(connection: TCPConnection, connections: list[TCPConnection]) -> bool:
    """Return True if a connection was closed before the one began that is under way, the last of these."""
    last = connections[-1] if connections else connection
    if connection is last or not last.has_syn:
        return False
    is_over = connection.is_closed or (connection.is_over and (all(last.has_syns) or last.is_established))
    return is_over and connection.ended_before(last.first_frame)


def _leave_out(seg: Segment, d: int, connections: list[TCPConnection]) -> None:
    """Note a late duplicate of a connection that is over, which comes in the midst of the last one."""
    connections[-1].leave_out(stray_of(seg, d)._replace(is_earlier=True))


def stray_of(seg: Segment, d: int) -> Stray:
    """Return a segment that came in the midst of a connection, and is none of its own."""
    beginning = bytes(seg.buffer[seg.start : min(seg.end, seg.start + BEGINNING)])
    return Stray(seg.frame, seg.time, d, seg.seq, seg.flags, seg.length, beginning, checksum_of(seg))


def hop_limit_of(key: bytes, buffer: memoryview, tcp: int) -> int:
    """Return TTL or Hop Limit of a packet whose TCP header is at an index, -1 where options or extensions hide it."""
    if len(key) == 12:
        return time_to_live(buffer, tcp - 20) if tcp >= 20 else -1
    return word(buffer, tcp - 33) >> 24 if tcp >= 40 and word(buffer, tcp - 40) >> 28 == 6 else -1


def checksum_of(seg: Segment) -> int:
    """Return RIGHT, WRONG or UNKNOWN for the TCP checksum of a segment (RFC 9293 §3.1).

    It is UNKNOWN where nothing follows from it: no header, octets cut off, zero, or the sum that offloading leaves.
    """
    tcp, end = seg.tcp, seg.end
    if tcp < 0 or end - seg.start != seg.length:
        return UNKNOWN
    if has_right_sum(seg.key, seg.buffer, tcp, end):
        return RIGHT
    return WRONG if checksum_is_wrong(seg) else UNKNOWN
