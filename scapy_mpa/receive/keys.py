"""Where startup frames begin: the search for a Key in octets that come in any order (RFC 5044 §7.1.1)."""

from __future__ import annotations

from collections.abc import Iterator

from scapy_mpa.framing.startup import (
    KEY_LENGTH,
    KEY_PREFIX,
    REPLY_KEY,
    REQUEST_KEY,
    STARTUP_HEADER_LENGTH,
    decode_startup_frame,
)
from scapy_mpa.receive.mpa import FoundFrame
from scapy_mpa.receive.reassembly import UNANCHORED, Reassembly
from scapy_mpa.receive.waiting import FIRST_LOOK, lay
from scapy_mpa.tcp.half import Half
from scapy_mpa.values.segment import Segment

#: A larger octet where Rev should be is text (a tab, a line feed) rather than a revision of MPA.
LARGEST_REV = 8
#: A SYN captured late may have been sent so many octets before those that were captured first.
_MOST_BEFORE = 1 << 20
#: Places at which a startup frame may begin that are remembered.
_MOST_CANDIDATES = 64
#: So many octets of a Key may be wrong; by chance no more than one in 2^80 begins like that.
_MOST_WRONG = 4
_LONGEST_FRAME = STARTUP_HEADER_LENGTH + 0xFFFF


