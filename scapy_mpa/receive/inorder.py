"""The fast path of Full Operation: octets in order, with nothing held back.

An FPDU is its length, its CRC and, with Markers, the FPDUPTRs that must point at it.  No object is made for a
packet and no octet copied; records are made when somebody asked for them.  The first surprise leaves a segment
untouched and hands it to the slow path, which hands back when order is restored.
"""

from __future__ import annotations

from heapq import heappush

from scapy_mpa.framing.crc import crc32c
from scapy_mpa.framing.ddp import TERMINATE_OPCODE
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import MARKER_LENGTH
from scapy_mpa.receive import records
from scapy_mpa.receive.early import EarlyOperation, markers_agree
from scapy_mpa.receive.placement import FIRST_ULPDU_OCTETS
from scapy_mpa.receive.reader import CRC_RESIDUE
from scapy_mpa.receive.records import Row, rows_of
from scapy_mpa.receive.segment import BUFFER, END, FRAME, LENGTH, SEQ, SEQ_MASK, START, TIME, Segment
from scapy_mpa.receive.shapes import SHAPES


class InOrderOperation(EarlyOperation):
    """What both fast paths share: keeping what they found."""

    def resume(self) -> None:
        """Hand back to the fast path if nothing is out of order."""
        stream = self.stream
        self.half.next_seq = -1
        if not self._placement.in_order:
            return
        extent = self._reader.extent(stream.base, stream.next)
        # The fast path has no memory: what Markers of this FPDU said already must not be forgotten.
        if extent is not None and self._reader.disagreement(extent, stream.next) is not None:
            return
        self.half.next_seq = stream.seq_of(stream.next)
        self._resumed = stream.next
        self._need = extent.end if extent is not None else 0

    def _keep_part(self, seg: Segment) -> None:
        """The segment brings a part of an FPDU, and neither begins nor ends it."""
        stream, length = self.stream, seg[LENGTH]
        if not self._touched:
            self.touch()
        stream.hold(seg, stream.next, stream.next + length, seg[START])
        stream.next = stream.highest = stream.next + length
        stream.captured += length
        self.counts.segments += 1
        self.half.next_seq = seg[SEQ] + length & SEQ_MASK

    def _keep(
        self, seg: Segment, at: int, need: int, fpdus: int, ulpdu_octets: int, markers: int, aligned: bool
    ) -> None:
        """Count the FPDUs that the segment completed, up to ``at``, and hold what follows."""
        stream, counts, length = self.stream, self.counts, seg[LENGTH]
        if not self._touched:
            self.touch()
        counts.segments += 1
        if fpdus:
            counts.fpdus += fpdus
            counts.ulpdu_octets += ulpdu_octets
            counts.marker_count += markers
            if self.gapped:
                counts.undelivered += fpdus
            if not self.complete:
                self._keep_first(seg)
            self.complete = seg[FRAME]
            if stream.pieces:
                stream.consume_all()
            stream.consumed.append(seg)
            stream.base = stream.next + at - seg[START]
        stream.next = stream.highest = stream.next + length
        stream.captured += length
        if at < seg[END]:
            stream.hold(seg, stream.base, stream.next, at)
            if aligned:
                # Whether it ends with an FPDU may turn out otherwise than that length says.
                heappush(self._unjudged, (stream.next, stream.next - length))
        elif aligned:
            counts.header_aligned_segments += 1
            counts.fpdu_aligned_segments += 1
        if self._unjudged:
            self._judge_passed(stream.base)
        self._need = need
        self.half.next_seq = seg[SEQ] + length & SEQ_MASK

    def _keep_first(self, seg: Segment) -> None:
        """Full Operation begins with the FPDU that the segment completes: keep how its ULPDU begins."""
        held = self.stream.read(self.stream.base, self.stream.next)
        header = MARKER_LENGTH if self.markers else 0
        first = held + bytes(seg[BUFFER][seg[START] : seg[START] + header + 2 + FIRST_ULPDU_OCTETS])
        ulpdu_length = first[header] << 8 | first[header + 1]
        self.first_ulpdu = first[header + 2 : header + 2 + min(ulpdu_length, FIRST_ULPDU_OCTETS)]

    def _crc_of_held(self) -> int:
        crc = 0
        for start, end, index, seg in self.stream.pieces:
            crc = crc32c(seg[BUFFER][index : index + end - start], crc)
        return crc

    def _record(self, seg: Segment, at: int, found: list[int]) -> None:
        """Record the FPDUs (ULPDU_Length and, times 2^16, opcode) that ``seg`` completed.

        ``at`` is the offset of the first; earlier segments hold at most its beginning.
        """
        frame, time = seg[FRAME], seg[TIME]
        stream, log = self.stream, self.log
        crc = records.GOOD if self.crc else records.UNCHECKED
        after_error = self.first_error is not None
        flag = records.flags(crc, records.LENGTH if at else records.START, after_error)
        delivered = 0 if self.gapped else frame
        if stream.pieces or not at:
            row = self._run(stream.seq_of(at), flag, frame, delivered, time)
            (row,) = rows_of(row, found[:1], stream.origin if self.markers else None)
            frames = (*sorted({piece[3][FRAME] for piece in stream.pieces}), frame)
            row = (*row[:10], len(frames), frames[0])
            if log is not None:
                log.add(row, frames)
            self._tell(seg, row, frames)
            at += row[2]
            found = found[1:]
            flag = records.flags(crc, records.LENGTH, after_error)
        if found:
            if log is not None:
                log.add_run(stream.seq_of(at), flag, frame, delivered, time, found)
            if self.sink is not None or self.observer is not None:
                run = self._run(stream.seq_of(at), flag, frame, delivered, time)
                for row in rows_of(run, found, stream.origin if self.markers else None):
                    self._tell(seg, row, (frame,))

    @staticmethod
    def _run(seq: int, flag: int, frame: int, delivered: int, time: int) -> Row:
        return seq, 0, 0, 0, 0, flag, records.NO_OPCODE, frame, delivered, time, 0, frame

    def _tell(self, seg: Segment, row: Row, frames: tuple[int, ...]) -> None:
        """Hand an FPDU that ``seg`` completed to whoever wants to know of each."""
        if self.sink is not None:
            self.sink(self, row, frames)
        if self.observer is not None:
            first = self.stream.next
            offset = self.stream.offset_of(row[0])
            index = offset - first + seg[START]
            held = b"".join(self.stream.views(offset, first)) if index < seg[START] else b""
            self.observer.placed(self, row, held + bytes(seg[BUFFER][max(index, seg[START]) : index + row[2]]))


