"""The fast path of Full Operation: octets in order, with nothing held back.

An FPDU is its length, its CRC and, with Markers, the FPDUPTRs that must point at it.  No object is made for a
packet and no octet copied; records are made when somebody asked for them.  The first surprise leaves a segment
untouched and hands it to the slow path, which hands back when order is restored.
"""

from __future__ import annotations

from heapq import heappush
from typing import TypeAlias

from scapy_mpa.framing.crc import CRC_LENGTH, crc32c
from scapy_mpa.framing.ddp import TAGGED_HEADER_LENGTH, TERMINATE_OPCODE
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH, pad_length
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, marker_count, plain_length, remove_markers
from scapy_mpa.receive import records
from scapy_mpa.receive.early import EarlyOperation, markers_agree
from scapy_mpa.receive.placement import FIRST_ULPDU_OCTETS
from scapy_mpa.receive.reader import CRC_RESIDUE
from scapy_mpa.receive.records import Row, rows_of
from scapy_mpa.receive.segment import SEQ_MASK, Segment, bare
from scapy_mpa.receive.shapes import HEADS, PAD_BITS, SHAPES, learn_head
from scapy_mpa.receive.watch.attacks import TINY
from scapy_mpa.receive.watch.ddp import WATCHED_OCTETS
from scapy_mpa.receive.watch.fpdu import pad_detail
from scapy_mpa.receive.watched import (
    HEAD_OCTETS,
    LONGEST_TAIL,
    LOOKED_AT,
    NO_PAD,
    TO_MASK,
    UNTAGGED_HEAD_OCTETS,
    begins_alike,
    head,
    place,
    word,
)

#: The farthest place behind a Marker position at which ULPDU_Length and a tagged header are not cut by the next Marker.
LAST_WHOLE_HEAD = MARKER_INTERVAL - HEAD_OCTETS
#: The same for an untagged header, the longer one.
LAST_WHOLE_UNTAGGED_HEAD = MARKER_INTERVAL - UNTAGGED_HEAD_OCTETS
#: An FPDU that is not as it has to be next: the indices of its first octet and of its ULPDU_Length field in the buffer
#: of a segment, ULPDU_Length, and the index of its end; the second and the last are 0 if a part of it is held.
Odd: TypeAlias = tuple[int, int, int, int]
#: Octets of an FPDU without PAD that are none of the ULPDU, and none of the payload of an RDMA Write (RFC 5044 §4.1).
FPDU_OVERHEAD = 2 + CRC_LENGTH
WRITE_OVERHEAD = FPDU_OVERHEAD + TAGGED_HEADER_LENGTH


def uncut(octets: memoryview, at: int, phase: int) -> bytes:
    """ULPDU_Length and DDP header of an FPDU at index ``at``, that far behind a Marker, without the next Marker."""
    marker = at + MARKER_INTERVAL - phase
    return bytes(octets[at:marker]) + bytes(octets[marker + MARKER_LENGTH : at + UNTAGGED_HEAD_OCTETS + MARKER_LENGTH])


