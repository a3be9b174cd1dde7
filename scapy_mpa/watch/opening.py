"""With what Full Operation of a half connection begins: its first octets, its first FPDU, its first segment."""

from __future__ import annotations

from scapy_mpa.framing.fpdu import LENGTH_FIELD_LENGTH
from scapy_mpa.framing.markers import MARKER_LENGTH, Octets, plain_length, wire_length
from scapy_mpa.receive.located import Located
from scapy_mpa.receive.reassembly import Reassembly
from scapy_mpa.receive.scan import Layout
from scapy_mpa.tcp.half import Moment
from scapy_mpa.values.segment import Segment, bare
from scapy_mpa.watch.fpdus import FIRST_ULPDU_OCTETS, LOOKED_AT, begins_with_header, wrong_beginning


class Opening:
    """The beginning of Full Operation in one half connection.

    Args:
        layout: how FPDUs lie.

    Attributes:
        octets: its first octets, until the first FPDU is complete.
        ulpdu: the first octets of the ULPDU of the first FPDU, None if that was not captured.
        ulpdu_length: its ULPDU_Length.
        end: the offset at which it ends, 0 if nobody knows.
        opened: the moment at which it was complete and located.
        segment: the segment that brought the first octet, without its octets.
    """

    __slots__ = ("_layout", "end", "octets", "opened", "segment", "ulpdu", "ulpdu_length")

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.octets = b""
        self.ulpdu: bytes | None = None
        self.ulpdu_length = self.end = 0
        self.opened: Moment | None = None
        self.segment: Segment | None = None

    def keep_octets(self, reassembly: Reassembly) -> None:
        """No FPDU is complete yet: keep what there is of the first octets."""
        end = min(reassembly.next, LOOKED_AT)
        if reassembly.base == 0 and len(self.octets) != end:
            self.octets = reassembly.read(0, end)

    def keep_segment(self, reassembly: Reassembly) -> None:
        """Keep the segment that brought the first octet, if it is there."""
        if self.segment is None and reassembly.starts and reassembly.starts[0] == 0:
            self.segment = bare(reassembly.pieces[0].seg)

    def begin(self, octets: Octets, begin: int, known: Moment, seg: Segment) -> None:
        """The first FPDU, in ``octets`` from index ``begin`` on, was read in order; ``seg`` brought its first."""
        markers = self._layout.markers
        header = begin + (MARKER_LENGTH if markers else 0)
        first = bytes(octets[header : header + LENGTH_FIELD_LENGTH + FIRST_ULPDU_OCTETS])
        length = self.ulpdu_length = first[0] << 8 | first[1]
        self.ulpdu = first[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + length]
        self.end = wire_length(length, 0) if markers else plain_length(length)
        self.opened = known
        if self.segment is None:
            self.segment = bare(seg)

    def begin_located(self, located: Located) -> tuple[str, str] | None:
        """The first FPDU was located; returns the rule that the first octets break, with details, or None."""
        wrong = None
        self.ulpdu, self.ulpdu_length = located.beginning, located.extent.ulpdu_length
        # Of one that is damaged nobody knows where it ends.
        self.end = located.end if located.placed is not None else 0
        self.opened = located.known
        if located.placed is None or not begins_with_header(located.beginning, self.ulpdu_length):
            wrong = self.what_is_wrong()
        self.octets = b""
        return wrong

    def what_is_wrong(self) -> tuple[str, str] | None:
        """The rule that the first octets break, with details, None if they do not."""
        return wrong_beginning(self.octets, self._layout.markers, self._layout.crc)