class PlainOperation(InOrderOperation):
    """Full Operation without Markers."""

    def in_order(self, seg: Segment) -> bool:
        """Take the next segment in order; False, with nothing done, if it holds a surprise."""
        _, _, _, _, _, _, octets, start, end, _, length = seg
        if end - start != length:
            return False
        stream, starts, crc_used = self.stream, self.starts, self.crc
        pieces, shift, known = stream.pieces, stream.next - start, len(starts)
        found: list[int] | None = [] if self.wants_records else None
        at = start
        fpdus = ulpdu_octets = need = 0
        if pieces:
            at = self._need - shift
            if at > end:
                self._keep_part(seg)
                return True
            offset, held_end, index, held = pieces[0]
            if at <= start or held_end - offset < 4:
                return False
            view = held[BUFFER]
            ulpdu_length, opcode = view[index] << 8 | view[index + 1], view[index + 3] & 0x0F
            if opcode == TERMINATE_OPCODE or not 1 < ulpdu_length <= MAX_ULPDU_LENGTH:
                return False
            if crc_used and crc32c(octets[start:at], self._crc_of_held()) != CRC_RESIDUE:
                return False
            fpdus, ulpdu_octets = 1, ulpdu_length
            starts.append(offset)
            if found is not None:
                found.append(ulpdu_length | opcode << 16)
        while end - at >= 4:
            ulpdu_length = octets[at] << 8 | octets[at + 1]
            after = at + (ulpdu_length + 9 & ~3)
            if after > end:
                need = after + shift
                break
            opcode = octets[at + 3] & 0x0F
            if (
                opcode == TERMINATE_OPCODE
                or not 1 < ulpdu_length <= MAX_ULPDU_LENGTH
                or (crc_used and crc32c(octets[at:after]) != CRC_RESIDUE)
            ):
                del starts[known:]
                return False
            fpdus += 1
            ulpdu_octets += ulpdu_length
            starts.append(at + shift)
            if found is not None:
                found.append(ulpdu_length | opcode << 16)
            at = after
        if found:
            self._record(seg, starts[known], found)
        self._keep(seg, at, need, fpdus, ulpdu_octets, 0, not pieces)
        return True


