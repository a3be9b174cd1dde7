"""Two TCP hosts that exchange given octets, the network between them, and what a tap on the path captures.

Written from RFC 9293 §3.4 and §3.10, RFC 7323 §2, §4 and §5, and RFC 2018; nothing of the package under test is
imported. Time is simulated, in seconds. Numbers are relative to the ISS of their direction and never wrap: the SYN has
0, the first octet of data 1. Between the hosts and the tap segments are lost, held up and duplicated; between the tap
and the receiver they are lost only, and stay in order. There is no congestion control.

A timestamp that is older than TS.Recent by one tick is accepted, as Linux does (TCP_PAWS_WINDOW); no segment is held up
for longer than a tick where timestamps are in use, so the hosts never drop a segment of their own connection for that.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from tests.receiver.wire import ACK, FIN, RST, SYN, TCPSegment

#: Ticks by which TSval may be older than TS.Recent (RFC 7323 §5.3 allows for it; Linux' TCP_PAWS_WINDOW is 1).
PAWS_WINDOW = 1
#: Seconds between two segments in a row on the wire.
SPACING = 1e-6
RTO, DELAYED_ACK = 0.2, 0.04
#: Seconds during which a direction is idle before octets that the capture lacks, so that nothing is under way.
IDLE = 0.3
#: Octets per second of what the capture lacks: 100 Gbit/s.
RATE = 12.5e9
#: Cuts that are retransmitted at a time after a timeout.
_RETRANSMITTED = 16
#: Events of a conversation before it is given up.
_MOST_EVENTS = 200_000


class OwnSegmentDropped(Exception):
    """A host would drop a segment of its own connection: one that was held up is older than TS.Recent."""


class Cut(NamedTuple):
    """Octets [start, end) that are sent in one segment, once the peer's octets below ``gate`` have been received."""

    start: int
    end: int
    gate: int


class Side(NamedTuple):
    """What one host is like, and what it sends."""

    #: Runs of octets, each with the sequence number of its first; there is none for octets that the capture lacks.
    octets: tuple[tuple[int, bytes], ...]
    cuts: tuple[Cut, ...]
    #: The sequence number after its last octet.
    end: int
    #: Receive buffer, octets.
    buffer: int = 65536
    #: Shift count of the window scale option, None: not offered (RFC 7323 §2.2).
    shift: int | None = 7
    #: Ticks of its timestamp clock at time 0.
    clock: int = 1_000_000


class Impairments(NamedTuple):
    """What the network and the tap do to segments; chances are of each segment."""

    lost_before_tap: float = 0.0
    lost_behind_tap: float = 0.0
    reordered: float = 0.0
    #: Segments, sent back to back, that may overtake one that is held up.
    overtaking: int = 0
    duplicated: float = 0.0
    #: Damaged before the tap: with a wrong checksum, so that TCP drops it ("checksum"), or with a right one, so that
    #: MPA drops it ("silent", RFC 5044 §8). Only segments with octets, no startup frames silently.
    damaged: float = 0.0
    damage: str = "checksum"
    #: Seconds from either host to the tap.
    distance: tuple[float, float] = (2e-5, 1e-4)
    #: Not captured, though it passed: chance of a segment with octets of Full Operation.
    missed: float = 0.0


class Options(NamedTuple):
    """What the hosts have agreed on, and how the connection ends."""

    mss: int = 1448
    timestamps: bool = True
    #: Seconds of a tick of the timestamp clocks.
    tick: float = 1e-3
    sack: bool = True
    #: Segments that may be under way.
    flight: int = 12
    #: "fin", "rst" or "open", and whose comes first.
    close: str = "fin"
    closer: int = 0
    #: ACKs captured of octets that the capture lacks, for each gap.
    acks_in_gap: int = 0


class State(NamedTuple):
    """What one host knows of the direction that it receives, and of its own sending."""

    rcv_nxt: int
    #: RCV.NXT + RCV.WND, as advertised.
    right_edge: int
    #: -1: none yet.
    ts_recent: int
    snd_una: int
    snd_nxt: int


class Tapped(NamedTuple):
    """A segment as it passed the tap."""

    time: float
    segment: TCPSegment
    #: What each host knew then.
    states: tuple[State, State]
    #: "" if the receiver could accept it, else "checksum" or "silent" (damaged), or the kind of what was injected.
    kind: str = ""
    #: Sequence numbers of octets that were changed.
    changed: tuple[int, ...] = ()


