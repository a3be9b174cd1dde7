"""Copies of octets that differ, until the FPDU they belong to can be judged (RFC 5044 §8; DESIGN: rival copies).

A receiver may drop a segment silently whose FPDU has a bad CRC, and TCP brings it again.  So a bad FPDU is *final* only
when the peer has acknowledged all of its octets, when its half connection ends, or when a limit says so.  A copy that
comes before, and makes it good, was taken in place of what is held.  The same decides between two copies that both came
before the FPDU could be judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from scapy_mpa.framing.crc import CRC_RESIDUE, crc32c
from scapy_mpa.framing.markers import LONGEST_FPDU
from scapy_mpa.receive.located import Breach
from scapy_mpa.receive.reassembly import Piece, Reassembly
from scapy_mpa.receive.scan import Extent, FPDUReader
from scapy_mpa.values.segment import Segment, small_copy

#: Copies of a half connection that wait to be judged, and octets in them; of any beyond, the first copy is kept.
_MOST_COPIES, _MOST_OCTETS = 64, 1 << 20
#: Copies that are tried alone.
_TRIED_ALONE = 4
#: Octets that hold a leading Marker and ULPDU_Length.
_HEADER = 8


class Rival(NamedTuple):
    """A copy that differs from what is held.

    Attributes:
        piece: its octets, as far as others are held for the same places.
        offset: the first offset at which it differs.
        other: the segment that it differs from there.
        is_reported: whether it is known that it differs.
    """

    piece: Piece
    offset: int
    other: Segment
    is_reported: bool = False


class Decided(NamedTuple):
    """What is known of a copy whose FPDU was judged: the copy, and what decided."""

    rival: Rival
    reason: str


class RivalCopies:
    """The copies of one half connection that wait for their FPDU to be judged.

    Attributes:
        waiting: those copies, in the order of capture.
        has_kept: whether there was any: its receiver may have dropped a segment without a word, and not know octets
            that were captured.
    """

    __slots__ = ("_failed", "_has_news", "_reader", "_reassembly", "has_kept", "waiting")

    def __init__(self, reader: FPDUReader) -> None:
        self._reader = reader
        self._reassembly: Reassembly = reader.reassembly
        self.waiting: list[Rival] = []
        self.has_kept = False
        #: Whether a copy has come since somebody asked.
        self._has_news = False
        #: What was tried in vain since: where the FPDU begins and ends, and the number of the choice.
        self._failed: dict[tuple[int, int, int], None] = {}

    def take_news(self) -> bool:
        """Whether a copy has come since this was asked last."""
        has_news, self._has_news = self._has_news, False
        return has_news

    def keep(self, seg: Segment, start: int, rival: tuple[int, Segment], is_reported: bool) -> tuple[int, int] | None:
        """Keep a copy, whose first octet is at ``start``, until it can be judged; the range it holds.

        None if nothing can be judged by it, so that the first copy stays: no CRC is in use, the octets were passed
        already, or too many wait.  ``is_reported`` says that nothing is to be said of it if it is not taken.
        """
        offset, other = rival
        first = max(start, self._reassembly.base)
        end = start + seg.end - seg.start
        held = sum(one.piece.end - one.piece.start for one in self.waiting)
        if not self._reader.layout.crc or offset < first:
            return None
        if len(self.waiting) >= _MOST_COPIES or held + end - first > _MOST_OCTETS:
            return None
        self._has_news = self.has_kept = True
        self._failed.clear()
        self.waiting.append(Rival(Piece(first, end, seg.start + first - start, seg), offset, other, is_reported))
        return first, end

    # --- judging ---

    def make_good(self, at: int, limit: int, is_again: bool = False) -> Extent | None:
        """Put copies in place of what is held of the FPDU at ``at`` if they make it good; its extent then.

        The last copies are tried alone, in the order of capture, then all of them, one over the other, then all but
        one, which may be the only one that is wrong.

        Args:
            at: the offset at which the FPDU begins.
            limit: the end of what is held there without a hole.
            is_again: whether this is asked again and again: what failed is not tried once more.
        """
        end = min(limit, at + LONGEST_FPDU)
        pieces = [one.piece for one in self.waiting if one.piece.start < end and one.piece.end > at]
        if not pieces:
            return None
        for number, chosen in enumerate(_choices(pieces)):
            # A copy may bring another length: how far the FPDU reaches comes first, for which few octets are enough.
            extent = self._reader.extent_in(self._laid(chosen, at, min(end, at + _HEADER)), at)
            if extent is None or extent.end > end or (at, extent.end, number) in self._failed:
                continue
            if crc32c(self._laid(chosen, at, extent.end)) == CRC_RESIDUE:
                for piece in chosen:
                    self._take(piece, at, extent.end)
                return extent
            if is_again:
                self._failed[at, extent.end, number] = None
        return None

    def _laid(self, chosen: list[Piece], start: int, end: int) -> bytearray:
        """The octets of [start, end) with copies in place of what is held."""
        laid = bytearray(self._reassembly.read(start, end))
        for piece in chosen:
            first, last = max(piece.start, start), min(piece.end, end)
            if first < last:
                index = piece.at + first - piece.start
                laid[first - start : last - start] = piece.seg.buffer[index : index + last - first]
        return laid

    def _take(self, copy: Piece, start: int, end: int) -> None:
        """Put a copy in place of what is held in [start, end) of the segments that differ from it there."""
        instead: list[tuple[Piece, Segment]] = []
        wrong: set[int] = set()
        for piece in self._reassembly.pieces_of(max(start, copy.start), min(end, copy.end)):
            first, last = max(piece.start, copy.start, start), min(piece.end, copy.end, end)
            mine, theirs = copy.at + first - copy.start, piece.at + first - piece.start
            if copy.seg.buffer[mine : mine + last - first] != piece.seg.buffer[theirs : theirs + last - first]:
                wrong.add(id(piece.seg))
            instead.append((Piece(first, last, mine, copy.seg), piece.seg))
        for piece, seg in instead:
            # The receiver dropped a segment as a whole, of which others may lie between two pieces.
            if id(seg) in wrong:
                self._reassembly.put_instead(piece)

    def judged(self, start: int, end: int, is_good: bool) -> list[Decided]:
        """The FPDU [start, end) was judged: what becomes of the copies of it."""
        decided, kept = [], []
        for one in self.waiting:
            piece = one.piece
            if piece.start >= end or piece.end <= start:
                kept.append(one)
                continue
            if not one.is_reported and one.offset < end:
                reason = "the CRC says which is right" if is_good else "neither is right, the first copy is kept"
                if one.offset < start:
                    reason = "the first copy is kept"
                decided.append(Decided(one, reason))
                one = one._replace(is_reported=True)
            if piece.end > end:
                rest = Piece(end, piece.end, piece.at + end - piece.start, piece.seg)
                kept.append(one._replace(piece=rest))
        self.waiting = kept
        return decided

    def give_up(self) -> list[Decided]:
        """Nothing more is judged: the first copies stay."""
        decided = [Decided(one, "the first copy is kept") for one in self.waiting if not one.is_reported]
        self.waiting = []
        return decided

    def release(self, copies: dict[int, Segment]) -> None:
        """The block of the capture goes: copy what lies in it."""
        self.waiting = [
            one._replace(piece=_detached(one.piece, copies), other=small_copy(one.other, copies))
            for one in self.waiting
        ]


def _choices(pieces: list[Piece]) -> Iterator[list[Piece]]:
    """Yield which copies to put in place of what is held, in the order in which they are tried."""
    for piece in pieces[-_TRIED_ALONE:]:
        yield [piece]
    if len(pieces) > 1:
        yield pieces
    if len(pieces) > 2:
        ends = (*pieces[:_TRIED_ALONE], *pieces[-_TRIED_ALONE:])
        for piece in {id(piece): piece for piece in ends}.values():
            yield [other for other in pieces if other is not piece]


def _detached(piece: Piece, copies: dict[int, Segment]) -> Piece:
    copy = small_copy(piece.seg, copies)
    return piece._replace(seg=copy, at=piece.at - piece.seg.start + copy.start)


def overlap(decided: Decided) -> Breach:
    """The breach that a copy is which differs."""
    rival, reason = decided
    seg = rival.piece.seg
    detail = f"an octet differs from the copy in frame {rival.other.frame}: {reason}"
    return Breach("overlap", rival.offset, seg.frame, seg.time, detail)
