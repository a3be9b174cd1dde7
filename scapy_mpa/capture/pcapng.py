"""The pcapng format (draft-ietf-opsawg-pcapng): sections of blocks, packets of several interfaces.

Read are section headers, interface descriptions and the three kinds of packet blocks; every other block is skipped.
A block has its length at both ends; where these differ, nothing says which is right, so the file ends before it.
Each section has its byte order, each interface its link type, its unit of time and its offset from UTC.  A simple
packet has no time: it gets that of the packet before it.
"""

from __future__ import annotations

from array import array
from bisect import bisect
from struct import Struct

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.link import LINK_TYPES, link_type_not_read
from scapy_mpa.capture.linktypes import note_not_read, refusal
from scapy_mpa.capture.ordinary import ordinary_blocks
from scapy_mpa.capture.packet import NO_SEGMENT, UNKNOWN_LINK, FastPath, fast_path, segment_in
from scapy_mpa.capture.reader import MAX_CAPTURED_LENGTH, NANOSECONDS, Reader
from scapy_mpa.capture.source import Octets, read_exactly
from scapy_mpa.errors import CaptureError
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.segment import Segment

PCAPNG_MAGIC = bytes.fromhex("0a0d0d0a")
SECTION_HEADER, INTERFACE_DESCRIPTION, OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6

BYTE_ORDER_MAGIC = {bytes.fromhex("4d3c2b1a"): "<", bytes.fromhex("1a2b3c4d"): ">"}
_MAJOR_VERSION = 1
#: Type and length stand before, the length again after.
SHORTEST_BLOCK, _TRAILER = 12, 4
#: Octets of a block before what has no fixed length, and from its start to its end without that.
FIXED_LENGTHS = {
    SECTION_HEADER: 28,
    INTERFACE_DESCRIPTION: 20,
    OBSOLETE_PACKET: 32,
    SIMPLE_PACKET: 16,
    ENHANCED_PACKET: 32,
}
_PACKET_HEADER, _SIMPLE_HEADER = 28, 12
#: The longest block that is not skipped: a packet and its options.
LONGEST_BLOCK = MAX_CAPTURED_LENGTH + (1 << 20)

_OPTION_END, OPTION_TSRESOL, OPTION_TSOFFSET = 0, 9, 14
#: The unit of time, a power of ten, where nothing is said about it.
_MICROSECONDS = 6
#: Interfaces of a section that are remembered: more than any host has.
_MOST_INTERFACES = 1 << 16
#: The longest description of an interface that is kept as it is, in octets.
_SHORT_DESCRIPTION = 1024
#: Later than any capture: what times beyond are taken for, so that they fit 64 bits.
_LAST_TIME = (1 << 63) - 1