class InOrderOperation(EarlyOperation):
    """What both fast paths share: keeping what they found."""

    __slots__ = ()

    def resume(self) -> None:
        """Hand back to the fast path if nothing is out of order."""
        stream = self.reassembly
        self.next_seq = -1
        # What comes after a RST is looked at one by one.
        if not self._placement.in_order or self.half.rst is not None:
            return
        extent = self._reader.extent(stream.base, stream.next)
        # The fast path has no memory: what Markers of this FPDU said already must not be forgotten.
        if extent is not None and self._reader.disagreement(extent, stream.next) is not None:
            return
        if self.ddp.at != stream.base:
            self.ddp.lose()
        self.expect()
        self.next_seq = stream.seq_of(stream.next)
        self._resumed = stream.next
        self._need = extent.end if extent is not None else 0

    def _keep_part(self, seg: Segment) -> None:
        """The segment brings a part of an FPDU, and neither begins nor ends it."""
        stream, length = self.reassembly, seg.length
        if not self._touched:
            self.touch()
        if length > self.longest_segment:
            self.longest_segment = length
        elif (length <= TINY or self.tiny.count) and self.tiny.is_one_too_many(length, self.longest_segment):
            detail = f"segments of {length} octets, where others had {self.longest_segment}"
            self.find("attack-path-mtu", stream.next, seg.frame, seg.time, detail)
        if self.half.peer.ack == seg.seq or self.alignment.first is None:
            self._goes_on(seg)
        stream.hold(seg, stream.next, stream.next + length, seg.start)
        stream.next += length
        self.counts.segments += 1
        self.next_seq = seg.seq + length & SEQ_MASK

    def _keep(
        self, seg: Segment, at: int, need: int, fpdus: int, ulpdu_octets: int, markers: int, aligned: bool
    ) -> None:
        """Count the FPDUs that the segment completed, up to ``at``, and hold what follows."""
        stream, counts, length = self.reassembly, self.counts, seg.length
        if not self._touched:
            self.touch()
        if length > self.longest_segment:
            self.longest_segment = length
        if fpdus:
            counts.fpdus += fpdus
            counts.ulpdu_octets += ulpdu_octets
            counts.marker_count += markers
            if self.gapped:
                counts.undelivered += fpdus
            if not self.complete:
                self._keep_first(seg)
            self.complete = seg.frame
            if stream.pieces:
                if self.half.peer.ack == seg.seq or self.alignment.first is None:
                    self._goes_on(seg)
                stream.consume_all()
            stream.consumed.append(seg)
            stream.base = stream.next + at - seg.start
        stream.next += length
        if aligned and at == seg.end:
            counts.whole_segments += 1
        else:
            counts.segments += 1
        if at < seg.end:
            stream.hold(seg, stream.base, stream.next, at)
            if aligned:
                # Whether it ends with an FPDU may turn out otherwise than that length says.
                heappush(self._unjudged, (stream.next, stream.next - length))
        if self._unjudged:
            self._judge_passed(stream.base)
        self._need = need
        self.next_seq = seg.seq + length & SEQ_MASK

    def _watch(self, seg: Segment, odd: list[Odd]) -> None:
        """Look at FPDUs that the segment completed."""
        frame, time, octets = seg.frame, seg.time, seg.buffer
        begin, with_markers = seg.start - self.reassembly.next, self.markers
        ddp, sizes = self.ddp, self.sizes
        for index, header, ulpdu_length, after in odd:
            offset = index - begin
            if index < seg.start:
                self._watch_held(seg, offset, ulpdu_length)
                continue
            if ulpdu_length > sizes.longest:
                sizes.grows(ulpdu_length, after - index, offset, frame, time)
            if with_markers and -(header - begin) & 511 < 2 + WATCHED_OCTETS:
                plain = remove_markers(octets[index : min(index + LOOKED_AT, after)], offset)
                ddp.follow(plain, 2, ulpdu_length, offset, frame, time)
            else:
                ddp.follow(octets, header + 2, ulpdu_length, offset, frame, time)
            if ulpdu_length & 3 != NO_PAD:
                at = after - 12 if with_markers and not after - 8 - begin & 511 else after - 8
                if word(octets, at)[0] & PAD_BITS[ulpdu_length & 3]:
                    pad = octets[at + 4 - pad_length(ulpdu_length) : at + 4]
                    self.find("pad", offset, frame, time, pad_detail(ulpdu_length, pad))
        self.expect()

    def _watch_held(self, seg: Segment, offset: int, ulpdu_length: int) -> None:
        """Look at the FPDU that the segment completed, and of which the first part is held."""
        stream, octets, end = self.reassembly, seg.buffer, self._need
        start, begin = seg.start, seg.start - stream.next
        held = stream.read(offset, min(offset + LOOKED_AT, stream.next))
        first = held + bytes(octets[start : max(start, min(start + LOOKED_AT - len(held), end + begin))])
        last = b""
        if ulpdu_length & 3 != NO_PAD:
            at = max(end - LONGEST_TAIL, offset)
            held = stream.read(at, stream.next) if at < stream.next else b""
            last = held + bytes(octets[max(at + begin, start) : end + begin])
        self.watch(offset, first, last, end, (seg.frame, seg.time))

    def _goes_on(self, seg: Segment) -> None:
        """The segment does not begin with an FPDU: it is the first such, or nothing was under way before it."""
        stream = self.reassembly
        acknowledged = self.half.peer.ack == seg.seq
        self.alignment.goes_on(stream.next, (seg.frame, seg.time), stream.pieces[-1], acknowledged, self.counts)

    def _keep_first(self, seg: Segment) -> None:
        """Full Operation begins with the FPDU that the segment completes: keep how its ULPDU begins."""
        held = self.reassembly.read(self.reassembly.base, self.reassembly.next)
        header = MARKER_LENGTH if self.markers else 0
        first = held + bytes(seg.buffer[seg.start : seg.start + header + 2 + FIRST_ULPDU_OCTETS])
        ulpdu_length = first[header] << 8 | first[header + 1]
        ulpdu = first[header + 2 : header + 2 + min(ulpdu_length, FIRST_ULPDU_OCTETS)]
        body = plain_length(ulpdu_length)
        end = body + MARKER_LENGTH * marker_count(0, body) if self.markers else body
        self.begin(ulpdu, ulpdu_length, end, max((seg.frame, seg.time), self.floor))
        if self.opening is None:
            self.opening = bare(self.reassembly.pieces[0][3] if self.reassembly.pieces else seg)

    def _crc_of_held(self) -> int:
        crc = 0
        for start, end, index, seg in self.reassembly.pieces:
            crc = crc32c(seg.buffer[index : index + end - start], crc)
        return crc

    def _record(self, seg: Segment, at: int, found: list[int]) -> None:
        """Record the FPDUs (ULPDU_Length and, times 2^16, opcode) that ``seg`` completed.

        ``at`` is the offset of the first; earlier segments hold at most its beginning.
        """
        frame, time = seg.frame, seg.time
        stream, log = self.reassembly, self.log
        crc = records.GOOD if self.crc else records.UNCHECKED
        after_error = self.first_error is not None
        flag = records.flags(crc, records.LENGTH if at else records.START, after_error)
        delivered = 0 if self.gapped else frame
        if stream.pieces or not at:
            row = self._run(stream.seq_of(at), flag, frame, delivered, time)
            (row,) = rows_of(row, found[:1], stream.origin if self.markers else None)
            frames = (*sorted({piece[3].frame for piece in stream.pieces}), frame)
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
            first = self.reassembly.next
            offset = self.reassembly.offset_of(row[0])
            index = offset - first + seg.start
            held = b"".join(self.reassembly.views(offset, first)) if index < seg.start else b""
            self.observer.placed(self, row, held + bytes(seg.buffer[max(index, seg.start) : index + row[2]]))


