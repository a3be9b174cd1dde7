"""MPA conversations over a small TCP, and how one observer between both sides captures them.

Written from RFC 5044 §4 and §7.1, RFC 9293 §3.4 and §3.10, and RFC 7323 §2 and §5; nothing of the package is used, so
that whoever is tested here cannot share a mistake with the test.

Two `Host`s run the MPA startup and send FPDUs to each other in simulated time (seconds), over a network that delays,
loses and reorders. Every segment passes the observer at some distance from each host; what it sees, in that order, is
the capture. Sequence numbers are relative and never wrap here: the SYN has 0, the first octet of data 1. `frame_of`
adds the initial ones, modulo 2^32.
"""

from __future__ import annotations

import heapq
import random
import struct
from collections.abc import Callable, Iterable
from typing import NamedTuple

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
MARKER_INTERVAL = 512
#: Segments in a row that a host may have under way, whatever the window (there is no congestion control).
_FLIGHT = 12
#: Seconds before what is not acknowledged is sent again, and before an acknowledgement is no longer put off.
_RTO, _DELAYED = 0.4, 0.03
#: Steps of a conversation before it is given up as one that goes nowhere.
_STEPS = 6000


def _crc_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32c(octets: bytes) -> int:
    """RFC 3720 appendix B.4, as RFC 5044 §4.4 has it."""
    value = 0xFFFFFFFF
    for octet in octets:
        value = value >> 8 ^ _TABLE[(value ^ octet) & 0xFF]
    return value ^ 0xFFFFFFFF


class LaidFPDU(NamedTuple):
    """Where an FPDU lies: offsets from the first octet of Full Operation of its half, its Markers included."""

    start: int
    header: int
    end: int
    ulpdu_length: int
    markers: int


