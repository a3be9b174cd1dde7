"""The octets of a capture file, whatever stands around them: gzip (RFC 1952), zstd (RFC 8878), a pipe.

In: a binary file, which need not be seekable. Out: an object with ``read`` and ``seek``, as far as the file has the
latter. Decompression streams: what it takes of memory depends neither on the file nor on what it expands to.
Compressed data that are damaged raise OSError where they are, after all octets before them were read.

So do data that expand further than those of any capture (:class:`Expansion`): a file of some kilobytes might stand for
hours of work otherwise. They are examined in stretches of this many decompressed octets (``Limits.decompression``), so
that neither a real capture before them counts, nor is a short run of zeros too much. However long packets are and
whatever is in them, their headers differ: a capture of zeros in packets of 1448, 64000 and 261946 octets compresses
1:107, 1:614 and 1:874 with gzip, 1:237, 1:4779 and 1:9578 with zstd, where nothing but zeros compresses 1:1029 and
1:32573. The bounds lie between.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, BinaryIO, Protocol

from scapy_mpa.errors import CaptureError
from scapy_mpa.values.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    import zstandard

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = bytes.fromhex("28b52ffd")
#: Octets of a file that tell what it is.
MAGIC_LENGTH = 4
#: Files that are not read, by their first octets, and what makes of them one that is.
_OTHERS = {
    b"snoo": "a snoop file; editcap -F pcap FILE out.pcap converts it",
    b"GMBU": "a Network Monitor file; editcap -F pcap FILE out.pcap converts it",
    b"RTSS": "a Network Monitor file; editcap -F pcap FILE out.pcap converts it",
    b"TRSN": "a NetXRay or Sniffer file; editcap -F pcap FILE out.pcap converts it",
    b"\xfd7zX": "compressed with xz; xz -dc FILE | scapy-mpa ... - reads it",
    b"BZh": "compressed with bzip2; bzip2 -dc FILE | scapy-mpa ... - reads it",
    b"\x04\x22\x4d\x18": "compressed with lz4; lz4 -dc FILE | scapy-mpa ... - reads it",
    b"PK\x03\x04": "a zip archive; unzip -p FILE | scapy-mpa ... - reads it",
    b"7z\xbc\xaf": "a 7z archive; 7z x -so FILE | scapy-mpa ... - reads it",
}
#: An ETL file begins with a buffer header, whose first field is its size, mostly 64 KiB.
_ETL_SIZES = frozenset(size.to_bytes(4, "little") for size in (1 << 12, 1 << 13, 1 << 14, 1 << 15, 1 << 16, 1 << 17))

#: Gzip members without octets that may follow one another: a bound of time.
_MOST_EMPTY = 100_000
_GZIP_WINDOW = 31
#: Compressed octets taken at a time. A zstd block of 4 octets may stand for 128 KiB, so this many for 16 MiB.
_GZIP_INPUT, _ZSTD_INPUT = 1 << 14, 1 << 9
#: Octets that come of gzip data at a time, so that going back a little gives what was read before damage.
_GZIP_OUTPUT = 1 << 16
#: The largest window of a zstd frame: what the zstd command takes unless told otherwise.
_ZSTD_WINDOW = 1 << 27


#: What stands after a line that says so.
EXPANSION = "(decompression)"


class Expansion(OSError):
    """Compressed data stand for more octets than those of any capture."""


class Octets(Protocol):
    """The source of octets for a reader."""

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets; none at the end. Raises OSError."""

    def seek(self, place: int, /) -> object:
        """Go to a place counted from the first octet. Raises OSError."""


