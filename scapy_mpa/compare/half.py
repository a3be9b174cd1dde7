"""What happened to one half connection between two taps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, Literal, TypeAlias

from scapy_mpa.compare.changes import Change, column, differences, located
from scapy_mpa.compare.clock import ClockOffset, drifting
from scapy_mpa.compare.matching import (
    covered,
    is_within,
    match,
    middle,
    reordered,
    timed_delays,
    unique_delays,
    without,
)
from scapy_mpa.compare.tap import Span, TapHalf
from scapy_mpa.framing.role import Role
from scapy_mpa.framing.sequence import seq_add
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.tuples import NamedTuple

Kind: TypeAlias = Literal[
    "changed", "cut", "joined", "recut", "lost", "not-captured", "repeated", "unknown", "reordered", "delayed"
]
#: What each kind of event is, in the order of the text.
KINDS: dict[Kind, str] = {
    "changed": "octets changed in transit",
    "cut": "split into several, or shortened",
    "joined": "joined into one",
    "recut": "split at other places",
    "lost": "lost in transit",
    "not-captured": "not captured at the receiver's tap, and acknowledged or outside its capture",
    "repeated": "repeated in transit",
    "unknown": "not captured at the sender's tap",
    "reordered": "arrived after one that was sent later",
    "delayed": "delayed",
}
#: Events of each kind that are kept; all are counted.
LISTED = 1000
_SECOND = 1_000_000_000


class Event(NamedTuple):
    """Something that happened to segments.

    Attributes:
        kind: of :data:`KINDS`.
        offset: of the first octet, from the beginning of Full Operation at the sender's tap.
        octets: that it is about.
        sent_frames: frames at the sender's tap, at most 16 of them.
        received_frames: frames at the receiver's tap, at most 16.
        time: nanoseconds since the epoch, by the clock of the tap where the first of these was captured.
        delay: seconds from tap to tap, by the sender's clock; None where there is none.
    """

    kind: Kind
    offset: int
    octets: int
    sent_frames: tuple[int, ...]
    received_frames: tuple[int, ...]
    time: int
    delay: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return self._asdict() | {
            "sent_frames": [*self.sent_frames],
            "received_frames": [*self.received_frames],
            "time": self.time / _SECOND,
        }


class HalfTaps(NamedTuple):
    """The two ends of the way of a half connection.

    Attributes:
        sent: what the tap nearer to its sender captured.
        received: what the tap nearer to its receiver captured.
        sender: the half connection as the first tap's capture shows it, None where that shows no MPA.
        receiver: as the second tap's capture shows it.
        markers: whether it carries Markers at each, None where that is not known.
        spans: the times of the first and the last segment of any connection that each tap captured.
    """

    sent: TapHalf
    received: TapHalf
    sender: HalfConnection | None
    receiver: HalfConnection | None
    markers: tuple[bool | None, bool | None]
    spans: tuple[Span, Span]


def known_markers(connection: Connection | None, half: HalfConnection | None) -> bool | None:
    """Return whether a half connection carries Markers (RFC 5044 §7.1.1); None if the capture does not show it.

    The startup frame of its receiver says so, else its first FPDU at the beginning of Full Operation, or later FPDUs
    with good CRCs and enough octets to hold a Marker.
    """
    if connection is None or half is None or half.seq_start is None or half.deviation is not None:
        # Of a sender that deviates each capture may show another guess.
        return None
    asking = connection.reply if half is connection.initiator else connection.request
    first, inferred = next(iter(half.fpdus), None), half.inferred
    begins_there = first is not None and first.seq == half.seq_start and first.crc != "bad"
    is_inferred = inferred is not None and inferred.crc and inferred.shows_markers
    return half.markers if asking is not None or begins_there or is_inferred else None


class ComparedHalf:
    """One half connection, compared.

    Attributes:
        direction: whose stream it is.
        sender_tap: 0 if the first capture is the nearer to its sender, 1 if the second is.
        counts: of each kind of event.
        events: of each kind the first 1,000.
        changes: the octets that changed, the first 1,000 runs.
        changed_octets: how many did.
        segments: at the sender's tap and at the receiver's.
        missing_octets: captured only at the sender's tap.
        unknown_octets: captured only at the receiver's tap.
        seq_shift: by how much sequence numbers are higher at the receiver's tap.
        delays: seconds, least, median and most; None without segments that are the same at both.
        mss: the MSS that its sender's SYN announced at each tap, None where the SYN was not captured.
        markers: whether it carries Markers at each tap, None where that is not known.
        resets: segments with RST at each tap.
        acknowledgements: segments at each tap that acknowledge and have no octets.
        is_compared: whether octets and segments could be compared.
    """

    def __init__(self, direction: Role, sender_tap: int, taps: HalfTaps, shift: int | None) -> None:
        self.direction: Role = direction
        self.sender_tap = sender_tap
        self.counts: Counter[Kind] = Counter()
        self.events: list[Event] = []
        self.changes: list[Change] = []
        self.changed_octets = self.missing_octets = self.unknown_octets = 0
        self.segments = len(taps.sent), len(taps.received)
        self.seq_shift = shift
        self.delays: tuple[float, float, float] | None = None
        self.mss = tuple(half.said.mss if half.said is not None else None for half in (taps.sent, taps.received))
        self.markers = taps.markers
        self.resets = taps.sent.resets, taps.received.resets
        self.acknowledgements = taps.sent.acknowledgements, taps.received.acknowledgements
        # Where Markers were taken out the octets after the first are others by number.
        self.is_compared = shift is not None and (None in self.markers or self.markers[0] == self.markers[1])
        self._taps = taps

    @property
    def differs_in_acknowledgements(self) -> bool:
        """True if one tap captured more acknowledgements without octets than the other."""
        return self.acknowledgements[0] != self.acknowledgements[1]

    def compare(self, clock: ClockOffset | None, late: float) -> None:
        """Find what happened; ``clock`` says by how much the second tap's is ahead, None where nothing does.

        Segments that took ``late`` seconds more than the median are delayed.
        """
        sent, received, sender, receiver, *_ = self._taps
        if not self.is_compared or sent.base is None or received.base is None:
            return
        assert self.seq_shift is not None
        shift = -received.offset_of(seq_add(sent.base, self.seq_shift))
        place = 0
        if sender is not None and sender.seq_start is not None:
            place = sent.offset_of(sender.seq_start)
        elif receiver is not None and receiver.seq_start is not None:
            place = received.offset_of(receiver.seq_start) + shift
        # All times by the first tap's clock: a drift makes the copy that was lost look like the one that arrived.
        clocks: list[Callable[[int], int]] = [int, clock.by_first if clock is not None else int]
        mine, peers = clocks[self.sender_tap], clocks[1 - self.sender_tap]
        here, there = column(sent, 0, mine), column(received, shift, peers)
        # Where one direction sends, no drift is known: copies follow whatever trend its delays have.
        timed = timed_delays(here, there)
        trend = drifting(ClockOffset(0, 0, False), timed, timed) if timed else ClockOffset(0, 0, False)
        level = there._replace(times=[*map(trend.by_first, there.times)])
        found = match(here, level, middle(unique_delays(here, level)))

        def note(kind: Kind, of: list[int], at: list[int], delay: float | None = None) -> None:
            self._note(kind, sent, received, of, at, shift, place, delay)

        took = [there.times[two] - here.times[one] for two, one in found.pairs]
        if took:
            most_usual = median(took)
            self.delays = min(took) / _SECOND, most_usual / _SECOND, max(took) / _SECOND
            for (two, one), delay in zip(found.pairs, took, strict=True):
                if delay - most_usual > late * _SECOND:
                    note("delayed", [one], [two], delay / _SECOND)
        for two, one in reordered(found.pairs):
            note("reordered", [one], [two])
        for group in found.recut:
            note(group.way, group.sent, group.received)
        ours, theirs = covered(here), covered(there)
        missing, unknown = without(ours, theirs), without(theirs, ours)
        self.missing_octets = sum(end - start for start, end in missing)
        self.unknown_octets = sum(end - start for start, end in unknown)
        acks = [ack + moved for ack, moved in ((sent.highest_ack, 0), (received.highest_ack, shift)) if ack is not None]
        acknowledged = max(acks, default=min(here.starts, default=0))
        # A tap was there for what passed it between its first segment and its last, had it taken any of these delays.
        fastest, slowest = min(took, default=0), max(took, default=0)
        begin, end = map(peers, self._taps.spans[1])
        for one in found.lost:
            has_come = here.starts[one] + here.lengths[one] <= acknowledged and not is_within(here, one, theirs)
            was_there = bool(took) and begin - fastest <= here.times[one] <= end - slowest
            note("lost" if was_there and not has_come else "not-captured", [one], [])
        begin, end = map(mine, self._taps.spans[0])
        for two in found.extra:
            was_there = bool(took) and begin + slowest <= there.times[two] <= end + fastest
            note("repeated" if was_there and is_within(there, two, ours) else "unknown", [], [two])
        self._find_changes(shift, place, found.pairs)

    def _find_changes(self, shift: int, place: int, pairs: list[tuple[int, int]]) -> None:
        sent, received, sender, receiver, *_ = self._taps
        for change in differences(sent, received, shift, place, pairs):
            self.counts["changed"] += 1
            self.changed_octets += change.octets
            if len(self.changes) < LISTED:
                self.changes.append(change)
        layout = sender if sender is not None and sender.seq_start is not None else None
        if layout is not None:
            self.changes = located(self.changes, layout, receiver)
        elif receiver is not None and receiver.seq_start is not None:
            after = located(self.changes, receiver, receiver)
            self.changes = [one._replace(crc_before=None) for one in after]

    def _note(
        self,
        kind: Kind,
        sent: TapHalf,
        received: TapHalf,
        of: list[int],
        at: list[int],
        shift: int,
        place: int,
        delay: float | None,
    ) -> None:
        self.counts[kind] += 1
        if self.counts[kind] > LISTED:
            return
        ranges = [(sent.starts[one], sent.starts[one] + sent.lengths[one]) for one in of]
        ranges += [(received.starts[two] + shift, received.starts[two] + shift + received.lengths[two]) for two in at]
        start = min(first for first, _ in ranges)
        octets = max(last for _, last in ranges) - start
        time = sent.times[of[0]] if of else received.times[at[0]]
        frames = tuple(sent.frames[one] for one in of[:16]), tuple(received.frames[two] for two in at[:16])
        self.events.append(Event(kind, start - place, octets, *frames, time, delay))

    def remarks(self) -> Iterator[str]:
        """Yield what middleboxes did to the connection as a whole."""
        before, after = self.mss
        if before is not None and after is not None and before != after:
            yield f"MSS of its SYN changed from {before} to {after}"
        if self.seq_shift:
            yield f"sequence numbers are rewritten: {self.seq_shift:+} at the receiver's tap"
        if None not in self.markers and self.markers[0] != self.markers[1]:
            what = "removed" if self.markers[0] else "inserted"
            yield f"Markers are {what} in transit: octets and segments are not compared"
        if self.resets[0] != self.resets[1]:
            yield f"{self.resets[0]} segments with RST at the sender's tap, {self.resets[1]} at the receiver's"
        if self.seq_shift is None and all(self.segments):
            yield "no octets are the same at both taps: they are not compared"

    def as_dict(self) -> dict[str, Any]:
        """The keys of the JSON."""
        return {
            "sender_tap": ("sender", "receiver")[self.sender_tap],
            "compared": self.is_compared,
            "segments": [*self.segments],
            "counts": {kind: self.counts[kind] for kind in KINDS},
            "changed_octets": self.changed_octets,
            "missing_octets": self.missing_octets,
            "unknown_octets": self.unknown_octets,
            "seq_shift": self.seq_shift,
            "delays": [*self.delays] if self.delays is not None else None,
            "mss": [*self.mss],
            "markers": [*self.markers],
            "resets": [*self.resets],
            "acknowledgements": [*self.acknowledgements],
            "changes": [one.as_dict() for one in self.changes],
            "events": [one.as_dict() for one in self.events],
        }
