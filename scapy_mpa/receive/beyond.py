"""Locating FPDUs beyond a hole by Markers, and by the FPDUs placed there (RFC 5044 §4.3, appendix A.4).

A Marker names the start of the FPDU that holds it.  An FPDU that new octets complete holds some of them.  So does it
hold one of the Markers among them, or the last before, or the first behind; or it follows one that is placed.
"""

from __future__ import annotations

from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH, header_offset
from scapy_mpa.receive.located import Located
from scapy_mpa.receive.placing import Placing
from scapy_mpa.receive.scan import Extent, FPDUReader


class BeyondHole:
    """What Markers locate where the chain is not."""

    __slots__ = ("_failed", "_placing", "_reader", "_reassembly")

    def __init__(self, reader: FPDUReader, placing: Placing) -> None:
        self._reader = reader
        self._reassembly = reader.reassembly
        self._placing = placing
        #: What could not be placed at this frame since another was: many Markers may name the same.
        self._failed: set[Extent] = set()

    def look_at(self, new: list[tuple[int, int]], low: int, at: int | None, is_trusted: bool) -> None:
        """Place what Markers in or next to new octets locate, and what follows it.

        Args:
            new: the ranges of new octets.
            low: no FPDU that is still to be found begins before.
            at: where the next FPDU of the chain begins, None if that is not known.
            is_trusted: whether its length is: its CRC has not been found bad.
        """
        self._failed.clear()
        for start, end in new:
            for first, last, is_one in self._held(start, end):
                self._locate(first, last, low, at, is_trusted)
                inside = None if is_one else self._placing.ahead.before(last)
                while inside is not None and inside.offset >= first:
                    captured = self._reassembly.range_at(first)
                    if inside.end <= last and captured is not None:
                        self._follow(inside, captured[1])
                    inside = self._placing.ahead.before(inside.offset)

    def _held(self, start: int, end: int) -> list[tuple[int, int, bool]]:
        """What is still held of [start, end), by pieces, short ones together; whether each is one piece."""
        found: list[tuple[int, int, bool]] = []
        for piece in self._reassembly.pieces_of(start, end):
            first, last, is_one = max(piece.start, start), min(piece.end, end), True
            if found and found[-1][1] == first and last - found[-1][0] <= MARKER_INTERVAL:
                # A copy may come over single octets: each has the same Markers next to it.
                first, is_one = found.pop()[0], False
            found.append((first, last, is_one))
        return found

    def _locate(self, start: int, end: int, low: int, at: int | None, is_trusted: bool) -> None:
        """Place what Markers in or next to the new octets [start, end) locate, and what follows it."""
        captured = self._reassembly.range_at(start)
        if captured is None:
            return
        first, last = max(captured[0], low), captured[1]
        before = self._placing.ahead.before(start)
        if before is not None and first <= before.end <= end:
            self._follow(before, last)
        marker = start - MARKER_LENGTH
        marker = max(marker - marker % MARKER_INTERVAL, first + -first % MARKER_INTERVAL)
        tried: set[int] = {at} if at is not None else set()
        while marker + MARKER_LENGTH <= last and marker < end + MARKER_INTERVAL:
            inside = self._placing.ahead.holding(marker)
            if inside is not None:
                marker = inside.end + -inside.end % MARKER_INTERVAL
                continue
            for offset in self._reader.starts_named_by(marker):
                if first <= offset and offset not in tried:
                    tried.add(offset)
                    if self._place_named(offset, marker, last, at if is_trusted else None):
                        break
            if marker >= end:
                return
            marker += MARKER_INTERVAL

    def _place_named(self, offset: int, marker: int, last: int, at: int | None) -> bool:
        """Place the FPDU at ``offset``, which ``marker`` names, if it is one."""
        extent = self._reader.extent(offset, last)
        if (
            extent is None
            or extent.end > last
            or not offset <= marker < extent.end
            or extent in self._failed
            or self._placing.ahead.overlaps(extent)
        ):
            return False
        inside_chain = at is not None and self._is_inside(extent, at)
        # Without a CRC the chain of lengths is believed.
        located = None if inside_chain and not self._reader.layout.crc else self._placing.place_ahead(extent)
        if located is None:
            self._failed.add(extent)
            return False
        self._failed.clear()
        if inside_chain and at is not None:
            # The length that leads elsewhere may be one that the receiver never saw.
            self._placing.drop_damaged(at, header_offset(at) + 2)
            self._placing.report("marker-length", extent.offset, other_start(extent.offset - at))
        self._follow(located, last)
        return True

    def _follow(self, located: Located | None, last: int) -> None:
        """Place the FPDUs that follow one placed ahead, as far as they are complete."""
        while located is not None:
            extent = self._reader.extent(located.end, last)
            if extent is None or extent.end > last or self._placing.ahead.overlaps(extent):
                return
            located = self._placing.place_ahead(extent)

    def _is_inside(self, extent: Extent, at: int) -> bool:
        """Whether an FPDU begins inside the one that lengths lead to."""
        if extent.offset >= self._reassembly.next:
            return False
        chained = self._reader.extent(at, self._reassembly.next)
        return chained is not None and extent.offset < chained.end


def other_start(distance: int) -> str:
    """What is wrong where a Marker and a length name different starts."""
    return f"a Marker points {distance} octets into the FPDU that the chain of lengths leads to"
