"""What a half connection must be, inferred from its octets where no startup frame says it.

Three hypotheses are tried: Markers (512 places for their grid, RESERVED zero, FPDUPTR leading to a header whose CRC is
good or whose Markers and DDP header agree), no Markers but CRCs (a length whose CRC is good), and neither (lengths that
lead from one DDP header that makes sense to the next).  Each FPDU found confirms; what the hypothesis is worth is
counted in bits (:mod:`~scapy_mpa.infer.evidence`).  What is worth too little is not believed.

A search of 2^n places finds something worth n bits in one of them.  So the places are paid for, and what is
left has to be 40 bits: one TCP connection in 2^40 that carries anything else is taken for MPA, or, if it carries
nothing but small numbers and zeros, which resemble Markers and headers, one in 2^34 (the tests count them, with CRCs
of few bits).  As a rule 24 bits are paid, for as many places as there ever are, and for fields that other protocols
fill alike.  Where Markers led to a good CRC and a DDP header, the places are counted, and are few: of the 512 grids
hardly any has a zero RESERVED at all of its Markers.  Then one FPDU is enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from operator import add
from typing import Final

from scapy_mpa.framing.crc import CRC_RESIDUE, crc32c
from scapy_mpa.framing.fpdu import MAX_ULPDU_LENGTH
from scapy_mpa.framing.markers import (
    LONGEST_FPDU,
    MARKER_INTERVAL,
    MARKER_LENGTH,
    Origin,
    expected_fpduptr,
    fpdu_start_of,
    header_offset,
    marker_positions,
    plain_length,
    wire_length,
)
from scapy_mpa.infer.evidence import (
    CRC_BITS,
    ENOUGH_FPDUS,
    FPDUPTR_BITS,
    HEADER_OCTETS,
    LEADING_MARKER_BITS,
    LENGTH_BITS,
    MARKER_BITS,
    PLAUSIBLE_HEADER,
    Chain,
    Header,
    crc_chain,
    header_at,
    header_bits,
    header_chain,
    length_bits,
    lone_header_bits,
    succession_bits,
)
from scapy_mpa.tuples import NamedTuple

#: Bits that must be left when the places that were examined are paid for: one connection in 2^40 is taken for MPA.
_LEFT_BITS: Final = 40
#: Bits that these places cost if nobody counts them: for as many as there ever are, and for fields that other protocols
#: fill alike.
_UNCOUNTED_BITS: Final = 24
#: Both together.
CONNECTION_BITS: Final = _LEFT_BITS + _UNCOUNTED_BITS
#: Bits without which a half connection is not believed to carry MPA whose other half does.
HALF_BITS: Final = 44
#: FPDUs without CRC and Markers that must follow one another.
FEWEST_HEADERS: Final = 3
#: FPDUs without CRC and Markers that must follow one another for each sequence of them that leads nowhere.
_FEWEST_FOR_BROKEN = 32
#: Candidates that are examined for one hypothesis, no more than there are octets: a bound of time.
_MOST_CANDIDATES = 4096
#: Runs examined, the longest first: a bound of time.
_MOST_RUNS = 256
#: Octets of the shortest run examined: those of the shortest FPDU.
_SHORTEST_RUN = plain_length(1)
#: One Marker in this many may have anything in RESERVED.
_MOST_DEVIATING = 8
#: Places of Markers, from the first octet to the last, one of which may.
_FEWEST_BESIDE_DEVIATING = 4
#: One Marker in this many may lead nowhere, without CRCs.
_MOST_ASTRAY = 4
#: Places tried one after another, of the first octets that follow one another: a bound of time.
_MOST_PLACES = 1 << 13
#: Places tried like that in a whole capture: a bound of time.
_PLACES_IN_ALL = 1 << 16
#: Candidates captured whole of which none is an FPDU before a grid is given up: a bound of time.
_MOST_IN_VAIN = 64
#: What a DDP header is worth beside a good CRC at most: small numbers of eight octets are untagged headers, nearly.
_MOST_HEADER_BITS = 17
#: Markers that must point back, not at themselves, where no CRC is good: zeros may be anything.
_FEWEST_POINTING = 3
#: Of each octet, whether it is not zero, and whether one of the two bits of FPDUPTR is not that are sent zero.
_NOT_ZERO = bytes(octet > 0 for octet in range(256))
_LOW_TWO_BITS = bytes(octet & 3 > 0 for octet in range(256))
#: Rows of 0 and 1 whose columns are each added up within an octet.
_MOST_ROWS = 255
#: Added to offsets, so that no FPDU begins before the stream: a Marker stands there.
_SHIFT = -(-2 * LONGEST_FPDU // MARKER_INTERVAL) * MARKER_INTERVAL


class Run(NamedTuple):
    """Octets captured without a gap, from an offset of the stream on."""

    offset: int
    octets: bytes


class Head(NamedTuple):
    """The rest of a segment that a snapshot length cut: its octets from an offset on, and where it ended."""

    offset: int
    octets: bytes
    end: int


class Inferred(NamedTuple):
    """What a half connection was inferred to be.

    ``grid`` is what offsets of Markers leave modulo 512 (0 without Markers); ``origin`` what FPDUPTR counts from, None
    if no FPDU shows it; ``confirmations`` the FPDUs that confirm it (none, if only Markers of FPDUs that were not
    captured whole do), ``bits`` what they are worth; ``first`` the offset of the first of them; ``span`` the most
    octets that follow one another and are all theirs; ``cost`` the bits that the places cost that were examined.
    """

    markers: bool
    crc: bool
    grid: int
    origin: Origin | None
    confirmations: int
    bits: int
    first: int
    span: int
    cost: int = _UNCOUNTED_BITS

    @property
    def shows_markers(self) -> bool:
        """True if it is certain that there are Markers, or that there are none: this many octets hold one."""
        return self.markers or self.span >= MARKER_INTERVAL + MARKER_LENGTH


def is_enough(found: Collection[Inferred]) -> bool:
    """True if a connection is believed to carry MPA: by one of its half connections alone, or by both together."""
    return any(one.bits - one.cost >= _LEFT_BITS for one in found) or sum(one.bits for one in found) >= CONNECTION_BITS


class Budget:
    """Places that may still be tried, one after another, for FPDUs whose ULPDU is not DDP: that takes longest."""

    def __init__(self, places: int = _PLACES_IN_ALL) -> None:
        self.places = places

    def take(self) -> int:
        """Return how many places may be tried now."""
        taken = min(self.places, _MOST_PLACES)
        self.places -= taken
        return taken


def infer(
    runs: Sequence[Run],
    budget: Budget,
    markers: bool | None = None,
    crc: bool | None = None,
    fewest: int = FEWEST_HEADERS,
    heads: Sequence[Head] = (),
) -> Inferred | None:
    """The hypothesis with the most evidence, None if there is none at all; ``markers`` and ``crc`` where known.

    ``fewest`` is how many FPDUs without CRC and Markers must follow one another, or begin segments of ``heads``.
    """
    longest = sorted((run for run in runs if len(run.octets) >= _SHORTEST_RUN), key=lambda run: -len(run.octets))
    runs = sorted(longest[:_MOST_RUNS])
    found: list[Inferred | None] = []
    if heads and markers is not True:
        found.append(_by_segments(heads[:_MOST_CANDIDATES], fewest, bool(crc)))
    if not runs:
        return found[0] if found else None
    if markers is not False:
        grids = _grids(runs)
        for with_crc in (True, False):
            if crc in (None, with_crc) and not any(one is not None and one.confirmations for one in found):
                found.append(by_grid := _by_grid(runs, grids, with_crc))
                # A CRC that is good only if Markers are there leaves no doubt, however few of the FPDUs hold one.
                if by_grid is not None and by_grid.crc and by_grid.confirmations and by_grid.bits >= HALF_BITS:
                    return by_grid
    if markers is not True:
        if crc is not False:
            found.append(_by_crc(runs, map(_plausible, runs)))
        if crc is not True:
            found.append(_by_headers(runs, fewest))
        if crc is not False and not any(one is not None and one.bits >= HALF_BITS for one in found):
            places = budget.take()
            found.append(_by_crc(runs, [iter(range(min(len(run.octets) - 1, places))) for run in runs[:1]]))
    # Where CRCs are good they are in use, however much the headers alone are worth.
    return max(
        (one for one in found if one is not None),
        key=lambda one: (one.crc and one.confirmations > 0 and one.bits >= HALF_BITS, one.bits),
        default=None,
    )


# --- Markers ---


def _by_grid(runs: Sequence[Run], grids: Sequence[int], crc: bool) -> Inferred | None:
    best: Inferred | None = None
    tried = 0
    # The fewer octets, the less they can cost.
    most = min(_MOST_CANDIDATES, sum(len(run.octets) for run in runs))
    cost = _cost(runs, len(grids))
    for grid in grids:
        found, candidates = _on_grid(runs, grid, crc, cost)
        tried += candidates + 1
        if found is not None and (best is None or found.bits > best.bits):
            best = found
        if tried > most:
            break
    return best


def _cost(runs: Sequence[Run], grids: int) -> int:
    """The bits that it costs to look at each Marker of this many grids, and where both FPDUs begin that it may name."""
    places = 2 * grids * sum(len(run.octets) // MARKER_INTERVAL + 1 for run in runs)
    return max(0, places - 1).bit_length()


def _grids(runs: Sequence[Run]) -> list[int]:
    """Return where Markers may stand modulo 512, the likeliest first: nearly all bits that are sent zero are zero
    there.
    """
    # Runs are laid one after another at their own places modulo 512; the zeros between them contradict nothing.
    laid = bytearray()
    for run in runs:
        laid += bytes((run.offset - len(laid)) % MARKER_INTERVAL) + run.octets
    laid += bytes(MARKER_INTERVAL)
    deviating_at, set_at = _deviating(laid), _columns(laid.translate(_NOT_ZERO))
    grids = []
    for grid in _within(runs):
        deviating = deviating_at[grid]
        markers = -((grid - len(laid)) // MARKER_INTERVAL) - 1
        if deviating > max(markers // _MOST_DEVIATING, markers >= _FEWEST_BESIDE_DEVIATING):
            continue
        # FPDUPTRs that are not zero say more than zeros that may be anything.
        pointing = set_at[grid + 3]
        if pointing or any(set_at[grid + at] for at in (2, 4, 5)):
            grids.append((deviating, -pointing, grid))
    return [grid for _, _, grid in sorted(grids)]


def _deviating(laid: bytearray) -> list[int]:
    """Return how many Markers at distance 512, from each offset below 512 on, lack zeros where zeros are sent."""
    columns, size = [0] * MARKER_INTERVAL, _MOST_ROWS * MARKER_INTERVAL
    for first in range(0, len(laid), size):
        octets = laid[first : first + size + MARKER_LENGTH]
        is_set = int.from_bytes(octets.translate(_NOT_ZERO), "little")
        low_bits = int.from_bytes(octets.translate(_LOW_TWO_BITS), "little")
        found = (is_set | is_set >> 8 | low_bits >> 24).to_bytes(len(octets), "little")
        columns = [*map(add, columns, _columns(found[:size]))]
    return columns


def _columns(laid: bytes | bytearray) -> list[int]:
    """Return how many octets at distance 512, from each offset below 512 + 6 on, are 1; all octets are 0 or 1."""
    rows = range(0, len(laid), MARKER_INTERVAL)
    columns = [0] * MARKER_INTERVAL
    for first in range(0, len(rows), _MOST_ROWS):
        # A row is a number with 512 digits, none of which overflows.
        numbers = (int.from_bytes(laid[at : at + MARKER_INTERVAL], "little") for at in rows[first : first + _MOST_ROWS])
        columns = list(map(add, columns, sum(numbers).to_bytes(MARKER_INTERVAL, "little")))
    return columns + [column - one for column, one in zip(columns, laid[: MARKER_LENGTH + 2], strict=False)]


def _within(runs: Sequence[Run]) -> Iterable[int]:
    """Return where a Marker may stand so that at least one lies in a run."""
    if any(len(run.octets) >= MARKER_INTERVAL + MARKER_LENGTH for run in runs):
        return range(MARKER_INTERVAL)
    places = ((run.offset + at) % MARKER_INTERVAL for run in runs for at in range(len(run.octets) - MARKER_LENGTH + 1))
    return sorted(set(places))


def _on_grid(runs: Sequence[Run], grid: int, crc: bool, cost: int) -> tuple[Inferred | None, int]:
    """Return the evidence for Markers on a grid, and how many candidates were tried; ``cost`` is that of all grids."""
    fpdus = bits = candidates = in_vain = astray = span = 0
    first: int | None = None
    lookers = []
    for run in runs:
        looker = _OnGrid(run, grid, crc)
        lookers.append(looker)
        marker = looker.offset + -looker.offset % MARKER_INTERVAL
        while marker + MARKER_LENGTH <= looker.limit and fpdus < ENOUGH_FPDUS and candidates < _MOST_CANDIDATES:
            after = marker + MARKER_INTERVAL
            places = fpdu_start_of(marker, looker.word(marker + 2))
            for start, header in places:
                if start < looker.offset or header + 2 > looker.limit or looker.end_of(start) <= marker:
                    continue
                candidates += 1
                at, worth = start, looker.fpdu_bits(start)
                if worth and first is None:
                    first = start - looker.offset + run.offset
                # What follows it by its length is found too.
                while worth and fpdus < ENOUGH_FPDUS:
                    fpdus += 1
                    bits += worth
                    at = looker.end_of(at)
                    after = at + -at % MARKER_INTERVAL
                    worth = looker.fpdu_bits(at)
                if at > start:
                    span = max(span, at - start)
                    break
                # Of the two places that a FPDUPTR may mean the first is the likelier by far.
                if looker.end_of(start) <= looker.limit:
                    in_vain += 1
                    astray += start == places[0][0]
            marker = max(after, marker + MARKER_INTERVAL)
        if not fpdus and in_vain > _MOST_IN_VAIN:
            break
    pairs = sum(looker.pairs for looker in lookers)
    if first is None and (pairs < _FEWEST_POINTING or (crc and astray)):
        return None, candidates
    if not crc or first is None:
        # Markers of one FPDU tell how far apart they are, though all of it was never captured.
        bits += MARKER_BITS * pairs
        pointing = pairs + sum(looker.pointing for looker in lookers)
        if astray * _MOST_ASTRAY > fpdus or pointing < (1 if bits > 2 * CONNECTION_BITS else _FEWEST_POINTING):
            return None, candidates
    if first is None:
        return Inferred(True, crc, grid, None, 0, bits, runs[0].offset, 0), candidates
    votes = sum(looker.votes for looker in lookers)
    origin: Origin | None = ("header" if votes > 0 else "first-octet") if votes else None
    if not (crc and any(looker.is_ddp for looker in lookers)):
        cost = _UNCOUNTED_BITS
    elif any(looker.pointing for looker in lookers):
        # That RESERVED is zero chose the grid, and is no longer evidence for it.
        cost += MARKER_BITS - FPDUPTR_BITS
    return Inferred(True, crc, grid, origin, fpdus, bits, first, span, cost), candidates


class _OnGrid:
    """One run read with Markers on a grid; offsets are such that Markers stand at multiples of 512."""

    def __init__(self, run: Run, grid: int, crc: bool) -> None:
        self.offset = (run.offset - grid) % MARKER_INTERVAL + _SHIFT
        self.limit = self.offset + len(run.octets)
        self._octets = run.octets
        self._view = memoryview(run.octets)
        self._crc = crc
        #: FPDUPTRs that count from ULPDU_Length less those that count from the first octet, where that differs.
        self.votes = 0
        #: FPDUPTRs that are right and not zero.
        self.pointing = 0
        #: True if an FPDU has a DDP header.
        self.is_ddp = False

    @property
    def pairs(self) -> int:
        """The number of Markers that count 512 more than the one before, which is not zero."""
        first = -self.offset % MARKER_INTERVAL
        pointers = [
            self._octets[at + 2] << 8 | self._octets[at + 3]
            for at in range(first, len(self._octets) - MARKER_LENGTH + 1, MARKER_INTERVAL)
        ]
        return sum(before > 0 and after == before + MARKER_INTERVAL for before, after in pairwise(pointers))

    def word(self, at: int) -> int:
        index = at - self.offset
        return self._octets[index] << 8 | self._octets[index + 1]

    def end_of(self, start: int) -> int:
        return start + wire_length(self.word(header_offset(start)), start)

    def fpdu_bits(self, start: int) -> int:
        """Return the evidence of an FPDU at ``start`` in bits; 0 if there is none, or octets of it are missing."""
        header = header_offset(start)
        if start < self.offset or header + 2 > self.limit:
            return 0
        ulpdu_length = self.word(header)
        end = self.end_of(start)
        if end > self.limit or not 0 < ulpdu_length <= MAX_ULPDU_LENGTH:
            return 0
        named = self._named(start, end)
        bits = self._header_bits(header, ulpdu_length)
        if self._crc:
            good = crc32c(self._view[start - self.offset : end - self.offset]) == CRC_RESIDUE
            if not good:
                return 0
            self.is_ddp |= bits > 0
            bits = CRC_BITS + min(bits, _MOST_HEADER_BITS) + length_bits(ulpdu_length)
            # A CRC covers the Marker before the header, so that its zeros are not any zeros.
            if start % MARKER_INTERVAL == 0:
                bits += LEADING_MARKER_BITS
        elif named < 0 or not bits:
            return 0
        self.pointing += max(named, 0)
        return MARKER_BITS * max(named, 0) + bits

    def _named(self, start: int, end: int) -> int:
        """Return how many of its Markers point back at the start of an FPDU; -1 if one does not name it."""
        named = votes = 0
        for marker in marker_positions(start, end):
            said = self.word(marker + 2) & ~3
            fits = {
                origin: said == expected_fpduptr(marker, start, origin) & ~3 for origin in ("header", "first-octet")
            }
            if not any(fits.values()):
                return -1
            if fits["header"] != fits["first-octet"]:
                votes += 1 if fits["header"] else -1
            # A FPDUPTR of zero is worth little: there are zeros in any data.
            named += said != 0
        self.votes += votes
        return named

    def _header_bits(self, header: int, ulpdu_length: int) -> int:
        """Bits of the DDP header, without the Marker that may stand in it."""
        at, marker = header + 2, header + 2 + -(header + 2) % MARKER_INTERVAL
        if marker >= at + HEADER_OCTETS:
            return lone_header_bits(self._octets, at - self.offset, ulpdu_length)
        around = self._octets[at - self.offset : marker + MARKER_LENGTH + HEADER_OCTETS - self.offset]
        return lone_header_bits(around[: marker - at] + around[marker - at + MARKER_LENGTH :], 0, ulpdu_length)


# --- no Markers ---


def _by_crc(runs: Sequence[Run], places: Iterable[Iterator[int]]) -> Inferred | None:
    """FPDUs whose CRCs are good among those that begin at ``places`` of the runs, and those that follow them."""
    fpdus = bits = span = 0
    first: int | None = None
    for run, places_of_run in zip(runs, places, strict=False):
        view, at = memoryview(run.octets), 0
        for place in places_of_run:
            if fpdus >= ENOUGH_FPDUS:
                break
            if place < at:
                continue
            chain = crc_chain(view, place)
            if chain.fpdus:
                fpdus += chain.fpdus
                bits += chain.bits
                at = chain.end
                span = max(span, at - place)
                first = run.offset + place if first is None else first
    return Inferred(False, True, 0, None, fpdus, bits, first, span) if first is not None else None


def _plausible(run: Run) -> Iterator[int]:
    """Yield where a ULPDU_Length and a DDP header may stand, in ascending order."""
    yield from (match.start() for match in PLAUSIBLE_HEADER.finditer(run.octets))


def _by_headers(runs: Sequence[Run], fewest: int) -> Inferred | None:
    best: Inferred | None = None
    broken = 0
    for run in runs:
        at = candidates = 0
        for place in _plausible(run):
            if place < at:
                continue
            candidates += 1
            if candidates > _MOST_CANDIDATES:
                break
            chain = header_chain(run.octets, place)
            if chain.broken:
                # FPDUs that are followed by none: a Marker may stand there.
                broken += chain.fpdus > 1
                between = _marker_between(run, place, chain) if chain.fpdus > 1 else None
                if between is not None:
                    return between
            elif chain.fpdus >= fewest:
                at = chain.end
                if best is None or chain.bits > best.bits:
                    first = run.offset + place
                    best = Inferred(False, False, 0, None, chain.fpdus, chain.bits, first, chain.end - place)
    return best if best is not None and best.confirmations >= _FEWEST_FOR_BROKEN * broken else None


def _by_segments(heads: Sequence[Head], fewest: int, crc: bool) -> Inferred | None:
    """FPDUs that begin with a segment and end with one, most of them, by their lengths and DDP headers."""
    boundaries = {head.offset for head in heads} | {head.end for head in heads}
    headers: list[Header] = []
    bits = others = span = 0
    first: int | None = None
    for offset, octets, _ in heads:
        ulpdu_length = octets[0] << 8 | octets[1] if len(octets) >= 2 + HEADER_OCTETS else 0
        header = header_at(octets, 2, ulpdu_length) if ulpdu_length else None
        size = plain_length(ulpdu_length)
        if header is None or offset + size not in boundaries:
            others += 1
            continue
        bits += LENGTH_BITS + header_bits(octets, 2, header) + succession_bits(headers, header)
        headers.append(header)
        span, first = max(span, size), offset if first is None else first
        if len(headers) >= ENOUGH_FPDUS:
            break
    if first is None or len(headers) < max(fewest, others):
        return None
    return Inferred(False, crc, 0, None, len(headers), bits, first, span)


def _marker_between(run: Run, place: int, chain: Chain) -> Inferred | None:
    """True if a Marker stands between the FPDUs of a chain, which begins at ``place``, and others (RFC 5044 §4.3)."""
    marker, after = chain.end, chain.end + MARKER_LENGTH
    if run.octets[marker:after] != bytes(MARKER_LENGTH):
        return None
    octets, last = run.octets, chain.last
    if any(octets[at : at + 4] == (at - last).to_bytes(4, "big") for at in range(last + 4, marker, 4)):
        return None  # it stands in the last one, whose CRC field is zero
    behind = header_chain(run.octets, after)
    fpdus = chain.fpdus + behind.fpdus
    if behind.fpdus < FEWEST_HEADERS - 1 or fpdus < 2 * FEWEST_HEADERS:
        return None
    grid = (run.offset + marker) % MARKER_INTERVAL
    return Inferred(True, False, grid, None, fpdus, chain.bits + behind.bits, run.offset + place, behind.end - place)