class Host:
    """One end of the connection (RFC 9293 §3.10)."""

    def __init__(self, number: int, network: Network) -> None:
        self.number, self.network, self.side = number, network, network.sides[number]
        self.is_established = self.is_gone = False
        self.snd_una = self.snd_nxt = 0
        #: Right edge of the window that the peer advertised.
        self.snd_edge = 1
        self.fin_sent = False
        #: The sequence number after the peer's FIN, None before it has been received.
        self._fin_end: int | None = None
        self.rcv_nxt = self.right_edge = 0
        self.out_of_order: list[tuple[int, int]] = []
        self.last_ack_sent, self.ts_recent = 0, -1
        self._next_cut = self._first_unacked = 0
        self._sacked: set[int] = set()
        self._starts = [cut.start for cut in self.side.cuts]
        self._duplicate_acks = self._recover = self._owed = 0
        self._timer_runs = self._is_jumping = False

    @property
    def peer(self) -> Host:
        return self.network.hosts[1 - self.number]

    @property
    def clock(self) -> int:
        """The timestamp clock now, in ticks."""
        return self.side.clock + int(self.network.now / self.network.options.tick)

    @property
    def state(self) -> State:
        return State(self.rcv_nxt, self.right_edge, self.ts_recent, self.snd_una, self.snd_nxt)

    def _shift(self, of: Host) -> int:
        """Shift count of the windows that a host sends (RFC 7323 §2.2)."""
        shifts = of.side.shift, of.peer.side.shift
        return 0 if shifts[0] is None or shifts[1] is None else shifts[0]

    @property
    def fin_received(self) -> bool:
        """True once the peer's FIN and everything before it has arrived."""
        return self._fin_end is not None and self.rcv_nxt >= self._fin_end

    # Sending -----------------------------------------------------------------------------------------------------

    def send(self, seq: int, payload: bytes = b"", flags: int = ACK) -> None:
        """Send a segment with the present ACK, window, timestamps and SACKs."""
        options = self.network.options
        is_syn = bool(flags & SYN)
        shift = 0 if is_syn else self._shift(self)
        window = min(self.side.buffer >> shift, 0xFFFF)
        if self.rcv_nxt:
            self.right_edge = max(self.right_edge, self.rcv_nxt + (window << shift))
        ack = self.rcv_nxt if flags & ACK else 0
        sacks: tuple[tuple[int, int], ...] = ()
        if options.sack and flags & ACK and not is_syn:
            sacks = tuple(self.out_of_order[-3:])
        segment = TCPSegment(
            self.number, seq, ack, flags, window, payload,
            (self.clock, max(self.ts_recent, 0)) if options.timestamps else None,
            sacks, options.mss if is_syn else 0, self.side.shift if is_syn else None, is_syn and options.sack,
        )  # fmt: skip
        self.snd_nxt = max(self.snd_nxt, segment.end)
        if flags & ACK:
            self.last_ack_sent, self._owed = ack, 0
        self.network.transmit(segment)

    def _send_cut(self, cut: Cut) -> None:
        self.send(cut.start, self.network.octets(self.number, cut.start, cut.end))

    def push(self) -> None:
        """Send what window, flight and gates allow; then the FIN, if it is time."""
        cuts = self.side.cuts
        while self.is_established and self._next_cut < len(cuts):
            cut = cuts[self._next_cut]
            is_full = self._next_cut - self._first_unacked >= self.network.options.flight
            if cut.gate > self.rcv_nxt:
                break
            if cut.start > self.snd_nxt:
                if self.snd_una == self.snd_nxt and not self._is_jumping:
                    self._is_jumping = True
                    self.network.after(IDLE, self._begin_gap, cut.start)
                break
            if cut.end > self.snd_edge or is_full:
                break
            self._next_cut += 1
            self._send_cut(cut)
        self._close()
        self._start_timer()

    def _begin_gap(self, end: int) -> None:
        """Pass over octets that the capture lacks; the peer acknowledges some as they come, and all at the end."""
        start, count = self.snd_nxt, self.network.options.acks_in_gap
        for number in range(1, count + 1):
            at = start + (end - start) * number // (count + 1)
            self.network.after((at - start) / RATE, self._advance, at, False)
        self.network.after((end - start) / RATE, self._advance, end, True)

    def _advance(self, at: int, is_end: bool) -> None:
        peer = self.peer
        self.snd_una = self.snd_nxt = at
        peer.rcv_nxt = at
        peer.right_edge = self.snd_edge = at + (min(peer.side.buffer >> self._shift(peer), 0xFFFF) << self._shift(peer))
        peer.ts_recent = max(peer.ts_recent, self.clock)
        if is_end:
            self._is_jumping = False
            peer.last_ack_sent = at
            self.push()
        else:
            peer.send(peer.snd_nxt)

    def _close(self) -> None:
        options, network = self.network.options, self.network
        is_done = self.snd_una == self.side.end and self._next_cut == len(self.side.cuts)
        if not is_done or self.fin_sent or options.close == "open" or self.rcv_nxt < self.peer.side.end:
            return
        if options.close == "rst":
            if self.number == options.closer:
                self.fin_sent = self.is_gone = True
                network.after(0.05, self.send, self.side.end, b"", RST | ACK)
        elif self.number == options.closer or self.fin_received:
            self.fin_sent = True
            self.send(self.side.end, flags=FIN | ACK)

    def _start_timer(self) -> None:
        if self.snd_una < self.snd_nxt and not self._timer_runs and not self.is_gone:
            self._timer_runs = True
            self.network.after(RTO, self._expire, self.snd_una)

    def _expire(self, una: int) -> None:
        self._timer_runs = False
        if self.snd_una == una and self.snd_una < self.snd_nxt and not self.is_gone and not self._is_jumping:
            self._recover = self.snd_nxt
            self._retransmit(_RETRANSMITTED)
        self._start_timer()

    def _retransmit(self, most: int) -> None:
        """Retransmit the first cuts that are neither acknowledged nor SACKed, or SYN or FIN."""
        if self.snd_una == 0:
            self.send(0, flags=SYN | (ACK if self.number else 0))
            return
        lost = [at for at in range(self._first_unacked, self._next_cut) if at not in self._sacked]
        for at in lost[:most]:
            self._send_cut(self.side.cuts[at])
        if not lost and self.fin_sent and self.snd_una == self.side.end:
            self.send(self.side.end, flags=FIN | ACK)

    # Receiving ---------------------------------------------------------------------------------------------------

    def receive(self, segment: TCPSegment) -> None:
        """Process a segment that arrived (RFC 9293 §3.10.7)."""
        if self.is_gone:
            if not segment.flags & RST:
                self.send(segment.ack, flags=RST)
            return
        if segment.flags & SYN:
            self._receive_syn(segment)
            return
        if not self.rcv_nxt or (self.number == 0 and not self.is_established):
            return
        if segment.flags & RST:
            self.is_gone = True
            return
        if segment.timestamps and segment.timestamps[0] < self.ts_recent - PAWS_WINDOW:
            raise OwnSegmentDropped
        if segment.timestamps and segment.timestamps[0] > self.ts_recent and segment.seq <= self.last_ack_sent:
            self.ts_recent = segment.timestamps[0]
        self.is_established = True
        self._receive_ack(segment)
        if segment.end > segment.seq:
            self._receive_octets(segment)
        self.push()

    def _receive_syn(self, segment: TCPSegment) -> None:
        if self.rcv_nxt:
            if self.number and not self.is_established:
                self.send(0, flags=SYN | ACK)
            else:
                self.send(self.snd_nxt)
            return
        self.rcv_nxt = 1
        self.ts_recent = segment.timestamps[0] if segment.timestamps else -1
        self.snd_edge = 1 + segment.window
        if self.number:
            self.send(0, flags=SYN | ACK)
            self._start_timer()
        else:
            self.snd_una, self.is_established = 1, True
            self.send(1)
            self.push()

    def _receive_ack(self, segment: TCPSegment) -> None:
        self.snd_edge = max(self.snd_edge, segment.ack + (segment.window << self._shift(self.peer)))
        for start, end in segment.sacks:
            first = bisect_left(self._starts, start)
            for at in range(first, self._next_cut):
                if self.side.cuts[at].end > end:
                    break
                self._sacked.add(at)
        if segment.ack > self.snd_una:
            self.snd_una, self._duplicate_acks = segment.ack, 0
            while self._first_unacked < self._next_cut and self.side.cuts[self._first_unacked].end <= self.snd_una:
                self._first_unacked += 1
        elif segment.ack == self.snd_una < self.snd_nxt and not segment.payload:
            self._duplicate_acks += 1
            if self._duplicate_acks == 3 and self.snd_una >= self._recover:
                self._recover = self.snd_nxt
                self._retransmit(1)

    def _receive_octets(self, segment: TCPSegment) -> None:
        before = self.rcv_nxt
        start, end = max(segment.seq, before), min(segment.end, self.right_edge + bool(segment.flags & FIN))
        if start < end:
            self._add(start, end)
        if segment.flags & FIN:
            self._fin_end = segment.end
        self._owed += 1
        if self.out_of_order or self.rcv_nxt == before or self._owed > 1 or segment.flags & FIN:
            self.send(self.snd_nxt)
        else:
            self.network.after(DELAYED_ACK, self._acknowledge_late)

    def _add(self, start: int, end: int) -> None:
        held = [(low, high) for low, high in self.out_of_order if low > end or high < start]
        joined = [(low, high) for low, high in self.out_of_order if not (low > end or high < start)]
        low = min([start, *(low for low, _ in joined)])
        high = max([end, *(high for _, high in joined)])
        if low <= self.rcv_nxt:
            self.rcv_nxt, self.out_of_order = max(self.rcv_nxt, high), held
        else:
            # The block with the latest segment comes first in SACK (RFC 2018 §4); the last of the list is sent.
            self.out_of_order = [*held, (low, high)]

    def _acknowledge_late(self) -> None:
        if self._owed and not self.is_gone:
            self.send(self.snd_nxt)


