"""One side of a TCP connection, without IO: segments and the time in, packets out (RFC 9293).

It does what every TCP does: the handshake, sequence and acknowledgement numbers, windows, timestamps (RFC 7323),
retransmission (RFC 6298), the end. What it does not do is decide what a segment is: whoever uses it says which octets
of the stream go into which segment, in which order, how often, damaged or not. A segment beyond a hole is sent as any
other. Only what was sent undamaged at its own place is sent again; octets that nobody has handed over stay missing.
There is no congestion control.

``craft/talk`` joins two of them by a wire that brings everything at once, ``craft/network`` is the wire that does not,
and ``probe/rawcarrier`` has one talk to a live peer. ``Habits`` are what they do differently.

Times are nanoseconds of a clock that does not go back. Offsets count octets of a stream from 0, the octet after the
SYN; a FIN counts one octet.
"""

from __future__ import annotations

import errno
import os
import struct
from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from scapy_mpa.craft.packets import ACK, FIN, PSH, RST, SYN
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.framing.sequence import seq_diff, unwrap
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.options import Announced, announced, sacked_by, timestamps_of, window_of
from scapy_mpa.values.segment import Segment

State: TypeAlias = Literal["closed", "listen", "syn-sent", "syn-received", "established", "reset", "lost"]

#: What the window field says, in units of 2**WINDOW_SHIFT octets.
WINDOW = 2048
#: What a side says in its SYN (RFC 7323 §2.2), unless its window is small.
WINDOW_SHIFT = 7
#: Octets that a side offers to take.
OFFERED = WINDOW << WINDOW_SHIFT
#: Timestamps as they stand after the TCP header: no operation twice, kind, length, TSval, TSecr (RFC 7323 §3.2).
TIMESTAMPS = struct.Struct("!BBBBII")
#: Octets of TCP's header with IPv4's or IPv6's.
HEADERS = {4: 40, 6: 60}

_SECOND = 1_000_000_000
_TICK = 1_000_000
_LAST_TICK = 0xFFFFFFFF
#: Time until octets that are not acknowledged are sent again at the soonest, and how many times the round trip of the
#: handshake that has to be (RFC 6298 §2: below its 1 s, since a case is over by then).
_FIRST_RTO, _LEAST_RTO, _ROUND_TRIPS = _SECOND, _SECOND // 4, 4
_LONGEST_RTO = 60 * _SECOND
#: Times that the same octets are sent again before the connection counts as lost (RFC 9293 §3.8.3).
_TRIES = 8
#: Acknowledgements of the same octet that have the next ones sent again at once (RFC 5681 §3.2).
_DUPLICATES = 3
#: Segments in order that are acknowledged together (RFC 5681 §4.2).
_TOGETHER = 2
#: A segment that begins farther beyond what was sent, or before the SYN, does not belong to the stream.
_FARTHEST = 1 << 20
#: Runs of octets beyond a hole that are kept: a limit of memory and time.
_MOST_RUNS = 1 << 12
_LEAST_MSS, _USUAL_MSS = 88, 536
_SACK_PERMITTED = b"\x01\x01\x04\x02"


class Habits(NamedTuple):
    """What a TCP may do or leave out.

    Attributes:
        delays_acks: every second segment in order is acknowledged, out of order and where a hole is filled each one
            (RFC 5681 §4.2); else each segment is.
        permits_sack: it says so in its SYN (RFC 2018 §2).
        retransmits: what is not acknowledged is kept, and sent again.
    """

    delays_acks: bool = False
    permits_sack: bool = True
    retransmits: bool = True


#: To a live peer; between two of ours, whose segments are as they are asked for, and arrive.
LIVE, CRAFTED = Habits(), Habits(delays_acks=True, permits_sack=False, retransmits=False)


