"""A capture as pcapng blocks, to be written again with comments on some of its packets.

A pcapng file gives its own blocks octet for octet, whatever they are; a pcap file gives a section of one interface,
as :mod:`~scapy_mpa.capture.copying` makes it. A comment (opt_comment, draft-ietf-opsawg-pcapng) is put before the
options that a packet has; these stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from struct import Struct

from scapy_mpa.capture.copying import PcapngCopy
from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.pcap import MAGIC_NUMBERS, PcapReader
from scapy_mpa.capture.pcapng import (
    BYTE_ORDER_MAGIC,
    ENHANCED_PACKET,
    FIXED_LENGTHS,
    LONGEST_BLOCK,
    OBSOLETE_PACKET,
    SECTION_HEADER,
    SHORTEST_BLOCK,
    SIMPLE_PACKET,
)
from scapy_mpa.capture.reader import BLOCK_SIZE, MAX_CAPTURED_LENGTH
from scapy_mpa.capture.source import MAGIC_LENGTH, Octets, octets_of
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits

_PACKETS = frozenset((ENHANCED_PACKET, SIMPLE_PACKET, OBSOLETE_PACKET))
_OPTION_END, _OPTION_COMMENT = 0, 1
#: The code of a comment as it is written, to pass quickly over packets that have none.
_COMMENT_OF = {"<": b"\1\0", ">": b"\0\1"}
#: Where an enhanced or obsolete packet block says how many octets were captured, and where these begin.
_CAPTURED_AT, _PACKET_AT = 20, 28
#: The longest comment, in octets: its length has 16 bits, and there is padding.
_LONGEST_COMMENT = 65532


class Block(NamedTuple):
    """A block, or a part of one that is not examined; its byte order as in :mod:`struct`; whether it is a packet."""

    octets: bytes
    order: str
    is_packet: bool


def blocks(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Iterator[Block]:
    """Yield the blocks of a capture as far as it can be read: what is cut or damaged ends it.

    Raises OSError if it cannot be opened, and :class:`~scapy_mpa.errors.CaptureError` if it is no capture.
    """
    with open(path, "rb", buffering=0) as file:
        yield from Blocks(octets_of(file, str(path), limits.decompression)[1], str(path)).there()


class _Buffer:
    """Octets that are read in large pieces and used in small ones."""

    def __init__(self, octets: Octets) -> None:
        self._octets = octets
        self._held = b""
        self._at = 0

    def look(self, size: int) -> bytes:
        """Return up to this many octets without consuming them."""
        while len(self._held) - self._at < size:
            try:
                more = self._octets.read(max(BLOCK_SIZE, size))
            except OSError:
                more = b""  # compressed data that are damaged end here
            if not more:
                break
            self._held = self._held[self._at :] + more
            self._at = 0
        return self._held[self._at : self._at + size]

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets."""
        taken = self.look(size)
        self._at += len(taken)
        return taken

    def seek(self, place: int, /) -> int:
        """Raises OSError: what was used is gone."""
        raise OSError("it is read once")


