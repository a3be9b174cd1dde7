"""An MPA connection: its startup frames, and the FPDUs of both directions (RFC 5044 §7.1, RFC 6581).

In: what a :class:`~scapy_mpa.stream.connection.TCPConnection` received.  Out: startup frames, and a reader of FPDUs for
each direction.  The Initiator is who sent the Request, which need not be who sent the SYN.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Set
from typing import Final

from scapy_mpa.framing.agreement import is_rdmac
from scapy_mpa.framing.markers import LONGEST_FPDU, MARKER_LENGTH
from scapy_mpa.framing.profiles import PROFILES, Profile, profile_of_revision
from scapy_mpa.framing.role import ROLES
from scapy_mpa.framing.senders import Bases
from scapy_mpa.framing.sequence import seq_diff
from scapy_mpa.framing.startup import KEY_LENGTH, REPLY_KEY, REQUEST_KEY, STARTUP_HEADER_LENGTH, Kind
from scapy_mpa.infer.inference import FEWEST_HEADERS, HALF_BITS, Budget, Inferred, is_enough
from scapy_mpa.receiver.deviation import DeviationSearch, Diagnosis, DiagnosisBudget
from scapy_mpa.receiver.fpdus import FPDUReader, Patience
from scapy_mpa.receiver.inference import (
    SHOWN_BY,
    Beginning,
    beginning_of,
    begins_with_fpdu,
    infer_both,
    infer_half,
    is_unlike_fpdu,
    lengths_lead,
    markers_at,
    may_be_followed_by_fpdus,
    may_begin,
)
from scapy_mpa.receiver.startup import LARGEST_PD_LENGTH, FoundFrame, KeySearch, OtherOctets, is_garbled_key
from scapy_mpa.receiver.values import LimitMet, Moment
from scapy_mpa.receiver.window import Layout, is_unlike_ddp
from scapy_mpa.stream.connection import Arrival, TCPConnection, TCPHalf
from scapy_mpa.stream.copies import WRONG, Rival
from scapy_mpa.stream.drop_reason import LARGEST_WINDOW, DropReason
from scapy_mpa.stream.peer_state import NEVER, NOWHERE
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.assumptions import NOTHING, Assumptions
from scapy_mpa.values.limits import Limits
from scapy_mpa.values.octets import append_number, put_number
from scapy_mpa.values.segment import STREAM_KEYS, Segment
from scapy_mpa.values.startup import PartOfFrame

#: Segments of a connection after which octets are old: so far a capture may have them out of order.  Without ACKs, of
#: segments reordered over 300, 64 lose 22 % of the FPDUs, 256 0.1 %, 1,024 none.
PATIENCE: Final = 1024
#: The same for this module, where it is a number of C if it is compiled.
_PATIENCE: Final = PATIENCE
#: Nanoseconds after which octets are old.  What was lost was sent again before: RTO begins at 1 s (RFC 6298 §2) and
#: doubles.
PATIENCE_TIME: Final = 3_000_000_000
#: Octets of both directions at which FPDUs are first looked for where there is no startup frame, then at each doubling:
#: a batch size, which decides how often they are looked for, not what is found.
FIRST_LOOK: Final = 1 << 13
#: Octets after which no CRC in use is believed, as it goes: two of the longest FPDUs.
ENOUGH_WITHOUT_CRC: Final = 2 * LONGEST_FPDU
#: Octets without startup frame or FPDUs after which a connection is taken for another protocol's.
MOST_LOOKED_AT: Final = 1 << 18
_KINDS: Final[tuple[Kind, Kind]] = ("request", "reply")
#: The same for all connections: by whether there are Markers, and CRCs.
_LAYOUTS: Final = {(markers, crc): Layout(markers, crc) for markers in (False, True) for crc in (False, True)}


class ShortParts(NamedTuple):
    """Segments of which a snapshot length left fewer octets than a startup header has (RFC 5044 §7.1.1).

    ``first`` was sent in direction ``side``, the last in ``last_frame``; ``segments`` is how many they are.
    """

    side: int
    first: Arrival
    last_frame: int
    segments: int


class ConnectionReader:
    """A TCP connection that carries MPA, or may.

    After a Reply that rejects the connection, MPA is left and TCP stays open: another Request begins another MPA
    connection on the same TCP connection (RFC 5044 §7.1.2, rule 3), with a reader of its own, in :attr:`chain`.

    Args:
        connection: the TCP connection.
        limits: how much is held at most.
        budget: how long octets may be searched at every place.
        diagnosis_budget: how much may be read and held to find out what senders do wrong.
        assumptions: what the user says that no startup frame does.
        before: the reader of the MPA connection before on the same TCP connection, which was rejected; None without.

    Attributes:
        frames: the startup frame of each direction, None if it was not found.
        parts: the startup frame of each direction of which no more than a part came, known at the end.
        garbled: the first octets of each direction, if they are nearly a Key.
        unexpected: what the Responder sent after the Request in place of the Reply, or before it.
        answered_octets: how many octets, none of them of a Request, a Reply without one acknowledges; 0 if not known.
        is_accepted: True if a startup frame was wrong, and FPDUs follow all the same.
        after_rejection: the moment of the first octet of each direction behind a Reply with R, if that begins an FPDU.
        openings: the first segment of each direction with the first octet after its startup frame.
        octets_after: the first octets after a startup frame of each direction where no Full Operation began.
        rivals: copies of the startup frame of each direction that were not chosen, where no Full Operation began.
        inferences: what the octets of each direction show that no startup frame says.
        starts_found: the sequence numbers, of those that the user told, at which Full Operation can begin.
        initiator: the direction in which the Initiator sends, None if it is not known.
        readers: the reader of each direction, None before Full Operation.
        arrivals: the segments of each direction with octets of Full Operation, for the owner to take.
        short_parts: the segments before it of which too little was captured to show a startup header, None if another
            one that was cut has as much.
        rejected: True if the Reply rejects the connection.
        inferred: True if something that a startup frame tells had to be inferred.
        agreed: how FPDUs of each direction were to lie, None before Full Operation.
        diagnoses: what the sender of each direction does wrong, None if it does nothing.
        limits_met: the limits that bit, for the owner to take.
        has_doubt: whether a sender may deviate that was not looked into.
    """

    __slots__ = (
        "_adapting", "_assumptions", "_before", "_budget", "_deviations", "_diagnosis_budget", "_few",
        "_has_long_part", "_is_other", "_limits", "_next_look", "_oldest", "_profile", "_profile_rev", "_recent",
        "_searches", "_successor", "after_rejection", "agreed", "answered_octets", "arrivals", "connection",
        "diagnoses", "frames", "garbled", "has_doubt", "inferences", "inferred", "initiator", "is_accepted",
        "limits_met", "octets_after", "openings", "parts", "readers", "rejected", "rivals", "short_parts",
        "starts_found", "unexpected",
    )  # fmt: skip

    def __init__(
        self,
        connection: TCPConnection,
        limits: Limits,
        budget: Budget,
        diagnosis_budget: DiagnosisBudget,
        assumptions: Assumptions = NOTHING,
        before: ConnectionReader | None = None,
    ) -> None:
        self.connection = connection
        self.frames: list[FoundFrame | None] = [None, None]
        self.parts: list[PartOfFrame | None] = [None, None]
        self.garbled: list[OtherOctets | None] = [None, None]
        self.unexpected: OtherOctets | None = None
        self.answered_octets = 0
        self.is_accepted = False
        self.after_rejection: list[Moment | None] = [None, None]
        self.openings: list[Arrival | None] = [None, None]
        self.octets_after = [b"", b""]
        self.rivals: list[list[Rival]] = [[], []]
        self.short_parts: ShortParts | None = None
        self._has_long_part = False
        self.starts_found: Set[int] = frozenset()
        self.initiator: int | None = None
        self.readers: list[FPDUReader | None] = [None, None]
        self.rejected = self.inferred = False
        self.arrivals: list[list[Arrival]] = [[], []]
        first, second = connection.halves
        begins = (None, None) if before is None else [one.end if one is not None else None for one in before.frames]
        self._searches = [KeySearch(first, begins[0]), KeySearch(second, begins[1])]
        self._assumptions = assumptions
        self._before = before
        self._successor: ConnectionReader | None = None
        self._limits = limits
        #: Octets that no limit forbids, as many as pieces may be.
        self._few = min(limits.held_octets, limits.held_segments)
        self._budget = budget
        self._diagnosis_budget = diagnosis_budget
        self._deviations: list[DeviationSearch | None] = [None, None]
        self.diagnoses: list[Diagnosis | None] = [None, None]
        self.agreed: list[Layout | None] = [None, None]
        self.limits_met: list[LimitMet] = []
        self.inferences: list[Inferred | None] = [None, None]
        self.has_doubt = False
        #: The direction in which an RDMAC RNIC sends: maybe Markers that nobody asked for (RFC 5044, figure 14).
        self._adapting = -1
        #: The frames of the last segments, PATIENCE if there were so many: then the first of them is at an index, where
        #: the next one is put.
        self._recent, self._oldest = array("q"), 0
        self._next_look = FIRST_LOOK
        #: What a startup frame with this Rev names, -1 before it was asked.
        self._profile_rev, self._profile = -1, PROFILES["rfc5044"]
        #: The octets are no FPDUs of Full Operation without startup frames: only a startup frame makes them MPA's.
        self._is_other = before is not None

    @property
    def is_mpa(self) -> bool:
        """True once a startup frame was found, at the end a part of one, or FPDUs were inferred."""
        return self.initiator is not None

    @property
    def chain(self) -> list[ConnectionReader]:
        """This reader, and before it those of the MPA connections that were rejected on the same TCP connection."""
        found, one = [self], self._before
        while one is not None:
            found.append(one)
            one = one._before
        return found[::-1]

    @property
    def last(self) -> ConnectionReader:
        """The reader of the MPA connection that began last on the same TCP connection: this one, or one after it."""
        one = self
        while one._successor is not None and one._successor.is_mpa:
            one = one._successor
        return one

    @property
    def has_begun(self) -> bool:
        """True once Full Operation has begun, or the connection was rejected."""
        return self.rejected or self.readers[0] is not None or self.readers[1] is not None

    @property
    def profile(self) -> Profile:
        """The specification that the user told, else that the Reply, else the Request, else octets, name."""
        first, second = self.frames
        frame = second if first is None or (second is not None and second.startup.kind < first.startup.kind) else first
        if frame is not None:  # the Reply, if there are both
            if self._profile_rev != frame.startup.rev:
                self._profile_rev = frame.startup.rev
                self._profile = self._assumptions.profile_instead_of(profile_of_revision(frame.startup.rev))
            return self._profile
        name = "rfc5044"
        if any(one is not None and one.origin == "first-octet" for one in self.inferences):
            name = "rddp-01"
        # Without startup frames only culley-02's begin with the first octet after the SYN.
        if any(one is not None and one.is_beginning and one.half.start == 0 for one in self.readers):
            name = "culley-02"
        return self._assumptions.profile_instead_of(PROFILES[name])

    def is_begun_anew_by(self, seg: Segment) -> bool:
        """Return True if a segment that fits no connection begins another one, whose SYN was not captured."""
        return self.is_key_in(seg) or not self.is_mpa or self.connection.is_closed

    def is_key_in(self, seg: Segment) -> bool:
        """Return True if a segment begins with a Key (RFC 5044 §7.1.1)."""
        return bytes(seg.buffer[seg.start : min(seg.end, seg.start + KEY_LENGTH)]) in (REQUEST_KEY, REPLY_KEY)

    @property
    def first_frame(self) -> int:
        """The frame by which connections are numbered: of the Request, else of the Reply, else of the first octets."""
        order = (0, 1) if self.initiator is None else (self.initiator, 1 - self.initiator)
        candidates = [*(self.frames[d] for d in order), *(self.parts[d] for d in order)]
        found = next((one.frame for one in candidates if one is not None), None)
        return min(half.first_frame for half in self.connection.halves) if found is None else found

    def receive(self, d: int, frame: int, time: int) -> None:
        """Read on, after the TCP connection received a segment in direction ``d``; then :attr:`last` reads on."""
        one = self if self._successor is None else self.last
        if one._successor is not None:
            one._look_after_rejection(d)
            one._successor._receive(d, frame, time)
        else:
            one._receive(d, frame, time)
        if one.rejected:
            one._hand_over()

    def _receive(self, d: int, frame: int, time: int) -> None:
        connection = self.connection
        arrival = connection.arrival
        reader, other = self.readers[d], self.readers[1 - d]
        if other is not None and connection.advanced:
            other.acknowledge()
        if reader is not None:
            self.note_frame(frame)
            if arrival is not None:
                self.arrivals[d].append(arrival)
                opening = self.openings[d]
                is_first = arrival.start <= 0 < arrival.end and reader.is_beginning
                if is_first and (opening is None or arrival.reason < opening.reason):
                    self.openings[d] = arrival
                if d == self._adapting:
                    reader = self._adapt(reader)
                reader.receive(arrival.start, arrival.end)
            self._look(d if arrival is not None else -1, frame, time)
        elif arrival is not None:
            if arrival.captured < arrival.end - arrival.start and not self._has_long_part:
                self._note_part(d, arrival)
            if len(self.arrivals[d]) < self._limits.held_segments:
                self.arrivals[d].append(arrival)
            self._search(d, arrival.start, arrival.end)

    def read_on(self, d: int, start: int, end: int, frame: int, time: int) -> bool:
        """Read the octets [start, end), which are new; True if :meth:`is_steady` is, as it was."""
        reader = self.readers[d]
        assert reader is not None
        self.note_frame(frame)
        reader.receive(start, end)
        if reader.main.waits or reader.half.copies.held > self._few or not reader.is_quiet():
            self._look(d, frame, time)
            return self.is_steady()
        return True

    def _look(self, d: int, frame: int, time: int) -> None:
        """Look at what both directions wait for; more octets came in direction ``d``, -1 if they did not."""
        for direction in (0, 1):
            search = self._deviations[direction]
            if search is not None:
                diagnosis = search.update(frame)
                if diagnosis is not None or not search.is_open:
                    self._replace_reader(direction, diagnosis)
            one = self.readers[direction]
            if one is not None and one.half.copies.held:
                self._give_up(one, frame, time, direction == d)

    def note_frame(self, frame: int) -> None:
        """Note the frame of a segment of Full Operation."""
        if len(self._recent) < _PATIENCE:
            append_number(self._recent, frame)
        else:
            put_number(self._recent, self._oldest, frame)
            self._oldest = self._oldest + 1 if self._oldest + 1 < _PATIENCE else 0

    def is_steady(self) -> bool:
        """True if both directions are in Full Operation, nothing waits for time to pass, and nobody is suspected."""
        if self._successor is not None or self.rejected or self._adapting >= 0:
            return False
        for d in (0, 1):
            reader = self.readers[d]
            if reader is None or reader.main.waits or not reader.is_quiet():
                return False
            search = self._deviations[d]
            if search is not None and (reader.anomaly is not None or not search.has_seen()):
                return False
        return self.connection.is_steady()

    def _note_part(self, d: int, arrival: Arrival) -> None:
        """Note a segment of which a snapshot length left a part."""
        before, self.short_parts = self.short_parts, None
        if arrival.captured >= STARTUP_HEADER_LENGTH:
            self._has_long_part = True
        elif before is None:
            self.short_parts = ShortParts(d, arrival, arrival.frame, 1)
        else:
            self.short_parts = ShortParts(before.side, before.first, arrival.frame, before.segments + 1)

    def _give_up(self, reader: FPDUReader, frame: int, time: int, has_grown: bool) -> None:
        """Give up a hole that nothing will fill any more; where more is held than before, a limit gives it up."""
        half, main = reader.half, reader.main
        copies, peer = half.copies, half.peer
        held = copies.held
        if (
            has_grown
            and held > self._few
            and (held > self._limits.held_octets or len(copies) > self._limits.held_segments)
        ):
            d = self.readers.index(reader)
            search, limits = self._deviations[d], self._limits
            octets, pieces = search.kept if search is not None else (0, 0)
            if held - octets > limits.held_octets or len(copies) - pieces > limits.held_segments:
                limit = "octets held back for a gap (held_octets)"
                most = self._limits.held_octets
                if held - octets <= most:
                    limit, most = "segments held back for a gap (held_segments)", self._limits.held_segments
                self._meet_limit(half, main.edge, f"more than {most} {limit}", (frame, time))
                reader.relieve()
            if search is not None:
                # What waited may be what tells that the sender deviates.
                self._replace_reader(d, search.decide())
            return
        if not main.waits and not copies.reaches_beyond(main.edge):
            return
        has_acks = peer.acked != NOWHERE and peer.has_room_for(half.believed)
        # Where the peer's ACKs are captured, what it has not acknowledged may still be sent again.
        if has_acks and (main.waits or copies.next_start(main.edge) > peer.acked):
            return
        old_frame = self._recent[self._oldest] if len(self._recent) == _PATIENCE else -1
        reader.give_up((frame, time), Patience(old_frame, time - PATIENCE_TIME, needs_both=not has_acks))

    def _meet_limit(self, half: TCPHalf, offset: int, detail: str, now: Moment) -> None:
        self.limits_met.append(LimitMet(self.connection.halves.index(half), offset, *now, detail))

    def relieve(self, detail: str, now: Moment) -> None:
        """Give up what is waited for, in both directions: all connections together hold too much."""
        for half, reader, search in zip(self.connection.halves, self.readers, self._deviations, strict=True):
            if not half.copies.held:
                continue
            if search is not None:
                search.close()
            if half.copies.held:
                self._meet_limit(half, half.copies.start, detail, now)
                before = half.copies.held + 1
                while half.copies.held < before:
                    before = half.copies.held
                    if reader is not None:
                        reader.relieve()
                    elif before:
                        half.forget(half.copies.middle)

    def know_sender(self, d: int, diagnosis: Diagnosis | None) -> None:
        """Read the FPDUs of a direction as the sender is known to lay them, None if that is as was agreed.

        Nothing is found out about it any more: for who receives octets once.
        """
        search = self._deviations[d]
        if search is not None and diagnosis is not None:
            self._replace_reader(d, diagnosis)
        elif search is not None:
            search.close()
            self._deviations[d] = None

    @property
    def is_examined(self) -> tuple[bool, bool]:
        """Of each direction, True if its sender may still turn out to deviate, so that it is read anew."""
        first, second = self._deviations
        return first is not None, second is not None

    @property
    def _is_long_begun(self) -> bool:
        """True if octets that were sent before all captured so far are not to be expected any more."""
        connection, arrival = self.connection, self.connection.arrival
        is_late = arrival is not None and arrival.time - connection.first_time >= PATIENCE_TIME
        return connection.has_syn or is_late

    # --- startup ---

    def _search(self, d: int, start: int, end: int) -> None:
        half, search = self.connection.halves[d], self._searches[d]
        if self.frames[d] is None:
            found = search.receive(start, end)
            if found is not None:
                self._take_frame(d, found)
            elif half.start is not None and self.garbled[d] is None and start < half.start + STARTUP_HEADER_LENGTH:
                self._note_garbled(d, half.start)
        elif not self.has_begun:
            self._read_frame_again(d, start, end)
        self._accept()
        if self.initiator is None and not self._is_other:
            held = half.copies.held + self.connection.halves[1 - d].copies.held
            if held >= self._next_look:
                self._next_look = 2 * held
                if held >= MOST_LOOKED_AT or (self._is_long_begun and not self._lacks_startup_octets()):
                    self._infer(is_over=False)
                if self.initiator is None and held >= MOST_LOOKED_AT:
                    self._is_other = True
        elif self.inferred and half.copies.held >= self._next_look:
            self._next_look = 2 * half.copies.held
            self._infer_other(d, is_over=False)
        if self._is_other and self.initiator is None:
            self._forget(d, end)
        copies, limits = half.copies, self._limits
        is_full = copies.held > limits.held_octets or len(copies) > limits.held_segments
        if is_full and not self.has_begun and None in self.frames and self.initiator is not None:
            self._infer_from_one()
        while self.readers[d] is None and (copies.held > limits.held_octets or len(copies) > limits.held_segments):
            if self.frames != [None, None]:
                most = f"more than {limits.held_octets} octets wait for a startup frame (held_octets)"
                arrival = self.connection.arrival
                assert arrival is not None
                self._meet_limit(half, copies.start, most, (arrival.frame, arrival.time))
            half.forget(copies.middle)

    def _lacks_startup_octets(self) -> bool:
        """Return True if octets after a SYN have not been captured yet: a startup frame may begin there."""
        halves = [half for half in self.connection.halves if half.start is not None and len(half.copies)]
        return any(half.copies.edge(max(half.start or 0, half.needed)) < half.copies.end for half in halves)

    def _forget(self, d: int, end: int) -> None:
        """Let go of octets that cannot be part of a startup frame, nor of an FPDU after a rejection."""
        half, before = self.connection.halves[d], self._before
        needed = self._searches[d].needed_from(end) if half.copies.next_start(end - 1) < end else end
        if before is None or not before._is_looking(d):
            half.forget(needed)
        _drop_before(needed, self.arrivals[d])

    def _take_frame(self, d: int, found: FoundFrame) -> None:
        """Take a startup frame that was found."""
        self.frames[d] = self._with_acks(d, found)
        other = self.frames[1 - d]
        if self.initiator is None:
            self.initiator = d if found.startup.kind == "request" else 1 - d
        elif other is not None and found.startup.kind == other.startup.kind == "reply":
            # Who sent the first of two Replies should have sent a Request.
            self.initiator = d if found.frame < other.frame else 1 - d
        reply = self.frames[1 - self.initiator]
        if self.has_both_frames and reply is not None and reply.startup.r:
            self._reject(is_over=False)

    def _reject(self, is_over: bool) -> None:
        """The Reply rejects the connection, unless its R may be damage."""
        assert self.initiator is not None
        if is_over or not self._may_come_again(1 - self.initiator):
            self.unexpected = self._in_place_of_reply()
            self.rejected = True
            self._keep_after_frames()

    def _read_frame_again(self, d: int, start: int, end: int) -> None:
        """Take a startup frame as another copy of its octets shows it, if [start, end) brought a better one."""
        known, other = self.frames[d], self.frames[1 - d]
        if known is None or start >= known.end or end <= known.start:
            return
        found = self._searches[d].frame_again(known)
        if found is None or found.startup == known.startup:
            return
        # One bit makes the Key of a Request that of a Reply.
        self.initiator = None if other is None else 1 - d if other.startup.kind == "request" else d
        self._take_frame(d, found)

    def _with_acks(self, d: int, found: FoundFrame) -> FoundFrame:
        """Return a startup frame with what its sender had received, and its receiver, when it was complete."""
        peer = self.connection.halves[d].peer
        acked = peer.acked_by(found.frame)
        acked = peer.last_ack_sent if acked is None else acked
        found.under_way = max(0, found.start - acked) if acked is not None else 0
        arrival = self._arrival(d, found.frame)
        found.ack = arrival.ack if arrival is not None else None
        return found

    def _arrival(self, d: int, frame: int) -> Arrival | None:
        """Return the segment of a direction with a frame number, None if it is not among those that are remembered."""
        arrivals = self.arrivals[d]
        low, high = 0, len(arrivals)
        while low < high:
            middle = (low + high) // 2
            one = arrivals[middle]
            if one.frame == frame:
                return one
            if one.frame < frame:
                low = middle + 1
            else:
                high = middle
        return None

    def _keep_after_frames(self) -> None:
        """Keep what came after startup frames behind which Full Operation does not begin, and copies of these."""
        for d, found in enumerate(self.frames):
            if found is None:
                continue
            copies = self.connection.halves[d].copies
            self.rivals[d] += copies.rivals(found.start, found.end)
            self.openings[d] = self._first_after(d, found.end)
            edge = min(copies.edge(found.end, found.end + SHOWN_BY), found.end + SHOWN_BY)
            if found.end < edge and copies.is_captured(found.end, edge):
                self.octets_after[d] = bytes(copies.octets(found.end, edge))

    @property
    def is_data(self) -> bool:
        """True if what looks like a startup frame is none, as it turns out at the end: a file or a message holds it.

        Nobody answers it, and its sender goes on with octets that begin no FPDU: more than Private Data may have, or
        behind others that came before.
        """
        found = [(d, one) for d, one in enumerate(self.frames) if one is not None]
        if len(found) != 1 or self.rejected:
            return False
        d, frame = found[0]
        half, reader = self.connection.halves[d], self.readers[d]
        if reader is not None:
            octets = memoryview(reader.first_octets)
            return len(octets) > LARGEST_PD_LENGTH and is_unlike_ddp(octets, 0, reader.layout)
        more = half.copies.end - frame.end
        is_behind_others = half.start is not None and frame.start > half.start
        return more > (0 if is_behind_others else LARGEST_PD_LENGTH) and is_unlike_fpdu(half, frame.end)

    def cut_header(self, d: int) -> OtherOctets | None:
        """Return what is left of the header of a direction's startup frame, if a snapshot length cut it."""
        return self._searches[d].cut_header()

    def _note_garbled(self, d: int, offset: int) -> None:
        """Note that the first octets of a direction are nearly a Key."""
        header = self._searches[d].header_at(offset)
        if header is not None and is_garbled_key(header):
            copies = self.connection.halves[d].copies
            copy = copies.copy_at(copies.index_of(offset))
            if copy.checksum != WRONG:
                self.garbled[d] = OtherOctets(offset, copy.frame, copy.time, header[:KEY_LENGTH])

    @property
    def has_both_frames(self) -> bool:
        """True if the Request and the Reply were found."""
        if self.initiator is None:
            return False
        request, reply = self.frames[self.initiator], self.frames[1 - self.initiator]
        if request is None or reply is None:
            return False
        return request.startup.kind == "request" and reply.startup.kind == "reply"

    def _offset_of(self, d: int, seq: int) -> int:
        return self.connection.halves[d].space.nearest(seq)[1]

    def _in_place_of_reply(self) -> OtherOctets | None:
        """Return the first octets that the Responder sent when it had the Request, if no Reply begins with them."""
        assert self.initiator is not None
        d, request = 1 - self.initiator, self.frames[self.initiator]
        reply, half = self.frames[d], self.connection.halves[d]
        if request is None:
            return None
        end = self._offset_of(self.initiator, request.end_seq)
        first: Arrival | None = None
        for one in self.arrivals[d]:
            if reply is not None and one.frame > reply.frame and one.start >= reply.end:
                break
            is_known = one.ack is not None and self._offset_of(self.initiator, one.ack) >= end
            if is_known and one.new and (first is None or one.start < first.start):
                first = one
        if first is None or (reply is not None and first.start >= reply.start):
            return None
        begin = self._searches[d].begin
        due = begin if begin is not None else self._offset_of(d, request.ack) if request.ack is not None else None
        is_lacking = due is None or half.copies.edge(due) < half.copies.end
        if reply is None and (is_lacking or self._searches[d].part(self._due(d)) is not None):
            return None
        start = half.copies.next_start(first.start)
        edge = min(half.copies.edge(start, start + KEY_LENGTH), start + KEY_LENGTH, first.end)
        is_there = start < edge and half.copies.is_captured(start, edge)
        beginning = bytes(half.copies.octets(start, edge)) if is_there else b""
        if reply is None and is_cut(half, start) and REPLY_KEY.startswith(beginning):
            return None  # of a Reply that a snapshot length cut
        return OtherOctets(first.start, first.frame, first.time, beginning)

    def _due(self, d: int) -> int | None:
        """Return the offset at which the Reply must begin in a direction, None if that is not known."""
        request = self.frames[1 - d]
        if d == self.initiator or request is None or request.ack is None:
            return None
        return self._offset_of(d, request.ack)

    # --- both startup frames ---

    def _accept(self, is_over: bool = False) -> None:
        """Begin Full Operation once both startup frames are known (RFC 5044 §7.1.1, §7.1.2).

        A frame that is wrong is one if the FPDUs after it show that its peer accepted it.
        """
        if self.has_begun or self.initiator is None:
            return
        if self.has_both_frames:
            self._agree(is_over)
        else:
            self._accept_faulty(is_over)

    def _accept_faulty(self, is_over: bool) -> None:
        """Begin Full Operation though a startup frame is wrong, if the FPDUs after it show that it was accepted."""
        assert self.initiator is not None
        frames = [one if one is not None else self._faulty_frame(d) for d, one in enumerate(self.frames)]
        first, second = frames
        if first is None or second is None:
            return
        is_rejected = bool((second if self.initiator == 0 else first).startup.r)
        # A Reply shows that its sender took what there was for the whole Request.
        is_answered = is_over and self.frames[self.initiator] is None
        halves, ends, layouts = self.connection.halves, (first.end, second.end), self._layouts((first, second))
        if not is_answered and (is_rejected or not any(map(begins_with_fpdu, halves, ends, layouts))):
            return
        if not is_over and any(
            self.frames[d] is None
            and one.counted_end < one.end
            and may_be_followed_by_fpdus(halves[d], one.counted_end, layouts[d])
            for d, one in enumerate((first, second))
        ):
            return  # nothing is wrong with it, but octets before it have not been captured yet
        self.unexpected = self._in_place_of_reply() if self.frames[1 - self.initiator] is not None else None
        for d, found in enumerate(frames):
            if found is not None and self.frames[d] is None:
                self._take_frame(d, found)
        self.is_accepted = True
        if not self.rejected:
            self._operate()

    def _faulty_frame(self, d: int) -> FoundFrame | None:
        """Return what may have been meant for the startup frame of a direction; that of the other one is known."""
        search = self._searches[d]
        if self.frames[1 - d] is None or not len(self.connection.halves[d].copies):
            return None
        end = self._taken_end(d)
        found = search.frame_that_ends_at(end) if end is not None else None
        begin = self._due(d) if d != self.initiator else search.begin
        if found is None and begin is not None:
            found = search.frame_with_garbled_key(begin, _KINDS[d != self.initiator])
        return found

    def _taken_end(self, d: int) -> int | None:
        """Return the offset up to which its receiver had a startup frame when it took that for whole.

        The Responder replied, and the Initiator sent its first FPDU, when it had received so much.
        """
        known = self.frames[1 - d]
        assert known is not None
        ack = known.ack
        if d != self.initiator:
            after = self._first_after(1 - d, known.end)
            ack = after.ack if after is not None else None
        return None if ack is None else self._offset_of(d, ack)

    def _first_after(self, d: int, offset: int) -> Arrival | None:
        """Return the segment of a direction whose copy of the octet at an offset was chosen."""
        copies = self.connection.halves[d].copies
        return self._arrival(d, copies.moment_at(offset)[0]) if copies.next_start(offset) == offset else None

    def _layouts(self, frames: Sequence[FoundFrame]) -> list[Layout]:
        """Return how FPDUs lie in each direction: M asks for Markers in what its sender receives."""
        first, second = frames
        crc = bool(first.startup.c or second.startup.c)
        return [_LAYOUTS[bool(second.startup.m), crc], _LAYOUTS[bool(first.startup.m), crc]]

    def _agree(self, is_over: bool) -> None:
        """Both startup frames are there: begin Full Operation, once it is clear where each of them ends."""
        assert self.initiator is not None
        reply = self.frames[1 - self.initiator]
        if reply is not None and reply.startup.r:
            self._reject(is_over)
            return
        self.unexpected = self._in_place_of_reply()
        is_clear = [self._has_clear_end(d) and not self._may_come_again(d) for d in (0, 1)]
        if all(is_clear) or is_over:
            self._operate()

    def _may_come_again(self, d: int) -> bool:
        """Return True while a segment that brought a startup frame may have been dropped by its receiver.

        It acknowledges the frame, or one of the sides sends more, once it was accepted.
        """
        half, found, other = self.connection.halves[d], self.frames[d], self.frames[1 - d]
        assert found is not None
        assert other is not None
        reason = half.copies.strongest_reason(found.start, found.end)
        return (
            reason != DropReason.NONE
            and (reason != DropReason.CHECKSUM or half.has_right_checksums)
            and half.peer.acked_frame(found.start, found.end) == NEVER
            and half.copies.end <= found.end
            and self.connection.halves[1 - d].copies.end <= other.end
        )

    def _has_clear_end(self, d: int) -> bool:
        """Return False while octets may still show that a startup frame ends elsewhere than its PD_Length says.

        The segment that completed it may have more octets, Private Data that PD_Length does not count; or its receiver
        went on before it had all that PD_Length counts.  The first FPDU tells.
        """
        first, second = self.frames
        assert first is not None
        assert second is not None
        half, found = self.connection.halves[d], (first, second)[d]
        layout = self._layouts((first, second))[d]
        end, arrival = self._taken_end(d), self._arrival(d, found.frame)
        if end is None or not found.start + STARTUP_HEADER_LENGTH <= end < found.end:
            end = found.end if arrival is None else max(arrival.end, found.end)
        if end == found.end or begins_with_fpdu(half, found.end, layout):
            return True
        # FPDUs may be bad: then their lengths lead to one that is not.
        if begins_with_fpdu(half, end, layout) and not lengths_lead(half, found.end, end, layout):
            other = self._searches[d].frame_that_ends_at(end)
            if other is not None:
                self.frames[d], self.is_accepted = self._with_acks(d, other), True
            return True
        edge = half.copies.edge(found.end, found.end + LONGEST_FPDU)
        shown = min(edge, found.end + SHOWN_BY + MARKER_LENGTH)
        if edge <= found.end or not half.copies.is_captured(found.end, shown):
            return True
        octets = half.copies.octets(found.end, shown)
        is_long = len(octets) == SHOWN_BY + MARKER_LENGTH
        return (is_long and not is_unlike_ddp(octets, 0, layout)) or edge >= found.end + LONGEST_FPDU

    def _operate(self) -> None:
        """Begin Full Operation behind both startup frames."""
        first, second = self.frames
        assert first is not None
        assert second is not None
        assert self.initiator is not None
        request, reply = (first, second) if self.initiator == 0 else (second, first)
        startup = max((request.frame, request.time), (reply.frame, reply.time))
        if request.startup.rev and not request.startup.m and is_rdmac(reply.startup):
            self._adapting = 1 - self.initiator
        layouts = self._layouts((first, second))
        for d in (self.initiator, 1 - self.initiator):
            found = self.frames[d]
            assert found is not None
            self._begin(d, Beginning(found.end, 0, layouts[d], True), startup)
        for d, reader in enumerate(self.readers):
            assert reader is not None
            (self._adapt(reader) if d == self._adapting else reader).begin()

    def _adapt(self, reader: FPDUReader) -> FPDUReader:
        """Return what reads an RDMAC RNIC's FPDUs, once its first one shows that it sends Markers unasked."""
        search, layout = self._deviations[self._adapting], reader.layout
        is_read = reader.main.at or layout.dialect is not None
        if is_read or not begins_with_fpdu(reader.half, 0, Layout(True, False)):
            return reader
        reader = FPDUReader(reader.half, Layout(True, layout.crc), reader.startup)
        if search is not None:
            search.close()
        self.readers[self._adapting], self._deviations[self._adapting] = reader, None
        self._adapting = -1
        return reader

    # --- after a rejection ---

    def _hand_over(self) -> None:
        """Let a reader of its own read on after a rejection, if another startup frame comes."""
        one = self
        while one.rejected:
            if one._successor is None:
                one._leave()
            assert one._successor is not None
            if not one._successor.is_mpa:
                break
            one = one._successor

    def _leave(self) -> None:
        """Leave MPA after a rejection: what was held behind the startup frames is searched for others."""
        one = ConnectionReader(
            self.connection, self._limits, self._budget, self._diagnosis_budget, self._assumptions, self
        )
        self._successor = one
        for d, found in enumerate(self.frames):
            self._look_after_rejection(d)
            if found is not None:
                _drop_before(found.end, self.arrivals[d])
            one.arrivals[d], self.arrivals[d] = self.arrivals[d], []
        for d, half in enumerate(self.connection.halves):
            begin, copies = one._searches[d].begin, half.copies
            start = copies.next_start(copies.start if begin is None else begin)
            while start < NEVER and one.frames[d] is None:
                # No more at once than one startup frame has: the next one is found by the reader after this one.
                most = start + STARTUP_HEADER_LENGTH + LARGEST_PD_LENGTH
                end = min(copies.edge(start, most), most)
                one._search(d, start, end)
                start = copies.next_start(end)

    def _is_looking(self, d: int) -> bool:
        """Return True if it is not known yet whether an FPDU follows a rejection."""
        found, half = self.frames[d], self.connection.halves[d]
        return found is not None and self.after_rejection[d] is None and half.needed <= found.end

    def _look_after_rejection(self, d: int) -> None:
        """Look whether the first octets behind a rejection are an FPDU (RFC 5044 §7.1.2, rule 3)."""
        found, half = self.frames[d], self.connection.halves[d]
        first, second = self.frames
        if found is None or first is None or second is None or half.copies.edge(found.end, found.end + 1) <= found.end:
            return
        if not self._is_looking(d):
            return
        is_fpdu = begins_with_fpdu(half, found.end, self._layouts((first, second))[d])
        if is_fpdu:
            self.after_rejection[d] = half.copies.moment_at(found.end)
        elif is_fpdu is False or half.copies.edge(found.end, found.end + LONGEST_FPDU) >= found.end + LONGEST_FPDU:
            half.forget(found.end + 1)  # it is none

    def _begin(self, d: int, beginning: Beginning, startup: Moment) -> None:
        half = self.connection.halves[d]
        half.count_from(beginning.origin)
        self.connection.halves[1 - d].count_acks_from(beginning.origin)
        one: ConnectionReader | None = self
        while one is not None:
            one._shift(d, beginning.origin)
            one = one._before
        self.inferences[d] = beginning.inferred
        self.arrivals[d] = _counted_from(beginning.origin, self.arrivals[d], half)
        reader = FPDUReader(half, beginning.layout, startup, beginning.begins_at, beginning.is_beginning)
        self._is_other = False
        self.readers[d], self.agreed[d] = reader, beginning.layout
        if beginning.is_beginning:
            self.openings[d] = self._first_after(d, 0)
            frame = self.frames[d]
            length = frame.end - frame.start if frame is not None else None
            # The SYN has the sequence number before that of the first octet.
            bases = Bases(None if half.start is None else 1 - half.start, length)
            self._deviations[d] = DeviationSearch(reader, bases, self._diagnosis_budget, self._limits)

    def _shift(self, d: int, origin: int) -> None:
        """Count offsets of a direction from what is now ``origin``."""
        frame, garbled, unexpected = self.frames[d], self.garbled[d], self.unexpected
        self.frames[d] = frame.shifted(origin) if frame is not None else None
        self.garbled[d] = garbled.shifted(origin) if garbled is not None else None
        if unexpected is not None and d != self.initiator:
            self.unexpected = unexpected.shifted(origin)

    def _replace_reader(self, d: int, diagnosis: Diagnosis | None) -> None:
        """Let the FPDUs of a direction be read from the first octet on as its sender lays them, if it deviates."""
        search, before = self._deviations[d], self.readers[d]
        assert search is not None
        assert before is not None
        if diagnosis is not None:
            before.replaced = True
            before.half.read_again(0)
            if d == self._adapting and diagnosis.candidate.name == "markers-not-asked":
                reader = FPDUReader(before.half, Layout(True, before.layout.crc), before.startup)
            else:
                self.diagnoses[d] = diagnosis
                reader = FPDUReader(before.half, diagnosis.layout, before.startup)
                if diagnosis.anomaly.code is not None:
                    reader.first_error = diagnosis.anomaly.frame, diagnosis.anomaly.offset
            self.readers[d] = reader
            search.close()
            reader.begin()
        if not search.is_open:
            self._deviations[d] = None

    # --- startup frames that were not captured ---

    def _markers_told(self, d: int) -> bool | None:
        """Return whether a direction carries Markers as the user says, None if nobody does."""
        return self._assumptions.markers_of(ROLES[d != self.initiator])

    def _told_start(self, d: int) -> int | None:
        """Return the offset at which Full Operation begins as the user says, if its octet was captured."""
        half = self.connection.halves[d]
        for seq in self._assumptions.start if half.is_known else ():
            offset = self._offset_of(d, seq)
            if half.copies.next_start(offset) == offset:
                return offset
        # MPA may begin after streaming data, and in one direction alone (draft-culley-iwarp-mpa-02 §8.1).
        begins = self._assumptions.begins_behind_syn and half.start is not None and may_begin(half, half.start)
        return half.start if begins else None

    def _infer(self, is_over: bool) -> None:
        """Begin Full Operation without startup frames, if octets show it; who sent first is the Initiator."""
        halves = self.connection.halves
        if not any(len(half.copies) for half in halves):
            return
        known = self.initiator
        if known is None:
            self.initiator = self._first_sender()
        starts = [self._told_start(d) for d in (0, 1)]
        is_told = any(start is not None for start in starts)
        markers = [self._markers_told(d) for d in (0, 1)]
        found, crc = infer_both(halves, self._budget, markers, self._assumptions.crc_told, is_told)
        for d, inferred in enumerate(found):
            start = starts[d]
            if start is not None and inferred is not None and inferred.first < start and is_enough([inferred]):
                starts[d] = None  # there are FPDUs before it
        is_told = any(start is not None for start in starts)
        is_little = not crc and sum(half.copies.held for half in halves) < ENOUGH_WITHOUT_CRC
        if not is_told and (not any(found) or (not is_over and is_little)):
            self.initiator = known
            return
        self.inferred, self._next_look = True, FIRST_LOOK
        for d, inferred in enumerate(found):
            start = starts[d]
            if start is not None:
                self.starts_found |= {halves[d].space.seq_of(start)}
                with_markers = inferred.markers if inferred is not None else bool(markers[d])
                self._begin(d, Beginning(start, 0, Layout(with_markers, crc), True, inferred), (0, 0))
            elif inferred is not None:
                self._begin(d, beginning_of(halves[d], inferred), (0, 0))
        for d, reader in enumerate(self.readers):
            if reader is not None:
                reader.begin()
            elif len(halves[d].copies):
                self._infer_other(d, is_over)

    def _first_sender(self) -> int:
        """Return the direction that counts as the Initiator's: of octets without packets the one that is named so."""
        flow, halves = self.connection.flow, self.connection.halves
        if flow is not None and flow.key in STREAM_KEYS.values():
            return int(flow.key != STREAM_KEYS["initiator"])
        return min((0, 1), key=lambda d: halves[d].first_frame)

    def _infer_other(self, d: int, is_over: bool) -> None:
        """Begin a direction that showed too little of its own when the other began, if its octets show enough now."""
        half, peer, asking = self.connection.halves[d], self.readers[1 - d], self.frames[1 - d]
        if peer is None or self.readers[d] is not None:
            return
        told, start = self._markers_told(d), self._told_start(d)
        crc, markers = peer.layout.crc, bool(asking.startup.m) if asking is not None else told
        inferred = infer_half(half, self._budget, markers, crc, FEWEST_HEADERS - 1)
        is_shown = inferred is not None and inferred.bits >= HALF_BITS and (is_over or inferred.shows_markers)
        if start is not None:
            self.starts_found |= {half.space.seq_of(start)}
            with_markers = inferred.markers if inferred is not None and is_shown else bool(markers)
            self._begin(d, Beginning(start, 0, Layout(with_markers, crc), True), (0, 0))
        elif inferred is not None and is_shown:
            self._begin(d, beginning_of(half, inferred), (0, 0))
        elif is_over and (markers is False or (crc and markers is None)):
            # Without Markers, a CRC, or what DDP sends, tells where FPDUs are.
            first = half.copies.start
            self._begin(d, Beginning(first - LARGEST_WINDOW, LARGEST_WINDOW, Layout(False, crc), False), (0, 0))
        reader = self.readers[d]
        if reader is not None:
            reader.begin()

    def _infer_from_one(self) -> None:
        """Begin Full Operation with the startup frame of one direction alone, if octets show it or it is a Reply."""
        d = next(d for d in (0, 1) if self.frames[d] is not None)
        found = self.frames[d]
        assert found is not None
        half, other = self.connection.halves[d], self.connection.halves[1 - d]
        told = self._assumptions.crc
        crc = True if found.startup.c else told
        is_request = found.startup.kind == "request"
        if is_request:
            self.unexpected = self._in_place_of_reply()
            sides = ((half, self._markers_told(d)), (other, bool(found.startup.m)))
            shown = [infer_half(one, self._budget, markers, crc) for one, markers in sides if len(one.copies)]
            is_shown = is_enough([one for one in shown if one is not None and one.confirmations])
            opening = self._first_after(d, found.end)
            if opening is not None and opening.ack is not None and found.ack is not None:
                # What the Initiator had received in between holds a Reply, which may reject the connection.
                has_answer = seq_diff(opening.ack, found.ack) >= STARTUP_HEADER_LENGTH
                is_shown |= has_answer and not is_unlike_fpdu(half, found.end)
            if self.unexpected or not is_shown:
                return
        elif found.startup.r:
            self.inferred = self.rejected = True
            return
        self.inferred = True
        layout = markers_at(half, found.end, self._budget, crc)
        if self._markers_told(d) is not None:
            layout = layout._replace(markers=bool(self._markers_told(d)))
        startup = found.frame, found.time
        begin_other = self._start_of_other(d, other)
        if begin_other is not None:
            there = markers_at(other, begin_other, self._budget, layout.crc or None)
            layout = layout._replace(crc=(layout.crc or there.crc) if told is None else bool(crc))
            begin = Beginning(begin_other, 0, Layout(bool(found.startup.m), layout.crc), True)
            self._begin(1 - d, begin, startup)
        elif len(other.copies):
            inferred = infer_half(other, self._budget, bool(found.startup.m), layout.crc or None)
            if inferred is not None and inferred.confirmations:
                layout = layout._replace(crc=inferred.crc)
                self._begin(1 - d, beginning_of(other, inferred), startup)
        self._begin(d, Beginning(found.end, 0, layout, True), startup)
        for reader in self.readers:
            if reader is not None:
                reader.begin()

    def _start_of_other(self, d: int, other: TCPHalf) -> int | None:
        """Return where Full Operation of the direction without startup frame begins, None if that is not known.

        The Responder acknowledged the whole Request before it sent its Reply.
        """
        found = self.frames[d]
        assert found is not None
        if found.startup.kind == "request":
            return None
        acked = other.peer.acked_by(found.frame)
        # Where the Reply was captured late, ACKs of FPDUs came before it.
        return acked if acked is None or found.ack is None else min(acked, self._offset_of(1 - d, found.ack))

    # --- the end ---

    def _finish_startup(self) -> None:
        """Nothing more comes, and not both startup frames have: infer Full Operation, or find out what was begun."""
        if self.frames == [None, None] and not self._is_other:
            self._infer(is_over=True)
        elif None in self.frames and self.initiator is not None:
            self.answered_octets = self._octets_answered()
            self._infer_from_one()
        elif self.initiator is not None:
            self.unexpected = self._in_place_of_reply()
        if not self.has_begun and self.frames != [None, None]:
            # Whatever is wrong with the startup frames, FPDUs are read where octets show them.
            self._infer(is_over=True)
        for d, search in enumerate(self._searches):
            if self.frames[d] is None and self.readers[d] is None:
                part = self.parts[d] = search.part(self._due(d))
                if part is not None and self.initiator is None:
                    self.initiator = d if part.kind == "request" else 1 - d
        if not self.has_begun:
            self._keep_after_frames()

    def _octets_answered(self) -> int:
        """Return how many octets, none of them of a Request, a Reply acknowledges that has none."""
        assert self.initiator is not None
        d, reply, search = self.initiator, self.frames[1 - self.initiator], self._searches[self.initiator]
        if reply is None or reply.ack is None or search.begin is None or search.candidates:
            return 0
        begin, end, copies = search.begin, self._offset_of(d, reply.ack), self.connection.halves[d].copies
        is_there = begin < end <= copies.edge(begin, end) and copies.is_captured(begin, end)
        # Copies that came later are not what the Reply answers.
        return end - begin if is_there and copies.frames(begin, end)[1] < reply.frame else 0

    def finish(self) -> None:
        """Nothing more comes, for this reader and those after it."""
        one: ConnectionReader | None = self
        while one is not None:
            if one._successor is None:
                one._finish()
            if one.rejected and one._successor is None:
                one._leave()
            for d in (0, 1):
                one._look_after_rejection(d)
            one = one._successor

    def _finish(self) -> None:
        halves = self.connection.halves
        if not self.has_begun:
            for d, half in enumerate(halves):
                for start, end in list(half.copies.runs()):
                    found = self._searches[d].receive(start, end, is_over=True) if self.frames[d] is None else None
                    if found is not None:
                        self._take_frame(d, found)
            self._accept(is_over=True)
        if not self.has_begun:
            self._finish_startup()
        for d, reader in enumerate(self.readers):
            if reader is None and self.readers[1 - d] is not None and len(halves[d].copies):
                self._infer_other(d, is_over=True)
        for reader, search in zip(self.readers, self._deviations, strict=True):
            if reader is not None:
                if search is None:
                    reader.judge_part(is_over=True)
                reader.finish()
                self.has_doubt |= search is None and reader.anomaly is not None and reader.layout.dialect is None
        for d, search in enumerate(self._deviations):
            if search is not None:
                before = self.readers[d]
                self._replace_reader(d, search.finish())
                reader = self.readers[d]
                if reader is not None and reader is not before:
                    reader.finish()