def lay_fpdu(ulpdu: bytes, start: int, markers: bool, crc: bool) -> tuple[bytes, LaidFPDU]:
    """An FPDU at an offset, word by word (RFC 5044 §4.1 to §4.4)."""
    body = struct.pack("!H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    out, header, count = bytearray(), -1, 0
    for at in range(0, len(body) + 4, 4):
        here = start + len(out)
        if markers and here % MARKER_INTERVAL == 0:
            out += struct.pack("!HH", 0, 0 if header < 0 else here - header)
            count += 1
        if header < 0:
            header = start + len(out)
        if at < len(body):
            out += body[at : at + 4]
        else:
            out += struct.pack("<I", crc32c(bytes(out)) if crc else 0)
    return bytes(out), LaidFPDU(start, header, start + len(out), len(ulpdu), count)


def send_message(msn: int, size: int, rng: random.Random) -> bytes:
    """An RDMAP Send in one DDP Segment (RFC 5041 §4.3, RFC 5040 §4.3); `size` octets, headers included."""
    return (
        struct.pack("!BBIIII", 0x41, 0x43, 0, 0, msn, 0) + rng.getrandbits(8 * 2048).to_bytes(2048, "big")[: size - 18]
    )


class Plan(NamedTuple):
    """What a conversation is like. Pairs are of side 0, the Initiator, who sends the SYN, and side 1."""

    seed: int = 0
    isn: tuple[int, int] = (1000, 5000)
    #: Octets of the ULPDUs each side sends.
    sizes: tuple[tuple[int, ...], tuple[int, ...]] = ((100, 200, 300), (100, 200))
    #: True if each side sends Markers.
    markers: tuple[bool, bool] = (False, False)
    crc: bool = True
    private: tuple[int, int] = (0, 0)
    #: Shift counts of the window scale option; used if both are numbers (RFC 7323 §2.2).
    scale: tuple[int | None, int | None] = (7, 7)
    timestamps: bool = True
    clock: tuple[int, int] = (1_000_000, 77_000_000)
    mss: int = 536
    #: Octets each side's receive buffer holds.
    buffers: tuple[int, int] = (65536, 65536)
    #: Seconds the application takes to read what arrived; 0: at once.
    reading: tuple[float, float] = (0.0, 0.0)
    #: Segments begin with an FPDU ("aligned"), hold what fits ("packed"), or end anywhere ("odd").
    segmentation: str = "aligned"
    delayed: bool = True
    #: Chances of a segment: lost before the observer, lost behind, held up.
    lost: tuple[float, float] = (0.0, 0.0)
    late: float = 0.0
    #: True if what is sent again is cut otherwise.
    recut: bool = False
    #: Seconds from each side to the observer.
    distance: tuple[float, float] = (0.001, 0.004)
    #: "fin", "rst" or "open", and whose comes first.
    end: str = "fin"
    closer: int = 0
    ports: tuple[int, int] = (40000, 7471)


class Seg(NamedTuple):
    """A segment. `seq` and `ack` are relative and may be negative in one that an attacker made."""

    side: int
    seq: int
    ack: int
    flags: int
    #: The field in the header, before the window scale.
    window: int
    payload: bytes = b""
    #: TSval and TSecr, as they are in the option.
    stamps: tuple[int, int] | None = None
    #: Shift count that a SYN offers.
    shift: int | None = None
    checksum: str = "right"
    ttl: int = 64

    @property
    def end(self) -> int:
        """Behind its last number; SYN and FIN take one each (RFC 9293 §3.4)."""
        return self.seq + len(self.payload) + bool(self.flags & SYN) + bool(self.flags & FIN)


class Captured(NamedTuple):
    """A segment as the observer saw it. `inserted`: what kind of attack it is, "" if it is real."""

    time: float
    seg: Seg
    inserted: str = ""


class Known(NamedTuple):
    """What one host knows, since a time; numbers of the peer's direction but `sent`.

    `edge`: behind the last octet of the window it advertised. `stamp`: TS.Recent of RFC 7323 §4.3, -1: none yet.
    """

    time: float
    next: int
    edge: int
    stamp: int
    sent: int


class Script:
    """What both sides say: `octets` of each stream from its startup frame on, `begins` of Full Operation in it."""

    def __init__(self, plan: Plan) -> None:
        self.octets: list[bytes] = []
        self.begins: list[int] = []
        self.laid: list[list[LaidFPDU]] = []
        rng = random.Random(plan.seed ^ 0x5C21B7)
        for side in (0, 1):
            # M asks for Markers in what the sender of the frame receives (RFC 5044 §7.1.1).
            flags = 0x80 * plan.markers[1 - side] | 0x40 * (plan.crc and (side == 0 or plan.seed % 2))
            private = bytes(rng.getrandbits(8) for _ in range(plan.private[side]))
            key = b"MPA ID Req Frame" if side == 0 else b"MPA ID Rep Frame"
            frame = key + struct.pack("!BBH", flags, 1, len(private)) + private
            stream, laid = bytearray(), []
            for msn, size in enumerate(plan.sizes[side], 1):
                octets, fpdu = lay_fpdu(send_message(msn, size, rng), len(stream), plan.markers[side], plan.crc)
                stream += octets
                laid.append(fpdu)
            self.octets.append(frame + stream)
            self.begins.append(len(frame))
            self.laid.append(laid)


class Host:
    """One side: its TCP (RFC 9293 §3.10) and the MPA above it."""

    def __init__(self, side: int, world: World) -> None:
        self.side, self.world, self.plan = side, world, world.plan
        self.state = "closed"
        self.stream = world.script.octets[side]
        self.written = 0
        self.una, self.next, self.highest, self.edge = 0, 0, 0, 1
        self.fin_wanted = False
        self.received = 0
        self.beyond: list[tuple[int, int]] = []
        self.fin_at: int | None = None
        self.read = 1
        self.advertised = 0
        self.recent = -1
        self.last_acknowledged = 0
        self.duplicates, self.recover = 0, 0
        self.ticking = 0
        self.owing = 0
        self.release_pending = False
        self.history: list[Known] = []

    # --- what it knows ---

    @property
    def shift(self) -> tuple[int, int]:
        """Shift counts of windows it sends, and of those it receives."""
        mine, other = self.plan.scale[self.side], self.plan.scale[1 - self.side]
        return (0, 0) if mine is None or other is None else (mine, other)

    @property
    def last(self) -> int:
        """Behind all that it will ever send, the FIN not counted."""
        return 1 + len(self.stream)

    def remember(self) -> None:
        self.history.append(Known(self.world.now, self.received, self.advertised, self.recent, self.highest))

    # --- sending ---

    def window(self, syn: bool) -> int:
        shift = 0 if syn else self.shift[0]
        free = max(0, self.plan.buffers[self.side] - (self.received - self.read if self.received else 0))
        field = min(free >> shift, 0xFFFF)
        if self.received + (field << shift) < self.advertised:
            # The right edge does not move to the left (RFC 9293 §3.8.6).
            field = min(-(-(self.advertised - self.received) >> shift), 0xFFFF)
        self.advertised = max(self.advertised, self.received + (field << shift))
        return field

    def send(self, seq: int, payload: bytes = b"", flags: int = ACK) -> None:
        plan, syn = self.plan, bool(flags & SYN)
        stamps = None
        if plan.timestamps:
            now = plan.clock[self.side] + int(self.world.now * 1000)
            stamps = (now & 0xFFFFFFFF, max(self.recent, 0) if flags & ACK else 0)
        ack = self.received if flags & ACK else 0
        window = self.window(syn)
        shift = plan.scale[self.side] if syn and (self.side == 0 or plan.scale[0] is not None) else None
        seg = Seg(self.side, seq, ack, flags, window, payload, stamps, shift)
        self.next, self.highest = max(self.next, seg.end), max(self.highest, seg.end)
        if flags & ACK:
            self.last_acknowledged, self.owing = ack, 0
        self.remember()
        self.world.carry(seg)

    def acknowledge(self) -> None:
        self.send(self.next)

    def cut(self, seq: int) -> bytes:
        """The payload of a new segment at `seq`."""
        at, limit = seq - 1, min(self.written, self.edge - 1, seq - 1 + self.plan.mss)
        if self.plan.segmentation == "odd" and limit - at > 8:
            limit -= self.world.rng.randrange((limit - at) // 2)
        elif self.plan.segmentation != "odd":
            begin = self.world.script.begins[self.side]
            ends = [begin, *(begin + f.end for f in self.world.script.laid[self.side])]
            inside = [end for end in ends if at < end <= limit]
            if inside:
                limit = inside[0] if self.plan.segmentation == "aligned" else inside[-1]
        return self.stream[at:limit]

    def push(self) -> None:
        """Send what the window allows."""
        flying = 0
        while self.next - 1 < self.written and self.next < self.edge and flying < _FLIGHT:
            payload = self.cut(self.next)
            if not payload:
                break
            self.send(self.next, payload)
            flying += 1
        if self.fin_wanted and self.next == self.last and self.written == len(self.stream):
            self.send(self.next, flags=FIN | ACK)
        if self.una < self.next:
            self.tick()

    def tick(self) -> None:
        if not self.ticking:
            self.ticking = 1
            self.world.after(_RTO, self.expire, self.una)

    def expire(self, una: int) -> None:
        self.ticking = 0
        if self.state in ("closed", "gone") or self.una >= self.next:
            return
        if self.una == una:
            self.recover = self.next
            self.again()
        self.tick()

    def again(self) -> None:
        """Send the first octets that are not acknowledged once more."""
        if self.una == 0:
            self.send(0, flags=SYN if self.state == "syn-sent" else SYN | ACK)
            return
        limit = min(self.written, self.una - 1 + self.plan.mss, self.next - 1)
        if self.plan.recut and limit - self.una > 4:
            limit -= self.world.rng.randrange((limit - self.una) // 2)
        payload = self.stream[self.una - 1 : limit]
        if payload:
            self.send(self.una, payload)
        elif self.una == self.last and self.fin_wanted:
            self.send(self.una, flags=FIN | ACK)

    # --- receiving (RFC 9293 §3.10.7) ---

    def receive(self, seg: Seg, place: int) -> None:
        if self.state == "closed":
            if self.side == 1 and seg.flags & (SYN | ACK | RST) == SYN:
                self.state, self.received = "syn-received", 1
                self.note_stamp(seg)
                self.edge = 1 + seg.window
                self.send(0, flags=SYN | ACK)
                self.tick()
            return
        if self.state == "gone":
            return
        if self.state == "syn-sent":
            if seg.flags & (SYN | ACK) == SYN | ACK and seg.ack == 1:
                self.state, self.received, self.una = "established", 1, 1
                self.note_stamp(seg)
                self.edge = 1 + seg.window
                self.acknowledge()
                self.decide()
            return
        is_old = seg.stamps is not None and not seg.flags & RST and seg.stamps[0] < self.recent
        self.world.judged_old[place] = is_old
        if is_old:
            self.acknowledge()
            return
        room = self.advertised - self.received
        length = seg.end - seg.seq
        inside = self.received <= seg.seq < self.advertised or (length == 0 and room == 0 and seg.seq == self.received)
        if length and room:
            inside |= self.received <= seg.end - 1 < self.advertised
            inside |= seg.seq < self.received and seg.end > self.advertised
        if not inside or (length and not room):
            if seg.flags & SYN and self.state == "syn-received":
                self.send(0, flags=SYN | ACK)
            elif not seg.flags & RST:
                self.acknowledge()
            return
        if seg.flags & RST:
            self.state = "gone"
            self.remember()
            return
        if seg.flags & SYN:
            self.acknowledge()
            return
        if not seg.flags & ACK:
            return
        if seg.ack > self.highest:
            self.acknowledge()
            return
        self.note_stamp(seg)
        self.take_ack(seg, length)
        self.take_data(seg)
        self.decide()
        self.remember()

    def note_stamp(self, seg: Seg) -> None:
        """TS.Recent (RFC 7323 §4.3)."""
        if seg.stamps and seg.stamps[0] >= self.recent and seg.seq <= self.last_acknowledged:
            self.recent = seg.stamps[0]

    def take_ack(self, seg: Seg, length: int) -> None:
        if self.state == "syn-received" and seg.ack >= 1:
            self.state = "established"
        self.edge = max(self.edge, seg.ack + (seg.window << self.shift[1]))
        if seg.ack > self.una:
            self.una, self.duplicates = seg.ack, 0
            if self.una < self.recover:
                self.again()
        elif seg.ack == self.una and self.una < self.next and not length:
            self.duplicates += 1
            if self.duplicates == 3:
                self.recover = self.next
                self.again()

    def take_data(self, seg: Seg) -> None:
        if seg.end == seg.seq:
            return
        if seg.flags & FIN:
            self.fin_at = seg.end - 1
        start, end = max(seg.seq, self.received), min(seg.end, self.advertised)
        before = self.received
        self.beyond = sorted([*self.beyond, (start, end)])
        while self.beyond and self.beyond[0][0] <= self.received:
            self.received = max(self.received, self.beyond.pop(0)[1])
        if self.received > before and not self.plan.reading[self.side]:
            self.read = self.received
        elif self.received > before and not self.release_pending:
            self.release_pending = True
            self.world.after(self.plan.reading[self.side], self.consume)
        self.owing += 1
        at_once = self.beyond or self.received == before or self.owing > 1 or seg.flags & FIN or not self.plan.delayed
        if at_once:
            self.acknowledge()
        else:
            self.world.after(_DELAYED, self.put_off)

    def put_off(self) -> None:
        if self.owing and self.state != "gone":
            self.acknowledge()

    def consume(self) -> None:
        """The application reads; the window opens."""
        self.release_pending = False
        self.read = self.received
        if self.state != "gone":
            self.acknowledge()

    # --- the application (RFC 5044 §7.1.2, §7.1.3, §7.2) ---

    def decide(self) -> None:
        script, side = self.world.script, self.side
        if self.state != "established":
            return
        got, begin = self.received - 1, script.begins[side]
        theirs = script.begins[1 - side]
        if self.written == 0 and (side == 0 or got >= theirs):
            self.written = begin
        elif self.written == begin < len(self.stream):
            first = script.laid[0][0].end if side == 1 and script.laid[0] else 0
            if got >= theirs + first:
                self.write()
        self.push()
        self.finish()

    def write(self) -> None:
        """Some FPDUs more, then some later."""
        laid, begin = self.world.script.laid[self.side], self.world.script.begins[self.side]
        ahead = [begin + f.end for f in laid if begin + f.end > self.written]
        if ahead and self.state == "established":
            self.written = ahead[min(self.world.rng.randrange(4), len(ahead) - 1)]
            self.push()
            if self.written < len(self.stream):
                self.world.after(self.world.rng.random() * 0.05, self.write)

    def finish(self) -> None:
        """Close when all is said and heard."""
        if self.plan.end == "open" or self.fin_wanted or self.state != "established":
            return
        done = self.written == len(self.stream) and self.una == self.last
        heard = self.received >= self.world.hosts[1 - self.side].last
        if not done or not heard:
            return
        if self.side == self.plan.closer and self.plan.end == "rst":
            self.world.after(0.05, self.abort)
            self.fin_wanted = True
        elif self.plan.end == "fin" and (self.side == self.plan.closer or self.fin_at is not None):
            self.fin_wanted = True
            self.push()

    def abort(self) -> None:
        self.send(self.last, flags=RST | ACK)
        self.state = "gone"


class World:
    """Both hosts, the network between them, and what the observer captured."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = random.Random(plan.seed)
        self.script = Script(plan)
        self.now = 0.0
        self.captured: list[Captured] = []
        #: By place in the capture, whether the receiver dropped the segment for its timestamp; absent: never arrived.
        self.judged_old: dict[int, bool] = {}
        self._events: list[tuple[float, int, Callable[..., None], tuple[object, ...]]] = []
        self._made = 0
        self.hosts = [Host(0, self), Host(1, self)]

    def after(self, seconds: float, what: Callable[..., None], *args: object) -> None:
        self._made += 1
        heapq.heappush(self._events, (self.now + seconds, self._made, what, args))

    def carry(self, seg: Seg) -> None:
        """From its sender to the observer, and on to the other host."""
        chance = self.rng.random
        if chance() >= self.plan.lost[0]:
            self.after(self.delay(seg.side), self.pass_observer, seg)

    def pass_observer(self, seg: Seg) -> None:
        self.captured.append(Captured(self.now, seg))
        if self.rng.random() >= self.plan.lost[1]:
            place = len(self.captured) - 1
            self.after(self.delay(1 - seg.side), self.hosts[1 - seg.side].receive, seg, place)

    def delay(self, side: int) -> float:
        held = 0.02 * self.rng.random() if self.rng.random() < self.plan.late else 0.0
        return self.plan.distance[side] + held

    def run(self) -> bool:
        """Return True if the conversation came to its end."""
        client = self.hosts[0]
        client.state = "syn-sent"
        client.send(0, flags=SYN)
        client.tick()
        for _ in range(_STEPS):
            if not self._events:
                break
            self.now, _, what, args = heapq.heappop(self._events)
            what(*args)
        return not self._events and all(host.received >= self.hosts[1 - host.side].last for host in self.hosts)


def old_places(world: World) -> set[int] | None:
    """Places of real segments that were dropped for their timestamps: the network may hold one up until it is old.

    None where the order at the observer and that at the receiver leave open which: what is older than a timestamp that
    the receiver had echoed is old, what is not older than any that may have been taken is not; between them it must
    have decided as one at the observer's place would (RFC 7323 §5.3).
    """
    old: set[int] = set()
    if not world.plan.timestamps:
        return old
    echoed, recent, youngest = [-1, -1], [-1, -1], [-1, -1]
    seen = [_Order(), _Order()]
    for place, (_, seg, _) in enumerate(world.captured):
        side, stamps = seg.side, seg.stamps
        assert stamps is not None
        if seg.flags & ACK:
            echoed[1 - side] = max(echoed[1 - side], stamps[1])
        is_old = stamps[0] < echoed[side]
        if not is_old and stamps[0] < youngest[side] and not seg.flags & RST:
            is_old = stamps[0] < recent[side]
            if seen[side].brings(seg.seq, seg.end) and world.judged_old.get(place) != is_old:
                return None
        if is_old and not seg.flags & RST:
            old.add(place)
            continue
        in_order = seg.seq <= seen[side].next
        if in_order:
            youngest[side] = max(youngest[side], stamps[0])
            if seg.end >= seen[side].next:
                recent[side] = max(recent[side], stamps[0])
        seen[side].add(seg.seq, seg.end)
    return old


class _Order:
    """What was seen of one direction: all below `next`, and parts beyond."""

    def __init__(self) -> None:
        self.next = 0
        self._beyond: set[int] = set()

    def brings(self, start: int, end: int) -> bool:
        return any(at >= self.next and at not in self._beyond for at in range(start, end))

    def add(self, start: int, end: int) -> None:
        self._beyond.update(range(max(start, self.next), end))
        while self.next in self._beyond:
            self._beyond.remove(self.next)
            self.next += 1


ADDRESSES = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])


def _sum(octets: bytes) -> int:
    total = int.from_bytes(octets + bytes(len(octets) % 2), "big") % 0xFFFF
    return ~(total or 0xFFFF * any(octets)) & 0xFFFF


def frame_of(seg: Seg, plan: Plan, number: int) -> bytes:
    """The Ethernet frame (RFC 894, RFC 791, RFC 9293 §3.1)."""
    mine, other = seg.side, 1 - seg.side
    options = b""
    if seg.flags & SYN:
        options += struct.pack("!BBH", 2, 4, plan.mss)
        if seg.shift is not None:
            options += struct.pack("!BBBB", 1, 3, 3, seg.shift)
    if seg.stamps is not None:
        options += struct.pack("!BBBBII", 1, 1, 8, 10, seg.stamps[0] & 0xFFFFFFFF, seg.stamps[1] & 0xFFFFFFFF)
    ack = (plan.isn[other] + seg.ack) & 0xFFFFFFFF if seg.flags & ACK else 0
    header = struct.pack(
        "!HHIIBBHHH", plan.ports[mine], plan.ports[other], (plan.isn[mine] + seg.seq) & 0xFFFFFFFF, ack,
        (20 + len(options)) << 2, seg.flags, seg.window & 0xFFFF, 0, 0,
    ) + options  # fmt: skip
    ends = ADDRESSES[mine] + ADDRESSES[other]
    checksum = _sum(ends + struct.pack("!HH", 6, len(header) + len(seg.payload)) + header + seg.payload)
    if seg.checksum == "wrong":
        # Neither right nor zero, nor anything that offloading leaves in the field.
        checksum ^= 0x5A5B if checksum != 0x5A5B else 0x1234
    header = header[:16] + struct.pack("!H", checksum) + header[18:]
    length = 20 + len(header) + len(seg.payload)
    ip = struct.pack("!BBHHHBBH", 0x45, 0, length, number & 0xFFFF, 0x4000, seg.ttl, 6, 0) + ends
    ip = ip[:10] + struct.pack("!H", _sum(ip)) + ip[12:]
    macs = b"\2\0\0\0\0" + bytes([2 - mine]) + b"\2\0\0\0\0" + bytes([1 + mine])
    return macs + b"\x08\x00" + ip + header + seg.payload


def pcap_of(captured: Iterable[Captured], plans: Plan | list[Plan]) -> bytes:
    """A classic pcap file in nanoseconds; `plans`: of each captured segment, or of all."""
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1)]
    last = 0
    for number, one in enumerate(captured):
        plan = plans[number] if isinstance(plans, list) else plans
        octets = frame_of(one.seg, plan, number + 1)
        last = max(last + 1000, int(one.time * 1e9) + 1_600_000_000_000_000_000)
        out.append(struct.pack("<IIII", last // 10**9, last % 10**9, len(octets), len(octets)) + octets)
    return b"".join(out)
