"""A capture as pcapng blocks, to be written again with comments on some of its packets.

A pcapng file gives its own blocks octet for octet, whatever they are; a pcap file gives a section of one interface,
as :mod:`~scapy_mpa.capture.copying` makes it. A comment (opt_comment, draft-ietf-opsawg-pcapng) is put in front of the
options that a packet has; these stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from scapy_mpa.capture.copying import PcapngCopy
from scapy_mpa.capture.files import Captures
from scapy_mpa.capture.pcap import PcapReader
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
from scapy_mpa.capture.reader import BLOCK_SIZE
from scapy_mpa.capture.source import Octets, octets_of
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
    """A block, or a part of one that is not looked into; its byte order as in :mod:`struct`; whether it is a packet."""

    octets: bytes
    order: str
    is_packet: bool


def blocks(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Iterator[Block]:
    """Yield the blocks of a capture as far as it can be read: what is cut or damaged ends it.

    Raises :class:`~scapy_mpa.errors.CaptureError` if it cannot be opened.
    """
    with Captures(path, limits=limits) as captures, Captures(path, limits=limits) as again:
        (places,), (records,) = captures.readers, again.readers
        if isinstance(places, PcapReader):
            for octets in PcapngCopy().blocks((records, position) for _, position in places.positions()):
                is_packet = Struct(places.order + "I").unpack_from(octets)[0] == ENHANCED_PACKET
                yield Block(octets, places.order, is_packet)
            return
    with open(path, "rb", buffering=0) as file:
        yield from _as_they_are(_Buffer(octets_of(file, str(path), limits.decompression)[1]))


class _Buffer:
    """Octets that are read in large pieces and used in small ones."""

    def __init__(self, octets: Octets) -> None:
        self._octets = octets
        self._held = b""
        self._at = 0

    def look(self, size: int) -> bytes:
        """So many octets, or all that are left, without using them."""
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

    def take(self, size: int) -> bytes:
        """So many octets, or all that are left."""
        taken = self.look(size)
        self._at += len(taken)
        return taken


def _as_they_are(buffer: _Buffer) -> Iterator[Block]:
    order = "<"
    fields = Struct("<2I")
    while len(head := buffer.look(SHORTEST_BLOCK)) == SHORTEST_BLOCK:
        (kind,) = Struct("<I").unpack_from(head)
        if kind == SECTION_HEADER:
            if head[8:12] not in BYTE_ORDER_MAGIC:
                return
            order = BYTE_ORDER_MAGIC[head[8:12]]
            fields = Struct(order + "2I")
        kind, claimed = fields.unpack_from(head)
        length = claimed + 3 & ~3
        if length < FIXED_LENGTHS.get(kind, SHORTEST_BLOCK):
            return
        second = Struct(order + "I").pack(claimed)
        if kind not in FIXED_LENGTHS and length > BLOCK_SIZE:
            last = b""
            while length and (last := buffer.take(min(length, BLOCK_SIZE))):
                length -= len(last)
                yield Block(last, order, False)
            if not last.endswith(second):
                return
            continue
        if length > LONGEST_BLOCK or len(block := buffer.look(length)) < length or not block.endswith(second):
            return
        yield Block(buffer.take(length), order, kind in _PACKETS)


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
    """A packet block without the comments of which ``is_ours`` is true; its other options stay as they are.

    What stands behind an option that is longer than the block stays too.
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
    """Where the options of a packet block begin; None if it has no room for any."""
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