def _drop_before(offset: int, arrivals: list[Arrival]) -> None:
    """Drop the first segments, as far as they end at an offset or before it."""
    del arrivals[: next((index for index, one in enumerate(arrivals) if one.end > offset), len(arrivals))]


def _counted_from(origin: int, arrivals: list[Arrival], half: TCPHalf) -> list[Arrival]:
    """Return the segments with octets from an offset on, counted from there, as if they had no others.

    ``half`` counts from there already, and holds all octets that they brought.
    """
    beyond = [one for one in arrivals if one.end > origin]
    if not beyond:
        return []
    found: list[Arrival] = []
    highest = left = 0
    for start, end in half.copies.runs():
        left += max(end - max(start, 0), 0)
    for one in beyond:
        if one.start >= origin:
            left -= one.new
    for one in beyond:
        end, new, is_late = one.end - origin, one.new, one.is_out_of_order
        if one.start < origin:
            new = min(new, end, max(left, 0))
            left -= new
            is_late = is_late and highest > 0 and new > max(0, end - highest)
        found.append(one.counted_from(origin, new, is_late))
        highest = max(highest, end)
    return found


def is_cut(half: TCPHalf, start: int) -> bool:
    """Return True if octets were cut off of those that follow one another from an offset on."""
    return not half.copies.is_captured(start, half.copies.edge(start))
