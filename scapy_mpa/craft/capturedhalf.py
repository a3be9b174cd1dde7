"""One half connection as it was captured: which of its FPDUs can be located, and when.

Where the FPDUs lie is known from their sender (``SentHalf``); ``Captured`` says which octets came at which frame.
See ``truth`` for the definitions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from scapy_mpa.craft.takencopies import Acknowledged, Captured, taken
from scapy_mpa.craft.tcppacket import SentHalf
from scapy_mpa.framing.ddp import OPCODE_NAMES
from scapy_mpa.framing.markers import MARKER_LENGTH, marker_positions

#: The frame of what no frame brings.
NEVER = 1 << 62

_NANOSECONDS = 1_000_000_000


class CapturedHalf:
    """The FPDUs of one half connection, captured as ``captured`` says and acknowledged as ``acknowledged`` does.

    ``floor`` is the frame by which both startup frames had arrived; ``anchored``: it is known where Full Operation
    begins; ``checks``: TCP checksums are known to be captured as they were on the wire.
    """

    def __init__(
        self,
        half: SentHalf,
        captured: list[Captured],
        acknowledged: Acknowledged,
        floor: int,
        anchored: bool,
        checks: bool,
    ) -> None:
        origin = half.origin or 0
        self._half = half
        self._floor = floor
        self._starts = [origin + fpdu.offset for fpdu in half.laid]
        self._ends = [origin + fpdu.end for fpdu in half.laid]
        self._named = [fpdu.markers > 0 for fpdu in half.laid]
        if anchored and self._named:
            self._named[0] = True
        self._anchored = anchored
        self._checks = checks
        count = len(half.laid)
        self._missing = [fpdu.wire_length for fpdu in half.laid]
        #: The frame by which each was complete, and that at which it was located too (None: not yet).
        self._complete: list[int | None] = [None] * count
        self._located: list[int | None] = [None] * count
        self._bad = [False] * count
        #: What was captured first, sorted and without overlaps: (start, end, index of the segment).
        self._pieces: list[tuple[int, int, int]] = []
        self._captured = taken(half, captured, acknowledged)
        self._has_damage = any(segment.damage for segment in captured)
        self._has_cuts = any(segment.kept < segment.end for segment in captured)
        for index in range(len(self._captured)):
            self._take(index)
        self._restore()
        self._search()
        self._doubt()

    @property
    def first_placed(self) -> int:
        """The frame at which the first FPDU that was located was placed."""
        return next((frame for frame in self._located if frame is not None), NEVER)

    # --- octets ---

    def _take(self, index: int) -> None:
        """A segment comes."""
        segment = self._captured[index]
        if segment.is_dropped:
            return
        self._commit(index, max(segment.frame, self._floor))
        for k in self._fresh(segment):
            self._locate(k)

    def _commit(self, index: int, now: int) -> None:
        """Store the new octets of a segment."""
        segment = self._captured[index]
        at, end = segment.start, segment.end
        pieces = self._pieces
        if not pieces or pieces[-1][1] <= at:
            pieces.append((at, end, index))
            self._count(at, end, 1, now)
            return
        new = []
        for start, after, _ in self._overlapping(at, end):
            if at < start:
                new.append((at, start, index))
            at = max(at, after)
        if at < end:
            new.append((at, end, index))
        for piece in new:
            pieces.insert(bisect_left(pieces, piece), piece)
            self._count(piece[0], piece[1], 1, now)

    def _restore(self) -> None:
        """Count octets of dropped segments that no other segment carried: no frame shows that they were different."""
        for index, segment in enumerate(self._captured):
            if not segment.is_dropped:
                continue
            self._commit(index, self._floor)
            for k in range(bisect_right(self._ends, segment.start), bisect_left(self._starts, segment.end)):
                if self._complete[k] is not None and self._located[k] is None:
                    frames = [self._captured[other].frame for _, _, other in self._pieces_of(k)]
                    self._complete[k] = max(*frames, self._floor)
            for k in self._fresh(segment):
                self._locate(k)

    def _count(self, start: int, end: int, sign: int, now: int) -> None:
        """Octets [start, end) have come, or gone."""
        for k in range(bisect_right(self._ends, start), bisect_left(self._starts, end)):
            overlap = min(end, self._ends[k]) - max(start, self._starts[k])
            self._missing[k] -= sign * overlap
            if self._located[k] is not None:
                continue
            self._complete[k] = now if not self._missing[k] else None
            if self._has_damage and self._half.crc:
                self._bad[k] = not self._missing[k] and self._is_damaged(k)

    def _overlapping(self, start: int, end: int) -> list[tuple[int, int, int]]:
        first = max(bisect_right(self._pieces, (start, NEVER, 0)) - 1, 0)
        found = []
        for piece in self._pieces[first:]:
            if piece[0] >= end:
                break
            if piece[1] > start:
                found.append(piece)
        return found

    def _pieces_of(self, k: int) -> list[tuple[int, int, int]]:
        return self._overlapping(self._starts[k], self._ends[k])

    def _is_damaged(self, k: int) -> bool:
        first, last = self._starts[k], self._ends[k]
        return not self._is_cut(first, last) and any(
            max(start, first) <= at < min(end, last)
            for start, end, index in self._pieces_of(k)
            for at in self._captured[index].damage
        )

    def _is_cut(self, start: int, end: int) -> bool:
        """Return True if octets of [start, end) are not in the file, as the copies that count carried them."""
        return self._has_cuts and any(
            self._captured[index].kept < min(after, end) for _, after, index in self._overlapping(start, end)
        )

    def _is_in_file(self, start: int, end: int) -> bool:
        """Return True if some copy of each octet of [start, end) is in the file."""
        return not self._is_cut(start, end) or _is_kept(self._captured, start, end)

    # --- FPDUs ---

    def _has_length(self, k: int) -> bool:
        """Return True if the ULPDU_Length of FPDU k, all of whose octets were sent, is in the file."""
        fpdu = self._half.laid[k]
        header = self._starts[k] + fpdu.header_offset - fpdu.offset
        return self._is_in_file(header, header + 2)

    def _has_control(self, k: int) -> bool:
        """Return True if the control octets of the DDP Segment in FPDU k, and a Marker among them, are in the file."""
        fpdu = self._half.laid[k]
        length = self._starts[k] + fpdu.header_offset - fpdu.offset
        return self._is_in_file(length + 2, min(length + 8, self._ends[k]))

    def _is_named(self, k: int) -> bool:
        """Return True if the start of FPDU k is known on its own: it is the first, or one of its Markers is in the
        file.
        """
        if not self._named[k] or not self._has_cuts or (k == 0 and self._anchored):
            return self._named[k]
        origin = self._half.origin or 0
        markers = marker_positions(self._starts[k] - origin, self._ends[k] - origin)
        return any(self._is_in_file(origin + at, origin + at + MARKER_LENGTH) for at in markers)

    def _fresh(self, segment: Captured) -> list[int]:
        """The FPDUs that a segment makes complete and located, and those that only waited for them."""
        fresh: list[int] = []
        first = bisect_right(self._ends, segment.start)
        k = first
        after = bisect_left(self._starts, segment.end)
        while k < len(self._starts):
            if self._complete[k] is not None and self._located[k] is None and self._has_length(k):
                before = k > 0 and (self._located[k - 1] is not None or (bool(fresh) and fresh[-1] == k - 1))
                if before or self._is_named(k):
                    fresh.append(k)
                elif k >= after:
                    break
            elif k >= after:
                break
            k += 1
        return fresh

    def _locate(self, k: int) -> None:
        """FPDU k is complete and located now."""
        complete = self._complete[k]
        assert complete is not None
        before = self._located[k - 1] if k else None
        # Found by its CRC, though perhaps only now: it could have been placed when it was complete.
        is_alone = self._is_named(k) or before is None or (self._bad[k - 1] and not self._bad[k])
        self._located[k] = complete if is_alone else max(complete, before or 0)

    def _search(self) -> None:
        """Search for FPDUs after octets that never arrived, in a stream without Markers.

        So they are in a half that begins in the middle and ends before an FPDU with a Marker, if there are CRCs. One
        that was cut is found if it begins with a segment and ends with one.
        """
        is_marked = self._half.markers and (self._anchored or not self._half.crc or self.first_placed < NEVER)
        if is_marked and not self._has_cuts:
            return
        for k in range(len(self._complete)):
            if self._complete[k] is None or self._located[k] is not None or not self._has_length(k):
                continue
            is_known = k > 0 and self._located[k - 1] is not None
            is_cut = self._is_cut(self._starts[k], self._ends[k])
            is_found = not is_marked and not (self._bad[k] or (self._half.crc and is_cut))
            if is_known or is_found or (is_cut and self._is_shown_by_segments(k)):
                self._locate(k)

    def _is_shown_by_segments(self, k: int) -> bool:
        """Return True if FPDU k begins where a segment does, ends where one does, and its control octets are there."""
        starts = {start for start, _, _ in self._pieces}
        ends = starts | {end for _, end, _ in self._pieces if not self._overlapping(end, end + 1)}
        return self._starts[k] in starts and self._ends[k] in ends and self._has_control(k)

    def _doubt(self) -> None:
        """Require confirmation from later FPDUs where one bad FPDU follows another, and no Marker names it.

        That is a whole FPDU, or the end of the octets.
        """
        for k in range(len(self._bad) - 1, 0, -1):
            if not (self._bad[k] and self._bad[k - 1]) or self._named[k] or self._located[k] is None:
                continue
            if k + 1 < len(self._bad):
                is_doubtful = self._bad[k + 1] and not self._named[k + 1] and self._located[k + 1] is None
                ends = not self._overlapping(self._ends[k], self._ends[k] + 1)
                if is_doubtful or (self._complete[k + 1] is None and not ends):
                    self._located[k] = None

    # --- records ---

    def records(self, times: list[int]) -> Iterator[dict[str, Any]]:
        """Yield what is reported about each located FPDU."""
        half = self._half
        error = self._first_error()
        first = next((k for k, frame in enumerate(self._located) if frame is not None), 0)
        latest = 0
        for k, (fpdu, located, complete) in enumerate(zip(half.laid, self._located, self._complete, strict=True)):
            if k >= first or self._anchored:
                latest = NEVER if complete is None else max(latest, complete)
            if located is None or complete is None:
                continue
            bad = self._bad[k]
            frame = complete if bad else located
            extent = self._starts[k], self._ends[k]
            opcode = half.opcodes[k] if self._has_control(k) else None
            yield {
                "seq": half.seq(self._starts[k]),
                "header_seq": half.seq(self._starts[k] + fpdu.header_offset - fpdu.offset),
                "ulpdu_length": fpdu.ulpdu_length,
                "wire_length": fpdu.wire_length,
                "markers": fpdu.markers,
                "crc": "bad" if bad else "cut" if self._is_cut(*extent) else "good" if half.crc else "unchecked",
                "located_by": self._located_by(k, located),
                "frames": sorted({self._captured[index].frame for _, _, index in self._pieces_of(k)}),
                "placed_frame": None if bad else located,
                "delivered_frame": None if bad or latest == NEVER else latest,
                "time": times[frame - 1] / _NANOSECONDS,
                "after_error": error is not None and (frame, k) > error,
                "opcode": None if opcode is None else OPCODE_NAMES[opcode],
                "deviation": half.deviation,
            }

    def _first_error(self) -> tuple[int, int] | None:
        """The frame that completed the first bad FPDU, and the FPDU's number; None if all are good."""
        bad = ((frame, k) for k, frame in enumerate(self._located) if frame is not None and self._bad[k])
        # What TCP dropped, MPA never had.
        return min((found for found in bad if not self._checks or not self._has_dropped(found[1])), default=None)

    def _has_dropped(self, k: int) -> bool:
        return any(self._captured[index].is_dropped for _, _, index in self._pieces_of(k))

    def _located_by(self, k: int, located: int) -> str:
        """Return how FPDU k, which frame ``located`` located, is found."""
        before = self._located[k - 1] if k else None
        if k == 0 and self._anchored:
            return "start"
        if before is not None and not self._bad[k - 1] and before <= located:
            return "length"
        return "marker" if self._named[k] else "scan"


def _is_kept(captured: list[Captured], start: int, end: int) -> bool:
    """Return True if each octet of [start, end) is in the file."""
    while start < end:
        ends = [segment.kept for segment in captured if segment.start <= start < segment.kept]
        if not ends:
            return False
        start = max(ends)
    return True
