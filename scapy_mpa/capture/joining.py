"""Which files are captures, and how these are combined: a rotation is followed, overlapping taps are merged.

In: names of files, of folders (:mod:`~scapy_mpa.capture.folders`), and patterns. Out:
:class:`~scapy_mpa.capture.named.Sources`, the captures by name, in groups. What a file holds is seen by its first and
last records: those of a pcap or pcapng file are found at its ends, what is compressed is read through.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from io import FileIO
from itertools import chain, islice
from struct import Struct
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from scapy_mpa.capture.files import reader_of
from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.named import STANDARD_INPUT, CaptureSource, Sources
from scapy_mpa.capture.notes import Notes
from scapy_mpa.capture.pcap import PcapReader
from scapy_mpa.capture.pcapng import ENHANCED_PACKET, FIXED_LENGTHS, LONGEST_BLOCK, SHORTEST_BLOCK, PcapngReader
from scapy_mpa.capture.reader import MAX_CAPTURED_LENGTH, NANOSECONDS, Reader
from scapy_mpa.capture.source import MAGIC_LENGTH, is_compressed
from scapy_mpa.errors import CaptureError
from scapy_mpa.system.names import printable
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.limits import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from scapy_mpa.ipsec.associations import Associations

#: What is asked for: decide by the times in the files, or one of the two for all of them.
Joining: TypeAlias = Literal["auto", "follow", "merge"]
JOININGS: Final[tuple[Joining, ...]] = ("auto", "follow", "merge")

#: Files of a rotation may overlap so much at most (nanoseconds): an interface with several queues does not keep the
#: order of its packets.
_JITTER: Final = NANOSECONDS // 10
#: Octets at the end of a file in which its last record is looked for, and blocks.
_TAIL: Final = 1 << 18
_LAST_BLOCKS: Final = 64


class Ends(NamedTuple):
    """The times of the first and of the last record of a capture, in nanoseconds since the epoch."""

    first: int
    last: int


def sources_of(
    given: CaptureSource | Sequence[CaptureSource],
    joining: Joining = "auto",
    limits: Limits = DEFAULT_LIMITS,
    esp: Associations | None = None,
) -> Sources:
    """The captures that are named.

    Args:
        given: files, folders (with all folders in them) and patterns such as ``day/*.pcapng``; or open files.
        joining: how several become one. ``auto``: files whose times follow one another do so, in that order; those
            that overlap are merged.  ``follow``: one after the other as they are named, those of a folder by their
            names; ``merge``: all by time.
        limits: those of decompression hold.
        esp: the keys of what travels under ESP.

    Raises:
        CaptureError: a folder or pattern has no capture, or none that can be read.
    """
    if isinstance(given, Sources):
        return given
    named = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    skipped: list[str] = []
    found = [(source, is_found) for one in named for source, is_found in _expanded(one, skipped)]
    lenient = any(is_found for _, is_found in found)
    if len(found) < 2 and not lenient:
        return Sources((source for source, _ in found), esp=esp)
    captures: list[CaptureSource] = []
    ends: list[Ends | None] = []
    for source, is_found in found:
        try:
            ends.append(ends_of(source, limits) if joining != "follow" or is_found else None)
            captures.append(source)
        except CaptureError as error:
            if is_found:
                skipped.append(f"{error}; skipped")
            else:
                ends.append(None)
                captures.append(source)  # opening it raises this again
    if not captures:
        raise CaptureError(f"no capture can be read: {skipped[-1].removesuffix('; skipped')}")
    groups = _groups(captures, ends, joining)
    begins, lasts = [one and one.first for one in ends], [one and one.last for one in ends]
    return Sources(captures, groups, begins, lasts, lenient=lenient, skipped=skipped, esp=esp)


def _expanded(source: CaptureSource, skipped: list[str]) -> Iterator[tuple[CaptureSource, bool]]:
    """The files that a name stands for, and whether they were found in a folder or by a pattern.

    Appends to ``skipped`` a line about the files of a folder that are not captures.
    """
    if source == STANDARD_INPUT or not isinstance(source, (str, os.PathLike)):
        yield source, False
        return
    name = os.fspath(source)
    if os.path.isdir(name):
        from scapy_mpa.capture.folders import captures_in

        files, left_out, _ = captures_in(name)
        what = "there is no capture in this folder"
        if left_out is not None:
            skipped.append(left_out)
            what += left_out.removeprefix(printable(name))
    elif not os.path.lexists(name) and (found := _matching(name)) is not None:
        files, what = found, "no file matches this pattern"
    else:
        yield source, False
        return
    if not files:
        raise CaptureError(f"{printable(name)}: {what}")
    for path in files:
        yield path, True


def _matching(name: str) -> list[str] | None:
    """Return the files that match a pattern; None for a name that is not a pattern."""
    import glob

    from scapy_mpa.capture.folders import natural

    if not glob.has_magic(name):
        return None
    # What is no file would have to be opened to be seen: a pipe would wait for ever.
    return sorted((path for path in glob.glob(name, recursive=True) if os.path.isfile(path)), key=natural)


def _groups(captures: Sequence[CaptureSource], ends: Sequence[Ends | None], joining: Joining) -> list[list[int]]:
    every = list(range(len(captures)))
    if joining == "follow":
        return [[index] for index in every]
    empty = [index for index in every if ends[index] is None]
    if joining == "merge" or any(not _is_file(captures[index]) for index in empty):
        return [every]
    groups: list[list[int]] = []
    before = Ends(0, 0)
    for index in sorted((index for index in every if ends[index] is not None), key=lambda index: ends[index] or (0, 0)):
        one = ends[index]
        assert one is not None
        if groups and one.first + _allowed(before, one) < before.last:
            groups[-1].append(index)
            before = Ends(before.first, max(before.last, one.last))
        else:
            groups.append([index])
            before = one
    return [[index] for index in empty] + [sorted(group) for group in groups]


def _allowed(one: Ends, other: Ends) -> int:
    """Nanoseconds by which one may reach into the other and be followed by it all the same: little of either."""
    return min(_JITTER, (one.last - one.first) // 4, (other.last - other.first) // 4)


def _is_file(source: CaptureSource) -> bool:
    try:
        return isinstance(source, (str, os.PathLike)) and stat.S_ISREG(os.stat(source).st_mode)
    except OSError:
        return True  # opening it will tell


def ends_of(source: CaptureSource, limits: Limits) -> Ends | None:
    """Return when a file begins and ends, None if it has no packet or can be read only once.

    Raises :class:`~scapy_mpa.errors.CaptureError` if it is no capture.
    """
    if source == STANDARD_INPUT or not isinstance(source, (str, os.PathLike)) or not _is_file(source):
        return None
    try:
        with open(source, "rb", buffering=0) as file, open(source, "rb", buffering=0) as other:
            return _ends_in(other, reader_of(file, os.fspath(source), Fragments(limits, Notes()), limits))
    except (OSError, ValueError) as error:
        raise CaptureError(f"{printable(source)}: {getattr(error, 'strerror', None) or error}") from error


def _ends_in(file: FileIO, reader: Reader) -> Ends | None:
    """The same for a file that is open a second time, besides for the reader, which has read the head."""
    positions = reader.positions()
    if not is_compressed(_octets_at(file, 0, MAGIC_LENGTH)):
        size = os.fstat(file.fileno()).st_size
        if isinstance(reader, PcapReader):
            ends = _ends_of_pcap(file, size, reader)
            if ends is not None:
                return ends
        elif isinstance(reader, PcapngReader):
            # Up to the first packet, interfaces are described.
            begin = next(positions, None)
            if begin is None:
                return None
            last = _last_of_pcapng(file, size, reader)
            if last is not None:
                return Ends(begin[0], max(begin[0], last))
            positions = chain([begin], positions)
    times = [time for time, _ in islice(positions, 1)]
    if not times:
        return None
    first = last = times[0]
    for time, _ in positions:
        last = max(last, time)
    return Ends(first, last)


def _octets_at(file: FileIO, at: int, count: int) -> bytes:
    """Return this many octets from a position on, fewer at the end."""
    file.seek(at)
    return file.read(count) or b""


def _ends_of_pcap(file: FileIO, size: int, reader: PcapReader) -> Ends | None:
    """Return them from the first record and the last ones; None if no records found there end with the file."""
    begin, record = reader.variant.file_header, reader.record
    head = _octets_at(file, begin, record.size)
    if len(head) < record.size:
        return None
    seconds, fraction, _, _ = record.unpack(head)
    at = max(begin, size - _TAIL)
    tail = _octets_at(file, at, _TAIL)
    if at == begin:
        last = _last_from(tail, 0, record, reader.resolution)
    else:
        # A record begins with its time, and the upper half of that changes each 18 hours.
        upper = Struct(reader.order + "H").pack(seconds >> 16)
        before = 2 if reader.order == "<" else 0
        last, found = None, tail.find(upper, before)
        while last is None and found >= 0:
            last = _last_from(tail, found - before, record, reader.resolution)
            found = tail.find(upper, found + 1)
    if last is None:
        return None
    first = seconds * NANOSECONDS + fraction * reader.resolution
    return Ends(first, max(first, last))


def _last_from(octets: bytes, at: int, record: Struct, resolution: int) -> int | None:
    """The latest time of the records from a place on, None if these do not end where the octets do."""
    latest, size = 0, len(octets)
    while size - at >= record.size:
        seconds, fraction, captured, wire = record.unpack_from(octets, at)
        if captured > MAX_CAPTURED_LENGTH or captured > wire or fraction * resolution >= NANOSECONDS:
            return None
        latest = max(latest, seconds * NANOSECONDS + fraction * resolution)
        at += record.size + captured
    return latest if at == size and latest else None


def _last_of_pcapng(file: FileIO, size: int, reader: PcapngReader) -> int | None:
    """The time of the last packet, found from the end: each block has its length there too."""
    length_field = Struct(reader.order + "I")
    end = size
    for _ in range(_LAST_BLOCKS):
        field = _octets_at(file, end - 4, 4) if end >= SHORTEST_BLOCK else b""
        if len(field) < 4:
            return None
        (length,) = length_field.unpack(field)
        if not SHORTEST_BLOCK <= length <= min(end, LONGEST_BLOCK):
            return None
        end -= length
        time = reader.time_in(_octets_at(file, end, FIXED_LENGTHS[ENHANCED_PACKET]), length)
        if time is not None:
            return time
    return None
