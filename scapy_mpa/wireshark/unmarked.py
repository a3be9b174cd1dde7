"""A half connection as it would be without Markers: which sequence numbers its octets have then, and its FPDUs.

Markers stand at SeqStart + 512*k (RFC 5044 §4.3), so where an octet comes to lie without them is plain arithmetic, be
all that is before it captured or not: gaps stay gaps, and acknowledgements can be moved like octets.
"""

from __future__ import annotations

from scapy_mpa.framing.crc import CRC_LENGTH, crc32c, crc_field, crc_from_field
from scapy_mpa.framing.fpdu import Fpdu
from scapy_mpa.framing.markers import MARKER_INTERVAL, MARKER_LENGTH
from scapy_mpa.framing.sequence import SEQ_MOD, unwrap
from scapy_mpa.framing.startup import StartupFrame


def removed_before(offset: int) -> int:
    """Octets of Markers before a stream offset, those of one that it stands in included."""
    markers, into = divmod(offset, MARKER_INTERVAL)
    return MARKER_LENGTH * markers + min(into, MARKER_LENGTH)


class Unmarked:
    """The sequence numbers of a half connection without its Markers.

    ``seq_start`` is the sequence number of Full Operation's first octet, None if it is not known; ``has_start``: that
    octet is where FPDUs begin. ``fin`` is the stream offset of its FIN, once that is known; it takes a sequence number,
    but is no octet.
    ``markers`` is whether there are any; ``near`` is an offset near which sequence numbers are looked for.
    """

    def __init__(self, seq_start: int | None, *, markers: bool, has_start: bool = True) -> None:
        self._origin = seq_start or 0
        self.markers = markers and seq_start is not None
        # In a half that begins in the middle the octets before the first Marker captured are FPDUs too.
        self._has_start = has_start
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
        if self.markers and (offset >= 0 or not self._has_start):
            offset -= removed_before(offset)
        return (self._origin + offset + behind) % SEQ_MOD

    def seq(self, seq: int) -> int:
        """The sequence number that the octet with a sequence number has without Markers."""
        return self.seq_at(self.offset_of(seq))


def unmarked_fpdu(octets: bytes, fpdu: Fpdu, *, markers: bool, crc: bool) -> bytes:
    """The octets of an FPDU without its Markers; ``fpdu`` are its fields.

    A good CRC becomes the right one of what is left, a bad one stays as far from that as it was; where CRCs are not in
    use the field stays as it is. Of an FPDU that the capture cut it is what is there.
    """
    if markers and len(octets) < fpdu.wire_length:
        return fpdu.ulpdu_length.to_bytes(2, "big") + fpdu.ulpdu
    if not fpdu.markers:
        return octets
    body = fpdu.ulpdu_length.to_bytes(2, "big") + fpdu.ulpdu + fpdu.pad
    field = fpdu.crc
    if crc:
        field = crc32c(body) ^ crc_from_field(octets[-CRC_LENGTH:]) ^ crc32c(octets[:-CRC_LENGTH])
    return body + crc_field(field)


def unmarked_startup(startup: StartupFrame) -> bytes:
    """The octets of a startup frame that asks for no Markers."""
    return startup._replace(m=0).encode()
