"""Reads captured octets in the hot loops, where nothing is compiled: numbers, CRC32c, known fields.

What is compiled reads by ``_octets.pyx``, whose functions have the same names; a test compares them.  Each of them
raises an exception if what it has to read does not lie in the octets.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from contextlib import suppress
from struct import Struct
from typing import TYPE_CHECKING

from scapy_mpa.framing.crc import crc32c

if TYPE_CHECKING:
    from scapy_mpa.framing.markers import Octets

_HEAD = Struct(">HH").unpack_from
_PLACE = Struct(">IQ").unpack_from
_QUEUED = Struct(">III").unpack_from
_TTL = Struct(">B7xB11x").unpack_from
_STAMPED = Struct(">14xH4xIII").unpack_from
_WORD = Struct(">I").unpack_from

#: ULPDU_Length and the control octets, from an index on: numbers of 16 bits.
head = _HEAD
#: STag and TO: numbers of 32 and of 64 bits.
place = _PLACE
#: Queue, MSN and MO: numbers of 32 bits.
queued = _QUEUED
#: SEG.WND, the kinds of the first options, TSval and TSecr of a TCP header at an index that has timestamps and no more.
stamped = _STAMPED


def word(octets: Octets, at: int) -> int:
    """The number of 32 bits at an index."""
    found: int = _WORD(octets, at)[0]
    return found


def time_to_live(octets: Octets, at: int) -> int:
    """The TTL of the IPv4 header at an index, -1 if it has options."""
    first, found = _TTL(octets, at)
    return found if first == 0x45 else -1


def crc_of(octets: Octets, at: int, end: int) -> int:
    """The CRC32c of ``octets[at:end]``."""
    return crc32c(octets[at:end])


def sum_of(octets: Octets, at: int, end: int) -> int:
    """The sum of the 16-bit numbers in ``octets[at:end]`` modulo 65535; a zero follows an odd octet (RFC 1071)."""
    total = int.from_bytes(octets[at:end], "big")
    return (total << 8 if end - at & 1 else total) % 0xFFFF


def has_right_sum(key: bytes, octets: Octets, tcp: int, end: int) -> bool:
    """Return True if the TCP checksum of the octets [tcp, end) is right (RFC 9293 §3.1); ``key`` has the addresses."""
    return (sum_of(octets, tcp, end) + sum_of(key, 0, len(key) - 4) + 6 + end - tcp) % 0xFFFF == 0


def append_octets(taken: bytearray, octets: Octets, at: int, count: int) -> None:
    """Append this many octets from an index on."""
    taken += octets[at : at + count]


def put_octets(taken: bytearray, at: int, octets: Octets, first: int, count: int) -> None:
    """Put this many octets, from the index ``first`` on, at an index of others, which may be their end."""
    taken[at : at + count] = octets[first : first + count]


def is_zero(octets: Octets, at: int, count: int) -> bool:
    """Return True if this many octets from an index on are zero."""
    return not any(octets[at : at + count])


def own_octets(octets: Octets, at: int, end: int) -> bytes:
    """Return the octets [at, end)."""
    if not 0 <= at <= end <= len(octets):
        raise IndexError(f"octets {at} to {end} of {len(octets)}")
    return bytes(octets[at:end])


#: In front of a piece of octets that were read: the offset of the first, frame, time, checksum and reason, the place of
#: the piece before, how many octets follow.
_PIECE = Struct("=6q")
PIECE_LENGTH = _PIECE.size


def put_piece(
    pieces: bytearray,
    at: int,
    start: int,
    frame: int,
    time: int,
    check: int,
    before: int,
    octets: Octets,
    first: int,
    last: int,
) -> None:
    """Put five numbers and ``octets[first:last]`` at an index, which may be the end or lie before it."""
    missing = at + PIECE_LENGTH + last - first - len(pieces)
    if missing > 0:
        pieces += bytes(missing)
    _PIECE.pack_into(pieces, at, start, frame, time, check, before, last - first)
    pieces[at + PIECE_LENGTH : at + PIECE_LENGTH + last - first] = octets[first:last]


def piece_in(pieces: bytearray, at: int) -> tuple[int, int, int, int, int, bytes]:
    """Return what :func:`put_piece` put at an index."""
    start, frame, time, check, before, length = _PIECE.unpack_from(pieces, at)
    return start, frame, time, check, before, bytes(pieces[at + PIECE_LENGTH : at + PIECE_LENGTH + length])


def with_room(empty: array[int], count: int) -> array[int]:
    """Return an array like an empty one of 64 bits each, with room for so many numbers."""
    return empty[:]


def fit(numbers: array[int]) -> None:
    """Let an array of 64 bits each take no more room than its numbers need."""


def fit_octets(octets: bytearray) -> None:
    """Let octets to which others were appended take no more room than they need."""


def append_number(numbers: array[int], number: int) -> None:
    """Append a number to an array of 64 bits each."""
    numbers.append(number)


def append_four(numbers: array[int], first: int, second: int, third: int, fourth: int) -> None:
    """Append four numbers to an array of 64 bits each."""
    numbers.extend((first, second, third, fourth))


def put_four(numbers: array[int], index: int, first: int, second: int, third: int, fourth: int) -> None:
    """Put four numbers, from an index on, in the place of others in an array of 64 bits each."""
    if not 0 <= index <= len(numbers) - 4:
        raise IndexError(index)
    numbers[index], numbers[index + 1], numbers[index + 2], numbers[index + 3] = first, second, third, fourth


def make_room(numbers: array[int], index: int, count: int) -> None:
    """Put zeros in front of the number at an index, which may be the end, of an array of 64 bits each."""
    if not 0 <= index <= len(numbers):
        raise IndexError(index)
    numbers[index:index] = array("q", bytes(8 * count))


def put_number(numbers: array[int], index: int, number: int) -> None:
    """Put a number in the place of another one in an array of 64 bits each."""
    if not 0 <= index < len(numbers):
        raise IndexError(index)
    numbers[index] = number


def cut_first(numbers: array[int], count: int) -> None:
    """Take away the first numbers of an array of 64 bits each, which has so many."""
    if not 0 <= count <= len(numbers):
        raise IndexError(count)
    del numbers[:count]


def number_at(numbers: array[int], index: int) -> int:
    """Return the number at an index of an array of 64 bits each."""
    return numbers[index]


def index_in(ascending: array[int], number: int, low: int = 0) -> int:
    """Return the index, ``low`` or higher, of the first number not below ``number``, in an array of 64 bits each."""
    return bisect_left(ascending, number, low)


if not TYPE_CHECKING:
    with suppress(ImportError):  # nothing is compiled
        from scapy_mpa.values._octets import (  # noqa: F401
            append_four,
            append_number,
            append_octets,
            crc_of,
            cut_first,
            fit,
            fit_octets,
            has_right_sum,
            head,
            index_in,
            is_zero,
            make_room,
            number_at,
            own_octets,
            place,
            put_four,
            put_number,
            put_octets,
            put_piece,
            queued,
            stamped,
            sum_of,
            time_to_live,
            with_room,
            word,
        )