class Arrived:
    """The octets of a stream that have arrived: all up to ``rcv_nxt``, and runs beyond it. A SYN is octet -1."""

    __slots__ = ("rcv_nxt", "runs")

    def __init__(self, rcv_nxt: int = -1) -> None:
        self.rcv_nxt = rcv_nxt
        self.runs: list[tuple[int, int]] = []

    def add(self, start: int, end: int) -> None:
        """Octets [start, end) arrive."""
        if start > self.rcv_nxt:
            if self.runs and self.runs[-1][0] <= start <= self.runs[-1][1]:
                self.runs[-1] = self.runs[-1][0], max(end, self.runs[-1][1])
            else:
                insort(self.runs, (start, end))
            return
        self.rcv_nxt = max(self.rcv_nxt, end)
        while self.runs and self.runs[0][0] <= self.rcv_nxt:
            self.rcv_nxt = max(self.rcv_nxt, self.runs.pop(0)[1])


class TCP:
    """One side of a connection.

    Args:
        half: our half connection, its peer's half beside it; by it packets become octets (``tcppacket.octets_of``).
        mtu: of the path, in octets.
        timestamps: offer them (RFC 7323).
        habits: see there.
        clock: gives the time of each packet; None: packets have the time of the last ``tick``.
        window: octets that we offer to take, which are not scaled then; None: ``OFFERED``.

    Attributes:
        state: where the connection is.
        out: packets that are to be sent, oldest first; whoever sends them takes them out.
        is_ended: the peer's FIN came, and all octets before it.
        snd_una: up to where the peer has acknowledged our stream.
        snd_nxt: after our highest octet.
        right_edge: up to where the peer takes octets of ours.
        sacked: what the peer has beyond ``snd_una``, as ranges of our stream (RFC 2018).
        most_sacked: the most octets that it ever had so.
        unacked: segments of the peer that were not acknowledged.
        in_operation: packets from now on belong to Full Operation.
    """

    def __init__(
        self,
        half: SentHalf,
        *,
        mtu: int = 1500,
        timestamps: bool = True,
        habits: Habits = LIVE,
        clock: Iterator[int] | None = None,
        window: int | None = None,
    ) -> None:
        self.state: State = "closed"
        self.half = half
        self.out: list[TcpPacket] = []
        self.is_ended = self.in_operation = False
        self.snd_una = self.snd_nxt = self.right_edge = 0
        self.sacked: list[tuple[int, int]] = []
        self.most_sacked = self.unacked = 0
        self._habits = habits
        self._clock = clock
        self._window = window
        #: Up to where there is room, while the application does not read; the window that was offered last.
        self._held_edge: int | None = None
        self._told_window = 0
        self._mss = mtu - HEADERS[half.frames.ip_version]
        self._peer_mss = 0xFFFF
        self._has_stamps = timestamps
        self._ts_recent = 0
        self._peer_shift = 0
        self._arrived = Arrived(0)
        #: Octets of the peer's stream from the first that was not taken on.
        self._octets = bytearray()
        self._taken = 0
        self._peer_fin: int | None = None
        #: Segments that were sent and are not acknowledged, by their place; those that wait for the peer's window.
        self._unacknowledged: dict[int, TcpPacket] = {}
        self._waiting: list[TcpPacket] = []
        self._fin: int | None = None
        self._wants_fin = False
        self._rto = _FIRST_RTO
        self._tries = self._duplicates = 0
        self._timer: int | None = None
        self._opened = self._now = 0
        self._identification = half.isn

    # --- what is asked of it ---

    @property
    def mss(self) -> int:
        """Octets that a segment takes, timestamps included."""
        return max(min(self._mss, self._peer_mss) - (TIMESTAMPS.size if self._has_stamps else 0), 1)

    @property
    def rcv_nxt(self) -> int:
        """Up to where we have the peer's stream."""
        return self._arrived.rcv_nxt

    @property
    def incoming(self) -> bytes:
        """Octets that came in order and were not taken yet."""
        return bytes(self._octets[: self.rcv_nxt - self._taken])

    def take(self) -> bytes:
        """Return ``incoming``, once."""
        octets = self.incoming
        del self._octets[: len(octets)]
        self._taken += len(octets)
        return octets

    @property
    def deadline(self) -> int | None:
        """The time at which ``tick`` has something to do; None if nothing is outstanding."""
        return self._timer

    @property
    def is_over(self) -> bool:
        """True if nothing more can come of it: both sides have ended it, it was reset, or it is lost."""
        return self.state in ("closed", "reset", "lost") or (
            self.is_ended and self._fin is not None and self.snd_una > self._fin
        )

    @property
    def unacknowledged(self) -> int:
        """Octets of our stream up to the highest that the peer has not acknowledged, holes included."""
        return max(0, self.snd_nxt - self.snd_una)

    def set_mtu(self, mtu: int) -> None:
        """The path takes packets of at most ``mtu`` octets from now on (RFC 1191)."""
        self._mss = mtu - HEADERS[self.half.frames.ip_version]

    def open(self, octets: bytes = b"") -> None:
        """Send the SYN, with ``octets`` of our stream."""
        self.state = "syn-sent"
        self._put(self._packet(-1, octets, SYN))
        self._opened = self._now
        if octets:
            self._keep(self._packet(0, octets, ACK | PSH))
        self._timer = self._now + self._rto

    def listen(self) -> None:
        """Wait for a SYN."""
        self.state = "listen"

    def send(self, packet: TcpPacket) -> None:
        """Send a segment of our stream as it is; raises OSError if there is no longer a connection.

        Its place, octets, flags, damage, checksum and fragment count; its numbers are those of this connection. What
        the peer's window has no room for waits, and all that comes after it.
        """
        self._check()
        whole = self._own(packet)
        is_ours = not packet.damage and packet.checksum == "right"
        if is_ours and 0 <= packet.start <= self.snd_nxt + _FARTHEST:
            if self._waiting or whole.end > self.right_edge:
                self._waiting.append(whole)
                self._start_timer()
            else:
                self._let_go(whole)
        else:
            self._put(whole)

    def push(self, start: int, octets: bytes, flags: int) -> None:
        """Send octets of our stream from ``start`` on, whatever the peer's window."""
        self._let_go(self._packet(start, octets, flags))

    def behind(self, octets: bytes) -> TcpPacket:
        """Return the segment that carries these octets after all that was handed over."""
        start = max([self.snd_nxt, *(packet.end for packet in self._waiting)])
        return self._packet(start, octets, ACK | PSH)

    def forge(self, packet: TcpPacket) -> None:
        """Send a segment that changes nothing here, whatever it is; raises OSError as ``send`` does."""
        self._check()
        self._put(packet)

    def acknowledge(self, flags: int = ACK) -> None:
        """Send a segment without octets at the end of our stream, which acknowledges everything received."""
        self._put(self._packet(self.snd_nxt + (self._fin is not None), b"", flags))

    def finish(self) -> None:
        """End our half connection after what was sent."""
        if self.state != "established" or self._wants_fin:
            return
        self._wants_fin = True
        self._send_fin()

    def reset(self) -> None:
        """End the connection by a RST, at the number that the peer expects."""
        if self.state in ("established", "syn-received"):
            self._put(self._packet(self.snd_una, b"", RST | ACK))
        last = self.out
        self._end("reset")
        self.out = last

    # --- our window ---

    def hold(self) -> None:
        """The application does not read: what comes now stays in the window that was offered."""
        self._held_edge = self.rcv_nxt + (self._window or 0)

    def read(self) -> None:
        """Read everything: announce it if there is more room than was announced, or something to acknowledge."""
        self._held_edge = None
        if self.unacked or self._told_window < (self._window or 0):
            self.acknowledge()

    def _window_field(self) -> int:
        if self._window is None:
            return WINDOW
        held = self._held_edge
        self._told_window = self._window if held is None else held - self.rcv_nxt - self.is_ended
        return self._told_window

    # --- what comes ---

    def receive(self, seg: Segment) -> None:
        """Take a segment of the peer off the wire, whose addresses and ports are those of this connection."""
        if seg.flags & SYN and self.state in ("listen", "syn-sent"):
            if not self._answers(seg):
                return
            self.half.peer.isn = seg.seq
        half = self.half.peer
        start, ack = unwrap(seg.seq, self.rcv_nxt, half.seq(0)), self._offset(seg.ack) if seg.flags & ACK else None
        octets, window = bytes(seg.buffer[seg.start : seg.end]), window_of(seg) or 0
        packet = TcpPacket(seg.time, half, start, octets, ack, seg.flags, window, b"", 0)
        tsval, _ = timestamps_of(seg)
        sacked = [(self._offset(first), self._offset(last)) for first, last in sacked_by(seg)]
        said = announced(seg) if seg.flags & SYN else None
        self._accept(packet, tsval if tsval >= 0 else None, said, sacked)

    def deliver(self, packet: TcpPacket) -> None:
        """Take a packet of the peer as it was made, with its numbers."""
        options, said, tsval = packet.options, None, None
        if len(options) == TIMESTAMPS.size:
            tsval = int.from_bytes(options[4:8], "big")
        elif options:
            header = memoryview(bytes(20) + options)
            seg = Segment(0, 0, b"", 0, 0, packet.flags, header, len(header), len(header), 0, 0)
            said = announced(seg)
            tsval = timestamps_of(seg)[0] if said is not None and said.timestamps else None
        self._accept(packet, tsval, said)

    def _answers(self, seg: Segment) -> bool:
        """True for a SYN that begins the connection, or answers ours."""
        if self.state == "listen":
            return seg.flags & (SYN | ACK | RST) == SYN
        return bool(seg.flags & ACK) and 0 <= self._offset(seg.ack) <= max(self.snd_nxt, 0)

    def _accept(
        self, seg: TcpPacket, tsval: int | None, said: Announced | None, sacked: Sequence[tuple[int, int]] = ()
    ) -> None:
        """Take a segment with its timestamp, what it announces as a SYN, and what it acknowledges selectively."""
        state = self.state
        if state in ("established", "syn-received"):
            self._accept_segment(seg, tsval, sacked)
        elif state == "listen" and seg.flags & (SYN | ACK | RST) == SYN:
            self._accept_syn(said, tsval)
        elif state == "syn-sent" and seg.ack is not None and 0 <= seg.ack <= max(self.snd_nxt, 0):
            self._accept_answer(seg, seg.ack, said, tsval)

    def _accept_syn(self, said: Announced | None, tsval: int | None) -> None:
        self._read_syn(said, tsval)
        self.state = "syn-received"
        self._put(self._packet(-1, b"", SYN | ACK))
        self._opened = self._now
        self._timer = self._now + self._rto

    def _accept_answer(self, seg: TcpPacket, ack: int, said: Announced | None, tsval: int | None) -> None:
        if seg.flags & RST:
            self._end("reset")
        elif seg.flags & SYN:
            self._read_syn(said, tsval)
            self._establish(seg, ack)
            self.acknowledge()
            for packet in self._unacknowledged.values():
                self._put(self._again(packet))
            self._start_timer()

    def _read_syn(self, said: Announced | None, tsval: int | None) -> None:
        """Read what the peer announces."""
        if said is not None:
            self._peer_mss = max(said.mss, _LEAST_MSS) if said.mss else _USUAL_MSS
            self._has_stamps = self._has_stamps and said.timestamps
            self._peer_shift = said.shift if said.shift is not None else 0
        else:
            self._peer_mss, self._has_stamps = _USUAL_MSS, False
        self._ts_recent = tsval or 0

    def _establish(self, seg: TcpPacket, ack: int) -> None:
        self.state = "established"
        self._rto = max(_LEAST_RTO, _ROUND_TRIPS * (self._now - self._opened))
        self._timer, self._tries = None, 0
        self.snd_una = max(0, ack)
        self.right_edge = self.snd_una + (seg.window << (0 if seg.flags & SYN else self._peer_shift))
        self._drop_acknowledged()

    def _accept_segment(self, seg: TcpPacket, tsval: int | None, sacked: Sequence[tuple[int, int]]) -> None:
        start, flags, rcv_nxt = seg.start, seg.flags, self._arrived.rcv_nxt
        if flags & RST:
            # Only the next number is believed (RFC 5961 §3.2).
            if start == rcv_nxt:
                self._end("reset")
            elif rcv_nxt < start < rcv_nxt + OFFERED:
                self.acknowledge()
            return
        if flags & SYN:
            # The answer to the first one was lost, or it is forged.
            if self.state == "syn-received":
                self._put(self._packet(-1, b"", SYN | ACK))
            else:
                self.acknowledge()
            return
        if seg.ack is None or start > rcv_nxt + OFFERED:
            return
        if self._has_stamps and tsval is not None:
            if seq_diff(tsval, self._ts_recent) < 0:
                self.acknowledge()
                return
            if start <= rcv_nxt:
                self._ts_recent = tsval
        if self.state == "syn-received" and seg.ack >= 0:
            self._establish(seg, seg.ack)
        self._accept_ack(seg, seg.ack, sacked)
        if seg.payload or flags & FIN:
            self._accept_octets(seg)
        elif start < rcv_nxt:
            # A keep-alive is answered (RFC 9293 §3.8.4).
            self.acknowledge()

    def _accept_ack(self, seg: TcpPacket, ack: int, sacked: Sequence[tuple[int, int]]) -> None:
        if ack > self.snd_nxt + (self._fin is not None) or ack < 0:
            return
        if sacked or self.sacked:
            self.sacked = [(first, last) for first, last in sacked if ack < first < last <= self.snd_nxt]
            self.most_sacked = max(self.most_sacked, sum(last - first for first, last in set(self.sacked)))
        if ack > self.snd_una:
            self.snd_una = ack
            self._duplicates = self._tries = 0
            self._drop_acknowledged()
            self._timer = None
            self._start_timer()
        elif ack == self.snd_una and not seg.payload and not seg.flags & FIN and self._unacknowledged:
            self._duplicates += 1
            if self._duplicates == _DUPLICATES and (lost := self._unacknowledged.get(ack)) is not None:
                self._put(self._again(lost))
        if ack >= self.snd_una:
            self.right_edge = ack + (seg.window << self._peer_shift)
            self._flush()

    def _drop_acknowledged(self) -> None:
        if self._unacknowledged:
            ack = self.snd_una
            self._unacknowledged = {at: one for at, one in self._unacknowledged.items() if one.end > ack}

    def _accept_octets(self, seg: TcpPacket) -> None:
        start, octets, arrived = seg.start, seg.payload, self._arrived
        end, has_fin = start + len(octets), bool(seg.flags & FIN)
        if has_fin and self._peer_fin is None and start >= 0:
            self._peer_fin = end
        is_next = start == arrived.rcv_nxt and not arrived.runs
        end = min(end, arrived.rcv_nxt + OFFERED)
        if start < end and end > arrived.rcv_nxt and len(arrived.runs) < _MOST_RUNS:
            if is_next and len(self._octets) == start - self._taken:
                self._octets += octets if len(octets) == end - start else octets[: end - start]
                arrived.rcv_nxt = end
            else:
                self._store(start, octets[: end - start])
                arrived.add(start, end)
        if self._peer_fin is not None and arrived.rcv_nxt >= self._peer_fin:
            self.is_ended = True
        self.unacked += 1
        if not self._habits.delays_acks or not is_next or (self.unacked == _TOGETHER and not has_fin):
            self.acknowledge()

    def _store(self, start: int, octets: bytes) -> None:
        """Put octets where they belong; of copies that differ the first one counts."""
        start, octets = max(start, self.rcv_nxt), octets[max(0, self.rcv_nxt - start) :]
        base, end, kept = self._taken, start + len(octets), self._octets
        runs = [(max(first, start), min(last, end)) for first, last in self._arrived.runs if first < end]
        known = [(first, bytes(kept[first - base : last - base])) for first, last in runs if first < last]
        kept += bytes(max(0, start - base - len(kept)))
        kept[start - base : end - base] = octets
        for first, copy in known:
            kept[first - base : first - base + len(copy)] = copy

    # --- time ---

    def tick(self, now: int) -> None:
        """Advance the time, and retransmit what was not acknowledged in time."""
        self._now = now
        if self._timer is None or now < self._timer:
            return
        self._timer = None
        if self._tries >= _TRIES:
            self._end("lost")
            return
        self._tries += 1
        self._rto = min(2 * self._rto, _LONGEST_RTO)
        if self.state == "syn-sent":
            self._put(self._packet(-1, b"", SYN))
        elif self.state == "syn-received":
            self._put(self._packet(-1, b"", SYN | ACK))
        else:
            # The peer may have released what it has acknowledged selectively (RFC 2018 §8).
            self.sacked = []
            for packet in self._unacknowledged.values():
                self._put(self._again(packet))
            if self._is_fin_missing:
                self._put(self._packet(self._fin or 0, b"", FIN | ACK))
            if self._waiting and not self._unacknowledged:
                # What is the window? An octet that the peer has is answered (RFC 9293 §3.8.6.1).
                self._put(self._packet(self.snd_una - 1, b"", ACK))
        self._timer = now + self._rto

    @property
    def _is_fin_missing(self) -> bool:
        return self._fin is not None and self.snd_una <= self._fin

    def _start_timer(self) -> None:
        if self._timer is None and (self._unacknowledged or self._waiting or self._is_fin_missing):
            self._timer = self._now + self._rto

    # --- what goes out ---

    def _let_go(self, packet: TcpPacket) -> None:
        """Send a segment of the stream, and remember it until it is acknowledged."""
        self._put(packet)
        self._keep(packet)

    def _keep(self, packet: TcpPacket) -> None:
        self.snd_nxt = max(self.snd_nxt, packet.end)
        if not self._habits.retransmits or not packet.payload or packet.end <= self.snd_una:
            return
        # Of copies that differ the first one counts; a longer one brings what is new after it.
        start = packet.start
        for at, known in sorted(self._unacknowledged.items()):
            if at <= start < known.end:
                start = known.end
        if start < packet.end and start not in self._unacknowledged:
            new = packet._replace(start=start, payload=packet.payload[start - packet.start :])
            self._unacknowledged[start] = new
        self._start_timer()

    def _flush(self) -> None:
        """Send what waited and has room now."""
        while self._waiting and self._waiting[0].end <= self.right_edge:
            self._let_go(self._waiting.pop(0))
        if self._wants_fin:
            self._send_fin()

    def _send_fin(self) -> None:
        if self._fin is None and not self._waiting:
            self._put(self._packet(self.snd_nxt, b"", FIN | ACK))
            self._fin = self.snd_nxt
            self._start_timer()

    def _again(self, packet: TcpPacket) -> TcpPacket:
        return self._own(packet)._replace(is_again=True, piece=None)

    def _packet(self, start: int, octets: bytes, flags: int) -> TcpPacket:
        if self._clock is not None:
            self._now = next(self._clock)
        self.unacked = 0
        self._identification += 1
        return TcpPacket(
            self._now,
            self.half,
            start,
            octets,
            self._arrived.rcv_nxt + self.is_ended if flags & ACK else None,
            flags,
            self._window_field(),
            self.options(flags),
            self._identification,
            self.in_operation,
        )

    def _own(self, packet: TcpPacket) -> TcpPacket:
        """A packet with the numbers of this connection."""
        own = self._packet(packet.start, b"", packet.flags & (SYN | ACK | PSH | FIN | RST))
        return packet._replace(
            time=own.time,
            half=own.half,
            ack=own.ack,
            flags=own.flags,
            window=own.window,
            options=own.options,
            identification=own.identification,
        )

    def options(self, flags: int = ACK, older: int = 0) -> bytes:
        """TCP's options as we send them now, with a timestamp that is ``older`` by this many milliseconds."""
        stamps = b""
        if self._has_stamps:
            tick = self._now // _TICK - older & _LAST_TICK
            stamps = TIMESTAMPS.pack(1, 1, 8, 10, tick, self._ts_recent if flags & ACK else 0)
        if not flags & SYN:
            return stamps
        sack = _SACK_PERMITTED if self._habits.permits_sack else b""
        shift = WINDOW_SHIFT if self._window is None else 0
        return struct.pack("!BBH", 2, 4, self._mss) + sack + stamps + struct.pack("!BBBB", 1, 3, 3, shift)

    def _put(self, packet: TcpPacket) -> None:
        if self.state not in ("reset", "lost"):
            self.out.append(packet)

    def take_out(self) -> list[TcpPacket]:
        """The packets that are to be sent, once each."""
        packets, self.out = self.out, []
        return packets

    # --- numbers ---

    def _offset(self, ack: int) -> int:
        """The offset in our stream of a sequence number near what was acknowledged last."""
        return unwrap(ack, self.snd_una, self.half.seq(0))

    def _check(self) -> None:
        if self.state == "lost":
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        if self.state != "established":
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    def _end(self, state: Literal["reset", "lost"]) -> None:
        """End: nothing more is sent."""
        self.state = state
        self._timer = None
        self._unacknowledged.clear()
        self._waiting.clear()
        self.out = []
