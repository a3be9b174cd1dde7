"""What the readers of the capture formats have in common.

A file is read in blocks. Out come lists of :data:`~scapy_mpa.values.segment.Segment`, one list for each block; the
buffers of a batch's segments share that block's memory, so nothing is copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from scapy_mpa.capture.fragments import Fragments
from scapy_mpa.capture.notes import Notes
from scapy_mpa.capture.packet import segment_in
from scapy_mpa.capture.source import Octets
from scapy_mpa.errors import CaptureError
from scapy_mpa.values.segment import PATH_MTU, Segment

#: Octets read at a time: few enough for a processor's cache, enough to forget what a read costs.
BLOCK_SIZE = 1 << 19
#: No capture program writes longer packets; a record that claims one is damaged.
MAX_CAPTURED_LENGTH = 16 * 1024 * 1024

NANOSECONDS = 1_000_000_000

#: As much of a block is joined with what was left of the one before: more than nearly all packets have.
_JOINED = 1 << 14
#: A rest of this size is not joined with a block that is smaller: a pipe gives little at a time.
_SMALL = 1 << 16


class Reader(ABC):
    """Reads one capture file, once, and single packets of it again.

    ``frames`` counts the records read so far, on top of those ``before``; ``damage`` says, after the last batch, what
    is wrong with the file, or is None; ``fragments`` are those of IP datagrams, several captures may share them.
    """

    #: What the format calls that which holds a packet.
    unit = "record"

    def __init__(self, octets: Octets, name: str, fragments: Fragments) -> None:
        self.name = name
        #: Frames of the captures that were read before this one; they count in ``frames``.
        self.before = 0
        self.frames = 0
        self.damage: str | None = None
        #: What is to be said about a limit that ended the file, and the time of the last record (nanoseconds).
        self.limit: str | None = None
        self.time = 0
        self.fragments = fragments
        self._octets = octets
        #: Where the first octet is that has not been read.
        self._place = 0
        #: How many octets of the current block are used; more than there are, to skip some.
        self._used = 0
        #: Octets that must follow what is skipped.
        self._lacking = 0

    def begin_at(self, frames: int) -> None:
        """Set how many frames of other captures precede this one, before the first batch."""
        self.before = self.frames = frames

    def batches(self, every_record: bool = False) -> Iterator[list[Segment]]:
        """Yield the segments of each block of the file.

        With ``every_record``, a record that is no TCP segment yields one with an empty key, so that captures
        can be merged by the time of every record. Fragments are left to the merge: such a one has
        :data:`~scapy_mpa.capture.packet.FRAGMENT` for the index of its TCP header.
        """
        for octets, _ in self._blocks():
            batch: list[Segment] = []
            self._used = self._records(octets, batch, every_record)
            yield batch

    def positions(self) -> Iterator[tuple[int, int]]:
        """Yield (time in nanoseconds, place in the file) of each record, as far as the file can be read."""
        try:
            for octets, place in self._blocks():
                found: list[tuple[int, int]] = []
                self._used = self._places(octets, place, found)
                yield from found
        except OSError:
            return

    def records(self) -> Iterator[tuple[int, int, bytes, int]]:
        """Yield time (nanoseconds), link type, octets and wire length of each record.

        Raises OSError where the file cannot be read; what is damaged in it is in ``damage``.
        """
        for octets, place in self._blocks():
            found: list[tuple[int, int]] = []
            self._used = self._places(octets, place, found)
            for _, position in found:
                yield self._record_in(octets, position - place, position)

    def segment_at(self, position: int) -> Segment | None:
        """The TCP segment of the record at a place in the file, numbered 0; None if there is none.

        One that holds only a fragment of a segment gives what :meth:`batches` gives for it. Raises
        :class:`~scapy_mpa.errors.CaptureError` if the file cannot be read from there.
        """
        with self._at(position):
            time, link_type, octets, wire = self._record_at(position)
        size = len(octets)
        found = segment_in(0, time, link_type, memoryview(octets), 0, size, max(size, wire), self.fragments, waits=True)
        return None if found is not None and found.flags & PATH_MTU else found

    def record_at(self, position: int) -> bytes:
        """All octets of the record at a place in the file, as they are. Raises as :meth:`segment_at` does."""
        with self._at(position):
            return self._raw_at(position)

    @contextmanager
    def _at(self, position: int) -> Iterator[None]:
        """Go to a place in the file; what cannot be read there raises a CaptureError."""
        try:
            self._octets.seek(position)
            yield
        except (OSError, ValueError) as error:
            raise CaptureError(f"{self.name}: cannot be read again: {error}") from error

    @property
    def notes(self) -> Notes:
        """Remarks for the report: about fragments and link types."""
        return self.fragments.notes

    def meet_limit(self, detail: str) -> None:
        """Note that a limit ended the file."""
        self.limit = detail

    def conclude(self) -> None:  # noqa: B027
        """Raise CaptureError after the last batch if what was read is of no use."""

    @abstractmethod
    def _records(self, octets: memoryview, batch: list[Segment], every_record: bool) -> int:
        """Append the segments of all whole records; returns the octets used, or more to skip some."""

    @abstractmethod
    def _places(self, octets: memoryview, place: int, found: list[tuple[int, int]]) -> int:
        """Append time and place of all records; returns the octets used, or more to skip some."""

    @abstractmethod
    def _record_in(self, octets: memoryview, at: int, position: int) -> tuple[int, int, bytes, int]:
        """Time, link type, octets and wire length of the record at an index of a block, a place in the file."""

    @abstractmethod
    def _record_at(self, position: int) -> tuple[int, int, bytes, int]:
        """Time, link type, octets and wire length of the record where the file stands.

        Raises OSError or ValueError if there is none.
        """

    @abstractmethod
    def _raw_at(self, position: int) -> bytes:
        """All octets of the record where the file stands; raises as :meth:`_record_at` does."""

    def _blocks(self) -> Iterator[tuple[memoryview, int]]:
        """Yield (octets, the place of the first), unused ones again with more after them, until there is damage."""
        carry, skip = b"", 0
        while block := self._octets.read(BLOCK_SIZE):
            if len(block) < len(carry) > _SMALL:
                block = self._as_much_as(len(carry), block)
            rest = memoryview(block)
            while rest:
                skipped = min(skip, len(rest))
                skip, self._place, rest = skip - skipped, self._place + skipped, rest[skipped:]
                if not rest:
                    break
                # Unused ones are joined with what they lack, as nearly always, not with all of the block.
                part = rest[: max(_JOINED, len(carry))] if carry else rest
                octets, behind = memoryview(carry + bytes(part)) if carry else part, rest[len(part) :]
                yield octets, self._place
                if self.damage is not None:
                    return
                self._place += min(self._used, len(octets))
                skip = max(0, self._used - len(octets))
                if behind and len(carry) <= self._used <= len(octets):
                    carry, rest = b"", rest[self._used - len(carry) :]
                else:
                    carry, rest = bytes(octets[self._used :]), behind
        if skip or self._lacking:
            self.damage = f"the last {self.unit} lacks {skip + self._lacking - len(carry)} octets"
        elif carry:
            self.damage = f"the last {self.unit} is cut after {len(carry)} octets"

    def _as_much_as(self, size: int, block: bytes) -> bytes:
        """The block, and more until there are this many octets."""
        parts, have = [block], len(block)
        while have < size and (more := self._octets.read(BLOCK_SIZE)):
            parts.append(more)
            have += len(more)
        return b"".join(parts)
