"""Which octets of a half connection are replaced: a mask that is added to them, modulo 2, by sequence number.

A mask depends on nothing but the place in the stream. So a retransmission stays one, and copies that differ still do,
in the same octets. CRCs are linear: what a mask changes in the CRC of an FPDU is the same for every content, so the
mask of a CRC field is made of the CRC of the mask. A CRC that was right is right again, one that was wrong is wrong by
as much. Not replaced (mask zero) are ULPDU_Length, Markers, PAD, and the headers of DDP and RDMAP.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from scapy_mpa.framing.fpdu import FPDUPlace, crc_of
from scapy_mpa.framing.markers import LENGTH_FIELD_LENGTH, MARKER_LENGTH
from scapy_mpa.framing.role import ROLES, Role
from scapy_mpa.framing.sequence import SEQ_MASK, seq_diff
from scapy_mpa.framing.startup import ENHANCED_DATA_LENGTH, KEY_PREFIX, STARTUP_HEADER_LENGTH, StartupFrame
from scapy_mpa.report.connection import Connection
from scapy_mpa.scrub.headers import kept_private_data
from scapy_mpa.scrub.noise import Noise
from scapy_mpa.scrub.places import Places, dialects_of
from scapy_mpa.values.segment import addresses_of

#: Octets of noise that are made at once where there is no FPDU.
_CHUNK: Final = 4096
#: Masks that are remembered: segments of one FPDU follow each other, those of some connections by turns.
_REMEMBERED: Final = 128
#: Octets by which a segment may be away from what was captured of its half connection: half of what a sequence number
#: tells apart (RFC 9293 §3.4).
_NEAR: Final = 1 << 30


class _Remembered:
    """The masks made last, of all half connections: a bound of memory, 8 MiB."""

    def __init__(self) -> None:
        self.fpdu = lru_cache(_REMEMBERED)(HalfMasks.fpdu_mask)
        self.noise = lru_cache(_REMEMBERED)(HalfMasks.noise_at)


class HalfMasks:
    """The masks of one half connection.

    Args:
        connection: The connection.
        direction: The sender.
        noise: What makes the masks.
        places: Where its FPDUs lie.
        remembered: The masks made last, of all half connections.
        keeps_headers: Whether headers of the upper layer are left readable.
    """

    def __init__(
        self,
        connection: Connection,
        direction: Role,
        noise: Noise,
        places: Places,
        remembered: _Remembered,
        *,
        keeps_headers: bool,
    ) -> None:
        half = connection.half(direction)
        startup, seq = _startup(connection, direction)
        self._half, self._noise = half, noise
        part = connection.part if _sender_of_part(connection) == direction else None
        own = half.seq_start if half.seq_start is not None else seq
        if own is None and part is not None:
            own = part.seq
        #: The sequence number of offset 0.
        self.seq = own or 0
        self.connection = connection
        self._label = half.key + self.seq.to_bytes(4, "big")
        self._dialects = dialects_of(half)
        self._places = places
        self._numbers = places.extents.get((connection.number, direction), range(0))
        #: Where the last segment began, which tells sequence numbers that wrap.
        self._near = 0
        self._remembered = remembered
        #: Masks of octets of the startup frame, by offset.
        self._startup: list[tuple[int, bytes]] = []
        if part is not None:
            kept = min(len(part.octets), STARTUP_HEADER_LENGTH)
            self._startup = [(seq_diff(part.seq, self.seq), bytes(kept))]
        if startup is not None and seq is not None:
            offset = seq_diff(seq, self.seq)
            kept = STARTUP_HEADER_LENGTH + len(startup.extension)
            if startup.enhanced is not None:
                kept += ENHANCED_DATA_LENGTH
            if keeps_headers:
                kept += kept_private_data(startup)
            self._startup += [(offset, bytes(kept)), *self._addresses(startup, offset, half.key)]

    def _addresses(self, startup: StartupFrame, offset: int, key: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield masks that make addresses of the connection, where Private Data have them, what they are elsewhere."""
        data = startup.private_data
        begin = offset + STARTUP_HEADER_LENGTH + len(startup.extension)
        for address in {*addresses_of(key)}:
            at = data.find(address)
            while at >= 0:
                yield begin + at, _xor(address, self._noise.address(address))
                at = data.find(address, at + len(address))

    def is_near(self, seq: int) -> bool:
        """Return True if a sequence number is near those that were captured."""
        return -_NEAR < seq_diff(seq, self.seq + self._near & SEQ_MASK) < _NEAR

    def mask(self, seq: int, length: int, octets: bytes | memoryview) -> bytes:
        """Return the mask of `octets`, which are `length` from a sequence number on."""
        offset = self._near + seq_diff(seq, self.seq + self._near & SEQ_MASK)
        self._near = max(self._near, offset)
        found = bytearray(self._gap(offset, length))
        for at, mask in self._startup:
            _lay(found, offset, at, mask)
        _lay(found, offset, offset, bytes(kept_key(octets)))
        if offset + length > 0 and self._half.seq_start is not None:
            self._full_operation(found, offset, length)
        return bytes(found)

    def _full_operation(self, found: bytearray, offset: int, length: int) -> None:
        """Lay what is kept in Full Operation, and the masks of FPDUs."""
        dialect = self._dialects[0]
        if dialect.period is not None:
            for at in dialect.marker_positions(max(0, offset - MARKER_LENGTH), offset + length):
                _lay(found, offset, at, bytes(MARKER_LENGTH))
        if not self._numbers:
            return
        index, last = self._index(offset), self._numbers[-1]
        if index == self._numbers[0] and self._half.inferred is None:
            _lay(found, offset, 0, bytes(LENGTH_FIELD_LENGTH))
        place = self._places.at(index)
        while place.offset < offset + length:
            end = place.offset + place.wire
            if end > offset:
                _lay(found, offset, place.offset, self._remembered.fpdu(self, index))
            following = None if index == last else self._places.at(index + 1)
            if following is None or following.offset != end:
                _lay(found, offset, end, bytes(LENGTH_FIELD_LENGTH))  # that of an FPDU which is not complete
            if following is None:
                return
            index, place = index + 1, following

    def _index(self, offset: int) -> int:
        """Return the number of the last FPDU that begins at an offset or before, or of the first."""
        low, high = self._numbers[0], self._numbers[-1] + 1
        while low < high:
            middle = (low + high) // 2
            if self._places.at(middle).offset <= offset:
                low = middle + 1
            else:
                high = middle
        return max(self._numbers[0], low - 1)

    def fpdu_mask(self, index: int) -> bytes:
        """Return the mask of an FPDU, by its number."""
        place = self._places.at(index)
        dialect = self._dialects[place.which]
        fields = place.laid_out(dialect)
        label = self._label + place.offset.to_bytes(8, "big", signed=True)
        noise = self._noise.octets(label, place.ulpdu_length - place.kept)
        mask = bytearray(fields.end - place.offset)
        _spread(mask, fields, place.offset, bytes(LENGTH_FIELD_LENGTH + place.kept) + noise + bytes(place.pad))
        if place.has_crc:
            crc = _xor(crc_of(dialect, fields, mask), crc_of(dialect, fields, bytes(len(mask))))
            _spread(mask, fields, fields.crc_at, crc)
        return bytes(mask[: place.wire])

    def _gap(self, offset: int, length: int) -> bytes:
        """Return the mask of octets that belong to nothing that is known."""
        first, last = offset // _CHUNK, (offset + max(length, 1) - 1) // _CHUNK
        octets = b"".join(self._remembered.noise(self, number) for number in range(first, last + 1))
        return octets[offset - first * _CHUNK :][:length]

    def noise_at(self, number: int) -> bytes:
        """Return the mask of octets that are in no FPDU, piece by piece."""
        return self._noise.octets(b"gap" + self._label + number.to_bytes(8, "big", signed=True), _CHUNK)