class PlainOperation(InOrderOperation):
    """Full Operation without Markers."""

    __slots__ = ("_are_many",)

    def _set_up(self) -> None:
        super()._set_up()
        #: Whether the last segment held many FPDUs, so that the next one is likely to.
        self._are_many = False

    def in_order(self, seg: Segment) -> bool:
        """Take the next segment in order; False, with nothing done, if it holds a surprise."""
        frame, _, _, seq, _, _, octets, start, end, _, length = seg
        if end - start != length:
            return False
        stream, starts, crc_used, watch = self.reassembly, self.starts, self.crc, self.ddp
        is_repeated = False
        if length == self.repeated_length and not stream.pieces:
            begin, to = begins_alike(octets, start)
            is_repeated = (
                begin == self.repeated_begin
                and (to == watch.to if watch.is_writing else watch.quiet >= 0)
                and (not crc_used or crc32c(octets[start:end]) == CRC_RESIDUE)
            )
        if is_repeated:
            # One FPDU that differs from the last such in TO and payload alone, and PAD there is none.
            if not watch.is_writing:
                self.write_again()
            watch.to = to + length - WRITE_OVERHEAD & TO_MASK
            starts.append(stream.next)
            fpdus, ulpdu_octets = 1, length - FPDU_OVERHEAD
        else:
            pieces, shift, known = stream.pieces, stream.next - start, len(starts)
            found: list[int] | None = [] if self.wants_records else None
            at = start
            ulpdu_octets = need = 0
            odd: list[Odd] | None = None
            if pieces and self._need > end + shift:
                self._keep_part(seg)
                return True
            quiet, writing, stag, shortest, longest = self.expects
            to = watch.to
            if pieces:
                at = self._need - shift
                offset, held_end, index, held = pieces[0]
                if at <= start or held_end - offset < 4:
                    return False
                ulpdu_length, control = head(held.buffer, index)
                if control & 0x0F == TERMINATE_OPCODE or not 1 < ulpdu_length <= MAX_ULPDU_LENGTH:
                    return False
                if crc_used and crc32c(octets[start:at], self._crc_of_held()) != CRC_RESIDUE:
                    return False
                if (
                    control != quiet
                    or held_end - offset < HEAD_OCTETS
                    or at - start < 8
                    or not shortest <= ulpdu_length <= longest
                    or (ulpdu_length & 3 != NO_PAD and word(octets, at - 8)[0] & PAD_BITS[ulpdu_length & 3])
                    or (writing and place(held.buffer, index + 4) != (stag, to))
                ):
                    odd, quiet = [(offset - shift, 0, ulpdu_length, 0)], -1
                elif writing:
                    to += ulpdu_length - TAGGED_HEADER_LENGTH
                ulpdu_octets = ulpdu_length
                starts.append(offset)
                if found is not None:
                    found.append(ulpdu_length | (control & 0x0F) << 16)
            are_quiet = self._are_many and quiet >= 0 and not writing
            while end - at >= 4:
                if are_quiet:
                    # What is quiet is known from its first octets.
                    heads, last, first = HEADS[quiet], end - 4, 0
                    try:
                        while at <= last:
                            (first,) = word(octets, at)
                            ulpdu_length, size, read, expected = heads[first]
                            after = at + size
                            if (
                                after > end
                                or ulpdu_length > longest
                                or read(octets, at) != expected
                                or (crc_used and crc32c(octets[at:after]) != CRC_RESIDUE)
                            ):
                                break
                            ulpdu_octets += ulpdu_length
                            starts.append(at + shift)
                            if found is not None:
                                found.append(ulpdu_length)  # RDMA Write is opcode 0
                            at = after
                    except KeyError:
                        learn_head(first, quiet)
                    if end - at < 4:
                        break
                ulpdu_length, control = head(octets, at)
                after = at + (ulpdu_length + 9 & ~3)
                if after > end:
                    need = after + shift
                    break
                if crc_used and crc32c(octets[at:after]) != CRC_RESIDUE:
                    del starts[known:]
                    return False
                fits = shortest <= ulpdu_length <= longest and (
                    ulpdu_length & 3 == NO_PAD or not word(octets, after - 8)[0] & PAD_BITS[ulpdu_length & 3]
                )
                if fits and control == quiet and (not writing or place(octets, at + 4) == (stag, to)):
                    if writing:
                        to += ulpdu_length - TAGGED_HEADER_LENGTH
                elif fits and after == end and odd is None and watch.glance(octets, at + 2, control, ulpdu_length, to):
                    if watch.quiet != quiet:
                        self.expect()
                        writing, to = watch.is_writing, watch.to
                else:
                    if control & 0x0F == TERMINATE_OPCODE or not 1 < ulpdu_length <= MAX_ULPDU_LENGTH:
                        del starts[known:]
                        return False
                    if odd is None:
                        odd, quiet = [], -1
                    odd.append((at, at, ulpdu_length, after))
                ulpdu_octets += ulpdu_length
                starts.append(at + shift)
                if found is not None:
                    found.append(ulpdu_length | (control & 0x0F) << 16)
                at = after
                are_quiet = quiet >= 0 and not writing
            if writing:
                watch.to = to & TO_MASK
            if odd is not None:
                self._watch(seg, odd)
            if found:
                self._record(seg, starts[known], found)
            if writing and odd is None and found is None and 0 < ulpdu_octets == length - FPDU_OVERHEAD and not pieces:
                # One FPDU is all of it: most likely the next is the same.
                self.repeated_length, self.repeated_begin = length, begins_alike(octets, start)[0]
            fpdus = len(starts) - known
            self._are_many = fpdus > 2
            if at != end or pieces or not self.complete:
                self._keep(seg, at, need, fpdus, ulpdu_octets, 0, not pieces)
                return True
        # InOrderOperation._keep for a segment of whole FPDUs, written out for speed.
        counts = self.counts
        counts.whole_segments += 1
        counts.fpdus += fpdus
        counts.ulpdu_octets += ulpdu_octets
        if self.gapped:
            counts.undelivered += fpdus
        if not self._touched:
            self.touch()
        if length > self.longest_segment:
            self.longest_segment = length
        self.complete = frame
        stream.consumed.append(seg)
        stream.base = stream.next = stream.next + length
        if self._unjudged:
            self._judge_passed(stream.base)
        self.next_seq = seq + length & SEQ_MASK
        return True


