"""The segments of connections, read again: where their octets lie, and what they acknowledge.

An analysis keeps what came of FPDUs, not the segments that brought them. Whoever draws or counts these reads the
capture a second time; which octets a frame brought first is what the receiver says about it (``frames`` of an FPDU's
record). Some 30 octets of memory a segment.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator

from scapy_mpa.capture.index import take_out
from scapy_mpa.framing.role import ROLES, Role, peer_of
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff, unwrap
from scapy_mpa.report.connection import Connection
from scapy_mpa.report.half import HalfConnection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.options import Announced, announced, window_of
from scapy_mpa.values.segment import ACK_FLAG, FIN, RST, SYN, Segment

_SIGNS = ((SYN, "SYN"), (FIN, "FIN"), (RST, "RST"))


class Part(NamedTuple):
    """A number of octets of an FPDU, and the frame that first carried them."""

    frame: int
    octets: int


class Sign(NamedTuple):
    """Segments with one TCP control bit: the first one, its time (nanoseconds since the epoch), the last, how many."""

    frame: int
    time: int
    last_frame: int
    segments: int


class HalfTrack:
    """The segments of one half connection, in the order of capture.

    Offsets count from the first octet of Full Operation; of the startup frame and before they are negative.

    Attributes:
        frames: of each segment, ascending; also those of the startup frames, which bring nothing.
        times: nanoseconds since the epoch.
        starts: offset of the first octet.
        lengths: octets of payload that were captured.
        acks: of what the peer acknowledges: frame, time, offset up to which it has everything, and the offset up to
            which it lets its peer send, -1 where that is not known.
        signs: of the segments with SYN, FIN or RST, by that name.
    """

    __slots__ = (
        "_highest",
        "_origin",
        "ack_edges",
        "ack_frames",
        "ack_times",
        "acks",
        "frames",
        "lengths",
        "signs",
        "starts",
        "times",
    )

    def __init__(self, half: HalfConnection) -> None:
        self.frames, self.times = array("Q"), array("q")
        self.starts, self.lengths = array("q"), array("I")
        self.ack_frames, self.ack_times = array("Q"), array("q")
        self.acks, self.ack_edges = array("q"), array("q")
        self.signs: dict[str, Sign] = {}
        self._origin = half.seq_start if half.seq_start is not None else 0
        self._highest = 0

    def take(self, seg: Segment) -> None:
        """A segment with octets."""
        start = unwrap(seg.seq + bool(seg.flags & SYN) & SEQ_MASK, self._highest, self._origin)
        length = seg.end - seg.start
        self._highest = max(self._highest, start + length)
        self._add(seg.frame, seg.time, start, length)

    def pass_frame(self, frame: int, time: int) -> None:
        """A frame of the other direction, after which more can be placed."""
        self._add(frame, time, self._highest, 0)

    def _add(self, frame: int, time: int, start: int, length: int) -> None:
        self.frames.append(frame)
        self.times.append(time)
        self.starts.append(start)
        self.lengths.append(length)

    def acknowledge(self, seg: Segment, ack: int, edge: int) -> None:
        """The peer acknowledges octets up to a sequence number, and offers a window up to another, -1 if unknown."""
        offset = unwrap(ack, self._highest, self._origin)
        self.ack_frames.append(seg.frame)
        self.ack_times.append(seg.time)
        self.acks.append(offset)
        self.ack_edges.append(unwrap(edge, offset, self._origin) if edge >= 0 else -1)

    def sign(self, seg: Segment) -> None:
        """Note a segment with SYN, FIN or RST."""
        for bit, name in _SIGNS:
            if seg.flags & bit:
                first = self.signs.get(name, Sign(seg.frame, seg.time, seg.frame, 0))
                self.signs[name] = first._replace(last_frame=seg.frame, segments=first.segments + 1)

    def index_of(self, frame: int) -> int:
        """The place of a frame among :attr:`frames`, or of the next one there."""
        return bisect_left(self.frames, frame)

    def parts(self, frames: Iterable[int], offset: int, length: int) -> Iterator[Part]:
        """Yield which frame brought how many octets of an FPDU, given those that brought some first."""
        missing = [(0, length)]
        for frame in frames:
            index = self.index_of(frame)
            if index == len(self.frames) or self.frames[index] != frame:
                continue
            start = self.starts[index] - offset
            taken = take_out(missing, start, start + self.lengths[index])
            if taken:
                yield Part(frame, sum(end - first for first, end in taken))


class _Acknowledging:
    """What one side acknowledges, and how far it lets its peer send (RFC 9293 §3.8.6, RFC 7323 §2.2).

    ``ack`` is the highest acknowledgement number, ``edge`` the highest end of a window; -1 if not known.
    """

    def __init__(self) -> None:
        self.announced: Announced | None = None
        self.ack = self.edge = -1

    def receive(self, seg: Segment, peer: Announced | None) -> None:
        """Take a segment that it sent; ``peer`` is what the SYN of the other side announced."""
        if seg.flags & SYN:
            self.announced = announced(seg) or self.announced
        if not seg.flags & ACK_FLAG:
            return
        if seg.ack and (self.ack <= 0 or seq_diff(seg.ack, self.ack) > 0):
            self.ack = seg.ack
        window, mine = window_of(seg), self.announced
        if window is None or (not window and self.edge < 0):
            return
        if not seg.flags & SYN and mine is not None and peer is not None and peer.shift is not None:
            window <<= mine.shift or 0
        edge = (seg.ack + window) & SEQ_MASK
        if self.edge < 0 or seq_diff(edge, self.edge) > 0:
            self.edge = edge


class _Follower:
    """A connection while its segments are read again."""

    __slots__ = ("_first", "_halves", "_last", "_said", "_startup", "_wants_acks", "tracks")

    def __init__(self, connection: Connection, wants_acks: bool) -> None:
        self._first, self._last = connection.lifecycle.first[0], connection.lifecycle.last[0]
        self._startup = {connection.request_frame, connection.reply_frame}
        self._wants_acks = wants_acks
        #: What each side acknowledged last, its window as it stands in the header, and SYN.
        self._said: dict[Role, tuple[int, int | None, int]] = {}
        self.tracks = {direction: HalfTrack(connection.half(direction)) for direction in ROLES}
        self._halves = {direction: _Acknowledging() for direction in ROLES}

    def take(self, direction: Role, seg: Segment) -> None:
        """A segment, which may be of another connection on the same addresses and ports."""
        if not self._first <= seg.frame <= self._last:
            return
        other = peer_of(direction)
        if seg.flags & (SYN | FIN | RST):
            self.tracks[direction].sign(seg)
        if seg.end > seg.start:
            self.tracks[direction].take(seg)
        elif seg.frame in self._startup:
            self.tracks[direction].pass_frame(seg.frame, seg.time)
        if seg.frame in self._startup:
            self.tracks[other].pass_frame(seg.frame, seg.time)
        if self._wants_acks and seg.flags & ACK_FLAG:
            half = self._halves[direction]
            # Whoever sends much says the same with each segment.
            said = seg.ack, window_of(seg), seg.flags & SYN
            if said == self._said.get(direction):
                return
            self._said[direction] = said
            half.receive(seg, self._halves[other].announced)
            edge = half.edge if half.announced is not None else -1
            self.tracks[other].acknowledge(seg, half.ack, edge)
        elif self._wants_acks and seg.flags & SYN:
            self._halves[direction].receive(seg, None)


def tracks(connections: Iterable[Connection], *, acks: bool = False) -> dict[tuple[int, Role], HalfTrack]:
    """The segments of connections of one report, by number and direction.

    ``acks`` says whether acknowledgements are kept as well. Raises :class:`~scapy_mpa.errors.CaptureError` if the
    captures cannot be read again.
    """
    followers = {connection.number: (connection, _Follower(connection, acks)) for connection in connections}
    takers: dict[bytes, list[tuple[Role, _Follower, Connection]]] = {}
    for connection, follower in followers.values():
        for direction in ROLES:
            takers.setdefault(connection.half(direction).key, []).append((direction, follower, connection))
    for connection, _ in followers.values():
        for segments in connection.index.batches():
            for seg in segments:
                for direction, follower, one in takers.get(seg.key, ()):
                    if not one.is_foreign(seg):
                        follower.take(direction, seg)
        break
    return {
        (number, direction): follower.tracks[direction]
        for number, (_, follower) in followers.items()
        for direction in ROLES
    }
