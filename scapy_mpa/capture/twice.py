"""Packets that captures hold twice: two captures of one tap, or one capture of two places on one path.

Two captures of one tap are one; those of two taps are distinguished.
A packet is a copy if a packet in another file is the same from its IP header on, octet for octet, and was captured at
the same time. Each packet of one file has one copy in each other file at most, and none in its own: a retransmission is
there again in every file, and stays. What is alike by addresses, identification and TCP header, but has another TTL
or checksum, or another time, passed two taps: that is counted and changes nothing.

One capture holds each packet twice where a switch mirrors what comes in and what goes out, or where the host captures
on all interfaces: :class:`Repeats`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, TypeAlias

from scapy_mpa.capture.link import Trail, network_layer
from scapy_mpa.capture.notes import Note, Notes
from scapy_mpa.capture.packet import FRAGMENT
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.encapsulation import ETHERTYPE_IPV4, ETHERTYPE_IPV6
from scapy_mpa.values.segment import SYN, Segment

#: Nanoseconds between the times of a packet in two captures of one tap, at most.
SAME_TIME: Final = 1_000_000
#: The same of packets without identification: a retransmission looks alike then, and is later by a round trip.
SAME_TIME_UNNAMED: Final = 100_000
#: Nanoseconds that the clocks of two taps may differ for packets to be seen as alike.
_ALIKE: Final = 1_000_000_000
#: Nanoseconds within which a packet comes twice in one capture, if its identification names it.  What is sent again has
#: another one (RFC 6864 §4).
_TWICE_NAMED: Final = 100_000_000
#: Segments of a capture that are examined in the beginning, and then while copies are found; those that pass before
#: some more are examined: a bound of time.
_LOOK, _LOOK_AGAIN, _PASS = 2048, 128, 1 << 16
#: Packets that are remembered.
_MOST: Final = 1 << 16
#: Of packets that look the same the last ones are compared: a flood of them costs no more than others.
_COPIES: Final = 32
#: Octets of extension headers that are looked across.
_EXTENSIONS: Final = 64

#: What packets that are alike have in common.
_Look: TypeAlias = "tuple[bytes, int, int, int, int, bytes]"


class _Packet(NamedTuple):
    """A packet: what it has in common with those alike, whether that names it, and all of its octets as a hash."""

    look: _Look
    is_named: bool
    octets: int


class _Seen:
    """A packet that was seen: when, its octets as a hash, and in which files."""

    __slots__ = ("files", "octets", "time")

    def __init__(self, time: int, octets: int, file: int) -> None:
        self.time, self.octets, self.files = time, octets, {file}


class _Count:
    """The number of packets, the files of the first, and the frames and times of the first and the last of them."""

    def __init__(self) -> None:
        self.times = self.frame = self.last_frame = self.time = 0
        self.files = (0, 0)
        self.is_mixed = False

    def add(self, seg: Segment, file: int, other: int) -> None:
        if not self.times:
            self.frame, self.time, self.files = seg.frame, seg.time, (file, other)
        self.is_mixed = self.is_mixed or {file, other} != {*self.files}
        self.times += 1
        self.last_frame = seg.frame

    def note(self, rule: str, names: Sequence[str], what: str) -> Note:
        first, second = (names[file] for file in sorted(self.files))
        where = f"{first} and {second}" + (", and in others" if self.is_mixed else "")
        said = f"{self.times} packet{'' if self.times == 1 else 's'} of {where} {what}"
        return Note(rule, self.frame, self.last_frame, self.time, 1, said)


class PacketsTwice:
    """Sees the packets of several captures, by the time of capture, and knows which were there before.

    Args:
        spans: the times of the first and the last record of each file, None where they are not known.
    """

    def __init__(self, spans: Sequence[tuple[int | None, int | None]]) -> None:
        self._spans = spans
        #: Of files, whether both were captured for some time together; the time of the first packet of each.
        self._together: dict[tuple[int, int], bool | None] = {}
        self._firsts: dict[int, int] = {}
        self._seen: dict[_Look, list[_Seen]] = {}
        self._order: deque[tuple[int, _Look]] = deque()
        self._copies, self._alike = _Count(), _Count()

    def is_copy(self, seg: Segment, file: int) -> bool:
        """Return True if a segment, or a fragment, of a file is a copy of one in another file."""
        packet = _packet(seg)
        if packet is None:
            return False
        self._forget(seg.time)
        look, is_named, octets = packet
        self._firsts.setdefault(file, seg.time)
        there = self._seen.get(look)
        if there is None:
            there = self._seen[look] = []
        most = SAME_TIME if is_named else SAME_TIME_UNNAMED
        near = [one for one in there[-_COPIES:] if file not in one.files and self._overlap(file, one)]
        for one in near:
            if one.octets == octets and abs(seg.time - one.time) <= most:
                self._copies.add(seg, file, min(one.files))
                one.files.add(file)
                return True
        if is_named:
            for one in near[:1]:
                self._alike.add(seg, file, min(one.files))
                one.files.add(file)
        there.append(_Seen(seg.time, octets, file))
        self._order.append((seg.time, look))
        return False

    def notes(self, names: Sequence[str]) -> list[Note]:
        """Return notes about them; ``names`` are those of the files."""
        found = []
        if self._copies.times:
            what = "are identical: both captures are from one tap; each packet counts once"
            found.append(self._copies.note("capture-twice", names, what))
        if self._alike.times:
            what = "are similar, but differ in octets or time: captures from two taps; they count as retransmissions"
            found.append(self._alike.note("capture-taps", names, what))
        return found

    def _overlap(self, file: int, one: _Seen) -> bool:
        """Return True if a file was captured when one of those was that a packet is in.

        Else the packet went by twice: what one file of a rotation ends with may come again in the next.
        """
        other = min(one.files)
        if (file, other) not in self._together:
            (first, last), (their_first, their_last) = self._spans[file], self._spans[other]
            known: bool | None = None
            if first is not None and last is not None and their_first is not None and their_last is not None:
                both = min(last, their_last) - max(first, their_first)
                known = both > min(SAME_TIME, (last - first) // 2, (their_last - their_first) // 2)
            self._together[file, other] = known
        known = self._together[file, other]
        return self._firsts[file] < one.time if known is None else known

    def _forget(self, now: int) -> None:
        order = self._order
        while order and (order[0][0] < now - _ALIKE or len(order) >= _MOST):
            look = order.popleft()[1]
            there = self._seen[look]
            del there[0]
            if not there:
                del self._seen[look]


class _Sender:
    """A direction in which packets may come twice: how many came, and how many of them again."""

    __slots__ = ("is_named", "name", "packets", "twice")

    def __init__(self, name: bytes) -> None:
        self.name = name
        #: True if its packets differ in identification.
        self.is_named = False
        self.packets = self.twice = 0


class Repeats:
    """Leaves out what one capture holds twice; in the middle of others only now and then, unless there is such.

    A copy has the octets from the TCP header on that another packet had just before; what a router or a switch changes
    below (TTL, checksum, addresses of Ethernet, tags) may differ.  Half of the packets that its sender sent before must
    have come twice, too: a mirror loses some, while the network doubles a few, and hosts send some again, perhaps one
    of them many times.  What has neither octets nor an identification is often sent again at once, and is a copy only
    where others are.

    Args:
        notes: takes one note of all copies.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._senders: dict[bytes, _Sender] = {}
        #: When a packet was seen, how many came before it from its sender, and whether it came again.
        self._seen: dict[int, tuple[int, int, bool]] = {}
        self._order: deque[tuple[int, int]] = deque()
        self._now = 0
        #: Segments that are examined until it is decided whether to go on, copies among them, those that pass unseen.
        self._left, self._found, self._pass = _LOOK, 0, 0
        self._has_copies = False

    def without(self, segments: list[Segment]) -> list[Segment]:
        """The segments that are no copies."""
        if len(segments) <= self._pass:
            self._pass -= len(segments)
            return segments
        found = segments[: self._pass]
        rest, self._pass = segments[self._pass :], 0
        for at, seg in enumerate(rest):
            if not self._is_copy(seg):
                found.append(seg)
            self._left -= 1
            if self._left:
                continue
            if self._found:
                self._left, self._found = _LOOK, 0
                continue
            self._left, self._pass = _LOOK_AGAIN, _PASS
            self._senders.clear()
            return found + self.without(rest[at + 1 :])
        return found

    def _is_copy(self, seg: Segment) -> bool:
        tcp, key, buffer, length, time = seg.tcp, seg.key, seg.buffer, seg.length, seg.time
        if tcp < 0:
            return False
        at = _ip_header(seg) if len(key) == 12 else None
        name = b"" if at is None else bytes(buffer[at + 4 : at + 6])
        look = hash((key, name, length, bytes(buffer[tcp : seg.end])))
        self._forget(time)
        sender = self._senders.get(key)
        if sender is None:
            if len(self._senders) >= _MOST:
                self._senders.clear()
            sender = self._senders[key] = _Sender(name)
        is_named = sender.is_named and any(name)
        most = _TWICE_NAMED if is_named else SAME_TIME
        seen = self._seen.get(look)
        if seen is not None and time - seen[0] <= most:
            since, before, is_again = seen
            is_telling = is_named or length or seg.flags & SYN
            is_copy = 2 * sender.twice >= before and bool(is_telling or self._has_copies)
            sender.twice += not is_again
            if is_named:
                self._seen[look] = since, before, True
            else:
                # What is alike and comes after the copy is another packet.
                del self._seen[look]
            if is_copy:
                self._has_copies = True
                self._found += 1
                self._notes.add("capture-twice", seg.frame, time, "a copy of the packet just before; it counts once")
            return is_copy
        self._seen[look] = time, sender.packets, False
        self._order.append((time, look))
        sender.packets += 1
        sender.is_named |= name != sender.name
        return False

    def _forget(self, now: int) -> None:
        order, seen = self._order, self._seen
        if now < self._now - SAME_TIME:
            # Another capture was put after, or a clock was set.
            order.clear()
            seen.clear()
        self._now = now
        while order and (order[0][0] < now - _TWICE_NAMED or len(order) >= _MOST):
            time, look = order.popleft()
            if seen.get(look, (-1,))[0] == time:
                del seen[look]