class Interface(NamedTuple):
    """The content of an interface description.

    The time of a packet is ``ticks * factor // divisor + offset`` nanoseconds, and just ``ticks * factor`` if the upper
    half of ``ticks`` is below ``simple_high``.
    """

    link_type: int
    snaplen: int
    factor: int
    divisor: int
    offset: int
    simple_high: int
    fast: FastPath
    #: What it says about the unit of time, and all of the description's body, if it is short.
    tsresol: int
    description: bytes

    def time(self, ticks: int) -> int:
        """Nanoseconds since the epoch, within what 64 bits hold."""
        return min(max(ticks * self.factor // self.divisor + self.offset, 0), _LAST_TIME)


class PacketBlock(NamedTuple):
    """A packet in a block: type of the block, interface, nanoseconds since the epoch, index of its first octet in the
    block, how many octets were captured and how many were on the wire."""

    kind: int
    interface: Interface
    time: int
    start: int
    captured: int
    wire: int


class _Fields:
    """Reads the fields of blocks in a byte order."""

    def __init__(self, order: str) -> None:
        self.order = order
        self.block = Struct(order + "2I").unpack_from
        self.trailer = Struct(order + "I").unpack_from
        self.enhanced = Struct(order + "7I").unpack_from
        self.obsolete = Struct(order + "2I2H4I").unpack_from
        self.simple = Struct(order + "3I").unpack_from
        self.version = Struct(order + "H").unpack_from
        self.interface = Struct(order + "H2xI").unpack_from
        self.option = Struct(order + "2H").unpack_from
        self.seconds = Struct(order + "q").unpack_from


_FIELDS = {order: _Fields(order) for order in "<>"}


class _Section:
    """A section: what reads its fields, and the interfaces described so far."""

    __slots__ = ("fields", "interfaces")

    def __init__(self, order: str) -> None:
        self.fields = _FIELDS[order]
        self.interfaces: list[Interface] = []

    def describe(self, body: bytes) -> None:
        """Take the body of an interface description."""
        fields = self.fields
        link_type, snaplen = fields.interface(body)
        factor, divisor, offset = 1000, 1, 0
        tsresol = _MICROSECONDS
        at = 8
        while len(body) - at >= 4:
            code, length = fields.option(body, at)
            at += 4
            if code == _OPTION_END or length > len(body) - at:
                break
            if code == OPTION_TSRESOL and length == 1:
                tsresol = body[at]
                exponent = tsresol & 0x7F
                if tsresol & 0x80:
                    factor, divisor = NANOSECONDS, 1 << exponent
                elif exponent <= 9:
                    factor, divisor = 10 ** (9 - exponent), 1
                else:
                    factor, divisor = 1, 10 ** (exponent - 9)
            elif code == OPTION_TSOFFSET and length == 8:
                offset = int(fields.seconds(body, at)[0]) * NANOSECONDS
            at += length + 3 & ~3
        simple_high = 0 if offset or divisor != 1 else _LAST_TIME // factor >> 32
        if len(self.interfaces) < _MOST_INTERFACES:
            fast = fast_path(link_type)
            description = body if len(body) <= _SHORT_DESCRIPTION else b""
            self.interfaces.append(
                Interface(link_type, snaplen, factor, divisor, offset, simple_high, fast, tsresol, description)
            )


class _Damage(Exception):
    """The fault of a block."""


class PcapngReader(Reader):
    """Reads one pcapng file."""

    unit = "block"

    def __init__(self, octets: Octets, name: str, fragments: Fragments) -> None:
        """Read the head of the first section; raises :class:`~scapy_mpa.errors.CaptureError` if it cannot be used."""
        super().__init__(octets, name, fragments)
        header = read_exactly(octets, FIXED_LENGTHS[SECTION_HEADER] - _TRAILER)
        if len(header) < FIXED_LENGTHS[SECTION_HEADER] - _TRAILER:
            raise CaptureError(f"{name}: the pcapng section header is cut after {len(header)} octets")
        try:
            self._section, length = _section(header)
            header += read_exactly(octets, _padded(length) - len(header))
            if len(header) < _padded(length):
                raise _Damage("the pcapng section header is cut")
            _compare(SECTION_HEADER, length, self._section.fields.trailer(header, len(header) - _TRAILER)[0])
        except _Damage as damage:
            raise CaptureError(f"{name}: {damage}") from damage
        self._place = len(header)
        #: Type and length of a block that was skipped up to its second length.
        self._skipped: tuple[int, int] | None = None
        #: True if there was a packet of a link type that is known; one that is not, if there was one.
        self._is_known = False
        self._unknown: int | None = None
        #: For reading again: where the packets of each section begin.
        self._section_places: list[int] = []
        self._sections: list[_Section] = []
        #: Where simple packets begin, and their times (nanoseconds), which do not stand in them.
        self._simple_places = array("Q")
        self._simple_times = array("q")

    def _records(self, octets: memoryview, batch: list[Segment], every_record: bool) -> int:
        fragments = self.fragments
        unpack_enhanced, unpack_trailer = self._section.fields.enhanced, self._section.fields.trailer
        interfaces = self._section.interfaces
        append = batch.append
        current: Interface | None = None
        simple_high = factor = 0
        # The compiled loop reads on from a packet of the same interface; its number is -1 where it does not know it.
        number = -1
        is_big_endian = self.order == ">"
        frame, time = self.frames, self.time
        at, size = self._after_skipped(octets), len(octets)
        if self.damage is not None:
            return at
        while size - at >= SHORTEST_BLOCK:
            if number >= 0 and ordinary_blocks is not None and current is not None:
                at, frame, time = ordinary_blocks(
                    *(octets, at, size, frame, time, batch, current.fast.header, current.fast.ether_type_at),
                    *(is_big_endian, number, factor, simple_high),
                )
                if size - at < SHORTEST_BLOCK:
                    break
                number = -1
            try:
                # The ordinary block first.
                kind = 0
                if size - at >= _PACKET_HEADER:
                    kind, length, index, high, low, captured, wire = unpack_enhanced(octets, at)
                if (
                    kind == ENHANCED_PACKET
                    and captured + 32 <= length <= size - at
                    and not length & 3
                    and unpack_trailer(octets, at + length - 4)[0] == length
                ):
                    interface = interfaces[index]
                    if interface is current and high < simple_high:
                        time = (high << 32 | low) * factor
                    else:
                        time = interface.time(high << 32 | low)
                    start = at + _PACKET_HEADER
                    number = index if interface.simple_high and interface.fast.ether_type_at >= 0 else -1
                else:
                    kind, length, complete = self._block(octets, at)
                    if not complete and kind in FIXED_LENGTHS:
                        break
                    if not complete:
                        at += length - _TRAILER
                        break
                    if not self._is_packet(kind, octets, at, length):
                        unpack_enhanced, unpack_trailer = self._section.fields.enhanced, self._section.fields.trailer
                        interfaces, is_big_endian = self._section.interfaces, self.order == ">"
                        at += length
                        continue
                    self.frames, self.time = frame, time
                    interface, time, start, captured, wire = self._packet(kind, octets, at, length)
                    start += at
            except _Damage as damage:
                self.damage = str(damage)
                break
            except IndexError:
                self.damage = f"frame {frame + 1 - self.before} refers to an interface that is not described"
                break
            frame += 1
            at += length
            end = start + captured
            if interface is not current:
                current, fast_segment, link_type = interface, interface.fast.segment, interface.link_type
                simple_high, factor = interface.simple_high, interface.factor
                if link_type in LINK_TYPES:
                    self._is_known = True
                else:
                    self._unknown = link_type
            found = fast_segment(frame, time, octets, start, end)
            if found is None:
                found = segment_in(
                    frame, time, link_type, octets, start, end, max(end, start + wire), fragments, waits=every_record
                )
            if found is not None:
                append(found)
                continue
            not_read = link_type_not_read(link_type, octets, start, end)
            if every_record:
                kind = NO_SEGMENT if not_read is None else UNKNOWN_LINK
                append(Segment(frame, time, b"", not_read or 0, 0, 0, octets, start, start, kind, 0))
            elif not_read is not None:
                note_not_read(self.notes, frame, time, not_read)
        self.frames, self.time = frame, time
        return at

    def _after_skipped(self, octets: bytes | memoryview) -> int:
        """The octets that end a block that was skipped: its second length, if there is such a block.

        If the lengths differ, that is damage.
        """
        if self._skipped is None or len(octets) < _TRAILER:
            return 0
        try:
            _compare(*self._skipped, self._section.fields.trailer(octets)[0])
        except _Damage as damage:
            self.damage = str(damage)
        self._skipped, self._lacking = None, 0
        return _TRAILER

    def _block(self, octets: bytes | memoryview, at: int) -> tuple[int, int, bool]:
        """Type and length of a block, and whether it is all there; one of no interest that is not is to be skipped."""
        fields, have = self._section.fields, len(octets) - at
        kind, claimed = fields.block(octets, at)
        if kind == SECTION_HEADER:
            if have < FIXED_LENGTHS[kind]:
                return kind, have + 1, False
            section, claimed = _section(octets[at : at + FIXED_LENGTHS[kind]])
            fields = section.fields
        length = _padded(claimed)
        if length < FIXED_LENGTHS.get(kind, SHORTEST_BLOCK) or (kind in FIXED_LENGTHS and length > LONGEST_BLOCK):
            raise _Damage(f"a block of type {kind:#x} claims to be {length} octets long")
        if length <= have:
            _compare(kind, claimed, fields.trailer(octets, at + length - _TRAILER)[0])
        elif kind not in FIXED_LENGTHS:
            self._skipped, self._lacking = (kind, claimed), _TRAILER
        return kind, length, length <= have

    def _is_packet(self, kind: int, octets: bytes | memoryview, at: int, length: int) -> bool:
        """Return True if a block holds a packet; one that describes what follows is taken."""
        if kind == SECTION_HEADER:
            self._section = _section(octets[at : at + FIXED_LENGTHS[kind]])[0]
        elif kind == INTERFACE_DESCRIPTION:
            self._section.describe(bytes(octets[at + 8 : at + length - 4]))
        return kind in (ENHANCED_PACKET, SIMPLE_PACKET, OBSOLETE_PACKET)

    def _packet(
        self, kind: int, octets: bytes | memoryview, at: int, length: int
    ) -> tuple[Interface, int, int, int, int]:
        """Interface, time, place in the block, captured octets and wire length of the packet in a block.

        Raises IndexError if its interface is not described.
        """
        section = self._section
        if kind == SIMPLE_PACKET:
            interface = section.interfaces[0]
            wire = section.fields.simple(octets, at)[2]
            captured = min(wire, interface.snaplen or wire, length - FIXED_LENGTHS[kind])
            return interface, self.time, _SIMPLE_HEADER, captured, wire
        if kind == ENHANCED_PACKET:
            _, _, index, high, low, captured, wire = section.fields.enhanced(octets, at)
        else:
            _, _, index, _, high, low, captured, wire = section.fields.obsolete(octets, at)
        interface = section.interfaces[index]
        if captured + FIXED_LENGTHS[kind] > length:
            raise _Damage(f"frame {self.frames + 1 - self.before} claims {captured} octets in a block of {length}")
        return interface, interface.time(high << 32 | low), _PACKET_HEADER, captured, wire

    def _places(self, octets: memoryview, place: int, found: list[tuple[int, int]]) -> int:
        at, size = self._after_skipped(octets), len(octets)
        try:
            while size - at >= SHORTEST_BLOCK and self.damage is None:
                kind, length, complete = self._block(octets, at)
                if not complete:
                    at += 0 if kind in FIXED_LENGTHS else length - _TRAILER
                    break
                if self._is_packet(kind, octets, at, length):
                    self.time = self._packet(kind, octets, at, length)[1]
                    if not self._sections or self._sections[-1] is not self._section:
                        self._sections.append(self._section)
                        self._section_places.append(place + at)
                    if kind == SIMPLE_PACKET:
                        self._simple_places.append(place + at)
                        self._simple_times.append(self.time)
                    found.append((self.time, place + at))
                at += length
        except (_Damage, IndexError) as damage:
            self.damage = str(damage)
        return at

    @property
    def order(self) -> str:
        """The byte order of the section at hand, as :mod:`struct` has it."""
        return self._section.fields.order

    def time_in(self, head: bytes, length: int) -> int | None:
        """The time of the packet in an enhanced packet block that begins with ``head``; None if none."""
        if len(head) < FIXED_LENGTHS[ENHANCED_PACKET]:
            return None
        kind, claimed, index, high, low, captured, _ = self._section.fields.enhanced(head)
        interfaces = self._section.interfaces
        fits = claimed == length and captured + FIXED_LENGTHS[ENHANCED_PACKET] <= length
        if kind != ENHANCED_PACKET or not fits or index >= len(interfaces):
            return None
        interface: Interface = interfaces[index]
        return interface.time(high << 32 | low)

    def _record_in(self, octets: memoryview, at: int, position: int) -> tuple[int, int, bytes, int]:
        last = self._section
        self._section = self._sections[bisect(self._section_places, position) - 1]
        length = _padded(self._section.fields.block(octets[at : at + 8])[1])
        block = bytes(octets[at : at + length])
        _, interface, time, start, captured, wire = self._packet_of(block, position)
        self._section = last
        return time, interface.link_type, block[start : start + captured], wire

    def _record_at(self, position: int) -> tuple[int, int, bytes, int]:
        block = self._raw_at(position)
        _, interface, time, start, captured, wire = self._packet_of(block, position)
        return time, interface.link_type, block[start : start + captured], wire

    def packet_at(self, position: int) -> tuple[bytes, str, PacketBlock]:
        """The packet block at a place in the file, its byte order as in :mod:`struct`, and what it says.

        Raises :class:`~scapy_mpa.errors.CaptureError` if the file cannot be read from there.
        """
        with self._at(position):
            block = self._raw_at(position)
            return block, self._section.fields.order, self._packet_of(block, position)

    def _packet_of(self, block: bytes, position: int) -> PacketBlock:
        kind = self._section.fields.block(block)[0]
        found = bisect(self._simple_places, position)
        if kind == SIMPLE_PACKET and found:
            self.time = self._simple_times[found - 1]
        return PacketBlock(kind, *self._packet(kind, block, 0, len(block)))

    def _raw_at(self, position: int) -> bytes:
        self._section = self._sections[bisect(self._section_places, position) - 1]
        head = read_exactly(self._octets, 8)
        if len(head) < 8:
            raise ValueError("the file has become shorter")
        kind, length = self._section.fields.block(head)
        length = _padded(length)
        block = head + read_exactly(self._octets, min(length, LONGEST_BLOCK) - 8)
        if len(block) < length or kind not in (ENHANCED_PACKET, SIMPLE_PACKET, OBSOLETE_PACKET):
            raise ValueError("the file has changed")
        return block

    def conclude(self) -> None:
        """Raise CaptureError if there were packets, but none of a link type that is known."""
        if self._unknown is not None and not self._is_known:
            raise CaptureError(f"{self.name}: {refusal(self._unknown)}")


def _padded(length: int) -> int:
    """The octets that a block takes; some programs leave its padding to 32 bits out of its length."""
    return length + 3 & ~3


def _compare(kind: int, first: int, second: int) -> None:
    """Raise _Damage if the two lengths of a block differ."""
    if first != second:
        raise _Damage(f"a block of type {kind:#x} has two lengths: {first} octets at its start, {second} at its end")


def _section(header: bytes | memoryview) -> tuple[_Section, int]:
    """A section by the first 24 octets of its header, and the length that the header claims."""
    order = BYTE_ORDER_MAGIC.get(bytes(header[8:12]))
    if order is None:
        raise _Damage("a pcapng section header without byte-order magic")
    section = _Section(order)
    _, length = section.fields.block(header)
    if not FIXED_LENGTHS[SECTION_HEADER] <= _padded(length) <= LONGEST_BLOCK:
        raise _Damage(f"a pcapng section header claims to be {length} octets long")
    (version,) = section.fields.version(header, 12)
    if version != _MAJOR_VERSION:
        raise _Damage(f"pcapng version {version} is not supported; version {_MAJOR_VERSION} is")
    return section, length
