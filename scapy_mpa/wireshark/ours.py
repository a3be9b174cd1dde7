"""Our FPDUs as they are compared with Wireshark's: found by sequence number, or by their own octets."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator

from scapy_mpa.reading.found import FoundFPDU
from scapy_mpa.reading.spill import OctetStore
from scapy_mpa.report.connection import Connection
from scapy_mpa.tuples import NamedTuple
from scapy_mpa.values.records import FPDURecord
from scapy_mpa.wireshark.dissected import DissectedFPDU

#: Octets of a ULPDU that tell it from others: DDP's header.
_HEAD = 18


class OurFPDU(NamedTuple):
    """An FPDU of ours: whose it is, its record, the octets of its CRC field, FPDUPTRs of its Markers; whether octets
    before it in its half connection are not in FPDUs, or not in the capture; where its ULPDU is kept, and how many of
    its octets were captured."""

    number: int
    connection: Connection
    key: bytes
    record: FPDURecord
    crc: bytes
    fpduptrs: tuple[int, ...]
    is_behind_gap: bool
    place: int
    captured: int


class OurFPDUs:
    """All FPDUs of a capture. Memory follows their number; their octets are in a temporary file."""

    def __init__(self, found: Iterable[FoundFPDU]) -> None:
        self._octets = OctetStore()
        self._all: list[OurFPDU] = []
        self._by_seq: dict[tuple[bytes, int], list[OurFPDU]] = defaultdict(list)
        self._by_octets: dict[tuple[bytes, int, bytes, bytes], list[OurFPDU]] = defaultdict(list)
        self._taken: set[int] = set()
        #: Of each half connection its FPDUs that may be left, by number; those that were taken go from the front.
        self._left_of: dict[tuple[int, bytes], deque[int]] = defaultdict(deque)
        #: Where the last FPDU of a half connection ended, -1 if octets were missing before, or cut.
        self._ends: dict[tuple[int, bytes], int] = {}
        #: How many FPDUs have octets in a frame.
        self.in_frame: Counter[int] = Counter()
        for one in found:
            self._add(one)

    def _add(self, found: FoundFPDU) -> None:
        fpdu, record, key = found.decoded, found.record, found.half.key
        crc = found.crc_octets
        pointers = tuple(fpduptr for _, _, fpduptr in fpdu.markers)
        place = self._octets.keep(fpdu.ulpdu)
        half = found.connection.number, key
        is_behind_gap = self._ends.get(half, found.offset if found.connection.inferred else 0) != found.offset
        self._ends[half] = -1 if is_behind_gap or found.is_cut else found.offset + record.wire_length
        kept = place, len(fpdu.ulpdu)
        ours = OurFPDU(len(self._all), found.connection, key, record, crc, pointers, is_behind_gap, *kept)
        self._all.append(ours)
        self._left_of[half].append(ours.number)
        self._by_seq[key, record.header_seq].append(ours)
        self._by_octets[key, record.ulpdu_length, crc, fpdu.ulpdu[:_HEAD]].append(ours)
        self.in_frame.update(record.frames)

    def __len__(self) -> int:
        return len(self._all)

    def close(self) -> None:
        """Drop the file."""
        self._octets.close()

    def ulpdu(self, ours: OurFPDU) -> bytes:
        """The octets of a ULPDU, as many as were captured."""
        return self._octets.at(ours.place, ours.captured)

    def take(self, theirs: DissectedFPDU) -> OurFPDU | None:
        """The FPDU that Wireshark shows, which is not given again; None if it is not one of ours.

        It is that at the same sequence number, else, where Wireshark tells none, one of the same octets; of several the
        one whose frames are nearest.
        """
        there: Iterable[OurFPDU] = ()
        if theirs.header_seq is not None:
            there = self._free(self._by_seq.get((theirs.key, theirs.header_seq), ()))
        nearest = min(there, key=lambda ours: _distance(ours, theirs.frame), default=None)
        if nearest is None:
            known = self._by_octets.get((theirs.key, theirs.ulpdu_length, theirs.crc, _head(theirs)), ())
            nearest = min(self._free(known), key=lambda ours: _distance(ours, theirs.frame), default=None)
        if nearest is not None:
            self._taken.add(nearest.number)
        return nearest

    def left(self) -> Iterator[OurFPDU]:
        """Yield those that were not taken."""
        return (ours for ours in self._all if ours.number not in self._taken)

    def is_behind_left(self, ours: OurFPDU) -> bool:
        """Return True if an earlier FPDU of the same half connection was not taken, so far."""
        left = self._left_of[ours.connection.number, ours.key]
        while left and left[0] in self._taken:
            left.popleft()
        return bool(left) and left[0] < ours.number

    def _free(self, some: Iterable[OurFPDU]) -> Iterator[OurFPDU]:
        return (ours for ours in some if ours.number not in self._taken)


def _head(theirs: DissectedFPDU) -> bytes:
    octets = bytearray(min(_HEAD, theirs.ulpdu_length))
    for at, run in theirs.ulpdu:
        if at < len(octets):
            octets[at : min(at + len(run), len(octets))] = run[: len(octets) - at]
    return bytes(octets)


def _distance(ours: OurFPDU, frame: int) -> int:
    frames = ours.record.frames
    return 0 if frames[0] <= frame <= frames[-1] else min(abs(frame - frames[0]), abs(frame - frames[-1]))