class StreamMasks:
    """The masks of all half connections of a capture.

    Args:
        places: Where the FPDUs of the capture lie.
        noise: What makes the masks.
        keeps_headers: Whether headers of the upper layer are left readable.
    """

    def __init__(self, places: Places, noise: Noise, *, keeps_headers: bool = False) -> None:
        #: The half connections of a key.
        self._halves: dict[bytes, list[HalfMasks]] = {}
        remembered = _Remembered()
        for connection in places.report.connections:
            for direction in ROLES:
                half = HalfMasks(connection, direction, noise, places, remembered, keeps_headers=keeps_headers)
                self._halves.setdefault(connection.half(direction).key, []).append(half)

    def of(self, key: bytes, path: Sequence[str], frame: int, seq: int) -> HalfMasks | None:
        """Return the half connection of a segment; None if it is of no MPA connection.

        Of several on the same addresses and ports it is the one in whose frames the segment lies, or after whose it
        comes; of those the one whose sequence numbers are near.
        """
        there = self._halves.get(key, ())
        if len(there) < 2:
            return there[0] if there else None
        near = [one for one in there if (key, tuple(path)) not in one.connection.foreign_paths] or [*there]
        begun = [one for one in near if one.connection.lifecycle.first[0] <= frame] or near[:1]
        within = [one for one in begun if frame <= one.connection.lifecycle.last[0]] or begun[-1:]
        return next((one for one in reversed(within) if one.is_near(seq)), within[-1])


def kept_key(octets: bytes | memoryview) -> int:
    """Return how many octets of a segment are kept as those of a startup frame outside any connection.

    Such as a second one, or one that nobody answers: its header, without the Private Data.
    """
    return min(STARTUP_HEADER_LENGTH, len(octets)) if bytes(octets[: len(KEY_PREFIX)]) == KEY_PREFIX else 0


def _startup(connection: Connection, direction: Role) -> tuple[StartupFrame | None, int | None]:
    if direction == "initiator":
        return connection.request, connection.request_seq
    return connection.reply, connection.reply_seq


def _sender_of_part(connection: Connection) -> Role | None:
    """Return who sent the startup frame that arrived only in part: after a whole Request it is a Reply."""
    if connection.part is None:
        return None
    return "responder" if connection.request is not None or connection.part.kind == "reply" else "initiator"


def _xor(one: bytes | bytearray, other: bytes | bytearray) -> bytes:
    return bytes(left ^ right for left, right in zip(one, other, strict=True))


def _lay(found: bytearray, begin: int, at: int, mask: bytes) -> None:
    """Put as much of a mask at an offset as there is room for; `found` begins at the offset `begin`."""
    first, end = max(at, begin), min(at + len(mask), begin + len(found))
    if first < end:
        found[first - begin : end - begin] = mask[first - at : end - at]


def _spread(mask: bytearray, place: FPDUPlace, at: int, plain: bytes) -> None:
    """Put octets into the mask of an FPDU from an offset on, between its Markers."""
    done = 0
    for marker in (*(one for one in place.markers if one + MARKER_LENGTH > at), place.end):
        run = min(marker - at, len(plain) - done)
        if run > 0:
            mask[at - place.offset : at - place.offset + run] = plain[done : done + run]
            done += run
        at = marker + MARKER_LENGTH
        if done == len(plain):
            return
