"""A half connection as it would be without Markers: which sequence numbers its octets have then, and its FPDUs.

Markers stand at SeqStart + 512*k (RFC 5044 §4.3), so where an octet comes to lie without them is plain arithmetic, be
all that is before it captured or not: gaps stay gaps, and acknowledgements can be moved like octets.
"""

from __future__ import annotations

from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_field, crc_from_field
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.sequence import SEQ_MOD, unwrap
from scapy_mpa.framing.startup import StartupFrame
from scapy_mpa.reading.found import FoundFPDU
from scapy_mpa.report.half import HalfConnection


def removed_before(offset: int) -> int:
    """Octets of Markers before a stream offset, those of one that it stands in included."""
    markers, into = divmod(offset, MARKER_INTERVAL)
    return MARKER_LENGTH * markers + min(into, MARKER_LENGTH)


class Unmarked:
    """The sequence numbers of a half connection without its Markers.

    ``fin`` is the stream offset of its FIN, once that is known; it takes a sequence number, but is no octet.
    ``near`` is an offset near which sequence numbers are looked for.
    """

    def __init__(self, half: HalfConnection) -> None:
        self._origin = half.seq_start or 0
        self._markers = bool(half.markers) and half.seq_start is not None
        # In a half that begins in the middle the octets before the first Marker captured are FPDUs too.
        self._has_start = half.inferred is None
        self.near = 0
        self.fin: int | None = None

    def offset_of(self, seq: int) -> int:
        """The stream offset with a sequence number, near the last."""
        return unwrap(seq, self.near, self._origin)

    def seq_at(self, offset: int) -> int:
        """The sequence number that the octet at a stream offset has without Markers."""
        behind = 0
        if self.fin is not None and offset > self.fin:
            offset, behind = self.fin, offset - self.fin
        if self._markers and (offset >= 0 or not self._has_start):
            offset -= removed_before(offset)
        return (self._origin + offset + behind) % SEQ_MOD

    def seq(self, seq: int) -> int:
        """The sequence number that the octet with a sequence number has without Markers."""
        return self.seq_at(self.offset_of(seq))


def unmarked_fpdu(found: FoundFPDU) -> bytes:
    """The octets of an FPDU without its Markers.

    A good CRC becomes the right one of what is left, a bad one stays as far from that as it was; where CRCs are not in
    use the field stays as it is. Of an FPDU that the capture cut it is what is there.
    """
    fpdu = found.decoded
    if found.is_cut and found.half.markers:
        return fpdu.ulpdu_length.to_bytes(2, "big") + fpdu.ulpdu
    if not fpdu.markers:
        return found.octets
    body = fpdu.ulpdu_length.to_bytes(2, "big") + fpdu.ulpdu + fpdu.pad
    crc = fpdu.crc
    if found.connection.crc:
        stored = crc_from_field(found.octets[-CRC_LENGTH:])
        crc = crc32c(body) ^ stored ^ crc32c(found.octets[:-CRC_LENGTH])
    return body + crc_field(crc)


def unmarked_startup(startup: StartupFrame) -> bytes:
    """The octets of a startup frame that asks for no Markers."""
    return startup._replace(m=0).encode()