def octets_of(file: BinaryIO | Octets, name: str, stretch: int = DEFAULT_LIMITS.decompression) -> tuple[bytes, Octets]:
    """The first octets (:data:`MAGIC_LENGTH`, if there are so many) of a capture, and all of it from the start.

    ``stretch`` decompressed octets may come of next to nothing. Raises :class:`~scapy_mpa.errors.CaptureError` if it
    is compressed in a way that is not read.
    """
    head = read_exactly(file, MAGIC_LENGTH)
    decompressed = _decompressed(file, head, stretch)
    if decompressed is None:
        return head, _Plain(file, head)
    head = read_exactly(decompressed, MAGIC_LENGTH)
    if is_compressed(head):
        raise CaptureError(f"{name}: compressed twice; decompress it once before")
    decompressed.unread(head)
    return head, decompressed


def what_else(magic: bytes) -> str:
    """Return what an unreadable file is, by its first octets, and how to convert it to a capture."""
    if known := known_format(magic):
        return known
    if magic in _ETL_SIZES:
        return "not a pcap file; if it is an ETL trace, etl2pcapng FILE out.pcapng converts it"
    return "not a pcap file"


def known_format(magic: bytes) -> str | None:
    """The same if the first octets are those of a format that is known, else None."""
    return next((what for begin, what in _OTHERS.items() if magic.startswith(begin)), None)


def read_exactly(file: BinaryIO | Octets, octets: int) -> bytes:
    """Return this many octets, or all there are: a pipe may deliver fewer at a time."""
    found: list[bytes] = []
    missing = octets
    while missing and (more := file.read(missing)):
        found.append(more)
        missing -= len(more)
    return b"".join(found)


def is_compressed(head: bytes) -> bool:
    """Return True if a file that begins so is compressed in a way that is read."""
    return head[:2] == GZIP_MAGIC or head == ZSTD_MAGIC


def _decompressed(file: BinaryIO | Octets, head: bytes, stretch: int) -> _Decompressed | None:
    if head[:2] == GZIP_MAGIC:
        return _Gzip(file, head, stretch)
    if head == ZSTD_MAGIC:
        return _Zstd(file, head, stretch)
    return None


class _Plain:
    """A file whose first octets have been read."""

    def __init__(self, file: BinaryIO | Octets, head: bytes) -> None:
        self._file = file
        self._head = head

    def read(self, size: int, /) -> bytes:
        if self._head:
            head, self._head = self._head[:size], self._head[size:]
            return head
        return self._file.read(size)

    def seek(self, place: int, /) -> object:
        self._head = b""
        return self._file.seek(place)


class _Decompressed(ABC):
    """Compressed data, read and, by beginning again, read again."""

    kind: str
    #: Octets that may come of one compressed octet, on the average of a stretch: more than in any capture.
    most: int

    def __init__(self, file: BinaryIO | Octets, head: bytes, stretch: int) -> None:
        self._file = file
        self._stretch = stretch
        self._begin(head)

    def _begin(self, head: bytes) -> None:
        #: Compressed octets not used yet; whether some are in a member (frame) that has not ended.
        self._input = head
        self._inside = False
        #: Decompressed octets that were not asked for yet, and how many were.
        self._ready = memoryview(b"")
        self._place = 0
        self._damage: str | None = None
        self._is_expansion = False
        #: Octets of this stretch: how many came, and of how many.
        self._came = self._used = 0

    def unread(self, octets: bytes) -> None:
        """Give octets back that were the last ones read."""
        self._ready = memoryview(octets + self._ready)
        self._place -= len(octets)

    def read(self, size: int, /) -> bytes:
        """Return up to this many octets; fewer where the data end or are damaged."""
        found: list[memoryview] = []
        missing = size
        while missing:
            if not self._ready and not self._more():
                break
            found.append(self._ready[:missing])
            self._ready = self._ready[missing:]
            missing -= len(found[-1])
        octets = b"".join(found)
        if not octets and size and self._damage is not None:
            raise Expansion(self._damage) if self._is_expansion else OSError(self._damage)
        self._place += len(octets)
        return octets

    def seek(self, place: int, /) -> object:
        """Read on to a place, from the beginning if it is earlier."""
        if place < self._place:
            self._file.seek(0)
            # As at first: stretches must end where they did.
            self._begin(read_exactly(self._file, MAGIC_LENGTH))
        while self._place < place and self.read(min(place - self._place, _GZIP_OUTPUT)):
            pass
        return self._place

    def _more(self) -> bool:
        """Decompress some octets; False if there are no more."""
        while self._damage is None and not self._ready:
            if not self._input and not self._pending():
                self._input = self._file.read(self._input_size())
                if not self._input:
                    if self._inside:
                        self._damage = f"the {self.kind} data are cut"
                    return False
            before = len(self._input)
            try:
                self._ready = memoryview(self._step())
            except ValueError as error:
                self._damage = f"the {self.kind} data are damaged: {error}"
            self._used += before - len(self._input)
            self._came += len(self._ready)
            if self._came >= self._stretch:
                self._end_stretch()
        return bool(self._ready)

    def _end_stretch(self) -> None:
        if self._came > self._used * self.most and self._damage is None:
            self._is_expansion = True
            came = f"{self._used} octets of {self.kind} data expand to {self._came}"
            self._damage = f"{came}, more than in any capture {EXPANSION}"
        self._came = self._used = 0

    def _pending(self) -> bool:
        """Return True if decompressed octets may come without more compressed ones."""
        return False

    @abstractmethod
    def _input_size(self) -> int:
        """Return how many compressed octets to read at a time."""

    @abstractmethod
    def _step(self) -> bytes:
        """Use some of the compressed octets. Raises ValueError for damage."""


