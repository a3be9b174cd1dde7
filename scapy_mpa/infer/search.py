"""Searching for an FPDU where neither a length nor a Marker says where one begins (DESIGN: ``scan``).

With CRCs, one that is good confirms the start.  Without, FPDUs that follow one another by their lengths and whose DDP
and RDMAP headers make sense together do, if there are enough of them.  Every place is tried once, so that the time
follows the octets searched, whatever they hold.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush

from scapy_mpa.framing.crc import CRC_RESIDUE, crc32c
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import MARKER_INTERVAL, header_offset, plain_length, wire_length
from scapy_mpa.infer.evidence import HEADER_OCTETS, PLAUSIBLE_HEADER, header_at, header_bits, header_chain
from scapy_mpa.receive.scan import Extent, FPDUReader

#: Bits that the headers of a chain must be worth to be believed within a connection known to carry MPA, and the
#: first of them to belong to it.
CHAIN_BITS = 48
_FIRST_BITS = 12
#: Chains that may turn out to be one.
_MOST_CHAINS = 64
#: All FPDUs are multiples of this many octets (RFC 5044 §4.1).
ALIGNMENT = 4
#: Octets of FPDUs that were found by their headers alone; Markers, if there were some, would have shown by then.
DOUBTFUL_OCTETS = 8 * MARKER_INTERVAL


class Search:
    """The search for the next FPDU from an offset of the stream on; what it found last it finds until it moves on.

    ``phase`` is what the offsets of FPDUs leave modulo 4, None if that is not known: then any octet may be the first.
    """

    __slots__ = ("_at", "_chains", "_found", "_incomplete", "_reader", "_starts", "_step", "_waiting")

    def __init__(self, reader: FPDUReader, start: int, phase: int | None) -> None:
        self._reader = reader
        self._step = 1 if phase is None else ALIGNMENT
        #: The next place to be tried.
        self._at = start if phase is None else start + (phase - start) % ALIGNMENT
        #: With CRCs: (end, start) of what may be FPDUs, of which octets are missing.
        self._incomplete: list[tuple[int, int]] = []
        #: Where these begin; and the same ascending, with some that are none any more.
        self._waiting: set[int] = set()
        self._starts: deque[int] = deque()
        #: Without: places where a plausible header stands.
        self._chains: list[int] = []
        self._found: int | None = None

    @property
    def needed(self) -> int:
        """The first offset whose octet is still needed."""
        found = () if self._found is None else (self._found,)
        starts = self._starts
        while starts and starts[0] not in self._waiting:
            starts.popleft()
        first = (starts[0],) if starts else ()
        return min(self._at, self._reader.reassembly.next, *found, *self._chains, *first)

    def move(self, start: int) -> None:
        """Look only for those that begin at ``start`` or behind; what was tried is not tried again."""
        if self._found is not None and self._found < start:
            self._found = None
        if start > self._at:
            self._at = start + (self._at - start) % self._step
        self._chains = [at for at in self._chains if at >= start]
        if self._incomplete and self.needed < start:
            self._incomplete = [(end, at) for end, at in self._incomplete if at >= start]
            heapify(self._incomplete)
            self._waiting = {at for _, at in self._incomplete}

    @property
    def is_aligned(self) -> bool:
        """Whether it is known what the offsets of FPDUs leave modulo 4."""
        return self._step == ALIGNMENT

    def find(self) -> int | None:
        """The offset of an FPDU all of whose octets are captured in order, None if there is none yet."""
        if self._found is None:
            reassembly = self._reader.reassembly
            low = max(self.needed, reassembly.base)
            octets = reassembly.read(low, reassembly.next)
            self._found = self._by_crc(octets, low) if self._reader.layout.crc else self._by_headers(octets, low)
        return self._found

    def _by_crc(self, octets: bytes, low: int) -> int | None:
        view, markers, step = memoryview(octets), self._reader.layout.markers, self._step
        limit = low + len(octets)
        incomplete = self._incomplete
        while incomplete and incomplete[0][0] <= limit:
            end, start = heappop(incomplete)
            self._waiting.discard(start)
            if start >= low and crc32c(view[start - low : end - low]) == CRC_RESIDUE:
                return start
        at = self._next_place(low)
        while True:
            header = header_offset(at) if markers else at
            if header + 2 > limit:
                break
            ulpdu_length = octets[header - low] << 8 | octets[header - low + 1]
            end = at + (wire_length(ulpdu_length, at) if markers else plain_length(ulpdu_length))
            if ulpdu_length > MAX_ULPDU_LENGTH:
                pass
            elif end > limit:
                heappush(incomplete, (end, at))
                self._waiting.add(at)
                self._starts.append(at)
            elif crc32c(view[at - low : end - low]) == CRC_RESIDUE:
                self._at = at + step
                return at
            at += step
        self._at = at
        return None

    def _by_headers(self, octets: bytes, low: int) -> int | None:
        first, last = self._next_place(low), low + len(octets) - HEADER_OCTETS - 2
        for match in PLAUSIBLE_HEADER.finditer(octets, first - low):
            at = low + match.start()
            if at > last:
                break
            if (at - first) % self._step == 0 and self._may_be_first(octets, match.start()):
                self._chains.append(at)
        if last >= first:
            self._at = last - (last - first) % self._step + self._step
        for at in self._chains[:]:
            chain = header_chain(octets, at - low) if at >= low else None
            if chain is None or chain.broken:
                self._chains.remove(at)
            elif chain.bits >= CHAIN_BITS and chain.fpdus > 1:
                return at
        del self._chains[:-_MOST_CHAINS]
        return None

    def _next_place(self, low: int) -> int:
        """The next place to be tried whose octets are still held."""
        return self._at if self._at >= low else low + (self._at - low) % self._step

    @staticmethod
    def _may_be_first(octets: bytes, at: int) -> bool:
        header = header_at(octets, at + 2, octets[at] << 8 | octets[at + 1])
        return header is not None and header_bits(octets, at + 2, header) >= _FIRST_BITS


class Searching:
    """The search for the next FPDU of a half connection, as often as it is not known where one begins.

    Args:
        reader: reads single FPDUs.
        may_search: whether one may be searched for at all.
        phase: what the offsets of FPDUs leave modulo 4, None if that is not known.
    """

    __slots__ = ("_doubtful", "_is_on", "_may_search", "_phase", "_reader", "_search")

    def __init__(self, reader: FPDUReader, may_search: bool, phase: int | None) -> None:
        self._reader = reader
        self._may_search = may_search
        self._phase = phase
        self._search: Search | None = None
        self._is_on = False
        #: Octets in which FPDUs, found by nothing but headers that agree, must be followed by such to be believed.
        self._doubtful = 0

    @property
    def is_on(self) -> bool:
        """Whether an FPDU is searched for at present, besides by Markers."""
        return self._is_on

    @property
    def is_doubtful(self) -> bool:
        """Whether what was found by headers alone has to be confirmed by those that follow."""
        return bool(self._doubtful)

    def pass_fpdu(self, offset: int) -> None:
        """An FPDU begins at an offset, and so do others at a distance of whole words."""
        self._phase = offset % ALIGNMENT

    def begin(self, start: int, may_search: bool) -> None:
        """Look for an FPDU that begins at ``start`` or behind."""
        self._is_on = may_search and self._may_search
        if not self._is_on:
            return
        if self._search is not None and self._search.is_aligned == (self._phase is not None):
            self._search.move(start)
        else:
            self._search = Search(self._reader, start, self._phase)

    def begin_anew(self) -> None:
        """Octets were withdrawn: what was tried is tried again."""
        self._search = None

    def find(self) -> int | None:
        """The offset of an FPDU, None if none was found yet."""
        return self._search.find() if self._search is not None and self._is_on else None

    def needed(self, next_: int) -> int:
        """The first offset whose octet is still needed, if octets are captured up to ``next_``."""
        return self._search.needed if self._search is not None and self._is_on else next_

    def take(self) -> None:
        """What was found is taken for an FPDU: without a CRC, as long as such follow."""
        self._doubtful = 0 if self._reader.layout.crc else DOUBTFUL_OCTETS

    def is_followed(self, extent: Extent, is_last: bool) -> bool | None:
        """Whether a header that DDP would send follows an FPDU, so that it may be believed; None if nobody knows yet.

        ``is_last`` says that nothing more comes.
        """
        reassembly, end = self._reader.reassembly, extent.end
        there = reassembly.next - end
        if there >= 2 + HEADER_OCTETS:
            octets = reassembly.read(end, end + 2 + HEADER_OCTETS)
            if header_at(octets, 2, octets[0] << 8 | octets[1]) is None:
                return False
        elif there or not is_last:
            return None
        self._doubtful = max(0, self._doubtful - (end - extent.offset))
        return True