class Blocks:
    """The blocks of a capture, as its octets come.

    Args:
        octets: what is read; no octets mean that no more are there so far.
        name: of the capture.
    """

    def __init__(self, octets: Octets, name: str) -> None:
        self._buffer = _Buffer(octets)
        self._name = name
        self._order = "<"
        #: Of a pcap file its reader, which reads the file header alone, and what makes blocks of its records.
        self._reader: PcapReader | None = None
        self._copy = PcapngCopy()
        #: Octets that are left of a block that is handed on in parts, the last ones so far, and what it must end with.
        self._left, self._last, self._length = 0, b"", b""

    def there(self) -> Iterator[Block]:
        """Yield the blocks that are complete by now, until one is damaged.

        Raises :class:`~scapy_mpa.errors.CaptureError` for a pcap file of a link type that is not read.
        """
        buffer = self._buffer
        variant = MAGIC_NUMBERS.get(buffer.look(MAGIC_LENGTH)) if self._reader is None else None
        if variant is not None and len(buffer.look(variant.file_header)) == variant.file_header:
            self._reader = PcapReader(buffer, self._name, Fragments())
            for octets in self._copy.beginning(self._reader):
                yield Block(octets, self._reader.order, False)
        if self._reader is not None:
            yield from self._of_pcap(self._reader)
        elif variant is None:
            yield from self._of_pcapng()

    def _of_pcap(self, reader: PcapReader) -> Iterator[Block]:
        buffer, header = self._buffer, reader.variant.record_header
        while len(head := buffer.look(header)) == header:
            captured = reader.record.unpack(head)[2]
            length = header + captured
            if captured > MAX_CAPTURED_LENGTH or len(buffer.look(length)) < length:
                return
            yield Block(self._copy.packet(reader, buffer.read(length)), reader.order, True)

    def _of_pcapng(self) -> Iterator[Block]:
        buffer = self._buffer
        while True:
            while self._left and (part := buffer.read(min(self._left, BLOCK_SIZE))):
                self._left -= len(part)
                self._last = (self._last + part)[-len(self._length) :]
                yield Block(part, self._order, False)
            head = buffer.look(SHORTEST_BLOCK)
            if self._left or self._last != self._length or len(head) < SHORTEST_BLOCK:
                return
            (kind,) = Struct("<I").unpack_from(head)
            if kind == SECTION_HEADER:
                if head[8:12] not in BYTE_ORDER_MAGIC:
                    return
                self._order = BYTE_ORDER_MAGIC[head[8:12]]
            kind, claimed = Struct(self._order + "2I").unpack_from(head)
            length = claimed + 3 & ~3
            if length < FIXED_LENGTHS.get(kind, SHORTEST_BLOCK):
                return
            second = Struct(self._order + "I").pack(claimed)
            if kind not in FIXED_LENGTHS and length > BLOCK_SIZE:
                self._left, self._last, self._length = length, b"", second
                continue
            if length > LONGEST_BLOCK or len(block := buffer.look(length)) < length or not block.endswith(second):
                return
            yield Block(buffer.read(length), self._order, kind in _PACKETS)


def with_comment(block: Block, comment: str) -> bytes | None:
    """The octets of a packet block with a comment more; None if it has no room for any: a simple packet."""
    options_at = _options_at(block)
    if options_at is None:
        return None
    options = block.octets[options_at:-4] or _option(block.order, _OPTION_END, b"")
    said = comment.encode()
    if len(said) > _LONGEST_COMMENT:
        said = said[:_LONGEST_COMMENT].decode(errors="ignore").encode()
    return _with_options(block, options_at, _option(block.order, _OPTION_COMMENT, said) + options)


def without_comments(block: Block, is_ours: Callable[[str], bool]) -> Block:
    """A packet block without the comments for which ``is_ours`` is true; its other options stay as they are.

    What stands after an option that is longer than the block stays too.
    """
    options_at = _options_at(block)
    if options_at is None or block.octets.find(_COMMENT_OF[block.order], options_at) < 0:
        return block
    header, end = Struct(block.order + "2H"), len(block.octets) - 4
    at, kept = options_at, bytearray()
    while at + header.size <= end:
        code, length = header.unpack_from(block.octets, at)
        after = at + header.size + (length + 3 & ~3)
        if code == _OPTION_END or after > end:
            break
        value = block.octets[at + header.size : at + header.size + length]
        if code != _OPTION_COMMENT or not is_ours(value.decode(errors="replace")):
            kept += block.octets[at:after]
        at = after
    rest = block.octets[at:end]
    if len(kept) + len(rest) == end - options_at:
        return block
    return block._replace(octets=_with_options(block, options_at, bytes(kept) + rest))


def _options_at(block: Block) -> int | None:
    """Return where the options of a packet block begin; None if it has no room for any."""
    integer = Struct(block.order + "I")
    (kind,) = integer.unpack_from(block.octets)
    if kind == SIMPLE_PACKET:
        return None
    (captured,) = integer.unpack_from(block.octets, _CAPTURED_AT)
    options_at = _PACKET_AT + (captured + 3 & ~3)
    return options_at if options_at <= len(block.octets) - 4 else None


def _with_options(block: Block, options_at: int, options: bytes) -> bytes:
    length = Struct(block.order + "I").pack(options_at + len(options) + 4)
    return block.octets[:4] + length + block.octets[8:options_at] + options + length


def _option(order: str, code: int, value: bytes) -> bytes:
    return Struct(order + "2H").pack(code, len(value)) + value + bytes(-len(value) % 4)