class _Gzip(_Decompressed):
    kind, most = "gzip", 1000

    def _begin(self, head: bytes) -> None:
        super()._begin(head)
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        #: Members in a row that ended with nothing in them.
        self._empty = 0
        #: True if the last octets were as many as were asked for, so that there may be more.
        self._full = False

    def _input_size(self) -> int:
        return _GZIP_INPUT

    def _pending(self) -> bool:
        return self._full

    def _step(self) -> bytes:
        if not self._inside:
            # What pads a member to a block of a tape is zero (gzip's own rule).
            self._input = self._input.lstrip(b"\0")
            if not self._input:
                return b""
            self._member = zlib.decompressobj(_GZIP_WINDOW)
            self._inside = True
        before = self._member.copy()
        try:
            octets = self._member.decompress(self._input, _GZIP_OUTPUT)
        except zlib.error as error:
            self._damage = f"the gzip data are damaged: {error}"
            return _one_by_one(before, self._input)
        self._full = len(octets) == _GZIP_OUTPUT
        if self._member.eof:
            self._inside = self._full = False
            self._input = self._member.unused_data
            self._empty = 0 if octets else self._empty + 1
            if self._empty > _MOST_EMPTY:
                self._damage = f"more than {_MOST_EMPTY} empty gzip members follow one another"
        else:
            self._input = self._member.unconsumed_tail
        return octets


def _one_by_one(member: zlib._Decompress, octets: bytes) -> bytes:
    """Return what can be decompressed before the damage."""
    found: list[bytes] = []
    try:
        for index in range(len(octets)):
            found.append(member.decompress(octets[index : index + 1], _GZIP_OUTPUT))
            if len(found[-1]) == _GZIP_OUTPUT:
                break
    except zlib.error:
        pass
    return b"".join(found)


class _Zstd(_Decompressed):
    kind, most = "zstd", 20_000

    def _begin(self, head: bytes) -> None:
        super()._begin(head)
        self._frame: zstandard.ZstdDecompressionObj | None = None

    def _input_size(self) -> int:
        return _ZSTD_INPUT

    def _step(self) -> bytes:
        import zstandard

        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
            self._inside = True
        try:
            octets = self._frame.decompress(self._input)
        except zstandard.ZstdError as error:
            raise ValueError(str(error).removeprefix("zstd decompressor error: ")) from error
        self._input = b""
        if self._frame.eof:
            self._input = self._frame.unused_data
            self._frame, self._inside = None, False
        return octets
