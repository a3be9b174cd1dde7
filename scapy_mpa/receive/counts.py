"""What is counted of one half connection in Full Operation; the names are those of the report."""

from __future__ import annotations


class Counts:
    """FPDUs, octets and segments of one half connection.

    ``delivered_late`` and ``undelivered`` are FPDUs that were placed before they were delivered, and placed but
    never delivered; ``cut_fpdus`` those known to begin but cut by a gap.  ``whole_segments`` are those in order that
    hold nothing but whole FPDUs and are not among the other segments yet: see :meth:`settle`.
    """

    __slots__ = (
        "crc_errors",
        "cut_fpdus",
        "delivered_late",
        "fpdu_aligned_segments",
        "fpdus",
        "header_aligned_segments",
        "marker_count",
        "missing_octets",
        "out_of_order_segments",
        "retransmitted_segments",
        "segments",
        "stream_octets",
        "ulpdu_octets",
        "undelivered",
        "unlocated_octets",
        "whole_segments",
    )

    def __init__(self) -> None:
        self.fpdus = 0
        self.crc_errors = 0
        self.delivered_late = 0
        self.undelivered = 0
        self.cut_fpdus = 0
        self.marker_count = 0
        self.ulpdu_octets = 0
        self.stream_octets = 0
        self.missing_octets = 0
        self.segments = 0
        #: Octets captured in which no FPDU was found, because it was not known where one begins.
        self.unlocated_octets = 0
        self.header_aligned_segments = 0
        self.fpdu_aligned_segments = 0
        self.out_of_order_segments = 0
        self.retransmitted_segments = 0
        self.whole_segments = 0

    def settle(self) -> None:
        """Count the segments of whole FPDUs as what they are: segments, which begin and end with an FPDU."""
        whole, self.whole_segments = self.whole_segments, 0
        self.segments += whole
        self.header_aligned_segments += whole
        self.fpdu_aligned_segments += whole

    def take_segments(self, other: Counts) -> None:
        """Take over how many segments came, which does not depend on how FPDUs are read."""
        other.settle()
        self.segments = other.segments
        self.out_of_order_segments = other.out_of_order_segments
        self.retransmitted_segments = other.retransmitted_segments

    @property
    def placed(self) -> int:
        """FPDUs placed: all whose CRC is not bad."""
        return self.fpdus - self.crc_errors

    @property
    def delivered(self) -> int:
        """FPDUs delivered: placed, with nothing missing before them."""
        return self.placed - self.undelivered

    @property
    def placed_out_of_order(self) -> int:
        """FPDUs placed before they were delivered, or never delivered."""
        return self.delivered_late + self.undelivered
