"""RDMAP messages among the octets that are still at hand: those not acknowledged, and the one that a Terminate quotes.

FPDUs in order are read without a look at their messages.  What the last blocks of the capture brought stays at hand for
a while, to be compared with repeats; that is read again here, when somebody wants to know.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Protocol

from scapy_mpa.framing.ddp import (
    CONTROL_LENGTH,
    LAST,
    TAGGED_HEADER_LENGTH,
    UNTAGGED_HEADER_LENGTH,
    TaggedHeader,
    UntaggedHeader,
    decode_ddp,
    decode_terminate,
    quoted_header,
)
from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH
from scapy_mpa.framing.markers import plain_length
from scapy_mpa.receive.located import Located
from scapy_mpa.receive.reassembly import Reassembly, frames_of
from scapy_mpa.receive.scan import Extent, FPDUReader, Layout
from scapy_mpa.receive.settlement import Settlement
from scapy_mpa.values.lifecycle import Quoted, Terminated
from scapy_mpa.values.segment import Segment

#: ULPDU_Length and the control octets: where a segment's end cuts them, FPDUs are read otherwise.
_FIRST_OCTETS = LENGTH_FIELD_LENGTH + CONTROL_LENGTH
#: FPDUs not acknowledged that are remembered.
_MOST_REMEMBERED = 1 << 16


class FPDUSource(Protocol):
    """A half connection in Full Operation: where FPDUs lie, and in what."""

    @property
    def reassembly(self) -> Reassembly:
        """Its octets."""

    @property
    def layout(self) -> Layout:
        """How FPDUs lie in them."""

    @property
    def settlement(self) -> Settlement:
        """Where FPDUs begin."""


class AtHand:
    """The FPDUs of a half connection whose octets are at hand, those of the last blocks of the capture."""

    __slots__ = ("_layout", "_reassembly", "_settlement")

    def __init__(self, source: FPDUSource) -> None:
        self._reassembly = source.reassembly
        self._layout = source.layout
        self._settlement = source.settlement

    def extents(self, begin: int = 0) -> Iterator[tuple[FPDUReader, Extent]]:
        """Yield the FPDUs from the one that holds offset ``begin`` on, and last one of which only a part came."""
        stream = self._reassembly
        segments: dict[int, Segment] = {}
        for seg in (*stream.previously_consumed, *stream.consumed, *(piece.seg for piece in stream.pieces)):
            segments[id(seg)] = seg
        placed = sorted((stream.offset_of(seg.seq), number, seg) for number, seg in enumerate(segments.values()))
        placed = [one for one in placed if one[0] + one[2].end - one[2].start > begin]
        if not placed:
            return
        at = self._settlement.start_before(max(begin, placed[0][0]))
        if at < placed[0][0]:
            at = self._settlement.start_from(placed[0][0])
        if at < 0:
            return
        held = Reassembly(stream.origin, True, at)
        for start, _, seg in placed:
            held.commit(seg, start, start + seg.end - seg.start)
        reader = FPDUReader(held, self._layout)
        while at < held.next:
            extent = reader.extent(at, held.next)
            if extent is None:
                return
            yield reader, extent
            at = extent.end

    def ends(self, begin: int) -> Iterator[tuple[int, bool]]:
        """Yield where whole FPDUs end, from that with offset ``begin`` on, and whether a message ends there too."""
        found = self._ends_in_order(begin)
        if found is not None:
            yield from found
            return
        for reader, extent in self.extents(begin):
            if extent.end > reader.reassembly.next:
                return
            control = reader.control(extent)
            yield extent.end, len(control) < 2 or bool(control[0] & LAST)

    def _ends_in_order(self, begin: int) -> list[tuple[int, bool]] | None:
        """The same, read off the segments themselves; None with Markers, or where octets came otherwise than in order.

        A block of the capture lets go of many half connections, mostly of a few segments each.
        """
        stream = self._reassembly
        if self._layout.markers or stream.beyond:
            return None
        segments = [*stream.previously_consumed, *stream.consumed]
        segments += [piece.seg for piece in stream.pieces if not segments or piece.seg is not segments[-1]]
        placed: list[tuple[int, Segment]] = []
        first = stream.next
        for seg in reversed(segments):
            if first <= begin:
                break
            first -= seg.length
            if stream.seq_of(first) != seg.seq or seg.end - seg.start != seg.length:
                return None
            placed.append((first, seg))
        at = self._settlement.start_before(max(begin, first))
        if at < first:
            at = self._settlement.start_from(first)
        ends: list[tuple[int, bool]] = []
        for start, seg in reversed(placed if at >= 0 else ()):
            limit, buffer = start + seg.length, seg.buffer
            while at < limit:
                if limit - at < _FIRST_OCTETS:
                    return None
                index = seg.start + at - start
                ulpdu_length = buffer[index] << 8 | buffer[index + 1]
                at += plain_length(ulpdu_length)
                if at > stream.next:
                    return ends
                ends.append((at, ulpdu_length < 2 or bool(buffer[index + 2] & LAST)))
        return ends

    def quoted(self, header: TaggedHeader | UntaggedHeader) -> Quoted | None:
        """The message one of whose DDP Segments has this header, None if it is not at hand."""
        messages: dict[tuple[int, ...], Quoted] = {}
        asked: tuple[int, ...] | None = None
        run = 0
        for reader, extent in self.extents():
            end = min(extent.end, reader.reassembly.next)
            found = decode_ddp(reader.ulpdu(extent, UNTAGGED_HEADER_LENGTH))
            if found is None:
                continue
            size = TAGGED_HEADER_LENGTH if isinstance(found, TaggedHeader) else UNTAGGED_HEADER_LENGTH
            octets = extent.ulpdu_length - size
            key: tuple[int, ...]
            if isinstance(found, TaggedHeader):
                key = found.opcode, found.stag, run
                run += found.last
                is_asked = isinstance(header, TaggedHeader) and found[3:6] == header[3:6]
            else:
                key = -1, found.qn, found.msn
                octets += found.mo
                is_asked = isinstance(header, UntaggedHeader) and found[5:7] == header[5:7]
            if is_asked:
                asked = key
            frames = frames_of(reader.reassembly.pieces_of(extent.offset, end))
            before = messages.get(key)
            is_whole = found.last and end == extent.end
            if before is None:
                messages[key] = Quoted(octets, is_whole, frames[0], frames[-1], 1)
            else:
                total = before.octets + octets if isinstance(found, TaggedHeader) else max(before.octets, octets)
                latest = max(before.last_frame, frames[-1])
                messages[key] = Quoted(total, is_whole, before.first_frame, latest, before.segments + 1)
        return messages.get(asked) if asked is not None else None


class MessageEnds:
    """Where messages of one half connection end that the peer has not acknowledged yet.

    They are looked at when a block of the capture goes, and with it their octets.
    """

    __slots__ = ("_ends", "_up_to")

    def __init__(self) -> None:
        #: Where FPDUs end, twice that offset, and one more for the last of a message.
        self._ends = array("q")
        self._up_to = 0

    def keep_passing(self, source: FPDUSource, acknowledged: int) -> None:
        """A block of the capture goes: remember messages in what it consumed, if some is not acknowledged."""
        stream = source.reassembly
        latest = stream.previously_consumed[-1]
        # What came since the block before was looked at with that.
        if stream.offset_of(latest.seq) + latest.length > max(acknowledged, self._up_to):
            self.keep(AtHand(source), acknowledged)

    def keep(self, at_hand: AtHand, acknowledged: int) -> None:
        """Remember those that are at hand, beyond an offset; they will not be for long."""
        ends = self._ends
        if ends and ends[0] <= 2 * acknowledged + 1:
            self._ends = ends = array("q", [end for end in ends if end > 2 * acknowledged + 1])
        for end, is_last in at_hand.ends(max(acknowledged, self._up_to)):
            if end <= max(acknowledged, self._up_to):
                continue
            if len(ends) >= _MOST_REMEMBERED:
                return
            ends.append(2 * end + is_last)
            self._up_to = end

    def count(self, at_hand: AtHand, acknowledged: int, end: int) -> int:
        """Messages with octets between what the peer acknowledged and ``end``, the end of what was captured."""
        self.keep(at_hand, acknowledged)
        whole = sum(one & 1 for one in self._ends)
        latest = self._ends[-1] if self._ends else 1
        is_begun = not latest & 1 or end > max(latest >> 1, acknowledged)
        return whole + is_begun


def terminated(located: Located, at_hand: AtHand | None) -> Terminated:
    """What a Terminate says, and the message that it quotes, which is among the FPDUs of the other half connection."""
    said = decode_terminate(located.terminate)
    header = quoted_header(located.terminate) if said is not None else None
    message = at_hand.quoted(header) if at_hand is not None and header is not None else None
    return Terminated(located.known[0], said, header, message)