class Network:
    """Both hosts, the path between them, and the tap; ``captured`` is what passed it."""

    def __init__(self, sides: tuple[Side, Side], path: Impairments, options: Options, rng: random.Random) -> None:
        self.sides, self.path, self.options = sides, path, options
        self.random, self.getrandbits = rng.random, rng.getrandbits
        self.now = 0.0
        self.captured: list[Tapped] = []
        #: The first number of Full Operation of each direction; nothing before it is missed, or damaged silently.
        self.begins = (0, 0)
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._count = 0
        self._line_free = [0.0, 0.0]
        self._behind_tap = [0.0, 0.0]
        self._offsets = [[start for start, _ in side.octets] for side in sides]
        self.hosts = (Host(0, self), Host(1, self))

    def octets(self, number: int, start: int, end: int) -> bytes:
        """Return the octets [start, end) of a direction, which lie in one piece."""
        at = bisect_left(self._offsets[number], start + 1) - 1
        first, octets = self.sides[number].octets[at]
        return octets[start - first : end - first]

    def after(self, seconds: float, action: Callable[..., None], *arguments: object) -> None:
        self._count += 1
        heapq.heappush(self._events, (self.now + seconds, self._count, action, arguments))

    def transmit(self, segment: TCPSegment) -> None:
        """Put a segment on the path, after what its sender sent before it."""
        path, number = self.path, segment.side
        leaves = self._line_free[number] = max(self.now, self._line_free[number] + SPACING)
        if self.random() < path.lost_before_tap:
            return
        copies = 1 + (self.random() < path.duplicated)
        for _ in range(copies):
            held_up = SPACING * path.overtaking * self.random() if self.random() < path.reordered else 0.0
            self.after(leaves - self.now + path.distance[number] + held_up, self._pass_tap, segment)

    def _pass_tap(self, segment: TCPSegment) -> None:
        path = self.path
        states = self.hosts[0].state, self.hosts[1].state
        is_startup = segment.seq < self.begins[segment.side]
        may_be_damaged = segment.payload and not (is_startup and path.damage == "silent")
        if may_be_damaged and self.random() < path.damaged:
            self.captured.append(self._damaged(segment, states))
            return
        if is_startup or not segment.payload or self.random() >= path.missed:
            self.captured.append(Tapped(self.now, segment, states))
        if self.random() >= path.lost_behind_tap:
            peer = 1 - segment.side
            arrives = max(self.now + path.distance[peer], self._behind_tap[peer])
            self._behind_tap[peer] = arrives
            self.after(arrives - self.now, self.hosts[peer].receive, segment)

    def _damaged(self, segment: TCPSegment, states: tuple[State, State]) -> Tapped:
        """Change an octet or two; in one of four segments that TCP drops the header alone is damaged."""
        payload, places = bytearray(segment.payload), set[int]()
        if self.path.damage == "silent" or self.getrandbits(2):
            for _ in range(1 + self.getrandbits(1)):
                places.add(int(self.random() * len(payload)))
        for place in places:
            payload[place] ^= 1 + int(self.random() * 255)
        error = 0 if self.path.damage == "silent" else 1 + int(self.random() * 65000)
        damaged = segment._replace(payload=bytes(payload), checksum_error=error)
        changed = tuple(sorted(segment.seq + place for place in places))
        return Tapped(self.now, damaged, states, self.path.damage, changed)

    def run(self) -> bool:
        """Run the conversation; return False if it does not come to its end."""
        self.hosts[0].send(0, flags=SYN)
        self.hosts[0].push()
        for _ in range(_MOST_EVENTS):
            if not self._events:
                break
            self.now, _, action, arguments = heapq.heappop(self._events)
            action(*arguments)
        return not self._events and all(host.peer.rcv_nxt >= host.side.end for host in self.hosts)