class KeySearch:
    """What one half connection sends until its startup frame is found, and where that may begin.

    Octets are let go of as soon as they cannot belong to a startup frame.

    Args:
        half: the direction of the TCP connection.
        origin: the sequence number of offset 0.
        anchored: whether it is known that the octets begin there.

    Attributes:
        reassembly: the octets that are held.
        candidates: the places of startup frames that are not complete.
    """

    __slots__ = ("_half", "candidates", "reassembly")

    def __init__(self, half: Half, origin: int, anchored: bool) -> None:
        self._half = half
        self.reassembly = Reassembly(origin, anchored)
        self.candidates: list[int] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing is known of the octets, not even where they begin."""
        return not (self.reassembly.anchored or self.reassembly.pieces or self.candidates)

    @property
    def has_gap(self) -> bool:
        """Whether octets between those captured are missing."""
        return len(self.reassembly.beyond) > (0 if self.reassembly.anchored else 1)

    @property
    def lacks_beginning(self) -> bool:
        """Whether the SYN was captured, but not all of the first octets behind it."""
        stream = self.reassembly
        return stream.anchored and stream.next - stream.base < FIRST_LOOK and bool(stream.beyond)

    # --- what comes ---

    def anchor(self, origin: int) -> bool:
        """Learn from a SYN where the octets begin; False if what was captured cannot belong to it."""
        stream = self.reassembly
        if not stream.pieces:
            self.reassembly = Reassembly(origin, True)
            return True
        offset = stream.offset_of(origin)
        if not -_MOST_BEFORE <= offset <= stream.pieces[0][0]:
            return False
        stream.anchor(offset)
        return True

    def restart(self, origin: int) -> None:
        """Nothing that came before counts, and where what comes now begins is not known."""
        self.reassembly = Reassembly(origin, False)

    def hold_only(self, segments: list[Segment]) -> None:
        """Hold no more octets than those of these segments."""
        self.reassembly = lay(segments, Reassembly(self.reassembly.origin, False))

    def complete(self, first: int, last: int) -> Iterator[int]:
        """Yield where startup frames begin that are complete, now that [first, last) of the stream has come."""
        stream = self.reassembly
        held = stream.range_at(first)
        if held is None:
            return
        low = max(held[0], first - len(KEY_PREFIX) + 1)
        octets = stream.read(low, min(held[1], last + len(KEY_PREFIX) - 1))
        at = octets.find(KEY_PREFIX)
        candidates = set(self.candidates)
        while at >= 0:
            candidates.add(low + at)
            at = octets.find(KEY_PREFIX, at + 1)
        if not candidates:
            return
        self.candidates = []
        covered = UNANCHORED
        for offset in sorted(candidates):
            extent = self._extent(offset)
            # What stands in a startup frame begins none.
            if extent is None or offset < covered:
                continue
            covered, is_complete = extent
            if is_complete:
                yield offset
                covered = UNANCHORED
            elif len(self.candidates) < _MOST_CANDIDATES:
                self.candidates.append(offset)

    def _extent(self, offset: int) -> tuple[int, bool] | None:
        """The end of the startup frame at ``offset`` as far as it is known, and whether all of it is there.

        None if there is none.
        """
        held = self.reassembly.range_at(offset)
        if held is None:
            return None
        octets = self.reassembly.read(offset, min(held[1], offset + STARTUP_HEADER_LENGTH))
        if not any(key.startswith(octets[:KEY_LENGTH]) for key in (REQUEST_KEY, REPLY_KEY)):
            return None
        if len(octets) < STARTUP_HEADER_LENGTH:
            return offset + len(octets), False
        if not self._may_begin(offset, octets):
            return None
        end = offset + STARTUP_HEADER_LENGTH + (octets[18] << 8 | octets[19])
        return end, end <= held[1]

    def _may_begin(self, offset: int, octets: bytes) -> bool:
        """Whether a Key at ``offset`` may begin a startup frame: at the connection's first octet whatever follows it,
        behind other data only if what follows is not text."""
        if self.reassembly.seq_of(offset) == self._half.origin:
            return True
        return len(octets) >= STARTUP_HEADER_LENGTH and octets[17] <= LARGEST_REV

    def frame(self, offset: int) -> tuple[FoundFrame, list[Segment], tuple[int, int]]:
        """The startup frame at ``offset``, the segments that brought it, and the octets [start, end) all around it."""
        stream = self.reassembly
        held = stream.range_at(offset)
        assert held is not None
        startup = decode_startup_frame(stream.read(offset, min(held[1], offset + _LONGEST_FRAME)))
        assert startup is not None
        end = offset + startup.wire_length
        segments = list({id(piece[3]): piece[3] for piece in stream.pieces_of(offset, end)}.values())
        latest = max(segments, key=lambda seg: seg.frame)
        found = FoundFrame(startup, offset, end, stream.seq_of(offset), latest.frame, latest.time, latest.ack)
        return found, segments, held

    # --- what is there ---

    def octets_without_key(self, ack: int) -> int:
        """How many octets there are from the first behind the SYN up to ``ack``, if no startup frame can be in them.

        0 if not all of them were captured.
        """
        stream, origin = self.reassembly, self._half.origin
        if not stream.anchored or origin is None or self.candidates:
            return 0
        whole = stream.seq_of(0) == origin and 0 < stream.offset_of(ack) <= stream.next
        return stream.offset_of(ack) if whole else 0

    # --- letting go ---

    def let_pass(self) -> None:
        """Let go of what is in order and cannot be part of a startup frame."""
        stream = self.reassembly
        if not stream.anchored:
            return
        if self.candidates and self.candidates[0] < stream.next:
            stream.consume(self.candidates[0])
        else:
            self._consume_all_from(stream.base)

    def skip(self, limit: int) -> None:
        """Give up what is missing, and frames that may have begun before it, until no more than ``limit`` is held."""
        stream = self.reassembly
        self.candidates = []
        while stream.weight > limit:
            if stream.beyond:
                stream.skip_to(stream.beyond[0][0])
            self._consume_all_from(stream.pieces[0][0])
            if stream.weight > limit and not stream.beyond:
                stream.consume(stream.next)  # not even what may be the beginning of a Key can be kept

    def _consume_all_from(self, first: int) -> None:
        """Let go of what is in order, but for the beginning of a Key behind ``first`` at its end."""
        stream = self.reassembly
        tail = beginning_of_key(stream.read(max(first, stream.next - len(KEY_PREFIX)), stream.next))
        stream.consume(stream.next - tail)


def beginning_of_key(octets: bytes) -> int:
    """How many octets at the end of ``octets`` may be the beginning of a Key."""
    for length in range(min(len(KEY_PREFIX) - 1, len(octets)), 0, -1):
        if octets.endswith(KEY_PREFIX[:length]):
            return length
    return 0


def is_garbled_key(octets: bytes) -> bool:
    """Whether a header begins with what was meant for a Key and is none: but for a few octets, or but for case."""
    key = octets[:KEY_LENGTH]
    if len(octets) < STARTUP_HEADER_LENGTH or octets[17] > LARGEST_REV or key in (REQUEST_KEY, REPLY_KEY):
        return False
    return any(
        key.lower() == right.lower() or sum(a != b for a, b in zip(key, right, strict=True)) <= _MOST_WRONG
        for right in (REQUEST_KEY, REPLY_KEY)
    )