class MarkerOperation(InOrderOperation):
    """Full Operation with Markers."""

    #: How FPDUs lie among them, and what the drafts count more in one that begins with a Marker.
    _shapes = SHAPES["header"]
    _more = 0

    def resume(self) -> None:
        """As :meth:`InOrderOperation.resume`."""
        origin = self._reader.origin
        self._shapes, self._more = SHAPES[origin], MARKER_LENGTH if origin == "first-octet" else 0
        super().resume()

    def in_order(self, seg: Segment) -> bool:
        """Take the next segment in order; False, with nothing done, if it holds a surprise."""
        _, _, _, _, _, _, octets, start, end, _, length = seg
        stream = self.stream
        shift = stream.next - start
        # A Marker cut by the end of a segment is left to the slow path.
        if end - start != length or 0 < start + shift & 511 < 4 or 0 < end + shift & 511 < 4:
            return False
        starts, crc_used = self.starts, self.crc
        pieces, known = stream.pieces, len(starts)
        found: list[int] | None = [] if self.wants_records else None
        at = start
        fpdus = ulpdu_octets = marker_count = need = 0
        if pieces:
            offset, held_end, index, held = pieces[0]
            header = offset if offset & 511 else offset + 4
            at = self._need - shift
            if at <= start or held_end < header + 4:
                return False
            if not markers_agree(
                octets, start, min(at, end), shift, header if header == offset else header - self._more
            ):
                return False
            if at > end:
                self._keep_part(seg)
                return True
            index += header - offset
            view = held[BUFFER]
            ulpdu_length, opcode = view[index] << 8 | view[index + 1], view[index + 3] & 0x0F
            if opcode == TERMINATE_OPCODE or not 1 < ulpdu_length <= MAX_ULPDU_LENGTH:
                return False
            if crc_used and crc32c(octets[start:at], self._crc_of_held()) != CRC_RESIDUE:
                return False
            fpdus, ulpdu_octets = 1, ulpdu_length
            marker_count = (self._need - offset - (ulpdu_length + 9 & ~3)) // 4
            starts.append(offset)
            if found is not None:
                found.append(ulpdu_length | opcode << 16)
        shapes = self._shapes
        while True:
            phase = at + shift & 511
            header = at if phase else at + 4
            if end - header < 4:
                break
            ulpdu_length = octets[header] << 8 | octets[header + 1]
            size, markers, fpduptrs, expected = shapes[ulpdu_length << 9 | phase]
            after = at + size
            if after > end:
                counted_from = header + shift if phase else header + shift - self._more
                if (phase or not (octets[at + 2] or octets[at + 3])) and markers_agree(
                    octets, header, end, shift, counted_from
                ):
                    need = after + shift
                break
            opcode = octets[header + 3] & 0x0F
            if (
                opcode == TERMINATE_OPCODE
                or not size
                or (crc_used and crc32c(octets[at:after]) != CRC_RESIDUE)
                or fpduptrs(octets, at) != expected
            ):
                break
            fpdus += 1
            ulpdu_octets += ulpdu_length
            marker_count += markers
            starts.append(at + shift)
            if found is not None:
                found.append(ulpdu_length | opcode << 16)
            at = after
        if at != end and not need and end - (at if at + shift & 511 else at + 4) >= 4:
            del starts[known:]
            return False
        if found:
            self._record(seg, starts[known], found)
        self._keep(seg, at, need, fpdus, ulpdu_octets, marker_count, not pieces)
        return True
