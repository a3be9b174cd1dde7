"""A TCP that sends the segments it is handed, as they are: sans-IO, packets and the time in, packets out (RFC 9293).

It does what every TCP does: the handshake, sequence numbers, acknowledgements of what it receives, and sending again
what is not acknowledged in time.  What it does not do is decide what a segment is: whoever uses it says which octets of
the stream go into which segment, in which order, how often, damaged or not.  A segment beyond a hole is sent as any
other.  Only what was sent undamaged at its own place is sent again; octets that nobody has handed over stay missing.

There is no congestion control and no delayed acknowledgement: nothing is sent that nobody asked for.  Times are seconds
of any clock that does not go back; offsets count octets of a stream from 0, the octet behind the SYN.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from typing import Literal, TypeAlias

from scapy_mpa.craft.packets import ACK, FIN, PSH, RST, SYN, FrameMaker
from scapy_mpa.craft.talk import TIMESTAMPS, WINDOW, WINDOW_SHIFT
from scapy_mpa.craft.tcppacket import SentHalf, TcpPacket
from scapy_mpa.framing.role import Role, peer_of
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff, unwrap
from scapy_mpa.values.options import LARGEST_SHIFT, announced, sacked_by, timestamps_of, window_of
from scapy_mpa.values.segment import Segment

State: TypeAlias = Literal["closed", "listen", "syn-sent", "syn-received", "established", "reset", "lost"]

#: Seconds until octets that are not acknowledged are sent again at the soonest, and how many times the round trip of
#: the handshake that has to be (RFC 6298 §2: below its 1 s, since a case is over by then).
_LEAST_RTO, _ROUND_TRIPS = 0.25, 4.0
_LONGEST_RTO = 60.0
#: Times that the same octets are sent again before the connection counts as lost (RFC 9293 §3.8.3).
_TRIES = 8
#: Acknowledgements of the same octet that have the next ones sent again at once (RFC 5681 §3.2).
_DUPLICATES = 3
#: A segment that begins farther beyond what was sent, or before the SYN, is none of the stream's.
_FARTHEST = 1 << 20
#: Octets that we offer to take.
OFFERED = WINDOW << WINDOW_SHIFT
_LEAST_MSS, _USUAL_MSS = 88, 536
_SACK_PERMITTED = b"\x04\x02"
_TICKS_A_SECOND = 1000
#: Our clock does not begin with 0: what is older than it has to be a number too.
_FIRST_TICK = 1 << 30


class OwnTCP:
    """One connection.

    Args:
        role: of ours, Initiator or Responder.
        frames: makes our frames.
        isn: our initial sequence number.
        mtu: of the path, in octets.
        timestamps: offer them (RFC 7323).

    Attributes:
        state: where the connection is.
        half: our half connection, by which packets become octets (``craft.tcppacket.octets_of``).
        out: packets that are to be sent, oldest first; whoever sends them takes them out.
        incoming: octets that came in order and were not taken yet.
        is_ended: the peer's FIN came, behind these octets.
        acknowledged: up to where the peer has acknowledged our stream.
        sacked: what it has beyond that, as ranges of our stream (RFC 2018).
        most_sacked: the most octets that it ever had so.
        sent: behind our highest octet.
        received: up to where we have the peer's stream.
        edge: up to where the peer takes octets of ours.
    """

    def __init__(self, role: Role, frames: FrameMaker, isn: int, *, mtu: int = 1500, timestamps: bool = True) -> None:
        self.state: State = "closed"
        self.half = SentHalf(0, role, frames, isn & SEQ_MASK)
        self.half.peer = SentHalf(0, peer_of(role), frames, 0)
        self.half.peer.peer = self.half
        self.out: list[TcpPacket] = []
        self.incoming = bytearray()
        self.is_ended = False
        self.acknowledged = self.sent = self.received = self.edge = 0
        self.sacked: list[tuple[int, int]] = []
        self.most_sacked = 0
        self._mss = mtu - (60 if frames.ip_version == 6 else 40)
        self._peer_mss = _USUAL_MSS
        self._has_stamps = timestamps
        self._recent = 0
        self._shift = 0
        self._beyond: dict[int, bytes] = {}
        self._peer_fin: int | None = None
        #: Segments that were sent and are not acknowledged, by their place; those that wait for the peer's window.
        self._unacknowledged: dict[int, TcpPacket] = {}
        self._waiting: list[TcpPacket] = []
        self._fin: int | None = None
        self._wants_fin = False
        self._rto = 1.0
        self._tries = self._duplicates = 0
        self._timer: float | None = None
        self._opened = 0.0
        self._identification = 0
        self._now = 0.0

    # --- what is asked of it ---

    @property
    def mss(self) -> int:
        """Octets that a segment takes, timestamps reckoned with."""
        return max(min(self._mss, self._peer_mss) - (TIMESTAMPS.size if self._has_stamps else 0), 1)

    @property
    def deadline(self) -> float | None:
        """When ``tick`` has something to do; None if nothing is under way."""
        return self._timer

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come of it: both sides have ended it, it was reset, or it is lost."""
        return self.state in ("closed", "reset", "lost") or (
            self.is_ended and self._fin is not None and self.acknowledged > self._fin
        )

    @property
    def unacknowledged(self) -> int:
        """Octets of our stream up to the highest that the peer has not acknowledged, holes included."""
        return max(0, self.sent - self.acknowledged)

    def open(self, now: float, octets: bytes = b"") -> None:
        """Send the SYN; ``octets`` of our stream go with it."""
        self._now = self._opened = now
        self.state = "syn-sent"
        self._put(self._packet(-1, octets, SYN))
        if octets:
            self._keep(self._packet(0, octets, ACK | PSH))
        self._timer = now + self._rto

    def listen(self) -> None:
        """Wait for a SYN."""
        self.state = "listen"

    def send(self, packet: TcpPacket, now: float) -> None:
        """Send a segment of our stream as it is; raises OSError if there is no connection any more.

        Its place, octets, flags, damage, checksum and fragment count; its numbers are those of this connection.  What
        the peer's window has no room for waits, and all that comes behind it.
        """
        self._now = now
        self._check()
        whole = self._own(packet)
        is_ours = not packet.damage and packet.checksum == "right"
        if is_ours and 0 <= packet.start <= self.sent + _FARTHEST:
            if self._waiting or whole.end > self.edge:
                self._waiting.append(whole)
                self._start_timer()
            else:
                self._let_go(whole)
        else:
            self._put(whole)

    def behind(self, octets: bytes) -> TcpPacket:
        """The segment that brings these octets behind all that was handed over."""
        start = max([self.sent, *(packet.end for packet in self._waiting)])
        return self._packet(start, octets, ACK | PSH)

    def forge(self, packet: TcpPacket) -> None:
        """Send a segment that changes nothing here, whatever it is; raises OSError as ``send`` does."""
        self._check()
        self._put(packet)

    def finish(self, now: float) -> None:
        """End our half connection behind what was sent."""
        self._now = now
        if self.state != "established" or self._wants_fin:
            return
        self._wants_fin = True
        self._send_fin()

    def reset(self, now: float) -> None:
        """End the connection by a RST, at the number that the peer expects."""
        self._now = now
        if self.state in ("established", "syn-received"):
            self._put(self._packet(self.acknowledged, b"", RST | ACK))
        last = self.out
        self._end("reset")
        self.out = last

    # --- what comes ---

    def receive(self, seg: Segment, now: float) -> None:
        """A segment of the peer, whose addresses and ports are those of this connection."""
        self._now = now
        if self.state in ("closed", "reset", "lost"):
            return
        if self.state == "listen":
            self._take_syn(seg)
        elif self.state == "syn-sent":
            self._take_answer(seg)
        else:
            self._take(seg)

    def _take_syn(self, seg: Segment) -> None:
        if seg.flags & (SYN | ACK | RST) != SYN:
            return
        self._hear(seg)
        self.state = "syn-received"
        self._opened = self._now
        self._put(self._packet(-1, b"", SYN | ACK))
        self._timer = self._now + self._rto

    def _take_answer(self, seg: Segment) -> None:
        if not seg.flags & ACK or not 0 <= self._offset(seg.ack) <= max(self.sent, 0):
            return
        if seg.flags & RST:
            self._end("reset")
        elif seg.flags & SYN:
            self._hear(seg)
            self._stand(seg)
            self._acknowledge()
            for packet in self._unacknowledged.values():
                self._put(self._again(packet))
            self._start_timer()

    def _hear(self, syn: Segment) -> None:
        """What the peer's SYN says."""
        self.half.peer.isn = syn.seq
        said = announced(syn)
        if said is not None:
            self._peer_mss = max(said.mss, _LEAST_MSS) if said.mss else _USUAL_MSS
            self._has_stamps = self._has_stamps and said.timestamps
            self._shift = said.shift if said.shift is not None else 0
        else:
            self._has_stamps = False
        self._recent = self._stamp(syn) or 0

    def _stand(self, seg: Segment) -> None:
        """The connection stands."""
        self.state = "established"
        self._rto = max(_LEAST_RTO, _ROUND_TRIPS * (self._now - self._opened))
        self._timer, self._tries = None, 0
        self.acknowledged = max(0, self._offset(seg.ack))
        shift = 0 if seg.flags & SYN else self._shift
        self.edge = self.acknowledged + ((window_of(seg) or 0) << shift)
        self._drop_acknowledged()

    def _take(self, seg: Segment) -> None:
        start = unwrap(seg.seq, self.received, self.half.peer.seq(0))
        if seg.flags & RST:
            # Only the next number is believed (RFC 5961 §3.2).
            if start == self.received:
                self._end("reset")
            elif self.received < start < self.received + OFFERED:
                self._acknowledge()
            return
        if seg.flags & SYN:
            self._acknowledge_syn()
            return
        if not seg.flags & ACK or start > self.received + OFFERED:
            return
        stamp = self._stamp(seg)
        if self._has_stamps and stamp is not None:
            if seq_diff(stamp, self._recent) < 0:
                self._acknowledge()
                return
            if start <= self.received:
                self._recent = stamp
        if self.state == "syn-received" and self._offset(seg.ack) >= 0:
            self._stand(seg)
        self._take_acknowledgement(seg)
        self._take_octets(seg, start)

    def _acknowledge_syn(self) -> None:
        """A SYN in a connection that stands, or is about to: the answer to the first one was lost, or it is forged."""
        if self.state == "syn-received":
            self._put(self._packet(-1, b"", SYN | ACK))
        else:
            self._acknowledge()

    def _take_acknowledgement(self, seg: Segment) -> None:
        ack = self._offset(seg.ack)
        if ack > self.sent + (self._fin is not None) or ack < 0:
            return
        self.sacked = [
            (first, last)
            for one, two in sacked_by(seg)
            if ack < (first := self._offset(one)) < (last := self._offset(two)) <= self.sent
        ]
        self.most_sacked = max(self.most_sacked, sum(last - first for first, last in set(self.sacked)))
        if ack > self.acknowledged:
            self.acknowledged = ack
            self._duplicates = self._tries = 0
            self._drop_acknowledged()
            self._timer = None
            self._start_timer()
        elif ack == self.acknowledged and seg.length == 0 and not seg.flags & FIN and self._unacknowledged:
            self._duplicates += 1
            if self._duplicates == _DUPLICATES:
                self._repeat_first()
        if ack >= self.acknowledged:
            self.edge = ack + ((window_of(seg) or 0) << self._shift)
            self._flush()

    def _drop_acknowledged(self) -> None:
        ack = self.acknowledged
        self._unacknowledged = {at: one for at, one in self._unacknowledged.items() if one.end > ack}

    def _take_octets(self, seg: Segment, start: int) -> None:
        octets = bytes(seg.buffer[seg.start : seg.end])
        end = start + len(octets)
        if seg.flags & FIN and self._peer_fin is None and start >= 0:
            self._peer_fin = end
        if not octets and not seg.flags & FIN:
            if start < self.received:
                # A keep-alive is answered (RFC 9293 §3.8.4).
                self._acknowledge()
            return
        room = self.received + OFFERED - start
        if octets and end > self.received and room > 0:
            held = self._beyond.get(start)
            known = sum(map(len, self._beyond.values()))
            if (held is None or len(held) < len(octets)) and (start <= self.received or known < 2 * OFFERED):
                self._beyond[start] = octets[:room]
        self._join()
        self._acknowledge()

    def _join(self) -> None:
        """Hand on what is in order now."""
        for start in sorted(self._beyond):
            if start > self.received:
                break
            octets = self._beyond.pop(start)[self.received - start :]
            self.incoming += octets
            self.received += len(octets)
        if self._peer_fin is not None and self.received >= self._peer_fin:
            self.is_ended = True

    # --- time ---

    def tick(self, now: float) -> None:
        """So late it is: send again what was not acknowledged in time."""
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
            # The peer may have let go of what it has acknowledged selectively (RFC 2018 §8).
            self.sacked = []
            for packet in self._unacknowledged.values():
                self._put(self._again(packet))
            if self._is_fin_missing:
                self._put(self._packet(self._fin or 0, b"", FIN | ACK))
            if self._waiting and not self._unacknowledged:
                # What is the window? An octet that the peer has is answered (RFC 9293 §3.8.6.1).
                self._put(self._packet(self.acknowledged - 1, b"", ACK))
        self._timer = now + self._rto

    @property
    def _is_fin_missing(self) -> bool:
        return self._fin is not None and self.acknowledged <= self._fin

    def _start_timer(self) -> None:
        if self._timer is None and (self._unacknowledged or self._waiting or self._is_fin_missing):
            self._timer = self._now + self._rto

    def _repeat_first(self) -> None:
        """The peer lacks the next octets, and has what follows."""
        found = self._unacknowledged.get(self.acknowledged)
        if found is not None:
            self._put(self._again(found))

    # --- what goes out ---

    def _let_go(self, packet: TcpPacket) -> None:
        """Send a segment of the stream, and remember it until it is acknowledged."""
        self._put(packet)
        self._keep(packet)

    def _keep(self, packet: TcpPacket) -> None:
        self.sent = max(self.sent, packet.end)
        if not packet.payload or packet.end <= self.acknowledged:
            return
        # Of copies that differ the first one counts; a longer one brings what is new behind it.
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
        while self._waiting and self._waiting[0].end <= self.edge:
            self._let_go(self._waiting.pop(0))
        self._send_fin()

    def _send_fin(self) -> None:
        if self._wants_fin and self._fin is None and not self._waiting:
            self._fin = self.sent
            self._put(self._packet(self.sent, b"", FIN | ACK))
            self._start_timer()

    def _acknowledge(self) -> None:
        self._put(self._packet(self.sent + (self._fin is not None), b"", ACK))

    def _again(self, packet: TcpPacket) -> TcpPacket:
        return self._own(packet)._replace(is_again=True, piece=None)

    def _packet(self, start: int, octets: bytes, flags: int) -> TcpPacket:
        return self._own(TcpPacket(0, self.half, start, octets, None, flags, 0, b"", 0))

    def _own(self, packet: TcpPacket) -> TcpPacket:
        """A packet with the numbers of this connection."""
        flags = packet.flags & (SYN | ACK | PSH | FIN | RST)
        self._identification += 1
        return packet._replace(
            time=round(self._now * 1e9),
            half=self.half,
            ack=self.received + self.is_ended if flags & ACK else None,
            flags=flags,
            window=WINDOW,
            options=self.options(flags),
            identification=self._identification,
        )

    def options(self, flags: int = ACK, older: int = 0) -> bytes:
        """TCP's options as we send them now, with a timestamp that is ``older`` by so many milliseconds."""
        stamps = b""
        if self._has_stamps:
            tick = (_FIRST_TICK + int(self._now * _TICKS_A_SECOND) - older) & SEQ_MASK
            stamps = TIMESTAMPS.pack(1, 1, 8, 10, tick, self._recent if flags & ACK else 0)
        if not flags & SYN:
            return stamps
        scale = struct.pack("!BBBB", 1, 3, 3, min(WINDOW_SHIFT, LARGEST_SHIFT))
        return struct.pack("!BBH", 2, 4, self._mss) + b"\x01\x01" + _SACK_PERMITTED + stamps + scale

    def _put(self, packet: TcpPacket) -> None:
        if self.state not in ("reset", "lost"):
            self.out.append(packet)

    def take_out(self) -> Iterator[TcpPacket]:
        """The packets that are to be sent, once each."""
        packets, self.out = self.out, []
        yield from packets

    # --- numbers ---

    def _offset(self, ack: int) -> int:
        """The offset in our stream of a sequence number near what was acknowledged last."""
        return unwrap(ack, self.acknowledged, self.half.seq(0))

    def _stamp(self, seg: Segment) -> int | None:
        tsval, _ = timestamps_of(seg)
        return tsval if tsval >= 0 else None

    def _check(self) -> None:
        if self.state == "lost":
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        if self.state != "established":
            raise ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))

    def _end(self, state: Literal["reset", "lost"]) -> None:
        """Nothing is sent any more."""
        self.state = state
        self._timer = None
        self._unacknowledged.clear()
        self._waiting.clear()
        self.out = []