class MarkerOperation(InOrderOperation):
    """Full Operation with Markers."""

    __slots__ = ("_more", "_shapes")

    def _set_up(self) -> None:
        super()._set_up()
        #: How FPDUs lie among them, and what the drafts count more in one that begins with a Marker.
        self._shapes, self._more = SHAPES["header"], 0

    def resume(self) -> None:
        """As :meth:`InOrderOperation.resume`."""
        origin = self._reader.origin
        self._shapes, self._more = SHAPES[origin], MARKER_LENGTH if origin == "first-octet" else 0
        super().resume()

    def in_order(self, seg: Segment) -> bool:
        """Take the next segment in order; False, with nothing done, if it holds a surprise."""
        frame, _, _, seq, _, _, octets, start, end, _, length = seg
        stream = self.reassembly
        shift = stream.next - start
        # A Marker cut by the end of a segment is left to the slow path.
        if end - start != length or 0 < start + shift & 511 < 4 or 0 < end + shift & 511 < 4:
            return False
        starts, crc_used, watch = self.starts, self.crc, self.ddp
        shapes, pieces = self._shapes, stream.pieces
        is_repeated = False
        if self.repeated_length and not pieces and 0 < (phase := stream.next & 511) <= LAST_WHOLE_HEAD:
            size, marker_count, read, expected = shapes[self.repeated_length << 9 | phase]
            if size == length:
                begin, to = begins_alike(octets, start)
                is_repeated = (
                    begin == self.repeated_begin
                    and (to == watch.to if watch.is_writing else watch.quiet >= 0)
                    and (not crc_used or crc32c(octets[start:end]) == CRC_RESIDUE)
                    and read(octets, start) == expected
                )
        if is_repeated:
            # One FPDU that differs from the last such in TO, payload and where the Markers are alone.
            if not watch.is_writing:
                self.write_again()
            fpdus, ulpdu_octets = 1, self.repeated_length
            watch.to = to + ulpdu_octets - TAGGED_HEADER_LENGTH & TO_MASK
            starts.append(stream.next)
        else:
            known = len(starts)
            found: list[int] | None = [] if self.wants_records else None
            at = start
            ulpdu_octets = marker_count = need = 0
            odd: list[Odd] | None = None
            if pieces:
                offset, held_end, index, held = pieces[0]
                header = offset if offset & 511 else offset + 4
                at = self._need - shift
                if at <= start or held_end < header + 4:
                    return False
                counted_from = header if header == offset else header - self._more
                if not markers_agree(octets, start, at if at < end else end, shift, counted_from):
                    return False
                if at > end:
                    self._keep_part(seg)
                    return True
                index += header - offset
            quiet, writing, stag, shortest, longest = self.expects
            to = watch.to
            if pieces:
                ulpdu_length, control = head(held.buffer, index)
                if control & 0x0F == TERMINATE_OPCODE or not 1 < ulpdu_length <= MAX_ULPDU_LENGTH:
                    return False
                if crc_used and crc32c(octets[start:at], self._crc_of_held()) != CRC_RESIDUE:
                    return False
                last = at - 8 if at - 8 + shift & 511 else at - 12
                if (
                    control != quiet
                    or held_end < header + HEAD_OCTETS
                    or -header & 511 < HEAD_OCTETS
                    or last < start
                    or not shortest <= ulpdu_length <= longest
                    or (ulpdu_length & 3 != NO_PAD and word(octets, last)[0] & PAD_BITS[ulpdu_length & 3])
                    or (writing and place(held.buffer, index + 4) != (stag, to))
                ):
                    odd, quiet = [(offset - shift, 0, ulpdu_length, 0)], -1
                elif writing:
                    to += ulpdu_length - TAGGED_HEADER_LENGTH
                ulpdu_octets = ulpdu_length
                marker_count = (self._need - offset - (ulpdu_length + 9 & ~3)) // 4
                starts.append(offset)
                if found is not None:
                    found.append(ulpdu_length | (control & 0x0F) << 16)
            while True:
                phase = at + shift & 511
                header = at if phase else at + 4
                if end - header < 4:
                    break
                ulpdu_length, control = head(octets, header)
                size, markers, read, expected = shapes[ulpdu_length << 9 | phase]
                after = at + size
                if after > end:
                    counted_from = header + shift if phase else header + shift - self._more
                    if (phase or not any(octets[at:header])) and markers_agree(
                        octets, header, end, shift, counted_from
                    ):
                        need = after + shift
                    break
                if not size or (crc_used and crc32c(octets[at:after]) != CRC_RESIDUE):
                    break
                fits = read(octets, at) == expected
                if not fits:
                    counted_from = header + shift if phase else header + shift - self._more
                    if any(octets[at:header]) or not markers_agree(octets, header, after, shift, counted_from):
                        break
                fits = fits and shortest <= ulpdu_length <= longest
                begun, begins = (octets, header) if phase <= LAST_WHOLE_UNTAGGED_HEAD else (uncut(octets, at, phase), 0)
                if fits and control == quiet and (not writing or place(begun, begins + 4) == (stag, to)):
                    if writing:
                        to += ulpdu_length - TAGGED_HEADER_LENGTH
                elif control & 0x0F == TERMINATE_OPCODE:
                    break
                elif (
                    fits and after == end and odd is None and watch.glance(begun, begins + 2, control, ulpdu_length, to)
                ):
                    if watch.quiet != quiet:
                        self.expect()
                        writing, to = watch.is_writing, watch.to
                else:
                    if odd is None:
                        odd, quiet = [], -1
                    odd.append((at, header, ulpdu_length, after))
                ulpdu_octets += ulpdu_length
                marker_count += markers
                starts.append(at + shift)
                if found is not None:
                    found.append(ulpdu_length | (control & 0x0F) << 16)
                at = after
            if at != end and not need and end - (at if at + shift & 511 else at + 4) >= 4:
                del starts[known:]
                return False
            if writing:
                watch.to = to & TO_MASK
            if odd is not None:
                self._watch(seg, odd)
            if found:
                self._record(seg, starts[known], found)
            fpdus = len(starts) - known
            if (
                fpdus == 1
                and at == end
                and ulpdu_octets != self.repeated_length
                and writing
                and odd is None
                and found is None
                and not pieces
                and 0 < stream.next & 511 <= LAST_WHOLE_HEAD
            ):
                # One FPDU is all of it: most likely the next is the same.
                self.repeated_length, self.repeated_begin = ulpdu_octets, begins_alike(octets, start)[0]
            if at != end or pieces or not self.complete:
                self._keep(seg, at, need, fpdus, ulpdu_octets, marker_count, not pieces)
                return True
        # InOrderOperation._keep for a segment of whole FPDUs, written out for speed.
        counts = self.counts
        counts.whole_segments += 1
        counts.fpdus += fpdus
        counts.ulpdu_octets += ulpdu_octets
        counts.marker_count += marker_count
        if self.gapped:
            counts.undelivered += fpdus
        if not self._touched:
            self.touch()
        if length > self.longest_segment:
            self.longest_segment = length
        self.complete = frame
        stream.consumed.append(seg)
        stream.base = stream.next = end + shift
        if self._unjudged:
            self._judge_passed(stream.base)
        self.next_seq = seq + length & SEQ_MASK
        return True
