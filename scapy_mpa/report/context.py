"""From a record back to its octets, and to a Scapy packet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scapy_mpa.analyzer.connection import FullOperation
from scapy_mpa.capture.index import FrameIndex
from scapy_mpa.errors import MPAError
from scapy_mpa.framing.crc import CRC_RESIDUE, crc32c
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_INTERVAL, MARKER_LENGTH, remove_markers
from scapy_mpa.values.records import FPDURecord

if TYPE_CHECKING:
    from scapy.packet import Packet


def is_right(record: FPDURecord) -> Callable[[bytes], bool] | None:
    """Return a function that says whether octets are those of an FPDU; None if its CRC is bad or not in use."""
    if record.crc != "good" or record.deviation is not None:
        return None
    return lambda octets: crc32c(octets) == CRC_RESIDUE


class HalfContext:
    """One half connection of a capture, with what is needed to read its FPDUs again."""

    __slots__ = ("_crc", "_markers", "_origin", "_seq_start", "index")

    def __init__(self, index: FrameIndex, operation: FullOperation) -> None:
        self.index = index
        self._seq_start = operation.seq_start
        self._markers = operation.markers
        self._crc = operation.crc
        self._origin = operation.mpa.profile.fpduptr_origin

    def octets(self, record: FPDURecord) -> bytes:
        """All octets of the FPDU, Markers included; up to the first that is missing, if the capture cut it."""
        place = record.frames, record.seq, record.wire_length
        return self.index.octets(*place, is_right(record), is_cut=record.crc == "cut")

    def ulpdu(self, record: FPDURecord) -> bytes:
        """The ULPDU, without Markers; raises :class:`~scapy_mpa.errors.MPAError` if its sender deviates."""
        if record.deviation is not None:
            raise MPAError(
                f"the sender of this FPDU deviates ({record.deviation}): its ULPDU is not at the usual place"
            )
        octets = self.octets(record)
        if self._markers:
            octets = remove_markers(octets, (record.seq - self._seq_start) % MARKER_INTERVAL)
        return octets[LENGTH_FIELD_LENGTH : LENGTH_FIELD_LENGTH + record.ulpdu_length]

    def packet(self, record: FPDURecord) -> Packet:
        """The FPDU as a Scapy packet; raises :class:`~scapy_mpa.errors.MPAError` if its sender deviates."""
        if record.deviation is not None:
            raise MPAError(f"the sender of this FPDU deviates ({record.deviation}): it cannot be dissected as an FPDU")
        from scapy_mpa.packet.mpa import fpdu_packet

        marker_offset = (self._seq_start - record.seq) % MARKER_INTERVAL if self._markers else None
        if marker_offset is not None and marker_offset > MARKER_INTERVAL - MARKER_LENGTH:
            marker_offset = None  # it begins inside a Marker, where no FPDU can
        return fpdu_packet(self.octets(record), marker_offset, self._crc, self._origin)