def _packet(seg: Segment) -> _Packet | None:
    """Return what distinguishes the packet of a segment from others; None where its IP header is not available."""
    if seg.tcp == FRAGMENT:
        return _fragment(seg)
    if seg.tcp < 0:
        return None
    at = _ip_header(seg)
    if at is None:
        return None
    octets = seg.buffer
    name = bytes(octets[at + 4 : at + 6]) if octets[at] >> 4 == 4 else b""
    look = seg.key, seg.seq, seg.ack, seg.flags, seg.length, name
    return _Packet(look, any(name), hash(bytes(octets[at : seg.end])))


def _ip_header(seg: Segment) -> int | None:
    """Return where the IP header before a TCP header begins."""
    octets, tcp = seg.buffer, seg.tcp
    addresses = seg.key[:-4]
    if len(addresses) == 8:
        for words in range(5, min(15, tcp // 4) + 1):
            at = tcp - 4 * words
            if octets[at] == 0x40 | words and octets[at + 12 : at + 20] == addresses:
                return at
    else:
        for at in range(tcp - 40, max(0, tcp - 40 - _EXTENSIONS) - 1, -8):
            if octets[at] >> 4 == 6 and octets[at + 8 : at + 40] == addresses:
                return at
    return None


def _fragment(seg: Segment) -> _Packet | None:
    """The same of a fragment, or of what ESP seals, which stands for its whole frame."""
    octets = seg.buffer
    layer = network_layer(seg.seq, octets, seg.start, seg.end, Trail())
    if layer is None or layer[0] not in (ETHERTYPE_IPV4, ETHERTYPE_IPV6) or seg.end - layer[1] < 20:
        return None
    is_ipv4, at = layer[0] == ETHERTYPE_IPV4, layer[1]
    field = at + (2 if is_ipv4 else 4)
    length = int.from_bytes(octets[field : field + 2], "big") + (0 if is_ipv4 else 40)
    whole = bytes(octets[at : min(seg.end, at + length)])
    # What a fragment is of has an identification; without it in the look, none is alike but the same.
    return _Packet((whole[:48], 0, 0, 0, length, b""), is_ipv4 and any(whole[4:6]), hash(whole))
